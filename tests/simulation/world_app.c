/* SPDX-License-Identifier: Apache-2.0 */
#include "world_app.h"

#include <assert.h>

#include "story.h"
#include "world.h"
#include "world_filter.h"

/* What API.md names as ends of a session's life, drawn short. */
enum { PIPE_US = 300 };

static void plan_job(struct world *world, const struct happening *job, sim_time in)
{
    agenda_add(&world->agenda, world->now + in, job);
}

void world_app_plan(struct world *world, struct process *process, uint32_t consumer, sim_time in)
{
    struct happening act = {.kind = HAPPENS_CONSUMER,
                            .process = process->slot,
                            .life = process->life,
                            .consumer = consumer,
                            .serial = ++process->consumers[consumer].serial};

    agenda_add(&world->agenda, world->now + in, &act);
}

static void new_consumer(struct world *world, struct process *process)
{
    uint32_t number = process->consumer_count++;

    process->consumers[number] = (struct consumer){
        .pulls = draw_chance(&world->prng, world->swarm.pollers),
        .serial = process->consumers[number].serial,
        .socket = (uint32_t)draw_log(&world->prng, 1, 300),
    };
    world_app_plan(world, process, number, draw_log(&world->prng, SIM_MS, 8 * SIM_SECOND));
}

void world_app_begin(struct world *world, struct process *process)
{
    uint32_t count = (uint32_t)ks_prng_between(&world->prng, 1, SIM_CONSUMERS);

    process->consumer_count = 0;
    process->away_until = 0;
    if (draw_chance(&world->prng, world->swarm.idle_apps))
        count = 0;
    while (process->consumer_count < count)
        new_consumer(world, process);
}

void world_app_make_peace(struct world *world, struct process *process)
{
    process->away_until = 0;
    if (process->consumer_count == 0)
        new_consumer(world, process);
    for (uint32_t i = 0; i < process->consumer_count; i++)
        world_app_plan(world, process, i, 10 * SIM_MS + i);
}

/* ---- Sessions ---- */

static void choose_order(struct world *world, struct ks_event *event)
{
    struct swarm *swarm = &world->swarm;

    event->open.ordering = swarm->ordering;
    event->open.lanes = swarm->lanes;
    if (!draw_chance(&world->prng, swarm->other_order))
        return;
    event->open.ordering = (enum ks_ordering)ks_prng_below(&world->prng, KS_ORDER_ANY + 1);
    event->open.lanes = (uint32_t)ks_prng_between(&world->prng, 1, SIM_LANES);
}

/* The first consumer of a process has no share: somebody takes the rest. Those of one process that have one agree, but
 * for a few. */
static void choose_share(struct world *world, uint32_t number, struct consumer *consumer,
                         struct ks_event *event)
{
    uint32_t shares = world->swarm.shares;

    if (shares == 0 || number == 0 || event->open.ordering != KS_ORDER_BY_KEY ||
        event->open.lanes < 2 || !draw_chance(&world->prng, shares))
        return;
    /* In peace one with another order would keep the rest out: it does not stay. */
    consumer->choosy |=
        event->open.ordering != world->swarm.ordering || event->open.lanes != world->swarm.lanes;
    event->open.salt = shares + draw_chance(&world->prng, 100);
    event->open.share = KS_SHARE_ALL / event->open.lanes * (1 + shares % (event->open.lanes - 1));
}

