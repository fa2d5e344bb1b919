/* SPDX-License-Identifier: Apache-2.0 */
/* What a client asks in its stream, and the stream that is open both ways. */
#include "api/questions.h"
#include "api/open_request.h"
#include "api/server.h"
#include "api/stream.h"
#include "ks_test.h"
#include "unit/api/rpc_rig.h"

#include <string.h>

static struct rig rig;
static struct http2_client client;
static struct http2_answer *stream;
static size_t at;

static void say(uint64_t id, KinesisSidecar__V1__StreamRequest__RequestCase which, void *request,
                bool end)
{
    KinesisSidecar__V1__StreamRequest message;

    kinesis_sidecar__v1__stream_request__init(&message);
    message.id = id;
    message.request_case = which;
    message.open = request; /* All members of the oneof lie at one place. */
    rpc_say(&client, stream, &message.base, end);
}

static void open_stream_with(bool explicit_credit, uint64_t max_message_bytes)
{
    ks_pb_open_request open;

    rig_begin(&rig);
    http2_begin(&client, &rig, "api", 0);
    at = 0;
    stream = rpc_grpc(&client, "/kinesis_sidecar.v1.Consumer/Stream", NULL, false);
    kinesis_sidecar__v1__open_request__init(&open);
    open.client_id = ks_pb_text("c");
    open.explicit_credit = explicit_credit;
    open.max_message_bytes = max_message_bytes;
    open.heartbeat_ms = 100;
    say(1, KINESIS_SIDECAR__V1__STREAM_REQUEST__REQUEST_OPEN, &open, false);
}

static void open_stream(void)
{
    open_stream_with(false, 0);
}

/* The next event of this kind. */
static ks_pb_event *wait_for(KinesisSidecar__V1__StreamEvent__EventCase which)
{
    for (;;) {
        ks_pb_event *event = (ks_pb_event *)rpc_heard(
            &client, stream, &at, &kinesis_sidecar__v1__stream_event__descriptor);
        if (event->event_case == which)
            return event;
        kinesis_sidecar__v1__stream_event__free_unpacked(event, NULL);
    }
}

static void wait_opened(void)
{
    kinesis_sidecar__v1__stream_event__free_unpacked(
        wait_for(KINESIS_SIDECAR__V1__STREAM_EVENT__EVENT_SESSION), NULL);
}

static void grant(uint64_t id, uint32_t records)
{
    KinesisSidecar__V1__StreamRequest message;

    kinesis_sidecar__v1__stream_request__init(&message);
    message.id = id;
    message.request_case = KINESIS_SIDECAR__V1__STREAM_REQUEST__REQUEST_CREDIT;
    message.credit = records;
    rpc_say(&client, stream, &message.base, false);
}

static void update(uint64_t id, uint64_t max_message_bytes, uint32_t max_in_flight)
{
    KinesisSidecar__V1__SessionLimits limits;

    kinesis_sidecar__v1__session_limits__init(&limits);
    limits.max_message_bytes = max_message_bytes;
    limits.max_in_flight = max_in_flight;
    say(id, KINESIS_SIDECAR__V1__STREAM_REQUEST__REQUEST_UPDATE, &limits, false);
}

/* The answer to `id` is of this kind. The caller frees it. */
static ks_pb_event *answer_to(uint64_t id, KinesisSidecar__V1__StreamAnswer__AnswerCase which)
{
    ks_pb_event *event = wait_for(KINESIS_SIDECAR__V1__STREAM_EVENT__EVENT_ANSWER);

    EXPECT_EQ_U64(event->answer->id, id);
    EXPECT_EQ_I64(event->answer->answer_case, which);
    return event;
}

static void expect_problem(uint64_t id, const char *says)
{
    ks_pb_event *event = answer_to(id, KINESIS_SIDECAR__V1__STREAM_ANSWER__ANSWER_PROBLEM);

    EXPECT_CONTAINS(event->answer->problem->detail, says);
    kinesis_sidecar__v1__stream_event__free_unpacked(event, NULL);
}

static void settle(uint64_t id, const char *batch_id, KinesisSidecar__V1__Wait wait)
{
    ks_pb_settle_request request;
    ks_pb_settlement settlement;
    ks_pb_settlement *settlements[] = {&settlement};

    kinesis_sidecar__v1__settle_request__init(&request);
    kinesis_sidecar__v1__settlement__init(&settlement);
    settlement.batch_id = ks_pb_text(batch_id);
    settlement.outcome = KINESIS_SIDECAR__V1__OUTCOME__OUTCOME_ACK;
    request.n_settlements = 1;
    request.settlements = settlements;
    request.wait = wait;
    say(id, KINESIS_SIDECAR__V1__STREAM_REQUEST__REQUEST_SETTLE, &request, false);
}

