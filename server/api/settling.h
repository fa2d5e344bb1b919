/* SPDX-License-Identifier: Apache-2.0 */
/* settling.h - what a settle or checkpoint request came to, and the wait until it is durable. */
#ifndef KS_API_SETTLING_H
#define KS_API_SETTLING_H

#include "api/message.h"
#include "api/server.h"

struct ks_settling;

/* Begins the answer of an exchange: becomes its context, and is freed with it. NULL: answered
 * already. `arena` is moved into it. */
struct ks_settling *ks_settling_new(struct ks_exchange *exchange, struct ks_arena *arena);
/* Memory that lives as long as it. NULL when there is none. */
void *ks_settling_take(struct ks_settling *settling, size_t size);

/* `count` records were settled, and for `persisted` to be true a checkpoint of (shard, epoch) must
 * cover everything below `up_to` (0: nothing). */
KS_MUST_USE ks_err ks_settling_done(struct ks_settling *settling, uint64_t count, ks_shard shard,
                                    ks_epoch epoch, ks_number up_to);
/* An item was not accepted. `id` as it was sent; it must live as long as the settling. */
KS_MUST_USE ks_err ks_settling_failed(struct ks_settling *settling, const char *id,
                                      const char *reason, const char *message);
/* Answers: at once, or with `persist` when the checkpoints cover it or never can (a lease ended), or after `wait_ms`.
 * `checkpoint`: the answer is a CheckpointResponse. */
void ks_settling_answer(struct ks_settling *settling, bool persist, int64_t wait_ms,
                        bool checkpoint);

/* The wait of a request: its query parameters, else its members. False if the exchange was answered
 * with a problem. */
struct ks_wait {
    bool persist;
    int64_t wait_ms;
};
bool ks_wait_read(struct ks_exchange *exchange, KinesisSidecar__V1__Wait wait, bool has_wait_ms,
                  int64_t wait_ms, struct ks_wait *ret_wait);

/* A position as text: a sequence number, or TRIM_HORIZON, LATEST, AT_TIMESTAMP, SHARD_END. Lives as
 * long as the position. */
const char *ks_position_text(const struct ks_position *position);

#endif
