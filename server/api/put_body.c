/* SPDX-License-Identifier: Apache-2.0 */
#include "api/put_body.h"

#include <assert.h>

#include "base/budget.h"
#include "base/codec.h"

enum {
    KEY_CHARACTERS_MAX = 256, /* Of a partition key (Kinesis API reference). */
    DECODER_SLACK = 32,       /* What the base64 decoder may write past its result. */
    PUT_BYTES_MAX = 10 << 20  /* Data and keys of one call (Kinesis API reference). */
};

struct scan {
    ks_view all;
    ks_view rest;
    uint8_t *at; /* Where the next decoded bytes go. */
    struct ks_put_body *body;
    size_t total;
    struct ks_detail *detail;
};

static ks_err malformed(const struct scan *scan, const char *what)
{
    ks_detail_set(scan->detail, "the body is not JSON: %s at byte %zu", what,
                  scan->all.size - scan->rest.size);
    return KS_FAIL(MALFORMED);
}

static ks_err invalid(const struct scan *scan, const char *what)
{
    ks_detail_set(scan->detail, "record %u: %s", scan->body->count, what);
    return KS_FAIL(INVALID);
}

static uint8_t peek(struct scan *scan)
{
    while (scan->rest.size > 0 && memchr(" \t\r\n", scan->rest.data[0], 4) != NULL) {
        scan->rest.data++;
        scan->rest.size--;
    }
    return scan->rest.size == 0 ? 0 : scan->rest.data[0];
}

static bool accept(struct scan *scan, char wanted)
{
    if (peek(scan) != (uint8_t)wanted)
        return false;
    scan->rest.data++;
    scan->rest.size--;
    return true;
}

/* Steps to the next element of a list or object; false at its end, which is `close`. */
static ks_err scan_next(struct scan *scan, char close, bool *first, bool *ret_more)
{
    bool begun = !*first;

    *first = false;
    *ret_more = !accept(scan, close);
    if (*ret_more && begun && !accept(scan, ','))
        return malformed(scan, "a comma is missing");
    return KS_OK;
}

static size_t backslashes_before(const uint8_t *from, const uint8_t *end)
{
    size_t count = 0;

    while (end - count > from && *(end - count - 1) == '\\')
        count++;
    return count;
}

/* A string, as it stands between its quotes. */
static ks_err scan_raw(struct scan *scan, ks_view *ret_raw)
{
    const uint8_t *from;
    const uint8_t *end;
    ks_view taken;

    if (!accept(scan, '"'))
        return malformed(scan, "a string is missing");
    from = scan->rest.data;
    do {
        end = scan->rest.size == 0 ? NULL : memchr(scan->rest.data, '"', scan->rest.size);
        if (end == NULL)
            return malformed(scan, "a string has no end");
        KS_TRY(ks_view_take(&scan->rest, (size_t)(end - scan->rest.data) + 1, &taken));
        /* A quote behind an odd number of backslashes is part of the string. */
    } while (backslashes_before(from, end) % 2 != 0);
    *ret_raw = ks_view_of(from, (size_t)(end - from));
    return KS_OK;
}

static uint8_t *put_character(uint8_t *at, uint32_t code)
{
    if (code < 0x80) {
        *at++ = (uint8_t)code;
        return at;
    }
    if (code < 0x800) {
        *at++ = (uint8_t)(0xC0 | code >> 6);
    } else {
        if (code < 0x10000) {
            *at++ = (uint8_t)(0xE0 | code >> 12);
        } else {
            *at++ = (uint8_t)(0xF0 | code >> 18);
            *at++ = (uint8_t)(0x80 | (code >> 12 & 0x3F));
        }
        *at++ = (uint8_t)(0x80 | (code >> 6 & 0x3F));
    }
    *at++ = (uint8_t)(0x80 | (code & 0x3F));
    return at;
}

/* Four hex digits. */
static bool take_code(ks_view *raw, uint32_t *ret_code)
{
    uint8_t bytes[2];
    ks_view digits;

    if (!ks_ok(ks_view_take(raw, 4, &digits)) || !ks_ok(ks_hex_decode(digits, bytes)))
        return false;
    *ret_code = (uint32_t)bytes[0] << 8 | bytes[1];
    return true;
}

/* What follows \u: one code, or a surrogate pair (RFC 8259, section 7). */
static bool take_unicode(ks_view *raw, uint32_t *ret_code)
{
    uint32_t low;
    ks_view mark;

    if (!take_code(raw, ret_code))
        return false;
    if (*ret_code >= 0xDC00 && *ret_code <= 0xDFFF)
        return false;
    if (*ret_code < 0xD800 || *ret_code > 0xDBFF)
        return true;
    if (!ks_ok(ks_view_take(raw, 2, &mark)) || !ks_view_equal(mark, KS_VIEW("\\u")) ||
        !take_code(raw, &low) || low < 0xDC00 || low > 0xDFFF)
        return false;
    *ret_code = 0x10000 + ((*ret_code - 0xD800) << 10) + (low - 0xDC00);
    return true;
}

