/* SPDX-License-Identifier: Apache-2.0 */
/* buffer.h - bytes that grow.
 *
 * After a failed allocation, or beyond KS_BUFFER_BYTES_MAX, `is_full` is set and nothing more is
 * added. The owner checks it once, at the end.
 */
#ifndef KS_BUFFER_H
#define KS_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    KS_BUFFER_BYTES_MAX = 16 << 20 /* Of a request or an answer. */
};

struct ks_buffer {
    uint8_t *data;
    size_t size;
    size_t capacity;
    bool is_full;
};

void ks_buffer_free(struct ks_buffer *buffer);

/* Empties the buffer and keeps its memory. */
void ks_buffer_clear(struct ks_buffer *buffer);

void ks_buffer_add(struct ks_buffer *buffer, const void *data, size_t size);

/* Inserts `size` bytes at the offset `at`. */
void ks_buffer_insert(struct ks_buffer *buffer, size_t at, const void *data, size_t size);

/* Adds text in the form of printf(). */
void ks_buffer_print(struct ks_buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Adds text for the query of a URL. */
void ks_buffer_add_escaped(struct ks_buffer *buffer, const char *text);

/* The content as text. NULL: the buffer is full. */
const char *ks_buffer_text(struct ks_buffer *buffer);

#endif
