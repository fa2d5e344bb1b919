/* SPDX-License-Identifier: Apache-2.0 */
#include "core/settle.h"

#include <assert.h>
#include <stddef.h>

#include "core/lease.h"
#include "core/poison.h"
#include "core/redrive.h"
#include "core/session.h"

static enum ks_settle_status check_session(const struct ks_core *core, ks_session_id id,
                                           uint32_t epoch)
{
    const struct ks_session *session;

    if (id == KS_SESSION_NONE)
        return KS_SETTLE_OK;
    if (id >= core->config.sessions_max)
        return KS_SETTLE_UNKNOWN;
    session = &core->sessions[id];
    if (session->used && session->epoch == epoch)
        return KS_SETTLE_OK;
    if (session->used && epoch >= session->born_epoch && epoch < session->epoch)
        return KS_SETTLE_SESSION_FENCED;
    return KS_SETTLE_SESSION_EXPIRED;
}

/* Returns how many of them the session may settle that were not settled before, and the first of those. */
static uint64_t count_open(const struct ks_tracker *tracker, ks_session_id id, ks_number first,
                           ks_number beyond, ks_number *ret_first)
{
    uint64_t count = 0;

    for (ks_number n = beyond; n > first && n > tracker->mark; n--) {
        if (ks_tracker_is_settled(tracker, n - 1) || !ks_tracker_may_settle(tracker, n - 1, id))
            continue;
        *ret_first = n - 1;
        count++;
    }
    return count;
}

/* What one settlement could not do, as the first run of it. */
static void note_expired(struct ks_settled *settled, ks_number number)
{
    if (settled->expired_count == 0)
        settled->expired_first = number;
    if (number == settled->expired_first + settled->expired_count)
        settled->expired_count++;
}

static enum ks_settle_status status_of(const struct ks_settled *settled)
{
    return settled->expired_count > 0 ? KS_SETTLE_EXPIRED : KS_SETTLE_OK;
}

/* It may be delivered again. */
static bool is_open(const struct ks_slot *slot)
{
    return slot->state == KS_SLOT_PENDING || ks_slot_is_out(slot);
}

/* True if the settlement counts for the record. A record that was never handed to a connection is passed over: its id
 * does not name it. One that this session has not got whole is noted: it is delivered again. */
static bool counts(const struct ks_lease *lease, ks_session_id id, ks_number number,
                   struct ks_settled *settled)
{
    const struct ks_slot *slot = ks_tracker_slot(&lease->tracker, number);

    if (ks_tracker_may_settle(&lease->tracker, number, id))
        return true;
    if (slot->attempts > 0 && is_open(slot))
        note_expired(settled, number);
    return false;
}

static void acknowledge(struct ks_core *core, struct ks_lease *lease, ks_session_id id,
                        ks_number first, ks_number beyond, struct ks_settled *settled,
                        struct ks_effects *effects)
{
    ks_number mark = lease->tracker.mark;
    ks_number open;

    settled->count = count_open(&lease->tracker, id, first, beyond, &open);
    settled->up_to = beyond < mark ? beyond : mark;
    for (ks_number n = first < mark ? mark : first; n < beyond; n++) {
        if (n >= lease->tracker.mark && counts(lease, id, n, settled))
            ks_session_credit(core, lease, n, ks_tracker_settle(&lease->tracker, n));
        if (ks_tracker_is_settled(&lease->tracker, n))
            settled->up_to = n + 1;
    }
    ks_session_moved(core, lease, mark, effects);
}

/* A record that was settled before is not lost: it is not counted. */
static void drop(struct ks_core *core, struct ks_lease *lease, ks_session_id id, ks_number first,
                 ks_number beyond, struct ks_settled *settled, struct ks_effects *effects)
{
    ks_number open = first;
    uint64_t count = count_open(&lease->tracker, id, first, beyond, &open);
    struct ks_effect *effect;

    if (count > 0) {
        effect = ks_effects_story(effects, KS_STORY_DROPPED, lease->shard, KS_NOBODY);
        effect->story.number = open;
        effect->story.count = (uint32_t)count;
        effect->story.epoch = lease->epoch;
        effect->story.cause = KS_CAUSE_ASKED;
    }
    acknowledge(core, lease, id, first, beyond, settled, effects);
}

static void bury(struct ks_core *core, struct ks_lease *lease, ks_session_id id, ks_number first,
                 ks_number beyond, struct ks_settled *settled)
{
    ks_number mark = lease->tracker.mark;

    settled->up_to = beyond < mark ? beyond : mark;
    for (ks_number n = first < mark ? mark : first; n < beyond; n++)
        if (counts(lease, id, n, settled)) {
            ks_poison_bury(core, lease, n);
            settled->up_to = n + 1;
        }
    core->stirred = true; /* The lane goes on. */
    ks_session_mind(core, lease);
}

/* Each record takes the later deliveries of its lane back with it. A record that is with another session by now is not
 * this one's to take back. */
