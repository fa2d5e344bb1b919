/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/kinesis/user_records.h"

#include "adapters/kinesis/aggregate.h"
#include "base/log.h"
#include "base/metrics.h"
#include "ports/batches.h"

#include <assert.h>
#include <stdio.h>

struct source {
    struct ks_stream_source port;
    struct ks_stream_source_vtable vtable; /* Puts only if the source behind does. */
    struct ks_loop *loop;
    const char *subscription;
    struct ks_stream_source *behind;
};

struct ks_reader {
    struct source *source;
    struct ks_reader *behind; /* The other source's. */
    struct ks_budget *budget;
    char shard[KS_SHARD_ID_MAX + 1];
    struct ks_position from;
    bool resuming;  /* Inside an aggregate: what is at or before `from` is not wanted. */
    bool has_range; /* The shard has part of the hash keys only, and it is known which. */
    struct ks_hash_range range;
    bool told_broken; /* In the log. */
    bool told_foreign;

    /* What came and has not left yet. */
    struct ks_batch raw; /* block NULL: nothing. */
    uint32_t raw_users;  /* Of its block when it came: us, and whoever is behind us. */
    uint32_t next_raw;
    struct ks_aggregate aggregate; /* keys NULL: none is open. */
    bool ready;                    /* `record` is the next to leave. */
    struct ks_record record;
    uint32_t looked; /* Records that this turn has looked at; they may all be passed over. */

    bool waiting; /* A read is in flight. */
    uint32_t max_records;
    uint32_t max_bytes;
    void (*answered)(void *arg, const struct ks_read_answer *answer);
    void *arg;
    struct ks_timer timer; /* For what is answered without the source behind. */
};

static struct source *of_port(struct ks_stream_source *port)
{
    return (struct source *)(void *)port;
}

static const struct source *of_const_port(const struct ks_stream_source *port)
{
    return (const struct source *)(const void *)port;
}

/* --- One record after the other --- */

static void count(const struct ks_reader *reader, enum ks_metric metric, int64_t n)
{
    ks_metric_add_labelled(metric, reader->source->subscription, n);
}

static void note_broken(struct ks_reader *reader, const struct ks_record *raw)
{
    count(reader, KS_METRIC_AGGREGATES_BROKEN, 1);
    if (!reader->told_broken)
        ks_warn(
            "%s: record %.*s looks like an aggregate of the Kinesis Producer Library and cannot be "
            "taken apart; such records are delivered as they are, with \"aggregated\":true",
            reader->shard, (int)raw->sequence.size, (const char *)raw->sequence.data);
    reader->told_broken = true;
}

static void note_foreign(struct ks_reader *reader, const struct ks_record *raw)
{
    count(reader, KS_METRIC_USER_RECORDS_FOREIGN, 1);
    if (!reader->told_foreign)
        ks_info("%s: record %.*s holds user records with hash keys of other shards: their producer "
                "missed a reshard, and puts them again; such are passed over",
                reader->shard, (int)raw->sequence.size, (const char *)raw->sequence.data);
    reader->told_foreign = true;
}

/* The next user record of the open aggregate. False for one that is foreign, and at the end. */
static bool next_user_record(struct ks_reader *reader)
{
    const struct ks_hash_range *range = reader->has_range ? &reader->range : NULL;
    const struct ks_record *raw = &reader->raw.records[reader->next_raw - 1];
    struct ks_user_record user;

    if (!ks_aggregate_next(&reader->aggregate, range, &user)) {
        ks_aggregate_close(&reader->aggregate);
        return false;
    }
    if (user.foreign) {
        note_foreign(reader, raw);
        return false;
    }
    reader->record = *raw;
    reader->record.data = user.data;
    reader->record.partition_key = user.partition_key;
    reader->record.sub_sequence = user.sub_sequence;
    reader->record.aggregated = false;
    return true;
}

/* Opens the next record if it is an aggregate; else it is itself what leaves. NO_MEMORY. */
static ks_err begin_raw(struct ks_reader *reader, bool *ret_found)
{
    const struct ks_record *raw = &reader->raw.records[reader->next_raw];
    ks_err err = KS_FAIL(MALFORMED);

    if (raw->aggregated) {
        err = ks_aggregate_open(raw->data, reader->budget, &reader->aggregate);
        if (ks_err_is(err, KS_ERR_NO_MEMORY))
            return err;
        if (ks_ok(err))
            count(reader, KS_METRIC_AGGREGATES_OPENED, 1);
        else
            note_broken(reader, raw);
    }
    reader->next_raw++;
    reader->record = *raw;
    *ret_found = !ks_ok(err);
    return KS_OK;
}

/* True for what lies at or before the position. */
static bool is_before(struct ks_reader *reader)
{
    if (!reader->resuming)
        return false;
    reader->resuming =
        ks_position_compare(reader->record.sequence, reader->record.sub_sequence,
                            ks_view_text(reader->from.sequence), reader->from.sub_sequence) <= 0;
    return reader->resuming;
}

/* Makes `record` the next to leave: reader->ready. It is not when there is none, or when this turn has looked at
 * enough. NO_MEMORY. */
