/* SPDX-License-Identifier: Apache-2.0 */
/* account.h - what a connection costs: the work that was done for it, and the memory that is held for it.
 *
 * Work is counted in units, of which one is a byte that the loop looked at: of a head after its decompression, of a
 * message that was unpacked, of JSON or protobuf that was parsed, and of answers a part. A connection pays when
 * the work is done. One whose balance is not positive has nothing more done for it and is not read from, until its turn
 * comes: such connections stand in a queue, and each turn of the loop gives KS_WORK_QUANTUM to as many of them as
 * KS_WORK_TURN allows (deficit round robin; Shreedhar and Varghese, SIGCOMM 1995; the last piece of work may overdraw).
 * One that has a balance and only came when the turn was used up goes before those (as new flows do in FQ-CoDel, RFC
 * 8290), in the order in which they came; those that were never served wait apart, for a crowd of them may come. Each
 * that is called may do a piece of work at least. So a turn has KS_WORK_TURN units, and a piece of each that was
 * called; heartbeats, lease writes and completions come between turns.
 *
 * Memory is counted by kinds, in bytes. Of each kind a connection has a small part for itself, whatever others hold, so
 * that a small request is served beside large ones; beyond it all of them share the kind's limit.
 *
 * The local API and the ops addresses have accounts of their own. Loop thread only.
 */
#ifndef KS_API_ACCOUNT_H
#define KS_API_ACCOUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/loop.h"

enum {
    KS_WORK_QUANTUM = 64 << 10, /* Units of one connection, before others that wait have theirs. */
    KS_WORK_TURN = 256 << 10,   /* Units of all: 1 ms to 10 ms, by what they are spent on. */
    KS_WORK_LINE = 32,     /* Units of a header line beside its bytes, as RFC 7541 counts it. */
    KS_WORK_FRAME = 64,    /* Units of a frame of HTTP/2. */
    KS_WORK_REQUEST = 256, /* Units of a request beside its bytes. */
    KS_WORK_ANSWER_BYTES =
        8 /* Bytes of an answer that are a unit: they are written, and not judged. */
};

enum ks_work {
    KS_WORK_HEADS,     /* Frames, and the lines of heads and trailers after their decompression. */
    KS_WORK_UNPACKING, /* gzip: the bytes that came out. */
    KS_WORK_PARSING,   /* JSON and protobuf. */
    KS_WORK_ANSWERS, /* Fixed answers. Records that are streamed have bounds of their own: chunks.h, http2.c. */
    KS_WORK_KINDS
};

enum ks_held {
    KS_HELD_HEADS, /* Requests without their bodies: the target, and the header lines that are asked for. */
    KS_HELD_BODIES,  /* Bodies of requests, and messages, until they were dealt with. */
    KS_HELD_ANSWERS, /* Answers that nobody took yet, and what is read to make them. */
    KS_HELD_KINDS
};

struct ks_accounts {
    struct ks_loop *loop;
    struct ks_hook hook;
    struct ks_link ready;   /* Have a balance, and wait for the next turn. */
    struct ks_link fresh;   /* The same, of those that were never served. */
    struct ks_link called;  /* It is their turn, and they did not come yet. */
    struct ks_link debtors; /* Wait until they have one: the first is the next. */
    struct ks_link idle;    /* Without a request: the longest first. */
    struct ks_timer kick;
    int64_t turn_left;
    uint64_t turn;
    uint64_t work[KS_WORK_KINDS]; /* Since the start. */
    size_t limit[KS_HELD_KINDS];
    size_t held[KS_HELD_KINDS];
    uint64_t work_told[KS_WORK_KINDS]; /* To the metrics. */
    size_t held_told[KS_HELD_KINDS];
};

/* Of a connection, or of a stream of one that pays by itself. The functions are the owner's. */
struct ks_account {
    struct ks_accounts *accounts;
    struct ks_link waiting; /* In `ready`, `fresh`, `called` or `debtors`. */
    struct ks_link idle;
    int64_t balance;
    uint64_t turn;   /* Whose quantum is in the balance. */
    uint64_t called; /* The last turn that was its own. */
    bool waits;      /* For its turn. */
    bool known;      /* It was served before. */
    size_t held[KS_HELD_KINDS];
    /* Its turn has come: the owner looks again whether it may work. */
    void (*go_on)(struct ks_account *account);
    /* Closes the connection: others need its place. */
    void (*close)(struct ks_account *account);
};

/* Hooks into the loop; before the transports do, for a turn begins with it. `memory`: the payload budget, of which the
 * limits of the kinds are derived (docs/LIMITS.md); the ops addresses have small limits of their own. */
void ks_accounts_begin(struct ks_accounts *accounts, struct ks_loop *loop, size_t memory, bool ops);
void ks_accounts_end(struct ks_accounts *accounts);
/* Brings the metrics of work and of memory up to date: before they are read. */
void ks_accounts_tell(struct ks_accounts *accounts);
/* Has the connection closed that is idle for the longest, now or very soon. False if there is none. */
bool ks_accounts_close_idle(struct ks_accounts *accounts);

/* `account` is zeroed but for the functions; it is idle. */
void ks_account_open(struct ks_account *account, struct ks_accounts *accounts);
/* It holds nothing any more. */
void ks_account_close(struct ks_account *account);
/* It has a request or more under way, or none. */
void ks_account_set_idle(struct ks_account *account, bool idle);

/* Charges work that was done. NULL: nobody pays. */
void ks_account_work(struct ks_account *account, enum ks_work kind, size_t units);
/* Whether more may be done for it in this turn. */
bool ks_account_may_work(struct ks_account *account);
/* Queues it; `go_on` is called in a later turn. Once is enough. */
void ks_account_await(struct ks_account *account);

/* What was charged for `*charged` bytes becomes a charge of `size`. False if that is too much: then nothing has
 * changed, and the owner gives up what it has. Less than before is never too much. NULL: nobody pays. */
bool ks_account_hold(struct ks_account *account, enum ks_held kind, size_t *charged, size_t size);
/* The same for what must be held: charged beyond the limit. */
void ks_account_must_hold(struct ks_account *account, enum ks_held kind, size_t *charged,
                          size_t size);

/* The word for the kind, in /v1/status and as a label of metrics. */
const char *ks_held_name(enum ks_held kind);

#endif
