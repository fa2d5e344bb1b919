/* SPDX-License-Identifier: Apache-2.0 */
#include "oracle_rules.h"

#include <string.h>

#include "oracle_flight.h"
#include "world.h"
#include "world_looks.h"

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
                      const struct ks_worker_row *row, bool looked, int64_t now)
{
    bool same = watch->boot == row->self.boot;
    /* A boot that was not there a moment ago and has beaten since is as good as seen to advance; not so one that a
     * damaged row may have hidden. */
    bool advanced = same ? watch->advanced || row->beat > watch->beat
                         : looked && !watch->damaged && row->beat > 0;

    /* A row that cannot be read is no news, and no proof. */
    if (row->damaged) {
        watch->present = true;
        watch->damaged = true;
        return;
    }
    /* A beat from before may be told by an answer that came too late to be heard: it says nothing of now. */
    if (!same || row->beat > watch->most || now - watch->last > 2 * world->swarm.core.beat.us)
        watch->since = now;
    *watch =
        (struct oracle_watch){.present = true,
                              .advanced = advanced,
                              .boot = row->self.boot,
                              .beat = row->beat,
                              .most = same && watch->most > row->beat ? watch->most : row->beat,
                              .life = row->life,
                              .mode = row->mode,
                              .since = watch->since,
                              .last = now,
                              .dead_since = row->life == KS_LIVE              ? INT64_MAX
                                            : same && watch->dead_since < now ? watch->dead_since
                                                                              : now};
}

/* S4: from now on. */
static void given(struct process *process, const struct ks_worker_row *row)
{
    struct oracle_rules *rules = &process->truth.rules;

    if (row->damaged || !ks_incarnation_equal(row->self, oracle_incarnation(process)))
        return;
    if (rules->given_boot != row->self.boot)
        for (ks_shard shard = 0; shard < SIM_SHARDS; shard++)
            rules->shards[shard].given = 0;
    rules->given_boot = row->self.boot;
    for (uint32_t i = 0; i < row->give_count; i++)
        if (rules->shards[row->gives[i].shard].given < row->gives[i].epoch)
            rules->shards[row->gives[i].shard].given = row->gives[i].epoch;
}

static void elected(struct oracle_rules *rules, int64_t now)
{
    rules->leads = true;
    rules->won_at = now;
}

/* A claim of unknown outcome may have been applied: its worker learns of its election from the leader row. */
static void office_told(struct process *process, const struct table_request *request, int64_t now)
{
    struct oracle_rules *rules = &process->truth.rules;
    struct ks_incarnation holder = request->answer.leader.holder;

    know(rules, &rules->office, holder, request->answer.leader.epoch);
    if (!ks_incarnation_equal(holder, oracle_incarnation(process)))
        rules->leads &= !request->ask.consistent;
    else if (!rules->leads && rules->office_asked == 0)
        elected(rules, now);
}

static void fleet_told(const struct world *world, struct process *process,
                       const struct table_request *request)
{
    struct oracle_rules *rules = &process->truth.rules;
    enum ks_store_operation operation = request->ask.operation;
    int64_t now = shell_clock(world, process).us;
    struct ks_self_view self;
    bool looked = rules->looked && now - rules->looked_at <= 2 * world->swarm.core.beat.us;

    /* A worker that is being registered again hears no news. */
    ks_core_self(process->core, &self);
    if (operation != KS_STORE_READ_WORKER &&
        (self.state == KS_WORKER_STARTING || self.state == KS_WORKER_FENCED))
        return;
    for (uint32_t worker = 0; worker < SIM_WORKERS; worker++)
        if (operation == KS_STORE_READ_FLEET ||
            (operation == KS_STORE_READ_NEWS &&
             (worker == request->ask.worker.worker || worker == request->ask.owner.worker)))
            rules->watch[worker].present = false;
    if (operation != KS_STORE_READ_WORKER)
        office_told(process, request, now);
    for (uint32_t i = 0; i < request->answer.worker_count; i++)
        watch_row(world, &rules->watch[request->answer.workers[i].self.worker],
                  &request->answer.workers[i], looked, now);
    /* A row that is gone hides no boot. */
    for (uint32_t worker = 0; worker < SIM_WORKERS; worker++)
        rules->watch[worker].damaged &= rules->watch[worker].present;
    if (operation == KS_STORE_READ_WORKER && request->answer.worker_count > 0)
        watch_row(world, &rules->self, &request->answer.workers[0], false, now);
    if (operation == KS_STORE_READ_FLEET) {
        rules->looked = true;
        rules->looked_at = now;
    }
    if (request->ask.operation == KS_STORE_READ_FLEET && request->ask.consistent) {
        memcpy(rules->proof, rules->watch, sizeof rules->proof);
        rules->proof_order = request->order;
    }
}

