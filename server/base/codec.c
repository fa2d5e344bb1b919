/* SPDX-License-Identifier: Apache-2.0 */
#include "base/codec.h"

#include "base/base64.h"

#include <assert.h>
#include <stdio.h>

/* base64. */

static size_t encode_bulk(ks_view view, char *buffer)
{
    size_t done = ks_base64_has_avx2() ? ks_base64_avx2.encode(view.data, view.size, buffer) : 0;

    return done +
           ks_base64_portable.encode(view.data + done, view.size - done, buffer + done / 3 * 4);
}

static size_t decode_bulk(ks_view view, uint8_t *buffer)
{
    size_t done = ks_base64_has_avx2() ? ks_base64_avx2.decode(view.data, view.size, buffer) : 0;

    return done +
           ks_base64_portable.decode(view.data + done, view.size - done, buffer + done / 4 * 3);
}

size_t ks_base64_encode(ks_view view, char *buffer)
{
    uint8_t last[3] = {0};
    size_t done, left, size;

    if (view.size == 0)
        return 0;
    done = encode_bulk(view, buffer);
    size = done / 3 * 4;
    left = view.size - done;
    if (left == 0)
        return size;

    assert(left < 3);
    memcpy(last, view.data + done, left);
    (void)ks_base64_portable.encode(last, sizeof(last), buffer + size);
    memset(buffer + size + left + 1, '=', 3 - left);
    return size + 4;
}

/* The last group, of which the first `characters` (2 to 4) count; the rest stands for zeros. */
static ks_err decode_last(const uint8_t *from, size_t characters, uint8_t *buffer, bool strict)
{
    uint8_t group[4] = {'A', 'A', 'A', 'A'};
    uint8_t decoded[3];

    memcpy(group, from, characters);
    if (ks_base64_portable.decode(group, sizeof(group), decoded) != sizeof(group))
        return KS_FAIL(MALFORMED);
    if (strict && characters < 4 && decoded[characters - 1] != 0)
        return KS_FAIL(MALFORMED);
    memcpy(buffer, decoded, characters - 1);
    return KS_OK;
}

ks_err ks_base64_decode(ks_view view, uint8_t *buffer, size_t *ret_size)
{
    size_t characters = 4; /* Of the last group, without padding. */
    size_t bulk, size;

    if (view.size % 4 != 0)
        return KS_FAIL(MALFORMED);
    if (view.size == 0) {
        *ret_size = 0;
        return KS_OK;
    }
    if (view.data[view.size - 1] == '=')
        characters = view.data[view.size - 2] == '=' ? 2 : 3;

    bulk = view.size - 4;
    if (bulk > 0 && decode_bulk((ks_view){view.data, bulk}, buffer) != bulk)
        return KS_FAIL(MALFORMED);
    size = bulk / 4 * 3;
    KS_TRY(decode_last(view.data + bulk, characters, buffer + size, false));
    *ret_size = size + characters - 1;
    return KS_OK;
}

/* Tokens are short: they are translated to and from the standard alphabet, a piece at a time. */
enum { PIECE = 192 };

static void replace(uint8_t *text, size_t size, uint8_t from, uint8_t to)
{
    for (size_t i = 0; i < size; i++) {
        if (text[i] == from)
            text[i] = to;
    }
}

size_t ks_base64url_encode(ks_view view, char *buffer)
{
    size_t size = ks_base64_encode(view, buffer);

    while (size > 0 && buffer[size - 1] == '=')
        size--;
    replace((uint8_t *)buffer, size, '+', '-');
    replace((uint8_t *)buffer, size, '/', '_');
    return size;
}

/* Decodes `size` characters, at most PIECE; less than a whole last group only at the end of all. */
static ks_err decode_url_piece(const uint8_t *from, size_t size, uint8_t *buffer)
{
    KS_UNFILLED uint8_t standard[PIECE];
    size_t bulk = size / 4 * 4;

    if (memchr(from, '+', size) != NULL || memchr(from, '/', size) != NULL)
        return KS_FAIL(MALFORMED);
    memcpy(standard, from, size);
    replace(standard, size, '-', '+');
    replace(standard, size, '_', '/');
    if (ks_base64_portable.decode(standard, bulk, buffer) != bulk)
        return KS_FAIL(MALFORMED);
    if (bulk == size)
        return KS_OK;
    return decode_last(standard + bulk, size - bulk, buffer + bulk / 4 * 3, true);
}

