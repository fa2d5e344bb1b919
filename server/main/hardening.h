/* SPDX-License-Identifier: Apache-2.0 */
/* hardening.h - what the process gives up for good, so that whoever takes it over has little: docs/SECURITY.md has the
 * table. What this system does not know is a log line, never a reason not to start.
 */
#ifndef KS_MAIN_HARDENING_H
#define KS_MAIN_HARDENING_H

#include <stdbool.h>

#include "base/options.h"

/* No program that it starts gets more rights than it has (PR_SET_NO_NEW_PRIVS), and others of the same user can neither
 * trace it nor have its memory written to a file (PR_SET_DUMPABLE), for keys and tokens are in it. Called first. */
void ks_harden_process(void);

/* From now on files are made, written and removed only in the directories of the files of state and of the sockets, in
 * the temporary directories, in /dev, and in ~/.aws, where programs that fetch credentials keep what they were given
 * (Landlock; kernel.org, userspace-api/landlock). Called before other threads are there: it is for the caller's thread
 * and those that it makes. With --landlock off it does nothing. */
void ks_harden_files(const struct ks_options *options);

/* From now on calls of the system that calls.def does not name are answered as by a kernel that does not know them
 * (seccomp; kernel.org, userspace-api/seccomp_filter). Called like ks_harden_files, after it. Without --seccomp on it
 * does nothing. */
void ks_harden_calls(const struct ks_options *options);

#endif
