/* SPDX-License-Identifier: Apache-2.0 */
/* Limits and memory of reading; what rows mean is in tests/vectors/rows and the contract suite. */
#include "adapters/dialects/native.h"

#include "adapters/dialects/native_words.h"
#include "base/budget.h"
#include "ks_test.h"

#include <stdio.h>
#include <string.h>

static void set(struct ks_item *item, enum ks_native_attribute at, const char *text)
{
    item->presence[at] = KS_PRESENT;
    item->texts[at] = ks_view_text(text);
}

static struct ks_item worker_item(const char *k)
{
    struct ks_item item;

    ks_item_init(&item, &ks_native_schema);
    item.p = KS_VIEW("w");
    item.k = ks_view_text(k);
    set(&item, KS_NATIVE_BOOT, "00000000000000ff");
    set(&item, KS_NATIVE_LIFE, "live");
    set(&item, KS_NATIVE_MODE, "active");
    set(&item, KS_NATIVE_BEAT, "3");
    return item;
}

static struct ks_item lease_item(const char *k)
{
    struct ks_item item;

    ks_item_init(&item, &ks_native_schema);
    item.p = KS_VIEW("s");
    item.k = ks_view_text(k);
    set(&item, KS_NATIVE_EPOCH, "1");
    set(&item, KS_NATIVE_REV, "2");
    set(&item, KS_NATIVE_CHECKPOINT, "LATEST");
    return item;
}

