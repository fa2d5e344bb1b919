/* SPDX-License-Identifier: Apache-2.0 */
#include "ports/board.h"

#include "core/state.h"

#include <stdio.h>

#include "ks_test.h"
#include "unit/ports/stage.h"

enum { LETTERS = 120, HOUR_MS = 3600000 };

/* A store of pointers that answers at once in the next turn; what it was asked is counted. */
static struct {
    struct ks_dead_letters port;
    struct ks_letter letters[LETTERS];
    char ids[LETTERS][64];
    uint32_t count;
    uint32_t lists;
    uint32_t kept;
    uint32_t removed;
    char last_kept[64];
    char data[16];
    enum ks_outcome keeps; /* What becomes of it. */
    /* The answer that waits. */
    struct ks_timer timer;
    struct ks_letters_answer answer;
    ks_letters_answered *answered;
    void *arg;
} fake;

static struct stage stage;
static struct consumer consumer;

static void tell(struct ks_timer *timer)
{
    ks_letters_answered *const answered = fake.answered;

    (void)timer;
    fake.answered = NULL;
    answered(fake.arg, &fake.answer);
}

static void answer_later(enum ks_outcome outcome, ks_letters_answered *answered, void *arg)
{
    EXPECT(fake.answered == NULL);
    fake.answer.outcome = outcome;
    fake.answered = answered;
    fake.arg = arg;
    fake.timer.due = tell;
    ks_loop_timer_set(stage.loop, &fake.timer, ks_loop_now(stage.loop));
}

static void fake_list(struct ks_dead_letters *store, ks_view after, uint32_t most,
                      ks_letters_answered *answered, void *arg)
{
    uint32_t first = 0;

    (void)store;
    fake.lists++;
    while (first < fake.count && after.size > 0 && !ks_view_equal(fake.letters[first].id, after))
        first++;
    first += after.size > 0;
    fake.answer =
        (struct ks_letters_answer){.letters = &fake.letters[first], .count = fake.count - first};
    if (fake.answer.count > most) {
        fake.answer.count = most;
        fake.answer.more = true;
    }
    answer_later(KS_DONE, answered, arg);
}

static void fake_keep(struct ks_dead_letters *store, const struct ks_letter *letter,
                      ks_letters_answered *answered, void *arg)
{
    (void)store;
    fake.kept++;
    EXPECT_OK(ks_view_copy_text(letter->id, fake.last_kept, sizeof fake.last_kept));
    EXPECT_OK(ks_view_copy_text(letter->data, fake.data, sizeof fake.data));
    fake.answer = (struct ks_letters_answer){.count = 0};
    ks_detail_set(&fake.answer.detail, "too large");
    answer_later(fake.keeps, answered, arg);
}

static void fake_remove(struct ks_dead_letters *store, ks_view id, ks_view claim,
                        ks_letters_answered *answered, void *arg)
{
    (void)claim;
    (void)store, (void)id;
    fake.removed++;
    fake.answer = (struct ks_letters_answer){.count = 0};
    answer_later(KS_DONE, answered, arg);
}

static const struct ks_dead_letters_vtable vtable = {
    .list = fake_list, .keep = fake_keep, .remove = fake_remove};

/* A pointer to the record of the stage's stream (or to nothing), of 24 hours, of which so much is left. */
static void add(const char *sequence, int64_t left_ms)
{
    struct ks_letter *const letter = &fake.letters[fake.count];
    const int64_t now_ms = ks_switchboard_stream_ms(stage.board);

    (void)snprintf(fake.ids[fake.count], sizeof fake.ids[0], "letter-%03u", fake.count);
    *letter = (struct ks_letter){
        .id = ks_view_text(fake.ids[fake.count]),
        .shard_id = ks_view_text(ks_switchboard_shard_id(stage.board, consumer.runs[0].shard)),
        .sequence = ks_view_text(sequence != NULL ? sequence
                                                  : consumer.last_sequence[consumer.runs[0].shard]),
        .sub_sequence = -1,
        .expires_ms = now_ms + left_ms,
        .arrival_ms = now_ms + left_ms - 24 * HOUR_MS,
        .pointer = true,
    };
    fake.count++;
}

