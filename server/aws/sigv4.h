/* SPDX-License-Identifier: Apache-2.0 */
/* sigv4.h - AWS Signature Version 4, in the Authorization header.
 *
 * Source: "AWS Signature Version 4 for API requests" (IAM user guide). The signing key is derived
 * once for each (secret, day, region, service) and kept. Pure: the instant is given, corrected for
 * skew by the caller. What is signed: every header given, but for those that proxies may change
 * (connection, expect, keep-alive, te, trailer, transfer-encoding, upgrade, user-agent,
 * x-amzn-trace-id, proxy-*), as botocore does; and X-Amz-Date and X-Amz-Security-Token, which the
 * signer adds.
 */
#ifndef KS_AWS_SIGV4_H
#define KS_AWS_SIGV4_H

#include <stdbool.h>
#include <stdint.h>

#include "aws/head.h"
#include "aws/limits.h"
#include "base/bytes.h"
#include "base/digest.h"

enum { KS_SIGV4_DATE_SIZE = 17 }; /* "20260102T030405Z" and a NUL. */

struct ks_sigv4_request {
    ks_view method;
    ks_view path;                         /* As it is sent, from '/'; or empty. */
    ks_view query;                        /* As it is sent, without '?'. */
    const struct ks_http_header *headers; /* With Host. */
    uint32_t header_count;
    ks_view body;
    bool path_as_is;     /* No dot segments and double slashes are removed (as for S3). */
    bool with_body_hash; /* A header x-amz-content-sha256 is sent and signed. */
    bool token_unsigned; /* The token is sent but not signed; no service of ours wants that. */

    ks_view access_key;
    ks_view secret_key;
    ks_view token; /* Empty: none. */
    const char *region;
    const char *service;
    int64_t unix_ms;
};

/* What must be sent with the request. */
struct ks_sigv4_signature {
    char date[KS_SIGV4_DATE_SIZE];          /* X-Amz-Date. */
    char body_hash[2 * KS_SHA256_SIZE + 1]; /* x-amz-content-sha256, if with_body_hash. */
    ks_view authorization; /* Authorization; in the signer, until it signs again. */
};

/* A signer: the kept key, and memory to work in. Holds a secret. */
struct ks_sigv4_signer {
    struct ks_bytes canonical;
    struct ks_bytes names; /* SignedHeaders. */
    struct ks_bytes text;  /* String to sign, then the Authorization. */
    char key_date[9];
    char key_region[KS_REGION_MAX + 1];
    char key_service[32];
    char key_secret[KS_SECRET_KEY_MAX + 1];
    uint8_t key[KS_SHA256_SIZE];
};

void ks_sigv4_init(struct ks_sigv4_signer *signer);
/* Wipes the key. */
void ks_sigv4_free(struct ks_sigv4_signer *signer);

/* Signs. INVALID: a region, service or key that is too long, too many headers or parameters, an
 * instant before 1970 or after 9999; FULL: KS_SIGV4_TEXT_MAX; NO_MEMORY. */
KS_MUST_USE ks_err ks_sigv4_sign(struct ks_sigv4_signer *signer,
                                 const struct ks_sigv4_request *request,
                                 struct ks_sigv4_signature *ret_signature);

/* Appends `text` percent-encoded (RFC 3986): the unreserved characters stay, and those of `others`. FULL, NO_MEMORY. */
KS_MUST_USE ks_err ks_sigv4_encode(struct ks_bytes *bytes, ks_view text, const char *others);

/* The two steps on the way, for vectors: appended to `bytes`; the names of the signed headers to
 * `names`. */
KS_MUST_USE ks_err ks_sigv4_canonical(const struct ks_sigv4_request *request,
                                      struct ks_bytes *bytes, struct ks_bytes *names);
KS_MUST_USE ks_err ks_sigv4_string_to_sign(const struct ks_sigv4_request *request,
                                           ks_view canonical, struct ks_bytes *bytes);

#endif
