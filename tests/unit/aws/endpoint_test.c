/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/endpoint.h"

#include "ks_test.h"

#include <stdlib.h>
#include <string.h>

TEST(urls_are_split)
{
    struct ks_url url;

    EXPECT_OK(ks_url_split(KS_VIEW("https://host.example/a/b?c=d"), &url));
    EXPECT(url.https && !url.ipv6);
    EXPECT(ks_view_equal(url.host, KS_VIEW("host.example")));
    EXPECT_EQ_U64(url.port, 443);
    EXPECT(ks_view_equal(url.path, KS_VIEW("/a/b")));
    EXPECT(ks_view_equal(url.query, KS_VIEW("c=d")));
    EXPECT_OK(ks_url_split(KS_VIEW("http://127.0.0.1:4567"), &url));
    EXPECT_EQ_U64(url.port, 4567);
    EXPECT_EQ_U64(url.path.size, 0);
    EXPECT_OK(ks_url_split(KS_VIEW("http://[fd00:ec2::23]/v1"), &url));
    EXPECT(url.ipv6);
    EXPECT(ks_view_equal(url.host, KS_VIEW("fd00:ec2::23")));
    EXPECT_EQ_U64(url.port, 80);
    EXPECT_OK(ks_url_split(KS_VIEW("http://[::1]:81?q"), &url));
    EXPECT_EQ_U64(url.port, 81);
    EXPECT(ks_view_equal(url.query, KS_VIEW("q")));
}

TEST(odd_urls_are_refused)
{
    static const char *const broken[] = {"",
                                         "host",
                                         "ftp://host",
                                         "http://",
                                         "http:///path",
                                         "http://:80",
                                         "http://host:",
                                         "http://host:0",
                                         "http://host:65536",
                                         "http://host:8x",
                                         "http://user@host",
                                         "http://user:pass@host/",
                                         "http://169.254.170.2@evil.example/",
                                         "http://host/#f",
                                         "http://host/a b",
                                         "http://host\\@evil",
                                         "http://host/\n",
                                         "http://[::1",
                                         "http://[::1]x",
                                         "http://[::g]",
                                         "http://[]",
                                         "http://ho st",
                                         "http://h\xc3\xa4st",
                                         "HTTP:/x",
                                         "http://host]",
                                         "http://[::1]:"};
    struct ks_url url;

    for (size_t at = 0; at < sizeof(broken) / sizeof(broken[0]); at++) {
        if (ks_ok(ks_url_split(ks_view_text(broken[at]), &url)))
            FAIL("'%s' was taken", broken[at]);
    }
    EXPECT(!ks_ok(ks_url_split(KS_VIEW("http://host/\0x"), &url)));
}

static void forget_environment(void)
{
    unsetenv("AWS_REGION");
    unsetenv("AWS_DEFAULT_REGION");
    unsetenv("AWS_ENDPOINT_URL");
    unsetenv("AWS_ENDPOINT_URL_KINESIS");
    unsetenv("AWS_ENDPOINT_URL_DYNAMODB");
    unsetenv("AWS_ENDPOINT_URL_STS");
    unsetenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS");
}

TEST(the_region_is_found_in_order)
{
    char region[KS_REGION_MAX + 1];
    struct ks_detail detail;

    forget_environment();
    EXPECT(ks_err_is(ks_region_resolve(NULL, "", region, &detail), KS_ERR_INVALID));
    EXPECT_CONTAINS(detail.text, "AWS_REGION");
    EXPECT_OK(ks_region_resolve("", "eu-north-1", region, &detail));
    EXPECT_STR(region, "eu-north-1");
    setenv("AWS_DEFAULT_REGION", "eu-west-1", 1);
    EXPECT_OK(ks_region_resolve(NULL, "eu-north-1", region, &detail));
    EXPECT_STR(region, "eu-west-1");
    setenv("AWS_REGION", "us-west-2", 1);
    EXPECT_OK(ks_region_resolve(NULL, NULL, region, &detail));
    EXPECT_STR(region, "us-west-2");
    EXPECT_OK(ks_region_resolve("ap-south-1", NULL, region, &detail));
    EXPECT_STR(region, "ap-south-1");
}

