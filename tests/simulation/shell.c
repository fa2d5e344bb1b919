/* SPDX-License-Identifier: Apache-2.0 */
#include "shell.h"

#include <assert.h>
#include <string.h>

#include "base/budget.h"
#include "faults.h"
#include "oracle_rules.h"
#include "story.h"
#include "world.h"
#include "world_filter.h"
#include "world_letters.h"
#include "world_lock.h"
#include "world_looks.h"

/* ---- Latency ---- */

/* One way to the store and back, or to the stream. */
static sim_time draw_latency(struct world *world)
{
    sim_time typical = world->swarm.latency;
    sim_time latency = ks_prng_between(&world->prng, typical / 2, typical + typical / 2);

    return draw_chance(&world->prng, 20) ? latency * 8 : latency;
}

static void plan(struct world *world, const struct process *process, sim_time at,
                 struct happening happening)
{
    happening.process = process->slot;
    happening.life = process->life;
    agenda_add(&world->agenda, at, &happening);
}

/* Sleeps until the core's deadline. */
static void sleep_until_deadline(struct world *world, struct process *process)
{
    ks_instant deadline = ks_core_deadline(process->core);
    sim_time at;

    if (deadline.us == KS_NEVER.us)
        return;
    at = shell_true_time(process, deadline);
    if (at == SIM_NEVER)
        return;
    if (at <= world->now)
        at = world->now + 1;
    at += (sim_time)ks_prng_below(&world->prng, (uint64_t)world->swarm.loop_lag);
    if (process->tick_at > world->now && process->tick_at <= at)
        return;
    process->tick_at = at;
    plan(world, process, at, (struct happening){.kind = HAPPENS_TICK});
}

/* A core that asks for ticks without end would stand still in the product, too. */
static void count_tick(struct world *world, struct process *process)
{
    if (world->now - process->tick_second > SIM_SECOND) {
        process->tick_second = world->now;
        process->ticks = 0;
    }
    if (++process->ticks > 20000)
        oracle_fail(world, "w%u: more than 20,000 ticks in a second", process->worker);
}

static void tick(struct world *world, struct process *process)
{
    count_tick(world, process);
    shell_step(world, process, &(struct ks_event){.kind = KS_EVENT_TICK});
}

static bool is_due(const struct world *world, const struct process *process)
{
    return ks_instant_reached(shell_clock(world, process), ks_core_deadline(process->core));
}

/* ---- The store ---- */

/* A cut takes whole classes of requests. */
static bool is_cut(const struct world *world, const struct process *process,
                   enum ks_store_operation operation)
{
    if (world->now >= process->cut_until)
        return false;
    switch (process->cut) {
    case CUT_NOTHING: return false;
    case CUT_ALL: return true;
    case CUT_READS: return !world_table_is_write(operation);
    case CUT_LEASE_WRITES: return world_table_is_lease_write(operation);
    case CUT_HEARTBEATS: return operation == KS_STORE_HEARTBEAT;
    }
    assert(false);
    return false;
}

static void answer_later(struct world *world, struct table_request *request, sim_time at)
{
    request->users++;
    agenda_add(&world->agenda, at,
               &(struct happening){.kind = HAPPENS_ANSWER,
                                   .process = request->process,
                                   .life = request->life,
                                   .request = request->number});
}

static void arrive_at(struct world *world, struct table_request *request, sim_time at)
{
    request->users++;
    agenda_add(&world->agenda, at,
               &(struct happening){.kind = HAPPENS_ARRIVE, .request = request->number});
}

/* Whom a write of somebody else is about. */
static uint32_t victim_of(const struct ks_store_effect *ask)
{
    switch ((int)ask->operation) {
    case KS_STORE_FENCE:
    case KS_STORE_HINTS:
    case KS_STORE_REMOVE_WORKER:
    case KS_STORE_REGISTER_SILENT:
    case KS_STORE_REGISTER_CORPSE: return ask->worker.worker;
    case KS_STORE_TAKE_OVER:
    case KS_STORE_PLAN:
    case KS_STORE_FORCE:
    case KS_STORE_CLAIM_OFFICE: return ask->owner.worker;
    default: return 0;
    }
}

/* A write that is about a worker arrives at `at`: a heartbeat of that worker that was waiting on the road lands right
 * before it, between its sender's last look and the write, or right behind it. */
