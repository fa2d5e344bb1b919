/* SPDX-License-Identifier: Apache-2.0 */
/* list.h - an intrusive, circular, doubly linked list.
 *
 * A head that is empty, and a link that is in no list, point at themselves: removing a link
 * twice does no harm.
 */
#ifndef KS_LIST_H
#define KS_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct ks_link {
    struct ks_link *next;
    struct ks_link *previous;
};

static inline void ks_link_init(struct ks_link *link)
{
    link->next = link;
    link->previous = link;
}

static inline bool ks_list_is_empty(const struct ks_link *head)
{
    return head->next == head;
}

/* Puts `link`, which is in no list, at the end. */
static inline void ks_list_append(struct ks_link *head, struct ks_link *link)
{
    link->previous = head->previous;
    link->next = head;
    head->previous->next = link;
    head->previous = link;
}

static inline void ks_list_remove(struct ks_link *link)
{
    link->previous->next = link->next;
    link->next->previous = link->previous;
    ks_link_init(link);
}

/* Removes the first link and returns it; NULL: the list is empty. */
static inline struct ks_link *ks_list_take(struct ks_link *head)
{
    struct ks_link *first = head->next;

    if (first == head)
        return NULL;
    ks_list_remove(first);
    return first;
}

/* Moves all links of `from` to the end of `head`. */
static inline void ks_list_move(struct ks_link *head, struct ks_link *from)
{
    if (ks_list_is_empty(from))
        return;
    from->next->previous = head->previous;
    head->previous->next = from->next;
    from->previous->next = head;
    head->previous = from->previous;
    ks_link_init(from);
}

/* The struct of type `type` whose member `member` is `link`. */
#define KS_LIST_ENTRY(link, type, member) ((type *)(void *)((char *)(link)-offsetof(type, member)))

/* Walks the list; the current link may be removed. The caller declares both cursors. */
#define KS_LIST_EACH(cursor, after, head)                                                          \
    for ((cursor) = (head)->next, (after) = (cursor)->next; (cursor) != (head);                    \
         (cursor) = (after), (after) = (cursor)->next)

#endif
