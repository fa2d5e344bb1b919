/* SPDX-License-Identifier: Apache-2.0 */
/* The half of codec_json.h that writes: it needs no library. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "api/codec_json.h"
#include "api/codec_proto.h"

/* One message that is being written. */
struct walk {
    const ProtobufCMessage *message;
    unsigned field;
    size_t element;
    bool inside; /* The field's list is open. */
};

struct writing {
    struct ks_writer *json;
    struct ks_json_style style;
    struct ks_arena arena; /* What was inside of an Any. */
};

static const void *member(const ProtobufCMessage *message, unsigned offset)
{
    return (const uint8_t *)message + offset;
}

/* ---- Values ---- */

static void write_enum(const struct writing *writing, const ProtobufCFieldDescriptor *field,
                       int value)
{
    const ProtobufCEnumValue *named =
        protobuf_c_enum_descriptor_get_value(field->descriptor, value);
    char word[KS_JSON_WORD_MAX];

    if (writing->style.spelling == KS_SPELLING_PROTO) {
        if (named == NULL)
            ks_writer_i64(writing->json, value);
        else
            ks_writer_string(writing->json, named->name);
        return;
    }
    if (named == NULL || value == 0) {
        ks_writer_null(writing->json);
        return;
    }
    ks_enum_word(field->descriptor, named->name, word);
    ks_writer_string(writing->json, word);
}

/* Integers of 64 bits: a reader that keeps numbers as double would spoil them. */
static void write_wide(const struct writing *writing, const ProtobufCFieldDescriptor *field,
                       const void *at)
{
    bool is_signed = field->type == PROTOBUF_C_TYPE_INT64;
    int64_t number;
    uint64_t natural;
    char digits[24];

    memcpy(&number, at, sizeof(number));
    memcpy(&natural, at, sizeof(natural));
    if (writing->style.spelling == KS_SPELLING_PROTO) {
        (void)(is_signed ? snprintf(digits, sizeof(digits), "%" PRId64, number)
                         : snprintf(digits, sizeof(digits), "%" PRIu64, natural));
        ks_writer_string(writing->json, digits);
        return;
    }
    if (ks_field_is_instant(field))
        ks_writer_instant(writing->json, number);
    else if (is_signed)
        ks_writer_i64(writing->json, number);
    else
        ks_writer_u64(writing->json, natural);
}

static void write_text(struct ks_writer *json, const void *at)
{
    const char *text;

    memcpy(&text, at, sizeof(text));
    ks_writer_string(json, text == NULL ? "" : text);
}

static void write_bytes(struct ks_writer *json, const void *at)
{
    ProtobufCBinaryData bytes;

    memcpy(&bytes, at, sizeof(bytes));
    ks_writer_base64(json, ks_view_of(bytes.data, bytes.len));
}

/* Writes one value that is not a message. */
static void write_value(const struct writing *writing, const ProtobufCFieldDescriptor *field,
                        const void *at)
{
    struct ks_writer *json = writing->json;
    int32_t narrow = 0;

    if (ks_field_size(field) == sizeof(narrow))
        memcpy(&narrow, at, sizeof(narrow));
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING: write_text(json, at); return;
    case PROTOBUF_C_TYPE_BYTES: write_bytes(json, at); return;
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT64: write_wide(writing, field, at); return;
    case PROTOBUF_C_TYPE_ENUM: write_enum(writing, field, narrow); return;
    case PROTOBUF_C_TYPE_INT32: ks_writer_i64(json, narrow); return;
    case PROTOBUF_C_TYPE_UINT32: ks_writer_u64(json, (uint32_t)narrow); return;
    case PROTOBUF_C_TYPE_BOOL: ks_writer_bool(json, narrow != 0); return;
    default: break;
    }
    assert(false);
}

/* ---- Messages ---- */

static const ProtobufCMessage *inner_at(const void *at)
{
    const ProtobufCMessage *inner;

    memcpy(&inner, at, sizeof(inner));
    return inner;
}

static bool is_zero(const ProtobufCFieldDescriptor *field, const void *at)
{
    static const uint8_t zeros[sizeof(uint64_t)];
    ProtobufCBinaryData bytes;
    const char *text;

    if (field->type == PROTOBUF_C_TYPE_BYTES) {
        memcpy(&bytes, at, sizeof(bytes));
        return bytes.len == 0;
    }
    if (field->type == PROTOBUF_C_TYPE_STRING) {
        memcpy(&text, at, sizeof(text));
        return text == NULL || text[0] == '\0';
    }
    return memcmp(at, zeros, ks_field_size(field)) == 0;
}

