/* SPDX-License-Identifier: Apache-2.0 */
/* latency.c - the real binary on the embedded default: how soon it is ready, how soon a record is
 * delivered, and what it costs in memory: idle, with a hundred shards, and with a consumer that
 * does not read.
 *
 * The binary is KS_BIN or build/kinesis-sidecar. Wall time, for waiting is the question here; the
 * machine's other work is in it. Memory is that of /proc: resident in all, and the private part,
 * dirty pages, which no other process could share.
 */
#include "http_client.h"
#include "meter.h"

#include "base/codec.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    STARTS = 15,
    SAMPLES = 2000,
    SAMPLE_EVERY_US = 2000,
    SAMPLES_SECONDS_MAX = 60,
    PATIENCE_SECONDS = 60,
    PUT_RECORDS = 500,
    PUT_BYTES_MAX = 12 << 20, /* Of a request body; 16 MiB are allowed. */
    ANSWER_BYTES = 1 << 20,
    LINES_BYTES = 1 << 20,
    STALL_LIMIT = 16 << 20,
    IDLE_SECONDS = 5,
    STALL_SECONDS = 6,
    TEXT = 256
};

/* ---- The process under test ---- */

struct sidecar {
    pid_t pid;
    uint16_t port;
    uint16_t ops_port;
    double started_at;
};

static char folder[] = "/tmp/ks-bench-XXXXXX";

static void pause_us(unsigned us)
{
    (void)usleep(us);
}

static const char *binary(void)
{
    const char *path = getenv("KS_BIN");

    return path != NULL && path[0] != '\0' ? path : "build/kinesis-sidecar";
}

_Noreturn static void become_sidecar(char **arguments, const char *log)
{
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (fd >= 0)
        (void)dup2(fd, STDERR_FILENO);
    (void)dup2(STDERR_FILENO, STDOUT_FILENO);
    execv(arguments[0], arguments);
    _exit(127);
}

/* Starts it on the files `name`.*, which it makes if they are not there. */
static struct sidecar start(const char *name, unsigned shards)
{
    struct sidecar sidecar = {.port = http_free_port(), .ops_port = http_free_port()};
    char source[TEXT], leases[TEXT], listen[TEXT], ops_listen[TEXT], count[TEXT], log[TEXT],
        path[TEXT];
    char run[] = "run", stream[] = "--stream=bench", application[] = "--application=bench",
         position[] = "--initial-position=trim_horizon";
    char *arguments[] = {path,   run,    stream,     application, position, source,
                         leases, listen, ops_listen, count,       NULL};

    snprintf(path, sizeof path, "%s", binary());
    snprintf(source, sizeof source, "--source=local:%s/%s.stream.db", folder, name);
    snprintf(leases, sizeof leases, "--leases=sqlite:%s/%s.leases.db", folder, name);
    snprintf(listen, sizeof listen, "--listen=127.0.0.1:%u", sidecar.port);
    snprintf(ops_listen, sizeof ops_listen, "--ops-listen=127.0.0.1:%u", sidecar.ops_port);
    snprintf(count, sizeof count, "--local-shards=%u", shards);
    snprintf(log, sizeof log, "%s/%s.log", folder, name);
    fflush(stdout);
    sidecar.started_at = meter_now();
    sidecar.pid = fork();
    if (sidecar.pid < 0)
        meter_fail("no process: %s", strerror(errno));
    if (sidecar.pid == 0)
        become_sidecar(arguments, log);
    return sidecar;
}

static void stop(const struct sidecar *sidecar, int signal)
{
    int status;

    (void)kill(sidecar->pid, signal);
    if (waitpid(sidecar->pid, &status, 0) != sidecar->pid)
        meter_fail("%s cannot be waited for", binary());
}

static struct http_answer get(int fd, const char *target)
{
    static char buffer[ANSWER_BYTES];

    http_request(fd, "GET", target, "", "", 0);
    return http_wait(fd, buffer, sizeof buffer);
}

