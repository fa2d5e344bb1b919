/* SPDX-License-Identifier: Apache-2.0 */
#include "api/arena.h"
#include "base/budget.h"
#include "ks_test.h"

#include <stdalign.h>

TEST(memory_is_zeroed_aligned_and_capped)
{
    struct ks_arena arena;

    ks_arena_init(&arena, 1 << 20);
    for (size_t size = 1; size < 20000; size = size * 3 + 1) {
        uint8_t *memory = ks_arena_take(&arena, size);
        EXPECT(memory != NULL);
        EXPECT_EQ_U64((uintptr_t)memory % alignof(max_align_t), 0);
        for (size_t i = 0; i < size; i++)
            EXPECT(memory[i] == 0);
        memset(memory, 0xFF, size);
    }
    EXPECT(ks_arena_take(&arena, 1 << 20) == NULL);
    EXPECT(ks_arena_take(&arena, SIZE_MAX - 3) == NULL);
    ks_arena_free(&arena);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(a_text_gets_its_nul)
{
    struct ks_arena arena;

    ks_arena_init(&arena, 100);
    EXPECT_STR(ks_arena_text(&arena, KS_VIEW("text")), "text");
    EXPECT_STR(ks_arena_text(&arena, KS_VIEW_NONE), "");
    EXPECT(ks_arena_text(&arena, ks_view_of("", 100)) == NULL);
    ks_arena_free(&arena);
}
