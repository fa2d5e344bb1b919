/* SPDX-License-Identifier: Apache-2.0 */
#include "ports/rows_mixed.h"

#include "unit/ports/rows_bed.h"

/* Reads the row `seconds` after the start. */
static void look_at(struct ks_rows *rows, const struct ks_store_lease *row, int seconds)
{
    const struct ks_store_answer answer = {.outcome = KS_DONE, .leases = row, .lease_count = 1};
    struct ks_event event = {.kind = KS_EVENT_START};

    ks_rows_answered(rows, KS_STORE_READ_LEASES, true, &answer,
                     ks_instant_add(now, ks_span_ms(seconds * 1000)), wall, &event);
}

/* The same, of a look that took so long. */
static void look_slowly(struct ks_rows *rows, const struct ks_store_lease *row, int seconds,
                        int took)
{
    const struct ks_store_answer answer = {.outcome = KS_DONE, .leases = row, .lease_count = 1};
    struct ks_event event = {.kind = KS_EVENT_START};

    rows->mixed.took = ks_span_ms(took * 1000);
    ks_rows_answered(rows, KS_STORE_READ_LEASES, true, &answer,
                     ks_instant_add(now, ks_span_ms(seconds * 1000)),
                     (ks_wall){wall.ms + (seconds - took) * 1000}, &event);
}

/* A lease of 10 s that was renewed in this second. */
static uint64_t renewed_at(int seconds)
{
    return (uint64_t)(wall.ms + (seconds + 10) * 1000) * 1000000;
}

/* Looks of 20 s, one after the other, at a lease of 10 s that was renewed so many seconds before each was answered. */
static enum ks_mixed_sign told_by_slow_looks(int before)
{
    struct ks_store_lease row = lease("shard-0", "worker-a", 0, 1, "100");
    enum ks_mixed_sign sign = KS_MIXED_NONE;
    struct ks_rows rows;

    share(&rows, true);
    rows.mixed = (struct ks_mixed){.protocol = KS_PROTOCOL_GO_KCL, .lease = ks_span_ms(10000)};
    for (int seconds = 20; seconds < 800; seconds += 23) {
        row.rev = renewed_at(seconds - before);
        look_slowly(&rows, &row, seconds, 20);
    }
    for (int at = 0; at < KS_MIXED_SIGNS; at++)
        if (rows.mixed.told[at])
            sign = (enum ks_mixed_sign)at;
    ks_rows_free(&rows);
    return sign;
}

TEST(a_slow_look_is_no_sign_of_times_that_are_longer_or_shorter)
{
    EXPECT_EQ_I64(told_by_slow_looks(0), KS_MIXED_NONE);
    EXPECT_EQ_I64(told_by_slow_looks(3), KS_MIXED_NONE);
    EXPECT_EQ_I64(told_by_slow_looks(19), KS_MIXED_NONE);
    /* When the look before had seen it, and never again: that is no sign of how long it was good for. */
    EXPECT_EQ_I64(told_by_slow_looks(40), KS_MIXED_NONE);
    /* This was not renewed before the answer came. */
    EXPECT_EQ_I64(told_by_slow_looks(-4), KS_MIXED_LONGER);
}

/* An operator looks at all rows, too: their looks are over sooner than ours that began before. */
TEST(what_two_looks_show_that_overlap_did_not_stand_still)
{
    struct ks_store_lease row = lease("shard-0", "worker-a", 0, 1, "100");
    struct ks_rows rows;

    share(&rows, false);
    rows.mixed = (struct ks_mixed){.protocol = KS_PROTOCOL_KCL, .lease = ks_span_ms(10000)};
    for (int seconds = 25; seconds < 600; seconds += 25, row.rev++) {
        look_slowly(&rows, &row, seconds, 0);
        look_slowly(&rows, &row, seconds + 19, 20);
    }
    EXPECT(!rows.mixed.told[KS_MIXED_LONGER]);
    ks_rows_free(&rows);
}

TEST(a_row_that_nobody_looked_at_did_not_stand_still)
{
    struct ks_store_lease row = lease("shard-0", "worker-a", 0, 1, "100");
    struct ks_rows rows;

    share(&rows, false);
    rows.mixed = (struct ks_mixed){.protocol = KS_PROTOCOL_KCL, .lease = ks_span_ms(10000)};
    for (int seconds = 0; seconds < 600; seconds += 60, row.rev++)
        look_at(&rows, &row, seconds);
    EXPECT(!rows.mixed.told[KS_MIXED_LONGER]);
    for (int seconds = 600; seconds < 700; seconds += 20, row.rev++)
        for (int look = 0; look < 20; look += 5)
            look_at(&rows, &row, seconds + look);
    EXPECT(rows.mixed.told[KS_MIXED_LONGER]);
    ks_rows_free(&rows);
}

