/* SPDX-License-Identifier: Apache-2.0 */
#include "faults.h"

#include <assert.h>
#include <string.h>

#include "exams.h"
#include "operator.h"
#include "oracle_rules.h"
#include "story.h"
#include "world.h"
#include "world_looks.h"

/* How long after the faults everything has to be done, and how long it is watched then. */
enum { PATIENCE_S = 120, SETTLING_S = 12, QUIET_S = 15, STILL_PUT_S = 3 };

static void plan_in(struct world *world, enum happening_kind kind, sim_time in)
{
    agenda_add(&world->agenda, world->now + in, &(struct happening){.kind = kind});
}

/* The next one of a kind of fault; `every` 0: it never comes. */
static void plan_fault(struct world *world, enum happening_kind kind, sim_time every)
{
    if (every > 0)
        plan_in(world, kind, draw_log(&world->prng, every / 4 + 1, every * 2));
}

static void plan_start(struct world *world, uint32_t slot, uint32_t worker, sim_time in)
{
    agenda_add(&world->agenda, world->now + in,
               &(struct happening){.kind = HAPPENS_START, .process = slot, .count = worker});
}

void faults_begin(struct world *world)
{
    struct swarm *swarm = &world->swarm;

    for (uint32_t slot = 0; slot < swarm->processes; slot++)
        plan_start(world, slot, world->next_worker++,
                   draw_log(&world->prng, SIM_MS, 10 * SIM_SECOND));
    plan_in(world, HAPPENS_PUT, SIM_MS);
    plan_fault(world, HAPPENS_RESHARD, swarm->reshard_every);
    plan_fault(world, HAPPENS_EXPIRE, swarm->reshard_every);
    plan_fault(world, HAPPENS_PAUSE, swarm->pause_every);
    plan_fault(world, HAPPENS_KILL, swarm->kill_every);
    plan_fault(world, HAPPENS_CUT, swarm->cut_every);
    plan_fault(world, HAPPENS_BLIND, swarm->blind_every);
    plan_fault(world, HAPPENS_DOWN, swarm->down_every);
    plan_fault(world, HAPPENS_DAMAGE, swarm->damage_every);
    plan_fault(world, HAPPENS_DRAIN, swarm->drain_every);
    plan_fault(world, HAPPENS_TWIN, swarm->twin_every);
    plan_fault(world, HAPPENS_THROTTLE, swarm->throttle_every);
    plan_fault(world, HAPPENS_HOLIDAY, swarm->holiday_every);
    plan_fault(world, HAPPENS_SCALE, swarm->scale_every);
    plan_fault(world, HAPPENS_DEPLOY, swarm->deploy_every);
    plan_fault(world, HAPPENS_OPERATOR, swarm->operator_every);
    if (operator_gives_orders(world))
        plan_in(world, HAPPENS_ORDER, 5 * SIM_SECOND);
    if (world_redrive_begins(world))
        plan_in(world, HAPPENS_REDRIVE, 5 * SIM_SECOND);
    plan_in(world, HAPPENS_PEACE, swarm->war);
}

/* True if a process runs, or is about to, under this name. */
static bool is_taken(const struct world *world, uint32_t worker, uint32_t slot)
{
    for (uint32_t i = 0; i < SIM_PROCESSES; i++)
        if (i != slot && world->processes[i].worker == worker &&
            (world->processes[i].alive || i < world->swarm.processes))
            return true;
    return false;
}

void faults_start(struct world *world, uint32_t slot)
{
    uint32_t worker = world->processes[slot].worker;

    if (world->next_worker < SIM_WORKERS &&
        (worker == 0 || !draw_chance(&world->prng, world->swarm.same_name)))
        worker = world->next_worker++;
    /* All names were used: one that nobody has now. */
    for (uint32_t name = 1; name < SIM_WORKERS && (worker == 0 || is_taken(world, worker, slot));
         name++)
        worker = name;
    plan_start(world, slot, worker,
               draw_log(&world->prng, 100 * SIM_MS, (world->peace ? 3 : 15) * SIM_SECOND));
}

