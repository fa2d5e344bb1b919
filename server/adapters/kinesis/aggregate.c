/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/kinesis/aggregate.h"

#include "base/digest.h"

#include <assert.h>

static const uint8_t MAGIC[4] = {0xF3, 0x89, 0x9A, 0xC2};

/* Fields that are read: number << 3 | wire type. */
enum {
    WIRE_VARINT = 0,
    WIRE_8_BYTES = 1,
    WIRE_BYTES = 2,
    WIRE_4_BYTES = 5,
    PARTITION_KEY = 1 << 3 | WIRE_BYTES,
    HASH_KEY = 2 << 3 | WIRE_BYTES,
    RECORD = 3 << 3 | WIRE_BYTES,
    PARTITION_KEY_INDEX = 1 << 3 | WIRE_VARINT,
    HASH_KEY_INDEX = 2 << 3 | WIRE_VARINT,
    DATA = 3 << 3 | WIRE_BYTES
};

/* A key of a table: the place in the message where its length stands, and whether its hash key is in the
 * range. 4 bytes, because a hostile message may have a key in every two. */
enum { PLACE_MASK = (1 << 30) - 1, FOREIGN = 1 << 30 };
#define JUDGED (UINT32_C(1) << 31)

bool ks_is_aggregate(ks_view data)
{
    uint8_t digest[KS_MD5_SIZE];
    size_t frame = sizeof(MAGIC) + KS_MD5_SIZE;

    if (data.size <= frame || memcmp(data.data, MAGIC, sizeof(MAGIC)) != 0)
        return false;
    ks_md5(ks_view_of(data.data + sizeof(MAGIC), data.size - frame), digest);
    return memcmp(digest, data.data + data.size - KS_MD5_SIZE, KS_MD5_SIZE) == 0;
}

/* --- Protobuf --- */

struct field {
    uint64_t tag; /* As above. */
    uint64_t number;
    ks_view bytes;
};

/* Nearly all of them have one byte. */
static inline ks_err take_varint(ks_view *view, uint64_t *ret_value)
{
    if (view->size > 0 && view->data[0] < 0x80) {
        *ret_value = view->data[0];
        view->data++;
        view->size--;
        return KS_OK;
    }
    return ks_view_take_varint(view, ret_value);
}

static inline ks_err take_bytes(ks_view *view, ks_view *ret_bytes)
{
    uint64_t size = 0;

    KS_TRY(take_varint(view, &size));
    if (size > view->size)
        return KS_FAIL(MALFORMED);
    *ret_bytes = ks_view_of(view->data, (size_t)size);
    view->data += size;
    view->size -= (size_t)size;
    return KS_OK;
}

static ks_err take_field(ks_view *view, struct field *field)
{
    ks_view skipped = KS_VIEW_NONE;

    KS_TRY(take_varint(view, &field->tag));
    if (field->tag >> 3 == 0 || field->tag > UINT32_MAX)
        return KS_FAIL(MALFORMED);
    switch (field->tag & 7) {
    case WIRE_VARINT: return take_varint(view, &field->number);
    case WIRE_BYTES: return take_bytes(view, &field->bytes);
    case WIRE_8_BYTES: return ks_view_take(view, 8, &skipped);
    case WIRE_4_BYTES: return ks_view_take(view, 4, &skipped);
    default: return KS_FAIL(MALFORMED);
    }
}

/* A Record as it stands there. */
struct packed {
    ks_view data; /* data.data NULL: none. */
    uint64_t partition_key;
    uint64_t hash_key;
    bool has_partition_key;
    bool has_hash_key;
};

static ks_err read_packed(ks_view bytes, struct packed *ret_packed)
{
    struct packed packed = {.data = KS_VIEW_NONE};
    struct field field;

    while (bytes.size > 0) {
        KS_TRY(take_field(&bytes, &field));
        if (field.tag == PARTITION_KEY_INDEX) {
            packed.partition_key = field.number;
            packed.has_partition_key = true;
        } else if (field.tag == HASH_KEY_INDEX) {
            packed.hash_key = field.number;
            packed.has_hash_key = true;
        } else if (field.tag == DATA) {
            packed.data = field.bytes;
        }
    }
    if (!packed.has_partition_key || packed.data.data == NULL)
        return KS_FAIL(MALFORMED);
    *ret_packed = packed;
    return KS_OK;
}

/* --- Opening --- */

/* Counts what there is, and sees that every record can be read and every index leads somewhere. */
static ks_err survey(struct ks_aggregate *aggregate)
{
    ks_view rest = aggregate->message;
    struct packed most = {.partition_key = 0}; /* The largest indexes. */
    struct packed packed;
    struct field field;

    while (rest.size > 0) {
        KS_TRY(take_field(&rest, &field));
        aggregate->partition_keys += field.tag == PARTITION_KEY;
        aggregate->hash_keys += field.tag == HASH_KEY;
        if (field.tag != RECORD)
            continue;
        KS_TRY(read_packed(field.bytes, &packed));
        aggregate->records++;
        if (packed.partition_key > most.partition_key)
            most.partition_key = packed.partition_key;
        if (packed.has_hash_key && packed.hash_key > most.hash_key)
            most.hash_key = packed.hash_key;
        most.has_hash_key = most.has_hash_key || packed.has_hash_key;
    }
    if (aggregate->records > 0 && most.partition_key >= aggregate->partition_keys)
        return KS_FAIL(MALFORMED);
    if (most.has_hash_key && most.hash_key >= aggregate->hash_keys)
        return KS_FAIL(MALFORMED);
    return KS_OK;
}

