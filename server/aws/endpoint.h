/* SPDX-License-Identifier: Apache-2.0 */
/* endpoint.h - where a service is: region, URL, host.
 *
 * Region: the option, else AWS_REGION, AWS_DEFAULT_REGION, `region` of the profile. URL: the
 * option, else AWS_ENDPOINT_URL_<SERVICE>, AWS_ENDPOINT_URL (both unless
 * AWS_IGNORE_CONFIGURED_ENDPOINT_URLS is true), else https://<service>.<region>.<suffix of the
 * partition>. Pure, but for the environment variables that it reads.
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

/* `option` and `profile_region` may be NULL or "". INVALID with a detail that says what to set;
 * also for none at all. */
KS_MUST_USE ks_err ks_region_resolve(const char *option, const char *profile_region,
                                     char ret_region[KS_REGION_MAX + 1], struct ks_detail *detail);

/* `service` is "kinesis", "dynamodb" or "sts"; `url_option` may be NULL or "". INVALID with a
 * detail. */
KS_MUST_USE ks_err ks_endpoint_resolve(const char *service, const char *region,
                                       const char *url_option, struct ks_endpoint *ret_endpoint,
                                       struct ks_detail *detail);

#endif
