/* SPDX-License-Identifier: Apache-2.0 */
#include "oracle.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "oracle_flight.h"
#include "oracle_rules.h"
#include "world.h"

void oracle_fail(struct world *world, const char *format, ...)
{
    va_list list;

    if (world->failed)
        return;
    world->failed = true;
    va_start(list, format);
    vsnprintf(world->sentence, sizeof world->sentence, format, list);
    va_end(list);
}

void oracle_start(struct process *process)
{
    struct oracle_process *truth = &process->truth;

    truth->boot_count = 0;
    memset(&truth->rules, 0, sizeof truth->rules);
    memset(truth->sessions, 0, sizeof truth->sessions);
    truth->paused = false;
    truth->ordering = KS_ORDER_BY_SHARD;
    truth->lane_count = 1;
    truth->held_bytes = 0;
    truth->asked_bytes = 0;
    truth->beyond = 0;
    truth->event = NULL;
}

/* ---- Who may deliver (I1, I2) ---- */

struct ks_incarnation oracle_incarnation(const struct process *process)
{
    struct ks_self_view self;

    ks_core_self(process->core, &self);
    return self.incarnation;
}

bool oracle_may_deliver(const struct world *world, const struct process *process, ks_shard shard)
{
    ks_shard number = numbers_of(&process->numbers, shard);
    struct ks_lease_view lease;

    return process->alive && ks_core_lease(process->core, number, &lease) &&
           lease.state == KS_LEASE_HELD &&
           ks_core_may_finish(process->core, number, lease.epoch, shell_clock(world, process));
}

/* It may finish what it has begun: the lease may be on its way to another worker. */
static bool may_send(const struct world *world, const struct process *process, ks_shard shard)
{
    ks_shard number = numbers_of(&process->numbers, shard);
    struct ks_lease_view lease;

    return process->alive && ks_core_lease(process->core, number, &lease) &&
           ks_core_may_finish(process->core, number, lease.epoch, shell_clock(world, process));
}

/* Of a row that an operator has spoilt its holder does not know: what it has, it has beside the next one. */
static bool may_deliver_by_row(const struct world *world, const struct process *process,
                               ks_shard shard)
{
    return may_send(world, process, shard) && !shell_is_orphan(world, process, shard);
}

/* Nobody may deliver the shard while its row changes hands. */
static void expect_rest(struct world *world, ks_shard shard, const char *what)
{
    for (uint32_t i = 0; i < SIM_PROCESSES; i++)
        if (may_deliver_by_row(world, &world->processes[i], shard))
            oracle_fail(world, "shard-%u was %s while w%u may deliver it", shard, what,
                        world->processes[i].worker);
}

/* An incarnation is dead in the table: it must not be able to deliver anything. */
static void expect_dead(struct world *world, struct ks_incarnation dead, const char *what)
{
    for (uint32_t i = 0; i < SIM_PROCESSES; i++) {
        const struct process *process = &world->processes[i];

        if (!process->alive || !ks_incarnation_equal(oracle_incarnation(process), dead))
            continue;
        for (ks_shard shard = 0; shard < SIM_SHARDS; shard++)
            if (may_send(world, process, shard))
                oracle_fail(world, "w%u was %s while it may deliver shard-%u", process->worker,
                            what, shard);
    }
}

/* Whatever a process may deliver is its own in the table. */
static void expect_owner(struct world *world, const struct process *process)
{
    struct ks_incarnation self = oracle_incarnation(process);

    for (ks_shard shard = 0; shard < world->stream.count; shard++) {
        const struct table_lease *row = world_table_lease(&world->table, shard);
        struct ks_lease_view lease;

        if (!may_deliver_by_row(world, process, shard))
            continue;
        shell_lease(process, shard, &lease);
        if (!row->present || !ks_incarnation_equal(row->row.owner, self) ||
            row->row.epoch != lease.epoch)
            oracle_fail(world, "w%u may deliver shard-%u in epoch %llu, but it is w%u's in %llu",
                        process->worker, shard, (unsigned long long)lease.epoch,
                        row->row.owner.worker, (unsigned long long)row->row.epoch);
    }
}

