/* SPDX-License-Identifier: Apache-2.0 */
/* canned.h - a server on loopback that gives the answers it was told to, one after the other.
 *
 * For what no emulator does: throttling, answers that are cut, servers that speak no CBOR. It runs on the
 * test's own loop. Whatever surprises it fails the test.
 */
#ifndef TESTS_UNIT_ADAPTERS_KINESIS_CANNED_H
#define TESTS_UNIT_ADAPTERS_KINESIS_CANNED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/loop.h"

enum { CANNED_CONNECTIONS = 8, CANNED_ANSWERS = 32, CANNED_REQUEST_MAX = 8192 };

struct canned_answer {
    const char *operation; /* What must be asked: "GetRecords". */
    int status;            /* 0: the connection is cut instead of an answer. */
    const char *type;      /* Content-Type; NULL: application/x-amz-json-1.1. */
    const char *headers;   /* More of them, each with its line end; NULL: none. */
    const char *body;
    size_t size;     /* Of the body; 0: it is a text. */
    bool lengthless; /* No Content-Length: the end of the connection ends it. */
    bool never;      /* No answer at all. */
    bool foreign;    /* Without the request id that an AWS service gives. */
};

struct canned_request {
    char operation[64];
    char type[64];
    char body[CANNED_REQUEST_MAX];
    ks_instant at;
};

struct canned;

struct canned_connection {
    struct ks_watch watch;
    struct canned *canned;
    char bytes[CANNED_REQUEST_MAX];
    size_t size;
    const char *rest; /* Of the answer's body, not sent yet. */
    size_t rest_size;
    bool rest_ends; /* With it the connection. */
};

struct canned {
    struct ks_loop *loop;
    struct ks_watch listener;
    char url[64];
    struct canned_connection connections[CANNED_CONNECTIONS];
    struct canned_answer answers[CANNED_ANSWERS];
    struct canned_request requests[CANNED_ANSWERS];
    uint32_t answer_count;
    uint32_t request_count; /* So far; more than there are answers fails the test. */
};

void canned_open(struct canned *canned, struct ks_loop *loop);
void canned_close(struct canned *canned);
/* The next answer after those that were told before. */
void canned_say(struct canned *canned, struct canned_answer answer);

#endif
