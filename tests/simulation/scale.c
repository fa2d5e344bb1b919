/* SPDX-License-Identifier: Apache-2.0 */
#include "scale.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "agenda.h"
#include "base/budget.h"
#include "base/prng.h"
#include "core/core.h"
#include "world_table.h"

enum { TOKENS = 256 };
/* Bytes of rows as DynamoDB would count them, about. */
enum { WORKER_ROW = 260, LEASE_ROW = 340, TOKEN = 30, OFFICE_ROWS = 300 };

struct scale_row {
    bool present;
    struct ks_worker_row row;
    struct ks_lease_token gives[TOKENS];
    struct ks_lease_token takes[TOKENS];
};

struct scale_node {
    struct ks_core *core; /* NULL: it does not run. */
    uint32_t life;
    sim_time tick_at;
    bool draining;
    bool ready; /* Its app has come. */
};

struct scale_request {
    uint32_t number;
    struct ks_store_effect ask;
    struct ks_lease_token gives[KS_TOKENS_MAX * 2];
    struct ks_lease_token takes[KS_TOKENS_MAX * 2];
    struct scale_request *next;
};

/* What was asked of the table. */
struct scale_bill {
    uint64_t operations[KS_STORE_OPERATIONS];
    uint64_t reads;
    uint64_t writes;
    double read_units;
    double write_units;
};

struct scale {
    uint32_t nodes_max; /* Worker numbers 1 .. nodes_max - 1. */
    uint32_t shards;
    uint32_t next_node;
    sim_time now;
    struct ks_prng prng;
    struct agenda agenda;
    struct scale_node *nodes;
    struct scale_row *rows;
    struct ks_lease_row *leases;
    bool *lease_present;
    struct ks_leader_row office;
    bool app_present;
    struct ks_worker_row *told_workers; /* Of the answer that is being given. */
    struct ks_lease_row *told_leases;
    struct ks_shard_row *listing;
    struct scale_request **requests;
    uint32_t request_count;
    uint32_t request_max;
    struct scale_request *spare;
    struct scale_bill bill;
    uint64_t owned; /* Unfinished rows with an owner. */
    uint64_t steps;
    double step_seconds;
    double step_longest;
    struct ks_effects effects;
};

static void *zeroed(size_t count, size_t size)
{
    void *memory = ks_alloc(count * size);

    assert(memory != NULL);
    return memset(memory, 0, count * size);
}

static double seconds_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- The table: docs/PROTOCOL.md A3 and A5, without versions and without mistakes. ---- */

static void add_tokens(struct ks_lease_token *set, uint32_t *count,
                       const struct ks_lease_token *tokens, uint32_t more)
{
    for (uint32_t i = 0; i < more; i++) {
        uint32_t at = 0;

        while (at < *count &&
               (set[at].shard != tokens[i].shard || set[at].epoch != tokens[i].epoch))
            at++;
        if (at == *count && *count < TOKENS)
            set[(*count)++] = tokens[i];
    }
}

static void delete_tokens(struct ks_lease_token *set, uint32_t *count,
                          const struct ks_lease_token *tokens, uint32_t fewer)
{
    for (uint32_t i = 0; i < fewer; i++)
        for (uint32_t at = 0; at < *count; at++)
            if (set[at].shard == tokens[i].shard && set[at].epoch == tokens[i].epoch)
                set[at--] = set[--*count];
}

static bool register_row(struct scale_row *row, const struct ks_store_effect *ask, bool condition)
{
    if (!condition)
        return false;
    *row = (struct scale_row){.present = true,
                              .row = {.self = ask->worker, .life = KS_LIVE, .mode = ask->mode}};
    return true;
}

