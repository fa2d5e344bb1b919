/* SPDX-License-Identifier: Apache-2.0 */
#include "ports/rows.h"

#include "base/budget.h"
#include "unit/ports/rows_bed.h"

TEST(lease_rows_become_numbers)
{
    struct ks_store_lease leases[2] = {lease("shard-0", "pod-a", 3, 5, "100"),
                                       lease("shard-1", "", 4, 6, "200")};
    struct ks_event event;
    struct ks_rows rows;

    init(&rows);
    (void)snprintf(leases[1].parents[0], sizeof leases[1].parents[0], "shard-0");
    leases[1].next_owner = incarnation("pod-b", 9);
    event = read_leases(&rows, true, leases, 2);
    EXPECT_EQ_U64(event.store.lease_count, 2);
    EXPECT_EQ_U64(event.store.leases[0].shard, 0);
    EXPECT_EQ_U64(event.store.leases[0].owner.worker, rows.self);
    EXPECT_EQ_U64(event.store.leases[0].owner.boot, 7);
    EXPECT_EQ_U64(event.store.leases[0].epoch, 3);
    EXPECT_EQ_U64(event.store.leases[0].rev, 5);
    EXPECT_EQ_U64(event.store.leases[0].parents[0], KS_SHARD_NONE);
    EXPECT_EQ_U64(event.store.leases[1].owner.worker, 0);
    EXPECT_EQ_U64(event.store.leases[1].owner.boot, 0);
    EXPECT_EQ_U64(event.store.leases[1].next_owner.worker, 2);
    EXPECT_EQ_U64(event.store.leases[1].parents[0], 0);
    EXPECT_EQ_U64(event.store.leases[1].parents[1], KS_SHARD_NONE);
    EXPECT_EQ_U64(ks_rows_words(&rows, 0)->children[0], 1);
    EXPECT_STR(ks_rows_words(&rows, 1)->checkpoint.sequence, "200");
    EXPECT_EQ_I64(ks_rows_words(&rows, 1)->read_at.ms, wall.ms);
    EXPECT(ks_rows_words(&rows, 2) == NULL);
    ks_rows_free(&rows);
}

TEST(a_stale_read_does_not_take_a_checkpoint_back)
{
    struct ks_store_lease old = lease("shard-0", "pod-a", 3, 5, "100");
    struct ks_store_lease young = lease("shard-0", "pod-a", 3, 6, "200");
    struct ks_position written = {.kind = KS_POSITION_AFTER_SEQUENCE, .sequence = "300"};
    struct ks_rows rows;

    init(&rows);
    (void)read_leases(&rows, false, &young, 1);
    (void)read_leases(&rows, false, &old, 1);
    EXPECT_STR(ks_rows_words(&rows, 0)->checkpoint.sequence, "200");
    ks_rows_wrote(&rows, KS_STORE_CHECKPOINT, 0, 3, 6, &written, KS_NOBODY, wall);
    EXPECT_STR(ks_rows_words(&rows, 0)->checkpoint.sequence, "300");
    (void)read_leases(&rows, false, &young, 1);
    EXPECT_STR(ks_rows_words(&rows, 0)->checkpoint.sequence, "300");
    /* A consistent one is the truth, whatever it says. */
    (void)read_leases(&rows, true, &old, 1);
    EXPECT_STR(ks_rows_words(&rows, 0)->checkpoint.sequence, "100");
    ks_rows_free(&rows);
}

TEST(a_lease_of_somebody_without_a_number_is_left_alone)
{
    struct ks_store_lease leases[5];
    struct ks_event event;
    struct ks_rows rows;
    char id[24];

    init_small(&rows);
    for (int i = 0; i < 5; i++) {
        char shard[24];

        (void)snprintf(shard, sizeof shard, "shard-%d", i);
        (void)snprintf(id, sizeof id, "pod-%d", i);
        leases[i] = lease(shard, id, 1, 1, "1");
    }
    event = read_leases(&rows, true, leases, 5);
    EXPECT_EQ_U64(event.store.lease_count, 5);
    for (uint32_t i = 0; i < 3; i++)
        EXPECT(!event.store.leases[i].damaged);
    EXPECT(event.store.leases[3].damaged);
    EXPECT(event.store.leases[4].damaged);
    EXPECT(rows.full_told);
    ks_rows_free(&rows);
}

