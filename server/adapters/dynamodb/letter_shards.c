/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/dynamodb/letter_shards.h"

#include <string.h>

/* Its place; `count` if it is not known. */
static uint32_t find(const struct ks_letter_shards *known, const char *shard)
{
    uint32_t at = 0;

    while (at < known->count && strcmp(known->shards[at].shard, shard) != 0)
        at++;
    return at;
}

bool ks_letter_shards_have(const struct ks_letter_shards *known, const char *shard,
                           int64_t expires_s)
{
    const uint32_t at = find(known, shard);

    if (at == known->count)
        return false;
    return known->shards[at].expires_s == 0 ||
           (expires_s != 0 && known->shards[at].expires_s >= expires_s);
}

void ks_letter_shards_note(struct ks_letter_shards *known, const char *shard, int64_t expires_s)
{
    uint32_t at = find(known, shard);

    if (at == known->count) {
        at = known->next;
        known->next = (known->next + 1) % KS_LETTER_SHARDS_MAX;
        if (known->count < KS_LETTER_SHARDS_MAX)
            known->count++;
    }
    memcpy(known->shards[at].shard, shard, strlen(shard) + 1);
    known->shards[at].expires_s = expires_s;
}
