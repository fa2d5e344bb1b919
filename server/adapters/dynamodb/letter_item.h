/* SPDX-License-Identifier: Apache-2.0 */
/* letter_item.h - a dead letter as an item of DynamoDB: requests as JSON, and items as they come back.
 *
 *     p = "letters#" shard, k = sequence "." sub      the letter
 *         stream, sub, key, arrived, first_died, died, attempts, cause, reason, expires, data, claim, claimed_until
 *     p = "letters", k = shard                         the shard has letters
 *         shard, expires
 *
 * Times are Unix milliseconds, but for `expires`: seconds, as the TTL of DynamoDB wants it. `sub` is there for the
 * parts of an aggregate. `key` and `reason` are S, or B if they are no UTF-8 without NUL. `data` is B; without it the
 * letter is a pointer to the record in the stream. Where several streams share a table, a shard here is the stream, "/"
 * and the shard. Formats: API reference of DynamoDB, version 2012-08-10. Pure.
 */
#ifndef KS_ADAPTERS_DYNAMODB_LETTER_ITEM_H
#define KS_ADAPTERS_DYNAMODB_LETTER_ITEM_H

#include "adapters/letter.h"
#include "aws/json.h"
#include "ports/dead_letters.h"

enum {
    /* The stream (an ARN at most), and the shard. */
    KS_LETTER_SHARD_MAX = KS_LETTER_STREAM_MAX + 1 + KS_SHARD_ID_MAX,
    /* Sequence and sub-sequence number. */
    KS_LETTER_PLACE_MAX = KS_SEQUENCE_MAX + 24,
    /* An item has 400 KB at most (DynamoDB quotas): the rest is for the other attributes. */
    KS_LETTER_DATA_MAX = 390 << 10
};

/* Where a letter is. */
struct ks_letter_place {
    char shard[KS_LETTER_SHARD_MAX + 1]; /* Behind "letters#". */
    char k[KS_LETTER_PLACE_MAX + 1];     /* "": before the first. */
};

/* The place of a letter of this id; `stream` NULL: the table has one stream. INVALID: no letter has such an id. */
KS_MUST_USE ks_err ks_letter_place_of(ks_view id, const char *stream,
                                      struct ks_letter_place *ret_place);

/* The bodies are appended to `body`. FULL, NO_MEMORY. */

/* UpdateItem of a pointer; one that was given up later is not overwritten: the condition fails. */
KS_MUST_USE ks_err ks_letter_put_write(struct ks_bytes *body, const char *table,
                                       const struct ks_letter_place *place,
                                       const struct ks_letter *letter);
/* UpdateItem that sets the claim until KS_LETTER_CLAIM_MS after `now_ms`. The condition fails if there is no letter
 * with these attempts, or another claim on it is not over. */
KS_MUST_USE ks_err ks_letter_put_claim(struct ks_bytes *body, const char *table,
                                       const struct ks_letter_place *place,
                                       const struct ks_letter *letter, int64_t now_ms);
/* UpdateItem: given up again. The condition fails if there is none, here and below, or another claim is on it. */
KS_MUST_USE ks_err ks_letter_put_amend(struct ks_bytes *body, const char *table,
                                       const struct ks_letter_place *place,
                                       const struct ks_letter *letter);
/* UpdateItem: the data is kept, and it does not expire. */
KS_MUST_USE ks_err ks_letter_put_keep(struct ks_bytes *body, const char *table,
                                      const struct ks_letter_place *place,
                                      const struct ks_letter *letter);
/* DeleteItem. The condition fails also if `claim` is not empty and not the one that is on it. */
KS_MUST_USE ks_err ks_letter_put_remove(struct ks_bytes *body, const char *table,
                                        const struct ks_letter_place *place, ks_view claim);
/* GetItem, strongly consistent. */
KS_MUST_USE ks_err ks_letter_put_find(struct ks_bytes *body, const char *table,
                                      const struct ks_letter_place *place);
/* Query of `most` letters of the shard behind the place, strongly consistent. */
KS_MUST_USE ks_err ks_letter_put_list(struct ks_bytes *body, const char *table,
                                      const struct ks_letter_place *place, uint32_t most);
/* UpdateItem: the shard has letters, up to this instant at least (Unix seconds; 0: for good). The condition fails if
 * that is known. */
KS_MUST_USE ks_err ks_letter_put_note(struct ks_bytes *body, const char *table, const char *shard,
                                      int64_t expires_s);
/* Query of the first shard with letters behind this one ("": of all), strongly consistent. */
KS_MUST_USE ks_err ks_letter_put_next_shard(struct ks_bytes *body, const char *table,
                                            const char *shard);
/* Reads an item. Its views are of the document, and of `bytes`, to which they are appended: `bytes` has room for them
 * (ks_letter_item_bytes), so that nothing in it moves. Returns the name of an attribute that no letter of ours has so;
 * NULL: it is sound. The id is whole in any case, or empty. */
const char *ks_letter_read(const struct ks_json *item, const char *stream, struct ks_bytes *bytes,
                           struct ks_letter *ret_letter);
/* Bytes that reading the item takes at most. */
size_t ks_letter_item_bytes(const struct ks_json *item);
/* The shard that an item of the directory names. MALFORMED, FULL. */
KS_MUST_USE ks_err ks_letter_read_shard(const struct ks_json *item,
                                        char ret_shard[KS_LETTER_SHARD_MAX + 1]);

#endif
