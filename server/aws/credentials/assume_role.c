/* SPDX-License-Identifier: Apache-2.0 */
/* AssumeRole of STS: keys of a role, asked for with the keys of somebody else. */
#include "aws/credentials/remote.h"

#include "aws/credentials/sts.h"
#include "aws/endpoint.h"
#include "aws/sigv4.h"
#include "base/budget.h"
#include "base/log.h"

#include <assert.h>

enum { TIMEOUT_MS = 10000 };

struct assume_role {
    struct ks_remote remote; /* First: it is our address. */
    struct ks_provider *base;
    struct ks_credentials signing; /* What the base gave last. */
    const struct ks_endpoint_rules *rules;
    struct ks_endpoint sts; /* As they were followed last. */
    char arn[KS_ROLE_ARN_MAX + 1];
    char session_name[KS_ROLE_SESSION_NAME_MAX + 1];
    char external_id[KS_EXTERNAL_ID_MAX + 1];
    struct ks_role role; /* Views into these. */
    struct ks_sigv4_signer signer;
    struct ks_sigv4_signature signature;
    int64_t skew_ms; /* What is added to our clock. */
    struct ks_bytes body;
    struct ks_http_header headers[6];
};

/* --- The request --- */

static ks_err sign(struct assume_role *self, uint32_t header_count)
{
    struct ks_sigv4_request request = {
        .method = KS_VIEW("POST"),
        .path = ks_view_text(self->sts.path),
        .headers = self->headers,
        .header_count = header_count,
        .body = ks_bytes_view(&self->body),
        .access_key = ks_view_text(self->signing.access_key),
        .secret_key = ks_view_text(self->signing.secret_key),
        .token = ks_view_text(self->signing.token),
        .region = self->sts.region,
        .service = "sts",
        .unix_ms = ks_wall_now().ms + self->skew_ms,
    };

    return ks_sigv4_sign(&self->signer, &request, &self->signature);
}

static ks_err write_request(struct assume_role *self, uint32_t *ret_header_count)
{
    uint32_t count = 0;

    KS_TRY(ks_sts_write(&self->body, KS_STS_ASSUME_ROLE, &self->role, KS_VIEW_NONE));
    self->headers[count++] = (struct ks_http_header){KS_VIEW("Host"), ks_view_text(self->sts.host)};
    self->headers[count++] =
        (struct ks_http_header){KS_VIEW("Content-Type"), ks_view_text(KS_STS_FORM_TYPE)};
    KS_TRY(sign(self, count));
    self->headers[count++] = (struct ks_http_header){KS_VIEW("Accept"), KS_VIEW("text/xml")};
    self->headers[count++] =
        (struct ks_http_header){KS_VIEW("X-Amz-Date"), ks_view_text(self->signature.date)};
    self->headers[count++] =
        (struct ks_http_header){KS_VIEW("Authorization"), self->signature.authorization};
    if (self->signing.token[0] != '\0')
        self->headers[count++] = (struct ks_http_header){KS_VIEW("X-Amz-Security-Token"),
                                                         ks_view_text(self->signing.token)};
    *ret_header_count = count;
    return KS_OK;
}

static ks_err prepare(struct ks_remote *remote, ks_view token, struct ks_http_request *request)
{
    struct assume_role *self = (struct assume_role *)remote;
    struct ks_detail *detail = &remote->provider.detail;

    (void)token;
    KS_TRY(ks_endpoint_find(self->rules, NULL, KS_ENDPOINT_CONTROL, &self->sts, detail));
    ks_err err = write_request(self, &request->header_count);
    if (!ks_ok(err))
        return ks_err_because(err, detail, "the request to STS cannot be written: %s",
                              ks_err_text(err));
    request->method = "POST";
    request->url = self->sts.url;
    request->headers = self->headers;
    request->body = ks_bytes_view(&self->body);
    request->timeout = ks_span_ms(TIMEOUT_MS);
    return KS_OK;
}

/* --- The answer --- */

static ks_err read_answer(struct ks_remote *remote, const struct ks_http_answer *answer)
{
    struct assume_role *self = (struct assume_role *)remote;
    struct ks_failure failure;
    ks_err err = ks_sts_read(&remote->provider, KS_STS_ASSUME_ROLE, answer, &failure);

    if (failure.token_expired && self->base->vtable->expired != NULL)
        self->base->vtable->expired(self->base, self->signing.access_key);
    /* Once more, by the clock of STS. */
    if (failure.skewed && ks_head_corrects(answer->head, ks_wall_now().ms, &self->skew_ms)) {
        ks_warn("aws: our clock differs from that of STS by %lld s, signing with theirs",
                (long long)(self->skew_ms / 1000));
        return KS_FAIL(SERVER);
    }
    return err;
}

static void on_base(void *arg, struct ks_provider *base)
{
    struct assume_role *self = arg;

    if (!ks_ok(base->err)) {
        self->remote.provider.detail = base->detail;
        ks_provider_answer(&self->remote.provider, base->err);
        return;
    }
    self->signing = base->credentials;
    ks_remote_fetch(&self->remote);
}

/* --- Life --- */

static void fetch(struct ks_provider *provider)
{
    struct assume_role *self = (struct assume_role *)provider;

    self->base->vtable->fetch(self->base);
}

static void close(struct ks_provider *provider)
{
    struct assume_role *self = (struct assume_role *)provider;

    if (self->base != NULL)
        self->base->vtable->close(self->base);
    ks_remote_end(&self->remote);
    ks_sigv4_free(&self->signer);
    ks_credentials_wipe(&self->signing);
    ks_bytes_free(&self->body);
    ks_free(self);
}

static const struct ks_provider_vtable VTABLE = {"STS", fetch, close, NULL};

static ks_err copy_role(struct assume_role *self, const struct ks_role *role)
{
    KS_TRY(ks_view_copy_text(role->arn, self->arn, sizeof(self->arn)));
    KS_TRY(ks_view_copy_text(role->session_name, self->session_name, sizeof(self->session_name)));
    KS_TRY(ks_view_copy_text(role->external_id, self->external_id, sizeof(self->external_id)));
    self->role = (struct ks_role){ks_view_text(self->arn), ks_view_text(self->session_name),
                                  ks_view_text(self->external_id), role->duration_seconds};
    return KS_OK;
}

ks_err ks_provider_assume_role_new(const struct ks_provider_setup *setup, struct ks_provider *base,
                                   const struct ks_role *role, struct ks_provider **ret_provider)
{
    struct assume_role *self = ks_alloc(sizeof(*self));

    if (self == NULL) {
        base->vtable->close(base);
        return KS_FAIL(NO_MEMORY);
    }
    ks_remote_init(&self->remote, &VTABLE, "sts", setup);
    self->remote.operation = "AssumeRole";
    self->remote.prepare = prepare;
    self->remote.read = read_answer;
    self->rules = setup->sts;
    self->base = base;
    self->base->fetched = on_base;
    self->base->arg = self;
    ks_sigv4_init(&self->signer);
    ks_bytes_init(&self->body, KS_STS_FORM_MAX);
    if (!ks_ok(copy_role(self, role))) {
        close(&self->remote.provider);
        return KS_FAIL(INVALID);
    }
    *ret_provider = &self->remote.provider;
    return KS_OK;
}
