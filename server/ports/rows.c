/* SPDX-License-Identifier: Apache-2.0 */
#include "ports/rows.h"

#include "base/budget.h"
#include "base/codec.h"
#include "base/log.h"
#include "ports/batches.h"
#include "ports/rows_fleet.h"
#include "ports/rows_mixed.h"
#include "ports/rows_streams.h"

#include <assert.h>
#include <string.h>

/* Workers that are gone stand in lease rows still, or had a row a moment ago. */
enum { NAMES_FOR_A_ROW = 4 };

ks_err ks_rows_init(struct ks_rows *rows, uint32_t shards_max, uint32_t workers_max,
                    const char *worker_id, void (*touch)(void *arg, ks_instant now), void *arg)
{
    ks_err err;

    *rows = (struct ks_rows){.shards_max = shards_max, .workers_max = workers_max};
    rows->touch = touch;
    rows->arg = arg;
    rows->sweep_at = KS_LONG_AGO;
    rows->looked_at = KS_LONG_AGO;
    /* Each shard is in about two tokens at once, and a fleet has its own limit on top. */
    rows->token_capacity = 2 * shards_max + 4 * KS_TOKENS_MAX;

    /* Rows of other streams have names, too. Of all this only what is used takes memory. */
    err = ks_names_init(&rows->shards, 0, shards_max, KS_LEASE_KEY_MAX);
    if (ks_ok(err))
        err = ks_names_init(&rows->workers, 1, NAMES_FOR_A_ROW * workers_max + 1, KS_WORKER_ID_MAX);
    rows->words = ks_alloc(shards_max * sizeof *rows->words);
    rows->leases = ks_alloc(shards_max * sizeof *rows->leases);
    rows->fleet = ks_alloc(workers_max * sizeof *rows->fleet);
    rows->listing = ks_alloc(shards_max * sizeof *rows->listing);
    rows->list = ks_alloc(shards_max * sizeof *rows->list);
    rows->ids = ks_alloc(shards_max * sizeof *rows->ids);
    ks_bytes_init(&rows->list_text, (size_t)shards_max * (KS_SHARD_ID_MAX + 1));
    rows->tokens = ks_alloc(rows->token_capacity * sizeof *rows->tokens);
    rows->gives = ks_alloc(KS_TOKENS_MAX * sizeof *rows->gives);
    rows->takes = ks_alloc(KS_TOKENS_MAX * sizeof *rows->takes);
    if (ks_ok(err) && (rows->words == NULL || rows->leases == NULL || rows->fleet == NULL ||
                       rows->listing == NULL || rows->list == NULL || rows->ids == NULL ||
                       rows->tokens == NULL || rows->gives == NULL || rows->takes == NULL))
        err = KS_FAIL(NO_MEMORY);
    if (ks_ok(err))
        err = ks_names_add(&rows->workers, ks_view_text(worker_id), KS_NEVER, &rows->self);
    if (!ks_ok(err))
        ks_rows_free(rows);
    return err;
}

void ks_rows_free(struct ks_rows *rows)
{
    ks_names_free(&rows->shards);
    ks_names_free(&rows->workers);
    ks_free(rows->words);
    ks_free(rows->leases);
    ks_free(rows->fleet);
    ks_free(rows->listing);
    ks_free(rows->list);
    ks_free(rows->ids);
    ks_bytes_free(&rows->list_text);
    ks_free(rows->tokens);
    ks_free(rows->gives);
    ks_free(rows->takes);
    *rows = (struct ks_rows){.self = 0};
}

/* ---- Text ---- */

static void incarnation_text(const struct ks_rows *rows, struct ks_incarnation incarnation,
                             struct ks_incarnation_text *ret)
{
    const char *id = ks_names_text(&rows->workers, incarnation.worker);

    *ret = (struct ks_incarnation_text){.boot = incarnation.boot};
    memcpy(ret->id, id, strlen(id) + 1);
}

/* ---- The family of a shard. ---- */

