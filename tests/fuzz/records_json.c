/* SPDX-License-Identifier: Apache-2.0 */
/* records_json.c - any bytes as an answer of GetRecords in JSON: the scanner ends, stays within the bytes, charges
 * nothing when it fails, and where jansson reads an answer too, both see the same records.
 */
#include "adapters/kinesis/records.h"

#include <assert.h>
#include <jansson.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_view(const struct ks_batch *batch, ks_view view)
{
    assert(view.data >= batch->block->data);
    assert(view.data + view.size <= batch->block->data + batch->block->size);
}

static void check_batch(const struct ks_batch *batch)
{
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

/* What a slow and careful reader says about the same bytes. */
static void compare(const struct ks_batch *batch, const uint8_t *data, size_t size)
{
    json_t *root = json_loadb((const char *)data, size, JSON_REJECT_DUPLICATES, NULL);
    const json_t *records = json_object_get(root, "Records");

    if (json_is_array(records)) {
        assert(json_array_size(records) == batch->count);
        for (uint32_t at = 0; at < batch->count; at++) {
            const json_t *one = json_array_get(records, at);
            const json_t *key = json_object_get(one, "PartitionKey");
            const json_t *number = json_object_get(one, "SequenceNumber");
            assert(ks_view_equal(batch->records[at].partition_key,
                                 ks_view_of(json_string_value(key), json_string_length(key))));
            assert(
                ks_view_equal(batch->records[at].sequence,
                              ks_view_of(json_string_value(number), json_string_length(number))));
        }
    }
    json_decref(root);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ks_budget budget;
    struct ks_records records;

    ks_budget_init(&budget, 64 << 20);
    ks_err err = ks_records_json(ks_view_of(data, size), 100, &budget, &records);
    if (ks_ok(err)) {
        check_batch(&records.batch);
        compare(&records.batch, data, size);
        assert(records.batch.at_end == (records.iterator[0] == '\0'));
        ks_batch_free(&records.batch);
    } else {
        assert(ks_err_is(err, KS_ERR_MALFORMED));
    }
    assert(budget.used == 0);
    return 0;
}