TEST(records_come_down_settles_go_up_and_the_answers_carry_their_ids)
{
    ks_pb_event *batch;
    ks_pb_event *answer;

    open_stream();
    stage_put(&rig.stage, 0, 1);
    batch = wait_for(KINESIS_SIDECAR__V1__STREAM_EVENT__EVENT_BATCH);
    settle(7, batch->batch->batch_id, KINESIS_SIDECAR__V1__WAIT__WAIT_PERSISTED);
    answer = wait_for(KINESIS_SIDECAR__V1__STREAM_EVENT__EVENT_ANSWER);
    EXPECT_EQ_U64(answer->answer->id, 7);
    EXPECT_EQ_I64(answer->answer->answer_case, KINESIS_SIDECAR__V1__STREAM_ANSWER__ANSWER_SETTLED);
    EXPECT_EQ_U64(answer->answer->settled->ok, 1);
    EXPECT(answer->answer->settled->persisted);
    kinesis_sidecar__v1__stream_event__free_unpacked(batch, NULL);
    kinesis_sidecar__v1__stream_event__free_unpacked(answer, NULL);
    http2_end(&client);
    rig_end(&rig);
}

TEST(a_question_that_is_refused_is_answered_and_the_stream_goes_on)
{
    ks_pb_checkpoint_request request;
    ks_pb_event *answer;

    open_stream();
    kinesis_sidecar__v1__checkpoint_request__init(&request);
    say(8, KINESIS_SIDECAR__V1__STREAM_REQUEST__REQUEST_CHECKPOINT, &request, false);
    answer = wait_for(KINESIS_SIDECAR__V1__STREAM_EVENT__EVENT_ANSWER);
    EXPECT_EQ_U64(answer->answer->id, 8);
    EXPECT_EQ_I64(answer->answer->answer_case, KINESIS_SIDECAR__V1__STREAM_ANSWER__ANSWER_PROBLEM);
    EXPECT_CONTAINS(answer->answer->problem->detail, "shard_id and sequence_number are required");
    EXPECT_EQ_U64(answer->answer->problem->status, 400);
    EXPECT(!stream->closed);
    kinesis_sidecar__v1__stream_event__free_unpacked(answer, NULL);
    http2_end(&client);
    rig_end(&rig);
}

/* They come in one turn, and none of them waits. */
TEST(any_number_of_questions_are_answered_at_once)
{
    enum { MANY = 3 * KS_QUESTIONS_MAX };
    static uint8_t bytes[MANY * 32];
    KinesisSidecar__V1__StreamRequest message;
    size_t size = 0;

    open_stream();
    wait_opened();
    kinesis_sidecar__v1__stream_request__init(&message);
    message.request_case = KINESIS_SIDECAR__V1__STREAM_REQUEST__REQUEST_CREDIT;
    message.credit = 1;
    for (message.id = 1; message.id <= MANY; message.id++) {
        const size_t packed = protobuf_c_message_pack(&message.base, bytes + size + 5);

        bytes[size + 4] = (uint8_t)packed;
        size += 5 + packed;
    }
    http2_upload(&client, stream, bytes, size, false);
    for (uint64_t id = 1; id <= MANY; id++)
        expect_problem(id, "was not opened with explicit_credit");
    EXPECT(!stream->closed);
    http2_end(&client);
    rig_end(&rig);
}

/* Each has a timer, and a loop has room for so many. */
TEST(a_question_beyond_those_of_all_streams_is_refused)
{
    open_stream();
    wait_opened();
    rig.api->questions = KS_QUESTIONS_ALL_MAX;
    grant(2, 1);
    http2_wait(&client, stream);
    EXPECT_CONTAINS(stream->trailers, "grpc-status: 8\n");
    EXPECT_CONTAINS(stream->trailers, "65536");
    rig.api->questions = 0;
    http2_end(&client);
    rig_end(&rig);
}

TEST(who_has_said_all_has_closed_the_session)
{
    ks_pb_event *opened;

    open_stream();
    opened = wait_for(KINESIS_SIDECAR__V1__STREAM_EVENT__EVENT_SESSION);
    EXPECT_STR(opened->session->session, "c");
    http2_upload(&client, stream, "", 0, true);
    http2_wait(&client, stream);
    EXPECT_CONTAINS(stream->trailers, "grpc-status: 0\n");
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/sessions", ""), "\"sessions\":[]");
    kinesis_sidecar__v1__stream_event__free_unpacked(opened, NULL);
    http2_end(&client);
    rig_end(&rig);
}

