/* SPDX-License-Identifier: Apache-2.0 */
#include "oracle_skip.h"

#include "oracle_place.h"
#include "world.h"

void oracle_skipped(struct world *world, struct process *process, const struct ks_event *event,
                    const struct ks_effects *effects)
{
    struct place place = place_of(world, process, event->skip.shard);
    bool done = false;

    for (uint32_t i = 0; i < effects->count; i++)
        done |= effects->items[i].kind == KS_EFFECT_OPERATED &&
                effects->items[i].operated.status == KS_OPERATOR_OK;
    if (!done || event->skip.dry_run)
        return;
    if (!place.reader->open || event->skip.number < place.reader->forgot ||
        record_at(&place, event->skip.number)->state == RECORD_SETTLED ||
        record_at(&place, event->skip.number)->state == RECORD_DYING) {
        oracle_fail(world, "w%u skips record %llu of shard-%u, which is settled", process->worker,
                    (unsigned long long)event->skip.number, place.shard);
        return;
    }
    record_at(&place, event->skip.number)->asked = true;
    if (event->skip.keep)
        land(&place, event->skip.number, RECORD_DYING);
    if (place.lane->stopped == event->skip.number + 1)
        process->truth.paused = false;
}
