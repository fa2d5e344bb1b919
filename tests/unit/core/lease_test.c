/* SPDX-License-Identifier: Apache-2.0 */
#include "core/lease.h"

#include "core/session.h"

#include "ks_test.h"
#include "unit/core/bed.h"

static struct bed bed;
static struct ks_lease *lease;
static ks_session_id session;

/* A lease of shard 0, epoch 3, rev 7, with `settled` of 10 delivered records acknowledged. */
static void begin(uint32_t settled)
{
    bed_live(&bed);
    bed.core->fleet.deadline = KS_NEVER;
    bed.core->fleet.serial = UINT32_MAX; /* No heartbeat comes between. */
    session = bed_session(&bed, 100, 1 << 20);
    lease = bed_hold(&bed, 0, 3);
    bed_settle_down(&bed);
    bed_records(&bed, 0, 10, 100, false);
    EXPECT_EQ_I64(bed_pull(&bed, session, 10), 10);
    if (settled > 0)
        EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, settled, KS_ACK, 0), KS_SETTLE_OK);
    bed_tick(&bed);
}

static struct ks_lease_row row(ks_epoch epoch, uint64_t rev)
{
    return (struct ks_lease_row){
        .shard = 0,
        .owner = bed.core->fleet.self,
        .epoch = epoch,
        .rev = rev,
        .parents = {KS_SHARD_NONE, KS_SHARD_NONE},
    };
}

static const struct ks_store_effect *must_ask(enum ks_store_operation operation)
{
    const struct ks_store_effect *asked = bed_asked(&bed, operation);

    EXPECT(asked != NULL);
    return asked;
}

TEST(a_watermark_that_moved_is_checkpointed_with_the_owners_rev)
{
    const struct ks_store_effect *write;

    begin(4);
    write = must_ask(KS_STORE_CHECKPOINT);
    EXPECT_EQ_I64(write->up_to, 4);
    EXPECT_EQ_I64(write->epoch, 3);
    EXPECT_EQ_I64(write->rev, 7);
    bed_answer(&bed, write->token, KS_DONE);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_PERSISTED, 0)->lease.number, 4);
    EXPECT_EQ_I64(lease->rev, 8);

    /* The next one is coalesced until the interval is over. */
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 4, 2, KS_ACK, 0), KS_SETTLE_OK);
    bed_wait(&bed, 4000);
    EXPECT(bed_asked(&bed, KS_STORE_CHECKPOINT) == NULL);
    bed_wait(&bed, 1000);
    EXPECT_EQ_I64(must_ask(KS_STORE_CHECKPOINT)->up_to, 6);
}

TEST(whoever_holds_all_that_it_can_says_so)
{
    bed_live(&bed);
    for (ks_shard shard = 0; shard < bed.core->config.leases_max; shard++) {
        EXPECT(!bed_told(&bed, KS_STORY_HOLDS_ALL));
        EXPECT(bed_hold(&bed, shard, 1) != NULL);
    }
    EXPECT(bed_told(&bed, KS_STORY_HOLDS_ALL));
}

TEST(whoever_waits_for_persisted_does_not_wait_for_the_interval)
{
    struct ks_event persist = {.kind = KS_EVENT_PERSIST};

    begin(1);
    bed_answer(&bed, must_ask(KS_STORE_CHECKPOINT)->token, KS_DONE);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 1, 1, KS_ACK, 0), KS_SETTLE_OK);
    bed_step(&bed, &persist);
    bed_tick(&bed);
    EXPECT_EQ_I64(must_ask(KS_STORE_CHECKPOINT)->up_to, 2);
}

TEST(an_unknown_checkpoint_is_read_back_and_the_next_carries_the_same_rev)
{
    struct ks_lease_row unmoved;

    begin(4);
    bed_answer(&bed, must_ask(KS_STORE_CHECKPOINT)->token, KS_UNKNOWN);
    EXPECT(bed_asked(&bed, KS_STORE_CHECKPOINT) == NULL);
    bed_wait(&bed, 200);
    unmoved = row(3, 7);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 4, 1, KS_ACK, 0), KS_SETTLE_OK);
    bed.effects.count = 0;
    EXPECT_EQ_I64(lease->write, KS_WRITE_REREAD);
    bed_answer_lease(&bed, ks_token_make(KS_FOR_LEASE, 0, lease->serial), &unmoved);
    bed_wait(&bed, 5000);
    EXPECT_EQ_I64(must_ask(KS_STORE_CHECKPOINT)->rev, 7);
    EXPECT_EQ_I64(must_ask(KS_STORE_CHECKPOINT)->up_to, 5);
}

