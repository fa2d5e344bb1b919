/* SPDX-License-Identifier: Apache-2.0 */
#include "ports/board.h"

#include <stdio.h>

#include "ks_test.h"
#include "unit/ports/stage.h"

/* A store of dead letters whose answers are the test's to give. */
static struct {
    struct ks_dead_letters port;
    const char *asked;                   /* find, claim, remove, amend */
    char claim[KS_LETTER_CLAIM_MAX + 1]; /* As it was made, or named, last. */
    uint32_t attempts;                   /* As amended. */
    char reason[32];
    ks_letters_answered *answered;
    void *arg;
} fake;

static void ask(const char *what, ks_letters_answered *answered, void *arg)
{
    fake.asked = what;
    fake.answered = answered;
    fake.arg = arg;
}

static void fake_find(struct ks_dead_letters *store, ks_view id, ks_letters_answered *answered,
                      void *arg)
{
    (void)store;
    (void)id;
    ask("find", answered, arg);
}

static void fake_remove(struct ks_dead_letters *store, ks_view id, ks_view claim,
                        ks_letters_answered *answered, void *arg)
{
    (void)store;
    EXPECT(ks_view_equal(id, KS_VIEW("one")));
    EXPECT_OK(ks_view_copy_text(claim, fake.claim, sizeof fake.claim));
    ask("remove", answered, arg);
}

static void fake_claim(struct ks_dead_letters *store, const struct ks_letter *letter,
                       ks_letters_answered *answered, void *arg)
{
    (void)store;
    EXPECT(ks_view_equal(letter->id, KS_VIEW("one")));
    EXPECT_OK(ks_view_copy_text(letter->claim, fake.claim, sizeof fake.claim));
    ask("claim", answered, arg);
}

static void fake_amend(struct ks_dead_letters *store, const struct ks_letter *letter,
                       ks_letters_answered *answered, void *arg)
{
    (void)store;
    fake.attempts = letter->attempts;
    EXPECT_OK(ks_view_copy_text(letter->reason, fake.reason, sizeof fake.reason));
    EXPECT_OK(ks_view_copy_text(letter->claim, fake.claim, sizeof fake.claim));
    ask("amend", answered, arg);
}

static const struct ks_dead_letters_vtable vtable = {
    .find = fake_find, .claim = fake_claim, .remove = fake_remove, .amend = fake_amend};

static void answer(enum ks_outcome outcome, const struct ks_letter *letter)
{
    struct ks_letters_answer said = {
        .outcome = outcome, .letters = letter, .count = letter == NULL ? 0 : 1};
    ks_letters_answered *answered = fake.answered;

    fake.asked = "";
    answered(fake.arg, &said);
}

static struct stage stage;
static ks_session_id session;
static struct ks_run run;
static ks_err heard;
static struct ks_detail why;

static void ordered(void *arg, ks_err err, uint32_t attempts, const struct ks_detail *detail)
{
    (void)arg;
    (void)attempts;
    why = *detail;
    heard = err;
}

static struct ks_letter letter(void)
{
    return (struct ks_letter){.id = KS_VIEW("one"),
                              .stream = KS_VIEW("another-stream"),
                              .shard_id = KS_VIEW("shardId-that-is-gone"),
                              .sequence = KS_VIEW("42"),
                              .partition_key = KS_VIEW("k"),
                              .data = KS_VIEW("data"),
                              .reason = KS_VIEW("bad"),
                              .attempts = 3};
}

static void begin(void)
{
    struct ks_session_request request = {.client_id = KS_VIEW("app"),
                                         .pulls = true,
                                         .max_in_flight = 10,
                                         .max_in_flight_bytes = 1 << 20,
                                         .ack_deadline = ks_span_ms(60000),
                                         .linger = ks_span_ms(60000)};
    struct ks_detail detail;

    stage_begin(&stage, "pod-a");
    fake.port.vtable = &vtable;
    fake.port.claim_ms = 0;
    fake.claim[0] = '\0';
    stage.board->config.letters = &fake.port;
    EXPECT_OK(ks_switchboard_open(stage.board, &request, NULL, &session, &detail));
}

static void end(void)
{
    stage.board->config.letters = stage.letters;
    stage_drain(&stage);
    stage_vanish(&stage);
}

