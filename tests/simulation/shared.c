/* SPDX-License-Identifier: Apache-2.0 */
#include "shared.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/budget.h"
#include "shared_member.h"
#include "shared_world.h"
#include "world_looks.h"

#define WAR (60 * SIM_SECOND)
#define WALL_US INT64_C(1700000000000000)
enum { WINDOW = 32, LOOKS = 6 }; /* So many slow looks it takes to share leases out, one by one. */

bool shared_chance(struct shared_world *world, uint32_t per_mille)
{
    return ks_prng_below(&world->prng, 1000) < per_mille;
}

/* ---- Clocks ---- */

uint64_t shared_wall(const struct shared_world *world, int64_t error_us)
{
    return (uint64_t)(WALL_US + world->now + error_us) * 1000;
}

static ks_instant clock_of(const struct shared_world *world, const struct shared_node *node)
{
    return (ks_instant){node->offset + world->now + world->now / 1000000 * node->drift_ppm +
                        world->now % 1000000 * node->drift_ppm / 1000000};
}

static sim_time true_time(const struct shared_world *world, const struct shared_node *node,
                          ks_instant at)
{
    int64_t left = at.us - clock_of(world, node).us;

    return world->now + (left <= 0 ? 1 : left - left * node->drift_ppm / 1000000 + 1);
}

bool shared_may_deliver(const struct shared_world *world, uint32_t number, ks_shard shard)
{
    const struct shared_node *node = &world->nodes[number];
    const ks_shard called = numbers_of(&node->numbers, shard);
    struct ks_lease_view view;

    return ks_core_lease(node->core, called, &view) && view.state == KS_LEASE_HELD &&
           ks_core_may_finish(node->core, called, view.epoch, clock_of(world, node));
}

/* ---- A node ---- */

void shared_plan(struct shared_world *world, uint32_t number, sim_time at,
                 struct happening happening)
{
    struct shared_node *node = &world->nodes[number];

    happening.process = number;
    happening.life = node->life;
    agenda_add(&world->agenda, at, &happening);
}

static sim_time latency(struct shared_world *world)
{
    return ks_prng_between(&world->prng, SIM_MS, 40 * SIM_MS);
}

static bool is_lost(struct shared_world *world, const struct shared_node *node)
{
    return world->now < world->away_until || world->now < node->cut_until ||
           shared_chance(world, world->lost);
}

/* As ports/rows.c: what the row of a shard says that it makes. */
static enum shared_begin begin_of(const struct shared_world *world, const struct shared_node *node,
                                  ks_shard shard)
{
    for (uint32_t p = 0; p < KS_PARENTS_MAX; p++) {
        const ks_shard parent = world->shards[shard].parents[p];

        if (parent != KS_SHARD_NONE && node->has_row[parent])
            return world->initial == SHARED_AT_TIMESTAMP ? world->initial : SHARED_TRIM_HORIZON;
    }
    return world->initial;
}

/* A large table: all pages of a look have the time of the product together. */
static void draw_look(struct shared_world *world, struct shared_request *request)
{
    if (request->ask.operation == KS_STORE_READ_LEASES &&
        ks_prng_below(&world->looks, 1000) < world->slow_looks)
        request->slow = ks_prng_between(&world->looks, world->look / 4, world->look);
}

