/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies: CBOR read as the JSON that says the same, answers written in either. */
#include "kinesis.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Reading CBOR ---- */

enum { DEPTH_MAX = 16, BREAK = 0xff };
enum major { UNSIGNED, NEGATIVE, BYTE_STRING, TEXT_STRING, ARRAY, MAP, TAG, SIMPLE };
enum { INDEFINITE = 31 };

struct cursor {
    const uint8_t *at, *end;
};

struct head {
    enum major major;
    uint8_t info;
    uint64_t value;
};

static bool take_head(struct cursor *cursor, struct head *ret_head)
{
    if (cursor->at == cursor->end)
        return false;
    *ret_head = (struct head){.major = (enum major)(*cursor->at >> 5),
                              .info = *cursor->at & 31,
                              .value = *cursor->at & 31};
    cursor->at++;
    if (ret_head->info < 24 || ret_head->info == INDEFINITE)
        return true;
    size_t size = (size_t)1 << (ret_head->info - 24);
    if (ret_head->info > 27 || (size_t)(cursor->end - cursor->at) < size)
        return false;
    ret_head->value = 0;
    for (; size > 0; size--)
        ret_head->value = ret_head->value << 8 | *cursor->at++;
    return true;
}

/* In one piece, or in chunks. */
static bool take_string(struct cursor *cursor, struct head head, struct bytes *to)
{
    struct head chunk;

    if (head.info != INDEFINITE) {
        if (head.value > (size_t)(cursor->end - cursor->at))
            return false;
        bytes_add(to, cursor->at, head.value);
        cursor->at += head.value;
        return true;
    }
    while (take_head(cursor, &chunk)) {
        if (chunk.major == SIMPLE && chunk.info == INDEFINITE)
            return true;
        if (chunk.major != head.major || chunk.info == INDEFINITE ||
            !take_string(cursor, chunk, to))
            return false;
    }
    return false;
}

static json_t *take_text(struct cursor *cursor, struct head head)
{
    struct bytes bytes = {.data = NULL};
    struct bytes text = {.data = NULL};
    json_t *item = NULL;

    if (take_string(cursor, head, &bytes)) {
        if (head.major == BYTE_STRING)
            base64_add(&text, bytes_front(&bytes), bytes_size(&bytes));
        else
            bytes_add(&text, bytes_front(&bytes), bytes_size(&bytes));
        bytes_room(&text, 1);
        item = json_stringn((const char *)bytes_front(&text), bytes_size(&text));
    }
    bytes_free(&bytes);
    bytes_free(&text);
    return item;
}

static double half_of(uint16_t half)
{
    int exponent = half >> 10 & 31;
    double value =
        ldexp((half & 1023) + (exponent > 0 ? 1024 : 0), (exponent > 0 ? exponent : 1) - 25);

    return (half & 0x8000) != 0 ? -value : value;
}

static json_t *simple_of(struct head head)
{
    uint32_t bits = (uint32_t)head.value;
    double number;
    float single;

    switch (head.info) {
    case 20: return json_false();
    case 21: return json_true();
    case 22:
    case 23: return json_null();
    case 25: return json_real(half_of((uint16_t)head.value));
    case 26: memcpy(&single, &bits, sizeof single); return json_real((double)single);
    case 27: memcpy(&number, &head.value, sizeof number); return json_real(number);
    default: return NULL;
    }
}

static json_t *take_item(struct cursor *cursor, int depth);

/* True at the break of an indefinite one, which is taken, or when `left` items were. */
static bool at_end(struct cursor *cursor, const struct head *head, uint64_t taken)
{
    if (head->info != INDEFINITE)
        return taken == head->value;
    if (cursor->at == cursor->end || *cursor->at != BREAK)
        return false;
    cursor->at++;
    return true;
}

static json_t *take_container(struct cursor *cursor, struct head head, int depth)
{
    json_t *items = head.major == MAP ? json_object() : json_array();

    for (uint64_t taken = 0; !at_end(cursor, &head, taken); taken++) {
        json_t *key = head.major == MAP ? take_item(cursor, depth + 1) : NULL;
        json_t *item = take_item(cursor, depth + 1);
        bool good =
            head.major == MAP
                ? json_is_string(key) && json_object_set(items, json_string_value(key), item) == 0
                : json_array_append(items, item) == 0;
        json_decref(key);
        json_decref(item);
        if (!good) {
            json_decref(items);
            return NULL;
        }
    }
    return items;
}

/* Tag 1 and an integer are milliseconds here, whatever the RFC says. */
static json_t *take_tagged(struct cursor *cursor, struct head head, int depth)
{
    json_t *item = take_item(cursor, depth + 1);

    if (head.value == 1 && json_is_integer(item)) {
        double seconds = (double)json_integer_value(item) / 1000.0;
        json_decref(item);
        return json_real(seconds);
    }
    return item;
}

