/* SPDX-License-Identifier: Apache-2.0 */
/* A consumer whose connection is in trouble. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "reading.h"
#include "script.h"

static ks_consumer *consumer_of(const struct script *script, ks_consumer_options options)
{
    options.url = script->url;
    if (options.token_file == NULL)
        options.token_file = "";
    options.on_event = reading_note_event;
    return ks_consumer_new("orders", &options);
}

/* Waits for the next record. */
static ks_record *next(ks_consumer *consumer, int number)
{
    ks_record *record = ks_consumer_next(consumer, CHECK_PATIENCE_MS);

    EXPECT(record != NULL);
    EXPECT_EQ(strtol(record->sequence_number, NULL, 10), number);
    return record;
}

/* A thread that opens the next stream, and writes records. */
static struct script *opened;

static void *open_with_two_records(void *context)
{
    int stream = script_open(opened);

    (void)context;
    script_record(stream, "b1", 1, 1);
    script_record(stream, "b1", 2, 1);
    return NULL;
}

static void open_later(struct script *script)
{
    pthread_t thread;

    opened = script;
    EXPECT(pthread_create(&thread, NULL, open_with_two_records, NULL) == 0);
    (void)pthread_detach(thread);
}

TEST(refusal_that_is_final_ends_the_reading)
{
    static const int STATUSES[] = {400, 401, 403, 404};
    struct script *script = script_start();

    for (size_t i = 0; i < 4; i++) {
        ks_consumer *consumer = consumer_of(script, (ks_consumer_options){0});
        script_refuse(script, STATUSES[i], "",
                      "{\"code\":\"some-code\",\"detail\":\"a sentence\"}");
        EXPECT(ks_consumer_next(consumer, -1) == NULL);
        EXPECT_EQ(ks_consumer_status(consumer), KS_CLIENT_REFUSED);
        EXPECT_EQ(ks_consumer_error(consumer)->http_status, STATUSES[i]);
        EXPECT_STR(ks_consumer_error(consumer)->code, "some-code");
        EXPECT_CONTAINS(ks_consumer_error(consumer)->message, "a sentence");
        EXPECT_EQ(ks_consumer_run(consumer, NULL, NULL), KS_CLIENT_REFUSED);
        ks_consumer_free(consumer);
    }
}

TEST(refusal_that_is_temporary_is_tried_again)
{
    struct script *script = script_start();
    ks_consumer *consumer = consumer_of(script, (ks_consumer_options){0});

    script_refuse(script, 409, "", "{\"code\":\"aborted\",\"retryable\":true}");
    script_refuse(script, 429, "", "{}");
    script_refuse(script, 500, "", "<html>");
    script_refuse(script, 503, "", "");
    open_later(script);
    (void)next(consumer, 1);
    EXPECT(reading_has_event("disconnected(409"));
    EXPECT(reading_has_event("disconnected(429"));
    EXPECT(reading_has_event("disconnected(500"));
    EXPECT(reading_has_event("disconnected(503"));
    ks_consumer_free(consumer);
}

TEST(stream_is_asked_for_the_records_that_the_consumer_wants)
{
    struct script *script = script_start();
    ks_consumer *consumer = consumer_of(
        script, (ks_consumer_options){.share = "0.05", .salt = "v2", .filter = "{\"a\":[1]}"});

    open_later(script);
    (void)next(consumer, 1);
    EXPECT_CONTAINS(script->request, "&ordering=key&lanes=64&share=0.05&salt=v2&filter=%7B%22a%22");
    ks_consumer_free(consumer);
}

TEST(conflict_that_is_not_retryable_ends_the_reading)
{
    struct script *script = script_start();
    ks_consumer *consumer = consumer_of(script, (ks_consumer_options){0});

    script_refuse(script, 409, "", "{\"detail\":\"no\"}");
    EXPECT(ks_consumer_next(consumer, -1) == NULL);
    EXPECT_STR(ks_consumer_error(consumer)->message, "409 no");
    ks_consumer_free(consumer);
}

TEST(retry_after_is_heeded)
{
    struct script *script = script_start();
    ks_consumer *consumer = consumer_of(script, (ks_consumer_options){0});

    script_refuse(script, 503, "Retry-After: 1\r\n", "");
    open_later(script);
    (void)next(consumer, 1);
    EXPECT(reading_has_event("; in a second or more)"));
    ks_consumer_free(consumer);
}

TEST(missing_sidecar_is_waited_for)
{
    struct script *script = script_start();
    ks_consumer_options options = {.on_event = reading_note_event, .url = "http://127.0.0.1:1"};
    ks_consumer *consumer = ks_consumer_new("orders", &options);

    EXPECT(ks_consumer_next(consumer, 1) == NULL);
    EXPECT_EQ(ks_consumer_status(consumer), KS_CLIENT_OK);
    EVENTUALLY(reading_has_event("disconnected("));
    EVENTUALLY(strstr(strstr(reading_events(), "disconnected(") + 1, "disconnected(") != NULL);
    ks_consumer_free(consumer);
    EXPECT_EQ(script_count(script, &script->opened), 0);
}

