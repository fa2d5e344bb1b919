/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/lease_store_suite.h"

#include <string.h>

typedef struct ks_store_request request;

static const char S[] = "shardId-000000000001";

/* 129 digits, as many as there can be. */
static const char LONGEST[] = "9876543210987654321098765432109876543210987"
                              "6543210987654321098765432109876543210987654"
                              "3210987654321098765432109876543210987654321";

/* The checkpoint of a@1 at (epoch, rev). */
static request checkpoint(uint64_t epoch, uint64_t rev, const char *sequence)
{
    return (request){.operation = KS_STORE_CHECKPOINT,
                     .shard = S,
                     .worker = lease_who("a", 1),
                     .epoch = epoch,
                     .rev = rev,
                     .checkpoint = lease_after(sequence)};
}

static enum ks_outcome plan(struct lease_rig *rig, const char *next, uint64_t boot)
{
    return lease_do(rig, (request){.operation = KS_STORE_PLAN,
                                   .shard = S,
                                   .owner = lease_who("a", 1),
                                   .epoch = 1,
                                   .next_owner = lease_who(next, boot)});
}

void lease_suite_a_lease_is_made_once(struct lease_rig *rig)
{
    struct ks_store_lease lease = {.checkpoint = {.kind = KS_POSITION_TRIM_HORIZON},
                                   .parents = {"shardId-000000000009", "shardId-000000000003"},
                                   .hash_start = "170141183460469231731687303715884105728",
                                   .hash_end = "340282366920938463463374607431768211455"};
    const request make = {.operation = KS_STORE_CREATE, .shard = S, .lease = &lease};
    struct ks_store_lease row;

    memcpy(lease.shard, S, sizeof(S));
    EXPECT_EQ_I64(lease_do(rig, make), KS_DONE);
    lease.checkpoint.kind = KS_POSITION_LATEST;
    EXPECT_EQ_I64(lease_do(rig, make), KS_REFUSED);

    row = lease_row(rig, S);
    EXPECT(!row.damaged);
    EXPECT(!row.finished);
    EXPECT_STR(row.owner.id, "");
    EXPECT_STR(row.next_owner.id, "");
    EXPECT_EQ_U64(row.epoch, 0);
    EXPECT_EQ_U64(row.rev, 0);
    EXPECT_EQ_I64(row.checkpoint.kind, KS_POSITION_TRIM_HORIZON);
    EXPECT_STR(row.parents[0], "shardId-000000000003");
    EXPECT_STR(row.parents[1], "shardId-000000000009");
    EXPECT_STR(row.children[0], "");
    EXPECT_STR(row.hash_start, "170141183460469231731687303715884105728");
    EXPECT_STR(row.hash_end, "340282366920938463463374607431768211455");
}

void lease_suite_only_a_free_lease_is_assigned(struct lease_rig *rig)
{
    request assign = {.operation = KS_STORE_ASSIGN, .shard = S, .worker = lease_who("a", 1)};
    struct ks_store_lease row;

    EXPECT_EQ_I64(lease_do(rig, assign), KS_REFUSED);
    EXPECT(!lease_has_row(rig, S));
    lease_create(rig, S);
    assign.epoch = 1;
    EXPECT_EQ_I64(lease_do(rig, assign), KS_REFUSED);
    assign.epoch = 0;
    EXPECT_EQ_I64(lease_do(rig, assign), KS_DONE);
    row = lease_row(rig, S);
    EXPECT(lease_is(&row.owner, "a", 1));
    EXPECT_EQ_U64(row.epoch, 1);
    EXPECT_EQ_U64(row.rev, 0);

    /* It has an owner now. */
    assign.epoch = 1;
    assign.worker = lease_who("b", 1);
    EXPECT_EQ_I64(lease_do(rig, assign), KS_REFUSED);

    /* And is finished then. */
    EXPECT_EQ_I64(lease_do(rig, (request){.operation = KS_STORE_END,
                                          .shard = S,
                                          .worker = lease_who("a", 1),
                                          .epoch = 1}),
                  KS_DONE);
    assign.epoch = 2;
    EXPECT_EQ_I64(lease_do(rig, assign), KS_REFUSED);
    EXPECT_STR(lease_row(rig, S).owner.id, "");
}

