/* SPDX-License-Identifier: Apache-2.0 */
#include "asking.h"

#include "ks_test.h"

#include "base/budget.h"

TEST(they_are_given_again_and_again)
{
    struct asking asking;

    asking_open(&asking);
    EXPECT_OK(ks_provider_keys_new(&asking.setup,
                                   &(struct ks_plan){.access_key = KS_VIEW("AK"),
                                                     .secret_key = KS_VIEW("SK"),
                                                     .token = KS_VIEW("T"),
                                                     .account = KS_VIEW("123456789012")},
                                   &asking.provider));
    for (int i = 0; i < 2; i++) {
        asking_fetch(&asking);
        EXPECT_OK(asking.err);
        EXPECT_STR(asking.credentials.access_key, "AK");
        EXPECT_STR(asking.credentials.secret_key, "SK");
        EXPECT_STR(asking.credentials.token, "T");
        EXPECT_STR(asking.credentials.account, "123456789012");
        EXPECT(!asking.credentials.expires);
    }
    asking_close(&asking);
}

TEST(keys_that_are_none_are_refused)
{
    struct asking asking;
    struct ks_provider *provider;

    asking_open(&asking);
    int64_t live = ks_alloc_live();
    EXPECT_ERR(ks_provider_keys_new(&asking.setup,
                                    &(struct ks_plan){.access_key = KS_VIEW("A K"),
                                                      .secret_key = KS_VIEW("SK"),
                                                      .token = KS_VIEW("")},
                                    &provider),
               INVALID);
    EXPECT_EQ_I64(ks_alloc_live(), live);
    EXPECT_OK(ks_provider_keys_new(&asking.setup,
                                   &(struct ks_plan){.access_key = KS_VIEW("AK"),
                                                     .secret_key = KS_VIEW("SK"),
                                                     .token = KS_VIEW("")},
                                   &asking.provider));
    asking_close(&asking);
}
