/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/s3/listing.h"

#include "ks_test.h"

#include <string.h>

#define PAGE(truncated, contents)                                                                  \
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult xmlns=\"http://s3\"><Name>b"    \
    "</Name><IsTruncated>" truncated "</IsTruncated>" contents "</ListBucketResult>"

static struct ks_s3_listing listing_of(const char *answer)
{
    struct ks_s3_listing listing;

    EXPECT_OK(ks_s3_listing_read(ks_view_text(answer), &listing));
    return listing;
}

TEST(objects_come_in_their_order)
{
    struct ks_s3_listing listing = listing_of(
        PAGE("true", "<Contents><Key>a/1</Key><LastModified>x</LastModified><ETag>&quot;e1&quot;"
                     "</ETag><Size>17</Size></Contents><Contents><Key>a/2</Key><Size>0</Size>"
                     "<ETag>&#34;e2&#34;</ETag></Contents><KeyCount>2</KeyCount>"));
    struct ks_s3_object object;

    EXPECT(listing.truncated);
    EXPECT_OK(ks_s3_listing_next(&listing, &object));
    EXPECT_STR(object.key, "a/1");
    EXPECT_EQ_U64(object.size, 17);
    EXPECT_STR(object.etag, "\"e1\"");
    EXPECT_OK(ks_s3_listing_next(&listing, &object));
    EXPECT_STR(object.key, "a/2");
    EXPECT_STR(object.etag, "\"e2\"");
    EXPECT_ERR(ks_s3_listing_next(&listing, &object), NOT_FOUND);
}

TEST(an_empty_bucket_has_no_objects)
{
    struct ks_s3_listing listing = listing_of(PAGE("false", ""));
    struct ks_s3_object object;

    EXPECT(!listing.truncated);
    EXPECT_ERR(ks_s3_listing_next(&listing, &object), NOT_FOUND);
}

static ks_err first(const char *contents, struct ks_s3_object *ret_object)
{
    struct ks_s3_listing listing = {.rest = ks_view_text(contents)};

    return ks_s3_listing_next(&listing, ret_object);
}

TEST(keys_are_decoded)
{
    struct ks_s3_object object;

    EXPECT_OK(first("<Contents><Key>a%2Fb%20c%7E&amp;</Key><Size>1</Size></Contents>", &object));
    EXPECT_STR(object.key, "a/b c~&");
    EXPECT_STR(object.etag, "");
    EXPECT_OK(
        first("<Contents><Key>a</Key><Size>1</Size><ETag>\"a\nb\"</ETag></Contents>", &object));
    EXPECT_STR(object.etag, "");
}

TEST(what_is_no_object_is_malformed)
{
    static const char *const broken[] = {
        "<Contents></Contents>",
        "<Contents/>",
        "<Contents><Key>a</Key></Contents>",
        "<Contents><Size>1</Size></Contents>",
        "<Contents><Key>a</Key><Size>x</Size></Contents>",
        "<Contents><Key>a</Key><Size>-1</Size></Contents>",
        "<Contents><Key>a</Key><Size>99999999999999999999999</Size></Contents>",
        "<Contents><Key>a%</Key><Size>1</Size></Contents>",
        "<Contents><Key>a%2</Key><Size>1</Size></Contents>",
        "<Contents><Key>a%zz</Key><Size>1</Size></Contents>",
        "<Contents><Key>a%00</Key><Size>1</Size></Contents>",
        "<Contents><Key><b>a</b></Key><Size>1</Size></Contents>",
        "<Contents><Key>a</Key><Size>1</Size>",
        "<Contents",
    };
    struct ks_s3_object object;

    for (size_t at = 0; at < sizeof(broken) / sizeof(broken[0]); at++)
        EXPECT_ERR(first(broken[at], &object), MALFORMED);
}

TEST(a_key_has_a_limit)
{
    static char contents[4 * KS_S3_KEY_MAX];
    struct ks_s3_object object;
    const size_t head = strlen("<Contents><Key>");

    memset(contents, 'k', sizeof(contents));
    memcpy(contents, "<Contents><Key>", head);
    strcpy(contents + head + KS_S3_KEY_MAX, "</Key><Size>1</Size></Contents>");
    EXPECT_OK(first(contents, &object));
    EXPECT_EQ_U64(strlen(object.key), KS_S3_KEY_MAX);
    memset(contents + head, 'k', KS_S3_KEY_MAX + 1);
    strcpy(contents + head + KS_S3_KEY_MAX + 1, "</Key><Size>1</Size></Contents>");
    EXPECT_ERR(first(contents, &object), MALFORMED);
}

TEST(what_is_no_page_is_malformed)
{
    static const char *const broken[] = {
        "",
        "{}",
        "<html></html>",
        "<ListBucketResult>",
        "<ListBucketResult></ListBucketResult>",
        "<ListBucketResult><IsTruncated>maybe</IsTruncated></ListBucketResult>",
        "<ListBucketResult><IsTruncated>truetruetrue</IsTruncated></ListBucketResult>",
        "<!DOCTYPE x><ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
    };
    struct ks_s3_listing listing;

    for (size_t at = 0; at < sizeof(broken) / sizeof(broken[0]); at++)
        EXPECT_ERR(ks_s3_listing_read(ks_view_text(broken[at]), &listing), MALFORMED);
}
