/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/proxy.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

/* --- The variables --- */

/* The first that is set; `ret_name` says which. NULL: none. */
static const char *variable(const char *const names[2], const char **ret_name)
{
    for (size_t at = 0; at < 2; at++) {
        const char *value = getenv(names[at]);

        *ret_name = names[at];
        if (value != NULL && value[0] != '\0')
            return value;
    }
    return NULL;
}

/* Before the last '@' of the authority: a password may hold one, too. */
static ks_view cut_user(ks_view *authority)
{
    size_t size = authority->size;

    while (size > 0 && authority->data[size - 1] != '@')
        size--;
    ks_view user = ks_view_of(authority->data, size);
    *authority = ks_view_of(authority->data + size, authority->size - size);
    return user;
}

static bool is_user(ks_view text)
{
    for (size_t at = 0; at < text.size; at++) {
        if (text.data[at] <= ' ' || text.data[at] >= 0x7f)
            return false;
    }
    return true;
}

/* Writes it with scheme and port, which each client guesses differently. */
static ks_err write_proxy(const char *value, char ret_proxy[KS_HTTP_URL_MAX + 1])
{
    char plain[KS_HTTP_URL_MAX + 1];
    struct ks_url url;
    ks_view rest = ks_view_text(value);
    bool https = ks_view_starts(rest, KS_VIEW("https://"));

    if (https || ks_view_starts(rest, KS_VIEW("http://")))
        rest = ks_view_of(rest.data + (https ? 8 : 7), rest.size - (https ? 8 : 7));
    /* Another scheme: socks5, .. */
    if (memmem(rest.data, rest.size, "://", 3) != NULL)
        return KS_FAIL(INVALID);
    ks_view user = cut_user(&rest);
    int size = snprintf(plain, sizeof(plain), "%s://%.*s", https ? "https" : "http", (int)rest.size,
                        (const char *)rest.data);
    if (!is_user(user) || size > KS_HTTP_URL_MAX)
        return KS_FAIL(INVALID);
    KS_TRY(ks_url_split(ks_view_of(plain, (size_t)size), &url));
    if (url.path.size > 1 || url.query.data != NULL)
        return KS_FAIL(INVALID);
    size =
        snprintf(ret_proxy, KS_HTTP_URL_MAX + 1, "%s://%.*s%s%.*s%s:%u", https ? "https" : "http",
                 (int)user.size, (const char *)user.data, url.ipv6 ? "[" : "", (int)url.host.size,
                 (const char *)url.host.data, url.ipv6 ? "]" : "", url.port);
    return size > KS_HTTP_URL_MAX ? KS_FAIL(INVALID) : KS_OK;
}

static ks_err read_proxy(const char *const names[2], char ret_proxy[KS_HTTP_URL_MAX + 1],
                         struct ks_detail *detail)
{
    const char *name = NULL;
    const char *value = variable(names, &name);

    ret_proxy[0] = '\0';
    if (value == NULL || ks_ok(write_proxy(value, ret_proxy)))
        return KS_OK;
    return ks_err_because(KS_FAIL(INVALID), detail,
                          "%s is no proxy like http://host:port or https://host:port: '%s'", name,
                          strchr(value, '@') == NULL ? value : "***");
}

ks_err ks_proxies_read(struct ks_proxies *ret_proxies, struct ks_detail *detail)
{
    static const char *const HTTPS[] = {"https_proxy", "HTTPS_PROXY"};
    static const char *const HTTP[] = {"http_proxy", "HTTP_PROXY"};
    static const char *const NONE[] = {"no_proxy", "NO_PROXY"};
    const char *name = NULL;
    const char *none = variable(NONE, &name);

    KS_TRY(read_proxy(HTTPS, ret_proxies->https, detail));
    KS_TRY(read_proxy(HTTP, ret_proxies->http, detail));
    ret_proxies->none[0] = '\0';
    if (none == NULL)
        return KS_OK;
    if (!ks_ok(ks_view_copy_text(ks_view_text(none), ret_proxies->none, sizeof(ret_proxies->none))))
        return ks_err_because(KS_FAIL(INVALID), detail, "%s is longer than %d bytes", name,
                              KS_NO_PROXY_MAX);
    return KS_OK;
}

/* --- Addresses --- */

struct address {
    uint8_t bytes[16];
    size_t size; /* 4 or 16. */
};

