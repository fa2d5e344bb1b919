/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/credentials/sts.h"

#include "aws/xml.h"

const char KS_STS_FORM_TYPE[] = "application/x-www-form-urlencoded; charset=utf-8";

static const struct action {
    const char *name;
    const char *response;
    const char *result;
} ACTIONS[] = {
    [KS_STS_ASSUME_ROLE] = {"AssumeRole", "AssumeRoleResponse", "AssumeRoleResult"},
    [KS_STS_WEB_IDENTITY] = {"AssumeRoleWithWebIdentity", "AssumeRoleWithWebIdentityResponse",
                             "AssumeRoleWithWebIdentityResult"},
};

/* --- The form --- */

/* As a form field (WHATWG URL, 5.2, in the stricter set of RFC 3986); none for an empty value. */
static ks_err append_field(struct ks_bytes *body, const char *name, ks_view value)
{
    if (value.size == 0)
        return KS_OK;
    KS_TRY(ks_bytes_format(body, "&%s=", name));
    for (size_t at = 0; at < value.size; at++) {
        uint8_t byte = value.data[at];
        bool plain = (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') ||
                     (byte >= '0' && byte <= '9') || byte == '-' || byte == '.' || byte == '_' ||
                     byte == '~';

        KS_TRY(plain ? ks_bytes_append_byte(body, byte) : ks_bytes_format(body, "%%%02X", byte));
    }
    return KS_OK;
}

ks_err ks_sts_write(struct ks_bytes *body, enum ks_sts_action action, const struct ks_role *role,
                    ks_view token)
{
    ks_view session =
        role->session_name.size == 0 ? KS_VIEW("kinesis-sidecar") : role->session_name;

    ks_bytes_clear(body);
    KS_TRY(ks_bytes_format(body, "Action=%s&Version=2011-06-15", ACTIONS[action].name));
    KS_TRY(append_field(body, "RoleArn", role->arn));
    KS_TRY(append_field(body, "RoleSessionName", session));
    KS_TRY(append_field(body, "ExternalId", role->external_id));
    if (role->duration_seconds > 0)
        KS_TRY(ks_bytes_format(body, "&DurationSeconds=%u", role->duration_seconds));
    return append_field(body, "WebIdentityToken", token);
}

/* --- The answer --- */

static ks_err descend(ks_view *xml, const char *name)
{
    return ks_xml_child(*xml, name, xml);
}

static ks_err read_member(ks_view xml, const char *name, char *buffer, size_t capacity)
{
    KS_TRY(descend(&xml, name));
    return ks_xml_text(xml, buffer, capacity);
}

static ks_err read_texts(ks_view xml, struct ks_credentials *text, char *expiration,
                         size_t capacity)
{
    KS_TRY(read_member(xml, "AccessKeyId", text->access_key, sizeof(text->access_key)));
    KS_TRY(read_member(xml, "SecretAccessKey", text->secret_key, sizeof(text->secret_key)));
    KS_TRY(read_member(xml, "SessionToken", text->token, sizeof(text->token)));
    return read_member(xml, "Expiration", expiration, capacity);
}

/* Whose the role is: <AssumedRoleUser><Arn>arn:aws:sts::123456789012:assumed-role/.. */
static void read_account(struct ks_provider *provider, ks_view result)
{
    char text[KS_ROLE_ARN_MAX + 1];
    struct ks_arn arn;

    if (ks_ok(descend(&result, "AssumedRoleUser")) &&
        ks_ok(read_member(result, "Arn", text, sizeof(text))) &&
        ks_ok(ks_arn_split(ks_view_text(text), &arn)))
        ks_provider_set_account(provider, arn.account);
}

/* <AssumeRoleResponse><AssumeRoleResult><Credentials>.. */
static ks_err read_credentials(struct ks_provider *provider, enum ks_sts_action action,
                               const struct ks_http_answer *answer)
{
    struct ks_credentials text = {.access_key = ""};
    ks_view xml = answer->body;
    char expiration[64];

    KS_TRY(descend(&xml, ACTIONS[action].response));
    KS_TRY(descend(&xml, ACTIONS[action].result));
    ks_view result = xml;
    KS_TRY(descend(&xml, "Credentials"));
    ks_err err = read_texts(xml, &text, expiration, sizeof(expiration));
    if (ks_ok(err))
        err = ks_provider_set(provider, ks_view_text(text.access_key),
                              ks_view_text(text.secret_key), ks_view_text(text.token));
    ks_credentials_wipe(&text);
    KS_TRY(err);
    read_account(provider, result);
    return ks_provider_set_expiration(provider, ks_view_text(expiration), answer->head);
}

/* <ErrorResponse><Error><Code>..</Code><Message>..</Message></Error></ErrorResponse> */
static ks_err read_failure(struct ks_provider *provider, enum ks_sts_action action,
                           const struct ks_http_answer *answer, struct ks_failure *ret_failure)
{
    ks_view xml = answer->body;
    ks_view code = KS_VIEW_NONE;
    ks_view message = KS_VIEW_NONE;

    if (ks_ok(descend(&xml, "ErrorResponse")) && ks_ok(descend(&xml, "Error"))) {
        if (!ks_ok(ks_xml_child(xml, "Code", &code)))
            code = KS_VIEW_NONE;
        if (!ks_ok(ks_xml_child(xml, "Message", &message)))
            message = KS_VIEW_NONE;
    }
    ks_failure_from(answer->status, code, message, ret_failure);
    ks_failure_explain(ret_failure, "STS", ACTIONS[action].name, &provider->detail);
    ks_failure_name_request(&provider->detail, ks_head_find(answer->head, "x-amzn-RequestId"));
    return ret_failure->err;
}

ks_err ks_sts_read(struct ks_provider *provider, enum ks_sts_action action,
                   const struct ks_http_answer *answer, struct ks_failure *ret_failure)
{
    *ret_failure = (struct ks_failure){.code = ""};
    if (answer->status != 200)
        return read_failure(provider, action, answer, ret_failure);
    if (ks_ok(read_credentials(provider, action, answer)))
        return KS_OK;
    ks_detail_set(&provider->detail, "the answer of STS cannot be read");
    ks_failure_name_request(&provider->detail, ks_head_find(answer->head, "x-amzn-RequestId"));
    return KS_FAIL(MALFORMED);
}
