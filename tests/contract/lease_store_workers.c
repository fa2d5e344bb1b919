/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/lease_store_suite.h"

#include <string.h>

typedef struct ks_store_request request;

static enum ks_outcome fence(struct lease_rig *rig, const char *id, uint64_t boot, uint64_t beat)
{
    return lease_do(rig, (request){.operation = KS_STORE_FENCE,
                                   .worker = lease_who(id, 0),
                                   .expect_boot = boot,
                                   .expect_beat = beat});
}

static enum ks_outcome beat(struct lease_rig *rig, const char *id, uint64_t boot)
{
    return lease_do(rig, (request){.operation = KS_STORE_HEARTBEAT, .worker = lease_who(id, boot)});
}

static enum ks_outcome say_gone(struct lease_rig *rig, const char *id, uint64_t boot)
{
    return lease_do(rig, (request){.operation = KS_STORE_SAY_GONE, .worker = lease_who(id, boot)});
}

void lease_suite_a_new_worker_registers_once(struct lease_rig *rig)
{
    const request first = {.operation = KS_STORE_REGISTER_NEW,
                           .worker = lease_who("pod-a", 0xFEDCBA9876543210),
                           .mode = KS_IDLE,
                           .capacity = 64,
                           .version = "0.1.0"};
    request second = first;
    const struct lease_answer *answer;
    struct ks_store_worker row;

    EXPECT_EQ_I64(lease_do(rig, first), KS_DONE);
    second.worker.boot = 2;
    answer = lease_tell(rig, second);
    EXPECT_EQ_I64(answer->outcome, KS_REFUSED);
    EXPECT_EQ_U64(answer->worker_count, 1);
    EXPECT_EQ_U64(answer->workers[0].self.boot, 0xFEDCBA9876543210);

    row = lease_worker(rig, "pod-a");
    EXPECT(!row.damaged);
    EXPECT_EQ_U64(row.self.boot, 0xFEDCBA9876543210);
    EXPECT_EQ_I64(row.life, KS_LIVE);
    EXPECT_EQ_I64(row.mode, KS_IDLE);
    EXPECT_EQ_U64(row.beat, 0);
    EXPECT_EQ_U64(row.capacity, 64);
    EXPECT_STR(row.version, "0.1.0");
    EXPECT_EQ_U64(row.give_count + row.take_count, 0);
}

void lease_suite_a_worker_registers_over_a_dead_one_only_if_it_is_dead(struct lease_rig *rig)
{
    const struct ks_store_token tokens[] = {{"shard-1", 3}};
    const request over = {.operation = KS_STORE_REGISTER_DEAD,
                          .worker = lease_who("pod-a", 2),
                          .expect_boot = 1,
                          .mode = KS_ACTIVE};
    request wrong = over;
    struct ks_store_worker row;

    EXPECT_EQ_I64(lease_do(rig, over), KS_REFUSED);
    EXPECT(!lease_has_worker(rig, "pod-a"));

    lease_register(rig, "pod-a", 1);
    EXPECT_EQ_I64(beat(rig, "pod-a", 1), KS_DONE);
    EXPECT_EQ_I64(lease_do(rig, (request){.operation = KS_STORE_HINTS,
                                          .worker = lease_who("pod-a", 0),
                                          .expect_boot = 1,
                                          .gives = tokens,
                                          .give_count = 1,
                                          .takes = tokens,
                                          .take_count = 1}),
                  KS_DONE);
    EXPECT_EQ_I64(lease_do(rig, over), KS_REFUSED);
    EXPECT_EQ_I64(fence(rig, "pod-a", 1, 1), KS_DONE);
    wrong.expect_boot = 7;
    EXPECT_EQ_I64(lease_do(rig, wrong), KS_REFUSED);
    EXPECT_EQ_I64(lease_do(rig, over), KS_DONE);

    row = lease_worker(rig, "pod-a");
    EXPECT_EQ_U64(row.self.boot, 2);
    EXPECT_EQ_I64(row.life, KS_LIVE);
    EXPECT_EQ_U64(row.beat, 0);
    EXPECT_EQ_U64(row.give_count + row.take_count, 0);

    EXPECT_EQ_I64(say_gone(rig, "pod-a", 2), KS_DONE);
    wrong = over;
    wrong.worker.boot = 3;
    wrong.expect_boot = 2;
    EXPECT_EQ_I64(lease_do(rig, wrong), KS_DONE);
    EXPECT_EQ_U64(lease_worker(rig, "pod-a").self.boot, 3);
}

