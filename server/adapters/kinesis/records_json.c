/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/kinesis/records.h"

#include "adapters/kinesis/builder.h"
#include "base/codec.h"

/* Bytes behind `at` were read; nothing is read beyond the view. */
struct scan {
    ks_view text;
    size_t at;
};

/* A string between its quotes, as it is written. */
struct raw {
    ks_view text;
    bool escaped; /* Holds a backslash. */
};

/* The next byte behind white space, or -1 at the end. */
static int peek(struct scan *scan)
{
    while (scan->at < scan->text.size) {
        uint8_t byte = scan->text.data[scan->at];

        if (byte != ' ' && byte != '\n' && byte != '\r' && byte != '\t')
            return byte;
        scan->at++;
    }
    return -1;
}

static bool take_if(struct scan *scan, int byte)
{
    if (peek(scan) != byte)
        return false;
    scan->at++;
    return true;
}

static ks_err take(struct scan *scan, int byte)
{
    return take_if(scan, byte) ? KS_OK : KS_FAIL(MALFORMED);
}

/* Where `byte` stands in [from, to); `to` if nowhere. */
static size_t find(const struct scan *scan, size_t from, size_t to, int byte)
{
    const uint8_t *found = memchr(scan->text.data + from, byte, to - from);

    return found == NULL ? to : (size_t)(found - scan->text.data);
}

static ks_err take_string(struct scan *scan, struct raw *ret_raw)
{
    struct raw raw = {.escaped = false};
    size_t size = scan->text.size;

    KS_TRY(take(scan, '"'));
    size_t begin = scan->at;
    size_t at = begin;
    size_t quote = find(scan, at, size, '"');
    for (;;) {
        if (quote == size)
            return KS_FAIL(MALFORMED);
        size_t slash = find(scan, at, quote, '\\');
        if (slash == quote)
            break;
        raw.escaped = true;
        /* Behind the escaped byte; only an escaped quote makes us look for another one. */
        at = slash + 2;
        if (at > size)
            return KS_FAIL(MALFORMED);
        if (at > quote)
            quote = find(scan, at, size, '"');
    }
    raw.text = ks_view_of(scan->text.data + begin, quote - begin);
    scan->at = quote + 1;
    *ret_raw = raw;
    return KS_OK;
}

/* A number or a word: true, false, null. */
static ks_view take_word(struct scan *scan)
{
    size_t begin = scan->at;

    while (scan->at < scan->text.size) {
        uint8_t byte = scan->text.data[scan->at];
        bool part = (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'z') ||
                    (byte >= 'A' && byte <= 'Z') || byte == '-' || byte == '+' || byte == '.';
        if (!part)
            break;
        scan->at++;
    }
    return ks_view_of(scan->text.data + begin, scan->at - begin);
}

/* Takes `null` if it stands here. */
static bool take_null(struct scan *scan)
{
    size_t was = scan->at;

    if (peek(scan) != 'n')
        return false;
    if (ks_view_equal(take_word(scan), KS_VIEW("null")))
        return true;
    scan->at = was;
    return false;
}

static ks_err skip_value(struct scan *scan)
{
    struct raw raw;
    uint32_t depth = 0;

    do {
        int byte = peek(scan);

        if (byte == '"') {
            KS_TRY(take_string(scan, &raw));
        } else if (byte == '{' || byte == '[') {
            if (++depth > KS_RECORDS_DEPTH_MAX)
                return KS_FAIL(MALFORMED);
            scan->at++;
        } else if (depth > 0 && (byte == '}' || byte == ']')) {
            depth--;
            scan->at++;
        } else if (depth > 0 && (byte == ',' || byte == ':')) {
            scan->at++;
        } else if (take_word(scan).size == 0) {
            return KS_FAIL(MALFORMED);
        }
    } while (depth > 0);
    return KS_OK;
}

/* Behind an opening bracket or an item: true if one more item follows, else the closing bracket was taken. */
static ks_err more(struct scan *scan, int closing, bool first, bool *ret_more)
{
    *ret_more = !take_if(scan, closing);
    if (*ret_more && !first)
        KS_TRY(take(scan, ','));
    return KS_OK;
}