static bool write_worker(struct scale *scale, const struct ks_store_effect *ask)
{
    struct scale_row *row = &scale->rows[ask->worker.worker];
    bool mine = row->present && row->row.self.boot == ask->worker.boot && row->row.life == KS_LIVE;
    bool expected = row->present && row->row.self.boot == ask->expect_boot;

    switch ((int)ask->operation) {
    case KS_STORE_REGISTER_NEW: return register_row(row, ask, !row->present);
    case KS_STORE_REGISTER_DEAD:
        return register_row(row, ask, expected && row->row.life != KS_LIVE);
    case KS_STORE_HEARTBEAT:
        if (!mine)
            return false;
        row->row.beat++;
        row->row.mode = ask->mode;
        row->row.held = ask->held;
        row->row.changes = ask->changes;
        delete_tokens(row->gives, &row->row.give_count, ask->gives, ask->give_count);
        delete_tokens(row->takes, &row->row.take_count, ask->takes, ask->take_count);
        return true;
    case KS_STORE_FENCE:
        if (!expected || row->row.beat != ask->expect_beat || row->row.life != KS_LIVE)
            return false;
        row->row.life = KS_FENCED;
        return true;
    case KS_STORE_SAY_GONE:
        if (mine)
            row->row.life = KS_GONE;
        return mine;
    case KS_STORE_HINTS:
        if (!expected || row->row.life != KS_LIVE)
            return false;
        add_tokens(row->gives, &row->row.give_count, ask->gives, ask->give_count);
        add_tokens(row->takes, &row->row.take_count, ask->takes, ask->take_count);
        return true;
    case KS_STORE_REMOVE_WORKER:
        if (!expected || row->row.life == KS_LIVE)
            return false;
        row->present = false;
        return true;
    default: assert(false); return false;
    }
}

static bool write_office(struct scale *scale, const struct ks_store_effect *ask)
{
    bool created = !scale->app_present;

    if (ask->operation == KS_STORE_CREATE_APP) {
        scale->app_present = true;
        return created;
    }
    if (scale->office.epoch != ask->epoch ||
        !ks_incarnation_equal(scale->office.holder,
                              ask->operation == KS_STORE_CLAIM_OFFICE ? ask->owner : ask->worker))
        return false;
    scale->office.present = true;
    if (ask->operation == KS_STORE_NAME_DEPUTIES) {
        memcpy(scale->office.deputies, ask->deputies, sizeof ask->deputies);
        return true;
    }
    scale->office.holder = ask->operation == KS_STORE_CLAIM_OFFICE ? ask->worker : KS_NOBODY;
    scale->office.epoch += ask->operation == KS_STORE_CLAIM_OFFICE;
    return true;
}

static void own(struct scale *scale, struct ks_lease_row *lease, struct ks_incarnation owner)
{
    scale->owned += (owner.worker != 0) - (uint64_t)(lease->owner.worker != 0);
    lease->owner = owner;
    lease->next_owner = KS_NOBODY;
    lease->epoch++;
}

static bool write_lease(struct scale *scale, const struct ks_store_effect *ask)
{
    struct ks_lease_row *lease = &scale->leases[ask->shard];
    bool leader = scale->lease_present[ask->shard] && lease->epoch == ask->epoch &&
                  ks_incarnation_equal(lease->owner, ask->owner);
    bool owner = scale->lease_present[ask->shard] && lease->epoch == ask->epoch &&
                 ks_incarnation_equal(lease->owner, ask->worker) && lease->rev == ask->rev;

    switch ((int)ask->operation) {
    case KS_STORE_CREATE:
        if (scale->lease_present[ask->shard])
            return false;
        scale->lease_present[ask->shard] = true;
        *lease =
            (struct ks_lease_row){.shard = ask->shard, .parents = {KS_SHARD_NONE, KS_SHARD_NONE}};
        return true;
    case KS_STORE_ASSIGN:
    case KS_STORE_TAKE_OVER:
    case KS_STORE_FORCE:
        if (!leader)
            return false;
        own(scale, lease, ask->worker);
        return true;
    case KS_STORE_PLAN:
        if (leader)
            lease->next_owner = ask->next_owner;
        return leader;
    case KS_STORE_CHECKPOINT: lease->rev += owner; return owner;
    case KS_STORE_FINAL:
        if (!owner || !ks_incarnation_equal(lease->next_owner, ask->next_owner))
            return false;
        own(scale, lease, ask->next_owner);
        lease->rev++;
        return true;
    default: assert(false); return false;
    }
}

