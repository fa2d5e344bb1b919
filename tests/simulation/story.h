/* SPDX-License-Identifier: Apache-2.0 */
/* story.h - what a run tells: one line for each decision, told with -v, hashed always. */
#ifndef KS_SIM_STORY_H
#define KS_SIM_STORY_H

#include "core/effect.h"
#include "core/event.h"
#include "world_table.h"

struct process;
struct world;

/* Mixes a value into the hash of the run. */
void story_hash(struct world *world, uint64_t value);
/* A line with the time in front, if the run is told. Level 1; story_whisper needs -vv. */
void story_say(struct world *world, const char *who, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void story_whisper(struct world *world, const struct process *process, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A write as it was applied or refused. */
void story_table(struct world *world, const struct table_request *request);
/* What an app says to a core, at level 2. */
void story_event(struct world *world, const struct process *process, const struct ks_event *event);
/* An effect: KS_EFFECT_STORY as its sentence, the others at level 2. */
void story_effect(struct world *world, const struct process *process,
                  const struct ks_effect *effect);

#endif