static bool has_pulled(struct stage *of)
{
    return ks_switchboard_pull(of->board, session, 1, 1 << 20, &run, 1) == 1;
}

static bool is_asked(struct stage *of)
{
    (void)of;
    return fake.asked[0] != '\0';
}

static bool is_over(struct stage *of)
{
    return !ks_switchboard_is_redriven(of->board, KS_VIEW("one"));
}

static void settle(enum ks_settle_outcome outcome, const char *reason)
{
    struct ks_session_status status;
    struct ks_settlement settlement = {.session = session,
                                       .shard = run.shard,
                                       .epoch = run.epoch,
                                       .first = run.first,
                                       .count = 1,
                                       .outcome = outcome,
                                       .reason = ks_view_text(reason)};

    EXPECT(ks_switchboard_session(stage.board, session, &status));
    settlement.session_epoch = status.session.epoch;
    EXPECT_EQ_I64(ks_switchboard_settle(stage.board, &settlement).status, KS_SETTLE_OK);
}

static void redrive(void)
{
    struct ks_letter one = letter();

    EXPECT_OK(ks_switchboard_redrive(stage.board, KS_VIEW("one"), ordered, NULL));
    EXPECT_ERR(ks_switchboard_redrive(stage.board, KS_VIEW("one"), ordered, NULL), CONDITION);
    answer(KS_DONE, &one);
    EXPECT_OK(heard);
    stage_turn_until(&stage, has_pulled);
}

TEST(a_letter_is_delivered_under_its_own_names_also_when_its_shard_is_gone)
{
    const struct ks_record *record;

    begin();
    redrive();
    EXPECT_EQ_U64(run.shard, KS_SHARD_NONE);
    EXPECT_EQ_I64(run.attempt, 4);
    EXPECT_STR(ks_switchboard_run_stream(stage.board, &run), "another-stream");
    EXPECT_STR(ks_switchboard_run_shard(stage.board, &run), "shardId-that-is-gone");
    record = stage_record(stage.board, &run, run.first);
    EXPECT(record != NULL && ks_view_equal(record->data, KS_VIEW("data")));
    stage_write(stage.board, session, &run);
    settle(KS_ACK, "");
    stage_turn_until(&stage, is_asked);
    EXPECT_STR(fake.asked, "remove");
    EXPECT(!ks_switchboard_persisted(stage.board, KS_SHARD_NONE, 0, run.first + 1));
    answer(KS_DONE, NULL);
    stage_turn_until(&stage, is_over);
    EXPECT(ks_switchboard_persisted(stage.board, KS_SHARD_NONE, 0, run.first + 1));
    EXPECT(stage_record(stage.board, &run, run.first) == NULL);
    EXPECT_EQ_U64(stage.board->budget.used, 0);
    end();
}

TEST(what_is_given_up_again_says_why_or_what_it_said_before)
{
    begin();
    redrive();
    stage_write(stage.board, session, &run);
    settle(KS_DEAD_LETTER, "");
    stage_turn_until(&stage, is_asked);
    EXPECT_STR(fake.asked, "amend");
    EXPECT_EQ_I64(fake.attempts, 4);
    EXPECT_STR(fake.reason, "bad");
    answer(KS_DONE, NULL);
    stage_turn_until(&stage, is_over);
    redrive();
    stage_write(stage.board, session, &run);
    settle(KS_DEAD_LETTER, "worse");
    stage_turn_until(&stage, is_asked);
    EXPECT_STR(fake.reason, "worse");
    answer(KS_REFUSED, NULL);
    stage_turn_until(&stage, is_over);
    end();
}

TEST(a_letter_that_is_not_there_or_cannot_be_read_is_refused)
{
    begin();
    EXPECT_OK(ks_switchboard_redrive(stage.board, KS_VIEW("one"), ordered, NULL));
    answer(KS_DONE, NULL);
    EXPECT_ERR(heard, NOT_FOUND);
    EXPECT_OK(ks_switchboard_redrive(stage.board, KS_VIEW("one"), ordered, NULL));
    answer(KS_UNKNOWN, NULL);
    EXPECT_ERR(heard, DISK);
    EXPECT(is_over(&stage));
    end();
}

/* ---- A store that others have, too ---- */

enum { CLAIM_MS = 60 };

