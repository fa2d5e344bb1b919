/* SPDX-License-Identifier: Apache-2.0 */
/* codec.c - any bytes as base64 in both alphabets, hex, an instant, a hash key and a sequence number of the local
 * stream: what is read is written the same, and the ways to do it agree.
 */
#include "base/codec.h"

#include "adapters/hash.h"
#include "adapters/local/sequence.h"
#include "base/base64.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { VECTOR_BYTES = 32 };

static uint8_t *room(size_t size)
{
    uint8_t *memory = malloc(size + 1);

    assert(memory != NULL);
    return memory;
}

static void read_base64(ks_view text)
{
    uint8_t *bytes = room(ks_base64_decoded_max(text.size) + VECTOR_BYTES);
    char *again = (char *)room(ks_base64_size(text.size));
    size_t size = 0;

    if (ks_ok(ks_base64_decode(text, bytes, &size))) {
        size_t written = ks_base64_encode(ks_view_of(bytes, size), again);
        assert(written == text.size);
        /* Bits behind the end are let in: the last group may have another spelling. */
        assert(written == 0 || memcmp(again, text.data, written - 4) == 0);
    }
    if (ks_ok(ks_base64url_decode(text, bytes, &size)))
        assert(ks_view_equal(
            text, ks_view_of(again, ks_base64url_encode(ks_view_of(bytes, size), again))));
    free(again);
    free(bytes);
}

static void write_base64(ks_view bytes)
{
    char *text = (char *)room(ks_base64_size(bytes.size));
    uint8_t *again = room(ks_base64_size(bytes.size) + VECTOR_BYTES);
    size_t size = ks_base64_encode(bytes, text);
    ks_err err = ks_base64_decode(ks_view_of(text, size), again, &size);

    assert(ks_ok(err) && ks_view_equal(bytes, ks_view_of(again, size)));
    free(again);
    free(text);
}

/* Vectors take a part of what the portable way takes, and write the same. */
static void compare_ways(ks_view text)
{
    uint8_t *one = room(ks_base64_decoded_max(text.size) + VECTOR_BYTES);
    uint8_t *other = room(ks_base64_decoded_max(text.size) + VECTOR_BYTES);

    if (ks_base64_has_avx2()) {
        size_t taken = ks_base64_avx2.decode(text.data, text.size, one);
        assert(taken <= ks_base64_portable.decode(text.data, text.size, other));
        assert(taken % 4 == 0 && memcmp(one, other, taken / 4 * 3) == 0);
    }
    free(one);
    free(other);
}

static void read_hex(ks_view text)
{
    uint8_t *bytes = room(text.size / 2);
    char *again = (char *)room(text.size);

    if (ks_ok(ks_hex_decode(text, bytes))) {
        ks_hex_encode(ks_view_of(bytes, text.size / 2), again);
        assert(ks_view_equal_nocase(text, ks_view_of(again, text.size)));
    }
    free(again);
    free(bytes);
}

static void read_instant(ks_view text)
{
    char again[KS_TIMESTAMP_SIZE];
    int64_t unix_ms = 0;
    int64_t same = 0;

    if (!ks_ok(ks_timestamp_parse(text, &unix_ms)))
        return;
    ks_timestamp_format(unix_ms, again);
    ks_err err = ks_timestamp_parse(ks_view_text(again), &same);
    /* An offset may lead out of the years that can be written. */
    assert(ks_ok(err));
    assert(same == unix_ms || again[0] == '0' || again[0] == '9');
}

static void read_numbers(ks_view text)
{
    struct ks_local_sequence sequence;
    char digits[KS_SEQUENCE_MAX + 1];
    ks_hash_key key;

    if (ks_ok(ks_local_sequence_parse(text, &sequence))) {
        ks_local_sequence_format(&sequence, digits);
        assert(ks_view_equal(text, ks_view_text(digits)));
    }
    if (ks_ok(ks_hash_key_parse(text, &key)))
        assert(text.size > 0 && text.size <= KS_HASH_KEY_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t nothing;
    ks_view view = ks_view_of(size == 0 ? &nothing : data, size);

    read_base64(view);
    write_base64(view);
    compare_ways(view);
    read_hex(view);
    read_instant(view);
    read_numbers(view);
    return 0;
}
