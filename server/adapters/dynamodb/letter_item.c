/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/dynamodb/letter_item.h"

#include "adapters/letter.h"
#include "base/codec.h"
#include "base/json_writer.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#define DIRECTORY "letters"

enum {
    EXPRESSION_MAX = 4096, /* Of DynamoDB itself. */
    NUMBER_SIZE = 24
};

/* 9999-12-31: no later instant has a text. */
static const int64_t UNIX_MS_MAX = INT64_C(253402300799999);

enum attribute {
    STREAM,
    SUB,
    KEY,
    ARRIVED,
    FIRST_DIED,
    DIED,
    ATTEMPTS,
    CAUSE,
    REASON,
    EXPIRES,
    DATA,
    CLAIM,
    CLAIMED_UNTIL,
    ATTRIBUTES
};

static const char *const names[ATTRIBUTES] = {
    [STREAM] = "stream",
    [SUB] = "sub",
    [KEY] = "key",
    [ARRIVED] = "arrived",
    [DIED] = "died",
    [FIRST_DIED] = "first_died",
    [ATTEMPTS] = "attempts",
    [CAUSE] = "cause",
    [REASON] = "reason",
    [EXPIRES] = "expires",
    [DATA] = "data",
    [CLAIM] = "claim",
    [CLAIMED_UNTIL] = "claimed_until",
};

static const char *const causes[KS_CAUSES] = {
    [KS_CAUSE_ASKED] = "asked", [KS_CAUSE_ATTEMPTS] = "attempts", [KS_CAUSE_AGE] = "age"};

/* ---- Places ---- */

ks_err ks_letter_place_of(ks_view id, const char *stream, struct ks_letter_place *ret_place)
{
    ks_view shard = id;
    ks_view sequence;
    ks_view sub;

    if (!ks_letter_cut_last(&shard, &sub) || !ks_letter_cut_last(&shard, &sequence) ||
        !ks_letter_is_number(sub, KS_LETTER_PLACE_MAX - KS_SEQUENCE_MAX - 1) ||
        !ks_letter_is_number(sequence, KS_SEQUENCE_MAX) || shard.size == 0 ||
        shard.size > KS_SHARD_ID_MAX || !ks_view_is_utf8(shard) ||
        (stream != NULL && strlen(stream) > KS_LETTER_STREAM_MAX))
        return KS_FAIL(INVALID);
    (void)snprintf(ret_place->shard, sizeof(ret_place->shard), "%s%s%.*s",
                   stream == NULL ? "" : stream, stream == NULL ? "" : "/", (int)shard.size,
                   (const char *)shard.data);
    (void)snprintf(ret_place->k, sizeof(ret_place->k), "%.*s.%.*s", (int)sequence.size,
                   (const char *)sequence.data, (int)sub.size, (const char *)sub.data);
    return KS_OK;
}

/* ---- Values ---- */

/* "name": {"S": "text"} */
static void put_s(struct ks_writer *json, const char *name, ks_view text)
{
    ks_writer_key(json, name);
    ks_writer_open(json, '{');
    ks_writer_pair(json, "S", text);
    ks_writer_close(json, '}');
}

static void put_b(struct ks_writer *json, const char *name, ks_view bytes)
{
    ks_writer_key(json, name);
    ks_writer_open(json, '{');
    ks_writer_key(json, "B");
    ks_writer_base64(json, bytes);
    ks_writer_close(json, '}');
}

static void put_text_or_bytes(struct ks_writer *json, const char *name, ks_view text)
{
    if (ks_view_is_utf8(text))
        put_s(json, name, text);
    else
        put_b(json, name, text);
}

static void put_n(struct ks_writer *json, const char *name, int64_t number)
{
    char text[NUMBER_SIZE];

    (void)snprintf(text, sizeof(text), "%" PRId64, number);
    ks_writer_key(json, name);
    ks_writer_open(json, '{');
    ks_writer_pair(json, "N", ks_view_text(text));
    ks_writer_close(json, '}');
}

static void put_value(struct ks_writer *json, const char *name, enum attribute attribute,
                      const struct ks_letter *letter)
{
    switch (attribute) {
    case STREAM: put_s(json, name, letter->stream); return;
    case SUB: put_n(json, name, letter->sub_sequence); return;
    case KEY: put_text_or_bytes(json, name, letter->partition_key); return;
    case ARRIVED: put_n(json, name, letter->arrival_ms); return;
    case FIRST_DIED:
    case DIED: put_n(json, name, letter->died_ms); return;
    case ATTEMPTS: put_n(json, name, letter->attempts); return;
    case CAUSE: put_s(json, name, ks_view_text(causes[letter->cause])); return;
    case REASON: put_text_or_bytes(json, name, letter->reason); return;
    case EXPIRES: put_n(json, name, letter->expires_ms / 1000); return;
    case DATA: put_b(json, name, letter->data); return;
    case CLAIM: put_s(json, name, letter->claim); return;
    case CLAIMED_UNTIL: put_n(json, name, letter->claimed_until_ms); return;
    case ATTRIBUTES: break;
    }
    assert(false);
}