TEST(token_file_that_is_missing_is_reported)
{
    struct script *script = script_start();
    ks_consumer *consumer =
        consumer_of(script, (ks_consumer_options){.token_file = "/nonexistent/token"});

    EXPECT(ks_consumer_next(consumer, 1) == NULL);
    EVENTUALLY(reading_has_event("disconnected(/nonexistent/token: No such file"));
    ks_consumer_free(consumer);
}

static void expect_reconnect(const void *bytes, size_t size, const char *reason)
{
    struct script *script = script_start();
    ks_consumer *consumer = consumer_of(script, (ks_consumer_options){0});
    int stream;

    EXPECT(ks_consumer_next(consumer, 0) == NULL);
    stream = script_open(script);
    script_record(stream, "b1", 1, 1);
    (void)next(consumer, 1);
    script_bytes(stream, bytes, size);
    stream = script_open(script);
    EXPECT(reading_has_event(reason));
    script_record(stream, "b2", 2, 1);
    (void)next(consumer, 2);
    ks_consumer_free(consumer);
}

TEST(malformed_message_drops_the_connection)
{
    expect_reconnect("\x02\x12\x05", 3, "disconnected(a message is malformed");
}

TEST(malformed_record_drops_the_connection)
{
    expect_reconnect("\x04\x12\x02\x0a\x05", 5, "disconnected(a record is malformed");
}

TEST(malformed_event_drops_the_connection)
{
    expect_reconnect("\x04\x1a\x02\x0a\x05", 5, "disconnected(an event is malformed");
}

TEST(malformed_barrier_drops_the_connection)
{
    expect_reconnect("\x04\x5a\x02\x0a\x05", 5, "disconnected(a barrier is malformed");
}

TEST(message_that_is_too_large_drops_the_connection)
{
    expect_reconnect("\xff\xff\xff\x7f", 4, "disconnected(a message has more than 32 MiB");
}

TEST(stream_that_is_cut_is_opened_again)
{
    struct script *script = script_start();
    ks_consumer *consumer = consumer_of(script, (ks_consumer_options){0});
    int stream;

    EXPECT(ks_consumer_next(consumer, 0) == NULL);
    stream = script_open(script);
    script_record(stream, "b1", 1, 1);
    (void)next(consumer, 1);
    script_drop(stream);
    stream = script_open(script);
    EXPECT(reading_has_event("disconnected("));
    script_record(stream, "b2", 2, 1);
    (void)next(consumer, 2);
    ks_consumer_free(consumer);
}

TEST(stream_that_ends_is_opened_again)
{
    struct script *script = script_start();
    ks_consumer *consumer = consumer_of(script, (ks_consumer_options){0});
    int stream;

    EXPECT(ks_consumer_next(consumer, 0) == NULL);
    stream = script_open(script);
    script_event(stream, KS_EVENT_ENDED, "\x08\x03", 2);
    script_bytes(stream, "", 0); /* The last chunk. */
    script_drop(stream);
    (void)script_open(script);
    EXPECT(reading_has_event("ended(drained)"));
    EXPECT(reading_has_event("disconnected(the sidecar ended the stream"));
    ks_consumer_free(consumer);
}

TEST(missed_heartbeats_end_the_connection)
{
    struct script *script = script_start();
    ks_consumer *consumer = consumer_of(script, (ks_consumer_options){0});

    EXPECT(ks_consumer_next(consumer, 0) == NULL);
    (void)script_open_with(script, 60000, 100);
    (void)script_open(script);
    EXPECT(reading_has_event("disconnected(no heartbeat"));
    ks_consumer_free(consumer);
}

TEST(unknown_event_is_passed_on)
{
    struct script *script = script_start();
    ks_consumer *consumer = consumer_of(script, (ks_consumer_options){0});
    int stream;

    EXPECT(ks_consumer_next(consumer, 0) == NULL);
    stream = script_open(script);
    script_event(stream, 77, "news", 4);
    script_record(stream, "b1", 1, 1);
    (void)next(consumer, 1);
    EXPECT(reading_has_event("unknown("));
    ks_consumer_free(consumer);
}

