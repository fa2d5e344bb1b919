/* SPDX-License-Identifier: Apache-2.0 */
/* What Kinesis does and no emulator: throttling, failures, other protocols. The rest is in the contract suite. */
#include "adapters/kinesis/polling.h"

#include "ks_test.h"
#include "polling_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char THROTTLED[] =
    "{\"__type\":\"ProvisionedThroughputExceededException\",\"message\":"
    "\"Rate exceeded for shard shardId-000000000000.\"}";

TEST(a_throttle_is_told_and_waited_out_with_the_same_iterator)
{
    struct polling_rig *rig = polling_rig_born(&POLLING_RIG_JSON, KS_POSITION_TRIM_HORIZON);

    polling_rig_say(rig, "GetShardIterator", 200, POLLING_RIG_ITERATOR);
    polling_rig_say(rig, "GetRecords", 400, THROTTLED);
    polling_rig_say(rig, "GetRecords", 400, THROTTLED);
    polling_rig_say(rig, "GetRecords", 200,
                    "{\"Records\":[" POLLING_RIG_RECORD(201) "],\"NextShardIterator\":\"I1\"}");
    for (int at = 0; at < 2; at++) {
        struct ks_read_answer answer = polling_rig_read(rig, 1000);
        EXPECT_ERR(answer.err, THROTTLED);
        EXPECT(answer.throttled);
        EXPECT_CONTAINS(answer.detail.text, "Rate exceeded");
        EXPECT(answer.batch.block == NULL);
    }
    polling_rig_expect(rig, "201");
    EXPECT(polling_rig_ms_between(rig, 1, 2) >= 250);
    EXPECT(polling_rig_ms_between(rig, 2, 3) >= 500);
    EXPECT_CONTAINS(rig->canned.requests[3].body, "\"I0\"");
    EXPECT_EQ_I64(rig->source->vtable->state(rig->source, NULL), KS_STORE_READY);
    polling_rig_end(rig);
}

TEST(who_is_throttled_waits_as_long_as_the_server_asks)
{
    struct polling_rig *rig = polling_rig_born(&POLLING_RIG_JSON, KS_POSITION_TRIM_HORIZON);

    polling_rig_say(rig, "GetShardIterator", 200, POLLING_RIG_ITERATOR);
    canned_say(&rig->canned, (struct canned_answer){.operation = "GetRecords",
                                                    .status = 400,
                                                    .headers = "x-amz-retry-after: 900\r\n",
                                                    .body = THROTTLED});
    polling_rig_say(rig, "GetRecords", 200,
                    "{\"Records\":[" POLLING_RIG_RECORD(201) "],\"NextShardIterator\":\"I1\"}");
    EXPECT_ERR(polling_rig_read(rig, 1000).err, THROTTLED);
    polling_rig_expect(rig, "201");
    EXPECT(polling_rig_ms_between(rig, 1, 2) >= 900);
    polling_rig_end(rig);
}

TEST(a_lost_answer_loses_no_record_and_repeats_none)
{
    struct polling_rig *rig = polling_rig_born(&POLLING_RIG_JSON, KS_POSITION_TRIM_HORIZON);

    polling_rig_say(rig, "GetShardIterator", 200, POLLING_RIG_ITERATOR);
    polling_rig_say(rig, "GetRecords", 200,
                    "{\"Records\":[" POLLING_RIG_RECORD(201) "],\"NextShardIterator\":\"I1\"}");
    polling_rig_say(rig, "GetRecords", 0, NULL);
    polling_rig_say(rig, "GetRecords", 503, "{\"__type\":\"ServiceUnavailable\"}");
    polling_rig_say(rig, "GetRecords", 200,
                    "{\"Records\":[" POLLING_RIG_RECORD(202) "],\"NextShardIterator\":\"I2\"}");
    polling_rig_expect(rig, "201");
    EXPECT_ERR(polling_rig_read(rig, 1000).err, CONNECTION);
    EXPECT_ERR(polling_rig_read(rig, 1000).err, SERVER);
    polling_rig_expect(rig, "202");
    EXPECT_CONTAINS(rig->canned.requests[2].body, "\"I1\"");
    EXPECT_CONTAINS(rig->canned.requests[4].body, "\"I1\"");
    EXPECT_EQ_I64(rig->source->vtable->state(rig->source, NULL), KS_STORE_READY);
    polling_rig_end(rig);
}

