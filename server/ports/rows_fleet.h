/* SPDX-License-Identifier: Apache-2.0 */
/* rows_fleet.h - the worker rows and the leader row in the core's tongue: the part of rows.c that is about people.
 *
 * There may be more rows than there is room for: a deploy leaves a dead row for each of its pods. The dead are left out
 * then; of those that live none is left out in silence, for an absent row proves its worker dead.
 * For rows.c alone. Loop thread only.
 */
#ifndef KS_PORTS_ROWS_FLEET_H
#define KS_PORTS_ROWS_FLEET_H

#include "ports/rows.h"

/* Turns the worker rows of an answer into the event's; they live until the next translation. If not all that may live
 * have a place and a number, worker_count is more than workers_max, and only so many are there at most. Tokens of
 * others that do not fit are left out: the next leader's round gives them again. False if our own do not fit. */
bool ks_rows_fleet(struct ks_rows *rows, const struct ks_store_answer *answer, ks_instant now,
                   ks_wall wall, struct ks_event *ret_event);
/* Says of all worker rows, once, that one cannot be read: nobody takes its leases, for it is neither alive nor dead. */
void ks_rows_damage(struct ks_rows *rows, const struct ks_store_answer *answer);
/* A holder without a number keeps its boot, and is thereby not nobody; a deputy without one is none. */
void ks_rows_leader(struct ks_rows *rows, const struct ks_store_leader *leader, ks_instant now,
                    struct ks_leader_row *ret_row);
/* The list of shards in numbers, and back, in the order of bytes. False if one has no number, or there is no memory. */
bool ks_rows_list(struct ks_rows *rows, const struct ks_store_list *list, ks_instant now,
                  struct ks_list_row *ret_list);
bool ks_rows_list_text(struct ks_rows *rows, const ks_shard *shards, uint32_t count,
                       ks_view *ret_text);

#endif
