/* SPDX-License-Identifier: Apache-2.0 */
#include "ports/streams.h"

#include "ks_test.h"

#include <stdio.h>
#include <string.h>

#define ORDERS "123456789012:orders:1672531200"

static bool is_id(const char *text)
{
    struct ks_stream_id id;

    return ks_stream_id_read(ks_view_text(text), &id);
}

TEST(an_identifier_has_an_account_a_name_and_an_epoch)
{
    struct ks_stream_id id;

    EXPECT(ks_stream_id_read(ks_view_text(ORDERS), &id));
    EXPECT(ks_view_equal(id.account, KS_VIEW("123456789012")));
    EXPECT(ks_view_equal(id.name, KS_VIEW("orders")));
    EXPECT(ks_view_equal(id.epoch, KS_VIEW("1672531200")));
    EXPECT(is_id("000000000000:a:1"));
    EXPECT(is_id("1:a.b_c-d:9223372036854775807"));
    EXPECT(!is_id(""));
    EXPECT(!is_id("orders"));
    EXPECT(!is_id("123456789012:orders"));
    EXPECT(!is_id("123456789012:orders:"));
    EXPECT(!is_id("123456789012:orders:0"));
    EXPECT(!is_id("123456789012:orders:-5"));
    EXPECT(!is_id("123456789012:orders:1:2"));
    EXPECT(!is_id("123456789012::1"));
    EXPECT(!is_id("123456789012:or ders:1"));
    EXPECT(!is_id("1234567890123:orders:1"));
    EXPECT(!is_id("account:orders:1"));
    EXPECT(!is_id(":orders:1"));
    EXPECT(!is_id("123456789012:orders:12345678901234567890"));
}

TEST(the_longest_identifier_fits)
{
    char text[KS_STREAM_ID_MAX + 2];

    memset(text, 'n', sizeof text);
    memcpy(text, "123456789012:", 13);
    memcpy(text + KS_STREAM_ID_MAX - 20, ":9223372036854775807", 21);
    EXPECT_EQ_U64(strlen(text), KS_STREAM_ID_MAX);
    EXPECT(is_id(text));
    memcpy(text + KS_STREAM_ID_MAX - 20, "n:9223372036854775807", 22);
    EXPECT(!is_id(text));
}

TEST(a_key_is_cut_into_stream_and_shard_and_put_together)
{
    struct ks_store_lease lease = {.stream = ORDERS, .shard = "shardId-000000000001"};
    char key[KS_LEASE_KEY_MAX + 1];
    ks_view stream, shard;

    ks_stream_key(&lease, key);
    EXPECT_STR(key, ORDERS ":shardId-000000000001");
    EXPECT(ks_stream_key_read(ks_view_text(key), &stream, &shard));
    EXPECT(ks_view_equal(stream, KS_VIEW(ORDERS)));
    EXPECT(ks_view_equal(shard, KS_VIEW("shardId-000000000001")));
    EXPECT(ks_stream_key_read(KS_VIEW(ORDERS ":"), &stream, &shard));
    EXPECT_EQ_U64(shard.size, 0);
    EXPECT(!ks_stream_key_read(KS_VIEW(ORDERS), &stream, &shard));
    EXPECT(!ks_stream_key_read(KS_VIEW("shardId-000000000001"), &stream, &shard));
    EXPECT(!ks_stream_key_read(KS_VIEW(""), &stream, &shard));
    lease.stream[0] = '\0';
    ks_stream_key(&lease, key);
    EXPECT_STR(key, "shardId-000000000001");
}

TEST(rows_are_in_the_order_of_their_streams)
{
    EXPECT(ks_stream_order("a", "2", "b", "1") < 0);
    EXPECT(ks_stream_order("b", "1", "b", "2") < 0);
    EXPECT(ks_stream_order("", "z", "a", "a") < 0);
    EXPECT_EQ_I64(ks_stream_order("b", "1", "b", "1"), 0);
}

TEST(a_name_or_an_arn_means_a_stream_as_far_as_it_says)
{
    const ks_view id = KS_VIEW(ORDERS);

    EXPECT(ks_stream_means("orders", id));
    EXPECT(ks_stream_means("arn:aws:kinesis:eu-west-1:123456789012:stream/orders", id));
    EXPECT(!ks_stream_means("arn:aws:kinesis:eu-west-1:999999999999:stream/orders", id));
    EXPECT(!ks_stream_means("order", id));
    EXPECT(!ks_stream_means("orders", KS_VIEW("orders")));
}

/* ---- Which is ours ---- */

static struct ks_store_lease row(const char *stream, bool damaged)
{
    struct ks_store_lease lease = {.shard = "shardId-000000000000", .damaged = damaged};

    (void)snprintf(lease.stream, sizeof lease.stream, "%s", stream);
    return lease;
}

static struct ks_streams described(const char *word, bool several)
{
    return (struct ks_streams){.word = word,
                               .several = several,
                               .described = true,
                               .arn = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders",
                               .created_ms = INT64_C(1672531200999)};
}

