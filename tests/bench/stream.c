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
#include "bench_house.h"
#include "grpc_client.h"
#include "http_client.h"
#include "memory_source.h"
#include "meter.h"

#include "api/frame.h"
#include "base/log.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    LEASE_MS = 1500,
    SHARDS = 8,
    SHARDS_MANY = 1000,
    CHUNK_BYTES = 64 << 10,
    BATCH_BYTES = 64 << 10, /* Of the plain loop by gRPC: 64 records of 1 KB a message. */
};
#define BATCH_ID "batch-id-of-fifty-two-characters-0123456789012345678"
static const double warm_seconds = 0.4;
static const double measured_seconds = 2;

/* One row of the table. */
struct cell {
    const char *format; /* "protobuf", "ndjson", "watch", "stream" */
    uint32_t record_bytes;
    bool copies; /* The source copies the data of each record into its batch. */
    uint32_t batches_per_ack;
    uint32_t shards;
    bool plain; /* Not the sidecar, but the plain loop. */
};

static void must(ks_err err, const char *what)
{
    bench_must(err, what, NULL);
}

/* ---- The sidecar ---- */

static struct ks_stream_source *open_source(struct ks_loop *loop, void *arg)
{
    const struct cell *cell = arg;
    const struct memory_source_config config = {
        .shards = cell->shards, .record_bytes = cell->record_bytes, .copies = cell->copies};

    return memory_source_new(loop, &config);
}

static struct stream_job job_of(const struct cell *cell)
{
    return (struct stream_job){.format = cell->format,
                               .record_bytes = cell->record_bytes,
                               .batches_per_ack = cell->batches_per_ack,
                               .in_flight_bytes = STREAM_IN_FLIGHT_BYTES,
                               .warm_seconds = warm_seconds,
                               .measured_seconds = measured_seconds,
                               .plain = cell->plain};
}

static void run_sidecar(const struct cell *cell, const char *folder,
                        struct stream_watcher *ret_watcher)
{
    struct stream_job job = job_of(cell);
    struct cell copy = *cell;
    char path[256];
    struct bench_house_config house = {.store_path = path,
                                       .budget_bytes = 256 << 20,
                                       .lease_ms = LEASE_MS,
                                       .open = open_source,
                                       .arg = &copy};

    snprintf(path, sizeof path, "%s/%s-%u-%d-%u-%u.db", folder, cell->format, cell->record_bytes,
             cell->copies, cell->batches_per_ack, cell->shards);
    bench_house_run(&house, &job, ret_watcher);
}

/* ---- The plain loop ---- */

static const struct ks_record *source_record(void *arg, ks_number number)
{
    static struct ks_record record;
    static char sequence[KS_SEQUENCE_MAX + 1];

    record = memory_source_record(arg, number, sequence);
    return &record;
}

static bool is_grpc(const struct cell *cell)
{
    return strcmp(cell->format, "watch") == 0 || strcmp(cell->format, "stream") == 0;
}

static enum ks_frame_format format_of(const struct cell *cell)
{
    if (is_grpc(cell))
        return KS_FRAME_ELEMENT;
    return strcmp(cell->format, "protobuf") == 0 ? KS_FRAME_PROTOBUF : KS_FRAME_NDJSON;
}

/* Writes `count` records, as the sidecar does. */
static size_t make_records(const struct cell *cell, struct ks_stream_source *source, uint32_t count,
                           uint8_t *buffer, size_t room)
{
    const struct ks_frame_names names = {BATCH_ID, "bench", "shardId-000000000003"};
    struct ks_ack_run run = {.shard = 3, .epoch = 1, .first = 0, .count = count, .assignment = 1};
    struct ks_ack_key key;
    struct ks_ack_stamp stamp;
    struct ks_framer framer;
    enum ks_frame_state state;
    size_t size;

    ks_ack_key_init(&key, 1, 0);
    ks_ack_stamp_init(&stamp, &key, 1, 1, &run);
    ks_framer_init(&framer, format_of(cell), (struct ks_frame_source){source_record, source});
    ks_framer_begin(&framer, &stamp, &names, &run, 1);
    size = ks_framer_fill(&framer, buffer, room, &state);
    if (state != KS_FRAME_DONE)
        meter_fail("the records do not fit");
    return size;
}

