/* SPDX-License-Identifier: Apache-2.0 */
#include "oracle_write.h"

#include <assert.h>

#include "oracle_place.h"
#include "world.h"

/* What the core took back of what was not written: a recall in front of it in its lane, a lease that is returned, a
 * pause, a lane that is to pass. */
static void sync_lane(const struct place *place)
{
    for (uint64_t i = place->reader->forgot; i < place->lane->delivered && place->lane->taken > 0;
         i++)
        if (record_at(place, i)->state == RECORD_TAKEN &&
            !shell_is_out(place->process, place->shard, i))
            land(place, i,
                 shell_is_dying(place->process, place->shard, i) ? RECORD_DOUBT : RECORD_WAITING);
}

void oracle_write_sync(const struct world *world, struct process *process)
{
    for (ks_shard shard = 0; shard < SIM_SHARDS; shard++) {
        struct place place = place_of(world, process, shard);

        if (place.reader->open && place.lane->taken > 0)
            sync_lane(&place);
    }
}

/* ---- Writing ---- */

void oracle_flight_seen(struct process *process, const struct happening *job)
{
    struct place place;

    if (job->shard == KS_SHARD_NONE)
        return;
    place = place_of(NULL, process, job->shard);
    if (!is_current(&place, job->epoch))
        return;
    for (uint64_t i = job->first; i < job->first + job->count; i++)
        if (i >= place.reader->forgot && process->truth.sessions[job->session].live &&
            process->truth.sessions[job->session].epoch == job->session_epoch)
            record_at(&place, i)->seen |= bit_of(job->session);
}

/* The core is told how far a record is written. */
static void wrote_one(const struct place *place, const struct ks_event *event, uint64_t number,
                      ks_instant now)
{
    struct oracle_record *record = record_at(place, number);
    uint32_t session = event->write.session;
    bool ours = record->state == RECORD_TAKEN && record->assignment == event->write.assignment;

    switch (event->write.stage) {
    case KS_STAGE_HANDED:
        if (record->handed < UINT8_MAX)
            record->handed++;
        if (record->deliveries < UINT8_MAX)
            record->deliveries++;
        if (ours ||
            (record->state != RECORD_FLYING && (record->state != RECORD_TAKEN || !record->whole)))
            record->last = (uint8_t)session;
        record->begun |= ours;
        record->whole |= ours;
        return;
    case KS_STAGE_WRITTEN:
        if (ours && record->whole) {
            has_come(record);
            fly(place, number, session,
                now.us + place->process->truth.sessions[session].ack_deadline.us);
        }
        return;
    case KS_STAGE_BROKEN:
    case KS_STAGE_RETURNED:
        if (event->write.stage == KS_STAGE_BROKEN && record->last == session &&
            record->state != RECORD_FLYING && record->state != RECORD_DYING) {
            record->last = SIM_SESSIONS;
            if (record->deliveries > record->written)
                record->deliveries--;
        }
        if (ours) {
            record->begun = false; /* Its credit was not used. */
            recall(place, number, RECORD_WAITING);
        }
        return;
    }
}

void oracle_wrote(const struct world *world, struct process *process, const struct ks_event *event,
                  ks_instant now)
{
    struct place place;

    if (event->write.shard == KS_SHARD_NONE) {
        world_redrive_wrote(process, event, now);
        return;
    }
    place = place_of(world, process, event->write.shard);
    if (!is_current(&place, event->write.epoch))
        return;
    for (uint64_t i = event->write.first + event->write.count; i > event->write.first; i--)
        if (i > place.reader->forgot && record_at(&place, i - 1)->state != RECORD_SETTLED)
            wrote_one(&place, event, i - 1, now);
    if (event->write.begun) {
        struct oracle_record *next = record_at(&place, event->write.first + event->write.count);

        next->begun |= next->state == RECORD_TAKEN && next->assignment == event->write.assignment;
    }
}
