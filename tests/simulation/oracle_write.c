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

/* The core is told how far a record is written. */
static void wrote_one(const struct place *place, const struct ks_event *event, uint64_t number,
                      ks_instant now)
{
    struct oracle_record *record = record_at(place, number);
    uint32_t session = event->write.session;
    bool ours = record->state == RECORD_TAKEN && record->assignment == event->write.assignment;

    switch (event->write.stage) {
    case KS_STAGE_BEGUN:
        place->lane->half_way += ours && !record->begun;
        record->begun |= ours;
        return;
    case KS_STAGE_WRITTEN:
        record->got_in[record->written % SIM_WRITINGS] = event->write.assignment;
        if (record->written < UINT8_MAX)
            record->written++;
        if (!ours && record->half_way > 0)
            record->half_way--;
        record->got_by |= bit_of(session);
        /* What was written to another session meanwhile is that one's, until its deadline has passed. */
        if (record->state != RECORD_FLYING) {
            record->last = record->state == RECORD_DOUBT ? SIM_SESSIONS : (uint8_t)session;
            record->last_in = event->write.assignment;
        }
        if (ours)
            fly(place, number, session,
                now.us + place->process->truth.sessions[session].ack_deadline.us);
        return;
    case KS_STAGE_TORN:
    case KS_STAGE_RETURNED:
        if (ours) {
            record->begun = false; /* Its credit was not used. */
            recall(place, number, RECORD_WAITING);
        } else if (event->write.stage == KS_STAGE_TORN && record->state == RECORD_WAITING &&
                   record->half_way > 0 && record->assignment == event->write.assignment) {
            record->half_way--; /* No later delivery has a number. */
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
    /* A row that was deleted and created again can have the epoch of a delivery that was begun before. */
    if ((event->write.stage == KS_STAGE_WRITTEN || event->write.stage == KS_STAGE_TORN) &&
        place.lane->half_way > 0)
        place.lane->half_way -= event->write.count;
    for (uint64_t i = event->write.first + event->write.count; i > event->write.first; i--)
        if (i > place.reader->forgot && record_at(&place, i - 1)->state != RECORD_SETTLED)
            wrote_one(&place, event, i - 1, now);
}

/* ---- Reading ---- */

void oracle_app_read(struct world *world, struct process *process, const struct sim_run *run,
                     uint64_t number)
{
    struct oracle_record *record;
    struct place place;

    if (run->shard == KS_SHARD_NONE) {
        world_redrive_read(world, process, number, run->attempt);
        return;
    }
    place = place_of(world, process, run->shard);
    if (!is_current(&place, run->epoch) || number < place.reader->forgot)
        return;
    record = record_at(&place, number);
    if (!attempt_is_new(&record->numbers, run->attempt))
        oracle_fail(world, "apps of w%u read record %llu of shard-%u twice as attempt %u",
                    process->worker, (unsigned long long)number, place.shard, run->attempt);
}
