/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/local/play.h"

#include "base/loop.h"

#include <assert.h>

/* A thousand years: what is further away does not overflow the clock. */
#define AHEAD_MS_MAX (INT64_C(1) << 45)

void ks_local_play_begin(struct ks_local_play *play, int64_t origin_ms, ks_instant now)
{
    assert(play->speed > 0 && play->speed <= KS_LOCAL_SPEED_MAX);
    assert(!play->begun);
    play->begun = true;
    /* The instant may be any number: it comes from a request. */
    play->origin_ms = origin_ms < 1 ? 1 : origin_ms > AHEAD_MS_MAX ? AHEAD_MS_MAX : origin_ms;
    play->began = now;
}

int64_t ks_local_play_clock(const struct ks_local_play *play, ks_instant now)
{
    const int64_t passed_us = ks_instant_since(now, play->began).us;

    assert(play->begun);
    return play->origin_ms + passed_us / 1000 * play->speed + passed_us % 1000 * play->speed / 1000;
}

ks_instant ks_local_play_due(const struct ks_local_play *play, int64_t arrival_ms)
{
    int64_t ahead_ms = arrival_ms > play->origin_ms ? arrival_ms - play->origin_ms : 0;

    assert(play->begun);
    if (ahead_ms > AHEAD_MS_MAX)
        ahead_ms = AHEAD_MS_MAX;
    /* Rounded up: at this instant the clock shows it. */
    return ks_instant_add(play->began,
                          ks_span_us((ahead_ms * 1000 + play->speed - 1) / play->speed));
}

/* Before the clock has begun, nothing is there: 1. */
static ks_err ask_clock(struct ks_local_db *db, struct ks_local_play *play, bool reads,
                        struct ks_local_cursor *cursor, int64_t *ret_ms, struct ks_detail *detail)
{
    const ks_instant now = ks_instant_now();
    int64_t origin_ms = 0;

    if (!play->begun && reads) {
        ks_err err = ks_local_first(db, cursor, &origin_ms, detail);

        /* No record yet; the look reports a shard that is gone. */
        if (!ks_ok(err) && !ks_err_is(err, KS_ERR_NOT_FOUND))
            return err;
        if (ks_ok(err))
            ks_local_play_begin(play, origin_ms, now);
    }
    *ret_ms = play->begun ? ks_local_play_clock(play, now) : 1;
    return KS_OK;
}

ks_err ks_local_play_look(struct ks_local_db *db, struct ks_local_play *play, bool reads,
                          struct ks_local_cursor *cursor, uint32_t records_max, uint32_t bytes_max,
                          int64_t now_ms, struct ks_local_look *ret_look, struct ks_detail *detail)
{
    if (play->speed > 0) {
        KS_TRY(ask_clock(db, play, reads, cursor, &now_ms, detail));
        cursor->until_ms = now_ms;
    }
    return ks_local_look(db, cursor, records_max, bytes_max, now_ms, ret_look, detail);
}
