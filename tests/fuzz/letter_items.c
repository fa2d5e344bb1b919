/* SPDX-License-Identifier: Apache-2.0 */
/* letter_items.c - any bytes as the answer to a Query of dead letters in a DynamoDB table: an item is a letter that is
 * named as it was, or it is damaged; what is sound is written to the place that it came from, and nothing is kept. An
 * input that begins with a space is of a table of several streams.
 */
#include "adapters/dynamodb/letter_item.h"
#include "base/budget.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct ks_bytes bytes;
static struct ks_bytes body;

static void check_texts(const struct ks_letter *letter)
{
    const ks_view texts[] = {letter->id, letter->stream, letter->shard_id, letter->sequence,
                             letter->reason};
    static volatile uint8_t last;

    for (size_t at = 0; at < sizeof(texts) / sizeof(texts[0]); at++)
        assert(ks_view_is_unicode(texts[at]));
    assert(letter->id.size <= KS_LETTER_ID_MAX && letter->reason.size <= KS_LETTER_REASON_MAX);
    assert((int)letter->cause >= 0 && letter->cause < KS_CAUSES);
    assert(!letter->pointer || letter->data.size == 0);
    if (letter->data.size > 0)
        last = letter->data.data[letter->data.size - 1];
    (void)last;
}

static bool is_key(const struct ks_json *item, const char *name, const char *prefix,
                   const char *text)
{
    ks_view value;

    return ks_ok(ks_json_text(ks_json_member(ks_json_member(item, name), "S"), &value)) &&
           value.size == strlen(prefix) + strlen(text) &&
           memcmp(value.data, prefix, strlen(prefix)) == 0 &&
           memcmp(value.data + strlen(prefix), text, strlen(text)) == 0;
}

static void check_place(const struct ks_json *item, const char *stream,
                        const struct ks_letter *letter)
{
    struct ks_letter_place place;
    struct ks_json *written;

    assert(ks_ok(ks_letter_place_of(letter->id, stream, &place)));
    assert(is_key(item, "k", "", place.k));
    ks_bytes_clear(&body);
    if (!ks_ok(ks_letter_put_write(&body, "t", &place, letter)) ||
        !ks_ok(ks_json_parse(ks_bytes_view(&body), &written)))
        abort();
    assert(is_key(ks_json_member(written, "Key"), "p", "letters#", place.shard));
    assert(is_key(ks_json_member(written, "Key"), "k", "", place.k));
    ks_json_free(written);
}

static void read_item(const struct ks_json *item, const char *stream)
{
    struct ks_letter letter;
    char shard[KS_LETTER_SHARD_MAX + 1];
    const char *damage;
    const uint8_t *before;

    ks_bytes_clear(&bytes);
    if (!ks_ok(ks_bytes_reserve(&bytes, ks_letter_item_bytes(item))))
        abort();
    before = bytes.data;
    damage = ks_letter_read(item, stream, &bytes, &letter);
    assert(bytes.data == before);
    check_texts(&letter);
    if (damage == NULL)
        check_place(item, stream, &letter);
    if (ks_ok(ks_letter_read_shard(item, shard)))
        assert(shard[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *stream = size > 0 && data[0] == ' ' ? "demo" : NULL;
    struct ks_json *document;

    if (!ks_ok(ks_json_parse(ks_view_of(data, size), &document)))
        return 0;
    ks_bytes_init(&bytes, 64 << 20);
    ks_bytes_init(&body, 64 << 20);
    int64_t live = ks_alloc_live();
    const struct ks_json *items = ks_json_member(document, "Items");

    for (size_t at = 0; at < ks_json_count(items); at++)
        read_item(ks_json_item(items, at), stream);
    ks_bytes_free(&bytes);
    ks_bytes_free(&body);
    assert(ks_alloc_live() == live);
    ks_json_free(document);
    return 0;
}
