/* SPDX-License-Identifier: Apache-2.0 */
/* sequence.h - sequence numbers of the local stream: 56 digits that look and order as Kinesis' do.
 *
 * The layout is what Kinesis itself has used since 2014, as far as it is known (kinesalite,
 * db/index.js): 47 hex digits, written as a decimal number,
 *     2 | 9 second in which the shard was made | 1 low digit of the shard's index |
 *     16 number of the record in the shard | 2 zero | 9 second of arrival | 8 shard index | 2
 * so that within a shard the number of the record decides, and a younger shard has greater numbers.
 * Pure.
 */
#ifndef KS_ADAPTERS_LOCAL_SEQUENCE_H
#define KS_ADAPTERS_LOCAL_SEQUENCE_H

#include <stdint.h>

#include "base/bytes.h"
#include "core/limits.h"

enum {
    KS_LOCAL_SEQUENCE_DIGITS = 56 /* Of every one: from 2 * 16^46 to below 3 * 16^46. */
};

/* Those that have a place in it. */
#define KS_LOCAL_SECONDS (INT64_C(1) << 36)

struct ks_local_sequence {
    uint64_t shard_second; /* Below KS_LOCAL_SECONDS, as `second`. */
    uint32_t shard_index;
    uint64_t number;
    uint64_t second;
};

/* Writes the digits and a NUL. */
void ks_local_sequence_format(const struct ks_local_sequence *sequence,
                              char buffer[KS_SEQUENCE_MAX + 1]);
/* INVALID for what is no sequence number at all (0|[1-9]\d{0,128}); NOT_FOUND for one that is not
 * of this layout. */
KS_MUST_USE ks_err ks_local_sequence_parse(ks_view text, struct ks_local_sequence *ret_sequence);

#endif
