/* SPDX-License-Identifier: Apache-2.0 */
/* failure.c - any answer as a failure: its first two bytes choose the status, the next the length
 * of the head.
 */
#include "aws/failure.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ks_failure failure;
    struct ks_detail detail;
    ks_view rest = ks_view_of(data, size);
    uint16_t status = 0;
    uint8_t head_size = 0;
    ks_view head;

    if (!ks_ok(ks_view_take_be16(&rest, &status)) || !ks_ok(ks_view_take_u8(&rest, &head_size)) ||
        !ks_ok(ks_view_take(&rest, head_size, &head)))
        return 0;
    ks_failure_read(status % 600, head, rest, &failure);
    assert(!ks_ok(failure.err));
    assert(ks_view_is_utf8(ks_view_text(failure.code)));
    assert(ks_view_is_utf8(ks_view_text(failure.message)));
    assert(ks_view_is_utf8(ks_view_text(failure.request_id)));
    assert(failure.retry_after_ms >= -1);
    ks_failure_explain(&failure, "kinesis", "GetRecords", &detail);
    assert(ks_view_is_utf8(ks_view_text(detail.text)));
    assert(strstr(detail.text, "kinesis") != NULL);
    return 0;
}
