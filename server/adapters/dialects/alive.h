/* SPDX-License-Identifier: Apache-2.0 */
/* alive.h - whether somebody works with a lease table: what its rows say at a moment, and what moves until the next.
 *
 * Signs of life: the time of an owner that is not over yet (go-kcl), a client that was heard of lately (kinsumer);
 * between two readings, a worker row that beats or is new, and a lease row that was written. A fleet that rests moves
 * nothing for as long as its leases last. Pure.
 */
#ifndef KS_ADAPTERS_DIALECTS_ALIVE_H
#define KS_ADAPTERS_DIALECTS_ALIVE_H

#include "adapters/dialects/dialect.h"

/* A table at a moment; owned by the caller. */
struct ks_reading {
    const struct ks_store_lease
        *leases; /* By their streams, if there are several, and shard ids. */
    uint32_t lease_count;
    const struct ks_store_worker *workers;
    uint32_t worker_count;
};

/* True if the reading itself, at `unix_ns` of our clock, shows life; the sign is a sentence in `ret_sign`. `life`: for
 * how long a worker lives that is not heard of. */
bool ks_reading_lives(const struct ks_dialect *dialect, const struct ks_reading *reading,
                      ks_span life, uint64_t unix_ns, struct ks_detail *ret_sign);
/* True if something has moved since `before`. */
bool ks_reading_moved(const struct ks_reading *before, const struct ks_reading *now,
                      struct ks_detail *ret_sign);
/* Likewise of one row; NULL: there was, or is, none. */
bool ks_reading_row_moved(const struct ks_store_lease *before, const struct ks_store_lease *now);

/* The row of a shard (`stream`: of which of several; "": of one), a worker; NULL: none. */
const struct ks_store_lease *ks_reading_lease(const struct ks_reading *reading, const char *stream,
                                              const char *shard);
const struct ks_store_worker *ks_reading_worker(const struct ks_reading *reading, const char *id);

#endif
