/* SPDX-License-Identifier: Apache-2.0 */
/* AssumeRoleWithWebIdentity of STS (API version 2011-06-15), as EKS sets it up for service accounts
 * (IRSA): AWS_WEB_IDENTITY_TOKEN_FILE, AWS_ROLE_ARN, AWS_ROLE_SESSION_NAME. The request is not
 * signed; the token is the proof. */
#include "aws/credentials/remote.h"

#include "aws/endpoint.h"
#include "aws/failure.h"
#include "aws/xml.h"
#include "base/budget.h"

#include <stdlib.h>

enum { TIMEOUT_MS = 10000 };

struct web_identity {
    struct ks_remote remote; /* First: it is our address. */
    char region[KS_REGION_MAX + 1];
    struct ks_endpoint endpoint;
    struct ks_bytes body;
    struct ks_http_header headers[2];
};

static const char *variable(const char *name)
{
    const char *value = getenv(name);

    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* As a form field (WHATWG URL, 5.2, in the stricter set of RFC 3986). */
static ks_err append_field(struct ks_bytes *body, const char *name, ks_view value)
{
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

static ks_err write_body(struct ks_bytes *body, ks_view token)
{
    const char *session = variable("AWS_ROLE_SESSION_NAME");

    ks_bytes_clear(body);
    KS_TRY(ks_bytes_append(body, KS_VIEW("Action=AssumeRoleWithWebIdentity&Version=2011-06-15")));
    KS_TRY(append_field(body, "RoleArn", ks_view_text(variable("AWS_ROLE_ARN"))));
    KS_TRY(append_field(body, "RoleSessionName",
                        ks_view_text(session == NULL ? "kinesis-sidecar" : session)));
    return append_field(body, "WebIdentityToken", token);
}

static ks_err prepare(struct ks_remote *remote, ks_view token, struct ks_http_request *request)
{
    struct web_identity *self = (struct web_identity *)remote;
    struct ks_detail *detail = &remote->provider.detail;

    KS_TRY(ks_endpoint_resolve("sts", self->region, NULL, &self->endpoint, detail));
    ks_err err = write_body(&self->body, ks_view_trim(token));
    if (!ks_ok(err)) {
        ks_detail_set(detail, "the request to STS cannot be written: %s", ks_err_text(err));
        return err;
    }
    self->headers[0] = (struct ks_http_header){KS_VIEW("Content-Type"),
                                               KS_VIEW("application/x-www-form-urlencoded")};
    self->headers[1] = (struct ks_http_header){KS_VIEW("Accept"), KS_VIEW("text/xml")};
    request->method = "POST";
    request->url = self->endpoint.url;
    request->headers = self->headers;
    request->header_count = 2;
    request->body = ks_bytes_view(&self->body);
    request->timeout = ks_span_ms(TIMEOUT_MS);
    return KS_OK;
}

static ks_err descend(ks_view *xml, const char *name)
{
    return ks_xml_child(*xml, name, xml);
}

/* <AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>... */
static ks_err read_credentials(struct ks_provider *provider, const struct ks_http_answer *answer)
{
    ks_view xml = answer->body;
    struct ks_credentials text = {.access_key = ""};
    char expiration[64];
    ks_view access_key;
    ks_view secret_key;
    ks_view token;
    ks_view end;

    KS_TRY(descend(&xml, "AssumeRoleWithWebIdentityResponse"));
    KS_TRY(descend(&xml, "AssumeRoleWithWebIdentityResult"));
    KS_TRY(descend(&xml, "Credentials"));
    KS_TRY(ks_xml_child(xml, "AccessKeyId", &access_key));
    KS_TRY(ks_xml_child(xml, "SecretAccessKey", &secret_key));
    KS_TRY(ks_xml_child(xml, "SessionToken", &token));
    KS_TRY(ks_xml_child(xml, "Expiration", &end));
    KS_TRY(ks_xml_text(end, expiration, sizeof(expiration)));

    ks_err err = ks_xml_text(access_key, text.access_key, sizeof(text.access_key));
    if (ks_ok(err))
        err = ks_xml_text(secret_key, text.secret_key, sizeof(text.secret_key));
    if (ks_ok(err))
        err = ks_xml_text(token, text.token, sizeof(text.token));
    if (ks_ok(err))
        err = ks_provider_set(provider, ks_view_text(text.access_key),
                              ks_view_text(text.secret_key), ks_view_text(text.token));
    ks_credentials_wipe(&text);
    KS_TRY(err);
    return ks_provider_set_expiration(provider, ks_view_text(expiration), answer->head);
}

/* <ErrorResponse><Error><Code>..</Code><Message>..</Message></Error></ErrorResponse> */
static ks_err read_failure(struct ks_provider *provider, const struct ks_http_answer *answer)
{
    struct ks_failure failure;
    ks_view xml = answer->body;
    ks_view code = KS_VIEW_NONE;
    ks_view message = KS_VIEW_NONE;

    if (ks_ok(descend(&xml, "ErrorResponse")) && ks_ok(descend(&xml, "Error"))) {
        if (!ks_ok(ks_xml_child(xml, "Code", &code)))
            code = KS_VIEW_NONE;
        if (!ks_ok(ks_xml_child(xml, "Message", &message)))
            message = KS_VIEW_NONE;
    }
    ks_failure_from(answer->status, code, message, &failure);
    ks_failure_explain(&failure, "STS", "AssumeRoleWithWebIdentity", &provider->detail);
    return failure.err;
}

static ks_err read_answer(struct ks_remote *remote, const struct ks_http_answer *answer)
{
    if (answer->status != 200)
        return read_failure(&remote->provider, answer);
    if (!ks_ok(read_credentials(&remote->provider, answer))) {
        ks_detail_set(&remote->provider.detail, "the answer of STS cannot be read");
        return KS_FAIL(MALFORMED);
    }
    return KS_OK;
}

static void fetch(struct ks_provider *provider)
{
    struct ks_remote *remote = (struct ks_remote *)provider;

    remote->token_path = variable("AWS_WEB_IDENTITY_TOKEN_FILE");
    if (remote->token_path == NULL) {
        ks_provider_answer(provider, KS_FAIL(NO_CREDENTIALS));
        return;
    }
    if (variable("AWS_ROLE_ARN") == NULL || strlen(variable("AWS_ROLE_ARN")) > KS_ROLE_ARN_MAX) {
        ks_detail_set(&provider->detail,
                      "AWS_WEB_IDENTITY_TOKEN_FILE is set, but AWS_ROLE_ARN is not");
        ks_provider_answer(provider, KS_FAIL(INVALID));
        return;
    }
    ks_remote_fetch(remote);
}

static void close(struct ks_provider *provider)
{
    struct web_identity *self = (struct web_identity *)provider;

    ks_remote_end(&self->remote);
    if (self->body.size > 0)
        explicit_bzero(self->body.data, self->body.size);
    ks_bytes_free(&self->body);
    ks_free(self);
}

static const struct ks_provider_vtable VTABLE = {"web identity", fetch, close};

ks_err ks_provider_web_identity_new(struct ks_loop *loop, struct ks_http *http, const char *region,
                                    struct ks_provider **ret_provider)
{
    ks_view asked = ks_view_text(region != NULL && region[0] != '\0' ? region : "us-east-1");
    struct web_identity *self = ks_alloc(sizeof(*self));

    if (self == NULL)
        return KS_FAIL(NO_MEMORY);
    ks_remote_init(&self->remote, &VTABLE, loop, http);
    self->remote.prepare = prepare;
    self->remote.read = read_answer;
    /* Each byte may take three, and the role and the names come on top. */
    ks_bytes_init(&self->body, 3 * (KS_TOKEN_FILE_MAX + KS_ROLE_ARN_MAX) + 1024);
    if (!ks_ok(ks_view_copy_text(asked, self->region, sizeof(self->region)))) {
        close(&self->remote.provider);
        return KS_FAIL(INVALID);
    }
    *ret_provider = &self->remote.provider;
    return KS_OK;
}