TEST(a_damaged_row_keeps_what_was_known)
{
    struct ks_store_lease good = lease("shard-0", "pod-a", 3, 5, "100");
    struct ks_store_lease bad = {.damaged = true};
    struct ks_event event;
    struct ks_rows rows;

    init(&rows);
    (void)read_leases(&rows, true, &good, 1);
    (void)snprintf(bad.shard, sizeof bad.shard, "shard-0");
    event = read_leases(&rows, true, &bad, 1);
    EXPECT(event.store.leases[0].damaged);
    EXPECT_STR(ks_rows_words(&rows, 0)->checkpoint.sequence, "100");
    EXPECT(ks_rows_words(&rows, 0)->has_row);
    ks_rows_free(&rows);
}

TEST(an_unknown_answer_says_nothing)
{
    struct ks_store_lease row = lease("shard-0", "pod-a", 3, 5, "100");
    struct ks_store_answer answer = {.outcome = KS_UNKNOWN, .leases = &row, .lease_count = 1};
    struct ks_event event = {.kind = KS_EVENT_START};
    struct ks_rows rows;

    init(&rows);
    ks_rows_answered(&rows, KS_STORE_READ_LEASES, true, &answer, now, wall, &event);
    EXPECT_EQ_I64(event.store.outcome, KS_UNKNOWN);
    EXPECT_EQ_U64(event.store.lease_count, 0);
    EXPECT(ks_rows_words(&rows, 0) == NULL);
    ks_rows_free(&rows);
}

TEST(ranges_of_hash_keys_become_numbers_and_what_is_none_is_left_out)
{
    static const struct ks_shard_listing shards[] = {
        {.shard = "all", .hash_start = "0", .hash_end = "340282366920938463463374607431768211455"},
        {.shard = "closed",
         .hash_start = "18446744073709551616",
         .hash_end = "18446744073709551617",
         .closed = true},
        {.shard = "turned", .hash_start = "9", .hash_end = "8"},
        {.shard = "beyond",
         .hash_start = "0",
         .hash_end = "340282366920938463463374607431768211456"},
        {.shard = "unsaid"},
    };
    struct ks_list_answer answer = {.shards = shards, .count = 5};
    struct ks_store_lease row = lease("all", "", 3, 5, "100");
    struct ks_event event = {.kind = KS_EVENT_START};
    const struct ks_shard_row *listed;
    struct ks_rows rows;

    init(&rows);
    ks_rows_listed(&rows, &answer, now, &event);
    EXPECT_EQ_U64(event.listed.count, 5);
    listed = event.listed.shards;
    EXPECT(listed[0].ranged && !listed[0].closed);
    EXPECT_EQ_U64(listed[0].first_key.high | listed[0].first_key.low, 0);
    EXPECT_EQ_U64(listed[0].last_key.high & listed[0].last_key.low, UINT64_MAX);
    EXPECT(listed[1].ranged && listed[1].closed);
    EXPECT_EQ_U64(listed[1].first_key.high, 1);
    EXPECT_EQ_U64(listed[1].last_key.low, 1);
    EXPECT(!listed[2].ranged && !listed[3].ranged && !listed[4].ranged);

    event = read_leases(&rows, true, &row, 1);
    EXPECT(!event.store.leases[0].ranged);
    memcpy(row.hash_start, "5", 2);
    memcpy(row.hash_end, "18446744073709551616", 21);
    event = read_leases(&rows, true, &row, 1);
    EXPECT(event.store.leases[0].ranged);
    EXPECT_EQ_U64(event.store.leases[0].first_key.low, 5);
    EXPECT_EQ_U64(event.store.leases[0].last_key.high, 1);
    ks_rows_free(&rows);
}

TEST(shards_count_from_the_instant_of_the_app_row_on)
{
    struct ks_rows rows;

    init(&rows);
    rows.app.start = (struct ks_position){.kind = KS_POSITION_AT_TIMESTAMP, .timestamp_ms = 77};
    EXPECT_EQ_I64(ks_rows_since(&rows), 0);
    rows.app.present = true;
    EXPECT_EQ_I64(ks_rows_since(&rows), 77);
    rows.app.start.kind = KS_POSITION_TRIM_HORIZON;
    EXPECT_EQ_I64(ks_rows_since(&rows), 0);
    ks_rows_free(&rows);
}

/* ---- Requests. ---- */

static void list_family(struct ks_rows *rows)
{
    static const struct ks_shard_listing shards[3] = {
        {.shard = "parent", .hash_start = "0", .hash_end = "9"},
        {.shard = "child", .parents = {"parent"}, .hash_start = "0", .hash_end = "4"},
        {.shard = "other", .hash_start = "10", .hash_end = "19"},
    };
    struct ks_list_answer answer = {.shards = shards, .count = 3};
    struct ks_event event = {.kind = KS_EVENT_START};

    ks_rows_listed(rows, &answer, now, &event);
    EXPECT_EQ_I64(event.kind, KS_EVENT_LISTED);
    EXPECT(event.listed.ok);
    EXPECT_EQ_U64(event.listed.count, 3);
    EXPECT_EQ_U64(event.listed.shards[1].parents[0], event.listed.shards[0].shard);
}

