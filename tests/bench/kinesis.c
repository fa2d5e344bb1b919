/* SPDX-License-Identifier: Apache-2.0 */
/* kinesis.c - what records cost on their whole way: from Kinesis over TLS, through the house, to a consumer.
 *
 * Kinesis is our double (tests/doubles/kinesis.c, a process of its own, on processor 1 like the consumer) with streams
 * whose records are rendered once and never end. The house of bench_house.h reads them as the binary would, signatures
 * and certificates and all, and a consumer takes them as protobuf and acknowledges. By polling no more than 2 MiB a
 * second are asked of a shard, so it takes many shards to use up a processor.
 *
 * The measure is payload per CPU second of the sidecar's process, the kernel's work for it included. Beside it stand
 * two receivers that ask the same double for the same answers of GetRecords and look at nothing: a bare TLS connection
 * of OpenSSL, and libcurl. All three take turns on one processor, a fraction of a second each, so that what else the
 * machine does meets them alike. `share_per_cpu` is how much of the bare connection's payload per CPU second is left,
 * `share_of_curl` how much of libcurl's: medians over all turns.
 *
 * The last row: shards at which nothing happens. How many requests does a CPU second pay for?
 */
#include "bench_house.h"
#include "http_client.h"
#include "meter.h"

#include "adapters/kinesis/fanout.h"
#include "adapters/kinesis/polling.h"
#include "adapters/kinesis/request.h"
#include "base/log.h"
#include "base/metrics.h"
#include "main/cloud.h"

#include <curl/curl.h>
#include <errno.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    SHARDS = 64,       /* 128 MiB a second is what Kinesis gives. */
    SHARDS_FANOUT = 8, /* Of which the double gives as much as is taken. */
    SHARDS_IDLE = 1000,
    ANSWER_BYTES = 1 << 20, /* Of the bare receiver; payload. */
    IN_FLIGHT_BYTES = 64 << 20,
    BUDGET_BYTES = 512 << 20,
    LEASE_MS = 4000,       /* It must outlast what else the machine does. */
    READ_BYTES = 64 << 10, /* As curl is told to. */
    TEXT = 512,
    TURN_MS = 250,     /* Of the sidecar; then come: */
    BARE_ANSWERS = 40, /* Some 20 ms for each 1 KB of a record. */
    TURNS_MAX = 256
};
static const double warm_seconds = 5; /* Connections, leases, and how large records are. */
static const double measured_seconds = 6;
static const double idle_seconds = 2;
static const double idle_warm_seconds = 25; /* Until all leases are held. */

/* One row. */
struct cell {
    uint32_t record_bytes; /* 0: nothing comes. */
    bool json;
    bool fanout; /* Else polling. */
    uint32_t shards;
};

static char folder[] = "/tmp/ks-bench-XXXXXX";

static struct {
    pid_t pid;
    uint16_t port;
    uint16_t tls_port;
} kinesis;

/* ---- The double ---- */

_Noreturn static void become_double(void)
{
    char path[TEXT], certificate[TEXT], key[TEXT], any[] = "0";
    const char *build = getenv("KS_BUILD");
    char *arguments[] = {path, any, any, certificate, key, NULL};

    snprintf(path, sizeof path, "%s/doubles/kinesis", build == NULL ? "build" : build);
    snprintf(certificate, sizeof certificate, "%s/server.pem", folder);
    snprintf(key, sizeof key, "%s/server.key", folder);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    meter_pin(1);
    /* Without credentials of its own it checks no signature: that is not what is measured. */
    (void)unsetenv("AWS_ACCESS_KEY_ID");
    execv(path, arguments);
    _exit(127);
}

/* Both ports, once they are told. */
static void find_ports(const char *path)
{
    for (int i = 0; i < 2000; i++) {
        FILE *file = fopen(path, "re");
        unsigned plain = 0;
        unsigned tls = 0;
        int found = file == NULL ? 0 : fscanf(file, "%u\n%u\n", &plain, &tls);

        if (file != NULL)
            fclose(file);
        if (found == 2 && plain > 0 && tls > 0) {
            kinesis.port = (uint16_t)plain;
            kinesis.tls_port = (uint16_t)tls;
            return;
        }
        (void)poll(NULL, 0, 5);
    }
    meter_fail("the double does not start");
}

