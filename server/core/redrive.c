/* SPDX-License-Identifier: Apache-2.0 */
#include "core/redrive.h"

#include <assert.h>
#include <stddef.h>

#include "core/lanes.h"
#include "core/poison.h"
#include "core/session.h"

/* What the store did not do is asked again after this. */
#define TELL_AGAIN ks_span_ms(1000)

static struct ks_redrive *find(struct ks_core *core, ks_number number)
{
    for (uint32_t i = 0; core->redrives_used > 0 && i < KS_REDRIVES_MAX; i++)
        if (core->redrives[i].state != KS_REDRIVE_NONE && core->redrives[i].number == number)
            return &core->redrives[i];
    return NULL;
}

void ks_redrive_begin(struct ks_core *core, const struct ks_event *event)
{
    struct ks_redrive *letter = core->redrives;

    assert(core->redrives_used < KS_REDRIVES_MAX);
    assert(event->redrive.number >= core->redrive_next);

    while (letter->state != KS_REDRIVE_NONE)
        letter++;
    *letter = (struct ks_redrive){
        .state = KS_REDRIVE_WAITING,
        .number = event->redrive.number,
        .shard = event->redrive.shard,
        .bytes = event->redrive.bytes,
        .hash = event->redrive.hash,
        .attempts = event->redrive.attempts,
        .at = core->now,
        .seen_by = KS_SESSION_NONE,
        .stale_at =
            event->redrive.stale_s == UINT32_MAX
                ? KS_NEVER
                : ks_instant_add(core->now, ks_span_ms((int64_t)event->redrive.stale_s * 1000)),
    };
    core->redrive_next = event->redrive.number + 1;
    core->redrives_used++;
    core->redrive_bytes += letter->bytes;
    core->stirred = true;
}

static bool is_unwritten(const struct ks_redrive *letter)
{
    return letter->state == KS_REDRIVE_ASSIGNED || letter->state == KS_REDRIVE_BEGUN;
}

static void leave_unwritten(struct ks_session *session, const struct ks_redrive *letter)
{
    assert(session->unwritten > 0 && session->unwritten_bytes >= letter->bytes);
    session->unwritten--;
    session->unwritten_bytes -= letter->bytes;
}

/* It is with no session any more. */
static void land(struct ks_core *core, struct ks_redrive *letter, enum ks_redrive_state state)
{
    struct ks_session *session = &core->sessions[letter->session];

    if (ks_redrive_is_out(letter)) {
        assert(session->in_flight > 0 && session->in_flight_bytes >= letter->bytes);
        session->in_flight--;
        session->in_flight_bytes -= letter->bytes;
        if (is_unwritten(letter)) {
            leave_unwritten(session, letter);
            letter->torn_in = letter->assignment;
            letter->taken_back += letter->state == KS_REDRIVE_BEGUN;
        }
    }
    letter->state = (uint8_t)state;
    letter->at = core->now;
    core->stirred = true;
}

static void forget(struct ks_core *core, struct ks_redrive *letter)
{
    land(core, letter, KS_REDRIVE_NONE);
    assert(core->redrives_used > 0 && core->redrive_bytes >= letter->bytes);
    core->redrives_used--;
    core->redrive_bytes -= letter->bytes;
}

void ks_redrive_discarded(struct ks_core *core, ks_number number)
{
    struct ks_redrive *letter = find(core, number);

    if (letter != NULL)
        forget(core, letter);
}

/* ---- Failing. ---- */

static void give_up(struct ks_core *core, struct ks_redrive *letter, enum ks_cause cause)
{
    land(core, letter, KS_REDRIVE_ENDING);
    letter->cause = cause;
}

