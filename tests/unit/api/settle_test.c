/* SPDX-License-Identifier: Apache-2.0 */
#include "api/ack_id.h"
#include "api/delivery.h"
#include "api/server.h"
#include "ks_test.h"
#include "unit/api/api_rig.h"

#include <stdio.h>
#include <string.h>

static struct rig rig;
static char target[2048];
static char body[8192];

static const char *post(const char *path, const char *text)
{
    return rig_call(&rig, "POST", path, text);
}

/* Everything that was put, in one pull; the batch_id. */
static const char *pull_batch(void)
{
    return rig_member(rig_pull(&rig, "/v1/records?max_records=100"), "batch_id");
}

static const char *skip_record(const char *json)
{
    return strstr(json, "\"ack_id\"") + 1;
}

TEST(a_batch_is_acknowledged_and_again)
{
    rig_begin(&rig);
    stage_put(&rig.stage, 0, 4);
    (void)snprintf(target, sizeof(target), "/v1/records/ack?batch_id=%s&wait=persisted",
                   pull_batch());
    EXPECT_CONTAINS(post(target, ""), "\"failed\":[],\"persisted\":true");
    EXPECT_CONTAINS(post(target, ""), "\"failed\":[],\"persisted\":true");
    rig_end(&rig);
}

TEST(failed_ack_ids_come_again_and_the_rest_does_not)
{
    const char *answer;
    const char *batch;
    const char *bad;
    const char *first;

    rig_begin(&rig);
    stage_put(&rig.stage, 7, 1);
    stage_put(&rig.stage, 7, 1);
    stage_put(&rig.stage, 7, 1);
    rig_turn(&rig, 300);
    answer = rig_pull(&rig, "/v1/records?max_records=3");
    while (strstr(skip_record(skip_record(answer)), "\"ack_id\"") == NULL)
        FAIL("three records were expected: %s", answer);
    batch = rig_member(answer, "batch_id");
    first = rig_member(answer, "ack_id");
    bad = rig_member(skip_record(answer), "ack_id");
    EXPECT(strcmp(first, bad) != 0);
    (void)snprintf(body, sizeof(body),
                   "{\"settlements\":[{\"batch_id\":\"%s\",\"outcome\":\"ack\","
                   "\"failed_ack_ids\":[\"%s\",\"nonsense\"]}]}",
                   batch, bad);
    answer = post("/v1/records/settle", body);
    EXPECT_CONTAINS(answer,
                    "\"ok\":3,\"failed\":[{\"ack_id\":\"nonsense\",\"reason\":\"MALFORMED\"");
    answer = rig_pull(&rig, "/v1/records");
    EXPECT_CONTAINS(answer, "\"attempt\":2");
    EXPECT(strstr(skip_record(answer), "\"ack_id\"") == NULL);
    rig_end(&rig);
}

/* They would be acknowledged, or failed twice. */
TEST(failed_ack_ids_without_one_batch_are_refused)
{
    const char *id;

    rig_begin(&rig);
    stage_put(&rig.stage, 0, 1);
    id = rig_member(rig_pull(&rig, "/v1/records"), "ack_id");
    (void)snprintf(body, sizeof(body), "{\"ack_ids\":[\"%s\"],\"failed_ack_ids\":[\"%s\"]}", id,
                   id);
    EXPECT_CONTAINS(post("/v1/records/ack", body), "failed_ack_ids goes with one batch_id");
    EXPECT_CONTAINS(post("/v1/records/ack?batch_id=a&batch_id=b", body), "HTTP/1.1 400");
    (void)snprintf(target, sizeof(target), "/v1/records/ack?ack_id=%s", id);
    EXPECT_CONTAINS(post(target, ""), "\"ok\":1");
    rig_end(&rig);
}

/* The others are kept for so long; it comes again as soon as any record that failed. */
TEST(what_failed_of_a_batch_that_is_extended_comes_again_soon)
{
    const char *batch;
    const char *answer;

    rig_begin(&rig);
    stage_put(&rig.stage, 0, 1);
    answer = rig_pull(&rig, "/v1/records");
    batch = rig_member(answer, "batch_id");
    (void)snprintf(body, sizeof(body), "{\"batch_id\":\"%s\",\"failed_ack_ids\":[\"%s\"]}", batch,
                   rig_member(answer, "ack_id"));
    EXPECT_CONTAINS(post("/v1/records/extend", body), "\"ok\":1");
    EXPECT_CONTAINS(rig_pull(&rig, "/v1/records?wait_ms=5000"), "\"attempt\":2");
    rig_end(&rig);
}