/* ---- Requests ---- */

static void begin(struct ks_writer *json, struct ks_bytes *body, const char *table)
{
    ks_writer_begin_strict(json, body);
    ks_writer_open(json, '{');
    ks_writer_pair(json, "TableName", ks_view_text(table));
}

static ks_err end(struct ks_writer *json)
{
    ks_writer_close(json, '}');
    return ks_writer_end(json);
}

/* The partition of the shard's letters. */
static void put_partition(struct ks_writer *json, const char *name, const char *shard)
{
    char p[sizeof(DIRECTORY) + 1 + KS_LETTER_SHARD_MAX];

    (void)snprintf(p, sizeof(p), DIRECTORY "#%s", shard);
    put_s(json, name, ks_view_text(p));
}

static void put_key(struct ks_writer *json, const struct ks_letter_place *place)
{
    ks_writer_key(json, "Key");
    ks_writer_open(json, '{');
    put_partition(json, "p", place->shard);
    put_s(json, "k", ks_view_text(place->k));
    ks_writer_close(json, '}');
}

/* How an UpdateItem changes one attribute. */
enum change { LEAVE, SET, REMOVE };

static ks_err put_clause(struct ks_bytes *text, const enum change *changes, enum change clause)
{
    bool begun = false;

    for (int at = 0; at < ATTRIBUTES; at++) {
        if (changes[at] != clause)
            continue;
        KS_TRY(ks_bytes_format(text, "%s#%s",
                               begun           ? ", "
                               : clause == SET ? "SET "
                                               : " REMOVE ",
                               names[at]));
        begun = true;
        if (clause == SET && at == FIRST_DIED)
            KS_TRY(ks_bytes_format(text, " = if_not_exists(#%s, :%s)", names[at], names[at]));
        else if (clause == SET)
            KS_TRY(ks_bytes_format(text, " = :%s", names[at]));
    }
    return KS_OK;
}

static void put_names(struct ks_writer *json, const enum change *changes)
{
    char name[32];

    ks_writer_key(json, "ExpressionAttributeNames");
    ks_writer_open(json, '{');
    for (int at = 0; at < ATTRIBUTES; at++) {
        /* The condition is about the attempts, or about when it expires. */
        if (changes[at] == LEAVE && at != ATTEMPTS)
            continue;
        (void)snprintf(name, sizeof(name), "#%s", names[at]);
        ks_writer_pair(json, name, ks_view_text(names[at]));
    }
    ks_writer_close(json, '}');
}

/* UpdateItem. */
static ks_err put_update(struct ks_bytes *body, const char *table,
                         const struct ks_letter_place *place, const struct ks_letter *letter,
                         const enum change *changes, const char *condition)
{
    struct ks_writer json;
    struct ks_bytes update;
    char name[32];
    ks_err err;

    ks_bytes_init(&update, EXPRESSION_MAX);
    begin(&json, body, table);
    put_key(&json, place);
    err = put_clause(&update, changes, SET);
    if (ks_ok(err))
        err = put_clause(&update, changes, REMOVE);
    ks_writer_pair(&json, "UpdateExpression", ks_bytes_view(&update));
    ks_bytes_free(&update);
    ks_writer_pair(&json, "ConditionExpression", ks_view_text(condition));
    put_names(&json, changes);
    ks_writer_key(&json, "ExpressionAttributeValues");
    ks_writer_open(&json, '{');
    for (int at = 0; at < ATTRIBUTES; at++) {
        (void)snprintf(name, sizeof(name), ":%s", names[at]);
        if (changes[at] == SET || (at == CLAIM && letter->claim.size > 0) ||
            (at == ATTEMPTS && changes[CLAIM] == SET))
            put_value(&json, name, (enum attribute)at, letter);
    }
    if (changes[CLAIM] == SET)
        put_n(&json, ":now", letter->claimed_until_ms - KS_LETTER_CLAIM_MS);
    ks_writer_close(&json, '}');
    KS_TRY(err);
    return end(&json);
}

static const char is_there[] = "attribute_exists(#attempts)";
static const char is_claimed[] = "#claim = :claim";

