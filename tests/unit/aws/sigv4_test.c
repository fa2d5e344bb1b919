/* SPDX-License-Identifier: Apache-2.0 */
/* Signatures are compared with those of others in tests/vectors/sigv4_test.c; here are limits and
 * the kept key. */
#include "aws/sigv4.h"

#include "ks_test.h"

#include "base/budget.h"

#include <string.h>

static struct ks_sigv4_request some_request(void)
{
    return (struct ks_sigv4_request){.method = KS_VIEW("POST"),
                                     .path = KS_VIEW("/"),
                                     .access_key = KS_VIEW("AKID"),
                                     .secret_key = KS_VIEW("SECRET"),
                                     .region = "us-east-1",
                                     .service = "kinesis",
                                     .unix_ms = INT64_C(1767323045000)};
}

static void sign_to(struct ks_sigv4_signer *signer, const struct ks_sigv4_request *request,
                    char text[512])
{
    struct ks_sigv4_signature signature;

    EXPECT_OK(ks_sigv4_sign(signer, request, &signature));
    EXPECT_OK(ks_view_copy_text(signature.authorization, text, 512));
}

/* A kept key must be the key: whatever it depends on changes, a fresh signer must agree. */
TEST(the_kept_key_is_never_a_wrong_one)
{
    struct ks_sigv4_signer kept;
    struct ks_sigv4_request request = some_request();

    ks_sigv4_init(&kept);
    for (int change = 0; change < 7; change++) {
        struct ks_sigv4_signer fresh;
        char one[512];
        char two[512];

        if (change == 1)
            request.secret_key = KS_VIEW("SECRET2");
        if (change == 2)
            request.region = "us-east-2";
        if (change == 3)
            request.service = "dynamodb";
        if (change == 4)
            request.unix_ms += 86400000;
        if (change == 5)
            request.secret_key = KS_VIEW("SECRET");
        if (change == 6)
            request.region = "us-east-1";
        ks_sigv4_init(&fresh);
        sign_to(&kept, &request, one);
        sign_to(&fresh, &request, two);
        EXPECT_STR(one, two);
        ks_sigv4_free(&fresh);
    }
    ks_sigv4_free(&kept);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

static ks_err sign_once(const struct ks_sigv4_request *request)
{
    struct ks_sigv4_signer signer;
    struct ks_sigv4_signature signature;

    ks_sigv4_init(&signer);
    ks_err err = ks_sigv4_sign(&signer, request, &signature);
    ks_sigv4_free(&signer);
    return err;
}

TEST(what_is_beyond_a_limit_is_refused)
{
    struct ks_sigv4_request request = some_request();
    struct ks_http_header headers[KS_SIGV4_HEADERS_MAX + 1];
    static char large[KS_SIGV4_TEXT_MAX];
    char query[3 * KS_SIGV4_PARAMETERS_MAX + 3];

    EXPECT_OK(sign_once(&request));
    request.unix_ms = -1;
    EXPECT(ks_err_is(sign_once(&request), KS_ERR_INVALID));
    request.unix_ms = INT64_C(253402300800000);
    EXPECT(ks_err_is(sign_once(&request), KS_ERR_INVALID));
    request = some_request();
    memset(large, 'x', sizeof(large));
    request.secret_key = ks_view_of(large, KS_SECRET_KEY_MAX + 1);
    EXPECT(ks_err_is(sign_once(&request), KS_ERR_INVALID));
    request = some_request();
    request.service = "a-service-with-a-name-that-is-too-long";
    EXPECT(ks_err_is(sign_once(&request), KS_ERR_INVALID));

    request = some_request();
    for (size_t at = 0; at <= KS_SIGV4_HEADERS_MAX; at++)
        headers[at] = (struct ks_http_header){KS_VIEW("X-A"), KS_VIEW("b")};
    request.headers = headers;
    request.header_count = KS_SIGV4_HEADERS_MAX;
    request.token = KS_VIEW("T");
    request.with_body_hash = true;
    EXPECT_OK(sign_once(&request));
    request.header_count++;
    EXPECT(ks_err_is(sign_once(&request), KS_ERR_INVALID));
    request.header_count = 1;
    headers[0].value = ks_view_of(large, sizeof(large));
    EXPECT(ks_err_is(sign_once(&request), KS_ERR_FULL));

    request = some_request();
    for (size_t at = 0; at < sizeof(query); at += 3)
        memcpy(query + at, "a=&", 3);
    request.query = ks_view_of(query, 3 * KS_SIGV4_PARAMETERS_MAX);
    EXPECT_OK(sign_once(&request));
    request.query = ks_view_of(query, sizeof(query));
    EXPECT(ks_err_is(sign_once(&request), KS_ERR_INVALID));
    request.query = ks_view_of(large, sizeof(large));
    EXPECT(ks_err_is(sign_once(&request), KS_ERR_FULL));
}

TEST(every_allocation_may_fail)
{
    struct ks_sigv4_request request = some_request();
    ks_err err = KS_FAIL(NO_MEMORY);
    uint64_t n = 0;

    request.query = KS_VIEW("b=1&a=2");
    while (!ks_ok(err)) {
        ks_alloc_fail_after(++n, 0);
        err = sign_once(&request);
        ks_alloc_fail_after(0, 0);
        EXPECT(ks_ok(err) || ks_err_is(err, KS_ERR_NO_MEMORY));
        EXPECT_EQ_I64(ks_alloc_live(), 0);
    }
    EXPECT(n >= 4);
}