/* As ks_poison_failed. Whatever the policy does with records that it gives up: it is a letter, and stays one. */
static void fail(struct ks_core *core, struct ks_redrive *letter, ks_span delay)
{
    const struct ks_poison_policy *policy = &core->config.poison;

    assert(letter->state == KS_REDRIVE_WAITING);
    letter->failures += !letter->failed;
    letter->failed = true;
    if (policy->max_attempts != 0 && letter->failures >= policy->max_attempts) {
        give_up(core, letter, KS_CAUSE_ATTEMPTS);
        return;
    }
    if (ks_instant_reached(core->now, letter->stale_at)) {
        give_up(core, letter, KS_CAUSE_AGE);
        return;
    }
    if (delay.us < 0)
        delay = ks_poison_back_off(core, letter->failures);
    letter->at = ks_instant_add(core->now, delay);
    letter->delayed = delay.us > 0;
}

void ks_redrive_requeue(struct ks_core *core, ks_session_id session, bool failed)
{
    for (uint32_t i = 0; core->redrives_used > 0 && i < KS_REDRIVES_MAX; i++) {
        struct ks_redrive *letter = &core->redrives[i];
        bool written = letter->state == KS_REDRIVE_WRITTEN;

        if (letter->state == KS_REDRIVE_NONE)
            continue;
        if (letter->seen_by == session)
            letter->seen_by = KS_SESSION_NONE;
        if (!ks_redrive_is_out(letter) || letter->session != session)
            continue;
        land(core, letter, KS_REDRIVE_WAITING);
        if (failed && written)
            fail(core, letter, ks_span_us(0));
    }
}

/* ---- Delivery. ---- */

static bool is_paused(const struct ks_core *core, ks_shard shard)
{
    return shard >= core->directory_top ? core->pause.on : ks_core_paused(core, shard);
}

static struct ks_redrive *next_of(struct ks_core *core, ks_session_id id, uint64_t max_bytes)
{
    const struct ks_session *session = &core->sessions[id];
    struct ks_redrive *next = NULL;

    if (core->redrives_used == 0 || core->draining || core->stopped)
        return NULL;
    for (uint32_t i = 0; i < KS_REDRIVES_MAX; i++) {
        struct ks_redrive *letter = &core->redrives[i];

        if (letter->state != KS_REDRIVE_WAITING || !ks_instant_reached(core->now, letter->at) ||
            letter->bytes > session->max_record_bytes || letter->bytes > max_bytes ||
            !ks_lanes_admit(core, session, letter->shard, letter->hash) ||
            is_paused(core, letter->shard))
            continue;
        if (next == NULL || letter->number < next->number)
            next = letter;
    }
    return next;
}

bool ks_redrive_waits(struct ks_core *core, ks_session_id session)
{
    return next_of(core, session, UINT64_MAX) != NULL;
}

static uint32_t next_attempt(const struct ks_redrive *letter)
{
    uint32_t begun = letter->taken_back + 1;

    return letter->attempts > UINT32_MAX - begun ? UINT32_MAX : letter->attempts + begun;
}

static void assign(struct ks_core *core, struct ks_redrive *letter, ks_session_id id,
                   struct ks_effects *effects)
{
    struct ks_session *session = &core->sessions[id];
    struct ks_effect *effect = ks_effects_add(effects, KS_EFFECT_DELIVER);

    letter->state = KS_REDRIVE_ASSIGNED;
    letter->session = id;
    letter->assignment = core->assignment;
    session->in_flight++;
    session->in_flight_bytes += letter->bytes;
    session->unwritten++;
    session->unwritten_bytes += letter->bytes;
    if (session->explicit_credit)
        session->granted--;
    effect->deliver.session = id;
    effect->deliver.shard = KS_SHARD_NONE;
    effect->deliver.first = letter->number;
    effect->deliver.count = 1;
    effect->deliver.bytes = letter->bytes;
    effect->deliver.attempt = next_attempt(letter);
    effect->deliver.assignment = letter->assignment;
    assert(session->in_flight <= session->max_in_flight);
}

uint32_t ks_redrive_pull(struct ks_core *core, const struct ks_event *event, uint64_t *bytes_left,
                         struct ks_effects *effects)
{
    const struct ks_session *session = &core->sessions[event->pull.session];
    uint32_t runs = 0;

