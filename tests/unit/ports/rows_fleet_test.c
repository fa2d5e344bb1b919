/* SPDX-License-Identifier: Apache-2.0 */
#include "ports/rows_fleet.h"

#include "unit/ports/rows_bed.h"

TEST(worker_rows_bring_their_tokens_ours_first)
{
    enum { MANY = 600 }; /* More than there is room for. */
    static struct ks_store_token many[MANY];
    struct ks_store_token mine = {.shard = "shard-1", .epoch = 4};
    struct ks_store_worker workers[2] = {
        {.self = incarnation("pod-b", 2), .life = KS_LIVE, .gives = many, .give_count = MANY},
        {.self = incarnation("pod-a", 1),
         .life = KS_FENCED,
         .beat = 6,
         .takes = &mine,
         .take_count = 1},
    };
    struct ks_event event;
    struct ks_rows rows;

    init(&rows);
    for (int i = 0; i < MANY; i++)
        (void)snprintf(many[i].shard, sizeof many[i].shard, "shard-0");
    event = read_fleet(&rows, workers, 2);
    EXPECT_EQ_I64(event.store.outcome, KS_DONE);
    EXPECT_EQ_U64(event.store.worker_count, 2);
    EXPECT_EQ_U64(event.store.workers[0].self.worker, rows.self);
    EXPECT_EQ_I64(event.store.workers[0].life, KS_FENCED);
    EXPECT_EQ_U64(event.store.workers[0].beat, 6);
    EXPECT_EQ_U64(event.store.workers[0].take_count, 1);
    EXPECT_EQ_U64(event.store.workers[0].takes[0].epoch, 4);
    EXPECT_EQ_U64(event.store.workers[1].give_count, 0);

    /* A give of ours that is not seen would be served on: then the answer is none. */
    workers[1].gives = many;
    workers[1].give_count = MANY;
    event = read_fleet(&rows, workers, 2);
    EXPECT_EQ_I64(event.store.outcome, KS_UNKNOWN);
    ks_rows_free(&rows);
}

TEST(a_damaged_worker_row_is_neither_alive_nor_gone)
{
    struct ks_store_worker worker = {.self = incarnation("pod-b", 0), .damaged = true};
    struct ks_event event;
    struct ks_rows rows;

    init(&rows);
    event = read_fleet(&rows, &worker, 1);
    EXPECT_EQ_U64(event.store.worker_count, 1);
    EXPECT(event.store.workers[0].damaged);
    EXPECT_EQ_U64(event.store.workers[0].self.worker, 2);
    EXPECT(rows.worker_told);
    worker.damaged = false;
    (void)read_fleet(&rows, &worker, 1);
    EXPECT(!rows.worker_told);
    ks_rows_free(&rows);
}

TEST(an_office_held_by_somebody_without_a_number_is_not_free)
{
    struct ks_store_answer answer = {.outcome = KS_DONE, .leader.present = true};
    struct ks_event event = {.kind = KS_EVENT_START};
    struct ks_rows rows;

    init_small(&rows);
    fill_names(&rows);
    answer.leader.holder = incarnation("stranger", 77);
    ks_rows_answered(&rows, KS_STORE_READ_FLEET, true, &answer, now, wall, &event);
    EXPECT(event.store.leader.present);
    EXPECT_EQ_U64(event.store.leader.holder.worker, 0);
    EXPECT(!ks_incarnation_equal(event.store.leader.holder, KS_NOBODY));
    ks_rows_free(&rows);
}

/* ---- More rows than room. ---- */

static struct ks_store_worker worker(const char *id, enum ks_life life)
{
    return (struct ks_store_worker){.self = incarnation(id, 1), .life = life};
}

static bool is_told(const struct ks_rows *rows, const struct ks_event *event, const char *id)
{
    for (uint32_t i = 0; i < event->store.worker_count; i++)
        if (strcmp(ks_names_text(&rows->workers, event->store.workers[i].self.worker), id) == 0)
            return true;
    return false;
}