void lease_suite_a_worker_registers_over_a_silent_one_as_watched(struct lease_rig *rig)
{
    const request over = {.operation = KS_STORE_REGISTER_SILENT,
                          .worker = lease_who("pod-a", 2),
                          .expect_boot = 1,
                          .expect_beat = 2,
                          .mode = KS_ACTIVE};
    request wrong;

    lease_register(rig, "pod-a", 1);
    EXPECT_EQ_I64(beat(rig, "pod-a", 1), KS_DONE);
    EXPECT_EQ_I64(lease_do(rig, over), KS_REFUSED);
    EXPECT_EQ_I64(beat(rig, "pod-a", 1), KS_DONE);
    wrong = over;
    wrong.expect_boot = 9;
    EXPECT_EQ_I64(lease_do(rig, wrong), KS_REFUSED);
    EXPECT_EQ_I64(lease_do(rig, over), KS_DONE);
    EXPECT_EQ_U64(lease_worker(rig, "pod-a").self.boot, 2);
    EXPECT_EQ_U64(lease_worker(rig, "pod-a").beat, 0);

    /* A fenced one is not silent: that is another write. */
    EXPECT_EQ_I64(fence(rig, "pod-a", 2, 0), KS_DONE);
    wrong = over;
    wrong.expect_boot = 2;
    wrong.expect_beat = 0;
    wrong.worker.boot = 3;
    EXPECT_EQ_I64(lease_do(rig, wrong), KS_REFUSED);
}

void lease_suite_a_worker_registers_over_its_own_corpse(struct lease_rig *rig)
{
    request over = {.operation = KS_STORE_REGISTER_CORPSE,
                    .worker = lease_who("pod-a", 2),
                    .expect_boot = 8,
                    .mode = KS_ACTIVE};

    EXPECT_EQ_I64(lease_do(rig, over), KS_REFUSED);
    EXPECT(!lease_has_worker(rig, "pod-a"));
    lease_register(rig, "pod-a", 1);
    EXPECT_EQ_I64(lease_do(rig, over), KS_REFUSED);
    over.expect_boot = 1;
    EXPECT_EQ_I64(lease_do(rig, over), KS_DONE);
    EXPECT_EQ_U64(lease_worker(rig, "pod-a").self.boot, 2);
    EXPECT_EQ_I64(lease_worker(rig, "pod-a").life, KS_LIVE);
}

/* What the boot before said of itself is over; the version is said at registration alone. */
void lease_suite_a_registration_begins_the_row_anew(struct lease_rig *rig)
{
    static const enum ks_store_operation over[] = {
        KS_STORE_REGISTER_SILENT, KS_STORE_REGISTER_CORPSE, KS_STORE_REGISTER_DEAD};
    request first = {.operation = KS_STORE_REGISTER_NEW,
                     .worker = lease_who("pod-a", 1),
                     .capacity = 64,
                     .version = "0.1.0"};
    struct ks_store_worker row;

    EXPECT_EQ_I64(lease_do(rig, first), KS_DONE);
    for (uint64_t boot = 1; boot <= 3; boot++) {
        EXPECT_EQ_I64(lease_do(rig, (request){.operation = KS_STORE_HEARTBEAT,
                                              .worker = lease_who("pod-a", boot),
                                              .held = 12,
                                              .changes = 34,
                                              .capacity = 7,
                                              .load = 56}),
                      KS_DONE);
        row = lease_worker(rig, "pod-a");
        EXPECT_EQ_U64(row.load, 56);
        EXPECT_EQ_U64(row.capacity, 7);
        EXPECT_STR(row.version, boot == 1 ? "0.1.0" : "0.2.0");

        if (over[boot - 1] == KS_STORE_REGISTER_DEAD)
            EXPECT_EQ_I64(fence(rig, "pod-a", boot, 1), KS_DONE);
        EXPECT_EQ_I64(lease_do(rig, (request){.operation = over[boot - 1],
                                              .worker = lease_who("pod-a", boot + 1),
                                              .expect_boot = boot,
                                              .expect_beat = 1,
                                              .mode = KS_DRAINING,
                                              .capacity = 101 + boot,
                                              .version = "0.2.0"}),
                      KS_DONE);
        row = lease_worker(rig, "pod-a");
        EXPECT_EQ_U64(row.self.boot, boot + 1);
        EXPECT_EQ_I64(row.life, KS_LIVE);
        EXPECT_EQ_I64(row.mode, KS_DRAINING);
        EXPECT_EQ_U64(row.beat + row.held + row.changes + row.load, 0);
        EXPECT_EQ_U64(row.capacity, 101 + boot);
        EXPECT_STR(row.version, "0.2.0");
    }
}

