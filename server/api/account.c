/* SPDX-License-Identifier: Apache-2.0 */
#include "api/account.h"

#include <assert.h>

#include "base/metrics.h"

/* Connections with a balance whose turn it is: each may do a piece. */
enum { CALLS_MAX = 32, FRESH_CALLS_MAX = 16 };

/* How a kind's limit is derived, and what each connection has of it for itself. */
static const struct {
    const char *name;
    size_t share; /* The limit is the payload budget divided by this, .. */
    size_t least; /* .. from here .. */
    size_t most;  /* .. to here. */
    size_t ops;   /* The limit of the ops addresses. */
    size_t own;
} kinds[KS_HELD_KINDS] = {
    [KS_HELD_HEADS] = {"heads", 16, 2 << 20, 16 << 20, 1 << 20, 8 << 10},
    [KS_HELD_BODIES] = {"bodies", 2, 36 << 20, 96 << 20, 1 << 20, 16 << 10},
    [KS_HELD_ANSWERS] = {"answers", 4, 16 << 20, 64 << 20, 8 << 20, 16 << 10},
};

static const char *const work_names[KS_WORK_KINDS] = {
    [KS_WORK_HEADS] = "heads",
    [KS_WORK_UNPACKING] = "unpacking",
    [KS_WORK_PARSING] = "parsing",
    [KS_WORK_ANSWERS] = "answers",
};

const char *ks_held_name(enum ks_held kind)
{
    return kinds[kind].name;
}

/* ---- Work ---- */

static struct ks_account *first_of(struct ks_link *queue)
{
    return KS_LIST_ENTRY(queue->next, struct ks_account, waiting);
}

static void let_go_on(struct ks_account *account)
{
    struct ks_accounts *accounts = account->accounts;

    account->waits = false;
    ks_list_remove(&account->waiting);
    ks_list_append(&accounts->called, &account->waiting);
    account->turn = account->called = accounts->turn;
    account->balance = KS_WORK_QUANTUM;
    account->go_on(account);
}

/* The debtor that waits for the longest is given its part of the turn. */
static void serve_debtor(struct ks_accounts *accounts)
{
    struct ks_account *account = first_of(&accounts->debtors);

    account->balance += KS_WORK_QUANTUM;
    if (account->balance > 0) {
        let_go_on(account);
        return;
    }
    ks_list_remove(&account->waiting);
    ks_list_append(&accounts->debtors, &account->waiting);
}

static void kicked(struct ks_timer *timer)
{
    /* It was only there to end the wait of the loop. */
    (void)timer;
}

void ks_accounts_tell(struct ks_accounts *accounts)
{
    for (int kind = 0; kind < KS_WORK_KINDS; kind++) {
        if (accounts->work[kind] != accounts->work_told[kind])
            ks_metric_add_labelled(KS_METRIC_API_WORK, work_names[kind],
                                   (int64_t)(accounts->work[kind] - accounts->work_told[kind]));
        accounts->work_told[kind] = accounts->work[kind];
    }
    for (int kind = 0; kind < KS_HELD_KINDS; kind++) {
        if (accounts->held[kind] != accounts->held_told[kind])
            ks_metric_add_labelled(KS_METRIC_HELD_BYTES, kinds[kind].name,
                                   (int64_t)accounts->held[kind] -
                                       (int64_t)accounts->held_told[kind]);
        accounts->held_told[kind] = accounts->held[kind];
    }
}

/* Calls at least one connection, even if others have used the turn up. */
static void call_some(struct ks_accounts *accounts, struct ks_link *queue, int most)
{
    for (int calls = 0; calls < most && (calls == 0 || accounts->turn_left > 0); calls++) {
        if (ks_list_empty(queue) || first_of(queue)->called == accounts->turn)
            return;
        let_go_on(first_of(queue));
    }
}

static bool queues_are_empty(const struct ks_accounts *accounts)
{
    return ks_list_empty(&accounts->ready) && ks_list_empty(&accounts->fresh) &&
           ks_list_empty(&accounts->debtors);
}

static ks_instant turn(struct ks_hook *hook, ks_instant now)
{
    struct ks_accounts *accounts = KS_LIST_ENTRY(hook, struct ks_accounts, hook);
    int64_t given = 0;

    ks_loop_timer_clear(accounts->loop, &accounts->kick);
    accounts->turn++;
    accounts->turn_left = KS_WORK_TURN;
    /* Those that were called and wanted nothing. */
    while (!ks_list_empty(&accounts->called))
        ks_list_remove(accounts->called.next);
    call_some(accounts, &accounts->ready, CALLS_MAX);
    call_some(accounts, &accounts->fresh, FRESH_CALLS_MAX);
    if (!ks_list_empty(&accounts->debtors))
        do {
            serve_debtor(accounts);
            given += KS_WORK_QUANTUM;
        } while (given < KS_WORK_TURN && accounts->turn_left > 0 &&
                 !ks_list_empty(&accounts->debtors));
    return queues_are_empty(accounts) ? KS_NEVER : now;
}

void ks_account_work(struct ks_account *account, enum ks_work kind, size_t units)
{
    if (account == NULL)
        return;
    account->balance -= (int64_t)units;
    account->accounts->turn_left -= (int64_t)units;
    account->accounts->work[kind] += units;
}

