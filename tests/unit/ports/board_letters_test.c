/* SPDX-License-Identifier: Apache-2.0 */
#include "ports/board.h"

#include <stdio.h>

#include "base/budget.h"
#include "base/metrics.h"
#include "ks_test.h"
#include "unit/ports/stage.h"

/* A store of dead letters whose answers are the test's to give. */
struct fake {
    struct ks_dead_letters port;
    uint32_t writes;
    uint32_t count; /* Of the last write. */
    char id[KS_LETTER_ID_MAX + 1];
    char reason[KS_LETTER_REASON_MAX + 1];
    ks_letters_answered *answered;
    void *arg;
};
static struct fake fake;

static void fake_write(struct ks_dead_letters *store, const struct ks_letter *letters,
                       uint32_t count, ks_letters_answered *answered, void *arg)
{
    EXPECT(store == &fake.port);
    fake.writes++;
    fake.count = count;
    EXPECT_OK(ks_view_copy_text(letters[0].id, fake.id, sizeof fake.id));
    EXPECT_OK(ks_view_copy_text(letters[0].reason, fake.reason, sizeof fake.reason));
    fake.answered = answered;
    fake.arg = arg;
}

static const struct ks_dead_letters_vtable fake_vtable = {.write = fake_write};

static void answer(enum ks_outcome outcome)
{
    struct ks_letters_answer said = {.outcome = outcome, .count = fake.count};
    ks_letters_answered *answered = fake.answered;

    fake.answered = NULL;
    answered(fake.arg, &said);
}

static struct stage stage;

static ks_session_id the_session;
static struct ks_run *the_run;

static bool has_pulled(struct stage *of)
{
    if (ks_switchboard_pull(of->board, the_session, 1, 1 << 20, the_run, 1) == 0)
        return false;
    stage_write(of->board, the_session, the_run);
    return true;
}

static bool is_written(struct stage *of)
{
    (void)of;
    return fake.answered != NULL;
}

static bool has_passed(struct stage *of)
{
    struct ks_shard_status status;

    return ks_switchboard_shard(of->board, the_run->shard, &status) &&
           status.lease.watermark == the_run->first + 1;
}

/* A session with one record of the first run in its hands. */
static ks_session_id pull_one(struct ks_run *ret_run)
{
    struct ks_session_request request = {.client_id = KS_VIEW("app"),
                                         .pulls = true,
                                         .max_in_flight = 10,
                                         .max_in_flight_bytes = 1 << 20,
                                         .ack_deadline = ks_span_ms(60000),
                                         .linger = ks_span_ms(60000)};
    struct ks_detail detail;
    ks_session_id session;

    fake = (struct fake){.port.vtable = &fake_vtable};
    stage.board->config.letters = &fake.port;
    EXPECT_OK(ks_switchboard_open(stage.board, &request, NULL, &session, &detail));
    stage_put(&stage, 0, 1);
    the_session = session;
    the_run = ret_run;
    stage_turn_until(&stage, has_pulled);
    stage_write(stage.board, session, ret_run);
    return session;
}

static void bury(ks_session_id session, const struct ks_run *run)
{
    struct ks_session_status status;
    struct ks_settlement settlement = {.session = session,
                                       .shard = run->shard,
                                       .epoch = run->epoch,
                                       .first = run->first,
                                       .count = 1,
                                       .outcome = KS_DEAD_LETTER,
                                       .reason = KS_VIEW("bad")};

    EXPECT(ks_switchboard_session(stage.board, session, &status));
    settlement.session_epoch = status.session.epoch;
    EXPECT_EQ_I64(ks_switchboard_settle(stage.board, &settlement).status, KS_SETTLE_OK);
    stage_turn_until(&stage, is_written);
    EXPECT_EQ_I64(fake.writes, 1);
}

static ks_number watermark(const struct ks_run *run)
{
    struct ks_shard_status status;

    EXPECT(ks_switchboard_shard(stage.board, run->shard, &status));
    return status.lease.watermark;
}

static int64_t counted(enum ks_metric metric)
{
    return ks_metric_number_labelled(metric, stage.board->config.subscription);
}

static bool is_behind(struct stage *of)
{
    struct ks_board_status status;

    ks_switchboard_status(of->board, &status);
    return status.millis_behind > 300;
}

TEST(a_record_is_behind_until_its_letter_is_written)
{
    struct ks_board_status status;
    ks_session_id session;
    struct ks_run run;

    stage_begin(&stage, "pod-a");
    session = pull_one(&run);
    ks_switchboard_status(stage.board, &status);
    EXPECT_EQ_I64(status.millis_behind, 0);
    bury(session, &run);
    stage_turn_until(&stage, is_behind);
    answer(KS_DONE);
    stage_turn_until(&stage, has_passed);
    ks_switchboard_status(stage.board, &status);
    EXPECT_EQ_I64(status.millis_behind, 0);
    stage_vanish(&stage);
}

TEST(the_letter_says_where_the_record_stood_and_why_and_holds_the_watermark_until_it_is_written)
{
    ks_session_id session;
    struct ks_run run;

    stage_begin(&stage, "pod-a");
    session = pull_one(&run);
    bury(session, &run);
    EXPECT_CONTAINS(fake.id, "shardId-00000000000");
    EXPECT_STR(fake.reason, "bad");
    answer(KS_UNKNOWN);
    stage_turn_until(&stage, is_written);
    EXPECT_EQ_I64(fake.writes, 2);
    EXPECT_STR(fake.reason, "bad");
    EXPECT_EQ_U64(watermark(&run), run.first);
    EXPECT_EQ_I64(counted(KS_METRIC_DEAD_LETTER_FAILURES), 1);
    EXPECT_EQ_I64(counted(KS_METRIC_DEAD_LETTERS), 0);
    answer(KS_DONE);
    stage_turn_until(&stage, has_passed);
    EXPECT_EQ_I64(counted(KS_METRIC_DEAD_LETTER_FAILURES), 1);
    EXPECT_EQ_I64(counted(KS_METRIC_DEAD_LETTERS), 1);
    stage.board->config.letters = stage.letters;
    stage_drain(&stage);
    stage_vanish(&stage);
}

