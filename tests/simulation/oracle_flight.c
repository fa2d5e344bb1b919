/* SPDX-License-Identifier: Apache-2.0 */
#include "oracle_flight.h"

#include <assert.h>
#include <stddef.h>

#include "oracle_place.h"
#include "oracle_skip.h"
#include "oracle_share.h"
#include "oracle_write.h"
#include "world.h"

uint8_t oracle_hash(ks_shard shard, uint64_t index)
{
    /* Few keys, so that each has several records; the same in all epochs. */
    return (uint8_t)(index * 7 % 11 * 53 + shard);
}

/* ---- Ack deadlines ---- */

void oracle_turn(const struct world *world, struct process *process, ks_instant now)
{
    world_redrive_turn(process, now);
    for (ks_shard shard = 0; shard < SIM_SHARDS; shard++) {
        struct place place = place_of(world, process, shard);
        uint64_t recalled = 0;

        if (!place.reader->open || place.lane->earliest_due > now.us)
            continue;
        place.lane->earliest_due = INT64_MAX;
        for (uint64_t i = place.reader->forgot; i < place.lane->delivered; i++) {
            struct oracle_record *record = record_at(&place, i);
            bool behind = !is_unordered(&place) && (recalled & lane_of(&place, i)) != 0;

            if (record->state != RECORD_FLYING && record->state != RECORD_DOUBT)
                continue;
            /* One that is back takes all behind it back, too: also what is delivered before the core looks. */
            if (record->due <= now.us)
                recalled |= lane_of(&place, i);
            if (behind || record->due <= now.us)
                land(&place, i, RECORD_DOUBT);
            if (record->due < place.lane->earliest_due)
                place.lane->earliest_due = record->due;
        }
    }
}

/* The core knows the time: what was due is back in its lane. */
static void expire(const struct world *world, struct process *process, ks_instant now)
{
    for (ks_shard shard = 0; shard < SIM_SHARDS; shard++) {
        struct place place = place_of(world, process, shard);

        for (uint64_t i = place.reader->forgot; place.reader->open && i < place.lane->delivered;
             i++) {
            const struct oracle_record *record = record_at(&place, i);

            if (record->state == RECORD_DOUBT && record->due <= now.us)
                recall(&place, i, RECORD_WAITING);
        }
    }
}

/* ---- Settling ---- */

static bool is_held(const struct place *place)
{
    struct ks_lease_view lease;

    return shell_lease(place->process, place->shard, &lease) && lease.state == KS_LEASE_HELD &&
           !place->process->seeking[place->shard];
}

static void settle_one(struct world *world, const struct place *place, uint64_t number)
{
    land(place, number, RECORD_SETTLED);
    world_stream_settle(world, place->shard, place->reader->base + number);
}

/* True if the record may be given up, because somebody wanted it or the policy says so. */
static bool may_die(const struct place *place, uint64_t number)
{
    const struct ks_poison_policy *policy = &place->world->swarm.core.poison;
    const struct world_shard *of = &place->world->stream.shards[place->shard];
    const struct oracle_record *record = record_at(place, number);
    bool ends =
        policy->exhausted == KS_EXHAUSTED_DEAD_LETTER || policy->exhausted == KS_EXHAUSTED_DROP;
    int64_t drift = (place->world->now - place->reader->opened_at) / 10;
    int64_t age = place->world->now - of->arrived[place->reader->base + number];

    if (record->asked)
        return true;
    if (!ends)
        return false;
    /* Clocks drift, since the epoch began, and the age is told in milliseconds. */
    return (policy->max_attempts != 0 && record->written >= policy->max_attempts) ||
           (policy->max_age.us != 0 && age + age / 10 + drift + 2 * SIM_MS >= policy->max_age.us);
}

/* The core has given it up, if it says so. */
static bool has_died(struct world *world, const struct place *place, uint64_t number)
{
    struct oracle_record *record = record_at(place, number);

    if (record->state == RECORD_DYING)
        return true;
    if (record->state == RECORD_SETTLED || !shell_is_dying(place->process, place->shard, number))
        return false;
    if (!may_die(place, number))
        oracle_fail(world, "w%u gives up record %llu of shard-%u, and nobody wanted it",
                    place->process->worker, (unsigned long long)number, place->shard);
    land(place, number, RECORD_DYING);
    return true;
}

