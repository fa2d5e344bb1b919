/* SPDX-License-Identifier: Apache-2.0 */
/* options.h - the options of a consumer, with their defaults, and what follows from them:
 * address, token, targets. */
#ifndef KS_OPTIONS_H
#define KS_OPTIONS_H

#include "buffer.h"
#include "kinesis-sidecar-client.h"

struct ks_options {
    ks_consumer_options given; /* With the defaults. Its texts are copies. */
    char *client_id;
    char *shards;       /* The ids, escaped for a query and joined by commas; NULL: all. */
    char *subscription; /* Escaped for a query; NULL: none. So are share, salt and filter. */
    char *share;
    char *salt;
    char *filter;
    char *base;         /* http://HOST:PORT */
    const char *socket; /* Path of a Unix socket, a part of given.url; NULL: none. */
    char invalid[256];  /* What is invalid; "": nothing. */
};

/* Copies the options. Returns false if there is no memory; ks_options_free() is to be called in
 * any case. */
bool ks_options_init(struct ks_options *options, const char *client_id,
                     const ks_consumer_options *given);

void ks_options_free(struct ks_options *options);

/* Sets the ordering for a share or so many handlers, unless the app has chosen one. */
void ks_options_order(struct ks_options *options, uint32_t concurrency);

/* Writes the URL of a request, for example
 * "http://127.0.0.1:8990/v1/records/settle?subscription=orders". */
void ks_options_add_stream_url(const struct ks_options *options, struct ks_buffer *url);
void ks_options_add_settle_url(const struct ks_options *options, struct ks_buffer *url);
void ks_options_add_session_url(const struct ks_options *options, struct ks_buffer *url);

/* Reads the token file, and writes a header with the token, or nothing if there is no file.
 * Returns false if the file cannot be read. */
bool ks_options_add_authorization(const struct ks_options *options, struct ks_buffer *header);

#endif
