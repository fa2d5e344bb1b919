/* SPDX-License-Identifier: Apache-2.0 */
/* rest.h - a request of a REST service: a method, a path, query parameters and headers of its own.
 *
 * Path and query are percent-encoded once, as S3 wants it ("Create a signed AWS API request", IAM user guide: the path
 * of S3 is not encoded twice): all bytes but the unreserved ones of RFC 3986, and '/' in the path. Pure.
 */
#ifndef KS_AWS_REST_H
#define KS_AWS_REST_H

#include "aws/endpoint.h"
#include "aws/head.h"
#include "base/bytes.h"

/* What the caller asks for. Names and values are not encoded. */
struct ks_aws_rest {
    const char *method; /* GET, PUT, DELETE or POST; a literal. */
    ks_view path;       /* Follows the path of the endpoint, which ends with '/'. */
    const struct ks_http_header *parameters; /* Of the query. */
    const struct ks_http_header *headers;    /* Signed, as all others. */
    uint32_t parameter_count;
    uint32_t header_count; /* KS_REST_HEADERS_MAX at most. */
};

/* A copy of it, in memory of its own. Zeroed: none. */
struct ks_rest {
    const char *method; /* NULL: none. */
    ks_view path;       /* Not encoded. */
    ks_view query;      /* Encoded, without '?'. */
    struct ks_http_header headers[KS_REST_HEADERS_MAX];
    uint32_t header_count;
    struct ks_bytes text; /* What the views are of. */
};

/* INVALID: too many headers. FULL: more than KS_REST_TEXT_MAX bytes. NO_MEMORY. Freed also after a failure. */
KS_MUST_USE ks_err ks_rest_copy(const struct ks_aws_rest *asked, struct ks_rest *ret_rest);
void ks_rest_free(struct ks_rest *rest);

enum { KS_REST_PATH_SIZE = 256 + KS_REST_TEXT_MAX };

/* Writes the URL at this endpoint, and its path as it is signed (not encoded). FULL: one of them does not fit. */
KS_MUST_USE ks_err ks_rest_locate(const struct ks_rest *rest, const struct ks_endpoint *endpoint,
                                  char ret_url[KS_HTTP_URL_MAX + 1],
                                  char ret_path[KS_REST_PATH_SIZE]);

#endif
