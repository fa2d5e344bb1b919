/* SPDX-License-Identifier: Apache-2.0 */
/* wire.h - the messages of proto/kinesis_sidecar/v1: fields of a message, and the writing of
 * one.
 *
 * The reader takes any bytes: a field is inside of the message that it was read from, or the
 * message is malformed.
 */
#ifndef KS_WIRE_H
#define KS_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "buffer.h"

/* Numbers of the fields that the package uses, by message. */
enum {
    KS_EVENT_SESSION = 1,
    KS_EVENT_RECORD = 2,
    KS_EVENT_HEARTBEAT = 3,
    KS_EVENT_DRAINING = 4,
    KS_EVENT_LEASE_RETURNING = 5,
    KS_EVENT_LEASE_LOST = 6,
    KS_EVENT_ENDED = 7,
    KS_EVENT_RECORD_TOO_LARGE = 10,
    KS_EVENT_BARRIER = 11
};

enum {
    KS_RECORD_ACK_ID = 1,
    KS_RECORD_BATCH_ID = 2,
    KS_RECORD_STREAM = 3,
    KS_RECORD_SHARD_ID = 4,
    KS_RECORD_EPOCH = 5,
    KS_RECORD_SEQUENCE_NUMBER = 6,
    KS_RECORD_SUB_SEQUENCE_NUMBER = 7,
    KS_RECORD_PARTITION_KEY = 8,
    KS_RECORD_ARRIVAL = 9,
    KS_RECORD_ATTEMPT = 10,
    KS_RECORD_AGGREGATED = 11,
    KS_RECORD_DATA = 12,
    KS_RECORD_REDRIVEN = 13,
    KS_RECORD_LANE = 14
};

enum {
    KS_SETTLEMENT_ACK_ID = 1,
    KS_SETTLEMENT_BATCH_ID = 2,
    KS_SETTLEMENT_OUTCOME = 3,
    KS_SETTLEMENT_DELAY_MS = 4,
    KS_SETTLEMENT_REASON = 5,

    KS_SETTLE_REQUEST_SETTLEMENTS = 1,
    KS_SETTLE_REQUEST_WAIT = 2,
    KS_SETTLE_REQUEST_WAIT_MS = 3,
    KS_SETTLE_REQUEST_BARRIER = 5,

    KS_SETTLE_RESPONSE_FAILED = 2,
    KS_SETTLE_RESPONSE_PERSISTED = 3,

    KS_SETTLE_FAILURE_ACK_ID = 1,
    KS_SETTLE_FAILURE_REASON = 2,
    KS_SETTLE_FAILURE_MESSAGE = 3
};

/* Values of the enum Wait. */
enum { KS_WAIT_PERSISTED = 2 };

/* ---- Reading ---- */

struct ks_field {
    uint32_t number;
    uint64_t value;      /* Of a number; 0 for other fields. */
    const uint8_t *data; /* Of a text, of bytes or of a message; NULL for other fields. */
    size_t size;
};

struct ks_message {
    const uint8_t *at;
    const uint8_t *end;
    bool is_malformed;
};

static inline struct ks_message ks_message_of(const uint8_t *data, size_t size)
{
    return (struct ks_message){.at = data, .end = size == 0 ? data : data + size};
}

/* Types of fields on the wire. */
enum { KS_TYPE_VARINT = 0, KS_TYPE_FIXED64 = 1, KS_TYPE_BYTES = 2, KS_TYPE_FIXED32 = 5 };

bool ks_wire_read_long_varint(struct ks_message *message, uint64_t *ret_value);

static inline bool ks_wire_read_varint(struct ks_message *message, uint64_t *ret_value)
{
    if (message->at < message->end && *message->at < 0x80) { /* Most have one byte. */
        *ret_value = *message->at++;
        return true;
    }
    return ks_wire_read_long_varint(message, ret_value);
}

/* Reads the content of a field of the type. Returns false if the field is malformed. */
static inline bool ks_wire_read_content(struct ks_message *message, uint64_t type,
                                        struct ks_field *field)
{
    uint64_t size = type == KS_TYPE_FIXED64 ? 8 : 4;

    field->value = 0;
    field->data = NULL;
    field->size = 0;
    if (type == KS_TYPE_VARINT)
        return ks_wire_read_varint(message, &field->value);
    if (type != KS_TYPE_BYTES && type != KS_TYPE_FIXED64 && type != KS_TYPE_FIXED32)
        return false;
    if (type == KS_TYPE_BYTES && !ks_wire_read_varint(message, &size))
        return false;
    if (size > (size_t)(message->end - message->at))
        return false;
    if (type == KS_TYPE_BYTES) {
        field->data = message->at;
        field->size = (size_t)size;
    }
    message->at += size;
    return true;
}

/* Reads the next field. Returns false at the end, and at a malformed field. Inline: each record
 * has a dozen fields. */
static inline bool ks_message_next(struct ks_message *message, struct ks_field *ret_field)
{
    uint64_t tag;

    if (message->at == message->end || message->is_malformed)
        return false;
    if (!ks_wire_read_varint(message, &tag) || tag < 8 || tag > UINT32_MAX) {
        message->is_malformed = true;
        return false;
    }
    ret_field->number = (uint32_t)(tag >> 3);
    message->is_malformed = !ks_wire_read_content(message, tag & 7, ret_field);
    return !message->is_malformed;
}

/* ---- Writing ---- */

/* Writes a number; 0 is the default and is not written. */
void ks_wire_add_number(struct ks_buffer *buffer, uint32_t field, uint64_t value);

/* Writes a text or bytes; no bytes are the default and are not written. */
void ks_wire_add_bytes(struct ks_buffer *buffer, uint32_t field, const void *data, size_t size);

/* Begins a message inside of a message. Returns its offset for ks_wire_end(). */
size_t ks_wire_begin(struct ks_buffer *buffer, uint32_t field);

/* Ends what began at the offset `begin`: inserts its length there. */
void ks_wire_end(struct ks_buffer *buffer, size_t begin);

#endif
