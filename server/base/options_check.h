/* SPDX-License-Identifier: Apache-2.0 */
/* options_check.h - the rules for options that the table cannot say: forms of texts, and what goes with what.
 *
 * Used by base/options.c. Each failure is INVALID, with one line that names the option and what is allowed.
 */
#ifndef KS_BASE_OPTIONS_CHECK_H
#define KS_BASE_OPTIONS_CHECK_H

#include "base/options.h"

KS_MUST_USE ks_err ks_options_check(const struct ks_options *options, struct ks_detail *detail);
/* That the stream and the application are there. */
KS_MUST_USE ks_err ks_options_check_required(const struct ks_options *options,
                                             struct ks_detail *detail);

/* True for letters, digits, '.', '_', '-' and nothing else, and at least one of them. */
bool ks_option_is_name(ks_view text);

/* What a --stream says: its name, and its account if it is an ARN, else an empty one. */
void ks_option_stream(const char *stream, ks_view *ret_account, ks_view *ret_name);
/* True if both may mean one stream. */
bool ks_option_same_stream(const char *a, const char *b);

/* `text` between quotation marks, cut, with a ? for whatever is not printable ASCII: for one line on a terminal. */
enum { KS_QUOTE_SIZE = 48 };
void ks_option_quote(ks_view text, char ret_quoted[KS_QUOTE_SIZE]);

#endif