static ks_shard number(struct ks_rows *rows, const char *shard)
{
    ks_shard found = KS_SHARD_NONE;

    EXPECT(ks_rows_shard(rows, ks_view_text(shard), now, &found));
    return found;
}

static struct ks_store_effect effect_of(enum ks_store_operation operation, ks_shard shard)
{
    return (struct ks_store_effect){
        .operation = operation, .shard = shard, .worker = {1, 7}, .epoch = 2, .rev = 3};
}

TEST(a_row_begins_where_the_protocol_says)
{
    struct ks_store_lease parent = lease("parent", "", 1, 1, "100");
    struct ks_store_effect create;
    struct ks_store_request request;
    struct ks_rows rows;

    init(&rows);
    list_family(&rows);
    create = effect_of(KS_STORE_CREATE, number(&rows, "other"));
    EXPECT(!ks_rows_request(&rows, &create, &request));

    rows.app = (struct ks_store_app){
        .present = true, .start = {.kind = KS_POSITION_AT_TIMESTAMP, .timestamp_ms = 77}};
    EXPECT(ks_rows_request(&rows, &create, &request));
    EXPECT_STR(request.shard, "other");
    EXPECT_STR(request.lease->shard, "other");
    EXPECT_STR(request.lease->hash_start, "10");
    EXPECT_STR(request.lease->hash_end, "19");
    EXPECT_STR(request.lease->parents[0], "");
    EXPECT_EQ_I64(request.lease->checkpoint.kind, KS_POSITION_AT_TIMESTAMP);
    EXPECT_EQ_I64(request.lease->checkpoint.timestamp_ms, 77);

    /* The parent has no row: it expired before we came, so the child is where we begin. */
    create.shard = number(&rows, "child");
    EXPECT(ks_rows_request(&rows, &create, &request));
    EXPECT_STR(request.lease->parents[0], "parent");
    EXPECT_EQ_I64(request.lease->checkpoint.kind, KS_POSITION_AT_TIMESTAMP);

    (void)read_leases(&rows, true, &parent, 1);
    EXPECT(ks_rows_request(&rows, &create, &request));
    EXPECT_EQ_I64(request.lease->checkpoint.kind, KS_POSITION_TRIM_HORIZON);
    /* A replica that does not show it proves nothing; a consistent read does. */
    (void)read_leases(&rows, false, NULL, 0);
    EXPECT(ks_rows_request(&rows, &create, &request));
    EXPECT_EQ_I64(request.lease->checkpoint.kind, KS_POSITION_TRIM_HORIZON);
    (void)read_leases(&rows, true, NULL, 0);
    EXPECT(ks_rows_request(&rows, &create, &request));
    EXPECT_EQ_I64(request.lease->checkpoint.kind, KS_POSITION_AT_TIMESTAMP);
    ks_rows_free(&rows);
}

TEST(checkpoints_carry_the_mark_and_nothing_without_one)
{
    struct ks_store_effect effect;
    struct ks_store_request request;
    struct ks_shard_words *words;
    struct ks_rows rows;
    ks_shard shard;

    init(&rows);
    list_family(&rows);
    shard = number(&rows, "parent");
    words = ks_rows_words(&rows, shard);
    words->mark_epoch = 2;
    words->marked = 9;
    words->mark = (struct ks_position){.kind = KS_POSITION_AFTER_SEQUENCE, .sequence = "4711"};

    effect = effect_of(KS_STORE_FINAL, shard);
    EXPECT(ks_rows_request(&rows, &effect, &request));
    EXPECT(!request.has_checkpoint);
    effect.up_to = 9;
    EXPECT(ks_rows_request(&rows, &effect, &request));
    EXPECT(request.has_checkpoint);
    EXPECT_STR(request.checkpoint.sequence, "4711");
    EXPECT_STR(request.worker.id, "pod-a");
    EXPECT_EQ_U64(request.worker.boot, 7);
    EXPECT_STR(request.next_owner.id, "");
    EXPECT_EQ_U64(request.epoch, 2);
    EXPECT_EQ_U64(request.rev, 3);

    effect.operation = KS_STORE_END;
    EXPECT(ks_rows_request(&rows, &effect, &request));
    EXPECT_EQ_I64(request.checkpoint.kind, KS_POSITION_SHARD_END);
    EXPECT_STR(request.children[0], "child");
    EXPECT_STR(request.children[1], "");
    ks_rows_free(&rows);
}