static void leases_told(struct oracle_rules *rules, const struct table_request *request)
{
    /* A row that is gone is not damaged any more. */
    for (ks_shard shard = 0; request->ask.operation == KS_STORE_READ_LEASES && shard < SIM_SHARDS;
         shard++)
        rules->shards[shard].damaged = false;
    for (uint32_t i = 0; i < request->answer.lease_count; i++) {
        const struct ks_lease_row *row = &request->answer.leases[i];
        struct oracle_shard *shard = &rules->shards[row->shard];

        /* A look that comes late says nothing of a row that was read since. */
        shard->damaged = row->damaged && request->order > shard->legible;
        if (row->damaged)
            continue;
        if (request->order > shard->legible)
            shard->legible = request->order;
        know(rules, &shard->known, row->owner, row->epoch);
        /* A slow look may show the row as it was before the move. */
        if (row->next_owner.worker != 0 &&
            (shard->next.epoch < row->epoch ||
             (shard->next.epoch == row->epoch && shard->next.order < request->order)))
            shard->next = (struct oracle_known){row->next_owner, row->epoch, rules->asked};
        if (request->ask.operation == KS_STORE_READ_LEASE) {
            shard->unsure = false;
            shard->read_back = true;
        }
    }
}

/* Our `give` stands in that row from now on. */
static void gives_told(struct oracle_rules *rules, const struct table_request *request, int64_t now)
{
    struct ks_incarnation target = {request->ask.worker.worker, request->ask.expect_boot};

    for (uint32_t i = 0; i < request->ask.give_count; i++) {
        struct oracle_shard *shard = &rules->shards[request->gives[i].shard];

        if (shard->give.epoch == request->gives[i].epoch &&
            ks_incarnation_equal(shard->give.owner, target))
            continue;
        shard->give = (struct oracle_known){target, request->gives[i].epoch, rules->asked};
        shard->give_at = now;
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
    if (operation == KS_STORE_ASSIGN || operation == KS_STORE_TAKE_OVER ||
        operation == KS_STORE_FORCE)
        know(rules, &rules->shards[request->ask.shard].known, request->ask.worker,
             request->ask.epoch + 1);
    /* The owner's own last write makes the next owner known, too. */
    if (operation == KS_STORE_SEEK)
        know(rules, &rules->shards[request->ask.shard].known, request->ask.worker,
             request->ask.epoch + 1);
    if (operation == KS_STORE_FINAL || operation == KS_STORE_END)
        know(rules, &rules->shards[request->ask.shard].known,
             operation == KS_STORE_END ? KS_NOBODY : request->ask.next_owner,
             request->ask.epoch + 1);
    if (operation == KS_STORE_PLAN && request->ask.next_owner.worker != 0)
        rules->shards[request->ask.shard].next =
            (struct oracle_known){request->ask.next_owner, request->ask.epoch, rules->asked};
    if (operation == KS_STORE_HINTS)
        gives_told(rules, request, now);
    if (operation == KS_STORE_FENCE &&
        rules->watch[request->ask.worker.worker].boot == request->ask.expect_boot)
        rules->watch[request->ask.worker.worker].life = KS_FENCED;
    if (operation == KS_STORE_CLAIM_OFFICE) {
        know(rules, &rules->office, request->ask.worker, request->ask.epoch + 1);
        /* An office won for a former incarnation is not its own. */
        if (ks_incarnation_equal(request->ask.worker, oracle_incarnation(process)))
            elected(rules, now);
    }
}

void oracle_rules_answered(const struct world *world, struct process *process,
                           const struct table_request *request, enum ks_outcome outcome)
{
    enum ks_store_operation operation = request->ask.operation;
    struct oracle_rules *rules = &process->truth.rules;

    if (rules->office_asked == request->order)
        rules->office_asked = 0;
    for (uint32_t i = 0; outcome == KS_DONE && i < request->answer.worker_count; i++)
        given(process, &request->answer.workers[i]);
    if (world_table_is_write(operation))
        write_told(process, request, outcome, shell_clock(world, process).us);
    else if (outcome == KS_DONE &&
             (operation == KS_STORE_READ_FLEET || operation == KS_STORE_READ_NEWS ||
              operation == KS_STORE_READ_WORKER))
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
    const struct oracle_rules *rules = &process->truth.rules;
    const struct oracle_watch *watch = ask->operation == KS_STORE_REGISTER_SILENT
                                           ? &rules->self
                                           : &rules->watch[ask->worker.worker];
    int64_t enough = world->swarm.core.lease_duration.us + world->swarm.core.margin.us;

    if (watch->boot != ask->expect_boot || watch->most != ask->expect_beat ||
        now.us - watch->since < enough)
        oracle_fail(
            world,
            "w%u sends %s of w%u (boot %04x, beat %llu) without having watched it for L + m: it "
            "saw boot %04x and beat %llu for %lld ms",
            process->worker, world_table_operation_name(ask->operation), ask->worker.worker,
            (unsigned)(ask->expect_boot & 0xffff), (unsigned long long)ask->expect_beat,
            (unsigned)(watch->boot & 0xffff), (unsigned long long)watch->most,
            (long long)(now.us - watch->since) / SIM_MS);
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
    /* Whoever watched the others for two beats before it was elected need not muster. */
    bool mustered = rules->won_at - rules->registered_at >= 2 * world->swarm.core.beat.us ||
                    now.us >= rules->won_at + world->swarm.core.beat.us + 1500 * SIM_MS;

    for (uint32_t worker = 0; !mustered && worker < SIM_WORKERS; worker++)
        if (worker != process->worker && rules->watch[worker].present &&
            !rules->watch[worker].damaged && rules->watch[worker].life == KS_LIVE &&
            !rules->watch[worker].advanced)
            oracle_fail(world, "w%u gives shard-%u away before w%u could show itself",
                        process->worker, ask->shard, worker);
    if (ask->operation == KS_STORE_PLAN && ks_incarnation_equal(ask->worker, ask->owner))
        oracle_fail(world, "w%u moves shard-%u to where it is", process->worker, ask->shard);
    if (ask->worker.worker == process->worker)
        return;
    if (!target->present || target->damaged || target->boot != ask->worker.boot ||
        target->life != KS_LIVE || target->mode != KS_ACTIVE || !target->advanced)
        oracle_fail(
            world,
            "w%u gives shard-%u to w%u (boot %04x), which is not active: present %d, damaged "
            "%d, boot %04x, life %d, mode %d, advanced %d",
            process->worker, ask->shard, ask->worker.worker, (unsigned)(ask->worker.boot & 0xffff),
            target->present, target->damaged, (unsigned)(target->boot & 0xffff), target->life,
            target->mode, target->advanced);
}

static int64_t force_after(const struct ks_core_config *core)
{
    int64_t hand_over = core->hand_over.us + core->beat.us;

    return (hand_over > core->lease_duration.us ? hand_over : core->lease_duration.us) +
           core->margin.us;
}

/* A7: any heartbeat of the owner that was applied before our `give` was sent before it. */
static void check_force(struct world *world, const struct process *process,
                        const struct ks_store_effect *ask, ks_instant now)
{
    const struct ks_core_config *core = &world->swarm.core;
    const struct oracle_shard *shard = &process->truth.rules.shards[ask->shard];
    const char *wrong = NULL;

    /* Of an epoch that is over the table refuses it. */
    if (shard->known.epoch > ask->epoch)
        return;
    if (shard->known.epoch != ask->epoch || !ks_incarnation_equal(shard->known.owner, ask->owner))
        wrong = "is not as the row was read";
    else if (shard->give.epoch != ask->epoch ||
             !ks_incarnation_equal(shard->give.owner, ask->owner))
        wrong = "without a `give` that was acknowledged";
    else if (now.us - shard->give_at < force_after(core))
        wrong = "before its `give` stood for max(H + B, L) + m";
    if (wrong != NULL)
        oracle_fail(world, "w%u takes shard-%u by force from w%u, %s", process->worker, ask->shard,
                    ask->owner.worker, wrong);
}

/* A7: first the row, then those whom it concerns. */
static void check_hints(struct world *world, const struct process *process,
                        const struct ks_store_effect *ask)
{
    struct ks_incarnation target = {ask->worker.worker, ask->expect_boot};

    for (uint32_t i = 0; i < ask->give_count + ask->take_count; i++) {
        bool give = i < ask->give_count;
        struct ks_lease_token token = give ? ask->gives[i] : ask->takes[i - ask->give_count];
        const struct oracle_shard *shard = &process->truth.rules.shards[token.shard];
        bool owner =
            shard->known.epoch == token.epoch && ks_incarnation_equal(shard->known.owner, target);
        bool next =
            shard->next.epoch + 1 == token.epoch && ks_incarnation_equal(shard->next.owner, target);

        if (shard->known.epoch > token.epoch)
            continue;
        /* The epochs of a row that was made again begin anew, and an old replica may have shown the one before. */
        if (world->stream.shards[token.shard].made > 0 && shard->next.epoch >= token.epoch)
            continue;
        if (give ? !owner || shard->next.epoch != token.epoch : !owner && !next)
            oracle_fail(world, "w%u tells w%u to %s shard-%u, and no row says so", process->worker,
                        target.worker, give ? "give" : "take", token.shard);
    }
}

/* True if an operator has finished the row of an open shard, longer ago than a fast clock counts for `keep`. */
static bool was_odd_for(const struct world *world, ks_shard shard, sim_time keep)
{
    sim_time odd_at = world->stream.shards[shard].odd_at;

    return odd_at != SIM_NEVER && world->now - odd_at >= keep * 95 / 100;
}

/* A3, A5: what is removed was dead, or out of the stream, or wrong, for K. */
static void check_removal(struct world *world, const struct process *process,
                          const struct ks_store_effect *ask, ks_instant now)
{
    const struct oracle_rules *rules = &process->truth.rules;
    const struct oracle_watch *watch = &rules->watch[ask->worker.worker % SIM_WORKERS];
    int64_t keep = world->swarm.core.keep.us;

    if (ask->operation == KS_STORE_REMOVE_WORKER &&
        (watch->boot != ask->expect_boot || watch->life == KS_LIVE || watch->damaged ||
         now.us - watch->dead_since < keep))
        oracle_fail(world, "w%u removes the row of w%u, which was not seen dead for K",
                    process->worker, ask->worker.worker);
    if (ask->operation == KS_STORE_DELETE && !was_odd_for(world, ask->shard, keep) &&
        (rules->shards[ask->shard].unlisted < 2 ||
         now.us - rules->shards[ask->shard].unlisted_at < keep))
        oracle_fail(world, "w%u deletes the row of shard-%u, which was not gone for K",
                    process->worker, ask->shard);
}

/* H: whoever still works on records may settle them before the lease is given away. */
static void check_final(struct world *world, struct process *process,
                        const struct ks_store_effect *ask, ks_instant now)
{
    int64_t since = process->truth.rules.shards[ask->shard].returning_at;

    if (process->readers[ask->shard].epoch != ask->epoch ||
        !oracle_flight_is_flying(world, process, ask->shard) ||
        (process->draining && ks_instant_reached(now, process->patience_at)))
        return;
    if (since == INT64_MAX || now.us - since < world->swarm.core.hand_over.us)
        oracle_fail(world, "w%u gives shard-%u away while its app may still settle records of it",
                    process->worker, ask->shard);
}

void oracle_rules_removed(struct world *world, const struct table_request *request)
{
    for (uint32_t i = 0; i < request->ask.give_count; i++) {
        const struct table_lease *row = world_table_lease(&world->table, request->gives[i].shard);

        /* The epochs of a row that was made again begin anew. */
        if (row->present && row->row.epoch <= request->gives[i].epoch && row->made == 0)
            oracle_fail(world, "w%u removes the notice to give shard-%u, and has not given it",
                        request->ask.worker.worker, request->gives[i].shard);
    }
}

void oracle_rules_stepped(struct world *world, const struct process *process)
{
    const struct oracle_rules *rules = &process->truth.rules;

    if (rules->given_boot != oracle_incarnation(process).boot)
        return;
    for (ks_shard shard = 0; shard < world->stream.count; shard++) {
        struct ks_lease_view lease;

        if (rules->shards[shard].given == 0 || !oracle_may_deliver(world, process, shard))
            continue;
        shell_lease(process, shard, &lease);
        if (lease.epoch <= rules->shards[shard].given)
            oracle_fail(world, "w%u may deliver shard-%u, which it was told to give",
                        process->worker, shard);
    }
}

void oracle_rules_listed(struct process *process, const struct ks_shard_row *rows, uint32_t count,
                         ks_instant now)
{
    struct oracle_rules *rules = &process->truth.rules;

    for (ks_shard shard = 0; shard < SIM_SHARDS; shard++)
        if (rules->shards[shard].unlisted++ == 0)
            rules->shards[shard].unlisted_at = now.us;
    for (uint32_t i = 0; i < count; i++)
        rules->shards[rows[i].shard].unlisted = 0;
}

static bool is_leaders_write(enum ks_store_operation operation)
{
    return operation == KS_STORE_CREATE_APP || operation == KS_STORE_HINTS ||
           operation == KS_STORE_REMOVE_WORKER ||
           (world_table_is_lease_write(operation) && !world_table_is_owner_write(operation));
}

static bool is_office_write(enum ks_store_operation operation)
{
    return operation == KS_STORE_CREATE_APP || operation == KS_STORE_CLAIM_OFFICE ||
           operation == KS_STORE_NAME_DEPUTIES || operation == KS_STORE_RESIGN_OFFICE;
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
    if (operation >= KS_STORE_REGISTER_NEW && operation <= KS_STORE_REGISTER_CORPSE) {
        rules->registered_at = now.us;
        rules->office_asked = 0;
        rules->leads = false;
    }
    if (is_office_write(operation))
        rules->office_asked = request->order;
    if (operation == KS_STORE_FENCE || operation == KS_STORE_REGISTER_SILENT)
        check_watched(world, process, ask, now);
    if (operation == KS_STORE_TAKE_OVER)
        check_proof(world, process, ask, &rules->shards[ask->shard].known);
    if (operation == KS_STORE_CLAIM_OFFICE && ask->owner.worker != 0)
        check_proof(world, process, ask, &rules->office);
    if (operation == KS_STORE_ASSIGN || operation == KS_STORE_TAKE_OVER ||
        operation == KS_STORE_FORCE || (operation == KS_STORE_PLAN && ask->next_owner.worker != 0))
        check_fit(world, process, ask, now);
    if (operation == KS_STORE_FORCE)
        check_force(world, process, ask, now);
    if (operation == KS_STORE_HINTS)
        check_hints(world, process, ask);
    if (operation == KS_STORE_REMOVE_WORKER || operation == KS_STORE_DELETE)
        check_removal(world, process, ask, now);
    if (operation == KS_STORE_FINAL)
        check_final(world, process, ask, now);
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
        if (process->readers[shard].open && row->checkpoint < rules->persist_to &&
            !shell_is_orphan(world, process, shard))
            oracle_fail(world, "w%u was asked to persist shard-%u, and did not", process->worker,
                        shard);
    }
}

