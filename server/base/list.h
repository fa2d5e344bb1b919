/* SPDX-License-Identifier: Apache-2.0 */
/* list.h - an intrusive, circular, doubly linked list.
 *
 * A head is a link that points at itself when empty. A link that is in no list points at itself too (after
 * ks_link_init), so that leaving twice does no harm. Pure; owns nothing.
 */
#ifndef KS_BASE_LIST_H
#define KS_BASE_LIST_H

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

static inline bool ks_list_empty(const struct ks_link *head)
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

/* The struct of type `type` whose member `member` is `link`. */
#define KS_LIST_ENTRY(link, type, member) ((type *)(void *)((char *)(link)-offsetof(type, member)))

/* Walks the list; the current link may be removed. Both cursors are declared by the caller. */
#define KS_LIST_EACH(cursor, after, head)                                                          \
    for ((cursor) = (head)->next, (after) = (cursor)->next; (cursor) != (head);                    \
         (cursor) = (after), (after) = (cursor)->next)

#endif