/* A promise of delivery until L - m after a request was sent. */
static void extend_deadline(struct world *world, struct process *process, uint64_t boot,
                            ks_instant sent_at, bool is_new)
{
    struct oracle_process *truth = &process->truth;
    int64_t deadline =
        sent_at.us + world->swarm.core.lease_duration.us - world->swarm.core.margin.us;

    for (uint32_t i = 0; i < SIM_BOOTS && i < truth->boot_count; i++) {
        struct oracle_boot *known = &truth->boots[i];

        if (known->boot != boot)
            continue;
        if (known->deadline < deadline)
            known->deadline = deadline;
        return;
    }
    if (is_new)
        truth->boots[truth->boot_count++ % SIM_BOOTS] = (struct oracle_boot){boot, deadline};
}

static int64_t deadline_of(const struct process *process, uint64_t boot)
{
    const struct oracle_process *truth = &process->truth;

    for (uint32_t i = 0; i < SIM_BOOTS && i < truth->boot_count; i++)
        if (truth->boots[i].boot == boot)
            return truth->boots[i].deadline;
    return INT64_MIN;
}

/* ---- The table ---- */

/* Everything in front of the first record that is open in this shard is settled up to here. */
static bool covers_settled_only(const struct world *world, ks_shard shard, uint64_t checkpoint)
{
    const struct world_shard *of = &world->stream.shards[shard];

    if (checkpoint == SIM_SHARD_END)
        return of->closed_at != SIM_NEVER && of->settled_to == of->count;
    return checkpoint <= of->settled_to;
}

/* True if it has to be read: it is in the stream, and was not closed before the application began. */
static bool is_wanted(const struct world *world, const struct world_shard *shard)
{
    return shard->exists && !shard->expired && shard->closed_at >= world->table.app_start;
}

/* The first parent that is to be read, but whose end is not durable; KS_SHARD_NONE if there is none. */
static ks_shard unfinished_parent(const struct world *world, ks_shard shard)
{
    const struct world_shard *of = &world->stream.shards[shard];

    for (uint32_t i = 0; i < KS_PARENTS_MAX; i++) {
        ks_shard parent = of->parents[i];
        const struct table_lease *row;

        if (parent == KS_SHARD_NONE)
            continue;
        row = world_table_lease(&world->table, parent);
        if (row->present ? !row->row.finished : is_wanted(world, &world->stream.shards[parent]))
            return parent;
    }
    return KS_SHARD_NONE;
}

static void check_creation(struct world *world, ks_shard shard, const struct table_lease *row)
{
    struct world_shard *of = &world->stream.shards[shard];
    ks_shard parent = unfinished_parent(world, shard);

    if (parent != KS_SHARD_NONE)
        oracle_fail(world, "shard-%u has a row before the end of its parent shard-%u", shard,
                    parent);
    if (of->ended)
        oracle_fail(world, "shard-%u was read to its end, and has a new row", shard);
    of->had_row = true;
    of->odd_at = SIM_NEVER;
    if (row->checkpoint != world_stream_index_at(world, shard, world->table.app_start))
        oracle_fail(world, "shard-%u does not begin where the application does", shard);
    if (of->closed_at < world->table.app_start)
        oracle_fail(world, "shard-%u has a row, and was closed before the application began",
                    shard);
    of->start = (uint32_t)row->checkpoint;
    of->settled_to = of->start;
    while (of->settled_to < of->count && of->settled[of->settled_to])
        of->settled_to++; /* In the time of a row that an operator has spoilt. */
}

/* A5: finished, out of the stream, and all its children have been heard of. */
static void check_deletion(struct world *world, ks_shard parent, const struct table_lease *row)
{
    /* Or finished by an operator's hand, while the stream adds to it. */
    if (world->stream.shards[parent].odd_at != SIM_NEVER)
        return;
    if (!row->row.finished ||
        (world->stream.shards[parent].exists && !world->stream.shards[parent].expired))
        oracle_fail(world, "the row of shard-%u was deleted, which is still in the stream", parent);
    for (ks_shard shard = 0; shard < world->stream.count; shard++) {
        const struct world_shard *of = &world->stream.shards[shard];

        if (of->exists && !of->expired && !of->had_row &&
            (of->parents[0] == parent || of->parents[1] == parent))
            oracle_fail(world, "the row of shard-%u was deleted before its child shard-%u had one",
                        parent, shard);
    }
}

