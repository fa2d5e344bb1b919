/* SPDX-License-Identifier: Apache-2.0 */
/* kcl.c - any values in a row of the KCL's table, a line each: the row is read, damaged or left out; and what was read
 * can be written.
 */
#include "adapters/dialects/kcl.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect_writable(const struct ks_store_lease *lease)
{
    const struct ks_store_request request = {
        .operation = lease->rev % 2 == 0 && lease->checkpoint.kind == KS_POSITION_AFTER_SEQUENCE
                         ? KS_STORE_CHECKPOINT
                         : KS_STORE_TAKE_OVER,
        .shard = lease->shard,
        .worker = {.id = "me"},
        .owner = lease->owner,
        .rev = lease->rev,
        .has_checkpoint = true,
        .checkpoint = lease->checkpoint,
    };
    struct ks_item_write write;

    assert(ks_ok(ks_kcl_dialect.write(&request, &write, NULL)) || lease->rev >= INT64_MAX);
    ks_item_write_free(&write);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct ks_dialect *const dialect = &ks_kcl_dialect;
    const struct ks_schema *const schema = dialect->tables[0].schema;
    struct ks_native_rows rows = {.workers = NULL};
    ks_view rest = ks_view_of(data, size);
    struct ks_detail detail;
    uint8_t texts[4096];
    struct ks_item item;

    if (size > sizeof(texts))
        return 0;
    ks_item_init(&item, schema);
    item.k = ks_view_cut(&rest, '\n');
    for (uint32_t at = 0; at < schema->count && rest.size != 0; at++) {
        const ks_view text = ks_view_cut(&rest, '\n');
        uint8_t *const copy = texts + (text.size == 0 ? 0 : text.data - data);

        /* A set's members stand between bars. */
        for (size_t i = 0; i < text.size; i++)
            copy[i] = text.data[i] == '|' ? (uint8_t)'\n' : text.data[i];
        item.texts[at] = ks_view_of(copy, text.size);
        /* A lone minus: it is not there; a lone number sign: not of this type. */
        item.presence[at] = ks_view_equal(item.texts[at], KS_VIEW("-"))   ? KS_ABSENT
                            : ks_view_equal(item.texts[at], KS_VIEW("#")) ? KS_STRANGE
                                                                          : KS_PRESENT;
    }
    if (ks_ok(dialect->add(&rows, &item, &detail)) && rows.lease_count > 0) {
        const struct ks_store_lease *const lease = &rows.leases[0];

        assert(rows.lease_count == 1);
        assert(lease->damaged ||
               lease->finished == (lease->checkpoint.kind == KS_POSITION_SHARD_END));
        if (!lease->damaged)
            expect_writable(lease);
    }
    ks_native_rows_free(&rows);
    return 0;
}
