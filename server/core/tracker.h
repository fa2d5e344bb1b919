/* SPDX-License-Identifier: Apache-2.0 */
/* tracker.h - what became of each record of one epoch, and the watermark.
 *
 * Records are dense numbers 0, 1, 2 .. Between the watermark and the last record fetched there is one slot for each, in
 * a ring, so that acks in any order give one contiguous watermark and never run out of anything but the window itself.
 * The ring is as long as it must be, and short again whenever all is settled: of the window's memory, which is there
 * for each lease, no more is touched than was needed at a time. Each record is in one of a few lanes, by the hash of
 * its partition key. In a lane order is kept: a recall takes back the record and every later delivery of its lane, and
 * what waits holds up what is behind it in its lane. Unordered, there is one lane, and a record holds up nothing but
 * the watermark.
 * Pure. Owned by struct ks_lease.
 */
#ifndef KS_CORE_TRACKER_H
#define KS_CORE_TRACKER_H

#include "core/types.h"

/* The states of a delivery are ASSIGNED, BEGUN, WRITTEN, in this order: the record is out, with one session. */
enum ks_slot_state {
    KS_SLOT_PENDING,  /* Fetched, not with any session. */
    KS_SLOT_ASSIGNED, /* Pulled for a session. None of its bytes was written. */
    KS_SLOT_BEGUN,    /* Some of its bytes were handed to the connection. */
    KS_SLOT_WRITTEN,  /* Its last byte is in the socket. Its ack deadline runs. */
    KS_SLOT_DYING,    /* To be a dead letter: holds nothing up but the watermark. */
    KS_SLOT_BURYING,  /* As DYING, and its dead letter is being written. */
    KS_SLOT_SETTLED
};

/* Above every session. */
#define KS_SEEN_BY_NONE 4095u

struct ks_slot {
    union {
        ks_instant deadline; /* WRITTEN: of the ack. PENDING: not to be delivered before it. */
        uint64_t assignment; /* ASSIGNED, BEGUN: the pull by which it is out. */
    };
    uint64_t seen_in; /* The last assignment in which it was written; 0: none. */
    uint64_t torn_in; /* The last assignment that ended before it was written; 0: none. */
    uint32_t bytes;
    uint32_t stale_s;      /* Seconds after the begin of the epoch at which it is too old to fail;
                         UINT32_MAX: never. */
    unsigned session : 12; /* The session that it is with, or was with last. */
    unsigned seen_by : 12; /* The session that it was written to last; or KS_SEEN_BY_NONE. */
    /* Deliveries that were taken back when BEGUN and not written since: their apps may get them whole, so their attempt
     * numbers are not given again, but for that of the last one if it was torn. 255 means 255 or more. */
    unsigned taken_back : 8;
    uint8_t hash;        /* Of its partition key. */
    uint8_t attempts;    /* Times that it was written; 255 means 255 or more. */
    uint8_t failures;    /* Deliveries that failed by themselves; 255 means 255 or more. */
    unsigned state : 3;  /* enum ks_slot_state */
    unsigned cause : 2;  /* DYING, BURYING: enum ks_cause */
    unsigned failed : 1; /* Its last delivery failed. */
    unsigned taken : 1;  /* The filter of the sessions takes it. */
};

/* The unit of order. */
struct ks_lane {
    ks_number cursor; /* None of its records below is PENDING, and none at or above it is out. */
    ks_session_id session;  /* Whose it is, or NONE. */
    ks_session_id yield_to; /* Gets it when nothing of it is in flight; NONE: stays. */
    uint32_t in_flight;     /* Its records that are out. */
    /* The last of its records that was given up because a delivery failed, or NONE, and the assignment in which it was
     * written last. They outlive the slot of the record. */
    ks_number given_up;
    uint64_t given_up_in;
};

struct ks_tracker {
    struct ks_slot *slots;
    uint32_t window; /* A power of two. */
    uint32_t ring;   /* Likewise: so many of the slots are in use. */
    struct ks_lane *lanes;
    uint32_t lane_count;
    bool unordered;      /* One lane without order: cursor says only what is not PENDING. */
    ks_number mark;      /* The watermark: everything below is settled. */
    ks_number delivered; /* Nothing at or above it was written. */
    ks_number reached;   /* Nothing at or above it was ever out. */
    ks_number fetched;   /* Everything below has arrived. */
    ks_number judged; /* Below it no record waits for the filter of the sessions (core/judge.h). */
    uint32_t in_flight; /* Records that are out. */
    uint32_t unwritten; /* Of these: ASSIGNED and BEGUN. */
    uint32_t half_way;  /* Deliveries that were begun, and neither written nor torn. */
    uint32_t dying;     /* DYING and BURYING. */
    uint32_t settled;   /* SETTLED, above the watermark. */
    uint64_t in_flight_bytes;
    uint64_t unwritten_bytes;
    uint64_t bytes;            /* From the watermark to the last one fetched. */
    uint64_t pending_bytes;    /* Of these: PENDING. */
    ks_instant deadline_bound; /* No ack deadline is before it. */
    ks_instant delay_bound;    /* No record waits longer for the delay of its retry. */
    ks_instant ready_bound;    /* No such wait ends before it; KS_NEVER: none waits. */
};