static enum ks_settle_status retry(struct ks_core *core, struct ks_lease *lease,
                                   const struct ks_event *event, struct ks_settled *settled)
{
    ks_session_id id = event->settle.session;
    ks_number first = event->settle.first;
    ks_number beyond = first + event->settle.count;
    ks_number mark = lease->tracker.mark;

    for (ks_number n = first < mark ? mark : first; n < beyond; n++) {
        struct ks_slot *slot = ks_tracker_slot(&lease->tracker, n);
        bool again = slot->failed;

        if (!is_open(slot) || slot->attempts == 0)
            continue;
        if (slot->session != id || !ks_tracker_may_settle(&lease->tracker, n, id)) {
            note_expired(settled, n);
            continue;
        }
        ks_session_recall(core, lease, n);
        ks_poison_failed(core, lease, n, event->settle.delay);
        settled->count += !again && is_open(slot); /* It may be given up. */
    }
    core->stirred = true;
    ks_session_mind(core, lease);
    return status_of(settled);
}

/* A settled record needs no deadline any more: it is not expired. */
static enum ks_settle_status extend(struct ks_core *core, struct ks_lease *lease,
                                    const struct ks_event *event, struct ks_settled *settled)
{
    struct ks_tracker *tracker = &lease->tracker;
    ks_instant deadline = ks_instant_add(core->now, event->settle.delay);
    ks_number first = event->settle.first;
    ks_number beyond = first + event->settle.count;

    for (ks_number n = first < tracker->mark ? tracker->mark : first; n < beyond; n++) {
        const struct ks_slot *slot = ks_tracker_slot(tracker, n);
        bool handed = slot->state == KS_SLOT_HANDED;

        if (!is_open(slot) || slot->attempts == 0)
            continue;
        if (slot->session != event->settle.session || !ks_tracker_extend(tracker, n, deadline))
            note_expired(settled, n);
        else if (handed)
            ks_session_wrote(core, lease, n);
    }
    ks_session_mind(core, lease);
    return status_of(settled);
}

/* Some of them were handed to a connection, or are settled. */
static bool was_delivered(const struct ks_tracker *tracker, ks_number first, ks_number beyond)
{
    bool some = first == beyond || first < tracker->mark;

    if (beyond < first || beyond > tracker->reached)
        return false;
    for (ks_number n = first; n < beyond && !some; n++)
        some = ks_tracker_slot(tracker, n)->attempts > 0 || ks_tracker_is_settled(tracker, n);
    return some;
}

static enum ks_settle_status settle(struct ks_core *core, const struct ks_event *event,
                                    struct ks_settled *settled, struct ks_effects *effects)
{
    struct ks_lease *lease = ks_lease_of(core, event->settle.shard, event->settle.epoch);
    ks_number first = event->settle.first;
    ks_number beyond = first + event->settle.count;
    ks_session_id id = event->settle.session;
    enum ks_settle_status status =
        check_session(core, event->settle.session, event->settle.session_epoch);

    if (status != KS_SETTLE_OK)
        return status;
    if (event->settle.shard == KS_SHARD_NONE)
        return ks_redrive_settle(core, event, settled);
    if (lease == NULL || lease->given_up)
        return KS_SETTLE_FENCED;
    if (!was_delivered(&lease->tracker, first, beyond))
        return KS_SETTLE_UNKNOWN;
    switch (event->settle.outcome) {
    case KS_ACK: acknowledge(core, lease, id, first, beyond, settled, effects); break;
    case KS_RETRY: return retry(core, lease, event, settled);
    case KS_EXTEND: return extend(core, lease, event, settled);
    case KS_DEAD_LETTER: bury(core, lease, id, first, beyond, settled); break;
    case KS_DROP: drop(core, lease, id, first, beyond, settled, effects); break;
    }
    return status_of(settled);
}

void ks_settle_records(struct ks_core *core, const struct ks_event *event,
                       struct ks_effects *effects)
{
    struct ks_settled settled = {.up_to = event->settle.first + event->settle.count};

    settled.status = settle(core, event, &settled, effects);
    ks_effects_add(effects, KS_EFFECT_SETTLED)->settled = settled;
}

void ks_settle_checkpoint(struct ks_core *core, const struct ks_event *event,
                          struct ks_effects *effects)
{
    struct ks_lease *lease = ks_lease_of(core, event->checkpoint.shard, event->checkpoint.epoch);
    struct ks_settled settled = {.status = KS_SETTLE_OK, .up_to = event->checkpoint.number + 1};

    if (lease == NULL || lease->given_up)
        settled.status = KS_SETTLE_FENCED;
    else if (!was_delivered(&lease->tracker, event->checkpoint.number,
                            event->checkpoint.number + 1))
        settled.status = KS_SETTLE_UNKNOWN;
    else
        acknowledge(core, lease, KS_SESSION_NONE, 0, settled.up_to, &settled, effects);
    ks_effects_add(effects, KS_EFFECT_SETTLED)->settled = settled;
}