ks_err ks_base64url_decode(ks_view view, uint8_t *buffer, size_t *ret_size)
{
    size_t rest = view.size % 4;

    if (rest == 1)
        return KS_FAIL(MALFORMED);
    for (size_t at = 0; at < view.size; at += PIECE) {
        size_t size = view.size - at < PIECE ? view.size - at : PIECE;
        KS_TRY(decode_url_piece(view.data + at, size, buffer + at / 4 * 3));
    }
    *ret_size = view.size / 4 * 3 + (rest == 0 ? 0 : rest - 1);
    return KS_OK;
}

/* Hex. */

void ks_hex_encode(ks_view view, char *buffer)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < view.size; i++) {
        buffer[2 * i] = digits[view.data[i] >> 4];
        buffer[2 * i + 1] = digits[view.data[i] & 15];
    }
}

/* The value of a hex digit, or 16. */
static uint8_t hex_value(uint8_t digit)
{
    if (digit >= '0' && digit <= '9')
        return (uint8_t)(digit - '0');
    digit |= 0x20;
    return digit >= 'a' && digit <= 'f' ? (uint8_t)(digit - 'a' + 10) : 16;
}

ks_err ks_hex_decode(ks_view view, uint8_t *buffer)
{
    if (view.size % 2 != 0)
        return KS_FAIL(MALFORMED);
    for (size_t i = 0; i < view.size / 2; i++) {
        uint8_t high = hex_value(view.data[2 * i]);
        uint8_t low = hex_value(view.data[2 * i + 1]);
        if (high > 15 || low > 15)
            return KS_FAIL(MALFORMED);
        buffer[i] = (uint8_t)(high << 4 | low);
    }
    return KS_OK;
}

/* Timestamps: the Gregorian calendar, also before it was invented (RFC 3339 knows the years 0000 to 9999). */

static const int64_t year_0_ms = INT64_C(-62167219200000);
static const int64_t year_9999_end_ms = INT64_C(253402300799999);

struct date {
    int64_t year;
    int64_t month; /* From 1. */
    int64_t day;   /* From 1. */
};

