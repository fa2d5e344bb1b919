/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/lease_store_suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct ks_store_request request;

static const char S[] = "shardId-000000000001";

static request read_fleet(void)
{
    return (request){.operation = KS_STORE_READ_FLEET, .consistent = true};
}

static request read_leases(void)
{
    return (request){.operation = KS_STORE_READ_LEASES, .consistent = true};
}

static request checkpoint(uint64_t rev, const char *sequence)
{
    return (request){.operation = KS_STORE_CHECKPOINT,
                     .shard = S,
                     .worker = lease_who("a", 1),
                     .epoch = 1,
                     .rev = rev,
                     .checkpoint = lease_after(sequence)};
}

void lease_suite_an_empty_table_answers_nothing(struct lease_rig *rig)
{
    const struct lease_answer *answer = lease_tell(rig, read_fleet());
    struct ks_detail detail;

    EXPECT_EQ_I64(answer->outcome, KS_DONE);
    EXPECT_EQ_U64(answer->worker_count, 0);
    EXPECT(!answer->leader.present);
    EXPECT(!answer->app.present);
    answer = lease_tell(rig, read_leases());
    EXPECT_EQ_I64(answer->outcome, KS_DONE);
    EXPECT_EQ_U64(answer->lease_count, 0);
    EXPECT(!lease_has_row(rig, S));
    EXPECT(!lease_has_worker(rig, "a"));
    EXPECT_EQ_I64(rig->store->vtable->state(rig->store, &detail), KS_STORE_READY);
}

/* PROTOCOL S6. */
void lease_suite_no_other_write_makes_a_row(struct lease_rig *rig)
{
    const struct ks_store_token token = {"shard-1", 1};
    const struct lease_answer *answer;

    for (int operation = KS_STORE_REGISTER_NEW; operation < KS_STORE_OPERATIONS; operation++) {
        if (operation == KS_STORE_REGISTER_NEW || operation == KS_STORE_CREATE ||
            operation == KS_STORE_CREATE_APP || operation == KS_STORE_CLAIM_OFFICE ||
            operation == KS_STORE_MEND || operation == KS_STORE_NAME_SHARDS ||
            operation == KS_STORE_FILL)
            continue; /* The last two of other dialects. */
        EXPECT_EQ_I64(lease_do(rig, (request){.operation = (enum ks_store_operation)operation,
                                              .worker = lease_who("a", 1),
                                              .owner = lease_who("b", 1),
                                              .shard = S,
                                              .gives = &token,
                                              .give_count = 1,
                                              .checkpoint = lease_after("1")}),
                      KS_REFUSED);
    }
    answer = lease_tell(rig, read_fleet());
    EXPECT_EQ_U64(answer->worker_count, 0);
    EXPECT(!answer->leader.present);
    answer = lease_tell(rig, read_leases());
    EXPECT_EQ_U64(answer->lease_count, 0);
}

static void is_invalid(struct lease_rig *rig, request bad)
{
    const struct lease_answer *const answer = lease_tell(rig, bad);

    EXPECT_EQ_I64(answer->outcome, KS_UNKNOWN);
    EXPECT(ks_err_is(answer->err, KS_ERR_INVALID));
    EXPECT(answer->detail.text[0] != '\0');
}

