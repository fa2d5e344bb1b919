/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/s3/letter_object.h"

#include "adapters/letter.h"
#include "base/codec.h"
#include "base/json_writer.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

enum { SEQUENCE_DIGITS = 56, SUB_DIGITS = 10 };

/* 9999-12-31: no later instant has a text. */
static const int64_t UNIX_MS_MAX = INT64_C(253402300799999);

static const char *const causes[KS_CAUSES] = {
    [KS_CAUSE_ASKED] = "asked", [KS_CAUSE_ATTEMPTS] = "attempts", [KS_CAUSE_AGE] = "age"};

/* ---- Ids and keys ---- */

struct parts {
    ks_view shard;
    ks_view sequence;
    ks_view sub;
};

/* A first dot would make it a step of a path. */
static bool is_shard(ks_view text)
{
    for (size_t at = 0; at < text.size; at++) {
        const uint8_t c = text.data[at];
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');

        if (!letter && !(c >= '0' && c <= '9') && c != '.' && c != '_' && c != '-')
            return false;
    }
    return text.size > 0 && text.size <= KS_SHARD_ID_MAX && text.data[0] != '.';
}

static ks_err split_id(ks_view id, struct parts *ret_parts)
{
    struct parts parts = {.shard = id};

    if (!ks_letter_cut_last(&parts.shard, &parts.sub) ||
        !ks_letter_cut_last(&parts.shard, &parts.sequence) ||
        !ks_letter_is_number(parts.sub, SUB_DIGITS) ||
        !ks_letter_is_number(parts.sequence, KS_SEQUENCE_MAX) || !is_shard(parts.shard))
        return KS_FAIL(INVALID);
    *ret_parts = parts;
    return KS_OK;
}

ks_err ks_letter_key_put(const char *folder, ks_view id, char ret_key[KS_S3_KEY_MAX + 1])
{
    static const char zeros[KS_SEQUENCE_MAX + 1] =
        "00000000000000000000000000000000000000000000000000000000000000000"
        "0000000000000000000000000000000000000000000000000000000000000000";
    struct parts parts;

    KS_TRY(split_id(id, &parts));
    const bool wide = parts.sequence.size > SEQUENCE_DIGITS;
    const size_t digits = wide ? KS_SEQUENCE_MAX : SEQUENCE_DIGITS;
    const int size =
        snprintf(ret_key, KS_S3_KEY_MAX + 1, "%s%.*s/%s%.*s%.*s.%.*s%.*s.json", folder,
                 (int)parts.shard.size, (const char *)parts.shard.data, wide ? "~" : "",
                 (int)(digits - parts.sequence.size), zeros, (int)parts.sequence.size,
                 (const char *)parts.sequence.data, (int)(SUB_DIGITS - parts.sub.size), zeros,
                 (int)parts.sub.size, (const char *)parts.sub.data);

    return size <= KS_S3_KEY_MAX ? KS_OK : KS_FAIL(INVALID);
}

static ks_view without_zeros(ks_view number)
{
    while (number.size > 1 && number.data[0] == '0')
        number = ks_view_of(number.data + 1, number.size - 1);
    return number;
}

ks_err ks_letter_key_read(const char *folder, const char *key, char ret_id[KS_LETTER_ID_MAX + 1])
{
    char again[KS_S3_KEY_MAX + 1];
    const size_t skipped = strlen(folder);
    ks_view sub;
    ks_view json;

    if (strncmp(key, folder, skipped) != 0)
        return KS_FAIL(INVALID);
    ks_view sequence = ks_view_text(key + skipped);
    const ks_view shard = ks_view_cut(&sequence, '/');
    if (sequence.data == NULL || !ks_letter_cut_last(&sequence, &json) ||
        !ks_letter_cut_last(&sequence, &sub))
        return KS_FAIL(INVALID);
    if (ks_view_starts(sequence, KS_VIEW("~")))
        sequence = ks_view_of(sequence.data + 1, sequence.size - 1);
    sequence = without_zeros(sequence);
    sub = without_zeros(sub);
    const int size = snprintf(ret_id, KS_LETTER_ID_MAX + 1, "%.*s.%.*s.%.*s", (int)shard.size,
                              (const char *)shard.data, (int)sequence.size,
                              (const char *)sequence.data, (int)sub.size, (const char *)sub.data);
    if (size > KS_LETTER_ID_MAX)
        return KS_FAIL(INVALID);
    /* Each letter has one key: this one, or it is not ours. */
    KS_TRY(ks_letter_key_put(folder, ks_view_text(ret_id), again));
    return strcmp(key, again) == 0 ? KS_OK : KS_FAIL(INVALID);
}

/* ---- Writing ---- */

static void put_text_or_bytes(struct ks_writer *json, const char *name, const char *base64_name,
                              ks_view text)
{
    if (ks_view_is_utf8(text)) {
        ks_writer_pair(json, name, text);
        return;
    }
    ks_writer_key(json, base64_name);
    ks_writer_base64(json, text);
}