static void start_double(void)
{
    char command[TEXT];
    char ports[TEXT];

    snprintf(command, sizeof command, "tests/doubles/make_ca %s", folder);
    if (system(command) != 0)
        meter_fail("no certificates; run it in the root of the project");
    snprintf(ports, sizeof ports, "%s/ports", folder);
    (void)setenv("KS_PORTS", ports, 1);
    fflush(stdout);
    kinesis.pid = fork();
    if (kinesis.pid == 0)
        become_double();
    if (kinesis.pid < 0)
        meter_fail("no process: %s", strerror(errno));
    find_ports(ports);
}

static void stop_double(void)
{
    (void)kill(kinesis.pid, SIGKILL);
    (void)waitpid(kinesis.pid, NULL, 0);
}

/* Asks it over its plain port; `target` "": its control. The answer is NUL-terminated, and valid until the next one. */
static const char *ask(const char *target, const char *body)
{
    static char buffer[256 << 10];
    char headers[TEXT];
    int fd = http_connect(kinesis.port);

    snprintf(headers, sizeof headers,
             "X-Amz-Target: Kinesis_20131202.%s\r\nContent-Type: application/x-amz-json-1.1\r\n",
             target);
    http_request(fd, *body == '\0' ? "GET" : "POST", *target == '\0' ? "/_control" : "/", headers,
                 body, strlen(body));
    struct http_answer answer = http_wait(fd, buffer, sizeof buffer);
    close(fd);
    if (answer.status != 200)
        meter_fail("the double answers %s with %d: %s", target, answer.status, answer.body);
    return answer.body;
}

/* How many GetRecords it was asked for so far. */
static uint64_t reads(void)
{
    static const char name[] = "\"GetRecords\": ";
    const char *found = strstr(ask("", ""), name);

    return found == NULL ? 0 : strtoull(found + sizeof name - 1, NULL, 10);
}

static void name_stream(const struct cell *cell, char name[TEXT])
{
    snprintf(name, TEXT, "records-of-%u-in-%u", cell->record_bytes, cell->shards);
}

static void make_stream(const struct cell *cell)
{
    char name[TEXT];
    char body[2 * TEXT];

    name_stream(cell, name);
    snprintf(body, sizeof body, "{\"StreamName\":\"%s\",\"ShardCount\":%u}", name, cell->shards);
    (void)ask("CreateStream", body);
    snprintf(body, sizeof body, "{\"StreamName\":\"%s\"}", name);
    while (strstr(ask("DescribeStreamSummary", body), "\"ACTIVE\"") == NULL)
        (void)poll(NULL, 0, 5);
    snprintf(body, sizeof body, "{\"volume\": {\"stream\": \"%s\", \"bytes\": %u}}", name,
             cell->record_bytes);
    if (cell->record_bytes > 0)
        (void)ask("", body);
}

/* ---- The bare receiver ---- */

static SSL *connect_tls(SSL_CTX *tls)
{
    char path[TEXT];
    SSL *ssl = NULL;

    snprintf(path, sizeof path, "%s/ca.pem", folder);
    if (tls == NULL || SSL_CTX_load_verify_locations(tls, path, NULL) != 1 ||
        (ssl = SSL_new(tls)) == NULL)
        meter_fail("no TLS");
    SSL_set_verify(ssl, SSL_VERIFY_PEER, NULL);
    if (SSL_set_fd(ssl, http_connect(kinesis.tls_port)) != 1 || SSL_connect(ssl) != 1)
        meter_fail("no TLS connection to the double");
    return ssl;
}

static size_t receive(SSL *ssl, char *buffer, size_t size)
{
    int got = SSL_read(ssl, buffer, (int)size);

    if (got <= 0)
        meter_fail("the double ends a connection");
    return (size_t)got;
}