static ks_err check_key(const struct field *field)
{
    ks_hash_key ignored;

    if (field->tag == HASH_KEY)
        return ks_hash_key_parse(field->bytes, &ignored);
    if (field->bytes.size > KS_PARTITION_KEY_MAX || !ks_view_is_utf8(field->bytes))
        return KS_FAIL(MALFORMED);
    return KS_OK;
}

static uint32_t *table_of(const struct ks_aggregate *aggregate)
{
    return (uint32_t *)(void *)aggregate->keys->data;
}

/* Notes where the keys stand: those of partitions first. */
static ks_err index_keys(struct ks_aggregate *aggregate)
{
    uint32_t *partition_key = table_of(aggregate);
    uint32_t *hash_key = partition_key + aggregate->partition_keys;
    uint32_t left = aggregate->partition_keys + aggregate->hash_keys;
    ks_view rest = aggregate->message;
    struct field field;

    while (left > 0) {
        ks_view before = rest;
        uint64_t tag;
        KS_TRY(take_field(&rest, &field));
        if (field.tag != PARTITION_KEY && field.tag != HASH_KEY)
            continue;
        KS_TRY(check_key(&field));
        KS_TRY(take_varint(&before, &tag));
        uint32_t place = (uint32_t)(before.data - aggregate->message.data);
        if (field.tag == PARTITION_KEY)
            *partition_key++ = place;
        else
            *hash_key++ = place;
        left--;
    }
    return KS_OK;
}

ks_err ks_aggregate_open(ks_view data, struct ks_budget *budget, struct ks_aggregate *ret_aggregate)
{
    size_t frame = sizeof(MAGIC) + KS_MD5_SIZE;
    struct ks_aggregate aggregate = {.keys = NULL};
    size_t keys;

    assert(data.size > frame);
    assert(data.size <= PLACE_MASK); /* No answer of a source is nearly as large. */
    aggregate.message = ks_view_of(data.data + sizeof(MAGIC), data.size - frame);
    aggregate.rest = aggregate.message;
    KS_TRY(survey(&aggregate));
    keys = (size_t)aggregate.partition_keys + aggregate.hash_keys;
    KS_TRY(ks_block_force(budget, keys * sizeof(uint32_t), &aggregate.keys));
    if (!ks_ok(index_keys(&aggregate))) {
        ks_aggregate_close(&aggregate);
        return KS_FAIL(MALFORMED);
    }
    *ret_aggregate = aggregate;
    return KS_OK;
}

void ks_aggregate_close(struct ks_aggregate *aggregate)
{
    ks_block_drop(aggregate->keys);
    *aggregate = (struct ks_aggregate){.keys = NULL};
}

/* --- User records --- */

static ks_view key_at(const struct ks_aggregate *aggregate, uint32_t key)
{
    uint32_t place = key & PLACE_MASK;
    ks_view at = ks_view_of(aggregate->message.data + place, aggregate->message.size - place);
    ks_view text = KS_VIEW_NONE;
    ks_err err = take_bytes(&at, &text);

    assert(ks_ok(err)); /* It was read before. */
    return text;
}

static ks_hash_key effective(const struct ks_user_record *record)
{
    ks_hash_key key = 0;
    ks_err err;

    if (record->explicit_hash_key.size == 0)
        return ks_hash_key_of(record->partition_key);
    err = ks_hash_key_parse(record->explicit_hash_key, &key);
    assert(ks_ok(err)); /* It was checked. */
    return key;
}

/* A key that many records share is hashed once. */
static bool is_foreign(uint32_t *key, const struct ks_user_record *record,
                       const struct ks_hash_range *range)
{
    if ((*key & JUDGED) == 0) {
        ks_hash_key hash = effective(record);

        *key |= JUDGED;
        if (hash < range->start || hash > range->end)
            *key |= FOREIGN;
    }
    return (*key & FOREIGN) != 0;
}

bool ks_aggregate_next(struct ks_aggregate *aggregate, const struct ks_hash_range *range,
                       struct ks_user_record *ret_record)
{
    uint32_t *key = table_of(aggregate);
    struct ks_user_record record = {.explicit_hash_key = KS_VIEW_NONE};
    struct packed packed;
    struct field field = {.tag = 0};
    ks_err err = KS_OK;

    if (aggregate->next == aggregate->records)
        return false;
    do {
        err = take_field(&aggregate->rest, &field);
        assert(ks_ok(err)); /* It was surveyed. */
    } while (field.tag != RECORD);
    err = read_packed(field.bytes, &packed);
    assert(ks_ok(err));

    record.data = packed.data;
    record.sub_sequence = aggregate->next++;
    key += packed.partition_key;
    record.partition_key = key_at(aggregate, *key);
    if (packed.has_hash_key) {
        key = table_of(aggregate) + aggregate->partition_keys + packed.hash_key;
        record.explicit_hash_key = key_at(aggregate, *key);
    }
    record.foreign = range != NULL && is_foreign(key, &record, range);
    *ret_record = record;
    return true;
}