void lease_suite_a_heartbeat_counts_and_tells_the_row(struct lease_rig *rig)
{
    const request mine = {.operation = KS_STORE_HEARTBEAT,
                          .worker = lease_who("pod-a", 1),
                          .mode = KS_DRAINING,
                          .held = 12,
                          .changes = 34,
                          .load = 56};
    const struct lease_answer *answer;

    lease_register(rig, "pod-a", 1);
    for (uint64_t beats = 1; beats <= 3; beats++) {
        answer = lease_tell(rig, mine);
        EXPECT_EQ_I64(answer->outcome, KS_DONE);
        EXPECT_EQ_U64(answer->worker_count, 1);
        EXPECT(lease_is(&answer->workers[0].self, "pod-a", 1));
        EXPECT_EQ_U64(answer->workers[0].beat, beats);
        EXPECT_EQ_I64(answer->workers[0].life, KS_LIVE);
        EXPECT_EQ_I64(answer->workers[0].mode, KS_DRAINING);
        EXPECT_EQ_U64(answer->workers[0].held, 12);
        EXPECT_EQ_U64(answer->workers[0].changes, 34);
        EXPECT_EQ_U64(answer->workers[0].load, 56);
    }
}

void lease_suite_a_heartbeat_of_the_fenced_or_gone_is_refused(struct lease_rig *rig)
{
    EXPECT_EQ_I64(beat(rig, "pod-a", 1), KS_REFUSED);
    EXPECT(!lease_has_worker(rig, "pod-a"));

    lease_register(rig, "pod-a", 1);
    EXPECT_EQ_I64(beat(rig, "pod-a", 2), KS_REFUSED);
    EXPECT_EQ_I64(fence(rig, "pod-a", 1, 0), KS_DONE);
    EXPECT_EQ_I64(beat(rig, "pod-a", 1), KS_REFUSED);
    EXPECT_EQ_I64(lease_worker(rig, "pod-a").life, KS_FENCED);
    EXPECT_EQ_U64(lease_worker(rig, "pod-a").beat, 0);

    lease_register(rig, "pod-b", 1);
    EXPECT_EQ_I64(say_gone(rig, "pod-b", 1), KS_DONE);
    EXPECT_EQ_I64(beat(rig, "pod-b", 1), KS_REFUSED);
}

void lease_suite_a_fence_needs_the_beat_as_watched(struct lease_rig *rig)
{
    EXPECT_EQ_I64(fence(rig, "pod-a", 1, 0), KS_REFUSED);
    EXPECT(!lease_has_worker(rig, "pod-a"));

    lease_register(rig, "pod-a", 1);
    EXPECT_EQ_I64(beat(rig, "pod-a", 1), KS_DONE);
    EXPECT_EQ_I64(fence(rig, "pod-a", 1, 0), KS_REFUSED);
    EXPECT_EQ_I64(fence(rig, "pod-a", 2, 1), KS_REFUSED);
    EXPECT_EQ_I64(lease_worker(rig, "pod-a").life, KS_LIVE);
    EXPECT_EQ_I64(fence(rig, "pod-a", 1, 1), KS_DONE);
    EXPECT_EQ_I64(lease_worker(rig, "pod-a").life, KS_FENCED);
    /* It is over once. */
    EXPECT_EQ_I64(fence(rig, "pod-a", 1, 1), KS_REFUSED);
}

void lease_suite_only_the_living_say_gone(struct lease_rig *rig)
{
    EXPECT_EQ_I64(say_gone(rig, "pod-a", 1), KS_REFUSED);
    lease_register(rig, "pod-a", 1);
    EXPECT_EQ_I64(say_gone(rig, "pod-a", 2), KS_REFUSED);
    EXPECT_EQ_I64(lease_worker(rig, "pod-a").life, KS_LIVE);
    EXPECT_EQ_I64(say_gone(rig, "pod-a", 1), KS_DONE);
    EXPECT_EQ_I64(lease_worker(rig, "pod-a").life, KS_GONE);

    lease_register(rig, "pod-b", 1);
    EXPECT_EQ_I64(fence(rig, "pod-b", 1, 0), KS_DONE);
    EXPECT_EQ_I64(say_gone(rig, "pod-b", 1), KS_REFUSED);
    EXPECT_EQ_I64(lease_worker(rig, "pod-b").life, KS_FENCED);
}

