/* SPDX-License-Identifier: Apache-2.0 */
/* table.h - the words of the lease table: the operations on it, and what a write can come to.
 *
 * The operations are those of docs/PROTOCOL.md, A3 and A5, one for one. The core names an operation and its fields as
 * numbers (core/effect.h); the port carries it with text ids (ports/lease_store.h); an adapter performs exactly it.
 */
#ifndef KS_CORE_TABLE_H
#define KS_CORE_TABLE_H

/* Safety only: whether an incarnation may write at all. */
enum ks_life { KS_LIVE, KS_FENCED, KS_GONE };
enum { KS_LIVES = KS_GONE + 1 };

/* Balance only: whether it wants leases. */
enum ks_mode { KS_ACTIVE, KS_IDLE, KS_DRAINING, KS_FAILING };
enum { KS_MODES = KS_FAILING + 1 };

/* A write has three outcomes; unknown is never treated as done or as refused. */
enum ks_outcome {
    KS_DONE,
    KS_REFUSED, /* Writes only: the condition did not hold. */
    KS_UNKNOWN  /* May or may not have been applied, or a read without an answer. */
};

/* What a fleet of KCL says of itself (docs/DIALECTS.md): how it agrees, how far its rows have moved into one table. */
enum ks_kcl_version {
    KS_KCL_UNSAID,
    KS_KCL_2X,
    KS_KCL_UPGRADE_FROM_2X,
    KS_KCL_3X_WITH_ROLLBACK,
    KS_KCL_3X
};
enum { KS_KCL_VERSIONS = KS_KCL_3X + 1 };
enum ks_kcl_tables {
    KS_KCL_TABLES_UNSAID,
    KS_KCL_TABLES_INIT,
    KS_KCL_TABLES_DEPLOYED,
    KS_KCL_TABLES_PENDING,
    KS_KCL_TABLES_COMPLETE
};
enum { KS_KCL_TABLES_WORDS = KS_KCL_TABLES_COMPLETE + 1 };

enum ks_store_operation {
    /* Reads. */
    KS_STORE_READ_FLEET, /* Partition w: all worker rows, the leader row, the app row. */
    KS_STORE_READ_NEWS, /* Three rows of it: the leader row, the worker rows `owner.id` and `worker.id`. */
    KS_STORE_READ_LEASES, /* Partition s: all lease rows. */
    KS_STORE_READ_LEASE,  /* One lease row: `shard`. Always consistent. */
    KS_STORE_READ_OWNED, /* Keys alone of the lease rows that name `worker`, by an index: eventually consistent. */
    KS_STORE_READ_WORKER, /* One worker row: `worker.id`. Always consistent. */
#define KS_STORE_FIRST_WRITE KS_STORE_REGISTER_NEW
    /* Writes of a worker row (A3). */
    KS_STORE_REGISTER_NEW,    /* worker, mode, version; condition: no row. */
    KS_STORE_REGISTER_DEAD,   /* + expect_boot, life not live. */
    KS_STORE_REGISTER_SILENT, /* + expect_boot, expect_beat, life live. */
    KS_STORE_REGISTER_CORPSE, /* + expect_boot. */
    KS_STORE_HEARTBEAT, /* worker, mode, held, changes, load; gives and takes are removed from the sets. */
    KS_STORE_FENCE,         /* worker.id, expect_boot, expect_beat. */
    KS_STORE_SAY_GONE,      /* worker. */
    KS_STORE_HINTS,         /* worker.id, expect_boot; gives and takes are added to the sets. */
    KS_STORE_REMOVE_WORKER, /* worker.id, expect_boot; condition: not live. */
    /* Leader row and app row. */
    KS_STORE_CLAIM_OFFICE, /* worker -> holder; condition: holder = owner (id "": absent) and epoch; epoch + 1. A
                               missing row counts as holder absent, epoch 0, and is made. */
    KS_STORE_RESIGN_OFFICE, /* condition: holder = worker and epoch; REMOVE holder. */
    KS_STORE_NAME_DEPUTIES, /* deputies (none: REMOVE); condition: holder = worker and epoch. */
    KS_STORE_CREATE_APP,    /* app; condition: no row. */
    KS_STORE_NAME_SHARDS, /* Of a table with a list of shards that members divide: rev -> shards, next_rev. */
    /* Writes of a lease row (A5). `epoch` and `rev` are the values the condition names. */
    KS_STORE_CREATE, /* shard, checkpoint, parents, hash range (from `lease`); epoch = 0, rev = 0. */
    KS_STORE_ASSIGN, /* shard, epoch -> owner = worker, epoch + 1; condition: no owner, not finished. */
    KS_STORE_TAKE_OVER, /* shard, owner (dead), epoch -> owner = worker, epoch + 1, no next_owner. */
    KS_STORE_PLAN,      /* shard, owner, epoch -> next_owner (id "": REMOVE). */
    KS_STORE_FORCE,     /* shard, owner, epoch -> owner = worker, epoch + 1, no next_owner. */
    KS_STORE_CHECKPOINT, /* shard, worker, epoch, rev -> checkpoint, load, rev + 1. */
    KS_STORE_FINAL, /* shard, worker, epoch, rev, next_owner as last read -> checkpoint (if has_checkpoint), load,
                            owner = next_owner or REMOVE, REMOVE next_owner, epoch + 1, rev + 1. */
    KS_STORE_END, /* shard, worker, epoch, rev -> checkpoint SHARD_END, children, finished, no owner, no
                            next_owner, epoch + 1, rev + 1. */
    KS_STORE_DELETE, /* shard, epoch; condition: finished. */
    KS_STORE_SEEK, /* shard, worker, epoch, rev; condition: no next_owner -> checkpoint as an operator ordered,
                     epoch + 1, rev + 1; the owner stays. */
    KS_STORE_FILL, /* kcl: shard, hash range (from `lease`), and nothing else; condition: the row has none. */
    KS_STORE_MEND /* Not of a fleet: a person's, by the tool. shard, lease: what the row shall say, next_rev: now.
                      Condition: no row, or with `exists` owner, next_owner, epoch, rev, checkpoint as read; then what
                      its last owner may still write is refused: epoch and rev are one more. */
};
enum { KS_STORE_OPERATIONS = KS_STORE_MEND + 1 };

#endif
