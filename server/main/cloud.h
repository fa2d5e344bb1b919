/* SPDX-License-Identifier: Apache-2.0 */
/* cloud.h - what a house needs to talk to AWS, once: the settings, one HTTP client with its connections, and the
 * sources of credentials. And what each subscription has of its own: a client for each service.
 *
 * There is one source for all, and one more for each role that some service assumes on top of it. Opened if some stream
 * or lease table is in AWS: the embedded default has none of it. Region, endpoints and credentials come from the
 * environment and the profile files, as in the AWS SDKs; the region at last from the instance.
 */
#ifndef KS_MAIN_CLOUD_H
#define KS_MAIN_CLOUD_H

#include "aws/client.h"
#include "aws/endpoint.h"
#include "base/limits.h"
#include "base/loop.h"

/* A role that the client of a service assumes; "" or NULL: none. */
struct ks_cloud_role {
    const char *arn;
    const char *external_id;
};

struct ks_credentials_source;
struct ks_settings;

/* A role that was asked for, by the texts of whoever asked first. */
struct ks_cloud_source {
    enum ks_aws_service service;
    struct ks_cloud_role role;
    struct ks_credentials_source *credentials;
};

struct ks_cloud {
    struct ks_loop *loop;
    struct ks_settings *settings;
    struct ks_http *http;
    struct ks_endpoint_rules sts;
    char sts_region[KS_REGION_MAX + 1];
    struct ks_credentials_source *credentials; /* NULL: nobody has a client yet. */
    struct ks_cloud_source sources[KS_AWS_SERVICES * KS_SUBSCRIPTIONS_MAX];
    uint32_t source_count;
};

/* Where a client asks that is neither the stream's nor the lease table's. */
struct ks_cloud_place {
    enum ks_aws_service service;
    const char *region; /* "": that of the settings. */
    const char *url;    /* Where no setting names an endpoint; "": as the region says. */
    const char *stream; /* Of Kinesis: the ARN of the stream; "": it is named. */
    const char *bucket; /* Of S3; NULL: there is none. */
    const char *source; /* The option that asks, for errors. */
};

/* What a subscription has of it. */
struct ks_cloud_part {
    struct ks_cloud *cloud;
    /* Set before the clients are made; all of it outlives the cloud. */
    const char *stream; /* Its name or ARN; NULL: none. */
    struct ks_cloud_role roles[KS_AWS_SERVICES];

    struct ks_aws_client *clients[KS_AWS_SERVICES]; /* NULL: not used. */
    char stream_region[KS_REGION_MAX + 1];          /* Of its ARN; "": none. */
    struct ks_aws_client *beside;                   /* Of ks_cloud_client_at; NULL: none. */
    char beside_region[KS_REGION_MAX + 1];
};

/* Reads the settings. Turns the loop while the instance is asked for its region, which is done if nobody names one;
 * nothing else may run on it yet. A failure is one of the user's settings, and `detail` says which; NO_MEMORY. */
KS_MUST_USE ks_err ks_cloud_open(struct ks_cloud *cloud, struct ks_loop *loop,
                                 struct ks_detail *detail);
/* The client of a service, one for the part, made with all it needs. Failures as above. Nothing is asked of AWS yet. */
KS_MUST_USE ks_err ks_cloud_client(struct ks_cloud_part *part, enum ks_aws_service service,
                                   struct ks_aws_client **ret_client, struct ks_detail *detail);
/* A client of a place of its own, one for the part, with the credentials that all share. `ret_region` lives as long as
 * the part; the texts of `place` must, too. Failures as above; INVALID also where nobody names a region. */
KS_MUST_USE ks_err ks_cloud_client_at(struct ks_cloud_part *part,
                                      const struct ks_cloud_place *place,
                                      struct ks_aws_client **ret_client, const char **ret_region,
                                      struct ks_detail *detail);
/* After the store and the source are closed; before the cloud is. Does nothing to a zeroed one. */
void ks_cloud_leave(struct ks_cloud_part *part);
/* Also after a failure to open, and of one that is zeroed. */
void ks_cloud_close(struct ks_cloud *cloud);

#endif
