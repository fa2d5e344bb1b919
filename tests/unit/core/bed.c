/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/core/bed.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "core/lease.h"
#include "core/fleet/native.h"

static max_align_t memory[1 << 16];

void bed_init(struct bed *bed)
{
    struct ks_core_config config = ks_core_config_default(ks_span_ms(10000));

    config.self = BED_ME;
    config.seed = 42;
    config.boot = BED_BOOT;
    config.shards_max = BED_SHARDS;
    config.leases_max = 8;
    config.window_max = BED_WINDOW;
    config.workers_max = 8;
    config.sessions_max = 4;
    config.budget_bytes = 1 << 20;
    config.read_bytes = 10000;
    assert(ks_core_size(&config) <= sizeof memory);
    memset(memory, 0, sizeof memory);
    *bed = (struct bed){.now = {INT64_C(1000000000)}};
    bed->core = ks_core_init(memory, &config);
}

/* The token of what was surely asked. */
static uint64_t token_of(const struct bed *bed, enum ks_store_operation operation)
{
    const struct ks_store_effect *asked = bed_asked(bed, operation);

    assert(asked != NULL);
    return asked->token;
}

static const struct ks_effect *must_have(const struct bed *bed, enum ks_effect_kind kind)
{
    const struct ks_effect *effect = bed_effect(bed, kind, 0);

    assert(effect != NULL);
    return effect;
}

void bed_live(struct bed *bed)
{
    struct ks_event start = {.kind = KS_EVENT_START};
    struct ks_worker_row row;

    bed_init(bed);
    bed_step(bed, &start);
    bed_answer(bed, token_of(bed, KS_STORE_READ_WORKER), KS_DONE);
    bed_answer(bed, token_of(bed, KS_STORE_REGISTER_NEW), KS_DONE);
    assert(bed->core->fleet.step == KS_SELF_LIVE);
    row = (struct ks_worker_row){.self = bed->core->fleet.self, .beat = 1};
    bed_answer_worker(bed, token_of(bed, KS_STORE_HEARTBEAT), &row);
    /* The read of the fleet is answered by no one: it is not what these tests are about. */
    bed->core->fleet.news = UINT32_MAX;
}

void bed_step(struct bed *bed, const struct ks_event *event)
{
    bed->effects.count = 0;
    ks_core_step(bed->core, bed->now, event, &bed->effects);
    ks_core_check(bed->core);
}

void bed_tick(struct bed *bed)
{
    struct ks_event tick = {.kind = KS_EVENT_TICK};

    bed_step(bed, &tick);
}

void bed_wait(struct bed *bed, int64_t ms)
{
    bed->now = ks_instant_add(bed->now, ks_span_ms(ms));
    bed_tick(bed);
}

void bed_settle_down(struct bed *bed)
{
    struct ks_effects all = bed->effects;

    for (int i = 0; ks_instant_reached(bed->now, ks_core_deadline(bed->core)); i++) {
        assert(i < 100);
        bed_tick(bed);
        for (uint32_t e = 0; e < bed->effects.count; e++)
            all.items[all.count++] = bed->effects.items[e];
    }
    bed->effects = all;
}

const struct ks_effect *bed_effect(const struct bed *bed, enum ks_effect_kind kind, uint32_t nth)
{
    for (uint32_t i = 0; i < bed->effects.count; i++)
        if (bed->effects.items[i].kind == kind && nth-- == 0)
            return &bed->effects.items[i];
    return NULL;
}

uint32_t bed_count(const struct bed *bed, enum ks_effect_kind kind)
{
    uint32_t count = 0;

    while (bed_effect(bed, kind, count) != NULL)
        count++;
    return count;
}

const struct ks_store_effect *bed_asked(const struct bed *bed, enum ks_store_operation operation)
{
    const struct ks_effect *effect;

    for (uint32_t i = 0; (effect = bed_effect(bed, KS_EFFECT_STORE, i)) != NULL; i++)
        if (effect->store.operation == operation)
            return &effect->store;
    return NULL;
}

