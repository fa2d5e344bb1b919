/* SPDX-License-Identifier: Apache-2.0 */
/* target.h - the destination that --dead-letters names: an SQS queue, an SNS topic or a Kinesis stream.
 *
 * Forms: sqs:QUEUE_URL, sns:TOPIC_ARN, kinesis:STREAM_NAME, kinesis:STREAM_ARN. A name that ends in .fifo is that of a
 * FIFO queue or topic. Pure values.
 */
#ifndef KS_ADAPTERS_SINKS_TARGET_H
#define KS_ADAPTERS_SINKS_TARGET_H

#include "aws/limits.h"
#include "base/bytes.h"

enum ks_sink_kind { KS_SINK_SQS, KS_SINK_SNS, KS_SINK_KINESIS };

/* Characters of an option (base/options.h: 1,000), without the prefix. */
enum { KS_SINK_NAME_MAX = 1000 };

struct ks_sink_target {
    enum ks_sink_kind kind;
    char name[KS_SINK_NAME_MAX + 1]; /* The URL, the ARN or the name. */
    char region[KS_REGION_MAX + 1];  /* Of the URL's host or of the ARN; "": neither has one. */
    /* Of a queue whose URL has another host than SQS has in the region, that of a VPC endpoint or an emulator: scheme,
     * host and port; else "". */
    char url[KS_HTTP_URL_MAX + 1];
    bool fifo;
};

/* Returns true if the text begins like a sink. */
bool ks_sink_is_named(const char *text);
/* Reads one of the forms above. INVALID with a detail that names --dead-letters and the form that is wanted. */
KS_MUST_USE ks_err ks_sink_target_read(const char *text, struct ks_sink_target *ret_target,
                                       struct ks_detail *detail);

#endif