static void tell_worker(struct scale *scale, struct ks_event *event, uint32_t worker)
{
    struct scale_row *row = &scale->rows[worker];
    struct ks_worker_row *told = &scale->told_workers[event->store.worker_count++];

    *told = row->row;
    told->gives = row->gives;
    told->takes = row->takes;
}

static void tell_present(struct scale *scale, struct ks_event *event, uint32_t worker)
{
    if (scale->rows[worker].present)
        tell_worker(scale, event, worker);
}

/* Reads; returns the bytes of the answer. */
static double read_rows(struct scale *scale, const struct ks_store_effect *ask,
                        struct ks_event *event)
{
    double bytes = 0;

    switch ((int)ask->operation) {
    case KS_STORE_READ_FLEET:
        for (uint32_t worker = 1; worker < scale->next_node; worker++) {
            if (!scale->rows[worker].present)
                continue;
            tell_worker(scale, event, worker);
            bytes += WORKER_ROW + TOKEN * (scale->rows[worker].row.give_count +
                                           scale->rows[worker].row.take_count);
        }
        event->store.leader = scale->office;
        event->store.app_present = scale->app_present;
        return bytes + OFFICE_ROWS;
    case KS_STORE_READ_NEWS:
        event->store.leader = scale->office;
        tell_present(scale, event, ask->worker.worker);
        if (ask->owner.worker != ask->worker.worker)
            tell_present(scale, event, ask->owner.worker);
        return 3 * 4096.0; /* Each row of a BatchGetItem is rounded up. */
    case KS_STORE_READ_LEASES:
        for (ks_shard shard = 0; shard < scale->shards; shard++)
            if (scale->lease_present[shard])
                scale->told_leases[event->store.lease_count++] = scale->leases[shard];
        return (double)event->store.lease_count * LEASE_ROW;
    case KS_STORE_READ_LEASE:
        if (scale->lease_present[ask->shard])
            scale->told_leases[event->store.lease_count++] = scale->leases[ask->shard];
        return LEASE_ROW;
    default: tell_present(scale, event, ask->worker.worker); return WORKER_ROW;
    }
}

/* DynamoDB: reads by 4 KB, half when they need not be consistent; writes by 1 KB of the row. */
static double units(double bytes, double block)
{
    double count = (double)(uint64_t)(bytes / block);

    return count * block < bytes ? count + 1 : count;
}

static void apply(struct scale *scale, const struct ks_store_effect *ask, struct ks_event *event)
{
    enum ks_store_operation operation = ask->operation;
    struct scale_bill *bill = &scale->bill;
    bool done;

    event->store.workers = scale->told_workers;
    event->store.leases = scale->told_leases;
    bill->operations[operation]++;
    if (!world_table_is_write(operation)) {
        bool single = operation == KS_STORE_READ_LEASE || operation == KS_STORE_READ_WORKER;

        bill->reads++;
        bill->read_units +=
            units(read_rows(scale, ask, event), 4096) * (ask->consistent || single ? 1.0 : 0.5);
        return;
    }
    bill->writes++;
    bill->write_units +=
        units(WORKER_ROW + TOKEN * ((double)ask->give_count + ask->take_count), 1024);
    if (world_table_is_lease_write(operation))
        done = write_lease(scale, ask);
    else if (operation == KS_STORE_CLAIM_OFFICE || operation == KS_STORE_RESIGN_OFFICE ||
             operation == KS_STORE_NAME_DEPUTIES || operation == KS_STORE_CREATE_APP)
        done = write_office(scale, ask);
    else
        done = write_worker(scale, ask);
    event->store.outcome = done ? KS_DONE : KS_REFUSED;
    if (done && operation == KS_STORE_HEARTBEAT)
        tell_worker(scale, event, ask->worker.worker);
}