void lease_suite_a_take_over_needs_owner_and_epoch(struct lease_rig *rig)
{
    const request take = {.operation = KS_STORE_TAKE_OVER,
                          .shard = S,
                          .owner = lease_who("a", 1),
                          .epoch = 1,
                          .worker = lease_who("b", 5)};
    request wrong = take;
    struct ks_store_lease row;

    EXPECT_EQ_I64(lease_do(rig, take), KS_REFUSED);
    EXPECT(!lease_has_row(rig, S));
    lease_hold(rig, S, "a", 1);
    EXPECT_EQ_I64(plan(rig, "c", 3), KS_DONE);
    wrong.epoch = 0;
    EXPECT_EQ_I64(lease_do(rig, wrong), KS_REFUSED);
    wrong.epoch = 2;
    EXPECT_EQ_I64(lease_do(rig, wrong), KS_REFUSED);
    wrong = take;
    wrong.owner.boot = 2;
    EXPECT_EQ_I64(lease_do(rig, wrong), KS_REFUSED);
    EXPECT_EQ_I64(lease_do(rig, take), KS_DONE);

    row = lease_row(rig, S);
    EXPECT(lease_is(&row.owner, "b", 5));
    EXPECT_STR(row.next_owner.id, "");
    EXPECT_EQ_U64(row.epoch, 2);
    EXPECT_EQ_U64(row.rev, 0);
    EXPECT_EQ_I64(lease_do(rig, take), KS_REFUSED);
}

void lease_suite_a_plan_names_and_forgets_the_next_owner(struct lease_rig *rig)
{
    request wrong = {.operation = KS_STORE_PLAN,
                     .shard = S,
                     .owner = lease_who("a", 1),
                     .epoch = 1,
                     .next_owner = lease_who("b", 2)};
    struct ks_store_lease row;

    EXPECT_EQ_I64(lease_do(rig, wrong), KS_REFUSED);
    EXPECT(!lease_has_row(rig, S));
    lease_hold(rig, S, "a", 1);
    EXPECT_EQ_I64(plan(rig, "b", 2), KS_DONE);
    row = lease_row(rig, S);
    EXPECT(lease_is(&row.next_owner, "b", 2));
    EXPECT(lease_is(&row.owner, "a", 1));
    EXPECT_EQ_U64(row.epoch, 1);
    EXPECT_EQ_U64(row.rev, 0);
    EXPECT_EQ_I64(plan(rig, "", 0), KS_DONE);
    EXPECT_STR(lease_row(rig, S).next_owner.id, "");

    wrong.epoch = 2;
    EXPECT_EQ_I64(lease_do(rig, wrong), KS_REFUSED);
    wrong.epoch = 1;
    wrong.owner = lease_who("b", 1);
    EXPECT_EQ_I64(lease_do(rig, wrong), KS_REFUSED);
    EXPECT_STR(lease_row(rig, S).next_owner.id, "");
}

