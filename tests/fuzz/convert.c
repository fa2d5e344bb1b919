/* SPDX-License-Identifier: Apache-2.0 */
/* convert.c - any item of a lease table, as JSON behind a byte that names the dialect: each row that is read goes to
 * each dialect, or it is said why not, and what was written there comes back to the same place.
 */
#include "adapters/dialects/convert.h"

#include "adapters/dynamodb/wire.h"
#include "base/budget.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What is behind a record is 0 inside it for the KCL. */
static void expect_place(const struct ks_store_lease *found, const struct ks_store_lease *expected)
{
    const struct ks_position *const a = &found->checkpoint;
    const struct ks_position *const b = &expected->checkpoint;

    assert(found->finished == expected->finished);
    assert(found->unstarted == expected->unstarted);
    if (expected->finished || expected->unstarted)
        return;
    assert(a->kind == b->kind);
    assert(strcmp(a->sequence, b->sequence) == 0);
    assert(a->timestamp_ms == b->timestamp_ms);
    if (a->sub_sequence > 0 || b->sub_sequence > 0)
        assert(a->sub_sequence == b->sub_sequence);
}

static void there_and_back(const struct ks_dialect *from, const struct ks_dialect *to,
                           const struct ks_store_lease *lease)
{
    const char *const stream = to == from ? lease->stream : "";
    struct ks_detail detail = {""};
    struct ks_conversion there;
    struct ks_conversion again;
    struct ks_conversion back;

    if (!ks_ok(ks_convert(to, stream, lease, &there, &detail))) {
        assert(detail.text[0] != '\0');
        return;
    }
    if (there.left_out)
        return;
    assert(strcmp(there.held.shard, lease->shard) == 0);
    assert(there.held.owner.id[0] == '\0' && there.held.next_owner.id[0] == '\0');
    expect_place(&there.held, &there.lease);
    assert(ks_convert_agrees(&there.held, &there.held));
    assert(ks_ok(ks_convert(to, stream, &there.held, &again, &detail)));
    assert(ks_convert_agrees(&again.held, &there.held));
    /* LATEST since a moment is an instant elsewhere, for which the KCL has no place. */
    if (lease->checkpoint.kind == KS_POSITION_LATEST && lease->checkpoint.timestamp_ms > 0)
        return;
    assert(ks_ok(ks_convert(from, lease->stream, &there.held, &back, &detail)));
    if (!back.left_out)
        expect_place(&back.held, &there.lease);
}

static void convert(const struct ks_dialect *from, const struct ks_json *document)
{
    struct ks_native_rows rows = {.workers = NULL};
    struct ks_detail detail;
    struct ks_bytes texts;
    struct ks_item item;

    ks_bytes_init(&texts, 1 << 20);
    if (ks_ok(ks_dynamodb_read_item(document, from->tables[0].schema, &texts, &item))) {
        item.asked = &rows.asked;
        if (ks_ok(from->add(&rows, &item, &detail)))
            for (uint32_t at = 0; at < rows.lease_count; at++)
                for (uint32_t i = 0; !rows.leases[at].damaged && ks_dialect_at(i) != NULL; i++)
                    there_and_back(from, ks_dialect_at(i), &rows.leases[at]);
    }
    ks_native_rows_free(&rows);
    ks_bytes_free(&texts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ks_json *document = NULL;
    uint32_t count = 0;

    if (size == 0 || !ks_ok(ks_json_parse(ks_view_of(data + 1, size - 1), &document)))
        return 0;
    while (ks_dialect_at(count) != NULL)
        count++;
    convert(ks_dialect_at(data[0] % count), document);
    ks_json_free(document);
    assert(ks_alloc_live() == 0);
    return 0;
}
