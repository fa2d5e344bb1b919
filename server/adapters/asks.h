/* SPDX-License-Identifier: Apache-2.0 */
/* asks.h - the open requests of a lease store: each is answered once, in a later turn, and in time.
 *
 * What every store must do in the same way (ports/lease_store.h), whatever lies behind it. A
 * request becomes an ask and is translated at once, so that nothing of the caller's is kept. The
 * store answers the ask when it knows; if its timeout comes first, it is answered UNKNOWN here and
 * the store forgets it. Out of the answers grows the state of the store; what somebody must look
 * at is logged once, when it begins, and when it is over.
 * Slots lie in one array whose pages are touched as they are needed. Loop thread only; the `work`
 * of an ask is plain memory that a job may use.
 */
#ifndef KS_ADAPTERS_ASKS_H
#define KS_ADAPTERS_ASKS_H

#include "adapters/dialects/dialect.h"
#include "adapters/item.h"
#include "base/list.h"
#include "base/loop.h"
#include "ports/lease_store.h"

enum {
    KS_ASKS_MAX = 65536,    /* Open at one time: one for each lease row that there can be. */
    KS_ASKS_AWAY_AFTER = 3, /* Failures in a row: a lone throttle or timeout is no news. */
    KS_ASKS_TROUBLE_S =
        300, /* A kind of request that is not made any more is not held against us. */
    /* For a page of lease rows, at least: it may be 1 MB, however short a lease is; and for all pages of a read. */
    KS_ASKS_PAGE_MS = 2000,
    KS_ASKS_WHOLE_MS = 30000
};

/* A translated request, and what came of it. */
struct ks_ask_work {
    enum ks_store_operation operation;
    bool consistent; /* Of a read. */
    bool looks;      /* Of DynamoDB: a write before which a look is under way. */
    ks_instant asked_at;
    ks_span timeout; /* As asked. */
    ks_instant deadline;
    struct ks_item_write write; /* Of a write. */
    uint32_t table;             /* Of the dialect's. */
    const char *partition;      /* Of a read; NULL: the whole table. */
    struct ks_item_keys keys;   /* Of a read: what is still to be read. */
    enum ks_outcome outcome;    /* UNKNOWN at birth. */
    ks_err err;
    struct ks_detail detail;
    struct ks_native_rows rows;
};

/* NULL is allowed. */
void ks_ask_work_free(struct ks_ask_work *work);

struct ks_ask {
    struct ks_asks *asks;
    struct ks_link link;      /* Open, in the order of asking; or free. */
    struct ks_link store;     /* The store's own; in no list at birth. */
    void *call;               /* The store's own; NULL at birth. */
    struct ks_ask_work *work; /* NULL: there was no memory for it, or the store took it away. */
    struct ks_timer timer;
    enum ks_store_operation operation;
    bool refused; /* The answer is decided, and is told when the timer is due. */
    void (*answered)(void *arg, uint64_t token, const struct ks_store_answer *answer);
    void *arg;
    uint64_t token;
};

/* Requests that stand or fall together: they need the same permission and meet the same rows. */
enum ks_ask_kind {
    KS_ASK_FLEET,
    KS_ASK_NEWS,
    KS_ASK_LEASES,
    KS_ASK_OWNED,
    KS_ASK_ROW,
    KS_ASK_UPDATE,
    KS_ASK_DELETE
};
enum { KS_ASK_KINDS = KS_ASK_DELETE + 1 };

struct ks_ask_trouble {
    ks_err err; /* KS_OK: none. */
    ks_instant at;
    struct ks_detail detail;
};

struct ks_asks {
    struct ks_loop *loop;
    const struct ks_dialect *dialect; /* Native, until the store says otherwise. */
    const char *name;                 /* Of the table, for the log. Borrowed. */
    struct ks_ask *slots;
    uint32_t touched; /* Slots that were ever used; the others are still zero. */
    struct ks_link free;
    struct ks_link open;
    /* The store takes the ask out of its own lists, since it is about to be answered. Whoever still
     * works with ask->work must take it away (NULL), and free it when that is over. */
    void (*forget)(struct ks_asks *asks, struct ks_ask *ask);

    struct ks_ask_trouble troubles[KS_ASK_KINDS];
    uint32_t failures_in_row; /* Of KS_CLASS_RETRY. */
    struct ks_detail last;    /* The last of them. */
};

/* NO_MEMORY. */
KS_MUST_USE ks_err ks_asks_init(struct ks_asks *asks, struct ks_loop *loop, const char *name,
                                void (*forget)(struct ks_asks *asks, struct ks_ask *ask));
/* Answers every open ask UNKNOWN (CANCELLED), then frees the slots. */
void ks_asks_end(struct ks_asks *asks);

/* Takes a request. NULL if its answer is decided already (it cannot be translated, no memory) and
 * will be told in the next turn; otherwise the store works on it. More than KS_ASKS_MAX open is
 * our own mistake. */
struct ks_ask *ks_asks_take(struct ks_asks *asks, const struct ks_store_request *request);
/* A read of many pages sends for one: of lease rows, it has the time of a request from now on, but no more than
 * KS_ASKS_WHOLE_MS in all. */
void ks_ask_page(struct ks_ask *ask);
/* Decides UNKNOWN without trying: told in the next turn. */
void ks_ask_refuse(struct ks_ask *ask, ks_err err, const char *why);
/* Tells what ask->work says, and frees both. The store has forgotten it before. The caller may ask
 * again in its `answered`, but not close the store. */
void ks_ask_answer(struct ks_ask *ask);

/* READY, AWAY or UNUSABLE, with the reason. */
enum ks_store_state ks_asks_state(const struct ks_asks *asks, struct ks_detail *ret_detail);

#endif
