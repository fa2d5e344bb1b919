/* SPDX-License-Identifier: Apache-2.0 */
#include "world_table.h"

#include <assert.h>
#include <string.h>

#include "oracle_rules.h"
#include "story.h"
#include "world.h"

/* ---- Versions ---- */

void world_table_clear(struct world_table *table)
{
    /* Later versions are copies of the first one. */
    for (uint32_t worker = 0; worker < SIM_WORKERS; worker++)
        memset(&table->workers[worker][0], 0, sizeof table->workers[worker][0]);
    for (ks_shard shard = 0; shard < SIM_SHARDS; shard++)
        memset(&table->leases[shard][0], 0, sizeof table->leases[shard][0]);
    memset(&table->office[0], 0, sizeof table->office[0]);
    memset(table->newest_worker, 0, sizeof table->newest_worker);
    memset(table->newest_lease, 0, sizeof table->newest_lease);
    memset(table->worker_damaged, 0, sizeof table->worker_damaged);
    memset(table->lease_damaged, 0, sizeof table->lease_damaged);
    table->newest_office = 0;
    table->app_present = false;
}

const struct table_worker *world_table_worker(const struct world_table *table, uint32_t worker)
{
    assert(worker > 0 && worker < SIM_WORKERS);

    return &table->workers[worker][table->newest_worker[worker] % SIM_VERSIONS];
}

const struct table_lease *world_table_lease(const struct world_table *table, ks_shard shard)
{
    assert(shard < SIM_SHARDS);

    return &table->leases[shard][table->newest_lease[shard] % SIM_VERSIONS];
}

const struct table_office *world_table_office(const struct world_table *table)
{
    return &table->office[table->newest_office % SIM_VERSIONS];
}

/* A new version, so far like the one before it. */
static struct table_worker *change_worker(struct world *world, uint32_t worker)
{
    struct world_table *table = &world->table;
    const struct table_worker *before = world_table_worker(table, worker);
    struct table_worker *after =
        &table->workers[worker][++table->newest_worker[worker] % SIM_VERSIONS];

    *after = *before;
    after->at = world->now;
    return after;
}

static struct table_lease *change_lease(struct world *world, ks_shard shard)
{
    struct world_table *table = &world->table;
    const struct table_lease *before = world_table_lease(table, shard);
    struct table_lease *after = &table->leases[shard][++table->newest_lease[shard] % SIM_VERSIONS];

    *after = *before;
    after->at = world->now;
    return after;
}

static struct table_office *change_office(struct world *world)
{
    struct world_table *table = &world->table;
    const struct table_office *before = world_table_office(table);
    struct table_office *after = &table->office[++table->newest_office % SIM_VERSIONS];

    *after = *before;
    after->at = world->now;
    return after;
}

/* ---- Sets ---- */

static uint32_t find_token(const struct token_set *set, struct ks_lease_token token)
{
    uint32_t i = 0;

    while (i < set->count &&
           (set->items[i].shard != token.shard || set->items[i].epoch != token.epoch))
        i++;
    return i;
}

static void add_tokens(struct world *world, struct token_set *set,
                       const struct ks_lease_token *tokens, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (find_token(set, tokens[i]) < set->count)
            continue;
        if (set->count == SIM_TOKENS) {
            oracle_fail(world, "a set of tokens grows without end");
            return;
        }
        set->items[set->count++] = tokens[i];
    }
}

static void delete_tokens(struct token_set *set, const struct ks_lease_token *tokens,
                          uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t place = find_token(set, tokens[i]);

        if (place < set->count)
            set->items[place] = set->items[--set->count];
    }
}

/* ---- Reads ---- */

