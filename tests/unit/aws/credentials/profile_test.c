/* SPDX-License-Identifier: Apache-2.0 */
/* What a profile means is tested in plan_test.c; here, that it is done. */
#include "asking.h"

#include "ks_test.h"

#include "base/budget.h"
#include "http_script.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void open_profile(struct asking *asking, const char *name)
{
    asking_open(asking);
    asking->setup.profile = name;
    asking->setup.profile_named = strcmp(name, "default") != 0;
    EXPECT_OK(ks_provider_profile_new(&asking->setup, &asking->provider));
}

/* The same, and STS plays a script. */
static struct http_script *open_with_sts(struct asking *asking, const char *name,
                                         const struct http_step *steps, size_t count)
{
    struct http_script *script = http_script_start(steps, count);

    open_profile(asking, name);
    asking_sts(asking, http_script_url(script));
    return script;
}

TEST(keys_are_read_anew_each_time)
{
    struct asking asking;

    open_profile(&asking, "p");
    asking_set_files("[profile p]\naws_access_key_id=C\naws_secret_access_key=CS\n", "[q]\n");
    asking_fetch(&asking);
    EXPECT_OK(asking.err);
    EXPECT_STR(asking.credentials.access_key, "C");
    EXPECT_STR(asking.detail.text, "its keys");
    asking_set_files("", "[p]\naws_access_key_id=K\naws_secret_access_key=KS\n"
                         "aws_session_token=KT\naws_account_id=123456789012\n");
    asking_fetch(&asking);
    EXPECT_STR(asking.credentials.access_key, "K");
    EXPECT_STR(asking.credentials.secret_key, "KS");
    EXPECT_STR(asking.credentials.token, "KT");
    EXPECT_STR(asking.credentials.account, "123456789012");
    asking_close(&asking);
}

TEST(a_profile_that_says_nothing_has_none)
{
    struct asking asking;

    open_profile(&asking, "default");
    asking_fetch(&asking);
    EXPECT_ERR(asking.err, NO_CREDENTIALS);
    asking_close(&asking);
    open_profile(&asking, "p");
    asking_fetch(&asking);
    EXPECT_ERR(asking.err, INVALID);
    EXPECT_CONTAINS(asking.detail.text, "profile p is neither");
    asking_close(&asking);
}

TEST(a_process_is_run)
{
    struct asking asking;

    open_profile(&asking, "default");
    asking_set_files("[default]\ncredential_process = printf "
                     "'{\"Version\":1,\"AccessKeyId\":\"P\",\"SecretAccessKey\":\"S\"}'\n",
                     "");
    asking_fetch(&asking);
    EXPECT_OK(asking.err);
    EXPECT_STR(asking.credentials.access_key, "P");
    asking_set_files("[default]\ncredential_process = 'x\n", "");
    asking_fetch(&asking);
    EXPECT_ERR(asking.err, INVALID);
    EXPECT_CONTAINS(asking.detail.text, "profile default: credential_process");
    asking_close(&asking);
}

TEST(roles_are_assumed_one_on_the_other)
{
    static const struct http_step steps[] = {
        {.headers = ASKING_DATE, .body = ASKING_STS("AssumeRole", "ONE", "01:00:00")},
        {.headers = ASKING_DATE, .body = ASKING_STS("AssumeRole", "TWO", "01:00:00")}};
    struct asking asking;
    struct http_script *script = open_with_sts(&asking, "a", steps, 2);

    asking_set_files("[profile a]\nrole_arn=arn:a\nsource_profile=b\nexternal_id=x\n"
                     "[profile b]\nrole_arn=arn:b\nsource_profile=c\n",
                     "[c]\naws_access_key_id=KEY\naws_secret_access_key=hush\n");
    asking_fetch(&asking);
    EXPECT_OK(asking.err);
    EXPECT_STR(asking.credentials.access_key, "TWO");
    EXPECT_STR(asking.detail.text, "its keys, arn:a");
    EXPECT_CONTAINS(http_script_request(script, 0), "Credential=KEY/");
    EXPECT_CONTAINS(http_script_request(script, 0), "RoleArn=arn%3Ab&");
    EXPECT_CONTAINS(http_script_request(script, 1), "Credential=ONE/");
    EXPECT_CONTAINS(http_script_request(script, 1), "RoleArn=arn%3Aa&");
    EXPECT_CONTAINS(http_script_request(script, 1), "ExternalId=x");
    asking_close(&asking);
    http_script_stop(script);
}

