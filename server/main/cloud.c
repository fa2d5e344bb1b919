/* SPDX-License-Identifier: Apache-2.0 */
#include "main/cloud.h"

#include "aws/arn.h"
#include "aws/credentials.h"
#include "aws/credentials/imds.h"
#include "aws/profile.h"
#include "aws/proxy.h"
#include "aws/settings.h"
#include "base/address.h"
#include "base/budget.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/prng.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/* A stream that is named by its ARN is in the region that its ARN says. */
static void find_stream_region(struct ks_cloud_part *part)
{
    ks_view stream = ks_view_text(part->stream == NULL ? "" : part->stream);
    struct ks_arn arn;

    part->stream_region[0] = '\0';
    if (ks_ok(ks_arn_split(stream, &arn)) && ks_region_is_valid(arn.region) &&
        !ks_ok(ks_view_copy_text(arn.region, part->stream_region, sizeof(part->stream_region))))
        part->stream_region[0] = '\0';
}

static ks_err read_settings(struct ks_cloud *cloud, struct ks_detail *detail)
{
    struct ks_proxies *proxies = ks_alloc(sizeof(*proxies));
    struct ks_http_options http = {.proxies = proxies};

    cloud->settings = ks_alloc(sizeof(*cloud->settings));
    ks_err err = proxies == NULL || cloud->settings == NULL
                     ? KS_FAIL(NO_MEMORY)
                     : ks_settings_read(NULL, cloud->settings, detail);
    if (ks_ok(err))
        err = ks_proxies_read(proxies, detail);
    if (ks_ok(err)) {
        http.ca_bundle = cloud->settings->ca_bundle;
        err = ks_http_new(cloud->loop, &http, &cloud->http, detail);
    }
    ks_free(proxies);
    return err;
}

/* Last of all, as in the SDK of Java. Where it cannot be had, who needs a region says so. */
static void ask_instance(struct ks_cloud *cloud)
{
    char profile[KS_PROFILE_NAME_MAX + 1];
    struct ks_prng prng;
    struct ks_provider_setup setup = {
        .loop = cloud->loop, .http = cloud->http, .prng = &prng, .profile = profile};
    struct ks_detail detail = {""};

    ks_prng_init(&prng, ks_random_u64());
    if (!ks_ok(ks_profile_name(NULL, profile, &setup.profile_named)))
        return;
    ks_err err = ks_imds_region(&setup, cloud->settings->region, &detail);
    if (ks_ok(err))
        ks_info("aws: region %s, as the instance says", cloud->settings->region);
    else if (!ks_err_is(err, KS_ERR_NO_CREDENTIALS))
        ks_warn("aws: the region of the instance is not known: %s", detail.text);
}

/* A nameserver that is silent is given up for the next one after 5 s (resolv.conf(5)), beyond every connection's and
 * every lease's time: with one that is dead no name would ever be found. glibc reads the first two options. c-ares
 * 1.18, with which static programs resolve names, reads the last two. */
static ks_err hurry_resolver(void)
{
    const char *options = "timeout:1 attempts:3 retrans:1000 retry:3";

    return setenv("RES_OPTIONS", options, 0) == 0 ? KS_OK : KS_FAIL(NO_MEMORY);
}

ks_err ks_cloud_open(struct ks_cloud *cloud, struct ks_loop *loop, struct ks_detail *detail)
{
    assert(cloud->settings == NULL);

    cloud->loop = loop;
    KS_TRY(hurry_resolver());
    KS_TRY(read_settings(cloud, detail));
    if (cloud->settings->region[0] == '\0')
        ask_instance(cloud);
    return KS_OK;
}

/* Where STS is, of the first stream's region where the settings have none. That a URL of its own does not go together
 * with FIPS or dual stack matters only to who asks it, as in the SDKs. */
static ks_err find_sts(struct ks_cloud *cloud, const char *region, struct ks_detail *detail)
{
    struct ks_endpoint_rules rules = ks_settings_rules(cloud->settings, KS_SETTINGS_STS);
    struct ks_endpoint ignored;

    if (rules.region[0] == '\0') {
        (void)snprintf(cloud->sts_region, sizeof(cloud->sts_region), "%s", region);
        rules.region = cloud->sts_region;
    }
    if (rules.region[0] == '\0')
        return ks_err_because(KS_FAIL(INVALID), detail,
                              "no region: set AWS_REGION, or `region` in the profile");
    cloud->sts = rules;
    rules.fips = rules.dualstack = false;
    return ks_endpoint_find(&rules, NULL, KS_ENDPOINT_CONTROL, &ignored, detail);
}

