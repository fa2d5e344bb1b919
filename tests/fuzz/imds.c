/* SPDX-License-Identifier: Apache-2.0 */
/* imds.c - any bytes as the texts of the instance metadata service: a token, a role, its keys, a region. This file is
 * HTTP: an answer ends at a byte of 0xFF, one that begins with '!' is a 404, with '?' a 405. What goes into a header or
 * a path is none of its lines, credentials are whole or there are none, and nothing is kept.
 */
#include "aws/credentials/imds.h"

#include "aws/credentials/provider.h"
#include "aws/http.h"
#include "aws/retry.h"
#include "base/budget.h"
#include "base/prng.h"

#include <assert.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct ks_loop *loop;
static ks_view rest;

/* --- HTTP --- */

struct ks_http_call {
    struct ks_http_request request;
    struct ks_timer timer;
    bool open;
};

static struct ks_http_call call;

static void answer_due(struct ks_timer *timer)
{
    struct ks_http_answer answer = {.status = 200, .sent = true, .body = KS_VIEW("")};

    (void)timer;
    if (rest.data == NULL) {
        answer = (struct ks_http_answer){.err = KS_FAIL(CONNECTION)};
    } else {
        answer.body = ks_view_cut(&rest, 0xFF);
        if (answer.body.size > 0 && (answer.body.data[0] == '!' || answer.body.data[0] == '?'))
            answer.status = answer.body.data[0] == '!' ? 404 : 405;
    }
    call.open = false;
    call.request.done(call.request.arg, &answer);
}

static void expect_line(ks_view text)
{
    for (size_t at = 0; at < text.size; at++)
        assert(text.data[at] > ' ' && text.data[at] < 0x7F);
}

ks_err ks_http_send(struct ks_http *http, const struct ks_http_request *request,
                    struct ks_http_call **ret_call)
{
    (void)http;
    assert(!call.open);
    expect_line(ks_view_text(request->url));
    for (uint32_t at = 0; at < request->header_count; at++)
        expect_line(request->headers[at].value);
    call = (struct ks_http_call){.request = *request, .timer.due = answer_due, .open = true};
    ks_loop_timer_set(loop, &call.timer, ks_loop_now(loop));
    *ret_call = &call;
    return KS_OK;
}

void ks_http_cancel(struct ks_http_call *of)
{
    ks_loop_timer_clear(loop, &of->timer);
    of->open = false;
}

/* --- Retries, without their waits --- */

void ks_retry_bucket_init(struct ks_retry_bucket *bucket)
{
    *bucket = (struct ks_retry_bucket){KS_RETRY_TOKENS_MAX};
}

bool ks_retry_again(struct ks_retry *retry, struct ks_retry_bucket *bucket, struct ks_prng *prng,
                    const struct ks_retry_limits *limits, const struct ks_retry_failure *failure,
                    ks_span *ret_wait)
{
    (void)bucket;
    (void)prng;
    *ret_wait = ks_span_ms(0);
    return ks_err_class(failure->err) == KS_CLASS_RETRY && ++retry->retries < limits->attempts_max;
}

void ks_retry_succeeded(const struct ks_retry *retry, struct ks_retry_bucket *bucket)
{
    (void)retry;
    (void)bucket;
}

/* --- Who asks --- */

static void on_fetched(void *arg, struct ks_provider *provider)
{
    bool *fetched = arg;

    *fetched = true;
    assert(!ks_ok(provider->err) || provider->credentials.access_key[0] != '\0');
    assert(!ks_ok(provider->err) || provider->credentials.secret_key[0] != '\0');
    assert(ks_view_is_utf8(ks_view_text(provider->detail.text)));
}

static void ask_keys(const struct ks_provider_setup *setup)
{
    struct ks_provider *provider = NULL;
    bool fetched = false;

    if (!ks_ok(ks_provider_imds_new(setup, &provider)))
        abort();
    provider->fetched = on_fetched;
    provider->arg = &fetched;
    provider->vtable->fetch(provider);
    while (!fetched)
        ks_loop_turn(loop, ks_span_ms(1000));
    provider->vtable->close(provider);
}

static void ask_region(const struct ks_provider_setup *setup)
{
    char region[KS_REGION_MAX + 1] = "";
    struct ks_detail detail = {""};

    if (ks_ok(ks_imds_region(setup, region, &detail)))
        assert(ks_region_is_valid(ks_view_text(region)));
    else
        assert(ks_view_is_utf8(ks_view_text(detail.text)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ks_prng prng;
    struct ks_provider_setup setup = {.prng = &prng, .profile = "default"};

    if (loop == NULL) {
        if (!ks_ok(ks_loop_new(&loop)) || setenv("AWS_CONFIG_FILE", "/dev/null", 1) != 0 ||
            setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null", 1) != 0)
            abort();
    }
    setup.loop = loop;
    int64_t live = ks_alloc_live();
    ks_prng_init(&prng, 1);
    rest = ks_view_of(data, size);
    ask_keys(&setup);
    rest = ks_view_of(data, size);
    ask_region(&setup);
    assert(!call.open);
    assert(ks_alloc_live() == live);
    return 0;
}
