/* SPDX-License-Identifier: Apache-2.0 */
#include "oracle_rules.h"

#include <string.h>

#include "world.h"

/* ---- What it was told ---- */

static void know(struct oracle_rules *rules, struct oracle_known *known,
                 struct ks_incarnation owner, uint64_t epoch)
{
    /* Epochs never fall: less is an older replica's. */
    if (epoch > known->epoch ||
        (epoch == known->epoch && !ks_incarnation_equal(known->owner, owner)))
        *known = (struct oracle_known){owner, epoch, rules->asked};
}

/* A4: time counts as watched only between reads that are at most two beats apart. */
static void watch_row(const struct world *world, struct oracle_watch *watch,
                      const struct ks_worker_row *row, int64_t now)
{
    bool same = watch->boot == row->self.boot;

    /* A row that cannot be read is no news, and no proof. */
    if (row->damaged) {
        watch->present = true;
        watch->damaged = true;
        return;
    }
    if (!same || watch->beat != row->beat || now - watch->last > 2 * world->swarm.core.beat.us)
        watch->since = now;
    *watch = (struct oracle_watch){.present = true,
                                   .advanced = same && (watch->advanced || row->beat > watch->beat),
                                   .boot = row->self.boot,
                                   .beat = row->beat,
                                   .life = row->life,
                                   .mode = row->mode,
                                   .since = watch->since,
                                   .last = now};
}

static void fleet_told(const struct world *world, struct process *process,
                       const struct table_request *request)
{
    struct oracle_rules *rules = &process->truth.rules;
    int64_t now = shell_clock(world, process).us;

    if (request->ask.operation == KS_STORE_READ_FLEET) {
        for (uint32_t worker = 0; worker < SIM_WORKERS; worker++)
            rules->watch[worker].present = false;
        know(rules, &rules->office, request->answer.leader.holder, request->answer.leader.epoch);
    }
    for (uint32_t i = 0; i < request->answer.worker_count; i++)
        watch_row(world, &rules->watch[request->answer.workers[i].self.worker],
                  &request->answer.workers[i], now);
    if (request->ask.operation == KS_STORE_READ_FLEET && request->ask.consistent) {
        memcpy(rules->proof, rules->watch, sizeof rules->proof);
        rules->proof_order = request->order;
    }
}

static void leases_told(struct oracle_rules *rules, const struct table_request *request)
{
    for (uint32_t i = 0; i < request->answer.lease_count; i++) {
        const struct ks_lease_row *row = &request->answer.leases[i];
        struct oracle_shard *shard = &rules->shards[row->shard];

        shard->damaged = row->damaged;
        if (row->damaged)
            continue;
        know(rules, &shard->known, row->owner, row->epoch);
        if (request->ask.operation == KS_STORE_READ_LEASE) {
            shard->unsure = false;
            shard->read_back = true;
        }
    }
}

static void write_told(struct process *process, const struct table_request *request,
                       enum ks_outcome outcome, int64_t now)
{
    struct oracle_rules *rules = &process->truth.rules;
    enum ks_store_operation operation = request->ask.operation;

    /* Of the tenure that is open; an answer to an earlier one comes late. */
    if (world_table_is_owner_write(operation) &&
        process->readers[request->ask.shard].epoch == request->ask.epoch) {
        struct oracle_shard *shard = &rules->shards[request->ask.shard];

        shard->unsure = outcome != KS_DONE;
        if (operation == KS_STORE_CHECKPOINT && outcome == KS_DONE)
            shard->paced_from = request->sent_at.us;
    }
    if (outcome != KS_DONE)
        return;
    if (operation == KS_STORE_ASSIGN || operation == KS_STORE_TAKE_OVER)
        know(rules, &rules->shards[request->ask.shard].known, request->ask.worker,
             request->ask.epoch + 1);
    if (operation == KS_STORE_CLAIM_OFFICE)
        rules->won_at = now;
}

void oracle_rules_answered(const struct world *world, struct process *process,
                           const struct table_request *request, enum ks_outcome outcome)
{
    enum ks_store_operation operation = request->ask.operation;
    struct oracle_rules *rules = &process->truth.rules;

    if (world_table_is_write(operation))
        write_told(process, request, outcome, shell_clock(world, process).us);
    else if (outcome == KS_DONE &&
             (operation == KS_STORE_READ_FLEET || operation == KS_STORE_READ_WORKER))
        fleet_told(world, process, request);
    else if (outcome == KS_DONE)
        leases_told(rules, request);
}

