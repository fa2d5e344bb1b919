/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/kinesis/listing.h"

#include "adapters/kinesis/request.h"
#include "aws/json.h"
#include "base/budget.h"

#include <assert.h>

/* How far apart two clocks may be before a server refuses everything that we sign. */
enum { CLOCK_MARGIN_MS = 5 * 60 * 1000 };

void ks_listing_init(struct ks_listing *listing, int64_t since_ms)
{
    *listing = (struct ks_listing){.since_ms = since_ms};
    ks_bytes_init(&listing->token, KS_LISTING_TOKEN_MAX);
}

void ks_listing_free(struct ks_listing *listing)
{
    ks_bytes_free(&listing->token);
    ks_free(listing->shards);
    ks_listing_init(listing, 0);
}

static void put_filter(struct ks_writer *json, int64_t since_ms)
{
    ks_writer_key(json, "ShardFilter");
    ks_writer_open(json, '{');
    ks_writer_pair(json, "Type", KS_VIEW("FROM_TIMESTAMP"));
    ks_writer_key(json, "Timestamp");
    ks_writer_unix_ms(json, since_ms);
    ks_writer_close(json, '}');
}

ks_err ks_listing_request(const struct ks_listing *listing, const char *stream, uint32_t page_size,
                          struct ks_bytes *body)
{
    struct ks_writer json;

    assert(page_size > 0);
    ks_writer_begin_strict(&json, body);
    ks_writer_open(&json, '{');
    if (listing->token.size > 0) {
        ks_writer_pair(&json, "NextToken", ks_bytes_view(&listing->token));
    } else {
        ks_request_put_stream(&json, stream);
        ks_writer_key(&json, "MaxResults");
        ks_writer_u64(&json, page_size);
        if (listing->since_ms > 0)
            put_filter(&json, listing->since_ms);
    }
    ks_writer_close(&json, '}');
    return ks_writer_end(&json);
}

/* A text member as a C string; "" if it is absent. */
static ks_err read_text(const struct ks_json *object, const char *name, char *buffer,
                        size_t capacity)
{
    const struct ks_json *member = ks_json_member(object, name);
    ks_view text = KS_VIEW_NONE;

    buffer[0] = '\0';
    if (member == NULL)
        return KS_OK;
    KS_TRY(ks_json_text(member, &text));
    return ks_ok(ks_view_copy_text(text, buffer, capacity)) ? KS_OK : KS_FAIL(MALFORMED);
}

static ks_err read_shard(const struct ks_json *item, struct ks_shard_listing *ret_shard)
{
    struct ks_shard_listing shard = {.closed = false};
    const struct ks_json *range = ks_json_member(item, "HashKeyRange");
    const struct ks_json *numbers = ks_json_member(item, "SequenceNumberRange");

    KS_TRY(read_text(item, "ShardId", shard.shard, sizeof(shard.shard)));
    KS_TRY(read_text(item, "ParentShardId", shard.parents[0], sizeof(shard.parents[0])));
    KS_TRY(read_text(item, "AdjacentParentShardId", shard.parents[1], sizeof(shard.parents[1])));
    KS_TRY(read_text(range, "StartingHashKey", shard.hash_start, sizeof(shard.hash_start)));
    KS_TRY(read_text(range, "EndingHashKey", shard.hash_end, sizeof(shard.hash_end)));
    if (shard.shard[0] == '\0')
        return KS_FAIL(MALFORMED);
    /* Only that it is there: kinesis-local writes the same small number for every closed shard. */
    shard.closed = ks_json_member(numbers, "EndingSequenceNumber") != NULL;
    *ret_shard = shard;
    return KS_OK;
}

static ks_err grow(struct ks_listing *listing, size_t more)
{
    size_t wanted = listing->capacity == 0 ? 16 : listing->capacity;

    if (more > (size_t)(KS_LISTING_SHARDS_MAX - listing->count))
        return KS_FAIL(FULL);
    while (wanted < listing->count + more)
        wanted *= 2;
    if (wanted == listing->capacity)
        return KS_OK;
    void *moved = ks_realloc(listing->shards, wanted * sizeof(*listing->shards));
    if (moved == NULL)
        return KS_FAIL(NO_MEMORY);
    listing->shards = moved;
    listing->capacity = (uint32_t)wanted;
    return KS_OK;
}

static ks_err take_page(struct ks_listing *listing, const struct ks_json *page, bool *ret_more)
{
    const struct ks_json *shards = ks_json_member(page, "Shards");
    ks_view token = KS_VIEW_NONE;

    if (!ks_json_is_array(shards))
        return KS_FAIL(MALFORMED);
    size_t count = ks_json_count(shards);
    KS_TRY(grow(listing, count));
    for (size_t at = 0; at < count; at++) {
        KS_TRY(read_shard(ks_json_item(shards, at), &listing->shards[listing->count]));
        listing->count++;
    }
    ks_bytes_clear(&listing->token);
    if (ks_json_member(page, "NextToken") != NULL)
        KS_TRY(ks_json_text(ks_json_member(page, "NextToken"), &token));
    KS_TRY(ks_bytes_append(&listing->token, token));
    *ret_more = token.size > 0;
    return KS_OK;
}

ks_err ks_listing_take(struct ks_listing *listing, ks_view body, bool *ret_more)
{
    struct ks_json *page;

    KS_TRY(ks_json_parse(body, &page));
    ks_err err = take_page(listing, page, ret_more);
    ks_json_free(page);
    return err;
}

bool ks_listing_restart(struct ks_listing *listing)
{
    if (listing->restarts == KS_LISTING_RESTARTS_MAX)
        return false;
    listing->restarts++;
    listing->count = 0;
    ks_bytes_clear(&listing->token);
    return true;
}

bool ks_listing_widen(struct ks_listing *listing)
{
    bool once = !listing->widened && listing->since_ms > CLOCK_MARGIN_MS;

    if (listing->since_ms == 0 || listing->token.size > 0)
        return false;
    listing->since_ms = once ? listing->since_ms - CLOCK_MARGIN_MS : 0;
    listing->widened = true;
    return true;
}