/* A settlement by `session` (SIM_SESSIONS: by a checkpoint) of records of which the core says that they are settled. */
static void acknowledge(struct world *world, const struct place *place, uint32_t session,
                        uint64_t assignment, uint64_t first, uint64_t count)
{
    uint64_t known = place->lane->delivered;

    /* A record that was given up before it was ever delivered is settled, too. */
    if (known < place->reader->forgot)
        known = place->reader->forgot;
    if (first + count > known) {
        oracle_fail(world, "w%u takes an ack of shard-%u for what it never delivered",
                    place->process->worker, place->shard);
        return;
    }
    for (uint64_t i = first; i < first + count; i++) {
        const struct oracle_record *record = record_at(place, i);
        bool saw = session == SIM_SESSIONS || has_got(record, session, assignment);

        if (i < place->reader->forgot || record->state == RECORD_SETTLED)
            continue;
        if (!shell_is_settled(place->process, place->shard, i)) {
            /* Its dead letter is being written: a session that had got it before wanted that. */
            if (has_died(world, place, i))
                continue;
            if (session == SIM_SESSIONS ? record->written > 0
                                        : is_last(record, session, assignment))
                oracle_fail(world, "w%u does not settle record %llu of shard-%u for its session",
                            place->process->worker, (unsigned long long)i, place->shard);
            continue;
        }
        if (!saw || record->written == 0)
            oracle_fail(world,
                        "w%u settles record %llu of shard-%u for session %u, which has not "
                        "got it",
                        place->process->worker, (unsigned long long)i, place->shard, session);
        settle_one(world, place, i);
    }
}

/* What is with another session stays there. */
static void retry(const struct place *place, const struct ks_event *event, ks_instant now)
{
    uint64_t end = event->settle.first + event->settle.count;
    int64_t delay = event->settle.delay.us < 0 ? 0 : event->settle.delay.us;

    for (uint64_t i = event->settle.first; i < end && i < place->lane->delivered; i++) {
        struct oracle_record *record = record_at(place, i);

        if (i < place->reader->forgot || !is_out(place, i))
            take_back_again(place, i, event->settle.session);
        if (i < place->reader->forgot || !is_out(place, i) ||
            record->session != event->settle.session ||
            !is_last(record, event->settle.session, event->settle.assignment))
            continue;
        recall(place, i, RECORD_WAITING);
        if (record->not_before < now.us + delay)
            record->not_before = now.us + delay;
    }
}

/* True if the request is about a record that is not this session's any more, or about an older delivery. */
static bool names_foreign(struct world *world, const struct place *place,
                          const struct ks_event *event)
{
    uint64_t end = event->settle.first + event->settle.count;
    uint64_t assignment = event->settle.assignment;

    for (uint64_t i = event->settle.first; i < end && i < place->lane->delivered; i++) {
        const struct oracle_record *record = record_at(place, i);
        bool older = record->last != SIM_SESSIONS && assignment != 0 &&
                     !is_last(record, event->settle.session, assignment);

        if (i >= place->reader->forgot && is_out(place, i) &&
            (older || record->session != event->settle.session) && !has_died(world, place, i))
            return true;
    }
    return false;
}

static void ask_for_letters(struct world *world, const struct place *place,
                            const struct ks_event *event)
{
    uint64_t end = event->settle.first + event->settle.count;
    uint32_t session = event->settle.session;

    for (uint64_t i = event->settle.first; i < end && i < place->lane->delivered; i++) {
        struct oracle_record *record = record_at(place, i);
        bool saw = has_got(record, session, oracle_seen_in(event));
        bool taken = i < place->reader->forgot || shell_is_dying(place->process, place->shard, i) ||
                     shell_is_settled(place->process, place->shard, i);

        if (i < place->reader->forgot || !is_out(place, i))
            continue;
        if (taken && !saw && !may_die(place, i))
            oracle_fail(world,
                        "w%u gives up record %llu of shard-%u for session %u, which has not "
                        "got it",
                        place->process->worker, (unsigned long long)i, place->shard, session);
        if (!taken && is_last(record, session, event->settle.assignment))
            oracle_fail(world, "w%u does not give up record %llu of shard-%u for its session",
                        place->process->worker, (unsigned long long)i, place->shard);
        if (!taken)
            continue;
        record->asked = true;
        land(place, i, RECORD_DYING);
    }
}