static void ask(struct shared_world *world, uint32_t number, const struct ks_store_effect *effect)
{
    struct shared_node *node = &world->nodes[number];
    bool writes = effect->operation > KS_STORE_READ_WORKER;
    uint32_t at = 0;
    struct shared_request *request;
    sim_time arrives = world->now + latency(world);

    while (world->requests[at].used)
        at++;
    assert(at < SHARED_REQUESTS);
    request = &world->requests[at];
    *request = (struct shared_request){.used = true,
                                       .users = 1,
                                       .node = number,
                                       .life = node->life,
                                       .ask = *effect,
                                       .began = node->began};
    if (effect->operation == KS_STORE_CHECKPOINT || effect->operation == KS_STORE_FINAL) {
        request->has_checkpoint = effect->up_to > 0 || node->behind[effect->shard];
        request->checkpoint = node->base[effect->shard] + node->forgot[effect->shard];
        if (effect->up_to > 0 && node->forgot[effect->shard] != effect->up_to)
            shared_fail(world, "shard-%u: a checkpoint at a place that was not kept",
                        effect->shard);
    }
    if (effect->operation == KS_STORE_CREATE)
        request->begin = begin_of(world, node, effect->shard);
    world->fleet->asked(world, request);
    draw_look(world, request);
    shared_plan(
        world, number,
        true_time(world, node,
                  ks_instant_add(clock_of(world, node),
                                 request->slow > 0 ? ks_span_us(SIM_LOOK) : world->config.timeout)),
        (struct happening){.kind = HAPPENS_TIMEOUT, .request = at});
    if (is_lost(world, node))
        return;
    if (writes && shared_chance(world, world->late))
        arrives += ks_prng_between(&world->prng, 2 * SIM_SECOND, 30 * SIM_SECOND);
    request->users++;
    shared_plan(world, number, arrives, (struct happening){.kind = HAPPENS_ARRIVE, .request = at});
}

static void done_with(struct shared_request *request)
{
    assert(request->users > 0);
    if (--request->users == 0)
        request->used = false;
}

static void arrive(struct shared_world *world, const struct happening *happening)
{
    struct shared_request *request = &world->requests[happening->request];

    world->fleet->apply(world, request);
    if (!is_lost(world, &world->nodes[request->node])) {
        request->users++;
        shared_plan(world, request->node, world->now + latency(world) + request->slow,
                    (struct happening){.kind = HAPPENS_ANSWER, .request = happening->request});
    }
    done_with(request);
}

static void remember(struct shared_node *node, const struct shared_request *request)
{
    for (ks_shard shard = 0;
         request->ask.operation == KS_STORE_READ_LEASES && shard < SHARED_SHARDS; shard++)
        node->has_row[shard] = false;
    for (uint32_t i = 0; i < request->row_count; i++) {
        uint64_t checkpoint = request->checkpoints[i];
        ks_shard shard = request->rows[i].shard;

        node->has_row[shard] = true;
        node->unread[shard] = request->rows[i].damaged;
        if (request->rows[i].damaged)
            continue;
        /* As ports/rows.c: what we made durable, if the row says less. */
        node->behind[shard] = node->own[shard] != SHARED_NONE &&
                              (checkpoint == SHARED_NONE || checkpoint < node->own[shard]);
        if (node->behind[shard])
            checkpoint = node->own[shard];
        node->seen[shard] = checkpoint;
    }
}

/* What a look shows; not a single row. */
static void check_told(struct shared_world *world, const struct shared_node *node,
                       const struct shared_request *request)
{
    for (uint32_t i = 0; node->core != NULL && i < request->row_count; i++)
        if (request->rows[i].damaged && !node->told[request->rows[i].shard])
            shared_fail(world, "shard-%u: w%u does not tell that it cannot read its row",
                        request->rows[i].shard, node->name);
}

static void answer(struct shared_world *world, const struct happening *happening)
{
    struct shared_request *request = &world->requests[happening->request];
    struct shared_node *node = &world->nodes[request->node];
    struct ks_event event = {.kind = KS_EVENT_STORE};
    bool live = node->core != NULL && node->life == request->life && !request->closed;

    request->closed = true;
    event.store.token = request->ask.token;
    event.store.outcome = happening->kind == HAPPENS_TIMEOUT ? KS_UNKNOWN : request->outcome;
    event.store.kcl = request->kcl;
    event.store.leases = request->rows;
    event.store.workers = request->workers;
    event.store.leader = request->leader;
    event.store.list = request->list;
    event.store.list.shards = request->listed;
    if (event.store.outcome != KS_UNKNOWN) {
        event.store.lease_count = request->row_count;
        event.store.worker_count = request->worker_count;
    }
    if (live && event.store.outcome == KS_DONE) {
        if (request->ask.operation != KS_STORE_READ_OWNED)
            remember(node, request);
        if (request->ask.operation == KS_STORE_CREATE)
            node->has_row[request->ask.shard] = true;
        if (world->fleet->answered != NULL)
            world->fleet->answered(world, node, request);
        if (request->has_checkpoint && !world->fleet->kept) {
            node->own[request->ask.shard] = request->checkpoint;
            node->behind[request->ask.shard] = false;
        }
    }
    if (live)
        shared_step(world, request->node, &event);
    if (live && event.store.outcome == KS_DONE && request->ask.operation == KS_STORE_READ_LEASES)
        check_told(world, node, request);
    done_with(request);
}

