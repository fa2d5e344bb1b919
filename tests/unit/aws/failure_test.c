/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/failure.h"

#include "ks_test.h"

#include <stdio.h>
#include <string.h>

static struct ks_failure read_one(int status, const char *head, ks_view body)
{
    struct ks_failure failure;

    ks_failure_read(status, ks_view_text(head), body, &failure);
    return failure;
}

static void expect_code(const char *type, const char *code)
{
    char body[256];
    struct ks_failure failure;

    snprintf(body, sizeof(body), "{\"__type\":\"%s\"}", type);
    failure = read_one(400, "", ks_view_text(body));
    EXPECT_STR(failure.code, code);
}

TEST(codes_are_cut_out_of_their_type)
{
    expect_code("ResourceNotFoundException", "ResourceNotFoundException");
    expect_code("com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException",
                "ConditionalCheckFailedException");
    expect_code("a#b#LimitExceededException:http://x/#y", "LimitExceededException");
    expect_code("", "");
    expect_code("#", "");
    expect_code(":x", "");
}

TEST(the_body_says_code_and_message)
{
    struct ks_failure failure =
        read_one(400, "x-amzn-RequestId: ABC-1\r\nContent-Type: application/x-amz-json-1.1\r\n",
                 KS_VIEW("{\"__type\":\"ProvisionedThroughputExceededException\",\"message\":"
                         "\"Rate exceeded\"}"));

    EXPECT_STR(failure.code, "ProvisionedThroughputExceededException");
    EXPECT_STR(failure.message, "Rate exceeded");
    EXPECT_STR(failure.request_id, "ABC-1");
    EXPECT_EQ_I64(failure.status, 400);
    EXPECT(ks_err_is(failure.err, KS_ERR_THROTTLED));
    EXPECT(failure.throttled && !failure.skewed && !failure.token_expired);
    EXPECT_EQ_I64(failure.retry_after_ms, -1);

    failure = read_one(400, "",
                       KS_VIEW("{\"__type\":\"SerializationException\",\"Message\":\"capital\"}"));
    EXPECT_STR(failure.message, "capital");
    EXPECT(ks_err_is(failure.err, KS_ERR_INVALID));
    failure = read_one(400, "", KS_VIEW("{\"__type\":null,\"message\":17}"));
    EXPECT_STR(failure.code, "");
    EXPECT_STR(failure.message, "");
}

TEST(a_cbor_body_says_the_same)
{
    const char *head = "content-type: application/x-amz-cbor-1.1\r\n";
    struct ks_failure failure;

    failure = read_one(
        400, head,
        KS_VIEW("\xbf\x66__type\x78\x18"
                "ExpiredIteratorException\x61x\x82\x01\x02\x67message\x7f\x63Ite\x62r.\xff\xff"));
    EXPECT_STR(failure.code, "ExpiredIteratorException");
    EXPECT_STR(failure.message, "Iter.");
    EXPECT(ks_err_is(failure.err, KS_ERR_EXPIRED));
    /* What was read before it broke off counts. */
    failure = read_one(400, head, KS_VIEW("\xa2\x66__type\x69Throttled\x67mess"));
    EXPECT_STR(failure.code, "Throttled");
    failure = read_one(400, head, KS_VIEW("\xa1\x66__type\x01"));
    EXPECT_STR(failure.code, "");
}

TEST(xml_of_the_query_protocol_says_the_same)
{
    struct ks_failure failure = read_one(
        403, "Content-Type: text/xml\r\nx-amzn-RequestId: r1\r\n",
        KS_VIEW(
            "<?xml version=\"1.0\"?>\n<ErrorResponse "
            "xmlns=\"u\"><Error><Type>Sender</Type><Code>AuthorizationError</Code>"
            "<Message>User: a &amp; b</Message></Error><RequestId>r2</RequestId></ErrorResponse>"));

    EXPECT_STR(failure.code, "AuthorizationError");
    EXPECT_STR(failure.message, "User: a & b");
    EXPECT_STR(failure.request_id, "r1");
    EXPECT(ks_err_is(failure.err, KS_ERR_DENIED));
    failure = read_one(400, "",
                       KS_VIEW("<ErrorResponse><Error><Code>NotFound</Code></Error>"
                               "</ErrorResponse>"));
    EXPECT(ks_err_is(failure.err, KS_ERR_NOT_FOUND));
    failure = read_one(
        400, "", KS_VIEW("<ErrorResponse><Error><Code>A&#228;B</Code></Error></ErrorResponse>"));
    EXPECT_STR(failure.code, "A&#228;B");
    failure = read_one(502, "Content-Type: text/html\r\n", KS_VIEW("<html><body>Bad gateway"));
    EXPECT_STR(failure.code, "");
    EXPECT(ks_err_is(failure.err, KS_ERR_SERVER));
}