TEST(a_nack_comes_again_and_an_extend_moves_the_deadline)
{
    const char *id;

    rig_begin(&rig);
    stage_put(&rig.stage, 0, 1);
    id = rig_member(rig_pull(&rig, "/v1/records"), "ack_id");
    (void)snprintf(target, sizeof(target), "/v1/records/extend?ack_id=%s&delay_ms=90000", id);
    EXPECT_CONTAINS(post(target, ""), "\"ok\":1");
    (void)snprintf(body, sizeof(body), "{\"ack_ids\":[\"%s\"],\"delay_ms\":0}", id);
    EXPECT_CONTAINS(post("/v1/records/nack", body), "\"ok\":1");
    EXPECT_CONTAINS(rig_pull(&rig, "/v1/records?wait_ms=5000"), "\"attempt\":2");
    rig_end(&rig);
}

TEST(an_extend_of_what_is_settled_changes_nothing_and_is_no_failure)
{
    const char *id;

    rig_begin(&rig);
    stage_put(&rig.stage, 0, 1);
    id = rig_member(rig_pull(&rig, "/v1/records"), "ack_id");
    (void)snprintf(target, sizeof(target), "/v1/records/ack?ack_id=%s", id);
    EXPECT_CONTAINS(post(target, ""), "\"ok\":1");
    (void)snprintf(target, sizeof(target), "/v1/records/extend?ack_id=%s&delay_ms=90000", id);
    EXPECT_CONTAINS(post(target, ""), "\"ok\":1,\"failed\":[]");
    rig_end(&rig);
}

enum { BATCH = 5 };

/* A batch of BATCH records of one shard, and the ids of its records. Lives until the test ends. */
static const char *pull_lane(const char *ids[BATCH])
{
    const char *answer;
    const char *batch;

    for (int i = 0; i < BATCH; i++)
        stage_put(&rig.stage, 7, 1);
    rig_turn(&rig, 300);
    answer = rig_pull(&rig, "/v1/records?max_records=5");
    batch = rig_member(answer, "batch_id");
    for (int i = 0; i < BATCH; i++) {
        ids[i] = rig_member(answer, "ack_id");
        answer = skip_record(answer);
    }
    return batch;
}

/* Settles by /v1/records/HOW=ID. */
static const char *settle(const char *how, const char *id)
{
    (void)snprintf(target, sizeof(target), "/v1/records/%s=%s", how, id);
    return post(target, "");
}

TEST(an_extend_of_a_batch_tells_which_of_its_records_come_again)
{
    const char *ids[BATCH];
    const char *answer;
    const char *batch;

    rig_begin(&rig);
    batch = pull_lane(ids);
    EXPECT_CONTAINS(settle("ack?ack_id", ids[0]), "\"ok\":1");
    EXPECT_CONTAINS(settle("ack?ack_id", ids[3]), "\"ok\":1");
    /* It takes all later ones back with it that are not settled. */
    EXPECT_CONTAINS(settle("nack?delay_ms=90000&ack_id", ids[2]), "\"ok\":1");
    answer = settle("extend?batch_id", batch);
    EXPECT_CONTAINS(answer, "HTTP/1.1 200");
    EXPECT_CONTAINS(answer, "\"ok\":3,");
    EXPECT_STR(rig_member(answer, "ack_id"), ids[2]);
    EXPECT_STR(rig_member(answer, "reason"), "EXPIRED");
    answer = skip_record(answer);
    EXPECT_STR(rig_member(answer, "ack_id"), ids[4]);
    EXPECT_STR(rig_member(answer, "reason"), "EXPIRED");
    EXPECT(strstr(skip_record(answer), "\"ack_id\"") == NULL);
    rig_end(&rig);
}

