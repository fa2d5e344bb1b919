/* SPDX-License-Identifier: Apache-2.0 */
#include "stream_consumer.h"

#include "grpc_client.h"
#include "http_client.h"
#include "meter.h"

#include "api/ack_id.h"
#include "base/codec.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define CONSUMER "/kinesis_sidecar.v1.Consumer"

enum {
    SIDECAR_PROCESSOR = 0,
    CONSUMER_PROCESSOR = 1,
    READ_BYTES = 1 << 20,   /* What the consumer asks of its socket. */
    EVENTS_BYTES = 4 << 20, /* Joined chunks that it has not looked at. */
    BATCH_ID_MAX = 440,
    IN_FLIGHT = 100000,
    ASKED_MAX = 100,      /* Settles that have no answer: a connection may have 256 calls. */
    PATIENCE_SECONDS = 60 /* Then the consumer gives up, and the benchmark has failed. */
};

/* ---- The consumer ---- */

struct consumer {
    const struct stream_job *job;
    struct http_stream stream;
    struct grpc_client grpc;
    uint32_t call;
    uint8_t *events;
    size_t events_at;
    size_t events_size;
    int ack_fd;
    bool acking; /* A request is on its way. */
    char batch_id[BATCH_ID_MAX];
    size_t batch_id_size;
    char target[64 << 10]; /* Of the next ack; by gRPC, its message. */
    size_t target_size;
    uint32_t batches; /* In it. */
    struct stream_count count;
};

static bool is_grpc(const struct stream_job *job)
{
    return strcmp(job->format, "watch") == 0 || strcmp(job->format, "stream") == 0;
}

static void begin_target(struct consumer *consumer)
{
    consumer->batches = 0;
    consumer->target_size = 0;
    if (is_grpc(consumer->job))
        return;
    consumer->target_size =
        (size_t)snprintf(consumer->target, sizeof consumer->target, "/v1/records/ack");
}

static void send_ack(struct consumer *consumer)
{
    consumer->target[consumer->target_size] = '\0';
    http_request(consumer->ack_fd, "POST", consumer->target, "", "", 0);
    consumer->acking = true;
    consumer->count.acks++;
    begin_target(consumer);
}

/* The answer must say that all of it was accepted. */
static void take_ack_answer(struct consumer *consumer)
{
    static char buffer[64 << 10];
    struct http_answer answer = http_wait(consumer->ack_fd, buffer, sizeof buffer);

    if (answer.status != 200 || strstr(answer.body, "\"failed\":[]") == NULL)
        meter_fail("acks were answered %d: %s", answer.status, answer.body);
    consumer->acking = false;
}

bool stream_readable(int fd)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};

    return poll(&poll_fd, 1, 0) == 1;
}

/* ---- The consumer: gRPC ---- */

/* A settle was answered (SettleResponse): nothing of it may have failed. */
static void check_settled(void *arg, uint32_t id, const uint8_t *at, size_t size)
{
    const uint8_t *end = at + size;
    uint64_t tag;
    uint64_t value;

    (void)arg;
    (void)id;
    if (at == NULL)
        meter_fail("a settle without an answer");
    while (grpc_take_varint(&at, end, &tag) && grpc_take_varint(&at, end, &value)) {
        if (tag == (2 << 3 | 2))
            meter_fail("acks failed");
        if ((tag & 7) == 2)
            at += value;
    }
}

/* SettleRequest {settlements = 1}, or StreamRequest {id = 1, settle = 3} around it. */
static void send_settle(struct consumer *consumer)
{
    static uint8_t message[sizeof consumer->target + 16];
    size_t size;

    consumer->count.acks++;
    if (strcmp(consumer->job->format, "watch") == 0) {
        (void)grpc_ask(&consumer->grpc, CONSUMER "/Settle", consumer->target,
                       consumer->target_size);
    } else {
        size = grpc_put_varint(message, 1 << 3);
        size += grpc_put_varint(message + size, consumer->count.acks);
        size += grpc_put_field(message + size, 3, consumer->target, consumer->target_size);
        grpc_say(&consumer->grpc, consumer->call, message, size);
    }
    begin_target(consumer);
}

