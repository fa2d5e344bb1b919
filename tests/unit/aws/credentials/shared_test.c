/* SPDX-License-Identifier: Apache-2.0 */
#include "asking.h"

#include "ks_test.h"

#include "http_script.h"

#include <stdio.h>
#include <stdlib.h>

#define KEYS(name, end)                                                                            \
    "{\"AccessKeyId\":\"" name "\",\"SecretAccessKey\":\"S\",\"Token\":\"T\",\"Expiration\":"      \
    "\"2026-01-01T" end "Z\"}"

/* Over a source that asks the container endpoint. */
struct sharing {
    struct asking asking;
    struct http_script *script;
    struct ks_credentials_source *source;
};

static void open_sharing(struct sharing *sharing, const struct http_step *steps, size_t count)
{
    struct ks_credentials_options options = {.seed = 1};

    sharing->script = http_script_start(steps, count);
    asking_open(&sharing->asking);
    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", http_script_url(sharing->script), 1);
    options.loop = sharing->asking.loop;
    options.http = sharing->asking.http;
    EXPECT_OK(ks_credentials_source_new(&options, &sharing->source, NULL));
    EXPECT_OK(
        ks_provider_shared_new(&sharing->asking.setup, sharing->source, &sharing->asking.provider));
}

/* The provider goes before the source. */
static void close_sharing(struct sharing *sharing)
{
    struct ks_provider *provider = NULL;

    sharing->asking.provider->vtable->close(sharing->asking.provider);
    ks_credentials_source_free(sharing->source);
    EXPECT_OK(ks_provider_environment_new(&sharing->asking.setup, &provider));
    sharing->asking.provider = provider;
    asking_close(&sharing->asking);
    http_script_stop(sharing->script);
}

TEST(what_the_source_has_is_given_without_asking_again)
{
    static const struct http_step steps[] = {
        {.headers = ASKING_DATE, .body = KEYS("ONE", "06:00:00")}};
    struct sharing sharing;

    open_sharing(&sharing, steps, 1);
    asking_fetch(&sharing.asking);
    EXPECT_OK(sharing.asking.err);
    EXPECT_STR(sharing.asking.credentials.access_key, "ONE");
    asking_fetch(&sharing.asking);
    EXPECT_STR(sharing.asking.credentials.access_key, "ONE");
    EXPECT_EQ_U64(http_script_count(sharing.script), 1);
    close_sharing(&sharing);
}

TEST(what_the_source_cannot_get_is_told)
{
    static const struct http_step steps[] = {{.status = 400, .body = "{\"Code\":\"Gone\"}"}};
    struct sharing sharing;

    open_sharing(&sharing, steps, 1);
    asking_fetch(&sharing.asking);
    EXPECT_ERR(sharing.asking.err, INVALID);
    EXPECT_CONTAINS(sharing.asking.detail.text, "Gone");
    close_sharing(&sharing);
}

TEST(it_may_be_closed_while_it_waits)
{
    static const struct http_step steps[] = {{.silent = true}};
    struct sharing sharing;

    open_sharing(&sharing, steps, 1);
    sharing.asking.provider->vtable->fetch(sharing.asking.provider);
    while (http_script_count(sharing.script) < 1)
        ks_loop_turn(sharing.asking.loop, ks_span_ms(5));
    close_sharing(&sharing);
    EXPECT_EQ_I64(sharing.asking.answers, 0);
}

TEST(the_source_is_told_that_they_have_expired)
{
    static const struct http_step steps[] = {
        {.headers = ASKING_DATE, .body = KEYS("ONE", "06:00:00")},
        {.headers = ASKING_DATE, .body = KEYS("TWO", "06:00:00")}};
    struct sharing sharing;
    struct ks_loop *loop;

    open_sharing(&sharing, steps, 2);
    loop = sharing.asking.loop;
    asking_fetch(&sharing.asking);
    /* The source believes it of none that are younger than 5 s. */
    ks_instant old = ks_instant_add(ks_loop_now(loop), ks_span_ms(5100));
    while (!ks_instant_reached(ks_loop_now(loop), old))
        ks_loop_turn(loop, ks_span_ms(100));
    sharing.asking.provider->vtable->expired(sharing.asking.provider, "ZERO");
    EXPECT(ks_credentials_now(sharing.source) != NULL);
    sharing.asking.provider->vtable->expired(sharing.asking.provider, "ONE");
    asking_fetch(&sharing.asking);
    EXPECT_STR(sharing.asking.credentials.access_key, "TWO");
    close_sharing(&sharing);
}
