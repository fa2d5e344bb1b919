/* SPDX-License-Identifier: Apache-2.0 */
#include "api/delivery.h"
#include "api/limits.h"
#include "api/server.h"
#include "core/lease.h"
#include "ks_test.h"
#include "ports/board.h"
#include "unit/ports/stage.h"

#include <string.h>

static struct stage stage;
static struct ks_subscription subscription;
static struct ks_delivery delivery;
static struct consumer consumer;
static uint8_t buffer[1 << 16];

static uint32_t count_of(const char *part, size_t size)
{
    uint32_t count = 0;

    for (size_t i = 0; i + strlen(part) <= size; i++)
        count += memcmp(buffer + i, part, strlen(part)) == 0;
    return count;
}

/* A session without records. */
static void join(void)
{
    stage_begin(&stage, "worker");
    consumer_join(&consumer, &stage, "me");
    stage_turn_until(&stage, stage_holds_all);
    subscription.board = stage.board;
    ks_ack_key_init(&subscription.ack_key, 1, 0);
}

/* Pulls until all `records` are assigned, as one run. */
static void pull_all(uint32_t records)
{
    ks_delivery_init(&delivery, &subscription, consumer.session, KS_FRAME_NDJSON);
    for (int i = 0; i < 300 && delivery.run_count == 0; i++) {
        ks_loop_turn(stage.loop, ks_span_ms(20));
        if (i > 20)
            (void)ks_delivery_pull(&delivery, 100, 1 << 20, KS_BATCH_RUNS_MAX);
    }
    EXPECT_EQ_U64(delivery.run_count, 1);
    EXPECT_EQ_U64(delivery.runs[0].count, records);
}

/* A session that was assigned `records` records, none of which is begun. */
static void begin(uint32_t records)
{
    join();
    for (uint32_t i = 0; i < records; i++)
        stage_put(&stage, 3, 1);
    pull_all(records);
}

TEST(what_was_pulled_is_written_under_one_batch_id)
{
    enum ks_frame_state state;
    struct ks_ack ack;
    size_t size;

    begin(3);
    EXPECT(ks_delivery_pending(&delivery));
    size = ks_delivery_fill(&delivery, buffer, sizeof(buffer), &state);
    EXPECT_EQ_I64(state, KS_FRAME_DONE);
    EXPECT_EQ_U64(count_of("\"type\":\"record\"", size), 3);
    EXPECT(!ks_delivery_pending(&delivery));
    EXPECT_EQ_I64(ks_batch_id_read(&subscription.ack_key, ks_view_text(delivery.batch_id), &ack),
                  KS_ACK_ID_OK);
    EXPECT_EQ_U64(ack.runs[0].count, 3);
    stage_vanish(&stage);
}

/* The whole run, written once, and assigned again: a settlement of it counts. */
static void write_before(void)
{
    struct ks_run run = delivery.runs[0];
    ks_number up_to;

    stage_write(stage.board, consumer.session, &run);
    EXPECT_EQ_I64(consumer_settle(&consumer, &run, KS_RETRY, &up_to), KS_SETTLE_OK);
    delivery.run_count = 0;
    EXPECT(ks_delivery_pull(&delivery, 100, 1 << 20, KS_BATCH_RUNS_MAX));
    EXPECT_EQ_U64(delivery.run_count, 1);
    EXPECT_EQ_U64(delivery.runs[0].count, run.count);
}

/* A settlement by the checkpoint call names no session. */
static void settle_by_no_session(ks_number first)
{
    struct ks_run run = delivery.runs[0];
    ks_number up_to;

    run.first += first;
    run.count = 1;
    consumer.session = KS_SESSION_NONE;
    EXPECT_EQ_I64(consumer_settle(&consumer, &run, KS_ACK, &up_to), KS_SETTLE_OK);
    consumer.session = delivery.session;
}