/* ---- The stream ---- */

static void listed(struct shared_world *world, uint32_t number)
{
    struct shared_node *node = &world->nodes[number];
    struct ks_event event = {.kind = KS_EVENT_LISTED, .listed = {.ok = true}};

    for (ks_shard shard = 0; shard < world->shard_count; shard++)
        event.listed.count += world->shards[shard].stream == shared_stream_of(world, number) &&
                              shared_stream_lists(world, shard, &node->listing[event.listed.count]);
    event.listed.shards = node->listing;
    shared_step(world, number, &event);
}

static void open_reader(struct shared_world *world, uint32_t number, ks_shard shard)
{
    struct shared_node *node = &world->nodes[number];
    uint64_t seen = node->seen[shard];

    if (seen == SHARED_END)
        shared_fail(world, "shard-%u is begun though it is finished", shard);
    node->open[shard] = true;
    node->base[shard] = seen == SHARED_NONE ? 0 : seen;
    node->fetched[shard] = node->forgot[shard] = 0;
}

static void read_answers(struct shared_world *world, uint32_t number,
                         const struct happening *happening)
{
    struct shared_node *node = &world->nodes[number];
    const ks_shard shard = happening->shard;
    const struct shared_shard *stream = &world->shards[shard];
    uint32_t sizes[WINDOW];
    struct ks_event event = {.kind = KS_EVENT_RECORDS};

    if (!node->open[shard] || node->reader[shard] != happening->serial)
        return;
    event.records.shard = shard;
    event.records.epoch = happening->epoch;
    event.records.sizes = sizes;
    while (event.records.count < happening->count && !shared_is_gone(world, shard) &&
           node->base[shard] + node->fetched[shard] < stream->count) {
        sizes[event.records.count++] = 100;
        node->fetched[shard]++;
    }
    event.records.at_end =
        shared_is_gone(world, shard) ||
        (stream->closed && node->base[shard] + node->fetched[shard] == stream->count);
    shared_step(world, number, &event);
}

/* ---- Effects ---- */

static void deliver(struct shared_world *world, uint32_t number, const struct ks_effect *effect)
{
    struct shared_node *node = &world->nodes[number];
    const ks_shard shard = effect->deliver.shard;
    const uint64_t first = node->base[shard] + effect->deliver.first;

    world->delivered += effect->deliver.count;
    for (ks_shard parent = 0; parent < shard; parent++)
        if (shared_is_parent(world, parent, shard) && shared_waits_for(world, parent, shard))
            shared_fail(world, "shard-%u is delivered before its parent is over", shard);
    if (world->shards[shard].put_at[first] < world->oldest)
        shared_fail(world, "shard-%u: a record is delivered that is older than the begin", shard);
    if (!shared_may_deliver(world, number, shard))
        shared_fail(world, "shard-%u is delivered past its deadline", shard);
    assert(node->run_count < SHARED_RUNS);
    node->runs[node->run_count++] = *effect;
}

