/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/dynamodb/letter_shards.h"

#include <stdio.h>

#include "ks_test.h"

static struct ks_letter_shards known;

TEST(a_shard_is_known_up_to_what_was_noted)
{
    EXPECT(!ks_letter_shards_have(&known, "a", 100));
    ks_letter_shards_note(&known, "a", 100);
    EXPECT(ks_letter_shards_have(&known, "a", 100));
    EXPECT(!ks_letter_shards_have(&known, "a", 101) && !ks_letter_shards_have(&known, "a", 0));
    EXPECT(!ks_letter_shards_have(&known, "b", 100));
    ks_letter_shards_note(&known, "a", 0);
    EXPECT(ks_letter_shards_have(&known, "a", 101) && ks_letter_shards_have(&known, "a", 0));
}

TEST(the_shard_that_was_noted_first_gives_way)
{
    char shard[16];

    for (int at = 0; at <= KS_LETTER_SHARDS_MAX; at++) {
        (void)snprintf(shard, sizeof shard, "%d", at);
        ks_letter_shards_note(&known, shard, 100);
    }
    EXPECT(!ks_letter_shards_have(&known, "0", 1));
    EXPECT(ks_letter_shards_have(&known, "1", 1) && ks_letter_shards_have(&known, shard, 1));
    ks_letter_shards_note(&known, shard, 200);
    EXPECT(ks_letter_shards_have(&known, "1", 1));
}
