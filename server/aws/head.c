/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/head.h"

#include "base/codec.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    SKEW_LEAST_MS = 60 * 1000, /* AWS allows minutes. */
    SKEW_MOST_MS =
        24 * 60 * 60 * 1000, /* A clock that is off by more is not our clock that runs wrong. */
};
static const int64_t year_2020_ms = INT64_C(1577836800000);
static const int64_t year_2100_ms = INT64_C(4102444800000);

ks_view ks_head_find(ks_view head, const char *name)
{
    ks_view wanted = ks_view_text(name);

    while (head.data != NULL) {
        ks_view value = ks_view_cut(&head, '\n');
        ks_view found = ks_view_cut(&value, ':');

        if (value.data != NULL && ks_view_equal_nocase(found, wanted))
            return ks_view_trim(value);
    }
    return KS_VIEW_NONE;
}

static ks_err month_of(ks_view name, unsigned *ret_month)
{
    static const char NAMES[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

    for (unsigned month = 0; month < 12; month++) {
        if (ks_view_equal(name, ks_view_of(NAMES + 3 * month, 3))) {
            *ret_month = month + 1;
            return KS_OK;
        }
    }
    return KS_FAIL(INVALID);
}

/* The same instant in the form of RFC 3339, whose parser checks the ranges. */
ks_err ks_head_date(ks_view text, int64_t *ret_unix_ms)
{
    static const char FORM[] = "Ddd, 00 Mmm 0000 00:00:00 GMT";
    char iso[32];
    unsigned month = 0;

    if (text.size != sizeof(FORM) - 1)
        return KS_FAIL(INVALID);
    for (size_t at = 3; at < text.size; at++) {
        bool digit = text.data[at] >= '0' && text.data[at] <= '9';
        bool in_month = at >= 8 && at < 11;

        if (!in_month && (FORM[at] == '0' ? !digit : text.data[at] != (uint8_t)FORM[at]))
            return KS_FAIL(INVALID);
    }
    KS_TRY(month_of(ks_view_of(text.data + 8, 3), &month));

    const char *t = (const char *)text.data;
    int size = snprintf(iso, sizeof(iso), "%.4s-%02u-%.2sT%.8sZ", t + 12, month, t + 5, t + 17);
    return ks_timestamp_parse(ks_view_of(iso, (size_t)size), ret_unix_ms);
}

bool ks_head_is_present(int64_t unix_ms)
{
    return unix_ms >= year_2020_ms && unix_ms < year_2100_ms;
}

bool ks_head_corrects(ks_view head, int64_t now_ms, int64_t *skew_ms)
{
    int64_t server_ms = 0;

    if (ks_head_find(head, "Age").data != NULL ||
        !ks_ok(ks_head_date(ks_head_find(head, "Date"), &server_ms)))
        return false;
    if (!ks_head_is_present(server_ms) || llabs(server_ms - now_ms) > SKEW_MOST_MS)
        return false;
    if (llabs(server_ms - now_ms - *skew_ms) < SKEW_LEAST_MS)
        return false;
    *skew_ms = server_ms - now_ms;
    return true;
}

bool ks_head_is_token(ks_view text)
{
    for (size_t at = 0; at < text.size; at++) {
        if (text.data[at] <= ' ' || text.data[at] >= 0x7f || text.data[at] == ':')
            return false;
    }
    return text.size > 0;
}

bool ks_head_is_line(ks_view text)
{
    for (size_t at = 0; at < text.size; at++) {
        if ((text.data[at] < ' ' && text.data[at] != '\t') || text.data[at] == 0x7f)
            return false;
    }
    return true;
}
