/* SPDX-License-Identifier: Apache-2.0 */
#include "base/address.h"

#include <arpa/inet.h>
#include <assert.h>

static ks_err refuse(ks_view text, struct ks_detail *detail)
{
    return ks_err_because(
        KS_FAIL(INVALID), detail,
        "\"%.*s\" is none of 127.0.0.1:PORT, [::1]:PORT, localhost:PORT, unix:/PATH",
        (int)(text.size < 60 ? text.size : 60), (const char *)text.data);
}

/* Cuts "host:port" or "[host]:port" in two. */
static ks_err cut_host(ks_view text, ks_view *ret_host, ks_view *ret_port)
{
    bool bracketed = ks_view_starts(text, KS_VIEW("["));
    ks_view host = text;
    ks_view port;

    if (!bracketed) {
        *ret_host = ks_view_cut(&host, ':');
        *ret_port = host;
        return KS_OK;
    }
    host = ks_view_of(text.data + 1, text.size - 1);
    *ret_host = ks_view_cut(&host, ']');
    port = host;
    if (!ks_view_starts(port, KS_VIEW(":")))
        return KS_FAIL(INVALID);
    *ret_port = ks_view_of(port.data + 1, port.size - 1);
    return KS_OK;
}

static ks_err parse_port(ks_view text, uint16_t *ret_port)
{
    uint64_t port;

    if (text.size > 5)
        return KS_FAIL(INVALID);
    KS_TRY(ks_view_u64(text, &port));
    if (port > UINT16_MAX)
        return KS_FAIL(INVALID);
    *ret_port = (uint16_t)port;
    return KS_OK;
}

static ks_err parse_ip(ks_view text, struct ks_address *ret_address)
{
    struct ks_address address = {.kind = KS_ADDRESS_IPV4};
    uint8_t binary[16];
    ks_view host, port;
    int family = AF_INET;

    KS_TRY(cut_host(text, &host, &port));
    KS_TRY(parse_port(port, &address.port));
    if (ks_view_equal(host, KS_VIEW("localhost")))
        host = KS_VIEW("127.0.0.1");
    KS_TRY(ks_view_copy_text(host, address.host, sizeof(address.host)));
    if (text.data[0] == '[') {
        address.kind = KS_ADDRESS_IPV6;
        family = AF_INET6;
    }
    if (inet_pton(family, address.host, binary) != 1)
        return KS_FAIL(INVALID);
    *ret_address = address;
    return KS_OK;
}

static ks_err parse_unix(ks_view path, struct ks_address *ret_address)
{
    struct ks_address address = {.kind = KS_ADDRESS_UNIX};

    KS_TRY(ks_view_copy_text(path, address.path, sizeof(address.path)));
    /* An absolute path: the working directory of a service is nobody's plan. */
    if (address.path[0] != '/')
        return KS_FAIL(INVALID);
    *ret_address = address;
    return KS_OK;
}

ks_err ks_address_parse(ks_view text, struct ks_address *ret_address, struct ks_detail *detail)
{
    const ks_view prefix = KS_VIEW("unix:");
    ks_err err;

    if (ks_view_starts(text, prefix))
        err = parse_unix(ks_view_of(text.data + prefix.size, text.size - prefix.size), ret_address);
    else if (text.size == 0)
        err = KS_FAIL(INVALID);
    else
        err = parse_ip(text, ret_address);
    return ks_ok(err) ? KS_OK : refuse(text, detail);
}

bool ks_address_equal(const struct ks_address *a, const struct ks_address *b)
{
    if (a->kind != b->kind)
        return false;
    if (a->kind == KS_ADDRESS_UNIX)
        return strcmp(a->path, b->path) == 0;
    return a->port != 0 && a->port == b->port && strcmp(a->host, b->host) == 0;
}

ks_err ks_address_parse_list(ks_view text, struct ks_address ret_addresses[KS_ADDRESSES_MAX],
                             uint32_t *ret_count, struct ks_detail *detail)
{
    ks_view rest = text;
    uint32_t count = 0;

    if (text.size == 0)
        return refuse(text, detail);
    while (rest.data != NULL) {
        ks_view one = ks_view_trim(ks_view_cut(&rest, ','));
        if (count == KS_ADDRESSES_MAX) {
            return ks_err_because(KS_FAIL(INVALID), detail, "more than %d addresses",
                                  KS_ADDRESSES_MAX);
        }
        KS_TRY(ks_address_parse(one, &ret_addresses[count], detail));
        for (uint32_t i = 0; i < count; i++) {
            if (ks_address_equal(&ret_addresses[i], &ret_addresses[count])) {
                return ks_err_because(KS_FAIL(INVALID), detail, "\"%.*s\" is there twice",
                                      (int)one.size, (const char *)one.data);
            }
        }
        count++;
    }
    *ret_count = count;
    return KS_OK;
}

bool ks_is_ipv6(ks_view host)
{
    char text[INET6_ADDRSTRLEN];
    struct in6_addr six;

    return ks_ok(ks_view_copy_text(host, text, sizeof(text))) &&
           inet_pton(AF_INET6, text, &six) == 1;
}

bool ks_is_address(ks_view host)
{
    char text[INET6_ADDRSTRLEN];
    struct in_addr four;

    if (ks_is_ipv6(host))
        return true;
    return ks_ok(ks_view_copy_text(host, text, sizeof(text))) &&
           inet_pton(AF_INET, text, &four) == 1;
}

bool ks_is_loopback(ks_view host)
{
    char text[INET6_ADDRSTRLEN];
    struct in_addr four;
    struct in6_addr six;

    if (!ks_ok(ks_view_copy_text(host, text, sizeof(text))))
        return false;
    if (inet_pton(AF_INET, text, &four) == 1)
        return ntohl(four.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, text, &six) == 1 && IN6_IS_ADDR_LOOPBACK(&six);
}
