/* SPDX-License-Identifier: Apache-2.0 */
/* Before a real source it stands in the contract suite; here the source behind gives what it is told to. */
#include "adapters/kinesis/user_records.h"

#include "adapters/kinesis/builder.h"
#include "base/metrics.h"

#include "kpl.h"
#include "ks_test.h"

#include <stdio.h>

enum { ANSWERS = 8, USERS_MAX = 40000, ALL = KS_READ_RECORDS_MAX, RAW_MAX = 8 << 20 };

static const char *const KEYS[] = {"a", "b"};

/* --- The source behind --- */

struct behind {
    struct ks_stream_source port;
    struct ks_stream_source_vtable vtable;
    struct ks_loop *loop;
    struct ks_timer timer;
    struct ks_read_answer answers[ANSWERS];
    uint32_t count;
    uint32_t given;
    uint32_t max_records; /* Of the last read. */
    uint32_t max_bytes;
    struct ks_position from;
    void (*answered)(void *arg, const struct ks_read_answer *answer);
    void *arg;
    uint32_t open;
    char passed[64]; /* What else it was asked for. */
};

static struct behind behind;

static ks_err behind_open(struct ks_stream_source *port, const char *shard,
                          const struct ks_position *from, struct ks_budget *budget,
                          struct ks_reader **ret_reader)
{
    (void)budget;
    EXPECT(port == &behind.port);
    EXPECT_STR(shard, "shard-1");
    behind.from = *from;
    behind.open++;
    *ret_reader = (struct ks_reader *)(void *)&behind;
    return KS_OK;
}

static void behind_due(struct ks_timer *timer)
{
    EXPECT(timer == &behind.timer);
    behind.answered(behind.arg, &behind.answers[behind.given++]);
}

static void behind_read(struct ks_reader *reader, uint32_t max_records, uint32_t max_bytes,
                        void (*answered)(void *arg, const struct ks_read_answer *answer), void *arg)
{
    EXPECT((void *)reader == (void *)&behind);
    EXPECT(behind.given < behind.count);
    behind.max_records = max_records;
    behind.max_bytes = max_bytes;
    behind.answered = answered;
    behind.arg = arg;
    ks_loop_timer_set(behind.loop, &behind.timer, ks_loop_now(behind.loop));
}

static void behind_close_reader(struct ks_reader *reader)
{
    EXPECT((void *)reader == (void *)&behind);
    ks_loop_timer_clear(behind.loop, &behind.timer);
    behind.open--;
}

static void note(const char *what)
{
    size_t size = strlen(behind.passed);

    (void)snprintf(behind.passed + size, sizeof(behind.passed) - size, "%s ", what);
}

static void behind_describe(struct ks_stream_source *port,
                            void (*answered)(void *arg, const struct ks_describe_answer *answer),
                            void *arg)
{
    EXPECT(port == &behind.port);
    EXPECT(answered == NULL);
    EXPECT(arg == &behind);
    note("describe");
}

static void behind_list(struct ks_stream_source *port, int64_t since_ms,
                        void (*answered)(void *arg, const struct ks_list_answer *answer), void *arg)
{
    EXPECT(port == &behind.port);
    EXPECT_EQ_I64(since_ms, 77);
    EXPECT(answered == NULL);
    EXPECT(arg == &behind);
    note("list");
}

static int64_t behind_now_ms(struct ks_stream_source *port)
{
    EXPECT(port == &behind.port);
    note("now");
    return 1795219200123;
}

static void behind_put(struct ks_stream_source *port, const struct ks_put_entry *entries,
                       uint32_t count,
                       void (*answered)(void *arg, const struct ks_put_answer *answer), void *arg)
{
    EXPECT(port == &behind.port);
    EXPECT(entries == NULL);
    EXPECT_EQ_U64(count, 3);
    EXPECT(answered == NULL);
    EXPECT(arg == &behind);
    note("put");
}

