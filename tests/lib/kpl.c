/* SPDX-License-Identifier: Apache-2.0 */
#include "kpl.h"

#include "base/digest.h"

#include <assert.h>

static const uint8_t MAGIC[4] = {0xF3, 0x89, 0x9A, 0xC2};

static void must(ks_err err)
{
    assert(ks_ok(err));
    (void)err;
}

static void put_number(struct ks_bytes *bytes, uint32_t field, uint64_t number)
{
    must(ks_bytes_append_varint(bytes, field << 3));
    must(ks_bytes_append_varint(bytes, number));
}

static void put_bytes(struct ks_bytes *bytes, uint32_t field, ks_view view)
{
    must(ks_bytes_append_varint(bytes, field << 3 | 2));
    must(ks_bytes_append_varint(bytes, view.size));
    must(ks_bytes_append(bytes, view));
}

static void put_record(struct ks_bytes *bytes, const struct kpl_record *record, uint32_t *hash_keys)
{
    struct ks_bytes inner;

    ks_bytes_init(&inner, bytes->max);
    put_number(&inner, 1, record->key);
    if (record->hash_key != NULL)
        put_number(&inner, 2, (*hash_keys)++);
    put_bytes(&inner, 3, record->data);
    put_bytes(bytes, 3, ks_bytes_view(&inner));
    ks_bytes_free(&inner);
}

void kpl_frame(struct ks_bytes *bytes)
{
    uint8_t digest[KS_MD5_SIZE];

    ks_md5(ks_bytes_view(bytes), digest);
    must(ks_bytes_append(bytes, ks_view_of(digest, sizeof(digest))));
    must(ks_bytes_append(bytes, ks_view_of(MAGIC, sizeof(MAGIC))));
    /* The magic was appended to have the room for it; now it goes to the front. */
    memmove(bytes->data + sizeof(MAGIC), bytes->data, bytes->size - sizeof(MAGIC));
    memcpy(bytes->data, MAGIC, sizeof(MAGIC));
}

void kpl_pack(struct ks_bytes *bytes, const char *const *keys, uint32_t key_count,
              const struct kpl_record *records, uint32_t record_count)
{
    uint32_t hash_keys = 0;

    ks_bytes_clear(bytes);
    for (uint32_t at = 0; at < key_count; at++)
        put_bytes(bytes, 1, ks_view_text(keys[at]));
    for (uint32_t at = 0; at < record_count; at++)
        if (records[at].hash_key != NULL)
            put_bytes(bytes, 2, ks_view_text(records[at].hash_key));
    for (uint32_t at = 0; at < record_count; at++)
        put_record(bytes, &records[at], &hash_keys);
    kpl_frame(bytes);
}