static void settle(struct shared_world *world, uint32_t number, const struct happening *happening)
{
    struct shared_node *node = &world->nodes[number];
    struct ks_event event = {.kind = KS_EVENT_SETTLE};
    struct ks_lease_view view;

    /* Handled is handled, whether the ack still counts or not. */
    if (ks_core_lease(node->core, numbers_of(&node->numbers, happening->shard), &view) &&
        view.epoch == happening->epoch && node->open[happening->shard])
        for (uint32_t i = 0; i < happening->count; i++)
            world->shards[happening->shard]
                .settled[node->base[happening->shard] + happening->first + i] = true;
    event.settle.session = node->session;
    event.settle.session_epoch = node->session_epoch;
    event.settle.shard = happening->shard;
    event.settle.epoch = happening->epoch;
    event.settle.first = happening->first;
    event.settle.count = happening->count;
    event.settle.outcome = KS_ACK;
    /* Who was given all that it asked for is not woken. */
    shared_plan(world, number, world->now + 1, (struct happening){.kind = HAPPENS_CONSUMER});
    shared_step(world, number, &event);
}

void shared_stop(struct shared_world *world, uint32_t number)
{
    struct shared_node *node = &world->nodes[number];

    shared_say(world, "node %u: w%u is over", number, node->name);
    ks_free(node->core);
    node->core = NULL;
    node->life++;
    shared_worker_changed(world, number);
}

static void perform(struct shared_world *world, uint32_t number, const struct ks_effect *effect)
{
    struct shared_node *node = &world->nodes[number];
    const ks_shard shard = effect->lease.shard;

    if (world->fleet->effect != NULL)
        world->fleet->effect(world, number, effect);
    switch ((int)effect->kind) {
    case KS_EFFECT_STORE: ask(world, number, &effect->store); break;
    case KS_EFFECT_LIST:
        shared_plan(world, number, world->now + 100 * SIM_MS,
                    (struct happening){.kind = HAPPENS_LISTED});
        break;
    case KS_EFFECT_OPEN: open_reader(world, number, shard); break;
    case KS_EFFECT_CLOSE:
        node->open[shard] = false;
        node->reader[shard]++;
        break;
    case KS_EFFECT_FORGET: node->forgot[shard] = effect->lease.number; break;
    case KS_EFFECT_READ:
        shared_plan(
            world, number, world->now + ks_prng_between(&world->prng, 10 * SIM_MS, 300 * SIM_MS),
            (struct happening){
                .kind = HAPPENS_READ,
                .shard = shard,
                .epoch = effect->lease.epoch,
                .serial = ++node->reader[shard],
                .count = effect->lease.max_records < WINDOW ? effect->lease.max_records : WINDOW});
        break;
    case KS_EFFECT_DELIVER: deliver(world, number, effect); break;
    case KS_EFFECT_WAKE:
        shared_plan(world, number, world->now + 1, (struct happening){.kind = HAPPENS_CONSUMER});
        break;
    case KS_EFFECT_OPENED:
        node->session = effect->session.session;
        node->session_epoch = effect->session.session_epoch;
        shared_plan(world, number, world->now + 1, (struct happening){.kind = HAPPENS_CONSUMER});
        break;
    case KS_EFFECT_STORY:
        if (effect->story.story == KS_STORY_DAMAGED)
            node->told[effect->story.shard] = true;
        if (effect->story.story == KS_STORY_READ_AGAIN || effect->story.story == KS_STORY_HOLE)
            shared_fail(world, "node %u sees a hole where there is none", number);
        shared_say(world, "node %u: story %d of shard-%d", number, (int)effect->story.story,
                   (int)effect->story.shard);
        break;
    default: break;
    }
}

void shared_step(struct shared_world *world, uint32_t number, const struct ks_event *event)
{
    struct shared_node *node = &world->nodes[number];
    struct ks_effects *effects = &world->effects;
    bool over = false;
    sim_time due;

    effects->count = 0;
    ks_core_wall(node->core, WALL_US + world->now + node->wall_error);
    ks_core_claim(node->core, &world->nodes[shared_worker_of(world, number)].claim_at);
    numbers_step(&node->numbers, node->core, clock_of(world, node), event, effects);
    ks_core_claim(node->core, &world->nodes[shared_worker_of(world, number)].claim_at);
    ks_core_check(node->core);
    for (uint32_t i = 0; i < effects->count && !world->failed; i++) {
        perform(world, number, &effects->items[i]);
        over |= effects->items[i].kind == KS_EFFECT_DRAINED;
    }
    if (over) {
        shared_stop(world, number);
        if (!shared_worker_runs(world, number))
            agenda_add(
                &world->agenda, world->now + SIM_SECOND,
                &(struct happening){.kind = HAPPENS_START, .process = number, .count = node->name});
        return;
    }
    shared_worker_changed(world, number);
    if (ks_core_deadline(node->core).us == KS_NEVER.us)
        return;
    due = true_time(world, node, ks_core_deadline(node->core));
    if (node->tick_at <= world->now || due < node->tick_at) {
        node->tick_at = due;
        shared_plan(world, number, due, (struct happening){.kind = HAPPENS_TICK});
    }
}

