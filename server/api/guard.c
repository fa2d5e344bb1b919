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

struct ks_guard {
    struct ks_loop *loop;
    char *allow_text; /* What the names point into. */
    ks_view allow[KS_ALLOW_HOSTS_MAX];
    uint32_t allow_count;

    char *token_path; /* NULL: no token is asked for. */
    struct token token;
    bool stale; /* The last reading failed; said once. */
    struct ks_timer timer;
    struct ks_job job;
    bool reading;
    bool closing;
    struct token read; /* The job's, while reading. */
    ks_err read_err;
};

/* ---- The token ---- */

/* Blocking; on the job thread, and once at start. */
static ks_err read_token(const char *path, struct token *ret_token)
{
    uint8_t buffer[KS_TOKEN_BYTES_MAX + 1];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t size;
    ks_view text;

    if (fd < 0)
        return KS_FAIL(DISK);
    size = read(fd, buffer, sizeof(buffer));
    (void)close(fd);
    if (size < 0)
        return KS_FAIL(DISK);
    text = ks_view_trim(ks_view_of(buffer, (size_t)size));
    if (text.size == 0 || (size_t)size > KS_TOKEN_BYTES_MAX)
        return KS_FAIL(FULL);
    memcpy(ret_token->text, text.data, text.size);
    ret_token->size = text.size;
    return KS_OK;
}

static void job_run(struct ks_job *job)
{
    struct ks_guard *guard = KS_LIST_ENTRY(job, struct ks_guard, job);

    guard->read_err = read_token(guard->token_path, &guard->read);
}

static void job_done(struct ks_job *job)
{
    struct ks_guard *guard = KS_LIST_ENTRY(job, struct ks_guard, job);

    guard->reading = false;
    if (guard->closing) {
        ks_guard_free(guard);
        return;
    }
    if (ks_ok(guard->read_err))
        guard->token = guard->read;
    else if (!guard->stale)
        ks_warn("token file %s: %s, keeping the token read before", guard->token_path,
                ks_err_text(guard->read_err));
    guard->stale = !ks_ok(guard->read_err);
    ks_loop_timer_set(guard->loop, &guard->timer,
                      ks_instant_add(ks_loop_now(guard->loop), ks_span_ms(KS_GUARD_REREAD_MS)));
}

static void timer_due(struct ks_timer *timer)
{
    struct ks_guard *guard = KS_LIST_ENTRY(timer, struct ks_guard, timer);

    guard->reading = true;
    ks_loop_submit(guard->loop, &guard->job);
}

static ks_err read_token_or_say(const char *path, struct token *ret_token, struct ks_detail *detail)
{
    ks_err err = read_token(path, ret_token);

    if (ks_ok(err))
        return KS_OK;
    return ks_err_because(err, detail, "--token-file %.80s: %s", path,
                          ks_err_is(err, KS_ERR_DISK) ? strerror(errno)
                                                      : "must hold a token of 1 to 4096 bytes");
}

ks_err ks_guard_check_token(const char *path, struct ks_detail *detail)
{
    struct token token;
    ks_err err = read_token_or_say(path, &token, detail);

    explicit_bzero(&token, sizeof(token));
    return err;
}

static ks_err begin_token(struct ks_guard *guard, const char *path, struct ks_detail *detail)
{
    if (path == NULL || path[0] == '\0')
        return KS_OK;
    guard->token_path = ks_strdup(path);
    if (guard->token_path == NULL)
        return KS_FAIL(NO_MEMORY);
    KS_TRY(read_token_or_say(path, &guard->token, detail));
    guard->job = (struct ks_job){.run = job_run, .done = job_done};
    guard->timer.due = timer_due;
    ks_loop_timer_set(guard->loop, &guard->timer,
                      ks_instant_add(ks_loop_now(guard->loop), ks_span_ms(KS_GUARD_REREAD_MS)));
    return KS_OK;
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
                    struct ks_guard **ret_guard, struct ks_detail *detail)
{
    struct ks_guard *guard = ks_alloc(sizeof(*guard));
    ks_err err;

    if (guard == NULL)
        return KS_FAIL(NO_MEMORY);
    guard->loop = loop;
    err = begin_allow(guard, allow_hosts, detail);
    if (ks_ok(err))
        err = begin_token(guard, token_file, detail);
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
    ks_loop_timer_clear(guard->loop, &guard->timer);
    guard->closing = true;
    /* A job that is under way comes back first: its struct is in here. */
    if (guard->reading)
        return;
    ks_free(guard->token_path);
    ks_free(guard->allow_text);
    ks_free(guard);
}

/* ---- Judging ---- */

/* "name:port" without its port; an IPv6 address without its brackets. */
static ks_view host_name(ks_view host)
{
    ks_view rest = host;
    ks_view name;

    if (host.size > 0 && host.data[0] == '[') {
        rest = ks_view_of(host.data + 1, host.size - 1);
        name = ks_view_cut(&rest, ']');
        return rest.data == NULL ? KS_VIEW_NONE : name;
    }
    return ks_view_cut(&rest, ':');
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

static bool token_is_right(const struct ks_guard *guard, ks_view authorization)
{
    ks_view rest = authorization;
    ks_view scheme = ks_view_cut(&rest, ' ');
    ks_view token = ks_view_trim(rest);

    if (rest.data == NULL || !ks_view_equal_nocase(scheme, KS_VIEW("bearer")))
        return false;
    return token.size == guard->token.size &&
           ks_equal_secret(token.data, guard->token.text, token.size);
}

/* The dashboard holds no data, and a browser that goes to a page can say no token: the page asks for
 * it, and says it in its own requests. */
static bool wants_token(const struct ks_guard *guard, const struct ks_request *request)
{
    return guard->token_path != NULL &&
           !(request->method == KS_METHOD_GET && ks_view_equal(request->target, KS_VIEW("/")));
}

bool ks_guard_admits(const struct ks_guard *guard, const struct ks_request *request,
                     enum ks_problem *ret_problem, struct ks_detail *detail)
{
    *ret_problem = KS_PROBLEM_PERMISSION_DENIED;
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
    if (wants_token(guard, request) && !token_is_right(guard, request->authorization)) {
        *ret_problem = KS_PROBLEM_UNAUTHENTICATED;
        ks_detail_set(detail, "the header Authorization: Bearer with the token of --token-file is "
                              "missing or wrong");
        return false;
    }
    return true;
}