void lease_suite_what_cannot_be_written_is_unknown_and_not_written(struct lease_rig *rig)
{
    struct ks_store_app app = {.start = {.kind = KS_POSITION_LATEST}};
    request bad;
    struct ks_detail detail;

    lease_hold(rig, S, "a", 1);
    bad = checkpoint(0, "12x");
    is_invalid(rig, bad);
    bad = checkpoint(0, "");
    is_invalid(rig, bad);
    bad = checkpoint(0, "007");
    is_invalid(rig, bad);
    bad = checkpoint(UINT64_MAX, "1");
    is_invalid(rig, bad);
    bad = checkpoint(INT64_MAX, "1");
    is_invalid(rig, bad);
    bad = checkpoint(0, "1");
    bad.shard = "shard 1";
    is_invalid(rig, bad);
    bad.shard = "";
    is_invalid(rig, bad);
    bad.shard = NULL;
    is_invalid(rig, bad);
    bad = checkpoint(0, "1");
    bad.worker = lease_who("", 0);
    is_invalid(rig, bad);
    is_invalid(rig, (request){.operation = KS_STORE_REGISTER_NEW, .worker = lease_who("#app", 1)});
    is_invalid(rig, (request){.operation = KS_STORE_REGISTER_NEW, .worker = lease_who("a\nb", 1)});
    is_invalid(rig, (request){.operation = KS_STORE_REGISTER_NEW,
                              .worker = lease_who("a", 1),
                              .version = "a version that nobody would give to anything"});
    is_invalid(rig, (request){.operation = KS_STORE_TAKE_OVER, .shard = S});
    is_invalid(rig, (request){.operation = KS_STORE_CREATE_APP, .app = &app});
    is_invalid(rig, (request){.operation = KS_STORE_READ_LEASE, .shard = "#"});
    is_invalid(rig, (request){.operation = KS_STORE_READ_WORKER});
    is_invalid(rig, (request){.operation = KS_STORE_READ_NEWS});
    is_invalid(rig, (request){.operation = KS_STORE_READ_NEWS,
                              .worker = lease_who("a", 1),
                              .owner = lease_who("#app", 1)});
    is_invalid(rig, (request){.operation = KS_STORE_NAME_DEPUTIES,
                              .worker = lease_who("a", 1),
                              .deputies = {"b", "a\nb"}});

    EXPECT_EQ_U64(lease_row(rig, S).rev, 0);
    EXPECT(!lease_tell(rig, read_fleet())->app.present);
    /* None of this is the table's fault. */
    EXPECT_EQ_I64(rig->store->vtable->state(rig->store, &detail), KS_STORE_READY);
}

void lease_suite_attributes_that_we_do_not_know_survive(struct lease_rig *rig)
{
    char text[64];

    lease_register(rig, "a", 1);
    lease_hold(rig, S, "a", 1);
    rig->adapter->poke(rig, "w", "a", "zone", KS_VALUE_TEXT, "eu-west-1a");
    rig->adapter->poke(rig, "s", S, "note", KS_VALUE_TEXT, "of tomorrow");

    EXPECT_EQ_I64(
        lease_do(rig, (request){.operation = KS_STORE_HEARTBEAT, .worker = lease_who("a", 1)}),
        KS_DONE);
    EXPECT_EQ_I64(lease_do(rig, (request){.operation = KS_STORE_REGISTER_CORPSE,
                                          .worker = lease_who("a", 2),
                                          .expect_boot = 1}),
                  KS_DONE);
    EXPECT_EQ_I64(lease_do(rig, checkpoint(0, "1")), KS_DONE);
    EXPECT_EQ_I64(lease_do(rig, (request){.operation = KS_STORE_END,
                                          .shard = S,
                                          .worker = lease_who("a", 1),
                                          .epoch = 1,
                                          .rev = 1}),
                  KS_DONE);

    rig->adapter->peek(rig, "w", "a", "zone", text, sizeof(text));
    EXPECT_STR(text, "eu-west-1a");
    rig->adapter->peek(rig, "s", S, "note", text, sizeof(text));
    EXPECT_STR(text, "of tomorrow");
    EXPECT(!lease_worker(rig, "a").damaged);
    EXPECT(!lease_row(rig, S).damaged);
}

/* An attribute that spoils a row. */
struct spoil {
    const char *name;
    enum ks_value_type type;
    const char *text;
};

/* The row is told as damaged, beside a good one, and nobody mends it. */
static void spoils_lease(struct lease_rig *rig, const struct spoil *spoil)
{
    const struct lease_answer *answer;
    char text[256];

    rig->adapter->poke(rig, "s", "bad", "epoch", KS_VALUE_NUMBER, "1");
    rig->adapter->poke(rig, "s", "bad", "rev", KS_VALUE_NUMBER, "0");
    rig->adapter->poke(rig, "s", "bad", "checkpoint", KS_VALUE_TEXT, "TRIM_HORIZON");
    EXPECT(!lease_row(rig, "bad").damaged);
    rig->adapter->poke(rig, "s", "bad", spoil->name, spoil->type, spoil->text);

    answer = lease_tell(rig, read_leases());
    EXPECT_EQ_I64(answer->outcome, KS_DONE);
    EXPECT_EQ_U64(answer->lease_count, 2);
    EXPECT_STR(answer->leases[0].shard, "bad");
    if (!answer->leases[0].damaged)
        FAIL("not damaged by %s = %s", spoil->name, spoil->text == NULL ? "NULL" : spoil->text);
    EXPECT_STR(answer->leases[1].shard, "good");
    EXPECT(!answer->leases[1].damaged);
    EXPECT(lease_row(rig, "bad").damaged);
    rig->adapter->peek(rig, "s", "bad", spoil->name, text, sizeof(text));
    EXPECT_STR(text, spoil->text == NULL ? "" : spoil->text);
    rig->adapter->poke(rig, "s", "bad", spoil->name, spoil->type, NULL);
}

