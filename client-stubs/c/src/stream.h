/* SPDX-License-Identifier: Apache-2.0 */
/* stream.h - the stream of a consumer: what libcurl receives goes to the engine. */
#ifndef KS_STREAM_H
#define KS_STREAM_H

#include "consumer.h"
#include "http.h"
#include "reader.h"

struct ks_stream {
    struct ks_consumer *consumer;
    struct ks_http http;
    struct ks_reader reader;
    struct ks_link
        arrived;          /* Deliveries that were read and are not in the engine: links `owner`. */
    const char *broken;   /* Why the stream cannot be read on; NULL: it can. */
    bool is_open;         /* The handle is at work. */
    bool is_session_open; /* The sidecar has opened a session on it. */
    int64_t heard_at;     /* When it brought bytes last, or was opened. */
};

/* Returns false if there is no memory; ks_stream_free() is to be called in any case. */
bool ks_stream_init(struct ks_stream *stream, struct ks_consumer *consumer);

void ks_stream_free(struct ks_stream *stream);

/* Prepares the handle for a new connection. Returns false if it cannot be opened:
 * stream->http.error has the reason. */
bool ks_stream_begin(struct ks_stream *stream);

/* Gives the records that were read to the engine. */
void ks_stream_enter(struct ks_stream *stream);

/* Calls on_event. */
void ks_stream_report(const struct ks_stream *stream, const ks_event *event);

#endif
