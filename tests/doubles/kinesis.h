/* SPDX-License-Identifier: Apache-2.0 */
/* kinesis.h - what the files of the Kinesis double share; kinesis.c says what it is and does.
 *
 * One thread, one epoll; everything belongs to it. It is a test double: what cannot go on (memory, a broken rule of its
 * own) ends the process with a word on stderr.
 */
#ifndef TESTS_DOUBLES_KINESIS_H
#define TESTS_DOUBLES_KINESIS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ACCOUNT "123456789012"

enum {
    NAME_MAX_BYTES = 128, /* Of streams, consumers and shards. */
    ARN_BYTES = 400,
    SEQUENCE_DIGITS = 56,
    HASH_DIGITS = 39,
    RECORDS_MAX = 10000,       /* Of one GetRecords. */
    READ_BYTES_MAX = 10 << 20, /* Of one GetRecords. */
    EVENT_BYTES_MAX = 1 << 20, /* Of one event of a subscription. */
    ENTRIES_MAX = 500,         /* Of one PutRecords. */
    CONSUMERS_MAX = 20,        /* Of one stream. */
    HEADERS_MAX = 64
};

_Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- Bytes (kinesis_bytes.c) ---- */

/* Grows at the end, is used up from the front. */
struct bytes {
    uint8_t *data;
    size_t start, end, capacity;
};

