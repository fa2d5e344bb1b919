/* SPDX-License-Identifier: Apache-2.0 */
/* api.c - what requests and sessions cost, records aside.
 *
 * The house of bench_house.h in this process; on the other processor a forked client. Settles: the client was handed
 * records by explicit credit, and no more come; then it settles them, request after request on kept connections, as
 * REST, Connect and gRPC. The measure is settles per CPU second of the sidecar's process, the kernel's work included.
 * The hop: records come by and by, half as many as the reader can take; how long after the source gave it out is a
 * record in the reader's hands? A plain loop that writes as many bytes as often stands beside it.
 * Sessions: so many streams are opened, none is given credit, and what the process has grown by is divided by them.
 */
#include "bench_house.h"
#include "grpc_client.h"
#include "http_client.h"
#include "memory_source.h"
#include "meter.h"

#include "base/log.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONSUMER "/kinesis_sidecar.v1.Consumer"

enum {
    LEASE_MS = 1500,
    SHARDS = 8,
    RECORD_BYTES = 100,
    IDS = 60000,
    ID_MAX = 49,
    READ_BYTES = 1 << 20,
    EVENTS_BYTES = 4 << 20,
    ANSWER_BYTES = 256 << 10,
    SESSIONS = 1000,
    SETTLED_MS = 2 * LEASE_MS, /* All leases are there, and what is read ahead. */
    HOPS_MAX = 1 << 20
};
static const double measured_seconds = 1.5;

/* ---- Ids ---- */

struct holder {
    struct grpc_client client;
    uint32_t call;
    uint8_t *events;
    size_t events_size;
    char session[64];
    char (*ids)[ID_MAX];
    size_t count;
};

static char *text_of(char *to, size_t capacity, const uint8_t *at, size_t size)
{
    if (size >= capacity)
        meter_fail("a text of %zu bytes", size);
    memcpy(to, at, size);
    to[size] = '\0';
    return to;
}

/* The field of a message, or NULL: its first bytes. */
static const uint8_t *find(const uint8_t *at, const uint8_t *end, unsigned field, size_t *ret_size)
{
    uint64_t tag;
    uint64_t value;

    while (grpc_take_varint(&at, end, &tag) && grpc_take_varint(&at, end, &value)) {
        if ((tag & 7) != 2)
            continue;
        *ret_size = (size_t)value;
        if (tag >> 3 == field)
            return at;
        at += value;
    }
    return NULL;
}

/* RecordBatch {records = 2}, Record {ack_id = 1}. */
static void keep_ids(struct holder *holder, const uint8_t *at, const uint8_t *end)
{
    const uint8_t *record;
    const uint8_t *id;
    size_t record_size;
    size_t size;

    while ((record = find(at, end, 2, &record_size)) != NULL) {
        id = find(record, record + record_size, 1, &size);
        if (id == NULL)
            meter_fail("a record without ack_id");
        if (holder->count < IDS)
            text_of(holder->ids[holder->count++], ID_MAX, id, size);
        at = record + record_size;
    }
}

/* StreamEvent {session = 1, batch = 8}, SessionOpened {session = 1}. */
static void see_event(struct holder *holder, const uint8_t *at, size_t size)
{
    size_t part_size;
    size_t name_size;
    const uint8_t *part = find(at, at + size, 8, &part_size);
    const uint8_t *name;

    if (part != NULL && holder->ids != NULL)
        keep_ids(holder, part, part + part_size);
    part = find(at, at + size, 1, &part_size);
    name = part == NULL ? NULL : find(part, part + part_size, 1, &name_size);
    if (name != NULL)
        text_of(holder->session, sizeof holder->session, name, name_size);
}

/* OpenRequest {max_in_flight = 2, explicit_credit = 11}. */
static uint32_t watch(struct grpc_client *client, bool explicit_credit)
{
    uint8_t message[32];
    size_t size = 0;

    message[size++] = 2 << 3;
    size += grpc_put_varint(message + size, 100000);
    message[size++] = 11 << 3;
    message[size++] = explicit_credit;
    return grpc_begin(client, CONSUMER "/Watch", message, size, false);
}

struct hops;
static void see_hop(struct hops *hops, const uint8_t *at, size_t size);

