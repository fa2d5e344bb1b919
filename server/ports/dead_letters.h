/* SPDX-License-Identifier: Apache-2.0 */
/* dead_letters.h - a durable store of the records that were given up, each with all that it was, or with a pointer to
 * where the record still is in its stream.
 *
 * A letter is named by where its record stood: the same record written again is the same letter, so a write of unknown
 * outcome may be repeated. The watermark passes the record only after a write is DONE. Loop thread; calls are answered
 * exactly once, in a later turn (at once if there is no memory for them), unless the store is closed before.
 */
#ifndef KS_PORTS_DEAD_LETTERS_H
#define KS_PORTS_DEAD_LETTERS_H

#include "base/bytes.h"
#include "base/instant.h"
#include "core/types.h"

enum {
    KS_LETTER_ID_MAX = KS_SHARD_ID_MAX + KS_SEQUENCE_MAX + 24, /* "shard.sequence.sub" */
    KS_LETTER_STREAM_MAX = 256,                  /* Characters of --stream, which may be an ARN. */
    KS_LETTER_REASON_MAX = 1000,                 /* Bytes of what an app says of its record. */
    KS_LETTER_CLAIM_MAX = KS_WORKER_ID_MAX + 17, /* "worker#number" */
    KS_LETTERS_PAGE_MAX = 1000,                  /* Letters of one list. */
    KS_LETTERS_BYTES_MAX = 2 << 20 /* Payload of one list, about: at least one letter. */
};

/* A record that was given up. Its views belong to whoever made it; to the store's answer during `listed`. */
struct ks_letter {
    ks_view
        id; /* Of characters that a path of a URL takes as they are. Unique in an application. */
    ks_view stream;
    ks_view shard_id;
    ks_view sequence;
    int64_t sub_sequence; /* -1: of no aggregate. */
    ks_view partition_key;
    ks_view data;
    ks_view reason; /* Of the app; empty: none. */
    ks_view claim;  /* Of who delivers it again; empty: nobody does, or the claim is over. */
    int64_t
        claimed_until_ms; /* By the clock of the store; 0: it is not claimed. Not read of what is written. */
    int64_t arrival_ms;
    int64_t died_ms;
    int64_t
        first_died_ms; /* When it was given up first; 0: the store does not know. Not read of what is written. */
    int64_t expires_ms; /* Of a pointer: when its record leaves the stream; 0: not known. */
    uint32_t attempts;
    enum ks_cause cause;
    bool
        pointer; /* The record is in the stream alone: `data` is empty. Not read of what is written. */
};

struct ks_letters_answer {
    enum ks_outcome outcome;         /* A list: DONE or UNKNOWN. */
    const struct ks_letter *letters; /* A list: by id, ascending. */
    uint32_t count;
    bool more;               /* There are some behind them. */
    struct ks_detail detail; /* Unless DONE: what is wrong. */
};

typedef void ks_letters_answered(void *arg, const struct ks_letters_answer *answer);

/* A store, or a sink. A sink sends dead letters to a destination that others read, at least once and each with its id;
 * of its vtable only `write` and `close` are there. */
struct ks_dead_letters {
    const struct ks_dead_letters_vtable *vtable;
    /* How long a claim lasts that is not renewed; 0: no other process has the store. */
    uint32_t claim_ms;
    const char *sink; /* The destination of a sink as it was configured; NULL: a store. */
};

struct ks_dead_letters_vtable {
    /* Writes the letters, which are of one shard, durably; those that are there become these, and nobody's claim is on
     * them. What they say is copied.
     * UNKNOWN: some or all of them may be there; REFUSED: they are not. */
    void (*write)(struct ks_dead_letters *store, const struct ks_letter *letters, uint32_t count,
                  ks_letters_answered *answered, void *arg);
    /* Up to `most` letters whose ids are greater than `after` (empty: from the first). A letter that others
     * damaged is listed without what cannot be, and its reason says so. */
    void (*list)(struct ks_dead_letters *store, ks_view after, uint32_t most,
                 ks_letters_answered *answered, void *arg);
    /* The letter of this id, as a list of one or of none. UNKNOWN, with a sentence: others damaged it. */
    void (*find)(struct ks_dead_letters *store, ks_view id, ks_letters_answered *answered,
                 void *arg);
    /* Claims the letter for the redrive that `letter->claim` names, for `claim_ms`; of `letter` nothing is read
     * but that, the id and the attempts. The same claim may be made again: then it lasts longer. REFUSED: there is no
     * such letter, it has other attempts by now, or another claim is on it. NULL where `claim_ms` is 0. */
    void (*claim)(struct ks_dead_letters *store, const struct ks_letter *letter,
                  ks_letters_answered *answered, void *arg);
    /* Says of the letter of this id, durably, that it was given up again: reason, died_ms, attempts and cause are these
     * now, and it is not claimed any more; of the rest of `letter` nothing is read but its claim. What they say is
     * copied. REFUSED: there is none, or, unless `letter->claim` is empty, the claim on it is not this one. */
    void (*amend)(struct ks_dead_letters *store, const struct ks_letter *letter,
                  ks_letters_answered *answered, void *arg);
    /* Keeps the record of a pointer: of `letter` the id and the data are read. It does not expire any more. REFUSED:
     * there is none; UNKNOWN with a sentence: also if it is too large. NULL where letters are no pointers. */
    void (*keep)(struct ks_dead_letters *store, const struct ks_letter *letter,
                 ks_letters_answered *answered, void *arg);
    /* Removes it, durably. REFUSED: there is none, or, unless `claim` is empty, the claim on it is not this one. */
    void (*remove)(struct ks_dead_letters *store, ks_view id, ks_view claim,
                   ks_letters_answered *answered, void *arg);
    void (*close)(struct ks_dead_letters *store);
};

#endif
