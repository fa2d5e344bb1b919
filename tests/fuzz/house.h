/* SPDX-License-Identifier: Apache-2.0 */
/* house.h - the whole sidecar but for its process: a switchboard on any lease store, source and dead letters, the API
 * on Unix sockets, and a client of it that judges what comes back. All is on one thread but the jobs of SQLite.
 *
 * The clock goes on by itself where everybody waits: it is ours (--wrap=clock_gettime).
 */
#ifndef KS_FUZZ_HOUSE_H
#define KS_FUZZ_HOUSE_H

#include "adapters/dialects/dialect.h"
#include "api/api.h"
#include "base/budget.h"
#include "base/log.h"
#include "base/options.h"
#include "ports/switchboard.h"

#include <assert.h>
#include <fcntl.h>
#include <jansson.h>
#include <protobuf-c/protobuf-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { ANSWER_MAX = 4 << 20, IDLE_JUMP_MS = 100, IDLES_MAX = 2000 };

/* ---- The clock ---- */

static int64_t jumped_ms;

int __real_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time);

int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
    const int failed = __real_clock_gettime(clock, time);

    time->tv_sec += jumped_ms / 1000;
    time->tv_nsec += jumped_ms % 1000 * 1000000;
    if (time->tv_nsec >= 1000000000) {
        time->tv_sec++;
        time->tv_nsec -= 1000000000;
    }
    return failed;
}

/* ---- The house ---- */

static struct house {
    struct ks_loop *loop;
    struct ks_lease_store *store;
    struct ks_stream_source *source;
    struct ks_dead_letters *letters; /* NULL: there are none. */
    struct ks_switchboard *board;
    struct ks_api *api;
    void (*answer)(void); /* Answers the calls to AWS that wait; NULL: there are none. */
    int64_t live;
} house;

static char folder[64];
static struct ks_options *options;

static inline const char *place(const char *name)
{
    static char places[4][128];
    static unsigned at;
    char *const text = places[at++ % 4];

    (void)snprintf(text, sizeof(places[0]), "%s/%s", folder, name);
    return text;
}

static inline void remove_database(const char *name)
{
    static const char *const ends[] = {"", "-wal", "-shm", "-journal"};
    char path[160];

    for (size_t at = 0; at < sizeof(ends) / sizeof(ends[0]); at++) {
        (void)snprintf(path, sizeof(path), "%s%s", place(name), ends[at]);
        (void)unlink(path);
    }
}

static inline void leave(void)
{
    remove_database("leases.db");
    remove_database("letters.db");
    (void)unlink(place("api"));
    (void)unlink(place("ops"));
    (void)rmdir(folder);
    ks_options_free(options);
    free(options);
}

/* Once for the process. */
static inline void settle_in(void)
{
    static char *flags[] = {"fuzz", "--stream=demo", "--application=app", "--source=local:/x"};
    static char *environment[] = {NULL};
    struct ks_detail detail;

    (void)snprintf(folder, sizeof(folder), "/dev/shm/ks-fuzz-%d", (int)getpid());
    if (mkdir(folder, 0700) != 0)
        abort();
    ks_log_open(open("/dev/null", O_WRONLY | O_CLOEXEC), KS_LOG_INFO, KS_LOG_TEXT);
    options = calloc(1, sizeof(*options));
    if (options == NULL || !ks_ok(ks_options_read(4, flags, environment, options, &detail)))
        abort();
    (void)atexit(leave);
}

static inline void on_drained(void *arg, bool clean, uint64_t unsaved)
{
    (void)arg, (void)clean, (void)unsaved;
}

static inline void on_refused(void *arg, const char *reason)
{
    (void)arg;
    assert(reason[0] != '\0');
}

static inline void on_quit(void *arg)
{
    (void)arg;
}

static inline enum ks_protocol protocol_of(const struct ks_dialect *dialect)
{
    return dialect == &ks_go_kcl_dialect     ? KS_PROTOCOL_GO_KCL
           : dialect == &ks_kcl_dialect      ? KS_PROTOCOL_KCL
           : dialect == &ks_kinsumer_dialect ? KS_PROTOCOL_KINSUMER
           : dialect == &ks_kcl_rb_dialect   ? KS_PROTOCOL_KCL_RB
                                             : KS_PROTOCOL_NATIVE;
}

/* As server/main does it. */
static inline void open_board(const struct ks_dialect *dialect)
{
    struct ks_switchboard_config config = {
        .loop = house.loop,
        .store = house.store,
        .source = house.source,
        .letters = house.letters,
        .stream = "demo",
        .application = "app",
        .dialect = dialect->name,
        .worker_id = "me",
        .version = "fuzz",
        .start = {.kind = KS_POSITION_TRIM_HORIZON, .sub_sequence = -1},
        .core = ks_core_config_default(ks_span_ms(10000)),
        .shard_metrics = true,
        .drained = on_drained,
        .refused = on_refused,
    };

    config.core.protocol = protocol_of(dialect);
    config.core.stealing = dialect == &ks_go_kcl_dialect;
    config.core.masking = dialect == &ks_kcl_rb_dialect;
    config.core.seed = 7;
    config.core.boot = 42;
    config.core.budget_bytes = 8 << 20;
    config.core.shards_max = 16;
    config.core.leases_max = 4;
    config.core.workers_max = 8;
    config.core.sessions_max = 4;
    config.core.window_max = 64;
    config.core.checkpoint_interval = ks_span_ms(200);
    if (!ks_ok(ks_switchboard_new(&config, &house.board)))
        abort();
}

