/* SPDX-License-Identifier: Apache-2.0 */
/* reload.h - the config read again while the sidecar runs: at SIGHUP, and when the --config file has changed.
 *
 * Flags and environment are as they were, so what can differ is what the file says. Options that may change while it
 * runs (X_LIVE in base/options.def) take effect at once; of all others that differ it is said that they wait for the
 * next start. A file that cannot be read or holds something wrong changes nothing, and that is said, too. The file is
 * read on the job thread.
 */
#ifndef KS_MAIN_RELOAD_H
#define KS_MAIN_RELOAD_H

#include "base/loop.h"
#include "base/options.h"

/* What the process was started with; it lives as long as the process. */
struct ks_command_line {
    int argc;
    char *const *argv;
    char *const *environment;
};

struct ks_reload;

/* Looks at the file from now on, if there is one. `options` belongs to the caller and is changed on the loop; then
 * `changed(arg)` is called. NO_MEMORY. */
KS_MUST_USE ks_err ks_reload_new(struct ks_loop *loop, const struct ks_command_line *line,
                                 struct ks_options *options, void (*changed)(void *arg), void *arg,
                                 struct ks_reload **ret_reload);
/* Reads it now, changed or not. */
void ks_reload_now(struct ks_reload *reload);
/* Before the last turns of the loop: a job that is under way comes back first. NULL is allowed. */
void ks_reload_free(struct ks_reload *reload);

#endif