TEST(the_header_says_the_code_where_the_body_does_not)
{
    struct ks_failure failure =
        read_one(400, "x-amzn-ErrorType: ResourceInUseException:http://internal/\r\n", KS_VIEW(""));

    EXPECT_STR(failure.code, "ResourceInUseException");
    EXPECT(ks_err_is(failure.err, KS_ERR_EXISTS));
    failure = read_one(400, "x-amzn-ErrorType: Other\r\n",
                       KS_VIEW("{\"__type\":\"AccessDeniedException\"}"));
    EXPECT_STR(failure.code, "AccessDeniedException");
}

TEST(codes_mean_what_the_table_says)
{
    static const struct {
        const char *code;
        enum ks_err_code err;
        bool throttled;
        bool skewed;
        bool token_expired;
    } cases[] = {
        {"ConditionalCheckFailedException", KS_ERR_CONDITION, false, false, false},
        {"LimitExceededException", KS_ERR_THROTTLED, true, false, false},
        {"ThrottlingException", KS_ERR_THROTTLED, true, false, false},
        {"RequestLimitExceeded", KS_ERR_THROTTLED, true, false, false},
        {"InvalidSignatureException", KS_ERR_DENIED, false, true, false},
        {"RequestTimeTooSkewed", KS_ERR_DENIED, false, true, false},
        {"ExpiredTokenException", KS_ERR_DENIED, false, false, true},
        {"UnrecognizedClientException", KS_ERR_DENIED, false, false, true},
        {"ResourceNotFoundException", KS_ERR_NOT_FOUND, false, false, false},
        {"QueueDoesNotExist", KS_ERR_NOT_FOUND, false, false, false},
        {"KmsAccessDenied", KS_ERR_DENIED, false, false, false},
        {"KMSAccessDenied", KS_ERR_DENIED, false, false, false},
        {"KmsThrottled", KS_ERR_THROTTLED, true, false, false},
        {"InternalFailure", KS_ERR_SERVER, false, false, false},
        {"ValidationException", KS_ERR_INVALID, false, false, false},
        {"UnknownOperationException", KS_ERR_UNSUPPORTED, false, false, false},
        {"NobodyKnowsThis", KS_ERR_INVALID, false, false, false},
    };

    for (size_t at = 0; at < sizeof(cases) / sizeof(cases[0]); at++) {
        struct ks_failure failure;
        ks_failure_from(400, ks_view_text(cases[at].code), KS_VIEW("m"), &failure);
        EXPECT_EQ_I64(failure.err.code, cases[at].err);
        EXPECT_EQ_I64(failure.throttled, cases[at].throttled);
        EXPECT_EQ_I64(failure.skewed, cases[at].skewed);
        EXPECT_EQ_I64(failure.token_expired, cases[at].token_expired);
    }
}

TEST(without_a_code_the_status_decides)
{
    static const struct {
        int status;
        enum ks_err_code err;
    } cases[] = {{400, KS_ERR_INVALID},   {401, KS_ERR_DENIED},  {403, KS_ERR_DENIED},
                 {404, KS_ERR_SERVER},    {408, KS_ERR_TIMEOUT}, {413, KS_ERR_INVALID},
                 {429, KS_ERR_THROTTLED}, {500, KS_ERR_SERVER},  {503, KS_ERR_SERVER},
                 {302, KS_ERR_SERVER}};

    for (size_t at = 0; at < sizeof(cases) / sizeof(cases[0]); at++) {
        struct ks_failure failure = read_one(cases[at].status, "", KS_VIEW("<html>no json</html>"));
        EXPECT_EQ_I64(failure.err.code, cases[at].err);
        EXPECT_EQ_I64(failure.throttled, cases[at].status == 429);
    }
}

