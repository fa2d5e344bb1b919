/* SPDX-License-Identifier: Apache-2.0 */
/* What Kinesis does and no emulator: throttling, failures, other protocols. The rest is in the contract suite. */
#include "adapters/kinesis/polling.h"

#include "aws/credentials.h"
#include "aws/endpoint.h"

#include "canned.h"
#include "ks_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RECORD(n) "{\"Data\":\"YQ==\",\"PartitionKey\":\"k\",\"SequenceNumber\":\"" #n "\"}"
static const char ITERATOR[] = "{\"ShardIterator\":\"I0\"}";
static const char THROTTLED[] =
    "{\"__type\":\"ProvisionedThroughputExceededException\",\"message\":"
    "\"Rate exceeded for shard shardId-000000000000.\"}";

struct rig {
    struct ks_loop *loop;
    struct canned canned;
    struct ks_http *http;
    struct ks_credentials_source *credentials;
    struct ks_aws_client *client;
    struct ks_stream_source *source;
    struct ks_budget budget;
    struct ks_reader *reader;
    struct ks_position from;
};

struct read {
    uint32_t times;
    struct ks_read_answer answer;
};

/* A reader of the first shard; a static rig, for it is large. */
static struct rig *born(const struct ks_kinesis_options *options, enum ks_position_kind kind)
{
    static struct rig rig;
    struct ks_http_options http = {.connections_kept = 4};
    struct ks_credentials_options credentials = {.sts_region = "us-east-1"};
    struct ks_endpoint endpoint;

