/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pattern_case.h"

#include "ks_test.h"

TEST(ascii_letters_have_the_other_case)
{
    for (int32_t point = 0; point < 0x80; point++) {
        bool upper = point >= 'A' && point <= 'Z';
        bool lower = point >= 'a' && point <= 'z';
        EXPECT_EQ_I64(ks_pattern_lower(point), upper ? point + 32 : point);
        EXPECT_EQ_I64(ks_pattern_upper(point), lower ? point - 32 : point);
    }
}

TEST(letters_of_other_scripts_have_the_other_case)
{
    static const int32_t pairs[][2] = {{0xC4, 0xE4},       {0x178, 0xFF},     {0x100, 0x101},
                                       {0x394, 0x3B4},     {0x416, 0x436},    {0x531, 0x561},
                                       {0x1E00, 0x1E01},   {0x2C2E, 0x2C5E},  {0xA640, 0xA641},
                                       {0x10400, 0x10428}, {0x1E900, 0x1E922}};

    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        EXPECT_EQ_I64(ks_pattern_lower(pairs[i][0]), pairs[i][1]);
        EXPECT_EQ_I64(ks_pattern_lower(pairs[i][1]), pairs[i][1]);
        EXPECT_EQ_I64(ks_pattern_upper(pairs[i][1]), pairs[i][0]);
        EXPECT_EQ_I64(ks_pattern_upper(pairs[i][0]), pairs[i][0]);
    }
}

TEST(point_without_another_case_stays)
{
    static const int32_t points[] = {-1,     0xD7,    0xDF,     0xF7,    0x65E5,
                                     0xD800, 0x1F600, 0x10FFFF, 0x1100FF};

    for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
        EXPECT_EQ_I64(ks_pattern_lower(points[i]), points[i]);
        EXPECT_EQ_I64(ks_pattern_upper(points[i]), points[i]);
    }
}

TEST(lower_case_of_an_upper_case_has_no_lower_case)
{
    for (int32_t point = 0; point < 0x110000; point++) {
        int32_t lower = ks_pattern_lower(point);
        int32_t upper = ks_pattern_upper(point);
        EXPECT_EQ_I64(ks_pattern_lower(lower), lower);
        EXPECT_EQ_I64(ks_pattern_upper(upper), upper);
    }
}