void lease_suite_hints_add_and_heartbeats_take_away(struct lease_rig *rig)
{
    const struct ks_store_token two[] = {{"shard-1", 3}, {"shard-2", 3}};
    const struct ks_store_token more[] = {{"shard-2", 3}, {"shard-2", 4}};
    request hint = {.operation = KS_STORE_HINTS,
                    .worker = lease_who("pod-a", 0),
                    .expect_boot = 1,
                    .gives = two,
                    .give_count = 2};
    request mine = {.operation = KS_STORE_HEARTBEAT, .worker = lease_who("pod-a", 1)};
    const struct lease_answer *answer;

    lease_register(rig, "pod-a", 1);
    EXPECT_EQ_I64(lease_do(rig, hint), KS_DONE);
    hint.gives = more;
    hint.takes = two;
    hint.take_count = 1;
    EXPECT_EQ_I64(lease_do(rig, hint), KS_DONE);

    /* A hint without tokens is none, but it is no error. */
    EXPECT_EQ_I64(lease_do(rig, (request){.operation = KS_STORE_HINTS,
                                          .worker = lease_who("pod-a", 0),
                                          .expect_boot = 1}),
                  KS_DONE);

    answer = lease_tell(rig, mine);
    EXPECT_EQ_I64(answer->outcome, KS_DONE);
    EXPECT_EQ_U64(answer->workers[0].give_count, 3);
    EXPECT_STR(answer->gives[0].shard, "shard-1");
    EXPECT_EQ_U64(answer->gives[0].epoch, 3);
    EXPECT_STR(answer->gives[2].shard, "shard-2");
    EXPECT_EQ_U64(answer->gives[2].epoch, 4);
    EXPECT_EQ_U64(answer->workers[0].take_count, 1);
    EXPECT_STR(answer->takes[0].shard, "shard-1");

    /* What is not there is taken away without a word. */
    mine.gives = two;
    mine.give_count = 2;
    mine.takes = two;
    mine.take_count = 2;
    answer = lease_tell(rig, mine);
    EXPECT_EQ_I64(answer->outcome, KS_DONE);
    EXPECT_EQ_U64(answer->workers[0].give_count, 1);
    EXPECT_EQ_U64(answer->gives[0].epoch, 4);
    EXPECT_EQ_U64(answer->workers[0].take_count, 0);

    mine.gives = more;
    mine.take_count = 0;
    answer = lease_tell(rig, mine);
    EXPECT_EQ_U64(answer->workers[0].give_count, 0);
}

void lease_suite_hints_carry_many_tokens(struct lease_rig *rig)
{
    static struct ks_store_token tokens[KS_TOKENS_MAX + 1];
    request hint = {.operation = KS_STORE_HINTS,
                    .worker = lease_who("pod-a", 0),
                    .expect_boot = 1,
                    .gives = tokens,
                    .give_count = KS_TOKENS_MAX,
                    .takes = tokens,
                    .take_count = KS_TOKENS_MAX};
    const struct lease_answer *answer;

    /* Of the longest: 128 characters and 19 digits. */
    for (uint32_t at = 0; at <= KS_TOKENS_MAX; at++) {
        memset(tokens[at].shard, 's', KS_SHARD_ID_MAX);
        tokens[at].shard[0] = (char)('a' + at % 26);
        tokens[at].shard[1] = (char)('a' + at / 26);
        tokens[at].epoch = INT64_MAX - at;
    }
    lease_register(rig, "pod-a", 1);
    EXPECT_EQ_I64(lease_do(rig, hint), KS_DONE);
    (void)lease_worker(rig, "pod-a");
    answer = lease_tell(rig, (request){.operation = KS_STORE_HEARTBEAT,
                                       .worker = lease_who("pod-a", 1),
                                       .gives = tokens,
                                       .give_count = KS_TOKENS_MAX});
    EXPECT_EQ_I64(answer->outcome, KS_DONE);
    EXPECT_EQ_U64(answer->workers[0].give_count, 0);
    EXPECT_EQ_U64(answer->workers[0].take_count, KS_TOKENS_MAX);
    EXPECT_EQ_U64(answer->takes[0].epoch, INT64_MAX);

    hint.give_count = KS_TOKENS_MAX + 1;
    answer = lease_tell(rig, hint);
    EXPECT_EQ_I64(answer->outcome, KS_UNKNOWN);
    EXPECT(ks_err_is(answer->err, KS_ERR_INVALID));
}

