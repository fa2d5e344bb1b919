/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/kinesis/place.h"

#include "ks_test.h"

#include <stdio.h>

static const int64_t NOW_MS = 1795219200123;

static struct ks_place at(enum ks_position_kind kind, int64_t sub_sequence)
{
    struct ks_position from = {.kind = kind,
                               .sequence = "200",
                               .sub_sequence = sub_sequence,
                               .timestamp_ms = NOW_MS - 5000};
    struct ks_place place;

    ks_place_init(&place, &from, NOW_MS);
    return place;
}

TEST(the_tip_is_asked_for_once)
{
    struct ks_place place = at(KS_POSITION_LATEST, -1);

    EXPECT_EQ_I64(ks_place_asked(&place).kind, KS_POSITION_LATEST);
    ks_place_ask(&place);
    EXPECT_EQ_I64(ks_place_asked(&place).kind, KS_POSITION_AT_TIMESTAMP);
    EXPECT_EQ_I64(ks_place_asked(&place).timestamp_ms, NOW_MS - 1000);
    ks_place_move(&place, KS_VIEW("300"));
    EXPECT_EQ_I64(ks_place_asked(&place).kind, KS_POSITION_AFTER_SEQUENCE);
    EXPECT_STR(ks_place_asked(&place).sequence, "300");
}

TEST(a_lost_tip_without_a_known_instant_is_asked_for_again)
{
    struct ks_position from = {.kind = KS_POSITION_LATEST, .sub_sequence = -1};
    struct ks_place place;

    ks_place_init(&place, &from, 0);
    ks_place_ask(&place);
    EXPECT_EQ_I64(ks_place_asked(&place).kind, KS_POSITION_LATEST);
    /* The answer that got lost 3 s later told the time. */
    place.opened_at = (ks_instant){1000000};
    ks_place_date(&place, NOW_MS + 3000, (ks_instant){4000000});
    ks_place_date(&place, NOW_MS + 9000, (ks_instant){5000000});
    EXPECT_EQ_I64(ks_place_asked(&place).kind, KS_POSITION_AT_TIMESTAMP);
    EXPECT_EQ_I64(ks_place_asked(&place).timestamp_ms, NOW_MS - 1000);
}

TEST(an_instant_an_hour_ahead_falls_back_to_the_server_clock)
{
    struct ks_position from = {
        .kind = KS_POSITION_AT_TIMESTAMP, .sub_sequence = -1, .timestamp_ms = NOW_MS + 3600000};
    struct ks_place place;

    ks_place_init(&place, &from, NOW_MS);
    EXPECT_EQ_I64(ks_place_asked(&place).timestamp_ms, NOW_MS + 3600000);
    EXPECT(ks_place_fall_back(&place, KS_FAIL(INVALID)));
    EXPECT_EQ_I64(ks_place_asked(&place).timestamp_ms, NOW_MS - 1000);
}

TEST(an_instant_falls_back_once_by_what_clocks_may_differ)
{
    struct ks_place place = at(KS_POSITION_AT_TIMESTAMP, -1);

    EXPECT(!ks_place_fall_back(&place, KS_FAIL(NOT_FOUND)));
    EXPECT(ks_place_fall_back(&place, KS_FAIL(INVALID)));
    EXPECT_EQ_I64(ks_place_asked(&place).timestamp_ms, NOW_MS - 5000 - 300000);
    EXPECT(!ks_place_fall_back(&place, KS_FAIL(INVALID)));
}

TEST(no_other_failure_moves_a_place)
{
    struct ks_place place = at(KS_POSITION_AFTER_SEQUENCE, -1);
    struct ks_place horizon = at(KS_POSITION_TRIM_HORIZON, -1);

    EXPECT(!ks_place_fall_back(&place, KS_FAIL(THROTTLED)));
    EXPECT(!ks_place_fall_back(&place, KS_FAIL(DENIED)));
    EXPECT(!ks_place_fall_back(&horizon, KS_FAIL(INVALID)));
}

/* What is left of records 199, 200, 201 in one batch. */
static void expect_trimmed(struct ks_place *place, uint32_t left)
{
    const struct ks_record records[] = {
        {.sequence = KS_VIEW("199")}, {.sequence = KS_VIEW("200")}, {.sequence = KS_VIEW("201")}};
    struct ks_batch batch = {.records = records, .count = 3};

    EXPECT(ks_place_fall_back(place, KS_FAIL(INVALID)));
    EXPECT_EQ_I64(ks_place_asked(place).kind, KS_POSITION_TRIM_HORIZON);
    batch.count = 1;
    ks_place_trim(place, &batch);
    EXPECT_EQ_U64(batch.count, 0);
    EXPECT(place->from_horizon);
    batch = (struct ks_batch){.records = records, .count = 3};
    ks_place_trim(place, &batch);
    EXPECT_EQ_U64(batch.count, left);
    EXPECT(!place->from_horizon);
    EXPECT(batch.records + batch.count == records + 3);
}

TEST(from_the_horizon_everything_before_the_place_is_dropped)
{
    struct ks_place after = at(KS_POSITION_AFTER_SEQUENCE, -1);
    struct ks_place inside = at(KS_POSITION_AFTER_SEQUENCE, 3);
    struct ks_place itself = at(KS_POSITION_AT_SEQUENCE, -1);

    expect_trimmed(&after, 1);
    expect_trimmed(&inside, 2); /* The whole aggregate. */
    expect_trimmed(&itself, 2);
}
