/* SPDX-License-Identifier: Apache-2.0 */
#include "core/judge.h"

#include <assert.h>

#include "core/lanes.h"
#include "core/lease.h"
#include "core/session.h"

void ks_judge_open(struct ks_core *core, uint64_t filter)
{
    const bool another = filter != core->filter;

    assert(!another || core->sessions_used == 1);

    if (filter == 0 && !another)
        return;
    core->filter = filter;
    for (uint32_t i = 0; i < core->leases_top; i++)
        if (core->leases[i].used)
            ks_tracker_judge_again(&core->leases[i].tracker, another);
    core->stirred = true;
}

/* True if somebody is to get the record, and the filter was not asked. `wanted` as ks_lanes_wanted() has it. */
static bool is_unjudged(const struct ks_tracker *tracker, ks_number number, uint64_t wanted)
{
    const struct ks_slot *slot = ks_tracker_slot(tracker, number);

    return slot->state == KS_SLOT_PENDING && !slot->taken &&
           (wanted >> ks_tracker_lane(tracker, slot) & 1) != 0;
}

static bool may_judge(const struct ks_lease *lease)
{
    return lease->used && lease->state == KS_LEASE_HELD && !lease->given_up;
}

/* Moves `judged` to the first record that is unjudged. False if there is none. */
static bool find_first(const struct ks_core *core, struct ks_lease *lease, uint64_t *ret_wanted)
{
    struct ks_tracker *tracker = &lease->tracker;

    if (tracker->judged < tracker->mark)
        tracker->judged = tracker->mark;
    if (!may_judge(lease) || tracker->judged == tracker->fetched)
        return false;
    *ret_wanted = ks_lanes_wanted(core, lease);
    while (tracker->judged < tracker->fetched &&
           !is_unjudged(tracker, tracker->judged, *ret_wanted))
        tracker->judged++;
    return tracker->judged < tracker->fetched;
}

static uint32_t count_run(const struct ks_tracker *tracker, uint64_t wanted, uint32_t max_records,
                          uint64_t max_bytes)
{
    uint64_t bytes = 0;
    uint32_t count = 0;

    while (count < max_records && tracker->judged + count < tracker->fetched &&
           is_unjudged(tracker, tracker->judged + count, wanted)) {
        bytes += ks_tracker_slot(tracker, tracker->judged + count)->bytes;
        if (count > 0 && bytes > max_bytes)
            break;
        count++;
    }
    return count;
}

bool ks_core_unjudged(struct ks_core *core, uint32_t max_records, uint64_t max_bytes,
                      struct ks_unjudged *ret_unjudged)
{
    uint64_t wanted;

    assert(max_records > 0);
    if (core->filter == 0 || core->sessions_used == 0)
        return false;
    for (uint32_t i = 0; i < core->leases_top; i++) {
        struct ks_lease *lease;

        if (core->judge_cursor >= core->leases_top)
            core->judge_cursor = 0;
        lease = &core->leases[core->judge_cursor++];
        if (!find_first(core, lease, &wanted))
            continue;
        *ret_unjudged = (struct ks_unjudged){
            .shard = lease->shard,
            .epoch = lease->epoch,
            .first = lease->tracker.judged,
            .count = count_run(&lease->tracker, wanted, max_records, max_bytes),
        };
        return true;
    }
    return false;
}

uint64_t ks_core_excluded(const struct ks_core *core)
{
    return core->excluded;
}

void ks_judge_records(struct ks_core *core, const struct ks_event *event,
                      struct ks_effects *effects)
{
    struct ks_lease *lease = ks_lease_of(core, event->judged.shard, event->judged.epoch);
    ks_number mark;
    uint64_t wanted;

    if (core->filter == 0 || lease == NULL || !may_judge(lease))
        return;
    mark = lease->tracker.mark;
    wanted = ks_lanes_wanted(core, lease);
    for (uint32_t i = 0; i < event->judged.count; i++) {
        const ks_number number = event->judged.first + i;

        if (number < mark || number >= lease->tracker.fetched ||
            !is_unjudged(&lease->tracker, number, wanted))
            continue;
        ks_tracker_slot(&lease->tracker, number)->taken = !event->judged.excluded[i];
        if (!event->judged.excluded[i])
            continue;
        (void)ks_tracker_settle(&lease->tracker, number);
        core->excluded++;
    }
    core->stirred = true;
    ks_session_moved(core, lease, mark, effects);
}

void ks_judge_check(const struct ks_core *core, const struct ks_lease *lease)
{
    const struct ks_tracker *tracker = &lease->tracker;

    const uint64_t wanted = ks_lanes_wanted(core, lease);

    assert(tracker->judged <= tracker->fetched);
    if (core->filter == 0)
        return;
    for (ks_number n = tracker->mark; n < tracker->fetched; n++) {
        assert(ks_tracker_slot(tracker, n)->taken || !ks_slot_is_out(ks_tracker_slot(tracker, n)));
        /* It would wait for ever. */
        assert(n >= tracker->judged || !is_unjudged(tracker, n, wanted));
    }
}
