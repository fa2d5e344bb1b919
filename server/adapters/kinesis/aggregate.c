/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/kinesis/aggregate.h"

#include "base/digest.h"
#include "base/log.h"
#include "base/metrics.h"

static const uint8_t MAGIC[4] = {0xF3, 0x89, 0x9A, 0xC2};

bool ks_is_aggregate(ks_view data)
{
    uint8_t digest[KS_MD5_SIZE];
    size_t frame = sizeof(MAGIC) + KS_MD5_SIZE;

    if (data.size <= frame || memcmp(data.data, MAGIC, sizeof(MAGIC)) != 0)
        return false;
    ks_md5(ks_view_of(data.data + sizeof(MAGIC), data.size - frame), digest);
    return memcmp(digest, data.data + data.size - KS_MD5_SIZE, KS_MD5_SIZE) == 0;
}

void ks_aggregates_note(const struct ks_batch *batch)
{
    static bool warned;
    int64_t count = 0;

    for (uint32_t at = 0; at < batch->count; at++)
        count += batch->records[at].aggregated ? 1 : 0;
    if (count == 0)
        return;
    ks_metric_add(KS_METRIC_AGGREGATED_RECORDS, count);
    if (!warned)
        ks_warn(
            "the stream holds records that the Kinesis Producer Library has aggregated; they are "
            "delivered as they are, with \"aggregated\":true, and not taken apart");
    warned = true;
}
