/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the KCL: the conditions and updates of adapters/dialects/kcl.c, and what must hold of them. */
#include "shared_member.h"

#include <string.h>

static bool has_row(const struct shared_world *world, ks_shard shard)
{
    return world->rows[shard].present || world->shards[shard].ended;
}

uint64_t shared_begin_of(const struct shared_world *world, ks_shard shard, sim_time began)
{
    const struct shared_row *row = &world->rows[shard];

    switch (row->begin) {
    case SHARED_TRIM_HORIZON: return 0;
    case SHARED_LATEST:
        return shared_stream_at(world, shard, row->since == SHARED_NEVER ? began : row->since);
    case SHARED_AT_TIMESTAMP: return shared_stream_at(world, shard, world->at);
    }
    return 0;
}

static sim_time lease_us(const struct shared_world *world)
{
    return world->config.lease_duration.us;
}

/* As ports/rows_streams.c: whose it is, and no more. */
static void tell_row_elsewhere(const struct shared_world *world, struct shared_request *request,
                               ks_shard shard)
{
    const struct shared_row *row = &world->rows[shard];
    struct ks_lease_row *told = &request->rows[request->row_count++];

    *told = (struct ks_lease_row){.shard = shard,
                                  .parents = {KS_SHARD_NONE, KS_SHARD_NONE},
                                  .rev = row->counter,
                                  .finished = row->checkpoint == SHARED_END,
                                  .damaged = row->damage != SHARED_SOUND,
                                  .elsewhere = true,
                                  .unserved = !shared_reads_all(world, request->node)};
    if (told->damaged)
        return;
    told->owner.worker = row->owner;
    told->next_owner.worker = row->next;
}

static void tell_row(const struct shared_world *world, struct shared_request *request,
                     ks_shard shard)
{
    const struct shared_row *row = &world->rows[shard];

    if (!row->present)
        return;
    if (world->shards[shard].stream != shared_stream_of(world, request->node)) {
        tell_row_elsewhere(world, request, shard);
        return;
    }
    if (row->damage != SHARED_SOUND) {
        request->rows[request->row_count++] = (struct ks_lease_row){
            .shard = shard, .parents = {KS_SHARD_NONE, KS_SHARD_NONE}, .damaged = true};
        return;
    }
    request->rows[request->row_count] = (struct ks_lease_row){
        .shard = shard,
        .owner = {row->owner, 0},
        .next_owner = {row->next, 0},
        .rev = row->counter,
        .parents = {world->shards[shard].parents[0], world->shards[shard].parents[1]},
        .ranged = row->ranged,
        .unranged = !row->ranged,
        .first_key = {world->shards[shard].first_key, 0},
        .last_key = {world->shards[shard].last_key, UINT64_MAX},
        .finished = row->checkpoint == SHARED_END,
        .unstarted = row->checkpoint == SHARED_NONE,
    };
    request->checkpoints[request->row_count++] = row->checkpoint == SHARED_NONE
                                                     ? shared_begin_of(world, shard, request->began)
                                                     : row->checkpoint;
}

/* Its owner renewed it lately: whoever takes it now steals. By the clocks of owner and taker, each wrong by up to 2 %,
 * the owner is silent after 0.97 L, and it has run out after 0.98 L. */
static bool is_live(const struct shared_world *world, const struct shared_row *row)
{
    return row->present && row->owner != 0 && row->checkpoint != SHARED_END &&
           world->now - row->moved_at < lease_us(world) * 975 / 1000;
}

/* To whoever asks: what was closed before the application began there is none of its business, as far as it saw. */
static bool is_old_to(const struct shared_world *world, const struct shared_node *node,
                      ks_shard shard)
{
    const struct shared_shard *stream = &world->shards[shard];

    return shared_is_old(world, shard) ||
           (stream->closed && shared_begun_at(world, shard) > node->looked_at &&
            (world->initial == SHARED_LATEST ||
             (world->initial == SHARED_AT_TIMESTAMP && stream->closed_at < world->at)));
}

/* Parents before children; and whoever begins below a row that it saw reads from the start: nothing in between is
 * passed over. */
static void check_begin(struct shared_world *world, const struct shared_request *request)
{
    const struct shared_node *node = &world->nodes[request->node];
    ks_shard shard = request->ask.shard;

    if (request->ask.operation != KS_STORE_CREATE)
        return;
    for (ks_shard parent = 0; parent < shard; parent++)
        if (shared_is_parent(world, parent, shard) && !has_row(world, parent) &&
            !is_old_to(world, node, parent))
            shared_fail(world, "shard-%u: its row is made before that of its parent", shard);
    if (request->begin == SHARED_LATEST && shared_begun_at(world, shard) <= node->looked_at)
        shared_fail(world, "shard-%u: a row below another begins at the latest", shard);
}