static void open_session(struct shared_world *world, uint32_t number)
{
    struct ks_event event = {.kind = KS_EVENT_SESSION_OPEN};

    event.open.take_over = KS_SESSION_NONE;
    event.open.max_in_flight = 50;
    event.open.max_in_flight_bytes = 1 << 20;
    event.open.ack_deadline = ks_span_ms(8000);
    event.open.grace = ks_span_ms(5000);
    event.open.linger = ks_span_ms(60000);
    shared_step(world, number, &event);
}

void shared_app(struct shared_world *world, uint32_t number, bool comes)
{
    world->nodes[number].app_away = !comes;
    if (comes)
        open_session(world, number);
    else
        shared_step(world, number,
                    &(struct ks_event){.kind = KS_EVENT_SESSION_CLOSE,
                                       .session.session = world->nodes[number].session});
}

void shared_kin(struct shared_world *world, uint32_t number)
{
    const bool away = shared_is_kin_away(world, number);

    if (away == world->nodes[number].kin_away)
        return;
    world->nodes[number].kin_away = away;
    shared_step(world, number, &(struct ks_event){.kind = KS_EVENT_KIN, .kin.away = away});
}

void shared_start(struct shared_world *world, uint32_t number, uint32_t name)
{
    struct shared_node *node = &world->nodes[number];
    struct ks_core_config config = world->config;
    uint32_t life = node->life;
    void *memory;

    config.self = name;
    config.seed = ks_prng_next(&world->prng);
    memory = ks_alloc(ks_core_size(&config));
    assert(memory != NULL);
    *node = (struct shared_node){
        .core = ks_core_init(memory, &config),
        .life = life + 1,
        .name = name,
        .began = world->now,
        .offset = ks_prng_between(&world->prng, 0, INT64_C(1000000) * SIM_SECOND),
        .drift_ppm =
            ks_prng_between(&world->prng, -world->fleet->drift_ppm, world->fleet->drift_ppm),
        .wall_error = shared_small_error(world),
        .masks = config.masking,
    };
    numbers_begin(&node->numbers, world->seed, config.shards_max,
                  config.shards_max - SHARED_SHARDS);
    if (number != shared_worker_of(world, number) &&
        world->reads[shared_worker_of(world, number)]) {
        const struct shared_node *first = &world->nodes[shared_worker_of(world, number)];

        node->offset = first->offset;
        node->drift_ppm = first->drift_ppm;
        node->wall_error = first->wall_error;
    }
    for (ks_shard shard = 0; shard < SHARED_SHARDS; shard++)
        node->seen[shard] = node->own[shard] = node->row[shard] = SHARED_NONE;
    shared_say(world, "node %u: w%u starts", number, name);
    shared_step(world, number, &(struct ks_event){.kind = KS_EVENT_START});
    open_session(world, number);
}

void shared_drain(struct shared_world *world, uint32_t number, ks_span patience)
{
    if (world->nodes[number].core != NULL)
        shared_step(world, number, &(struct ks_event){.kind = KS_EVENT_DRAIN, .drain = {patience}});
}

/* ---- The world ---- */

