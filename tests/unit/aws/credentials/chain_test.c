/* SPDX-License-Identifier: Apache-2.0 */
#include "asking.h"

#include "ks_test.h"

#include <stdlib.h>

/* Real providers: the environment first, the profile files behind it. */
static void open_chain(struct asking *asking)
{
    struct ks_provider *list[2];

    asking_open(asking);
    EXPECT_OK(ks_provider_environment_new(&asking->setup, &list[0]));
    EXPECT_OK(ks_provider_profile_new(&asking->setup, &list[1]));
    EXPECT_OK(ks_provider_chain_new(asking->loop, list, 2, &asking->provider));
}

static void set_profile(const char *text)
{
    setenv("AWS_SHARED_CREDENTIALS_FILE", asking_file("credentials", text), 1);
}

TEST(the_first_that_has_credentials_gives_them)
{
    struct asking asking;

    open_chain(&asking);
    set_profile("[default]\naws_access_key_id=FILE\naws_secret_access_key=S\n");
    setenv("AWS_ACCESS_KEY_ID", "ENV", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "S", 1);
    asking_fetch(&asking);
    EXPECT_OK(asking.err);
    EXPECT_STR(asking.credentials.access_key, "ENV");
    asking_close(&asking);
}

TEST(who_gave_them_once_is_asked_alone)
{
    struct asking asking;

    open_chain(&asking);
    set_profile("[default]\naws_access_key_id=FILE\naws_secret_access_key=S\n");
    asking_fetch(&asking);
    EXPECT_STR(asking.credentials.access_key, "FILE");
    setenv("AWS_ACCESS_KEY_ID", "ENV", 1);
    setenv("AWS_SECRET_ACCESS_KEY", "S", 1);
    asking_fetch(&asking);
    EXPECT_STR(asking.credentials.access_key, "FILE");
    set_profile("[other]\n");
    asking_fetch(&asking);
    EXPECT(ks_err_is(asking.err, KS_ERR_NO_CREDENTIALS));
    asking_close(&asking);
}

TEST(a_failure_is_not_passed_over)
{
    struct asking asking;

    open_chain(&asking);
    set_profile("[default]\naws_access_key_id=FILE\naws_secret_access_key=S\n");
    setenv("AWS_ACCESS_KEY_ID", "ENV", 1);
    asking_fetch(&asking);
    EXPECT(ks_err_is(asking.err, KS_ERR_INVALID));
    EXPECT_CONTAINS(asking.detail.text, "AWS_SECRET_ACCESS_KEY");
    unsetenv("AWS_ACCESS_KEY_ID");
    asking_fetch(&asking);
    EXPECT_OK(asking.err);
    asking_close(&asking);
}

TEST(nobody_has_credentials)
{
    struct asking asking;

    open_chain(&asking);
    asking_fetch(&asking);
    EXPECT(ks_err_is(asking.err, KS_ERR_NO_CREDENTIALS));
    EXPECT_CONTAINS(asking.detail.text, "no AWS credentials");
    asking_close(&asking);
}
