/* SPDX-License-Identifier: Apache-2.0 */
#include "api/codec_json.h"
#include "base/budget.h"
#include "ks_test.h"

#include <jansson.h>
#include <string.h>

static struct ks_arena arena;
static struct ks_detail detail;
static ProtobufCMessage *message;

static ks_err read_text(ks_view text)
{
    ks_arena_free(&arena);
    ks_arena_init(&arena, 1 << 20);
    detail.text[0] = '\0';
    return ks_rest_read(text, &kinesis_sidecar__v1__settle_request__descriptor, &arena, &message,
                        &detail);
}

static ks_err read_one(const char *text)
{
    return read_text(ks_view_text(text));
}

TEST(a_request_is_read_in_full)
{
    const ks_pb_settle_request *request;

    EXPECT_OK(read_one("{\"settlements\":[{\"ack_id\":\"a\",\"outcome\":\"ack\"},"
                       "{\"batch_id\":\"b\",\"outcome\":\"dead_letter\",\"delay_ms\":-5,"
                       "\"failed_ack_ids\":[\"x\",\"y\"],\"reason\":null}],"
                       "\"wait\":\"persisted\",\"wait_ms\":0}"));
    request = (const ks_pb_settle_request *)message;
    EXPECT_EQ_U64(request->n_settlements, 2);
    EXPECT_STR(request->settlements[0]->ack_id, "a");
    EXPECT_STR(request->settlements[0]->batch_id, "");
    EXPECT_EQ_I64(request->settlements[0]->outcome, KINESIS_SIDECAR__V1__OUTCOME__OUTCOME_ACK);
    EXPECT_EQ_I64(request->settlements[1]->outcome,
                  KINESIS_SIDECAR__V1__OUTCOME__OUTCOME_DEAD_LETTER);
    EXPECT_EQ_I64(request->settlements[1]->delay_ms, -5);
    EXPECT_EQ_U64(request->settlements[1]->n_failed_ack_ids, 2);
    EXPECT_STR(request->settlements[1]->failed_ack_ids[1], "y");
    EXPECT_EQ_I64(request->wait, KINESIS_SIDECAR__V1__WAIT__WAIT_PERSISTED);
    EXPECT_EQ_I64(request->wait_limit_case,
                  KINESIS_SIDECAR__V1__SETTLE_REQUEST__WAIT_LIMIT_WAIT_MS);
    EXPECT_EQ_I64(request->wait_ms, 0);
    EXPECT_OK(read_one("{}"));
    EXPECT_EQ_I64(((const ks_pb_settle_request *)message)->wait_limit_case,
                  KINESIS_SIDECAR__V1__SETTLE_REQUEST__WAIT_LIMIT__NOT_SET);
    ks_arena_free(&arena);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(what_is_not_such_a_message_is_named)
{
    static const struct {
        const char *text;
        const char *says;
    } bad[] = {
        {"{\"settlement\":[]}", "unknown member \"settlement\""},
        {"{\"settlements\":[{\"ackId\":\"a\"}]}", "unknown member \"ackId\""},
        {"{\"settlements\":{}}", "\"settlements\" must be an array"},
        {"{\"settlements\":[1]}", "\"settlements\" must be an object"},
        {"{\"settlements\":[{\"ack_id\":1}]}", "\"ack_id\" must be a string"},
        {"{\"settlements\":[{\"outcome\":\"ACK\"}]}", "must be one of ack, retry, extend"},
        {"{\"settlements\":[{\"outcome\":1}]}", "must be one of"},
        {"{\"wait_ms\":1.5}", "\"wait_ms\" must be a whole number"},
        {"{\"wait_ms\":\"1\"}", "\"wait_ms\" must be a whole number"},
        {"[]", "must be a JSON object"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        EXPECT_ERR(read_one(bad[i].text), INVALID);
        EXPECT_CONTAINS(detail.text, bad[i].says);
    }
}

TEST(what_is_not_json_is_refused)
{
    static const char *const bad[] = {"",
                                      "{",
                                      "{\"wait_ms\":1,}",
                                      "{\"wait_ms\":1}x",
                                      "{\"wait_ms\":1,\"wait_ms\":2}",
                                      "{\"wait_ms\":99999999999999999999}",
                                      "{'a':1}",
                                      "nul",
                                      "{\"settlements\":[{\"reason\":\"\\u0000\"}]}",
                                      "{\"settlements\":[{\"reason\":\"\xff\"}]}"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        EXPECT_ERR(read_one(bad[i]), MALFORMED);
}

TEST(a_body_of_many_values_or_deep_ones_is_refused)
{
    static char text[200001];

    memset(text, '[', sizeof(text) - 1);
    EXPECT_ERR(read_one(text), FULL);
    memset(text, '[', 50000);
    text[50000] = '\0';
    EXPECT_ERR(read_one(text), MALFORMED);
}

/* What jansson, an independent reader, makes of it. */
static json_t *written(const ProtobufCMessage *from)
{
    struct ks_writer json;
    struct ks_bytes out;
    json_t *object;

    ks_bytes_init(&out, 1 << 20);
    ks_writer_begin(&json, &out);
    ks_writer_open(&json, '{');
    ks_rest_members(&json, from);
    ks_writer_close(&json, '}');
    EXPECT_OK(ks_writer_end(&json));
    object = json_loadb((const char *)out.data, out.size, JSON_REJECT_DUPLICATES, NULL);
    EXPECT(object != NULL);
    ks_bytes_free(&out);
    return object;
}

TEST(every_kind_of_member_is_spelled_as_promised)
{
    ks_pb_record record;
    json_t *object;

    kinesis_sidecar__v1__record__init(&record);
    record.partition_key = ks_pb_text("\"k\"");
    record.epoch = UINT64_C(9007199254740993);
    record.sub_sequence_number = -3;
    record.approximate_arrival_timestamp = 1763685600123;
    record.data = (ProtobufCBinaryData){2, (uint8_t *)ks_pb_text("hi")};
    object = written(&record.base);
    EXPECT_EQ_U64(json_object_size(object), 14);
    EXPECT_STR(json_string_value(json_object_get(object, "partition_key")), "\"k\"");
    EXPECT_STR(json_string_value(json_object_get(object, "ack_id")), "");
    EXPECT_EQ_I64(json_integer_value(json_object_get(object, "epoch")), 9007199254740993);
    EXPECT_EQ_I64(json_integer_value(json_object_get(object, "sub_sequence_number")), -3);
    EXPECT_STR(json_string_value(json_object_get(object, "approximate_arrival_timestamp")),
               "2025-11-21T00:40:00.123Z");
    EXPECT(json_is_false(json_object_get(object, "aggregated")));
    EXPECT(json_is_false(json_object_get(object, "redriven")));
    EXPECT_STR(json_string_value(json_object_get(object, "data")), "aGk=");
    json_decref(object);
}

TEST(messages_in_lists_and_enums)
{
    ks_pb_subscription subscription;
    ks_pb_subscription *subscriptions[2] = {&subscription, &subscription};
    char *reasons[1] = {ks_pb_text("why")};
    ks_pb_status status;
    json_t *object;
    json_t *list;

    kinesis_sidecar__v1__subscription_status__init(&subscription);
    kinesis_sidecar__v1__status__init(&status);
    subscription.idle_reason = KINESIS_SIDECAR__V1__IDLE_REASON__IDLE_REASON_LANE_BLOCKED;
    status.n_subscriptions = 2;
    status.subscriptions = subscriptions;
    status.n_reasons = 1;
    status.reasons = reasons;
    object = written(&status.base);
    EXPECT(json_is_null(json_object_get(object, "state")));
    EXPECT(json_is_null(json_object_get(object, "started_at")));
    EXPECT_STR(json_string_value(json_array_get(json_object_get(object, "reasons"), 0)), "why");
    EXPECT_EQ_U64(json_array_size(json_object_get(object, "capabilities")), 0);
    list = json_object_get(object, "subscriptions");
    EXPECT_EQ_U64(json_array_size(list), 2);
    EXPECT_STR(json_string_value(json_object_get(json_array_get(list, 1), "idle_reason")),
               "lane_blocked");
    json_decref(object);
}

/* ---- The JSON of proto3 ---- */

static ks_err read_proto(const char *text)
{
    ks_arena_free(&arena);
    ks_arena_init(&arena, 1 << 20);
    detail.text[0] = '\0';
    return ks_json_read((struct ks_json_style){KS_SPELLING_PROTO, NULL}, ks_view_text(text),
                        &kinesis_sidecar__v1__settle_request__descriptor, &arena, &message,
                        &detail);
}

TEST(proto3_takes_both_names_numbers_as_strings_and_ignores_what_it_does_not_know)
{
    const ks_pb_settle_request *request;

    EXPECT_OK(read_proto("{\"settlements\":[{\"ackId\":\"a\",\"outcome\":\"OUTCOME_ACK\"},"
                         "{\"batch_id\":\"b\",\"outcome\":2,\"delayMs\":\"5\"},"
                         "{\"outcome\":99,\"delay_ms\":5.0}],"
                         "\"news\":{\"deep\":[1]},\"wait\":null,\"waitMs\":\"0\"}"));
    request = (const ks_pb_settle_request *)message;
    EXPECT_EQ_U64(request->n_settlements, 3);
    EXPECT_STR(request->settlements[0]->ack_id, "a");
    EXPECT_EQ_I64(request->settlements[1]->outcome, KINESIS_SIDECAR__V1__OUTCOME__OUTCOME_RETRY);
    EXPECT_EQ_I64(request->settlements[1]->delay_ms, 5);
    EXPECT_EQ_I64(request->settlements[2]->outcome, 99);
    EXPECT_EQ_I64(request->settlements[2]->delay_ms, 5);
    EXPECT_EQ_I64(request->wait_limit_case,
                  KINESIS_SIDECAR__V1__SETTLE_REQUEST__WAIT_LIMIT_WAIT_MS);
    ks_arena_free(&arena);
}

TEST(proto3_refuses_what_its_types_cannot_hold)
{
    static const char *const bad[] = {
        "{\"wait\":\"persisted\"}",
        "{\"wait\":1.5}",
        "{\"waitMs\":1.5}",
        "{\"waitMs\":\"1x\"}",
        "{\"waitMs\":\"9223372036854775808\"}",
        "{\"waitMs\":1e300}",
        "{\"settlements\":[null]}",
        "{\"settlements\":{}}",
        "{\"waitMs\":1,\"wait_ms\":2}",
        "{\"settlements\":[{\"ackId\":\"a\",\"ack_id\":\"a\"}]}",
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        EXPECT_ERR(read_proto(bad[i]), INVALID);
    EXPECT_ERR(read_proto("{\"waitMs\":1,\"waitMs\":2}"), MALFORMED);
    ks_arena_free(&arena);
}

TEST(base64_comes_in_either_alphabet_with_padding_or_without)
{
    static const char *const good[] = {"{\"data\":\"+/8=\"}", "{\"data\":\"-_8\"}",
                                       "{\"data\":\"+_8\"}"};
    const ks_pb_record *record;

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        ks_arena_init(&arena, 1 << 20);
        EXPECT_OK(ks_json_read((struct ks_json_style){KS_SPELLING_PROTO, NULL},
                               ks_view_text(good[i]), &kinesis_sidecar__v1__record__descriptor,
                               &arena, &message, &detail));
        record = (const ks_pb_record *)message;
        EXPECT_EQ_U64(record->data.len, 2);
        EXPECT(memcmp(record->data.data, "\xfb\xff", 2) == 0);
        ks_arena_free(&arena);
    }
    ks_arena_init(&arena, 1 << 20);
    EXPECT_ERR(ks_json_read((struct ks_json_style){KS_SPELLING_PROTO, NULL},
                            KS_VIEW("{\"data\":\"a\"}"), &kinesis_sidecar__v1__record__descriptor,
                            &arena, &message, &detail),
               INVALID);
    ks_arena_free(&arena);
}

/* Either spelling: of two members of a oneof one would be lost in silence. */
TEST(a_second_member_of_a_oneof_is_refused)
{
    static const char text[] = "{\"heartbeat\":{},\"draining\":{}}";

    for (int spelling = KS_SPELLING_REST; spelling <= KS_SPELLING_PROTO; spelling++) {
        ks_arena_init(&arena, 1 << 20);
        EXPECT_ERR(ks_json_read((struct ks_json_style){(enum ks_spelling)spelling, NULL},
                                ks_view_text(text), &kinesis_sidecar__v1__stream_event__descriptor,
                                &arena, &message, &detail),
                   INVALID);
        EXPECT_CONTAINS(detail.text, "the only one of its kind");
        ks_arena_free(&arena);
    }
}
