/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/s3/place.h"

#include "ks_test.h"

#include <stdio.h>
#include <string.h>

static struct ks_s3_place place_of(const char *url)
{
    struct ks_s3_place place;
    struct ks_detail detail = {""};

    if (!ks_ok(ks_s3_place_read(url, &place, &detail)))
        FAIL("%s: %s", url, detail.text);
    return place;
}

TEST(a_place_is_a_bucket_a_prefix_and_a_key)
{
    EXPECT_STR(place_of("s3://my-bucket.1").bucket, "my-bucket.1");
    EXPECT_STR(place_of("s3://abc").prefix, "");
    EXPECT_STR(place_of("s3://abc/").prefix, "");
    EXPECT_STR(place_of("s3://abc/a").prefix, "a/");
    EXPECT_STR(place_of("s3://abc/a/dt=1.b_-/").prefix, "a/dt=1.b_-/");
    EXPECT_STR(place_of("s3://abc/a").kms_key, "");
    EXPECT_STR(place_of("s3://abc/a?kms-key=1234-ab").kms_key, "1234-ab");
    EXPECT_STR(place_of("s3://abc?kms-key=arn:aws:kms:eu-west-1:123456789012:key/12-ab").kms_key,
               "arn:aws:kms:eu-west-1:123456789012:key/12-ab");
}

TEST(what_is_none_is_refused_with_what_is_allowed)
{
    static const struct {
        const char *url;
        const char *sentence;
    } cases[] = {
        {"", "not s3://BUCKET/PREFIX"},
        {"s3:/abc", "not s3://BUCKET/PREFIX"},
        {"s3://", "3 to 63"},
        {"s3://ab", "3 to 63"},
        {"s3://Abc", "3 to 63"},
        {"s3://a_c", "3 to 63"},
        {"s3://-abc", "3 to 63"},
        {"s3://abc.", "3 to 63"},
        {"s3://a..c", "3 to 63"},
        {"s3://a23456789a23456789a23456789a23456789a23456789a23456789a23456789a/x", "3 to 63"},
        {"s3://me:secret@abc/x", "3 to 63"},
        {"s3://arn:aws:s3:::abc/x", "3 to 63"},
        {"s3://letters--euw1-az1--x-s3/x", "directory bucket"},
        {"s3://abc//a", "between slashes"},
        {"s3://abc/a//b", "between slashes"},
        {"s3://abc/..", "between slashes"},
        {"s3://abc/a/../b", "between slashes"},
        {"s3://abc/./b", "between slashes"},
        {"s3://abc/a b", "between slashes"},
        {"s3://abc/a%2fb", "between slashes"},
        {"s3://abc/a#b", "between slashes"},
        {"s3://abc/a?", "?kms-key=KEY"},
        {"s3://abc/a?kms-key=", "?kms-key=KEY"},
        {"s3://abc/a?kms=x", "?kms-key=KEY"},
        {"s3://abc/a?kms-key=x&y=z", "?kms-key=KEY"},
        {"s3://abc/a?kms-key=x\r\ny", "?kms-key=KEY"},
    };
    struct ks_s3_place place;

    for (size_t at = 0; at < sizeof(cases) / sizeof(cases[0]); at++) {
        struct ks_detail detail = {""};

        EXPECT_ERR(ks_s3_place_read(cases[at].url, &place, &detail), INVALID);
        EXPECT_CONTAINS(detail.text, cases[at].sentence);
    }
}

TEST(a_prefix_has_a_limit)
{
    char url[400] = "s3://abc/";
    struct ks_s3_place place;
    struct ks_detail detail;

    memset(url + 9, 'x', KS_S3_PREFIX_MAX - 1);
    EXPECT_EQ_U64(strlen(place_of(url).prefix), KS_S3_PREFIX_MAX);
    memset(url + 9, 'x', KS_S3_PREFIX_MAX);
    EXPECT_ERR(ks_s3_place_read(url, &place, &detail), INVALID);
}
