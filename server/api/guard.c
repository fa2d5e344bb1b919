/* SPDX-License-Identifier: Apache-2.0 */
#include "api/guard.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/address.h"
#include "base/budget.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/options.h"

struct token {
    uint8_t text[KS_TOKEN_BYTES_MAX];
    size_t size;
};

/* A file with a token, and its reading. */
struct token_file {
    struct ks_guard *guard;
    char *path; /* NULL: no token is asked for. */
    struct token token;
    bool stale; /* The last reading failed; said once. */
    struct ks_timer timer;
    struct ks_job job;
    bool reading;
    struct token read; /* The job's, while reading. */
    ks_err read_err;
};

struct ks_guard {
    struct ks_loop *loop;
    char *allow_text; /* What the names point into. */
    ks_view allow[KS_ALLOW_HOSTS_MAX];
    uint32_t allow_count;
    struct token_file app;
    struct token_file operator;
    bool closing;
};

/* ---- The tokens ---- */

/* Blocking; on the job thread, and once at start. */
static ks_err read_token(const char *path, struct token *ret_token)
{
    uint8_t buffer[KS_TOKEN_BYTES_MAX + 1];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t size;
    ks_view text;
    bool fits;

    if (fd < 0)
        return KS_FAIL(DISK);
    size = read(fd, buffer, sizeof(buffer));
    (void)close(fd);
    if (size < 0)
        return KS_FAIL(DISK);
    text = ks_view_trim(ks_view_of(buffer, (size_t)size));
    fits = text.size > 0 && (size_t)size <= KS_TOKEN_BYTES_MAX;
    if (fits) {
        memcpy(ret_token->text, text.data, text.size);
        ret_token->size = text.size;
    }
    explicit_bzero(buffer, sizeof(buffer));
    return fits ? KS_OK : KS_FAIL(FULL);
}

static void job_run(struct ks_job *job)
{
    struct token_file *file = KS_LIST_ENTRY(job, struct token_file, job);

    file->read_err = read_token(file->path, &file->read);
}

static void read_soon(struct token_file *file)
{
    struct ks_loop *loop = file->guard->loop;

    ks_loop_timer_set(loop, &file->timer,
                      ks_instant_add(ks_loop_now(loop), ks_span_ms(KS_GUARD_REREAD_MS)));
}

static void job_done(struct ks_job *job)
{
    struct token_file *file = KS_LIST_ENTRY(job, struct token_file, job);

    file->reading = false;
    if (file->guard->closing) {
        ks_guard_free(file->guard);
        return;
    }
    if (ks_ok(file->read_err))
        file->token = file->read;
    else if (!file->stale)
        ks_warn("token file %s: %s, keeping the token read before", file->path,
                ks_err_text(file->read_err));
    explicit_bzero(&file->read, sizeof(file->read));
    file->stale = !ks_ok(file->read_err);
    read_soon(file);
}

static void timer_due(struct ks_timer *timer)
{
    struct token_file *file = KS_LIST_ENTRY(timer, struct token_file, timer);

    file->reading = true;
    ks_loop_submit(file->guard->loop, &file->job);
}

static ks_err read_token_or_say(const char *option, const char *path, struct token *ret_token,
                                struct ks_detail *detail)
{
    ks_err err = read_token(path, ret_token);

    if (ks_ok(err))
        return KS_OK;
    return ks_err_because(err, detail, "%s %.80s: %s", option, path,
                          ks_err_is(err, KS_ERR_DISK) ? strerror(errno)
                                                      : "must hold a token of 1 to 4096 bytes");
}

ks_err ks_guard_check_token(const char *option, const char *path, struct ks_detail *detail)
{
    struct token token;
    ks_err err = read_token_or_say(option, path, &token, detail);

    explicit_bzero(&token, sizeof(token));
    return err;
}

static ks_err begin_token(struct ks_guard *guard, struct token_file *file, const char *option,
                          const char *path, struct ks_detail *detail)
{
    if (path == NULL || path[0] == '\0')
        return KS_OK;
    file->guard = guard;
    file->path = ks_strdup(path);
    if (file->path == NULL)
        return KS_FAIL(NO_MEMORY);
    KS_TRY(read_token_or_say(option, path, &file->token, detail));
    file->job = (struct ks_job){.run = job_run, .done = job_done};
    file->timer.due = timer_due;
    read_soon(file);
    return KS_OK;
}

static void end_token(struct token_file *file)
{
    ks_free(file->path);
    explicit_bzero(&file->token, sizeof(file->token));
    explicit_bzero(&file->read, sizeof(file->read));
}