/* The source for all. */
static ks_err open_credentials(struct ks_cloud *cloud, const char *region, struct ks_detail *detail)
{
    struct ks_credentials_options options = {
        .loop = cloud->loop, .http = cloud->http, .sts = &cloud->sts, .seed = ks_random_u64()};

    KS_TRY(find_sts(cloud, region, detail));
    return ks_credentials_source_new(&options, &cloud->credentials, detail);
}

static bool is_same(const char *a, const char *b)
{
    return strcmp(a == NULL ? "" : a, b == NULL ? "" : b) == 0;
}

/* The source of a role; made if nobody asked for that one. By service, for the metrics say which one they are for. */
static ks_err find_role(struct ks_cloud *cloud, enum ks_aws_service service,
                        const struct ks_cloud_role *role, struct ks_credentials_source **ret_source,
                        struct ks_detail *detail)
{
    static const char *const names[KS_AWS_SERVICES] = {[KS_AWS_KINESIS] = "kinesis",
                                                       [KS_AWS_DYNAMODB] = "dynamodb",
                                                       [KS_AWS_SQS] = "sqs",
                                                       [KS_AWS_SNS] = "sns",
                                                       [KS_AWS_S3] = "s3"};
    struct ks_credentials_options options = {
        .loop = cloud->loop,
        .http = cloud->http,
        .sts = &cloud->sts,
        .service = names[service],
        .base = cloud->credentials,
        .role_arn = role->arn,
        .external_id = role->external_id,
        .seed = ks_random_u64(),
    };
    struct ks_cloud_source *source = cloud->sources;
    struct ks_cloud_source *end = source + cloud->source_count;
    struct ks_endpoint ignored;

    while (source < end && !(source->service == service && is_same(source->role.arn, role->arn) &&
                             is_same(source->role.external_id, role->external_id)))
        source++;
    if (source == end) {
        assert(cloud->source_count < sizeof(cloud->sources) / sizeof(cloud->sources[0]));
        *source = (struct ks_cloud_source){.service = service, .role = *role};
        KS_TRY(ks_endpoint_find(&cloud->sts, NULL, KS_ENDPOINT_CONTROL, &ignored, detail));
        KS_TRY(ks_credentials_source_new(&options, &source->credentials, detail));
        cloud->source_count++;
    }
    *ret_source = source->credentials;
    return KS_OK;
}

/* The source for a service: its role's, or the one that all share. */
static ks_err find_credentials(const struct ks_cloud_part *part, enum ks_aws_service service,
                               struct ks_credentials_source **ret_source, struct ks_detail *detail)
{
    const struct ks_cloud_role *role = &part->roles[service];

    *ret_source = part->cloud->credentials;
    if (role->arn == NULL || role->arn[0] == '\0')
        return KS_OK;
    return find_role(part->cloud, service, role, ret_source, detail);
}

static ks_err find_rules(const struct ks_cloud_part *part, enum ks_aws_service service,
                         struct ks_endpoint_rules *ret_rules, struct ks_detail *detail)
{
    bool kinesis = service == KS_AWS_KINESIS;

    *ret_rules = ks_settings_rules(part->cloud->settings,
                                   kinesis ? KS_SETTINGS_KINESIS : KS_SETTINGS_DYNAMODB);
    if (kinesis && part->stream_region[0] != '\0') {
        ret_rules->stream_arn = part->stream;
        ret_rules->region = part->stream_region;
    }
    if (ret_rules->region[0] == '\0')
        return ks_err_because(KS_FAIL(INVALID), detail,
                              "no region for the lease table: set AWS_REGION, or `region` in the "
                              "profile");
    return KS_OK;
}

/* Requests are signed, so that the keys are safe and nobody changes them; records can be read, and answers changed. */
static void warn_of_plain_http(const struct ks_endpoint *endpoint)
{
    struct ks_url url;

    if (ks_ok(ks_url_split(ks_view_text(endpoint->url), &url)) && !url.https &&
        !ks_view_equal_nocase(url.host, KS_VIEW("localhost")) && !ks_is_loopback(url.host))
        ks_warn("aws: %s is reached without TLS: whoever is on the way can read records and change "
                "answers",
                endpoint->url);
}

/* A client of the service with these rules and credentials. */
static ks_err make_client(struct ks_cloud *cloud, enum ks_aws_service service,
                          const struct ks_endpoint_rules *rules,
                          struct ks_credentials_source *credentials,
                          struct ks_aws_client **ret_client, struct ks_detail *detail)
{
    struct ks_endpoint endpoint;
    struct ks_endpoint_rules common = *rules;
    const struct ks_aws_client_options options = {
        .service = service,
        .loop = cloud->loop,
        .http = cloud->http,
        .credentials = credentials,
        .endpoint = &endpoint,
        .rules = rules,
        .attempts_max = cloud->settings->max_attempts,
        .seed = ks_random_u64(),
    };