/* ---- Nodes. ---- */

static void plan(struct scale *scale, uint32_t number, sim_time at, struct happening happening)
{
    happening.process = number;
    happening.life = scale->nodes[number].life;
    agenda_add(&scale->agenda, at, &happening);
}

static sim_time latency(struct scale *scale)
{
    return ks_prng_between(&scale->prng, 4 * SIM_MS, 12 * SIM_MS);
}

static struct scale_request *new_request(struct scale *scale)
{
    struct scale_request *request = scale->spare;

    assert(request != NULL || scale->request_count < scale->request_max);
    if (request != NULL) {
        scale->spare = request->next;
        return request;
    }
    request = zeroed(1, sizeof *request);
    request->number = scale->request_count;
    scale->requests[scale->request_count++] = request;
    return request;
}

static void ask(struct scale *scale, uint32_t number, const struct ks_store_effect *store)
{
    struct scale_request *request = new_request(scale);

    request->ask = *store;
    assert(store->give_count <= 2 * KS_TOKENS_MAX && store->take_count <= 2 * KS_TOKENS_MAX);
    if (store->give_count > 0)
        memcpy(request->gives, store->gives, store->give_count * sizeof *store->gives);
    if (store->take_count > 0)
        memcpy(request->takes, store->takes, store->take_count * sizeof *store->takes);
    request->ask.gives = request->gives;
    request->ask.takes = request->takes;
    plan(scale, number, scale->now + latency(scale),
         (struct happening){.kind = HAPPENS_ANSWER, .request = request->number});
}

static void stop(struct scale *scale, uint32_t number)
{
    struct scale_node *node = &scale->nodes[number];

    ks_free(node->core);
    node->core = NULL;
    node->life++;
}

static void step(struct scale *scale, uint32_t number, const struct ks_event *event)
{
    struct scale_node *node = &scale->nodes[number];
    struct ks_effects *effects = &scale->effects;
    double start = seconds_now();
    double took;
    bool over = false;
    sim_time due;

    effects->count = 0;
    ks_core_step(node->core, (ks_instant){scale->now}, event, effects);
    due = ks_core_deadline(node->core).us;
    took = seconds_now() - start;
    scale->steps++;
    scale->step_seconds += took;
    if (scale->step_longest < took)
        scale->step_longest = took;
    for (uint32_t i = 0; i < effects->count; i++) {
        const struct ks_effect *effect = &effects->items[i];

        if (effect->kind == KS_EFFECT_STORE)
            ask(scale, number, &effect->store);
        else if (effect->kind == KS_EFFECT_LIST)
            plan(scale, number, scale->now + 200 * SIM_MS,
                 (struct happening){.kind = HAPPENS_LISTED});
        else if (effect->kind == KS_EFFECT_DRAINED || effect->kind == KS_EFFECT_REFUSED)
            over = true;
    }
    if (over) {
        stop(scale, number);
        return;
    }
    if (due <= scale->now)
        due = scale->now + 1;
    if (due != KS_NEVER.us && (node->tick_at <= scale->now || due < node->tick_at)) {
        node->tick_at = due;
        plan(scale, number, due, (struct happening){.kind = HAPPENS_TICK});
    }
}

static void start(struct scale *scale, sim_time in)
{
    uint32_t number = scale->next_node++;

    assert(number < scale->nodes_max);
    plan(scale, number, scale->now + in, (struct happening){.kind = HAPPENS_START});
}

static void begin(struct scale *scale, uint32_t number)
{
    struct scale_node *node = &scale->nodes[number];
    struct ks_core_config config = ks_core_config_default(ks_span_ms(10000));
    void *memory;

    config.self = number;
    config.seed = ks_prng_next(&scale->prng);
    config.shards_max = scale->shards;
    config.leases_max = scale->shards < 1024 ? scale->shards : 1024;
    config.window_max = 16;
    config.sessions_max = 2;
    config.workers_max = scale->nodes_max;
    config.budget_bytes = 1 << 20;
    config.read_bytes = 1 << 12;
    memory = zeroed(1, ks_core_size(&config));
    node->core = ks_core_init(memory, &config);
    node->life++;
    step(scale, number, &(struct ks_event){.kind = KS_EVENT_START});
    plan(scale, number, scale->now + ks_prng_between(&scale->prng, SIM_MS, SIM_SECOND),
         (struct happening){.kind = HAPPENS_CONSUMER});
}