static void tell_worker(const struct world *world, struct table_answer *answer, uint32_t worker,
                        const struct table_worker *version)
{
    struct ks_worker_row *row = &answer->workers[answer->worker_count++];
    struct ks_lease_token *tokens = &answer->tokens[answer->token_count];

    if (world->now < world->table.worker_damaged[worker]) {
        *row = (struct ks_worker_row){.self = {worker, 0}, .damaged = true};
        return;
    }
    *row = (struct ks_worker_row){.self = {worker, version->boot},
                                  .life = version->life,
                                  .mode = version->mode,
                                  .beat = version->beat,
                                  .held = version->held,
                                  .changes = version->changes,
                                  .capacity = version->capacity,
                                  .load = version->load,
                                  .gives = tokens,
                                  .takes = tokens + version->gives.count,
                                  .give_count = version->gives.count,
                                  .take_count = version->takes.count};
    memcpy(tokens, version->gives.items, version->gives.count * sizeof *tokens);
    memcpy(tokens + version->gives.count, version->takes.items,
           version->takes.count * sizeof *tokens);
    answer->token_count += version->gives.count + version->takes.count;
    assert(answer->token_count <= SIM_WORKERS * SIM_TOKENS);
}

static void tell_lease(const struct world *world, struct table_answer *answer,
                       const struct table_lease *version)
{
    struct ks_lease_row *row = &answer->leases[answer->lease_count];

    *row = version->row;
    if (world->now < world->table.lease_damaged[row->shard])
        *row = (struct ks_lease_row){
            .shard = row->shard, .parents = {KS_SHARD_NONE, KS_SHARD_NONE}, .damaged = true};
    answer->made[answer->lease_count] = version->made;
    answer->checkpoints[answer->lease_count++] = version->checkpoint;
}

/* How far back a read looks. */
static sim_time draw_age(struct world *world, const struct table_request *request)
{
    if (request->ask.consistent || world->swarm.stale == 0 || draw_chance(&world->prng, 600))
        return 0;
    return ks_prng_between(&world->prng, 0, world->swarm.stale);
}

/* The place of the newest version that is at least as old as `until`. */
#define VERSION_AT(versions, newest, until)                                                        \
    do {                                                                                           \
        for (uint32_t back_ = 0; back_ + 1 < SIM_VERSIONS && (newest) > 0; back_++) {              \
            if ((versions)[(newest) % SIM_VERSIONS].at <= (until))                                 \
                break;                                                                             \
            (newest)--;                                                                            \
        }                                                                                          \
    } while (0)

static void read_office(struct world *world, struct table_request *request, sim_time age)
{
    const struct world_table *table = &world->table;
    uint32_t newest = table->newest_office;

    VERSION_AT(table->office, newest, world->now - age);
    request->answer.leader = table->office[newest % SIM_VERSIONS].row;
}

static void read_member(struct world *world, struct table_request *request, uint32_t worker,
                        sim_time age)
{
    const struct world_table *table = &world->table;
    uint32_t newest = table->newest_worker[worker];

    if (world->swarm.stale_rows)
        age = draw_age(world, request);
    VERSION_AT(table->workers[worker], newest, world->now - age);
    if (table->workers[worker][newest % SIM_VERSIONS].present)
        tell_worker(world, &request->answer, worker,
                    &table->workers[worker][newest % SIM_VERSIONS]);
}

static bool read_fleet(struct world *world, struct table_request *request)
{
    const struct world_table *table = &world->table;
    sim_time age = draw_age(world, request);

    read_office(world, request, age);
    request->answer.app_present = table->app_present && table->app_at <= world->now - age;
    for (uint32_t worker = 1; worker < SIM_WORKERS; worker++)
        read_member(world, request, worker, age);
    return true;
}

static bool read_news(struct world *world, struct table_request *request)
{
    const struct ks_store_effect *ask = &request->ask;
    sim_time age = draw_age(world, request);

    read_office(world, request, age);
    read_member(world, request, ask->worker.worker, age);
    if (ask->owner.worker != 0 && ask->owner.worker != ask->worker.worker)
        read_member(world, request, ask->owner.worker, age);
    return true;
}

static bool read_leases(struct world *world, struct table_request *request)
{
    const struct world_table *table = &world->table;
    sim_time age = draw_age(world, request);

    for (ks_shard shard = SIM_SHARDS * request->page / request->pages;
         shard < SIM_SHARDS * (request->page + 1) / request->pages; shard++) {
        uint32_t newest = table->newest_lease[shard];

        if (world->swarm.stale_rows)
            age = draw_age(world, request);
        VERSION_AT(table->leases[shard], newest, world->now - age);
        if (table->leases[shard][newest % SIM_VERSIONS].present)
            tell_lease(world, &request->answer, &table->leases[shard][newest % SIM_VERSIONS]);
    }
    return true;
}