static bool take_escape(ks_view *raw, uint8_t **at)
{
    static const char letters[] = "\"\\/bfnrt";
    static const char meanings[] = "\"\\/\b\f\n\r\t";
    const char *found;
    uint32_t code;
    uint8_t letter;

    if (!ks_ok(ks_view_take_u8(raw, &letter)))
        return false;
    if (letter == 'u') {
        if (!take_unicode(raw, &code))
            return false;
        *at = put_character(*at, code);
        return true;
    }
    found = letter == 0 ? NULL : strchr(letters, letter);
    if (found == NULL)
        return false;
    *(*at)++ = (uint8_t)meanings[found - letters];
    return true;
}

/* A string with its escapes resolved; it never becomes longer. */
static ks_err scan_text(struct scan *scan, ks_view *ret_text)
{
    uint8_t *from = scan->at;
    ks_view raw;

    KS_TRY(scan_raw(scan, &raw));
    while (raw.size > 0) {
        uint8_t byte;
        KS_TRY(ks_view_take_u8(&raw, &byte));
        if (byte < 0x20)
            return malformed(scan, "a control character in a string");
        if (byte != '\\')
            *scan->at++ = byte;
        else if (!take_escape(&raw, &scan->at))
            return malformed(scan, "a bad escape in a string");
    }
    *ret_text = ks_view_of(from, (size_t)(scan->at - from));
    return KS_OK;
}

/* base64 needs no escapes, but "\/" is one that some writers make. */
static ks_err scan_data(struct scan *scan, ks_view *ret_data)
{
    struct scan before = *scan;
    ks_view text;
    size_t size;

    KS_TRY(scan_raw(scan, &text));
    if (text.size > 0 && memchr(text.data, '\\', text.size) != NULL) {
        *scan = before;
        KS_TRY(scan_text(scan, &text));
    }
    if (!ks_ok(ks_base64_decode(text, scan->at, &size)))
        return invalid(scan, "Data is not base64");
    if (size > KS_RECORD_BYTES_MAX)
        return invalid(scan, "Data has more than 10 MiB");
    *ret_data = ks_view_of(scan->at, size);
    scan->at += size;
    return KS_OK;
}

/* ---- The shape ---- */

static size_t characters_of(ks_view text)
{
    size_t count = 0;

    for (size_t i = 0; i < text.size; i++)
        count += (text.data[i] & 0xC0) != 0x80;
    return count;
}

static bool is_hash_key(ks_view text)
{
    if (text.size == 0 || text.size > KS_HASH_KEY_MAX)
        return false;
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
    return text.size == 1 || text.data[0] != '0';
}

/* The place of a member; NULL: there is none of that name. */
static ks_view *place_of(struct ks_put_entry *entry, ks_view name)
{
    if (ks_view_equal(name, KS_VIEW("Data")))
        return &entry->data;
    if (ks_view_equal(name, KS_VIEW("PartitionKey")))
        return &entry->partition_key;
    return ks_view_equal(name, KS_VIEW("ExplicitHashKey")) ? &entry->explicit_hash_key : NULL;
}

static ks_err scan_member(struct scan *scan, struct ks_put_entry *entry)
{
    ks_view name;
    ks_view *place;

    KS_TRY(scan_text(scan, &name));
    if (!accept(scan, ':'))
        return malformed(scan, "a colon is missing");
    place = place_of(entry, name);
    if (place == NULL)
        return invalid(scan, "unknown member; Data, PartitionKey and ExplicitHashKey are known");
    if (place->data != NULL)
        return invalid(scan, "a member stands there twice");
    if (place == &entry->data)
        return scan_data(scan, place);
    KS_TRY(scan_text(scan, place));
    if (place == &entry->explicit_hash_key && !is_hash_key(*place))
        return invalid(scan, "ExplicitHashKey is not a decimal number of up to 39 digits");
    return KS_OK;
}

static ks_err check_entry(struct scan *scan, const struct ks_put_entry *entry)
{
    size_t characters = characters_of(entry->partition_key);

    if (entry->data.data == NULL)
        return invalid(scan, "Data is missing");
    if (characters == 0 || characters > KEY_CHARACTERS_MAX ||
        !ks_view_is_utf8(entry->partition_key))
        return invalid(scan, "PartitionKey must have 1 to 256 characters");
    scan->total += entry->data.size + entry->partition_key.size;
    if (scan->total <= PUT_BYTES_MAX)
        return KS_OK;
    ks_detail_set(scan->detail, "the records have more than 10 MiB");
    return KS_FAIL(FULL);
}

