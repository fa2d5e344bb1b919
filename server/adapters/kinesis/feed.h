/* SPDX-License-Identifier: Apache-2.0 */
/* feed.h - one SubscribeToShard: the bytes of its answer, gathered into messages, which are taken one by one.
 *
 * Bytes are taken from the network only while a message is wanted, and no further than its end, give or take the 16 KB
 * that come at once. The rest waits in the network and on the server. What has come lies in one block of the budget,
 * as long as the message needs it. When the server ends the stream while nothing is wanted, the rest may be lost with
 * it: whoever reads asks for it again.
 * Its owner is called when there is something to look at, and told once how it ended; never from within a call of his.
 */
#ifndef KS_ADAPTERS_KINESIS_FEED_H
#define KS_ADAPTERS_KINESIS_FEED_H

#include <stdbool.h>

#include "aws/client.h"
#include "aws/event_stream.h"
#include "aws/limits.h"
#include "base/budget.h"
#include "base/loop.h"

struct ks_feed {
    struct ks_loop *loop;
    struct ks_budget *budget;
    struct ks_aws_call *call; /* NULL: it has ended, or was closed. */
    struct ks_block *inbox;   /* NULL: empty. */
    size_t expected;          /* Bytes of the message that begins there; 0: not known yet. */
    bool wanted;
    bool answered; /* The server took the subscription. */
    ks_instant answered_at;
    char request_id[KS_REQUEST_ID_MAX + 1]; /* By which AWS knows it; "" if it was not told. */
    struct ks_timer *wake;                  /* The owner's: set to now when a message is whole. */
    void (*ended)(void *arg, const struct ks_aws_answer *answer);
    void *arg;
};

struct ks_feed_request {
    struct ks_loop *loop;
    struct ks_aws_client *client;
    struct ks_budget *budget;
    ks_view body;    /* Of SubscribeToShard. Copied. */
    bool cbor;       /* What it is. */
    ks_span silence; /* Once it has begun. */
    struct ks_timer *wake;
    /* The call is over; messages may still be there. */
    void (*ended)(void *arg, const struct ks_aws_answer *answer);
    void *arg;
};

/* Asks for it. NO_MEMORY, FULL: there is none, and `feed` needs no close. */
KS_MUST_USE ks_err ks_feed_open(struct ks_feed *feed, const struct ks_feed_request *request);
/* Also of one that is closed, or zeroed. Not from within `wake`'s callers: from the loop. */
void ks_feed_close(struct ks_feed *feed);
static inline bool ks_feed_is_open(const struct ks_feed *feed)
{
    return feed->call != NULL;
}

/* True if a whole message is there. */
bool ks_feed_is_whole(const struct ks_feed *feed);
/* Reads it; its views are good as long as its block. MALFORMED: the stream is damaged, and nothing behind
 * it can be read. */
KS_MUST_USE ks_err ks_feed_read(const struct ks_feed *feed, struct ks_event *ret_event);
/* The message was read: its block is the caller's from now on, and its size ends with the message. FULL, NO_MEMORY: so
 * it is, but the bytes behind it could not be kept, close the feed. */
KS_MUST_USE ks_err ks_feed_take(struct ks_feed *feed, struct ks_block **ret_message);

/* A message is wanted, or none any more. */
void ks_feed_want(struct ks_feed *feed, bool wanted);

#endif
