/* SPDX-License-Identifier: Apache-2.0 */
/* sts.h - the two calls of STS that make keys of a role (API version 2011-06-15): a form that is
 * posted, and an answer in XML.
 */
#ifndef KS_AWS_CREDENTIALS_STS_H
#define KS_AWS_CREDENTIALS_STS_H

#include "aws/credentials/plan.h"
#include "aws/credentials/provider.h"
#include "aws/failure.h"
#include "aws/http.h"

enum ks_sts_action { KS_STS_ASSUME_ROLE, KS_STS_WEB_IDENTITY };

/* The form of a request without token: each byte of it may take three. */
enum {
    KS_STS_FORM_MAX = 3 * (KS_ROLE_ARN_MAX + KS_ROLE_SESSION_NAME_MAX + KS_EXTERNAL_ID_MAX) + 512
};

extern const char KS_STS_FORM_TYPE[]; /* Content-Type of the form. */

/* Writes the form for `role` into `body`, which is cleared before; "kinesis-sidecar" where the role
 * names no session. `token` is that of web identity, or empty. FULL, NO_MEMORY. */
KS_MUST_USE ks_err ks_sts_write(struct ks_bytes *body, enum ks_sts_action action,
                                const struct ks_role *role, ks_view token);

/* Reads an answer of any status into provider->credentials. A failure comes with a detail and, if
 * STS said why, with `ret_failure`; otherwise that is zeroed. */
KS_MUST_USE ks_err ks_sts_read(struct ks_provider *provider, enum ks_sts_action action,
                               const struct ks_http_answer *answer, struct ks_failure *ret_failure);

#endif
