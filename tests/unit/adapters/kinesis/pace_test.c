/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/kinesis/pace.h"

#include "ks_test.h"

/* A virtual clock that goes to when the next call may leave. */
struct world {
    struct ks_pace pace;
    ks_instant now;
};

static struct world born(uint64_t seed)
{
    struct world world = {.now = {1000000000}};

    ks_pace_init(&world.pace, seed, KS_PACE_IDLE_MS);
    return world;
}

/* Waits as told and sends; returns how long that was, in ms. */
static int64_t send(struct world *world)
{
    ks_instant next = ks_pace_next(&world->pace);
    ks_instant before = world->now;

    world->now = ks_instant_max(world->now, next);
    ks_pace_sent(&world->pace, world->now);
    return ks_span_to_ms(ks_instant_since(world->now, before));
}

static void pass(struct world *world, int64_t ms)
{
    world->now = ks_instant_add(world->now, ks_span_ms(ms));
}

TEST(the_first_call_leaves_at_once)
{
    struct world world = born(1);

    EXPECT_EQ_I64(send(&world), 0);
}

TEST(no_second_sees_more_than_five_calls)
{
    struct world world = born(1);
    ks_instant sent[60];

    for (int at = 0; at < 60; at++) {
        (void)send(&world);
        sent[at] = world.now;
        /* Far behind, and small: nothing else slows it down. */
        ks_pace_answered(&world.pace, world.now, 1, 100, 60000);
        if (at >= 5)
            EXPECT(ks_instant_since(sent[at], sent[at - 5]).us > 1000000);
    }
    /* And not much fewer: 60 calls in 11 windows. */
    EXPECT(ks_instant_since(sent[59], sent[0]).us < 12 * KS_PACE_WINDOW_MS * INT64_C(1000));
}

TEST(bytes_are_paid_for_at_two_mebibytes_a_second)
{
    struct world world = born(1);

    (void)send(&world);
    ks_pace_answered(&world.pace, world.now, 10000, 10 << 20, 60000);
    EXPECT_EQ_I64(send(&world), 5000);
    ks_pace_answered(&world.pace, world.now, 100, 1 << 20, 60000);
    EXPECT_EQ_I64(send(&world), 500);
    ks_pace_answered(&world.pace, world.now, 100, 1 << 20, 60000);
    /* Time that passed anyway counts. */
    pass(&world, 400);
    EXPECT_EQ_I64(send(&world), 100);
}

TEST(behind_the_tip_it_hurries_and_at_the_tip_it_rests_longer_and_longer)
{
    struct world world = born(1);

    (void)send(&world);
    ks_pace_answered(&world.pace, world.now, 0, 0, 60000);
    EXPECT_EQ_I64(send(&world), 0);
    ks_pace_answered(&world.pace, world.now, 0, 0, 0);
    EXPECT_EQ_I64(send(&world), 200);
    ks_pace_answered(&world.pace, world.now, 0, 0, 0);
    EXPECT_EQ_I64(send(&world), 400);
    ks_pace_answered(&world.pace, world.now, 0, 0, 0);
    EXPECT_EQ_I64(send(&world), 800);
    for (int at = 0; at < 3; at++) {
        ks_pace_answered(&world.pace, world.now, 0, 0, 0);
        EXPECT_EQ_I64(send(&world), 1000);
    }
    /* Records at the tip: soon again; none: from the beginning. */
    ks_pace_answered(&world.pace, world.now, 3, 300, 0);
    EXPECT_EQ_I64(send(&world), 200);
    ks_pace_answered(&world.pace, world.now, 3, 300, 0);
    EXPECT_EQ_I64(send(&world), 200);
    ks_pace_answered(&world.pace, world.now, 0, 0, 0);
    EXPECT_EQ_I64(send(&world), 400);
    /* Not known is taken for the tip. */
    ks_pace_answered(&world.pace, world.now, 0, 0, -1);
    EXPECT_EQ_I64(send(&world), 800);
}

