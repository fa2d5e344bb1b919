/* SPDX-License-Identifier: Apache-2.0 */
#include "stream_source_rig.h"

#include "ports/batches.h"

#include <stdio.h>
#include <string.h>

static const char FIRST[] = "shardId-000000000000";
static const char LAST_HASH[] = "340282366920938463463374607431768211455";

struct description {
    uint32_t times;
    struct ks_describe_answer answer;
};

static void keep_description(void *arg, const struct ks_describe_answer *answer)
{
    struct description *kept = arg;

    kept->times++;
    kept->answer = *answer;
}

void stream_suite_tells_what_the_stream_is(struct stream_rig *rig)
{
    struct description told = {.times = 0};
    struct ks_detail detail;

    rig->source->vtable->describe(rig->source, keep_description, &told);
    EXPECT_EQ_U64(told.times, 0);
    stream_rig_wait(rig, &told.times, STREAM_WAIT_SECONDS);
    EXPECT_OK(told.answer.err);
    EXPECT_CONTAINS(told.answer.stream_arn, "arn:aws:kinesis:");
    EXPECT_CONTAINS(told.answer.stream_arn, rig->stream);
    int64_t age_ms = ks_wall_now().ms - told.answer.created_ms;
    EXPECT(age_ms > -1000);
    EXPECT(age_ms < 60000);
    EXPECT_EQ_I64(rig->source->vtable->state(rig->source, &detail), KS_STORE_READY);
    EXPECT_STR(detail.text, "");
}

void stream_suite_lists_all_shards_over_pages(struct stream_rig *rig)
{
    static struct stream_listing listing;
    struct ks_stream_source *paged = rig->adapter->open(rig, 3);
    char name[32];

    stream_rig_list(rig, paged, 0, &listing);
    EXPECT_EQ_U64(listing.count, 7);
    for (uint32_t at = 0; at < 7; at++) {
        (void)snprintf(name, sizeof(name), "shardId-%012u", at);
        EXPECT_STR(listing.shards[at].shard, name);
        EXPECT_STR(listing.shards[at].parents[0], "");
        EXPECT_STR(listing.shards[at].parents[1], "");
        EXPECT(!listing.shards[at].closed);
        if (at > 0)
            EXPECT(strcmp(listing.shards[at].hash_start, listing.shards[at - 1].hash_end) != 0);
    }
    EXPECT_STR(listing.shards[0].hash_start, "0");
    EXPECT_STR(listing.shards[6].hash_end, LAST_HASH);
    paged->vtable->close(paged);
}

void stream_suite_records_come_in_order_and_once(struct stream_rig *rig)
{
    static struct stream_copy copy;
    struct ks_put_result put[24];
    char key[16];
    char data[16];

    for (int at = 0; at < 24; at++) {
        (void)snprintf(key, sizeof(key), "key-%d", at % 5);
        (void)snprintf(data, sizeof(data), "data-%d", at);
        stream_rig_put(rig, key, NULL, data, &put[at]);
        EXPECT_STR(put[at].shard, FIRST);
    }
    struct ks_reader *reader = stream_rig_open(rig, FIRST, KS_POSITION_TRIM_HORIZON, NULL, 0);
    stream_rig_collect(rig, reader, 24, 7, &copy);
    EXPECT_EQ_U64(copy.count, 24);
    for (int at = 0; at < 24; at++) {
        (void)snprintf(key, sizeof(key), "key-%d", at % 5);
        (void)snprintf(data, sizeof(data), "data-%d", at);
        EXPECT_STR(copy.records[at].sequence, put[at].sequence);
        EXPECT_STR(copy.records[at].key, key);
        EXPECT_STR((char *)copy.records[at].data, data);
        EXPECT_EQ_I64(copy.records[at].sub_sequence, -1);
        EXPECT(!copy.records[at].aggregated);
        EXPECT(ks_wall_now().ms - copy.records[at].arrival_ms < 60000);
        EXPECT(copy.records[at].arrival_ms - ks_wall_now().ms < 2000);
        EXPECT(strlen(copy.records[at].sequence) == 56 || rig->adapter->short_numbers);
    }
    /* What is put while it reads comes next. */
    stream_rig_put(rig, "k", NULL, "later", NULL);
    stream_rig_collect(rig, reader, 1, 7, &copy);
    EXPECT_STR((char *)copy.records[0].data, "later");
    stream_rig_close(rig, reader);
}

