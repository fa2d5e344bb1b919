/* SPDX-License-Identifier: Apache-2.0 */
/* retry.h - whether a failed attempt is made again, and when: the standard retry mode of the AWS SDKs.
 *
 * Made again is what may pass: failures of KS_CLASS_RETRY (connections, timeouts, 5xx, throttles),
 * in up to `attempts_max` attempts. Each retry is paid from the bucket of the client: 14 tokens, 5
 * after a throttle; a success gives back what its last retry cost, or 1. An empty bucket means that
 * the service is in trouble: then nobody asks twice. The wait is chosen between min(least * 2^n, 20 s) and
 * min(first * 2^n, 20 s): the least is `least_ms`, the first `first_ms`, and 1 s after a throttle.
 * x-amz-retry-after counts where it is longer, by at most 5 s.
 * Source: "Retry behavior" of the AWS SDKs guide, botocore 1.44 retries/standard.py.
 *
 * What is made again at all is the caller's choice, because only it knows what a second copy does:
 *  - ANY: what may be done twice without harm: reads, and writes that say the same thing twice;
 *  - UNDONE: only what was surely not done: nothing had left, or the service refused it for its rate.
 *    For conditional writes: the second copy of one that was done would be refused by the first;
 *  - NEVER: callers that pace themselves.
 * Pure.
 */
#ifndef KS_AWS_RETRY_H
#define KS_AWS_RETRY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/instant.h"
#include "base/prng.h"

enum {
    KS_RETRY_ATTEMPTS = 3,
    KS_RETRY_FIRST_MS = 50,
    /* DynamoDB, which answers sooner. */
    KS_RETRY_ATTEMPTS_DYNAMODB = 4,
    KS_RETRY_FIRST_MS_DYNAMODB = 25,
    KS_RETRY_TOKENS_MAX = 500
};

enum ks_retry_mode { KS_RETRY_ANY, KS_RETRY_UNDONE, KS_RETRY_NEVER };

/* Shared by the calls of a client. */
struct ks_retry_bucket {
    uint32_t tokens;
};

/* Of one call; zeroed at its start. */
struct ks_retry {
    uint32_t retries;
    uint32_t paid; /* For the last of them. */
};

/* What came of an attempt. */
struct ks_retry_failure {
    ks_err err;             /* Not KS_OK. */
    bool sent;              /* Something of this attempt may have reached the server. */
    bool refused;           /* The answer was a 4xx: it was not done. */
    bool throttled;         /* The service asks for less. */
    int32_t retry_after_ms; /* What it asks for; -1: nothing. */
};

void ks_retry_bucket_init(struct ks_retry_bucket *bucket);

/* What a call allows. */
struct ks_retry_limits {
    enum ks_retry_mode mode;
    uint32_t attempts_max; /* At least 1. */
    int32_t first_ms;      /* The longest first wait, but after a throttle. */
    ks_span left;          /* Of the call's time: a longer wait is none. */
    int32_t least_ms; /* The shortest first wait, at most first_ms; it doubles, too. 0: none. */
};

/* True if it may be made again: it is counted and paid, and `ret_wait` says how long to wait before. */
bool ks_retry_again(struct ks_retry *retry, struct ks_retry_bucket *bucket, struct ks_prng *prng,
                    const struct ks_retry_limits *limits, const struct ks_retry_failure *failure,
                    ks_span *ret_wait);
/* The call has its answer. */
void ks_retry_succeeded(const struct ks_retry *retry, struct ks_retry_bucket *bucket);

#endif
