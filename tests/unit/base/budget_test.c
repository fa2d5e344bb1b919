/* SPDX-License-Identifier: Apache-2.0 */
#include "base/budget.h"

#include "ks_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

TEST(a_pool_leaves_each_its_own_and_the_rest_to_who_comes_first)
{
    struct ks_budget_pool pool;
    struct ks_budget one, other;
    struct ks_block *large, *small, *forced;

    ks_budget_pool_init(&pool, 800, 2); /* 200 for each, 400 for both. */
    ks_budget_join(&one, &pool);
    ks_budget_join(&other, &pool);
    EXPECT_EQ_U64(ks_budget_allowed(&one), 600);
    EXPECT_OK(ks_block_new(&one, 600, &large));
    EXPECT_ERR(ks_block_new(&one, 1, &small), FULL);
    EXPECT_EQ_U64(ks_budget_allowed(&one), 600);
    EXPECT_EQ_U64(ks_budget_allowed(&other), 200);
    EXPECT_ERR(ks_block_new(&other, 201, &small), FULL);
    EXPECT_OK(ks_block_new(&other, 200, &small));
    EXPECT_EQ_U64(pool.used, 800);
    EXPECT_OK(ks_block_force(&other, 50, &forced));
    EXPECT_EQ_U64(ks_budget_allowed(&other), 200);
    EXPECT_EQ_U64(ks_budget_allowed(&one), 550);
    ks_block_drop(forced);

    ks_block_drop(large);
    EXPECT_EQ_U64(ks_budget_allowed(&other), 600);
    ks_block_discharge(small);
    EXPECT_EQ_U64(other.used, 0);
    EXPECT_EQ_U64(pool.used, 0);
    EXPECT_EQ_U64(pool.common_used, 0);
    ks_block_drop(small);
}

TEST(a_pool_of_one_is_all_its_own)
{
    struct ks_budget_pool pool;
    struct ks_budget only;
    struct ks_block *block;

    ks_budget_pool_init(&pool, 100, 1);
    ks_budget_join(&only, &pool);
    EXPECT_EQ_U64(only.limit, 100);
    EXPECT_OK(ks_block_new(&only, 100, &block));
    EXPECT_EQ_U64(ks_budget_allowed(&only), 100);
    ks_block_drop(block);
}

TEST(memory_is_zeroed_and_counted)
{
    int64_t live = ks_alloc_live();
    uint64_t count = ks_alloc_count();
    static const char zeros[100];
    char *memory = ks_alloc(sizeof(zeros));

    EXPECT(memory != NULL);
    EXPECT_MEM(memory, zeros, sizeof(zeros));
    EXPECT_EQ_I64(ks_alloc_live(), live + 1);
    EXPECT_EQ_U64(ks_alloc_count(), count + 1);
    ks_free(memory);
    ks_free(NULL);
    EXPECT_EQ_I64(ks_alloc_live(), live);
}

TEST(a_reallocation_keeps_the_content)
{
    int64_t live = ks_alloc_live();
    char *memory = ks_realloc(NULL, 4);

    EXPECT(memory != NULL);
    memcpy(memory, "abc", 4);
    memory = ks_realloc(memory, 100000);
    EXPECT(memory != NULL);
    EXPECT_STR(memory, "abc");
    EXPECT_EQ_I64(ks_alloc_live(), live + 1);
    ks_free(memory);
}

TEST(nothing_is_something_that_can_be_freed)
{
    void *none = ks_alloc(0);
    void *shrunk = ks_realloc(ks_alloc(10), 0);

    EXPECT(none != NULL);
    EXPECT(shrunk != NULL);
    ks_free(none);
    ks_free(shrunk);
}

TEST(the_nth_allocation_fails_once)
{
    void *first, *third;

    ks_alloc_fail_after(2, 0);
    first = ks_alloc(1);
    EXPECT(first != NULL);
    EXPECT(ks_strdup("second") == NULL);
    third = ks_alloc(1);
    EXPECT(third != NULL);
    ks_free(first);
    ks_free(third);
}