static void asked(struct shared_world *world, const struct shared_request *request)
{
    const struct shared_node *node = &world->nodes[request->node];
    sim_time *stole_at = &world->nodes[shared_worker_of(world, request->node)].stole_at;
    const struct shared_row *row;

    if (request->ask.shard >= SHARED_SHARDS)
        return;
    row = &world->rows[request->ask.shard];
    if (node->unread[request->ask.shard] && request->ask.operation >= KS_STORE_FIRST_WRITE)
        shared_fail(world, "shard-%u: w%u writes what it cannot read", request->ask.shard,
                    request->ask.worker.worker);
    if (world->shards[request->ask.shard].stream != shared_stream_of(world, request->node))
        shared_fail(world, "shard-%u: w%u asks for a row of another stream", request->ask.shard,
                    request->ask.worker.worker);
    check_begin(world, request);
    kcl_asked(world, request);
    if (request->ask.operation != KS_STORE_TAKE_OVER || row->counter != request->ask.rev ||
        row->owner == request->ask.worker.worker || !is_live(world, row))
        return;
    if (*stole_at != 0 && world->now - *stole_at < lease_us(world) * 19 / 10)
        shared_fail(world, "shard-%u: w%u steals twice in a cycle", request->ask.shard,
                    request->ask.worker.worker);
    *stole_at = world->now;
    world->claimed++;
}

static void made(struct shared_world *world, ks_shard shard)
{
    struct shared_shard *stream = &world->shards[shard];
    const struct shared_row *row = &world->rows[shard];

    if (stream->ended)
        shared_fail(world, "shard-%u: its row is made again", shard);
    if (row->begin != world->initial && !shared_has_begun(world, shard))
        shared_fail(world, "shard-%u: a row without one above it begins at the oldest", shard);
    /* What came of a row that was long under way is known to nobody: what is to be read above is, here, too. */
    if (row->begin == SHARED_LATEST)
        stream->due_at = shared_due_above(world, shard);
    stream->row_at = world->now;
    if (row->begin == SHARED_TRIM_HORIZON)
        stream->due_at = INT64_MIN;
    if (row->begin == SHARED_AT_TIMESTAMP)
        stream->due_at = world->at;
}

/* What comes from now on is read, whoever begins it: a promise of ours alone. */
static void promised(struct shared_world *world, ks_shard shard)
{
    struct shared_shard *stream = &world->shards[shard];
    const struct shared_row *row = &world->rows[shard];

    if (row->present && row->begin == SHARED_LATEST && row->checkpoint == SHARED_NONE &&
        stream->due_at > world->now)
        stream->due_at = world->now;
}

static void check_end(struct shared_world *world, ks_shard shard)
{
    if (!world->shards[shard].closed)
        shared_fail(world, "shard-%u: SHARD_END of an open shard", shard);
    for (ks_shard child = 0; child < world->shard_count; child++)
        if (shared_is_parent(world, shard, child) && !has_row(world, child) &&
            !shared_is_old(world, child))
            shared_fail(world, "shard-%u: SHARD_END before the row of shard-%u", shard, child);
}

static void check_deleted(struct shared_world *world, ks_shard shard)
{
    for (ks_shard child = 0; child < world->shard_count; child++)
        if (shared_is_parent(world, shard, child) && !world->shards[child].ended &&
            !shared_is_gone(world, child) &&
            (!world->rows[child].present || world->rows[child].checkpoint == SHARED_NONE))
            shared_fail(world, "shard-%u: deleted before shard-%u was begun", shard, child);
}

void kcl_changed(struct shared_world *world, ks_shard shard, const struct shared_row *before)
{
    struct shared_row *after = &world->rows[shard];
    const uint64_t place =
        after->checkpoint == SHARED_END ? world->shards[shard].count : after->checkpoint;

    world->hash = (world->hash ^ (after->owner + after->counter + after->checkpoint)) *
                  UINT64_C(0x100000001b3);
    world->shards[shard].ended |= after->checkpoint == SHARED_END;
    if (!before->present)
        made(world, shard);
    if (!after->present) {
        check_deleted(world, shard);
        return;
    }
    if (before->present && after->counter != before->counter + 1)
        shared_fail(world, "shard-%u: the counter did not move on by one", shard);
    if (before->present && before->checkpoint != SHARED_NONE &&
        (after->checkpoint == SHARED_NONE || after->checkpoint < before->checkpoint))
        shared_fail(world, "shard-%u: a checkpoint went back", shard);
    if (after->checkpoint != SHARED_NONE && after->checkpoint != before->checkpoint &&
        !shared_is_settled(world, shard, place))
        shared_fail(world, "shard-%u: a checkpoint passed an unsettled record", shard);
    if (after->checkpoint == SHARED_END && before->checkpoint != SHARED_END)
        check_end(world, shard);
    after->moved_at = world->now;
    if (after->owner != 0)
        after->last = after->owner;
    if (after->owner == before->owner || is_live(world, before) || world->kcl.forced)
        return;
    /* Who was robbed before may go on until it hears of it, or its time is over. */
    for (uint32_t node = 0; node < SHARED_NODES; node++)
        if (world->nodes[node].core != NULL && world->nodes[node].name == before->last &&
            shared_may_deliver(world, node, shard))
            shared_fail(world,
                        "shard-%u changed hands from w%u to w%u while node %u may deliver it",
                        shard, before->owner, after->owner, node);
}