/* Puts the message of a batch around its records: StreamEvent {batch = 8}, RecordBatch {batch_id = 1}. */
static size_t make_message(uint8_t *at, const uint8_t *records, size_t size)
{
    uint8_t id[64];
    size_t id_size = grpc_put_field(id, 1, BATCH_ID, sizeof BATCH_ID - 1);
    size_t head = GRPC_HEAD;
    size_t message;

    head += grpc_put_varint(at + head, 8 << 3 | 2);
    head += grpc_put_varint(at + head, id_size + size);
    memcpy(at + head, id, id_size);
    memcpy(at + head + id_size, records, size);
    head += id_size;
    message = head + size - GRPC_HEAD;
    at[0] = 0;
    for (int i = 0; i < 4; i++)
        at[1 + i] = (uint8_t)(message >> 8 * (3 - i));
    return head + size;
}

/* Cuts a message into frames of HTTP/2, of the first stream. */
static size_t make_data(uint8_t *at, const uint8_t *message, size_t size, size_t frame_bytes)
{
    size_t made = 0;

    for (size_t sent = 0; sent < size;) {
        size_t part = size - sent < frame_bytes ? size - sent : frame_bytes;
        const uint8_t head[GRPC_FRAME_HEAD] = {
            (uint8_t)(part >> 16), (uint8_t)(part >> 8), (uint8_t)part, 0, 0, 0, 0, 0, 1};

        memcpy(at + made, head, sizeof head);
        memcpy(at + made + sizeof head, message + sent, part);
        made += sizeof head + part;
        sent += part;
    }
    return made;
}

/* Frames of whole records, more than 1 MB of them, as the sidecar writes them. */
static uint8_t *make_frames(const struct cell *cell, size_t *ret_size)
{
    struct memory_source_config config = {.shards = 1, .record_bytes = cell->record_bytes};
    uint32_t batch = cell->record_bytes < BATCH_BYTES ? BATCH_BYTES / cell->record_bytes : 1;
    uint32_t count = is_grpc(cell) ? batch : (1 << 20) / cell->record_bytes + 1;
    size_t capacity = (size_t)count * (cell->record_bytes * 4 / 3 + 1024);
    uint8_t *records = malloc(capacity);
    uint8_t *message = malloc(capacity);
    uint8_t *frames = malloc(2 * capacity + (2 << 20));
    struct ks_loop *loop;
    struct ks_stream_source *source;
    size_t size;

    if (records == NULL || message == NULL || frames == NULL)
        meter_fail("no memory for %zu bytes", capacity);
    must(ks_loop_new(&loop), "loop");
    source = memory_source_new(loop, &config);
    *ret_size = size =
        make_records(cell, source, count, is_grpc(cell) ? records : frames, capacity);
    if (is_grpc(cell)) {
        size = make_message(message, records, size);
        for (*ret_size = 0; *ret_size < 1 << 20;)
            *ret_size += make_data(frames + *ret_size, message, size, GRPC_FRAME_BYTES);
    }
    source->vtable->close(source);
    ks_loop_free(loop);
    free(records);
    free(message);
    return frames;
}