/* Reads once; begins the call again if the sidecar was not ready. */
static void read_events(struct holder *holder, struct hops *hops)
{
    bool over;
    size_t at = 0;

    holder->events_size +=
        grpc_read(&holder->client, holder->call, holder->events + holder->events_size,
                  EVENTS_BYTES - holder->events_size, &over);
    if (over) {
        if (holder->session[0] != '\0')
            meter_fail("the stream ended");
        (void)poll(NULL, 0, 20);
        holder->call = watch(&holder->client, hops == NULL);
    }
    while (holder->events_size - at >= GRPC_HEAD) {
        const uint8_t *head = holder->events + at;
        size_t size =
            (size_t)head[1] << 24 | (size_t)head[2] << 16 | (size_t)head[3] << 8 | head[4];

        if (holder->events_size - at < GRPC_HEAD + size)
            break;
        see_event(holder, head + GRPC_HEAD, size);
        if (hops != NULL)
            see_hop(hops, head + GRPC_HEAD, size);
        at += GRPC_HEAD + size;
    }
    holder->events_size -= at;
    memmove(holder->events, holder->events + at, holder->events_size);
}

/* Opens a stream and is handed IDS records: GrantRequest {session = 1, records = 2}. */
static void hold(struct holder *holder, uint16_t port)
{
    uint8_t grant[96];
    size_t size;

    holder->events = malloc(EVENTS_BYTES);
    holder->ids = malloc(sizeof(*holder->ids) * IDS);
    if (holder->events == NULL || holder->ids == NULL)
        meter_fail("no memory for ids");
    grpc_open(&holder->client, port, READ_BYTES);
    holder->call = watch(&holder->client, true);
    while (holder->session[0] == '\0')
        read_events(holder, NULL);
    size = grpc_put_field(grant, 1, holder->session, strlen(holder->session));
    grant[size++] = 2 << 3;
    size += grpc_put_varint(grant + size, IDS);
    (void)grpc_ask(&holder->client, CONSUMER "/Grant", grant, size);
    while (holder->count < IDS)
        read_events(holder, NULL);
}

/* ---- Settles ---- */

/* One row. */
struct settles {
    const char *protocol; /* "rest", "connect", "grpc" */
    uint32_t items;       /* Of one request. */
    uint32_t at_once;     /* Requests without an answer; more than one by gRPC alone. */
};

static size_t write_rest(char (*ids)[ID_MAX], uint32_t count, char *body)
{
    size_t size = (size_t)sprintf(body, "{\"settlements\":[");

    for (uint32_t i = 0; i < count; i++)
        size += (size_t)sprintf(body + size, "%s{\"ack_id\":\"%s\",\"outcome\":\"ack\"}",
                                i == 0 ? "" : ",", ids[i]);
    return size + (size_t)sprintf(body + size, "]}");
}

/* SettleRequest {settlements = 1}, Settlement {ack_id = 1, outcome = 3}. */
static size_t write_proto(char (*ids)[ID_MAX], uint32_t count, uint8_t *body)
{
    size_t size = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint8_t item[ID_MAX + 8];
        size_t item_size = grpc_put_field(item, 1, ids[i], strlen(ids[i]));

        item[item_size++] = 3 << 3;
        item[item_size++] = 1;
        size += grpc_put_field(body + size, 1, item, item_size);
    }
    return size;
}

/* SettleResponse {failed = 2}. */
static void check_answer(void *arg, uint32_t id, const uint8_t *message, size_t size)
{
    size_t failed;

    (void)arg;
    (void)id;
    if (message == NULL || find(message, message + size, 2, &failed) != NULL)
        meter_fail("a settle failed");
}

static void settle_http(const struct settles *settles, int fd, char (*ids)[ID_MAX], uint32_t count)
{
    static char body[ANSWER_BYTES];
    static char buffer[ANSWER_BYTES];
    bool rest = strcmp(settles->protocol, "rest") == 0;
    size_t size = rest ? write_rest(ids, count, body) : write_proto(ids, count, (uint8_t *)body);
    struct http_answer answer;

    http_request(fd, "POST", rest ? "/v1/records/settle" : CONSUMER "/Settle",
                 rest ? "Content-Type: application/json\r\n"
                      : "Content-Type: application/proto\r\n",
                 body, size);
    answer = http_wait(fd, buffer, sizeof buffer);
    if (answer.status != 200 || (rest && strstr(answer.body, "\"failed\":[]") == NULL))
        meter_fail("a settle was answered %d: %.200s", answer.status, answer.body);
    if (!rest)
        check_answer(NULL, 0, (uint8_t *)answer.body, answer.size);
}

static void settle_grpc(const struct settles *settles, struct grpc_client *client,
                        char (*ids)[ID_MAX], uint32_t count)
{
    static uint8_t body[ANSWER_BYTES];

    (void)grpc_ask(client, CONSUMER "/Settle", body, write_proto(ids, count, body));
    while (client->asked >= settles->at_once)
        grpc_read_answers(client);
}