TEST(the_dead_make_way_for_those_that_may_live)
{
    struct ks_store_token token = {.shard = "shard-1", .epoch = 4};
    struct ks_store_worker workers[7] = {
        worker("dead-1", KS_FENCED), worker("dead-2", KS_GONE),  worker("live-1", KS_LIVE),
        worker("dead-3", KS_GONE),   worker("damaged", KS_GONE), worker("pod-a", KS_LIVE),
        worker("dead-4", KS_FENCED),
    };
    struct ks_event event;
    struct ks_rows rows;
    uint32_t number;

    init(&rows);
    workers[0].gives = workers[6].gives = &token;
    workers[0].give_count = workers[6].give_count = 1;
    workers[4].damaged = true;
    event = read_fleet(&rows, workers, 7);
    EXPECT_EQ_U64(event.store.worker_count, 4);
    EXPECT(is_told(&rows, &event, "pod-a"));
    EXPECT(is_told(&rows, &event, "live-1"));
    EXPECT(is_told(&rows, &event, "damaged"));
    EXPECT(is_told(&rows, &event, "dead-1"));
    /* The others have no number, and what they say has none. */
    EXPECT(!ks_names_find(&rows.workers, KS_VIEW("dead-2"), &number));
    EXPECT(!ks_names_find(&rows.workers, KS_VIEW("dead-4"), &number));
    EXPECT_EQ_U64(rows.token_count, 1);

    /* Ours stays, however dead. */
    workers[5].life = KS_FENCED;
    workers[0].life = workers[1].life = workers[3].life = KS_LIVE;
    event = read_fleet(&rows, workers, 5);
    EXPECT_EQ_U64(event.store.worker_count, 5); /* More than four live. */
    workers[1].life = workers[3].life = KS_GONE;
    event = read_fleet(&rows, workers, 7);
    EXPECT_EQ_U64(event.store.worker_count, 4);
    EXPECT_EQ_U64(event.store.workers[0].self.worker, rows.self);
    EXPECT_EQ_I64(event.store.workers[0].life, KS_FENCED);
    ks_rows_free(&rows);
}

TEST(more_that_live_than_there_is_room_for_are_told_by_their_number)
{
    struct ks_store_worker workers[7] = {
        worker("live-1", KS_LIVE), worker("dead", KS_GONE),   worker("live-2", KS_LIVE),
        worker("live-3", KS_LIVE), worker("live-4", KS_LIVE), worker("live-5", KS_LIVE),
        worker("pod-a", KS_LIVE),
    };
    struct ks_event event;
    struct ks_rows rows;

    init(&rows);
    event = read_fleet(&rows, workers, 7);
    EXPECT_EQ_I64(event.store.outcome, KS_DONE);
    EXPECT_EQ_U64(event.store.worker_count, 6);
    event = read_fleet(&rows, workers, 5);
    EXPECT_EQ_U64(event.store.worker_count, 4);
    ks_rows_free(&rows);
}

TEST(a_live_worker_without_a_number_is_not_left_out_in_silence)
{
    struct ks_store_worker workers[2] = {worker("stranger", KS_GONE), worker("", KS_LIVE)};
    struct ks_event event;
    struct ks_rows rows;

    init_small(&rows);
    fill_names(&rows);
    /* The dead and the nameless may be. */
    workers[1].damaged = true;
    event = read_fleet(&rows, workers, 2);
    EXPECT_EQ_U64(event.store.worker_count, 0);
    workers[0].life = KS_LIVE;
    event = read_fleet(&rows, workers, 2);
    EXPECT_EQ_U64(event.store.worker_count, 2);
    ks_rows_free(&rows);
}

/* A fleet that is deployed again and again under fresh names, while the dead stand in the table for an hour. */
TEST(deploys_without_end_leave_numbers_for_those_that_live)
{
    enum { DEPLOYS = 200, LIVE = 3, KEPT = 60 };
    static struct ks_store_worker workers[LIVE * KEPT];
    struct ks_store_answer answer = {.outcome = KS_DONE, .workers = workers};
    struct ks_rows rows;

    init(&rows);
    for (uint32_t deploy = 0; deploy < DEPLOYS; deploy++) {
        ks_instant at = ks_instant_add(now, ks_span_ms(deploy * INT64_C(110000)));
        struct ks_event event = {.kind = KS_EVENT_START};
        char id[24];

        answer.worker_count = 0;
        for (uint32_t old = deploy < KEPT ? 0 : deploy - KEPT + 1; old <= deploy; old++)
            for (uint32_t i = 0; i < LIVE; i++) {
                (void)snprintf(id, sizeof id, "pod-%u-%u", old, i);
                workers[answer.worker_count++] = worker(id, old == deploy ? KS_LIVE : KS_GONE);
            }
        ks_rows_answered(&rows, KS_STORE_READ_FLEET, true, &answer, at, wall, &event);
        EXPECT_EQ_U64(event.store.worker_count, deploy == 0 ? 3 : 4);
        for (uint32_t i = 0; i < LIVE; i++)
            EXPECT_EQ_I64(event.store.workers[i].life, KS_LIVE);
    }
    ks_rows_free(&rows);
}

