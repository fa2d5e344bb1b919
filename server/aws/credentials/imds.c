/* SPDX-License-Identifier: Apache-2.0 */
/* The instance metadata service of EC2: a token (version 2), the name of the instance's role, its
 * keys; or its region.
 *
 * Version 1, without a token, is asked when version 2 answers 403, 404 or 405 or does not answer (a
 * hop limit of 1 swallows the token on its way to a container), unless AWS_EC2_METADATA_V1_DISABLED
 * or ec2_metadata_v1_disabled says no. AWS_EC2_METADATA_DISABLED: nothing is asked. Where:
 * AWS_EC2_METADATA_SERVICE_ENDPOINT or ec2_metadata_service_endpoint, else by
 * AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE or ec2_metadata_service_endpoint_mode: IPv4 (the default)
 * or IPv6. Variables come before the keys of the profile. Sources: the EC2 user guide, and botocore
 * utils.py for the rules of falling back. */
#include "aws/credentials/imds.h"

#include "aws/credentials/keys_json.h"
#include "aws/credentials/profiles.h"
#include "aws/credentials/remote.h"
#include "aws/endpoint.h"
#include "aws/failure.h"
#include "base/budget.h"

#include <stdio.h>

enum { TIMEOUT_MS = 1000 };

#define TOKEN_SECONDS "21600" /* As long as it may live. */

enum step { ASK_TOKEN, ASK_ROLE, ASK_KEYS, ASK_REGION };

static const struct {
    const char *operation;
    const char *path; /* Below /latest/. */
} STEPS[] = {
    [ASK_TOKEN] = {"GetToken", "api/token"},
    [ASK_ROLE] = {"GetRole", "meta-data/iam/security-credentials/"},
    [ASK_KEYS] = {"GetCredentials", "meta-data/iam/security-credentials/"},
    [ASK_REGION] = {"GetRegion", "meta-data/placement/region"},
};

struct imds {
    struct ks_remote remote; /* First: it is our address. */
    const char *profile;
    struct ks_profiles profiles;
    enum step step;
    enum step first; /* Behind the token. */
    bool v1_allowed;
    bool v1;                        /* There is no token. */
    char base[KS_HTTP_URL_MAX + 1]; /* Without a slash at its end. */
    char role[KS_IMDS_ROLE_MAX + 1];
    char token[KS_IMDS_TOKEN_MAX + 1];
    char region[KS_REGION_MAX + 1];
    char url[KS_HTTP_URL_MAX + 256];
    struct ks_http_header header;
};

static const char WHO[] = "the instance metadata service";

/* --- Settings --- */

/* The variable, else the key of the profile. */
static ks_view setting(const char *name, ks_view key)
{
    const char *value = ks_provider_variable(name);

    return value != NULL ? ks_view_text(value) : key;
}

static bool is_true(ks_view text)
{
    return ks_view_equal_nocase(ks_view_trim(text), KS_VIEW("true"));
}

bool ks_imds_is_disabled(void)
{
    return is_true(setting("AWS_EC2_METADATA_DISABLED", KS_VIEW_NONE));
}

static ks_err find_base(struct imds *self, const struct ks_profile *profile)
{
    struct ks_detail *detail = &self->remote.provider.detail;
    ks_view base = setting("AWS_EC2_METADATA_SERVICE_ENDPOINT", profile->ec2_endpoint);
    ks_view mode = setting("AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", profile->ec2_endpoint_mode);
    struct ks_url parts;

    if (base.size == 0 && ks_view_equal_nocase(mode, KS_VIEW("IPv6")))
        base = KS_VIEW("http://[fd00:ec2::254]");
    else if (base.size == 0 && (mode.size == 0 || ks_view_equal_nocase(mode, KS_VIEW("IPv4"))))
        base = KS_VIEW("http://169.254.169.254");
    if (base.size == 0)
        return ks_err_because(KS_FAIL(INVALID), detail,
                              "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE is neither IPv4 nor IPv6");
    while (base.size > 0 && base.data[base.size - 1] == '/')
        base.size--;
    if (!ks_ok(ks_url_split(base, &parts)) || parts.query.data != NULL ||
        !ks_ok(ks_view_copy_text(base, self->base, sizeof(self->base))))
        return ks_err_because(KS_FAIL(INVALID), detail,
                              "AWS_EC2_METADATA_SERVICE_ENDPOINT is no URL like http://host:port");
    return KS_OK;
}

