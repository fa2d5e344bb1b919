/* SPDX-License-Identifier: Apache-2.0 */
#include "api/codec_proto.h"
#include "base/budget.h"
#include "ks_test.h"

#include <string.h>

static struct ks_arena arena;
static struct ks_detail detail;
static ProtobufCMessage *message;

static ks_err read_bytes(const void *bytes, size_t size)
{
    ks_arena_free(&arena);
    ks_arena_init(&arena, ks_proto_room(size));
    return ks_proto_read(ks_view_of(bytes, size), &kinesis_sidecar__v1__settle_request__descriptor,
                         &arena, &message, &detail);
}

TEST(a_message_comes_back_as_it_was_written)
{
    ks_pb_settle_request request;
    ks_pb_settlement settlement;
    ks_pb_settlement *settlements[] = {&settlement};
    const ks_pb_settle_request *read;
    struct ks_bytes bytes;

    kinesis_sidecar__v1__settle_request__init(&request);
    kinesis_sidecar__v1__settlement__init(&settlement);
    settlement.ack_id = ks_pb_text("id");
    settlement.outcome = KINESIS_SIDECAR__V1__OUTCOME__OUTCOME_RETRY;
    settlement.delay_ms = 7;
    request.n_settlements = 1;
    request.settlements = settlements;
    ks_bytes_init(&bytes, 1000);
    EXPECT_OK(ks_proto_write(&request.base, false, &bytes));
    EXPECT_OK(read_bytes(bytes.data, bytes.size));
    read = (const ks_pb_settle_request *)message;
    EXPECT_EQ_U64(read->n_settlements, 1);
    EXPECT_STR(read->settlements[0]->ack_id, "id");
    EXPECT_EQ_I64(read->settlements[0]->delay_ms, 7);

    /* Delimited: the length as a varint, then the same bytes. */
    EXPECT_OK(ks_proto_write(&request.base, true, &bytes));
    EXPECT_EQ_U64(bytes.data[bytes.size / 2], bytes.size / 2);
    ks_bytes_free(&bytes);
    ks_arena_free(&arena);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(what_is_no_message_is_refused)
{
    EXPECT_ERR(read_bytes("\x0a\x05x", 3), MALFORMED);
    EXPECT_CONTAINS(detail.text, "SettleRequest");
    EXPECT_ERR(read_bytes("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 11), MALFORMED);
    EXPECT_ERR(read_bytes("\x0a\x03\x0a\x01\xff", 5), MALFORMED);
    EXPECT_CONTAINS(detail.text, "UTF-8");
    EXPECT_OK(read_bytes("", 0));
}

/* A mebibyte of unknown fields, or of empty messages, would be seventy in memory. */
TEST(little_bytes_cannot_take_much_memory)
{
    static uint8_t bytes[1 << 20];

    for (size_t i = 0; i < sizeof(bytes); i += 2)
        memcpy(bytes + i, "\x78\x01", 2);
    EXPECT_ERR(read_bytes(bytes, sizeof(bytes)), MALFORMED);
    for (size_t i = 0; i < sizeof(bytes); i += 2)
        memcpy(bytes + i, "\x0a\x00", 2);
    EXPECT_ERR(read_bytes(bytes, sizeof(bytes)), MALFORMED);
    EXPECT(arena.used <= ks_proto_room(sizeof(bytes)));
    ks_arena_free(&arena);
}

TEST(a_full_buffer_is_told_and_left_as_it_was)
{
    ks_pb_settle_request request;
    struct ks_bytes bytes;

    kinesis_sidecar__v1__settle_request__init(&request);
    request.subscription = ks_pb_text("a subscription");
    ks_bytes_init(&bytes, 8);
    EXPECT_ERR(ks_proto_write(&request.base, true, &bytes), FULL);
    EXPECT_EQ_U64(bytes.size, 0);
    ks_bytes_free(&bytes);
}
