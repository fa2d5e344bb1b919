/* SPDX-License-Identifier: Apache-2.0 */
/* GET /v1/dead-letters and what goes before it: the outcomes dead_letter and drop. */
#include <stdio.h>
#include <string.h>

#include "ks_test.h"
#include "unit/api/api_rig.h"

static struct rig rig;
static char body[1000];
static char target[1000];

static const char *settle(const char *ack_id, const char *outcome, const char *reason)
{
    (void)snprintf(body, sizeof(body),
                   "{\"settlements\":[{\"ack_id\":\"%s\",\"outcome\":\"%s\",\"reason\":\"%s\"}],"
                   "\"wait\":\"persisted\"}",
                   ack_id, outcome, reason);
    return rig_call(&rig, "POST", "/v1/records/settle", body);
}

TEST(a_dead_letter_is_persisted_with_its_record_and_its_reason)
{
    const char *answer;
    const char *id;

    rig_begin(&rig);
    stage_put(&rig.stage, 0, 1);
    id = rig_member(rig_pull(&rig, "/v1/records"), "ack_id");
    EXPECT_CONTAINS(settle(id, "dead_letter", "cannot be parsed"), "\"persisted\":true");
    answer = rig_call(&rig, "GET", "/v1/dead-letters", "");
    EXPECT_CONTAINS(answer, "\"cause\":\"asked\"");
    EXPECT_CONTAINS(answer, "\"reason\":\"cannot be parsed\"");
    EXPECT_CONTAINS(answer, "\"attempts\":1");
    EXPECT_CONTAINS(answer, "\"shard_id\":\"shardId-00000000000");
    EXPECT_CONTAINS(answer, "\"next_page_token\":\"\"");
    EXPECT(rig_member(answer, "data")[0] != '\0');
    rig_end(&rig);
}

TEST(one_letter_is_told_by_its_id_also_as_text)
{
    const char *answer;
    const char *id;

    rig_begin(&rig);
    stage_put(&rig.stage, 0, 1); /* Its data is "0". */
    id = rig_member(rig_pull(&rig, "/v1/records"), "ack_id");
    EXPECT_CONTAINS(settle(id, "dead_letter", ""), "\"persisted\":true");
    id = rig_member(rig_call(&rig, "GET", "/v1/dead-letters?encoding=utf8", ""), "id");
    (void)snprintf(target, sizeof(target), "/v1/dead-letters/%s", id);
    answer = rig_call(&rig, "GET", target, "");
    EXPECT_CONTAINS(answer, "\"data\":\"MA==\"");
    EXPECT_CONTAINS(answer, "\"text\":\"\"");
    (void)snprintf(target, sizeof(target), "/v1/dead-letters/%s?encoding=utf8", id);
    answer = rig_call(&rig, "GET", target, "");
    EXPECT_CONTAINS(answer, "\"data\":\"\"");
    EXPECT_CONTAINS(answer, "\"text\":\"0\"");
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/dead-letters/none", ""), "404");
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/dead-letters?encoding=json", ""),
                    "encoding of dead letters must be base64 or utf8");
    rig_end(&rig);
}

TEST(a_discarded_letter_is_gone_and_an_unknown_one_is_404)
{
    uint64_t events;
    const char *id;

    rig_begin(&rig);
    stage_put(&rig.stage, 0, 1);
    id = rig_member(rig_pull(&rig, "/v1/records"), "ack_id");
    EXPECT_CONTAINS(settle(id, "dead_letter", ""), "\"persisted\":true");
    id = rig_member(rig_call(&rig, "GET", "/v1/dead-letters", ""), "id");
    (void)snprintf(target, sizeof(target), "/v1/dead-letters/%s/discard", id);
    EXPECT_CONTAINS(rig_call(&rig, "POST", target, ""), "200 OK");
    (void)ks_switchboard_events(rig.stage.board, &events);
    EXPECT_STR(ks_switchboard_event(rig.stage.board, events - 1)->type, "letter_discarded");
    EXPECT_CONTAINS(ks_switchboard_event(rig.stage.board, events - 1)->message,
                    "no token, over a Unix socket");
    EXPECT_CONTAINS(rig_call(&rig, "POST", target, ""), "404");
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/dead-letters", ""), "\"dead_letters\":[]");
    rig_end(&rig);
}

TEST(a_dropped_record_is_settled_and_no_letter)
{
    const char *id;

    rig_begin(&rig);
    stage_put(&rig.stage, 0, 1);
    id = rig_member(rig_pull(&rig, "/v1/records"), "ack_id");
    EXPECT_CONTAINS(settle(id, "drop", ""), "\"persisted\":true");
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/dead-letters", ""), "\"dead_letters\":[]");
    rig_end(&rig);
}

