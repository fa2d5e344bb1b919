/* SPDX-License-Identifier: Apache-2.0 */
/* What is the local stream's own; the promises of the port are kept in the contract suite. */
#include "adapters/local/stream.h"

#include "adapters/local/shards.h"
#include "adapters/local/slice.h"
#include "base/metrics.h"

#include "ks_test.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

static const char FIRST[] = "shardId-000000000000";

struct rig {
    struct ks_loop *loop;
    struct ks_stream_source *source;
    struct ks_budget budget;
    int64_t live; /* Allocations of the loop alone. */
};

struct put {
    uint32_t times;
    ks_err err;
    struct ks_detail detail;
    struct ks_put_result result;
    uint32_t count;
};

struct read {
    uint32_t times;
    struct ks_read_answer answer;
};

static struct ks_stream_source *open_source(struct ks_loop *loop)
{
    struct ks_stream_source *source;
    struct ks_detail detail = {.text = ""};
    ks_err err = ks_local_source_open(loop, ks_test_path("stream.db"), "demo", 1, &source, &detail);

    EXPECT_STR(ks_ok(err) ? "" : detail.text, "");
    return source;
}

static struct rig born(void)
{
    struct rig rig;

    EXPECT_OK(ks_loop_new(&rig.loop));
    rig.live = ks_alloc_live();
    rig.source = open_source(rig.loop);
    ks_budget_init(&rig.budget, 16 << 20);
    return rig;
}

static void turn_for(struct ks_loop *loop, int ms)
{
    ks_instant until;

    ks_loop_turn(loop, ks_span_ms(0));
    until = ks_instant_add(ks_loop_now(loop), ks_span_ms(ms));
    while (ks_instant_before(ks_loop_now(loop), until))
        ks_loop_turn(loop, ks_span_ms(1));
}

