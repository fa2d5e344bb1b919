/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/profile.h"

#include "ks_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct ks_profile profile_of(const char *text, enum ks_profile_file file, const char *name)
{
    struct ks_profile profile;
    uint32_t line = 0;

    EXPECT_OK(ks_profile_parse(ks_view_text(text), file, name, &profile, &line));
    return profile;
}

static bool is(ks_view value, const char *text)
{
    return ks_view_equal(value, ks_view_text(text));
}

TEST(the_credentials_file_names_profiles_plainly)
{
    const char *text = "# comment\n[default]\naws_access_key_id=A\naws_secret_access_key = S/+=\n\n"
                       "[other]\r\nAWS_ACCESS_KEY_ID = "
                       "B\r\naws_secret_access_key=T\r\naws_session_token = tok\r\n";
    struct ks_profile profile = profile_of(text, KS_PROFILE_CREDENTIALS, "default");

    EXPECT(profile.found);
    EXPECT(is(profile.access_key, "A"));
    EXPECT(is(profile.secret_key, "S/+="));
    EXPECT_EQ_U64(profile.token.size, 0);
    profile = profile_of(text, KS_PROFILE_CREDENTIALS, "other");
    EXPECT(is(profile.access_key, "B"));
    EXPECT(is(profile.token, "tok"));
    profile = profile_of(text, KS_PROFILE_CREDENTIALS, "third");
    EXPECT(!profile.found);
    EXPECT_EQ_U64(profile.access_key.size, 0);
}

TEST(the_config_file_says_profile_before_the_name)
{
    const char *text =
        "[default]\nregion = eu-west-1\n[profile dev]\nregion=us-west-2\nrole_arn = arn:r\n"
        "[ profile  \"two words\" ]\nregion = x\n[dev]\nregion = no\n[sso-session dev]\nregion = "
        "no\n"
        "[profile sso]\nsso_session = s\n[profile run]\ncredential_process = /bin/x\n";

    EXPECT(is(profile_of(text, KS_PROFILE_CONFIG, "default").region, "eu-west-1"));
    EXPECT(is(profile_of(text, KS_PROFILE_CONFIG, "dev").region, "us-west-2"));
    EXPECT(is(profile_of(text, KS_PROFILE_CONFIG, "dev").role_arn, "arn:r"));
    EXPECT(is(profile_of(text, KS_PROFILE_CONFIG, "two words").region, "x"));
    EXPECT(is(profile_of(text, KS_PROFILE_CONFIG, "sso").sso, "s"));
    EXPECT(is(profile_of(text, KS_PROFILE_CONFIG, "run").process, "/bin/x"));
    EXPECT(!profile_of(text, KS_PROFILE_CONFIG, "profile dev").found);
}

TEST(indented_lines_belong_to_the_key_above)
{
    const char *text =
        "\xef\xbb\xbf[default]\ns3 =\n  region = nested\n  max = 3\nregion = eu-west-1\n"
        " ; comment\n[profile p]\n  region = a\n  output = json\n    region = nested\n"
        "[default]\nregion = later\n";

    EXPECT(is(profile_of(text, KS_PROFILE_CONFIG, "default").region, "later"));
    EXPECT(is(profile_of(text, KS_PROFILE_CONFIG, "p").region, "a"));
}

TEST(lines_are_read_as_the_sdks_read_them)
{
    const char *text = "[default] # ours\nregion = eu-west-1 # no city; a region\n"
                       "role_arn: arn:aws:iam::1:role/r\t; the role\n"
                       "external_id = a#b;c\nsource_profile =\n ; none\n"
                       "[profile\ttab]\nregion : us-east-1\n[profiles]\nregion = no\n";
    struct ks_profile profile = profile_of(text, KS_PROFILE_CONFIG, "default");

    EXPECT(is(profile.region, "eu-west-1"));
    EXPECT(is(profile.role_arn, "arn:aws:iam::1:role/r"));
    EXPECT(is(profile.external_id, "a#b;c"));
    EXPECT_EQ_U64(profile.source_profile.size, 0);
    EXPECT(is(profile_of(text, KS_PROFILE_CONFIG, "tab").region, "us-east-1"));
    EXPECT(!profile_of(text, KS_PROFILE_CONFIG, "s").found);
    EXPECT_EQ_U64(
        profile_of("[default]\nregion = # none\n", KS_PROFILE_CONFIG, "default").region.size, 0);
}

