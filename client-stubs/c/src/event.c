/* SPDX-License-Identifier: Apache-2.0 */
#include "event.h"

/* Words for the values of enums, as the JSON of the API has them. */
static const char *const IDLE_REASONS[] = {"",       "no_data",    "no_leases", "flow_controlled",
                                           "paused", "draining",   "throttled", "lane_blocked",
                                           "fenced", "no_sessions"};
static const char *const SESSION_ENDS[] = {"", "taken_over", "expired", "drained", "closed"};

#define WORD(words, value)                                                                         \
    ((value) < sizeof(words) / sizeof((words)[0]) ? (words)[(value)] : "unknown")

ks_event ks_event_new(const char *type)
{
    return (ks_event){.type = type,
                      .reason = "",
                      .message = "",
                      .ack_id = "",
                      .session = "",
                      .boot_id = "",
                      .shard_id = "",
                      .sequence_number = "",
                      .partition_key = ""};
}

bool ks_event_find(const struct ks_delivery *frame, struct ks_field *ret_field)
{
    struct ks_message message = ks_message_of(frame->frame, frame->frame_size);
    struct ks_field field;

    *ret_field = (struct ks_field){0};
    while (ks_message_next(&message, &field))
        if (field.data != NULL) /* All events are messages. The last one counts. */
            *ret_field = field;
    return !message.is_malformed;
}

static void read_session(struct ks_delivery *frame, const struct ks_field *field, ks_event *event)
{
    switch (field->number) {
    case 1: event->session = ks_delivery_text(frame, field); break;
    case 3: event->boot_id = ks_delivery_text(frame, field); break;
    case 4: event->max_in_flight = (uint32_t)field->value; break;
    case 5: event->max_in_flight_bytes = field->value; break;
    case 6: event->ack_deadline_ms = (int64_t)field->value; break;
    case 7: event->heartbeat_ms = (int64_t)field->value; break;
    default: break;
    }
}

static void read_heartbeat(struct ks_delivery *frame, const struct ks_field *field, ks_event *event)
{
    (void)frame;
    switch (field->number) {
    case 1: event->in_flight = (uint32_t)field->value; break;
    case 2: event->credit = (uint32_t)field->value; break;
    case 3: event->reason = WORD(IDLE_REASONS, field->value); break;
    default: break;
    }
}

static void read_draining(struct ks_delivery *frame, const struct ks_field *field, ks_event *event)
{
    (void)frame;
    if (field->number == 1)
        event->deadline_ms = (int64_t)field->value;
}

/* lease_returning and lease_lost. */
static void read_lease(struct ks_delivery *frame, const struct ks_field *field, ks_event *event)
{
    if (field->number == 1)
        event->shard_id = ks_delivery_text(frame, field);
    else if (field->number == 2)
        event->deadline_ms = (int64_t)field->value;
}

static void read_ended(struct ks_delivery *frame, const struct ks_field *field, ks_event *event)
{
    (void)frame;
    if (field->number == 1)
        event->reason = WORD(SESSION_ENDS, field->value);
}

static void read_record_too_large(struct ks_delivery *frame, const struct ks_field *field,
                                  ks_event *event)
{
    switch (field->number) {
    case 1: event->shard_id = ks_delivery_text(frame, field); break;
    case 3: event->sequence_number = ks_delivery_text(frame, field); break;
    case 5: event->partition_key = ks_delivery_text(frame, field); break;
    case 6: event->bytes = field->value; break;
    default: break;
    }
}

typedef void read_field(struct ks_delivery *frame, const struct ks_field *field, ks_event *event);

static const struct {
    uint32_t number;
    const char *type;
    read_field *read;
} TYPES[] = {
    {KS_EVENT_SESSION, "session", read_session},
    {KS_EVENT_HEARTBEAT, "heartbeat", read_heartbeat},
    {KS_EVENT_DRAINING, "draining", read_draining},
    {KS_EVENT_LEASE_RETURNING, "lease_returning", read_lease},
    {KS_EVENT_LEASE_LOST, "lease_lost", read_lease},
    {KS_EVENT_ENDED, "ended", read_ended},
    {KS_EVENT_RECORD_TOO_LARGE, "record_too_large", read_record_too_large},
};

static bool read_members(struct ks_delivery *frame, const struct ks_field *field, read_field *read,
                         ks_event *event)
{
    struct ks_message message = ks_message_of(field->data, field->size);
    struct ks_field before = {0};
    struct ks_field member;

    /* One field later: ending a text overwrites the tag of the next field. */
    while (ks_message_next(&message, &member)) {
        if (before.number != 0)
            read(frame, &before, event);
        before = member;
    }
    if (before.number != 0)
        read(frame, &before, event);
    return !message.is_malformed;
}

bool ks_event_read(struct ks_delivery *frame, const struct ks_field *field, ks_event *ret_event)
{
    for (size_t i = 0; i < sizeof(TYPES) / sizeof(TYPES[0]); i++) {
        if (TYPES[i].number != field->number)
            continue;
        *ret_event = ks_event_new(TYPES[i].type);
        return read_members(frame, field, TYPES[i].read, ret_event);
    }
    *ret_event = ks_event_new("unknown");
    ret_event->number = field->number;
    ret_event->payload = field->data;
    ret_event->payload_size = field->size;
    return true;
}

static void read_failure(struct ks_delivery *frame, const struct ks_field *field, ks_event *event)
{
    switch (field->number) {
    case KS_SETTLE_FAILURE_ACK_ID: event->ack_id = ks_delivery_text(frame, field); break;
    case KS_SETTLE_FAILURE_REASON: event->reason = ks_delivery_text(frame, field); break;
    case KS_SETTLE_FAILURE_MESSAGE: event->message = ks_delivery_text(frame, field); break;
    default: break;
    }
}

void ks_event_read_failure(struct ks_delivery *frame, ks_event *event)
{
    struct ks_field whole = {.data = frame->frame, .size = frame->frame_size};

    (void)read_members(frame, &whole, read_failure, event);
}

static uint64_t number_of(const struct ks_field *text)
{
    uint64_t number = 0;

    for (size_t i = 0; i < text->size; i++) {
        if (text->data[i] < '0' || text->data[i] > '9')
            return 0;
        number = number * 10 + (uint64_t)(text->data[i] - '0');
    }
    return number;
}

bool ks_event_read_barrier(const struct ks_field *field, uint64_t *ret_barrier)
{
    struct ks_message message = ks_message_of(field->data, field->size);
    struct ks_field member;

    *ret_barrier = 0;
    while (ks_message_next(&message, &member)) {
        if (member.number == 1)
            *ret_barrier = number_of(&member);
    }
    return !message.is_malformed;
}
