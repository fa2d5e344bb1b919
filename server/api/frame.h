/* SPDX-License-Identifier: Apache-2.0 */
/* frame.h - the hot path: records from their views straight into the socket's buffer.
 *
 * Written by hand, for this is where the bytes are: NDJSON lines and the same as server-sent events
 * (html.spec.whatwg.org, 9.2.5), elements of a JSON array, and
 * StreamEvent messages of proto/kinesis_sidecar/v1/record.proto behind their length as a varint.
 * Data goes over in one step (base64, a copy, or the text of JSON); a record larger than the buffer
 * goes on where it stopped. The tests hold the result against protobuf-c and jansson.
 *
 * Before each record and each continuation the switchboard is asked whether it may still leave the
 * house.
 */
#ifndef KS_API_FRAME_H
#define KS_API_FRAME_H

#include "api/ack_id.h"
#include "base/codec.h"
#include "ports/dead_letters.h"
#include "ports/stream_source.h"

/* Bytes that are the same in each record of a run: the fields batch_id, stream, shard_id and epoch with their names. */
enum { KS_FRAME_COMMON_MAX = KS_BATCH_ID_MAX + KS_LETTER_STREAM_MAX + KS_SHARD_ID_MAX + 256 };

enum ks_frame_format {
    KS_FRAME_NDJSON,   /* {"type":"record",..} and a line feed. */
    KS_FRAME_SSE,      /* The same line as the data of a server-sent event "record". */
    KS_FRAME_JSON,     /* {..}, with a comma before all but the first. Without type and batch_id. */
    KS_FRAME_PROTOBUF, /* A StreamEvent behind its length. */
    /* Elements of `records` of RecordBatch or PullResponse, which have one number there: for messages of calls. */
    KS_FRAME_ELEMENT,     /* Protobuf. */
    KS_FRAME_ELEMENT_JSON /* {..}, with a comma before all but the first; the JSON of proto3. */
};

/* What `data` is in NDJSON and JSON; in the other formats it has one spelling. */
enum ks_frame_encoding {
    KS_ENCODING_BASE64, /* A string of base64. */
    KS_ENCODING_UTF8,   /* A string: the text itself. */
    KS_ENCODING_JSON    /* The value that the data is, on one line. */
};

enum ks_frame_state {
    KS_FRAME_FULL,    /* No room for more: call again with a fresh buffer. */
    KS_FRAME_DONE,    /* The run is written. */
    KS_FRAME_MISSING, /* The record `next` may not be delivered; nothing of it was written. */
    KS_FRAME_CUT      /* Likewise, but a part of it was written: the connection must end. */
};

/* Where records come from: ks_switchboard_records() with its board, and in tests an array. */
struct ks_frame_source {
    const struct ks_record *(*record)(void *arg, ks_number number);
    void *arg;
};

/* What all records of a run have in common, and where the writing stands. */
struct ks_framer {
    enum ks_frame_format format;
    /* BASE64 until another is set, before the first run. Data that is not valid in it is written as
     * base64, and its record says so. */
    enum ks_frame_encoding encoding;
    uint32_t lanes; /* Above 0: each record says in which of so many lanes it is. */
    struct ks_frame_source source;
    struct ks_ack_stamp stamp;
    ks_shard shard;
    ks_epoch epoch;
    ks_number next; /* The record that is being written, or is to be written next. */
    ks_number end;
    uint32_t attempt;
    bool whole;                      /* Begin only what fits as a whole, unless it is the first. */
    bool comma;                      /* One was written before. */
    bool begun;                      /* The head of `next` is out, .. */
    enum ks_frame_encoding spelling; /* .. and its data is in this one. */
    size_t offset;                   /* Bytes of its data that are out, of so many. */
    size_t data_size;
    char common[KS_FRAME_COMMON_MAX]; /* batch_id, stream, shard_id, epoch in the format. */
    size_t common_size;
    int64_t second; /* Of `instant`. */
    char instant[KS_TIMESTAMP_SIZE];
    /* The caller's: the end of each record that is out is added while there is room, counted from the begin of the
     * buffer. NULL, 0, 0: is not wanted. */
    uint32_t *ends;
    uint32_t ends_count;
    uint32_t ends_room;
};

void ks_framer_init(struct ks_framer *framer, enum ks_frame_format format,
                    struct ks_frame_source source);

/* The names that go into every record of a run. */
struct ks_frame_names {
    const char *batch_id;
    const char *stream;
    const char *shard_id;
};
/* Begins a run of `count` records from number `first`; the last one must be DONE. The stamp is
 * copied. KS_SHARD_NONE: a dead letter that is delivered again; its record says so. */
void ks_framer_begin(struct ks_framer *framer, const struct ks_ack_stamp *stamp,
                     const struct ks_frame_names *names, const struct ks_ack_run *run,
                     uint32_t attempt);

/* Bytes of the record that is half-way which are not out. 0: none is. */
size_t ks_framer_rest(const struct ks_framer *framer);
/* Writes as much as there is and as fits; returns how many bytes. A buffer of KS_FILL_MIN bytes
 * takes any head. */
size_t ks_framer_fill(struct ks_framer *framer, uint8_t *buffer, size_t room,
                      enum ks_frame_state *ret_state);

#endif
