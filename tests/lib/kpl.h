/* SPDX-License-Identifier: Apache-2.0 */
/* kpl.h - packs user records into one record, as the Kinesis Producer Library does. */
#ifndef TESTS_LIB_KPL_H
#define TESTS_LIB_KPL_H

#include "base/bytes.h"

/* A user record: which key of the table is its own, and its data. */
struct kpl_record {
    uint32_t key;
    ks_view data;
    const char *hash_key; /* NULL: none. It gets an entry of its own in its table. */
};

/* Replaces what is in `bytes` by the record; ends the program if it has no room. */
void kpl_pack(struct ks_bytes *bytes, const char *const *keys, uint32_t key_count,
              const struct kpl_record *records, uint32_t record_count);
/* Puts magic and digest around the protobuf message in `bytes`. */
void kpl_frame(struct ks_bytes *bytes);

#endif
