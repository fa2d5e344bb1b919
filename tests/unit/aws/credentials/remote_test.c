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

static struct ks_remote *remote_of(struct asking *asking)
{
    return (struct ks_remote *)(void *)asking->provider;
}

static void turn_until_waiting(struct asking *asking)
{
    while (remote_of(asking)->again.place == 0)
        ks_loop_turn(asking->loop, ks_span_ms(5));
}

static void hurry(struct asking *asking)
{
    ks_loop_timer_set(asking->loop, &remote_of(asking)->again, ks_loop_now(asking->loop));
    ks_loop_turn(asking->loop, ks_span_ms(0));
}

/* A fleet whose endpoint failed does not come back in step. */
TEST(waits_between_attempts_are_by_chance_doubled_and_have_a_least)
{
    static const struct http_step steps[] = {{.status = 503}};
    struct http_script *script = http_script_start(steps, 1);

    for (uint64_t seed = 1; seed <= 10; seed++) {
        struct asking asking;
        struct ks_prng same;

        ks_prng_init(&same, seed);
        open_container(&asking, script);
        ks_prng_init(&asking.prng, seed);
        for (int64_t most_ms = 1000; most_ms <= 2000; most_ms *= 2) {
            turn_until_waiting(&asking);
            ks_span wait = ks_instant_since(remote_of(&asking)->again.at, ks_loop_now(asking.loop));
            EXPECT_EQ_I64(ks_span_to_ms(wait), ks_prng_between(&same, most_ms / 4, most_ms));
            EXPECT(ks_span_to_ms(wait) >= most_ms / 4);
            if (most_ms < 2000)
                hurry(&asking);
        }
        asking_close(&asking);
    }
    http_script_stop(script);
}

TEST(closing_ends_what_is_under_way)
{
    static const struct http_step steps[] = {{.status = 503}, {.silent = true}};
    struct http_script *script = http_script_start(steps, 2);
    struct asking asking;

    /* While it waits between two attempts. */
    open_container(&asking, script);
    turn_until_waiting(&asking);
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