TEST(letters_come_in_pages)
{
    const char *answer;
    const char *token;

    rig_begin(&rig);
    for (int i = 0; i < 3; i++) {
        stage_put(&rig.stage, 0, 1);
        EXPECT_CONTAINS(
            settle(rig_member(rig_pull(&rig, "/v1/records"), "ack_id"), "dead_letter", ""),
            "\"persisted\":true");
    }
    answer = rig_call(&rig, "GET", "/v1/dead-letters?page_size=2", "");
    token = rig_member(answer, "next_page_token");
    EXPECT(token[0] != '\0');
    (void)snprintf(target, sizeof(target), "/v1/dead-letters?page_size=2&page_token=%s", token);
    answer = rig_call(&rig, "GET", target, "");
    EXPECT_STR(rig_member(answer, "next_page_token"), "");
    EXPECT_CONTAINS(answer, "\"id\":");
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/dead-letters?page_size=0", ""), "400");
    rig_end(&rig);
}

static char letter[600];

/* A record of which there is a dead letter: its id is in `letter`. */
static void bury_one(void)
{
    stage_put(&rig.stage, 0, 1);
    EXPECT_CONTAINS(settle(rig_member(rig_pull(&rig, "/v1/records"), "ack_id"), "dead_letter", ""),
                    "\"persisted\":true");
    (void)snprintf(letter, sizeof(letter), "%s",
                   rig_member(rig_call(&rig, "GET", "/v1/dead-letters", ""), "id"));
}

static const char *order(const char *what)
{
    (void)snprintf(target, sizeof(target), "/v1/dead-letters/%s/%s", letter, what);
    return rig_call(&rig, "POST", target, "");
}

TEST(a_redriven_letter_is_delivered_with_all_that_it_was_and_an_ack_removes_it_for_good)
{
    const char *records;
    const char *id;

    rig_begin(&rig);
    bury_one();
    EXPECT_CONTAINS(order("redrive"), "200 OK");
    EXPECT_CONTAINS(order("redrive"), "409");
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/dead-letters", ""), "\"redriven\":true");
    records = rig_pull(&rig, "/v1/records");
    EXPECT_CONTAINS(records, "\"redriven\":true");
    EXPECT_CONTAINS(records, "\"attempt\":2");
    EXPECT_CONTAINS(records, "\"epoch\":0");
    EXPECT_CONTAINS(records, "\"shard_id\":\"shardId-00000000000");
    EXPECT_CONTAINS(letter, rig_member(records, "sequence_number"));
    id = rig_member(records, "ack_id");
    EXPECT_CONTAINS(settle(id, "ack", ""), "\"persisted\":true,\"positions\":[]");
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/dead-letters", ""), "\"dead_letters\":[]");
    EXPECT_CONTAINS(order("redrive"), "404");
    rig_end(&rig);
}

TEST(a_redriven_letter_that_is_given_up_again_stays_a_letter_with_its_attempts_and_its_new_reason)
{
    const char *answer;

    rig_begin(&rig);
    bury_one();
    EXPECT_CONTAINS(order("redrive"), "200 OK");
    EXPECT_CONTAINS(settle(rig_member(rig_pull(&rig, "/v1/records"), "ack_id"), "retry", ""),
                    "\"ok\":1");
    answer = rig_pull(&rig, "/v1/records");
    EXPECT_CONTAINS(answer, "\"attempt\":3");
    EXPECT_CONTAINS(settle(rig_member(answer, "ack_id"), "dead_letter", "still bad"),
                    "\"persisted\":true");
    answer = rig_call(&rig, "GET", "/v1/dead-letters", "");
    EXPECT_CONTAINS(answer, "\"attempts\":3");
    EXPECT_CONTAINS(answer, "\"reason\":\"still bad\"");
    EXPECT_CONTAINS(answer, "\"redriven\":false");
    EXPECT_CONTAINS(order("redrive"), "\"attempts\":3");
    rig_end(&rig);
}

TEST(a_letter_that_is_discarded_is_not_delivered_any_more)
{
    rig_begin(&rig);
    bury_one();
    EXPECT_CONTAINS(order("redrive"), "200 OK");
    EXPECT_CONTAINS(order("discard"), "200 OK");
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/records?wait_ms=0", ""), "\"records\":[]");
    EXPECT_CONTAINS(order("redrive"), "404");
    rig_end(&rig);
}

TEST(letters_of_a_sink_are_neither_listed_nor_redriven_nor_discarded)
{
    const char *answer;

    rig_begin(&rig);
    rig.stage.letters->sink = "sqs:https://sqs.eu-west-1.amazonaws.com/1/q";
    (void)snprintf(letter, sizeof(letter), "x");
    for (int at = 0; at < 3; at++) {
        answer = at == 0 ? rig_call(&rig, "GET", "/v1/dead-letters", "")
                         : order(at == 1 ? "redrive" : "discard");
        EXPECT_CONTAINS(answer, "400 Bad Request");
        EXPECT_CONTAINS(answer, "failed-precondition");
        EXPECT_CONTAINS(answer, "sqs:https://sqs.eu-west-1.amazonaws.com/1/q");
    }
    /* A record can be given up all the same. */
    stage_put(&rig.stage, 0, 1);
    EXPECT_CONTAINS(settle(rig_member(rig_pull(&rig, "/v1/records"), "ack_id"), "dead_letter", ""),
                    "\"persisted\":true");
    rig_end(&rig);
}
