/* SPDX-License-Identifier: Apache-2.0 */
/* timers.h - the timers of a loop: a binary heap, the earliest on top.
 *
 * The room for all of them is there from the start (its pages are touched as they are needed), so that setting a timer
 * never fails. Owned by base/loop.c; others use loop.h.
 */
#ifndef KS_BASE_TIMERS_H
#define KS_BASE_TIMERS_H

#include "base/err.h"
#include "base/instant.h"
#include "base/loop.h"

/* Timers set at one time: some for every shard, connection and session there can be. */
enum { KS_TIMERS_MAX = 1 << 18 };

struct ks_timers {
    struct ks_timer **heap; /* The timer with place p lies at p - 1. */
    uint32_t count;
};

/* NO_MEMORY. */
KS_MUST_USE ks_err ks_timers_init(struct ks_timers *timers);
void ks_timers_free(struct ks_timers *timers);
/* Sets a timer, or moves one that is set. */
void ks_timers_set(struct ks_timers *timers, struct ks_timer *timer, ks_instant at);
/* Does nothing if it is not set. */
void ks_timers_clear(struct ks_timers *timers, struct ks_timer *timer);
/* When the first is due; KS_NEVER without any. */
ks_instant ks_timers_next(const struct ks_timers *timers);
/* Clears and returns the first timer if it is due, else NULL. */
struct ks_timer *ks_timers_take_due(struct ks_timers *timers, ks_instant now);

#endif
