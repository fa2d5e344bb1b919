/* SPDX-License-Identifier: Apache-2.0 */
/* poison.h - records that fail: when they are tried again, and what becomes of those that fail for good.
 *
 * A record fails when its own delivery does: by a nack, by its ack deadline, or because its session ended while it was
 * the first of its lane there. Those that are recalled with it have not failed. A record that is given up holds the
 * watermark until its dead letter is durable; a write of unknown outcome is written again, which is the same letter.
 * Pure. Part of struct ks_core.
 */
#ifndef KS_CORE_POISON_H
#define KS_CORE_POISON_H

#include "core/state.h"

/* How long a record that has failed so often, at least once, is not tried again: by the policy, and up to a quarter
 * more by chance. */
ks_span ks_poison_back_off(struct ks_core *core, uint32_t failures);
/* The delivery of a record that is PENDING again has failed; it is tried again after `delay`, or KS_DELAY_BY_POLICY, if
 * the policy allows it. Twice for one delivery: counts once. */
void ks_poison_failed(struct ks_core *core, struct ks_lease *lease, ks_number number,
                      ks_span delay);
/* The record is to be a dead letter, because the app wants it so. */
void ks_poison_bury(struct ks_core *core, struct ks_lease *lease, ks_number number);
/* True if the record is not settled and not given up, and others wait for it: it has failed, is larger than its session
 * takes, or is the first of a lease that reads no further. */
bool ks_poison_blocks(const struct ks_lease *lease, ks_number number);
/* The lowest record that blocks something: the one that stopped the lease, else the first that blocks. False: there is
 * none. Looks at every record of the lease. */
bool ks_poison_blocker(const struct ks_lease *lease, ks_number *ret_number);
/* Gives up a record that blocks: as a dead letter if `keep`; otherwise it is settled and lost. Its lane goes on. */
void ks_poison_skip(struct ks_core *core, struct ks_lease *lease, ks_number number, bool keep,
                    struct ks_effects *effects);
/* The run goes out: some of it may be worth an event. */
void ks_poison_delivered(const struct ks_lease *lease, const struct ks_tracker_run *run,
                         struct ks_effects *effects);
/* The record is larger than its session takes: is said once, and its age may be too much. */
void ks_poison_too_large(struct ks_core *core, struct ks_lease *lease, ks_number number,
                         struct ks_effects *effects);
/* True if ks_poison_too_large would do something about it. */
bool ks_poison_is_due(const struct ks_core *core, const struct ks_lease *lease, ks_number number);
/* True while a record that is too large for its session holds up its lane. */
bool ks_poison_holds_large(const struct ks_lease *lease);
/* The answer to KS_EFFECT_BURY. */
void ks_poison_buried(struct ks_core *core, const struct ks_event *event,
                      struct ks_effects *effects);
/* The answer to the write under way is not awaited any more. */
void ks_poison_forget_lease(struct ks_core *core, struct ks_lease *lease);
/* No record stops the lease any more. */
void ks_poison_let_go(struct ks_core *core, struct ks_lease *lease, struct ks_effects *effects);
/* What the policy stopped goes on: the record that stopped it is tried again. `shard` NONE: all. */
void ks_poison_go_on(struct ks_core *core, ks_shard shard, struct ks_effects *effects);
/* Dead letters that are to be written, and what is to be told. */
void ks_poison_turn(struct ks_core *core, struct ks_effects *effects);

#endif
