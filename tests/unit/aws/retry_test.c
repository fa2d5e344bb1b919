/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/retry.h"

#include "ks_test.h"

static struct ks_retry_bucket bucket;
static struct ks_prng prng;

static const struct ks_retry_limits any = {KS_RETRY_ANY, 3, 50, {INT64_MAX}, 0};

static struct ks_retry_failure failure_of(ks_err err)
{
    return (struct ks_retry_failure){.err = err, .sent = true, .retry_after_ms = -1};
}

static struct ks_retry_failure throttle(void)
{
    struct ks_retry_failure failure = failure_of(KS_FAIL(THROTTLED));

    failure.refused = true;
    failure.throttled = true;
    return failure;
}

static bool again(struct ks_retry *retry, const struct ks_retry_limits *limits,
                  struct ks_retry_failure failure, ks_span *ret_wait)
{
    return ks_retry_again(retry, &bucket, &prng, limits, &failure, ret_wait);
}

static void begin(void)
{
    ks_retry_bucket_init(&bucket);
    ks_prng_init(&prng, 7);
}

/* Whether the first failure of a call is followed by another attempt. */
static bool again_once(enum ks_retry_mode mode, struct ks_retry_failure failure)
{
    struct ks_retry retry = {0};
    struct ks_retry_limits limits = any;
    ks_span wait;

    begin();
    limits.mode = mode;
    return again(&retry, &limits, failure, &wait);
}

TEST(what_may_pass_is_asked_again_and_nothing_else)
{
    static const struct {
        ks_err err;
        bool again;
    } cases[] = {
        {{KS_ERR_TIMEOUT}, true},    {{KS_ERR_CONNECTION}, true},     {{KS_ERR_SERVER}, true},
        {{KS_ERR_THROTTLED}, true},  {{KS_ERR_BUSY}, true},           {{KS_ERR_CONDITION}, false},
        {{KS_ERR_EXPIRED}, false},   {{KS_ERR_FULL}, false},          {{KS_ERR_NO_MEMORY}, false},
        {{KS_ERR_DENIED}, false},    {{KS_ERR_MALFORMED}, false},     {{KS_ERR_INVALID}, false},
        {{KS_ERR_NOT_FOUND}, false}, {{KS_ERR_NO_CREDENTIALS}, false}};

    for (size_t at = 0; at < sizeof(cases) / sizeof(cases[0]); at++) {
        if (again_once(KS_RETRY_ANY, failure_of(cases[at].err)) != cases[at].again)
            FAIL("%s: again %d", ks_err_name(cases[at].err), !cases[at].again);
        EXPECT(!again_once(KS_RETRY_NEVER, failure_of(cases[at].err)));
    }
}

/* A write with a condition: its second copy would be refused by its own first. */
TEST(a_conditional_write_is_sent_again_only_if_it_was_surely_not_done)
{
    struct ks_retry_failure failure = failure_of(KS_FAIL(CONNECTION));

    EXPECT(!again_once(KS_RETRY_UNDONE, failure));
    failure.sent = false;
    EXPECT(again_once(KS_RETRY_UNDONE, failure));
    EXPECT(again_once(KS_RETRY_UNDONE, throttle()));
    EXPECT(!again_once(KS_RETRY_UNDONE, failure_of(KS_FAIL(SERVER))));
    EXPECT(!again_once(KS_RETRY_UNDONE, failure_of(KS_FAIL(TIMEOUT))));
    EXPECT(!again_once(KS_RETRY_UNDONE, failure_of(KS_FAIL(BUSY))));
    /* A throttle that came as a 5xx says nothing about what was done before it. */
    failure = throttle();
    failure.refused = false;
    EXPECT(!again_once(KS_RETRY_UNDONE, failure));
    /* 408, 409: refused, but not for its rate. */
    failure = throttle();
    failure.throttled = false;
    EXPECT(!again_once(KS_RETRY_UNDONE, failure));
}

TEST(attempts_are_counted)
{
    struct ks_retry_limits limits = any;
    struct ks_retry retry = {0};
    ks_span wait;

    begin();
    EXPECT(again(&retry, &limits, failure_of(KS_FAIL(SERVER)), &wait));
    EXPECT(again(&retry, &limits, failure_of(KS_FAIL(SERVER)), &wait));
    EXPECT(!again(&retry, &limits, failure_of(KS_FAIL(SERVER)), &wait));
    EXPECT_EQ_U64(retry.retries, 2);
    limits.attempts_max = 1;
    EXPECT(!again(&(struct ks_retry){0}, &limits, failure_of(KS_FAIL(SERVER)), &wait));
}

/* The longest of many waits for retry number `nth`, in ms; each is at least 0. */
static int64_t longest_of(int32_t first_ms, uint32_t nth, struct ks_retry_failure failure)
{
    struct ks_retry_limits limits = {KS_RETRY_ANY, 100, first_ms, {INT64_MAX}, 0};
    int64_t most = 0;

    for (int i = 0; i < 5000; i++) {
        struct ks_retry retry = {.retries = nth};
        ks_span wait;

        ks_retry_bucket_init(&bucket);
        EXPECT(again(&retry, &limits, failure, &wait));
        EXPECT(wait.us >= 0);
        if (ks_span_to_ms(wait) > most)
            most = ks_span_to_ms(wait);
    }
    return most;
}