/* The batch is whole: Settlement {batch_id = 2, outcome = 3}. */
static void settle_batch(struct consumer *consumer, const uint8_t *id, size_t id_size)
{
    uint8_t settlement[BATCH_ID_MAX + 8];
    size_t size = grpc_put_field(settlement, 2, id, id_size);

    if (consumer->job->plain)
        return;
    settlement[size++] = 3 << 3;
    settlement[size++] = 1; /* OUTCOME_ACK */
    if (consumer->target_size + size + 8 > sizeof consumer->target)
        meter_fail("a settle that is too long");
    consumer->target_size +=
        grpc_put_field((uint8_t *)consumer->target + consumer->target_size, 1, settlement, size);
    consumer->batches++;
    if (consumer->batches >= consumer->job->batches_per_ack && consumer->grpc.asked < ASKED_MAX)
        send_settle(consumer);
}

static void check_data(const struct consumer *consumer, const uint8_t *at, const uint8_t *end);

/* RecordBatch {batch_id = 1, records = 2}. */
static void see_batch(struct consumer *consumer, const uint8_t *at, const uint8_t *end)
{
    const uint8_t *id = NULL;
    uint64_t id_size = 0;
    uint64_t tag;
    uint64_t size;
    uint64_t records = 0;

    while (grpc_take_varint(&at, end, &tag) && grpc_take_varint(&at, end, &size)) {
        if (size > (uint64_t)(end - at))
            meter_fail("a batch that is too short");
        if (tag == (1 << 3 | 2)) {
            id = at;
            id_size = size;
        } else if (tag == (2 << 3 | 2)) {
            if (records++ == 0)
                check_data(consumer, at, at + size);
        }
        at += size;
    }
    if (id == NULL || id_size == 0 || id_size > BATCH_ID_MAX || records == 0)
        meter_fail("a batch that is none");
    consumer->count.records += records;
    settle_batch(consumer, id, id_size);
}

/* One message, StreamEvent {batch = 8, answer = 9}. */
static void see_event(struct consumer *consumer, const uint8_t *at, const uint8_t *end)
{
    uint64_t tag = 0;
    uint64_t size = 0;

    if (!grpc_take_varint(&at, end, &tag) || !grpc_take_varint(&at, end, &size))
        return;
    if (tag == (8 << 3 | 2))
        see_batch(consumer, at, end);
    if (tag != (9 << 3 | 2))
        return;
    /* StreamAnswer {id = 1, settled = 2}. */
    if (!grpc_take_varint(&at, end, &tag) || !grpc_take_varint(&at, end, &size) ||
        !grpc_take_varint(&at, end, &tag) || tag != (2 << 3 | 2) ||
        !grpc_take_varint(&at, end, &size))
        meter_fail("an answer that is not settled");
    check_settled(consumer, 0, at, size);
}

/* Whole messages; returns how many bytes were taken. */
static size_t see_messages(struct consumer *consumer, const uint8_t *begin, const uint8_t *end)
{
    const uint8_t *at = begin;

    for (;;) {
        size_t size;

        if (end - at < GRPC_HEAD)
            return (size_t)(at - begin);
        size = (size_t)at[1] << 24 | (size_t)at[2] << 16 | (size_t)at[3] << 8 | at[4];
        if ((size_t)(end - at) < GRPC_HEAD + size)
            return (size_t)(at - begin);
        see_event(consumer, at + GRPC_HEAD, at + GRPC_HEAD + size);
        at += GRPC_HEAD + size;
    }
}

/* OpenRequest {max_in_flight = 2, max_in_flight_bytes = 3}, or StreamRequest {open = 2} around it. */
static void begin_call(struct consumer *consumer)
{
    bool both = strcmp(consumer->job->format, "stream") == 0;
    uint8_t open[64];
    uint8_t message[80];
    size_t size = 0;

    open[size++] = 2 << 3;
    size += grpc_put_varint(open + size, IN_FLIGHT);
    open[size++] = 3 << 3;
    size += grpc_put_varint(open + size, consumer->job->in_flight_bytes);
    if (both)
        size = grpc_put_field(message, 2, open, size);
    consumer->call = grpc_begin(&consumer->grpc, both ? CONSUMER "/Stream" : CONSUMER "/Watch",
                                both ? message : open, size, both);
}

