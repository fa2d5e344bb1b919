/* SPDX-License-Identifier: Apache-2.0 */
#include "stream_source_rig.h"

#include "adapters/kinesis/fanout.h"
#include "adapters/kinesis/polling.h"
#include "aws/json.h"
#include "base/codec.h"
#include "base/json_writer.h"

#include "aws_rig.h"
#include "http_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct told {
    uint32_t times;
    ks_err err;
    struct ks_detail detail;
    struct ks_json *document;
};

static void keep(void *arg, const struct ks_aws_answer *answer)
{
    struct told *told = arg;

    told->times++;
    told->err = answer->err;
    told->detail = answer->detail;
    if (ks_ok(answer->err) && answer->body.size > 0)
        EXPECT_OK(ks_json_parse(answer->body, &told->document));
}

/* Asks, and fails the test unless it is answered well. The caller frees the document. */
static struct ks_json *ask(struct stream_rig *rig, const char *operation, struct ks_writer *json)
{
    struct aws_rig *aws = rig->world;
    struct told told = {.times = 0};

    ks_writer_close(json, '}');
    EXPECT_OK(ks_writer_end(json));
    struct ks_aws_request request = {.operation = operation,
                                     .body = ks_bytes_view(json->out),
                                     .timeout = ks_span_ms(STREAM_WAIT_SECONDS * 1000),
                                     .single_attempt = true,
                                     .response_max = KS_JSON_BYTES_MAX,
                                     .done = keep,
                                     .arg = &told};
    EXPECT_OK(ks_aws_call(aws->client, &request, NULL));
    stream_rig_wait(rig, &told.times, STREAM_WAIT_SECONDS + 1);
    EXPECT_STR(ks_ok(told.err) ? "" : told.detail.text, "");
    ks_bytes_free(json->out);
    return told.document;
}

static void begin(struct stream_rig *rig, struct ks_writer *json, struct ks_bytes *body)
{
    ks_bytes_init(body, 4 << 20);
    ks_writer_begin_strict(json, body);
    ks_writer_open(json, '{');
    ks_writer_pair(json, "StreamName", ks_view_text(rig->stream));
}

static void wait_active(struct stream_rig *rig)
{
    struct ks_writer json;
    struct ks_bytes body;

    for (int tries = 0; tries < 400; tries++) {
        ks_view status = KS_VIEW_NONE;
        begin(rig, &json, &body);
        struct ks_json *document = ask(rig, "DescribeStreamSummary", &json);
        const struct ks_json *summary = ks_json_member(document, "StreamDescriptionSummary");
        EXPECT_OK(ks_json_text(ks_json_member(summary, "StreamStatus"), &status));
        bool active = ks_view_equal(status, KS_VIEW("ACTIVE"));
        ks_json_free(document);
        if (active)
            return;
        stream_rig_turn_for(rig, 20);
    }
    FAIL("the stream does not become active");
}

static void set_up(struct stream_rig *rig, uint32_t shards)
{
    /* An emulator on a crowded machine may say nothing for many seconds, and a record is put once. */
    static const struct aws_rig_options patient = {.silence = {STREAM_WAIT_SECONDS * 1000000LL}};
    struct aws_rig *aws = ks_alloc(sizeof(*aws));
    struct ks_writer json;
    struct ks_bytes body;

    EXPECT(aws != NULL);
    aws_rig_open_with(aws, rig->loop, KS_AWS_KINESIS, ks_test_env(rig->adapter->url_variable),
                      &patient);
    rig->world = aws;

    begin(rig, &json, &body);
    ks_writer_key(&json, "ShardCount");
    ks_writer_u64(&json, shards);
    ks_json_free(ask(rig, "CreateStream", &json));
    wait_active(rig);
}

static enum ks_wire_mode protocol_of(const struct stream_rig *rig)
{
    return rig->adapter->json ? KS_WIRE_JSON : KS_WIRE_AUTO;
}

static struct ks_stream_source *open_kinesis(struct stream_rig *rig, uint32_t page_size)
{
    struct aws_rig *aws = rig->world;
    struct ks_kinesis_options options = {.protocol = protocol_of(rig), .page_size = page_size};
    struct ks_stream_source *source;

    EXPECT_OK(
        ks_kinesis_source_open_with(rig->loop, aws->client, rig->stream, &options, &source, NULL));
    return source;
}

