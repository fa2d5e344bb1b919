/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include "base/codec.h"
#include "ks_test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum { TIME = KS_TIMESTAMP_SIZE - 1, TEXT_HEAD = TIME + 7 };

static int fds[2];
static char seen[1 << 20];

static void open_log(enum ks_log_level level, enum ks_log_format format)
{
    EXPECT(pipe2(fds, O_CLOEXEC) == 0);
    EXPECT(fcntl(fds[0], F_SETFL, O_NONBLOCK) == 0);
    ks_log_open(fds[1], level, format);
}

/* What is in the pipe now, after whatever was seen before. */
static size_t read_more(size_t size)
{
    for (;;) {
        ssize_t got = read(fds[0], seen + size, sizeof(seen) - 1 - size);
        if (got <= 0) {
            seen[size] = '\0';
            return size;
        }
        size += (size_t)got;
    }
}

static const char *read_all(void)
{
    (void)ks_log_flush();
    (void)read_more(0);
    return seen;
}

TEST(a_line_has_its_time_its_level_and_its_message)
{
    int64_t ms;

    open_log(KS_LOG_INFO, KS_LOG_TEXT);
    ks_info("%s: taken from %s", "shard-3", "pod-b");
    EXPECT_STR(read_all() + TIME, " info  shard-3: taken from pod-b\n");
    EXPECT_OK(ks_timestamp_parse(ks_view_of(seen, TIME), &ms));
}

TEST(the_json_form_is_one_object_a_line)
{
    open_log(KS_LOG_DEBUG, KS_LOG_JSON);
    ks_debug("a \"quoted\" \\ and \n");
    EXPECT_CONTAINS(read_all(), "{\"time\":\"2");
    EXPECT_STR(seen + 9 + TIME,
               "\",\"level\":\"debug\",\"message\":\"a \\\"quoted\\\" \\\\ and \\u000a\"}\n");
}

TEST(what_is_below_the_level_is_not_written)
{
    open_log(KS_LOG_WARN, KS_LOG_TEXT);
    ks_info("no");
    EXPECT_STR(read_all(), "");
    ks_log_set_level(KS_LOG_INFO);
    EXPECT_EQ_I64(ks_log_level(), KS_LOG_INFO);
    ks_info("yes");
    EXPECT_CONTAINS(read_all(), "yes");
}

TEST(a_warning_does_not_wait_for_the_end_of_the_turn)
{
    open_log(KS_LOG_INFO, KS_LOG_TEXT);
    ks_info("first");
    EXPECT_EQ_U64(read_more(0), 0);
    ks_warn("second");
    (void)read_more(0);
    EXPECT_CONTAINS(seen, "first");
    EXPECT_CONTAINS(seen, "second");
}

TEST(nothing_that_a_terminal_obeys_gets_through)
{
    open_log(KS_LOG_INFO, KS_LOG_TEXT);
    ks_info("a\nb\x1b[2J\xC2\x9B"
            "c\x7F\xFF\xE2\x82\xAC");
    EXPECT_STR(read_all() + TEXT_HEAD, "a\\x0ab\\x1b[2J\\x9bc\\x7f\\xff\xE2\x82\xAC\n");
    ks_info("\xE2\x80\xAE");
    EXPECT_STR(read_all() + TEXT_HEAD, "\\u202e\n");
    ks_log_open(fds[1], KS_LOG_INFO, KS_LOG_JSON);
    ks_info("\xC2\x9B\xFF\x01");
    EXPECT_CONTAINS(read_all(), "\"message\":\"\\u009b\\\\xff\\u0001\"}\n");
}

static void expect_cut(enum ks_log_format format, const char *unit, const char *ending)
{
    char text[3000] = "";
    size_t size;

    for (size_t i = 0; i < 2900; i += strlen(unit))
        memcpy(text + i, unit, strlen(unit) + 1);
    open_log(KS_LOG_INFO, format);
    ks_info("%s", text);
    size = strlen(read_all());
    EXPECT(size <= 1001);
    EXPECT(size > 1001 - 10);
    EXPECT_STR(seen + size - strlen(ending), ending);
    EXPECT(ks_view_is_utf8(ks_view_text(seen)));
}

