/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/kinesis/listing.h"

#include "adapters/kinesis/request.h"
#include "base/budget.h"

#include "ks_test.h"

#include <stdio.h>

#define DIGITS_40 "1234567890123456789012345678901234567890"

static ks_err take(struct ks_listing *listing, const char *body, bool *ret_more)
{
    return ks_listing_take(listing, ks_view_text(body), ret_more);
}

static void expect_request(const struct ks_listing *listing, const char *expected)
{
    struct ks_bytes body;

    ks_bytes_init(&body, KS_KINESIS_REQUEST_MAX);
    EXPECT_OK(ks_listing_request(listing, "demo", 1000, &body));
    EXPECT_OK(ks_bytes_append_byte(&body, 0));
    EXPECT_STR((char *)body.data, expected);
    ks_bytes_free(&body);
}

TEST(pages_are_collected_and_a_token_travels_alone)
{
    struct ks_listing listing;
    bool more = false;

    ks_listing_init(&listing, 0);
    expect_request(&listing, "{\"StreamName\":\"demo\",\"MaxResults\":1000}");
    EXPECT_OK(take(&listing,
                   "{\"NextToken\":\"t\\/1\",\"Shards\":[{\"ShardId\":\"a\",\"HashKeyRange\":"
                   "{\"StartingHashKey\":\"0\",\"EndingHashKey\":\"9\"},\"SequenceNumberRange\":"
                   "{\"StartingSequenceNumber\":\"1\",\"EndingSequenceNumber\":\"2\"}}]}",
                   &more));
    EXPECT(more);
    expect_request(&listing, "{\"NextToken\":\"t/1\"}");
    EXPECT_OK(take(&listing,
                   "{\"NextToken\":null,\"Shards\":[{\"ShardId\":\"b\",\"ParentShardId\":\"a\","
                   "\"AdjacentParentShardId\":\"c\",\"HashKeyRange\":null,\"SequenceNumberRange\":"
                   "{\"StartingSequenceNumber\":\"1\",\"EndingSequenceNumber\":null}},"
                   "{\"ShardId\":\"d\",\"ParentShardId\":null}]}",
                   &more));
    EXPECT(!more);
    EXPECT_EQ_U64(listing.count, 3);
    EXPECT_STR(listing.shards[0].shard, "a");
    EXPECT_STR(listing.shards[0].hash_end, "9");
    EXPECT(listing.shards[0].closed);
    EXPECT_STR(listing.shards[1].parents[0], "a");
    EXPECT_STR(listing.shards[1].parents[1], "c");
    EXPECT(!listing.shards[1].closed);
    EXPECT_STR(listing.shards[2].parents[0], "");
    ks_listing_free(&listing);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(an_expired_token_begins_again_but_not_for_ever)
{
    struct ks_listing listing;
    bool more = false;

    ks_listing_init(&listing, 0);
    for (int at = 0; at < KS_LISTING_RESTARTS_MAX; at++) {
        EXPECT_OK(take(&listing, "{\"NextToken\":\"t\",\"Shards\":[{\"ShardId\":\"a\"}]}", &more));
        EXPECT(ks_listing_restart(&listing));
        EXPECT_EQ_U64(listing.count, 0);
        expect_request(&listing, "{\"StreamName\":\"demo\",\"MaxResults\":1000}");
    }
    EXPECT(!ks_listing_restart(&listing));
    ks_listing_free(&listing);
}

TEST(shards_from_an_instant_on_are_asked_for_with_the_first_page_only)
{
    struct ks_listing listing;
    bool more = false;

    ks_listing_init(&listing, 1795219200123);
    expect_request(&listing,
                   "{\"StreamName\":\"demo\",\"MaxResults\":1000,\"ShardFilter\":{\"Type\":"
                   "\"FROM_TIMESTAMP\",\"Timestamp\":1795219200.123}}");
    EXPECT_OK(take(&listing, "{\"NextToken\":\"t\",\"Shards\":[{\"ShardId\":\"a\"}]}", &more));
    expect_request(&listing, "{\"NextToken\":\"t\"}");
    EXPECT(!ks_listing_widen(&listing)); /* It was not the filter that was refused. */
    EXPECT(ks_listing_restart(&listing));
    expect_request(&listing,
                   "{\"StreamName\":\"demo\",\"MaxResults\":1000,\"ShardFilter\":{\"Type\":"
                   "\"FROM_TIMESTAMP\",\"Timestamp\":1795219200.123}}");
    ks_listing_free(&listing);
}

TEST(a_filter_that_is_refused_is_moved_and_then_left_out)
{
    struct ks_listing listing;

    ks_listing_init(&listing, 1795219200123);
    EXPECT(ks_listing_widen(&listing));
    EXPECT_EQ_I64(listing.since_ms, 1795218900123);
    EXPECT(ks_listing_widen(&listing));
    expect_request(&listing, "{\"StreamName\":\"demo\",\"MaxResults\":1000}");
    EXPECT(!ks_listing_widen(&listing));
    ks_listing_free(&listing);

    ks_listing_init(&listing, 1000);
    EXPECT(ks_listing_widen(&listing));
    EXPECT_EQ_I64(listing.since_ms, 0);
    ks_listing_free(&listing);
}

TEST(what_is_no_page_is_malformed)
{
    static const char *const BODIES[] = {
        "",
        "{}",
        "[]",
        "{\"Shards\":{}}",
        "{\"Shards\":[{}]}",
        "{\"Shards\":[null]}",
        "{\"Shards\":[{\"ShardId\":7}]}",
        "{\"Shards\":[{\"ShardId\":\"a\",\"ParentShardId\":[]}]}",
        "{\"Shards\":[{\"ShardId\":\"a\",\"HashKeyRange\":{\"EndingHashKey\":\"" DIGITS_40 "\"}}]}",
        "{\"Shards\":[],\"NextToken\":1}",
    };
    bool more = false;

    for (size_t at = 0; at < sizeof(BODIES) / sizeof(BODIES[0]); at++) {
        struct ks_listing listing;
        ks_listing_init(&listing, 0);
        EXPECT_ERR(take(&listing, BODIES[at], &more), MALFORMED);
        ks_listing_free(&listing);
    }
}

TEST(many_pages_grow_the_array)
{
    struct ks_listing listing;
    bool more = false;
    char body[128];

    ks_listing_init(&listing, 0);
    for (int at = 0; at < 200; at++) {
        (void)snprintf(body, sizeof(body),
                       "{\"NextToken\":\"t\",\"Shards\":[{\"ShardId\":\"s%d\"}]}", at);
        EXPECT_OK(take(&listing, body, &more));
    }
    EXPECT_EQ_U64(listing.count, 200);
    EXPECT_STR(listing.shards[199].shard, "s199");
    EXPECT_STR(listing.shards[0].shard, "s0");
    ks_listing_free(&listing);
}

TEST(an_allocation_that_fails_fails_the_page)
{
    for (uint64_t n = 1; n < 12; n++) {
        struct ks_listing listing;
        bool more = false;

        ks_listing_init(&listing, 0);
        ks_alloc_fail_after(n, 0);
        ks_err err =
            take(&listing, "{\"NextToken\":\"t\",\"Shards\":[{\"ShardId\":\"a\"}]}", &more);
        ks_alloc_fail_after(0, 0);
        EXPECT(ks_ok(err) || ks_err_is(err, KS_ERR_NO_MEMORY));
        ks_listing_free(&listing);
        EXPECT_EQ_I64(ks_alloc_live(), 0);
    }
}