TEST(tokens_belong_to_their_workers)
{
    struct ks_native_rows rows = {.workers = NULL};
    struct ks_store_answer answer = {.outcome = KS_DONE};
    struct ks_item one = worker_item("one");
    struct ks_item bad = worker_item("bad");
    struct ks_item two = worker_item("two");

    set(&one, KS_NATIVE_GIVE, "a@1\nb@2");
    set(&one, KS_NATIVE_TAKE, "c@3");
    /* What was read of a damaged row before the damage is forgotten. */
    set(&bad, KS_NATIVE_GIVE, "x@1\ny@2\nz@");
    set(&two, KS_NATIVE_TAKE, "d@4");
    EXPECT_OK(ks_native_rows_add(&rows, &one, NULL));
    EXPECT_OK(ks_native_rows_add(&rows, &bad, NULL));
    EXPECT_OK(ks_native_rows_add(&rows, &two, NULL));
    ks_native_rows_answer(&rows, &answer);

    EXPECT_EQ_U64(answer.worker_count, 3);
    EXPECT_EQ_U64(answer.workers[0].give_count, 2);
    EXPECT_STR(answer.workers[0].gives[1].shard, "b");
    EXPECT_STR(answer.workers[0].takes[0].shard, "c");
    EXPECT(answer.workers[1].damaged);
    EXPECT_STR(answer.workers[1].self.id, "bad");
    EXPECT_EQ_U64(answer.workers[2].give_count, 0);
    EXPECT_STR(answer.workers[2].takes[0].shard, "d");
    EXPECT_EQ_U64(answer.workers[2].takes[0].epoch, 4);
    ks_native_rows_free(&rows);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(a_set_beyond_its_limit_is_damage)
{
    static char text[8 * (KS_NATIVE_ROW_TOKENS_MAX + 1)];
    struct ks_native_rows rows = {.workers = NULL};
    struct ks_item item = worker_item("one");
    size_t size = 0;

    for (int at = 0; at < KS_NATIVE_ROW_TOKENS_MAX; at++)
        size +=
            (size_t)snprintf(text + size, sizeof(text) - size, "%ss@%d", at == 0 ? "" : "\n", at);
    set(&item, KS_NATIVE_GIVE, text);
    EXPECT_OK(ks_native_rows_add(&rows, &item, NULL));
    EXPECT(!rows.workers[0].damaged);
    (void)snprintf(text + size, sizeof(text) - size, "\ns@0");
    set(&item, KS_NATIVE_GIVE, text);
    EXPECT_OK(ks_native_rows_add(&rows, &item, NULL));
    EXPECT(rows.workers[1].damaged);
    ks_native_rows_free(&rows);
}

TEST(an_answer_has_a_limit)
{
    struct ks_native_rows rows = {.workers = NULL};
    const struct ks_item item = lease_item("s");

    for (int at = 0; at < KS_NATIVE_ROWS_MAX; at++)
        EXPECT_OK(ks_native_rows_add(&rows, &item, NULL));
    EXPECT(ks_err_is(ks_native_rows_add(&rows, &item, NULL), KS_ERR_FULL));
    ks_native_rows_free(&rows);
}

TEST(odd_keys_are_cut_and_told)
{
    struct ks_native_rows rows = {.workers = NULL};
    struct ks_item item = lease_item("s");
    char key[512];

    memset(key, 'k', sizeof(key));
    item.k = ks_view_of(key, sizeof(key));
    EXPECT_OK(ks_native_rows_add(&rows, &item, NULL));
    EXPECT(rows.leases[0].damaged);
    EXPECT_EQ_U64(strlen(rows.leases[0].shard), KS_SHARD_ID_MAX);
    item.p = KS_VIEW("w");
    EXPECT_OK(ks_native_rows_add(&rows, &item, NULL));
    EXPECT(rows.workers[0].damaged);
    item.p = KS_VIEW("x");
    EXPECT(ks_err_is(ks_native_rows_add(&rows, &item, NULL), KS_ERR_CORRUPT));
    ks_native_rows_free(&rows);
}

TEST(a_long_version_is_cut_between_characters)
{
    struct ks_native_rows rows = {.workers = NULL};
    struct ks_item item = worker_item("one");

    set(&item, KS_NATIVE_VERSION, "012345678901234567890123456789\xc3\xbc and more");
    EXPECT_OK(ks_native_rows_add(&rows, &item, NULL));
    EXPECT(!rows.workers[0].damaged);
    EXPECT_STR(rows.workers[0].version, "012345678901234567890123456789");
    ks_native_rows_free(&rows);
}

TEST(without_memory_a_read_fails_and_leaves_nothing)
{
    struct ks_native_rows rows = {.workers = NULL};
    struct ks_item worker = worker_item("one");
    const struct ks_item lease = lease_item("s");

    set(&worker, KS_NATIVE_GIVE, "a@1");
    for (uint64_t n = 1; n <= 2; n++) {
        ks_alloc_fail_after(n, 1);
        EXPECT(ks_err_is(ks_native_rows_add(&rows, &worker, NULL), KS_ERR_NO_MEMORY));
        ks_alloc_fail_after(0, 0);
        ks_native_rows_free(&rows);
    }
    ks_alloc_fail_after(1, 1);
    EXPECT(ks_err_is(ks_native_rows_add(&rows, &lease, NULL), KS_ERR_NO_MEMORY));
    ks_alloc_fail_after(0, 0);
    ks_native_rows_free(&rows);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

/* A row that says `number` of attribute `at` is damaged. */
static bool damages(struct ks_item item, enum ks_native_attribute at, uint64_t number)
{
    struct ks_native_rows rows = {.workers = NULL};
    char digits[24];
    bool damaged;

    (void)snprintf(digits, sizeof digits, "%llu", (unsigned long long)number);
    set(&item, at, digits);
    EXPECT_OK(ks_native_rows_add(&rows, &item, NULL));
    damaged = rows.lease_count > 0 ? rows.leases[0].damaged : rows.workers[0].damaged;
    ks_native_rows_free(&rows);
    return damaged;
}

TEST(number_for_which_the_core_has_no_room_is_damage)
{
    static const struct {
        bool lease;
        enum ks_native_attribute at;
        uint64_t max;
    } bounds[] = {
        {true, KS_NATIVE_EPOCH, KS_ROW_EPOCH_MAX},
        {true, KS_NATIVE_REV, KS_ROW_COUNTER_MAX},
        {true, KS_NATIVE_LOAD, KS_ROW_LOAD_MAX},
        {false, KS_NATIVE_BEAT, KS_ROW_COUNTER_MAX},
        {false, KS_NATIVE_HELD, UINT32_MAX},
        {false, KS_NATIVE_CHANGES, KS_ROW_COUNTER_MAX},
        {false, KS_NATIVE_CAPACITY, KS_ROW_COUNTER_MAX},
        {false, KS_NATIVE_LOAD, KS_ROW_LOAD_MAX},
    };

    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++) {
        const struct ks_item item = bounds[i].lease ? lease_item("s") : worker_item("one");

        EXPECT(!damages(item, bounds[i].at, bounds[i].max));
        EXPECT(damages(item, bounds[i].at, bounds[i].max + 1));
        EXPECT(damages(item, bounds[i].at, INT64_MAX));
    }
}

TEST(leader_row_whose_epoch_has_no_next_cannot_be_read)
{
    struct ks_native_rows rows = {.workers = NULL};
    struct ks_detail detail;
    struct ks_item item;

    ks_item_init(&item, &ks_native_schema);
    item.p = KS_VIEW("w");
    item.k = KS_VIEW(KS_NATIVE_LEADER);
    set(&item, KS_NATIVE_EPOCH, "9223372036854775807");
    EXPECT(ks_err_is(ks_native_rows_add(&rows, &item, &detail), KS_ERR_CORRUPT));
    ks_native_rows_free(&rows);
}