static void run_settles(const struct stream_job *job, uint16_t port)
{
    static struct holder holder;
    static struct grpc_client client;
    const struct settles *settles = job->arg;
    struct stream_count count = {0};
    int fd = http_connect(port);
    double began;

    hold(&holder, port);
    grpc_open(&client, port, READ_BYTES);
    client.answered = check_answer;
    settle_http(&(struct settles){"rest", 1, 1}, fd, holder.ids, 1); /* Warms up. */
    settle_grpc(&(struct settles){"grpc", 1, 1}, &client, holder.ids + 1, 1);
    stream_consumer_say(&count);
    began = meter_now();
    for (size_t at = 2; at + settles->items <= IDS && meter_now() - began < measured_seconds;
         at += settles->items) {
        if (strcmp(settles->protocol, "grpc") == 0)
            settle_grpc(settles, &client, holder.ids + at, settles->items);
        else
            settle_http(settles, fd, holder.ids + at, settles->items);
        count.records += settles->items;
        count.acks++;
    }
    grpc_wait(&client);
    count.seconds = meter_now() - began;
    stream_consumer_say(&count);
}

/* ---- Sessions ---- */

struct sessions {
    const char *protocol; /* "ndjson", "grpc" */
    uint32_t connections;
};

static void open_calls(uint16_t port, uint32_t streams)
{
    struct grpc_client *client = calloc(1, sizeof *client);
    uint8_t buffer[4096];

    if (client == NULL)
        meter_fail("no memory for a client");
    grpc_open(client, port, 4096);
    for (uint32_t i = 0; i < streams; i++) {
        uint32_t id = watch(client, true);
        bool over = false;

        while (grpc_read(client, id, buffer, sizeof buffer, &over) == 0 && !over)
            ;
        if (over)
            meter_fail("a session is refused");
    }
}

static void open_stream(uint16_t port)
{
    struct http_stream stream;
    uint8_t buffer[4096];
    int fd = http_connect(port);

    /* Shard by shard there are 8 lanes: of the others' sessions none is given anything. */
    http_request(fd, "GET", "/v1/records/stream?max_in_flight=1", "", "", 0);
    if (http_stream_open(&stream, fd, sizeof buffer) != 200 ||
        http_stream_read(&stream, buffer, sizeof buffer) == 0)
        meter_fail("a session is refused");
    free(stream.raw);
}

static void run_sessions(const struct stream_job *job, uint16_t port)
{
    const struct sessions *sessions = job->arg;
    static struct holder warm;
    struct stream_count count = {0};
    uint64_t before;

    warm.events = malloc(EVENTS_BYTES);
    grpc_open(&warm.client, port, READ_BYTES);
    warm.call = watch(&warm.client, true);
    while (warm.session[0] == '\0')
        read_events(&warm, NULL);
    open_stream(port);
    (void)poll(NULL, 0, SETTLED_MS);
    before = meter_memory(getppid(), "Rss:");
    stream_consumer_say(&count);
    for (uint32_t i = 0; i < sessions->connections; i++) {
        if (strcmp(sessions->protocol, "grpc") == 0)
            open_calls(port, SESSIONS / sessions->connections);
        else
            open_stream(port);
    }
    (void)poll(NULL, 0, 300);
    count.probed = meter_memory(getppid(), "Rss:") - before;
    stream_consumer_say(&count);
}

/* ---- The hop ---- */

struct hops {
    double *us;
    size_t count;
    bool counting;
    uint8_t settle[ANSWER_BYTES];
    size_t settle_size;
};

/* Something with this stamp is whole in the reader's hands. */
static void hopped(struct hops *hops, const uint8_t *stamp_at)
{
    uint64_t stamp;

    memcpy(&stamp, stamp_at, sizeof stamp);
    if (hops->counting && hops->count < HOPS_MAX)
        hops->us[hops->count++] = (meter_now() * 1e9 - (double)stamp) / 1e3;
}