static void open_session(struct world *world, struct process *process, uint32_t number)
{
    struct consumer *consumer = &process->consumers[number];
    struct ks_prng *prng = &world->prng;
    struct ks_event event = {.kind = KS_EVENT_SESSION_OPEN};
    struct consumer before = *consumer;
    struct sim_wire old;
    ks_shard shards[4];

    consumer->choosy = draw_chance(prng, world->swarm.choosy);
    event.open.take_over =
        consumer->open || consumer->left_behind ? consumer->session : KS_SESSION_NONE;
    event.open.pulls = consumer->pulls;
    event.open.max_in_flight = (uint32_t)draw_log(prng, 1, 300);
    event.open.max_in_flight_bytes = (uint64_t)draw_log(prng, 1000, 1000000);
    event.open.ack_deadline = ks_span_us(draw_log(prng, 500 * SIM_MS, 20 * SIM_SECOND));
    event.open.grace = ks_span_us(draw_log(prng, SIM_MS, 6 * SIM_SECOND));
    event.open.linger = ks_span_us(draw_log(prng, 500 * SIM_MS, 30 * SIM_SECOND));
    if (consumer->choosy) {
        event.open.shard_count = (uint32_t)ks_prng_between(prng, 1, 4);
        event.open.shards = shards;
        for (uint32_t i = 0; i < event.open.shard_count; i++)
            shards[i] = (ks_shard)ks_prng_below(prng, SIM_SHARDS);
    }
    choose_order(world, &event);
    choose_share(world, number, consumer, &event);
    event.open.filter = world_filter_choose(world, process);
    /* The old connection has ended before, or hears of it by the answer. */
    if (consumer->open && draw_chance(prng, 500))
        world_wire_end(world, process, number);
    if (!consumer->open && event.open.take_over != KS_SESSION_NONE && !consumer->left_behind)
        return;
    event.open.explicit_credit = draw_chance(prng, world->swarm.explicit_credit);
    if (draw_chance(prng, world->swarm.small_messages)) {
        event.open.max_record_bytes = (uint32_t)draw_log(prng, 100, 2000);
        consumer->choosy = true; /* It does not stay in peace. */
    }
    consumer->explicit_credit = event.open.explicit_credit;
    consumer->granted = 0;
    consumer->refused = false;
    process->opening = number;
    old = consumer->wire;
    shell_step(world, process, &event);
    if (consumer->wire.serial != old.serial)
        world_wire_return(world, process, &old);
    if (consumer->refused) {
        consumer->choosy = before.choosy;
        consumer->explicit_credit = before.explicit_credit;
        consumer->granted = before.granted;
    }
    process->opening = SIM_CONSUMERS;
}

void world_app_opened(struct world *world, struct process *process, uint32_t session,
                      uint32_t session_epoch)
{
    struct consumer *consumer;

    assert(process->opening < SIM_CONSUMERS);
    consumer = &process->consumers[process->opening];
    consumer->open = true;
    consumer->left_behind = false;
    consumer->session = session;
    consumer->session_epoch = session_epoch;
    consumer->unprocessed = 0;
    consumer->wire = (struct sim_wire){
        .session = session, .session_epoch = session_epoch, .serial = consumer->wire.serial + 1};
    world_app_plan(world, process, process->opening, PIPE_US);
}

void world_app_not_opened(struct world *world, struct process *process, enum ks_not_opened why)
{
    struct consumer *consumer;

    assert(process->opening < SIM_CONSUMERS);
    consumer = &process->consumers[process->opening];
    consumer->refused =
        why == KS_NOT_OPENED_ORDERING || why == KS_NOT_OPENED_SHARE || why == KS_NOT_OPENED_FILTER;
    consumer->open = consumer->open && consumer->refused;
    consumer->left_behind = consumer->left_behind && consumer->refused;
    world_app_plan(world, process, process->opening,
                   draw_log(&world->prng, 100 * SIM_MS, 3 * SIM_SECOND));
}

void world_app_ended(struct world *world, struct process *process, uint32_t session,
                     enum ks_session_end why)
{
    for (uint32_t i = 0; i < process->consumer_count; i++) {
        struct consumer *consumer = &process->consumers[i];

        if (consumer->session != session)
            continue;
        if (i == process->opening && why == KS_END_TAKEN_OVER)
            continue; /* By itself, and goes on. */
        consumer->left_behind = false;
        if (!consumer->open)
            continue;
        consumer->open = false;
        consumer->wire.over = true;
        world_app_plan(world, process, i, draw_log(&world->prng, SIM_MS, SIM_SECOND));
    }
}

void world_app_wake(struct world *world, struct process *process, uint32_t session)
{
    for (uint32_t i = 0; i < process->consumer_count; i++)
        if (process->consumers[i].open && process->consumers[i].session == session)
            world_app_plan(world, process, i, PIPE_US);
}

