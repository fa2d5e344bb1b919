/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/endpoint.h"

#include "aws/arn.h"

#include <stdio.h>

/* --- URLs --- */

/* RFC 3986 without what we refuse: no user info, no fragment, printable ASCII only. */
static bool has_odd_bytes(ks_view text)
{
    for (size_t at = 0; at < text.size; at++) {
        if (text.data[at] <= ' ' || text.data[at] >= 0x7f ||
            strchr("#@\\\"<>^`{|}", text.data[at]) != NULL)
            return true;
    }
    return false;
}

/* A name or an IPv4 address; an IPv6 address in brackets has hexadecimal digits, colons and dots.
 */
static bool is_host(ks_view host, bool ipv6)
{
    const char *allowed = ipv6
                              ? "0123456789abcdefABCDEF:."
                              : "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-._";

    for (size_t at = 0; at < host.size; at++) {
        if (host.data[at] == '\0' || strchr(allowed, host.data[at]) == NULL)
            return false;
    }
    return host.size > 0 && host.size <= KS_HOST_MAX;
}

static ks_err split_authority(ks_view authority, struct ks_url *url)
{
    uint64_t port = url->https ? 443 : 80;

    if (authority.size > 0 && authority.data[0] == '[') {
        url->ipv6 = true;
        authority = ks_view_of(authority.data + 1, authority.size - 1);
        url->host = ks_view_cut(&authority, ']');
        if (authority.data == NULL || (authority.size > 0 && authority.data[0] != ':'))
            return KS_FAIL(INVALID);
        if (authority.size > 0)
            authority = ks_view_of(authority.data + 1, authority.size - 1);
        else
            authority = KS_VIEW_NONE;
    } else {
        url->host = ks_view_cut(&authority, ':');
    }
    if (authority.data != NULL)
        KS_TRY(ks_view_u64(authority, &port));
    if (port == 0 || port > UINT16_MAX || !is_host(url->host, url->ipv6))
        return KS_FAIL(INVALID);
    url->port = (uint16_t)port;
    return KS_OK;
}

ks_err ks_url_split(ks_view text, struct ks_url *ret_url)
{
    struct ks_url url = {.https = ks_view_starts(text, KS_VIEW("https://"))};
    size_t scheme = url.https ? 8 : 7;

    if (!url.https && !ks_view_starts(text, KS_VIEW("http://")))
        return KS_FAIL(INVALID);
    if (text.size > KS_HTTP_URL_MAX || has_odd_bytes(text))
        return KS_FAIL(INVALID);

    ks_view rest = ks_view_of(text.data + scheme, text.size - scheme);
    size_t size = 0;
    while (size < rest.size && rest.data[size] != '/' && rest.data[size] != '?')
        size++;
    KS_TRY(split_authority(ks_view_of(rest.data, size), &url));

    url.query = ks_view_of(rest.data + size, rest.size - size);
    url.path = ks_view_cut(&url.query, '?');
    *ret_url = url;
    return KS_OK;
}

/* --- Region --- */

bool ks_region_is_valid(ks_view region)
{
    for (size_t at = 0; at < region.size; at++) {
        uint8_t byte = region.data[at];
        bool edge = at == 0 || at + 1 == region.size;

        if (!(byte >= 'a' && byte <= 'z') && !(byte >= '0' && byte <= '9') && (byte != '-' || edge))
            return false;
    }
    return region.size > 0 && region.size <= KS_REGION_MAX;
}

static bool is_set(const char *text)
{
    return text != NULL && text[0] != '\0';
}

/* --- Partitions --- */

