/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/core/rig.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "core/lease.h"
#include "core/fleet/native.h"

static max_align_t memory[1 << 16];

void rig_init(struct rig *rig)
{
    struct ks_core_config config = ks_core_config_default(ks_span_ms(10000));

    config.self = RIG_ME;
    config.seed = 42;
    config.shards_max = RIG_SHARDS;
    config.leases_max = 8;
    config.window_max = RIG_WINDOW;
    config.workers_max = 8;
    config.sessions_max = 4;
    config.budget_bytes = 1 << 20;
    config.read_bytes = 10000;
    assert(ks_core_size(&config) <= sizeof memory);
    memset(memory, 0, sizeof memory);
    *rig = (struct rig){.now = {INT64_C(1000000000)}};
    rig->core = ks_core_init(memory, &config);
}

/* The token of what was surely asked. */
static uint64_t token_of(const struct rig *rig, enum ks_store_operation operation)
{
    const struct ks_store_effect *asked = rig_asked(rig, operation);

    assert(asked != NULL);
    return asked->token;
}

static const struct ks_effect *must_have(const struct rig *rig, enum ks_effect_kind kind)
{
    const struct ks_effect *effect = rig_effect(rig, kind, 0);

    assert(effect != NULL);
    return effect;
}

void rig_live(struct rig *rig)
{
    struct ks_event start = {.kind = KS_EVENT_START};

    rig_init(rig);
    rig_step(rig, &start);
    rig_answer(rig, token_of(rig, KS_STORE_READ_WORKER), KS_DONE);
    rig_answer(rig, token_of(rig, KS_STORE_REGISTER_NEW), KS_DONE);
    assert(rig->core->fleet.step == KS_SELF_LIVE);
    /* The read of the fleet is answered by no one: it is not what these tests are about. */
    rig->core->fleet.news = UINT32_MAX;
}

void rig_step(struct rig *rig, const struct ks_event *event)
{
    rig->effects.count = 0;
    ks_core_step(rig->core, rig->now, event, &rig->effects);
    ks_core_check(rig->core);
}

void rig_tick(struct rig *rig)
{
    struct ks_event tick = {.kind = KS_EVENT_TICK};

    rig_step(rig, &tick);
}

void rig_wait(struct rig *rig, int64_t ms)
{
    rig->now = ks_instant_add(rig->now, ks_span_ms(ms));
    rig_tick(rig);
}

void rig_settle_down(struct rig *rig)
{
    struct ks_effects all = rig->effects;

    for (int i = 0; ks_instant_reached(rig->now, ks_core_deadline(rig->core)); i++) {
        assert(i < 100);
        rig_tick(rig);
        for (uint32_t e = 0; e < rig->effects.count; e++)
            all.items[all.count++] = rig->effects.items[e];
    }
    rig->effects = all;
}

const struct ks_effect *rig_effect(const struct rig *rig, enum ks_effect_kind kind, uint32_t nth)
{
    for (uint32_t i = 0; i < rig->effects.count; i++)
        if (rig->effects.items[i].kind == kind && nth-- == 0)
            return &rig->effects.items[i];
    return NULL;
}

uint32_t rig_count(const struct rig *rig, enum ks_effect_kind kind)
{
    uint32_t count = 0;

    while (rig_effect(rig, kind, count) != NULL)
        count++;
    return count;
}

const struct ks_store_effect *rig_asked(const struct rig *rig, enum ks_store_operation operation)
{
    const struct ks_effect *effect;

    for (uint32_t i = 0; (effect = rig_effect(rig, KS_EFFECT_STORE, i)) != NULL; i++)
        if (effect->store.operation == operation)
            return &effect->store;
    return NULL;
}

bool rig_told(const struct rig *rig, enum ks_story story)
{
    const struct ks_effect *effect;

    for (uint32_t i = 0; (effect = rig_effect(rig, KS_EFFECT_STORY, i)) != NULL; i++)
        if (effect->story.story == story)
            return true;
    return false;
}

void rig_answer(struct rig *rig, uint64_t token, enum ks_outcome outcome)
{
    struct ks_event event = {.kind = KS_EVENT_STORE, .store = {.token = token, .outcome = outcome}};

    rig_step(rig, &event);
}

