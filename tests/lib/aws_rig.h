/* SPDX-License-Identifier: Apache-2.0 */
/* aws_rig.h - a client of one AWS service, for tests: credentials from the environment that are no secret, us-east-1,
 * an endpoint of the test's own. Whatever goes wrong fails the test.
 */
#ifndef AWS_RIG_H
#define AWS_RIG_H

#include "aws/client.h"
#include "aws/credentials.h"
#include "aws/http.h"

struct aws_rig {
    struct ks_http *http;
    struct ks_credentials_source *credentials;
    struct ks_aws_client *client;
};

/* Beyond the defaults: zero is the default of each. */
struct aws_rig_options {
    uint32_t attempts_max;
    ks_span silence; /* 0: that of the client. */
    const struct ks_endpoint_rules *rules;
    const struct ks_proxies *proxies;
    const char *ca_bundle;
};

/* The loop stays the caller's. */
void aws_rig_open(struct aws_rig *rig, struct ks_loop *loop, enum ks_aws_service service,
                  const char *url);
void aws_rig_open_with(struct aws_rig *rig, struct ks_loop *loop, enum ks_aws_service service,
                       const char *url, const struct aws_rig_options *options);
void aws_rig_close(struct aws_rig *rig);

#endif