/* Has each item of an array taken by `item`. */
static ks_err take_array(struct scan *scan, ks_err (*item)(struct scan *scan, void *into),
                         void *into)
{
    bool another = true;

    KS_TRY(take(scan, '['));
    for (bool first = true;; first = false) {
        KS_TRY(more(scan, ']', first, &another));
        if (!another)
            return KS_OK;
        KS_TRY(item(scan, into));
    }
}

/* Has the value of each member of an object taken by `member`; members that are null are passed over. */
static ks_err take_object(struct scan *scan,
                          ks_err (*member)(struct scan *scan, ks_view name, void *into), void *into)
{
    bool another = true;
    struct raw name;

    KS_TRY(take(scan, '{'));
    for (bool first = true;; first = false) {
        KS_TRY(more(scan, '}', first, &another));
        if (!another)
            return KS_OK;
        KS_TRY(take_string(scan, &name));
        KS_TRY(take(scan, ':'));
        if (!take_null(scan))
            KS_TRY(member(scan, name.text, into));
    }
}

/* --- Values --- */

/* A decimal number times 10^`shift`, rounded to an integer: 1795223827.896 or 1.795E9. */
static ks_err scaled(ks_view word, int32_t shift, int64_t *ret_value)
{
    uint64_t digits = 0;
    int32_t point = 0; /* Digits that were taken behind the decimal point. */
    bool fraction = false;
    int64_t exponent = 0;
    size_t at = 0;
    bool negative = word.size > 0 && word.data[0] == '-';

    if (negative)
        at++;
    size_t begin = at;
    for (; at < word.size; at++) {
        uint8_t byte = word.data[at];

        if (byte == '.' && !fraction) {
            fraction = true;
            continue;
        }
        if (byte < '0' || byte > '9')
            break;
        if (digits < UINT64_MAX / 10 - 1) {
            digits = digits * 10 + (uint64_t)(byte - '0');
            point += fraction ? 1 : 0;
        } else if (!fraction) {
            return KS_FAIL(MALFORMED);
        }
    }
    if (at == begin)
        return KS_FAIL(MALFORMED);
    if (at < word.size) {
        ks_view rest = ks_view_of(word.data + at + 1, word.size - at - 1);

        if (word.data[at] != 'e' && word.data[at] != 'E')
            return KS_FAIL(MALFORMED);
        if (rest.size > 0 && rest.data[0] == '+')
            rest = ks_view_of(rest.data + 1, rest.size - 1);
        if (!ks_ok(ks_view_i64(rest, &exponent)) || exponent > 20 || exponent < -20)
            return KS_FAIL(MALFORMED);
    }

    int64_t power = exponent + shift - point;
    for (; power < -1 && digits > 0; power++)
        digits /= 10;
    if (power == -1)
        digits = (digits + 5) / 10;
    for (; power > 0 && digits > 0; power--) {
        if (digits > INT64_MAX / 10)
            return KS_FAIL(MALFORMED);
        digits *= 10;
    }
    if (digits > INT64_MAX)
        return KS_FAIL(MALFORMED);
    *ret_value = negative ? -(int64_t)digits : (int64_t)digits;
    return KS_OK;
}

static ks_err take_number(struct scan *scan, int32_t shift, int64_t *ret_value)
{
    (void)peek(scan);
    return scaled(take_word(scan), shift, ret_value);
}

static ks_err take_hex4(ks_view *raw, uint32_t *ret_unit)
{
    uint8_t bytes[2];
    ks_view digits;

    KS_TRY(ks_view_take(raw, 4, &digits));
    KS_TRY(ks_hex_decode(digits, bytes));
    *ret_unit = (uint32_t)bytes[0] << 8 | bytes[1];
    return KS_OK;
}

