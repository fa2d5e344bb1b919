/* SPDX-License-Identifier: Apache-2.0 */
/* http2_rig.h - an HTTP/2 client for tests, made of nghttp2, that turns the rig's loop itself; and routes under /test/
 * whose handlers do what no real one does yet.
 */
#ifndef KS_TEST_HTTP2_RIG_H
#define KS_TEST_HTTP2_RIG_H

#include <nghttp2/nghttp2.h>

#include "unit/api/api_rig.h"

struct http2_answer {
    int32_t id;
    int status;
    char headers[40000]; /* "name: value\n" of each, without :status. */
    char trailers[40000];
    uint8_t *body;
    size_t size;
    bool ended;     /* END_STREAM came. */
    bool closed;    /* The stream is over. */
    uint32_t error; /* Then why. */
    /* What is still to be sent. */
    const uint8_t *upload;
    size_t upload_size;
    bool upload_end;
    bool upload_waits;
    struct http2_answer *next; /* Of the client's. */
};

struct http2_client {
    struct rig *rig;
    int fd;
    nghttp2_session *session;
    struct http2_answer *answers;
    bool hold;   /* It does not read. */
    bool closed; /* The server has closed. */
    uint32_t goaways;
    int32_t goaway_last;
    uint32_t goaway_error;
    int continued; /* Answers 100. */
};

/* Connects to the rig's "api" or "ops". `window`: of a stream, 0 for the usual. */
void http2_begin(struct http2_client *client, struct rig *rig, const char *name, uint32_t window);
void http2_end(struct http2_client *client);
/* Sends a request; `header` is a line more, "name: value", or NULL. `body` NULL: there is none; with `open` it goes on
 * with http2_upload. The answer lives until http2_end. */
struct http2_answer *http2_ask(struct http2_client *client, const char *method, const char *path,
                               const char *header, const char *body, bool open);
/* The next part; `bytes` live until they are gone. */
void http2_upload(struct http2_client *client, struct http2_answer *answer, const void *bytes,
                  size_t size, bool end);
void http2_cancel(struct http2_client *client, struct http2_answer *answer);
/* Both sides work for one turn of the loop. */
void http2_turn(struct http2_client *client);
void http2_turns(struct http2_client *client, int64_t ms);
/* Until the stream is over; fails the test if that takes too long. */
void http2_wait(struct http2_client *client, struct http2_answer *answer);
/* Until so many bytes of the body are there. */
void http2_wait_bytes(struct http2_client *client, struct http2_answer *answer, size_t size);
/* Sends bytes beside the session, and reads nothing. */
void http2_raw(struct http2_client *client, const void *bytes, size_t size);
/* Until the server has closed. */
void http2_wait_closed(struct http2_client *client);

/* The routes. /test/echo gives parts back as they come, then the trailer "x-end: yes"; /test/hold
 * keeps what comes until http2_release(); /test/early answers a streamed body at its first part, with
 * trailers; /test/full when a window is full, and gives nothing back. /test/bytes answers with as
 * many bytes of a pattern as the header x-bytes says; /test/abort writes 100 of them and gives up;
 * /test/head answers with the header x-ask as x-told and as trailer; /test/only has no body;
 * /test/wrong breaks a header. */
void http2_routes(struct rig *rig);
uint8_t http2_pattern(size_t at);
struct http2_seen {
    size_t held;     /* Bytes that /test/hold was given and has not given back. */
    size_t total;    /* All it was given. */
    size_t sent;     /* Bytes of /test/bytes that are in the socket. */
    uint32_t closed; /* Exchanges of these routes that were closed. */
    bool ended;      /* A request's end was seen. */
};
extern struct http2_seen http2_seen;
void http2_release(void);

#endif
