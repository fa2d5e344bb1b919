/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/sinks/document.h"

#include "base/codec.h"
#include "base/json_writer.h"

#include <assert.h>
#include <stdio.h>

/* ---- The document ---- */

/* As Lambda has it; an app that gives a record up itself has none there. */
static const char *condition_of(enum ks_cause cause)
{
    switch (cause) {
    case KS_CAUSE_ASKED: return "DeadLetterAsked";
    case KS_CAUSE_ATTEMPTS: return "RetryAttemptsExhausted";
    case KS_CAUSE_AGE: return "RecordAgeExceeded";
    }
    assert(false);
    return NULL;
}

static const char *cause_of(enum ks_cause cause)
{
    switch (cause) {
    case KS_CAUSE_ASKED: return "asked";
    case KS_CAUSE_ATTEMPTS: return "attempts";
    case KS_CAUSE_AGE: return "age";
    }
    assert(false);
    return NULL;
}

static void put_instant(struct ks_writer *json, const char *name, int64_t unix_ms)
{
    ks_writer_key(json, name);
    ks_writer_instant(json, unix_ms);
}

static void put_context(struct ks_writer *json, const struct ks_letter *letter)
{
    ks_writer_key(json, "requestContext");
    ks_writer_open(json, '{');
    ks_writer_pair(json, "requestId", letter->id);
    ks_writer_pair(json, "condition", ks_view_text(condition_of(letter->cause)));
    ks_writer_key(json, "approximateInvokeCount");
    ks_writer_u64(json, letter->attempts);
    ks_writer_close(json, '}');
}

/* A stream that is configured by its name has no ARN here. */
static void put_batch_info(struct ks_writer *json, const struct ks_letter *letter)
{
    ks_writer_key(json, "KinesisBatchInfo");
    ks_writer_open(json, '{');
    ks_writer_pair(json, "shardId", letter->shard_id);
    ks_writer_pair(json, "startSequenceNumber", letter->sequence);
    ks_writer_pair(json, "endSequenceNumber", letter->sequence);
    put_instant(json, "approximateArrivalOfFirstRecord", letter->arrival_ms);
    put_instant(json, "approximateArrivalOfLastRecord", letter->arrival_ms);
    ks_writer_key(json, "batchSize");
    ks_writer_u64(json, 1);
    if (ks_view_starts(letter->stream, KS_VIEW("arn:")))
        ks_writer_pair(json, "streamArn", letter->stream);
    ks_writer_close(json, '}');
}

static void put_letter(struct ks_writer *json, const struct ks_sink_letter *sent)
{
    const struct ks_letter *const letter = sent->letter;

    ks_writer_key(json, "deadLetter");
    ks_writer_open(json, '{');
    ks_writer_pair(json, "id", letter->id);
    ks_writer_pair(json, "application", ks_view_text(sent->application));
    ks_writer_pair(json, "stream", letter->stream);
    ks_writer_pair(json, "shard_id", letter->shard_id);
    ks_writer_pair(json, "sequence_number", letter->sequence);
    ks_writer_key(json, "sub_sequence_number");
    ks_writer_i64(json, letter->sub_sequence < 0 ? 0 : letter->sub_sequence);
    ks_writer_pair(json, "partition_key", letter->partition_key);
    put_instant(json, "approximate_arrival_timestamp", letter->arrival_ms);
    ks_writer_key(json, "attempts");
    ks_writer_u64(json, letter->attempts);
    ks_writer_pair(json, "cause", ks_view_text(cause_of(letter->cause)));
    ks_writer_pair(json, "reason", letter->reason);
    put_instant(json, "died_at", letter->died_ms);
    put_instant(json, "expires_at", letter->expires_ms);
    ks_writer_key(json, "in_stream");
    ks_writer_bool(json, sent->bare);
    ks_writer_key(json, "data_bytes");
    ks_writer_u64(json, sent->data_bytes);
    if (!sent->bare) {
        ks_writer_key(json, "data");
        ks_writer_base64(json, letter->data);
    }
    ks_writer_close(json, '}');
}

/* Appends `text` with U+FFFE and U+FFFF, which SQS refuses, as escapes of JSON: they stand only within its strings. */
static ks_err append_taken(struct ks_bytes *out, ks_view text)
{
    size_t begin = 0;

    for (size_t at = 0; at + 2 < text.size; at++) {
        if (text.data[at] != 0xef || text.data[at + 1] != 0xbf || text.data[at + 2] < 0xbe)
            continue;
        KS_TRY(ks_bytes_append(out, ks_view_of(text.data + begin, at - begin)));
        KS_TRY(ks_bytes_append(out, text.data[at + 2] == 0xbe ? KS_VIEW("\\ufffe")
                                                              : KS_VIEW("\\uffff")));
        at += 2;
        begin = at + 1;
    }
    return ks_bytes_append(out, ks_view_of(text.data + begin, text.size - begin));
}