/* Who gives it away is done with it, whatever comes of the write. */
static void hand_on(struct shared_world *world, uint32_t node, ks_shard shard)
{
    struct shared_row *row = &world->rows[shard];

    if (world->nodes[node].core != NULL && world->nodes[node].name == row->owner &&
        shared_may_deliver(world, node, shard))
        shared_fail(world, "shard-%u: handed on by w%u, which may deliver it", shard, row->owner);
    world->claimed += row->next != 0;
    row->owner = row->next;
    row->next = 0;
}

/* What conditions see of a damage; and what is written is sound again. */
static bool is_refused(const struct ks_store_effect *ask, struct shared_row *row,
                       bool has_checkpoint)
{
    const bool ends = ask->operation == KS_STORE_END;

    if (row->damage == SHARED_OF_ANOTHER_KIND || (row->damage == SHARED_OWNER_NULL && !ends) ||
        (row->damage == SHARED_PLACE_NULL && ask->operation == KS_STORE_DELETE))
        return true;
    if (ends || has_checkpoint)
        row->damage = SHARED_SOUND;
    return false;
}

static bool perform(struct shared_world *world, struct shared_request *request)
{
    const struct ks_store_effect *ask = &request->ask;
    struct shared_row *row = &world->rows[ask->shard];

    if (ask->operation == KS_STORE_CREATE) {
        if (row->present)
            return false;
        *row = (struct shared_row){.present = true,
                                   .checkpoint = SHARED_NONE,
                                   .begin = request->begin,
                                   .since = request->began,
                                   .ranged = true};
        return true;
    }
    if (ask->operation == KS_STORE_FILL) {
        if (!row->present || row->ranged || is_refused(ask, row, false))
            return false;
        row->ranged = true;
        return true;
    }
    if (ask->operation == KS_STORE_DELETE) {
        if (!row->present || row->checkpoint != SHARED_END || is_refused(ask, row, false))
            return false;
        row->present = false;
        return true;
    }
    if (!row->present || row->counter != ask->rev || row->next != ask->next_owner.worker ||
        is_refused(ask, row, request->has_checkpoint))
        return false;
    row->counter++;
    switch ((int)ask->operation) {
    case KS_STORE_ASSIGN:
    case KS_STORE_TAKE_OVER:
        row->owner = ask->worker.worker;
        row->next = 0;
        if (row->since == SHARED_NEVER)
            row->since = request->began;
        world->taken++;
        return true;
    case KS_STORE_CHECKPOINT: break;
    case KS_STORE_FINAL: hand_on(world, request->node, ask->shard); break;
    case KS_STORE_END:
        row->owner = row->next = 0;
        row->checkpoint = SHARED_END;
        return true;
    default: shared_fail(world, "operation %d is not of this table", (int)ask->operation);
    }
    if (request->has_checkpoint)
        row->checkpoint = request->checkpoint;
    return true;
}

static void apply(struct shared_world *world, struct shared_request *request)
{
    struct shared_row before;
    const struct shared_row *row;

    request->row_count = 0;
    request->outcome = KS_DONE;
    if (kcl_apply(world, request))
        return;
    if (request->ask.operation == KS_STORE_READ_LEASES) {
        request->told_at = world->now;
        for (ks_shard shard = 0; shard < SHARED_SHARDS; shard++)
            tell_row(world, request, shard);
        return;
    }
    if (request->ask.operation == KS_STORE_READ_LEASE) {
        tell_row(world, request, request->ask.shard);
        return;
    }
    row = &world->rows[request->ask.shard];
    before = *row;
    request->outcome = perform(world, request) ? KS_DONE : KS_REFUSED;
    shared_say(world,
               "table: w%u operation %d of shard-%u: %s (w%u, counter %llu, checkpoint %lld)",
               request->ask.worker.worker, (int)request->ask.operation, request->ask.shard,
               request->outcome == KS_DONE ? "done" : "refused", row->owner,
               (unsigned long long)row->counter, (long long)row->checkpoint);
    if (request->outcome != KS_DONE || request->ask.operation == KS_STORE_FILL)
        return;
    kcl_changed(world, request->ask.shard, &before);
    promised(world, request->ask.shard);
}

