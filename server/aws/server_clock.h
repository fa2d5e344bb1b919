/* SPDX-License-Identifier: Apache-2.0 */
/* server_clock.h - what a service's own clock shows, from the Date of its answers: a lower bound.
 *
 * A start position that is an instant is compared with arrival times of the service. One that is later than the
 * service's present skips records; one that is earlier only repeats some. The clock of this machine may be wrong by
 * hours, so it is never asked: an answer's Date is a whole second that the service had reached when the answer came,
 * and the steady clock counts from there.
 *
 * The bound is at most 1.1 s, the time that the answer took, and 0.1 % of the time since the answer behind the
 * service's clock. It is never ahead of it, as long as the hosts of the service agree within SPREAD_MS and the steady
 * clock runs fast by less than 0.1 %. Pure.
 */
#ifndef KS_AWS_SERVER_CLOCK_H
#define KS_AWS_SERVER_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/instant.h"

/* Zeroed: nothing is known. */
struct ks_server_clock {
    bool known;
    int64_t least_ms; /* The service's clock showed at least this, Unix ms, .. */
    ks_instant at;    /* .. at this instant. */
};

/* Reads the Date of an answer's head. The request left at `asked_at` or later; `now` is the present, not the begin of
 * the loop's turn. Returns false for a head without a usable Date: none, a malformed one, one out of a cache
 * (Age), or one that is not of 2020 to 2099.
 */
bool ks_server_clock_hear(struct ks_server_clock *clock, ks_view head, ks_instant asked_at,
                          ks_instant now);

/* Returns the lower bound at `now`, Unix ms; 0: nothing is known. */
int64_t ks_server_clock_now(const struct ks_server_clock *clock, ks_instant now);

#endif
