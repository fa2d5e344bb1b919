/* SPDX-License-Identifier: Apache-2.0 */
#include "base/budget.h"
#include "base/codec.h"

#include "base/prng.h"
#include "ks_test.h"

#include <stdio.h>

enum { LONGEST = 700, ROOM = 32 };

static void expect_base64(const char *plain, const char *coded)
{
    char characters[100];
    uint8_t bytes[100];
    size_t size = ks_base64_encode(ks_view_text(plain), characters);

    EXPECT_EQ_U64(size, strlen(coded));
    EXPECT_EQ_U64(size, ks_base64_size(strlen(plain)));
    EXPECT_MEM(characters, coded, size);
    EXPECT_OK(ks_base64_decode(ks_view_text(coded), bytes, &size));
    EXPECT_EQ_U64(size, strlen(plain));
    EXPECT_MEM(bytes, plain, size);
}

/* RFC 4648, section 10. */
TEST(base64_of_known_texts)
{
    expect_base64("", "");
    expect_base64("f", "Zg==");
    expect_base64("fo", "Zm8=");
    expect_base64("foo", "Zm9v");
    expect_base64("foob", "Zm9vYg==");
    expect_base64("fooba", "Zm9vYmE=");
    expect_base64("foobar", "Zm9vYmFy");
}

/* In memory that ends with it, for the sanitizers. */
static void expect_decoded_over_itself(const uint8_t *plain, size_t size, size_t gap)
{
    size_t coded = ks_base64_size(size);
    size_t back = 0;
    uint8_t *text = ks_alloc(gap + coded + (coded == 0));

    EXPECT_EQ_U64(ks_base64_encode(ks_view_of(plain, size), (char *)text + gap), coded);
    EXPECT_OK(ks_base64_decode(ks_view_of(text + gap, coded), text, &back));
    EXPECT_EQ_U64(back, size);
    EXPECT_MEM(text, plain, size);
    ks_free(text);
}

TEST(base64_is_decoded_over_itself)
{
    enum { MOST = 100 << 10 };
    uint8_t *plain = ks_alloc(MOST);
    struct ks_prng prng;

    ks_prng_init(&prng, 13);
    for (size_t at = 0; at < MOST; at++)
        plain[at] = (uint8_t)ks_prng_next(&prng);
    for (size_t gap = 0; gap < 40; gap += 13) {
        for (size_t size = 0; size <= 300; size++)
            expect_decoded_over_itself(plain, size, gap);
        for (size_t size = 1000; size <= MOST; size = size * 3 / 2 + 1)
            expect_decoded_over_itself(plain, size, gap);
    }
    ks_free(plain);
}

TEST(base64_of_every_length_comes_back)
{
    struct ks_prng prng;

    ks_prng_init(&prng, 11);
    for (size_t size = 0; size <= LONGEST; size++) {
        uint8_t plain[LONGEST], back[LONGEST + ROOM];
        char coded[LONGEST * 4 / 3 + 4 + 1];
        size_t coded_size, back_size = 0;
        for (size_t i = 0; i < size; i++)
            plain[i] = (uint8_t)ks_prng_next(&prng);
        coded_size = ks_base64_size(size);
        coded[coded_size] = '#';
        EXPECT_EQ_U64(ks_base64_encode(ks_view_of(plain, size), coded), coded_size);
        EXPECT_EQ_I64(coded[coded_size], '#');
        EXPECT(ks_base64_decoded_max(coded_size) >= size);
        EXPECT_OK(ks_base64_decode(ks_view_of(coded, coded_size), back, &back_size));
        EXPECT_EQ_U64(back_size, size);
        EXPECT_MEM(back, plain, size);

        coded_size = ks_base64url_encode(ks_view_of(plain, size), coded);
        EXPECT(memchr(coded, '=', coded_size) == NULL);
        EXPECT(memchr(coded, '+', coded_size) == NULL);
        EXPECT(memchr(coded, '/', coded_size) == NULL);
        EXPECT_OK(ks_base64url_decode(ks_view_of(coded, coded_size), back, &back_size));
        EXPECT_EQ_U64(back_size, size);
        EXPECT_MEM(back, plain, size);
    }
}

