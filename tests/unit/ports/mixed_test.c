/* SPDX-License-Identifier: Apache-2.0 */
#include "ports/mixed.h"

#include "ks_test.h"

#define WALL ((ks_wall){1714564810000})

static struct ks_mixed mixed_of(enum ks_protocol protocol)
{
    return (struct ks_mixed){
        .protocol = protocol, .lease = ks_span_ms(10000), .check = ks_span_ms(1000)};
}

/* A renewal that gives `ms`, seen at once. */
static enum ks_mixed_sign renewal(struct ks_mixed *mixed, int64_t ms)
{
    const ks_wall wall = {1714564810000};
    const struct ks_mixed_lease lease = {.renewed = true,
                                         .rev = (uint64_t)(wall.ms + ms) * 1000000};

    return ks_mixed_see_lease(mixed, &lease, wall);
}

TEST(claims_that_we_do_not_make_are_told_once)
{
    const struct ks_mixed_lease lease = {.claimed = true};
    struct ks_mixed mixed = mixed_of(KS_PROTOCOL_GO_KCL);

    EXPECT_EQ_I64(ks_mixed_see_lease(&mixed, &lease, (ks_wall){0}), KS_MIXED_CLAIMS);
    EXPECT_EQ_I64(ks_mixed_see_lease(&mixed, &lease, (ks_wall){0}), KS_MIXED_NONE);
    mixed = mixed_of(KS_PROTOCOL_GO_KCL);
    mixed.stealing = true;
    EXPECT_EQ_I64(ks_mixed_see_lease(&mixed, &lease, (ks_wall){0}), KS_MIXED_NONE);
}

TEST(a_time_that_sidecars_give_tells_theirs_at_a_table_of_kcl_rb)
{
    struct ks_mixed mixed = mixed_of(KS_PROTOCOL_KCL_RB);

    EXPECT_EQ_I64(renewal(&mixed, 13500), KS_MIXED_NONE);
    EXPECT_EQ_I64(renewal(&mixed, 13501), KS_MIXED_LONGER);
}

TEST(a_time_that_members_give_tells_theirs)
{
    struct ks_mixed mixed = mixed_of(KS_PROTOCOL_GO_KCL);

    for (int i = 0; i < 20; i++)
        EXPECT_EQ_I64(renewal(&mixed, 7000 + i * 150), KS_MIXED_NONE);
    EXPECT_EQ_I64(renewal(&mixed, 13500), KS_MIXED_NONE);
    EXPECT_EQ_I64(renewal(&mixed, 13501), KS_MIXED_LONGER);
    EXPECT_EQ_I64(renewal(&mixed, 60000), KS_MIXED_NONE);

    mixed = mixed_of(KS_PROTOCOL_GO_KCL);
    for (int i = 0; i < 9; i++)
        EXPECT_EQ_I64(renewal(&mixed, 3000 + i), KS_MIXED_NONE);
    EXPECT_EQ_I64(renewal(&mixed, 3000), KS_MIXED_SHORTER);
    EXPECT_EQ_I64(renewal(&mixed, 3000), KS_MIXED_NONE);
}

TEST(a_counter_that_comes_late_again_and_again_tells_a_longer_time)
{
    struct ks_mixed mixed = mixed_of(KS_PROTOCOL_KCL);
    struct ks_mixed_lease lease = {.renewed = true, .still = ks_span_ms(9001)};

    EXPECT_EQ_I64(ks_mixed_see_lease(&mixed, &lease, (ks_wall){0}), KS_MIXED_NONE);
    EXPECT_EQ_I64(ks_mixed_see_lease(&mixed, &lease, (ks_wall){0}), KS_MIXED_NONE);
    lease.still = ks_span_ms(9000);
    EXPECT_EQ_I64(ks_mixed_see_lease(&mixed, &lease, (ks_wall){0}), KS_MIXED_NONE);
    lease.still = ks_span_ms(9001);
    EXPECT_EQ_I64(ks_mixed_see_lease(&mixed, &lease, (ks_wall){0}), KS_MIXED_LONGER);
}

