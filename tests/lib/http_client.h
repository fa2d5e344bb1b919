/* SPDX-License-Identifier: Apache-2.0 */
/* http_client.h - the smallest HTTP/1.1 client on loopback: for benchmarks, which must not pay for
 * a large one.
 *
 * Blocking sockets. It talks to our own server: answers have a Content-Length or are chunked, and
 * it ends the program (meter_fail) on anything else. No TLS, no redirects, no proxies.
 */
#ifndef TESTS_LIB_HTTP_CLIENT_H
#define TESTS_LIB_HTTP_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A port of 127.0.0.1 that was free a moment ago. */
uint16_t http_free_port(void);
/* Connects to 127.0.0.1, trying for ten seconds until somebody listens. TCP_NODELAY. */
int http_connect(uint16_t port);

/* Listens there until one client has connected: its connection. TCP_NODELAY. */
int http_accept(uint16_t port);

/* Sends all bytes. */
void http_send(int fd, const void *data, size_t size);
/* Sends a request; `headers` are whole lines, each with its CR LF, or "". */
void http_request(int fd, const char *method, const char *target, const char *headers,
                  const void *body, size_t size);

/* An answer with a Content-Length. `body` is NUL-terminated. */
struct http_answer {
    int status;
    char *body; /* In the buffer that was given. */
    size_t size;
};

/* Waits for a whole answer, which must fit into `buffer`. */
struct http_answer http_wait(int fd, char *buffer, size_t capacity);

/* A streamed answer: its head is read, then its chunks are joined. */
struct http_stream {
    int fd;
    size_t left; /* Of the open chunk. */
    enum { HTTP_STREAM_SIZE, HTTP_STREAM_DATA, HTTP_STREAM_END_OF_CHUNK, HTTP_STREAM_OVER } state;
    uint8_t *raw; /* What was received and not looked at. */
    size_t raw_at;
    size_t raw_size;
    size_t raw_capacity;
    uint64_t received; /* Bytes of the socket, the head not counted. */
};

/* Reads the head; returns the status. Other than 200: closes the connection, and nothing may be
 * read. `read_bytes` is how much is asked of the socket at a time. */
int http_stream_open(struct http_stream *stream, int fd, size_t read_bytes);
/* Receives once, if nothing is left of before, and copies content to `buffer`. 0 at the end of the
 * stream. */
size_t http_stream_read(struct http_stream *stream, uint8_t *buffer, size_t capacity);
/* True if something was received that http_stream_read has not given out: poll(2) does not see it.
 */
bool http_stream_holds(const struct http_stream *stream);
/* Closes the socket. */
void http_stream_close(struct http_stream *stream);

#endif
