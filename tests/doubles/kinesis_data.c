/* SPDX-License-Identifier: Apache-2.0 */
/* The operations on records. */
#include "kinesis.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PUT_BYTES_MAX = 10 << 20 };

/* ---- Puts ---- */

struct entry {
    struct shard *shard;
    const char *key;
    size_t key_size;
    uint8_t *data;
    size_t data_size;
};

/* False: refused. The caller frees the data. */
static bool read_entry(struct call *call, const struct stream *stream, const json_t *from,
                       struct entry *entry)
{
    const json_t *key = json_object_get(from, "PartitionKey");
    const char *text = json_string_value(json_object_get(from, "ExplicitHashKey"));
    hash_key hash;

    entry->key = json_string_value(key);
    entry->key_size = json_string_length(key);
    if (text == NULL)
        hash = hash_of(entry->key, entry->key_size);
    else if (!hash_read(text, &hash)) {
        fail(call, "InvalidArgumentException",
             "Invalid ExplicitHashKey. ExplicitHashKey must be in the range: [0, 2^128-1]. "
             "Specified value was %s",
             text);
        return false;
    }
    if (!base64_read(json_string_value(json_object_get(from, "Data")), &entry->data,
                     &entry->data_size)) {
        fail(call, "SerializationException", "Invalid Base64 character");
        return false;
    }
    entry->shard = shard_for(stream, hash);
    return true;
}

/* The stream of a put; NULL: refused. */
static struct stream *stream_to_put(struct call *call)
{
    struct stream *stream = in_stream(call);

    if (stream == NULL)
        return NULL;
    if (stream->status == CREATING) {
        fail(call, "ResourceNotFoundException", "Stream %s under account " ACCOUNT " not found.",
             stream->name);
        return NULL;
    }
    if (stream->volume.data_size > 0) {
        fail(call, "InvalidArgumentException", "Stream %s is a volume: it makes its own records.",
             stream->name);
        return NULL;
    }
    return stream;
}

/* False: too much for the shard; the text says so. */
static bool put_entry(const struct entry *entry, char sequence[SEQUENCE_DIGITS + 1], char *refusal,
                      size_t refusal_size)
{
    struct shard *shard = entry->shard;

    if (!rate_allows(&shard->puts, entry->data_size + entry->key_size, knobs.write_records,
                     knobs.write_bytes)) {
        snprintf(refusal, refusal_size,
                 "Rate exceeded for shard %s in stream %s under account " ACCOUNT ".", shard->id,
                 shard->stream->name);
        return false;
    }
    shard_put(shard, entry->key, entry->key_size, entry->data, entry->data_size, sequence);
    return true;
}

void put_record(struct call *call)
{
    struct stream *stream = stream_to_put(call);
    struct entry entry = {.data = NULL};
    char sequence[SEQUENCE_DIGITS + 1];
    char refusal[400];

    if (stream == NULL || !read_entry(call, stream, call->in, &entry))
        return;
    if (put_entry(&entry, sequence, refusal, sizeof refusal)) {
        write_map(&call->out);
        write_pair(&call->out, "ShardId", entry.shard->id);
        write_pair(&call->out, "SequenceNumber", sequence);
        write_map_end(&call->out);
    } else
        fail(call, "ProvisionedThroughputExceededException", "%s", refusal);
    free(entry.data);
}

static void put_entries(struct call *call, const struct entry *entries, size_t count)
{
    struct writer *out = &call->out;
    int64_t failed = 0;
    char sequence[SEQUENCE_DIGITS + 1];
    char refusal[400];

    write_map(out);
    write_key(out, "Records");
    write_list(out);
    for (size_t at = 0; at < count; at++) {
        write_map(out);
        if (put_entry(&entries[at], sequence, refusal, sizeof refusal)) {
            write_pair(out, "ShardId", entries[at].shard->id);
            write_pair(out, "SequenceNumber", sequence);
        } else {
            write_pair(out, "ErrorCode", "ProvisionedThroughputExceededException");
            write_pair(out, "ErrorMessage", refusal);
            failed++;
        }
        write_map_end(out);
    }
    write_list_end(out);
    write_key(out, "FailedRecordCount");
    write_number(out, failed);
    write_map_end(out);
}