TEST(open_comes_first_and_once)
{
    ks_pb_open_request open;

    open_stream();
    kinesis_sidecar__v1__open_request__init(&open);
    say(2, KINESIS_SIDECAR__V1__STREAM_REQUEST__REQUEST_OPEN, &open, false);
    http2_wait(&client, stream);
    EXPECT_CONTAINS(stream->trailers, "grpc-status: 9\n");
    stream = rpc_grpc(&client, "/kinesis_sidecar.v1.Consumer/Stream", NULL, false);
    settle(1, "x", KINESIS_SIDECAR__V1__WAIT__WAIT_UNSPECIFIED);
    http2_wait(&client, stream);
    EXPECT_CONTAINS(stream->headers, "grpc-status: 9\n");
    http2_end(&client);
    rig_end(&rig);
}

/* `records` come, and then nothing more though there is more. */
static void expect_exactly(size_t records)
{
    ks_pb_event *event;
    size_t came = 0;

    while (came < records) {
        event = wait_for(KINESIS_SIDECAR__V1__STREAM_EVENT__EVENT_BATCH);
        came += event->batch->n_records;
        kinesis_sidecar__v1__stream_event__free_unpacked(event, NULL);
    }
    EXPECT_EQ_U64(came, records);
    event = (ks_pb_event *)rpc_heard(&client, stream, &at,
                                     &kinesis_sidecar__v1__stream_event__descriptor);
    EXPECT_EQ_I64(event->event_case, KINESIS_SIDECAR__V1__STREAM_EVENT__EVENT_HEARTBEAT);
    EXPECT_EQ_U64(event->heartbeat->credit, 0);
    EXPECT_EQ_I64(event->heartbeat->idle_reason,
                  KINESIS_SIDECAR__V1__IDLE_REASON__IDLE_REASON_FLOW_CONTROLLED);
    kinesis_sidecar__v1__stream_event__free_unpacked(event, NULL);
}

TEST(nothing_comes_that_was_not_granted)
{
    ks_pb_event *answer;

    open_stream_with(true, 0);
    wait_opened();
    stage_turn_until(&rig.stage, stage_holds_all);
    stage_put(&rig.stage, 0, 10);
    grant(7, 2);
    answer = answer_to(7, KINESIS_SIDECAR__V1__STREAM_ANSWER__ANSWER_GRANTED);
    EXPECT_STR(answer->answer->granted->session, "c");
    EXPECT_EQ_U64(answer->answer->granted->granted, 2);
    kinesis_sidecar__v1__stream_event__free_unpacked(answer, NULL);
    expect_exactly(2);
    EXPECT_CONTAINS(
        rpc_json(&rig, "/kinesis_sidecar.v1.Consumer/Grant", "{\"session\":\"c\",\"records\":3}"),
        "\"granted\":3");
    expect_exactly(3);
    grant(8, 0);
    expect_problem(8, "one record or more");
    http2_end(&client);
    rig_end(&rig);
}

TEST(credit_is_granted_only_where_it_is_explicit)
{
    open_stream();
    grant(7, 2);
    expect_problem(7, "was not opened with explicit_credit");
    http2_end(&client);
    rig_end(&rig);
}

