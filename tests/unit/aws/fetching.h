/* SPDX-License-Identifier: Apache-2.0 */
/* fetching.h - for tests of how a server is reached: a client, one request, one answer.
 */
#ifndef KS_TEST_FETCHING_H
#define KS_TEST_FETCHING_H

#include "aws/http.h"

struct fetched {
    ks_err err;
    struct ks_detail detail;
    int status;
    bool sent;
    char body[64]; /* Its beginning. */
};

/* Posts "question" with the header `Authorization: signature` to `url`, from a new client. */
struct fetched fetch(const struct ks_http_options *options, const char *url);
/* The same, with whatever else the request shall have. */
struct fetched fetch_as(const struct ks_http_options *options, const char *url,
                        struct ks_http_request request);

#endif