TEST(an_expired_iterator_is_renewed_within_the_read)
{
    struct polling_rig *rig = polling_rig_born(&POLLING_RIG_JSON, KS_POSITION_TRIM_HORIZON);

    polling_rig_say(rig, "GetShardIterator", 200, POLLING_RIG_ITERATOR);
    polling_rig_say(rig, "GetRecords", 200,
                    "{\"Records\":[" POLLING_RIG_RECORD(201) "],\"NextShardIterator\":\"I1\"}");
    polling_rig_say(rig, "GetRecords", 400,
                    "{\"__type\":\"ExpiredIteratorException\",\"message\":\"old\"}");
    polling_rig_say(rig, "GetShardIterator", 200, "{\"ShardIterator\":\"I2\"}");
    polling_rig_say(rig, "GetRecords", 200,
                    "{\"Records\":[" POLLING_RIG_RECORD(202) "],\"NextShardIterator\":\"I3\"}");
    polling_rig_expect(rig, "201");
    polling_rig_expect(rig, "202");
    EXPECT_CONTAINS(rig->canned.requests[3].body,
                    "\"AFTER_SEQUENCE_NUMBER\",\"StartingSequenceNumber\":\"201\"");
    EXPECT_CONTAINS(rig->canned.requests[4].body, "\"I2\"");
    polling_rig_end(rig);
}

TEST(an_iterator_that_expires_before_any_record_begins_where_it_began)
{
    struct polling_rig *rig = polling_rig_born(&POLLING_RIG_JSON, KS_POSITION_AFTER_SEQUENCE);

    polling_rig_say(rig, "GetShardIterator", 200, POLLING_RIG_ITERATOR);
    polling_rig_say(rig, "GetRecords", 200,
                    "{\"Records\":[],\"MillisBehindLatest\":9000,\"NextShardIterator\":\"I1\"}");
    polling_rig_say(rig, "GetRecords", 400,
                    "{\"__type\":\"ExpiredIteratorException\",\"message\":\"old\"}");
    polling_rig_say(rig, "GetShardIterator", 200, "{\"ShardIterator\":\"I2\"}");
    polling_rig_say(rig, "GetRecords", 200,
                    "{\"Records\":[" POLLING_RIG_RECORD(201) "],\"NextShardIterator\":\"I3\"}");
    polling_rig_expect(rig, "");
    polling_rig_expect(rig, "201");
    EXPECT_CONTAINS(rig->canned.requests[3].body,
                    "\"AT_SEQUENCE_NUMBER\",\"StartingSequenceNumber\":\"200\"");
    polling_rig_end(rig);
}

TEST(a_last_record_that_the_server_does_not_know_any_more_reads_from_the_horizon)
{
    struct polling_rig *rig = polling_rig_born(&POLLING_RIG_JSON, KS_POSITION_TRIM_HORIZON);

    polling_rig_say(rig, "GetShardIterator", 200, POLLING_RIG_ITERATOR);
    polling_rig_say(rig, "GetRecords", 200,
                    "{\"Records\":[" POLLING_RIG_RECORD(201) "],\"NextShardIterator\":\"I1\"}");
    polling_rig_say(rig, "GetRecords", 400,
                    "{\"__type\":\"ExpiredIteratorException\",\"message\":\"old\"}");
    polling_rig_say(rig, "GetShardIterator", 400, "{\"__type\":\"ResourceNotFoundException\"}");
    polling_rig_say(rig, "GetShardIterator", 200, "{\"ShardIterator\":\"I2\"}");
    polling_rig_say(rig, "GetRecords", 200,
                    "{\"Records\":[" POLLING_RIG_RECORD(201) "," POLLING_RIG_RECORD(
                        202) "],\"NextShardIterator\":\"I3\"}");
    polling_rig_expect(rig, "201");
    polling_rig_expect(rig, "202");
    EXPECT_CONTAINS(rig->canned.requests[3].body, "\"StartingSequenceNumber\":\"201\"");
    EXPECT_CONTAINS(rig->canned.requests[4].body, "\"TRIM_HORIZON\"");
    polling_rig_end(rig);
}

TEST(an_instant_that_the_server_has_not_reached_is_asked_for_five_minutes_earlier)
{
    struct polling_rig *rig = polling_rig_born(&POLLING_RIG_JSON, KS_POSITION_AT_TIMESTAMP);

    polling_rig_say(
        rig, "GetShardIterator", 400,
        "{\"__type\":\"InvalidArgumentException\",\"message\":\"The timestampInMillis parameter "
        "cannot be greater than the currentTimestampInMillis.\"}");
    polling_rig_say(rig, "GetShardIterator", 200, POLLING_RIG_ITERATOR);
    polling_rig_say(rig, "GetRecords", 200,
                    "{\"Records\":[" POLLING_RIG_RECORD(201) "],\"NextShardIterator\":\"I1\"}");
    polling_rig_expect(rig, "201");
    EXPECT_CONTAINS(rig->canned.requests[0].body, "\"Timestamp\":1795219200.123");
    EXPECT_CONTAINS(rig->canned.requests[1].body, "\"Timestamp\":1795218900.123");
    polling_rig_end(rig);
}

