/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/retry.h"

#include <assert.h>

enum { FIRST_THROTTLED_MS = 1000, MOST_MS = 20000, ASKED_MOST_MS = 5000 };
enum { COST = 14, COST_OF_THROTTLE = 5, GAIN = 1 };
enum { DOUBLINGS_MAX = 10 }; /* 25 ms * 2^10 is beyond MOST_MS. */

void ks_retry_bucket_init(struct ks_retry_bucket *bucket)
{
    bucket->tokens = KS_RETRY_TOKENS_MAX;
}

static bool is_allowed(enum ks_retry_mode mode, const struct ks_retry_failure *failure)
{
    switch (mode) {
    case KS_RETRY_ANY: return true;
    case KS_RETRY_UNDONE: return !failure->sent || (failure->throttled && failure->refused);
    case KS_RETRY_NEVER: return false;
    }
    assert(false);
    return false;
}

static int64_t bounded(int64_t ms)
{
    return ms < MOST_MS ? ms : MOST_MS;
}

static ks_span wait_of(const struct ks_retry *retry, struct ks_prng *prng,
                       const struct ks_retry_limits *limits, const struct ks_retry_failure *failure)
{
    uint32_t doublings = retry->retries < DOUBLINGS_MAX ? retry->retries : DOUBLINGS_MAX;
    int64_t first = failure->throttled ? FIRST_THROTTLED_MS : limits->first_ms;
    int64_t most = bounded(first << doublings);
    int64_t least = bounded((int64_t)limits->least_ms << doublings);
    int64_t ms = ks_prng_between(prng, least < most ? least : most, most);
    int64_t asked = failure->retry_after_ms;

    if (asked > ms)
        ms = asked < ms + ASKED_MOST_MS ? asked : ms + ASKED_MOST_MS;
    return ks_span_ms(ms);
}

bool ks_retry_again(struct ks_retry *retry, struct ks_retry_bucket *bucket, struct ks_prng *prng,
                    const struct ks_retry_limits *limits, const struct ks_retry_failure *failure,
                    ks_span *ret_wait)
{
    uint32_t cost = failure->throttled ? COST_OF_THROTTLE : COST;

    assert(!ks_ok(failure->err));
    assert(limits->attempts_max > 0 && limits->first_ms > 0);
    assert(limits->least_ms >= 0 && limits->least_ms <= limits->first_ms);

    if (ks_err_class(failure->err) != KS_CLASS_RETRY || !is_allowed(limits->mode, failure) ||
        retry->retries + 1 >= limits->attempts_max || bucket->tokens < cost)
        return false;
    ks_span wait = wait_of(retry, prng, limits, failure);
    if (wait.us >= limits->left.us)
        return false;
    bucket->tokens -= cost;
    retry->paid = cost;
    retry->retries++;
    *ret_wait = wait;
    return true;
}

void ks_retry_succeeded(const struct ks_retry *retry, struct ks_retry_bucket *bucket)
{
    uint32_t tokens = bucket->tokens + (retry->retries > 0 ? retry->paid : GAIN);

    bucket->tokens = tokens < KS_RETRY_TOKENS_MAX ? tokens : KS_RETRY_TOKENS_MAX;
}
