/* SPDX-License-Identifier: Apache-2.0 */
/* records_written.h - a right answer of GetRecords, as some bytes choose it, and what is in it: who refuses it is
 * wrong.
 *
 * Of what either format allows: members in any order, some that nobody knows, heads of CBOR wider than they must be,
 * lengths told or not, strings in chunks, white space and escapes. For the fuzz programs of both formats; no code of
 * ours is asked but that of base64.
 */
#ifndef TESTS_LIB_RECORDS_WRITTEN_H
#define TESTS_LIB_RECORDS_WRITTEN_H

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "adapters/kinesis/records.h"
#include "base/codec.h"

enum { WRITTEN_RECORDS = 4, WRITTEN_BYTES_MAX = 63, WRITTEN_BODY_MAX = 32 << 10 };
enum written_major { WRITTEN_NUMBER, WRITTEN_BYTES = 2, WRITTEN_TEXT, WRITTEN_ARRAY, WRITTEN_MAP };

struct written {
    bool json;
    ks_view choices; /* 0 when they are used up. */
    bool first;      /* No comma before the next member or item. */
    struct written_record {
        uint8_t data[WRITTEN_BYTES_MAX];
        size_t data_size;
        uint8_t key[2 * WRITTEN_BYTES_MAX]; /* UTF-8. */
        size_t key_size;
        char sequence[24];
        int64_t arrival_ms;
    } records[WRITTEN_RECORDS];
    uint32_t count;
    int64_t millis_behind;
    uint8_t body[WRITTEN_BODY_MAX];
    size_t size;
};

static inline uint8_t written_choice(struct written *w)
{
    uint8_t choice = 0;

    return ks_ok(ks_view_take_u8(&w->choices, &choice)) ? choice : 0;
}

static inline void written_put(struct written *w, const void *bytes, size_t size)
{
    assert(size <= sizeof(w->body) - w->size);
    memcpy(w->body + w->size, bytes, size);
    w->size += size;
}

static inline void written_byte(struct written *w, int byte)
{
    written_put(w, &(uint8_t){(uint8_t)byte}, 1);
}

/* --- CBOR: RFC 8949, 3 --- */

static inline void written_head(struct written *w, enum written_major major, uint64_t number)
{
    int width = written_choice(w) % 5; /* 1, 2, 4, 8 bytes behind it; 0: within it. */

    while (width < 4 && (width == 0 ? number >= 24 : number >> (8 << (width - 1)) != 0))
        width++;
    written_byte(w, (int)major << 5 | (width == 0 ? (int)number : 23 + width));
    for (int left = width == 0 ? 0 : 1 << (width - 1); left > 0; left--)
        written_byte(w, (int)(number >> 8 * (left - 1) & 0xFF));
}

static inline void written_cbor_string(struct written *w, enum written_major major,
                                       const uint8_t *bytes, size_t size)
{
    if (written_choice(w) % 2 == 0) {
        written_head(w, major, size);
        written_put(w, bytes, size);
        return;
    }
    written_byte(w, (int)major << 5 | 31);
    while (size > 0) {
        size_t piece = 1 + (size_t)written_choice(w) % size;
        /* Text is cut between characters. */
        while (major == WRITTEN_TEXT && piece < size && (bytes[piece] & 0xC0) == 0x80)
            piece++;
        written_head(w, major, piece);
        written_put(w, bytes, piece);
        bytes += piece;
        size -= piece;
    }
    written_byte(w, 0xFF);
}

/* --- JSON --- */

/* Characters are below 0x100, in one byte or two. */
static inline void written_json_text(struct written *w, const uint8_t *bytes, size_t size)
{
    char escape[8];

    written_byte(w, '"');
    for (size_t at = 0; at < size; at++) {
        bool two = bytes[at] >= 0x80;
        int character = two ? (bytes[at] & 0x1F) << 6 | (bytes[at + 1] & 0x3F) : bytes[at];
        bool must = character < ' ' || character == '"' || character == '\\';
        if (must || written_choice(w) % 4 == 1) {
            (void)snprintf(escape, sizeof(escape), "\\u%04x", character);
            written_put(w, escape, 6);
        } else {
            written_put(w, bytes + at, two ? 2 : 1);
        }
        at += two ? 1 : 0;
    }
    written_byte(w, '"');
}

/* --- Both --- */

static inline void written_text(struct written *w, const void *bytes, size_t size)
{
    if (w->json)
        written_json_text(w, bytes, size);
    else
        written_cbor_string(w, WRITTEN_TEXT, bytes, size);
}

static inline void written_next(struct written *w)
{
    static const char SPACES[] = " \n\r\t";

    if (!w->json)
        return;
    if (!w->first)
        written_byte(w, ',');
    if (written_choice(w) % 4 == 1)
        written_byte(w, SPACES[written_choice(w) % 4]);
    w->first = false;
}

static inline void written_name(struct written *w, const char *name)
{
    written_next(w);
    if (!w->json) {
        written_cbor_string(w, WRITTEN_TEXT, (const uint8_t *)name, strlen(name));
        return;
    }
    written_byte(w, '"');
    written_put(w, name, strlen(name));
    written_put(w, "\":", 2);
}

/* Returns whether an end is to be written. */
static inline bool written_open(struct written *w, enum written_major major, uint64_t items)
{
    bool endless = w->json || written_choice(w) % 2 == 1;

    w->first = true;
    if (w->json)
        written_byte(w, major == WRITTEN_MAP ? '{' : '[');
    else if (endless)
        written_byte(w, (int)major << 5 | 31);
    else
        written_head(w, major, items);
    return endless;
}

