/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bytes.h"

#include "base/budget.h"
#include "ks_test.h"

#include <fcntl.h>
#include <unistd.h>

static bool same(ks_view view, const char *text)
{
    return ks_view_equal(view, ks_view_text(text));
}

TEST(views_compare_by_content)
{
    EXPECT(ks_view_equal(KS_VIEW("a\0b"), ks_view_of("a\0b", 3)));
    EXPECT(!ks_view_equal(KS_VIEW("ab"), KS_VIEW("abc")));
    EXPECT(ks_view_equal(KS_VIEW_NONE, KS_VIEW("")));
    EXPECT(ks_view_equal_nocase(KS_VIEW("Content-TYPE"), KS_VIEW("content-type")));
    EXPECT(!ks_view_equal_nocase(KS_VIEW("a[b"), KS_VIEW("a{b")));
    EXPECT(ks_view_starts(KS_VIEW("local:x"), KS_VIEW("local:")));
    EXPECT(ks_view_starts(KS_VIEW("x"), KS_VIEW_NONE));
    EXPECT(!ks_view_starts(KS_VIEW("loc"), KS_VIEW("local:")));
}

TEST(trim_takes_white_space_off_both_ends_only)
{
    EXPECT(same(ks_view_trim(KS_VIEW(" \t\r\n a b \v\f")), "a b"));
    EXPECT(same(ks_view_trim(KS_VIEW("   ")), ""));
    EXPECT(same(ks_view_trim(KS_VIEW_NONE), ""));
}

TEST(cut_walks_a_list_to_its_end)
{
    ks_view rest = KS_VIEW("a,,b,");

    EXPECT(same(ks_view_cut(&rest, ','), "a"));
    EXPECT(same(ks_view_cut(&rest, ','), ""));
    EXPECT(same(ks_view_cut(&rest, ','), "b"));
    EXPECT(rest.data != NULL);
    EXPECT(same(ks_view_cut(&rest, ','), ""));
    EXPECT(rest.data == NULL);
}

TEST(numbers_are_taken_highest_byte_first)
{
    ks_view view = KS_VIEW("\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0A\x0B\x0C\x0D\x0E\x0F");
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;

    EXPECT_OK(ks_view_take_u8(&view, &u8));
    EXPECT_OK(ks_view_take_be16(&view, &u16));
    EXPECT_OK(ks_view_take_be32(&view, &u32));
    EXPECT_OK(ks_view_take_be64(&view, &u64));
    EXPECT_EQ_U64(u8, 0x01);
    EXPECT_EQ_U64(u16, 0x0203);
    EXPECT_EQ_U64(u32, 0x04050607);
    EXPECT_EQ_U64(u64, UINT64_C(0x08090A0B0C0D0E0F));
    EXPECT_EQ_U64(view.size, 0);
    EXPECT(ks_err_is(ks_view_take_u8(&view, &u8), KS_ERR_MALFORMED));
}

TEST(what_is_not_there_is_not_taken)
{
    ks_view view = KS_VIEW("abc");
    ks_view taken = KS_VIEW_NONE;
    uint32_t number = 7;

    EXPECT(ks_err_is(ks_view_take(&view, 4, &taken), KS_ERR_MALFORMED));
    EXPECT(ks_err_is(ks_view_take(&view, SIZE_MAX, &taken), KS_ERR_MALFORMED));
    EXPECT(ks_err_is(ks_view_take_be32(&view, &number), KS_ERR_MALFORMED));
    EXPECT_EQ_U64(number, 7);
    EXPECT(same(view, "abc"));
    EXPECT_OK(ks_view_take(&view, 3, &taken));
    EXPECT(same(taken, "abc"));
    EXPECT_OK(ks_view_take(&view, 0, &taken));
    view = KS_VIEW_NONE;
    EXPECT_OK(ks_view_take(&view, 0, &taken));
}

TEST(a_varint_comes_back_as_it_went)
{
    static const uint64_t values[] = {0, 1, 127, 128, 300, UINT32_MAX, UINT64_MAX - 1, UINT64_MAX};
    struct ks_bytes bytes;
    ks_view view;

    ks_bytes_init(&bytes, 1000);
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
        EXPECT_OK(ks_bytes_append_varint(&bytes, values[i]));
    view = ks_bytes_view(&bytes);
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        uint64_t value = 5;
        EXPECT_OK(ks_view_take_varint(&view, &value));
        EXPECT_EQ_U64(value, values[i]);
    }
    EXPECT_EQ_U64(view.size, 0);
    ks_bytes_free(&bytes);
}

