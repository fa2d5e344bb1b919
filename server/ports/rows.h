/* SPDX-License-Identifier: Apache-2.0 */
/* rows.h - the rows of the lease table in the two tongues: text towards the store, numbers towards
 * the core.
 *
 * It gives numbers to shards and workers, keeps of each shard what the core has no room for (its
 * checkpoint, its place in the stream, the mark of what is settled), turns answers into events and
 * effects into requests. Arrays have the capacities of the core and are taken at start. A table
 * that is full is told once; a row without a number is left out, and a lease whose owner has no
 * number is told to the core as damaged, so that nobody touches it. Where not all worker rows fit,
 * the dead are left out; a live one that does not fit is seen from a worker_count beyond
 * workers_max. Loop thread only; asks nobody.
 */
#ifndef KS_PORTS_ROWS_H
#define KS_PORTS_ROWS_H

#include "core/core.h"
#include "ports/lease_store.h"
#include "ports/mixed.h"
#include "ports/names.h"
#include "ports/story.h"
#include "ports/stream_source.h"
#include "ports/streams.h"

/* A start position of a row that the stream's clock has not reached, and the instant where it begins instead. Unix ms,
 * zeroed: there was none. */
struct ks_rows_start {
    int64_t said_ms;
    int64_t begins_ms;
};

/* What is known of a shard beyond the core. */
struct ks_shard_words {
    bool known;                           /* The rest means something. */
    bool has_row;                         /* Seen in the table, or made by us. */
    ks_shard parents[KS_PARENTS_MAX];     /* KS_SHARD_NONE: none. */
    ks_shard children[KS_CHILDREN_MAX];   /* Likewise. */
    char hash_start[KS_HASH_KEY_MAX + 1]; /* "" = unknown. */
    char hash_end[KS_HASH_KEY_MAX + 1];
    struct ks_story_note story; /* Why it is where it is: what was decided about it last. */
    /* The row as read or written last. */
    bool finished;
    bool damaged;
    struct ks_incarnation owner;
    struct ks_incarnation next_owner;
    ks_wall since; /* When this epoch was seen to begin; 0 = before we looked. */
    ks_epoch epoch;
    uint64_t rev;
    ks_instant rev_at;   /* When it was seen first: that look was answered; */
    ks_instant rev_last; /* and last: that one was asked for. */
    struct ks_position checkpoint;
    ks_wall read_at;
    /* Of the epoch that we hold, or held last. */
    ks_epoch mark_epoch;
    ks_number marked;        /* Records below are settled. */
    struct ks_position mark; /* After the last one of them; if marked > 0. */
    /* Of a table that others share. */
    bool unstarted;               /* Its row names no checkpoint. */
    bool masked;                  /* Its row is masked. */
    bool moved;                   /* The last read showed another checkpoint than the one before. */
    struct ks_position row_whole; /* The row's checkpoint as they know it. */
    struct ks_position whole;     /* The mark, likewise. */
    bool undated;                 /* It says LATEST, and not since when. */
    bool prepared;                /* A member's checkpoint waits for its second phase. */
    bool has_own;                 /* What we made durable in this life .. */
    bool behind; /* .. and the row is behind that: others have put an older one over it. */
    struct ks_position own;
    int64_t
        latest_ms; /* When its row was first seen to say LATEST, by the stream's clock; 0: never. */
    struct ks_rows_start early;
    struct ks_position seek; /* Where an operator wants it to go on. */
    ks_epoch persisted_epoch;
    ks_number persisted; /* Records below are covered by the table. */
};

struct ks_rows {
    struct ks_names shards;       /* From 0. */
    struct ks_names workers;      /* From 1; 0 is nobody. */
    uint32_t self;                /* Our worker number. */
    struct ks_shard_words *words; /* By shard number. */
    struct ks_store_app app;      /* As read or written last. */
    bool foreign;  /* The table is one that others made and share (docs/DIALECTS.md). */
    bool stealing; /* With claims. */
    bool masking;  /* Rows of ours are masked. */
    bool kept;     /* Its members write checkpoints on a condition only: none of ours is lost. */
    struct ks_position initial; /* As people said, where the table knows start positions. */
    int64_t began_ms; /* LATEST is what comes from then on, by the stream's clock, Unix ms. */
    int64_t
        stream_ms; /* The stream's clock, never ahead of it, at the last answer; 0: unknown. The owner sets it. */
    struct ks_rows_start app_early; /* Of the application's row. */
    ks_span worker_age;             /* A worker whose beat, a time in ns, is older is dead. */
    void (*touch)(void *arg, ks_instant now); /* See ks_rows_init. */
    void *arg;
    ks_instant sweep_at;  /* The next sweep of workers not before. */
    ks_instant looked_at; /* When all rows were read last, and each had a number. */
    bool full_told;
    bool worker_told;          /* That the row of a worker cannot be read. */
    bool crowd_told;           /* That not all rows of other streams have numbers. */
    struct ks_streams streams; /* Of the KCL: whether the table is of several, and which is ours. */
    struct ks_detail misfit;   /* Why it cannot be served; "": it can, as far as is known. */
    struct ks_mixed mixed; /* How the others of a foreign table's fleet look to be configured. */
    /* Scratch of one translation. */
    struct ks_lease_row *leases;
    struct ks_worker_row *fleet;
    struct ks_shard_row *listing;
    ks_shard *list; /* shards_max */
    const char **ids;
    struct ks_bytes list_text;
    struct ks_lease_token *tokens;
    uint32_t token_count;
    uint32_t token_capacity;
    uint32_t shards_max;
    uint32_t workers_max;
    struct ks_store_token *gives; /* KS_TOKENS_MAX each. */
    struct ks_store_token *takes;
    struct ks_store_lease create;
};