TEST(an_unknown_checkpoint_that_was_applied_counts_as_the_least_it_can_be)
{
    struct ks_lease_row moved;

    begin(4);
    bed_answer(&bed, must_ask(KS_STORE_CHECKPOINT)->token, KS_UNKNOWN);
    bed_wait(&bed, 200);
    moved = row(3, 8);
    bed_answer_lease(&bed, must_ask(KS_STORE_READ_LEASE)->token, &moved);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_PERSISTED, 0)->lease.number, 4);
    EXPECT_EQ_I64(lease->rev, 8);
}

TEST(what_somebody_else_has_by_now_is_not_ours_to_save)
{
    struct ks_event drain = {.kind = KS_EVENT_DRAIN, .drain = {ks_span_ms(1000)}};
    struct ks_lease_row taken;

    begin(4);
    bed_answer(&bed, must_ask(KS_STORE_CHECKPOINT)->token, KS_REFUSED);
    bed_step(&bed, &drain);
    taken = row(4, 7);
    taken.owner = (struct ks_incarnation){BED_OTHER, 5};
    bed_answer_lease(&bed, ks_token_make(KS_FOR_LEASE, 0, lease->serial), &taken);
    EXPECT_EQ_I64(bed.core->leases_used, 0);
    EXPECT(!bed.core->drain_clean);
    EXPECT_EQ_U64(bed.core->drain_unsaved, 0);
}

TEST(a_refused_write_reads_before_the_next_and_ends_the_epoch_if_it_is_over)
{
    struct ks_lease_row taken;

    begin(4);
    bed_answer(&bed, must_ask(KS_STORE_CHECKPOINT)->token, KS_REFUSED);
    taken = row(4, 7);
    taken.owner = (struct ks_incarnation){BED_OTHER, 5};
    bed_answer_lease(&bed, must_ask(KS_STORE_READ_LEASE)->token, &taken);
    EXPECT(bed_effect(&bed, KS_EFFECT_CLOSE, 0) != NULL);
    EXPECT(bed_told(&bed, KS_STORY_LOST));
    EXPECT_EQ_I64(bed.core->leases_used, 0);
    EXPECT_EQ_I64(bed.core->directory[0].ended, 3);
    EXPECT_EQ_I64(bed.core->sessions[session].in_flight, 0);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 4, 1, KS_ACK, 0), KS_SETTLE_FENCED);
}

TEST(an_idle_lease_is_looked_at_now_and_then_and_ends_if_its_row_is_gone)
{
    struct ks_lease_row read;

    begin(10);
    bed_answer(&bed, must_ask(KS_STORE_CHECKPOINT)->token, KS_DONE);
    bed_wait(&bed, 9000);
    EXPECT(bed_asked(&bed, KS_STORE_READ_LEASE) == NULL);
    bed_wait(&bed, 1000);
    read = row(3, 8);
    bed_answer_lease(&bed, must_ask(KS_STORE_READ_LEASE)->token, &read);
    EXPECT_EQ_I64(bed.core->leases_used, 1);
    EXPECT(bed_asked(&bed, KS_STORE_READ_LEASE) == NULL);
    bed_wait(&bed, 10000);
    bed_answer(&bed, must_ask(KS_STORE_READ_LEASE)->token, KS_DONE);
    EXPECT(bed_told(&bed, KS_STORY_LOST));
    EXPECT_EQ_I64(bed.core->leases_used, 0);
}

TEST(leases_are_looked_at_in_turn)
{
    ks_shard first;

    begin(10);
    bed_answer(&bed, must_ask(KS_STORE_CHECKPOINT)->token, KS_DONE);
    bed_hold(&bed, 1, 5);
    bed_wait(&bed, 10000);
    first = must_ask(KS_STORE_READ_LEASE)->shard;
    bed_wait(&bed, 10000);
    EXPECT_EQ_I64(must_ask(KS_STORE_READ_LEASE)->shard, 1 - first);
}

TEST(a_row_that_was_deleted_and_made_again_ends_the_epoch)
{
    struct ks_lease_row again;

    begin(4);
    bed_answer(&bed, must_ask(KS_STORE_CHECKPOINT)->token, KS_REFUSED);
    again = row(3, 0); /* Even if we own it again, in the epoch of this number. */
    bed_answer_lease(&bed, must_ask(KS_STORE_READ_LEASE)->token, &again);
    EXPECT(bed_told(&bed, KS_STORY_LOST));
    EXPECT_EQ_I64(bed.core->leases_used, 0);
}

