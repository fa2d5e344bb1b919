/* SPDX-License-Identifier: Apache-2.0 */
/* http2_wire.h - the inside of HTTP/2: a connection and its streams. Private to http2*.c.
 *
 * http2.c owns sockets and deadlines, http2_session.c knows nghttp2's callbacks, http2_stream.c
 * turns a stream into an exchange. Nothing is submitted to nghttp2 while one of its callbacks runs
 * (but for trailers and resets, which it allows): a stream with something to say is `woken`, and
 * its connection does the rest at the end of the turn. Nothing is freed there either: a connection
 * that is over is `dead`.
 */
#ifndef KS_API_HTTP2_WIRE_H
#define KS_API_HTTP2_WIRE_H

#include <nghttp2/nghttp2.h>
#include <sys/uio.h>

#include "api/account.h"
#include "api/head.h"
#include "api/http2.h"
#include "api/linger.h"
#include "base/list.h"

enum {
    KS_OUT_PARTS = 64,
    KS_OUT_FRAMES = 64,
    KS_OUT_BYTES = 256 << 10,
    KS_OUT_MESSAGE = 96 << 10, /* Asked of a producer at a time: 64 records of 1 KB, and room. */
    KS_OUT_FRAME = 32 << 10    /* What nghttp2 makes at a time: a frame of 16 KiB at most. */
};

/* A frame of an answer's body, on its way into the socket. */
struct ks_http2_frame {
    struct ks_http2_stream *stream; /* NULL: it is over. */
    size_t end;                     /* Where it ends in the bytes that are on their way. */
    size_t size; /* Bytes of the body in it that are not known to be in the socket. */
};

/* Frames on their way into a socket, of one wire at a time. What producers write stays where it was written; the
 * heads of its frames go between. */
struct ks_http2_out {
    struct iovec parts[KS_OUT_PARTS];
    size_t part_count;
    size_t most;                                 /* Bytes of one sending: what the socket takes. */
    size_t framed;                               /* Bytes in the parts. */
    struct ks_http2_frame frames[KS_OUT_FRAMES]; /* Those with parts of what producers wrote. */
    size_t frame_count;
    struct ks_http2_stream
        *copied; /* nghttp2 makes a frame of bytes that were kept, or of a fixed body. */
    size_t copied_size;
    struct ks_link ready; /* Streams that have bytes here which are in no frame. */
    size_t used;
    uint8_t bytes[KS_OUT_BYTES];
};

struct ks_http2 {
    struct ks_api *api;
    struct ks_loop *loop;
    nghttp2_option *option;
    nghttp2_session_callbacks *callbacks;
    struct ks_hook hook;
    struct ks_timer kick;
    struct ks_http2_out *out;
    struct ks_link wires;
    struct ks_link work; /* The wires that have something to do at the end of the turn. */
    struct ks_lingers lingers;
    uint32_t streams; /* Of all wires. */
    size_t made;      /* Bytes for sockets, in this turn. */
    bool kicked;
};

struct ks_http2_wire {
    struct ks_watch watch;
    struct ks_timer timer; /* The next look at what is late. */
    struct ks_link link;   /* In http2->wires. */
    struct ks_link work;
    struct ks_http2 *http2;
    nghttp2_session *session;
    struct ks_account account;
    bool paused;           /* The work of a turn was done while nghttp2 took input. */
    struct ks_bytes input; /* What it had not taken then. */
    size_t block;          /* Bytes of the header block that comes, after decompression. */
    bool too_much;         /* The block had too many: nothing more is read. */
    size_t input_held;     /* Charged to the account. */
    size_t unsent_held;    /* Likewise. */
    struct ks_link streams;
    struct ks_link woken;
    struct ks_link endings; /* Streams whose request is whole, and not handled. */
    struct ks_link filled; /* Streams of which bytes that were produced may not be in the socket. */
    struct ks_link parting;        /* Streams that are over, but for that. */
    uint32_t heads;                /* Streams whose head is whole. */
    struct ks_bytes unsent;        /* What the socket did not take. */
    struct ks_http2_frame *frames; /* In it; `frame_count` of them. */
    size_t frame_count;
    ks_instant head_due;  /* While there are no heads: when the next must be whole. */
    ks_instant heard_at;  /* Bytes came. */
    ks_instant sent_at;   /* Bytes went, or there were none to send. */
    ks_instant resets_at; /* When `resets` was right. */
    uint32_t resets;      /* Streams that we may still have to reset. */
    int32_t last_id;      /* The highest stream that the peer began. */
    int32_t gap_from;     /* The streams that it passed over last lie between these. */
    int32_t gap_to;
    bool ops;
    bool pinged;    /* Nothing was heard since we asked. */
    bool finishing; /* The notice was given; what is begun until the answer comes is served. */
    bool finished;  /* The last GOAWAY was given. */
    bool ended;     /* The peer has closed. */
    bool dead;
    enum ks_peer peer;
};