static void check_order(struct world *world, const struct table_request *request,
                        const struct table_lease *before, const struct table_lease *after)
{
    ks_shard shard = request->ask.shard;
    /* A row that was made again and came to the very owner, epoch and rev that somebody still holds of the one before
     * cannot be told from it. */
    bool by_chance = shell_is_orphan(world, &world->processes[request->process], shard);

    if (!before->present || !after->present)
        return;
    if (after->row.epoch < before->row.epoch || after->row.rev < before->row.rev)
        oracle_fail(world, "the epoch or rev of shard-%u went back", shard);
    if (after->checkpoint < before->checkpoint && request->ask.operation != KS_STORE_SEEK &&
        !by_chance)
        oracle_fail(world, "the checkpoint of shard-%u went back from %llu to %llu", shard,
                    (unsigned long long)before->checkpoint, (unsigned long long)after->checkpoint);
}

void oracle_lease_written(struct world *world, const struct table_request *request,
                          const struct table_lease *before, const struct table_lease *after)
{
    ks_shard shard = request->ask.shard;
    enum ks_store_operation operation = request->ask.operation;

    check_order(world, request, before, after);
    if (operation == KS_STORE_SEEK)
        world_stream_seek(world, shard, after->checkpoint);
    if (operation == KS_STORE_END)
        world->progress_at = world->now;
    if (operation == KS_STORE_CREATE)
        check_creation(world, shard, after);
    if (operation == KS_STORE_DELETE)
        check_deletion(world, shard, before);
    if (operation == KS_STORE_END)
        world->stream.shards[shard].ended = true;
    if (operation == KS_STORE_PLAN && after->row.next_owner.worker != 0)
        world->planned_at = world->now;
    if (operation == KS_STORE_PLAN && after->row.next_owner.worker != 0)
        world->moves++;
    if (operation == KS_STORE_DELETE)
        return;
    if (operation == KS_STORE_TAKE_OVER && !world_table_is_dead(&world->table, before->row.owner))
        oracle_fail(world, "shard-%u was taken over from w%u, which is not dead", shard,
                    before->row.owner.worker);
    if (operation == KS_STORE_ASSIGN && unfinished_parent(world, shard) != KS_SHARD_NONE)
        oracle_fail(world, "shard-%u was assigned before the end of its parents", shard);
    if (after->row.epoch != before->row.epoch)
        expect_rest(world, shard, world_table_operation_name(operation));
    if (after->checkpoint != before->checkpoint && operation != KS_STORE_CREATE &&
        !covers_settled_only(world, shard, after->checkpoint))
        oracle_fail(world, "the checkpoint of shard-%u passed record %u, which is not settled",
                    shard, world->stream.shards[shard].settled_to);
}

void oracle_worker_written(struct world *world, const struct table_request *request,
                           const struct table_worker *before, const struct table_worker *after)
{
    struct process *sender = &world->processes[request->process];
    struct ks_incarnation former = {request->ask.worker.worker, before->boot};

    if (after->boot != before->boot || !before->present) {
        if (sender->alive && sender->life == request->life)
            extend_deadline(world, sender, after->boot, request->sent_at, true);
        if (before->present)
            expect_dead(world, former, "replaced");
    }
    if (request->ask.operation == KS_STORE_HEARTBEAT)
        oracle_rules_removed(world, request);
    if (before->present && after->boot == before->boot && after->beat < before->beat)
        oracle_fail(world, "the beat of w%u went back", former.worker);
    if (!after->present && before->present)
        expect_dead(world, former, "removed");
    if (after->present && before->present && after->boot == before->boot &&
        after->life != before->life)
        expect_dead(world, former, after->life == KS_FENCED ? "fenced" : "gone");
}

/* ---- Requests ---- */

/* Writes that name their writer. */
static bool is_own_write(enum ks_store_operation operation)
{
    return world_table_is_owner_write(operation) || operation == KS_STORE_HEARTBEAT ||
           operation == KS_STORE_SAY_GONE || operation == KS_STORE_REGISTER_NEW ||
           operation == KS_STORE_REGISTER_DEAD || operation == KS_STORE_REGISTER_SILENT ||
           operation == KS_STORE_REGISTER_CORPSE || operation == KS_STORE_CLAIM_OFFICE ||
           operation == KS_STORE_RESIGN_OFFICE;
}

