/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/dialects/probe.h"

#include <string.h>

enum { KEYS_MAX = 3, MARKS_MAX = 5 };

/* Hash keys of the tables of each dialect, and attributes that are in no other one's. */
static const struct whose {
    const char *name;
    const char *range; /* "": the hash key is the key. */
    const char *keys[KEYS_MAX];
    const char *marks[MARKS_MAX];
} dialects[] = {
    {"native", "k", {"p"}, {"epoch", "rev", "hash_start", "beat", "boot"}},
    {"kcl",
     "",
     {"leaseKey", "key", "wid"},
     {"leaseCounter", "leaseOwner", "checkpointSubSequenceNumber", "ownerSwitchesSinceCheckpoint",
      "startingHashKey"}},
    {"go-kcl", "", {"ShardID"}, {"AssignedTo", "LeaseTimeout", "ParentShardId", "ClaimRequest"}},
    {"kinsumer",
     "",
     {"Shard", "ID", "Key"},
     {"OwnerID", "OwnerName", "SequenceNumber", "LastUpdateRFC", "FinishedRFC"}},
    {"kcl-rb", "", {"shard_id"}, {"assigned_to", "lease_timeout"}},
};
enum { DIALECTS = sizeof(dialects) / sizeof(dialects[0]) };
_Static_assert((int)DIALECTS <= (int)KS_PROBE_DIALECTS_MAX, "there is room for each");

const char *ks_probe_keys(const char *hash, const char *range)
{
    for (size_t i = 0; i < DIALECTS; i++)
        for (size_t at = 0; at < KEYS_MAX && dialects[i].keys[at] != NULL; at++)
            if (strcmp(dialects[i].keys[at], hash) == 0 && strcmp(dialects[i].range, range) == 0)
                return dialects[i].name;
    return NULL;
}

void ks_probe_see(struct ks_probe *probe, ks_view attribute)
{
    for (size_t i = 0; i < DIALECTS; i++)
        for (size_t at = 0; at < MARKS_MAX && dialects[i].marks[at] != NULL; at++)
            if (ks_view_equal(ks_view_text(dialects[i].marks[at]), attribute))
                probe->marks[i] |= (uint8_t)(1U << at);
}

static bool is_known(const struct ks_schema *schema, const struct whose *whose)
{
    for (size_t at = 0; at < MARKS_MAX && whose->marks[at] != NULL; at++)
        if (ks_schema_find(schema, ks_view_text(whose->marks[at])) < schema->count)
            return true;
    return false;
}

const char *ks_probe_stranger(const struct ks_probe *probe, const struct ks_schema *schema)
{
    for (size_t i = 0; i < DIALECTS; i++) {
        const unsigned marks = probe->marks[i];

        if ((marks & (marks - 1)) != 0 && !is_known(schema, &dialects[i]))
            return dialects[i].name;
    }
    return NULL;
}