void lease_suite_a_forced_lease_changes_hands(struct lease_rig *rig)
{
    const request force = {.operation = KS_STORE_FORCE,
                           .shard = S,
                           .owner = lease_who("a", 1),
                           .epoch = 1,
                           .worker = lease_who("b", 5)};
    request wrong = force;
    struct ks_store_lease row;

    EXPECT_EQ_I64(lease_do(rig, force), KS_REFUSED);
    EXPECT(!lease_has_row(rig, S));
    lease_hold(rig, S, "a", 1);
    EXPECT_EQ_I64(lease_do(rig, checkpoint(1, 0, "77")), KS_DONE);
    EXPECT_EQ_I64(plan(rig, "b", 5), KS_DONE);
    wrong.owner = lease_who("a", 9);
    EXPECT_EQ_I64(lease_do(rig, wrong), KS_REFUSED);
    wrong = force;
    wrong.epoch = 7;
    EXPECT_EQ_I64(lease_do(rig, wrong), KS_REFUSED);
    EXPECT_EQ_I64(lease_do(rig, force), KS_DONE);

    row = lease_row(rig, S);
    EXPECT(lease_is(&row.owner, "b", 5));
    EXPECT_STR(row.next_owner.id, "");
    EXPECT_EQ_U64(row.epoch, 2);
    EXPECT_EQ_U64(row.rev, 1);
    EXPECT_STR(row.checkpoint.sequence, "77");
    EXPECT_EQ_I64(lease_do(rig, checkpoint(1, 1, "99")), KS_REFUSED);
    EXPECT_STR(lease_row(rig, S).checkpoint.sequence, "77");
}

void lease_suite_a_checkpoint_needs_owner_epoch_and_rev(struct lease_rig *rig)
{
    request wrong = checkpoint(1, 0, "5");
    struct ks_store_lease row;

    EXPECT_EQ_I64(lease_do(rig, wrong), KS_REFUSED);
    EXPECT(!lease_has_row(rig, S));
    lease_hold(rig, S, "a", 1);
    wrong.worker.boot = 2;
    EXPECT_EQ_I64(lease_do(rig, wrong), KS_REFUSED);
    EXPECT_EQ_I64(lease_do(rig, checkpoint(0, 0, "5")), KS_REFUSED);
    EXPECT_EQ_I64(lease_do(rig, checkpoint(2, 0, "5")), KS_REFUSED);
    EXPECT_EQ_I64(lease_do(rig, checkpoint(1, 1, "5")), KS_REFUSED);
    EXPECT_EQ_I64(lease_row(rig, S).checkpoint.kind, KS_POSITION_TRIM_HORIZON);

    EXPECT_EQ_I64(lease_do(rig, checkpoint(1, 0, LONGEST)), KS_DONE);
    row = lease_row(rig, S);
    EXPECT_EQ_I64(row.checkpoint.kind, KS_POSITION_AFTER_SEQUENCE);
    EXPECT_STR(row.checkpoint.sequence, LONGEST);
    EXPECT_EQ_I64(row.checkpoint.sub_sequence, -1);
    EXPECT_EQ_U64(row.rev, 1);
    EXPECT_EQ_U64(row.epoch, 1);
    EXPECT(lease_is(&row.owner, "a", 1));

    /* A late one of its own owner: the rev has moved. */
    EXPECT_EQ_I64(lease_do(rig, checkpoint(1, 0, "4")), KS_REFUSED);
    EXPECT_EQ_I64(lease_do(rig, checkpoint(1, 1, "0")), KS_DONE);
    EXPECT_STR(lease_row(rig, S).checkpoint.sequence, "0");
    EXPECT_EQ_U64(lease_row(rig, S).rev, 2);
}

void lease_suite_a_final_write_hands_over(struct lease_rig *rig)
{
    const request final = {.operation = KS_STORE_FINAL,
                           .shard = S,
                           .worker = lease_who("a", 1),
                           .epoch = 1,
                           .rev = 0,
                           .next_owner = lease_who("b", 2),
                           .has_checkpoint = true,
                           .checkpoint = lease_after("42")};
    request wrong;
    struct ks_store_lease row;

    EXPECT_EQ_I64(lease_do(rig, final), KS_REFUSED);
    EXPECT(!lease_has_row(rig, S));
    lease_hold(rig, S, "a", 1);
    EXPECT_EQ_I64(plan(rig, "b", 2), KS_DONE);
    wrong = final;
    wrong.worker.boot = 3;
    EXPECT_EQ_I64(lease_do(rig, wrong), KS_REFUSED);
    wrong = final;
    wrong.epoch = 2;
    EXPECT_EQ_I64(lease_do(rig, wrong), KS_REFUSED);
    wrong = final;
    wrong.rev = 1;
    EXPECT_EQ_I64(lease_do(rig, wrong), KS_REFUSED);
    EXPECT_EQ_I64(lease_do(rig, final), KS_DONE);

    row = lease_row(rig, S);
    EXPECT(lease_is(&row.owner, "b", 2));
    EXPECT_STR(row.next_owner.id, "");
    EXPECT_EQ_U64(row.epoch, 2);
    EXPECT_EQ_U64(row.rev, 1);
    EXPECT_STR(row.checkpoint.sequence, "42");
    EXPECT_EQ_I64(lease_do(rig, final), KS_REFUSED);
}

