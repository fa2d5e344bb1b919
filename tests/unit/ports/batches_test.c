/* SPDX-License-Identifier: Apache-2.0 */
#include "ports/batches.h"

#include "base/budget.h"
#include "ks_test.h"

#include <stdio.h>
#include <string.h>

/* A batch of `count` records with the sequence numbers first, first + step, .. */
static struct ks_batch make(struct ks_budget *budget, uint64_t first, uint64_t step, uint32_t count)
{
    enum { TEXT = 24 };
    size_t size = count * (sizeof(struct ks_record) + TEXT);
    struct ks_batch batch = {.count = count, .millis_behind = -1};
    struct ks_record *records;

    EXPECT_OK(ks_block_new(budget, size, &batch.block));
    batch.block->size = size;
    records = (struct ks_record *)(void *)batch.block->data;
    for (uint32_t i = 0; i < count; i++) {
        char *text = (char *)batch.block->data + count * sizeof *records + (size_t)i * TEXT;
        int length = snprintf(text, TEXT, "%llu", (unsigned long long)(first + i * step));

        records[i] = (struct ks_record){
            .sequence = ks_view_of(text, (size_t)length),
            .sub_sequence = -1,
        };
    }
    batch.records = records;
    return batch;
}

static void keep(struct ks_batches *batches, struct ks_budget *budget, uint64_t first,
                 uint32_t count)
{
    struct ks_batch batch = make(budget, first, 1, count);

    EXPECT_OK(ks_batches_reserve(batches));
    ks_batches_keep(batches, &batch);
}

static void expect_sequence(const struct ks_record *record, const char *sequence)
{
    EXPECT(record != NULL);
    EXPECT(ks_view_equal(record->sequence, ks_view_text(sequence)));
}

TEST(records_are_numbered_over_batches)
{
    struct ks_batches batches = {.items = NULL};
    struct ks_budget budget;

    ks_budget_init(&budget, 1 << 20);
    keep(&batches, &budget, 100, 3);
    keep(&batches, &budget, 200, 1);
    keep(&batches, &budget, 300, 2);
    expect_sequence(ks_batches_record(&batches, 0), "100");
    expect_sequence(ks_batches_record(&batches, 2), "102");
    expect_sequence(ks_batches_record(&batches, 3), "200");
    expect_sequence(ks_batches_record(&batches, 5), "301");
    expect_sequence(ks_batches_record(&batches, 1), "101");
    EXPECT(ks_batches_record(&batches, 6) == NULL);
    ks_batches_clear(&batches);
    EXPECT_EQ_U64(budget.used, 0);
}

TEST(a_batch_lives_until_all_of_it_is_settled)
{
    struct ks_batches batches = {.items = NULL};
    struct ks_position mark = {.kind = KS_POSITION_LATEST};
    struct ks_budget budget;
    size_t both;

    ks_budget_init(&budget, 1 << 20);
    keep(&batches, &budget, 100, 3);
    keep(&batches, &budget, 200, 3);
    both = budget.used;

    EXPECT(!ks_batches_forget(&batches, 0, &mark));
    EXPECT_EQ_I64(mark.kind, KS_POSITION_LATEST);
    EXPECT(ks_batches_forget(&batches, 2, &mark));
    EXPECT_EQ_I64(mark.kind, KS_POSITION_AFTER_SEQUENCE);
    EXPECT_STR(mark.sequence, "101");
    EXPECT_EQ_I64(mark.sub_sequence, -1);
    EXPECT_EQ_U64(budget.used, both);
    EXPECT(ks_batches_record(&batches, 1) == NULL);
    expect_sequence(ks_batches_record(&batches, 2), "102");

    EXPECT(ks_batches_forget(&batches, 4, &mark));
    EXPECT_STR(mark.sequence, "200");
    EXPECT(budget.used < both);
    expect_sequence(ks_batches_record(&batches, 4), "201");
    EXPECT(!ks_batches_forget(&batches, 4, &mark));

    EXPECT(ks_batches_forget(&batches, 6, &mark));
    EXPECT_STR(mark.sequence, "202");
    EXPECT_EQ_U64(budget.used, 0);
    keep(&batches, &budget, 300, 1);
    expect_sequence(ks_batches_record(&batches, 6), "300");
    ks_batches_clear(&batches);
}

TEST(many_batches_pass_through_little_memory)
{
    struct ks_batches batches = {.items = NULL};
    struct ks_position mark;
    struct ks_budget budget;
    char text[24];

    ks_budget_init(&budget, 1 << 20);
    for (uint32_t i = 0; i < 2000; i++) {
        keep(&batches, &budget, 10 * i, 2);
        if (i >= 5)
            EXPECT(ks_batches_forget(&batches, 2 * (i - 4), &mark));
        (void)snprintf(text, sizeof text, "%u", 10 * i + 1);
        expect_sequence(ks_batches_record(&batches, 2 * i + 1), text);
    }
    EXPECT(batches.capacity <= 16);
    ks_batches_clear(&batches);
    EXPECT_EQ_U64(budget.used, 0);
}

