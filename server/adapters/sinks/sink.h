/* SPDX-License-Identifier: Apache-2.0 */
/* sink.h - dead letters that are sent to an SQS queue, an SNS topic or a Kinesis stream: the writing half of
 * ports/dead_letters.h.
 *
 * A dead letter is sent at least once, and each message of it has its id (document.h). A write sends its dead letters
 * in their order, one request after the other, and is DONE when the destination has confirmed each of them. Otherwise
 * it is UNKNOWN; the caller repeats it after a back-off, and only dead letters that are not confirmed are sent again.
 *
 * A dead letter whose message would be too large is sent without its record's data. A request that the destination
 * refuses as invalid is sent entry by entry, then without data: a queue may take smaller messages than its service.
 * Loop thread only.
 */
#ifndef KS_ADAPTERS_SINKS_SINK_H
#define KS_ADAPTERS_SINKS_SINK_H

#include "adapters/sinks/target.h"
#include "aws/client.h"
#include "base/loop.h"
#include "ports/dead_letters.h"

/* The service whose client a sink of this kind needs. */
enum ks_aws_service ks_sink_service(enum ks_sink_kind kind);

struct ks_sink_options {
    struct ks_loop *loop;
    struct ks_aws_client *client;        /* Of the target's service; outlives the sink. */
    const struct ks_sink_target *target; /* Copied. */
    const char *text;         /* The destination as it was configured: `sqs:..`. Copied. */
    const char *application;  /* Copied. */
    const char *subscription; /* For metrics. Copied. */
    const char *region;       /* For errors. Copied. */
};

/* Nothing is sent before the first write. NO_MEMORY. Not to be closed from within an `answered`. */
KS_MUST_USE ks_err ks_sink_open(const struct ks_sink_options *options,
                                struct ks_dead_letters **ret_sink);

#endif