static void make_peace(struct shared_world *world)
{
    shared_say(world, "world: peace");
    world->peace = true;
    world->lost = world->late = 0;
    world->away_until = 0;
    for (ks_shard shard = 0; shard < SHARED_SHARDS; shard++)
        shared_mend(world, shard);
    for (uint32_t number = 0; number < world->node_count; number++) {
        world->nodes[number].paused_until = world->nodes[number].cut_until = 0;
        if (world->jumps > 0)
            world->nodes[number].wall_error =
                number == shared_worker_of(world, number)
                    ? shared_small_error(world)
                    : world->nodes[shared_worker_of(world, number)].wall_error;
        if (!shared_worker_runs(world, number))
            shared_worker_start(world, number,
                                world->next_name < SHARED_EMPTY ? world->next_name++ : 30);
    }
    if (world->fleet->make_peace != NULL)
        world->fleet->make_peace(world);
}

static void turn(struct shared_world *world, const struct happening *happening)
{
    const uint32_t number = happening->process;
    struct shared_node *node = &world->nodes[number];

    if (node->core == NULL || node->life != happening->life)
        return;
    switch ((int)happening->kind) {
    case HAPPENS_TICK:
        if (node->tick_at <= world->now)
            shared_step(world, number, &(struct ks_event){.kind = KS_EVENT_TICK});
        break;
    case HAPPENS_LISTED: listed(world, number); break;
    case HAPPENS_READ: read_answers(world, number, happening); break;
    case HAPPENS_JOB: settle(world, number, happening); break;
    case HAPPENS_CHANGED: shared_kin(world, number); break;
    case HAPPENS_HOLIDAY: shared_app(world, number, true); break;
    case HAPPENS_CONSUMER:
        if (!node->app_away)
            shared_pull(world, number);
        break;
    default: assert(false);
    }
}

static void happen(struct shared_world *world, const struct happening *happening)
{
    const struct shared_node *node = &world->nodes[happening->process];
    bool of_node = happening->kind <= HAPPENS_CONSUMER || happening->kind == HAPPENS_JOB ||
                   happening->kind == HAPPENS_CHANGED || happening->kind == HAPPENS_HOLIDAY;

    if (of_node && world->now < node->paused_until && node->life == happening->life) {
        agenda_add(&world->agenda, node->paused_until + (sim_time)ks_prng_below(&world->prng, 200),
                   happening);
        return;
    }
    switch ((int)happening->kind) {
    case HAPPENS_ARRIVE: arrive(world, happening); break;
    case HAPPENS_ANSWER:
    case HAPPENS_TIMEOUT: answer(world, happening); break;
    case HAPPENS_START:
        if (!shared_worker_runs(world, happening->process) && !world->leaving)
            shared_worker_start(world, happening->process, happening->count);
        break;
    case HAPPENS_SCALE: shared_stream_put(world); break;
    case HAPPENS_DOWN: shared_worker_trouble(world); break;
    case HAPPENS_PEACE: make_peace(world); break;
    case HAPPENS_DAMAGE: shared_mend(world, happening->shard); break;
    case HAPPENS_PUT:
        world->fleet->put(world, happening->count, happening->shard, happening->epoch,
                          happening->first);
        break;
    case HAPPENS_HURRY:
        world->fleet->member(world, &world->members[happening->count]);
        agenda_add(&world->agenda, world->now + 500 * SIM_MS, happening);
        break;
    default: turn(world, happening);
    }
}

/* All run; and none has two more than another, where that is to be had. */
static bool is_shared_out(const struct shared_world *world, char *why, size_t size)
{
    uint32_t held[SHARED_NODES] = {0};
    uint32_t least = UINT32_MAX;
    uint32_t most = 0;
    bool all = true;

    for (uint32_t number = 0; !world->leaving && number < world->node_count; number++) {
        struct ks_self_view self;

        if (!world->reads[number])
            continue;
        snprintf(why, size, "node %u is being replaced", number);
        if (world->nodes[number].core == NULL)
            return false;
        ks_core_self(world->nodes[number].core, &self);
        snprintf(why, size, "the report of node %u", number);
        if (!kcl_reports(world, number))
            return false;
        held[shared_worker_of(world, number)] += self.leases_held;
        all &= shared_reads_all(world, number);
    }
    for (uint32_t number = 0; !world->leaving && number < world->node_count;
         number += world->streams) {
        least = held[number] < least ? held[number] : least;
        most = held[number] > most ? held[number] : most;
    }
    snprintf(why, size, "the balance: one has %u, another %u", least, most);
    return (!world->stealing && !world->fleet->kept) || world->member_count > 0 || !all ||
           most <= least + 1;
}

