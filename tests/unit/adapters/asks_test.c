/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/asks.h"

#include "base/budget.h"
#include "ks_test.h"

typedef struct ks_store_request request;

struct told {
    int times;
    enum ks_outcome outcome;
    ks_err err;
    struct ks_detail detail;
};

static struct ks_asks asks;
static struct ks_loop *loop;
static int forgotten;
static bool take_work; /* As a job does that still works with it. */
static struct ks_ask_work *taken;

static void forget(struct ks_asks *of, struct ks_ask *ask)
{
    EXPECT(of == &asks);
    forgotten++;
    if (take_work) {
        taken = ask->work;
        ask->work = NULL;
    }
}

static void answered(void *arg, uint64_t token, const struct ks_store_answer *answer)
{
    struct told *const told = arg;

    EXPECT_EQ_U64(token, 77);
    told->times++;
    told->outcome = answer->outcome;
    told->err = answer->err;
    told->detail = answer->detail;
}

static request fence(struct told *told)
{
    return (request){.operation = KS_STORE_FENCE,
                     .worker = {"a", 1},
                     .timeout = ks_span_ms(60000),
                     .answered = answered,
                     .arg = told,
                     .token = 77};
}

static void begin(void)
{
    EXPECT_OK(ks_loop_new(&loop));
    EXPECT_OK(ks_asks_init(&asks, loop, "test", forget));
}