void oracle_asked(struct world *world, struct process *process, struct table_request *request,
                  ks_instant now)
{
    enum ks_store_operation operation = request->ask.operation;
    const char *name = world_table_operation_name(operation);
    ks_shard shard = request->ask.shard;

    /* Owner and leader are two actors, though they may be one process. */
    if (world_table_is_lease_write(operation) &&
        process->writing[world_table_is_owner_write(operation)][shard] != 0)
        oracle_fail(world, "w%u has two writes of shard-%u in flight, the second is %s",
                    process->worker, shard, name);
    if (operation == KS_STORE_HEARTBEAT && process->beating)
        oracle_fail(world, "w%u has two heartbeats in flight", process->worker);
    if (is_own_write(operation) && request->ask.worker.worker != process->worker)
        oracle_fail(world, "w%u writes %s in the name of w%u", process->worker, name,
                    request->ask.worker.worker);
    if (operation == KS_STORE_SEEK && !process->seeking[shard])
        oracle_fail(world, "w%u seeks in shard-%u, and nobody ordered it", process->worker, shard);
    if ((operation == KS_STORE_FINAL || operation == KS_STORE_END || operation == KS_STORE_SEEK) &&
        may_send(world, process, shard))
        oracle_fail(world, "w%u sends %s of shard-%u while it may deliver it", process->worker,
                    name, shard);
    if (operation == KS_STORE_SAY_GONE)
        expect_dead(world, request->ask.worker, "about to be gone");
    oracle_rules_asked(world, process, request, now);
}

void oracle_answered(struct world *world, struct process *process,
                     const struct table_request *request, enum ks_outcome outcome)
{
    if (request->ask.operation == KS_STORE_HEARTBEAT && outcome == KS_DONE)
        extend_deadline(world, process, request->ask.worker.boot, request->sent_at, false);
    oracle_rules_answered(world, process, request, outcome);
}

/* ---- Steps ---- */

static void check_deadline(struct world *world, const struct process *process)
{
    struct ks_self_view self;

    ks_core_self(process->core, &self);
    if (self.serving && self.deadline.us > deadline_of(process, self.incarnation.boot))
        oracle_fail(world, "w%u believes in a lease deadline that nothing gave it",
                    process->worker);
}

/* From the step on an order counts. */
static void note_order(struct process *process, const struct ks_event *event,
                       const struct ks_effects *effects)
{
    bool pause = event->kind == KS_EVENT_PAUSE;
    ks_shard of = pause ? event->pause.shard : event->shard.shard;

    for (ks_shard shard = 0; shard < SIM_SHARDS; shard++)
        if ((pause || event->kind == KS_EVENT_RESUME) && (of == KS_SHARD_NONE || of == shard))
            process->paused[shard] = pause ? event->pause.until : KS_LONG_AGO;
    for (uint32_t i = 0; event->kind == KS_EVENT_SEEK && i < effects->count; i++)
        if (effects->items[i].kind == KS_EFFECT_OPERATED && !event->seek.dry_run &&
            effects->items[i].operated.status == KS_OPERATOR_OK)
            process->seeking[event->seek.shard] = true;
}

void oracle_stepped(struct world *world, struct process *process, const struct ks_event *event,
                    const struct ks_effects *effects, ks_instant now)
{
    struct oracle_process *truth = &process->truth;

    truth->event = event;
    truth->answers = 0;
    truth->runs = 0;
    truth->records = 0;
    truth->bytes = 0;
    if (effects->count > KS_EFFECTS_MAX)
        oracle_fail(world, "w%u: %u effects of one step", process->worker, effects->count);
    note_order(process, event, effects);
    if (event->kind == KS_EVENT_PERSIST)
        oracle_rules_persist(world, process, event->persist.shard);
    if (event->kind == KS_EVENT_STORE) {
        expect_owner(world, process);
        check_deadline(world, process);
        oracle_rules_stepped(world, process);
    }
    oracle_flight_stepped(world, process, event, effects, now);
}

void oracle_performed(struct world *world, struct process *process)
{
    enum ks_event_kind kind = process->truth.event->kind;
    bool asks = kind == KS_EVENT_SESSION_OPEN || kind == KS_EVENT_SETTLE ||
                kind == KS_EVENT_CHECKPOINT || kind == KS_EVENT_RELEASE || kind == KS_EVENT_SEEK ||
                kind == KS_EVENT_SKIP;

    if (process->truth.answers != (asks ? 1 : 0))
        oracle_fail(world, "w%u: an event of kind %d has %u answers", process->worker, (int)kind,
                    process->truth.answers);
    process->truth.event = NULL;
}

