/* SPDX-License-Identifier: Apache-2.0 */
#include "api/account.h"
#include "ks_test.h"

enum { MEMORY = 64 << 20 };

/* A connection that counts how often its turn came, and then does a piece of work. */
struct client {
    struct ks_account account;
    uint32_t turns;
    uint32_t closed;
    size_t piece; /* Units of its work; it wants more as long as this is not 0. */
};

static struct ks_loop *loop;
static struct ks_accounts accounts;

static void work(struct client *client)
{
    if (client->piece > 0 && ks_account_may_work(&client->account)) {
        client->turns++;
        ks_account_work(&client->account, KS_WORK_PARSING, client->piece);
    }
    if (client->piece > 0)
        ks_account_await(&client->account);
}

static void go_on(struct ks_account *account)
{
    work(KS_LIST_ENTRY(account, struct client, account));
}

static void close_it(struct ks_account *account)
{
    KS_LIST_ENTRY(account, struct client, account)->closed++;
}

static void begin(void)
{
    EXPECT_OK(ks_loop_new(&loop));
    ks_accounts_begin(&accounts, loop, MEMORY, false);
}

static void join(struct client *client, size_t piece)
{
    *client = (struct client){.account = {.go_on = go_on, .close = close_it}, .piece = piece};
    ks_account_open(&client->account, &accounts);
}

static void turns(int count)
{
    for (int i = 0; i < count; i++)
        ks_loop_turn(loop, ks_span_ms(0));
}

static void end(void)
{
    ks_accounts_end(&accounts);
    ks_loop_free(loop);
}

TEST(who_has_spent_the_quantum_waits_for_a_turn_for_each_that_is_owed)
{
    struct client client;

    begin();
    join(&client, 0);
    EXPECT(ks_account_may_work(&client.account));
    ks_account_work(&client.account, KS_WORK_UNPACKING, 3 * KS_WORK_QUANTUM);
    EXPECT(!ks_account_may_work(&client.account));
    client.piece = 1;
    ks_account_await(&client.account);
    ks_account_await(&client.account);
    /* It owes two quanta: a turn gives as many as there are for all. */
    EXPECT_EQ_U64(KS_WORK_TURN / KS_WORK_QUANTUM, 4);
    turns(1);
    EXPECT_EQ_U64(client.turns, 1);
    EXPECT_EQ_U64(accounts.work[KS_WORK_UNPACKING], 3 * KS_WORK_QUANTUM);
    EXPECT_EQ_U64(accounts.work[KS_WORK_PARSING], 1);
    ks_account_close(&client.account);
    end();
}

TEST(a_turn_has_so_many_units_and_one_piece_more)
{
    enum { CLIENTS = 20, TURNS = 10, PIECE = 3 * KS_WORK_TURN };
    struct client clients[CLIENTS];
    uint64_t before;

    begin();
    for (int i = 0; i < CLIENTS; i++) {
        join(&clients[i], PIECE);
        ks_account_await(&clients[i].account);
    }
    for (int i = 0; i < TURNS; i++) {
        before = accounts.work[KS_WORK_PARSING];
        turns(1);
        EXPECT(accounts.work[KS_WORK_PARSING] - before <= KS_WORK_TURN + PIECE);
    }
    for (int i = 0; i < CLIENTS; i++)
        ks_account_close(&clients[i].account);
    end();
}

TEST(a_costly_connection_gets_no_more_than_a_cheap_one)
{
    enum { TURNS = 4000, CHEAP = 1000 };
    struct client costly;
    struct client cheap;

    begin();
    join(&costly, (size_t)16 * KS_WORK_QUANTUM);
    join(&cheap, CHEAP);
    ks_account_await(&costly.account);
    ks_account_await(&cheap.account);
    turns(TURNS);
    /* The cheap one has a balance in each turn: it never stands behind the debtor. */
    EXPECT(cheap.turns >= TURNS - 1);
    EXPECT(costly.turns > 0 && costly.turns <= TURNS / 4);
    ks_account_close(&costly.account);
    ks_account_close(&cheap.account);
    end();
}