/* Another delivery settled the record: the client keeps the later records of its lane. */
TEST(retry_of_a_settled_record_fails_as_settled_and_takes_nothing_back)
{
    const char *ids[BATCH];
    const char *answer;
    const char *batch;

    rig_begin(&rig);
    batch = pull_lane(ids);
    EXPECT_CONTAINS(settle("ack?ack_id", ids[0]), "\"ok\":1");
    answer = settle("nack?ack_id", ids[0]);
    EXPECT_CONTAINS(answer, "HTTP/1.1 200");
    EXPECT_CONTAINS(answer, "\"ok\":0,");
    EXPECT_STR(rig_member(answer, "ack_id"), ids[0]);
    EXPECT_STR(rig_member(answer, "reason"), "SETTLED");
    EXPECT_CONTAINS(settle("extend?ack_id", ids[0]), "\"ok\":1,\"failed\":[]");
    EXPECT_CONTAINS(settle("extend?batch_id", batch), "\"ok\":5,\"failed\":[]");
    EXPECT_CONTAINS(settle("ack?batch_id", batch), "\"ok\":5");
    answer = settle("nack?batch_id", batch);
    EXPECT_CONTAINS(answer, "\"ok\":0,");
    EXPECT_STR(rig_member(answer, "ack_id"), batch);
    EXPECT_STR(rig_member(answer, "reason"), "SETTLED");
    EXPECT(strstr(skip_record(answer), "\"ack_id\"") == NULL);
    rig_end(&rig);
}

TEST(retry_of_a_batch_is_accepted_if_one_record_is_not_settled)
{
    const char *ids[BATCH];
    const char *batch;

    rig_begin(&rig);
    batch = pull_lane(ids);
    EXPECT_CONTAINS(settle("ack?ack_id", ids[0]), "\"ok\":1");
    EXPECT_CONTAINS(settle("ack?ack_id", ids[4]), "\"ok\":1");
    EXPECT_CONTAINS(settle("nack?batch_id", batch), "\"ok\":5,\"failed\":[]");
    rig_turn(&rig, 300);
    EXPECT_CONTAINS(rig_pull(&rig, "/v1/records?max_records=5"), "\"attempt\":2");
    /* Records 1 to 3 are with a later delivery, record 4 is settled. */
    EXPECT_CONTAINS(settle("nack?batch_id", batch), "\"ok\":2,");
    rig_end(&rig);
}

TEST(failed_ack_id_of_a_settled_record_fails_as_settled)
{
    const char *ids[BATCH];
    const char *answer;
    const char *batch;

    rig_begin(&rig);
    batch = pull_lane(ids);
    EXPECT_CONTAINS(settle("ack?ack_id", ids[2]), "\"ok\":1");
    (void)snprintf(body, sizeof(body), "{\"batch_id\":\"%s\",\"failed_ack_ids\":[\"%s\"]}", batch,
                   ids[2]);
    answer = post("/v1/records/ack", body);
    EXPECT_CONTAINS(answer, "\"ok\":4,");
    EXPECT_STR(rig_member(answer, "ack_id"), ids[2]);
    EXPECT_STR(rig_member(answer, "reason"), "SETTLED");
    EXPECT(strstr(skip_record(answer), "\"ack_id\"") == NULL);
    rig_end(&rig);
}

/* The nack of an older batch comes late: what the later one has stays with it. */
TEST(a_nack_of_an_older_batch_takes_nothing_back_from_a_later_one)
{
    const char *ids[BATCH];
    const char *answer;
    const char *older;
    const char *later;

    rig_begin(&rig);
    older = pull_lane(ids);
    EXPECT_CONTAINS(settle("nack?batch_id", older), "\"ok\":5");
    rig_turn(&rig, 300);
    later = rig_member(rig_pull(&rig, "/v1/records?max_records=5"), "batch_id");
    answer = settle("nack?batch_id", older);
    EXPECT_CONTAINS(answer, "\"ok\":0,");
    EXPECT_STR(rig_member(answer, "ack_id"), older);
    EXPECT_STR(rig_member(answer, "reason"), "EXPIRED");
    EXPECT_CONTAINS(settle("nack?batch_id", later), "\"ok\":5");
    EXPECT_CONTAINS(settle("ack?batch_id", older), "\"ok\":5"); /* It had got them all. */
    rig_end(&rig);
}