/* ---- Readers (I7) ---- */

void oracle_open(struct world *world, struct process *process, ks_shard shard, ks_epoch epoch)
{
    const struct table_lease *row = world_table_lease(&world->table, shard);
    const struct reader *reader = &process->readers[shard];
    const struct seen_row *seen = &process->seen[shard];
    struct oracle_process *truth = &process->truth;
    struct oracle_lane *lane = &truth->lanes[shard];

    lane->delivered = 0;
    lane->taken = 0;
    lane->half_way = 0;
    lane->stopped = 0;
    lane->bury_serial = 0;
    if (world->exam_at != 0 && world->exam != EXAM_KILL && row->row.epoch == epoch &&
        world->longest_gap < world->now - row->at)
        world->longest_gap = world->now - row->at;
    truth->rules.shards[shard].returning_at = INT64_MAX;
    lane->earliest_due = INT64_MAX;
    truth->rules.shards[shard].unsure = false;
    truth->rules.shards[shard].read_back = false;
    truth->rules.shards[shard].paced_from = INT64_MIN;
    truth->rules.shards[shard].hurried = false;
    truth->rules.shards[shard].persist_by = 0;
    if (reader->open)
        oracle_fail(world, "w%u opens shard-%u again", process->worker, shard);
    /* What is begun again with a row that was made again is given back at once: nothing is delivered (see there). */
    if (reader->epoch >= epoch && world->stream.shards[shard].made == 0)
        oracle_fail(world, "w%u begins epoch %llu of shard-%u a second time", process->worker,
                    (unsigned long long)epoch, shard);
    if (!seen->present || seen->checkpoint == SIM_SHARD_END)
        oracle_fail(world, "w%u opens shard-%u without a place to begin", process->worker, shard);
    if (ks_incarnation_equal(row->row.owner, oracle_incarnation(process)) &&
        row->row.epoch == epoch && seen->checkpoint != row->checkpoint)
        oracle_fail(world, "w%u opens shard-%u at %llu, but its checkpoint is %llu",
                    process->worker, shard, (unsigned long long)seen->checkpoint,
                    (unsigned long long)row->checkpoint);
}

void oracle_read(struct world *world, struct process *process, const struct ks_effect *effect)
{
    struct oracle_process *truth = &process->truth;
    const struct reader *reader = &process->readers[effect->lease.shard];
    const struct ks_core_config *config = &world->swarm.core;
    uint64_t others = truth->held_bytes + truth->asked_bytes;
    uint64_t shares = 0;

    if (ks_instant_before(shell_clock(world, process), process->paused[effect->lease.shard]))
        oracle_fail(world, "w%u reads shard-%u, which is paused", process->worker,
                    effect->lease.shard);
    if (!reader->open || reader->epoch != effect->lease.epoch)
        oracle_fail(world, "w%u reads shard-%u without a reader", process->worker,
                    effect->lease.shard);
    if (reader->reading)
        oracle_fail(world, "w%u reads shard-%u twice at once", process->worker,
                    effect->lease.shard);
    if (effect->lease.max_records == 0 || effect->lease.max_bytes == 0)
        oracle_fail(world, "w%u reads nothing from shard-%u", process->worker, effect->lease.shard);
    if (reader->fetched - reader->forgot + effect->lease.max_records > config->window_max)
        oracle_fail(world, "w%u reads beyond the window of shard-%u", process->worker,
                    effect->lease.shard);
    /* Each lease has a small share of its own, so that no other can starve it; one that comes later has it, too. */
    for (ks_shard shard = 0; shard < SIM_SHARDS; shard++)
        shares += process->readers[shard].open ? config->read_bytes / 8 : 0;
    if (others + effect->lease.max_bytes > config->budget_bytes + truth->beyond + shares)
        oracle_fail(world, "w%u reads beyond its byte budget: %llu held or asked, %u more",
                    process->worker, (unsigned long long)others, effect->lease.max_bytes);
    truth->asked_bytes += effect->lease.max_bytes;
}

