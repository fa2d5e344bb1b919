/* SPDX-License-Identifier: Apache-2.0 */
/* What the answers of Kinesis say about the stream as a whole, and how often a person hears of it. */
#include "adapters/kinesis/control.h"

#include "adapters/kinesis/polling.h"
#include "base/log.h"

#include "ks_test.h"
#include "polling_rig.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int log_file;

/* From here on the log is kept. */
static void keep_log(void)
{
    log_file = memfd_create("log", MFD_CLOEXEC);
    EXPECT(log_file >= 0);
    ks_log_open(log_file, KS_LOG_INFO, KS_LOG_TEXT);
}

/* How many of its lines have this text. */
static uint32_t told(const char *text)
{
    static char lines[16384];
    uint32_t count = 0;

    while (ks_log_flush())
        continue;
    ssize_t size = pread(log_file, lines, sizeof(lines) - 1, 0);
    EXPECT(size >= 0);
    lines[size] = '\0';
    for (const char *line = lines; (line = strstr(line, text)) != NULL; line++)
        count++;
    return count;
}

#define SUMMARY(status)                                                                            \
    "{\"StreamDescriptionSummary\":{\"StreamARN\":\"arn:aws:kinesis:us-east-1:1:stream/demo\","    \
    "\"StreamStatus\":\"" status "\"}}"

struct description {
    uint32_t times;
    ks_err err;
    struct ks_detail detail;
};

static void keep_description(void *arg, const struct ks_describe_answer *answer)
{
    struct description *description = arg;

    description->times++;
    description->err = answer->err;
    description->detail = answer->detail;
}

static struct description describe(struct polling_rig *rig)
{
    struct description description = {.times = 0};

    rig->source->vtable->describe(rig->source, keep_description, &description);
    polling_rig_await(rig, &description.times);
    EXPECT_EQ_U64(description.times, 1);
    return description;
}

struct listing {
    uint32_t times;
    ks_err err;
    uint32_t count;
};

static void keep_listing(void *arg, const struct ks_list_answer *answer)
{
    struct listing *listing = arg;

    listing->times++;
    listing->err = answer->err;
    listing->count = answer->count;
}

static struct listing list(struct polling_rig *rig, int64_t since_ms)
{
    struct listing listing = {.times = 0};

    rig->source->vtable->list(rig->source, since_ms, keep_listing, &listing);
    polling_rig_await(rig, &listing.times);
    EXPECT_EQ_U64(listing.times, 1);
    return listing;
}

static enum ks_store_state state_of(struct polling_rig *rig)
{
    return rig->source->vtable->state(rig->source, NULL);
}

TEST(a_listing_whose_token_has_expired_begins_again)
{
    struct polling_rig *rig = polling_rig_born(&POLLING_RIG_JSON, KS_POSITION_TRIM_HORIZON);

    polling_rig_say(rig, "ListShards", 200,
                    "{\"Shards\":[{\"ShardId\":\"s0\"}],\"NextToken\":\"T\"}");
    polling_rig_say(rig, "ListShards", 400, "{\"__type\":\"ExpiredNextTokenException\"}");
    polling_rig_say(rig, "ListShards", 200,
                    "{\"Shards\":[{\"ShardId\":\"s0\"},{\"ShardId\":\"s1\"}]}");
    struct listing listing = list(rig, 0);
    EXPECT_OK(listing.err);
    EXPECT_EQ_U64(listing.count, 2);
    EXPECT_CONTAINS(rig->canned.requests[1].body, "{\"NextToken\":\"T\"}");
    EXPECT_CONTAINS(rig->canned.requests[2].body, "\"StreamName\":\"demo\"");
    polling_rig_end(rig);
}

TEST(a_stream_that_is_being_deleted_is_told_once)
{
    struct polling_rig *rig = polling_rig_born(&POLLING_RIG_JSON, KS_POSITION_TRIM_HORIZON);

    keep_log();
    for (int at = 0; at < 2; at++) {
        polling_rig_say(rig, "DescribeStreamSummary", 200, SUMMARY("DELETING"));
        EXPECT_OK(describe(rig).err);
        EXPECT_EQ_U64(told("stream demo: is being deleted; reading it until it is gone"), 1);
    }
    polling_rig_end(rig);
}

