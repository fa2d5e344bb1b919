/* SPDX-License-Identifier: Apache-2.0 */
/* records_again.h - reads an answer of GetRecords a second time, slowly and without a change to its bytes, and says
 * whether a batch holds what is in it: data, partition key and sequence number of every record.
 *
 * `body` is one that was taken for an answer; `buffer` has room for twice its size and 32 bytes.
 */
#ifndef TESTS_LIB_RECORDS_AGAIN_H
#define TESTS_LIB_RECORDS_AGAIN_H

#include <jansson.h>
#include <string.h>

#include "aws/cbor.h"
#include "base/codec.h"
#include "ports/stream_source.h"

static inline bool again_is_decoded(ks_view base64, ks_view data, uint8_t *buffer)
{
    size_t size = 0;

    return ks_ok(ks_base64_decode(base64, buffer, &size)) &&
           ks_view_equal(ks_view_of(buffer, size), data);
}

/* --- JSON, by jansson. True also for what is none to it: it judges what is skipped here. --- */

static inline ks_view again_json_text(const json_t *object, const char *name)
{
    const json_t *text = json_object_get(object, name);

    return ks_view_of(json_string_value(text), json_string_length(text));
}

static inline bool again_json(ks_view body, const struct ks_batch *batch, uint8_t *buffer)
{
    json_t *root = json_loadb((const char *)body.data, body.size, JSON_REJECT_DUPLICATES, NULL);
    const json_t *records = json_object_get(root, "Records");
    bool right = !json_is_array(records) || json_array_size(records) == batch->count;

    for (uint32_t at = 0; right && at < json_array_size(records); at++) {
        const json_t *one = json_array_get(records, at);
        const struct ks_record *record = &batch->records[at];
        right = ks_view_equal(record->partition_key, again_json_text(one, "PartitionKey")) &&
                ks_view_equal(record->sequence, again_json_text(one, "SequenceNumber")) &&
                again_is_decoded(again_json_text(one, "Data"), record->data, buffer);
    }
    json_decref(root);
    return right;
}

/* --- CBOR, piece by piece. Of a member that comes twice the last one counts. --- */

static inline bool again_cbor_string(ks_view view, ks_view expected, bool data, uint8_t *buffer)
{
    struct ks_cbor_string string;
    enum ks_cbor_type type;

    if (!ks_ok(ks_cbor_peek(view, &type)))
        return false;
    if (type == KS_CBOR_BYTES)
        return ks_ok(ks_cbor_bytes(&view, &string)) && ks_cbor_string_equals(&string, expected);
    if (!ks_ok(ks_cbor_text(&view, &string)))
        return false;
    if (!data)
        return ks_cbor_string_equals(&string, expected);
    ks_cbor_string_copy(&string, buffer);
    return again_is_decoded(ks_view_of(buffer, string.size), expected, buffer + string.size);
}

static inline bool again_cbor_member(ks_view *view, const struct ks_cbor_string *name,
                                     const struct ks_record *record, bool same[3], uint8_t *buffer)
{
    static const char *const NAMES[3] = {"Data", "PartitionKey", "SequenceNumber"};
    const ks_view values[3] = {record->data, record->partition_key, record->sequence};
    ks_view value = *view;

    if (!ks_ok(ks_cbor_skip(view)))
        return false;
    for (int at = 0; at < 3; at++) {
        if (ks_cbor_string_equals(name, ks_view_text(NAMES[at])) && !ks_cbor_null(&value))
            same[at] = again_cbor_string(value, values[at], at == 0, buffer);
    }
    return true;
}

static inline bool again_cbor_record(ks_view *view, const struct ks_record *record, uint8_t *buffer)
{
    struct ks_cbor_container map;
    struct ks_cbor_string name;
    bool same[3] = {false, false, false};
    bool more = true;

    if (!ks_ok(ks_cbor_map(view, &map)))
        return false;
    for (;;) {
        if (!ks_ok(ks_cbor_more(view, &map, &more)))
            return false;
        if (!more)
            return same[0] && same[1] && same[2];
        if (!ks_ok(ks_cbor_text(view, &name)) ||
            !again_cbor_member(view, &name, record, same, buffer))
            return false;
    }
}

static inline bool again_cbor_records(ks_view view, const struct ks_batch *batch, uint8_t *buffer)
{
    struct ks_cbor_container array;
    bool more = true;

    if (!ks_ok(ks_cbor_array(&view, &array)))
        return false;
    for (uint32_t at = 0;; at++) {
        if (!ks_ok(ks_cbor_more(&view, &array, &more)))
            return false;
        if (!more || at == batch->count)
            return !more && at == batch->count;
        if (!again_cbor_record(&view, &batch->records[at], buffer))
            return false;
    }
}

static inline bool again_cbor(ks_view body, const struct ks_batch *batch, uint8_t *buffer)
{
    struct ks_cbor_container map;
    struct ks_cbor_string name;
    bool more = true;

    if (!ks_ok(ks_cbor_map(&body, &map)))
        return false;
    while (ks_ok(ks_cbor_more(&body, &map, &more)) && more && ks_ok(ks_cbor_text(&body, &name))) {
        ks_view value = body;
        if (ks_cbor_string_equals(&name, KS_VIEW("Records")) && !ks_cbor_null(&value))
            return again_cbor_records(value, batch, buffer);
        if (!ks_ok(ks_cbor_skip(&body)))
            return false;
    }
    return false;
}

#endif
