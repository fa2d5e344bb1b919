/* SPDX-License-Identifier: Apache-2.0 */
/* share.h - the share of a session as text: a decimal, and the salt that chooses which lanes it is. */
#ifndef KS_PORTS_SHARE_H
#define KS_PORTS_SHARE_H

#include "base/bytes.h"

enum {
    KS_SHARE_TEXT_SIZE = 9 /* "0.000001" and its NUL. */
};

/* Reads a decimal above 0 and below 1 with at most 6 digits after its point ("0.05") as millionths. INVALID. */
KS_MUST_USE ks_err ks_share_parse(ks_view text, uint32_t *ret_share);
/* Writes `share` millionths as ks_share_parse() reads it, without zeros at the end; "" for 0. */
void ks_share_format(uint32_t share, char buffer[KS_SHARE_TEXT_SIZE]);
/* FNV-1a of 64 bits: of a salt its number; of a partition key, folded, its hash. */
uint64_t ks_fnv_hash(ks_view bytes);

#endif
