/* SPDX-License-Identifier: Apache-2.0 */
#include "swarm.h"

#include <assert.h>

bool draw_chance(struct ks_prng *prng, uint32_t per_mille)
{
    return per_mille != 0 && ks_prng_below(prng, 1000) < per_mille;
}

int64_t draw_log(struct ks_prng *prng, int64_t low, int64_t high)
{
    int64_t octaves = 0;
    int64_t from;
    int64_t to;

    assert(low > 0 && low <= high);
    while (octaves < 62 && low << octaves < high)
        octaves++;
    from = low << ks_prng_below(prng, (uint64_t)octaves);
    to = from * 2 < high ? from * 2 : high;
    return ks_prng_between(prng, from, to);
}

/* A chance that is off in half of the seeds. */
static uint32_t maybe(struct ks_prng *prng, int64_t low, int64_t high)
{
    return draw_chance(prng, 500) ? (uint32_t)draw_log(prng, low, high) : 0;
}

/* An interval that is off in half of the seeds. */
static sim_time maybe_every(struct ks_prng *prng, int64_t low_s, int64_t high_s)
{
    return draw_chance(prng, 500) ? draw_log(prng, low_s * SIM_SECOND, high_s * SIM_SECOND) : 0;
}

static void draw_roads(struct swarm *swarm, struct ks_prng *prng)
{
    swarm->latency = draw_log(prng, 500, 100 * SIM_MS);
    swarm->lost_requests = maybe(prng, 5, 200);
    swarm->lost_answers = maybe(prng, 5, 200);
    swarm->late_requests = maybe(prng, 5, 150);
    swarm->failed_reads = maybe(prng, 5, 200);
    swarm->throttled = maybe(prng, 5, 200);
    swarm->stale = draw_chance(prng, 500) ? draw_log(prng, 50 * SIM_MS, 1500 * SIM_MS) : 0;
    swarm->stale_rows = draw_chance(prng, 500);
    swarm->tells_refusal = draw_chance(prng, 500);
    swarm->down_every = maybe_every(prng, 8, 80);
    swarm->damage_every = maybe_every(prng, 5, 60);
    swarm->throttle_every = maybe_every(prng, 5, 60);
    swarm->parked = maybe(prng, 10, 300);
    swarm->tells_change = draw_chance(prng, 500);
}

static void draw_processes(struct swarm *swarm, struct ks_prng *prng)
{
    swarm->processes = (uint32_t)ks_prng_between(prng, 2, 6);
    swarm->drift_ppm = draw_chance(prng, 500) ? draw_log(prng, 100, 45000) : 0;
    swarm->loop_lag = draw_chance(prng, 500) ? draw_log(prng, 10, 20 * SIM_MS) : 1;
    swarm->tick_first = draw_chance(prng, 500);
    swarm->pause_every = maybe_every(prng, 2, 60);
    swarm->beat_pauses = maybe(prng, 10, 300);
    swarm->kill_every = maybe_every(prng, 3, 60);
    swarm->blackouts = maybe(prng, 20, 500);
    swarm->same_name = (uint32_t)ks_prng_below(prng, 1001);
    swarm->cut_every = maybe_every(prng, 3, 60);
    swarm->drain_every = maybe_every(prng, 4, 60);
    swarm->twin_every = draw_chance(prng, 400) ? maybe_every(prng, 10, 60) : 0;
    swarm->scale_every = maybe_every(prng, 8, 60);
    swarm->deploy_every = maybe_every(prng, 15, 60);
    swarm->lock_files = maybe(prng, 200, 1000);
    swarm->limited = maybe(prng, 200, 900);
}

