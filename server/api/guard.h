/* SPDX-License-Identifier: Apache-2.0 */
/* guard.h - who may ask: the Host, Origin and Sec-Fetch-Site checks, and the optional bearer token.
 *
 * A local port is open to every page of every browser on the machine. A page of another site is
 * told by its Origin or Sec-Fetch-Site, one that rebound its own name to 127.0.0.1 by the Host
 * header. The token, which everything but the page at / wants, and the operator's, which orders want
 * (routes.def, methods.def), come from files that are read again every KS_GUARD_REREAD_MS; one that cannot be read any
 * more leaves its last token in force.
 */
#ifndef KS_API_GUARD_H
#define KS_API_GUARD_H

#include "api/exchange.h"
#include "base/loop.h"

enum { KS_GUARD_REREAD_MS = 2000 };

struct ks_guard;

/* `allow_hosts`: comma list of names that a Host may carry besides localhost and loopback
 * addresses. `token_file`, `operator_token_file`: "" or NULL for none; the operator's token serves wherever the other
 * one does, and without one the other serves for orders, too. INVALID (a host list that is too long), DISK (the
 * file), FULL (a token that is too long or empty), NO_MEMORY. */
KS_MUST_USE ks_err ks_guard_new(struct ks_loop *loop, const char *allow_hosts,
                                const char *token_file, const char *operator_token_file,
                                struct ks_guard **ret_guard, struct ks_detail *detail);
void ks_guard_free(struct ks_guard *guard);
/* Reads the token file of an option ("--token-file") as ks_guard_new would, and forgets it. Blocking. DISK, FULL, with
 * a detail. */
KS_MUST_USE ks_err ks_guard_check_token(const char *option, const char *path,
                                        struct ks_detail *detail);

/* Whether the request may be served: by the local API, or by the ops addresses, which anybody may ask but pages of the
 * web. Fills in request->may_order. False if it is refused; then `ret_problem` and `detail` say why. */
bool ks_guard_admits(const struct ks_guard *guard, struct ks_request *request,
                     enum ks_problem *ret_problem, struct ks_detail *detail);

#endif
