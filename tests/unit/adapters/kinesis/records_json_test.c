/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/kinesis/records.h"

#include "base/codec.h"

#include "body_block.h"
#include "ks_test.h"

#include <stdio.h>

static ks_err scan_of(struct ks_budget *budget, ks_view body, uint32_t records_max,
                      struct ks_records *ret_records)
{
    return ks_records_json(body_block(budget, 0, body, BODY_FITS, records_max), 0, records_max,
                           ret_records);
}

static ks_err scan(const char *body, struct ks_records *ret_records)
{
    return scan_of(NULL, ks_view_text(body), KS_READ_RECORDS_MAX, ret_records);
}

#define RECORD(data, key, sequence)                                                                \
    "{\"Data\":\"" data "\",\"PartitionKey\":\"" key "\",\"SequenceNumber\":\"" sequence "\"}"
#define ANSWER(records) "{\"Records\":[" records "],\"NextShardIterator\":\"AAA\"}"

TEST(an_answer_becomes_a_batch)
{
    struct ks_records records;

    EXPECT_OK(scan(
        "{\"ChildShards\":null,\"MillisBehindLatest\":12,\"NextShardIterator\":\"AA/+=\","
        "\"Records\":[{\"ApproximateArrivalTimestamp\":1795223827.896,\"Data\":\"aGVsbG8=\","
        "\"EncryptionType\":\"NONE\",\"PartitionKey\":\"\xD0\xBA\",\"SequenceNumber\":\"4968\"},"
        "{\"SequenceNumber\":\"4969\",\"PartitionKey\":\"k\",\"Data\":\"\"}]}",
        &records));
    EXPECT_EQ_U64(records.batch.count, 2);
    EXPECT_STR(records.iterator, "AA/+=");
    EXPECT(!records.batch.at_end);
    EXPECT_EQ_I64(records.batch.millis_behind, 12);
    EXPECT(ks_view_equal(records.batch.records[0].data, KS_VIEW("hello")));
    EXPECT(ks_view_equal(records.batch.records[0].partition_key, KS_VIEW("\xD0\xBA")));
    EXPECT(ks_view_equal(records.batch.records[0].sequence, KS_VIEW("4968")));
    EXPECT_EQ_I64(records.batch.records[0].arrival_ms, 1795223827896);
    EXPECT_EQ_I64(records.batch.records[0].sub_sequence, -1);
    EXPECT_EQ_U64(records.batch.records[1].data.size, 0);
    EXPECT_EQ_I64(records.batch.records[1].arrival_ms, 0);
    ks_batch_free(&records.batch);
}

TEST(the_end_of_a_shard_has_no_iterator_and_may_have_children)
{
    struct ks_records records;

    EXPECT_OK(
        scan("{\"Records\":[],\"NextShardIterator\":null,\"MillisBehindLatest\":0,"
             "\"ChildShards\":[{\"ShardId\":\"a\",\"ParentShards\":[\"p\"]},{\"ShardId\":\"b\"},"
             "{\"ShardId\":\"c\"}]}",
             &records));
    EXPECT(records.batch.at_end);
    EXPECT_STR(records.batch.children[0], "a");
    EXPECT_STR(records.batch.children[1], "b");
    ks_batch_free(&records.batch);

    EXPECT_OK(scan(" { \"Records\" : [ ] } ", &records));
    EXPECT(records.batch.at_end);
    EXPECT_STR(records.batch.children[0], "");
    EXPECT_EQ_I64(records.batch.millis_behind, -1);
    ks_batch_free(&records.batch);
}

TEST(escapes_mean_what_json_says)
{
    struct ks_records records;

    EXPECT_OK(scan(ANSWER(RECORD("\\/\\/\\/\\/", "\\\"\\\\\\/\\b\\f\\n\\r\\t", "1") "," RECORD(
                       "YQ\\u003D=", "\\u0416\\uD83D\\uDC1F\\u20ac", "2")),
                   &records));
    EXPECT_EQ_U64(records.batch.count, 2);
    EXPECT(ks_view_equal(records.batch.records[0].data, KS_VIEW("\xFF\xFF\xFF")));
    EXPECT(ks_view_equal(records.batch.records[0].partition_key, KS_VIEW("\"\\/\b\f\n\r\t")));
    EXPECT(ks_view_equal(records.batch.records[1].data, KS_VIEW("a")));
    EXPECT(ks_view_equal(records.batch.records[1].partition_key,
                         KS_VIEW("\xD0\x96\xF0\x9F\x90\x9F\xE2\x82\xAC")));
    ks_batch_free(&records.batch);
}

