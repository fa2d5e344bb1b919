/* SPDX-License-Identifier: Apache-2.0 */
#include "base/list.h"

#include "ks_test.h"

struct item {
    int number;
    struct ks_link link;
};

static int number_of(struct ks_link *link)
{
    return KS_LIST_ENTRY(link, struct item, link)->number;
}

TEST(items_come_in_the_order_in_which_they_were_appended)
{
    struct item items[3] = {{.number = 1}, {.number = 2}, {.number = 3}};
    struct ks_link head, *cursor, *after;
    int expected = 1;

    ks_link_init(&head);
    EXPECT(ks_list_empty(&head));
    for (int i = 0; i < 3; i++)
        ks_list_append(&head, &items[i].link);
    EXPECT(!ks_list_empty(&head));
    KS_LIST_EACH(cursor, after, &head)
    EXPECT_EQ_I64(number_of(cursor), expected++);
    EXPECT_EQ_I64(expected, 4);
}

TEST(the_current_item_may_leave_and_leaving_twice_does_no_harm)
{
    struct item items[4] = {{.number = 0}, {.number = 1}, {.number = 2}, {.number = 3}};
    struct ks_link head, *cursor, *after;
    int seen = 0;

    ks_link_init(&head);
    for (int i = 0; i < 4; i++)
        ks_list_append(&head, &items[i].link);
    KS_LIST_EACH(cursor, after, &head)
    {
        seen++;
        if (number_of(cursor) % 2 == 0)
            ks_list_remove(cursor);
    }
    EXPECT_EQ_I64(seen, 4);
    ks_list_remove(&items[0].link);
    EXPECT(head.next == &items[1].link);
    EXPECT(head.next->next == &items[3].link);
    EXPECT(head.previous == &items[3].link);
    ks_list_remove(&items[1].link);
    ks_list_remove(&items[3].link);
    EXPECT(ks_list_empty(&head));
}