/* Reads one answer, and looks at its head alone. Returns the size of its body. */
static size_t take_answer(SSL *ssl)
{
    static char buffer[READ_BYTES + 1];
    static const char length[] = "Content-Length:";
    const char *body = NULL;
    const char *line;
    size_t head = 0;

    while (body == NULL) {
        head += receive(ssl, buffer + head, READ_BYTES - head);
        buffer[head] = '\0';
        body = strstr(buffer, "\r\n\r\n");
    }
    line = strcasestr(buffer, length);
    if (strncmp(buffer, "HTTP/1.1 200", 12) != 0 || line == NULL || line > body)
        meter_fail("the double answers %.200s", buffer);
    size_t size = strtoul(line + sizeof length - 1, NULL, 10);
    for (size_t left = size - (head - (size_t)(body + 4 - buffer)); left > 0;)
        left -= receive(ssl, buffer, left < READ_BYTES ? left : READ_BYTES);
    return size;
}

/* As many as make an answer. */
static uint32_t records_of(const struct cell *cell)
{
    uint32_t records = ANSWER_BYTES / cell->record_bytes;

    return records < KS_READ_RECORDS_MAX ? records : KS_READ_RECORDS_MAX;
}

/* GetRecords of the first records of a shard, unsigned. */
static void write_request(const struct cell *cell, struct ks_bytes *request)
{
    static const char member[] = "\"ShardIterator\":\"";
    char name[TEXT];
    char text[2 * TEXT];
    struct ks_bytes body;

    name_stream(cell, name);
    snprintf(text, sizeof text,
             "{\"StreamName\":\"%s\",\"ShardId\":\"shardId-000000000000\","
             "\"ShardIteratorType\":\"TRIM_HORIZON\"}",
             name);
    const char *told = strstr(ask("GetShardIterator", text), member);
    if (told == NULL)
        meter_fail("no iterator");
    snprintf(text, sizeof text, "%.*s", (int)strcspn(told + sizeof member - 1, "\""),
             told + sizeof member - 1);
    ks_bytes_init(&body, 8192);
    bench_must(ks_request_records(&body, name, text, records_of(cell), !cell->json), "request",
               NULL);
    bench_must(ks_bytes_format(request,
                               "POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Amz-Target: "
                               "Kinesis_20131202.GetRecords\r\nContent-Type: "
                               "%s\r\nContent-Length: %zu\r\n\r\n",
                               cell->json ? KS_AWS_JSON_TYPE_1_1 : KS_AWS_CBOR_TYPE, body.size),
               "request", NULL);
    bench_must(ks_bytes_append(request, ks_bytes_view(&body)), "request", NULL);
    ks_bytes_free(&body);
}

/* One that has asked, and may ask again; and libcurl, which asks for the same. */
struct bare {
    SSL_CTX *tls;
    SSL *ssl;
    CURL *curl;
    struct curl_slist *headers;
    struct ks_bytes request;
    uint32_t records; /* Of an answer. */
};

static size_t pass_over(char *data, size_t one, size_t size, void *arg)
{
    (void)data;
    (void)arg;
    return one * size;
}

