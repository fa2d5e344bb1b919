/* SPDX-License-Identifier: Apache-2.0 */
/* Memory, base64, checksums and chance. */
#include "kinesis.h"

#include <openssl/evp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void die(const char *format, ...)
{
    va_list arguments;

    fputs("kinesis double: ", stderr);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

void *must_alloc(size_t size)
{
    void *memory = calloc(1, size);

    if (memory == NULL)
        die("no memory");
    return memory;
}

void *must_grow(void *old, size_t size)
{
    void *memory = realloc(old, size);

    if (memory == NULL)
        die("no memory");
    return memory;
}

/* ---- Bytes ---- */

size_t bytes_size(const struct bytes *bytes)
{
    return bytes->end - bytes->start;
}

uint8_t *bytes_front(const struct bytes *bytes)
{
    return bytes->data == NULL ? NULL : bytes->data + bytes->start;
}

uint8_t *bytes_room(struct bytes *bytes, size_t size)
{
    size_t wanted = bytes->capacity == 0 ? 512 : bytes->capacity;

    /* What is used up is taken back when it is the larger part: each byte moves once or twice. */
    if (bytes->start > 0 && bytes->start >= bytes->end - bytes->start) {
        memmove(bytes->data, bytes->data + bytes->start, bytes->end - bytes->start);
        bytes->end -= bytes->start;
        bytes->start = 0;
    }
    while (wanted - bytes->end < size)
        wanted *= 2;
    if (wanted > bytes->capacity) {
        bytes->data = must_grow(bytes->data, wanted);
        bytes->capacity = wanted;
    }
    return bytes->data + bytes->end;
}

void bytes_wrote(struct bytes *bytes, size_t size)
{
    bytes->end += size;
}

void bytes_add(struct bytes *bytes, const void *data, size_t size)
{
    if (size > 0)
        memcpy(bytes_room(bytes, size), data, size);
    bytes->end += size;
}

void bytes_print(struct bytes *bytes, const char *format, ...)
{
    va_list arguments;
    va_list again;

    va_start(arguments, format);
    va_copy(again, arguments);
    int size = vsnprintf(NULL, 0, format, again);
    va_end(again);
    vsnprintf((char *)bytes_room(bytes, (size_t)size + 1), (size_t)size + 1, format, arguments);
    va_end(arguments);
    bytes->end += (size_t)size;
}

void bytes_use(struct bytes *bytes, size_t size)
{
    bytes->start += size;
    if (bytes->start == bytes->end)
        bytes->start = bytes->end = 0;
}

void bytes_free(struct bytes *bytes)
{
    free(bytes->data);
    *bytes = (struct bytes){.data = NULL};
}

void bytes_u32(struct bytes *bytes, uint32_t number)
{
    const uint8_t raw[] = {(uint8_t)(number >> 24), (uint8_t)(number >> 16), (uint8_t)(number >> 8),
                           (uint8_t)number};

    bytes_add(bytes, raw, sizeof raw);
}

/* ---- Text ---- */

void hex_of(const uint8_t *data, size_t size, char *text)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t at = 0; at < size; at++) {
        *text++ = digits[data[at] >> 4];
        *text++ = digits[data[at] & 15];
    }
    *text = '\0';
}

void base64_add(struct bytes *to, const void *data, size_t size)
{
    uint8_t *room = bytes_room(to, (size + 2) / 3 * 4 + 1);

    bytes_wrote(to, (size_t)EVP_EncodeBlock(room, data, (int)size));
}

bool base64_read(const char *text, uint8_t **ret_data, size_t *ret_size)
{
    size_t size = strlen(text);
    size_t padding = 0;

    if (size % 4 != 0 || strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                      "0123456789+/=") != size)
        return false;
    while (padding < 2 && padding < size && text[size - 1 - padding] == '=')
        padding++;
    uint8_t *data = must_alloc(size / 4 * 3 + 1);
    if (size > 0 && EVP_DecodeBlock(data, (const uint8_t *)text, (int)size) < 0) {
        free(data);
        return false;
    }
    *ret_data = data;
    *ret_size = size / 4 * 3 - padding;
    return true;
}

/* ---- Checksums, chance ---- */

static uint32_t crc_tables[8][256];

static void make_crc_tables(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xedb88320U : 0);
        crc_tables[0][byte] = crc;
    }
    for (uint32_t byte = 0; byte < 256; byte++) {
        for (int table = 1; table < 8; table++) {
            uint32_t before = crc_tables[table - 1][byte];
            crc_tables[table][byte] = before >> 8 ^ crc_tables[0][before & 0xff];
        }
    }
}

/* Eight bytes at a time: events are megabytes. */
uint32_t crc32_of(const uint8_t *data, size_t size)
{
    uint32_t crc = UINT32_MAX;

    if (crc_tables[0][1] == 0)
        make_crc_tables();
    for (; size >= 8; data += 8, size -= 8) {
        uint32_t low;
        uint32_t high;
        memcpy(&low, data, 4);
        memcpy(&high, data + 4, 4);
        low ^= crc;
        crc = crc_tables[7][low & 0xff] ^ crc_tables[6][low >> 8 & 0xff] ^
              crc_tables[5][low >> 16 & 0xff] ^ crc_tables[4][low >> 24] ^
              crc_tables[3][high & 0xff] ^ crc_tables[2][high >> 8 & 0xff] ^
              crc_tables[1][high >> 16 & 0xff] ^ crc_tables[0][high >> 24];
    }
    for (; size > 0; data++, size--)
        crc = crc >> 8 ^ crc_tables[0][(crc ^ *data) & 0xff];
    return ~crc;
}

/* splitmix64. */
uint64_t chance(void)
{
    static uint64_t state;

    state += 0x9e3779b97f4a7c15U;
    uint64_t mixed = state + (uint64_t)knobs.seed * 0xd1342543de82ef95U;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9U;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebU;
    return mixed ^ mixed >> 31;
}