/* ---- News. ---- */

TEST(news_tell_the_leader_and_its_deputies)
{
    struct ks_store_worker workers[2] = {worker("pod-b", KS_LIVE), worker("pod-a", KS_LIVE)};
    struct ks_store_answer answer = {
        .outcome = KS_DONE,
        .workers = workers,
        .worker_count = 2,
        .leader = {.present = true, .epoch = 5, .deputies = {"pod-c", "pod-a"}},
        .app.present = true};
    struct ks_event event = {.kind = KS_EVENT_START};
    struct ks_rows rows;

    init(&rows);
    answer.leader.holder = incarnation("pod-b", 1);
    ks_rows_answered(&rows, KS_STORE_READ_NEWS, false, &answer, now, wall, &event);
    EXPECT_EQ_U64(event.store.worker_count, 2);
    EXPECT_EQ_U64(event.store.workers[0].self.worker, rows.self);
    EXPECT_EQ_U64(event.store.leader.epoch, 5);
    EXPECT_EQ_U64(event.store.leader.holder.worker, event.store.workers[1].self.worker);
    EXPECT_STR(ks_names_text(&rows.workers, event.store.leader.deputies[0]), "pod-c");
    EXPECT_EQ_U64(event.store.leader.deputies[1], rows.self);
    /* The app row is not among the news. */
    EXPECT(!event.store.app_present);
    EXPECT(!rows.app.present);
    ks_rows_free(&rows);
}

TEST(a_deputy_without_a_number_is_none)
{
    struct ks_store_answer answer = {.outcome = KS_DONE,
                                     .leader = {.present = true, .deputies = {"stranger"}}};
    struct ks_event event = {.kind = KS_EVENT_START};
    struct ks_rows rows;

    init_small(&rows);
    fill_names(&rows);
    ks_rows_answered(&rows, KS_STORE_READ_NEWS, false, &answer, now, wall, &event);
    EXPECT(event.store.leader.present);
    EXPECT_EQ_U64(event.store.leader.deputies[0], 0);
    EXPECT_EQ_U64(event.store.leader.deputies[1], 0);
    ks_rows_free(&rows);
}

static void touch_second_worker(void *arg, ks_instant at)
{
    struct ks_rows *rows = arg;

    ks_names_touch(&rows->workers, 2, at);
}

/* Reads the one row; true if its owner got a number. */
static bool reads_owner(struct ks_rows *rows, const char *shard, const char *owner, int64_t seconds)
{
    const struct ks_store_lease row = lease(shard, owner, 2, 1, "1");
    struct ks_store_answer answer = {.outcome = KS_DONE, .leases = &row, .lease_count = 1};
    struct ks_event event = {.kind = KS_EVENT_START};

    ks_rows_answered(rows, KS_STORE_READ_LEASE, true, &answer,
                     ks_instant_add(now, ks_span_ms(seconds * 1000)), wall, &event);
    return !event.store.leases[0].damaged;
}

TEST(names_that_nobody_knows_make_room_in_time)
{
    struct ks_rows rows;
    uint32_t number;

    EXPECT_OK(ks_rows_init(&rows, 8, 1, "pod-a", touch_second_worker, &rows));
    fill_names(&rows);
    EXPECT(!reads_owner(&rows, "shard-3", "pod-e", 0)); /* Nobody is old. */
    EXPECT(!reads_owner(&rows, "shard-3", "pod-e", 290));

    EXPECT(reads_owner(&rows, "shard-3", "pod-e", 400));
    EXPECT_STR(ks_names_text(&rows.workers, rows.self), "pod-a");
    EXPECT_STR(ks_names_text(&rows.workers, 2), "pod-b");
    EXPECT(!ks_names_find(&rows.workers, KS_VIEW("pod-c"), &number));
    EXPECT(ks_names_find(&rows.workers, KS_VIEW("pod-e"), &number));
    EXPECT(!ks_rows_full(&rows));
    ks_rows_free(&rows);
}

