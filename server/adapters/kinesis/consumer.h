/* SPDX-License-Identifier: Apache-2.0 */
/* consumer.h - the registered consumer of a stream that SubscribeToShard wants.
 *
 * It is named by its name or its ARN. By its name it is looked for (DescribeStreamConsumer), registered where there is
 * none, and waited for until it is ACTIVE; one that is being deleted is waited for, too, and registered anew. By its
 * ARN it must be one of this stream; it is taken to be there, until somebody doubts it; where it is not, that is an
 * error, for the ARN says when it was registered. It is never deregistered: other workers use it, and nobody knows who
 * is the last one.
 * Nothing is asked before somebody waits for it. After a failure everybody who waits is told, and it is asked again for
 * the next one: 1 s later, doubling to 30 s. Loop thread only.
 */
#ifndef KS_ADAPTERS_KINESIS_CONSUMER_H
#define KS_ADAPTERS_KINESIS_CONSUMER_H

#include "adapters/kinesis/control.h"
#include "aws/client.h"
#include "base/list.h"

enum {
    KS_CONSUMER_NAME_MAX = 128, /* RegisterStreamConsumer API reference: [a-zA-Z0-9_.-]+ */
    KS_CONSUMER_ARN_MAX = 2048
};

struct ks_consumer;

struct ks_consumer_options {
    struct ks_loop *loop;
    struct ks_aws_client *client;
    struct ks_control *control; /* Says the ARN of a stream that is known by its name. */
    const char *stream;         /* A name or an ARN; outlives the consumer. */
    const char *name;           /* Of the consumer, or its ARN. Copied. */
};

/* NO_MEMORY; INVALID with a detail for a name that cannot be one. */
KS_MUST_USE ks_err ks_consumer_new(const struct ks_consumer_options *options,
                                   struct ks_consumer **ret_consumer, struct ks_detail *detail);
/* After `control` is freed, which may still have a question of ours. Nobody waits any more. NULL is allowed. */
void ks_consumer_free(struct ks_consumer *consumer);

/* Its ARN, while it is ACTIVE as far as we know; else NULL. */
const char *ks_consumer_arn(const struct ks_consumer *consumer);

struct ks_consumer_waiter {
    struct ks_link link;
    /* KS_OK: it has an ARN now. Else why it has none; never NOT_FOUND. In a later turn, once. */
    void (*done)(struct ks_consumer_waiter *waiter, ks_err err, const struct ks_detail *detail);
};
/* While it has no ARN. */
void ks_consumer_wait(struct ks_consumer *consumer, struct ks_consumer_waiter *waiter);
void ks_consumer_unwait(struct ks_consumer *consumer, struct ks_consumer_waiter *waiter);

/* The server does not know it, or says that it is not ACTIVE: it is looked for again. */
void ks_consumer_doubt(struct ks_consumer *consumer);

#endif