struct ks_http2_stream {
    struct ks_exchange exchange;
    struct ks_http2_wire *wire;
    struct ks_link link;   /* In wire->streams. */
    struct ks_link woken;  /* In wire->woken. */
    struct ks_link ending; /* In wire->endings. */
    struct ks_link filled; /* In wire->filled. */
    int32_t id;
    struct ks_head head;
    struct ks_bytes target;
    ks_view ready;           /* Made by a producer, in http2->out, .. */
    struct ks_link unframed; /* .. in out->ready meanwhile. */
    struct ks_bytes stage;   /* What was too much for the window or the turn. */
    size_t staged;           /* Of it, sent. */
    size_t sent;             /* Of a fixed body. */
    uint64_t received;
    size_t charged;      /* Of bodies, to the account. */
    size_t stage_held;   /* Of answers, likewise. */
    size_t unread;       /* Bytes of the parts that the handler has not given back. */
    size_t given;        /* And those that the peer is to be told of. */
    ks_instant moved_at; /* The head became whole, or enough bytes of the answer went. */
    size_t taken;        /* Of the answer, since then. */
    bool whole;          /* The head. */
    bool ended;          /* The request. */
    bool head_only;      /* No body is sent, whatever the answer has. */
    bool wants_continue; /* The client waits for 100. */
    bool submitted;
    bool waiting;  /* The producer has nothing now. */
    bool finished; /* The end of the answer has left. */
    bool parting;  /* nghttp2 does not know it any more. */
    bool overfull; /* Its body is too much: no more of it is taken. */
};

/* Bytes of a request's head. */
static inline size_t ks_http2_head_most(const struct ks_http2_wire *wire)
{
    return wire->ops ? KS_OPS_HEAD_BYTES_MAX : KS_HEAD_BYTES_MAX;
}

/* ---- http2.c ---- */

/* Has the wire do its work at the end of this turn, or of the next. */
void ks_http2_soon(struct ks_http2_wire *wire);

/* The stream is over: what is on its way is of no stream. */
void ks_http2_forget_frames(struct ks_http2_stream *stream);
/* Bytes to ask of a producer: KS_OUT_MESSAGE, or what the socket takes if that is little; at least KS_FILL_MIN. */
size_t ks_http2_message_most(const struct ks_http2_out *out);
/* Room for a producer, KS_OUT_MESSAGE bytes; NULL: send first. */
uint8_t *ks_http2_out_room(struct ks_http2_out *out);
/* Adds a frame of `size` bytes that are ready. True if it is time to send. */
bool ks_http2_out_frame(struct ks_http2_out *out, const uint8_t head[9],
                        struct ks_http2_stream *stream, size_t size);

/* ---- http2_session.c ---- */

/* What the PING says that follows the notice; an answer to any other tells nothing. */
extern const uint8_t ks_http2_notice[8];

/* What all sessions share; NO_MEMORY. */
KS_MUST_USE ks_err ks_http2_session_begin(struct ks_http2 *http2);
void ks_http2_session_end(struct ks_http2 *http2);
/* The session of a wire, our settings submitted; NO_MEMORY. */
KS_MUST_USE ks_err ks_http2_session_new(struct ks_http2_wire *wire);
/* The peer has heard the notice, or takes too long: what it begins from now on is not served. */
void ks_http2_session_finish(struct ks_http2_wire *wire);

/* ---- http2_stream.c ---- */

/* NULL if there are too many, or no memory. */
struct ks_http2_stream *ks_http2_stream_new(struct ks_http2_wire *wire, int32_t id);
/* nghttp2 closes the stream: frees it, or lets it wait until its last bytes are in the socket. */
void ks_http2_stream_over(struct ks_http2_stream *stream);
/* Frees the streams that waited for their last bytes, if these are in the socket. */
void ks_http2_streams_sent(struct ks_http2_wire *wire);
/* False if bytes of a stream that wait must not be sent any more. */
bool ks_http2_streams_may_send(struct ks_http2_wire *wire);
/* Ends its exchange. NULL is allowed. */
void ks_http2_stream_free(struct ks_http2_stream *stream);
/* A line of the request's head. */
void ks_http2_stream_line(struct ks_http2_stream *stream, ks_view name, ks_view value);
/* The head is whole. */
void ks_http2_stream_begin(struct ks_http2_stream *stream, bool ended);
/* A part of the body, and its end. */
void ks_http2_stream_data(struct ks_http2_stream *stream, ks_view part);
void ks_http2_stream_end(struct ks_http2_stream *stream);
/* The request is whole: has it handled. Not in nghttp2's callbacks. */
void ks_http2_stream_handle(struct ks_http2_stream *stream);
/* Tells nghttp2 what is new. Not in its callbacks. */
void ks_http2_stream_work(struct ks_http2_stream *stream);
/* What is ready and in no frame is kept: the bytes of `out` are needed. False: no memory. */
bool ks_http2_stream_keep(struct ks_http2_stream *stream);
/* Cuts it if the peer keeps us waiting: for its body, or to take its answer. */
void ks_http2_stream_look(struct ks_http2_stream *stream, ks_instant now);

#endif
