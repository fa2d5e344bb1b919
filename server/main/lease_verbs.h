/* SPDX-License-Identifier: Apache-2.0 */
/* lease_verbs.h - what `leases` does with a lease table, verb by verb, and what the verbs share.
 *
 * Each returns the exit code, as ks_leases_with_table.
 */
#ifndef KS_MAIN_LEASE_VERBS_H
#define KS_MAIN_LEASE_VERBS_H

#include "main/lease_commands.h"
#include "main/lease_table.h"

/* list --table T: every row, and the workers. */
int ks_leases_list(const struct ks_lease_words *words);
/* show SHARD --table T: one row, also as the table says it. */
int ks_leases_show(const struct ks_lease_words *words);
/* convert --from T --to T. */
int ks_leases_convert(const struct ks_lease_words *words);
/* seize WORKER, release SHARD .., reset SHARD .. --at PLACE, each with --table T. */
int ks_leases_seize(const struct ks_lease_words *words);
int ks_leases_release(const struct ks_lease_words *words);
int ks_leases_reset(const struct ks_lease_words *words);

/* What they share. A position for people: "495..", "495.. + 3", "AT_TIMESTAMP 2026-11-22T12:00:00.000Z"; "-": none. */
KS_MUST_USE ks_err ks_lease_place(const struct ks_store_lease *lease, struct ks_bytes *ret_text);
/* Writes a text to stdout; complains if that fails, or what came before did. */
bool ks_lease_say(struct ks_bytes *text, ks_err err);
/* Opens and reads the table that `word` names, which is not made; it may be absent unless it must be `there`. It
 * complains. */
bool ks_lease_table_find(struct ks_lease_desk *desk, const char *word, bool there,
                         struct ks_lease_table *table);
/* Watches up to two tables for as long as a lease lasts. True if nobody lives on them, or `force` says that this does
 * not matter; otherwise it complains. */
bool ks_lease_tables_rest(const struct ks_lease_words *words,
                          struct ks_lease_table *const tables[2]);

#endif