TEST(an_iterator_that_is_always_refused_is_told_in_the_end)
{
    struct polling_rig *rig = polling_rig_born(&POLLING_RIG_JSON, KS_POSITION_TRIM_HORIZON);

    for (int at = 0; at < 4; at++) {
        polling_rig_say(rig, "GetShardIterator", 200, POLLING_RIG_ITERATOR);
        polling_rig_say(rig, "GetRecords", 500, "");
    }
    struct ks_read_answer answer = polling_rig_read(rig, 1000);
    EXPECT_ERR(answer.err, SERVER);
    polling_rig_end(rig);
}

TEST(latest_that_was_lost_becomes_an_instant)
{
    struct polling_rig *rig = polling_rig_born(&POLLING_RIG_JSON, KS_POSITION_LATEST);

    polling_rig_say(rig, "GetShardIterator", 503, "");
    for (int at = 0; rig->canned.request_count < 1 && at < 1000; at++)
        ks_loop_turn(rig->loop, ks_span_ms(20));
    ks_loop_turn(rig->loop, ks_span_ms(20));
    EXPECT_CONTAINS(rig->canned.requests[0].body, "\"LATEST\"");
    polling_rig_say(rig, "GetShardIterator", 200, POLLING_RIG_ITERATOR);
    polling_rig_say(rig, "GetRecords", 200, "{\"Records\":[],\"NextShardIterator\":\"I1\"}");
    polling_rig_expect(rig, "");
    EXPECT_CONTAINS(rig->canned.requests[1].body, "\"AT_TIMESTAMP\",\"Timestamp\":");
    polling_rig_end(rig);
}

TEST(an_unknown_sequence_number_reads_from_the_horizon_and_drops_what_is_before)
{
    struct polling_rig *rig = polling_rig_born(&POLLING_RIG_JSON, KS_POSITION_AFTER_SEQUENCE);

    polling_rig_say(
        rig, "GetShardIterator", 400,
        "{\"__type\":\"InvalidArgumentException\",\"message\":\"StartingSequenceNumber 200\"}");
    polling_rig_say(rig, "GetShardIterator", 200, POLLING_RIG_ITERATOR);
    polling_rig_say(rig, "GetRecords", 200,
                    "{\"Records\":[" POLLING_RIG_RECORD(99) "," POLLING_RIG_RECORD(
                        199) "],\"NextShardIterator\":\"I1\"}");
    polling_rig_say(rig, "GetRecords", 200,
                    "{\"Records\":[" POLLING_RIG_RECORD(200) "," POLLING_RIG_RECORD(
                        201) "," POLLING_RIG_RECORD(202) "],\"NextShardIterator\":\"I2\"}");
    polling_rig_say(rig, "GetRecords", 200,
                    "{\"Records\":[" POLLING_RIG_RECORD(1000) "],\"NextShardIterator\":\"I3\"}");
    polling_rig_expect(rig, "");
    polling_rig_expect(rig, "201 202");
    polling_rig_expect(rig, "1000");
    EXPECT_CONTAINS(rig->canned.requests[0].body, "\"AT_SEQUENCE_NUMBER\"");
    EXPECT_CONTAINS(rig->canned.requests[1].body, "\"TRIM_HORIZON\"");
    polling_rig_end(rig);
}

TEST(a_shard_that_is_gone_is_not_found)
{
    struct polling_rig *rig = polling_rig_born(&POLLING_RIG_JSON, KS_POSITION_AFTER_SEQUENCE);
    static const char GONE[] = "{\"__type\":\"ResourceNotFoundException\",\"message\":\"Shard "
                               "shardId-000000000000 does not exist\"}";

    polling_rig_say(rig, "GetShardIterator", 400, GONE);
    polling_rig_say(rig, "GetShardIterator", 400, GONE);
    struct ks_read_answer answer = polling_rig_read(rig, 1000);
    EXPECT_ERR(answer.err, NOT_FOUND);
    EXPECT_CONTAINS(answer.detail.text, "does not exist");
    EXPECT_EQ_I64(rig->source->vtable->state(rig->source, NULL), KS_STORE_OPENING);
    polling_rig_end(rig);
}

TEST(the_end_of_a_shard_is_told_without_children_too_and_asked_for_once)
{
    struct polling_rig *rig = polling_rig_born(&POLLING_RIG_JSON, KS_POSITION_TRIM_HORIZON);

    polling_rig_say(rig, "GetShardIterator", 200, POLLING_RIG_ITERATOR);
    polling_rig_say(rig, "GetRecords", 200,
                    "{\"Records\":[" POLLING_RIG_RECORD(201) "],\"NextShardIterator\":null}");
    for (int at = 0; at < 3; at++) {
        struct ks_read_answer answer = polling_rig_read(rig, 1000);
        EXPECT_OK(answer.err);
        EXPECT(answer.batch.at_end);
        EXPECT_EQ_U64(answer.batch.count, at == 0 ? 1 : 0);
        EXPECT_STR(answer.batch.children[0], "");
        ks_batch_free(&answer.batch);
    }
    polling_rig_end(rig);
}

