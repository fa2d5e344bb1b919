/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/profile.h"

#include "ks_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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
        "\xef\xbb\xbf[default]\ns3 =\n  region = nested\n  max = 3\nregion = eu-west-1 # kept\n"
        " ; comment\n[profile p]\n  region = a\n  output = json\n    region = nested\n"
        "[default]\nregion = later\n";

    EXPECT(is(profile_of(text, KS_PROFILE_CONFIG, "default").region, "later"));
    EXPECT(is(profile_of(text, KS_PROFILE_CONFIG, "p").region, "a"));
    EXPECT(is(
        profile_of("[default]\nregion = eu-west-1 # kept\n", KS_PROFILE_CONFIG, "default").region,
        "eu-west-1 # kept"));
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

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    EXPECT(file != NULL);
    EXPECT(fputs(text, file) >= 0);
    EXPECT(fclose(file) == 0);
}

TEST(the_region_is_read_at_the_start)
{
    char region[KS_REGION_MAX + 1];
    struct ks_detail detail;
    const char *path = ks_test_path("config");

    unsetenv("AWS_PROFILE");
    unsetenv("AWS_DEFAULT_PROFILE");
    setenv("AWS_CONFIG_FILE", path, 1);
    EXPECT_OK(ks_profile_region(NULL, region, &detail));
    EXPECT_STR(region, "");
    write_file(path, "[default]\nregion = eu-west-1\n[profile p]\nregion = us-west-2\n");
    EXPECT_OK(ks_profile_region(NULL, region, &detail));
    EXPECT_STR(region, "eu-west-1");
    EXPECT_OK(ks_profile_region("p", region, &detail));
    EXPECT_STR(region, "us-west-2");
    EXPECT_OK(ks_profile_region("q", region, &detail));
    EXPECT_STR(region, "");
    write_file(path, "what\n");
    EXPECT(ks_err_is(ks_profile_region(NULL, region, &detail), KS_ERR_MALFORMED));
    EXPECT_CONTAINS(detail.text, "line 1");
    setenv("AWS_CONFIG_FILE", ks_test_dir(), 1);
    EXPECT(ks_err_is(ks_profile_region(NULL, region, &detail), KS_ERR_SYSTEM));
}

TEST(a_file_that_nobody_named_and_nobody_may_see_is_not_there)
{
    EXPECT_OK(ks_profile_missing(KS_FAIL(NOT_FOUND), true));
    EXPECT_OK(ks_profile_missing(KS_FAIL(DENIED), false));
    EXPECT(ks_err_is(ks_profile_missing(KS_FAIL(DENIED), true), KS_ERR_DENIED));
    EXPECT(ks_err_is(ks_profile_missing(KS_FAIL(FULL), false), KS_ERR_FULL));
}
