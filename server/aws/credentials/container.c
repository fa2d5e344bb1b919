/* SPDX-License-Identifier: Apache-2.0 */
/* The container endpoint (ECS task roles, EKS Pod Identity). AWS_CONTAINER_CREDENTIALS_RELATIVE_URI
 * on 169.254.170.2 wins over AWS_CONTAINER_CREDENTIALS_FULL_URI;
 * AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE over AWS_CONTAINER_AUTHORIZATION_TOKEN. Source: botocore
 * credentials.py and utils.py. */
#include "aws/credentials/keys_json.h"
#include "aws/credentials/remote.h"
#include "aws/endpoint.h"
#include "base/budget.h"

#include <arpa/inet.h>
#include <stdio.h>

enum { TIMEOUT_MS = 2000 };

struct container {
    struct ks_remote remote; /* First: it is our address. */
    char url[KS_HTTP_URL_MAX + 1];
    char token[KS_TOKEN_FILE_MAX + 1];
    struct ks_http_header headers[2];
};

/* Hosts that plain HTTP may go to: a loopback address, and the link-local ones of ECS and EKS. */
static bool is_allowed(const struct ks_url *url)
{
    static const char *const ALLOWED[] = {"169.254.170.2", "169.254.170.23", "fd00:ec2::23", "::1"};
    char host[KS_HOST_MAX + 1];
    uint8_t address[16];
    uint8_t allowed[16];
    int family = url->ipv6 ? AF_INET6 : AF_INET;

    if (url->https || ks_view_equal_nocase(url->host, KS_VIEW("localhost")))
        return true;
    if (!ks_ok(ks_view_copy_text(url->host, host, sizeof(host))) ||
        inet_pton(family, host, address) != 1)
        return false;
    if (!url->ipv6 && address[0] == 127)
        return true;
    for (size_t at = 0; at < sizeof(ALLOWED) / sizeof(ALLOWED[0]); at++) {
        if (inet_pton(family, ALLOWED[at], allowed) == 1 &&
            memcmp(address, allowed, url->ipv6 ? 16 : 4) == 0)
            return true;
    }
    return false;
}

/* False if neither variable is set. */
static bool find_url(char url[KS_HTTP_URL_MAX + 1])
{
    const char *relative = ks_provider_variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    const char *full = ks_provider_variable("AWS_CONTAINER_CREDENTIALS_FULL_URI");

    /* What is too long is cut, but not to something that ks_url_split takes for shorter: it is
     * refused below. */
    if (relative != NULL)
        snprintf(url, KS_HTTP_URL_MAX + 1, "http://169.254.170.2%s%s",
                 relative[0] == '/' ? "" : "/", relative);
    else if (full != NULL)
        snprintf(url, KS_HTTP_URL_MAX + 1, "%s", full);
    return relative != NULL || full != NULL;
}

static ks_err check_url(const char *url, struct ks_detail *detail)
{
    struct ks_url parts;

    if (strlen(url) >= KS_HTTP_URL_MAX || !ks_ok(ks_url_split(ks_view_text(url), &parts))) {
        ks_detail_set(detail, "the container credentials URI is no URL");
        return KS_FAIL(INVALID);
    }
    if (!is_allowed(&parts)) {
        ks_detail_set(
            detail,
            "AWS_CONTAINER_CREDENTIALS_FULL_URI: plain http goes only to loopback, 169.254.170.2, "
            "169.254.170.23 and [fd00:ec2::23], not to %.*s",
            (int)parts.host.size, (const char *)parts.host.data);
        return KS_FAIL(INVALID);
    }
    return KS_OK;
}

static ks_err prepare(struct ks_remote *remote, ks_view token, struct ks_http_request *request)
{
    struct container *self = (struct container *)remote;
    const char *direct = ks_provider_variable("AWS_CONTAINER_AUTHORIZATION_TOKEN");

    if (remote->token_path == NULL && direct != NULL)
        token = ks_view_text(direct);
    /* It goes into a header: a line end in it would begin another one. */
    if (!ks_ok(ks_view_copy_text(token, self->token, sizeof(self->token))) ||
        strpbrk(self->token, "\r\n") != NULL) {
        ks_detail_set(&remote->provider.detail,
                      "the container authorization token holds a line end or a NUL");
        return KS_FAIL(INVALID);
    }
    self->headers[0] = (struct ks_http_header){KS_VIEW("Accept"), KS_VIEW("application/json")};
    self->headers[1] = (struct ks_http_header){KS_VIEW("Authorization"), ks_view_text(self->token)};
    request->method = "GET";
    request->url = self->url;
    request->headers = self->headers;
    request->header_count = token.size == 0 ? 1 : 2;
    request->timeout = ks_span_ms(TIMEOUT_MS);
    request->direct = true;
    return KS_OK;
}

static ks_err read_answer(struct ks_remote *remote, const struct ks_http_answer *answer)
{
    return ks_keys_read_answer(&remote->provider, "the container endpoint", answer);
}

static void fetch(struct ks_provider *provider)
{
    struct container *self = (struct container *)provider;
    ks_err err = KS_FAIL(NO_CREDENTIALS);

    if (find_url(self->url))
        err = check_url(self->url, &provider->detail);
    if (!ks_ok(err)) {
        ks_provider_answer(provider, err);
        return;
    }
    self->remote.token_path = ks_provider_variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
    ks_remote_fetch(&self->remote);
}

static void close(struct ks_provider *provider)
{
    struct container *self = (struct container *)provider;

    ks_remote_end(&self->remote);
    explicit_bzero(self->token, sizeof(self->token));
    ks_free(self);
}

static const struct ks_provider_vtable VTABLE = {"the container endpoint", fetch, close, NULL};

ks_err ks_provider_container_new(const struct ks_provider_setup *setup,
                                 struct ks_provider **ret_provider)
{
    struct container *self = ks_alloc(sizeof(*self));

    if (self == NULL)
        return KS_FAIL(NO_MEMORY);
    ks_remote_init(&self->remote, &VTABLE, "container", setup);
    self->remote.operation = "GetCredentials";
    self->remote.prepare = prepare;
    self->remote.read = read_answer;
    *ret_provider = &self->remote.provider;
    return KS_OK;
}
