/* SPDX-License-Identifier: Apache-2.0 */
/* convert.h - a lease row of one dialect as a row of another: what it will say there, and what is lost on the way.
 *
 * Nothing is known of any dialect here: the row is written as KS_STORE_MEND would, into no table, and read again. What
 * it says then is what the target can hold. Pure.
 */
#ifndef KS_ADAPTERS_DIALECTS_CONVERT_H
#define KS_ADAPTERS_DIALECTS_CONVERT_H

#include "adapters/dialects/dialect.h"

struct ks_conversion {
    struct ks_store_lease
        lease; /* What is to be written: the position, and the family; free, from the beginning. */
    struct ks_store_lease held; /* What the target says then. */
    /* It has no position, and the target no word for that: no row is written. Who reads the shard begins it where its
     * own configuration says, as it would have done before. */
    bool left_out;
    /* The position stands where we alone read it: members of the fleet, who know sequence numbers alone, begin at the
     * initial position of their configuration. */
    bool unseen;
    /* Members read the record that the position is inside of once more, from its beginning. */
    bool again;
    /* The number 0 inside a record, which KCL also writes for records that are no aggregates: members go on behind all
     * of it. */
    bool passed;
    bool family_lost; /* A parent or children; the stream knows them. */
    bool range_lost;  /* The hash-key range; the stream knows it. */
};

/* The row of `from`, which is not damaged, in the dialect `to`; `stream`: whose it is there, of several, or "". With a
 * detail: UNSUPPORTED (the target cannot hold this position), INVALID; NO_MEMORY. */
KS_MUST_USE ks_err ks_convert(const struct ks_dialect *to, const char *stream,
                              const struct ks_store_lease *from, struct ks_conversion *ret,
                              struct ks_detail *ret_detail);

/* True if both say the same of the position, for us and for members, of the family and of the range of a shard that
 * nobody owns or claims. */
bool ks_convert_agrees(const struct ks_store_lease *held, const struct ks_store_lease *found);

/* What the row will say once KS_STORE_MEND has written `lease` where there was no row. UNSUPPORTED and INVALID as
 * above; NO_MEMORY. */
KS_MUST_USE ks_err ks_convert_held(const struct ks_dialect *to, const struct ks_store_lease *lease,
                                   struct ks_store_lease *ret_held, struct ks_detail *ret_detail);

/* The request that makes the row say `lease`, which it keeps pointing to, at `unix_ns`; `was`: the row as it was read,
 * NULL if there is none. Its timeout and whom to answer are the caller's. */
struct ks_store_request ks_mend_request(const struct ks_store_lease *lease,
                                        const struct ks_store_lease *was, uint64_t unix_ns);

#endif