TEST(a_row_that_we_cannot_have_written_is_not_the_one_that_we_hold)
{
    struct ks_lease_row again;

    begin(4);
    bed_answer(&bed, must_ask(KS_STORE_CHECKPOINT)->token, KS_REFUSED);
    again = row(
        3, 9); /* It came to our epoch by chance, and has one write more than we can have made. */
    bed_answer_lease(&bed, must_ask(KS_STORE_READ_LEASE)->token, &again);
    EXPECT(bed_told(&bed, KS_STORY_LOST));
    EXPECT_EQ_I64(bed.core->leases_used, 0);
}

TEST(a_return_settles_first_then_reads_then_writes_its_last_word)
{
    struct ks_lease_row read;

    begin(10);
    bed_answer(&bed, must_ask(KS_STORE_CHECKPOINT)->token, KS_DONE);
    EXPECT_EQ_I64(bed_pull(&bed, session, 1), 0);
    bed.effects.count = 0;
    ks_lease_return(bed.core, lease);
    EXPECT(!ks_lease_may_deliver(bed.core, lease));
    bed_tick(&bed);
    read = row(3, 8);
    bed_answer_lease(&bed, must_ask(KS_STORE_READ_LEASE)->token, &read);
    EXPECT_EQ_I64(must_ask(KS_STORE_FINAL)->rev, 8);
    EXPECT_EQ_I64(must_ask(KS_STORE_FINAL)->up_to, 10);
    EXPECT(lease->given_up);
    bed_answer(&bed, must_ask(KS_STORE_FINAL)->token, KS_DONE);
    EXPECT(bed_told(&bed, KS_STORY_RELEASED));
    EXPECT_EQ_I64(bed.core->leases_used, 0);
}

TEST(a_final_write_that_is_done_mends_no_damaged_row)
{
    struct ks_lease_row read;

    begin(10);
    bed_answer(&bed, must_ask(KS_STORE_CHECKPOINT)->token, KS_DONE);
    ks_lease_return(bed.core, lease);
    bed_tick(&bed);
    read = row(3, 8);
    bed_answer_lease(&bed, must_ask(KS_STORE_READ_LEASE)->token, &read);
    bed.core->directory[read.shard].damaged = true; /* As a look showed it meanwhile. */
    bed_answer(&bed, must_ask(KS_STORE_FINAL)->token, KS_DONE);
    EXPECT_EQ_I64(bed.core->leases_used, 0);
    EXPECT(bed.core->directory[read.shard].damaged);
}

TEST(a_return_waits_for_what_is_in_flight)
{
    begin(9);
    bed_answer(&bed, must_ask(KS_STORE_CHECKPOINT)->token, KS_DONE);
    bed.effects.count = 0;
    ks_lease_return(bed.core, lease);
    lease->checked = true;
    bed_wait(&bed, 4999);
    EXPECT(bed_asked(&bed, KS_STORE_FINAL) == NULL);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 9, 1, KS_ACK, 0), KS_SETTLE_OK);
    bed_tick(&bed);
    EXPECT_EQ_I64(must_ask(KS_STORE_FINAL)->up_to, 10);
}

TEST(after_an_unknown_final_write_nothing_is_delivered_or_acknowledged_and_it_is_repeated)
{
    struct ks_lease_row read;

    begin(9);
    bed_answer(&bed, must_ask(KS_STORE_CHECKPOINT)->token, KS_DONE);
    bed.effects.count = 0;
    ks_lease_return(bed.core, lease);
    bed.core->draining = true;
    bed.core->patience_at = bed.now;
    lease->checked = true;
    bed_tick(&bed);
    bed_answer(&bed, must_ask(KS_STORE_FINAL)->token, KS_UNKNOWN);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 9, 1, KS_ACK, 0), KS_SETTLE_FENCED);
    bed_wait(&bed, 200);
    read = row(3, 8);
    bed_answer_lease(&bed, must_ask(KS_STORE_READ_LEASE)->token, &read);
    EXPECT_EQ_I64(must_ask(KS_STORE_FINAL)->rev, 8);
    bed_answer(&bed, must_ask(KS_STORE_FINAL)->token, KS_UNKNOWN);
    bed_wait(&bed, 400);
    read = row(4, 9);
    read.owner = KS_NOBODY; /* It was applied after all. */
    bed_answer_lease(&bed, must_ask(KS_STORE_READ_LEASE)->token, &read);
    EXPECT(bed_told(&bed, KS_STORY_RELEASED));
}