/* ---- Records that are given up ---- */

void oracle_flight_bury(struct world *world, struct process *process,
                        const struct ks_effect *effect)
{
    struct place place = place_of(world, process, effect->bury.shard);
    uint64_t end = effect->bury.first + effect->bury.count;

    if (!is_current(&place, effect->bury.epoch) || effect->bury.count == 0 ||
        effect->bury.count > KS_BURY_MAX || end > place.reader->fetched ||
        place.lane->bury_serial != 0) {
        oracle_fail(world, "w%u buries records of shard-%u that it does not have", process->worker,
                    place.shard);
        return;
    }
    place.lane->burying = effect->bury.first;
    place.lane->burying_count = effect->bury.count;
    place.lane->bury_serial = effect->bury.serial;
    for (uint64_t i = effect->bury.first; i < end; i++)
        if (!has_died(world, &place, i))
            oracle_fail(world, "w%u buries record %llu of shard-%u, which is not given up",
                        process->worker, (unsigned long long)i, place.shard);
}

/* The answer came to the core: what is durable counts as settled from now on. */
static void buried(struct world *world, struct process *process, const struct ks_event *event)
{
    struct place place = place_of(world, process, event->buried.shard);
    uint64_t end = place.lane->burying + place.lane->burying_count;

    if (!is_current(&place, event->buried.epoch) || place.lane->bury_serial != event->buried.serial)
        return;
    place.lane->bury_serial = 0;
    for (uint64_t i = place.lane->burying; event->buried.outcome == KS_DONE && i < end; i++)
        if (i >= place.reader->forgot)
            settle_one(world, &place, i);
}

/* What the story tells of records that fail. */
void oracle_flight_story(struct world *world, struct process *process,
                         const struct ks_effect *effect)
{
    struct place place = place_of(world, process, effect->story.shard);
    uint64_t end = effect->story.number + effect->story.count;

    if (effect->story.story == KS_STORY_STOPPED) {
        place.lane->stopped = effect->story.number + 1;
        process->truth.paused |= world->swarm.core.poison.exhausted == KS_EXHAUSTED_PAUSE;
        return;
    }
    if (effect->story.story == KS_STORY_SKIPPED) {
        settle_one(world, &place, effect->story.number);
        return;
    }
    if (effect->story.cause == KS_CAUSE_ASKED)
        return; /* It was settled. */
    for (uint64_t i = effect->story.number; i < end; i++) {
        if (i < place.reader->forgot || record_at(&place, i)->state == RECORD_SETTLED)
            continue;
        if (world->swarm.core.poison.exhausted != KS_EXHAUSTED_DROP || !may_die(&place, i))
            oracle_fail(world, "w%u drops record %llu of shard-%u, and nobody wanted it",
                        process->worker, (unsigned long long)i, place.shard);
        settle_one(world, &place, i);
    }
}

static bool is_stopped(const struct place *place)
{
    uint64_t by = place->lane->stopped;

    return place->process->truth.paused ||
           (by > place->reader->forgot && record_at(place, by - 1)->state != RECORD_SETTLED);
}

static void go_on(struct process *process, ks_shard of)
{
    if (of == KS_SHARD_NONE)
        process->truth.paused = false;
    for (ks_shard shard = 0; shard < SIM_SHARDS; shard++)
        if (of == KS_SHARD_NONE || of == shard)
            process->truth.lanes[shard].stopped = 0;
}

/* `all`: every one was in flight. Otherwise those in doubt may be in their lane again, or not. */
static void extend(const struct place *place, const struct ks_event *event, bool all,
                   ks_instant now)
{
    int64_t due = now.us + event->settle.delay.us;
    uint64_t end = event->settle.first + event->settle.count;

    /* One in front that may be back in the lane may have taken these back, too. */
    for (uint64_t i = place->reader->forgot; i < event->settle.first && !is_unordered(place); i++)
        all = all && record_at(place, i)->state != RECORD_DOUBT;
    for (uint64_t i = event->settle.first; i < end && i < place->lane->delivered; i++) {
        struct oracle_record *record = record_at(place, i);
        enum oracle_state state = record->state;

        if (i < place->reader->forgot || record->session != event->settle.session ||
            (state != RECORD_FLYING && state != RECORD_DOUBT) ||
            (event->settle.assignment != 0 && record->last_in != event->settle.assignment))
            continue;
        land(place, i, RECORD_DOUBT);
        record->due = due;
        if (due < place->lane->earliest_due)
            place->lane->earliest_due = due;
        /* One that had expired may have been given up for it: then it needs no deadline any more. */
        if (all && (state == RECORD_FLYING || !may_die(place, i)))
            fly(place, i, record->session, due);
    }
}