/* Beats of a client, each so long after the one before. */
/* So many renewals of the row in so many s, looked at once a second. */
static enum ks_mixed_sign counts(struct ks_mixed *mixed, struct ks_mixed_lease *lease,
                                 uint32_t renewals, uint32_t seconds)
{
    enum ks_mixed_sign sign = KS_MIXED_NONE;
    const uint64_t from = lease->rev;

    for (uint32_t i = 1; i <= seconds && sign == KS_MIXED_NONE; i++) {
        lease->at = ks_instant_add(lease->at, ks_span_ms(1000));
        lease->rev = from + (uint64_t)renewals * i / seconds;
        sign = ks_mixed_see_lease(mixed, lease, (ks_wall){0});
    }
    return sign;
}

TEST(a_counter_that_moves_often_while_its_checkpoint_stands_tells_a_short_time)
{
    struct ks_mixed mixed = mixed_of(KS_PROTOCOL_KCL);
    struct ks_mixed_lease lease = {.idle = true, .rev = 7};

    /* Three times in 10 s, as ours do; and 2.5 times as often. */
    EXPECT_EQ_I64(counts(&mixed, &lease, 180, 600), KS_MIXED_NONE);
    EXPECT_EQ_I64(counts(&mixed, &lease, 450, 600), KS_MIXED_NONE);
    /* Three windows of 20 s. */
    mixed = mixed_of(KS_PROTOCOL_KCL);
    EXPECT_EQ_I64(counts(&mixed, &lease, 59, 59), KS_MIXED_NONE);
    EXPECT_EQ_I64(counts(&mixed, &lease, 4, 4), KS_MIXED_SHORTER);
    EXPECT_EQ_I64(counts(&mixed, &lease, 600, 600), KS_MIXED_NONE);
}

/* Its row may say any number. */
TEST(a_counter_that_leaps_tells_a_short_time)
{
    struct ks_mixed mixed = mixed_of(KS_PROTOCOL_KCL);
    struct ks_mixed_lease lease = {.idle = true, .rev = 7};

    for (int i = 0; i < 3; i++) {
        EXPECT_EQ_I64(ks_mixed_see_lease(&mixed, &lease, (ks_wall){0}), KS_MIXED_NONE);
        lease.at = ks_instant_add(lease.at, ks_span_ms(20000));
        lease.rev += UINT64_C(1) << 62;
    }
    EXPECT_EQ_I64(ks_mixed_see_lease(&mixed, &lease, (ks_wall){0}), KS_MIXED_SHORTER);
}

TEST(a_counter_is_not_taken_for_renewals_where_checkpoints_move_it)
{
    struct ks_mixed mixed = mixed_of(KS_PROTOCOL_KCL);
    struct ks_mixed_lease lease = {.idle = true, .rev = 7};

    for (int times = 0; times < 40; times++) {
        EXPECT_EQ_I64(counts(&mixed, &lease, 100, 18), KS_MIXED_NONE);
        lease.idle = false;
        EXPECT_EQ_I64(counts(&mixed, &lease, 1, 1), KS_MIXED_NONE);
        lease.idle = true;
    }
    /* Nor of another row; until the one is seen no more. */
    EXPECT_EQ_I64(counts(&mixed, &lease, 1, 1), KS_MIXED_NONE);
    lease.shard = 1;
    EXPECT_EQ_I64(counts(&mixed, &lease, 1000, 38), KS_MIXED_NONE);
    EXPECT_EQ_I64(counts(&mixed, &lease, 65, 65), KS_MIXED_SHORTER);
}

