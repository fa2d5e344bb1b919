/* SPDX-License-Identifier: Apache-2.0 */
#include "memory_source.h"

#include "meter.h"

#include "base/list.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    SHARDS_MAX = 1024,
    POOL_BYTES = 4 << 20, /* Data of many records, different ones. */
    SEQUENCE_DIGITS = 56, /* As those of Kinesis; the last ones are the record's number. */
    NUMBER_DIGITS = 19
};
static const char key[] = "customer-0123456789";
static const char sequence_base[SEQUENCE_DIGITS + 1] =
    "49645327895623781234567890123456789010000000000000000000";

struct source {
    struct ks_stream_source port;
    struct memory_source_config config;
    struct ks_loop *loop;
    struct ks_timer timer; /* Answers, in the turn after the question, .. */
    struct ks_timer reads; /* .. and those of reads. */
    ks_instant next_at;    /* Of reads, if records come by and by. */
    struct ks_link asking; /* Readers with a read in flight. */
    struct ks_link mark;   /* In it while they are answered. */
    uint8_t *pool;
    void (*describe_answered)(void *arg, const struct ks_describe_answer *answer);
    void *describe_arg;
    void (*list_answered)(void *arg, const struct ks_list_answer *answer);
    void *list_arg;
    struct ks_shard_listing *listing;
};

struct ks_reader {
    struct source *source;
    struct ks_budget *budget;
    struct ks_link link; /* In source->asking. */
    uint64_t next;
    uint32_t max_records;
    uint32_t max_bytes;
    void (*answered)(void *arg, const struct ks_read_answer *answer);
    void *arg;
};

static void *memory_of(size_t size)
{
    void *memory = calloc(1, size);

    if (memory == NULL)
        meter_fail("no memory for %zu bytes", size);
    return memory;
}

static struct source *source_of(struct ks_stream_source *port)
{
    return KS_LIST_ENTRY(port, struct source, port);
}

/* ---- Records ---- */

/* Where the data of a record lies in the pool: anywhere, but always there. */
static const uint8_t *data_of(const struct source *source, uint64_t number)
{
    uint64_t places = POOL_BYTES / source->config.record_bytes;

    return source->pool + number % places * source->config.record_bytes;
}

static void write_sequence(char *digits, uint64_t number)
{
    memcpy(digits, sequence_base, SEQUENCE_DIGITS);
    for (int i = SEQUENCE_DIGITS - 1; number > 0; i--, number /= 10)
        digits[i] = (char)('0' + number % 10);
}

static void count_up(char *digits)
{
    int i = SEQUENCE_DIGITS - 1;

    for (; digits[i] == '9'; i--)
        digits[i] = '0';
    digits[i]++;
}

struct ks_record memory_source_record(const struct ks_stream_source *port, uint64_t number,
                                      char *sequence)
{
    const struct source *source = (const struct source *)(const void *)port;

    write_sequence(sequence, number);
    return (struct ks_record){
        .data = ks_view_of(data_of(source, number), source->config.record_bytes),
        .partition_key = ks_view_of(key, sizeof key - 1),
        .sequence = ks_view_of(sequence, SEQUENCE_DIGITS),
        .sub_sequence = -1,
        .arrival_ms = INT64_C(1800000000000) + (int64_t)(number / 10),
    };
}