static void add_child(struct ks_rows *rows, ks_shard parent, ks_shard child)
{
    struct ks_shard_words *words = &rows->words[parent];

    for (uint32_t i = 0; i < KS_CHILDREN_MAX; i++) {
        if (words->children[i] == child)
            return;
        if (words->children[i] == KS_SHARD_NONE) {
            words->children[i] = child;
            return;
        }
    }
}

/* Keeps the parents of `shard` and gives their numbers. False if one of them has none. */
static bool note_parents(struct ks_rows *rows, ks_shard shard,
                         const char parents[KS_PARENTS_MAX][KS_SHARD_ID_MAX + 1], ks_instant now,
                         ks_shard ret_parents[KS_PARENTS_MAX])
{
    for (uint32_t i = 0; i < KS_PARENTS_MAX; i++) {
        ret_parents[i] = KS_SHARD_NONE;
        if (parents[i][0] == '\0')
            continue;
        if (!ks_rows_shard(rows, ks_view_text(parents[i]), now, &ret_parents[i]))
            return false;
        rows->words[shard].parents[i] = ret_parents[i];
        add_child(rows, ret_parents[i], shard);
    }
    return true;
}

void ks_rows_note_child(struct ks_rows *rows, ks_shard shard, const char *child, ks_instant now)
{
    ks_shard number;

    if (child[0] != '\0' && ks_rows_shard(rows, ks_view_text(child), now, &number))
        add_child(rows, shard, number);
}

static void note_range(struct ks_shard_words *words, const char *start, const char *end)
{
    /* Half a range, as damaged rows have it, is none. */
    if (start[0] == '\0' || end[0] == '\0')
        return;
    memcpy(words->hash_start, start, strlen(start) + 1);
    memcpy(words->hash_end, end, strlen(end) + 1);
}

/* A range of hash keys in numbers. False if it is not said, or is none. */
static bool range_of(const char *start, const char *end, struct ks_hash_key *ret_first,
                     struct ks_hash_key *ret_last)
{
    struct ks_hash_key first;
    struct ks_hash_key last;

    if (!ks_ok(ks_view_u128(ks_view_text(start), &first.high, &first.low)) ||
        !ks_ok(ks_view_u128(ks_view_text(end), &last.high, &last.low)))
        return false;
    if (first.high > last.high || (first.high == last.high && first.low > last.low))
        return false;
    *ret_first = first;
    *ret_last = last;
    return true;
}

void ks_rows_share(struct ks_rows *rows, const struct ks_position *start, bool stealing,
                   ks_span worker_age)
{
    rows->foreign = true;
    rows->stealing = stealing;
    rows->worker_age = worker_age;
    rows->app = (struct ks_store_app){.present = true, .start = *start};
}

void ks_rows_keep(struct ks_rows *rows, const struct ks_position *initial, int64_t began_ms)
{
    rows->kept = true;
    rows->initial = *initial;
    rows->began_ms = began_ms;
}

void ks_rows_date(struct ks_rows *rows, int64_t now_ms)
{
    assert(now_ms > 0);

    rows->began_ms = now_ms;
    if (rows->app.start.kind != KS_POSITION_LATEST)
        return;
    rows->app.start.kind = KS_POSITION_AT_TIMESTAMP;
    rows->app.start.timestamp_ms = now_ms;
}

void ks_rows_mask(struct ks_rows *rows)
{
    rows->masking = true;
}

/* ---- Answers. ---- */

static bool any_parent_has_row(const struct ks_rows *rows, const struct ks_shard_words *words)
{
    for (uint32_t i = 0; i < KS_PARENTS_MAX; i++) {
        const struct ks_shard_words *parent = ks_rows_words(rows, words->parents[i]);

        if (parent != NULL && parent->has_row)
            return true;
    }
    return false;
}

/* A place in a table that knows no start: as PROTOCOL A8 has it. */
static struct ks_position start_of(const struct ks_rows *rows, const struct ks_shard_words *words)
{
    struct ks_position start = {.kind = KS_POSITION_TRIM_HORIZON, .sub_sequence = -1};