static json_t *take_item(struct cursor *cursor, int depth)
{
    struct head head;

    if (depth > DEPTH_MAX || !take_head(cursor, &head))
        return NULL;
    switch (head.major) {
    case UNSIGNED: return head.value > INT64_MAX ? NULL : json_integer((json_int_t)head.value);
    case NEGATIVE: return head.value > INT64_MAX ? NULL : json_integer(-1 - (json_int_t)head.value);
    case BYTE_STRING:
    case TEXT_STRING: return take_text(cursor, head);
    case ARRAY:
    case MAP: return take_container(cursor, head, depth);
    case TAG: return take_tagged(cursor, head, depth);
    case SIMPLE: return simple_of(head);
    }
    return NULL;
}

json_t *cbor_read(const uint8_t *data, size_t size)
{
    struct cursor cursor = {data, data + size};
    json_t *item = take_item(&cursor, 0);

    if (item != NULL && cursor.at != cursor.end) {
        json_decref(item);
        return NULL;
    }
    return item;
}

/* ---- Writing ---- */

static void write_byte(struct writer *writer, uint8_t byte)
{
    bytes_add(writer->to, &byte, 1);
}

/* The head of a CBOR item, in its shortest form. */
static void write_head(struct writer *writer, enum major major, uint64_t value)
{
    uint8_t raw[9];
    size_t size = value < 24            ? 0
                  : value <= UINT8_MAX  ? 1
                  : value <= UINT16_MAX ? 2
                  : value <= UINT32_MAX ? 4
                                        : 8;
    static const uint8_t info[] = {[1] = 24, [2] = 25, [4] = 26, [8] = 27};

    raw[0] = (uint8_t)((unsigned)major << 5 | (size == 0 ? (unsigned)value : info[size]));
    for (size_t at = 0; at < size; at++)
        raw[1 + at] = (uint8_t)(value >> 8 * (size - 1 - at));
    bytes_add(writer->to, raw, 1 + size);
}

/* JSON: what separates it from the item before. */
static void begin_item(struct writer *writer)
{
    if (!writer->cbor && writer->comma)
        write_byte(writer, ',');
    writer->comma = true;
}

static void open_container(struct writer *writer, enum major major, char bracket)
{
    begin_item(writer);
    write_byte(writer,
               writer->cbor ? (uint8_t)((unsigned)major << 5 | INDEFINITE) : (uint8_t)bracket);
    writer->comma = false;
}

static void close_container(struct writer *writer, char bracket)
{
    write_byte(writer, writer->cbor ? BREAK : (uint8_t)bracket);
    writer->comma = true;
}

void write_map(struct writer *writer)
{
    open_container(writer, MAP, '{');
}

void write_map_end(struct writer *writer)
{
    close_container(writer, '}');
}

void write_list(struct writer *writer)
{
    open_container(writer, ARRAY, '[');
}

void write_list_end(struct writer *writer)
{
    close_container(writer, ']');
}

static void write_json_text(struct bytes *to, const char *text, size_t size)
{
    bytes_add(to, "\"", 1);
    for (size_t at = 0; at < size; at++) {
        if (text[at] == '"' || text[at] == '\\')
            bytes_print(to, "\\%c", text[at]);
        else if ((uint8_t)text[at] < 0x20)
            bytes_print(to, "\\u%04x", (unsigned)(uint8_t)text[at]);
        else
            bytes_add(to, &text[at], 1);
    }
    bytes_add(to, "\"", 1);
}

void write_text(struct writer *writer, const char *text, size_t size)
{
    begin_item(writer);
    if (writer->cbor) {
        write_head(writer, TEXT_STRING, size);
        bytes_add(writer->to, text, size);
    } else
        write_json_text(writer->to, text, size);
}

void write_key(struct writer *writer, const char *key)
{
    write_text(writer, key, strlen(key));
    if (!writer->cbor)
        write_byte(writer, ':');
    writer->comma = false;
}

void write_blob(struct writer *writer, const void *data, size_t size)
{
    begin_item(writer);
    if (writer->cbor) {
        write_head(writer, BYTE_STRING, size);
        bytes_add(writer->to, data, size);
        return;
    }
    write_byte(writer, '"');
    base64_add(writer->to, data, size);
    write_byte(writer, '"');
}

void write_number(struct writer *writer, int64_t number)
{
    begin_item(writer);
    if (!writer->cbor)
        bytes_print(writer->to, "%lld", (long long)number);
    else if (number < 0)
        write_head(writer, NEGATIVE, (uint64_t)(-1 - number));
    else
        write_head(writer, UNSIGNED, (uint64_t)number);
}

void write_bool(struct writer *writer, bool fact)
{
    begin_item(writer);
    if (writer->cbor)
        bytes_add(writer->to, fact ? "\xf5" : "\xf4", 1);
    else
        bytes_print(writer->to, fact ? "true" : "false");
}

/* In JSON as the Java of the service prints its doubles: 1.441215410867E9. */
void write_time(struct writer *writer, int64_t unix_ms)
{
    begin_item(writer);
    if (writer->cbor) {
        write_head(writer, TAG, 1);
        write_head(writer, UNSIGNED, (uint64_t)unix_ms);
    } else
        bytes_print(writer->to, "%lld.%012lldE9", (long long)(unix_ms / 1000000000000),
                    (long long)(unix_ms % 1000000000000));
}

void write_pair(struct writer *writer, const char *key, const char *text)
{
    write_key(writer, key);
    write_text(writer, text, strlen(text));
}
