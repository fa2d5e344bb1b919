/* SPDX-License-Identifier: Apache-2.0 */
/* foreign_row.h - any values in a row of others' table, a line each: the row is read or damaged, and a time that is
 * read is written as it was. */
#ifndef KS_FUZZ_FOREIGN_ROW_H
#define KS_FUZZ_FOREIGN_ROW_H

#include "adapters/dialects/dialect.h"

#include <assert.h>

struct foreign_times {
    ks_err (*get)(ks_view text, uint64_t *ret_ns);
    ks_err (*put)(struct ks_bytes *bytes, uint64_t ns);
};

static inline void expect_spelling(const struct foreign_times *times, ks_view text)
{
    struct ks_bytes bytes;
    uint64_t ns;

    if (!ks_ok(times->get(text, &ns)))
        return;
    ks_bytes_init(&bytes, 64);
    assert(ns != 0);
    assert(ks_ok(times->put(&bytes, ns)));
    assert(ks_view_equal(ks_bytes_view(&bytes), text));
    ks_bytes_free(&bytes);
}

static inline void expect_sense(const struct ks_store_lease *lease)
{
    if (lease->damaged)
        return;
    assert(!lease->finished || lease->checkpoint.kind == KS_POSITION_SHARD_END);
    assert(!lease->finished || !lease->masked);
    assert(lease->finished || lease->checkpoint.kind != KS_POSITION_SHARD_END);
}

static inline void read_foreign_row(const struct ks_dialect *dialect,
                                    const struct foreign_times *times, const uint8_t *data,
                                    size_t size)
{
    const struct ks_schema *const schema = dialect->tables[0].schema;
    struct ks_native_rows rows = {.workers = NULL};
    ks_view rest = ks_view_of(data, size);
    struct ks_item item;

    ks_item_init(&item, schema);
    item.k = ks_view_cut(&rest, '\n');
    for (uint32_t at = 0; at < schema->count && rest.size != 0; at++) {
        item.texts[at] = ks_view_cut(&rest, '\n');
        expect_spelling(times, item.texts[at]);
        /* A lone minus: it is not there; a lone number sign: not of this type. */
        item.presence[at] = ks_view_equal(item.texts[at], KS_VIEW("-"))   ? KS_ABSENT
                            : ks_view_equal(item.texts[at], KS_VIEW("#")) ? KS_STRANGE
                                                                          : KS_PRESENT;
    }
    if (ks_ok(dialect->add(&rows, &item, NULL))) {
        assert(rows.lease_count == 1);
        expect_sense(&rows.leases[0]);
    }
    ks_native_rows_free(&rows);
}

#endif
