/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/server_clock.h"

#include "ks_test.h"

#include <stdio.h>

/* Fri, 06 Nov 2026 08:49:37 GMT */
static const int64_t DATE_MS = 1793954977000;

static ks_instant at_ms(int64_t ms)
{
    return ks_instant_add((ks_instant){INT64_C(1000000000)}, ks_span_ms(ms));
}

static bool hear(struct ks_server_clock *clock, int second, int64_t asked_ms, int64_t now_ms)
{
    char head[80];

    (void)snprintf(head, sizeof(head), "Date: Fri, 06 Nov 2026 08:49:%02d GMT\r\n", second);
    return ks_server_clock_hear(clock, ks_view_text(head), at_ms(asked_ms), at_ms(now_ms));
}

TEST(a_clock_without_an_answer_is_unknown)
{
    struct ks_server_clock clock = {.known = false};

    EXPECT_EQ_I64(ks_server_clock_now(&clock, at_ms(0)), 0);
    EXPECT(!ks_server_clock_hear(&clock, KS_VIEW(""), at_ms(0), at_ms(0)));
    EXPECT(!ks_server_clock_hear(&clock, KS_VIEW("Date: nonsense\r\n"), at_ms(0), at_ms(0)));
    EXPECT(!ks_server_clock_hear(
        &clock, KS_VIEW("Date: Fri, 06 Nov 2026 08:49:37 GMT\r\nAge: 1\r\n"), at_ms(0), at_ms(0)));
    EXPECT_EQ_I64(ks_server_clock_now(&clock, at_ms(0)), 0);
}

TEST(the_date_counts_from_the_arrival_of_its_answer)
{
    struct ks_server_clock clock = {.known = false};

    EXPECT(hear(&clock, 37, 0, 400));
    EXPECT_EQ_I64(ks_server_clock_now(&clock, at_ms(400)), DATE_MS - 100);
    EXPECT_EQ_I64(ks_server_clock_now(&clock, at_ms(900)), DATE_MS + 500 - 100);
    /* A turn of the loop that began before the answer came. */
    EXPECT_EQ_I64(ks_server_clock_now(&clock, at_ms(300)), DATE_MS - 100);
    /* An hour later: a steady clock that runs fast by less than 0.1 % is not ahead. */
    EXPECT_EQ_I64(ks_server_clock_now(&clock, at_ms(3600400)), DATE_MS + 3600000 - 3600 - 100);
}

TEST(the_better_of_two_bounds_is_kept)
{
    struct ks_server_clock clock = {.known = false};

    EXPECT(hear(&clock, 37, 0, 0));
    /* 0.9 s later the Date is the same second: what was counted is nearer. */
    EXPECT(hear(&clock, 37, 890, 900));
    EXPECT_EQ_I64(ks_server_clock_now(&clock, at_ms(900)), DATE_MS + 900 - 100);
    /* The next second begins at once: its Date is nearer. */
    EXPECT(hear(&clock, 38, 905, 910));
    EXPECT_EQ_I64(ks_server_clock_now(&clock, at_ms(910)), DATE_MS + 1000 - 100);
}

TEST(a_clock_that_is_set_back_counts_from_the_answer_that_shows_it)
{
    struct ks_server_clock clock = {.known = false};

    EXPECT(hear(&clock, 47, 0, 0));
    EXPECT(hear(&clock, 37, 1000, 1000));
    EXPECT_EQ_I64(ks_server_clock_now(&clock, at_ms(1000)), DATE_MS - 100);
    /* An answer that took 10 s was made at any time within them: it proves nothing. */
    EXPECT(hear(&clock, 37, 1000, 11000));
    EXPECT_EQ_I64(ks_server_clock_now(&clock, at_ms(11000)), DATE_MS + 10000 - 10 - 100);
}

/* Every Date of a server whose clock runs evenly, whatever the delay of its answers. */
TEST(no_sequence_of_answers_puts_the_bound_ahead_of_the_server)
{
    for (int64_t phase = 0; phase < 1000; phase += 50) {
        struct ks_server_clock clock = {.known = false};

        for (int64_t now = 0; now < 20000; now += 130 + phase / 3) {
            int64_t delay = (now * 7 + phase) % 90;
            int64_t made =
                now - delay / 2; /* The server's clock is `phase` ms into a second at 0. */
            int second = 37 + (int)((made + phase + 1000) / 1000) - 1;

            EXPECT(hear(&clock, second, now - delay, now));
            EXPECT(ks_server_clock_now(&clock, at_ms(now)) <= DATE_MS + phase + now);
            EXPECT(ks_server_clock_now(&clock, at_ms(now)) >= DATE_MS + phase + now - 1300);
        }
    }
}
