/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tracker.h"

#include <string.h>

#include "ks_test.h"

enum { WINDOW = 16 };

static struct ks_slot slots[WINDOW];
static struct ks_lane lanes[KS_LANES_MAX];
static struct ks_tracker tracker;
static uint64_t assignment; /* The last one that was used. */
static const ks_instant T0 = {1000000};

static ks_instant at_ms(int64_t ms)
{
    return ks_instant_add(T0, ks_span_ms(ms));
}

static void begin(uint32_t count)
{
    uint32_t sizes[WINDOW];

    for (uint32_t i = 0; i < count; i++)
        sizes[i] = 100;
    memset(slots, 0xAA, sizeof slots);
    ks_tracker_init(&tracker, slots, WINDOW, lanes);
    ks_tracker_append(&tracker, sizes, NULL, NULL, count);
}

/* The next run of all lanes. */
static bool next(ks_instant now, uint32_t max_records, uint64_t max_bytes,
                 struct ks_tracker_run *ret_run)
{
    struct ks_tracker_ask ask = {.lanes = UINT64_MAX,
                                 .max_records = max_records,
                                 .max_record_bytes = UINT32_MAX,
                                 .max_bytes = max_bytes};

    return ks_tracker_next(&tracker, &ask, now, ret_run);
}

/* Hands the run over to session 3 and writes it; its ack deadline is after 60 s. */
static void send(const struct ks_tracker_run *run)
{
    assignment++;
    ks_tracker_assign(&tracker, run, 3, assignment);
    for (ks_number n = run->first; n < run->first + run->count; n++) {
        ks_tracker_begin(&tracker, n, assignment);
        EXPECT(ks_tracker_written(&tracker, n, assignment, 3, at_ms(60000)));
    }
    ks_tracker_check(&tracker);
}

static uint32_t deliver(uint32_t max_records, uint64_t max_bytes)
{
    struct ks_tracker_run run;

    if (!next(T0, max_records, max_bytes, &run))
        return 0;
    send(&run);
    return run.count;
}

/* The next permutation in lexical order; false after the last. */
static bool permute(uint32_t *order, uint32_t count)
{
    uint32_t i = count - 1;
    uint32_t j = count - 1;

    while (i > 0 && order[i - 1] >= order[i])
        i--;
    if (i == 0)
        return false;
    while (order[j] <= order[i - 1])
        j--;
    uint32_t swap = order[i - 1];
    order[i - 1] = order[j];
    order[j] = swap;
    for (uint32_t a = i, b = count - 1; a < b; a++, b--) {
        swap = order[a];
        order[a] = order[b];
        order[b] = swap;
    }
    return true;
}

TEST(acks_in_any_order_of_up_to_seven_give_the_lowest_unsettled_as_watermark)
{
    uint64_t orders = 0;

    for (uint32_t count = 1; count <= 7; count++) {
        uint32_t order[7] = {0, 1, 2, 3, 4, 5, 6};

        do {
            bool settled[8] = {false};

            begin(count);
            EXPECT_EQ_I64(deliver(count, UINT64_MAX), count);
            for (uint32_t i = 0; i < count; i++) {
                uint32_t lowest = 0;

                EXPECT_EQ_I64(ks_tracker_settle(&tracker, order[i]).records, 1);
                settled[order[i]] = true;
                while (settled[lowest])
                    lowest++;
                EXPECT_EQ_I64((int64_t)tracker.mark, lowest);
                ks_tracker_check(&tracker);
            }
            EXPECT_EQ_I64((int64_t)tracker.bytes, 0);
            orders++;
        } while (permute(order, count));
    }
    EXPECT_EQ_I64((int64_t)orders, 1 + 2 + 6 + 24 + 120 + 720 + 5040);
}

TEST(a_second_ack_of_the_same_record_changes_nothing)
{
    begin(3);
    EXPECT_EQ_I64(deliver(3, UINT64_MAX), 3);
    EXPECT_EQ_I64(ks_tracker_settle(&tracker, 1).records, 1);
    EXPECT_EQ_I64(ks_tracker_settle(&tracker, 1).records, 0);
    EXPECT_EQ_I64(ks_tracker_settle(&tracker, 0).records, 1);
    EXPECT_EQ_I64(ks_tracker_settle(&tracker, 0).records, 0);
    EXPECT_EQ_I64((int64_t)tracker.mark, 2);
}