static void call_up(struct world *world, const struct table_request *request, sim_time at)
{
    uint32_t victim = victim_of(&request->ask);

    for (uint32_t slot = 0; victim != 0 && slot < SIM_PROCESSES; slot++) {
        struct table_request *parked = world->parked[slot];

        if (parked == NULL || parked->ask.worker.worker != victim || draw_chance(&world->prng, 300))
            continue;
        world->parked[slot] = NULL;
        at += draw_chance(&world->prng, 700) ? -1 : 1;
        arrive_at(world, parked, at <= world->now ? world->now : at);
    }
}

/* The request leaves the house, or meets its fate. */
static void send_request(struct world *world, struct process *process,
                         struct table_request *request)
{
    struct swarm *swarm = &world->swarm;
    bool write = world_table_is_write(request->ask.operation);
    sim_time departs = process->paused_until > world->now ? process->paused_until : world->now;
    sim_time at = departs + draw_latency(world);
    bool lost = is_cut(world, process, request->ask.operation) ||
                draw_chance(&world->prng, swarm->lost_requests);
    ks_instant patience;

    world_looks_draw(world, request);
    patience = ks_instant_add(request->sent_at, request->pages > 1 && !lost ? ks_span_us(SIM_LOOK)
                                                                            : swarm->core.timeout);
    request->users++;
    plan(world, process, shell_true_time(process, patience),
         (struct happening){.kind = HAPPENS_TIMEOUT, .request = request->number});
    if (lost)
        return;
    if (draw_chance(&world->prng, world->now < world->throttled_until ? world->throttled
                                  : write                             ? swarm->throttled
                                                                      : swarm->failed_reads)) {
        request->answer.outcome = KS_UNKNOWN;
        answer_later(world, request, at);
        return;
    }
    if (draw_chance(&world->prng, swarm->late_requests))
        at += ks_prng_between(&world->prng, 2 * SIM_SECOND, 30 * SIM_SECOND);
    if (request->ask.operation == KS_STORE_HEARTBEAT && draw_chance(&world->prng, swarm->parked)) {
        at = departs + ks_prng_between(&world->prng, 2 * SIM_SECOND, 30 * SIM_SECOND);
        world->parked[process->slot] = request;
    }
    call_up(world, request, at);
    if (!world->peace && world->last_shot < at)
        world->last_shot = at;
    arrive_at(world, request, at);
}

/* A page of a look is asked for in vain: the look is over when a request would be. */
static bool fails_here(struct world *world, const struct process *sender,
                       struct table_request *request)
{
    bool cut = request->page > 0 && sender->life == request->life &&
               is_cut(world, sender, KS_STORE_READ_LEASES);

    if (!cut && request->page != request->fails_at)
        return false;
    request->answer.outcome = KS_UNKNOWN;
    answer_later(world, request, world->now + world->swarm.core.timeout.us);
    return true;
}

/* The page was read: the next one is sent for. False if there is none. */
static bool turns_page(struct world *world, const struct process *sender,
                       struct table_request *request)
{
    sim_time at = world->now + request->page_time;

    if (++request->page == request->pages)
        return false;
    if (sender->life == request->life && at < sender->paused_until)
        at = sender->paused_until;
    request->arrived = false;
    arrive_at(world, request, at);
    return true;
}

void shell_arrive(struct world *world, const struct happening *happening)
{
    struct table_request *request = world->requests[happening->request];
    const struct process *sender = &world->processes[request->process];
    bool cut =
        sender->life == request->life && sender->cut == CUT_ALL && world->now < sender->cut_until;

    if (request->arrived) {
        world_request_done(world, request);
        return;
    }
    request->arrived = true;
    if (world->parked[request->process] == request)
        world->parked[request->process] = NULL;
    if (world->now < world->down_until) {
        request->answer.outcome = KS_UNKNOWN;
        if (world->down_quick)
            answer_later(world, request, world->now + draw_latency(world));
    } else if (!fails_here(world, sender, request)) {
        world_table_apply(world, request);
        if (!turns_page(world, sender, request) && !cut &&
            !draw_chance(&world->prng, world->swarm.lost_answers))
            answer_later(world, request, world->now + draw_latency(world));
    }
    world_request_done(world, request);
}

/* What ports/switchboard.c adds to a write: positions, and what the listing says of a shard. */
static void complete_create(struct world *world, struct process *process,
                            struct table_request *request)
{
    const struct ks_shard_row *listed = NULL;
    bool child = false;