static bool read_lease(struct world *world, struct table_request *request)
{
    const struct table_lease *lease = world_table_lease(&world->table, request->ask.shard);

    if (lease->present)
        tell_lease(world, &request->answer, lease);
    return true;
}

static bool read_worker(struct world *world, struct table_request *request)
{
    const struct table_worker *row = world_table_worker(&world->table, request->ask.worker.worker);

    if (row->present)
        tell_worker(world, &request->answer, request->ask.worker.worker, row);
    return true;
}

/* ---- Writes of a worker row (A3) ---- */

static bool take_row(struct world *world, const struct ks_store_effect *ask, bool condition)
{
    struct table_worker *row;

    if (!condition)
        return false;
    row = change_worker(world, ask->worker.worker);
    *row = (struct table_worker){.at = world->now,
                                 .present = true,
                                 .boot = ask->worker.boot,
                                 .life = KS_LIVE,
                                 .mode = ask->mode,
                                 .capacity = ask->capacity};
    return true;
}

static const struct table_worker *row_of(struct world *world, const struct table_request *request)
{
    return world_table_worker(&world->table, request->ask.worker.worker);
}

static bool register_new(struct world *world, struct table_request *request)
{
    return take_row(world, &request->ask, !row_of(world, request)->present);
}

static bool register_dead(struct world *world, struct table_request *request)
{
    const struct table_worker *row = row_of(world, request);

    return take_row(world, &request->ask,
                    row->present && row->boot == request->ask.expect_boot && row->life != KS_LIVE);
}

static bool register_silent(struct world *world, struct table_request *request)
{
    const struct table_worker *row = row_of(world, request);

    return take_row(world, &request->ask,
                    row->present && row->boot == request->ask.expect_boot &&
                        row->beat == request->ask.expect_beat && row->life == KS_LIVE);
}

static bool register_corpse(struct world *world, struct table_request *request)
{
    const struct table_worker *row = row_of(world, request);

    return take_row(world, &request->ask, row->present && row->boot == request->ask.expect_boot);
}

static bool heartbeat(struct world *world, struct table_request *request)
{
    const struct ks_store_effect *ask = &request->ask;
    const struct table_worker *row = row_of(world, request);
    struct table_worker *after;

    if (!row->present || row->boot != ask->worker.boot || row->life != KS_LIVE)
        return false;
    after = change_worker(world, ask->worker.worker);
    after->beat++;
    after->mode = ask->mode;
    after->held = ask->held;
    after->changes = ask->changes;
    after->capacity = ask->capacity;
    after->load = ask->load;
    delete_tokens(&after->gives, ask->gives, ask->give_count);
    delete_tokens(&after->takes, ask->takes, ask->take_count);
    return true;
}

static bool fence(struct world *world, struct table_request *request)
{
    const struct table_worker *row = row_of(world, request);

    if (!row->present || row->boot != request->ask.expect_boot ||
        row->beat != request->ask.expect_beat || row->life != KS_LIVE)
        return false;
    change_worker(world, request->ask.worker.worker)->life = KS_FENCED;
    return true;
}

static bool say_gone(struct world *world, struct table_request *request)
{
    const struct table_worker *row = row_of(world, request);

    if (!row->present || row->boot != request->ask.worker.boot || row->life != KS_LIVE)
        return false;
    change_worker(world, request->ask.worker.worker)->life = KS_GONE;
    return true;
}

static bool hints(struct world *world, struct table_request *request)
{
    const struct ks_store_effect *ask = &request->ask;
    const struct table_worker *row = row_of(world, request);
    struct table_worker *after;

    if (!row->present || row->boot != ask->expect_boot || row->life != KS_LIVE)
        return false;
    after = change_worker(world, ask->worker.worker);
    add_tokens(world, &after->gives, ask->gives, ask->give_count);
    add_tokens(world, &after->takes, ask->takes, ask->take_count);
    return true;
}