TEST(a_recall_takes_every_later_delivery_back_and_skips_the_settled)
{
    struct ks_tracker_run run;
    struct ks_credit credit;

    begin(6);
    EXPECT_EQ_I64(deliver(5, UINT64_MAX), 5);
    EXPECT_EQ_I64(ks_tracker_settle(&tracker, 3).records, 1);
    credit = ks_tracker_recall(&tracker, 1);
    EXPECT_EQ_I64(credit.records, 3); /* 1, 2, 4 */
    EXPECT_EQ_I64((int64_t)credit.bytes, 300);
    ks_tracker_check(&tracker);
    EXPECT_EQ_I64(tracker.in_flight, 1);

    EXPECT(next(T0, 10, UINT64_MAX, &run));
    EXPECT_EQ_I64((int64_t)run.first, 1);
    EXPECT_EQ_I64(run.count, 2); /* 1, 2: then 3 is settled. */
    EXPECT_EQ_I64(run.attempt, 2);
    send(&run);
    EXPECT(next(T0, 10, UINT64_MAX, &run));
    EXPECT_EQ_I64((int64_t)run.first, 4);
    EXPECT_EQ_I64(run.count, 1); /* 5 was never delivered: another attempt, another run. */
}

TEST(an_ack_of_a_recalled_record_settles_it_without_another_delivery)
{
    struct ks_tracker_run run;

    begin(2);
    EXPECT_EQ_I64(deliver(2, UINT64_MAX), 2);
    EXPECT_EQ_I64(ks_tracker_recall(&tracker, 0).records, 2);
    ks_tracker_delay(&tracker, 0, at_ms(5000));
    EXPECT(!next(at_ms(4999), 2, UINT64_MAX, &run));
    EXPECT_EQ_I64(ks_tracker_settle(&tracker, 0).records, 0);
    ks_tracker_check(&tracker);
    /* The lane waited for that one: it rests no longer. */
    EXPECT(next(T0, 2, UINT64_MAX, &run));
    EXPECT_EQ_I64((int64_t)run.first, 1);
}

TEST(a_delayed_retry_holds_the_lane_until_then)
{
    struct ks_tracker_run run;

    begin(2);
    EXPECT_EQ_I64(deliver(1, UINT64_MAX), 1);
    EXPECT_EQ_I64(ks_tracker_recall(&tracker, 0).records, 1);
    ks_tracker_delay(&tracker, 0, at_ms(5000));
    EXPECT(!next(at_ms(4999), 2, UINT64_MAX, &run));
    EXPECT(next(at_ms(5000), 2, UINT64_MAX, &run));
    EXPECT_EQ_I64((int64_t)run.first, 0);
}

TEST(what_waits_longest_is_told)
{
    static const uint32_t sizes[] = {100, 100, 100, 100};
    static const uint8_t hashes[] = {0, 255, 0, 255}; /* Two lanes. */
    struct ks_tracker_ask first = {
        .lanes = 1, .max_records = 4, .max_record_bytes = UINT32_MAX, .max_bytes = 1000};
    struct ks_tracker_run run;
    ks_number waiting = 99;

    begin(0);
    EXPECT(!ks_tracker_waiting(&tracker, &waiting));
    ks_tracker_order(&tracker, 2, false);
    ks_tracker_append(&tracker, sizes, hashes, NULL, 4);
    EXPECT(ks_tracker_waiting(&tracker, &waiting));
    EXPECT_EQ_U64(waiting, 0);

    while (ks_tracker_next(&tracker, &first, T0, &run))
        send(&run);
    EXPECT(ks_tracker_waiting(&tracker, &waiting));
    EXPECT_EQ_U64(waiting, 1);
    (void)ks_tracker_settle(&tracker, 0);
    (void)ks_tracker_recall(&tracker, 2);
    while (deliver(4, 1000) > 0)
        ;
    EXPECT(!ks_tracker_waiting(&tracker, &waiting));
    (void)ks_tracker_recall(&tracker, 3);
    ks_tracker_delay(&tracker, 3, at_ms(500));
    EXPECT(ks_tracker_waiting(&tracker, &waiting));
    EXPECT_EQ_U64(waiting, 3);
    (void)ks_tracker_kill(&tracker, 3, KS_CAUSE_ASKED);
    EXPECT(ks_tracker_waiting(&tracker, &waiting));
    EXPECT_EQ_U64(waiting, 3);
    (void)ks_tracker_kill(&tracker, 1, KS_CAUSE_ASKED);
    EXPECT(ks_tracker_bury(&tracker, 1, &run));
    EXPECT(ks_tracker_waiting(&tracker, &waiting));
    EXPECT_EQ_U64(waiting, 1); /* Its dead letter is being written. */
    (void)ks_tracker_settle(&tracker, 1);
    (void)ks_tracker_settle(&tracker, 3);
    EXPECT(!ks_tracker_waiting(&tracker, &waiting));
}