TEST(an_idle_shard_is_left_alone_as_long_as_was_asked_for)
{
    static const int32_t idle[] = {KS_PACE_TIP_MS_MIN, 300, 10000};
    static const int64_t waits[][7] = {{200, 200, 200, 200, 200, 200, 200},
                                       {200, 300, 300, 300, 300, 300, 300},
                                       {200, 400, 800, 1600, 3200, 6400, 10000}};

    for (size_t at = 0; at < sizeof(idle) / sizeof(idle[0]); at++) {
        struct world world = {.now = {1000000000}};

        ks_pace_init(&world.pace, 1, idle[at]);
        (void)send(&world);
        for (int call = 0; call < 7; call++) {
            int64_t waited;

            ks_pace_answered(&world.pace, world.now, 0, 0, 0);
            waited = send(&world);
            EXPECT(waited >= waits[at][call]);
            EXPECT(waited <= waits[at][call] + 20); /* For 5 calls a second at most. */
        }
    }
}

TEST(a_throttle_backs_off_doubling_with_jitter_until_an_answer)
{
    for (uint64_t seed = 1; seed < 50; seed++) {
        struct world world = born(seed);
        int64_t whole = KS_PACE_THROTTLED_MS_MIN;

        (void)send(&world);
        for (int at = 0; at < 8; at++) {
            ks_pace_throttled(&world.pace, world.now, -1);
            int64_t waited = send(&world);
            EXPECT(waited >= whole / 2);
            EXPECT(waited <= KS_PACE_SHARE_MS_MAX);
            whole = whole * 2 > KS_PACE_THROTTLED_MS_MAX ? KS_PACE_THROTTLED_MS_MAX : whole * 2;
        }
        EXPECT_EQ_I64(whole, KS_PACE_THROTTLED_MS_MAX);
        ks_pace_answered(&world.pace, world.now, 1, 100, 60000);
        EXPECT(send(&world) < KS_PACE_SHARE_MS_MAX);
        ks_pace_throttled(&world.pace, world.now, -1);
        /* The back-off begins again; the share of the shard is as small as it was. */
        int64_t waited = send(&world);
        EXPECT(waited >= KS_PACE_SHARE_MS_MAX / 2);
        EXPECT(waited <= KS_PACE_SHARE_MS_MAX);
    }
}

TEST(what_the_server_asks_for_is_waited_out_up_to_five_seconds)
{
    static const struct {
        int32_t asked_ms;
        int64_t waited_ms;
    } ROWS[] = {{3000, 3000}, {60000, 5000}};

    for (size_t at = 0; at < 2; at++) {
        struct world world = born(1);
        (void)send(&world);
        ks_pace_throttled(&world.pace, world.now, ROWS[at].asked_ms);
        EXPECT_EQ_I64(send(&world), ROWS[at].waited_ms);
    }
    /* Less than our own back-off changes nothing. */
    struct world patient = born(1);
    (void)send(&patient);
    ks_pace_throttled(&patient.pace, patient.now, 1);
    EXPECT(send(&patient) >= KS_PACE_THROTTLED_MS_MIN / 2);
}

TEST(bytes_that_were_of_no_use_are_paid_for_too)
{
    struct world world = born(1);

    (void)send(&world);
    ks_pace_wasted(&world.pace, world.now, 10 << 20);
    EXPECT_EQ_I64(send(&world), 5000);
}

enum { CONSUMERS = 8, MINUTES = 10 };

/* What a shard sees of `count` consumers that are far behind, in some virtual minutes. */
struct shared {
    uint32_t answered[CONSUMERS];
    uint32_t refused;
};

static struct shared share(uint32_t count)
{
    static struct ks_pace paces[CONSUMERS];
    struct shared seen = {.refused = 0};
    ks_instant granted[5] = {{0}, {0}, {0}, {0}, {0}};
    ks_instant now = {1000000000};
    ks_instant end = ks_instant_add(now, ks_span_ms(MINUTES * 60 * 1000));

