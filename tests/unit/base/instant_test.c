/* SPDX-License-Identifier: Apache-2.0 */
#include "base/instant.h"

#include "ks_test.h"

TEST(spans_are_kept_in_microseconds)
{
    EXPECT_EQ_I64(ks_span_ms(1500).us, 1500000);
    EXPECT_EQ_I64(ks_span_to_ms(ks_span_us(1999)), 1);
    EXPECT_EQ_I64(ks_span_to_ms(ks_span_us(-1999)), -1);
}

TEST(never_and_long_ago_stay_what_they_are)
{
    EXPECT_EQ_I64(ks_instant_add(KS_NEVER, ks_span_ms(-1)).us, KS_NEVER.us);
    EXPECT_EQ_I64(ks_instant_add(KS_LONG_AGO, ks_span_ms(1)).us, KS_LONG_AGO.us);
    EXPECT_EQ_I64(ks_instant_add((ks_instant){INT64_MAX - 5}, ks_span_us(6)).us, KS_NEVER.us);
    EXPECT_EQ_I64(ks_instant_add((ks_instant){10}, ks_span_us(-4)).us, 6);
}

TEST(an_instant_is_reached_when_it_comes)
{
    ks_instant due = {1000};

    EXPECT(!ks_instant_reached((ks_instant){999}, due));
    EXPECT(ks_instant_reached((ks_instant){1000}, due));
    EXPECT(!ks_instant_reached((ks_instant){INT64_MAX - 1}, KS_NEVER));
    EXPECT(ks_instant_reached((ks_instant){0}, KS_LONG_AGO));
    EXPECT(ks_instant_before((ks_instant){999}, due));
    EXPECT(!ks_instant_before(due, due));
}

TEST(the_earlier_and_the_later_of_two)
{
    ks_instant early = {1};

    EXPECT_EQ_I64(ks_instant_min(early, KS_NEVER).us, 1);
    EXPECT_EQ_I64(ks_instant_min(KS_NEVER, early).us, 1);
    EXPECT_EQ_I64(ks_instant_max(early, KS_LONG_AGO).us, 1);
    EXPECT_EQ_I64(ks_instant_since((ks_instant){30}, (ks_instant){10}).us, 20);
}
