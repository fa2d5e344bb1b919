/* SPDX-License-Identifier: Apache-2.0 */
/* ack_id.h - the opaque names of deliveries: ack_id for one record, batch_id for all that was
 * handed out together.
 *
 * Both are base64url (RFC 4648) of these big-endian bytes:
 *
 *     ack_id    kind 1 | boot 4 | subscription 1 | slot 2 | session epoch 4 | shard 4 | epoch 5 | assignment 6 |
 *               number 6 | MAC 8
 *     batch_id  kind 1 | boot 4 | subscription 1 | slot 2 | session epoch 4 |
 *               runs: (shard 4 | epoch 5 | assignment 6 | number 6 | count 4) x 1 .. KS_BATCH_RUNS_MAX | MAC 8
 *
 * An ack_id is 55 characters long, a batch_id 60 to 560. The MAC is SipHash-2-4 (Aumasson and
 * Bernstein, "SipHash: a fast short-input PRF", 2012) of all that stands before it, under a key
 * that is drawn at start and never leaves the process: nobody can make an id of a record that was
 * not handed out, and no table of ids is kept. `shard` is a handle (ports/switchboard.h): an id of a
 * shard that is long gone settles nothing of another one. `boot` is the low half of the boot id: it tells a
 * stale id (UNKNOWN) from a forged or damaged one (MALFORMED).
 */
#ifndef KS_API_ACK_ID_H
#define KS_API_ACK_ID_H

#include "core/types.h"
#include "base/bytes.h"

enum {
    KS_ACK_ID_SIZE = 55,  /* Characters of an ack_id. */
    KS_BATCH_ID_MAX = 560 /* Characters of the longest batch_id. */
};

/* SipHash-2-4 of `message` under a 128-bit key. */
uint64_t ks_siphash(const uint64_t key[2], ks_view message);

/* The MAC's key, and whose ids these are. */
struct ks_ack_key {
    uint64_t key[2];
    uint32_t boot;
    uint8_t subscription;
};

/* Some records of one shard, as far as an id is concerned. */
struct ks_ack_run {
    ks_shard shard;
    ks_epoch epoch;
    ks_number first;
    uint32_t count;
    uint64_t assignment; /* The pull in which they were delivered: 1 .. 2^48 - 1. */
};

/* What an id says. An ack_id has one run of one record. */
struct ks_ack {
    uint8_t subscription; /* Of who reads it; written is the key's. */
    ks_session_id session;
    uint32_t session_epoch;
    uint32_t run_count;
    struct ks_ack_run runs[KS_BATCH_RUNS_MAX];
};

enum ks_ack_status {
    KS_ACK_ID_OK,
    KS_ACK_ID_UNKNOWN, /* Made by another boot. */
    KS_ACK_ID_ELSEWHERE, /* Of another subscription of this process: of `ret_ack` that alone is set. */
    KS_ACK_ID_MALFORMED /* Made by nobody. */
};

/* The part of an ack_id that all records of a run share. */
struct ks_ack_sip {
    uint64_t v0, v1, v2, v3;
};

struct ks_ack_stamp {
    struct ks_ack_sip sip; /* The MAC after the whole words that all share. */
    uint64_t rest;         /* Of what they share, the bytes behind these words, little-endian. */
    char text[36];         /* The bytes that all ids of the run begin with, as base64url. */
};

/* A key of random bits. `boot` is the whole boot id. */
void ks_ack_key_init(struct ks_ack_key *key, uint64_t boot, uint8_t subscription);

void ks_ack_stamp_init(struct ks_ack_stamp *stamp, const struct ks_ack_key *key,
                       ks_session_id session, uint32_t session_epoch, const struct ks_ack_run *run);
/* Writes KS_ACK_ID_SIZE characters, no NUL. */
void ks_ack_id_write(const struct ks_ack_stamp *stamp, ks_number number,
                     char buffer[KS_ACK_ID_SIZE]);

/* Writes the batch_id of 1 .. KS_BATCH_RUNS_MAX runs and a NUL; returns its length. */
size_t ks_batch_id_write(const struct ks_ack_key *key, const struct ks_ack *ack,
                         char buffer[KS_BATCH_ID_MAX + 1]);

enum ks_ack_status ks_ack_id_read(const struct ks_ack_key *key, ks_view text,
                                  struct ks_ack *ret_ack);
enum ks_ack_status ks_batch_id_read(const struct ks_ack_key *key, ks_view text,
                                    struct ks_ack *ret_ack);

#endif
