/* SPDX-License-Identifier: Apache-2.0 */
/* The operations on streams and shards. */
#include "kinesis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHARDS_MAX = 100000, PAGE = 1000, DESCRIBED_MAX = 100, LISTS_MAX = 1000 };

void create_stream(struct call *call)
{
    if (stream_find(call->stream_name, strlen(call->stream_name)) != NULL)
        fail(call, "ResourceInUseException", "Stream %s under account " ACCOUNT " already exists.",
             call->stream_name);
    else
        stream_add(call->stream_name, (uint32_t)in_number(call, "ShardCount", 1));
}

void delete_stream(struct call *call)
{
    struct stream *stream = in_stream(call);

    if (stream != NULL)
        stream_change(stream, DELETING);
}

static uint32_t consumer_count(const struct stream *stream)
{
    uint32_t count = 0;

    for (uint32_t at = 0; at < CONSUMERS_MAX; at++)
        count += stream->consumers[at].stream != NULL;
    return count;
}

/* What both descriptions of a stream have. */
static void write_stream(struct writer *out, const struct stream *stream)
{
    write_pair(out, "StreamName", stream->name);
    write_pair(out, "StreamARN", stream->arn);
    write_pair(out, "StreamStatus", stream_status_name(stream));
    write_key(out, "StreamModeDetails");
    write_map(out);
    write_pair(out, "StreamMode", "PROVISIONED");
    write_map_end(out);
    write_key(out, "RetentionPeriodHours");
    write_number(out, knobs.retention_span / 3600000);
    write_key(out, "StreamCreationTimestamp");
    write_time(out, stream->created_ms);
    write_key(out, "EnhancedMonitoring");
    write_list(out);
    write_map(out);
    write_key(out, "ShardLevelMetrics");
    write_list(out);
    write_list_end(out);
    write_map_end(out);
    write_list_end(out);
    write_pair(out, "EncryptionType", "NONE");
}

void describe_summary(struct call *call)
{
    const struct stream *stream = in_stream(call);
    struct writer *out = &call->out;
    uint32_t open = 0;

    if (stream == NULL)
        return;
    for (uint32_t at = 0; at < stream->shard_count; at++)
        open += stream->shards[at]->closed_ms == 0;
    write_map(out);
    write_key(out, "StreamDescriptionSummary");
    write_map(out);
    write_stream(out, stream);
    write_key(out, "OpenShardCount");
    write_number(out, open);
    write_key(out, "ConsumerCount");
    write_number(out, consumer_count(stream));
    write_map_end(out);
    write_map_end(out);
}

/* ---- ListShards ---- */

/* What a NextToken holds: the listing that it goes on with. */
struct listing {
    int64_t made_ms;
    int64_t created_ms;
    uint32_t next; /* Number of the first shard that may be listed. */
    char filter[32];
    int64_t timestamp_ms;
};

static bool is_listed(const struct shard *shard, const struct listing *listing)
{
    const char *filter = listing->filter;
    bool at = strncmp(filter, "AT_", 3) == 0;
    bool by_time = strstr(filter, "_TIMESTAMP") != NULL;
    int64_t instant = by_time ? listing->timestamp_ms : now_ms - scaled(knobs.retention_span);

    if (shard_gone(shard))
        return false;
    if (strcmp(filter, "AT_LATEST") == 0)
        return shard->closed_ms == 0;
    /* What began with the stream was open at any horizon before it. */
    if (!by_time && instant < shard->stream->created_ms)
        instant = shard->stream->created_ms;
    if (at && shard->opened_ms > instant)
        return false;
    return (!at && !by_time) || shard->closed_ms == 0 || shard->closed_ms > instant;
}

static void write_shard(struct writer *out, const struct shard *shard)
{
    static const char *const names[] = {"ParentShardId", "AdjacentParentShardId"};

    write_map(out);
    write_pair(out, "ShardId", shard->id);
    for (size_t at = 0; at < 2 && shard->parents[at] >= 0; at++) {
        const struct shard *parent = shard->stream->shards[shard->parents[at]];
        if (!shard_gone(parent))
            write_pair(out, names[at], parent->id);
    }
    write_hash_range(out, shard);
    write_key(out, "SequenceNumberRange");
    write_map(out);
    write_pair(out, "StartingSequenceNumber", shard->start);
    if (shard->closed_ms != 0)
        write_pair(out, "EndingSequenceNumber", shard->ending);
    write_map_end(out);
    write_map_end(out);
}

