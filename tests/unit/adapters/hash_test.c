/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/hash.h"

#include "ks_test.h"

#include <string.h>

static const char LAST[] = "340282366920938463463374607431768211455";

static const char *text_of(ks_hash_key key)
{
    static char buffer[KS_HASH_KEY_MAX + 1];

    ks_hash_key_format(key, buffer);
    return buffer;
}

TEST(a_partition_key_is_hashed_by_md5_as_a_big_endian_number)
{
    /* int(hashlib.md5(b"..").hexdigest(), 16) */
    EXPECT_STR(text_of(ks_hash_key_of(KS_VIEW(""))), "281949768489412648962353822266799178366");
    EXPECT_STR(text_of(ks_hash_key_of(KS_VIEW("a"))), "16955237001963240173058271559858726497");
    EXPECT_STR(text_of(ks_hash_key_of(KS_VIEW("\xD0\xBA"))),
               "127030487399446970012289018415198410968");
}

TEST(text_and_number_are_each_other)
{
    static const char *const KEYS[] = {"0", "9", "10", "18446744073709551616", LAST};
    ks_hash_key key = 1;

    for (size_t at = 0; at < sizeof(KEYS) / sizeof(KEYS[0]); at++) {
        EXPECT_OK(ks_hash_key_parse(ks_view_text(KEYS[at]), &key));
        EXPECT_STR(text_of(key), KEYS[at]);
    }
    EXPECT(key == KS_HASH_KEY_LAST);
}

TEST(what_is_no_hash_key_is_invalid)
{
    static const char *const KEYS[] = {"",
                                       "00",
                                       "01",
                                       "-1",
                                       "1 ",
                                       "a",
                                       "+1",
                                       "1.0",
                                       "340282366920938463463374607431768211456",
                                       "999999999999999999999999999999999999999",
                                       "1000000000000000000000000000000000000000"};
    ks_hash_key key;

    for (size_t at = 0; at < sizeof(KEYS) / sizeof(KEYS[0]); at++)
        EXPECT_ERR(ks_hash_key_parse(ks_view_text(KEYS[at]), &key), INVALID);
}

TEST(bytes_order_as_numbers)
{
    uint8_t small[KS_HASH_KEY_SIZE];
    uint8_t large[KS_HASH_KEY_SIZE];
    ks_hash_key key = 0;

    ks_hash_key_put(255, small);
    ks_hash_key_put((ks_hash_key)1 << 100, large);
    EXPECT(memcmp(small, large, sizeof(small)) < 0);
    EXPECT_OK(ks_hash_key_get(ks_view_of(large, sizeof(large)), &key));
    EXPECT(key == (ks_hash_key)1 << 100);
    EXPECT_ERR(ks_hash_key_get(ks_view_of(large, 15), &key), MALFORMED);
}

TEST(ranges_cover_all_keys_without_gap_or_overlap)
{
    for (uint32_t count = 1; count < 130; count++) {
        ks_hash_key next = 0;
        ks_hash_key width = 0;

        for (uint32_t at = 0; at < count; at++) {
            ks_hash_key start = 0;
            ks_hash_key end = 0;
            ks_hash_key_range(at, count, &start, &end);
            EXPECT(start == next);
            EXPECT(end >= start);
            if (at == 0)
                width = end - start;
            /* Equal but for the last one, which takes what is left over. */
            if (at + 1 < count)
                EXPECT(end - start == width);
            else
                EXPECT(end - start - width < count || count == 1);
            next = end + 1;
        }
        EXPECT(next == 0); /* Behind the last key it begins anew. */
    }
}

TEST(powers_of_two_are_cut_as_kinesis_does)
{
    ks_hash_key start;
    ks_hash_key end;

    ks_hash_key_range(0, 2, &start, &end);
    EXPECT_STR(text_of(end), "170141183460469231731687303715884105727");
    ks_hash_key_range(3, 4, &start, &end);
    EXPECT_STR(text_of(start), "255211775190703847597530955573826158592");
    EXPECT_STR(text_of(end), LAST);
}
