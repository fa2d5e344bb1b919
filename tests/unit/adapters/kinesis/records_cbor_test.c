/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/kinesis/records.h"

#include "aws/cbor.h"

#include "body_block.h"
#include "ks_test.h"

enum { BYTES_MAX = 4 << 20 };

/* How an answer is written. */
struct manner {
    bool indefinite;
    bool base64;  /* Data as a text. */
    bool chunked; /* Data and key in chunks. */
};

static void put_byte(struct ks_bytes *bytes, uint8_t byte)
{
    EXPECT_OK(ks_bytes_append_byte(bytes, byte));
}

static void put_text(struct ks_bytes *bytes, const char *text)
{
    EXPECT_OK(ks_cbor_put_text(bytes, ks_view_text(text)));
}

static void put_data(struct ks_bytes *bytes, const struct manner *manner, const char *data,
                     const char *base64)
{
    if (manner->chunked) {
        put_byte(bytes, manner->base64 ? 0x7F : 0x5F);
        ks_view text = ks_view_text(manner->base64 ? base64 : data);
        for (size_t at = 0; at < text.size; at++) {
            put_byte(bytes, manner->base64 ? 0x61 : 0x41);
            put_byte(bytes, text.data[at]);
        }
        put_byte(bytes, 0xFF);
    } else if (manner->base64) {
        put_text(bytes, base64);
    } else {
        EXPECT_OK(ks_cbor_put_bytes(bytes, ks_view_text(data)));
    }
}

static void put_record(struct ks_bytes *bytes, const struct manner *manner, const char *sequence)
{
    if (manner->indefinite)
        put_byte(bytes, 0xBF);
    else
        EXPECT_OK(ks_cbor_put_map(bytes, 5));
    put_text(bytes, "Data");
    put_data(bytes, manner, "hello", "aGVsbG8=");
    put_text(bytes, "EncryptionType");
    EXPECT_OK(ks_cbor_put_null(bytes));
    put_text(bytes, "PartitionKey");
    put_text(bytes, "\xD0\xBA");
    put_text(bytes, "SequenceNumber");
    put_text(bytes, sequence);
    put_text(bytes, "ApproximateArrivalTimestamp");
    EXPECT_OK(ks_cbor_put_unix_ms(bytes, 1795223827896));
    if (manner->indefinite)
        put_byte(bytes, 0xFF);
}

static void put_answer(struct ks_bytes *bytes, const struct manner *manner)
{
    ks_bytes_clear(bytes);
    if (manner->indefinite)
        put_byte(bytes, 0xBF);
    else
        EXPECT_OK(ks_cbor_put_map(bytes, 4));
    put_text(bytes, "Records");
    if (manner->indefinite)
        put_byte(bytes, 0x9F);
    else
        EXPECT_OK(ks_cbor_put_array(bytes, 2));
    put_record(bytes, manner, "4968");
    put_record(bytes, manner, "4969");
    if (manner->indefinite)
        put_byte(bytes, 0xFF);
    put_text(bytes, "NextShardIterator");
    put_text(bytes, "AAA");
    put_text(bytes, "Unknown");
    EXPECT_OK(ks_cbor_put_array(bytes, 1));
    put_text(bytes, "x");
    put_text(bytes, "MillisBehindLatest");
    EXPECT_OK(ks_cbor_put_i64(bytes, 7));
    if (manner->indefinite)
        put_byte(bytes, 0xFF);
}

static ks_err scan_view(ks_view body, struct ks_records *ret_records)
{
    return ks_records_cbor(body_block(NULL, 0, body, BODY_FITS, 10), 0, 10, ret_records);
}

TEST(an_answer_becomes_a_batch_in_every_manner_of_writing)
{
    struct ks_bytes bytes;
    struct ks_records records;

    ks_bytes_init(&bytes, BYTES_MAX);
    for (int at = 0; at < 8; at++) {
        struct manner manner = {
            .indefinite = (at & 1) != 0, .base64 = (at & 2) != 0, .chunked = (at & 4) != 0};
        put_answer(&bytes, &manner);
        EXPECT_OK(scan_view(ks_bytes_view(&bytes), &records));
        EXPECT_EQ_U64(records.batch.count, 2);
        EXPECT_STR(records.iterator, "AAA");
        EXPECT(!records.batch.at_end);
        EXPECT_EQ_I64(records.batch.millis_behind, 7);
        EXPECT(ks_view_equal(records.batch.records[0].data, KS_VIEW("hello")));
        EXPECT(ks_view_equal(records.batch.records[0].partition_key, KS_VIEW("\xD0\xBA")));
        EXPECT(ks_view_equal(records.batch.records[1].sequence, KS_VIEW("4969")));
        EXPECT_EQ_I64(records.batch.records[1].arrival_ms, 1795223827896);
        ks_batch_free(&records.batch);
    }
    ks_bytes_free(&bytes);
}