void lease_suite_hints_to_another_boot_are_refused(struct lease_rig *rig)
{
    const struct ks_store_token one[] = {{"shard-1", 3}};
    const request hint = {.operation = KS_STORE_HINTS,
                          .worker = lease_who("pod-a", 0),
                          .expect_boot = 1,
                          .gives = one,
                          .give_count = 1};

    EXPECT_EQ_I64(lease_do(rig, hint), KS_REFUSED);
    EXPECT(!lease_has_worker(rig, "pod-a"));
    lease_register(rig, "pod-a", 2);
    EXPECT_EQ_I64(lease_do(rig, hint), KS_REFUSED);
    EXPECT_EQ_U64(lease_worker(rig, "pod-a").give_count, 0);

    lease_register(rig, "pod-b", 1);
    EXPECT_EQ_I64(fence(rig, "pod-b", 1, 0), KS_DONE);
    EXPECT_EQ_I64(lease_do(rig, (request){.operation = KS_STORE_HINTS,
                                          .worker = lease_who("pod-b", 0),
                                          .expect_boot = 1,
                                          .takes = one,
                                          .take_count = 1}),
                  KS_REFUSED);
}

void lease_suite_only_the_dead_are_removed(struct lease_rig *rig)
{
    request away = {
        .operation = KS_STORE_REMOVE_WORKER, .worker = lease_who("pod-a", 0), .expect_boot = 1};

    EXPECT_EQ_I64(lease_do(rig, away), KS_REFUSED);
    lease_register(rig, "pod-a", 1);
    EXPECT_EQ_I64(lease_do(rig, away), KS_REFUSED);
    EXPECT_EQ_I64(fence(rig, "pod-a", 1, 0), KS_DONE);
    away.expect_boot = 2;
    EXPECT_EQ_I64(lease_do(rig, away), KS_REFUSED);
    EXPECT(lease_has_worker(rig, "pod-a"));
    away.expect_boot = 1;
    EXPECT_EQ_I64(lease_do(rig, away), KS_DONE);
    EXPECT(!lease_has_worker(rig, "pod-a"));
    EXPECT_EQ_I64(lease_do(rig, away), KS_REFUSED);
}

void lease_suite_the_office_is_claimed_by_one(struct lease_rig *rig)
{
    request claim = {.operation = KS_STORE_CLAIM_OFFICE, .worker = lease_who("pod-a", 1)};
    request wrong = claim;

    wrong.epoch = 4;
    EXPECT_EQ_I64(lease_do(rig, wrong), KS_REFUSED);
    wrong = claim;
    wrong.owner = lease_who("pod-z", 1);
    EXPECT_EQ_I64(lease_do(rig, wrong), KS_REFUSED);
    EXPECT(!lease_leader(rig).present);

    EXPECT_EQ_I64(lease_do(rig, claim), KS_DONE);
    EXPECT(lease_leader(rig).present);
    EXPECT_EQ_U64(lease_leader(rig).holder.boot, 1);
    claim.worker = lease_who("pod-b", 1);
    EXPECT_EQ_I64(lease_do(rig, claim), KS_REFUSED);
    claim.epoch = 1;
    EXPECT_EQ_I64(lease_do(rig, claim), KS_REFUSED);
    EXPECT_STR(lease_leader(rig).holder.id, "pod-a");
    EXPECT_EQ_U64(lease_leader(rig).epoch, 1);
}

