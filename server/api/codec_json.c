/* SPDX-License-Identifier: Apache-2.0 */
#include "api/codec_json.h"

#include <assert.h>
#include <jansson.h>

#include "base/codec.h"

enum {
    DEPTH_MAX = 4, /* Messages inside messages of this package. */
    /* Commas and brackets of a request: jansson makes a node of about 100 bytes of each. */
    VALUES_MAX = 100000,
    ENUM_WORD_MAX = KS_REST_WORD_MAX
};

/* ---- What the descriptors say ---- */

static void *member(const ProtobufCMessage *message, unsigned offset)
{
    return (uint8_t *)(uintptr_t)message + offset;
}

/* Instants are told by their names, see API. */
static bool is_instant(const ProtobufCFieldDescriptor *field)
{
    static const char *const names[] = {"at", "deadline", "since", "until"};
    static const char *const ends[] = {"_at", "_timestamp", "_until"};
    ks_view name = ks_view_text(field->name);

    if (field->type != PROTOBUF_C_TYPE_INT64)
        return false;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (ks_view_equal(name, ks_view_text(names[i])))
            return true;
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        ks_view end = ks_view_text(ends[i]);
        if (name.size > end.size &&
            ks_view_equal(ks_view_of(name.data + name.size - end.size, end.size), end))
            return true;
    }
    return false;
}

/* The word of an enum's value: "IDLE_REASON_NO_DATA" is no_data. The prefix is that of the zero
 * value, which is called UNSPECIFIED in every enum of the package. */
static void enum_word(const ProtobufCEnumDescriptor *type, const char *name,
                      char buffer[ENUM_WORD_MAX])
{
    const ProtobufCEnumValue *zero = protobuf_c_enum_descriptor_get_value(type, 0);
    size_t prefix;
    size_t size;

    assert(zero != NULL);
    prefix = strlen(zero->name) - strlen("UNSPECIFIED");
    size = strlen(name) - prefix;
    assert(size < ENUM_WORD_MAX);
    for (size_t i = 0; i <= size; i++) {
        char letter = name[prefix + i];
        buffer[i] = letter >= 'A' && letter <= 'Z' ? (char)(letter + 'a' - 'A') : letter;
    }
}

/* ---- Reading ---- */

/* A message that waits for its members. */
struct pending {
    json_t *object;
    ProtobufCMessage *message;
    struct pending *next;
};

struct reader {
    struct ks_arena *arena;
    struct pending *pending;
    struct ks_detail *detail;
};

static ProtobufCMessage *new_message(struct reader *reader, const ProtobufCMessageDescriptor *type)
{
    ProtobufCMessage *message = ks_arena_take(reader->arena, type->sizeof_message);

    if (message != NULL)
        protobuf_c_message_init(type, message);
    return message;
}

static ks_err wants(struct reader *reader, const ProtobufCFieldDescriptor *field, const char *what)
{
    ks_detail_set(reader->detail, "member \"%s\" must be %s", field->name, what);
    return KS_FAIL(INVALID);
}

static ks_err read_enum(struct reader *reader, const ProtobufCFieldDescriptor *field, json_t *value,
                        void *at)
{
    const ProtobufCEnumDescriptor *type = field->descriptor;
    char word[ENUM_WORD_MAX];
    char all[120] = "";
    size_t used = 0;

    for (unsigned i = 0; i < type->n_values; i++) {
        if (type->values[i].value == 0)
            continue;
        enum_word(type, type->values[i].name, word);
        if (json_is_string(value) && strcmp(json_string_value(value), word) == 0) {
            memcpy(at, &type->values[i].value, sizeof(int));
            return KS_OK;
        }
        if (used + strlen(word) + 3 < sizeof(all)) {
            memcpy(all + used, i > 1 ? ", " : "", i > 1 ? 3 : 1);
            used += i > 1 ? 2 : 0;
            memcpy(all + used, word, strlen(word) + 1);
            used += strlen(word);
        }
    }
    ks_detail_set(reader->detail, "member \"%s\" must be one of %s", field->name, all);
    return KS_FAIL(INVALID);
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

static ks_err read_inner(struct reader *reader, const ProtobufCFieldDescriptor *field,
                         json_t *value, void *at)
{
    struct pending *pending;
    ProtobufCMessage *message;

    if (!json_is_object(value))
        return wants(reader, field, "an object");
    message = new_message(reader, field->descriptor);
    pending = ks_arena_take(reader->arena, sizeof(*pending));
    if (message == NULL || pending == NULL)
        return KS_FAIL(NO_MEMORY);
    *pending = (struct pending){value, message, reader->pending};
    reader->pending = pending;
    memcpy(at, &message, sizeof(message));
    return KS_OK;
}

static ks_err read_integer(struct reader *reader, const ProtobufCFieldDescriptor *field,
                           json_t *value, void *at)
{
    int64_t number = json_integer_value(value);
    bool narrow = field->type == PROTOBUF_C_TYPE_UINT32;

    if (is_instant(field)) {
        if (!json_is_string(value) ||
            !ks_ok(ks_timestamp_parse(ks_view_text(json_string_value(value)), &number)))
            return wants(reader, field, "an RFC 3339 instant");
    } else if (!json_is_integer(value)) {
        return wants(reader, field, "a whole number");
    }
    if (field->type != PROTOBUF_C_TYPE_INT64 && (number < 0 || (narrow && number > UINT32_MAX)))
        return wants(reader, field, narrow ? "0 .. 4294967295" : "0 or more");
    if (narrow)
        memcpy(at, &(uint32_t){(uint32_t)number}, sizeof(uint32_t));
    else
        memcpy(at, &number, sizeof(number));
    return KS_OK;
}

/* Reads one value to where it belongs. Requests have texts, enums, integers, booleans and messages.
 */
static ks_err read_value(struct reader *reader, const ProtobufCFieldDescriptor *field,
                         json_t *value, void *at)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING: return read_text(reader, field, value, at);
    case PROTOBUF_C_TYPE_ENUM: return read_enum(reader, field, value, at);
    case PROTOBUF_C_TYPE_MESSAGE: return read_inner(reader, field, value, at);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_UINT32: return read_integer(reader, field, value, at);
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
    void **elements;

    if (!json_is_array(list))
        return wants(reader, field, "an array");
    assert(field->type == PROTOBUF_C_TYPE_STRING || field->type == PROTOBUF_C_TYPE_MESSAGE);
    if (count == 0)
        return KS_OK;
    elements = ks_arena_take(reader->arena, count * sizeof(*elements));
    if (elements == NULL)
        return KS_FAIL(NO_MEMORY);
    for (size_t i = 0; i < count; i++)
        KS_TRY(read_value(reader, field, json_array_get(list, i), &elements[i]));
    memcpy(member(message, field->quantifier_offset), &count, sizeof(count));
    memcpy(member(message, field->offset), &elements, sizeof(elements));
    return KS_OK;
}