TEST(a_key_that_may_not_be_used_is_told_once_though_the_stream_can_be_described)
{
    static const char REFUSED[] = "{\"__type\":\"KMSDisabledException\",\"message\":\"off\"}";
    struct polling_rig *rig = polling_rig_born(&POLLING_RIG_JSON, KS_POSITION_TRIM_HORIZON);
    struct ks_detail detail;

    keep_log();
    polling_rig_say(rig, "GetShardIterator", 200, POLLING_RIG_ITERATOR);
    for (int at = 0; at < 3; at++) {
        polling_rig_say(rig, "GetRecords", 400, REFUSED);
        polling_rig_say(rig, "DescribeStreamSummary", 200, SUMMARY("ACTIVE"));
        struct ks_read_answer answer = polling_rig_read(rig, 1000);
        EXPECT_ERR(answer.err, DENIED);
        EXPECT(!answer.throttled);
        EXPECT_CONTAINS(answer.detail.text, "enable the stream's KMS key: off");
        EXPECT_OK(describe(rig).err);
        EXPECT_EQ_I64(rig->source->vtable->state(rig->source, &detail), KS_STORE_UNUSABLE);
        EXPECT_CONTAINS(detail.text, "enable the stream's KMS key");
    }
    polling_rig_say(rig, "GetRecords", 200,
                    "{\"Records\":[" POLLING_RIG_RECORD(201) "],\"NextShardIterator\":\"I1\"}");
    polling_rig_expect(rig, "201");
    EXPECT_EQ_I64(state_of(rig), KS_STORE_READY);
    EXPECT_EQ_U64(told("cannot be read"), 1);
    EXPECT_EQ_U64(told("answers again"), 1);
    /* It was no fault of the iterator. */
    EXPECT_CONTAINS(rig->canned.requests[7].body, "\"I0\"");
    polling_rig_end(rig);
}

TEST(a_refusal_that_nobody_meets_any_more_is_forgotten)
{
    struct polling_rig *rig = polling_rig_born(&POLLING_RIG_JSON, KS_POSITION_TRIM_HORIZON);

    polling_rig_say(rig, "GetShardIterator", 200, POLLING_RIG_ITERATOR);
    polling_rig_say(rig, "GetRecords", 400,
                    "{\"__type\":\"AccessDeniedException\",\"message\":\"no\"}");
    EXPECT_ERR(polling_rig_read(rig, 1000).err, DENIED);
    rig->source->vtable->close_reader(rig->reader);
    EXPECT_EQ_I64(state_of(rig), KS_STORE_UNUSABLE);
    polling_rig_say(rig, "DescribeStreamSummary", 200, SUMMARY("ACTIVE"));
    EXPECT_OK(describe(rig).err);
    EXPECT_EQ_I64(state_of(rig), KS_STORE_READY);
    EXPECT_OK(rig->source->vtable->open(rig->source, "shardId-000000000000", &rig->from,
                                        &rig->budget, &rig->reader));
    polling_rig_end(rig);
}

TEST(a_throttle_of_kms_is_a_throttle)
{
    struct polling_rig *rig = polling_rig_born(&POLLING_RIG_JSON, KS_POSITION_TRIM_HORIZON);

    polling_rig_say(rig, "GetShardIterator", 200, POLLING_RIG_ITERATOR);
    polling_rig_say(rig, "GetRecords", 400,
                    "{\"__type\":\"KMSThrottlingException\",\"message\":\"slow\"}");
    polling_rig_say(rig, "GetRecords", 200,
                    "{\"Records\":[" POLLING_RIG_RECORD(201) "],\"NextShardIterator\":\"I1\"}");
    struct ks_read_answer answer = polling_rig_read(rig, 1000);
    EXPECT_ERR(answer.err, THROTTLED);
    EXPECT(answer.throttled);
    EXPECT_EQ_I64(state_of(rig), KS_STORE_READY);
    polling_rig_expect(rig, "201");
    polling_rig_end(rig);
}

