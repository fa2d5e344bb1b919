/* SPDX-License-Identifier: Apache-2.0 */
/* exposure.h - what others can reach or read with these options: said at start, and no reason not to start. */
#ifndef KS_MAIN_EXPOSURE_H
#define KS_MAIN_EXPOSURE_H

#include "base/options.h"

/* Tells `say` each: a port that others reach without a token, one token for apps and operators, names that pages of the
 * web may have without a token, and token files and files of state that every user of the host may read. Blocking. */
void ks_exposure_tell(const struct ks_options *options, void (*say)(void *arg, const char *line),
                      void *arg);

#endif
