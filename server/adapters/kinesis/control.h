/* SPDX-License-Identifier: Apache-2.0 */
/* control.h - the questions about a stream as a whole: DescribeStreamSummary and ListShards.
 *
 * Each is answered exactly once, in a later turn, with the standard retries of the SDKs, or never if the
 * control is freed first. It also knows whether the stream can be reached at all (health.h); while that is in doubt,
 * it asks by itself, 5 s apart at most, so that the state does not wait for somebody's question. A stream that is being
 * made is as one that is away (BUSY); one that is being deleted can be read until it is gone, and is told of once.
 */
#ifndef KS_ADAPTERS_KINESIS_CONTROL_H
#define KS_ADAPTERS_KINESIS_CONTROL_H

#include <stdint.h>

#include "aws/client.h"
#include "base/loop.h"
#include "ports/stream_source.h"

struct ks_control;

/* `stream` is a name or an ARN and outlives it; `page_size` 0: KS_LISTING_PAGE. NO_MEMORY. */
KS_MUST_USE ks_err ks_control_new(struct ks_loop *loop, struct ks_aws_client *client,
                                  const char *stream, uint32_t page_size,
                                  struct ks_control **ret_control);
/* NULL is allowed. */
void ks_control_free(struct ks_control *control);

void ks_control_describe(struct ks_control *control,
                         void (*answered)(void *arg, const struct ks_describe_answer *answer),
                         void *arg);
/* The retention period of the stream and its birth as it described them last, Unix ms; 0: unknown. Describes it anew if
 * that was long ago: people change the period. */
int64_t ks_control_retention_ms(struct ks_control *control);
int64_t ks_control_created_ms(const struct ks_control *control);
/* As the port's `list` promises. A server that refuses the filter is asked without it, which the log says once. */
void ks_control_list(struct ks_control *control, int64_t since_ms,
                     void (*answered)(void *arg, const struct ks_list_answer *answer), void *arg);

/* An answer of the service to a request for records: what it says about the stream. */
void ks_control_heard(struct ks_control *control, ks_err err, const struct ks_detail *detail);
/* Nobody reads (any more): what readers met counts for no longer than the next answer to a question. */
void ks_control_unread(struct ks_control *control);
enum ks_store_state ks_control_state(const struct ks_control *control,
                                     struct ks_detail *ret_detail);

#endif
