/* SPDX-License-Identifier: Apache-2.0 */
#include "api/arena.h"

#include <assert.h>
#include <stdalign.h>

#include "base/budget.h"

/* Blocks of this size, or of one large piece. */
enum { BLOCK_BYTES = 8 << 10 };

struct ks_arena_block {
    struct ks_arena_block *next;
    size_t size;
    alignas(max_align_t) uint8_t data[];
};

void ks_arena_init(struct ks_arena *arena, size_t max)
{
    *arena = (struct ks_arena){.max = max};
}

void ks_arena_free(struct ks_arena *arena)
{
    while (arena->blocks != NULL) {
        struct ks_arena_block *block = arena->blocks;
        arena->blocks = block->next;
        ks_free(block);
    }
    ks_arena_init(arena, arena->max);
}

void *ks_arena_take(struct ks_arena *arena, size_t size)
{
    struct ks_arena_block *block = arena->blocks;

    if (size > arena->max)
        return NULL;
    size = (size + alignof(max_align_t) - 1) / alignof(max_align_t) * alignof(max_align_t);
    if (size > arena->max - arena->used)
        return NULL;
    if (size > arena->left) {
        size_t capacity = size > BLOCK_BYTES ? size : BLOCK_BYTES;
        block = ks_alloc(sizeof(*block) + capacity);
        if (block == NULL)
            return NULL;
        block->next = arena->blocks;
        block->size = capacity;
        arena->blocks = block;
        arena->left = capacity;
    }
    assert(block != NULL || size == 0);
    if (block == NULL)
        return NULL;
    arena->used += size;
    arena->left -= size;
    return block->data + block->size - arena->left - size;
}

char *ks_arena_text(struct ks_arena *arena, ks_view text)
{
    char *copy = ks_arena_take(arena, text.size + 1);

    if (copy != NULL && text.size > 0)
        memcpy(copy, text.data, text.size);
    return copy;
}
