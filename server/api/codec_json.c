/* SPDX-License-Identifier: Apache-2.0 */
/* The half of codec_json.h that reads. */
#include "api/codec_json.h"

#include <assert.h>

#include "api/codec_proto.h"
#include "base/codec.h"
#include "base/json_load.h"

enum {
    /* Commas and brackets of a request: jansson makes a node of about 100 bytes of each. */
    VALUES_MAX = 100000
};

/* A message that waits for its members. */
struct pending {
    json_t *object;
    ProtobufCMessage *message;
    size_t depth;
    struct pending *next;
};

/* An Any whose content is being read: packed when all is, the innermost first. */
struct unpacked {
    struct ks_any *any;
    const ProtobufCMessage *inner;
    struct unpacked *next;
};

struct reader {
    struct ks_json_style style;
    struct ks_arena *arena;
    struct pending *pending;
    struct unpacked *unpacked;
    size_t depth; /* Of the message whose members are being read. */
    struct ks_detail *detail;
};

static ProtobufCMessage *new_message(struct reader *reader, const ProtobufCMessageDescriptor *type)
{
    ProtobufCMessage *message = ks_arena_take(reader->arena, type->sizeof_message);

    if (message != NULL)
        protobuf_c_message_init(type, message);
    return message;
}

static void *member(ProtobufCMessage *message, unsigned offset)
{
    return (uint8_t *)message + offset;
}

static ks_err wants(struct reader *reader, const ProtobufCFieldDescriptor *field, const char *what)
{
    return ks_err_because(KS_FAIL(INVALID), reader->detail, "member \"%s\" must be %s", field->name,
                          what);
}

static bool is_proto(const struct reader *reader)
{
    return reader->style.spelling == KS_SPELLING_PROTO;
}

/* ---- Values ---- */

/* "ack, retry, extend": the words of an enum, as many as there is room for. */
static void list_words(const ProtobufCEnumDescriptor *type, char *buffer, size_t room)
{
    char word[KS_JSON_WORD_MAX];
    size_t used = 0;

    buffer[0] = '\0';
    for (unsigned i = 0; i < type->n_values; i++) {
        if (type->values[i].value == 0)
            continue;
        ks_enum_word(type, type->values[i].name, word);
        if (used + strlen(word) + 3 >= room)
            return;
        if (used > 0) {
            memcpy(buffer + used, ", ", 2);
            used += 2;
        }
        memcpy(buffer + used, word, strlen(word) + 1);
        used += strlen(word);
    }
}

static ks_err read_word(struct reader *reader, const ProtobufCFieldDescriptor *field, json_t *value,
                        void *at)
{
    const ProtobufCEnumDescriptor *type = field->descriptor;
    char word[KS_JSON_WORD_MAX];
    char all[120];

    for (unsigned i = 0; i < type->n_values && json_is_string(value); i++) {
        if (type->values[i].value == 0)
            continue;
        ks_enum_word(type, type->values[i].name, word);
        if (strcmp(json_string_value(value), word) != 0)
            continue;
        memcpy(at, &type->values[i].value, sizeof(int));
        return KS_OK;
    }
    list_words(type, all, sizeof(all));
    return ks_err_because(KS_FAIL(INVALID), reader->detail, "member \"%s\" must be one of %s",
                          field->name, all);
}

/* Proto3 keeps an enum open: a number that has no name is a value, too. */
static ks_err read_enum(struct reader *reader, const ProtobufCFieldDescriptor *field, json_t *value,
                        void *at)
{
    const ProtobufCEnumValue *named;
    json_int_t number = json_integer_value(value);

    if (!is_proto(reader))
        return read_word(reader, field, value, at);
    if (json_is_integer(value) && number >= INT32_MIN && number <= INT32_MAX) {
        memcpy(at, &(int32_t){(int32_t)number}, sizeof(int32_t));
        return KS_OK;
    }
    if (!json_is_string(value))
        return wants(reader, field, "the name of an enum value, or its number");
    named =
        protobuf_c_enum_descriptor_get_value_by_name(field->descriptor, json_string_value(value));
    if (named == NULL)
        return ks_err_because(KS_FAIL(INVALID), reader->detail,
                              "member \"%s\": \"%.40s\" is no value of the enum", field->name,
                              json_string_value(value));
    memcpy(at, &named->value, sizeof(int));
    return KS_OK;
}