/* What is in the lane again cannot be extended. */
static void check_extended(struct world *world, const struct place *place,
                           const struct ks_event *event)
{
    uint64_t end = event->settle.first + event->settle.count;

    for (uint64_t i = event->settle.first; i < end && i < place->lane->delivered; i++)
        if (is_current(place, event->settle.epoch) && i >= place->reader->forgot &&
            (record_at(place, i)->state == RECORD_WAITING ||
             record_at(place, i)->state == RECORD_TAKEN) &&
            record_at(place, i)->written > 0 && !has_died(world, place, i))
            oracle_fail(world, "w%u extends a delivery of shard-%u that was requeued",
                        place->process->worker, place->shard);
}

/* True if it is not about the last delivery of one of the records. */
static bool is_older(const struct place *place, const struct ks_event *event)
{
    uint64_t end = event->settle.first + event->settle.count;

    for (uint64_t i = event->settle.first; i < end && i < place->lane->delivered; i++)
        if (i >= place->reader->forgot &&
            !is_last(record_at(place, i), event->settle.session, event->settle.assignment))
            return true;
    return false;
}

/* True if the oracle does not know that all of the records are settled or given up. */
static bool may_be_open(const struct place *place, const struct ks_event *event)
{
    uint64_t end = event->settle.first + event->settle.count;

    for (uint64_t i = event->settle.first; i < end && i < place->lane->delivered; i++)
        if (i >= place->reader->forgot && is_out(place, i))
            return true;
    return false;
}

/* True if one of the records is certainly neither settled nor given up. */
static bool has_open(struct world *world, const struct place *place, const struct ks_event *event)
{
    uint64_t end = event->settle.first + event->settle.count;

    for (uint64_t i = event->settle.first; i < end && i < place->lane->delivered; i++)
        if (i >= place->reader->forgot && is_out(place, i) && !has_died(world, place, i) &&
            !shell_is_settled(place->process, place->shard, i))
            return true;
    return false;
}

/* What the answer to a settlement has to be, where the rules leave no choice. */
static void check_status(struct world *world, const struct place *place,
                         const struct ks_event *event, enum ks_settle_status status)
{
    const struct oracle_session *session = &place->process->truth.sessions[event->settle.session];
    bool known = session->live && session->epoch == event->settle.session_epoch;
    bool of_session = status == KS_SETTLE_SESSION_FENCED || status == KS_SETTLE_SESSION_EXPIRED;
    bool delivered = was_delivered(place, event->settle.first, event->settle.count);
    bool is_retry = event->settle.outcome == KS_RETRY;
    bool foreign = is_retry && names_foreign(world, place, event);
    const char *wrong = NULL;

    if (!known && !of_session)
        wrong = "of a session that is over is accepted";
    else if (known && of_session)
        wrong = "of a live session is refused as the session's";
    else if (known && !is_current(place, event->settle.epoch) && status == KS_SETTLE_OK)
        wrong = "of another epoch is accepted";
    else if (known && place->process->seeking[place->shard] && status == KS_SETTLE_OK)
        wrong = "of an epoch that a seek ends is accepted";
    else if (known && is_current(place, event->settle.epoch) && is_held(place)) {
        if (delivered && status != KS_SETTLE_OK &&
            !(event->settle.outcome == KS_EXTEND && status == KS_SETTLE_EXPIRED) &&
            !(status == KS_SETTLE_EXPIRED && (foreign || is_older(place, event))) &&
            !(is_retry && status == KS_SETTLE_SETTLED && !has_open(world, place, event)))
            wrong = "of a delivery is refused";
        if (is_retry && status == KS_SETTLE_OK && !may_be_open(place, event) &&
            !may_be_given_up(place, event->settle.first, event->settle.count))
            wrong = "takes nothing back and is accepted";
        if (is_retry && foreign && status == KS_SETTLE_OK)
            wrong = "takes back what is not its session's";
        if (status != KS_SETTLE_UNKNOWN &&
            !was_written(place, event->settle.first, event->settle.count))
            wrong = "of what was never delivered is not unknown";
    }
    if (wrong != NULL)
        oracle_fail(world, "w%u: a settlement of shard-%u %s (status %d)", place->process->worker,
                    place->shard, wrong, (int)status);
}

