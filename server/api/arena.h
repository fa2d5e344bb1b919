/* SPDX-License-Identifier: Apache-2.0 */
/* arena.h - memory that lives as long as one request is worked on, with a cap.
 *
 * Whoever parses bytes from outside takes memory here: a small body that asks for much (a megabyte
 * of empty messages is seventy in memory) meets the cap, not the process's limit. */
#ifndef KS_API_ARENA_H
#define KS_API_ARENA_H

#include <stddef.h>

#include "base/bytes.h"

struct ks_arena_block;

struct ks_arena {
    struct ks_arena_block *blocks;
    size_t left; /* Of the newest block. */
    size_t used;
    size_t max;
};

/* Begins empty, without memory. `max` is in bytes. */
void ks_arena_init(struct ks_arena *arena, size_t max);
/* Gives everything back; afterwards it is as after init. */
void ks_arena_free(struct ks_arena *arena);
/* Zeroed, aligned for any type. NULL beyond the cap, and when the system has none. */
void *ks_arena_take(struct ks_arena *arena, size_t size);
/* A copy of the text with a NUL, or NULL. */
char *ks_arena_text(struct ks_arena *arena, ks_view text);

#endif
