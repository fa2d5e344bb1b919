/* SPDX-License-Identifier: Apache-2.0 */
/* What a client asks in its stream, and the stream that is open both ways. */
#include "api/questions.h"
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

static void open_stream(void)
{
    ks_pb_open_request open;

    rig_begin(&rig);
    http2_begin(&client, &rig, "api", 0);
    at = 0;
    stream = rpc_grpc(&client, "/kinesis_sidecar.v1.Consumer/Stream", NULL, false);
    kinesis_sidecar__v1__open_request__init(&open);
    open.client_id = ks_pb_text("c");
    say(1, KINESIS_SIDECAR__V1__STREAM_REQUEST__REQUEST_OPEN, &open, false);
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
