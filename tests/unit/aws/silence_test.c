/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/silence.h"

#include "ks_test.h"

static void count(void *arg)
{
    ++*(int *)arg;
}

static void turn_for(struct ks_loop *loop, uint32_t ms)
{
    ks_instant until = ks_instant_add(ks_loop_now(loop), ks_span_ms(ms));

    while (!ks_instant_reached(ks_loop_now(loop), until))
        ks_loop_turn(loop, ks_span_ms(5));
}

static void turn_until(struct ks_loop *loop, const int *times, int wanted)
{
    while (*times < wanted)
        ks_loop_turn(loop, ks_span_ms(5));
}

TEST(what_is_heard_breaks_the_silence)
{
    struct ks_silence silence;
    struct ks_loop *loop;
    int times = 0;

    EXPECT_OK(ks_loop_new(&loop));
    ks_silence_begin(&silence, loop, ks_span_ms(1000), count, &times);
    ks_instant begun = ks_loop_now(loop);
    turn_for(loop, 500);
    ks_silence_broken(&silence);
    turn_until(loop, &times, 1);
    EXPECT(ks_instant_since(ks_loop_now(loop), begun).us >= 1500000);
    /* It is said once. */
    turn_for(loop, 1200);
    EXPECT_EQ_I64(times, 1);
    ks_silence_end(&silence);
    ks_loop_free(loop);
}

TEST(who_does_not_listen_misses_nothing)
{
    struct ks_silence silence;
    struct ks_loop *loop;
    int times = 0;

    EXPECT_OK(ks_loop_new(&loop));
    ks_silence_begin(&silence, loop, ks_span_ms(20), count, &times);
    silence.deaf = true;
    turn_for(loop, 200);
    EXPECT_EQ_I64(times, 0);
    silence.deaf = false;
    turn_until(loop, &times, 1);
    ks_silence_end(&silence);
    ks_loop_free(loop);
}

TEST(limits_change)
{
    struct ks_silence silence;
    struct ks_loop *loop;
    int times = 0;

    EXPECT_OK(ks_loop_new(&loop));
    ks_silence_begin(&silence, loop, ks_span_us(0), count, &times);
    turn_for(loop, 50);
    EXPECT_EQ_I64(times, 0);
    ks_silence_limit(&silence, ks_span_ms(10));
    turn_until(loop, &times, 1);
    ks_silence_limit(&silence, ks_span_ms(60000));
    ks_silence_limit(&silence, ks_span_us(0));
    turn_for(loop, 50);
    EXPECT_EQ_I64(times, 1);
    /* Whatever the limit is, and whoever listens. */
    silence.deaf = true;
    ks_silence_call(&silence);
    EXPECT_EQ_I64(times, 1);
    turn_until(loop, &times, 2);
    ks_silence_end(&silence);
    ks_loop_free(loop);
}

TEST(one_that_never_began_ends)
{
    struct ks_silence silence = {.loop = NULL};

    ks_silence_end(&silence);
    EXPECT(silence.loop == NULL);
}