TEST(hints_carry_their_tokens)
{
    struct ks_lease_token tokens[2] = {{0, 5}, {1, 6}};
    struct ks_store_effect effect = effect_of(KS_STORE_HINTS, KS_SHARD_NONE);
    struct ks_store_request request;
    struct ks_rows rows;

    init(&rows);
    list_family(&rows);
    effect.gives = tokens;
    effect.give_count = 2;
    effect.takes = tokens + 1;
    effect.take_count = 1;
    EXPECT(ks_rows_request(&rows, &effect, &request));
    EXPECT_STR(request.shard, "");
    EXPECT_EQ_U64(request.give_count, 2);
    EXPECT_STR(request.gives[1].shard, ks_names_text(&rows.shards, 1));
    EXPECT_EQ_U64(request.gives[1].epoch, 6);
    EXPECT_STR(request.takes[0].shard, ks_names_text(&rows.shards, 1));
    ks_rows_free(&rows);
}

TEST(writes_move_what_is_known)
{
    struct ks_store_lease row = lease("shard-0", "pod-a", 3, 5, "100");
    struct ks_shard_words *words;
    struct ks_rows rows;

    init(&rows);
    (void)read_leases(&rows, true, &row, 1);
    words = ks_rows_words(&rows, 0);
    ks_rows_wrote(&rows, KS_STORE_FINAL, 0, 3, 5, NULL, KS_NOBODY, wall);
    EXPECT_EQ_U64(words->epoch, 4);
    EXPECT_EQ_U64(words->rev, 6);
    EXPECT_STR(words->checkpoint.sequence, "100");
    ks_rows_wrote(&rows, KS_STORE_ASSIGN, 0, 4, 0, NULL, ((struct ks_incarnation){2, 9}), wall);
    EXPECT_EQ_U64(words->epoch, 5);
    EXPECT_EQ_U64(words->rev, 6);
    ks_rows_wrote(&rows, KS_STORE_DELETE, 0, 5, 0, NULL, KS_NOBODY, wall);
    EXPECT(!words->has_row);
    ks_rows_wrote(&rows, KS_STORE_ASSIGN, 7, 5, 0, NULL, KS_NOBODY,
                  wall); /* Of a shard not known. */
    ks_rows_free(&rows);
}

TEST(no_memory_leaves_nothing)
{
    int64_t live = ks_alloc_live();
    struct ks_rows rows;
    uint64_t n = 1;

    for (;; n++) {
        ks_err err;

        EXPECT(n < 50);
        ks_alloc_fail_after(n, 0);
        err = ks_rows_init(&rows, 8, 4, "pod-a", touch_nothing, NULL);
        ks_alloc_fail_after(0, 0);
        if (ks_ok(err))
            break;
        EXPECT_ERR(err, NO_MEMORY);
        EXPECT_EQ_I64(ks_alloc_live(), live);
    }
    EXPECT(n > 10);
    ks_rows_free(&rows);
    EXPECT_EQ_I64(ks_alloc_live(), live);
}

TEST(capacity_and_load_go_both_ways)
{
    struct ks_store_worker worker = {
        .self = incarnation("pod-b", 7), .life = KS_LIVE, .capacity = 20, .load = 3000};
    struct ks_store_effect effect = {
        .operation = KS_STORE_HEARTBEAT, .shard = KS_SHARD_NONE, .capacity = 21, .load = 4000};
    struct ks_store_request request;
    struct ks_event event;
    struct ks_rows rows;

    init(&rows);
    event = read_fleet(&rows, &worker, 1);
    EXPECT_EQ_U64(event.store.workers[0].capacity, 20);
    EXPECT_EQ_U64(event.store.workers[0].load, 3000);
    EXPECT(ks_rows_request(&rows, &effect, &request));
    EXPECT_EQ_U64(request.capacity, 21);
    EXPECT_EQ_U64(request.load, 4000);
    ks_rows_free(&rows);
}

TEST(the_load_of_a_lease_goes_both_ways)
{
    struct ks_store_lease row = lease("shard-0", "pod-a", 3, 5, "100");
    struct ks_store_effect effect = {.operation = KS_STORE_CHECKPOINT, .load = 4000};
    struct ks_store_request request;
    struct ks_rows rows;

    init(&rows);
    row.load = 3000;
    EXPECT_EQ_U64(read_leases(&rows, true, &row, 1).store.leases[0].load, 3000);
    EXPECT(ks_rows_request(&rows, &effect, &request));
    EXPECT_EQ_U64(request.load, 4000);
    effect.operation = KS_STORE_FINAL;
    EXPECT(ks_rows_request(&rows, &effect, &request));
    EXPECT_EQ_U64(request.load, 4000);
    ks_rows_free(&rows);
}