/* The block: records, then sequence numbers, then the data, if it is copied. */
static ks_err make_batch(struct ks_reader *reader, struct ks_batch *ret_batch)
{
    const struct source *source = reader->source;
    uint32_t size = source->config.record_bytes;
    uint32_t count = reader->max_bytes / (size + (uint32_t)sizeof key - 1);
    size_t of_data = source->config.copies ? size : 0;
    uint64_t stamp = (uint64_t)(meter_now() * 1e9);
    char digits[SEQUENCE_DIGITS];
    struct ks_record *records;
    struct ks_block *block;
    uint8_t *sequences;
    uint8_t *data;

    count = count < reader->max_records ? count : reader->max_records;
    if (source->config.records_per_ms > 0 && count > source->config.records_per_ms)
        count = source->config.records_per_ms;
    count = count > 0 ? count : 1;
    KS_TRY(ks_block_new(reader->budget, count * (sizeof *records + SEQUENCE_DIGITS + of_data),
                        &block));
    records = (struct ks_record *)(void *)block->data;
    sequences = block->data + count * sizeof *records;
    data = sequences + (size_t)count * SEQUENCE_DIGITS;
    write_sequence(digits, reader->next);
    for (uint32_t i = 0; i < count; i++, count_up(digits)) {
        uint64_t number = reader->next + i;
        const uint8_t *from = data_of(source, number);

        memcpy(sequences, digits, SEQUENCE_DIGITS);
        if (source->config.copies)
            from = memcpy(data, from, size);
        if (source->config.stamped)
            memcpy(data, &stamp, sizeof stamp);
        records[i] = (struct ks_record){
            .data = ks_view_of(from, size),
            .partition_key = ks_view_of(key, sizeof key - 1),
            .sequence = ks_view_of(sequences, SEQUENCE_DIGITS),
            .sub_sequence = -1,
            .arrival_ms = INT64_C(1800000000000) + (int64_t)(number / 10),
        };
        sequences += SEQUENCE_DIGITS;
        data += of_data;
    }
    block->size = block->capacity;
    reader->next += count;
    *ret_batch = (struct ks_batch){
        .block = block, .records = records, .count = count, .millis_behind = 1000};
    return KS_OK;
}

static void answer_read(struct ks_reader *reader)
{
    struct ks_read_answer answer = {.err = KS_OK};
    void (*answered)(void *arg, const struct ks_read_answer *answer) = reader->answered;

    ks_list_remove(&reader->link);
    reader->answered = NULL;
    answer.err = make_batch(reader, &answer.batch);
    answered(reader->arg, &answer); /* It may read again, or close. */
}

/* ---- Answers ---- */

static void answer_describe(struct source *source)
{
    struct ks_describe_answer answer = {
        .err = KS_OK, .stream_arn = "arn:bench:memory", .created_ms = 1};
    void (*answered)(void *arg, const struct ks_describe_answer *answer) =
        source->describe_answered;

    source->describe_answered = NULL;
    answered(source->describe_arg, &answer);
}

static void answer_list(struct source *source)
{
    struct ks_list_answer answer = {
        .err = KS_OK, .shards = source->listing, .count = source->config.shards};
    void (*answered)(void *arg, const struct ks_list_answer *answer) = source->list_answered;

    source->list_answered = NULL;
    answered(source->list_arg, &answer);
}

static void due(struct ks_timer *timer)
{
    struct source *source = KS_LIST_ENTRY(timer, struct source, timer);
    if (source->describe_answered != NULL)
        answer_describe(source);
    if (source->list_answered != NULL)
        answer_list(source);
}

static void reads_due(struct ks_timer *timer)
{
    struct source *source = KS_LIST_ENTRY(timer, struct source, reads);

    source->next_at = ks_instant_add(ks_loop_now(source->loop), ks_span_ms(1));
    /* Reads that are asked for meanwhile come after the mark, and wait for the next turn. */
    ks_list_append(&source->asking, &source->mark);
    while (source->asking.next != &source->mark)
        answer_read(KS_LIST_ENTRY(source->asking.next, struct ks_reader, link));
    ks_list_remove(&source->mark);
}

static void answer_soon(struct source *source)
{
    ks_loop_timer_set(source->loop, &source->timer, ks_loop_now(source->loop));
}

static void answer_read_soon(struct source *source)
{
    ks_instant at = ks_loop_now(source->loop);

    if (source->config.records_per_ms > 0 && ks_instant_before(at, source->next_at))
        at = source->next_at;
    ks_loop_timer_set(source->loop, &source->reads, at);
}

/* ---- The port ---- */