void lease_suite_a_damaged_lease_is_told_and_left_alone(struct lease_rig *rig)
{
    static const struct spoil spoils[] = {
        {"epoch", KS_VALUE_NUMBER, NULL},
        {"epoch", KS_VALUE_NUMBER, "-1"},
        {"epoch", KS_VALUE_TEXT, "one"},
        {"rev", KS_VALUE_NUMBER, NULL},
        {"checkpoint", KS_VALUE_TEXT, NULL},
        {"checkpoint", KS_VALUE_TEXT, "somewhere"},
        {"checkpoint", KS_VALUE_TEXT, "AT_TIMESTAMP"},
        {"checkpoint", KS_VALUE_TEXT, "0123"},
        {"checkpoint", KS_VALUE_TEXT,
         "1000000000000000000000000000000000000000000000000000000000000000000000"
         "000000000000000000000000000000000000000000000000000000000000"},
        {"owner", KS_VALUE_TEXT, "pod-a"},
        {"owner", KS_VALUE_TEXT, "#0000000000000001"},
        {"owner", KS_VALUE_TEXT, "pod-a#000000000000000G"},
        {"owner", KS_VALUE_TEXT, "pod-a#000000000000ABCD"},
        {"next_owner", KS_VALUE_TEXT, "b#1"},
        {"parents", KS_VALUE_SET, "a\nb\nc"},
        {"children", KS_VALUE_SET, "shard one"},
        {"hash_end", KS_VALUE_TEXT, "0x10"},
        {"load", KS_VALUE_NUMBER, "-1"},
        {"finished", KS_VALUE_TEXT, "yes"},
    };

    lease_create(rig, "good");
    for (size_t at = 0; at < sizeof(spoils) / sizeof(spoils[0]); at++)
        spoils_lease(rig, &spoils[at]);
}

void lease_suite_a_damaged_worker_is_told_and_left_alone(struct lease_rig *rig)
{
    static const struct spoil spoils[] = {
        {"boot", KS_VALUE_TEXT, NULL},        {"boot", KS_VALUE_TEXT, "1"},
        {"life", KS_VALUE_TEXT, "immortal"},  {"mode", KS_VALUE_TEXT, NULL},
        {"beat", KS_VALUE_TEXT, "twice"},     {"give", KS_VALUE_SET, "shard-1@1\nshard-2"},
        {"take", KS_VALUE_SET, "shard-1@-1"}, {"take", KS_VALUE_TEXT, "shard-1 1"},
        {"held", KS_VALUE_NUMBER, "-3"},
    };
    const struct lease_answer *answer;

    lease_register(rig, "good", 1);
    for (size_t at = 0; at < sizeof(spoils) / sizeof(spoils[0]); at++) {
        rig->adapter->poke(rig, "w", "bad", "boot", KS_VALUE_TEXT, "000000000000000a");
        rig->adapter->poke(rig, "w", "bad", "life", KS_VALUE_TEXT, "live");
        rig->adapter->poke(rig, "w", "bad", "mode", KS_VALUE_TEXT, "idle");
        rig->adapter->poke(rig, "w", "bad", "beat", KS_VALUE_NUMBER, "3");
        EXPECT(!lease_worker(rig, "bad").damaged);
        EXPECT_EQ_U64(lease_worker(rig, "bad").self.boot, 10);
        rig->adapter->poke(rig, "w", "bad", spoils[at].name, spoils[at].type, spoils[at].text);

        answer = lease_tell(rig, read_fleet());
        EXPECT_EQ_I64(answer->outcome, KS_DONE);
        EXPECT_EQ_U64(answer->worker_count, 2);
        EXPECT_STR(answer->workers[0].self.id, "bad");
        if (!answer->workers[0].damaged)
            FAIL("not damaged by %s", spoils[at].name);
        EXPECT_EQ_U64(answer->workers[0].give_count + answer->workers[0].take_count, 0);
        EXPECT(!answer->workers[1].damaged);
        EXPECT(lease_worker(rig, "bad").damaged);
        rig->adapter->poke(rig, "w", "bad", spoils[at].name, spoils[at].type, NULL);
    }
}

