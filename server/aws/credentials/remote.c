/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/credentials/remote.h"

#include "aws/traffic.h"

#include <stddef.h>

/* Of botocore's container provider, whose waits are a second each. The least wait lets an endpoint that restarts come
 * back: three attempts are 750 ms apart at least. */
enum { ATTEMPTS_MAX = 3, FIRST_MS = 1000, LEAST_MS = 250 };

static void begin(struct ks_remote *remote);

static void on_due(struct ks_timer *timer)
{
    begin(KS_LIST_ENTRY(timer, struct ks_remote, again));
}

static bool may_retry(struct ks_remote *remote, ks_err err, ks_span *ret_wait)
{
    static const struct ks_retry_limits LIMITS = {.mode = KS_RETRY_ANY,
                                                  .attempts_max = ATTEMPTS_MAX,
                                                  .first_ms = FIRST_MS,
                                                  .least_ms = LEAST_MS,
                                                  .left = {INT64_MAX}};
    const struct ks_retry_failure failure = {
        .err = err, .throttled = ks_err_is(err, KS_ERR_THROTTLED), .retry_after_ms = -1};

    return ks_retry_again(&remote->retry, &remote->bucket, remote->prng, &LIMITS, &failure,
                          ret_wait);
}

static void succeed(struct ks_remote *remote)
{
    ks_retry_succeeded(&remote->retry, &remote->bucket);
    if (!remote->next) {
        ks_provider_answer(&remote->provider, KS_OK);
        return;
    }
    remote->next = false;
    remote->retry = (struct ks_retry){0};
    begin(remote);
}

/* One attempt is over. */
static void finish(struct ks_remote *remote, ks_err err)
{
    struct ks_loop *loop = remote->provider.loop;
    ks_span wait;

    if (ks_ok(err)) {
        succeed(remote);
        return;
    }
    /* That nobody is there is no failure. */
    if (!ks_err_is(err, KS_ERR_NO_CREDENTIALS))
        ks_traffic_failed(remote->service, err);
    if (!may_retry(remote, err, &wait)) {
        ks_provider_answer(&remote->provider, err);
        return;
    }
    ks_traffic_again(remote->service, remote->operation);
    ks_loop_timer_set(loop, &remote->again, ks_instant_add(ks_loop_now(loop), wait));
}

static void on_answer(void *arg, const struct ks_http_answer *answer)
{
    struct ks_remote *remote = arg;
    ks_err err = answer->err;

    remote->call = NULL;
    ks_traffic_answered(remote->service, remote->operation,
                        ks_instant_since(ks_loop_now(remote->provider.loop), remote->asked_at),
                        answer->received);
    if (ks_ok(err)) {
        err = remote->read(remote, answer);
    } else {
        ks_detail_set(&remote->provider.detail, "%s: %s", remote->provider.vtable->name,
                      answer->detail.text);
        err = remote->lost == NULL ? err : remote->lost(remote, answer);
    }
    finish(remote, err);
}

static void send(struct ks_remote *remote, ks_view token)
{
    struct ks_http_request request = {.done = on_answer,
                                      .arg = remote,
                                      .secret = true,
                                      .response_max = KS_CREDENTIALS_ANSWER_MAX};
    ks_err err = remote->prepare(remote, token, &request);

    if (ks_ok(err)) {
        err = ks_http_send(remote->http, &request, &remote->call);
        if (!ks_ok(err))
            ks_detail_set(&remote->provider.detail, "%s cannot be asked: %s",
                          remote->provider.vtable->name, ks_err_text(err));
    }
    if (!ks_ok(err)) {
        finish(remote, err);
        return;
    }
    remote->asked_at = ks_loop_now(remote->provider.loop);
    ks_traffic_sent(remote->service, remote->operation, request.body.size);
}

static void refuse_token(struct ks_remote *remote, ks_err err)
{
    ks_detail_set(&remote->provider.detail, "the token file %s cannot be read: %s",
                  remote->token_path, ks_err_text(err));
    finish(remote, err);
}

static void on_token(void *arg, ks_err err, ks_view content)
{
    struct ks_remote *remote = arg;

    remote->file = NULL;
    if (!ks_ok(err)) {
        refuse_token(remote, err);
        return;
    }
    send(remote, content);
}

static void begin(struct ks_remote *remote)
{
    ks_err err;

    remote->provider.detail = (struct ks_detail){.text = ""};
    if (remote->token_path == NULL) {
        send(remote, KS_VIEW_NONE);
        return;
    }
    err = ks_file_read(remote->provider.loop, remote->token_path, KS_TOKEN_FILE_MAX, on_token,
                       remote, &remote->file);
    if (!ks_ok(err))
        refuse_token(remote, err);
}

void ks_remote_init(struct ks_remote *remote, const struct ks_provider_vtable *vtable,
                    const char *service, const struct ks_provider_setup *setup)
{
    ks_provider_init(&remote->provider, vtable, setup->loop);
    remote->service = service;
    remote->http = setup->http;
    remote->prng = setup->prng;
    ks_retry_bucket_init(&remote->bucket);
    remote->again.due = on_due;
}

void ks_remote_fetch(struct ks_remote *remote)
{
    remote->retry = (struct ks_retry){0};
    remote->next = false;
    begin(remote);
}

void ks_remote_end(struct ks_remote *remote)
{
    if (remote->file != NULL)
        ks_file_forget(remote->file);
    if (remote->call != NULL)
        ks_http_cancel(remote->call);
    ks_loop_timer_clear(remote->provider.loop, &remote->again);
    ks_provider_end(&remote->provider);
}
