/* SPDX-License-Identifier: Apache-2.0 */
/* headers.h - header lines in their order: of a request, of an answer, of its trailers.
 *
 * One buffer holds them all, so that any number of lines and any length of a value cost what they
 * hold and are bounded by one limit. Owned by the exchange.
 */
#ifndef KS_API_HEADERS_H
#define KS_API_HEADERS_H

#include <stdbool.h>

#include "base/bytes.h"

struct ks_headers {
    struct ks_bytes lines; /* Each line: both sizes, name, value. */
};

/* `max`: bytes of all lines, 8 for each included. */
void ks_headers_init(struct ks_headers *headers, size_t max);
void ks_headers_free(struct ks_headers *headers);

/* Copies one line behind the others. INVALID: the name is no token (RFC 9110, section 5.6.2) or the
 * value holds a control byte other than the tab; FULL, NO_MEMORY. Nothing is added then. */
KS_MUST_USE ks_err ks_headers_add(struct ks_headers *headers, ks_view name, ks_view value);
/* Makes every name lower-case, in place. */
void ks_headers_lower(struct ks_headers *headers);

/* Walks: begin with 0 in `at`; false at the end. The views live until the next ks_headers_add. */
bool ks_headers_next(const struct ks_headers *headers, size_t *at, ks_view *ret_name,
                     ks_view *ret_value);
/* The value of the first line of that name, whatever its case; data is NULL if there is none. */
ks_view ks_headers_find(const struct ks_headers *headers, const char *name);

/* What a name and a value may be. */
bool ks_header_name_is_good(ks_view name);
bool ks_header_value_is_good(ks_view value);

#endif