/* Behind "\u". Both halves of a surrogate pair. */
static ks_err take_unicode(ks_view *raw, uint32_t *ret_code)
{
    uint32_t code = 0;
    uint32_t low = 0;
    ks_view escape;

    KS_TRY(take_hex4(raw, &code));
    if (code == 0 || (code >= 0xDC00 && code <= 0xDFFF))
        return KS_FAIL(MALFORMED);
    if (code >= 0xD800 && code <= 0xDBFF) {
        KS_TRY(ks_view_take(raw, 2, &escape));
        if (!ks_view_equal(escape, KS_VIEW("\\u")))
            return KS_FAIL(MALFORMED);
        KS_TRY(take_hex4(raw, &low));
        if (low < 0xDC00 || low > 0xDFFF)
            return KS_FAIL(MALFORMED);
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    *ret_code = code;
    return KS_OK;
}

static size_t put_utf8(uint32_t code, uint8_t *to)
{
    if (code < 0x80) {
        to[0] = (uint8_t)code;
        return 1;
    }
    if (code < 0x800) {
        to[0] = (uint8_t)(0xC0 | code >> 6);
        to[1] = (uint8_t)(0x80 | (code & 0x3F));
        return 2;
    }
    if (code < 0x10000) {
        to[0] = (uint8_t)(0xE0 | code >> 12);
        to[1] = (uint8_t)(0x80 | (code >> 6 & 0x3F));
        to[2] = (uint8_t)(0x80 | (code & 0x3F));
        return 3;
    }
    to[0] = (uint8_t)(0xF0 | code >> 18);
    to[1] = (uint8_t)(0x80 | (code >> 12 & 0x3F));
    to[2] = (uint8_t)(0x80 | (code >> 6 & 0x3F));
    to[3] = (uint8_t)(0x80 | (code & 0x3F));
    return 4;
}

/* Behind a backslash. */
static ks_err take_escape(ks_view *raw, uint32_t *ret_code)
{
    static const char NAMES[] = "\"\\/bfnrt";
    static const char CODES[] = "\"\\/\b\f\n\r\t";
    uint8_t name = 0;

    KS_TRY(ks_view_take_u8(raw, &name));
    if (name == 'u')
        return take_unicode(raw, ret_code);
    const char *found = name == 0 ? NULL : strchr(NAMES, name);
    if (found == NULL)
        return KS_FAIL(MALFORMED);
    *ret_code = (uint8_t)CODES[found - NAMES];
    return KS_OK;
}

/* Writes what `raw` means; never longer than it is written. */
static ks_err unescape(ks_view raw, uint8_t *to, size_t *ret_size)
{
    size_t size = 0;
    uint8_t byte = 0;

    while (raw.size > 0) {
        KS_TRY(ks_view_take_u8(&raw, &byte));
        if (byte == '\\') {
            uint32_t code = 0;
            KS_TRY(take_escape(&raw, &code));
            size += put_utf8(code, to + size);
        } else {
            to[size++] = byte;
        }
    }
    *ret_size = size;
    return KS_OK;
}

/* A text as a C string of `capacity` bytes. */
static ks_err take_text(struct scan *scan, char *buffer, size_t capacity)
{
    struct raw raw;
    size_t size = 0;

    KS_TRY(take_string(scan, &raw));
    if (raw.text.size >= capacity)
        return KS_FAIL(MALFORMED);
    KS_TRY(unescape(raw.text, (uint8_t *)buffer, &size));
    buffer[size] = '\0';
    return ks_view_is_utf8(ks_view_of(buffer, size)) ? KS_OK : KS_FAIL(MALFORMED);
}

/* --- Records --- */

static ks_err take_key(struct scan *scan, struct ks_builder *builder, ks_view *ret_key)
{
    struct raw raw;
    size_t size = 0;

    KS_TRY(take_string(scan, &raw));
    KS_TRY(unescape(raw.text, ks_builder_room(builder), &size));
    if (size > KS_PARTITION_KEY_MAX || !ks_view_is_utf8(ks_view_of(ks_builder_room(builder), size)))
        return KS_FAIL(MALFORMED);
    *ret_key = ks_builder_took(builder, size);
    return KS_OK;
}

static ks_err take_sequence(struct scan *scan, struct ks_builder *builder, ks_view *ret_sequence)
{
    struct raw raw;

    KS_TRY(take_string(scan, &raw));
    if (!ks_sequence_is_valid(raw.text))
        return KS_FAIL(MALFORMED);
    *ret_sequence = ks_builder_keep(builder, raw.text);
    return KS_OK;
}

/* Base64 with escapes is not seen from AWS: some writers spell '/' as "\/". */
static ks_err take_data(struct scan *scan, struct ks_builder *builder, ks_view *ret_data)
{
    uint8_t *room = ks_builder_room(builder);
    struct raw raw;
    size_t size = 0;

    KS_TRY(take_string(scan, &raw));
    if (raw.escaped) {
        KS_TRY(unescape(raw.text, room, &size));
        raw.text = ks_view_of(room, size);
    }
    KS_TRY(ks_base64_decode(raw.text, room, &size));
    *ret_data = ks_builder_took(builder, size);
    return KS_OK;
}

/* A record on its way into the batch. */
struct filling {
    struct ks_builder *builder;
    struct ks_record record;
};

static ks_err take_record_member(struct scan *scan, ks_view name, void *into)
{
    struct filling *filling = into;
    struct ks_record *record = &filling->record;

    if (ks_view_equal(name, KS_VIEW("Data")))
        return take_data(scan, filling->builder, &record->data);
    if (ks_view_equal(name, KS_VIEW("PartitionKey")))
        return take_key(scan, filling->builder, &record->partition_key);
    if (ks_view_equal(name, KS_VIEW("SequenceNumber")))
        return take_sequence(scan, filling->builder, &record->sequence);
    if (ks_view_equal(name, KS_VIEW("ApproximateArrivalTimestamp")))
        return take_number(scan, 3, &record->arrival_ms);
    return skip_value(scan);
}

static ks_err take_record(struct scan *scan, void *into)
{
    struct filling filling = {.builder = into, .record = {.sub_sequence = -1}};

    KS_TRY(take_object(scan, take_record_member, &filling));
    return ks_builder_add(filling.builder, &filling.record);
}

/* --- The answer --- */

struct children {
    struct ks_batch *batch;
    uint32_t count;
};

static ks_err take_child_member(struct scan *scan, ks_view name, void *into)
{
    if (ks_view_equal(name, KS_VIEW("ShardId")))
        return take_text(scan, into, KS_SHARD_ID_MAX + 1);
    return skip_value(scan);
}

static ks_err take_child(struct scan *scan, void *into)
{
    struct children *children = into;

    if (children->count == KS_CHILDREN_MAX)
        return skip_value(scan);
    return take_object(scan, take_child_member, children->batch->children[children->count++]);
}

struct answer {
    struct ks_builder builder;
    struct ks_records records;
    bool has_records;
};

static ks_err take_continuation(struct scan *scan, struct ks_records *records)
{
    char *text = records->continuation;

    KS_TRY(take_text(scan, text, sizeof(records->continuation)));
    return ks_sequence_is_valid(ks_view_text(text)) ? KS_OK : KS_FAIL(MALFORMED);
}

static ks_err take_answer_member(struct scan *scan, ks_view name, void *into)
{
    struct answer *answer = into;
    struct children children = {.batch = &answer->records.batch};

    if (ks_view_equal(name, KS_VIEW("Records"))) {
        if (answer->has_records)
            return KS_FAIL(MALFORMED);
        answer->has_records = true;
        return take_array(scan, take_record, &answer->builder);
    }
    if (ks_view_equal(name, KS_VIEW("NextShardIterator")))
        return take_text(scan, answer->records.iterator, sizeof(answer->records.iterator));
    if (ks_view_equal(name, KS_VIEW("ContinuationSequenceNumber")))
        return take_continuation(scan, &answer->records);
    if (ks_view_equal(name, KS_VIEW("MillisBehindLatest")))
        return take_number(scan, 0, &answer->records.batch.millis_behind);
    if (ks_view_equal(name, KS_VIEW("ChildShards")))
        return take_array(scan, take_child, &children);
    return skip_value(scan);
}

static ks_err take_answer(struct scan *scan, struct answer *answer)
{
    KS_TRY(take_object(scan, take_answer_member, answer));
    return answer->has_records && peek(scan) < 0 ? KS_OK : KS_FAIL(MALFORMED);
}

ks_err ks_records_json(struct ks_block *block, size_t begin, uint32_t records_max,
                       struct ks_records *ret_records)
{
    struct answer answer = {.records = {.batch = {.millis_behind = -1}}};

    KS_TRY(ks_builder_begin(&answer.builder, block, records_max));
    block = answer.builder.block;
    struct scan scan = {.text = ks_view_of(block->data + begin, block->size - begin)};
    KS_TRY(ks_builder_end(&answer.builder, take_answer(&scan, &answer), &answer.records.batch));
    answer.records.batch.at_end = answer.records.iterator[0] == '\0';
    *ret_records = answer.records;
    return KS_OK;
}
