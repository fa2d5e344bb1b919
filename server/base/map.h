/* SPDX-License-Identifier: Apache-2.0 */
/* map.h - names to small numbers: an open-addressing table over text keys. Pure, no memory of its own.
 *
 * The caller gives the slots; keys are copied nowhere: each entry holds the number of an entry in the caller's array,
 * and the caller compares. Deterministic: FNV-1a, linear probing, backward-shift deletion.
 */
#ifndef KS_BASE_MAP_H
#define KS_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

struct ks_map {
    uint32_t *slots;   /* Number + 1, or 0. */
    uint32_t capacity; /* A power of two, at least twice the entries. */
    uint32_t count;
    /* The key of entry `number` of the caller's array. */
    ks_view (*key)(const void *owner, uint32_t number);
    const void *owner;
};

/* `slots` must be zeroed and stay where they are. */
void ks_map_init(struct ks_map *map, uint32_t *slots, uint32_t capacity,
                 ks_view (*key)(const void *owner, uint32_t number), const void *owner);
/* False if there is none. */
bool ks_map_find(const struct ks_map *map, ks_view key, uint32_t *ret_number);
/* The key must not be there yet, and the entry must answer key() already. FULL when half of the slots are used. */
KS_MUST_USE ks_err ks_map_add(struct ks_map *map, uint32_t number);
/* Before the entry's key is changed. Does nothing if it is not there. */
void ks_map_remove(struct ks_map *map, uint32_t number);

#endif
