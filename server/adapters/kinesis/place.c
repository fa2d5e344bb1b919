/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/kinesis/place.h"

#include "adapters/local/sequence.h"
#include "base/log.h"
#include "ports/batches.h"

#include <assert.h>

enum {
    /* So far apart they are at most: then AWS refuses signatures, and we learn its time. */
    CLOCK_SKEW_MS = 300000
};

void ks_place_init(struct ks_place *place, const struct ks_position *from, int64_t now_ms)
{
    *place = (struct ks_place){.from = *from, .opened_ms = now_ms};
    place->probes = from->kind == KS_POSITION_AFTER_SEQUENCE;
    if (from->kind == KS_POSITION_AT_TIMESTAMP)
        place->read_ms = from->timestamp_ms;
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
    if (position.kind == KS_POSITION_AFTER_SEQUENCE && place->probes)
        position.kind = KS_POSITION_AT_SEQUENCE;
    if (position.kind == KS_POSITION_LATEST && place->latest_asked && place->opened_ms > 0) {
        position.kind = KS_POSITION_AT_TIMESTAMP;
        position.timestamp_ms = place->opened_ms;
    }
    if (position.kind == KS_POSITION_AT_TIMESTAMP && place->earlier) {
        /* A row may say any number. */
        position.timestamp_ms =
            position.timestamp_ms > CLOCK_SKEW_MS ? position.timestamp_ms - CLOCK_SKEW_MS : 0;
        if (place->opened_ms > 0 && place->opened_ms < position.timestamp_ms)
            position.timestamp_ms = place->opened_ms;
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

/* Drops what lies before the place. True if the first record that is left lies behind it, and the record of the place
 * itself did not come. */
static bool skip_to_place(struct ks_place *place, struct ks_batch *batch)
{
    const bool keeps = place->from.kind == KS_POSITION_AT_SEQUENCE || place->from.sub_sequence >= 0;
    const int least = keeps ? 0 : 1;

    while (batch->count > 0) {
        int order = ks_position_compare(batch->records[0].sequence, -1,
                                        ks_view_text(place->from.sequence), -1);
        bool missing = order > 0 && place->probes;

        if (order >= 0)
            place->probes = false;
        if (order >= least) {
            place->from_horizon = false;
            return missing;
        }
        batch->records++;
        batch->count--;
    }
    return false;
}

/* When the record of a checkpoint arrived, by the layout that sequence numbers are known to have; 0: unknown. */
static int64_t arrival_of(const struct ks_position *position)
{
    struct ks_local_sequence sequence;

    if (!ks_ok(ks_local_sequence_parse(ks_view_text(position->sequence), &sequence)))
        return 0;
    return (int64_t)sequence.second * 1000;
}

static int64_t horizon_of(const struct ks_place_stream *stream)
{
    return stream->now_ms > 0 && stream->retention_ms > 0 ? stream->now_ms - stream->retention_ms
                                                          : 0;
}

/* The record of the checkpoint is gone, and this one comes. */
static struct ks_expired since_checkpoint(const struct ks_place *place,
                                          const struct ks_record *first,
                                          const struct ks_place_stream *stream)
{
    struct ks_expired expired = {.found = true, .certain = place->from.sub_sequence >= 0};
    int64_t horizon_ms = horizon_of(stream);

    expired.from_ms = arrival_of(&place->from);
    expired.to_ms = first->arrival_ms;
    if (horizon_ms > 0 && horizon_ms < expired.to_ms)
        expired.to_ms = horizon_ms;
    /* It was never a record of this stream, if it is too young to have expired. */
    if (expired.from_ms > 0 && expired.from_ms >= expired.to_ms)
        expired.found = false;
    return expired;
}

static struct ks_expired since_read(const struct ks_place *place, const struct ks_record *first,
                                    const struct ks_place_stream *stream)
{
    struct ks_expired expired = {.from_ms = place->read_ms, .to_ms = horizon_of(stream)};

    expired.found =
        place->read_ms > 0 && place->read_ms < expired.to_ms && first->arrival_ms >= expired.to_ms;
    expired.certain = place->more_ms > 0 && place->more_ms < expired.to_ms;
    return expired;
}

void ks_place_take(struct ks_place *place, struct ks_batch *batch,
                   const struct ks_place_stream *stream)
{
    const bool tip = batch->count == 0 && batch->millis_behind == 0;
    bool missing = false;

    if (place->probes || place->from_horizon)
        missing = skip_to_place(place, batch);
    /* There is nothing behind the checkpoint, and nothing is known to have been. */
    if (tip)
        place->probes = false;
    if (missing)
        batch->expired = since_checkpoint(place, &batch->records[0], stream);
    else if (batch->count > 0 && !place->probes)
        batch->expired = since_read(place, &batch->records[0], stream);
}

void ks_place_passed(struct ks_place *place, int64_t arrival_ms, int64_t millis_behind,
                     const struct ks_place_stream *stream)
{
    int64_t read_ms = arrival_ms;

    if (millis_behind >= 0 && stream->now_ms - millis_behind > read_ms)
        read_ms = stream->now_ms - millis_behind;
    if (read_ms > place->read_ms)
        place->read_ms = read_ms;
    if (millis_behind >= 0)
        place->more_ms = millis_behind > 0 ? stream->now_ms : 0;
}

void ks_place_move(struct ks_place *place, ks_view sequence)
{
    place->from = (struct ks_position){.kind = KS_POSITION_AFTER_SEQUENCE, .sub_sequence = -1};
    place->probes = false;
    ks_err err = ks_view_copy_text(sequence, place->from.sequence, sizeof(place->from.sequence));
    assert(ks_ok(err));
    (void)err;
}
