/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop.h"

#include "base/budget.h"
#include "ks_test.h"

#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* A watch that counts, and may do something to another one. */
struct probe {
    struct ks_watch watch;
    struct ks_loop *loop;
    int calls;
    uint32_t events;
    struct probe *victim; /* Unwatched and freed by the first call. */
    ks_instant at;
};

static struct ks_loop *loop;
static struct probe *survivor; /* The last that freed another. */

static void make_loop(void)
{
    EXPECT_OK(ks_loop_new(&loop));
}

static void probe_ready(struct ks_watch *watch, uint32_t events)
{
    struct probe *probe = KS_LIST_ENTRY(watch, struct probe, watch);

    probe->calls++;
    probe->events = events;
    if (probe->victim == NULL)
        return;
    ks_loop_unwatch(probe->loop, &probe->victim->watch);
    memset(probe->victim, 0xAA, sizeof(*probe->victim));
    ks_free(probe->victim);
    probe->victim = NULL;
    survivor = probe;
}

static struct probe *new_probe(uint64_t count)
{
    struct probe *probe = ks_alloc(sizeof(*probe));

    EXPECT(probe != NULL);
    probe->watch.ready = probe_ready;
    probe->watch.fd = eventfd((unsigned)count, EFD_NONBLOCK);
    probe->loop = loop;
    EXPECT_OK(ks_loop_watch(loop, &probe->watch, EPOLLIN));
    return probe;
}

static void turn(int64_t ms)
{
    ks_loop_turn(loop, ks_span_ms(ms));
}

TEST(a_ready_descriptor_is_told_and_a_silent_one_is_not)
{
    struct probe *ready, *silent;

    make_loop();
    ready = new_probe(1);
    silent = new_probe(0);
    turn(0);
    EXPECT_EQ_I64(ready->calls, 1);
    EXPECT_EQ_U64(ready->events, EPOLLIN);
    EXPECT_EQ_I64(silent->calls, 0);
    turn(0);
    EXPECT_EQ_I64(ready->calls, 2);
    ks_loop_unwatch(loop, &ready->watch);
    ks_loop_unwatch(loop, &ready->watch);
    turn(0);
    EXPECT_EQ_I64(ready->calls, 2);
    ks_loop_free(loop);
    ks_free(ready);
    ks_free(silent);
}

TEST(watching_again_changes_what_is_told)
{
    struct probe *probe;

    make_loop();
    probe = new_probe(1);
    EXPECT_OK(ks_loop_watch(loop, &probe->watch, EPOLLOUT));
    turn(0);
    EXPECT_EQ_U64(probe->events, EPOLLOUT);
    EXPECT_OK(ks_loop_watch(loop, &probe->watch, 0));
    turn(0);
    EXPECT_EQ_I64(probe->calls, 1);
    ks_loop_free(loop);
    ks_free(probe);
}

TEST(of_two_that_are_ready_either_may_free_the_other)
{
    struct probe *a, *b;
    int64_t live;

    make_loop();
    live = ks_alloc_live();
    a = new_probe(1);
    b = new_probe(1);
    a->victim = b;
    b->victim = a;
    turn(0);
    /* Whoever came first freed the other, which was then not called. */
    EXPECT_EQ_I64(ks_alloc_live(), live + 1);
    EXPECT(survivor != NULL);
    EXPECT_EQ_I64(survivor->calls, 1);
    ks_loop_free(loop);
    ks_free(survivor);
}

static void forget(struct ks_watch *watch, uint32_t events)
{
    struct probe *probe = KS_LIST_ENTRY(watch, struct probe, watch);

    (void)events;
    ks_loop_unwatch(probe->loop, watch);
    (void)close(watch->fd);
    ks_free(probe);
}

TEST(a_watch_may_end_itself)
{
    struct probe *probe;
    int64_t live;

    make_loop();
    live = ks_alloc_live();
    probe = new_probe(1);
    probe->watch.ready = forget;
    turn(0);
    turn(0);
    EXPECT_EQ_I64(ks_alloc_live(), live);
    ks_loop_free(loop);
}

TEST(a_hang_up_is_told_when_asked_for)
{
    struct probe *probe;
    int pair[2];

    make_loop();
    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    probe = ks_alloc(sizeof(*probe));
    EXPECT(probe != NULL);
    probe->watch = (struct ks_watch){.ready = probe_ready, .fd = pair[0]};
    EXPECT_OK(ks_loop_watch(loop, &probe->watch, EPOLLRDHUP));
    turn(0);
    EXPECT_EQ_I64(probe->calls, 0);
    EXPECT(shutdown(pair[1], SHUT_WR) == 0);
    turn(0);
    EXPECT_EQ_U64(probe->events, EPOLLRDHUP);
    ks_loop_free(loop);
    ks_free(probe);
}

