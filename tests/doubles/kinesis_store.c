/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, their shards, and the records in them. */
#include "kinesis.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct stream *streams;
const char *region = "us-east-1";

/* ---- Streams ---- */

struct stream *stream_first(void)
{
    return streams;
}

struct stream *stream_find(const char *name, size_t size)
{
    for (struct stream *stream = streams; stream != NULL; stream = stream->next) {
        if (strlen(stream->name) == size && memcmp(stream->name, name, size) == 0)
            return stream;
    }
    return NULL;
}

static const char *const status_names[] = {"CREATING", "ACTIVE", "UPDATING", "DELETING"};

const char *stream_status_name(const struct stream *stream)
{
    return status_names[stream->status];
}

static struct shard *shard_add(struct stream *stream, hash_key first, hash_key last,
                               int64_t created_s)
{
    struct shard *shard = must_alloc(sizeof *shard);
    struct sequence start = {created_s, 0, created_s, stream->shard_count};

    shard->stream = stream;
    shard->number = stream->shard_count;
    snprintf(shard->id, sizeof shard->id, "shardId-%012u", shard->number);
    shard->parents[0] = shard->parents[1] = -1;
    shard->first = first;
    shard->last = last;
    shard->created_s = created_s;
    shard->opened_ms = now_ms;
    sequence_print(&start, shard->start);
    stream->shards = must_grow(stream->shards, (stream->shard_count + 1) * sizeof *stream->shards);
    stream->shards[stream->shard_count++] = shard;
    return shard;
}

struct stream *stream_add(const char *name, uint32_t shards)
{
    struct stream *stream = must_alloc(sizeof *stream);
    /* 2^128 / shards, rounded down. */
    hash_key width = (~(hash_key)0 - (shards - 1)) / shards + 1;

    snprintf(stream->name, sizeof stream->name, "%s", name);
    snprintf(stream->arn, sizeof stream->arn, "arn:aws:kinesis:%s:" ACCOUNT ":stream/%s", region,
             name);
    stream->created_ms = now_ms;
    for (uint32_t at = 0; at < shards; at++)
        shard_add(stream, at * width, at + 1 < shards ? (at + 1) * width - 1 : ~(hash_key)0,
                  now_ms / 1000 - 2);
    stream_change(stream, CREATING);
    stream->next = streams;
    streams = stream;
    return stream;
}

static void shard_free(struct shard *shard)
{
    for (uint64_t at = 0; at < shard->count; at++)
        free(shard->records[at].bytes);
    free(shard->records);
    for (size_t at = 0; at < 2; at++)
        bytes_free(&shard->rendered[at].bytes);
    free(shard);
}

static void stream_free(struct stream *stream)
{
    for (uint32_t at = 0; at < stream->shard_count; at++)
        shard_free(stream->shards[at]);
    for (uint32_t at = 0; at < CONSUMERS_MAX; at++)
        free(stream->consumers[at].subscribed_ms);
    free(stream->shards);
    free(stream);
}

void stream_change(struct stream *stream, enum stream_status status)
{
    stream->status = status;
    stream->change_at_ms = now_ms + knobs.change_span;
}

/* ---- Shards ---- */

struct shard *shard_find(const struct stream *stream, const char *id)
{
    size_t prefix = strcspn(id, "-");
    unsigned long number = id[prefix] == '-' ? strtoul(id + prefix + 1, NULL, 10) : ULONG_MAX;

    if (number >= stream->shard_count)
        return NULL;
    struct shard *shard = stream->shards[number];
    return strcmp(shard->id, id) == 0 && !shard_gone(shard) ? shard : NULL;
}

struct shard *shard_for(const struct stream *stream, hash_key hash)
{
    for (uint32_t at = 0; at < stream->shard_count; at++) {
        struct shard *shard = stream->shards[at];
        if (shard->closed_ms == 0 && shard->first <= hash && hash <= shard->last)
            return shard;
    }
    die("no shard of %s holds a hash key", stream->name);
}

bool shard_gone(const struct shard *shard)
{
    return shard->closed_ms != 0 && shard->closed_ms < now_ms - scaled(knobs.retention_span);
}

static void shard_close(struct shard *shard)
{
    struct sequence ending = {shard->created_s, SEQUENCE_LAST, now_ms / 1000, shard->number};

    shard->closed_ms = now_ms;
    sequence_print(&ending, shard->ending);
}

