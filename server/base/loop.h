/* SPDX-License-Identifier: Apache-2.0 */
/* loop.h - the one thread that owns everything: epoll, timers, signals, jobs.
 *
 * A turn: wait (epoll) until something is ready or a deadline is due; read the clock once; run ready watches, due
 * timers, finished jobs; then every `turn` hook, which also says when it wants to run next. Completions are thus never
 * called inside the call that asked for them.
 * A turn is bounded: at most 256 watches, 256 timers and 256 jobs; the rest waits for the next turn, after the hooks.
 * Jobs run whole on other threads, first in first out in a queue, a thread for each queue: blocking work goes in as a
 * struct and comes back as a struct. A job waits for jobs of its own queue only.
 * A wait lasts at most a second, for epoll's clock stands still while the machine sleeps and CLOCK_BOOTTIME does not.
 */
#ifndef KS_BASE_LOOP_H
#define KS_BASE_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/instant.h"
#include "base/list.h"

struct ks_loop;

/* Creates the loop and the queue of ks_loop_submit. SYSTEM, NO_MEMORY. */
KS_MUST_USE ks_err ks_loop_new(struct ks_loop **ret_loop);
/* Waits for the running jobs, drops queued ones without calling `done`, and frees. NULL is allowed. */
void ks_loop_free(struct ks_loop *loop);

/* Turns until ks_loop_stop, which ends the current turn as usual and may also be called before. */
void ks_loop_run(struct ks_loop *loop);
/* One turn that waits at most `wait` (for tests and shutdown). */
void ks_loop_turn(struct ks_loop *loop, ks_span wait);
void ks_loop_stop(struct ks_loop *loop);
/* The longest turn so far, without its wait. Also kept as the metric loop_turn_longest_seconds. */
ks_span ks_loop_turn_longest(const struct ks_loop *loop);

/* The instant of this turn (CLOCK_BOOTTIME), read once at its start. */
ks_instant ks_loop_now(const struct ks_loop *loop);
/* CLOCK_BOOTTIME, read afresh: for measuring within a turn, and for programs without a loop. */
ks_instant ks_instant_now(void);
/* Unix time, read afresh. Towards AWS and people only. */
ks_wall ks_wall_now(void);

/* Watches a descriptor. `events` are EPOLLIN, EPOLLOUT, EPOLLRDHUP, EPOLLET, as in epoll(7). The struct belongs to the
 * caller and must stay where it is until unwatched. In `ready` any watch may be unwatched, itself too. */
struct ks_watch {
    void (*ready)(struct ks_watch *watch, uint32_t events);
    int fd;
    uint32_t events;
    bool watching; /* The loop's own. */
};

/* Watching again with other events modifies. SYSTEM. */
KS_MUST_USE ks_err ks_loop_watch(struct ks_loop *loop, struct ks_watch *watch, uint32_t events);
/* Does nothing if it is not watched. Call it before closing the fd. */
void ks_loop_unwatch(struct ks_loop *loop, struct ks_watch *watch);

/* A one-shot timer; the struct belongs to the caller. Zero-initialise it. In `due` any timer may be set or cleared. */
struct ks_timer {
    void (*due)(struct ks_timer *timer);
    ks_instant at;  /* When it is due; changed by ks_loop_timer_set only. */
    uint32_t place; /* In the heap, from 1; 0 = not set. */
};

/* Sets it, or moves it. At most 262,144 timers of a loop are set at one time. */
void ks_loop_timer_set(struct ks_loop *loop, struct ks_timer *timer, ks_instant at);
void ks_loop_timer_clear(struct ks_loop *loop, struct ks_timer *timer);

/* A job. `run` is called on the thread of its queue and touches nothing but the job's own struct; `done` is called on
 * the loop in a later turn. The struct belongs to the caller until `done`. */
struct ks_job {
    void (*run)(struct ks_job *job);
    void (*done)(struct ks_job *job);
    struct ks_link link; /* The loop's own. */
};

/* A queue for the jobs of one file that may be locked, or whose disk may stall: it delays nothing but itself. */
struct ks_job_queue;

/* SYSTEM, NO_MEMORY. */
KS_MUST_USE ks_err ks_loop_queue_new(struct ks_loop *loop, struct ks_job_queue **ret_queue);
/* Its submitted jobs still run and come back, and are not waited for; then its thread ends. NULL is allowed. */
void ks_loop_queue_close(struct ks_job_queue *queue);
void ks_loop_submit_to(struct ks_loop *loop, struct ks_job_queue *queue, struct ks_job *job);
/* To the loop's own queue: for small files that are read whole. */
void ks_loop_submit(struct ks_loop *loop, struct ks_job *job);
/* Turns, at least once, until every job has come back, at most `patience`: for those whose owners are gone. */
void ks_loop_await_jobs(struct ks_loop *loop, ks_span patience);

/* Called once at the end of every turn. Returns when it wants to be called at the latest (KS_NEVER: when anything
 * happens). */
struct ks_hook {
    ks_instant (*turn)(struct ks_hook *hook, ks_instant now);
    struct ks_link link; /* The loop's own. */
};

/* Hooks run in the order in which they were added. */
void ks_loop_hook(struct ks_loop *loop, struct ks_hook *hook);
void ks_loop_unhook(struct ks_loop *loop, struct ks_hook *hook);

/* Ends the current wait at once; the only function that other threads may call. Async-signal-safe. */
void ks_loop_wake(struct ks_loop *loop);

/* `caught(arg, signal)` is called on the loop for SIGTERM, SIGINT and SIGHUP, which from now on reach the process in no
 * other way. Once a loop. SYSTEM. */
KS_MUST_USE ks_err ks_loop_signals(struct ks_loop *loop, void (*caught)(void *arg, int signal),
                                   void *arg);

#endif
