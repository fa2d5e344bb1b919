/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/kinesis/feed.h"

#include "adapters/kinesis/builder.h"

#include "aws_rig.h"
#include "event_frames.h"
#include "http_script.h"
#include "ks_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LARGE = 200000, BUDGET = 1 << 20 };

static const char HEAD[] = "HTTP/1.1 200 Said\r\nConnection: close\r\n"
                           "Content-Type: application/vnd.amazon.eventstream\r\n\r\n";

struct rig {
    struct ks_loop *loop;
    struct ks_bytes bytes; /* What the server sends. */
    struct http_step step;
    struct http_script *script;
    char pem[32];
    struct aws_rig aws;
    struct ks_budget budget;
    struct ks_feed feed;
    struct ks_timer wake;
    uint32_t woken;
    uint32_t ended;
    ks_err err;
};

static struct rig *born(void)
{
    static struct rig rig;

    memset(&rig, 0, sizeof(rig));
    ks_bytes_init(&rig.bytes, 4 << 20);
    EXPECT_OK(ks_bytes_append(&rig.bytes, ks_view_text(HEAD)));
    ks_budget_init(&rig.budget, BUDGET);
    return &rig;
}

static void say(struct rig *rig, char fill, size_t size)
{
    char *payload = calloc(1, size + 1);

    memset(payload, fill, size);
    event_frame(&rig->bytes, ":event-type", "Some", "event", payload);
    free(payload);
}

static void woken(struct ks_timer *timer)
{
    KS_LIST_ENTRY(timer, struct rig, wake)->woken++;
}

static void ended(void *arg, const struct ks_aws_answer *answer)
{
    struct rig *rig = arg;

    rig->ended++;
    rig->err = answer->err;
}

static void open_feed(struct rig *rig)
{
    struct aws_rig_options options = {.ca_bundle = rig->pem};
    struct ks_feed_request request = {.body = KS_VIEW("{}"), .silence = ks_span_ms(10000)};

    (void)snprintf(rig->pem, sizeof(rig->pem), "/tmp/ks-feed-XXXXXX");
    int fd = mkstemp(rig->pem);
    EXPECT(fd >= 0);
    (void)close(fd);
    rig->step = (struct http_step){
        .raw = (const char *)rig->bytes.data, .raw_size = rig->bytes.size, .cut = true};
    rig->script = http_script_start_tls(&rig->step, 1, rig->pem);
    EXPECT_OK(ks_loop_new(&rig->loop));
    aws_rig_open_with(&rig->aws, rig->loop, KS_AWS_KINESIS, http_script_url(rig->script), &options);
    rig->wake.due = woken;
    request.loop = rig->loop;
    request.client = rig->aws.client;
    request.budget = &rig->budget;
    request.wake = &rig->wake;
    request.ended = ended;
    request.arg = rig;
    EXPECT_OK(ks_feed_open(&rig->feed, &request));
}

