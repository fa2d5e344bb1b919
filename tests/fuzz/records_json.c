/* SPDX-License-Identifier: Apache-2.0 */
/* records_json.c - any bytes as an answer of GetRecords in JSON: the scanner ends, stays within the block, charges
 * nothing when it fails, and says the same wherever the body lies and whatever lies behind it: what a
 * second reader (records_again.h, jansson) finds in the bytes as they came, where it takes them.
 */
#include "adapters/kinesis/records.h"

#include <assert.h>
#include <stdlib.h>

#include "body_block.h"
#include "records_again.h"

enum { RECORDS_MAX = 100 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_view(const struct ks_batch *batch, ks_view view)
{
    assert(view.data >= batch->block->data);
    assert(view.data + view.size <= batch->block->data + batch->block->size);
}

static void check_batch(const struct ks_batch *batch)
{
    assert(batch->count <= RECORDS_MAX);
    for (uint32_t at = 0; at < batch->count; at++) {
        const struct ks_record *record = &batch->records[at];
        check_view(batch, record->data);
        check_view(batch, record->partition_key);
        check_view(batch, record->sequence);
        assert(record->sequence.size > 0);
        assert(record->sequence.size <= KS_SEQUENCE_MAX);
        assert(record->partition_key.size <= KS_PARTITION_KEY_MAX);
        assert(ks_view_is_utf8(record->partition_key));
    }
}

/* True if it was taken for an answer. The block is as large as it must be, and no byte larger. */
static bool read_at(size_t begin, ks_view body, enum body_room room, uint8_t *buffer)
{
    struct ks_budget budget;
    struct ks_records records;

    ks_budget_init(&budget, 64 << 20);
    struct ks_block *block = body_block(&budget, begin, body, room, RECORDS_MAX);
    ks_err err = ks_records_json(block, begin, RECORDS_MAX, &records);
    if (ks_ok(err)) {
        check_batch(&records.batch);
        assert(again_json(body, &records.batch, buffer));
        assert(records.batch.at_end == (records.iterator[0] == '\0'));
        ks_batch_free(&records.batch);
    } else {
        assert(ks_err_is(err, KS_ERR_MALFORMED));
    }
    assert(budget.used == 0);
    return ks_ok(err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *buffer = malloc(2 * size + 32);
    ks_view body = ks_view_of(data, size);

    assert(buffer != NULL);
    bool is_answer = read_at(0, body, BODY_FITS, buffer);
    assert(read_at(19, body, BODY_TIGHT, buffer) == is_answer);
    free(buffer);
    return 0;
}