static bool read_address(ks_view text, struct address *ret_address)
{
    char copy[INET6_ADDRSTRLEN];

    if (!ks_ok(ks_view_copy_text(text, copy, sizeof(copy))))
        return false;
    ret_address->size = 4;
    if (inet_pton(AF_INET, copy, ret_address->bytes) == 1)
        return true;
    ret_address->size = 16;
    return inet_pton(AF_INET6, copy, ret_address->bytes) == 1;
}

static bool is_within(const struct address *address, const struct address *net, uint64_t bits)
{
    size_t whole = (size_t)bits / 8;
    unsigned rest = (unsigned)bits % 8;

    if (address->size != net->size || bits > 8 * net->size ||
        memcmp(address->bytes, net->bytes, whole) != 0)
        return false;
    return rest == 0 || ((address->bytes[whole] ^ net->bytes[whole]) >> (8 - rest)) == 0;
}

/* "10.0.0.0/8", or "10.1.2.3". */
static bool is_in_net(const struct address *address, ks_view text)
{
    struct address net;
    ks_view rest = text;
    ks_view base = ks_view_cut(&rest, '/');
    uint64_t bits = 0;

    if (!read_address(base, &net))
        return false;
    if (rest.data == NULL)
        return is_within(address, &net, 8 * net.size);
    return ks_ok(ks_view_u64(rest, &bits)) && is_within(address, &net, bits);
}

/* What is on this machine or on this link: fd00:ec2:: is where EC2 has its own services. */
static bool is_near(const struct ks_url *url)
{
    static const char *const NEAR[] = {"127.0.0.0/8", "169.254.0.0/16", "::1", "fe80::/10",
                                       "fd00:ec2::/32"};
    struct address address;

    if (ks_view_equal_nocase(url->host, KS_VIEW("localhost")))
        return true;
    if (!read_address(url->host, &address))
        return false;
    for (size_t at = 0; at < sizeof(NEAR) / sizeof(NEAR[0]); at++) {
        if (is_in_net(&address, ks_view_text(NEAR[at])))
            return true;
    }
    return false;
}

/* --- no_proxy --- */

/* "[::1]:80" and "host:80" without the port, and "[::1]" without brackets; false if another port is
 * said. An IPv6 address without brackets has no port. */
static bool cut_port(ks_view *entry, uint16_t port)
{
    ks_view rest = *entry;
    ks_view first = ks_view_cut(&rest, ':');
    ks_view after = rest;
    uint64_t said = 0;

    if (entry->data[0] == '[') {
        rest = ks_view_of(entry->data + 1, entry->size - 1);
        *entry = ks_view_cut(&rest, ']');
        if (rest.size == 0)
            return true;
        (void)ks_view_cut(&rest, ':');
    } else {
        (void)ks_view_cut(&after, ':');
        if (rest.data == NULL || after.data != NULL)
            return true;
        *entry = first;
    }
    return ks_ok(ks_view_u64(rest, &said)) && said == port;
}

/* "example.com", ".example.com" or "*.example.com": it and all below it. */
static bool is_below(ks_view host, ks_view name)
{
    if (ks_view_starts(name, KS_VIEW("*.")))
        name = ks_view_of(name.data + 1, name.size - 1);
    if (ks_view_starts(name, KS_VIEW(".")))
        name = ks_view_of(name.data + 1, name.size - 1);
    if (name.size == 0 || host.size < name.size)
        return false;

    size_t above = host.size - name.size;
    return ks_view_equal_nocase(ks_view_of(host.data + above, name.size), name) &&
           (above == 0 || host.data[above - 1] == '.');
}

static bool is_meant(const struct ks_url *url, ks_view entry)
{
    struct address address;
    ks_view host = url->host;

    if (ks_view_equal(entry, KS_VIEW("*")))
        return true;
    if (entry.size == 0 || !cut_port(&entry, url->port))
        return false;
    if (read_address(host, &address))
        return is_in_net(&address, entry);
    /* A name may end with the dot of the root. */
    if (host.data[host.size - 1] == '.')
        host.size--;
    return is_below(host, entry);
}

const char *ks_proxies_find(const struct ks_proxies *proxies, const struct ks_url *url)
{
    ks_view list = ks_view_text(proxies->none);

    if (is_near(url))
        return "";
    while (list.data != NULL) {
        if (is_meant(url, ks_view_trim(ks_view_cut(&list, ','))))
            return "";
    }
    return url->https ? proxies->https : proxies->http;
}