TEST(no_prefix_of_an_answer_is_an_answer)
{
    struct ks_bytes bytes;
    struct ks_records records;

    ks_bytes_init(&bytes, BYTES_MAX);
    for (int at = 0; at < 8; at++) {
        struct manner manner = {
            .indefinite = (at & 1) != 0, .base64 = (at & 2) != 0, .chunked = (at & 4) != 0};
        put_answer(&bytes, &manner);
        for (size_t size = 0; size < bytes.size; size++) {
            EXPECT_ERR(scan_view(ks_view_of(bytes.data, size), &records), MALFORMED);
        }
        put_byte(&bytes, 0xF6);
        EXPECT_ERR(scan_view(ks_bytes_view(&bytes), &records), MALFORMED);
    }
    ks_bytes_free(&bytes);
}

static ks_err scan(const void *bytes, size_t size, struct ks_records *records)
{
    return scan_view(ks_view_of(bytes, size), records);
}
#define SCAN(literal, records) scan(literal, sizeof(literal) - 1, records)

TEST(the_end_of_a_shard_has_no_iterator_and_may_have_children)
{
    struct ks_records records;

    EXPECT_OK(SCAN("\xA1\x67Records\x80", &records));
    EXPECT(records.batch.at_end);
    ks_batch_free(&records.batch);
    EXPECT_OK(SCAN("\xA3\x67Records\x80\x71NextShardIterator\xF6\x6B"
                   "ChildShards\x83\xA1\x67ShardId\x61"
                   "a\xA1\x67ShardId\x61"
                   "b\xA0",
                   &records));
    EXPECT(records.batch.at_end);
    EXPECT_STR(records.batch.children[0], "a");
    EXPECT_STR(records.batch.children[1], "b");
    ks_batch_free(&records.batch);
}

TEST(what_is_no_answer_is_malformed)
{
    struct ks_records records;

    EXPECT_ERR(SCAN("\xA0", &records), MALFORMED);
    EXPECT_ERR(SCAN("\x80", &records), MALFORMED);
    EXPECT_ERR(SCAN("\xA1\x67Records\xF6", &records), MALFORMED);
    EXPECT_ERR(SCAN("\xA1\x67Records\xA0", &records), MALFORMED);
    EXPECT_ERR(SCAN("\xA1\x67Records\x81\xA0", &records), MALFORMED);
    EXPECT_ERR(SCAN("\xA1\x67Records\x9B\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF", &records), MALFORMED);
    EXPECT_ERR(SCAN("\xA2\x67Records\x80\x67Records\x80", &records), MALFORMED);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(more_records_than_asked_for_and_short_budgets_are_refused)
{
    struct manner manner = {.base64 = true, .chunked = true};
    struct ks_bytes bytes;
    struct ks_budget budget;
    struct ks_records records;

    ks_bytes_init(&bytes, BYTES_MAX);
    put_answer(&bytes, &manner);
    ks_view view = ks_bytes_view(&bytes);
    EXPECT_ERR(ks_records_cbor(body_block(NULL, 0, view, BODY_FITS, 1), 0, 1, &records), MALFORMED);
    ks_budget_init(&budget, view.size + 100);
    EXPECT_ERR(ks_records_cbor(body_block(&budget, 0, view, BODY_TIGHT, 2), 0, 2, &records), FULL);
    EXPECT_EQ_U64(budget.used, 0);
    ks_budget_init(&budget, 10000);
    struct ks_block *tight = body_block(&budget, 0, view, BODY_TIGHT, 2);
    ks_alloc_fail_after(1, 0);
    EXPECT_ERR(ks_records_cbor(tight, 0, 2, &records), NO_MEMORY);
    ks_alloc_fail_after(0, 0);
    EXPECT_EQ_U64(budget.used, 0);
    ks_bytes_free(&bytes);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}