void lease_suite_a_final_write_needs_next_owner_as_read(struct lease_rig *rig)
{
    request final = {.operation = KS_STORE_FINAL,
                     .shard = S,
                     .worker = lease_who("a", 1),
                     .epoch = 1,
                     .next_owner = lease_who("b", 2)};
    struct ks_store_lease row;

    lease_hold(rig, S, "a", 1);
    EXPECT_EQ_I64(lease_do(rig, final), KS_REFUSED);
    EXPECT_EQ_I64(plan(rig, "c", 2), KS_DONE);
    EXPECT_EQ_I64(lease_do(rig, final), KS_REFUSED);
    final.next_owner = lease_who("", 0);
    EXPECT_EQ_I64(lease_do(rig, final), KS_REFUSED);
    EXPECT_EQ_I64(plan(rig, "", 0), KS_DONE);
    EXPECT_EQ_I64(lease_do(rig, final), KS_DONE);

    row = lease_row(rig, S);
    EXPECT_STR(row.owner.id, "");
    EXPECT_EQ_U64(row.epoch, 2);
    EXPECT_EQ_U64(row.rev, 1);
}

void lease_suite_a_final_write_may_leave_the_checkpoint(struct lease_rig *rig)
{
    request aggregate = checkpoint(1, 0, "123");
    struct ks_store_lease row;

    lease_hold(rig, S, "a", 1);
    aggregate.checkpoint.sub_sequence = 9;
    EXPECT_EQ_I64(lease_do(rig, aggregate), KS_DONE);
    EXPECT_EQ_I64(lease_do(rig, (request){.operation = KS_STORE_FINAL,
                                          .shard = S,
                                          .worker = lease_who("a", 1),
                                          .epoch = 1,
                                          .rev = 1}),
                  KS_DONE);
    row = lease_row(rig, S);
    EXPECT_STR(row.owner.id, "");
    EXPECT_STR(row.checkpoint.sequence, "123");
    EXPECT_EQ_I64(row.checkpoint.sub_sequence, 9);
}

void lease_suite_the_load_of_a_lease_is_what_its_owner_wrote_last(struct lease_rig *rig)
{
    request write = checkpoint(1, 0, "5");
    request final = {.operation = KS_STORE_FINAL,
                     .shard = S,
                     .worker = lease_who("a", 1),
                     .epoch = 1,
                     .rev = 2,
                     .load = 77};

    lease_hold(rig, S, "a", 1);
    EXPECT_EQ_U64(lease_row(rig, S).load, 0);
    write.load = KS_ROW_LOAD_MAX;
    EXPECT_EQ_I64(lease_do(rig, write), KS_DONE);
    EXPECT_EQ_U64(lease_row(rig, S).load, KS_ROW_LOAD_MAX);
    write.rev = 1;
    write.load = 0;
    EXPECT_EQ_I64(lease_do(rig, write), KS_DONE);
    EXPECT_EQ_U64(lease_row(rig, S).load, 0);
    EXPECT_EQ_I64(lease_do(rig, final), KS_DONE);
    EXPECT_EQ_U64(lease_row(rig, S).load, 77);

    /* Whoever is next begins with it; a shard that is over has none. */
    EXPECT_EQ_I64(lease_do(rig, (request){.operation = KS_STORE_ASSIGN,
                                          .shard = S,
                                          .epoch = 2,
                                          .worker = lease_who("b", 1)}),
                  KS_DONE);
    EXPECT_EQ_U64(lease_row(rig, S).load, 77);
    EXPECT_EQ_I64(lease_do(rig, (request){.operation = KS_STORE_END,
                                          .shard = S,
                                          .worker = lease_who("b", 1),
                                          .epoch = 3,
                                          .rev = 3,
                                          .load = 77}),
                  KS_DONE);
    EXPECT_EQ_U64(lease_row(rig, S).load, 0);
}

