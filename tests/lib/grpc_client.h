/* SPDX-License-Identifier: Apache-2.0 */
/* grpc_client.h - the smallest gRPC client on loopback: for benchmarks, which must not pay for a large one.
 *
 * HTTP/2 by prior knowledge (RFC 9113), frame by frame, on a blocking socket: one call whose answer is read as a
 * stream, and beside it calls with one short answer each. It grants windows as it reads, and knows nothing of
 * HPACK but how to send literals: whether a call went well is seen from its messages alone. It talks to our own
 * server, and ends the program (meter_fail) on what that one never sends: padding, a reset, a goodbye.
 */
#ifndef TESTS_LIB_GRPC_CLIENT_H
#define TESTS_LIB_GRPC_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    GRPC_HEAD = 5,               /* A flag and the length, before each message. */
    GRPC_FRAME_BYTES = 16 << 10, /* What every peer takes, and this one, too. */
    GRPC_FRAME_HEAD = 9,
    GRPC_ANSWER_MAX = 64 << 10
};

struct grpc_client {
    int fd;
    uint32_t next_id; /* Of the next call. */
    uint32_t id;      /* Of the open frame, .. */
    uint8_t type;
    uint8_t flags;
    uint32_t left; /* .. of which so many bytes have not come. */
    bool in_frame;
    uint8_t *raw; /* What was received and not looked at. */
    size_t raw_at;
    size_t raw_size;
    size_t raw_capacity;
    uint32_t ungranted; /* Of the call's stream, and of the connection. */
    uint32_t ungranted_all;
    uint64_t received;               /* Bytes of the socket. */
    uint32_t asked;                  /* Calls that have no whole answer. */
    uint8_t answer[GRPC_ANSWER_MAX]; /* Of the call that is being answered, its head included. */
    size_t answer_size;
    uint32_t answer_id;
    /* What was asked has its whole answer: the message; NULL: none came. May be NULL. */
    void (*answered)(void *arg, uint32_t id, const uint8_t *message, size_t size);
    void *arg;
};

/* Connects. `read_bytes` is how much is asked of the socket at a time. */
void grpc_open(struct grpc_client *client, uint16_t port, size_t read_bytes);
/* Begins a call of "/package.Service/Method" that has one short answer; returns its id. */
uint32_t grpc_ask(struct grpc_client *client, const char *path, const void *message, size_t size);
/* Begins a call whose answer is a stream; `more`: other messages may follow the first. Returns its id. */
uint32_t grpc_begin(struct grpc_client *client, const char *path, const void *message, size_t size,
                    bool more);
/* Another message of such a call. */
void grpc_say(struct grpc_client *client, uint32_t id, const void *message, size_t size);
/* Receives once, if nothing is left of before, and copies what came of the call `id`, heads and messages, to `buffer`;
 * tells of other calls that were answered. 0: nothing of it came; `ret_over`: it has ended. */
size_t grpc_read(struct grpc_client *client, uint32_t id, uint8_t *buffer, size_t capacity,
                 bool *ret_over);
/* Receives once; and until no call is without its answer. */
void grpc_read_answers(struct grpc_client *client);
void grpc_wait(struct grpc_client *client);
void grpc_close(struct grpc_client *client);

/* Protobuf: writes `value` as a varint and returns its size; reads one, false if it is not all there. */
size_t grpc_put_varint(uint8_t *at, uint64_t value);
bool grpc_take_varint(const uint8_t **at, const uint8_t *end, uint64_t *ret_value);
/* Writes the field's tag, its length, and its bytes; returns the size. */
size_t grpc_put_field(uint8_t *at, unsigned field, const void *data, size_t size);

#endif