ks_err ks_letter_put_write(struct ks_bytes *body, const char *table,
                           const struct ks_letter_place *place, const struct ks_letter *letter)
{
    enum change changes[ATTRIBUTES] = {
        [STREAM] = SET,   [KEY] = SET,        [ARRIVED] = SET,
        [DIED] = SET,     [FIRST_DIED] = SET, [CAUSE] = SET,
        [ATTEMPTS] = SET, [CLAIM] = REMOVE,   [CLAIMED_UNTIL] = REMOVE,
    };

    changes[SUB] = letter->sub_sequence < 0 ? REMOVE : SET;
    changes[REASON] = letter->reason.size == 0 ? REMOVE : SET;
    changes[EXPIRES] = letter->expires_ms <= 0 ? LEAVE : SET;
    return put_update(body, table, place, letter, changes,
                      "attribute_not_exists(#attempts) OR #attempts <= :attempts");
}

ks_err ks_letter_put_claim(struct ks_bytes *body, const char *table,
                           const struct ks_letter_place *place, const struct ks_letter *letter,
                           int64_t now_ms)
{
    const enum change changes[ATTRIBUTES] = {[CLAIM] = SET, [CLAIMED_UNTIL] = SET};
    const struct ks_letter claimed = {.attempts = letter->attempts,
                                      .claim = letter->claim,
                                      .claimed_until_ms = now_ms + KS_LETTER_CLAIM_MS};

    return put_update(body, table, place, &claimed, changes,
                      "#attempts = :attempts AND (attribute_not_exists(#claim) OR "
                      "#claim = :claim OR #claimed_until < :now)");
}

ks_err ks_letter_put_amend(struct ks_bytes *body, const char *table,
                           const struct ks_letter_place *place, const struct ks_letter *letter)
{
    enum change changes[ATTRIBUTES] = {
        [DIED] = SET, [CAUSE] = SET, [ATTEMPTS] = SET, [CLAIM] = REMOVE, [CLAIMED_UNTIL] = REMOVE};

    changes[REASON] = letter->reason.size == 0 ? REMOVE : SET;
    return put_update(body, table, place, letter, changes,
                      letter->claim.size == 0 ? is_there : is_claimed);
}

ks_err ks_letter_put_keep(struct ks_bytes *body, const char *table,
                          const struct ks_letter_place *place, const struct ks_letter *letter)
{
    const enum change changes[ATTRIBUTES] = {[DATA] = SET, [EXPIRES] = REMOVE};

    return put_update(body, table, place, letter, changes, is_there);
}

ks_err ks_letter_put_remove(struct ks_bytes *body, const char *table,
                            const struct ks_letter_place *place, ks_view claim)
{
    struct ks_writer json;

    begin(&json, body, table);
    put_key(&json, place);
    if (claim.size == 0) {
        /* Also what others damaged. */
        ks_writer_pair(&json, "ConditionExpression", KS_VIEW("attribute_exists(k)"));
        return end(&json);
    }
    ks_writer_pair(&json, "ConditionExpression", ks_view_text(is_claimed));
    ks_writer_key(&json, "ExpressionAttributeNames");
    ks_writer_open(&json, '{');
    ks_writer_pair(&json, "#claim", ks_view_text(names[CLAIM]));
    ks_writer_close(&json, '}');
    ks_writer_key(&json, "ExpressionAttributeValues");
    ks_writer_open(&json, '{');
    put_s(&json, ":claim", claim);
    ks_writer_close(&json, '}');
    return end(&json);
}

ks_err ks_letter_put_find(struct ks_bytes *body, const char *table,
                          const struct ks_letter_place *place)
{
    struct ks_writer json;

    begin(&json, body, table);
    put_key(&json, place);
    ks_writer_key(&json, "ConsistentRead");
    ks_writer_bool(&json, true);
    return end(&json);
}

/* The members that both Queries have. They read one partition, only keys greater than `k` unless that is empty. */
static void put_query(struct ks_writer *json, const char *k, uint32_t most)
{
    ks_writer_pair(json, "KeyConditionExpression",
                   k[0] == '\0' ? KS_VIEW("p = :p") : KS_VIEW("p = :p AND k > :k"));
    ks_writer_key(json, "ConsistentRead");
    ks_writer_bool(json, true);
    ks_writer_key(json, "Limit");
    ks_writer_u64(json, most);
    ks_writer_key(json, "ExpressionAttributeValues");
    ks_writer_open(json, '{');
    if (k[0] != '\0')
        put_s(json, ":k", ks_view_text(k));
}