void lease_suite_a_mended_row_says_what_a_person_wants(struct lease_rig *rig)
{
    struct ks_store_lease made = {.owner = lease_who("a", 1),
                                  .epoch = 4,
                                  .rev = 5,
                                  .checkpoint = lease_after("123"),
                                  .parents = {"shard-p", "shard-q"}};
    struct ks_store_lease wanted = {
        .checkpoint = {.kind = KS_POSITION_SHARD_END, .sub_sequence = -1},
        .children = {"shard-c"},
        .hash_start = "0",
        .hash_end = "9",
        .finished = true};
    const request fresh = {.operation = KS_STORE_MEND, .shard = S, .lease = &made};
    request mend = {.operation = KS_STORE_MEND,
                    .shard = S,
                    .lease = &wanted,
                    .exists = true,
                    .owner = lease_who("a", 1),
                    .epoch = 4,
                    .rev = 4,
                    .checkpoint = lease_after("123")};
    struct ks_store_lease row;

    memcpy(made.shard, S, strlen(S) + 1);
    memcpy(wanted.shard, S, strlen(S) + 1);
    EXPECT_EQ_I64(lease_do(rig, mend), KS_REFUSED);
    EXPECT_EQ_I64(lease_do(rig, fresh), KS_DONE);
    EXPECT_EQ_I64(lease_do(rig, fresh), KS_REFUSED);
    row = lease_row(rig, S);
    EXPECT_STR(row.owner.id, "a");
    EXPECT_STR(row.parents[1], "shard-q");
    EXPECT_EQ_I64(lease_do(rig, mend), KS_REFUSED);
    mend.rev = 5;
    mend.checkpoint = lease_after("122");
    EXPECT_EQ_I64(lease_do(rig, mend), KS_REFUSED);
    mend.checkpoint = lease_after("123");
    mend.owner = lease_who("a", 2);
    EXPECT_EQ_I64(lease_do(rig, mend), KS_REFUSED);
    mend.owner = lease_who("a", 1);
    EXPECT_EQ_I64(lease_do(rig, mend), KS_DONE);
    row = lease_row(rig, S);
    EXPECT_STR(row.owner.id, "");
    /* Neither falls, whatever is wanted. */
    EXPECT_EQ_U64(row.epoch, 5);
    EXPECT_EQ_U64(row.rev, 6);
    EXPECT(row.finished);
    EXPECT_STR(row.parents[0], "");
    EXPECT_STR(row.children[0], "shard-c");
    EXPECT_STR(row.hash_end, "9");
}

