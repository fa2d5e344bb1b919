/* SPDX-License-Identifier: Apache-2.0 */
/* err.h - the one error value of the house.
 *
 * A ks_err is a struct with one code, so that ignoring it, testing it as a boolean or comparing it with 0 does not
 * compile. One table lists every code with its class: what a caller may do about it. Detail for people travels beside
 * it in a struct ks_detail, at the edges only (aws, adapters, api), never in core.
 */
#ifndef KS_BASE_ERR_H
#define KS_BASE_ERR_H

#include <stdbool.h>
#include <stdint.h>

#define KS_MUST_USE __attribute__((warn_unused_result))
/* An array that is written before it is read, on a path of each record: -ftrivial-auto-var-init does not fill it. */
#if defined(__has_attribute) && __has_attribute(uninitialized)
#define KS_UNFILLED __attribute__((uninitialized))
#else
#define KS_UNFILLED
#endif

enum ks_err_class {
    KS_CLASS_OK,
    KS_CLASS_RETRY,  /* May or may not be done; ask again after a back-off. */
    KS_CLASS_REREAD, /* The world moved on; read before the next write. */
    KS_CLASS_SHED,   /* We are full; do less. */
    KS_CLASS_REPORT  /* Somebody must look; the operation is over. */
};

/*   code  word  class  what it says to a person */
#define KS_ERR_TABLE(X)                                                                            \
    X(TIMEOUT, "timeout", RETRY, "no answer in time")                                              \
    X(CONNECTION, "connection", RETRY, "connection failed or was cut")                             \
    X(SERVER, "server", RETRY, "the server failed")                                                \
    X(THROTTLED, "throttled", RETRY, "the server asks for less")                                   \
    X(BUSY, "busy", RETRY, "busy, try again")                                                      \
    X(CONDITION, "condition", REREAD, "the condition of the write did not hold")                   \
    X(EXPIRED, "expired", REREAD, "expired")                                                       \
    X(FULL, "full", SHED, "a limit is reached")                                                    \
    X(NO_MEMORY, "no_memory", SHED, "out of memory")                                               \
    X(DENIED, "denied", REPORT, "access denied")                                                   \
    X(MALFORMED, "malformed", REPORT, "malformed bytes")                                           \
    X(INVALID, "invalid", REPORT, "invalid value")                                                 \
    X(NOT_FOUND, "not_found", REPORT, "not found")                                                 \
    X(EXISTS, "exists", REPORT, "exists already")                                                  \
    X(FOREIGN, "foreign", REPORT, "not ours: another schema or owner")                             \
    X(UNSUPPORTED, "unsupported", REPORT, "not supported")                                         \
    X(NO_CREDENTIALS, "no_credentials", REPORT, "no credentials found")                            \
    X(CORRUPT, "corrupt", REPORT, "corrupted data")                                                \
    X(DISK, "disk", REPORT, "the disk refused")                                                    \
    X(SYSTEM, "system", REPORT, "the operating system refused")                                    \
    X(CANCELLED, "cancelled", REPORT, "cancelled")

enum ks_err_code {
    KS_ERR_NONE,
#define X(name, word, class, text) KS_ERR_##name,
    KS_ERR_TABLE(X)
#undef X
};

typedef struct ks_err {
    uint16_t code; /* enum ks_err_code; read it through the functions below. */
} ks_err;

#define KS_OK ((ks_err){KS_ERR_NONE})
#define KS_FAIL(name) ((ks_err){KS_ERR_##name})

static inline bool ks_ok(ks_err err)
{
    return err.code == KS_ERR_NONE;
}

/* True if `err` is the one code `code` (an enum ks_err_code). */
static inline bool ks_err_is(ks_err err, enum ks_err_code code)
{
    return err.code == code;
}

/* What a caller may do about it. KS_CLASS_OK for KS_OK. */
enum ks_err_class ks_err_class(ks_err err);

/* The code as a lower-case word ("throttled") and as a phrase for people. Static storage. */
const char *ks_err_name(ks_err err);
const char *ks_err_text(ks_err err);

/* Passes a failure on to our own caller. The only macro with control flow. */
#define KS_TRY(expr)                                                                               \
    do {                                                                                           \
        ks_err ks_try_err = (expr);                                                                \
        if (!ks_ok(ks_try_err))                                                                    \
            return ks_try_err;                                                                     \
    } while (0)

enum { KS_DETAIL_SIZE = 256 };

/* A sentence for people that goes with an error: what failed, on what, what to do. Always NUL-terminated. */
struct ks_detail {
    char text[KS_DETAIL_SIZE];
};

/* Fills the detail, cutting what does not fit at a whole character; it is one line, and what others wrote commands
 * nothing: a control character (C0, DEL) becomes '?'. A NULL detail is allowed and does nothing. (In base/detail.c, for
 * err.c is part of the pure ground.) */
void ks_detail_set(struct ks_detail *detail, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The same, and returns `err`: `return ks_err_because(KS_FAIL(INVALID), detail, "..", ..)`. */
KS_MUST_USE ks_err ks_err_because(ks_err err, struct ks_detail *detail, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
