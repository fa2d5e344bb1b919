/* SPDX-License-Identifier: Apache-2.0 */
/* looks.c - what does a look at all rows of a KCL's table cost the core?
 *
 * One core that wants no leases reads 10,000 rows of somebody who lives, again and again. The numbers of the shards are
 * in no order, as rows of a table come. CPU time of one thread.
 */
#include "meter.h"

#include "base/prng.h"
#include "core/state.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SHARDS = 10000, ME = 1, OTHER = 2 };

struct rig {
    struct ks_core *core;
    struct ks_effects effects;
    ks_instant now;
    ks_shard numbers[SHARDS]; /* In the order of their birth. */
    struct ks_shard_row shards[SHARDS];
    struct ks_lease_row rows[SHARDS];
    uint32_t row_count;
};

static void step(struct rig *rig, struct ks_event event)
{
    rig->effects.count = 0;
    ks_core_step(rig->core, rig->now, &event, &rig->effects);
}

static void wait(struct rig *rig, int64_t ms)
{
    rig->now = ks_instant_add(rig->now, ks_span_ms(ms));
    step(rig, (struct ks_event){.kind = KS_EVENT_TICK});
}

static void answer(struct rig *rig, enum ks_purpose purpose, uint32_t subject, uint32_t serial)
{
    step(rig, (struct ks_event){.kind = KS_EVENT_STORE,
                                .store = {.token = ks_token_make(purpose, subject, serial),
                                          .outcome = KS_DONE,
                                          .leases = rig->rows,
                                          .lease_count = rig->row_count}});
}

static void shuffle(struct rig *rig)
{
    struct ks_prng prng;

    ks_prng_init(&prng, 1);
    for (uint32_t i = 0; i < SHARDS; i++)
        rig->numbers[i] = i;
    for (uint32_t i = SHARDS - 1; i > 0; i--) {
        uint32_t other = (uint32_t)ks_prng_below(&prng, i + 1);
        ks_shard number = rig->numbers[i];

        rig->numbers[i] = rig->numbers[other];
        rig->numbers[other] = number;
    }
}

/* `lines` families, each shard the child of the one before it; the youngest are open, and not begun yet. */
static void bear(struct rig *rig, uint32_t lines, bool rowless)
{
    for (uint32_t i = 0; i < SHARDS; i++) {
        ks_shard parent = i < lines ? KS_SHARD_NONE : rig->numbers[i - lines];
        bool open = i >= SHARDS - lines;

        rig->shards[i] = (struct ks_shard_row){
            .shard = rig->numbers[i], .parents = {parent, KS_SHARD_NONE}, .closed = !open};
        if (rowless && i >= lines)
            continue;
        rig->rows[rig->row_count++] =
            (struct ks_lease_row){.shard = rig->numbers[i],
                                  .owner = open ? (struct ks_incarnation){OTHER, 0} : KS_NOBODY,
                                  .rev = 1,
                                  .parents = {parent, KS_SHARD_NONE},
                                  .finished = !open,
                                  .unstarted = open};
    }
}

static struct rig *new_rig(uint32_t lines, bool rowless)
{
    struct ks_core_config config = ks_core_config_default(ks_span_ms(10000));
    struct rig *rig = calloc(1, sizeof *rig);
    void *memory;

    config.protocol = KS_PROTOCOL_KCL;
    config.self = ME;
    config.seed = 1;
    config.shards_max = SHARDS;
    config.keep = ks_span_ms(1000);
    config.latest = rowless; /* Or rows would be made. */
    memory = calloc(1, ks_core_size(&config));
    if (rig == NULL || memory == NULL)
        meter_fail("no memory");
    rig->core = ks_core_init(memory, &config);
    rig->now = (ks_instant){INT64_C(1000000000)};
    shuffle(rig);
    bear(rig, lines, rowless);
    step(rig, (struct ks_event){.kind = KS_EVENT_START});
    for (uint32_t i = 0; i < 2; i++)
        answer(rig, KS_FOR_NEWS, i, rig->core->fleet.kcl.serials[i]);
    step(rig, (struct ks_event){.kind = KS_EVENT_LISTED,
                                .listed = {.ok = true, .shards = rig->shards, .count = SHARDS}});
    return rig;
}

static void run_looks(void *arg, uint64_t rounds)
{
    struct rig *rig = arg;

    for (uint64_t i = 0; i < rounds; i++) {
        for (uint32_t row = 0; row < rig->row_count; row++)
            rig->rows[row].rev += rig->rows[row].owner.worker != 0;
        while (rig->core->fleet.rows == 0)
            wait(rig, 500);
        answer(rig, KS_FOR_ROWS, 0, rig->core->fleet.rows);
    }
}

static void measure(const char *name, uint32_t lines, bool rowless)
{
    struct rig *rig = new_rig(lines, rowless);
    double cost = meter_cost(run_looks, rig);

    meter_say("looks/kcl", cost * 1e3, "ms", "\"shards\":%d,\"rows\":%" PRIu32 ",\"family\":\"%s\"",
              SHARDS, rig->row_count, name);
}

int main(void)
{
    meter_pin(0);
    measure("none", SHARDS, false);
    measure("parents with one child each", SHARDS / 2, false);
    measure("lines of 100", SHARDS / 100, false);
    measure("lines of 100, only the first have rows", SHARDS / 100, true);
    return 0;
}
