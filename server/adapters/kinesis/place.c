/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/kinesis/place.h"

#include "base/log.h"
#include "ports/batches.h"

#include <assert.h>

enum {
    /* Between our clock and the server's, for a position that is an instant. */
    CLOCK_MARGIN_MS = 1000,
    /* So far apart they are at most: then AWS refuses signatures, and we learn its time. */
    CLOCK_SKEW_MS = 300000
};

void ks_place_init(struct ks_place *place, const struct ks_position *from, int64_t now_ms)
{
    *place = (struct ks_place){.from = *from, .opened_ms = now_ms};
}

void ks_place_date(struct ks_place *place, int64_t now_ms, ks_instant now)
{
    if (place->opened_ms == 0 && now_ms > 0)
        place->opened_ms = now_ms - ks_span_to_ms(ks_instant_since(now, place->opened_at));
}

struct ks_position ks_place_asked(const struct ks_place *place)
{
    struct ks_position position = place->from;

    if (place->from_horizon)
        return (struct ks_position){.kind = KS_POSITION_TRIM_HORIZON, .sub_sequence = -1};
    if (position.kind == KS_POSITION_LATEST && place->latest_asked && place->opened_ms > 0) {
        position.kind = KS_POSITION_AT_TIMESTAMP;
        position.timestamp_ms = place->opened_ms - CLOCK_MARGIN_MS;
    }
    if (position.kind == KS_POSITION_AT_TIMESTAMP && place->earlier) {
        position.timestamp_ms -= CLOCK_SKEW_MS;
        if (place->opened_ms > 0 && place->opened_ms - CLOCK_MARGIN_MS < position.timestamp_ms)
            position.timestamp_ms = place->opened_ms - CLOCK_MARGIN_MS;
    }
    return position;
}

void ks_place_ask(struct ks_place *place)
{
    place->latest_asked = true;
}

bool ks_place_fall_back(struct ks_place *place, ks_err err)
{
    bool refused = ks_err_is(err, KS_ERR_INVALID);
    bool *falls = NULL;

    switch (ks_place_asked(place).kind) {
    case KS_POSITION_AFTER_SEQUENCE:
    case KS_POSITION_AT_SEQUENCE:
        if (refused || ks_err_is(err, KS_ERR_NOT_FOUND))
            falls = &place->from_horizon;
        break;
    case KS_POSITION_AT_TIMESTAMP:
        if (refused)
            falls = &place->earlier;
        break;
    case KS_POSITION_TRIM_HORIZON:
    case KS_POSITION_LATEST:
    case KS_POSITION_SHARD_END: break;
    }
    if (falls == NULL || *falls)
        return false;
    *falls = true;
    return true;
}

void ks_place_tell(struct ks_place *place, const char *shard)
{
    if (!place->from_horizon || place->told_horizon)
        return;
    place->told_horizon = true;
    ks_warn(
        "%s: the stream does not know sequence number %.60s; reading the shard from its horizon, "
        "and dropping what lies before that number",
        shard, place->from.sequence);
}

void ks_place_trim(struct ks_place *place, struct ks_batch *batch)
{
    int least = 1;

    if (!place->from_horizon)
        return;
    if (place->from.kind == KS_POSITION_AT_SEQUENCE || place->from.sub_sequence >= 0)
        least = 0;
    while (batch->count > 0) {
        int order = ks_position_compare(batch->records[0].sequence, -1,
                                        ks_view_text(place->from.sequence), -1);
        if (order >= least) {
            place->from_horizon = false;
            return;
        }
        batch->records++;
        batch->count--;
    }
}

void ks_place_move(struct ks_place *place, ks_view sequence)
{
    place->from = (struct ks_position){.kind = KS_POSITION_AFTER_SEQUENCE, .sub_sequence = -1};
    ks_err err = ks_view_copy_text(sequence, place->from.sequence, sizeof(place->from.sequence));
    assert(ks_ok(err));
    (void)err;
}
