/* SPDX-License-Identifier: Apache-2.0 */
/* back_off.h - waits that double while something fails, each somewhere between the half and the whole
 * of it, so that those who failed together do not come back together. Pure.
 */
#ifndef KS_ADAPTERS_KINESIS_BACK_OFF_H
#define KS_ADAPTERS_KINESIS_BACK_OFF_H

#include <stdint.h>

#include "base/instant.h"
#include "base/prng.h"

struct ks_back_off {
    struct ks_prng prng;
    int32_t whole_ms; /* The next one; 0: nothing has failed. */
};

/* `seed` is for the jitter. */
static inline void ks_back_off_init(struct ks_back_off *back_off, uint64_t seed)
{
    *back_off = (struct ks_back_off){.whole_ms = 0};
    ks_prng_init(&back_off->prng, seed);
}

/* It succeeded. */
static inline void ks_back_off_end(struct ks_back_off *back_off)
{
    back_off->whole_ms = 0;
}

/* It failed (again): how long to wait. The whole begins at `first_ms` and doubles up to `most_ms`. */
ks_span ks_back_off_wait(struct ks_back_off *back_off, int32_t first_ms, int32_t most_ms);

#endif