static bool is_done(const struct shared_world *world, char *why, size_t size)
{
    for (ks_shard shard = 0; shard < world->shard_count; shard++) {
        const struct shared_shard *stream = &world->shards[shard];
        const struct shared_row *row = &world->rows[shard];

        snprintf(why, size, "shard-%u", shard);
        for (uint32_t i = 0; i < stream->count; i++)
            if (!shared_is_over(world, shard, i))
                return false;
        if (row->checkpoint == SHARED_NONE && shared_is_old(world, shard))
            continue;
        snprintf(why, size, "the row of shard-%u (w%u, claim w%u, checkpoint %lld of %u)", shard,
                 row->owner, row->claim, (long long)row->checkpoint, stream->count);
        if (world->fleet->is_done != NULL && !world->fleet->is_done(world, shard))
            return false;
        if (world->fleet->judges)
            continue;
        if (stream->closed && stream->ended && !row->present)
            continue;
        if (stream->closed ? row->checkpoint != SHARED_END : row->owner == 0)
            return false;
        /* What nothing has come to since it was begun has no place. */
        if (!stream->closed && stream->count > 0 && row->checkpoint != stream->count &&
            (row->checkpoint != SHARED_NONE || row->begin == SHARED_TRIM_HORIZON))
            return false;
    }
    return is_shared_out(world, why, size);
}

static void draw(struct shared_world *world)
{
    struct ks_core_config *config = &world->config;

    world->streams = world->fleet->streams > 0 ? world->fleet->streams : 1;
    world->node_count = (uint32_t)ks_prng_between(&world->prng, 1, SHARED_WORKERS);
    world->member_count =
        shared_chance(world, 500) ? (uint32_t)ks_prng_between(&world->prng, 1, SHARED_MEMBERS) : 0;
    world->zombies = world->member_count > 0 && shared_chance(world, 500) && !world->fleet->kept;
    world->stealing = shared_chance(world, 500);
    world->lost = shared_chance(world, 600) ? (uint32_t)ks_prng_between(&world->prng, 5, 150) : 0;
    world->late = shared_chance(world, 600) ? (uint32_t)ks_prng_between(&world->prng, 5, 100) : 0;
    world->pauses =
        shared_chance(world, 600) ? (uint32_t)ks_prng_between(&world->prng, 20, 300) : 0;
    world->kills = shared_chance(world, 600) ? (uint32_t)ks_prng_between(&world->prng, 10, 150) : 0;
    world->outages =
        shared_chance(world, 400) ? (uint32_t)ks_prng_between(&world->prng, 10, 100) : 0;
    world->jumps = shared_chance(world, 250) ? (uint32_t)ks_prng_between(&world->prng, 10, 100) : 0;
    world->oldest = INT64_MIN;
    shared_worker_draw(world);
    shared_stream_begin(world);
    *config = ks_core_config_default(ks_span_ms(10000));
    config->protocol = world->fleet->protocol;
    config->stealing = world->stealing;
    config->list_every = ks_span_ms(3000);
    if (world->fleet->kept)
        config->keep = ks_span_ms(35000); /* Longer than any write is late. */
    config->checkpoint_interval = ks_span_ms(ks_prng_between(&world->prng, 500, 8000));
    config->idle_release = ks_span_ms(30000);
    config->shards_max = config->leases_max = SHARED_SHARDS;
    if (numbers_are_few(world->seed))
        config->shards_max += NUMBERS_OLD;
    config->window_max = WINDOW;
    config->workers_max = SHARED_NAMES;
    config->sessions_max = 2;
    config->budget_bytes = 1 << 20;
    config->read_bytes = 1 << 12;
    ks_prng_init(&world->looks, world->seed ^ 0x27C8);
    if (ks_prng_below(&world->looks, 1000) < 250) {
        world->slow_looks = (uint32_t)ks_prng_between(&world->looks, 50, 1500);
        world->look = ks_prng_between(&world->looks, SIM_SECOND, SIM_LOOK - SIM_SECOND);
    }
    if (world->fleet->draw != NULL)
        world->fleet->draw(world);
}

