/* SPDX-License-Identifier: Apache-2.0 */
/* confirmed.h - the dead letters that a destination has confirmed while others of their write failed.
 *
 * The caller repeats a write of which one dead letter failed, with all of them: without this memory each repetition
 * would send the others again. A dead letter is forgotten when its write is done, or when KS_SINK_CONFIRMED_MAX others
 * came after it; then a repetition sends it once more, with the same id. Plain memory.
 */
#ifndef KS_ADAPTERS_SINKS_CONFIRMED_H
#define KS_ADAPTERS_SINKS_CONFIRMED_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

/* Writes of 64 dead letters for 64 shards; 64 KiB. */
enum { KS_SINK_CONFIRMED_MAX = 4096, KS_SINK_CONFIRMED_SIZE = 16 };

/* Zeroed: none. */
struct ks_sink_confirmed {
    uint8_t ids[KS_SINK_CONFIRMED_MAX]
               [KS_SINK_CONFIRMED_SIZE]; /* The first bytes of the SHA-256 of an id. */
    uint32_t count;
    uint32_t oldest; /* Replaced next, when there is no room. */
};

bool ks_sink_confirmed_has(const struct ks_sink_confirmed *confirmed, ks_view id);
/* One that is there already stays. */
void ks_sink_confirmed_add(struct ks_sink_confirmed *confirmed, ks_view id);
/* One that is not there is no mistake. */
void ks_sink_confirmed_remove(struct ks_sink_confirmed *confirmed, ks_view id);

#endif
