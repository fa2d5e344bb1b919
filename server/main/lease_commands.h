/* SPDX-License-Identifier: Apache-2.0 */
/* lease_commands.h - the subcommands of `leases` that work with a lease table itself, whether a sidecar runs or not.
 *
 * Nothing is written before everything that is to be said of it is said; each write is conditional on what was read,
 * and what was written is read again.
 */
#ifndef KS_MAIN_LEASE_COMMANDS_H
#define KS_MAIN_LEASE_COMMANDS_H

#include "main/call.h"

/* What was said on the command line; NULL: it was not. */
struct ks_lease_words {
    const struct ks_call *call;
    const char *table;
    const char *from;
    const char *to;
    const char *at;
    const char *as;
    bool all;
    bool force;
    bool dry_run;
};

/* The first word says what; none is list. The exit code: 0 done, 1 not done, 2 wrong words. */
int ks_leases_with_table(const struct ks_lease_words *words);
/* Writes how all of `leases` is used. */
bool ks_leases_usage(void);

#endif
