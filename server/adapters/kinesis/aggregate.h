/* SPDX-License-Identifier: Apache-2.0 */
/* aggregate.h - records that the Kinesis Producer Library has packed into one.
 *
 * F3 89 9A C2, a protobuf message, its MD5 (awslabs/amazon-kinesis-producer, aggregation-format.md).
 * They are recognised, counted and delivered as they are, with record->aggregated set.
 */
#ifndef KS_ADAPTERS_KINESIS_AGGREGATE_H
#define KS_ADAPTERS_KINESIS_AGGREGATE_H

#include <stdbool.h>

#include "base/bytes.h"
#include "ports/stream_source.h"

/* True only if the digest is right. Pure. */
bool ks_is_aggregate(ks_view data);

/* Counts the aggregates of a batch that is about to be delivered; the first one of the process is told in
 * the log. Loop thread only. */
void ks_aggregates_note(const struct ks_batch *batch);

#endif