TEST(after_the_nth_all_fail_until_it_ends)
{
    void *kept = ks_alloc(1);
    void *after;

    ks_alloc_fail_after(1, 1);
    EXPECT(ks_alloc(1) == NULL);
    EXPECT(ks_realloc(kept, 2) == NULL);
    EXPECT(ks_alloc(1) == NULL);
    ks_alloc_fail_after(0, 0);
    after = ks_alloc(1);
    EXPECT(after != NULL);
    ks_free(kept);
    ks_free(after);
}

TEST(a_copy_is_a_copy)
{
    char text[] = "pod-b";
    char *copy = ks_strdup(text);

    EXPECT(copy != NULL && copy != text);
    text[0] = 'x';
    EXPECT_STR(copy, "pod-b");
    ks_free(copy);
}

TEST(a_block_is_charged_until_its_last_user_drops_it)
{
    struct ks_budget budget;
    struct ks_block *block = NULL;

    ks_budget_init(&budget, 1000);
    EXPECT_OK(ks_block_new(&budget, 600, &block));
    EXPECT_EQ_U64(block->capacity, 600);
    EXPECT_EQ_U64(block->size, 0);
    EXPECT_EQ_U64(budget.used, 600);
    ks_block_use(block);
    ks_block_drop(block);
    EXPECT_EQ_U64(budget.used, 600);
    ks_block_drop(block);
    ks_block_drop(NULL);
    EXPECT_EQ_U64(budget.used, 0);
    EXPECT_EQ_U64(budget.most, 600);
}

TEST(a_full_budget_says_so_and_charges_nothing)
{
    struct ks_budget budget;
    struct ks_block *first = NULL, *second = NULL;

    ks_budget_init(&budget, 1000);
    EXPECT_OK(ks_block_new(&budget, 1000, &first));
    EXPECT(ks_err_is(ks_block_new(&budget, 1, &second), KS_ERR_FULL));
    EXPECT(ks_err_is(ks_block_new(&budget, SIZE_MAX, &second), KS_ERR_FULL));
    EXPECT(second == NULL);
    EXPECT_EQ_U64(budget.used, 1000);

    /* A limit that was lowered below what is used. */
    budget.limit = 500;
    EXPECT(ks_err_is(ks_block_new(&budget, 0, &second), KS_ERR_FULL));
    ks_block_drop(first);
}

TEST(no_memory_is_an_answer)
{
    struct ks_budget budget;
    struct ks_block *block = NULL;

    ks_budget_init(&budget, 1000);
    ks_alloc_fail_after(1, 0);
    EXPECT(ks_err_is(ks_block_new(&budget, 10, &block), KS_ERR_NO_MEMORY));
    EXPECT_EQ_U64(budget.used, 0);
    EXPECT(ks_err_is(ks_block_new(NULL, SIZE_MAX - 8, &block), KS_ERR_NO_MEMORY));
}

TEST(a_trimmed_block_gives_its_end_back)
{
    struct ks_budget budget;
    struct ks_block *block = NULL;

    ks_budget_init(&budget, 1000);
    EXPECT_OK(ks_block_new(&budget, 1000, &block));
    memcpy(block->data, "abcd", 4);
    block->size = 4;
    block = ks_block_trim(block);
    EXPECT_EQ_U64(budget.used, 4);
    EXPECT_MEM(block->data, "abcd", 4);
    ks_block_drop(block);
    EXPECT_EQ_U64(budget.used, 0);
}

TEST(a_block_that_cannot_be_trimmed_stays_as_it_was)
{
    struct ks_budget budget;
    struct ks_block *block = NULL;

    ks_budget_init(&budget, 1000);
    EXPECT_OK(ks_block_new(&budget, 100, &block));
    ks_alloc_fail_after(1, 0);
    block = ks_block_trim(block);
    EXPECT_EQ_U64(block->capacity, 100);
    EXPECT_EQ_U64(budget.used, 100);
    ks_block_drop(block);
}

