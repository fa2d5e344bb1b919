/* SPDX-License-Identifier: Apache-2.0 */
#include "api/doors.h"
#include "base/metrics.h"
#include "ks_test.h"
#include "unit/api/api_rig.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static struct rig rig;

/* Reads until those bytes have come. */
static void expect_bytes(int fd, const char *bytes, size_t size)
{
    static char got[4096];
    size_t used = 0;

    for (int i = 0; i < 15000 && memmem(got, used, bytes, size) == NULL; i++) {
        ssize_t some = recv(fd, got + used, sizeof(got) - used, MSG_DONTWAIT);
        EXPECT(some != 0);
        used += some > 0 ? (size_t)some : 0;
        ks_loop_turn(rig.stage.loop, ks_span_ms(1));
    }
    EXPECT(memmem(got, used, bytes, size) != NULL);
}

TEST(three_letters_decide_the_protocol_however_slowly_they_come)
{
    static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
    int fd;

    rig_begin(&rig);
    fd = rig_connect(&rig, "api");
    rig_send(&rig, fd, "PR", 2);
    rig_turn(&rig, 50);
    rig_send(&rig, fd, preface + 2, sizeof(preface) - 3);
    /* SETTINGS, and the acknowledgement of ours: 9 bytes, type 4, flag 1. */
    expect_bytes(fd, "\0\0\0\4\1\0\0\0\0", 9);
    (void)close(fd);
    EXPECT_CONTAINS(rig_call(&rig, "PUT", "/v1/status", ""), "HTTP/1.1 405");
    rig_end(&rig);
}

TEST(a_request_that_comes_byte_by_byte_is_answered)
{
    static const char request[] = "PUT /v1/status HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    int fd;

    rig_begin(&rig);
    fd = rig_connect(&rig, "api");
    for (size_t i = 0; i + 1 < sizeof(request); i++) {
        rig_send(&rig, fd, request + i, 1);
        rig_turn(&rig, 2);
    }
    EXPECT_CONTAINS(rig_read(&rig, fd, NULL), "HTTP/1.1 405");
    (void)close(fd);
    rig_end(&rig);
}

/* Asks on each for what has no end, or only says a letter of a request: from then on they count. */
static void occupy(int fds[16], bool busy)
{
    static const char request[] = "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n";

    for (int i = 0; i < 16; i++) {
        fds[i] = rig_connect(&rig, "api");
        rig_send(&rig, fds[i], request, busy ? sizeof(request) - 1 : 1);
    }
    rig_turn(&rig, 50);
}

/* 16 may come in; a crowd there does not keep the probes out. */
TEST(one_connection_too_many_is_told_so_in_its_protocol)
{
    int fds[16];
    int late;

    rig_begin(&rig);
    occupy(fds, true);
    EXPECT_EQ_I64(ks_metric_number(KS_METRIC_CONNECTIONS), 16);
    late = rig_connect(&rig, "api");
    rig_send(&rig, late, "G", 1);
    EXPECT_CONTAINS(rig_read(&rig, late, NULL), "--max-connections");
    (void)close(late);
    late = rig_connect(&rig, "api");
    rig_send(&rig, late, "PRI", 3);
    expect_bytes(late, "too many connections", 20);
    (void)close(late);
    EXPECT_CONTAINS(rig_ops(&rig, "/livez"), "HTTP/1.1 200");
    for (int i = 0; i < 16; i++)
        (void)close(fds[i]);
    rig_turn(&rig, 50);
    EXPECT_EQ_I64(ks_metric_number(KS_METRIC_CONNECTIONS), 0);
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/status", ""), "HTTP/1.1 200");
    rig_end(&rig);
}

/* Kept connections of clients that want nothing now; the one that is idle for the longest is closed for a new one. */
TEST(idle_connections_make_room)
{
    int fds[16];

    rig_begin(&rig);
    occupy(fds, false);
    EXPECT_EQ_I64(ks_metric_number(KS_METRIC_CONNECTIONS), 16);
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/status", ""), "HTTP/1.1 200");
    rig_turn(&rig, 50);
    EXPECT_EQ_I64(recv(fds[0], &(char){0}, 1, MSG_DONTWAIT), 0);
    EXPECT_EQ_I64(recv(fds[1], &(char){0}, 1, MSG_DONTWAIT), -1);
    for (int i = 0; i < 16; i++)
        (void)close(fds[i]);
    rig_end(&rig);
}

TEST(the_silent_take_no_place_of_those_who_speak)
{
    int silent[200];

    rig_begin(&rig);
    for (int i = 0; i < 200; i++) {
        silent[i] = rig_connect(&rig, "api");
        rig_turn(&rig, 0);
    }
    EXPECT_EQ_I64(ks_metric_number(KS_METRIC_CONNECTIONS), 200);
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/status", ""), "HTTP/1.1 200");
    for (int i = 0; i < 200; i++)
        (void)close(silent[i]);
    rig_end(&rig);
}

/* On the ops side, where there are few. */
TEST(the_oldest_of_the_silent_makes_room)
{
    int silent[KS_OPS_GUESTS_MAX + 1];
    char byte;

    rig_begin(&rig);
    for (int i = 0; i <= KS_OPS_GUESTS_MAX; i++) {
        silent[i] = rig_connect(&rig, "ops");
        rig_turn(&rig, 1);
    }
    EXPECT_EQ_I64(ks_metric_number(KS_METRIC_CONNECTIONS), KS_OPS_GUESTS_MAX);
    EXPECT(recv(silent[0], &byte, 1, MSG_DONTWAIT) == 0);
    EXPECT(recv(silent[1], &byte, 1, MSG_DONTWAIT) < 0);
    EXPECT_CONTAINS(rig_ops(&rig, "/livez"), "HTTP/1.1 200");
    for (int i = 0; i <= KS_OPS_GUESTS_MAX; i++)
        (void)close(silent[i]);
    rig_end(&rig);
}

TEST(socket_files_are_removed_at_the_end)
{
    struct stat status;

    rig_begin(&rig);
    EXPECT(stat(ks_test_path("api"), &status) == 0);
    EXPECT_EQ_U64(status.st_mode & 0777, 0660);
    rig_end(&rig);
    EXPECT(stat(ks_test_path("api"), &status) != 0);
}
