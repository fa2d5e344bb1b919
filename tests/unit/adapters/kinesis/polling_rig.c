/* SPDX-License-Identifier: Apache-2.0 */
#include "polling_rig.h"

#include "ks_test.h"

#include <stdio.h>

const struct ks_kinesis_options POLLING_RIG_JSON = {.protocol = KS_WIRE_JSON};
const struct ks_kinesis_options POLLING_RIG_CBOR = {.protocol = KS_WIRE_AUTO};

struct polling_rig *polling_rig_born(const struct ks_kinesis_options *options,
                                     enum ks_position_kind kind)
{
    static struct polling_rig rig;

    EXPECT_OK(ks_loop_new(&rig.loop));
    canned_open(&rig.canned, rig.loop);
    aws_rig_open(&rig.aws, rig.loop, KS_AWS_KINESIS, rig.canned.url);
    EXPECT_OK(
        ks_kinesis_source_open_with(rig.loop, rig.aws.client, "demo", options, &rig.source, NULL));
    ks_budget_init(&rig.budget, 64 << 20);
    rig.from = (struct ks_position){
        .kind = kind, .sequence = "200", .sub_sequence = -1, .timestamp_ms = 1795219200123};
    EXPECT_OK(rig.source->vtable->open(rig.source, "shardId-000000000000", &rig.from, &rig.budget,
                                       &rig.reader));
    return &rig;
}

void polling_rig_end(struct polling_rig *rig)
{
    rig->source->vtable->close_reader(rig->reader);
    rig->source->vtable->close(rig->source);
    aws_rig_close(&rig->aws);
    canned_close(&rig->canned);
    ks_loop_free(rig->loop);
    EXPECT_EQ_U64(rig->budget.used, 0);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

void polling_rig_say(struct polling_rig *rig, const char *operation, int status, const char *body)
{
    canned_say(&rig->canned,
               (struct canned_answer){.operation = operation, .status = status, .body = body});
}

void polling_rig_keep(void *arg, const struct ks_read_answer *answer)
{
    struct polling_read *read = arg;

    read->times++;
    read->answer = *answer;
}

void polling_rig_await(struct polling_rig *rig, const uint32_t *times)
{
    const ks_instant until = ks_instant_add(ks_instant_now(), ks_span_ms(30000));

    while (*times == 0 && !ks_instant_reached(ks_instant_now(), until))
        ks_loop_turn(rig->loop, ks_span_ms(100));
}

struct ks_read_answer polling_rig_read(struct polling_rig *rig, uint32_t max_bytes)
{
    struct polling_read read = {.times = 0};

    rig->source->vtable->read(rig->reader, 100, max_bytes, polling_rig_keep, &read);
    polling_rig_await(rig, &read.times);
    EXPECT_EQ_U64(read.times, 1);
    return read.answer;
}

void polling_rig_expect(struct polling_rig *rig, const char *sequences)
{
    struct ks_read_answer answer = polling_rig_read(rig, 1 << 20);
    char seen[256] = "";
    size_t size = 0;

    EXPECT_STR(ks_ok(answer.err) ? "" : answer.detail.text, "");
    for (uint32_t at = 0; at < answer.batch.count; at++)
        size += (size_t)snprintf(seen + size, sizeof(seen) - size, "%s%.*s", at == 0 ? "" : " ",
                                 (int)answer.batch.records[at].sequence.size,
                                 (const char *)answer.batch.records[at].sequence.data);
    EXPECT_STR(seen, sequences);
    ks_batch_free(&answer.batch);
}

int64_t polling_rig_ms_between(const struct polling_rig *rig, uint32_t from, uint32_t to)
{
    return ks_span_to_ms(
        ks_instant_since(rig->canned.requests[to].at, rig->canned.requests[from].at));
}
