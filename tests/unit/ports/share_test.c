/* SPDX-License-Identifier: Apache-2.0 */
#include "ports/share.h"

#include "core/limits.h"
#include "ks_test.h"

TEST(a_share_is_a_decimal_between_0_and_1)
{
    static const char *const bad[] = {"",      "0",        "1",         "1.0",  "0.",   ".5",
                                      "0.0",   "0.000000", "0.0000001", "0,5",  "0.5%", "-0.5",
                                      "0.5.1", " 0.5",     "00.5",      "0.+5", "5e-2", "nan"};
    static const struct {
        const char *text;
        uint32_t share;
        const char *shown;
    } good[] = {
        {"0.05", 50000, "0.05"},
        {"0.5", 500000, "0.5"},
        {"0.500000", 500000, "0.5"},
        {"0.000001", 1, "0.000001"},
        {"0.999999", KS_SHARE_ALL - 1, "0.999999"},
    };
    char shown[KS_SHARE_TEXT_SIZE];
    uint32_t share;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        EXPECT_ERR(ks_share_parse(ks_view_text(bad[i]), &share), INVALID);
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        EXPECT_OK(ks_share_parse(ks_view_text(good[i].text), &share));
        EXPECT_EQ_I64(share, good[i].share);
        ks_share_format(share, shown);
        EXPECT_STR(shown, good[i].shown);
    }
    ks_share_format(0, shown);
    EXPECT_STR(shown, "");
}

/* Vectors of FNV-1a, 64 bits: draft-eastlake-fnv, appendix C. */
TEST(a_salt_has_the_number_of_fnv_1a)
{
    EXPECT_EQ_U64(ks_fnv_hash(KS_VIEW("")), UINT64_C(0xcbf29ce484222325));
    EXPECT_EQ_U64(ks_fnv_hash(KS_VIEW("a")), UINT64_C(0xaf63dc4c8601ec8c));
    EXPECT_EQ_U64(ks_fnv_hash(KS_VIEW("foobar")), UINT64_C(0x85944171f73967e8));
}
