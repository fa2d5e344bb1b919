/* SPDX-License-Identifier: Apache-2.0 */
/* codec_json.h - jansson's home: messages from JSON, and to JSON.
 *
 * One walker over the descriptors of the messages, in the REST spelling: names as in the .proto,
 * enum values as lower-case words without their prefix, no member left out for being zero (the
 * unspecified value of an enum and an unknown instant are null), integers as numbers, bytes as
 * base64, instants (`*_at`, `*_timestamp`, deadline, since, until) as RFC 3339. Reading is strict:
 * an unknown or a doubled member is refused and named.
 */
#ifndef KS_API_CODEC_JSON_H
#define KS_API_CODEC_JSON_H

#include "base/json_writer.h"
#include "api/message.h"

/* MALFORMED: not JSON; INVALID: JSON, but not such a message; FULL: more values than any request
 * needs. The detail says what and where. The message lives as long as the arena. */
KS_MUST_USE ks_err ks_rest_read(ks_view body, const ProtobufCMessageDescriptor *type,
                                struct ks_arena *arena, ProtobufCMessage **ret_message,
                                struct ks_detail *detail);
enum { KS_REST_WORD_MAX = 32 };
/* How a field is spelled: an instant is told by its name; an enum's value by a word, without the prefix. */
bool ks_rest_is_instant(const ProtobufCFieldDescriptor *field);
void ks_rest_enum_word(const ProtobufCEnumDescriptor *type, const char *name,
                       char buffer[KS_REST_WORD_MAX]);

/* Writes the members of the message, without braces around them. */
void ks_rest_members(struct ks_writer *json, const ProtobufCMessage *message);

#endif
