/* SPDX-License-Identifier: Apache-2.0 */
/* app WAY CLIENT_ID CONCURRENCY - the app of the scenario: see ../judge.py. WAY is run, each,
 * batches or race. */
#include <errno.h>
#include <kinesis-sidecar-client.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    ACK_DEADLINE_MS = 2000, /* Shorter than the slow records take. */
    RACE_IN_FLIGHT = 4000,
    RACE_BATCH = 1000,
    LINE_BYTES_MAX = 128
};

/* The data of a record. */
struct task {
    int n;
    char what[16];
    int times;
    int ms;
};

enum result { ACK, RETRY, LEAVE };

static ks_consumer *consumer;

static void stop(int number)
{
    (void)number;
    ks_consumer_stop(consumer);
}

static bool is(const struct task *task, const char *what)
{
    return strcmp(task->what, what) == 0;
}

/* Writes a line at once: handlers run at the same time. */
static void write_line(const char *line)
{
    if (write(STDOUT_FILENO, line, strlen(line)) < 0)
        exit(1);
}

static void report(const ks_record *record, const struct task *task, const char *at)
{
    char line[LINE_BYTES_MAX];

    (void)snprintf(line, sizeof(line), "{\"n\":%d,\"attempt\":%u,\"at\":\"%s\"}\n", task->n,
                   record->attempt, at);
    write_line(line);
}

static void report_end(const ks_record *record, const struct task *task, const char *outcome)
{
    char line[LINE_BYTES_MAX];

    (void)snprintf(line, sizeof(line),
                   "{\"n\":%d,\"attempt\":%u,\"at\":\"end\",\"outcome\":\"%s\"}\n", task->n,
                   record->attempt, outcome);
    write_line(line);
}

/* Sleeps; a signal does not end the sleep early. */
static void pause_for(int ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
}

static bool fails(const ks_record *record, const struct task *task)
{
    return (is(task, "fail") && record->attempt <= (unsigned)task->times) ||
           (is(task, "raise") && record->attempt == 1);
}

/* Does what the data of the record demands. */
static enum result handle(ks_record *record, struct task *task, bool in_loop)
{
    char reason[32];

    if (sscanf((const char *)record->data,
               "{\"n\": %d, \"do\": \"%15[a-z_]\", \"times\": %d, \"ms\": %d}", &task->n,
               task->what, &task->times, &task->ms) != 4)
        return RETRY;
    report(record, task, "begin");
    pause_for(task->ms);
    if (in_loop && record->attempt == 1 && (is(task, "break") || is(task, "raise"))) {
        report(record, task, task->what);
        return LEAVE;
    }
    if (fails(record, task)) {
        report_end(record, task, "retry");
        return RETRY;
    }
    (void)snprintf(reason, sizeof(reason), "asked %d", task->n);
    if (is(task, "dead_letter"))
        ks_record_dead_letter(record, reason);
    else if (is(task, "drop"))
        ks_record_drop(record);
    report_end(record, task, is(task, "dead_letter") || is(task, "drop") ? task->what : "ack");
    return ACK;
}

static int handle_in_run(ks_record *record, void *context)
{
    struct task task;

    (void)context;
    return handle(record, &task, false) == ACK ? 0 : ks_record_fail(record, "fail %d", task.n);
}

/* Returns false if the loop is to be left. */
static bool handle_in_loop(ks_record *record)
{
    struct task task;
    enum result result = handle(record, &task, true);
    char reason[32];

    (void)snprintf(reason, sizeof(reason), "fail %d", task.n);
    if (result == RETRY)
        ks_record_retry(record, 0, reason);
    return result != LEAVE;
}

static void read_each(void)
{
    ks_record *record;

    while ((record = ks_consumer_next(consumer, -1)) != NULL)
        if (!handle_in_loop(record))
            return;
}

static void read_batches(void)
{
    const ks_batch *batch;

    while ((batch = ks_consumer_batch(consumer, 100, 200)) != NULL)
        for (size_t i = 0; i < batch->count; i++)
            if (!handle_in_loop(batch->records[i]))
                return;
}

static void race(void)
{
    const ks_batch *batch;
    char line[LINE_BYTES_MAX];
    size_t count = 0;

    while ((batch = ks_consumer_batch(consumer, RACE_BATCH, 10)) != NULL)
        for (size_t i = 0; i < batch->count; i++)
            if (++count % 1000 == 0) {
                (void)snprintf(line, sizeof(line), "%zu\n", count);
                write_line(line);
            }
}

static ks_client_status read_by(const char *way)
{
    struct sigaction action = {.sa_handler = stop};

    if (strcmp(way, "run") == 0) {
        ks_client_status status = ks_consumer_run(consumer, handle_in_run, NULL);
        return status == KS_CLIENT_OK ? KS_CLIENT_STOPPED : status;
    }
    (void)sigaction(SIGTERM, &action, NULL);
    if (strcmp(way, "each") == 0)
        read_each();
    else if (strcmp(way, "batches") == 0)
        read_batches();
    else
        race();
    return ks_consumer_status(consumer);
}

int main(int argc, char **argv)
{
    bool races = argc == 4 && strcmp(argv[1], "race") == 0;
    ks_consumer_options options = {
        .ack_deadline_ms = races ? 0 : ACK_DEADLINE_MS,
        .max_in_flight = races ? RACE_IN_FLIGHT : 0,
        .concurrency = argc == 4 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0,
        .handle_signals = true,
    };
    ks_client_status status;
    char message[512];

    if (argc != 4 || (consumer = ks_consumer_new(argv[2], &options)) == NULL)
        return 2;
    status = read_by(argv[1]);
    (void)snprintf(message, sizeof(message), "%s", ks_consumer_error(consumer)->message);
    ks_consumer_close(consumer);
    if (status == KS_CLIENT_STOPPED)
        write_line("{\"at\":\"stopped\"}\n");
    else if (status == KS_CLIENT_TAKEN_OVER)
        write_line("{\"at\":\"taken_over\"}\n");
    else if (status != KS_CLIENT_OK)
        (void)fprintf(stderr, "app: %s\n", message);
    (void)signal(SIGTERM, SIG_IGN); /* Its handler uses the consumer. */
    ks_consumer_free(consumer);
    return status == KS_CLIENT_TAKEN_OVER ? 3 : status > KS_CLIENT_STOPPED;
}
