/* SPDX-License-Identifier: Apache-2.0 */
/* kinesis-sidecar-client.h - reads the records of a Kinesis stream from a kinesis-sidecar, and
 * settles them.
 *
 *     static int handle(ks_record *record, void *context)
 *     {
 *         if (save(context, record->data, record->data_size))
 *             return 0;                                   // The record is acknowledged.
 *         return ks_record_fail(record, "cannot save");   // The record is retried.
 *     }
 *
 *     ks_consumer *consumer = ks_consumer_new("orders", NULL);
 *     ks_client_status status = ks_consumer_run(consumer, handle, database);
 *     ks_consumer_free(consumer);
 *
 * A consumer is read in one of three ways: ks_consumer_run(), ks_consumer_next() or
 * ks_consumer_batch(). Delivery is at least once: a record that is not acknowledged is redelivered.
 *
 * Memory. The package owns all that its functions return. A record is valid until its handler
 * returns, or until the next call of ks_consumer_next() or ks_consumer_batch() for the same
 * consumer, or until ks_consumer_close().
 *
 * Threads. One thread at a time calls ks_consumer_run(), ks_consumer_next() or ks_consumer_batch()
 * of a consumer. All other functions may be called in any thread while the consumer or the record
 * is valid. A consumer has one thread of its own, which blocks all signals. A program that uses
 * libcurl in other threads calls curl_global_init() before ks_consumer_new().
 *
 * Durations are in milliseconds. Structs that the package fills may get further members at their
 * end: such a version has the same SOVERSION.
 */
#ifndef KINESIS_SIDECAR_CLIENT_H
#define KINESIS_SIDECAR_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KS_CLIENT_API __attribute__((visibility("default")))

typedef struct ks_consumer ks_consumer;

/* ---- Status ---- */

typedef enum ks_client_status {
    KS_CLIENT_OK = 0,
    KS_CLIENT_STOPPED,    /* ks_consumer_stop() or a signal ended the reading. */
    KS_CLIENT_INVALID,    /* An option or an argument is invalid. */
    KS_CLIENT_NO_MEMORY,  /* The system refuses memory, a thread or a descriptor. */
    KS_CLIENT_REFUSED,    /* The sidecar refused a request for good. */
    KS_CLIENT_TAKEN_OVER, /* Another process opened a stream with the same client_id. */
    KS_CLIENT_CLOSED,     /* The consumer is closed. */
    KS_CLIENT_FORKED      /* The consumer was made before fork(), in the parent process. */
} ks_client_status;

typedef struct ks_client_error {
    ks_client_status status;
    int http_status; /* Of KS_CLIENT_REFUSED, for example 401; else 0. */
    char code[64];   /* Of KS_CLIENT_REFUSED: the reason in one word, "unauthenticated"; else "". */
    char message[512];
} ks_client_error;

/* ---- Records ---- */

/* One delivery of a record. All texts end with a NUL byte. */
typedef struct ks_record {
    /* As it was put, 0 to 10 MiB. A NUL byte follows, which data_size does not count. */
    const unsigned char *data;
    size_t data_size;
    /* 1 to 256 characters of UTF-8. The size is in bytes; it differs from strlen() if the key has a
     * NUL character. */
    const char *partition_key;
    size_t partition_key_size;
    const char *stream; /* Name or ARN, as in the options of the sidecar. */
    const char *shard_id;
    /* Decimal, without leading zeros. Of two, the longer one is larger; else compare the text. */
    const char *sequence_number;
    int64_t sub_sequence_number; /* Index in a KPL aggregate, from 0; 0 for other records. */
    uint64_t epoch;              /* Of the lease. */
    uint32_t attempt;            /* Number of the delivery in this epoch, from 1. */
    int64_t arrived_at_ms;       /* Approximate arrival, Unix time; 0: not known. */
    bool aggregated;             /* A KPL aggregate that could not be taken apart. */
    bool redriven;               /* A dead letter that is delivered again. */
} ks_record;

enum {
    KS_RECORD_REASON_MAX = 1000 /* Bytes of a reason that are kept. */
};

/* The outcome of a record is its first one: further calls do nothing. A handler gives an outcome by
 * these functions or by its result. They report no settlement that the sidecar refuses: see
 * ks_consumer_stale() and ks_consumer_failed().
 *
 * `reason` is text for people; NULL: none. The package copies it. It replaces bytes that are not
 * UTF-8 by '?'. */

/* Acknowledges the record. */
KS_CLIENT_API void ks_record_ack(ks_record *record);

/* Acknowledges the record, and waits until the checkpoint in the lease table covers it, for 10 s at
 * most. Returns whether it does. Without an answer of the sidecar it returns false after 15 s, and
 * the record is acknowledged as by ks_record_ack(). */
