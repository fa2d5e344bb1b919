/* SPDX-License-Identifier: Apache-2.0 */
/* order_story.h - the state of a story of order_test.c: the sidecar, the network, the engine and
 * the app. */
#ifndef ORDER_STORY_H
#define ORDER_STORY_H

#include "engine.h"

enum {
    STORIES = 1000,
    RECORDS = 40,
    LANES = 3,
    FRAMES_MAX = 20000,
    STEPS_WITH_FAULTS = 1500,
    STEPS_MAX = 20000,
    BATCH_MAX = 8,
    COPIES_MAX = 4,
    APP_MAX = 3,
    IN_FLIGHT_MAX = 20,
    FAILURES_MAX = 4, /* Of a record. */
    ACK_DEADLINE_MS = 300,
    BACKOFF_MS = 50,
    ID_BYTES_MAX = 64
};

enum slot_state { PENDING, BEGUN, WRITTEN, SETTLED };

/* A record of the sidecar. */
struct slot {
    int lane;
    enum slot_state state;
    unsigned assignment; /* By which it is out. */
    unsigned seen_in;    /* Last assignment in which it was written. */
    unsigned torn_in;    /* Last assignment that ended before it was written. */
    unsigned attempts;   /* Times that it was written. */
    unsigned taken_back; /* Times that it was taken back half-way, and not written since. */
    unsigned seen_by;    /* Last session that it was written to. */
    bool is_given_up;    /* No later record of its lane was given up. */
    int64_t at;          /* PENDING: not delivered before. WRITTEN: its ack deadline. */
};

enum frame_kind {
    FRAME_RECORD,
    FRAME_LEFT_OUT, /* A record that was taken back before it was begun. */
    FRAME_BARRIER,
    FRAME_LEASE_LOST,
    FRAME_SESSION,
    FRAME_END
};

/* What the sidecar writes. */
struct frame {
    enum frame_kind kind;
    int number; /* Of the record, or of the barrier. */
    int first;  /* Of the batch. */
    int count;
    unsigned assignment;
    unsigned attempt;
    unsigned epoch;
    unsigned session;
};

/* One sending of a request. */
struct copy {
    bool is_used;
    bool is_awaited; /* The engine waits for its answer. */
    bool is_handled;
    bool is_refused; /* Its session has ended. */
    bool is_current; /* Its session has not. */
    struct ks_buffer body;
    struct ks_buffer answer;
};

/* What the app did with a record. */
struct fact {
    unsigned failures; /* The deliveries up to this attempt fail. */
    bool is_running;
    bool has_outcome; /* A final one. */
    uint64_t
        decided_in; /* Session of a final outcome that the sidecar has not confirmed; 0: none. */
};

enum pause { PAUSE_NONE, PAUSE_APP, PAUSE_SIDECAR };

struct story {
    uint64_t seed;
    uint64_t chance;
    bool is_calm; /* Nothing is lost any more. */
    bool is_told; /* Events are printed. */
    bool by_lane; /* The app handles records of several lanes; else one record after the other. */
    int64_t now;
    enum pause pause; /* Who is stopped. */

    /* The sidecar. */
    struct slot slots[RECORDS];
    unsigned assignments;
    unsigned epoch;
    unsigned session;
    unsigned boot;         /* First session of the process. */
    unsigned attempts_max; /* Of a record, which is given up then; 0: any. */
    bool is_connected;
    struct frame frames[FRAMES_MAX];
    size_t read;    /* Frames below were read by the engine. */
    size_t sent;    /* Frames below are in the socket. */
    size_t begun;   /* Frames below are encoded: they are sent to their end. */
    size_t written; /* Frames in all. */

    struct copy copies[COPIES_MAX];
    struct ks_engine engine;
    struct ks_delivery *app[APP_MAX];
    struct fact facts[RECORDS];
};

#endif