/* Orders the letter, which the store has, and is asked for the claim. */
static void order_claimed(void)
{
    const struct ks_letter one = letter();

    fake.port.claim_ms = CLAIM_MS;
    heard = KS_FAIL(CANCELLED);
    EXPECT_OK(ks_switchboard_redrive(stage.board, KS_VIEW("one"), ordered, NULL));
    answer(KS_DONE, &one);
    EXPECT_STR(fake.asked, "claim");
}

TEST(a_letter_is_claimed_before_it_is_delivered_and_settled_under_its_claim)
{
    char claim[sizeof fake.claim];

    begin();
    order_claimed();
    EXPECT_CONTAINS(fake.claim, "pod-a#");
    EXPECT_ERR(heard, CANCELLED);
    memcpy(claim, fake.claim, sizeof claim);
    fake.port.claim_ms = 60000; /* No renewal. */
    answer(KS_DONE, NULL);
    EXPECT_OK(heard);
    stage_turn_until(&stage, has_pulled);
    stage_write(stage.board, session, &run);
    settle(KS_ACK, "");
    stage_turn_until(&stage, is_asked);
    EXPECT_STR(fake.asked, "remove");
    EXPECT_STR(fake.claim, claim);
    answer(KS_DONE, NULL);
    stage_turn_until(&stage, is_over);
    end();
}

TEST(two_redrives_of_one_letter_have_two_claims)
{
    char claim[sizeof fake.claim];

    begin();
    order_claimed();
    memcpy(claim, fake.claim, sizeof claim);
    answer(KS_REFUSED, NULL);
    order_claimed();
    EXPECT(strcmp(claim, fake.claim) != 0);
    answer(KS_REFUSED, NULL);
    end();
}

TEST(a_letter_that_another_worker_delivers_is_refused_with_its_name)
{
    struct ks_letter one = letter();

    begin();
    fake.port.claim_ms = CLAIM_MS;
    one.claim = KS_VIEW("pod-b#1.0");
    one.claimed_until_ms = 1795219205000;
    EXPECT_OK(ks_switchboard_redrive(stage.board, KS_VIEW("one"), ordered, NULL));
    answer(KS_DONE, &one);
    EXPECT_ERR(heard, CONDITION);
    EXPECT_STR(why.text, "pod-b#1.0 does it; its claim lasts until 2026-11-21T00:00:05.000Z");
    EXPECT_STR(fake.asked, "");
    EXPECT(is_over(&stage));
    end();
}

TEST(a_claim_that_is_refused_or_not_known_delivers_nothing)
{
    begin();
    order_claimed();
    answer(KS_REFUSED, NULL);
    EXPECT_ERR(heard, CONDITION);
    order_claimed();
    answer(KS_UNKNOWN, NULL);
    EXPECT_ERR(heard, DISK);
    EXPECT(is_over(&stage) && !has_pulled(&stage));
    EXPECT_EQ_U64(stage.board->budget.used, 0);
    end();
}

TEST(a_letter_that_is_discarded_while_it_is_claimed_is_not_delivered)
{
    begin();
    order_claimed();
    ks_switchboard_discarded(stage.board, KS_VIEW("one"));
    answer(KS_DONE, NULL);
    EXPECT_ERR(heard, NOT_FOUND);
    EXPECT(is_over(&stage) && !has_pulled(&stage));
    end();
}

TEST(a_claim_is_renewed_while_the_letter_is_delivered)
{
    char claim[sizeof fake.claim];

    begin();
    order_claimed();
    memcpy(claim, fake.claim, sizeof claim);
    answer(KS_DONE, NULL);
    stage_turn_until(&stage, has_pulled);
    stage_write(stage.board, session, &run);
    for (int round = 0; round < 2; round++) {
        stage_turn_until(&stage, is_asked);
        EXPECT_STR(fake.asked, "claim");
        EXPECT_STR(fake.claim, claim);
        answer(round == 0 ? KS_UNKNOWN : KS_DONE, NULL);
        fake.port.claim_ms =
            60000; /* The renewal after the next one comes too late for this test. */
    }
    EXPECT(!is_over(&stage));
    end();
}