void oracle_records(struct world *world, struct process *process, ks_shard shard,
                    const uint32_t *sizes, const bool *filtered, uint32_t count)
{
    const struct reader *reader = &process->readers[shard];
    struct oracle_process *truth = &process->truth;
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < count; i++) {
        truth->lanes[shard].records[(reader->fetched + i) % SIM_WINDOW] =
            (struct oracle_record){.state = RECORD_NEW, .last = SIM_SESSIONS};
        /* What the subscription does not want is settled, and never delivered. */
        if (filtered != NULL && filtered[i]) {
            truth->lanes[shard].records[(reader->fetched + i) % SIM_WINDOW].state = RECORD_SETTLED;
            world_stream_settle(world, shard, reader->base + reader->fetched + i);
        }
        bytes += sizes[i];
    }
    if (bytes > reader->max_bytes)
        truth->beyond += bytes - reader->max_bytes;
    truth->held_bytes += bytes;
    assert(reader->fetched + count - reader->forgot <= world->swarm.core.window_max);
}

/* Drops the records `from` .. `to` - 1 of the reader. */
static void drop(const struct world *world, struct process *process, ks_shard shard, uint64_t from,
                 uint64_t to)
{
    const struct reader *reader = &process->readers[shard];
    struct oracle_process *truth = &process->truth;

    for (uint64_t number = from; number < to; number++)
        truth->held_bytes -= world->stream.shards[shard].sizes[reader->base + number];
    if (truth->held_bytes == 0)
        truth->beyond = 0;
}

void oracle_close(const struct world *world, struct process *process, ks_shard shard)
{
    const struct reader *reader = &process->readers[shard];

    if (!reader->open)
        return;
    if (reader->reading)
        process->truth.asked_bytes -= reader->max_bytes;
    oracle_flight_closed(world, process, shard);
    drop(world, process, shard, reader->forgot, reader->fetched);
}

/* I3 again, before anything is written: what is forgotten in this epoch was settled in this epoch. */
void oracle_forget(struct world *world, struct process *process, const struct ks_effect *effect)
{
    const struct reader *reader = &process->readers[effect->lease.shard];
    const struct oracle_lane *lane = &process->truth.lanes[effect->lease.shard];
    ks_number number = effect->lease.number;

    if (!reader->open || reader->epoch != effect->lease.epoch || number < reader->forgot ||
        number > reader->fetched) {
        oracle_fail(world, "w%u forgets what it does not have of shard-%u", process->worker,
                    effect->lease.shard);
        return;
    }
    for (uint64_t i = reader->forgot; i < number; i++)
        if (lane->records[i % SIM_WINDOW].state != RECORD_SETTLED)
            oracle_fail(world, "w%u forgets record %llu of shard-%u, which is not settled",
                        process->worker, (unsigned long long)i, effect->lease.shard);
    drop(world, process, effect->lease.shard, reader->forgot, number);
}

void oracle_persisted(struct world *world, struct process *process, const struct ks_effect *effect)
{
    const struct reader *reader = &process->readers[effect->lease.shard];
    const struct table_lease *row = world_table_lease(&world->table, effect->lease.shard);

    /* Beyond the epoch that follows somebody else had it, and an operator may have moved it back since. */
    if (reader->epoch != effect->lease.epoch ||
        (row->checkpoint < reader->base + effect->lease.number &&
         row->row.epoch <= effect->lease.epoch + 1 &&
         !shell_is_orphan(world, process, effect->lease.shard)))
        oracle_fail(world, "w%u says that %llu of shard-%u is persisted, and it is not",
                    process->worker, (unsigned long long)effect->lease.number, effect->lease.shard);
}

/* What is said to be done is so in the table, or was. */
void oracle_sought(struct world *world, struct process *process, const struct ks_effect *effect)
{
    const struct table_lease *row = world_table_lease(&world->table, effect->sought.shard);

    if (!process->seeking[effect->sought.shard])
        oracle_fail(world, "w%u ends a seek of shard-%u that nobody ordered", process->worker,
                    effect->sought.shard);
    if (effect->sought.done && row->row.epoch <= effect->sought.epoch &&
        !shell_is_orphan(world, process, effect->sought.shard))
        oracle_fail(world, "w%u says that its seek of shard-%u is done, and it is not",
                    process->worker, effect->sought.shard);
    process->seeking[effect->sought.shard] = false;
}