/* A read that would have to leave out the leader or the app row is no answer. */
static void fails_the_read(struct lease_rig *rig, const char *k, const char *name, const char *good,
                           const char *bad)
{
    const struct lease_answer *answer;
    struct ks_detail detail;

    rig->adapter->poke(rig, "w", k, name, KS_VALUE_TEXT, bad);
    answer = lease_tell(rig, read_fleet());
    EXPECT_EQ_I64(answer->outcome, KS_UNKNOWN);
    EXPECT(ks_err_is(answer->err, KS_ERR_CORRUPT));
    EXPECT_CONTAINS(answer->detail.text, k);
    EXPECT_EQ_U64(answer->worker_count, 0);
    EXPECT_EQ_I64(rig->store->vtable->state(rig->store, &detail), KS_STORE_UNUSABLE);
    EXPECT_CONTAINS(detail.text, k);

    /* Repaired by hand. */
    rig->adapter->poke(rig, "w", k, name, KS_VALUE_TEXT, good);
    answer = lease_tell(rig, read_fleet());
    EXPECT_EQ_I64(answer->outcome, KS_DONE);
    EXPECT_EQ_I64(rig->store->vtable->state(rig->store, &detail), KS_STORE_READY);
}

void lease_suite_a_damaged_leader_row_fails_the_read(struct lease_rig *rig)
{
    lease_register(rig, "a", 1);
    fails_the_read(rig, "#leader", "holder", "a#0000000000000001", "the king");
    EXPECT_STR(lease_leader(rig).holder.id, "a");
    EXPECT_EQ_U64(lease_leader(rig).epoch, 0);
}

void lease_suite_damage_is_news_like_any(struct lease_rig *rig)
{
    const request news = {.operation = KS_STORE_READ_NEWS,
                          .worker = lease_who("good", 1),
                          .owner = lease_who("bad", 1)};
    const struct lease_answer *answer;

    lease_register(rig, "good", 1);
    lease_register(rig, "bad", 1);
    rig->adapter->poke(rig, "w", "bad", "beat", KS_VALUE_NUMBER, NULL);
    answer = lease_tell(rig, news);
    EXPECT_EQ_I64(answer->outcome, KS_DONE);
    EXPECT_EQ_U64(answer->worker_count, 2);
    EXPECT_STR(answer->workers[0].self.id, "bad");
    EXPECT(answer->workers[0].damaged);
    EXPECT(!answer->workers[1].damaged);

    rig->adapter->poke(rig, "w", "#leader", "deputies", KS_VALUE_SET, "a\nb\nc");
    answer = lease_tell(rig, news);
    EXPECT_EQ_I64(answer->outcome, KS_UNKNOWN);
    EXPECT(ks_err_is(answer->err, KS_ERR_CORRUPT));
    EXPECT_CONTAINS(answer->detail.text, "#leader");
    EXPECT_EQ_U64(answer->worker_count, 0);
}

void lease_suite_a_damaged_app_row_fails_the_read(struct lease_rig *rig)
{
    fails_the_read(rig, "#app", "start", "TRIM_HORIZON", "LATEST");
    fails_the_read(rig, "#app", "start", "TRIM_HORIZON", "yesterday");
}

void lease_suite_rows_of_later_versions_are_no_workers(struct lease_rig *rig)
{
    const struct lease_answer *answer;

    lease_register(rig, "a", 1);
    rig->adapter->poke(rig, "w", "#plans", "what", KS_VALUE_TEXT, "nobody knows");
    answer = lease_tell(rig, read_fleet());
    EXPECT_EQ_I64(answer->outcome, KS_DONE);
    EXPECT_EQ_U64(answer->worker_count, 1);
    EXPECT_STR(answer->workers[0].self.id, "a");
}

