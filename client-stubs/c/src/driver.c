/* SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"

#include <string.h>

#include "event.h"
#include "stream.h"

enum {
    BACKOFF_FIRST_MS = 100,
    BACKOFF_MAX_MS = 5000,
    BACKOFF_DOUBLINGS_MAX = 6,
    RETRY_AFTER_MAX_MS = 30000,
    HEARTBEATS_MISSED = 3,
    SILENCE_EXTRA_MS = 1000,
    ANSWER_MS_MAX = 5000,
    PERSISTED_WAIT_MS = 10000,
    POLL_MS_MAX = 60000
};

/* What is in flight on the connection that settles. */
enum call { CALL_NONE, CALL_SETTLE, CALL_DELETE };

struct driver {
    struct ks_consumer *consumer;
    CURLM *multi;
    struct ks_stream stream;
    struct ks_http http; /* Of calls. */
    enum call call;
    unsigned attempts; /* To open the stream, without a session. */
    int64_t connect_at;
    uint64_t chance; /* State of the generator. */
    bool is_over;

    /* The consumer, at the begin of this turn. */
    bool is_closing;
    bool may_open; /* The stream. */
    int64_t heartbeat_ms;
};

/* ---- The stream ---- */

/* A pause before the next attempt: 0.1 s, doubled up to 5 s, less up to a half by chance. */
static int64_t next_pause(struct driver *driver)
{
    unsigned doublings =
        driver->attempts < BACKOFF_DOUBLINGS_MAX ? driver->attempts : BACKOFF_DOUBLINGS_MAX;
    int64_t pause = (int64_t)BACKOFF_FIRST_MS << doublings;

    pause = pause < BACKOFF_MAX_MS ? pause : BACKOFF_MAX_MS;
    driver->attempts++;
    driver->chance = driver->chance * 6364136223846793005U + 1442695040888963407U;
    return pause - (int64_t)((driver->chance >> 33) % (uint64_t)(pause / 2));
}

/* The stream is away. Unless the reading has ended, it is opened again, after `retry_after_ms`
 * at the earliest. */
static void lose_stream(struct driver *driver, const char *reason, int64_t retry_after_ms)
{
    struct ks_consumer *consumer = driver->consumer;
    ks_event event = ks_event_new("disconnected");
    int64_t pause = next_pause(driver);
    bool is_final;

    if (retry_after_ms > pause)
        pause = retry_after_ms < RETRY_AFTER_MAX_MS ? retry_after_ms : RETRY_AFTER_MAX_MS;
    driver->connect_at = ks_now() + pause;
    (void)pthread_mutex_lock(&consumer->mutex);
    ks_engine_detached(&consumer->engine);
    is_final = consumer->error.status != KS_CLIENT_OK;
    (void)pthread_mutex_unlock(&consumer->mutex);
    if (is_final)
        return;
    event.reason = reason;
    event.retry_in_ms = pause;
    ks_stream_report(&driver->stream, &event);
}

static void open_stream(struct driver *driver)
{
    struct ks_stream *stream = &driver->stream;

    if (!ks_stream_begin(stream))
        lose_stream(driver, stream->http.error, 0);
    else if (curl_multi_add_handle(driver->multi, stream->http.easy) != CURLM_OK)
        lose_stream(driver, "out of memory", 0);
    else
        stream->is_open = true;
}

static void detach_stream(struct driver *driver)
{
    (void)curl_multi_remove_handle(driver->multi, driver->stream.http.easy);
    driver->stream.is_open = false;
}

static void end_stream(struct driver *driver, CURLcode result)
{
    struct ks_stream *stream = &driver->stream;
    int status = ks_http_status(&stream->http);
    int64_t retry_after_ms = ks_http_retry_after(&stream->http);

    detach_stream(driver);
    if (status >= 400) {
        ks_client_error refusal = ks_http_refusal(&stream->http);
        if (retry_after_ms < 0) /* What is left is settled until the consumer is closed. */
            ks_consumer_fail(driver->consumer, &refusal);
        else
            lose_stream(driver, refusal.message, retry_after_ms);
    } else if (stream->broken != NULL) {
        lose_stream(driver, stream->broken, 0);
    } else if (result != CURLE_OK) {
        lose_stream(driver, ks_http_error(&stream->http, result), 0);
    } else {
        lose_stream(driver, "the sidecar ended the stream", 0);
    }
}

static int64_t silent_at(const struct driver *driver)
{
    return driver->stream.heard_at + HEARTBEATS_MISSED * driver->heartbeat_ms + SILENCE_EXTRA_MS;
}

/* Opens the stream, and ends one that is silent. Returns when to call it again. */
static int64_t tend_stream(struct driver *driver)
{
    struct ks_stream *stream = &driver->stream;
    int64_t now = ks_now();

    if (stream->is_session_open)
        driver->attempts = 0;
    if (stream->is_open && now >= silent_at(driver)) {
        detach_stream(driver);
        lose_stream(driver, "no heartbeat", 0);
    }
    if (!stream->is_open && driver->may_open && now >= driver->connect_at)
        open_stream(driver);
    if (stream->is_open)
        return silent_at(driver);
    return driver->may_open ? driver->connect_at : INT64_MAX;
}

