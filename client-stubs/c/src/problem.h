/* SPDX-License-Identifier: Apache-2.0 */
/* problem.h - the body of a refusal: an object of JSON (RFC 9457). */
#ifndef KS_PROBLEM_H
#define KS_PROBLEM_H

#include <stdbool.h>
#include <stddef.h>

struct ks_problem {
    char code[64];
    char detail[400];
    bool is_retryable;
};

/* Reads the members that the package uses. Those that are absent, and all of another body, are
 * "" and false. */
struct ks_problem ks_problem_read(const char *body, size_t size);

#endif
