/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/kinesis/refusal.h"

#include <string.h>

static const struct {
    const char *code;
    const char *advice;
} ADVICE[] = {
    {"KMSAccessDeniedException", "allow kms:Decrypt with the stream's key to this role "
                                 "(kinesis-sidecar iam-policy --stream-kms-key ARN)"},
    {"KMSDisabledException", "enable the stream's KMS key"},
    {"KMSInvalidStateException", "bring the stream's KMS key into the state Enabled"},
    {"KMSNotFoundException", "give the stream a KMS key that exists"},
    {"KMSOptInRequired", "sign the account up for KMS"},
};

bool ks_refusal_explain(const struct ks_failure *failure, const char *operation,
                        struct ks_detail *ret_detail)
{
    for (size_t at = 0; at < sizeof(ADVICE) / sizeof(ADVICE[0]); at++) {
        if (strcmp(failure->code, ADVICE[at].code) != 0)
            continue;
        ks_detail_set(ret_detail, "%s on kinesis %s: %s%s%s", failure->code, operation,
                      ADVICE[at].advice, failure->message[0] == '\0' ? "" : ": ", failure->message);
        ks_failure_name_request(ret_detail, ks_view_text(failure->request_id));
        return true;
    }
    return false;
}