/* By the prefix of the region; sources: partitions.json and the rules of DynamoDB in botocore. */
static const struct partition {
    const char *prefix;
    const char *name;
    const char *suffix;
    const char *dual_suffix;
    bool accounts; /* DynamoDB has endpoints of accounts. */
} PARTITIONS[] = {
    {"cn-", "aws-cn", "amazonaws.com.cn", "api.amazonwebservices.com.cn", true},
    {"us-gov-", "aws-us-gov", "amazonaws.com", "api.aws", true},
    {"us-iso-", "aws-iso", "c2s.ic.gov", "api.aws.ic.gov", false},
    {"us-isob-", "aws-iso-b", "sc2s.sgov.gov", "api.aws.scloud", false},
    {"us-isof-", "aws-iso-f", "csp.hci.ic.gov", "api.aws.hci.ic.gov", false},
    {"eu-isoe-", "aws-iso-e", "cloud.adc-e.uk", "api.cloud-aws.adc-e.uk", false},
    {"eusc-", "aws-eusc", "amazonaws.eu", "api.amazonwebservices.eu", false},
    {"", "aws", "amazonaws.com", "api.aws", true},
};

static const struct partition *partition_of(const char *region)
{
    const struct partition *partition = PARTITIONS;

    while (!ks_view_starts(ks_view_text(region), ks_view_text(partition->prefix)))
        partition++;
    return partition;
}

const char *ks_endpoint_partition(const char *region)
{
    return partition_of(region)->name;
}

static bool is_partition(const struct partition *partition, const char *name)
{
    return strcmp(partition->name, name) == 0;
}

/* --- The rules --- */

static ks_err write_endpoint(const struct ks_url *url, struct ks_endpoint *endpoint)
{
    char port[8] = "";
    ks_view path = url->path.size == 0 ? KS_VIEW("/") : url->path;

    if (url->query.data != NULL || path.size >= sizeof(endpoint->path))
        return KS_FAIL(INVALID);
    if (url->port != (url->https ? 443 : 80))
        snprintf(port, sizeof(port), ":%u", url->port);
    snprintf(endpoint->host, sizeof(endpoint->host), "%s%.*s%s%s", url->ipv6 ? "[" : "",
             (int)url->host.size, (const char *)url->host.data, url->ipv6 ? "]" : "", port);
    snprintf(endpoint->path, sizeof(endpoint->path), "%.*s", (int)path.size,
             (const char *)path.data);
    snprintf(endpoint->url, sizeof(endpoint->url), "%s://%s%s", url->https ? "https" : "http",
             endpoint->host, endpoint->path);
    return KS_OK;
}

/* A URL that somebody set. */
static ks_err use_url(const struct ks_endpoint_rules *rules, struct ks_endpoint *endpoint,
                      struct ks_detail *detail)
{
    const char *source = is_set(rules->url_source) ? rules->url_source : "the endpoint";
    struct ks_url parts;

    if (rules->fips || rules->dualstack)
        return ks_err_because(KS_FAIL(INVALID), detail,
                              "%s cannot go together with %s: set the URL of such an endpoint, or "
                              "neither",
                              source, rules->fips ? "FIPS endpoints" : "dual-stack endpoints");
    if (ks_ok(ks_url_split(ks_view_text(rules->url), &parts)) &&
        ks_ok(write_endpoint(&parts, endpoint)))
        return KS_OK;
    /* With a user name there may be a password: not for a log. */
    return ks_err_because(KS_FAIL(INVALID), detail,
                          "%s is no URL like http://host:port, without a user name: '%s'", source,
                          strchr(rules->url, '@') == NULL ? rules->url : "***");
}

static ks_err use_host(const char *host, struct ks_endpoint *endpoint)
{
    char url[KS_HOST_MAX + 16];
    struct ks_url parts;
    int size = snprintf(url, sizeof(url), "https://%s", host);

    if ((size_t)size >= sizeof(url))
        return KS_FAIL(INVALID);
    KS_TRY(ks_url_split(ks_view_text(url), &parts));
    return write_endpoint(&parts, endpoint);
}

/* SERVICE[-fips].REGION.SUFFIX. In GovCloud the plain hosts are those of FIPS. */
static ks_err use_service(const struct ks_endpoint_rules *rules, const struct partition *partition,
                          struct ks_endpoint *endpoint)
{
    char host[KS_HOST_MAX + 1];
    bool plain = !rules->fips || (is_partition(partition, "aws-us-gov") && !rules->dualstack);