/* More than a megabyte: DynamoDB answers it in pages. */
void lease_suite_a_read_answers_all_pages(struct lease_rig *rig)
{
    /* More at once wait for a lock of DynamoDB Local for too long. */
    enum { ROWS = 1900, AT_ONCE = 20 };
    static struct lease_answer answers[AT_ONCE];
    static struct ks_store_lease lease;
    const struct lease_answer *all;

    lease.checkpoint = lease_after("1");
    memset(lease.checkpoint.sequence, '7', KS_SEQUENCE_MAX);
    memset(lease.parents[0], 'a', KS_SHARD_ID_MAX);
    memset(lease.parents[1], 'b', KS_SHARD_ID_MAX);
    memset(lease.shard, 's', KS_SHARD_ID_MAX);
    for (int row = 0; row < ROWS; row += AT_ONCE) {
        for (int at = 0; at < AT_ONCE; at++) {
            (void)snprintf(lease.shard + 120, 9, "%08d", row + at);
            lease_ask(
                rig, rig->store,
                (request){.operation = KS_STORE_CREATE, .shard = lease.shard, .lease = &lease},
                &answers[at]);
        }
        for (int at = 0; at < AT_ONCE; at++) {
            lease_await(rig, &answers[at]);
            EXPECT_EQ_I64(answers[at].outcome, KS_DONE);
        }
    }
    all = lease_tell(rig, read_leases());
    EXPECT_EQ_I64(all->outcome, KS_DONE);
    EXPECT_EQ_U64(all->lease_count, ROWS);
    for (int row = 0; row < ROWS; row++) {
        EXPECT(!all->leases[row].damaged);
        EXPECT_EQ_I64(atoi(all->leases[row].shard + 120), row);
    }
}

void lease_suite_many_requests_are_in_flight(struct lease_rig *rig)
{
    enum { MANY = 200 };
    static struct lease_answer answers[MANY];
    char shard[32];

    for (int at = 0; at < MANY; at++) {
        (void)snprintf(shard, sizeof(shard), "shard-%d", at);
        if (at % 2 == 0)
            lease_ask(rig, rig->store, (request){.operation = KS_STORE_READ_LEASE, .shard = shard},
                      &answers[at]);
        else
            lease_ask(rig, rig->store,
                      (request){.operation = KS_STORE_REGISTER_NEW, .worker = lease_who(shard, 1)},
                      &answers[at]);
        answers[at].token = UINT64_MAX;
        /* What was given is copied before `ask` returns. */
        memset(shard, '?', sizeof(shard) - 1);
    }
    for (int at = 0; at < MANY; at++) {
        lease_await(rig, &answers[at]);
        EXPECT_EQ_I64(answers[at].outcome, KS_DONE);
        EXPECT_EQ_U64(answers[at].token, 0);
    }
    lease_turn(rig, 20);
    for (int at = 0; at < MANY; at++)
        EXPECT_EQ_U64(answers[at].times, 1);
    for (int at = 1; at < 10; at += 2) {
        (void)snprintf(shard, sizeof(shard), "shard-%d", at);
        EXPECT(lease_has_worker(rig, shard));
    }
}

void lease_suite_a_request_is_unknown_after_its_timeout(struct lease_rig *rig)
{
    static struct lease_answer write;
    static struct lease_answer at_once;
    const ks_instant begun = ks_instant_now();
    request late = checkpoint(0, "5");
    int64_t took_us;

    lease_hold(rig, S, "a", 1);
    rig->adapter->hold(rig);
    late.timeout = ks_span_ms(300);
    lease_ask(rig, rig->store, late, &write);
    late.timeout = ks_span_us(-1);
    lease_ask(rig, rig->store, late, &at_once);
    lease_await(rig, &at_once);
    EXPECT_EQ_I64(at_once.outcome, KS_UNKNOWN);
    lease_await(rig, &write);
    took_us = ks_instant_since(ks_instant_now(), begun).us;
    EXPECT_EQ_I64(write.outcome, KS_UNKNOWN);
    EXPECT(ks_err_class(write.err) == KS_CLASS_RETRY);
    EXPECT(write.detail.text[0] != '\0');
    EXPECT(took_us >= 290000);
    EXPECT(took_us < 5000000);

    /* Whether it lands or not, it is answered once, and the store goes on. */
    rig->adapter->release(rig);
    lease_turn(rig, 200);
    EXPECT_EQ_U64(write.times, 1);
    EXPECT_EQ_U64(at_once.times, 1);
    EXPECT(!lease_row(rig, S).damaged);
}