/* Nothing is held, or the fleet may take it at once. */
void oracle_drained(struct world *world, struct process *process)
{
    struct ks_incarnation self = oracle_incarnation(process);

    if (world_redrive_is_busy(process) &&
        ks_instant_before(shell_clock(world, process), process->patience_at))
        oracle_fail(world, "w%u is drained, and has letters in flight", process->worker);
    /* With a store that does not answer it ends all the same; then the fleet watches and takes. */
    if (world_table_is_dead(&world->table, self) ||
        ks_instant_reached(shell_clock(world, process), process->patience_at))
        return;
    for (ks_shard shard = 0; shard < SIM_SHARDS; shard++) {
        const struct table_lease *row = world_table_lease(&world->table, shard);

        if (row->present && ks_incarnation_equal(row->row.owner, self))
            oracle_fail(world, "w%u is drained, but the table says it owns shard-%u",
                        process->worker, shard);
    }
}

void oracle_story(struct world *world, struct process *process, const struct ks_effect *effect)
{
    if (effect->story.story == KS_STORY_RETURNING)
        process->truth.rules.shards[effect->story.shard].returning_at =
            shell_clock(world, process).us;
    if (effect->story.story == KS_STORY_FENCES &&
        !world_table_is_dead(&world->table, effect->story.worker))
        oracle_fail(world, "w%u says that it fenced w%u, which is alive", process->worker,
                    effect->story.worker.worker);
    if (effect->story.story == KS_STORY_OFFICE_WON &&
        process->truth.rules.led_boot != oracle_incarnation(process).boot)
        oracle_fail(world, "w%u says that it leads, and never held the office", process->worker);
    if (effect->story.story == KS_STORY_STOPPED || effect->story.story == KS_STORY_DROPPED ||
        effect->story.story == KS_STORY_SKIPPED)
        oracle_flight_story(world, process, effect);
    if (effect->story.story == KS_STORY_HOLE && world->quiet_until != 0)
        oracle_fail(world, "w%u says that leases are missing, and everything is held",
                    process->worker);
}

/* ---- Deliveries: whose, and when (I2, I6) ---- */

void oracle_deliver(struct world *world, struct process *process, const struct ks_effect *effect,
                    ks_instant now)
{
    ks_shard shard = effect->deliver.shard;
    const struct table_lease *row = world_table_lease(&world->table, shard);
    struct ks_incarnation self = oracle_incarnation(process);
    ks_shard parent = unfinished_parent(world, shard);
    bool orphan = shell_is_orphan(world, process, shard);

    if (!orphan &&
        (!ks_incarnation_equal(row->row.owner, self) || row->row.epoch != effect->deliver.epoch))
        oracle_fail(world, "w%u delivers shard-%u in epoch %llu, but it is w%u's in %llu",
                    process->worker, shard, (unsigned long long)effect->deliver.epoch,
                    row->row.owner.worker, (unsigned long long)row->row.epoch);
    if (now.us >= deadline_of(process, self.boot))
        oracle_fail(world, "w%u delivers shard-%u past its lease deadline", process->worker, shard);
    if (!oracle_may_deliver(world, process, shard))
        oracle_fail(world, "w%u delivers shard-%u, and says that it may not", process->worker,
                    shard);
    if (effect->deliver.epoch <= process->readers[shard].before)
        oracle_fail(world, "w%u delivers shard-%u in epoch %llu a second time", process->worker,
                    shard, (unsigned long long)effect->deliver.epoch);
    for (uint32_t i = 0; i < SIM_PROCESSES && !orphan; i++)
        if (i != process->slot && may_deliver_by_row(world, &world->processes[i], shard))
            oracle_fail(world, "two processes may deliver shard-%u: w%u and w%u", shard,
                        process->worker, world->processes[i].worker);
    if (ks_instant_before(now, process->paused[shard]))
        oracle_fail(world, "w%u delivers shard-%u, which is paused", process->worker, shard);
    if (parent != KS_SHARD_NONE)
        oracle_fail(world, "w%u delivers shard-%u before the end of its parent shard-%u",
                    process->worker, shard, parent);
    if (process->truth.rules.given_boot == self.boot &&
        effect->deliver.epoch <= process->truth.rules.shards[shard].given)
        oracle_fail(world, "w%u delivers shard-%u, which it was told to give", process->worker,
                    shard);
    oracle_flight_delivered(world, process, effect, now);
}

/* ---- The end (I8) ---- */

/* Somebody alive may deliver it. */
static const struct process *holder_of(const struct world *world, ks_shard shard)
{
    const struct table_lease *row = world_table_lease(&world->table, shard);

    for (uint32_t i = 0; row->present && i < SIM_PROCESSES; i++) {
        const struct process *process = &world->processes[i];

        if (process->alive && ks_incarnation_equal(row->row.owner, oracle_incarnation(process)) &&
            oracle_may_deliver(world, process, shard))
            return process;
    }
    return NULL;
}