/* Seconds from the start to the first 200 of /readyz. */
static double wait_ready(const struct sidecar *sidecar)
{
    int fd = http_connect(sidecar->ops_port);

    while (get(fd, "/readyz").status != 200) {
        if (meter_now() - sidecar->started_at > PATIENCE_SECONDS)
            meter_fail("%s does not get ready", binary());
        pause_us(500);
    }
    close(fd);
    return meter_now() - sidecar->started_at;
}

/* Waits until it holds the leases of all `shards`. */
static void wait_leases(const struct sidecar *sidecar, unsigned shards)
{
    double began = meter_now();
    char wanted[TEXT];
    int fd = http_connect(sidecar->port);

    snprintf(wanted, sizeof wanted, "\"leases_held\":%u,", shards);
    while (strstr(get(fd, "/v1/status").body, wanted) == NULL) {
        if (meter_now() - began > PATIENCE_SECONDS)
            meter_fail("it does not get its %u leases", shards);
        pause_us(20000);
    }
    close(fd);
}

/* ---- Start ---- */

static void say_start(const char *files, double ms[STARTS])
{
    double median = meter_quantile(ms, STARTS, 0.5); /* It sorts them. */

    meter_say("start/ready", median, "ms p50",
              "\"files\":\"%s\",\"starts\":%d,\"best_ms\":%.1f,\"worst_ms\":%.1f", files, STARTS,
              ms[0], ms[STARTS - 1]);
}

static void measure_start(void)
{
    double fresh[STARTS];
    double again[STARTS];

    for (int i = 0; i < STARTS; i++) {
        char name[TEXT];
        struct sidecar sidecar;

        snprintf(name, sizeof name, "start-%d", i);
        sidecar = start(name, 4);
        fresh[i] = wait_ready(&sidecar) * 1e3;
        stop(&sidecar, SIGTERM);
        sidecar = start(name, 4);
        again[i] = wait_ready(&sidecar) * 1e3;
        stop(&sidecar, SIGTERM);
    }
    say_start("made", fresh);
    say_start("there", again);
}

/* ---- Memory ---- */

struct memory {
    double resident;
    double private;
};

/* MB. */
static struct memory memory_of(const struct sidecar *sidecar)
{
    return (struct memory){
        .resident = (double)meter_memory(sidecar->pid, "Rss:") / 1e6,
        .private = (double)meter_memory(sidecar->pid, "Private_Dirty:") / 1e6,
    };
}

static void say_memory(const char *name, const struct memory *memory, const char *extra, ...)
    __attribute__((format(printf, 3, 4)));
static void say_memory(const char *name, const struct memory *memory, const char *extra, ...)
{
    char text[TEXT];
    va_list list;

    va_start(list, extra);
    vsnprintf(text, sizeof text, extra, list);
    va_end(list);
    meter_say(name, memory->resident, "MB resident", "\"private_mb\":%.2f,%s", memory->private,
              text);
}

/* ---- Putting ---- */

/* The body of a put of `count` records of `bytes` each; each has a partition key of its own, from
 * `first` on. */
static size_t put_body(char *body, size_t capacity, unsigned first, unsigned count, unsigned bytes)
{
    static uint8_t data[1 << 20];
    size_t size = (size_t)snprintf(body, capacity, "{\"Records\":[");

    for (unsigned i = 0; i < count; i++) {
        memset(data, 'a' + (int)((first + i) % 26), bytes);
        if (size + ks_base64_size(bytes) + TEXT > capacity)
            meter_fail("a put that is too long");
        size += (size_t)snprintf(body + size, capacity - size,
                                 "%s{\"PartitionKey\":\"k-%u\",\"Data\":\"", i == 0 ? "" : ",",
                                 first + i);
        size += ks_base64_encode(ks_view_of(data, bytes), body + size);
        size += (size_t)snprintf(body + size, capacity - size, "\"}");
    }
    return size + (size_t)snprintf(body + size, capacity - size, "]}");
}

static void send_put(int fd, const char *body, size_t size)
{
    http_request(fd, "POST", "/v1/local/records", "Content-Type: application/json\r\n", body, size);
}

