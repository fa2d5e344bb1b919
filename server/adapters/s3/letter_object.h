/* SPDX-License-Identifier: Apache-2.0 */
/* letter_object.h - a dead letter as an object of S3.
 *
 *     FOLDER SHARD "/" SEQUENCE "." SUB ".json"          the key
 *     {"id":..,"stream":..,"shard_id":..,"sequence_number":..,"sub_sequence_number":..,"partition_key":..,
 *      "approximate_arrival_timestamp":..,"first_died_at":..,"died_at":..,"attempts":..,"cause":..,"reason":..,
 *      "claim":..,"claimed_until":..,"data":..}          the object: one line of JSON
 *
 * The names are those of GET /v1/dead-letters. A sequence number has leading zeros up to 56 digits, as those of Kinesis
 * have; a longer one begins with '~', which sorts after all digits, and has 129. A sub-sequence number has 10. So S3
 * lists the letters of a shard by number. Instants are RFC 3339, null where they are not known. Parts of an aggregate
 * have a `sub_sequence_number`. A letter that a worker redrives has its `claim` and `claimed_until`. `data` is base64
 * and the last member. A partition key or a reason that is not UTF-8 without NUL is base64 in `partition_key_base64` or
 * `reason_base64`. Pure.
 */
#ifndef KS_ADAPTERS_S3_LETTER_OBJECT_H
#define KS_ADAPTERS_S3_LETTER_OBJECT_H

#include "adapters/s3/listing.h"
#include "aws/json.h"
#include "ports/dead_letters.h"

enum {
    /* All but the data: key and reason may be escaped, six characters for each byte. */
    KS_LETTER_OBJECT_HEAD_MAX = 32 << 10,
    KS_LETTER_OBJECT_MAX = KS_LETTER_OBJECT_HEAD_MAX + (KS_RECORD_BYTES_MAX + 2) / 3 * 4
};

/* The key of the letter of this id. INVALID: no letter has such an id. */
KS_MUST_USE ks_err ks_letter_key_put(const char *folder, ks_view id,
                                     char ret_key[KS_S3_KEY_MAX + 1]);
/* The id of the letter of this key. INVALID: it is not the key of one. */
KS_MUST_USE ks_err ks_letter_key_read(const char *folder, const char *key,
                                      char ret_id[KS_LETTER_ID_MAX + 1]);

/* Appends the object; of the letter `first_died_ms` and `claimed_until_ms` are read, too. FULL, NO_MEMORY. */
KS_MUST_USE ks_err ks_letter_object_put(struct ks_bytes *body, const struct ks_letter *letter);

struct ks_letter_object {
    struct ks_letter letter; /* Its views are of `id`, `head` and `bytes`. */
    const char *damage;      /* A member that no letter of ours has so; NULL: it is sound. */
    struct ks_json *head;
};

/* Reads the object of the letter of this id, which is one of ks_letter_key_read; `bytes` is cleared and takes what is
 * base64. What is damaged is empty. NO_MEMORY, FULL. Freed after a success. */
KS_MUST_USE ks_err ks_letter_object_read(ks_view text, ks_view id, struct ks_bytes *bytes,
                                         struct ks_letter_object *ret_object);
void ks_letter_object_free(struct ks_letter_object *object);

#endif
