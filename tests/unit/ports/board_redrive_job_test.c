/* SPDX-License-Identifier: Apache-2.0 */
#include "ports/board.h"

#include <stdio.h>
#include <string.h>

#include "ks_test.h"
#include "unit/ports/stage.h"

enum { LETTERS_MAX = 150 };

/* A store of dead letters in memory, which answers at once. */
static struct {
    struct ks_dead_letters port;
    struct ks_letter letters[LETTERS_MAX];
    char ids[LETTERS_MAX][8];
    bool removed[LETTERS_MAX];
    uint32_t count;
    uint32_t lists;
    bool lost;          /* It answers nothing. */
    const char *hidden; /* The letter that is listed and not found. */
    const char *damaged;
} fake;

static void answer(ks_letters_answered *answered, void *arg, enum ks_outcome outcome,
                   const struct ks_letter *letter)
{
    struct ks_letters_answer said = {.outcome = outcome,
                                     .letters = letter,
                                     .count = letter == NULL ? 0 : 1,
                                     .detail = {"the table does not answer"}};

    answered(arg, &said);
}

static struct ks_letter *find(ks_view id)
{
    for (uint32_t i = 0; i < fake.count; i++)
        if (!fake.removed[i] && ks_view_equal(fake.letters[i].id, id))
            return &fake.letters[i];
    return NULL;
}

static void fake_list(struct ks_dead_letters *store, ks_view after, uint32_t most,
                      ks_letters_answered *answered, void *arg)
{
    struct ks_letter page[LETTERS_MAX];
    struct ks_letters_answer said = {.outcome = KS_DONE, .letters = page};

    (void)store;
    fake.lists++;
    if (fake.lost) {
        answer(answered, arg, KS_UNKNOWN, NULL);
        return;
    }
    for (uint32_t i = 0; i < fake.count; i++) {
        /* All ids have the same length. */
        if (fake.removed[i] || (after.size > 0 && memcmp(fake.ids[i], after.data, after.size) <= 0))
            continue;
        if (said.count == most)
            said.more = true;
        else
            page[said.count++] = fake.letters[i];
    }
    answered(arg, &said);
}

static void fake_find(struct ks_dead_letters *store, ks_view id, ks_letters_answered *answered,
                      void *arg)
{
    const bool damaged = fake.damaged != NULL && ks_view_equal(id, ks_view_text(fake.damaged));
    const bool hidden = fake.hidden != NULL && ks_view_equal(id, ks_view_text(fake.hidden));

    (void)store;
    answer(answered, arg, fake.lost || damaged ? KS_UNKNOWN : KS_DONE, hidden ? NULL : find(id));
}

static void fake_remove(struct ks_dead_letters *store, ks_view id, ks_view claim,
                        ks_letters_answered *answered, void *arg)
{
    const struct ks_letter *const letter = find(id);

    (void)store;
    (void)claim;
    EXPECT(letter != NULL);
    fake.removed[letter - fake.letters] = true;
    answer(answered, arg, KS_DONE, NULL);
}

static void fake_amend(struct ks_dead_letters *store, const struct ks_letter *letter,
                       ks_letters_answered *answered, void *arg)
{
    (void)store;
    (void)letter;
    answer(answered, arg, KS_DONE, NULL);
}

static const struct ks_dead_letters_vtable vtable = {
    .list = fake_list, .find = fake_find, .remove = fake_remove, .amend = fake_amend};

static struct stage stage;
static ks_session_id session;

static void add(const char *shard, enum ks_cause cause)
{
    const uint32_t at = fake.count++;

    (void)snprintf(fake.ids[at], sizeof fake.ids[at], "id%03u", (unsigned)at % 1000);
    fake.letters[at] = (struct ks_letter){.id = ks_view_text(fake.ids[at]),
                                          .stream = KS_VIEW("stream"),
                                          .shard_id = ks_view_text(shard),
                                          .sequence = KS_VIEW("42"),
                                          .partition_key = KS_VIEW("k"),
                                          .data = KS_VIEW("data"),
                                          .cause = cause,
                                          .attempts = 1};
}

static void begin(void)
{
    struct ks_session_request request = {.client_id = KS_VIEW("app"),
                                         .pulls = true,
                                         .max_in_flight = 300,
                                         .max_in_flight_bytes = 1 << 20,
                                         .ack_deadline = ks_span_ms(60000),
                                         .linger = ks_span_ms(60000)};
    struct ks_detail detail;

    memset(&fake, 0, sizeof fake);
    stage_begin(&stage, "pod-a");
    fake.port.vtable = &vtable;
    stage.board->config.letters = &fake.port;
    EXPECT_OK(ks_switchboard_open(stage.board, &request, NULL, &session, &detail));
}

static void end(void)
{
    if (!stage.board->draining)
        stage_drain(&stage);
    stage.board->config.letters = stage.letters;
    stage_vanish(&stage);
}

static const struct ks_redrive_job *job(void)
{
    return ks_switchboard_redrive_job(stage.board);
}