bool bed_told(const struct bed *bed, enum ks_story story)
{
    const struct ks_effect *effect;

    for (uint32_t i = 0; (effect = bed_effect(bed, KS_EFFECT_STORY, i)) != NULL; i++)
        if (effect->story.story == story)
            return true;
    return false;
}

void bed_answer(struct bed *bed, uint64_t token, enum ks_outcome outcome)
{
    struct ks_event event = {.kind = KS_EVENT_STORE, .store = {.token = token, .outcome = outcome}};

    bed_step(bed, &event);
}

void bed_answer_worker(struct bed *bed, uint64_t token, const struct ks_worker_row *row)
{
    struct ks_event event = {
        .kind = KS_EVENT_STORE,
        .store = {.token = token, .outcome = KS_DONE, .workers = row, .worker_count = 1},
    };

    bed_step(bed, &event);
}

void bed_answer_lease(struct bed *bed, uint64_t token, const struct ks_lease_row *row)
{
    struct ks_event event = {
        .kind = KS_EVENT_STORE,
        .store = {.token = token, .outcome = KS_DONE, .leases = row, .lease_count = 1},
    };

    bed_step(bed, &event);
}

void bed_answer_fleet(struct bed *bed, uint64_t token, const struct ks_worker_row *rows,
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

    bed_step(bed, &event);
}

struct ks_lease *bed_hold(struct bed *bed, ks_shard shard, ks_epoch epoch)
{
    struct ks_lease_row row = {
        .shard = shard,
        .owner = bed->core->fleet.self,
        .epoch = epoch,
        .rev = 7,
        .parents = {KS_SHARD_NONE, KS_SHARD_NONE},
    };

    assert(ks_native_know(bed->core, shard));
    bed->effects.count = 0;
    bed->core->now = bed->now;
    ks_lease_begin(bed->core, &row, &bed->effects);
    return ks_lease_of(bed->core, shard, epoch);
}

ks_session_id bed_session(struct bed *bed, uint32_t max_in_flight, uint64_t max_bytes)
{
    struct ks_event event = {
        .kind = KS_EVENT_SESSION_OPEN,
        .open = {.take_over = KS_SESSION_NONE,
                 .max_in_flight = max_in_flight,
                 .max_in_flight_bytes = max_bytes,
                 .ack_deadline = ks_span_ms(60000),
                 .grace = ks_span_ms(5000)},
    };

    bed_step(bed, &event);
    return must_have(bed, KS_EFFECT_OPENED)->session.session;
}

void bed_records(struct bed *bed, ks_shard shard, uint32_t count, uint32_t bytes, bool at_end)
{
    uint32_t sizes[BED_WINDOW];
    struct ks_event event = {
        .kind = KS_EVENT_RECORDS,
        .records = {.shard = shard,
                    .epoch = bed->core->leases[bed->core->directory[shard].held].epoch,
                    .sizes = sizes,
                    .count = count,
                    .at_end = at_end},
    };

    for (uint32_t i = 0; i < count; i++)
        sizes[i] = bytes;
    bed_step(bed, &event);
}

void bed_keyed_records(struct bed *bed, ks_shard shard, const uint8_t *hashes, uint32_t count)
{
    uint32_t sizes[BED_WINDOW];
    struct ks_event event = {
        .kind = KS_EVENT_RECORDS,
        .records = {.shard = shard,
                    .epoch = bed->core->leases[bed->core->directory[shard].held].epoch,
                    .sizes = sizes,
                    .hashes = hashes,
                    .count = count},
    };

    for (uint32_t i = 0; i < count; i++)
        sizes[i] = 100;
    bed_step(bed, &event);
}

struct ks_event bed_opening(enum ks_ordering ordering, uint32_t lanes)
{
    return (struct ks_event){
        .kind = KS_EVENT_SESSION_OPEN,
        .open = {.take_over = KS_SESSION_NONE,
                 .max_in_flight = 100,
                 .max_in_flight_bytes = 1 << 20,
                 .ack_deadline = ks_span_ms(60000),
                 .grace = ks_span_ms(5000),
                 .ordering = ordering,
                 .lanes = lanes},
    };
}