static void wait_put(int fd)
{
    static char buffer[ANSWER_BYTES];
    struct http_answer answer = http_wait(fd, buffer, sizeof buffer);

    if (answer.status != 200 || strstr(answer.body, "\"FailedRecordCount\":0") == NULL)
        meter_fail("a put was answered %d: %.200s", answer.status, answer.body);
}

static void put_many(const struct sidecar *sidecar, unsigned records, unsigned bytes)
{
    unsigned at_once = PUT_BYTES_MAX / ((unsigned)ks_base64_size(bytes) + TEXT);
    size_t capacity = PUT_BYTES_MAX + TEXT;
    char *body = malloc(capacity);
    int fd = http_connect(sidecar->port);

    if (body == NULL)
        meter_fail("no memory for a put");
    at_once = at_once < PUT_RECORDS ? at_once : PUT_RECORDS;
    for (unsigned first = 0; first < records; first += at_once) {
        unsigned count = records - first < at_once ? records - first : at_once;

        send_put(fd, body, put_body(body, capacity, first, count, bytes));
        wait_put(fd);
    }
    close(fd);
    free(body);
}

/* ---- Reading ---- */

struct reader {
    struct http_stream stream;
    char lines[LINES_BYTES + 1];
    size_t size;
};

static void open_reader(struct reader *reader, const struct sidecar *sidecar, const char *query,
                        size_t read_bytes)
{
    char target[TEXT];
    int fd = http_connect(sidecar->port);

    snprintf(target, sizeof target, "/v1/records/stream?%s", query);
    http_request(fd, "GET", target, "", "", 0);
    reader->size = 0;
    if (http_stream_open(&reader->stream, fd, read_bytes) != 200)
        meter_fail("the stream is refused");
}

/* Receives once. */
static void receive(struct reader *reader)
{
    size_t got = http_stream_read(&reader->stream, (uint8_t *)reader->lines + reader->size,
                                  LINES_BYTES - reader->size);

    if (got == 0)
        meter_fail("the stream ended");
    reader->size += got;
    reader->lines[reader->size] = '\0';
}

/* Takes the next whole line, if there is one, off the front: to `line`. */
static bool take_line(struct reader *reader, char *line, size_t capacity)
{
    char *end = memchr(reader->lines, '\n', reader->size);
    size_t size;

    if (end == NULL)
        return false;
    size = (size_t)(end - reader->lines) + 1;
    if (size > capacity)
        meter_fail("a line of %zu bytes", size);
    memcpy(line, reader->lines, size - 1);
    line[size - 1] = '\0';
    reader->size -= size;
    memmove(reader->lines, end + 1, reader->size + 1);
    return true;
}

/* ---- Put to delivered ---- */

struct sampling {
    struct sidecar sidecar;
    struct reader reader;
    int put_fd;
    int ack_fd;
    char line[4096];
};

/* The record with this key; its line stays in `line`. */
static bool take_record(struct sampling *sampling, unsigned number)
{
    char key[TEXT];

    snprintf(key, sizeof key, "\"partition_key\":\"k-%u\"", number);
    while (take_line(&sampling->reader, sampling->line, sizeof sampling->line))
        if (strstr(sampling->line, key) != NULL)
            return true;
    return false;
}

/* Acknowledges the record in `line`; returns how many seconds it took to be recorded, or to be durable. */
static double acknowledge(struct sampling *sampling, bool persisted)
{
    static char buffer[ANSWER_BYTES];
    static const char name[] = "\"batch_id\":\"";
    const char *id = strstr(sampling->line, name);
    char target[1024];
    double began = meter_now();

    if (id == NULL)
        meter_fail("a record without batch_id");
    id += sizeof name - 1;
    snprintf(target, sizeof target, "/v1/records/ack?batch_id=%.*s%s", (int)strcspn(id, "\""), id,
             persisted ? "&wait=persisted" : "");
    http_request(sampling->ack_fd, "POST", target, "", "", 0);
    if (strstr(http_wait(sampling->ack_fd, buffer, sizeof buffer).body, "\"ok\":1") == NULL ||
        (persisted && strstr(buffer, "\"persisted\":true") == NULL))
        meter_fail("an ack was refused: %s", buffer);
    return meter_now() - began;
}