static void draw_stream(struct swarm *swarm, struct ks_prng *prng)
{
    swarm->shards = (uint32_t)ks_prng_between(prng, 1, 8);
    swarm->from_latest = draw_chance(prng, 300);
    swarm->put_every = draw_log(prng, 50 * SIM_MS, 2 * SIM_SECOND);
    swarm->burst = (uint32_t)draw_log(prng, 1, 40);
    swarm->records = (uint32_t)draw_log(prng, 100, 6000);
    swarm->big_records = maybe(prng, 2, 100);
    swarm->reshard_every = maybe_every(prng, 3, 40);
    swarm->stale_list = draw_chance(prng, 500) ? draw_log(prng, 100 * SIM_MS, 3 * SIM_SECOND) : 0;
    swarm->failed_lists = maybe(prng, 10, 400);
    swarm->slow_stream = maybe(prng, 5, 100);
    swarm->failed_stream = maybe(prng, 10, 300);
    swarm->short_reads = maybe(prng, 10, 500);
}

static void draw_apps(struct swarm *swarm, struct ks_prng *prng)
{
    swarm->idle_apps = maybe(prng, 50, 500);
    swarm->holiday_every = maybe_every(prng, 5, 40);
    swarm->work = draw_log(prng, 500, 2 * SIM_SECOND);
    swarm->shuffles = maybe(prng, 50, 900);
    swarm->retries = maybe(prng, 10, 300);
    swarm->extends = maybe(prng, 10, 300);
    swarm->ignores = maybe(prng, 5, 150);
    swarm->cumulative = maybe(prng, 10, 500);
    swarm->stale_settles = maybe(prng, 10, 200);
    swarm->persists = maybe(prng, 10, 300);
    swarm->vanishes = maybe(prng, 2, 60);
    swarm->closes = maybe(prng, 2, 60);
    swarm->take_overs = maybe(prng, 2, 60);
    swarm->pollers = maybe(prng, 100, 900);
    swarm->choosy = maybe(prng, 50, 400);
}

static void draw_core(struct ks_core_config *core, struct ks_prng *prng)
{
    int64_t lease_ms = draw_chance(prng, 700) ? 10000 : ks_prng_between(prng, 3000, 15000);

    *core = ks_core_config_default(ks_span_ms(lease_ms));
    /* Longer than any request is under way; an hour is never over here. */
    if (draw_chance(prng, 500))
        core->keep = ks_span_ms(ks_prng_between(prng, 35000, 60000));
    core->list_every = ks_span_ms(ks_prng_between(prng, 1000, 8000));
    core->checkpoint_interval = ks_span_ms(draw_log(prng, 200, 20000));
    core->idle_release = ks_span_ms(ks_prng_between(prng, 3000, 20000));
    core->shards_max = SIM_SHARDS;
    core->leases_max = SIM_SHARDS;
    core->lanes_max = SIM_LANES;
    core->window_max = 1U << ks_prng_between(prng, 5, 8);
    core->workers_max = SIM_WORKERS;
    core->sessions_max = SIM_SESSIONS;
    core->budget_bytes = (uint64_t)draw_log(prng, 30000, 4000000);
    core->read_bytes = (uint32_t)draw_log(prng, 2000, 60000);
    core->record_extra =
        core->read_bytes % 200; /* Not drawn: what is drawn later stays as it was. */
}

static void draw_fleet(struct swarm *swarm, struct ks_prng *prng)
{
    if (draw_chance(prng, 500))
        swarm->core.large_fleet = (uint32_t)ks_prng_between(prng, 1, 3);
    if (draw_chance(prng, 500))
        swarm->core.load_least = (uint64_t)draw_log(prng, 1, 10000);
    swarm->core.load_patience = ks_span_ms(draw_log(prng, 500, 8000));
    swarm->blind_every = maybe_every(prng, 5, 60);
    swarm->operator_every = draw_chance(prng, 400) ? maybe_every(prng, 10, 60) : 0;
    swarm->left_out = maybe(prng, 20, 400);
}

static void draw_poison(struct ks_poison_policy *policy, struct ks_prng *prng)
{
    policy->max_attempts = maybe(prng, 1, 8);
    policy->max_age = ks_span_ms(maybe(prng, 1000, 60000));
    policy->exhausted = (enum ks_exhausted)ks_prng_below(prng, KS_EXHAUSTED_PAUSE + 1);
    policy->back_offs = (uint32_t)ks_prng_below(prng, 4);
    for (uint32_t i = 0; i < policy->back_offs; i++)
        policy->back_off[i] = ks_span_ms(draw_log(prng, 1, 2000));
}

