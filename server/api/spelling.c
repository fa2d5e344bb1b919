/* SPDX-License-Identifier: Apache-2.0 */
#include "api/spelling.h"

#include <assert.h>

bool ks_field_is_instant(const ProtobufCFieldDescriptor *field)
{
    static const char *const names[] = {"at", "deadline", "since", "until", "from", "to"};
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

const char *ks_field_name(const ProtobufCFieldDescriptor *field, enum ks_spelling spelling,
                          char buffer[KS_JSON_NAME_MAX])
{
    bool upper = false;
    size_t size = 0;

    if (spelling == KS_SPELLING_REST)
        return field->name;
    assert(strlen(field->name) < KS_JSON_NAME_MAX);
    for (const char *at = field->name; *at != '\0'; at++) {
        if (*at == '_') {
            upper = true;
            continue;
        }
        buffer[size++] = upper && *at >= 'a' && *at <= 'z' ? (char)(*at - 'a' + 'A') : *at;
        upper = false;
    }
    buffer[size] = '\0';
    return buffer;
}

const ProtobufCFieldDescriptor *ks_field_find(const ProtobufCMessageDescriptor *type,
                                              enum ks_spelling spelling, const char *name)
{
    const ProtobufCFieldDescriptor *field =
        protobuf_c_message_descriptor_get_field_by_name(type, name);
    char buffer[KS_JSON_NAME_MAX];

    if (field != NULL || spelling == KS_SPELLING_REST)
        return field;
    for (unsigned i = 0; i < type->n_fields; i++)
        if (strcmp(ks_field_name(&type->fields[i], spelling, buffer), name) == 0)
            return &type->fields[i];
    return NULL;
}

size_t ks_field_size(const ProtobufCFieldDescriptor *field)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE: return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES: return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT64: return sizeof(uint64_t);
    case PROTOBUF_C_TYPE_BOOL: return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_ENUM:
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_UINT32: return sizeof(uint32_t);
    default: break;
    }
    assert(false); /* No message of ours has a float, and none the fixed widths. */
    return 0;
}

void ks_enum_word(const ProtobufCEnumDescriptor *type, const char *name,
                  char buffer[KS_JSON_WORD_MAX])
{
    const ProtobufCEnumValue *zero = protobuf_c_enum_descriptor_get_value(type, 0);
    size_t prefix;
    size_t size;

    assert(zero != NULL);
    prefix = strlen(zero->name) - strlen("UNSPECIFIED");
    size = strlen(name) - prefix;
    assert(size < KS_JSON_WORD_MAX);
    for (size_t i = 0; i <= size; i++) {
        char letter = name[prefix + i];
        buffer[i] = letter >= 'A' && letter <= 'Z' ? (char)(letter + 'a' - 'A') : letter;
    }
}

bool ks_type_is_any(const ProtobufCMessageDescriptor *type)
{
    return strcmp(type->name, "google.protobuf.Any") == 0;
}

const ProtobufCMessageDescriptor *ks_type_of_url(const struct ks_json_types *types, const char *url)
{
    const char *slash = url == NULL ? NULL : strrchr(url, '/');

    for (size_t i = 0; slash != NULL && types != NULL && i < types->count; i++)
        if (strcmp(types->types[i]->name, slash + 1) == 0)
            return types->types[i];
    return NULL;
}