void faults_restart(struct world *world, struct process *process)
{
    /* A twin is not started again, nor who is missed in the exam. */
    if (process->slot < world->swarm.processes &&
        (world->exam_at == 0 || world->exam == EXAM_DEPLOY))
        faults_start(world, process->slot);
}

/* A process that runs, NULL if the one that was drawn does not. */
static struct process *draw_process(struct world *world)
{
    struct process *process =
        &world->processes[ks_prng_below(&world->prng, world->swarm.processes)];

    return process->alive ? process : NULL;
}

static void pause_one(struct world *world)
{
    struct process *process = draw_process(world);
    sim_time until = world->now + draw_log(&world->prng, 50 * SIM_MS, 25 * SIM_SECOND);

    plan_fault(world, HAPPENS_PAUSE, world->swarm.pause_every);
    if (process == NULL || process->paused_until >= until)
        return;
    process->paused_until = until;
    story_say(world, "fault", "w%u freezes until %lld.%03lld", process->worker,
              (long long)(until / SIM_SECOND), (long long)(until % SIM_SECOND / SIM_MS));
}

static void kill_one(struct world *world)
{
    struct process *process = draw_process(world);
    bool all = draw_chance(&world->prng, world->swarm.blackouts);

    plan_fault(world, HAPPENS_KILL, world->swarm.kill_every);
    for (uint32_t slot = 0; slot < SIM_PROCESSES; slot++) {
        struct process *victim = &world->processes[slot];

        if (!victim->alive || (victim != process && !all))
            continue;
        story_say(world, "fault", "w%u is killed", victim->worker);
        shell_stop(world, victim);
        faults_restart(world, victim);
    }
}

/* A row that nobody can read for a while. */
static void damage(struct world *world)
{
    sim_time until = world->now + draw_log(&world->prng, 100 * SIM_MS, 20 * SIM_SECOND);
    uint32_t worker = (uint32_t)ks_prng_between(&world->prng, 1, SIM_WORKERS - 1);
    ks_shard shard = (ks_shard)ks_prng_below(&world->prng, world->stream.count);

    plan_fault(world, HAPPENS_DAMAGE, world->swarm.damage_every);
    if (draw_chance(&world->prng, 500))
        world->table.worker_damaged[worker] = until;
    else
        world->table.lease_damaged[shard] = until;
    story_say(world, "fault", "a row is damaged: w%u or shard-%u", worker, shard);
}

static void cut_one(struct world *world)
{
    static const char *const names[] = {"nothing", "the store", "reads", "lease writes",
                                        "heartbeats"};
    struct process *process = draw_process(world);

    plan_fault(world, HAPPENS_CUT, world->swarm.cut_every);
    if (process == NULL)
        return;
    process->cut = (enum cut_kind)ks_prng_between(&world->prng, CUT_ALL, CUT_HEARTBEATS);
    process->cut_until = world->now + draw_log(&world->prng, 200 * SIM_MS, 40 * SIM_SECOND);
    story_say(world, "fault", "w%u is cut off from %s until %lld.%03lld", process->worker,
              names[process->cut], (long long)(process->cut_until / SIM_SECOND),
              (long long)(process->cut_until % SIM_SECOND / SIM_MS));
}

static void blind_one(struct world *world)
{
    struct process *process = draw_process(world);

    plan_fault(world, HAPPENS_BLIND, world->swarm.blind_every);
    if (process == NULL)
        return;
    process->blind_until = world->now + draw_log(&world->prng, SIM_SECOND, 40 * SIM_SECOND);
    story_say(world, "fault", "w%u cannot read the stream until %lld.%03lld", process->worker,
              (long long)(process->blind_until / SIM_SECOND),
              (long long)(process->blind_until % SIM_SECOND / SIM_MS));
}

static void take_down(struct world *world)
{
    plan_fault(world, HAPPENS_DOWN, world->swarm.down_every);
    world->down_until = world->now + draw_log(&world->prng, SIM_SECOND, 30 * SIM_SECOND);
    world->down_quick = draw_chance(&world->prng, 500);
    story_say(world, "fault", "the store is down until %lld.%03lld",
              (long long)(world->down_until / SIM_SECOND),
              (long long)(world->down_until % SIM_SECOND / SIM_MS));
}