/* StreamEvent {batch = 8}, RecordBatch {batch_id = 1, records = 2}, Record {data = 12}. */
static void see_hop(struct hops *hops, const uint8_t *at, size_t size)
{
    uint8_t settlement[512];
    size_t batch_size;
    size_t part_size;
    size_t data_size;
    const uint8_t *batch = find(at, at + size, 8, &batch_size);
    const uint8_t *part = batch == NULL ? NULL : find(batch, batch + batch_size, 2, &part_size);
    const uint8_t *data = part == NULL ? NULL : find(part, part + part_size, 12, &data_size);

    if (data == NULL)
        return;
    hopped(hops, data);
    part = find(batch, batch + batch_size, 1, &part_size);
    part_size = grpc_put_field(settlement, 2, part, part_size);
    settlement[part_size++] = 3 << 3;
    settlement[part_size++] = 1;
    hops->settle_size += grpc_put_field(hops->settle + hops->settle_size, 1, settlement, part_size);
}

/* Reads once what the house sends, and acknowledges it. */
static void read_hops(struct holder *holder, struct hops *hops)
{
    read_events(holder, hops);
    if (hops->settle_size == 0 || holder->client.asked > 0)
        return;
    (void)grpc_ask(&holder->client, CONSUMER "/Settle", hops->settle, hops->settle_size);
    hops->settle_size = 0;
}

/* Reads one message of the plain loop: a stamp, and bytes. */
static void read_plain(int fd, uint8_t *buffer, size_t size, struct hops *hops)
{
    if (recv(fd, buffer, size, MSG_WAITALL) != (ssize_t)size)
        meter_fail("the plain loop ended");
    hopped(hops, buffer);
}

static void say_hops(const struct stream_job *job, struct hops *hops)
{
    double median;

    if (hops->count == 0)
        meter_fail("nothing came");
    median = meter_quantile(hops->us, hops->count, 0.5); /* It sorts them. */
    meter_say("api/hop", median, "us p50",
              "\"sender\":\"%s\",\"samples\":%zu,\"p90_us\":%.0f,\"p99_us\":%.0f,"
              "\"worst_us\":%.0f,\"records_per_s\":%u",
              job->plain ? "plain" : "sidecar", hops->count,
              meter_quantile(hops->us, hops->count, 0.9),
              meter_quantile(hops->us, hops->count, 0.99), hops->us[hops->count - 1],
              *(const uint32_t *)job->arg);
}

static void run_hops(const struct stream_job *job, uint16_t port)
{
    static struct holder holder;
    static struct hops hops;
    struct stream_count count = {0};
    int fd = job->plain ? http_connect(port) : -1;
    double began;

    hops.us = malloc(sizeof(*hops.us) * HOPS_MAX);
    holder.events = malloc(EVENTS_BYTES);
    if (hops.us == NULL || holder.events == NULL)
        meter_fail("no memory for hops");
    if (!job->plain) {
        grpc_open(&holder.client, port, READ_BYTES);
        holder.call = watch(&holder.client, false);
        while (holder.session[0] == '\0')
            read_events(&holder, &hops);
    }
    for (began = meter_now(); meter_now() - began < 3 * measured_seconds;) {
        if (job->plain)
            read_plain(fd, holder.events, job->record_bytes, &hops);
        else
            read_hops(&holder, &hops);
        if (hops.counting || meter_now() - began < measured_seconds)
            continue;
        hops.counting = true; /* All leases are there. */
        stream_consumer_say(&count);
    }
    say_hops(job, &hops);
    stream_consumer_say(&count);
}

/* As many bytes a millisecond as the records of one, on one connection. */
static void run_plain(const struct stream_job *job)
{
    static uint8_t message[EVENTS_BYTES];
    struct stream_watcher watcher = {.words = -1};
    uint16_t port = http_free_port();
    pid_t consumer = stream_consumer_fork(job, port, &watcher);
    int fd = http_accept(port);
    bool over = false;

    while (!over) {
        uint64_t stamp = (uint64_t)(meter_now() * 1e9);

        memcpy(message, &stamp, sizeof stamp);
        if (send(fd, message, job->record_bytes, MSG_NOSIGNAL) < 0 &&
            !stream_readable(watcher.words))
            meter_fail("the consumer left");
        if (stream_readable(watcher.words))
            over = stream_consumer_hear(&watcher);
        (void)poll(NULL, 0, 1);
    }
    close(fd);
    stream_consumer_bury(consumer, &watcher);
}

/* ---- Rows ---- */

static const struct memory_source_config usual = {
    .shards = SHARDS, .record_bytes = RECORD_BYTES, .copies = true};

static struct ks_stream_source *open_source(struct ks_loop *loop, void *arg)
{
    return memory_source_new(loop, arg);
}