KS_CLIENT_API bool ks_record_ack_persisted(ks_record *record);

/* Redelivers the record, not before `delay_ms`, up to 12 h. 0: after the back-off of the
 * sidecar. */
KS_CLIENT_API void ks_record_retry(ks_record *record, int64_t delay_ms, const char *reason);

/* Gives the record up. The sidecar keeps it as a dead letter. */
KS_CLIENT_API void ks_record_dead_letter(ks_record *record, const char *reason);

/* Gives the record up. The sidecar does not keep it. */
KS_CLIENT_API void ks_record_drop(ks_record *record);

/* Moves the ack deadline to `duration_ms` from now, up to 12 h. The package extends the deadline by
 * itself, up to max_processing_ms. This is not an outcome. */
KS_CLIENT_API void ks_record_extend(ks_record *record, int64_t duration_ms);

/* Notes the reason of a failure, for the retry that follows when the handler returns -1.
 * `format` is that of printf(). Returns -1. This is not an outcome. */
KS_CLIENT_API int ks_record_fail(ks_record *record, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- Events ---- */

/* A control event of the stream, or one of the package: "disconnected", "settle_failed". All
 * members are valid during the call of on_event. A text is "" and a number is 0 where the type
 * does not have it. */
typedef struct ks_event {
    const char *type;     /* As in docs/API.md: "session"; "unknown" of a later sidecar. */
    const char *reason;   /* heartbeat (why it is idle), ended, disconnected, settle_failed. */
    const char *message;  /* settle_failed: a sentence. */
    const char *ack_id;   /* settle_failed. */
    const char *session;  /* session. */
    const char *boot_id;  /* session. */
    const char *shard_id; /* lease_returning, lease_lost, record_too_large. */
    const char *sequence_number; /* record_too_large. */
    const char *partition_key;   /* record_too_large. */
    uint64_t bytes;              /* record_too_large. */
    int64_t deadline_ms;         /* draining, lease_returning: Unix time. */
    int64_t retry_in_ms;         /* disconnected: time until the next attempt. */
    uint32_t in_flight;          /* heartbeat: records delivered and not settled. */
    uint32_t credit;             /* heartbeat: records that the sidecar may deliver now. */
    /* session: the limits in force. */
    uint32_t max_in_flight;
    uint64_t max_in_flight_bytes;
    int64_t ack_deadline_ms;
    int64_t heartbeat_ms;
    /* unknown: the number of its field in the message StreamEvent, and the bytes of the field. */
    uint32_t number;
    const unsigned char *payload;
    size_t payload_size;
} ks_event;

/* ---- Consumers ---- */

typedef enum ks_client_ordering {
    /* By shard; with a share or concurrency above 1 by key, with 64 lanes. */
    KS_CLIENT_ORDERING_DEFAULT,
    KS_CLIENT_ORDERING_SHARD, /* The records of a shard are in order. */
    KS_CLIENT_ORDERING_KEY,   /* The records of a partition key are in order. */
    KS_CLIENT_ORDERING_NONE
} ks_client_ordering;

/* A member that is 0 or NULL has its default. ks_consumer_new() copies all but the event context.
 * Another member means another SOVERSION of the library. */
typedef struct ks_consumer_options {
    /* http://HOST:PORT or unix:/PATH. Default: KINESIS_SIDECAR_URL, else http://127.0.0.1:8990. */
    const char *url;
    /* Path of a file with the bearer token. Default: KINESIS_SIDECAR_TOKEN_FILE, else no token. */
    const char *token_file;
    const char *subscription;  /* Needed if the sidecar has several. */
    const char *const *shards; /* Shard ids to read, ended by NULL, 64 at most. Default: all. */
    /* The part of the partition keys to read, a decimal like "0.05". Default: none. Consumers without a
     * share get all other keys; they must have the same ordering and lanes. */
    const char *share;
    const char *salt; /* Chooses which keys are in the share: another salt, other keys. */
    /* A pattern as JSON: the consumer gets the records that match. All others count as settled. All open
     * consumers of a subscription have the same filter. Default: none. */
    const char *filter;
    uint32_t max_in_flight; /* Records delivered and not settled, 1 to 100000. Default: 1000. */
    uint64_t max_in_flight_bytes; /* The same in bytes. Default: 16 MiB. */
    /* A record that is not settled by then is redelivered. 100 to 43200000. Default: 60000. */
    int64_t ack_deadline_ms;
    int64_t max_processing_ms; /* How long the package extends that deadline. Default: 3600000. */
    int64_t ack_interval_ms;   /* How long an acknowledgement waits for others. Default: 100. */
    ks_client_ordering ordering;
    uint32_t lanes;       /* With KS_CLIENT_ORDERING_KEY: of a shard, 1 to 64. Default: 16. */
    uint32_t concurrency; /* Handlers of ks_consumer_run() at a time, 1 to 1024. Default: 1. */
    /* ks_consumer_run() ends by SIGTERM and SIGINT. One consumer of a process can do so at a
     * time. */
    bool handle_signals;
    /* Is called by the consumer's thread. It must not block, nor close the consumer. */
    void (*on_event)(const ks_event *event, void *event_context);
    void *event_context;
} ks_consumer_options;

/* Makes a consumer. It opens nothing before the first record is asked for. `client_id` names the
 * session: 1 to 64 of A-Z a-z 0-9 . _ - . `options` NULL: all defaults.
 *
 * Returns NULL if there is no memory. Invalid options are reported by the first call that reads.
 * The caller frees the consumer by ks_consumer_free(). */
KS_CLIENT_API ks_consumer *ks_consumer_new(const char *client_id,
                                           const ks_consumer_options *options);

/* Handles one record. Returns 0: the record is acknowledged. Returns another number: it is retried,
 * with the reason of ks_record_fail(). */
typedef int ks_record_handler(ks_record *record, void *context);

/* Calls the handler with each record, until ks_consumer_stop(). Then it waits for the running
 * handlers, sends the acknowledgements, and closes the consumer.
 *
 * The handlers run in the calling thread and in concurrency - 1 further ones; in fewer if the
 * system refuses threads. Records of one lane are handled one after the other, in order. A
 * handler must not call ks_consumer_close() or ks_consumer_free().
 *
 * Returns KS_CLIENT_OK after ks_consumer_stop(), ks_consumer_close() or a signal, else the
 * status of the failure: see ks_consumer_error(). */
KS_CLIENT_API ks_client_status ks_consumer_run(ks_consumer *consumer, ks_record_handler *handler,
                                               void *context);

/* Waits for the next record, for `timeout_ms` at most; less than 0: without a limit.
 * Acknowledges the record that the call before returned, unless it has an outcome.
 *
 * Returns NULL after the time, and at the end: ks_consumer_status() is KS_CLIENT_OK after the
 * time alone. A loop that is left settles nothing: ks_consumer_close() gives the last record
 * back. */
KS_CLIENT_API ks_record *ks_consumer_next(ks_consumer *consumer, int64_t timeout_ms);

/* Records in the order of delivery. */
typedef struct ks_batch {
    ks_record *const *records;
    size_t count;
    ks_consumer *consumer;
} ks_batch;

/* Waits for records. Returns up to `max_records` (0: 500) of them, `max_wait_ms` (0: 1000) after
 * the first one at the latest. Acknowledges the records of the batch before that have no
 * outcome. Returns NULL at the end: see ks_consumer_status(). */
KS_CLIENT_API const ks_batch *ks_consumer_batch(ks_consumer *consumer, size_t max_records,
                                                int64_t max_wait_ms);

/* Acknowledges the records of the batch that have no outcome. */
KS_CLIENT_API void ks_batch_ack(const ks_batch *batch);

/* Retries the records of the batch that have no outcome: see ks_record_retry(). */
KS_CLIENT_API void ks_batch_retry(const ks_batch *batch, int64_t delay_ms, const char *reason);

/* Ends ks_consumer_run(), ks_consumer_next() and ks_consumer_batch(). Returns at once. It is
 * async-signal-safe. */
KS_CLIENT_API void ks_consumer_stop(ks_consumer *consumer);

/* Waits for the handlers of ks_consumer_run(), sends the settlements that wait, and ends the
 * session: the sidecar redelivers all other records at once. Gives up on a sidecar that does not
 * answer within 5 s. May be called again. */
KS_CLIENT_API void ks_consumer_close(ks_consumer *consumer);

/* Closes the consumer and frees its memory. No other call for the consumer or its records may be
 * under way, and none may follow. NULL: does nothing. */
KS_CLIENT_API void ks_consumer_free(ks_consumer *consumer);

/* Why the reading ended; KS_CLIENT_OK: it did not end. */
KS_CLIENT_API ks_client_status ks_consumer_status(ks_consumer *consumer);

/* The status, with the failure that ended the reading. Valid until ks_consumer_free(). Of several
 * failures the first one counts. */
KS_CLIENT_API const ks_client_error *ks_consumer_error(ks_consumer *consumer);

/* Number of settlements that had no effect: their session had ended, the sidecar refused their
 * whole request, or it did not answer ks_consumer_close(). Their records are redelivered. */
KS_CLIENT_API uint64_t ks_consumer_stale(ks_consumer *consumer);

/* Number of settlements that the sidecar refused one by one. */
KS_CLIENT_API uint64_t ks_consumer_failed(ks_consumer *consumer);

#ifdef __cplusplus
}
#endif

#endif