static bool leads(struct stage *of)
{
    struct ks_board_status status;

    ks_switchboard_status(of->board, &status);
    return status.self.leads;
}

static void begin(void)
{
    stage_begin(&stage, "pod-a");
    consumer_join(&consumer, &stage, "client");
    stage_turn_until(&stage, stage_holds_all);
    stage_turn_until(&stage, leads);
    stage_put(&stage, 7, 1);
    consumer_pull_until(&consumer, 1);
    fake.port.vtable = &vtable;
    fake.keeps = KS_DONE;
    stage.board->config.letters = &fake.port;
    EXPECT_OK(ks_board_upkeep_new(stage.board));
}

/* A round, until nothing more is asked for. */
static void look(void)
{
    const ks_instant until = stage_patience();
    const uint32_t before = fake.lists;

    ks_board_upkeep_now(stage.board);
    while (fake.lists == before || ks_board_upkeep_is_busy(stage.board))
        stage_turn(&stage, until, ks_span_ms(5));
}

static void end(void)
{
    stage.board->config.letters = stage.letters;
    ks_loop_timer_clear(stage.loop, &fake.timer);
    stage_vanish(&stage);
}

TEST(the_record_of_a_pointer_is_kept_in_the_last_eighth_of_its_time)
{
    begin();
    add(NULL, 4 * HOUR_MS);
    add(NULL, 2 * HOUR_MS);
    look();
    EXPECT_EQ_U64(fake.kept, 1);
    EXPECT_STR(fake.last_kept, "letter-001");
    EXPECT_STR(fake.data, "7");
    EXPECT_EQ_U64(fake.removed, 0);
    end();
}

TEST(what_is_no_pointer_or_never_expires_is_left_alone)
{
    begin();
    add(NULL, 2 * HOUR_MS);
    fake.letters[0].pointer = false;
    add(NULL, 2 * HOUR_MS);
    fake.letters[1].expires_ms = 0;
    look();
    EXPECT_EQ_U64(fake.kept + fake.removed, 0);
    end();
}

TEST(an_expired_letter_is_removed_when_the_store_has_had_an_hour_for_it)
{
    begin();
    add(NULL, -HOUR_MS / 2);
    add(NULL, -2 * HOUR_MS);
    look();
    EXPECT_EQ_U64(fake.removed, 1);
    EXPECT_EQ_U64(fake.kept, 0);
    end();
}

TEST(a_record_that_cannot_be_kept_stops_nothing)
{
    begin();
    add("1", HOUR_MS); /* Has left the stream. */
    add(NULL, HOUR_MS);
    fake.keeps = KS_UNKNOWN;
    look();
    EXPECT_EQ_U64(fake.kept, 1);
    fake.keeps = KS_REFUSED;
    look();
    EXPECT_EQ_U64(fake.kept, 2);
    end();
}

TEST(all_pages_are_looked_at)
{
    begin();
    for (uint32_t at = 0; at < LETTERS; at++)
        add(NULL, at % 40 == 0 ? -2 * HOUR_MS : 20 * HOUR_MS);
    look();
    EXPECT_EQ_U64(fake.lists, 3);
    EXPECT_EQ_U64(fake.removed, 3);
    end();
}

TEST(only_the_leader_looks_and_in_a_fleet_without_one_everybody)
{
    begin();
    add(NULL, HOUR_MS);
    stage.board->core->fleet.leads = false;
    ks_board_upkeep_now(stage.board);
    EXPECT_EQ_U64(fake.lists, 0);
    stage.board->config.core.protocol = KS_PROTOCOL_GO_KCL;
    ks_board_upkeep_now(stage.board);
    EXPECT_EQ_U64(fake.lists, 1);
    end();
}

TEST(nothing_is_looked_for_before_the_stream_was_reached)
{
    begin();
    add(NULL, HOUR_MS);
    stage.board->described = false;
    ks_board_upkeep_now(stage.board);
    EXPECT_EQ_U64(fake.lists, 0);
    stage.board->described = true;
    end();
}

TEST(a_board_stops_in_the_middle_of_a_look)
{
    begin();
    add(NULL, HOUR_MS);
    ks_board_upkeep_now(stage.board);
    ks_board_upkeep_now(stage.board);
    EXPECT_EQ_U64(fake.lists, 1);
    end();
}