void describe_stream(struct call *call)
{
    const struct stream *stream = in_stream(call);
    const char *after = in_text(call, "ExclusiveStartShardId");
    int64_t most = in_number(call, "Limit", DESCRIBED_MAX);
    struct writer *out = &call->out;
    bool more = false;

    if (stream == NULL)
        return;
    most = most > DESCRIBED_MAX ? DESCRIBED_MAX : most;
    write_map(out);
    write_key(out, "StreamDescription");
    write_map(out);
    write_stream(out, stream);
    write_key(out, "Shards");
    write_list(out);
    for (uint32_t at = 0; at < stream->shard_count && !more; at++) {
        const struct shard *shard = stream->shards[at];
        if (shard_gone(shard) || (after != NULL && strcmp(shard->id, after) <= 0))
            continue;
        more = most-- == 0;
        if (!more)
            write_shard(out, shard);
    }
    write_list_end(out);
    write_key(out, "HasMoreShards");
    write_bool(out, more);
    write_map_end(out);
    write_map_end(out);
}

/* Reads a NextToken, and finds its stream. False: refused. */
static bool read_token(struct call *call, struct listing *listing, struct stream **ret_stream)
{
    uint8_t *text = NULL;
    size_t size;
    char stream[NAME_MAX_BYTES + 1];
    long long made_ms = 0;
    long long created_ms = 0;
    long long timestamp_ms = 0;
    bool good = base64_read(in_text(call, "NextToken"), &text, &size) &&
                sscanf((const char *)text, "%lld %lld %u %31s %lld %128s", &made_ms, &created_ms,
                       &listing->next, listing->filter, &timestamp_ms, stream) == 6;

    free(text);
    listing->created_ms = created_ms;
    listing->timestamp_ms = timestamp_ms;
    if (!good) {
        fail(call, "InvalidArgumentException", "NextToken is invalid.");
        return false;
    }
    if (made_ms + scaled(knobs.token_span) < now_ms) {
        fail(call, "ExpiredNextTokenException",
             "The pagination token passed to the operation is expired.");
        return false;
    }
    snprintf(call->stream_name, sizeof call->stream_name, "%s", stream);
    *ret_stream = in_stream(call);
    if (*ret_stream != NULL && (*ret_stream)->created_ms == created_ms)
        return true;
    if (*ret_stream != NULL)
        fail(call, "ResourceNotFoundException", "Stream %s under account " ACCOUNT " not found.",
             stream);
    return false;
}

static void write_token(struct call *call, const struct stream *stream,
                        const struct listing *listing, uint32_t next)
{
    struct bytes plain = {.data = NULL};
    struct bytes token = {.data = NULL};

    bytes_print(&plain, "%lld %lld %u %s %lld %s", (long long)now_ms, (long long)stream->created_ms,
                next, listing->filter, (long long)listing->timestamp_ms, stream->name);
    base64_add(&token, bytes_front(&plain), bytes_size(&plain));
    write_key(&call->out, "NextToken");
    write_text(&call->out, (const char *)bytes_front(&token), bytes_size(&token));
    bytes_free(&plain);
    bytes_free(&token);
}

/* The first page of a listing: what the request wants. False: refused. */
static bool begin_listing(struct call *call, struct listing *listing, struct stream **ret_stream)
{
    const char *after = in_text(call, "ExclusiveStartShardId");
    const json_t *filter = json_object_get(call->in, "ShardFilter");
    const char *type = json_string_value(json_object_get(filter, "Type"));

    *ret_stream = in_stream(call);
    if (*ret_stream == NULL)
        return false;
    snprintf(listing->filter, sizeof listing->filter, "%s", type == NULL ? "NONE" : type);
    if (strcmp(listing->filter, "AFTER_SHARD_ID") == 0)
        after = json_string_value(json_object_get(filter, "ShardId"));
    if (strstr(listing->filter, "TIMESTAMP") != NULL &&
        !in_time(filter, "Timestamp", &listing->timestamp_ms)) {
        fail(call, "InvalidArgumentException", "ShardFilter %s needs a Timestamp.", type);
        return false;
    }
    for (uint32_t at = 0; after != NULL && at < (*ret_stream)->shard_count; at++) {
        if (strcmp((*ret_stream)->shards[at]->id, after) <= 0)
            listing->next = at + 1;
    }
    return true;
}

