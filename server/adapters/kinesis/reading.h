/* SPDX-License-Identifier: Apache-2.0 */
/* reading.h - what polling and fan-out know alike of the stream they read: its name and client, the questions about it,
 * its readers, and whether the server speaks CBOR.
 *
 * The first member of a source; its own readers stand in `readers` by their links. Loop thread only.
 */
#ifndef KS_ADAPTERS_KINESIS_READING_H
#define KS_ADAPTERS_KINESIS_READING_H

#include <stdbool.h>

#include "adapters/kinesis/control.h"
#include "adapters/kinesis/place.h"
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
    bool cbor;           /* What is asked for. */
    bool cbor_works;     /* It was answered once. */
    char stream[KS_ARN_MAX + 1];
};

struct ks_reading_options {
    const struct ks_stream_source_vtable *vtable;
    struct ks_loop *loop;
    struct ks_aws_client *client; /* Outlives it. */
    const char *stream;           /* A name or an ARN; copied. */
    bool json;                    /* Never CBOR. */
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
enum ks_store_state ks_reading_state(const struct ks_stream_source *port,
                                     struct ks_detail *ret_detail);

/* A reader is opened: where it begins by the clock of the server, and under which name, of KS_SHARD_ID_MAX + 1 bytes. A
 * name that is too long is a shard that does not exist; the first read says so. */
void ks_reading_join(struct ks_reading *reading, struct ks_link *link, const char *shard,
                     const struct ks_position *from, struct ks_place *ret_place, char *ret_shard);
/* It is closed. */
void ks_reading_leave(struct ks_reading *reading, struct ks_link *link);

/* What an answer says about the service; a shard that is gone or a bad position says nothing. */
void ks_reading_hear(struct ks_reading *reading, ks_err err, const struct ks_detail *detail);

/* True if the server may not have understood the CBOR that it was `asked` in. */
bool ks_reading_is_about_cbor(const struct ks_reading *reading, bool asked,
                              const struct ks_failure *failure);
/* An answer was read: `cbor` says how it came, `asked` how it was asked for. */
void ks_reading_spoke(struct ks_reading *reading, bool asked, bool cbor);
/* From now on JSON is asked for. */
void ks_reading_use_json(struct ks_reading *reading, const char *why);

#endif