/* A fleet of the KCL; ours begin at `initial`. */
static void keep(struct ks_rows *rows, enum ks_position_kind initial)
{
    const struct ks_position start = {.kind = initial, .sub_sequence = -1};

    share(rows, false);
    ks_rows_keep(rows, &start, 1714564810000);
    rows->mixed = (struct ks_mixed){.protocol = KS_PROTOCOL_KCL, .lease = ks_span_ms(10000)};
}

/* True if the row of a shard that nobody began, there, is a sign that members begin elsewhere. */
static bool is_a_sign(enum ks_position_kind initial, enum ks_position_kind stands,
                      const char *parent)
{
    struct ks_store_lease row = lease("shard-0", "worker-a", 0, 1, "");
    struct ks_rows rows;
    bool told;

    keep(&rows, initial);
    row.checkpoint = (struct ks_position){.kind = stands, .sub_sequence = -1};
    memcpy(row.parents[0], parent, strlen(parent) + 1);
    look_at(&rows, &row, 0);
    told = rows.mixed.told[KS_MIXED_ELSEWHERE];
    ks_rows_free(&rows);
    return told;
}

TEST(a_row_that_nobody_began_tells_where_members_begin)
{
    EXPECT(is_a_sign(KS_POSITION_TRIM_HORIZON, KS_POSITION_LATEST, ""));
    EXPECT(is_a_sign(KS_POSITION_TRIM_HORIZON, KS_POSITION_AT_TIMESTAMP, ""));
    EXPECT(is_a_sign(KS_POSITION_LATEST, KS_POSITION_TRIM_HORIZON, ""));
    EXPECT(is_a_sign(KS_POSITION_LATEST, KS_POSITION_AT_TIMESTAMP, "parent"));
    EXPECT(!is_a_sign(KS_POSITION_LATEST, KS_POSITION_TRIM_HORIZON, "parent"));
    EXPECT(!is_a_sign(KS_POSITION_LATEST, KS_POSITION_LATEST, ""));
    EXPECT(!is_a_sign(KS_POSITION_AT_TIMESTAMP, KS_POSITION_AT_TIMESTAMP, ""));
    EXPECT(!is_a_sign(KS_POSITION_LATEST, KS_POSITION_AFTER_SEQUENCE, ""));
    EXPECT(!is_a_sign(KS_POSITION_LATEST, KS_POSITION_SHARD_END, ""));
}

/* Looks at a row whose counter moves each second, for two minutes. */
static bool is_short(struct ks_store_lease *row, int64_t sub_sequence, bool prepared)
{
    struct ks_rows rows;
    bool told;

    keep(&rows, KS_POSITION_TRIM_HORIZON);
    for (int seconds = 0; seconds < 120; seconds += 2, row->rev += 2) {
        row->checkpoint.sub_sequence += sub_sequence;
        row->prepared = prepared && seconds % 10 == 0;
        look_at(&rows, row, seconds);
    }
    told = rows.mixed.told[KS_MIXED_SHORTER];
    ks_rows_free(&rows);
    return told;
}

TEST(renewals_that_are_nothing_else_tell_of_a_short_time)
{
    struct ks_store_lease row = lease("shard-0", "worker-a", 0, 1, "100");

    EXPECT(is_short(&row, 0, false));
    EXPECT(!is_short(&row, 1, false)); /* Inside an aggregate. */
    EXPECT(!is_short(&row, 0, true));
    row = lease("shard-0", "pod-a", 0, 1, "100");
    EXPECT(!is_short(&row, 0, false));
}

TEST(a_claim_of_ours_that_its_owner_renews_over_is_told)
{
    struct ks_store_lease row = lease("shard-0", "worker-a", 0, 1, "100");
    struct ks_rows rows;

    share(&rows, true);
    rows.mixed = (struct ks_mixed){
        .protocol = KS_PROTOCOL_GO_KCL, .lease = ks_span_ms(10000), .stealing = true};
    row.whole = row.checkpoint;
    row.rev = (uint64_t)wall.ms * 1000000 + UINT64_C(9000000000);
    for (int times = 0; times < 6; times++) {
        memcpy(row.next_owner.id, "pod-a", sizeof "pod-a");
        if (times % 2 == 1)
            row.next_owner.id[0] = '\0';
        row.rev += (uint64_t)(times % 2);
        look_at(&rows, &row, times);
        EXPECT_EQ_I64(rows.mixed.told[KS_MIXED_UNHEEDED], times == 5);
    }
    ks_rows_free(&rows);
}
