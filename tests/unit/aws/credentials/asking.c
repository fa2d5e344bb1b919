/* SPDX-License-Identifier: Apache-2.0 */
#include "asking.h"

#include "ks_test.h"

#include "base/budget.h"

#include <stdio.h>
#include <stdlib.h>

static void on_fetched(void *arg, struct ks_provider *provider)
{
    struct asking *asking = arg;

    asking->answers++;
    asking->err = provider->err;
    asking->detail = provider->detail;
    asking->credentials = provider->credentials;
}

void asking_forget_environment(void)
{
    static const char *const names[] = {"AWS_ACCESS_KEY_ID",
                                        "AWS_SECRET_ACCESS_KEY",
                                        "AWS_SESSION_TOKEN",
                                        "AWS_SECURITY_TOKEN",
                                        "AWS_CREDENTIAL_EXPIRATION",
                                        "AWS_PROFILE",
                                        "AWS_DEFAULT_PROFILE",
                                        "AWS_CONFIG_FILE",
                                        "AWS_SHARED_CREDENTIALS_FILE",
                                        "AWS_WEB_IDENTITY_TOKEN_FILE",
                                        "AWS_ROLE_ARN",
                                        "AWS_ROLE_SESSION_NAME",
                                        "AWS_ACCOUNT_ID",
                                        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
                                        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                                        "AWS_CONTAINER_AUTHORIZATION_TOKEN",
                                        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
                                        "AWS_EC2_METADATA_V1_DISABLED",
                                        "AWS_EC2_METADATA_SERVICE_ENDPOINT",
                                        "AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE"};

    for (size_t at = 0; at < sizeof(names) / sizeof(names[0]); at++)
        unsetenv(names[at]);
    setenv("HOME", ks_test_dir(), 1);
    /* The one of the machine that the test runs on is not asked. */
    setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
}

void asking_open(struct asking *asking)
{
    struct ks_http_options options = {.ca_bundle = NULL};

    asking_forget_environment();
    *asking = (struct asking){.answers = 0};
    EXPECT_OK(ks_loop_new(&asking->loop));
    EXPECT_OK(ks_http_new(asking->loop, &options, &asking->http, NULL));
    asking->setup = (struct ks_provider_setup){.loop = asking->loop,
                                               .http = asking->http,
                                               .prng = &asking->prng,
                                               .sts = &asking->sts,
                                               .profile = "default"};
    ks_prng_init(&asking->prng, 1);
    asking_sts(asking, NULL);
}

void asking_sts(struct asking *asking, const char *url)
{
    asking->sts = (struct ks_endpoint_rules){.service = "sts", .region = "eu-west-1", .url = url};
}

void asking_begin(struct asking *asking)
{
    asking->provider->fetched = on_fetched;
    asking->provider->arg = asking;
    asking->provider->vtable->fetch(asking->provider);
}

void asking_fetch(struct asking *asking)
{
    int before = asking->answers;

    asking_begin(asking);
    EXPECT_EQ_I64(asking->answers, before);
    while (asking->answers == before)
        ks_loop_turn(asking->loop, ks_span_ms(50));
    for (int i = 0; i < 3; i++)
        ks_loop_turn(asking->loop, ks_span_ms(1));
    EXPECT_EQ_I64(asking->answers, before + 1);
}

void asking_close(struct asking *asking)
{
    asking->provider->vtable->close(asking->provider);
    ks_http_free(asking->http);
    ks_loop_free(asking->loop);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

const char *asking_file(const char *name, const char *content)
{
    const char *path = ks_test_path(name);
    FILE *file = fopen(path, "w");

    EXPECT(file != NULL);
    EXPECT(fputs(content, file) >= 0);
    EXPECT(fclose(file) == 0);
    return path;
}

void asking_set_files(const char *config, const char *credentials)
{
    setenv("AWS_CONFIG_FILE", asking_file("config", config), 1);
    setenv("AWS_SHARED_CREDENTIALS_FILE", asking_file("credentials", credentials), 1);
}
