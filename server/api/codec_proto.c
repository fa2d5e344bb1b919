/* SPDX-License-Identifier: Apache-2.0 */
#include "api/codec_proto.h"

#include <protobuf-c/protobuf-c.h>

#include <assert.h>

/* Messages inside messages of this package: StreamEvent > Record is the deepest that a request can
 * be. */
enum { DEPTH_MAX = 4 };

size_t ks_proto_room(size_t size)
{
    return (64 << 10) + 4 * size;
}

static void *take(void *arena, size_t size)
{
    return ks_arena_take(arena, size);
}

static void give(void *arena, void *pointer)
{
    /* The arena is freed as a whole. */
    (void)arena;
    (void)pointer;
}

/* One message whose fields are being looked at. */
struct walk {
    const ProtobufCMessage *message;
    unsigned field;
    size_t element;
};

static const uint8_t *member(const ProtobufCMessage *message, unsigned offset)
{
    return (const uint8_t *)message + offset;
}

static bool is_text(const char *text)
{
    return text == NULL || ks_view_is_utf8(ks_view_text(text));
}

/* The pointer that lies at `place`: a text or a message. */
static const void *pointer_at(const uint8_t *place)
{
    const void *pointer;

    memcpy(&pointer, place, sizeof(pointer));
    return pointer;
}

/* Where the next element of the field lies; NULL when there is none, and the walk moves on. */
static const uint8_t *next_place(struct walk *walk, const ProtobufCFieldDescriptor *field)
{
    const uint8_t *place = member(walk->message, field->offset);
    size_t count = 1;
    uint32_t set = field->id;

    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
        memcpy(&count, member(walk->message, field->quantifier_offset), sizeof(count));
        place = pointer_at(place);
    } else if ((field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0) {
        memcpy(&set, member(walk->message, field->quantifier_offset), sizeof(set));
    }
    if (walk->element == count || set != field->id ||
        (field->type != PROTOBUF_C_TYPE_STRING && field->type != PROTOBUF_C_TYPE_MESSAGE)) {
        walk->field++;
        walk->element = 0;
        return NULL;
    }
    return place + walk->element++ * sizeof(void *);
}

/* Judges what comes next in the walk; a message inside is returned to be walked first. */
static bool step(struct walk *walk, const ProtobufCMessage **ret_inner)
{
    const ProtobufCFieldDescriptor *field = &walk->message->descriptor->fields[walk->field];
    const uint8_t *place = next_place(walk, field);

    *ret_inner = NULL;
    if (place == NULL)
        return true;
    if (field->type == PROTOBUF_C_TYPE_STRING)
        return is_text(pointer_at(place));
    *ret_inner = pointer_at(place);
    return true;
}

/* True if every text of the message and of those inside it is UTF-8. */
static bool texts_are_utf8(const ProtobufCMessage *message)
{
    struct walk walks[DEPTH_MAX] = {{.message = message}};
    size_t depth = 1;

    while (depth > 0) {
        struct walk *walk = &walks[depth - 1];
        const ProtobufCMessage *inner;

        if (walk->field == walk->message->descriptor->n_fields) {
            depth--;
            continue;
        }
        if (!step(walk, &inner))
            return false;
        if (inner != NULL) {
            assert(depth < DEPTH_MAX);
            walks[depth++] = (struct walk){.message = inner};
        }
    }
    return true;
}

ks_err ks_proto_read(ks_view body, const ProtobufCMessageDescriptor *type, struct ks_arena *arena,
                     ProtobufCMessage **ret_message, struct ks_detail *detail)
{
    ProtobufCAllocator allocator = {take, give, arena};
    ProtobufCMessage *message = protobuf_c_message_unpack(type, &allocator, body.size, body.data);

    if (message == NULL) {
        ks_detail_set(detail, "the body is not a message %s, or takes too much memory", type->name);
        return KS_FAIL(MALFORMED);
    }
    if (!texts_are_utf8(message)) {
        ks_detail_set(detail, "a text of the body is not UTF-8");
        return KS_FAIL(MALFORMED);
    }
    *ret_message = message;
    return KS_OK;
}

ks_err ks_proto_write(const ProtobufCMessage *message, bool delimited, struct ks_bytes *body)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    size_t before = body->size;

    /* All or nothing: room first, for the length as well. */
    KS_TRY(ks_bytes_reserve(body, size + 10));
    if (delimited)
        KS_TRY(ks_bytes_append_varint(body, size));
    if (size > 0)
        size = protobuf_c_message_pack(message, body->data + body->size);
    body->size += size;
    assert(body->size >= before);
    return KS_OK;
}
