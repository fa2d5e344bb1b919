/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/endpoint.h"

#include "ks_test.h"

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

TEST(regions_are_labels)
{
    static const char *const broken[] = {"",    "US-EAST-1", "us_east_1", "us-east-1.evil.example",
                                         "-us", "us-",       "us east",   "us/east",
                                         "x\n"};

    EXPECT(ks_region_is_valid(KS_VIEW("us-east-1")));
    EXPECT(ks_region_is_valid(KS_VIEW("local")));
    for (size_t at = 0; at < sizeof(broken) / sizeof(broken[0]); at++)
        EXPECT(!ks_region_is_valid(ks_view_text(broken[at])));
}

static struct ks_endpoint found(const struct ks_endpoint_rules *rules, const char *account,
                                enum ks_endpoint_use use)
{
    struct ks_endpoint endpoint;
    struct ks_detail detail = {""};

    if (!ks_ok(ks_endpoint_find(rules, account, use, &endpoint, &detail)))
        FAIL("%s in %s: %s", rules->service, rules->region, detail.text);
    return endpoint;
}

static void expect_refused(const struct ks_endpoint_rules *rules, const char *account,
                           const char *why)
{
    struct ks_endpoint endpoint;
    struct ks_detail detail;

    EXPECT_ERR(ks_endpoint_find(rules, account, KS_ENDPOINT_CONTROL, &endpoint, &detail), INVALID);
    EXPECT_CONTAINS(detail.text, why);
}

TEST(endpoints_follow_service_region_and_partition)
{
    struct ks_endpoint endpoint;

    EXPECT_OK(ks_endpoint_resolve("kinesis", "eu-west-1", NULL, &endpoint, NULL));
    EXPECT_STR(endpoint.url, "https://kinesis.eu-west-1.amazonaws.com/");
    EXPECT_STR(endpoint.host, "kinesis.eu-west-1.amazonaws.com");
    EXPECT_STR(endpoint.path, "/");
    EXPECT_STR(endpoint.region, "eu-west-1");
    EXPECT_OK(ks_endpoint_resolve("dynamodb", "cn-north-1", "", &endpoint, NULL));
    EXPECT_STR(endpoint.host, "dynamodb.cn-north-1.amazonaws.com.cn");
    EXPECT_ERR(ks_endpoint_resolve("sts", "a.b", NULL, &endpoint, NULL), INVALID);
    EXPECT_ERR(ks_endpoint_resolve("sts", "", NULL, &endpoint, NULL), INVALID);
}

TEST(fips_and_dual_stack_have_hosts_of_their_own)
{
    static const struct {
        const char *service;
        const char *region;
        bool fips;
        bool dualstack;
        const char *host;
    } cases[] = {
        {"kinesis", "us-east-1", true, false, "kinesis-fips.us-east-1.amazonaws.com"},
        {"kinesis", "us-east-1", false, true, "kinesis.us-east-1.api.aws"},
        {"kinesis", "us-east-1", true, true, "kinesis-fips.us-east-1.api.aws"},
        {"dynamodb", "ca-west-1", true, false, "dynamodb-fips.ca-west-1.amazonaws.com"},
        {"sts", "cn-north-1", false, true, "sts.cn-north-1.api.amazonwebservices.com.cn"},
        /* GovCloud has nothing else. */
        {"kinesis", "us-gov-west-1", true, false, "kinesis.us-gov-west-1.amazonaws.com"},
        {"kinesis", "us-gov-west-1", true, true, "kinesis-fips.us-gov-west-1.api.aws"},
        {"sts", "us-iso-east-1", false, false, "sts.us-iso-east-1.c2s.ic.gov"},
        {"dynamodb", "us-isob-east-1", false, false, "dynamodb.us-isob-east-1.sc2s.sgov.gov"},
    };

    for (size_t at = 0; at < sizeof(cases) / sizeof(cases[0]); at++) {
        const struct ks_endpoint_rules rules = {.service = cases[at].service,
                                                .region = cases[at].region,
                                                .fips = cases[at].fips,
                                                .dualstack = cases[at].dualstack};
        EXPECT_STR(found(&rules, "", KS_ENDPOINT_DATA).host, cases[at].host);
    }
}

TEST(a_stream_that_is_named_by_its_arn_is_at_its_account)
{
    struct ks_endpoint_rules rules = {.service = "kinesis",
                                      .region = "eu-west-1",
                                      .stream_arn =
                                          "arn:aws:kinesis:eu-west-1:123456789012:stream/s"};

    EXPECT_STR(found(&rules, NULL, KS_ENDPOINT_CONTROL).host,
               "123456789012.control-kinesis.eu-west-1.amazonaws.com");
    rules.dualstack = true;
    EXPECT_STR(found(&rules, "999999999999", KS_ENDPOINT_DATA).host,
               "123456789012.data-kinesis.eu-west-1.api.aws");
    rules.fips = true;
    EXPECT_STR(found(&rules, NULL, KS_ENDPOINT_DATA).host,
               "123456789012.data-kinesis-fips.eu-west-1.api.aws");
    rules = (struct ks_endpoint_rules){
        .service = "kinesis",
        .region = "us-iso-east-1",
        .stream_arn = "arn:aws-iso:kinesis:us-iso-east-1:123456789012:stream/s"};
    EXPECT_STR(found(&rules, NULL, KS_ENDPOINT_DATA).host, "kinesis.us-iso-east-1.c2s.ic.gov");
    /* Who says where it is need not be asked what it is called. */
    rules.url = "http://localhost:4567";
    EXPECT_STR(found(&rules, NULL, KS_ENDPOINT_DATA).host, "localhost:4567");
}