void put_records(struct call *call)
{
    const struct stream *stream = stream_to_put(call);
    const json_t *records = json_object_get(call->in, "Records");
    static struct entry entries[ENTRIES_MAX];
    size_t count = 0;
    size_t bytes = 0;

    if (stream == NULL)
        return;
    memset(entries, 0, sizeof entries);
    while (count < json_array_size(records) &&
           read_entry(call, stream, json_array_get(records, count), &entries[count])) {
        bytes += entries[count].data_size + entries[count].key_size;
        count++;
    }
    if (count == json_array_size(records)) {
        if (bytes > PUT_BYTES_MAX)
            fail(call, "InvalidArgumentException", "Records size exceeds 10 MB limit");
        else
            put_entries(call, entries, count);
    }
    for (size_t at = 0; at < ENTRIES_MAX; at++)
        free(entries[at].data);
}

/* ---- Positions ---- */

/* False: refused. */
static bool number_of(struct call *call, const struct shard *shard, const char *text, bool after,
                      uint64_t *ret_number)
{
    struct sequence sequence;
    bool good = sequence_read(text, &sequence);

    if (good && sequence.shard != shard->number) {
        fail(
            call, "InvalidArgumentException",
            "Invalid StartingSequenceNumber. It encodes shardId-%012u, while it was used in a call "
            "to a shard with %s",
            sequence.shard, shard->id);
        return false;
    }
    if (!good || sequence.created_s != shard->created_s) {
        fail(call, "InvalidArgumentException",
             "StartingSequenceNumber %s used in %s on shard %s in stream %s under account " ACCOUNT
             " is invalid%s.",
             text, call->operation, shard->id, shard->stream->name,
             good ? " because it did not come from this stream" : "");
        return false;
    }
    if (sequence.index == SEQUENCE_LAST)
        *ret_number = shard_count(shard);
    else
        *ret_number = sequence.index == 0 ? 0 : sequence.index - 1 + after;
    return true;
}

bool position_of(struct call *call, struct shard *shard, const json_t *from, const char *type,
                 const char *sequence, uint64_t *ret_number)
{
    bool by_sequence = strstr(type, "_SEQUENCE_NUMBER") != NULL;
    int64_t unix_ms;

    if (strcmp(type, "AT_TIMESTAMP") == 0) {
        if (!in_time(from, "Timestamp", &unix_ms)) {
            fail(call, "InvalidArgumentException",
                 "Must specify timestampInMillis parameter for iterator of type AT_TIMESTAMP. "
                 "Current request has no timestamp parameter.");
            return false;
        }
        if (unix_ms > now_ms) {
            fail(call, "InvalidArgumentException",
                 "The timestampInMillis parameter cannot be greater than the "
                 "currentTimestampInMillis. timestampInMillis: %lld, currentTimestampInMillis: "
                 "%lld",
                 (long long)unix_ms, (long long)now_ms);
            return false;
        }
        *ret_number = shard_at(shard, unix_ms);
        return true;
    }
    if (by_sequence != (sequence != NULL)) {
        fail(call, "InvalidArgumentException",
             "Must either specify (1) AT_SEQUENCE_NUMBER or AFTER_SEQUENCE_NUMBER and "
             "StartingSequenceNumber or (2) TRIM_HORIZON or LATEST and no StartingSequenceNumber. "
             "Request specified %s and %s StartingSequenceNumber.",
             type, sequence != NULL ? "also a" : "no");
        return false;
    }
    if (by_sequence)
        return number_of(call, shard, sequence, type[1] == 'F', ret_number);
    *ret_number = strcmp(type, "LATEST") == 0 ? shard_count(shard) : shard->trimmed;
    return true;
}

static void write_iterator(struct call *call, const char *key, const struct shard *shard,
                           uint64_t number)
{
    char sequence[SEQUENCE_DIGITS + 1];
    struct bytes iterator = {.data = NULL};

    shard_sequence(shard, number, sequence);
    iterator_print(&iterator, shard->stream->name, shard->id, sequence);
    write_key(&call->out, key);
    write_text(&call->out, (const char *)bytes_front(&iterator), bytes_size(&iterator));
    bytes_free(&iterator);
}