    while (runs < event->pull.max_runs && runs < event->pull.max_records &&
           ks_session_room(session) > 0 && ks_effects_room(core, effects, 1)) {
        /* One by itself may be larger than all that is left. */
        uint64_t most = runs == 0 && event->pull.after == 0
                            ? UINT64_MAX
                            : ks_session_bytes_left(session, *bytes_left);
        struct ks_redrive *letter = next_of(core, event->pull.session, most);

        if (letter == NULL)
            break;
        assign(core, letter, event->pull.session, effects);
        *bytes_left -= letter->bytes < *bytes_left ? letter->bytes : *bytes_left;
        runs++;
    }
    return runs;
}

/* ---- Writing. ---- */

bool ks_redrive_is_assigned(const struct ks_core *core, ks_number number, uint64_t assignment)
{
    for (uint32_t i = 0; core->redrives_used > 0 && i < KS_REDRIVES_MAX; i++)
        if (core->redrives[i].state == KS_REDRIVE_ASSIGNED && core->redrives[i].number == number)
            return core->redrives[i].assignment == assignment;
    return false;
}

/* As ks_tracker_written(). */
static void write_to_socket(struct ks_core *core, struct ks_redrive *letter, ks_session_id session,
                            uint64_t assignment, bool ours)
{
    letter->attempts += letter->attempts < UINT32_MAX;
    letter->written += letter->written < UINT32_MAX;
    letter->taken_back -= !ours && letter->taken_back > 0;
    if (letter->state != KS_REDRIVE_WRITTEN) {
        letter->seen_by = session;
        letter->seen_in = assignment;
    }
    if (!ours)
        return;
    leave_unwritten(&core->sessions[session], letter);
    letter->state = KS_REDRIVE_WRITTEN;
    letter->failed = false;
    letter->at = ks_instant_add(core->now, core->sessions[session].ack_deadline);
}

static void write_letter(struct ks_core *core, struct ks_redrive *letter,
                         const struct ks_event *event)
{
    ks_session_id session = event->write.session;
    uint64_t assignment = event->write.assignment;
    bool ours = is_unwritten(letter) && letter->assignment == assignment;

    switch (event->write.stage) {
    case KS_STAGE_BEGUN:
        if (ours)
            letter->state = KS_REDRIVE_BEGUN;
        return;
    case KS_STAGE_WRITTEN: write_to_socket(core, letter, session, assignment, ours); return;
    case KS_STAGE_TORN:
    case KS_STAGE_RETURNED:
        if (!ours)
            return;
        letter->taken_back -= letter->state == KS_REDRIVE_BEGUN;
        land(core, letter, KS_REDRIVE_WAITING);
        ks_session_grant(core, session, 1); /* It was not used. */
        return;
    }
}

void ks_redrive_write(struct ks_core *core, const struct ks_event *event)
{
    ks_number first = event->write.first;
    ks_number end = first + event->write.count;

    for (uint32_t i = 0; core->redrives_used > 0 && i < KS_REDRIVES_MAX; i++) {
        struct ks_redrive *letter = &core->redrives[i];

        if (letter->state == KS_REDRIVE_NONE || letter->state == KS_REDRIVE_ENDING)
            continue;
        if (letter->number >= first && letter->number < end)
            write_letter(core, letter, event);
    }
}

/* ---- Settling. ---- */

static bool is_open(const struct ks_redrive *letter)
{
    return letter->state == KS_REDRIVE_WAITING || ks_redrive_is_out(letter);
}

/* As ks_tracker_may_settle(). */
static bool may_settle(const struct ks_redrive *letter, ks_session_id session, uint64_t assignment)
{
    if (letter->written == 0)
        return false;
    if (assignment != 0)
        return letter->seen_in == assignment ||
               (letter->torn_in < assignment &&
                !(is_unwritten(letter) && letter->assignment == assignment));
    return letter->seen_by == session ||
           (letter->torn_in == 0 && !(is_unwritten(letter) && letter->session == session));
}