TEST(a_server_without_cbor_is_asked_for_json_from_then_on)
{
    static const char *const FIRST_ANSWERS[] = {
        "{\"__type\":\"SerializationException\"}",
        "{\"__type\":\"UnknownOperationException\"}",
    };

    for (size_t at = 0; at < 2; at++) {
        struct polling_rig *rig = polling_rig_born(&POLLING_RIG_CBOR, KS_POSITION_TRIM_HORIZON);
        polling_rig_say(rig, "GetShardIterator", 200, POLLING_RIG_ITERATOR);
        polling_rig_say(rig, "GetRecords", 400, FIRST_ANSWERS[at]);
        polling_rig_say(rig, "GetRecords", 200,
                        "{\"Records\":[" POLLING_RIG_RECORD(201) "],\"NextShardIterator\":\"I1\"}");
        polling_rig_say(rig, "GetRecords", 200,
                        "{\"Records\":[" POLLING_RIG_RECORD(202) "],\"NextShardIterator\":\"I2\"}");
        polling_rig_expect(rig, "201");
        polling_rig_expect(rig, "202");
        EXPECT_STR(rig->canned.requests[1].type, "application/x-amz-cbor-1.1");
        EXPECT_STR(rig->canned.requests[2].type, "application/x-amz-json-1.1");
        EXPECT_STR(rig->canned.requests[3].type, "application/x-amz-json-1.1");
        polling_rig_end(rig);
    }
}

/* Answers of moto 5.2.5: it fails over a body in CBOR. */
TEST(server_that_falls_over_cbor_is_read_in_json)
{
    static const char *const TYPES[] = {
        "application/x-amz-cbor-1.1", "application/x-amz-json-1.1", "application/x-amz-cbor-1.1",
        "application/x-amz-json-1.1", "application/x-amz-json-1.1",
    };
    struct polling_rig *rig = polling_rig_born(&POLLING_RIG_CBOR, KS_POSITION_TRIM_HORIZON);
    struct canned_answer fallen = {.operation = "GetRecords",
                                   .status = 500,
                                   .foreign = true,
                                   .type = "text/html; charset=utf-8",
                                   .body =
                                       "<!doctype html>\n<title>500 Internal Server Error</title>"};

    polling_rig_say(rig, "GetShardIterator", 200, POLLING_RIG_ITERATOR);
    canned_say(&rig->canned, fallen);
    polling_rig_say(rig, "GetRecords", 200,
                    "{\"Records\":[" POLLING_RIG_RECORD(201) "],\"NextShardIterator\":\"I1\"}");
    canned_say(&rig->canned, fallen);
    polling_rig_say(rig, "GetRecords", 200,
                    "{\"Records\":[" POLLING_RIG_RECORD(202) "],\"NextShardIterator\":\"I2\"}");
    polling_rig_say(rig, "GetRecords", 200,
                    "{\"Records\":[" POLLING_RIG_RECORD(203) "],\"NextShardIterator\":\"I3\"}");
    polling_rig_expect(rig, "201");
    polling_rig_expect(rig, "202");
    polling_rig_expect(rig, "203");
    for (int at = 0; at < 5; at++)
        EXPECT_STR(rig->canned.requests[at + 1].type, TYPES[at]);
    polling_rig_end(rig);
}

/* A gateway in front of AWS says 503 while AWS is away. */
TEST(failure_of_the_server_is_not_repeated_in_json)
{
    static const struct canned_answer answers[] = {
        {.operation = "GetRecords",
         .status = 503,
         .foreign = true,
         .type = "text/html",
         .body = "<"},
        {.operation = "GetRecords", .status = 500, .body = "{\"__type\":\"InternalFailure\"}"},
    };

    for (size_t at = 0; at < 2; at++) {
        struct polling_rig *rig = polling_rig_born(&POLLING_RIG_CBOR, KS_POSITION_TRIM_HORIZON);
        polling_rig_say(rig, "GetShardIterator", 200, POLLING_RIG_ITERATOR);
        canned_say(&rig->canned, answers[at]);
        EXPECT_ERR(polling_rig_read(rig, 1000).err, SERVER);
        EXPECT_EQ_U64(rig->canned.request_count, 2);
        EXPECT_STR(rig->canned.requests[1].type, "application/x-amz-cbor-1.1");
        polling_rig_end(rig);
    }
}

