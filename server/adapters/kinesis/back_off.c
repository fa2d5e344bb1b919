/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/kinesis/back_off.h"

#include <assert.h>

ks_span ks_back_off_wait(struct ks_back_off *back_off, int32_t first_ms, int32_t most_ms)
{
    int32_t whole = back_off->whole_ms < first_ms ? first_ms : back_off->whole_ms;

    assert(first_ms > 0 && first_ms <= most_ms && most_ms < INT32_MAX / 2);
    if (whole > most_ms)
        whole = most_ms;
    back_off->whole_ms = whole * 2 > most_ms ? most_ms : whole * 2;
    return ks_span_ms(ks_prng_between(&back_off->prng, whole / 2, whole));
}