void lease_suite_the_office_is_taken_from_the_dead_and_resigned(struct lease_rig *rig)
{
    request claim = {.operation = KS_STORE_CLAIM_OFFICE, .worker = lease_who("pod-a", 1)};
    request resign = {
        .operation = KS_STORE_RESIGN_OFFICE, .worker = lease_who("pod-b", 7), .epoch = 2};

    EXPECT_EQ_I64(lease_do(rig, resign), KS_REFUSED);
    EXPECT_EQ_I64(lease_do(rig, claim), KS_DONE);
    claim.worker = lease_who("pod-b", 7);
    claim.epoch = 1;
    claim.owner = lease_who("pod-a", 2);
    EXPECT_EQ_I64(lease_do(rig, claim), KS_REFUSED);
    claim.owner = lease_who("pod-a", 1);
    EXPECT_EQ_I64(lease_do(rig, claim), KS_DONE);
    EXPECT_EQ_U64(lease_leader(rig).epoch, 2);
    EXPECT_EQ_U64(lease_leader(rig).holder.boot, 7);

    resign.epoch = 1;
    EXPECT_EQ_I64(lease_do(rig, resign), KS_REFUSED);
    resign.epoch = 2;
    resign.worker = lease_who("pod-b", 8);
    EXPECT_EQ_I64(lease_do(rig, resign), KS_REFUSED);
    resign.worker = lease_who("pod-b", 7);
    EXPECT_EQ_I64(lease_do(rig, resign), KS_DONE);
    EXPECT_STR(lease_leader(rig).holder.id, "");
    EXPECT_EQ_U64(lease_leader(rig).epoch, 2);

    claim.owner = lease_who("", 0);
    claim.epoch = 0;
    EXPECT_EQ_I64(lease_do(rig, claim), KS_REFUSED);
    claim.epoch = 2;
    EXPECT_EQ_I64(lease_do(rig, claim), KS_DONE);
    EXPECT_EQ_U64(lease_leader(rig).epoch, 3);
}

/* pod-a@1 leads, at epoch 1. */
static request names(struct lease_rig *rig, const char *one, const char *two)
{
    if (!lease_leader(rig).present)
        EXPECT_EQ_I64(lease_do(rig, (request){.operation = KS_STORE_CLAIM_OFFICE,
                                              .worker = lease_who("pod-a", 1)}),
                      KS_DONE);
    return (request){.operation = KS_STORE_NAME_DEPUTIES,
                     .worker = lease_who("pod-a", 1),
                     .epoch = 1,
                     .deputies = {one, two}};
}

static void deputies_are(struct lease_rig *rig, const char *one, const char *two)
{
    const struct ks_store_leader leader = lease_leader(rig);

    EXPECT_STR(leader.deputies[0], one);
    EXPECT_STR(leader.deputies[1], two);
}

void lease_suite_the_leader_names_its_deputies(struct lease_rig *rig)
{
    request wrong = names(rig, "pod-c", "pod-b");

    deputies_are(rig, "", "");
    wrong.epoch = 0;
    EXPECT_EQ_I64(lease_do(rig, wrong), KS_REFUSED);
    wrong.epoch = 1;
    wrong.worker.boot = 2;
    EXPECT_EQ_I64(lease_do(rig, wrong), KS_REFUSED);
    wrong.worker = lease_who("pod-b", 1);
    EXPECT_EQ_I64(lease_do(rig, wrong), KS_REFUSED);
    deputies_are(rig, "", "");

    EXPECT_EQ_I64(lease_do(rig, names(rig, "pod-c", "pod-b")), KS_DONE);
    deputies_are(rig, "pod-b", "pod-c");
    EXPECT_EQ_U64(lease_leader(rig).epoch, 1);
    EXPECT_EQ_I64(lease_do(rig, names(rig, NULL, "pod#d \xc3\xa4")), KS_DONE);
    deputies_are(rig, "pod#d \xc3\xa4", "");
    EXPECT_EQ_I64(lease_do(rig, names(rig, NULL, NULL)), KS_DONE);
    deputies_are(rig, "", "");
    EXPECT_EQ_I64(lease_do(rig, names(rig, NULL, NULL)), KS_DONE);
    deputies_are(rig, "", "");
}

void lease_suite_deputies_outlast_the_leader_that_named_them(struct lease_rig *rig)
{
    request claim = {
        .operation = KS_STORE_CLAIM_OFFICE, .worker = lease_who("pod-b", 2), .epoch = 1};

    EXPECT_EQ_I64(lease_do(rig, names(rig, "pod-b", "pod-c")), KS_DONE);
    EXPECT_EQ_I64(lease_do(rig, (request){.operation = KS_STORE_RESIGN_OFFICE,
                                          .worker = lease_who("pod-a", 1),
                                          .epoch = 1}),
                  KS_DONE);
    deputies_are(rig, "pod-b", "pod-c");
    EXPECT_EQ_I64(lease_do(rig, names(rig, "pod-d", NULL)), KS_REFUSED);
    EXPECT_EQ_I64(lease_do(rig, claim), KS_DONE);
    deputies_are(rig, "pod-b", "pod-c");
}

