/* SPDX-License-Identifier: Apache-2.0 */
/* http.h - one request to the sidecar at a time, by libcurl. */
#ifndef KS_HTTP_H
#define KS_HTTP_H

#include <curl/curl.h>

#include "options.h"

struct ks_http {
    const struct ks_options *options;
    CURL *easy;
    struct curl_slist *headers;
    struct ks_buffer url;
    struct ks_buffer
        answer; /* The body, unless the caller has set a function of its own that takes it. */
    char error[CURL_ERROR_SIZE];
};

/* Makes a handle. `answer_ms_max`: how long a request may take; 0: without a limit. Returns
 * false if there is no memory; ks_http_free() is to be called in any case. */
bool ks_http_init(struct ks_http *http, const struct ks_options *options, long answer_ms_max);

void ks_http_free(struct ks_http *http);

/* Prepares a request. Returns false if it cannot be sent: http->error has the reason. */
bool ks_http_set_stream(struct ks_http *http);
bool ks_http_set_settle(struct ks_http *http,
                        const struct ks_buffer *body); /* `body` is used until the end. */
bool ks_http_set_delete(struct ks_http *http);

/* The HTTP status of the answer; 0: there is none yet. */
int ks_http_status(const struct ks_http *http);

/* The answer wants the same request again later: in how many milliseconds at the earliest; less
 * than 0: it does not. */
int64_t ks_http_retry_after(const struct ks_http *http);

/* The error that the answer carries. */
ks_client_error ks_http_refusal(const struct ks_http *http);

/* What went wrong in the connection. */
const char *ks_http_error(const struct ks_http *http, CURLcode result);

/* Adds a part of the answer to http->answer: a function for CURLOPT_WRITEFUNCTION. */
size_t ks_http_take(char *data, size_t one, size_t size, void *http);

#endif