TEST(a_heartbeat_removes_no_more_tokens_than_one_write_carries)
{
    static struct ks_lease_token tokens[2 * KS_TOKENS_MAX];
    struct ks_store_effect effect = {.operation = KS_STORE_HEARTBEAT,
                                     .shard = KS_SHARD_NONE,
                                     .gives = tokens,
                                     .give_count = 2 * KS_TOKENS_MAX,
                                     .takes = tokens,
                                     .take_count = KS_TOKENS_MAX + 1};
    struct ks_store_lease row = lease("shard-0", "", 3, 5, "100");
    struct ks_store_request request;
    struct ks_rows rows;

    init(&rows);
    (void)read_leases(&rows, true, &row, 1);
    for (uint32_t i = 0; i < 2 * KS_TOKENS_MAX; i++)
        tokens[i] = (struct ks_lease_token){0, i};
    EXPECT(ks_rows_request(&rows, &effect, &request));
    EXPECT_EQ_U64(request.give_count, KS_TOKENS_MAX);
    EXPECT_EQ_U64(request.take_count, KS_TOKENS_MAX);
    EXPECT_EQ_U64(request.gives[KS_TOKENS_MAX - 1].epoch, KS_TOKENS_MAX - 1);
    EXPECT_STR(request.gives[0].shard, "shard-0");
    ks_rows_free(&rows);
}

TEST(the_next_owner_goes_both_ways)
{
    struct ks_store_lease row = lease("shard-0", "pod-a", 3, 5, "100");
    struct ks_store_effect effect = {.shard = 0, .epoch = 3, .rev = 5};
    struct ks_store_request request;
    struct ks_rows rows;

    init(&rows);
    row.next_owner = incarnation("pod-b", 9);
    (void)read_leases(&rows, true, &row, 1);
    EXPECT_EQ_U64(ks_rows_words(&rows, 0)->next_owner.boot, 9);
    effect.next_owner = ks_rows_words(&rows, 0)->next_owner;
    effect.worker = ks_rows_words(&rows, 0)->owner;
    effect.owner = ks_rows_words(&rows, 0)->owner;
    for (int i = 0; i < 3; i++) {
        static const enum ks_store_operation operations[] = {KS_STORE_PLAN, KS_STORE_FINAL,
                                                             KS_STORE_FORCE};

        effect.operation = operations[i];
        EXPECT(ks_rows_request(&rows, &effect, &request));
        EXPECT_EQ_I64(request.operation, operations[i]);
        EXPECT_STR(request.next_owner.id, "pod-b");
        EXPECT_EQ_U64(request.next_owner.boot, 9);
        EXPECT_STR(request.owner.id, "pod-a");
        EXPECT_STR(request.worker.id, "pod-a");
        EXPECT_EQ_U64(request.epoch, 3);
        EXPECT_EQ_U64(request.rev, 5);
    }
    ks_rows_free(&rows);
}

TEST(who_holds_a_lease_since_when_is_known_from_what_was_read_and_written)
{
    const struct ks_incarnation other = {2, 9};
    struct ks_store_lease row = lease("shard-0", "pod-a", 3, 5, "100");
    const struct ks_shard_words *words;
    struct ks_rows rows;

    init(&rows);
    (void)read_leases(&rows, false, &row, 1);
    words = ks_rows_words(&rows, 0);
    EXPECT_EQ_U64(words->owner.worker, rows.self);
    EXPECT_EQ_I64(words->since.ms, 0); /* It was so before we looked. */

    ks_rows_wrote(&rows, KS_STORE_PLAN, 0, 3, 0, NULL, other, wall);
    EXPECT_EQ_U64(words->next_owner.boot, 9);
    EXPECT_EQ_U64(words->epoch, 3);
    ks_rows_wrote(&rows, KS_STORE_FINAL, 0, 3, 5, NULL, other, wall);
    EXPECT_EQ_U64(words->owner.boot, 9);
    EXPECT_EQ_U64(words->next_owner.worker, 0);
    EXPECT_EQ_I64(words->since.ms, wall.ms);

    row = lease("shard-0", "", 5, 7, "100");
    row.finished = true;
    ks_rows_wrote(&rows, KS_STORE_TAKE_OVER, 0, 3, 0, NULL, other, (ks_wall){1});
    (void)read_leases(&rows, false, &row, 1);
    EXPECT_EQ_U64(words->owner.worker, 0);
    EXPECT(words->finished);
    EXPECT_EQ_I64(words->since.ms, wall.ms);
    row.damaged = true;
    (void)read_leases(&rows, false, &row, 1);
    EXPECT(words->damaged);
    EXPECT_EQ_U64(words->epoch, 5);
    ks_rows_free(&rows);
}