    for (uint32_t i = 0; i < process->listed; i++)
        if (process->listing[i].shard == request->ask.shard)
            listed = &process->listing[i];
    if (listed == NULL || !world->table.app_present) {
        oracle_fail(world, "w%u makes a row for shard-%u, %s", process->worker, request->ask.shard,
                    listed == NULL ? "which was not listed" : "but there is no app row");
        return;
    }
    memcpy(request->parents, listed->parents, sizeof request->parents);
    request->first_key = listed->first_key;
    request->last_key = listed->last_key;
    for (uint32_t i = 0; i < KS_PARENTS_MAX; i++)
        if (listed->parents[i] != KS_SHARD_NONE && process->seen[listed->parents[i]].present)
            child = true;
    request->checkpoint =
        child ? 0 : world_stream_index_at(world, request->ask.shard, world->table.app_start);
}

static void complete_position(struct world *world, struct process *process,
                              struct table_request *request)
{
    const struct reader *reader = &process->readers[request->ask.shard];

    request->has_checkpoint = request->ask.up_to != 0;
    if (!request->has_checkpoint)
        return;
    if (reader->epoch != request->ask.epoch || reader->forgot != request->ask.up_to) {
        oracle_fail(world, "w%u asks for a checkpoint of shard-%u at a position it did not keep",
                    process->worker, request->ask.shard);
        return;
    }
    request->checkpoint = reader->base + reader->forgot;
}

static bool copy_tokens(struct ks_lease_token *into, const struct ks_lease_token **tokens,
                        uint32_t count)
{
    if (count > SIM_TOKENS)
        return false;
    if (count > 0)
        memcpy(into, *tokens, count * sizeof *into);
    *tokens = into;
    return true;
}

/* The process freezes right around a heartbeat: before it leaves, or just after. */
static void freeze_at_beat(struct world *world, struct process *process,
                           struct table_request *request)
{
    bool before = draw_chance(&world->prng, 500);
    sim_time until;

    if (!draw_chance(&world->prng, world->swarm.beat_pauses)) {
        send_request(world, process, request);
        return;
    }
    until = world->now + draw_log(&world->prng, 100 * SIM_MS, 25 * SIM_SECOND);
    story_say(world, "fault", "w%u freezes until %lld.%03lld, right %s a heartbeat",
              process->worker, (long long)(until / SIM_SECOND),
              (long long)(until % SIM_SECOND / SIM_MS), before ? "before" : "after");
    if (!before)
        send_request(world, process, request);
    if (process->paused_until < until)
        process->paused_until = until;
    if (before)
        send_request(world, process, request);
}

static uint32_t *writing_of(struct process *process, const struct ks_store_effect *ask)
{
    return &process->writing[world_table_is_owner_write(ask->operation)][ask->shard];
}

static void ask(struct world *world, struct process *process, const struct ks_store_effect *effect,
                ks_instant now)
{
    struct table_request *request = world_request(world);

    request->ask = *effect;
    request->process = process->slot;
    request->life = process->life;
    request->sent_at = now;
    if (!copy_tokens(request->gives, &request->ask.gives, effect->give_count) ||
        !copy_tokens(request->takes, &request->ask.takes, effect->take_count)) {
        oracle_fail(world, "w%u: too many tokens in one write", process->worker);
        request->ask.give_count = 0;
        request->ask.take_count = 0;
    }
    request->app_start = world->swarm.from_latest ? world->now : 0;
    if (effect->operation == KS_STORE_CREATE)
        complete_create(world, process, request);
    if (effect->operation == KS_STORE_CHECKPOINT || effect->operation == KS_STORE_FINAL)
        complete_position(world, process, request);
    request->has_checkpoint |= effect->operation == KS_STORE_SEEK;
    if (effect->operation == KS_STORE_SEEK)
        request->checkpoint = process->seek_to[effect->shard];

    if (process->locked && effect->operation >= KS_STORE_REGISTER_NEW &&
        effect->operation <= KS_STORE_REGISTER_CORPSE &&
        world->locks[process->worker] != effect->worker.boot)
        oracle_fail(world, "w%u registers a boot that its lock file does not name",
                    process->worker);
    oracle_asked(world, process, request, now);
    world->asked[effect->operation]++;
    if (world_table_is_lease_write(effect->operation))
        *writing_of(process, &request->ask) = request->number + 1;
    if (effect->operation == KS_STORE_HEARTBEAT) {
        process->beating = true;
        freeze_at_beat(world, process, request);
        return;
    }
    send_request(world, process, request);
}