TEST(deputies_are_named_by_their_ids)
{
    struct ks_store_worker other = worker("pod-b", KS_LIVE);
    struct ks_store_effect effect = {.operation = KS_STORE_NAME_DEPUTIES, .shard = KS_SHARD_NONE};
    struct ks_store_request request;
    struct ks_rows rows;

    init(&rows);
    (void)read_fleet(&rows, &other, 1);
    EXPECT(ks_rows_request(&rows, &effect, &request));
    EXPECT(request.deputies[0] == NULL && request.deputies[1] == NULL);
    effect.deputies[0] = 2;
    EXPECT(ks_rows_request(&rows, &effect, &request));
    EXPECT_STR(request.deputies[0], "pod-b");
    EXPECT(request.deputies[1] == NULL);
    ks_rows_free(&rows);
}

/* ---- Tables whose members divide a list of shards. ---- */

static void share_clients(struct ks_rows *rows)
{
    static const struct ks_position start = {.kind = KS_POSITION_TRIM_HORIZON, .sub_sequence = -1};

    init(rows);
    ks_rows_share(rows, &start, false, ks_span_ms(5000));
}

TEST(workers_are_ranked_by_the_bytes_of_their_ids)
{
    struct ks_store_worker workers[] = {worker("~pod", KS_LIVE), worker("Pod", KS_LIVE),
                                        worker("\xc3\xa9", KS_LIVE), worker("pod-a", KS_LIVE)};
    static const uint32_t ranks[] = {1, 2, 0, 3}; /* Ours, pod-a, is told first. */
    struct ks_event event;
    struct ks_rows rows;

    share_clients(&rows);
    event = read_fleet(&rows, workers, 4);
    EXPECT_EQ_U64(event.store.worker_count, 4);
    for (uint32_t i = 0; i < 4; i++)
        EXPECT_EQ_U64(event.store.workers[i].rank, ranks[i]);
    ks_rows_free(&rows);
}

TEST(a_list_keeps_its_order_and_is_written_in_that_of_bytes)
{
    struct ks_store_answer answer = {
        .outcome = KS_DONE,
        .list = {true, 7, KS_VIEW("shard-2\nshard-10\nshard-1")},
    };
    struct ks_store_effect effect = {.operation = KS_STORE_NAME_SHARDS, .shard = KS_SHARD_NONE};
    struct ks_store_request request;
    struct ks_event event = {.kind = KS_EVENT_START};
    ks_shard shards[3];
    struct ks_rows rows;

    share_clients(&rows);
    ks_rows_answered(&rows, KS_STORE_READ_NEWS, true, &answer, now, wall, &event);
    EXPECT(event.store.list.present);
    EXPECT_EQ_U64(event.store.list.rev, 7);
    EXPECT_EQ_U64(event.store.list.count, 3);
    EXPECT_STR(ks_names_text(&rows.shards, event.store.list.shards[0]), "shard-2");
    EXPECT_STR(ks_names_text(&rows.shards, event.store.list.shards[1]), "shard-10");
    for (uint32_t i = 0; i < 3; i++)
        shards[i] = event.store.list.shards[i];
    effect.shards = shards;
    effect.shard_count = 3;
    EXPECT(ks_rows_request(&rows, &effect, &request));
    EXPECT(ks_view_equal(request.shards, KS_VIEW("shard-1\nshard-10\nshard-2")));

    /* What has no number cannot be counted. */
    answer.list.shards = KS_VIEW("shard-1\n\nshard-2");
    ks_rows_answered(&rows, KS_STORE_READ_NEWS, true, &answer, now, wall, &event);
    EXPECT_EQ_I64(event.store.outcome, KS_UNKNOWN);
    ks_rows_free(&rows);
}

/* ---- Tables that know start positions: the KCL's. ---- */

#define BEGAN_MS INT64_C(1795219000000)

static void keep(struct ks_rows *rows, enum ks_position_kind kind, int64_t at_ms)
{
    const struct ks_position initial = {.kind = kind, .timestamp_ms = at_ms, .sub_sequence = -1};

    init(rows);
    ks_rows_share(rows, &initial, false, ks_span_us(0));
    ks_rows_keep(rows, &initial, BEGAN_MS);
}

