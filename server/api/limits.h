/* SPDX-License-Identifier: Apache-2.0 */
/* limits.h - every maximum of the local API that has a number, with its reason. */
#ifndef KS_API_LIMITS_H
#define KS_API_LIMITS_H

enum {
    /* ---- Connections ---- */
    KS_ACCEPTS_MAX = 64, /* Connections accepted in one turn: the loop has other things to do. */
    KS_HEAD_WAIT_MS = 10000, /* From accept to the first whole request head. */
    KS_BODY_WAIT_MS = 30000, /* From the head to the end of the body. */
    KS_IDLE_WAIT_MS = 30000, /* From the end of an answer to the next whole request head. */
    KS_ENDED_WAIT_MS =
        1000,            /* From the end of a peer's side: what it sent has been read by then. */
    KS_STALL_MS = 30000, /* A peer that in so long takes too little of its answer is let go: .. */
    KS_TAKEN_BYTES = 4 << 10,        /* .. of a stream, .. */
    KS_TAKEN_FIXED_BYTES = 64 << 10, /* .. or of one that is in memory as a whole. */
    KS_SENT_TURN_BYTES = 4 << 20, /* Made for the sockets of all connections in one turn, about. */
    KS_NOTSENT_BYTES =
        128 << 10, /* TCP_NOTSENT_LOWAT: what a consumer that does not read may pile up unsent. */
    KS_POOL_BYTES = 128 << 10, /* libmicrohttpd's pool of a connection. */
    /* A chunk of a streamed answer on HTTP/1: these bytes may wait in memory for a client that does not read. With its
     * lines it fits two segments of the loopback device, 64 KB less their headers each: a third one costs as much. */
    KS_CHUNK_BYTES = 127 << 10,
    KS_FILL_MIN =
        8 << 10, /* Room that a producer always has: the head of the longest record fits. */

    /* ---- HTTP/2 ---- */
    KS_WIRE_STREAMS_MAX = 256,   /* Requests of one connection at one time. */
    KS_STREAMS_MAX = 16384,      /* And of all connections: at about 2 KiB each. */
    KS_WIRE_WINDOW = 1 << 20,    /* Bytes of bodies of one connection on their way to us. */
    KS_RESETS_MAX = 1000,        /* Streams reset at once, by either side (CVE-2023-44487), .. */
    KS_RESETS_PER_S = 33,        /* .. and every second. */
    KS_CONTINUATIONS_MAX = 4,    /* CONTINUATION frames of one head (CVE-2024-28182). */
    KS_OPS_WIRE_STREAMS_MAX = 8, /* Requests of one connection to the ops port. */
    KS_ACKS_MAX = 256,           /* Answers to PING and SETTINGS that a peer does not take. */
    KS_FRAMES_MAX = 4096,        /* Frames of any kind that a peer does not take. */
    KS_QUIET_MS =
        30000, /* A peer that says nothing is asked whether it lives, and let go after as much again. */
    KS_NOTICE_MS = 250, /* The longest wait for a peer to hear that we end. */
    KS_LOOK_MS = 5000,  /* How often it is looked for what is late. */

    /* ---- Requests ---- */
    KS_HEAD_BYTES_MAX = 16 << 10,    /* Request line and header lines; well below the pool. */
    KS_OPS_HEAD_BYTES_MAX = 8 << 10, /* The same of a request to the ops port. */
    KS_HEADERS_BYTES_MAX = 48 << 10, /* The same lines kept, with the sizes of the shortest. */
    KS_BLOCK_RATIO =
        2, /* A header block of HTTP/2 is read to so many times the limit: then its request is refused. */
    KS_BODY_WINDOW = 256 << 10, /* Parts of one streamed body that are not dealt with. */
    KS_TARGET_MAX = 8 << 10,    /* Path and query. */
    KS_PARAMETERS_MAX = 1024,   /* Of a query; libmicrohttpd takes 64 bytes of the pool for each. */
    KS_LINE_PEEK_BYTES = 2048,  /* Of a first request line that is judged before libmicrohttpd. */
    KS_PARAMS_MAX = 256,        /* Parameters of one query: ack_id may stand there many times. */
    KS_PUT_BYTES_MAX =
        16 << 20, /* POST /v1/local/records: 10 MiB of records as base64, and room. */
    KS_UNPACKED_FREE_BYTES = 256 << 10, /* A message may unpack to so much, .. */
    KS_UNPACKED_RATIO = 7, /* .. and to so many times its size more: then it is parsed, too. */
    KS_DECODE_HERE_BYTES =
        32 << 10, /* A longer message is read on a thread of its own: up to 50 ns a byte. */
    KS_DECODE_HERE_PROTO_BYTES = 64
                                 << 10, /* The same limit for protobuf, which is parsed faster. */
    KS_REQUEST_BYTES = 2 << 10,         /* What a request takes in memory beside its head, about. */
    KS_PUT_ENTRIES_MAX = 500,           /* Records of one PutRecords (Kinesis API reference). */
    KS_SETTLEMENTS_MAX = 10000, /* Items of one settle request: a 1 MiB body holds about as many. */
    KS_OPERATED_SHARDS_MAX = 1000, /* Shards that one order names. */
    KS_TOKEN_BYTES_MAX = 4096,     /* A bearer token. */
    KS_WAIT_MS_MAX = 60000,        /* wait_ms of a long poll or of wait=persisted. */

    /* ---- Answers ---- */
    KS_ANSWER_BYTES_MAX = 32 << 20, /* A fixed answer: 10,000 rows of the longest names. */
    KS_PAGE_SIZE = 1000,
    KS_PAGE_SIZE_MAX = 10000,
    KS_ANSWER_HEAD_BYTES_MAX = 16 << 10, /* Its headers, and as much for its trailers. */
    KS_RPC_SENT_BYTES_MAX = 1 << 20,     /* Messages that a call's client has not taken. */
    KS_RPC_TAIL_BYTES_MAX = 32 << 10, /* How a call ends: its error, and its trailing metadata. */
    KS_CONTROL_BYTES_MAX = 256 << 10, /* Control lines of one stream that wait to be written. */
    KS_ANSWERS_BYTES_MAX =
        4 << 20, /* The same with answers: 10,000 ids that failed, each with its reason. */
    KS_DATA_DEPTH_MAX =
        61, /* Levels of a record's JSON; three stand around it, and strict readers take 64. */

    /* ---- Beside the group ---- */
    KS_PEEKS_MAX = 16,          /* At once; each may hold 5 MiB. */
    KS_REPLAYS_MAX = 16,        /* Each holds one batch. */
    KS_REPLAY_IDLE_MS = 300000, /* A replay that nobody streams is over then. */

    /* ---- Sessions ---- */
    KS_IN_FLIGHT_MAX = 100000,
    KS_PULL_RECORDS_MAX = 10000,
    KS_LANES_DEFAULT = 16, /* Lanes of a shard with ordering=key. */
    KS_HEARTBEAT_MS_MIN = 100,
    KS_HEARTBEAT_MS_MAX = 60000,
    KS_ACK_DEADLINE_MS_MIN = 100,
    KS_ACK_DEADLINE_MS_MAX = 43200000, /* Twelve hours. */
    KS_GRACE_MS = 5000,                /* From the end of a connection to the requeue. */
    KS_LINGER_MS = 300000 /* A session that pulls is over so long after its last call. */
};

/* The sentence when there is no room for a body. */
#define KS_BODIES_REFUSAL "too many bodies of requests are in memory (\"held\" in /v1/status)"

#endif