bool oracle_is_served(const struct world *world, char *why, size_t size)
{
    for (ks_shard shard = 0; shard < world->stream.count; shard++) {
        const struct world_shard *of = &world->stream.shards[shard];

        if (!of->exists || of->expired || of->closed_at != SIM_NEVER ||
            holder_of(world, shard) != NULL)
            continue;
        snprintf(why, size, "shard-%u is not held (owner w%u)", shard,
                 world_table_lease(&world->table, shard)->row.owner.worker);
        return false;
    }
    return true;
}

static bool is_shard_done(const struct world *world, ks_shard shard, char *why, size_t size)
{
    const struct world_shard *of = &world->stream.shards[shard];
    const struct table_lease *row = world_table_lease(&world->table, shard);
    const char *lacks = NULL;
    const struct process *holder = holder_of(world, shard);

    if (!row->present)
        lacks = "has no lease row";
    else if (of->settled_to < of->count)
        lacks = "has records that are not settled";
    else if (of->closed_at != SIM_NEVER && !row->row.finished)
        lacks = "is not read to its end";
    else if (of->closed_at == SIM_NEVER && holder == NULL)
        lacks = "is not held";
    /* Whoever began with the row before this one has nothing to write until there is more to settle. */
    else if (of->closed_at == SIM_NEVER && row->checkpoint != of->count &&
             !shell_is_orphan(world, holder, shard))
        lacks = "has a checkpoint before its last record";
    if (lacks != NULL)
        snprintf(why, size, "shard-%u %s (owner w%u, epoch %llu, %u of %u settled)", shard, lacks,
                 row->row.owner.worker, (unsigned long long)row->row.epoch, of->settled_to,
                 of->count);
    return lacks == NULL;
}

bool oracle_is_done(const struct world *world, char *why, size_t size)
{
    for (ks_shard shard = 0; shard < world->stream.count; shard++) {
        const struct world_shard *of = &world->stream.shards[shard];

        if (is_wanted(world, of) && !is_shard_done(world, shard, why, size))
            return false;
    }
    for (uint32_t i = 0; i < SIM_PROCESSES; i++) {
        const struct process *process = &world->processes[i];

        if (!process->alive || world_redrive_is_done(process))
            continue;
        snprintf(why, size, "w%u has letters that are not settled", process->worker);
        return false;
    }
    return true;
}

uint32_t oracle_leases_of(const struct world *world, const struct process *process)
{
    struct ks_incarnation self = oracle_incarnation(process);
    uint32_t count = 0;

    for (ks_shard shard = 0; shard < world->stream.count; shard++) {
        const struct table_lease *row = world_table_lease(&world->table, shard);

        count += row->present && !row->row.finished && ks_incarnation_equal(row->row.owner, self);
    }
    return count;
}

/* Who takes part: alive, not leaving, with an app. */
static bool wants_leases(const struct process *process)
{
    struct ks_self_view self;

    if (!process->alive || process->draining)
        return false;
    ks_core_self(process->core, &self);
    return self.sessions > 0;
}

bool oracle_is_balanced(const struct world *world, char *why, size_t size)
{
    uint32_t counts[SIM_PROCESSES];

    for (uint32_t i = 0; i < SIM_PROCESSES; i++)
        counts[i] = world->processes[i].alive ? oracle_leases_of(world, &world->processes[i]) : 0;
    for (uint32_t i = 0; i < SIM_PROCESSES; i++) {
        const struct process *rich = &world->processes[i];

        if (!wants_leases(rich))
            continue;
        if (rich->capacity != 0 && counts[i] > rich->capacity) {
            snprintf(why, size, "w%u has %u leases and takes %u", rich->worker, counts[i],
                     rich->capacity);
            return false;
        }
        for (uint32_t j = 0; j < SIM_PROCESSES; j++) {
            const struct process *poor = &world->processes[j];

            if (!wants_leases(poor) || counts[i] <= counts[j] + 1 ||
                (poor->capacity != 0 && counts[j] >= poor->capacity))
                continue;
            snprintf(why, size, "w%u has %u leases and w%u has %u", rich->worker, counts[i],
                     poor->worker, counts[j]);
            return false;
        }
    }
    return true;
}