/* A row of nobody, as it says where to begin. */
static const struct ks_shard_words *read_start(struct ks_rows *rows, enum ks_position_kind kind,
                                               int64_t since_ms)
{
    struct ks_store_lease row = lease("shard-0", "", 0, 3, "");

    row.checkpoint.kind = kind;
    row.checkpoint.timestamp_ms = since_ms;
    (void)read_leases(rows, true, &row, 1);
    return ks_rows_words(rows, 0);
}

/* The lease that goes with this write of shard 0, or NULL. */
static const struct ks_store_lease *written(struct ks_rows *rows, enum ks_store_operation operation,
                                            ks_shard shard)
{
    const struct ks_store_effect effect = {
        .operation = operation, .shard = shard, .worker = {rows->self, 0}, .rev = 3};
    struct ks_store_request request;

    EXPECT(ks_rows_request(rows, &effect, &request));
    return request.lease;
}

TEST(the_latest_is_one_instant_for_whoever_begins_there)
{
    const struct ks_store_lease *noted;
    const struct ks_shard_words *words;
    struct ks_rows rows;

    keep(&rows, KS_POSITION_LATEST, 0);
    /* A member made it: it is ours that says which, and once. */
    words = read_start(&rows, KS_POSITION_LATEST, 0);
    EXPECT_EQ_I64(words->checkpoint.kind, KS_POSITION_AT_TIMESTAMP);
    EXPECT_EQ_I64(words->checkpoint.timestamp_ms, BEGAN_MS);
    noted = written(&rows, KS_STORE_TAKE_OVER, 0);
    EXPECT(noted != NULL);
    EXPECT_EQ_I64(noted->checkpoint.kind, KS_POSITION_LATEST);
    EXPECT_EQ_I64(noted->checkpoint.timestamp_ms, BEGAN_MS);
    EXPECT(written(&rows, KS_STORE_CHECKPOINT, 0) == NULL);
    /* Another one of ours had noted it, before we began. */
    words = read_start(&rows, KS_POSITION_LATEST, BEGAN_MS - 5000);
    EXPECT_EQ_I64(words->checkpoint.kind, KS_POSITION_AT_TIMESTAMP);
    EXPECT_EQ_I64(words->checkpoint.timestamp_ms, BEGAN_MS - 5000);
    EXPECT(written(&rows, KS_STORE_TAKE_OVER, 0) == NULL);
    (void)read_start(&rows, KS_POSITION_TRIM_HORIZON, 0);
    EXPECT(written(&rows, KS_STORE_ASSIGN, 0) == NULL);
    ks_rows_free(&rows);
}

TEST(an_instant_is_that_of_the_options_or_the_oldest)
{
    const struct ks_shard_words *words;
    struct ks_rows rows;

    keep(&rows, KS_POSITION_AT_TIMESTAMP, 77);
    words = read_start(&rows, KS_POSITION_AT_TIMESTAMP, 0);
    EXPECT_EQ_I64(words->checkpoint.kind, KS_POSITION_AT_TIMESTAMP);
    EXPECT_EQ_I64(words->checkpoint.timestamp_ms, 77);
    ks_rows_free(&rows);
    keep(&rows, KS_POSITION_LATEST, 0);
    words = read_start(&rows, KS_POSITION_AT_TIMESTAMP, 0);
    EXPECT_EQ_I64(words->checkpoint.kind, KS_POSITION_TRIM_HORIZON);
    ks_rows_free(&rows);
}

/* Where the row of a child begins, whose parent has one. */
static struct ks_position child_of(enum ks_position_kind initial)
{
    static const struct ks_shard_listing shards[2] = {
        {.shard = "shard-0", .hash_start = "0", .hash_end = "9"},
        {.shard = "shard-1", .parents = {"shard-0"}, .hash_start = "0", .hash_end = "9"}};
    const struct ks_list_answer answer = {.shards = shards, .count = 2};
    const struct ks_store_lease *made;
    struct ks_position begin;
    struct ks_event event;
    struct ks_rows rows;

