/* SPDX-License-Identifier: Apache-2.0 */
#include "asking.h"

#include "ks_test.h"

#include <stdlib.h>
#include <string.h>

static void open_profile(struct asking *asking, const char *name, bool named, bool roles)
{
    asking_open(asking);
    EXPECT_OK(ks_provider_profile_new(asking->loop, name, named, roles, &asking->provider));
}

static void set_files(const char *config, const char *credentials)
{
    setenv("AWS_CONFIG_FILE", asking_file("config", config), 1);
    setenv("AWS_SHARED_CREDENTIALS_FILE", asking_file("credentials", credentials), 1);
}

TEST(keys_come_from_the_credentials_file_then_the_config_file)
{
    struct asking asking;

    open_profile(&asking, "p", true, false);
    set_files("[profile p]\naws_access_key_id=C\naws_secret_access_key=CS\naws_session_token=CT\n",
              "[q]\n");
    asking_fetch(&asking);
    EXPECT_OK(asking.err);
    EXPECT_STR(asking.credentials.access_key, "C");
    EXPECT_STR(asking.credentials.token, "CT");
    set_files("[profile p]\naws_access_key_id=C\naws_secret_access_key=CS\naws_session_token=CT\n",
              "[p]\naws_access_key_id=K\naws_secret_access_key=KS\n");
    asking_fetch(&asking);
    EXPECT_STR(asking.credentials.access_key, "K");
    EXPECT_STR(asking.credentials.secret_key, "KS");
    EXPECT_STR(asking.credentials.token, "");
    asking_close(&asking);
}

TEST(without_files_there_are_no_credentials)
{
    struct asking asking;

    open_profile(&asking, "default", false, false);
    asking_fetch(&asking);
    EXPECT(ks_err_is(asking.err, KS_ERR_NO_CREDENTIALS));
    unsetenv("HOME");
    asking_fetch(&asking);
    EXPECT(ks_err_is(asking.err, KS_ERR_NO_CREDENTIALS));
    asking_close(&asking);
}

TEST(a_profile_that_was_named_must_be_there)
{
    struct asking asking;

    open_profile(&asking, "prod", true, false);
    set_files("[default]\n", "");
    asking_fetch(&asking);
    EXPECT(ks_err_is(asking.err, KS_ERR_INVALID));
    EXPECT_CONTAINS(asking.detail.text, "prod");
    set_files("[profile prod]\nregion = x\n", "");
    asking_fetch(&asking);
    EXPECT(ks_err_is(asking.err, KS_ERR_NO_CREDENTIALS));
    asking_close(&asking);
}

TEST(what_is_not_supported_says_so)
{
    struct asking asking;

    open_profile(&asking, "default", false, true);
    set_files("[default]\naws_access_key_id=C\naws_secret_access_key=CS\n", "");
    asking_fetch(&asking);
    EXPECT(ks_err_is(asking.err, KS_ERR_NO_CREDENTIALS));
    set_files("[default]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = x\n", "");
    asking_fetch(&asking);
    EXPECT(ks_err_is(asking.err, KS_ERR_UNSUPPORTED));
    EXPECT_CONTAINS(asking.detail.text, "role_arn");
    asking_close(&asking);

    open_profile(&asking, "default", false, false);
    set_files("[default]\nsso_session = s\n", "");
    asking_fetch(&asking);
    EXPECT(ks_err_is(asking.err, KS_ERR_UNSUPPORTED));
    set_files("[default]\ncredential_process = p\n", "");
    asking_fetch(&asking);
    EXPECT(ks_err_is(asking.err, KS_ERR_UNSUPPORTED));
    asking_close(&asking);
}

TEST(broken_files_are_told_without_their_secrets)
{
    struct asking asking;

    open_profile(&asking, "default", false, false);
    set_files("", "[default]\naws_secret_access_key hush\n");
    asking_fetch(&asking);
    EXPECT(ks_err_is(asking.err, KS_ERR_MALFORMED));
    EXPECT_CONTAINS(asking.detail.text, "line 2");
    EXPECT(strstr(asking.detail.text, "hush") == NULL);
    set_files("", "[default]\naws_access_key_id = A\n");
    asking_fetch(&asking);
    EXPECT(ks_err_is(asking.err, KS_ERR_INVALID));
    setenv("AWS_CONFIG_FILE", ks_test_dir(), 1);
    asking_fetch(&asking);
    EXPECT(ks_err_is(asking.err, KS_ERR_SYSTEM));
    EXPECT_CONTAINS(asking.detail.text, ks_test_dir());
    asking_close(&asking);
}