ks_err ks_sink_document(struct ks_bytes *out, const struct ks_sink_letter *letter)
{
    struct ks_bytes plain;
    struct ks_writer json;
    ks_err err;

    assert(!letter->bare || letter->letter->data.size == 0);

    ks_bytes_init(&plain, KS_SINK_BARE_MAX + ks_base64_size(letter->letter->data.size));
    ks_writer_begin(&json, &plain);
    ks_writer_open(&json, '{');
    put_context(&json, letter->letter);
    ks_writer_pair(&json, "version", KS_VIEW("1.0"));
    put_instant(&json, "timestamp", letter->letter->died_ms);
    put_batch_info(&json, letter->letter);
    put_letter(&json, letter);
    ks_writer_close(&json, '}');
    err = ks_writer_end(&json);
    if (ks_ok(err))
        err = append_taken(out, ks_bytes_view(&plain));
    ks_bytes_free(&plain);
    return err;
}

/* ---- Attributes ---- */

static void add(struct ks_sink_attributes *attributes, const char *name, const char *type,
                ks_view value)
{
    assert(attributes->count < KS_SINK_ATTRIBUTES_MAX);

    if (value.size > 0)
        attributes->items[attributes->count++] = (struct ks_sink_attribute){name, type, value};
}

/* Copies the reason with '?' for each byte of what SQS does not take. */
static ks_view clean_reason(ks_view reason, uint8_t *copy)
{
    size_t size = 0;

    for (size_t at = 0; at < reason.size && size < KS_LETTER_REASON_MAX;) {
        const uint8_t *const from = reason.data + at;
        size_t bytes = ks_view_character(ks_view_of(from, reason.size - at));
        const bool control = *from < 0x20 && *from != '\t' && *from != '\n' && *from != '\r';
        const bool refused = bytes == 0 || control ||
                             (bytes == 3 && from[0] == 0xef && from[1] == 0xbf && from[2] >= 0xbe);

        if (bytes == 0)
            bytes = 1;
        if (size + bytes > KS_LETTER_REASON_MAX)
            break;
        if (refused)
            copy[size++] = '?';
        for (size_t byte = 0; !refused && byte < bytes; byte++)
            copy[size++] = from[byte];
        at += bytes;
    }
    return ks_view_of(copy, size);
}

void ks_sink_attributes(const struct ks_sink_letter *sent, struct ks_sink_attributes *ret)
{
    const struct ks_letter *const letter = sent->letter;

    ret->count = 0;
    (void)snprintf(ret->attempts, sizeof(ret->attempts), "%u", letter->attempts);
    add(ret, "dead_letter_id", "String", letter->id);
    add(ret, "application", "String", ks_view_text(sent->application));
    add(ret, "shard_id", "String", letter->shard_id);
    add(ret, "attempts", "Number", ks_view_text(ret->attempts));
    add(ret, "cause", "String", ks_view_text(cause_of(letter->cause)));
    add(ret, "reason", "String", clean_reason(letter->reason, ret->reason));
}

size_t ks_sink_attributes_size(const struct ks_sink_attributes *attributes)
{
    size_t size = 0;

    for (uint32_t at = 0; at < attributes->count; at++) {
        const struct ks_sink_attribute *const item = &attributes->items[at];
        size += strlen(item->name) + strlen(item->type) + item->value.size;
    }
    return size;
}

/* ---- FIFO ---- */

static void put_hash(ks_view text, char ret_hex[KS_SINK_HASH_SIZE])
{
    uint8_t digest[KS_SHA256_SIZE];

    ks_sha256(text, digest);
    ks_hex_encode(ks_view_of(digest, sizeof(digest)), ret_hex);
    ret_hex[KS_SINK_HASH_SIZE - 1] = '\0';
}

void ks_sink_group(ks_view partition_key, char ret_group[KS_SINK_ID_MAX + 1])
{
    bool allowed = partition_key.size > 0 && partition_key.size <= KS_SINK_ID_MAX;

    /* '!' to '~' are the letters, the digits and the 32 punctuation characters that are named. */
    for (size_t at = 0; at < partition_key.size && allowed; at++)
        allowed = partition_key.data[at] > ' ' && partition_key.data[at] < 0x7f;
    if (!allowed || !ks_ok(ks_view_copy_text(partition_key, ret_group, KS_SINK_ID_MAX + 1)))
        put_hash(partition_key, ret_group);
}

void ks_sink_deduplication(const struct ks_sink_letter *sent, char ret_id[KS_SINK_HASH_SIZE])
{
    char text[KS_LETTER_STREAM_MAX + KS_LETTER_ID_MAX + 1100];
    const struct ks_letter *const letter = sent->letter;
    const int size = snprintf(text, sizeof(text), "%s\n%.*s\n%.*s", sent->application,
                              (int)letter->stream.size, (const char *)letter->stream.data,
                              (int)letter->id.size, (const char *)letter->id.data);

    assert(size > 0 && (size_t)size < sizeof(text));
    put_hash(ks_view_text(text), ret_id);
}
