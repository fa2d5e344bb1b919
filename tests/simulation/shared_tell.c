/* SPDX-License-Identifier: Apache-2.0 */
/* What the world of a shared table tells: its story, and the first promise that was broken. */
#include "shared_world.h"

#include <stdarg.h>
#include <stdio.h>

void shared_say(struct shared_world *world, const char *format, ...)
{
    va_list list;

    if (!world->verbose)
        return;
    printf("%8.3f ", (double)world->now / 1e6);
    va_start(list, format);
    vprintf(format, list);
    va_end(list);
    printf("\n");
}

void shared_fail(struct shared_world *world, const char *format, ...)
{
    va_list list;

    if (world->failed)
        return;
    world->failed = true;
    va_start(list, format);
    vsnprintf(world->sentence, sizeof world->sentence, format, list);
    va_end(list);
}

void shared_tell_failure(const struct shared_world *world)
{
    printf("SEED=%llu %s (%u of ours, %u members%s%s%s%s)\n", (unsigned long long)world->seed,
           world->sentence, world->node_count, world->member_count,
           world->zombies ? ", zombies" : "", world->stealing ? ", stealing" : "",
           world->outages > 0 ? ", outages" : "", world->jumps > 0 ? ", jumps" : "");
}