/* ---- Of a table that others share. ---- */

static struct ks_position after(const char *sequence, int64_t sub_sequence)
{
    struct ks_position position = {.kind = KS_POSITION_AFTER_SEQUENCE,
                                   .sub_sequence = sub_sequence};

    (void)snprintf(position.sequence, sizeof position.sequence, "%s", sequence);
    return position;
}

/* Reads the row of shard-0 as a member wrote it; "" is no checkpoint. */
static const struct ks_shard_words *read_shared(struct ks_rows *rows, const char *sequence)
{
    struct ks_store_lease row = lease("shard-0", "pod-b", 0, 77, sequence);

    row.unstarted = sequence[0] == '\0';
    if (row.unstarted)
        row.checkpoint.kind = KS_POSITION_TRIM_HORIZON;
    row.whole = row.checkpoint;
    (void)read_leases(rows, true, &row, 1);
    return ks_rows_words(rows, 0);
}

static void wrote(struct ks_rows *rows, struct ks_position position)
{
    ks_rows_wrote(rows, KS_STORE_CHECKPOINT, 0, 0, 77, &position, KS_NOBODY, wall);
}

TEST(a_checkpoint_of_ours_that_a_member_rewound_is_put_back)
{
    struct ks_store_effect effect = effect_of(KS_STORE_CHECKPOINT, 0);
    const struct ks_shard_words *words;
    struct ks_store_request request;
    struct ks_rows rows;

    share(&rows, false);
    (void)read_shared(&rows, "100");
    EXPECT(ks_rows_request(&rows, &effect, &request));
    EXPECT(!request.has_checkpoint);
    wrote(&rows, after("300", -1));

    words = read_shared(&rows, "200");
    EXPECT(words->behind);
    EXPECT_STR(words->checkpoint.sequence, "300"); /* Begun again, it begins there. */
    EXPECT_STR(ks_rows_whole(words).sequence, "300");
    for (int i = 0; i < 2; i++) {
        effect.operation = i == 0 ? KS_STORE_CHECKPOINT : KS_STORE_FINAL;
        EXPECT(ks_rows_request(&rows, &effect, &request));
        EXPECT(request.has_checkpoint);
        EXPECT_STR(request.checkpoint.sequence, "300");
    }
    effect.operation = KS_STORE_TAKE_OVER;
    EXPECT(ks_rows_request(&rows, &effect, &request));
    EXPECT(!request.has_checkpoint);

    wrote(&rows, after("300", -1));
    effect.operation = KS_STORE_CHECKPOINT;
    EXPECT(ks_rows_request(&rows, &effect, &request));
    EXPECT(!request.has_checkpoint);
    EXPECT(read_shared(&rows, "")->behind); /* A claim of v1 may leave none at all. */
    ks_rows_free(&rows);
}

TEST(what_members_did_after_us_counts)
{
    const struct ks_shard_words *words;
    struct ks_store_lease end = lease("shard-0", "", 0, 77, "");
    struct ks_rows rows;

    share(&rows, false);
    (void)read_shared(&rows, "100");
    wrote(&rows, after("300", -1));
    words = read_shared(&rows, "1000");
    EXPECT(!words->behind);
    EXPECT_STR(words->checkpoint.sequence, "1000");
    end.checkpoint = (struct ks_position){.kind = KS_POSITION_SHARD_END, .sub_sequence = -1};
    end.finished = true;
    (void)read_leases(&rows, true, &end, 1);
    EXPECT(!words->behind);
    EXPECT_EQ_I64(words->checkpoint.kind, KS_POSITION_SHARD_END);
    ks_rows_free(&rows);
}

TEST(inside_an_aggregate_ours_goes_on_and_theirs_is_the_record_before)
{
    const struct ks_shard_words *words;
    struct ks_store_lease row = lease("shard-0", "pod-a", 0, 77, "200");
    struct ks_rows rows;

    share(&rows, false);
    row.whole = row.checkpoint;
    row.checkpoint = after("300", 3);
    (void)read_leases(&rows, true, &row, 1);
    words = ks_rows_words(&rows, 0);
    EXPECT_STR(words->checkpoint.sequence, "300");
    EXPECT_EQ_I64(words->checkpoint.sub_sequence, 3);
    EXPECT_STR(words->row_whole.sequence, "200");

    wrote(&rows, after("300", 5));
    EXPECT(read_shared(&rows, "200")->behind);
    EXPECT_EQ_I64(words->checkpoint.sub_sequence, 5);
    EXPECT_STR(words->row_whole.sequence, "200");
    ks_rows_free(&rows);
}

