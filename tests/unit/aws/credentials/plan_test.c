/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/credentials/plan.h"

#include "ks_test.h"

#include <stdio.h>

static struct ks_plan_question ask(const char *config, const char *credentials, const char *profile)
{
    return (struct ks_plan_question){.text = {[KS_PROFILE_CONFIG] = ks_view_text(config),
                                              [KS_PROFILE_CREDENTIALS] = ks_view_text(credentials)},
                                     .profile = profile};
}

static struct ks_plan plan_of(const char *config, const char *credentials, const char *profile)
{
    struct ks_plan_question question = ask(config, credentials, profile);
    struct ks_plan plan;
    struct ks_detail detail = {.text = ""};
    ks_err err = ks_plan_make(&question, &plan, &detail);

    if (!ks_ok(err))
        FAIL("%s: %s", ks_err_name(err), detail.text);
    return plan;
}

static void expect_refused(const char *config, const char *credentials, enum ks_err_code code,
                           const char *part)
{
    struct ks_plan_question question = ask(config, credentials, "a");
    struct ks_plan plan;
    struct ks_detail detail = {.text = ""};
    ks_err err = ks_plan_make(&question, &plan, &detail);

    if (!ks_err_is(err, code))
        FAIL("%s: %s: %s", config, ks_err_name(err), detail.text);
    EXPECT_CONTAINS(detail.text, part);
}

static bool is(ks_view value, const char *text)
{
    return ks_view_equal(value, ks_view_text(text));
}

TEST(a_profile_without_credentials_says_nothing)
{
    EXPECT_EQ_I64(plan_of("", "", "default").base, KS_PLAN_NOTHING);
    EXPECT_EQ_I64(plan_of("[default]\nregion=x\n", "[b]\naws_access_key_id=B\n", "default").base,
                  KS_PLAN_NOTHING);
}

TEST(keys_of_the_credentials_file_come_before_a_process_and_that_before_keys_of_the_config_file)
{
    const char *config = "[profile a]\naws_access_key_id=C\naws_secret_access_key=CS\n"
                         "aws_session_token=CT\ncredential_process=run it\n";
    struct ks_plan plan =
        plan_of(config, "[a]\naws_access_key_id=K\naws_secret_access_key=KS\n", "a");

    EXPECT_EQ_I64(plan.base, KS_PLAN_KEYS);
    EXPECT(is(plan.access_key, "K"));
    EXPECT(is(plan.secret_key, "KS"));
    EXPECT_EQ_U64(plan.token.size, 0);
    plan = plan_of(config, "", "a");
    EXPECT_EQ_I64(plan.base, KS_PLAN_PROCESS);
    EXPECT(is(plan.process, "run it"));
    plan = plan_of("[profile a]\naws_access_key_id=C\naws_secret_access_key=CS\n"
                   "aws_session_token=CT\n",
                   "[a]\nregion=x\n", "a");
    EXPECT_EQ_I64(plan.base, KS_PLAN_KEYS);
    EXPECT(is(plan.access_key, "C"));
    EXPECT(is(plan.token, "CT"));
}

TEST(a_role_stands_on_its_source_profile)
{
    struct ks_plan plan =
        plan_of("[profile a]\nrole_arn=arn:a\nsource_profile=b\nexternal_id=x y\n"
                "role_session_name=me\nduration_seconds=900\naws_access_key_id=A\n",
                "[b]\naws_access_key_id=B\naws_secret_access_key=BS\n", "a");

    EXPECT_EQ_I64(plan.base, KS_PLAN_KEYS);
    EXPECT(is(plan.access_key, "B"));
    EXPECT_EQ_U64(plan.role_count, 1);
    EXPECT(is(plan.roles[0].arn, "arn:a"));
    EXPECT(is(plan.roles[0].external_id, "x y"));
    EXPECT(is(plan.roles[0].session_name, "me"));
    EXPECT_EQ_U64(plan.roles[0].duration_seconds, 900);
}

