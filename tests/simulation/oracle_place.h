/* SPDX-License-Identifier: Apache-2.0 */
/* oracle_place.h - the records of one shard in one process, as the oracle keeps them: what oracle_flight.c and
 * oracle_write.c share. */
#ifndef KS_SIM_ORACLE_PLACE_H
#define KS_SIM_ORACLE_PLACE_H

#include <assert.h>

#include "oracle_flight.h"
#include "world.h"

/* One lane, with all that belongs to it. */
struct place {
    const struct world *world;
    struct process *process;
    struct oracle_lane *lane;
    const struct reader *reader;
    ks_shard shard;
};

static inline struct place place_of(const struct world *world, struct process *process,
                                    ks_shard shard)
{
    assert(shard < SIM_SHARDS);

    return (struct place){world, process, &process->truth.lanes[shard], &process->readers[shard],
                          shard};
}

static inline struct oracle_record *record_at(const struct place *place, uint64_t number)
{
    return &place->lane->records[number % SIM_WINDOW];
}

static inline bool has_credit(const struct oracle_record *record)
{
    return record->state == RECORD_TAKEN || record->state == RECORD_FLYING;
}

static inline uint32_t size_of(const struct place *place, uint64_t number)
{
    return place->world->stream.shards[place->shard].sizes[place->reader->base + number];
}

/* The record is no longer with its session. */
static inline void land(const struct place *place, uint64_t number, enum oracle_state state)
{
    struct oracle_record *record = record_at(place, number);
    struct oracle_session *session = &place->process->truth.sessions[record->session];

    if (has_credit(record)) {
        assert(session->in_flight > 0);
        session->in_flight--;
        session->bytes -= size_of(place, number);
    }
    if (record->state == RECORD_TAKEN) {
        place->lane->taken--;
        session->granted += !record->begun;
        record->half_way += record->begun;
    }
    record->state = (uint8_t)state;
}

static inline void take(const struct place *place, uint64_t number, const struct ks_effect *effect)
{
    struct oracle_record *record = record_at(place, number);
    struct oracle_session *with = &place->process->truth.sessions[effect->deliver.session];

    assert(!has_credit(record));
    record->state = RECORD_TAKEN;
    record->session = (uint8_t)effect->deliver.session;
    record->assignment = effect->deliver.assignment;
    record->begun = false;
    place->lane->taken++;
    with->in_flight++;
    with->bytes += size_of(place, number);
}

static inline void fly(const struct place *place, uint64_t number, uint32_t session, int64_t due)
{
    struct oracle_record *record = record_at(place, number);
    struct oracle_session *with = &place->process->truth.sessions[session];

    if (!has_credit(record)) {
        with->in_flight++;
        with->bytes += size_of(place, number);
    }
    if (record->state == RECORD_TAKEN)
        place->lane->taken--;
    record->state = RECORD_FLYING;
    record->session = (uint8_t)session;
    record->due = due;
    if (due < place->lane->earliest_due)
        place->lane->earliest_due = due;
}

/* Whether `epoch` of the shard is the one that is open here. */
static inline bool is_current(const struct place *place, ks_epoch epoch)
{
    return place->reader->open && place->reader->epoch == epoch;
}

/* ---- Lanes ---- */

static inline bool is_unordered(const struct place *place)
{
    return place->process->truth.ordering == KS_ORDER_NONE;
}

/* Bit by lane. */
static inline uint64_t lane_of(const struct place *place, uint64_t number)
{
    uint32_t hash = oracle_hash(place->shard, place->reader->base + number);

    return UINT64_C(1) << hash * place->process->truth.lane_count / 256;
}

/* Whatever is out from `number` on in its lane comes back: it is delivered again from there. */
static inline void recall(const struct place *place, uint64_t number, enum oracle_state state)
{
    uint64_t lane = lane_of(place, number);
    uint64_t end = is_unordered(place) ? number + 1 : place->lane->delivered;

    for (; number < end; number++) {
        enum oracle_state now = record_at(place, number)->state;

        if (lane_of(place, number) == lane && (now == RECORD_TAKEN || now == RECORD_FLYING ||
                                               (now == RECORD_DOUBT && state == RECORD_WAITING)))
            land(place, number, state);
    }
}

