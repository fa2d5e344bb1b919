/* SPDX-License-Identifier: Apache-2.0 */
/* gzip.h - zlib's home: gzip (RFC 1952) of messages that are in memory as a whole.
 *
 * A small message can unpack to a thousand times its size: the buffer's limit is the bound, and memory is taken only as
 * bytes come out.
 */
#ifndef KS_API_GZIP_H
#define KS_API_GZIP_H

#include "base/bytes.h"

/* Appends what `from` holds: one gzip member, whole, and nothing after it. FULL: more than to->max; MALFORMED,
 * NO_MEMORY. After a failure `to` may hold a part of it. */
KS_MUST_USE ks_err ks_gzip_unpack(ks_view from, struct ks_bytes *to);
/* Appends `from` as a gzip member. FULL, NO_MEMORY. */
KS_MUST_USE ks_err ks_gzip_pack(ks_view from, struct ks_bytes *to);

#endif