TEST(a_take_says_what_was_read_and_the_end_of_a_mask_what_is_below)
{
    struct ks_store_effect effect = effect_of(KS_STORE_ASSIGN, 0);
    struct ks_store_lease row = lease("shard-0", "", 0, 77, "200");
    struct ks_store_request request;
    struct ks_rows rows;

    share(&rows, false);
    ks_rows_mask(&rows);
    row.whole = row.checkpoint;
    row.masked = true;
    (void)read_leases(&rows, true, &row, 1);
    EXPECT(ks_rows_request(&rows, &effect, &request));
    EXPECT(request.masks && request.lease->masked);
    EXPECT_STR(request.lease->whole.sequence, "200");
    EXPECT_STR(request.lease->checkpoint.sequence, "200");
    wrote(&rows, after("300", -1));
    (void)read_leases(&rows, true, &row,
                      1); /* Behind us: what stands there is named all the same. */
    EXPECT(ks_rows_request(&rows, &effect, &request));
    EXPECT_STR(request.lease->whole.sequence, "200");
    EXPECT_STR(request.lease->checkpoint.sequence, "200");

    wrote(&rows, after("300", -1));
    effect.operation = KS_STORE_CHECKPOINT;
    EXPECT(ks_rows_request(&rows, &effect, &request));
    EXPECT(!request.has_checkpoint);
    effect.operation = KS_STORE_FINAL;
    EXPECT(ks_rows_request(&rows, &effect, &request));
    EXPECT(request.has_checkpoint);
    EXPECT_STR(request.checkpoint.sequence, "300");
    ks_rows_free(&rows);
}

TEST(a_row_that_was_deleted_is_taken_as_one_that_is_not_there)
{
    const struct ks_store_effect take = effect_of(KS_STORE_ASSIGN, 0);
    struct ks_store_lease row = lease("shard-0", "", 0, 77, "200");
    struct ks_store_request request;
    struct ks_rows rows;

    share(&rows, false);
    ks_rows_mask(&rows);
    row.whole = row.checkpoint;
    row.masked = true;
    (void)read_leases(&rows, true, &row, 1);
    (void)read_leases(&rows, true, &row, 0);
    EXPECT(ks_rows_request(&rows, &take, &request));
    EXPECT(!request.lease->masked);
    EXPECT_STR(request.lease->whole.sequence, "");
    EXPECT_STR(request.lease->checkpoint.sequence, "");
    ks_rows_free(&rows);
}

TEST(a_look_for_people_that_is_late_is_nothing_new_of_a_shared_row)
{
    struct ks_store_lease row = lease("shard-0", "", 0, 77, "300");
    struct ks_rows rows;

    share(&rows, false);
    row.masked = true;
    row.whole = row.checkpoint;
    (void)read_leases(&rows, true, &row, 1);
    row = lease("shard-0", "", 0, 76, "200");
    row.whole = row.checkpoint;
    (void)read_leases(&rows, false, &row, 1);
    EXPECT_STR(ks_rows_words(&rows, 0)->checkpoint.sequence, "300");
    EXPECT_STR(ks_rows_words(&rows, 0)->row_whole.sequence, "300");
    EXPECT(ks_rows_words(&rows, 0)->masked);
    ks_rows_free(&rows);
}

TEST(the_end_of_a_mask_leaves_a_start_where_it_stood)
{
    struct ks_store_effect effect = effect_of(KS_STORE_FINAL, 0);
    struct ks_store_lease row = lease("shard-0", "", 0, 77, "");
    struct ks_store_request request;
    struct ks_rows rows;

    share(&rows, false);
    ks_rows_mask(&rows);
    row.masked = true;
    row.checkpoint = (struct ks_position){
        .kind = KS_POSITION_AT_TIMESTAMP, .timestamp_ms = 1714564810000, .sub_sequence = -1};
    (void)read_leases(&rows, true, &row, 1);
    EXPECT(ks_rows_request(&rows, &effect, &request));
    EXPECT(!request.has_checkpoint);
    ks_rows_free(&rows);
}

TEST(a_checkpoint_that_moved_is_told_of_the_row)
{
    struct ks_store_lease row = lease("shard-0", "", 0, 77, "200");
    struct ks_rows rows;

    share(&rows, false);
    row.stranger = true;
    row.whole = row.checkpoint;
    (void)read_leases(&rows, true, &row, 1);
    EXPECT(!read_leases(&rows, true, &row, 1).store.leases[0].moved);
    row.whole = after("300", -1);
    EXPECT(read_leases(&rows, true, &row, 1).store.leases[0].moved);
    EXPECT(rows.leases[0].stranger);
    ks_rows_free(&rows);
}