/* Refuses the write of `operation`, shows the row as we hold it, and sees the same again after `ms` and no sooner. */
static void refuse(enum ks_store_operation operation, int64_t ms)
{
    struct ks_lease_row read = row(3, lease->rev);

    bed_answer(&bed, must_ask(operation)->token, KS_REFUSED);
    bed_answer_lease(&bed, must_ask(KS_STORE_READ_LEASE)->token, &read);
    bed_settle_down(&bed);
    EXPECT(bed_asked(&bed, operation) == NULL);
    bed_wait(&bed, ms - 1);
    EXPECT(bed_asked(&bed, operation) == NULL);
    bed_wait(&bed, 1);
    EXPECT(bed_asked(&bed, operation) != NULL);
}

TEST(a_write_that_is_refused_for_no_reason_to_be_seen_is_repeated_ever_later)
{
    struct ks_lease_row read;

    begin(9);
    lease->hurry = true; /* Somebody waits for it. */
    refuse(KS_STORE_CHECKPOINT, 200);
    bed_answer(&bed, must_ask(KS_STORE_CHECKPOINT)->token, KS_DONE);

    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 9, 1, KS_ACK, 0), KS_SETTLE_OK);
    ks_lease_return(bed.core, lease);
    bed_tick(&bed);
    read = row(3, lease->rev);
    bed_answer_lease(&bed, must_ask(KS_STORE_READ_LEASE)->token, &read);
    refuse(KS_STORE_FINAL, 200);
    refuse(KS_STORE_FINAL, 400);
    refuse(KS_STORE_FINAL, 800);
    bed_answer(&bed, must_ask(KS_STORE_FINAL)->token, KS_DONE);
    EXPECT(bed_told(&bed, KS_STORY_RELEASED));

    begin(0);
    bed_settle_down(&bed);
    bed_wait(&bed, 1000);
    bed_records(&bed, 0, 0, 0, true);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 10, KS_ACK, 0), KS_SETTLE_OK);
    bed_tick(&bed);
    refuse(KS_STORE_END, 200);
    refuse(KS_STORE_END, 400);
}

TEST(a_final_write_that_named_another_next_owner_is_repeated_at_once)
{
    struct ks_lease_row read;

    begin(10);
    bed_answer(&bed, must_ask(KS_STORE_CHECKPOINT)->token, KS_DONE);
    ks_lease_return(bed.core, lease);
    bed_tick(&bed);
    read = row(3, 8);
    bed_answer_lease(&bed, must_ask(KS_STORE_READ_LEASE)->token, &read);
    bed_answer(&bed, must_ask(KS_STORE_FINAL)->token, KS_REFUSED);
    read.next_owner = (struct ks_incarnation){BED_OTHER, 5};
    bed_answer_lease(&bed, must_ask(KS_STORE_READ_LEASE)->token, &read);
    EXPECT_EQ_I64(must_ask(KS_STORE_FINAL)->next_owner.worker, BED_OTHER);
}

TEST(a_shard_that_is_read_to_its_end_and_settled_is_ended)
{
    begin(0);
    bed_settle_down(&bed);
    bed_wait(&bed, 1000);
    bed_records(&bed, 0, 0, 0, true);
    EXPECT(bed_asked(&bed, KS_STORE_END) == NULL); /* Ten are unsettled. */
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 10, KS_ACK, 0), KS_SETTLE_OK);
    bed_tick(&bed);
    bed_answer(&bed, must_ask(KS_STORE_END)->token, KS_DONE);
    EXPECT(bed_told(&bed, KS_STORY_SHARD_END));
    EXPECT(bed.core->directory[0].finished);
    EXPECT_EQ_I64(bed_effect(&bed, KS_EFFECT_PERSISTED, 0)->lease.number, 10);
}

TEST(past_the_lease_deadline_nothing_may_leave_but_acks_count)
{
    begin(0);
    bed.core->fleet.deadline = bed.now;
    EXPECT(!ks_core_may_finish(bed.core, 0, 3, bed.now));
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 5, KS_RETRY, 0), KS_SETTLE_OK);
    EXPECT_EQ_I64(bed_pull(&bed, session, 10), 0);
    EXPECT_EQ_I64(ks_core_session_idle(bed.core, session, NULL), KS_IDLE_FENCED);
    EXPECT_EQ_I64(bed_settle(&bed, session, 0, 0, 5, KS_ACK, 0), KS_SETTLE_OK);
    EXPECT_EQ_I64(lease->tracker.mark, 5);
}

