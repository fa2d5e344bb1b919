/* SPDX-License-Identifier: Apache-2.0 */
/* consumer.h - a consumer: its engine, shared by the threads of the app and the thread of the
 * consumer.
 *
 * The mutex is held for moments only: neither I/O nor code of the app runs under it.
 */
#ifndef KS_CONSUMER_H
#define KS_CONSUMER_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine.h"
#include "options.h"

struct ks_consumer {
    struct ks_options options;
    unsigned forks;  /* Of the process, when the consumer was made. */
    int wake_fds[2]; /* A pipe. A byte wakes the thread of the consumer. */
    atomic_bool is_stopped;

    /* The thread of the consumer calls it. It returns after `is_closing`. */
    void (*serve)(struct ks_consumer *consumer);
    /* Acknowledges a record, and waits for the lease table. Returns whether it covers the
     * record. */
    bool (*ack_persisted)(const struct ks_consumer *consumer, const char *ack_id);
    void *serve_context; /* Of both. */

    pthread_mutex_t mutex; /* Of all below. */
    pthread_cond_t changed;
    struct ks_engine engine;
    ks_client_error error;
    bool is_signalled; /* A byte is in the pipe for the state of the engine. */
    bool is_started;
    bool is_closing;
    bool is_joined;
    pthread_t thread;
    unsigned runs; /* Calls of ks_consumer_run(). */
    unsigned idle; /* Threads of the app that wait for records. */
    size_t wanted; /* Records for which they wait. */

    /* Of the thread that reads: what it was handed out last. */
    ks_record **handed_out;
    size_t handed_out_count;
    size_t handed_out_capacity;
    ks_batch batch;
};

/* Milliseconds of the monotonic clock. */
int64_t ks_now(void);

/* True in a child process of the one that made the consumer. */
bool ks_consumer_is_forked(const struct ks_consumer *consumer);

/* Begins to read, if that has not begun: starts the thread. Returns false if there is nothing to
 * read. The mutex is held. */
bool ks_consumer_begin(struct ks_consumer *consumer, uint32_t concurrency);

/* True if records may be handed out. The mutex is held. */
bool ks_consumer_may_read(const struct ks_consumer *consumer);

/* Waits for a change, until the instant at the latest; INT64_MAX: without a limit. The mutex is
 * held. */
void ks_consumer_wait(struct ks_consumer *consumer, int64_t until);

/* Unlocks the mutex, and wakes the thread of the consumer if something has to be sent. */
void ks_consumer_unlock(struct ks_consumer *consumer);

/* Wakes the thread of the consumer. It is async-signal-safe. */
void ks_consumer_wake(const struct ks_consumer *consumer);

/* Empties the pipe. */
void ks_consumer_clear_wake(const struct ks_consumer *consumer);

/* Ends the reading with an error. The first one counts. */
void ks_consumer_fail(struct ks_consumer *consumer, const ks_client_error *error);

/* Takes over deliveries that were read: links `owner`. Returns false if there is no memory. */
bool ks_consumer_arrive(struct ks_consumer *consumer, struct ks_link *deliveries);

/* Releases what was handed out. `ack`: acknowledges it. The mutex is held. */
void ks_consumer_take_back(struct ks_consumer *consumer, bool ack);

/* Makes an error. `message` is in the form of printf(). */
ks_client_error ks_client_error_new(ks_client_status status, const char *message, ...)
    __attribute__((format(printf, 2, 3)));

#endif