TEST(a_varint_has_known_bytes)
{
    struct ks_bytes bytes;

    /* The example of the protobuf encoding guide: 150 is 96 01. */
    ks_bytes_init(&bytes, 10);
    EXPECT_OK(ks_bytes_append_varint(&bytes, 150));
    EXPECT_MEM(bytes.data, "\x96\x01", 2);
    EXPECT_EQ_U64(bytes.size, 2);
    ks_bytes_free(&bytes);
}

TEST(a_varint_that_is_cut_or_too_long_is_malformed)
{
    ks_view cut = KS_VIEW("\x80\x80");
    ks_view long_one = KS_VIEW("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x02");
    ks_view longer = KS_VIEW("\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01");
    ks_view padded = KS_VIEW("\x80\x80\x00");
    uint64_t value = 1;

    EXPECT(ks_err_is(ks_view_take_varint(&cut, &value), KS_ERR_MALFORMED));
    EXPECT_EQ_U64(cut.size, 2);
    EXPECT(ks_err_is(ks_view_take_varint(&long_one, &value), KS_ERR_MALFORMED));
    EXPECT(ks_err_is(ks_view_take_varint(&longer, &value), KS_ERR_MALFORMED));
    EXPECT_OK(ks_view_take_varint(&padded, &value));
    EXPECT_EQ_U64(value, 0);
}

TEST(decimal_numbers_are_exact_to_their_last_value)
{
    uint64_t u64 = 3;
    int64_t i64 = 3;

    EXPECT_OK(ks_view_u64(KS_VIEW("18446744073709551615"), &u64));
    EXPECT_EQ_U64(u64, UINT64_MAX);
    EXPECT_OK(ks_view_i64(KS_VIEW("-9223372036854775808"), &i64));
    EXPECT_EQ_I64(i64, INT64_MIN);
    EXPECT_OK(ks_view_i64(KS_VIEW("+9223372036854775807"), &i64));
    EXPECT_EQ_I64(i64, INT64_MAX);
    EXPECT_OK(ks_view_i64(KS_VIEW("-0"), &i64));
    EXPECT_EQ_I64(i64, 0);
}

TEST(numbers_of_128_bits_come_in_two_halves_exact_to_the_last)
{
    static const struct {
        const char *text;
        uint64_t high;
        uint64_t low;
    } NUMBERS[] = {
        {"0", 0, 0},
        {"18446744073709551615", 0, UINT64_MAX},
        {"18446744073709551616", 1, 0},
        {"170141183460469231731687303715884105728", UINT64_C(1) << 63, 0},
        {"340282366920938463463374607431768211455", UINT64_MAX, UINT64_MAX},
    };
    static const char *const NONE[] = {"",
                                       "-1",
                                       " 1",
                                       "1x",
                                       "340282366920938463463374607431768211456",
                                       "340282366920938463463374607431768211460",
                                       "999999999999999999999999999999999999999",
                                       "3402823669209384634633746074317682114550"};
    uint64_t high = 3;
    uint64_t low = 4;

    for (size_t i = 0; i < sizeof(NONE) / sizeof(NONE[0]); i++)
        EXPECT(ks_err_is(ks_view_u128(ks_view_text(NONE[i]), &high, &low), KS_ERR_INVALID));
    EXPECT_EQ_U64(high, 3);
    EXPECT_EQ_U64(low, 4);
    for (size_t i = 0; i < sizeof(NUMBERS) / sizeof(NUMBERS[0]); i++) {
        EXPECT_OK(ks_view_u128(ks_view_text(NUMBERS[i].text), &high, &low));
        EXPECT_EQ_U64(high, NUMBERS[i].high);
        EXPECT_EQ_U64(low, NUMBERS[i].low);
    }
}

TEST(what_is_no_decimal_number_is_invalid)
{
    static const char *const unsigned_ones[] = {"",
                                                "-1",
                                                "+1",
                                                " 1",
                                                "1 ",
                                                "0x1",
                                                "1e3",
                                                "1.0",
                                                "18446744073709551616",
                                                "99999999999999999999"};
    static const char *const signed_ones[] = {
        "", "-", "+", "--1", "+-1", "9223372036854775808", "-9223372036854775809"};
    uint64_t u64 = 3;
    int64_t i64 = 3;

    for (size_t i = 0; i < sizeof(unsigned_ones) / sizeof(unsigned_ones[0]); i++)
        EXPECT(ks_err_is(ks_view_u64(ks_view_text(unsigned_ones[i]), &u64), KS_ERR_INVALID));
    for (size_t i = 0; i < sizeof(signed_ones) / sizeof(signed_ones[0]); i++)
        EXPECT(ks_err_is(ks_view_i64(ks_view_text(signed_ones[i]), &i64), KS_ERR_INVALID));
    EXPECT_EQ_U64(u64, 3);
    EXPECT_EQ_I64(i64, 3);
}