    /* The account is not known yet; everything else is told now. */
    common.account_mode = KS_ACCOUNT_DISABLED;
    KS_TRY(ks_endpoint_find(&common, NULL, KS_ENDPOINT_CONTROL, &endpoint, detail));
    KS_TRY(ks_aws_client_new(&options, ret_client));
    ks_info("aws: %s is asked at %s, region %s", rules->service, endpoint.url, endpoint.region);
    warn_of_plain_http(&endpoint);
    return KS_OK;
}

static ks_err open_client(struct ks_cloud_part *part, enum ks_aws_service service,
                          struct ks_detail *detail)
{
    struct ks_cloud *cloud = part->cloud;
    struct ks_credentials_source *credentials;
    struct ks_endpoint_rules rules;

    assert(cloud->settings != NULL);

    find_stream_region(part);
    if (cloud->credentials == NULL)
        KS_TRY(open_credentials(cloud, part->stream_region, detail));
    KS_TRY(find_rules(part, service, &rules, detail));
    KS_TRY(find_credentials(part, service, &credentials, detail));
    KS_TRY(make_client(cloud, service, &rules, credentials, &part->clients[service], detail));
    if (service == KS_AWS_KINESIS && cloud->settings->region[0] != '\0' &&
        strcmp(cloud->settings->region, rules.region) != 0)
        ks_info("aws: the stream is in %s, as its ARN says, and all else in %s", rules.region,
                cloud->settings->region);
    return KS_OK;
}

static enum ks_settings_service settings_of(enum ks_aws_service service)
{
    switch (service) {
    case KS_AWS_KINESIS: return KS_SETTINGS_KINESIS;
    case KS_AWS_DYNAMODB: return KS_SETTINGS_DYNAMODB;
    case KS_AWS_SQS: return KS_SETTINGS_SQS;
    case KS_AWS_SNS: return KS_SETTINGS_SNS;
    case KS_AWS_S3: return KS_SETTINGS_S3;
    }
    assert(false);
    return KS_SETTINGS_KINESIS;
}

/* A configured URL goes before that of the place, as in the SDKs. */
static ks_err rules_at(const struct ks_cloud_part *part, const struct ks_cloud_place *place,
                       struct ks_endpoint_rules *ret_rules, struct ks_detail *detail)
{
    struct ks_endpoint_rules rules =
        ks_settings_rules(part->cloud->settings, settings_of(place->service));

    if (place->region[0] != '\0')
        rules.region = place->region;
    if (rules.region[0] == '\0')
        return ks_err_because(KS_FAIL(INVALID), detail,
                              "no region for %s: set AWS_REGION, or `region` in the profile",
                              place->source);
    if (rules.url[0] == '\0' && place->url[0] != '\0') {
        rules.url = place->url;
        rules.url_source = place->source;
    }
    if (place->stream[0] != '\0')
        rules.stream_arn = place->stream;
    rules.bucket = place->bucket;
    *ret_rules = rules;
    return KS_OK;
}

ks_err ks_cloud_client_at(struct ks_cloud_part *part, const struct ks_cloud_place *place,
                          struct ks_aws_client **ret_client, const char **ret_region,
                          struct ks_detail *detail)
{
    struct ks_cloud *cloud = part->cloud;
    struct ks_endpoint_rules rules;

    assert(part->beside == NULL);

    find_stream_region(part);
    KS_TRY(rules_at(part, place, &rules, detail));
    if (cloud->credentials == NULL)
        KS_TRY(open_credentials(cloud, rules.region, detail));
    KS_TRY(make_client(cloud, place->service, &rules, cloud->credentials, &part->beside, detail));
    (void)snprintf(part->beside_region, sizeof(part->beside_region), "%s", rules.region);
    *ret_client = part->beside;
    *ret_region = part->beside_region;
    return KS_OK;
}

ks_err ks_cloud_client(struct ks_cloud_part *part, enum ks_aws_service service,
                       struct ks_aws_client **ret_client, struct ks_detail *detail)
{
    if (part->clients[service] == NULL)
        KS_TRY(open_client(part, service, detail));
    *ret_client = part->clients[service];
    return KS_OK;
}

void ks_cloud_leave(struct ks_cloud_part *part)
{
    for (size_t at = 0; at < KS_AWS_SERVICES; at++) {
        ks_aws_client_free(part->clients[at]);
        part->clients[at] = NULL;
    }
    ks_aws_client_free(part->beside);
    part->beside = NULL;
}

void ks_cloud_close(struct ks_cloud *cloud)
{
    /* Roles stand on the source of all. */
    for (uint32_t at = 0; at < cloud->source_count; at++)
        ks_credentials_source_free(cloud->sources[at].credentials);
    ks_credentials_source_free(cloud->credentials);
    ks_http_free(cloud->http);
    ks_free(cloud->settings);
    *cloud = (struct ks_cloud){.loop = NULL};
}
