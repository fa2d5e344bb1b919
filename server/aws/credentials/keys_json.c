/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/credentials/keys_json.h"

#include "aws/failure.h"
#include "aws/json.h"

/* Empty if it is absent or no text. */
static ks_view member(const struct ks_json *json, const char *name)
{
    ks_view text = KS_VIEW_NONE;

    if (!ks_ok(ks_json_text(ks_json_member(json, name), &text)))
        return KS_VIEW_NONE;
    return text;
}

static ks_err read_keys(struct ks_provider *provider, const struct ks_json *json, const char *token,
                        ks_view head)
{
    const struct ks_json *end = ks_json_member(json, "Expiration");

    KS_TRY(ks_provider_set(provider, member(json, "AccessKeyId"), member(json, "SecretAccessKey"),
                           member(json, token)));
    ks_provider_set_account(provider, member(json, "AccountId"));
    return end == NULL ? KS_OK
                       : ks_provider_set_expiration(provider, member(json, "Expiration"), head);
}

static ks_err read_failure(struct ks_provider *provider, const char *who,
                           const struct ks_json *json, int status)
{
    struct ks_failure failure;

    ks_failure_from(status, member(json, "Code"), member(json, "Message"), &failure);
    ks_failure_explain(&failure, who, "credentials", &provider->detail);
    return failure.err;
}

ks_err ks_keys_read_answer(struct ks_provider *provider, const char *who,
                           const struct ks_http_answer *answer)
{
    struct ks_json *json = NULL;
    ks_err err = ks_json_parse(answer->body, &json);
    ks_view code = member(json, "Code");
    bool said_no = code.size > 0 && !ks_view_equal(code, KS_VIEW("Success"));

    if (answer->status != 200 || said_no) {
        err = read_failure(provider, who, json, answer->status);
    } else if (!ks_ok(err)) {
        ks_detail_set(&provider->detail, "the answer of %s is no JSON", who);
        err = KS_FAIL(MALFORMED);
    } else if (!ks_ok(read_keys(provider, json, "Token", answer->head))) {
        ks_detail_set(&provider->detail, "the answer of %s holds no usable credentials", who);
        err = KS_FAIL(MALFORMED);
    }
    ks_json_free(json);
    return err;
}

ks_err ks_keys_read_process(struct ks_provider *provider, ks_view output)
{
    struct ks_json *json = NULL;
    uint64_t version = 0;
    ks_err err = ks_json_parse(output, &json);

    if (!ks_ok(err)) {
        ks_detail_set(&provider->detail, "what the credential_process wrote is no JSON");
        err = KS_FAIL(MALFORMED);
    } else if (!ks_ok(ks_json_u64(ks_json_member(json, "Version"), &version)) || version != 1) {
        ks_detail_set(&provider->detail, "what the credential_process wrote is not of Version 1");
        err = KS_FAIL(UNSUPPORTED);
    } else if (!ks_ok(read_keys(provider, json, "SessionToken", KS_VIEW_NONE))) {
        ks_detail_set(&provider->detail,
                      "what the credential_process wrote holds no usable credentials");
        err = KS_FAIL(MALFORMED);
    }
    ks_json_free(json);
    return err;
}
