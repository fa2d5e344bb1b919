/* SPDX-License-Identifier: Apache-2.0 */
/* records_api.c - any answers with records, up to the byte that is written to an app: the real sources, the taking
 * apart of aggregates, core and API run on them. What comes is the same record in each encoding, and is settled in the
 * end.
 *
 * The first byte says how records are read: bit 0 fan-out, bit 1 in CBOR; the second one in which ways they are asked
 * for. Then answers, each behind two bytes of its length: of GetRecords, or what SubscribeToShard tells as one event.
 */
#include "aws.h"
#include "deliveries.h"

#include "adapters/kinesis/fanout.h"
#include "adapters/kinesis/polling.h"
#include "adapters/kinesis/user_records.h"
#include "adapters/sqlite/store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PRELUDE = 12, HEADER_TEXT = 7, CONSUMER_ARN_MAX = 200 };

static bool fanout;
static bool cbor;
static ks_view rest;
static struct ks_bytes event; /* What SubscribeToShard has to say and was not taken yet. */
static bool began;

/* ---- Answers ---- */

static bool next_answer(ks_view *ret_answer)
{
    size_t size;

    if (rest.size < 2)
        return false;
    size = (size_t)rest.data[0] << 8 | rest.data[1];
    rest = ks_view_of(rest.data + 2, rest.size - 2);
    if (size > rest.size)
        size = rest.size;
    *ret_answer = ks_view_of(rest.data, size);
    rest = ks_view_of(rest.data + size, rest.size - size);
    return true;
}

static ks_view answer_to(const struct ks_aws_call *call)
{
    if (is_asked(call, "DescribeStreamSummary"))
        return AWS_SUMMARY;
    if (is_asked(call, "ListShards"))
        return KS_VIEW("{\"Shards\":[{\"ShardId\":\"shardId-000000000000\",\"HashKeyRange\":{"
                       "\"StartingHashKey\":\"0\","
                       "\"EndingHashKey\":\"340282366920938463463374607431768211455\"},"
                       "\"SequenceNumberRange\":{"
                       "\"StartingSequenceNumber\":\"1\"}}]}");
    if (is_asked(call, "GetShardIterator"))
        return KS_VIEW("{\"ShardIterator\":\"here\"}");
    if (is_asked(call, "DescribeStreamConsumer"))
        return KS_VIEW("{\"ConsumerDescription\":{\"ConsumerName\":\"app\",\"ConsumerARN\":\"arn:"
                       "aws:kinesis:us-east-1:"
                       "123456789012:stream/demo/consumer/app:1\",\"ConsumerStatus\":\"ACTIVE\"}}");
    return KS_VIEW("!{\"__type\":\"AccessDeniedException\",\"message\":\"not here\"}");
}

/* A record that can't be wrong, so that the readers go on once the input has ended. */
static void give_records(struct ks_aws_call *call)
{
    ks_view records =
        KS_VIEW("{\"Records\":[],\"NextShardIterator\":\"there\",\"MillisBehindLatest\":0}");

    if (next_answer(&records))
        give_as(call, records, ks_view_text(cbor ? KS_AWS_CBOR_TYPE : KS_AWS_JSON_TYPE_1_1));
    else
        give(call, records);
}

/* ---- Events ---- */

static void put_be32(uint8_t *to, uint32_t number)
{
    for (int at = 0; at < 4; at++)
        to[at] = (uint8_t)(number >> (24 - 8 * at));
}

static void put(ks_view bytes)
{
    if (!ks_ok(ks_bytes_append(&event, bytes)))
        abort();
}

static void put_header(const char *name, const char *value)
{
    const uint8_t kind[3] = {HEADER_TEXT, 0, (uint8_t)strlen(value)};
    const uint8_t length = (uint8_t)strlen(name);

    put(ks_view_of(&length, 1));
    put(ks_view_text(name));
    put(ks_view_of(kind, sizeof(kind)));
    put(ks_view_text(value));
}