static void put_instant(struct ks_writer *json, const char *name, int64_t unix_ms)
{
    ks_writer_key(json, name);
    ks_writer_instant(json, unix_ms);
}

ks_err ks_letter_object_put(struct ks_bytes *body, const struct ks_letter *letter)
{
    struct ks_writer json;

    ks_writer_begin(&json, body);
    ks_writer_open(&json, '{');
    ks_writer_pair(&json, "id", letter->id);
    ks_writer_pair(&json, "stream", letter->stream);
    ks_writer_pair(&json, "shard_id", letter->shard_id);
    ks_writer_pair(&json, "sequence_number", letter->sequence);
    if (letter->sub_sequence >= 0) {
        ks_writer_key(&json, "sub_sequence_number");
        ks_writer_i64(&json, letter->sub_sequence);
    }
    put_text_or_bytes(&json, "partition_key", "partition_key_base64", letter->partition_key);
    put_instant(&json, "approximate_arrival_timestamp", letter->arrival_ms);
    put_instant(&json, "first_died_at", letter->first_died_ms);
    put_instant(&json, "died_at", letter->died_ms);
    ks_writer_key(&json, "attempts");
    ks_writer_u64(&json, letter->attempts);
    ks_writer_pair(&json, "cause", ks_view_text(causes[letter->cause]));
    put_text_or_bytes(&json, "reason", "reason_base64", letter->reason);
    if (letter->claim.size > 0) {
        ks_writer_pair(&json, "claim", letter->claim);
        put_instant(&json, "claimed_until", letter->claimed_until_ms);
    }
    ks_writer_key(&json, "data");
    ks_writer_base64(&json, letter->data);
    ks_writer_close(&json, '}');
    KS_TRY(ks_writer_end(&json));
    return ks_bytes_append_byte(body, '\n');
}

/* ---- Reading ---- */

/* Where an object is read. */
struct reading {
    struct ks_bytes *bytes; /* With room for all that is appended. */
    struct ks_letter_object *object;
};

/* The first of them is what people are told. */
static void damaged(struct reading *reading, const char *member)
{
    if (reading->object->damage == NULL)
        reading->object->damage = member;
}

static bool is_base64(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '+' ||
           c == '/' || c == '=';
}

/* Takes `end` off the end of `text`, and white space around it. */
static bool cut_end(ks_view *text, const char *end)
{
    const size_t size = strlen(end);
    ks_view rest = *text;

    while (rest.size > 0 && strchr(" \t\r\n", rest.data[rest.size - 1]) != NULL &&
           rest.data[rest.size - 1] != '\0')
        rest.size--;
    if (rest.size < size || memcmp(rest.data + rest.size - size, end, size) != 0)
        return false;
    rest.size -= size;
    *text = rest;
    return true;
}

/* Cuts the last member, `"data":"BASE64"`, and the bracket off the object. It is found from its end: no character of
 * base64 ends a text or is escaped in one. The data is not for a parser that builds trees. */
static bool cut_data(ks_view *text, ks_view *ret_data)
{
    ks_view rest = *text;
    size_t size = 0;

    if (!cut_end(&rest, "}") || !cut_end(&rest, "\""))
        return false;
    while (size < rest.size && is_base64(rest.data[rest.size - size - 1]))
        size++;
    *ret_data = ks_view_of(rest.data + rest.size - size, size);
    rest.size -= size;
    if (rest.size == 0 || rest.data[rest.size - 1] != '"')
        return false;
    rest.size--;
    if (!cut_end(&rest, ":") || !cut_end(&rest, "\"data\"") || !cut_end(&rest, ","))
        return false;
    *text = rest;
    return true;
}

/* The decoded bytes; empty if it is no base64. */
static ks_view decode(struct reading *reading, const char *member, ks_view text)
{
    struct ks_bytes *const bytes = reading->bytes;
    uint8_t *const at = bytes->data + bytes->size;
    size_t size = 0;

    assert(bytes->capacity - bytes->size >= ks_base64_decoded_max(text.size) + 32);

    if (!ks_ok(ks_base64_decode(text, at, &size))) {
        damaged(reading, member);
        return KS_VIEW("");
    }
    bytes->size += size;
    return ks_view_of(at, size);
}

static ks_view read_text(struct reading *reading, const char *member)
{
    ks_view text = KS_VIEW("");

    if (!ks_ok(ks_json_text(ks_json_member(reading->object->head, member), &text)))
        damaged(reading, member);
    return text;
}

/* Without the member it is empty. */
static ks_view read_claim(struct reading *reading)
{
    if (ks_json_member(reading->object->head, "claim") == NULL)
        return KS_VIEW("");
    return read_text(reading, "claim");
}

static ks_view read_text_or_bytes(struct reading *reading, const char *name,
                                  const char *base64_name)
{
    ks_view text;

    if (ks_ok(ks_json_text(ks_json_member(reading->object->head, base64_name), &text)))
        return decode(reading, base64_name, text);
    return read_text(reading, name);
}