static void add_child(struct stream *stream, hash_key first, hash_key last,
                      const struct shard *parent, const struct shard *other)
{
    /* A second later than the parents, if only on paper: their numbers are to be smaller. */
    int64_t created_s = now_ms / 1000 + 1;
    if (created_s <= parent->created_s)
        created_s = parent->created_s + 1;
    if (other != NULL && created_s <= other->created_s)
        created_s = other->created_s + 1;
    struct shard *child = shard_add(stream, first, last, created_s);
    child->parents[0] = (int32_t)parent->number;
    child->parents[1] = other == NULL ? -1 : (int32_t)other->number;
}

static void split_or_merge(struct stream *stream)
{
    struct shard *one = stream->change.one;
    struct shard *other = stream->change.other;

    shard_close(one);
    if (other != NULL) {
        shard_close(other);
        add_child(stream, one->first, other->last, one, other);
        return;
    }
    add_child(stream, one->first, stream->change.hash - 1, one, NULL);
    add_child(stream, stream->change.hash, one->last, one, NULL);
}

/* ---- Records ---- */

static uint64_t volume_before(const struct shard *shard, int64_t unix_ms)
{
    const struct volume *volume = &shard->stream->volume;

    if (shard->closed_ms != 0 && unix_ms > shard->closed_ms)
        unix_ms = shard->closed_ms;
    if (unix_ms < shard->opened_ms)
        return 0;
    if (volume->per_second == 0)
        return volume->count;
    uint64_t appeared = (uint64_t)(unix_ms - shard->opened_ms) * volume->per_second / 1000;
    return appeared < volume->count ? appeared : volume->count;
}

uint64_t shard_count(const struct shard *shard)
{
    if (shard->stream->volume.data_size > 0)
        return volume_before(shard, now_ms);
    return shard->trimmed + shard->count;
}

static int64_t arrival_of(const struct shard *shard, uint64_t number)
{
    const struct volume *volume = &shard->stream->volume;

    if (volume->data_size == 0)
        return shard->records[number - shard->trimmed].arrival_ms;
    if (volume->per_second == 0)
        return shard->opened_ms;
    /* The first millisecond at whose end it is there. */
    return shard->opened_ms +
           (int64_t)(((number + 1) * 1000 + volume->per_second - 1) / volume->per_second);
}

void shard_sequence(const struct shard *shard, uint64_t number, char text[SEQUENCE_DIGITS + 1])
{
    bool is_there = number >= shard->trimmed && number < shard_count(shard);
    struct sequence sequence = {shard->created_s, number + 1, 0, shard->number};

    if (is_there && shard->stream->volume.data_size == 0) {
        memcpy(text, shard->records[number - shard->trimmed].sequence, SEQUENCE_DIGITS + 1);
        return;
    }
    /* All numbers of a volume are of the same second, so that each follows from the one before. */
    sequence.time_s = shard->stream->volume.data_size > 0 ? shard->opened_ms / 1000 : now_ms / 1000;
    if (sequence.time_s < shard->created_s)
        sequence.time_s = shard->created_s;
    sequence_print(&sequence, text);
}

void shard_put(struct shard *shard, const char *key, size_t key_size, const uint8_t *data,
               size_t data_size, char ret_sequence[SEQUENCE_DIGITS + 1])
{
    if (shard->count == shard->capacity) {
        shard->capacity = shard->capacity == 0 ? 64 : 2 * shard->capacity;
        shard->records = must_grow(shard->records, shard->capacity * sizeof *shard->records);
    }
    struct record *record = &shard->records[shard->count];
    *record = (struct record){.arrival_ms = now_ms,
                              .key_size = (uint16_t)key_size,
                              .data_size = (uint32_t)data_size,
                              .bytes = must_alloc(key_size + data_size + 1)};
    memcpy(record->bytes, key, key_size);
    memcpy(record->bytes + key_size, data, data_size);
    shard_sequence(shard, shard->trimmed + shard->count, record->sequence);
    memcpy(ret_sequence, record->sequence, sizeof record->sequence);
    shard->count++;
}