void faults_drain(struct world *world, struct process *process, sim_time patience)
{
    struct ks_event event = {.kind = KS_EVENT_DRAIN};

    story_say(world, "fault", "w%u is told to drain", process->worker);
    process->draining = true;
    event.drain.span = ks_span_us(patience);
    process->patience_at = ks_instant_add(shell_clock(world, process), event.drain.span);
    shell_tell(world, process, &event);
}

static void drain(struct world *world, struct process *process)
{
    if (process == NULL || !process->alive || process->draining ||
        world->now < process->paused_until)
        return;
    if (draw_chance(&world->prng, 400))
        agenda_add(&world->agenda, world->now + draw_log(&world->prng, SIM_MS, 10 * SIM_SECOND),
                   &(struct happening){
                       .kind = HAPPENS_HURRY, .process = process->slot, .life = process->life});
    faults_drain(world, process, draw_log(&world->prng, SIM_MS, 20 * SIM_SECOND));
}

/* One of them, or the next one of a deploy (1), or of an exam (2). */
static void drain_one(struct world *world, const struct happening *happening)
{
    struct process *next = &world->processes[happening->process];

    if (happening->count == 2 && next->alive) {
        faults_drain(world, next, 20 * SIM_SECOND);
        return;
    }
    if (happening->count > 0) {
        drain(world, next);
        return;
    }
    plan_fault(world, HAPPENS_DRAIN, world->swarm.drain_every);
    drain(world, draw_process(world));
}

/* A rolling deploy: everybody is told to leave, one after the other, and a new one comes for each. */
static void deploy(struct world *world)
{
    sim_time gap = draw_log(&world->prng, 10 * SIM_MS, 15 * SIM_SECOND);

    plan_fault(world, HAPPENS_DEPLOY, world->swarm.deploy_every);
    story_say(world, "fault", "everybody is replaced, one every %lld ms",
              (long long)(gap / SIM_MS));
    for (uint32_t slot = 0; slot < world->swarm.processes; slot++)
        agenda_add(&world->agenda, world->now + 1 + slot * gap,
                   &(struct happening){.kind = HAPPENS_DRAIN, .process = slot, .count = 1});
}

/* More processes, or fewer: those that are too many drain or die, and are not started again. */
static void scale(struct world *world)
{
    uint32_t before = world->swarm.processes;
    uint32_t after = (uint32_t)ks_prng_between(&world->prng, 1, SIM_PROCESSES - SIM_TWINS);
    bool kills = draw_chance(&world->prng, 300);

    plan_fault(world, HAPPENS_SCALE, world->swarm.scale_every);
    story_say(world, "fault", "from %u processes to %u", before, after);
    world->swarm.processes = after;
    for (uint32_t slot = before; slot < after; slot++)
        if (!world->processes[slot].alive)
            faults_start(world, slot);
    for (uint32_t slot = after; slot < before; slot++) {
        struct process *process = &world->processes[slot];

        if (process->alive && kills)
            shell_stop(world, process);
        else
            drain(world, process);
    }
}

static void throttle(struct world *world)
{
    plan_fault(world, HAPPENS_THROTTLE, world->swarm.throttle_every);
    world->throttled_until = world->now + draw_log(&world->prng, SIM_SECOND, 20 * SIM_SECOND);
    world->throttled = (uint32_t)ks_prng_between(&world->prng, 200, 950);
    story_say(world, "fault", "the store throttles %u of 1000 until %lld.%03lld", world->throttled,
              (long long)(world->throttled_until / SIM_SECOND),
              (long long)(world->throttled_until % SIM_SECOND / SIM_MS));
}

static void holiday(struct world *world)
{
    struct process *process = draw_process(world);
    sim_time until = world->now + draw_log(&world->prng, SIM_SECOND, 40 * SIM_SECOND);

    plan_fault(world, HAPPENS_HOLIDAY, world->swarm.holiday_every);
    if (process == NULL)
        return;
    story_say(world, "fault", "the apps of w%u are away until %lld.%03lld", process->worker,
              (long long)(until / SIM_SECOND), (long long)(until % SIM_SECOND / SIM_MS));
    world_app_holiday(world, process, until);
}

