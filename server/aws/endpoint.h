/* SPDX-License-Identifier: Apache-2.0 */
/* endpoint.h - where a service is: URL, host, region.
 *
 * A configured URL wins. Else the rules of the SDKs (the endpoint rule sets of kinesis, dynamodb and
 * sts; tests/vectors/endpoints.json holds what they give): https://SERVICE[-fips].REGION.SUFFIX, with
 * the suffix of the region's partition for IPv4 or for dual stack; a stream that is named by an ARN is
 * at ACCOUNT.control-kinesis.. or ACCOUNT.data-kinesis.., DynamoDB at ACCOUNT.ddb.. where the
 * credentials tell their account. A bucket of S3 is part of the host, BUCKET.s3.REGION.. It is the first part of
 * the path where a URL is configured, and where its name has a dot: no certificate is valid for such a
 * host. Everything is signed for REGION. Pure.
 */
#ifndef KS_AWS_ENDPOINT_H
#define KS_AWS_ENDPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "aws/limits.h"
#include "base/bytes.h"
#include "base/err.h"

struct ks_endpoint {
    char url[KS_HTTP_URL_MAX +
             1]; /* Without user info, query and fragment; ends with the path, at least "/". */
    char host[KS_HOST_MAX +
              8]; /* As the Host header says it: with the port where it is not the scheme's own. */
    char path[256];
    char region[KS_REGION_MAX + 1]; /* For the signature. */
};

/* The parts of an absolute URL; views into it. */
struct ks_url {
    bool https;
    bool ipv6;     /* `host` stood in brackets; it has none. */
    ks_view host;  /* Not empty. */
    uint16_t port; /* The scheme's own if it was not said. */
    ks_view path;  /* From '/', or empty. */
    ks_view query; /* Behind '?', or empty. */
};

/* INVALID: not http(s)://, a user info, a fragment, white space, control characters, a bad port, an
 * odd host. */
KS_MUST_USE ks_err ks_url_split(ks_view text, struct ks_url *ret_url);

/* True for a region's form: lower-case letters, digits, inner hyphens. */
bool ks_region_is_valid(ks_view region);

enum ks_account_mode { KS_ACCOUNT_PREFERRED, KS_ACCOUNT_DISABLED, KS_ACCOUNT_REQUIRED };

/* What decides where a service is. Texts are borrowed; NULL is as good as "". */
struct ks_endpoint_rules {
    const char *service; /* "kinesis", "dynamodb", "sts", "sqs", "sns", "s3". */
    const char *region;
    const char *url;        /* Configured; "": none. */
    const char *url_source; /* Who says so, for people: "AWS_ENDPOINT_URL". */
    bool fips;
    bool dualstack;
    enum ks_account_mode account_mode; /* Of DynamoDB. */
    const char *stream_arn;            /* Of Kinesis; "": the stream is named. */
    const char *bucket;                /* Of S3: all requests are for it; "": none. */
};

/* What kind of request it is for; Kinesis has a host for each where the stream is named by its ARN. */
enum ks_endpoint_use { KS_ENDPOINT_CONTROL, KS_ENDPOINT_DATA };
enum { KS_ENDPOINT_USES = KS_ENDPOINT_DATA + 1 };

/* `account` is that of the credentials; NULL or "": not known. INVALID with a detail. */
KS_MUST_USE ks_err ks_endpoint_find(const struct ks_endpoint_rules *rules, const char *account,
                                    enum ks_endpoint_use use, struct ks_endpoint *ret_endpoint,
                                    struct ks_detail *detail);

/* Returns the partition of a region, as ARNs have it: "aws", "aws-cn". */
const char *ks_endpoint_partition(const char *region);

/* The endpoint of a service by its region, or by a URL; `url` may be NULL or "". As above. */
KS_MUST_USE ks_err ks_endpoint_resolve(const char *service, const char *region, const char *url,
                                       struct ks_endpoint *ret_endpoint, struct ks_detail *detail);

#endif
