/* SPDX-License-Identifier: Apache-2.0 */
/* options_derive.h - the defaults that depend on something else than the table. Used by base/options.c. */
#ifndef KS_BASE_OPTIONS_DERIVE_H
#define KS_BASE_OPTIONS_DERIVE_H

#include "base/options.h"

/* Sets what was left out of where things lie, and the name of the subscription. INVALID with a detail: a path that is
 * too long. */
KS_MUST_USE ks_err ks_options_derive(struct ks_options *options, struct ks_detail *detail);
/* Names the worker, if nobody did: the host and some random digits. */
void ks_options_name_worker(struct ks_options *options);

#endif