/* Goes away, with or without saying so. */
static void go(struct world *world, struct process *process, uint32_t number, bool vanishes)
{
    struct consumer *consumer = &process->consumers[number];
    struct ks_event event = {.kind = vanishes ? KS_EVENT_SESSION_DETACH : KS_EVENT_SESSION_CLOSE};
    bool cut = consumer->wire.cut;

    event.session.session = consumer->session;
    event.session.cut = cut;
    world_wire_end(world, process, number);
    if (!consumer->open)
        return;
    consumer->open = false;
    consumer->left_behind = vanishes;
    consumer->choosy = false;
    shell_step(world, process, &event);
}

/* True if it went away for a while. */
static bool leave(struct world *world, struct process *process, uint32_t number)
{
    struct consumer *consumer = &process->consumers[number];
    struct swarm *swarm = &world->swarm;
    bool vanishes = !consumer->pulls && draw_chance(&world->prng, swarm->vanishes);
    bool closes = draw_chance(&world->prng, swarm->closes) || (world->peace && consumer->choosy);

    if (!vanishes && !closes)
        return false;
    go(world, process, number, vanishes);
    world_app_plan(
        world, process, number,
        draw_log(&world->prng, 10 * SIM_MS, world->peace ? SIM_SECOND : 10 * SIM_SECOND));
    return true;
}

/* The whole app is away: closed, gone without a word, or just silent. */
static void rest(struct world *world, struct process *process, uint32_t number)
{
    struct consumer *consumer = &process->consumers[number];
    bool says_so = world->peace || draw_chance(&world->prng, 500);

    if (consumer->open && (says_so || !consumer->pulls))
        go(world, process, number, !says_so);
    if (process->away_until != SIM_NEVER)
        world_app_plan(world, process, number,
                       process->away_until - world->now + draw_log(&world->prng, 1, SIM_SECOND));
}

void world_app_holiday(struct world *world, struct process *process, sim_time until)
{
    process->away_until = until;
    for (uint32_t i = 0; i < process->consumer_count; i++)
        world_app_plan(world, process, i, 1 + i);
}

static void grant(struct world *world, struct process *process, struct consumer *consumer)
{
    struct ks_event event = {.kind = KS_EVENT_GRANT};

    event.grant.session = consumer->session;
    event.grant.records = (uint32_t)draw_log(&world->prng, 1, 60);
    consumer->granted += event.grant.records;
    shell_step(world, process, &event);
}

/* Changes some of the session's limits. */
static void update(struct world *world, struct process *process, struct consumer *consumer)
{
    struct ks_prng *prng = &world->prng;
    struct ks_event event = {.kind = KS_EVENT_SESSION_UPDATE};

    event.update.session = consumer->session;
    if (draw_chance(prng, 500))
        event.update.max_in_flight = (uint32_t)draw_log(prng, 1, 300);
    if (draw_chance(prng, 500))
        event.update.max_in_flight_bytes = (uint64_t)draw_log(prng, 1000, 1000000);
    if (draw_chance(prng, world->swarm.small_messages)) {
        event.update.max_record_bytes = (uint32_t)draw_log(prng, 100, 20000);
        consumer->choosy = true; /* It does not stay in peace. */
    }
    shell_step(world, process, &event);
}

/* When the connection takes more: soon, or after its reader has stopped for a while. */
static void plan_wire(struct world *world, struct process *process, uint32_t number)
{
    sim_time in = PIPE_US;

    if (draw_chance(&world->prng, world->swarm.slow_readers))
        in = draw_log(&world->prng, SIM_MS, 20 * SIM_SECOND);
    if (process->consumers[number].open)
        world_app_plan(world, process, number, in);
}

/* True if the connection had something to do, or ended. */
static bool serve_wire(struct world *world, struct process *process, uint32_t number)
{
    struct consumer *consumer = &process->consumers[number];
    struct sim_wire *wire = &consumer->wire;
    bool breaks = draw_chance(&world->prng, world->swarm.breaks);

    if (wire->unsent_count == 0 && !world_wire_is_pending(wire))
        return false;
    if (!breaks)
        world_wire_send(world, process, number);
    if (!breaks && !wire->cut && consumer->open)
        world_wire_fill(world, process, number);
    if (!consumer->open)
        return true;
    if (!breaks && !wire->cut) {
        plan_wire(world, process, number);
        return true;
    }
    if (consumer->pulls)
        world_wire_end(world, process, number);
    else
        go(world, process, number, true);
    world_app_plan(world, process, number, draw_log(&world->prng, PIPE_US, SIM_SECOND));
    return true;
}

