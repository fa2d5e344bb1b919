/* SPDX-License-Identifier: Apache-2.0 */
/* codec_json.h - jansson's home: messages from JSON, and to JSON, in either spelling (api/spelling.h).
 *
 * One walker over the descriptors reads, one writes. REST is strict: an unknown member is refused and named.
 * PROTO is as proto3 says: either name of a member, unknown members are ignored, null is absence, integers also as
 * strings, enum values by name or number, bytes in either alphabet of base64. Both refuse a member that stands
 * there twice and a second member of a oneof.
 */
#ifndef KS_API_CODEC_JSON_H
#define KS_API_CODEC_JSON_H

#include "api/spelling.h"
#include "base/json_writer.h"

/* How JSON is read or written. */
struct ks_json_style {
    enum ks_spelling spelling;
    const struct ks_json_types *types; /* For google.protobuf.Any; NULL: none. */
};

/* MALFORMED: not JSON; INVALID: JSON, but not such a message, or deeper than KS_JSON_DEPTH_MAX; FULL: more values than
 * any request needs; NO_MEMORY. The detail says what and where. The message lives as long as the arena. */
KS_MUST_USE ks_err ks_json_read(struct ks_json_style style, ks_view body,
                                const ProtobufCMessageDescriptor *type, struct ks_arena *arena,
                                ProtobufCMessage **ret_message, struct ks_detail *detail);
/* Writes the members of the message, without braces around them. An Any that cannot be written, or messages deeper than
 * KS_JSON_DEPTH_MAX, fail the writer. */
void ks_json_members(struct ks_writer *json, struct ks_json_style style,
                     const ProtobufCMessage *message);

/* The two spellings without Any. */
KS_MUST_USE static inline ks_err ks_rest_read(ks_view body, const ProtobufCMessageDescriptor *type,
                                              struct ks_arena *arena,
                                              ProtobufCMessage **ret_message,
                                              struct ks_detail *detail)
{
    return ks_json_read((struct ks_json_style){KS_SPELLING_REST, NULL}, body, type, arena,
                        ret_message, detail);
}

static inline void ks_rest_members(struct ks_writer *json, const ProtobufCMessage *message)
{
    ks_json_members(json, (struct ks_json_style){KS_SPELLING_REST, NULL}, message);
}

#endif