TEST(a_block_without_a_budget_charges_nobody)
{
    struct ks_block *block = NULL;

    EXPECT_OK(ks_block_new(NULL, 100, &block));
    block = ks_block_trim(block);
    EXPECT_EQ_U64(block->capacity, 0);
    ks_block_drop(block);
}

TEST(a_forced_block_is_charged_beyond_the_limit_and_shuts_the_door)
{
    struct ks_budget budget;
    struct ks_block *first;
    struct ks_block *none = NULL;

    ks_budget_init(&budget, 100);
    EXPECT_OK(ks_block_force(&budget, 150, &first));
    EXPECT_EQ_U64(budget.used, 150);
    EXPECT_ERR(ks_block_new(&budget, 0, &none), FULL);
    ks_block_drop(first);
    EXPECT_EQ_U64(budget.used, 0);
    ks_alloc_fail_after(1, 0);
    EXPECT_ERR(ks_block_force(&budget, 1, &none), NO_MEMORY);
    EXPECT_EQ_U64(budget.used, 0);
    EXPECT(none == NULL);
}

/* Pages that the kernel had to give. */
static long faults(void)
{
    struct rusage usage;

    EXPECT_EQ_I64(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_minflt;
}

/* Takes a block like that of an answer, fills it, and frees it. */
static void use_block(size_t size)
{
    struct ks_budget budget = {.limit = size};
    struct ks_block *block;

    EXPECT_OK(ks_block_new(&budget, size, &block));
    memset(block->data, 1, size);
    ks_block_drop(block);
}

TEST(freed_payload_stays_for_the_next_one)
{
    enum { SIZE = 8 << 20, PAGES = SIZE / 4096, ROUNDS = 8 };
    long before;

    ks_alloc_keep(64 << 20);
    use_block(SIZE);
    before = faults();
    for (int round = 0; round < ROUNDS; round++)
        use_block(SIZE);
    /* A sanitizer has an allocator of its own. */
    EXPECT(faults() - before < (getenv("KS_SANITIZED") != NULL ? 2 * ROUNDS * PAGES : PAGES));
}

/* Bytes of this process that are in memory. */
static long resident(void)
{
    long pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");

    EXPECT(statm != NULL);
    EXPECT_EQ_I64(fscanf(statm, "%*d %ld", &pages), 1);
    EXPECT_EQ_I64(fclose(statm), 0);
    return pages * 4096;
}

TEST(what_is_in_use_is_told)
{
    enum { COUNT = 64, SIZE = 16 << 10 };
    void *blocks[COUNT];
    size_t before;

    /* A sanitizer has an allocator of its own. */
    if (getenv("KS_SANITIZED") != NULL)
        return;
    before = ks_alloc_used();
    for (int at = 0; at < COUNT; at++)
        blocks[at] = ks_alloc(SIZE);
    EXPECT(ks_alloc_used() - before >= COUNT * SIZE);
    EXPECT(ks_alloc_used() - before < 2 * COUNT * SIZE);
    for (int at = 0; at < COUNT; at++)
        ks_free(blocks[at]);
    EXPECT(ks_alloc_used() - before < SIZE);
}

TEST(what_was_freed_among_what_stays_is_given_back)
{
    enum { COUNT = 64, SIZE = 256 << 10, MB = 1 << 20 };
    void *blocks[COUNT], *small[COUNT];
    long full;

    /* A sanitizer has an allocator of its own. */
    if (getenv("KS_SANITIZED") != NULL)
        return;
    ks_alloc_keep(64 << 20);
    for (int at = 0; at < COUNT; at++) {
        blocks[at] = ks_realloc(NULL, SIZE);
        small[at] = ks_alloc(64);
        memset(blocks[at], 1, SIZE);
    }
    full = resident();
    for (int at = 0; at < COUNT; at++)
        ks_free(blocks[at]);
    ks_alloc_give_back(COUNT * SIZE + MB);
    EXPECT(full - resident() < MB);
    ks_alloc_give_back(MB);
    EXPECT(full - resident() > COUNT * SIZE - 2 * MB);
    for (int at = 0; at < COUNT; at++)
        ks_free(small[at]);
}