TEST(json_in_answer_to_cbor_is_read_as_what_it_is)
{
    struct polling_rig *rig = polling_rig_born(&POLLING_RIG_CBOR, KS_POSITION_TRIM_HORIZON);

    polling_rig_say(rig, "GetShardIterator", 200, POLLING_RIG_ITERATOR);
    polling_rig_say(rig, "GetRecords", 200,
                    "{\"Records\":[" POLLING_RIG_RECORD(201) "],\"NextShardIterator\":\"I1\"}");
    polling_rig_say(rig, "GetRecords", 200,
                    "{\"Records\":[" POLLING_RIG_RECORD(202) "],\"NextShardIterator\":\"I2\"}");
    polling_rig_expect(rig, "201");
    polling_rig_expect(rig, "202");
    EXPECT_STR(rig->canned.requests[2].type, "application/x-amz-json-1.1");
    polling_rig_end(rig);
}

TEST(cbor_is_read_and_stays_and_broken_cbor_is_asked_for_as_json)
{
    struct polling_rig *rig = polling_rig_born(&POLLING_RIG_CBOR, KS_POSITION_TRIM_HORIZON);
    /* {"Records": [], "NextShardIterator": "I1"}, and its first half. */
    static const char GOOD[] = "\xA2\x67Records\x80\x71NextShardIterator\x62I1";
    struct canned_answer cbor = {.operation = "GetRecords",
                                 .status = 200,
                                 .type = "application/x-amz-cbor-1.1",
                                 .body = GOOD,
                                 .size = sizeof(GOOD) - 1};

    polling_rig_say(rig, "GetShardIterator", 200, POLLING_RIG_ITERATOR);
    canned_say(&rig->canned, cbor);
    cbor.size = 12;
    canned_say(&rig->canned, cbor);
    polling_rig_say(rig, "GetRecords", 200,
                    "{\"Records\":[" POLLING_RIG_RECORD(201) "],\"NextShardIterator\":\"I2\"}");
    polling_rig_expect(rig, "");
    polling_rig_expect(rig, "201");
    EXPECT_STR(rig->canned.requests[2].type, "application/x-amz-cbor-1.1");
    EXPECT_STR(rig->canned.requests[3].type, "application/x-amz-json-1.1");
    EXPECT_CONTAINS(rig->canned.requests[3].body, "\"I1\"");
    polling_rig_end(rig);
}

TEST(malformed_bytes_are_told_and_the_iterator_is_kept)
{
    struct polling_rig *rig = polling_rig_born(&POLLING_RIG_JSON, KS_POSITION_TRIM_HORIZON);

    polling_rig_say(rig, "GetShardIterator", 200, POLLING_RIG_ITERATOR);
    polling_rig_say(rig, "GetRecords", 200, "{}");
    polling_rig_say(rig, "GetRecords", 200,
                    "{\"Records\":[" POLLING_RIG_RECORD(201) "],\"NextShardIterator\":\"I1\"}");
    struct ks_read_answer answer = polling_rig_read(rig, 1000);
    EXPECT_ERR(answer.err, MALFORMED);
    EXPECT_CONTAINS(answer.detail.text, "GetRecords of shardId-000000000000");
    polling_rig_expect(rig, "201");
    EXPECT_CONTAINS(rig->canned.requests[2].body, "\"I0\"");
    polling_rig_end(rig);
}

TEST(an_answer_without_a_body_is_no_answer)
{
    struct polling_rig *rig = polling_rig_born(&POLLING_RIG_JSON, KS_POSITION_TRIM_HORIZON);

    polling_rig_say(rig, "GetShardIterator", 200, POLLING_RIG_ITERATOR);
    polling_rig_say(rig, "GetRecords", 200, "");
    polling_rig_say(rig, "GetRecords", 204, "");
    polling_rig_say(rig, "GetRecords", 200,
                    "{\"Records\":[" POLLING_RIG_RECORD(201) "],\"NextShardIterator\":\"I1\"}");
    for (int at = 0; at < 2; at++)
        EXPECT_ERR(polling_rig_read(rig, 1000).err, MALFORMED);
    EXPECT_EQ_U64(rig->budget.used, 0);
    polling_rig_expect(rig, "201");
    polling_rig_end(rig);
}

TEST(a_full_budget_asks_for_fewer_and_fewer)
{
    struct polling_rig *rig = polling_rig_born(&POLLING_RIG_JSON, KS_POSITION_TRIM_HORIZON);
    static const char BODY[] =
        "{\"Records\":[" POLLING_RIG_RECORD(201) "],\"NextShardIterator\":\"I1\"}";

    polling_rig_say(rig, "GetShardIterator", 200, POLLING_RIG_ITERATOR);
    for (int at = 0; at < 4; at++)
        polling_rig_say(rig, "GetRecords", 200, BODY);
    rig->budget.limit = 20;
    for (int at = 0; at < 3; at++) {
        struct ks_read_answer answer = polling_rig_read(rig, 80 * 10240);
        EXPECT_ERR(answer.err, FULL);
        EXPECT(!answer.throttled);
        EXPECT_EQ_U64(rig->budget.used, 0);
    }
    rig->budget.limit = 1 << 20;
    polling_rig_expect(rig, "201");
    EXPECT_CONTAINS(rig->canned.requests[1].body, "\"Limit\":80}");
    EXPECT_CONTAINS(rig->canned.requests[2].body, "\"Limit\":40}");
    EXPECT_CONTAINS(rig->canned.requests[3].body, "\"Limit\":20}");
    EXPECT_CONTAINS(rig->canned.requests[4].body, "\"I0\",\"Limit\":10}");
    polling_rig_end(rig);
}

