/* SPDX-License-Identifier: Apache-2.0 */
#include "fanout_rig.h"

#include "event_frames.h"
#include "ks_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char ARN[] = "arn:aws:kinesis:us-east-1:123456789012:stream/demo/consumer/unit:1";
static const char HEAD[] =
    "HTTP/1.1 200 Said\r\nx-amzn-RequestId: 1\r\nTransfer-Encoding: chunked\r\n"
    "Content-Type: application/vnd.amazon.eventstream\r\n\r\n";

struct fanout_rig *fanout_rig_new(void)
{
    static struct fanout_rig rig;

    memset(&rig, 0, sizeof(rig));
    rig.options = (struct ks_fanout_options){
        .consumer = ARN,
        .subscription = "unit",
        .protocol = KS_WIRE_JSON,
        .apart_ms = FANOUT_RIG_APART_MS,
        .silence_ms = 5000,
    };
    return &rig;
}

/* --- The script --- */

static struct http_step *next_step(struct fanout_rig *rig)
{
    EXPECT(rig->step_count < FANOUT_RIG_STEPS);
    ks_bytes_init(&rig->streams[rig->step_count], 1 << 20);
    return &rig->steps[rig->step_count++];
}

static struct ks_bytes *stream(struct fanout_rig *rig)
{
    return &rig->streams[rig->step_count - 1];
}

/* Where the bytes lie is known at the end only. */
static void settle(struct fanout_rig *rig)
{
    rig->steps[rig->step_count - 1].raw = (const char *)stream(rig)->data;
    rig->steps[rig->step_count - 1].raw_size = stream(rig)->size;
}

void fanout_rig_stream(struct fanout_rig *rig)
{
    (void)next_step(rig);
    EXPECT_OK(ks_bytes_append(stream(rig), ks_view_text(HEAD)));
    settle(rig);
}

/* A chunk of HTTP. */
static void say(struct fanout_rig *rig, ks_view bytes)
{
    EXPECT_OK(ks_bytes_format(stream(rig), "%zx\r\n", bytes.size));
    EXPECT_OK(ks_bytes_append(stream(rig), bytes));
    EXPECT_OK(ks_bytes_append(stream(rig), KS_VIEW("\r\n")));
    settle(rig);
}

void fanout_rig_message(struct fanout_rig *rig, const char *name, const char *value,
                        const char *type, const char *payload)
{
    struct ks_bytes frame;

    ks_bytes_init(&frame, 1 << 20);
    event_frame(&frame, name, value, type, payload);
    say(rig, ks_bytes_view(&frame));
    ks_bytes_free(&frame);
}

static const char EVENT_TYPE[] = "SubscribeToShardEvent";

void fanout_rig_event(struct fanout_rig *rig, const char *payload)
{
    fanout_rig_message(rig, ":event-type", EVENT_TYPE, "event", payload);
}

size_t fanout_rig_two_events(struct fanout_rig *rig, const char *first, const char *second)
{
    struct ks_bytes frames;
    size_t size;

    ks_bytes_init(&frames, 1 << 20);
    event_frame(&frames, ":event-type", EVENT_TYPE, "event", first);
    event_frame(&frames, ":event-type", EVENT_TYPE, "event", second);
    say(rig, ks_bytes_view(&frames));
    size = frames.size;
    ks_bytes_free(&frames);
    return size;
}

void fanout_rig_spoil(struct fanout_rig *rig)
{
    stream(rig)->data[stream(rig)->size - 3] ^= 1;
}

void fanout_rig_end(struct fanout_rig *rig)
{
    EXPECT_OK(ks_bytes_append(stream(rig), KS_VIEW("0\r\n\r\n")));
    settle(rig);
}

void fanout_rig_cut(struct fanout_rig *rig)
{
    rig->steps[rig->step_count - 1].cut = true;
}

void fanout_rig_refuse(struct fanout_rig *rig, int status, const char *body)
{
    *next_step(rig) = (struct http_step){
        .status = status, .headers = "Content-Type: application/x-amz-json-1.1\r\n", .body = body};
}

void fanout_rig_silence(struct fanout_rig *rig)
{
    next_step(rig)->silent = true;
}

