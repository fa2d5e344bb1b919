/* SPDX-License-Identifier: Apache-2.0 */
/* document.h - a dead letter as a message: its JSON document, its attributes, and its ids in FIFO queues and topics.
 *
 * The document has the members of what AWS Lambda sends to a failure destination of a Kinesis event source ("Retain
 * discarded batch records for a Kinesis Data Streams event source in Lambda", AWS Lambda developer guide):
 * requestContext, version, timestamp, KinesisBatchInfo. Beside them `deadLetter` has the members of
 * GET /v1/dead-letters, the record itself among them. It has only the characters that SQS takes (API reference of
 * SendMessageBatch: U+0009, U+000A, U+000D, U+0020 and above without U+FFFE and U+FFFF). Pure.
 */
#ifndef KS_ADAPTERS_SINKS_DOCUMENT_H
#define KS_ADAPTERS_SINKS_DOCUMENT_H

#include "base/bytes.h"
#include "base/digest.h"
#include "ports/dead_letters.h"

enum {
    KS_SINK_ID_MAX = 128, /* Characters of a message group id and of a deduplication id. */
    KS_SINK_HASH_SIZE = 2 * KS_SHA256_SIZE + 1,
    KS_SINK_ATTRIBUTES_MAX = 6, /* SQS takes 10 of a message. */
    /* A document without data: partition key and reason, each byte escaped, and 4 KiB of the rest. */
    KS_SINK_BARE_MAX = 6 * (KS_PARTITION_KEY_MAX + KS_LETTER_REASON_MAX) + 4096
};

/* A letter that is sent. */
struct ks_sink_letter {
    const char *application;
    const struct ks_letter *letter;
    size_t data_bytes; /* Of the record; `letter->data` is empty if it is `bare`. */
    bool bare;         /* Without the record's data. */
};

/* Appends the document. FULL, NO_MEMORY. */
KS_MUST_USE ks_err ks_sink_document(struct ks_bytes *out, const struct ks_sink_letter *letter);

/* Attributes of a message, as both SQS and SNS take them. Its texts are of the letter and of `texts`. */
struct ks_sink_attribute {
    const char *name;
    const char *type; /* "String", "Number". */
    ks_view value;    /* Not empty. */
};
struct ks_sink_attributes {
    struct ks_sink_attribute items[KS_SINK_ATTRIBUTES_MAX];
    uint32_t count;
    char attempts[12];
    uint8_t reason[KS_LETTER_REASON_MAX];
};
void ks_sink_attributes(const struct ks_sink_letter *letter,
                        struct ks_sink_attributes *ret_attributes);
/* Bytes of them that count to the size of a message: names, types and values. */
size_t ks_sink_attributes_size(const struct ks_sink_attributes *attributes);

/* The message group id: the partition key, or the hex SHA-256 of it if it is longer than KS_SINK_ID_MAX or has other
 * characters than letters, digits and the punctuation of ASCII. */
void ks_sink_group(ks_view partition_key, char ret_group[KS_SINK_ID_MAX + 1]);
/* The deduplication id: the hex SHA-256 of application, stream and dead-letter id. Applications that read one stream
 * may share a queue: the dead-letter id alone would make a duplicate of the second one's message. */
void ks_sink_deduplication(const struct ks_sink_letter *letter, char ret_id[KS_SINK_HASH_SIZE]);

#endif