TEST(what_was_settled_meanwhile_is_left_out)
{
    enum ks_frame_state state;
    size_t size;

    begin(3);
    write_before();
    settle_by_no_session(0);
    settle_by_no_session(1);
    size = ks_delivery_fill(&delivery, buffer, sizeof(buffer), &state);
    EXPECT_EQ_I64(state, KS_FRAME_DONE);
    EXPECT_EQ_U64(count_of("\"type\":\"record\"", size), 1);
    stage_vanish(&stage);
}

/* The lease of the first run. No turn of the loop comes: only the clock and this test move its deadlines. */
static struct ks_lease *lease_of_the_run(void)
{
    struct ks_core *core = stage.board->core;
    struct ks_lease *lease = ks_lease_of(core, ks_board_number(stage.board, delivery.runs[0].shard),
                                         delivery.runs[0].epoch);

    EXPECT(lease != NULL);
    core->fleet.deadline = KS_NEVER;
    lease->deadline = KS_NEVER;
    return lease;
}

/* As if record 1 had been taken back. */
TEST(what_was_left_out_between_two_records_is_not_reported_as_written)
{
    const struct ks_slot *slots;
    enum ks_frame_state state;

    begin(3);
    slots = lease_of_the_run()->tracker.slots;
    (void)ks_delivery_fill(&delivery, buffer, 1000, &state);
    EXPECT_EQ_U64(delivery.framer.next, delivery.runs[0].first + 1);
    delivery.framer.next++;
    (void)ks_delivery_fill(&delivery, buffer, sizeof(buffer), &state);
    EXPECT_EQ_I64(state, KS_FRAME_DONE);
    ks_delivery_sent(&delivery, SIZE_MAX);
    EXPECT_EQ_I64(slots[0].state, KS_SLOT_WRITTEN);
    EXPECT_EQ_I64(slots[1].state, KS_SLOT_ASSIGNED);
    EXPECT_EQ_I64(slots[2].state, KS_SLOT_WRITTEN);
    stage_vanish(&stage);
}

TEST(what_was_settled_behind_a_record_that_is_not_is_left_out_too)
{
    enum ks_frame_state state;
    size_t size;

    begin(3);
    write_before();
    settle_by_no_session(1);
    size = ks_delivery_fill(&delivery, buffer, sizeof(buffer), &state);
    EXPECT_EQ_I64(state, KS_FRAME_DONE);
    EXPECT_EQ_U64(count_of("\"type\":\"record\"", size), 2);
    stage_vanish(&stage);
}

TEST(records_that_were_not_begun_are_returned)
{
    struct ks_session_status status;

    begin(3);
    EXPECT(ks_switchboard_session(stage.board, consumer.session, &status));
    EXPECT_EQ_U64(status.session.assigned, 3);
    ks_delivery_return(&delivery);
    EXPECT(!ks_delivery_pending(&delivery));
    EXPECT(ks_switchboard_session(stage.board, consumer.session, &status));
    EXPECT_EQ_U64(status.session.assigned, 0);
    stage_vanish(&stage);
}

/* As if the process had stopped between two buffers of one turn. */
TEST(each_buffer_is_judged_by_the_clock_anew)
{
    enum { ROOM_FOR_ONE = 1000 };
    enum ks_frame_state state;
    size_t size;

    begin(2);
    size = ks_delivery_fill(&delivery, buffer, ROOM_FOR_ONE, &state);
    EXPECT_EQ_U64(count_of("\"ack_id\"", size), 1);
    EXPECT_EQ_I64(state, KS_FRAME_FULL);
    stage_sleep_past_lease();
    EXPECT_EQ_U64(ks_delivery_fill(&delivery, buffer, sizeof(buffer), &state), 0);
    stage_vanish(&stage);
}