TEST(a_start_that_is_not_ours_is_told_once)
{
    const struct ks_mixed_lease lease = {.elsewhere = true};
    struct ks_mixed mixed = mixed_of(KS_PROTOCOL_KCL);

    EXPECT_EQ_I64(ks_mixed_see_lease(&mixed, &lease, (ks_wall){0}), KS_MIXED_ELSEWHERE);
    EXPECT_EQ_I64(ks_mixed_see_lease(&mixed, &lease, (ks_wall){0}), KS_MIXED_NONE);
}

TEST(claims_of_ours_that_nobody_heeds_are_told)
{
    const struct ks_mixed_lease heeded = {.heeded = true};
    const struct ks_mixed_lease unheeded = {.unheeded = true};
    struct ks_mixed mixed = mixed_of(KS_PROTOCOL_GO_KCL);

    mixed.stealing = true;
    for (int times = 0; times < 10; times++) {
        EXPECT_EQ_I64(ks_mixed_see_lease(&mixed, &unheeded, (ks_wall){0}), KS_MIXED_NONE);
        EXPECT_EQ_I64(ks_mixed_see_lease(&mixed, &unheeded, (ks_wall){0}), KS_MIXED_NONE);
        EXPECT_EQ_I64(ks_mixed_see_lease(&mixed, &heeded, (ks_wall){0}), KS_MIXED_NONE);
    }
    (void)ks_mixed_see_lease(&mixed, &unheeded, (ks_wall){0});
    (void)ks_mixed_see_lease(&mixed, &unheeded, (ks_wall){0});
    EXPECT_EQ_I64(ks_mixed_see_lease(&mixed, &unheeded, (ks_wall){0}), KS_MIXED_UNHEEDED);
}

static enum ks_mixed_sign beats(struct ks_mixed *mixed, uint64_t period_ms, int count,
                                int64_t looks_ms)
{
    enum ks_mixed_sign sign = KS_MIXED_NONE;
    uint64_t at = mixed->beat == 0 ? UINT64_C(1714564810000000000) : mixed->beat;
    const uint64_t from = at;

    for (uint64_t ms = 0; ms < period_ms * (uint64_t)count && sign == KS_MIXED_NONE;
         ms += (uint64_t)looks_ms) {
        at = from + (ms / period_ms + 1) * period_ms * 1000000;
        sign = ks_mixed_see_worker(mixed, "worker-a", at,
                                   ks_instant_add(mixed->last_at, ks_span_ms(looks_ms)),
                                   (ks_wall){INT64_MAX});
    }
    return sign;
}

/* Looks, one each second from then on, at a client whose clock is ahead by so much. */
static enum ks_mixed_sign beats_ahead(struct ks_mixed *mixed, int64_t from_ms, int64_t ahead_ms,
                                      int looks)
{
    enum ks_mixed_sign sign = KS_MIXED_NONE;

    for (int64_t ms = from_ms; looks > 0 && sign == KS_MIXED_NONE; looks--, ms += 1000)
        sign = ks_mixed_see_worker(mixed, "worker-b", (uint64_t)(WALL.ms + ms + ahead_ms) * 1000000,
                                   ks_instant_add((ks_instant){0}, ks_span_ms(ms)),
                                   (ks_wall){WALL.ms + ms});
    return sign;
}

TEST(a_client_whose_clock_is_ahead_is_told_once)
{
    struct ks_mixed mixed = mixed_of(KS_PROTOCOL_KINSUMER);

    mixed.worker[0] = 'a'; /* Another one is watched for its period. */
    EXPECT_EQ_I64(beats_ahead(&mixed, 10000, 2000, 20), KS_MIXED_NONE);
    EXPECT_EQ_I64(beats_ahead(&mixed, 100000, 2001, 2), KS_MIXED_NONE);
    /* We slept between looks. */
    EXPECT_EQ_I64(beats_ahead(&mixed, 200000, 2001, 1), KS_MIXED_NONE);
    EXPECT_EQ_I64(beats_ahead(&mixed, 300000, 2001, 3), KS_MIXED_AHEAD);
    EXPECT_EQ_I64(beats_ahead(&mixed, 303000, 2001, 3), KS_MIXED_NONE);
}