/* A store that tells of changes tells all but the writer, a moment later. */
void shell_changed(struct world *world, const struct table_request *request)
{
    for (uint32_t slot = 0; world->swarm.tells_change && slot < SIM_PROCESSES; slot++) {
        struct process *process = &world->processes[slot];

        if (slot == request->process || !process->alive || process->changed ||
            (!world->peace && draw_chance(&world->prng, 100)))
            continue;
        process->changed = true;
        plan(world, process, world->now + ks_prng_between(&world->prng, SIM_MS, 50 * SIM_MS),
             (struct happening){.kind = HAPPENS_CHANGED});
    }
}

/* The rows of an answer are what OPEN and CREATE go by. */
static void remember_rows(struct process *process, const struct table_request *request)
{
    const struct table_answer *answer = &request->answer;

    if (request->ask.operation == KS_STORE_READ_LEASES)
        memset(process->seen, 0, sizeof process->seen);
    if (request->ask.operation == KS_STORE_READ_LEASE)
        process->seen[request->ask.shard].present = false;
    for (uint32_t i = 0; i < answer->lease_count; i++)
        if (!answer->leases[i].damaged)
            process->seen[answer->leases[i].shard] = (struct seen_row){
                .present = true, .made = answer->made[i], .checkpoint = answer->checkpoints[i]};
}

/* The answer, or the end of our patience: whichever is first. */
static void store_answers(struct world *world, struct process *process,
                          struct table_request *request, bool timeout)
{
    enum ks_outcome outcome = timeout ? KS_UNKNOWN : request->answer.outcome;
    struct ks_event event = {.kind = KS_EVENT_STORE};

    if (request->closed)
        return;
    request->closed = true;
    if (world_table_is_lease_write(request->ask.operation) &&
        *writing_of(process, &request->ask) == request->number + 1)
        *writing_of(process, &request->ask) = 0;
    if (request->ask.operation == KS_STORE_HEARTBEAT)
        process->beating = false;
    event.store.token = request->ask.token;
    event.store.outcome = outcome;
    if (outcome != KS_UNKNOWN) {
        remember_rows(process, request);
        event.store.workers = request->answer.workers;
        event.store.worker_count = request->answer.worker_count;
        event.store.leases = request->answer.leases;
        event.store.lease_count = request->answer.lease_count;
        event.store.leader = request->answer.leader;
        event.store.app_present = request->answer.app_present;
    }
    oracle_answered(world, process, request, outcome);
    shell_step(world, process, &event);
}

/* ---- The stream ---- */

static sim_time draw_stream_delay(struct world *world)
{
    return draw_chance(&world->prng, world->swarm.slow_stream)
               ? ks_prng_between(&world->prng, 2 * SIM_SECOND, 20 * SIM_SECOND)
               : 0;
}

static void list(struct world *world, struct process *process)
{
    if (process->listing_asked)
        oracle_fail(world, "w%u lists the stream twice at once", process->worker);
    process->listing_asked = true;
    process->listing_since = world->table.app_present ? world->table.app_start : 0;
    plan(world, process,
         world->now + 10 * SIM_MS + 2 * draw_latency(world) + draw_stream_delay(world),
         (struct happening){.kind = HAPPENS_LISTED});
}

/* One that is there is not told; not the same one twice in a row, for that would be a proof of its absence. */
static void leave_out(struct world *world, struct process *process)
{
    ks_shard last = process->left_out;
    uint32_t place;

    process->left_out = KS_SHARD_NONE;
    if (process->listed == 0 || !draw_chance(&world->prng, world->swarm.left_out))
        return;
    place = (uint32_t)ks_prng_below(&world->prng, process->listed);
    if (process->listing[place].shard == last)
        return;
    process->left_out = process->listing[place].shard;
    process->listing[place] = process->listing[--process->listed];
}

static void listed(struct world *world, struct process *process)
{
    struct ks_event event = {.kind = KS_EVENT_LISTED};
    sim_time at = world->now - ks_prng_between(&world->prng, 0, world->swarm.stale_list);

    process->listing_asked = false;
    event.listed.ok = !draw_chance(&world->prng, world->swarm.failed_lists);
    if (event.listed.ok) {
        process->listed =
            world_stream_list(world, at < 0 ? 0 : at, process->listing_since, process->listing);
        leave_out(world, process);
        oracle_rules_listed(process, process->listing, process->listed,
                            shell_clock(world, process));
        event.listed.shards = process->listing;
        event.listed.count = process->listed;
    }
    shell_step(world, process, &event);
}

