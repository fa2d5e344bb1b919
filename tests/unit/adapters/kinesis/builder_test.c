/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/kinesis/builder.h"

#include "ks_test.h"

#include <stdio.h>

static ks_view put(struct ks_builder *builder, const char *text)
{
    size_t size = strlen(text);
    uint8_t *room = ks_builder_room(builder, size);

    EXPECT(room != NULL);
    memcpy(room, text, size);
    return ks_builder_took(builder, size);
}

TEST(a_batch_is_one_block_with_its_records_in_order)
{
    struct ks_budget budget;
    struct ks_builder builder;
    struct ks_batch batch = {.millis_behind = 5};
    char text[32];

    ks_budget_init(&budget, 1 << 20);
    EXPECT_OK(ks_builder_begin(&builder, &budget, 100000, 1000));
    for (int at = 0; at < 101; at++) {
        struct ks_record record = {.sub_sequence = -1, .arrival_ms = at};
        (void)snprintf(text, sizeof(text), "data %d", at);
        record.data = put(&builder, text);
        (void)snprintf(text, sizeof(text), "key %d", at);
        record.partition_key = put(&builder, text);
        record.sequence = put(&builder, "49");
        EXPECT_OK(ks_builder_add(&builder, &record));
    }
    ks_builder_finish(&builder, &batch);
    EXPECT_EQ_U64(batch.count, 101);
    EXPECT_EQ_I64(batch.millis_behind, 5);
    for (int at = 0; at < 101; at++) {
        (void)snprintf(text, sizeof(text), "data %d", at);
        EXPECT(ks_view_equal(batch.records[at].data, ks_view_text(text)));
        (void)snprintf(text, sizeof(text), "key %d", at);
        EXPECT(ks_view_equal(batch.records[at].partition_key, ks_view_text(text)));
        EXPECT(ks_view_equal(batch.records[at].sequence, KS_VIEW("49")));
        EXPECT_EQ_I64(batch.records[at].arrival_ms, at);
        EXPECT(batch.records[at].data.data >= batch.block->data);
        EXPECT(batch.records[at].data.data < batch.block->data + batch.block->size);
    }
    /* What was not needed is the budget's again. */
    EXPECT(budget.used < 101 * (sizeof(struct ks_record) + 20) + 16);
    EXPECT_EQ_U64(budget.used, batch.block->capacity);
    ks_batch_free(&batch);
    EXPECT_EQ_U64(budget.used, 0);
}

TEST(even_and_odd_and_few_records_keep_their_order)
{
    for (uint32_t count = 0; count < 6; count++) {
        struct ks_builder builder;
        struct ks_batch batch = {.millis_behind = -1};

        EXPECT_OK(ks_builder_begin(&builder, NULL, 64, 6));
        for (uint32_t at = 0; at < count; at++) {
            struct ks_record record = {.arrival_ms = at};
            record.data = record.partition_key = record.sequence = put(&builder, "x");
            EXPECT_OK(ks_builder_add(&builder, &record));
        }
        ks_builder_finish(&builder, &batch);
        EXPECT_EQ_U64(batch.count, count);
        for (uint32_t at = 0; at < count; at++)
            EXPECT_EQ_I64(batch.records[at].arrival_ms, at);
        ks_batch_free(&batch);
    }
}

TEST(limits_are_kept)
{
    struct ks_budget budget;
    struct ks_builder builder;
    struct ks_record record = {.sub_sequence = -1};

    ks_budget_init(&budget, 1000);
    EXPECT_ERR(ks_builder_begin(&builder, &budget, 1000, 10), FULL);
    EXPECT_EQ_U64(budget.used, 0);
    ks_alloc_fail_after(1, 0);
    EXPECT_ERR(ks_builder_begin(&builder, &budget, 100, 1), NO_MEMORY);
    ks_alloc_fail_after(0, 0);
    EXPECT_EQ_U64(budget.used, 0);

    EXPECT_OK(ks_builder_begin(&builder, &budget, 10, 1));
    EXPECT(ks_builder_room(&builder, 11) == NULL);
    record.data = record.partition_key = record.sequence = put(&builder, "0123456789");
    EXPECT(ks_builder_room(&builder, 1) == NULL);
    EXPECT_OK(ks_builder_add(&builder, &record));
    EXPECT_ERR(ks_builder_add(&builder, &record), MALFORMED);
    ks_builder_abandon(&builder);
    EXPECT_EQ_U64(budget.used, 0);
}

TEST(a_sequence_number_is_digits)
{
    char digits[KS_SEQUENCE_MAX + 2];

    memset(digits, '9', sizeof(digits));
    EXPECT(ks_sequence_is_valid(KS_VIEW("0")));
    EXPECT(
        ks_sequence_is_valid(KS_VIEW("49680414573595759865136095135580413368112465103170830338")));
    EXPECT(ks_sequence_is_valid(ks_view_of(digits, KS_SEQUENCE_MAX)));
    EXPECT(!ks_sequence_is_valid(ks_view_of(digits, KS_SEQUENCE_MAX + 1)));
    EXPECT(!ks_sequence_is_valid(KS_VIEW_NONE));
    EXPECT(!ks_sequence_is_valid(KS_VIEW("01")));
    EXPECT(!ks_sequence_is_valid(KS_VIEW("4a")));
    EXPECT(!ks_sequence_is_valid(KS_VIEW("-1")));
}

TEST(no_byte_but_a_digit_passes_at_any_place)
{
    enum { SIZE = 21 }; /* Two words of eight, and a rest. */
    char digits[SIZE];
    bool right = true;

    for (size_t at = 1; at < SIZE; at++) {
        for (int byte = 0; byte < 256; byte++) {
            memset(digits, '7', SIZE);
            digits[at] = (char)byte;
            right = right &&
                    ks_sequence_is_valid(ks_view_of(digits, SIZE)) == (byte >= '0' && byte <= '9');
        }
    }
    EXPECT(right);
}