static void settled(struct world *world, struct process *process, const struct ks_event *event,
                    enum ks_settle_status status, ks_instant now)
{
    struct place place = place_of(world, process, event->settle.shard);

    check_status(world, &place, event, status);
    /* Expired: some of the range is in the lane again; the rest was extended. */
    if (event->settle.outcome == KS_EXTEND && status == KS_SETTLE_OK)
        check_extended(world, &place, event);
    if ((status != KS_SETTLE_OK && status != KS_SETTLE_EXPIRED) ||
        !is_current(&place, event->settle.epoch))
        return;
    switch (event->settle.outcome) {
    case KS_ACK:
        acknowledge(world, &place, event->settle.session, oracle_seen_in(event),
                    event->settle.first, event->settle.count);
        break;
    case KS_RETRY: retry(&place, event, now); break;
    case KS_DEAD_LETTER: ask_for_letters(world, &place, event); break;
    case KS_DROP:
        acknowledge(world, &place, event->settle.session, oracle_seen_in(event),
                    event->settle.first, event->settle.count);
        break;
    case KS_EXTEND: extend(&place, event, status == KS_SETTLE_OK, now); break;
    }
}

static void checkpointed(struct world *world, struct process *process, const struct ks_event *event,
                         enum ks_settle_status status)
{
    struct place place = place_of(world, process, event->checkpoint.shard);
    bool current = is_current(&place, event->checkpoint.epoch);

    if (!current && status == KS_SETTLE_OK)
        oracle_fail(world, "w%u takes a checkpoint of an ended epoch of shard-%u", process->worker,
                    place.shard);
    if (current && status != KS_SETTLE_OK && is_held(&place) &&
        was_delivered(&place, event->checkpoint.number, 1))
        oracle_fail(world, "w%u refuses a checkpoint of shard-%u (status %d)", process->worker,
                    place.shard, (int)status);
    if (current && status == KS_SETTLE_OK && event->checkpoint.number >= place.reader->forgot)
        acknowledge(world, &place, SIM_SESSIONS, 0, place.reader->forgot,
                    event->checkpoint.number + 1 - place.reader->forgot);
}

/* ---- Sessions ---- */

/* The session is over: what it had comes back. */
static void requeue(const struct world *world, struct process *process, uint32_t session)
{
    for (ks_shard shard = 0; shard < SIM_SHARDS; shard++) {
        struct place place = place_of(world, process, shard);

        for (uint64_t i = place.reader->forgot; place.reader->open && i < place.lane->delivered;
             i++)
            if (has_credit(record_at(&place, i)) && record_at(&place, i)->session == session)
                recall(&place, i, RECORD_WAITING);
        for (uint64_t i = place.reader->forgot; place.reader->open && i < place.lane->delivered;
             i++) {
            record_at(&place, i)->got_by &= (uint8_t)~bit_of(session);
            if (record_at(&place, i)->last == session)
                record_at(&place, i)->last = SIM_SESSIONS;
        }
    }
    world_redrive_requeue(process, session);
    process->truth.sessions[session].live = false;
}

static uint32_t live_sessions(const struct process *process)
{
    uint32_t live = 0;

    for (uint32_t i = 0; i < SIM_SESSIONS; i++)
        live += process->truth.sessions[i].live;
    return live;
}

static uint32_t lanes_of(const struct ks_event *event)
{
    return event->open.ordering == KS_ORDER_BY_KEY ? event->open.lanes : 1;
}

/* The first one says how records are ordered, the others agree. */
static void check_order(struct world *world, struct process *process, const struct ks_event *event)
{
    struct oracle_process *truth = &process->truth;

    if (live_sessions(process) == 0) {
        truth->ordering =
            event->open.ordering == KS_ORDER_ANY ? KS_ORDER_BY_SHARD : event->open.ordering;
        truth->lane_count = lanes_of(event);
    } else if (event->open.ordering != KS_ORDER_ANY &&
               (event->open.ordering != truth->ordering || lanes_of(event) != truth->lane_count)) {
        oracle_fail(world, "w%u opens a session that wants another order than the others",
                    process->worker);
    }
}