TEST(a_role_stands_on_the_environment_that_it_names)
{
    static const struct http_step steps[] = {
        {.headers = ASKING_DATE, .body = ASKING_STS("AssumeRole", "ONE", "01:00:00")}};
    struct asking asking;
    struct http_script *script = open_with_sts(&asking, "a", steps, 1);

    asking_set_files("[profile a]\nrole_arn=arn:a\ncredential_source=Environment\n", "");
    asking_fetch(&asking);
    EXPECT_ERR(asking.err, INVALID);
    EXPECT_CONTAINS(asking.detail.text, "profile a: the environment, arn:a gives no credentials");
    setenv("AWS_ACCESS_KEY_ID", "ENV", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "S", 1);
    asking_fetch(&asking);
    EXPECT_OK(asking.err);
    EXPECT_CONTAINS(http_script_request(script, 0), "Credential=ENV/");
    asking_close(&asking);
    http_script_stop(script);
}

TEST(web_identity_is_that_of_the_environment_unless_only_the_profile_counts)
{
    static const struct http_step steps[] = {
        {.headers = ASKING_DATE,
         .body = ASKING_STS("AssumeRoleWithWebIdentity", "WEB", "01:00:00")}};
    struct asking asking;
    struct http_script *script = open_with_sts(&asking, "a", steps, 1);

    asking_set_files("[profile a]\nregion=x\n", "");
    setenv("AWS_WEB_IDENTITY_TOKEN_FILE", asking_file("token", "eyJ"), 1);
    asking_fetch(&asking);
    EXPECT_ERR(asking.err, INVALID);
    EXPECT_CONTAINS(asking.detail.text, "AWS_ROLE_ARN");
    setenv("AWS_ROLE_ARN", "arn:e", 1);
    setenv("AWS_ROLE_SESSION_NAME", "me", 1);
    asking_fetch(&asking);
    EXPECT_OK(asking.err);
    EXPECT_STR(asking.credentials.access_key, "WEB");
    EXPECT_STR(asking.detail.text, "web identity, arn:e");
    EXPECT_CONTAINS(http_script_request(script, 0), "RoleSessionName=me");
    asking.provider->vtable->close(asking.provider);
    asking.setup.profile_only = true;
    EXPECT_OK(ks_provider_profile_new(&asking.setup, &asking.provider));
    asking_fetch(&asking);
    EXPECT_ERR(asking.err, NO_CREDENTIALS);
    asking_close(&asking);
    http_script_stop(script);
}

TEST(a_role_stands_on_the_container_and_on_the_instance)
{
    static const char keys[] = "{\"AccessKeyId\":\"K\",\"SecretAccessKey\":\"S\",\"Token\":\"T\"}";
    static const struct http_step container[] = {{.body = keys}};
    static const struct http_step instance[] = {
        {.body = "token"}, {.body = "role"}, {.body = keys}};
    static const struct http_step sts[] = {
        {.headers = ASKING_DATE, .body = ASKING_STS("AssumeRole", "ONE", "01:00:00")}};
    struct http_script *servers[] = {http_script_start(container, 1),
                                     http_script_start(instance, 3)};
    struct asking asking;
    struct http_script *script = open_with_sts(&asking, "a", sts, 1);

    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", http_script_url(servers[0]), 1);
    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", http_script_url(servers[1]), 1);
    unsetenv("AWS_EC2_METADATA_DISABLED");
    asking_set_files("[profile a]\nrole_arn=arn:a\ncredential_source=EcsContainer\n", "");
    asking_fetch(&asking);
    EXPECT_OK(asking.err);
    EXPECT_EQ_U64(http_script_count(servers[0]), 1);
    asking_set_files("[profile a]\nrole_arn=arn:a\ncredential_source=Ec2InstanceMetadata\n", "");
    asking_fetch(&asking);
    EXPECT_OK(asking.err);
    /* They are the role's, and those end when they end. */
    EXPECT(!asking.credentials.outlasts);
    EXPECT_EQ_U64(http_script_count(servers[1]), 3);
    EXPECT_EQ_U64(http_script_count(servers[0]), 1);
    EXPECT_CONTAINS(http_script_request(script, 1), "Credential=K/");
    asking_close(&asking);
    http_script_stop(script);
    http_script_stop(servers[0]);
    http_script_stop(servers[1]);
}