TEST(a_run_keeps_within_the_bytes_but_for_its_first_record)
{
    begin(6);
    EXPECT_EQ_I64(deliver(6, 250), 2);
    EXPECT_EQ_I64(deliver(6, 1), 1);
    EXPECT_EQ_I64(deliver(1, UINT64_MAX), 1);
    EXPECT_EQ_I64(deliver(6, UINT64_MAX), 2);
    EXPECT_EQ_I64(deliver(6, UINT64_MAX), 0);
}

TEST(overdue_is_the_lowest_whose_deadline_passed)
{
    ks_number number = 99;

    begin(4);
    EXPECT_EQ_I64(deliver(4, UINT64_MAX), 4);
    EXPECT(ks_tracker_extend(&tracker, 0, at_ms(90000)));
    EXPECT(!ks_tracker_overdue(&tracker, at_ms(59999), &number));
    EXPECT(ks_tracker_overdue(&tracker, at_ms(60000), &number));
    EXPECT_EQ_I64((int64_t)number, 1);
    EXPECT_EQ_I64(ks_tracker_recall(&tracker, number).records, 3);
    EXPECT(!ks_tracker_overdue(&tracker, at_ms(60000), &number));
    EXPECT_EQ_I64(tracker.deadline_bound.us, at_ms(90000).us);
    EXPECT(!ks_tracker_extend(&tracker, 1, at_ms(99999)));
    ks_tracker_check(&tracker);
}

TEST(the_window_bounds_what_is_unsettled_and_slides_with_the_watermark)
{
    uint32_t sizes[WINDOW] = {0};

    begin(WINDOW);
    EXPECT_EQ_I64(ks_tracker_room(&tracker), 0);
    EXPECT_EQ_I64(deliver(WINDOW, UINT64_MAX), WINDOW);
    for (ks_number n = 1; n < WINDOW; n++)
        ks_tracker_settle(&tracker, n);
    EXPECT_EQ_I64(ks_tracker_room(&tracker), 0); /* The first one holds it all. */
    ks_tracker_settle(&tracker, 0);
    EXPECT_EQ_I64(ks_tracker_room(&tracker), WINDOW);
    ks_tracker_append(&tracker, sizes, NULL, NULL, WINDOW);
    EXPECT_EQ_I64(deliver(WINDOW, 0), WINDOW); /* Records without bytes. */
    EXPECT_EQ_I64((int64_t)tracker.delivered, 2 * WINDOW);
}

/* One record of each state, from wherever the ring begins, while it becomes longer and longer. */
TEST(a_ring_that_becomes_longer_keeps_what_became_of_each_record)
{
    enum { LONG = 128, STEP = 7 };
    static struct ks_slot many[LONG];
    uint32_t sizes[LONG];

    for (uint32_t i = 0; i < LONG; i++)
        sizes[i] = i;
    for (uint32_t begun = 0; begun < 40; begun++) {
        memset(many, 0xAA, sizeof many);
        ks_tracker_init(&tracker, many, LONG, lanes);
        for (uint32_t i = 0; i < begun; i++) {
            ks_tracker_append(&tracker, sizes, NULL, NULL, 1);
            EXPECT_EQ_I64(deliver(1, UINT64_MAX), 1);
            ks_tracker_settle(&tracker, i);
        }
        for (uint32_t i = 0; i + STEP <= LONG; i += STEP) {
            ks_tracker_append(&tracker, &sizes[i], NULL, NULL, STEP);
            EXPECT_EQ_I64(deliver(STEP, UINT64_MAX), STEP);
            ks_tracker_settle(&tracker, begun + i + 1);
            ks_tracker_kill(&tracker, begun + i + 2, KS_CAUSE_ASKED);
            ks_tracker_check(&tracker);
        }
        for (uint32_t i = 0; i + STEP <= LONG; i++) {
            const struct ks_slot *slot = ks_tracker_slot(&tracker, begun + i);

            EXPECT_EQ_I64(slot->bytes, i);
            EXPECT_EQ_I64(slot->state, i % STEP == 1   ? KS_SLOT_SETTLED
                                       : i % STEP == 2 ? KS_SLOT_DYING
                                                       : KS_SLOT_WRITTEN);
        }
    }
}

