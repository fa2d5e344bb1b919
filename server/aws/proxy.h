/* SPDX-License-Identifier: Apache-2.0 */
/* proxy.h - which requests go through a proxy, and through which.
 *
 * https_proxy is for https:// (through a tunnel: the proxy sees the host, nothing else), http_proxy for
 * http://, no_proxy for what is asked directly; each also in upper case, and lower case wins, as curl
 * and Python do it. A proxy is http://[user[:password]@]host[:port] or https://.., or just host:port.
 * no_proxy is a list with commas: `*`, a host (and all below it; a leading `.` or `*.` says the same),
 * an address, an address/prefix, each but the last with an optional :port. Hosts are compared as they
 * are written: no name is looked up.
 * Loopback and link-local addresses never go through a proxy: it would find another machine there.
 * Pure, but for the environment variables that are read.
 */
#ifndef KS_AWS_PROXY_H
#define KS_AWS_PROXY_H

#include "aws/endpoint.h"
#include "aws/limits.h"

struct ks_proxies {
    char https[KS_HTTP_URL_MAX + 1]; /* For https://; with scheme and port, "": none. */
    char http[KS_HTTP_URL_MAX + 1];  /* Both may hold a password: not for a log. */
    char none[KS_NO_PROXY_MAX + 1];  /* no_proxy. */
};

/* Reads the variables. INVALID with a detail, which shows no password. */
KS_MUST_USE ks_err ks_proxies_read(struct ks_proxies *ret_proxies, struct ks_detail *detail);

/* The proxy for a URL, or "". */
const char *ks_proxies_find(const struct ks_proxies *proxies, const struct ks_url *url);

#endif
