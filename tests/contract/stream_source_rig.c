/* SPDX-License-Identifier: Apache-2.0 */
#include "stream_source_rig.h"

#include "adapters/kinesis/user_records.h"
#include "base/digest.h"

#include <stdio.h>
#include <string.h>

enum { READ_BYTES = 8 << 20 };

static void run(const struct stream_rig_adapter *adapter, uint32_t shards, bool user_records,
                void (*test)(struct stream_rig *rig))
{
    struct stream_rig rig = {.adapter = adapter};
    int64_t before = ks_alloc_live();

    (void)snprintf(rig.stream, sizeof(rig.stream), "s%016llx", (unsigned long long)ks_random_u64());
    ks_budget_init(&rig.budget, 64 << 20);
    EXPECT_OK(ks_loop_new(&rig.loop));
    adapter->set_up(&rig, shards);
    rig.source = adapter->open(&rig, 0);
    if (user_records)
        EXPECT_OK(ks_user_records_source_open(rig.loop, "demo", rig.source, &rig.source));
    test(&rig);
    rig.source->vtable->close(rig.source);
    ks_loop_await_jobs(rig.loop, ks_span_ms(STREAM_WAIT_SECONDS * 1000));
    adapter->tear_down(&rig);
    EXPECT_EQ_U64(rig.budget.used, 0);
    ks_loop_free(rig.loop);
    EXPECT_EQ_I64(ks_alloc_live(), before);
}

void stream_rig_run(const struct stream_rig_adapter *adapter, uint32_t shards,
                    void (*test)(struct stream_rig *rig))
{
    run(adapter, shards, false, test);
}

void stream_rig_run_user_records(const struct stream_rig_adapter *adapter, uint32_t shards,
                                 void (*test)(struct stream_rig *rig))
{
    run(adapter, shards, true, test);
}

void stream_rig_turn_for(struct stream_rig *rig, int ms)
{
    ks_instant until;

    ks_loop_turn(rig->loop, ks_span_ms(0));
    until = ks_instant_add(ks_loop_now(rig->loop), ks_span_ms(ms));
    while (ks_instant_before(ks_loop_now(rig->loop), until))
        ks_loop_turn(rig->loop, ks_instant_since(until, ks_loop_now(rig->loop)));
}

void stream_rig_wait(struct stream_rig *rig, const uint32_t *times, int seconds)
{
    ks_instant until;

    ks_loop_turn(rig->loop, ks_span_ms(0));
    until = ks_instant_add(ks_loop_now(rig->loop), ks_span_ms(1000 * (int64_t)seconds));
    while (*times == 0) {
        if (ks_instant_reached(ks_loop_now(rig->loop), until))
            FAIL("no answer within %d s", seconds);
        ks_loop_turn(rig->loop, ks_span_ms(100));
    }
}

static void keep_listing(void *arg, const struct ks_list_answer *answer)
{
    struct stream_listing *listing = arg;

    listing->times++;
    listing->err = answer->err;
    listing->detail = answer->detail;
    listing->count = answer->count;
    EXPECT(answer->count <= STREAM_RIG_SHARDS);
    if (answer->count > 0)
        memcpy(listing->shards, answer->shards, answer->count * sizeof(*answer->shards));
}

void stream_rig_list(struct stream_rig *rig, struct ks_stream_source *source, int64_t since_ms,
                     struct stream_listing *ret_listing)
{
    memset(ret_listing, 0, sizeof(*ret_listing));
    source->vtable->list(source, since_ms, keep_listing, ret_listing);
    EXPECT_EQ_U64(ret_listing->times, 0);
    stream_rig_wait(rig, &ret_listing->times, STREAM_WAIT_SECONDS);
    EXPECT_EQ_U64(ret_listing->times, 1);
    EXPECT_STR(ks_ok(ret_listing->err) ? "" : ret_listing->detail.text, "");
}

struct ks_reader *stream_rig_open(struct stream_rig *rig, const char *shard,
                                  enum ks_position_kind kind, const char *sequence,
                                  int64_t timestamp_ms)
{
    struct ks_position from = {.kind = kind, .timestamp_ms = timestamp_ms, .sub_sequence = -1};
    struct ks_reader *reader;

    if (sequence != NULL)
        (void)snprintf(from.sequence, sizeof(from.sequence), "%s", sequence);
    EXPECT_OK(rig->source->vtable->open(rig->source, shard, &from, &rig->budget, &reader));
    return reader;
}