static void begin(struct shared_world *world)
{
    draw(world);
    if (world->fleet->led)
        kcl_begin(world);
    world->next_name = 1;
    for (uint32_t i = 0; i < SHARED_SHARDS; i++)
        world->rows[i].checkpoint = SHARED_NONE;
    for (uint32_t i = 0; i < world->member_count; i++) {
        world->members[i] = (struct shared_member){
            .alive = true,
            .fine = shared_chance(world, 500),
            .name = world->next_name++,
            .wall_error = shared_small_error(world),
        };
        agenda_add(&world->agenda, (sim_time)ks_prng_below(&world->prng, 3 * SIM_SECOND),
                   &(struct happening){.kind = HAPPENS_HURRY, .count = i});
    }
    for (uint32_t i = 0; i < world->node_count; i += world->streams)
        agenda_add(
            &world->agenda, (sim_time)ks_prng_below(&world->prng, 8 * SIM_SECOND),
            &(struct happening){.kind = HAPPENS_START, .process = i, .count = world->next_name++});
    agenda_add(&world->agenda, SIM_SECOND, &(struct happening){.kind = HAPPENS_SCALE});
    agenda_add(&world->agenda, 5 * SIM_SECOND, &(struct happening){.kind = HAPPENS_DOWN});
    agenda_add(&world->agenda, WAR, &(struct happening){.kind = HAPPENS_PEACE});
}

static void run(struct shared_world *world)
{
    struct happening happening;
    char why[160] = "";
    sim_time look = WAR + 2 * SIM_SECOND;
    sim_time end;

    begin(world);
    end = WAR + world->fleet->peace_s * SIM_SECOND + LOOKS * world->look;
    while (!world->failed && agenda_next(&world->agenda, &world->now, &happening)) {
        if (world->now > look) {
            look = world->now + SIM_SECOND;
            if (is_done(world, why, sizeof why) &&
                (world->fleet->over == NULL || world->fleet->over(world)))
                return;
        }
        if (world->now > end) {
            shared_fail(world, "not done %d s after the faults: %s",
                        (int)((end - WAR) / SIM_SECOND), why);
            return;
        }
        happen(world, &happening);
    }
}

bool shared_run(const struct shared_fleet *fleet, uint64_t seed, uint64_t count, bool verbose)
{
    struct shared_world *world = ks_alloc(sizeof *world);
    uint64_t hash = 0;
    uint64_t taken = 0;
    uint64_t claimed = 0;
    uint64_t delivered = 0;
    bool good = true;

    assert(world != NULL);
    for (uint64_t i = 0; good && i < count; i++) {
        struct agenda agenda = world->agenda;

        memset(world, 0, sizeof *world);
        world->agenda = agenda;
        agenda_clear(&world->agenda);
        world->fleet = fleet;
        world->seed = seed + i;
        world->verbose = verbose;
        ks_prng_init(&world->prng, world->seed);
        run(world);
        good = !world->failed;
        if (!good)
            shared_tell_failure(world);
        for (uint32_t n = 0; n < SHARED_NODES; n++)
            ks_free(world->nodes[n].core);
        hash = hash * UINT64_C(0x100000001b3) + world->hash;
        taken += world->taken;
        claimed += world->claimed;
        delivered += world->delivered;
    }
    agenda_free(&world->agenda);
    ks_free(world);
    if (good)
        printf(
            "taken %llu, claimed %llu, delivered %llu, numbers given again %llu; stories %016llx\n"
            "%llu passed, 0 failed\n",
            (unsigned long long)taken, (unsigned long long)claimed, (unsigned long long)delivered,
            (unsigned long long)numbers_given_again(), (unsigned long long)hash,
            (unsigned long long)count);
    return good;
}
