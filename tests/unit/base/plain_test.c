/* SPDX-License-Identifier: Apache-2.0 */
#include "base/plain.h"

#include "ks_test.h"

#include <string.h>

/* `text`, as it is shown. */
static const char *shown(const char *text)
{
    static char all[200];
    size_t size = 0;

    for (ks_view rest = ks_view_text(text); rest.size > 0;) {
        char one[KS_PLAIN_SIZE];
        size_t length = ks_plain_next(&rest, one);

        EXPECT_EQ_U64(length, strlen(one));
        memcpy(all + size, one, length + 1);
        size += length;
    }
    return all;
}

TEST(what_commands_a_terminal_is_shown_and_not_obeyed)
{
    EXPECT_STR(shown("a\nb\x1b[2J\x7f"), "a\\u000ab\\u001b[2J\\u007f");
    EXPECT_STR(shown("\xc2\x9b"
                     "1m\xc2\x80"),
               "\\u009b1m\\u0080");
    EXPECT_STR(shown("\xe2\x80\xae \xe2\x80\x8f \xd8\x9c \xe2\x81\xa6 \xe2\x81\xa9"),
               "\\u202e \\u200f \\u061c \\u2066 \\u2069");
}

TEST(what_is_no_utf8_is_shown_byte_by_byte)
{
    EXPECT_STR(shown("\x9b\xff\xc3"), "\\x9b\\xff\\xc3");
    EXPECT_STR(shown("\xed\xa0\x80"), "\\xed\\xa0\\x80"); /* Half a pair. */
}

TEST(other_text_stays_as_it_is)
{
    EXPECT_STR(shown(" ~\xc2\xa0\xc3\xa9\xe2\x82\xac\xe2\x80\xa7\xe2\x80\xaf\xf0\x9f\x99\x82"),
               " ~\xc2\xa0\xc3\xa9\xe2\x82\xac\xe2\x80\xa7\xe2\x80\xaf\xf0\x9f\x99\x82");
}

TEST(a_nul_is_a_command)
{
    uint32_t code = 1;

    EXPECT(ks_plain_is_command(ks_view_of((const uint8_t *)"", 1), &code));
    EXPECT_EQ_U64(code, 0);
    EXPECT(!ks_plain_is_command(KS_VIEW("a"), &code));
}