ks_session_id bed_open(struct bed *bed, const struct ks_event *event)
{
    const struct ks_effect *opened;

    bed_step(bed, event);
    opened = bed_effect(bed, KS_EFFECT_OPENED, 0);
    return opened == NULL ? KS_SESSION_NONE : opened->session.session;
}

ks_session_id bed_ordered_session(struct bed *bed, enum ks_ordering ordering, uint32_t lanes)
{
    const struct ks_event event = bed_opening(ordering, lanes);

    return bed_open(bed, &event);
}

uint32_t bed_assign(struct bed *bed, ks_session_id session, uint32_t max_records)
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

    bed_step(bed, &event);
    for (uint32_t i = 0; (run = bed_effect(bed, KS_EFFECT_DELIVER, i)) != NULL; i++)
        count += run->deliver.count;
    return count;
}

struct bed_run bed_run(const struct bed *bed, uint32_t nth)
{
    const struct ks_effect *effect = bed_effect(bed, KS_EFFECT_DELIVER, nth);

    assert(effect != NULL);
    return (struct bed_run){.session = effect->deliver.session,
                            .shard = effect->deliver.shard,
                            .epoch = effect->deliver.epoch,
                            .first = effect->deliver.first,
                            .count = effect->deliver.count,
                            .assignment = effect->deliver.assignment};
}

/* Reports records `first` .. `first + count - 1` of the run. */
static void write_records(struct bed *bed, const struct bed_run *run, enum ks_write_stage stage,
                          ks_number first, uint32_t count)
{
    struct ks_event event = {
        .kind = KS_EVENT_WRITE,
        .write = {.stage = stage,
                  .session = run->session,
                  .shard = run->shard,
                  .epoch = run->epoch,
                  .first = first,
                  .count = count,
                  .assignment = run->assignment},
    };

    bed_step(bed, &event);
}

void bed_write(struct bed *bed, const struct bed_run *run, enum ks_write_stage stage)
{
    write_records(bed, run, stage, run->first, run->count);
}

void bed_hand_half(struct bed *bed, const struct bed_run *run, uint32_t whole)
{
    write_records(bed, run, KS_STAGE_BEGUN, run->first, whole + 1);
}

struct bed_run bed_part(const struct bed_run *run, uint32_t skipped, uint32_t count)
{
    struct bed_run part = *run;

    assert(skipped + count <= run->count);
    part.first += skipped;
    part.count = count;
    return part;
}

uint32_t bed_pull(struct bed *bed, ks_session_id session, uint32_t max_records)
{
    uint32_t count = bed_assign(bed, session, max_records);
    struct ks_effects all = bed->effects;
    uint32_t runs = bed_count(bed, KS_EFFECT_DELIVER);

    for (uint32_t i = 0; i < runs; i++) {
        struct bed_run run;

        bed->effects = all;
        run = bed_run(bed, i);
        for (int stage = KS_STAGE_BEGUN; stage <= KS_STAGE_WRITTEN; stage++) {
            bed_write(bed, &run, (enum ks_write_stage)stage);
            for (uint32_t e = 0; e < bed->effects.count; e++)
                all.items[all.count++] = bed->effects.items[e];
        }
    }
    bed->effects = all;
    return count;
}

enum ks_settle_status bed_settle(struct bed *bed, ks_session_id session, ks_shard shard,
                                 ks_number first, uint32_t count, enum ks_settle_outcome outcome,
                                 int64_t delay_ms)
{
    uint32_t held = bed->core->directory[shard].held;
    struct ks_event event = {
        .kind = KS_EVENT_SETTLE,
        .settle = {.session = session,
                   .session_epoch = bed->core->sessions[session].epoch,
                   .shard = shard,
                   .epoch = held == KS_HELD_NONE ? 1 : bed->core->leases[held].epoch,
                   .first = first,
                   .count = count,
                   .outcome = outcome,
                   .delay = ks_span_ms(delay_ms)},
    };

    bed_step(bed, &event);
    return must_have(bed, KS_EFFECT_SETTLED)->settled.status;
}
