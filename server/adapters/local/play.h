/* SPDX-License-Identifier: Apache-2.0 */
/* play.h - the clock of a local stream that is played: its records come at the pace at which they arrived, times a
 * speed.
 *
 * The clock begins with the first read that finds a record, at the arrival of the record where the stream is to begin
 * (ks_local_first). A record is there when its arrival is not after the clock. Several shards share one clock. It is
 * not kept: a process that restarts begins at the first record behind its checkpoints. Used by one thread at a time.
 */
#ifndef KS_ADAPTERS_LOCAL_PLAY_H
#define KS_ADAPTERS_LOCAL_PLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "adapters/local/read.h"
#include "base/instant.h"

enum { KS_LOCAL_SPEED_MAX = 1000 };

struct ks_local_play {
    uint32_t
        speed; /* Seconds of the stream in one second, 1 .. KS_LOCAL_SPEED_MAX; 0: it is not played. */
    bool begun;
    int64_t origin_ms; /* Of the stream, Unix ms, when .. */
    ks_instant began;  /* .. it was this instant here. */
};

/* The clock shows `origin_ms` now, but at least 1 and at most 2^45. */
void ks_local_play_begin(struct ks_local_play *play, int64_t origin_ms, ks_instant now);
/* The time that the clock shows, Unix ms. Only after it was started. */
int64_t ks_local_play_clock(const struct ks_local_play *play, ks_instant now);
/* When the clock will show `arrival_ms`; in the past if it shows that already. Only after it was started. */
ks_instant ks_local_play_due(const struct ks_local_play *play, int64_t arrival_ms);

/* Calls ks_local_look() for the records that are there by the clock; all of them if the stream is not played. `reads`:
 * the look is for a read, which begins the clock if it has not begun. */
KS_MUST_USE ks_err ks_local_play_look(struct ks_local_db *db, struct ks_local_play *play,
                                      bool reads, struct ks_local_cursor *cursor,
                                      uint32_t records_max, uint32_t bytes_max, int64_t now_ms,
                                      struct ks_local_look *ret_look, struct ks_detail *detail);

#endif