TEST(roles_stand_on_roles_in_the_order_in_which_they_are_assumed)
{
    struct ks_plan plan = plan_of("[profile a]\nrole_arn=arn:a\nsource_profile=b\n"
                                  "[profile b]\nrole_arn=arn:b\nsource_profile=two words\n"
                                  "[profile two words]\nrole_arn=arn:c\nsource_profile=d\n"
                                  "[profile d]\ncredential_process=d\n",
                                  "", "a");

    EXPECT_EQ_I64(plan.base, KS_PLAN_PROCESS);
    EXPECT_EQ_U64(plan.role_count, 3);
    EXPECT(is(plan.roles[0].arn, "arn:c"));
    EXPECT(is(plan.roles[1].arn, "arn:b"));
    EXPECT(is(plan.roles[2].arn, "arn:a"));
}

TEST(a_source_profile_with_keys_is_used_for_them_whatever_role_it_names)
{
    struct ks_plan plan = plan_of("[profile a]\nrole_arn=arn:a\nsource_profile=b\n"
                                  "[profile b]\nrole_arn=arn:b\nsource_profile=c\n",
                                  "[b]\naws_access_key_id=B\naws_secret_access_key=BS\n", "a");

    EXPECT_EQ_U64(plan.role_count, 1);
    EXPECT(is(plan.roles[0].arn, "arn:a"));
    EXPECT(is(plan.access_key, "B"));
    /* Also the profile itself. */
    plan = plan_of("[profile a]\nrole_arn=arn:a\nsource_profile=a\n",
                   "[a]\naws_access_key_id=A\naws_secret_access_key=AS\n", "a");
    EXPECT_EQ_U64(plan.role_count, 1);
    EXPECT(is(plan.access_key, "A"));
}

TEST(a_role_may_stand_on_a_named_source)
{
    static const struct {
        const char *name;
        enum ks_plan_base base;
    } sources[] = {{"Environment", KS_PLAN_ENVIRONMENT},
                   {"EcsContainer", KS_PLAN_CONTAINER},
                   {"Ec2InstanceMetadata", KS_PLAN_INSTANCE},
                   {"ec2instancemetadata", KS_PLAN_INSTANCE}};
    char config[200];

    for (size_t at = 0; at < sizeof(sources) / sizeof(sources[0]); at++) {
        snprintf(config, sizeof(config), "[profile a]\nrole_arn=arn:a\ncredential_source=%s\n",
                 sources[at].name);
        struct ks_plan plan = plan_of(config, "", "a");
        EXPECT_EQ_I64(plan.base, sources[at].base);
        EXPECT_EQ_U64(plan.role_count, 1);
    }
}

TEST(web_identity_is_the_environments_over_the_profiles)
{
    const char *config = "[profile a]\nrole_arn=arn:a\nweb_identity_token_file=/a\n"
                         "role_session_name=me\nduration_seconds=3600\n";
    struct ks_plan plan = plan_of(config, "", "a");
    struct ks_plan_question question = ask(config, "", "a");

    EXPECT_EQ_I64(plan.base, KS_PLAN_WEB_IDENTITY);
    EXPECT_EQ_U64(plan.role_count, 0);
    EXPECT(is(plan.token_file, "/a"));
    EXPECT(is(plan.web_role.arn, "arn:a"));
    EXPECT(is(plan.web_role.session_name, "me"));
    EXPECT_EQ_U64(plan.web_role.duration_seconds, 3600);

    question.token_file = "/e";
    question.role_arn = "arn:e";
    question.session_name = "env";
    EXPECT_OK(ks_plan_make(&question, &plan, NULL));
    EXPECT(is(plan.token_file, "/e"));
    EXPECT(is(plan.web_role.arn, "arn:e"));
    EXPECT(is(plan.web_role.session_name, "env"));
    /* Before keys; but behind a role of the profile, and never for a source profile. */
    question.text[KS_PROFILE_CONFIG] =
        KS_VIEW("[profile a]\naws_access_key_id=A\naws_secret_access_key=S\n");
    EXPECT_OK(ks_plan_make(&question, &plan, NULL));
    EXPECT_EQ_I64(plan.base, KS_PLAN_WEB_IDENTITY);
    question.text[KS_PROFILE_CONFIG] = KS_VIEW("[profile a]\nrole_arn=arn:a\nsource_profile=b\n"
                                               "[profile b]\nrole_arn=arn:b\n"
                                               "web_identity_token_file=/b\n");
    EXPECT_OK(ks_plan_make(&question, &plan, NULL));
    EXPECT_EQ_I64(plan.base, KS_PLAN_WEB_IDENTITY);
    EXPECT(is(plan.token_file, "/b"));
    EXPECT(is(plan.web_role.arn, "arn:b"));
    EXPECT_EQ_U64(plan.role_count, 1);
    EXPECT(is(plan.roles[0].arn, "arn:a"));
}