/* ---- Life ---- */

static ks_err begin_allow(struct ks_guard *guard, const char *hosts, struct ks_detail *detail)
{
    ks_view rest;

    if (hosts == NULL)
        return KS_OK;
    guard->allow_text = ks_strdup(hosts);
    if (guard->allow_text == NULL)
        return KS_FAIL(NO_MEMORY);
    rest = ks_view_text(guard->allow_text);
    while (rest.data != NULL) {
        ks_view host = ks_view_trim(ks_view_cut(&rest, ','));
        if (host.size == 0)
            continue;
        if (guard->allow_count == KS_ALLOW_HOSTS_MAX) {
            ks_detail_set(detail, "--allow-host: more than %d names", KS_ALLOW_HOSTS_MAX);
            return KS_FAIL(INVALID);
        }
        guard->allow[guard->allow_count++] = host;
    }
    return KS_OK;
}

ks_err ks_guard_new(struct ks_loop *loop, const char *allow_hosts, const char *token_file,
                    const char *operator_token_file, struct ks_guard **ret_guard,
                    struct ks_detail *detail)
{
    struct ks_guard *guard = ks_alloc(sizeof(*guard));
    ks_err err;

    if (guard == NULL)
        return KS_FAIL(NO_MEMORY);
    guard->loop = loop;
    err = begin_allow(guard, allow_hosts, detail);
    if (ks_ok(err))
        err = begin_token(guard, &guard->app, "--token-file", token_file, detail);
    if (ks_ok(err))
        err = begin_token(guard, &guard->operator, "--operator-token-file", operator_token_file,
                          detail);
    if (!ks_ok(err)) {
        ks_guard_free(guard);
        return err;
    }
    *ret_guard = guard;
    return KS_OK;
}

void ks_guard_free(struct ks_guard *guard)
{
    if (guard == NULL)
        return;
    ks_loop_timer_clear(guard->loop, &guard->app.timer);
    ks_loop_timer_clear(guard->loop, &guard->operator.timer);
    guard->closing = true;
    /* Jobs that are under way come back first: their structs are in here. */
    if (guard->app.reading || guard->operator.reading)
        return;
    end_token(&guard->app);
    end_token(&guard->operator);
    ks_free(guard->allow_text);
    ks_free(guard);
}

/* ---- Judging ---- */

/* What stands behind a host: nothing, or a colon and a port, which may be empty (RFC 3986, section 3.2.3). */
static bool is_port(ks_view rest)
{
    uint64_t port;

    if (rest.size == 0)
        return true;
    if (rest.data[0] != ':')
        return false;
    rest = ks_view_of(rest.data + 1, rest.size - 1);
    return rest.size == 0 || (rest.size <= 5 && ks_ok(ks_view_u64(rest, &port)) && port <= 65535);
}

/* "name:port" without its port; an IPv6 address without its brackets. NONE if it is neither. */
static ks_view host_name(ks_view host)
{
    bool bracket = host.size > 0 && host.data[0] == '[';
    ks_view rest = bracket ? ks_view_of(host.data + 1, host.size - 1) : host;
    ks_view name = ks_view_cut(&rest, bracket ? ']' : ':');

    if (bracket)
        return rest.data != NULL && is_port(rest) && ks_is_ipv6(name) ? name : KS_VIEW_NONE;
    /* The colon was cut off. */
    if (rest.data != NULL)
        rest = ks_view_of(rest.data - 1, rest.size + 1);
    return is_port(rest) ? name : KS_VIEW_NONE;
}

static bool is_allowed(const struct ks_guard *guard, ks_view name)
{
    for (uint32_t i = 0; i < guard->allow_count; i++)
        if (ks_view_equal_nocase(guard->allow[i], name))
            return true;
    return false;
}

static bool host_is_ours(const struct ks_guard *guard, ks_view host)
{
    ks_view name = host_name(host);

    return ks_view_equal_nocase(name, KS_VIEW("localhost")) || ks_is_loopback(name) ||
           is_allowed(guard, name);
}

static bool has_end(ks_view name, ks_view end)
{
    return name.size > end.size &&
           ks_view_equal_nocase(ks_view_of(name.data + name.size - end.size, end.size), end);
}

/* A name that a page of the web can have made to point here has a dot and is no service of the cluster's. */
static bool host_is_for_ops(const struct ks_guard *guard, ks_view host)
{
    ks_view name = host_name(host);

    if (name.size == 0)
        return false;
    return memchr(name.data, '.', name.size) == NULL || ks_is_address(name) ||
           has_end(name, KS_VIEW(".svc")) || has_end(name, KS_VIEW(".svc.cluster.local")) ||
           is_allowed(guard, name);
}

