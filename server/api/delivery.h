/* SPDX-License-Identifier: Apache-2.0 */
/* delivery.h - the records that a session was assigned, on their way into its connection: pulled from the switchboard,
 * named, framed, and reported.
 *
 * Used by the stream and by the long poll. The core decides about each record: this file asks it before a record is
 * begun, and reports when it is begun, when its last byte is in the socket, and when that will not be. A record that
 * was settled or taken back since it was pulled is left out. A record that is half-way is finished, whatever becomes of
 * it, while its lease may send; it stays in memory meanwhile.
 */
#ifndef KS_API_DELIVERY_H
#define KS_API_DELIVERY_H

#include "api/frame.h"
#include "ports/switchboard.h"

struct ks_exchange;
struct ks_subscription;

enum {
    KS_UNSENT_RUNS_MAX = 64,  /* Runs without a gap that one buffer may have. */
    KS_UNSENT_ENDS_MAX = 1024 /* Records of one buffer of which the end is known. */
};

struct ks_delivery {
    const struct ks_subscription *subscription;
    ks_session_id session;
    uint32_t session_epoch;
    struct ks_framer framer;
    struct ks_run runs[KS_BATCH_RUNS_MAX];
    uint32_t run_count;
    uint32_t run_next; /* The first run that the framer has not begun. */
    /* Records that were handed to the connection and are not known to be in the socket. */
    struct ks_run unsent[KS_UNSENT_RUNS_MAX + 1];
    uint32_t unsent_count;
    /* The framer's `ends` are theirs, in the same order; those below are in the socket. Of a record that has none, as
     * there was no room, it is known that it is in the socket when all is. */
    uint32_t ends_first;
    uint32_t ends_begin;        /* The first one of the last fill. */
    uint64_t produced;          /* Bytes of the answer that were produced, .. */
    uint64_t sent;              /* .. and how many of these are in the socket. */
    struct ks_held_record held; /* The record that is half-way. */
    /* Of the present run, from the number `ready_first` on: they may be begun before the next report. */
    const struct ks_record *ready;
    ks_number ready_first;
    uint32_t ready_count;
    char batch_id[KS_BATCH_ID_MAX + 1];
    ks_instant now;   /* By the clock, when the present buffer was begun. */
    bool may_begin;   /* By it the lease of the present run may send its records. */
    ks_number passed; /* Of the present run: records below were handed over, or left out. */
    size_t head_size; /* Bytes before the records of the last batch. */
    bool open;        /* A batch is not closed: its record continues. */
    /* Records were returned because the lease deadline has passed by the clock. The core sees that in the next turn
     * only, and would assign them again until then: nothing is pulled. The caller of pull clears it in each turn. */
    bool late;
};

/* The query parameter `encoding`, base64 if it is absent. False if the exchange was answered (400). */
bool ks_request_encoding(struct ks_exchange *exchange, enum ks_frame_encoding *ret_encoding);

/* The encoding of its framer is base64; another may be set before the first pull. */
void ks_delivery_init(struct ks_delivery *delivery, const struct ks_subscription *subscription,
                      ks_session_id session, enum ks_frame_format format);
/* Takes records; the last ones must be out. False if there are none: then the session's consumer is woken when there
 * are. `batch_id` names all of them; a settlement by it counts for those that were written. */
bool ks_delivery_pull(struct ks_delivery *delivery, uint32_t max_records, uint64_t max_bytes,
                      uint32_t max_runs);
/* Takes more records for the same batch; the last ones must be out. False if there are none, none is small enough, the
 * batch has KS_BATCH_RUNS_MAX runs, or the session is over or pulled for another answer. `batch_id` does not name them
 * yet. */
bool ks_delivery_pull_more(struct ks_delivery *delivery, uint32_t max_records, uint64_t max_bytes);
/* Has `batch_id` name the runs that were pulled; "" if there are none. */
void ks_delivery_name(struct ks_delivery *delivery);
/* True while some records that were pulled were not handed over. */
bool ks_delivery_pending(const struct ks_delivery *delivery);
/* Writes as ks_framer_fill(), over all runs. Never returns MISSING. FULL also when as many runs wait to be sent as
 * there is room for. */
size_t ks_delivery_fill(struct ks_delivery *delivery, uint8_t *buffer, size_t room,
                        enum ks_frame_state *ret_state);
/* Writes one message of a call, or a part of it: the envelope, StreamEvent, RecordBatch, and the records that
 * fit whole, or one larger record as far as there is room. The batch_id names exactly these. The format is one of
 * the ELEMENTs, the pull was of one run. Returns how many bytes; states as above, FULL also between messages. */
size_t ks_delivery_fill_batch(struct ks_delivery *delivery, uint8_t *buffer, size_t room,
                              enum ks_frame_state *ret_state);
/* Bytes that are not of records were written between them. */
void ks_delivery_pass(struct ks_delivery *delivery, size_t size);
/* So many more of all these bytes, in their order, are in the socket's buffer: the ack deadlines of the records that
 * end there begin. SIZE_MAX: all. */
void ks_delivery_sent(struct ks_delivery *delivery, size_t size);
/* True if bytes that wait in the connection may still be sent: their leases are ours by the clock. */
bool ks_delivery_may_send(const struct ks_delivery *delivery);
/* Returns the records that were not begun; for an answer that ends early. */
void ks_delivery_return(struct ks_delivery *delivery);
/* The connection takes nothing more: returns all that is not surely in the socket. */
void ks_delivery_end(struct ks_delivery *delivery);

#endif
