/* SPDX-License-Identifier: Apache-2.0 */
/* polling_rig.h - one reader of a stream whose server gives the answers that it was told to (canned.h). */
#ifndef TESTS_UNIT_ADAPTERS_KINESIS_POLLING_RIG_H
#define TESTS_UNIT_ADAPTERS_KINESIS_POLLING_RIG_H

#include "adapters/kinesis/polling.h"

#include "aws_rig.h"
#include "canned.h"

/* In JSON: a record with this sequence number, and the answer of GetShardIterator. */
#define POLLING_RIG_RECORD(n)                                                                      \
    "{\"Data\":\"YQ==\",\"PartitionKey\":\"k\",\"SequenceNumber\":\"" #n "\"}"
#define POLLING_RIG_ITERATOR "{\"ShardIterator\":\"I0\"}"

extern const struct ks_kinesis_options POLLING_RIG_JSON;
extern const struct ks_kinesis_options POLLING_RIG_CBOR;

struct polling_rig {
    struct ks_loop *loop;
    struct canned canned;
    struct aws_rig aws;
    struct ks_stream_source *source;
    struct ks_budget budget;
    struct ks_reader *reader;
    struct ks_position from;
};

/* A reader of the first shard, from the sequence number 200 or the instant 1795219200123; a static rig, for it is
 * large. */
struct polling_rig *polling_rig_born(const struct ks_kinesis_options *options,
                                     enum ks_position_kind kind);
/* Expects that no memory is left. */
void polling_rig_end(struct polling_rig *rig);
/* The next answer. */
void polling_rig_say(struct polling_rig *rig, const char *operation, int status, const char *body);

struct polling_read {
    uint32_t times; /* It was answered. */
    struct ks_read_answer answer;
};
/* `answered` of a read whose `arg` is a struct polling_read. */
void polling_rig_keep(void *arg, const struct ks_read_answer *answer);
/* Turns until `times` is not 0, at most 30 s. */
void polling_rig_await(struct polling_rig *rig, const uint32_t *times);
/* Reads and waits; the batch is the caller's. */
struct ks_read_answer polling_rig_read(struct polling_rig *rig, uint32_t max_bytes);
/* Reads, and expects records with these sequence numbers: "201 202". */
void polling_rig_expect(struct polling_rig *rig, const char *sequences);
/* Between two requests, counted from 0. */
int64_t polling_rig_ms_between(const struct polling_rig *rig, uint32_t from, uint32_t to);

#endif
