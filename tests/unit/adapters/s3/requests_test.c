/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/s3/requests.h"

#include "s3_rig.h"

#include <string.h>

TEST(a_put_is_encrypted_and_says_what_it_expects)
{
    static const struct http_step steps[] = {{.body = S3_EMPTY}, {.status = 200}};
    const char *seen;

    s3_begin(steps, 2);
    EXPECT_EQ_I64(s3_write("s.1.0", 7), KS_DONE);
    seen = http_script_request(s3_script, 1);
    EXPECT_CONTAINS(seen, "PUT /bucket/" S3_KEY_1 " HTTP/1.1\r\n");
    EXPECT_CONTAINS(seen, "If-None-Match: *\r\n");
    EXPECT_CONTAINS(seen, "x-amz-server-side-encryption: aws:kms\r\n");
    EXPECT_CONTAINS(seen, "x-amz-server-side-encryption-aws-kms-key-id: key-1\r\n");
    EXPECT_CONTAINS(seen, "x-amz-server-side-encryption;"
                          "x-amz-server-side-encryption-aws-kms-key-id, Signature=");
    EXPECT_CONTAINS(seen, "Content-Type: application/json\r\n");
    EXPECT(strstr(seen, "If-Match") == NULL);
    s3_finish();
}

TEST(a_list_names_folder_and_place)
{
    static const struct http_step steps[] = {{.body = S3_EMPTY}};

    s3_begin(steps, 1);
    EXPECT_CONTAINS(
        http_script_request(s3_script, 0),
        "GET /bucket/?list-type=2&encoding-type=url&prefix=p%2Fapp%2Fdemo%2F&max-keys=1 "
        "HTTP/1.1\r\n");
    EXPECT_EQ_I64(s3_list("s.1.0", 10), KS_DONE);
    EXPECT_CONTAINS(
        http_script_request(s3_script, 1),
        "&max-keys=11&start-after=p%2Fapp%2Fdemo%2Fs%2F"
        "00000000000000000000000000000000000000000000000000000001.0000000000.json HTTP/1.1\r\n");
    EXPECT(strstr(http_script_request(s3_script, 1), "x-amz-server-side-encryption") == NULL);
    s3_finish();
}

/* ---- Failures ---- */

static const struct ks_s3_place place = {.bucket = "bucket", .prefix = "p/"};

static struct ks_failure failure;

static struct ks_aws_answer answer_of(int status, const char *code)
{
    struct ks_aws_answer answer = {.status = status, .sent = true, .attempts = 1};

    ks_failure_from(status, ks_view_text(code), KS_VIEW("m"), &failure);
    answer.err = failure.err;
    answer.failure = &failure;
    ks_failure_explain(&failure, "s3", "PutObject", &answer.detail);
    return answer;
}

TEST(a_failure_says_what_to_do)
{
    static const struct {
        enum ks_s3_operation operation;
        int status;
        const char *code;
        const char *sentence;
    } cases[] = {
        {KS_S3_LIST, 404, "NoSuchBucket", "there is no bucket bucket: create it, or correct"},
        {KS_S3_LIST, 403, "AccessDenied", "allow s3:ListBucket on the bucket bucket to this role"},
        {KS_S3_PUT, 403, "AccessDenied", "allow s3:PutObject on bucket/p/* to this role"},
        {KS_S3_GET, 403, "AccessDenied", "allow s3:GetObject on bucket/p/* to this role"},
        {KS_S3_DELETE, 403, "AccessDenied", "allow s3:DeleteObject on bucket/p/* to this role"},
        {KS_S3_PUT, 501, "NotImplemented", "does not do conditional writes"},
        {KS_S3_PUT, 503, "SlowDown", "SlowDown on s3 PutObject: m"},
        {KS_S3_PUT, 400, "KMS.DisabledException", "KMS.DisabledException on s3 PutObject"},
    };

    for (size_t at = 0; at < sizeof(cases) / sizeof(cases[0]); at++) {
        const struct ks_aws_answer answer = answer_of(cases[at].status, cases[at].code);
        struct ks_detail detail = {""};

        ks_s3_explain(&place, cases[at].operation, &answer, &detail);
        EXPECT_CONTAINS(detail.text, cases[at].sentence);
    }
}

TEST(a_failure_without_words_is_named_by_its_kind)
{
    const struct ks_aws_answer answer = {.err = KS_FAIL(TIMEOUT)};
    struct ks_detail detail = {""};

    ks_s3_explain(&place, KS_S3_PUT, &answer, &detail);
    EXPECT_STR(detail.text, ks_err_text(KS_FAIL(TIMEOUT)));
}

TEST(an_object_is_absent_only_if_the_bucket_says_so)
{
    struct ks_aws_answer answer = answer_of(404, "NoSuchKey");

    EXPECT(ks_s3_is_absent(&answer));
    answer = answer_of(404, "NoSuchBucket");
    EXPECT(!ks_s3_is_absent(&answer));
    answer = answer_of(404, "");
    EXPECT(!ks_s3_is_absent(&answer));
    answer = answer_of(412, "PreconditionFailed");
    EXPECT(ks_s3_is_changed(&answer) && !ks_s3_is_absent(&answer));
}

TEST(a_request_is_undone_only_if_no_attempt_can_have_been_done)
{
    struct ks_aws_answer answer = answer_of(403, "AccessDenied");

    EXPECT(ks_s3_is_undone(&answer));
    answer.attempts = 2;
    EXPECT(!ks_s3_is_undone(&answer));
    answer = answer_of(503, "SlowDown");
    EXPECT(!ks_s3_is_undone(&answer));
    answer = (struct ks_aws_answer){.err = KS_FAIL(CONNECTION), .attempts = 3, .sent = false};
    EXPECT(ks_s3_is_undone(&answer));
    answer.sent = true;
    EXPECT(!ks_s3_is_undone(&answer));
}
