/* SPDX-License-Identifier: Apache-2.0 */
/* worker_lock.h - the port behind which the lock of a pinned worker id lies: what tells a restarted process that the
 * row of its predecessor is a corpse (docs/PROTOCOL.md, A3 "register over own corpse", B20).
 *
 * Whoever has the lock is the only living process of this worker id that can reach it. It names the boot that is
 * registered next, durably and before the registration is sent; so the boot that it named when it was taken belongs to
 * a process that is dead. Loop thread only.
 */
#ifndef KS_PORTS_WORKER_LOCK_H
#define KS_PORTS_WORKER_LOCK_H

#include <stdint.h>

#include "base/err.h"

struct ks_worker_lock;

struct ks_worker_lock_vtable {
    /* Names `boot`, one at a time. `written` is called on the loop in a later turn, once, unless the lock was closed
     * before; with an error nothing is known of what the lock names. */
    void (*write)(struct ks_worker_lock *lock, uint64_t boot,
                  void (*written)(void *arg, uint64_t boot, ks_err err), void *arg);
    /* Lets go of it, and frees it. */
    void (*close)(struct ks_worker_lock *lock);
};

struct ks_worker_lock {
    const struct ks_worker_lock_vtable *vtable;
    uint64_t corpse; /* The boot that it named when it was taken; 0 = none. */
};

#endif
