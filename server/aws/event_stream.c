/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/event_stream.h"

#include "base/digest.h"

#include <assert.h>

/* Both checksums and both lengths. */
enum { FRAME_BYTES = KS_EVENT_PRELUDE_BYTES + 4 };

static uint32_t be32(ks_view bytes, size_t at)
{
    ks_view number = ks_view_of(bytes.data + at, 4);
    uint32_t value = 0;
    ks_err err = ks_view_take_be32(&number, &value);

    assert(ks_ok(err));
    (void)err;
    return value;
}

ks_err ks_event_size(ks_view bytes, size_t *ret_size)
{
    *ret_size = 0;
    if (bytes.size < KS_EVENT_PRELUDE_BYTES)
        return KS_OK;

    uint32_t size = be32(bytes, 0);
    uint32_t headers = be32(bytes, 4);
    if (be32(bytes, 8) != ks_crc32(ks_view_of(bytes.data, 8)))
        return KS_FAIL(MALFORMED);
    if (size < FRAME_BYTES || size > KS_EVENT_BYTES_MAX || headers > KS_EVENT_HEADERS_BYTES_MAX ||
        headers > size - FRAME_BYTES)
        return KS_FAIL(MALFORMED);
    *ret_size = size;
    return KS_OK;
}

/* A signed number of `width` bytes. */
static ks_err take_number(ks_view *view, size_t width, struct ks_event_header *header)
{
    uint64_t bits = 0;

    KS_TRY(ks_view_take(view, width, &header->value));
    for (size_t at = 0; at < width; at++)
        bits = bits << 8 | header->value.data[at];
    /* The sign from its place to the top. */
    uint64_t sign = UINT64_C(1) << (width * 8 - 1);
    header->number = (int64_t)((bits ^ sign) - sign);
    return KS_OK;
}

static ks_err take_sized(ks_view *view, struct ks_event_header *header)
{
    uint16_t size = 0;

    KS_TRY(ks_view_take_be16(view, &size));
    return ks_view_take(view, size, &header->value);
}

static ks_err take_value(ks_view *view, struct ks_event_header *header)
{
    switch (header->type) {
    case KS_EVENT_TRUE:
    case KS_EVENT_FALSE: return KS_OK;
    case KS_EVENT_I8: return take_number(view, 1, header);
    case KS_EVENT_I16: return take_number(view, 2, header);
    case KS_EVENT_I32: return take_number(view, 4, header);
    case KS_EVENT_I64:
    case KS_EVENT_TIMESTAMP: return take_number(view, 8, header);
    case KS_EVENT_BYTES:
    case KS_EVENT_TEXT: return take_sized(view, header);
    case KS_EVENT_UUID: return ks_view_take(view, 16, &header->value);
    }
    assert(false);
    return KS_FAIL(MALFORMED);
}

ks_err ks_event_take_header(ks_view *headers, struct ks_event_header *ret_header)
{
    struct ks_event_header header = {.value = KS_VIEW_NONE};
    ks_view rest = *headers;
    uint8_t size = 0;
    uint8_t type = 0;

    KS_TRY(ks_view_take_u8(&rest, &size));
    KS_TRY(ks_view_take(&rest, size, &header.name));
    KS_TRY(ks_view_take_u8(&rest, &type));
    if (size == 0 || type > KS_EVENT_UUID)
        return KS_FAIL(MALFORMED);
    header.type = (enum ks_event_type)type;
    KS_TRY(take_value(&rest, &header));
    *headers = rest;
    *ret_header = header;
    return KS_OK;
}

ks_err ks_event_read(ks_view message, struct ks_event *ret_event)
{
    struct ks_event_header header;
    size_t size = 0;

    KS_TRY(ks_event_size(message, &size));
    assert(size == message.size);
    if (be32(message, size - 4) != ks_crc32(ks_view_of(message.data, size - 4)))
        return KS_FAIL(MALFORMED);

    size_t headers = be32(message, 4);
    struct ks_event event = {
        .headers = ks_view_of(message.data + KS_EVENT_PRELUDE_BYTES, headers),
        .payload = ks_view_of(message.data + KS_EVENT_PRELUDE_BYTES + headers,
                              size - FRAME_BYTES - headers),
    };
    for (ks_view rest = event.headers; rest.size > 0;)
        KS_TRY(ks_event_take_header(&rest, &header));
    *ret_event = event;
    return KS_OK;
}

ks_view ks_event_text(const struct ks_event *event, const char *name)
{
    ks_view rest = event->headers;
    struct ks_event_header header;

    while (rest.size > 0 && ks_ok(ks_event_take_header(&rest, &header))) {
        if (header.type == KS_EVENT_TEXT && ks_view_equal(header.name, ks_view_text(name)))
            return header.value;
    }
    return KS_VIEW_NONE;
}