/* Where its clocks are 25 times faster. */
static const struct ks_fanout_options FAST = {
    .subscription = "contract", .apart_ms = 210, .age_ms = 5000, .unread_ms = 1000};

static void write_arn(const struct stream_rig *rig, char ret_arn[128])
{
    (void)snprintf(ret_arn, 128, "arn:aws:kinesis:us-east-1:123456789012:stream/%s", rig->stream);
}

/* By the ARNs of both the tip of a shard can be taken at once. */
static struct ks_stream_source *open_fanout(struct stream_rig *rig, uint32_t page_size)
{
    struct aws_rig *aws = rig->world;
    struct ks_fanout_options options = FAST;
    struct ks_stream_source *source;
    char arn[128];

    write_arn(rig, arn);
    options.consumer = rig->consumer;
    options.protocol = protocol_of(rig);
    options.page_size = page_size;
    EXPECT_OK(ks_fanout_source_open(rig->loop, aws->client, arn, &options, &source, NULL));
    return source;
}

static void read_text(const struct ks_json *object, const char *name, char *buffer, size_t size)
{
    ks_view text = KS_VIEW_NONE;

    EXPECT_OK(ks_json_text(ks_json_member(object, name), &text));
    EXPECT_OK(ks_view_copy_text(text, buffer, size));
}

static void put(struct stream_rig *rig, const struct ks_put_entry *entry,
                struct ks_put_result *ret_result)
{
    struct ks_writer json;
    struct ks_bytes body;
    char *data = ks_alloc(ks_base64_size(entry->data.size) + 1);
    size_t size = ks_base64_encode(entry->data, data);

    begin(rig, &json, &body);
    ks_writer_pair(&json, "Data", ks_view_of(data, size));
    ks_writer_pair(&json, "PartitionKey", entry->partition_key);
    if (entry->explicit_hash_key.size > 0)
        ks_writer_pair(&json, "ExplicitHashKey", entry->explicit_hash_key);
    struct ks_json *document = ask(rig, "PutRecord", &json);
    read_text(document, "ShardId", ret_result->shard, sizeof(ret_result->shard));
    read_text(document, "SequenceNumber", ret_result->sequence, sizeof(ret_result->sequence));
    ret_result->err = KS_OK;
    ks_json_free(document);
    ks_free(data);
}

static void split(struct stream_rig *rig, const char *shard, const char *at)
{
    struct ks_writer json;
    struct ks_bytes body;

    begin(rig, &json, &body);
    ks_writer_pair(&json, "ShardToSplit", ks_view_text(shard));
    ks_writer_pair(&json, "NewStartingHashKey", ks_view_text(at));
    ks_json_free(ask(rig, "SplitShard", &json));
    wait_active(rig);
}

static void merge(struct stream_rig *rig, const char *shard, const char *adjacent)
{
    struct ks_writer json;
    struct ks_bytes body;

    begin(rig, &json, &body);
    ks_writer_pair(&json, "ShardToMerge", ks_view_text(shard));
    ks_writer_pair(&json, "AdjacentShardToMerge", ks_view_text(adjacent));
    ks_json_free(ask(rig, "MergeShards", &json));
    wait_active(rig);
}

static void tear_down(struct stream_rig *rig)
{
    struct aws_rig *aws = rig->world;
    struct ks_writer json;
    struct ks_bytes body;

    begin(rig, &json, &body);
    ks_json_free(ask(rig, "DeleteStream", &json));
    aws_rig_close(aws);
    ks_free(aws);
}

/* Tells the double how to be from now on; see tests/doubles/kinesis.c. */
static void control(struct stream_rig *rig, const char *json)
{
    const char *port = strrchr(ks_test_env(rig->adapter->url_variable), ':') + 1;
    int fd = http_connect((uint16_t)strtoul(port, NULL, 10));
    char buffer[8192];

    http_request(fd, "POST", "/_control", "Connection: close\r\n", json, strlen(json));
    EXPECT_EQ_I64(http_wait(fd, buffer, sizeof(buffer)).status, 200);
    http_stream_close(&(struct http_stream){.fd = fd});
}