void oracle_rules_persist(const struct world *world, struct process *process, ks_shard shard)
{
    struct oracle_shard *rules = &process->truth.rules.shards[shard];
    const struct reader *reader = &process->readers[shard];

    rules->hurried = true;
    if (!world->peace || !reader->open || rules->persist_by != 0)
        return;
    /* Long enough for what the war has left: a write under way, its timeout, and the longest pause after it. */
    rules->persist_by = world->now + 2 * world->swarm.core.timeout.us + 5 * SIM_SECOND;
    rules->persist_to = reader->base + reader->forgot;
}

void oracle_rules_leads(struct world *world, const struct table_request *request)
{
    struct process *process = &world->processes[request->process];

    if (process->alive && process->life == request->life)
        process->truth.rules.led_boot = request->ask.worker.boot;
}

/* ---- What it may conclude ---- */

static void check_watched(struct world *world, const struct process *process,
                          const struct ks_store_effect *ask, ks_instant now)
{
    const struct oracle_watch *watch = &process->truth.rules.watch[ask->worker.worker];
    int64_t enough = world->swarm.core.lease_duration.us + world->swarm.core.margin.us;

    if (watch->boot != ask->expect_boot || watch->beat != ask->expect_beat ||
        now.us - watch->since < enough)
        oracle_fail(world, "w%u sends %s of w%u without having watched it for L + m",
                    process->worker, world_table_operation_name(ask->operation),
                    ask->worker.worker);
}

/* S3. */
static void check_proof(struct world *world, const struct process *process,
                        const struct ks_store_effect *ask, const struct oracle_known *known)
{
    const struct oracle_rules *rules = &process->truth.rules;
    const struct oracle_watch *proof = &rules->proof[ask->owner.worker];
    bool dead = !proof->present || proof->boot != ask->owner.boot || proof->life != KS_LIVE;

    /* Of an epoch that is over the table refuses it. */
    if (known->epoch > ask->epoch)
        return;
    if (proof->damaged || !ks_incarnation_equal(known->owner, ask->owner) ||
        known->epoch != ask->epoch || !dead || rules->proof_order <= known->order)
        oracle_fail(world, "w%u sends %s without a proof that w%u is dead", process->worker,
                    world_table_operation_name(ask->operation), ask->owner.worker);
}

/* A7: whoever gets a lease wants it, and nobody is passed over who may still be coming. */
static void check_fit(struct world *world, const struct process *process,
                      const struct ks_store_effect *ask, ks_instant now)
{
    const struct oracle_rules *rules = &process->truth.rules;
    const struct oracle_watch *target = &rules->watch[ask->worker.worker];
    bool mustered = now.us >= rules->won_at + world->swarm.core.beat.us + 1500 * SIM_MS;

    for (uint32_t worker = 0; !mustered && worker < SIM_WORKERS; worker++)
        if (worker != process->worker && rules->watch[worker].present &&
            !rules->watch[worker].damaged && rules->watch[worker].life == KS_LIVE &&
            !rules->watch[worker].advanced)
            oracle_fail(world, "w%u gives shard-%u away before w%u could show itself",
                        process->worker, ask->shard, worker);
    if (ask->worker.worker == process->worker)
        return;
    if (!target->present || target->damaged || target->boot != ask->worker.boot ||
        target->life != KS_LIVE || target->mode != KS_ACTIVE || !target->advanced)
        oracle_fail(world, "w%u gives shard-%u to w%u, which is not active", process->worker,
                    ask->shard, ask->worker.worker);
}

static bool is_leaders_write(enum ks_store_operation operation)
{
    return operation == KS_STORE_CREATE_APP || operation == KS_STORE_HINTS ||
           (world_table_is_lease_write(operation) && !world_table_is_owner_write(operation));
}

/* A5, A6. */
static void check_owner(struct world *world, const struct process *process,
                        const struct ks_store_effect *ask, ks_instant now)
{
    const struct oracle_shard *shard = &process->truth.rules.shards[ask->shard];
    const char *wrong = NULL;

    if (shard->unsure)
        wrong = "after one that was not done, without reading it back";
    if (ask->operation == KS_STORE_FINAL && !shard->read_back)
        wrong = "without reading the row first";
    if (ask->operation == KS_STORE_CHECKPOINT && !shard->hurried &&
        shard->paced_from != INT64_MIN &&
        now.us < shard->paced_from + world->swarm.core.checkpoint_interval.us)
        wrong = "before its interval is over";
    if (wrong != NULL)
        oracle_fail(world, "w%u sends %s of shard-%u %s", process->worker,
                    world_table_operation_name(ask->operation), ask->shard, wrong);
}