TEST(take_over_ends_the_reading_and_leaves_the_session_alone)
{
    struct script *script = script_start();
    ks_consumer *consumer = consumer_of(script, (ks_consumer_options){0});

    EXPECT(ks_consumer_next(consumer, 0) == NULL);
    script_event(script_open(script), KS_EVENT_ENDED, "\x08\x01", 2);
    EXPECT(ks_consumer_next(consumer, -1) == NULL);
    EXPECT_EQ(ks_consumer_status(consumer), KS_CLIENT_TAKEN_OVER);
    EXPECT_CONTAINS(ks_consumer_error(consumer)->message, "orders");
    ks_consumer_free(consumer);
    EXPECT_STR(reading_events(), "session() ended(taken_over)");
    EXPECT_EQ(script_count(script, &script->deleted), 0);
    EXPECT_EQ(script_count(script, &script->opened), 1);
}

static void write_token(const char *path, const char *token)
{
    FILE *file = fopen(path, "w");

    EXPECT(file != NULL && fprintf(file, "%s\n", token) > 0 && fclose(file) == 0);
}

TEST(token_file_is_read_for_each_request)
{
    struct script *script = script_start();
    char path[] = "token-XXXXXX";
    ks_consumer *consumer;
    int stream;

    EXPECT(close(mkstemp(path)) == 0);
    write_token(path, "first");
    consumer = consumer_of(script, (ks_consumer_options){.token_file = path});
    EXPECT(ks_consumer_next(consumer, 0) == NULL);
    stream = script_open(script);
    script_record(stream, "b1", 1, 1);
    write_token(path, "second");
    ks_record_drop(next(consumer, 1));
    EVENTUALLY(script_has(script, "1.1:drop"));
    write_token(path, "third");
    script_drop(stream);
    (void)script_open(script);
    EXPECT_STR(script->tokens, "first second third ");
    EXPECT(unlink(path) == 0);
    ks_consumer_free(consumer);
}

TEST(record_of_10_mib_is_delivered)
{
    struct script *script = script_start();
    ks_consumer *consumer = consumer_of(script, (ks_consumer_options){0});
    size_t size = 10 << 20;
    char *data = malloc(size);
    ks_record *record;

    EXPECT(data != NULL);
    memset(data, 'x', size);
    EXPECT(ks_consumer_next(consumer, 0) == NULL);
    script_data(script_open(script), 1, data, size);
    record = next(consumer, 1);
    EXPECT_EQ(record->data_size, size);
    EXPECT(memcmp(record->data, data, size) == 0);
    free(data);
    ks_consumer_free(consumer);
}

TEST(child_of_a_fork_is_refused)
{
    struct script *script = script_start();
    ks_consumer *consumer = consumer_of(script, (ks_consumer_options){0});
    ks_record *record;
    int status;
    pid_t pid;

    EXPECT(ks_consumer_next(consumer, 0) == NULL);
    script_record(script_open(script), "b1", 1, 1);
    record = next(consumer, 1);
    pid = fork();
    if (pid == 0) {
        (void)alarm(CHECK_SECONDS); /* The alarm of the parent is not inherited. */
        ks_record_drop(record);
        ks_consumer_stop(consumer);
        if (ks_consumer_next(consumer, -1) != NULL || ks_consumer_batch(consumer, 1, 1) != NULL ||
            ks_consumer_run(consumer, NULL, NULL) != KS_CLIENT_FORKED ||
            strstr(ks_consumer_error(consumer)->message, "fork") == NULL)
            _exit(1);
        ks_consumer_free(consumer);
        _exit(7);
    }
    EXPECT(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), 7);
    EXPECT_EQ(ks_consumer_status(consumer), KS_CLIENT_OK);
    ks_consumer_free(consumer);
    EXPECT_STR(script_outcomes(script), "");
}

TEST(invalid_options_are_reported_by_the_first_call_that_reads)
{
    ks_consumer *consumer = ks_consumer_new("a b", NULL);

    EXPECT_EQ(ks_consumer_status(consumer), KS_CLIENT_OK);
    EXPECT(ks_consumer_next(consumer, -1) == NULL);
    EXPECT_EQ(ks_consumer_status(consumer), KS_CLIENT_INVALID);
    EXPECT_CONTAINS(ks_consumer_error(consumer)->message, "client_id must be");
    ks_consumer_free(consumer);
    ks_consumer_free(NULL);
}

TEST(closed_consumer_reads_nothing)
{
    struct script *script = script_start();
    ks_consumer *consumer = consumer_of(script, (ks_consumer_options){0});

    ks_consumer_close(consumer);
    ks_consumer_close(consumer);
    EXPECT(ks_consumer_next(consumer, -1) == NULL);
    EXPECT(ks_consumer_batch(consumer, 0, 0) == NULL);
    EXPECT_EQ(ks_consumer_run(consumer, NULL, NULL), KS_CLIENT_CLOSED);
    ks_consumer_free(consumer);
    EXPECT_EQ(script_count(script, &script->opened), 0);
}

/* ---- The end ---- */

