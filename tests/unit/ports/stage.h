/* SPDX-License-Identifier: Apache-2.0 */
/* stage.h - a switchboard on its feet, for tests: the real core, a lease table and a stream in SQLite files. And one
 * who consumes. Nothing here is pretended.
 */
#ifndef KS_TEST_STAGE_H
#define KS_TEST_STAGE_H

#include "base/loop.h"
#include "ports/switchboard.h"

enum { STAGE_SHARDS = 2, STAGE_SHARDS_MAX = 64, STAGE_WAIT_MS = 40000, STAGE_RUNS = 16 };
/* The lease duration: a machine under load may keep a test from its heartbeats for a second. */
enum { STAGE_LEASE_MS = 3000 };

struct stage {
    struct ks_loop *loop;
    struct ks_lease_store *store;
    struct ks_stream_source *source;
    struct ks_worker_lock *lock;
    struct ks_dead_letters *letters;
    struct ks_switchboard *board;
    bool drained;
    bool clean;
    uint64_t unsaved;
    char refused[200];
    uint32_t puts_open;
};

struct setting {
    const char *worker_id;
    const char *stream;
    uint32_t shards;
    uint32_t shards_max;
    bool lock;                   /* With a lock file in the test's folder. */
    uint32_t capacity;           /* 0 = no limit. */
    ks_span keep;                /* K; 0: as it is. */
    enum ks_position_kind start; /* 0: TRIM_HORIZON. */
    struct ks_kinship *kinship;  /* NULL: there are none. */
};

/* Builds and starts it on the test's two files. */
void stage_begin_with(struct stage *stage, const struct setting *setting);
/* The same: STAGE_SHARDS shards of the stream "stream". */
void stage_begin(struct stage *stage, const char *worker_id);
/* Sleeps until every lease of a stage has run out, as a process does that is stopped. */
void stage_sleep_past_lease(void);
/* Everything stops where it is, as if the process had died. Frees all. */
void stage_vanish(struct stage *stage);
/* Turns the loop; fails the test after STAGE_WAIT_MS. */
void stage_turn_until(struct stage *stage, bool (*reached)(struct stage *stage));
/* For what is reached otherwise: until when a test waits; and a turn of at most `span`, which fails after that. */
ks_instant stage_patience(void);
void stage_turn(struct stage *stage, ks_instant until, ks_span span);
bool stage_holds_all(struct stage *stage);
bool stage_is_ready(struct stage *stage);
bool stage_is_refused(struct stage *stage);
/* Drains, and waits for it. */
void stage_drain(struct stage *stage);
/* Puts records whose data and partition keys are the numbers first .. first + count - 1. */
void stage_put(struct stage *stage, uint32_t first, uint32_t count);
void stage_put_one(struct stage *stage, const struct ks_put_entry *entry);
/* So many records like this one; 500 in a write, for each write waits for the disk. */
void stage_put_copies(struct stage *stage, const struct ks_put_entry *entry, uint32_t count);

/* The record of the run; NULL if it may not be begun. */
const struct ks_record *stage_record(struct ks_switchboard *board, const struct ks_run *run,
                                     ks_number number);
/* Reports that all records of the run were handed over and written. */
void stage_write(struct ks_switchboard *board, ks_session_id session, const struct ks_run *run);

struct consumer {
    struct ks_consumer port;
    struct stage *stage;
    ks_session_id session;
    uint32_t session_epoch;
    uint32_t wakes;
    uint32_t endings;
    uint32_t returnings;
    enum ks_session_end why;
    struct ks_run runs[64]; /* All that it got. */
    uint32_t run_count;
    uint32_t records;
    uint32_t seen[128]; /* How often each number came. */
    char last_sequence[STAGE_SHARDS_MAX][KS_SEQUENCE_MAX + 1];
};

/* A session as most tests want it. */
struct ks_session_request consumer_request(const char *client_id);
void consumer_join(struct consumer *consumer, struct stage *stage, const char *client_id);
/* Takes what there is, looks at every record, expects them in order, and reports that they are written. */
void consumer_pull(struct consumer *consumer);
/* Until it has exactly `records` in all. */
void consumer_pull_until(struct consumer *consumer, uint32_t records);
enum ks_settle_status consumer_settle(struct consumer *consumer, const struct ks_run *run,
                                      enum ks_settle_outcome outcome, ks_number *ret_up_to);
void consumer_ack_all(struct consumer *consumer);
/* Waits until the table covers all that it got and acknowledged. */
void consumer_persist_all(struct consumer *consumer);

#endif
