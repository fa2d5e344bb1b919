/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/settings.h"

#include "ks_test.h"

#include "base/budget.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;

static struct ks_settings settings;
static struct ks_detail detail;

/* A world without AWS_ variables, and with these two files. NULL: there is none. */
static void begin(const char *config, const char *credentials)
{
    const struct {
        const char *variable;
        const char *name;
        const char *content;
    } files[] = {{"AWS_CONFIG_FILE", "config", config},
                 {"AWS_SHARED_CREDENTIALS_FILE", "credentials", credentials}};
    char name[128];

    for (char **at = environ; *at != NULL;) {
        if (strncmp(*at, "AWS_", 4) != 0) {
            at++;
            continue;
        }
        snprintf(name, sizeof(name), "%.*s", (int)(strchr(*at, '=') - *at), *at);
        EXPECT(unsetenv(name) == 0);
    }
    for (size_t at = 0; at < 2; at++) {
        const char *path = ks_test_path(files[at].name);

        EXPECT(setenv(files[at].variable, path, 1) == 0);
        (void)remove(path);
        if (files[at].content == NULL)
            continue;
        FILE *file = fopen(path, "w");
        EXPECT(file != NULL);
        EXPECT(fputs(files[at].content, file) >= 0);
        EXPECT(fclose(file) == 0);
    }
}

static void set(const char *name, const char *value)
{
    EXPECT(setenv(name, value, 1) == 0);
}

