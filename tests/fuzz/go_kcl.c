/* SPDX-License-Identifier: Apache-2.0 */
/* go_kcl.c - any values in a row of vmware-go-kcl's table, a line each: the row is read or damaged, and a time that is
 * read is written as it was.
 */
#include "adapters/dialects/go_kcl.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect_spelling(ks_view text)
{
    struct ks_bytes bytes;
    uint64_t ns;

    if (!ks_ok(ks_go_kcl_get_time(text, &ns)))
        return;
    ks_bytes_init(&bytes, 64);
    assert(ns != 0);
    assert(ks_ok(ks_go_kcl_put_time(&bytes, ns)));
    assert(ks_view_equal(ks_bytes_view(&bytes), text));
    ks_bytes_free(&bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct ks_dialect *const dialect = &ks_go_kcl_dialect;
    struct ks_native_rows rows = {.workers = NULL};
    ks_view rest = ks_view_of(data, size);
    struct ks_item item;

    ks_item_init(&item, dialect->tables[0].schema);
    item.k = ks_view_cut(&rest, '\n');
    for (uint32_t at = 0; at < dialect->tables[0].schema->count && rest.size != 0; at++) {
        item.texts[at] = ks_view_cut(&rest, '\n');
        expect_spelling(item.texts[at]);
        /* A lone minus: it is not there; a lone number sign: not of this type. */
        item.presence[at] = ks_view_equal(item.texts[at], KS_VIEW("-"))   ? KS_ABSENT
                            : ks_view_equal(item.texts[at], KS_VIEW("#")) ? KS_STRANGE
                                                                          : KS_PRESENT;
    }
    if (ks_ok(dialect->add(&rows, &item, NULL))) {
        const struct ks_store_lease *const lease = &rows.leases[0];

        assert(rows.lease_count == 1);
        assert(lease->damaged || !lease->finished ||
               lease->checkpoint.kind == KS_POSITION_SHARD_END);
        assert(lease->damaged || lease->finished || lease->unstarted ||
               lease->checkpoint.kind == KS_POSITION_AFTER_SEQUENCE);
    }
    ks_native_rows_free(&rows);
    return 0;
}
