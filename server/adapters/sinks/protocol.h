/* SPDX-License-Identifier: Apache-2.0 */
/* protocol.h - how a destination takes a batch of messages, and how it answers for each of them.
 *
 * SendMessageBatch of SQS (AWS JSON 1.0), PublishBatch of SNS (AWS Query), PutRecords of Kinesis (AWS JSON 1.1).
 * Formats and limits are those of the API references, as the service models of botocore 1.44 have them. Pure.
 */
#ifndef KS_ADAPTERS_SINKS_PROTOCOL_H
#define KS_ADAPTERS_SINKS_PROTOCOL_H

#include "adapters/sinks/document.h"
#include "adapters/sinks/target.h"
#include "aws/client.h"
#include "aws/json.h"
#include "base/json_writer.h"
#include "core/limits.h"

enum {
    KS_SINK_ENTRIES_MAX = KS_BURY_MAX, /* Of one request, whatever the destination. */
    KS_SINK_SQS_BYTES_MAX = 1 << 20, /* SendMessageBatch: of a message, and of all of a request. */
    KS_SINK_SNS_BYTES_MAX =
        256 << 10, /* PublishBatch: likewise, unless the topic's MaximumMessageSize is larger. */
    KS_SINK_KINESIS_BYTES_MAX =
        1 << 20, /* PutRecords: of a record with its key, unless the stream takes larger ones. */
    KS_SINK_BODY_MAX =
        8 << 20, /* Of a request: each byte of a document may become three in a form. */
    KS_SINK_ANSWER_MAX = 256 << 10 /* 64 entries with a message of 1 KiB each, and room. */
};

/* A message. Its texts are borrowed. */
struct ks_sink_entry {
    ks_view document;
    const struct ks_sink_letter *letter;
    const struct ks_sink_attributes *attributes; /* Kinesis has none. */
};

/* A request that is being written. */
struct ks_sink_request {
    struct ks_bytes body;
    struct ks_writer json; /* Of those that are JSON. */
    bool fifo;
};

/* What the destination says of an entry. */
struct ks_sink_result {
    bool taken; /* It confirmed this entry. */
    ks_err err; /* Unless taken. */
    struct ks_detail detail;
};

struct ks_sink_protocol {
    enum ks_aws_service service;
    const char *operation;
    const char *permission; /* The action of IAM that it needs. */
    const char *noun;       /* "queue" */
    uint32_t entries_max;
    size_t bytes_max; /* Of a message with its attributes, and of all messages of a request. */
    /* Write the request: begin, then add for the entries 0, 1, .., then end. FULL, NO_MEMORY. */
    ks_err (*begin)(struct ks_sink_request *request, const struct ks_sink_target *target);
    ks_err (*add)(struct ks_sink_request *request, uint32_t index,
                  const struct ks_sink_entry *entry);
    ks_err (*end)(struct ks_sink_request *request);
    /* Reads the answer to `count` entries: fills `results` of each. An entry that the answer does not name, or names
     * as sent and as failed, is not taken. MALFORMED, FULL, NO_MEMORY: then nothing is known of any entry. */
    ks_err (*read)(ks_view body, uint32_t count, struct ks_sink_result *results);
};

/* Of the kind; lives for ever. */
const struct ks_sink_protocol *ks_sink_protocol_of(enum ks_sink_kind kind);

extern const struct ks_sink_protocol ks_sink_sqs;
extern const struct ks_sink_protocol ks_sink_sns;
extern const struct ks_sink_protocol ks_sink_kinesis;

/* ---- For the protocols ---- */

/* Begins a request in JSON: its destination in the member `name`, and the array `entries`, which is open. FULL,
 * NO_MEMORY. */
KS_MUST_USE ks_err ks_sink_json_begin(struct ks_sink_request *request, const char *name,
                                      ks_view destination, const char *entries);
/* Closes the array and the request. FULL, NO_MEMORY. */
KS_MUST_USE ks_err ks_sink_json_end(struct ks_sink_request *request);
/* The text of a member; empty if there is none. */
ks_view ks_sink_json_text(const struct ks_json *object, const char *name);
/* The index that an answer names, "0" to "count - 1"; `count` if it is none. */
uint32_t ks_sink_index(ks_view id, uint32_t count);
/* Begins with results of which none was named. */
void ks_sink_results_begin(struct ks_sink_result *results, uint32_t count);
/* The answer says that the entry was taken, or that it failed; `index` is below `count`. A failure stays. */
void ks_sink_taken(struct ks_sink_result *result);
void ks_sink_failed(struct ks_sink_result *result, ks_view code, ks_view message);

#endif