/* The answer was lost, and the client asks again: the redelivery stays where it is. */
TEST(a_nack_that_is_repeated_takes_nothing_back_from_the_redelivery)
{
    const char *ids[BATCH];
    const char *answer;
    const char *later;

    rig_begin(&rig);
    (void)pull_lane(ids);
    EXPECT_CONTAINS(settle("nack?ack_id", ids[0]), "\"ok\":1");
    rig_turn(&rig, 300);
    later = rig_member(rig_pull(&rig, "/v1/records?max_records=5"), "batch_id");
    answer = settle("nack?ack_id", ids[0]);
    EXPECT_CONTAINS(answer, "\"ok\":0,");
    EXPECT_STR(rig_member(answer, "ack_id"), ids[0]);
    EXPECT_STR(rig_member(answer, "reason"), "EXPIRED");
    EXPECT_CONTAINS(settle("extend?ack_id", ids[1]), "\"reason\":\"EXPIRED\"");
    EXPECT_CONTAINS(settle("ack?ack_id", ids[0]), "\"ok\":1"); /* It had got it. */
    EXPECT_CONTAINS(settle("extend?batch_id", later), "\"ok\":5");
    rig_end(&rig);
}

TEST(a_batch_that_comes_again_as_a_whole_is_one_failure)
{
    const char *ids[BATCH];
    const char *answer;
    const char *batch;

    rig_begin(&rig);
    batch = pull_lane(ids);
    EXPECT_CONTAINS(settle("nack?delay_ms=90000&ack_id", ids[0]), "\"ok\":1");
    answer = settle("extend?batch_id", batch);
    EXPECT_CONTAINS(answer, "\"ok\":0,");
    EXPECT_STR(rig_member(answer, "ack_id"), batch);
    EXPECT_STR(rig_member(answer, "reason"), "EXPIRED");
    EXPECT(strstr(skip_record(answer), "\"ack_id\"") == NULL);
    rig_end(&rig);
}

TEST(ids_that_nobody_made_fail_one_by_one)
{
    struct ks_ack_key other;
    struct ks_ack_stamp stamp;
    char id[KS_ACK_ID_SIZE + 1] = "";
    const char *answer;

    rig_begin(&rig);
    ks_ack_key_init(&other, 12345, 0);
    ks_ack_stamp_init(&stamp, &other, 0, 1, &(struct ks_ack_run){0, 1, 0, 1, 1});
    ks_ack_id_write(&stamp, 0, id);
    (void)snprintf(body, sizeof(body), "{\"ack_ids\":[\"%s\",\"forged\"]}", id);
    answer = post("/v1/records/ack", body);
    EXPECT_CONTAINS(answer, "HTTP/1.1 200");
    EXPECT_CONTAINS(answer, "\"reason\":\"UNKNOWN\"");
    EXPECT_CONTAINS(answer, "\"reason\":\"MALFORMED\"");
    EXPECT_CONTAINS(answer, "\"ok\":0");
    rig_end(&rig);
}

TEST(a_request_without_any_id_that_was_given_out_is_refused)
{
    const char *answer;

    rig_begin(&rig);
    stage_put(&rig.stage, 0, 2);
    answer = post("/v1/records/ack", "{\"ack_ids\":[\"forged\",\"nonsense\"]}");
    EXPECT_CONTAINS(answer, "HTTP/1.1 400");
    EXPECT_CONTAINS(answer, "\"code\":\"invalid_argument\"");
    EXPECT_CONTAINS(answer, "no settlement can be read: not an id that was given out");
    answer = rig_pull(&rig, "/v1/records?max_records=1");
    (void)snprintf(body, sizeof(body), "{\"ack_id\":\"%s\"}", rig_member(answer, "batch_id"));
    EXPECT_CONTAINS(post("/v1/records/ack", body), "this is a batch_id, and was given as ack_id");
    answer = rig_pull(&rig, "/v1/records?max_records=1");
    (void)snprintf(body, sizeof(body), "{\"batch_id\":\"%s\"}", rig_member(answer, "ack_id"));
    EXPECT_CONTAINS(post("/v1/records/ack", body), "this is an ack_id, and was given as batch_id");
    rig_end(&rig);
}