static void finish(void)
{
    ks_asks_end(&asks);
    ks_loop_free(loop);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

static void turn(void)
{
    for (int at = 0; at < 3; at++)
        ks_loop_turn(loop, ks_span_ms(2));
}

TEST(what_is_decided_is_told_in_a_later_turn)
{
    struct told told = {0};
    request bad = fence(&told);

    begin();
    bad.worker.id[0] = '\0';
    EXPECT(ks_asks_take(&asks, &bad) == NULL);
    EXPECT_EQ_I64(told.times, 0);
    turn();
    EXPECT_EQ_I64(told.times, 1);
    EXPECT_EQ_I64(told.outcome, KS_UNKNOWN);
    EXPECT(ks_err_is(told.err, KS_ERR_INVALID));
    EXPECT_EQ_I64(forgotten, 0);
    finish();
    EXPECT_EQ_I64(told.times, 1);
}

TEST(without_memory_there_is_still_an_answer)
{
    struct told told = {0};
    const request asked = fence(&told);

    begin();
    for (uint64_t n = 1; n <= 2; n++) {
        ks_alloc_fail_after(n, 1);
        EXPECT(ks_asks_take(&asks, &asked) == NULL);
        ks_alloc_fail_after(0, 0);
        turn();
        EXPECT_EQ_I64(told.times, n);
        EXPECT_EQ_I64(told.outcome, KS_UNKNOWN);
        EXPECT(ks_err_is(told.err, KS_ERR_NO_MEMORY));
    }
    finish();
}

TEST(time_is_up_once_even_for_work_that_goes_on)
{
    struct told told = {0};
    request asked = fence(&told);

    begin();
    asked.timeout = ks_span_ms(5);
    take_work = true;
    EXPECT(ks_asks_take(&asks, &asked) != NULL);
    while (told.times == 0)
        ks_loop_turn(loop, ks_span_ms(5));
    EXPECT_EQ_I64(forgotten, 1);
    EXPECT_EQ_I64(told.outcome, KS_UNKNOWN);
    EXPECT(ks_err_is(told.err, KS_ERR_TIMEOUT));
    EXPECT_CONTAINS(told.detail.text, "fence");
    ks_ask_work_free(taken);
    finish();
    EXPECT_EQ_I64(told.times, 1);
}

static int64_t ms_left(const struct ks_ask *ask)
{
    return ks_instant_since(ask->work->deadline, ask->work->asked_at).us / 1000;
}

TEST(pages_have_their_time_and_all_of_them_have_an_end)
{
    struct told told = {0};
    request asked = fence(&told);
    struct ks_ask *ask;

    begin();
    asked.timeout = ks_span_ms(200);
    asked.operation = KS_STORE_READ_FLEET;
    ask = ks_asks_take(&asks, &asked);
    ks_ask_page(ask);
    EXPECT_EQ_I64(ms_left(ask), 200);
    asked.operation = KS_STORE_READ_LEASES;
    ask = ks_asks_take(&asks, &asked);
    EXPECT_EQ_I64(ms_left(ask), 200);
    ks_ask_page(ask);
    EXPECT_EQ_I64(ms_left(ask), KS_ASKS_PAGE_MS);
    ask->work->asked_at = ks_instant_add(ks_loop_now(loop), ks_span_ms(-5000));
    ks_ask_page(ask);
    EXPECT_EQ_I64(ms_left(ask), 5000 + KS_ASKS_PAGE_MS);
    ask->work->deadline = ks_loop_now(loop);
    ask->work->asked_at = ks_instant_add(ks_loop_now(loop), ks_span_ms(1 - KS_ASKS_WHOLE_MS));
    ks_ask_page(ask);
    EXPECT_EQ_I64(ms_left(ask), KS_ASKS_WHOLE_MS);
    asked.timeout = ks_span_ms(60000); /* Whoever asks for more gets it. */
    ask = ks_asks_take(&asks, &asked);
    ks_ask_page(ask);
    EXPECT_EQ_I64(ms_left(ask), 60000);
    finish();
}

TEST(the_end_cancels_what_is_open)
{
    struct told open = {0};
    struct told refused = {0};
    const request asked = fence(&open);
    request bad = fence(&refused);

    begin();
    bad.worker.id[0] = '#';
    EXPECT(ks_asks_take(&asks, &asked) != NULL);
    EXPECT(ks_asks_take(&asks, &bad) == NULL);
    finish();
    EXPECT_EQ_I64(open.times, 1);
    EXPECT(ks_err_is(open.err, KS_ERR_CANCELLED));
    EXPECT_EQ_I64(refused.times, 1);
    EXPECT(ks_err_is(refused.err, KS_ERR_CANCELLED));
    EXPECT_EQ_I64(forgotten, 1);
}

static void answer_with(const request *asked, enum ks_outcome outcome, ks_err err, const char *why)
{
    struct ks_ask *const ask = ks_asks_take(&asks, asked);

    ask->work->outcome = outcome;
    ask->work->err = err;
    ks_detail_set(&ask->work->detail, "%s", why);
    ks_ask_answer(ask);
}

TEST(the_state_follows_the_answers)
{
    struct told told = {0};
    const request asked = fence(&told);
    request read = fence(&told);
    struct ks_detail detail;

    begin();
    read.operation = KS_STORE_READ_FLEET;
    EXPECT_EQ_I64(ks_asks_state(&asks, &detail), KS_STORE_READY);
    for (int at = 0; at < KS_ASKS_AWAY_AFTER; at++) {
        EXPECT_EQ_I64(ks_asks_state(&asks, &detail), KS_STORE_READY);
        answer_with(&asked, KS_UNKNOWN, KS_FAIL(TIMEOUT), "late");
    }
    EXPECT_EQ_I64(ks_asks_state(&asks, &detail), KS_STORE_AWAY);
    EXPECT_STR(detail.text, "late");
    answer_with(&asked, KS_REFUSED, KS_OK, "");
    EXPECT_EQ_I64(ks_asks_state(&asks, &detail), KS_STORE_READY);

    /* A read that may be done does not excuse a write that may not. */
    answer_with(&asked, KS_UNKNOWN, KS_FAIL(DENIED), "may not");
    answer_with(&read, KS_DONE, KS_OK, "");
    EXPECT_EQ_I64(ks_asks_state(&asks, &detail), KS_STORE_UNUSABLE);
    EXPECT_STR(detail.text, "may not");
    answer_with(&asked, KS_DONE, KS_OK, "");
    EXPECT_EQ_I64(ks_asks_state(&asks, &detail), KS_STORE_READY);
    finish();
}

TEST(slots_are_used_again)
{
    struct told told = {0};
    const request asked = fence(&told);

    begin();
    for (int at = 0; at < 1000; at++)
        answer_with(&asked, KS_DONE, KS_OK, "");
    EXPECT_EQ_I64(told.times, 1000);
    EXPECT_EQ_U64(asks.touched, 1);
    finish();
}
