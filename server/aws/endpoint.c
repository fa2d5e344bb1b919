/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/endpoint.h"

#include <stdio.h>
#include <stdlib.h>

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

ks_err ks_region_resolve(const char *option, const char *profile_region,
                         char ret_region[KS_REGION_MAX + 1], struct ks_detail *detail)
{
    const struct place {
        const char *name;
        const char *value;
    } places[] = {
        {"the region option", option},
        {"AWS_REGION", getenv("AWS_REGION")},
        {"AWS_DEFAULT_REGION", getenv("AWS_DEFAULT_REGION")},
        {"the region of the profile", profile_region},
    };

    for (size_t at = 0; at < sizeof(places) / sizeof(places[0]); at++) {
        if (!is_set(places[at].value))
            continue;
        ks_view region = ks_view_text(places[at].value);
        if (!ks_region_is_valid(region)) {
            ks_detail_set(detail, "%s is no region: '%s' (one looks like eu-west-1)",
                          places[at].name, places[at].value);
            return KS_FAIL(INVALID);
        }
        return ks_view_copy_text(region, ret_region, KS_REGION_MAX + 1);
    }
    ks_detail_set(detail, "no region: set AWS_REGION, or `region` in the profile");
    return KS_FAIL(INVALID);
}

/* --- Endpoints --- */

/* By the prefix of the region; source: endpoints.json of botocore. */
static const struct partition {
    const char *prefix;
    const char *suffix;
} PARTITIONS[] = {
    {"cn-", "amazonaws.com.cn"},    {"us-iso-", "c2s.ic.gov"},      {"us-isob-", "sc2s.sgov.gov"},
    {"us-isof-", "csp.hci.ic.gov"}, {"eu-isoe-", "cloud.adc-e.uk"}, {"eusc-", "amazonaws.eu"},
    {"", "amazonaws.com"},
};

static const char *suffix_of(const char *region)
{
    size_t at = 0;

    while (!ks_view_starts(ks_view_text(region), ks_view_text(PARTITIONS[at].prefix)))
        at++;
    return PARTITIONS[at].suffix;
}

/* The URL that somebody set, with its source; NULL if nobody did. */
static const char *configured_url(const char *service, const char *option, const char **ret_source)
{
    static const struct variable {
        const char *service;
        const char *name;
    } VARIABLES[] = {{"kinesis", "AWS_ENDPOINT_URL_KINESIS"},
                     {"dynamodb", "AWS_ENDPOINT_URL_DYNAMODB"},
                     {"sts", "AWS_ENDPOINT_URL_STS"}};
    const char *ignore = getenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS");

    *ret_source = "the endpoint option";
    if (is_set(option))
        return option;
    if (ignore != NULL && ks_view_equal_nocase(ks_view_text(ignore), KS_VIEW("true")))
        return NULL;
    for (size_t at = 0; at < sizeof(VARIABLES) / sizeof(VARIABLES[0]); at++) {
        *ret_source = VARIABLES[at].name;
        if (strcmp(VARIABLES[at].service, service) == 0 && is_set(getenv(*ret_source)))
            return getenv(*ret_source);
    }
    *ret_source = "AWS_ENDPOINT_URL";
    return is_set(getenv(*ret_source)) ? getenv(*ret_source) : NULL;
}

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

ks_err ks_endpoint_resolve(const char *service, const char *region, const char *url_option,
                           struct ks_endpoint *ret_endpoint, struct ks_detail *detail)
{
    struct ks_endpoint endpoint = {.url = ""};
    struct ks_url parts;
    char own[KS_HOST_MAX + 1];
    const char *source = NULL;
    const char *url = configured_url(service, url_option, &source);

    if (!ks_region_is_valid(ks_view_text(region))) {
        ks_detail_set(detail, "no region: '%s'", region);
        return KS_FAIL(INVALID);
    }
    KS_TRY(ks_view_copy_text(ks_view_text(region), endpoint.region, sizeof(endpoint.region)));
    if (url == NULL) {
        snprintf(own, sizeof(own), "https://%s.%s.%s", service, region, suffix_of(region));
        url = own;
    }
    if (!ks_ok(ks_url_split(ks_view_text(url), &parts)) ||
        !ks_ok(write_endpoint(&parts, &endpoint))) {
        /* With a user name there may be a password: not for a log. */
        ks_detail_set(detail, "%s is no URL like http://host:port, without a user name: '%s'",
                      source, strchr(url, '@') == NULL ? url : "***");
        return KS_FAIL(INVALID);
    }
    *ret_endpoint = endpoint;
    return KS_OK;
}