static ks_err read_text(struct reader *reader, const ProtobufCFieldDescriptor *field, json_t *value,
                        void *at)
{
    char *text;

    if (!json_is_string(value))
        return wants(reader, field, "a string");
    text = ks_arena_text(reader->arena,
                         ks_view_of(json_string_value(value), json_string_length(value)));
    if (text == NULL)
        return KS_FAIL(NO_MEMORY);
    memcpy(at, &text, sizeof(text));
    return KS_OK;
}

/* Either alphabet, with padding or without. */
static ks_err decode_any_base64(char *text, uint8_t *buffer, size_t *ret_size)
{
    size_t size = strlen(text);

    while (size > 0 && text[size - 1] == '=' && strlen(text) - size < 2)
        size--;
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '+')
            text[i] = '-';
        else if (text[i] == '/')
            text[i] = '_';
    }
    return ks_base64url_decode(ks_view_of(text, size), buffer, ret_size);
}

static ks_err read_bytes(struct reader *reader, const ProtobufCFieldDescriptor *field,
                         json_t *value, void *at)
{
    enum { VECTOR_BYTES = 32 };
    ProtobufCBinaryData bytes = {0, NULL};
    char *text;

    KS_TRY(read_text(reader, field, value, &text));
    bytes.data = ks_arena_take(reader->arena, ks_base64_decoded_max(strlen(text)) + VECTOR_BYTES);
    if (bytes.data == NULL)
        return KS_FAIL(NO_MEMORY);
    if (!ks_ok(decode_any_base64(text, bytes.data, &bytes.len)))
        return wants(reader, field, "base64");
    memcpy(at, &bytes, sizeof(bytes));
    return KS_OK;
}

/* The limits of an integer field: lowest, and highest as it is without its sign. */
static void limits_of(const ProtobufCFieldDescriptor *field, int64_t *ret_min, uint64_t *ret_max)
{
    *ret_min = 0;
    switch (field->type) {
    case PROTOBUF_C_TYPE_UINT64: *ret_max = UINT64_MAX; return;
    case PROTOBUF_C_TYPE_UINT32: *ret_max = UINT32_MAX; return;
    case PROTOBUF_C_TYPE_INT32:
        *ret_min = INT32_MIN;
        *ret_max = INT32_MAX;
        return;
    default:
        *ret_min = INT64_MIN;
        *ret_max = INT64_MAX;
        return;
    }
}

/* A JSON value as the bits of an integer; INVALID if it is none. jansson knows integers up to 2^63 - 1; proto3 also
 * takes digits in a string, and numbers with a fraction of zero. */
static ks_err integer_of(const struct reader *reader, json_t *value, uint64_t *ret_bits,
                         bool *ret_negative)
{
    ks_view text;
    int64_t number;
    double real;

    if (json_is_integer(value)) {
        number = json_integer_value(value);
    } else if (!is_proto(reader)) {
        return KS_FAIL(INVALID);
    } else if (json_is_string(value)) {
        text = ks_view_of(json_string_value(value), json_string_length(value));
        *ret_negative = false;
        if (ks_ok(ks_view_u64(text, ret_bits)))
            return KS_OK;
        KS_TRY(ks_view_i64(text, &number));
    } else {
        real = json_real_value(value);
        /* 2^63: what lies below fits. */
        if (!json_is_real(value) ||
            !(real > -9223372036854775808.0 && real < 9223372036854775808.0))
            return KS_FAIL(INVALID);
        number = (int64_t)real;
        if ((double)number != real)
            return KS_FAIL(INVALID);
    }
    *ret_negative = number < 0;
    *ret_bits = (uint64_t)number;
    return KS_OK;
}

static ks_err read_integer(struct reader *reader, const ProtobufCFieldDescriptor *field,
                           json_t *value, void *at)
{
    uint64_t bits;
    uint64_t max;
    int64_t min;
    bool negative;

    if (!ks_ok(integer_of(reader, value, &bits, &negative)))
        return wants(reader, field, "a whole number");
    limits_of(field, &min, &max);
    if (negative ? (int64_t)bits < min : bits > max) {
        if (min == 0)
            return wants(reader, field, max == UINT32_MAX ? "0 .. 4294967295" : "0 or more");
        return wants(reader, field, "within the limits of its type");
    }
    if (ks_field_size(field) == sizeof(uint32_t))
        memcpy(at, &(uint32_t){(uint32_t)bits}, sizeof(uint32_t));
    else
        memcpy(at, &bits, sizeof(bits));
    return KS_OK;
}

