/* SPDX-License-Identifier: Apache-2.0 */
#include "main/cloud.h"

#include "aws/credentials.h"
#include "aws/endpoint.h"
#include "aws/profile.h"
#include "base/digest.h"

#include <assert.h>

static ks_err open_common(struct ks_cloud *cloud, struct ks_detail *detail)
{
    struct ks_http_options http = {.ca_bundle = NULL};
    struct ks_credentials_options credentials = {.loop = cloud->loop, .seed = ks_random_u64()};
    char profile_region[KS_REGION_MAX + 1];

    KS_TRY(ks_profile_region(NULL, profile_region, detail));
    KS_TRY(ks_region_resolve(NULL, profile_region, cloud->region, detail));
    KS_TRY(ks_http_new(cloud->loop, &http, &cloud->http, detail));
    credentials.http = cloud->http;
    credentials.sts_region = cloud->region;
    return ks_credentials_source_new(&credentials, &cloud->credentials, detail);
}

ks_err ks_cloud_client(struct ks_cloud *cloud, enum ks_aws_service service,
                       struct ks_aws_client **ret_client, struct ks_detail *detail)
{
    static const char *const names[] = {
        [KS_AWS_KINESIS] = "kinesis", [KS_AWS_DYNAMODB] = "dynamodb"};
    struct ks_endpoint endpoint;
    struct ks_aws_client_options options = {.service = service, .loop = cloud->loop};

    assert(cloud->clients[service] == NULL);

    if (cloud->http == NULL)
        KS_TRY(open_common(cloud, detail));
    KS_TRY(ks_endpoint_resolve(names[service], cloud->region, NULL, &endpoint, detail));
    options.http = cloud->http;
    options.credentials = cloud->credentials;
    options.endpoint = &endpoint;
    options.seed = ks_random_u64();
    KS_TRY(ks_aws_client_new(&options, &cloud->clients[service]));
    *ret_client = cloud->clients[service];
    return KS_OK;
}

void ks_cloud_close(struct ks_cloud *cloud)
{
    ks_aws_client_free(cloud->clients[KS_AWS_KINESIS]);
    ks_aws_client_free(cloud->clients[KS_AWS_DYNAMODB]);
    ks_credentials_source_free(cloud->credentials);
    ks_http_free(cloud->http);
    *cloud = (struct ks_cloud){.loop = cloud->loop};
}