static ks_err look_ahead(struct ks_reader *reader)
{
    while (!reader->ready && reader->looked < KS_READ_RECORDS_MAX) {
        bool found = false;

        if (reader->aggregate.keys != NULL)
            found = next_user_record(reader);
        else if (reader->next_raw < reader->raw.count)
            KS_TRY(begin_raw(reader, &found));
        else
            return KS_OK;
        reader->looked++;
        reader->ready = found && !is_before(reader);
    }
    return KS_OK;
}

/* --- Batches --- */

static void drop_raw(struct ks_reader *reader)
{
    ks_aggregate_close(&reader->aggregate);
    ks_batch_free(&reader->raw);
    reader->ready = false;
}

/* Room for one more record in the block, which may be NULL; it moves. FULL, NO_MEMORY. */
static ks_err make_room(struct ks_reader *reader, struct ks_block **block)
{
    const size_t least = KS_USER_RECORDS_FIRST * sizeof(struct ks_record);
    struct ks_block *old = *block;
    struct ks_block *larger;

    if (old != NULL && old->size < old->capacity)
        return KS_OK;
    ks_err err = ks_block_new(reader->budget, old == NULL ? least : 2 * old->capacity, &larger);
    /* Nothing of this payload is out there that could come back and make room. */
    if (ks_err_is(err, KS_ERR_FULL) && old == NULL && reader->raw.block->users <= reader->raw_users)
        err = ks_block_force(reader->budget, least, &larger);
    KS_TRY(err);
    if (old != NULL) {
        memcpy(larger->data, old->data, old->size);
        larger->size = old->size;
        ks_block_drop(old);
    }
    *block = larger;
    return KS_OK;
}

/* Takes what a read may have. An error only if there is nothing to take because of it. */
static ks_err take(struct ks_reader *reader, struct ks_batch *batch)
{
    uint64_t bytes = 0;
    ks_err err = look_ahead(reader);

    while (ks_ok(err) && reader->ready && batch->count < reader->max_records) {
        const struct ks_record *record = &reader->record;

        bytes += record->data.size + record->partition_key.size;
        if (batch->count > 0 && bytes > reader->max_bytes)
            break;
        err = make_room(reader, &batch->block);
        if (!ks_ok(err))
            break;
        memcpy(batch->block->data + batch->block->size, record, sizeof(*record));
        batch->block->size += sizeof(*record);
        batch->count++;
        reader->ready = false;
        err = look_ahead(reader);
    }
    return batch->count > 0 ? KS_OK : err;
}

/* What was read is told with the last of it: until then there is more. */
static void finish(struct ks_reader *reader, struct ks_batch *batch)
{
    const struct ks_batch *raw = &reader->raw;
    bool more = reader->ready || reader->next_raw < raw->count || reader->aggregate.keys != NULL;

    if (batch->count > 0) {
        batch->block = ks_block_trim(batch->block);
        batch->records = (const struct ks_record *)(const void *)batch->block->data;
        batch->payload = raw->block;
        ks_block_use(batch->payload);
    }
    batch->millis_behind = raw->millis_behind;
    batch->expired = raw->expired;
    reader->raw.expired = (struct ks_expired){.found = false};
    if (more) {
        batch->millis_behind = raw->millis_behind == 0 ? 1 : raw->millis_behind;
        return;
    }
    batch->at_end = raw->at_end;
    memcpy(batch->children, raw->children, sizeof(batch->children));
    drop_raw(reader);
}

/* --- Answers --- */

static void answer(struct ks_reader *reader, const struct ks_read_answer *answer)
{
    assert(reader->waiting);
    reader->waiting = false;
    reader->answered(reader->arg, answer);
}

static void answer_taken(struct ks_reader *reader)
{
    struct ks_read_answer told = {.err = KS_OK};

    reader->looked = 0;
    told.err = take(reader, &told.batch);
    if (ks_ok(told.err)) {
        int64_t users = 0;
        finish(reader, &told.batch);
        for (uint32_t at = 0; at < told.batch.count; at++)
            users += told.batch.records[at].sub_sequence >= 0;
        count(reader, KS_METRIC_USER_RECORDS, users);
    } else {
        ks_detail_set(&told.detail, "no room for user records of %s in the memory budget",
                      reader->shard);
    }
    answer(reader, &told);
}

static bool is_plain(const struct ks_reader *reader, const struct ks_batch *batch)
{
    bool plain = !reader->resuming || batch->count == 0;

    for (uint32_t at = 0; plain && at < batch->count; at++)
        plain = !batch->records[at].aggregated;
    return plain;
}

static void came(void *arg, const struct ks_read_answer *told)
{
    struct ks_reader *reader = arg;

    if (!ks_ok(told->err) || is_plain(reader, &told->batch)) {
        answer(reader, told);
        return;
    }
    assert(told->batch.payload == NULL);
    reader->raw = told->batch;
    reader->raw_users = told->batch.block->users;
    reader->next_raw = 0;
    answer_taken(reader);
}

static void timer_due(struct ks_timer *timer)
{
    answer_taken(KS_LIST_ENTRY(timer, struct ks_reader, timer));
}