static void open_grpc(struct consumer *consumer, uint16_t port)
{
    grpc_open(&consumer->grpc, port, READ_BYTES);
    consumer->grpc.answered = check_settled;
    begin_call(consumer);
}

/* 0: the call ended before anything came, for the sidecar is not ready: it was begun once more. */
static size_t read_grpc(struct consumer *consumer, uint8_t *buffer, size_t room)
{
    bool over;
    size_t size = grpc_read(&consumer->grpc, consumer->call, buffer, room, &over);

    if (!over)
        return size;
    if (consumer->count.records > 0)
        meter_fail("the stream ended");
    (void)poll(NULL, 0, 20);
    begin_call(consumer);
    return 0;
}

/* ---- The consumer: HTTP ---- */

/* The batch before is whole. */
static void batch_done(struct consumer *consumer)
{
    size_t room = sizeof consumer->target - consumer->target_size;
    int size;

    if (consumer->batch_id_size == 0 || consumer->job->plain)
        return;
    size = snprintf(consumer->target + consumer->target_size, room, "%cbatch_id=%.*s",
                    consumer->batches == 0 ? '?' : '&', (int)consumer->batch_id_size,
                    consumer->batch_id);
    assert(size > 0 && (size_t)size < room);
    consumer->target_size += (size_t)size;
    consumer->batches++;
    if (consumer->batches < consumer->job->batches_per_ack)
        return;
    if (consumer->acking &&
        (consumer->batches == STREAM_BATCHES_PER_ACK_MAX || stream_readable(consumer->ack_fd)))
        take_ack_answer(consumer);
    if (!consumer->acking)
        send_ack(consumer);
}

static void record_seen(struct consumer *consumer, const uint8_t *batch_id, size_t size)
{
    consumer->count.records++;
    if (size == consumer->batch_id_size && memcmp(batch_id, consumer->batch_id, size) == 0)
        return;
    batch_done(consumer);
    if (size == 0 || size > sizeof consumer->batch_id)
        meter_fail("a batch_id of %zu bytes", size);
    memcpy(consumer->batch_id, batch_id, size);
    consumer->batch_id_size = size;
}

/* ---- The consumer: protobuf ---- */

/* The data of a whole record must be as long as the source made it: field 12, the last one. */
static void check_data(const struct consumer *consumer, const uint8_t *at, const uint8_t *end)
{
    uint64_t tag;
    uint64_t value;

    while (grpc_take_varint(&at, end, &tag) && grpc_take_varint(&at, end, &value)) {
        if (tag == (12 << 3 | 2) && value == consumer->job->record_bytes &&
            (uint64_t)(end - at) == value)
            return;
        if ((tag & 7) == 2)
            at += value;
    }
    meter_fail("a record without its data");
}

/* record.proto: the event's field 2 is the record; its fields 1 and 2 are ack_id and batch_id. */
static void see_message(struct consumer *consumer, const uint8_t *at, const uint8_t *end)
{
    const uint8_t *record;
    uint64_t size = 0;

    if (at == end || *at++ != (2 << 3 | 2))
        return; /* Another event. */
    if (!grpc_take_varint(&at, end, &size) || size != (uint64_t)(end - at))
        meter_fail("an event that is not one record");
    record = at;
    if (*at++ != (1 << 3 | 2) || !grpc_take_varint(&at, end, &size))
        meter_fail("a record without ack_id");
    at += size;
    if (at >= end || *at++ != (2 << 3 | 2) || !grpc_take_varint(&at, end, &size))
        meter_fail("a record without batch_id");
    if (consumer->batch_id_size != size || memcmp(consumer->batch_id, at, size) != 0)
        check_data(consumer, record, end);
    record_seen(consumer, at, size);
}