void list_shards(struct call *call)
{
    bool by_token = in_text(call, "NextToken") != NULL;
    bool by_name = in_text(call, "StreamName") != NULL || in_text(call, "StreamARN") != NULL;
    int64_t most = in_number(call, "MaxResults", PAGE);
    struct listing listing = {.next = 0};
    struct stream *stream;
    uint32_t at;

    if (by_token == by_name) {
        fail(call, "InvalidArgumentException",
             by_token ? "NextToken and StreamName cannot be provided together."
                      : "Either NextToken or StreamName should be provided.");
        return;
    }
    if (by_token ? !read_token(call, &listing, &stream) : !begin_listing(call, &listing, &stream))
        return;
    if (!rate_allows(&stream->lists, 0, LISTS_MAX, 0)) {
        fail(call, "LimitExceededException",
             "Rate exceeded for stream %s under account " ACCOUNT ".", stream->name);
        return;
    }
    most = most > PAGE ? PAGE : most;
    write_map(&call->out);
    write_key(&call->out, "Shards");
    write_list(&call->out);
    for (at = listing.next; at < stream->shard_count; at++) {
        if (!is_listed(stream->shards[at], &listing))
            continue;
        if (most-- == 0)
            break;
        write_shard(&call->out, stream->shards[at]);
    }
    write_list_end(&call->out);
    if (at < stream->shard_count)
        write_token(call, stream, &listing, at);
    write_map_end(&call->out);
}

/* ---- Reshards ---- */

/* False: refused. */
static bool may_change(struct call *call, const struct stream *stream)
{
    if (stream->status == ACTIVE)
        return true;
    fail(call, "ResourceInUseException",
         "Stream %s under account " ACCOUNT " not ACTIVE, instead in state %s", stream->name,
         stream_status_name(stream));
    return false;
}

/* An open shard, by its id; NULL: refused. */
static struct shard *open_shard(struct call *call, struct stream *stream, const char *id)
{
    struct shard *shard = shard_find(stream, id);

    if (shard == NULL)
        fail(call, "ResourceNotFoundException",
             "Could not find shard %s in stream %s under account " ACCOUNT ".", id, stream->name);
    else if (shard->closed_ms != 0)
        fail(
            call, "InvalidArgumentException",
            "Shard %s in stream %s under account " ACCOUNT
            " has already been merged or split, and thus is not eligible for merging or splitting.",
            id, stream->name);
    else
        return shard;
    return NULL;
}

void split_shard(struct call *call)
{
    struct stream *stream = in_stream(call);
    const char *text = in_text(call, "NewStartingHashKey");
    char first[HASH_DIGITS + 1];
    char last[HASH_DIGITS + 1];
    hash_key hash = 0;

    if (stream == NULL || !may_change(call, stream))
        return;
    struct shard *shard = open_shard(call, stream, in_text(call, "ShardToSplit"));
    if (shard == NULL)
        return;
    if (!hash_read(text, &hash) || hash <= shard->first + 1 || hash >= shard->last) {
        hash_print(shard->first, first);
        hash_print(shard->last, last);
        fail(call, "InvalidArgumentException",
             "NewStartingHashKey %s used in SplitShard() on shard %s in stream %s under "
             "account " ACCOUNT
             " is not both greater than one plus the shard's StartingHashKey %s and less "
             "than the shard's EndingHashKey %s.",
             text, shard->id, stream->name, first, last);
        return;
    }
    stream->change.one = shard;
    stream->change.hash = hash;
    stream_change(stream, UPDATING);
}

void merge_shards(struct call *call)
{
    struct stream *stream = in_stream(call);

    if (stream == NULL || !may_change(call, stream))
        return;
    struct shard *one = open_shard(call, stream, in_text(call, "ShardToMerge"));
    struct shard *other =
        one == NULL ? NULL : open_shard(call, stream, in_text(call, "AdjacentShardToMerge"));
    if (other == NULL)
        return;
    if (other->first == 0 || one->last != other->first - 1) {
        fail(call, "InvalidArgumentException",
             "Shards %s and %s in stream %s under account " ACCOUNT
             " are not an adjacent pair of shards eligible for merging",
             one->id, other->id, stream->name);
        return;
    }
    stream->change.one = one;
    stream->change.other = other;
    stream_change(stream, UPDATING);
}
