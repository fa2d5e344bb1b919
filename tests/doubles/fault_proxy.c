/* SPDX-License-Identifier: Apache-2.0 */
/* fault_proxy.c - stands between a client and a real server on this machine, and does what networks do.
 *
 *     fault_proxy PORT TARGET_PORT CONTROL_PORT
 *
 * Listens on PORT and passes each connection on to TARGET_PORT; all of it on 127.0.0.1. A line on CONTROL_PORT changes
 * what happens from then on; when its answer `ok` has come, it has happened. Anything else is answered `error: ..`.
 *
 *     heal               Everything flows. Also what `hang` held back: it arrives late. Ends every other fault.
 *     latency MS         Bytes are passed on MS later, in both directions. 0 = at once. Bytes already under way keep
 *     late-requests MS   their time. late-requests, late-answers: in one direction only.
 *     late-answers MS
 *     cut                Every connection is reset, new ones are refused.
 *     hang               Half-open: connections are accepted and stay, nothing moves on them, no end is noticed.
 *     drop-answers       Requests arrive, answers do not. A connection that lost a byte stays mute after `heal`, too.
 *     status             Answers `MODE connections N swallowed BYTES`.
 *
 * On HTTP/1.1, to the next COUNT requests, at most one of these to each:
 *     refuse STATUS CODE COUNT   It is not passed on, but answered like AWS does: `refuse 400 ThrottlingException 3`;
 *                                in XML without an X-Amz-Target.
 *     lose COUNT                 It is passed on; when its answer comes, the connection is reset.
 *     reset COUNT                It is not passed on: the connection is reset.
 *     mute COUNT                 It is not passed on, and never answered.
 *     wrong-crc COUNT            Its answer's x-amz-crc32 does not fit.
 * and beside these:
 *     only OPERATION             They happen to requests of this X-Amz-Target only; without one (S3), of this method
 *                                only: `only PUT`. `only any`: to all again.
 *     containing TEXT            They happen to requests with this text in the first 32 KiB of their body only.
 *                                `containing any`: to all again.
 *     spoiled                    Answers to how many they have happened since the proxy began: `N`.
 *     skew SECONDS               The Date of every answer is moved by that much.
 *
 * cut, hang and drop-answers replace one another; everything else goes with each of them. Nothing is random. A
 * direction of a connection holds BUFFER_BYTES at most, then it waits; beyond PAIRS_MAX connections new ones wait to be
 * accepted. One control connection is served at a time. It dies with its parent.
 */
#include "fault_proxy_http.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    PAIRS_MAX = 256,      /* Connections: some sidecars with a few each, and what they gave up. */
    BUFFER_BYTES = 65536, /* For each direction: more than any request to a lease table. */
    PIECES_MAX = 64,      /* Reads under way in one direction, each with its own time. */
    LINE_BYTES = 80,      /* Of a command. */
    BACKLOG = 128,
    LATE_MS_MAX = 600000,
    SKEW_S_MAX = 86400 * 365,
    OWN_FDS = 3 /* Listener, control listener, control connection. */
};

enum mode { HEALED, CUT, HANG, DROP_ANSWERS };
static const char *const mode_names[] = {"heal", "cut", "hang", "drop-answers"};
enum { MODES = sizeof mode_names / sizeof mode_names[0] };

/* What came in one read, and when it may go on. */
struct piece {
    uint32_t bytes;
    int64_t due_ms;
};

/* One direction of a connection: first in, first out. */
struct flow {
    uint8_t buffer[BUFFER_BYTES];
    struct piece pieces[PIECES_MAX];
    uint32_t start, end; /* Of the bytes under way. */
    uint32_t held;       /* So many more have come; what becomes of them cannot be told yet. */
    uint32_t first_piece, pieces_end;
    bool ended; /* The one who sends is done. */
    bool told;  /* And the other one has been told. */
};

struct pair {
    bool used;
    bool connecting;
    bool mute; /* An answer was swallowed. */
    int client;
    int server; /* -1: not asked yet. */
    struct flow requests;
    struct flow answers;
    struct http http;
};

static struct {
    uint16_t port, target, control_port;
    int listener; /* -1 while cut. */
    int control_listener;
    int control; /* -1: none. */
    char line[LINE_BYTES];
    uint32_t line_bytes;
    enum mode mode;
    int64_t late_requests_ms;
    int64_t late_answers_ms;
    uint64_t swallowed;
    struct http_rules rules;
    struct pair pairs[PAIRS_MAX];
} proxy = {.listener = -1, .control_listener = -1, .control = -1};