/* A message of SubscribeToShard, with checksums that are right. */
static void put_event(ks_view payload)
{
    uint8_t number[PRELUDE] = {0};

    ks_bytes_clear(&event);
    put(ks_view_of(number, PRELUDE));
    put_header(":event-type", "SubscribeToShardEvent");
    put_header(":content-type", cbor ? KS_AWS_CBOR_TYPE : KS_AWS_JSON_TYPE_1_1);
    put_header(":message-type", "event");
    put_be32(event.data + 4, (uint32_t)event.size - PRELUDE);
    put(payload);
    put_be32(event.data, (uint32_t)event.size + 4);
    put_be32(event.data + 8, ks_crc32(ks_view_of(event.data, 8)));
    put_be32(number, ks_crc32(ks_bytes_view(&event)));
    put(ks_view_of(number, 4));
}

/* The call stays open; an event that there is no room for waits. */
static void give_event(struct ks_aws_call *call)
{
    const struct ks_http_sink *const sink = &call->sink;
    ks_view payload;

    if (!began && sink->begin != NULL && !ks_ok(sink->begin(sink->arg, KS_VIEW_NONE, -1)))
        abort();
    began = true;
    if (event.size == 0) {
        if (!next_answer(&payload))
            return;
        put_event(payload);
    }
    if (ks_ok(sink->part(sink->arg, ks_bytes_view(&event))))
        ks_bytes_clear(&event);
}

static void answer_calls(void)
{
    bool subscribed = false;

    for (size_t at = 0; at < AWS_CALLS_MAX; at++) {
        if (!calls[at].open)
            continue;
        if (is_asked(&calls[at], "GetRecords")) {
            give_records(&calls[at]);
        } else if (is_asked(&calls[at], "SubscribeToShard")) {
            subscribed = true;
            give_event(&calls[at]);
        } else {
            give(&calls[at], answer_to(&calls[at]));
        }
    }
    began = began && subscribed;
}

/* ---- The house ---- */

static void open_source(void)
{
    const enum ks_wire_mode mode = cbor ? KS_WIRE_CBOR : KS_WIRE_JSON;
    const struct ks_fanout_options ours = {
        .consumer = "app", .subscription = "app", .protocol = mode};
    const struct ks_kinesis_options options_of_polling = {.protocol = mode};
    struct ks_detail detail;
    ks_err err;

    err = fanout ? ks_fanout_source_open(house.loop, &client, "demo", &ours, &house.source, &detail)
                 : ks_kinesis_source_open_with(house.loop, &client, "demo", &options_of_polling,
                                               &house.source, &detail);
    if (!ks_ok(err) ||
        !ks_ok(ks_user_records_source_open(house.loop, "app", house.source, &house.source)))
        abort();
}

static bool holds_the_shard(void)
{
    struct ks_board_status status;

    ks_switchboard_status(house.board, &status);
    return status.self.leases_held > 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ks_detail detail;
    uint32_t turns = 0;

    if (size < 4)
        return 0;
    fanout = data[0] & 1;
    cbor = data[0] & 2;
    rest = ks_view_of(data + 2, size - 2);
    began = false;
    begin_deliveries();
    begin_house();
    ks_bytes_init(&event, 1 << 20);
    house.answer = answer_calls;
    remove_database("leases.db");
    if (!ks_ok(ks_sqlite_store_open(house.loop, place("leases.db"), "app", NULL, NULL, &house.store,
                                    &detail)))
        abort();
    open_source();
    open_house(&ks_native_dialect);
    /* A session: who has none takes no leases. */
    ask(DOOR_API, "GET", "/v1/records?wait_ms=0", "", NULL);
    for (; !holds_the_shard(); turns++) {
        assert(turns < IDLES_MAX);
        turn_house(false);
    }
    for (uint32_t at = 0; at < 3; at++) {
        receive(&ways[(data[1] + at) % WAYS]);
        settle("nack", "");
    }
    receive(&ways[0]);
    settle("ack", "&wait=persisted");
    ks_bytes_free(&event);
    close_house();
    return 0;
}
