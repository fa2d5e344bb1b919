/* SPDX-License-Identifier: Apache-2.0 */
/* stream_consumer.h - the consumer of a benchmark: a process of its own, on a processor of its own.
 *
 * It reads the record stream of a sidecar from a loopback port with large reads, finds every record and every
 * batch_id, and acknowledges batches so often that credit never ends: on a second connection, or by gRPC on the same
 * one, in calls of Settle beside a Watch, or in the Stream itself. It says two words to
 * its parent: when it begins to count, and when it has counted. For programs of tests/bench; what goes wrong ends
 * the program.
 */
#ifndef TESTS_LIB_STREAM_CONSUMER_H
#define TESTS_LIB_STREAM_CONSUMER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    STREAM_BATCHES_PER_ACK_MAX = 32, /* A query of them stays below the longest target. */
    STREAM_IN_FLIGHT_BYTES = 16 << 20
};

struct stream_job {
    const char *format;       /* "protobuf", "ndjson"; "watch" and "stream" by gRPC */
    uint32_t record_bytes;    /* 0: nothing comes; it counts seconds. */
    uint32_t batches_per_ack; /* 1 .. STREAM_BATCHES_PER_ACK_MAX */
    uint64_t in_flight_bytes;
    double warm_seconds;     /* From the first record, */
    double measured_seconds; /* and from then. */
    bool plain;              /* Nobody to acknowledge to. */
    uint64_t (*probe)(void); /* Asked at both words; NULL: nothing. */
    /* Another consumer than this one: called in its process, says both words by stream_consumer_say(), and returns. */
    void (*run)(const struct stream_job *job, uint16_t port);
    const void *arg; /* Its own. */
};

/* What the consumer counted between its two words. */
struct stream_count {
    uint64_t records;
    uint64_t wire_bytes; /* Of the socket. */
    uint64_t acks;       /* Requests. */
    uint64_t probed;     /* By how much the probe rose. */
    double seconds;
    double consumer_cpu;
};

/* Both words, as the parent hears them, and what this process spent between them. */
struct stream_watcher {
    int words; /* Readable when a word is there. */
    bool begun;
    double cpu;
    double system_cpu;
    struct stream_count count;
};

/* Forks it. It waits for a stream at `port`; `job` is not needed any more. */
pid_t stream_consumer_fork(const struct stream_job *job, uint16_t port,
                           struct stream_watcher *ret_watcher);
/* In the consumer: says a word; the second tells what was counted since the first. */
void stream_consumer_say(const struct stream_count *count);
/* Takes a word. True when it was the last. */
bool stream_consumer_hear(struct stream_watcher *watcher);
/* Waits for its end. */
void stream_consumer_bury(pid_t pid, struct stream_watcher *watcher);
/* Keeps this process on the processor of the sidecar. */
void stream_consumer_stay_away(void);

/* Whether bytes are there. */
bool stream_readable(int fd);

#endif