static void pull(struct world *world, struct process *process, uint32_t number)
{
    struct consumer *consumer = &process->consumers[number];
    struct ks_event event = {.kind = KS_EVENT_SESSION_PULL};

    if (world->swarm.updates > 0 && draw_chance(&world->prng, world->swarm.updates))
        update(world, process, consumer);
    if (!consumer->open)
        return;

    if (consumer->explicit_credit && consumer->granted == 0)
        grant(world, process, consumer);
    event.pull.session = consumer->session;
    event.pull.max_records = (uint32_t)draw_log(&world->prng, 1, 200);
    event.pull.max_bytes = (uint64_t)draw_log(&world->prng, 1, 200000);
    event.pull.max_runs = (uint32_t)ks_prng_between(&world->prng, 1, KS_BATCH_RUNS_MAX);
    /* Worlds of other seeds are as they were before there was such a pull. */
    if (consumer->pulls && world->seed % 8 == 4 && event.pull.max_records % 2 == 1)
        event.pull.after = event.pull.max_records % 8 == 3 ? consumer->earlier : consumer->pulled;
    consumer->runs = 0;
    shell_step(world, process, &event);
    if (!consumer->open)
        return;
    if (consumer->runs > 0) {
        world_wire_fill(world, process, number);
        plan_wire(world, process, number);
    } else if (consumer->pulls)
        world_app_plan(world, process, number,
                       draw_log(&world->prng, 100 * SIM_MS, 3 * SIM_SECOND));
    /* A stream sleeps until it is woken. */
}

void world_app_act(struct world *world, struct process *process, const struct happening *happening)
{
    struct consumer *consumer = &process->consumers[happening->consumer];

    if (consumer->serial != happening->serial)
        return;
    if (consumer->wire.over)
        world_wire_end(world, process, happening->consumer);
    if (world->now < process->away_until) {
        rest(world, process, happening->consumer);
        return;
    }
    if (draw_chance(&world->prng, world->peace ? 100 : 10))
        world_app_go_on(world, process);
    if (!consumer->open || draw_chance(&world->prng, world->swarm.take_overs)) {
        open_session(world, process, happening->consumer);
        return;
    }
    if (leave(world, process, happening->consumer))
        return;
    if (consumer->unprocessed >= consumer->socket)
        return; /* It is planned when the app lets some go. */
    if (!serve_wire(world, process, happening->consumer))
        pull(world, process, happening->consumer);
}

void world_app_go_on(struct world *world, struct process *process)
{
    struct ks_event event = {.kind = KS_EVENT_RESUME};

    event.shard.shard = KS_SHARD_NONE;
    shell_step(world, process, &event);
}

/* ---- Records ---- */

static sim_time draw_work(struct world *world)
{
    sim_time typical = world->swarm.work;
    sim_time work = ks_prng_between(&world->prng, typical / 4, typical);

    return draw_chance(&world->prng, 20) ? work * 8 : work;
}

void world_app_deliver(struct world *world, struct process *process, uint32_t session,
                       const struct ks_effect *effect)
{
    for (uint32_t i = 0; i < process->consumer_count; i++) {
        struct consumer *consumer = &process->consumers[i];

        if (!consumer->open || consumer->session != session)
            continue;
        if (consumer->pulled != effect->deliver.assignment)
            consumer->earlier = consumer->pulled;
        consumer->pulled = effect->deliver.assignment;
        if (consumer->runs++ == 0)
            consumer->wire.run_count = consumer->wire.run_next = 0;
        /* More than it remembers: credit of records that were not written returns. */
        if (consumer->explicit_credit)
            consumer->granted -= effect->deliver.count < consumer->granted ? effect->deliver.count
                                                                           : consumer->granted;
        world_wire_add(&consumer->wire, effect);
        return;
    }
    oracle_fail(world, "w%u delivers to session %u, which nobody has", process->worker, session);
}