    snprintf(host, sizeof(host), "%s%s.%s.%s", rules->service, plain ? "" : "-fips", rules->region,
             rules->dualstack ? partition->dual_suffix : partition->suffix);
    return use_host(host, endpoint);
}

/* --- Kinesis --- */

static ks_err check_stream(const struct ks_endpoint_rules *rules, const struct partition *partition,
                           struct ks_arn *ret_arn, struct ks_detail *detail)
{
    if (!ks_ok(ks_arn_split(ks_view_text(rules->stream_arn), ret_arn)) ||
        !ks_view_equal(ret_arn->service, KS_VIEW("kinesis")) || ret_arn->account.size == 0 ||
        !ks_region_is_valid(ret_arn->region) ||
        !ks_view_starts(ret_arn->resource, KS_VIEW("stream/")))
        return ks_err_because(KS_FAIL(INVALID), detail,
                              "%s is no ARN of a stream: one looks like "
                              "arn:aws:kinesis:eu-west-1:123456789012:stream/name",
                              rules->stream_arn);
    if (!ks_view_equal(ret_arn->partition, ks_view_text(partition->name)))
        return ks_err_because(KS_FAIL(INVALID), detail,
                              "the stream is in partition %.*s, and region %s in partition %s",
                              (int)ret_arn->partition.size, (const char *)ret_arn->partition.data,
                              rules->region, partition->name);
    return KS_OK;
}

static ks_err use_stream(const struct ks_endpoint_rules *rules, const struct partition *partition,
                         enum ks_endpoint_use use, struct ks_endpoint *endpoint,
                         struct ks_detail *detail)
{
    char host[KS_HOST_MAX + 1];
    struct ks_arn arn;

    /* These have no such hosts. */
    if (is_partition(partition, "aws-iso") || is_partition(partition, "aws-iso-b"))
        return use_service(rules, partition, endpoint);
    KS_TRY(check_stream(rules, partition, &arn, detail));
    snprintf(host, sizeof(host), "%.*s.%s-kinesis%s.%s.%s", (int)arn.account.size,
             (const char *)arn.account.data, use == KS_ENDPOINT_DATA ? "data" : "control",
             rules->fips ? "-fips" : "", rules->region,
             rules->dualstack ? partition->dual_suffix : partition->suffix);
    return use_host(host, endpoint);
}

/* --- DynamoDB --- */

static ks_err use_account(const struct ks_endpoint_rules *rules, const struct partition *partition,
                          const char *account, struct ks_endpoint *endpoint)
{
    char host[KS_HOST_MAX + 1];

    snprintf(host, sizeof(host), "%s.ddb.%s.%s", account, rules->region,
             rules->dualstack ? partition->dual_suffix : partition->suffix);
    return use_host(host, endpoint);
}

static ks_err use_table(const struct ks_endpoint_rules *rules, const struct partition *partition,
                        const char *account, struct ks_endpoint *endpoint, struct ks_detail *detail)
{
    const char *missing = NULL;

    if (!partition->accounts)
        missing = "this partition has no endpoints of accounts";
    else if (rules->fips)
        missing = "there are none with FIPS";
    else if (!is_set(account))
        missing = "the credentials do not tell their account";
    else if (!ks_account_is_valid(ks_view_text(account)))
        missing = "the account of the credentials has not 12 digits";

    if (rules->account_mode == KS_ACCOUNT_REQUIRED && missing != NULL)
        return ks_err_because(KS_FAIL(INVALID), detail,
                              "the account ID endpoint mode is required, but %s", missing);
    if (rules->account_mode == KS_ACCOUNT_DISABLED || missing != NULL)
        return use_service(rules, partition, endpoint);
    return use_account(rules, partition, account, endpoint);
}

/* A region of its own: DynamoDB Local, on its usual port. */
static ks_err use_local(const struct ks_endpoint_rules *rules, struct ks_endpoint *endpoint,
                        struct ks_detail *detail)
{
    struct ks_endpoint_rules local = *rules;

