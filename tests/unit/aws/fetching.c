/* SPDX-License-Identifier: Apache-2.0 */
#include "fetching.h"

#include "ks_test.h"

#include "base/budget.h"

#include <stdio.h>

struct told {
    bool told;
    struct fetched fetched;
};

static void on_done(void *arg, const struct ks_http_answer *answer)
{
    struct told *told = arg;

    told->told = true;
    told->fetched.err = answer->err;
    told->fetched.detail = answer->detail;
    told->fetched.status = answer->status;
    told->fetched.sent = answer->sent;
    snprintf(told->fetched.body, sizeof(told->fetched.body), "%.*s", (int)answer->body.size,
             (const char *)answer->body.data);
}

struct fetched fetch_as(const struct ks_http_options *options, const char *url,
                        struct ks_http_request request)
{
    const struct ks_http_header header = {KS_VIEW("Authorization"), KS_VIEW("signature")};
    struct told told = {.told = false};
    int64_t live = ks_alloc_live();
    struct ks_loop *loop;
    struct ks_http *http;
    struct ks_http_call *call;

    request.method = "POST";
    request.url = url;
    request.headers = &header;
    request.header_count = 1;
    request.body = KS_VIEW("question");
    request.timeout = ks_span_ms(10000);
    request.response_max = 1 << 20;
    request.done = on_done;
    request.arg = &told;
    EXPECT_OK(ks_loop_new(&loop));
    EXPECT_OK(ks_http_new(loop, options, &http, NULL));
    EXPECT_OK(ks_http_send(http, &request, &call));
    while (!told.told)
        ks_loop_turn(loop, ks_span_ms(50));
    ks_http_free(http);
    ks_loop_free(loop);
    EXPECT_EQ_I64(ks_alloc_live(), live);
    return told.fetched;
}

struct fetched fetch(const struct ks_http_options *options, const char *url)
{
    return fetch_as(options, url, (struct ks_http_request){.method = NULL});
}
