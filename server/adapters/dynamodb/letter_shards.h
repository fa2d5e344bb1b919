/* SPDX-License-Identifier: Apache-2.0 */
/* letter_shards.h - the shards that the directory of a table of dead letters is known to have (letter_item.h): a write
 * need not say so again. What is forgotten costs one request.
 */
#ifndef KS_ADAPTERS_DYNAMODB_LETTER_SHARDS_H
#define KS_ADAPTERS_DYNAMODB_LETTER_SHARDS_H

#include "adapters/dynamodb/letter_item.h"

enum { KS_LETTER_SHARDS_MAX = 256 };

/* Zeroed at first: nothing is known. */
struct ks_letter_shards {
    struct {
        char shard[KS_LETTER_SHARD_MAX + 1];
        int64_t expires_s; /* 0: it is there for good. */
    } shards[KS_LETTER_SHARDS_MAX];
    uint32_t count;
    uint32_t next; /* Is replaced next. */
};

/* True if the shard is there up to this instant at least (Unix seconds; 0: for good). */
bool ks_letter_shards_have(const struct ks_letter_shards *known, const char *shard,
                           int64_t expires_s);
/* The directory has the shard up to this instant. */
void ks_letter_shards_note(struct ks_letter_shards *known, const char *shard, int64_t expires_s);

#endif
