/* SPDX-License-Identifier: Apache-2.0 */
/* pace.h - when a shard may be asked for records again.
 *
 * Kinesis allows 5 GetRecords a second and 2 MiB a second for each shard (Kinesis quotas; GetRecords
 * API reference: after an answer of 10 MiB the next 5 s are refused). So:
 *  - never more than 5 calls within any second;
 *  - after an answer of n bytes the next call waits n / 2 MiB s;
 *  - behind the tip: as soon as those two allow. At the tip: 200 ms after an answer with records,
 *    then relaxed, doubling from 200 ms up to `idle_ms` while nothing comes;
 *  - refused for asking too much: 0.5 s doubling to 2 s, failed: 0.2 s doubling to 5 s, each
 *    somewhere between the half and the whole of it, until an answer comes; and no less than the
 *    server asks for, up to 5 s. What is refused is allowed again a second later: who waits much
 *    longer only leaves the shard to those who do not wait. (KCL 3 comes back after 1.5 s, always;
 *    vmware-go-kcl v2 in the next second; kinsumer after 0.25 s.);
 *  - who is refused shares the shard with others: from then on calls are apart, half as much again
 *    after each refusal and a little less after each answer, until nobody is in the way. That, too,
 *    between the half and the whole of it.
 * Pure: instants come in, an instant goes out.
 */
#ifndef KS_ADAPTERS_KINESIS_PACE_H
#define KS_ADAPTERS_KINESIS_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "adapters/kinesis/back_off.h"
#include "base/instant.h"

enum {
    KS_PACE_CALLS = 5,             /* GetRecords calls a second and shard. */
    KS_PACE_WINDOW_MS = 1020,      /* That second, and what two clocks may differ in it. */
    KS_PACE_BYTES_PER_S = 2 << 20, /* Payload a second and shard. */
    KS_PACE_TIP_MS_MIN = 200,      /* Between calls at the tip, when records came. */
    KS_PACE_IDLE_MS = 1000,        /* The longest time between calls at the tip, by default. */
    KS_PACE_SHARE_MS_MIN = 300,    /* Between calls of a shard that others read, too. */
    KS_PACE_SHARE_MS_MAX = 2000,   /* Likewise; 1.5 s on average, as KCL. */
    KS_PACE_SHARE_LESS = 32,       /* What part of that an answer takes away. */
    KS_PACE_ASKED_MS_MAX = 5000,   /* What a server may ask for, as in the SDKs. */
    KS_PACE_THROTTLED_MS_MIN = 500,
    KS_PACE_THROTTLED_MS_MAX = 2000,
    KS_PACE_FAILED_MS_MIN = 200,
    KS_PACE_FAILED_MS_MAX = 5000
};

struct ks_pace {
    struct ks_back_off back_off;
    ks_instant sent[KS_PACE_CALLS]; /* The last calls, as a ring. */
    uint32_t oldest;                /* Where the next one goes: the oldest. */
    ks_instant paid_at;             /* When the bytes that came are paid for. */
    ks_instant wanted_at;           /* When we want to ask again, whatever is allowed. */
    int32_t tip_ms;                 /* The next wait at the tip. */
    int32_t idle_ms;                /* The longest. */
    int32_t share_ms;               /* Between two calls, at most; 0: nobody else reads. */
    int32_t apart_ms;               /* Likewise, by chance: the next one. */
};

/* Nothing was asked yet. `seed` is for the jitter; `idle_ms`, at least KS_PACE_TIP_MS_MIN, is the longest wait between
 * calls at the tip. */
void ks_pace_init(struct ks_pace *pace, uint64_t seed, int32_t idle_ms);

/* When the next call may leave; in the past or now: at once. */
ks_instant ks_pace_next(const struct ks_pace *pace);

/* A GetRecords left. */
void ks_pace_sent(struct ks_pace *pace, ks_instant now);
/* It brought `count` records with `bytes` of data and keys; `millis_behind` -1: unknown. */
void ks_pace_answered(struct ks_pace *pace, ks_instant now, uint32_t count, uint64_t bytes,
                      int64_t millis_behind);
/* It brought bytes that were of no use: the server counts them all the same. */
void ks_pace_wasted(struct ks_pace *pace, ks_instant now, uint64_t bytes);
/* The server asks for less: not before `asked_ms` have passed; -1: it does not say. */
void ks_pace_throttled(struct ks_pace *pace, ks_instant now, int32_t asked_ms);
/* No answer, or a failure of the server. */
void ks_pace_failed(struct ks_pace *pace, ks_instant now);

#endif