TEST(malformed_base64_is_refused)
{
    static const char *const bad[] = {
        "A",
        "AA",
        "AAA",
        "AAAAA",
        "====",
        "A===",
        "=AAA",
        "AA=A",
        "Zg=",
        "Zg",
        "Zm9v\n",
        " Zm9v",
        "Zm 9v",
        "Zm9-",
        "Zm9_",
        "AAAA====",
        "Zg==Zg==",
        "Zm8=Zm9v",
        "\xFF\xFF\xFF\xFF",
    };
    uint8_t buffer[100];
    size_t size = 77;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        EXPECT(ks_err_is(ks_base64_decode(ks_view_text(bad[i]), buffer, &size), KS_ERR_MALFORMED));
    EXPECT_EQ_U64(size, 77);
}

TEST(a_foreign_character_is_found_at_any_place_of_a_long_text)
{
    uint8_t text[240], buffer[180 + ROOM];
    size_t size;

    for (size_t at = 0; at < sizeof(text); at++) {
        memset(text, 'A', sizeof(text));
        EXPECT_OK(ks_base64_decode(ks_view_of(text, sizeof(text)), buffer, &size));
        text[at] = at + 1 == sizeof(text) ? '*' : '=';
        EXPECT(ks_err_is(ks_base64_decode(ks_view_of(text, sizeof(text)), buffer, &size),
                         KS_ERR_MALFORMED));
    }
}

TEST(a_token_has_one_spelling)
{
    uint8_t buffer[8 + ROOM];
    size_t size = 0;
    static const char *const bad[] = {"A", "AAAAA", "AB", "AAB", "Zg==", "+A", "/w", "AA.A", "A A"};

    EXPECT_OK(ks_base64url_decode(KS_VIEW("_-8"), buffer, &size));
    EXPECT_EQ_U64(size, 2);
    EXPECT_MEM(buffer, "\xFF\xEF", 2);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        EXPECT(
            ks_err_is(ks_base64url_decode(ks_view_text(bad[i]), buffer, &size), KS_ERR_MALFORMED));
}

TEST(hex_comes_back_and_reads_both_cases)
{
    uint8_t all[256], back[256];
    char hex[512];

    for (int i = 0; i < 256; i++)
        all[i] = (uint8_t)i;
    ks_hex_encode(ks_view_of(all, sizeof(all)), hex);
    EXPECT_MEM(hex, "000102030405060708090a0b", 24);
    EXPECT_OK(ks_hex_decode(ks_view_of(hex, sizeof(hex)), back));
    EXPECT_MEM(back, all, sizeof(all));
    EXPECT_OK(ks_hex_decode(KS_VIEW("fFAa"), back));
    EXPECT_MEM(back, "\xFF\xAA", 2);
    EXPECT_OK(ks_hex_decode(KS_VIEW_NONE, back));
}

TEST(malformed_hex_is_refused)
{
    static const char *const bad[] = {"a",  "abc", "0g", "g0", " 1",   "0x",
                                      "/0", ":0",  "@0", "`0", "\xE9z"};
    uint8_t buffer[8];

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        EXPECT(ks_err_is(ks_hex_decode(ks_view_text(bad[i]), buffer), KS_ERR_MALFORMED));
}

static void expect_timestamp(int64_t ms, const char *text)
{
    char written[KS_TIMESTAMP_SIZE];
    int64_t read = -1;

    ks_timestamp_format(ms, written);
    EXPECT_STR(written, text);
    EXPECT_OK(ks_timestamp_parse(ks_view_text(text), &read));
    EXPECT_EQ_I64(read, ms);
}