void oracle_opened(struct world *world, struct process *process, const struct ks_event *event,
                   uint32_t session, uint32_t session_epoch)
{
    struct oracle_session *opened = &process->truth.sessions[session];

    process->truth.answers++;
    if (session >= SIM_SESSIONS || event->kind != KS_EVENT_SESSION_OPEN) {
        oracle_fail(world, "w%u opens a session that cannot be", process->worker);
        return;
    }
    if (event->open.take_over != KS_SESSION_NONE)
        requeue(world, process, event->open.take_over);
    check_order(world, process, event);
    if (opened->live)
        oracle_fail(world, "w%u opens session %u twice", process->worker, session);
    if (opened->epoch >= session_epoch)
        oracle_fail(world, "w%u uses an epoch of session %u again", process->worker, session);
    *opened = (struct oracle_session){.live = true,
                                      .epoch = session_epoch,
                                      .max_in_flight = event->open.max_in_flight,
                                      .max_bytes = event->open.max_in_flight_bytes,
                                      .max_record_bytes = event->open.max_record_bytes,
                                      .explicit_credit = event->open.explicit_credit,
                                      .ack_deadline = event->open.ack_deadline,
                                      .shard_count = event->open.shard_count};
    oracle_share_opened(world, process, event, opened);
    for (uint32_t i = 0; i < event->open.shard_count; i++)
        opened->shards[i] = event->open.shards[i];
}

void oracle_ended(struct world *world, struct process *process, uint32_t session)
{
    if (session >= SIM_SESSIONS || !process->truth.sessions[session].live)
        oracle_fail(world, "w%u ends session %u, which is not open", process->worker, session);
    else
        requeue(world, process, session);
}

/* ---- Deliveries ---- */

/* Everything in front of a delivery in its lane is settled or given up, or with the same session. */
static void check_front(struct world *world, const struct place *place, uint64_t first,
                        uint64_t lanes, uint32_t session)
{
    for (uint64_t i = place->reader->forgot; i < first && !is_unordered(place); i++) {
        const struct oracle_record *record = record_at(place, i);

        if ((lane_of(place, i) & lanes) == 0)
            continue;
        if (record->state == RECORD_DOUBT)
            (void)has_died(world, place, i);
        if ((record->state == RECORD_WAITING || record->state == RECORD_NEW) &&
            !has_died(world, place, i))
            oracle_fail(world, "w%u delivers record %llu of shard-%u before record %llu",
                        place->process->worker, (unsigned long long)first, place->shard,
                        (unsigned long long)i);
        if (has_credit(record) && record->session != session)
            oracle_fail(world, "w%u splits a lane of shard-%u between two sessions",
                        place->process->worker, place->shard);
    }
}

/* One that goes out again took what was behind it in its lane back before. */
static void recall_behind(const struct place *place, uint64_t number)
{
    for (uint64_t i = number + 1; i < place->lane->delivered && !is_unordered(place); i++)
        if (lane_of(place, i) == lane_of(place, number)) {
            recall(place, i, RECORD_WAITING);
            return;
        }
}

/* The credit that was granted, and the size that the session takes. */
static void check_session(struct world *world, const struct place *place, uint32_t id,
                          uint64_t number)
{
    struct oracle_session *session = &place->process->truth.sessions[id];
    uint32_t bytes = world->stream.shards[place->shard].sizes[place->reader->base + number];

    if (session->explicit_credit && session->granted-- == 0)
        oracle_fail(world, "w%u delivers beyond what session %u granted", place->process->worker,
                    id);
    if (session->max_record_bytes != 0 && bytes > session->max_record_bytes)
        oracle_fail(world, "w%u delivers a record larger than session %u takes",
                    place->process->worker, id);
}