static void end(struct rig *rig)
{
    ks_feed_close(&rig->feed);
    EXPECT_EQ_U64(rig->budget.used, 0);
    ks_loop_timer_clear(rig->loop, &rig->wake);
    aws_rig_close(&rig->aws);
    http_script_stop(rig->script);
    (void)unlink(rig->pem);
    ks_loop_free(rig->loop);
    ks_bytes_free(&rig->bytes);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

static void turn_until_whole(struct rig *rig)
{
    ks_feed_want(&rig->feed, true);
    for (int at = 0; !ks_feed_is_whole(&rig->feed) && rig->ended == 0 && at < 1000; at++)
        ks_loop_turn(rig->loop, ks_span_ms(10));
}

static void expect_message(struct rig *rig, char fill, size_t size)
{
    struct ks_block *message;
    struct ks_event event;

    turn_until_whole(rig);
    EXPECT(ks_feed_is_whole(&rig->feed));
    EXPECT_OK(ks_feed_read(&rig->feed, &event));
    EXPECT_EQ_U64(event.payload.size, size);
    EXPECT(size == 0 || (event.payload.data[0] == fill && event.payload.data[size - 1] == fill));
    EXPECT_OK(ks_feed_take(&rig->feed, &message));
    EXPECT_EQ_U64(event.payload.data + size + 4 - message->data, message->size);
    ks_block_drop(message);
}

TEST(messages_of_every_size_come_whole_and_in_order)
{
    struct rig *rig = born();

    for (int at = 0; at < 6; at++)
        say(rig, (char)('a' + at), at % 2 == 0 ? LARGE : (size_t)at);
    open_feed(rig);
    for (int at = 0; at < 6; at++)
        expect_message(rig, (char)('a' + at), at % 2 == 0 ? LARGE : (size_t)at);
    /* One block with room for the records, and what it grew out of. */
    EXPECT(rig->budget.most < ks_builder_capacity(LARGE + (64 << 10), KS_READ_RECORDS_MAX));
    turn_until_whole(rig);
    EXPECT_EQ_U64(rig->ended, 1);
    EXPECT_OK(rig->err);
    end(rig);
}

static struct ks_block *take(struct rig *rig)
{
    struct ks_block *message;

    EXPECT(ks_feed_is_whole(&rig->feed));
    EXPECT_OK(ks_feed_take(&rig->feed, &message));
    return message;
}

TEST(messages_that_come_together_have_blocks_of_their_own)
{
    struct rig *rig = born();
    struct ks_block *messages[3];
    struct ks_bytes expected;

    say(rig, 'a', 100);
    say(rig, 'b', 1);
    say(rig, 'c', 1000);
    ks_bytes_init(&expected, 4 << 20);
    EXPECT_OK(ks_bytes_append(&expected, ks_view_of(rig->bytes.data + sizeof(HEAD) - 1,
                                                    rig->bytes.size - (sizeof(HEAD) - 1))));
    open_feed(rig);
    turn_until_whole(rig);
    /* They came at once: what lies behind the first one is whole without another turn. */
    for (int at = 0; at < 3; at++)
        messages[at] = take(rig);
    EXPECT(!ks_feed_is_whole(&rig->feed));
    for (size_t at = 0, from = 0; at < 3; from += messages[at++]->size) {
        EXPECT(from + messages[at]->size <= expected.size);
        EXPECT_MEM(messages[at]->data, expected.data + from, messages[at]->size);
        EXPECT_EQ_U64(from + messages[at]->size == expected.size, at == 2);
    }
    EXPECT_EQ_U64(rig->budget.used,
                  messages[0]->capacity + messages[1]->capacity + messages[2]->capacity);
    for (int at = 0; at < 3; at++)
        ks_block_drop(messages[at]);
    ks_bytes_free(&expected);
    end(rig);
}

TEST(a_message_is_there_though_what_is_behind_it_cannot_be_kept)
{
    for (int at = 0; at < 2; at++) {
        struct rig *rig = born();
        struct ks_block *message = NULL;

        say(rig, 'a', 100);
        size_t size = rig->bytes.size - (sizeof(HEAD) - 1);
        say(rig, 'b', 100);
        open_feed(rig);
        turn_until_whole(rig);
        if (at == 0)
            rig->budget.limit = rig->budget.used + size - 1;
        else
            ks_alloc_fail_after(1, 0);
        ks_err err = ks_feed_take(&rig->feed, &message);
        ks_alloc_fail_after(0, 0);
        EXPECT_STR(ks_err_name(err), ks_err_name(at == 0 ? KS_FAIL(FULL) : KS_FAIL(NO_MEMORY)));
        EXPECT_EQ_U64(message->size, size);
        EXPECT(!ks_feed_is_whole(&rig->feed));
        EXPECT_EQ_U64(rig->budget.used, message->capacity);
        ks_block_drop(message);
        EXPECT_EQ_U64(rig->budget.used, 0);
        end(rig);
    }
}

TEST(what_nobody_wants_is_not_taken)
{
    struct rig *rig = born();

    say(rig, 'a', LARGE);
    say(rig, 'b', LARGE);
    open_feed(rig);
    for (int at = 0; !rig->feed.answered && at < 1000; at++)
        ks_loop_turn(rig->loop, ks_span_ms(10));
    EXPECT(rig->feed.answered);
    for (int at = 0; at < 20; at++)
        ks_loop_turn(rig->loop, ks_span_ms(10));
    EXPECT_EQ_U64(rig->budget.used, 0);
    EXPECT_EQ_U64(rig->woken, 0);
    expect_message(rig, 'a', LARGE);
    ks_feed_want(&rig->feed, false);
    for (int at = 0; at < 20; at++)
        ks_loop_turn(rig->loop, ks_span_ms(10));
    /* What came with the end of the first one. */
    EXPECT(rig->budget.used <= (32 << 10));
    expect_message(rig, 'b', LARGE);
    end(rig);
}

TEST(a_length_alone_takes_no_memory)
{
    struct rig *rig = born();
    struct ks_bytes huge;

    ks_bytes_init(&huge, 4 << 20);
    char *payload = calloc(1, (900 << 10) + 1);
    memset(payload, 'h', 900 << 10);
    event_frame(&huge, ":event-type", "Some", "event", payload);
    free(payload);
    EXPECT_OK(ks_bytes_append(&rig->bytes, ks_view_of(huge.data, 1000)));
    ks_bytes_free(&huge);
    open_feed(rig);
    turn_until_whole(rig);
    EXPECT_EQ_U64(rig->ended, 1);
    EXPECT(!ks_feed_is_whole(&rig->feed));
    /* But for the first step. */
    EXPECT(rig->budget.most <= (16 << 10));
    end(rig);
}

TEST(a_budget_without_room_ends_it)
{
    struct rig *rig = born();

    say(rig, 'a', LARGE);
    ks_budget_init(&rig->budget, LARGE / 2);
    open_feed(rig);
    turn_until_whole(rig);
    EXPECT_EQ_U64(rig->ended, 1);
    EXPECT_ERR(rig->err, FULL);
    end(rig);
}

TEST(bytes_that_are_no_event_stream_are_something_to_look_at)
{
    struct rig *rig = born();
    struct ks_event event;

    EXPECT_OK(ks_bytes_append(&rig->bytes, KS_VIEW("<html>this is no event stream</html>")));
    open_feed(rig);
    turn_until_whole(rig);
    EXPECT(ks_feed_is_whole(&rig->feed));
    EXPECT_ERR(ks_feed_read(&rig->feed, &event), MALFORMED);
    end(rig);
}
