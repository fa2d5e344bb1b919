/* SPDX-License-Identifier: Apache-2.0 */
/* GET /v1/config: every option, redacted, and where its value comes from; of one subscription, or of the process. */
#include "base/json_writer.h"
#include "api/message.h"
#include "api/routes.h"
#include "api/server.h"
#include "base/options.h"

static void write_option(struct ks_writer *json, const struct ks_options *options,
                         enum ks_option option)
{
    struct ks_option_view view;
    uint64_t number;

    ks_option_show(options, option, &view);
    ks_writer_open(json, '{');
    ks_writer_key(json, "name");
    ks_writer_string(json, view.name);
    ks_writer_key(json, "value");
    if (view.number && ks_ok(ks_view_u64(ks_view_text(view.value), &number)))
        ks_writer_u64(json, number);
    else
        ks_writer_string(json, view.value);
    ks_writer_key(json, "source");
    ks_writer_string(json, view.source);
    ks_writer_key(json, "flag");
    ks_writer_string(json, view.flag);
    ks_writer_key(json, "environment");
    ks_writer_string(json, view.environment);
    ks_writer_key(json, "sentence");
    ks_writer_string(json, view.sentence);
    ks_writer_close(json, '}');
}

static const struct ks_options *options_of(const struct ks_exchange *exchange)
{
    const struct ks_api *api = exchange->api;

    if (api->options == NULL || exchange->subscription == NULL)
        return api->options;
    return ks_options_subscription(api->options,
                                   (uint32_t)(exchange->subscription - api->subscriptions));
}

void ks_handle_config(struct ks_exchange *exchange)
{
    const struct ks_options *options = options_of(exchange);
    struct ks_bytes body;
    struct ks_writer json;

    ks_bytes_init(&body, KS_ANSWER_BYTES_MAX);
    ks_writer_begin(&json, &body);
    ks_writer_open(&json, '{');
    ks_writer_key(&json, "options");
    ks_writer_open(&json, '[');
    for (int i = 0; i < KS_OPTIONS && options != NULL; i++)
        write_option(&json, options, (enum ks_option)i);
    ks_writer_close(&json, ']');
    ks_writer_close(&json, '}');
    ks_writer_line(&json);
    if (ks_ok(ks_writer_end(&json)))
        ks_exchange_reply(exchange, 200, KS_TYPE_JSON, &body);
    else
        ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED, "out of memory");
    ks_bytes_free(&body);
}