/* An origin is ours if it is the one that the request went to, or a host that was allowed by
 * option. Another port of this machine is another site: whoever serves it is not us. */
static bool origin_is_ours(const struct ks_guard *guard, const struct ks_request *request)
{
    ks_view origin = request->origin;

    if (ks_view_starts(origin, KS_VIEW("http://")))
        origin = ks_view_of(origin.data + 7, origin.size - 7);
    else if (ks_view_starts(origin, KS_VIEW("https://")))
        origin = ks_view_of(origin.data + 8, origin.size - 8);
    else
        return false;
    return ks_view_equal_nocase(origin, request->host) || is_allowed(guard, host_name(origin));
}

static bool site_is_ours(ks_view site)
{
    return ks_view_equal_nocase(site, KS_VIEW("same-origin")) ||
           ks_view_equal_nocase(site, KS_VIEW("none"));
}

static bool token_is(const struct token_file *file, ks_view authorization)
{
    ks_view rest = authorization;
    ks_view scheme = ks_view_cut(&rest, ' ');
    ks_view token = ks_view_trim(rest);

    if (file->path == NULL || rest.data == NULL || !ks_view_equal_nocase(scheme, KS_VIEW("bearer")))
        return false;
    return token.size == file->token.size &&
           ks_equal_secret(token.data, file->token.text, token.size);
}

/* The dashboard holds no data, and a browser that goes to a page can say no token: the page asks for
 * it, and says it in its own requests. */
static bool wants_token(const struct ks_guard *guard, const struct ks_request *request)
{
    return guard->app.path != NULL &&
           !(request->method == KS_METHOD_GET && ks_view_equal(request->target, KS_VIEW("/")));
}

static bool admits_ops(const struct ks_guard *guard, const struct ks_request *request,
                       struct ks_detail *detail)
{
    /* HTTP/1.0 and a probe by gRPC may name none; a browser always does. */
    if (request->peer != KS_PEER_TCP || request->host.data == NULL ||
        host_is_for_ops(guard, request->host))
        return true;
    ks_detail_set(
        detail,
        "Host \"%.*s\" is no address, no name without a dot, and no service of a cluster; "
        "allow it with --allow-host",
        (int)(request->host.size < 60 ? request->host.size : 60), (const char *)request->host.data);
    return false;
}

/* What a log line names as the source of an order. */
static const char *authority_of(const struct ks_guard *guard, const struct ks_request *request)
{
    if (token_is(&guard->operator, request->authorization))
        return "the operator's token";
    if (token_is(&guard->app, request->authorization))
        return "the token of apps";
    return request->peer == KS_PEER_UNIX ? "no token, over a Unix socket" : "no token, over TCP";
}

bool ks_guard_admits(const struct ks_guard *guard, struct ks_request *request,
                     enum ks_problem *ret_problem, struct ks_detail *detail)
{
    *ret_problem = KS_PROBLEM_PERMISSION_DENIED;
    if (request->ops)
        return admits_ops(guard, request, detail);
    /* No browser reaches a Unix socket, and curl's Host header means nothing there. */
    if (request->peer == KS_PEER_TCP && !host_is_ours(guard, request->host)) {
        ks_detail_set(detail, "Host \"%.*s\" is not this machine; allow it with --allow-host",
                      (int)(request->host.size < 60 ? request->host.size : 60),
                      request->host.size == 0 ? "" : (const char *)request->host.data);
        return false;
    }
    if (request->origin.data != NULL && !origin_is_ours(guard, request)) {
        ks_detail_set(detail, "requests of another Origin are refused; allow its host with "
                              "--allow-host");
        return false;
    }
    if (request->fetch_site.data != NULL && request->origin.data == NULL &&
        !site_is_ours(request->fetch_site)) {
        ks_detail_set(detail, "requests of another site (Sec-Fetch-Site) are refused");
        return false;
    }
    request->authority = authority_of(guard, request);
    request->may_order =
        guard->operator.path == NULL || token_is(&guard->operator, request->authorization);
    if (!wants_token(guard, request) || token_is(&guard->app, request->authorization) ||
        token_is(&guard->operator, request->authorization))
        return true;
    *ret_problem = KS_PROBLEM_UNAUTHENTICATED;
    ks_detail_set(detail, "the header Authorization: Bearer with the token of --token-file is "
                          "missing or wrong");
    return false;
}