TEST(circles_are_seen)
{
    expect_refused("[profile a]\nrole_arn=arn:a\nsource_profile=a\n", "", KS_ERR_INVALID,
                   "lead back");
    expect_refused("[profile a]\nrole_arn=arn:a\nsource_profile=b\n"
                   "[profile b]\nrole_arn=arn:b\nsource_profile=c\n"
                   "[profile c]\nrole_arn=arn:c\nsource_profile=b\n",
                   "", KS_ERR_INVALID, "profile b: its source profiles lead back");
}

TEST(there_are_only_so_many_roles)
{
    char config[2000] = "";
    size_t size = 0;

    for (char name = 'a'; name <= 'h'; name++)
        size += (size_t)snprintf(config + size, sizeof(config) - size,
                                 "[profile %c]\nrole_arn=arn:%c\nsource_profile=%c\n", name, name,
                                 name + 1);
    EXPECT_EQ_U64(
        plan_of(config, "[i]\naws_access_key_id=I\naws_secret_access_key=S\n", "a").role_count,
        KS_ROLES_MAX);
    snprintf(config + size, sizeof(config) - size,
             "[profile i]\nrole_arn=arn:i\nsource_profile=j\n");
    expect_refused(config, "[j]\naws_access_key_id=J\naws_secret_access_key=S\n", KS_ERR_INVALID,
                   "more than 8");
}

TEST(what_cannot_be_is_told)
{
    expect_refused("[profile a]\nrole_arn=arn:a\n", "", KS_ERR_INVALID,
                   "a source_profile or credential_source");
    expect_refused("[profile a]\nrole_arn=r\nsource_profile=b\ncredential_source=Environment\n", "",
                   KS_ERR_INVALID, "only one of source_profile");
    expect_refused("[profile a]\nrole_arn=arn:a\nsource_profile=b\n", "", KS_ERR_INVALID,
                   "source_profile b is not there");
    expect_refused("[profile a]\nrole_arn=arn:a\nsource_profile=b\n[profile b]\nregion=x\n", "",
                   KS_ERR_INVALID, "source profile b has no credentials");
    expect_refused("[profile a]\nrole_arn=arn:a\ncredential_source=Nobody\n", "", KS_ERR_INVALID,
                   "none of Environment");
    expect_refused("[profile a]\nrole_arn=arn:a\nsource_profile=b\nmfa_serial=m\n", "",
                   KS_ERR_UNSUPPORTED, "mfa_serial");
    expect_refused("[profile a]\nsso_session=s\n", "", KS_ERR_UNSUPPORTED, "SSO");
    expect_refused("[profile a]\nlogin_session=arn:u\ncredential_process=p\n", "",
                   KS_ERR_UNSUPPORTED, "profile a uses login_session");
    expect_refused("[profile a]\nweb_identity_token_file=/t\n", "", KS_ERR_INVALID, "AWS_ROLE_ARN");
    expect_refused("[profile a]\nrole_arn=r\nsource_profile=b\nduration_seconds=899\n", "",
                   KS_ERR_INVALID, "duration_seconds");
    expect_refused("[profile a]\nrole_arn=r\nsource_profile=b\nduration_seconds=1h\n", "",
                   KS_ERR_INVALID, "duration_seconds");
    expect_refused("[profile a]\nwhat\n", "", KS_ERR_MALFORMED, "config file: line 2");
    expect_refused("", "[a]\naws_secret_access_key=hush\n", KS_ERR_INVALID, "incomplete");
    expect_refused("[profile a]\naws_access_key_id=A\n", "", KS_ERR_INVALID, "incomplete");
}

TEST(a_profile_that_was_named_must_be_there)
{
    struct ks_plan_question question = ask("[profile b]\n", "", "a");
    struct ks_plan plan;
    struct ks_detail detail;

    question.named = true;
    EXPECT_ERR(ks_plan_make(&question, &plan, &detail), INVALID);
    EXPECT_CONTAINS(detail.text, "profile a is neither");
    question.profile = "b";
    EXPECT_OK(ks_plan_make(&question, &plan, &detail));
    EXPECT_EQ_I64(plan.base, KS_PLAN_NOTHING);
}
