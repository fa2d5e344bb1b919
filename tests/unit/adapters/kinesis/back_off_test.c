/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/kinesis/back_off.h"

#include "ks_test.h"

TEST(waits_double_up_to_the_most_and_begin_again)
{
    static const int64_t WHOLE[] = {200, 400, 800, 1000, 1000};
    struct ks_back_off back_off;

    ks_back_off_init(&back_off, 7);
    for (int round = 0; round < 50; round++) {
        for (size_t at = 0; at < sizeof(WHOLE) / sizeof(WHOLE[0]); at++) {
            int64_t ms = ks_span_to_ms(ks_back_off_wait(&back_off, 200, 1000));
            EXPECT(ms >= WHOLE[at] / 2);
            EXPECT(ms <= WHOLE[at]);
        }
        ks_back_off_end(&back_off);
    }
}

TEST(another_kind_of_failure_goes_on_from_where_it_is)
{
    struct ks_back_off back_off;

    ks_back_off_init(&back_off, 1);
    (void)ks_back_off_wait(&back_off, 200, 5000);
    int64_t ms = ks_span_to_ms(ks_back_off_wait(&back_off, 500, 8000));
    EXPECT(ms >= 250);
    EXPECT(ms <= 500);
    /* And never beyond its own most. */
    for (int at = 0; at < 10; at++)
        (void)ks_back_off_wait(&back_off, 500, 8000);
    EXPECT(ks_span_to_ms(ks_back_off_wait(&back_off, 200, 1000)) <= 1000);
}

TEST(two_of_them_do_not_wait_in_step)
{
    struct ks_back_off one;
    struct ks_back_off two;
    int same = 0;

    ks_back_off_init(&one, 1);
    ks_back_off_init(&two, 2);
    for (int at = 0; at < 20; at++)
        same += ks_back_off_wait(&one, 1000, 100000).us == ks_back_off_wait(&two, 1000, 100000).us;
    EXPECT(same < 5);
}