static int64_t longest(uint32_t nth, struct ks_retry_failure failure)
{
    return longest_of(50, nth, failure);
}

TEST(waits_double_with_full_jitter_up_to_a_bound)
{
    static const int64_t most[] = {50, 100, 200, 400};
    static const int64_t most_throttled[] = {1000, 2000, 4000, 8000};

    begin();
    for (uint32_t nth = 0; nth < 4; nth++) {
        int64_t ms = longest(nth, failure_of(KS_FAIL(SERVER)));
        EXPECT(ms <= most[nth] && ms > most[nth] * 9 / 10);
        ms = longest(nth, throttle());
        EXPECT(ms <= most_throttled[nth] && ms > most_throttled[nth] * 9 / 10);
    }
    EXPECT(longest(9, throttle()) <= 20000);
    EXPECT(longest(90, failure_of(KS_FAIL(SERVER))) <= 20000);
    int64_t ms = longest_of(25, 1, failure_of(KS_FAIL(SERVER)));
    EXPECT(ms <= 50 && ms > 45);
    ms = longest_of(25, 0, throttle());
    EXPECT(ms <= 1000 && ms > 900);
}

TEST(least_wait_doubles_and_bounds_every_wait)
{
    struct ks_retry_limits limits = {KS_RETRY_ANY, 100, 1000, {INT64_MAX}, 250};

    begin();
    for (uint32_t nth = 0; nth < 12; nth++) {
        int64_t least = 250LL << (nth < 10 ? nth : 10);
        int64_t shortest = INT64_MAX;
        for (int i = 0; i < 2000; i++) {
            struct ks_retry retry = {.retries = nth};
            ks_span wait;
            ks_retry_bucket_init(&bucket);
            EXPECT(again(&retry, &limits, failure_of(KS_FAIL(SERVER)), &wait));
            shortest = ks_span_to_ms(wait) < shortest ? ks_span_to_ms(wait) : shortest;
        }
        least = least < 20000 ? least : 20000;
        EXPECT(shortest >= least && shortest <= least + least / 10);
    }
}

TEST(what_the_service_asks_for_counts_within_five_seconds)
{
    struct ks_retry_failure failure = failure_of(KS_FAIL(SERVER));

    begin();
    for (int i = 0; i < 1000; i++) {
        struct ks_retry retry = {0};
        ks_span wait;

        ks_retry_bucket_init(&bucket);
        failure.retry_after_ms = 700;
        EXPECT(again(&retry, &any, failure, &wait));
        EXPECT_EQ_I64(ks_span_to_ms(wait), 700);
        failure.retry_after_ms = 3600 * 1000;
        retry = (struct ks_retry){0};
        EXPECT(again(&retry, &any, failure, &wait));
        EXPECT(ks_span_to_ms(wait) >= 5000 && ks_span_to_ms(wait) <= 5050);
        failure.retry_after_ms = 0;
        retry = (struct ks_retry){0};
        EXPECT(again(&retry, &any, failure, &wait));
        EXPECT(ks_span_to_ms(wait) <= 50);
    }
}

TEST(a_wait_beyond_the_time_left_is_none_and_costs_nothing)
{
    struct ks_retry_limits limits = any;
    struct ks_retry_failure failure = failure_of(KS_FAIL(SERVER));
    struct ks_retry retry = {0};
    ks_span wait;

    begin();
    failure.retry_after_ms = 300;
    limits.left = ks_span_ms(300);
    EXPECT(!again(&retry, &limits, failure, &wait));
    limits.left = ks_span_ms(-5);
    EXPECT(!again(&retry, &limits, failure, &wait));
    EXPECT_EQ_U64(bucket.tokens, KS_RETRY_TOKENS_MAX);
    EXPECT_EQ_U64(retry.retries, 0);
    limits.left = ks_span_ms(301);
    EXPECT(again(&retry, &limits, failure, &wait));
}

TEST(retries_are_paid_from_a_bucket)
{
    struct ks_retry retry = {0};
    ks_span wait;
    uint32_t count = 0;

    begin();
    EXPECT(again(&retry, &any, failure_of(KS_FAIL(SERVER)), &wait));
    EXPECT_EQ_U64(bucket.tokens, 486);
    EXPECT(again(&retry, &any, throttle(), &wait));
    EXPECT_EQ_U64(bucket.tokens, 481);
    /* What the last retry cost comes back. */
    ks_retry_succeeded(&retry, &bucket);
    EXPECT_EQ_U64(bucket.tokens, 486);
    ks_retry_succeeded(&(struct ks_retry){0}, &bucket);
    EXPECT_EQ_U64(bucket.tokens, 487);

    begin();
    while (retry = (struct ks_retry){0}, again(&retry, &any, throttle(), &wait))
        count++;
    EXPECT_EQ_U64(count, 100);
    /* Five successes pay one retry after a throttle, fourteen another one. */
    for (int i = 0; i < 5; i++)
        ks_retry_succeeded(&(struct ks_retry){0}, &bucket);
    EXPECT(!again(&retry, &any, failure_of(KS_FAIL(TIMEOUT)), &wait));
    EXPECT(again(&retry, &any, throttle(), &wait));
    begin();
    ks_retry_succeeded(&(struct ks_retry){0}, &bucket);
    EXPECT_EQ_U64(bucket.tokens, 500);
}