/* ---- Settling ---- */

static void start_call(struct driver *driver, enum call call)
{
    if (curl_multi_add_handle(driver->multi, driver->http.easy) == CURLM_OK)
        driver->call = call;
}

/* The sidecar did not answer. A consumer that closes gives up: the sidecar redelivers the
 * records. */
static void lose_call(struct driver *driver, int64_t retry_after_ms)
{
    struct ks_consumer *consumer = driver->consumer;

    (void)pthread_mutex_lock(&consumer->mutex);
    if (driver->is_closing)
        ks_engine_refused(&consumer->engine);
    else
        ks_engine_unanswered(&consumer->engine, retry_after_ms, ks_now());
    (void)pthread_mutex_unlock(&consumer->mutex);
    driver->is_over = driver->is_closing;
}

/* Sends what is due, and at the end ends the session. Returns when to call it again. */
static int64_t tend_calls(struct driver *driver)
{
    struct ks_consumer *consumer = driver->consumer;
    struct ks_engine *engine = &consumer->engine;
    const struct ks_request *request;
    bool is_session_open;
    int64_t next_at;

    if (driver->call != CALL_NONE)
        return INT64_MAX;
    (void)pthread_mutex_lock(&consumer->mutex);
    request = ks_engine_request(engine, ks_now(), driver->is_closing);
    consumer->is_signalled = engine->is_woken;
    is_session_open = engine->is_session_open;
    next_at = ks_engine_next_at(engine);
    (void)pthread_mutex_unlock(&consumer->mutex);
    if (request != NULL) {
        if (ks_http_set_settle(&driver->http, &request->body))
            start_call(driver, CALL_SETTLE);
        if (driver->call == CALL_NONE)
            lose_call(driver, 0);
        return ks_now(); /* libcurl begins at once. */
    }
    if (!driver->is_closing)
        return next_at;
    if (is_session_open && ks_http_set_delete(&driver->http))
        start_call(driver, CALL_DELETE);
    driver->is_over = driver->call == CALL_NONE;
    return ks_now();
}

/* Calls on_event for each settlement that was refused by itself. */
static void report_failures(struct driver *driver, struct ks_link *failures)
{
    struct ks_link *link;

    while ((link = ks_list_take(failures)) != NULL) {
        ks_event event = ks_event_new("settle_failed");
        struct ks_delivery *frame = KS_LIST_ENTRY(link, struct ks_delivery, owner);
        ks_event_read_failure(frame, &event);
        ks_stream_report(&driver->stream, &event);
        ks_delivery_release(frame);
    }
}

enum fate {
    FATE_ANSWERED,
    FATE_LOST,   /* The request is sent again. */
    FATE_STALE,  /* The session of all settlements has ended. */
    FATE_REFUSED /* Another attempt would be refused, too. */
};

static enum fate fate_of(const struct ks_http *http, CURLcode result)
{
    int status = ks_http_status(http);

    if (result != CURLE_OK)
        return FATE_LOST;
    if (status == 200)
        return FATE_ANSWERED;
    if (status == 409 || status == 410)
        return FATE_STALE;
    return status < 400 || ks_http_retry_after(http) >= 0 ? FATE_LOST : FATE_REFUSED;
}

static void end_settle(struct driver *driver, CURLcode result)
{
    struct ks_consumer *consumer = driver->consumer;
    struct ks_engine *engine = &consumer->engine;
    const struct ks_http *http = &driver->http;
    enum fate fate = fate_of(http, result);
    struct ks_link failures;
    bool is_ignored; /* An extension, or of an ended session. */

    ks_link_init(&failures);
    (void)pthread_mutex_lock(&consumer->mutex);
    is_ignored = engine->request.is_extension || engine->request.state == KS_REQUEST_ORPHANED;
    if (fate == FATE_ANSWERED && !ks_engine_answered(engine, http->answer.data, http->answer.size))
        fate = FATE_LOST;
    if (fate == FATE_STALE || fate == FATE_REFUSED)
        ks_engine_refused(engine);
    ks_list_move(&failures, &engine->failures);
    (void)pthread_cond_broadcast(&consumer->changed); /* A retry may hold its lane no more. */
    (void)pthread_mutex_unlock(&consumer->mutex);
    if (fate == FATE_LOST) {
        lose_call(driver, ks_http_retry_after(http));
    } else if (fate == FATE_ANSWERED) {
        report_failures(driver, &failures);
    } else if (fate == FATE_REFUSED && !is_ignored) {
        ks_client_error refusal = ks_http_refusal(http);
        ks_consumer_fail(consumer, &refusal);
    }
}

static void end_call(struct driver *driver, CURLcode result)
{
    enum call call = driver->call;

    (void)curl_multi_remove_handle(driver->multi, driver->http.easy);
    driver->call = CALL_NONE;
    if (call == CALL_DELETE)
        driver->is_over = true; /* The session ends by itself, if this failed. */
    else
        end_settle(driver, result);
}

