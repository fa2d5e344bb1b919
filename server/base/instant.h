/* SPDX-License-Identifier: Apache-2.0 */
/* instant.h - when, and for how long.
 *
 * ks_instant is a point on CLOCK_BOOTTIME (a suspended machine must not believe its old lease), in microseconds.
 * ks_span is a length. ks_wall is Unix time in milliseconds and is used only towards AWS and people.
 * Pure: nothing here reads a clock (base/loop.h does, once a turn).
 */
#ifndef KS_BASE_INSTANT_H
#define KS_BASE_INSTANT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct ks_instant {
    int64_t us;
} ks_instant;

typedef struct ks_span {
    int64_t us;
} ks_span;

typedef struct ks_wall {
    int64_t ms;
} ks_wall;

/* Never comes. Adding to it or comparing with it is allowed. */
#define KS_NEVER ((ks_instant){INT64_MAX})
/* Has always been. */
#define KS_LONG_AGO ((ks_instant){INT64_MIN})

static inline ks_span ks_span_us(int64_t us)
{
    return (ks_span){us};
}

static inline ks_span ks_span_ms(int64_t ms)
{
    return (ks_span){ms * 1000};
}

static inline int64_t ks_span_to_ms(ks_span span)
{
    return span.us / 1000;
}

/* Saturates at KS_NEVER; KS_NEVER and KS_LONG_AGO stay what they are. */
static inline ks_instant ks_instant_add(ks_instant at, ks_span span)
{
    if (at.us == INT64_MAX || at.us == INT64_MIN)
        return at;
    if (span.us > 0 && at.us > INT64_MAX - span.us)
        return KS_NEVER;
    return (ks_instant){at.us + span.us};
}

static inline ks_span ks_instant_since(ks_instant now, ks_instant then)
{
    return (ks_span){now.us - then.us};
}

/* True if `now` is at or after `due`. */
static inline bool ks_instant_reached(ks_instant now, ks_instant due)
{
    return now.us >= due.us;
}

static inline bool ks_instant_before(ks_instant a, ks_instant b)
{
    return a.us < b.us;
}

static inline ks_instant ks_instant_min(ks_instant a, ks_instant b)
{
    return a.us < b.us ? a : b;
}

static inline ks_instant ks_instant_max(ks_instant a, ks_instant b)
{
    return a.us > b.us ? a : b;
}

#endif