/* ---- Reasons alone. ---- */

static struct ks_switchboard alone;

static void note(ks_shard shard, ks_epoch epoch, ks_number first, uint32_t count, const char *text)
{
    struct ks_settlement settlement = {.shard = shard,
                                       .epoch = epoch,
                                       .first = first,
                                       .count = count,
                                       .outcome = KS_RETRY,
                                       .reason = ks_view_text(text)};

    ks_board_note_reason(&alone, &settlement, count);
}

static const char *reason_of(ks_shard shard, ks_epoch epoch, ks_number number)
{
    ks_view reason = ks_board_reason_of(&alone, shard, epoch, number);

    return (const char *)reason.data; /* It ends with a NUL. */
}

TEST(a_reason_is_that_of_its_records_and_of_no_other)
{
    EXPECT_OK(ks_board_letters_new(&alone));
    note(3, 7, 13, 1000, "of many");
    note(KS_SHARD_NONE, 0, 13, 1, "of a letter");
    for (ks_number n = 0; n < 1100; n++)
        EXPECT_STR(reason_of(3, 7, n), n >= 13 && n < 1013 ? "of many" : "");
    EXPECT_STR(reason_of(3, 8, 13), "");
    EXPECT_STR(reason_of(4, 7, 13), "");
    EXPECT_STR(reason_of(KS_SHARD_NONE, 0, 13), "of a letter");
    EXPECT_STR(reason_of(3, 7, 13 + (UINT64_C(1) << 32)), "");
    ks_board_letters_free(alone.letters);
}

TEST(the_last_word_counts_whether_it_is_about_one_record_or_many)
{
    EXPECT_OK(ks_board_letters_new(&alone));
    note(1, 1, 0, 100, "many");
    note(1, 1, 40, 1, "one");
    EXPECT_STR(reason_of(1, 1, 39), "many");
    EXPECT_STR(reason_of(1, 1, 40), "one");
    note(1, 1, 32, 20, "some");
    EXPECT_STR(reason_of(1, 1, 40), "some");
    EXPECT_STR(reason_of(1, 1, 52), "many");
    note(1, 1, 0, 100, "many again");
    EXPECT_STR(reason_of(1, 1, 40), "many again");
    EXPECT_STR(reason_of(1, 1, 99), "many again");
    ks_board_letters_free(alone.letters);
}

TEST(of_too_many_reasons_the_oldest_are_lost)
{
    enum { MANY = 40000, REQUEST = 10000 };
    ks_number oldest = 0;

    EXPECT_OK(ks_board_letters_new(&alone));
    for (ks_number n = 0; n < MANY; n++)
        note(1, 1, n, 1, "short");
    while (oldest < MANY && reason_of(1, 1, oldest)[0] == '\0')
        oldest++;
    EXPECT(oldest > 0);
    EXPECT(oldest < MANY - REQUEST);
    for (ks_number n = oldest; n < MANY; n++)
        EXPECT_STR(reason_of(1, 1, n), "short");
    ks_board_letters_free(alone.letters);
}

TEST(the_last_word_stays_when_an_older_one_of_the_same_record_is_lost)
{
    EXPECT_OK(ks_board_letters_new(&alone));
    for (ks_number n = 1; n < 40000; n++) {
        note(1, 1, 0, 1, "again");
        EXPECT_STR(reason_of(1, 1, 0), "again");
    }
    ks_board_letters_free(alone.letters);
}

TEST(a_record_without_a_reason_has_none_among_those_of_all_others)
{
    enum { MANY = 40000, LETTERS = 100000 };

    EXPECT_OK(ks_board_letters_new(&alone));
    for (ks_number n = 0; n < MANY; n++)
        note(1, 1, n, 1, "x");
    for (ks_number n = 0; n < LETTERS; n++)
        EXPECT(ks_board_reason_of(&alone, 1, 1, MANY + n).size == 0);
    ks_board_letters_free(alone.letters);
}

TEST(without_memory_a_reason_is_lost_and_nothing_else)
{
    EXPECT_OK(ks_board_letters_new(&alone));
    note(1, 1, 0, 100, "before");
    ks_alloc_fail_after(1, 1);
    note(1, 1, 0, 1, "now");
    ks_alloc_fail_after(0, 0);
    EXPECT_STR(reason_of(1, 1, 0), "before");
    note(1, 1, 0, 1, "later");
    EXPECT_STR(reason_of(1, 1, 0), "later");
    ks_board_letters_free(alone.letters);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(equal_keys_have_equal_hashes_and_many_keys_use_them_all)
{
    bool used[256] = {false};
    uint32_t count = 0;

    for (uint32_t i = 0; i < 5000; i++) {
        char key[16];

        (void)snprintf(key, sizeof key, "user-%u", i);
        EXPECT_EQ_I64(ks_key_hash(ks_view_text(key)), ks_key_hash(ks_view_text(key)));
        count += !used[ks_key_hash(ks_view_text(key))];
        used[ks_key_hash(ks_view_text(key))] = true;
    }
    EXPECT_EQ_I64(count, 256);
}
