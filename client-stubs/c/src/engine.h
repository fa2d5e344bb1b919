/* SPDX-License-Identifier: Apache-2.0 */
/* engine.h - the state of one consumer, without I/O and threads: what the stream brings, what
 * the app may have, and what has to be sent.
 *
 * A session begins a generation: records of the one before are redelivered. The caller holds the
 * mutex of the consumer. Instants are milliseconds of one monotonic clock.
 */
#ifndef KS_ENGINE_H
#define KS_ENGINE_H

#include "lanes.h"

enum {
    KS_REQUEST_ITEMS_MAX = 1000,
    KS_UNCONFIRMED_BUCKETS = 256 /* In flight are 100000 records at most. */
};

/* The records of one batch_id. */
struct ks_group {
    struct ks_link groups;
    struct ks_link to_ack;     /* Among the groups with acknowledgements to be sent. */
    struct ks_link deliveries; /* Without an outcome, or with one that is not sent. */
    struct ks_shard *shard;
    int64_t since;    /* Arrival of the first record. */
    int64_t acked_at; /* The first acknowledgement that is not sent. */
    size_t count;     /* Records received. */
    size_t acked;     /* Records acknowledged. */
    size_t open;      /* Records without an outcome. */
    size_t unsent;    /* Acknowledgements that are not sent. */
    uint64_t unsent_bytes;
    bool is_complete; /* No further record follows. */
    char batch_id[];
};

enum ks_request_state {
    KS_REQUEST_NONE,
    KS_REQUEST_IN_FLIGHT,
    KS_REQUEST_WAITING, /* It was not answered, and is sent again. */
    KS_REQUEST_ORPHANED /* In flight; its session has ended. */
};

/* A settle request. There is one at a time. */
struct ks_request {
    enum ks_request_state state;
    struct ks_buffer body; /* A message SettleRequest. */
    size_t items;
    uint64_t barrier;       /* 0: none. */
    bool is_extension;      /* It has extensions alone. */
    struct ks_link settled; /* Deliveries whose outcome no redelivery has; none in an extension. */
};

struct ks_engine {
    /* From the options. The sidecar may lower the limits. */
    int64_t max_processing_ms;
    int64_t ack_interval_ms;
    int64_t ack_deadline_ms;
    int64_t heartbeat_ms;
    uint64_t max_in_flight;
    uint64_t max_in_flight_bytes;

    /* For tests of apps: is called with each record that a retry takes back. NULL: nothing is
     * called. */
    void (*taken_back)(const struct ks_delivery *delivery, void *context);
    void *taken_back_context;

    bool is_session_open;
    bool is_woken; /* A request is due before ks_engine_next_at(). ks_engine_request() resets it. */
    struct ks_lanes lanes;
    struct ks_link groups;
    struct ks_group *current; /* Of the last record. */
    struct ks_link to_ack;    /* Groups with acknowledgements to be sent, the oldest first. */
    uint64_t unsent;          /* Acknowledgements in them. */
    uint64_t unsent_bytes;
    struct ks_link outcomes;   /* Deliveries with another outcome to be sent. */
    struct ks_link extensions; /* Deliveries that the app extends. */
    int64_t extend_at;

    struct ks_link begun; /* Deliveries that the app has. */
    struct ks_link held;  /* Deliveries whose retries hold their lanes. */
    uint64_t arrivals;
    uint64_t barriers_seen;
    uint64_t barriers_sent;

    struct ks_request request;
    int64_t retry_at; /* No request is sent before. */

    /* Deliveries of ended sessions that the app has, or whose outcome was not confirmed. */
    struct ks_link unconfirmed[KS_UNCONFIRMED_BUCKETS];
    size_t unconfirmed_count;
    uint64_t sessions; /* That have begun. */

    /* Deliveries of this session whose outcome is not confirmed. Those that were decided while
     * `is_indexing` is false are missing: most sessions redeliver nothing. */
    struct ks_link decided[KS_UNCONFIRMED_BUCKETS];
    bool is_indexing;

    uint64_t stale;
    uint64_t failed;
    struct ks_link failures; /* To be reported: deliveries whose frame is a SettleFailure. */
};

/* The caller sets the limits and the ordering. */
void ks_engine_init(struct ks_engine *engine);

void ks_engine_free(struct ks_engine *engine);

/* ---- For the app ---- */

/* Takes the next record that the app may have, with a reference for it; NULL: there is none. */
struct ks_delivery *ks_engine_pop(struct ks_engine *engine);

/* Gives the record an outcome, if it has none. Takes over `reason`, which free() frees. */
void ks_engine_settle(struct ks_engine *engine, struct ks_delivery *delivery,
                      enum ks_outcome outcome, int64_t delay_ms, char *reason, int64_t now);

/* Moves the ack deadline of a record that has no outcome. */
void ks_engine_extend(struct ks_engine *engine, struct ks_delivery *delivery, int64_t duration_ms);

/* ---- The stream ---- */

/* Takes over a record that was read. Returns false if there is no memory. */
bool ks_engine_arrive(struct ks_engine *engine, struct ks_delivery *delivery, int64_t now);

/* A session begins, with the limits of the event. */
void ks_engine_opened(struct ks_engine *engine, const ks_event *event, int64_t now);

/* The stream has ended. The sidecar accepts settlements until the next session begins. */
void ks_engine_detached(struct ks_engine *engine);

/* The lease of a shard is lost. */
void ks_engine_lease_lost(struct ks_engine *engine, const char *shard_id);

/* A barrier was read. */
void ks_engine_barrier(struct ks_engine *engine, uint64_t barrier);

/* ---- Settling: see settle.c ---- */

/* The request that is due; NULL: none. `everything`: also what may wait. Its fate is reported by
 * one of the functions below, before the next call. */
struct ks_request *ks_engine_request(struct ks_engine *engine, int64_t now, bool everything);

/* When ks_engine_request() has to be called; INT64_MAX: after something happens. */
int64_t ks_engine_next_at(const struct ks_engine *engine);

/* The sidecar has judged each settlement: a message SettleResponse. Returns false if it is
 * malformed; the request is not answered then. */
bool ks_engine_answered(struct ks_engine *engine, const uint8_t *answer, size_t size);

/* The sidecar did not answer. The request is sent again, after `retry_after_ms` at the earliest. */
void ks_engine_unanswered(struct ks_engine *engine, int64_t retry_after_ms, int64_t now);

/* The session of all settlements has ended, or the sidecar refuses the request. Their retries hold
 * their lanes until the next session: what waits there was taken back. */
void ks_engine_refused(struct ks_engine *engine);

/* ---- For settle.c ---- */

/* Forgets the index of outcomes, which the next redelivery makes again. */
void ks_engine_end_index(struct ks_engine *engine);

/* Takes an acknowledgement that is not sent out of the counts. */
void ks_engine_take_ack(struct ks_engine *engine, const struct ks_delivery *delivery);

/* Forgets a group of which nothing is left to be settled. */
void ks_engine_forget_group(struct ks_engine *engine, struct ks_group *group);

/* Ends the holds whose verdict and barrier are known. */
void ks_engine_resolve(struct ks_engine *engine);

#endif