/* Its leader takes what it holds for what it should hold, until it finds out. */
static bool holds_an_orphan(const struct world *world, const struct process *process)
{
    for (ks_shard shard = 0; shard < world->stream.count; shard++)
        if (process->readers[shard].open && shell_is_orphan(world, process, shard))
            return true;
    return false;
}

static void look_at_owners(struct world *world)
{
    const struct ks_core_config *core = &world->swarm.core;
    sim_time look = world_looks_time(world);
    /* Two looks at the news, a poll, and the requests of both. Whoever has given up its take, for it was given late, is
     * told again when it has held too little for 1.5 B and a round has seen it. */
    sim_time soon = 2 * core->news.us + 2 * SIM_SECOND + 2 * core->beat.us + 2 * core->round.us;

    /* Its leader may have gone before it told. In the war each look of the next one may be lost: the last of them is
     * asked just before the peace. */
    sim_time told_from = look > 0 ? world->peace_at : 0;

    if (look > 0)
        soon += SIM_LOOK + SIM_SECOND + 2 * look;

    for (ks_shard shard = 0; shard < world->stream.count; shard++) {
        const struct table_lease *row = world_table_lease(&world->table, shard);
        const struct process *owner = row->present ? process_of(world, row->row.owner) : NULL;
        struct ks_lease_view lease;

        if (owner == NULL || owner->draining || world->now < row->at + soon ||
            world->now < told_from + soon || holds_an_orphan(world, owner) ||
            (shell_lease(owner, shard, &lease) && lease.state != KS_LEASE_AWAY))
            continue;
        oracle_fail(world, "w%u has owned shard-%u for %lld ms and has not begun it", owner->worker,
                    shard, (long long)((world->now - row->at) / SIM_MS));
    }
}

/* A move that was planned comes to its end, by force at the latest. */
static void look_at_moves(struct world *world)
{
    const struct ks_core_config *core = &world->swarm.core;
    sim_time late = force_after(core) + 4 * core->round.us + 2 * core->beat.us + 4 * SIM_SECOND;

    for (ks_shard shard = 0; shard < world->stream.count; shard++) {
        const struct table_lease *row = world_table_lease(&world->table, shard);

        if (row->present && row->row.next_owner.worker != 0 && world->now > row->at + late &&
            process_of(world, row->row.owner) != NULL)
            oracle_fail(world, "shard-%u has been moving to w%u for %lld ms", shard,
                        row->row.next_owner.worker, (long long)((world->now - row->at) / SIM_MS));
    }
}

bool oracle_rules_is_kept(const struct world *world)
{
    for (ks_shard shard = 0; shard < world->stream.count; shard++)
        if (world_table_lease(&world->table, shard)->present && world->stream.shards[shard].expired)
            return world->swarm.core.keep.us < 1000 * SIM_SECOND;
    return false;
}

void oracle_rules_look(struct world *world)
{
    look_at_moves(world);
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
