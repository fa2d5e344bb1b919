/* SPDX-License-Identifier: Apache-2.0 */
/* bed.h - a bed for one core: events in, effects out, answers given by hand.
 *
 * Everything lies in the open: a test arranges, steps, and looks at the effects of the last step and at the state.
 */
#ifndef TESTS_CORE_BED_H
#define TESTS_CORE_BED_H

#include "core/state.h"

enum { BED_ME = 1, BED_OTHER = 2, BED_SHARDS = 16, BED_WINDOW = 64, BED_BOOT = 0xb007 };

struct bed {
    struct ks_core *core;
    ks_instant now;
    struct ks_effects effects; /* Of the last step. */
};

/* A core that has not started: L = 10 s, small capacities, now = 1,000 s. */
void bed_init(struct bed *bed);
/* One that is registered, with a lease deadline 9.5 s ahead and no request under way. */
void bed_live(struct bed *bed);

void bed_step(struct bed *bed, const struct ks_event *event);
void bed_tick(struct bed *bed);
/* Lets time pass and ticks. */
void bed_wait(struct bed *bed, int64_t ms);
/* Ticks while the core wants to be stepped now; their effects are added to those of the last step. */
void bed_settle_down(struct bed *bed);

/* The n-th effect of this kind in the last step (from 0), or NULL. */
const struct ks_effect *bed_effect(const struct bed *bed, enum ks_effect_kind kind, uint32_t nth);
uint32_t bed_count(const struct bed *bed, enum ks_effect_kind kind);
/* The store effect of this operation in the last step, or NULL. */
const struct ks_store_effect *bed_asked(const struct bed *bed, enum ks_store_operation operation);
bool bed_told(const struct bed *bed, enum ks_story story);

/* Answers a request. */
void bed_answer(struct bed *bed, uint64_t token, enum ks_outcome outcome);
void bed_answer_worker(struct bed *bed, uint64_t token, const struct ks_worker_row *row);
void bed_answer_lease(struct bed *bed, uint64_t token, const struct ks_lease_row *row);
void bed_answer_fleet(struct bed *bed, uint64_t token, const struct ks_worker_row *rows,
                      uint32_t count, struct ks_incarnation holder, uint64_t office_epoch);

/* We hold this shard from now on. */
struct ks_lease *bed_hold(struct bed *bed, ks_shard shard, ks_epoch epoch);
/* A stream session with these limits and a 60 s ack deadline. */
ks_session_id bed_session(struct bed *bed, uint32_t max_in_flight, uint64_t max_bytes);
/* Answers the read in flight of `shard` with `count` records of `bytes` each. */
void bed_records(struct bed *bed, ks_shard shard, uint32_t count, uint32_t bytes, bool at_end);
/* The same, of records of 100 bytes with these hashes of their keys. */
void bed_keyed_records(struct bed *bed, ks_shard shard, const uint8_t *hashes, uint32_t count);
/* A stream session that wants this order; its effects say whether it was opened. */
ks_session_id bed_ordered_session(struct bed *bed, enum ks_ordering ordering, uint32_t lanes);
/* The event that opens a session for 100 records in flight; the caller may change it. */
struct ks_event bed_opening(enum ks_ordering ordering, uint32_t lanes);
/* Steps the event. Returns the session; KS_SESSION_NONE if it was refused. */
ks_session_id bed_open(struct bed *bed, const struct ks_event *event);
/* Pulls, hands over and writes; returns how many records. The effects of the writes follow those of the pull. */
uint32_t bed_pull(struct bed *bed, ks_session_id session, uint32_t max_records);

/* A run of records that was assigned, or a part of it. */
struct bed_run {
    ks_session_id session;
    ks_shard shard;
    ks_epoch epoch;
    ks_number first;
    uint32_t count;
    uint64_t assignment;
};
/* Pulls, and writes nothing; returns how many records are assigned. */
uint32_t bed_assign(struct bed *bed, ks_session_id session, uint32_t max_records);
/* The n-th run of the last step (from 0). */
struct bed_run bed_run(const struct bed *bed, uint32_t nth);
struct bed_run bed_part(const struct bed_run *run, uint32_t skipped, uint32_t count);
/* Reports that all records of the run are at this stage. */
void bed_write(struct bed *bed, const struct bed_run *run, enum ks_write_stage stage);
/* Hands over the first `whole` records of the run, and some bytes of the one behind them. */
void bed_hand_half(struct bed *bed, const struct bed_run *run, uint32_t whole);
enum ks_settle_status bed_settle(struct bed *bed, ks_session_id session, ks_shard shard,
                                 ks_number first, uint32_t count, enum ks_settle_outcome outcome,
                                 int64_t delay_ms);

#endif