/* UTF-8 of a code point, without asking whether there is one. */
static size_t put_utf8(uint32_t code, uint8_t *to)
{
    size_t size = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const uint8_t marks[] = {0, 0, 0xC0, 0xE0, 0xF0};

    for (size_t i = size - 1; i > 0; i--, code >>= 6)
        to[i] = (uint8_t)(0x80 | (code & 0x3F));
    to[0] = (uint8_t)(marks[size] | code);
    return size;
}

TEST(every_code_point_but_the_surrogates_is_utf8)
{
    for (uint32_t code = 1; code < 0x120000; code++) {
        uint8_t text[4] = {0};
        size_t size = put_utf8(code, text);
        bool allowed = code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
        if (ks_view_is_utf8(ks_view_of(text, size)) != allowed)
            FAIL("U+%04X", code);
    }
}

TEST(malformed_utf8_is_found_at_any_place)
{
    static const char *const bad[] = {
        "\x80",        "\xC0\xAF",         "\xC1\x81",         "\xE0\x80\xAF",
        "\xE2\x82",    "\xF0\x80\x80\xAF", "\xF5\x80\x80\x80", "\xFF",
        "\xE2\x28\xA1"};
    char text[64];

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        for (size_t at = 0; at < 20; at++) {
            memset(text, 'a', sizeof(text));
            EXPECT(ks_view_is_utf8(ks_view_of(text, 30)));
            memcpy(text + at, bad[i], strlen(bad[i]));
            EXPECT(!ks_view_is_utf8(ks_view_of(text, 30)));
        }
    }
    for (size_t at = 0; at < 20; at++) {
        memset(text, 'a', sizeof(text));
        text[at] = '\0';
        EXPECT(!ks_view_is_utf8(ks_view_of(text, 20)));
    }
    EXPECT(ks_view_is_utf8(KS_VIEW_NONE));
    EXPECT(!ks_view_is_utf8(KS_VIEW("a\0b")));
    EXPECT(ks_view_is_unicode(KS_VIEW("a\0b\xC3\xA9\0")));
    EXPECT(!ks_view_is_unicode(KS_VIEW("a\0\xC3")));
}