static void deliver_one(struct world *world, const struct place *place,
                        const struct ks_effect *effect, uint64_t number, ks_instant now)
{
    struct oracle_session *session = &place->process->truth.sessions[effect->deliver.session];
    struct oracle_record *record = record_at(place, number);
    enum oracle_state state = record->state;
    bool again = state != RECORD_NEW;
    const char *wrong = NULL;

    if (is_stopped(place))
        wrong = "though its shard was stopped";
    else if (state == RECORD_SETTLED)
        wrong = "after it was settled";
    else if (state == RECORD_DYING)
        wrong = "after it was given up";
    else if (state == RECORD_FLYING || state == RECORD_TAKEN)
        wrong = "while it is in flight";
    else if (state == RECORD_WAITING && now.us < record->not_before)
        wrong = "before the delay of its nack";
    else if (!is_next_attempt(effect->deliver.attempt, record->written, record->half_way))
        wrong = "with a wrong attempt";
    if (wrong != NULL) {
        oracle_fail(world, "w%u delivers record %llu of shard-%u %s", place->process->worker,
                    (unsigned long long)number, place->shard, wrong);
        return;
    }
    /* The last record may go beyond the limit. */
    if (session->bytes >= session->max_bytes && session->in_flight > 0 &&
        place->world->stream.shards[place->shard].sizes[place->reader->base + number] > 0)
        oracle_fail(world, "w%u delivers beyond the bytes of session %u", place->process->worker,
                    effect->deliver.session);
    if (again)
        recall_behind(place, number);
    if (place->lane->delivered <= number)
        place->lane->delivered = number + 1;
    check_session(world, place, effect->deliver.session, number);
    take(place, number, effect);
    record->not_before = INT64_MIN;
    if (session->in_flight > session->max_in_flight)
        oracle_fail(world, "w%u delivers beyond the credit of session %u", place->process->worker,
                    effect->deliver.session);
}

/* The pull, its session, its limits. */
static void check_pull(struct world *world, struct process *process, const struct ks_effect *effect)
{
    struct oracle_process *truth = &process->truth;
    const struct ks_event *event = truth->event;
    struct oracle_session *session;
    bool wanted;

    if (event->kind != KS_EVENT_SESSION_PULL || event->pull.session != effect->deliver.session ||
        !truth->sessions[effect->deliver.session].live) {
        oracle_fail(world, "w%u delivers what nobody pulled", process->worker);
        return;
    }
    session = &truth->sessions[effect->deliver.session];
    wanted = session->shard_count == 0;
    for (uint32_t i = 0; i < session->shard_count; i++)
        wanted = wanted || session->shards[i] == effect->deliver.shard;
    if (!wanted)
        oracle_fail(world, "w%u delivers shard-%u to a session that did not name it",
                    process->worker, effect->deliver.shard);
    /* Records of another answer would be missing between those of this one. */
    if (event->pull.after != 0 && truth->runs == 0 && session->pulled != event->pull.after)
        oracle_fail(world, "w%u continues an answer behind another one", process->worker);
    session->pulled = effect->deliver.assignment;
    if (++truth->runs > event->pull.max_runs)
        oracle_fail(world, "w%u delivers more runs than were pulled", process->worker);
    truth->records += effect->deliver.count;
    if (truth->records > event->pull.max_records)
        oracle_fail(world, "w%u delivers more records than were pulled", process->worker);
    /* Only one record that is alone in its answer may be larger. */
    if (truth->bytes > event->pull.max_bytes &&
        (event->pull.after != 0 || truth->bytes > truth->first_bytes))
        oracle_fail(world, "w%u delivers more bytes than were pulled", process->worker);
}

