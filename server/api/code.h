/* SPDX-License-Identifier: Apache-2.0 */
/* code.h - the sixteen ways in which a call fails, as all RPC protocols know them.
 *
 * Numbers: github.com/grpc/grpc, doc/statuscodes.md. Names and HTTP statuses: connectrpc.com/docs/protocol,
 * Error Codes.
 */
#ifndef KS_API_CODE_H
#define KS_API_CODE_H

#include <stdint.h>

#include "api/problem.h"

/*  name                 number  Connect's name         HTTP */
#define KS_CODE_TABLE(X)                                                                           \
    X(CANCELED, 1, "canceled", 499)                                                                \
    X(UNKNOWN, 2, "unknown", 500)                                                                  \
    X(INVALID_ARGUMENT, 3, "invalid_argument", 400)                                                \
    X(DEADLINE_EXCEEDED, 4, "deadline_exceeded", 504)                                              \
    X(NOT_FOUND, 5, "not_found", 404)                                                              \
    X(ALREADY_EXISTS, 6, "already_exists", 409)                                                    \
    X(PERMISSION_DENIED, 7, "permission_denied", 403)                                              \
    X(RESOURCE_EXHAUSTED, 8, "resource_exhausted", 429)                                            \
    X(FAILED_PRECONDITION, 9, "failed_precondition", 400)                                          \
    X(ABORTED, 10, "aborted", 409)                                                                 \
    X(OUT_OF_RANGE, 11, "out_of_range", 400)                                                       \
    X(UNIMPLEMENTED, 12, "unimplemented", 501)                                                     \
    X(INTERNAL, 13, "internal", 500)                                                               \
    X(UNAVAILABLE, 14, "unavailable", 503)                                                         \
    X(DATA_LOSS, 15, "data_loss", 500)                                                             \
    X(UNAUTHENTICATED, 16, "unauthenticated", 401)

enum ks_code {
    KS_CODE_OK,
#define X(kind, number, name, http) KS_CODE_##kind = number,
    KS_CODE_TABLE(X)
#undef X
};

/* "invalid_argument"; not of KS_CODE_OK. */
const char *ks_code_name(enum ks_code code);
/* The HTTP status of a Connect answer without a stream. */
uint16_t ks_code_http(enum ks_code code);
/* The code that the API's table of errors gives a problem. */
enum ks_code ks_code_of_problem(enum ks_problem problem);

#endif