void rig_answer_worker(struct rig *rig, uint64_t token, const struct ks_worker_row *row)
{
    struct ks_event event = {
        .kind = KS_EVENT_STORE,
        .store = {.token = token, .outcome = KS_DONE, .workers = row, .worker_count = 1},
    };

    rig_step(rig, &event);
}

void rig_answer_lease(struct rig *rig, uint64_t token, const struct ks_lease_row *row)
{
    struct ks_event event = {
        .kind = KS_EVENT_STORE,
        .store = {.token = token, .outcome = KS_DONE, .leases = row, .lease_count = 1},
    };

    rig_step(rig, &event);
}

void rig_answer_fleet(struct rig *rig, uint64_t token, const struct ks_worker_row *rows,
                      uint32_t count, struct ks_incarnation holder, uint64_t office_epoch)
{
    struct ks_event event = {
        .kind = KS_EVENT_STORE,
        .store = {.token = token,
                  .outcome = KS_DONE,
                  .workers = rows,
                  .worker_count = count,
                  .leader = {.present = true, .holder = holder, .epoch = office_epoch},
                  .app_present = true},
    };

    rig_step(rig, &event);
}

struct ks_lease *rig_hold(struct rig *rig, ks_shard shard, ks_epoch epoch)
{
    struct ks_lease_row row = {
        .shard = shard,
        .owner = rig->core->fleet.self,
        .epoch = epoch,
        .rev = 7,
        .parents = {KS_SHARD_NONE, KS_SHARD_NONE},
    };

    assert(ks_native_know(rig->core, shard));
    rig->effects.count = 0;
    rig->core->now = rig->now;
    ks_lease_begin(rig->core, &row, &rig->effects);
    return ks_lease_of(rig->core, shard, epoch);
}

ks_session_id rig_session(struct rig *rig, uint32_t max_in_flight, uint64_t max_bytes)
{
    struct ks_event event = {
        .kind = KS_EVENT_SESSION_OPEN,
        .open = {.take_over = KS_SESSION_NONE,
                 .max_in_flight = max_in_flight,
                 .max_in_flight_bytes = max_bytes,
                 .ack_deadline = ks_span_ms(60000),
                 .grace = ks_span_ms(5000)},
    };

    rig_step(rig, &event);
    return must_have(rig, KS_EFFECT_OPENED)->session.session;
}

void rig_records(struct rig *rig, ks_shard shard, uint32_t count, uint32_t bytes, bool at_end)
{
    uint32_t sizes[RIG_WINDOW];
    struct ks_event event = {
        .kind = KS_EVENT_RECORDS,
        .records = {.shard = shard,
                    .epoch = rig->core->leases[rig->core->directory[shard].held].epoch,
                    .sizes = sizes,
                    .count = count,
                    .at_end = at_end},
    };

    for (uint32_t i = 0; i < count; i++)
        sizes[i] = bytes;
    rig_step(rig, &event);
}

uint32_t rig_pull(struct rig *rig, ks_session_id session, uint32_t max_records)
{
    struct ks_event event = {
        .kind = KS_EVENT_SESSION_PULL,
        .pull = {.session = session,
                 .max_records = max_records,
                 .max_bytes = UINT64_MAX,
                 .max_runs = 16},
    };
    const struct ks_effect *run;
    uint32_t count = 0;

    rig_step(rig, &event);
    for (uint32_t i = 0; (run = rig_effect(rig, KS_EFFECT_DELIVER, i)) != NULL; i++)
        count += run->deliver.count;
    return count;
}

enum ks_settle_status rig_settle(struct rig *rig, ks_session_id session, ks_shard shard,
                                 ks_number first, uint32_t count, enum ks_settle_outcome outcome,
                                 int64_t delay_ms)
{
    uint32_t held = rig->core->directory[shard].held;
    struct ks_event event = {
        .kind = KS_EVENT_SETTLE,
        .settle = {.session = session,
                   .session_epoch = rig->core->sessions[session].epoch,
                   .shard = shard,
                   .epoch = held == KS_HELD_NONE ? 1 : rig->core->leases[held].epoch,
                   .first = first,
                   .count = count,
                   .outcome = outcome,
                   .delay = ks_span_ms(delay_ms)},
    };

    rig_step(rig, &event);
    return must_have(rig, KS_EFFECT_SETTLED)->settled.status;
}
