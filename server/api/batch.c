/* SPDX-License-Identifier: Apache-2.0 */
/* Records in the messages of calls: ks_delivery_fill_batch() of delivery.h.
 *
 * The records are written first, and their frame is put around them when its sizes are known: nothing is counted
 * twice. They are written where they will stand if the frame is as long as the last one.
 */
#include <assert.h>

#include "api/delivery.h"
#include "api/envelope.h"
#include "api/limits.h"
#include "api/subscription.h"

enum {
    WIRE_BYTES = 2,
    EVENT_BATCH = 8,
    BATCH_ID = 1,
    SIZES_MAX = 24, /* Envelope, tags and sizes. */
    WORDS_MAX = 64, /* Of the JSON around it. */
    HEAD_MAX = SIZES_MAX + WORDS_MAX + KS_BATCH_ID_MAX
};

#define JSON_HEAD "{\"batch\":{\"batchId\":\""
#define JSON_RECORDS "\",\"records\":["
#define JSON_END "]}}"

static size_t put(uint8_t *at, const void *data, size_t size)
{
    memcpy(at, data, size);
    return size;
}

static size_t put_varint(uint8_t *at, uint64_t value)
{
    size_t size = 0;

    for (; value >= 0x80; value >>= 7)
        at[size++] = (uint8_t)(value | 0x80);
    at[size++] = (uint8_t)value;
    return size;
}

static size_t varint_size(uint64_t value)
{
    uint8_t bytes[10];

    return put_varint(bytes, value);
}

static bool is_json(const struct ks_delivery *delivery)
{
    return delivery->framer.format == KS_FRAME_ELEMENT_JSON;
}

/* What stands before `size` bytes of records, the envelope included. */
static size_t put_head(const struct ks_delivery *delivery, uint8_t *at, size_t size)
{
    size_t id = strlen(delivery->batch_id);
    size_t begin = KS_ENVELOPE_HEAD;
    size_t batch;

    if (is_json(delivery)) {
        begin += put(at + begin, JSON_HEAD, sizeof(JSON_HEAD) - 1);
        begin += put(at + begin, delivery->batch_id, id);
        begin += put(at + begin, JSON_RECORDS, sizeof(JSON_RECORDS) - 1);
        size += sizeof(JSON_END) - 1;
    } else {
        batch = 1 + varint_size(id) + id + size;
        at[begin++] = EVENT_BATCH << 3 | WIRE_BYTES;
        begin += put_varint(at + begin, batch);
        at[begin++] = BATCH_ID << 3 | WIRE_BYTES;
        begin += put_varint(at + begin, id);
        begin += put(at + begin, delivery->batch_id, id);
    }
    ks_envelope_head(at, 0, begin - KS_ENVELOPE_HEAD + size);
    return begin;
}

static size_t put_end(struct ks_delivery *delivery, uint8_t *at)
{
    delivery->open = false;
    return is_json(delivery) ? put(at, JSON_END, sizeof(JSON_END) - 1) : 0;
}

/* The id of the records from `first` that are out, or on their way. */
static void name_records(struct ks_delivery *delivery, ks_number first)
{
    const struct ks_framer *framer = &delivery->framer;
    ks_number end = framer->begun ? framer->next + 1 : delivery->passed;
    struct ks_ack ack = {
        .session = delivery->session,
        .session_epoch = delivery->session_epoch,
        .runs[0] = {framer->shard, framer->epoch, first, (uint32_t)(end - first),
                    delivery->runs[0].assignment},
        .run_count = 1,
    };

    (void)ks_batch_id_write(&delivery->subscription->ack_key, &ack, delivery->batch_id);
}

/* The message has `size` bytes beside its records, and is out. A client has none of them before it has the message:
 * those of the last fill end with it. */
static void end_message(struct ks_delivery *delivery, size_t size)
{
    struct ks_framer *framer = &delivery->framer;

    ks_delivery_pass(delivery, size);
    for (uint32_t i = delivery->ends_begin; i < framer->ends_count; i++)
        framer->ends[i] = (uint32_t)delivery->produced;
}

/* The rest of a record that was too long for the buffer. */
static size_t go_on(struct ks_delivery *delivery, uint8_t *buffer, size_t room,
                    enum ks_frame_state *ret_state)
{
    size_t size = ks_delivery_fill(delivery, buffer, room - (sizeof(JSON_END) - 1), ret_state);
    size_t end;

    if (delivery->framer.begun)
        return size;
    end = put_end(delivery, buffer + size);
    end_message(delivery, end);
    return size + end;
}

size_t ks_delivery_fill_batch(struct ks_delivery *delivery, uint8_t *buffer, size_t room,
                              enum ks_frame_state *ret_state)
{
    struct ks_framer *framer = &delivery->framer;
    uint8_t head[HEAD_MAX];
    size_t guess = delivery->head_size;
    size_t head_size;
    size_t records;
    size_t size;
    ks_number first;

    assert(room >= KS_FILL_MIN && delivery->run_count <= 1);
    if (delivery->open)
        return go_on(delivery, buffer, room, ret_state);
    framer->whole = true;
    framer->comma = false;
    first = framer->next < framer->end ? framer->next : delivery->runs[0].first;
    size = ks_delivery_fill(delivery, buffer + guess, room - HEAD_MAX - (sizeof(JSON_END) - 1),
                            ret_state);
    if (size == 0)
        return 0; /* None of them may leave the house any more. */
    name_records(delivery, first);
    head_size = put_head(delivery, head, size + ks_framer_rest(framer));
    assert(head_size <= HEAD_MAX);
    if (head_size != guess)
        memmove(buffer + head_size, buffer + guess, size);
    delivery->head_size = head_size;
    (void)put(buffer, head, head_size);
    records = size;
    size += head_size;
    delivery->open = framer->begun;
    if (!delivery->open)
        size += put_end(delivery, buffer + size);
    end_message(delivery, size - records);
    return size;
}