static void end(struct rig *rig)
{
    rig->source->vtable->close(rig->source);
    /* A job that is under way comes back first. */
    for (int at = 0; ks_alloc_live() != rig->live && at < 2000; at++)
        ks_loop_turn(rig->loop, ks_span_ms(10));
    ks_loop_free(rig->loop);
    EXPECT_EQ_U64(rig->budget.used, 0);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

static void wait(struct ks_loop *loop, const uint32_t *times)
{
    for (int at = 0; *times == 0 && at < 5000; at++)
        ks_loop_turn(loop, ks_span_ms(10));
    EXPECT_EQ_U64(*times, 1);
}

static void keep_put(void *arg, const struct ks_put_answer *answer)
{
    struct put *put = arg;

    put->times++;
    put->err = answer->err;
    put->detail = answer->detail;
    put->count = answer->count;
    if (answer->count > 0)
        put->result = answer->results[0];
}

static void begin_put(struct ks_stream_source *source, const void *data, size_t size,
                      struct put *put)
{
    struct ks_put_entry entry = {.data = ks_view_of(data, size), .partition_key = KS_VIEW("k")};

    memset(put, 0, sizeof(*put));
    source->vtable->put(source, &entry, 1, keep_put, put);
    EXPECT_EQ_U64(put->times, 0);
}

static void keep_read(void *arg, const struct ks_read_answer *answer)
{
    struct read *read = arg;

    read->times++;
    read->answer = *answer;
}

static struct ks_reader *open_reader(struct rig *rig, enum ks_position_kind kind)
{
    struct ks_position from = {.kind = kind, .sub_sequence = -1};
    struct ks_reader *reader;

    EXPECT_OK(rig->source->vtable->open(rig->source, FIRST, &from, &rig->budget, &reader));
    return reader;
}

static void begin_read(struct rig *rig, struct ks_reader *reader, struct read *read)
{
    memset(read, 0, sizeof(*read));
    rig->source->vtable->read(reader, 100, 1 << 20, keep_read, read);
}

/* Reads until the tip says that there is nothing. */
static void reach_tip(struct rig *rig, struct ks_reader *reader)
{
    struct read read = {.times = 0};

    do {
        begin_read(rig, reader, &read);
        wait(rig->loop, &read.times);
        EXPECT_OK(read.answer.err);
        ks_batch_free(&read.answer.batch);
    } while (read.answer.batch.count > 0);
}

static int64_t ms_since(struct rig *rig, ks_instant then)
{
    return ks_span_to_ms(ks_instant_since(ks_loop_now(rig->loop), then));
}

TEST(a_waiting_reader_hears_of_a_put_at_once_here_and_soon_elsewhere)
{
    struct rig rig = born();
    struct ks_stream_source *other = open_source(rig.loop);
    struct ks_reader *reader = open_reader(&rig, KS_POSITION_TRIM_HORIZON);
    int64_t best_own = 1000;
    int64_t best_other = 1000;
    struct read read;
    struct put put;

    for (int at = 0; at < 10; at++) {
        struct ks_stream_source *from = at % 2 == 0 ? rig.source : other;
        int64_t *best = at % 2 == 0 ? &best_own : &best_other;

        reach_tip(&rig, reader);
        begin_read(&rig, reader, &read);
        turn_for(rig.loop, 40);
        EXPECT_EQ_U64(read.times, 0);
        ks_instant before = ks_loop_now(rig.loop);
        begin_put(from, "x", 1, &put);
        wait(rig.loop, &read.times);
        EXPECT_OK(read.answer.err);
        EXPECT_EQ_U64(read.answer.batch.count, 1);
        ks_batch_free(&read.answer.batch);
        wait(rig.loop, &put.times);
        if (ms_since(&rig, before) < *best)
            *best = ms_since(&rig, before);
    }
    /* The disk may be slow once; not each time. */
    EXPECT(best_own < 20);
    EXPECT(best_other < 20 + KS_LOCAL_POLL_MS);
    rig.source->vtable->close_reader(reader);
    other->vtable->close(other);
    end(&rig);
}

TEST(a_read_at_the_tip_is_held_and_then_answered_empty)
{
    struct rig rig = born();
    struct ks_reader *reader = open_reader(&rig, KS_POSITION_TRIM_HORIZON);
    struct read read;

    ks_instant before = ks_loop_now(rig.loop);
    reach_tip(&rig, reader);
    EXPECT(ms_since(&rig, before) < KS_LOCAL_HOLD_MS / 2);
    begin_read(&rig, reader, &read);
    before = ks_loop_now(rig.loop);
    wait(rig.loop, &read.times);
    EXPECT_EQ_U64(read.answer.batch.count, 0);
    EXPECT_EQ_I64(read.answer.batch.millis_behind, 0);
    EXPECT(ms_since(&rig, before) >= KS_LOCAL_HOLD_MS - 5);
    EXPECT(ms_since(&rig, before) < KS_LOCAL_HOLD_MS + 500);
    rig.source->vtable->close_reader(reader);
    end(&rig);
}

TEST(many_puts_share_commits_and_keep_their_order)
{
    struct rig rig = born();
    struct ks_reader *reader = open_reader(&rig, KS_POSITION_TRIM_HORIZON);
    static struct put puts[300];
    struct read read;
    uint32_t seen = 0;
    int64_t counted = ks_metric_number(KS_METRIC_RECORDS_PUT);
    char data[16];

    for (int at = 0; at < 300; at++) {
        (void)snprintf(data, sizeof(data), "%d", at);
        begin_put(rig.source, data, strlen(data), &puts[at]);
    }
    for (int at = 0; at < 300; at++) {
        wait(rig.loop, &puts[at].times);
        EXPECT_OK(puts[at].err);
        EXPECT_EQ_U64(puts[at].count, 1);
        if (at > 0)
            EXPECT(strcmp(puts[at - 1].result.sequence, puts[at].result.sequence) < 0);
    }
    EXPECT_EQ_I64(ks_metric_number(KS_METRIC_RECORDS_PUT) - counted, 300);
    while (seen < 300) {
        begin_read(&rig, reader, &read);
        wait(rig.loop, &read.times);
        for (uint32_t at = 0; at < read.answer.batch.count; at++) {
            (void)snprintf(data, sizeof(data), "%u", seen);
            EXPECT(ks_view_equal(read.answer.batch.records[at].data, ks_view_text(data)));
            EXPECT(ks_view_equal(read.answer.batch.records[at].sequence,
                                 ks_view_text(puts[seen].result.sequence)));
            seen++;
        }
        ks_batch_free(&read.answer.batch);
    }
    rig.source->vtable->close_reader(reader);
    end(&rig);
}

TEST(what_cannot_be_put_is_answered_later_and_puts_nothing)
{
    struct rig rig = born();
    struct ks_put_entry entries[] = {
        {.data = KS_VIEW("fine"), .partition_key = KS_VIEW("k")},
        {.data = KS_VIEW("bad"), .partition_key = KS_VIEW("")},
    };
    struct ks_reader *reader = open_reader(&rig, KS_POSITION_TRIM_HORIZON);
    struct put put = {.times = 0};
    struct read read;

    rig.source->vtable->put(rig.source, entries, 2, keep_put, &put);
    EXPECT_EQ_U64(put.times, 0);
    wait(rig.loop, &put.times);
    EXPECT_ERR(put.err, INVALID);
    EXPECT_CONTAINS(put.detail.text, "record 1");
    begin_read(&rig, reader, &read);
    wait(rig.loop, &read.times);
    EXPECT_EQ_U64(read.answer.batch.count, 0);
    EXPECT_EQ_I64(rig.source->vtable->state(rig.source, NULL), KS_STORE_READY);
    rig.source->vtable->close_reader(reader);
    end(&rig);
}

TEST(a_full_disk_is_told_and_forgotten_when_there_is_room)
{
    struct rig rig = born();
    struct rlimit limit;
    struct ks_detail detail;
    static uint8_t large[1 << 20];
    struct put put;

    begin_put(rig.source, "x", 1, &put);
    wait(rig.loop, &put.times);
    EXPECT_OK(put.err);
    /* No file grows beyond this. */
    (void)signal(SIGXFSZ, SIG_IGN);
    EXPECT_EQ_I64(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = 128 << 10;
    EXPECT_EQ_I64(setrlimit(RLIMIT_FSIZE, &limit), 0);
    begin_put(rig.source, large, sizeof(large), &put);
    wait(rig.loop, &put.times);
    EXPECT_ERR(put.err, DISK);
    EXPECT_EQ_U64(put.count, 0);
    EXPECT_CONTAINS(put.detail.text, "stream.db");
    EXPECT_EQ_I64(rig.source->vtable->state(rig.source, &detail), KS_STORE_AWAY);
    EXPECT_CONTAINS(detail.text, "stream.db");

    limit.rlim_cur = limit.rlim_max;
    EXPECT_EQ_I64(setrlimit(RLIMIT_FSIZE, &limit), 0);
    begin_put(rig.source, large, sizeof(large), &put);
    wait(rig.loop, &put.times);
    EXPECT_OK(put.err);
    EXPECT_EQ_I64(rig.source->vtable->state(rig.source, &detail), KS_STORE_READY);
    EXPECT_STR(detail.text, "");
    end(&rig);
}

TEST(a_file_that_breaks_while_it_is_used_is_told)
{
    struct rig rig = born();
    struct ks_reader *reader = open_reader(&rig, KS_POSITION_TRIM_HORIZON);
    struct ks_local_db *db;
    struct ks_detail detail;
    struct read read;

    reach_tip(&rig, reader);
    EXPECT_OK(ks_local_db_open(ks_test_path("stream.db"), "demo", 1, &db, NULL));
    EXPECT_EQ_I64(sqlite3_exec(db->handle, "UPDATE shards SET next = -5", NULL, NULL, NULL),
                  SQLITE_OK);
    ks_local_db_close(db);
    begin_read(&rig, reader, &read);
    wait(rig.loop, &read.times);
    EXPECT_ERR(read.answer.err, CORRUPT);
    EXPECT_CONTAINS(read.answer.detail.text, "makes no sense");
    EXPECT_EQ_I64(rig.source->vtable->state(rig.source, &detail), KS_STORE_UNUSABLE);
    rig.source->vtable->close_reader(reader);
    end(&rig);
}

static void keep_list(void *arg, const struct ks_list_answer *answer)
{
    struct put *kept = arg;

    kept->times++;
    kept->err = answer->err;
    kept->count = answer->count;
}

/* A record that is older than the stream keeps any. */
static void leave_an_old_record(void)
{
    struct ks_local_db *db;
    struct put put;
    struct rig rig = born();

    begin_put(rig.source, "x", 1, &put);
    wait(rig.loop, &put.times);
    end(&rig);
    EXPECT_OK(ks_local_db_open(ks_test_path("stream.db"), "demo", 1, &db, NULL));
    EXPECT_OK(ks_local_db_set_retention(db, 1, NULL));
    ks_local_db_close(db);
}

static void expect_no_record(struct rig *rig)
{
    struct ks_reader *reader = open_reader(rig, KS_POSITION_TRIM_HORIZON);
    struct read read;

    begin_read(rig, reader, &read);
    wait(rig->loop, &read.times);
    EXPECT_OK(read.answer.err);
    EXPECT_EQ_U64(read.answer.batch.count, 0);
    rig->source->vtable->close_reader(reader);
}

TEST(old_records_are_trimmed_while_it_runs)
{
    struct rig rig;

    leave_an_old_record();
    rig = born();
    turn_for(rig.loop, 300);
    expect_no_record(&rig);
    end(&rig);
}

TEST(what_expired_while_nobody_was_here_is_gone_before_the_shards_are_listed)
{
    struct put kept = {.times = 0};
    struct rig rig;

    leave_an_old_record();
    rig = born();
    rig.source->vtable->list(rig.source, 0, keep_list, &kept);
    wait(rig.loop, &kept.times);
    expect_no_record(&rig);
    end(&rig);
}

TEST(each_allocation_that_fails_is_answered_and_leaks_nothing)
{
    for (uint64_t n = 1; n < 12; n++) {
        struct rig rig = born();
        struct ks_reader *reader = open_reader(&rig, KS_POSITION_TRIM_HORIZON);
        struct put put = {.times = 0};
        struct put list = {.times = 0};
        struct read read;

        turn_for(rig.loop, 5);
        ks_alloc_fail_after(n, 0);
        begin_put(rig.source, "x", 1, &put);
        rig.source->vtable->list(rig.source, 0, keep_list, &list);
        begin_read(&rig, reader, &read);
        wait(rig.loop, &put.times);
        wait(rig.loop, &list.times);
        wait(rig.loop, &read.times);
        ks_alloc_fail_after(0, 0);
        EXPECT(ks_ok(put.err) || ks_err_is(put.err, KS_ERR_NO_MEMORY));
        EXPECT(ks_ok(list.err) || ks_err_is(list.err, KS_ERR_NO_MEMORY));
        EXPECT(ks_ok(read.answer.err) || ks_err_is(read.answer.err, KS_ERR_NO_MEMORY));
        ks_batch_free(&read.answer.batch);
        rig.source->vtable->close_reader(reader);
        end(&rig);
    }
}

/* How many records a reader gets from `since_ms` on. */
static uint32_t count_since(struct rig *rig, int64_t since_ms)
{
    struct ks_position from = {
        .kind = KS_POSITION_AT_TIMESTAMP, .timestamp_ms = since_ms, .sub_sequence = -1};
    struct ks_reader *reader;
    struct read read = {.times = 0};
    uint32_t count;

    EXPECT_OK(rig->source->vtable->open(rig->source, FIRST, &from, &rig->budget, &reader));
    begin_read(rig, reader, &read);
    wait(rig->loop, &read.times);
    EXPECT_OK(read.answer.err);
    count = read.answer.batch.count;
    ks_batch_free(&read.answer.batch);
    rig->source->vtable->close_reader(reader);
    return count;
}

/* A clock that was an hour ahead, and was set back. */
TEST(no_record_arrives_before_the_clock_that_was_given)
{
    const int64_t ahead_ms = ks_wall_now().ms + 3600000;
    struct ks_local_db *db;
    struct ks_detail detail;
    struct put put;
    struct rig rig = born();

    EXPECT_OK(ks_local_db_open(ks_test_path("stream.db"), "demo", 1, &db, &detail));
    EXPECT_OK(ks_shards_raise(db, ahead_ms, &detail));
    ks_local_db_close(db);
    rig.source->vtable->close(rig.source);
    turn_for(rig.loop, 50);
    rig.source = open_source(rig.loop);

    int64_t given_ms = rig.source->vtable->now_ms(rig.source);
    EXPECT(given_ms > ahead_ms); /* What arrived at the same instant is not after it. */
    struct ks_stream_source *other = open_source(rig.loop);
    EXPECT_EQ_U64(count_since(&rig, given_ms), 0); /* Its job has told the file, too. */
    begin_put(other, "a", 1, &put); /* As another process does, which was given nothing. */
    wait(rig.loop, &put.times);
    EXPECT_OK(put.err);
    EXPECT_EQ_U64(count_since(&rig, given_ms), 1);
    begin_put(rig.source, "b", 1, &put);
    wait(rig.loop, &put.times);
    EXPECT_OK(put.err);
    EXPECT_EQ_U64(count_since(&rig, given_ms), 2);
    other->vtable->close(other);
    turn_for(rig.loop, 50);
    end(&rig);
}

TEST(children_of_a_shard_take_its_last_arrival)
{
    const int64_t ahead_ms = ks_wall_now().ms + 3600000;
    struct ks_shard_row_local *rows = NULL;
    uint32_t count = 0;
    struct ks_local_db *db;
    struct ks_detail detail;

    EXPECT_OK(ks_local_db_open(ks_test_path("stream.db"), "demo", 1, &db, &detail));
    EXPECT_OK(ks_shards_raise(db, ahead_ms, &detail));
    EXPECT_OK(ks_shards_split(db, FIRST, "1000", &detail));
    EXPECT_OK(ks_shards_load(db, false, &rows, &count, &detail));
    EXPECT_EQ_U64(count, 3);
    EXPECT_EQ_I64(rows[0].closed_ms, ahead_ms);
    EXPECT_EQ_I64(rows[1].arrival_ms, ahead_ms);
    EXPECT_EQ_I64(rows[2].arrival_ms, ahead_ms);
    ks_free(rows);
    EXPECT_OK(ks_shards_merge(db, "shardId-000000000001", "shardId-000000000002", &detail));
    EXPECT_OK(ks_shards_load(db, true, &rows, &count, &detail));
    EXPECT_EQ_U64(count, 1);
    EXPECT_EQ_I64(rows[0].arrival_ms, ahead_ms);
    ks_free(rows);
    ks_local_db_close(db);
}

TEST(it_may_be_closed_while_its_job_runs)
{
    for (int turns = 0; turns < 4; turns++) {
        struct rig rig = born();
        struct put put;
        struct ks_reader *reader = open_reader(&rig, KS_POSITION_LATEST);
        struct read read;

        begin_put(rig.source, "x", 1, &put);
        begin_read(&rig, reader, &read);
        for (int at = 0; at < turns; at++)
            ks_loop_turn(rig.loop, ks_span_ms(2));
        if (read.times > 0)
            ks_batch_free(&read.answer.batch);
        uint32_t puts = put.times;
        uint32_t reads = read.times;
        rig.source->vtable->close_reader(reader);
        end(&rig);
        EXPECT_EQ_U64(put.times, puts);
        EXPECT_EQ_U64(read.times, reads);
    }
}

/* A slice of one shard with two records that arrived `apart_ms` after each other, long ago; played. */
static struct rig played(uint32_t speed, int64_t apart_ms)
{
    const struct ks_shard_listing shard = {.shard = "shardId-000000000000",
                                           .hash_start = "0",
                                           .hash_end = "340282366920938463463374607431768211455"};
    const struct ks_record records[] = {{.sequence = KS_VIEW("11"),
                                         .partition_key = KS_VIEW("k"),
                                         .data = KS_VIEW("one"),
                                         .arrival_ms = 1000000},
                                        {.sequence = KS_VIEW("12"),
                                         .partition_key = KS_VIEW("k"),
                                         .data = KS_VIEW("two"),
                                         .arrival_ms = 1000000 + apart_ms}};
    const struct ks_local_options options = {.shards = 1, .speed = speed};
    struct ks_local_slice *slice;
    struct rig rig;

    EXPECT_OK(
        ks_local_slice_new(ks_test_path("stream.db"), false, "demo", 0, &shard, 1, &slice, NULL));
    EXPECT_OK(ks_local_slice_add(slice, 0, records, 2, NULL));
    EXPECT_OK(ks_local_slice_finish(slice, NULL));
    ks_local_slice_free(slice);
    EXPECT_OK(ks_loop_new(&rig.loop));
    rig.live = ks_alloc_live();
    EXPECT_OK(ks_local_source_open_with(rig.loop, ks_test_path("stream.db"), "demo", &options,
                                        &rig.source, NULL));
    ks_budget_init(&rig.budget, 16 << 20);
    return rig;
}

TEST(a_record_of_a_played_stream_comes_when_its_time_has_come)
{
    struct rig rig = played(4, 2000);
    struct ks_reader *reader = open_reader(&rig, KS_POSITION_TRIM_HORIZON);
    const ks_instant begun = ks_loop_now(rig.loop);
    struct read read;
    uint32_t count;

    begin_read(&rig, reader, &read);
    wait(rig.loop, &read.times);
    EXPECT_OK(read.answer.err);
    EXPECT_EQ_U64(read.answer.batch.count, 1);
    EXPECT(ks_view_equal(read.answer.batch.records[0].sequence, KS_VIEW("11")));
    EXPECT_EQ_I64(read.answer.batch.millis_behind, 0);
    ks_batch_free(&read.answer.batch);
    do {
        begin_read(&rig, reader, &read);
        wait(rig.loop, &read.times);
        EXPECT_OK(read.answer.err);
        count = read.answer.batch.count;
        EXPECT(count == 0 || ms_since(&rig, begun) >= 500);
        ks_batch_free(&read.answer.batch);
    } while (count == 0);
    rig.source->vtable->close_reader(reader);
    end(&rig);
}

TEST(a_slice_takes_no_records)
{
    struct rig rig = played(0, 1);
    struct put put;

    begin_put(rig.source, "x", 1, &put);
    wait(rig.loop, &put.times);
    EXPECT_ERR(put.err, INVALID);
    EXPECT_CONTAINS(put.detail.text, "a captured slice, which takes no records");
    end(&rig);
}
