/* SPDX-License-Identifier: Apache-2.0 */
#include "world_letters.h"

#include "oracle_flight.h"
#include "world.h"

/* What ports/board_leases.c says of records: the hash of the key, and when they are too old to fail. */
void world_letters_describe(const struct world *world, const struct process *process,
                            ks_shard shard, uint32_t count, uint8_t *hashes, uint32_t *stale_s)
{
    const struct reader *reader = &process->readers[shard];
    const struct world_shard *of = &world->stream.shards[shard];
    int64_t max_age = world->swarm.core.poison.max_age.us;

    for (uint32_t i = 0; i < count; i++) {
        uint64_t index = reader->base + reader->fetched + i;
        int64_t left = of->arrived[index] + max_age - reader->opened_at;

        hashes[i] = oracle_hash(shard, index);
        stale_s[i] = max_age == 0 ? UINT32_MAX
                     : left < 0   ? 0
                                  : (uint32_t)((left + SIM_SECOND - 1) / SIM_SECOND);
    }
}

bool world_letters_filters(const struct world *world, ks_shard shard, uint64_t index)
{
    struct ks_prng prng;

    ks_prng_init(&prng, index * SIM_SHARDS + shard);
    return draw_chance(&prng, world->swarm.filtered);
}

/* The write is done, refused, or nobody knows; what is done may not be told. */
void world_letters_bury(struct world *world, struct process *process,
                        const struct ks_effect *effect)
{
    uint32_t outcome = KS_DONE;

    oracle_flight_bury(world, process, effect);
    if (draw_chance(&world->prng, world->swarm.lost_letters))
        outcome = draw_chance(&world->prng, 300) ? KS_REFUSED : KS_UNKNOWN;
    agenda_add(&world->agenda, world->now + 1 + draw_log(&world->prng, 1, 200 * SIM_MS),
               &(struct happening){.kind = HAPPENS_BURIED,
                                   .process = process->slot,
                                   .life = process->life,
                                   .shard = effect->bury.shard,
                                   .epoch = effect->bury.epoch,
                                   .serial = effect->bury.serial,
                                   .count = outcome});
}

void world_letters_buried(struct world *world, struct process *process,
                          const struct happening *answer)
{
    struct ks_event event = {.kind = KS_EVENT_BURIED};

    event.buried.shard = answer->shard;
    event.buried.epoch = answer->epoch;
    event.buried.serial = answer->serial;
    event.buried.outcome = (enum ks_outcome)answer->count;
    shell_step(world, process, &event);
}
