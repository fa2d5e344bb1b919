/* SPDX-License-Identifier: Apache-2.0 */
/* problem.h - the one error body.
 *
 * Its members satisfy a plain client (RFC 9457: type title status detail instance) and a Connect
 * client (connectrpc.com/docs/protocol: code message details), plus `retryable`. One table maps
 * kinds to both.
 */
#ifndef KS_API_PROBLEM_H
#define KS_API_PROBLEM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

/* The message that goes with a failed call (proto/kinesis_sidecar/v1/problem.proto). */
#define KS_PROBLEM_MESSAGE "kinesis_sidecar.v1.Problem"

/* 405 and 415 have no code of their own: "unknown" is what a Connect client makes of them (Error Codes, HTTP
 * to Error Code).
 */
/*  kind                   type (the end of a urn)    Connect code           status retry  title */
#define KS_PROBLEM_TABLE(X)                                                                        \
    X(INVALID_ARGUMENT, "invalid-argument", "invalid_argument", 400, false, "Invalid argument")    \
    X(FAILED_PRECONDITION, "failed-precondition", "failed_precondition", 400, false,               \
      "Failed precondition")                                                                       \
    X(UNAUTHENTICATED, "unauthenticated", "unauthenticated", 401, false, "Unauthenticated")        \
    X(PERMISSION_DENIED, "permission-denied", "permission_denied", 403, false,                     \
      "Permission denied")                                                                         \
    X(NOT_FOUND, "not-found", "not_found", 404, false, "Not found")                                \
    X(METHOD_NOT_ALLOWED, "method-not-allowed", "unknown", 405, false, "Method not allowed")       \
    X(SESSION_FENCED, "session-fenced", "aborted", 409, false, "Session taken over")               \
    X(LEASE_LOST, "lease-lost", "aborted", 409, false, "Lease lost")                               \
    X(REDRIVEN, "already-redriven", "aborted", 409, true, "Being delivered again")                 \
    X(ORDERING, "ordering-conflict", "aborted", 409, true,                                         \
      "Other sessions are ordered differently")                                                    \
    X(SESSION_EXPIRED, "session-expired", "failed_precondition", 410, false, "Session expired")    \
    X(TOO_LARGE, "content-too-large", "resource_exhausted", 413, false, "Content too large")       \
    X(MEDIA_TYPE, "unsupported-media-type", "unknown", 415, false, "Unsupported media type")       \
    X(EXHAUSTED, "resource-exhausted", "resource_exhausted", 429, true, "Resource exhausted")      \
    X(HEAD_TOO_LARGE, "head-too-large", "resource_exhausted", 431, false,                          \
      "Request header too large")                                                                  \
    X(INTERNAL, "internal", "internal", 500, false, "Internal error")                              \
    X(UNIMPLEMENTED, "unimplemented", "unimplemented", 501, false, "Not implemented")              \
    X(UNAVAILABLE, "unavailable", "unavailable", 503, true, "Unavailable")                         \
    X(TIMEOUT, "deadline-exceeded", "deadline_exceeded", 504, true, "Deadline exceeded")           \
    X(HTTP_VERSION, "http-version", "unimplemented", 505, false, "HTTP version not supported")

enum ks_problem {
#define X(kind, type, code, status, retry, title) KS_PROBLEM_##kind,
    KS_PROBLEM_TABLE(X)
#undef X
};

uint16_t ks_problem_status(enum ks_problem problem);
/* True if the same request may succeed later; then the answer has a Retry-After. */
bool ks_problem_is_retryable(enum ks_problem problem);
/* The Connect code, "invalid_argument". */
const char *ks_problem_code(enum ks_problem problem);

/* Appends the JSON object. `detail` is a sentence for people, `instance` the target that was asked
 * for; both may hold any bytes. FULL, NO_MEMORY. */
KS_MUST_USE ks_err ks_problem_write(enum ks_problem problem, ks_view detail, ks_view instance,
                                    struct ks_bytes *body);
struct KinesisSidecar__V1__Problem;
/* Fills the message, without its instance; the texts live as long as `detail`. */
void ks_problem_fill(enum ks_problem problem, const char *detail,
                     struct KinesisSidecar__V1__Problem *ret_message);
/* Appends the message KS_PROBLEM_MESSAGE in protobuf. FULL, NO_MEMORY. */
KS_MUST_USE ks_err ks_problem_pack(enum ks_problem problem, const char *detail, ks_view instance,
                                   struct ks_bytes *bytes);

struct ks_writer;
/* Writes the members of RFC 9457 and `retryable`, without braces around them. */
void ks_problem_members(struct ks_writer *json, enum ks_problem problem, ks_view detail,
                        ks_view instance);

#endif
