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

static void read_services(const uint8_t *data, size_t size)
{
    ks_view url = KS_VIEW_NONE;
    uint32_t line = 0;

    if (ks_ok(
            ks_profile_service_url(ks_view_of(data, size), KS_VIEW("one"), "kinesis", &url, &line)))
        expect_within(url, data, size);
    else
        assert(line > 0 && line <= size + 1);
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
            const ks_view parts[] = {profile.access_key,
                                     profile.secret_key,
                                     profile.token,
                                     profile.region,
                                     profile.role_arn,
                                     profile.source_profile,
                                     profile.credential_source,
                                     profile.external_id,
                                     profile.role_session_name,
                                     profile.duration_seconds,
                                     profile.mfa_serial,
                                     profile.web_identity_token_file,
                                     profile.sso,
                                     profile.process,
                                     profile.ec2_endpoint,
                                     profile.ec2_endpoint_mode,
                                     profile.ec2_v1_disabled,
                                     profile.account,
                                     profile.endpoint_url,
                                     profile.services,
                                     profile.ignore_urls,
                                     profile.fips,
                                     profile.dualstack,
                                     profile.account_mode,
                                     profile.ca_bundle,
                                     profile.max_attempts,
                                     profile.retry_mode};
            for (size_t part = 0; part < sizeof(parts) / sizeof(parts[0]); part++)
                expect_within(parts[part], data, size);
        }
    }
    read_services(data, size);
    return 0;
}
