/* SPDX-License-Identifier: Apache-2.0 */
#include "api/doors.h"
#include "base/metrics.h"
#include "ks_test.h"
#include "unit/api/api_rig.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct rig rig;

TEST(http_2_is_told_that_it_is_not_spoken)
{
    const char *answer;
    int fd;

    rig_begin(&rig);
    fd = rig_connect(&rig, "api");
    rig_send(&rig, fd, "PR", 2);
    rig_turn(&rig, 50);
    rig_send(&rig, fd, "I * HTTP/2.0\r\n\r\nSM\r\n\r\n", 22);
    answer = rig_read(&rig, fd, NULL);
    EXPECT_CONTAINS(answer, "HTTP/1.1 505");
    EXPECT(strstr(answer, "Retry-After") == NULL);
    (void)close(fd);
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

/* 16 may come in; a crowd there does not keep the probes out. */
TEST(one_connection_too_many_is_told_so)
{
    int fds[16];
    int late;

    rig_begin(&rig);
    for (int i = 0; i < 16; i++)
        fds[i] = rig_connect(&rig, "api");
    rig_turn(&rig, 50);
    EXPECT_EQ_I64(ks_metric_number(KS_METRIC_CONNECTIONS), 16);
    late = rig_connect(&rig, "api");
    EXPECT_CONTAINS(rig_read(&rig, late, NULL), "--max-connections");
    (void)close(late);
    EXPECT_CONTAINS(rig_ops(&rig, "/livez"), "HTTP/1.1 200");
    for (int i = 0; i < 16; i++)
        (void)close(fds[i]);
    rig_turn(&rig, 50);
    EXPECT_EQ_I64(ks_metric_number(KS_METRIC_CONNECTIONS), 0);
    EXPECT_CONTAINS(rig_call(&rig, "GET", "/v1/status", ""), "HTTP/1.1 200");
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
