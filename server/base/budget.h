/* SPDX-License-Identifier: Apache-2.0 */
/* budget.h - the one home of memory: malloc, and the byte budget that payload lives under.
 *
 * Nothing else in the house calls malloc. A budget counts bytes against a limit; a block is reference-counted payload
 * memory charged to a budget. Budgets that share a pool have each a part of it for themselves; the other half is
 * common, for whoever comes first: none starves, and one that is alone with its work has more than the half.
 * Memory that runs out is flow control (FULL, NO_MEMORY), never an abort. Tests may make the n-th allocation fail
 * (ks_alloc_fail_after). Jobs may call ks_alloc and its kin; budgets and the counts of blocks belong to the
 * loop thread.
 */
#ifndef KS_BASE_BUDGET_H
#define KS_BASE_BUDGET_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* `size` zeroed bytes, or NULL. The caller frees them with ks_free. */
void *ks_alloc(size_t size);
/* As realloc: keeps the content, new bytes are not zeroed; NULL leaves the old block as it was. */
void *ks_realloc(void *memory, size_t size);
void ks_free(void *memory);
/* A copy of `text`, or NULL. */
char *ks_strdup(const char *text);

/* For tests: the n-th allocation from now fails (n = 1 is the next one), and `then_all` every later one too. 0 ends
 * it. */
void ks_alloc_fail_after(uint64_t n, int then_all);
/* Allocations made so far, and those not yet freed: for leak checks. */
uint64_t ks_alloc_count(void);
int64_t ks_alloc_live(void);
/* From now on up to so many freed bytes stay with the process, for the next ones. Payload comes and goes in blocks of
 * up to megabytes: to get their pages anew from the kernel costs as much as to read what is in them. Elsewhere than on
 * glibc nothing changes. */
void ks_alloc_keep(size_t bytes);
/* Bytes that everybody in the process has in use, libraries included, as the allocator counts them; what is free, and
 * large blocks that it maps, aside. Elsewhere than on glibc 0. */
size_t ks_alloc_used(void);
/* If more than `bytes` of the heap are free, gives their pages back to the kernel, wherever they lie: by itself the
 * allocator gives back only what lies behind everything that is in use. About 0.2 ms a MB. Elsewhere
 * than on glibc nothing happens. */
void ks_alloc_give_back(size_t bytes);

struct ks_budget_pool {
    size_t limit; /* Of all members. */
    size_t own;   /* Of each, for itself. */
    size_t used;
    size_t most;        /* Of `used`, since ks_budget_pool_most. */
    size_t common;      /* Which nobody has for himself. */
    size_t common_used; /* Beyond it after a ks_block_force. */
};

struct ks_budget {
    size_t limit; /* In a pool: its own, and all that is common. */
    size_t used;
    size_t most;                 /* High-water mark of `used`. */
    struct ks_budget_pool *pool; /* NULL: the limit is all there is. */
};

/* `members` budgets will join, at least 1. */
void ks_budget_pool_init(struct ks_budget_pool *pool, size_t limit, uint32_t members);
/* Instead of ks_budget_init. The pool outlives the budget. */
void ks_budget_join(struct ks_budget *budget, struct ks_budget_pool *pool);
/* The most that all members together held since the last call. */
size_t ks_budget_pool_most(struct ks_budget_pool *pool);
/* Bytes that the budget may hold now, what it holds included: its limit, less what others have of the common part. */
size_t ks_budget_allowed(const struct ks_budget *budget);

static inline void ks_budget_init(struct ks_budget *budget, size_t limit)
{
    *budget = (struct ks_budget){.limit = limit};
}

/* Payload memory with a count of its users. Made with one user. Lives on the loop thread, but may be filled by a job
 * before anyone else sees it. */
struct ks_block {
    struct ks_budget *budget;
    uint32_t users;
    size_t size;     /* Bytes in use. */
    size_t capacity; /* Bytes there are, and charged. */
    uint8_t data[];
};

/* FULL if the budget has no room for `capacity` bytes, NO_MEMORY if the system has none. A NULL budget charges
 * nobody. */
KS_MUST_USE ks_err ks_block_new(struct ks_budget *budget, size_t capacity,
                                struct ks_block **ret_block);
/* As ks_block_new, and charged even beyond the limit: for the little without which much could not leave. NO_MEMORY. */
KS_MUST_USE ks_err ks_block_force(struct ks_budget *budget, size_t capacity,
                                  struct ks_block **ret_block);
/* Returns the unused end of a block with a single user to the system and to the budget. May move it. */
struct ks_block *ks_block_trim(struct ks_block *block);
/* The block counts against no budget any more: for memory that somebody else still writes to. */
void ks_block_discharge(struct ks_block *block);
void ks_block_use(struct ks_block *block);
/* One user less; the last one frees it. NULL is allowed. */
void ks_block_drop(struct ks_block *block);

#endif
