/* SPDX-License-Identifier: Apache-2.0 */
/* cloud.h - what a house needs to talk to AWS: HTTP, credentials, a client for each service.
 *
 * Made only if the stream or the lease table is in AWS: the embedded default has none of it. Region,
 * endpoints and credentials come from the environment and the profile files, as in the AWS SDKs.
 */
#ifndef KS_MAIN_CLOUD_H
#define KS_MAIN_CLOUD_H

#include "aws/client.h"
#include "aws/limits.h"
#include "base/loop.h"

struct ks_cloud {
    struct ks_loop *loop;
    struct ks_http *http; /* NULL: nothing of it is open. */
    struct ks_credentials_source *credentials;
    struct ks_aws_client *clients[KS_AWS_DYNAMODB + 1]; /* NULL: not used. */
    char region[KS_REGION_MAX + 1];
};

/* The client of a service; made, with all it needs, by the first call. A failure is one of the
 * user's settings, and `detail` says which; NO_MEMORY. Nothing is asked of AWS yet. */
KS_MUST_USE ks_err ks_cloud_client(struct ks_cloud *cloud, enum ks_aws_service service,
                                   struct ks_aws_client **ret_client, struct ks_detail *detail);
/* After the store and the source are closed. Does nothing to a zeroed one. */
void ks_cloud_close(struct ks_cloud *cloud);

#endif
