/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/rest.h"

#include "aws/client.h"
#include "aws/endpoint.h"
#include "aws/sigv4.h"
#include "base/budget.h"
#include "ks_test.h"

#include "aws_rig.h"
#include "http_script.h"

#include <stdio.h>
#include <string.h>

/* ---- The request line ---- */

static struct ks_rest rest;
static char url[KS_HTTP_URL_MAX + 1];
static char path[KS_REST_PATH_SIZE];

static struct ks_endpoint endpoint_of(const char *at)
{
    const struct ks_endpoint_rules rules = {
        .service = "s3", .region = "us-east-1", .url = at, .bucket = "bucket"};
    struct ks_endpoint endpoint;
    struct ks_detail detail = {""};

    EXPECT_OK(ks_endpoint_find(&rules, NULL, KS_ENDPOINT_CONTROL, &endpoint, &detail));
    return endpoint;
}

TEST(path_and_query_are_encoded_once)
{
    const struct ks_http_header parameters[] = {{KS_VIEW("prefix"), KS_VIEW("a/b c%41&=+~")},
                                                {KS_VIEW("list-type"), KS_VIEW("2")}};
    const struct ks_aws_rest asked = {.method = "GET",
                                      .path = KS_VIEW("a b/c%d/\xc3\xa4~=.json"),
                                      .parameters = parameters,
                                      .parameter_count = 2};
    const struct ks_endpoint endpoint = endpoint_of("http://host:1/base");

    EXPECT_OK(ks_rest_copy(&asked, &rest));
    EXPECT_OK(ks_rest_locate(&rest, &endpoint, url, path));
    EXPECT_STR(url, "http://host:1/base/bucket/a%20b/c%25d/%C3%A4~%3D.json?"
                    "prefix=a%2Fb%20c%2541%26%3D%2B~&list-type=2");
    EXPECT_STR(path, "/base/bucket/a b/c%d/\xc3\xa4~=.json");
    ks_rest_free(&rest);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(a_request_without_a_query_has_no_question_mark)
{
    const struct ks_aws_rest asked = {.method = "GET", .path = KS_VIEW("key")};
    const struct ks_endpoint endpoint = endpoint_of("");

    EXPECT_OK(ks_rest_copy(&asked, &rest));
    EXPECT_OK(ks_rest_locate(&rest, &endpoint, url, path));
    EXPECT_STR(url, "https://bucket.s3.us-east-1.amazonaws.com/key");
    EXPECT_STR(path, "/key");
    ks_rest_free(&rest);
}

TEST(what_is_too_long_or_too_much_is_refused)
{
    static char large[KS_REST_TEXT_MAX + 1];
    const struct ks_http_header headers[KS_REST_HEADERS_MAX + 1] = {{KS_VIEW("a"), KS_VIEW("b")}};
    struct ks_aws_rest asked = {
        .method = "GET", .headers = headers, .header_count = KS_REST_HEADERS_MAX + 1};
    const struct ks_endpoint endpoint = endpoint_of("");

    EXPECT_ERR(ks_rest_copy(&asked, &rest), INVALID);
    ks_rest_free(&rest);
    memset(large, 'x', sizeof(large));
    asked = (struct ks_aws_rest){.method = "GET", .path = ks_view_of(large, sizeof(large))};
    EXPECT_ERR(ks_rest_copy(&asked, &rest), FULL);
    ks_rest_free(&rest);
    asked.path = ks_view_of(large, KS_HTTP_URL_MAX);
    EXPECT_OK(ks_rest_copy(&asked, &rest));
    EXPECT_ERR(ks_rest_locate(&rest, &endpoint, url, path), FULL);
    ks_rest_free(&rest);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

/* ---- The signature ---- */

static ks_view signature_of(struct ks_sigv4_signer *signer, const char *method,
                            const char *signed_path, const char *query,
                            const struct ks_http_header *headers, uint32_t count, ks_view body)
{
    const struct ks_sigv4_request request = {
        .method = ks_view_text(method),
        .path = ks_view_text(signed_path),
        .query = ks_view_text(query),
        .headers = headers,
        .header_count = count,
        .body = body,
        .path_as_is = true,
        .with_body_hash = true,
        .access_key = KS_VIEW("AKIAIOSFODNN7EXAMPLE"),
        .secret_key = KS_VIEW("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
        .region = "us-east-1",
        .service = "s3",
        .unix_ms = 1369353600000,
    };
    struct ks_sigv4_signature signature;

    EXPECT_OK(ks_sigv4_sign(signer, &request, &signature));
    return ks_view_of(signature.authorization.data + signature.authorization.size - 64, 64);
}

/* Source: "Signature Calculations for the Authorization Header" of the API reference of S3. */
TEST(the_examples_of_s3_have_their_signatures)
{
    const struct ks_http_header get[] = {
        {KS_VIEW("Host"), KS_VIEW("examplebucket.s3.amazonaws.com")},
        {KS_VIEW("Range"), KS_VIEW("bytes=0-9")}};
    const struct ks_http_header put[] = {
        {KS_VIEW("Host"), KS_VIEW("examplebucket.s3.amazonaws.com")},
        {KS_VIEW("Date"), KS_VIEW("Fri, 24 May 2013 00:00:00 GMT")},
        {KS_VIEW("x-amz-storage-class"), KS_VIEW("REDUCED_REDUNDANCY")}};
    struct ks_sigv4_signer signer;

    ks_sigv4_init(&signer);
    EXPECT(
        ks_view_equal(signature_of(&signer, "GET", "/test.txt", "", get, 2, KS_VIEW("")),
                      KS_VIEW("f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41")));
    EXPECT(
        ks_view_equal(signature_of(&signer, "PUT", "/test$file.text", "", put, 3,
                                   KS_VIEW("Welcome to Amazon S3.")),
                      KS_VIEW("98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd")));
    EXPECT(
        ks_view_equal(signature_of(&signer, "GET", "/", "max-keys=2&prefix=J", get, 1, KS_VIEW("")),
                      KS_VIEW("34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7")));
    ks_sigv4_free(&signer);
}

/* ---- The client ---- */

static struct {
    int times;
    ks_err err;
    struct ks_detail detail;
    uint32_t attempts;
    char etag[32];
} told;

static void on_done(void *arg, const struct ks_aws_answer *answer)
{
    const ks_view etag = ks_head_find(answer->head, "ETag");

    (void)arg;
    told.times++;
    told.err = answer->err;
    told.detail = answer->detail;
    told.attempts = answer->attempts;
    (void)snprintf(told.etag, sizeof told.etag, "%.*s", (int)etag.size,
                   etag.data == NULL ? "" : (const char *)etag.data);
}

static struct ks_loop *loop;
static struct aws_rig aws;
static struct http_script *script;
static struct ks_endpoint_rules rules;

static void begin(const struct http_step *steps, size_t count)
{
    script = http_script_start(steps, count);
    EXPECT_OK(ks_loop_new(&loop));
    rules = (struct ks_endpoint_rules){
        .service = "s3", .region = "us-east-1", .url = http_script_url(script), .bucket = "bucket"};
    aws_rig_open_with(&aws, loop, KS_AWS_S3, rules.url, &(struct aws_rig_options){.rules = &rules});
    told.times = 0;
}

static void finish(void)
{
    aws_rig_close(&aws);
    ks_loop_free(loop);
    http_script_stop(script);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

static void ask(const char *method, ks_view body)
{
    const struct ks_http_header headers[] = {{KS_VIEW("Content-Type"), KS_VIEW("application/json")},
                                             {KS_VIEW("If-None-Match"), KS_VIEW("*")}};
    const struct ks_aws_rest asked = {.method = method,
                                      .path = KS_VIEW("a/b.json"),
                                      .headers = headers,
                                      .header_count = body.size > 0 ? 2 : 0};
    const struct ks_aws_request request = {.operation = "PutObject",
                                           .rest = &asked,
                                           .body = body,
                                           .timeout = ks_span_ms(3000),
                                           .response_max = 1000,
                                           .done = on_done};
    const int before = told.times;

    EXPECT_OK(ks_aws_call(aws.client, &request, NULL));
    while (told.times == before)
        ks_loop_turn(loop, ks_span_ms(20));
}

TEST(a_request_has_its_method_its_headers_and_the_hash_of_its_body)
{
    static const struct http_step steps[] = {{.headers = "ETag: \"e1\"\r\n"}};
    const char *seen;

    begin(steps, 1);
    ask("PUT", KS_VIEW("{}"));
    EXPECT_OK(told.err);
    EXPECT_STR(told.etag, "\"e1\"");
    seen = http_script_request(script, 0);
    EXPECT_CONTAINS(seen, "PUT /bucket/a/b.json HTTP/1.1\r\nHost: 127.0.0.1:");
    EXPECT_CONTAINS(seen, "If-None-Match: *\r\n");
    EXPECT_CONTAINS(seen, "Content-Type: application/json\r\n");
    EXPECT_CONTAINS(seen, "x-amz-content-sha256: "
                          "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a\r\n");
    EXPECT_CONTAINS(seen, "/us-east-1/s3/aws4_request, SignedHeaders=content-type;host;"
                          "if-none-match;x-amz-content-sha256;x-amz-date, Signature=");
    EXPECT_CONTAINS(seen, "\r\n\r\n{}");
    EXPECT(strstr(seen, "X-Amz-Target") == NULL);
    ask("DELETE", KS_VIEW(""));
    EXPECT_CONTAINS(http_script_request(script, 1), "DELETE /bucket/a/b.json HTTP/1.1\r\n");
    ask("GET", KS_VIEW(""));
    EXPECT_CONTAINS(http_script_request(script, 2), "GET /bucket/a/b.json HTTP/1.1\r\n");
    finish();
}

#define ELSEWHERE                                                                                  \
    {                                                                                              \
        .status = 301, .headers = "x-amz-bucket-region: eu-central-1\r\n",                         \
        .body = "<Error><Code>PermanentRedirect</Code><Message>m</Message></Error>"                \
    }

TEST(a_bucket_in_another_region_is_signed_for_that_one)
{
    static const struct http_step steps[] = {ELSEWHERE, {.status = 200}};

    begin(steps, 2);
    ask("GET", KS_VIEW(""));
    EXPECT_OK(told.err);
    EXPECT_EQ_U64(told.attempts, 2);
    EXPECT_CONTAINS(http_script_request(script, 0), "/us-east-1/s3/aws4_request");
    EXPECT_CONTAINS(http_script_request(script, 1), "/eu-central-1/s3/aws4_request");
    ask("GET", KS_VIEW(""));
    EXPECT_EQ_U64(told.attempts, 1);
    EXPECT_CONTAINS(http_script_request(script, 2), "/eu-central-1/s3/aws4_request");
    finish();
}

TEST(a_server_that_names_region_after_region_is_followed_once)
{
    static const struct http_step steps[] = {
        ELSEWHERE,
        {.status = 301,
         .headers = "x-amz-bucket-region: us-east-1\r\n",
         .body = "<Error><Code>PermanentRedirect</Code></Error>"}};

    begin(steps, 2);
    ask("GET", KS_VIEW(""));
    EXPECT_ERR(told.err, INVALID);
    EXPECT_EQ_U64(told.attempts, 2);
    EXPECT_CONTAINS(told.detail.text, "PermanentRedirect on s3 PutObject");
    finish();
}

TEST(a_region_that_is_none_is_not_followed)
{
    static const struct http_step steps[] = {
        {.status = 301,
         .headers = "x-amz-bucket-region: evil.example/\r\n",
         .body = "<Error><Code>PermanentRedirect</Code></Error>"}};

    begin(steps, 1);
    ask("GET", KS_VIEW(""));
    EXPECT_ERR(told.err, INVALID);
    EXPECT_EQ_U64(told.attempts, 1);
    finish();
}
