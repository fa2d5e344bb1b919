/* SPDX-License-Identifier: Apache-2.0 */
#include "consumer.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "driver.h"

enum {
    MS_PER_S = 1000,
    NS_PER_MS = 1000000,
    HEARTBEAT_MS = 10000 /* Until the sidecar names its own. */
};

/* Forks that made this process, as far as the package was used before. */
static atomic_uint forks;

static void note_fork(void)
{
    atomic_fetch_add(&forks, 1);
}

static void prepare_process(void)
{
    (void)curl_global_init(CURL_GLOBAL_DEFAULT);
    (void)pthread_atfork(NULL, NULL, note_fork);
}

int64_t ks_now(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * MS_PER_S + now.tv_nsec / NS_PER_MS;
}

ks_client_error ks_client_error_new(ks_client_status status, const char *message, ...)
{
    ks_client_error error = {.status = status};
    va_list arguments;

    va_start(arguments, message);
    (void)vsnprintf(error.message, sizeof(error.message), message, arguments);
    va_end(arguments);
    return error;
}

/* ---- Life ---- */

static bool open_pipe(int fds[2])
{
    if (pipe(fds) != 0) {
        fds[0] = fds[1] = -1;
        return false;
    }
    for (int i = 0; i < 2; i++)
        if (fcntl(fds[i], F_SETFD, FD_CLOEXEC) != 0 || fcntl(fds[i], F_SETFL, O_NONBLOCK) != 0)
            return false;
    return true;
}

static void close_pipe(const int fds[2])
{
    for (int i = 0; i < 2; i++)
        if (fds[i] >= 0)
            (void)close(fds[i]);
}

static void free_memory(struct ks_consumer *consumer)
{
    close_pipe(consumer->wake_fds);
    ks_engine_free(&consumer->engine);
    ks_options_free(&consumer->options);
    free(consumer->handed_out);
    free(consumer);
}

/* Makes the mutex and the condition. Returns false if the system has no room. */
static bool make_locks(struct ks_consumer *consumer)
{
    pthread_condattr_t attributes;
    bool is_made;

    if (pthread_mutex_init(&consumer->mutex, NULL) != 0)
        return false;
    if (pthread_condattr_init(&attributes) != 0) {
        (void)pthread_mutex_destroy(&consumer->mutex);
        return false;
    }
    is_made = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) == 0 &&
              pthread_cond_init(&consumer->changed, &attributes) == 0;
    (void)pthread_condattr_destroy(&attributes);
    if (!is_made)
        (void)pthread_mutex_destroy(&consumer->mutex);
    return is_made;
}

ks_consumer *ks_consumer_new(const char *client_id, const ks_consumer_options *options)
{
    static pthread_once_t prepared = PTHREAD_ONCE_INIT;
    struct ks_consumer *consumer = calloc(1, sizeof(*consumer));
    const ks_consumer_options *given;

    if (consumer == NULL)
        return NULL;
    (void)pthread_once(&prepared, prepare_process);
    ks_engine_init(&consumer->engine);
    if (!open_pipe(consumer->wake_fds) ||
        !ks_options_init(&consumer->options, client_id, options) || !make_locks(consumer)) {
        free_memory(consumer);
        return NULL;
    }
    given = &consumer->options.given;
    consumer->engine.max_processing_ms = given->max_processing_ms;
    consumer->engine.ack_interval_ms = given->ack_interval_ms;
    consumer->engine.heartbeat_ms = HEARTBEAT_MS;
    consumer->engine.ack_deadline_ms = given->ack_deadline_ms;
    consumer->engine.max_in_flight = given->max_in_flight;
    consumer->engine.max_in_flight_bytes = given->max_in_flight_bytes;
    consumer->forks = atomic_load(&forks);
    consumer->serve = ks_driver_serve;
    consumer->ack_persisted = ks_driver_ack_persisted;
    return consumer;
}

void ks_consumer_stop(ks_consumer *consumer)
{
    if (ks_consumer_is_forked(consumer))
        return;
    atomic_store(&consumer->is_stopped, true);
    ks_consumer_wake(consumer); /* Its thread wakes the others: a signal handler must not. */
}

