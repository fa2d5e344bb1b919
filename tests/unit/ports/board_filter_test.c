/* SPDX-License-Identifier: Apache-2.0 */
/* The filter of the sessions of a switchboard. */
#include "base/metrics.h"
#include "base/pattern.h"
#include "ks_test.h"
#include "ports/board.h"
#include "unit/ports/stage.h"

#include <stdio.h>
#include <string.h>

#define ODD "{\"partitionKey\":[\"1\",\"3\",\"5\",\"7\"]}"
#define LOW "{\"partitionKey\":[\"0\",\"1\",\"2\",\"3\"]}"

static ks_err join(struct consumer *consumer, struct stage *stage, const char *name,
                   const char *filter, struct ks_detail *detail)
{
    struct ks_session_request request = consumer_request(name);
    struct ks_session_status status;
    ks_session_id session;

    request.filter = ks_view_text(filter);
    KS_TRY(ks_switchboard_open(stage->board, &request, NULL, &session, detail));
    EXPECT(ks_switchboard_session(stage->board, session, &status));
    *consumer = (struct consumer){
        .stage = stage, .session = session, .session_epoch = status.session.epoch};
    return KS_OK;
}

static int64_t filtered(const struct stage *stage)
{
    return ks_metric_number_labelled(KS_METRIC_RECORDS_FILTERED, stage->board->config.subscription);
}

/* Turns until so many records were excluded. */
static void wait_filtered(struct stage *stage, int64_t count)
{
    ks_instant until = stage_patience();

    while (filtered(stage) < count)
        stage_turn(stage, until, ks_span_ms(20));
    EXPECT_EQ_I64(filtered(stage), count);
}

/* Expects that it got each of these once, and no others. */
static void expect_seen(const struct consumer *consumer, const char *numbers)
{
    for (uint32_t i = 0; i < 10; i++)
        EXPECT_EQ_I64(consumer->seen[i], strchr(numbers, (int)('0' + i)) != NULL);
}

TEST(a_session_gets_what_its_filter_takes_and_the_rest_is_settled_and_counted)
{
    struct ks_detail detail = {.text = ""};
    struct consumer consumer;
    struct stage stage;

    stage_begin(&stage, "pod-a");
    EXPECT_OK(join(&consumer, &stage, "one", ODD, &detail));
    stage_put(&stage, 0, 8);
    consumer_pull_until(&consumer, 4);
    wait_filtered(&stage, 4);
    expect_seen(&consumer, "1357");
    consumer_ack_all(&consumer);
    stage_drain(&stage);
    EXPECT(stage.clean);
    EXPECT_EQ_U64(stage.unsaved, 0);
    stage_vanish(&stage);
}

TEST(a_session_that_takes_over_judges_what_waits_by_its_own_filter)
{
    struct ks_detail detail = {.text = ""};
    struct consumer consumer;
    struct stage stage;

    stage_begin(&stage, "pod-a");
    EXPECT_OK(join(&consumer, &stage, "one", ODD, &detail));
    stage_put(&stage, 0, 8);
    wait_filtered(&stage, 4);
    EXPECT_OK(join(&consumer, &stage, "one", LOW, &detail));
    EXPECT(ks_switchboard_filter_is(stage.board, KS_VIEW(LOW)));
    consumer_pull_until(&consumer, 2);
    wait_filtered(&stage, 6);
    expect_seen(&consumer, "13");
    EXPECT_OK(join(&consumer, &stage, "one", "", &detail));
    EXPECT(ks_switchboard_filter_is(stage.board, KS_VIEW("")));
    stage_put(&stage, 8, 1);
    consumer_pull_until(&consumer, 3);
    expect_seen(&consumer, "138");
    stage_vanish(&stage);
}

TEST(another_filter_is_refused_with_a_sentence_while_a_session_is_open)
{
    struct ks_detail detail = {.text = ""};
    struct consumer consumer;
    struct stage stage;

    stage_begin(&stage, "pod-a");
    EXPECT_OK(join(&consumer, &stage, "one", ODD, &detail));
    EXPECT_ERR(join(&consumer, &stage, "two", LOW, &detail), CONDITION);
    EXPECT_CONTAINS(detail.text, "use a subscription of its own");
    EXPECT_ERR(join(&consumer, &stage, "two", "", &detail), CONDITION);
    EXPECT(ks_switchboard_filter_is(stage.board, KS_VIEW(ODD)));
    EXPECT_OK(join(&consumer, &stage, "two", ODD, &detail));
    stage_vanish(&stage);
}

TEST(an_invalid_filter_opens_nothing_and_the_error_names_the_field)
{
    struct ks_detail detail = {.text = ""};
    struct consumer consumer;
    ks_session_id session;
    struct stage stage;

    stage_begin(&stage, "pod-a");
    EXPECT_ERR(join(&consumer, &stage, "one", "{\"data\":{\"a\":{\"b\":1}}}", &detail), INVALID);
    EXPECT_CONTAINS(detail.text, "filter: ");
    EXPECT_CONTAINS(detail.text, "data.a.b");
    EXPECT_ERR(join(&consumer, &stage, "one", "{", &detail), INVALID);
    EXPECT(!ks_switchboard_find_session(stage.board, KS_VIEW("one"), &session));
    stage_vanish(&stage);
}