/* Three records of `size` bytes each, with sequence numbers from 201 on. */
static const char *three_records_of(size_t size)
{
    static char body[1 << 20];
    size_t at = (size_t)snprintf(body, sizeof(body), "{\"Records\":[");

    EXPECT(3 * (size / 3 * 4 + 100) < sizeof(body));
    for (int number = 201; number < 204; number++) {
        at += (size_t)snprintf(body + at, sizeof(body) - at, "%s{\"Data\":\"",
                               number > 201 ? "," : "");
        memset(body + at, 'A', size / 3 * 4);
        at += size / 3 * 4;
        at += (size_t)snprintf(body + at, sizeof(body) - at,
                               "\",\"PartitionKey\":\"k\",\"SequenceNumber\":\"%d\"}", number);
    }
    (void)snprintf(body + at, sizeof(body) - at,
                   "],\"NextShardIterator\":\"I1\",\"MillisBehindLatest\":5000}");
    return body;
}

static void turn_for_ms(struct polling_rig *rig, int64_t ms)
{
    ks_instant until = ks_instant_add(ks_loop_now(rig->loop), ks_span_ms(ms));

    while (!ks_instant_reached(ks_loop_now(rig->loop), until))
        ks_loop_turn(rig->loop, ks_span_ms(20));
}

/* A reader that has read records of 90,000 bytes, and one that waits for more. */
static struct polling_rig *rig_of_large_records(struct ks_read_answer *ret_held,
                                                struct polling_read *read)
{
    struct polling_rig *rig = polling_rig_born(&POLLING_RIG_JSON, KS_POSITION_TRIM_HORIZON);

    polling_rig_say(rig, "GetShardIterator", 200, POLLING_RIG_ITERATOR);
    polling_rig_say(rig, "GetRecords", 200, three_records_of(90000));
    *ret_held = polling_rig_read(rig, 1 << 20);
    EXPECT_OK(ret_held->err);
    EXPECT(rig->budget.used > 270000);
    rig->budget.limit = rig->budget.used + 200000;
    *read = (struct polling_read){.times = 0};
    rig->source->vtable->read(rig->reader, 100, 1 << 20, polling_rig_keep, read);
    return rig;
}

TEST(a_read_leaves_when_there_is_room_for_its_answer)
{
    struct polling_read read;
    struct ks_read_answer held;
    struct polling_rig *rig = rig_of_large_records(&held, &read);

    polling_rig_say(rig, "GetRecords", 200,
                    "{\"Records\":[" POLLING_RIG_RECORD(204) "],\"NextShardIterator\":\"I2\"}");
    turn_for_ms(rig, 1000);
    EXPECT_EQ_U64(rig->canned.request_count, 2);
    ks_batch_free(&held.batch);
    polling_rig_await(rig, &read.times);
    /* A record of 90,000 bytes takes its base64 while it arrives: there is room for three. */
    EXPECT_CONTAINS(rig->canned.requests[2].body, "\"I1\",\"Limit\":3}");
    EXPECT_OK(read.answer.err);
    ks_batch_free(&read.answer.batch);
    polling_rig_end(rig);
}

TEST(nobody_waits_for_room_for_ever)
{
    struct polling_read read;
    struct ks_read_answer held;
    struct polling_rig *rig = rig_of_large_records(&held, &read);

    polling_rig_say(rig, "GetRecords", 200,
                    "{\"Records\":[" POLLING_RIG_RECORD(204) "],\"NextShardIterator\":\"I2\"}");
    polling_rig_await(rig, &read.times);
    /* It was smaller than the last ones. */
    EXPECT_OK(read.answer.err);
    EXPECT_EQ_U64(read.answer.batch.count, 1);
    EXPECT(polling_rig_ms_between(rig, 1, 2) >= 2900);
    EXPECT_CONTAINS(rig->canned.requests[2].body, "\"I1\",\"Limit\":1}");
    ks_batch_free(&held.batch);
    ks_batch_free(&read.answer.batch);
    polling_rig_end(rig);
}