static int64_t now_ms(void)
{
    struct timespec now;

    if (clock_gettime(CLOCK_MONOTONIC, &now) != 0)
        abort();
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- Sockets ---- */

static struct sockaddr_in address_of(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)},
    };
}

/* Returns the socket, or -1 with errno. */
static int open_listener(uint16_t port)
{
    struct sockaddr_in address = address_of(port);
    int one = 1;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int why;

    if (fd < 0)
        return -1;
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
        bind(fd, (const struct sockaddr *)&address, sizeof address) == 0 &&
        listen(fd, BACKLOG) == 0)
        return fd;
    why = errno;
    close(fd);
    errno = why;
    return -1;
}

/* Small pieces leave at once: what is late is late by command only. */
static void hurry(int fd)
{
    int one = 1;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

static void reset(int fd)
{
    struct linger at_once = {.l_onoff = 1, .l_linger = 0};

    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    close(fd);
}

static bool would_block(void)
{
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

/* ---- Connections ---- */

static void reset_pair(struct pair *pair)
{
    assert(pair->used);

    reset(pair->client);
    if (pair->server >= 0)
        reset(pair->server);
    pair->used = false;
}

/* Both sides have said their last word. */
static void close_pair(struct pair *pair)
{
    assert(pair->requests.told && pair->answers.told);

    close(pair->client);
    close(pair->server);
    pair->used = false;
}

static struct pair *free_pair(void)
{
    for (uint32_t i = 0; i < PAIRS_MAX; i++) {
        if (!proxy.pairs[i].used)
            return &proxy.pairs[i];
    }
    return NULL;
}

static void begin_flow(struct flow *flow)
{
    flow->start = flow->end = flow->held = 0;
    flow->first_piece = flow->pieces_end = 0;
    flow->ended = flow->told = false;
}

static void accept_client(void)
{
    struct pair *pair = free_pair();
    int fd = accept4(proxy.listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    assert(pair != NULL);
    if (fd < 0)
        return;
    hurry(fd);
    pair->used = true;
    pair->connecting = pair->mute = false;
    pair->client = fd;
    pair->server = -1;
    pair->http = (struct http){.refusing = false};
    begin_flow(&pair->requests);
    begin_flow(&pair->answers);
}

/* False: there is no such server. */
static bool connect_pair(struct pair *pair)
{
    struct sockaddr_in address = address_of(proxy.target);

    pair->server = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (pair->server < 0)
        return false;
    hurry(pair->server);
    pair->connecting = true;
    return connect(pair->server, (const struct sockaddr *)&address, sizeof address) == 0 ||
           errno == EINPROGRESS;
}

/* ---- Bytes ---- */

static bool may_read(const struct flow *flow)
{
    return !flow->ended && flow->end + flow->held < BUFFER_BYTES && flow->pieces_end < PIECES_MAX;
}

/* The instant at which the flow has something to pass on; INT64_MAX: nothing. */
static int64_t flow_due_ms(const struct flow *flow)
{
    if (flow->start < flow->end)
        return flow->pieces[flow->first_piece].due_ms;
    return flow->ended && !flow->told ? 0 : INT64_MAX;
}

/* The first `size` of what is held go on, `late_ms` from now. */
static void release(struct flow *flow, size_t size, int64_t late_ms)
{
    int64_t due_ms = now_ms() + late_ms;
    bool is_full = flow->pieces_end == PIECES_MAX;

    flow->end += (uint32_t)size;
    flow->held -= (uint32_t)size;
    if (is_full || (flow->pieces_end > flow->first_piece &&
                    flow->pieces[flow->pieces_end - 1].due_ms == due_ms))
        flow->pieces[flow->pieces_end - 1].bytes += (uint32_t)size;
    else
        flow->pieces[flow->pieces_end++] = (struct piece){(uint32_t)size, due_ms};
}

/* The first `size` of what is held are gone. */
static void drop(struct flow *flow, size_t size)
{
    flow->held -= (uint32_t)size;
    memmove(flow->buffer + flow->end, flow->buffer + flow->end + size, flow->held);
}

static void refuse(struct pair *pair)
{
    struct flow *answers = &pair->answers;
    char text[HTTP_ANSWER_BYTES];
    size_t size = http_print_refusal(&pair->http, text);

    /* Who has asked waits: nothing else is under way to him. */
    assert(answers->held == 0 && answers->end + size <= BUFFER_BYTES);
    memcpy(answers->buffer + answers->end, text, size);
    answers->held = (uint32_t)size;
    release(answers, size, proxy.late_answers_ms);
}

/* Decides what becomes of what is held. False: the connection is to be reset. */
static bool judge(struct pair *pair, struct flow *flow, int64_t late_ms)
{
    bool asks = flow == &pair->requests;

    while (flow->held > 0) {
        uint8_t *bytes = flow->buffer + flow->end;
        size_t size = 0;
        enum http_verdict verdict =
            asks ? http_request(&pair->http, &proxy.rules, bytes, flow->held, &size)
                 : http_answer(&pair->http, &proxy.rules, bytes, flow->held, &size);

        switch (verdict) {
        case HTTP_WAIT: return true;
        case HTTP_PASS: release(flow, size, late_ms); break;
        case HTTP_DROP: drop(flow, size); break;
        case HTTP_REFUSE:
            drop(flow, size);
            refuse(pair);
            break;
        case HTTP_RESET: return false;
        }
    }
    return true;
}

/* False: the connection is broken. */
static bool take_in(struct pair *pair, struct flow *flow, int from, int64_t late_ms)
{
    uint8_t *room = flow->buffer + flow->end + flow->held;
    ssize_t got = recv(from, room, (size_t)(flow->buffer + BUFFER_BYTES - room), 0);

    if (got < 0)
        return would_block();
    if (got == 0) {
        flow->ended = true;
        if (flow->held > 0)
            release(flow, flow->held, late_ms);
        return true;
    }
    flow->held += (uint32_t)got;
    return judge(pair, flow, late_ms);
}

/* False: the connection is broken. */
static bool pass_on(struct flow *flow, int to, int64_t now)
{
    while (flow->start < flow->end && flow->pieces[flow->first_piece].due_ms <= now) {
        struct piece *piece = &flow->pieces[flow->first_piece];
        ssize_t sent = send(to, flow->buffer + flow->start, piece->bytes, MSG_NOSIGNAL);

        if (sent < 0)
            return would_block();
        flow->start += (uint32_t)sent;
        piece->bytes -= (uint32_t)sent;
        if (piece->bytes > 0)
            return true;
        flow->first_piece++;
    }
    if (flow->start < flow->end)
        return true;
    memmove(flow->buffer, flow->buffer + flow->end, flow->held);
    flow->start = flow->end = 0;
    flow->first_piece = flow->pieces_end = 0;
    if (flow->ended && !flow->told) {
        (void)shutdown(to, SHUT_WR);
        flow->told = true;
    }
    return true;
}

/* What a mute server says, its end too, is nobody's. */
static void swallow(struct pair *pair)
{
    struct flow *answers = &pair->answers;

    if (answers->start == answers->end && answers->held == 0 && !answers->ended)
        return;
    pair->mute = true;
    proxy.swallowed += answers->end - answers->start + answers->held;
    answers->start = answers->end = answers->held = 0;
    answers->first_piece = answers->pieces_end = 0;
    answers->told = answers->ended;
}

/* False: the connection is broken. */
static bool turn_pair(struct pair *pair, short client, short server)
{
    int64_t now;

    if (pair->connecting) {
        int error = 0;
        socklen_t size = sizeof error;

        if (server == 0)
            return true;
        if (getsockopt(pair->server, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0)
            return false;
        pair->connecting = false;
    }
    if (client != 0 && may_read(&pair->requests) &&
        !take_in(pair, &pair->requests, pair->client, proxy.late_requests_ms))
        return false;
    if (server != 0 && may_read(&pair->answers) &&
        !take_in(pair, &pair->answers, pair->server, proxy.late_answers_ms))
        return false;
    if (proxy.mode == DROP_ANSWERS || pair->mute)
        swallow(pair);
    now = now_ms();
    return pass_on(&pair->requests, pair->server, now) &&
           pass_on(&pair->answers, pair->client, now);
}

/* ---- Commands ---- */

static void set_mode(enum mode mode, char answer[LINE_BYTES])
{
    if (mode == CUT) {
        for (uint32_t i = 0; i < PAIRS_MAX; i++) {
            if (proxy.pairs[i].used)
                reset_pair(&proxy.pairs[i]);
        }
        if (proxy.listener >= 0)
            close(proxy.listener);
        proxy.listener = -1;
    } else if (proxy.listener < 0) {
        proxy.listener = open_listener(proxy.port);
        if (proxy.listener < 0) {
            (void)snprintf(answer, LINE_BYTES, "error: port %u: %s\n", proxy.port, strerror(errno));
            return;
        }
    }
    proxy.mode = mode;
    if (mode == HEALED) {
        proxy.late_requests_ms = proxy.late_answers_ms = 0;
        proxy.rules = (struct http_rules){.spoiled = proxy.rules.spoiled};
    }
}

static void say_status(char answer[LINE_BYTES])
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < PAIRS_MAX; i++)
        count += proxy.pairs[i].used;
    (void)snprintf(answer, LINE_BYTES, "%s connections %u swallowed %llu\n", mode_names[proxy.mode],
                   count, (unsigned long long)proxy.swallowed);
}

/* False: not a number in bounds, or not alone. */
static bool read_number(const char *text, int64_t max, int64_t *ret_number)
{
    char *end = NULL;
    long long number;

    if (text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    number = strtoll(text, &end, 10);
    if (errno != 0 || *end != '\0' || number > max)
        return false;
    *ret_number = number;
    return true;
}

/* What follows the word in the line; NULL: it is another line. */
static const char *after(const char *line, const char *word)
{
    size_t length = strlen(word);

    return strncmp(line, word, length) == 0 ? line + length : NULL;
}

static bool read_count(const char *text, uint32_t *ret_count)
{
    int64_t count;

    if (text == NULL || !read_number(text, UINT32_MAX, &count))
        return false;
    *ret_count = (uint32_t)count;
    return true;
}

/* A command about HTTP; false: it is none. */
static bool set_rule(const char *line)
{
    struct http_rules *rules = &proxy.rules;
    const char *only = after(line, "only ");
    const char *containing = after(line, "containing ");
    const char *skew = after(line, "skew ");
    struct http_refusal refusal;
    int64_t seconds;
    int end = 0;

    if (read_count(after(line, "lose "), &rules->lose) ||
        read_count(after(line, "reset "), &rules->reset) ||
        read_count(after(line, "mute "), &rules->mute) ||
        read_count(after(line, "wrong-crc "), &rules->wrong_crc))
        return true;
    if (sscanf(line, "refuse %3d %63s %n", &refusal.status, refusal.code, &end) == 2 && end > 0 &&
        refusal.status >= 200 && read_count(line + end, &rules->refuse)) {
        rules->refusal = refusal;
        return true;
    }
    if (only != NULL && *only != '\0' && strlen(only) < sizeof rules->only) {
        (void)snprintf(rules->only, sizeof rules->only, "%s", strcmp(only, "any") == 0 ? "" : only);
        return true;
    }
    if (containing != NULL && *containing != '\0' &&
        strlen(containing) < sizeof rules->containing) {
        (void)snprintf(rules->containing, sizeof rules->containing, "%s",
                       strcmp(containing, "any") == 0 ? "" : containing);
        return true;
    }
    if (skew != NULL && read_number(skew + (*skew == '-'), SKEW_S_MAX, &seconds)) {
        rules->skew_s = *skew == '-' ? -seconds : seconds;
        return true;
    }
    return false;
}

static void command(const char *line, char answer[LINE_BYTES])
{
    static const struct {
        const char *name;
        int64_t *late[2];
    } lates[] = {
        {"latency ", {&proxy.late_requests_ms, &proxy.late_answers_ms}},
        {"late-requests ", {&proxy.late_requests_ms, NULL}},
        {"late-answers ", {&proxy.late_answers_ms, NULL}},
    };
    int64_t ms;

    (void)snprintf(answer, LINE_BYTES, "ok\n");
    for (uint32_t i = 0; i < MODES; i++) {
        if (strcmp(line, mode_names[i]) == 0) {
            set_mode((enum mode)i, answer);
            return;
        }
    }
    for (uint32_t i = 0; i < sizeof lates / sizeof lates[0]; i++) {
        const char *number = after(line, lates[i].name);

        if (number != NULL && read_number(number, LATE_MS_MAX, &ms)) {
            *lates[i].late[0] = ms;
            if (lates[i].late[1] != NULL)
                *lates[i].late[1] = ms;
            return;
        }
    }
    if (set_rule(line))
        return;
    if (strcmp(line, "status") == 0)
        say_status(answer);
    else if (strcmp(line, "spoiled") == 0)
        (void)snprintf(answer, LINE_BYTES, "%llu\n", (unsigned long long)proxy.rules.spoiled);
    else
        (void)snprintf(answer, LINE_BYTES, "error: no such command\n");
}

static void close_control(void)
{
    close(proxy.control);
    proxy.control = -1;
    proxy.line_bytes = 0;
}

static void read_control(void)
{
    ssize_t got =
        recv(proxy.control, proxy.line + proxy.line_bytes, sizeof proxy.line - proxy.line_bytes, 0);
    char *end;

    if (got < 0 && would_block())
        return;
    if (got <= 0) {
        close_control();
        return;
    }
    proxy.line_bytes += (uint32_t)got;
    while ((end = memchr(proxy.line, '\n', proxy.line_bytes)) != NULL) {
        char answer[LINE_BYTES];
        uint32_t length = (uint32_t)(end - proxy.line) + 1;

        *end = '\0';
        command(proxy.line, answer);
        /* Short, and the one who asked waits for it: if it does not fit, he is not reading. */
        if (send(proxy.control, answer, strlen(answer), MSG_NOSIGNAL) < 0) {
            close_control();
            return;
        }
        proxy.line_bytes -= length;
        memmove(proxy.line, proxy.line + length, proxy.line_bytes);
    }
    if (proxy.line_bytes == sizeof proxy.line)
        close_control();
}

/* ---- The loop ---- */

/* A socket of which we want nothing is not polled: its hang-up would be told again and again. */
static struct pollfd ask(int fd, bool in, bool out)
{
    short events = (short)((in ? POLLIN : 0) | (out ? POLLOUT : 0));

    return (struct pollfd){.fd = events != 0 ? fd : -1, .events = events};
}

/* Fills in what to ask of a pair; lowers `ret_wake` to the instant at which it is to be looked at again. */
static void ask_pair(const struct pair *pair, int64_t now, struct pollfd ret_fds[2],
                     int64_t *ret_wake)
{
    int64_t requests = flow_due_ms(&pair->requests);
    int64_t answers = flow_due_ms(&pair->answers);

    ret_fds[0] = ret_fds[1] = ask(-1, false, false);
    if (!pair->used || proxy.mode == HANG)
        return;
    if (pair->connecting) {
        ret_fds[1] = ask(pair->server, false, true);
        return;
    }
    ret_fds[0] = ask(pair->client, may_read(&pair->requests), answers <= now);
    ret_fds[1] = ask(pair->server, may_read(&pair->answers), requests <= now);
    if (requests > now && requests < *ret_wake)
        *ret_wake = requests;
    if (answers > now && answers < *ret_wake)
        *ret_wake = answers;
}

static void turn(void)
{
    static struct pollfd fds[OWN_FDS + 2 * PAIRS_MAX];
    int64_t now = now_ms();
    int64_t wake = now + 60000;

    for (uint32_t i = 0; i < PAIRS_MAX; i++) {
        struct pair *pair = &proxy.pairs[i];

        if (pair->used && pair->server < 0 && proxy.mode != HANG && !connect_pair(pair))
            reset_pair(pair);
        ask_pair(pair, now, &fds[OWN_FDS + 2 * i], &wake);
    }
    fds[0] = ask(proxy.listener, free_pair() != NULL, false);
    fds[1] = ask(proxy.control_listener, proxy.control < 0, false);
    fds[2] = ask(proxy.control, true, false);
    if (poll(fds, sizeof fds / sizeof fds[0], (int)(wake - now)) < 0)
        return;

    for (uint32_t i = 0; i < PAIRS_MAX; i++) {
        struct pair *pair = &proxy.pairs[i];

        if (!pair->used || proxy.mode == HANG)
            continue;
        if (!turn_pair(pair, fds[OWN_FDS + 2 * i].revents, fds[OWN_FDS + 2 * i + 1].revents))
            reset_pair(pair);
        else if (pair->requests.told && pair->answers.told)
            close_pair(pair);
    }
    if (fds[0].revents != 0)
        accept_client();
    if (fds[2].revents != 0)
        read_control();
    if (fds[1].revents != 0)
        proxy.control = accept4(proxy.control_listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

static uint16_t read_port(const char *text)
{
    char *end = NULL;
    long port = strtol(text, &end, 10);

    if (*text == '\0' || *end != '\0' || port < 1 || port > 65535) {
        fprintf(stderr, "fault_proxy: not a port: %s\n", text);
        exit(2);
    }
    return (uint16_t)port;
}

static int must_listen(uint16_t port)
{
    int fd = open_listener(port);

    if (fd < 0) {
        fprintf(stderr, "fault_proxy: port %u: %s\n", port, strerror(errno));
        exit(1);
    }
    return fd;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: fault_proxy PORT TARGET_PORT CONTROL_PORT\n");
        return 2;
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    proxy.port = read_port(argv[1]);
    proxy.target = read_port(argv[2]);
    proxy.control_port = read_port(argv[3]);
    proxy.listener = must_listen(proxy.port);
    proxy.control_listener = must_listen(proxy.control_port);
    for (;;)
        turn();
}