/* Of a thousand sessions each shows it. */
TEST(a_long_filter_is_shown_cut_at_a_whole_character)
{
    struct ks_detail detail = {.text = ""};
    struct ks_session_status status;
    struct consumer consumer;
    struct stage stage;
    static char text[2000];
    int size = snprintf(text, sizeof text, "{\"partitionKey\":[\"x");

    for (int i = 0; i < 600; i++)
        size += snprintf(text + size, sizeof text - (size_t)size, "\xc3\xa4");
    (void)snprintf(text + size, sizeof text - (size_t)size, "\"]}");
    stage_begin(&stage, "pod-a");
    EXPECT_OK(join(&consumer, &stage, "one", text, &detail));
    EXPECT(ks_switchboard_session(stage.board, consumer.session, &status));
    EXPECT(strlen(status.filter) < KS_FILTER_SHOWN_SIZE);
    EXPECT_STR(status.filter + strlen(status.filter) - 5, "\xc3\xa4...");
    EXPECT(ks_switchboard_filter_is(stage.board, ks_view_text(text)));
    stage_vanish(&stage);
}

/* ---- A filter that takes long ---- */

enum { LONG_BYTES = 256 << 10, LONG_TESTS = 300 };

static const char *long_filter(void)
{
    static char text[32 << 10];
    int length = snprintf(text, sizeof text, "{\"data\":{\"a\":[");

    for (int i = 0; i < LONG_TESTS; i++)
        length += snprintf(text + length, sizeof text - (size_t)length,
                           "{\"wildcard\":\"*aaaaaaaaaaaaaaaaaaaab%d*\"},", i);
    (void)snprintf(text + length, sizeof text - (size_t)length, "{\"suffix\":\"z\"}]}}");
    return text;
}

static void put_long(struct stage *stage, const char *key, char last)
{
    static char data[LONG_BYTES + 16];
    int length = snprintf(data, sizeof data, "{\"a\":\"");
    struct ks_put_entry entry = {.partition_key = ks_view_text(key)};

    memset(data + length, 'a', LONG_BYTES);
    length += LONG_BYTES;
    length += snprintf(data + length, sizeof data - (size_t)length, "%c\"}", last);
    entry.data = ks_view_of(data, (size_t)length);
    stage_put_one(stage, &entry);
}

static const struct ks_pattern_match *under_judgement(const struct stage *stage)
{
    for (uint32_t i = 0; i < stage->board->config.core.leases_max; i++)
        if (stage->board->leases[i].match != NULL)
            return stage->board->leases[i].match;
    return NULL;
}

TEST(a_record_that_takes_long_to_judge_is_judged_over_many_turns)
{
    struct ks_detail detail = {.text = ""};
    struct consumer consumer;
    struct stage stage;
    ks_instant until = stage_patience();
    uint32_t turns = 0;

    stage_begin(&stage, "pod-a");
    EXPECT_OK(join(&consumer, &stage, "one", long_filter(), &detail));
    stage_turn_until(&stage, stage_holds_all);
    put_long(&stage, "1", 'y');
    while (filtered(&stage) < 1) {
        stage_turn(&stage, until, ks_span_ms(20));
        turns += under_judgement(&stage) != NULL;
    }
    /* A turn looks at a megabyte: four tests of this value. */
    EXPECT(turns >= LONG_TESTS / 5);
    EXPECT(under_judgement(&stage) == NULL);
    put_long(&stage, "2", 'z');
    while (under_judgement(&stage) == NULL)
        stage_turn(&stage, until, ks_span_ms(20));
    while (under_judgement(&stage) != NULL)
        stage_turn(&stage, until, ks_span_ms(20));
    EXPECT_EQ_I64(filtered(&stage), 1); /* This one it takes. */
    stage_vanish(&stage);
}

TEST(another_filter_begins_a_judgement_anew_and_an_end_forgets_it)
{
    struct ks_detail detail = {.text = ""};
    struct consumer consumer;
    struct stage stage;
    ks_instant until = stage_patience();

    stage_begin(&stage, "pod-a");
    EXPECT_OK(join(&consumer, &stage, "one", long_filter(), &detail));
    stage_turn_until(&stage, stage_holds_all);
    put_long(&stage, "1", 'y');
    while (under_judgement(&stage) == NULL)
        stage_turn(&stage, until, ks_span_ms(20));
    ks_switchboard_close(stage.board, consumer.session);
    EXPECT_OK(join(&consumer, &stage, "two", "{\"partitionKey\":[\"9\"]}", &detail));
    wait_filtered(&stage, 1);
    EXPECT(under_judgement(&stage) == NULL);
    ks_switchboard_close(stage.board, consumer.session);
    EXPECT_OK(join(&consumer, &stage, "three", long_filter(), &detail));
    put_long(&stage, "2", 'y');
    while (under_judgement(&stage) == NULL)
        stage_turn(&stage, until, ks_span_ms(20));
    stage_vanish(&stage);
}
