/* SPDX-License-Identifier: Apache-2.0 */
/* story.h - the sentences of KS_STORY_TABLE with names and numbers in them: log lines and events.
 *
 * Placeholders: {shard} {worker} (names), {boot} (16 hex digits), {epoch} {number} {count} {ms} (decimal), {record}
 * (its sequence number, and behind a point its place in its aggregate; else its number in the epoch).
 */
#ifndef KS_PORTS_STORY_H
#define KS_PORTS_STORY_H

#include "base/log.h"
#include "core/effect.h"
#include "ports/stream_source.h"

enum {
    KS_STORY_LINE_MAX = 512
}; /* Three names of 128 characters and the longest sentence nearly fit. */

/* A story without its names: small enough to keep one for each shard. */
struct ks_story_note {
    bool told; /* The rest means something. */
    enum ks_story story;
    struct ks_incarnation worker;
    ks_epoch epoch;
    uint64_t number;
    uint32_t count;
    ks_span span;
    enum ks_cause cause;
};

enum ks_log_level ks_story_level(enum ks_story story);
/* The word of the event that it makes for listeners, NULL for none. */
const char *ks_story_event(enum ks_story story);
/* The sentence for a KS_EFFECT_STORY; `shard` and `worker` are the names of its numbers, `record` what `number` is;
 * NULL: it is none, or not in memory. Cut at KS_STORY_LINE_MAX - 1 characters. */
void ks_story_line(const struct ks_effect *effect, const char *shard, const char *worker,
                   const struct ks_record *record, char ret_line[KS_STORY_LINE_MAX]);
/* Keeps a KS_EFFECT_STORY about a shard as the reason why its lease is where it is. That it was acquired says less than
 * what had been decided before, which is kept then. */
void ks_story_keep(struct ks_story_note *note, const struct ks_effect *effect);
/* The sentence of what was kept; "" if nothing was. */
void ks_story_reason(const struct ks_story_note *note, const char *shard, const char *worker,
                     const struct ks_record *record, char ret_line[KS_STORY_LINE_MAX]);

#endif