/* Computed with Python's datetime. */
TEST(timestamps_of_known_instants)
{
    expect_timestamp(0, "1970-01-01T00:00:00.000Z");
    expect_timestamp(-1, "1969-12-31T23:59:59.999Z");
    expect_timestamp(INT64_C(1795221600123), "2026-11-21T00:40:00.123Z");
    expect_timestamp(INT64_C(951782400000), "2000-02-29T00:00:00.000Z");
    expect_timestamp(INT64_C(4107542400000), "2100-03-01T00:00:00.000Z");
    expect_timestamp(INT64_C(253402300799999), "9999-12-31T23:59:59.999Z");
    expect_timestamp(INT64_C(-62167219200000), "0000-01-01T00:00:00.000Z");
    expect_timestamp(INT64_C(-62135596800000), "0001-01-01T00:00:00.000Z");
}

TEST(instants_out_of_the_range_of_the_format_are_its_ends)
{
    char text[KS_TIMESTAMP_SIZE];

    ks_timestamp_format(INT64_MAX, text);
    EXPECT_STR(text, "9999-12-31T23:59:59.999Z");
    ks_timestamp_format(INT64_MIN, text);
    EXPECT_STR(text, "0000-01-01T00:00:00.000Z");
}

TEST(every_day_of_ten_thousand_years_comes_back)
{
    for (int64_t day = -719528; day < 2932897; day++) {
        char text[KS_TIMESTAMP_SIZE];
        int64_t read = 0;
        ks_timestamp_format(day * 86400000, text);
        EXPECT_OK(ks_timestamp_parse(ks_view_text(text), &read));
        if (read != day * 86400000)
            FAIL("%s", text);
    }
}

static void expect_parsed(const char *text, int64_t ms)
{
    int64_t read = -1;

    EXPECT_OK(ks_timestamp_parse(ks_view_text(text), &read));
    EXPECT_EQ_I64(read, ms);
}

TEST(offsets_and_fractions_are_understood)
{
    expect_parsed("1970-01-01T00:00:00Z", 0);
    expect_parsed("1970-01-01t00:00:00z", 0);
    expect_parsed("1970-01-01T01:30:00+01:30", 0);
    expect_parsed("1969-12-31T19:00:00-05:00", 0);
    expect_parsed("1970-01-01T00:00:00.5Z", 500);
    expect_parsed("1970-01-01T00:00:00.123456789Z", 123);
    expect_parsed("1970-01-01T00:00:00.0009-00:00", 0);
    expect_parsed("1990-12-31T23:59:60Z", INT64_C(662688000000));
}

TEST(what_is_no_timestamp_is_invalid)
{
    static const char *const bad[] = {
        "",
        "2026",
        "2026-11-21",
        "2026-11-21T00:40:00",
        "2026-11-21 00:40:00Z",
        "2026-11-21T00:40Z",
        "2026-11-21T00:40:00.Z",
        "2026-11-21T00:40:00,1Z",
        "2026-11-21T00:40:00Zx",
        "2026-11-21T00:40:00+0100",
        "2026-11-21T00:40:00+01",
        "2026-11-21T00:40:00+24:00",
        "2026-11-21T00:40:00+01:60",
        "2026-13-21T00:40:00Z",
        "2026-00-21T00:40:00Z",
        "2026-11-31T00:40:00Z",
        "2026-11-00T00:40:00Z",
        "2026-02-29T00:40:00Z",
        "2100-02-29T00:40:00Z",
        "2026-11-21T24:00:00Z",
        "2026-11-21T00:60:00Z",
        "2026-11-21T00:40:61Z",
        "-026-11-21T00:40:00Z",
        "2026-11-21T00:40:-1Z",
        "1795221600123",
    };
    int64_t ms = 5;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (!ks_err_is(ks_timestamp_parse(ks_view_text(bad[i]), &ms), KS_ERR_INVALID))
            FAIL("%s", bad[i]);
    }
    EXPECT_EQ_I64(ms, 5);
}