TEST(the_patience_of_a_hand_over_ends_and_what_is_in_flight_comes_again_elsewhere)
{
    struct ks_lease_row read;

    begin(4);
    bed_answer(&bed, must_ask(KS_STORE_CHECKPOINT)->token, KS_DONE);
    ks_lease_return(bed.core, lease);
    bed_wait(&bed, 4999);
    EXPECT(bed_asked(&bed, KS_STORE_READ_LEASE) == NULL);
    EXPECT(bed_told(&bed, KS_STORY_RETURNING));
    bed_wait(&bed, 1);
    read = row(3, 8);
    read.next_owner = (struct ks_incarnation){BED_OTHER, 5};
    bed_answer_lease(&bed, must_ask(KS_STORE_READ_LEASE)->token, &read);
    EXPECT_EQ_I64(must_ask(KS_STORE_FINAL)->next_owner.worker, BED_OTHER);
    EXPECT_EQ_I64(must_ask(KS_STORE_FINAL)->up_to, 4);
    bed_answer(&bed, must_ask(KS_STORE_FINAL)->token, KS_DONE);
    EXPECT_EQ_I64(bed.core->directory[0].owner.worker, BED_OTHER);
    EXPECT_EQ_I64(bed.core->directory[0].next_owner.worker, 0); /* The move is made, once. */
}

TEST(a_row_of_ours_that_names_a_next_owner_is_a_give)
{
    struct ks_lease_row read;

    begin(4);
    bed_answer(&bed, must_ask(KS_STORE_CHECKPOINT)->token, KS_REFUSED);
    read = row(3, 7);
    read.next_owner = (struct ks_incarnation){BED_OTHER, 5};
    bed_answer_lease(&bed, must_ask(KS_STORE_READ_LEASE)->token, &read);
    EXPECT_EQ_I64(lease->state, KS_LEASE_RETURNING);
}

/* ---- Load. ---- */

TEST(a_checkpoint_tells_what_the_shard_brings_and_once_more_that_it_brings_nothing)
{
    bed_live(&bed);
    bed.core->fleet.deadline = KS_NEVER;
    bed.core->fleet.serial = UINT32_MAX;
    bed.core->config.load_least = 1000;
    bed_hold(&bed, 0, 3);
    bed.core->look_at = KS_NEVER; /* No read comes between. */
    session = bed_session(&bed, 64, 1 << 20);
    bed_wait(&bed, 2000);
    bed_records(&bed, 0, 10, 1000, false);
    EXPECT_EQ_I64(bed_pull(&bed, session, 10), 10);
    bed_settle(&bed, session, 0, 0, 10, KS_ACK, 0);
    bed_tick(&bed);
    EXPECT_EQ_U64(bed_asked(&bed, KS_STORE_CHECKPOINT)->load,
                  2500); /* 10,000 in 2 s, and 0 before. */
    bed_answer(&bed, bed_asked(&bed, KS_STORE_CHECKPOINT)->token, KS_DONE);
    bed_wait(&bed, 30000);
    EXPECT(bed_asked(&bed, KS_STORE_CHECKPOINT) == NULL);
    bed_wait(&bed, 31000);
    EXPECT_EQ_U64(bed_asked(&bed, KS_STORE_CHECKPOINT)->load, 0);
    bed_answer(&bed, bed_asked(&bed, KS_STORE_CHECKPOINT)->token, KS_DONE);
    bed_wait(&bed, 100000);
    EXPECT(bed_asked(&bed, KS_STORE_CHECKPOINT) == NULL);
}

/* A leader plans a move of its own lease while a read of that row is under way: what the read shows is older. */
TEST(read_that_was_asked_for_before_a_write_of_the_row_is_no_news)
{
    struct ks_directory_entry *entry;
    struct ks_lease_row unmoved;

    begin(4);
    bed_answer(&bed, must_ask(KS_STORE_CHECKPOINT)->token, KS_UNKNOWN);
    bed_wait(&bed, 200);
    entry = &bed.core->directory[0];
    entry->present = true;
    entry->epoch = 3;
    entry->next_owner = (struct ks_incarnation){BED_OTHER, 9};
    entry->known = bed.core->next_serial;
    unmoved = row(3, 7);
    bed_answer_lease(&bed, must_ask(KS_STORE_READ_LEASE)->token, &unmoved);
    EXPECT_EQ_I64(entry->next_owner.worker, BED_OTHER);
}
