/* SPDX-License-Identifier: Apache-2.0 */
/* world_redrive.h - dead letters that an operator has delivered again: the store that has them, and the oracle's eye on
 * each (I11).
 *
 * What it draws comes from a generator of its own: worlds without redrives stay as they were.
 */
#ifndef KS_SIM_WORLD_REDRIVE_H
#define KS_SIM_WORLD_REDRIVE_H

#include "agenda.h"
#include "oracle.h"
#include "core/effect.h"
#include "core/event.h"

struct process;
struct world;

enum { SIM_LETTERS = 24 };

enum letter_state { LETTER_NONE, LETTER_WAITING, LETTER_FLYING, LETTER_DOUBT, LETTER_ENDING };

/* One letter, from the order on. */
struct sim_letter {
    enum letter_state state;
    ks_number number;
    ks_shard shard; /* KS_SHARD_NONE: of none that is known. */
    uint32_t bytes;
    uint8_t hash;      /* Of its partition key. */
    uint32_t attempts; /* Deliveries, as the app is told. */
    uint32_t tries;    /* Of these, since the order. */
    uint32_t session;
    uint64_t assignment; /* FLYING: in which it is out and not written; 0: it is written. */
    uint64_t last_in;    /* This and the next one as of a record in oracle.h. */
    uint64_t got_in[SIM_WRITINGS];
    uint32_t half_way; /* This and the next two as of a record in oracle.h. */
    uint64_t numbers;
    bool begun;
    int64_t due;
    int64_t not_before;
    int64_t stale_at;
    bool acked;
    bool asked;   /* The app gave it up. */
    bool telling; /* The store is asked to remove it, or to keep it. */
    bool removed; /* The store has it no more. */
};

/* True if there are redrives in this world; before the first one. */
bool world_redrive_begins(struct world *world);
/* One order for a process (NULL, or one that is frozen: none). Returns how long it is to the next one. */
sim_time world_redrive_orders(struct world *world, struct process *process);
/* A KS_EVENT_WRITE of letters. */
void world_redrive_wrote(struct process *process, const struct ks_event *event, ks_instant now);
/* An app has read one, which was written, with this attempt number. */
void world_redrive_read(struct world *world, struct process *process, ks_number number,
                        uint32_t attempt);
/* The app has handled one. */
void world_redrive_handled(struct world *world, struct process *process,
                           const struct happening *job);

/* Effects: DELIVER of KS_SHARD_NONE, LETTER, LETTER_OVER. */
void world_redrive_deliver(struct world *world, struct process *process,
                           const struct ks_effect *effect, ks_instant now);
void world_redrive_letter(struct world *world, struct process *process,
                          const struct ks_effect *effect);
void world_redrive_over(struct world *world, struct process *process,
                        const struct ks_effect *effect);
/* HAPPENS_LETTER: done, none there, or nobody knows. */
void world_redrive_told(struct world *world, struct process *process,
                        const struct happening *answer);

/* What the oracle sees. */
void world_redrive_turn(struct process *process, ks_instant now);
void world_redrive_settled(struct world *world, struct process *process,
                           const struct ks_event *event, enum ks_settle_status status,
                           ks_instant now);
void world_redrive_requeue(struct process *process, uint32_t session);
/* True while one is in flight, or settled and the store does not know. */
bool world_redrive_is_busy(const struct process *process);
/* True if none is left. */
bool world_redrive_is_done(const struct process *process);

#endif