static inline uint8_t bit_of(uint32_t session)
{
    return (uint8_t)(1u << session);
}

/* True if the settlement names a record that was written: to its session, or in its assignment. */
static inline bool has_got(const struct oracle_record *record, uint32_t session,
                           uint64_t assignment)
{
    bool found = record->written > SIM_WRITINGS; /* More than is remembered. */

    if (assignment == 0)
        return (record->got_by & bit_of(session)) != 0;
    for (uint32_t i = 0; i < SIM_WRITINGS; i++)
        found |= record->got_in[i] == assignment;
    return found;
}

/* True if the settlement is about the last delivery of the record. */
static inline bool is_last(const struct oracle_record *record, uint32_t session,
                           uint64_t assignment)
{
    return record->last == session && (assignment == 0 || record->last_in == assignment);
}

/* It was delivered, and is neither settled nor given up. */
static inline bool is_out(const struct place *place, uint64_t number)
{
    const struct oracle_record *record = record_at(place, number);

    return record->written > 0 && record->state >= RECORD_TAKEN && record->state <= RECORD_WAITING;
}

/* Some of them are settled or were delivered; the rest was given back. */
static inline bool is_known(const struct place *place, uint64_t first, uint64_t count)
{
    bool some = count == 0;

    for (uint64_t i = first; i < first + count; i++)
        some |= i < place->reader->forgot ||
                (i < place->lane->delivered && record_at(place, i)->written > 0);
    return some &&
           (first + count <= place->lane->delivered || first + count <= place->reader->forgot);
}

/* Some of them are settled or were written. */
static inline bool was_written(const struct place *place, uint64_t first, uint64_t count)
{
    bool some = count == 0;

    for (uint64_t i = first; i < first + count; i++)
        some |= i < place->reader->forgot ||
                (i < place->lane->delivered && (record_at(place, i)->written > 0 ||
                                                record_at(place, i)->state == RECORD_SETTLED));
    return some;
}

/* What was given up before it was ever delivered is over, and also unknown: either answer is true. */
static inline bool was_delivered(const struct place *place, uint64_t first, uint64_t count)
{
    return first + count <= place->lane->delivered && is_known(place, first, count);
}

/* ---- Retries of what was given up ---- */

/* True if the failure of a delivery may have given one of the records up: then a retry may take back what is behind it
 * again. What is below the watermark is forgotten. */
static inline bool may_be_given_up(const struct place *place, uint64_t first, uint64_t count)
{
    const struct ks_poison_policy *policy = &place->world->swarm.core.poison;
    bool some = false;

    if (is_unordered(place) || (policy->max_attempts == 0 && policy->max_age.us == 0) ||
        (policy->exhausted != KS_EXHAUSTED_DEAD_LETTER && policy->exhausted != KS_EXHAUSTED_DROP))
        return false;
    for (uint64_t i = first; i < first + count && i < place->lane->delivered; i++)
        some |= i < place->reader->forgot || !is_out(place, i);
    return some;
}

/* The retry of a record that was given up was accepted: notes what it took back again of its session. */
static inline void take_back_again(const struct place *place, uint64_t number, uint32_t session)
{
    uint64_t lane = lane_of(place, number);

    if (!may_be_given_up(place, number, 1))
        return;
    number = number < place->reader->forgot ? place->reader->forgot : number + 1;
    for (; number < place->lane->delivered; number++) {
        const struct oracle_record *record = record_at(place, number);

        if (lane_of(place, number) != lane ||
            (record->state != RECORD_TAKEN && record->state != RECORD_FLYING))
            continue;
        if (record->session == session && !shell_is_out(place->process, place->shard, number))
            recall(place, number, RECORD_WAITING);
        return;
    }
}

#endif
