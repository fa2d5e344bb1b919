/* SPDX-License-Identifier: Apache-2.0 */
#include "api/open_request.h"
#include "ks_test.h"
#include "unit/api/look_rig.h"
#include "unit/api/rpc_rig.h"

#include <stdio.h>
#include <string.h>

static struct rig rig;

static bool knows_shards(struct stage *stage)
{
    return ks_switchboard_shard_count(stage->board) == STAGE_SHARDS;
}

TEST(parameters_that_do_not_work_name_what_does)
{
    static const struct {
        const char *query;
        const char *status;
        const char *says;
    } bad[] = {
        {"ordering=keys", "400", "shard, key or none"},
        {"ordering=key&lanes=65", "400", "1 to 64"},
        {"max_message_bytes=2048", "400", "2049 to"},
        {"encoding=utf-8", "400", "base64, utf8 or json"},
        {"lanes=4", "400", "lanes goes with ordering=key"},
        {"share=0.5", "400", "share goes with ordering=key"},
        {"ordering=key&share=0.0", "400", "above 0 and below 1"},
        {"ordering=key&share=", "400", "share has no value"},
        {"ordering=key&share=0.01", "400", "rounds to 0 lanes"},
        {"ordering=key&share=0.99", "400", "rounds to 16 lanes"},
        {"ordering=key&salt=a", "400", "salt goes with share"},
        {"ordering=key&share=0.5&salt=%2F", "400", "salt has at most 64"},
        {"filter=", "400", "filter has no value"},
        {"filter=%7B", "400", "filter: "},
        {"filter=%7B%22data%22%3A%7B%22a%22%3A1%7D%7D", "400", "data.a"},
        {"max_in_flight=0", "400", "max_in_flight"},
        {"heartbeat_ms=99", "400", "100 to 60000"},
        {"heartbeat_ms=abc", "400", "heartbeat_ms"},
        {"client_id=a%20b", "400", "client_id"},
        {"shards=shardId-nope", "404", "shardId-nope"},
        {"nonsense=1", "400", "unknown query parameter"},
    };

    rig_begin(&rig);
    stage_turn_until(&rig.stage, knows_shards);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char target[200];
        const char *answer;
        (void)snprintf(target, sizeof(target), "/v1/records/stream?%s", bad[i].query);
        answer = rig_call(&rig, "GET", target, "");
        EXPECT_CONTAINS(answer, bad[i].status);
        EXPECT_CONTAINS(answer, bad[i].says);
    }
    rig_end(&rig);
}

/* ---- Shards of others ---- */

static struct http2_client client;
static char *shards[1];

static void wait_asked(const struct http2_answer *answer)
{
    ks_instant until = stage_patience();

    while (!look_is_asked()) {
        EXPECT(!answer->closed);
        http2_turn(&client);
        stage_turn(&rig.stage, until, ks_span_ms(1));
    }
}

static void begin_beside(void)
{
    look_begin(&rig);
    shards[0] = ks_pb_text(look_shard());
    http2_begin(&client, &rig, "api", 0);
}

static void end_beside(void)
{
    http2_end(&client);
    look_end(&rig);
}

static ks_pb_open_request an_open(char **named)
{
    ks_pb_open_request open;

    kinesis_sidecar__v1__open_request__init(&open);
    open.client_id = ks_pb_text("app");
    open.shards = named;
    open.n_shards = 1;
    open.explicit_credit = true;
    return open;
}

TEST(a_session_for_shards_that_nobody_looked_for_waits_for_a_look)
{
    ks_pb_open_request open = an_open(shards);
    KinesisSidecar__V1__SessionOpened *opened;
    struct http2_answer *answer;
    size_t at = 0;

    begin_beside();
    answer = rpc_grpc(&client, "/kinesis_sidecar.v1.Consumer/OpenSession", &open.base, true);
    wait_asked(answer);
    look_let();
    opened = (KinesisSidecar__V1__SessionOpened *)rpc_heard(
        &client, answer, &at, &kinesis_sidecar__v1__session_opened__descriptor);
    EXPECT_STR(opened->session, "app");
    kinesis_sidecar__v1__session_opened__free_unpacked(opened, NULL);
    end_beside();
}

TEST(a_shard_that_no_look_finds_is_not_found)
{
    char *none[] = {ks_pb_text("shardId-none")};
    ks_pb_open_request open = an_open(none);
    struct http2_answer *answer;

    begin_beside();
    answer = rpc_grpc(&client, "/kinesis_sidecar.v1.Consumer/Watch", &open.base, true);
    wait_asked(answer);
    look_let();
    http2_wait(&client, answer);
    EXPECT_CONTAINS(answer->headers, "grpc-status: 5\n");
    EXPECT_CONTAINS(answer->headers, "no shard shardId-none is known");
    end_beside();
}