TEST(a_descriptor_that_cannot_be_watched_is_an_error)
{
    struct ks_watch watch = {.ready = probe_ready, .fd = 9999};

    make_loop();
    EXPECT(ks_err_is(ks_loop_watch(loop, &watch, EPOLLIN), KS_ERR_SYSTEM));
    EXPECT(!watch.watching);
    ks_loop_free(loop);
}

TEST(more_ready_descriptors_than_a_turn_takes_all_get_their_turn)
{
    enum { MANY = 700 };
    static struct probe probes[MANY];
    int calls = 0;

    make_loop();
    for (int i = 0; i < MANY; i++) {
        probes[i].watch = (struct ks_watch){.ready = probe_ready, .fd = eventfd(1, 0)};
        EXPECT_OK(ks_loop_watch(loop, &probes[i].watch, EPOLLIN));
    }
    for (int i = 0; i < 3; i++)
        turn(0);
    for (int i = 0; i < MANY; i++) {
        EXPECT(probes[i].calls >= 1);
        calls += probes[i].calls;
    }
    EXPECT_EQ_I64(calls, 3 * 256);
    ks_loop_free(loop);
}

struct alarm {
    struct ks_timer timer;
    int calls;
    ks_span again; /* > 0: sets itself again. */
    struct alarm *victim;
};

static void alarm_due(struct ks_timer *timer)
{
    struct alarm *alarm = KS_LIST_ENTRY(timer, struct alarm, timer);

    alarm->calls++;
    if (alarm->again.us > 0)
        ks_loop_timer_set(loop, timer, ks_instant_add(ks_loop_now(loop), alarm->again));
    if (alarm->victim != NULL)
        ks_loop_timer_clear(loop, &alarm->victim->timer);
}

static ks_instant in_ms(int64_t ms)
{
    return ks_instant_add(ks_instant_now(), ks_span_ms(ms));
}

TEST(a_timer_ends_the_wait_and_comes_once)
{
    struct alarm alarm = {.timer.due = alarm_due};
    ks_instant due;

    make_loop();
    due = in_ms(20);
    ks_loop_timer_set(loop, &alarm.timer, due);
    while (alarm.calls == 0)
        turn(1000);
    EXPECT(ks_instant_reached(ks_loop_now(loop), due));
    EXPECT(ks_instant_since(ks_loop_now(loop), due).us < 500000);
    turn(30);
    EXPECT_EQ_I64(alarm.calls, 1);
    ks_loop_free(loop);
}

TEST(a_due_timer_may_clear_another_and_set_itself)
{
    struct alarm second = {.timer.due = alarm_due};
    struct alarm first = {.timer.due = alarm_due, .victim = &second, .again = {1000}};

    make_loop();
    ks_loop_timer_set(loop, &first.timer, in_ms(-2));
    ks_loop_timer_set(loop, &second.timer, in_ms(-1));
    turn(0);
    EXPECT_EQ_I64(first.calls, 1);
    EXPECT_EQ_I64(second.calls, 0);
    while (first.calls < 3)
        turn(1000);
    ks_loop_free(loop);
}

struct counter {
    struct ks_hook hook;
    int calls;
    struct counter *unhooks;
    ks_instant next;
};

static ks_instant count_turn(struct ks_hook *hook, ks_instant now)
{
    struct counter *counter = KS_LIST_ENTRY(hook, struct counter, hook);

    EXPECT_EQ_I64(now.us, ks_loop_now(loop).us);
    counter->calls++;
    if (counter->unhooks != NULL)
        ks_loop_unhook(loop, &counter->unhooks->hook);
    return counter->next;
}

TEST(hooks_run_at_the_end_of_each_turn_and_say_when_they_want_the_next)
{
    struct counter counter = {.hook.turn = count_turn, .next = KS_NEVER};
    ks_instant start;

    make_loop();
    ks_loop_hook(loop, &counter.hook);
    turn(1000);
    EXPECT_EQ_I64(counter.calls, 1);
    start = ks_instant_now();
    counter.next = ks_instant_add(start, ks_span_ms(10));
    ks_loop_wake(loop);
    turn(1000);
    turn(1000);
    EXPECT_EQ_I64(counter.calls, 3);
    EXPECT(ks_instant_since(ks_instant_now(), start).us < 900000);
    ks_loop_unhook(loop, &counter.hook);
    turn(0);
    EXPECT_EQ_I64(counter.calls, 3);
    ks_loop_free(loop);
}

