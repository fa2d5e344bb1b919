/* SPDX-License-Identifier: Apache-2.0 */
/* hash.h - hash keys: where a record belongs.
 *
 * A hash key is a number of 128 bits; a partition key's is its MD5 read as a big-endian number
 * (Kinesis developer guide, "Partition Key"). As text it is decimal, at most 39 digits; in the
 * database 16 big-endian bytes, so that memcmp orders them. Pure.
 */
#ifndef KS_ADAPTERS_HASH_H
#define KS_ADAPTERS_HASH_H

#include <stdint.h>

#include "base/bytes.h"
#include "core/limits.h"

__extension__ typedef unsigned __int128 ks_hash_key;

#define KS_HASH_KEY_LAST (~(ks_hash_key)0)
enum { KS_HASH_KEY_SIZE = 16 };

/* The hash key of a partition key. */
ks_hash_key ks_hash_key_of(ks_view partition_key);
/* 0|[1-9]\d{0,38}, below 2^128. INVALID. */
KS_MUST_USE ks_err ks_hash_key_parse(ks_view text, ks_hash_key *ret_key);
void ks_hash_key_format(ks_hash_key key, char buffer[KS_HASH_KEY_MAX + 1]);

void ks_hash_key_put(ks_hash_key key, uint8_t bytes[KS_HASH_KEY_SIZE]);
/* MALFORMED unless it is KS_HASH_KEY_SIZE bytes. */
KS_MUST_USE ks_err ks_hash_key_get(ks_view bytes, ks_hash_key *ret_key);

/* Range `index` of `count` equal ones that cover all keys, both ends included. */
void ks_hash_key_range(uint32_t index, uint32_t count, ks_hash_key *ret_start,
                       ks_hash_key *ret_end);

#endif