static void register_consumer(struct stream_rig *rig)
{
    struct ks_writer json;
    struct ks_bytes body;
    char arn[128];

    write_arn(rig, arn);
    ks_bytes_init(&body, 4096);
    ks_writer_begin_strict(&json, &body);
    ks_writer_open(&json, '{');
    ks_writer_pair(&json, "StreamARN", ks_view_text(arn));
    ks_writer_pair(&json, "ConsumerName", KS_VIEW("contract"));
    struct ks_json *document = ask(rig, "RegisterStreamConsumer", &json);
    read_text(ks_json_member(document, "Consumer"), "ConsumerARN", rig->consumer,
              sizeof(rig->consumer));
    ks_json_free(document);
    stream_rig_turn_for(rig, 50);
}

/* Whatever a test before this one has left behind. */
static void set_up_double(struct stream_rig *rig, uint32_t shards)
{
    control(rig, "{\"limits\": 0, \"end_apart\": 0, \"empty_reads\": 0, \"scale\": 1}");
    set_up(rig, shards);
}

/* The rule of 5 s, and heartbeats, are 200 ms. */
static void set_up_fanout(struct stream_rig *rig, uint32_t shards)
{
    set_up_double(rig, shards);
    register_consumer(rig);
    control(rig, "{\"scale\": 25}");
}

/* As AWS may be to who reads: at its limits, with nothing now and then, telling the end on its own. */
static void set_up_limited(struct stream_rig *rig, uint32_t shards)
{
    set_up_double(rig, shards);
    control(rig, "{\"limits\": 1, \"write_bytes\": 0, \"end_apart\": 1, \"empty_reads\": 3}");
}

static void set_up_fanout_limited(struct stream_rig *rig, uint32_t shards)
{
    set_up_fanout(rig, shards);
    control(rig, "{\"limits\": 1, \"write_bytes\": 0, \"subscription_span\": 12000}");
}

static void tear_down_fanout(struct stream_rig *rig)
{
    control(rig, "{\"limits\": 0, \"scale\": 1, \"subscription_span\": 300000}");
    tear_down(rig);
}

#define KINESIS(which, variable, children, only_json, before)                                      \
    KINESIS_NUMBERED(which, variable, children, only_json, before, false)
#define KINESIS_NUMBERED(which, variable, children, only_json, before, short_form)                 \
    const struct stream_rig_adapter stream_rig_##which = {                                         \
        .name = #which,                                                                            \
        .tells_children = children,                                                                \
        .lists_since = children,                                                                   \
        .short_numbers = short_form,                                                               \
        .is_kinesis = true,                                                                        \
        .json = only_json,                                                                         \
        .url_variable = variable,                                                                  \
        .set_up = before,                                                                          \
        .open = open_kinesis,                                                                      \
        .put = put,                                                                                \
        .split = split,                                                                            \
        .merge = merge,                                                                            \
        .tear_down = tear_down,                                                                    \
    };

KINESIS(kinesis_local_json, "KS_KINESIS_URL", true, true, set_up)
KINESIS(kinesis_local_cbor, "KS_KINESIS_URL", true, false, set_up)
KINESIS(kinesalite_json, "KS_KINESALITE_URL", false, true, set_up)
KINESIS(kinesalite_cbor, "KS_KINESALITE_URL", false, false, set_up)
KINESIS_NUMBERED(moto, "KS_MOTO_URL", false, false, set_up, true)
KINESIS(double_json, "KS_DOUBLE_URL", true, true, set_up_double)
KINESIS(double_cbor, "KS_DOUBLE_URL", true, false, set_up_double)
KINESIS(double_limited, "KS_DOUBLE_URL", true, false, set_up_limited)

#define FANOUT(which, only_json, before)                                                           \
    const struct stream_rig_adapter stream_rig_fanout_##which = {                                  \
        .name = "fanout_" #which,                                                                  \
        .tells_children = true,                                                                    \
        .lists_since = true,                                                                       \
        .is_kinesis = true,                                                                        \
        .fanout = true,                                                                            \
        .json = only_json,                                                                         \
        .url_variable = "KS_DOUBLE_URL",                                                           \
        .set_up = before,                                                                          \
        .open = open_fanout,                                                                       \
        .put = put,                                                                                \
        .split = split,                                                                            \
        .merge = merge,                                                                            \
        .tear_down = tear_down_fanout,                                                             \
    };

FANOUT(json, true, set_up_fanout)
FANOUT(cbor, false, set_up_fanout)
FANOUT(limited, false, set_up_fanout_limited)
