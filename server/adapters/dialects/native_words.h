/* SPDX-License-Identifier: Apache-2.0 */
/* native_words.h - what stands in the attributes of our own table: the writers and readers of each
 * word, side by side.
 *
 * For native.c and native_rows.c alone; the formats are described in native.h. Writers append to a
 * buffer, readers take a text that may be anything. Pure.
 */
#ifndef KS_ADAPTERS_DIALECTS_NATIVE_WORDS_H
#define KS_ADAPTERS_DIALECTS_NATIVE_WORDS_H

#include "adapters/item.h"
#include "ports/lease_store.h"

/*    index           name                 type */
#define KS_NATIVE_ATTRIBUTES(X)                                                                    \
    X(BOOT, "boot", TEXT)                                                                          \
    X(LIFE, "life", TEXT)                                                                          \
    X(MODE, "mode", TEXT)                                                                          \
    X(BEAT, "beat", NUMBER)                                                                        \
    X(HELD, "held", NUMBER)                                                                        \
    X(CHANGES, "changes", NUMBER)                                                                  \
    X(CAPACITY, "capacity", NUMBER)                                                                \
    X(LOAD, "load", NUMBER)                                                                        \
    X(VERSION, "version", TEXT)                                                                    \
    X(GIVE, "give", SET)                                                                           \
    X(TAKE, "take", SET)                                                                           \
    X(HOLDER, "holder", TEXT)                                                                      \
    X(EPOCH, "epoch", NUMBER)                                                                      \
    X(DEPUTIES, "deputies", SET)                                                                   \
    X(START, "start", TEXT)                                                                        \
    X(START_SUB, "start_sub", NUMBER)                                                              \
    X(START_MS, "start_ms", NUMBER)                                                                \
    X(STREAM_ARN, "stream_arn", TEXT)                                                              \
    X(STREAM_CREATED, "stream_created_ms", NUMBER)                                                 \
    X(OWNER, "owner", TEXT)                                                                        \
    X(NEXT_OWNER, "next_owner", TEXT)                                                              \
    X(REV, "rev", NUMBER)                                                                          \
    X(CHECKPOINT, "checkpoint", TEXT)                                                              \
    X(SUB, "sub", NUMBER)                                                                          \
    X(CHECKPOINT_MS, "checkpoint_ms", NUMBER)                                                      \
    X(PARENTS, "parents", SET)                                                                     \
    X(CHILDREN, "children", SET)                                                                   \
    X(HASH_START, "hash_start", TEXT)                                                              \
    X(HASH_END, "hash_end", TEXT)                                                                  \
    X(FINISHED, "finished", BOOL)

/* Index in ks_native_schema. */
enum ks_native_attribute {
#define X(index, name, type) KS_NATIVE_##index,
    KS_NATIVE_ATTRIBUTES(X)
#undef X
        KS_NATIVE_ROW /* Not in the schema: the row itself, tested by its key `p`. */
};

extern const char *const ks_native_lives[KS_LIVES];
extern const char *const ks_native_modes[KS_MODES];

/* 1 .. 128 bytes of UTF-8 without a line feed; '#' begins the rows that are no workers. */
bool ks_native_is_worker_id(ks_view id);
/* Kinesis API reference: [a-zA-Z0-9_.-]+, 1 .. 128 characters. */
bool ks_native_is_shard(ks_view shard);
/* Digits without a leading zero, 1 .. digits_max of them. */
bool ks_native_is_decimal(ks_view text, size_t digits_max);

/* The writers answer INVALID for what is no such word, FULL, NO_MEMORY; the readers MALFORMED. */

/* 16 lower-case hex digits; no other spelling, because conditions compare the text. */
KS_MUST_USE ks_err ks_native_put_boot(struct ks_bytes *bytes, uint64_t boot);
KS_MUST_USE ks_err ks_native_get_boot(ks_view text, uint64_t *ret_boot);

/* "id#boot". An id may hold a '#' itself: the boot is what stands after the last one. */
KS_MUST_USE ks_err ks_native_put_incarnation(struct ks_bytes *bytes,
                                             const struct ks_incarnation_text *who);
KS_MUST_USE ks_err ks_native_get_incarnation(ks_view text, struct ks_incarnation_text *ret_who);

/* "shard@epoch". */
KS_MUST_USE ks_err ks_native_put_token(struct ks_bytes *bytes, const struct ks_store_token *token);
KS_MUST_USE ks_err ks_native_get_token(ks_view text, struct ks_store_token *ret_token);

/* The text of a position; its numbers stand in attributes of their own: the reader leaves
 * timestamp_ms 0 and sub_sequence -1. */
KS_MUST_USE ks_err ks_native_put_position(struct ks_bytes *bytes,
                                          const struct ks_position *position);
KS_MUST_USE ks_err ks_native_get_position(ks_view text, struct ks_position *ret_position);

#endif