    return any_parent_has_row(rows, words) ? start : rows->app.start;
}

/* A row that names a record, and no place inside it, is past all of it. */
static bool is_behind(const struct ks_position *a, const struct ks_position *b)
{
    int order;

    if (b->kind != KS_POSITION_AFTER_SEQUENCE || a->kind == KS_POSITION_SHARD_END)
        return false;
    if (a->kind != KS_POSITION_AFTER_SEQUENCE)
        return true;
    order = ks_position_compare(ks_view_text(a->sequence), 0, ks_view_text(b->sequence), 0);
    return order < 0 || (order == 0 && a->sub_sequence >= 0 && a->sub_sequence < b->sub_sequence);
}

static bool same_place(const struct ks_position *a, const struct ks_position *b)
{
    return a->kind == b->kind && strcmp(a->sequence, b->sequence) == 0;
}

/* What a start position of a row means to us. Its members do not write down which time it is; we do, of LATEST, for
 * whoever of us begins there next must not pass over what came meanwhile. */
static void note_start(const struct ks_rows *rows, struct ks_shard_words *words)
{
    struct ks_position *const position = &words->checkpoint;
    const bool at_time = position->kind == KS_POSITION_AT_TIMESTAMP;

    words->undated = position->kind == KS_POSITION_LATEST && position->timestamp_ms == 0;
    if (position->kind != KS_POSITION_LATEST && !at_time)
        return;
    if (at_time && rows->initial.kind != KS_POSITION_AT_TIMESTAMP) {
        position->kind = KS_POSITION_TRIM_HORIZON;
        return;
    }
    position->kind = KS_POSITION_AT_TIMESTAMP;
    if (at_time || words->undated)
        position->timestamp_ms = at_time ? rows->initial.timestamp_ms : rows->began_ms;
}

static void note_kept(const struct ks_rows *rows, ks_shard shard, struct ks_shard_words *words,
                      const struct ks_store_lease *lease)
{
    words->row_whole = lease->checkpoint;
    note_start(rows, words);
    if (lease->prepared && !words->prepared)
        ks_info("%s: its row has a checkpoint that a member prepared and did not commit: it is "
                "begun at the committed one, and our first checkpoint removes the other",
                ks_names_text(&rows->shards, shard));
    words->prepared = lease->prepared;
}

/* Members write their checkpoints without any condition: what we made durable may be overwritten by an older one of a
 * member that does not know that its lease is over. */
static void note_foreign(const struct ks_rows *rows, struct ks_shard_words *words,
                         const struct ks_store_lease *lease)
{
    bool latest = lease->checkpoint.kind == KS_POSITION_LATEST;

    words->moved = !same_place(&words->row_whole, &lease->whole);
    words->unstarted = lease->unstarted;
    words->masked = lease->masked;
    words->row_whole = lease->whole;
    if (lease->unstarted)
        words->checkpoint = start_of(rows, words);
    if (latest && words->latest_ms == 0)
        words->latest_ms = rows->stream_ms;
    if (latest)
        words->checkpoint = (struct ks_position){
            .kind = KS_POSITION_AT_TIMESTAMP, .timestamp_ms = words->latest_ms, .sub_sequence = -1};
    words->behind = words->has_own && is_behind(&words->checkpoint, &words->own);
    if (words->behind)
        words->checkpoint = words->own;
}

struct ks_position ks_rows_whole(const struct ks_shard_words *words)
{
    return words->behind && words->own.sub_sequence < 0 ? words->own : words->row_whole;
}

/* A start that the stream's clock has not reached was written by a wrong clock: what arrives until then would be passed
 * over. It begins where the stream's clock was when the row was first seen so. */
static void not_to_come(const struct ks_rows *rows, const char *whose, struct ks_position *start,
                        struct ks_rows_start *early)
{
    enum { APART_MS = 5000 }; /* What two readings of the stream's clock differ in. */
    char said[KS_TIMESTAMP_SIZE];
    char clock[KS_TIMESTAMP_SIZE];

