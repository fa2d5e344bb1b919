/* SPDX-License-Identifier: Apache-2.0 */
#include "buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CAPACITY_MIN = 256 };

void ks_buffer_free(struct ks_buffer *buffer)
{
    free(buffer->data);
    *buffer = (struct ks_buffer){0};
}

void ks_buffer_clear(struct ks_buffer *buffer)
{
    buffer->size = 0;
    buffer->is_full = false;
}

/* Makes room for `size` bytes more. Returns false if there is none. */
static bool make_room(struct ks_buffer *buffer, size_t size)
{
    size_t capacity = buffer->capacity < CAPACITY_MIN ? CAPACITY_MIN : buffer->capacity;
    uint8_t *data;

    if (buffer->is_full || size > KS_BUFFER_BYTES_MAX - buffer->size) {
        buffer->is_full = true;
        return false;
    }
    if (buffer->size + size <= buffer->capacity)
        return true;
    while (capacity < buffer->size + size)
        capacity *= 2;
    data = realloc(buffer->data, capacity);
    if (data == NULL) {
        buffer->is_full = true;
        return false;
    }
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

void ks_buffer_add(struct ks_buffer *buffer, const void *data, size_t size)
{
    if (size == 0 || !make_room(buffer, size))
        return;
    memcpy(buffer->data + buffer->size, data, size);
    buffer->size += size;
}

void ks_buffer_insert(struct ks_buffer *buffer, size_t at, const void *data, size_t size)
{
    if (!make_room(buffer, size))
        return;
    memmove(buffer->data + at + size, buffer->data + at, buffer->size - at);
    memcpy(buffer->data + at, data, size);
    buffer->size += size;
}

void ks_buffer_print(struct ks_buffer *buffer, const char *format, ...)
{
    va_list arguments;
    int size;

    va_start(arguments, format);
    size = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (size < 0 || !make_room(buffer, (size_t)size + 1)) {
        buffer->is_full = true;
        return;
    }
    va_start(arguments, format);
    (void)vsnprintf((char *)buffer->data + buffer->size, (size_t)size + 1, format, arguments);
    va_end(arguments);
    buffer->size += (size_t)size;
}

static bool is_unreserved(char letter)
{
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
           (letter >= '0' && letter <= '9') || (letter != '\0' && strchr("-._~", letter) != NULL);
}

void ks_buffer_add_escaped(struct ks_buffer *buffer, const char *text)
{
    for (; *text != '\0'; text++)
        if (is_unreserved(*text))
            ks_buffer_add(buffer, text, 1);
        else
            ks_buffer_print(buffer, "%%%02X", (unsigned char)*text);
}

const char *ks_buffer_text(struct ks_buffer *buffer)
{
    if (!make_room(buffer, 1))
        return NULL;
    buffer->data[buffer->size] = '\0';
    return (const char *)buffer->data;
}