TEST(one_with_a_balance_is_served_in_the_next_turn_however_many_debtors_there_are)
{
    enum { DEBTORS = 1000 };
    static struct client debtors[DEBTORS];
    struct client client;

    begin();
    for (int i = 0; i < DEBTORS; i++) {
        join(&debtors[i], (size_t)2 * KS_WORK_TURN);
        ks_account_work(&debtors[i].account, KS_WORK_PARSING, 2 * KS_WORK_QUANTUM);
        ks_account_await(&debtors[i].account);
    }
    turns(3);
    /* Somebody uses the turn up: it comes too late. */
    ks_account_work(&debtors[0].account, KS_WORK_PARSING, KS_WORK_TURN);
    join(&client, 1);
    EXPECT(!ks_account_may_work(&client.account));
    ks_account_await(&client.account);
    turns(1);
    EXPECT_EQ_U64(client.turns, 1);
    client.piece = 0;
    ks_account_close(&client.account);
    for (int i = 0; i < DEBTORS; i++)
        ks_account_close(&debtors[i].account);
    end();
}

/* Nobody passes whoever waits; and who is called does a piece, though others used the turn up. */
TEST(those_that_wait_are_not_passed)
{
    struct client greedy;
    struct client patient;

    begin();
    join(&greedy, 0);
    join(&patient, 1);
    ks_account_work(&greedy.account, KS_WORK_PARSING, KS_WORK_TURN);
    ks_account_await(&patient.account);
    greedy.account.balance = KS_WORK_QUANTUM;
    accounts.turn_left = KS_WORK_TURN;
    EXPECT(!ks_account_may_work(&greedy.account));
    patient.piece = 0;
    turns(1);
    patient.piece = 1;
    ks_account_work(&greedy.account, KS_WORK_PARSING, 2 * KS_WORK_TURN);
    work(&patient);
    EXPECT_EQ_U64(patient.turns, 1);
    EXPECT(!ks_account_may_work(&patient.account));
    patient.piece = 0;
    ks_account_close(&greedy.account);
    ks_account_close(&patient.account);
    end();
}

/* A crowd that is new in each turn, and one that was served before. */
TEST(strangers_wait_apart)
{
    enum { STRANGERS = 200 };
    static struct client strangers[STRANGERS];
    struct client regular;

    begin();
    join(&regular, 1);
    work(&regular);
    regular.piece = 0;
    turns(2);
    for (int i = 0; i < STRANGERS; i++) {
        join(&strangers[i], KS_WORK_QUANTUM / 2);
        ks_account_await(&strangers[i].account);
    }
    regular.piece = 1;
    ks_account_await(&regular.account);
    turns(1);
    EXPECT_EQ_U64(regular.turns, 2);
    EXPECT(strangers[0].turns == 1 && strangers[STRANGERS - 1].turns == 0);
    for (int i = 0; i < STRANGERS; i++) {
        strangers[i].piece = 0;
        ks_account_close(&strangers[i].account);
    }
    ks_account_close(&regular.account);
    end();
}

TEST(who_waits_again_in_its_turn_is_not_forgotten)
{
    struct client client;

    begin();
    join(&client, (size_t)2 * KS_WORK_TURN);
    ks_account_await(&client.account);
    turns(1);
    EXPECT_EQ_U64(client.turns, 1);
    /* Others of the same connection ask, too. */
    EXPECT(!ks_account_may_work(&client.account));
    ks_account_await(&client.account);
    turns(20);
    EXPECT(client.turns > 1);
    ks_account_close(&client.account);
    end();
}

TEST(debtors_are_served_though_others_come_for_ever)
{
    enum { OTHERS = 64 };
    struct client others[OTHERS];
    struct client debtor;

    begin();
    join(&debtor, 1);
    ks_account_work(&debtor.account, KS_WORK_PARSING, 10 * KS_WORK_QUANTUM);
    ks_account_await(&debtor.account);
    for (int i = 0; i < OTHERS; i++) {
        join(&others[i], 1);
        ks_account_await(&others[i].account);
    }
    turns(20);
    EXPECT(debtor.turns > 0);
    ks_account_close(&debtor.account);
    for (int i = 0; i < OTHERS; i++)
        ks_account_close(&others[i].account);
    end();
}