static void fail_rate(struct call *call, const struct shard *shard)
{
    fail(call, "ProvisionedThroughputExceededException",
         "Rate exceeded for shard %s in stream %s under account " ACCOUNT ".", shard->id,
         shard->stream->name);
}

void get_shard_iterator(struct call *call)
{
    struct stream *stream = stream_find(call->stream_name, strlen(call->stream_name));
    struct shard *shard = in_shard(call, stream);
    uint64_t number = 0;

    if (shard == NULL || !position_of(call, shard, call->in, in_text(call, "ShardIteratorType"),
                                      in_text(call, "StartingSequenceNumber"), &number))
        return;
    if (!rate_allows(&shard->iterators, 0, knobs.read_calls, 0)) {
        fail_rate(call, shard);
        return;
    }
    write_map(&call->out);
    write_iterator(call, "ShardIterator", shard, number);
    write_map_end(&call->out);
}

/* ---- Reads ---- */

static void print_utc(int64_t unix_ms, char text[40])
{
    time_t seconds = (time_t)(unix_ms / 1000);
    struct tm parts;

    if (gmtime_r(&seconds, &parts) != NULL)
        strftime(text, 40, "%a %b %d %H:%M:%S UTC %Y", &parts);
}

/* The shard of an iterator, and how far it is; NULL: refused. */
static struct shard *shard_of_iterator(struct call *call, struct iterator *iterator)
{
    char made[40];
    char now[40];

    if (!iterator_read(in_text(call, "ShardIterator"), iterator) || iterator->made_ms > now_ms) {
        fail(call, "InvalidArgumentException", "Invalid ShardIterator.");
        return NULL;
    }
    if (now_ms - iterator->made_ms > scaled(knobs.iterator_span)) {
        print_utc(iterator->made_ms, made);
        print_utc(now_ms, now);
        fail(call, "ExpiredIteratorException",
             "Iterator expired. The iterator was created at time %s while right now it is %s which "
             "is further in the future than the tolerated delay of %lld milliseconds.",
             made, now, (long long)knobs.iterator_span);
        return NULL;
    }
    struct stream *stream = stream_find(iterator->stream, strlen(iterator->stream));
    struct shard *shard = in_shard(call, stream);
    if (shard == NULL || shard->created_s == iterator->sequence.created_s)
        return shard;
    /* Of a stream of that name that was deleted. */
    (void)in_shard(call, NULL);
    return NULL;
}

void get_records(struct call *call)
{
    struct iterator iterator;
    struct shard *shard = shard_of_iterator(call, &iterator);
    uint32_t records_max = (uint32_t)in_number(call, "Limit", RECORDS_MAX);
    struct writer *out = &call->out;

    if (shard == NULL)
        return;
    if ((knobs.limits != 0 && now_ms < shard->paused_until_ms) ||
        !rate_allows(&shard->gets, 0, knobs.read_calls, knobs.read_bytes)) {
        fail_rate(call, shard);
        return;
    }
    shard->reads++;
    if (knobs.empty_reads > 0 && shard->reads % (uint64_t)knobs.empty_reads == 0)
        records_max = 0;
    uint64_t number = iterator.sequence.index == 0 ? 0 : iterator.sequence.index - 1;
    bool was_at_end = shard->closed_ms != 0 && number >= shard_count(shard);
    write_map(out);
    write_key(out, "Records");
    struct read_result read = shard_read(shard, &number, records_max, READ_BYTES_MAX, out);
    shard->gets.bytes += read.bytes;
    if (read.full)
        shard->paused_until_ms = now_ms + scaled(knobs.pause_span);
    write_key(out, "MillisBehindLatest");
    write_number(out, read.behind_ms);
    if (read.at_end && (knobs.end_apart == 0 || was_at_end))
        write_children(out, shard);
    else
        write_iterator(call, "NextShardIterator", shard, number);
    write_map_end(out);
}