static void open_session(struct scale *scale, uint32_t number)
{
    struct ks_event event = {.kind = KS_EVENT_SESSION_OPEN};

    event.open.take_over = KS_SESSION_NONE;
    event.open.max_in_flight = 100;
    event.open.max_in_flight_bytes = 1 << 20;
    event.open.ack_deadline = ks_span_ms(30000);
    event.open.grace = ks_span_ms(5000);
    event.open.linger = ks_span_ms(60000);
    scale->nodes[number].ready = true;
    step(scale, number, &event);
}

static void leave(struct scale *scale, uint32_t number)
{
    struct ks_event event = {.kind = KS_EVENT_DRAIN};

    event.drain.span = ks_span_ms(20000);
    scale->nodes[number].draining = true;
    step(scale, number, &event);
}

static void answer(struct scale *scale, const struct happening *happening)
{
    struct scale_request *request = scale->requests[happening->request];
    struct ks_event event = {.kind = KS_EVENT_STORE};
    bool alive = scale->nodes[happening->process].core != NULL &&
                 scale->nodes[happening->process].life == happening->life;

    event.store.token = request->ask.token;
    event.store.outcome = KS_DONE;
    apply(scale, &request->ask, &event);
    request->next = scale->spare;
    scale->spare = request;
    if (alive)
        step(scale, happening->process, &event);
}

static void happen(struct scale *scale, const struct happening *happening)
{
    struct scale_node *node = &scale->nodes[happening->process];
    struct ks_event event = {.kind = KS_EVENT_LISTED};

    if (happening->kind == HAPPENS_ANSWER) {
        answer(scale, happening);
        return;
    }
    if (happening->kind == HAPPENS_START) {
        begin(scale, happening->process);
        return;
    }
    if (node->core == NULL || node->life != happening->life)
        return;
    switch ((int)happening->kind) {
    case HAPPENS_TICK:
        if (node->tick_at == scale->now)
            step(scale, happening->process, &(struct ks_event){.kind = KS_EVENT_TICK});
        break;
    case HAPPENS_LISTED:
        event.listed.ok = true;
        event.listed.shards = scale->listing;
        event.listed.count = scale->shards;
        step(scale, happening->process, &event);
        break;
    case HAPPENS_CONSUMER: open_session(scale, happening->process); break;
    case HAPPENS_DRAIN: leave(scale, happening->process); break;
    default: assert(false);
    }
}

static void run_until(struct scale *scale, sim_time until)
{
    struct happening happening;
    sim_time at;

    while (scale->now < until && agenda_next(&scale->agenda, &at, &happening)) {
        scale->now = at;
        happen(scale, &happening);
    }
}

/* ---- Looks from outside. ---- */

static bool is_running(const struct scale_node *node)
{
    return node->core != NULL && !node->draining && node->ready;
}

/* Every lease is held by its owner; `balanced`: within one of all others. */
static bool is_served(const struct scale *scale, bool balanced)
{
    uint32_t least = UINT32_MAX;
    uint32_t most = 0;
    uint32_t held = 0;

    if (scale->owned < scale->shards)
        return false;
    for (uint32_t number = 1; number < scale->next_node; number++) {
        struct ks_self_view self;

        if (scale->nodes[number].core == NULL)
            continue;
        ks_core_self(scale->nodes[number].core, &self);
        if (self.serving)
            held += self.leases_held;
        if (!is_running(&scale->nodes[number]))
            continue;
        least = self.leases_held < least ? self.leases_held : least;
        most = self.leases_held > most ? self.leases_held : most;
    }
    return held == scale->shards && (!balanced || most <= least + 1);
}