static bool is_leap(int64_t year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int64_t month_days(int64_t year, int64_t month)
{
    static const uint8_t days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

    return days[month - 1] + (month == 2 && is_leap(year));
}

/* Days from 0000-01-01 to the first day of `year`. */
static int64_t days_before(int64_t year)
{
    int64_t last = year - 1;

    return year == 0 ? 0 : 366 + last * 365 + last / 4 - last / 100 + last / 400;
}

static struct date date_of(int64_t days)
{
    /* An average year is 365.2425 days: the guess is at most one too high. */
    struct date date = {.year = days * 10000 / 3652425 + 1, .month = 1};

    while (days_before(date.year) > days)
        date.year--;
    days -= days_before(date.year);
    for (; days >= month_days(date.year, date.month); date.month++)
        days -= month_days(date.year, date.month);
    date.day = days + 1;
    return date;
}

void ks_timestamp_format(int64_t unix_ms, char buffer[KS_TIMESTAMP_SIZE])
{
    int64_t ms = unix_ms < year_0_ms ? year_0_ms : unix_ms;
    struct date date;
    int size;

    ms = (ms > year_9999_end_ms ? year_9999_end_ms : ms) - year_0_ms;
    date = date_of(ms / 86400000);
    ms %= 86400000;
    size = snprintf(buffer, KS_TIMESTAMP_SIZE, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ",
                    (int)date.year, (int)date.month, (int)date.day, (int)(ms / 3600000),
                    (int)(ms / 60000 % 60), (int)(ms / 1000 % 60), (int)(ms % 1000));
    assert(size == KS_TIMESTAMP_SIZE - 1);
    (void)size;
}

/* Takes exactly `digits` digits. */
static ks_err take_digits(ks_view *text, size_t digits, int64_t *ret_value)
{
    ks_view taken;
    uint64_t value;

    KS_TRY(ks_view_take(text, digits, &taken));
    KS_TRY(ks_view_u64(taken, &value));
    *ret_value = (int64_t)value;
    return KS_OK;
}

/* Takes one character of `allowed`. */
static ks_err take_one_of(ks_view *text, const char *allowed, uint8_t *ret_taken)
{
    uint8_t taken;

    KS_TRY(ks_view_take_u8(text, &taken));
    if (taken == '\0' || strchr(allowed, taken) == NULL)
        return KS_FAIL(INVALID);
    *ret_taken = taken;
    return KS_OK;
}

static ks_err take_date(ks_view *text, int64_t *ret_days)
{
    struct date date;
    uint8_t dash;

    KS_TRY(take_digits(text, 4, &date.year));
    KS_TRY(take_one_of(text, "-", &dash));
    KS_TRY(take_digits(text, 2, &date.month));
    KS_TRY(take_one_of(text, "-", &dash));
    KS_TRY(take_digits(text, 2, &date.day));
    if (date.month < 1 || date.month > 12)
        return KS_FAIL(INVALID);
    if (date.day < 1 || date.day > month_days(date.year, date.month))
        return KS_FAIL(INVALID);

    *ret_days = days_before(date.year) + date.day - 1;
    for (int64_t month = 1; month < date.month; month++)
        *ret_days += month_days(date.year, month);
    return KS_OK;
}

/* Hours and minutes, of a day or of an offset, in minutes. */
static ks_err take_minutes(ks_view *text, int64_t *ret_minutes)
{
    int64_t hours, minutes;
    uint8_t colon;

    KS_TRY(take_digits(text, 2, &hours));
    KS_TRY(take_one_of(text, ":", &colon));
    KS_TRY(take_digits(text, 2, &minutes));
    if (hours > 23 || minutes > 59)
        return KS_FAIL(INVALID);
    *ret_minutes = hours * 60 + minutes;
    return KS_OK;
}

/* Milliseconds of a second, and its fraction if there is one; what is finer is cut off. */
static ks_err take_seconds(ks_view *text, int64_t *ret_ms)
{
    int64_t seconds, scale = 100;

    KS_TRY(take_digits(text, 2, &seconds));
    /* A leap second is the first one of the next minute for whoever counts Unix time. */
    if (seconds > 60)
        return KS_FAIL(INVALID);
    *ret_ms = seconds * 1000;
    if (text->size == 0 || text->data[0] != '.')
        return KS_OK;

    *text = (ks_view){text->data + 1, text->size - 1};
    if (text->size == 0 || text->data[0] < '0' || text->data[0] > '9')
        return KS_FAIL(INVALID);
    while (text->size > 0 && text->data[0] >= '0' && text->data[0] <= '9') {
        *ret_ms += (text->data[0] - '0') * scale;
        scale /= 10;
        *text = (ks_view){text->data + 1, text->size - 1};
    }
    return KS_OK;
}

/* Z, or how far the clock of that place is ahead. */
static ks_err take_offset(ks_view *text, int64_t *ret_minutes)
{
    uint8_t sign;

    KS_TRY(take_one_of(text, "Zz+-", &sign));
    *ret_minutes = 0;
    if (sign == 'Z' || sign == 'z')
        return KS_OK;
    KS_TRY(take_minutes(text, ret_minutes));
    if (sign == '-')
        *ret_minutes = -*ret_minutes;
    return KS_OK;
}

static ks_err parse_timestamp(ks_view text, int64_t *ret_unix_ms)
{
    int64_t days, minutes, ms, ahead;
    uint8_t letter;

    KS_TRY(take_date(&text, &days));
    KS_TRY(take_one_of(&text, "Tt", &letter));
    KS_TRY(take_minutes(&text, &minutes));
    KS_TRY(take_one_of(&text, ":", &letter));
    KS_TRY(take_seconds(&text, &ms));
    KS_TRY(take_offset(&text, &ahead));
    if (text.size != 0)
        return KS_FAIL(INVALID);
    *ret_unix_ms = year_0_ms + days * 86400000 + (minutes - ahead) * 60000 + ms;
    return KS_OK;
}

ks_err ks_timestamp_parse(ks_view text, int64_t *ret_unix_ms)
{
    return ks_ok(parse_timestamp(text, ret_unix_ms)) ? KS_OK : KS_FAIL(INVALID);
}