static void open_curl(struct bare *bare, const struct cell *cell)
{
    static char ca[TEXT];
    char url[TEXT];
    char type[TEXT];
    const char *body = strstr((const char *)bare->request.data, "\r\n\r\n") + 4;
    size_t head = (size_t)((const uint8_t *)body - bare->request.data);

    snprintf(ca, sizeof ca, "%s/ca.pem", folder);
    snprintf(url, sizeof url, "https://127.0.0.1:%u/", kinesis.tls_port);
    bare->curl = curl_easy_init();
    bare->headers = curl_slist_append(NULL, "X-Amz-Target: Kinesis_20131202.GetRecords");
    snprintf(type, sizeof type, "Content-Type: %s",
             cell->json ? KS_AWS_JSON_TYPE_1_1 : KS_AWS_CBOR_TYPE);
    bare->headers = curl_slist_append(bare->headers, type);
    (void)curl_easy_setopt(bare->curl, CURLOPT_URL, url);
    (void)curl_easy_setopt(bare->curl, CURLOPT_CAINFO, ca);
    (void)curl_easy_setopt(bare->curl, CURLOPT_CAPATH, NULL);
    (void)curl_easy_setopt(bare->curl, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(bare->curl, CURLOPT_BUFFERSIZE, (long)READ_BYTES);
    (void)curl_easy_setopt(bare->curl, CURLOPT_HTTPHEADER, bare->headers);
    (void)curl_easy_setopt(bare->curl, CURLOPT_POSTFIELDSIZE, (long)(bare->request.size - head));
    (void)curl_easy_setopt(bare->curl, CURLOPT_COPYPOSTFIELDS, body);
    (void)curl_easy_setopt(bare->curl, CURLOPT_WRITEFUNCTION, pass_over);
}

static struct bare open_bare(const struct cell *cell)
{
    struct bare bare = {.tls = SSL_CTX_new(TLS_client_method()), .records = records_of(cell)};

    bare.ssl = connect_tls(bare.tls);
    ks_bytes_init(&bare.request, 16384);
    write_request(cell, &bare.request);
    open_curl(&bare, cell);
    return bare;
}

static void close_bare(struct bare *bare)
{
    close(SSL_get_fd(bare->ssl));
    SSL_free(bare->ssl);
    curl_easy_cleanup(bare->curl);
    curl_slist_free_all(bare->headers);
    SSL_CTX_free(bare->tls);
    ks_bytes_free(&bare->request);
}

/* CPU seconds a record. */
static double run_bare(struct bare *bare)
{
    double cpu = meter_thread_cpu();

    for (int answers = 0; answers < BARE_ANSWERS; answers++) {
        if (SSL_write(bare->ssl, bare->request.data, (int)bare->request.size) <= 0)
            meter_fail("the double does not listen");
        (void)take_answer(bare->ssl);
    }
    return (meter_thread_cpu() - cpu) / ((double)BARE_ANSWERS * bare->records);
}

/* The same through libcurl. */
static double run_curl(struct bare *bare)
{
    double cpu = meter_thread_cpu();

    for (int answers = 0; answers < BARE_ANSWERS; answers++) {
        if (curl_easy_perform(bare->curl) != CURLE_OK)
            meter_fail("libcurl gets nothing");
    }
    return (meter_thread_cpu() - cpu) / ((double)BARE_ANSWERS * bare->records);
}

/* ---- Turns ---- */

/* What both cost in each turn, once records have come for a while. */
static struct turns {
    struct bare bare;
    struct ks_loop *loop;
    struct ks_timer timer;
    int64_t none;    /* What was delivered before this row. */
    double first_at; /* 0: no record came yet. */
    double began;
    double cpu;
    int64_t delivered;
    uint32_t count;
    double shares[TURNS_MAX];
    double sidecar_costs[TURNS_MAX];
    double bare_costs[TURNS_MAX];
    double curl_costs[TURNS_MAX];
    double curl_shares[TURNS_MAX];
    double rates[TURNS_MAX]; /* Records a second. */
} turns;

static int64_t delivered(void)
{
    return ks_metric_number_labelled(KS_METRIC_RECORDS_DELIVERED, "bench");
}

static void begin_turn(void)
{
    turns.began = meter_now();
    turns.cpu = meter_process_cpu();
    turns.delivered = delivered();
    ks_loop_timer_set(turns.loop, &turns.timer,
                      ks_instant_add(ks_instant_now(), ks_span_ms(TURN_MS)));
}

static void end_turn(void)
{
    double records = (double)(delivered() - turns.delivered);
    double cost = (meter_process_cpu() - turns.cpu) / records;
    double seconds = meter_now() - turns.began;
    double bare = run_bare(&turns.bare);
    double curl = run_curl(&turns.bare);

    if (records == 0 || turns.count == TURNS_MAX)
        return;
    turns.sidecar_costs[turns.count] = cost;
    turns.bare_costs[turns.count] = bare;
    turns.shares[turns.count] = bare / cost;
    turns.curl_costs[turns.count] = curl;
    turns.curl_shares[turns.count] = curl / cost;
    turns.rates[turns.count] = records / seconds;
    turns.count++;
}

static void turn_due(struct ks_timer *timer)
{
    (void)timer;
    if (turns.first_at == 0 && delivered() > turns.none)
        turns.first_at = meter_now();
    if (turns.first_at > 0 && meter_now() - turns.first_at > warm_seconds)
        end_turn();
    begin_turn();
}

static void begin_turns(struct ks_loop *loop, const struct cell *cell)
{
    turns = (struct turns){
        .bare = open_bare(cell), .loop = loop, .timer.due = turn_due, .none = delivered()};
    begin_turn();
}

static void end_turns(void)
{
    ks_loop_timer_clear(turns.loop, &turns.timer);
    close_bare(&turns.bare);
}

/* ---- The sidecar ---- */

struct opening {
    const struct cell *cell;
    struct ks_cloud cloud;
    struct ks_cloud_part part;
};

static struct ks_stream_source *open_source(struct ks_loop *loop, void *arg)
{
    struct opening *opening = arg;
    enum ks_wire_mode protocol = opening->cell->json ? KS_WIRE_JSON : KS_WIRE_CBOR;
    struct ks_kinesis_options polling = {.protocol = protocol};
    struct ks_fanout_options fanout = {
        .consumer = "bench", .subscription = "bench", .protocol = protocol};
    struct ks_detail detail = {.text = ""};
    struct ks_stream_source *source = NULL;
    struct ks_aws_client *client = NULL;
    char name[TEXT];

    if (opening->cell->record_bytes > 0)
        begin_turns(loop, opening->cell);
    name_stream(opening->cell, name);
    bench_must(ks_cloud_open(&opening->cloud, loop, &detail), "cloud", &detail);
    opening->part.cloud = &opening->cloud;
    bench_must(ks_cloud_client(&opening->part, KS_AWS_KINESIS, &client, &detail), "client",
               &detail);
    bench_must(opening->cell->fanout
                   ? ks_fanout_source_open(loop, client, name, &fanout, &source, &detail)
                   : ks_kinesis_source_open_with(loop, client, name, &polling, &source, &detail),
               "source", &detail);
    return source;
}

static void close_cloud(void *arg)
{
    struct opening *opening = arg;

    if (opening->cell->record_bytes > 0)
        end_turns();
    ks_cloud_leave(&opening->part);
    ks_cloud_close(&opening->cloud);
}

static struct stream_watcher run_sidecar(const struct cell *cell)
{
    struct opening opening = {.cell = cell};
    struct stream_job job = {
        .format = "protobuf",
        .record_bytes = cell->record_bytes,
        .batches_per_ack = STREAM_BATCHES_PER_ACK_MAX,
        .in_flight_bytes = IN_FLIGHT_BYTES,
        .warm_seconds = cell->record_bytes == 0 ? idle_warm_seconds : warm_seconds,
        .measured_seconds = cell->record_bytes == 0 ? idle_seconds : measured_seconds,
        .probe = reads};
    char path[TEXT];
    struct bench_house_config house = {.store_path = path,
                                       .budget_bytes = BUDGET_BYTES,
                                       .lease_ms = LEASE_MS,
                                       .open = open_source,
                                       .close = close_cloud,
                                       .arg = &opening};
    struct stream_watcher watcher;

    snprintf(path, sizeof path, "%s/%u-%d-%d.db", folder, cell->record_bytes, cell->json,
             cell->fanout);
    bench_house_run(&house, &job, &watcher);
    return watcher;
}

/* ---- Rows ---- */

static double median(double *values)
{
    return meter_quantile(values, turns.count, 0.5);
}

static void measure(const struct cell *cell)
{
    struct stream_watcher watcher = run_sidecar(cell);

    if (turns.count == 0)
        meter_fail("not one turn");
    double cost = median(turns.sidecar_costs);
    double rate = median(turns.rates);
    meter_say(cell->fanout ? "kinesis/fanout" : "kinesis/poll", cell->record_bytes / cost / 1e6,
              "payload MB/cpu-s",
              "\"wire\":\"%s\",\"record_bytes\":%u,\"shards\":%u,\"share_per_cpu\":%.3f,"
              "\"share_of_curl\":%.3f,\"us_cpu_per_record\":%.3f,\"us_cpu_bare\":%.3f,"
              "\"us_cpu_curl\":%.3f,\"payload_mb_per_s\":%.1f,\"records_per_s\":%.0f,"
              "\"processor_used\":%.2f,\"system_part\":%.2f",
              cell->json ? "json" : "cbor", cell->record_bytes, cell->shards, median(turns.shares),
              median(turns.curl_shares), cost * 1e6, median(turns.bare_costs) * 1e6,
              median(turns.curl_costs) * 1e6, rate * cell->record_bytes / 1e6, rate, rate * cost,
              watcher.system_cpu / watcher.cpu);
}

/* By polling and by fan-out, or by the one that `only` names. */
static void measure_both(uint32_t record_bytes, bool json, const char *only)
{
    const struct cell polling = {.record_bytes = record_bytes, .json = json, .shards = SHARDS};
    const struct cell fanout = {
        .record_bytes = record_bytes, .json = json, .fanout = true, .shards = SHARDS_FANOUT};

    if (only == NULL || strcmp(only, "poll") == 0)
        measure(&polling);
    if (only == NULL || strcmp(only, "fanout") == 0)
        measure(&fanout);
}

static void measure_idle(void)
{
    const struct cell cell = {.shards = SHARDS_IDLE};
    struct stream_watcher watcher;

    make_stream(&cell);
    watcher = run_sidecar(&cell);
    meter_say("kinesis/idle", (double)watcher.count.probed / watcher.cpu, "requests/cpu-s",
              "\"shards\":%u,\"requests_per_s\":%.0f,\"us_cpu_per_request\":%.1f,"
              "\"processor_used\":%.2f,\"system_part\":%.2f",
              cell.shards, (double)watcher.count.probed / watcher.count.seconds,
              watcher.cpu / (double)watcher.count.probed * 1e6, watcher.cpu / watcher.count.seconds,
              watcher.system_cpu / watcher.cpu);
}

/* What the house finds in its environment. */
static void set_environment(void)
{
    char text[TEXT];

    snprintf(text, sizeof text, "https://127.0.0.1:%u", kinesis.tls_port);
    (void)setenv("AWS_ENDPOINT_URL_KINESIS", text, 1);
    snprintf(text, sizeof text, "%s/ca.pem", folder);
    (void)setenv("AWS_CA_BUNDLE", text, 1);
    (void)setenv("AWS_REGION", "us-east-1", 1);
    (void)setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE", 1);
    (void)setenv("AWS_SECRET_ACCESS_KEY", "for-the-double-only", 1);
    (void)setenv("NO_PROXY", "127.0.0.1", 1);
}

/* kinesis [cbor | json | idle [BYTES [poll | fanout]]]: all rows, those of one format, of one of its sizes, or one. */
int main(int argc, char **argv)
{
    static const uint32_t sizes[] = {100, 1024, 50 * 1024};
    char command[64];

    if (mkdtemp(folder) == NULL)
        meter_fail("no folder: %s", strerror(errno));
    (void)signal(SIGPIPE, SIG_IGN);
    ks_log_open(STDERR_FILENO, KS_LOG_ERROR, KS_LOG_TEXT);
    start_double();
    stream_consumer_stay_away();
    set_environment();
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        if (argc > 2 && strtoul(argv[2], NULL, 10) != sizes[s])
            continue;
        make_stream(&(struct cell){.record_bytes = sizes[s], .shards = SHARDS});
        make_stream(&(struct cell){.record_bytes = sizes[s], .shards = SHARDS_FANOUT});
        for (int json = 0; json < 2; json++) {
            if (argc < 2 || strcmp(argv[1], json ? "json" : "cbor") == 0)
                measure_both(sizes[s], json, argc > 3 ? argv[3] : NULL);
        }
    }
    if (argc < 2 || strcmp(argv[1], "idle") == 0)
        measure_idle();
    stop_double();
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}
