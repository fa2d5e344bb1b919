/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/kinesis/health.h"

#include "ks_test.h"

static const ks_instant BEGIN = {1000000000};

static ks_instant at(int64_t ms)
{
    return ks_instant_add(BEGIN, ks_span_ms(ms));
}

static struct ks_health ready(void)
{
    struct ks_health health;

    ks_health_init(&health);
    EXPECT_EQ_I64(health.state, KS_STORE_OPENING);
    EXPECT(!ks_health_doubted(&health));
    ks_health_asked(&health, BEGIN, KS_OK);
    EXPECT_EQ_I64(health.state, KS_STORE_READY);
    EXPECT(!ks_health_doubted(&health));
    return health;
}

TEST(one_failure_that_may_pass_makes_nobody_unready)
{
    struct ks_health health = ready();

    for (int64_t ms = 0; ms < 600000; ms += 2000) {
        ks_health_read(&health, at(ms), KS_FAIL(SERVER));
        EXPECT_EQ_I64(health.state, KS_STORE_READY);
        EXPECT(ks_health_doubted(&health));
        ks_health_read(&health, at(ms + 1000), KS_OK); /* Another shard. */
        EXPECT(!ks_health_doubted(&health));
    }
}

TEST(nothing_but_failures_for_ten_seconds_is_away)
{
    static const ks_err errs[] = {{KS_ERR_SERVER}, {KS_ERR_TIMEOUT}, {KS_ERR_CONNECTION}};

    for (size_t i = 0; i < sizeof(errs) / sizeof(errs[0]); i++) {
        struct ks_health health = ready();
        for (int64_t ms = 0; ms < KS_HEALTH_AWAY_MS; ms += 500) {
            ks_health_read(&health, at(ms), errs[i]);
            EXPECT_EQ_I64(health.state, KS_STORE_READY);
        }
        ks_health_read(&health, at(KS_HEALTH_AWAY_MS), errs[i]);
        EXPECT_EQ_I64(health.state, KS_STORE_AWAY);
        /* Any success ends it at once, and the count begins anew. */
        ks_health_read(&health, at(KS_HEALTH_AWAY_MS + 1), KS_FAIL(THROTTLED));
        EXPECT_EQ_I64(health.state, KS_STORE_READY);
        ks_health_read(&health, at(KS_HEALTH_AWAY_MS + 2), errs[i]);
        EXPECT_EQ_I64(health.state, KS_STORE_READY);
    }
}

TEST(an_old_failure_and_a_new_one_are_no_row_of_failures)
{
    struct ks_health health = ready();

    ks_health_read(&health, at(0), KS_FAIL(SERVER));
    ks_health_read(&health, at(KS_HEALTH_FRESH_MS), KS_FAIL(SERVER));
    EXPECT_EQ_I64(health.state, KS_STORE_READY);
    /* Reads that run into their timeout are further apart than those that fail at once, and are a row. */
    ks_health_read(&health, at(KS_HEALTH_FRESH_MS + 25000), KS_FAIL(TIMEOUT));
    EXPECT_EQ_I64(health.state, KS_STORE_AWAY);
}

TEST(a_refusal_counts_at_once)
{
    struct ks_health health = ready();

    ks_health_read(&health, at(0), KS_FAIL(DENIED));
    EXPECT_EQ_I64(health.state, KS_STORE_UNUSABLE);
    EXPECT(!ks_health_doubted(&health)); /* Who was refused asks again himself. */
    /* That it can be described is no proof. */
    ks_health_asked(&health, at(1), KS_OK);
    EXPECT_EQ_I64(health.state, KS_STORE_UNUSABLE);
    ks_health_read(&health, at(2), KS_OK);
    EXPECT_EQ_I64(health.state, KS_STORE_READY);

    ks_health_asked(&health, at(3), KS_FAIL(NOT_FOUND));
    EXPECT_EQ_I64(health.state, KS_STORE_UNUSABLE);
    EXPECT(ks_health_doubted(&health));
    ks_health_asked(&health, at(4), KS_OK);
    EXPECT_EQ_I64(health.state, KS_STORE_READY);
}

TEST(before_the_first_success_every_failure_is_told)
{
    struct ks_health health;

    ks_health_init(&health);
    ks_health_asked(&health, BEGIN, KS_FAIL(CONNECTION));
    EXPECT_EQ_I64(health.state, KS_STORE_AWAY);
    EXPECT(ks_health_doubted(&health));
}

TEST(a_stream_that_can_be_described_and_not_read_is_away_while_somebody_tries)
{
    struct ks_health health = ready();
    int64_t ms;

    for (ms = 0; ms <= KS_HEALTH_AWAY_MS; ms += 1000) {
        ks_health_read(&health, at(ms), KS_FAIL(SERVER));
        ks_health_asked(&health, at(ms + 500), KS_OK);
    }
    EXPECT_EQ_I64(health.state, KS_STORE_AWAY);
    ks_health_asked(&health, at(ms + KS_HEALTH_FRESH_MS - 2000), KS_OK);
    EXPECT_EQ_I64(health.state, KS_STORE_AWAY);
    /* The last one who tried gave up, or left. */
    struct ks_health left = health;
    ks_health_unread(&left);
    ks_health_asked(&left, at(ms), KS_OK);
    EXPECT_EQ_I64(left.state, KS_STORE_READY);
    ks_health_asked(&health, at(ms + KS_HEALTH_FRESH_MS), KS_OK);
    EXPECT_EQ_I64(health.state, KS_STORE_READY);
}

TEST(our_own_want_of_memory_says_nothing)
{
    struct ks_health health = ready();

    ks_health_read(&health, at(0), KS_FAIL(DENIED));
    ks_health_read(&health, at(1), KS_FAIL(NO_MEMORY));
    ks_health_asked(&health, at(2), KS_FAIL(FULL));
    EXPECT_EQ_I64(health.state, KS_STORE_UNUSABLE);
}
