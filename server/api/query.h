/* SPDX-License-Identifier: Apache-2.0 */
/* query.h - a request target: its path and its parameters, decoded.
 *
 * RFC 3986 with the habits of forms: `+` in a query is a space. A NUL, a broken escape and bytes
 * that are not UTF-8 are refused: whoever compares the result compares text. The path stays as it was sent, for an
 * escaped slash separates nothing, and whoever stands before us judges paths by their letters. */
#ifndef KS_API_QUERY_H
#define KS_API_QUERY_H

#include <stdint.h>

#include "api/limits.h"
#include "base/bytes.h"

/* One name=value of a query, decoded. */
struct ks_param {
    ks_view name;
    ks_view value;
};

/* A parsed target. `memory` holds the decoded bytes and the array. */
struct ks_target {
    ks_view
        path; /* As it was sent, its escapes good: split it at its slashes first, then decode the parts. */
    const struct ks_param *params;
    uint32_t param_count;
    uint8_t *room; /* As many bytes as the path has. */
    void *memory;
};

/* `text` begins with '/'. MALFORMED (with the reason in `detail`), FULL (too many parameters),
 * NO_MEMORY. */
KS_MUST_USE ks_err ks_target_parse(ks_view text, struct ks_target *ret_target,
                                   struct ks_detail *detail);
/* Decodes a part of the path; one at a time, for the target has room for one. */
ks_view ks_target_decode(const struct ks_target *target, ks_view part);
void ks_target_free(struct ks_target *target);

#endif