static inline void open_api(void)
{
    static char listen[2][80];
    struct ks_api_config config = {
        .loop = house.loop,
        .boards = &house.board,
        .board_count = 1,
        .listen = listen[0],
        .ops_listen = listen[1],
        .connections_max = 8,
        .request_bytes_max = 1 << 16,
        .drain_patience = ks_span_ms(1000),
        .quit = on_quit,
        .options = options,
    };
    struct ks_detail detail;

    (void)snprintf(listen[0], sizeof(listen[0]), "unix:%s", place("api"));
    (void)snprintf(listen[1], sizeof(listen[1]), "unix:%s", place("ops"));
    if (!ks_ok(ks_api_open(&config, &house.api, &detail)))
        abort();
}

/* The loop, on which the caller then opens what the house stands on. */
static inline void begin_house(void)
{
    if (folder[0] == '\0')
        settle_in();
    jumped_ms = 0;
    house = (struct house){.live = ks_alloc_live()};
    if (!ks_ok(ks_loop_new(&house.loop)))
        abort();
}

/* On the store, the source and the dead letters that are in `house` by now. */
static inline void open_house(const struct ks_dialect *dialect)
{
    open_board(dialect);
    open_api();
    ks_switchboard_start(house.board);
}

/* Turns until the jobs of SQLite are done; where nobody has done anything, time passes. */
static inline void turn_house(bool heard)
{
    if (house.answer != NULL)
        house.answer();
    ks_loop_await_jobs(house.loop, ks_span_ms(20000));
    if (!heard)
        jumped_ms += IDLE_JUMP_MS;
}

/* ---- Its client ---- */

/* The last answer: what came since it was asked for. */
static struct answer {
    char bytes[ANSWER_MAX + 1];
    size_t size;
    int status;
    char *head; /* Ends with a NUL. */
    char *body; /* Likewise, but for bytes of 0 in it. */
    size_t body_size;
    bool whole;
} answer;

enum door { DOOR_API, DOOR_OPS, DOORS };
static int wires[DOORS] = {-1, -1}; /* Connections that are kept. */

static inline int wire_to(enum door door)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    if (wires[door] >= 0)
        return wires[door];
    wires[door] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s",
                   place(door == DOOR_OPS ? "ops" : "api"));
    if (wires[door] < 0 || connect(wires[door], (struct sockaddr *)&address, sizeof(address)) != 0)
        abort();
    return wires[door];
}

static inline void hang_up(enum door door)
{
    if (wires[door] >= 0)
        (void)close(wires[door]);
    wires[door] = -1;
}

/* Takes the chunks of a body together where they lie; what is cut off at its end is left. True if the last one came. */
static inline bool take_chunks(char *into)
{
    char *from = answer.body;
    char *const end = answer.bytes + answer.size;
    size_t size = 0;
    bool last = false;

    while (from < end && !last) {
        char *line = memchr(from, '\n', (size_t)(end - from));
        const size_t chunk = line == NULL ? 0 : strtoul(from, NULL, 16);

        if (line == NULL || chunk > (size_t)(end - line - 1))
            break;
        assert(line > from && line[-1] == '\r');
        last = chunk == 0 && end - line > 2;
        if (into != NULL)
            memmove(into + size, line + 1, chunk);
        size += chunk;
        from = line + 1 + chunk + 2;
    }
    if (into != NULL) {
        into[size] = '\0';
        answer.body_size = size;
    }
    return last;
}

static inline const char *header_of(const char *name)
{
    const char *const line = strcasestr(answer.head, name);

    return line == NULL ? NULL : line + strlen(name);
}

/* Looks at what there is of the answer. Its head is good from then on, its body once it is whole. */
static inline void look_at_answer(bool closed)
{
    const char *length;
    char *gap;

    answer.bytes[answer.size] = '\0';
    answer.whole = closed;
    gap = strstr(answer.bytes, "\r\n\r\n");
    if (gap == NULL)
        return;
    assert(strncmp(answer.bytes, "HTTP/1.1 ", 9) == 0);
    answer.status = atoi(answer.bytes + 9);
    answer.head = answer.bytes;
    answer.body = gap + 4;
    answer.body_size = answer.size - (size_t)(answer.body - answer.bytes);
    gap[2] = '\0';
    length = header_of("\r\nContent-Length: ");
    if (header_of("\r\nTransfer-Encoding: chunked\r\n") != NULL)
        answer.whole = answer.whole || take_chunks(NULL);
    else if (length != NULL)
        answer.whole = answer.whole || answer.body_size == strtoul(length, NULL, 10);
    gap[2] = '\r';
}