    if (start->kind != KS_POSITION_AT_TIMESTAMP || rows->stream_ms == 0)
        return;
    if (early->said_ms != start->timestamp_ms && start->timestamp_ms > rows->stream_ms + APART_MS) {
        *early = (struct ks_rows_start){start->timestamp_ms, rows->stream_ms};
        ks_timestamp_format(start->timestamp_ms, said);
        ks_timestamp_format(rows->stream_ms, clock);
        ks_warn(
            "%s: its row begins at %s, which the stream's clock (%s) has not reached; beginning "
            "at the stream's time",
            whose, said, clock);
    }
    if (early->said_ms == start->timestamp_ms && early->said_ms != 0)
        start->timestamp_ms = early->begins_ms;
}

/* Keeps what a lease row says, unless something newer is known. */
static void note_row(struct ks_rows *rows, ks_shard shard, const struct ks_store_lease *lease,
                     bool consistent, ks_instant now, ks_wall wall)
{
    struct ks_shard_words *words = &rows->words[shard];
    /* Shared rows have no epochs; words have ours. */
    bool same = rows->foreign || lease->epoch == words->epoch;
    bool newer = same ? lease->rev >= words->rev : lease->epoch > words->epoch;
    bool known = words->has_row;

    if (lease->damaged && !words->damaged)
        ks_warn("%s: its lease row cannot be read: %s%s", ks_names_text(&rows->shards, shard),
                lease->blame == NULL ? "its key" : "the attribute ",
                lease->blame == NULL ? "" : lease->blame);
    if (rows->foreign && !lease->damaged)
        ks_rows_mixed_lease(rows, shard, words, lease, now, wall);
    words->has_row = true;
    words->read_at = wall;
    words->damaged = lease->damaged;
    if (lease->damaged || !(consistent || newer))
        return;
    if (lease->epoch != words->epoch)
        words->since = known ? wall : (ks_wall){0};
    words->epoch = lease->epoch;
    words->rev = lease->rev;
    words->finished = lease->finished;
    /* One without a number is told to nobody: the row counts as damaged then. */
    words->damaged = !ks_rows_incarnation(rows, &lease->owner, now, &words->owner) ||
                     !ks_rows_incarnation(rows, &lease->next_owner, now, &words->next_owner);
    words->checkpoint = lease->checkpoint;
    if (rows->kept)
        note_kept(rows, shard, words, lease);
    else if (rows->foreign)
        note_foreign(rows, words, lease);
    not_to_come(rows, ks_names_text(&rows->shards, shard), &words->checkpoint, &words->early);
    note_range(words, lease->hash_start, lease->hash_end);
    for (uint32_t i = 0; i < KS_CHILDREN_MAX; i++)
        ks_rows_note_child(rows, shard, lease->children[i], now);
}

static void lease_of(struct ks_rows *rows, ks_shard shard, const struct ks_store_lease *lease,
                     ks_instant now, struct ks_lease_row *ret_row)
{
    struct ks_lease_row row = {
        .shard = shard,
        .epoch = lease->epoch,
        .rev = lease->rev,
        .load = lease->load,
        .parents = {KS_SHARD_NONE, KS_SHARD_NONE},
        .finished = lease->finished,
        .damaged = lease->damaged,
        .stranger = lease->stranger,
        .moved = rows->words[shard].moved,
        .masked = !lease->damaged && lease->masked,
    };

    if (!lease->damaged)
        row.damaged = !ks_rows_incarnation(rows, &lease->owner, now, &row.owner) ||
                      !ks_rows_incarnation(rows, &lease->next_owner, now, &row.next_owner) ||
                      !note_parents(rows, shard, lease->parents, now, row.parents);
    row.unstarted = !lease->finished && lease->checkpoint.kind != KS_POSITION_AFTER_SEQUENCE;
    row.unranged = lease->hash_start[0] == '\0' && lease->hash_end[0] == '\0';
    row.ranged = !lease->damaged &&
                 range_of(lease->hash_start, lease->hash_end, &row.first_key, &row.last_key);
    *ret_row = row;
}

