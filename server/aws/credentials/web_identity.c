/* SPDX-License-Identifier: Apache-2.0 */
/* AssumeRoleWithWebIdentity of STS, as EKS sets it up for service accounts (IRSA). The request is
 * not signed; the token is the proof. */
#include "aws/credentials/remote.h"

#include "aws/credentials/sts.h"
#include "aws/endpoint.h"
#include "base/budget.h"

enum { TIMEOUT_MS = 10000 };

struct web_identity {
    struct ks_remote remote; /* First: it is our address. */
    const struct ks_endpoint_rules *rules;
    struct ks_endpoint sts; /* As they were followed last. */
    char path[KS_PATH_MAX + 1];
    char arn[KS_ROLE_ARN_MAX + 1];
    char session_name[KS_ROLE_SESSION_NAME_MAX + 1];
    struct ks_role role; /* Views into these. */
    struct ks_bytes body;
    struct ks_http_header headers[2];
};

static ks_err prepare(struct ks_remote *remote, ks_view token, struct ks_http_request *request)
{
    struct web_identity *self = (struct web_identity *)remote;
    struct ks_detail *detail = &remote->provider.detail;

    KS_TRY(ks_endpoint_find(self->rules, NULL, KS_ENDPOINT_CONTROL, &self->sts, detail));
    ks_err err = ks_sts_write(&self->body, KS_STS_WEB_IDENTITY, &self->role, ks_view_trim(token));
    if (!ks_ok(err))
        return ks_err_because(err, detail, "the request to STS cannot be written: %s",
                              ks_err_text(err));
    self->headers[0] =
        (struct ks_http_header){KS_VIEW("Content-Type"), ks_view_text(KS_STS_FORM_TYPE)};
    self->headers[1] = (struct ks_http_header){KS_VIEW("Accept"), KS_VIEW("text/xml")};
    request->method = "POST";
    request->url = self->sts.url;
    request->headers = self->headers;
    request->header_count = 2;
    request->body = ks_bytes_view(&self->body);
    request->timeout = ks_span_ms(TIMEOUT_MS);
    return KS_OK;
}

static ks_err read_answer(struct ks_remote *remote, const struct ks_http_answer *answer)
{
    struct ks_failure failure;

    return ks_sts_read(&remote->provider, KS_STS_WEB_IDENTITY, answer, &failure);
}

static void fetch(struct ks_provider *provider)
{
    ks_remote_fetch((struct ks_remote *)provider);
}

static void close(struct ks_provider *provider)
{
    struct web_identity *self = (struct web_identity *)provider;

    ks_remote_end(&self->remote);
    ks_bytes_free(&self->body);
    ks_free(self);
}

static const struct ks_provider_vtable VTABLE = {"web identity", fetch, close, NULL};

ks_err ks_provider_web_identity_new(const struct ks_provider_setup *setup, ks_view token_file,
                                    const struct ks_role *role, struct ks_provider **ret_provider)
{
    struct web_identity *self = ks_alloc(sizeof(*self));

    if (self == NULL)
        return KS_FAIL(NO_MEMORY);
    ks_remote_init(&self->remote, &VTABLE, "sts", setup);
    self->remote.operation = "AssumeRoleWithWebIdentity";
    self->remote.prepare = prepare;
    self->remote.read = read_answer;
    self->rules = setup->sts;
    ks_bytes_init(&self->body, KS_STS_FORM_MAX + 3 * KS_TOKEN_FILE_MAX);
    self->body.secret = true;
    if (!ks_ok(ks_view_copy_text(token_file, self->path, sizeof(self->path))) ||
        !ks_ok(ks_view_copy_text(role->arn, self->arn, sizeof(self->arn))) ||
        !ks_ok(ks_view_copy_text(role->session_name, self->session_name,
                                 sizeof(self->session_name)))) {
        close(&self->remote.provider);
        return KS_FAIL(INVALID);
    }
    self->remote.token_path = self->path;
    self->role = (struct ks_role){.arn = ks_view_text(self->arn),
                                  .session_name = ks_view_text(self->session_name),
                                  .duration_seconds = role->duration_seconds};
    *ret_provider = &self->remote.provider;
    return KS_OK;
}
