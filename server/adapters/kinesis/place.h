/* SPDX-License-Identifier: Apache-2.0 */
/* place.h - where a reader of a shard is, and where to ask for it when the server does not follow.
 *
 *  - At LATEST the tip counts as it is at the first asking. When that was lost before anything was delivered, the
 *    instant of open takes its place, by the server's clock and never ahead of it: rather a record too many than a
 *    gap. Without a known instant the tip is asked for again.
 *  - A sequence number that the server does not know (emulators answer so; AWS begins at the horizon when a record was
 *    trimmed): the shard is read from its horizon, and what lies before the place is dropped. The log says that.
 *  - An instant that the server refuses, for its clock has not reached it: five minutes earlier, and not later than the
 *    instant of open.
 *
 *  - A checkpoint is asked for at its record, not after it: Kinesis begins at the horizon without a word when a record
 *    was trimmed, so that only the record itself, which is dropped, shows that nothing behind it has expired. When it
 *    is missing and a later record comes, what lay between may have expired unread.
 *  - Later on, everything that arrived up to `read_ms` was read. When that is older than the retention period of the
 *    stream and another record comes, what lay between may have expired unread. It surely has if the last answer said
 *    that there was more. Reads of an idle shard advance `read_ms`. No loss is reported for a shard without
 *    another record.
 *
 * Pure, but for the log.
 */
#ifndef KS_ADAPTERS_KINESIS_PLACE_H
#define KS_ADAPTERS_KINESIS_PLACE_H

#include "ports/stream_source.h"

struct ks_place {
    struct ks_position from; /* Where the next record is: behind the last one that came. */
    ks_instant opened_at;
    int64_t opened_ms; /* The same by the server's clock, never ahead of it; 0: unknown. */
    bool latest_asked; /* The server was asked for LATEST: another one would be a later tip. */
    bool earlier;      /* The instant lies before the server: ask for one that does not. */
    bool
        from_horizon; /* The server does not know `from`: read from the horizon, drop what is before. */
    bool told_horizon; /* In the log. */
    bool probes;       /* The record of the checkpoint is to come first. */
    int64_t
        read_ms; /* Earlier records were read, or are not wanted. Server clock, Unix ms; 0: unknown. */
    int64_t
        more_ms; /* When the server last said that there was more; 0: it said that there was not. */
};

/* `now_ms`: by the server's clock, never ahead of it; 0: unknown. */
void ks_place_init(struct ks_place *place, const struct ks_position *from, int64_t now_ms);

/* The server's clock shows at least `now_ms` at `now`: says when the place was opened, unless that is known. */
void ks_place_date(struct ks_place *place, int64_t now_ms, ks_instant now);

/* What the server is asked for. */
struct ks_position ks_place_asked(const struct ks_place *place);
/* The server was asked. */
void ks_place_ask(struct ks_place *place);
/* It refused with `err`. True if there is another place to ask for. */
bool ks_place_fall_back(struct ks_place *place, ks_err err);
/* It took the place, so the shard itself is there: says in the log what it fell back to, once. */
void ks_place_tell(struct ks_place *place, const char *shard);

/* The stream as the reader knows it, Unix ms: its clock, never ahead of it, and its retention period; 0: unknown. */
struct ks_place_stream {
    int64_t now_ms;
    int64_t retention_ms;
};

/* Drops the records that lie before the place, and says what expired before the rest. */
void ks_place_take(struct ks_place *place, struct ks_batch *batch,
                   const struct ks_place_stream *stream);
/* All of a batch was handed on, the last record of which arrived at `arrival_ms` (0: there is none). */
void ks_place_passed(struct ks_place *place, int64_t arrival_ms, int64_t millis_behind,
                     const struct ks_place_stream *stream);
/* The place is behind this sequence number from now on. */
void ks_place_move(struct ks_place *place, ks_view sequence);

#endif
