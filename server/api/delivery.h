/* SPDX-License-Identifier: Apache-2.0 */
/* delivery.h - what a session was handed, on its way out: pulled from the switchboard, named,
 * framed.
 *
 * Used by the stream and by the long poll. A record that was settled meanwhile is left out; records
 * that may no longer leave the house before any of them did are given back, in order, to be
 * delivered again.
 */
#ifndef KS_API_DELIVERY_H
#define KS_API_DELIVERY_H

#include "api/frame.h"
#include "ports/switchboard.h"

struct ks_exchange;
struct ks_subscription;

struct ks_delivery {
    const struct ks_subscription *subscription;
    ks_session_id session;
    uint32_t session_epoch;
    struct ks_framer framer;
    struct ks_run runs[KS_BATCH_RUNS_MAX];
    uint32_t run_count;
    uint32_t run_next; /* The first one that the framer has not begun. */
    char batch_id[KS_BATCH_ID_MAX + 1];
    ks_instant now;   /* By the clock, when the present buffer was begun. */
    ks_number passed; /* Of the present run: what is below is out, or was settled meanwhile. */
    size_t head_size; /* What stood before the records of the last batch. */
    bool open;        /* A batch is not closed: its record goes on. */
    /* Records were given back because the lease deadline has passed by the clock, which the core sees in the next turn
     * only: until then it would hand them out again, for ever, and nothing is pulled. Whoever pulls clears it, then. */
    bool late;
    /* Some of a run were written, and the rest was given back: ids of the batch that are out already say too much. */
    bool torn;
};

/* The query parameter `encoding`, base64 if it is absent. False if the exchange was answered (400). */
bool ks_request_encoding(struct ks_exchange *exchange, enum ks_frame_encoding *ret_encoding);

/* The encoding of its framer is base64; another may be set before the first pull. */
void ks_delivery_init(struct ks_delivery *delivery, const struct ks_subscription *subscription,
                      ks_session_id session, enum ks_frame_format format);
/* Takes records; the last ones must be out. False if there are none: then the session's consumer is
 * woken when there are. `batch_id` names them all, which is true unless it is torn. */
bool ks_delivery_pull(struct ks_delivery *delivery, uint32_t max_records, uint64_t max_bytes,
                      uint32_t max_runs);
/* Has `batch_id` name what was pulled, but for what could not be written; "" if that is nothing. */
void ks_delivery_name(struct ks_delivery *delivery);
/* True while something that was pulled is not out. */
bool ks_delivery_pending(const struct ks_delivery *delivery);
/* Writes as ks_framer_fill(), over all runs; MISSING is never told. */
size_t ks_delivery_fill(struct ks_delivery *delivery, uint8_t *buffer, size_t room,
                        enum ks_frame_state *ret_state);
/* Writes one message of a call, or a part of it: the envelope, StreamEvent, RecordBatch, and the records that
 * fit whole, or one larger record as far as there is room. The batch_id names exactly these. The format is one of
 * the ELEMENTs, the pull was of one run. Returns how many bytes; states as above, FULL also between messages. */
size_t ks_delivery_fill_batch(struct ks_delivery *delivery, uint8_t *buffer, size_t room,
                              enum ks_frame_state *ret_state);
/* Gives back what nobody has seen; for an answer that ends early. */
void ks_delivery_give_back(struct ks_delivery *delivery);

#endif
