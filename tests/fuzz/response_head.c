/* SPDX-License-Identifier: Apache-2.0 */
/* response_head.c - any bytes as the head of an answer of AWS: a header that is found lies within, a Date is the
 * instant that others read in it, and a clock is corrected once.
 */
#include "aws/head.h"

#include "aws/failure.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_date(ks_view text)
{
    char copy[64];
    int64_t unix_ms = 0;
    struct tm parts = {.tm_sec = 0};

    if (!ks_ok(ks_head_date(text, &unix_ms)))
        return;
    /* Whatever stands for the day of the week. */
    assert(ks_ok(ks_view_copy_text(ks_view_of(text.data + 5, text.size - 5), copy, sizeof(copy))));
    const char *end = strptime(copy, "%d %b %Y %H:%M:%S GMT", &parts);
    assert(end != NULL && *end == '\0');
    assert((int64_t)timegm(&parts) * 1000 == unix_ms);
}

static void check_clock(ks_view head)
{
    const int64_t now_ms = INT64_C(1795219200123);
    int64_t skew_ms = 0;

    if (!ks_head_corrects(head, now_ms, &skew_ms))
        return;
    assert(llabs(skew_ms) >= 60000);
    assert(!ks_head_corrects(head, now_ms, &skew_ms));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {
        "Date", "Age", "Retry-After", "x-amz-retry-after", "x-amzn-RequestId", "x-amzn-ErrorType"};
    static const int statuses[] = {400, 429, 503};
    ks_view head = ks_view_of(data, size);
    struct ks_failure failure;

    for (size_t at = 0; at < sizeof(names) / sizeof(names[0]); at++) {
        ks_view value = ks_head_find(head, names[at]);

        if (value.data == NULL)
            continue;
        assert(value.data >= data && value.data + value.size <= data + size);
        assert(memchr(value.data, '\n', value.size) == NULL);
        check_date(value);
    }
    check_clock(head);
    for (size_t at = 0; at < sizeof(statuses) / sizeof(statuses[0]); at++) {
        ks_failure_read(statuses[at], head, KS_VIEW_NONE, &failure);
        assert(!ks_ok(failure.err) && failure.retry_after_ms >= -1);
        assert(ks_view_is_utf8(ks_view_text(failure.request_id)));
    }
    return 0;
}