TEST(what_is_no_region_is_refused)
{
    static const char *const broken[] = {"US-EAST-1", "us_east_1", "us-east-1.evil.example",
                                         "-us",       "us-",       "us east",
                                         "us/east",   "us@east",   "x\n"};
    char region[KS_REGION_MAX + 1];
    struct ks_detail detail;

    for (size_t at = 0; at < sizeof(broken) / sizeof(broken[0]); at++) {
        EXPECT(ks_err_is(ks_region_resolve(broken[at], NULL, region, &detail), KS_ERR_INVALID));
        EXPECT_CONTAINS(detail.text, "the region option");
    }
    setenv("AWS_REGION", "no region", 1);
    EXPECT(ks_err_is(ks_region_resolve(NULL, NULL, region, &detail), KS_ERR_INVALID));
    EXPECT_CONTAINS(detail.text, "AWS_REGION");
}

static struct ks_endpoint resolved(const char *service, const char *region, const char *option)
{
    struct ks_endpoint endpoint;

    EXPECT_OK(ks_endpoint_resolve(service, region, option, &endpoint, NULL));
    return endpoint;
}

TEST(endpoints_follow_service_region_and_partition)
{
    struct ks_endpoint endpoint;

    forget_environment();
    endpoint = resolved("kinesis", "eu-west-1", NULL);
    EXPECT_STR(endpoint.url, "https://kinesis.eu-west-1.amazonaws.com/");
    EXPECT_STR(endpoint.host, "kinesis.eu-west-1.amazonaws.com");
    EXPECT_STR(endpoint.path, "/");
    EXPECT_STR(endpoint.region, "eu-west-1");
    EXPECT_STR(resolved("dynamodb", "cn-north-1", "").host, "dynamodb.cn-north-1.amazonaws.com.cn");
    EXPECT_STR(resolved("sts", "us-gov-west-1", NULL).host, "sts.us-gov-west-1.amazonaws.com");
    EXPECT_STR(resolved("sts", "us-iso-east-1", NULL).host, "sts.us-iso-east-1.c2s.ic.gov");
}

TEST(endpoint_urls_win_in_order)
{
    struct ks_endpoint endpoint;

    forget_environment();
    setenv("AWS_ENDPOINT_URL", "http://localhost:4566", 1);
    endpoint = resolved("kinesis", "us-east-1", NULL);
    EXPECT_STR(endpoint.url, "http://localhost:4566/");
    EXPECT_STR(endpoint.host, "localhost:4566");
    setenv("AWS_ENDPOINT_URL_KINESIS", "http://127.0.0.1:4567/base", 1);
    endpoint = resolved("kinesis", "us-east-1", NULL);
    EXPECT_STR(endpoint.url, "http://127.0.0.1:4567/base");
    EXPECT_STR(endpoint.path, "/base");
    EXPECT_STR(resolved("dynamodb", "us-east-1", NULL).host, "localhost:4566");
    EXPECT_STR(resolved("kinesis", "us-east-1", "https://other:443").host, "other");
    EXPECT_STR(resolved("kinesis", "us-east-1", "http://[::1]:1").url, "http://[::1]:1/");
    setenv("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "TRUE", 1);
    EXPECT_STR(resolved("kinesis", "us-east-1", NULL).host, "kinesis.us-east-1.amazonaws.com");
}

TEST(a_bad_endpoint_is_told_with_its_source)
{
    struct ks_endpoint endpoint;
    struct ks_detail detail;

    forget_environment();
    setenv("AWS_ENDPOINT_URL_STS", "localhost:1", 1);
    EXPECT(ks_err_is(ks_endpoint_resolve("sts", "us-east-1", NULL, &endpoint, &detail),
                     KS_ERR_INVALID));
    EXPECT_CONTAINS(detail.text, "AWS_ENDPOINT_URL_STS");
    EXPECT_CONTAINS(detail.text, "localhost:1");
    EXPECT(ks_err_is(
        ks_endpoint_resolve("sts", "us-east-1", "http://me:secret@host", &endpoint, &detail),
        KS_ERR_INVALID));
    EXPECT(strstr(detail.text, "secret") == NULL);
    EXPECT(
        ks_err_is(ks_endpoint_resolve("sts", "us-east-1", "http://host/?a=b", &endpoint, &detail),
                  KS_ERR_INVALID));
    EXPECT(ks_err_is(ks_endpoint_resolve("sts", "a.b", NULL, &endpoint, &detail), KS_ERR_INVALID));
}
