/* SPDX-License-Identifier: Apache-2.0 */
#include "operator.h"

#include "story.h"
#include "world.h"

/* A row that says finished is only repaired after K: it must be over within the run. */
static bool may_finish(const struct world *world, const struct world_shard *shard)
{
    return shard->closed_at == SIM_NEVER && world->swarm.core.keep.us < 1000 * SIM_SECOND;
}

void operator_meddles(struct world *world)
{
    ks_shard shard = (ks_shard)ks_prng_below(&world->prng, world->stream.count);
    bool finishes = draw_chance(&world->prng, 400);
    struct world_shard *of = &world->stream.shards[shard];
    const struct table_lease *row = world_table_lease(&world->table, shard);

    /* What was read to its end stays so while it is in the stream: to read it again would be to read it after its
     * children. */
    if (!of->exists || of->expired || !row->present || row->row.finished)
        return;
    of->made++;
    if (finishes && may_finish(world, of)) {
        of->odd_at = world->now;
        world_table_finish_lease(world, shard);
        story_say(world, "fault", "an operator finishes the row of shard-%u", shard);
        return;
    }
    world_table_lose_lease(world, shard);
    story_say(world, "fault", "an operator deletes the row of shard-%u", shard);
}