static ks_err read_member(struct reader *reader, const char *name, json_t *value,
                          ProtobufCMessage *message)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(message->descriptor, name);

    if (field == NULL) {
        ks_detail_set(reader->detail, "unknown member \"%.60s\" of the body", name);
        return KS_FAIL(INVALID);
    }
    if (json_is_null(value))
        return KS_OK;
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return read_list(reader, field, value, message);
    if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0)
        memcpy(member(message, field->quantifier_offset), &field->id, sizeof(field->id));
    return read_value(reader, field, value, member(message, field->offset));
}

static ks_err read_all(struct reader *reader)
{
    while (reader->pending != NULL) {
        struct pending *pending = reader->pending;
        const char *name;
        json_t *value;

        reader->pending = pending->next;
        json_object_foreach(pending->object, name, value)
            KS_TRY(read_member(reader, name, value, pending->message));
    }
    return KS_OK;
}

static bool has_few_values(ks_view body)
{
    size_t count = 0;

    for (size_t i = 0; i < body.size; i++)
        count += body.data[i] == ',' || body.data[i] == '[' || body.data[i] == '{';
    return count <= VALUES_MAX;
}

ks_err ks_rest_read(ks_view body, const ProtobufCMessageDescriptor *type, struct ks_arena *arena,
                    ProtobufCMessage **ret_message, struct ks_detail *detail)
{
    struct reader reader = {.arena = arena, .detail = detail};
    ProtobufCMessage *message = new_message(&reader, type);
    struct pending first = {.message = message};
    json_error_t error;
    ks_err err;

    if (message == NULL)
        return KS_FAIL(NO_MEMORY);
    if (!has_few_values(body)) {
        ks_detail_set(detail, "the body holds more than %d values", VALUES_MAX);
        return KS_FAIL(FULL);
    }
    first.object = json_loadb((const char *)body.data, body.size, JSON_REJECT_DUPLICATES, &error);
    if (first.object == NULL) {
        ks_detail_set(detail, "the body is not JSON: %.80s at line %d column %d", error.text,
                      error.line, error.column);
        return KS_FAIL(MALFORMED);
    }
    reader.pending = &first;
    if (json_is_object(first.object)) {
        err = read_all(&reader);
    } else {
        ks_detail_set(detail, "the body must be a JSON object");
        err = KS_FAIL(INVALID);
    }
    json_decref(first.object);
    if (ks_ok(err))
        *ret_message = message;
    return err;
}

/* ---- Writing ---- */

static void write_enum(struct ks_writer *json, const ProtobufCFieldDescriptor *field, int value)
{
    const ProtobufCEnumValue *named =
        value == 0 ? NULL : protobuf_c_enum_descriptor_get_value(field->descriptor, value);
    char word[ENUM_WORD_MAX];

    if (named == NULL) {
        ks_writer_null(json);
        return;
    }
    enum_word(field->descriptor, named->name, word);
    ks_writer_string(json, word);
}

static void write_bytes(struct ks_writer *json, const void *at)
{
    ProtobufCBinaryData bytes;

    memcpy(&bytes, at, sizeof(bytes));
    ks_writer_base64(json, ks_view_of(bytes.data, bytes.len));
}