static struct ks_redrive_order any(uint32_t rate, uint64_t most)
{
    return (struct ks_redrive_order){
        .shard_id = KS_VIEW(""), .any_cause = true, .rate = rate, .most = most};
}

static void order(const struct ks_redrive_order *wanted)
{
    EXPECT_OK(ks_switchboard_redrive_many(stage.board, wanted, "a test"));
}

static uint64_t wanted_count;

static bool has_redriven(struct stage *of)
{
    return ks_switchboard_redrive_job(of->board)->redriven == wanted_count;
}

static bool is_over(struct stage *of)
{
    return ks_switchboard_redrive_job(of->board)->state != KS_REDRIVE_JOB_RUNNING;
}

/* Pulls what there is, and settles each letter. */
static void settle_all(enum ks_settle_outcome outcome, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct ks_session_status status;
        struct ks_run run;
        struct ks_settlement settlement = {
            .session = session, .count = 1, .outcome = outcome, .reason = KS_VIEW("")};

        EXPECT_EQ_U64(ks_switchboard_pull(stage.board, session, 1, 1 << 20, &run, 1), 1);
        stage_write(stage.board, session, &run);
        EXPECT(ks_switchboard_session(stage.board, session, &status));
        settlement.session_epoch = status.session.epoch;
        settlement.shard = run.shard;
        settlement.epoch = run.epoch;
        settlement.first = run.first;
        EXPECT_EQ_I64(ks_switchboard_settle(stage.board, &settlement).status, KS_SETTLE_OK);
    }
}

TEST(letters_that_match_are_redriven_and_counted_until_the_last_one_is_settled)
{
    struct ks_redrive_order wanted = {
        .shard_id = KS_VIEW("a"), .cause = KS_CAUSE_ATTEMPTS, .rate = 1000, .most = 100};

    begin();
    add("a", KS_CAUSE_ATTEMPTS);
    add("a", KS_CAUSE_ASKED);
    add("b", KS_CAUSE_ATTEMPTS);
    add("a", KS_CAUSE_ATTEMPTS);
    add("a", KS_CAUSE_ATTEMPTS);
    order(&wanted);
    wanted_count = 3;
    stage_turn_until(&stage, has_redriven);
    EXPECT_EQ_I64(job()->state, KS_REDRIVE_JOB_RUNNING);
    EXPECT_EQ_U64(job()->found, 3);
    EXPECT_EQ_U64(job()->in_delivery, 3);
    settle_all(KS_ACK, 2);
    settle_all(KS_DEAD_LETTER, 1);
    stage_turn_until(&stage, is_over);
    EXPECT_EQ_I64(job()->state, KS_REDRIVE_JOB_DONE);
    EXPECT_EQ_U64(job()->acknowledged, 2);
    EXPECT_EQ_U64(job()->given_up, 1);
    EXPECT_EQ_U64(job()->in_delivery, 0);
    EXPECT(job()->ended_ms >= job()->begun_ms);
    /* Those of another shard or cause, and the one that was given up again. */
    EXPECT(!fake.removed[1] && !fake.removed[2] && !fake.removed[4]);
    end();
}

TEST(letters_begin_no_faster_than_the_rate)
{
    struct ks_redrive_order wanted = any(10, 100);
    ks_instant before;

    begin();
    for (int i = 0; i < 4; i++)
        add("a", KS_CAUSE_ASKED);
    before = ks_loop_now(stage.loop);
    order(&wanted);
    wanted_count = 4;
    stage_turn_until(&stage, has_redriven);
    EXPECT(ks_instant_reached(ks_loop_now(stage.loop), ks_instant_add(before, ks_span_ms(300))));
    end();
}

TEST(pages_follow_each_other_up_to_the_most_that_is_wanted)
{
    struct ks_redrive_order wanted = any(1000, 130);

    begin();
    for (int i = 0; i < LETTERS_MAX; i++)
        add("a", KS_CAUSE_ASKED);
    order(&wanted);
    wanted_count = 130;
    stage_turn_until(&stage, has_redriven);
    EXPECT_EQ_U64(job()->found, 130);
    EXPECT_EQ_U64(fake.lists, 2);
    settle_all(KS_ACK, 130);
    stage_turn_until(&stage, is_over);
    EXPECT_EQ_U64(job()->acknowledged, 130);
    EXPECT(!fake.removed[130] && fake.removed[129]);
    end();
}