/* A second process under the name of one that runs. */
static void start_twin(struct world *world)
{
    struct process *process = draw_process(world);

    plan_fault(world, HAPPENS_TWIN, world->swarm.twin_every);
    if (process == NULL)
        return;
    for (uint32_t slot = SIM_PROCESSES - SIM_TWINS; slot < SIM_PROCESSES; slot++) {
        if (world->processes[slot].alive)
            continue;
        story_say(world, "fault", "w%u gets a twin", process->worker);
        shell_start(world, &world->processes[slot], process->worker);
        /* The first one may die, and find on its return that the twin has taken its place. */
        if (draw_chance(&world->prng, 300)) {
            shell_stop(world, process);
            plan_start(world, process->slot, process->worker,
                       ks_prng_between(&world->prng, 8, 30) * SIM_SECOND);
        }
        return;
    }
}

static void put(struct world *world)
{
    world_stream_put(world);
    if (!world->peace || world->now < world->peace_at + STILL_PUT_S * SIM_SECOND ||
        world->exam_at != 0)
        plan_fault(world, HAPPENS_PUT, world->swarm.put_every);
}

static void reshard(struct world *world)
{
    if (world->peace)
        return;
    plan_fault(world, HAPPENS_RESHARD, world->swarm.reshard_every);
    world_stream_reshard(world);
}

static void expire(struct world *world)
{
    if (world->peace)
        return;
    plan_fault(world, HAPPENS_EXPIRE, world->swarm.reshard_every);
    world_stream_expire(world);
}

static void make_peace(struct world *world)
{
    struct swarm *swarm = &world->swarm;

    story_say(world, "fault", "the faults end");
    world->peace = true;
    world->peace_at = world->now;
    world->down_until = 0;
    world->throttled_until = 0;
    memset(world->table.worker_damaged, 0, sizeof world->table.worker_damaged);
    memset(world->table.lease_damaged, 0, sizeof world->table.lease_damaged);
    swarm_make_peace(swarm);
    if (swarm->processes < 2) {
        swarm->processes = 2;
        if (!world->processes[1].alive)
            faults_start(world, 1);
    }
    world_stream_expire(world);
    for (uint32_t slot = 0; slot < SIM_PROCESSES; slot++) {
        struct process *process = &world->processes[slot];

        if (!process->alive)
            continue;
        if (slot >= swarm->processes) {
            shell_stop(world, process);
            continue;
        }
        /* Who is frozen stays so until it wakes: the war is over when the last one does. */
        if (process->paused_until > world->peace_at)
            world->peace_at = process->paused_until;
        process->cut = CUT_NOTHING;
        process->cut_until = 0;
        process->blind_until = 0;
        world_app_make_peace(world, process);
    }
    world->done_at = world->peace_at + 2 * STILL_PUT_S * SIM_SECOND;
    plan_in(world, HAPPENS_LOOK, SIM_SECOND);
}

/* ---- After the faults ---- */