void lease_suite_a_seek_moves_the_checkpoint_and_the_epoch(struct lease_rig *rig)
{
    const request seek = {
        .operation = KS_STORE_SEEK,
        .shard = S,
        .worker = lease_who("a", 1),
        .epoch = 1,
        .rev = 1,
        .has_checkpoint = true,
        .checkpoint = {.kind = KS_POSITION_AT_TIMESTAMP, .timestamp_ms = 77, .sub_sequence = -1}};
    request wrong;
    struct ks_store_lease row;

    EXPECT_EQ_I64(lease_do(rig, seek), KS_REFUSED);
    EXPECT(!lease_has_row(rig, S));
    lease_hold(rig, S, "a", 1);
    EXPECT_EQ_I64(lease_do(rig, checkpoint(1, 0, "123")), KS_DONE);
    wrong = seek;
    wrong.worker = lease_who("a", 2);
    EXPECT_EQ_I64(lease_do(rig, wrong), KS_REFUSED);
    wrong = seek;
    wrong.epoch = 0;
    EXPECT_EQ_I64(lease_do(rig, wrong), KS_REFUSED);
    wrong = seek;
    wrong.rev = 0;
    EXPECT_EQ_I64(lease_do(rig, wrong), KS_REFUSED);
    EXPECT_EQ_I64(plan(rig, "b", 2), KS_DONE);
    EXPECT_EQ_I64(lease_do(rig, seek), KS_REFUSED);
    EXPECT_STR(lease_row(rig, S).checkpoint.sequence, "123");
    EXPECT_EQ_I64(plan(rig, "", 0), KS_DONE);
    EXPECT_EQ_I64(lease_do(rig, seek), KS_DONE);

    row = lease_row(rig, S);
    EXPECT_EQ_I64(row.checkpoint.kind, KS_POSITION_AT_TIMESTAMP);
    EXPECT_EQ_I64(row.checkpoint.timestamp_ms, 77);
    EXPECT_STR(row.owner.id, "a");
    EXPECT_EQ_U64(row.owner.boot, 1);
    EXPECT_EQ_U64(row.epoch, 2);
    EXPECT_EQ_U64(row.rev, 2);
    EXPECT_EQ_I64(lease_do(rig, seek), KS_REFUSED);
}

void lease_suite_the_end_of_a_shard_is_final(struct lease_rig *rig)
{
    const request end = {.operation = KS_STORE_END,
                         .shard = S,
                         .worker = lease_who("a", 1),
                         .epoch = 1,
                         .rev = 1,
                         .children = {"shardId-000000000012", "shardId-000000000011"}};
    request wrong;
    request aggregate = checkpoint(1, 0, "123");
    struct ks_store_lease row;

    EXPECT_EQ_I64(lease_do(rig, end), KS_REFUSED);
    EXPECT(!lease_has_row(rig, S));
    lease_hold(rig, S, "a", 1);
    aggregate.checkpoint.sub_sequence = 9;
    EXPECT_EQ_I64(lease_do(rig, aggregate), KS_DONE);
    EXPECT_EQ_I64(plan(rig, "b", 2), KS_DONE);
    wrong = end;
    wrong.worker = lease_who("b", 1);
    EXPECT_EQ_I64(lease_do(rig, wrong), KS_REFUSED);
    wrong = end;
    wrong.epoch = 0;
    EXPECT_EQ_I64(lease_do(rig, wrong), KS_REFUSED);
    wrong = end;
    wrong.rev = 0;
    EXPECT_EQ_I64(lease_do(rig, wrong), KS_REFUSED);
    EXPECT(!lease_row(rig, S).finished);
    EXPECT_EQ_I64(lease_do(rig, end), KS_DONE);

    row = lease_row(rig, S);
    EXPECT(row.finished);
    EXPECT_EQ_I64(row.checkpoint.kind, KS_POSITION_SHARD_END);
    EXPECT_EQ_I64(row.checkpoint.sub_sequence, -1);
    EXPECT_STR(row.owner.id, "");
    EXPECT_STR(row.next_owner.id, "");
    EXPECT_STR(row.children[0], "shardId-000000000011");
    EXPECT_STR(row.children[1], "shardId-000000000012");
    EXPECT_EQ_U64(row.epoch, 2);
    EXPECT_EQ_U64(row.rev, 2);
}

void lease_suite_only_a_finished_lease_is_deleted(struct lease_rig *rig)
{
    request away = {.operation = KS_STORE_DELETE, .shard = S, .epoch = 1};

    EXPECT_EQ_I64(lease_do(rig, away), KS_REFUSED);
    lease_hold(rig, S, "a", 1);
    EXPECT_EQ_I64(lease_do(rig, away), KS_REFUSED);
    EXPECT_EQ_I64(lease_do(rig, (request){.operation = KS_STORE_END,
                                          .shard = S,
                                          .worker = lease_who("a", 1),
                                          .epoch = 1}),
                  KS_DONE);
    EXPECT_EQ_I64(lease_do(rig, away), KS_REFUSED);
    EXPECT(lease_has_row(rig, S));
    away.epoch = 2;
    EXPECT_EQ_I64(lease_do(rig, away), KS_DONE);
    EXPECT(!lease_has_row(rig, S));
}