TEST(a_hook_may_unhook_itself_and_the_next_one)
{
    struct counter a = {.hook.turn = count_turn, .next = KS_NEVER};
    struct counter b = a, c = a, d = a;

    make_loop();
    a.unhooks = &a;
    b.unhooks = &c;
    ks_loop_hook(loop, &a.hook);
    ks_loop_hook(loop, &b.hook);
    ks_loop_hook(loop, &c.hook);
    ks_loop_hook(loop, &d.hook);
    turn(0);
    turn(0);
    EXPECT_EQ_I64(a.calls, 1);
    EXPECT_EQ_I64(b.calls, 2);
    EXPECT_EQ_I64(c.calls, 0);
    EXPECT_EQ_I64(d.calls, 2);
    ks_loop_free(loop);
}

TEST(a_busy_timer_delays_no_descriptor_and_no_hook)
{
    struct alarm busy[600] = {{.calls = 0}};
    struct counter counter = {.hook.turn = count_turn, .next = KS_NEVER};
    struct probe *probe;
    int done = 0;

    make_loop();
    probe = new_probe(1);
    ks_loop_hook(loop, &counter.hook);
    for (int i = 0; i < 600; i++) {
        busy[i].timer.due = alarm_due;
        ks_loop_timer_set(loop, &busy[i].timer, KS_LONG_AGO);
    }
    turn(1000);
    EXPECT_EQ_I64(counter.calls, 1);
    EXPECT_EQ_I64(probe->calls, 1);
    turn(1000);
    turn(1000);
    for (int i = 0; i < 600; i++)
        done += busy[i].calls;
    EXPECT_EQ_I64(done, 600);
    ks_loop_free(loop);
    ks_free(probe);
}

static void caught(void *arg, int signal)
{
    int *last = arg;

    *last = signal;
    ks_loop_stop(loop);
}

TEST(signals_come_as_calls_on_the_loop)
{
    int last = 0;

    make_loop();
    EXPECT_OK(ks_loop_signals(loop, caught, &last));
    EXPECT(kill(getpid(), SIGTERM) == 0);
    ks_loop_run(loop);
    EXPECT_EQ_I64(last, SIGTERM);
    EXPECT(kill(getpid(), SIGINT) == 0);
    ks_loop_run(loop);
    EXPECT_EQ_I64(last, SIGINT);
    ks_loop_free(loop);
}

static int gate[2];
static int jobs_done;

static void wait_at_gate(struct ks_job *job)
{
    char word;

    (void)job;
    EXPECT(read(gate[0], &word, 1) == 1);
}

static void job_done(struct ks_job *job)
{
    (void)job;
    jobs_done++;
}

TEST(jobs_are_awaited_but_not_for_ever)
{
    struct ks_job jobs[2] = {{.run = wait_at_gate, .done = job_done},
                             {.run = wait_at_gate, .done = job_done}};

    make_loop();
    EXPECT(pipe(gate) == 0);
    ks_loop_await_jobs(loop, ks_span_ms(60000));
    ks_loop_submit(loop, &jobs[0]);
    ks_loop_submit(loop, &jobs[1]);
    EXPECT(write(gate[1], "1", 1) == 1);
    while (jobs_done == 0)
        turn(20);
    ks_loop_await_jobs(loop, ks_span_ms(20));
    EXPECT_EQ_I64(jobs_done, 1);
    EXPECT(write(gate[1], "2", 1) == 1);
    ks_loop_await_jobs(loop, ks_span_ms(60000));
    EXPECT_EQ_I64(jobs_done, 2);
    ks_loop_free(loop);
}

TEST(the_longest_turn_is_remembered)
{
    struct counter counter = {.hook.turn = count_turn, .next = KS_NEVER};

    make_loop();
    turn(0);
    EXPECT(ks_loop_turn_longest(loop).us < 1000000);
    ks_loop_hook(loop, &counter.hook);
    turn(400);
    /* The wait is not counted. */
    EXPECT(ks_loop_turn_longest(loop).us < 300000);
    ks_loop_free(loop);
}

TEST(no_memory_at_the_start_is_an_error_and_leaks_nothing)
{
    int64_t live = ks_alloc_live();

    for (uint64_t n = 1; n <= 3; n++) {
        struct ks_loop *none = NULL;
        ks_alloc_fail_after(n, 0);
        EXPECT(ks_err_is(ks_loop_new(&none), KS_ERR_NO_MEMORY));
        EXPECT(none == NULL);
        ks_alloc_fail_after(0, 0);
        EXPECT_EQ_I64(ks_alloc_live(), live);
    }
    make_loop();
    ks_loop_free(loop);
    ks_loop_free(NULL);
    EXPECT_EQ_I64(ks_alloc_live(), live);
}

TEST(the_clocks_go_on)
{
    ks_instant before = ks_instant_now();

    make_loop();
    turn(5);
    EXPECT(ks_instant_since(ks_instant_now(), before).us >= 5000);
    /* Written after 2026-01-01. */
    EXPECT(ks_wall_now().ms > INT64_C(1767225600000));
    ks_loop_free(loop);
}