static const struct lease_answer *news(struct lease_rig *rig, const char *own, const char *leader)
{
    const struct lease_answer *const answer =
        lease_tell(rig, (request){.operation = KS_STORE_READ_NEWS,
                                  .worker = lease_who(own, 0),
                                  .owner = lease_who(leader, 0)});

    EXPECT_EQ_I64(answer->outcome, KS_DONE);
    EXPECT(!answer->app.present);
    return answer;
}

void lease_suite_the_news_are_three_rows(struct lease_rig *rig)
{
    const struct ks_store_token one[] = {{"shard-1", 3}};
    const struct lease_answer *answer = news(rig, "pod-c", "pod-a");
    struct ks_store_app app = {.start = {.kind = KS_POSITION_TRIM_HORIZON}};

    EXPECT_EQ_U64(answer->worker_count, 0);
    EXPECT(!answer->leader.present);

    lease_register(rig, "pod-a", 1);
    lease_register(rig, "pod-b", 2);
    lease_register(rig, "pod-c", 3);
    EXPECT_EQ_I64(lease_do(rig, (request){.operation = KS_STORE_CREATE_APP, .app = &app}), KS_DONE);
    EXPECT_EQ_I64(lease_do(rig, names(rig, "pod-b", NULL)), KS_DONE);
    EXPECT_EQ_I64(beat(rig, "pod-a", 1), KS_DONE);
    EXPECT_EQ_I64(lease_do(rig, (request){.operation = KS_STORE_HINTS,
                                          .worker = lease_who("pod-c", 0),
                                          .expect_boot = 3,
                                          .takes = one,
                                          .take_count = 1}),
                  KS_DONE);
    answer = news(rig, "pod-c", "pod-a");
    EXPECT_EQ_U64(answer->worker_count, 2);
    EXPECT(lease_is(&answer->workers[0].self, "pod-a", 1));
    EXPECT_EQ_U64(answer->workers[0].beat, 1);
    EXPECT(lease_is(&answer->workers[1].self, "pod-c", 3));
    EXPECT_EQ_U64(answer->workers[1].take_count, 1);
    EXPECT(lease_is(&answer->leader.holder, "pod-a", 1));
    EXPECT_EQ_U64(answer->leader.epoch, 1);
    EXPECT_STR(answer->leader.deputies[0], "pod-b");

    /* Nobody leads, or we do ourselves, or somebody without a row. */
    answer = news(rig, "pod-c", "");
    EXPECT_EQ_U64(answer->worker_count, 1);
    EXPECT_STR(answer->workers[0].self.id, "pod-c");
    EXPECT(answer->leader.present);
    EXPECT_EQ_U64(news(rig, "pod-a", "pod-a")->worker_count, 1);
    EXPECT_EQ_U64(news(rig, "pod-a", "pod-z")->worker_count, 1);
}

void lease_suite_the_app_row_is_made_once(struct lease_rig *rig)
{
    struct ks_store_app app = {
        .start = {.kind = KS_POSITION_AT_TIMESTAMP, .timestamp_ms = 1795223831781},
        .stream_arn = "arn:aws:kinesis:eu-west-1:123456789012:stream/orders",
        .stream_created_ms = 1700000000123,
    };
    const request make = {.operation = KS_STORE_CREATE_APP, .app = &app};
    const struct lease_answer *answer;

    EXPECT_EQ_I64(lease_do(rig, make), KS_DONE);
    app.start.kind = KS_POSITION_TRIM_HORIZON;
    EXPECT_EQ_I64(lease_do(rig, make), KS_REFUSED);

    answer = lease_tell(rig, (request){.operation = KS_STORE_READ_FLEET});
    EXPECT_EQ_I64(answer->outcome, KS_DONE);
    EXPECT(answer->app.present);
    EXPECT(!answer->leader.present);
    EXPECT_EQ_U64(answer->worker_count, 0);
    EXPECT_EQ_I64(answer->app.start.kind, KS_POSITION_AT_TIMESTAMP);
    EXPECT_EQ_I64(answer->app.start.timestamp_ms, 1795223831781);
    EXPECT_STR(answer->app.stream_arn, app.stream_arn);
    EXPECT_EQ_I64(answer->app.stream_created_ms, 1700000000123);
}
