/* SPDX-License-Identifier: Apache-2.0 */
#include "aws_rig.h"

#include "aws/endpoint.h"
#include "ks_test.h"

#include <stdlib.h>

/* As tests/emulators/with has them: our own Kinesis checks signatures. */
static void set_environment(void)
{
    EXPECT_EQ_I64(setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE", 1), 0);
    EXPECT_EQ_I64(setenv("AWS_SECRET_ACCESS_KEY", "for-emulators-only", 1), 0);
    EXPECT_EQ_I64(unsetenv("AWS_SESSION_TOKEN"), 0);
    EXPECT_EQ_I64(unsetenv("AWS_SECURITY_TOKEN"), 0);
    EXPECT_EQ_I64(unsetenv("AWS_CREDENTIAL_EXPIRATION"), 0);
}

void aws_rig_open(struct aws_rig *rig, struct ks_loop *loop, enum ks_aws_service service,
                  const char *url)
{
    aws_rig_open_with(rig, loop, service, url, &(struct aws_rig_options){.attempts_max = 0});
}

void aws_rig_open_with(struct aws_rig *rig, struct ks_loop *loop, enum ks_aws_service service,
                       const char *url, const struct aws_rig_options *options)
{
    struct ks_http_options http = {.proxies = options->proxies, .ca_bundle = options->ca_bundle};
    struct ks_credentials_options credentials = {.loop = loop, .seed = 1};
    struct ks_aws_client_options client = {.service = service,
                                           .loop = loop,
                                           .attempts_max = options->attempts_max,
                                           .silence = options->silence,
                                           .rules = options->rules,
                                           .seed = 1};
    static const char *const names[KS_AWS_SERVICES] = {[KS_AWS_KINESIS] = "kinesis",
                                                       [KS_AWS_DYNAMODB] = "dynamodb",
                                                       [KS_AWS_SQS] = "sqs",
                                                       [KS_AWS_SNS] = "sns",
                                                       [KS_AWS_S3] = "s3"};
    struct ks_endpoint endpoint;
    struct ks_detail detail = {""};

    set_environment();
    EXPECT_OK(ks_http_new(loop, &http, &rig->http, &detail));
    credentials.http = rig->http;
    EXPECT_OK(ks_credentials_source_new(&credentials, &rig->credentials, &detail));
    EXPECT_OK(ks_endpoint_resolve(names[service], "us-east-1", url, &endpoint, &detail));
    client.http = rig->http;
    client.credentials = rig->credentials;
    client.endpoint = &endpoint;
    EXPECT_OK(ks_aws_client_new(&client, &rig->client));
}

void aws_rig_close(struct aws_rig *rig)
{
    ks_aws_client_free(rig->client);
    ks_credentials_source_free(rig->credentials);
    ks_http_free(rig->http);
}