TEST(a_position_is_found_among_what_was_delivered)
{
    struct ks_batches batches = {.items = NULL};
    struct ks_position mark;
    struct ks_budget budget;
    ks_number number = 99;

    ks_budget_init(&budget, 1 << 20);
    keep(&batches, &budget, 95, 10); /* 95 .. 104: longer is later. */
    keep(&batches, &budget, 200, 10);
    EXPECT(ks_batches_find(&batches, KS_VIEW("103"), 0, 20, &number));
    EXPECT_EQ_U64(number, 8);
    EXPECT(ks_batches_find(&batches, KS_VIEW("95"), -1, 20, &number));
    EXPECT_EQ_U64(number, 0);
    EXPECT(ks_batches_find(&batches, KS_VIEW("209"), 0, 20, &number));
    EXPECT_EQ_U64(number, 19);
    EXPECT(ks_batches_find(&batches, KS_VIEW("0000209"), 0, 20, &number));
    EXPECT(!ks_batches_find(&batches, KS_VIEW("209"), 0, 19, &number));
    EXPECT(!ks_batches_find(&batches, KS_VIEW("150"), 0, 20, &number));
    EXPECT(!ks_batches_find(&batches, KS_VIEW("103"), 1, 20, &number));
    EXPECT(!ks_batches_find(&batches, KS_VIEW("1"), 0, 20, &number));
    EXPECT(!ks_batches_find(&batches, KS_VIEW("999999"), 0, 20, &number));
    EXPECT(ks_batches_forget(&batches, 9, &mark));
    EXPECT(!ks_batches_find(&batches, KS_VIEW("103"), 0, 20, &number));
    EXPECT(ks_batches_find(&batches, KS_VIEW("104"), 0, 20, &number));
    ks_batches_clear(&batches);
}

TEST(positions_are_numbers_not_texts)
{
    ks_view nine = KS_VIEW("9");
    ks_view ten = KS_VIEW("10");
    ks_view long_one = KS_VIEW("49590338271490256608559692538361571095921575989136588898");

    EXPECT(ks_position_compare(nine, 0, ten, 0) < 0);
    EXPECT(ks_position_compare(ten, 0, nine, 5) > 0);
    EXPECT(ks_position_compare(ten, -1, ten, 0) == 0);
    EXPECT(ks_position_compare(ten, 1, ten, 0) > 0);
    EXPECT(ks_position_compare(ten, 1, ten, 2) < 0);
    EXPECT(ks_position_compare(KS_VIEW("000"), 0, KS_VIEW("0"), 0) == 0);
    EXPECT(ks_position_compare(long_one, 0, KS_VIEW("99"), 0) > 0);
    EXPECT(ks_position_compare(KS_VIEW_NONE, 0, nine, 0) < 0);
}

/* One Kinesis record that holds `count` user records. */
static void keep_aggregate(struct ks_batches *batches, struct ks_budget *budget, uint64_t sequence,
                           uint32_t count)
{
    struct ks_batch batch = make(budget, sequence, 0, count);
    struct ks_record *records = (struct ks_record *)(void *)batch.block->data;

    for (uint32_t i = 0; i < count; i++)
        records[i].sub_sequence = i;
    EXPECT_OK(ks_batches_reserve(batches));
    ks_batches_keep(batches, &batch);
}

static void expect_whole(struct ks_batches *batches, ks_number number, const char *sequence)
{
    struct ks_position whole = {.kind = KS_POSITION_LATEST};

    EXPECT(ks_batches_whole(batches, number, &whole));
    EXPECT_EQ_I64(whole.kind, KS_POSITION_AFTER_SEQUENCE);
    EXPECT_STR(whole.sequence, sequence);
    EXPECT_EQ_I64(whole.sub_sequence, -1);
}

TEST(a_record_is_whole_when_the_last_of_its_aggregate_is_settled)
{
    struct ks_batches batches = {.items = NULL};
    struct ks_position whole = {.kind = KS_POSITION_LATEST};
    struct ks_position mark;
    struct ks_budget budget;

    ks_budget_init(&budget, 1 << 20);
    keep(&batches, &budget, 100, 1);
    keep_aggregate(&batches, &budget, 200, 3);
    keep_aggregate(&batches, &budget, 300, 2);
    EXPECT(!ks_batches_whole(&batches, 0, &whole));
    expect_whole(&batches, 1, "100");
    expect_whole(&batches, 2, "100");
    expect_whole(&batches, 3, "100");
    expect_whole(&batches, 4, "200");
    expect_whole(&batches, 5, "200");
    /* Is there more of it to come? Only the next record tells. */
    expect_whole(&batches, 6, "200");
    keep(&batches, &budget, 400, 1);
    expect_whole(&batches, 6, "300");
    expect_whole(&batches, 7, "400");

    /* What was forgotten was told before. */
    EXPECT(ks_batches_forget(&batches, 2, &mark));
    EXPECT(!ks_batches_whole(&batches, 3, &whole));
    EXPECT_EQ_I64(whole.kind, KS_POSITION_LATEST);
    expect_whole(&batches, 4, "200");
    ks_batches_clear(&batches);
    EXPECT_EQ_U64(budget.used, 0);
}

TEST(an_aggregate_is_one_record_in_several_batches_too)
{
    struct ks_batches batches = {.items = NULL};
    struct ks_position whole = {.kind = KS_POSITION_LATEST};
    struct ks_budget budget;

    ks_budget_init(&budget, 1 << 20);
    keep_aggregate(&batches, &budget, 200, 2);
    keep_aggregate(&batches, &budget, 200, 2);
    EXPECT(!ks_batches_whole(&batches, 2, &whole));
    EXPECT(!ks_batches_whole(&batches, 4, &whole));
    keep(&batches, &budget, 300, 1);
    EXPECT(!ks_batches_whole(&batches, 2, &whole));
    expect_whole(&batches, 4, "200");
    ks_batches_clear(&batches);
}

TEST(room_is_made_before_and_can_be_refused)
{
    struct ks_batches batches = {.items = NULL};
    struct ks_budget budget;

    ks_budget_init(&budget, 1 << 20);
    ks_alloc_fail_after(1, 0);
    EXPECT_ERR(ks_batches_reserve(&batches), NO_MEMORY);
    keep(&batches, &budget, 1, 1);
    expect_sequence(ks_batches_record(&batches, 0), "1");
    ks_batches_clear(&batches);
}
