/* SPDX-License-Identifier: Apache-2.0 */
/* mixed.h - signs that the others of a fleet are configured otherwise than we are, as its rows show them.
 *
 * Who believes in another time to fail over takes live leases, or leaves dead ones alone, whenever one moves. Each sign
 * is given once. What a table does not show (a time that is a little longer, where members of go-kcl begin) is not seen
 * here, nor what has another cause, too: each rule says what it counts, and docs/DIALECTS.md what that leaves out.
 * Pure.
 */
#ifndef KS_PORTS_MIXED_H
#define KS_PORTS_MIXED_H

#include "core/core.h"

enum ks_mixed_sign {
    KS_MIXED_NONE,
    KS_MIXED_CLAIMS,    /* go-kcl: leases are claimed, and we claim none; */
    KS_MIXED_UNHEEDED,  /* or ours are not heeded. */
    KS_MIXED_LONGER,    /* Their time to fail over is longer than ours, */
    KS_MIXED_SHORTER,   /* or shorter. */
    KS_MIXED_ELSEWHERE, /* kcl: a lease that nobody began stands at another start than ours. */
    KS_MIXED_AHEAD,     /* kinsumer, go-kcl, kcl-rb: what one wrote is ahead of our clock. */
};
enum { KS_MIXED_SIGNS = KS_MIXED_AHEAD + 1 };

/* Zero-initialise the rest. */
struct ks_mixed {
    enum ks_protocol protocol;
    ks_span lease; /* Ours, of everything below. */
    ks_span check; /* kinsumer: how often clients beat. */
    bool stealing;
    ks_span took; /* From the question to the answer that is seen now; set before that. */

    bool told[KS_MIXED_SIGNS];
    uint32_t seen;                     /* Renewals of others, as far as they tell. */
    int64_t most_ms;                   /* go-kcl: the longest time that one gave. */
    uint32_t longer;                   /* kcl, kinsumer: one after the other that came late. */
    uint32_t shorter;                  /* kcl: one window after the other with too many. */
    uint32_t unheeded;                 /* go-kcl: renewals over a claim of ours, likewise. */
    bool counting;                     /* kcl: the counter of a row is watched, */
    ks_shard shard;                    /* of this one: */
    uint64_t from;                     /* what it was, */
    ks_instant from_at;                /* and when, */
    ks_instant last_at;                /* and when we looked last; of kinsumer, at the worker. */
    char worker[KS_WORKER_ID_MAX + 1]; /* kinsumer: whose beats are watched; "": nobody's yet. */
    uint64_t beat;
    uint32_t ahead; /* kinsumer: looks one after the other at beats that are ahead of our clock; */
    ks_instant ahead_at; /* the last one. */
};

/* A lease row, and what became of it since it was read before. */
struct ks_mixed_lease {
    ks_shard shard;
    ks_instant at;  /* When its look was answered. */
    bool claimed;   /* By somebody else than us. */
    bool heeded;    /* It was claimed by us, and its owner has it no more; */
    bool unheeded;  /* or the claim is gone, and its owner has renewed it, and did nothing else. */
    bool elsewhere; /* Nobody began it, and it stands at another start than ours. */
    bool renewed;   /* Its owner is the same, and not we; its rev is another one than before. */
    bool idle; /* Its owner is the same, and not we; it may have been renewed, and nothing else. */
    bool stands; /* Its owner is the same, and not we, and so is its rev. */
    uint64_t rev;
    ks_span still; /* For how long the one before was seen, at least. */
    ks_span since; /* From the question before that showed the row to this one. */
};

/* A look that shows this lease row was answered at `wall`. What it is a sign of that was not given yet. */
enum ks_mixed_sign ks_mixed_see_lease(struct ks_mixed *mixed, const struct ks_mixed_lease *lease,
                                      ks_wall wall);
/* The row of a worker other than we was read, by a look that was answered at `at`, which is `wall`. */
enum ks_mixed_sign ks_mixed_see_worker(struct ks_mixed *mixed, const char *id, uint64_t beat,
                                       ks_instant at, ks_wall wall);

/* What to say of it, and do about it: a sentence. */
const char *ks_mixed_advice(enum ks_mixed_sign sign, enum ks_protocol protocol);

#endif
