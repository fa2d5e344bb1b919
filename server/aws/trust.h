/* SPDX-License-Identifier: Apache-2.0 */
/* trust.h - whose certificates are believed: one file of CA certificates, named or the system's.
 *
 * Verification is always on (aws/http.c); all that can be chosen is the bundle.
 */
#ifndef KS_AWS_TRUST_H
#define KS_AWS_TRUST_H

#include "base/err.h"

/* The path of the bundle: `named` if it is neither NULL nor "", else the first of the system's
 * well-known places that can be read. Without any of these it is a path that cannot be read: http://
 * may be all that is wanted, and https:// then fails with a clear word. INVALID: the named one cannot
 * be read. `ret_path` is `named` or a literal. */
KS_MUST_USE ks_err ks_trust_find(const char *named, const char **ret_path,
                                 struct ks_detail *detail);

#endif
