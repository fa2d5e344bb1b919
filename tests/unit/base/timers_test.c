/* SPDX-License-Identifier: Apache-2.0 */
#include "base/timers.h"

#include "base/budget.h"
#include "base/prng.h"
#include "ks_test.h"

enum { TIMERS = 200 };

static ks_instant at(int64_t us)
{
    return (ks_instant){us};
}

TEST(the_earliest_is_taken_first_and_not_before_it_is_due)
{
    struct ks_timers timers;
    struct ks_timer a = {0}, b = {0}, c = {0};

    EXPECT_OK(ks_timers_init(&timers));
    EXPECT_EQ_I64(ks_timers_next(&timers).us, KS_NEVER.us);
    ks_timers_set(&timers, &a, at(30));
    ks_timers_set(&timers, &b, at(10));
    ks_timers_set(&timers, &c, at(20));
    EXPECT_EQ_I64(ks_timers_next(&timers).us, 10);
    EXPECT(ks_timers_take_due(&timers, at(9)) == NULL);
    EXPECT(ks_timers_take_due(&timers, at(20)) == &b);
    EXPECT(b.place == 0);
    EXPECT(ks_timers_take_due(&timers, at(20)) == &c);
    EXPECT(ks_timers_take_due(&timers, at(20)) == NULL);
    ks_timers_free(&timers);
}

TEST(a_timer_is_moved_by_setting_it_again)
{
    struct ks_timers timers;
    struct ks_timer a = {0}, b = {0};

    EXPECT_OK(ks_timers_init(&timers));
    ks_timers_set(&timers, &a, at(10));
    ks_timers_set(&timers, &b, at(20));
    ks_timers_set(&timers, &a, at(30));
    EXPECT(ks_timers_take_due(&timers, KS_NEVER) == &b);
    EXPECT(ks_timers_take_due(&timers, KS_NEVER) == &a);
    ks_timers_clear(&timers, &a);
    EXPECT(ks_timers_take_due(&timers, KS_NEVER) == NULL);
    ks_timers_free(&timers);
}

TEST(they_come_in_order_after_random_changes)
{
    struct ks_timers timers;
    struct ks_timer all[TIMERS] = {0};
    struct ks_prng prng;

    EXPECT_OK(ks_timers_init(&timers));
    ks_prng_init(&prng, 7);
    for (int round = 0; round < 50; round++) {
        ks_instant last = KS_LONG_AGO;
        uint32_t set = 0;
        for (int i = 0; i < 2 * TIMERS; i++) {
            struct ks_timer *timer = &all[ks_prng_below(&prng, TIMERS)];
            if (ks_prng_below(&prng, 3) == 0)
                ks_timers_clear(&timers, timer);
            else
                ks_timers_set(&timers, timer, at((int64_t)ks_prng_below(&prng, 100)));
        }
        for (int i = 0; i < TIMERS; i++)
            set += all[i].place != 0;
        EXPECT_EQ_U64(timers.count, set);
        for (; set > 0; set--) {
            struct ks_timer *timer = ks_timers_take_due(&timers, at(100));
            EXPECT(timer != NULL);
            EXPECT(!ks_instant_before(timer->at, last));
            last = timer->at;
        }
        EXPECT(ks_timers_take_due(&timers, KS_NEVER) == NULL);
    }
    ks_timers_free(&timers);
}

TEST(no_memory_is_told_at_the_start_and_never_later)
{
    struct ks_timers timers;

    ks_alloc_fail_after(1, 0);
    EXPECT(ks_err_is(ks_timers_init(&timers), KS_ERR_NO_MEMORY));
}