TEST(an_arn_of_something_else_is_refused)
{
    static const char *const broken[] = {"arn:aws:kinesis:eu-west-1:123456789012:",
                                         "arn:aws:kinesis:eu-west-1::stream/s",
                                         "arn:aws:kinesis::123456789012:stream/s",
                                         "arn:aws:kinesis:EU:123456789012:stream/s",
                                         "arn:aws:dynamodb:eu-west-1:123456789012:table/t",
                                         "arn:aws:kinesis:eu-west-1:123456789012:table/t",
                                         "arn:aws:kinesis:eu-west-1:1.evil.example/:stream/s"};
    struct ks_endpoint_rules rules = {.service = "kinesis", .region = "eu-west-1"};

    for (size_t at = 0; at < sizeof(broken) / sizeof(broken[0]); at++) {
        rules.stream_arn = broken[at];
        expect_refused(&rules, NULL, "is no ARN of a stream");
    }
    rules.stream_arn = "arn:aws-cn:kinesis:cn-north-1:123456789012:stream/s";
    expect_refused(&rules, NULL, "the stream is in partition aws-cn, and region eu-west-1");
}

TEST(the_lease_table_is_at_the_account_of_the_credentials)
{
    static const struct {
        enum ks_account_mode mode;
        const char *region;
        const char *account;
        bool fips;
        bool dualstack;
        const char *host;
    } cases[] = {
        {KS_ACCOUNT_PREFERRED, "us-east-1", "123456789012", false, false,
         "123456789012.ddb.us-east-1.amazonaws.com"},
        {KS_ACCOUNT_REQUIRED, "us-east-1", "123456789012", false, true,
         "123456789012.ddb.us-east-1.api.aws"},
        {KS_ACCOUNT_DISABLED, "us-east-1", "123456789012", false, false,
         "dynamodb.us-east-1.amazonaws.com"},
        {KS_ACCOUNT_PREFERRED, "us-east-1", NULL, false, false, "dynamodb.us-east-1.amazonaws.com"},
        {KS_ACCOUNT_PREFERRED, "us-east-1", "1.evil.example", false, false,
         "dynamodb.us-east-1.amazonaws.com"},
        {KS_ACCOUNT_PREFERRED, "us-east-1", "123456789012", true, false,
         "dynamodb-fips.us-east-1.amazonaws.com"},
        {KS_ACCOUNT_PREFERRED, "cn-north-1", "123456789012", false, false,
         "123456789012.ddb.cn-north-1.amazonaws.com.cn"},
        {KS_ACCOUNT_PREFERRED, "us-iso-east-1", "123456789012", false, false,
         "dynamodb.us-iso-east-1.c2s.ic.gov"},
        {KS_ACCOUNT_PREFERRED, "local", "123456789012", false, false, "localhost:8000"},
    };

    for (size_t at = 0; at < sizeof(cases) / sizeof(cases[0]); at++) {
        const struct ks_endpoint_rules rules = {.service = "dynamodb",
                                                .region = cases[at].region,
                                                .fips = cases[at].fips,
                                                .dualstack = cases[at].dualstack,
                                                .account_mode = cases[at].mode};
        EXPECT_STR(found(&rules, cases[at].account, KS_ENDPOINT_CONTROL).host, cases[at].host);
    }
}

TEST(an_account_that_is_required_must_be_there)
{
    struct ks_endpoint_rules rules = {
        .service = "dynamodb", .region = "us-east-1", .account_mode = KS_ACCOUNT_REQUIRED};

    expect_refused(&rules, "", "the credentials do not tell their account");
    rules.fips = true;
    expect_refused(&rules, "123456789012", "there are none with FIPS");
    rules = (struct ks_endpoint_rules){
        .service = "dynamodb", .region = "eusc-de-east-1", .account_mode = KS_ACCOUNT_REQUIRED};
    expect_refused(&rules, "123456789012", "this partition has no endpoints of accounts");
    /* The other services have no say in it. */
    rules.service = "kinesis";
    EXPECT_STR(found(&rules, "", KS_ENDPOINT_DATA).host, "kinesis.eusc-de-east-1.amazonaws.eu");
}

TEST(the_region_local_is_signed_as_us_east_1)
{
    struct ks_endpoint_rules rules = {.service = "dynamodb", .region = "local"};

    EXPECT_STR(found(&rules, NULL, KS_ENDPOINT_CONTROL).url, "http://localhost:8000/");
    EXPECT_STR(found(&rules, NULL, KS_ENDPOINT_CONTROL).region, "us-east-1");
    rules.dualstack = true;
    expect_refused(&rules, NULL, "the region local cannot go together with dual-stack");
}

