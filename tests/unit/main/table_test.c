/* SPDX-License-Identifier: Apache-2.0 */
#include "main/table.h"

#include "base/budget.h"
#include "ks_test.h"

static const char *const heads[] = {"NAME", "#COUNT", "WHY", NULL};

static struct ks_table table;
static struct ks_bytes out;

static void begin(void)
{
    ks_table_init(&table, heads);
    ks_bytes_init(&out, 1 << 16);
}

static void end(void)
{
    ks_table_free(&table);
    ks_bytes_free(&out);
}

static void row(const char *name, int count, const char *why)
{
    ks_table_text(&table, name);
    ks_table_format(&table, "%d", count);
    ks_table_text(&table, why);
}

static const char *written(uint32_t rows_max, uint32_t width_max)
{
    ks_bytes_clear(&out);
    EXPECT_OK(ks_table_write(&table, rows_max, width_max, &out));
    EXPECT_OK(ks_bytes_append_byte(&out, '\0'));
    return (const char *)out.data;
}

TEST(columns_are_as_wide_as_their_widest_cell_and_numbers_stand_on_the_right)
{
    begin();
    EXPECT_STR(written(0, 0), "NAME  COUNT  WHY\n");
    row("a", 7, "b");
    row("a longer one", 1234567, "");
    EXPECT_STR(written(0, 0), "NAME            COUNT  WHY\n"
                              "a                   7  b\n"
                              "a longer one  1234567  \n");
    end();
}

TEST(rows_and_widths_have_their_limits)
{
    begin();
    row("a", 7, "because");
    row("b", 8, "of that");
    EXPECT_STR(written(1, 0), "NAME  COUNT  WHY\na         7  because\n");
    EXPECT_STR(written(0, 8), "NAME  CO\na       \nb       \n");
    end();
}

TEST(no_name_commands_the_terminal)
{
    begin();
    row("\x1b[2J\xc2\x9b\x07", 1,
        "\xe2\x80\xae"
        "abc");
    row("\xff\xc3", 2, "\xc3\xa9\xe2\x82\xac");
    EXPECT_STR(written(0, 0), "NAME    COUNT  WHY\n"
                              "?[2J??      1  ?abc\n"
                              "??          2  \xc3\xa9\xe2\x82\xac\n");
    ks_bytes_clear(&out);
    EXPECT_OK(ks_table_append_plain(&out, "a\nb\r\xf0\x9f\x99\x82"));
    EXPECT(ks_view_equal(ks_bytes_view(&out), KS_VIEW("a?b?\xf0\x9f\x99\x82")));
    end();
}

TEST(a_cell_that_has_no_room_is_told_at_the_end)
{
    begin();
    ks_alloc_fail_after(1, 1);
    for (int i = 0; i < 1000; i++)
        row("more than was taken before", i, "so that it must grow");
    ks_alloc_fail_after(0, 0);
    EXPECT_ERR(ks_table_write(&table, 0, 0, &out), NO_MEMORY);
    end();
}

TEST(times_are_for_people)
{
    static const struct {
        int64_t ms;
        const char *text;
    } cases[] = {
        {-1, "-"},
        {0, "0 ms"},
        {999, "999 ms"},
        {1000, "1 s"},
        {59999, "59 s"},
        {184000, "3 min 4 s"},
        {7500000, "2 h 5 min"},
        {273600000, "3 d 4 h"},
        {INT64_MAX, "106751991167 d 7 h"},
    };
    char text[KS_SPAN_SIZE];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        ks_table_span(cases[i].ms, text);
        EXPECT_STR(text, cases[i].text);
    }
}
