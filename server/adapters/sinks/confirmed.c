/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/sinks/confirmed.h"

#include "base/digest.h"

/* The place of the id, or `count`. */
static uint32_t find(const struct ks_sink_confirmed *confirmed, ks_view id,
                     uint8_t digest[KS_SHA256_SIZE])
{
    uint32_t at = 0;

    ks_sha256(id, digest);
    while (at < confirmed->count && memcmp(confirmed->ids[at], digest, KS_SINK_CONFIRMED_SIZE) != 0)
        at++;
    return at;
}

bool ks_sink_confirmed_has(const struct ks_sink_confirmed *confirmed, ks_view id)
{
    uint8_t digest[KS_SHA256_SIZE];

    return confirmed->count > 0 && find(confirmed, id, digest) < confirmed->count;
}

void ks_sink_confirmed_add(struct ks_sink_confirmed *confirmed, ks_view id)
{
    uint8_t digest[KS_SHA256_SIZE];
    uint32_t at = find(confirmed, id, digest);

    if (at < confirmed->count)
        return;
    if (confirmed->count < KS_SINK_CONFIRMED_MAX) {
        confirmed->count++;
    } else {
        at = confirmed->oldest;
        confirmed->oldest = (confirmed->oldest + 1) % KS_SINK_CONFIRMED_MAX;
    }
    memcpy(confirmed->ids[at], digest, KS_SINK_CONFIRMED_SIZE);
}

void ks_sink_confirmed_remove(struct ks_sink_confirmed *confirmed, ks_view id)
{
    uint8_t digest[KS_SHA256_SIZE];
    const uint32_t at = confirmed->count == 0 ? 0 : find(confirmed, id, digest);

    if (at == confirmed->count)
        return;
    confirmed->count--;
    memmove(confirmed->ids[at], confirmed->ids[confirmed->count], KS_SINK_CONFIRMED_SIZE);
    confirmed->oldest = 0;
}