uint64_t shard_at(const struct shard *shard, int64_t unix_ms)
{
    uint64_t low = shard->trimmed;
    uint64_t high = shard_count(shard);

    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (arrival_of(shard, middle) < unix_ms)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void trim(struct shard *shard)
{
    uint64_t old = shard_at(shard, now_ms - scaled(knobs.retention_span)) - shard->trimmed;

    if (old == 0)
        return;
    shard->trimmed += old;
    if (shard->stream->volume.data_size > 0)
        return;
    for (uint64_t at = 0; at < old; at++)
        free(shard->records[at].bytes);
    shard->count -= old;
    memmove(shard->records, shard->records + old, shard->count * sizeof *shard->records);
}

/* ---- Reading ---- */

static void write_record(struct writer *writer, const struct record *record)
{
    write_map(writer);
    write_pair(writer, "SequenceNumber", record->sequence);
    write_key(writer, "ApproximateArrivalTimestamp");
    write_time(writer, record->arrival_ms);
    write_key(writer, "Data");
    write_blob(writer, record->bytes + record->key_size, record->data_size);
    write_key(writer, "PartitionKey");
    write_text(writer, (const char *)record->bytes, record->key_size);
    write_map_end(writer);
}

enum { VOLUME_KEY_DIGITS = 12 };
#define VOLUME_KEY "key-000000000000"
#define VOLUME_TIME_MS 1111111111111
#define VOLUME_TIME_JSON "1.111111111111E9"

static size_t find_in(const struct bytes *bytes, const void *what, size_t size)
{
    const uint8_t *front = bytes_front(bytes);
    const uint8_t *found = memmem(front, bytes_size(bytes), what, size);

    return (size_t)(found - front);
}

/* The record of a volume as it is sent, but for its number, key and time. */
static const struct rendered *render(struct shard *shard, bool cbor)
{
    struct rendered *rendered = &shard->rendered[cbor];
    uint32_t data_size = shard->stream->volume.data_size;
    struct record record = {.arrival_ms = VOLUME_TIME_MS,
                            .key_size = sizeof VOLUME_KEY - 1,
                            .data_size = data_size,
                            .bytes = must_alloc(sizeof VOLUME_KEY - 1 + data_size)};
    struct writer writer = {&rendered->bytes, cbor, false};
    static const uint8_t time_cbor[] = {0x1b, 0x00, 0x00, 0x01, 0x02, 0xb3, 0x62, 0x11, 0xc7};

    if (bytes_size(&rendered->bytes) > 0)
        goto out;
    memcpy(record.bytes, VOLUME_KEY, sizeof VOLUME_KEY - 1);
    for (uint32_t at = 0; at < data_size; at++)
        record.bytes[sizeof VOLUME_KEY - 1 + at] = (uint8_t)(at * 2654435761U >> 13);
    memset(record.sequence, '9', SEQUENCE_DIGITS);
    write_record(&writer, &record);
    rendered->sequence_at = find_in(&rendered->bytes, record.sequence, SEQUENCE_DIGITS);
    rendered->key_at = find_in(&rendered->bytes, VOLUME_KEY, sizeof VOLUME_KEY - 1) +
                       sizeof VOLUME_KEY - 1 - VOLUME_KEY_DIGITS;
    rendered->time_at =
        cbor ? find_in(&rendered->bytes, time_cbor, sizeof time_cbor) + 1
             : find_in(&rendered->bytes, VOLUME_TIME_JSON, sizeof VOLUME_TIME_JSON - 1);
out:
    free(record.bytes);
    return rendered;
}

static void print_digits(uint8_t *to, size_t size, uint64_t number)
{
    for (; size > 0; number /= 10)
        to[--size] = (uint8_t)('0' + number % 10);
}

static void patch_time(uint8_t *at, int64_t unix_ms, bool cbor)
{
    if (cbor) {
        for (int byte = 0; byte < 8; byte++)
            at[byte] = (uint8_t)(unix_ms >> 8 * (7 - byte));
        return;
    }
    /* One digit, a point, and twelve. */
    at[0] = (uint8_t)('0' + unix_ms / 1000000000000);
    print_digits(at + 2, 12, (uint64_t)(unix_ms % 1000000000000));
}

static void read_volume(struct shard *shard, uint64_t number, uint32_t count, struct writer *writer)
{
    const struct rendered *rendered = render(shard, writer->cbor);
    size_t size = bytes_size(&rendered->bytes);
    char sequence[SEQUENCE_DIGITS + 1];

    shard_sequence(shard, number, sequence);
    uint8_t *at = bytes_room(writer->to, count * (size + 1));
    uint8_t *begin = at;
    for (uint32_t done = 0; done < count; done++, number++, at += size) {
        if (!writer->cbor && done > 0)
            *at++ = ',';
        memcpy(at, bytes_front(&rendered->bytes), size);
        memcpy(at + rendered->sequence_at, sequence, SEQUENCE_DIGITS);
        print_digits(at + rendered->key_at, VOLUME_KEY_DIGITS, number);
        patch_time(at + rendered->time_at, arrival_of(shard, number), writer->cbor);
        sequence_next(sequence);
    }
    bytes_wrote(writer->to, (size_t)(at - begin));
}

static uint64_t size_of(const struct shard *shard, uint64_t number)
{
    const struct volume *volume = &shard->stream->volume;

    if (volume->data_size > 0)
        return volume->data_size + sizeof VOLUME_KEY - 1;
    const struct record *record = &shard->records[number - shard->trimmed];
    return record->data_size + record->key_size;
}

struct read_result shard_read(struct shard *shard, uint64_t *number, uint32_t records_max,
                              uint64_t bytes_max, struct writer *writer)
{
    uint64_t end = shard_count(shard);
    struct read_result result = {.records = 0};

    if (*number < shard->trimmed)
        *number = shard->trimmed;
    while (*number + result.records < end && result.records < records_max) {
        uint64_t size = size_of(shard, *number + result.records);
        result.full = result.records > 0 && result.bytes + size > bytes_max;
        if (result.full)
            break;
        result.bytes += size;
        result.records++;
    }
    write_list(writer);
    if (shard->stream->volume.data_size > 0)
        read_volume(shard, *number, result.records, writer);
    else
        for (uint32_t at = 0; at < result.records; at++)
            write_record(writer, &shard->records[*number + at - shard->trimmed]);
    write_list_end(writer);
    *number += result.records;
    if (*number < end)
        result.behind_ms = now_ms - arrival_of(shard, result.records > 0 ? *number - 1 : *number);
    result.at_end = shard->closed_ms != 0 && *number >= end;
    counts.records_sent += result.records;
    counts.bytes_sent += result.bytes;
    return result;
}

void write_hash_range(struct writer *writer, const struct shard *shard)
{
    char hash[HASH_DIGITS + 1];

    write_key(writer, "HashKeyRange");
    write_map(writer);
    hash_print(shard->first, hash);
    write_pair(writer, "StartingHashKey", hash);
    hash_print(shard->last, hash);
    write_pair(writer, "EndingHashKey", hash);
    write_map_end(writer);
}

void write_children(struct writer *writer, const struct shard *shard)
{
    const struct stream *stream = shard->stream;

    write_key(writer, "ChildShards");
    write_list(writer);
    for (uint32_t at = 0; at < stream->shard_count; at++) {
        const struct shard *child = stream->shards[at];
        if (child->parents[0] != (int32_t)shard->number &&
            child->parents[1] != (int32_t)shard->number)
            continue;
        write_map(writer);
        write_pair(writer, "ShardId", child->id);
        write_key(writer, "ParentShards");
        write_list(writer);
        for (size_t parent = 0; parent < 2 && child->parents[parent] >= 0; parent++) {
            const char *id = stream->shards[child->parents[parent]]->id;
            write_text(writer, id, strlen(id));
        }
        write_list_end(writer);
        write_hash_range(writer, child);
        write_map_end(writer);
    }
    write_list_end(writer);
}

/* ---- Time ---- */

static void change_over(struct stream *stream)
{
    if (stream->change.one != NULL)
        split_or_merge(stream);
    stream->change.one = stream->change.other = NULL;
    stream->status = ACTIVE;
}

int64_t store_turn(void)
{
    static int64_t trim_at_ms;
    int64_t again_ms = INT64_MAX;
    struct stream **at = &streams;

    while (*at != NULL) {
        struct stream *stream = *at;
        bool due = stream->status != ACTIVE && stream->change_at_ms <= now_ms;

        if (due && stream->status == DELETING) {
            *at = stream->next;
            fanout_forget(stream);
            stream_free(stream);
            continue;
        }
        if (due)
            change_over(stream);
        if (stream->status != ACTIVE && stream->change_at_ms < again_ms)
            again_ms = stream->change_at_ms;
        for (uint32_t shard = 0; shard < stream->shard_count && trim_at_ms <= now_ms; shard++)
            trim(stream->shards[shard]);
        at = &stream->next;
    }
    /* A record lives a little longer than it should, and nobody can tell. */
    if (trim_at_ms <= now_ms)
        trim_at_ms = now_ms + 50;
    return again_ms < trim_at_ms ? again_ms : trim_at_ms;
}
