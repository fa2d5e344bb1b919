/* SPDX-License-Identifier: Apache-2.0 */
/* client.h - a small HTTP/1.1 client for our own local API, for the subcommands that talk to a
 * running sidecar.
 *
 * Blocking, one request per connection, over TCP or a Unix socket, without TLS and without names:
 * an address is numbers or a path. Reads heads of at most 16 KiB, at most 16 of 1xx before the one
 * that counts, bodies with a Content-Length, chunked with at most 16 trailers, or up to the end of the
 * connection (RFC 9112).
 */
#ifndef KS_MAIN_CLIENT_H
#define KS_MAIN_CLIENT_H

#include "base/address.h"
#include "base/instant.h"

struct ks_client_request {
    const char *method;
    const char *target; /* "/v1/records?max_records=10", escaped. */
    const char *token;  /* Bearer token; "" or NULL: none. */
    const char *accept; /* NULL: whatever comes. */
    ks_view body;       /* Sent as application/json if it is not empty, or the method is POST. */
    ks_span timeout;    /* Without a single byte. */
    /* Takes the next bytes of the body. Another result than KS_OK ends the call with it. */
    ks_err (*part)(void *arg, ks_view bytes);
    void *arg;
};

/* Sends it to the first of the addresses that can be reached. KS_OK: the whole answer came, whatever
 * its status. CONNECTION (nobody listens, or it was cut), TIMEOUT, MALFORMED, or what `part` said. */
KS_MUST_USE ks_err ks_client_call(const struct ks_address *addresses, uint32_t address_count,
                                  const struct ks_client_request *request, int *ret_status,
                                  struct ks_detail *detail);

/* Appends `text` percent-encoded, so that it is a value in a query (RFC 3986, unreserved characters stay). FULL,
 * NO_MEMORY. */
KS_MUST_USE ks_err ks_client_append_query(struct ks_bytes *bytes, ks_view text);

#endif