static void open_reader(struct world *world, struct process *process,
                        const struct ks_effect *effect)
{
    struct reader *reader = &process->readers[effect->lease.shard];

    oracle_open(world, process, effect->lease.shard, effect->lease.epoch);
    /* A write of an earlier epoch that is still unanswered was another incarnation's. */
    process->writing[1][effect->lease.shard] = 0;
    *reader =
        (struct reader){.open = true,
                        .made = process->seen[effect->lease.shard].made,
                        .epoch = effect->lease.epoch,
                        .before = reader->before > reader->epoch ? reader->before : reader->epoch,
                        .base = process->seen[effect->lease.shard].checkpoint,
                        .opened_at = world->now,
                        .serial = reader->serial + 1};
}

bool shell_is_orphan(const struct world *world, const struct process *process, ks_shard shard)
{
    return process->readers[shard].made != world->stream.shards[shard].made;
}

static void read(struct world *world, struct process *process, const struct ks_effect *effect)
{
    struct reader *reader = &process->readers[effect->lease.shard];
    const struct world_shard *shard = &world->stream.shards[effect->lease.shard];
    bool idle = reader->base + reader->fetched >= shard->count && shard->closed_at == SIM_NEVER;
    sim_time pace = idle ? ks_prng_between(&world->prng, 200 * SIM_MS, 1000 * SIM_MS)
                         : ks_prng_between(&world->prng, 5 * SIM_MS, 200 * SIM_MS);

    oracle_read(world, process, effect);
    reader->reading = true;
    reader->max_records = effect->lease.max_records;
    reader->max_bytes = effect->lease.max_bytes;
    plan(world, process, world->now + pace + draw_stream_delay(world),
         (struct happening){
             .kind = HAPPENS_READ, .shard = effect->lease.shard, .serial = ++reader->serial});
}

static void read_answers(struct world *world, struct process *process, ks_shard shard,
                         uint32_t serial)
{
    struct reader *reader = &process->readers[shard];
    uint32_t sizes[SIM_RECORDS];
    uint8_t hashes[SIM_RECORDS];
    uint32_t stale_s[SIM_RECORDS];
    bool filtered[SIM_RECORDS];
    struct ks_event event = {.kind = KS_EVENT_RECORDS,
                             .records = {.hashes = hashes, .stale_s = stale_s}};
    uint32_t most = reader->max_records;

    if (!reader->open || reader->serial != serial)
        return;
    reader->reading = false;
    process->truth.asked_bytes -= reader->max_bytes;
    if (world->now < process->blind_until ||
        draw_chance(&world->prng, world->swarm.failed_stream)) {
        event.kind = KS_EVENT_READ_FAILED;
        event.read_failed.shard = shard;
        event.read_failed.epoch = reader->epoch;
        event.read_failed.throttled =
            world->now >= process->blind_until && draw_chance(&world->prng, 500);
        event.read_failed.full = world->now >= process->blind_until &&
                                 !event.read_failed.throttled && draw_chance(&world->prng, 500);
        shell_step(world, process, &event);
        return;
    }
    if (draw_chance(&world->prng, world->swarm.short_reads))
        most = (uint32_t)ks_prng_between(&world->prng, 0, most < 3 ? most : 3);
    event.records.shard = shard;
    event.records.epoch = reader->epoch;
    event.records.sizes = sizes;
    event.records.count = world_stream_read(world, shard, reader->base + reader->fetched, most,
                                            reader->max_bytes, sizes, &event.records.at_end);
    world_letters_describe(world, process, shard, event.records.count, hashes, stale_s);
    for (uint32_t i = 0; i < event.records.count; i++)
        filtered[i] = world_letters_filters(world, shard, reader->base + reader->fetched + i);
    if (world->swarm.filtered > 0)
        event.records.filtered = filtered;
    oracle_records(world, process, shard, sizes, event.records.filtered, event.records.count);
    reader->fetched += event.records.count;
    shell_step(world, process, &event);
}

static void close_reader(const struct world *world, struct process *process, ks_shard shard)
{
    struct reader *reader = &process->readers[shard];

    oracle_close(world, process, shard);
    reader->open = false;
    reader->reading = false;
    reader->serial++;
}