static void leases_of(struct ks_rows *rows, bool all, bool consistent,
                      const struct ks_store_answer *answer, ks_instant now, ks_wall wall,
                      struct ks_event *ret_event)
{
    uint32_t count = 0;
    uint32_t i;

    /* A reader of a replica may miss a row that was just made. */
    for (ks_shard shard = 0; all && consistent && shard < rows->shards.fresh; shard++)
        rows->words[shard].has_row = false;

    for (i = 0; i < answer->lease_count && count < rows->shards_max; i++) {
        const struct ks_store_lease *lease = &answer->leases[i];
        ks_shard shard;

        if (!ks_rows_is_ours(rows, lease)) {
            count += ks_rows_other(rows, lease, now, &rows->leases[count]);
            continue;
        }
        if (!ks_rows_shard(rows, ks_view_text(lease->shard), now, &shard))
            continue;
        note_row(rows, shard, lease, consistent, now, wall);
        lease_of(rows, shard, lease, now, &rows->leases[count++]);
    }
    if (all && i == answer->lease_count)
        rows->looked_at = now;
    ret_event->store.leases = rows->leases;
    ret_event->store.lease_count = count;
}

/* Keys alone: what their rows say is not known by that. */
static void owned_of(struct ks_rows *rows, const struct ks_store_answer *answer, ks_instant now,
                     struct ks_event *ret_event)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < answer->lease_count && count < rows->shards_max; i++) {
        struct ks_lease_row row = {.parents = {KS_SHARD_NONE, KS_SHARD_NONE}};

        if (ks_rows_is_ours(rows, &answer->leases[i]) &&
            ks_rows_shard(rows, ks_view_text(answer->leases[i].shard), now, &row.shard))
            rows->leases[count++] = row;
    }
    ret_event->store.leases = rows->leases;
    ret_event->store.lease_count = count;
}

void ks_rows_answered(struct ks_rows *rows, enum ks_store_operation operation, bool consistent,
                      const struct ks_store_answer *answer, ks_instant now, ks_wall wall,
                      struct ks_event *ret_event)
{
    bool leases = operation == KS_STORE_READ_LEASES || operation == KS_STORE_READ_LEASE;

    ret_event->kind = KS_EVENT_STORE;
    ret_event->store.outcome = answer->outcome;
    if (answer->outcome == KS_UNKNOWN)
        return;
    if ((leases || operation == KS_STORE_READ_OWNED) &&
        !ks_rows_layout(rows, operation == KS_STORE_READ_LEASES && consistent, answer)) {
        ret_event->store.outcome = KS_UNKNOWN;
        return;
    }

    if (!ks_rows_fleet(rows, answer, now, wall, ret_event)) {
        ks_error("%s: its row holds more hand-overs than there is room for (%u), cannot go on",
                 ks_names_text(&rows->workers, rows->self), rows->token_capacity);
        ret_event->store.outcome = KS_UNKNOWN;
        return;
    }
    if (leases)
        leases_of(rows, operation == KS_STORE_READ_LEASES,
                  consistent || operation == KS_STORE_READ_LEASE, answer, now, wall, ret_event);
    if (operation == KS_STORE_READ_OWNED)
        owned_of(rows, answer, now, ret_event);
    ret_event->store.kcl = answer->kcl;
    if (operation == KS_STORE_READ_FLEET || operation == KS_STORE_READ_NEWS)
        ks_rows_leader(rows, &answer->leader, now, &ret_event->store.leader);
    if (operation == KS_STORE_READ_NEWS && answer->list.present &&
        !ks_rows_list(rows, &answer->list, now, &ret_event->store.list))
        ret_event->store.outcome = KS_UNKNOWN;
    if (operation == KS_STORE_READ_FLEET && rows->foreign)
        ks_rows_mixed_workers(rows, answer, now, wall);
    if (operation == KS_STORE_READ_FLEET && !rows->foreign)
        ks_rows_damage(rows, answer);
    if (operation == KS_STORE_READ_FLEET) {
        ret_event->store.app_present = answer->app.present;
        if (answer->app.present) {
            rows->app = answer->app;
            not_to_come(rows, "the application", &rows->app.start, &rows->app_early);
        }
    }
}

