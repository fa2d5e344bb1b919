/* SPDX-License-Identifier: Apache-2.0 */
/* codec_proto.h - protobuf-c's home: messages from bytes and to bytes.
 *
 * Reading takes memory from a capped arena: the wire format has no limit of nesting, size or
 * unknown fields of its own. Record frames are not made here but in frame.h. */
#ifndef KS_API_CODEC_PROTO_H
#define KS_API_CODEC_PROTO_H

#include "api/message.h"

/* Room that a body of `size` bytes may take when it is a message. */
size_t ks_proto_room(size_t size);

/* MALFORMED: not a message of this type, text that is not UTF-8, or more than the arena's cap; then
 * the detail says so. The message lives as long as the arena. */
KS_MUST_USE ks_err ks_proto_read(ks_view body, const ProtobufCMessageDescriptor *type,
                                 struct ks_arena *arena, ProtobufCMessage **ret_message,
                                 struct ks_detail *detail);
/* Appends the message; with `delimited` its length stands before it as a varint. FULL, NO_MEMORY.
 */
KS_MUST_USE ks_err ks_proto_write(const ProtobufCMessage *message, bool delimited,
                                  struct ks_bytes *body);

#endif
