/* SPDX-License-Identifier: Apache-2.0 */
#include "base/prng.h"

#include "ks_test.h"

/* The first numbers of splitmix64 from the seed 1234567, as its authors' code prints them. */
TEST(a_seed_gives_known_numbers)
{
    struct ks_prng prng;

    ks_prng_init(&prng, 1234567);
    EXPECT_EQ_U64(ks_prng_next(&prng), UINT64_C(6457827717110365317));
    EXPECT_EQ_U64(ks_prng_next(&prng), UINT64_C(3203168211198807973));
    EXPECT_EQ_U64(ks_prng_next(&prng), UINT64_C(9817491932198370423));
}

TEST(numbers_stay_within_their_bounds_and_reach_them)
{
    struct ks_prng prng;
    unsigned low = 0, high = 0;

    ks_prng_init(&prng, 1);
    EXPECT_EQ_U64(ks_prng_below(&prng, 0), 0);
    EXPECT_EQ_U64(ks_prng_below(&prng, 1), 0);
    for (int i = 0; i < 10000; i++) {
        int64_t number = ks_prng_between(&prng, -3, 3);
        EXPECT(number >= -3 && number <= 3);
        low += number == -3;
        high += number == 3;
    }
    EXPECT(low > 1000);
    EXPECT(high > 1000);
}
