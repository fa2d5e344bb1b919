/* SPDX-License-Identifier: Apache-2.0 */
/* records_fuzzed.h - any bytes as an answer of GetRecords: the reader ends, stays within the block, charges nothing
 * when it fails, and says the same wherever the body lies and whatever lies behind it: what a second one finds in the
 * bytes as they came. And what was written right by the choices of these bytes is taken. For the fuzz programs of both
 * formats.
 */
#ifndef TESTS_LIB_RECORDS_FUZZED_H
#define TESTS_LIB_RECORDS_FUZZED_H

#include <assert.h>
#include <stdlib.h>

#include "adapters/kinesis/records.h"
#include "body_block.h"
#include "records_written.h"

enum { RECORDS_MAX = 100 };

struct records_reader {
    bool json;
    ks_err (*read)(struct ks_block *block, size_t begin, uint32_t records_max,
                   struct ks_records *ret_records);
    bool (*again)(ks_view body, const struct ks_batch *batch,
                  uint8_t *buffer); /* records_again.h */
};

static inline void check_view(const struct ks_batch *batch, ks_view view)
{
    assert(view.data >= batch->block->data);
    assert(view.data + view.size <= batch->block->data + batch->block->size);
}

static inline void check_batch(const struct ks_batch *batch)
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
static inline bool read_at(const struct records_reader *reader, size_t begin, ks_view body,
                           enum body_room room, uint8_t *buffer)
{
    struct ks_budget budget;
    struct ks_records records;

    ks_budget_init(&budget, 64 << 20);
    struct ks_block *block = body_block(&budget, begin, body, room, RECORDS_MAX);
    ks_err err = reader->read(block, begin, RECORDS_MAX, &records);
    if (ks_ok(err)) {
        check_batch(&records.batch);
        assert(reader->again(body, &records.batch, buffer));
        assert(records.batch.at_end == (records.iterator[0] == '\0'));
        ks_batch_free(&records.batch);
    } else {
        assert(ks_err_is(err, KS_ERR_MALFORMED));
    }
    assert(budget.used == 0);
    return ks_ok(err);
}

static inline void read_anywhere(const struct records_reader *reader, ks_view body)
{
    uint8_t *buffer = malloc(2 * body.size + 32);

    assert(buffer != NULL);
    bool is_answer = read_at(reader, 0, body, BODY_FITS, buffer);
    assert(read_at(reader, 19, body, BODY_TIGHT, buffer) == is_answer);
    free(buffer);
}

static inline void read_written(const struct records_reader *reader, ks_view choices)
{
    static struct written written;
    struct ks_budget budget;
    struct ks_records records;

    written_answer(&written, reader->json, choices);
    ks_budget_init(&budget, 64 << 20);
    struct ks_block *block =
        body_block(&budget, 0, ks_view_of(written.body, written.size), BODY_FITS, RECORDS_MAX);
    ks_err err = reader->read(block, 0, RECORDS_MAX, &records);
    assert(ks_ok(err));
    assert(written_is(&written, &records));
    ks_batch_free(&records.batch);
}

#endif
