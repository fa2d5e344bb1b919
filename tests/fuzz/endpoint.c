/* SPDX-License-Identifier: Apache-2.0 */
/* endpoint.c - any bytes as what users say about places: a URL, an ARN, and hosts that are asked directly; one on each
 * line.
 */
#include "aws/arn.h"
#include "aws/proxy.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void find_endpoint(const char *url, const char *arn)
{
    const struct ks_endpoint_rules by_url = {
        .service = "kinesis", .region = "eu-west-1", .url = url};
    const struct ks_endpoint_rules by_arn = {
        .service = "kinesis", .region = "eu-west-1", .stream_arn = arn};
    struct ks_endpoint endpoint;
    struct ks_detail detail;

    if (ks_ok(ks_endpoint_find(&by_url, NULL, KS_ENDPOINT_DATA, &endpoint, &detail)))
        assert(endpoint.path[0] == '/' && endpoint.host[0] != '\0');
    /* Whatever it says, it stays below the suffix. */
    if (arn[0] != '\0' &&
        ks_ok(ks_endpoint_find(&by_arn, NULL, KS_ENDPOINT_DATA, &endpoint, &detail)))
        assert(strcmp(endpoint.host + KS_ACCOUNT_SIZE - 1,
                      ".data-kinesis.eu-west-1.amazonaws.com") == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct ks_proxies proxies = {.https = "http://proxy:1", .http = "http://proxy:2"};
    static char texts[2][KS_HTTP_URL_MAX + 64];
    ks_view rest = ks_view_of(data, size);
    struct ks_arn arn;
    struct ks_url url;

    for (int at = 0; at < 2; at++) {
        if (!ks_ok(ks_view_copy_text(ks_view_cut(&rest, '\n'), texts[at], sizeof(texts[at]))))
            return 0;
    }
    if (!ks_ok(ks_view_copy_text(rest, proxies.none, sizeof(proxies.none))))
        return 0;
    find_endpoint(texts[0], texts[1]);
    if (ks_ok(ks_arn_split(ks_view_text(texts[1]), &arn)))
        assert(arn.account.size == 0 || ks_account_is_valid(arn.account));
    if (ks_ok(ks_url_split(ks_view_text(texts[0]), &url)))
        assert(url.host.size > 0 && ks_proxies_find(&proxies, &url) != NULL);
    return 0;
}