/* A record that comes again later, in another batch, is not settled by this one. */
TEST(a_batch_settles_nothing_that_could_not_be_written)
{
    enum ks_frame_state state;
    struct ks_ack ack;
    struct ks_run run;
    ks_number up_to;

    begin(3);
    (void)ks_delivery_fill(&delivery, buffer, 1000, &state);
    EXPECT_EQ_I64(state, KS_FRAME_FULL);
    stage_sleep_past_lease();
    (void)ks_delivery_fill(&delivery, buffer, sizeof(buffer), &state);
    ks_delivery_sent(&delivery, SIZE_MAX);
    EXPECT_EQ_I64(ks_batch_id_read(&subscription.ack_key, ks_view_text(delivery.batch_id), &ack),
                  KS_ACK_ID_OK);
    EXPECT_EQ_U64(ack.runs[0].count, 3);
    EXPECT_EQ_U64(ack.runs[0].assignment, delivery.runs[0].assignment);
    run = delivery.runs[0];
    EXPECT_EQ_I64(consumer_settle(&consumer, &run, KS_ACK, &up_to), KS_SETTLE_OK);
    EXPECT(ks_core_is_settled(stage.board->core, run.shard, run.first));
    EXPECT(!ks_core_is_settled(stage.board->core, run.shard, run.first + 1));
    EXPECT(!ks_core_is_settled(stage.board->core, run.shard, run.first + 2));
    stage_vanish(&stage);
}

/* A connection that always has a record on its way: each one is written when its last byte is in the socket. */
TEST(records_of_a_connection_that_is_never_empty_are_written_one_by_one)
{
    enum ks_frame_state state;
    struct ks_session_status status;
    uint32_t records = 0;
    ks_number up_to;

    join();
    ks_delivery_init(&delivery, &subscription, consumer.session, KS_FRAME_NDJSON);
    while (records < KS_UNSENT_ENDS_MAX + 200) {
        stage_put(&stage, 3, 1);
        while (!ks_delivery_pull(&delivery, 100, 1 << 20, 1))
            ks_loop_turn(stage.loop, ks_span_ms(20));
        records += delivery.runs[0].count;
        (void)ks_delivery_fill(&delivery, buffer, sizeof(buffer), &state);
        ks_delivery_sent(&delivery, (size_t)(delivery.produced - delivery.sent) - 1);
        EXPECT_EQ_U64(delivery.unsent_count, 1);
        EXPECT_EQ_U64(delivery.unsent[0].count, 1);
        EXPECT(ks_switchboard_session(stage.board, consumer.session, &status));
        EXPECT_EQ_U64(status.session.assigned, 1);
        if (delivery.unsent[0].first > 0) {
            struct ks_run run = delivery.unsent[0];
            run.first--;
            EXPECT_EQ_I64(consumer_settle(&consumer, &run, KS_ACK, &up_to), KS_SETTLE_OK);
        }
    }
    ks_delivery_end(&delivery);
    stage_vanish(&stage);
}

/* An answer that is pulled in parts has one id for all of them; each part has its own assignment. */
TEST(one_batch_id_names_the_runs_of_several_pulls)
{
    enum ks_frame_state state;
    struct ks_ack ack;
    ks_number up_to;

    begin(2);
    (void)ks_delivery_fill(&delivery, buffer, sizeof(buffer), &state);
    EXPECT(!ks_delivery_pull_more(&delivery, 100, 1 << 20));
    stage_put(&stage, 3, 2); /* As many records of the same shard. */
    while (!ks_delivery_pull_more(&delivery, 100, 1 << 20))
        ks_loop_turn(stage.loop, ks_span_ms(20));
    (void)ks_delivery_fill(&delivery, buffer, sizeof(buffer), &state);
    ks_delivery_sent(&delivery, SIZE_MAX);
    ks_delivery_name(&delivery);
    EXPECT_EQ_I64(ks_batch_id_read(&subscription.ack_key, ks_view_text(delivery.batch_id), &ack),
                  KS_ACK_ID_OK);
    EXPECT_EQ_U64(ack.run_count, 2);
    for (uint32_t i = 0; i < ack.run_count; i++) {
        EXPECT_EQ_U64(ack.runs[i].assignment, delivery.runs[i].assignment);
        EXPECT_EQ_I64(consumer_settle(&consumer, &delivery.runs[i], KS_ACK, &up_to), KS_SETTLE_OK);
    }
    EXPECT(ack.runs[0].assignment < ack.runs[1].assignment);
    EXPECT(ks_core_is_settled(stage.board->core, ack.runs[1].shard, ack.runs[1].first + 1));
    stage_vanish(&stage);
}

