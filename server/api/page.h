/* SPDX-License-Identifier: Apache-2.0 */
/* page.h - lists in pages: page_size and page_token; and rows that are fresh enough to be told. */
#ifndef KS_API_PAGE_H
#define KS_API_PAGE_H

#include "api/message.h"

/* A page that is being filled. The token is the index of the next row: rows keep their place while
 * the process lives. */
struct ks_page {
    uint32_t next;  /* The row to look at. */
    uint32_t room;  /* Rows that still fit. */
    char token[16]; /* Of the next page, or "". */
};

typedef KinesisSidecar__V1__PageRequest ks_pb_page_request;

/* Makes a request of the query, and has it handled. */
void ks_page_serve(struct ks_exchange *exchange, ks_message_handler *handler);
/* False if the exchange was answered with a problem. */
bool ks_page_read(struct ks_exchange *exchange, const ks_pb_page_request *request,
                  struct ks_page *ret_page);
/* Answers a question, with the part of the rows that it is about. */
typedef void ks_rows_answer(struct ks_exchange *exchange, const struct ks_page *page);
/* Has it answered when what is known of shards and leases may be told: now, or in a later turn, for only a leader looks
 * at all of them all the time. The exchange's context is used meanwhile. */
void ks_page_when_fresh(struct ks_exchange *exchange, const struct ks_page *page,
                        ks_rows_answer *answer);
/* The same for a message that names shards: true if it waits, because one of them is not known and nobody has looked
 * lately. Then the arena is moved, and `handler` handles the message anew, without an arena; what a call says meanwhile
 * comes behind it. */
bool ks_page_shards_wait(struct ks_exchange *exchange, char *const *shards, size_t count,
                         const ProtobufCMessage *message, struct ks_arena *arena,
                         ks_message_handler *handler);
/* The page is full and row `index` is there: the next page begins with it. */
void ks_page_end(struct ks_page *page, uint32_t index);

#endif
