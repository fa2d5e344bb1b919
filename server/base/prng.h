/* SPDX-License-Identifier: Apache-2.0 */
/* prng.h - a seeded generator (splitmix64, Steele, Lea and Flood 2014). Pure.
 *
 * For jitter, nonces of the core and simulations; whoever needs one was given one. Secrets come from
 * ks_random_bytes in base/digest.h.
 */
#ifndef KS_BASE_PRNG_H
#define KS_BASE_PRNG_H

#include <stdint.h>

struct ks_prng {
    uint64_t state;
};

static inline void ks_prng_init(struct ks_prng *prng, uint64_t seed)
{
    prng->state = seed;
}

static inline uint64_t ks_prng_next(struct ks_prng *prng)
{
    uint64_t z = prng->state += UINT64_C(0x9E3779B97F4A7C15);

    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

/* Uniform in 0 .. limit-1; 0 for limit 0. (The bias of the remainder is below 2^-32 for limits below 2^32.) */
static inline uint64_t ks_prng_below(struct ks_prng *prng, uint64_t limit)
{
    return limit == 0 ? 0 : ks_prng_next(prng) % limit;
}

/* Uniform in low .. high, both included. */
static inline int64_t ks_prng_between(struct ks_prng *prng, int64_t low, int64_t high)
{
    return low + (int64_t)ks_prng_below(prng, (uint64_t)(high - low) + 1);
}

#endif
