/* SPDX-License-Identifier: Apache-2.0 */
/* keys_json.h - credentials in JSON, as three places write them: the container endpoint and the
 * instance metadata service ({"AccessKeyId","SecretAccessKey","Token","Expiration"}, or
 * {"Code","Message"}), and a credential_process ({"Version":1,"AccessKeyId","SecretAccessKey",
 * "SessionToken","Expiration"}).
 */
#ifndef KS_AWS_CREDENTIALS_KEYS_JSON_H
#define KS_AWS_CREDENTIALS_KEYS_JSON_H

#include "aws/credentials/provider.h"
#include "aws/http.h"

/* Reads an answer of any status into provider->credentials; `who` ("the container endpoint") is for
 * the detail of a failure. MALFORMED, or what status and Code mean. */
KS_MUST_USE ks_err ks_keys_read_answer(struct ks_provider *provider, const char *who,
                                       const struct ks_http_answer *answer);
/* Reads what a process wrote. MALFORMED, UNSUPPORTED (another Version), with a detail. */
KS_MUST_USE ks_err ks_keys_read_process(struct ks_provider *provider, ks_view output);

#endif