TEST(every_key_of_a_role_is_read)
{
    struct ks_profile profile = profile_of(
        "[profile r]\nrole_arn=a\nsource_profile=two words\ncredential_source=c\nexternal_id= d e "
        "\n"
        "role_session_name=f\nduration_seconds=1\nmfa_serial=g\nweb_identity_token_file=h\n"
        "ec2_metadata_service_endpoint=i\nec2_metadata_service_endpoint_mode=j\n"
        "EC2_METADATA_V1_DISABLED=k\n",
        KS_PROFILE_CONFIG, "r");

    EXPECT(is(profile.source_profile, "two words"));
    EXPECT(is(profile.credential_source, "c"));
    EXPECT(is(profile.external_id, "d e"));
    EXPECT(is(profile.role_session_name, "f"));
    EXPECT(is(profile.duration_seconds, "1"));
    EXPECT(is(profile.mfa_serial, "g"));
    EXPECT(is(profile.web_identity_token_file, "h"));
    EXPECT(is(profile.ec2_endpoint, "i"));
    EXPECT(is(profile.ec2_endpoint_mode, "j"));
    EXPECT(is(profile.ec2_v1_disabled, "k"));
}

TEST(a_profile_laid_over_another_counts_more_and_a_key_pair_goes_as_a_whole)
{
    struct ks_profile under = profile_of(
        "[default]\naws_access_key_id=A\naws_secret_access_key=S\naws_session_token=T\nregion=r\n",
        KS_PROFILE_CONFIG, "default");
    struct ks_profile over =
        profile_of("[default]\nregion=s\nrole_arn=x\n", KS_PROFILE_CREDENTIALS, "default");

    ks_profile_lay(&under, &over);
    EXPECT(is(under.region, "s"));
    EXPECT(is(under.role_arn, "x"));
    EXPECT(is(under.token, "T"));
    over = profile_of("[default]\naws_access_key_id=B\n", KS_PROFILE_CREDENTIALS, "default");
    ks_profile_lay(&under, &over);
    EXPECT(is(under.access_key, "B"));
    EXPECT_EQ_U64(under.secret_key.size, 0);
    EXPECT_EQ_U64(under.token.size, 0);
    EXPECT(is(under.region, "s"));
}

static uint32_t bad_line(const char *text)
{
    struct ks_profile profile;
    uint32_t line = 0;

    EXPECT(ks_err_is(
        ks_profile_parse(ks_view_text(text), KS_PROFILE_CONFIG, "default", &profile, &line),
        KS_ERR_MALFORMED));
    return line;
}

TEST(the_line_that_is_wrong_is_told)
{
    EXPECT_EQ_U64(bad_line("key = 1\n"), 1);
    EXPECT_EQ_U64(bad_line("[default]\n\nnonsense\n"), 3);
    EXPECT_EQ_U64(bad_line("[default\n"), 1);
    EXPECT_EQ_U64(bad_line("[]\n"), 1);
    EXPECT_EQ_U64(bad_line("[a]\n= x\n"), 2);
    EXPECT(!profile_of("", KS_PROFILE_CONFIG, "default").found);
}

TEST(the_name_comes_from_option_and_environment)
{
    char name[KS_PROFILE_NAME_MAX + 1];
    char longer[KS_PROFILE_NAME_MAX + 2];
    bool named = true;

    unsetenv("AWS_PROFILE");
    unsetenv("AWS_DEFAULT_PROFILE");
    EXPECT_OK(ks_profile_name(NULL, name, &named));
    EXPECT_STR(name, "default");
    EXPECT(!named);
    setenv("AWS_DEFAULT_PROFILE", "d", 1);
    EXPECT_OK(ks_profile_name("", name, &named));
    EXPECT_STR(name, "d");
    setenv("AWS_PROFILE", "p", 1);
    EXPECT_OK(ks_profile_name(NULL, name, &named));
    EXPECT_STR(name, "p");
    EXPECT(named);
    EXPECT_OK(ks_profile_name("o", name, &named));
    EXPECT_STR(name, "o");
    memset(longer, 'x', sizeof(longer));
    longer[sizeof(longer) - 1] = '\0';
    EXPECT(ks_err_is(ks_profile_name(longer, name, &named), KS_ERR_FULL));
}