/* True if the field is not spelled out at all. */
static bool is_left_out(const struct writing *writing, const ProtobufCMessage *message,
                        const ProtobufCFieldDescriptor *field)
{
    bool proto = writing->style.spelling == KS_SPELLING_PROTO;
    size_t count;
    uint32_t set;

    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        memcpy(&count, member(message, field->quantifier_offset), sizeof(count));
        return proto && count == 0;
    }
    if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) == 0)
        return proto && is_zero(field, member(message, field->offset));
    memcpy(&set, member(message, field->quantifier_offset), sizeof(set));
    return set != field->id;
}

static void write_key(const struct writing *writing, const ProtobufCFieldDescriptor *field)
{
    char buffer[KS_JSON_NAME_MAX];

    ks_writer_key(writing->json, ks_field_name(field, writing->style.spelling, buffer));
}

/* Writes one element of a list, or its end. A message inside is returned to be written first. */
static const ProtobufCMessage *step_list(const struct writing *writing, struct walk *walk,
                                         const ProtobufCFieldDescriptor *field)
{
    const uint8_t *elements;
    size_t count;

    memcpy(&count, member(walk->message, field->quantifier_offset), sizeof(count));
    memcpy(&elements, member(walk->message, field->offset), sizeof(elements));
    if (!walk->inside) {
        write_key(writing, field);
        ks_writer_open(writing->json, '[');
        walk->inside = true;
    }
    if (walk->element == count) {
        ks_writer_close(writing->json, ']');
        *walk = (struct walk){.message = walk->message, .field = walk->field + 1};
        return NULL;
    }
    elements += walk->element++ * ks_field_size(field);
    if (field->type == PROTOBUF_C_TYPE_MESSAGE)
        return inner_at(elements);
    write_value(writing, field, elements);
    return NULL;
}

/* Writes the field that the walk stands at, or one element of it. */
static const ProtobufCMessage *step(const struct writing *writing, struct walk *walk)
{
    const ProtobufCFieldDescriptor *field = &walk->message->descriptor->fields[walk->field];
    const ProtobufCMessage *inner = NULL;
    const void *at = member(walk->message, field->offset);

    if (!walk->inside && is_left_out(writing, walk->message, field)) {
        walk->field++;
        return NULL;
    }
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return step_list(writing, walk, field);
    walk->field++;
    write_key(writing, field);
    if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
        inner = inner_at(at);
        if (inner == NULL)
            ks_writer_null(writing->json);
        return inner;
    }
    write_value(writing, field, at);
    return NULL;
}

/* The message inside of an Any, whose type has been written: its members stand beside "@type". */
static const ProtobufCMessage *open_any(struct writing *writing, const ProtobufCMessage *message)
{
    const struct ks_any *any = (const struct ks_any *)message;
    const ProtobufCMessageDescriptor *type = ks_type_of_url(writing->style.types, any->type_url);
    ks_view value = ks_view_of(any->value.data, any->value.len);
    ProtobufCMessage *inner = NULL;

    if (type == NULL || !ks_ok(ks_proto_read(value, type, &writing->arena, &inner, NULL))) {
        if (ks_ok(writing->json->err))
            writing->json->err = KS_FAIL(INVALID);
        return NULL;
    }
    ks_writer_key(writing->json, "@type");
    ks_writer_string(writing->json, any->type_url);
    return inner;
}

static void walk_all(struct writing *writing, struct walk walks[KS_JSON_DEPTH_MAX])
{
    size_t depth = 1;

    while (depth > 0) {
        struct walk *walk = &walks[depth - 1];
        const ProtobufCMessage *inner;

        if (walk->field == walk->message->descriptor->n_fields) {
            depth--;
            if (depth > 0)
                ks_writer_close(writing->json, '}');
            continue;
        }
        inner = step(writing, walk);
        if (inner == NULL)
            continue;
        ks_writer_open(writing->json, '{');
        if (ks_type_is_any(inner->descriptor))
            inner = open_any(writing, inner);
        if (inner == NULL)
            return;
        if (depth == KS_JSON_DEPTH_MAX) {
            writing->json->err = KS_FAIL(INVALID);
            return;
        }
        walks[depth++] = (struct walk){.message = inner};
    }
}

void ks_json_members(struct ks_writer *json, struct ks_json_style style,
                     const ProtobufCMessage *message)
{
    enum { ANY_BYTES = 32 << 20 };
    struct walk walks[KS_JSON_DEPTH_MAX] = {{.message = message}};
    struct writing writing = {.json = json, .style = style};

    ks_arena_init(&writing.arena, ANY_BYTES);
    walk_all(&writing, walks);
    ks_arena_free(&writing.arena);
}
