/* SPDX-License-Identifier: Apache-2.0 */
/* look.h - what a running sidecar says of itself, as messages, for the subcommands that show it to people.
 *
 * They ask the REST routes for protobuf: a member that a newer sidecar has more is passed over.
 */
#ifndef KS_MAIN_LOOK_H
#define KS_MAIN_LOOK_H

#include "api/message.h"
#include "api/spelling.h"
#include "main/call.h"

enum {
    KS_LOOK_TOKEN_SIZE = 256, /* A page token is a number today. */
    KS_LOOK_PAGES_MAX = 1000  /* Of one list: 65,536 shards, the most there can be, are seven. */
};

/* GET `path`, which may have a query where there is no part, with `part` (NULL: none) percent-encoded behind it, of
 * `subscription` (NULL: it is not said). The message lives as long as the arena, which begins here and is the caller's
 * to free in any case. False: it complained. */
bool ks_look(const struct ks_call *call, const char *path, const char *part,
             const char *subscription, const ProtobufCMessageDescriptor *type,
             struct ks_arena *arena, ProtobufCMessage **ret_message);

/* POST `body`, a JSON object, to `path`; the rest as ks_look has it. */
bool ks_look_order(const struct ks_call *call, const char *path, const char *subscription,
                   ks_view body, const ProtobufCMessageDescriptor *type, struct ks_arena *arena,
                   ProtobufCMessage **ret_message);

/* Every page of a list, of `page_size` rows (1 to KS_PAGE_SIZE_MAX), in order: `page` is given each,
 * which lives as long as the call. False: it complained, also of more than KS_LOOK_PAGES_MAX; some
 * pages may have been given. */
bool ks_look_pages(const struct ks_call *call, const char *path, const char *subscription,
                   uint32_t page_size, const ProtobufCMessageDescriptor *type,
                   void (*page)(void *arg, const ProtobufCMessage *message), void *arg);

/* The word of an enum's value as REST has it: "held"; "" for none, "?" for one that a newer sidecar has more. */
void ks_look_word(const ProtobufCEnumDescriptor *type, int value, char ret_word[KS_JSON_WORD_MAX]);

#endif
