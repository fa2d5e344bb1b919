/* SPDX-License-Identifier: Apache-2.0 */
/* head.h - the head of an HTTP response: its header lines, and instants as HTTP writes them (RFC
 * 9110).
 *
 * A head is bytes as they came: "Name: value" lines, each ending with CR LF or LF. Pure; views into
 * the head.
 */
#ifndef KS_AWS_HEAD_H
#define KS_AWS_HEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

struct ks_http_header {
    ks_view name;
    ks_view value;
};

/* The value of header `name`, trimmed; of the first one if there are several. data NULL if there is
 * none. */
ks_view ks_head_find(ks_view head, const char *name);

/* An instant in the one form that is still sent (5.6.7), "Sun, 06 Nov 1994 08:49:37 GMT", as Unix
 * ms. INVALID. */
KS_MUST_USE ks_err ks_head_date(ks_view text, int64_t *ret_unix_ms);

/* True for an instant that the present can be: in the years 2020 to 2099. */
bool ks_head_is_present(int64_t unix_ms);

/* After a refusal that a wrong clock may have caused: true if the server's Date differs from our
 * corrected clock, `now_ms` + `*skew_ms`, by a minute or more; then `*skew_ms` is what corrects it.
 * A smaller difference is not why it refused, and an answer out of a cache (Age) carries the Date
 * of long ago; a Date that differs by more than a day is nobody's clock. */
KS_MUST_USE bool ks_head_corrects(ks_view head, int64_t now_ms, int64_t *skew_ms);

/* What may stand on either side of the colon: a token without white space and colon, and a line without
 * control characters but tabs. */
bool ks_head_is_token(ks_view text);
bool ks_head_is_line(ks_view text);

#endif