TEST(stopped_consumer_reads_nothing)
{
    struct script *script = script_start();
    ks_consumer *consumer = consumer_of(script, (ks_consumer_options){0});

    ks_consumer_stop(consumer);
    EXPECT(ks_consumer_next(consumer, -1) == NULL);
    EXPECT_EQ(ks_consumer_status(consumer), KS_CLIENT_STOPPED);
    EXPECT_EQ(ks_consumer_run(consumer, NULL, NULL), KS_CLIENT_OK);
    ks_consumer_free(consumer);
}

static ks_consumer *signalled;

static void stop_by_signal(int number)
{
    (void)number;
    ks_consumer_stop(signalled);
}

static void *signal_later(void *waiting)
{
    check_sleep(1000);
    EXPECT(pthread_kill(*(pthread_t *)waiting, SIGUSR1) == 0);
    return NULL;
}

TEST(stop_in_a_signal_handler_ends_a_wait)
{
    struct script *script = script_start();
    struct sigaction action = {.sa_handler = stop_by_signal, .sa_flags = SA_RESTART};
    pthread_t waiting = pthread_self(), thread;

    signalled = consumer_of(script, (ks_consumer_options){0});
    EXPECT(sigaction(SIGUSR1, &action, NULL) == 0);
    EXPECT(pthread_create(&thread, NULL, signal_later, &waiting) == 0);
    EXPECT(ks_consumer_next(signalled, -1) == NULL);
    EXPECT(pthread_join(thread, NULL) == 0);
    EXPECT_EQ(ks_consumer_status(signalled), KS_CLIENT_STOPPED);
    ks_consumer_free(signalled);
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

/* A handler that waits for the test. */
static int wait_at_gate(ks_record *record, void *context)
{
    (void)record;
    (void)context;
    (void)pthread_mutex_lock(&gate);
    (void)pthread_mutex_unlock(&gate);
    reading_note("end");
    return 0;
}

TEST(sigterm_ends_a_run_after_its_handlers)
{
    struct script *script = script_start();
    ks_consumer *consumer =
        consumer_of(script, (ks_consumer_options){.handle_signals = true, .concurrency = 2});
    int stream;

    (void)pthread_mutex_lock(&gate);
    reading_start(consumer, wait_at_gate);
    stream = script_open(script);
    script_record_in(stream, "b1", 1, 1, "shard", 1);
    script_record_in(stream, "b1", 2, 1, "shard", 2);
    script_record_in(stream, "b1", 3, 1, "shard", 3);
    EVENTUALLY(reading_has("1/1") && reading_has("2/1"));
    EXPECT(kill(getpid(), SIGTERM) == 0);
    EVENTUALLY(ks_consumer_status(consumer) == KS_CLIENT_STOPPED);
    (void)pthread_mutex_unlock(&gate);
    EXPECT_EQ(reading_wait(), KS_CLIENT_OK);
    EXPECT(!reading_has("3/1"));
    EXPECT(script_has(script, "1.1:ack") && script_has(script, "2.1:ack"));
    EXPECT(!script_has(script, "3.1:ack"));
    EXPECT_EQ(script_count(script, &script->deleted), 1);
    ks_consumer_free(consumer);
}

static void *close_consumer(void *consumer)
{
    ks_consumer_close(consumer);
    reading_note("closed");
    return NULL;
}

TEST(close_waits_for_the_handlers_of_a_run)
{
    struct script *script = script_start();
    ks_consumer *consumer = consumer_of(script, (ks_consumer_options){0});
    pthread_t closing;

    (void)pthread_mutex_lock(&gate);
    reading_start(consumer, wait_at_gate);
    script_record(script_open(script), "b1", 1, 1);
    EVENTUALLY(reading_has("1/1"));
    EXPECT(pthread_create(&closing, NULL, close_consumer, consumer) == 0);
    EVENTUALLY(ks_consumer_status(consumer) == KS_CLIENT_CLOSED);
    (void)pthread_mutex_unlock(&gate);
    EXPECT_EQ(reading_wait(), KS_CLIENT_OK);
    EXPECT(pthread_join(closing, NULL) == 0);
    EXPECT_STR(reading_journal(), "1/1 end closed");
    EXPECT_STR(script_outcomes(script), "1.1:ack");
    ks_consumer_free(consumer);
}

TEST(close_gives_up_on_a_sidecar_that_does_not_answer)
{
    struct script *script = script_start();
    ks_consumer *consumer = consumer_of(script, (ks_consumer_options){.ack_interval_ms = 60000});

    script_answer(script, 503, "", 0);
    EXPECT(ks_consumer_next(consumer, 0) == NULL);
    script_record(script_open(script), "b1", 1, 1);
    ks_record_ack(next(consumer, 1));
    ks_consumer_close(consumer);
    EXPECT_EQ(ks_consumer_stale(consumer), 1);
    EXPECT_EQ(script_count(script, &script->requests), 1);
    EXPECT_EQ(script_count(script, &script->deleted), 0);
    ks_consumer_free(consumer);
}