/* A thousand leases have a thousand windows; what a window could hold costs nothing until it does. */
TEST(records_that_come_and_go_touch_no_more_memory_than_were_there_at_a_time)
{
    enum { LONG = 1024, AT_A_TIME = 20, ENOUGH = 32 };
    static struct ks_slot many[LONG];
    static const struct ks_slot untouched[LONG - ENOUGH];
    uint32_t sizes[AT_A_TIME] = {0};

    ks_tracker_init(&tracker, many, LONG, lanes);
    for (ks_number n = 0; n < 5 * LONG; n += AT_A_TIME) {
        ks_tracker_append(&tracker, sizes, NULL, NULL, AT_A_TIME);
        EXPECT_EQ_I64(deliver(AT_A_TIME, UINT64_MAX), AT_A_TIME);
        for (ks_number i = n; i < n + AT_A_TIME; i++)
            ks_tracker_settle(&tracker, i);
    }
    EXPECT(memcmp(&many[ENOUGH], untouched, sizeof untouched) == 0);
    for (uint32_t i = 0; i < LONG; i++)
        ks_tracker_append(&tracker, sizes, NULL, NULL, 1);
    EXPECT_EQ_I64(tracker.ring, LONG);
    EXPECT_EQ_I64(deliver(LONG, UINT64_MAX), LONG);
    for (ks_number n = tracker.mark; n < tracker.fetched;)
        ks_tracker_settle(&tracker, n++);
    ks_tracker_append(&tracker, sizes, NULL, NULL, 1);
    EXPECT_EQ_I64(tracker.ring, 16);
}

/* ---- The states of a delivery ---- */

enum { SESSION = 3, OTHER_SESSION = 4 };

static enum ks_slot_state state_of(ks_number number)
{
    return (enum ks_slot_state)ks_tracker_slot(&tracker, number)->state;
}

/* Assigns the next `count` records to `session`. Returns the assignment. */
static uint64_t assign(ks_session_id session, uint32_t count)
{
    struct ks_tracker_run run;

    EXPECT(next(T0, count, UINT64_MAX, &run));
    EXPECT_EQ_U64(run.count, count);
    ks_tracker_assign(&tracker, &run, session, ++assignment);
    ks_tracker_check(&tracker);
    return assignment;
}

/* Record 0, alone, in this state of its delivery to SESSION. */
static uint64_t begin_in(enum ks_slot_state state)
{
    uint64_t mine;

    begin(1);
    mine = assign(SESSION, 1);
    if (state >= KS_SLOT_BEGUN)
        ks_tracker_begin(&tracker, 0, mine);
    if (state == KS_SLOT_WRITTEN)
        EXPECT(ks_tracker_written(&tracker, 0, mine, SESSION, at_ms(60000)));
    EXPECT_EQ_I64(state_of(0), state);
    return mine;
}

TEST(delivery_passes_assigned_begun_written_and_settled)
{
    uint64_t mine;

    begin(2);
    mine = assign(SESSION, 2);
    EXPECT_EQ_I64(state_of(0), KS_SLOT_ASSIGNED);
    EXPECT_EQ_U64(ks_tracker_assigned(&tracker, 0, 1, mine), 1);
    EXPECT_EQ_U64(tracker.reached, 2);
    EXPECT_EQ_U64(tracker.delivered, 0);
    EXPECT_EQ_U64(tracker.unwritten, 2);
    EXPECT_EQ_U64(tracker.unwritten_bytes, 200);

    ks_tracker_begin(&tracker, 0, mine);
    EXPECT_EQ_I64(state_of(0), KS_SLOT_BEGUN);
    EXPECT_EQ_U64(ks_tracker_assigned(&tracker, 0, 1, mine), 0);
    EXPECT_EQ_U64(ks_tracker_slot(&tracker, 0)->attempts, 0);
    EXPECT_EQ_U64(tracker.delivered, 0);
    EXPECT_EQ_U64(tracker.unwritten, 2);

    EXPECT(ks_tracker_written(&tracker, 0, mine, SESSION, at_ms(60000)));
    EXPECT_EQ_I64(state_of(0), KS_SLOT_WRITTEN);
    EXPECT_EQ_U64(ks_tracker_slot(&tracker, 0)->attempts, 1);
    EXPECT_EQ_U64(ks_tracker_slot(&tracker, 0)->seen_by, SESSION);
    EXPECT_EQ_U64(ks_tracker_slot(&tracker, 0)->seen_in, mine);
    EXPECT_EQ_U64(tracker.delivered, 1);
    EXPECT_EQ_U64(tracker.unwritten, 1);
    EXPECT_EQ_U64(tracker.unwritten_bytes, 100);
    EXPECT_EQ_I64(tracker.deadline_bound.us, at_ms(60000).us);

    EXPECT_EQ_U64(ks_tracker_settle(&tracker, 0).records, 1);
    EXPECT_EQ_U64(tracker.mark, 1);
    EXPECT_EQ_I64(state_of(1), KS_SLOT_ASSIGNED);
    ks_tracker_check(&tracker);
}

