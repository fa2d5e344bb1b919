/* SPDX-License-Identifier: Apache-2.0 */
/* ttl.h - has a DynamoDB table remove what expired: its TTL is turned on for the attribute `expires` (Unix seconds).
 *
 * DescribeTimeToLive, and UpdateTimeToLive if it is off; once. Where that may not be asked, or the TTL is on for
 * another attribute, one warning says what to do, and items stay. Loop thread only.
 */
#ifndef KS_ADAPTERS_DYNAMODB_TTL_H
#define KS_ADAPTERS_DYNAMODB_TTL_H

#include "aws/client.h"

struct ks_dynamodb_ttl {
    struct ks_aws_client *client;
    const char *table;
    bool asked;
    struct ks_aws_call *call;
};

/* Asks nothing yet. Both outlive it. */
void ks_dynamodb_ttl_init(struct ks_dynamodb_ttl *ttl, struct ks_aws_client *client,
                          const char *table);
/* Before the first item that expires; does nothing after the first time. */
void ks_dynamodb_ttl_ask(struct ks_dynamodb_ttl *ttl);
void ks_dynamodb_ttl_close(struct ks_dynamodb_ttl *ttl);

#endif
