/* SPDX-License-Identifier: Apache-2.0 */
/* http_script.h - a small HTTP server on the loopback interface that plays a script, for tests of
 * HTTP clients.
 *
 * Each request, on whatever connection, is answered by the next step; the last step repeats. The
 * server runs on a thread of its own, one thing at a time: a step that waits makes everybody wait.
 */
#ifndef KS_HTTP_SCRIPT_H
#define KS_HTTP_SCRIPT_H

#include "certificates.h"

#include <stdbool.h>
#include <stddef.h>

struct http_step {
    int wait_ms;         /* Before anything else. */
    bool silent;         /* Never answers; the connection stays. */
    bool cut;            /* Closes the connection; after `raw` if there is one. */
    const char *raw;     /* Exactly these bytes. Else an answer is made of the rest: */
    size_t raw_size;     /* 0: `raw` is a text. */
    int status;          /* 0: 200. */
    const char *headers; /* "Name: value\r\n", each. */
    const char *body;
    size_t filler; /* Instead of a body: so many times 'x'. */
    bool chunked;  /* The body in pieces of 1,000 bytes, without Content-Length. */
};

struct http_script;

/* Listens at once. The steps are not copied. */
struct http_script *http_script_start(const struct http_step *steps, size_t count);
/* The same with TLS, and a certificate that it signed itself for localhost and 127.0.0.1, written
 * to `pem_path`. */
struct http_script *http_script_start_tls(const struct http_step *steps, size_t count,
                                          const char *pem_path);
/* The same with a certificate of the test's; takes `tls`. */
struct http_script *http_script_start_with(const struct http_step *steps, size_t count,
                                           SSL_CTX *tls);
/* "http://127.0.0.1:port", or https. */
const char *http_script_url(const struct http_script *script);
/* Whole requests that came so far. */
size_t http_script_count(struct http_script *script);
/* Request `index`, head and body, NUL-terminated (a copy for ever). At most 64 are kept. */
const char *http_script_request(struct http_script *script, size_t index);
/* Connections that were accepted so far. */
size_t http_script_connections(struct http_script *script);
void http_script_stop(struct http_script *script);

/* The TLS of such a server, with a new certificate. The caller's: SSL_CTX_free. */
SSL_CTX *http_script_tls(const char *pem_path);

#endif
