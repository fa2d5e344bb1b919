/* SPDX-License-Identifier: Apache-2.0 */
/* The sidecar of tests. */
#include "kinesis-sidecar-client-testing.h"

#include <stdio.h>
#include <string.h>

#include "check.h"

static ks_fake *fake_of(int count, ks_consumer_options options, uint32_t max_attempts)
{
    ks_fake *fake = ks_fake_new(&options, max_attempts);

    EXPECT(fake != NULL);
    for (int number = 0; number < count; number++) {
        char data[16], key[16];
        (void)snprintf(data, sizeof(data), "%d", number);
        (void)snprintf(key, sizeof(key), "key-%d", number % 7);
        EXPECT(ks_fake_put(fake, key, data, strlen(data)));
    }
    return fake;
}

/* What was settled, like "1/1:ack 2/1:retry(reason)". */
static const char *outcomes_of(ks_fake *fake)
{
    static char text[4096];
    size_t count, used = 0;
    const ks_fake_outcome *outcomes = ks_fake_outcomes(fake, &count);

    text[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s/%u:%s", i == 0 ? "" : " ",
                                 (const char *)outcomes[i].data, outcomes[i].attempt,
                                 outcomes[i].outcome);
        if (outcomes[i].reason[0] != '\0')
            used += (size_t)snprintf(text + used, sizeof(text) - used, "(%s)", outcomes[i].reason);
        EXPECT(used < sizeof(text));
    }
    return text;
}

static int fail_or_give_up(ks_record *record, void *context)
{
    (void)context;
    if (strcmp((const char *)record->data, "1") == 0 && record->attempt == 1)
        return ks_record_fail(record, "odd");
    if (strcmp((const char *)record->data, "2") == 0)
        ks_record_dead_letter(record, "even");
    return 0;
}

TEST(run_reports_outcomes)
{
    ks_fake *fake = fake_of(4, (ks_consumer_options){0}, 0);

    EXPECT_EQ(ks_consumer_run(ks_fake_consumer(fake), fail_or_give_up, NULL), KS_CLIENT_OK);
    EXPECT_CONTAINS(outcomes_of(fake), "1/1:retry(odd)");
    EXPECT_CONTAINS(outcomes_of(fake), "1/2:ack");
    EXPECT_CONTAINS(outcomes_of(fake), "2/2:dead_letter(even)");
    EXPECT_CONTAINS(outcomes_of(fake), "3/2:ack"); /* The retry took it back. */
    ks_fake_free(fake);
}

static int fail(ks_record *record, void *context)
{
    (void)context;
    return ks_record_fail(record, "never");
}

TEST(record_that_always_fails_becomes_a_dead_letter)
{
    ks_fake *fake = fake_of(1, (ks_consumer_options){0}, 2);

    EXPECT_EQ(ks_consumer_run(ks_fake_consumer(fake), fail, NULL), KS_CLIENT_OK);
    EXPECT_STR(outcomes_of(fake), "0/1:retry(never) 0/2:dead_letter(never)");
    ks_fake_free(fake);
}

static int fail_some_once(ks_record *record, void *context)
{
    (void)context;
    return strchr((const char *)record->data, '3') != NULL && record->attempt == 1;
}

TEST(concurrent_handlers_settle_all_records)
{
    ks_fake *fake = fake_of(100, (ks_consumer_options){.concurrency = 8}, 0);
    size_t count, acks = 0;
    const ks_fake_outcome *outcomes;

    EXPECT_EQ(ks_consumer_run(ks_fake_consumer(fake), fail_some_once, NULL), KS_CLIENT_OK);
    outcomes = ks_fake_outcomes(fake, &count);
    for (size_t i = 0; i < count; i++)
        acks += strcmp(outcomes[i].outcome, "ack") == 0;
    EXPECT_EQ(acks, 100);
    ks_fake_free(fake);
}

TEST(left_loop_settles_nothing)
{
    ks_fake *fake = fake_of(3, (ks_consumer_options){0}, 0);
    ks_consumer *consumer = ks_fake_consumer(fake);

    EXPECT(ks_consumer_next(consumer, -1) != NULL);
    EXPECT(ks_record_ack_persisted(ks_consumer_next(consumer, -1)));
    EXPECT(ks_consumer_next(consumer, -1) != NULL);
    EXPECT_STR(outcomes_of(fake), "0/1:ack 1/1:ack");
    ks_fake_free(fake);
}

TEST(loop_ends_after_the_last_outcome)
{
    ks_fake *fake = fake_of(25, (ks_consumer_options){0}, 0);
    ks_consumer *consumer = ks_fake_consumer(fake);
    const ks_batch *batch;
    size_t count = 0;

    while ((batch = ks_consumer_batch(consumer, 10, 10)) != NULL)
        count += batch->count;
    EXPECT_EQ(count, 25);
    EXPECT_EQ(ks_consumer_status(consumer), KS_CLIENT_STOPPED);
    ks_fake_free(fake);
    ks_fake_free(NULL);
}

TEST(outcomes_of_a_batch_of_which_a_record_is_retried_are_reported)
{
    ks_fake *fake = fake_of(3, (ks_consumer_options){0}, 0);
    ks_consumer *consumer = ks_fake_consumer(fake);
    const ks_batch *batch = ks_consumer_batch(consumer, 3, 60000);

    EXPECT_EQ(batch->count, 3);
    ks_record_retry(batch->records[0], 0, NULL);
    batch = ks_consumer_batch(consumer, 1, 60000);
    EXPECT_EQ(batch->count, 1);
    EXPECT_EQ(batch->records[0]->attempt, 2);
    EXPECT(ks_consumer_batch(consumer, 3, 10) == NULL);
    EXPECT_CONTAINS(outcomes_of(fake), "1/1:ack");
    EXPECT_CONTAINS(outcomes_of(fake), "2/1:ack");
    EXPECT_CONTAINS(outcomes_of(fake), "0/2:ack");
    ks_fake_free(fake);
}

TEST(data_may_have_any_bytes)
{
    ks_fake *fake = ks_fake_new(NULL, 0);
    ks_record *record;

    EXPECT(ks_fake_put(fake, "key", "\0\xff", 2) && ks_fake_put(fake, "key", NULL, 0));
    record = ks_consumer_next(ks_fake_consumer(fake), -1);
    EXPECT(record->data_size == 2 && memcmp(record->data, "\0\xff", 3) == 0);
    record = ks_consumer_next(ks_fake_consumer(fake), -1);
    EXPECT(record->data_size == 0 && record->data[0] == '\0');
    ks_fake_free(fake);
}
