/* SPDX-License-Identifier: Apache-2.0 */
/* The attempts are tested with the providers that make them; here is what ends them early. */
#include "aws/credentials/remote.h"

#include "ks_test.h"

#include "asking.h"
#include "http_script.h"

#include <stdlib.h>

static void open_container(struct asking *asking, const struct http_script *script)
{
    asking_open(asking);
    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", http_script_url(script), 1);
    setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", asking_file("token", "t"), 1);
    EXPECT_OK(ks_provider_container_new(&asking->setup, &asking->provider));
    asking->provider->vtable->fetch(asking->provider);
}

TEST(closing_ends_what_is_under_way)
{
    static const struct http_step steps[] = {{.status = 503}, {.silent = true}};
    struct http_script *script = http_script_start(steps, 2);
    struct asking asking;

    /* While it waits between two attempts. */
    open_container(&asking, script);
    while (http_script_count(script) < 1)
        ks_loop_turn(asking.loop, ks_span_ms(5));
    for (int i = 0; i < 10; i++)
        ks_loop_turn(asking.loop, ks_span_ms(5));
    asking_close(&asking);
    EXPECT_EQ_I64(asking.answers, 0);

    /* While it waits for the answer. */
    open_container(&asking, script);
    while (http_script_count(script) < 2)
        ks_loop_turn(asking.loop, ks_span_ms(5));
    asking_close(&asking);
    EXPECT_EQ_I64(asking.answers, 0);
    http_script_stop(script);
}