/* Sends one chunk; by gRPC the frames are made. False when the reader is gone. */
static bool send_chunk(const struct cell *cell, int fd, const uint8_t *data, size_t size)
{
    bool grpc = is_grpc(cell);
    char head[16];
    struct iovec parts[3] = {
        {.iov_base = head, .iov_len = (size_t)snprintf(head, sizeof head, "%zx\r\n", size)},
        {.iov_base = (void *)(uintptr_t)data, .iov_len = size},
        {.iov_base = (void *)(uintptr_t) "\r\n", .iov_len = 2},
    };
    int at = 0;

    if (grpc)
        parts[0].iov_len = parts[2].iov_len = 0;
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

static void run_plain(const struct cell *cell, struct stream_watcher *ret_watcher)
{
    static const char head[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    static const char settings[] = "\0\0\0\x04\0\0\0\0\0";
    struct stream_watcher watcher = {.words = -1};
    struct stream_job job = job_of(cell);
    uint16_t port = http_free_port();
    pid_t consumer = stream_consumer_fork(&job, port, &watcher);
    size_t size;
    uint8_t *frames = make_frames(cell, &size);
    int fd = http_accept(port);
    bool over = false;

    if (is_grpc(cell))
        http_send(fd, settings, sizeof settings - 1);
    else
        http_send(fd, head, sizeof head - 1);
    for (size_t at = 0; !over; at = at + CHUNK_BYTES < size ? at + CHUNK_BYTES : 0) {
        size_t left = size - at;

        if (!send_chunk(cell, fd, frames + at, left < CHUNK_BYTES ? left : CHUNK_BYTES) &&
            !stream_readable(watcher.words))
            meter_fail("the consumer left");
        if (stream_readable(watcher.words))
            over = stream_consumer_hear(&watcher);
    }
    close(fd);
    free(frames);
    *ret_watcher = watcher;
    stream_consumer_bury(consumer, &watcher);
}

/* ---- Rows ---- */

struct rate {
    double payload_per_cpu; /* MB */
    double payload_per_second;
};

static struct rate say_cell(const struct cell *cell, const struct stream_watcher *watcher,
                            const struct rate *plain)
{
    const struct stream_count *count = &watcher->count;
    double payload = (double)count->records * cell->record_bytes / 1e6;
    struct rate rate = {payload / watcher->cpu, payload / count->seconds};
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
        cell->batches_per_ack, (double)count->records / watcher->cpu,
        watcher->cpu / (double)count->records * 1e6, rate.payload_per_second,
        (double)count->records / count->seconds, (double)count->wire_bytes / 1e6 / count->seconds,
        watcher->cpu / count->seconds, watcher->system_cpu / watcher->cpu,
        count->consumer_cpu / count->seconds, (double)count->acks / count->seconds, share);
    return rate;
}

/* One size in one format: all rows of the sidecar stand between two of the plain loop, and are held
 * against their mean. */
static void measure(const char *format, uint32_t record_bytes, const char *folder)
{
    enum { ROWS = 4 };
    const struct cell cell = {
        .format = format,
        .record_bytes = record_bytes,
        .shards = SHARDS,
        .batches_per_ack = STREAM_BATCHES_PER_ACK_MAX,
        .copies = true,
    };
    struct cell plain_cell = cell;
    struct cell rows[ROWS] = {cell, cell, cell, cell};
    struct stream_watcher watchers[ROWS];
    struct stream_watcher plain;
    struct rate before;
    struct rate after;

    plain_cell.plain = true;
    plain_cell.shards = plain_cell.batches_per_ack = 0;
    rows[1].copies = false;
    rows[2].batches_per_ack = 1;
    rows[3].shards = SHARDS_MANY;
    run_plain(&plain_cell, &plain);
    before = say_cell(&plain_cell, &plain, NULL);
    for (size_t i = 0; i < ROWS; i++)
        run_sidecar(&rows[i], folder, &watchers[i]);
    run_plain(&plain_cell, &plain);
    after = say_cell(&plain_cell, &plain, NULL);
    before.payload_per_cpu = (before.payload_per_cpu + after.payload_per_cpu) / 2;
    before.payload_per_second = (before.payload_per_second + after.payload_per_second) / 2;
    for (size_t i = 0; i < ROWS; i++)
        (void)say_cell(&rows[i], &watchers[i], &before);
}

/* stream [FORMAT BYTES]: all cells, or those of one format and size. */
int main(int argc, char **argv)
{
    static const char *const formats[] = {"protobuf", "ndjson", "watch", "stream"};
    static const uint32_t sizes[] = {100, 1024, 50 * 1024};
    char folder[] = "/tmp/ks-bench-XXXXXX";
    char command[64];

    if (mkdtemp(folder) == NULL)
        meter_fail("no folder: %s", strerror(errno));
    (void)signal(SIGPIPE, SIG_IGN);
    ks_log_open(STDERR_FILENO, KS_LOG_ERROR, KS_LOG_TEXT);
    stream_consumer_stay_away();
    for (size_t f = 0; f < sizeof formats / sizeof *formats; f++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
            if (argc < 3 ||
                (strcmp(argv[1], formats[f]) == 0 && strtoul(argv[2], NULL, 10) == sizes[s]))
                measure(formats[f], sizes[s], folder);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}