/* ---- Effects ---- */

static void perform_more(struct world *world, struct process *process,
                         const struct ks_effect *effect, const struct ks_event *event);

static void perform(struct world *world, struct process *process, const struct ks_effect *effect,
                    const struct ks_event *event, ks_instant now)
{
    switch (effect->kind) {
    case KS_EFFECT_STORE: ask(world, process, &effect->store, now); break;
    case KS_EFFECT_LIST: list(world, process); break;
    case KS_EFFECT_OPEN: open_reader(world, process, effect); break;
    case KS_EFFECT_READ: read(world, process, effect); break;
    case KS_EFFECT_CLOSE: close_reader(world, process, effect->lease.shard); break;
    case KS_EFFECT_FORGET:
        oracle_forget(world, process, effect);
        process->readers[effect->lease.shard].forgot = effect->lease.number;
        break;
    case KS_EFFECT_DELIVER:
        if (effect->deliver.shard == KS_SHARD_NONE)
            world_redrive_deliver(world, process, effect, now);
        else
            oracle_deliver(world, process, effect, now);
        world_filter_delivered(world, process, effect);
        world_app_deliver(world, process, effect->deliver.session, effect);
        break;
    case KS_EFFECT_WAKE:
    case KS_EFFECT_OPENED:
    case KS_EFFECT_NOT_OPENED:
    case KS_EFFECT_SESSION_ENDED:
    case KS_EFFECT_SETTLED:
    case KS_EFFECT_PERSISTED:
    case KS_EFFECT_STORY:
    case KS_EFFECT_DRAINED:
    case KS_EFFECT_REFUSED:
    case KS_EFFECT_BURY:
    case KS_EFFECT_LETTER:
    case KS_EFFECT_LETTER_OVER:
    case KS_EFFECT_LOCK:
    case KS_EFFECT_OPERATED:
    case KS_EFFECT_SOUGHT: perform_more(world, process, effect, event); break;
    }
}

static void perform_more(struct world *world, struct process *process,
                         const struct ks_effect *effect, const struct ks_event *event)
{
    uint32_t session = effect->session.session;

    switch (effect->kind) {
    case KS_EFFECT_WAKE: world_app_wake(world, process, session); break;
    case KS_EFFECT_OPENED:
        oracle_opened(world, process, event, session, effect->session.session_epoch);
        world_filter_opened(world, process, event, effect->session.session);
        world_app_opened(world, process, session, effect->session.session_epoch);
        break;
    case KS_EFFECT_NOT_OPENED:
        process->truth.answers++;
        world_app_not_opened(world, process, effect->session.why_not);
        break;
    case KS_EFFECT_SESSION_ENDED:
        oracle_ended(world, process, session);
        world_app_ended(world, process, session, effect->session.why);
        break;
    case KS_EFFECT_SETTLED: process->truth.answers++; break;
    case KS_EFFECT_PERSISTED: oracle_persisted(world, process, effect); break;
    case KS_EFFECT_STORY: oracle_story(world, process, effect); break;
    case KS_EFFECT_DRAINED:
        oracle_drained(world, process);
        process->over = true;
        break;
    case KS_EFFECT_REFUSED: process->over = true; break;
    case KS_EFFECT_LOCK: world_lock_write(world, process, effect->lock.boot); break;
    case KS_EFFECT_OPERATED: process->truth.answers++; break;
    case KS_EFFECT_SOUGHT: oracle_sought(world, process, effect); break;
    case KS_EFFECT_BURY: world_letters_bury(world, process, effect); break;
    case KS_EFFECT_LETTER: world_redrive_letter(world, process, effect); break;
    case KS_EFFECT_LETTER_OVER: world_redrive_over(world, process, effect); break;
    case KS_EFFECT_STORE:
    case KS_EFFECT_LIST:
    case KS_EFFECT_OPEN:
    case KS_EFFECT_READ:
    case KS_EFFECT_CLOSE:
    case KS_EFFECT_FORGET:
    case KS_EFFECT_DELIVER: assert(false);
    }
}

void shell_step(struct world *world, struct process *process, const struct ks_event *event)
{
    static struct ks_effects effects;
    ks_instant now = shell_clock(world, process);

    if (world->failed || process->over)
        return;
    story_event(world, process, event);
    effects.count = 0;
    numbers_step(&process->numbers, process->core, now, event, &effects);
    world->steps++;
    if (world->swarm.checks)
        ks_core_check(process->core);
    oracle_stepped(world, process, event, &effects, now);
    for (uint32_t i = 0; i < effects.count && !world->failed; i++) {
        story_effect(world, process, &effects.items[i]);
        perform(world, process, &effects.items[i], event, now);
    }
    oracle_performed(world, process);
}

