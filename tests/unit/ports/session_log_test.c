/* SPDX-License-Identifier: Apache-2.0 */
#include "ports/session_log.h"

#include "ks_test.h"

static ks_instant at(int64_t ms)
{
    return (ks_instant){(1000000 + ms) * 1000};
}

TEST(each_way_to_begin_and_to_end_is_a_line)
{
    struct ks_session_log log = {.lines = 0};

    ks_session_log_opened(&log, at(0), "", "app", false);
    ks_session_log_closed(&log, at(1), "", "app");
    for (int why = KS_END_TAKEN_OVER; why <= KS_END_DRAINED; why++)
        ks_session_log_ended(&log, at(2), "", "app", (enum ks_session_end)why);
    EXPECT_EQ_U64(log.lines, 6);
    EXPECT_EQ_U64(log.more, 0);
}

TEST(what_is_too_much_to_read_is_counted_until_the_next_span)
{
    struct ks_session_log log = {.lines = 0};

    for (int i = 0; i < 3 * KS_SESSION_LINES_MAX; i++)
        ks_session_log_opened(&log, at(i), "", "app", true);
    EXPECT_EQ_U64(log.lines, KS_SESSION_LINES_MAX);
    EXPECT_EQ_U64(log.more, 2 * KS_SESSION_LINES_MAX);
    ks_session_log_opened(&log, at(KS_SESSION_LINES_MS - 1), "", "app", true);
    EXPECT_EQ_U64(log.more, 2 * KS_SESSION_LINES_MAX + 1);
    ks_session_log_opened(&log, at(KS_SESSION_LINES_MS), "", "app", true);
    EXPECT_EQ_U64(log.lines, 1);
    EXPECT_EQ_U64(log.more, 0);
}
