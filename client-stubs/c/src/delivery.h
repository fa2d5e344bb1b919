/* SPDX-License-Identifier: Apache-2.0 */
/* delivery.h - one delivery of a record: its content, and its place in its consumer.
 *
 * A delivery is one allocation: the struct, and the frame of the stream that it was read from.
 * Its texts are parts of the frame. It is freed with its last reference. All but the content is
 * guarded by the mutex of the consumer.
 */
#ifndef KS_DELIVERY_H
#define KS_DELIVERY_H

#include "kinesis-sidecar-client.h"
#include "list.h"
#include "wire.h"

enum {
    KS_LANES_MAX = 64 /* Of a shard. */
};

enum ks_state {
    KS_STATE_QUEUED,  /* The app does not have it. */
    KS_STATE_BEGUN,   /* The app has it. */
    KS_STATE_DECIDED, /* It has an outcome that is not sent. */
    KS_STATE_SENT     /* Its outcome is in a request. */
};

/* Values of the enum Outcome of settle.proto. */
enum ks_outcome {
    KS_OUTCOME_ACK = 1,
    KS_OUTCOME_RETRY = 2,
    KS_OUTCOME_EXTEND = 3,
    KS_OUTCOME_DEAD_LETTER = 4,
    KS_OUTCOME_DROP = 5
};

/* The answer to a retry. */
enum ks_verdict {
    KS_VERDICT_OPEN, /* There is none. */
    KS_VERDICT_ACCEPTED,
    KS_VERDICT_REFUSED, /* The retry takes nothing back. */
    KS_VERDICT_STALE    /* Its session has ended. It holds its lane until the next one. */
};

struct ks_group;
struct ks_lane;

struct ks_delivery {
    struct ks_record record; /* First: the app has its address. */

    /* The members that each delivery uses are adjacent: they share cache lines. */
    struct ks_group *group; /* NULL: it is in none. */
    struct ks_lane *lane;   /* NULL: no retry takes it back. */
    struct ks_link owner;   /* In its group, in a request, or among the unconfirmed. */
    struct ks_link queue;   /* In its lane, or among the outcomes or extensions to be sent. */
    unsigned references;
    enum ks_state state;
    enum ks_outcome outcome;
    uint32_t lane_number;
    uint64_t arrival; /* Number of the delivery. */
    int64_t since;    /* Instant of the first delivery that the app has. */
    struct ks_consumer *consumer;
    const char *ack_id; /* Of the last delivery. */
    const char *batch_id;
    size_t sequence_number_size;

    int64_t delay_ms;               /* Of a retry, or of the extension that is to be sent. */
    char *reason;                   /* Of the outcome, or of ks_record_fail(). */
    struct ks_delivery *redelivery; /* Its outcome settles this one; NULL: none. */
    uint64_t kept_in;               /* Session whose end, or a retry in it, made it unconfirmed. */
    struct ks_link held;            /* With the app, or among the retries that hold their lanes. */
    struct ks_link indexed;         /* In the index of the outcomes that are not confirmed. */
    uint64_t barrier;               /* Of the request with the retry; 0: it is not sent. */
    uint64_t taken_back_to;         /* Last arrival that the retry takes back; 0: not known. */
    enum ks_verdict verdict;

    size_t frame_size;
    uint8_t frame[]; /* A message StreamEvent, and one byte more. */
};

/* Makes a delivery with room for a frame and one reference. Returns NULL if there is no memory. */
struct ks_delivery *ks_delivery_new(size_t frame_size);

static inline void ks_delivery_reference(struct ks_delivery *delivery)
{
    delivery->references++;
}

void ks_delivery_release(struct ks_delivery *delivery);

/* Reads the content from a message Record, which is a part of the frame. Returns false if it is
 * malformed. */
bool ks_delivery_read(struct ks_delivery *delivery, const struct ks_field *message);

/* The text of a field of the frame. It writes a NUL byte after the text: that is the tag of the
 * next field, which the caller has read, or the byte after the frame. */
const char *ks_delivery_text(struct ks_delivery *delivery, const struct ks_field *field);

/* Makes a delivery that has the position alone. Returns NULL if there is no memory. */
struct ks_delivery *ks_delivery_position(const struct ks_delivery *delivery);

/* Compares the positions of two records of one shard. */
int ks_delivery_compare(const struct ks_delivery *left, const struct ks_delivery *right);

/* True for two deliveries of one record. */
bool ks_delivery_is_same(const struct ks_delivery *left, const struct ks_delivery *right);

/* The same for every delivery of a record. */
uint32_t ks_delivery_hash(const struct ks_delivery *delivery);

/* What counts against max_in_flight_bytes. */
static inline uint64_t ks_delivery_bytes(const struct ks_delivery *delivery)
{
    return delivery->record.data_size + delivery->record.partition_key_size;
}

#endif
