/* SPDX-License-Identifier: Apache-2.0 */
/* envelope.h - messages one behind the other: a byte of flags, four of the length (big-endian), the message.
 *
 * The same for gRPC (github.com/grpc/grpc, PROTOCOL-HTTP2.md: Length-Prefixed-Message) and for Connect's streams
 * (connectrpc.com/docs/protocol: Enveloped-Message), which have one flag more. Envelopes know nothing of the parts that
 * they come in.
 */
#ifndef KS_API_ENVELOPE_H
#define KS_API_ENVELOPE_H

#include "base/bytes.h"

enum {
    KS_ENVELOPE_COMPRESSED = 0x01,
    KS_ENVELOPE_END = 0x02, /* Connect: the last one, which is no message. */
    KS_ENVELOPE_HEAD = 5
};

/* Puts messages together. Memory is taken as bytes come, not as lengths are promised. */
struct ks_envelopes {
    struct ks_bytes message; /* Its `max` is the limit of one. */
    uint8_t head[KS_ENVELOPE_HEAD];
    size_t head_size;
    size_t missing; /* Bytes of the message that have not come. */
    bool whole;     /* `message` was returned and is forgotten with the next call. */
};

/* `max`: bytes of one message. */
void ks_envelopes_init(struct ks_envelopes *envelopes, size_t max);
void ks_envelopes_free(struct ks_envelopes *envelopes);

/* Takes bytes off `part` until a message is whole or there are no more. `ret_whole` says which; then `message` is it,
 * until the next call, and `ret_flags` are its flags. FULL: its length is over the limit; NO_MEMORY. After a failure
 * nothing more can be read. */
KS_MUST_USE ks_err ks_envelopes_take(struct ks_envelopes *envelopes, ks_view *part,
                                     uint8_t *ret_flags, bool *ret_whole);
/* True if nothing of a next message has come. */
bool ks_envelopes_between(const struct ks_envelopes *envelopes);

/* Writes the five bytes before a message of `size`. */
void ks_envelope_head(uint8_t head[KS_ENVELOPE_HEAD], uint8_t flags, size_t size);

/* Watches envelopes go out, to know whether a message is half-way. */
struct ks_envelope_meter {
    uint8_t head[KS_ENVELOPE_HEAD];
    size_t head_size;
    size_t missing;
};
void ks_envelope_meter_pass(struct ks_envelope_meter *meter, ks_view part);
bool ks_envelope_meter_between(const struct ks_envelope_meter *meter);

#endif