    EXPECT_EQ_I64(setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE", 1), 0);
    EXPECT_EQ_I64(setenv("AWS_SECRET_ACCESS_KEY", "secret", 1), 0);
    EXPECT_OK(ks_loop_new(&rig.loop));
    canned_open(&rig.canned, rig.loop);
    EXPECT_OK(ks_http_new(rig.loop, &http, &rig.http, NULL));
    credentials.loop = rig.loop;
    credentials.http = rig.http;
    EXPECT_OK(ks_credentials_source_new(&credentials, &rig.credentials, NULL));
    EXPECT_OK(ks_endpoint_resolve("kinesis", "us-east-1", rig.canned.url, &endpoint, NULL));
    struct ks_aws_client_options client = {.service = KS_AWS_KINESIS,
                                           .loop = rig.loop,
                                           .http = rig.http,
                                           .credentials = rig.credentials,
                                           .endpoint = &endpoint,
                                           .seed = 1};
    EXPECT_OK(ks_aws_client_new(&client, &rig.client));
    EXPECT_OK(
        ks_kinesis_source_open_with(rig.loop, rig.client, "demo", options, &rig.source, NULL));
    ks_budget_init(&rig.budget, 64 << 20);
    rig.from = (struct ks_position){.kind = kind, .sequence = "200", .sub_sequence = -1};
    EXPECT_OK(rig.source->vtable->open(rig.source, "shardId-000000000000", &rig.from, &rig.budget,
                                       &rig.reader));
    return &rig;
}

static void end(struct rig *rig)
{
    rig->source->vtable->close_reader(rig->reader);
    rig->source->vtable->close(rig->source);
    ks_aws_client_free(rig->client);
    ks_credentials_source_free(rig->credentials);
    ks_http_free(rig->http);
    canned_close(&rig->canned);
    ks_loop_free(rig->loop);
    EXPECT_EQ_U64(rig->budget.used, 0);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

static void say(struct rig *rig, const char *operation, int status, const char *body)
{
    canned_say(&rig->canned,
               (struct canned_answer){.operation = operation, .status = status, .body = body});
}

static void keep(void *arg, const struct ks_read_answer *answer)
{
    struct read *read = arg;

    read->times++;
    read->answer = *answer;
}

static struct ks_read_answer read_one(struct rig *rig, uint32_t max_bytes)
{
    struct read read = {.times = 0};

    rig->source->vtable->read(rig->reader, 100, max_bytes, keep, &read);
    for (int at = 0; read.times == 0 && at < 200; at++)
        ks_loop_turn(rig->loop, ks_span_ms(100));
    EXPECT_EQ_U64(read.times, 1);
    return read.answer;
}

/* Reads, and expects records with these sequence numbers: "201 202". */
static void expect_records(struct rig *rig, const char *expected)
{
    struct ks_read_answer answer = read_one(rig, 1 << 20);
    char seen[256] = "";
    size_t size = 0;

    EXPECT_STR(ks_ok(answer.err) ? "" : answer.detail.text, "");
    for (uint32_t at = 0; at < answer.batch.count; at++)
        size += (size_t)snprintf(seen + size, sizeof(seen) - size, "%s%.*s", at == 0 ? "" : " ",
                                 (int)answer.batch.records[at].sequence.size,
                                 (const char *)answer.batch.records[at].sequence.data);
    EXPECT_STR(seen, expected);
    ks_batch_free(&answer.batch);
}

static int64_t ms_between(const struct rig *rig, uint32_t from, uint32_t to)
{
    return ks_span_to_ms(
        ks_instant_since(rig->canned.requests[to].at, rig->canned.requests[from].at));
}

static const struct ks_kinesis_options JSON = {.json = true};
static const struct ks_kinesis_options CBOR = {.json = false};

TEST(a_throttle_is_told_and_waited_out_with_the_same_iterator)
{
    struct rig *rig = born(&JSON, KS_POSITION_TRIM_HORIZON);

    say(rig, "GetShardIterator", 200, ITERATOR);
    say(rig, "GetRecords", 400, THROTTLED);
    say(rig, "GetRecords", 400, THROTTLED);
    say(rig, "GetRecords", 200, "{\"Records\":[" RECORD(201) "],\"NextShardIterator\":\"I1\"}");
    for (int at = 0; at < 2; at++) {
        struct ks_read_answer answer = read_one(rig, 1000);
        EXPECT_ERR(answer.err, THROTTLED);
        EXPECT(answer.throttled);
        EXPECT_CONTAINS(answer.detail.text, "Rate exceeded");
        EXPECT(answer.batch.block == NULL);
    }
    expect_records(rig, "201");
    EXPECT(ms_between(rig, 1, 2) >= 250);
    EXPECT(ms_between(rig, 2, 3) >= 500);
    EXPECT_CONTAINS(rig->canned.requests[3].body, "\"I0\"");
    EXPECT_EQ_I64(rig->source->vtable->state(rig->source, NULL), KS_STORE_READY);
    end(rig);
}

TEST(a_lost_answer_loses_no_record_and_repeats_none)
{
    struct rig *rig = born(&JSON, KS_POSITION_TRIM_HORIZON);
    struct ks_detail detail;

    say(rig, "GetShardIterator", 200, ITERATOR);
    say(rig, "GetRecords", 200, "{\"Records\":[" RECORD(201) "],\"NextShardIterator\":\"I1\"}");
    say(rig, "GetRecords", 0, NULL);
    say(rig, "GetRecords", 503, "{\"__type\":\"ServiceUnavailable\"}");
    say(rig, "GetRecords", 200, "{\"Records\":[" RECORD(202) "],\"NextShardIterator\":\"I2\"}");
    expect_records(rig, "201");
    EXPECT_ERR(read_one(rig, 1000).err, CONNECTION);
    EXPECT_EQ_I64(rig->source->vtable->state(rig->source, &detail), KS_STORE_AWAY);
    EXPECT(detail.text[0] != '\0');
    EXPECT_ERR(read_one(rig, 1000).err, SERVER);
    expect_records(rig, "202");
    EXPECT_CONTAINS(rig->canned.requests[2].body, "\"I1\"");
    EXPECT_CONTAINS(rig->canned.requests[4].body, "\"I1\"");
    EXPECT_EQ_I64(rig->source->vtable->state(rig->source, NULL), KS_STORE_READY);
    end(rig);
}

TEST(an_expired_iterator_is_renewed_within_the_read)
{
    struct rig *rig = born(&JSON, KS_POSITION_TRIM_HORIZON);

    say(rig, "GetShardIterator", 200, ITERATOR);
    say(rig, "GetRecords", 200, "{\"Records\":[" RECORD(201) "],\"NextShardIterator\":\"I1\"}");
    say(rig, "GetRecords", 400, "{\"__type\":\"ExpiredIteratorException\",\"message\":\"old\"}");
    say(rig, "GetShardIterator", 200, "{\"ShardIterator\":\"I2\"}");
    say(rig, "GetRecords", 200, "{\"Records\":[" RECORD(202) "],\"NextShardIterator\":\"I3\"}");
    expect_records(rig, "201");
    expect_records(rig, "202");
    EXPECT_CONTAINS(rig->canned.requests[3].body,
                    "\"AFTER_SEQUENCE_NUMBER\",\"StartingSequenceNumber\":\"201\"");
    EXPECT_CONTAINS(rig->canned.requests[4].body, "\"I2\"");
    end(rig);
}

TEST(an_iterator_that_is_always_refused_is_told_in_the_end)
{
    struct rig *rig = born(&JSON, KS_POSITION_TRIM_HORIZON);

    for (int at = 0; at < 4; at++) {
        say(rig, "GetShardIterator", 200, ITERATOR);
        say(rig, "GetRecords", 500, "");
    }
    struct ks_read_answer answer = read_one(rig, 1000);
    EXPECT_ERR(answer.err, SERVER);
    end(rig);
}

TEST(latest_that_was_lost_becomes_an_instant)
{
    struct rig *rig = born(&JSON, KS_POSITION_LATEST);

    say(rig, "GetShardIterator", 503, "");
    for (int at = 0; rig->canned.request_count < 1 && at < 100; at++)
        ks_loop_turn(rig->loop, ks_span_ms(20));
    ks_loop_turn(rig->loop, ks_span_ms(20));
    EXPECT_CONTAINS(rig->canned.requests[0].body, "\"LATEST\"");
    say(rig, "GetShardIterator", 200, ITERATOR);
    say(rig, "GetRecords", 200, "{\"Records\":[],\"NextShardIterator\":\"I1\"}");
    expect_records(rig, "");
    EXPECT_CONTAINS(rig->canned.requests[1].body, "\"AT_TIMESTAMP\",\"Timestamp\":");
    end(rig);
}

TEST(an_unknown_sequence_number_reads_from_the_horizon_and_drops_what_is_before)
{
    struct rig *rig = born(&JSON, KS_POSITION_AFTER_SEQUENCE);

    say(rig, "GetShardIterator", 400,
        "{\"__type\":\"InvalidArgumentException\",\"message\":\"StartingSequenceNumber 200\"}");
    say(rig, "GetShardIterator", 200, ITERATOR);
    say(rig, "GetRecords", 200,
        "{\"Records\":[" RECORD(99) "," RECORD(199) "],\"NextShardIterator\":\"I1\"}");
    say(rig, "GetRecords", 200,
        "{\"Records\":[" RECORD(200) "," RECORD(201) "," RECORD(
            202) "],\"NextShardIterator\":\"I2\"}");
    say(rig, "GetRecords", 200, "{\"Records\":[" RECORD(1000) "],\"NextShardIterator\":\"I3\"}");
    expect_records(rig, "");
    expect_records(rig, "201 202");
    expect_records(rig, "1000");
    EXPECT_CONTAINS(rig->canned.requests[0].body, "\"AFTER_SEQUENCE_NUMBER\"");
    EXPECT_CONTAINS(rig->canned.requests[1].body, "\"TRIM_HORIZON\"");
    end(rig);
}

TEST(a_shard_that_is_gone_is_not_found)
{
    struct rig *rig = born(&JSON, KS_POSITION_AFTER_SEQUENCE);
    static const char GONE[] = "{\"__type\":\"ResourceNotFoundException\",\"message\":\"Shard "
                               "shardId-000000000000 does not exist\"}";

    say(rig, "GetShardIterator", 400, GONE);
    say(rig, "GetShardIterator", 400, GONE);
    struct ks_read_answer answer = read_one(rig, 1000);
    EXPECT_ERR(answer.err, NOT_FOUND);
    EXPECT_CONTAINS(answer.detail.text, "does not exist");
    EXPECT_EQ_I64(rig->source->vtable->state(rig->source, NULL), KS_STORE_OPENING);
    end(rig);
}

TEST(the_end_of_a_shard_is_told_without_children_too_and_asked_for_once)
{
    struct rig *rig = born(&JSON, KS_POSITION_TRIM_HORIZON);

    say(rig, "GetShardIterator", 200, ITERATOR);
    say(rig, "GetRecords", 200, "{\"Records\":[" RECORD(201) "],\"NextShardIterator\":null}");
    for (int at = 0; at < 3; at++) {
        struct ks_read_answer answer = read_one(rig, 1000);
        EXPECT_OK(answer.err);
        EXPECT(answer.batch.at_end);
        EXPECT_EQ_U64(answer.batch.count, at == 0 ? 1 : 0);
        EXPECT_STR(answer.batch.children[0], "");
        ks_batch_free(&answer.batch);
    }
    end(rig);
}

TEST(a_server_without_cbor_is_asked_for_json_from_then_on)
{
    static const char *const FIRST_ANSWERS[] = {
        "{\"__type\":\"SerializationException\"}",
        "{\"__type\":\"UnknownOperationException\"}",
    };

    for (size_t at = 0; at < 2; at++) {
        struct rig *rig = born(&CBOR, KS_POSITION_TRIM_HORIZON);
        say(rig, "GetShardIterator", 200, ITERATOR);
        say(rig, "GetRecords", 400, FIRST_ANSWERS[at]);
        say(rig, "GetRecords", 200, "{\"Records\":[" RECORD(201) "],\"NextShardIterator\":\"I1\"}");
        say(rig, "GetRecords", 200, "{\"Records\":[" RECORD(202) "],\"NextShardIterator\":\"I2\"}");
        expect_records(rig, "201");
        expect_records(rig, "202");
        EXPECT_STR(rig->canned.requests[1].type, "application/x-amz-cbor-1.1");
        EXPECT_STR(rig->canned.requests[2].type, "application/x-amz-json-1.1");
        EXPECT_STR(rig->canned.requests[3].type, "application/x-amz-json-1.1");
        end(rig);
    }
}

TEST(json_in_answer_to_cbor_is_read_as_what_it_is)
{
    struct rig *rig = born(&CBOR, KS_POSITION_TRIM_HORIZON);

    say(rig, "GetShardIterator", 200, ITERATOR);
    say(rig, "GetRecords", 200, "{\"Records\":[" RECORD(201) "],\"NextShardIterator\":\"I1\"}");
    say(rig, "GetRecords", 200, "{\"Records\":[" RECORD(202) "],\"NextShardIterator\":\"I2\"}");
    expect_records(rig, "201");
    expect_records(rig, "202");
    EXPECT_STR(rig->canned.requests[2].type, "application/x-amz-json-1.1");
    end(rig);
}

TEST(cbor_is_read_and_stays_and_broken_cbor_is_asked_for_as_json)
{
    struct rig *rig = born(&CBOR, KS_POSITION_TRIM_HORIZON);
    /* {"Records": [], "NextShardIterator": "I1"}, and its first half. */
    static const char GOOD[] = "\xA2\x67Records\x80\x71NextShardIterator\x62I1";
    struct canned_answer cbor = {.operation = "GetRecords",
                                 .status = 200,
                                 .type = "application/x-amz-cbor-1.1",
                                 .body = GOOD,
                                 .size = sizeof(GOOD) - 1};

    say(rig, "GetShardIterator", 200, ITERATOR);
    canned_say(&rig->canned, cbor);
    cbor.size = 12;
    canned_say(&rig->canned, cbor);
    say(rig, "GetRecords", 200, "{\"Records\":[" RECORD(201) "],\"NextShardIterator\":\"I2\"}");
    expect_records(rig, "");
    expect_records(rig, "201");
    EXPECT_STR(rig->canned.requests[2].type, "application/x-amz-cbor-1.1");
    EXPECT_STR(rig->canned.requests[3].type, "application/x-amz-json-1.1");
    EXPECT_CONTAINS(rig->canned.requests[3].body, "\"I1\"");
    end(rig);
}

TEST(malformed_bytes_are_told_and_the_iterator_is_kept)
{
    struct rig *rig = born(&JSON, KS_POSITION_TRIM_HORIZON);

    say(rig, "GetShardIterator", 200, ITERATOR);
    say(rig, "GetRecords", 200, "{}");
    say(rig, "GetRecords", 200, "{\"Records\":[" RECORD(201) "],\"NextShardIterator\":\"I1\"}");
    struct ks_read_answer answer = read_one(rig, 1000);
    EXPECT_ERR(answer.err, MALFORMED);
    EXPECT_CONTAINS(answer.detail.text, "GetRecords of shardId-000000000000");
    expect_records(rig, "201");
    EXPECT_CONTAINS(rig->canned.requests[2].body, "\"I0\"");
    end(rig);
}

TEST(a_full_budget_asks_for_fewer_and_fewer)
{
    struct rig *rig = born(&JSON, KS_POSITION_TRIM_HORIZON);
    static const char BODY[] = "{\"Records\":[" RECORD(201) "],\"NextShardIterator\":\"I1\"}";

    say(rig, "GetShardIterator", 200, ITERATOR);
    for (int at = 0; at < 4; at++)
        say(rig, "GetRecords", 200, BODY);
    rig->budget.limit = 20;
    for (int at = 0; at < 3; at++) {
        struct ks_read_answer answer = read_one(rig, 80 * 10240);
        EXPECT_ERR(answer.err, FULL);
        EXPECT(!answer.throttled);
        EXPECT_EQ_U64(rig->budget.used, 0);
    }
    rig->budget.limit = 1 << 20;
    expect_records(rig, "201");
    EXPECT_CONTAINS(rig->canned.requests[1].body, "\"Limit\":80}");
    EXPECT_CONTAINS(rig->canned.requests[2].body, "\"Limit\":40}");
    EXPECT_CONTAINS(rig->canned.requests[3].body, "\"Limit\":20}");
    EXPECT_CONTAINS(rig->canned.requests[4].body, "\"I0\",\"Limit\":10}");
    end(rig);
}

TEST(the_limit_follows_the_size_of_records)
{
    struct rig *rig = born(&JSON, KS_POSITION_TRIM_HORIZON);
    static char body[40000];
    static char data[28001];

    /* 21,000 bytes each. */
    memset(data, 'A', sizeof(data) - 1);
    (void)snprintf(
        body, sizeof(body),
        "{\"Records\":[{\"Data\":\"%s\",\"PartitionKey\":\"k\",\"SequenceNumber\":\"7\"}],"
        "\"NextShardIterator\":\"I1\"}",
        data);
    say(rig, "GetShardIterator", 200, ITERATOR);
    say(rig, "GetRecords", 200, body);
    say(rig, "GetRecords", 200, "{\"Records\":[" RECORD(8) "],\"NextShardIterator\":\"I1\"}");
    say(rig, "GetRecords", 200, "{\"Records\":[],\"NextShardIterator\":\"I1\"}");
    for (int at = 0; at < 3; at++) {
        struct ks_read_answer answer = read_one(rig, 210100);
        EXPECT_OK(answer.err);
        ks_batch_free(&answer.batch);
    }
    EXPECT_CONTAINS(rig->canned.requests[1].body, "\"Limit\":20}");
    EXPECT_CONTAINS(rig->canned.requests[2].body, "\"Limit\":10}");
    /* Half way down to small ones. */
    EXPECT_CONTAINS(rig->canned.requests[3].body, "\"Limit\":20}");
    end(rig);
}

TEST(an_answer_without_length_is_collected_as_it_grows)
{
    struct rig *rig = born(&JSON, KS_POSITION_TRIM_HORIZON);
    static char body[400000];
    static char data[300001];

    memset(data, 'A', sizeof(data) - 1);
    (void)snprintf(
        body, sizeof(body),
        "{\"Records\":[{\"Data\":\"%s\",\"PartitionKey\":\"k\",\"SequenceNumber\":\"7\"}],"
        "\"NextShardIterator\":\"I1\"}",
        data);
    say(rig, "GetShardIterator", 200, ITERATOR);
    canned_say(&rig->canned,
               (struct canned_answer){
                   .operation = "GetRecords", .status = 200, .body = body, .lengthless = true});
    struct ks_read_answer answer = read_one(rig, 1 << 20);
    EXPECT_OK(answer.err);
    EXPECT_EQ_U64(answer.batch.count, 1);
    EXPECT_EQ_U64(answer.batch.records[0].data.size, 225000);
    ks_batch_free(&answer.batch);
    end(rig);
}

TEST(a_reader_is_closed_while_the_server_is_silent)
{
    struct rig *rig = born(&JSON, KS_POSITION_TRIM_HORIZON);
    struct read read = {.times = 0};

    say(rig, "GetShardIterator", 200, ITERATOR);
    canned_say(&rig->canned, (struct canned_answer){.operation = "GetRecords", .never = true});
    rig->source->vtable->read(rig->reader, 100, 1000, keep, &read);
    for (int at = 0; rig->canned.request_count < 2 && at < 100; at++)
        ks_loop_turn(rig->loop, ks_span_ms(20));
    end(rig);
    EXPECT_EQ_U64(read.times, 0);
}

TEST(a_stream_that_was_away_is_found_again_though_nobody_reads)
{
    static const char summary[] = "{\"StreamDescriptionSummary\":{\"StreamARN\":\"arn:aws:kinesis:"
                                  "us-east-1:1:stream/demo\"}}";
    struct rig *rig = born(&JSON, KS_POSITION_TRIM_HORIZON);

    say(rig, "GetShardIterator", 0, "");
    say(rig, "DescribeStreamSummary", 0, "");
    for (int attempt = 1; attempt < 3; attempt++) /* The retries of the SDKs. */
        say(rig, "DescribeStreamSummary", 0, "");
    say(rig, "DescribeStreamSummary", 200, summary);
    EXPECT(!ks_ok(read_one(rig, 1 << 20).err));
    EXPECT_EQ_I64(rig->source->vtable->state(rig->source, NULL), KS_STORE_AWAY);
    for (int at = 0; at < 600 && rig->canned.request_count < 5; at++)
        ks_loop_turn(rig->loop, ks_span_ms(10));
    for (int at = 0; at < 10; at++)
        ks_loop_turn(rig->loop, ks_span_ms(10));
    EXPECT_EQ_I64(rig->source->vtable->state(rig->source, NULL), KS_STORE_READY);
    /* It is asked no more than it must be. */
    EXPECT(ks_instant_since(rig->canned.requests[4].at, rig->canned.requests[0].at).us >= 1500000);
    end(rig);
}

TEST(a_name_that_is_none_is_invalid)
{
    struct ks_stream_source *source;
    struct ks_detail detail = {.text = ""};
    char name[KS_STREAM_NAME_MAX + 2];

    memset(name, 'n', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    EXPECT_ERR(ks_kinesis_source_open(NULL, NULL, "", &source, &detail), INVALID);
    EXPECT_ERR(ks_kinesis_source_open(NULL, NULL, name, &source, &detail), INVALID);
    EXPECT_CONTAINS(detail.text, "1 to 128");
}