int64_t ks_rows_since(const struct ks_rows *rows)
{
    const struct ks_store_app *app = &rows->app;

    /* Where each parent may have a row, its children are wanted, however old they are. */
    if (rows->kept)
        return 0;
    /* Whoever keeps a list of all shards sees all of them. */
    return rows->worker_age.us == 0 && app->present && app->start.kind == KS_POSITION_AT_TIMESTAMP
               ? app->start.timestamp_ms
               : 0;
}

void ks_rows_listed(struct ks_rows *rows, const struct ks_list_answer *answer, ks_instant now,
                    struct ks_event *ret_event)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < answer->count && count < rows->shards_max; i++) {
        const struct ks_shard_listing *listed = &answer->shards[i];
        struct ks_shard_row row = {.shard = KS_SHARD_NONE, .closed = listed->closed};

        if (!ks_rows_shard(rows, ks_view_text(listed->shard), now, &row.shard))
            continue;
        note_range(&rows->words[row.shard], listed->hash_start, listed->hash_end);
        row.ranged = range_of(listed->hash_start, listed->hash_end, &row.first_key, &row.last_key);
        /* Without its parents it must wait: a child is never served before them. */
        if (note_parents(rows, row.shard, listed->parents, now, row.parents))
            rows->listing[count++] = row;
    }
    ret_event->kind = KS_EVENT_LISTED;
    ret_event->listed.ok = true;
    ret_event->listed.shards = rows->listing;
    ret_event->listed.count = count;
}

/* ---- Requests. ---- */

static void tokens_text(const struct ks_rows *rows, const struct ks_lease_token *tokens,
                        uint32_t count, struct ks_store_token *texts)
{
    assert(count <= KS_TOKENS_MAX);

    for (uint32_t i = 0; i < count; i++) {
        const char *shard = ks_names_text(&rows->shards, tokens[i].shard);

        memcpy(texts[i].shard, shard, strlen(shard) + 1);
        texts[i].epoch = tokens[i].epoch;
    }
}

/* One write carries so many of each. A heartbeat that has more to remove: the others still stand in the row then, and
 * are removed by a later one. */
static uint32_t tokens_in(uint32_t count)
{
    return count < KS_TOKENS_MAX ? count : KS_TOKENS_MAX;
}

/* The row of a shard that has none yet (docs/PROTOCOL.md, A8). */
static void create_of(struct ks_rows *rows, ks_shard shard, const struct ks_shard_words *words)
{
    const char *id = ks_names_text(&rows->shards, shard);
    struct ks_store_lease *lease = &rows->create;

    *lease = (struct ks_store_lease){.epoch = 0};
    memcpy(lease->shard, id, strlen(id) + 1);
    for (uint32_t i = 0; i < KS_PARENTS_MAX; i++) {
        const char *parent = ks_names_text(&rows->shards, words->parents[i]);

        memcpy(lease->parents[i], parent, strlen(parent) + 1);
    }
    memcpy(lease->hash_start, words->hash_start, sizeof lease->hash_start);
    memcpy(lease->hash_end, words->hash_end, sizeof lease->hash_end);
    lease->checkpoint = rows->kept ? rows->initial : rows->app.start;
    /* Below a row, from the start; but its parent may have been over before the instant where members begin. */
    if (any_parent_has_row(rows, words) &&
        !(rows->kept && rows->initial.kind == KS_POSITION_AT_TIMESTAMP))
        lease->checkpoint = (struct ks_position){.kind = KS_POSITION_TRIM_HORIZON};
    if (rows->kept && lease->checkpoint.kind == KS_POSITION_LATEST)
        lease->checkpoint.timestamp_ms = rows->began_ms;
}

