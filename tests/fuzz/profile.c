/* SPDX-License-Identifier: Apache-2.0 */
/* profile.c - any bytes as a config or credentials file of the AWS tools.
 */
#include "aws/profile.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect_within(ks_view part, const uint8_t *data, size_t size)
{
    assert(part.size == 0 || (part.data >= data && part.data + part.size <= data + size));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"default", "p", "two words"};

    for (int file = KS_PROFILE_CONFIG; file <= KS_PROFILE_CREDENTIALS; file++) {
        for (size_t at = 0; at < sizeof(names) / sizeof(names[0]); at++) {
            struct ks_profile profile;
            uint32_t line = 0;
            ks_err err = ks_profile_parse(ks_view_of(data, size), (enum ks_profile_file)file,
                                          names[at], &profile, &line);

            if (!ks_ok(err)) {
                assert(line > 0 && line <= size + 1);
                continue;
            }
            expect_within(profile.access_key, data, size);
            expect_within(profile.secret_key, data, size);
            expect_within(profile.token, data, size);
            expect_within(profile.region, data, size);
            expect_within(profile.role_arn, data, size);
            expect_within(profile.sso, data, size);
            expect_within(profile.process, data, size);
        }
    }
    return 0;
}