static void survives(struct lease_rig *rig, uint64_t rev, struct ks_position position)
{
    request write = checkpoint(1, rev, "1");
    struct ks_position read;

    write.checkpoint = position;
    EXPECT_EQ_I64(lease_do(rig, write), KS_DONE);
    read = lease_row(rig, S).checkpoint;
    EXPECT_EQ_I64(read.kind, position.kind);
    EXPECT_EQ_I64(read.timestamp_ms, position.timestamp_ms);
    EXPECT_STR(read.sequence, position.sequence);
    EXPECT_EQ_I64(read.sub_sequence, position.sub_sequence);
}

void lease_suite_every_position_survives(struct lease_rig *rig)
{
    struct ks_position position = {.kind = KS_POSITION_TRIM_HORIZON, .sub_sequence = -1};
    uint64_t rev = 0;

    lease_hold(rig, S, "a", 1);
    survives(rig, rev++, position);
    position.kind = KS_POSITION_LATEST;
    survives(rig, rev++, position);
    position.kind = KS_POSITION_AT_TIMESTAMP;
    survives(rig, rev++, position);
    position.timestamp_ms = 1795223831781;
    survives(rig, rev++, position);
    position.timestamp_ms = 0;
    position.kind = KS_POSITION_SHARD_END;
    survives(rig, rev++, position);
    position = lease_after(LONGEST);
    survives(rig, rev++, position);
    position.sub_sequence = 0;
    survives(rig, rev++, position);
    position.sub_sequence = INT64_MAX;
    survives(rig, rev++, position);
    position.sub_sequence = -1;
    position.kind = KS_POSITION_AT_SEQUENCE;
    survives(rig, rev++, position);
    position = lease_after("0");
    survives(rig, rev++, position);
}

void lease_suite_a_checkpoint_forgets_the_numbers_of_the_last_one(struct lease_rig *rig)
{
    request write = checkpoint(1, 0, "100");
    char text[64];

    lease_hold(rig, S, "a", 1);
    write.checkpoint.sub_sequence = 4;
    EXPECT_EQ_I64(lease_do(rig, write), KS_DONE);
    rig->adapter->peek(rig, "s", S, "sub", text, sizeof(text));
    EXPECT_STR(text, "4");
    EXPECT_EQ_I64(lease_do(rig, checkpoint(1, 1, "101")), KS_DONE);
    rig->adapter->peek(rig, "s", S, "sub", text, sizeof(text));
    EXPECT_STR(text, "");

    write = checkpoint(1, 2, "0");
    write.checkpoint = (struct ks_position){
        .kind = KS_POSITION_AT_TIMESTAMP, .timestamp_ms = 5, .sub_sequence = 3};
    EXPECT_EQ_I64(lease_do(rig, write), KS_DONE);
    rig->adapter->peek(rig, "s", S, "checkpoint_ms", text, sizeof(text));
    EXPECT_STR(text, "5");
    rig->adapter->peek(rig, "s", S, "sub", text, sizeof(text));
    EXPECT_STR(text, "");
    rig->adapter->peek(rig, "s", S, "checkpoint", text, sizeof(text));
    EXPECT_STR(text, "AT_TIMESTAMP");
    EXPECT_EQ_I64(lease_do(rig, checkpoint(1, 3, "102")), KS_DONE);
    rig->adapter->peek(rig, "s", S, "checkpoint_ms", text, sizeof(text));
    EXPECT_STR(text, "");
    /* As a person reads it. */
    rig->adapter->peek(rig, "s", S, "checkpoint", text, sizeof(text));
    EXPECT_STR(text, "102");
    rig->adapter->peek(rig, "s", S, "owner", text, sizeof(text));
    EXPECT_STR(text, "a#0000000000000001");
}
