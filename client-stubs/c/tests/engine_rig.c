/* SPDX-License-Identifier: Apache-2.0 */
#include "engine_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES_MAX = 4096 };

int64_t now = 1000;

struct ks_delivery *delivery_of(const char *batch, int number, uint32_t attempt, uint32_t lane)
{
    struct ks_delivery *delivery = ks_delivery_new(100);
    char *text = (char *)delivery->frame;

    (void)snprintf(text, 20, "%d.%u", number, attempt);
    (void)snprintf(text + 20, 20, "%d", number);
    (void)snprintf(text + 40, 20, "%s", batch);
    delivery->ack_id = text;
    delivery->record.sequence_number = text + 20;
    delivery->sequence_number_size = strlen(text + 20);
    delivery->batch_id = text + 40;
    delivery->record.shard_id = "shard";
    delivery->record.data = (const unsigned char *)"";
    delivery->record.attempt = attempt;
    delivery->lane_number = lane;
    return delivery;
}

void arrive(struct ks_engine *engine, const char *batch, int number, uint32_t attempt)
{
    EXPECT(ks_engine_arrive(engine, delivery_of(batch, number, attempt, 0), now));
}

void redriven(struct ks_engine *engine, const char *batch, int number)
{
    struct ks_delivery *delivery = delivery_of(batch, number, 2, 0);

    delivery->record.redriven = true;
    EXPECT(ks_engine_arrive(engine, delivery, now));
}

void open_session(struct ks_engine *engine)
{
    ks_event session = {.max_in_flight = 100, .ack_deadline_ms = 3000, .heartbeat_ms = 1000};

    ks_engine_opened(engine, &session, now);
}

void begin(struct ks_engine *engine)
{
    *engine = (struct ks_engine){.max_processing_ms = 60000,
                                 .ack_interval_ms = 100,
                                 .max_in_flight = 100,
                                 .max_in_flight_bytes = 1 << 20};
    ks_engine_init(engine);
    engine->lanes.ordering = KS_CLIENT_ORDERING_SHARD;
    open_session(engine);
}

void finish(struct ks_engine *engine, struct ks_delivery **taken, size_t count)
{
    for (size_t i = 0; i < count; i++)
        ks_delivery_release(taken[i]);
    ks_engine_free(engine);
}

struct ks_delivery *pop(struct ks_engine *engine, int number)
{
    struct ks_delivery *delivery = ks_engine_pop(engine);

    EXPECT(delivery != NULL);
    EXPECT_EQ(strtol(delivery->record.sequence_number, NULL, 10), number);
    return delivery;
}

void settle(struct ks_engine *engine, struct ks_delivery *delivery, enum ks_outcome outcome)
{
    ks_engine_settle(engine, delivery, outcome, 0, NULL, now);
}

const char *text_of(const struct ks_request *request)
{
    static const char *const WORDS[] = {"", "ack", "retry", "extend", "dead_letter", "drop"};
    static char text[TEXT_BYTES_MAX];
    struct ks_message message;
    struct ks_field field, part;

    text[0] = '\0';
    if (request == NULL)
        return "none";
    message = ks_message_of(request->body.data, request->body.size);
    while (ks_message_next(&message, &field)) {
        struct ks_message item = ks_message_of(field.data, field.size);
        size_t used = strlen(text);
        char id[50] = "";
        uint64_t outcome = 0;
        if (field.number == KS_SETTLE_REQUEST_BARRIER) {
            (void)snprintf(text + used, sizeof(text) - used, "; barrier %.*s", (int)field.size,
                           (const char *)field.data);
            continue;
        }
        while (ks_message_next(&item, &part))
            if (part.number == KS_SETTLEMENT_OUTCOME)
                outcome = part.value;
            else if (part.number <= KS_SETTLEMENT_BATCH_ID)
                (void)snprintf(id, sizeof(id), "%.*s", (int)part.size, (const char *)part.data);
        (void)snprintf(text + used, sizeof(text) - used, "%s%s %s", used > 0 ? ", " : "",
                       WORDS[outcome], id);
    }
    return text;
}

void answer(struct ks_engine *engine)
{
    EXPECT(ks_engine_answered(engine, (const uint8_t *)"", 0));
}

void answer_refusal(struct ks_engine *engine, const char *ack_id, const char *reason)
{
    struct ks_buffer body = {0};
    size_t failure = ks_wire_begin(&body, KS_SETTLE_RESPONSE_FAILED);

    ks_wire_add_bytes(&body, KS_SETTLE_FAILURE_ACK_ID, ack_id, strlen(ack_id));
    ks_wire_add_bytes(&body, KS_SETTLE_FAILURE_REASON, reason, strlen(reason));
    ks_wire_end(&body, failure);
    EXPECT(ks_engine_answered(engine, body.data, body.size));
    ks_buffer_free(&body);
}