/* Whoever takes a row that says LATEST and not since when writes down what that is to him. */
static bool dates(const struct ks_rows *rows, const struct ks_store_effect *effect,
                  const struct ks_shard_words *words)
{
    return rows->kept && words != NULL && words->undated &&
           (effect->operation == KS_STORE_ASSIGN || effect->operation == KS_STORE_TAKE_OVER);
}

/* What a take adds to the row: the parent, if it makes it; where it begins, if the next process would begin it later,
 * and pass over what we delivered and nobody acknowledged; and, where claims go round, that there is no checkpoint yet,
 * or members would take the lease while it is served. */
static void take_of(struct ks_rows *rows, const struct ks_shard_words *words)
{
    bool unstarted = words->unstarted || !words->has_row;

    rows->create = (struct ks_store_lease){.owner.id = ""};
    if (words->has_row) {
        rows->create.masked = words->masked;
        rows->create.whole = words->row_whole;
    } else {
        memcpy(rows->create.parents[0], ks_names_text(&rows->shards, words->parents[0]),
               strlen(ks_names_text(&rows->shards, words->parents[0])) + 1);
    }
    rows->create.unstarted =
        rows->stealing && (!words->has_row || words->row_whole.kind != KS_POSITION_AFTER_SEQUENCE);
    rows->create.begins = unstarted ? rows->app.start.kind == KS_POSITION_AT_TIMESTAMP
                                    : words->row_whole.kind == KS_POSITION_LATEST;
    if (unstarted)
        rows->create.checkpoint = start_of(rows, words);
    else
        rows->create.checkpoint = words->behind ? words->row_whole : words->checkpoint;
}

/* What a table that others share needs besides. */
static void share_request(struct ks_rows *rows, const struct ks_store_effect *effect,
                          const struct ks_shard_words *words, struct ks_store_request *request)
{
    bool writes = effect->operation == KS_STORE_CHECKPOINT || effect->operation == KS_STORE_FINAL;

    request->whole = words->whole;
    request->masks = rows->masking;
    /* Nothing was settled since, but the row has lost what was. */
    if (writes && effect->up_to == 0 && words->behind) {
        request->has_checkpoint = true;
        request->checkpoint = words->own;
    }
    /* A masked row says elsewhere where it is: that is to be put back. A start stands where it stood. */
    if (effect->operation == KS_STORE_FINAL && effect->up_to == 0 && words->masked &&
        !words->unstarted && words->checkpoint.kind == KS_POSITION_AFTER_SEQUENCE) {
        request->has_checkpoint = true;
        request->checkpoint = words->checkpoint;
    }
    if (effect->operation != KS_STORE_ASSIGN && effect->operation != KS_STORE_TAKE_OVER)
        return;
    take_of(rows, words);
    request->lease = &rows->create;
}

/* The place in the shard that it writes down, if it writes one. */
static void place_of(const struct ks_rows *rows, const struct ks_store_effect *effect,
                     const struct ks_shard_words *words, struct ks_store_request *request)
{
    if (effect->up_to > 0 &&
        (effect->operation == KS_STORE_CHECKPOINT || effect->operation == KS_STORE_FINAL)) {
        assert(words != NULL);
        assert(words->mark_epoch == effect->epoch);
        assert(words->marked >= effect->up_to); /* FORGET came first. */
        request->has_checkpoint = true;
        request->checkpoint = words->mark;
    }
    if (effect->operation == KS_STORE_SEEK) {
        assert(words != NULL);
        request->has_checkpoint = true;
        request->checkpoint = words->seek;
    }
    if (effect->operation == KS_STORE_END) {
        assert(words != NULL);
        request->has_checkpoint = true;
        request->checkpoint.kind = KS_POSITION_SHARD_END;
        for (uint32_t i = 0; i < KS_CHILDREN_MAX; i++)
            request->children[i] = ks_names_text(&rows->shards, words->children[i]);
    }
}