static void write_int64(struct ks_writer *json, const ProtobufCFieldDescriptor *field,
                        const void *at)
{
    int64_t number;

    memcpy(&number, at, sizeof(number));
    if (is_instant(field))
        ks_writer_instant(json, number);
    else
        ks_writer_i64(json, number);
}

static void write_text(struct ks_writer *json, const void *at)
{
    const char *text;

    memcpy(&text, at, sizeof(text));
    ks_writer_string(json, text == NULL ? "" : text);
}

/* Writes one value that is not a message. */
static void write_value(struct ks_writer *json, const ProtobufCFieldDescriptor *field,
                        const void *at)
{
    uint32_t narrow;
    uint64_t wide;

    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING: write_text(json, at); return;
    case PROTOBUF_C_TYPE_BYTES: write_bytes(json, at); return;
    case PROTOBUF_C_TYPE_INT64: write_int64(json, field, at); return;
    case PROTOBUF_C_TYPE_ENUM:
        memcpy(&narrow, at, sizeof(narrow));
        write_enum(json, field, (int)narrow);
        return;
    case PROTOBUF_C_TYPE_UINT32:
        memcpy(&narrow, at, sizeof(narrow));
        ks_writer_u64(json, narrow);
        return;
    case PROTOBUF_C_TYPE_UINT64:
        memcpy(&wide, at, sizeof(wide));
        ks_writer_u64(json, wide);
        return;
    case PROTOBUF_C_TYPE_BOOL:
        memcpy(&narrow, at, sizeof(narrow));
        ks_writer_bool(json, narrow != 0);
        return;
    default: break;
    }
    assert(false);
}

/* One message that is being written. */
struct walk {
    const ProtobufCMessage *message;
    unsigned field;
    size_t element;
    bool inside; /* The field's list is open. */
};

static bool is_absent(const ProtobufCMessage *message, const ProtobufCFieldDescriptor *field)
{
    uint32_t set;

    if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) == 0)
        return false;
    memcpy(&set, member(message, field->quantifier_offset), sizeof(set));
    return set != field->id;
}

static const ProtobufCMessage *inner_at(const void *at)
{
    const ProtobufCMessage *inner;

    memcpy(&inner, at, sizeof(inner));
    return inner;
}

/* Writes one element of a list, or its end. A message inside is returned to be written first. */
static const ProtobufCMessage *step_list(struct ks_writer *json, struct walk *walk,
                                         const ProtobufCFieldDescriptor *field)
{
    const uint8_t *elements;
    size_t count;

    memcpy(&count, member(walk->message, field->quantifier_offset), sizeof(count));
    memcpy(&elements, member(walk->message, field->offset), sizeof(elements));
    assert(field->type == PROTOBUF_C_TYPE_STRING || field->type == PROTOBUF_C_TYPE_MESSAGE);
    if (!walk->inside) {
        ks_writer_key(json, field->name);
        ks_writer_open(json, '[');
        walk->inside = true;
    }
    if (walk->element == count) {
        ks_writer_close(json, ']');
        *walk = (struct walk){.message = walk->message, .field = walk->field + 1};
        return NULL;
    }
    elements += walk->element++ * sizeof(void *);
    if (field->type == PROTOBUF_C_TYPE_MESSAGE)
        return inner_at(elements);
    write_value(json, field, elements);
    return NULL;
}

/* Writes the field that the walk stands at, or one element of it. */
static const ProtobufCMessage *step(struct ks_writer *json, struct walk *walk)
{
    const ProtobufCFieldDescriptor *field = &walk->message->descriptor->fields[walk->field];
    const ProtobufCMessage *inner = NULL;
    const void *at = member(walk->message, field->offset);

    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        return step_list(json, walk, field);
    walk->field++;
    if (is_absent(walk->message, field))
        return NULL;
    ks_writer_key(json, field->name);
    if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
        inner = inner_at(at);
        if (inner == NULL)
            ks_writer_null(json);
        return inner;
    }
    write_value(json, field, at);
    return NULL;
}

void ks_rest_members(struct ks_writer *json, const ProtobufCMessage *message)
{
    struct walk walks[DEPTH_MAX] = {{.message = message}};
    size_t depth = 1;

    while (depth > 0) {
        struct walk *walk = &walks[depth - 1];
        const ProtobufCMessage *inner;

        if (walk->field == walk->message->descriptor->n_fields) {
            depth--;
            if (depth > 0)
                ks_writer_close(json, '}');
            continue;
        }
        inner = step(json, walk);
        if (inner != NULL) {
            assert(depth < DEPTH_MAX);
            ks_writer_open(json, '{');
            walks[depth++] = (struct walk){.message = inner};
        }
    }
}

/* ---- For who describes it ---- */

bool ks_rest_is_instant(const ProtobufCFieldDescriptor *field)
{
    return is_instant(field);
}

void ks_rest_enum_word(const ProtobufCEnumDescriptor *type, const char *name,
                       char buffer[KS_REST_WORD_MAX])
{
    enum_word(type, name, buffer);
}