/* Whole messages; returns how many bytes were taken. */
static size_t see_protobuf(struct consumer *consumer, const uint8_t *begin, const uint8_t *end)
{
    const uint8_t *at = begin;

    for (;;) {
        const uint8_t *next = at;
        uint64_t size;

        if (!grpc_take_varint(&next, end, &size) || size > (uint64_t)(end - next))
            return (size_t)(at - begin);
        see_message(consumer, next, next + size);
        at = next + size;
    }
}

/* ---- The consumer: NDJSON ---- */

static size_t see_ndjson(struct consumer *consumer, const uint8_t *begin, const uint8_t *end)
{
    static const char head[] = "{\"type\":\"record\",\"ack_id\":\"";
    static const char middle[] = "\",\"batch_id\":\"";
    const size_t id_at = sizeof head - 1 + KS_ACK_ID_SIZE + sizeof middle - 1;
    const uint8_t *at = begin;

    for (;;) {
        const uint8_t *feed = memchr(at, '\n', (size_t)(end - at));
        const uint8_t *quote;

        if (feed == NULL)
            return (size_t)(at - begin);
        if ((size_t)(feed - at) > id_at && memcmp(at, head, sizeof head - 1) == 0) {
            quote = memchr(at + id_at, '"', (size_t)(feed - at) - id_at);
            if (quote == NULL ||
                memcmp(at + id_at - (sizeof middle - 1), middle, sizeof middle - 1) != 0)
                meter_fail("a line without batch_id");
            if ((size_t)(feed - at) < ks_base64_size(consumer->job->record_bytes))
                meter_fail("a line that is shorter than its data");
            record_seen(consumer, at + id_at, (size_t)(quote - at) - id_at);
        }
        at = feed + 1;
    }
}

/* ---- The consumer: its life ---- */

static void see_events(struct consumer *consumer)
{
    size_t room = EVENTS_BYTES - consumer->events_size;
    bool grpc = is_grpc(consumer->job);
    uint8_t *end = consumer->events + consumer->events_size;
    size_t got =
        grpc ? read_grpc(consumer, end, room) : http_stream_read(&consumer->stream, end, room);
    size_t taken;

    if (got == 0 && !grpc)
        meter_fail("the stream ended");
    consumer->events_size += got;
    end += got;
    if (grpc)
        taken = see_messages(consumer, consumer->events, end);
    else if (strcmp(consumer->job->format, "protobuf") == 0)
        taken = see_protobuf(consumer, consumer->events, end);
    else
        taken = see_ndjson(consumer, consumer->events, end);
    consumer->events_size -= taken;
    memmove(consumer->events, consumer->events + taken, consumer->events_size);
}

static void open_stream(struct consumer *consumer, uint16_t port)
{
    char target[256];
    char accept[64];
    int status;

    snprintf(target, sizeof target,
             "/v1/records/stream?max_in_flight=%d&max_in_flight_bytes=%" PRIu64, IN_FLIGHT,
             consumer->job->in_flight_bytes);
    snprintf(accept, sizeof accept, "Accept: application/x-%s\r\n", consumer->job->format);
    do {
        int fd = http_connect(port);

        http_request(fd, "GET", target, accept, "", 0);
        status = http_stream_open(&consumer->stream, fd, READ_BYTES);
        if (status != 200)
            (void)poll(NULL, 0, 20);
    } while (status == 503);
    if (status != 200)
        meter_fail("the stream was answered %d", status);
}

static int words_out = -1; /* The pipe to the parent. */

void stream_consumer_say(const struct stream_count *count)
{
    if (write(words_out, count, sizeof *count) != (ssize_t)sizeof *count)
        meter_fail("nobody listens to the consumer");
}

/* Reads until `seconds` after the first record, and returns when that was. */
static double consume(struct consumer *consumer, double seconds)
{
    double began = 0;
    double now = 0;

    do {
        see_events(consumer);
        if (consumer->acking && stream_readable(consumer->ack_fd))
            take_ack_answer(consumer);
        if (consumer->count.records == 0)
            continue;
        now = meter_now();
        began = began > 0 ? began : now;
    } while (began == 0 || now - began < seconds);
    return now;
}