/* Puts one record and waits for both: the answer, and the record. Seconds of each. */
static void sample(struct sampling *sampling, unsigned number, double *ret_put,
                   double *ret_delivered)
{
    char body[4096];
    size_t size = put_body(body, sizeof body, number, 1, 1024);
    double began = meter_now();
    bool answered = false;
    bool delivered = false;

    send_put(sampling->put_fd, body, size);
    while (!answered || !delivered) {
        struct pollfd fds[2] = {{.fd = answered ? -1 : sampling->put_fd, .events = POLLIN},
                                {.fd = sampling->reader.stream.fd, .events = POLLIN}};

        if (!http_stream_holds(&sampling->reader.stream) &&
            poll(fds, 2, PATIENCE_SECONDS * 1000) <= 0)
            meter_fail("record %u does not come", number);
        if ((fds[0].revents & POLLIN) != 0) {
            wait_put(sampling->put_fd);
            *ret_put = meter_now() - began;
            answered = true;
        }
        if ((fds[1].revents & POLLIN) != 0 || http_stream_holds(&sampling->reader.stream)) {
            receive(&sampling->reader);
            if (take_record(sampling, number)) {
                *ret_delivered = meter_now() - began;
                delivered = true;
            }
        }
    }
}

static void say_latency(const char *name, double *us, unsigned count)
{
    double median = meter_quantile(us, count, 0.5);

    meter_say(
        name, median, "us p50",
        "\"record_bytes\":1024,\"samples\":%u,\"p90_us\":%.0f,\"p99_us\":%.0f,\"worst_us\":%.0f",
        count, meter_quantile(us, count, 0.9), meter_quantile(us, count, 0.99), us[count - 1]);
}

static void measure_latency(void)
{
    static struct sampling sampling;
    static double puts[SAMPLES];
    static double deliveries[SAMPLES];
    static double acks[2][SAMPLES / 2]; /* Recorded, persisted. */
    static double whole[SAMPLES / 2];   /* From the put until it was persisted. */
    struct memory memory;
    unsigned count = 0;
    double began;

    sampling.sidecar = start("latency", 4);
    (void)wait_ready(&sampling.sidecar);
    began = meter_now();
    open_reader(&sampling.reader, &sampling.sidecar, "client_id=bench", 1 << 16);
    wait_leases(&sampling.sidecar, 4);
    meter_say("start/leases", meter_now() - began, "s", "\"shards\":4,\"lease_duration_ms\":10000");
    sampling.put_fd = http_connect(sampling.sidecar.port);
    sampling.ack_fd = http_connect(sampling.sidecar.port);
    began = meter_now();
    for (; count < SAMPLES && meter_now() - began < SAMPLES_SECONDS_MAX; count++) {
        sample(&sampling, count, &puts[count], &deliveries[count]);
        puts[count] *= 1e6;
        deliveries[count] *= 1e6;
        acks[count % 2][count / 2] = acknowledge(&sampling, count % 2 == 1) * 1e6;
        whole[count / 2] = deliveries[count] + acks[count % 2][count / 2];
        pause_us(SAMPLE_EVERY_US);
    }
    say_latency("latency/put-answered", puts, count);
    say_latency("latency/put-delivered", deliveries, count);
    say_latency("latency/ack-recorded", acks[0], (count + 1) / 2);
    say_latency("latency/ack-persisted", acks[1], count / 2);
    say_latency("latency/put-persisted", whole, count / 2);
    memory = memory_of(&sampling.sidecar);
    say_memory("memory/one-stream", &memory, "\"shards\":4,\"sessions\":1,\"records\":%u", count);
    http_stream_close(&sampling.reader.stream);
    stop(&sampling.sidecar, SIGTERM);
}

/* ---- Doing nothing ---- */