void stream_suite_each_position_begins_where_it_says(struct stream_rig *rig)
{
    static struct stream_copy copy;
    struct ks_put_result put[3];
    int64_t between;

    stream_rig_put(rig, "k", NULL, "zero", &put[0]);
    stream_rig_put(rig, "k", NULL, "one", &put[1]);
    stream_rig_turn_for(rig, 5);
    between = ks_wall_now().ms;
    stream_rig_turn_for(rig, 5);
    stream_rig_put(rig, "k", NULL, "two", &put[2]);

    stream_rig_collect_from(rig, FIRST, KS_POSITION_TRIM_HORIZON, NULL, 0, 3, &copy);
    EXPECT_STR((char *)copy.records[0].data, "zero");
    stream_rig_collect_from(rig, FIRST, KS_POSITION_AT_SEQUENCE, put[1].sequence, 0, 2, &copy);
    EXPECT_STR((char *)copy.records[0].data, "one");
    EXPECT_STR((char *)copy.records[1].data, "two");
    stream_rig_collect_from(rig, FIRST, KS_POSITION_AFTER_SEQUENCE, put[1].sequence, 0, 1, &copy);
    EXPECT_EQ_U64(copy.count, 1);
    EXPECT_STR((char *)copy.records[0].data, "two");
    stream_rig_collect_from(rig, FIRST, KS_POSITION_AT_TIMESTAMP, NULL, between, 1, &copy);
    EXPECT_EQ_U64(copy.count, 1);
    EXPECT_STR((char *)copy.records[0].data, "two");
    stream_rig_collect_from(rig, FIRST, KS_POSITION_AT_TIMESTAMP, NULL, between - 3600000, 3,
                            &copy);
    EXPECT_STR((char *)copy.records[0].data, "zero");
}

void stream_suite_latest_is_where_the_tip_was_at_open(struct stream_rig *rig)
{
    static struct stream_copy copy;

    stream_rig_put(rig, "k", NULL, "before", NULL);
    struct ks_reader *reader = stream_rig_open(rig, FIRST, KS_POSITION_LATEST, NULL, 0);
    /* Nobody has read yet, and the tip is taken all the same. */
    stream_rig_turn_for(rig, 300);
    stream_rig_put(rig, "k", NULL, "after", NULL);
    stream_rig_put(rig, "k", NULL, "and on", NULL);
    stream_rig_collect(rig, reader, 2, 10, &copy);
    EXPECT_EQ_U64(copy.count, 2);
    EXPECT_STR((char *)copy.records[0].data, "after");
    EXPECT_STR((char *)copy.records[1].data, "and on");
    stream_rig_close(rig, reader);
}

/* Adds to a decimal number. */
static void add(char *digits, int more)
{
    for (size_t at = strlen(digits); at > 0 && more != 0; at--) {
        int digit = digits[at - 1] - '0' + more;
        more = digit >= 10 ? 1 : digit < 0 ? -1 : 0;
        digits[at - 1] = (char)('0' + (digit + 10) % 10);
    }
}

void stream_suite_a_sequence_number_that_is_not_there_skips_nothing(struct stream_rig *rig)
{
    static struct stream_copy copy;
    struct ks_put_result put[2];
    char other[KS_SEQUENCE_MAX + 1];

    stream_rig_put(rig, "k", NULL, "zero", &put[0]);
    stream_rig_put(rig, "k", NULL, "one", &put[1]);
    /* Older than the shard: of a stream of that name that was deleted, or trimmed. */
    memcpy(other, put[0].sequence, sizeof(other));
    memcpy(other, "49540000", 8);
    stream_rig_collect_from(rig, FIRST, KS_POSITION_AFTER_SEQUENCE, other, 0, 2, &copy);
    EXPECT_EQ_U64(copy.count, 2);
    EXPECT_STR((char *)copy.records[0].data, "zero");
    stream_rig_collect_from(rig, FIRST, KS_POSITION_AT_SEQUENCE, other, 0, 2, &copy);
    EXPECT_STR((char *)copy.records[0].data, "zero");
    if (!rig->adapter->is_kinesis)
        return;
    /* Between two records: the one behind it is the next one. */
    memcpy(other, put[0].sequence, sizeof(other));
    add(other, 1);
    stream_rig_collect_from(rig, FIRST, KS_POSITION_AFTER_SEQUENCE, other, 0, 1, &copy);
    EXPECT_EQ_U64(copy.count, 1);
    EXPECT_STR((char *)copy.records[0].data, "one");
}

void stream_suite_a_shard_that_is_not_there_is_not_found(struct stream_rig *rig)
{
    static const enum ks_position_kind KINDS[] = {KS_POSITION_TRIM_HORIZON, KS_POSITION_LATEST,
                                                  KS_POSITION_AFTER_SEQUENCE};
    struct stream_read read;

    for (size_t at = 0; at < sizeof(KINDS) / sizeof(KINDS[0]); at++) {
        struct ks_reader *reader =
            stream_rig_open(rig, "shardId-000000000077", KINDS[at],
                            "49680414573595759865136095135580413368112465103170830338", 0);
        stream_rig_read(rig, reader, 10, &read);
        EXPECT_ERR(read.answer.err, NOT_FOUND);
        EXPECT_CONTAINS(read.answer.detail.text, "shardId-000000000077");
        stream_rig_close(rig, reader);
    }
    EXPECT(rig->source->vtable->state(rig->source, NULL) != KS_STORE_UNUSABLE);
}

