/* SPDX-License-Identifier: Apache-2.0 */
#include "api/refusal.h"

#include <sys/socket.h>

void ks_refuse(int fd, enum ks_problem problem, const char *detail)
{
    struct ks_bytes text;
    struct ks_bytes body;

    ks_bytes_init(&text, 4096);
    ks_bytes_init(&body, 4096);
    if (ks_ok(ks_problem_write(problem, ks_view_text(detail), KS_VIEW(""), &body)) &&
        ks_ok(ks_bytes_format(
            &text,
            "HTTP/1.1 %u Refused\r\nConnection: close\r\n%s"
            "Content-Type: application/problem+json\r\nContent-Length: %zu\r\n\r\n",
            ks_problem_status(problem),
            ks_problem_is_retryable(problem) ? "Retry-After: 1\r\n" : "", body.size)) &&
        ks_ok(ks_bytes_append(&text, ks_bytes_view(&body)))) {
        if (send(fd, text.data, text.size, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
            (void)shutdown(fd, SHUT_WR);
    }
    ks_bytes_free(&body);
    ks_bytes_free(&text);
}
