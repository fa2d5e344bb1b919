/* SPDX-License-Identifier: Apache-2.0 */
#include "http.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "problem.h"

enum {
    CONNECT_MS_MAX = 5000, /* The sidecar is on this machine: it answers at once or not at all. */
    READ_BYTES = 256 << 10,
    MS_PER_S = 1000
};

#define PROTOBUF "application/x-protobuf"

size_t ks_http_take(char *data, size_t one, size_t size, void *context)
{
    struct ks_http *http = context;

    (void)one;
    ks_buffer_add(&http->answer, data, size);
    return http->answer.is_full ? 0 : size;
}

bool ks_http_init(struct ks_http *http, const struct ks_options *options, long answer_ms_max)
{
    CURL *easy = curl_easy_init();

    *http = (struct ks_http){.options = options, .easy = easy};
    if (easy == NULL)
        return false;
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    (void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS_MAX);
    (void)curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, answer_ms_max);
    (void)curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, (long)READ_BYTES);
    (void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, http->error);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, ks_http_take);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, http);
    return curl_easy_setopt(easy, CURLOPT_NOPROXY, "*") == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, options->socket) == CURLE_OK;
}

void ks_http_free(struct ks_http *http)
{
    curl_easy_cleanup(http->easy);
    curl_slist_free_all(http->headers);
    ks_buffer_free(&http->url);
    ks_buffer_free(&http->answer);
}

static bool fail(struct ks_http *http, const char *what, const char *why)
{
    (void)snprintf(http->error, sizeof(http->error), "%.150s: %.80s", what, why);
    return false;
}

static bool add_header(struct ks_http *http, const char *header)
{
    struct curl_slist *headers = curl_slist_append(http->headers, header);

    if (headers == NULL)
        return fail(http, "headers", strerror(ENOMEM));
    http->headers = headers;
    return true;
}

/* The token file is read for each request: tokens are rotated. */
static bool add_authorization(struct ks_http *http)
{
    struct ks_buffer header = {0};
    bool is_added = false;

    if (!ks_options_add_authorization(http->options, &header))
        return fail(http, http->options->given.token_file, strerror(errno));
    if (header.size == 0)
        return true;
    if (ks_buffer_text(&header) != NULL)
        is_added = add_header(http, ks_buffer_text(&header));
    ks_buffer_free(&header);
    return is_added;
}

static bool begin(struct ks_http *http, const char *method,
                  void (*add_url)(const struct ks_options *, struct ks_buffer *))
{
    const char *url;

    http->error[0] = '\0';
    ks_buffer_clear(&http->answer);
    ks_buffer_clear(&http->url);
    add_url(http->options, &http->url);
    url = ks_buffer_text(&http->url);
    curl_slist_free_all(http->headers);
    http->headers = NULL;
    (void)curl_easy_setopt(http->easy, CURLOPT_HTTPGET, 1L);
    if (url == NULL || curl_easy_setopt(http->easy, CURLOPT_URL, url) != CURLE_OK ||
        curl_easy_setopt(http->easy, CURLOPT_CUSTOMREQUEST, method) != CURLE_OK)
        return fail(http, "request", strerror(ENOMEM));
    return add_authorization(http) && add_header(http, "Accept: " PROTOBUF);
}

static bool end(struct ks_http *http)
{
    return curl_easy_setopt(http->easy, CURLOPT_HTTPHEADER, http->headers) == CURLE_OK;
}

bool ks_http_set_stream(struct ks_http *http)
{
    return begin(http, NULL, ks_options_add_stream_url) && end(http);
}

bool ks_http_set_settle(struct ks_http *http, const struct ks_buffer *body)
{
    if (body->is_full)
        return fail(http, "request", strerror(ENOMEM));
    if (!begin(http, NULL, ks_options_add_settle_url) ||
        !add_header(http, "Content-Type: " PROTOBUF) || !add_header(http, "Expect:"))
        return false;
    (void)curl_easy_setopt(http->easy, CURLOPT_POST, 1L);
    (void)curl_easy_setopt(http->easy, CURLOPT_POSTFIELDS, body->data);
    (void)curl_easy_setopt(http->easy, CURLOPT_POSTFIELDSIZE, (long)body->size);
    return end(http);
}

bool ks_http_set_delete(struct ks_http *http)
{
    return begin(http, "DELETE", ks_options_add_session_url) && end(http);
}

int ks_http_status(const struct ks_http *http)
{
    long status = 0;

    (void)curl_easy_getinfo(http->easy, CURLINFO_RESPONSE_CODE, &status);
    return (int)status;
}

static struct ks_problem problem_of(const struct ks_http *http)
{
    return ks_problem_read((const char *)http->answer.data, http->answer.size);
}

int64_t ks_http_retry_after(const struct ks_http *http)
{
    curl_off_t seconds = 0;

    switch (ks_http_status(http)) {
    case 409:
        if (!problem_of(http).is_retryable)
            return -1;
        break;
    case 429:
    case 500:
    case 502:
    case 503:
    case 504: break;
    default: return -1;
    }
    (void)curl_easy_getinfo(http->easy, CURLINFO_RETRY_AFTER, &seconds);
    return (int64_t)seconds * MS_PER_S;
}

ks_client_error ks_http_refusal(const struct ks_http *http)
{
    struct ks_problem problem = problem_of(http);
    ks_client_error error = {.status = KS_CLIENT_REFUSED, .http_status = ks_http_status(http)};

    (void)snprintf(error.code, sizeof(error.code), "%s", problem.code);
    (void)snprintf(error.message, sizeof(error.message), "%d %s", error.http_status,
                   problem.detail[0] != '\0' ? problem.detail : "refused");
    return error;
}

const char *ks_http_error(const struct ks_http *http, CURLcode result)
{
    return http->error[0] != '\0' ? http->error : curl_easy_strerror(result);
}