TEST(paths_come_from_the_environment_or_home)
{
    char path[KS_PATH_MAX + 1];
    bool named = true;

    unsetenv("AWS_CONFIG_FILE");
    setenv("HOME", "/home/x", 1);
    EXPECT_OK(ks_profile_path(KS_PROFILE_CONFIG, path, &named));
    EXPECT_STR(path, "/home/x/.aws/config");
    EXPECT(!named);
    setenv("AWS_SHARED_CREDENTIALS_FILE", "~/keys", 1);
    EXPECT_OK(ks_profile_path(KS_PROFILE_CREDENTIALS, path, &named));
    EXPECT_STR(path, "/home/x/keys");
    EXPECT(named);
    setenv("AWS_SHARED_CREDENTIALS_FILE", "/etc/keys", 1);
    EXPECT_OK(ks_profile_path(KS_PROFILE_CREDENTIALS, path, &named));
    EXPECT_STR(path, "/etc/keys");
    unsetenv("HOME");
    EXPECT(ks_err_is(ks_profile_path(KS_PROFILE_CONFIG, path, &named), KS_ERR_NOT_FOUND));
}

TEST(a_file_that_nobody_named_and_nobody_may_see_is_not_there)
{
    EXPECT_OK(ks_profile_missing(KS_FAIL(NOT_FOUND), true));
    EXPECT_OK(ks_profile_missing(KS_FAIL(DENIED), false));
    EXPECT(ks_err_is(ks_profile_missing(KS_FAIL(DENIED), true), KS_ERR_DENIED));
    EXPECT(ks_err_is(ks_profile_missing(KS_FAIL(FULL), false), KS_ERR_FULL));
}

TEST(a_services_section_says_something_about_each_service)
{
    const char *text = "[services one]\nkinesis =\n  endpoint_url = http://k:1\n  other = x\n"
                       "dynamodb = \n\tENDPOINT_URL=http://d:1\n"
                       "sts = x\nendpoint_url = http://not-deeper:1\n"
                       "[services \"two words\"]\nkinesis=\n endpoint_url = http://first:1\n"
                       "[profile kinesis]\nkinesis =\n  endpoint_url = http://profile:1\n"
                       "[services two words]\nkinesis=\n endpoint_url = http://last:1\n";
    const struct {
        const char *services;
        const char *service;
        const char *url;
    } cases[] = {{"one", "kinesis", "http://k:1"},
                 {"one", "dynamodb", "http://d:1"},
                 {"one", "sts", ""},
                 {"one", "s3", ""},
                 {"two words", "kinesis", "http://last:1"},
                 {"three", "kinesis", ""},
                 {"default", "kinesis", ""}};
    ks_view url;
    uint32_t line = 0;

    for (size_t at = 0; at < sizeof(cases) / sizeof(cases[0]); at++) {
        EXPECT_OK(ks_profile_service_url(ks_view_text(text), ks_view_text(cases[at].services),
                                         cases[at].service, &url, &line));
        if (!is(url, cases[at].url))
            FAIL("%s of %s: %.*s", cases[at].service, cases[at].services, (int)url.size,
                 (const char *)url.data);
    }
    EXPECT_ERR(ks_profile_service_url(KS_VIEW("[services one]\nwhat\n"), KS_VIEW("one"), "sts",
                                      &url, &line),
               MALFORMED);
    EXPECT_EQ_U64(line, 2);
}

TEST(what_stands_deeper_in_a_profile_is_not_its_own)
{
    struct ks_profile profile = profile_of("[default]\ns3 =\n  endpoint_url = http://s3:1\n"
                                           "endpoint_url = http://all:1\nservices = mine\n"
                                           "aws_account_id = 123456789012\n",
                                           KS_PROFILE_CONFIG, "default");

    EXPECT(is(profile.endpoint_url, "http://all:1"));
    EXPECT(is(profile.services, "mine"));
    EXPECT(is(profile.account, "123456789012"));
}