static inline void written_close(struct written *w, enum written_major major, bool endless)
{
    if (endless)
        written_byte(w, !w->json ? 0xFF : major == WRITTEN_MAP ? '}' : ']');
    w->first = false;
}

static inline void written_number(struct written *w, int64_t number)
{
    char text[24];

    if (w->json)
        written_put(w, text, (size_t)snprintf(text, sizeof(text), "%lld", (long long)number));
    else
        written_head(w, WRITTEN_NUMBER, (uint64_t)number);
}

/* --- An answer --- */

static inline void written_data(struct written *w, const struct written_record *record)
{
    char base64[WRITTEN_BYTES_MAX * 2];

    if (!w->json && written_choice(w) % 4 != 1)
        written_cbor_string(w, WRITTEN_BYTES, record->data, record->data_size);
    else
        written_text(w, base64,
                     ks_base64_encode(ks_view_of(record->data, record->data_size), base64));
}

/* They are never escaped. */
static inline void written_digits(struct written *w, const char *digits)
{
    char text[32];

    if (w->json)
        written_put(w, text, (size_t)snprintf(text, sizeof(text), "\"%s\"", digits));
    else
        written_text(w, digits, strlen(digits));
}

static inline void written_arrival(struct written *w, int64_t ms)
{
    char text[32];

    if (!w->json) {
        written_byte(w, 0xC1);
        written_number(w, ms);
        return;
    }
    (void)snprintf(text, sizeof(text), "%lld.%03d", (long long)(ms / 1000), (int)(ms % 1000));
    written_put(w, text, strlen(text));
}

static inline void written_unknown(struct written *w)
{
    written_name(w, "Later");
    bool endless = written_open(w, WRITTEN_ARRAY, 2);
    written_next(w);
    written_put(w, w->json ? "null" : "\xF6", w->json ? 4 : 1);
    written_next(w);
    written_text(w, "]}", 2);
    written_close(w, WRITTEN_ARRAY, endless);
}

static inline void written_record(struct written *w, const struct written_record *record)
{
    uint8_t turn = written_choice(w);
    bool endless = written_open(w, WRITTEN_MAP, 5);

    for (int at = 0; at < 5; at++) {
        switch ((turn + at) % 5) {
        case 0:
            written_name(w, "Data");
            written_data(w, record);
            break;
        case 1:
            written_name(w, "PartitionKey");
            written_text(w, record->key, record->key_size);
            break;
        case 2:
            written_name(w, "SequenceNumber");
            written_digits(w, record->sequence);
            break;
        case 3:
            written_name(w, "ApproximateArrivalTimestamp");
            written_arrival(w, record->arrival_ms);
            break;
        default: written_unknown(w); break;
        }
    }
    written_close(w, WRITTEN_MAP, endless);
}

static inline void written_choose(struct written *w, struct written_record *record)
{
    record->data_size = written_choice(w) % (WRITTEN_BYTES_MAX + 1);
    for (size_t at = 0; at < record->data_size; at++)
        record->data[at] = written_choice(w);
    record->key_size = 0;
    for (int left = 1 + written_choice(w) % WRITTEN_BYTES_MAX; left > 0; left--) {
        int character = written_choice(w);
        character = character == 0 ? 'k' : character;
        if (character >= 0x80)
            record->key[record->key_size++] = (uint8_t)(0xC0 | character >> 6);
        record->key[record->key_size++] =
            (uint8_t)(character < 0x80 ? character : 0x80 | (character & 0x3F));
    }
    (void)snprintf(record->sequence, sizeof(record->sequence), "4968%03d", written_choice(w));
    record->arrival_ms = 1795223827000 + 997 * written_choice(w);
}

static inline void written_answer(struct written *w, bool json, ks_view choices)
{
    *w = (struct written){.json = json, .choices = choices};
    w->count = written_choice(w) % (WRITTEN_RECORDS + 1);
    w->millis_behind = 300 * written_choice(w);
    for (uint32_t at = 0; at < w->count; at++)
        written_choose(w, &w->records[at]);
    uint8_t turn = written_choice(w);
    bool endless = written_open(w, WRITTEN_MAP, 3);
    for (int at = 0; at < 3; at++) {
        if ((turn + at) % 3 == 0) {
            written_name(w, "Records");
            bool many = written_open(w, WRITTEN_ARRAY, w->count);
            for (uint32_t which = 0; which < w->count; which++) {
                written_next(w);
                written_record(w, &w->records[which]);
            }
            written_close(w, WRITTEN_ARRAY, many);
        } else if ((turn + at) % 3 == 1) {
            written_name(w, "NextShardIterator");
            written_text(w, "AAA/next", 8);
        } else {
            written_name(w, "MillisBehindLatest");
            written_number(w, w->millis_behind);
        }
    }
    written_close(w, WRITTEN_MAP, endless);
}

/* True if a reader found all of it, and nothing else. */
static inline bool written_is(const struct written *w, const struct ks_records *records)
{
    bool right = records->batch.count == w->count &&
                 records->batch.millis_behind == w->millis_behind &&
                 strcmp(records->iterator, "AAA/next") == 0;

    for (uint32_t at = 0; right && at < w->count; at++) {
        const struct written_record *record = &w->records[at];
        const struct ks_record *found = &records->batch.records[at];
        right = ks_view_equal(found->data, ks_view_of(record->data, record->data_size)) &&
                ks_view_equal(found->partition_key, ks_view_of(record->key, record->key_size)) &&
                ks_view_equal(found->sequence, ks_view_text(record->sequence)) &&
                found->arrival_ms == record->arrival_ms;
    }
    return right;
}

#endif
