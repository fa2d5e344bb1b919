/* SPDX-License-Identifier: Apache-2.0 */
#include "base/budget.h"

#include <assert.h>
#include <limits.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* The threads of jobs allocate, too; hence the atomic counters, which order nothing else. */
static uint64_t allocations;
static int64_t live;
static uint64_t fail_at; /* 0: never. */
static int fail_all_later;

static bool may_allocate(void)
{
    uint64_t number = __atomic_add_fetch(&allocations, 1, __ATOMIC_RELAXED);
    uint64_t fail = __atomic_load_n(&fail_at, __ATOMIC_RELAXED);

    if (fail == 0 || number < fail)
        return true;
    return number > fail && __atomic_load_n(&fail_all_later, __ATOMIC_RELAXED) == 0;
}

static void count_live(int64_t change)
{
    (void)__atomic_add_fetch(&live, change, __ATOMIC_RELAXED);
}

void *ks_alloc(size_t size)
{
    void *memory;

    if (!may_allocate())
        return NULL;
    memory = calloc(1, size == 0 ? 1 : size);
    if (memory != NULL)
        count_live(1);
    return memory;
}

void *ks_realloc(void *memory, size_t size)
{
    void *moved;

    if (!may_allocate())
        return NULL;
    moved = realloc(memory, size == 0 ? 1 : size);
    if (moved != NULL && memory == NULL)
        count_live(1);
    return moved;
}

void ks_free(void *memory)
{
    if (memory == NULL)
        return;
    count_live(-1);
    free(memory);
}

char *ks_strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = ks_realloc(NULL, size);

    if (copy != NULL)
        memcpy(copy, text, size);
    return copy;
}

void ks_alloc_fail_after(uint64_t n, int then_all)
{
    uint64_t now = __atomic_load_n(&allocations, __ATOMIC_RELAXED);

    __atomic_store_n(&fail_all_later, then_all, __ATOMIC_RELAXED);
    __atomic_store_n(&fail_at, n == 0 ? 0 : now + n, __ATOMIC_RELAXED);
}

uint64_t ks_alloc_count(void)
{
    return __atomic_load_n(&allocations, __ATOMIC_RELAXED);
}

int64_t ks_alloc_live(void)
{
    return __atomic_load_n(&live, __ATOMIC_RELAXED);
}

/* The largest block that glibc will take from its heap; larger ones are mapped, and unmapped. */
enum { MAPPED_FROM_MAX = 32 << 20 };

#ifdef __GLIBC__
void ks_alloc_keep(size_t bytes)
{
    int keep = bytes < INT_MAX ? (int)bytes : INT_MAX;

    (void)mallopt(M_MMAP_THRESHOLD, keep < MAPPED_FROM_MAX ? keep : MAPPED_FROM_MAX);
    (void)mallopt(M_TRIM_THRESHOLD, keep);
}

size_t ks_alloc_used(void)
{
    return mallinfo2().uordblks;
}

void ks_alloc_give_back(size_t bytes)
{
    if (mallinfo2().fordblks > bytes)
        (void)malloc_trim(bytes);
}
#else
void ks_alloc_keep(size_t bytes)
{
    (void)bytes;
}

size_t ks_alloc_used(void)
{
    return 0;
}

void ks_alloc_give_back(size_t bytes)
{
    (void)bytes;
}
#endif

void ks_budget_pool_init(struct ks_budget_pool *pool, size_t limit, uint32_t members)
{
    assert(members > 0);
    *pool = (struct ks_budget_pool){.limit = limit};
    pool->own = members == 1 ? limit : limit / 2 / members;
    pool->common = limit - pool->own * members;
}

void ks_budget_join(struct ks_budget *budget, struct ks_budget_pool *pool)
{
    *budget = (struct ks_budget){.limit = pool->own + pool->common, .pool = pool};
}

size_t ks_budget_pool_most(struct ks_budget_pool *pool)
{
    size_t most = pool->most;

    pool->most = pool->used;
    return most;
}

/* What it has of the common part. */
static size_t beyond_own(const struct ks_budget *budget)
{
    return budget->used > budget->pool->own ? budget->used - budget->pool->own : 0;
}

size_t ks_budget_allowed(const struct ks_budget *budget)
{
    const struct ks_budget_pool *pool = budget->pool;
    size_t others;

    if (pool == NULL)
        return budget->limit;
    assert(pool->common_used >= beyond_own(budget));
    others = pool->common_used - beyond_own(budget);
    return others < pool->common ? budget->limit - others : pool->own;
}

static void set_used(struct ks_budget *budget, size_t used)
{
    struct ks_budget_pool *pool = budget->pool;

    if (pool != NULL) {
        pool->used -= budget->used;
        pool->common_used -= beyond_own(budget);
    }
    budget->used = used;
    if (pool != NULL) {
        pool->used += budget->used;
        pool->most = pool->used > pool->most ? pool->used : pool->most;
        pool->common_used += beyond_own(budget);
    }
}

static void charge(struct ks_budget *budget, size_t size)
{
    if (budget == NULL)
        return;
    set_used(budget, budget->used + size);
    if (budget->used > budget->most)
        budget->most = budget->used;
}

static void refund(struct ks_budget *budget, size_t size)
{
    if (budget == NULL)
        return;
    assert(budget->used >= size);
    set_used(budget, budget->used - size);
}

static bool has_room(const struct ks_budget *budget, size_t size)
{
    size_t allowed = ks_budget_allowed(budget);

    return budget->used <= allowed && size <= allowed - budget->used;
}

ks_err ks_block_new(struct ks_budget *budget, size_t capacity, struct ks_block **ret_block)
{
    if (budget != NULL && !has_room(budget, capacity))
        return KS_FAIL(FULL);
    return ks_block_force(budget, capacity, ret_block);
}

ks_err ks_block_force(struct ks_budget *budget, size_t capacity, struct ks_block **ret_block)
{
    struct ks_block *block;

    if (capacity > PTRDIFF_MAX - sizeof(*block))
        return KS_FAIL(NO_MEMORY);
    /* Not zeroed: payload is written once, where it is sent from. */
    block = ks_realloc(NULL, sizeof(*block) + capacity);
    if (block == NULL)
        return KS_FAIL(NO_MEMORY);

    *block = (struct ks_block){.budget = budget, .users = 1, .capacity = capacity};
    charge(budget, capacity);
    *ret_block = block;
    return KS_OK;
}

struct ks_block *ks_block_trim(struct ks_block *block)
{
    struct ks_block *moved;
    size_t unused = block->capacity - block->size;

    assert(block->users == 1);
    assert(block->size <= block->capacity);
    if (unused == 0)
        return block;
    moved = ks_realloc(block, sizeof(*block) + block->size);
    if (moved == NULL)
        return block;

    moved->capacity = moved->size;
    refund(moved->budget, unused);
    return moved;
}

void ks_block_discharge(struct ks_block *block)
{
    refund(block->budget, block->capacity);
    block->budget = NULL;
}

void ks_block_use(struct ks_block *block)
{
    assert(block->users > 0);
    assert(block->users < UINT32_MAX);
    block->users++;
}

void ks_block_drop(struct ks_block *block)
{
    if (block == NULL)
        return;
    assert(block->users > 0);
    block->users--;
    if (block->users > 0)
        return;

    refund(block->budget, block->capacity);
    ks_free(block);
}