/* Another session may have the slot of the one that the answer began with. */
TEST(an_answer_takes_nothing_more_for_a_session_that_is_over)
{
    enum ks_frame_state state;

    begin(2);
    (void)ks_delivery_fill(&delivery, buffer, sizeof(buffer), &state);
    delivery.session_epoch--;
    stage_put(&stage, 3, 2);
    for (int i = 0; i < 30; i++) {
        ks_loop_turn(stage.loop, ks_span_ms(20));
        EXPECT(!ks_delivery_pull_more(&delivery, 100, 1 << 20));
    }
    stage_vanish(&stage);
}

/* As if the process had stopped in a turn for longer than a lease: by the time of the turn the core may deliver. */
TEST(what_is_late_by_the_clock_is_not_pulled_again_in_this_turn)
{
    enum ks_frame_state state;
    ks_instant until;
    size_t size = 0;

    begin(2);
    stage_sleep_past_lease();
    EXPECT_EQ_U64(ks_delivery_fill(&delivery, buffer, sizeof(buffer), &state), 0);
    EXPECT(!ks_delivery_pending(&delivery));
    EXPECT(!ks_delivery_pull(&delivery, 100, 1 << 20, 1));
    until = stage_patience();
    while (size == 0) {
        stage_turn(&stage, until, ks_span_ms(20));
        delivery.late = false;
        if (ks_delivery_pull(&delivery, 100, 1 << 20, 1))
            size = ks_delivery_fill(&delivery, buffer, sizeof(buffer), &state);
    }
    EXPECT_EQ_U64(count_of("\"ack_id\"", size), 2);
    stage_vanish(&stage);
}

/* A drain begins while records wait to be written: they stay in the house, and do not hold it up. */
TEST(records_recalled_before_they_were_begun_are_not_written)
{
    enum ks_frame_state state;
    struct ks_session_status status;

    begin(3);
    ks_switchboard_drain(stage.board, ks_span_ms(10000));
    EXPECT_EQ_U64(ks_delivery_fill(&delivery, buffer, sizeof(buffer), &state), 0);
    EXPECT_EQ_I64(state, KS_FRAME_DONE);
    if (ks_switchboard_session(stage.board, consumer.session, &status))
        EXPECT_EQ_U64(status.session.assigned, 0);
    stage_vanish(&stage);
}

/* ---- A record that is half-way ---- */

enum { LARGE = 60000, ROOM = 20000 };

static uint8_t text[2 * LARGE];
static size_t text_size;

/* Fills one buffer of `room` bytes, and keeps its bytes as the next ones of `text`. */
static enum ks_frame_state fill(size_t room)
{
    enum ks_frame_state state;
    size_t size = ks_delivery_fill(&delivery, buffer, room, &state);

    EXPECT(text_size + size <= sizeof(text));
    memcpy(text + text_size, buffer, size);
    text_size += size;
    return state;
}

/* One large record, assigned a second time: a part of it is handed over. */
static void begin_half_way(void)
{
    static char data[LARGE + 1];

    for (size_t i = 0; i < LARGE; i++)
        data[i] = (char)('a' + i * 7 % 26);
    join();
    stage_put_one(&stage, &(struct ks_put_entry){.data = ks_view_of(data, LARGE),
                                                 .partition_key = KS_VIEW("key")});
    pull_all(1);
    delivery.framer.encoding = KS_ENCODING_UTF8;
    (void)lease_of_the_run();
    write_before();
    EXPECT_EQ_I64(fill(ROOM), KS_FRAME_FULL);
    EXPECT(delivery.framer.begun);
}

/* True if the text is one whole record. */
static bool is_whole(void)
{
    static const char key[] = "\"data\":\"";
    const uint8_t *data = memmem(text, text_size, key, sizeof(key) - 1);
    size_t i = 0;

    if (data == NULL || text_size < LARGE || memcmp(text + text_size - 3, "\"}\n", 3) != 0)
        return false;
    data += sizeof(key) - 1;
    if ((size_t)(text + text_size - data) != LARGE + 3)
        return false;
    while (i < LARGE && data[i] == 'a' + i * 7 % 26)
        i++;
    return i == LARGE;
}

