/* SPDX-License-Identifier: Apache-2.0 */
#include "base/map.h"

#include "base/prng.h"
#include "ks_test.h"

#include <stdio.h>

enum { NAMES = 64 };

struct owner {
    char names[NAMES][16];
};

static ks_view key_of(const void *owner, uint32_t number)
{
    const struct owner *names = owner;

    return ks_view_text(names->names[number]);
}

static void name_all(struct owner *owner)
{
    for (uint32_t i = 0; i < NAMES; i++)
        snprintf(owner->names[i], sizeof(owner->names[i]), "shard-%u", i);
}

TEST(what_was_added_is_found_under_its_name)
{
    struct owner owner;
    uint32_t slots[128] = {0};
    struct ks_map map;
    uint32_t number;

    name_all(&owner);
    ks_map_init(&map, slots, 128, key_of, &owner);
    for (uint32_t i = 0; i < NAMES; i++)
        EXPECT_OK(ks_map_add(&map, i));
    for (uint32_t i = 0; i < NAMES; i++) {
        EXPECT(ks_map_find(&map, key_of(&owner, i), &number));
        EXPECT_EQ_U64(number, i);
    }
    number = 99;
    EXPECT(!ks_map_find(&map, KS_VIEW("shard-64"), &number));
    EXPECT(!ks_map_find(&map, KS_VIEW_NONE, &number));
    EXPECT_EQ_U64(number, 99);
}

TEST(half_of_the_slots_stay_empty)
{
    struct owner owner;
    uint32_t slots[4] = {0};
    struct ks_map map;

    name_all(&owner);
    ks_map_init(&map, slots, 4, key_of, &owner);
    EXPECT_OK(ks_map_add(&map, 0));
    EXPECT_OK(ks_map_add(&map, 1));
    EXPECT(ks_err_is(ks_map_add(&map, 2), KS_ERR_FULL));
    ks_map_remove(&map, 0);
    EXPECT_OK(ks_map_add(&map, 2));
}

TEST(removing_what_is_not_there_does_nothing)
{
    struct owner owner;
    uint32_t slots[16] = {0};
    struct ks_map map;
    uint32_t number;

    name_all(&owner);
    ks_map_init(&map, slots, 16, key_of, &owner);
    EXPECT_OK(ks_map_add(&map, 3));
    ks_map_remove(&map, 4);
    EXPECT_EQ_U64(map.count, 1);
    EXPECT(ks_map_find(&map, KS_VIEW("shard-3"), &number));
}

/* Long chains in a small table: each removal must leave every other entry where it is found. */
TEST(it_agrees_with_a_plain_array_under_random_changes)
{
    struct owner owner;
    uint32_t slots[128] = {0};
    struct ks_map map;
    struct ks_prng prng;
    bool there[NAMES] = {false};
    uint32_t count = 0;

    name_all(&owner);
    ks_prng_init(&prng, 1);
    ks_map_init(&map, slots, 128, key_of, &owner);
    for (int step = 0; step < 20000; step++) {
        uint32_t number = (uint32_t)ks_prng_below(&prng, NAMES);
        uint32_t found = NAMES;
        if (there[number]) {
            ks_map_remove(&map, number);
            count--;
        } else {
            EXPECT_OK(ks_map_add(&map, number));
            count++;
        }
        there[number] = !there[number];
        EXPECT_EQ_U64(map.count, count);
        number = (uint32_t)ks_prng_below(&prng, NAMES);
        EXPECT(ks_map_find(&map, key_of(&owner, number), &found) == there[number]);
        EXPECT(!there[number] || found == number);
    }
}