TEST(as_many_are_asked_for_as_there_is_room_for)
{
    struct polling_read read;
    struct ks_read_answer held;
    struct polling_rig *rig = rig_of_large_records(&held, &read);

    polling_rig_say(rig, "GetRecords", 200,
                    "{\"Records\":[" POLLING_RIG_RECORD(204) "],\"NextShardIterator\":\"I2\"}");
    rig->budget.limit = rig->budget.used + 800000;
    polling_rig_await(rig, &read.times);
    EXPECT_CONTAINS(rig->canned.requests[2].body, "\"I1\",\"Limit\":6}");
    ks_batch_free(&held.batch);
    ks_batch_free(&read.answer.batch);
    polling_rig_end(rig);
}

TEST(a_reader_is_closed_while_it_waits_for_room)
{
    struct polling_read read;
    struct ks_read_answer held;
    struct polling_rig *rig = rig_of_large_records(&held, &read);

    turn_for_ms(rig, 100);
    ks_batch_free(&held.batch);
    polling_rig_end(rig);
    EXPECT_EQ_U64(read.times, 0);
}

enum { LARGE_BYTES = 10 << 20 }; /* Of the largest record that there is. */

/* An answer with one record of so many bytes, at most LARGE_BYTES. */
static const char *one_record_of(size_t bytes)
{
    static const char *const ENDS[] = {"", "AA==", "AAA="};
    static char body[LARGE_BYTES / 3 * 4 + 200];

    (void)snprintf(
        body, sizeof(body),
        "{\"Records\":[{\"Data\":\"%0*d%s\",\"PartitionKey\":\"k\","
        "\"SequenceNumber\":\"7\"}],\"MillisBehindLatest\":1000,\"NextShardIterator\":\"I1\"}",
        (int)(bytes / 3 * 4), 0, ENDS[bytes % 3]);
    return body;
}

TEST(the_limit_follows_the_size_of_records)
{
    struct polling_rig *rig = polling_rig_born(&POLLING_RIG_JSON, KS_POSITION_TRIM_HORIZON);

    polling_rig_say(rig, "GetShardIterator", 200, POLLING_RIG_ITERATOR);
    polling_rig_say(rig, "GetRecords", 200, one_record_of(21000));
    polling_rig_say(rig, "GetRecords", 200,
                    "{\"Records\":[" POLLING_RIG_RECORD(8) "],\"NextShardIterator\":\"I1\"}");
    polling_rig_say(rig, "GetRecords", 200, "{\"Records\":[],\"NextShardIterator\":\"I1\"}");
    for (int at = 0; at < 3; at++) {
        struct ks_read_answer answer = polling_rig_read(rig, 210100);
        EXPECT_OK(answer.err);
        ks_batch_free(&answer.batch);
    }
    EXPECT_CONTAINS(rig->canned.requests[1].body, "\"Limit\":20}");
    EXPECT_CONTAINS(rig->canned.requests[2].body, "\"Limit\":10}");
    /* Half way down to small ones. */
    EXPECT_CONTAINS(rig->canned.requests[3].body, "\"Limit\":20}");
    polling_rig_end(rig);
}

TEST(an_answer_without_length_is_collected_as_it_grows)
{
    struct polling_rig *rig = polling_rig_born(&POLLING_RIG_JSON, KS_POSITION_TRIM_HORIZON);

    polling_rig_say(rig, "GetShardIterator", 200, POLLING_RIG_ITERATOR);
    canned_say(&rig->canned, (struct canned_answer){.operation = "GetRecords",
                                                    .status = 200,
                                                    .body = one_record_of(LARGE_BYTES),
                                                    .lengthless = true});
    struct ks_read_answer answer = polling_rig_read(rig, 1 << 20);
    EXPECT_OK(answer.err);
    EXPECT_EQ_U64(answer.batch.count, 1);
    EXPECT_EQ_U64(answer.batch.records[0].data.size, LARGE_BYTES);
    ks_batch_free(&answer.batch);
    polling_rig_end(rig);
}

TEST(after_an_answer_that_was_cut_by_its_size_the_next_read_waits_five_seconds)
{
    struct polling_rig *rig = polling_rig_born(&POLLING_RIG_JSON, KS_POSITION_TRIM_HORIZON);

    polling_rig_say(rig, "GetShardIterator", 200, POLLING_RIG_ITERATOR);
    polling_rig_say(rig, "GetRecords", 200, one_record_of(6 << 20));
    polling_rig_say(rig, "GetRecords", 200,
                    "{\"Records\":[" POLLING_RIG_RECORD(8) "],\"NextShardIterator\":\"I1\"}");
    struct ks_read_answer answer = polling_rig_read(rig, 1 << 20);
    EXPECT_OK(answer.err);
    EXPECT_EQ_U64(answer.batch.count, 1);
    EXPECT_EQ_U64(answer.batch.records[0].data.size, 6 << 20);
    ks_batch_free(&answer.batch);
    polling_rig_expect(rig, "8");
    EXPECT(polling_rig_ms_between(rig, 1, 2) >= 5000);
    /* As large as that they come one at a time. */
    EXPECT_CONTAINS(rig->canned.requests[2].body, "\"Limit\":1}");
    polling_rig_end(rig);
}