bool ks_rows_request(struct ks_rows *rows, const struct ks_store_effect *effect,
                     struct ks_store_request *ret_request)
{
    const struct ks_shard_words *words = ks_rows_words(rows, effect->shard);
    struct ks_store_request request = {
        .operation = effect->operation,
        .consistent = effect->consistent,
        .mode = effect->mode,
        .expect_boot = effect->expect_boot,
        .expect_beat = effect->expect_beat,
        .held = effect->held,
        .changes = effect->changes,
        .capacity = effect->capacity,
        .load = effect->load,
        .gives = rows->gives,
        .takes = rows->takes,
        .give_count = tokens_in(effect->give_count),
        .take_count = tokens_in(effect->take_count),
        .stream = rows->streams.id,
        .shard = ks_names_text(&rows->shards, effect->shard),
        .epoch = effect->epoch,
        .rev = effect->rev,
        .next_rev = effect->next_rev,
        .together = effect->together,
        .measured = effect->measured,
    };

    for (uint32_t i = 0; i < KS_DEPUTIES_MAX; i++)
        if (effect->deputies[i] != 0)
            request.deputies[i] = ks_names_text(&rows->workers, effect->deputies[i]);
    incarnation_text(rows, effect->worker, &request.worker);
    incarnation_text(rows, effect->owner, &request.owner);
    incarnation_text(rows, effect->next_owner, &request.next_owner);
    tokens_text(rows, effect->gives, request.give_count, rows->gives);
    tokens_text(rows, effect->takes, request.take_count, rows->takes);

    place_of(rows, effect, words, &request);
    if (effect->operation == KS_STORE_CREATE) {
        assert(words != NULL);
        if (!rows->app.present)
            return false;
        create_of(rows, effect->shard, words);
        request.lease = &rows->create;
    }
    if (effect->operation == KS_STORE_FILL) {
        assert(words != NULL);
        create_of(rows, effect->shard, words);
        request.lease = &rows->create;
    }
    if (dates(rows, effect, words)) {
        rows->create = (struct ks_store_lease){
            .checkpoint = {.kind = KS_POSITION_LATEST, .timestamp_ms = rows->began_ms}};
        request.lease = &rows->create;
    }
    if (effect->operation == KS_STORE_NAME_SHARDS &&
        !ks_rows_list_text(rows, effect->shards, effect->shard_count, &request.shards))
        return false;
    if (rows->foreign && !rows->kept && words != NULL)
        share_request(rows, effect, words, &request);
    *ret_request = request;
    return true;
}

void ks_rows_wrote(struct ks_rows *rows, enum ks_store_operation operation, ks_shard shard,
                   ks_epoch epoch, uint64_t rev, const struct ks_position *written,
                   struct ks_incarnation whom, ks_wall wall)
{
    struct ks_shard_words *words = ks_rows_words(rows, shard);
    bool by_owner = operation == KS_STORE_CHECKPOINT || operation == KS_STORE_FINAL ||
                    operation == KS_STORE_END || operation == KS_STORE_SEEK;
    bool moves = operation == KS_STORE_FINAL || operation == KS_STORE_END ||
                 operation == KS_STORE_SEEK || operation == KS_STORE_ASSIGN ||
                 operation == KS_STORE_TAKE_OVER || operation == KS_STORE_FORCE;

    if (words == NULL || operation == KS_STORE_FILL)
        return;
    words->has_row = operation != KS_STORE_DELETE;
    words->read_at = wall;
    if (operation == KS_STORE_CREATE)
        words->rev = 0;
    if (by_owner)
        words->rev = rev + 1;
    words->epoch = moves ? epoch + 1 : epoch;
    if (moves) {
        words->owner = whom;
        words->since = wall;
    }
    if (moves || operation == KS_STORE_PLAN)
        words->next_owner = operation == KS_STORE_PLAN ? whom : KS_NOBODY;
    words->finished = operation == KS_STORE_END || (words->finished && words->has_row);
    if (written != NULL)
        words->checkpoint = *written;
    if (rows->foreign && !rows->kept && written != NULL && by_owner) {
        words->has_own = true;
        words->own = *written;
        words->behind = false;
    }
}