TEST(record_is_begun_only_while_it_is_assigned)
{
    static const enum ks_slot_state others[] = {KS_SLOT_BEGUN, KS_SLOT_WRITTEN};

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        ks_tracker_begin(&tracker, 0, begin_in(others[i]));
        EXPECT_EQ_I64(state_of(0), others[i]);
    }
    begin(1);
    ks_tracker_begin(&tracker, 0, assignment);
    EXPECT_EQ_I64(state_of(0), KS_SLOT_PENDING);
}

TEST(records_that_may_be_begun_are_counted_up_to_one_that_may_not)
{
    uint64_t mine;

    begin(5);
    mine = assign(SESSION, 4);
    EXPECT_EQ_U64(ks_tracker_assigned(&tracker, 0, 3, mine), 3);
    EXPECT_EQ_U64(ks_tracker_assigned(&tracker, 0, 9, mine), 4);
    (void)ks_tracker_settle(&tracker, 2);
    EXPECT_EQ_U64(ks_tracker_assigned(&tracker, 0, 4, mine), 2);
    EXPECT_EQ_U64(ks_tracker_assigned(&tracker, 2, 2, mine), 0);
    EXPECT_EQ_U64(ks_tracker_assigned(&tracker, 3, 9, mine), 1);
    EXPECT_EQ_U64(ks_tracker_assigned(&tracker, 0, 4, mine + 1), 0);
    /* In memory are those of the five that are not below the watermark. */
    EXPECT_EQ_U64(ks_tracker_bytes(&tracker, 0, 9), 500);
    (void)ks_tracker_settle(&tracker, 0);
    EXPECT_EQ_U64(ks_tracker_bytes(&tracker, 0, 9), 400);
}

TEST(record_is_written_once)
{
    uint64_t mine = begin_in(KS_SLOT_WRITTEN);

    EXPECT(!ks_tracker_written(&tracker, 0, mine, SESSION, at_ms(1)));
    EXPECT_EQ_I64(state_of(0), KS_SLOT_WRITTEN);
    EXPECT(tracker.deadline_bound.us != at_ms(1).us);
}

TEST(steps_of_another_assignment_leave_the_state_of_the_record)
{
    static const enum ks_slot_state states[] = {KS_SLOT_ASSIGNED, KS_SLOT_BEGUN, KS_SLOT_WRITTEN};

    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        uint64_t another = begin_in(states[i]) + 1;

        tracker.half_way += 2; /* It was begun in that one, twice. */
        EXPECT_EQ_U64(ks_tracker_assigned(&tracker, 0, 1, another), 0);
        ks_tracker_begin(&tracker, 0, another);
        EXPECT(!ks_tracker_written(&tracker, 0, another, OTHER_SESSION, at_ms(1)));
        EXPECT_EQ_U64(ks_tracker_torn(&tracker, 0, another).records, 0);
        EXPECT_EQ_I64(state_of(0), states[i]);
        EXPECT_EQ_U64(tracker.in_flight, 1);
        ks_tracker_check(&tracker);
    }
}

TEST(steps_of_a_settled_record_do_nothing)
{
    uint64_t mine;

    begin(2);
    mine = assign(SESSION, 2);
    ks_tracker_settle(&tracker, 1); /* In memory still: record 0 is not settled. */
    for (uint32_t settled = 1; settled <= 2; settled++) {
        ks_tracker_begin(&tracker, 1, mine);
        EXPECT(!ks_tracker_written(&tracker, 1, mine, SESSION, at_ms(1)));
        EXPECT_EQ_U64(ks_tracker_return(&tracker, 1, mine).records, 0);
        EXPECT(!ks_tracker_extend(&tracker, 1, at_ms(1)));
        EXPECT_EQ_I64(state_of(1), KS_SLOT_SETTLED);
        EXPECT_EQ_U64(ks_tracker_slot(&tracker, 1)->attempts, 0);
        ks_tracker_check(&tracker);
        ks_tracker_settle(&tracker, 0);
    }
    EXPECT_EQ_U64(tracker.mark, 2);
}

TEST(returned_record_is_pending_again_with_the_later_ones_of_its_lane)
{
    struct ks_credit credit;
    uint64_t mine;

    begin(3);
    mine = assign(SESSION, 3);
    ks_tracker_begin(&tracker, 1, mine);
    credit = ks_tracker_torn(&tracker, 1, mine);
    EXPECT_EQ_U64(credit.records, 2);
    EXPECT_EQ_U64(credit.bytes, 200);
    EXPECT_EQ_U64(credit.unwritten, 2);
    EXPECT_EQ_U64(credit.unused, 2); /* No record reached the session: explicit credit returns. */
    EXPECT_EQ_I64(state_of(0), KS_SLOT_ASSIGNED);
    EXPECT_EQ_I64(state_of(1), KS_SLOT_PENDING);
    EXPECT_EQ_I64(state_of(2), KS_SLOT_PENDING);
    EXPECT_EQ_U64(ks_tracker_slot(&tracker, 1)->attempts, 0);
    EXPECT_EQ_U64(ks_tracker_return(&tracker, 1, mine).records, 0);
    ks_tracker_check(&tracker);
}