TEST(a_letter_whose_claim_was_lost_is_not_delivered_any_more)
{
    begin();
    order_claimed();
    answer(KS_DONE, NULL);
    stage_turn_until(&stage, has_pulled);
    stage_write(stage.board, session, &run);
    stage_turn_until(&stage, is_asked);
    answer(KS_REFUSED, NULL);
    EXPECT(is_over(&stage));
    EXPECT_EQ_U64(stage.board->budget.used, 0);
    settle(KS_ACK, ""); /* It asks the store for nothing. */
    stage_turn(&stage, stage_patience(), ks_span_ms(0));
    EXPECT_STR(fake.asked, "");
    end();
}

/* ---- Pointers ---- */

static bool is_heard(struct stage *of)
{
    (void)of;
    return heard.code != KS_ERR_CANCELLED;
}

/* A pointer to a record of the stage's stream, with this sequence number instead of its own, unless NULL. */
static void redrive_pointer(const char *sequence)
{
    struct ks_letter one = letter();
    struct consumer consumer;
    struct ks_run last;

    consumer_join(&consumer, &stage, "reader");
    stage_turn_until(&stage, stage_holds_all);
    stage_put(&stage, 7, 1);
    consumer_pull_until(&consumer, 1);
    last = consumer.runs[0];
    one.shard_id = ks_view_text(ks_switchboard_shard_id(stage.board, last.shard));
    one.sequence = ks_view_text(sequence != NULL ? sequence : consumer.last_sequence[last.shard]);
    one.sub_sequence = -1;
    one.pointer = true;
    one.data = KS_VIEW("");
    heard = KS_FAIL(CANCELLED);
    EXPECT_OK(ks_switchboard_redrive(stage.board, KS_VIEW("one"), ordered, NULL));
    answer(KS_DONE, &one);
    consumer_ack_all(&consumer);
    ks_switchboard_close(stage.board, consumer.session);
}

TEST(the_record_of_a_pointer_is_read_from_the_stream)
{
    const struct ks_record *record;

    begin();
    redrive_pointer(NULL);
    EXPECT(!is_heard(&stage));
    stage_turn_until(&stage, is_heard);
    EXPECT_OK(heard);
    stage_turn_until(&stage, has_pulled);
    record = stage_record(stage.board, &run, run.first);
    EXPECT(record != NULL && ks_view_equal(record->data, KS_VIEW("7")));
    stage_write(stage.board, session, &run);
    settle(KS_ACK, "");
    stage_turn_until(&stage, is_asked);
    EXPECT_STR(fake.asked, "remove");
    answer(KS_DONE, NULL);
    stage_turn_until(&stage, is_over);
    end();
}

TEST(a_pointer_to_what_has_left_the_stream_is_refused)
{
    begin();
    redrive_pointer("1");
    stage_turn_until(&stage, is_heard);
    EXPECT_ERR(heard, EXPIRED);
    EXPECT(is_over(&stage));
    end();
}

TEST(a_pointer_that_is_discarded_while_its_record_is_read_is_not_delivered)
{
    begin();
    redrive_pointer(NULL);
    ks_switchboard_discarded(stage.board, KS_VIEW("one"));
    EXPECT_ERR(heard, NOT_FOUND);
    EXPECT(is_over(&stage));
    end();
}

TEST(a_pointer_whose_record_is_read_ends_with_the_board)
{
    begin();
    redrive_pointer(NULL);
    stage.board->config.letters = stage.letters;
    stage_vanish(&stage);
    EXPECT(!is_heard(&stage));
}

TEST(letters_have_a_share_of_the_budget_and_one_of_any_size)
{
    static uint8_t large[1 << 20];
    struct ks_letter one = letter();

    begin();
    one.data = ks_view_of(large, sizeof large);
    stage.board->budget.limit = 2 * sizeof large;
    EXPECT_OK(ks_switchboard_redrive(stage.board, KS_VIEW("one"), ordered, NULL));
    answer(KS_DONE, &one);
    EXPECT_OK(heard);
    EXPECT_OK(ks_switchboard_redrive(stage.board, KS_VIEW("two"), ordered, NULL));
    one.data.size = 10;
    answer(KS_DONE, &one);
    EXPECT_ERR(heard, FULL);
    ks_switchboard_discarded(stage.board, KS_VIEW("one"));
    EXPECT(is_over(&stage));
    EXPECT_EQ_U64(stage.board->budget.used, 0);
    end();
}
