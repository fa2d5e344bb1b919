/* SPDX-License-Identifier: Apache-2.0 */
/* api.c - what requests and sessions cost, records aside.
 *
 * The house of bench_house.h in this process; on the other processor a forked client. Settles: the client was handed
 * records by explicit credit, and no more come; then it settles them, request after request on kept connections, as
 * REST, Connect and gRPC. The measure is settles per CPU second of the sidecar's process, the kernel's work included.
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
    SESSIONS = 1000
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

    if (part != NULL)
        keep_ids(holder, part, part + part_size);
    part = find(at, at + size, 1, &part_size);
    name = part == NULL ? NULL : find(part, part + part_size, 1, &name_size);
    if (name != NULL)
        text_of(holder->session, sizeof holder->session, name, name_size);
}

/* OpenRequest {max_in_flight = 2, explicit_credit = 11}. */
static uint32_t watch(struct grpc_client *client)
{
    uint8_t message[32];
    size_t size = 0;

    message[size++] = 2 << 3;
    size += grpc_put_varint(message + size, 100000);
    message[size++] = 11 << 3;
    message[size++] = 1;
    return grpc_begin(client, CONSUMER "/Watch", message, size, false);
}

/* Reads once; begins the call again if the sidecar was not ready. */
static void read_events(struct holder *holder)
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
        holder->call = watch(&holder->client);
    }
    while (holder->events_size - at >= GRPC_HEAD) {
        const uint8_t *head = holder->events + at;
        size_t size =
            (size_t)head[1] << 24 | (size_t)head[2] << 16 | (size_t)head[3] << 8 | head[4];

        if (holder->events_size - at < GRPC_HEAD + size)
            break;
        see_event(holder, head + GRPC_HEAD, size);
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
    holder->call = watch(&holder->client);
    while (holder->session[0] == '\0')
        read_events(holder);
    size = grpc_put_field(grant, 1, holder->session, strlen(holder->session));
    grant[size++] = 2 << 3;
    size += grpc_put_varint(grant + size, IDS);
    (void)grpc_ask(&holder->client, CONSUMER "/Grant", grant, size);
    while (holder->count < IDS)
        read_events(holder);
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
        uint32_t id = watch(client);
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
    warm.call = watch(&warm.client);
    while (warm.session[0] == '\0')
        read_events(&warm);
    open_stream(port);
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

/* ---- Rows ---- */

static struct ks_stream_source *open_source(struct ks_loop *loop, void *arg)
{
    const struct memory_source_config config = {
        .shards = SHARDS, .record_bytes = RECORD_BYTES, .copies = true};

    (void)arg;
    return memory_source_new(loop, &config);
}

static void run(const struct stream_job *job, const char *folder,
                struct stream_watcher *ret_watcher)
{
    static unsigned houses;
    char path[256];
    struct bench_house_config house = {
        .store_path = path, .budget_bytes = 256 << 20, .lease_ms = LEASE_MS, .open = open_source};

    snprintf(path, sizeof path, "%s/%u.db", folder, houses++);
    bench_house_run(&house, job, ret_watcher);
}

static void measure_settles(const struct settles *settles, const char *folder)
{
    struct stream_job job = {.format = "", .run = run_settles, .arg = settles};
    struct stream_watcher watcher;
    const struct stream_count *count = &watcher.count;

    run(&job, folder, &watcher);
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

    run(&job, folder, &watcher);
    meter_say("api/sessions", (double)watcher.count.probed / 1e6, "MB resident",
              "\"protocol\":\"%s\",\"sessions\":%d,\"connections\":%u,\"kb_per_session\":%.1f",
              sessions->protocol, SESSIONS, sessions->connections,
              (double)watcher.count.probed / 1e3 / SESSIONS);
}

/* api [settle | sessions]: all rows, or some. */
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
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}
