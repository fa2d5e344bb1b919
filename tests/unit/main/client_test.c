/* SPDX-License-Identifier: Apache-2.0 */
#include "main/client.h"

#include "ks_test.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ANSWER_MAX = 64 * 1024, LONG_MS = 20000 };

/* Where the peer listens, and where it keeps what it was sent. */
static const char *place_of(const char *name)
{
    static char path[2][KS_ADDRESS_PATH_SIZE];
    char *mine = path[name[0] == 's'];

    if (mine[0] == '\0')
        (void)snprintf(mine, sizeof path[0], "%s", ks_test_path(name));
    return mine;
}

/* A whole request, head and body: what is left unread when the peer ends would take his answer back. */
static size_t hear_request(int fd, char *request, size_t size)
{
    size_t got = 0;
    ssize_t some = 1;

    while (some > 0 && got < size) {
        some = recv(fd, request + got, size - got, 0);
        got += some > 0 ? (size_t)some : 0;
        request[got] = '\0';
        if (strstr(request, "\r\n\r\n") != NULL &&
            (strstr(request, "Length: 2\r\n") == NULL || strstr(request, "\r\n\r\n{}") != NULL))
            break;
    }
    return got;
}

/* A peer in another process: takes one connection, keeps what it was sent in a file, and says
 * `answer`, `step` bytes at a time; with `hold` it then stays without a word. */
static pid_t peer(const char *answer, size_t size, size_t step, bool hold)
{
    struct sockaddr_un place = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    pid_t child;

    (void)snprintf(place.sun_path, sizeof place.sun_path, "%s", place_of("s"));
    (void)unlink(place.sun_path);
    EXPECT(bind(listener, (struct sockaddr *)&place, sizeof place) == 0);
    EXPECT(listen(listener, 1) == 0);
    child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        char request[4096];
        int fd = accept(listener, NULL, NULL);
        size_t got = hear_request(fd, request, sizeof request - 1);
        FILE *file = fopen(place_of("request"), "w");

        if (file != NULL && fwrite(request, 1, got, file) == got)
            (void)fclose(file);
        for (size_t sent = 0; sent < size; sent += step) {
            size_t part = size - sent < step ? size - sent : step;

            if (send(fd, answer + sent, part, MSG_NOSIGNAL) < 0)
                _exit(1);
        }
        if (hold)
            (void)recv(fd, request, sizeof request, 0);
        _exit(0);
    }
    (void)close(listener);
    return child;
}

struct got {
    int status;
    char body[ANSWER_MAX];
    size_t size;
    struct ks_detail detail;
};

static ks_err keep(void *arg, ks_view bytes)
{
    struct got *got = arg;

    EXPECT(got->size + bytes.size < sizeof got->body);
    memcpy(got->body + got->size, bytes.data, bytes.size);
    got->size += bytes.size;
    got->body[got->size] = '\0';
    return KS_OK;
}

static ks_err call(struct got *got, const char *method, ks_view body, int64_t timeout_ms)
{
    struct ks_address address = {.kind = KS_ADDRESS_UNIX};
    struct ks_client_request request = {
        .method = method,
        .target = "/v1/x?y=z",
        .token = "secret",
        .body = body,
        .timeout = ks_span_ms(timeout_ms),
        .part = keep,
        .arg = got,
    };

    (void)snprintf(address.path, sizeof address.path, "%s", place_of("s"));
    return ks_client_call(&address, 1, &request, &got->status, &got->detail);
}

/* What the answer `text` comes to when it arrives `step` bytes at a time. */
static ks_err hear(const char *text, size_t size, size_t step, struct got *got)
{
    pid_t child = peer(text, size, step, false);
    ks_err err;

    *got = (struct got){.status = 0};
    err = call(got, "GET", KS_VIEW_NONE, LONG_MS);
    EXPECT(waitpid(child, NULL, 0) == child);
    return err;
}

TEST(bodies_come_in_every_framing_and_in_any_pieces)
{
    static const char *const answers[] = {
        "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nhello "
        "\r\n5;x=y\r\nworld\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: Chunked\r\n\r\n00b\r\nhello world\r\n0\r\nA: "
        "b\r\n\r\n",
        "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello world",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello world",
    };
    static const size_t steps[] = {1, 3, 7, 4096};

    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
        for (size_t k = 0; k < sizeof steps / sizeof steps[0]; k++) {
            struct got got;

            EXPECT_OK(hear(answers[i], strlen(answers[i]), steps[k], &got));
            EXPECT_EQ_I64(got.status, 200);
            EXPECT_STR(got.body, "hello world");
        }
    }
}

TEST(a_body_larger_than_the_buffer_comes_whole)
{
    static char answer[ANSWER_MAX];
    static struct got got;
    int head =
        snprintf(answer, sizeof answer, "HTTP/1.1 503 Away\r\nContent-Length: 50000\r\n\r\n");

    memset(answer + head, 'x', 50000);
    EXPECT_OK(hear(answer, (size_t)head + 50000, 5000, &got));
    EXPECT_EQ_I64(got.status, 503);
    EXPECT_EQ_U64(got.size, 50000);
}