/* A quiet fleet: one heartbeat a beat for each worker, and no other write (I9). */
static void judge_quiet(struct world *world)
{
    const struct ks_core_config *core = &world->swarm.core;
    uint64_t workers = world->swarm.processes;
    uint64_t beats = world->asked[KS_STORE_HEARTBEAT];
    uint64_t reads = 0;
    /* Clocks run up to 4.5 % fast, and one more may lie on either edge. */
    uint64_t most_beats =
        (uint64_t)(QUIET_S * SIM_SECOND / (core->beat.us * 95 / 100) + 1) * workers;
    uint64_t most_reads =
        (uint64_t)(QUIET_S * SIM_SECOND / (core->news.us * 95 / 100) + 1) * workers +
        (uint64_t)(2 * QUIET_S * SIM_SECOND / (core->round.us * 95 / 100) + 4);

    for (int i = 0; i < KS_STORE_OPERATIONS; i++) {
        /* An old replica showed the row that was deleted before this one was made: then two reads are needed to believe
         * in this one, and in between it may be made once more, in vain. */
        bool in_vain =
            i == KS_STORE_CREATE && world->operations[KS_STORE_CREATE][0] == world->rows_made;

        /* Rows that nobody needs go when their time has come. */
        if (i != KS_STORE_HEARTBEAT && i != KS_STORE_DELETE && i != KS_STORE_REMOVE_WORKER &&
            !in_vain && world->asked[i] > 0 && world_table_is_write((enum ks_store_operation)i))
            oracle_fail(world, "a quiet fleet wrote %s",
                        world_table_operation_name((enum ks_store_operation)i));
        if (!world_table_is_write((enum ks_store_operation)i))
            reads += world->asked[i];
    }
    if (beats > most_beats)
        oracle_fail(world, "a quiet fleet of %u made %llu heartbeats in %d s", (uint32_t)workers,
                    (unsigned long long)beats, (int)QUIET_S);
    /* Each heartbeat makes the others look, when they are told of it. */
    if (world->swarm.tells_change)
        most_reads +=
            (beats + world->asked[KS_STORE_DELETE] + world->asked[KS_STORE_REMOVE_WORKER]) *
            workers;
    if (reads > most_reads)
        oracle_fail(world, "a quiet fleet of %u read %llu times in %d s", (uint32_t)workers,
                    (unsigned long long)reads, (int)QUIET_S);
}

bool faults_everybody_runs(const struct world *world)
{
    for (uint32_t slot = 0; slot < world->swarm.processes; slot++) {
        struct ks_self_view self;

        if (!world->processes[slot].alive || world->processes[slot].draining)
            return false;
        ks_core_self(world->processes[slot].core, &self);
        if (self.state != KS_WORKER_LIVE)
            return false;
    }
    return true;
}

/* A late request of the war may still be on its way: a registration of somebody dead, to be fenced once more. And the
 * last moves are told by the next beats. */
static void begin_quiet(struct world *world)
{
    const struct ks_core_config *core = &world->swarm.core;
    /* A checkpoint that came late is written once more, at its interval; that there is no traffic is told, and may even
     * out what was uneven before: a leader that looks at the rows waits with that. */
    sim_time settling = SETTLING_S * SIM_SECOND + 2 * core->checkpoint_interval.us +
                        3 * core->load_patience.us + 2 * world_looks_time(world);

    if (world->now <= world->last_shot + 2 * core->lease_duration.us + settling ||
        world->now <= world->done_at + settling ||
        world->now <= world->planned_at + settling) /* One exchange may make room for another. */
        return;
    if (oracle_rules_is_kept(world)) {
        if (world->now >
            world->done_at + settling + core->keep.us * 21 / 20 + 3 * core->list_every.us)
            oracle_fail(world, "rows of expired shards are not deleted");
        return;
    }
    story_say(world, "world", "everything is done");
    world->quiet_until = world->now + QUIET_S * SIM_SECOND;
    world->rows_made = world->operations[KS_STORE_CREATE][0];
    memset(world->asked, 0, sizeof world->asked);
}

/* Somebody looks after what the poison policy stopped. */
static void go_on(struct world *world)
{
    enum ks_exhausted exhausted = world->swarm.core.poison.exhausted;
    struct ks_event event = {.kind = KS_EVENT_RESUME, .shard = {KS_SHARD_NONE}};

    for (uint32_t slot = 0; slot < SIM_PROCESSES; slot++)
        if (world->processes[slot].alive &&
            (exhausted == KS_EXHAUSTED_STOP_SHARD || exhausted == KS_EXHAUSTED_PAUSE))
            shell_tell(world, &world->processes[slot], &event);
}