struct ks_reader *stream_rig_open_inside(struct stream_rig *rig, const char *shard,
                                         const char *sequence, int64_t sub_sequence)
{
    struct ks_position from = {.kind = KS_POSITION_AFTER_SEQUENCE, .sub_sequence = sub_sequence};
    struct ks_reader *reader;

    (void)snprintf(from.sequence, sizeof(from.sequence), "%s", sequence);
    EXPECT_OK(rig->source->vtable->open(rig->source, shard, &from, &rig->budget, &reader));
    return reader;
}

static void keep_read(void *arg, const struct ks_read_answer *answer)
{
    struct stream_read *read = arg;

    read->times++;
    read->answer = *answer;
}

void stream_rig_ask(struct stream_rig *rig, struct ks_reader *reader, uint32_t records,
                    struct stream_read *read)
{
    memset(read, 0, sizeof(*read));
    rig->source->vtable->read(reader, records, READ_BYTES, keep_read, read);
    EXPECT_EQ_U64(read->times, 0);
}

void stream_rig_read(struct stream_rig *rig, struct ks_reader *reader, uint32_t records,
                     struct stream_read *ret_read)
{
    stream_rig_ask(rig, reader, records, ret_read);
    stream_rig_wait(rig, &ret_read->times, STREAM_WAIT_SECONDS);
    EXPECT_EQ_U64(ret_read->times, 1);
}

void stream_rig_close(struct stream_rig *rig, struct ks_reader *reader)
{
    rig->source->vtable->close_reader(reader);
}

uint64_t stream_rig_sum(const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    uint64_t sum = 0;

    for (size_t index = 0; index < size; index++)
        sum = sum * 31 + at[index];
    return sum;
}

static void copy_record(const struct ks_record *record, struct stream_copied *copied)
{
    memset(copied, 0, sizeof(*copied));
    EXPECT_OK(ks_view_copy_text(record->sequence, copied->sequence, sizeof(copied->sequence)));
    EXPECT_OK(ks_view_copy_text(record->partition_key, copied->key, sizeof(copied->key)));
    copied->size = record->data.size;
    copied->sum = stream_rig_sum(record->data.data, record->data.size);
    memcpy(copied->data, record->data.data,
           record->data.size < sizeof(copied->data) ? record->data.size : sizeof(copied->data) - 1);
    copied->arrival_ms = record->arrival_ms;
    copied->sub_sequence = record->sub_sequence;
    copied->aggregated = record->aggregated;
}

void stream_rig_collect(struct stream_rig *rig, struct ks_reader *reader, uint32_t count,
                        uint32_t each, struct stream_copy *copy)
{
    ks_instant until =
        ks_instant_add(ks_loop_now(rig->loop), ks_span_ms(STREAM_WAIT_SECONDS * 1000));
    struct stream_read read;

    memset(copy, 0, sizeof(*copy));
    while (copy->count < count && !copy->at_end) {
        if (ks_instant_reached(ks_loop_now(rig->loop), until))
            FAIL("%u of %u records came within %d s", copy->count, count, STREAM_WAIT_SECONDS);
        stream_rig_read(rig, reader, each, &read);
        /* Several readers of a shard ask for more than it may give. */
        if (read.answer.throttled)
            continue;
        EXPECT_STR(ks_ok(read.answer.err) ? "" : read.answer.detail.text, "");
        EXPECT(read.answer.batch.count <= each);
        EXPECT(copy->count + read.answer.batch.count <= 512);
        for (uint32_t at = 0; at < read.answer.batch.count; at++)
            copy_record(&read.answer.batch.records[at], &copy->records[copy->count++]);
        copy->at_end = read.answer.batch.at_end;
        memcpy(copy->children, read.answer.batch.children, sizeof(copy->children));
        ks_batch_free(&read.answer.batch);
    }
}

void stream_rig_collect_from(struct stream_rig *rig, const char *shard, enum ks_position_kind kind,
                             const char *sequence, int64_t timestamp_ms, uint32_t count,
                             struct stream_copy *copy)
{
    struct ks_reader *reader = stream_rig_open(rig, shard, kind, sequence, timestamp_ms);

    stream_rig_collect(rig, reader, count, 100, copy);
    stream_rig_close(rig, reader);
}

void stream_rig_put(struct stream_rig *rig, const char *key, const char *hash, const char *data,
                    struct ks_put_result *ret_result)
{
    struct ks_put_result result;
    struct ks_put_entry entry = {.data = ks_view_text(data), .partition_key = ks_view_text(key)};

    if (hash != NULL)
        entry.explicit_hash_key = ks_view_text(hash);
    rig->adapter->put(rig, &entry, ret_result == NULL ? &result : ret_result);
}