/* From a copy: where limits stay, seeds mean what they meant before there were updates. */
static uint32_t draw_updates(struct ks_prng prng)
{
    return draw_chance(&prng, 125) ? (uint32_t)draw_log(&prng, 5, 200) : 0;
}

static uint32_t draw_filtered(struct ks_prng prng)
{
    (void)ks_prng_next(&prng);
    return draw_chance(&prng, 200) ? (uint32_t)draw_log(&prng, 5, 990) : 0;
}

static uint32_t draw_shares(struct ks_prng prng)
{
    (void)ks_prng_next(&prng);
    (void)ks_prng_next(&prng);
    return draw_chance(&prng, 500) ? (uint32_t)draw_log(&prng, 100, 900) : 0;
}

static uint32_t draw_filters(struct ks_prng prng)
{
    (void)ks_prng_next(&prng);
    (void)ks_prng_next(&prng);
    (void)ks_prng_next(&prng);
    return draw_chance(&prng, 300) ? (uint32_t)draw_log(&prng, 500, 1000) : 0;
}

static void draw_lanes(struct swarm *swarm, struct ks_prng *prng)
{
    swarm->ordering = (enum ks_ordering)ks_prng_below(prng, KS_ORDER_ANY);
    swarm->lanes = (uint32_t)ks_prng_between(prng, 1, SIM_LANES);
    swarm->other_order = maybe(prng, 20, 300);
    swarm->one_lane = swarm->ordering == KS_ORDER_BY_SHARD && swarm->other_order == 0;
    swarm->explicit_credit = maybe(prng, 50, 500);
    swarm->small_messages = maybe(prng, 20, 300);
    swarm->dead_letters = maybe(prng, 5, 200);
    swarm->drops = maybe(prng, 5, 100);
    swarm->slow_readers = maybe(prng, 5, 200);
    swarm->breaks = maybe(prng, 5, 100);
    swarm->half_acks = maybe(prng, 100, 1000);
    swarm->batch_acks = maybe(prng, 50, 500);
    swarm->lost_letters = maybe(prng, 20, 500);
    swarm->updates = draw_updates(*prng);
    swarm->filtered = draw_filtered(*prng);
    swarm->shares = draw_shares(*prng);
    swarm->filters = draw_filters(*prng);
    draw_poison(&swarm->core.poison, prng);
}

void swarm_draw(struct swarm *swarm, struct ks_prng *prng)
{
    draw_roads(swarm, prng);
    draw_processes(swarm, prng);
    draw_stream(swarm, prng);
    draw_apps(swarm, prng);
    draw_core(&swarm->core, prng);
    swarm->war = ks_prng_between(prng, 60, 90) * SIM_SECOND;
    draw_fleet(swarm, prng);
    draw_lanes(swarm, prng); /* Last: what older seeds draw stays as it was. */
}

void swarm_make_peace(struct swarm *swarm)
{
    struct swarm old = *swarm;

    /* What is no fault stays as it is; the rest becomes zero. */
    *swarm = (struct swarm){
        .latency = old.latency < 20 * SIM_MS ? old.latency : 20 * SIM_MS,
        .tells_refusal = old.tells_refusal,
        .tells_change = old.tells_change,
        .stale = old.stale,
        .stale_rows = old.stale_rows,
        .slow_looks = old.slow_looks,
        .look = old.look,
        .processes = old.processes,
        .drift_ppm = old.drift_ppm,
        .loop_lag = 1,
        .tick_first = old.tick_first,
        .same_name = old.same_name,
        .lock_files = old.lock_files,
        .limited = old.limited,
        .shards = old.shards,
        .from_latest = old.from_latest,
        .put_every = old.put_every,
        .burst = old.burst,
        .records = old.records,
        .persists = old.persists,
        .ordering = old.ordering,
        .lanes = old.lanes,
        .one_lane = old.one_lane,
        .shares = old.shares,
        .filters = old.filters,
        .work = old.work < 10 * SIM_MS ? old.work : 10 * SIM_MS,
        .war = old.war,
        .checks = old.checks,
        .core = old.core,
    };
}