TEST(a_record_of_ten_mebibytes_comes_whole_in_cbor)
{
    struct polling_rig *rig = polling_rig_born(&POLLING_RIG_CBOR, KS_POSITION_TRIM_HORIZON);
    /* {"NextShardIterator": "I1", "Records": [{"PartitionKey": "k", "SequenceNumber": "7", "Data": 10 MiB}]} */
    static const char HEAD[] =
        "\xA2\x71NextShardIterator\x62I1\x67Records\x81\xA3\x6CPartitionKey\x61k"
        "\x6ESequenceNumber\x61\x37\x64"
        "Data\x5A\x00\xA0\x00\x00";
    static char body[sizeof(HEAD) - 1 + LARGE_BYTES];

    memcpy(body, HEAD, sizeof(HEAD) - 1);
    memset(body + sizeof(HEAD) - 1, 'x', LARGE_BYTES);
    polling_rig_say(rig, "GetShardIterator", 200, POLLING_RIG_ITERATOR);
    canned_say(&rig->canned, (struct canned_answer){.operation = "GetRecords",
                                                    .status = 200,
                                                    .type = "application/x-amz-cbor-1.1",
                                                    .body = body,
                                                    .size = sizeof(body)});
    struct ks_read_answer answer = polling_rig_read(rig, 1 << 20);
    EXPECT_STR(ks_ok(answer.err) ? "" : answer.detail.text, "");
    EXPECT_EQ_U64(answer.batch.records[0].data.size, LARGE_BYTES);
    /* One block, in which it came and stays, with room for as many records as were asked for. */
    EXPECT(rig->budget.most < sizeof(body) + (64 << 10));
    EXPECT(rig->budget.used < sizeof(body) + 2 * sizeof(struct ks_record));
    ks_batch_free(&answer.batch);
    polling_rig_end(rig);
}

TEST(an_answer_for_which_there_is_no_room_counts_at_the_server_all_the_same)
{
    struct polling_rig *rig = polling_rig_born(&POLLING_RIG_JSON, KS_POSITION_TRIM_HORIZON);

    polling_rig_say(rig, "GetShardIterator", 200, POLLING_RIG_ITERATOR);
    polling_rig_say(rig, "GetRecords", 200, one_record_of(4 << 20));
    polling_rig_say(rig, "GetRecords", 200,
                    "{\"Records\":[" POLLING_RIG_RECORD(8) "],\"NextShardIterator\":\"I1\"}");
    rig->budget.limit = 1 << 20;
    EXPECT_ERR(polling_rig_read(rig, 1 << 20).err, FULL);
    polling_rig_expect(rig, "8");
    EXPECT(polling_rig_ms_between(rig, 1, 2) >= 2000);
    polling_rig_end(rig);
}

/* Of bytes that are no answer, as far as they are read. */
static ks_err read_long(size_t size, bool lengthless)
{
    struct polling_rig *rig = polling_rig_born(&POLLING_RIG_JSON, KS_POSITION_TRIM_HORIZON);
    char *body = malloc(size);

    memset(body, 'x', size);
    polling_rig_say(rig, "GetShardIterator", 200, POLLING_RIG_ITERATOR);
    canned_say(&rig->canned, (struct canned_answer){.operation = "GetRecords",
                                                    .status = 200,
                                                    .body = body,
                                                    .size = size,
                                                    .lengthless = lengthless});
    ks_err err = polling_rig_read(rig, 1 << 20).err;
    polling_rig_end(rig);
    free(body);
    return err;
}

TEST(an_answer_is_as_long_as_it_may_be_whether_its_length_is_told_or_not)
{
    for (int lengthless = 0; lengthless < 2; lengthless++) {
        EXPECT_ERR(read_long(KS_KINESIS_ANSWER_MAX, lengthless == 1), MALFORMED);
        EXPECT_ERR(read_long(KS_KINESIS_ANSWER_MAX + 1, lengthless == 1), FULL);
    }
}

TEST(a_reader_is_closed_while_the_server_is_silent)
{
    struct polling_rig *rig = polling_rig_born(&POLLING_RIG_JSON, KS_POSITION_TRIM_HORIZON);
    struct polling_read read = {.times = 0};

    polling_rig_say(rig, "GetShardIterator", 200, POLLING_RIG_ITERATOR);
    canned_say(&rig->canned, (struct canned_answer){.operation = "GetRecords", .never = true});
    rig->source->vtable->read(rig->reader, 100, 1000, polling_rig_keep, &read);
    for (int at = 0; rig->canned.request_count < 2 && at < 1000; at++)
        ks_loop_turn(rig->loop, ks_span_ms(20));
    polling_rig_end(rig);
    EXPECT_EQ_U64(read.times, 0);
}