TEST(a_look_that_fails_says_nothing_about_a_shard)
{
    ks_pb_open_request open = an_open(shards);
    struct http2_answer *answer;

    begin_beside();
    answer = rpc_grpc(&client, "/kinesis_sidecar.v1.Consumer/Watch", &open.base, true);
    wait_asked(answer);
    look_fail();
    http2_wait(&client, answer);
    EXPECT_CONTAINS(answer->headers, "grpc-status: 14\n");
    EXPECT_CONTAINS(answer->headers, "not known yet");
    end_beside();
}

TEST(no_look_takes_longer_than_the_client_waits)
{
    char json[200];

    begin_beside();
    (void)snprintf(json, sizeof(json), "{\"shards\":[\"%s\"]}", look_shard());
    EXPECT_CONTAINS(rpc_call(&rig, "POST", "/kinesis_sidecar.v1.Consumer/OpenSession",
                             "Content-Type: application/json\r\nConnect-Timeout-Ms: 50\r\n", json,
                             strlen(json)),
                    "deadline_exceeded");
    look_let();
    http2_turns(&client, 50);
    end_beside();
}

static size_t add(uint8_t *bytes, const KinesisSidecar__V1__StreamRequest *message)
{
    size_t size = protobuf_c_message_pack(&message->base, bytes + 5);

    EXPECT(size < 256);
    memset(bytes, 0, 4);
    bytes[4] = (uint8_t)size;
    return size + 5;
}

/* Opens a stream, grants 7 and closes, all in one breath; `end`: and has said all. */
static struct http2_answer *say_at_once(bool end)
{
    static uint8_t bytes[1000];
    ks_pb_open_request open = an_open(shards);
    KinesisSidecar__V1__Close close;
    KinesisSidecar__V1__StreamRequest message;
    struct http2_answer *answer;
    size_t size = 0;

    answer = rpc_grpc(&client, "/kinesis_sidecar.v1.Consumer/Stream", NULL, false);
    kinesis_sidecar__v1__stream_request__init(&message);
    message.request_case = KINESIS_SIDECAR__V1__STREAM_REQUEST__REQUEST_OPEN;
    message.open = &open;
    size += add(bytes, &message);
    message.id = 1;
    message.request_case = KINESIS_SIDECAR__V1__STREAM_REQUEST__REQUEST_CREDIT;
    message.credit = 7;
    size += add(bytes + size, &message);
    kinesis_sidecar__v1__close__init(&close);
    message.request_case = KINESIS_SIDECAR__V1__STREAM_REQUEST__REQUEST_CLOSE;
    message.close = &close;
    size += add(bytes + size, &message);
    http2_upload(&client, answer, bytes, size, end);
    return answer;
}

/* The next event; its kind. */
static int next_kind(struct http2_answer *answer, size_t *at, uint64_t *ret_granted)
{
    ks_pb_event *event = (ks_pb_event *)rpc_heard(&client, answer, at,
                                                  &kinesis_sidecar__v1__stream_event__descriptor);
    int kind = (int)event->event_case;

    if (kind == KINESIS_SIDECAR__V1__STREAM_EVENT__EVENT_ANSWER)
        *ret_granted = event->answer->granted->granted;
    kinesis_sidecar__v1__stream_event__free_unpacked(event, NULL);
    return kind;
}

static void expect_all_in_order(bool end)
{
    struct http2_answer *answer;
    uint64_t granted = 0;
    size_t at = 0;

    begin_beside();
    answer = say_at_once(end);
    wait_asked(answer);
    http2_turns(&client, 20);
    EXPECT(!answer->closed);
    EXPECT_EQ_U64(answer->size, 0);
    look_let();
    EXPECT_EQ_I64(next_kind(answer, &at, &granted),
                  KINESIS_SIDECAR__V1__STREAM_EVENT__EVENT_SESSION);
    EXPECT_EQ_I64(next_kind(answer, &at, &granted),
                  KINESIS_SIDECAR__V1__STREAM_EVENT__EVENT_ANSWER);
    EXPECT_EQ_U64(granted, 7);
    EXPECT_EQ_I64(next_kind(answer, &at, &granted), KINESIS_SIDECAR__V1__STREAM_EVENT__EVENT_ENDED);
    http2_wait(&client, answer);
    EXPECT_CONTAINS(answer->trailers, "grpc-status: 0\n");
    end_beside();
}

TEST(what_a_stream_says_while_it_waits_for_a_look_comes_behind_it)
{
    expect_all_in_order(false);
}

TEST(a_stream_that_has_said_all_is_opened_when_somebody_has_looked)
{
    expect_all_in_order(true);
}

TEST(who_leaves_while_he_waits_for_a_look_leaves_nothing)
{
    struct http2_answer *answer;
    ks_session_id session;

    begin_beside();
    answer = say_at_once(false);
    wait_asked(answer);
    http2_cancel(&client, answer);
    http2_turns(&client, 20);
    look_let();
    http2_turns(&client, 50);
    EXPECT(!ks_switchboard_find_session(rig.stage.board, KS_VIEW("app"), &session));
    end_beside();
}
