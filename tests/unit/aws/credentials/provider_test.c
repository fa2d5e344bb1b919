/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/credentials/provider.h"

#include "ks_test.h"

#include "asking.h"
#include "base/codec.h"

#include <string.h>

TEST(odd_keys_are_refused)
{
    struct ks_provider provider = {.err = KS_OK};
    char longer[KS_ACCESS_KEY_MAX + 1];

    memset(longer, 'A', sizeof(longer));
    EXPECT_OK(ks_provider_set(&provider, KS_VIEW("AK"), KS_VIEW("SK"), KS_VIEW("T")));
    EXPECT_STR(provider.credentials.token, "T");
    EXPECT(!provider.credentials.expires);
    EXPECT(!ks_ok(ks_provider_set(&provider, KS_VIEW(""), KS_VIEW("SK"), KS_VIEW(""))));
    EXPECT(!ks_ok(ks_provider_set(&provider, KS_VIEW("AK"), KS_VIEW(""), KS_VIEW(""))));
    EXPECT(!ks_ok(ks_provider_set(&provider, KS_VIEW("AK\r\nX: y"), KS_VIEW("SK"), KS_VIEW(""))));
    EXPECT(!ks_ok(ks_provider_set(&provider, KS_VIEW("AK"), KS_VIEW("S K"), KS_VIEW(""))));
    EXPECT(!ks_ok(ks_provider_set(&provider, KS_VIEW("AK"), KS_VIEW("SK"), KS_VIEW("T\0"))));
    EXPECT(!ks_ok(ks_provider_set(&provider, ks_view_of(longer, sizeof(longer)), KS_VIEW("SK"),
                                  KS_VIEW(""))));
}

TEST(the_life_is_counted_by_the_clock_of_the_giver)
{
    struct ks_provider provider = {.err = KS_OK};
    ks_view head = KS_VIEW("Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n");
    char soon[KS_TIMESTAMP_SIZE];

    EXPECT_OK(ks_provider_set_expiration(&provider, KS_VIEW("1994-11-06T09:49:37Z"), head));
    EXPECT(provider.credentials.expires);
    EXPECT_EQ_I64(provider.credentials.life.us, INT64_C(3600000000));
    EXPECT_OK(ks_provider_set_expiration(&provider, KS_VIEW("1994-11-06T08:49:36Z"), head));
    EXPECT_EQ_I64(provider.credentials.life.us, -1000000);
    ks_timestamp_format(ks_wall_now().ms + 60000, soon);
    EXPECT_OK(
        ks_provider_set_expiration(&provider, ks_view_text(soon), KS_VIEW("Date: nonsense\r\n")));
    EXPECT(provider.credentials.life.us > 50000000 && provider.credentials.life.us <= 60000000);
    EXPECT(!ks_ok(ks_provider_set_expiration(&provider, KS_VIEW("tomorrow"), head)));
}
