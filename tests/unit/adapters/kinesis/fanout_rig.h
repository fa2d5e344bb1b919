/* SPDX-License-Identifier: Apache-2.0 */
/* fanout_rig.h - one reader of a stream by fan-out, whose server plays a script (http_script.h) of event streams over
 * TLS and HTTP/1.1; HTTP/2 is in the contract suite. The consumer is named by its ARN, so that nobody looks for it.
 */
#ifndef TESTS_UNIT_ADAPTERS_KINESIS_FANOUT_RIG_H
#define TESTS_UNIT_ADAPTERS_KINESIS_FANOUT_RIG_H

#include "adapters/kinesis/fanout.h"

#include "aws_rig.h"
#include "http_script.h"

/* In JSON: a record with this sequence number, an event with records, and its continuation. */
#define RECORD(n) "{\"Data\":\"YQ==\",\"PartitionKey\":\"k\",\"SequenceNumber\":\"" #n "\"}"
#define EVENT(records, continuation)                                                               \
    "{\"Records\":[" records "],\"ContinuationSequenceNumber\":\"" #continuation                   \
    "\",\"MillisBehindLatest\":0}"
#define END_EVENT(records)                                                                         \
    "{\"Records\":[" records "],\"MillisBehindLatest\":0,\"ChildShards\":[{\"ShardId\":"           \
    "\"shardId-000000000001\"}]}"

enum { FANOUT_RIG_STEPS = 16, FANOUT_RIG_APART_MS = 300 };

struct fanout_rig {
    struct ks_loop *loop;
    struct http_script *script;
    struct http_step steps[FANOUT_RIG_STEPS];
    struct ks_bytes streams[FANOUT_RIG_STEPS];
    uint32_t step_count;
    char pem[32];
    struct aws_rig aws;
    struct ks_fanout_options options;
    struct ks_stream_source *source;
    struct ks_budget budget;
    struct ks_reader *reader;
    bool reading;
    struct ks_read_answer answer;
};

/* What the server says: the next steps of its script, before the rig is opened. */
struct fanout_rig *fanout_rig_new(void);
/* An event stream begins, as HTTP; messages follow. It stays open until `fanout_rig_cut`. */
void fanout_rig_stream(struct fanout_rig *rig);
void fanout_rig_event(struct fanout_rig *rig, const char *payload);
/* Two that come as one piece; returns its size. */
size_t fanout_rig_two_events(struct fanout_rig *rig, const char *first, const char *second);
void fanout_rig_message(struct fanout_rig *rig, const char *name, const char *value,
                        const char *type, const char *payload);
/* The last byte of what was said so far is another one. */
void fanout_rig_spoil(struct fanout_rig *rig);
/* The connection ends behind it: in order, or in the middle of the HTTP body. */
void fanout_rig_end(struct fanout_rig *rig);
void fanout_rig_cut(struct fanout_rig *rig);
void fanout_rig_refuse(struct fanout_rig *rig, int status, const char *body);
void fanout_rig_silence(struct fanout_rig *rig);

/* The reader is open at a position of sequence number 200 or instant 1795219200123. */
void fanout_rig_open(struct fanout_rig *rig, enum ks_position_kind kind);
/* Expects that no memory is left. */
void fanout_rig_close(struct fanout_rig *rig);

/* Reads; the answer goes to rig->answer, and ends rig->reading. */
void fanout_rig_ask(struct fanout_rig *rig, uint32_t records);
/* Reads and waits; the batch is the caller's. */
struct ks_read_answer fanout_rig_read(struct fanout_rig *rig, uint32_t records);
/* Reads until records come, and expects these sequence numbers: "201 202". */
void fanout_rig_expect(struct fanout_rig *rig, uint32_t records, const char *sequences);
void fanout_rig_turn(struct fanout_rig *rig, int ms);
/* Request `index` holds this text. */
void fanout_rig_asked(struct fanout_rig *rig, size_t index, const char *part);

#endif
