/* SPDX-License-Identifier: Apache-2.0 */
/* house.h - the running sidecar: builds every floor from the options, turns the loop, takes it all
 * down again.
 */
#ifndef KS_MAIN_HOUSE_H
#define KS_MAIN_HOUSE_H

#include "main/reload.h"

/* Runs until it is drained (SIGTERM, SIGINT) or can not go on. `options` as `line` says; they change when the config is
 * read again. `line` NULL: it never is. Returns the exit code: 0 drained; 1 it cannot run, said on the log; 2 the
 * settings are wrong, likewise. */
int ks_house_run(struct ks_options *options, const struct ks_command_line *line);

#endif