static void describe(struct ks_stream_source *port,
                     void (*answered)(void *arg, const struct ks_describe_answer *answer),
                     void *arg)
{
    struct source *source = source_of(port);

    source->describe_answered = answered;
    source->describe_arg = arg;
    answer_soon(source);
}

static void list(struct ks_stream_source *port, int64_t since_ms,
                 void (*answered)(void *arg, const struct ks_list_answer *answer), void *arg)
{
    struct source *source = source_of(port);

    (void)since_ms; /* None of them is ever closed. */
    source->list_answered = answered;
    source->list_arg = arg;
    answer_soon(source);
}

static ks_err open_reader(struct ks_stream_source *port, const char *shard,
                          const struct ks_position *from, struct ks_budget *budget,
                          struct ks_reader **ret_reader)
{
    struct ks_reader *reader = memory_of(sizeof *reader);

    (void)shard;
    reader->source = source_of(port);
    reader->budget = budget;
    if (from->kind == KS_POSITION_AFTER_SEQUENCE)
        reader->next = strtoull(from->sequence + SEQUENCE_DIGITS - NUMBER_DIGITS, NULL, 10) + 1;
    ks_link_init(&reader->link);
    *ret_reader = reader;
    return KS_OK;
}

static void read_some(struct ks_reader *reader, uint32_t max_records, uint32_t max_bytes,
                      void (*answered)(void *arg, const struct ks_read_answer *answer), void *arg)
{
    assert(reader->answered == NULL);
    reader->max_records = max_records;
    reader->max_bytes = max_bytes;
    reader->answered = answered;
    reader->arg = arg;
    ks_list_append(&reader->source->asking, &reader->link);
    answer_read_soon(reader->source);
}

static void close_reader(struct ks_reader *reader)
{
    ks_list_remove(&reader->link);
    free(reader);
}

static enum ks_store_state state(const struct ks_stream_source *port, struct ks_detail *ret_detail)
{
    (void)port;
    (void)ret_detail;
    return KS_STORE_READY;
}

static int64_t now_ms(struct ks_stream_source *port)
{
    (void)port;
    return ks_wall_now().ms;
}

static void close_source(struct ks_stream_source *port)
{
    struct source *source = source_of(port);

    ks_loop_timer_clear(source->loop, &source->timer);
    ks_loop_timer_clear(source->loop, &source->reads);
    free(source->pool);
    free(source->listing);
    free(source);
}

struct ks_stream_source *memory_source_new(struct ks_loop *loop,
                                           const struct memory_source_config *config)
{
    static const struct ks_stream_source_vtable vtable = {
        .describe = describe,
        .list = list,
        .open = open_reader,
        .read = read_some,
        .close_reader = close_reader,
        .now_ms = now_ms,
        .state = state,
        .close = close_source,
    };
    struct source *source = memory_of(sizeof *source);
    uint32_t word = 1;

    assert(config->shards > 0 && config->shards <= SHARDS_MAX);
    assert(!config->stamped || (config->copies && config->record_bytes >= sizeof(uint64_t)));
    assert(config->record_bytes > 0 && config->record_bytes <= POOL_BYTES);
    source->port.vtable = &vtable;
    source->config = *config;
    source->loop = loop;
    source->timer.due = due;
    source->reads.due = reads_due;
    ks_link_init(&source->asking);
    source->pool = memory_of(POOL_BYTES);
    for (size_t i = 0; i < POOL_BYTES; i++) {
        word = word * 1664525 + 1013904223;
        source->pool[i] = (uint8_t)(word >> 24);
    }
    source->listing = memory_of(config->shards * sizeof *source->listing);
    for (uint32_t i = 0; i < config->shards; i++) {
        struct ks_shard_listing *shard = &source->listing[i];

        snprintf(shard->shard, sizeof shard->shard, "shardId-%012" PRIu32, i);
        snprintf(shard->hash_start, sizeof shard->hash_start, "%" PRIu32, i * 1000);
        snprintf(shard->hash_end, sizeof shard->hash_end, "%" PRIu32, i * 1000 + 999);
    }
    return &source->port;
}