TEST(an_aggregate_that_a_member_has_read_whole_is_not_begun_inside)
{
    const struct ks_shard_words *words;
    struct ks_rows rows;

    share(&rows, false);
    (void)read_shared(&rows, "200");
    wrote(&rows, after("300", 5));
    words = read_shared(&rows, "300");
    EXPECT(!words->behind);
    EXPECT_STR(words->checkpoint.sequence, "300");
    EXPECT_EQ_I64(words->checkpoint.sub_sequence, -1);
    ks_rows_free(&rows);
}

TEST(a_take_says_what_members_could_misread)
{
    struct ks_store_effect take = effect_of(KS_STORE_ASSIGN, 0);
    struct ks_store_request request;
    struct ks_rows rows;

    share(&rows, true);
    list_family(&rows);
    take.shard = number(&rows, "child");
    EXPECT(ks_rows_request(&rows, &take, &request));
    EXPECT_STR(request.lease->parents[0], "parent");
    EXPECT(request.lease->unstarted); /* Without it members would take the live lease. */
    ks_rows_free(&rows);

    share(&rows, true);
    (void)read_shared(&rows, "100");
    take.shard = 0;
    EXPECT(ks_rows_request(&rows, &take, &request));
    EXPECT(!request.lease->unstarted);
    EXPECT_STR(request.lease->parents[0], "");
    (void)read_shared(&rows, "");
    EXPECT(ks_rows_request(&rows, &take, &request));
    EXPECT(request.lease->unstarted);
    rows.stealing = false;
    EXPECT(ks_rows_request(&rows, &take, &request));
    EXPECT(!request.lease->unstarted);
    ks_rows_free(&rows);
}

/* Of a row that says no record: the next process would begin it where that one starts. */
TEST(a_take_keeps_where_a_shard_begins)
{
    const struct ks_position start = {
        .kind = KS_POSITION_AT_TIMESTAMP, .timestamp_ms = 5, .sub_sequence = -1};
    struct ks_store_effect take = effect_of(KS_STORE_ASSIGN, 0);
    struct ks_store_lease row = lease("parent", "", 0, 77, "100");
    struct ks_store_request request;
    struct ks_rows rows;

    init(&rows);
    ks_rows_share(&rows, &start, true, ks_span_us(0));
    list_family(&rows);
    take.shard = number(&rows, "child");
    EXPECT(ks_rows_request(&rows, &take, &request) && request.lease->begins);
    EXPECT(ks_position_same(&request.lease->checkpoint, &start));
    (void)read_leases(&rows, true, &row, 1);
    EXPECT(ks_rows_request(&rows, &take, &request) && request.lease->begins);
    EXPECT_EQ_I64(request.lease->checkpoint.kind, KS_POSITION_TRIM_HORIZON);
    take.shard = number(&rows, "parent");
    row.checkpoint = start; /* As it is read then: to members it is none. */
    (void)read_leases(&rows, true, &row, 1);
    EXPECT(ks_rows_request(&rows, &take, &request) && request.lease->unstarted);
    row.checkpoint.kind = row.whole.kind = KS_POSITION_LATEST; /* As rows of kinsumer say. */
    rows.stream_ms = wall.ms - 3600000; /* This machine is an hour ahead of the stream. */
    (void)read_leases(&rows, true, &row, 1);
    rows.stream_ms = wall.ms; /* A later look does not move it. */
    (void)read_leases(&rows, true, &row, 1);
    EXPECT(ks_rows_request(&rows, &take, &request) && request.lease->begins);
    EXPECT_EQ_I64(request.lease->checkpoint.timestamp_ms, wall.ms - 3600000);
    ks_rows_free(&rows);
}

TEST(a_row_without_a_checkpoint_begins_at_the_start_or_after_its_parent)
{
    struct ks_store_lease parent = lease("parent", "", 0, 77, "100");
    struct ks_store_lease child = {.unstarted = true};
    struct ks_rows rows;

    share(&rows, false);
    EXPECT_EQ_I64(read_shared(&rows, "")->checkpoint.kind, KS_POSITION_LATEST);
    list_family(&rows);
    (void)read_leases(&rows, true, &parent, 1);
    (void)snprintf(child.shard, sizeof child.shard, "child");
    (void)read_leases(&rows, false, &child, 1);
    EXPECT_EQ_I64(ks_rows_words(&rows, number(&rows, "child"))->checkpoint.kind,
                  KS_POSITION_TRIM_HORIZON);
    ks_rows_free(&rows);
}
