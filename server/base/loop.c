/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop.h"

#include "base/budget.h"
#include "base/jobs.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/timers.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

enum {
    EVENTS_MAX = 256,   /* Of each kind in one turn: data never delays a heartbeat for long. */
    WAIT_MAX_MS = 1000, /* See loop.h: a machine that slept is noticed within this time. */
    LOG_AGAIN_MS = 50,  /* When a slow reader of the log is asked again. */
    SIGNALS_MAX = 8     /* Read in one turn. */
};

struct ks_loop {
    ks_instant now;
    ks_span turn_longest;
    bool turning;
    bool stopping;
    bool log_left; /* The log has lines that nobody took. */
    bool more;     /* The last turn left due timers or finished jobs behind. */

    int epoll_fd;
    struct epoll_event ready[EVENTS_MAX]; /* Of this turn; an entry without a watch is void. */
    int ready_count;
    int ready_next;

    struct ks_timers timers;
    struct ks_jobs *jobs;
    struct ks_job_queue *queue; /* Of ks_loop_submit. */
    uint32_t jobs_away;         /* Submitted, and not back. */
    struct ks_link hooks;
    struct ks_link *hook_next; /* The one that runs after the running one. */
    ks_instant hooks_due;

    struct ks_watch wake;
    struct ks_watch signals;
    void (*caught)(void *arg, int signal);
    void *caught_arg;
};

/* Clocks. */

static int64_t read_clock(clockid_t clock, int64_t units_per_second)
{
    struct timespec time;
    int failed = clock_gettime(clock, &time);

    assert(failed == 0);
    (void)failed;
    return time.tv_sec * units_per_second + time.tv_nsec / (INT64_C(1000000000) / units_per_second);
}

ks_instant ks_instant_now(void)
{
    return (ks_instant){read_clock(CLOCK_BOOTTIME, 1000000)};
}

ks_wall ks_wall_now(void)
{
    return (ks_wall){read_clock(CLOCK_REALTIME, 1000)};
}

ks_instant ks_loop_now(const struct ks_loop *loop)
{
    return loop->now;
}

/* Life. */

static void wake_arg(void *arg)
{
    ks_loop_wake(arg);
}

static void drain_wake(struct ks_watch *watch, uint32_t events)
{
    uint64_t count;

    (void)events;
    /* It is non-blocking and level-triggered: if there was nothing to read, nothing is lost. */
    if (read(watch->fd, &count, sizeof(count)) < 0)
        return;
}

