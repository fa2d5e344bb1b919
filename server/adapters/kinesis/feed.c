/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/kinesis/feed.h"

#include "adapters/kinesis/builder.h"
#include "aws/head.h"

#include <assert.h>

enum {
    /* What comes at once, behind the end of a message, too (curl's piece). */
    PIECE_BYTES = 16 << 10,
    /* Room is made step by step: a length is only a promise. */
    ROOM_TIMES = 16
};

/* --- Bytes --- */

static void drop_inbox(struct ks_feed *feed)
{
    ks_block_drop(feed->inbox);
    feed->inbox = NULL;
    feed->expected = 0;
}

/* The message that begins with `bytes`. A damaged one is whole: there is something to look at. */
static void measure(struct ks_feed *feed, ks_view bytes)
{
    if (feed->expected == 0 && !ks_ok(ks_event_size(bytes, &feed->expected)))
        feed->expected = bytes.size;
}

bool ks_feed_is_whole(const struct ks_feed *feed)
{
    return feed->inbox != NULL && feed->expected > 0 && feed->inbox->size >= feed->expected;
}

static ks_err make_room(struct ks_feed *feed, size_t needed)
{
    size_t last = needed < feed->expected ? feed->expected + PIECE_BYTES : needed;
    size_t wanted = needed * ROOM_TIMES;
    struct ks_block *block;

    if (feed->inbox != NULL && needed <= feed->inbox->capacity)
        return KS_OK;
    /* The last step has room for the records, too: they are read where they lie. */
    if (wanted > feed->expected)
        wanted = ks_builder_capacity(last, KS_READ_RECORDS_MAX);
    KS_TRY(ks_block_new(feed->budget, wanted, &block));
    if (feed->inbox != NULL) {
        memcpy(block->data, feed->inbox->data, feed->inbox->size);
        block->size = feed->inbox->size;
    }
    ks_block_drop(feed->inbox);
    feed->inbox = block;
    return KS_OK;
}

static ks_err begin(void *arg, ks_view head, int64_t size)
{
    struct ks_feed *feed = arg;
    ks_view id = ks_head_find(head, "x-amzn-RequestId");

    (void)size;
    if (!ks_ok(ks_view_copy_text(id, feed->request_id, sizeof(feed->request_id))))
        feed->request_id[0] = '\0';
    drop_inbox(feed);
    feed->answered = true;
    feed->answered_at = ks_loop_now(feed->loop);
    return KS_OK;
}

static ks_err part(void *arg, ks_view bytes)
{
    struct ks_feed *feed = arg;

    if (!feed->wanted || ks_feed_is_whole(feed))
        return KS_FAIL(BUSY);
    if (feed->inbox == NULL)
        measure(feed, bytes);
    KS_TRY(make_room(feed, (feed->inbox == NULL ? 0 : feed->inbox->size) + bytes.size));
    if (bytes.size > 0)
        memcpy(feed->inbox->data + feed->inbox->size, bytes.data, bytes.size);
    feed->inbox->size += bytes.size;
    measure(feed, ks_view_of(feed->inbox->data, feed->inbox->size));
    if (ks_feed_is_whole(feed))
        ks_loop_timer_set(feed->loop, feed->wake, ks_loop_now(feed->loop));
    return KS_OK;
}

/* --- Messages --- */

ks_err ks_feed_read(const struct ks_feed *feed, struct ks_event *ret_event)
{
    size_t size = 0;

    assert(ks_feed_is_whole(feed));
    KS_TRY(ks_event_size(ks_view_of(feed->inbox->data, feed->inbox->size), &size));
    return ks_event_read(ks_view_of(feed->inbox->data, size), ret_event);
}

ks_err ks_feed_take(struct ks_feed *feed, struct ks_block **ret_message)
{
    struct ks_block *message = feed->inbox;
    ks_view left = ks_view_of(message->data + feed->expected, message->size - feed->expected);

    message->size = feed->expected;
    feed->inbox = NULL;
    feed->expected = 0;
    *ret_message = message;
    if (left.size == 0)
        return KS_OK;
    KS_TRY(ks_block_new(feed->budget, left.size, &feed->inbox));
    memcpy(feed->inbox->data, left.data, left.size);
    feed->inbox->size = left.size;
    measure(feed, left);
    return KS_OK;
}

void ks_feed_want(struct ks_feed *feed, bool wanted)
{
    feed->wanted = wanted;
    if (wanted && feed->call != NULL && !ks_feed_is_whole(feed))
        ks_aws_resume(feed->call);
}

/* --- Its life --- */

static void done(void *arg, const struct ks_aws_answer *answer)
{
    struct ks_feed *feed = arg;

    feed->call = NULL;
    feed->ended(feed->arg, answer);
}

ks_err ks_feed_open(struct ks_feed *feed, const struct ks_feed_request *request)
{
    const struct ks_http_sink sink = {.begin = begin, .part = part, .arg = feed};
    const struct ks_aws_request call = {
        .operation = "SubscribeToShard",
        .content_type = request->cbor ? KS_AWS_CBOR_TYPE : NULL,
        .body = request->body,
        .timeout = request->silence,
        .single_attempt = true,
        .response_max = KS_EVENT_HEADERS_BYTES_MAX, /* Of a refusal. */
        .sink = &sink,
        .stream = true,
        .done = done,
        .arg = feed,
    };

    *feed = (struct ks_feed){
        .loop = request->loop,
        .budget = request->budget,
        .wake = request->wake,
        .ended = request->ended,
        .arg = request->arg,
    };
    return ks_aws_call(request->client, &call, &feed->call);
}

void ks_feed_close(struct ks_feed *feed)
{
    if (feed->call != NULL)
        ks_aws_cancel(feed->call);
    drop_inbox(feed);
    *feed = (struct ks_feed){.call = NULL};
}
