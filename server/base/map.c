/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"

#include <assert.h>

/* FNV-1a, 64 bits, folded to 32 (Fowler, Noll, Vo; draft-eastlake-fnv). */
static uint32_t hash_of(ks_view key)
{
    uint64_t hash = UINT64_C(0xCBF29CE484222325);

    for (size_t i = 0; i < key.size; i++)
        hash = (hash ^ key.data[i]) * UINT64_C(0x100000001B3);
    return (uint32_t)(hash ^ hash >> 32);
}

static bool same(ks_view a, ks_view b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static uint32_t home_of(const struct ks_map *map, ks_view key)
{
    return hash_of(key) & (map->capacity - 1);
}

static uint32_t next_of(const struct ks_map *map, uint32_t slot)
{
    return (slot + 1) & (map->capacity - 1);
}

void ks_map_init(struct ks_map *map, uint32_t *slots, uint32_t capacity,
                 ks_view (*key)(const void *owner, uint32_t number), const void *owner)
{
    assert(capacity >= 2);
    assert((capacity & (capacity - 1)) == 0);

    *map = (struct ks_map){.slots = slots, .capacity = capacity, .key = key, .owner = owner};
}

bool ks_map_find(const struct ks_map *map, ks_view key, uint32_t *ret_number)
{
    uint32_t slot = home_of(map, key);

    /* Half of the slots are empty, so this ends. */
    while (map->slots[slot] != 0) {
        uint32_t number = map->slots[slot] - 1;
        if (same(map->key(map->owner, number), key)) {
            *ret_number = number;
            return true;
        }
        slot = next_of(map, slot);
    }
    return false;
}

ks_err ks_map_add(struct ks_map *map, uint32_t number)
{
    ks_view key = map->key(map->owner, number);
    uint32_t slot = home_of(map, key);

    if (map->count >= map->capacity / 2)
        return KS_FAIL(FULL);
    while (map->slots[slot] != 0) {
        assert(!same(map->key(map->owner, map->slots[slot] - 1), key));
        slot = next_of(map, slot);
    }
    map->slots[slot] = number + 1;
    map->count++;
    return KS_OK;
}

/* Fills the hole with what may stand there: an entry whose home does not lie between the hole and itself. */
static void close_hole(struct ks_map *map, uint32_t hole)
{
    uint32_t mask = map->capacity - 1;

    for (uint32_t slot = next_of(map, hole); map->slots[slot] != 0; slot = next_of(map, slot)) {
        uint32_t home = home_of(map, map->key(map->owner, map->slots[slot] - 1));
        if (((slot - home) & mask) >= ((slot - hole) & mask)) {
            map->slots[hole] = map->slots[slot];
            hole = slot;
        }
    }
    map->slots[hole] = 0;
}

void ks_map_remove(struct ks_map *map, uint32_t number)
{
    uint32_t slot = home_of(map, map->key(map->owner, number));

    while (map->slots[slot] != 0 && map->slots[slot] != number + 1)
        slot = next_of(map, slot);
    if (map->slots[slot] == 0)
        return;
    assert(map->count > 0);
    map->count--;
    close_hole(map, slot);
}