static bool remove_worker(struct world *world, struct table_request *request)
{
    const struct table_worker *row = row_of(world, request);

    if (!row->present || row->boot != request->ask.expect_boot || row->life == KS_LIVE)
        return false;
    change_worker(world, request->ask.worker.worker)->present = false;
    return true;
}

/* ---- Leader row and app row ---- */

static bool claim_office(struct world *world, struct table_request *request)
{
    const struct ks_leader_row *row = &world_table_office(&world->table)->row;
    struct table_office *after;

    if (!ks_incarnation_equal(row->holder, request->ask.owner) || row->epoch != request->ask.epoch)
        return false;
    after = change_office(world);
    after->row.present = true;
    after->row.holder = request->ask.worker;
    after->row.epoch++;
    oracle_rules_leads(world, request);
    return true;
}

static bool resign_office(struct world *world, struct table_request *request)
{
    const struct ks_leader_row *row = &world_table_office(&world->table)->row;

    if (!row->present || !ks_incarnation_equal(row->holder, request->ask.worker) ||
        row->epoch != request->ask.epoch)
        return false;
    change_office(world)->row.holder = KS_NOBODY;
    return true;
}

static bool name_deputies(struct world *world, struct table_request *request)
{
    const struct ks_store_effect *ask = &request->ask;
    const struct ks_leader_row *row = &world_table_office(&world->table)->row;
    uint32_t one = ask->deputies[0];
    uint32_t two = ask->deputies[1] == one ? 0 : ask->deputies[1];
    bool turned = one == 0 || (two != 0 && two < one); /* A set has an order of its own. */
    struct table_office *after;

    if (!row->present || !ks_incarnation_equal(row->holder, ask->worker) ||
        row->epoch != ask->epoch)
        return false;
    after = change_office(world);
    after->row.deputies[0] = turned ? two : one;
    after->row.deputies[1] = turned ? one : two;
    return true;
}

static bool create_app(struct world *world, struct table_request *request)
{
    struct world_table *table = &world->table;

    if (table->app_present)
        return false;
    table->app_present = true;
    table->app_at = world->now;
    table->app_start = request->app_start;
    return true;
}

/* ---- Writes of a lease row (A5) ---- */

static const struct table_lease *lease_of(struct world *world, const struct table_request *request)
{
    return world_table_lease(&world->table, request->ask.shard);
}

static bool create_lease(struct world *world, struct table_request *request)
{
    struct table_lease *after;

    if (lease_of(world, request)->present)
        return false;
    after = change_lease(world, request->ask.shard);
    *after = (struct table_lease){.at = world->now,
                                  .present = true,
                                  .checkpoint = request->checkpoint,
                                  .made = world->stream.shards[request->ask.shard].made};
    after->row.shard = request->ask.shard;
    memcpy(after->row.parents, request->parents, sizeof after->row.parents);
    after->row.ranged = true;
    after->row.first_key = request->first_key;
    after->row.last_key = request->last_key;
    return true;
}

/* Gives the row to `ask->worker` in a new epoch, if it is `from`'s. */
static bool change_owner(struct world *world, struct table_request *request,
                         struct ks_incarnation from)
{
    const struct table_lease *lease = lease_of(world, request);
    struct table_lease *after;

    if (!lease->present || !ks_incarnation_equal(lease->row.owner, from) ||
        lease->row.epoch != request->ask.epoch)
        return false;
    after = change_lease(world, request->ask.shard);
    after->row.owner = request->ask.worker;
    after->row.next_owner = KS_NOBODY;
    after->row.epoch++;
    return true;
}

static bool assign(struct world *world, struct table_request *request)
{
    return !lease_of(world, request)->row.finished && change_owner(world, request, KS_NOBODY);
}

static bool take_over(struct world *world, struct table_request *request)
{
    if (ks_incarnation_equal(request->ask.owner, KS_NOBODY))
        oracle_fail(world, "a take-over from nobody");
    return change_owner(world, request, request->ask.owner);
}

static bool plan(struct world *world, struct table_request *request)
{
    const struct table_lease *lease = lease_of(world, request);

    if (!lease->present || !ks_incarnation_equal(lease->row.owner, request->ask.owner) ||
        lease->row.epoch != request->ask.epoch)
        return false;
    change_lease(world, request->ask.shard)->row.next_owner = request->ask.next_owner;
    return true;
}