void world_app_read(struct world *world, struct process *process, const struct happening *job)
{
    struct happening planned = *job;

    planned.process = process->slot;
    planned.life = process->life;
    process->consumers[job->consumer].unprocessed += job->count;
    plan_job(world, &planned, PIPE_US + draw_work(world));
}

void world_app_guess(struct world *world, struct process *process, uint32_t consumer,
                     const struct sim_wire *wire)
{
    const struct sim_run *run;
    struct happening job;

    if ((wire->left == 0 && wire->unsent_count == 0) ||
        !draw_chance(&world->prng, world->swarm.half_acks))
        return;
    run = wire->left > 0 ? &wire->runs[wire->run_next] : &wire->unsent[wire->unsent_count - 1];
    job = (struct happening){.kind = HAPPENS_JOB,
                             .process = process->slot,
                             .life = process->life,
                             .consumer = consumer,
                             .session = wire->session,
                             .session_epoch = wire->session_epoch,
                             .shard = run->shard,
                             .epoch = run->epoch,
                             .first = wire->left > 0 ? run->first : run->first + run->count - 1,
                             .count = 1,
                             .assignment = run->assignment};
    plan_job(world, &job, draw_log(&world->prng, 1, 3 * SIM_SECOND));
}

/* These records are out of the consumer's hands; it may take more. */
static void let_go(struct world *world, struct process *process, const struct happening *job)
{
    struct consumer *consumer = &process->consumers[job->consumer];

    if (!consumer->open || consumer->session != job->session ||
        consumer->session_epoch != job->session_epoch)
        return;
    assert(consumer->unprocessed >= job->count);
    if (consumer->open && consumer->unprocessed >= consumer->socket &&
        consumer->unprocessed - job->count < consumer->socket)
        world_app_plan(world, process, job->consumer, PIPE_US);
    consumer->unprocessed -= job->count;
}

/* Records that are named alone, by their ack_ids, or together, by a batch_id. */
static void settle_by(struct world *world, struct process *process, const struct happening *job,
                      bool alone, enum ks_settle_outcome outcome, sim_time delay)
{
    struct ks_event event = {.kind = KS_EVENT_SETTLE};

    event.settle.session = job->session;
    event.settle.session_epoch = job->session_epoch;
    event.settle.shard = job->shard;
    event.settle.epoch = job->epoch;
    event.settle.first = job->first;
    event.settle.count = job->count;
    event.settle.assignment = job->assignment;
    event.settle.alone = alone;
    event.settle.outcome = outcome;
    event.settle.delay = ks_span_us(delay);
    shell_step(world, process, &event);
}

static void settle(struct world *world, struct process *process, const struct happening *job,
                   enum ks_settle_outcome outcome, sim_time delay)
{
    bool alone = !draw_chance(&world->prng, world->swarm.batch_acks);

    settle_by(world, process, job, alone, outcome, delay);
}

void world_app_settle_as(struct world *world, struct process *process, const struct happening *job,
                         enum ks_settle_outcome outcome, sim_time delay)
{
    settle(world, process, job, outcome, delay);
}

/* A settlement that means nothing: of another epoch, of what never was, of a session that never was. */
static void settle_nonsense(struct world *world, struct process *process,
                            const struct happening *job)
{
    struct happening wrong = *job;

    switch (ks_prng_below(&world->prng, 3)) {
    case 0: wrong.epoch -= ks_prng_below(&world->prng, 2) + 1; break;
    case 1: wrong.first += SIM_WINDOW + ks_prng_below(&world->prng, 600); break;
    default: wrong.session_epoch += 1000; break;
    }
    settle(world, process, &wrong, draw_chance(&world->prng, 700) ? KS_ACK : KS_RETRY,
           ks_prng_between(&world->prng, 0, SIM_SECOND));
}

/* The app has read the last record of the batch, or its connection is gone: it takes what it has read for all of it. */
static bool has_batch(const struct process *process, const struct happening *job)
{
    return job->first + job->count == job->batch_first + job->batch_count ||
           process->consumers[job->consumer].wire.serial != job->serial;
}

