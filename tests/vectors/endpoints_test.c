/* SPDX-License-Identifier: Apache-2.0 */
/* endpoints_test.c - where we look for a service, against the rules that botocore carries
 * (tests/vectors/endpoints.json).
 */
#include "ks_test.h"

#include "aws/endpoint.h"
#include "vectors/vectors.h"

#include <string.h>

static enum ks_account_mode mode_of(const char *word)
{
    static const char *const WORDS[] = {[KS_ACCOUNT_PREFERRED] = "preferred",
                                        [KS_ACCOUNT_DISABLED] = "disabled",
                                        [KS_ACCOUNT_REQUIRED] = "required"};

    for (int mode = 0; mode < 3; mode++) {
        if (strcmp(word, WORDS[mode]) == 0)
            return (enum ks_account_mode)mode;
    }
    /* Of a service that has no such endpoints. */
    EXPECT_STR(word, "");
    return KS_ACCOUNT_PREFERRED;
}

static void expect_case(const json_t *one)
{
    const struct ks_endpoint_rules rules = {
        .service = vectors_text(one, "service"),
        .region = vectors_text(one, "region"),
        .url = vectors_text(one, "url_set"),
        .fips = json_is_true(json_object_get(one, "fips")),
        .dualstack = json_is_true(json_object_get(one, "dualstack")),
        .account_mode = mode_of(vectors_text(one, "mode")),
        .stream_arn = vectors_text(one, "stream_arn"),
    };
    bool data = strcmp(vectors_text(one, "use"), "data") == 0;
    const char *url = vectors_text(one, "url");
    const char *signing = vectors_text(one, "signing_region");
    char *text = json_dumps(one, JSON_COMPACT);
    struct ks_endpoint endpoint;
    struct ks_detail detail = {""};

    ks_err err =
        ks_endpoint_find(&rules, vectors_text(one, "account"),
                         data ? KS_ENDPOINT_DATA : KS_ENDPOINT_CONTROL, &endpoint, &detail);
    if (json_is_true(json_object_get(one, "refused"))) {
        if (ks_ok(err))
            FAIL("%s: found at %s", text, endpoint.url);
        EXPECT_ERR(err, INVALID);
        EXPECT(detail.text[0] != '\0');
    } else {
        if (!ks_ok(err))
            FAIL("%s: %s", text, detail.text);
        /* Ours ends with the path. */
        if (strlen(endpoint.url) != strlen(url) + 1 || strncmp(endpoint.url, url, strlen(url)) != 0)
            FAIL("%s: found at %s", text, endpoint.url);
        EXPECT_STR(endpoint.path, "/");
        EXPECT_STR(endpoint.region, signing[0] != '\0' ? signing : rules.region);
    }
    free(text);
}

TEST(services_are_where_botocore_looks_for_them)
{
    json_t *root = vectors_load("tests/vectors/endpoints.json");
    const json_t *cases = json_object_get(root, "cases");

    for (size_t at = 0; at < json_array_size(cases); at++)
        expect_case(json_array_get(cases, at));
    vectors_read(json_array_size(cases), 400, "tests/vectors/endpoints.json");
    json_decref(root);
}