void stream_suite_a_read_at_the_tip_is_answered_empty_and_wakes(struct stream_rig *rig)
{
    struct stream_read read;
    ks_instant before;
    ks_instant put_at;

    stream_rig_put(rig, "k", NULL, "first", NULL);
    struct ks_reader *reader = stream_rig_open(rig, FIRST, KS_POSITION_TRIM_HORIZON, NULL, 0);
    stream_rig_read(rig, reader, 10, &read);
    EXPECT_OK(read.answer.err);
    EXPECT_EQ_U64(read.answer.batch.count, 1);
    EXPECT_EQ_I64(read.answer.batch.millis_behind, 0);
    ks_batch_free(&read.answer.batch);

    before = ks_loop_now(rig->loop);
    stream_rig_read(rig, reader, 10, &read);
    EXPECT_OK(read.answer.err);
    EXPECT_EQ_U64(read.answer.batch.count, 0);
    EXPECT(!read.answer.batch.at_end);
    EXPECT_EQ_I64(read.answer.batch.millis_behind, 0);
    EXPECT(ks_span_to_ms(ks_instant_since(ks_loop_now(rig->loop), before)) < 2500);
    ks_batch_free(&read.answer.batch);

    stream_rig_ask(rig, reader, 10, &read);
    stream_rig_turn_for(rig, 100);
    stream_rig_put(rig, "k", NULL, "second", NULL);
    put_at = ks_loop_now(rig->loop);
    while (read.answer.batch.count == 0) {
        if (read.times > 0) {
            ks_batch_free(&read.answer.batch);
            stream_rig_ask(rig, reader, 10, &read);
        }
        stream_rig_wait(rig, &read.times, STREAM_WAIT_SECONDS);
        EXPECT_OK(read.answer.err);
    }
    int64_t took_ms = ks_span_to_ms(ks_instant_since(ks_loop_now(rig->loop), put_at));
    EXPECT(took_ms < (rig->adapter->is_kinesis ? 3000 : 200));
    EXPECT(ks_view_equal(read.answer.batch.records[0].data, KS_VIEW("second")));
    ks_batch_free(&read.answer.batch);
    stream_rig_close(rig, reader);
}

void stream_suite_large_records_and_odd_keys_come_whole(struct stream_rig *rig)
{
    static const char *const KEYS[] = {"\xD0\xBA\xD0\xBB\xD1\x8E\xD1\x87", "\xF0\x9F\x90\x9F",
                                       "quote\" back\\ slash/ \x01", " "};
    static struct stream_copy copy;
    struct ks_put_result result;
    size_t large = (1 << 20) - 16;
    uint8_t *data = ks_alloc(large);
    uint64_t sum;

    for (size_t at = 0; at < large; at++)
        data[at] = (uint8_t)(at * 2654435761U >> 13);
    sum = stream_rig_sum(data, large);
    struct ks_put_entry entry = {.data = ks_view_of(data, large),
                                 .partition_key = ks_view_text(KEYS[0])};
    rig->adapter->put(rig, &entry, &result);
    for (size_t at = 1; at < 4; at++) {
        entry.data = ks_view_of(data, at); /* Not of whole base64 groups. */
        entry.partition_key = ks_view_text(KEYS[at]);
        rig->adapter->put(rig, &entry, &result);
    }

    stream_rig_collect_from(rig, FIRST, KS_POSITION_TRIM_HORIZON, NULL, 0, 4, &copy);
    EXPECT_EQ_U64(copy.records[0].size, large);
    EXPECT_EQ_U64(copy.records[0].sum, sum);
    for (size_t at = 0; at < 4; at++)
        EXPECT_STR(copy.records[at].key, KEYS[at]);
    for (size_t at = 1; at < 4; at++) {
        EXPECT_EQ_U64(copy.records[at].size, at);
        EXPECT_MEM(copy.records[at].data, data, at);
    }
    ks_free(data);
}