/* Runs until everything is served, and then until it is balanced; returns the seconds, negative if it never is. */
static double until_served(struct scale *scale, bool balanced, double patience)
{
    sim_time from = scale->now;

    while (!is_served(scale, balanced)) {
        if ((double)(scale->now - from) / 1e6 > patience)
            return -1;
        run_until(scale, scale->now + 100 * SIM_MS);
    }
    return (double)(scale->now - from) / 1e6;
}

static uint64_t hand_overs(const struct scale *scale)
{
    return scale->bill.operations[KS_STORE_FINAL] + scale->bill.operations[KS_STORE_TAKE_OVER] +
           scale->bill.operations[KS_STORE_FORCE];
}

static void forget_bill(struct scale *scale)
{
    memset(&scale->bill, 0, sizeof scale->bill);
    scale->steps = 0;
    scale->step_seconds = 0;
    scale->step_longest = 0;
}

static void say(const struct scale *scale, const char *what, double served, double balanced,
                uint64_t least, sim_time from)
{
    double seconds = (double)(scale->now - from) / 1e6;

    printf(
        "  %-24s served after %6.1f s, balanced after %6.1f s; leases moved %6llu, at least %6llu;"
        " %7.1f reads/s (%8.1f RRU/s), %6.1f writes/s; step %5.1f us, at most %6.2f ms\n",
        what, served, balanced, (unsigned long long)hand_overs(scale), (unsigned long long)least,
        (double)scale->bill.reads / seconds, scale->bill.read_units / seconds,
        (double)scale->bill.writes / seconds, scale->step_seconds / (double)scale->steps * 1e6,
        scale->step_longest * 1e3);
    fflush(stdout);
}

/* ---- The life of a fleet. ---- */

static struct scale *scale_new(uint32_t workers, uint32_t shards, uint32_t nodes_max)
{
    struct scale *scale = zeroed(1, sizeof *scale);

    scale->nodes_max = nodes_max;
    scale->shards = shards;
    scale->next_node = 1;
    scale->request_max = 64 * workers + 4096;
    ks_prng_init(&scale->prng, 1);
    scale->nodes = zeroed(nodes_max, sizeof *scale->nodes);
    scale->rows = zeroed(nodes_max, sizeof *scale->rows);
    scale->leases = zeroed(shards, sizeof *scale->leases);
    scale->lease_present = zeroed(shards, sizeof *scale->lease_present);
    scale->told_workers = zeroed(nodes_max, sizeof *scale->told_workers);
    scale->told_leases = zeroed(shards, sizeof *scale->told_leases);
    scale->listing = zeroed(shards, sizeof *scale->listing);
    scale->requests = zeroed(scale->request_max, sizeof(struct scale_request *));
    for (ks_shard shard = 0; shard < shards; shard++)
        scale->listing[shard] = (struct ks_shard_row){
            .shard = shard,
            .parents = {KS_SHARD_NONE, KS_SHARD_NONE},
            .ranged = true,
            .first_key = {shard * (UINT64_MAX / shards), 0},
            .last_key = {shard + 1 < shards ? (shard + 1) * (UINT64_MAX / shards) - 1 : UINT64_MAX,
                         UINT64_MAX},
        };
    for (uint32_t i = 0; i < workers; i++)
        start(scale, ks_prng_between(&scale->prng, 1, 5 * SIM_SECOND));
    return scale;
}

static void scale_free(struct scale *scale)
{
    for (uint32_t number = 1; number < scale->next_node; number++)
        if (scale->nodes[number].core != NULL)
            stop(scale, number);
    for (uint32_t i = 0; i < scale->request_count; i++)
        ks_free(scale->requests[i]);
    agenda_free(&scale->agenda);
    ks_free(scale->requests);
    ks_free(scale->listing);
    ks_free(scale->told_leases);
    ks_free(scale->told_workers);
    ks_free(scale->lease_present);
    ks_free(scale->leases);
    ks_free(scale->rows);
    ks_free(scale->nodes);
    ks_free(scale);
}