/* What a session may take. */
struct ks_tracker_ask {
    uint64_t lanes; /* Bit by lane. */
    uint32_t max_records;
    uint32_t max_record_bytes; /* A larger one holds up its lane. */
    uint64_t max_bytes;        /* About: at least one record. */
    bool judged; /* Only records that the filter takes; another one that waits holds up its lane. */
};

#define KS_NUMBER_NONE UINT64_MAX

/* A run of consecutive records. */
struct ks_tracker_run {
    ks_number first;
    uint32_t count;
    uint64_t bytes;
    uint32_t attempt; /* Of the delivery to come, from 1. BURYING: times that it was written. */
    ks_number large;  /* The first record that was too large, or NONE; told without a run, too. */
};

/* Records that were out and are not any more: they return to the credit of their session. */
struct ks_credit {
    uint32_t records;
    uint64_t bytes;
    uint32_t unused;    /* Of the records: ASSIGNED. Explicit credit for them was not used. */
    uint32_t unwritten; /* Of the records: not WRITTEN. */
    uint64_t unwritten_bytes;
};

static inline void ks_credit_add(struct ks_credit *sum, struct ks_credit credit)
{
    sum->records += credit.records;
    sum->bytes += credit.bytes;
    sum->unused += credit.unused;
    sum->unwritten += credit.unwritten;
    sum->unwritten_bytes += credit.unwritten_bytes;
}

/* Begins an epoch: forgets everything. `slots` has `window` entries, `lanes` KS_LANES_MAX at most; they belong to the
 * caller. */
void ks_tracker_init(struct ks_tracker *tracker, struct ks_slot *slots, uint32_t window,
                     struct ks_lane *lanes);
/* Divides the records among `lane_count` lanes, which belong to nobody yet. Nothing is in flight. */
void ks_tracker_order(struct ks_tracker *tracker, uint32_t lane_count, bool unordered);
/* Records that may still be fetched. */
uint32_t ks_tracker_room(const struct ks_tracker *tracker);
/* Appends `count` records, at most room. `hashes` and `stale_s` as in struct ks_slot; NULL: all 0, never. */
void ks_tracker_append(struct ks_tracker *tracker, const uint32_t *sizes, const uint8_t *hashes,
                       const uint32_t *stale_s, uint32_t count);
/* The next deliverable run of what is asked for. False if there is none at `now`. */
bool ks_tracker_next(struct ks_tracker *tracker, const struct ks_tracker_ask *ask, ks_instant now,
                     struct ks_tracker_run *ret_run);
/* The run is ASSIGNED to `session` from now on. `assignment` is the number of the pull: above 0, and above those of
 * all pulls before. */
void ks_tracker_assign(struct ks_tracker *tracker, const struct ks_tracker_run *run,
                       ks_session_id session, uint64_t assignment);
/* If the record is ASSIGNED by this assignment, it is BEGUN now. */
void ks_tracker_begin(struct ks_tracker *tracker, ks_number number, uint64_t assignment);
/* The last byte of the record is in the socket of `session`. True if it is out in this assignment: it is WRITTEN now. A
 * recall does not stop a record that is half-way: of one that is not out in this assignment any more it is remembered
 * that the session has got it. To be told only of a record that was begun. */
bool ks_tracker_written(struct ks_tracker *tracker, ks_number number, uint64_t assignment,
                        ks_session_id session, ks_instant deadline);
/* The record was begun, and never will be written to the end: its connection broke. If it is out in this assignment, it
 * is PENDING again, with the later deliveries of its lane. It has not failed. */
struct ks_credit ks_tracker_torn(struct ks_tracker *tracker, ks_number number, uint64_t assignment);
/* None of the bytes of the record were written, and none will be. If it is ASSIGNED in this assignment, it is PENDING
 * again, with the later deliveries of its lane. It has not failed. */
struct ks_credit ks_tracker_return(struct ks_tracker *tracker, ks_number number,
                                   uint64_t assignment);