static int64_t read_instant(struct reading *reading, const char *member)
{
    const struct ks_json *const value = ks_json_member(reading->object->head, member);
    int64_t unix_ms = 0;
    ks_view text;

    if (value == NULL)
        return 0;
    if (!ks_ok(ks_json_text(value, &text)) || !ks_ok(ks_timestamp_parse(text, &unix_ms)) ||
        unix_ms < 0 || unix_ms > UNIX_MS_MAX) {
        damaged(reading, member);
        return 0;
    }
    return unix_ms;
}

static uint32_t read_attempts(struct reading *reading)
{
    uint64_t attempts = 0;

    if (!ks_ok(ks_json_u64(ks_json_member(reading->object->head, "attempts"), &attempts)) ||
        attempts > INT32_MAX) {
        damaged(reading, "attempts");
        return 0;
    }
    return (uint32_t)attempts;
}

static enum ks_cause read_cause(struct reading *reading)
{
    const ks_view word = read_text(reading, "cause");

    for (int cause = 0; cause < KS_CAUSES; cause++)
        if (ks_view_equal(word, ks_view_text(causes[cause])))
            return (enum ks_cause)cause;
    damaged(reading, "cause");
    return KS_CAUSE_ASKED;
}

/* The key says it; the object, whether the record was the part of an aggregate. */
static int64_t read_sub(struct reading *reading, ks_view sub)
{
    const struct ks_json *const value =
        ks_json_member(reading->object->head, "sub_sequence_number");
    int64_t of_key = 0;
    int64_t said = -1;

    if (!ks_ok(ks_view_i64(sub, &of_key)))
        return -1; /* A key has 10 digits. */
    if (value == NULL && of_key == 0)
        return -1;
    if (!ks_ok(ks_json_i64(value, &said)) || said != of_key)
        damaged(reading, "sub_sequence_number");
    return of_key > UINT32_MAX ? UINT32_MAX : of_key;
}

static void read_members(struct reading *reading, const struct parts *parts, ks_view data)
{
    struct ks_letter *const letter = &reading->object->letter;

    if (!ks_view_equal(read_text(reading, "id"), letter->id))
        damaged(reading, "id");
    letter->stream = read_text(reading, "stream");
    letter->sub_sequence = read_sub(reading, parts->sub);
    letter->partition_key = read_text_or_bytes(reading, "partition_key", "partition_key_base64");
    letter->reason = read_text_or_bytes(reading, "reason", "reason_base64");
    letter->claim = read_claim(reading);
    letter->claimed_until_ms = read_instant(reading, "claimed_until");
    letter->arrival_ms = read_instant(reading, "approximate_arrival_timestamp");
    letter->first_died_ms = read_instant(reading, "first_died_at");
    letter->died_ms = read_instant(reading, "died_at");
    letter->attempts = read_attempts(reading);
    letter->cause = read_cause(reading);
    letter->data = decode(reading, "data", data);
}

/* The head as an object of its own: what precedes the data, and a bracket. NULL: it is none. */
static ks_err parse_head(ks_view text, struct ks_bytes *bytes, struct ks_json **ret_head)
{
    ks_err err;

    *ret_head = NULL;
    if (text.size > KS_LETTER_OBJECT_HEAD_MAX)
        return KS_OK;
    KS_TRY(ks_bytes_append(bytes, text));
    KS_TRY(ks_bytes_append_byte(bytes, '}'));
    err = ks_json_parse(ks_bytes_view(bytes), ret_head);
    ks_bytes_clear(bytes);
    return ks_err_is(err, KS_ERR_NO_MEMORY) ? err : KS_OK;
}

ks_err ks_letter_object_read(ks_view text, ks_view id, struct ks_bytes *bytes,
                             struct ks_letter_object *ret_object)
{
    struct reading reading = {.bytes = bytes, .object = ret_object};
    struct parts parts;
    ks_view data = KS_VIEW("");
    const char *unclean;

    *ret_object = (struct ks_letter_object){.letter = {.id = id, .sub_sequence = -1}};
    KS_TRY(split_id(id, &parts));
    ret_object->letter.shard_id = parts.shard;
    ret_object->letter.sequence = parts.sequence;
    ks_bytes_clear(bytes);
    /* Of what is base64, each text may touch 32 bytes more. */
    KS_TRY(ks_bytes_reserve(bytes, text.size + 3 * 64));
    if (cut_data(&text, &data))
        KS_TRY(parse_head(text, bytes, &ret_object->head));
    if (!ks_json_is_object(ret_object->head))
        damaged(&reading, "JSON");
    else
        read_members(&reading, &parts, data);
    unclean = ks_letter_clean(&ret_object->letter);
    if (unclean != NULL)
        damaged(&reading, unclean);
    return KS_OK;
}

void ks_letter_object_free(struct ks_letter_object *object)
{
    ks_json_free(object->head);
    object->head = NULL;
}