    for (uint32_t at = 0; at < count; at++)
        ks_pace_init(&paces[at], at + 1, KS_PACE_IDLE_MS);
    for (uint32_t calls = 0; ks_instant_before(now, end); calls++) {
        uint32_t next = 0;
        for (uint32_t at = 1; at < count; at++)
            if (ks_instant_before(ks_pace_next(&paces[at]), ks_pace_next(&paces[next])))
                next = at;
        now = ks_instant_max(now, ks_pace_next(&paces[next]));
        ks_pace_sent(&paces[next], now);
        uint32_t slot = (calls - seen.refused) % 5;
        if (ks_instant_since(now, granted[slot]).us < 1000000) {
            seen.refused++;
            ks_pace_throttled(&paces[next], now, -1);
            continue;
        }
        granted[slot] = now;
        seen.answered[next]++;
        ks_pace_answered(&paces[next], now, 1, 100, 60000);
    }
    return seen;
}

TEST(consumers_of_one_shard_share_what_it_allows)
{
    enum { ALLOWED = MINUTES * 60 * 5 };

    for (uint32_t count = 1; count <= CONSUMERS; count++) {
        struct shared seen = share(count);
        uint32_t all = 0;
        for (uint32_t at = 0; at < count; at++) {
            all += seen.answered[at];
            EXPECT(seen.answered[at] * count * 2 >= ALLOWED); /* Half of its part, at least. */
        }
        /* Most of what is allowed is used, and not too many calls are made for nothing. */
        EXPECT(all * 10 >= ALLOWED * 7);
        EXPECT(seen.refused * 2 <= all);
    }
}

/* A shard that counts calls by whole seconds from the first one on, or those of the last second. */
struct counter {
    bool whole_seconds;
    ks_instant
        granted[KS_PACE_CALLS]; /* The last ones; of a whole second the first is its begin. */
    uint32_t count;
};

static bool grants(struct counter *counter, ks_instant now)
{
    ks_instant oldest = counter->granted[counter->count % KS_PACE_CALLS];

    if (counter->whole_seconds && ks_instant_since(now, counter->granted[0]).us >= 1000000)
        counter->count = 0;
    else if (counter->whole_seconds && counter->count == KS_PACE_CALLS)
        return false;
    if (!counter->whole_seconds && ks_instant_since(now, oldest).us < 1000000)
        return false;
    counter->granted[counter->count % KS_PACE_CALLS] = now;
    counter->count++;
    return true;
}

/* The longest time without an answer beside somebody who asks 100 ms after each answer, which takes 7 ms. */
static int64_t longest_hunger_ms(bool whole_seconds, uint64_t seed)
{
    struct counter counter = {.whole_seconds = whole_seconds};
    struct world world = born(seed);
    ks_instant greedy = world.now;
    ks_instant fed = world.now;
    int64_t longest = 0;

    for (uint32_t calls = 0; calls < 1000; calls++) {
        ks_instant next = ks_instant_max(world.now, ks_pace_next(&world.pace));
        for (; !ks_instant_before(next, greedy); greedy = ks_instant_add(greedy, ks_span_ms(107)))
            (void)grants(&counter, greedy);
        (void)send(&world);
        if (!grants(&counter, world.now)) {
            ks_pace_throttled(&world.pace, world.now, -1);
            continue;
        }
        int64_t hunger = ks_span_to_ms(ks_instant_since(world.now, fed));
        longest = hunger > longest ? hunger : longest;
        fed = world.now;
        ks_pace_answered(&world.pace, world.now, 100, 10000, 60000);
    }
    int64_t hunger = ks_span_to_ms(ks_instant_since(world.now, fed));
    return hunger > longest ? hunger : longest;
}

TEST(who_never_waits_cannot_keep_us_away_from_the_shard)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        EXPECT(longest_hunger_ms(true, seed) < 30000);
        EXPECT(longest_hunger_ms(false, seed) < 45000);
    }
}

TEST(failures_back_off_and_workers_do_not_do_it_in_step)
{
    int64_t first = -1;
    bool differ = false;

    for (uint64_t seed = 1; seed < 20; seed++) {
        struct world world = born(seed);
        int64_t waited = 0;

        (void)send(&world);
        for (int at = 0; at < 10; at++) {
            ks_pace_failed(&world.pace, world.now);
            waited = send(&world);
            EXPECT(waited <= KS_PACE_FAILED_MS_MAX);
        }
        EXPECT(waited >= KS_PACE_FAILED_MS_MAX / 2);
        differ = differ || (first >= 0 && waited != first);
        first = waited;
    }
    EXPECT(differ);
}