/* How many records from `number` on, `count` at most, are ASSIGNED by this assignment, up to the first one that is not:
 * they may be begun. */
uint32_t ks_tracker_assigned(const struct ks_tracker *tracker, ks_number number, uint32_t count,
                             uint64_t assignment);
/* The bytes of those of the records that are in memory. */
uint64_t ks_tracker_bytes(const struct ks_tracker *tracker, ks_number first, uint32_t count);
/* True if a settlement by `session` counts for the record. `assignment`: the one that the settlement names; the record
 * was written in it. 0: it names the record alone; the record was written to that session, or to each session that it
 * was ever assigned to. KS_SESSION_NONE: it was written at all. */
bool ks_tracker_may_settle(const struct ks_tracker *tracker, ks_number number,
                           ks_session_id session, uint64_t assignment);
/* True if every record is settled that was written, that is half-way, or that was taken back before it was written:
 * no connection has a byte of another one. */
bool ks_tracker_is_quiet(const struct ks_tracker *tracker);
/* The session is over: what it has seen is forgotten. */
void ks_tracker_forget_session(struct ks_tracker *tracker, ks_session_id session);
/* Settles a record; again is allowed and does nothing. Returns the credit, if it was out. The watermark moves. */
struct ks_credit ks_tracker_settle(struct ks_tracker *tracker, ks_number number);
/* Takes the record and every later delivery of its lane back into the lane. */
struct ks_credit ks_tracker_recall(struct ks_tracker *tracker, ks_number number);
/* A record that was recalled is not delivered before `not_before`, and so nothing after it in its lane. Does nothing to
 * any other record. */
void ks_tracker_delay(struct ks_tracker *tracker, ks_number number, ks_instant not_before);
/* The record, out or not, is to be a dead letter. Returns the credit. Nothing if it is that already. If its delivery
 * failed (any cause but ASKED), its lane remembers it. */
struct ks_credit ks_tracker_kill(struct ks_tracker *tracker, ks_number number, enum ks_cause cause);
/* The next run of at most `most` DYING records of one cause and as many attempts: they are BURYING now. */
bool ks_tracker_bury(struct ks_tracker *tracker, uint32_t most, struct ks_tracker_run *ret_run);
/* Those of the run that are BURYING are DYING again. */
void ks_tracker_exhume(struct ks_tracker *tracker, const struct ks_tracker_run *run);
/* The lowest record that is PENDING, DYING or BURYING. False if there is none. */
bool ks_tracker_waiting(const struct ks_tracker *tracker, ks_number *ret_number);
/* The lanes of which a record waits for the delay of its retry. */
uint64_t ks_tracker_blocked(const struct ks_tracker *tracker, ks_instant now);
/* True if the delay of some record may be over at `now`; then ready_bound is exact for those to come. */
bool ks_tracker_ready(struct ks_tracker *tracker, ks_instant now);
/* Moves the ack deadline of a record that is WRITTEN. False for any other. */
bool ks_tracker_extend(struct ks_tracker *tracker, ks_number number, ks_instant deadline);
/* The lowest record whose ack deadline has passed. False if there is none; then deadline_bound is exact. */
bool ks_tracker_overdue(struct ks_tracker *tracker, ks_instant now, ks_number *ret_number);

/* The filter of the sessions judges from the watermark on again; `another` filter also what the last one took. Then
 * nothing is in flight. */
void ks_tracker_judge_again(struct ks_tracker *tracker, bool another);

/* True for the states of a delivery. */
static inline bool ks_slot_is_out(const struct ks_slot *slot)
{
    return slot->state >= KS_SLOT_ASSIGNED && slot->state <= KS_SLOT_WRITTEN;
}

static inline struct ks_slot *ks_tracker_slot(const struct ks_tracker *tracker, ks_number number)
{
    return &tracker->slots[number & (tracker->ring - 1)];
}

/* The lane, of `lanes`, of records whose partition key has this hash. */
static inline uint32_t ks_hash_lane(uint8_t hash, uint32_t lanes)
{
    return (uint32_t)hash * lanes >> 8;
}

/* The number of the slot's lane. */
static inline uint32_t ks_tracker_lane(const struct ks_tracker *tracker, const struct ks_slot *slot)
{
    return ks_hash_lane(slot->hash, tracker->lane_count);
}

/* It is settled; `number` has arrived. */
static inline bool ks_tracker_is_settled(const struct ks_tracker *tracker, ks_number number)
{
    return number < tracker->mark || ks_tracker_slot(tracker, number)->state == KS_SLOT_SETTLED;
}

/* Asserts what must hold between any two calls. */
void ks_tracker_check(const struct ks_tracker *tracker);

#endif