static inline void take_apart(void)
{
    assert(answer.body != NULL);
    answer.body[-2] = '\0';
    if (header_of("\r\nTransfer-Encoding: chunked\r\n") != NULL) {
        const bool last = take_chunks(answer.body);
        assert(last || !answer.whole);
    }
}

static inline bool type_is(const char *type)
{
    char line[80];

    (void)snprintf(line, sizeof(line), "\r\nContent-Type: %s", type);
    return header_of(line) != NULL;
}

/* Asks, and reads all of the answer; of one that has no end what comes until nothing more does for `patience_ms`. */
static inline void ask_house(enum door door, const char *request, size_t size, int64_t patience_ms)
{
    const int fd = wire_to(door);
    int64_t heard_at = jumped_ms;
    uint32_t idles = 0;

    answer.size = 0;
    answer.whole = false;
    answer.body = NULL;
    if (send(fd, request, size, MSG_NOSIGNAL) != (ssize_t)size)
        abort();
    while (!answer.whole && (patience_ms == 0 || jumped_ms - heard_at < patience_ms)) {
        const ssize_t some =
            recv(fd, answer.bytes + answer.size, ANSWER_MAX - answer.size, MSG_DONTWAIT);

        answer.size += some > 0 ? (size_t)some : 0;
        if (some >= 0)
            look_at_answer(some == 0);
        heard_at = some > 0 ? jumped_ms : heard_at;
        idles = some > 0 ? 0 : idles + 1;
        /* Whoever asks is answered. */
        assert(idles < IDLES_MAX && answer.size < ANSWER_MAX);
        if (!answer.whole)
            turn_house(some > 0 || idles < 3);
        if (some == 0)
            break;
    }
    take_apart();
    if (!answer.whole || header_of("\r\nConnection: close\r\n") != NULL)
        hang_up(door);
}

/* `headers`: lines with their ends, or "". `body`: NULL if there is none. */
static inline void ask(enum door door, const char *method, const char *target, const char *headers,
                       const char *body)
{
    static char request[1 << 16];
    const int size =
        snprintf(request, sizeof(request),
                 "%s %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %zu\r\n\r\n%s", method,
                 target, headers, body == NULL ? 0 : strlen(body), body == NULL ? "" : body);

    assert(size > 0 && (size_t)size < sizeof(request));
    ask_house(door, request, (size_t)size, 0);
}

/* A call in protobuf: its answer is a message, or a problem. `message` has no byte of 0. */
static inline void call_house(const char *procedure, const char *message)
{
    char target[80];

    (void)snprintf(target, sizeof(target), "/kinesis_sidecar.v1.%s", procedure);
    ask(DOOR_API, "POST", target, "Content-Type: application/proto\r\n", message);
}

/* An answer that has no end: what comes until nothing more does. */
static inline void listen_to(const char *target, const char *headers)
{
    static char request[4096];
    const int size = snprintf(request, sizeof(request),
                              "GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n", target, headers);

    assert(size > 0 && (size_t)size < sizeof(request));
    ask_house(DOOR_API, request, (size_t)size, 300);
}

/* All of it goes, and nothing is kept. */
static inline void close_house(void)
{
    hang_up(DOOR_API);
    hang_up(DOOR_OPS);
    ks_api_close(house.api);
    ks_switchboard_stop(house.board);
    house.source->vtable->close(house.source);
    house.store->vtable->close(house.store);
    if (house.letters != NULL)
        house.letters->vtable->close(house.letters);
    ks_loop_await_jobs(house.loop, ks_span_ms(20000));
    ks_loop_free(house.loop);
    ks_switchboard_free(house.board);
    assert(ks_alloc_live() == house.live);
}

/* ---- What must be true of any answer ---- */

static inline json_t *read_json(const char *text, size_t size)
{
    json_error_t error;
    json_t *const json =
        json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);

    if (json == NULL)
        (void)fprintf(stderr, "%s at %d: %.*s\n", error.text, error.position, (int)size, text);
    assert(json != NULL);
    return json;
}

static inline ProtobufCMessage *read_message(const ProtobufCMessageDescriptor *type,
                                             const void *bytes, size_t size)
{
    ProtobufCMessage *const message = protobuf_c_message_unpack(type, NULL, size, bytes);

    if (message == NULL)
        (void)fprintf(stderr, "no %s:\n%s\n", type->name, answer.head);
    assert(message != NULL);
    return message;
}

/* A problem says what was wrong, in whatever was asked for. NULL if it is none. */
static inline bool check_problem(void)
{
    json_t *problem;

    if (answer.status < 400)
        return false;
    assert(answer.status != 500);
    if (!type_is("application/json") && !type_is("application/problem+json"))
        return true;
    problem = read_json(answer.body, answer.body_size);
    assert(json_is_object(problem));
    json_decref(problem);
    return true;
}

#endif
