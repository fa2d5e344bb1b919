/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/kinesis/portion.h"

#include "ports/stream_source.h"

#include "ks_test.h"

static const ks_instant BEGIN = {1000000000};
static const struct ks_portion_room PLENTY = {.allowed = UINT64_C(1) << 40};

static uint32_t next(struct ks_portion *portion, int64_t ms, const struct ks_portion_room *room)
{
    return ks_portion_next(portion, ks_instant_add(BEGIN, ks_span_ms(ms)), 1000, 1 << 20, true,
                           room);
}

static struct ks_portion born(uint32_t record_bytes)
{
    struct ks_portion portion;

    ks_portion_init(&portion);
    if (record_bytes > 0)
        ks_portion_came(&portion, 100, 100 * (record_bytes - 1));
    ks_portion_begin(&portion);
    return portion;
}

TEST(as_many_as_are_wanted_by_the_size_of_the_last_ones)
{
    struct ks_portion portion = born(0);

    EXPECT_EQ_U64(next(&portion, 0, &PLENTY), (1 << 20) / KS_PORTION_GUESS);
    ks_portion_came(&portion, 10, 10 * 1023);
    EXPECT_EQ_U64(next(&portion, 0, &PLENTY), 1000);
    ks_portion_came(&portion, 1, (1 << 20) - 1);
    EXPECT_EQ_U64(next(&portion, 0, &PLENTY), 1);
    /* Small ones are believed step by step. */
    ks_portion_came(&portion, 1, 0);
    EXPECT_EQ_U64(next(&portion, 0, &PLENTY), 2);
    ks_portion_came(&portion, 1, 0);
    EXPECT_EQ_U64(next(&portion, 0, &PLENTY), 4);
}

TEST(an_answer_that_did_not_fit_halves_what_is_asked_for_and_each_that_did_doubles_it)
{
    struct ks_portion portion = born(1024);

    ks_portion_full(&portion, 1000);
    EXPECT_EQ_U64(next(&portion, 0, &PLENTY), 500);
    for (int at = 0; at < 12; at++)
        ks_portion_full(&portion, next(&portion, 0, &PLENTY));
    EXPECT_EQ_U64(next(&portion, 0, &PLENTY), 1);
    ks_portion_came(&portion, 1, 1023);
    EXPECT_EQ_U64(next(&portion, 0, &PLENTY), 2);
    for (int at = 0; at < 20; at++)
        ks_portion_came(&portion, 1, 1023);
    EXPECT_EQ_U64(next(&portion, 0, &PLENTY), 1000);
}

TEST(no_more_than_there_is_room_for_what_others_were_promised_included)
{
    struct ks_portion portion = born(1024);
    uint64_t each = ks_portion_bytes(&portion, 1, true);
    struct ks_portion_room room = {.allowed = 1000 * each, .used = 200 * each};

    /* The body, which becomes the batch: with names once, and no copy. */
    EXPECT_EQ_U64(each, 1024 + KS_PORTION_WORDS + sizeof(struct ks_record));
    EXPECT_EQ_U64(ks_portion_bytes(&portion, 1, false), each + 1024 / 3);
    EXPECT_EQ_U64(ks_portion_bytes(&portion, 7, true), 7 * each);
    EXPECT_EQ_U64(next(&portion, 0, &room), 800);
    room.promised = 400 * each;
    EXPECT_EQ_U64(next(&portion, 0, &room), 400);
}

TEST(a_read_waits_for_room_and_not_for_ever)
{
    struct ks_portion portion = born(1024);
    uint64_t each = ks_portion_bytes(&portion, 1, true);
    struct ks_portion_room room = {.allowed = 1000 * each, .used = 900 * each};
    struct ks_portion_room full = {.allowed = 1000 * each, .used = 1200 * each};

    EXPECT_EQ_U64(next(&portion, 0, &room), 0);
    EXPECT_EQ_U64(next(&portion, KS_PORTION_WAIT_MS - 1, &full), 0);
    EXPECT_EQ_U64(next(&portion, KS_PORTION_WAIT_MS, &full), 1);
    EXPECT_EQ_U64(next(&portion, KS_PORTION_WAIT_MS, &room), 100);
    /* The next one waits anew. */
    ks_portion_begin(&portion);
    EXPECT_EQ_U64(next(&portion, KS_PORTION_WAIT_MS, &room), 0);
    EXPECT_EQ_U64(next(&portion, KS_PORTION_WAIT_MS + 50, &PLENTY), 1000);
}

TEST(where_nothing_is_taken_nobody_waits)
{
    struct ks_portion portion = born(100000);
    struct ks_portion_room small = {.allowed = 1000};

    EXPECT_EQ_U64(next(&portion, 0, &small), 1);
}
