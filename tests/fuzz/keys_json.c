/* SPDX-License-Identifier: Apache-2.0 */
/* keys_json.c - any bytes as what the container endpoint, the instance metadata service or a
 * credential_process says: credentials are whole or there are none.
 */
#include "aws/credentials/keys_json.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void judge(const struct ks_provider *provider, ks_err err)
{
    if (ks_ok(err)) {
        assert(provider->credentials.access_key[0] != '\0');
        assert(provider->credentials.secret_key[0] != '\0');
    } else {
        assert(provider->detail.text[0] != '\0');
        assert(ks_view_is_utf8(ks_view_text(provider->detail.text)));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const int statuses[] = {200, 400, 500};
    static struct ks_provider provider;
    ks_view body = ks_view_of(data, size);

    for (size_t at = 0; at < sizeof(statuses) / sizeof(statuses[0]); at++) {
        struct ks_http_answer answer = {.status = statuses[at], .body = body};

        provider = (struct ks_provider){.err = KS_OK};
        ks_err err = ks_keys_read_answer(&provider, "the place", &answer);
        assert(statuses[at] == 200 || !ks_ok(err));
        judge(&provider, err);
    }
    provider = (struct ks_provider){.err = KS_OK};
    judge(&provider, ks_keys_read_process(&provider, body));
    return 0;
}