/* A row that says `ms` from now. */
static enum ks_mixed_sign stands(struct ks_mixed *mixed, int64_t ms, int64_t still_ms)
{
    const struct ks_mixed_lease lease = {
        .stands = true, .still = ks_span_ms(still_ms), .rev = (uint64_t)(WALL.ms + ms) * 1000000};

    return ks_mixed_see_lease(mixed, &lease, WALL);
}

TEST(a_row_that_nobody_could_take_for_long_is_told_once)
{
    struct ks_mixed mixed = mixed_of(KS_PROTOCOL_KINSUMER);

    EXPECT_EQ_I64(stands(&mixed, 2000, 1000), KS_MIXED_NONE);
    EXPECT_EQ_I64(stands(&mixed, 2001, 1000), KS_MIXED_AHEAD);
    EXPECT_EQ_I64(stands(&mixed, 2001, 1000), KS_MIXED_NONE);
    mixed = mixed_of(KS_PROTOCOL_GO_KCL);
    EXPECT_EQ_I64(stands(&mixed, 13500, 60000), KS_MIXED_NONE);
    EXPECT_EQ_I64(stands(&mixed, 13501, 10000), KS_MIXED_NONE);
    EXPECT_EQ_I64(stands(&mixed, 13501, 10001), KS_MIXED_AHEAD);
    mixed = mixed_of(KS_PROTOCOL_KCL);
    EXPECT_EQ_I64(stands(&mixed, 60000, 60000), KS_MIXED_NONE);
}

TEST(clients_that_beat_seldomer_are_told)
{
    struct ks_mixed mixed = mixed_of(KS_PROTOCOL_KINSUMER);

    EXPECT_EQ_I64(beats(&mixed, 1000, 20, 1000), KS_MIXED_NONE);
    EXPECT_EQ_I64(beats(&mixed, 2400, 20, 1000), KS_MIXED_NONE);
    EXPECT_EQ_I64(ks_mixed_see_worker(&mixed, "worker-b", 1, mixed.last_at, WALL), KS_MIXED_NONE);
    EXPECT_EQ_I64(beats(&mixed, 2600, 8, 1000), KS_MIXED_LONGER);
    /* Who looks seldom sees few beats. */
    mixed = mixed_of(KS_PROTOCOL_KINSUMER);
    EXPECT_EQ_I64(beats(&mixed, 1000, 60, 3000), KS_MIXED_NONE);
    mixed = mixed_of(KS_PROTOCOL_GO_KCL);
    EXPECT_EQ_I64(beats(&mixed, 4000, 10, 1000), KS_MIXED_NONE);
}

TEST(each_sign_has_its_advice)
{
    EXPECT_CONTAINS(ks_mixed_advice(KS_MIXED_CLAIMS, KS_PROTOCOL_GO_KCL), "--lease-stealing on");
    EXPECT_CONTAINS(ks_mixed_advice(KS_MIXED_LONGER, KS_PROTOCOL_KCL), "--lease-duration-ms");
    EXPECT_CONTAINS(ks_mixed_advice(KS_MIXED_SHORTER, KS_PROTOCOL_GO_KCL), "--lease-duration-ms");
    EXPECT_CONTAINS(ks_mixed_advice(KS_MIXED_LONGER, KS_PROTOCOL_KINSUMER), "--shard-check-ms");
    EXPECT_CONTAINS(ks_mixed_advice(KS_MIXED_UNHEEDED, KS_PROTOCOL_GO_KCL), "--lease-stealing off");
    EXPECT_CONTAINS(ks_mixed_advice(KS_MIXED_ELSEWHERE, KS_PROTOCOL_KCL), "--initial-position");
    EXPECT_STR(ks_mixed_advice(KS_MIXED_NONE, KS_PROTOCOL_KCL), "");
}
