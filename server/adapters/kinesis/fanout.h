/* SPDX-License-Identifier: Apache-2.0 */
/* fanout.h - Kinesis by enhanced fan-out, as a source: a feed (feed.h) for each shard that is read.
 *
 * A read takes the next event of the shard's feed. While none is in flight, nothing is taken from the network: a slow
 * app costs lag. An event that is more than a read asked for answers the next ones, too; its batches share one block.
 * An idle shard answers empty, once a second.
 *
 * A feed is begun again at the place that was handed on, behind the last record or, where nothing was put for long, at
 * the ContinuationSequenceNumber of the last event; so nothing is lost and nothing comes twice, whatever ended it:
 *  - its age: AWS ends it after 5 minutes, we up to half a minute before that, so that not all end at once;
 *  - nobody read for 10 s: what is in memory is given back;
 *  - silence (15 s, for AWS sends an event every 5 s; 10 s before the first, as of any request), a lost connection,
 *    damaged bytes, an exception within it, a full budget.
 * At LATEST the feed is begun at once; place.h tells what follows if it does not come about.
 *
 * Kinesis refuses a SubscribeToShard within 5 s of another one to the same shard by the same consumer; after that, the
 * newer one takes over. So ours are apart that long; where it refuses all the same, somebody else reads the shard, or a
 * former one of ours is not known to be dead: we try again after a back-off, as after failures.
 *
 * The end of a shard is an event without ContinuationSequenceNumber and with ChildShards (KCL sees it so; an event that
 * lacks both is not the end). wire_protocol.h says whether events are asked for in CBOR.
 */
#ifndef KS_ADAPTERS_KINESIS_FANOUT_H
#define KS_ADAPTERS_KINESIS_FANOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "adapters/kinesis/wire_protocol.h"
#include "aws/client.h"
#include "base/loop.h"
#include "ports/stream_source.h"

struct ks_fanout_options {
    const char *consumer;     /* Name or ARN; consumer.h. */
    const char *subscription; /* Of the metrics; outlives the source. */
    bool shard_metrics;
    enum ks_wire_mode protocol;
    uint32_t page_size; /* Of ListShards; 0: 1,000. */
    /* For tests; 0: as above. */
    uint32_t apart_ms;   /* Between two feeds of a shard. */
    uint32_t age_ms;     /* Of a feed. */
    uint32_t silence_ms; /* Within one. */
    uint32_t unread_ms;  /* Until one is given up that nobody reads. */
};

/* `stream` is a name or an ARN, and is copied. Nothing is sent yet. The client outlives the source.
 * NO_MEMORY; INVALID with a detail for a stream or a consumer that cannot be one. */
KS_MUST_USE ks_err ks_fanout_source_open(struct ks_loop *loop, struct ks_aws_client *client,
                                         const char *stream,
                                         const struct ks_fanout_options *options,
                                         struct ks_stream_source **ret_source,
                                         struct ks_detail *detail);

#endif