TEST(record_half_way_is_finished_though_it_is_settled_and_forgotten)
{
    struct ks_run run;
    size_t used;

    begin_half_way();
    run = delivery.runs[0];
    settle_by_no_session(0);
    EXPECT(stage_record(stage.board, &run, run.first) == NULL);
    EXPECT(ks_board_record(stage.board, ks_board_number(stage.board, run.shard), run.epoch,
                           run.first) == NULL);
    used = stage.board->budget.used;
    EXPECT(used >= LARGE); /* It is held, and counts. */
    while (delivery.framer.begun)
        EXPECT(fill(ROOM) != KS_FRAME_CUT);
    EXPECT(is_whole());
    EXPECT(!ks_delivery_pending(&delivery));
    EXPECT(stage.board->budget.used + LARGE <= used);
    ks_delivery_sent(&delivery, SIZE_MAX);
    EXPECT_EQ_U64(stage.board->core->sessions[consumer.session].in_flight, 0);
    stage_vanish(&stage);
}

TEST(held_record_is_freed_when_its_connection_ends)
{
    begin_half_way();
    settle_by_no_session(0);
    EXPECT(stage.board->budget.used >= LARGE);
    ks_delivery_end(&delivery);
    EXPECT(stage.board->budget.used < LARGE);
    stage_vanish(&stage);
}

TEST(record_half_way_is_finished_while_its_lease_is_returning)
{
    struct ks_lease *lease;

    begin_half_way();
    lease = lease_of_the_run();
    EXPECT_EQ_I64(ks_switchboard_release(stage.board, delivery.runs[0].shard), KS_OPERATOR_OK);
    EXPECT_EQ_I64(lease->state, KS_LEASE_RETURNING);
    lease->patience_at = KS_NEVER;
    EXPECT(ks_delivery_may_send(&delivery));
    while (delivery.framer.begun)
        EXPECT(fill(ROOM) != KS_FRAME_CUT);
    EXPECT(is_whole());
    EXPECT(ks_delivery_may_send(&delivery));
    stage_vanish(&stage);
}

TEST(record_half_way_is_cut_when_its_lease_is_lost)
{
    struct ks_lease *lease;
    size_t size;

    begin_half_way();
    lease = lease_of_the_run();
    EXPECT(ks_delivery_may_send(&delivery));
    lease->deadline = ks_instant_now();
    size = text_size;
    EXPECT(!ks_delivery_may_send(&delivery));
    EXPECT_EQ_I64(fill(ROOM), KS_FRAME_CUT);
    EXPECT_EQ_U64(text_size, size);
    ks_delivery_end(&delivery);
    EXPECT_EQ_U64(stage.board->core->sessions[consumer.session].in_flight, 0);
    stage_vanish(&stage);
}

TEST(record_half_way_is_cut_at_the_deadline_of_the_hand_over)
{
    struct ks_lease *lease;
    size_t size;

    begin_half_way();
    lease = lease_of_the_run();
    EXPECT_EQ_I64(ks_switchboard_release(stage.board, delivery.runs[0].shard), KS_OPERATOR_OK);
    lease->patience_at = ks_instant_now();
    size = text_size;
    EXPECT(!ks_delivery_may_send(&delivery));
    EXPECT_EQ_I64(fill(ROOM), KS_FRAME_CUT);
    EXPECT_EQ_U64(text_size, size);
    ks_delivery_end(&delivery);
    stage_vanish(&stage);
}