TEST(half_way_record_whose_connection_broke_has_no_attempt_and_is_of_no_session)
{
    struct ks_credit credit;
    uint64_t mine = begin_in(KS_SLOT_BEGUN);

    credit = ks_tracker_torn(&tracker, 0, mine);
    EXPECT_EQ_U64(credit.records, 1);
    EXPECT_EQ_U64(credit.unused, 1);
    EXPECT_EQ_I64(state_of(0), KS_SLOT_PENDING);
    EXPECT_EQ_U64(ks_tracker_slot(&tracker, 0)->attempts, 0);
    EXPECT_EQ_U64(ks_tracker_slot(&tracker, 0)->seen_by, KS_SEEN_BY_NONE);
    EXPECT(!ks_tracker_may_settle(&tracker, 0, SESSION, 0));
    ks_tracker_check(&tracker);
}

TEST(written_record_does_not_return_when_its_connection_breaks)
{
    uint64_t mine = begin_in(KS_SLOT_WRITTEN);

    EXPECT_EQ_U64(ks_tracker_return(&tracker, 0, mine).records, 0);
    EXPECT_EQ_I64(state_of(0), KS_SLOT_WRITTEN);
    EXPECT(ks_tracker_may_settle(&tracker, 0, SESSION, 0));
}

TEST(settlement_counts_only_after_the_record_was_written)
{
    uint64_t mine;

    begin(1);
    EXPECT(!ks_tracker_may_settle(&tracker, 0, SESSION, 0));
    mine = assign(SESSION, 1);
    EXPECT(!ks_tracker_may_settle(&tracker, 0, SESSION, 0));
    EXPECT(!ks_tracker_may_settle(&tracker, 0, KS_SESSION_NONE, 0));
    ks_tracker_begin(&tracker, 0, mine);
    EXPECT(!ks_tracker_may_settle(&tracker, 0, SESSION, 0));
    EXPECT(ks_tracker_written(&tracker, 0, mine, SESSION, at_ms(60000)));
    EXPECT(ks_tracker_may_settle(&tracker, 0, SESSION, 0));
    EXPECT(ks_tracker_may_settle(&tracker, 0, KS_SESSION_NONE, 0));
    ks_tracker_settle(&tracker, 0);
    EXPECT(!ks_tracker_may_settle(&tracker, 0, SESSION, 0));
}

/* Record 0 was written to SESSION, failed, and is assigned to `session`. */
static uint64_t assign_again(ks_session_id session)
{
    (void)begin_in(KS_SLOT_WRITTEN);
    EXPECT_EQ_U64(ks_tracker_recall(&tracker, 0).records, 1);
    return assign(session, 1);
}

TEST(session_that_got_the_record_before_settles_it_while_another_has_it)
{
    uint64_t mine = assign_again(OTHER_SESSION);

    EXPECT(ks_tracker_may_settle(&tracker, 0, SESSION, 0));
    EXPECT(!ks_tracker_may_settle(&tracker, 0, OTHER_SESSION, 0));
    ks_tracker_begin(&tracker, 0, mine);
    EXPECT(ks_tracker_may_settle(&tracker, 0, SESSION, 0));
    EXPECT(!ks_tracker_may_settle(&tracker, 0, OTHER_SESSION, 0));
    EXPECT(ks_tracker_written(&tracker, 0, mine, OTHER_SESSION, at_ms(60000)));
    EXPECT(ks_tracker_may_settle(&tracker, 0, OTHER_SESSION, 0));
}

TEST(session_that_may_have_got_a_part_does_not_settle_the_record)
{
    uint64_t mine = assign_again(OTHER_SESSION);

    ks_tracker_begin(&tracker, 0, mine);
    EXPECT_EQ_U64(ks_tracker_torn(&tracker, 0, mine).records, 1);
    EXPECT(!ks_tracker_may_settle(&tracker, 0, OTHER_SESSION, 0));
    EXPECT(ks_tracker_may_settle(&tracker, 0, SESSION, 0));
}