ks_err ks_letter_put_list(struct ks_bytes *body, const char *table,
                          const struct ks_letter_place *place, uint32_t most)
{
    struct ks_writer json;

    begin(&json, body, table);
    put_query(&json, place->k, most);
    put_partition(&json, ":p", place->shard);
    ks_writer_close(&json, '}');
    return end(&json);
}

ks_err ks_letter_put_next_shard(struct ks_bytes *body, const char *table, const char *shard)
{
    struct ks_writer json;

    begin(&json, body, table);
    put_query(&json, shard, 1);
    put_s(&json, ":p", KS_VIEW(DIRECTORY));
    ks_writer_close(&json, '}');
    return end(&json);
}

/* The shard stands in an attribute, too: an update has to set something. Without `expires` it is there for good. */
static void put_note(struct ks_writer *json, const char *shard, int64_t expires_s)
{
    const bool expires = expires_s != 0;

    ks_writer_pair(json, "UpdateExpression",
                   expires ? KS_VIEW("SET #shard = :shard, #expires = :expires")
                           : KS_VIEW("SET #shard = :shard REMOVE #expires"));
    ks_writer_pair(json, "ConditionExpression",
                   expires ? KS_VIEW("attribute_not_exists(#shard) OR #expires < :expires")
                           : KS_VIEW("attribute_not_exists(#shard) OR attribute_exists(#expires)"));
    ks_writer_key(json, "ExpressionAttributeNames");
    ks_writer_open(json, '{');
    ks_writer_pair(json, "#shard", KS_VIEW("shard"));
    ks_writer_pair(json, "#expires", KS_VIEW("expires"));
    ks_writer_close(json, '}');
    ks_writer_key(json, "ExpressionAttributeValues");
    ks_writer_open(json, '{');
    put_s(json, ":shard", ks_view_text(shard));
    if (expires)
        put_n(json, ":expires", expires_s);
    ks_writer_close(json, '}');
}

ks_err ks_letter_put_note(struct ks_bytes *body, const char *table, const char *shard,
                          int64_t expires_s)
{
    struct ks_writer json;

    begin(&json, body, table);
    ks_writer_key(&json, "Key");
    ks_writer_open(&json, '{');
    put_s(&json, "p", KS_VIEW(DIRECTORY));
    put_s(&json, "k", ks_view_text(shard));
    ks_writer_close(&json, '}');
    put_note(&json, shard, expires_s);
    return end(&json);
}

/* ---- Items ---- */

static const struct ks_json *member(const struct ks_json *item, enum attribute attribute,
                                    const char *type)
{
    return ks_json_member(ks_json_member(item, names[attribute]), type);
}

/* Whatever stands there. */
static bool is_there_at_all(const struct ks_json *item, enum attribute attribute)
{
    return ks_json_member(item, names[attribute]) != NULL;
}

static ks_view text_of(const struct ks_json *item, enum attribute attribute)
{
    ks_view text = KS_VIEW("");

    if (!ks_ok(ks_json_text(member(item, attribute, "S"), &text)))
        return KS_VIEW("");
    return text;
}

/* A number that cannot be becomes the nearest that can; where there is none, `otherwise`. */
static int64_t number_of(const struct ks_json *item, enum attribute attribute, int64_t most,
                         int64_t otherwise)
{
    ks_view text;
    int64_t number;

    if (!ks_ok(ks_json_text(member(item, attribute, "N"), &text)) ||
        !ks_ok(ks_view_i64(text, &number)))
        return otherwise;
    return number < 0 ? 0 : number > most ? most : number;
}

/* Appends the decoded bytes of a B to `bytes`, which has room for them. False: the text is not base64. */
static bool decode(const struct ks_json *value, struct ks_bytes *bytes, ks_view *ret_view)
{
    ks_view text = KS_VIEW("");
    size_t size = 0;

    if (!ks_ok(ks_json_text(value, &text)) ||
        !ks_ok(ks_bytes_reserve(bytes, ks_base64_decoded_max(text.size) + 32)) ||
        !ks_ok(ks_base64_decode(text, bytes->data + bytes->size, &size)))
        return false;
    *ret_view = ks_view_of(bytes->data + bytes->size, size);
    bytes->size += size;
    return true;
}

/* S or B. Without the attribute it is empty. False: it is something else. */
static bool read_bytes(const struct ks_json *item, enum attribute attribute, struct ks_bytes *bytes,
                       ks_view *ret_view)
{
    const struct ks_json *const binary = member(item, attribute, "B");

    *ret_view = KS_VIEW("");
    if (!is_there_at_all(item, attribute))
        return true;
    if (binary != NULL)
        return decode(binary, bytes, ret_view);
    return ks_ok(ks_json_text(member(item, attribute, "S"), ret_view));
}