static ks_err read_settings(struct imds *self)
{
    ks_view text[KS_PROFILE_FILES];
    struct ks_profile_found found;

    for (size_t at = 0; at < KS_PROFILE_FILES; at++)
        text[at] = ks_bytes_view(&self->profiles.text[at]);
    KS_TRY(ks_profiles_find(text, self->profile, &found, &self->remote.provider.detail));
    self->v1_allowed = !is_true(setting("AWS_EC2_METADATA_V1_DISABLED", found.all.ec2_v1_disabled));
    return find_base(self, &found.all);
}

/* --- Requests --- */

static ks_err prepare(struct ks_remote *remote, ks_view none, struct ks_http_request *request)
{
    struct imds *self = (struct imds *)remote;
    bool asks_token = self->step == ASK_TOKEN;

    (void)none;
    remote->operation = STEPS[self->step].operation;
    snprintf(self->url, sizeof(self->url), "%s/latest/%s%s", self->base, STEPS[self->step].path,
             self->step == ASK_KEYS ? self->role : "");
    self->header = asks_token
                       ? (struct ks_http_header){KS_VIEW("x-aws-ec2-metadata-token-ttl-seconds"),
                                                 KS_VIEW(TOKEN_SECONDS)}
                       : (struct ks_http_header){KS_VIEW("x-aws-ec2-metadata-token"),
                                                 ks_view_text(self->token)};
    request->method = asks_token ? "PUT" : "GET";
    request->url = self->url;
    request->headers = &self->header;
    request->header_count = self->v1 ? 0 : 1;
    request->timeout = ks_span_ms(TIMEOUT_MS);
    request->direct = true;
    return KS_OK;
}

static ks_err go_to(struct imds *self, enum step step)
{
    self->step = step;
    self->remote.next = true;
    return KS_OK;
}

/* --- Answers --- */

static ks_err fall_back(struct imds *self)
{
    if (!self->v1_allowed)
        return ks_err_because(KS_FAIL(DENIED), &self->remote.provider.detail,
                              "%s gives no token, and its version 1 is disabled", WHO);
    self->v1 = true;
    return go_to(self, self->first);
}

static ks_err refused(struct imds *self, int status, const char *what)
{
    struct ks_failure failure;

    ks_failure_from(status, KS_VIEW_NONE, KS_VIEW_NONE, &failure);
    ks_failure_explain(&failure, WHO, what, &self->remote.provider.detail);
    return failure.err;
}

/* They go into a header or a path. */
static bool is_plain(ks_view text, const char *more)
{
    for (size_t at = 0; at < text.size; at++) {
        uint8_t byte = text.data[at];
        bool letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');

        if (!letter && !(byte >= '0' && byte <= '9') &&
            (byte == '\0' || strchr(more, byte) == NULL))
            return false;
    }
    return text.size > 0;
}

static ks_err read_token(struct imds *self, const struct ks_http_answer *answer)
{
    ks_view token = ks_view_trim(answer->body);

    if (answer->status == 403 || answer->status == 404 || answer->status == 405)
        return fall_back(self);
    if (answer->status != 200)
        return refused(self, answer->status, "token");
    if (!is_plain(token, "-._~+/=") ||
        !ks_ok(ks_view_copy_text(token, self->token, sizeof(self->token))))
        return ks_err_because(KS_FAIL(MALFORMED), &self->remote.provider.detail,
                              "the token of %s is none", WHO);
    return go_to(self, self->first);
}

static ks_err read_role(struct imds *self, const struct ks_http_answer *answer)
{
    struct ks_detail *detail = &self->remote.provider.detail;
    ks_view rest = answer->body;
    ks_view role = ks_view_trim(ks_view_cut(&rest, '\n'));

    if (answer->status == 404)
        return ks_err_because(KS_FAIL(NO_CREDENTIALS), detail, "the instance has no role");
    if (answer->status != 200)
        return refused(self, answer->status, "role");
    if (!is_plain(role, "_+=,.@-") ||
        !ks_ok(ks_view_copy_text(role, self->role, sizeof(self->role))))
        return ks_err_because(KS_FAIL(MALFORMED), detail, "the role that %s names is none", WHO);
    return go_to(self, ASK_KEYS);
}