TEST(a_long_line_is_cut_at_a_whole_character)
{
    expect_cut(KS_LOG_TEXT, "a", "..\n");
    expect_cut(KS_LOG_JSON, "a", "..\"}\n");
    expect_cut(KS_LOG_TEXT, "\xE2\x82\xAC", "..\n");
    expect_cut(KS_LOG_JSON, "\xF0\x9F\x98\x80", "..\"}\n");
    expect_cut(KS_LOG_JSON, "\"", "..\"}\n");
    expect_cut(KS_LOG_JSON, "\x01", "..\"}\n");
}

TEST(a_reader_that_stops_blocks_nobody_and_learns_what_it_missed)
{
    unsigned written = 0, lines = 0;
    uint64_t dropped, told = 0;
    size_t size = 0;
    ks_view rest;

    open_log(KS_LOG_INFO, KS_LOG_TEXT);
    /* The pipe takes 64 KB, the ring 256; this is 1 MB. */
    for (; written < 10000; written++) {
        ks_info("line %06u %064d", written, 0);
        if (written % 10 == 0)
            (void)ks_log_flush();
    }
    dropped = ks_log_dropped();
    EXPECT(dropped > 5000);
    EXPECT(ks_log_flush());
    do
        size = read_more(size);
    while (ks_log_flush());
    size = read_more(size);

    /* Each line came whole, or not at all; one says how many did not. */
    rest = ks_view_of(seen, size - 1);
    for (; rest.data != NULL; lines++) {
        ks_view line = ks_view_cut(&rest, '\n');
        const char *count = memmem(line.data, line.size, "log: ", 5);
        if (count == NULL)
            EXPECT_EQ_U64(line.size, TEXT_HEAD + 76);
        else
            EXPECT(sscanf(count, "log: %" SCNu64 " lines dropped", &told) == 1);
    }
    EXPECT_EQ_U64(told, dropped);
    EXPECT_EQ_U64(ks_log_dropped(), dropped);
    EXPECT_EQ_U64(lines, 10000 - dropped + 1);
}

TEST(a_reader_that_is_gone_costs_the_lines_and_nothing_else)
{
    EXPECT(signal(SIGPIPE, SIG_DFL) != SIG_ERR);
    open_log(KS_LOG_INFO, KS_LOG_TEXT);
    EXPECT(close(fds[0]) == 0);
    ks_info("one");
    ks_info("two");
    EXPECT(!ks_log_flush());
    EXPECT_EQ_U64(ks_log_dropped(), 2);
}

TEST(the_last_words_wait_for_a_slow_reader_but_not_for_ever)
{
    open_log(KS_LOG_INFO, KS_LOG_TEXT);
    ks_info("bye");
    ks_log_close(1000);
    EXPECT(read_more(0) > 0);
    for (int i = 0; i < 2000; i++)
        ks_info("%0900d", i);
    EXPECT(ks_log_flush());
    ks_log_close(20);
    EXPECT(ks_log_flush());
}

TEST(levels_have_names)
{
    enum ks_log_level level = KS_LOG_DEBUG;

    for (int i = KS_LOG_DEBUG; i <= KS_LOG_ERROR; i++) {
        EXPECT_OK(
            ks_log_level_parse(ks_view_text(ks_log_level_name((enum ks_log_level)i)), &level));
        EXPECT_EQ_I64(level, i);
    }
    EXPECT(ks_err_is(ks_log_level_parse(KS_VIEW("INFO"), &level), KS_ERR_INVALID));
    EXPECT(ks_err_is(ks_log_level_parse(KS_VIEW(""), &level), KS_ERR_INVALID));
}
