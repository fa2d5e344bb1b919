/* SPDX-License-Identifier: Apache-2.0 */
/* stream.c - how fast records go from a source through the whole house to a consumer, and what that
 * costs.
 *
 * The real loop, switchboard, core, API and SQLite lease store, on a stream that costs nearly
 * nothing (tests/lib/memory_source.h), in this process on one processor. On the other a forked
 * consumer reads the stream from a loopback port with large reads, finds every record and every
 * batch_id, and acknowledges batches on a second connection, so often that credit never ends.
 *
 * The measure is payload per CPU second of the sidecar process, all its threads and the kernel's
 * work for it included: "per core". Beside it stands a plain loop that writes the same frames as
 * chunks of 64 KB to the same reader, in the same run: `share` is how much of that is left.
 */
#include "http_client.h"
#include "memory_source.h"
#include "meter.h"

#include "adapters/sqlite/store.h"
#include "api/api.h"
#include "api/frame.h"
#include "base/log.h"
#include "base/options.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    SIDECAR_PROCESSOR = 0,
    CONSUMER_PROCESSOR = 1,
    SHARDS = 8,
    SHARDS_MANY = 1000,
    READ_BYTES = 1 << 20,   /* What the consumer asks of its socket. */
    EVENTS_BYTES = 4 << 20, /* Joined chunks that it has not looked at. */
    BATCH_ID_MAX = 432,
    BATCHES_PER_ACK_MAX = 32, /* A query of them stays below the longest target. */
    CHUNK_BYTES = 64 << 10,
    IN_FLIGHT = 100000,
    IN_FLIGHT_BYTES = 16 << 20,
    LEASE_MS = 1500,      /* So that the first lease comes soon. */
    PATIENCE_SECONDS = 30 /* Then the consumer gives up, and the benchmark has failed. */
};
static const double warm_seconds = 0.4;
static const double measured_seconds = 2;

/* One row of the table. */
struct cell {
    const char *format; /* "protobuf", "ndjson" */
    uint32_t record_bytes;
    bool copies; /* The source copies the data of each record into its batch. */
    uint32_t batches_per_ack;
    uint32_t shards;
    bool plain; /* Not the sidecar, but the plain loop. */
};

/* What the consumer counted between its two words. */
struct count {
    uint64_t records;
    uint64_t wire_bytes; /* Of the socket. */
    uint64_t acks;       /* Requests. */
    double seconds;
    double consumer_cpu;
};

/* What the sidecar, or the plain loop, spent between them. */
struct spent {
    double cpu;
    double system_cpu;
};

/* ---- The consumer ---- */

struct consumer {
    const struct cell *cell;
    int words; /* The pipe to the parent. */
    struct http_stream stream;
    uint8_t *events;
    size_t events_at;
    size_t events_size;
    int ack_fd;
    bool acking; /* A request is on its way. */
    char batch_id[BATCH_ID_MAX];
    size_t batch_id_size;
    char target[8192]; /* Of the next ack. */
    size_t target_size;
    uint32_t batches; /* In it. */
    struct count count;
};

static void begin_target(struct consumer *consumer)
{
    consumer->target_size =
        (size_t)snprintf(consumer->target, sizeof consumer->target, "/v1/records/ack");
    consumer->batches = 0;
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

static bool readable(int fd)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};

    return poll(&poll_fd, 1, 0) == 1;
}

/* The batch before is whole. */
static void batch_done(struct consumer *consumer)
{
    size_t room = sizeof consumer->target - consumer->target_size;
    int size;

    if (consumer->batch_id_size == 0 || consumer->cell->plain)
        return;
    size = snprintf(consumer->target + consumer->target_size, room, "%cbatch_id=%.*s",
                    consumer->batches == 0 ? '?' : '&', (int)consumer->batch_id_size,
                    consumer->batch_id);
    assert(size > 0 && (size_t)size < room);
    consumer->target_size += (size_t)size;
    consumer->batches++;
    if (consumer->batches < consumer->cell->batches_per_ack)
        return;
    if (consumer->acking &&
        (consumer->batches == BATCHES_PER_ACK_MAX || readable(consumer->ack_fd)))
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

/* A varint at `*at`; false if it is not all there. */
static bool take_varint(const uint8_t **at, const uint8_t *end, uint64_t *ret_value)
{
    uint64_t value = 0;

    for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
        uint8_t byte = *(*at)++;

        value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *ret_value = value;
            return true;
        }
    }
    return false;
}