TEST(beyond_the_limit_a_connection_has_its_own_part_alone)
{
    struct client large;
    struct client small;
    size_t held = 0;
    size_t own = 0;
    size_t limit;

    begin();
    join(&large, 0);
    join(&small, 0);
    limit = accounts.limit[KS_HELD_ANSWERS];
    EXPECT_EQ_U64(limit, MEMORY / 4);
    EXPECT(ks_account_hold(&large.account, KS_HELD_ANSWERS, &held, limit));
    EXPECT(!ks_account_hold(&large.account, KS_HELD_ANSWERS, &held, limit + 1));
    EXPECT_EQ_U64(held, limit);
    /* Another one is served with a little all the same. */
    EXPECT(ks_account_hold(&small.account, KS_HELD_ANSWERS, &own, 10 << 10));
    EXPECT(!ks_account_hold(&small.account, KS_HELD_ANSWERS, &own, 1 << 20));
    EXPECT_EQ_U64(own, 10 << 10);
    /* Other kinds have limits of their own. */
    EXPECT_EQ_U64(accounts.held[KS_HELD_BODIES], 0);
    EXPECT_EQ_U64(accounts.held[KS_HELD_ANSWERS], limit + (10 << 10));

    /* Less is never too much, and what must be held is counted. */
    EXPECT(ks_account_hold(&large.account, KS_HELD_ANSWERS, &held, 100));
    EXPECT(ks_account_hold(&small.account, KS_HELD_ANSWERS, &own, 1 << 20));
    ks_account_must_hold(&small.account, KS_HELD_ANSWERS, &own, 2 * limit);
    EXPECT_EQ_U64(accounts.held[KS_HELD_ANSWERS], 2 * limit + 100);
    ks_account_must_hold(&small.account, KS_HELD_ANSWERS, &own, 0);
    ks_account_must_hold(&large.account, KS_HELD_ANSWERS, &held, 0);
    EXPECT_EQ_U64(accounts.held[KS_HELD_ANSWERS], 0);
    ks_account_close(&large.account);
    ks_account_close(&small.account);
    end();
}

TEST(limits_follow_the_memory_and_the_ops_addresses_have_little)
{
    struct ks_accounts ops;

    begin();
    ks_accounts_begin(&ops, loop, MEMORY, true);
    for (int kind = 0; kind < KS_HELD_KINDS; kind++)
        EXPECT(ops.limit[kind] < accounts.limit[kind]);
    ks_accounts_end(&ops);
    ks_accounts_begin(&ops, loop, 0, false);
    EXPECT(ops.limit[KS_HELD_BODIES] >= (size_t)36 << 20); /* The longest put, and its growth. */
    ks_accounts_end(&ops);
    end();
}

TEST(the_connection_that_is_idle_for_the_longest_is_closed)
{
    struct client clients[3];

    begin();
    for (int i = 0; i < 3; i++)
        join(&clients[i], 0);
    ks_account_set_idle(&clients[0].account, false);
    ks_account_set_idle(&clients[0].account, true);
    ks_account_set_idle(&clients[1].account, false);
    EXPECT(ks_accounts_close_idle(&accounts));
    EXPECT_EQ_U64(clients[2].closed, 1);
    EXPECT(ks_accounts_close_idle(&accounts));
    EXPECT_EQ_U64(clients[0].closed, 1);
    /* The third is not idle. */
    EXPECT(!ks_accounts_close_idle(&accounts));
    EXPECT_EQ_U64(clients[1].closed, 0);
    for (int i = 0; i < 3; i++)
        ks_account_close(&clients[i].account);
    end();
}

TEST(nobody_pays_where_there_is_no_account)
{
    size_t held = 0;

    ks_account_work(NULL, KS_WORK_HEADS, 1);
    EXPECT(ks_account_hold(NULL, KS_HELD_HEADS, &held, 1));
    ks_account_must_hold(NULL, KS_HELD_HEADS, &held, 1);
    EXPECT_EQ_U64(held, 0);
}