void *must_alloc(size_t size); /* Zeroed. */
void *must_grow(void *old, size_t size);
size_t bytes_size(const struct bytes *bytes);
uint8_t *bytes_front(const struct bytes *bytes);
/* Room for `size` more; what was written there counts after bytes_wrote. */
uint8_t *bytes_room(struct bytes *bytes, size_t size);
void bytes_wrote(struct bytes *bytes, size_t size);
void bytes_add(struct bytes *bytes, const void *data, size_t size);
void bytes_print(struct bytes *bytes, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void bytes_use(struct bytes *bytes, size_t size);
void bytes_free(struct bytes *bytes);
void bytes_u32(struct bytes *bytes, uint32_t number); /* Big-endian. */

void hex_of(const uint8_t *data, size_t size, char *text); /* With a NUL. */
void base64_add(struct bytes *to, const void *data, size_t size);
/* Of no text: "" and size 0. False: no base64. The caller frees `ret_data`. */
bool base64_read(const char *text, uint8_t **ret_data, size_t *ret_size);
uint32_t crc32_of(const uint8_t *data, size_t size);
uint64_t chance(void); /* From the knob `seed`. */

/* ---- Rules that a test can change (kinesis_rules.c) ---- */

/* Name, default, what it is. Milliseconds of `_span` are divided by `scale`; POST /_control sets them. */
#define KNOBS(X)                                                                                   \
    X(scale, 1, "spans are that many times shorter")                                               \
    X(iterator_span, 300000, "life of an iterator")                                                \
    X(token_span, 300000, "life of a NextToken")                                                   \
    X(subscription_span, 300000, "life of a subscription")                                         \
    X(takeover_span, 5000, "after a SubscribeToShard, no other one is taken")                      \
    X(heartbeat_span, 5000, "an idle subscription sends an empty event")                           \
    X(retention_span, 86400000, "life of a record")                                                \
    X(second_span, 1000, "what rates are counted by")                                              \
    X(pause_span, 5000, "after 10 MiB of a shard, it is not read")                                 \
    X(change_span, 10, "CREATING, UPDATING, DELETING")                                             \
    X(limits, 0, "1: rates are limited as AWS does it")                                            \
    X(read_calls, 5, "GetRecords of a shard in a second")                                          \
    X(read_bytes, 2097152, "of a shard in a second, and of a subscription")                        \
    X(write_records, 1000, "put to a shard in a second")                                           \
    X(write_bytes, 1048576, "put to a shard in a second")                                          \
    X(record_bytes, 1048576, "most data of a record")                                              \
    X(end_apart, 0, "1: the end of a shard is told by a call of its own")                          \
    X(empty_reads, 0, "n: every n-th GetRecords brings nothing, though there is more")             \
    X(clock_ms, 0, "added to the clock of the server")                                             \
    X(signature_ms, 300000, "how far X-Amz-Date may be from it")                                   \
    X(seed, 1, "of chance")

struct knobs {
#define X(name, value, what) int64_t name;
    KNOBS(X)
#undef X
};
extern struct knobs knobs;

/* The server's clock, Unix ms; read once a turn. */
extern int64_t now_ms;
void read_clock(void);
int64_t scaled(int64_t span);

/* So much, and so often, since the second began. */
struct rate {
    int64_t since_ms;
    uint64_t calls, bytes;
};
/* Counts a call if it is within the rate; 0 = no limit. False: too much. */
bool rate_allows(struct rate *rate, uint64_t bytes, int64_t calls_max, int64_t bytes_max);

enum fault_kind {
    FAULT_NONE,
    FAULT_ERROR,     /* Not done; answered with code and message. */
    FAULT_REFUSE,    /* Not done; the connection is closed. */
    FAULT_LOSE,      /* Done; the connection is closed instead of an answer. */
    FAULT_HANG,      /* Done; never answered. */
    FAULT_CUT,       /* Done; the connection is closed in the middle of the answer. */
    FAULT_GARBAGE,   /* Done; answered 200 and nonsense. */
    FAULT_LATE,      /* Done; answered after `delay_ms`. */
    FAULT_EXCEPTION, /* From here on: of a subscription. */
    FAULT_STREAM_ERROR,
    FAULT_BAD_CRC,
    FAULT_SILENCE, /* It stays open, and nothing comes any more. */
    FAULT_END,     /* It ends without a word. */
    FAULT_NO_INITIAL
};
enum fault_moment { AT_CALL, AT_INITIAL, AT_EVENT };

struct fault {
    enum fault_kind kind;
    enum fault_moment moment;
    char operation[64]; /* "" = any. */
    char shard[NAME_MAX_BYTES + 1];
    char code[64];
    char message[512]; /* "" = what AWS says. */
    int status;        /* 0 = that of the code. */
    int64_t delay_ms;
    int64_t skip, count,
        percent;      /* Passes over so many, hits so many of the rest, or some of them. */
    char header[128]; /* "x-amz-retry-after: 200" */
};

struct call;
/* The fault of this call at that moment; FAULT_NONE if it is spared. */
struct fault fault_for(const struct call *call, enum fault_moment moment);
/* GET /_control: what happened so far. POST: sets knobs, faults, credentials, volumes. */
void control_answer(struct call *call);

/* What GET /_control counts. */
void count_request(const char *operation);
void count_error(const char *code);
struct counts {
    uint64_t connections, connections_open, tls, h2, signatures_checked, signatures_refused;
    uint64_t subscriptions, subscriptions_open, records_sent, bytes_sent;
};
extern struct counts counts;

/* ---- Bodies (kinesis_body.c) ---- */

/* What a CBOR request would have been in JSON: byte strings as base64, times as seconds. NULL: not CBOR, or no more
 * than a stub of it. */
json_t *cbor_read(const uint8_t *data, size_t size);

/* Writes an answer down; CBOR as AWS does it: indefinite lengths, times as tag 1 and integer ms. */
struct writer {
    struct bytes *to;
    bool cbor;
    bool comma; /* JSON: something stands before what comes. */
};

void write_map(struct writer *writer);
void write_map_end(struct writer *writer);
void write_list(struct writer *writer);
void write_list_end(struct writer *writer);
void write_key(struct writer *writer, const char *key);
void write_text(struct writer *writer, const char *text, size_t size);
void write_blob(struct writer *writer, const void *data, size_t size);
void write_number(struct writer *writer, int64_t number);
void write_bool(struct writer *writer, bool fact);
void write_time(struct writer *writer, int64_t unix_ms);
/* A key and a text. */
void write_pair(struct writer *writer, const char *key, const char *text);

/* ---- Numbers of 128 bits and more (kinesis_numbers.c) ---- */

__extension__ typedef unsigned __int128 hash_key;

void hash_print(hash_key hash, char text[HASH_DIGITS + 1]);
bool hash_read(const char *text, hash_key *ret_hash); /* False: not below 2^128. */
hash_key hash_of(const char *partition_key, size_t size);

/* What a sequence number is made of. */
struct sequence {
    int64_t created_s; /* Of the shard. */
    uint64_t index;    /* Of the record: the first is 1. The start of a shard is 0. */
    int64_t time_s;
    uint32_t shard;
};
#define SEQUENCE_LAST INT64_MAX /* The index of an ending sequence number. */

void sequence_print(const struct sequence *sequence, char text[SEQUENCE_DIGITS + 1]);
/* False: not a number that Kinesis could have made. */
bool sequence_read(const char *text, struct sequence *ret_sequence);
/* Makes it the number of the next record of that second. */
void sequence_next(char text[SEQUENCE_DIGITS]);

/* An iterator looks like those of Kinesis, and is sealed with the same key as those of kinesalite and kinesis-local:
 * who can make one of theirs old can do it with ours. */
void iterator_print(struct bytes *to, const char *stream, const char *shard, const char *sequence);
struct iterator {
    int64_t made_ms;
    char stream[NAME_MAX_BYTES + 1];
    char shard[NAME_MAX_BYTES + 1];
    struct sequence sequence;
};
bool iterator_read(const char *text, struct iterator *ret_iterator);

/* ---- Streams (kinesis_store.c) ---- */

struct record {
    int64_t arrival_ms;
    char sequence[SEQUENCE_DIGITS + 1];
    uint16_t key_size;
    uint32_t data_size;
    uint8_t *bytes; /* The key, then the data. */
};

/* Records that are nowhere until somebody reads them: as many as wanted, at the speed of memory. */
struct volume {
    uint32_t data_size;  /* 0: no volume, records are put. */
    uint64_t count;      /* In each shard. */
    uint64_t per_second; /* They appear by and by; 0: at once. */
};

/* A volume's record, rendered once; the rest is patched in. */
struct rendered {
    struct bytes bytes;
    size_t sequence_at, key_at, time_at;
};

struct shard {
    struct stream *stream;
    uint32_t number;
    char id[NAME_MAX_BYTES + 1];
    int32_t parents[2]; /* -1: none. */
    hash_key first, last;
    int64_t created_s; /* As its sequence numbers say it. */
    int64_t opened_ms, closed_ms;
    char start[SEQUENCE_DIGITS + 1], ending[SEQUENCE_DIGITS + 1];
    struct record *records; /* From number `trimmed` on. */
    uint64_t trimmed, count, capacity;
    struct rendered rendered[2]; /* JSON, CBOR. */
    struct rate puts, gets, iterators;
    int64_t paused_until_ms;
    uint64_t reads;
};

enum stream_status { CREATING, ACTIVE, UPDATING, DELETING };

struct consumer {
    struct stream *stream; /* NULL: free. */
    char name[NAME_MAX_BYTES + 1];
    char arn[ARN_BYTES];
    int64_t created_ms;
    int64_t *subscribed_ms; /* By number of shard: its last successful SubscribeToShard. */
    uint32_t subscribed_count;
    struct rate calls;
};

struct stream {
    struct stream *next;
    char name[NAME_MAX_BYTES + 1];
    char arn[ARN_BYTES];
    int64_t created_ms;
    enum stream_status status;
    int64_t change_at_ms; /* When the status ends. */
    struct {
        struct shard *one, *other; /* `other` NULL: a split, at `hash`. */
        hash_key hash;
    } change;
    struct shard **shards;
    uint32_t shard_count;
    struct consumer consumers[CONSUMERS_MAX];
    struct volume volume;
    struct rate lists;
};

extern const char *region;
struct stream *stream_find(const char *name, size_t size);
struct stream *stream_first(void);
struct stream *stream_add(const char *name, uint32_t shards);
const char *stream_status_name(const struct stream *stream);
void stream_change(struct stream *stream, enum stream_status status);
struct shard *shard_find(const struct stream *stream, const char *id);
struct shard *shard_for(const struct stream *stream, hash_key hash);
uint64_t shard_count(const struct shard *shard); /* One more than the number of its last record. */
bool shard_gone(const struct shard *shard);      /* Closed, and everything in it trimmed. */
void shard_put(struct shard *shard, const char *key, size_t key_size, const uint8_t *data,
               size_t data_size, char ret_sequence[SEQUENCE_DIGITS + 1]);
/* The number of the first record that arrived at or after that instant. */
uint64_t shard_at(const struct shard *shard, int64_t unix_ms);
/* The sequence number for a position: that of the record if it is there. */
void shard_sequence(const struct shard *shard, uint64_t number, char text[SEQUENCE_DIGITS + 1]);

struct read_result {
    uint32_t records;
    uint64_t bytes;
    int64_t behind_ms;
    bool full;   /* There is more than `bytes_max`. */
    bool at_end; /* Of a closed shard. */
};
/* Writes the list of the records from `*number` on, moves it on, and tells what remains. */
struct read_result shard_read(struct shard *shard, uint64_t *number, uint32_t records_max,
                              uint64_t bytes_max, struct writer *writer);
void write_children(struct writer *writer, const struct shard *shard);
void write_hash_range(struct writer *writer, const struct shard *shard);
/* What is due: changes of streams, trimming. Returns when to be called again. */
int64_t store_turn(void);

/* ---- Calls (kinesis_calls.c) ---- */

struct header {
    const char *name; /* Lower-case. */
    const char *value;
};

/* A request and its answer. Belongs to its connection. */
struct call {
    struct connection *connection;
    struct call *next;    /* Of those that wait. */
    struct call *sibling; /* Of one HTTP/2 connection. */
    int32_t h2_stream;    /* 0: HTTP/1.1. */

    /* The request. */
    struct bytes text; /* What the headers point into, for HTTP/2. */
    char *method, *path;
    struct header headers[HEADERS_MAX];
    uint32_t header_count;
    struct bytes body;
    char operation[64];
    json_t *in;

    /* The answer. */
    struct writer out; /* To `answer`. */
    struct bytes answer;
    int status;
    const char *content_type;
    char stream_name[NAME_MAX_BYTES + 1], shard_id[NAME_MAX_BYTES + 1]; /* What it is about. */
    struct fault fault;
    int64_t due_ms; /* Not answered before. */
    bool head_sent;
    bool ended; /* Nothing is added to `answer` any more. */
    struct subscription *subscription;
};

const char *call_header(const struct call *call, const char *name); /* NULL: none. */
/* Does what is asked and fills in the answer, or leaves it to be filled later. */
void call_serve(struct call *call);
/* The answer is a refusal; the text is its message, "": none. */
void fail(struct call *call, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* What AWS says with a code that a fault asks for. */
void error_text(const struct call *call, const char *code, char *text, size_t size);

/* Members of a request. */
const char *in_text(const struct call *call, const char *name); /* NULL: none. */
int64_t in_number(const struct call *call, const char *name, int64_t otherwise);
bool in_time(const json_t *object, const char *name, int64_t *ret_unix_ms);
/* By StreamName or StreamARN; NULL: refused. */
struct stream *in_stream(struct call *call);

/* The one that the call is about; NULL: refused. */
struct shard *in_shard(struct call *call, const struct stream *stream);

/* The operations: kinesis_streams.c, kinesis_data.c, kinesis_consumers.c. */
typedef void operation_function(struct call *call);
operation_function create_stream, delete_stream, describe_stream, describe_summary, list_shards,
    split_shard, merge_shards;
operation_function put_record, put_records, get_shard_iterator, get_records;
operation_function register_consumer, deregister_consumer, describe_consumer, list_consumers;
operation_function subscribe;

/* Where to begin, of GetShardIterator and SubscribeToShard. False: refused. */
bool position_of(struct call *call, struct shard *shard, const json_t *from, const char *type,
                 const char *sequence, uint64_t *ret_number);

/* False: a member of the request is not as the model says, and the call is refused. */
bool request_valid(struct call *call);

/* False: refused, for its signature. */
bool signature_valid(struct call *call);
/* The list of {"access_key", "secret_key", "token"?, "expires_ms"?, "denied"?: operation}; empty: anybody may.
 * Returns what is wrong with it, or NULL. */
const char *credentials_set(const json_t *list);

/* ---- Fan-out (kinesis_fanout.c) ---- */

enum { ANSWER_AHEAD = 2 << 20 }; /* A subscription adds no event while so much is not sent. */

/* The answer to `call` is a subscription from now on; one that the consumer has to the shard ends. */
void fanout_begin(struct call *call, struct consumer *consumer, struct shard *shard,
                  uint64_t number);
/* Ends those of a stream that is about to go. */
void fanout_forget(const struct stream *stream);
void fanout_forget_consumer(const struct consumer *consumer);
/* Sends what is to be sent; returns when to be called again. */
int64_t fanout_turn(void);
void subscription_free(struct subscription *subscription); /* NULL is fine. */

/* ---- Connections (kinesis_net.c, kinesis_h1.c, kinesis_h2.c) ---- */

struct connection;
/* There is an answer, or more of it, to be sent. */
void connection_wake(struct connection *connection);
/* It ends at once, without goodbye. */
void connection_break(struct connection *connection);
/* It ends when everything is sent. */
void connection_close(struct connection *connection);
/* What is to be sent. */
struct bytes *connection_out(struct connection *connection);

/* Take what they can from `in`, serve, and write what they can to connection_out. False: that is no HTTP. */
struct h1;
struct h1 *h1_new(struct connection *connection);
void h1_free(struct h1 *h1); /* NULL is fine; of h2_free, too. */
bool h1_turn(struct h1 *h1, struct bytes *in);
struct h2;
struct h2 *h2_new(struct connection *connection);
void h2_free(struct h2 *h2);
bool h2_turn(struct h2 *h2, struct bytes *in);

struct call *call_new(struct connection *connection);
void call_free(struct call *call);
struct answer_header {
    char name[64]; /* Lower-case. */
    char value[128];
};
enum { ANSWER_HEADERS = 6 };
/* The head of an answer, without its status; returns how many. A length only if it has ended. */
uint32_t answer_headers(const struct call *call, struct answer_header headers[ANSWER_HEADERS]);

/* Port 0: any. Returns what it got. With certificate and key (PEM files) it speaks TLS. */
uint16_t net_listen(uint16_t port, const char *certificate, const char *key);
/* Waits for somebody until that instant at most, and serves who is there. */
void net_turn(int64_t until_ms);
/* Wakes the connections of answers that were late; returns when to be called again. */
int64_t calls_turn(void);

#endif
