/* SPDX-License-Identifier: Apache-2.0 */
/* request.h - the bodies of our requests to Kinesis (API reference, 2013-12-02).
 *
 * A stream is named as the user named it: a name becomes StreamName, an ARN StreamARN (emulators know
 * one, AWS both). Questions about the stream and about a place are JSON always; GetRecords and
 * SubscribeToShard, which move the data, are JSON or CBOR. Pure, but for the memory of the bytes.
 * All: FULL, NO_MEMORY (of `body`, which is appended to).
 */
#ifndef KS_ADAPTERS_KINESIS_REQUEST_H
#define KS_ADAPTERS_KINESIS_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/json_writer.h"
#include "ports/lease_store.h"

enum {
    /* A request body: an ARN, an iterator and a NextToken (up to 1 MiB, ListShards) are the most. */
    KS_KINESIS_REQUEST_MAX = (1 << 20) + 8192
};

bool ks_is_arn(const char *stream);
/* True for what may be a stream, by its length: a name or an ARN. */
bool ks_is_stream(const char *stream);
/* Puts StreamName or StreamARN into an open object. */
void ks_request_put_stream(struct ks_writer *json, const char *stream);

KS_MUST_USE ks_err ks_request_describe(struct ks_bytes *body, const char *stream);
/* The position must not be SHARD_END. A place within an aggregate is asked for as the aggregate itself:
 * it is delivered whole, and rather twice than never. */
KS_MUST_USE ks_err ks_request_iterator(struct ks_bytes *body, const char *stream, const char *shard,
                                       const struct ks_position *position);
/* The iterator says which stream it is of; an ARN is named beside it, for streams of other accounts want it. */
KS_MUST_USE ks_err ks_request_records(struct ks_bytes *body, const char *stream,
                                      const char *iterator, uint32_t limit, bool cbor);

/* SubscribeToShard; `consumer` is the ARN of one. The position as for an iterator. */
KS_MUST_USE ks_err ks_request_subscribe(struct ks_bytes *body, const char *consumer,
                                        const char *shard, const struct ks_position *position,
                                        bool cbor);

#endif