static void read_all(const char *profile)
{
    ks_err err = ks_settings_read(profile, &settings, &detail);

    if (!ks_ok(err))
        FAIL("%s: %s", ks_err_name(err), detail.text);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

static void expect_refused(const char *why)
{
    EXPECT(!ks_ok(ks_settings_read(NULL, &settings, &detail)));
    EXPECT_CONTAINS(detail.text, why);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(nobody_need_say_anything)
{
    begin(NULL, NULL);
    read_all(NULL);
    EXPECT_STR(settings.region, "");
    EXPECT_STR(settings.ca_bundle, "");
    EXPECT(!settings.fips && !settings.dualstack);
    EXPECT_EQ_I64(settings.account_mode, KS_ACCOUNT_PREFERRED);
    EXPECT_EQ_U64(settings.max_attempts, 0);
    for (int at = 0; at < KS_SETTINGS_SERVICES; at++)
        EXPECT_STR(settings.urls[at].text, "");
}

TEST(the_profile_says_what_the_environment_does_not)
{
    begin("[default]\nregion = eu-west-1\nuse_fips_endpoint = true\nuse_dualstack_endpoint = True\n"
          "account_id_endpoint_mode = required\nmax_attempts = 7\nca_bundle = /etc/ca.pem\n"
          "endpoint_url = http://profile:1\nretry_mode = standard\n"
          "[profile other]\nregion = us-west-2\n",
          NULL);
    read_all(NULL);
    EXPECT_STR(settings.region, "eu-west-1");
    EXPECT(settings.fips && settings.dualstack);
    EXPECT_EQ_I64(settings.account_mode, KS_ACCOUNT_REQUIRED);
    EXPECT_EQ_U64(settings.max_attempts, 7);
    EXPECT_STR(settings.ca_bundle, "/etc/ca.pem");
    EXPECT_STR(settings.urls[KS_SETTINGS_STS].text, "http://profile:1");
    EXPECT_STR(settings.urls[KS_SETTINGS_STS].source, "endpoint_url of the profile");

    set("AWS_REGION", "ap-south-1");
    set("AWS_USE_FIPS_ENDPOINT", "false");
    set("AWS_USE_DUALSTACK_ENDPOINT", "FALSE");
    set("AWS_ACCOUNT_ID_ENDPOINT_MODE", "disabled");
    EXPECT(!settings.cbor_disabled);
    set("AWS_CBOR_DISABLE", "true");
    set("AWS_MAX_ATTEMPTS", "1");
    set("AWS_CA_BUNDLE", "/env/ca.pem");
    read_all(NULL);
    EXPECT(settings.cbor_disabled);
    EXPECT_STR(settings.region, "ap-south-1");
    EXPECT(!settings.fips && !settings.dualstack);
    EXPECT_EQ_I64(settings.account_mode, KS_ACCOUNT_DISABLED);
    EXPECT_EQ_U64(settings.max_attempts, 1);
    EXPECT_STR(settings.ca_bundle, "/env/ca.pem");

    unsetenv("AWS_REGION");
    read_all("other");
    EXPECT_STR(settings.region, "us-west-2");
    EXPECT_STR(settings.urls[KS_SETTINGS_STS].text, "");
    set("AWS_PROFILE", "nobody");
    read_all(NULL);
    EXPECT_STR(settings.region, "");
}

TEST(the_credentials_file_goes_before_the_config_file)
{
    begin("[default]\nregion = eu-west-1\nmax_attempts = 2\n", "[default]\nregion = eu-north-1\n");
    read_all(NULL);
    EXPECT_STR(settings.region, "eu-north-1");
    EXPECT_EQ_U64(settings.max_attempts, 2);
}

TEST(the_region_is_found_in_order)
{
    begin("[default]\nregion = eu-north-1\n", NULL);
    set("AWS_DEFAULT_REGION", "eu-west-1");
    read_all(NULL);
    EXPECT_STR(settings.region, "eu-west-1");
    set("AWS_REGION", "us-west-2");
    read_all(NULL);
    EXPECT_STR(settings.region, "us-west-2");
    set("AWS_REGION", "");
    read_all(NULL);
    EXPECT_STR(settings.region, "eu-west-1");
}

TEST(a_region_may_ask_for_fips)
{
    begin(NULL, NULL);
    set("AWS_REGION", "fips-us-east-1");
    read_all(NULL);
    EXPECT_STR(settings.region, "us-east-1");
    EXPECT(settings.fips);
    set("AWS_REGION", "us-west-2-fips");
    read_all(NULL);
    EXPECT_STR(settings.region, "us-west-2");
    EXPECT(settings.fips);
    set("AWS_REGION", "us-west-2");
    read_all(NULL);
    EXPECT(!settings.fips);
    set("AWS_REGION", "fips-");
    expect_refused("AWS_REGION is no region: 'fips-'");
}

static const char URLS[] = "[default]\nservices = mine\nendpoint_url = http://profile:1\n"
                           "[services other]\nkinesis =\n  endpoint_url = http://wrong:1\n"
                           "[services mine]\n"
                           "s3 =\n  endpoint_url = http://s3:1\n"
                           "kinesis = \n  endpoint_url = http://section:1\n"
                           "dynamodb =\n  something_else = x\n";

static void expect_url(enum ks_settings_service service, const char *url, const char *source)
{
    read_all(NULL);
    EXPECT_STR(settings.urls[service].text, url);
    EXPECT_STR(settings.urls[service].source, source);
}

TEST(urls_are_found_in_order)
{
    begin(URLS, NULL);
    expect_url(KS_SETTINGS_DYNAMODB, "http://profile:1", "endpoint_url of the profile");
    expect_url(KS_SETTINGS_KINESIS, "http://section:1",
               "endpoint_url of kinesis in the services section");
    set("AWS_ENDPOINT_URL", "http://all:1");
    expect_url(KS_SETTINGS_KINESIS, "http://all:1", "AWS_ENDPOINT_URL");
    set("AWS_ENDPOINT_URL_KINESIS", "http://own:1");
    expect_url(KS_SETTINGS_KINESIS, "http://own:1", "AWS_ENDPOINT_URL_KINESIS");
    expect_url(KS_SETTINGS_STS, "http://all:1", "AWS_ENDPOINT_URL");
    set("AWS_ENDPOINT_URL_STS", "http://sts:1");
    expect_url(KS_SETTINGS_STS, "http://sts:1", "AWS_ENDPOINT_URL_STS");
    set("AWS_ENDPOINT_URL_SQS", "http://sqs:1");
    expect_url(KS_SETTINGS_SQS, "http://sqs:1", "AWS_ENDPOINT_URL_SQS");
    expect_url(KS_SETTINGS_SNS, "http://all:1", "AWS_ENDPOINT_URL");
    set("AWS_ENDPOINT_URL_SNS", "http://sns:1");
    expect_url(KS_SETTINGS_SNS, "http://sns:1", "AWS_ENDPOINT_URL_SNS");
    set("AWS_ENDPOINT_URL_S3", "http://bucket:1");
    expect_url(KS_SETTINGS_S3, "http://bucket:1", "AWS_ENDPOINT_URL_S3");
    set("AWS_ENDPOINT_URL_DYNAMODB", "http://ddb:1");
    expect_url(KS_SETTINGS_DYNAMODB, "http://ddb:1", "AWS_ENDPOINT_URL_DYNAMODB");
    set("AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "TRUE");
    expect_url(KS_SETTINGS_KINESIS, "", "");
    begin("[default]\nignore_configured_endpoint_urls = true\nendpoint_url = http://profile:1\n",
          NULL);
    set("AWS_ENDPOINT_URL", "http://all:1");
    expect_url(KS_SETTINGS_KINESIS, "", "");
}

TEST(what_cannot_be_is_refused)
{
    static const struct {
        const char *name;
        const char *value;
        const char *why;
    } cases[] = {
        {"AWS_REGION", "US-EAST-1", "AWS_REGION is no region"},
        {"AWS_DEFAULT_REGION", "us-east-1.evil.example", "AWS_DEFAULT_REGION is no region"},
        {"AWS_USE_FIPS_ENDPOINT", "yes", "AWS_USE_FIPS_ENDPOINT is not true or false: 'yes'"},
        {"AWS_USE_DUALSTACK_ENDPOINT", "1", "is not true or false"},
        {"AWS_CBOR_DISABLE", "yes", "is not true or false"},
        {"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "on", "is not true or false"},
        {"AWS_ACCOUNT_ID_ENDPOINT_MODE", "maybe", "is not preferred, disabled or required"},
        {"AWS_MAX_ATTEMPTS", "0", "is not a number from 1 to 100"},
        {"AWS_MAX_ATTEMPTS", "101", "is not a number from 1 to 100"},
        {"AWS_MAX_ATTEMPTS", "three", "is not a number from 1 to 100"},
        {"AWS_RETRY_MODE", "never", "is not standard, adaptive or legacy: 'never'"},
    };

    begin(NULL, NULL);
    for (size_t at = 0; at < sizeof(cases) / sizeof(cases[0]); at++) {
        set(cases[at].name, cases[at].value);
        expect_refused(cases[at].why);
        EXPECT(unsetenv(cases[at].name) == 0);
    }
    begin("[default]\nuse_fips_endpoint = yes\n", NULL);
    expect_refused("use_fips_endpoint is not true or false: 'yes'");
    begin("[default]\nregion = nowhere!\n", NULL);
    expect_refused("the region of the profile is no region: 'nowhere!'");
}

/* What is logged while all is read. */
static void expect_said(const char *what)
{
    char said[1000];
    int fds[2];

    EXPECT(pipe(fds) == 0);
    ks_log_open(fds[1], KS_LOG_WARN, KS_LOG_TEXT);
    read_all(NULL);
    EXPECT(!ks_log_flush());
    EXPECT(write(fds[1], ".", 1) == 1);
    ssize_t size = read(fds[0], said, sizeof(said) - 1);
    EXPECT(size > 0);
    said[size] = '\0';
    if (what == NULL)
        EXPECT_STR(said, ".");
    else
        EXPECT_CONTAINS(said, what);
    EXPECT(close(fds[0]) == 0 && close(fds[1]) == 0);
}

TEST(the_other_retry_modes_are_known_and_not_followed)
{
    begin(NULL, NULL);
    expect_said(NULL);
    set("AWS_RETRY_MODE", "Standard");
    expect_said(NULL);
    set("AWS_RETRY_MODE", "adaptive");
    expect_said("AWS_RETRY_MODE is adaptive, which means standard here");
    EXPECT(unsetenv("AWS_RETRY_MODE") == 0);
    begin("[default]\nretry_mode = Legacy\n", NULL);
    expect_said("retry_mode is Legacy, which means standard here");
}

TEST(a_file_that_cannot_be_read_is_told)
{
    begin("what\n", NULL);
    expect_refused("line 1 is neither a section nor a key");
    begin(NULL, "[default]\nwhat\n");
    expect_refused("line 2 is neither a section nor a key");
    begin(NULL, NULL);
    set("AWS_CONFIG_FILE", ks_test_dir());
    expect_refused("cannot be read");
}

TEST(a_url_beyond_its_limit_is_refused)
{
    static char url[KS_HTTP_URL_MAX + 2];

    memset(url, 'x', sizeof(url) - 1);
    begin(NULL, NULL);
    set("AWS_ENDPOINT_URL", url);
    expect_refused("AWS_ENDPOINT_URL is no URL");
}

TEST(rules_are_those_of_the_service)
{
    begin(URLS, NULL);
    set("AWS_REGION", "fips-eu-west-1");
    set("AWS_USE_DUALSTACK_ENDPOINT", "true");
    set("AWS_ACCOUNT_ID_ENDPOINT_MODE", "required");
    read_all(NULL);
    struct ks_endpoint_rules rules = ks_settings_rules(&settings, KS_SETTINGS_KINESIS);
    EXPECT_STR(rules.service, "kinesis");
    EXPECT_STR(rules.region, "eu-west-1");
    EXPECT_STR(rules.url, "http://section:1");
    EXPECT_CONTAINS(rules.url_source, "services section");
    EXPECT(rules.fips && rules.dualstack);
    EXPECT_EQ_I64(rules.account_mode, KS_ACCOUNT_REQUIRED);
    EXPECT(rules.stream_arn == NULL);
    EXPECT_STR(ks_settings_rules(&settings, KS_SETTINGS_DYNAMODB).service, "dynamodb");
    EXPECT_STR(ks_settings_rules(&settings, KS_SETTINGS_STS).service, "sts");
}

TEST(every_allocation_may_fail)
{
    int done = 0;

    begin(URLS, "[default]\nregion = eu-west-1\n");
    for (uint64_t n = 1; done < 3; n++) {
        ks_alloc_fail_after(n, 0);
        ks_err err = ks_settings_read(NULL, &settings, &detail);
        ks_alloc_fail_after(0, 0);
        EXPECT(ks_ok(err) || ks_err_is(err, KS_ERR_NO_MEMORY));
        done += ks_ok(err) ? 1 : 0;
        EXPECT_EQ_I64(ks_alloc_live(), 0);
    }
}
