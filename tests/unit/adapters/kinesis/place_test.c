/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/kinesis/place.h"

#include "ks_test.h"

#include <stdio.h>

#define NOW_MS_VALUE INT64_C(1795219200123)
static const int64_t NOW_MS = NOW_MS_VALUE;
static const struct ks_place_stream UNKNOWN = {.now_ms = 0};

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
    EXPECT_EQ_I64(ks_place_asked(&place).timestamp_ms, NOW_MS);
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
    EXPECT_EQ_I64(ks_place_asked(&place).timestamp_ms, NOW_MS);
}

TEST(an_instant_an_hour_ahead_falls_back_to_the_server_clock)
{
    struct ks_position from = {
        .kind = KS_POSITION_AT_TIMESTAMP, .sub_sequence = -1, .timestamp_ms = NOW_MS + 3600000};
    struct ks_place place;

    ks_place_init(&place, &from, NOW_MS);
    EXPECT_EQ_I64(ks_place_asked(&place).timestamp_ms, NOW_MS + 3600000);
    EXPECT(ks_place_fall_back(&place, KS_FAIL(INVALID)));
    EXPECT_EQ_I64(ks_place_asked(&place).timestamp_ms, NOW_MS);
}

TEST(an_instant_falls_back_once_by_what_clocks_may_differ)
{
    struct ks_place place = at(KS_POSITION_AT_TIMESTAMP, -1);

    EXPECT(!ks_place_fall_back(&place, KS_FAIL(NOT_FOUND)));
    EXPECT(ks_place_fall_back(&place, KS_FAIL(INVALID)));
    EXPECT_EQ_I64(ks_place_asked(&place).timestamp_ms, NOW_MS - 5000 - 300000);
    EXPECT(!ks_place_fall_back(&place, KS_FAIL(INVALID)));

    place = at(KS_POSITION_AT_TIMESTAMP, -1);
    place.from.timestamp_ms = INT64_MIN;
    EXPECT(ks_place_fall_back(&place, KS_FAIL(INVALID)));
    EXPECT_EQ_I64(ks_place_asked(&place).timestamp_ms, 0);
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
    ks_place_take(place, &batch, &UNKNOWN);
    EXPECT_EQ_U64(batch.count, 0);
    EXPECT(place->from_horizon);
    batch = (struct ks_batch){.records = records, .count = 3};
    ks_place_take(place, &batch, &UNKNOWN);
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

/* ---- What expired unread. ---- */

enum { HOUR_MS = 3600000 };
static const struct ks_place_stream DAY = {.now_ms = NOW_MS_VALUE, .retention_ms = 24 * HOUR_MS};

/* What a batch of one record tells. */
static struct ks_expired took(struct ks_place *place, const char *sequence, int64_t arrival_ms,
                              const struct ks_place_stream *stream)
{
    const struct ks_record record = {.sequence = ks_view_text(sequence), .arrival_ms = arrival_ms};
    struct ks_batch batch = {.records = &record, .count = 1};

    ks_place_take(place, &batch, stream);
    return batch.expired;
}

TEST(a_checkpoint_whose_record_comes_first_has_lost_nothing)
{
    struct ks_place place = at(KS_POSITION_AFTER_SEQUENCE, -1);
    const struct ks_record records[] = {{.sequence = KS_VIEW("200")}, {.sequence = KS_VIEW("201")}};
    struct ks_batch batch = {.records = records, .count = 2};

    EXPECT_EQ_I64(ks_place_asked(&place).kind, KS_POSITION_AT_SEQUENCE);
    ks_place_take(&place, &batch, &DAY);
    EXPECT_EQ_U64(batch.count, 1); /* It was delivered long ago. */
    EXPECT(batch.records == records + 1);
    EXPECT(!batch.expired.found);
    EXPECT_EQ_I64(ks_place_asked(&place).kind, KS_POSITION_AFTER_SEQUENCE);
}

TEST(a_checkpoint_whose_record_is_gone_may_have_lost_what_followed)
{
    struct ks_place place = at(KS_POSITION_AFTER_SEQUENCE, -1);
    struct ks_place inside = at(KS_POSITION_AFTER_SEQUENCE, 3);
    struct ks_expired expired = took(&place, "300", NOW_MS - HOUR_MS, &DAY);

    EXPECT(expired.found);
    EXPECT(!expired.certain);
    EXPECT_EQ_I64(expired.from_ms, 0); /* "200" says nothing of its time. */
    EXPECT_EQ_I64(expired.to_ms, NOW_MS - 24 * HOUR_MS);
    /* The rest of an aggregate was not settled. */
    EXPECT(took(&inside, "300", NOW_MS - HOUR_MS, &DAY).certain);
}

TEST(an_idle_shard_is_never_told_of)
{
    struct ks_place place = at(KS_POSITION_AFTER_SEQUENCE, -1);
    struct ks_batch tip = {.count = 0, .millis_behind = 0};
    struct ks_batch empty = {.count = 0, .millis_behind = 5};
    struct ks_place_stream later = DAY;

    ks_place_take(&place, &empty, &DAY); /* The server is on its way to the record. */
    EXPECT(place.probes);
    ks_place_take(&place, &tip, &DAY);
    ks_place_passed(&place, 0, 0, &DAY);
    EXPECT(!tip.expired.found);
    /* Read all the time, without a record for days. */
    for (int hour = 0; hour < 100; hour++) {
        later.now_ms += HOUR_MS;
        tip = (struct ks_batch){.count = 0, .millis_behind = 0};
        ks_place_take(&place, &tip, &later);
        EXPECT(!tip.expired.found);
        ks_place_passed(&place, 0, 0, &later);
    }
    EXPECT(!took(&place, "300", later.now_ms, &later).found);
}

TEST(a_reader_behind_the_retention_period_tells_what_it_missed)
{
    struct ks_place place = at(KS_POSITION_TRIM_HORIZON, -1);
    struct ks_place_stream later = DAY;
    struct ks_expired expired;

    EXPECT(
        !took(&place, "200", NOW_MS - HOUR_MS, &DAY).found); /* The horizon is what it asked for. */
    ks_place_passed(&place, NOW_MS - HOUR_MS, HOUR_MS, &DAY);
    ks_place_move(&place, KS_VIEW("200"));
    later.now_ms += 22 * HOUR_MS;
    EXPECT(!took(&place, "201", NOW_MS, &later).found);
    later.now_ms += 3 * HOUR_MS;
    expired = took(&place, "300", NOW_MS + 5 * HOUR_MS, &later);
    EXPECT(expired.found);
    EXPECT(expired.certain); /* There was more, and all of it is older than the period. */
    EXPECT_EQ_I64(expired.from_ms, NOW_MS - HOUR_MS);
    EXPECT_EQ_I64(expired.to_ms, NOW_MS + HOUR_MS);
    /* It was at the tip: nobody knows whether there was one. */
    ks_place_passed(&place, 0, 0, &DAY);
    later.now_ms = NOW_MS + 30 * HOUR_MS;
    expired = took(&place, "400", NOW_MS + 10 * HOUR_MS, &later);
    EXPECT(expired.found);
    EXPECT(!expired.certain);
    EXPECT_EQ_I64(expired.from_ms, NOW_MS);
    /* Without the period or the clock nothing is known. */
    EXPECT(!took(&place, "400", NOW_MS + 10 * HOUR_MS, &UNKNOWN).found);
}