/* True if the settlement is about the last delivery of the letter. */
static bool is_last(const struct ks_redrive *letter, const struct ks_event *event)
{
    return letter->session == event->settle.session &&
           (event->settle.assignment == 0 || letter->seen_in == event->settle.assignment);
}

/* What was acknowledged once is removed, also when it was given up a moment before. */
static void acknowledge(struct ks_core *core, struct ks_redrive *letter, struct ks_settled *settled)
{
    if (is_open(letter))
        land(core, letter, KS_REDRIVE_ENDING);
    settled->count += !letter->acked;
    letter->acked = true;
}

static bool extend(struct ks_core *core, struct ks_redrive *letter, const struct ks_event *event)
{
    if (!is_last(letter, event) || letter->state != KS_REDRIVE_WRITTEN)
        return false;
    letter->at = ks_instant_add(core->now, event->settle.delay);
    return true;
}

static void retry(struct ks_core *core, struct ks_redrive *letter, const struct ks_event *event,
                  struct ks_settled *settled)
{
    const bool again = letter->failed;

    if (ks_redrive_is_out(letter))
        land(core, letter, KS_REDRIVE_WAITING);
    fail(core, letter, event->settle.delay);
    settled->count += !again && is_open(letter);
}

/* False if the settlement does not count for the letter: it is delivered again, or for the first time. */
static bool settle_one(struct ks_core *core, struct ks_redrive *letter,
                       const struct ks_event *event, struct ks_settled *settled)
{
    uint64_t seen_in = event->settle.alone ? 0 : event->settle.assignment;

    if (is_open(letter) && !may_settle(letter, event->settle.session, seen_in))
        return false;
    switch (event->settle.outcome) {
    case KS_ACK:
    case KS_DROP: acknowledge(core, letter, settled); return true;
    case KS_DEAD_LETTER:
        if (is_open(letter))
            give_up(core, letter, KS_CAUSE_ASKED);
        return true;
    case KS_EXTEND: return !is_open(letter) || extend(core, letter, event);
    case KS_RETRY:
        if (!is_open(letter))
            return true;
        if (!is_last(letter, event))
            return false;
        retry(core, letter, event, settled);
        return true;
    }
    assert(false);
    return false;
}

enum ks_settle_status ks_redrive_settle(struct ks_core *core, const struct ks_event *event,
                                        struct ks_settled *settled)
{
    ks_number first = event->settle.first;
    ks_number beyond = first + event->settle.count;
    bool found = false;

    if (event->settle.epoch != 0 || beyond < first || beyond > core->redrive_next)
        return KS_SETTLE_UNKNOWN;
    for (uint32_t i = 0; core->redrives_used > 0 && i < KS_REDRIVES_MAX; i++) {
        struct ks_redrive *letter = &core->redrives[i];

        if (letter->state == KS_REDRIVE_NONE || letter->number < first || letter->number >= beyond)
            continue;
        found |= is_open(letter);
        if (settle_one(core, letter, event, settled))
            continue;
        settled->expired_first = letter->number; /* A run of letters has one. */
        settled->expired_count = 1;
    }
    if (settled->expired_count > 0)
        return KS_SETTLE_EXPIRED;
    /* A letter that was forgotten was settled, or is a dead letter again. */
    return event->settle.outcome == KS_RETRY && !found ? KS_SETTLE_SETTLED : KS_SETTLE_OK;
}

/* ---- The store. ---- */

static void tell(struct ks_redrive *letter, struct ks_effects *effects)
{
    struct ks_effect *effect = ks_effects_add(effects, KS_EFFECT_LETTER);

    letter->telling = true;
    letter->told_acked = letter->acked;
    effect->letter.number = letter->number;
    effect->letter.remove = letter->acked;
    effect->letter.attempts = letter->attempts;
    effect->letter.cause = letter->cause;
}