TEST(how_long_to_wait_is_read_and_bounded)
{
    EXPECT_EQ_I64(read_one(429, "x-amz-retry-after: 1500\r\n", KS_VIEW("")).retry_after_ms, 1500);
    EXPECT_EQ_I64(read_one(429, "Retry-After: 2\r\n", KS_VIEW("")).retry_after_ms, 2000);
    EXPECT_EQ_I64(read_one(429, "Retry-After: Wed, 21 Oct\r\n", KS_VIEW("")).retry_after_ms, -1);
    EXPECT_EQ_I64(
        read_one(429, "Retry-After: 18446744073709551615\r\n", KS_VIEW("")).retry_after_ms,
        3600000);
    EXPECT_EQ_I64(read_one(429, "x-amz-retry-after: -1\r\n", KS_VIEW("")).retry_after_ms, -1);
}

TEST(long_texts_are_cut_between_characters)
{
    struct ks_failure failure;
    char message[2 * KS_FAILURE_MESSAGE_MAX];

    memset(message, 'm', sizeof(message));
    memcpy(message + KS_FAILURE_MESSAGE_MAX - 1, "\xc3\xa4", 2);
    ks_failure_from(500, ks_view_of(message, sizeof(message)), ks_view_of(message, sizeof(message)),
                    &failure);
    EXPECT_EQ_U64(strlen(failure.code), KS_FAILURE_CODE_MAX);
    EXPECT_EQ_U64(strlen(failure.message), KS_FAILURE_MESSAGE_MAX - 1);
    ks_failure_from(500, KS_VIEW("A\xff"), KS_VIEW("all\0more"), &failure);
    EXPECT_STR(failure.code, "A");
    EXPECT_STR(failure.message, "all");
}

TEST(a_failure_is_explained)
{
    struct ks_failure failure;
    struct ks_detail detail;

    ks_failure_from(400, KS_VIEW("SomeException"), KS_VIEW("that is why"), &failure);
    ks_failure_explain(&failure, "kinesis", "ListShards", &detail);
    EXPECT_STR(detail.text, "SomeException on kinesis ListShards: that is why");
    ks_failure_from(502, KS_VIEW(""), KS_VIEW(""), &failure);
    ks_failure_explain(&failure, "kinesis", "ListShards", &detail);
    EXPECT_STR(detail.text, "status 502 on kinesis ListShards");
}

TEST(a_denied_call_names_its_action_and_where_the_policy_is)
{
    struct ks_failure failure;
    struct ks_detail detail;

    ks_failure_from(400, KS_VIEW("AccessDeniedException"), KS_VIEW("User: u"), &failure);
    EXPECT(ks_failure_is_denied(&failure));
    ks_failure_explain(&failure, "kinesis", "ListShards", &detail);
    EXPECT_STR(detail.text,
               "AccessDeniedException on kinesis ListShards: allow kinesis:ListShards to this role "
               "(kinesis-sidecar iam-policy): User: u");
    ks_failure_explain(&failure, "the place", "credentials", &detail);
    EXPECT_STR(detail.text, "AccessDeniedException on the place credentials: User: u");
    ks_failure_explain(&failure, "STS", "AssumeRoleWithWebIdentity", &detail);
    EXPECT_STR(detail.text, "AccessDeniedException on STS AssumeRoleWithWebIdentity: User: u");
    ks_failure_deny(&failure, "s3:GetObject", "b/p/*", &detail);
    EXPECT_STR(detail.text, "access denied: allow s3:GetObject on b/p/* to this role "
                            "(kinesis-sidecar iam-policy): User: u");
    ks_failure_from(400, KS_VIEW("InvalidSignatureException"), KS_VIEW("wrong"), &failure);
    EXPECT(!ks_failure_is_denied(&failure));
    ks_failure_explain(&failure, "kinesis", "ListShards", &detail);
    EXPECT_STR(detail.text, "InvalidSignatureException on kinesis ListShards: wrong");
}