TEST(times_are_exact_in_every_spelling)
{
    static const struct {
        const char *text;
        int64_t ms;
    } TIMES[] = {
        {"1795223827.896", 1795223827896},
        {"1795223827", 1795223827000},
        {"1.795223827896E9", 1795223827896},
        {"1795223827896e-3", 1795223827896},
        {"1795223827.8964", 1795223827896},
        {"1795223827.8965", 1795223827897},
        {"1795223827.000000000000000000001", 1795223827000},
        {"0", 0},
        {"-1.5", -1500},
        {"1.795223827896E+9", 1795223827896},
    };
    char body[256];
    struct ks_records records;

    for (size_t at = 0; at < sizeof(TIMES) / sizeof(TIMES[0]); at++) {
        (void)snprintf(
            body, sizeof(body),
            "{\"Records\":[{\"Data\":\"\",\"PartitionKey\":\"k\",\"SequenceNumber\":\"1\","
            "\"ApproximateArrivalTimestamp\":%s}]}",
            TIMES[at].text);
        EXPECT_OK(scan(body, &records));
        EXPECT_EQ_I64(records.batch.records[0].arrival_ms, TIMES[at].ms);
        ks_batch_free(&records.batch);
    }
}

TEST(unknown_members_are_skipped_whatever_they_hold)
{
    struct ks_records records;

    EXPECT_OK(scan("{\"x\":{\"Records\":[{\"a\":[1,{\"b\":\"}]\\\"\"}]}],\"e\":{}},\"y\":[[],[[]]],"
                   "\"z\":-1.5e3,\"t\":true,\"Records\":[],\"NextShardIterator\":\"A\",\"w\":null}",
                   &records));
    EXPECT_STR(records.iterator, "A");
    ks_batch_free(&records.batch);
}