/* --- Its life --- */

void fanout_rig_open(struct fanout_rig *rig, enum ks_position_kind kind)
{
    struct ks_position from = {
        .kind = kind, .sequence = "200", .sub_sequence = -1, .timestamp_ms = 1795219200123};
    struct aws_rig_options options = {.ca_bundle = rig->pem};

    (void)snprintf(rig->pem, sizeof(rig->pem), "/tmp/ks-fanout-XXXXXX");
    int fd = mkstemp(rig->pem);
    EXPECT(fd >= 0);
    (void)close(fd);
    rig->script = http_script_start_tls(rig->steps, rig->step_count, rig->pem);
    EXPECT_OK(ks_loop_new(&rig->loop));
    aws_rig_open_with(&rig->aws, rig->loop, KS_AWS_KINESIS, http_script_url(rig->script), &options);
    EXPECT_OK(ks_fanout_source_open(rig->loop, rig->aws.client,
                                    "arn:aws:kinesis:us-east-1:123456789012:stream/demo",
                                    &rig->options, &rig->source, NULL));
    if (rig->budget.limit == 0)
        ks_budget_init(&rig->budget, 64 << 20);
    EXPECT_OK(rig->source->vtable->open(rig->source, "shardId-000000000000", &from, &rig->budget,
                                        &rig->reader));
}

void fanout_rig_close(struct fanout_rig *rig)
{
    rig->source->vtable->close_reader(rig->reader);
    rig->source->vtable->close(rig->source);
    aws_rig_close(&rig->aws);
    http_script_stop(rig->script);
    (void)unlink(rig->pem);
    ks_loop_free(rig->loop);
    for (uint32_t at = 0; at < rig->step_count; at++)
        ks_bytes_free(&rig->streams[at]);
    EXPECT_EQ_U64(rig->budget.used, 0);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

/* --- Reads --- */

static void keep(void *arg, const struct ks_read_answer *answer)
{
    struct fanout_rig *rig = arg;

    EXPECT(rig->reading);
    rig->reading = false;
    rig->answer = *answer;
}

void fanout_rig_ask(struct fanout_rig *rig, uint32_t records)
{
    EXPECT(!rig->reading);
    rig->reading = true;
    rig->source->vtable->read(rig->reader, records, 1 << 20, keep, rig);
    EXPECT(rig->reading);
}

struct ks_read_answer fanout_rig_read(struct fanout_rig *rig, uint32_t records)
{
    fanout_rig_ask(rig, records);
    for (int at = 0; rig->reading && at < 300; at++)
        ks_loop_turn(rig->loop, ks_span_ms(100));
    EXPECT(!rig->reading);
    return rig->answer;
}

void fanout_rig_expect(struct fanout_rig *rig, uint32_t records, const char *sequences)
{
    struct ks_read_answer answer = {.err = KS_OK};
    char seen[256] = "";
    size_t size = 0;

    for (int at = 0; at < 20 && answer.batch.count == 0 && !answer.batch.at_end; at++) {
        ks_batch_free(&answer.batch);
        answer = fanout_rig_read(rig, records);
        EXPECT_STR(ks_ok(answer.err) ? "" : answer.detail.text, "");
    }
    for (uint32_t at = 0; at < answer.batch.count; at++)
        size += (size_t)snprintf(seen + size, sizeof(seen) - size, "%s%.*s", at == 0 ? "" : " ",
                                 (int)answer.batch.records[at].sequence.size,
                                 (const char *)answer.batch.records[at].sequence.data);
    EXPECT_STR(seen, sequences);
    ks_batch_free(&answer.batch);
}

void fanout_rig_turn(struct fanout_rig *rig, int ms)
{
    ks_instant until = ks_instant_add(ks_instant_now(), ks_span_ms(ms));

    do
        ks_loop_turn(rig->loop, ks_span_ms(10));
    while (!ks_instant_reached(ks_loop_now(rig->loop), until));
}

void fanout_rig_asked(struct fanout_rig *rig, size_t index, const char *part)
{
    EXPECT_CONTAINS(http_script_request(rig->script, index), part);
}
