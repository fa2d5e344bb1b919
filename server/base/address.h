/* SPDX-License-Identifier: Apache-2.0 */
/* address.h - where to listen: an IP address and a port, or the path of a Unix socket.
 *
 * Written as 127.0.0.1:8990, [::1]:8990, localhost:8990 (which is 127.0.0.1) or unix:/path; port 0 lets the system
 * choose. Names are not resolved: what a sidecar listens on should not depend on a name server.
 */
#ifndef KS_BASE_ADDRESS_H
#define KS_BASE_ADDRESS_H

#include <stdint.h>

#include "base/bytes.h"

enum ks_address_kind { KS_ADDRESS_IPV4, KS_ADDRESS_IPV6, KS_ADDRESS_UNIX };

enum {
    KS_ADDRESSES_MAX = 8,      /* Of one list: each costs a socket and its place in the loop. */
    KS_ADDRESS_HOST_SIZE = 46, /* INET6_ADDRSTRLEN. */
    KS_ADDRESS_PATH_SIZE = 108 /* sun_path of unix(7). */
};

struct ks_address {
    enum ks_address_kind kind;
    char host[KS_ADDRESS_HOST_SIZE]; /* IPV4, IPV6: for inet_pton, without brackets. */
    uint16_t port;                   /* IPV4, IPV6. */
    char path[KS_ADDRESS_PATH_SIZE]; /* UNIX. */
};

/* One address. INVALID, and `detail` says what is allowed. */
KS_MUST_USE ks_err ks_address_parse(ks_view text, struct ks_address *ret_address,
                                    struct ks_detail *detail);
/* A comma list of 1 to KS_ADDRESSES_MAX of them, all different. INVALID. */
KS_MUST_USE ks_err ks_address_parse_list(ks_view text,
                                         struct ks_address ret_addresses[KS_ADDRESSES_MAX],
                                         uint32_t *ret_count, struct ks_detail *detail);
/* True for a numeric address of IPv6, or of either family, without brackets. */
bool ks_is_ipv6(ks_view host);
bool ks_is_address(ks_view host);
/* True for a numeric address of this machine's loopback, of either family, without brackets. */
bool ks_is_loopback(ks_view host);
/* True for the same place; two with port 0 are two places. */
bool ks_address_equal(const struct ks_address *a, const struct ks_address *b);

#endif