/* ---- The loop ---- */

static void take_results(struct driver *driver)
{
    CURLMsg *message;
    int left;

    while ((message = curl_multi_info_read(driver->multi, &left)) != NULL) {
        CURL *easy = message->easy_handle;
        CURLcode result = message->data.result;
        if (message->msg != CURLMSG_DONE)
            continue;
        if (easy == driver->http.easy)
            end_call(driver, result);
        else
            end_stream(driver, result);
    }
}

/* Waits for bytes, for the app, or for the instant. */
static void wait_until(struct driver *driver, int64_t until)
{
    struct ks_consumer *consumer = driver->consumer;
    struct curl_waitfd wake = {.fd = consumer->wake_fds[0], .events = CURL_WAIT_POLLIN};
    int64_t ms = until == INT64_MAX ? POLL_MS_MAX : until - ks_now();

    ms = ms < 0 ? 0 : ms > POLL_MS_MAX ? POLL_MS_MAX : ms;
    if (curl_multi_poll(driver->multi, &wake, 1, (int)ms, NULL) != CURLM_OK || wake.revents == 0)
        return;
    ks_consumer_clear_wake(consumer);
    (void)pthread_mutex_lock(&consumer->mutex);
    (void)pthread_cond_broadcast(&consumer->changed); /* ks_consumer_stop() may have been called. */
    (void)pthread_mutex_unlock(&consumer->mutex);
}

static void read_state(struct driver *driver)
{
    struct ks_consumer *consumer = driver->consumer;

    (void)pthread_mutex_lock(&consumer->mutex);
    driver->is_closing = consumer->is_closing && consumer->runs == 0;
    driver->may_open = !driver->is_closing && consumer->error.status == KS_CLIENT_OK;
    driver->heartbeat_ms = consumer->engine.heartbeat_ms;
    (void)pthread_mutex_unlock(&consumer->mutex);
}

static void serve(struct driver *driver)
{
    while (!driver->is_over) {
        int64_t stream_at;
        int64_t call_at;
        int running;
        read_state(driver);
        stream_at = tend_stream(driver);
        call_at = tend_calls(driver);
        if (driver->is_over)
            break;
        wait_until(driver, stream_at < call_at ? stream_at : call_at);
        (void)curl_multi_perform(driver->multi, &running);
        ks_stream_enter(&driver->stream);
        take_results(driver);
    }
    if (driver->stream.is_open)
        detach_stream(driver);
    if (driver->call != CALL_NONE)
        (void)curl_multi_remove_handle(driver->multi, driver->http.easy);
}

void ks_driver_serve(struct ks_consumer *consumer)
{
    struct driver driver = {.consumer = consumer, .multi = curl_multi_init()};
    bool has_stream = ks_stream_init(&driver.stream, consumer);
    bool has_http = ks_http_init(&driver.http, &consumer->options, ANSWER_MS_MAX);

    driver.chance = (uint64_t)ks_now() ^ (uint64_t)(uintptr_t)consumer;
    if (driver.multi != NULL && has_stream && has_http) {
        serve(&driver);
    } else {
        ks_client_error error = ks_client_error_new(KS_CLIENT_NO_MEMORY, "out of memory");
        ks_consumer_fail(consumer, &error);
    }
    ks_stream_free(&driver.stream);
    ks_http_free(&driver.http);
    (void)curl_multi_cleanup(driver.multi);
}

bool ks_driver_ack_persisted(const struct ks_consumer *consumer, const char *ack_id)
{
    struct ks_buffer body = {0};
    size_t begin = ks_wire_begin(&body, KS_SETTLE_REQUEST_SETTLEMENTS);
    bool is_persisted = false;
    struct ks_http http;

    ks_wire_add_bytes(&body, KS_SETTLEMENT_ACK_ID, ack_id, strlen(ack_id));
    ks_wire_add_number(&body, KS_SETTLEMENT_OUTCOME, KS_OUTCOME_ACK);
    ks_wire_end(&body, begin);
    ks_wire_add_number(&body, KS_SETTLE_REQUEST_WAIT, KS_WAIT_PERSISTED);
    ks_wire_add_number(&body, KS_SETTLE_REQUEST_WAIT_MS, PERSISTED_WAIT_MS);
    if (ks_http_init(&http, &consumer->options, PERSISTED_WAIT_MS + ANSWER_MS_MAX) &&
        ks_http_set_settle(&http, &body) && curl_easy_perform(http.easy) == CURLE_OK &&
        ks_http_status(&http) == 200) {
        struct ks_message answer = ks_message_of(http.answer.data, http.answer.size);
        struct ks_field field;
        bool has_failed = false;
        while (ks_message_next(&answer, &field)) {
            has_failed = has_failed || field.number == KS_SETTLE_RESPONSE_FAILED;
            is_persisted =
                is_persisted || (field.number == KS_SETTLE_RESPONSE_PERSISTED && field.value != 0);
        }
        is_persisted = is_persisted && !has_failed;
    }
    ks_http_free(&http);
    ks_buffer_free(&body);
    return is_persisted;
}