static void measure_idle(void)
{
    struct sidecar sidecar = start("idle", 4);
    struct memory memory;
    double cpu;

    (void)wait_ready(&sidecar);
    pause_us(1000000);
    memory = memory_of(&sidecar);
    say_memory("memory/idle", &memory, "\"shards\":4,\"sessions\":0");
    cpu = meter_cpu_of(sidecar.pid);
    pause_us(IDLE_SECONDS * 1000000);
    cpu = meter_cpu_of(sidecar.pid) - cpu;
    meter_say("cpu/idle", cpu / IDLE_SECONDS * 1e3, "cpu ms/s", "\"shards\":4,\"sessions\":0");
    stop(&sidecar, SIGTERM);
}

/* ---- Many shards ---- */

static void measure_shards(unsigned shards)
{
    static struct reader reader;
    struct sidecar sidecar = start("shards", shards);
    struct memory memory;
    double began;

    (void)wait_ready(&sidecar);
    began = meter_now();
    open_reader(&reader, &sidecar, "client_id=bench", 1 << 16);
    wait_leases(&sidecar, shards);
    meter_say("start/leases", meter_now() - began, "s", "\"shards\":%u,\"lease_duration_ms\":10000",
              shards);
    pause_us(2000000);
    memory = memory_of(&sidecar);
    say_memory("memory/shards", &memory, "\"shards\":%u,\"sessions\":1", shards);
    http_stream_close(&reader.stream);
    stop(&sidecar, SIGTERM);
}

/* ---- A consumer that does not read ---- */

/* A backlog is put by one process; another one, which has put nothing, meets the consumer. */
static void measure_stall(unsigned records, unsigned bytes)
{
    static struct reader reader;
    struct sidecar sidecar;
    struct memory before;
    struct memory most;
    char name[TEXT];
    char query[TEXT];
    char *idle;

    snprintf(name, sizeof name, "stall-%u", bytes);
    sidecar = start(name, 4);
    (void)wait_ready(&sidecar);
    put_many(&sidecar, records, bytes);
    stop(&sidecar, SIGTERM);

    sidecar = start(name, 4);
    (void)wait_ready(&sidecar);
    pause_us(500000);
    before = most = memory_of(&sidecar);
    snprintf(query, sizeof query, "client_id=bench&max_in_flight=100000&max_in_flight_bytes=%d",
             STALL_LIMIT);
    open_reader(&reader, &sidecar, query, 1 << 12);
    wait_leases(&sidecar, 4);
    for (int i = 0; i < STALL_SECONDS * 20; i++) {
        struct memory now = memory_of(&sidecar);

        if (now.resident > most.resident)
            most = now;
        pause_us(50000);
    }
    int fd = http_connect(sidecar.port);
    idle = strstr(get(fd, "/v1/status").body, "\"in_flight_bytes\":");
    meter_say("memory/stalled", (most.resident - before.resident) / (STALL_LIMIT / 1e6),
              "of its byte limit",
              "\"record_bytes\":%u,\"backlog_mb\":%.0f,\"limit_mb\":%.2f,\"growth_mb\":%.2f,"
              "\"before_mb\":%.2f,"
              "\"private_growth_mb\":%.2f,%.*s",
              bytes, (double)records * bytes / 1e6, STALL_LIMIT / 1e6,
              most.resident - before.resident, before.resident, most.private - before.private,
              idle == NULL ? 0 : (int)strcspn(idle, ",}"), idle == NULL ? "" : idle);
    close(fd);
    http_stream_close(&reader.stream);
    stop(&sidecar, SIGKILL);
}

/* latency [PART]: everything, or one of start, idle, latency, shards, stall. */
int main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : "";
    char command[64];

    if (mkdtemp(folder) == NULL)
        meter_fail("no folder: %s", strerror(errno));
    (void)signal(SIGPIPE, SIG_IGN);
    if (only[0] == '\0' || strcmp(only, "start") == 0)
        measure_start();
    if (only[0] == '\0' || strcmp(only, "idle") == 0)
        measure_idle();
    if (only[0] == '\0' || strcmp(only, "latency") == 0)
        measure_latency();
    if (only[0] == '\0' || strcmp(only, "shards") == 0)
        measure_shards(100);
    if (only[0] == '\0' || strcmp(only, "stall") == 0) {
        measure_stall(2000, 50 * 1024);
        measure_stall(100000, 1024);
        measure_stall(100000, 100);
    }
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}
