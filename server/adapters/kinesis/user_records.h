/* SPDX-License-Identifier: Apache-2.0 */
/* user_records.h - a source before another one, that takes KPL aggregates apart (aggregate.h).
 *
 * It asks the source behind it, and passes everything on but for what reads bring:
 *  - an aggregate becomes its user records, with its sequence number and the sub-sequence numbers 0, 1, 2 ..; they are
 *    views into the payload of the source behind, which lives until the last of them is gone;
 *  - a broken one is delivered as it is, with record->aggregated, never dropped;
 *  - a user record whose hash key is outside of the shard's range is passed over: it came here while the stream was
 *    resharded, and its producer, who sees that, puts it again (retrier.cc of the KPL). The others of its aggregate are
 *    not put again, so they are delivered;
 *  - what is more than a read asked for answers the next ones, in later turns, before anything else is read;
 *  - from a place inside an aggregate, user records up to that place are passed over.
 * Each of these has a metric; the first broken aggregate and the first foreign record of a reader are told in the log.
 * A batch without aggregates is passed on untouched.
 *
 * Memory: the arrays of user records are charged to the reader's budget. When that is full, FULL is the answer, unless
 * nobody but us has anything of this payload: then a small batch leaves beyond the limit, for it frees more than it
 * takes.
 */
#ifndef KS_ADAPTERS_KINESIS_USER_RECORDS_H
#define KS_ADAPTERS_KINESIS_USER_RECORDS_H

#include "base/loop.h"
#include "ports/stream_source.h"

enum {
    /* Records that a batch has room for at first; it doubles as they come. What leaves beyond the budget is at most
     * so many for each reader. */
    KS_USER_RECORDS_FIRST = 64
};

/* A source before `behind`, which is its own from now on: closed with it. It counts for `subscription`, which outlives
 * it. NO_MEMORY; then `behind` is untouched. */
KS_MUST_USE ks_err ks_user_records_source_open(struct ks_loop *loop, const char *subscription,
                                               struct ks_stream_source *behind,
                                               struct ks_stream_source **ret_source);

#endif
