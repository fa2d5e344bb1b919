/* SPDX-License-Identifier: Apache-2.0 */
/* remote.h - what the providers that ask a server have in common: a token file that is read anew
 * each time, one request or several in a row, and up to three attempts for each, by the rules of
 * aws/retry.h, for failures that may pass: the first wait is 250 ms to 1 s, the second 500 ms to 2 s.
 */
#ifndef KS_AWS_CREDENTIALS_REMOTE_H
#define KS_AWS_CREDENTIALS_REMOTE_H

#include "aws/credentials/file.h"
#include "aws/credentials/provider.h"
#include "aws/http.h"
#include "aws/retry.h"

struct ks_remote {
    struct ks_provider provider; /* First: it is our address. */
    /* Makes the request of one attempt; what it points at lives in the provider. `token` is the
     * content of the token file, or empty. A failure, with a detail, ends the fetch. */
    ks_err (*prepare)(struct ks_remote *remote, ks_view token, struct ks_http_request *request);
    /* Reads an answer of any status into provider.credentials, or sets `next`. A failure comes with
     * a detail. */
    ks_err (*read)(struct ks_remote *remote, const struct ks_http_answer *answer);
    /* No whole answer came: what that means; may set `next`. The detail is there. NULL:
     * answer->err. */
    ks_err (*lost)(struct ks_remote *remote, const struct ks_http_answer *answer);
    /* What it is counted as: "sts", "AssumeRole"; literals. The second is set after
     * ks_remote_init, or by `prepare` for each request. */
    const char *service;
    const char *operation;
    bool next; /* Set by `read` or `lost` with KS_OK: another request follows. */
    struct ks_http *http;
    const char *token_path; /* NULL: none. Set before ks_remote_fetch. */
    struct ks_timer again;
    struct ks_file *file;
    struct ks_http_call *call;
    ks_instant asked_at; /* When the last attempt left. */
    struct ks_prng *prng;
    struct ks_retry retry; /* Of the request under way. */
    struct ks_retry_bucket bucket;
};

/* `service` is what its requests are counted as. */
void ks_remote_init(struct ks_remote *remote, const struct ks_provider_vtable *vtable,
                    const char *service, const struct ks_provider_setup *setup);
/* Begins the attempts, and answers. */
void ks_remote_fetch(struct ks_remote *remote);
/* Ends what is under way. */
void ks_remote_end(struct ks_remote *remote);

#endif
