/* SPDX-License-Identifier: Apache-2.0 */
/* files.h - can the files that the options and the variables of AWS name be used, by this user and
 * on this machine; and can what these say of AWS be?
 *
 * A running sidecar finds out one after the other while it starts, or when it first needs one; this
 * looks at all of them beforehand, and makes and changes nothing. What nobody named is not looked
 * at, and of AWS nothing while stream and leases are on this machine.
 */
#ifndef KS_MAIN_FILES_H
#define KS_MAIN_FILES_H

#include "base/options.h"

/* Tells `say` each file or directory that cannot be used, in one line that begins with the option
 * or the variable. Returns how many there were. Blocking: it reads the first bytes of files. */
uint32_t ks_files_check(const struct ks_options *options, void (*say)(void *arg, const char *line),
                        void *arg);

#endif