/* The condition of every write of an owner. */
static bool owner_may_write(const struct table_lease *lease, const struct ks_store_effect *ask)
{
    return lease->present && ks_incarnation_equal(lease->row.owner, ask->worker) &&
           lease->row.epoch == ask->epoch && lease->row.rev == ask->rev;
}

static bool checkpoint(struct world *world, struct table_request *request)
{
    struct table_lease *after;

    if (!owner_may_write(lease_of(world, request), &request->ask))
        return false;
    after = change_lease(world, request->ask.shard);
    if (request->has_checkpoint)
        after->checkpoint = request->checkpoint;
    after->row.load = request->ask.load;
    after->row.rev++;
    return true;
}

static bool final(struct world *world, struct table_request *request)
{
    const struct table_lease *lease = lease_of(world, request);
    struct table_lease *after;

    if (!owner_may_write(lease, &request->ask) ||
        !ks_incarnation_equal(lease->row.next_owner, request->ask.next_owner))
        return false;
    after = change_lease(world, request->ask.shard);
    if (request->has_checkpoint)
        after->checkpoint = request->checkpoint;
    after->row.load = request->ask.load;
    after->row.owner = after->row.next_owner;
    after->row.next_owner = KS_NOBODY;
    after->row.epoch++;
    after->row.rev++;
    return true;
}

static bool end(struct world *world, struct table_request *request)
{
    struct table_lease *after;

    if (!owner_may_write(lease_of(world, request), &request->ask))
        return false;
    after = change_lease(world, request->ask.shard);
    after->checkpoint = SIM_SHARD_END;
    after->row.finished = true;
    after->row.load = 0;
    after->row.owner = KS_NOBODY;
    after->row.next_owner = KS_NOBODY;
    after->row.epoch++;
    after->row.rev++;
    return true;
}

static bool delete_lease(struct world *world, struct table_request *request)
{
    const struct table_lease *lease = lease_of(world, request);

    if (!lease->present || !lease->row.finished || lease->row.epoch != request->ask.epoch)
        return false;
    change_lease(world, request->ask.shard)->present = false;
    return true;
}

static bool seek(struct world *world, struct table_request *request)
{
    const struct table_lease *lease = lease_of(world, request);
    struct table_lease *after;

    if (!owner_may_write(lease, &request->ask) || lease->row.next_owner.worker != 0)
        return false;
    after = change_lease(world, request->ask.shard);
    after->checkpoint = request->checkpoint;
    after->row.epoch++;
    after->row.rev++;
    return true;
}

/* ---- By hand ---- */

void world_table_lose_lease(struct world *world, ks_shard shard)
{
    change_lease(world, shard)->present = false;
}

void world_table_finish_lease(struct world *world, ks_shard shard)
{
    struct table_lease *after = change_lease(world, shard);

    after->checkpoint = SIM_SHARD_END;
    after->row.finished = true;
    after->row.owner = KS_NOBODY;
    after->row.next_owner = KS_NOBODY;
    after->row.epoch++;
    after->row.rev++;
}

/* ---- All of them ---- */

enum row_kind { ROW_NONE, ROW_WORKER, ROW_OTHER, ROW_LEASE };