static ks_err open_fds(struct ks_loop *loop)
{
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    loop->wake =
        (struct ks_watch){.ready = drain_wake, .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (loop->epoll_fd < 0 || loop->wake.fd < 0)
        return KS_FAIL(SYSTEM);
    return ks_loop_watch(loop, &loop->wake, EPOLLIN);
}

static ks_err fill(struct ks_loop *loop)
{
    KS_TRY(open_fds(loop));
    KS_TRY(ks_timers_init(&loop->timers));
    KS_TRY(ks_jobs_new(wake_arg, loop, &loop->jobs));
    return ks_jobs_queue_new(loop->jobs, &loop->queue);
}

ks_err ks_loop_new(struct ks_loop **ret_loop)
{
    struct ks_loop *loop = ks_alloc(sizeof(*loop));
    ks_err err;

    if (loop == NULL)
        return KS_FAIL(NO_MEMORY);
    loop->now = ks_instant_now();
    loop->epoll_fd = loop->wake.fd = loop->signals.fd = -1;
    loop->hooks_due = KS_NEVER;
    ks_link_init(&loop->hooks);

    err = fill(loop);
    if (!ks_ok(err)) {
        ks_loop_free(loop);
        return err;
    }
    *ret_loop = loop;
    return KS_OK;
}

static void close_fd(int fd)
{
    if (fd >= 0)
        (void)close(fd);
}

void ks_loop_free(struct ks_loop *loop)
{
    if (loop == NULL)
        return;
    assert(!loop->turning);
    ks_jobs_free(loop->jobs);
    ks_timers_free(&loop->timers);
    close_fd(loop->signals.fd);
    close_fd(loop->wake.fd);
    close_fd(loop->epoll_fd);
    ks_free(loop);
}

/* Watches. */

ks_err ks_loop_watch(struct ks_loop *loop, struct ks_watch *watch, uint32_t events)
{
    struct epoll_event wanted = {.events = events, .data.ptr = watch};

    assert(watch->ready != NULL);
    assert(watch->fd >= 0);
    if (epoll_ctl(loop->epoll_fd, watch->watching ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, watch->fd,
                  &wanted) != 0)
        return KS_FAIL(SYSTEM);
    watch->watching = true;
    watch->events = events;
    return KS_OK;
}

void ks_loop_unwatch(struct ks_loop *loop, struct ks_watch *watch)
{
    if (!watch->watching)
        return;
    watch->watching = false;
    /* It fails only for an fd that a library closed before it told us; then the kernel has forgotten it already. */
    (void)epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
    /* It may be freed now: what this turn has not told it yet is told to nobody. */
    for (int i = loop->ready_next; i < loop->ready_count; i++) {
        if (loop->ready[i].data.ptr == watch)
            loop->ready[i].data.ptr = NULL;
    }
}

static void run_watches(struct ks_loop *loop)
{
    while (loop->ready_next < loop->ready_count) {
        struct epoll_event event = loop->ready[loop->ready_next];
        struct ks_watch *watch = event.data.ptr;
        uint32_t told;

        loop->ready_next++;
        if (watch == NULL)
            continue;
        /* Another watch may have changed in this turn what this one waits for. */
        told = event.events & (watch->events | EPOLLERR | EPOLLHUP);
        if (told != 0)
            watch->ready(watch, told);
    }
}

/* Timers, jobs, hooks. */

void ks_loop_timer_set(struct ks_loop *loop, struct ks_timer *timer, ks_instant at)
{
    assert(timer->due != NULL);
    ks_timers_set(&loop->timers, timer, at);
}

void ks_loop_timer_clear(struct ks_loop *loop, struct ks_timer *timer)
{
    ks_timers_clear(&loop->timers, timer);
}

static bool run_timers(struct ks_loop *loop)
{
    for (int i = 0; i < EVENTS_MAX; i++) {
        struct ks_timer *timer = ks_timers_take_due(&loop->timers, loop->now);
        if (timer == NULL)
            return false;
        timer->due(timer);
    }
    return true;
}

ks_err ks_loop_queue_new(struct ks_loop *loop, struct ks_job_queue **ret_queue)
{
    return ks_jobs_queue_new(loop->jobs, ret_queue);
}

void ks_loop_queue_close(struct ks_job_queue *queue)
{
    if (queue != NULL)
        ks_jobs_queue_close(queue);
}

void ks_loop_submit_to(struct ks_loop *loop, struct ks_job_queue *queue, struct ks_job *job)
{
    loop->jobs_away++;
    ks_jobs_submit(queue, job);
}

void ks_loop_submit(struct ks_loop *loop, struct ks_job *job)
{
    ks_loop_submit_to(loop, loop->queue, job);
}

static bool run_finished_jobs(struct ks_loop *loop)
{
    for (int i = 0; i < EVENTS_MAX; i++) {
        struct ks_job *job = ks_jobs_take_done(loop->jobs);
        if (job == NULL)
            return false;
        assert(loop->jobs_away > 0);
        loop->jobs_away--;
        job->done(job);
    }
    return true;
}

void ks_loop_hook(struct ks_loop *loop, struct ks_hook *hook)
{
    assert(hook->turn != NULL);
    ks_list_append(&loop->hooks, &hook->link);
    loop->hooks_due = KS_LONG_AGO;
}

void ks_loop_unhook(struct ks_loop *loop, struct ks_hook *hook)
{
    if (loop->hook_next == &hook->link)
        loop->hook_next = hook->link.next;
    ks_list_remove(&hook->link);
}

static void run_hooks(struct ks_loop *loop)
{
    ks_instant due = KS_NEVER;

    loop->hooks_due = KS_NEVER;
    for (struct ks_link *link = loop->hooks.next; link != &loop->hooks; link = loop->hook_next) {
        struct ks_hook *hook = KS_LIST_ENTRY(link, struct ks_hook, link);
        loop->hook_next = link->next;
        due = ks_instant_min(due, hook->turn(hook, loop->now));
    }
    loop->hook_next = NULL;
    /* A hook that was added meanwhile may have been missed. */
    loop->hooks_due = ks_instant_min(loop->hooks_due, due);
}

/* Turns. */

static int wait_ms(const struct ks_loop *loop, ks_span wait)
{
    ks_instant now = ks_instant_now();
    ks_instant due = ks_instant_min(ks_timers_next(&loop->timers), loop->hooks_due);
    int64_t us = wait.us;

    if (loop->more || ks_instant_reached(now, due))
        return 0;
    if (us > (int64_t)WAIT_MAX_MS * 1000)
        us = (int64_t)WAIT_MAX_MS * 1000;
    if (loop->log_left && us > (int64_t)LOG_AGAIN_MS * 1000)
        us = (int64_t)LOG_AGAIN_MS * 1000;
    if (due.us - now.us < us)
        us = due.us - now.us;
    /* Rounded up, for a wait that ends too early ends in a second one. */
    return us <= 0 ? 0 : (int)((us + 999) / 1000);
}

void ks_loop_turn(struct ks_loop *loop, ks_span wait)
{
    ks_span took;

    assert(!loop->turning);
    loop->turning = true;
    loop->ready_next = 0;
    loop->ready_count = epoll_wait(loop->epoll_fd, loop->ready, EVENTS_MAX, wait_ms(loop, wait));
    /* Interrupted by a signal that is not ours: nothing is ready. */
    assert(loop->ready_count >= 0 || errno == EINTR);
    loop->now = ks_instant_now();

    ks_metric_add(KS_METRIC_LOOP_TURNS, 1);
    run_watches(loop);
    loop->more = run_timers(loop);
    loop->more |= run_finished_jobs(loop);
    run_hooks(loop);
    loop->log_left = ks_log_flush();

    took = ks_instant_since(ks_instant_now(), loop->now);
    if (took.us > loop->turn_longest.us) {
        loop->turn_longest = took;
        ks_metric_set(KS_METRIC_LOOP_TURN_LONGEST, took.us);
    }
    loop->turning = false;
}

void ks_loop_run(struct ks_loop *loop)
{
    while (!loop->stopping)
        ks_loop_turn(loop, ks_span_ms(WAIT_MAX_MS));
    loop->stopping = false;
}

void ks_loop_await_jobs(struct ks_loop *loop, ks_span patience)
{
    const ks_instant until = ks_instant_add(ks_instant_now(), patience);

    ks_loop_turn(loop, ks_span_ms(0));
    while (loop->jobs_away > 0 && !ks_instant_reached(loop->now, until))
        ks_loop_turn(loop, ks_instant_since(until, loop->now));
}

void ks_loop_stop(struct ks_loop *loop)
{
    loop->stopping = true;
}

ks_span ks_loop_turn_longest(const struct ks_loop *loop)
{
    return loop->turn_longest;
}

void ks_loop_wake(struct ks_loop *loop)
{
    const uint64_t one = 1;
    int before = errno;

    /* It fails only when the counter is full, and then the loop is awake anyway. */
    ssize_t written = write(loop->wake.fd, &one, sizeof(one));
    (void)written;
    errno = before;
}

/* Signals. */

static void read_signals(struct ks_watch *watch, uint32_t events)
{
    struct ks_loop *loop = KS_LIST_ENTRY(watch, struct ks_loop, signals);

    (void)events;
    for (int i = 0; i < SIGNALS_MAX; i++) {
        struct signalfd_siginfo info;
        if (read(watch->fd, &info, sizeof(info)) != (ssize_t)sizeof(info))
            return;
        loop->caught(loop->caught_arg, (int)info.ssi_signo);
    }
}

ks_err ks_loop_signals(struct ks_loop *loop, void (*caught)(void *arg, int signal), void *arg)
{
    sigset_t ours;

    assert(loop->signals.fd < 0);
    (void)sigemptyset(&ours);
    (void)sigaddset(&ours, SIGTERM);
    (void)sigaddset(&ours, SIGINT);
    (void)sigaddset(&ours, SIGHUP);
    loop->signals = (struct ks_watch){.ready = read_signals,
                                      .fd = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK)};
    if (loop->signals.fd < 0)
        return KS_FAIL(SYSTEM);
    loop->caught = caught;
    loop->caught_arg = arg;
    /* The threads of jobs have them blocked already. */
    if (sigprocmask(SIG_BLOCK, &ours, NULL) != 0)
        return KS_FAIL(SYSTEM);
    return ks_loop_watch(loop, &loop->signals, EPOLLIN);
}