static ks_err scan_record(struct scan *scan)
{
    struct ks_put_entry entry = {.data = KS_VIEW_NONE};
    bool first = true;
    bool more = true;

    if (scan->body->count == KS_PUT_ENTRIES_MAX) {
        ks_detail_set(scan->detail, "more than %d records", KS_PUT_ENTRIES_MAX);
        return KS_FAIL(FULL);
    }
    if (!accept(scan, '{'))
        return malformed(scan, "a record must be an object");
    KS_TRY(scan_next(scan, '}', &first, &more));
    while (more) {
        KS_TRY(scan_member(scan, &entry));
        KS_TRY(scan_next(scan, '}', &first, &more));
    }
    KS_TRY(check_entry(scan, &entry));
    scan->body->entries[scan->body->count++] = entry;
    return KS_OK;
}

static ks_err scan_records(struct scan *scan)
{
    bool first = true;
    bool more = true;

    if (scan->body->count > 0)
        return malformed(scan, "Records stands there twice");
    if (!accept(scan, '['))
        return malformed(scan, "Records must be an array");
    KS_TRY(scan_next(scan, ']', &first, &more));
    while (more) {
        KS_TRY(scan_record(scan));
        KS_TRY(scan_next(scan, ']', &first, &more));
    }
    return KS_OK;
}

static ks_err scan_top_member(struct scan *scan)
{
    ks_view name;

    KS_TRY(scan_text(scan, &name));
    if (!accept(scan, ':'))
        return malformed(scan, "a colon is missing");
    if (ks_view_equal(name, KS_VIEW("Records")))
        return scan_records(scan);
    if (ks_view_equal(name, KS_VIEW("StreamName")))
        return scan_text(scan, &scan->body->stream_name);
    if (ks_view_equal(name, KS_VIEW("StreamARN")))
        return scan_text(scan, &scan->body->stream_arn);
    ks_detail_set(scan->detail, "unknown member \"%.*s\" of the body",
                  (int)(name.size < 60 ? name.size : 60), (const char *)name.data);
    return KS_FAIL(INVALID);
}

static ks_err scan_body(struct scan *scan)
{
    bool first = true;
    bool more = true;

    if (!accept(scan, '{'))
        return malformed(scan, "an object is wanted");
    KS_TRY(scan_next(scan, '}', &first, &more));
    while (more) {
        KS_TRY(scan_top_member(scan));
        KS_TRY(scan_next(scan, '}', &first, &more));
    }
    if (peek(scan) != 0 || scan->rest.size > 0)
        return malformed(scan, "something follows the object");
    if (scan->body->count > 0)
        return KS_OK;
    ks_detail_set(scan->detail, "Records must hold 1 to %d records", KS_PUT_ENTRIES_MAX);
    return KS_FAIL(INVALID);
}

ks_err ks_put_body_read(ks_view view, struct ks_put_body *ret_body, struct ks_detail *detail)
{
    size_t table = KS_PUT_ENTRIES_MAX * sizeof(struct ks_put_entry);
    /* What is written is not longer than what it was read from, but base64 with escapes is written
     * twice. */
    struct ks_put_body body = {.memory = ks_alloc(table + 2 * view.size + DECODER_SLACK)};
    struct scan scan = {.all = view, .rest = view, .body = &body, .detail = detail};
    ks_err err;

    if (body.memory == NULL)
        return KS_FAIL(NO_MEMORY);
    body.entries = body.memory;
    scan.at = (uint8_t *)body.memory + table;
    err = scan_body(&scan);
    if (!ks_ok(err)) {
        ks_put_body_free(&body);
        return err;
    }
    *ret_body = body;
    return KS_OK;
}

void ks_put_body_free(struct ks_put_body *body)
{
    ks_free(body->memory);
    *body = (struct ks_put_body){.count = 0};
}

static bool ends_with(ks_view text, ks_view end)
{
    return text.size >= end.size &&
           ks_view_equal(ks_view_of(text.data + text.size - end.size, end.size), end);
}

bool ks_put_body_is_for(const struct ks_put_body *body, const char *stream)
{
    ks_view name = ks_view_text(stream);
    ks_view arn = body->stream_arn;
    size_t before = arn.size - name.size;

    if (body->stream_name.data != NULL && !ks_view_equal(body->stream_name, name))
        return false;
    if (arn.data == NULL)
        return true;
    return ends_with(arn, name) && before > 0 && arn.data[before - 1] == '/';
}