static bool phase(struct scale *scale, const char *what, uint64_t least, sim_time from)
{
    double served = until_served(scale, false, 300);
    double balanced = served < 0 ? -1 : until_served(scale, true, 300);

    if (served >= 0)
        served = (double)(scale->now - from) / 1e6 - balanced;
    say(scale, what, served, balanced < 0 ? -1 : served + balanced, least, from);
    forget_bill(scale);
    return balanced >= 0;
}

static void rest(struct scale *scale)
{
    sim_time from;

    run_until(scale, scale->now + 20 * SIM_SECOND);
    forget_bill(scale);
    from = scale->now;
    run_until(scale, scale->now + 30 * SIM_SECOND);
    say(scale, "at rest for 30 s", 0, 0, 0, from);
    forget_bill(scale);
}

static uint64_t kill_tenth(struct scale *scale, uint32_t workers)
{
    uint64_t lost = 0;

    for (uint32_t number = 1; number <= workers; number += 10) {
        struct ks_self_view self;

        ks_core_self(scale->nodes[number].core, &self);
        lost += self.leases_held;
        stop(scale, number); /* Its rows still name it. */
    }
    return lost;
}

/* As a rolling deployment does it: a quarter starts, is given time, and a quarter of the old ones leaves. */
static void deploy(struct scale *scale)
{
    uint32_t old = scale->next_node;
    uint32_t next = 1;
    uint32_t running = 0;

    for (uint32_t number = 1; number < old; number++)
        running += is_running(&scale->nodes[number]);
    for (uint32_t quarter = 0; quarter < 4; quarter++) {
        uint32_t leaving = running / 4 + (quarter < running % 4);

        for (uint32_t i = 0; i < leaving; i++)
            start(scale, ks_prng_between(&scale->prng, 1, 2 * SIM_SECOND));
        run_until(scale, scale->now + 15 * SIM_SECOND);
        for (; leaving > 0; next++) {
            if (!is_running(&scale->nodes[next]))
                continue;
            plan(scale, next, scale->now + ks_prng_between(&scale->prng, 1, SIM_SECOND),
                 (struct happening){.kind = HAPPENS_DRAIN});
            leaving--;
        }
        run_until(scale, scale->now + 10 * SIM_SECOND);
    }
}

bool scale_run(uint32_t workers, uint32_t shards)
{
    struct scale *scale = scale_new(workers, shards, 2 * workers + 8);
    double start = seconds_now();
    sim_time from = 0;
    uint64_t lost;
    bool good;

    printf("%u workers, %u shards, leases of 10 s:\n", workers, shards);
    good = phase(scale, "first start (within 5 s)", 0, from);
    rest(scale);
    from = scale->now;
    lost = kill_tenth(scale, workers);
    good = good && phase(scale, "10 % are killed", lost, from);
    rest(scale);
    from = scale->now;
    if (good) {
        deploy(scale);
        good = phase(scale, "a deploy replaces all", shards, from);
    }
    if (good)
        rest(scale);
    printf("  simulated %.0f s in %.0f s\n", (double)scale->now / 1e6, seconds_now() - start);
    scale_free(scale);
    return good;
}

bool scale_at_rest(uint32_t workers, uint32_t shards, double *ret_writes, double *ret_reads)
{
    struct scale *scale = scale_new(workers, shards, workers + 4);
    bool good = until_served(scale, true, 300) >= 0;
    sim_time from;
    double seconds;

    run_until(scale, scale->now + 20 * SIM_SECOND);
    forget_bill(scale);
    from = scale->now;
    run_until(scale, scale->now + 60 * SIM_SECOND);
    seconds = (double)(scale->now - from) / 1e6;
    *ret_writes = scale->bill.write_units / seconds;
    *ret_reads = scale->bill.read_units / seconds;
    scale_free(scale);
    return good;
}