TEST(assignment_settles_what_was_written_in_it_also_late)
{
    uint64_t first = begin_in(KS_SLOT_WRITTEN);
    uint64_t second;
    uint64_t third;

    EXPECT(ks_tracker_may_settle(&tracker, 0, SESSION, first));
    (void)ks_tracker_recall(&tracker, 0);
    EXPECT(ks_tracker_may_settle(&tracker, 0, SESSION, first));
    second = assign(SESSION, 1);
    EXPECT(ks_tracker_may_settle(&tracker, 0, SESSION, first));
    EXPECT(!ks_tracker_may_settle(&tracker, 0, SESSION, second));
    ks_tracker_begin(&tracker, 0, second);
    EXPECT(!ks_tracker_may_settle(&tracker, 0, SESSION, second));
    EXPECT(ks_tracker_written(&tracker, 0, second, SESSION, at_ms(60000)));
    EXPECT(ks_tracker_may_settle(&tracker, 0, SESSION, first));
    EXPECT(ks_tracker_may_settle(&tracker, 0, SESSION, second));
    (void)ks_tracker_recall(&tracker, 0);
    third = assign(SESSION, 1);
    EXPECT(ks_tracker_may_settle(&tracker, 0, SESSION, first));
    EXPECT(!ks_tracker_may_settle(&tracker, 0, SESSION, third));
}

TEST(assignment_that_took_a_record_back_unwritten_never_settles_it)
{
    uint64_t torn = begin_in(KS_SLOT_ASSIGNED);
    uint64_t later;

    (void)ks_tracker_recall(&tracker, 0);
    later = assign(SESSION, 1);
    EXPECT(ks_tracker_written(&tracker, 0, later, SESSION, at_ms(60000)));
    EXPECT(!ks_tracker_may_settle(&tracker, 0, SESSION, torn));
    EXPECT(ks_tracker_may_settle(&tracker, 0, SESSION, later));
    (void)ks_tracker_recall(&tracker, 0);
    torn = assign(SESSION, 1);
    (void)ks_tracker_return(&tracker, 0, torn);
    EXPECT(!ks_tracker_may_settle(&tracker, 0, SESSION, torn));
    EXPECT(ks_tracker_may_settle(&tracker, 0, SESSION, later));
}

TEST(assignment_of_a_record_that_is_given_up_before_it_is_written_does_not_settle_it)
{
    uint64_t mine;

    (void)begin_in(KS_SLOT_WRITTEN);
    (void)ks_tracker_recall(&tracker, 0);
    mine = assign(SESSION, 1);
    EXPECT_EQ_U64(ks_tracker_kill(&tracker, 0, KS_CAUSE_ASKED).records, 1);
    EXPECT(!ks_tracker_may_settle(&tracker, 0, SESSION, mine));
}

TEST(record_that_was_taken_back_half_way_and_finished_counts_for_its_session)
{
    uint64_t mine = begin_in(KS_SLOT_BEGUN);
    uint64_t other;

    (void)ks_tracker_recall(&tracker, 0);
    EXPECT(!ks_tracker_written(&tracker, 0, mine, SESSION, at_ms(60000)));
    EXPECT_EQ_I64(state_of(0), KS_SLOT_PENDING);
    EXPECT_EQ_U64(ks_tracker_slot(&tracker, 0)->attempts, 1);
    EXPECT(ks_tracker_may_settle(&tracker, 0, SESSION, mine));
    EXPECT(ks_tracker_may_settle(&tracker, 0, SESSION, 0));

    /* But not if another session has got it meanwhile. */
    mine = begin_in(KS_SLOT_BEGUN);
    (void)ks_tracker_recall(&tracker, 0);
    other = assign(OTHER_SESSION, 1);
    EXPECT(ks_tracker_written(&tracker, 0, other, OTHER_SESSION, at_ms(60000)));
    EXPECT(!ks_tracker_written(&tracker, 0, mine, SESSION, at_ms(60000)));
    EXPECT_EQ_U64(ks_tracker_slot(&tracker, 0)->seen_by, OTHER_SESSION);
    EXPECT(ks_tracker_may_settle(&tracker, 0, OTHER_SESSION, other));
    EXPECT(!ks_tracker_may_settle(&tracker, 0, SESSION, mine));
}

static uint32_t next_attempt(void)
{
    struct ks_tracker_run run;

    EXPECT(next(T0, 1, UINT64_MAX, &run));
    return run.attempt;
}