static ks_err read_region(struct imds *self, const struct ks_http_answer *answer)
{
    ks_view region = ks_view_trim(answer->body);

    if (answer->status != 200)
        return refused(self, answer->status, "region");
    if (!ks_region_is_valid(region) ||
        !ks_ok(ks_view_copy_text(region, self->region, sizeof(self->region))))
        return ks_err_because(KS_FAIL(MALFORMED), &self->remote.provider.detail,
                              "the region that %s names is none", WHO);
    return KS_OK;
}

static ks_err read_answer(struct ks_remote *remote, const struct ks_http_answer *answer)
{
    struct imds *self = (struct imds *)remote;

    switch (self->step) {
    case ASK_TOKEN: return read_token(self, answer);
    case ASK_ROLE: return read_role(self, answer);
    case ASK_REGION: return read_region(self, answer);
    case ASK_KEYS: break;
    }
    KS_TRY(ks_keys_read_answer(&remote->provider, WHO, answer));
    remote->provider.credentials.outlasts = true;
    ks_detail_set(&remote->provider.detail, "role %s", self->role);
    return KS_OK;
}

/* Where nobody listens there is no such service. One that took the request for a token and was
 * silent may have answered into the void. */
static ks_err lost(struct ks_remote *remote, const struct ks_http_answer *answer)
{
    struct imds *self = (struct imds *)remote;

    if (self->step == ASK_TOKEN && answer->sent)
        return fall_back(self);
    return answer->sent && !self->v1 ? answer->err : KS_FAIL(NO_CREDENTIALS);
}

/* --- Life --- */

static void on_profiles(struct ks_profiles *profiles, ks_err err, const struct ks_detail *detail)
{
    struct imds *self = KS_LIST_ENTRY(profiles, struct imds, profiles);

    if (ks_ok(err))
        err = read_settings(self);
    else
        self->remote.provider.detail = *detail;
    ks_profiles_drop(profiles);
    if (!ks_ok(err)) {
        ks_provider_answer(&self->remote.provider, err);
        return;
    }
    self->step = ASK_TOKEN;
    self->v1 = false;
    ks_remote_fetch(&self->remote);
}

static void fetch(struct ks_provider *provider)
{
    struct imds *self = (struct imds *)provider;

    if (ks_imds_is_disabled())
        ks_provider_answer(provider, KS_FAIL(NO_CREDENTIALS));
    else
        ks_profiles_read(&self->profiles);
}

static void close(struct ks_provider *provider)
{
    struct imds *self = (struct imds *)provider;

    ks_profiles_drop(&self->profiles);
    ks_remote_end(&self->remote);
    explicit_bzero(self->token, sizeof(self->token));
    ks_free(self);
}

static const struct ks_provider_vtable VTABLE = {"the instance metadata service", fetch, close,
                                                 NULL};

ks_err ks_provider_imds_new(const struct ks_provider_setup *setup,
                            struct ks_provider **ret_provider)
{
    struct imds *self = ks_alloc(sizeof(*self));

    if (self == NULL)
        return KS_FAIL(NO_MEMORY);
    ks_remote_init(&self->remote, &VTABLE, "imds", setup);
    self->remote.prepare = prepare;
    self->remote.read = read_answer;
    self->remote.lost = lost;
    self->first = ASK_ROLE;
    self->profile = setup->profile;
    ks_profiles_init(&self->profiles, setup->loop);
    self->profiles.done = on_profiles;
    *ret_provider = &self->remote.provider;
    return KS_OK;
}

/* --- The region --- */

struct asked {
    bool answered;
    ks_err err;
    struct ks_detail detail;
};

static void on_fetched(void *arg, struct ks_provider *provider)
{
    struct asked *asked = arg;

    *asked = (struct asked){.answered = true, .err = provider->err, .detail = provider->detail};
}

ks_err ks_imds_region(const struct ks_provider_setup *setup, char ret_region[KS_REGION_MAX + 1],
                      struct ks_detail *detail)
{
    struct asked asked = {.answered = false};
    struct ks_provider *provider;

    KS_TRY(ks_provider_imds_new(setup, &provider));
    struct imds *self = (struct imds *)provider;
    self->first = ASK_REGION;
    provider->fetched = on_fetched;
    provider->arg = &asked;
    fetch(provider);
    /* Each of its steps ends by itself. */
    while (!asked.answered)
        ks_loop_turn(setup->loop, ks_span_ms(100));
    if (ks_ok(asked.err))
        memcpy(ret_region, self->region, sizeof(self->region));
    else
        ks_detail_set(detail, "%s", asked.detail.text);
    close(provider);
    return asked.err;
}
