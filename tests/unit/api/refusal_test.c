/* SPDX-License-Identifier: Apache-2.0 */
#include "api/refusal.h"
#include "ks_test.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* All that was said, to the end of the connection. */
static const char *refuse(enum ks_problem problem)
{
    static char said[4096];
    int pair[2];
    ssize_t size;

    EXPECT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    ks_refuse(pair[0], problem, "a \"reason\"");
    size = recv(pair[1], said, sizeof(said) - 1, MSG_WAITALL);
    EXPECT(size > 0);
    said[size] = '\0';
    EXPECT(close(pair[0]) == 0);
    EXPECT(close(pair[1]) == 0);
    return said;
}

TEST(a_refusal_is_a_whole_answer_with_the_error_body)
{
    const char *said = refuse(KS_PROBLEM_UNAVAILABLE);

    EXPECT_CONTAINS(said, "HTTP/1.1 503 ");
    EXPECT_CONTAINS(said, "Connection: close\r\n");
    EXPECT_CONTAINS(said, "Retry-After: 1\r\n");
    EXPECT_CONTAINS(said, "\r\n\r\n{\"type\":\"urn:kinesis-sidecar:problem:unavailable\"");
    EXPECT_CONTAINS(said, "a \\\"reason\\\"");
}

TEST(what_will_not_be_better_later_is_not_to_be_retried)
{
    const char *said = refuse(KS_PROBLEM_HTTP_VERSION);

    EXPECT_CONTAINS(said, "HTTP/1.1 505 ");
    EXPECT_CONTAINS(said, "\"retryable\":false");
    EXPECT(strstr(said, "Retry-After") == NULL);
}