TEST(record_that_was_taken_back_half_way_keeps_its_attempt_number)
{
    uint64_t mine = begin_in(KS_SLOT_BEGUN);
    uint64_t other;

    (void)ks_tracker_recall(&tracker, 0);
    EXPECT_EQ_U64(next_attempt(), 2);
    other = assign(OTHER_SESSION, 1);
    ks_tracker_begin(&tracker, 0, other);
    (void)ks_tracker_recall(&tracker, 0);
    EXPECT_EQ_U64(next_attempt(), 3);
    EXPECT(!ks_tracker_written(&tracker, 0, other, OTHER_SESSION, at_ms(60000)));
    EXPECT_EQ_U64(ks_tracker_slot(&tracker, 0)->attempts, 1);
    EXPECT_EQ_U64(next_attempt(), 3);
    EXPECT(!ks_tracker_written(&tracker, 0, mine, SESSION, at_ms(60000)));
    EXPECT_EQ_U64(ks_tracker_slot(&tracker, 0)->attempts, 2);
    EXPECT_EQ_U64(next_attempt(), 3);
    EXPECT_EQ_U64(tracker.half_way, 0);
}

TEST(record_whose_connection_broke_half_way_has_no_attempt_more)
{
    uint64_t mine = begin_in(KS_SLOT_BEGUN);

    EXPECT_EQ_U64(tracker.half_way, 1);
    EXPECT_EQ_U64(ks_tracker_torn(&tracker, 0, mine).records, 1);
    EXPECT_EQ_U64(next_attempt(), 1);
    EXPECT_EQ_U64(tracker.half_way, 0);

    /* Nor if it was taken back before, and no later delivery has a number. */
    mine = begin_in(KS_SLOT_BEGUN);
    (void)ks_tracker_recall(&tracker, 0);
    EXPECT_EQ_U64(ks_tracker_torn(&tracker, 0, mine).records, 0);
    EXPECT_EQ_U64(next_attempt(), 1);

    mine = begin_in(KS_SLOT_BEGUN);
    (void)ks_tracker_recall(&tracker, 0);
    ks_tracker_begin(&tracker, 0, assign(OTHER_SESSION, 1));
    EXPECT(ks_tracker_written(&tracker, 0, assignment, OTHER_SESSION, at_ms(60000)));
    (void)ks_tracker_recall(&tracker, 0);
    EXPECT_EQ_U64(ks_tracker_torn(&tracker, 0, mine).records, 0);
    EXPECT_EQ_U64(next_attempt(), 3);
    EXPECT_EQ_U64(tracker.half_way, 0);
}

TEST(settled_record_is_half_way_until_its_delivery_was_written)
{
    uint64_t mine;

    (void)assign_again(OTHER_SESSION);
    mine = assignment;
    ks_tracker_begin(&tracker, 0, mine);
    (void)ks_tracker_settle(&tracker, 0);
    EXPECT_EQ_U64(tracker.mark, 1);
    EXPECT_EQ_U64(tracker.half_way, 1);
    EXPECT(!ks_tracker_written(&tracker, 0, mine, OTHER_SESSION, at_ms(60000)));
    EXPECT_EQ_U64(tracker.half_way, 0);
}

TEST(forgotten_session_leaves_its_successor_no_right_to_settle)
{
    (void)assign_again(SESSION);
    ks_tracker_forget_session(&tracker, OTHER_SESSION);
    EXPECT(ks_tracker_may_settle(&tracker, 0, SESSION, 0));
    ks_tracker_forget_session(&tracker, SESSION);
    EXPECT_EQ_U64(ks_tracker_slot(&tracker, 0)->seen_by, KS_SEEN_BY_NONE);
    EXPECT(!ks_tracker_may_settle(&tracker, 0, SESSION, 0));
}

TEST(tracker_is_quiet_until_a_record_is_begun_and_after_it_is_settled)
{
    uint64_t mine;

    begin(3);
    EXPECT(ks_tracker_is_quiet(&tracker));
    mine = assign(SESSION, 3);
    EXPECT(ks_tracker_is_quiet(&tracker));
    ks_tracker_begin(&tracker, 0, mine);
    ks_tracker_begin(&tracker, 1, mine);
    EXPECT(!ks_tracker_is_quiet(&tracker));
    EXPECT(ks_tracker_written(&tracker, 0, mine, SESSION, at_ms(60000)));
    EXPECT(!ks_tracker_is_quiet(&tracker));
    ks_tracker_settle(&tracker, 1);
    EXPECT(!ks_tracker_is_quiet(&tracker));
    ks_tracker_settle(&tracker, 0);
    EXPECT(ks_tracker_is_quiet(&tracker));
}

TEST(tracker_with_a_record_that_broke_in_its_connection_is_not_quiet)
{
    uint64_t mine = begin_in(KS_SLOT_BEGUN);

    (void)ks_tracker_torn(&tracker, 0, mine);
    EXPECT(!ks_tracker_is_quiet(&tracker));
    ks_tracker_settle(&tracker, 0);
    EXPECT(ks_tracker_is_quiet(&tracker));
}
