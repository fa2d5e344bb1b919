/* SPDX-License-Identifier: Apache-2.0 */
/* script.h - a sidecar whose answers the test writes. It listens on a port of 127.0.0.1 and has
 * threads of its own. */
#ifndef SCRIPT_H
#define SCRIPT_H

#include <pthread.h>

#include "check.h"
#include "kinesis-sidecar-client.h"
#include "wire.h"

enum { SCRIPT_ANSWERS_MAX = 64, SCRIPT_TEXT_MAX = 8192, SCRIPT_HEADER_MAX = 1024 };

/* An answer without a stream. */
struct script_answer {
    int status;
    const char *headers; /* Whole lines; "": none. */
    const char *body;
    size_t size;
};

/* A queue of answers. */
struct script_answers {
    struct script_answer answers[SCRIPT_ANSWERS_MAX];
    size_t count;
    size_t used;
};

struct script {
    char url[64];
    int listener;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct script_answers refusals;  /* For the next streams. */
    struct script_answers settles;   /* For the next settle requests; then each is accepted. */
    int stream;                      /* The socket of a stream that was asked for; -1: none. */
    char request[SCRIPT_HEADER_MAX]; /* Of that stream: its head. */
    unsigned opened;                 /* Streams that were asked for. */
    bool holds_answers;              /* Settle requests are answered later. */
    bool refuses_settles;            /* Settle requests get 503. */
    bool sends_barriers;             /* Each accepted barrier is written to the last stream. */
    unsigned requests;               /* Settle requests. */
    unsigned deleted;                /* Sessions that were ended. */
    char outcomes[SCRIPT_TEXT_MAX];  /* Items but extensions, like "b1:ack 2.1:retry(reason)". */
    char extensions[SCRIPT_TEXT_MAX];
    char tokens[SCRIPT_TEXT_MAX]; /* Of streams and settle requests, one after the other. */
    int last_stream;
};

struct script *script_start(void);

void script_refuse(struct script *script, int status, const char *headers, const char *body);
void script_answer(struct script *script, int status, const char *body, size_t size);

/* Answers of the sidecar: refuses the item with the id; the size goes to `*ret_size`. */
const char *script_failure(const char *ack_id, const char *reason, size_t *ret_size);

/* Waits until the consumer opens a stream, and begins it with a session. */
int script_open(struct script *script);
int script_open_with(struct script *script, int64_t ack_deadline_ms, int64_t heartbeat_ms);

/* Writes to a stream. */
void script_record(int stream, const char *batch, int number, uint32_t attempt);
void script_record_in(int stream, const char *batch, int number, uint32_t attempt,
                      const char *shard, uint32_t lane);
void script_redriven(int stream, const char *batch, int number, uint32_t attempt);
void script_data(int stream, int number, const void *data, size_t size);
void script_event(int stream, uint32_t field, const void *data, size_t size);
void script_barrier(int stream, uint64_t number);
void script_bytes(int stream, const void *data, size_t size);

/* Ends a stream. */
void script_drop(int stream);

/* True if the item was sent, as it stands in `outcomes`. */
bool script_has(struct script *script, const char *item);
bool script_has_extension(struct script *script, const char *item);

/* A copy of a member, which threads of the script change. */
const char *script_outcomes(struct script *script);
unsigned script_count(struct script *script, const unsigned *member);
void script_hold_answers(struct script *script, bool holds);
void script_refuse_settles(struct script *script, bool refuses);

#endif