TEST(text_is_cut_between_characters)
{
    ks_view text = KS_VIEW("a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
    static const size_t whole[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10};

    for (size_t size = 0; size <= text.size; size++)
        EXPECT_EQ_U64(ks_view_whole_characters(ks_view_of(text.data, size)), whole[size]);
    EXPECT_EQ_U64(ks_view_whole_characters(KS_VIEW("\x80\x80\x80\x80")), 4);
    EXPECT_EQ_U64(ks_view_character(KS_VIEW("\xE2\x82\xAC!")), 3);
    EXPECT_EQ_U64(ks_view_character(KS_VIEW("\xE2\x82")), 0);
    EXPECT_EQ_U64(ks_view_character(KS_VIEW_NONE), 0);
}

TEST(text_is_copied_only_where_it_fits)
{
    char buffer[4] = "zzz";

    EXPECT(ks_err_is(ks_view_copy_text(KS_VIEW("abcd"), buffer, sizeof(buffer)), KS_ERR_FULL));
    EXPECT(ks_err_is(ks_view_copy_text(KS_VIEW("a\0b"), buffer, sizeof(buffer)), KS_ERR_INVALID));
    EXPECT_STR(buffer, "zzz");
    EXPECT_OK(ks_view_copy_text(KS_VIEW("abc"), buffer, sizeof(buffer)));
    EXPECT_STR(buffer, "abc");
    EXPECT_OK(ks_view_copy_text(KS_VIEW_NONE, buffer, sizeof(buffer)));
    EXPECT_STR(buffer, "");
    EXPECT(ks_err_is(ks_view_copy_text(KS_VIEW_NONE, buffer, 0), KS_ERR_FULL));
}

TEST(a_buffer_grows_to_its_limit_and_then_says_full)
{
    struct ks_bytes bytes;
    static const uint8_t filler[600];

    ks_bytes_init(&bytes, 1000);
    EXPECT(bytes.data == NULL);
    EXPECT_OK(ks_bytes_append(&bytes, ks_view_of(filler, 600)));
    EXPECT(ks_err_is(ks_bytes_append(&bytes, ks_view_of(filler, 401)), KS_ERR_FULL));
    EXPECT_EQ_U64(bytes.size, 600);
    EXPECT_OK(ks_bytes_append(&bytes, ks_view_of(filler, 399)));
    EXPECT_OK(ks_bytes_append_byte(&bytes, 'x'));
    EXPECT(ks_err_is(ks_bytes_append_byte(&bytes, 'y'), KS_ERR_FULL));
    EXPECT(ks_err_is(ks_bytes_reserve(&bytes, SIZE_MAX), KS_ERR_FULL));
    EXPECT_EQ_U64(bytes.size, 1000);
    EXPECT_EQ_U64(bytes.capacity, 1000);
    EXPECT_EQ_U64(bytes.data[999], 'x');
    ks_bytes_free(&bytes);
    ks_bytes_free(NULL);
    EXPECT(bytes.data == NULL);
    EXPECT_EQ_U64(bytes.max, 1000);
}

/* Whether the letter 'x' is in the memory at `place`, which is not ours any more: the kernel reads it. The first bytes
 * of free memory are the allocator's. */
static bool still_there(uintptr_t place, size_t size)
{
    static uint8_t bytes[1000];
    int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    ssize_t got = pread(fd, bytes, size, (off_t)place);
    size_t count = 0;

    EXPECT(fd >= 0 && size <= sizeof(bytes));
    (void)close(fd);
    for (ssize_t i = 64; i < got; i++)
        count += bytes[i] == 'x';
    return count > 0;
}

/* Fills a buffer, has it grow, frees it; true if the content could be found in either place. */
static bool leaves_traces(bool secret)
{
    struct ks_bytes bytes;
    uintptr_t first;
    uintptr_t second;
    bool left;

    ks_bytes_init(&bytes, 4000);
    bytes.secret = secret;
    for (int i = 0; i < 200; i++)
        EXPECT_OK(ks_bytes_append_byte(&bytes, 'x'));
    first = (uintptr_t)bytes.data;
    EXPECT_OK(ks_bytes_reserve(&bytes, 2000));
    EXPECT_EQ_U64(bytes.size, 200);
    EXPECT(bytes.data[0] == 'x' && bytes.data[199] == 'x');
    left = (uintptr_t)bytes.data != first && still_there(first, 200);
    second = (uintptr_t)bytes.data;
    ks_bytes_free(&bytes);
    EXPECT(bytes.secret == secret);
    return still_there(second, 200) || left;
}

TEST(nothing_of_a_secret_stays_in_freed_memory)
{
    EXPECT(leaves_traces(false)); /* This test can see it. */
    EXPECT(!leaves_traces(true));
}

TEST(formatted_text_may_fill_the_buffer_to_its_last_byte)
{
    struct ks_bytes bytes;

    ks_bytes_init(&bytes, 5);
    EXPECT_OK(ks_bytes_format(&bytes, "%s", ""));
    EXPECT_OK(ks_bytes_format(&bytes, "%s", "12345"));
    ks_bytes_free(&bytes);
    ks_bytes_init(&bytes, 10);
    EXPECT_OK(ks_bytes_format(&bytes, "%d", 12345));
    EXPECT(ks_err_is(ks_bytes_format(&bytes, "%d", 678901), KS_ERR_FULL));
    EXPECT_OK(ks_bytes_format(&bytes, "%d", 67890));
    EXPECT(same(ks_bytes_view(&bytes), "1234567890"));
    EXPECT_OK(ks_bytes_format(&bytes, "%s", ""));
    ks_bytes_free(&bytes);
}

TEST(a_buffer_keeps_its_content_when_memory_runs_out)
{
    struct ks_bytes bytes;
    static const uint8_t filler[5000];

    ks_bytes_init(&bytes, 10000);
    EXPECT_OK(ks_bytes_append(&bytes, KS_VIEW("abc")));
    ks_alloc_fail_after(1, 0);
    EXPECT(ks_err_is(ks_bytes_append(&bytes, ks_view_of(filler, 5000)), KS_ERR_NO_MEMORY));
    EXPECT(same(ks_bytes_view(&bytes), "abc"));
    EXPECT_OK(ks_bytes_append(&bytes, ks_view_of(filler, 5000)));
    ks_bytes_free(&bytes);
}

TEST(what_is_consumed_is_gone_and_the_rest_moves_up)
{
    struct ks_bytes bytes;

    ks_bytes_init(&bytes, 100);
    ks_bytes_consume(&bytes, 0);
    EXPECT_OK(ks_bytes_append(&bytes, KS_VIEW("abcdef")));
    ks_bytes_consume(&bytes, 2);
    EXPECT(same(ks_bytes_view(&bytes), "cdef"));
    ks_bytes_consume(&bytes, 4);
    EXPECT_EQ_U64(bytes.size, 0);
    EXPECT_OK(ks_bytes_append(&bytes, KS_VIEW("x")));
    ks_bytes_clear(&bytes);
    EXPECT_EQ_U64(bytes.size, 0);
    EXPECT(bytes.capacity > 0);
    ks_bytes_free(&bytes);
}