size_t ks_letter_item_bytes(const struct ks_json *item)
{
    static const enum attribute binaries[] = {KEY, REASON, DATA};
    size_t size = KS_LETTER_ID_MAX;

    for (size_t at = 0; at < sizeof(binaries) / sizeof(binaries[0]); at++) {
        ks_view text = KS_VIEW("");

        if (ks_ok(ks_json_text(member(item, binaries[at], "B"), &text)))
            size += ks_base64_decoded_max(text.size) + 32;
    }
    return size;
}

static enum ks_cause cause_of(ks_view word)
{
    for (int at = 0; at < KS_CAUSES; at++)
        if (ks_view_equal(word, ks_view_text(causes[at])))
            return (enum ks_cause)at;
    return KS_CAUSE_ASKED;
}

static bool skip(ks_view *text, const char *prefix)
{
    const size_t size = strlen(prefix);

    if (!ks_view_starts(*text, ks_view_text(prefix)))
        return false;
    *text = ks_view_of(text->data + size, text->size - size);
    return true;
}

/* The id out of the key, behind those of `bytes`, and the parts of it. False: it is the key of no letter of ours. */
static bool read_key(const struct ks_json *item, const char *stream, struct ks_bytes *bytes,
                     struct ks_letter *letter)
{
    struct ks_letter_place place;
    ks_view sub;
    ks_view p;
    ks_view k;

    if (!ks_ok(ks_json_text(ks_json_member(ks_json_member(item, "p"), "S"), &p)) ||
        !ks_ok(ks_json_text(ks_json_member(ks_json_member(item, "k"), "S"), &k)) ||
        !skip(&p, DIRECTORY "#") || (stream != NULL && (!skip(&p, stream) || !skip(&p, "/"))) ||
        p.size > KS_SHARD_ID_MAX || k.size > KS_LETTER_PLACE_MAX ||
        !ks_ok(ks_bytes_format(bytes, "%.*s.%.*s", (int)p.size, (const char *)p.data, (int)k.size,
                               (const char *)k.data)))
        return false;
    letter->id = ks_view_of(bytes->data + bytes->size - p.size - 1 - k.size, p.size + 1 + k.size);
    letter->shard_id = p;
    letter->sequence = k;
    return ks_ok(ks_letter_place_of(letter->id, stream, &place)) &&
           ks_letter_cut_last(&letter->sequence, &sub);
}

const char *ks_letter_read(const struct ks_json *item, const char *stream, struct ks_bytes *bytes,
                           struct ks_letter *ret_letter)
{
    const char *damage = NULL;
    const char *unclean;

    *ret_letter = (struct ks_letter){
        .stream = text_of(item, STREAM),
        .sub_sequence = number_of(item, SUB, UINT32_MAX, -1),
        .arrival_ms = number_of(item, ARRIVED, UNIX_MS_MAX, 0),
        .died_ms = number_of(item, DIED, UNIX_MS_MAX, 0),
        .first_died_ms = number_of(item, FIRST_DIED, UNIX_MS_MAX, 0),
        .expires_ms = number_of(item, EXPIRES, UNIX_MS_MAX / 1000, 0) * 1000,
        .claim = text_of(item, CLAIM),
        .claimed_until_ms = number_of(item, CLAIMED_UNTIL, UNIX_MS_MAX, 0),
        .attempts = (uint32_t)number_of(item, ATTEMPTS, INT32_MAX, 0),
        .cause = cause_of(text_of(item, CAUSE)),
        .pointer = !is_there_at_all(item, DATA),
    };
    if (!read_key(item, stream, bytes, ret_letter)) {
        ret_letter->id = ret_letter->shard_id = ret_letter->sequence = KS_VIEW("");
        return "k";
    }
    if (!read_bytes(item, KEY, bytes, &ret_letter->partition_key))
        damage = "key";
    if (!read_bytes(item, REASON, bytes, &ret_letter->reason))
        damage = "reason";
    if (!ret_letter->pointer &&
        (member(item, DATA, "B") == NULL || !read_bytes(item, DATA, bytes, &ret_letter->data)))
        damage = "data";
    unclean = ks_letter_clean(ret_letter);
    return damage != NULL ? damage : unclean;
}

ks_err ks_letter_read_shard(const struct ks_json *item, char ret_shard[KS_LETTER_SHARD_MAX + 1])
{
    ks_view shard;

    KS_TRY(ks_json_text(ks_json_member(ks_json_member(item, "k"), "S"), &shard));
    if (shard.size == 0)
        return KS_FAIL(MALFORMED);
    return ks_view_copy_text(shard, ret_shard, KS_LETTER_SHARD_MAX + 1);
}