/* The HTTP library holds bytes back that it took before the deadline. */
/* The session has got them before, and is late to say so. */
TEST(handed_records_are_not_sent_after_the_deadline_of_the_hand_over)
{
    enum ks_frame_state state;
    struct ks_lease *lease;
    ks_number up_to;

    begin(3);
    lease = lease_of_the_run();
    (void)ks_delivery_fill(&delivery, buffer, sizeof(buffer), &state);
    ks_delivery_sent(&delivery, SIZE_MAX);
    EXPECT_EQ_I64(consumer_settle(&consumer, &delivery.runs[0], KS_RETRY, &up_to), KS_SETTLE_OK);
    EXPECT(ks_delivery_pull(&delivery, 100, 1 << 20, 1));
    (void)ks_delivery_fill(&delivery, buffer, sizeof(buffer), &state);
    EXPECT_EQ_I64(state, KS_FRAME_DONE);
    EXPECT_EQ_I64(ks_switchboard_release(stage.board, delivery.runs[0].shard), KS_OPERATOR_OK);
    lease->patience_at = KS_NEVER;
    EXPECT(ks_delivery_may_send(&delivery));
    lease->patience_at = ks_instant_now();
    EXPECT(!ks_delivery_may_send(&delivery));
    for (ks_number n = 0; n < 2; n++)
        settle_by_no_session(n);
    EXPECT(!ks_delivery_may_send(&delivery));
    settle_by_no_session(2);
    EXPECT(ks_delivery_may_send(&delivery)); /* Their bytes have arrived. */
    stage_vanish(&stage);
}

/* ---- A connection that breaks ---- */

static void expect_session(uint32_t in_flight, uint32_t unwritten)
{
    const struct ks_session *session = &stage.board->core->sessions[consumer.session];

    EXPECT_EQ_U64(session->in_flight, in_flight);
    EXPECT_EQ_U64(session->unwritten, unwritten);
}

TEST(records_that_were_not_in_the_socket_return_when_the_connection_breaks)
{
    enum { ROOM_FOR_ONE = 1000 };
    const struct ks_lease *lease;
    enum ks_frame_state state;

    begin(3);
    lease = lease_of_the_run();
    (void)ks_delivery_fill(&delivery, buffer, ROOM_FOR_ONE, &state);
    ks_delivery_sent(&delivery, SIZE_MAX);
    (void)ks_delivery_fill(&delivery, buffer, ROOM_FOR_ONE, &state);
    EXPECT_EQ_I64(state, KS_FRAME_FULL);
    expect_session(3, 2); /* WRITTEN, BEGUN, ASSIGNED. */
    ks_delivery_end(&delivery);
    EXPECT(!ks_delivery_pending(&delivery));
    expect_session(1, 0);
    for (ks_number n = 0; n < 3; n++) {
        const struct ks_slot *slot = ks_tracker_slot(&lease->tracker, delivery.runs[0].first + n);

        EXPECT_EQ_I64(slot->state, n == 0 ? KS_SLOT_WRITTEN : KS_SLOT_PENDING);
        EXPECT_EQ_U64(slot->attempts, n == 0);
        EXPECT_EQ_U64(slot->failures, 0);
    }
    stage_vanish(&stage);
}

/* ---- A socket that takes a part ---- */

/* Whole lines in the first `size` bytes. */
static uint32_t lines_in(size_t size)
{
    uint32_t lines = 0;

    for (size_t i = 0; i < size; i++)
        lines += buffer[i] == '\n';
    return lines;
}

/* Records of the run that are WRITTEN; they come first. */
static uint32_t count_written(const struct ks_lease *lease)
{
    ks_number first = delivery.runs[0].first;
    uint32_t count = 0;

    while (count < delivery.runs[0].count &&
           ks_tracker_slot(&lease->tracker, first + count)->state == KS_SLOT_WRITTEN)
        count++;
    for (uint32_t i = count; i < delivery.runs[0].count; i++)
        EXPECT(ks_tracker_slot(&lease->tracker, first + i)->state != KS_SLOT_WRITTEN);
    return count;
}

