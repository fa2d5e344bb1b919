/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/dialects/alive.h"

#include "ports/streams.h"

#include <inttypes.h>
#include <string.h>

#define NS_PER_SECOND UINT64_C(1000000000)

const struct ks_store_lease *ks_reading_lease(const struct ks_reading *reading, const char *stream,
                                              const char *shard)
{
    uint32_t low = 0;
    uint32_t high = reading->lease_count;

    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const struct ks_store_lease *const lease = &reading->leases[middle];
        const int order = ks_stream_order(lease->stream, lease->shard, stream, shard);

        if (order == 0)
            return lease;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

const struct ks_store_worker *ks_reading_worker(const struct ks_reading *reading, const char *id)
{
    for (uint32_t i = 0; i < reading->worker_count; i++)
        if (strcmp(reading->workers[i].self.id, id) == 0)
            return &reading->workers[i];
    return NULL;
}

/* Workers that write down when they were there last. */
static bool heard_lately(const struct ks_reading *reading, ks_span life, uint64_t unix_ns,
                         struct ks_detail *ret_sign)
{
    for (uint32_t i = 0; i < reading->worker_count; i++) {
        const struct ks_store_worker *const worker = &reading->workers[i];
        const uint64_t until = worker->beat + (uint64_t)life.us * 1000;

        if (worker->damaged || worker->life != KS_LIVE || until <= unix_ns)
            continue;
        ks_detail_set(ret_sign, "client %s is good for another %" PRIu64 " s", worker->self.id,
                      (until - unix_ns) / NS_PER_SECOND + 1);
        return true;
    }
    return false;
}

bool ks_reading_lives(const struct ks_dialect *dialect, const struct ks_reading *reading,
                      ks_span life, uint64_t unix_ns, struct ks_detail *ret_sign)
{
    if (dialect->rev == KS_REV_WRITTEN)
        return heard_lately(reading, life, unix_ns, ret_sign);
    for (uint32_t i = 0; i < reading->lease_count && dialect->rev == KS_REV_UNTIL; i++) {
        const struct ks_store_lease *const lease = &reading->leases[i];

        if (lease->damaged || lease->owner.id[0] == '\0' || lease->rev <= unix_ns)
            continue;
        ks_detail_set(ret_sign, "%s has %s for another %" PRIu64 " s", lease->owner.id,
                      lease->shard, (lease->rev - unix_ns) / NS_PER_SECOND + 1);
        return true;
    }
    return false;
}

static bool worker_moved(const struct ks_store_worker *before, const struct ks_store_worker *now)
{
    if (now->damaged || now->life != KS_LIVE)
        return false;
    return before == NULL || before->damaged || before->self.boot != now->self.boot ||
           before->beat != now->beat;
}

bool ks_reading_row_moved(const struct ks_store_lease *before, const struct ks_store_lease *now)
{
    if (before == NULL || now == NULL)
        return before != now;
    if (before->damaged && now->damaged)
        return strcmp(before->words, now->words) != 0;
    return before->damaged != now->damaged || strcmp(before->owner.id, now->owner.id) != 0 ||
           before->owner.boot != now->owner.boot ||
           strcmp(before->next_owner.id, now->next_owner.id) != 0 || before->epoch != now->epoch ||
           before->rev != now->rev || before->finished != now->finished ||
           !ks_position_same(&before->checkpoint, &now->checkpoint);
}

bool ks_reading_moved(const struct ks_reading *before, const struct ks_reading *now,
                      struct ks_detail *ret_sign)
{
    char key[KS_LEASE_KEY_MAX + 1];

    for (uint32_t i = 0; i < now->worker_count; i++) {
        const struct ks_store_worker *const worker = &now->workers[i];

        if (worker_moved(ks_reading_worker(before, worker->self.id), worker)) {
            ks_detail_set(ret_sign, "worker %s lives", worker->self.id);
            return true;
        }
    }
    for (uint32_t i = 0; i < now->lease_count; i++) {
        const struct ks_store_lease *const lease = &now->leases[i];

        if (ks_reading_row_moved(ks_reading_lease(before, lease->stream, lease->shard), lease)) {
            ks_stream_key(lease, key);
            ks_detail_set(ret_sign, "the row of %s was written, %s%s", key,
                          lease->owner.id[0] == '\0' ? "it is free now" : "its owner is ",
                          lease->owner.id);
            return true;
        }
    }
    if (now->lease_count < before->lease_count) {
        ks_detail_set(ret_sign, "a row was deleted");
        return true;
    }
    return false;
}