void stream_suite_records_go_where_their_hash_key_says(struct stream_rig *rig)
{
    static struct stream_listing listing;
    static struct stream_copy copy;
    struct ks_put_result result;

    stream_rig_list(rig, rig->source, 0, &listing);
    EXPECT_EQ_U64(listing.count, 4);
    for (uint32_t at = 0; at < 4; at++) {
        stream_rig_put(rig, "same", listing.shards[at].hash_start, "start", &result);
        EXPECT_STR(result.shard, listing.shards[at].shard);
        stream_rig_put(rig, "same", listing.shards[at].hash_end, "end", &result);
        EXPECT_STR(result.shard, listing.shards[at].shard);
        stream_rig_collect_from(rig, listing.shards[at].shard, KS_POSITION_TRIM_HORIZON, NULL, 0, 2,
                                &copy);
        EXPECT_STR((char *)copy.records[0].data, "start");
        EXPECT_STR((char *)copy.records[1].data, "end");
    }
    /* By the MD5 of the key: "a" is 0cc1.., "test" is 098f.., "b" 92eb.., "d" 8277.., "e" e167.. */
    stream_rig_put(rig, "a", NULL, "x", &result);
    EXPECT_STR(result.shard, "shardId-000000000000");
    stream_rig_put(rig, "c", NULL, "x", &result); /* 4a8a.. */
    EXPECT_STR(result.shard, "shardId-000000000001");
    stream_rig_put(rig, "b", NULL, "x", &result);
    EXPECT_STR(result.shard, "shardId-000000000002");
    stream_rig_put(rig, "e", NULL, "x", &result);
    EXPECT_STR(result.shard, "shardId-000000000003");
}

void stream_suite_a_closed_reader_is_never_answered(struct stream_rig *rig)
{
    struct stream_read read[12];
    struct ks_reader *reader;

    stream_rig_put(rig, "k", NULL, "data", NULL);
    for (int at = 0; at < 12; at++) {
        enum ks_position_kind kind = at % 3 == 0 ? KS_POSITION_LATEST : KS_POSITION_TRIM_HORIZON;
        reader = stream_rig_open(rig, FIRST, kind, NULL, 0);
        if (at > 0)
            stream_rig_ask(rig, reader, 10, &read[at]);
        /* Later and later within the read; one that was answered is read again. */
        for (int turns = 0; turns < at; turns++)
            ks_loop_turn(rig->loop, ks_span_ms(1));
        if (at > 0 && read[at].times > 0) {
            ks_batch_free(&read[at].answer.batch);
            stream_rig_ask(rig, reader, 10, &read[at]);
        }
        stream_rig_close(rig, reader);
    }
    stream_rig_turn_for(rig, 400);
    for (int at = 1; at < 12; at++)
        EXPECT_EQ_U64(read[at].times, 0);
}

void stream_suite_a_full_budget_loses_nothing(struct stream_rig *rig)
{
    static struct stream_copy copy;
    struct stream_read read;
    char data[8000];
    size_t limit = rig->budget.limit;

    memset(data, 'x', sizeof(data) - 1);
    data[sizeof(data) - 1] = '\0';
    for (int at = 0; at < 6; at++) {
        data[0] = (char)('a' + at);
        stream_rig_put(rig, "k", NULL, data, NULL);
    }
    struct ks_reader *reader = stream_rig_open(rig, FIRST, KS_POSITION_TRIM_HORIZON, NULL, 0);
    rig->budget.limit = 20000;
    for (int at = 0; at < 2; at++) {
        stream_rig_read(rig, reader, 100, &read);
        EXPECT_ERR(read.answer.err, FULL);
        EXPECT(read.answer.batch.block == NULL);
        EXPECT_EQ_U64(rig->budget.used, 0);
        if (rig->adapter->is_kinesis)
            break;
    }
    rig->budget.limit = limit;
    stream_rig_collect(rig, reader, 6, 100, &copy);
    EXPECT_EQ_U64(copy.count, 6);
    for (int at = 0; at < 6; at++)
        EXPECT_EQ_I64(copy.records[at].data[0], 'a' + at);
    stream_rig_close(rig, reader);
}

void stream_suite_many_readers_read_beside_each_other(struct stream_rig *rig)
{
    static struct stream_listing listing;
    struct ks_reader *readers[8];
    struct stream_read reads[8];

    stream_rig_list(rig, rig->source, 0, &listing);
    for (uint32_t at = 0; at < 4; at++)
        stream_rig_put(rig, "k", listing.shards[at].hash_start, listing.shards[at].shard, NULL);
    for (uint32_t at = 0; at < 8; at++) {
        readers[at] =
            stream_rig_open(rig, listing.shards[at % 4].shard, KS_POSITION_TRIM_HORIZON, NULL, 0);
        stream_rig_ask(rig, readers[at], 10, &reads[at]);
    }
    for (uint32_t at = 0; at < 8; at++) {
        stream_rig_wait(rig, &reads[at].times, STREAM_WAIT_SECONDS);
        EXPECT_OK(reads[at].answer.err);
        EXPECT_EQ_U64(reads[at].answer.batch.count, 1);
        EXPECT(ks_view_equal(reads[at].answer.batch.records[0].data,
                             ks_view_text(listing.shards[at % 4].shard)));
        ks_batch_free(&reads[at].answer.batch);
        stream_rig_close(rig, readers[at]);
    }
}
