/* SPDX-License-Identifier: Apache-2.0 */
#include "api/frame.h"

#include <assert.h>

#include "api/json_text.h"
#include "api/limits.h"
#include "base/json_writer.h"
#include "ports/switchboard.h"

/* Field numbers and wire types of record.proto (protobuf.dev/programming-guides/encoding). */
enum {
    WIRE_VARINT = 0,
    WIRE_BYTES = 2,
    EVENT_RECORD = 2,
    BATCH_RECORDS = 2, /* Of PullResponse, too. */
    RECORD_ACK_ID = 1,
    RECORD_BATCH_ID = 2,
    RECORD_STREAM = 3,
    RECORD_SHARD_ID = 4,
    RECORD_EPOCH = 5,
    RECORD_SEQUENCE = 6,
    RECORD_SUB_SEQUENCE = 7,
    RECORD_PARTITION_KEY = 8,
    RECORD_ARRIVAL = 9,
    RECORD_ATTEMPT = 10,
    RECORD_AGGREGATED = 11,
    RECORD_DATA = 12,
    RECORD_REDRIVEN = 13, /* Behind the data: TAIL. */
    RECORD_LANE = 14
};

#define TAIL "\x68\x01" /* RECORD_REDRIVEN << 3 | WIRE_VARINT, true. */

/* All of a head but the common part, the sequence number and the key; both formats stay well below.
 */
enum { HEAD_REST_MAX = 448, KEY_UNICODE_MAX = 3 * KS_PARTITION_KEY_MAX + 4 };

/* ---- Writing bytes; the room was judged before ---- */

static inline uint8_t *put_bytes(uint8_t *at, const void *data, size_t size)
{
    if (size > 0)
        memcpy(at, data, size);
    return at + size;
}

#define PUT_TEXT(at, literal) put_bytes(at, literal, sizeof(literal) - 1)