void oracle_flight_delivered(struct world *world, struct process *process,
                             const struct ks_effect *effect, ks_instant now)
{
    struct place place = place_of(world, process, effect->deliver.shard);
    uint64_t first = effect->deliver.first;
    uint64_t lanes = 0;
    const uint32_t *sizes;

    if (!is_current(&place, effect->deliver.epoch) || effect->deliver.count == 0 ||
        first + effect->deliver.count > place.reader->fetched || first < place.reader->forgot ||
        effect->deliver.session >= SIM_SESSIONS) {
        oracle_fail(world, "w%u delivers records of shard-%u that it does not have",
                    process->worker, place.shard);
        return;
    }
    sizes = &world->stream.shards[place.shard].sizes[place.reader->base + first];
    if (process->truth.runs == 0)
        process->truth.first_bytes = sizes[0];
    for (uint32_t i = 0; i < effect->deliver.count; i++)
        process->truth.bytes += sizes[i];
    check_pull(world, process, effect);
    for (uint32_t i = 0; i < effect->deliver.count; i++)
        lanes |= lane_of(&place, first + i);
    check_front(world, &place, first, lanes, effect->deliver.session);
    oracle_share_delivered(world, process, place.shard, lanes, effect->deliver.session);
    world->delivered += effect->deliver.count;
    if (effect->deliver.attempt > 1)
        world->redelivered += effect->deliver.count;
    /* A planned move of an app that settles in time delivers nothing twice, but for what was settled in one lane behind
     * what another had not been sent, or excluded by a filter; who has what an operator has spoilt does not know of the
     * other who has it. */
    for (uint32_t i = 0; world->exam_at != 0 && world->exam != EXAM_KILL && world->swarm.one_lane &&
                         world->swarm.filters == 0 && i < effect->deliver.count;
         i++)
        if (world->stream.shards[place.shard].made == 0 &&
            world->stream.shards[place.shard].settled[place.reader->base + first + i])
            oracle_fail(world, "w%u delivers record %llu of shard-%u again, after a planned move",
                        process->worker, (unsigned long long)(place.reader->base + first + i),
                        place.shard);
    for (uint32_t i = 0; i < effect->deliver.count && !world->failed; i++)
        deliver_one(world, &place, effect, first + i, now);
}

void oracle_flight_closed(const struct world *world, struct process *process, ks_shard shard)
{
    struct place place = place_of(world, process, shard);

    for (uint64_t i = place.reader->forgot; i < place.lane->delivered; i++)
        land(&place, i, RECORD_SETTLED);
}

static void updated(struct process *process, const struct ks_event *event)
{
    struct oracle_session *session = &process->truth.sessions[event->update.session];

    if (event->update.max_in_flight != 0)
        session->max_in_flight = event->update.max_in_flight;
    if (event->update.max_in_flight_bytes != 0)
        session->max_bytes = event->update.max_in_flight_bytes;
    if (event->update.max_record_bytes != 0)
        session->max_record_bytes = event->update.max_record_bytes;
}

void oracle_flight_stepped(struct world *world, struct process *process,
                           const struct ks_event *event, const struct ks_effects *effects,
                           ks_instant now)
{
    enum ks_settle_status status = KS_SETTLE_UNKNOWN;

    if (event->kind == KS_EVENT_WRITE)
        oracle_wrote(world, process, event, now);
    oracle_write_sync(world, process);
    if (event->kind == KS_EVENT_TICK && ks_core_deadline(process->core).us > now.us)
        expire(world, process, now);
    if (event->kind == KS_EVENT_SESSION_CLOSE &&
        process->truth.sessions[event->session.session].live)
        requeue(world, process, event->session.session);
    if (event->kind == KS_EVENT_BURIED)
        buried(world, process, event);
    if (event->kind == KS_EVENT_RESUME)
        go_on(process, event->shard.shard);
    if (event->kind == KS_EVENT_SKIP)
        oracle_skipped(world, process, event, effects);
    if (event->kind == KS_EVENT_GRANT)
        process->truth.sessions[event->grant.session].granted += event->grant.records;
    if (event->kind == KS_EVENT_SESSION_UPDATE)
        updated(process, event);
    if (event->kind != KS_EVENT_SETTLE && event->kind != KS_EVENT_CHECKPOINT)
        return;
    for (uint32_t i = 0; i < effects->count; i++)
        if (effects->items[i].kind == KS_EFFECT_SETTLED)
            status = effects->items[i].settled.status;
    if (event->kind == KS_EVENT_SETTLE && event->settle.shard == KS_SHARD_NONE)
        world_redrive_settled(world, process, event, status, now);
    else if (event->kind == KS_EVENT_SETTLE)
        settled(world, process, event, status, now);
    else
        checkpointed(world, process, event, status);
}

bool oracle_flight_is_flying(const struct world *world, struct process *process, ks_shard shard)
{
    struct place place = place_of(world, process, shard);

    if (place.reader->open && place.lane->half_way > 0)
        return true;
    for (uint64_t i = place.reader->forgot; place.reader->open && i < place.lane->delivered; i++)
        if (record_at(&place, i)->state == RECORD_FLYING ||
            (record_at(&place, i)->state == RECORD_TAKEN && record_at(&place, i)->begun))
            return true;
    return false;
}
