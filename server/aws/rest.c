/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/rest.h"

#include "aws/sigv4.h"

#include <stdio.h>

/* Appends with all the room that there will be, so that no view moves. */
static ks_err keep(struct ks_rest *rest, ks_view text, ks_view *ret_kept)
{
    const size_t begin = rest->text.size;

    KS_TRY(ks_bytes_append(&rest->text, text));
    *ret_kept = ks_view_of(rest->text.data + begin, text.size);
    return KS_OK;
}

static size_t size_of(const struct ks_aws_rest *asked)
{
    size_t size = asked->path.size;

    for (uint32_t at = 0; at < asked->parameter_count; at++)
        size += 3 * (asked->parameters[at].name.size + asked->parameters[at].value.size) + 2;
    for (uint32_t at = 0; at < asked->header_count; at++)
        size += asked->headers[at].name.size + asked->headers[at].value.size;
    return size;
}

static ks_err keep_query(struct ks_rest *rest, const struct ks_aws_rest *asked)
{
    const size_t begin = rest->text.size;

    for (uint32_t at = 0; at < asked->parameter_count; at++) {
        if (at > 0)
            KS_TRY(ks_bytes_append_byte(&rest->text, '&'));
        KS_TRY(ks_sigv4_encode(&rest->text, asked->parameters[at].name, ""));
        KS_TRY(ks_bytes_append_byte(&rest->text, '='));
        KS_TRY(ks_sigv4_encode(&rest->text, asked->parameters[at].value, ""));
    }
    rest->query = ks_view_of(rest->text.data + begin, rest->text.size - begin);
    return KS_OK;
}

ks_err ks_rest_copy(const struct ks_aws_rest *asked, struct ks_rest *ret_rest)
{
    *ret_rest = (struct ks_rest){.method = asked->method};
    ks_bytes_init(&ret_rest->text, KS_REST_TEXT_MAX);
    if (asked->header_count > KS_REST_HEADERS_MAX)
        return KS_FAIL(INVALID);
    KS_TRY(ks_bytes_reserve(&ret_rest->text, size_of(asked) + 1));
    KS_TRY(keep(ret_rest, asked->path, &ret_rest->path));
    KS_TRY(keep_query(ret_rest, asked));
    for (uint32_t at = 0; at < asked->header_count; at++) {
        KS_TRY(keep(ret_rest, asked->headers[at].name, &ret_rest->headers[at].name));
        KS_TRY(keep(ret_rest, asked->headers[at].value, &ret_rest->headers[at].value));
    }
    ret_rest->header_count = asked->header_count;
    return KS_OK;
}

void ks_rest_free(struct ks_rest *rest)
{
    ks_bytes_free(&rest->text);
}

ks_err ks_rest_locate(const struct ks_rest *rest, const struct ks_endpoint *endpoint,
                      char ret_url[KS_HTTP_URL_MAX + 1], char ret_path[KS_REST_PATH_SIZE])
{
    struct ks_bytes url;
    ks_err err;

    ks_bytes_init(&url, KS_HTTP_URL_MAX);
    err = ks_bytes_append(&url, ks_view_text(endpoint->url));
    if (ks_ok(err))
        err = ks_sigv4_encode(&url, rest->path, "/");
    if (ks_ok(err) && rest->query.size > 0)
        err = ks_bytes_append_byte(&url, '?');
    if (ks_ok(err))
        err = ks_bytes_append(&url, rest->query);
    if (ks_ok(err))
        err = ks_view_copy_text(ks_bytes_view(&url), ret_url, KS_HTTP_URL_MAX + 1);
    ks_bytes_free(&url);
    KS_TRY(err);
    (void)snprintf(ret_path, KS_REST_PATH_SIZE, "%s%.*s", endpoint->path, (int)rest->path.size,
                   (const char *)rest->path.data);
    return KS_OK;
}