static uint64_t probe(const struct consumer *consumer)
{
    return consumer->job->probe == NULL ? 0 : consumer->job->probe();
}

/* Lets the time pass, where nothing comes. */
static double wait_idle(double seconds)
{
    (void)poll(NULL, 0, (int)(seconds * 1e3));
    return meter_now();
}

static double spend(struct consumer *consumer, double seconds)
{
    return consumer->job->record_bytes == 0 ? wait_idle(seconds) : consume(consumer, seconds);
}

_Noreturn static void run_consumer(const struct stream_job *job, uint16_t port)
{
    static struct consumer consumer;
    struct stream_count *count = &consumer.count;
    double began;

    (void)alarm(PATIENCE_SECONDS);
    meter_pin(CONSUMER_PROCESSOR);
    if (job->run != NULL) {
        job->run(job, port);
        exit(0);
    }
    consumer.job = job;
    consumer.events = malloc(EVENTS_BYTES);
    if (consumer.events == NULL)
        meter_fail("no memory for the consumer");
    begin_target(&consumer);
    if (is_grpc(job))
        open_grpc(&consumer, port);
    else
        open_stream(&consumer, port);
    if (!job->plain && !is_grpc(job))
        consumer.ack_fd = http_connect(port);

    (void)spend(&consumer, job->warm_seconds);
    *count = (struct stream_count){.consumer_cpu = meter_process_cpu(), .probed = probe(&consumer)};
    consumer.stream.received = consumer.grpc.received = 0;
    stream_consumer_say(count);
    began = meter_now();
    count->seconds = spend(&consumer, job->measured_seconds) - began;
    count->probed = probe(&consumer) - count->probed;
    count->consumer_cpu = meter_process_cpu() - count->consumer_cpu;
    count->wire_bytes = consumer.stream.received + consumer.grpc.received;
    stream_consumer_say(count);
    exit(0);
}

pid_t stream_consumer_fork(const struct stream_job *job, uint16_t port,
                           struct stream_watcher *ret_watcher)
{
    int words[2];
    pid_t pid;

    assert(job->batches_per_ack <= STREAM_BATCHES_PER_ACK_MAX);
    if (pipe2(words, O_CLOEXEC) != 0)
        meter_fail("no pipe: %s", strerror(errno));
    fflush(stdout);
    pid = fork();
    if (pid < 0)
        meter_fail("no second process: %s", strerror(errno));
    if (pid == 0) {
        close(words[0]);
        words_out = words[1];
        run_consumer(job, port);
    }
    close(words[1]);
    *ret_watcher = (struct stream_watcher){.words = words[0]};
    return pid;
}

void stream_consumer_bury(pid_t pid, struct stream_watcher *watcher)
{
    int status = 0;

    close(watcher->words);
    if (waitpid(pid, &status, 0) != pid || status != 0)
        meter_fail("the consumer failed");
}

void stream_consumer_stay_away(void)
{
    meter_pin(SIDECAR_PROCESSOR);
}

/* ---- What was spent ---- */

static double seconds_of(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

bool stream_consumer_hear(struct stream_watcher *watcher)
{
    struct rusage usage;

    if (getrusage(RUSAGE_SELF, &usage) != 0)
        meter_fail("no rusage: %s", strerror(errno));
    double system_cpu = seconds_of(usage.ru_stime);
    double cpu = seconds_of(usage.ru_utime) + system_cpu;
    if (read(watcher->words, &watcher->count, sizeof watcher->count) !=
        (ssize_t)sizeof watcher->count)
        meter_fail("the consumer ended early");
    bool last = watcher->begun;
    watcher->begun = true;
    watcher->cpu = cpu - (last ? watcher->cpu : 0);
    watcher->system_cpu = system_cpu - (last ? watcher->system_cpu : 0);
    return last;
}
