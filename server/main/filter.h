/* SPDX-License-Identifier: Apache-2.0 */
/* filter.h - the filter of a subscription: what --filter says, or the file that it names. */
#ifndef KS_MAIN_FILTER_H
#define KS_MAIN_FILTER_H

#include "base/pattern.h"

/* Reads and compiles it (base/pattern.h). `option` is the document itself, if it begins with "{", else the path of a
 * file of at most KS_PATTERN_TEXT_MAX bytes; waits for it. "": `*ret` is NULL, all records are delivered. INVALID with
 * a sentence that begins with --filter; NO_MEMORY. The caller frees it with ks_pattern_free(). */
KS_MUST_USE ks_err ks_filter_load(const char *option, struct ks_pattern **ret,
                                  struct ks_detail *ret_detail);

#endif
