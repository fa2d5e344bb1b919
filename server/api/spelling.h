/* SPDX-License-Identifier: Apache-2.0 */
/* spelling.h - how the members of a message are called and written in JSON, by its descriptor.
 *
 * One message, two spellings. REST (also NDJSON and server-sent events): names as in the .proto, enum values as
 * lower-case words without their prefix, nothing left out for being zero, integers as numbers, instants (`*_at`,
 * `*_timestamp`, `at`, `deadline`, `since`, `until`, `from`, `to`) as RFC 3339. PROTO: the JSON of proto3
 * (protobuf.dev/programming-guides/json), as Connect wants it: lowerCamelCase, zeros left out, 64-bit integers and
 * instants as strings of digits.
 */
#ifndef KS_API_SPELLING_H
#define KS_API_SPELLING_H

#include "api/message.h"

enum ks_spelling { KS_SPELLING_REST, KS_SPELLING_PROTO };

enum {
    KS_JSON_DEPTH_MAX = 16, /* Messages inside messages, more than any of ours. */
    KS_JSON_NAME_MAX = 64,  /* A member's name, with its NUL. */
    KS_JSON_WORD_MAX = 32   /* An enum value as a word, with its NUL. */
};

/* The message types that may stand in a google.protobuf.Any: what is not among them cannot be read or written. */
struct ks_json_types {
    const ProtobufCMessageDescriptor *const *types;
    size_t count;
};

bool ks_field_is_instant(const ProtobufCFieldDescriptor *field);
/* The member's name in JSON; `buffer` holds it if it differs from the descriptor's. */
const char *ks_field_name(const ProtobufCFieldDescriptor *field, enum ks_spelling spelling,
                          char buffer[KS_JSON_NAME_MAX]);
/* The field that a member means: PROTO takes either of its names. NULL: none. */
const ProtobufCFieldDescriptor *ks_field_find(const ProtobufCMessageDescriptor *type,
                                              enum ks_spelling spelling, const char *name);
/* Bytes of one value of the field where it lies in a message or a list. */
size_t ks_field_size(const ProtobufCFieldDescriptor *field);
/* The word of an enum's value in the REST spelling: IDLE_REASON_NO_DATA is no_data. The prefix is that of the zero
 * value, which is called UNSPECIFIED in every enum of the package. */
void ks_enum_word(const ProtobufCEnumDescriptor *type, const char *name,
                  char buffer[KS_JSON_WORD_MAX]);

/* google.protobuf.Any, as protobuf-c lays it out. */
struct ks_any {
    ProtobufCMessage base;
    char *type_url;
    ProtobufCBinaryData value;
};
bool ks_type_is_any(const ProtobufCMessageDescriptor *type);
/* The type that "type.googleapis.com/NAME" names. NULL: none of `types`, which may be NULL. */
const ProtobufCMessageDescriptor *ks_type_of_url(const struct ks_json_types *types,
                                                 const char *url);

#endif