void oracle_rules_asked(struct world *world, struct process *process, struct table_request *request,
                        ks_instant now)
{
    const struct ks_store_effect *ask = &request->ask;
    struct oracle_rules *rules = &process->truth.rules;
    enum ks_store_operation operation = ask->operation;

    request->order = ++rules->asked;
    if (operation == KS_STORE_FENCE || operation == KS_STORE_REGISTER_SILENT)
        check_watched(world, process, ask, now);
    if (operation == KS_STORE_TAKE_OVER)
        check_proof(world, process, ask, &rules->shards[ask->shard].known);
    if (operation == KS_STORE_CLAIM_OFFICE && ask->owner.worker != 0)
        check_proof(world, process, ask, &rules->office);
    if (operation == KS_STORE_ASSIGN || operation == KS_STORE_TAKE_OVER)
        check_fit(world, process, ask, now);
    if (world_table_is_lease_write(operation) && is_leaders_write(operation) &&
        rules->shards[ask->shard].damaged)
        oracle_fail(world, "w%u sends %s of shard-%u, whose row it cannot read", process->worker,
                    world_table_operation_name(operation), ask->shard);
    if (is_leaders_write(operation) && rules->led_boot != oracle_incarnation(process).boot)
        oracle_fail(world, "w%u sends %s and never held the office", process->worker,
                    world_table_operation_name(operation));
    if (world_table_is_owner_write(operation))
        check_owner(world, process, ask, now);
}

/* ---- In peace ---- */

static const struct process *process_of(const struct world *world, struct ks_incarnation owner)
{
    for (uint32_t i = 0; i < SIM_PROCESSES; i++)
        if (world->processes[i].alive &&
            ks_incarnation_equal(oracle_incarnation(&world->processes[i]), owner))
            return &world->processes[i];
    return NULL;
}

static void look_at_persists(struct world *world, struct process *process)
{
    for (ks_shard shard = 0; process->alive && shard < world->stream.count; shard++) {
        struct oracle_shard *rules = &process->truth.rules.shards[shard];
        const struct table_lease *row = world_table_lease(&world->table, shard);

        if (rules->persist_by == 0 || world->now < rules->persist_by)
            continue;
        rules->persist_by = 0;
        if (process->readers[shard].open && row->checkpoint < rules->persist_to)
            oracle_fail(world, "w%u was asked to persist shard-%u, and did not", process->worker,
                        shard);
    }
}

static void look_at_owners(struct world *world)
{
    const struct ks_core_config *core = &world->swarm.core;
    /* Two looks at the news, a poll, and the requests of both. */
    sim_time soon = 2 * core->news.us + 2 * SIM_SECOND;

    for (ks_shard shard = 0; shard < world->stream.count; shard++) {
        const struct table_lease *row = world_table_lease(&world->table, shard);
        const struct process *owner = row->present ? process_of(world, row->row.owner) : NULL;
        struct ks_lease_view lease;

        if (owner == NULL || owner->draining || world->now < row->at + soon ||
            (ks_core_lease(owner->core, shard, &lease) && lease.state != KS_LEASE_AWAY))
            continue;
        oracle_fail(world, "w%u has owned shard-%u for %lld ms and has not begun it", owner->worker,
                    shard, (long long)((world->now - row->at) / SIM_MS));
    }
}

void oracle_rules_look(struct world *world)
{
    for (uint32_t i = 0; i < SIM_PROCESSES; i++)
        look_at_persists(world, &world->processes[i]);
    look_at_owners(world);
}

void oracle_rules_quiet(struct world *world)
{
    for (uint32_t i = 0; i < SIM_PROCESSES; i++) {
        const struct process *process = &world->processes[i];
        const struct table_worker *row;
        struct ks_self_view self;

        if (!process->alive)
            continue;
        ks_core_self(process->core, &self);
        if (self.in_flight != 0 || self.in_flight_bytes != 0 || self.held_bytes != 0)
            oracle_fail(world, "w%u has nothing to do and holds %llu bytes, %llu in flight",
                        process->worker, (unsigned long long)self.held_bytes,
                        (unsigned long long)self.in_flight);
        row = world_table_worker(&world->table, process->worker);
        if (row->gives.count > 0 || row->takes.count > 0)
            oracle_fail(world, "%u gives and %u takes were left in the row of w%u",
                        row->gives.count, row->takes.count, process->worker);
    }
}
