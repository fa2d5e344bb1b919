/* SPDX-License-Identifier: Apache-2.0 */
/* rpc_call.h - one call: what rpc.c, rpc_head.c and rpc_answer.c share. Private to them. */
#ifndef KS_API_RPC_CALL_H
#define KS_API_RPC_CALL_H

#include "api/envelope.h"
#include "api/rpc.h"
#include "base/loop.h"

enum ks_rpc_protocol {
    KS_RPC_CONNECT,        /* Unary: bare bodies. */
    KS_RPC_CONNECT_STREAM, /* Envelopes, and one more that ends them. */
    KS_RPC_GRPC            /* Envelopes, and trailers. */
};

/* What the head of a request says about its call. */
struct ks_rpc_head {
    enum ks_rpc_protocol protocol;
    bool json;
    bool gzipped;       /* The request is; of envelopes: those with the flag. */
    bool accepts_gzip;  /* The client does. */
    int64_t timeout_ms; /* -1: none. */
};

struct ks_rpc_call {
    struct ks_exchange *exchange;
    const struct ks_rpc_method *method;
    struct ks_rpc_head head;
    struct ks_timer timer; /* The deadline. */
    struct ks_loop *loop;
    /* The request. */
    struct ks_bytes body; /* Of a Connect call without a stream. */
    struct ks_envelopes envelopes;
    size_t charged; /* Of bodies, to the account. */
    uint32_t messages;
    bool said_all;        /* The client has. */
    bool held;            /* The handler is not ready for the next message. */
    struct ks_bytes kept; /* What came since. */
    bool kept_end;        /* Nothing comes behind it. */
    /* The answer. */
    ks_producer *fill;              /* The handler's. */
    struct ks_envelope_meter meter; /* Of what has gone out. */
    struct ks_bytes out;            /* Messages that were sent and are not out. */
    size_t out_held;                /* Charged to the account. */
    bool closing;                   /* The answer is over when they are. */
    struct ks_bytes tail;           /* Connect: the envelope that ends the stream. */
    bool ended;                     /* The tail or the trailers are made. */
};

/* rpc_head.c: reads the protocol, the codec, the compression and the deadline. False if the exchange was answered. */
bool ks_rpc_head_read(struct ks_exchange *exchange, const struct ks_rpc_method *method,
                      struct ks_rpc_head *ret_head);
/* The protocol that a problem of this request is told in, whatever else is wrong with it. */
enum ks_rpc_protocol ks_rpc_head_protocol(const struct ks_exchange *exchange);
/* The message of a GET, decoded, into `ret_body`. False if the exchange was answered. */
bool ks_rpc_head_message(struct ks_exchange *exchange, struct ks_bytes *body);

#endif