TEST(a_stream_that_is_being_made_is_waited_for)
{
    struct polling_rig *rig = polling_rig_born(&POLLING_RIG_JSON, KS_POSITION_TRIM_HORIZON);

    polling_rig_say(rig, "DescribeStreamSummary", 200, SUMMARY("CREATING"));
    struct description description = describe(rig);
    EXPECT_ERR(description.err, BUSY);
    EXPECT_CONTAINS(description.detail.text, "is being created");
    EXPECT_EQ_I64(state_of(rig), KS_STORE_AWAY);
    polling_rig_say(rig, "ListShards", 400,
                    "{\"__type\":\"ResourceInUseException\",\"message\":\"not ACTIVE\"}");
    EXPECT_ERR(list(rig, 0).err, BUSY);
    EXPECT_EQ_I64(state_of(rig), KS_STORE_AWAY);
    polling_rig_say(rig, "DescribeStreamSummary", 200, SUMMARY("ACTIVE"));
    EXPECT_OK(describe(rig).err);
    EXPECT_EQ_I64(state_of(rig), KS_STORE_READY);
    polling_rig_end(rig);
}

TEST(a_stream_that_is_being_deleted_is_read_until_it_is_gone)
{
    static const char GONE[] =
        "{\"__type\":\"ResourceNotFoundException\",\"message\":\"Stream demo "
        "under account 1 not found.\"}";
    struct polling_rig *rig = polling_rig_born(&POLLING_RIG_JSON, KS_POSITION_TRIM_HORIZON);
    struct ks_detail detail;

    keep_log();
    for (int at = 0; at < 2; at++) {
        polling_rig_say(rig, "DescribeStreamSummary", 200, SUMMARY("DELETING"));
        EXPECT_OK(describe(rig).err);
        if (at == 0)
            polling_rig_say(rig, "GetShardIterator", 200, POLLING_RIG_ITERATOR);
        polling_rig_say(rig, "GetRecords", 200,
                        "{\"Records\":[" POLLING_RIG_RECORD(201) "],\"NextShardIterator\":\"I1\"}");
        polling_rig_expect(rig, "201");
        EXPECT_EQ_I64(state_of(rig), KS_STORE_READY);
    }
    EXPECT_EQ_U64(told("is being deleted"), 1);
    polling_rig_say(rig, "GetRecords", 400, GONE);
    struct ks_read_answer answer = polling_rig_read(rig, 1000);
    EXPECT_ERR(answer.err, NOT_FOUND);
    EXPECT(!answer.batch.at_end);
    polling_rig_say(rig, "DescribeStreamSummary", 400, GONE);
    EXPECT_ERR(describe(rig).err, NOT_FOUND);
    EXPECT_EQ_I64(rig->source->vtable->state(rig->source, &detail), KS_STORE_UNUSABLE);
    EXPECT_CONTAINS(detail.text, "Stream demo under account 1 not found");
    polling_rig_end(rig);
}

TEST(a_stream_that_was_away_is_found_again_though_nobody_reads)
{
    static const char summary[] = "{\"StreamDescriptionSummary\":{\"StreamARN\":\"arn:aws:kinesis:"
                                  "us-east-1:1:stream/demo\"}}";
    struct polling_rig *rig = polling_rig_born(&POLLING_RIG_JSON, KS_POSITION_TRIM_HORIZON);

    polling_rig_say(rig, "GetShardIterator", 0, "");
    polling_rig_say(rig, "DescribeStreamSummary", 0, "");
    for (int attempt = 1; attempt < 3; attempt++) /* The retries of the SDKs. */
        polling_rig_say(rig, "DescribeStreamSummary", 0, "");
    polling_rig_say(rig, "DescribeStreamSummary", 200, summary);
    EXPECT(!ks_ok(polling_rig_read(rig, 1 << 20).err));
    EXPECT_EQ_I64(rig->source->vtable->state(rig->source, NULL), KS_STORE_AWAY);
    rig->source->vtable->close_reader(rig->reader);
    for (int at = 0; at < 600 && rig->canned.request_count < 5; at++)
        ks_loop_turn(rig->loop, ks_span_ms(10));
    for (int at = 0; at < 10; at++)
        ks_loop_turn(rig->loop, ks_span_ms(10));
    EXPECT_EQ_I64(rig->source->vtable->state(rig->source, NULL), KS_STORE_READY);
    /* It is asked no more than it must be. */
    EXPECT(ks_instant_since(rig->canned.requests[4].at, rig->canned.requests[0].at).us >= 1500000);
    EXPECT_OK(rig->source->vtable->open(rig->source, "shardId-000000000000", &rig->from,
                                        &rig->budget, &rig->reader));
    polling_rig_end(rig);
}