TEST(a_record_is_written_when_its_last_byte_is_in_the_socket)
{
    const struct ks_lease *lease;
    enum ks_frame_state state;
    size_t size;

    begin(20);
    lease = lease_of_the_run();
    size = ks_delivery_fill(&delivery, buffer, sizeof(buffer), &state);
    EXPECT_EQ_I64(state, KS_FRAME_DONE);
    EXPECT_EQ_U64(lines_in(size), 20);
    for (size_t sent = 1; sent <= size; sent++) {
        ks_delivery_sent(&delivery, 1);
        EXPECT_EQ_U64(count_written(lease), lines_in(sent));
    }
    EXPECT_EQ_U64(delivery.unsent_count, 0);
    stage_vanish(&stage);
}

TEST(parts_of_several_buffers_are_counted_in_their_order)
{
    enum { ROOM_FOR_SOME = 2000, STEP = 333 };
    const struct ks_lease *lease;
    enum ks_frame_state state = KS_FRAME_FULL;
    size_t size = 0;
    size_t sent = 0;

    begin(20);
    lease = lease_of_the_run();
    while (sent < size || state == KS_FRAME_FULL) {
        /* The next buffer comes while some of the last one waits. */
        if (state == KS_FRAME_FULL)
            size += ks_delivery_fill(&delivery, buffer + size, ROOM_FOR_SOME, &state);
        for (size_t end = sent + 2 * STEP; sent < end && sent < size;) {
            size_t step = size - sent < STEP ? size - sent : STEP;

            ks_delivery_sent(&delivery, step);
            sent += step;
            EXPECT_EQ_U64(count_written(lease), lines_in(sent));
        }
    }
    EXPECT_EQ_I64(state, KS_FRAME_DONE);
    EXPECT_EQ_U64(count_written(lease), 20);
    stage_vanish(&stage);
}

TEST(bytes_between_records_are_counted_as_sent_but_are_no_record)
{
    const struct ks_lease *lease;
    enum ks_frame_state state;
    size_t size;

    begin(3);
    lease = lease_of_the_run();
    ks_delivery_pass(&delivery, 500);
    size = ks_delivery_fill(&delivery, buffer, sizeof(buffer), &state);
    ks_delivery_pass(&delivery, 500);
    ks_delivery_sent(&delivery, 500 + size / 2);
    EXPECT_EQ_U64(count_written(lease), 1);
    ks_delivery_sent(&delivery, size - size / 2 - 1);
    EXPECT_EQ_U64(count_written(lease), 2);
    ks_delivery_sent(&delivery, 1);
    EXPECT_EQ_U64(count_written(lease), 3);
    ks_delivery_sent(&delivery, 500);
    stage_vanish(&stage);
}

TEST(records_of_a_part_that_was_sent_do_not_return_when_the_connection_breaks)
{
    const struct ks_lease *lease;
    enum ks_frame_state state;
    size_t size;

    begin(3);
    lease = lease_of_the_run();
    size = ks_delivery_fill(&delivery, buffer, sizeof(buffer), &state);
    ks_delivery_sent(&delivery, size - 1);
    ks_delivery_end(&delivery);
    EXPECT_EQ_U64(count_written(lease), 2);
    expect_session(2, 0);
    stage_vanish(&stage);
}

TEST(record_half_way_returns_when_its_connection_breaks)
{
    const struct ks_lease *lease;

    begin_half_way();
    lease = lease_of_the_run();
    expect_session(1, 1);
    ks_delivery_end(&delivery);
    expect_session(0, 0);
    EXPECT_EQ_I64(ks_tracker_slot(&lease->tracker, delivery.runs[0].first)->state, KS_SLOT_PENDING);
    stage_vanish(&stage);
}

TEST(rest_of_the_run_is_returned_when_the_answer_ends_early)
{
    enum { ROOM_FOR_ONE = 1000 };
    enum ks_frame_state state;

    begin(3);
    (void)lease_of_the_run();
    (void)ks_delivery_fill(&delivery, buffer, ROOM_FOR_ONE, &state);
    EXPECT_EQ_I64(state, KS_FRAME_FULL);
    ks_delivery_return(&delivery);
    EXPECT(!ks_delivery_pending(&delivery));
    expect_session(1, 1);
    ks_delivery_sent(&delivery, SIZE_MAX);
    expect_session(1, 0);
    stage_vanish(&stage);
}
