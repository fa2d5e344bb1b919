/* SPDX-License-Identifier: Apache-2.0 */
/* rig.h - one core on a bench: events in, effects out, answers given by hand.
 *
 * Everything lies in the open: a test arranges, steps, and looks at the effects of the last step and at the state.
 */
#ifndef TESTS_CORE_RIG_H
#define TESTS_CORE_RIG_H

#include "core/state.h"

enum { RIG_ME = 1, RIG_OTHER = 2, RIG_SHARDS = 16, RIG_WINDOW = 64 };

struct rig {
    struct ks_core *core;
    ks_instant now;
    struct ks_effects effects; /* Of the last step. */
};

/* A core that has not started: L = 10 s, small capacities, now = 1,000 s. */
void rig_init(struct rig *rig);
/* One that is registered, with a lease deadline 9.5 s ahead and no request under way. */
void rig_live(struct rig *rig);

void rig_step(struct rig *rig, const struct ks_event *event);
void rig_tick(struct rig *rig);
/* Lets time pass and ticks. */
void rig_wait(struct rig *rig, int64_t ms);
/* Ticks while the core wants to be stepped now; their effects are added to those of the last step. */
void rig_settle_down(struct rig *rig);

/* The n-th effect of this kind in the last step (from 0), or NULL. */
const struct ks_effect *rig_effect(const struct rig *rig, enum ks_effect_kind kind, uint32_t nth);
uint32_t rig_count(const struct rig *rig, enum ks_effect_kind kind);
/* The store effect of this operation in the last step, or NULL. */
const struct ks_store_effect *rig_asked(const struct rig *rig, enum ks_store_operation operation);
bool rig_told(const struct rig *rig, enum ks_story story);

/* Answers a request. */
void rig_answer(struct rig *rig, uint64_t token, enum ks_outcome outcome);
void rig_answer_worker(struct rig *rig, uint64_t token, const struct ks_worker_row *row);
void rig_answer_lease(struct rig *rig, uint64_t token, const struct ks_lease_row *row);
void rig_answer_fleet(struct rig *rig, uint64_t token, const struct ks_worker_row *rows,
                      uint32_t count, struct ks_incarnation holder, uint64_t office_epoch);

/* We hold this shard from now on. */
struct ks_lease *rig_hold(struct rig *rig, ks_shard shard, ks_epoch epoch);
/* A stream session with these limits and a 60 s ack deadline. */
ks_session_id rig_session(struct rig *rig, uint32_t max_in_flight, uint64_t max_bytes);
/* Answers the read in flight of `shard` with `count` records of `bytes` each. */
void rig_records(struct rig *rig, ks_shard shard, uint32_t count, uint32_t bytes, bool at_end);
/* Pulls; returns the records delivered. */
uint32_t rig_pull(struct rig *rig, ks_session_id session, uint32_t max_records);
enum ks_settle_status rig_settle(struct rig *rig, ks_session_id session, ks_shard shard,
                                 ks_number first, uint32_t count, enum ks_settle_outcome outcome,
                                 int64_t delay_ms);

#endif
