/* SPDX-License-Identifier: Apache-2.0 */
/* records_cbor.c - any bytes as an answer of GetRecords in CBOR: the scanner ends, stays within the bytes, and charges
 * nothing when it fails.
 */
#include "adapters/kinesis/records.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_view(const struct ks_batch *batch, ks_view view)
{
    assert(view.data >= batch->block->data);
    assert(view.data + view.size <= batch->block->data + batch->block->size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ks_budget budget;
    struct ks_records records;

    ks_budget_init(&budget, 64 << 20);
    ks_err err = ks_records_cbor(ks_view_of(data, size), 100, &budget, &records);
    if (ks_ok(err)) {
        assert(records.batch.count <= 100);
        for (uint32_t at = 0; at < records.batch.count; at++) {
            check_view(&records.batch, records.batch.records[at].data);
            check_view(&records.batch, records.batch.records[at].partition_key);
            check_view(&records.batch, records.batch.records[at].sequence);
            assert(ks_view_is_utf8(records.batch.records[at].partition_key));
            assert(records.batch.records[at].sequence.size <= KS_SEQUENCE_MAX);
        }
        ks_batch_free(&records.batch);
    } else {
        assert(ks_err_is(err, KS_ERR_MALFORMED));
    }
    assert(budget.used == 0);
    return 0;
}