static ks_err read_instant(struct reader *reader, const ProtobufCFieldDescriptor *field,
                           json_t *value, void *at)
{
    int64_t instant;

    if (!json_is_string(value) ||
        !ks_ok(ks_timestamp_parse(ks_view_text(json_string_value(value)), &instant)))
        return wants(reader, field, "an RFC 3339 instant");
    memcpy(at, &instant, sizeof(instant));
    return KS_OK;
}

/* ---- Messages ---- */

/* Has the members of `object` read into `message`, later: nesting costs no stack. */
static ks_err put_off(struct reader *reader, json_t *object, ProtobufCMessage *message)
{
    struct pending *pending = ks_arena_take(reader->arena, sizeof(*pending));

    if (pending == NULL)
        return KS_FAIL(NO_MEMORY);
    *pending = (struct pending){object, message, reader->depth + 1, reader->pending};
    reader->pending = pending;
    return KS_OK;
}

static ks_err read_any(struct reader *reader, const ProtobufCFieldDescriptor *field, json_t *object,
                       struct ks_any *any)
{
    json_t *url = json_object_get(object, "@type");
    const ProtobufCMessageDescriptor *type =
        ks_type_of_url(reader->style.types, json_string_value(url));
    struct unpacked *unpacked = ks_arena_take(reader->arena, sizeof(*unpacked));
    ProtobufCMessage *inner;

    if (json_object_size(object) == 0)
        return KS_OK;
    if (type == NULL)
        return wants(reader, field, "of a known @type");
    inner = new_message(reader, type);
    if (unpacked == NULL || inner == NULL)
        return KS_FAIL(NO_MEMORY);
    KS_TRY(read_text(reader, field, url, &any->type_url));
    *unpacked = (struct unpacked){any, inner, reader->unpacked};
    reader->unpacked = unpacked;
    return put_off(reader, object, inner);
}

static ks_err read_inner(struct reader *reader, const ProtobufCFieldDescriptor *field,
                         json_t *value, void *at)
{
    ProtobufCMessage *message;

    if (!json_is_object(value))
        return wants(reader, field, "an object");
    if (reader->depth == KS_JSON_DEPTH_MAX)
        return wants(reader, field, "less deep");
    message = new_message(reader, field->descriptor);
    if (message == NULL)
        return KS_FAIL(NO_MEMORY);
    memcpy(at, &message, sizeof(message));
    if (ks_type_is_any(field->descriptor))
        return read_any(reader, field, value, (struct ks_any *)message);
    return put_off(reader, value, message);
}

/* Reads one value to where it belongs. */
static ks_err read_value(struct reader *reader, const ProtobufCFieldDescriptor *field,
                         json_t *value, void *at)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING: return read_text(reader, field, value, at);
    case PROTOBUF_C_TYPE_BYTES: return read_bytes(reader, field, value, at);
    case PROTOBUF_C_TYPE_ENUM: return read_enum(reader, field, value, at);
    case PROTOBUF_C_TYPE_MESSAGE: return read_inner(reader, field, value, at);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_UINT32:
        if (!is_proto(reader) && ks_field_is_instant(field))
            return read_instant(reader, field, value, at);
        return read_integer(reader, field, value, at);
    case PROTOBUF_C_TYPE_BOOL:
        if (!json_is_boolean(value))
            return wants(reader, field, "true or false");
        memcpy(at, &(protobuf_c_boolean){json_is_true(value)}, sizeof(protobuf_c_boolean));
        return KS_OK;
    default: break;
    }
    assert(false);
    return KS_FAIL(UNSUPPORTED);
}

static ks_err read_list(struct reader *reader, const ProtobufCFieldDescriptor *field, json_t *list,
                        ProtobufCMessage *message)
{
    size_t count = json_array_size(list);
    size_t size = ks_field_size(field);
    uint8_t *elements;

    if (!json_is_array(list))
        return wants(reader, field, "an array");
    if (count == 0)
        return KS_OK;
    elements = ks_arena_take(reader->arena, count * size);
    if (elements == NULL)
        return KS_FAIL(NO_MEMORY);
    for (size_t i = 0; i < count; i++)
        KS_TRY(read_value(reader, field, json_array_get(list, i), elements + i * size));
    memcpy(member(message, field->quantifier_offset), &count, sizeof(count));
    memcpy(member(message, field->offset), &elements, sizeof(elements));
    return KS_OK;
}