TEST(what_is_no_answer_is_told)
{
    static const struct {
        const char *text;
        const char *err;
    } cases[] = {
        {"", "connection"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\nhello", "connection"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", "connection"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloworld\r\n", "malformed"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nz\r\n", "malformed"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", "malformed"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", "malformed"},
        {"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", "malformed"},
        {"SSH-2.0-OpenSSH_9.2p1\r\n\r\n", "malformed"},
        {"HTTP/1.1 2000 OK\r\n\r\n", "malformed"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct got got;

        EXPECT_STR(ks_err_name(hear(cases[i].text, strlen(cases[i].text), 4096, &got)),
                   cases[i].err);
        EXPECT(got.detail.text[0] != '\0');
    }
}

TEST(an_endless_head_is_cut_off)
{
    static char answer[40000];
    struct got got;

    memset(answer, 'x', sizeof answer);
    EXPECT_ERR(hear(answer, sizeof answer, sizeof answer, &got), MALFORMED);
}

/* `count` times `part`, between a start and an end. */
static const char *repeated(const char *start, const char *part, int count, const char *end)
{
    static char text[ANSWER_MAX];
    size_t size = (size_t)snprintf(text, sizeof text, "%s", start);

    for (int i = 0; i < count; i++)
        size += (size_t)snprintf(text + size, sizeof text - size, "%s", part);
    EXPECT(size + strlen(end) < sizeof text);
    memcpy(text + size, end, strlen(end) + 1);
    return text;
}

TEST(answers_of_1xx_have_an_end)
{
    static const char ok[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    static const char processing[] = "HTTP/1.1 102 Processing\r\n\r\n";
    struct got got;
    const char *text = repeated("", processing, 16, ok);

    EXPECT_OK(hear(text, strlen(text), 4096, &got));
    EXPECT_STR(got.body, "ok");
    text = repeated("", processing, 17, ok);
    EXPECT_ERR(hear(text, strlen(text), 4096, &got), MALFORMED);
    EXPECT_CONTAINS(got.detail.text, "1xx");
    EXPECT_EQ_I64(got.status, 0);
}

TEST(trailers_have_an_end)
{
    static const char head[] =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n";
    struct got got;
    const char *text = repeated(head, "A: b\r\n", 16, "\r\n");

    EXPECT_OK(hear(text, strlen(text), 4096, &got));
    EXPECT_STR(got.body, "ok");
    text = repeated(head, "A: b\r\n", 17, "\r\n");
    EXPECT_ERR(hear(text, strlen(text), 4096, &got), MALFORMED);
    EXPECT_CONTAINS(got.detail.text, "trailers");
}

TEST(silence_is_a_timeout)
{
    pid_t child = peer("HTTP/1.1 200", 12, 12, true);
    struct got got = {.status = 0};

    EXPECT_ERR(call(&got, "GET", KS_VIEW_NONE, 300), TIMEOUT);
    EXPECT(waitpid(child, NULL, 0) == child);
}

TEST(nobody_there_says_what_to_do)
{
    struct got got = {.status = 0};

    EXPECT_ERR(call(&got, "GET", KS_VIEW_NONE, LONG_MS), CONNECTION);
    EXPECT_CONTAINS(got.detail.text, "is the sidecar running");
}

TEST(a_request_carries_its_body_and_token)
{
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    pid_t child = peer(answer, sizeof answer - 1, 4096, false);
    char request[4096] = "";
    struct got got = {.status = 0};
    FILE *file;

    EXPECT_OK(call(&got, "POST", KS_VIEW("{}"), LONG_MS));
    EXPECT(waitpid(child, NULL, 0) == child);
    file = fopen(place_of("request"), "r");
    EXPECT(file != NULL);
    EXPECT(fread(request, 1, sizeof request - 1, file) > 0);
    EXPECT(fclose(file) == 0);
    EXPECT_CONTAINS(request, "POST /v1/x?y=z HTTP/1.1\r\nHost: localhost\r\n");
    EXPECT_CONTAINS(request, "Authorization: Bearer secret\r\n");
    EXPECT_CONTAINS(request, "Content-Type: application/json\r\n");
    EXPECT_CONTAINS(request, "Content-Length: 2\r\n");
}

TEST(values_of_a_query_are_escaped)
{
    struct ks_bytes bytes;

    ks_bytes_init(&bytes, 100);
    EXPECT_OK(ks_client_append_query(&bytes, KS_VIEW("a-Z.0_~ &=/\xc3\xa9")));
    EXPECT(ks_view_equal(ks_bytes_view(&bytes), KS_VIEW("a-Z.0_~%20%26%3D%2F%C3%A9")));
    ks_bytes_free(&bytes);
}