/* --- The port --- */

static ks_err source_open(struct ks_stream_source *port, const char *shard,
                          const struct ks_position *from, struct ks_budget *budget,
                          struct ks_reader **ret_reader)
{
    struct source *source = of_port(port);
    struct ks_reader *reader = ks_alloc(sizeof(*reader));

    if (reader == NULL)
        return KS_FAIL(NO_MEMORY);
    reader->source = source;
    reader->budget = budget;
    reader->from = *from;
    reader->resuming = from->kind == KS_POSITION_AFTER_SEQUENCE && from->sub_sequence >= 0;
    reader->timer.due = timer_due;
    (void)snprintf(reader->shard, sizeof(reader->shard), "%s", shard);
    ks_err err = source->behind->vtable->open(source->behind, shard, from, budget, &reader->behind);
    if (!ks_ok(err)) {
        ks_free(reader);
        return err;
    }
    *ret_reader = reader;
    return KS_OK;
}

static void source_set_range(struct ks_reader *reader, const char *hash_start, const char *hash_end)
{
    struct ks_hash_range *range = &reader->range;
    bool known = ks_ok(ks_hash_key_parse(ks_view_text(hash_start), &range->start)) &&
                 ks_ok(ks_hash_key_parse(ks_view_text(hash_end), &range->end));

    assert(!reader->waiting);
    reader->has_range = known && (range->start > 0 || range->end < KS_HASH_KEY_LAST);
}

static void source_read(struct ks_reader *reader, uint32_t max_records, uint32_t max_bytes,
                        void (*answered)(void *arg, const struct ks_read_answer *answer), void *arg)
{
    struct source *source = reader->source;

    assert(!reader->waiting);
    reader->waiting = true;
    reader->max_records = max_records;
    reader->max_bytes = max_bytes;
    reader->answered = answered;
    reader->arg = arg;
    if (reader->raw.block != NULL)
        ks_loop_timer_set(source->loop, &reader->timer, ks_loop_now(source->loop));
    else
        source->behind->vtable->read(reader->behind, max_records, max_bytes, came, reader);
}

static void source_close_reader(struct ks_reader *reader)
{
    reader->source->behind->vtable->close_reader(reader->behind);
    ks_loop_timer_clear(reader->source->loop, &reader->timer);
    drop_raw(reader);
    ks_free(reader);
}

static void source_describe(struct ks_stream_source *port,
                            void (*answered)(void *arg, const struct ks_describe_answer *answer),
                            void *arg)
{
    struct ks_stream_source *behind = of_port(port)->behind;

    behind->vtable->describe(behind, answered, arg);
}

static void source_list(struct ks_stream_source *port, int64_t since_ms,
                        void (*answered)(void *arg, const struct ks_list_answer *answer), void *arg)
{
    struct ks_stream_source *behind = of_port(port)->behind;

    behind->vtable->list(behind, since_ms, answered, arg);
}

static int64_t source_now_ms(struct ks_stream_source *port)
{
    struct ks_stream_source *behind = of_port(port)->behind;

    return behind->vtable->now_ms(behind);
}

static int64_t source_retention_ms(struct ks_stream_source *port)
{
    struct ks_stream_source *behind = of_port(port)->behind;

    return behind->vtable->retention_ms == NULL ? 0 : behind->vtable->retention_ms(behind);
}

static void source_put(struct ks_stream_source *port, const struct ks_put_entry *entries,
                       uint32_t count,
                       void (*answered)(void *arg, const struct ks_put_answer *answer), void *arg)
{
    struct ks_stream_source *behind = of_port(port)->behind;

    behind->vtable->put(behind, entries, count, answered, arg);
}

static enum ks_store_state source_state(const struct ks_stream_source *port,
                                        struct ks_detail *ret_detail)
{
    const struct ks_stream_source *behind = of_const_port(port)->behind;

    return behind->vtable->state(behind, ret_detail);
}

static void source_close(struct ks_stream_source *port)
{
    struct source *source = of_port(port);

    source->behind->vtable->close(source->behind);
    ks_free(source);
}

ks_err ks_user_records_source_open(struct ks_loop *loop, const char *subscription,
                                   struct ks_stream_source *behind,
                                   struct ks_stream_source **ret_source)
{
    static const struct ks_stream_source_vtable vtable = {
        .describe = source_describe,
        .list = source_list,
        .open = source_open,
        .set_range = source_set_range,
        .read = source_read,
        .close_reader = source_close_reader,
        .now_ms = source_now_ms,
        .retention_ms = source_retention_ms,
        .put = source_put,
        .state = source_state,
        .close = source_close,
    };
    struct source *source = ks_alloc(sizeof(*source));

    if (source == NULL)
        return KS_FAIL(NO_MEMORY);
    source->vtable = vtable;
    if (behind->vtable->put == NULL)
        source->vtable.put = NULL;
    source->port.vtable = &source->vtable;
    source->loop = loop;
    source->subscription = subscription;
    source->behind = behind;
    *ret_source = &source->port;
    return KS_OK;
}