static void look(struct world *world)
{
    char why[160] = "not everybody runs";
    /* A leader may have died between a move and telling it: the next one tells who holds too little for 1.5 B, when it
     * has seen the rows. */
    sim_time soon = 2 * world->swarm.core.lease_duration.us + 2 * world->swarm.core.beat.us +
                    world_looks_time(world);
    bool done;

    go_on(world);
    if (world->exam_at != 0) {
        exams_look(world);
        plan_in(world, HAPPENS_LOOK, 100 * SIM_MS);
        return;
    }
    done = faults_everybody_runs(world) && oracle_is_done(world, why, sizeof why) &&
           oracle_is_balanced(world, why, sizeof why);
    if (world->now > world->last_shot + soon && world->now > world->peace_at + soon)
        oracle_rules_look(world);
    if (world->quiet_until != 0 && !done) {
        oracle_fail(world, "everything was done, and then it was not: %s", why);
        return;
    }
    /* A long chain of reshards takes its time, a generation after the other; so does a slow app with small credit. That
     * a parent is over the leader sees when it looks; that an open shard is finished it believes for K. */
    if (!done && world->now > world->peace_at + PATIENCE_S * SIM_SECOND &&
        world->now > world->progress_at + PATIENCE_S / 3 * SIM_SECOND +
                         2 * world_looks_time(world) + operator_patience(world)) {
        oracle_fail(world, "%d s after the faults %s", (int)PATIENCE_S, why);
        return;
    }
    if (!done && world->done_at < world->now)
        world->done_at = world->now;
    if (world->quiet_until != 0 && world->now >= world->quiet_until) {
        judge_quiet(world);
        oracle_rules_quiet(world);
        exams_begin(world);
    } else if (world->quiet_until == 0) {
        begin_quiet(world);
    }
    plan_in(world, HAPPENS_LOOK,
            world->quiet_until > world->now ? QUIET_S * SIM_SECOND : SIM_SECOND);
}

void faults_happen(struct world *world, const struct happening *happening)
{
    bool fault = happening->kind >= HAPPENS_PAUSE && happening->kind <= HAPPENS_REDRIVE;
    uint32_t slot;

    /* The drains of an exam are no faults. */
    if (fault && world->peace && happening->count != 2)
        return;
    switch (happening->kind) {
    case HAPPENS_START:
        if (!world->processes[happening->process].alive &&
            happening->process < world->swarm.processes)
            shell_start(world, &world->processes[happening->process], happening->count);
        break;
    case HAPPENS_PUT: put(world); break;
    case HAPPENS_RESHARD: reshard(world); break;
    case HAPPENS_EXPIRE: expire(world); break;
    case HAPPENS_PAUSE: pause_one(world); break;
    case HAPPENS_KILL: kill_one(world); break;
    case HAPPENS_CUT: cut_one(world); break;
    case HAPPENS_BLIND: blind_one(world); break;
    case HAPPENS_DOWN: take_down(world); break;
    case HAPPENS_DAMAGE: damage(world); break;
    case HAPPENS_DRAIN: drain_one(world, happening); break;
    case HAPPENS_THROTTLE: throttle(world); break;
    case HAPPENS_HOLIDAY: holiday(world); break;
    case HAPPENS_SCALE: scale(world); break;
    case HAPPENS_DEPLOY: deploy(world); break;
    case HAPPENS_TWIN: start_twin(world); break;
    case HAPPENS_OPERATOR:
        plan_fault(world, HAPPENS_OPERATOR, world->swarm.operator_every);
        operator_meddles(world);
        break;
    case HAPPENS_ORDER:
        plan_in(world, HAPPENS_ORDER, operator_orders(world, draw_process(world)));
        break;
    case HAPPENS_REDRIVE:
        slot = (uint32_t)ks_prng_below(&world->redrives, SIM_PROCESSES);
        plan_in(world, HAPPENS_REDRIVE, world_redrive_orders(world, &world->processes[slot]));
        break;
    case HAPPENS_PEACE: make_peace(world); break;
    case HAPPENS_LOOK: look(world); break;
    case HAPPENS_TICK:
    case HAPPENS_ANSWER:
    case HAPPENS_TIMEOUT:
    case HAPPENS_LISTED:
    case HAPPENS_READ:
    case HAPPENS_CONSUMER:
    case HAPPENS_JOB:
    case HAPPENS_HURRY:
    case HAPPENS_BURIED:
    case HAPPENS_LETTER:
    case HAPPENS_CHANGED:
    case HAPPENS_LOCKED:
    case HAPPENS_ARRIVE: assert(false);
    }
}