static enum ks_store_state behind_state(const struct ks_stream_source *port,
                                        struct ks_detail *ret_detail)
{
    EXPECT(port == &behind.port);
    ks_detail_set(ret_detail, "as it is behind");
    return KS_STORE_AWAY;
}

static void behind_close(struct ks_stream_source *port)
{
    EXPECT(port == &behind.port);
    note("close");
}

/* --- The rig --- */

struct rig {
    struct ks_loop *loop;
    struct ks_stream_source *source;
    struct ks_reader *reader;
    struct ks_budget budget;
    struct ks_builder builder;
    struct ks_bytes packed;
    uint32_t times;
    struct ks_read_answer answer;
    char seen[512];
};

static struct rig rig;

/* A source on its feet, with a reader from this place. */
static void begin(const char *sequence, int64_t sub_sequence)
{
    struct ks_position from = {.kind = KS_POSITION_TRIM_HORIZON, .sub_sequence = sub_sequence};

    behind.vtable = (struct ks_stream_source_vtable){
        .describe = behind_describe,
        .list = behind_list,
        .open = behind_open,
        .read = behind_read,
        .close_reader = behind_close_reader,
        .now_ms = behind_now_ms,
        .put = behind_put,
        .state = behind_state,
        .close = behind_close,
    };
    behind.port.vtable = &behind.vtable;
    behind.timer.due = behind_due;
    EXPECT_OK(ks_loop_new(&rig.loop));
    behind.loop = rig.loop;
    ks_budget_init(&rig.budget, 64 << 20);
    ks_bytes_init(&rig.packed, 8 << 20);
    if (sequence != NULL) {
        from.kind = KS_POSITION_AFTER_SEQUENCE;
        EXPECT_OK(ks_view_copy_text(ks_view_text(sequence), from.sequence, sizeof(from.sequence)));
    }
    EXPECT_OK(ks_user_records_source_open(rig.loop, "demo", &behind.port, &rig.source));
    EXPECT_OK(rig.source->vtable->open(rig.source, "shard-1", &from, &rig.budget, &rig.reader));
    EXPECT_EQ_I64(behind.from.kind, from.kind);
    EXPECT_EQ_I64(behind.from.sub_sequence, sub_sequence);
}

