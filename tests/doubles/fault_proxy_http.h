/* SPDX-License-Identifier: Apache-2.0 */
/* fault_proxy_http.h - the HTTP/1.1 on a connection of the fault proxy, and what happens to its requests and answers.
 *
 * Where a message begins and ends is followed from the first byte of a connection on. What is not HTTP, and what comes
 * after an answer whose end cannot be known (without a Content-Length), is passed on as it is.
 */
#ifndef TESTS_DOUBLES_FAULT_PROXY_HTTP_H
#define TESTS_DOUBLES_FAULT_PROXY_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { HTTP_CODE_BYTES = 64, HTTP_ANSWER_BYTES = 1024 };

struct http_refusal {
    int status;
    char code[HTTP_CODE_BYTES];
};

/* What is to happen, to so many of the next requests: of the operation or the method `only`, "" = of any, and with
 * `containing` in the body, "" = with any. */
struct http_rules {
    struct http_refusal refusal;
    uint32_t refuse; /* Answered with the refusal, and not passed on. */
    uint32_t lose;   /* Done, and then the connection is reset. */
    uint32_t reset;  /* Not passed on: the connection is reset. */
    uint32_t mute;   /* Not passed on, and never answered. */
    uint32_t wrong_crc;
    int64_t skew_s; /* Added to the Date of every answer. */
    char only[HTTP_CODE_BYTES];
    char containing[HTTP_CODE_BYTES];
    uint64_t spoiled; /* So many it has happened to. */
};

struct http_side {
    bool opaque;
    uint64_t body_left;
};

/* One connection. */
struct http {
    struct http_side requests, answers;
    /* What happens to the request that is under way. */
    bool refusing, losing, spoiling, resetting, muted;
    bool xml; /* It has no X-Amz-Target: its refusal is as S3 writes it. */
    struct http_refusal refusal;
};

enum http_verdict {
    HTTP_WAIT,   /* Not enough of it is there to tell. */
    HTTP_PASS,   /* These bytes go on, */
    HTTP_DROP,   /* these do not, */
    HTTP_REFUSE, /* nor do these, and the request is answered with http_print_refusal. */
    HTTP_RESET   /* The connection ends. */
};

/* What to do with the first `*ret_size` of these bytes, which follow those of the last call. `size` is not 0. */
enum http_verdict http_request(struct http *http, struct http_rules *rules, const uint8_t *bytes,
                               size_t size, size_t *ret_size);
/* The same for answers; changes their heads in place. */
enum http_verdict http_answer(struct http *http, struct http_rules *rules, uint8_t *bytes,
                              size_t size, size_t *ret_size);
/* Returns the size. */
size_t http_print_refusal(const struct http *http, char text[HTTP_ANSWER_BYTES]);

#endif