/* A member of a oneof: only one of them may be there. */
static ks_err choose_case(struct reader *reader, const ProtobufCFieldDescriptor *field,
                          ProtobufCMessage *message)
{
    uint32_t set;

    if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) == 0)
        return KS_OK;
    memcpy(&set, member(message, field->quantifier_offset), sizeof(set));
    if (set != 0)
        return wants(reader, field, "the only one of its kind: another one excludes it");
    memcpy(member(message, field->quantifier_offset), &field->id, sizeof(field->id));
    return KS_OK;
}

static ks_err read_member(struct reader *reader, const char *name, json_t *value,
                          ProtobufCMessage *message, uint64_t *seen)
{
    const ProtobufCMessageDescriptor *type = message->descriptor;
    const ProtobufCFieldDescriptor *field = ks_field_find(type, reader->style.spelling, name);
    uint64_t bit;

    if (field == NULL && is_proto(reader))
        return KS_OK;
    if (field == NULL)
        return ks_err_because(KS_FAIL(INVALID), reader->detail,
                              "unknown member \"%.60s\" of the body", name);
    if (json_is_null(value))
        return KS_OK;
    /* By both of its names. */
    bit = UINT64_C(1) << (field - type->fields);
    if ((*seen & bit) != 0)
        return wants(reader, field, "there once");
    *seen |= bit;
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return read_list(reader, field, value, message);
    KS_TRY(choose_case(reader, field, message));
    return read_value(reader, field, value, member(message, field->offset));
}

static ks_err read_all(struct reader *reader)
{
    while (reader->pending != NULL) {
        struct pending *pending = reader->pending;
        uint64_t seen = 0;
        const char *name;
        json_t *value;

        assert(pending->message->descriptor->n_fields <= 64);
        reader->pending = pending->next;
        reader->depth = pending->depth;
        json_object_foreach(pending->object, name, value)
            KS_TRY(read_member(reader, name, value, pending->message, &seen));
    }
    return KS_OK;
}

/* The contents were found from the outside in; the last ones hold no others. */
static ks_err pack_all(struct reader *reader)
{
    for (struct unpacked *each = reader->unpacked; each != NULL; each = each->next) {
        size_t size = protobuf_c_message_get_packed_size(each->inner);
        uint8_t *data = ks_arena_take(reader->arena, size + 1);

        if (data == NULL)
            return KS_FAIL(NO_MEMORY);
        each->any->value.len = protobuf_c_message_pack(each->inner, data);
        each->any->value.data = data;
    }
    return KS_OK;
}

/* ---- Bodies ---- */

static bool has_few_values(ks_view body)
{
    size_t count = 0;

    for (size_t i = 0; i < body.size; i++)
        count += body.data[i] == ',' || body.data[i] == '[' || body.data[i] == '{';
    return count <= VALUES_MAX;
}

static ks_err read_object(struct reader *reader, json_t *object, ProtobufCMessage *message)
{
    if (!json_is_object(object))
        return ks_err_because(KS_FAIL(INVALID), reader->detail, "the body must be a JSON object");
    KS_TRY(put_off(reader, object, message));
    KS_TRY(read_all(reader));
    return pack_all(reader);
}

ks_err ks_json_read(struct ks_json_style style, ks_view body,
                    const ProtobufCMessageDescriptor *type, struct ks_arena *arena,
                    ProtobufCMessage **ret_message, struct ks_detail *detail)
{
    struct reader reader = {.style = style, .arena = arena, .detail = detail};
    ProtobufCMessage *message = new_message(&reader, type);
    json_error_t error;
    json_t *object;
    ks_err err;

    if (message == NULL)
        return KS_FAIL(NO_MEMORY);
    if (!has_few_values(body))
        return ks_err_because(KS_FAIL(FULL), detail, "the body holds more than %d values",
                              VALUES_MAX);
    err = ks_json_load(body, JSON_REJECT_DUPLICATES, &object, &error);
    if (ks_err_is(err, KS_ERR_NO_MEMORY))
        return err;
    if (!ks_ok(err))
        return ks_err_because(KS_FAIL(MALFORMED), detail,
                              "the body is not JSON: %.80s at line %d column %d", error.text,
                              error.line, error.column);
    err = read_object(&reader, object, message);
    json_decref(object);
    if (ks_ok(err))
        *ret_message = message;
    return err;
}