static void answered(struct shared_world *world, struct shared_node *node,
                     struct shared_request *request)
{
    (void)world;
    if (request->ask.operation == KS_STORE_READ_LEASES)
        node->looked_at = request->told_at;
}

void shared_damage(struct shared_world *world)
{
    const ks_shard shard = (ks_shard)ks_prng_below(&world->prng, world->shard_count);
    struct shared_row *row = &world->rows[shard];

    if (!row->present || row->damage != SHARED_SOUND)
        return;
    row->damage = (enum shared_damage)ks_prng_between(&world->prng, SHARED_OF_ANOTHER_KIND,
                                                      SHARED_PLACE_NULL);
    shared_say(world, "world: the row of shard-%u is damaged (%d)", shard, (int)row->damage);
    agenda_add(&world->agenda,
               world->now + ks_prng_between(&world->prng, SIM_SECOND, 30 * SIM_SECOND),
               &(struct happening){.kind = HAPPENS_DAMAGE, .shard = shard});
}

void shared_mend(struct shared_world *world, ks_shard shard)
{
    struct shared_row *row = &world->rows[shard];

    if (row->damage != SHARED_SOUND)
        shared_say(world, "world: the row of shard-%u is mended", shard);
    row->damage = SHARED_SOUND;
}

/* Applications begin anywhere, in streams that had a life before them. */
static void draw(struct shared_world *world)
{
    static const enum shared_begin begins[] = {SHARED_TRIM_HORIZON, SHARED_LATEST,
                                               SHARED_AT_TIMESTAMP};

    world->merges = true;
    world->initial = begins[ks_prng_below(&world->prng, 3)];
    world->at = ks_prng_between(&world->prng, -100 * SIM_SECOND, 0);
    if (world->initial == SHARED_AT_TIMESTAMP)
        world->oldest = world->at;
    if (world->initial == SHARED_LATEST)
        world->oldest = -3 * SIM_SECOND; /* As late as listings are. */
    if (shared_chance(world, 300))
        world->retention = ks_prng_between(&world->prng, 90 * SIM_SECOND, 150 * SIM_SECOND);
    world->damages = shared_chance(world, 300) ? 100 : 0;
    world->unranged = shared_chance(world, 300);
    world->tardy = shared_chance(world, 500) ? 500 : 0;
    world->config.latest = world->initial == SHARED_LATEST;
    shared_stream_age(world);
    /* The application was members' alone before. */
    if (shared_chance(world, 300))
        kcl_sync(world);
}

/* As auditors of members would have it. */
static bool is_done(const struct shared_world *world, ks_shard shard)
{
    const struct shared_row *row = &world->rows[shard];

    return !row->present || row->ranged || row->checkpoint == SHARED_END || world->member_count > 0;
}

const struct shared_fleet shared_kcl = {
    .protocol = KS_PROTOCOL_KCL,
    .kept = true,
    .drift_ppm = 20000,
    .peace_s = 400, /* A lease goes to who has none every 20 s. */
    .asked = asked,
    .apply = apply,
    .answered = answered,
    .member = kcl_member_turn,
    .draw = draw,
    .is_done = is_done,
};

const struct shared_fleet shared_kcl_streams = {
    .protocol = KS_PROTOCOL_KCL,
    .streams = SHARED_STREAMS,
    .kept = true,
    .drift_ppm = 20000,
    .peace_s = 400,
    .asked = asked,
    .apply = apply,
    .answered = answered,
    .member = kcl_member_turn,
    .draw = draw,
    .is_done = is_done,
};

const struct shared_fleet shared_kcl3 = {
    .protocol = KS_PROTOCOL_KCL,
    .kept = true,
    .led = true,
    .drift_ppm = 20000,
    .peace_s = 600,
    .asked = asked,
    .apply = apply,
    .answered = answered,
    .member = kcl_member_turn,
    .draw = draw,
    .is_done = is_done,
};

const struct shared_fleet shared_kcl3_streams = {
    .protocol = KS_PROTOCOL_KCL,
    .streams = SHARED_STREAMS,
    .kept = true,
    .led = true,
    .drift_ppm = 20000,
    .peace_s = 600,
    .asked = asked,
    .apply = apply,
    .answered = answered,
    .member = kcl_member_turn,
    .draw = draw,
    .is_done = is_done,
};
