/* SPDX-License-Identifier: Apache-2.0 */
#include "api/place.h"

#include "base/codec.h"
#include "ks_test.h"

#include <string.h>

static struct ks_exchange exchange;

static struct ks_position read(const char *text)
{
    struct ks_position place = {.kind = KS_POSITION_SHARD_END};
    bool good;

    memset(&exchange, 0, sizeof(exchange));
    exchange.request.target = KS_VIEW("/v1/seek");
    good = ks_place_read(&exchange, "to", ks_view_text(text), &place);
    EXPECT_EQ_I64(exchange.answered, !good);
    ks_bytes_free(&exchange.answer.body);
    return place;
}

TEST(places_are_words_instants_and_sequence_numbers)
{
    EXPECT_EQ_I64(read("trim_horizon").kind, KS_POSITION_TRIM_HORIZON);
    EXPECT_EQ_I64(read("latest").kind, KS_POSITION_LATEST);
    EXPECT_EQ_I64(read("1970-01-01T00:00:01Z").kind, KS_POSITION_AT_TIMESTAMP);
    EXPECT_EQ_I64(read("1970-01-01T00:00:01Z").timestamp_ms, 1000);
    EXPECT_EQ_I64(read("12").kind, KS_POSITION_AT_SEQUENCE);
    EXPECT_STR(read("12").sequence, "12");
    EXPECT_EQ_I64(read("12").sub_sequence, -1);
    EXPECT_STR(read("0").sequence, "0");
}

TEST(what_is_no_place_is_refused_and_named)
{
    char digits[KS_SEQUENCE_MAX + 2]; /* One too many. */
    const char *const wrong[] = {
        "", "LATEST", "007", "12a", "-1", "yesterday", "1960-01-01T00:00:00Z", digits};

    memset(digits, '1', sizeof(digits) - 1);
    digits[sizeof(digits) - 1] = '\0';
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        EXPECT_EQ_I64(read(wrong[i]).kind, KS_POSITION_SHARD_END);
        EXPECT_EQ_I64(exchange.answer.status, 400);
    }
}
