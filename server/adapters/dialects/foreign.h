/* SPDX-License-Identifier: Apache-2.0 */
/* foreign.h - what the formats of others' lease tables share: ids, and a place inside an aggregate, which they do not
 * know.
 *
 * Their checkpoint is the last record of which nothing is left. Where that is not all, an attribute of ours beside it,
 * `SidecarPosition`, says "CHECKPOINT:SEQUENCE:SUB": it means something only beside that very checkpoint, since members
 * wipe it, or write another one. Without a checkpoint it may also say where to begin, as a person ordered it: ":" and
 * the position as in the native table, with ":MILLISECONDS" behind AT_TIMESTAMP. Pure.
 */
#ifndef KS_ADAPTERS_DIALECTS_FOREIGN_H
#define KS_ADAPTERS_DIALECTS_FOREIGN_H

#include "adapters/item.h"
#include "ports/lease_store.h"

/* The owner "" of a table, as the port names it: an id of its own. */
#define KS_FOREIGN_EMPTY "\"\""
#define KS_FOREIGN_SIDECAR "SidecarPosition"
#define KS_FOREIGN_END "SHARD_END"

/* An id of attribute `at`; nobody if it is absent. MALFORMED if it is no text, or longer than ours can be: then no
 * condition could name it. */
KS_MUST_USE ks_err ks_foreign_read_id(const struct ks_item *item, uint32_t at,
                                      struct ks_incarnation_text *ret_who);
/* An id as it stands in the table, kept by the write. */
KS_MUST_USE ks_err ks_foreign_keep_id(struct ks_item_write *write,
                                      const struct ks_incarnation_text *who, ks_view *ret_id);

/* The attribute names this one; or it is as `nobody` says, if there is no id. */
KS_MUST_USE ks_err ks_foreign_if_names(struct ks_item_write *write, const char *name,
                                       enum ks_condition_kind nobody,
                                       const struct ks_incarnation_text *who);

/* True for the place after a record. */
bool ks_foreign_is_sequence(const struct ks_position *position);
/* Moves the lease to the place that attribute `at` names, if that goes with the checkpoint that stands beside it: then
 * it is not unstarted. MALFORMED if it does, but names no place that we know, or is no such attribute at all. */
KS_MUST_USE ks_err ks_foreign_read_inside(const struct ks_item *item, uint32_t at,
                                          ks_view checkpoint, struct ks_store_lease *lease);
/* What a checkpoint says that is digits, SHARD_END or nothing yet; with the place inside that attribute `at` names.
 * MALFORMED for anything else. */
KS_MUST_USE ks_err ks_foreign_read_checkpoint(const struct ks_item *item, uint32_t at,
                                              ks_view checkpoint, struct ks_store_lease *lease);
/* Sets attribute `checkpoint`, and SidecarPosition or removes it, if the request has a checkpoint. INVALID if that is
 * none of a record. */
KS_MUST_USE ks_err ks_foreign_set_position(struct ks_item_write *write,
                                           const struct ks_store_request *request,
                                           const char *checkpoint);

/* Sets SidecarPosition to where a shard begins whose row says no record; if the take says that. */
KS_MUST_USE ks_err ks_foreign_set_start(struct ks_item_write *write,
                                        const struct ks_store_request *request);

/* Sets attribute `checkpoint` to where members go on, and SidecarPosition to where we do, if that is elsewhere; what is
 * not said is removed. `whole` is none if it names no record. INVALID. */
KS_MUST_USE ks_err ks_foreign_mend_position(struct ks_item_write *write,
                                            const struct ks_position *whole,
                                            const struct ks_position *exact,
                                            const char *checkpoint);
/* Likewise of a row that may be at its end, or not begun: SHARD_END, or nothing. */
KS_MUST_USE ks_err ks_foreign_mend_checkpoint(struct ks_item_write *write,
                                              const struct ks_store_lease *lease,
                                              const char *checkpoint);
/* Sets an attribute to an id, or removes it if there is none. */
KS_MUST_USE ks_err ks_foreign_mend_id(struct ks_item_write *write, const char *name,
                                      const struct ks_incarnation_text *who);

/* A day, as days since 1970-01-01, in the calendar. */
struct ks_foreign_date {
    unsigned year;
    unsigned month; /* From 1. */
    unsigned day;   /* From 1. */
};
struct ks_foreign_date ks_foreign_date(uint64_t days);
bool ks_foreign_is_leap(unsigned year);
unsigned ks_foreign_days_of(unsigned year, unsigned month);

/* SET of a text, which is copied; REMOVE. */
KS_MUST_USE ks_err ks_foreign_set_text(struct ks_item_write *write, const char *name, ks_view text);
void ks_foreign_remove(struct ks_item_write *write, const char *name);

/* ---- Of a table that has a row for each shard, and no others ---- */

/* As ks_native_read. INVALID for rows of another kind. */
KS_MUST_USE ks_err ks_foreign_read(const struct ks_store_request *request,
                                   const char **ret_partition, struct ks_item_keys *ret_keys);
/* As ks_native_write, of a row by its key attribute `key`: `fill` adds conditions and updates. */
KS_MUST_USE ks_err ks_foreign_write(const struct ks_store_request *request, const char *key,
                                    ks_err (*fill)(struct ks_item_write *write,
                                                   const struct ks_store_request *request),
                                    struct ks_item_write *ret_write, struct ks_detail *ret_detail);

#endif