TEST(a_record_that_is_too_large_comes_when_the_limit_was_raised)
{
    static char data[3000];
    struct ks_put_entry entry = {.partition_key = KS_VIEW("k")};
    KinesisSidecar__V1__IdleReason idle;
    ks_pb_event *event;

    memset(data, 'x', sizeof(data));
    entry.data = ks_view_of(data, sizeof(data));
    open_stream_with(false, KS_MESSAGE_EXTRA_BYTES + 1000);
    wait_opened();
    stage_turn_until(&rig.stage, stage_holds_all);
    stage_put_one(&rig.stage, &entry);
    do {
        event = wait_for(KINESIS_SIDECAR__V1__STREAM_EVENT__EVENT_HEARTBEAT);
        idle = event->heartbeat->idle_reason;
        kinesis_sidecar__v1__stream_event__free_unpacked(event, NULL);
    } while (idle != KINESIS_SIDECAR__V1__IDLE_REASON__IDLE_REASON_LANE_BLOCKED);
    update(7, KS_MESSAGE_EXTRA_BYTES, 0);
    expect_problem(7, "from 2049 to");
    update(8, KS_MESSAGE_EXTRA_BYTES + 4000, 0);
    event = answer_to(8, KINESIS_SIDECAR__V1__STREAM_ANSWER__ANSWER_UPDATED);
    EXPECT_EQ_U64(event->answer->updated->max_message_bytes, KS_MESSAGE_EXTRA_BYTES + 4000);
    EXPECT_EQ_U64(event->answer->updated->max_in_flight, 1000);
    EXPECT_EQ_U64(event->answer->updated->max_in_flight_bytes, 16 << 20);
    kinesis_sidecar__v1__stream_event__free_unpacked(event, NULL);
    event = wait_for(KINESIS_SIDECAR__V1__STREAM_EVENT__EVENT_BATCH);
    EXPECT_EQ_U64(event->batch->records[0]->data.len, sizeof(data));
    kinesis_sidecar__v1__stream_event__free_unpacked(event, NULL);
    update(9, 0, 7);
    event = answer_to(9, KINESIS_SIDECAR__V1__STREAM_ANSWER__ANSWER_UPDATED);
    EXPECT_EQ_U64(event->answer->updated->max_in_flight, 7);
    kinesis_sidecar__v1__stream_event__free_unpacked(event, NULL);
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/sessions", ""), "\"max_in_flight\":7");
    http2_end(&client);
    rig_end(&rig);
}

TEST(close_ends_the_session_at_once_and_the_stream_says_so_last)
{
    KinesisSidecar__V1__Close close;
    ks_pb_event *event;
    const char *again;

    open_stream();
    stage_put(&rig.stage, 0, 1);
    event = wait_for(KINESIS_SIDECAR__V1__STREAM_EVENT__EVENT_BATCH);
    kinesis_sidecar__v1__stream_event__free_unpacked(event, NULL);
    kinesis_sidecar__v1__close__init(&close);
    say(7, KINESIS_SIDECAR__V1__STREAM_REQUEST__REQUEST_CLOSE, &close, false);
    event = wait_for(KINESIS_SIDECAR__V1__STREAM_EVENT__EVENT_ENDED);
    EXPECT_EQ_I64(event->ended->reason, KINESIS_SIDECAR__V1__SESSION_END__SESSION_END_CLOSED);
    kinesis_sidecar__v1__stream_event__free_unpacked(event, NULL);
    http2_wait(&client, stream);
    EXPECT_EQ_U64(stream->size, at);
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/sessions", ""), "\"sessions\":[]");
    EXPECT_CONTAINS(stream->trailers, "grpc-status: 0\n");
    again = rig_pull(&rig, "/v1/records?session=other");
    EXPECT_CONTAINS(again, "\"attempt\":2");
    http2_end(&client);
    rig_end(&rig);
}

/* Opens a session of the same name beside the stream, then says `which` in it. */
static void say_too_late(KinesisSidecar__V1__StreamRequest__RequestCase which)
{
    const struct ks_session_request request = {.client_id = KS_VIEW("c"),
                                               .max_in_flight = 9,
                                               .max_in_flight_bytes = 1 << 20,
                                               .ack_deadline = ks_span_ms(60000),
                                               .grace = ks_span_ms(60000),
                                               .ordering = KS_ORDER_ANY,
                                               .explicit_credit = true};
    KinesisSidecar__V1__Close close;
    struct ks_session_status status;
    struct ks_detail detail;
    ks_session_id session;

    kinesis_sidecar__v1__close__init(&close);
    open_stream();
    wait_opened();
    EXPECT_OK(ks_switchboard_open(rig.stage.board, &request, NULL, &session, &detail));
    if (which == KINESIS_SIDECAR__V1__STREAM_REQUEST__REQUEST_CREDIT)
        grant(7, 5);
    else if (which == KINESIS_SIDECAR__V1__STREAM_REQUEST__REQUEST_UPDATE)
        update(7, 0, 3);
    else
        say(7, which, &close, false);
    http2_wait(&client, stream);
    EXPECT(ks_switchboard_session(rig.stage.board, session, &status));
    EXPECT_EQ_U64(status.session.granted, 0);
    EXPECT_EQ_U64(status.session.max_in_flight, 9);
    http2_end(&client);
    rig_end(&rig);
}

TEST(a_stream_that_was_taken_over_has_no_say_in_the_session)
{
    say_too_late(KINESIS_SIDECAR__V1__STREAM_REQUEST__REQUEST_CREDIT);
    say_too_late(KINESIS_SIDECAR__V1__STREAM_REQUEST__REQUEST_UPDATE);
    say_too_late(KINESIS_SIDECAR__V1__STREAM_REQUEST__REQUEST_CLOSE);
}
