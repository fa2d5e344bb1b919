/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/kinesis/builder.h"

#include "body_block.h"
#include "ks_test.h"

#include <stdio.h>

enum { BODY = 10000, STAYS = 512 };

static uint8_t body[BODY];

/* A body of so many bytes, each of which tells where it was. */
static struct ks_builder begun(struct ks_budget *budget, size_t size, uint32_t records_max)
{
    struct ks_builder builder;

    EXPECT(size <= BODY);
    for (size_t at = 0; at < size; at++)
        body[at] = (uint8_t)(at % 251);
    EXPECT_OK(ks_builder_begin(
        &builder, body_block(budget, 0, ks_view_of(body, size), BODY_FITS, records_max),
        records_max));
    return builder;
}

static ks_view put(struct ks_builder *builder, const char *text)
{
    size_t size = strlen(text);

    memcpy(ks_builder_room(builder), text, size);
    return ks_builder_took(builder, size);
}

static ks_view piece(const struct ks_builder *builder, size_t at, size_t size)
{
    return ks_view_of(builder->block->data + at, size);
}

TEST(a_batch_is_one_block_with_its_records_in_order)
{
    struct ks_budget budget;
    struct ks_builder builder;
    struct ks_batch batch = {.millis_behind = 5};
    char text[32];

    ks_budget_init(&budget, 1 << 20);
    builder = begun(&budget, BODY, 101);
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

TEST(none_and_few_records_keep_their_order)
{
    for (uint32_t count = 0; count < 6; count++) {
        struct ks_builder builder = begun(NULL, 36 * 6, 6);
        struct ks_batch batch = {.millis_behind = -1};

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

TEST(short_pieces_move_down_and_long_ones_stay)
{
    static const struct {
        size_t at;
        size_t size;
        size_t kept_at;
    } PIECES[] = {
        {0, 10, 0},                       /* Where it is. */
        {11, 20, 10},                     /* Over itself. */
        {40, 0, 30},                      /* None. */
        {100, STAYS - 1, 30},             /* Over itself, just short enough. */
        {700, STAYS, 700},                /* Stays, the gap before it, too. */
        {700 + STAYS, 5, 700 + STAYS},    /* Right behind it. */
        {3000, 7, 700 + STAYS + 5},       /* Far. */
        {BODY - 3000, 3000, BODY - 3000}, /* To the end of the body. */
    };
    enum { COUNT = sizeof(PIECES) / sizeof(PIECES[0]) };
    struct ks_budget budget;
    struct ks_batch batch = {.millis_behind = -1};

    ks_budget_init(&budget, 1 << 20);
    struct ks_builder builder = begun(&budget, BODY, COUNT);
    for (size_t at = 0; at < COUNT; at++) {
        ks_view kept = ks_builder_keep(&builder, piece(&builder, PIECES[at].at, PIECES[at].size));
        struct ks_record record = {.data = kept, .partition_key = kept, .sequence = kept};
        EXPECT_EQ_U64(kept.size, PIECES[at].size);
        EXPECT_EQ_U64(kept.data - builder.block->data, PIECES[at].kept_at);
        EXPECT_OK(ks_builder_add(&builder, &record));
    }
    ks_builder_finish(&builder, &batch);
    EXPECT_EQ_U64(batch.count, COUNT);
    for (size_t at = 0; at < COUNT; at++)
        EXPECT_MEM(batch.records[at].data.data, body + PIECES[at].at, PIECES[at].size);
    EXPECT_EQ_U64(budget.used, BODY + COUNT * sizeof(struct ks_record));
    ks_batch_free(&batch);
    EXPECT_EQ_U64(budget.used, 0);
}

TEST(the_records_lie_behind_the_body_until_it_was_read)
{
    struct ks_budget budget;
    struct ks_batch batch = {.millis_behind = -1};
    struct ks_record record = {.sub_sequence = -1};

    ks_budget_init(&budget, 1 << 20);
    for (size_t size = 1; size < 200; size++) {
        uint32_t most = (uint32_t)(size / 36 + 1);
        struct ks_builder builder = begun(&budget, size, KS_READ_RECORDS_MAX);
        EXPECT(builder.block->capacity < size + 8 + most * sizeof(record));
        record.data = record.partition_key = record.sequence =
            ks_builder_keep(&builder, piece(&builder, 0, 1));
        for (uint32_t at = 0; at < most; at++)
            EXPECT_OK(ks_builder_add(&builder, &record));
        EXPECT_ERR(ks_builder_add(&builder, &record), MALFORMED);
        EXPECT_MEM(builder.block->data, body, size);
        ks_builder_finish(&builder, &batch);
        EXPECT_EQ_U64(batch.count, most);
        EXPECT_EQ_U64(batch.records[most - 1].data.data[0], body[0]);
        ks_batch_free(&batch);
    }
    EXPECT_EQ_U64(budget.used, 0);
}

TEST(a_body_without_room_behind_it_moves)
{
    struct ks_budget budget;
    struct ks_builder builder;
    size_t capacity = ks_builder_capacity(1000, 10);

    for (size_t at = 0; at < 1000; at++)
        body[at] = (uint8_t)at;
    ks_view view = ks_view_of(body, 1000);
    ks_budget_init(&budget, 1 << 20);
    struct ks_block *fit = body_block(&budget, 0, view, BODY_FITS, 10);
    EXPECT_EQ_U64(fit->capacity, capacity);
    EXPECT_OK(ks_builder_begin(&builder, fit, 10));
    EXPECT(builder.block == fit);
    EXPECT_EQ_U64(budget.most, capacity);
    ks_builder_abandon(&builder);
    EXPECT_EQ_U64(budget.used, 0);

    EXPECT_OK(ks_builder_begin(&builder, body_block(&budget, 0, view, BODY_TIGHT, 10), 10));
    EXPECT_EQ_U64(builder.block->size, 1000);
    EXPECT_EQ_U64(budget.used, capacity);
    EXPECT_EQ_U64(budget.most, 1000 + capacity);
    EXPECT_MEM(builder.block->data, body, 1000);
    ks_builder_abandon(&builder);
    EXPECT_EQ_U64(budget.used, 0);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(limits_are_kept)
{
    struct ks_budget budget;
    struct ks_builder builder;
    struct ks_record record = {.sub_sequence = -1};
    ks_view view = ks_view_of(body, 1000);

    /* One byte less than both blocks need while the body moves. */
    ks_budget_init(&budget, 1000 + ks_builder_capacity(1000, 10) - 1);
    EXPECT_ERR(ks_builder_begin(&builder, body_block(&budget, 0, view, BODY_TIGHT, 10), 10), FULL);
    EXPECT_EQ_U64(budget.used, 0);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
    ks_budget_init(&budget, 1 << 20);
    struct ks_block *tight = body_block(&budget, 0, view, BODY_TIGHT, 10);
    ks_alloc_fail_after(1, 0);
    EXPECT_ERR(ks_builder_begin(&builder, tight, 10), NO_MEMORY);
    ks_alloc_fail_after(0, 0);
    EXPECT_EQ_U64(budget.used, 0);
    EXPECT_EQ_I64(ks_alloc_live(), 0);

    builder = begun(&budget, 1000, 1);
    record.data = record.partition_key = record.sequence = put(&builder, "0123456789");
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
