/* SPDX-License-Identifier: Apache-2.0 */
/* room.h - one room of the house: a subscription with all that it has for itself. Its lease table, its stream, its
 * switchboard, its clients of AWS, and the lock of its application.
 *
 * What the rooms share: the loop, the API, one budget of payload bytes, and the connections and credentials for AWS.
 */
#ifndef KS_MAIN_ROOM_H
#define KS_MAIN_ROOM_H

#include "adapters/s3/place.h"
#include "adapters/sinks/target.h"
#include "adapters/kinesis/wire_protocol.h"
#include "base/options.h"
#include "main/cloud.h"
#include "ports/switchboard.h"

struct ks_pattern;

struct ks_room {
    /* Set by the caller before it is opened; all of it outlives the room. */
    const struct ks_options *options; /* The subscription's. */
    struct ks_loop *loop;
    struct ks_budget_pool *pool;
    struct ks_cloud *cloud;
    uint64_t boot; /* Of the process: of its subscriptions the same. */
    bool alone;    /* It is the only one: lines on the log need not name it. */
    const char *kin[KS_SUBSCRIPTIONS_MAX]; /* Streams of the others on its lease table. */
    uint32_t kin_count;
    struct ks_kinship common;   /* Of those who share the table, at the first of them, */
    struct ks_kinship *kinship; /* and where that is. */
    void (*drained)(void *arg);
    void (*refused)(struct ks_room *room); /* It can go on no more; the log says why. */
    void *arg;

    struct ks_cloud_part part;
    struct ks_sink_target sink; /* Where dead letters are sent, if they are. */
    struct ks_pattern *filter;  /* NULL: all records are delivered. */
    struct ks_lease_store *store;
    struct ks_stream_source *source;
    struct ks_stream_source *beside; /* For peek and replays; NULL: `source` is. */
    struct ks_worker_lock
        *lock;          /* NULL: the worker id is this process's own, or there is no place. */
    struct ks_cpu *cpu; /* NULL: nobody asks. */
    struct ks_dead_letters *letters; /* NULL: there is no place for them. */
    struct ks_s3_place place;        /* Of `letters` in S3. */
    struct ks_switchboard *board;
    bool is_drained;
    uint64_t unsaved; /* Acknowledged records that the drain could not save. */
};

/* The format in which Kinesis is asked for records, by --aws-protocol and the settings of AWS. */
enum ks_wire_mode ks_room_wire_mode(const struct ks_options *options, const struct ks_cloud *cloud);
/* One after the other; nothing runs yet. On failure `detail` says which part, if anything does; the room must be closed
 * all the same. INVALID (a setting), and whatever keeps a part from opening. */
KS_MUST_USE ks_err ks_room_open(struct ks_room *room, struct ks_detail *detail);
/* Reads the destination that --dead-letters names; ks_sink_is_named() is true of it. INVALID with a detail: it is none,
 * or the stream that is read. */
KS_MUST_USE ks_err ks_room_read_sink(const struct ks_options *options,
                                     struct ks_sink_target *ret_target, struct ks_detail *detail);
/* After the API is closed. What was under way may still come back: turn the loop a little, free the loop, and then
 * call ks_room_free. Both do nothing to a room that is zeroed but for what the caller sets. */
void ks_room_close(struct ks_room *room);
void ks_room_free(struct ks_room *room);

#endif