/* ---- Turns ---- */

static void begin_turn(struct world *world, struct process *process)
{
    oracle_turn(world, process, shell_clock(world, process));
    for (uint32_t i = 0; world->swarm.tick_first && i < 100 && is_due(world, process); i++)
        tick(world, process);
}

static void end_turn(struct world *world, struct process *process)
{
    if (world->failed || !process->alive)
        return;
    if (process->over) {
        shell_stop(world, process);
        faults_restart(world, process);
        return;
    }
    sleep_until_deadline(world, process);
}

static void turn(struct world *world, struct process *process, const struct happening *happening)
{
    switch (happening->kind) {
    case HAPPENS_TICK:
        if (is_due(world, process))
            tick(world, process);
        break;
    case HAPPENS_ANSWER:
    case HAPPENS_TIMEOUT:
        store_answers(world, process, world->requests[happening->request],
                      happening->kind == HAPPENS_TIMEOUT);
        break;
    case HAPPENS_LISTED: listed(world, process); break;
    case HAPPENS_READ: read_answers(world, process, happening->shard, happening->serial); break;
    case HAPPENS_CONSUMER: world_app_act(world, process, happening); break;
    case HAPPENS_JOB: world_app_settle(world, process, happening); break;
    case HAPPENS_CHANGED:
        process->changed = false;
        shell_step(world, process, &(struct ks_event){.kind = KS_EVENT_CHANGED});
        break;
    case HAPPENS_LOCKED: world_lock_written(world, process, happening->epoch); break;
    case HAPPENS_BURIED: world_letters_buried(world, process, happening); break;
    case HAPPENS_LETTER: world_redrive_told(world, process, happening); break;
    case HAPPENS_HURRY:
        process->patience_at = shell_clock(world, process);
        shell_step(world, process, &(struct ks_event){.kind = KS_EVENT_HURRY});
        break;
    case HAPPENS_ARRIVE:
    case HAPPENS_START:
    case HAPPENS_PUT:
    case HAPPENS_RESHARD:
    case HAPPENS_EXPIRE:
    case HAPPENS_PAUSE:
    case HAPPENS_KILL:
    case HAPPENS_CUT:
    case HAPPENS_BLIND:
    case HAPPENS_DOWN:
    case HAPPENS_DAMAGE:
    case HAPPENS_DRAIN:
    case HAPPENS_TWIN:
    case HAPPENS_THROTTLE:
    case HAPPENS_HOLIDAY:
    case HAPPENS_SCALE:
    case HAPPENS_DEPLOY:
    case HAPPENS_OPERATOR:
    case HAPPENS_ORDER:
    case HAPPENS_REDRIVE:
    case HAPPENS_PEACE:
    case HAPPENS_LOOK: assert(false);
    }
}

void shell_turn(struct world *world, const struct happening *happening)
{
    struct process *process = &world->processes[happening->process];
    bool of_request = happening->kind == HAPPENS_ANSWER || happening->kind == HAPPENS_TIMEOUT;

    if (process->alive && process->life == happening->life) {
        if (world->now < process->paused_until) {
            /* It finds all this when it wakes, more or less in the order in which it came; its apps may be first. */
            bool app = happening->kind == HAPPENS_CONSUMER || happening->kind == HAPPENS_JOB;
            sim_time first = app || process->paused_until % 2 == 0 ? 0 : 200;
            sim_time at =
                process->paused_until + first + (sim_time)ks_prng_below(&world->prng, 200);

            if (happening->kind == HAPPENS_TICK && process->tick_at == world->now)
                process->tick_at = at;
            agenda_add(&world->agenda, at, happening);
            return;
        }
        if (happening->kind != HAPPENS_TICK || process->tick_at == world->now) {
            begin_turn(world, process);
            turn(world, process, happening);
            world_filter_judge(world, process);
            end_turn(world, process);
        }
    }
    if (of_request)
        world_request_done(world, world->requests[happening->request]);
}

void shell_tell(struct world *world, struct process *process, const struct ks_event *event)
{
    begin_turn(world, process);
    shell_step(world, process, event);
    end_turn(world, process);
}