static uint8_t *put_decimal(uint8_t *at, uint64_t value)
{
    uint8_t digits[20];
    size_t count = 0;

    do {
        digits[count++] = (uint8_t)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    while (count > 0)
        *at++ = digits[--count];
    return at;
}

static inline uint8_t *put_varint(uint8_t *at, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        *at++ = (uint8_t)(value | 0x80);
    *at++ = (uint8_t)value;
    return at;
}

static inline size_t varint_size(uint64_t value)
{
    size_t size = 1;

    for (; value >= 0x80; value >>= 7)
        size++;
    return size;
}

static inline uint8_t *put_tag(uint8_t *at, uint32_t field, uint32_t wire)
{
    return put_varint(at, field << 3 | wire);
}

/* A field that is zero is absent. */
static uint8_t *put_number(uint8_t *at, uint32_t field, uint64_t value)
{
    return value == 0 ? at : put_varint(put_tag(at, field, WIRE_VARINT), value);
}

static uint8_t *put_text(uint8_t *at, uint32_t field, ks_view text)
{
    if (text.size == 0)
        return at;
    at = put_varint(put_tag(at, field, WIRE_BYTES), text.size);
    return put_bytes(at, text.data, text.size);
}

/* ---- Runs ---- */

void ks_framer_init(struct ks_framer *framer, enum ks_frame_format format,
                    struct ks_frame_source source)
{
    memset(framer, 0, sizeof(*framer));
    framer->format = format;
    framer->source = source;
    framer->second = INT64_MIN;
}

static uint8_t *put_json_name(uint8_t *at, const char *name, const char *value)
{
    at = PUT_TEXT(at, "\",\"");
    at = put_bytes(at, name, strlen(name));
    at = PUT_TEXT(at, "\":\"");
    /* Stream names, shard ids and our own ids are of letters, digits and - _ . only. */
    return put_bytes(at, value, strlen(value));
}

static bool is_line(const struct ks_framer *framer)
{
    return framer->format == KS_FRAME_NDJSON || framer->format == KS_FRAME_SSE;
}

static uint8_t *put_json_common(uint8_t *at, const struct ks_framer *framer,
                                const struct ks_frame_names *names)
{
    if (is_line(framer))
        at = put_json_name(at, "batch_id", names->batch_id);
    at = put_json_name(at, "stream", names->stream);
    at = put_json_name(at, "shard_id", names->shard_id);
    at = put_decimal(PUT_TEXT(at, "\",\"epoch\":"), framer->epoch);
    return PUT_TEXT(at, ",\"sequence_number\":\"");
}

/* The JSON of proto3: what is zero is left out, and 64-bit integers are strings. */
static uint8_t *put_proto3_common(uint8_t *at, const struct ks_framer *framer,
                                  const struct ks_frame_names *names)
{
    at = put_json_name(at, "stream", names->stream);
    at = put_json_name(at, "shardId", names->shard_id);
    at = put_decimal(PUT_TEXT(at, "\",\"epoch\":\""), framer->epoch);
    return PUT_TEXT(at, "\",\"sequenceNumber\":\"");
}

static uint8_t *put_protobuf_common(uint8_t *at, const struct ks_framer *framer,
                                    const struct ks_frame_names *names)
{
    if (framer->format == KS_FRAME_PROTOBUF)
        at = put_text(at, RECORD_BATCH_ID, ks_view_text(names->batch_id));
    at = put_text(at, RECORD_STREAM, ks_view_text(names->stream));
    at = put_text(at, RECORD_SHARD_ID, ks_view_text(names->shard_id));
    return put_number(at, RECORD_EPOCH, framer->epoch);
}

static uint8_t *put_common(uint8_t *at, const struct ks_framer *framer,
                           const struct ks_frame_names *names)
{
    switch (framer->format) {
    case KS_FRAME_NDJSON:
    case KS_FRAME_SSE:
    case KS_FRAME_JSON: return put_json_common(at, framer, names);
    case KS_FRAME_ELEMENT_JSON: return put_proto3_common(at, framer, names);
    case KS_FRAME_PROTOBUF:
    case KS_FRAME_ELEMENT: return put_protobuf_common(at, framer, names);
    }
    assert(false);
    return at;
}

void ks_framer_begin(struct ks_framer *framer, const struct ks_ack_stamp *stamp,
                     const struct ks_frame_names *names, const struct ks_ack_run *run,
                     uint32_t attempt)
{
    uint8_t *begin = (uint8_t *)framer->common;
    uint8_t *end;

    assert(framer->next == framer->end && !framer->begun);
    assert(framer->encoding == KS_ENCODING_BASE64 || is_line(framer) ||
           framer->format == KS_FRAME_JSON);
    assert(strlen(names->batch_id) + strlen(names->stream) + strlen(names->shard_id) + 128 <
           sizeof(framer->common));
    framer->stamp = *stamp;
    framer->shard = run->shard;
    framer->epoch = run->epoch;
    framer->next = run->first;
    framer->end = run->first + run->count;
    framer->attempt = attempt;
    end = put_common(begin, framer, names);
    framer->common_size = (size_t)(end - begin);
}

/* ---- JSON ---- */

/* Records come many to the second: only the milliseconds change. */
static uint8_t *put_instant(struct ks_framer *framer, uint8_t *at, int64_t unix_ms)
{
    int64_t second = unix_ms / 1000;
    uint32_t rest = (uint32_t)(unix_ms % 1000);

    if (unix_ms <= 0)
        return PUT_TEXT(at, "null");
    if (second != framer->second) {
        ks_timestamp_format(unix_ms, framer->instant);
        framer->second = second;
    }
    *at++ = '"';
    at = put_bytes(at, framer->instant, KS_TIMESTAMP_SIZE - 1);
    at[-4] = (uint8_t)('0' + rest / 100);
    at[-3] = (uint8_t)('0' + rest / 10 % 10);
    at[-2] = (uint8_t)('0' + rest % 10);
    *at++ = '"';
    return at;
}

/* A dead letter, which has no shard's number. */
static bool is_redriven(const struct ks_framer *framer)
{
    return framer->shard == KS_SHARD_NONE;
}

/* -1: the record does not say one. */
static int64_t lane_of(const struct ks_framer *framer, const struct ks_record *record)
{
    if (framer->lanes == 0 || is_redriven(framer))
        return -1;
    return ks_key_lane(record->partition_key, framer->lanes);
}

/* What only some records are. */
static uint8_t *put_marks(uint8_t *at, const struct ks_framer *framer,
                          const struct ks_record *record)
{
    int64_t lane = lane_of(framer, record);

    if (record->aggregated)
        at = PUT_TEXT(at, ",\"aggregated\":true");
    if (lane > 0 || (lane == 0 && framer->format != KS_FRAME_ELEMENT_JSON))
        at = put_decimal(PUT_TEXT(at, ",\"lane\":"), (uint64_t)lane);
    return is_redriven(framer) ? PUT_TEXT(at, ",\"redriven\":true") : at;
}

static uint8_t *put_json_head(struct ks_framer *framer, uint8_t *at, const struct ks_record *record)
{
    if (framer->format == KS_FRAME_SSE)
        at = PUT_TEXT(at, "event: record\ndata: ");
    if (is_line(framer))
        at = PUT_TEXT(at, "{\"type\":\"record\",\"ack_id\":\"");
    else if (framer->comma)
        at = PUT_TEXT(at, ",{\"ack_id\":\"");
    else
        at = PUT_TEXT(at, "{\"ack_id\":\"");
    ks_ack_id_write(&framer->stamp, framer->next, (char *)at);
    at += KS_ACK_ID_SIZE;
    at = put_bytes(at, framer->common, framer->common_size);
    at = put_bytes(at, record->sequence.data, record->sequence.size);
    at = PUT_TEXT(at, "\",\"sub_sequence_number\":");
    at = put_decimal(at, record->sub_sequence < 0 ? 0 : (uint64_t)record->sub_sequence);
    at = PUT_TEXT(at, ",\"partition_key\":\"");
    at += ks_writer_escape(record->partition_key, (char *)at);
    at = PUT_TEXT(at, "\",\"approximate_arrival_timestamp\":");
    at = put_instant(framer, at, record->arrival_ms);
    at = put_decimal(PUT_TEXT(at, ",\"attempt\":"), framer->attempt);
    at = put_marks(at, framer, record);
    if (framer->spelling != framer->encoding)
        at = PUT_TEXT(at, ",\"encoding\":\"base64\"");
    if (framer->spelling == KS_ENCODING_JSON)
        return PUT_TEXT(at, ",\"data\":");
    return PUT_TEXT(at, ",\"data\":\"");
}

static uint8_t *put_proto3_head(struct ks_framer *framer, uint8_t *at,
                                const struct ks_record *record)
{
    at = framer->comma ? PUT_TEXT(at, ",{\"ackId\":\"") : PUT_TEXT(at, "{\"ackId\":\"");
    ks_ack_id_write(&framer->stamp, framer->next, (char *)at);
    at += KS_ACK_ID_SIZE;
    at = put_bytes(at, framer->common, framer->common_size);
    at = put_bytes(at, record->sequence.data, record->sequence.size);
    if (record->sub_sequence > 0)
        at = put_decimal(PUT_TEXT(at, "\",\"subSequenceNumber\":\""),
                         (uint64_t)record->sub_sequence);
    at = PUT_TEXT(at, "\",\"partitionKey\":\"");
    at += ks_writer_escape(record->partition_key, (char *)at);
    if (record->arrival_ms > 0)
        at = put_decimal(PUT_TEXT(at, "\",\"approximateArrivalTimestamp\":\""),
                         (uint64_t)record->arrival_ms);
    at = put_decimal(PUT_TEXT(at, "\",\"attempt\":"), framer->attempt);
    at = put_marks(at, framer, record);
    return PUT_TEXT(at, ",\"data\":\"");
}

/* Writes what fits of the data; whole groups of three until the last. */
static size_t put_base64(struct ks_framer *framer, uint8_t *at, size_t room,
                         const struct ks_record *record)
{
    ks_view rest =
        ks_view_of(record->data.data + framer->offset, record->data.size - framer->offset);

    if (rest.size > room / 4 * 3)
        rest.size = room / 4 * 3;
    if (rest.size == 0)
        return 0;
    framer->offset += rest.size;
    return ks_base64_encode(rest, (char *)at);
}

/* The same of text that goes between quotes. */
static size_t put_string(struct ks_framer *framer, uint8_t *at, size_t room,
                         const struct ks_record *record)
{
    ks_view rest =
        ks_view_of(record->data.data + framer->offset, record->data.size - framer->offset);
    size_t size = ks_json_escape(&rest, at, room);

    framer->offset = record->data.size - rest.size;
    return size;
}

/* The same of a value. */
static size_t put_value(struct ks_framer *framer, uint8_t *at, size_t room,
                        const struct ks_record *record)
{
    size_t left = record->data.size - framer->offset;
    size_t size = left < room ? left : room;

    ks_json_copy_on_one_line(ks_view_of(record->data.data + framer->offset, size), at);
    framer->offset += size;
    return size;
}

/* What the data can be written in: what was asked for, or base64. */
static enum ks_frame_encoding spelling_of(const struct ks_framer *framer,
                                          const struct ks_record *record)
{
    switch (framer->encoding) {
    case KS_ENCODING_BASE64: return KS_ENCODING_BASE64;
    case KS_ENCODING_UTF8:
        return ks_view_is_unicode(record->data) ? KS_ENCODING_UTF8 : KS_ENCODING_BASE64;
    case KS_ENCODING_JSON:
        return ks_json_is_value(record->data) ? KS_ENCODING_JSON : KS_ENCODING_BASE64;
    }
    assert(false);
    return KS_ENCODING_BASE64;
}

/* ---- Protobuf ---- */

/* A proto string must be UTF-8. A partition key that is not, which Kinesis does not allow, is written with U+FFFD for
 * each wrong byte, as in JSON. */
static ks_view unicode_key(ks_view key, uint8_t buffer[KEY_UNICODE_MAX])
{
    static const ks_view replacement = {(const uint8_t *)"\xEF\xBF\xBD", 3};
    size_t size = 0;

    if (ks_view_is_unicode(key))
        return key;
    while (key.size > 0 && size <= KEY_UNICODE_MAX - 4) {
        const size_t character = ks_view_character(key);
        const size_t taken = character == 0 ? 1 : character;
        const ks_view written = character == 0 ? replacement : ks_view_of(key.data, character);

        memcpy(buffer + size, written.data, written.size);
        size += written.size;
        key = ks_view_of(key.data + taken, key.size - taken);
    }
    return ks_view_of(buffer, size);
}

/* The field behind the data, if there is one. */
static const char *tail_of(const struct ks_framer *framer)
{
    return is_redriven(framer) ? TAIL : "";
}

/* The fields before the data, and the data's tag and size. */
static uint8_t *put_fields(struct ks_framer *framer, uint8_t *at, const struct ks_record *record)
{
    static uint8_t key
        [KEY_UNICODE_MAX]; /* Written before it is read; of a local one each byte is made zero. */
    int64_t lane = lane_of(framer, record);

    at = put_varint(put_tag(at, RECORD_ACK_ID, WIRE_BYTES), KS_ACK_ID_SIZE);
    ks_ack_id_write(&framer->stamp, framer->next, (char *)at);
    at += KS_ACK_ID_SIZE;
    at = put_bytes(at, framer->common, framer->common_size);
    at = put_text(at, RECORD_SEQUENCE, record->sequence);
    if (record->sub_sequence > 0)
        at = put_number(at, RECORD_SUB_SEQUENCE, (uint64_t)record->sub_sequence);
    at = put_text(at, RECORD_PARTITION_KEY, unicode_key(record->partition_key, key));
    at = put_number(at, RECORD_ARRIVAL, (uint64_t)record->arrival_ms);
    at = put_number(at, RECORD_ATTEMPT, framer->attempt);
    at = put_number(at, RECORD_AGGREGATED, record->aggregated);
    if (lane > 0)
        at = put_number(at, RECORD_LANE, (uint64_t)lane);
    if (record->data.size > 0)
        at = put_varint(put_tag(at, RECORD_DATA, WIRE_BYTES), record->data.size);
    return at;
}

static uint8_t *put_protobuf_head(struct ks_framer *framer, uint8_t *at,
                                  const struct ks_record *record)
{
    /* The two sizes stand before the fields and are known after them. */
    enum { SIZES_MAX = 16 };
    uint8_t *fields = at + SIZES_MAX;
    size_t fields_size = (size_t)(put_fields(framer, fields, record) - fields);
    uint64_t inner = fields_size + record->data.size + strlen(tail_of(framer));
    uint64_t outer = varint_size(EVENT_RECORD << 3 | WIRE_BYTES) + varint_size(inner) + inner;

    if (framer->format == KS_FRAME_PROTOBUF)
        at = put_varint(put_tag(put_varint(at, outer), EVENT_RECORD, WIRE_BYTES), inner);
    else
        at = put_varint(put_tag(at, BATCH_RECORDS, WIRE_BYTES), inner);
    assert(at <= fields);
    memmove(at, fields, fields_size);
    return at + fields_size;
}

static size_t put_copy(struct ks_framer *framer, uint8_t *at, size_t room,
                       const struct ks_record *record)
{
    size_t size = record->data.size - framer->offset;

    if (size > room)
        size = room;
    (void)put_bytes(at, record->data.data + framer->offset, size);
    framer->offset += size;
    return size;
}

/* ---- Records ---- */

static size_t head_max(const struct ks_framer *framer, const struct ks_record *record)
{
    /* A byte of the key becomes six characters at most. */
    return HEAD_REST_MAX + framer->common_size + record->sequence.size +
           6 * record->partition_key.size;
}

static bool is_protobuf(const struct ks_framer *framer)
{
    return framer->format == KS_FRAME_PROTOBUF || framer->format == KS_FRAME_ELEMENT;
}

/* What `size` bytes of data, or the rest of them, become: with what closes the record. */
static size_t data_room(const struct ks_framer *framer, size_t size)
{
    enum { CLOSING = 2 }; /* Line feeds count with the head. */

    return is_protobuf(framer) ? size + strlen(tail_of(framer)) : ks_base64_size(size) + CLOSING;
}

size_t ks_framer_rest(const struct ks_framer *framer)
{
    return framer->begun ? data_room(framer, framer->data_size - framer->offset) : 0;
}

static size_t put_data(struct ks_framer *framer, uint8_t *at, size_t room,
                       const struct ks_record *record)
{
    if (is_protobuf(framer))
        return put_copy(framer, at, room, record);
    switch (framer->spelling) {
    case KS_ENCODING_BASE64: return put_base64(framer, at, room, record);
    case KS_ENCODING_UTF8: return put_string(framer, at, room, record);
    case KS_ENCODING_JSON: return put_value(framer, at, room, record);
    }
    assert(false);
    return 0;
}

static uint8_t *put_head(struct ks_framer *framer, uint8_t *at, const struct ks_record *record)
{
    if (is_protobuf(framer))
        return put_protobuf_head(framer, at, record);
    return framer->format == KS_FRAME_ELEMENT_JSON ? put_proto3_head(framer, at, record)
                                                   : put_json_head(framer, at, record);
}

static size_t fill_end(const struct ks_framer *framer, uint8_t *at, size_t room)
{
    const char *text = framer->format == KS_FRAME_SSE ? "\"}\n\n"
                       : is_line(framer)              ? "\"}\n"
                                                      : "\"}";
    size_t size;

    if (is_protobuf(framer))
        text = tail_of(framer);
    else if (framer->spelling == KS_ENCODING_JSON)
        text++; /* It is not between quotes. */
    size = strlen(text);
    if (size > room)
        return SIZE_MAX;
    (void)put_bytes(at, text, size);
    return size;
}

/* Writes what fits of one record. True when it is out. */
static bool fill_record(struct ks_framer *framer, const struct ks_record *record, uint8_t **at,
                        const uint8_t *limit)
{
    size_t room = (size_t)(limit - *at);
    size_t size;

    if (!framer->begun) {
        size = head_max(framer, record);
        if (framer->whole && framer->comma)
            size += data_room(framer, record->data.size);
        if (size > room)
            return false;
        framer->spelling = spelling_of(framer, record);
        *at = put_head(framer, *at, record);
        framer->begun = true;
        framer->offset = 0;
        framer->data_size = record->data.size;
    }
    *at += put_data(framer, *at, (size_t)(limit - *at), record);
    if (framer->offset < record->data.size)
        return false;
    size = fill_end(framer, *at, (size_t)(limit - *at));
    if (size == SIZE_MAX)
        return false;
    *at += size;
    return true;
}

size_t ks_framer_fill(struct ks_framer *framer, uint8_t *buffer, size_t room,
                      enum ks_frame_state *ret_state)
{
    const uint8_t *limit = buffer + room;
    uint8_t *at = buffer;
    /* What was half-way ends a message that has been promised its size. */
    bool alone = framer->whole && framer->begun;

    *ret_state = KS_FRAME_DONE;
    while (framer->next < framer->end) {
        const struct ks_record *record = framer->source.record(framer->source.arg, framer->next);
        if (record == NULL) {
            *ret_state = framer->begun ? KS_FRAME_CUT : KS_FRAME_MISSING;
            break;
        }
        if (!fill_record(framer, record, &at, limit)) {
            *ret_state = KS_FRAME_FULL;
            break;
        }
        framer->begun = false;
        framer->comma = true;
        framer->next++;
        if (framer->ends_count < framer->ends_room)
            framer->ends[framer->ends_count++] = (uint32_t)(at - buffer);
        if (alone && framer->next < framer->end) {
            *ret_state = KS_FRAME_FULL;
            break;
        }
    }
    return (size_t)(at - buffer);
}