TEST(a_table_is_what_its_rows_say)
{
    struct ks_store_lease rows[3] = {row("", false), row("", true)};
    struct ks_streams streams = {.word = "orders"};
    struct ks_detail detail;

    /* Of one stream, without asking Kinesis. */
    EXPECT_EQ_I64(ks_streams_choose(&streams, rows, 2, &detail), KS_CHOICE_MADE);
    EXPECT_EQ_I64(streams.layout, KS_LAYOUT_ONE);
    streams.layout = KS_LAYOUT_OPEN;
    EXPECT_EQ_I64(ks_streams_choose(&streams, rows, 0, &detail), KS_CHOICE_MADE);
    EXPECT_EQ_I64(streams.layout, KS_LAYOUT_ONE);

    rows[0] = row(ORDERS, false);
    rows[1] = row("123456789012:clicks:5", false);
    rows[2] = row("999999999999:orders:5", false);
    streams.layout = KS_LAYOUT_OPEN;
    EXPECT_EQ_I64(ks_streams_choose(&streams, rows, 3, &detail), KS_CHOICE_WAITS);
    EXPECT_EQ_I64(streams.layout, KS_LAYOUT_OPEN);
    streams = described("orders", false);
    EXPECT_EQ_I64(ks_streams_choose(&streams, rows, 3, &detail), KS_CHOICE_MADE);
    EXPECT_EQ_I64(streams.layout, KS_LAYOUT_SEVERAL);
    EXPECT_STR(streams.id, ORDERS);
}

TEST(the_epoch_of_the_rows_comes_before_that_of_kinesis_if_there_is_one)
{
    struct ks_store_lease rows[3] = {row("123456789012:orders:12345", false),
                                     row("123456789012:orders:12345", true),
                                     row("123456789012:clicks:12345", false)};
    struct ks_streams streams = described("orders", false);
    struct ks_detail detail;

    EXPECT_EQ_I64(ks_streams_choose(&streams, rows, 3, &detail), KS_CHOICE_MADE);
    EXPECT_STR(streams.id, "123456789012:orders:12345");
    /* Of two nobody knows, unless one is what Kinesis says. */
    rows[1] = row("123456789012:orders:5", false);
    streams = described("orders", false);
    EXPECT_EQ_I64(ks_streams_choose(&streams, rows, 3, &detail), KS_CHOICE_REFUSED);
    EXPECT_CONTAINS(detail.text, "which of them are stream orders");
    rows[2] = row(ORDERS, false);
    EXPECT_EQ_I64(ks_streams_choose(&streams, rows, 3, &detail), KS_CHOICE_MADE);
    EXPECT_STR(streams.id, ORDERS);
    /* Its rows are not there yet. */
    streams = described("orders", false);
    rows[0] = row("123456789012:clicks:12345", false);
    EXPECT_EQ_I64(ks_streams_choose(&streams, rows, 1, &detail), KS_CHOICE_MADE);
    EXPECT_STR(streams.id, ORDERS);
}

TEST(a_stream_of_another_account_is_another)
{
    const struct ks_store_lease rows[2] = {row("999999999999:orders:12345", false),
                                           row("123456789012:orders:12345", false)};
    struct ks_streams streams = described("orders", false);
    struct ks_detail detail;

    EXPECT_EQ_I64(ks_streams_choose(&streams, rows, 2, &detail), KS_CHOICE_MADE);
    EXPECT_STR(streams.id, "123456789012:orders:12345");
    streams = described("orders", false);
    EXPECT_EQ_I64(ks_streams_choose(&streams, rows, 1, &detail), KS_CHOICE_MADE);
    EXPECT_STR(streams.id, ORDERS);
}

TEST(an_empty_table_becomes_one_of_several_if_that_is_said)
{
    const struct ks_store_lease plain = row("", false);
    struct ks_streams streams = described("orders", true);
    struct ks_detail detail;

    EXPECT_EQ_I64(ks_streams_choose(&streams, NULL, 0, &detail), KS_CHOICE_MADE);
    EXPECT_EQ_I64(streams.layout, KS_LAYOUT_SEVERAL);
    EXPECT_STR(streams.id, ORDERS);
    streams = described("orders", true);
    EXPECT_EQ_I64(ks_streams_choose(&streams, &plain, 1, &detail), KS_CHOICE_REFUSED);
    EXPECT_CONTAINS(detail.text, "reads one stream");
    /* A stream without an account. */
    streams = described("orders", true);
    memcpy(streams.arn, "orders", 7);
    EXPECT_EQ_I64(ks_streams_choose(&streams, NULL, 0, &detail), KS_CHOICE_REFUSED);
    EXPECT_CONTAINS(detail.text, "has no account");
}

TEST(rows_of_both_kinds_are_refused)
{
    const struct ks_store_lease rows[2] = {row("", false), row(ORDERS, false)};
    struct ks_streams streams = described("orders", false);
    struct ks_detail detail;

    EXPECT_EQ_I64(ks_streams_choose(&streams, rows, 2, &detail), KS_CHOICE_REFUSED);
    EXPECT_CONTAINS(detail.text, "1 and 1");
    EXPECT_EQ_I64(streams.layout, KS_LAYOUT_OPEN);
}

TEST(served_is_what_this_process_reads)
{
    static const char *const kin[] = {"clicks",
                                      "arn:aws:kinesis:eu-west-1:123456789012:stream/carts"};
    const struct ks_streams streams = {.id = ORDERS, .kin = kin, .kin_count = 2};

    EXPECT(ks_streams_serve(&streams, ORDERS));
    EXPECT(ks_streams_serve(&streams, "123456789012:clicks:5"));
    EXPECT(ks_streams_serve(&streams, "123456789012:carts:5"));
    EXPECT(!ks_streams_serve(&streams, "999999999999:carts:5"));
    EXPECT(!ks_streams_serve(&streams, "123456789012:orders:5"));
}