TEST(broken_files_are_told_without_their_secrets)
{
    struct asking asking;

    open_profile(&asking, "default");
    asking_set_files("", "[default]\naws_secret_access_key hush\n");
    asking_fetch(&asking);
    EXPECT_ERR(asking.err, MALFORMED);
    EXPECT_CONTAINS(asking.detail.text, "line 2");
    EXPECT(strstr(asking.detail.text, "hush") == NULL);
    asking_set_files("", "[default]\naws_access_key_id=A\naws_secret_access_key=hush hush\n");
    asking_fetch(&asking);
    EXPECT_ERR(asking.err, INVALID);
    EXPECT_CONTAINS(asking.detail.text, "profile default: its keys");
    EXPECT(strstr(asking.detail.text, "hush") == NULL);
    setenv("AWS_CONFIG_FILE", ks_test_dir(), 1);
    asking_fetch(&asking);
    EXPECT_ERR(asking.err, SYSTEM);
    EXPECT_CONTAINS(asking.detail.text, ks_test_dir());
    asking_close(&asking);
}

TEST(closing_ends_what_is_under_way)
{
    static const struct http_step steps[] = {{.silent = true}};
    struct asking asking;
    struct http_script *script = open_with_sts(&asking, "a", steps, 1);

    asking_set_files("[profile a]\nrole_arn=arn:a\nsource_profile=a\n",
                     "[a]\naws_access_key_id=KEY\naws_secret_access_key=S\n");
    /* While it reads a file, which ends by itself. */
    asking.provider->vtable->fetch(asking.provider);
    asking.provider->vtable->close(asking.provider);
    for (int i = 0; i < 20; i++)
        ks_loop_turn(asking.loop, ks_span_ms(5));
    EXPECT_OK(ks_provider_profile_new(&asking.setup, &asking.provider));
    /* While STS is asked. */
    asking.provider->vtable->fetch(asking.provider);
    while (http_script_count(script) < 1)
        ks_loop_turn(asking.loop, ks_span_ms(5));
    asking_close(&asking);
    EXPECT_EQ_I64(asking.answers, 0);
    http_script_stop(script);
}

/* The n-th allocation of everything from files to roles fails: an answer comes out, nothing leaks.
 */
TEST(every_allocation_may_fail)
{
    static const struct http_step steps[] = {
        {.headers = ASKING_DATE, .body = ASKING_STS("AssumeRole", "ONE", "01:00:00")}};
    struct asking asking;
    struct http_script *script = open_with_sts(&asking, "a", steps, 1);
    bool good = false;

    asking_set_files("[profile a]\nrole_arn=arn:a\nsource_profile=b\n",
                     "[b]\naws_access_key_id=KEY\naws_secret_access_key=S\n");
    asking_fetch(&asking);
    for (uint64_t n = 1; !good; n++) {
        EXPECT(n < 200);
        ks_alloc_fail_after(n, 0);
        asking_fetch(&asking);
        ks_alloc_fail_after(0, 0);
        good = ks_ok(asking.err);
        if (!good)
            EXPECT_ERR(asking.err, NO_MEMORY);
    }
    asking_close(&asking);
    http_script_stop(script);
}
