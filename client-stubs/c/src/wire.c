/* SPDX-License-Identifier: Apache-2.0 */
#include "wire.h"

enum { VARINT_BYTES_MAX = 10 };

bool ks_wire_read_long_varint(struct ks_message *message, uint64_t *ret_value)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 64 && message->at < message->end; shift += 7) {
        uint8_t byte = *message->at++;
        value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *ret_value = value;
            return true;
        }
    }
    return false;
}

static size_t write_varint(uint8_t bytes[VARINT_BYTES_MAX], uint64_t value)
{
    size_t size = 0;

    for (; value >= 0x80; value >>= 7)
        bytes[size++] = (uint8_t)(value | 0x80);
    bytes[size++] = (uint8_t)value;
    return size;
}

static void add_varint(struct ks_buffer *buffer, uint64_t value)
{
    uint8_t bytes[VARINT_BYTES_MAX];

    ks_buffer_add(buffer, bytes, write_varint(bytes, value));
}

static void add_tag(struct ks_buffer *buffer, uint32_t field, uint32_t type)
{
    add_varint(buffer, field << 3 | type);
}

void ks_wire_add_number(struct ks_buffer *buffer, uint32_t field, uint64_t value)
{
    if (value == 0)
        return;
    add_tag(buffer, field, KS_TYPE_VARINT);
    add_varint(buffer, value);
}

void ks_wire_add_bytes(struct ks_buffer *buffer, uint32_t field, const void *data, size_t size)
{
    if (size == 0)
        return;
    add_tag(buffer, field, KS_TYPE_BYTES);
    add_varint(buffer, size);
    ks_buffer_add(buffer, data, size);
}

size_t ks_wire_begin(struct ks_buffer *buffer, uint32_t field)
{
    add_tag(buffer, field, KS_TYPE_BYTES);
    return buffer->size;
}

void ks_wire_end(struct ks_buffer *buffer, size_t begin)
{
    uint8_t bytes[VARINT_BYTES_MAX];

    if (!buffer->is_full)
        ks_buffer_insert(buffer, begin, bytes, write_varint(bytes, buffer->size - begin));
}