TEST(a_second_order_is_refused_until_the_first_is_stopped_and_counts_its_own_letters)
{
    struct ks_redrive_order wanted = any(1000, 100);

    begin();
    add("a", KS_CAUSE_ASKED);
    EXPECT(!ks_switchboard_redrive_stop(stage.board));
    order(&wanted);
    wanted_count = 1;
    stage_turn_until(&stage, has_redriven);
    EXPECT_ERR(ks_switchboard_redrive_many(stage.board, &wanted, "a test"), CONDITION);
    EXPECT(ks_switchboard_redrive_stop(stage.board));
    EXPECT_EQ_I64(job()->state, KS_REDRIVE_JOB_STOPPED);
    EXPECT_EQ_U64(job()->in_delivery, 1);
    add("a", KS_CAUSE_ASKED);
    order(&wanted);
    stage_turn_until(&stage, has_redriven);
    /* The first one is still in delivery, for the job before. */
    EXPECT_EQ_U64(job()->refused_claimed, 1);
    settle_all(KS_DEAD_LETTER, 1);
    settle_all(KS_ACK, 1);
    stage_turn_until(&stage, is_over);
    EXPECT_EQ_U64(job()->given_up, 0);
    EXPECT_EQ_U64(job()->acknowledged, 1);
    EXPECT_EQ_I64(job()->state, KS_REDRIVE_JOB_DONE);
    end();
}

TEST(letters_that_another_worker_redrives_or_that_are_gone_or_damaged_are_counted_as_refused)
{
    struct ks_redrive_order wanted = any(1000, 100);

    begin();
    for (int i = 0; i < 4; i++)
        add("a", KS_CAUSE_ASKED);
    fake.letters[0].claim = KS_VIEW("pod-b#1");
    fake.hidden = "id001";
    fake.damaged = "id002";
    order(&wanted);
    wanted_count = 1;
    stage_turn_until(&stage, has_redriven);
    settle_all(KS_ACK, 1);
    stage_turn_until(&stage, is_over);
    EXPECT_EQ_I64(job()->state, KS_REDRIVE_JOB_DONE);
    EXPECT_EQ_U64(job()->found, 4);
    EXPECT_EQ_U64(job()->refused_claimed, 1);
    EXPECT_EQ_U64(job()->refused_gone, 1);
    EXPECT_EQ_U64(job()->refused_unreadable, 1);
    EXPECT_EQ_U64(job()->acknowledged, 1);
    EXPECT_STR(job()->trouble.text, "");
    end();
}

static bool is_in_trouble(struct stage *of)
{
    return ks_switchboard_redrive_job(of->board)->trouble.text[0] != '\0';
}

TEST(a_store_that_does_not_answer_is_asked_again_and_the_job_continues)
{
    struct ks_redrive_order wanted = any(1000, 100);

    begin();
    add("a", KS_CAUSE_ASKED);
    fake.lost = true;
    order(&wanted);
    stage_turn_until(&stage, is_in_trouble);
    EXPECT_STR(job()->trouble.text, "the table does not answer");
    EXPECT_EQ_I64(job()->state, KS_REDRIVE_JOB_RUNNING);
    fake.lost = false;
    wanted_count = 1;
    stage_turn_until(&stage, has_redriven);
    EXPECT_STR(job()->trouble.text, "");
    settle_all(KS_ACK, 1);
    stage_turn_until(&stage, is_over);
    EXPECT_EQ_U64(job()->refused_unreadable, 0);
    end();
}

TEST(a_letter_that_is_discarded_while_it_is_delivered_is_counted_as_taken)
{
    struct ks_redrive_order wanted = any(1000, 100);

    begin();
    add("a", KS_CAUSE_ASKED);
    order(&wanted);
    wanted_count = 1;
    stage_turn_until(&stage, has_redriven);
    ks_loop_turn(stage.loop, ks_span_ms(0)); /* The core has it. */
    ks_switchboard_discarded(stage.board, KS_VIEW("id000"));
    stage_turn_until(&stage, is_over);
    EXPECT_EQ_U64(job()->taken, 1);
    EXPECT_EQ_U64(job()->in_delivery, 0);
    end();
}

TEST(a_drain_ends_the_job_and_refuses_another_one)
{
    struct ks_redrive_order wanted = any(1, 100);

    begin();
    add("a", KS_CAUSE_ASKED);
    add("a", KS_CAUSE_ASKED);
    order(&wanted);
    wanted_count = 1;
    stage_turn_until(&stage, has_redriven);
    settle_all(KS_ACK, 1);
    stage_drain(&stage);
    stage_turn_until(&stage, is_over);
    EXPECT_EQ_I64(job()->state, KS_REDRIVE_JOB_DRAINED);
    EXPECT_EQ_U64(job()->redriven, 1);
    EXPECT_ERR(ks_switchboard_redrive_many(stage.board, &wanted, "a test"), BUSY);
    end();
}

TEST(a_discard_is_an_event_that_says_what_authorized_it)
{
    const struct ks_board_event *event;
    uint64_t last;

    begin();
    ks_switchboard_tell_discarded(stage.board, KS_VIEW("shardId-000000000000.42.0"),
                                  "the operator's token");
    (void)ks_switchboard_events(stage.board, &last);
    event = ks_switchboard_event(stage.board, last - 1);
    EXPECT_STR(event->type, "letter_discarded");
    EXPECT(strstr(event->message, "the operator's token") != NULL);
    EXPECT(strstr(event->message, "shardId-000000000000.42.0") != NULL);
    end();
}
