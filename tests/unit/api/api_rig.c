/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/api/api_rig.h"

#include "base/options.h"
#include "ks_test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { BUFFER_BYTES = 4 << 20, WAIT_MS = 15000 };

static char buffer[BUFFER_BYTES];

static void quit(void *arg)
{
    struct rig *rig = arg;

    rig->quits++;
    ks_switchboard_drain(rig->stage.board, ks_span_ms(1000));
}

void rig_begin(struct rig *rig)
{
    static char listen[300];
    static char ops_listen[300];
    static char *flags[] = {"test", "--stream=stream", "--application=app", "--source=local:/x",
                            "--token-file=secret"};
    static char *environment[] = {NULL};
    struct ks_detail detail;
    struct ks_api_config config = {
        .listen = listen,
        .ops_listen = ops_listen,
        .allow_hosts = "friend.example",
        .connections_max = 16,
        .request_bytes_max = 4096,
        .drain_patience = {1000000},
    };

    stage_begin(&rig->stage, "worker");
    rig->options = calloc(1, sizeof(*rig->options));
    EXPECT_OK(ks_options_read(5, flags, environment, rig->options, &detail));
    (void)snprintf(listen, sizeof(listen), "unix:%s", ks_test_path("api"));
    (void)snprintf(ops_listen, sizeof(ops_listen), "unix:%s", ks_test_path("ops"));
    config.loop = rig->stage.loop;
    config.boards = &rig->stage.board;
    config.board_count = 1;
    config.options = rig->options;
    config.quit = quit;
    config.quit_arg = rig;
    EXPECT_OK(ks_api_open(&config, &rig->api, &detail));
    stage_turn_until(&rig->stage, stage_is_ready);
}

void rig_end(struct rig *rig)
{
    ks_api_close(rig->api);
    stage_vanish(&rig->stage);
    free(rig->options);
}

void rig_turn(struct rig *rig, int64_t ms)
{
    ks_instant until;

    ks_loop_turn(rig->stage.loop, ks_span_ms(0));
    until = ks_instant_add(ks_loop_now(rig->stage.loop), ks_span_ms(ms));
    while (ks_instant_before(ks_loop_now(rig->stage.loop), until))
        ks_loop_turn(rig->stage.loop, ks_span_ms(1));
}

int rig_connect(struct rig *rig, const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    (void)rig;
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", ks_test_dir(), name);
    EXPECT(fd >= 0);
    EXPECT(connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
    return fd;
}

void rig_send(struct rig *rig, int fd, const char *bytes, size_t size)
{
    for (int i = 0; i < WAIT_MS && size > 0; i++) {
        ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno != EAGAIN)
            return; /* It was refused in the middle: the answer says why. */
        if (sent > 0) {
            bytes += sent;
            size -= (size_t)sent;
        }
        ks_loop_turn(rig->stage.loop, ks_span_ms(sent > 0 ? 0 : 1));
    }
    EXPECT_EQ_U64(size, 0);
}

const char *rig_read(struct rig *rig, int fd, const char *part)
{
    size_t size = 0;

    buffer[0] = '\0';
    for (int i = 0; i < WAIT_MS; i++) {
        ssize_t got = recv(fd, buffer + size, sizeof(buffer) - size - 1, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN)) {
            EXPECT(part == NULL);
            return buffer;
        }
        if (got > 0) {
            size += (size_t)got;
            buffer[size] = '\0';
            if (part != NULL && memmem(buffer, size, part, strlen(part)) != NULL)
                return buffer;
        }
        ks_loop_turn(rig->stage.loop, ks_span_ms(got > 0 ? 0 : 1));
    }
    FAIL("no answer in time; until now: %.400s", buffer);
    return NULL;
}

const char *rig_say(struct rig *rig, const char *name, const char *bytes, size_t size)
{
    int fd = rig_connect(rig, name);
    const char *answer;

    rig_send(rig, fd, bytes, size);
    answer = rig_read(rig, fd, NULL);
    (void)close(fd);
    return answer;
}

void rig_expect_refused(struct rig *rig, const char *request, size_t size, const char *status)
{
    const char *answer = rig_say(rig, "api", request, size);

    EXPECT_CONTAINS(answer, status);
    EXPECT_CONTAINS(answer, "Connection: close");
    EXPECT_CONTAINS(answer, "\"retryable\":");
}

const char *rig_call(struct rig *rig, const char *method, const char *target, const char *body)
{
    static char request[64 << 10];
    int size = snprintf(request, sizeof(request),
                        "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                        "Content-Length: %zu\r\n\r\n%s",
                        method, target, strlen(body), body);

    EXPECT(size > 0 && (size_t)size < sizeof(request));
    return rig_say(rig, "api", request, (size_t)size);
}

const char *rig_ops(struct rig *rig, const char *target)
{
    char request[200];
    int size = snprintf(request, sizeof(request),
                        "GET %s HTTP/1.1\r\nHost: any\r\nConnection: close\r\n\r\n", target);

    return rig_say(rig, "ops", request, (size_t)size);
}

const char *rig_member(const char *json, const char *name)
{
    static char values[16][600];
    static unsigned next;
    char *value = values[next++ % 16];
    char key[80];
    const char *from;
    const char *end;

    (void)snprintf(key, sizeof(key), "\"%s\":\"", name);
    from = strstr(json, key);
    if (from == NULL)
        FAIL("no member %s in %.300s", name, json);
    from += strlen(key);
    end = strchr(from, '"');
    EXPECT(end != NULL && end - from < 600);
    (void)snprintf(value, 600, "%.*s", (int)(end - from), from);
    return value;
}

const char *rig_pull(struct rig *rig, const char *target)
{
    for (int i = 0; i < 100; i++) {
        const char *answer = rig_call(rig, "GET", target, "");
        if (strstr(answer, "\"ack_id\"") != NULL)
            return answer;
        rig_turn(rig, 20);
    }
    FAIL("no records came");
    return NULL;
}