static void end(void)
{
    if (rig.reader != NULL)
        rig.source->vtable->close_reader(rig.reader);
    EXPECT_EQ_U64(behind.open, 0);
    EXPECT_EQ_U64(behind.given, behind.count);
    rig.source->vtable->close(rig.source);
    EXPECT_CONTAINS(behind.passed, "close");
    ks_bytes_free(&rig.packed);
    ks_loop_free(rig.loop);
    EXPECT_EQ_U64(rig.budget.used, 0);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

/* The next answer of the source behind: raw_begin, raw_put for each record, raw_end. */
static void raw_begin(void)
{
    struct ks_block *block;

    EXPECT_OK(ks_block_new(&rig.budget, ks_builder_capacity(RAW_MAX, 16), &block));
    block->size = RAW_MAX;
    EXPECT_OK(ks_builder_begin(&rig.builder, block, 16));
}

static ks_view keep(ks_view view)
{
    if (view.size > 0)
        memcpy(ks_builder_room(&rig.builder), view.data, view.size);
    return ks_builder_took(&rig.builder, view.size);
}

static void raw_put(const char *sequence, ks_view data)
{
    struct ks_record record = {.sub_sequence = -1, .arrival_ms = 99};

    record.data = keep(data);
    record.partition_key = keep(KS_VIEW("raw"));
    record.sequence = keep(ks_view_text(sequence));
    EXPECT_OK(ks_builder_add(&rig.builder, &record));
}

/* An aggregate whose user records have the data 0, 1, 2 .. in decimal, and the keys "a" and "b" in turns. */
static void raw_put_aggregate(const char *sequence, uint32_t users)
{
    static struct kpl_record records[USERS_MAX];
    static char data[USERS_MAX][12];

    for (uint32_t at = 0; at < users; at++) {
        (void)snprintf(data[at], sizeof(data[at]), "%u", at);
        records[at] = (struct kpl_record){.key = at % 2, .data = ks_view_text(data[at])};
    }
    kpl_pack(&rig.packed, KEYS, 2, records, users);
    raw_put(sequence, ks_bytes_view(&rig.packed));
}

static void raw_put_broken(const char *sequence)
{
    ks_bytes_clear(&rig.packed);
    EXPECT_OK(ks_bytes_append(&rig.packed, KS_VIEW("no protobuf")));
    kpl_frame(&rig.packed);
    raw_put(sequence, ks_bytes_view(&rig.packed));
}

static struct ks_batch *raw_end(void)
{
    struct ks_read_answer *answer = &behind.answers[behind.count++];

    EXPECT(behind.count <= ANSWERS);
    answer->batch = (struct ks_batch){.millis_behind = 0};
    ks_builder_finish(&rig.builder, &answer->batch);
    return &answer->batch;
}

static void keep_answer(void *arg, const struct ks_read_answer *answer)
{
    EXPECT(arg == &rig);
    rig.times++;
    rig.answer = *answer;
}

/* Reads; the answer is rig.answer, and comes in a later turn. */
static void read_some(uint32_t max_records, uint32_t max_bytes)
{
    rig.times = 0;
    rig.source->vtable->read(rig.reader, max_records, max_bytes, keep_answer, &rig);
    EXPECT_EQ_U64(rig.times, 0);
    for (int turns = 0; rig.times == 0 && turns < 10; turns++)
        ks_loop_turn(rig.loop, ks_span_ms(0));
    EXPECT_EQ_U64(rig.times, 1);
}

/* What the last read brought: "5/0:a=0 5/1:b=1 6:raw=x", an aggregate as it is as "7:raw*". */
static const char *seen(void)
{
    size_t size = 0;

    rig.seen[0] = '\0';
    EXPECT_OK(rig.answer.err);
    for (uint32_t at = 0; at < rig.answer.batch.count; at++) {
        const struct ks_record *record = &rig.answer.batch.records[at];
        char sub[24] = "";
        if (record->sub_sequence >= 0)
            (void)snprintf(sub, sizeof(sub), "/%" PRId64, record->sub_sequence);
        EXPECT_EQ_I64(record->arrival_ms, 99);
        size += (size_t)snprintf(
            rig.seen + size, sizeof(rig.seen) - size, "%s%.*s%s:%.*s%s%.*s", at == 0 ? "" : " ",
            (int)record->sequence.size, (const char *)record->sequence.data, sub,
            (int)record->partition_key.size, (const char *)record->partition_key.data,
            record->aggregated ? "*" : "=", record->aggregated ? 0 : (int)record->data.size,
            (const char *)record->data.data);
        EXPECT(size < sizeof(rig.seen));
    }
    return rig.seen;
}

static void expect_next(uint32_t max_records, const char *expected)
{
    read_some(max_records, 1 << 20);
    EXPECT_STR(seen(), expected);
    ks_batch_free(&rig.answer.batch);
}

/* --- The tests --- */

TEST(a_batch_without_aggregates_is_passed_on_untouched)
{
    begin(NULL, -1);
    raw_begin();
    raw_put("5", KS_VIEW("x"));
    raw_put("6", KS_VIEW("y"));
    struct ks_batch batch = *raw_end();

    read_some(77, 1234);
    EXPECT_EQ_U64(behind.max_records, 77);
    EXPECT_EQ_U64(behind.max_bytes, 1234);
    EXPECT(rig.answer.batch.block == batch.block);
    EXPECT(rig.answer.batch.records == batch.records);
    EXPECT_STR(seen(), "5:raw=x 6:raw=y");
    ks_batch_free(&rig.answer.batch);
    end();
}

TEST(an_aggregate_becomes_its_user_records)
{
    int64_t opened = ks_metric_number(KS_METRIC_AGGREGATES_OPENED);
    int64_t users = ks_metric_number(KS_METRIC_USER_RECORDS);

    begin(NULL, -1);
    raw_begin();
    raw_put("4", KS_VIEW("x"));
    raw_put_aggregate("5", 3);
    raw_put_aggregate("6", 0);
    raw_put("7", KS_VIEW("y"));
    raw_put_aggregate("8", 1);
    const struct ks_block *payload = raw_end()->block;

    read_some(ALL, 1 << 20);
    EXPECT_STR(seen(), "4:raw=x 5/0:a=0 5/1:b=1 5/2:a=2 7:raw=y 8/0:a=0");
    /* Nothing of the payload was copied. */
    EXPECT(rig.answer.batch.payload == payload);
    for (uint32_t at = 0; at < 6; at++) {
        EXPECT(rig.answer.batch.records[at].data.data >= payload->data);
        EXPECT(rig.answer.batch.records[at].data.data < payload->data + payload->size);
    }
    EXPECT_EQ_I64(rig.answer.batch.millis_behind, 0);
    ks_batch_free(&rig.answer.batch);
    EXPECT_EQ_I64(ks_metric_number(KS_METRIC_AGGREGATES_OPENED) - opened, 3);
    EXPECT_EQ_I64(ks_metric_number(KS_METRIC_USER_RECORDS) - users, 4);
    end();
}

TEST(what_a_read_did_not_ask_for_comes_with_the_next_ones)
{
    struct ks_batch first;

    begin(NULL, -1);
    raw_begin();
    raw_put_aggregate("5", 3);
    raw_put_aggregate("6", 3);
    struct ks_batch *batch = raw_end();
    batch->at_end = true;
    memcpy(batch->children[0], "child", 6);

    read_some(2, 1 << 20);
    EXPECT_STR(seen(), "5/0:a=0 5/1:b=1");
    EXPECT_EQ_I64(rig.answer.batch.millis_behind, 1);
    EXPECT(!rig.answer.batch.at_end);
    EXPECT_STR(rig.answer.batch.children[0], "");
    first = rig.answer.batch;
    expect_next(2, "5/2:a=2 6/0:a=0");
    read_some(2, 1 << 20);
    EXPECT_STR(seen(), "6/1:b=1 6/2:a=2");
    EXPECT_EQ_I64(rig.answer.batch.millis_behind, 0);
    EXPECT(rig.answer.batch.at_end);
    EXPECT_STR(rig.answer.batch.children[0], "child");
    ks_batch_free(&rig.answer.batch);
    EXPECT_EQ_U64(behind.given, 1);
    /* The first batch still has the payload. */
    EXPECT(ks_view_equal(first.records[1].data, KS_VIEW("1")));
    ks_batch_free(&first);
    EXPECT_EQ_U64(rig.budget.used, 0);
    end();
}

TEST(a_read_has_about_as_many_bytes_as_it_asks_for_and_at_least_one_record)
{
    begin(NULL, -1);
    raw_begin();
    raw_put_aggregate("5", 5);
    (void)raw_end();
    /* A digit and a key of one letter each. */
    read_some(ALL, 5);
    EXPECT_STR(seen(), "5/0:a=0 5/1:b=1");
    ks_batch_free(&rig.answer.batch);
    read_some(ALL, 0);
    EXPECT_STR(seen(), "5/2:a=2");
    ks_batch_free(&rig.answer.batch);
    expect_next(ALL, "5/3:b=3 5/4:a=4");
    end();
}

TEST(a_broken_aggregate_is_delivered_as_it_is_and_counted)
{
    int64_t before = ks_metric_number(KS_METRIC_AGGREGATES_BROKEN);

    begin(NULL, -1);
    raw_begin();
    raw_put_aggregate("5", 1);
    raw_put_broken("6");
    raw_put_aggregate("7", 1);
    raw_put_broken("8");
    (void)raw_end();
    read_some(ALL, 1 << 20);
    EXPECT_STR(seen(), "5/0:a=0 6:raw* 7/0:a=0 8:raw*");
    EXPECT_EQ_U64(rig.answer.batch.records[1].data.size, 4 + 11 + 16);
    ks_batch_free(&rig.answer.batch);
    EXPECT_EQ_I64(ks_metric_number(KS_METRIC_AGGREGATES_BROKEN) - before, 2);
    end();
}

TEST(user_records_of_other_shards_are_passed_over_and_the_rest_keeps_its_numbers)
{
    const struct kpl_record records[] = {{.key = 0, .data = KS_VIEW("0"), .hash_key = "99"},
                                         {.key = 0, .data = KS_VIEW("1"), .hash_key = "100"},
                                         {.key = 0, .data = KS_VIEW("2"), .hash_key = "199"},
                                         {.key = 0, .data = KS_VIEW("3"), .hash_key = "200"},
                                         {.key = 1, .data = KS_VIEW("4")}};
    int64_t before = ks_metric_number(KS_METRIC_USER_RECORDS_FOREIGN);

    begin(NULL, -1);
    rig.source->vtable->set_range(rig.reader, "100", "199");
    for (int at = 0; at < 2; at++) {
        raw_begin();
        kpl_pack(&rig.packed, KEYS, 2, records, 5);
        raw_put("5", ks_bytes_view(&rig.packed));
        /* Plain records are where Kinesis put them. */
        raw_put("6", KS_VIEW("x"));
        (void)raw_end();
    }
    expect_next(ALL, "5/1:a=1 5/2:a=2 6:raw=x");
    EXPECT_EQ_I64(ks_metric_number(KS_METRIC_USER_RECORDS_FOREIGN) - before, 3);
    /* Of a shard whose keys are not known, or that has all, everything is its own. */
    rig.source->vtable->set_range(rig.reader, "100", "");
    expect_next(2, "5/0:a=0 5/1:a=1");
    rig.source->vtable->set_range(rig.reader, "0", "340282366920938463463374607431768211455");
    expect_next(ALL, "5/2:a=2 5/3:a=3 5/4:b=4 6:raw=x");
    EXPECT_EQ_I64(ks_metric_number(KS_METRIC_USER_RECORDS_FOREIGN) - before, 3);
    end();
}

TEST(a_batch_of_foreign_user_records_is_an_empty_one)
{
    begin(NULL, -1);
    rig.source->vtable->set_range(rig.reader, "1", "1");
    raw_begin();
    raw_put_aggregate("5", 10);
    raw_end()->at_end = true;
    read_some(ALL, 1 << 20);
    EXPECT_STR(seen(), "");
    EXPECT(rig.answer.batch.block == NULL);
    EXPECT(rig.answer.batch.at_end);
    end();
}

TEST(a_turn_looks_at_so_many_user_records_and_not_more)
{
    uint32_t reads = 0;

    begin(NULL, -1);
    rig.source->vtable->set_range(rig.reader, "1", "1");
    raw_begin();
    raw_put_aggregate("5", 35000);
    raw_put("6", KS_VIEW("x"));
    (void)raw_end();
    do {
        read_some(ALL, 1 << 20);
        reads++;
        EXPECT(rig.answer.batch.count > 0 || rig.answer.batch.millis_behind == 1);
    } while (rig.answer.batch.count == 0);
    EXPECT_STR(seen(), "6:raw=x");
    EXPECT_EQ_U64(reads, 4);
    ks_batch_free(&rig.answer.batch);
    end();
}

TEST(reading_goes_on_behind_a_place_inside_an_aggregate)
{
    begin("5", 1);
    raw_begin();
    raw_put_aggregate("5", 4);
    raw_put_aggregate("6", 1);
    (void)raw_end();
    raw_begin();
    raw_put_aggregate("7", 1);
    (void)raw_end();
    expect_next(ALL, "5/2:a=2 5/3:b=3 6/0:a=0");
    expect_next(ALL, "7/0:a=0");
    end();
}

TEST(reading_goes_on_behind_the_end_of_an_aggregate)
{
    begin("5", 3);
    raw_begin();
    raw_put_aggregate("5", 4);
    (void)raw_end();
    raw_begin();
    raw_put("6", KS_VIEW("x"));
    (void)raw_end();
    expect_next(ALL, "");
    expect_next(ALL, "6:raw=x");
    end();
}

TEST(a_place_inside_an_aggregate_that_is_gone_leaves_nothing_out)
{
    begin("5", 3);
    raw_begin();
    (void)raw_end();
    raw_begin();
    raw_put_aggregate("6", 2);
    (void)raw_end();
    expect_next(ALL, "");
    expect_next(ALL, "6/0:a=0 6/1:b=1");
    end();
}

/* Other consumers of a table write sub-sequence number 0 for it. */
TEST(a_place_inside_a_record_that_is_no_aggregate_is_behind_it)
{
    begin("5", 0);
    raw_begin();
    raw_put("5", KS_VIEW("x"));
    raw_put("6", KS_VIEW("y"));
    (void)raw_end();
    expect_next(ALL, "6:raw=y");
    end();
}

TEST(a_failed_read_is_passed_on_and_the_next_goes_on)
{
    begin("5", 0);
    behind.answers[behind.count++] =
        (struct ks_read_answer){.err = KS_FAIL(THROTTLED), .throttled = true};
    raw_begin();
    raw_put_aggregate("5", 2);
    (void)raw_end();
    read_some(ALL, 1 << 20);
    EXPECT_ERR(rig.answer.err, THROTTLED);
    EXPECT(rig.answer.throttled);
    expect_next(ALL, "5/1:b=1");
    end();
}

TEST(a_reader_that_is_closed_is_not_answered_and_leaves_its_batches_alone)
{
    struct ks_batch batch;

    begin(NULL, -1);
    raw_begin();
    raw_put_aggregate("5", 10);
    (void)raw_end();
    read_some(4, 1 << 20);
    batch = rig.answer.batch;
    rig.times = 0;
    rig.source->vtable->read(rig.reader, 4, 1 << 20, keep_answer, &rig);
    rig.source->vtable->close_reader(rig.reader);
    rig.reader = NULL;
    ks_loop_turn(rig.loop, ks_span_ms(10));
    EXPECT_EQ_U64(rig.times, 0);
    EXPECT(ks_view_equal(batch.records[3].data, KS_VIEW("3")));
    ks_batch_free(&batch);
    end();
}

/* What it holds itself does not come back before its reader has moved on. */
TEST(a_source_behind_that_holds_the_rest_of_a_block_is_nobody_to_wait_for)
{
    struct ks_block *block;

    begin(NULL, -1);
    raw_begin();
    raw_put_aggregate("5", 10);
    block = raw_end()->block;
    ks_block_use(block);
    rig.budget.limit = 0;
    read_some(3, 1 << 20);
    EXPECT_OK(rig.answer.err);
    EXPECT_EQ_U64(rig.answer.batch.count, 3);
    ks_batch_free(&rig.answer.batch);
    ks_block_drop(block);
    end();
}

TEST(a_full_budget_lets_little_out_and_loses_nothing)
{
    struct ks_batch first;

    begin(NULL, -1);
    raw_begin();
    raw_put_aggregate("5", 1000);
    (void)raw_end();
    rig.budget.limit = 0;
    /* Nobody has anything that could come back: without this nothing would ever move. */
    read_some(ALL, 1 << 20);
    EXPECT_OK(rig.answer.err);
    EXPECT_EQ_U64(rig.answer.batch.count, KS_USER_RECORDS_FIRST);
    first = rig.answer.batch;
    read_some(ALL, 1 << 20);
    EXPECT_ERR(rig.answer.err, FULL);
    EXPECT_CONTAINS(rig.answer.detail.text, "shard-1");
    ks_batch_free(&first);
    read_some(3, 1 << 20);
    EXPECT_STR(seen(), "5/64:a=64 5/65:b=65 5/66:a=66");
    ks_batch_free(&rig.answer.batch);
    /* Room for some more than the first of them. */
    rig.budget.limit = rig.budget.used + 250 * sizeof(struct ks_record);
    read_some(ALL, 1 << 20);
    EXPECT_EQ_U64(rig.answer.batch.count, KS_USER_RECORDS_FIRST * 2);
    EXPECT_EQ_I64(rig.answer.batch.records[0].sub_sequence, 67);
    ks_batch_free(&rig.answer.batch);
    rig.budget.limit = 64 << 20;
    read_some(ALL, 1 << 20);
    EXPECT_EQ_U64(rig.answer.batch.count, 1000 - 67 - KS_USER_RECORDS_FIRST * 2);
    ks_batch_free(&rig.answer.batch);
    end();
}

TEST(memory_that_runs_out_loses_nothing)
{
    int64_t next = 0;

    begin(NULL, -1);
    raw_begin();
    raw_put_aggregate("5", 300);
    raw_put_aggregate("6", 300);
    (void)raw_end();
    for (uint64_t n = 1; next < 600; n++) {
        ks_alloc_fail_after(n % 4 + 1, 0);
        read_some(250, 1 << 20);
        ks_alloc_fail_after(0, 0);
        if (!ks_ok(rig.answer.err))
            EXPECT_ERR(rig.answer.err, NO_MEMORY);
        for (uint32_t at = 0; at < rig.answer.batch.count; at++, next++) {
            const struct ks_record *record = &rig.answer.batch.records[at];
            EXPECT_EQ_I64(record->sub_sequence, next % 300);
            EXPECT(ks_view_equal(record->sequence, next < 300 ? KS_VIEW("5") : KS_VIEW("6")));
        }
        ks_batch_free(&rig.answer.batch);
        EXPECT(n < 100);
    }
    end();
}

TEST(a_source_or_reader_without_memory_is_not_opened)
{
    struct ks_position from = {.kind = KS_POSITION_TRIM_HORIZON, .sub_sequence = -1};
    struct ks_stream_source *source;
    struct ks_reader *reader;

    begin(NULL, -1);
    ks_alloc_fail_after(1, 0);
    EXPECT_ERR(ks_user_records_source_open(rig.loop, "demo", &behind.port, &source), NO_MEMORY);
    ks_alloc_fail_after(1, 0);
    EXPECT_ERR(rig.source->vtable->open(rig.source, "shard-1", &from, &rig.budget, &reader),
               NO_MEMORY);
    EXPECT_EQ_U64(behind.open, 1);
    EXPECT_STR(behind.passed, "");
    end();
}

TEST(all_else_is_passed_on)
{
    struct ks_stream_source *source;
    struct ks_detail detail;

    begin(NULL, -1);
    rig.source->vtable->describe(rig.source, NULL, &behind);
    rig.source->vtable->list(rig.source, 77, NULL, &behind);
    rig.source->vtable->put(rig.source, NULL, 3, NULL, &behind);
    EXPECT_EQ_I64(rig.source->vtable->state(rig.source, &detail), KS_STORE_AWAY);
    EXPECT_STR(detail.text, "as it is behind");
    EXPECT_STR(behind.passed, "describe list put ");
    end();

    /* Nobody puts into what cannot be put into. */
    behind.vtable.put = NULL;
    EXPECT_OK(ks_user_records_source_open(NULL, "demo", &behind.port, &source));
    EXPECT(source->vtable->put == NULL);
    source->vtable->close(source);
}