/* A session that was assigned `records` records as one run; the first one is written. Its line is in `buffer`. */
static void write_one_of(uint32_t records, struct ks_delivery *delivery, uint8_t *buffer,
                         size_t size)
{
    static struct consumer consumer;
    enum ks_frame_state state;

    consumer_join(&consumer, &rig.stage, "me");
    for (uint32_t i = 0; i < records; i++)
        stage_put(&rig.stage, 3, 1);
    ks_delivery_init(delivery, &rig.api->subscriptions[0], consumer.session, KS_FRAME_NDJSON);
    for (int i = 0; i < 300 && delivery->run_count == 0; i++) {
        ks_loop_turn(rig.stage.loop, ks_span_ms(20));
        if (i > 20)
            (void)ks_delivery_pull(delivery, 100, 1 << 20, KS_BATCH_RUNS_MAX);
    }
    EXPECT_EQ_U64(delivery->runs[0].count, records);
    (void)ks_delivery_fill(delivery, buffer, size, &state);
    ks_delivery_sent(delivery, SIZE_MAX);
}

TEST(records_of_a_batch_that_were_not_written_are_no_failures)
{
    static struct ks_delivery delivery;
    uint8_t buffer[1000];
    const char *answer;

    rig_begin(&rig);
    write_one_of(3, &delivery, buffer, sizeof(buffer));
    (void)snprintf(
        body, sizeof(body),
        "{\"settlements\":[{\"batch_id\":\"%s\",\"outcome\":\"ack\",\"failed_ack_ids\":[\"%s\"]}]}",
        delivery.batch_id, rig_member((const char *)buffer, "ack_id"));
    answer = post("/v1/records/settle", body);
    EXPECT_CONTAINS(answer, "HTTP/1.1 200");
    EXPECT_CONTAINS(answer, "\"ok\":1,\"failed\":[]");
    ks_delivery_end(&delivery);
    rig_end(&rig);
}

TEST(a_session_that_is_over_is_410)
{
    const char *answer;

    rig_begin(&rig);
    stage_put(&rig.stage, 0, 1);
    answer = rig_pull(&rig, "/v1/records?session=mine");
    (void)snprintf(target, sizeof(target), "/v1/records/ack?ack_id=%s",
                   rig_member(answer, "ack_id"));
    EXPECT_CONTAINS(rig_call(&rig, "DELETE", "/v1/sessions/mine", ""), "HTTP/1.1 200");
    EXPECT_CONTAINS(post(target, ""), "HTTP/1.1 410");
    rig_end(&rig);
}

TEST(requests_that_cannot_be_read_are_400)
{
    static const struct {
        const char *path;
        const char *body;
        const char *says;
    } bad[] = {
        {"/v1/records/ack", "", "1 to 10000 settlements"},
        {"/v1/records/settle", "", "1 to 10000 settlements"},
        {"/v1/records/settle", "{", "not JSON"},
        {"/v1/records/settle", "{\"settlements\":[{\"ack_id\":\"a\"}]}", "outcome must be ack"},
        {"/v1/records/settle", "{\"settlements\":[{\"outcome\":\"ack\"}]}", "either ack_id or"},
        {"/v1/records/settle",
         "{\"settlements\":[{\"ack_id\":\"a\",\"batch_id\":\"b\",\"outcome\":\"ack\"}]}",
         "either ack_id or"},
        {"/v1/records/settle", "{\"settlements\":[{\"ack_id\":\"a\",\"outcome\":\"lose\"}]}",
         "lose"},
        {"/v1/records/settle",
         "{\"settlements\":[{\"ack_id\":\"a\",\"outcome\":\"retry\",\"delay_ms\":-1}]}",
         "delay_ms"},
        {"/v1/records/settle",
         "{\"settlements\":[{\"ack_id\":\"a\",\"outcome\":\"ack\",\"failed_ack_ids\":[\"b\"]}]}",
         "goes with batch_id"},
        {"/v1/records/settle",
         "{\"barrier\":\"a b\",\"settlements\":[{\"ack_id\":\"a\",\"outcome\":\"ack\"}]}",
         "barrier must be"},
        {"/v1/records/ack?ack_id=a&wait=maybe", "", "recorded or persisted"},
        {"/v1/records/ack?ack_id=a&wait_ms=99999999", "", "wait_ms"},
        {"/v1/records/ack?ack_id=a&x=1", "", "unknown query parameter"},
    };

    rig_begin(&rig);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        const char *answer = post(bad[i].path, bad[i].body);
        EXPECT_CONTAINS(answer, "HTTP/1.1 400");
        EXPECT_CONTAINS(answer, bad[i].says);
    }
    EXPECT_CONTAINS(post("/v1/records/ack?ack_id=a&subscription=other", ""), "HTTP/1.1 404");
    rig_end(&rig);
}
