/* SPDX-License-Identifier: Apache-2.0 */
/* numbers.h - what a core calls the shards of the world: the part of ports/names.h and board_numbers.c of a simulated
 * process.
 *
 * In most worlds a shard has one number, its own. In those with few numbers each process gives out the lowest that is
 * free, and lets its core forget a shard that it neither holds nor has heard of lately, so that numbers go from one
 * shard to the next all the time. An effect never names one that stands for nothing. In the tables of others, whose
 * shards are too few for that, rows of shards of long ago are seen for a while, finished, and then are gone.
 */
#ifndef KS_SIM_NUMBERS_H
#define KS_SIM_NUMBERS_H

#include "core/core.h"

enum { NUMBERS_MAX = 64, NUMBERS_OLD = 4 };

/* Zeroed: each shard is its own number. */
struct numbers {
    bool few;
    uint32_t shards_max; /* Of the core. */
    ks_shard old; /* Shards of long ago: from here to there; in a world that has none: there. */
    ks_shard of[NUMBERS_MAX];     /* By shard: its number + 1; 0: it has none. */
    ks_shard shard[NUMBERS_MAX];  /* By number: likewise. */
    ks_shard before[NUMBERS_MAX]; /* Likewise, that had it last. */
    ks_instant touched[NUMBERS_MAX];
    ks_instant free_at;
};

/* True for the seeds of worlds with few numbers: every second million. */
bool numbers_are_few(uint64_t seed);
/* The last `old` of the core's shards are those of long ago. */
void numbers_begin(struct numbers *numbers, uint64_t seed, uint32_t shards_max, uint32_t old);
/* What the core knows a shard of the world as; one that it does not know: as none that there is. */
ks_shard numbers_of(const struct numbers *numbers, ks_shard shard);
/* The shard that the core means by a number. */
ks_shard numbers_meant(const struct numbers *numbers, ks_shard number);
/* ks_core_step, of events and effects that are about shards of the world. */
void numbers_step(struct numbers *numbers, struct ks_core *core, ks_instant now,
                  const struct ks_event *event, struct ks_effects *effects);
/* In all runs: how often a number was given to another shard than before. */
uint64_t numbers_given_again(void);

#endif