void ks_consumer_close(ks_consumer *consumer)
{
    bool joins;

    if (ks_consumer_is_forked(consumer))
        return;
    (void)pthread_mutex_lock(&consumer->mutex);
    consumer->is_closing = true;
    (void)pthread_cond_broadcast(&consumer->changed);
    while (consumer->runs > 0)
        ks_consumer_wait(consumer, INT64_MAX);
    ks_consumer_take_back(consumer, false);
    joins = consumer->is_started && !consumer->is_joined;
    consumer->is_joined = true;
    (void)pthread_mutex_unlock(&consumer->mutex);
    ks_consumer_wake(consumer);
    if (joins)
        (void)pthread_join(consumer->thread, NULL);
}

void ks_consumer_free(ks_consumer *consumer)
{
    if (consumer == NULL || ks_consumer_is_forked(consumer))
        return; /* The parent's thread may hold its locks. */
    ks_consumer_close(consumer);
    (void)pthread_cond_destroy(&consumer->changed);
    (void)pthread_mutex_destroy(&consumer->mutex);
    free_memory(consumer);
}

bool ks_consumer_is_forked(const struct ks_consumer *consumer)
{
    return atomic_load_explicit(&forks, memory_order_relaxed) != consumer->forks;
}

/* ---- Reading ---- */

static void *serve(void *context)
{
    struct ks_consumer *consumer = context;

    consumer->serve(consumer);
    return NULL;
}

/* Starts the thread with all signals blocked: they are the app's. */
static bool start_thread(struct ks_consumer *consumer)
{
    sigset_t all, before;
    int result;

    (void)sigfillset(&all);
    if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0)
        return false;
    result = pthread_create(&consumer->thread, NULL, serve, consumer);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return result == 0;
}

static void set_error(struct ks_consumer *consumer, const ks_client_error *error)
{
    if (consumer->error.status == KS_CLIENT_OK)
        consumer->error = *error;
    (void)pthread_cond_broadcast(&consumer->changed);
}

static void start(struct ks_consumer *consumer, uint32_t concurrency)
{
    ks_client_error error = ks_client_error_new(KS_CLIENT_INVALID, "%s", consumer->options.invalid);

    if (error.message[0] == '\0') {
        ks_options_order(&consumer->options, concurrency);
        consumer->engine.lanes.ordering = consumer->options.given.ordering;
        consumer->is_started = start_thread(consumer);
        error = ks_client_error_new(KS_CLIENT_NO_MEMORY, "the system refuses a thread");
    }
    if (!consumer->is_started)
        set_error(consumer, &error);
}

bool ks_consumer_begin(struct ks_consumer *consumer, uint32_t concurrency)
{
    if (!consumer->is_started && ks_consumer_may_read(consumer))
        start(consumer, concurrency);
    return ks_consumer_may_read(consumer);
}

bool ks_consumer_may_read(const struct ks_consumer *consumer)
{
    return consumer->error.status == KS_CLIENT_OK && !consumer->is_closing &&
           !atomic_load_explicit(&consumer->is_stopped, memory_order_relaxed);
}

void ks_consumer_wait(struct ks_consumer *consumer, int64_t until)
{
    struct timespec at = {.tv_sec = (time_t)(until / MS_PER_S),
                          .tv_nsec = (long)(until % MS_PER_S) * NS_PER_MS};

    if (consumer->engine.is_woken && !consumer->is_signalled) {
        consumer->is_signalled = true;
        ks_consumer_wake(consumer);
    }
    consumer->idle++;
    if (until == INT64_MAX)
        (void)pthread_cond_wait(&consumer->changed, &consumer->mutex);
    else
        (void)pthread_cond_timedwait(&consumer->changed, &consumer->mutex, &at);
    consumer->idle--;
}

void ks_consumer_unlock(struct ks_consumer *consumer)
{
    bool wakes = consumer->engine.is_woken && !consumer->is_signalled;

    consumer->is_signalled = consumer->is_signalled || wakes;
    (void)pthread_mutex_unlock(&consumer->mutex);
    if (wakes)
        ks_consumer_wake(consumer);
}

