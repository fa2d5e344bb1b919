/* SPDX-License-Identifier: Apache-2.0 */
#include "asking.h"

#include "ks_test.h"

#include <stdlib.h>
#include <string.h>

static void open_environment(struct asking *asking)
{
    asking_open(asking);
    EXPECT_OK(ks_provider_environment_new(&asking->setup, &asking->provider));
}

TEST(keys_come_from_variables)
{
    struct asking asking;

    open_environment(&asking);
    asking_fetch(&asking);
    EXPECT(ks_err_is(asking.err, KS_ERR_NO_CREDENTIALS));
    setenv("AWS_ACCESS_KEY_ID", "AKID", 1);
    setenv("AWS_SECRET_ACCESS_KEY", " SECRET\n", 1);
    asking_fetch(&asking);
    EXPECT_OK(asking.err);
    EXPECT_STR(asking.credentials.access_key, "AKID");
    EXPECT_STR(asking.credentials.secret_key, "SECRET");
    EXPECT_STR(asking.credentials.token, "");
    EXPECT(!asking.credentials.expires);
    setenv("AWS_SECURITY_TOKEN", "old", 1);
    asking_fetch(&asking);
    EXPECT_STR(asking.credentials.token, "old");
    setenv("AWS_SESSION_TOKEN", "new", 1);
    setenv("AWS_CREDENTIAL_EXPIRATION", "2100-01-01T00:00:00Z", 1);
    asking_fetch(&asking);
    EXPECT_STR(asking.credentials.token, "new");
    EXPECT(asking.credentials.expires);
    EXPECT_STR(asking.credentials.account, "");
    setenv("AWS_ACCOUNT_ID", "123456789012", 1);
    asking_fetch(&asking);
    EXPECT_STR(asking.credentials.account, "123456789012");
    /* What is none is left out: it would become part of a host's name. */
    setenv("AWS_ACCOUNT_ID", "1.evil.example", 1);
    asking_fetch(&asking);
    EXPECT_OK(asking.err);
    EXPECT_STR(asking.credentials.account, "");
    asking_close(&asking);
}

TEST(half_a_pair_is_told)
{
    struct asking asking;

    open_environment(&asking);
    setenv("AWS_ACCESS_KEY_ID", "AKID", 1);
    asking_fetch(&asking);
    EXPECT(ks_err_is(asking.err, KS_ERR_INVALID));
    EXPECT_CONTAINS(asking.detail.text, "AWS_SECRET_ACCESS_KEY");
    setenv("AWS_SECRET_ACCESS_KEY", "very secret", 1);
    asking_fetch(&asking);
    EXPECT(ks_err_is(asking.err, KS_ERR_INVALID));
    EXPECT(strstr(asking.detail.text, "very secret") == NULL);
    setenv("AWS_SECRET_ACCESS_KEY", "good", 1);
    setenv("AWS_CREDENTIAL_EXPIRATION", "soon", 1);
    asking_fetch(&asking);
    EXPECT(ks_err_is(asking.err, KS_ERR_INVALID));
    asking_close(&asking);
}
