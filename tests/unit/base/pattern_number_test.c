/* SPDX-License-Identifier: Apache-2.0 */
#include "base/pattern_number.h"

#include "ks_test.h"

static int compare(const char *a, const char *b)
{
    struct ks_pattern_number left = ks_pattern_number_read(ks_view_text(a));
    struct ks_pattern_number right = ks_pattern_number_read(ks_view_text(b));
    int order;

    EXPECT(left.comparable && right.comparable);
    order = ks_pattern_number_compare(&left, &right);
    EXPECT_EQ_I64(ks_pattern_number_compare(&right, &left), -order);
    return order;
}

static bool is_comparable(const char *text)
{
    return ks_pattern_number_read(ks_view_text(text)).comparable;
}

TEST(number_written_otherwise_is_equal)
{
    static const char *const hundred[] = {"100", "100.0", "1e2", "1.00E+2", "1000e-1", "0.1e3"};
    static const char *const zero[] = {"0", "-0", "0.000", "0e99", "-0.0e-99"};

    for (size_t i = 0; i < sizeof(hundred) / sizeof(hundred[0]); i++)
        EXPECT_EQ_I64(compare("100", hundred[i]), 0);
    for (size_t i = 0; i < sizeof(zero) / sizeof(zero[0]); i++)
        EXPECT_EQ_I64(compare("0", zero[i]), 0);
    EXPECT_EQ_I64(compare("0.00012", "12e-5"), 0);
    EXPECT_EQ_I64(compare("-1.5", "-15e-1"), 0);
}

TEST(numbers_are_in_order_by_value)
{
    static const char *const rising[] = {"-1.7976931348623157e308",
                                         "-1e300",
                                         "-100",
                                         "-99.5",
                                         "-1",
                                         "-0.1",
                                         "-1e-300",
                                         "0",
                                         "1e-300",
                                         "0.1",
                                         "0.11",
                                         "1",
                                         "2",
                                         "9.99",
                                         "10",
                                         "100",
                                         "1e15",
                                         "1e22",
                                         "1.5e300"};

    for (size_t i = 1; i < sizeof(rising) / sizeof(rising[0]); i++)
        EXPECT(compare(rising[i - 1], rising[i]) < 0);
}

TEST(number_of_fifteen_digits_is_comparable)
{
    EXPECT(is_comparable("123456789012345"));
    EXPECT(is_comparable("999999999999999e-40"));
    EXPECT(is_comparable("100000000000000000000000000000"));
    EXPECT(is_comparable("0.000000000000000000000000000001"));
}

TEST(number_of_sixteen_digits_is_comparable_if_it_is_the_shortest_of_its_double)
{
    EXPECT(is_comparable("9007199254740991"));
    EXPECT(is_comparable("9007199254740992"));
    EXPECT(!is_comparable("9007199254740993"));
    EXPECT(is_comparable("0.1234567890123456"));
    EXPECT(is_comparable("0.30000000000000004"));
    EXPECT(!is_comparable("0.30000000000000001"));
    EXPECT(is_comparable("3.141592653589793"));
    EXPECT(!is_comparable("3.1415926535897932"));
    EXPECT(is_comparable("2.718281828459045e5"));
    EXPECT(is_comparable("12345678901234568"));
    EXPECT(!is_comparable("12345678901234567"));
    EXPECT(is_comparable("18014398509481984"));
    EXPECT(is_comparable("4503599627370495.5"));
    EXPECT(is_comparable("73786976294838210000"));
    EXPECT(!is_comparable("73786976294838206464"));
    EXPECT(is_comparable("7.326608836686445e+16"));
}

TEST(number_with_more_digits_than_a_double_is_not_comparable)
{
    EXPECT(!is_comparable("12345678901234567890"));
    EXPECT(!is_comparable("0.1000000000000000055511151231257827"));
    EXPECT(is_comparable("0.50000000000000000000000000000000"));
}

TEST(number_out_of_the_range_of_doubles_is_not_comparable)
{
    EXPECT(is_comparable("1.7976931348623157e308"));
    EXPECT(!is_comparable("1.7976931348623158e308"));
    EXPECT(!is_comparable("-1e309"));
    EXPECT(!is_comparable("1e99999999999999999999"));
    EXPECT(is_comparable("4.9e-324"));
    EXPECT(!is_comparable("1e-324"));
    EXPECT(!is_comparable("1e-99999999999999999999"));
    EXPECT(is_comparable("0e99999999999999999999"));
}
