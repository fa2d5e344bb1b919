/* SPDX-License-Identifier: Apache-2.0 */
#include "delivery.h"

#include <stdlib.h>
#include <string.h>

struct ks_delivery *ks_delivery_new(size_t frame_size)
{
    struct ks_delivery *delivery = malloc(sizeof(*delivery) + frame_size + 1);

    if (delivery == NULL)
        return NULL;
    memset(delivery, 0, sizeof(*delivery));
    delivery->references = 1;
    delivery->frame_size = frame_size;
    ks_link_init(&delivery->owner);
    ks_link_init(&delivery->queue);
    ks_link_init(&delivery->held);
    ks_link_init(&delivery->indexed);
    return delivery;
}

void ks_delivery_release(struct ks_delivery *delivery)
{
    if (delivery == NULL || --delivery->references > 0)
        return;
    ks_delivery_release(delivery->redelivery); /* It has none itself. */
    free(delivery->reason);
    free(delivery);
}

const char *ks_delivery_text(struct ks_delivery *delivery, const struct ks_field *field)
{
    if (field->data == NULL)
        return "";
    delivery->frame[(size_t)(field->data - delivery->frame) + field->size] = '\0';
    return (const char *)field->data;
}

/* The fields of a message Record that are texts. */
struct texts {
    struct ks_field ack_id;
    struct ks_field batch_id;
    struct ks_field stream;
    struct ks_field shard_id;
    struct ks_field sequence_number;
    struct ks_field partition_key;
    struct ks_field data;
};

static void read_field(struct ks_delivery *delivery, const struct ks_field *field,
                       struct texts *texts)
{
    struct ks_record *record = &delivery->record;

    switch (field->number) {
    case KS_RECORD_ACK_ID: texts->ack_id = *field; break;
    case KS_RECORD_BATCH_ID: texts->batch_id = *field; break;
    case KS_RECORD_STREAM: texts->stream = *field; break;
    case KS_RECORD_SHARD_ID: texts->shard_id = *field; break;
    case KS_RECORD_EPOCH: record->epoch = field->value; break;
    case KS_RECORD_SEQUENCE_NUMBER: texts->sequence_number = *field; break;
    case KS_RECORD_SUB_SEQUENCE_NUMBER: record->sub_sequence_number = (int64_t)field->value; break;
    case KS_RECORD_PARTITION_KEY: texts->partition_key = *field; break;
    case KS_RECORD_ARRIVAL: record->arrived_at_ms = (int64_t)field->value; break;
    case KS_RECORD_ATTEMPT: record->attempt = (uint32_t)field->value; break;
    case KS_RECORD_AGGREGATED: record->aggregated = field->value != 0; break;
    case KS_RECORD_DATA: texts->data = *field; break;
    case KS_RECORD_REDRIVEN: record->redriven = field->value != 0; break;
    case KS_RECORD_LANE: delivery->lane_number = (uint32_t)field->value; break;
    default: break;
    }
}

bool ks_delivery_read(struct ks_delivery *delivery, const struct ks_field *field)
{
    struct ks_message message = ks_message_of(field->data, field->size);
    struct ks_record *record = &delivery->record;
    struct texts texts = {0};
    struct ks_field part;

    while (ks_message_next(&message, &part))
        read_field(delivery, &part, &texts);
    if (message.is_malformed || texts.batch_id.size == 0 || texts.ack_id.size == 0 ||
        delivery->lane_number >= KS_LANES_MAX)
        return false;
    /* Data of 0 bytes is not written. */
    record->data = (const unsigned char *)ks_delivery_text(delivery, &texts.data);
    record->data_size = texts.data.size;
    record->partition_key = ks_delivery_text(delivery, &texts.partition_key);
    record->partition_key_size = texts.partition_key.size;
    record->stream = ks_delivery_text(delivery, &texts.stream);
    record->shard_id = ks_delivery_text(delivery, &texts.shard_id);
    record->sequence_number = ks_delivery_text(delivery, &texts.sequence_number);
    delivery->sequence_number_size = texts.sequence_number.size;
    delivery->ack_id = ks_delivery_text(delivery, &texts.ack_id);
    delivery->batch_id = ks_delivery_text(delivery, &texts.batch_id);
    return true;
}

struct ks_delivery *ks_delivery_position(const struct ks_delivery *delivery)
{
    struct ks_delivery *position = ks_delivery_new(delivery->sequence_number_size);

    if (position == NULL)
        return NULL;
    memcpy(position->frame, delivery->record.sequence_number, delivery->sequence_number_size);
    position->record.sequence_number = (const char *)position->frame;
    position->record.sub_sequence_number = delivery->record.sub_sequence_number;
    position->sequence_number_size = delivery->sequence_number_size;
    return position;
}

int ks_delivery_compare(const struct ks_delivery *left, const struct ks_delivery *right)
{
    const struct ks_record *a = &left->record;
    const struct ks_record *b = &right->record;
    int order;

    if (left->sequence_number_size != right->sequence_number_size)
        return left->sequence_number_size < right->sequence_number_size ? -1 : 1;
    order = memcmp(a->sequence_number, b->sequence_number, left->sequence_number_size);
    if (order != 0)
        return order;
    return (a->sub_sequence_number > b->sub_sequence_number) -
           (a->sub_sequence_number < b->sub_sequence_number);
}

bool ks_delivery_is_same(const struct ks_delivery *left, const struct ks_delivery *right)
{
    return ks_delivery_compare(left, right) == 0 &&
           left->record.redriven == right->record.redriven &&
           strcmp(left->record.shard_id, right->record.shard_id) == 0;
}

uint32_t ks_delivery_hash(const struct ks_delivery *delivery)
{
    uint32_t hash = 2166136261U; /* FNV-1a. */

    for (const char *at = delivery->record.sequence_number; *at != '\0'; at++)
        hash = (hash ^ (unsigned char)*at) * 16777619U;
    return (hash ^ (uint32_t)delivery->record.sub_sequence_number) * 16777619U;
}