void ks_redrive_told(struct ks_core *core, const struct ks_event *event, struct ks_effects *effects)
{
    struct ks_redrive *letter = find(core, event->letter.number);
    struct ks_effect *effect;

    if (letter == NULL)
        return;
    assert(letter->state == KS_REDRIVE_ENDING && letter->telling);
    letter->telling = false;
    letter->at = core->now;
    /* REFUSED: somebody removed it before. */
    if (event->letter.outcome == KS_UNKNOWN)
        letter->at = ks_instant_add(core->now, TELL_AGAIN);
    if (event->letter.outcome == KS_UNKNOWN || letter->told_acked != letter->acked)
        return;
    effect = ks_effects_add(effects, KS_EFFECT_LETTER_OVER);
    effect->letter.number = letter->number;
    effect->letter.remove = letter->acked;
    forget(core, letter);
}

static void look_at(struct ks_core *core, struct ks_redrive *letter, struct ks_effects *effects)
{
    if (!ks_instant_reached(core->now, letter->at))
        return;
    switch ((enum ks_redrive_state)letter->state) {
    case KS_REDRIVE_NONE: return;
    case KS_REDRIVE_WAITING:
        core->stirred |= letter->delayed;
        letter->delayed = false;
        return;
    case KS_REDRIVE_ASSIGNED:
    case KS_REDRIVE_BEGUN: return;
    case KS_REDRIVE_WRITTEN:
        land(core, letter, KS_REDRIVE_WAITING);
        fail(core, letter, KS_DELAY_BY_POLICY);
        return;
    case KS_REDRIVE_ENDING:
        if (!letter->telling && ks_effects_room(core, effects, 1))
            tell(letter, effects);
        return;
    }
}

void ks_redrive_turn(struct ks_core *core, struct ks_effects *effects)
{
    for (uint32_t i = 0; core->redrives_used > 0 && i < KS_REDRIVES_MAX; i++)
        look_at(core, &core->redrives[i], effects);
}

static bool is_awaited(const struct ks_redrive *letter)
{
    switch ((enum ks_redrive_state)letter->state) {
    case KS_REDRIVE_NONE: return false;
    case KS_REDRIVE_WAITING: return letter->delayed;
    case KS_REDRIVE_ASSIGNED:
    case KS_REDRIVE_BEGUN: return false;
    case KS_REDRIVE_WRITTEN: return true;
    case KS_REDRIVE_ENDING: return !letter->telling;
    }
    assert(false);
    return false;
}

ks_instant ks_redrive_deadline(const struct ks_core *core)
{
    ks_instant due = KS_NEVER;

    for (uint32_t i = 0; core->redrives_used > 0 && i < KS_REDRIVES_MAX; i++)
        if (is_awaited(&core->redrives[i]))
            due = ks_instant_min(due, core->redrives[i].at);
    return due;
}

bool ks_redrive_busy(const struct ks_core *core)
{
    for (uint32_t i = 0; core->redrives_used > 0 && i < KS_REDRIVES_MAX; i++)
        if (core->redrives[i].state >= KS_REDRIVE_ASSIGNED)
            return true;
    return false;
}

bool ks_core_letters_told(const struct ks_core *core, ks_number below)
{
    for (uint32_t i = 0; core->redrives_used > 0 && i < KS_REDRIVES_MAX; i++)
        if (core->redrives[i].state == KS_REDRIVE_ENDING && core->redrives[i].number < below)
            return false;
    return true;
}

void ks_redrive_check(const struct ks_core *core, uint32_t *in_flight, uint32_t sessions)
{
    uint32_t used = 0;
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < KS_REDRIVES_MAX; i++) {
        const struct ks_redrive *letter = &core->redrives[i];

        if (letter->state == KS_REDRIVE_NONE)
            continue;
        used++;
        bytes += letter->bytes;
        assert(letter->number < core->redrive_next);
        assert(!letter->telling || letter->state == KS_REDRIVE_ENDING);
        assert(!letter->acked || letter->state == KS_REDRIVE_ENDING);
        if (ks_redrive_is_out(letter) && letter->session < sessions)
            in_flight[letter->session]++;
    }
    assert(used == core->redrives_used);
    assert(bytes == core->redrive_bytes);
}