/* The data of a whole record must be as long as the source made it: field 12, the last one. */
static void check_data(const struct consumer *consumer, const uint8_t *at, const uint8_t *end)
{
    uint64_t tag;
    uint64_t value;

    while (take_varint(&at, end, &tag) && take_varint(&at, end, &value)) {
        if (tag == (12 << 3 | 2) && value == consumer->cell->record_bytes &&
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
    if (!take_varint(&at, end, &size) || size != (uint64_t)(end - at))
        meter_fail("an event that is not one record");
    record = at;
    if (*at++ != (1 << 3 | 2) || !take_varint(&at, end, &size))
        meter_fail("a record without ack_id");
    at += size;
    if (at >= end || *at++ != (2 << 3 | 2) || !take_varint(&at, end, &size))
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

        if (!take_varint(&next, end, &size) || size > (uint64_t)(end - next))
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
            if ((size_t)(feed - at) < ks_base64_size(consumer->cell->record_bytes))
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
    size_t got =
        http_stream_read(&consumer->stream, consumer->events + consumer->events_size, room);
    const uint8_t *end;
    size_t taken;

    if (got == 0)
        meter_fail("the stream ended");
    consumer->events_size += got;
    end = consumer->events + consumer->events_size;
    taken = strcmp(consumer->cell->format, "protobuf") == 0
                ? see_protobuf(consumer, consumer->events, end)
                : see_ndjson(consumer, consumer->events, end);
    consumer->events_size -= taken;
    memmove(consumer->events, consumer->events + taken, consumer->events_size);
}

static void open_stream(struct consumer *consumer, uint16_t port)
{
    char target[256];
    char accept[64];
    int status;

    snprintf(target, sizeof target, "/v1/records/stream?max_in_flight=%d&max_in_flight_bytes=%d",
             IN_FLIGHT, IN_FLIGHT_BYTES);
    snprintf(accept, sizeof accept, "Accept: application/x-%s\r\n", consumer->cell->format);
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

static void say_word(const struct consumer *consumer, const struct count *count)
{
    if (write(consumer->words, count, sizeof *count) != (ssize_t)sizeof *count)
        meter_fail("nobody listens to the consumer");
}

/* Reads until `seconds` after the first record, and returns when that was. */
static double consume(struct consumer *consumer, double seconds)
{
    double began = 0;
    double now = 0;

    do {
        see_events(consumer);
        if (consumer->acking && readable(consumer->ack_fd))
            take_ack_answer(consumer);
        if (consumer->count.records == 0)
            continue;
        now = meter_now();
        began = began > 0 ? began : now;
    } while (began == 0 || now - began < seconds);
    return now;
}

_Noreturn static void run_consumer(const struct cell *cell, uint16_t port, int words)
{
    static struct consumer consumer;
    double began;

    (void)alarm(PATIENCE_SECONDS);
    meter_pin(CONSUMER_PROCESSOR);
    consumer.cell = cell;
    consumer.words = words;
    consumer.events = malloc(EVENTS_BYTES);
    if (consumer.events == NULL)
        meter_fail("no memory for the consumer");
    begin_target(&consumer);
    open_stream(&consumer, port);
    if (!cell->plain)
        consumer.ack_fd = http_connect(port);

    (void)consume(&consumer, warm_seconds);
    consumer.count = (struct count){.consumer_cpu = meter_process_cpu()};
    consumer.stream.received = 0;
    say_word(&consumer, &consumer.count);
    began = meter_now();
    consumer.count.seconds = consume(&consumer, measured_seconds) - began;
    consumer.count.consumer_cpu = meter_process_cpu() - consumer.count.consumer_cpu;
    consumer.count.wire_bytes = consumer.stream.received;
    say_word(&consumer, &consumer.count);
    exit(0);
}

static pid_t fork_consumer(const struct cell *cell, uint16_t port, int *ret_words)
{
    int words[2];
    pid_t pid;

    if (pipe2(words, O_CLOEXEC) != 0)
        meter_fail("no pipe: %s", strerror(errno));
    fflush(stdout);
    pid = fork();
    if (pid < 0)
        meter_fail("no second process: %s", strerror(errno));
    if (pid == 0) {
        close(words[0]);
        run_consumer(cell, port, words[1]);
    }
    close(words[1]);
    *ret_words = words[0];
    return pid;
}

static void bury_consumer(pid_t pid, int words)
{
    int status = 0;

    close(words);
    if (waitpid(pid, &status, 0) != pid || status != 0)
        meter_fail("the consumer failed");
}

/* ---- What was spent ---- */

static struct spent spent_now(void)
{
    struct rusage usage;

    if (getrusage(RUSAGE_SELF, &usage) != 0)
        meter_fail("no rusage: %s", strerror(errno));
    double system_cpu = (double)usage.ru_stime.tv_sec + (double)usage.ru_stime.tv_usec / 1e6;
    double user_cpu = (double)usage.ru_utime.tv_sec + (double)usage.ru_utime.tv_usec / 1e6;
    return (struct spent){.cpu = user_cpu + system_cpu, .system_cpu = system_cpu};
}

/* The two words of the consumer: at the first one counting begins, at the second it ends. */
struct watcher {
    int words;
    bool begun;
    struct spent spent;
    struct count count;
};

/* Reads a word. True when it was the last. */
static bool hear(struct watcher *watcher)
{
    struct spent now = spent_now();

    if (read(watcher->words, &watcher->count, sizeof watcher->count) !=
        (ssize_t)sizeof watcher->count)
        meter_fail("the consumer ended early");
    if (!watcher->begun) {
        watcher->spent = now;
        watcher->begun = true;
        return false;
    }
    watcher->spent.cpu = now.cpu - watcher->spent.cpu;
    watcher->spent.system_cpu = now.system_cpu - watcher->spent.system_cpu;
    return true;
}

/* ---- The sidecar ---- */

struct house {
    struct ks_loop *loop;
    struct ks_lease_store *store;
    struct ks_stream_source *source;
    struct ks_switchboard *board;
    struct ks_api *api;
    struct ks_options options;
    struct ks_watch watch; /* The consumer's words. */
    struct watcher watcher;
};

static void must(ks_err err, const char *what, const struct ks_detail *detail)
{
    if (!ks_ok(err))
        meter_fail("%s: %s %s", what, ks_err_text(err), detail == NULL ? "" : detail->text);
}

static void drained(void *arg, bool clean, uint64_t unsaved)
{
    (void)arg;
    (void)clean;
    (void)unsaved;
}

static void refused(void *arg, const char *reason)
{
    (void)arg;
    meter_fail("the switchboard refuses: %s", reason);
}

static void consumer_spoke(struct ks_watch *watch, uint32_t events)
{
    struct house *house = KS_LIST_ENTRY(watch, struct house, watch);

    (void)events;
    if (hear(&house->watcher))
        ks_loop_stop(house->loop);
}

static void open_house(struct house *house, const struct cell *cell, uint16_t port,
                       const char *folder)
{
    struct memory_source_config source = {
        .shards = cell->shards, .record_bytes = cell->record_bytes, .copies = cell->copies};
    struct ks_switchboard_config board = {
        .stream = "bench",
        .application = "bench",
        .dialect = "native",
        .worker_id = "bench",
        .version = "bench",
        .start = {.kind = KS_POSITION_TRIM_HORIZON, .sub_sequence = -1},
        .core = ks_core_config_default(ks_span_ms(LEASE_MS)),
        .drained = drained,
        .refused = refused,
    };
    struct ks_api_config api = {.ops_listen = "",
                                .connections_max = 100,
                                .request_bytes_max = 1 << 20,
                                .options = &house->options};
    struct ks_detail detail = {.text = ""};
    char path[256];
    char listen[64];

    snprintf(path, sizeof path, "%s/%s-%u-%d-%u-%u.db", folder, cell->format, cell->record_bytes,
             cell->copies, cell->batches_per_ack, cell->shards);
    snprintf(listen, sizeof listen, "127.0.0.1:%u", port);
    must(ks_loop_new(&house->loop), "loop", NULL);
    must(ks_sqlite_store_open(house->loop, path, "bench", NULL, NULL, &house->store, &detail), path,
         &detail);
    house->source = memory_source_new(house->loop, &source);
    board.loop = api.loop = house->loop;
    board.store = house->store;
    board.source = house->source;
    board.core.seed = 1;
    board.core.budget_bytes = 256 << 20;
    must(ks_switchboard_new(&board, &house->board), "switchboard", NULL);
    api.boards = &house->board;
    api.board_count = 1;
    api.listen = listen;
    must(ks_api_open(&api, &house->api, &detail), listen, &detail);
    house->watch = (struct ks_watch){.ready = consumer_spoke, .fd = house->watcher.words};
    must(ks_loop_watch(house->loop, &house->watch, EPOLLIN), "pipe", NULL);
    ks_switchboard_start(house->board);
}

static void close_house(struct house *house)
{
    ks_loop_unwatch(house->loop, &house->watch);
    ks_api_close(house->api);
    ks_switchboard_stop(house->board);
    house->source->vtable->close(house->source);
    house->store->vtable->close(house->store);
    for (int i = 0; i < 3; i++)
        ks_loop_turn(house->loop, ks_span_ms(20)); /* A job that was running comes back. */
    ks_loop_free(house->loop);
    ks_switchboard_free(house->board);
}

static void run_sidecar(const struct cell *cell, const char *folder, struct watcher *ret_watcher)
{
    static struct house house;
    uint16_t port = http_free_port();
    pid_t consumer;

    house = (struct house){.loop = NULL};
    consumer = fork_consumer(cell, port, &house.watcher.words);
    open_house(&house, cell, port, folder);
    ks_loop_run(house.loop);
    *ret_watcher = house.watcher;
    close_house(&house);
    bury_consumer(consumer, house.watcher.words);
}

/* ---- The plain loop ---- */

static const struct ks_record *source_record(void *arg, ks_shard shard, ks_epoch epoch,
                                             ks_number number)
{
    static struct ks_record record;
    static char sequence[KS_SEQUENCE_MAX + 1];

    (void)shard;
    (void)epoch;
    record = memory_source_record(arg, number, sequence);
    return &record;
}

/* Frames of whole records, more than 1 MB of them, as the sidecar writes them. */
static uint8_t *make_frames(const struct cell *cell, size_t *ret_size)
{
    struct memory_source_config config = {.shards = 1, .record_bytes = cell->record_bytes};
    uint32_t count = (1 << 20) / cell->record_bytes + 1;
    size_t capacity = (size_t)count * (cell->record_bytes * 4 / 3 + 1024);
    bool protobuf = strcmp(cell->format, "protobuf") == 0;
    const struct ks_frame_names names = {"batch-id-of-fifty-two-characters-0123456789012345678",
                                         "bench", "shardId-000000000003"};
    struct ks_ack_run run = {.shard = 3, .epoch = 1, .first = 0, .count = count};
    uint8_t *frames = malloc(capacity);
    struct ks_ack_key key;
    struct ks_ack_stamp stamp;
    struct ks_framer framer;
    enum ks_frame_state state;
    struct ks_loop *loop;
    struct ks_stream_source *source;

    must(ks_loop_new(&loop), "loop", NULL);
    source = memory_source_new(loop, &config);
    ks_ack_key_init(&key, 1, 0);
    ks_ack_stamp_init(&stamp, &key, 1, 1, run.shard, run.epoch);
    ks_framer_init(&framer, protobuf ? KS_FRAME_PROTOBUF : KS_FRAME_NDJSON,
                   (struct ks_frame_source){source_record, source});
    ks_framer_begin(&framer, &stamp, &names, &run, 1);
    if (frames == NULL)
        meter_fail("no memory for %zu bytes", capacity);
    *ret_size = ks_framer_fill(&framer, frames, capacity, &state);
    if (state != KS_FRAME_DONE)
        meter_fail("the frames do not fit");
    source->vtable->close(source);
    ks_loop_free(loop);
    return frames;
}

static int accept_one(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;
    int fd;

    (void)setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (listener < 0 || bind(listener, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(listener, 1) != 0)
        meter_fail("cannot listen: %s", strerror(errno));
    fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    close(listener);
    if (fd < 0)
        meter_fail("cannot accept: %s", strerror(errno));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

/* Sends one chunk. False when the reader is gone. */
static bool send_chunk(int fd, const uint8_t *data, size_t size)
{
    char head[16];
    struct iovec parts[3] = {
        {.iov_base = head, .iov_len = (size_t)snprintf(head, sizeof head, "%zx\r\n", size)},
        {.iov_base = (void *)(uintptr_t)data, .iov_len = size},
        {.iov_base = (void *)(uintptr_t) "\r\n", .iov_len = 2},
    };
    int at = 0;

    while (at < 3) {
        ssize_t sent = writev(fd, parts + at, 3 - at);

        if (sent < 0)
            return false;
        for (; at < 3 && (size_t)sent >= parts[at].iov_len; at++)
            sent -= (ssize_t)parts[at].iov_len;
        if (at < 3) {
            parts[at].iov_base = (char *)parts[at].iov_base + sent;
            parts[at].iov_len -= (size_t)sent;
        }
    }
    return true;
}

static void run_plain(const struct cell *cell, struct watcher *ret_watcher)
{
    static const char head[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    struct watcher watcher = {.words = -1};
    uint16_t port = http_free_port();
    pid_t consumer = fork_consumer(cell, port, &watcher.words);
    size_t size;
    uint8_t *frames = make_frames(cell, &size);
    int fd = accept_one(port);
    bool over = false;

    http_send(fd, head, sizeof head - 1);
    for (size_t at = 0; !over; at = at + CHUNK_BYTES < size ? at + CHUNK_BYTES : 0) {
        size_t left = size - at;

        if (!send_chunk(fd, frames + at, left < CHUNK_BYTES ? left : CHUNK_BYTES) &&
            !readable(watcher.words))
            meter_fail("the consumer left");
        if (readable(watcher.words))
            over = hear(&watcher);
    }
    close(fd);
    free(frames);
    *ret_watcher = watcher;
    bury_consumer(consumer, watcher.words);
}

/* ---- Rows ---- */

struct rate {
    double payload_per_cpu; /* MB */
    double payload_per_second;
};

static struct rate say_cell(const struct cell *cell, const struct watcher *watcher,
                            const struct rate *plain)
{
    const struct count *count = &watcher->count;
    double payload = (double)count->records * cell->record_bytes / 1e6;
    struct rate rate = {payload / watcher->spent.cpu, payload / count->seconds};
    char share[96] = "";

    if (plain != NULL)
        snprintf(share, sizeof share, ",\"share_per_cpu\":%.3f,\"share_per_second\":%.3f",
                 rate.payload_per_cpu / plain->payload_per_cpu,
                 rate.payload_per_second / plain->payload_per_second);
    meter_say(
        cell->plain ? "stream/plain" : "stream/deliver", rate.payload_per_cpu, "payload MB/cpu-s",
        "\"format\":\"%s\",\"record_bytes\":%u,\"source\":\"%s\",\"shards\":%u,"
        "\"batches_per_ack\":%u,\"records_per_cpu_s\":%.0f,\"us_cpu_per_record\":%.3f,"
        "\"payload_mb_per_s\":%.1f,\"records_per_s\":%.0f,\"wire_mb_per_s\":%.1f,"
        "\"processor_used\":%.2f,\"system_part\":%.2f,\"consumer_used\":%.2f,\"acks_per_s\":%.0f%s",
        cell->format, cell->record_bytes,
        cell->plain ? "none" : (cell->copies ? "copies" : "views"), cell->shards,
        cell->batches_per_ack, (double)count->records / watcher->spent.cpu,
        watcher->spent.cpu / (double)count->records * 1e6, rate.payload_per_second,
        (double)count->records / count->seconds, (double)count->wire_bytes / 1e6 / count->seconds,
        watcher->spent.cpu / count->seconds, watcher->spent.system_cpu / watcher->spent.cpu,
        count->consumer_cpu / count->seconds, (double)count->acks / count->seconds, share);
    return rate;
}

/* One size in one format: all rows of the sidecar stand between two of the plain loop, and are held
 * against their mean. */
static void measure(const char *format, uint32_t record_bytes, const char *folder)
{
    enum { ROWS = 4 };
    const struct cell cell = {.format = format, .record_bytes = record_bytes, .plain = true};
    const struct cell rows[ROWS] = {
        {format, record_bytes, true, BATCHES_PER_ACK_MAX, SHARDS, false},
        {format, record_bytes, false, BATCHES_PER_ACK_MAX, SHARDS, false},
        {format, record_bytes, true, 1, SHARDS, false},
        {format, record_bytes, true, BATCHES_PER_ACK_MAX, SHARDS_MANY, false},
    };
    struct watcher watchers[ROWS];
    struct watcher plain;
    struct rate before;
    struct rate after;

    run_plain(&cell, &plain);
    before = say_cell(&cell, &plain, NULL);
    for (size_t i = 0; i < ROWS; i++)
        run_sidecar(&rows[i], folder, &watchers[i]);
    run_plain(&cell, &plain);
    after = say_cell(&cell, &plain, NULL);
    before.payload_per_cpu = (before.payload_per_cpu + after.payload_per_cpu) / 2;
    before.payload_per_second = (before.payload_per_second + after.payload_per_second) / 2;
    for (size_t i = 0; i < ROWS; i++)
        (void)say_cell(&rows[i], &watchers[i], &before);
}

/* stream [FORMAT BYTES]: all cells, or those of one format and size. */
int main(int argc, char **argv)
{
    static const char *const formats[] = {"protobuf", "ndjson"};
    static const uint32_t sizes[] = {100, 1024, 50 * 1024};
    char folder[] = "/tmp/ks-bench-XXXXXX";
    char command[64];

    if (mkdtemp(folder) == NULL)
        meter_fail("no folder: %s", strerror(errno));
    (void)signal(SIGPIPE, SIG_IGN);
    ks_log_open(STDERR_FILENO, KS_LOG_ERROR, KS_LOG_TEXT);
    meter_pin(SIDECAR_PROCESSOR);
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            if (argc < 3 ||
                (strcmp(argv[1], formats[f]) == 0 && strtoul(argv[2], NULL, 10) == sizes[s]))
                measure(formats[f], sizes[s], folder);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}