static bool may_work(struct ks_account *account)
{
    struct ks_accounts *accounts = account->accounts;

    if (account->called == accounts->turn) {
        /* It has come. It may wait again already. */
        if (!account->waits)
            ks_list_remove(&account->waiting);
        /* One piece it may do, whoever used the turn up: its transport may come to it last in every turn. */
        return account->balance > 0 &&
               (accounts->turn_left > 0 || account->balance == KS_WORK_QUANTUM);
    }
    if (account->turn != accounts->turn && account->balance > 0) {
        account->turn = accounts->turn;
        account->balance = KS_WORK_QUANTUM;
    }
    /* Nobody goes before those that wait, or were called and did not come yet. */
    return account->balance > 0 && accounts->turn_left > 0 && ks_list_empty(&accounts->ready) &&
           ks_list_empty(&accounts->called) && (account->known || ks_list_empty(&accounts->fresh));
}

bool ks_account_may_work(struct ks_account *account)
{
    bool may = may_work(account);

    account->known = account->known || may;
    return may;
}

/* Where it waits. A crowd of connections that were never served does not keep back those that were. */
static struct ks_link *queue_of(struct ks_account *account)
{
    struct ks_accounts *accounts = account->accounts;

    if (account->balance <= 0)
        return &accounts->debtors;
    return account->known ? &accounts->ready : &accounts->fresh;
}

void ks_account_await(struct ks_account *account)
{
    struct ks_accounts *accounts = account->accounts;
    struct ks_link *queue = queue_of(account);

    if (account->waits)
        return;
    account->waits = true;
    ks_list_remove(&account->waiting);
    /* Who was called, did a piece, and found the turn used up, keeps its place. */
    if (account->balance > 0 && account->called == accounts->turn)
        queue = queue->next;
    ks_list_append(queue, &account->waiting);
    /* The hook may have run already. */
    ks_loop_timer_set(accounts->loop, &accounts->kick, ks_loop_now(accounts->loop));
}

/* ---- Memory ---- */

static void set_held(struct ks_account *account, enum ks_held kind, size_t *charged, size_t size)
{
    struct ks_accounts *accounts = account->accounts;

    assert(account->held[kind] >= *charged && accounts->held[kind] >= *charged);
    account->held[kind] += size - *charged;
    accounts->held[kind] += size - *charged;
    *charged = size;
}

bool ks_account_hold(struct ks_account *account, enum ks_held kind, size_t *charged, size_t size)
{
    const struct ks_accounts *accounts;
    size_t more = size > *charged ? size - *charged : 0;

    if (account == NULL)
        return true;
    accounts = account->accounts;
    if (more > 0 && account->held[kind] + more > kinds[kind].own &&
        accounts->held[kind] + more > accounts->limit[kind])
        return false;
    set_held(account, kind, charged, size);
    return true;
}

void ks_account_must_hold(struct ks_account *account, enum ks_held kind, size_t *charged,
                          size_t size)
{
    if (account != NULL)
        set_held(account, kind, charged, size);
}

/* ---- Life ---- */

static size_t limit_of(enum ks_held kind, size_t memory)
{
    size_t limit = memory / kinds[kind].share;

    if (limit < kinds[kind].least)
        return kinds[kind].least;
    return limit < kinds[kind].most ? limit : kinds[kind].most;
}

void ks_accounts_begin(struct ks_accounts *accounts, struct ks_loop *loop, size_t memory, bool ops)
{
    *accounts = (struct ks_accounts){.loop = loop, .turn = 1, .turn_left = KS_WORK_TURN};
    ks_link_init(&accounts->ready);
    ks_link_init(&accounts->fresh);
    ks_link_init(&accounts->called);
    ks_link_init(&accounts->debtors);
    ks_link_init(&accounts->idle);
    for (int kind = 0; kind < KS_HELD_KINDS; kind++)
        accounts->limit[kind] = ops ? kinds[kind].ops : limit_of((enum ks_held)kind, memory);
    accounts->hook.turn = turn;
    accounts->kick.due = kicked;
    ks_loop_hook(loop, &accounts->hook);
}

void ks_accounts_end(struct ks_accounts *accounts)
{
    assert(queues_are_empty(accounts));
    assert(ks_list_empty(&accounts->called));
    assert(ks_list_empty(&accounts->idle));
    ks_accounts_tell(accounts);
    ks_loop_timer_clear(accounts->loop, &accounts->kick);
    ks_loop_unhook(accounts->loop, &accounts->hook);
}

bool ks_accounts_close_idle(struct ks_accounts *accounts)
{
    struct ks_account *account;

    if (ks_list_empty(&accounts->idle))
        return false;
    account = KS_LIST_ENTRY(accounts->idle.next, struct ks_account, idle);
    ks_account_set_idle(account, false);
    account->close(account);
    return true;
}

void ks_account_open(struct ks_account *account, struct ks_accounts *accounts)
{
    assert(account->go_on != NULL && account->close != NULL);
    account->accounts = accounts;
    account->balance = KS_WORK_QUANTUM;
    account->turn = accounts->turn;
    ks_link_init(&account->waiting);
    ks_link_init(&account->idle);
    ks_account_set_idle(account, true);
}

void ks_account_close(struct ks_account *account)
{
    ks_list_remove(&account->waiting);
    ks_list_remove(&account->idle);
    for (int kind = 0; kind < KS_HELD_KINDS; kind++)
        assert(account->held[kind] == 0);
}

void ks_account_set_idle(struct ks_account *account, bool idle)
{
    if (idle == !ks_list_empty(&account->idle))
        return;
    if (idle)
        ks_list_append(&account->accounts->idle, &account->idle);
    else
        ks_list_remove(&account->idle);
}