static void run(const struct stream_job *job, const struct memory_source_config *source,
                const char *folder, struct stream_watcher *ret_watcher)
{
    struct memory_source_config config = *source;
    static unsigned houses;
    char path[256];
    struct bench_house_config house = {.store_path = path,
                                       .budget_bytes = 256 << 20,
                                       .lease_ms = LEASE_MS,
                                       .open = open_source,
                                       .arg = &config};

    snprintf(path, sizeof path, "%s/%u.db", folder, houses++);
    bench_house_run(&house, job, ret_watcher);
}

static void measure_settles(const struct settles *settles, const char *folder)
{
    struct stream_job job = {.format = "", .run = run_settles, .arg = settles};
    struct stream_watcher watcher;
    const struct stream_count *count = &watcher.count;

    run(&job, &usual, folder, &watcher);
    meter_say("api/settle", (double)count->records / watcher.cpu, "settles/cpu-s",
              "\"protocol\":\"%s\",\"items\":%u,\"at_once\":%u,\"requests_per_cpu_s\":%.0f,"
              "\"us_cpu_per_request\":%.2f,\"settles_per_s\":%.0f,\"requests_per_s\":%.0f,"
              "\"system_part\":%.2f",
              settles->protocol, settles->items, settles->at_once,
              (double)count->acks / watcher.cpu, watcher.cpu / (double)count->acks * 1e6,
              (double)count->records / count->seconds, (double)count->acks / count->seconds,
              watcher.system_cpu / watcher.cpu);
}

static void measure_sessions(const struct sessions *sessions, const char *folder)
{
    struct stream_job job = {.format = "", .run = run_sessions, .arg = sessions};
    struct stream_watcher watcher;

    run(&job, &usual, folder, &watcher);
    meter_say("api/sessions", (double)watcher.count.probed / 1e6, "MB resident",
              "\"protocol\":\"%s\",\"sessions\":%d,\"connections\":%u,\"kb_per_session\":%.1f",
              sessions->protocol, SESSIONS, sessions->connections,
              (double)watcher.count.probed / 1e3 / SESSIONS);
}

/* At half of what the same reader takes when as much comes as it takes. */
static void measure_hops(const char *folder)
{
    struct memory_source_config source = {.shards = SHARDS, .record_bytes = 1024, .copies = true};
    struct stream_job full = {.format = "watch",
                              .record_bytes = 1024,
                              .batches_per_ack = 1,
                              .in_flight_bytes = STREAM_IN_FLIGHT_BYTES,
                              .warm_seconds = 0.4,
                              .measured_seconds = measured_seconds};
    struct stream_job half = {.format = "", .run = run_hops};
    struct stream_watcher watcher;
    uint32_t per_s;

    run(&full, &source, folder, &watcher);
    source.stamped = true;
    source.records_per_ms =
        (uint32_t)((double)watcher.count.records / watcher.count.seconds / 2 / SHARDS / 1000) + 1;
    per_s = source.records_per_ms * SHARDS * 1000;
    half.arg = &per_s;
    run(&half, &source, folder, &watcher);
    half.plain = true;
    half.record_bytes = source.records_per_ms * SHARDS * 1200;
    run_plain(&half);
}

/* api [settle | sessions | hop]: all rows, or some. */
int main(int argc, char **argv)
{
    static const struct settles settles[] = {
        {"rest", 1, 1},     {"rest", 64, 1},      {"rest", 1000, 1}, {"connect", 1, 1},
        {"connect", 64, 1}, {"connect", 1000, 1}, {"grpc", 1, 1},    {"grpc", 64, 1},
        {"grpc", 1000, 1},  {"grpc", 1, 32},
    };
    static const struct sessions sessions[] = {{"grpc", 10}, {"grpc", 1000}, {"ndjson", 1000}};
    const char *only = argc > 1 ? argv[1] : "";
    char folder[] = "/tmp/ks-bench-XXXXXX";
    char command[64];

    if (mkdtemp(folder) == NULL)
        meter_fail("no folder: %s", strerror(errno));
    (void)signal(SIGPIPE, SIG_IGN);
    ks_log_open(STDERR_FILENO, KS_LOG_ERROR, KS_LOG_TEXT);
    stream_consumer_stay_away();
    for (size_t i = 0; i < sizeof settles / sizeof *settles; i++)
        if (only[0] == '\0' || strcmp(only, "settle") == 0)
            measure_settles(&settles[i], folder);
    for (size_t i = 0; i < sizeof sessions / sizeof *sessions; i++)
        if (only[0] == '\0' || strcmp(only, "sessions") == 0)
            measure_sessions(&sessions[i], folder);
    if (only[0] == '\0' || strcmp(only, "hop") == 0)
        measure_hops(folder);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}