static void acknowledge(struct world *world, struct process *process, const struct happening *job)
{
    struct ks_event event = {.kind = KS_EVENT_CHECKPOINT};

    if (draw_chance(&world->prng, world->swarm.cumulative)) {
        event.checkpoint.shard = job->shard;
        event.checkpoint.epoch = job->epoch;
        event.checkpoint.number = job->first + job->count - 1;
        shell_step(world, process, &event);
    } else if (has_batch(process, job) && draw_chance(&world->prng, world->swarm.batch_acks)) {
        struct happening batch = *job;

        /* It may name more than was written. */
        batch.first = job->batch_first;
        batch.count = job->batch_count;
        settle_by(world, process, &batch, false, KS_ACK, 0);
    } else {
        settle(world, process, job, KS_ACK, 0);
        /* Idempotent. */
        if (draw_chance(&world->prng, 20))
            settle(world, process, job, KS_ACK, 0);
    }
    if (draw_chance(&world->prng, world->swarm.persists)) {
        event.kind = KS_EVENT_PERSIST;
        event.persist.shard = job->shard;
        shell_step(world, process, &event);
    }
}

/* True if the app does not want the records at all. Somebody lets what was stopped go on, some day. */
static bool give_up(struct world *world, struct process *process, const struct happening *job)
{
    struct swarm *swarm = &world->swarm;
    enum ks_settle_outcome outcome;

    if (draw_chance(&world->prng, 20))
        world_app_go_on(world, process);
    if (draw_chance(&world->prng, swarm->dead_letters))
        outcome = KS_DEAD_LETTER;
    else if (draw_chance(&world->prng, swarm->drops))
        outcome = KS_DROP;
    else
        return false;
    world_app_settle_as(world, process, job, outcome, 0);
    return true;
}

void world_app_settle(struct world *world, struct process *process,
                      const struct happening *happening)
{
    struct swarm *swarm = &world->swarm;
    struct happening job = *happening;

    if (job.batch_count == 0) {
        settle(world, process, &job,
               draw_chance(&world->prng, 500)   ? KS_ACK
               : draw_chance(&world->prng, 500) ? KS_RETRY
                                                : KS_DEAD_LETTER,
               0);
        return;
    }
    if (job.shard == KS_SHARD_NONE) {
        let_go(world, process, &job);
        world_redrive_handled(world, process, &job);
        return;
    }
    if (job.count > 1 && draw_chance(&world->prng, swarm->shuffles)) {
        struct happening rest = job;

        rest.count = (uint32_t)ks_prng_between(&world->prng, 1, (int64_t)job.count - 1);
        rest.first = job.first + job.count - rest.count;
        job.count -= rest.count;
        plan_job(world, &rest, 1 + draw_work(world) / 8);
        if (draw_chance(&world->prng, 500)) {
            plan_job(world, &job, 1 + draw_work(world) / 8);
            return;
        }
    }
    if (draw_chance(&world->prng, swarm->extends)) {
        settle(world, process, &job, KS_EXTEND, draw_log(&world->prng, SIM_MS, 20 * SIM_SECOND));
        plan_job(world, &job, draw_work(world));
        return;
    }
    if (draw_chance(&world->prng, swarm->stale_settles))
        settle_nonsense(world, process, &job);
    let_go(world, process, &job);
    if (draw_chance(&world->prng, swarm->ignores))
        return;
    if (give_up(world, process, &job))
        return;
    if (draw_chance(&world->prng, swarm->retries)) {
        settle(world, process, &job, KS_RETRY,
               draw_chance(&world->prng, 300)   ? 0
               : draw_chance(&world->prng, 300) ? KS_DELAY_BY_POLICY.us
                                                : draw_log(&world->prng, SIM_MS, 4 * SIM_SECOND));
        /* The answer was lost: it is asked again, also when the record was delivered again meanwhile. */
        job.batch_count = 0;
        if (draw_chance(&world->prng, 100))
            plan_job(world, &job, draw_log(&world->prng, 1, 3 * SIM_SECOND));
        return;
    }
    acknowledge(world, process, &job);
}
