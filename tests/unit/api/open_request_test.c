/* SPDX-License-Identifier: Apache-2.0 */
#include "api/open_request.h"
#include "ks_test.h"
#include "ports/lease_store.h"
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

static struct stage leader;
static struct http2_client client;
static char the_shard[KS_SHARD_ID_MAX + 1];
static char *shards[] = {the_shard};

/* A look at the table, until the test lets it go. */
static const struct ks_lease_store_vtable *store_vtable;
static struct ks_lease_store_vtable slow_vtable;
static struct ks_store_request held_look;

static void slow_ask(struct ks_lease_store *store, const struct ks_store_request *request)
{
    if (request->operation == KS_STORE_READ_LEASES)
        held_look = *request;
    else
        store_vtable->ask(store, request);
}

static void wait_asked(const struct http2_answer *answer)
{
    ks_instant until = stage_patience();

    while (held_look.answered == NULL) {
        EXPECT(!answer->closed);
        http2_turn(&client);
        stage_turn(&rig.stage, until, ks_span_ms(1));
    }
}

static void let_go(void)
{
    store_vtable->ask(rig.stage.store, &held_look);
    held_look.answered = NULL;
}

static void let_fail(void)
{
    struct ks_store_answer unknown = {.outcome = KS_UNKNOWN, .err = KS_FAIL(TIMEOUT)};

    held_look.answered(held_look.arg, held_look.token, &unknown);
    held_look.answered = NULL;
}

static bool has_rows(struct stage *stage)
{
    struct ks_shard_status status;
    uint32_t count = 0;

    for (uint32_t i = 0; i < ks_switchboard_shard_count(stage->board); i++)
        count +=
            ks_switchboard_shard(stage->board, ks_switchboard_shard_at(stage->board, i), &status) &&
            status.has_lease;
    return count == STAGE_SHARDS;
}

/* Another worker leads and has made the rows; ours has not looked at any. */
static void begin_beside(void)
{
    const char *id;

    stage_begin(&leader, "leader");
    stage_turn_until(&leader, has_rows);
    id = ks_switchboard_shard_id(leader.board, ks_switchboard_shard_at(leader.board, 0));
    EXPECT_OK(ks_view_copy_text(ks_view_text(id), the_shard, sizeof(the_shard)));
    rig_begin(&rig);
    EXPECT_EQ_U64(ks_switchboard_shard_count(rig.stage.board), 0);
    store_vtable = rig.stage.store->vtable;
    slow_vtable = *store_vtable;
    slow_vtable.ask = slow_ask;
    rig.stage.store->vtable = &slow_vtable;
    http2_begin(&client, &rig, "api", 0);
}

static void end_beside(void)
{
    http2_end(&client);
    rig_end(&rig);
    stage_vanish(&leader);
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
    let_go();
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
    let_go();
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
    let_fail();
    http2_wait(&client, answer);
    EXPECT_CONTAINS(answer->headers, "grpc-status: 14\n");
    EXPECT_CONTAINS(answer->headers, "not known yet");
    end_beside();
}

TEST(no_look_takes_longer_than_the_client_waits)
{
    char json[200];

    begin_beside();
    (void)snprintf(json, sizeof(json), "{\"shards\":[\"%s\"]}", the_shard);
    EXPECT_CONTAINS(rpc_call(&rig, "POST", "/kinesis_sidecar.v1.Consumer/OpenSession",
                             "Content-Type: application/json\r\nConnect-Timeout-Ms: 50\r\n", json,
                             strlen(json)),
                    "deadline_exceeded");
    let_go();
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
    let_go();
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
    let_go();
    http2_turns(&client, 50);
    EXPECT(!ks_switchboard_find_session(rig.stage.board, KS_VIEW("app"), &session));
    end_beside();
}