    keep(&rows, initial, initial == KS_POSITION_AT_TIMESTAMP ? 77 : 0);
    ks_rows_listed(&rows, &answer, now, &event);
    made = written(&rows, KS_STORE_CREATE, 1);
    EXPECT_EQ_I64(made->checkpoint.kind, initial);
    EXPECT_EQ_I64(made->checkpoint.timestamp_ms, initial == KS_POSITION_LATEST         ? BEGAN_MS
                                                 : initial == KS_POSITION_AT_TIMESTAMP ? 77
                                                                                       : 0);
    (void)read_start(&rows, KS_POSITION_TRIM_HORIZON, 0);
    begin = written(&rows, KS_STORE_CREATE, 1)->checkpoint;
    ks_rows_free(&rows);
    return begin;
}

TEST(below_a_row_a_shard_is_read_from_its_start_but_not_from_before_the_instant)
{
    EXPECT_EQ_I64(child_of(KS_POSITION_TRIM_HORIZON).kind, KS_POSITION_TRIM_HORIZON);
    EXPECT_EQ_I64(child_of(KS_POSITION_LATEST).kind, KS_POSITION_TRIM_HORIZON);
    EXPECT_EQ_I64(child_of(KS_POSITION_AT_TIMESTAMP).kind, KS_POSITION_AT_TIMESTAMP);
}

TEST(a_row_without_hash_keys_gets_those_of_the_listing_and_stays_as_it_is)
{
    static const struct ks_shard_listing shard = {
        .shard = "shard-0", .hash_start = "0", .hash_end = "9"};
    const struct ks_list_answer answer = {.shards = &shard, .count = 1};
    struct ks_store_lease row = lease("shard-0", "pod-b", 0, 3, "100");
    const struct ks_store_lease *keys;
    const struct ks_shard_words *words;
    struct ks_event event;
    struct ks_rows rows;

    keep(&rows, KS_POSITION_TRIM_HORIZON, 0);
    event = read_leases(&rows, true, &row, 1);
    EXPECT(event.store.leases[0].unranged && !event.store.leases[0].ranged);
    ks_rows_listed(&rows, &answer, now, &event);
    keys = written(&rows, KS_STORE_FILL, 0);
    EXPECT_STR(keys->hash_start, "0");
    EXPECT_STR(keys->hash_end, "9");
    ks_rows_wrote(&rows, KS_STORE_FILL, 0, 0, 3, NULL, KS_NOBODY, wall);
    words = ks_rows_words(&rows, 0);
    EXPECT_EQ_U64(words->rev, 3);
    EXPECT_STR(words->checkpoint.sequence, "100");
    (void)snprintf(row.hash_start, sizeof row.hash_start, "0");
    event = read_leases(&rows, true, &row, 1);
    EXPECT(!event.store.leases[0].unranged && !event.store.leases[0].ranged);
    ks_rows_free(&rows);
}

TEST(a_start_that_the_stream_has_not_reached_begins_at_its_first_sight)
{
    struct ks_store_lease row = lease("one", "", 0, 77, "");
    struct ks_rows rows;

    init(&rows);
    row.checkpoint = (struct ks_position){.kind = KS_POSITION_AT_TIMESTAMP, .sub_sequence = -1};
    rows.stream_ms = wall.ms;
    row.checkpoint.timestamp_ms = wall.ms + 5000; /* Two readings of the clock differ. */
    (void)read_leases(&rows, true, &row, 1);
    EXPECT_EQ_I64(ks_rows_words(&rows, 0)->checkpoint.timestamp_ms, wall.ms + 5000);
    row.checkpoint.timestamp_ms = wall.ms + 3600000;
    (void)read_leases(&rows, true, &row, 1);
    EXPECT_EQ_I64(ks_rows_words(&rows, 0)->checkpoint.timestamp_ms, wall.ms);
    rows.stream_ms = wall.ms + 7200000; /* Also when it is reached. */
    (void)read_leases(&rows, true, &row, 1);
    EXPECT_EQ_I64(ks_rows_words(&rows, 0)->checkpoint.timestamp_ms, wall.ms);
    row.checkpoint.timestamp_ms = wall.ms + 3700000; /* Another start, by a seek. */
    (void)read_leases(&rows, true, &row, 1);
    EXPECT_EQ_I64(ks_rows_words(&rows, 0)->checkpoint.timestamp_ms, wall.ms + 3700000);
    ks_rows_free(&rows);
}
