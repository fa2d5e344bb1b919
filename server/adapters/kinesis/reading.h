/* SPDX-License-Identifier: Apache-2.0 */
/* reading.h - what polling and fan-out know alike of the stream they read: its name and client, the questions about it,
 * its readers, and whether records are asked for in CBOR or in JSON.
 *
 * The first member of a source; its own readers stand in `readers` by their links. Loop thread only.
 */
#ifndef KS_ADAPTERS_KINESIS_READING_H
#define KS_ADAPTERS_KINESIS_READING_H

#include <stdbool.h>

#include "adapters/kinesis/control.h"
#include "adapters/kinesis/place.h"
#include "adapters/kinesis/wire_protocol.h"
#include "aws/client.h"
#include "base/list.h"
#include "base/loop.h"
#include "base/prng.h"
#include "ports/stream_source.h"

struct ks_reading {
    struct ks_stream_source port; /* First. */
    struct ks_loop *loop;
    struct ks_aws_client *client;
    struct ks_control *control;
    struct ks_link readers;
    struct ks_prng prng; /* Seeds for the readers' jitter. */
    struct ks_wire_protocol wire;
    char stream[KS_ARN_MAX + 1];
};

struct ks_reading_options {
    const struct ks_stream_source_vtable *vtable;
    struct ks_loop *loop;
    struct ks_aws_client *client; /* Outlives it. */
    const char *stream;           /* A name or an ARN; copied. */
    enum ks_wire_mode protocol;   /* In which records are asked for. */
    uint32_t page_size;           /* Of ListShards; 0: 1,000. */
};

/* `reading` is zeroed. INVALID with a detail for a stream that cannot be one, NO_MEMORY: nothing is to be closed. */
KS_MUST_USE ks_err ks_reading_open(struct ks_reading *reading,
                                   const struct ks_reading_options *options,
                                   struct ks_detail *detail);
/* Its readers are closed. Also of one that is zeroed. */
void ks_reading_close(struct ks_reading *reading);

static inline struct ks_reading *ks_reading_of(struct ks_stream_source *port)
{
    return (struct ks_reading *)(void *)port;
}

/* For the vtable. */
void ks_reading_describe(struct ks_stream_source *port,
                         void (*answered)(void *arg, const struct ks_describe_answer *answer),
                         void *arg);
void ks_reading_list(struct ks_stream_source *port, int64_t since_ms,
                     void (*answered)(void *arg, const struct ks_list_answer *answer), void *arg);
int64_t ks_reading_now_ms(struct ks_stream_source *port);
int64_t ks_reading_retention_ms(struct ks_stream_source *port);
enum ks_store_state ks_reading_state(const struct ks_stream_source *port,
                                     struct ks_detail *ret_detail);

/* A reader is opened: where it begins by the clock of the server, and under which name, of KS_SHARD_ID_MAX + 1 bytes. A
 * name that is too long is a shard that does not exist; the first read says so. */
void ks_reading_join(struct ks_reading *reading, struct ks_link *link, const char *shard,
                     const struct ks_position *from, struct ks_place *ret_place, char *ret_shard);
/* Where to ask for the next record. The service may have told its time since the reader was opened. */
struct ks_position ks_reading_ask(struct ks_reading *reading, struct ks_place *place);
/* The stream as ks_place_take and ks_place_passed want it. */
struct ks_place_stream ks_reading_stream(struct ks_reading *reading);
/* It is closed. */
void ks_reading_leave(struct ks_reading *reading, struct ks_link *link);

/* What an answer says about the service; a shard that is gone or a bad position says nothing. */
void ks_reading_hear(struct ks_reading *reading, ks_err err, const struct ks_detail *detail);

/* Begins a request for records: sets request->cbor. */
void ks_reading_begin(struct ks_reading *reading, struct ks_wire_request *request);
/* The request failed; `failure` is NULL if no answer came, `type` is the content type of the answer. Returns true if
 * it is to be repeated, because the server may not have understood CBOR. */
KS_MUST_USE bool ks_reading_repeats(struct ks_reading *reading, struct ks_wire_request *request,
                                    const struct ks_failure *failure, ks_view type);
/* Records were read from an answer, in CBOR or in JSON. */
void ks_reading_spoke(struct ks_reading *reading, struct ks_wire_request *request, bool in_cbor);
/* The answer to the request cannot be read. Returns true if the request is to be repeated in JSON. */
KS_MUST_USE bool ks_reading_repeats_unreadable(struct ks_reading *reading,
                                               const struct ks_wire_request *request, bool in_cbor);

#endif
