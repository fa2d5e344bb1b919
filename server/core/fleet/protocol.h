/* SPDX-License-Identifier: Apache-2.0 */
/* protocol.h - the seam between the core and the way in which a fleet agrees who serves what.
 *
 * What is a lease that we hold (records, acks, its one write in flight, its three outcomes) is core/lease.c, whatever
 * the fleet. Which lease becomes ours, when it goes, and until when it serves, is a protocol's: native.c and its
 * neighbours, or that of a table that we share with others (docs/DIALECTS.md says what such a protocol must supply).
 * The table is chosen once, by ks_core_config.protocol. Pure.
 */
#ifndef KS_CORE_FLEET_PROTOCOL_H
#define KS_CORE_FLEET_PROTOCOL_H

#include "core/state.h"

struct ks_fleet_protocol {
    void (*start)(struct ks_core *core);
    /* An answer of the store to anything but a lease that we hold. */
    void (*answered)(struct ks_core *core, const struct ks_event *event,
                     struct ks_effects *effects);
    void (*listed)(struct ks_core *core, const struct ks_event *event);
    /* Somebody wrote to the table: the next looks are due now. */
    void (*look)(struct ks_core *core);
    /* The answer to KS_EFFECT_LOCK. */
    void (*locked)(struct ks_core *core, const struct ks_event *event, struct ks_effects *effects);
    /* Whatever is due, and when the next is. */
    void (*turn)(struct ks_core *core, struct ks_effects *effects);
    ks_instant (*deadline)(const struct ks_core *core);

    /* ---- Of leases. ---- */

    /* A lease of ours began or ended. */
    void (*changed)(struct ks_core *core);
    /* A row, as a consistent read of a lease that we hold shows it. A table that knows no epochs, or counts its owner's
     * writes in another way, tells here what the row means in the terms of core/lease.c: the epoch of our lease if it
     * is as we hold it, a later one if it is not. */
    void (*read)(const struct ks_core *core, struct ks_lease_row *row);
    /* The row is as `row` says, by a read that was asked for with `serial`, or by a write of ours: KS_SERIAL_NOW. */
    void (*see)(struct ks_core *core, uint32_t serial, const struct ks_lease_row *row);
    /* Our lease is over, and yet its row names us in `epoch`: it is to become ours again. */
    void (*take)(struct ks_core *core, ks_shard shard, ks_epoch epoch);
    /* The rev that the next write of a lease gives its row: more than every one before it. */
    uint64_t (*next_rev)(const struct ks_core *core, const struct ks_lease *lease);
    /* Before then no checkpoint is written, however urgent; NULL: at any time. */
    ks_instant (*next_at)(const struct ks_core *core, const struct ks_lease *lease);
    /* Until when a lease serves whose row has this rev; KS_NEVER where leases live and fall with their worker. */
    ks_instant (*serves_until)(const struct ks_core *core, uint64_t rev);
    /* When a lease whose last write was sent at `asked_at` is written again, though nothing was settled; KS_NEVER. */
    ks_instant (*renew_at)(const struct ks_core *core, ks_instant asked_at);

    /* True if a lease that is read to its end may say so; NULL: always. */
    bool (*may_end)(const struct ks_core *core, const struct ks_lease *lease);

    /* ---- Of peers alone (core/fleet/peers.h). ---- */

    /* All rows were read, consistently: what to take, what to ask for; and when the next look is, fleet.round_at. */
    void (*round)(struct ks_core *core, struct ks_effects *effects);
    /* The row that ks_peers_claim asked for was read: it is asked for, or taken, of whoever has it, if it still is what
     * the round wanted. NULL: the round wants none. */
    void (*claim)(struct ks_core *core, ks_shard shard, struct ks_effects *effects);
};

extern const struct ks_fleet_protocol ks_native_protocol;
extern const struct ks_fleet_protocol ks_go_kcl_protocol;
extern const struct ks_fleet_protocol ks_kcl_rb_protocol;
extern const struct ks_fleet_protocol ks_kcl_protocol;
extern const struct ks_fleet_protocol ks_kinsumer_protocol;

#endif
