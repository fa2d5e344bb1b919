/* SPDX-License-Identifier: Apache-2.0 */
/* probe.h - whose lease table is this? By its keys, and by what stands in its rows.
 *
 * No two dialects have the same keys, so that a table tells itself. Its rows are looked at all the same: where somebody
 * gave two applications one table, each takes the other's rows for damaged ones, or for none, and reads every record
 * again. The names are those in the sources of the libraries; tests/vectors/dialects has tables of each. Pure.
 */
#ifndef KS_ADAPTERS_DIALECTS_PROBE_H
#define KS_ADAPTERS_DIALECTS_PROBE_H

#include "adapters/item.h"

/* The dialect, as --dialect says it, of tables with this hash key and this range key ("": none); NULL: nobody's that we
 * know. */
const char *ks_probe_keys(const char *hash, const char *range);

/* The attributes of one row that are marks of some dialect. Zero-initialise it. */
enum { KS_PROBE_DIALECTS_MAX = 8 };
struct ks_probe {
    uint8_t marks[KS_PROBE_DIALECTS_MAX]; /* Bits. */
};
void ks_probe_see(struct ks_probe *probe, ks_view attribute);
/* The dialect of whose marks the row has two or more, though its table, which has `schema`, knows none of them; NULL:
 * it is as it should be. */
const char *ks_probe_stranger(const struct ks_probe *probe, const struct ks_schema *schema);

#endif