static const struct operation {
    const char *name;
    enum row_kind writes;
    bool (*perform)(struct world *world, struct table_request *request);
} operations[KS_STORE_OPERATIONS] = {
    [KS_STORE_READ_FLEET] = {"read_fleet", ROW_NONE, read_fleet},
    [KS_STORE_READ_NEWS] = {"read_news", ROW_NONE, read_news},
    [KS_STORE_READ_LEASES] = {"read_leases", ROW_NONE, read_leases},
    [KS_STORE_READ_LEASE] = {"read_lease", ROW_NONE, read_lease},
    [KS_STORE_READ_WORKER] = {"read_worker", ROW_NONE, read_worker},
    [KS_STORE_REGISTER_NEW] = {"register_new", ROW_WORKER, register_new},
    [KS_STORE_REGISTER_DEAD] = {"register_dead", ROW_WORKER, register_dead},
    [KS_STORE_REGISTER_SILENT] = {"register_silent", ROW_WORKER, register_silent},
    [KS_STORE_REGISTER_CORPSE] = {"register_corpse", ROW_WORKER, register_corpse},
    [KS_STORE_HEARTBEAT] = {"heartbeat", ROW_WORKER, heartbeat},
    [KS_STORE_FENCE] = {"fence", ROW_WORKER, fence},
    [KS_STORE_SAY_GONE] = {"say_gone", ROW_WORKER, say_gone},
    [KS_STORE_HINTS] = {"hints", ROW_WORKER, hints},
    [KS_STORE_REMOVE_WORKER] = {"remove_worker", ROW_WORKER, remove_worker},
    [KS_STORE_CLAIM_OFFICE] = {"claim_office", ROW_OTHER, claim_office},
    [KS_STORE_RESIGN_OFFICE] = {"resign_office", ROW_OTHER, resign_office},
    [KS_STORE_NAME_DEPUTIES] = {"name_deputies", ROW_OTHER, name_deputies},
    [KS_STORE_CREATE_APP] = {"create_app", ROW_OTHER, create_app},
    [KS_STORE_CREATE] = {"create", ROW_LEASE, create_lease},
    [KS_STORE_ASSIGN] = {"assign", ROW_LEASE, assign},
    [KS_STORE_TAKE_OVER] = {"take_over", ROW_LEASE, take_over},
    [KS_STORE_PLAN] = {"plan", ROW_LEASE, plan},
    [KS_STORE_FORCE] = {"force", ROW_LEASE, take_over},
    [KS_STORE_CHECKPOINT] = {"checkpoint", ROW_LEASE, checkpoint},
    [KS_STORE_FINAL] = {"final", ROW_LEASE, final},
    [KS_STORE_END] = {"end", ROW_LEASE, end},
    [KS_STORE_DELETE] = {"delete", ROW_LEASE, delete_lease},
    [KS_STORE_SEEK] = {"seek", ROW_LEASE, seek},
};

bool world_table_is_write(enum ks_store_operation operation)
{
    return operations[operation].writes != ROW_NONE;
}

bool world_table_is_lease_write(enum ks_store_operation operation)
{
    return operations[operation].writes == ROW_LEASE;
}

bool world_table_is_owner_write(enum ks_store_operation operation)
{
    return operation == KS_STORE_CHECKPOINT || operation == KS_STORE_FINAL ||
           operation == KS_STORE_END || operation == KS_STORE_SEEK;
}

const char *world_table_operation_name(enum ks_store_operation operation)
{
    return operations[operation].name;
}

bool world_table_is_dead(const struct world_table *table, struct ks_incarnation incarnation)
{
    const struct table_worker *row = world_table_worker(table, incarnation.worker);

    return !row->present || row->boot != incarnation.boot || row->life != KS_LIVE;
}

void world_table_apply(struct world *world, struct table_request *request)
{
    const struct operation *operation = &operations[request->ask.operation];
    struct table_answer *answer = &request->answer;
    bool of_lease = operation->writes == ROW_LEASE;
    bool of_worker = operation->writes == ROW_WORKER;
    const struct table_lease *lease = of_lease ? lease_of(world, request) : NULL;
    const struct table_worker *worker = of_worker ? row_of(world, request) : NULL;
    bool done = operation->perform(world, request);

    answer->outcome = done ? KS_DONE : KS_REFUSED;
    world->operations[request->ask.operation][done ? 0 : 1]++;
    if (operation->writes == ROW_NONE)
        return;
    story_table(world, request);
    if (done)
        shell_changed(world, request);
    if (done && of_lease)
        oracle_lease_written(world, request, lease, lease_of(world, request));
    if (done && of_worker)
        oracle_worker_written(world, request, worker, row_of(world, request));
    /* A heartbeat answers the whole row; a refusal does if this store tells. */
    if (of_worker && row_of(world, request)->present &&
        (done ? request->ask.operation == KS_STORE_HEARTBEAT : world->swarm.tells_refusal))
        tell_worker(world, answer, request->ask.worker.worker, row_of(world, request));
}