void lease_suite_a_late_write_and_its_repetition_are_applied_once(struct lease_rig *rig)
{
    static struct lease_answer late;
    request write = checkpoint(0, "5");
    const struct lease_answer *again;
    struct ks_store_lease row;

    lease_hold(rig, S, "a", 1);
    rig->adapter->hold(rig);
    write.timeout = ks_span_ms(150);
    lease_ask(rig, rig->store, write, &late);
    lease_await(rig, &late);
    EXPECT_EQ_I64(late.outcome, KS_UNKNOWN);
    rig->adapter->release(rig);

    /* PROTOCOL A5: the next one carries the same rev, and one of the two is applied. */
    again = lease_tell(rig, checkpoint(0, "6"));
    EXPECT(again->outcome != KS_UNKNOWN);
    if (again->outcome == KS_DONE)
        EXPECT_STR(lease_row(rig, S).checkpoint.sequence, "6");
    else
        EXPECT_STR(lease_row(rig, S).checkpoint.sequence, "5");
    lease_turn(rig, 300);
    row = lease_row(rig, S);
    EXPECT_EQ_U64(row.rev, 1);
}

void lease_suite_close_answers_what_is_open(struct lease_rig *rig)
{
    enum { MANY = 100 };
    static struct lease_answer answers[MANY];
    struct ks_lease_store *const other = rig->adapter->open(rig);

    lease_hold(rig, S, "a", 1);
    rig->adapter->hold(rig);
    for (int at = 0; at < MANY; at++)
        lease_ask(rig, other, checkpoint(0, "5"), &answers[at]);
    /* Some are on their way, some may still wait. */
    lease_turn(rig, 20);
    lease_ask(rig, other, checkpoint(0, "12x"), &answers[0]);
    other->vtable->close(other);
    for (int at = 0; at < MANY; at++) {
        EXPECT_EQ_U64(answers[at].times, at == 0 ? 2 : 1);
        EXPECT_EQ_I64(answers[at].outcome, KS_UNKNOWN);
        EXPECT(ks_err_is(answers[at].err, KS_ERR_CANCELLED));
    }
    rig->adapter->release(rig);
    lease_turn(rig, 300);
    for (int at = 1; at < MANY; at++)
        EXPECT_EQ_U64(answers[at].times, 1);
}

void lease_suite_two_stores_race_and_one_wins(struct lease_rig *rig)
{
    enum { ROUNDS = 40 };
    static struct lease_answer one;
    static struct lease_answer two;
    struct ks_lease_store *const other = rig->adapter->open(rig);

    lease_create(rig, S);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        struct ks_store_lease row;

        lease_ask(rig, round % 2 == 0 ? rig->store : other,
                  (request){.operation = KS_STORE_ASSIGN,
                            .shard = S,
                            .epoch = round * 2,
                            .worker = lease_who("one", 1)},
                  &one);
        lease_ask(rig, round % 2 == 0 ? other : rig->store,
                  (request){.operation = KS_STORE_ASSIGN,
                            .shard = S,
                            .epoch = round * 2,
                            .worker = lease_who("two", 2)},
                  &two);
        lease_await(rig, &one);
        lease_await(rig, &two);
        EXPECT(one.outcome != KS_UNKNOWN && two.outcome != KS_UNKNOWN);
        EXPECT((one.outcome == KS_DONE) != (two.outcome == KS_DONE));
        row = lease_row(rig, S);
        EXPECT_STR(row.owner.id, one.outcome == KS_DONE ? "one" : "two");
        EXPECT_EQ_I64(lease_do(rig, (request){.operation = KS_STORE_FINAL,
                                              .shard = S,
                                              .worker = row.owner,
                                              .epoch = row.epoch,
                                              .rev = row.rev}),
                      KS_DONE);
    }
    EXPECT_EQ_U64(lease_row(rig, S).epoch, ROUNDS * 2);
    other->vtable->close(other);
}

void lease_suite_a_store_sees_the_writes_of_another(struct lease_rig *rig)
{
    static struct lease_answer answer;
    struct ks_lease_store *const other = rig->adapter->open(rig);

    for (uint64_t boot = 1; boot <= 20; boot++) {
        lease_ask(
            rig, other,
            (request){.operation = boot == 1 ? KS_STORE_REGISTER_NEW : KS_STORE_REGISTER_CORPSE,
                      .worker = lease_who("a", boot),
                      .expect_boot = boot - 1},
            &answer);
        lease_await(rig, &answer);
        EXPECT_EQ_I64(answer.outcome, KS_DONE);
        EXPECT_EQ_U64(lease_worker(rig, "a").self.boot, boot);
    }
    other->vtable->close(other);
}