    local.url = "http://localhost:8000";
    local.url_source = "the region local";
    KS_TRY(use_url(&local, endpoint, detail));
    snprintf(endpoint->region, sizeof(endpoint->region), "us-east-1");
    return KS_OK;
}

/* --- S3 --- */

/* Appends the bucket to the path, which ends with '/' then. */
static ks_err add_bucket(const char *bucket, struct ks_endpoint *endpoint)
{
    char url[sizeof(endpoint->url)];
    const size_t size = strlen(endpoint->path);
    const bool ends = endpoint->path[size - 1] == '/';
    const int added = snprintf(endpoint->path + size, sizeof(endpoint->path) - size, "%s%s/",
                               ends ? "" : "/", bucket);

    if ((size_t)added >= sizeof(endpoint->path) - size)
        return KS_FAIL(INVALID);
    memcpy(url, endpoint->url, sizeof(url));
    const int whole =
        snprintf(endpoint->url, sizeof(endpoint->url), "%s%s", url, endpoint->path + size);
    return (size_t)whole < sizeof(endpoint->url) ? KS_OK : KS_FAIL(INVALID);
}

/* s3[-fips][.dualstack].REGION.SUFFIX: the dual-stack hosts of S3 have the suffix of the others, in all partitions. */
static ks_err use_bucket(const struct ks_endpoint_rules *rules, const struct partition *partition,
                         struct ks_endpoint *endpoint)
{
    const bool in_host = strchr(rules->bucket, '.') == NULL;
    char host[KS_HOST_MAX + 1];

    (void)snprintf(host, sizeof(host), "%s%ss3%s%s.%s.%s", in_host ? rules->bucket : "",
                   in_host ? "." : "", rules->fips ? "-fips" : "",
                   rules->dualstack ? ".dualstack" : "", rules->region, partition->suffix);
    KS_TRY(use_host(host, endpoint));
    return in_host ? KS_OK : add_bucket(rules->bucket, endpoint);
}

/* --- All --- */

static ks_err find(const struct ks_endpoint_rules *rules, const char *account,
                   enum ks_endpoint_use use, struct ks_endpoint *endpoint, struct ks_detail *detail)
{
    const struct partition *partition = partition_of(rules->region);
    bool dynamodb = strcmp(rules->service, "dynamodb") == 0;

    if (is_set(rules->url)) {
        KS_TRY(use_url(rules, endpoint, detail));
        return is_set(rules->bucket) ? add_bucket(rules->bucket, endpoint) : KS_OK;
    }
    if (is_set(rules->bucket))
        return use_bucket(rules, partition, endpoint);
    if (dynamodb && strcmp(rules->region, "local") == 0)
        return use_local(rules, endpoint, detail);
    if (dynamodb)
        return use_table(rules, partition, account, endpoint, detail);
    if (is_set(rules->stream_arn))
        return use_stream(rules, partition, use, endpoint, detail);
    return use_service(rules, partition, endpoint);
}

ks_err ks_endpoint_find(const struct ks_endpoint_rules *rules, const char *account,
                        enum ks_endpoint_use use, struct ks_endpoint *ret_endpoint,
                        struct ks_detail *detail)
{
    struct ks_endpoint endpoint = {.url = ""};

    if (!ks_region_is_valid(ks_view_text(rules->region)))
        return ks_err_because(KS_FAIL(INVALID), detail, "no region: '%s'", rules->region);
    KS_TRY(
        ks_view_copy_text(ks_view_text(rules->region), endpoint.region, sizeof(endpoint.region)));
    KS_TRY(find(rules, account, use, &endpoint, detail));
    *ret_endpoint = endpoint;
    return KS_OK;
}

ks_err ks_endpoint_resolve(const char *service, const char *region, const char *url,
                           struct ks_endpoint *ret_endpoint, struct ks_detail *detail)
{
    const struct ks_endpoint_rules rules = {.service = service, .region = region, .url = url};

    return ks_endpoint_find(&rules, NULL, KS_ENDPOINT_CONTROL, ret_endpoint, detail);
}
