/* SPDX-License-Identifier: Apache-2.0 */
#include "world_looks.h"

#include "world.h"

enum { PAGES = 16 };

void world_looks_begin(struct world *world)
{
    struct swarm *swarm = &world->swarm;

    swarm->slow_looks = 0;
    swarm->failed_looks = 0;
    /* Such that the seeds that were kept before there were slow looks have none. */
    ks_prng_init(&world->looks, world->seed ^ 0x27C8);
    if (!draw_chance(&world->looks, 250))
        return;
    swarm->look = draw_log(&world->looks, SIM_SECOND, SIM_LOOK - SIM_SECOND);
    swarm->slow_looks = (uint32_t)draw_log(&world->looks, 50, 1000);
    if (draw_chance(&world->looks, 500))
        swarm->failed_looks = (uint32_t)draw_log(&world->looks, 20, 700);
}

void world_looks_draw(struct world *world, struct table_request *request)
{
    const struct swarm *swarm = &world->swarm;

    request->page = 0;
    request->pages = 1;
    request->fails_at = PAGES;
    if (request->ask.operation != KS_STORE_READ_LEASES ||
        !draw_chance(&world->looks, swarm->slow_looks))
        return;
    request->pages = (uint32_t)ks_prng_between(&world->looks, 2, PAGES);
    request->page_time =
        ks_prng_between(&world->looks, swarm->look / 4, swarm->look) / (request->pages - 1);
    if (draw_chance(&world->looks, swarm->failed_looks))
        request->fails_at = (uint32_t)ks_prng_below(&world->looks, request->pages);
}

sim_time world_looks_time(const struct world *world)
{
    return world->swarm.slow_looks > 0 ? world->swarm.look : 0;
}
