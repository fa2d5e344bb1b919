/* SPDX-License-Identifier: Apache-2.0 */
#include "ports/names.h"

#include "base/budget.h"
#include "ks_test.h"

#include <stdio.h>

static const ks_instant now = {1000};

static uint32_t add(struct ks_names *names, const char *text, ks_instant at)
{
    uint32_t number = UINT32_MAX;

    EXPECT_OK(ks_names_add(names, ks_view_text(text), at, &number));
    return number;
}

static void count_freed(void *arg, uint32_t number)
{
    uint32_t *last = arg;

    *last = number;
}

TEST(a_name_keeps_its_number)
{
    struct ks_names names;
    uint32_t number;

    EXPECT_OK(ks_names_init(&names, 1, 5, 16));
    EXPECT_EQ_U64(add(&names, "pod-a", now), 1);
    EXPECT_EQ_U64(add(&names, "pod-b", now), 2);
    EXPECT_EQ_U64(add(&names, "pod-a", now), 1);
    EXPECT(ks_names_find(&names, ks_view_text("pod-b"), &number));
    EXPECT_EQ_U64(number, 2);
    EXPECT(!ks_names_find(&names, ks_view_text("pod-c"), &number));
    EXPECT_STR(ks_names_text(&names, 2), "pod-b");
    ks_names_free(&names);
}

TEST(numbers_without_a_name_are_empty)
{
    struct ks_names names;

    EXPECT_OK(ks_names_init(&names, 1, 5, 16));
    (void)add(&names, "pod-a", now);
    EXPECT_STR(ks_names_text(&names, 0), "");
    EXPECT_STR(ks_names_text(&names, 2), "");
    EXPECT_STR(ks_names_text(&names, 99), "");
    EXPECT_STR(ks_names_text(&names, UINT32_MAX), "");
    ks_names_free(&names);
}

TEST(what_is_no_name_is_refused)
{
    struct ks_names names;
    uint32_t number;

    EXPECT_OK(ks_names_init(&names, 0, 4, 4));
    EXPECT_ERR(ks_names_add(&names, KS_VIEW_NONE, now, &number), INVALID);
    EXPECT_ERR(ks_names_add(&names, KS_VIEW("12345"), now, &number), INVALID);
    EXPECT_ERR(ks_names_add(&names, ks_view_of("a\0b", 3), now, &number), INVALID);
    EXPECT_OK(ks_names_add(&names, KS_VIEW("1234"), now, &number));
    EXPECT_STR(ks_names_text(&names, number), "1234");
    ks_names_free(&names);
}

TEST(a_full_table_says_so_and_a_sweep_makes_room)
{
    struct ks_names names;
    uint32_t freed = 0;
    uint32_t number;

    EXPECT_OK(ks_names_init(&names, 1, 4, 16));
    (void)add(&names, "a", now);
    (void)add(&names, "b", now);
    (void)add(&names, "c", now);
    EXPECT_ERR(ks_names_add(&names, KS_VIEW("d"), now, &number), FULL);

    ks_names_touch(&names, 1, (ks_instant){5000});
    ks_names_touch(&names, 3, (ks_instant){5000});
    ks_names_sweep(&names, (ks_instant){5000}, count_freed, &freed);
    EXPECT_EQ_U64(freed, 2);
    EXPECT_STR(ks_names_text(&names, 2), "");
    EXPECT(!ks_names_find(&names, KS_VIEW("b"), &number));

    EXPECT_EQ_U64(add(&names, "d", now), 2);
    EXPECT(ks_names_find(&names, KS_VIEW("a"), &number));
    EXPECT(ks_names_find(&names, KS_VIEW("c"), &number));
    EXPECT_EQ_U64(number, 3);
    ks_names_free(&names);
}

TEST(a_handle_means_one_life_of_a_number)
{
    struct ks_names names;
    uint32_t freed = 0;
    uint32_t first;
    uint32_t second;

    EXPECT_OK(ks_names_init(&names, 0, 1, 16));
    EXPECT(ks_names_room(&names));
    first = ks_names_handle(&names, add(&names, "a", now));
    EXPECT_EQ_U64(first, 0);
    EXPECT_EQ_U64(ks_names_number(&names, first), 0);
    EXPECT(!ks_names_room(&names));

    ks_names_sweep(&names, (ks_instant){5000}, count_freed, &freed);
    EXPECT(ks_names_room(&names));
    EXPECT_EQ_U64(ks_names_handle(&names, 0), KS_NAMES_NONE);
    EXPECT_EQ_U64(ks_names_number(&names, first), KS_NAMES_NONE);

    second = ks_names_handle(&names, add(&names, "b", now));
    EXPECT_EQ_U64(second, 1U << 16);
    EXPECT_EQ_U64(ks_names_number(&names, second), 0);
    EXPECT_EQ_U64(ks_names_number(&names, first), KS_NAMES_NONE);
    EXPECT_EQ_U64(ks_names_number(&names, KS_NAMES_NONE), KS_NAMES_NONE);
    EXPECT_EQ_U64(ks_names_handle(&names, 1), KS_NAMES_NONE);
    ks_names_free(&names);
}

TEST(a_thousand_names_come_and_go)
{
    struct ks_names names;
    uint32_t freed = 0;
    char text[16];

    EXPECT_OK(ks_names_init(&names, 0, 10, 15));
    for (int64_t i = 0; i < 1000; i++) {
        if (i % 10 == 0)
            ks_names_sweep(&names, (ks_instant){i}, count_freed, &freed);
        (void)snprintf(text, sizeof text, "pod-%d", (int)i);
        EXPECT_STR(ks_names_text(&names, add(&names, text, (ks_instant){i})), text);
    }
    EXPECT_EQ_U64(names.map.count, 10);
    ks_names_free(&names);
}

TEST(no_memory_leaves_nothing_behind)
{
    for (uint64_t n = 1; n <= 3; n++) {
        struct ks_names names;
        int64_t live = ks_alloc_live();

        ks_alloc_fail_after(n, 0);
        EXPECT_ERR(ks_names_init(&names, 0, 10, 15), NO_MEMORY);
        ks_alloc_fail_after(0, 0);
        EXPECT_EQ_I64(ks_alloc_live(), live);
    }
}
