/* SPDX-License-Identifier: Apache-2.0 */
/* polling.h - Kinesis by polling, as a source: GetShardIterator and GetRecords.
 *
 * A read is one GetRecords, sent when the shard's pace (pace.h) allows it; before it a GetShardIterator if
 * there is no iterator or it may have expired. Nothing is resent on its own: what failed is told, and the
 * next read asks with the same iterator, after a back-off. So nothing is lost and nothing comes twice.
 *
 * Where an iterator comes from
 *  - the position of open; at LATEST it is asked for at once. What follows when the server does not take it: place.h;
 *  - after ExpiredIteratorException, after 4.5 minutes, after a refusal of the iterator (kinesalite: 400
 *    Invalid ShardIterator; kinesis-local: 500 with an empty body): behind the last record that came, or the
 *    position of open if none did.
 *
 * An answer of more than 5 MiB with fewer records than were asked for, and something behind it, was cut by its size,
 * and is paid for as one of 10 MiB.
 *
 * Bytes: the body of an answer lies in a block of the reader's budget, with room for its records behind it, and is read
 * where it lies (builder.h). portion.h says how many records are asked for, and when there is room for them. An answer
 * that does not fit all the same is FULL, and halves that number. The most a body may have is KS_KINESIS_ANSWER_MAX,
 * whether its length is told or not.
 *
 * wire_protocol.h says whether records are asked for in CBOR or in JSON.
 */
#ifndef KS_ADAPTERS_KINESIS_POLLING_H
#define KS_ADAPTERS_KINESIS_POLLING_H

#include <stdbool.h>
#include <stdint.h>

#include "adapters/kinesis/wire_protocol.h"
#include "aws/client.h"
#include "base/loop.h"
#include "ports/stream_source.h"

enum {
    /* 10 MiB of data as base64, and 512 bytes for the rest of each of 10,000 records. */
    KS_KINESIS_ANSWER_MAX = (10 << 20) / 3 * 4 + 10000 * 512,
    /* One attempt: 19 MB at 1 MB/s. */
    KS_KINESIS_READ_TIMEOUT_MS = 20000,
    /* An iterator lives 5 minutes (GetShardIterator API reference). */
    KS_ITERATOR_AGE_MS_MAX = 270000
};

struct ks_kinesis_options {
    enum ks_wire_mode protocol;
    uint32_t page_size; /* Of ListShards; 0: 1,000. */
    uint32_t idle_ms; /* The longest wait between reads of a shard that has nothing new; 0: 1 s. */
};

/* `stream` is a name or an ARN, and is copied. Nothing is sent yet. The client outlives the source.
 * NO_MEMORY; INVALID with a detail for a stream that cannot be one. */
KS_MUST_USE ks_err ks_kinesis_source_open(struct ks_loop *loop, struct ks_aws_client *client,
                                          const char *stream, struct ks_stream_source **ret_source,
                                          struct ks_detail *detail);
/* The same with options. */
KS_MUST_USE ks_err ks_kinesis_source_open_with(struct ks_loop *loop, struct ks_aws_client *client,
                                               const char *stream,
                                               const struct ks_kinesis_options *options,
                                               struct ks_stream_source **ret_source,
                                               struct ks_detail *detail);

/* For tests: forgets the iterator of a reader or puts another one in its place (NULL: forgets). */
void ks_kinesis_reader_set_iterator(struct ks_reader *reader, const char *iterator);
/* The iterator that the next read would use; "" if none. */
const char *ks_kinesis_reader_iterator(const struct ks_reader *reader);

#endif