TEST(a_configured_url_wins)
{
    struct ks_endpoint_rules rules = {.service = "dynamodb", .region = "us-east-1"};

    rules.url = "http://127.0.0.1:4567/base";
    EXPECT_STR(found(&rules, "123456789012", KS_ENDPOINT_CONTROL).url,
               "http://127.0.0.1:4567/base");
    EXPECT_STR(found(&rules, "123456789012", KS_ENDPOINT_CONTROL).path, "/base");
    rules.url = "https://other:443";
    EXPECT_STR(found(&rules, NULL, KS_ENDPOINT_CONTROL).host, "other");
    rules.url = "http://[::1]:1";
    EXPECT_STR(found(&rules, NULL, KS_ENDPOINT_CONTROL).url, "http://[::1]:1/");
    /* An interface endpoint in a VPC: its own host, signed for the region. */
    rules.url = "https://vpce-0a1-2b.dynamodb.eu-west-1.vpce.amazonaws.com";
    rules.region = "eu-west-1";
    EXPECT_STR(found(&rules, NULL, KS_ENDPOINT_CONTROL).host,
               "vpce-0a1-2b.dynamodb.eu-west-1.vpce.amazonaws.com");
    EXPECT_STR(found(&rules, NULL, KS_ENDPOINT_CONTROL).region, "eu-west-1");
}

TEST(a_bad_url_is_told_with_its_source)
{
    struct ks_endpoint_rules rules = {
        .service = "sts", .region = "us-east-1", .url_source = "AWS_ENDPOINT_URL_STS"};
    struct ks_endpoint endpoint;
    struct ks_detail detail;

    rules.url = "localhost:1";
    expect_refused(&rules, NULL, "AWS_ENDPOINT_URL_STS is no URL like http://host:port");
    expect_refused(&rules, NULL, "localhost:1");
    rules.url = "http://host/?a=b";
    expect_refused(&rules, NULL, "is no URL");
    rules.url = "http://me:secret@host";
    EXPECT_ERR(ks_endpoint_find(&rules, NULL, KS_ENDPOINT_CONTROL, &endpoint, &detail), INVALID);
    EXPECT(strstr(detail.text, "secret") == NULL);
    rules.url = "http://host";
    rules.fips = true;
    expect_refused(&rules, NULL, "AWS_ENDPOINT_URL_STS cannot go together with FIPS endpoints");
}

/* Source: the endpoint rule set of S3 in botocore, and "Amazon S3 endpoints" of the AWS General Reference. */
TEST(a_bucket_is_in_the_host_or_in_the_path)
{
    static const struct {
        struct ks_endpoint_rules rules;
        const char *url;
    } cases[] = {
        {{.region = "eu-west-1", .bucket = "b-1"}, "https://b-1.s3.eu-west-1.amazonaws.com/"},
        {{.region = "eu-west-1", .bucket = "b.1"}, "https://s3.eu-west-1.amazonaws.com/b.1/"},
        {{.region = "us-east-1", .bucket = "b-1", .fips = true},
         "https://b-1.s3-fips.us-east-1.amazonaws.com/"},
        {{.region = "us-gov-west-1", .bucket = "b-1", .fips = true},
         "https://b-1.s3-fips.us-gov-west-1.amazonaws.com/"},
        {{.region = "cn-north-1", .bucket = "b-1", .dualstack = true},
         "https://b-1.s3.dualstack.cn-north-1.amazonaws.com.cn/"},
        {{.region = "us-east-1", .bucket = "b-1", .fips = true, .dualstack = true},
         "https://b-1.s3-fips.dualstack.us-east-1.amazonaws.com/"},
        {{.region = "us-east-1", .bucket = "b-1", .url = "http://127.0.0.1:9000"},
         "http://127.0.0.1:9000/b-1/"},
        {{.region = "us-east-1", .bucket = "b-1", .url = "http://127.0.0.1:9000/s3"},
         "http://127.0.0.1:9000/s3/b-1/"},
    };

    for (size_t at = 0; at < sizeof(cases) / sizeof(cases[0]); at++) {
        struct ks_endpoint_rules rules = cases[at].rules;
        struct ks_endpoint endpoint;

        rules.service = "s3";
        endpoint = found(&rules, "", KS_ENDPOINT_DATA);
        EXPECT_STR(endpoint.url, cases[at].url);
        EXPECT_STR(endpoint.path, strchr(cases[at].url + 8, '/'));
        EXPECT_STR(endpoint.region, rules.region);
    }
}

TEST(a_path_with_no_room_for_the_bucket_is_refused)
{
    char url[300];
    struct ks_endpoint endpoint;
    const struct ks_endpoint_rules rules = {
        .service = "s3", .region = "us-east-1", .url = url, .bucket = "bucket"};

    memset(url, 'x', sizeof(url));
    memcpy(url, "http://h/", 9);
    url[9 + 250] = '\0';
    EXPECT_ERR(ks_endpoint_find(&rules, NULL, KS_ENDPOINT_CONTROL, &endpoint, NULL), INVALID);
}