/* `worker_id` is ours and gets the first number. When there is no number for a worker, those that are not in use any
 * more are swept: `touch(arg, now)` is called before and touches those that the core knows (ks_names_touch). NO_MEMORY:
 * nothing to free. The struct stays where it is. */
KS_MUST_USE ks_err ks_rows_init(struct ks_rows *rows, uint32_t shards_max, uint32_t workers_max,
                                const char *worker_id, void (*touch)(void *arg, ks_instant now),
                                void *arg);
void ks_rows_free(struct ks_rows *rows);

/* The table is foreign: no row says where the application began, so `start` does. Of workers that are silent for twice
 * `worker_age` only those are told for which there is room; 0: it has no workers, and no list of shards. */
void ks_rows_share(struct ks_rows *rows, const struct ks_position *start, bool stealing,
                   ks_span worker_age);
/* Says what the stream's clock showed when we began, Unix ms: a LATEST start becomes that instant. Before a row of a
 * foreign table is read. */
void ks_rows_date(struct ks_rows *rows, int64_t now_ms);
/* It is a table of the KCL besides: members keep to conditions, and its rows name start positions. `initial` is what
 * rows are made with. */
void ks_rows_keep(struct ks_rows *rows, const struct ks_position *initial, int64_t began_ms);
/* Whose rows are ours, if there are those of several streams: `word`, `kin` and `several` are set. Rows of others have
 * numbers, but no words; until that is known, all reads of rows are UNKNOWN. */
void ks_rows_stream(struct ks_rows *rows, const struct ks_streams *streams);
/* What the stream was described as. */
void ks_rows_described(struct ks_rows *rows, const struct ks_describe_answer *stream);

/* It is one of kcl-rb, and rows of ours are masked. */
void ks_rows_mask(struct ks_rows *rows);
/* What the mark of an epoch that begins is to others: the row's checkpoint, or what we made durable. */
struct ks_position ks_rows_whole(const struct ks_shard_words *words);

/* The number of a shard; its words are known from then on. False: the table is full, or it is no
 * name. */
bool ks_rows_shard(struct ks_rows *rows, ks_view id, ks_instant now, ks_shard *ret_shard);
/* Frees the numbers of shards that the last look at all rows did not show and that for `keep` nobody named, neither
 * rows nor listings, and that were not `held` when this was called, nor children of one that was; ret_freed says which.
 * Both have shards_max places. Called often within `keep`, when nobody but who holds them has numbers of shards in
 * hand. False: there are none. */
bool ks_rows_free_shards(struct ks_rows *rows, const bool *held, ks_instant now, ks_span keep,
                         bool *ret_freed);
/* True while there is no number for another shard or worker that was met: told once, and that it is over. */
bool ks_rows_full(struct ks_rows *rows);
/* The number of a worker. False: the table is full, or it is no name. */
bool ks_rows_worker(struct ks_rows *rows, ks_view id, ks_instant now, uint32_t *ret_worker);
/* An incarnation in numbers; an id "" is nobody. False if its worker has none: only its boot is told then. */
bool ks_rows_incarnation(struct ks_rows *rows, const struct ks_incarnation_text *text,
                         ks_instant now, struct ks_incarnation *ret);
/* The words of a shard, NULL for a number that has none. */
struct ks_shard_words *ks_rows_words(const struct ks_rows *rows, ks_shard shard);
/* Keeps a child of a shard; "" = none. */
void ks_rows_note_child(struct ks_rows *rows, ks_shard shard, const char *child, ks_instant now);

/* Turns an answer of the store to `operation` into the event's `store`, token aside, and keeps what
 * it says. The rows in the event live until the next translation. If not all worker rows that may live are there,
 * worker_count is more than workers_max, and `workers` holds no more than that. `wall` is when it was asked for. */
void ks_rows_answered(struct ks_rows *rows, enum ks_store_operation operation, bool consistent,
                      const struct ks_store_answer *answer, ks_instant now, ks_wall wall,
                      struct ks_event *ret_event);
/* From when on shards are of interest, Unix ms: those closed before the application's start are not. 0: all of them. */
int64_t ks_rows_since(const struct ks_rows *rows);
/* Turns the shards of a stream into the event's `listed`. */
void ks_rows_listed(struct ks_rows *rows, const struct ks_list_answer *answer, ks_instant now,
                    struct ks_event *ret_event);
/* Fills a request for the store; who is answered is the caller's business. The texts in it live
 * until the next translation. False if it cannot be asked yet: CREATE before the app row is known.
 */
bool ks_rows_request(struct ks_rows *rows, const struct ks_store_effect *effect,
                     struct ks_store_request *ret_request);
/* A write of a lease row is done: keeps what it wrote. `written` is its checkpoint, or NULL; `whom` the worker that it
 * gives the lease to, or will: the owner of ASSIGN, TAKE_OVER, FORCE, SEEK, the next owner of PLAN and FINAL. */
void ks_rows_wrote(struct ks_rows *rows, enum ks_store_operation operation, ks_shard shard,
                   ks_epoch epoch, uint64_t rev, const struct ks_position *written,
                   struct ks_incarnation whom, ks_wall wall);

#endif