void ks_consumer_wake(const struct ks_consumer *consumer)
{
    int before = errno;
    ssize_t written = write(consumer->wake_fds[1], "", 1);

    (void)written; /* A full pipe wakes, too. */
    errno = before;
}

void ks_consumer_clear_wake(const struct ks_consumer *consumer)
{
    char bytes[64];

    while (read(consumer->wake_fds[0], bytes, sizeof(bytes)) > 0)
        continue;
}

void ks_consumer_fail(struct ks_consumer *consumer, const ks_client_error *error)
{
    (void)pthread_mutex_lock(&consumer->mutex);
    set_error(consumer, error);
    (void)pthread_mutex_unlock(&consumer->mutex);
}

bool ks_consumer_arrive(struct ks_consumer *consumer, struct ks_link *deliveries)
{
    struct ks_link *link;
    int64_t now = ks_now();
    unsigned count = 0;
    bool has_memory = true;

    (void)pthread_mutex_lock(&consumer->mutex);
    while (has_memory && (link = ks_list_take(deliveries)) != NULL) {
        struct ks_delivery *delivery = KS_LIST_ENTRY(link, struct ks_delivery, owner);
        delivery->consumer = consumer;
        has_memory = ks_engine_arrive(&consumer->engine, delivery, now);
        if (!has_memory)
            ks_delivery_release(delivery);
        count++;
    }
    if (consumer->engine.lanes.count >= consumer->wanted)
        for (unsigned i = 0; i < count && i < consumer->idle; i++)
            (void)pthread_cond_signal(&consumer->changed);
    (void)pthread_mutex_unlock(&consumer->mutex);
    return has_memory;
}

void ks_consumer_take_back(struct ks_consumer *consumer, bool ack)
{
    int64_t now = ks_now();

    for (size_t i = 0; i < consumer->handed_out_count; i++) {
        struct ks_delivery *delivery = (struct ks_delivery *)consumer->handed_out[i];
        if (ack)
            ks_engine_settle(&consumer->engine, delivery, KS_OUTCOME_ACK, 0, NULL, now);
        ks_delivery_release(delivery);
    }
    consumer->handed_out_count = 0;
}

/* ---- What became of it ---- */

ks_client_status ks_consumer_status(ks_consumer *consumer)
{
    return ks_consumer_error(consumer)->status;
}

const ks_client_error *ks_consumer_error(ks_consumer *consumer)
{
    static const ks_client_error OK = {.status = KS_CLIENT_OK};
    static const ks_client_error STOPPED = {.status = KS_CLIENT_STOPPED,
                                            .message = "the consumer was stopped"};
    static const ks_client_error CLOSED = {.status = KS_CLIENT_CLOSED,
                                           .message = "the consumer is closed"};
    static const ks_client_error FORKED = {
        .status = KS_CLIENT_FORKED,
        .message = "the consumer was made in another process: make one after the fork"};
    const ks_client_error *error = &OK;

    if (ks_consumer_is_forked(consumer))
        return &FORKED;
    (void)pthread_mutex_lock(&consumer->mutex);
    if (consumer->error.status != KS_CLIENT_OK)
        error = &consumer->error;
    else if (atomic_load(&consumer->is_stopped))
        error = &STOPPED;
    else if (consumer->is_closing)
        error = &CLOSED;
    (void)pthread_mutex_unlock(&consumer->mutex);
    return error;
}

uint64_t ks_consumer_stale(ks_consumer *consumer)
{
    uint64_t stale;

    if (ks_consumer_is_forked(consumer))
        return 0;
    (void)pthread_mutex_lock(&consumer->mutex);
    stale = consumer->engine.stale;
    (void)pthread_mutex_unlock(&consumer->mutex);
    return stale;
}

uint64_t ks_consumer_failed(ks_consumer *consumer)
{
    uint64_t failed;

    if (ks_consumer_is_forked(consumer))
        return 0;
    (void)pthread_mutex_lock(&consumer->mutex);
    failed = consumer->engine.failed;
    (void)pthread_mutex_unlock(&consumer->mutex);
    return failed;
}