TEST(malformed_bytes_are_refused_and_charge_nothing)
{
    static const char *const BODIES[] = {
        "",
        "{",
        "{}",
        "[]",
        "null",
        "{\"Records\":null}",
        "{\"Records\":{}}",
        "{\"Records\":[}",
        "{\"Records\":[]",
        "{\"Records\":[]}x",
        "{\"Records\":[],}",
        "{\"Records\":[] \"a\":1}",
        "{\"Records\":[],\"Records\":[{}]}",
        "{\"Records\":[{}]}",
        "{\"Records\":[null]}",
        "{\"Records\":[{\"Data\":\"\",\"PartitionKey\":\"k\"}]}",
        "{\"Records\":[{\"Data\":\"\",\"SequenceNumber\":\"1\"}]}",
        "{\"Records\":[{\"PartitionKey\":\"k\",\"SequenceNumber\":\"1\"}]}",
        "{\"Records\":[{\"Data\":null,\"PartitionKey\":\"k\",\"SequenceNumber\":\"1\"}]}",
        ANSWER(RECORD("YQ", "k", "1")),
        ANSWER(RECORD("Y Q=", "k", "1")),
        ANSWER(RECORD("YQ==", "k", "")),
        ANSWER(RECORD("YQ==", "k", "1x")),
        ANSWER(RECORD("YQ==", "\xFF", "1")),
        ANSWER(RECORD("YQ==", "\\uD83D", "1")),
        ANSWER(RECORD("YQ==", "\\uDC1F", "1")),
        ANSWER(RECORD("YQ==", "\\u0000", "1")),
        ANSWER(RECORD("YQ==", "\\x", "1")),
        ANSWER(RECORD("YQ==", "\\u12", "1")),
        ANSWER(RECORD("YQ==", "k\\", "1")),
        "{\"Records\":[],\"MillisBehindLatest\":\"x\"}",
        "{\"Records\":[],\"MillisBehindLatest\":99999999999999999999}",
        "{\"Records\":[],\"MillisBehindLatest\":1e30}",
        "{\"Records\":[],\"MillisBehindLatest\":-}",
        "{\"Records\":[],\"NextShardIterator\":7}",
        "{\"Records\":[],\"x\":}",
        "{\"Records\":[],\"x\":]}",
        "{\"Records\":[],\"x\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}",
    };
    struct ks_budget budget;
    struct ks_records records;

    ks_budget_init(&budget, 1 << 20);
    for (size_t at = 0; at < sizeof(BODIES) / sizeof(BODIES[0]); at++) {
        ks_err err = scan_of(&budget, ks_view_text(BODIES[at]), 100, &records);
        if (!ks_err_is(err, KS_ERR_MALFORMED))
            FAIL("%s is taken for an answer: %s", BODIES[at], ks_err_name(err));
        EXPECT_EQ_U64(budget.used, 0);
    }
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(no_prefix_of_an_answer_is_an_answer)
{
    static const char BODY[] = "{\"Records\":[" RECORD(
        "aGVsbG8=", "\\u0416",
        "123") "],\"NextShardIterator\":\"A\","
               "\"ChildShards\":[{\"ShardId\":\"a\"}],\"x\":[{\"y\":\"\\\"\"}]}";
    struct ks_records records;

    EXPECT_OK(scan(BODY, &records));
    ks_batch_free(&records.batch);
    for (size_t size = 0; size + 1 < sizeof(BODY); size++) {
        EXPECT_ERR(scan_of(NULL, ks_view_of((const uint8_t *)BODY, size), 10, &records), MALFORMED);
    }
}

TEST(more_records_than_asked_for_are_refused)
{
    static const char BODY[] = ANSWER(RECORD("", "k", "1") "," RECORD("", "k", "2"));
    struct ks_records records;

    EXPECT_ERR(scan_of(NULL, ks_view_text(BODY), 1, &records), MALFORMED);
    EXPECT_OK(scan_of(NULL, ks_view_text(BODY), 2, &records));
    EXPECT_EQ_U64(records.batch.count, 2);
    ks_batch_free(&records.batch);
}

TEST(a_short_budget_is_full_and_memory_can_fail)
{
    static const char BODY[] = ANSWER(RECORD("\\/\\/\\/\\/", "k", "1"));
    struct ks_budget budget;
    struct ks_records records;

    ks_view view = ks_view_text(BODY);
    ks_budget_init(&budget, view.size + 50);
    EXPECT_ERR(ks_records_json(body_block(&budget, 0, view, BODY_TIGHT, 10), 0, 10, &records),
               FULL);
    EXPECT_EQ_U64(budget.used, 0);
    ks_budget_init(&budget, 10000);
    struct ks_block *tight = body_block(&budget, 0, view, BODY_TIGHT, 10);
    ks_alloc_fail_after(1, 0);
    EXPECT_ERR(ks_records_json(tight, 0, 10, &records), NO_MEMORY);
    ks_alloc_fail_after(0, 0);
    EXPECT_EQ_U64(budget.used, 0);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(many_backslashes_and_brackets_cost_no_more_than_their_bytes)
{
    size_t size = 2 << 20;
    char *body = ks_alloc(size + 1);
    struct ks_records records;

    /* A string of escaped backslashes that never ends: each pair must not search for the quote anew. */
    memset(body, '\\', size);
    memcpy(body, "{\"x\":\"", 6);
    EXPECT_ERR(scan(body, &records), MALFORMED);
    memcpy(body + size - 8, "\\\\\"     ", 8);
    EXPECT_ERR(scan(body, &records), MALFORMED);
    memset(body, '[', size);
    memcpy(body, "{\"x\":", 5);
    EXPECT_ERR(scan(body, &records), MALFORMED);
    ks_free(body);
}

TEST(a_kpl_aggregate_is_marked)
{
    /* Magic, "x", MD5 of "x" (9dd4e461268c8034f5c8564e155c67a6). */
    static const char HEX[] = "f3899ac2789dd4e461268c8034f5c8564e155c67a6";
    uint8_t data[32];
    char base64[64] = {0};
    char body[256];
    struct ks_records records;

    EXPECT_OK(ks_hex_decode(ks_view_text(HEX), data));
    (void)ks_base64_encode(ks_view_of(data, 21), base64);
    (void)snprintf(
        body, sizeof(body),
        "{\"Records\":[{\"Data\":\"%s\",\"PartitionKey\":\"a\",\"SequenceNumber\":\"1\"},"
        "{\"Data\":\"88mawg==\",\"PartitionKey\":\"a\",\"SequenceNumber\":\"2\"}]}",
        base64);
    EXPECT_OK(scan(body, &records));
    EXPECT(records.batch.records[0].aggregated);
    EXPECT_EQ_U64(records.batch.records[0].data.size, 21);
    EXPECT(!records.batch.records[1].aggregated);
    ks_batch_free(&records.batch);
}
