/* SPDX-License-Identifier: Apache-2.0 */
/* health.h - whether a stream can be read, from the answers that come. Pure.
 *
 * A failure that may pass by itself (a 5xx, a lost connection) makes nobody unready: the stream is away when nothing
 * but failures has come for KS_HEALTH_AWAY_MS. A refusal (access, a key, no such stream) counts at once, and so does
 * any success. Before the first success there is nothing to keep up: there every failure counts at once.
 *
 * Reads and questions about the stream go to different hosts and need different permissions: that the stream can be
 * described is no proof that it can be read, while somebody tries that in vain.
 */
#ifndef KS_ADAPTERS_KINESIS_HEALTH_H
#define KS_ADAPTERS_KINESIS_HEALTH_H

#include <stdbool.h>

#include "base/err.h"
#include "base/instant.h"
#include "ports/lease_store.h"

enum {
    /* Longer than a host of AWS takes to be replaced, and than our retries: shorter than what a probe of Kubernetes
     * takes to act on it by default (3 times, 10 s apart). */
    KS_HEALTH_AWAY_MS = 10000,
    /* A failure that is older than that, and none since: nobody tries any more. A read that fails takes 20 s at most,
     * and is tried again 5 s later. */
    KS_HEALTH_FRESH_MS = 30000
};

/* Failures in a row. */
struct ks_failing {
    ks_instant since; /* KS_NEVER: the last one was a success. */
    ks_instant last;
};

struct ks_health {
    enum ks_store_state state;
    bool refused; /* The last read was. */
    struct ks_failing reads;
    struct ks_failing questions;
};

/* OPENING: nothing was heard yet. */
void ks_health_init(struct ks_health *health);
/* An answer to a read, or to a question. Failures for want of our own memory say nothing. */
void ks_health_read(struct ks_health *health, ks_instant now, ks_err err);
void ks_health_asked(struct ks_health *health, ks_instant now, ks_err err);
/* Nobody reads any more: what reads met counts no longer. */
void ks_health_unread(struct ks_health *health);
/* True while it should be asked how the stream is: it is not ready, or the last answer was a failure; and nobody who
 * was refused finds out himself. */
bool ks_health_doubted(const struct ks_health *health);

#endif