TEST(one_failure_of_one_shard_is_nobodys_business)
{
    struct polling_rig *rig = polling_rig_born(&POLLING_RIG_JSON, KS_POSITION_TRIM_HORIZON);

    keep_log();
    polling_rig_say(rig, "GetShardIterator", 200, POLLING_RIG_ITERATOR);
    polling_rig_say(rig, "GetRecords", 200,
                    "{\"Records\":[" POLLING_RIG_RECORD(201) "],\"NextShardIterator\":\"I1\"}");
    polling_rig_expect(rig, "201");
    polling_rig_say(rig, "GetRecords", 500, "{\"__type\":\"InternalFailure\"}");
    EXPECT_ERR(polling_rig_read(rig, 1000).err, SERVER);
    EXPECT_EQ_I64(state_of(rig), KS_STORE_READY);
    polling_rig_say(rig, "GetRecords", 200,
                    "{\"Records\":[" POLLING_RIG_RECORD(202) "],\"NextShardIterator\":\"I2\"}");
    polling_rig_expect(rig, "202");
    EXPECT_EQ_I64(state_of(rig), KS_STORE_READY);
    EXPECT_EQ_U64(told("cannot be read"), 0);
    polling_rig_end(rig);
}

TEST(a_server_that_refuses_the_filter_of_a_listing_is_asked_without_it_from_then_on)
{
    static const char REFUSED[] = "{\"__type\":\"InvalidArgumentException\",\"message\":\"no\"}";
    static const char SHARDS[] = "{\"Shards\":[{\"ShardId\":\"a\"},{\"ShardId\":\"b\"}]}";
    struct polling_rig *rig = polling_rig_born(
        &(struct ks_kinesis_options){.protocol = KS_WIRE_JSON}, KS_POSITION_TRIM_HORIZON);

    /* An instant that the server's clock has not reached is no reason. */
    polling_rig_say(rig, "ListShards", 400, REFUSED);
    polling_rig_say(rig, "ListShards", 200, SHARDS);
    EXPECT_EQ_U64(list(rig, ks_wall_now().ms).count, 2);
    EXPECT_CONTAINS(rig->canned.requests[1].body, "FROM_TIMESTAMP");

    polling_rig_say(rig, "ListShards", 400, REFUSED);
    polling_rig_say(rig, "ListShards", 400, REFUSED);
    polling_rig_say(rig, "ListShards", 200, SHARDS);
    EXPECT_EQ_U64(list(rig, 1795219200123).count, 2);
    EXPECT_CONTAINS(rig->canned.requests[2].body, "FROM_TIMESTAMP");
    EXPECT_STR(rig->canned.requests[4].body, "{\"StreamName\":\"demo\",\"MaxResults\":1000}");
    polling_rig_say(rig, "ListShards", 200, SHARDS);
    EXPECT_OK(list(rig, 1795219200123).err);
    EXPECT_STR(rig->canned.requests[5].body, "{\"StreamName\":\"demo\",\"MaxResults\":1000}");
    polling_rig_end(rig);
}

TEST(a_listing_that_is_refused_in_any_form_is_told)
{
    static const char REFUSED[] = "{\"__type\":\"InvalidArgumentException\",\"message\":\"no\"}";
    struct polling_rig *rig = polling_rig_born(
        &(struct ks_kinesis_options){.protocol = KS_WIRE_JSON}, KS_POSITION_TRIM_HORIZON);

    for (int at = 0; at < 3; at++)
        polling_rig_say(rig, "ListShards", 400, REFUSED);
    EXPECT_ERR(list(rig, 1795219200123).err, INVALID);
    /* It says nothing about the filter. */
    polling_rig_say(rig, "ListShards", 200, "{\"Shards\":[]}");
    EXPECT_OK(list(rig, 1795219200123).err);
    EXPECT_CONTAINS(rig->canned.requests[3].body, "FROM_TIMESTAMP");
    polling_rig_end(rig);
}