#define ID "5f0e3a5c-1111-2222-3333-444455556666"

TEST(the_request_is_told_and_the_message_cut_for_it)
{
    static const char *const none[] = {"", "two words", "line\nend", "\xc3\xa4"};
    struct ks_failure failure;
    struct ks_detail detail;
    char body[400];

    ks_failure_read(400, KS_VIEW("x-amzn-RequestId: " ID "\r\n"),
                    KS_VIEW("{\"__type\":\"SomeException\",\"message\":\"why\"}"), &failure);
    ks_failure_explain(&failure, "kinesis", "ListShards", &detail);
    EXPECT_STR(detail.text, "SomeException on kinesis ListShards: why (request " ID ")");

    (void)snprintf(body, sizeof(body), "{\"__type\":\"E\",\"message\":\"%0300d\"}", 0);
    ks_failure_read(400, KS_VIEW("x-amzn-RequestId: " ID "\r\n"), ks_view_text(body), &failure);
    ks_failure_explain(&failure, "kinesis", "ListShards", &detail);
    EXPECT_EQ_U64(strlen(detail.text), sizeof(detail.text) - 1);
    EXPECT_CONTAINS(detail.text, "00 (request " ID ")");

    for (size_t at = 0; at < sizeof(none) / sizeof(none[0]); at++) {
        ks_detail_set(&detail, "so it is");
        ks_failure_name_request(&detail, ks_view_text(none[at]));
        EXPECT_STR(detail.text, "so it is");
    }
}

/* ---- XML ---- */

TEST(an_error_of_s3_says_its_code_and_message)
{
    struct ks_failure failure =
        read_one(503, "Content-Type: application/xml\r\nx-amz-request-id: R1\r\n",
                 KS_VIEW("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>SlowDown</Code>"
                         "<Message>Please reduce your request rate.</Message></Error>"));

    EXPECT_STR(failure.code, "SlowDown");
    EXPECT_STR(failure.message, "Please reduce your request rate.");
    EXPECT_STR(failure.request_id, "R1");
    EXPECT(failure.throttled);
    failure = read_one(404, "", KS_VIEW("<Error><Code>NoSuchKey</Code></Error>"));
    EXPECT_ERR(failure.err, NOT_FOUND);
    failure = read_one(412, "", KS_VIEW("<Error><Code>PreconditionFailed</Code></Error>"));
    EXPECT_ERR(failure.err, CONDITION);
    failure = read_one(409, "", KS_VIEW("<Error><Code>ConditionalRequestConflict</Code></Error>"));
    EXPECT_ERR(failure.err, BUSY);
    failure = read_one(403, "", KS_VIEW("<Error><Code>InvalidAccessKeyId</Code></Error>"));
    EXPECT_ERR(failure.err, DENIED);
    EXPECT(failure.token_expired);
    failure = read_one(501, "", KS_VIEW("<Error><Code>NotImplemented</Code></Error>"));
    EXPECT_ERR(failure.err, UNSUPPORTED);
}

TEST(an_error_within_its_response_is_read)
{
    const struct ks_failure failure = read_one(
        400, "", KS_VIEW("<ErrorResponse><Error><Code>Throttling</Code></Error></ErrorResponse>"));

    EXPECT_STR(failure.code, "Throttling");
}

TEST(xml_that_cannot_be_read_is_judged_by_its_status)
{
    static const char *const bodies[] = {"<", "<Error>", "<Error><Code>SlowDown</Code>", "<html/>",
                                         "<!DOCTYPE x><Error><Code>SlowDown</Code></Error>"};

    for (size_t at = 0; at < sizeof(bodies) / sizeof(bodies[0]); at++) {
        const struct ks_failure failure = read_one(503, "", ks_view_text(bodies[at]));

        EXPECT_STR(failure.code, "");
        EXPECT_ERR(failure.err, SERVER);
    }
}
