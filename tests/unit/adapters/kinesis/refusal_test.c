/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/kinesis/refusal.h"

#include "ks_test.h"

static struct ks_failure failure(const char *code, const char *message)
{
    struct ks_failure failure;

    ks_failure_from(400, ks_view_text(code), ks_view_text(message), &failure);
    return failure;
}

TEST(refusals_of_kms_say_what_to_do_before_what_aws_says)
{
    static const struct {
        const char *code;
        const char *told;
    } ROWS[] = {
        {"KMSAccessDeniedException",
         "KMSAccessDeniedException on kinesis GetRecords: allow kms:Decrypt with "
         "the stream's key to this role (kinesis-sidecar iam-policy --stream-kms-key ARN): no"},
        {"KMSDisabledException",
         "KMSDisabledException on kinesis GetRecords: enable the stream's KMS key: no"},
        {"KMSInvalidStateException", "KMSInvalidStateException on kinesis GetRecords: bring the "
                                     "stream's KMS key into the state Enabled: no"},
        {"KMSNotFoundException",
         "KMSNotFoundException on kinesis GetRecords: give the stream a KMS key that exists: no"},
        {"KMSOptInRequired",
         "KMSOptInRequired on kinesis GetRecords: sign the account up for KMS: no"},
    };

    for (size_t at = 0; at < sizeof(ROWS) / sizeof(ROWS[0]); at++) {
        struct ks_failure refused = failure(ROWS[at].code, "no");
        struct ks_detail detail;
        EXPECT(ks_refusal_explain(&refused, "GetRecords", &detail));
        EXPECT_STR(detail.text, ROWS[at].told);
    }
}

TEST(a_refusal_without_words_ends_with_the_advice)
{
    struct ks_failure refused = failure("KMSDisabledException", "");
    struct ks_detail detail;

    EXPECT(ks_refusal_explain(&refused, "GetRecords", &detail));
    EXPECT_STR(detail.text,
               "KMSDisabledException on kinesis GetRecords: enable the stream's KMS key");
}

TEST(what_aws_explains_itself_is_left_alone)
{
    static const char *const CODES[] = {"AccessDeniedException", "KMSThrottlingException", ""};
    struct ks_detail detail = {.text = "as it was"};

    for (size_t at = 0; at < 3; at++) {
        struct ks_failure refused = failure(CODES[at], "no");
        EXPECT(!ks_refusal_explain(&refused, "GetRecords", &detail));
    }
    EXPECT_STR(detail.text, "as it was");
}
