/* SPDX-License-Identifier: Apache-2.0 */
/* switchboard.h - between the core and the world: effects become calls, completions become events.
 *
 * One switchboard is one subscription: a stream, an application (its lease table), a core. It gives numbers to names
 * (shards, workers), keeps the batches and the positions behind the core's dense record numbers, and is the door
 * through which api/ reaches records, settling and state. Loop thread only; nothing here blocks. It decides nothing.
 *
 * A ks_shard is a handle here, not the core's number: numbers of shards that are long gone are given to others, while a
 * handle that somebody kept, in an ack_id for weeks, means nothing then.
 */
#ifndef KS_PORTS_SWITCHBOARD_H
#define KS_PORTS_SWITCHBOARD_H

#include "base/budget.h"
#include "base/bytes.h"
#include "base/loop.h"
#include "core/core.h"
#include "ports/dead_letters.h"
#include "ports/event_ring.h"
#include "ports/lease_store.h"
#include "ports/stream_source.h"
#include "ports/worker_lock.h"

struct ks_switchboard;

struct ks_pattern;

/* What subscriptions of a process share that read their streams out of one table. */
struct ks_kinship {
    uint32_t willing;    /* So many of them want leases. */
    ks_instant claim_at; /* Before then none of them steals one. */
};

struct ks_switchboard_config {
    struct ks_loop *loop;
    struct ks_lease_store
        *store; /* Owned by the caller, closed after the switchboard was stopped. */
    struct ks_stream_source *source; /* Likewise. */
    struct ks_stream_source *beside; /* Likewise: for cursors; NULL: they read `source`. */
    struct ks_worker_lock *lock;     /* Likewise; NULL: there is none. */
    struct ks_dead_letters *letters; /* Likewise; NULL: there are no dead letters. */
    const char *subscription;        /* Its name; NULL: as the application. */
    bool several; /* There are others: its lines on the log begin with its name. */
    const char *stream;
    const char *const
        *kin; /* Streams that others of this process read out of the same table. Not copied. */
    uint32_t kin_count;
    struct ks_kinship *kinship; /* Their common one, and ours; NULL: there are none. */
    bool several_streams;       /* KCL: an empty table becomes one of several. */
    const char *application;
    const char *dialect;   /* "native" */
    const char *worker_id; /* Ours, without boot. */
    const char *version;
    struct ks_position
        start; /* --initial-position; LATEST becomes AT_TIMESTAMP when the app row is made. */
    struct ks_core_config
        core; /* `self`, `lock` and `corpse` are filled in by the switchboard, `boot` if it is 0; seed
                 and budget by the caller. */
    bool shard_metrics; /* Those with the label "shard". */
    const struct ks_pattern
        *filter; /* Records that are delivered; NULL: all. Outlives the board. */
    struct ks_budget_pool *
        pool; /* That it shares with others, and outlives it; NULL: `core.budget_bytes` are its own. */
    /* Everything is given back; `clean` if nothing stayed unsettled. `unsaved` acknowledged records are not covered by
     * a checkpoint, because the store did not answer: they come again. */
    void (*drained)(void *arg, bool clean, uint64_t unsaved);
    void (*refused)(
        void *arg, const char *reason); /* It can go on no more: say why, and drain it or exit 1. */
    void *arg;
};

/* Strings are copied. NO_MEMORY. */
KS_MUST_USE ks_err ks_switchboard_new(const struct ks_switchboard_config *config,
                                      struct ks_switchboard **ret);
/* Closes readers, drops batches, calls nobody any more; answers that still come are ignored. Its consumers and
 * listeners are gone by now. Afterwards the store and the source are closed. */
void ks_switchboard_stop(struct ks_switchboard *board);
/* After stop, and when no answer can come any more: the store and the source are closed, and the loop does not turn
 * again (a job of theirs may still bring one). Without a stop before, it stops and leaves what is under way to its
 * answer: a store or a source that never gives it keeps a little memory. NULL is allowed. */
void ks_switchboard_free(struct ks_switchboard *board);

/* Registers with the fleet and begins. Called after everything that uses the board has its hooks in the loop: its own
 * runs best after theirs. */
void ks_switchboard_start(struct ks_switchboard *board);
/* Gives everything back; what is not settled after `patience` is left to come again. Twice: the first one counts. */
void ks_switchboard_drain(struct ks_switchboard *board, ks_span patience);
/* Somebody else wrote to the lease table: look for news now. For stores that can tell. */
void ks_switchboard_look(struct ks_switchboard *board);
/* What our place used of its CPU lately, as KS_CPU_SAMPLES_MAX of ports/lease_store.h has it: for fleets that ask. */
void ks_switchboard_cpu(struct ks_switchboard *board, uint32_t cpu);
/* Ends the patience of a drain now; final checkpoints are still written. */
void ks_switchboard_hurry(struct ks_switchboard *board);

/* ---- Sessions ---- */

/* What a session tells its connection. Called on the loop, never inside a call into the switchboard. */
struct ks_consumer {
    void (*wake)(struct ks_consumer *consumer); /* Pull again, or look at the idle reason again. */
    void (*ended)(struct ks_consumer *consumer,
                  enum ks_session_end why); /* Over; the consumer is let go of. */
    /* A planned hand-over of `shard` began, or the drain: settle until `deadline`. shard NULL: all. */
    void (*returning)(struct ks_consumer *consumer, const char *shard, ks_wall deadline);
    /* The board's own. */
    struct ks_link gone;
    enum ks_session_end why;
};

enum { KS_FILTER_SHOWN_SIZE = 512 }; /* Bytes of a filter that is shown, with its NUL. */

struct ks_session_request {
    ks_view
        client_id; /* Empty: a name is made up. At most KS_CLIENT_ID_MAX characters of [A-Za-z0-9._-]. */
    bool pulls;
    uint32_t max_in_flight;
    uint64_t max_in_flight_bytes;
    ks_span ack_deadline;
    ks_span grace;
    ks_span linger;
    const ks_view *shards; /* Shard ids; count 0 = all. */
    uint32_t shard_count;
    enum ks_ordering ordering; /* Zero: by shard. */
    uint32_t lanes;            /* BY_KEY: 1 to KS_LANES_MAX. */
    /* BY_KEY: the share of the lanes that belongs to sessions with this share alone, in millionths; 0: none. With a
     * share: the salt, as a client id may be; it decides which lanes these are. */
    uint32_t share;
    ks_view salt;
    /* Records that it takes, as ks_pattern_compile() reads it; empty: all. All others are settled, once the session is
     * to get them. */
    ks_view filter;
    bool explicit_credit; /* Nothing is sent that was not granted. */
    uint32_t
        max_message_bytes; /* Of a message that the client takes, with one record at least; 0: any. */
};

/* Bytes of a message beside data and partition key of its one record: ids, names, numbers, in protobuf. */
enum { KS_MESSAGE_EXTRA_BYTES = 2048 };

/* Opens a session, or takes over the live one with the same client_id. `consumer` belongs to the caller and stays valid
 * until detach, close or ended; NULL for a session that pulls and is polled.
 * FULL (sessions), BUSY (draining; a shard, and nobody has looked for shards yet), INVALID (client_id,
 * max_message_bytes, share, filter), NOT_FOUND (a shard; the detail names it), CONDITION (other sessions are there, and
 * records are ordered as the first of them wanted, or they have another share or filter; nothing has changed). */
KS_MUST_USE ks_err ks_switchboard_open(struct ks_switchboard *board,
                                       const struct ks_session_request *request,
                                       struct ks_consumer *consumer, ks_session_id *ret_session,
                                       struct ks_detail *detail);
/* A long poll of a session that pulls begins to wait: `consumer` is woken. One at a time: the one before is let go of
 * without a word. When the poll was answered or is gone: detach. */
void ks_switchboard_attach(struct ks_switchboard *board, ks_session_id session,
                           struct ks_consumer *consumer);
/* The connection is gone: what is unsettled comes again after the grace (a session that pulls: lingers until it is
 * used again). `consumer` is let go of: it is not called any more, `ended` neither. If the session has another consumer
 * by now (it was taken over), nothing else happens. NULL for a session that pulls without a consumer: call it after
 * each poll. */
void ks_switchboard_detach(struct ks_switchboard *board, ks_session_id session,
                           struct ks_consumer *consumer, bool cut);
/* A session with explicit credit: so many records more may be sent. False: there is no such session, or its credit is
 * not explicit. */
bool ks_switchboard_grant(struct ks_switchboard *board, ks_session_id session, uint32_t records);
/* Other limits from now on: max_in_flight, max_in_flight_bytes and max_message_bytes of `request`, each 0 if it stays
 * as it is. What is in flight stays. False: there is no such session. */
bool ks_switchboard_update(struct ks_switchboard *board, ks_session_id session,
                           const struct ks_session_request *request);
/* Over for good: what is unsettled comes again at once. */
void ks_switchboard_close(struct ks_switchboard *board, ks_session_id session);
/* The lane, of `lanes`, of the records with this partition key. */
uint32_t ks_key_lane(ks_view key, uint32_t lanes);
/* True for at most KS_CLIENT_ID_MAX characters of [A-Za-z0-9._-]; empty is valid. */
bool ks_client_id_is_valid(ks_view id);
/* The live session with this client id. False if there is none. */
bool ks_switchboard_find_session(const struct ks_switchboard *board, ks_view client_id,
                                 ks_session_id *ret_session);

/* ---- Records ---- */

/* Some records of one shard, in order: numbers first .. first + count - 1. KS_SHARD_NONE: a dead letter that is
 * delivered again, by its number. */
struct ks_run {
    ks_shard shard;
    ks_epoch epoch;
    ks_number first;
    uint32_t count;
    uint32_t attempt;
    uint64_t bytes;      /* Of all: data and partition keys. */
    uint64_t assignment; /* The number of the pull: above 0, above that of every pull before. */
};

/* Assigns records to the session: up to max_records of about max_bytes (data + partition key; at least one record) in
 * up to max_runs runs. Ask for as much as can be written now, and report by ks_switchboard_write() what becomes of it.
 * Returns the number of runs; with 0 runs the session is woken when there is something. */
uint32_t ks_switchboard_pull(struct ks_switchboard *board, ks_session_id session,
                             uint32_t max_records, uint64_t max_bytes, struct ks_run *runs,
                             uint32_t max_runs);
/* As ks_switchboard_pull(), for an answer whose last pull had the assignment `after`: nothing if the session pulled
 * since, and no record larger than max_bytes. `after` 0: as ks_switchboard_pull(). */
uint32_t ks_switchboard_pull_more(struct ks_switchboard *board, ks_session_id session,
                                  uint64_t after, uint32_t max_records, uint64_t max_bytes,
                                  struct ks_run *runs, uint32_t max_runs);
/* Reports what became of records first .. first + count - 1 of a run of the session (core/types.h). For
 * each record that was reported BEGUN, report exactly one of WRITTEN and TORN later. */
void ks_switchboard_write(struct ks_switchboard *board, ks_session_id session,
                          const struct ks_run *run, enum ks_write_stage stage, ks_number first,
                          uint32_t count);
/* The record of the run, if it may be begun: it is still assigned. NULL otherwise: it was settled or taken back since
 * it was pulled. `*ret_count`: how many records of this array, from it on, may be begun before the next report, or 0.
 * The views are valid until the next turn of the loop, or while the record is held. */
const struct ks_record *ks_switchboard_records(struct ks_switchboard *board,
                                               const struct ks_run *run, ks_number number,
                                               uint32_t *ret_count);
/* True while bytes of records of this epoch may be sent. `now` is by the clock, not by the turn, and read anew for each
 * buffer that is filled: a process that is stopped in the middle of a turn resumes in the middle of it. */
bool ks_switchboard_may_finish(const struct ks_switchboard *board, ks_shard shard, ks_epoch epoch,
                               ks_instant now);

/* The same of whole records that were handed to a connection, which holds some of its bytes back. */
bool ks_switchboard_may_send(const struct ks_switchboard *board, ks_shard shard, ks_epoch epoch,
                             ks_instant now);

/* A record that stays in memory while it is written, whatever becomes of it meanwhile. Zeroed: none. */
struct ks_held_record {
    struct ks_record record;
    struct ks_block *blocks[2];
};
/* Holds a record that ks_switchboard_records() has just returned. Its memory counts against the budget until it is
 * dropped, which must be before the board is freed. */
void ks_switchboard_hold(const struct ks_switchboard *board, const struct ks_run *run,
                         ks_number number, struct ks_held_record *ret_held);
/* Dropping none does nothing. */
void ks_held_record_drop(struct ks_held_record *held);
/* The record of the shard that is larger than its session takes and holds up its lane, and its epoch; NULL: none does.
 * Valid until the next turn. */
const struct ks_record *ks_switchboard_too_large(struct ks_switchboard *board, ks_shard shard,
                                                 ks_epoch *ret_epoch);
/* The names that go with the records of a run: of a letter those that it was written with. Valid until the next
 * turn. */
const char *ks_switchboard_run_stream(const struct ks_switchboard *board, const struct ks_run *run);
const char *ks_switchboard_run_shard(const struct ks_switchboard *board, const struct ks_run *run);
/* The name of the stream. Valid while the board lives. */
const char *ks_switchboard_stream(const struct ks_switchboard *board);
/* The id of a shard, "" if unknown. Valid until the next turn. */
const char *ks_switchboard_shard_id(const struct ks_switchboard *board, ks_shard shard);
bool ks_switchboard_find_shard(const struct ks_switchboard *board, ks_view shard_id,
                               ks_shard *ret_shard);
/* The same for who cannot do without it. NOT_FOUND, BUSY (nobody has looked for shards yet); the detail says so. */
KS_MUST_USE ks_err ks_switchboard_need_shard(const struct ks_switchboard *board, ks_view shard_id,
                                             ks_shard *ret_shard, struct ks_detail *detail);

/* ---- Settling ---- */

struct ks_settlement {
    ks_session_id session;
    uint32_t session_epoch;
    ks_shard shard;
    ks_epoch epoch;
    ks_number first;
    uint32_t count;
    uint64_t assignment; /* The pull in which they were delivered. */
    bool alone;          /* By ack_id: it names one record, not what was written of a batch. */
    enum ks_settle_outcome outcome; /* DEAD_LETTER: only if there are any. */
    ks_span delay;
    ks_view
        reason; /* DEAD_LETTER, RETRY: what the app says of it; copied, at most KS_LETTER_REASON_MAX bytes. */
};

struct ks_settled ks_switchboard_settle(struct ks_switchboard *board,
                                        const struct ks_settlement *settlement);
/* Cumulative, by position: everything delivered up to it is acknowledged. `epoch` 0: the current one.
 * NOT_FOUND (shard not known), INVALID (not delivered in this epoch), EXPIRED (the epoch is over; not ours). */
KS_MUST_USE ks_err ks_switchboard_checkpoint(struct ks_switchboard *board, ks_view shard_id,
                                             ks_view sequence, int64_t sub_sequence, ks_epoch epoch,
                                             ks_shard *ret_shard, ks_epoch *ret_epoch,
                                             ks_number *ret_up_to, struct ks_detail *detail);

/* Where dead letters are, for lists and removals; NULL: there are none. */
struct ks_dead_letters *ks_switchboard_letters(const struct ks_switchboard *board);
/* What became of an order: OK, with the deliveries so far; NOT_FOUND, EXPIRED (its record has left the stream), DISK
 * (with a detail), FULL, NO_MEMORY. */
typedef void ks_redrive_answered(void *arg, ks_err err, uint32_t attempts,
                                 const struct ks_detail *detail);
/* Delivers a dead letter again, to whichever session takes its shard; it stays in the store until it is acknowledged.
 * There is a store. OK: `answered` is called once, in this turn or a later one, unless the board is stopped before.
 * CONDITION (it is being delivered again), FULL (as many are), BUSY (draining), NOT_FOUND, NO_MEMORY. */
KS_MUST_USE ks_err ks_switchboard_redrive(struct ks_switchboard *board, ks_view id,
                                          ks_redrive_answered *answered, void *arg);
/* True while it is delivered again, or about to be. */
bool ks_switchboard_is_redriven(const struct ks_switchboard *board, ks_view id);
/* It was removed from the store: it is not delivered any more. */
void ks_switchboard_discarded(struct ks_switchboard *board, ks_view id);
/* Logs and keeps as an event that an operator removed the letter; `who` names what the request was authorized with. */
void ks_switchboard_tell_discarded(struct ks_switchboard *board, ks_view id, const char *who);

/* ---- A redrive of many letters: one at a time ---- */

enum { KS_REDRIVE_RATE_MAX = 1000 }; /* Letters a second. */

struct ks_redrive_order {
    ks_view shard_id; /* Of the letters; empty: of any shard. */
    bool any_cause;
    enum ks_cause cause; /* Unless any_cause. */
    uint32_t rate;       /* Letters that begin in a second, at most; 1 to KS_REDRIVE_RATE_MAX. */
    uint64_t most;       /* Letters, at least 1. */
};

enum ks_redrive_job_state {
    KS_REDRIVE_JOB_NONE, /* None was ordered since the process began. */
    KS_REDRIVE_JOB_RUNNING,
    KS_REDRIVE_JOB_DONE,    /* Each letter that was found was redriven and settled, or refused. */
    KS_REDRIVE_JOB_STOPPED, /* By an operator. Letters in delivery are delivered and counted on. */
    KS_REDRIVE_JOB_DRAINED  /* The sidecar drains. */
};

struct ks_redrive_job {
    enum ks_redrive_job_state state;
    char shard_id[KS_SHARD_ID_MAX + 1]; /* As ordered; "": of any shard. */
    bool any_cause;
    enum ks_cause cause;
    uint32_t rate;
    uint64_t most;
    int64_t begun_ms; /* Unix ms. */
    int64_t ended_ms; /* Unix ms; 0: it runs. */
    uint64_t found;   /* Letters that match, in the pages that were read so far. */
    uint64_t redriven;
    uint64_t in_delivery;        /* Redriven and not at their end. */
    uint64_t acknowledged;       /* Redriven and removed. */
    uint64_t given_up;           /* Redriven and given up again. */
    uint64_t taken;              /* Redriven, then discarded or claimed by another worker. */
    uint64_t refused_claimed;    /* Another worker, or an order for one letter, redrives it. */
    uint64_t refused_expired;    /* The record of a pointer left the stream. */
    uint64_t refused_gone;       /* Removed between the list and its turn. */
    uint64_t refused_unreadable; /* The store answered, but not for this letter. */
    struct ks_detail trouble; /* Why the job waits for the store or the stream; "": it does not. */
};

/* Begins to redrive the letters of the store that match, each once, in the order of their ids, as many at a time as
 * there is room for. There is a store. `who`: as in ks_switchboard_tell_discarded(). A store that does not answer is
 * asked again every second. BUSY (draining), CONDITION (one runs), NOT_FOUND (no shard has such a name). */
KS_MUST_USE ks_err ks_switchboard_redrive_many(struct ks_switchboard *board,
                                               const struct ks_redrive_order *order,
                                               const char *who);
/* Begins no more letters. Returns false if none was ordered; one that is over stays as it is. */
bool ks_switchboard_redrive_stop(struct ks_switchboard *board);
/* The last one. Valid until the board is freed. */
const struct ks_redrive_job *ks_switchboard_redrive_job(const struct ks_switchboard *board);

/* Asks for the checkpoint of `shard` as soon as possible. */
void ks_switchboard_persist(struct ks_switchboard *board, ks_shard shard);
/* True when the table covers every record of (shard, epoch) below `up_to`. */
bool ks_switchboard_persisted(const struct ks_switchboard *board, ks_shard shard, ks_epoch epoch,
                              ks_number up_to);

/* Called after every checkpoint that became durable and every lease that ended, and for every story event (then `event`
 * is its word and `line` its sentence, else both are NULL; `shard` may be KS_SHARD_NONE). It may ask, but must not call
 * what changes the board: make a note and act in your own turn. */
struct ks_listener {
    void (*happened)(struct ks_listener *listener, ks_shard shard, const char *event,
                     const char *line);
    struct ks_link link; /* The board's own. */
};
void ks_switchboard_listen(struct ks_switchboard *board, struct ks_listener *listener);
void ks_switchboard_unlisten(struct ks_switchboard *board, struct ks_listener *listener);

/* The events that are kept: from the number returned to `ret_end` - 1. A listener hears of each new one. */
uint64_t ks_switchboard_events(const struct ks_switchboard *board, uint64_t *ret_end);
/* One of them. Valid until the next turn. */
const struct ks_board_event *ks_switchboard_event(const struct ks_switchboard *board,
                                                  uint64_t number);

/* Returns the stream's clock, Unix ms, never ahead of it (ports/stream_source.h); 0: the stream has not answered
 * yet. */
int64_t ks_switchboard_stream_ms(const struct ks_switchboard *board);

/* Whether the source can put records: the local stream. */
bool ks_switchboard_can_put(const struct ks_switchboard *board);
/* Puts records where the source can. UNSUPPORTED otherwise; then `answered` is not called. */
KS_MUST_USE ks_err
ks_switchboard_put(struct ks_switchboard *board, const struct ks_put_entry *entries, uint32_t count,
                   void (*answered)(void *arg, const struct ks_put_answer *answer), void *arg);

/* ---- Orders of an operator (core/operator.h) ---- */

/* Nothing of the shard (KS_SHARD_NONE: of all of them, also those that come) is read or delivered until `until` (Unix
 * ms, 0: until it is resumed); what is in flight may be settled. Without `keep_leases` they are given to others. */
void ks_switchboard_pause(struct ks_switchboard *board, ks_shard shard, ks_wall until,
                          bool keep_leases);
/* KS_SHARD_NONE: all of them. */
void ks_switchboard_resume(struct ks_switchboard *board, ks_shard shard);
/* Gives the lease away by a planned hand-over, and takes none instead for three lease durations. */
enum ks_operator_status ks_switchboard_release(struct ks_switchboard *board, ks_shard shard);
/* How long what is in flight may still be settled, once a lease is being given away. */
ks_span ks_switchboard_hand_over(const struct ks_switchboard *board);

/* A seek under way: `done` is called once, when the table has it or it has become impossible; it may ask, but must not
 * call what changes the board. */
struct ks_seek {
    void (*done)(struct ks_seek *seek, bool done);
    ks_shard shard;
    struct ks_link link; /* The board's own. */
};
/* Moves the checkpoint of a lease that we hold to `to` (never LATEST, never SHARD_END); its epoch ends and the next one
 * begins there. Only while it is paused, unless `force`. `seek` NULL: a dry run, which changes nothing. With any status
 * but OK `done` is never called. */
enum ks_operator_status ks_switchboard_seek(struct ks_switchboard *board, ks_shard shard,
                                            const struct ks_position *to, bool force,
                                            struct ks_seek *seek);
/* It is not waited for any more; the seek itself goes on. Does nothing after `done`. */
void ks_switchboard_forget_seek(struct ks_seek *seek);
/* Gives up the record at this position (`sub_sequence` -1: it is in no aggregate) that blocks a shard which is held
 * here: it becomes a dead letter where there are dead letters, and is lost otherwise, which `ret_lost` says. `dry_run`:
 * says whether that would be done. NOT_HELD, BUSY; NOT_BLOCKED: that record is not known, or blocks nothing. */
enum ks_operator_status ks_switchboard_skip(struct ks_switchboard *board, ks_shard shard,
                                            ks_view sequence, int64_t sub_sequence, bool dry_run,
                                            bool *ret_lost);

/* ---- State, for people. Texts are valid until the next turn. ---- */

struct ks_board_status {
    const char *worker_id;
    uint64_t
        boot; /* Of this process: what ack_ids carry, and its first registration. Stays when it must register anew. */
    const char *subscription;
    const char *stream;
    const char *application;
    const char *dialect;
    const char *version;
    ks_wall started_at;
    struct ks_self_view self;
    bool draining;
    bool ready;         /* Store and source were reached, and it is registered. */
    const char *reason; /* Why it is not ready; "" when it is. */
    enum ks_idle idle;  /* As a session that takes all shards would be told. */
    int64_t
        millis_behind; /* The most of all held shards, as in struct ks_shard_status; -1 = unknown. */
    int64_t oldest_unsettled_ms; /* Likewise; 0: none is known. */
};
void ks_switchboard_status(const struct ks_switchboard *board, struct ks_board_status *ret_status);

/* What keeps a shard from its consumer here. In the order of enum Trouble of proto/. */
enum ks_trouble {
    KS_TROUBLE_NONE,
    KS_TROUBLE_PAUSED,     /* By an operator. */
    KS_TROUBLE_UNREADABLE, /* Reads of the stream fail. */
    KS_TROUBLE_STOPPED,    /* By a record that failed too often (on_exhausted). */
    KS_TROUBLE_TOO_LARGE,  /* A record is larger than its client takes. */
    KS_TROUBLE_RETRYING,   /* A record failed and holds up its lane. */
    KS_TROUBLE_FULL,       /* Nothing more is read until a record is settled. */
    KS_TROUBLE_LETTERS,    /* Dead letters cannot be written. */
    KS_TROUBLE_NO_SESSION, /* Records wait, and no session takes them. */
    KS_TROUBLE_UNSETTLED /* Its client has records, and has settled nothing for KS_UNSETTLED_MS. */
};
enum { KS_UNSETTLED_MS = 30000 };

enum { KS_REMEDY_MAX = 512 };

struct ks_shard_status {
    const char *shard_id;
    const char *parents[KS_PARENTS_MAX]; /* "" = none. */
    const char *children[KS_CHILDREN_MAX];
    const char *hash_start;
    const char *hash_end;
    const char *owner;      /* worker_id or "". */
    const char *next_owner; /* Likewise. */
    bool has_lease;         /* There is a lease row. */
    bool ours;
    struct ks_lease_view lease;
    struct ks_position checkpoint; /* The table's, as written or read last. */
    struct ks_position
        watermark; /* Of the last record of which everything up to it is settled; where nothing was
                                      settled in this epoch, or the lease is not ours, the checkpoint. */
    int64_t
        millis_behind; /* Age of the oldest record that was read, is not settled and is with no session; where there is
                                      none, how far the reader is behind the tip. -1 = unknown. */
    int64_t
        oldest_unsettled_ms; /* Since the arrival of the first record that is not settled; 0: none is known. */
    ks_wall since;        /* When we acquired it, or saw another one get it; 0 = unknown. */
    ks_wall read_at;      /* When the row was read last. */
    ks_wall paused_until; /* 0: until it is resumed, or not paused. */
    enum ks_trouble trouble;
    /* What keeps it from its consumer; without trouble what was decided about it last, as far as we know; "". */
    char reason[KS_STORY_LINE_MAX];
    char remedy[KS_REMEDY_MAX]; /* What ends the trouble: commands or actions; "". */
    /* STOPPED, TOO_LARGE, RETRYING, FULL: the record for which others wait; else "". */
    char blocked_by[KS_SEQUENCE_MAX + 1];
    int64_t blocked_by_sub; /* -1: it is in no aggregate. */
    uint32_t failures;      /* Of that record. */
};
/* Only a leader reads the rows of others all the time, from its first look on. Asks for all of them, for people: `done`
 * is called once, in a later turn, when they are there or cannot be had. True if what is known is fresh enough; then
 * nothing is asked, and `done` is not called. */
struct ks_look {
    void (*done)(struct ks_look *look);
    struct ks_link link; /* The board's own. */
};
bool ks_switchboard_fresh(struct ks_switchboard *board, struct ks_look *look);
/* It is not wanted any more. Does nothing after `done`. */
void ks_switchboard_forget_look(struct ks_look *look);
/* Shards by place, 0 .. ks_switchboard_shard_count() - 1; one that is not known (any more) gives false then. */
uint32_t ks_switchboard_shard_count(const struct ks_switchboard *board);
ks_shard ks_switchboard_shard_at(const struct ks_switchboard *board, uint32_t index);
bool ks_switchboard_shard(const struct ks_switchboard *board, ks_shard shard,
                          struct ks_shard_status *ret_status);

struct ks_worker_status {
    const char *worker_id;
    struct ks_worker_view row;
    bool self;
    ks_span beat_age; /* Since the beat was first seen. */
};
bool ks_switchboard_worker(const struct ks_switchboard *board, uint32_t index,
                           struct ks_worker_status *ret_status);

struct ks_session_status {
    const char *client_id;
    struct ks_session_view session;
    ks_span ack_deadline;
    ks_wall since;
    const char *share; /* As a decimal; "": none. */
    const char *salt;  /* Of its share; "" without one. */
    /* "": none. A filter of KS_FILTER_SHOWN_SIZE bytes or more is cut and ends with "...". */
    const char *filter;
};
/* True if the filter that the last session was opened with has this text; "": it had none. */
bool ks_switchboard_filter_is(const struct ks_switchboard *board, ks_view text);
/* Sessions by slot, 0 .. ks_switchboard_session_slots() - 1. False for a free slot. */
uint32_t ks_switchboard_session_slots(const struct ks_switchboard *board);
bool ks_switchboard_session(const struct ks_switchboard *board, ks_session_id session,
                            struct ks_session_status *ret_status);
/* Why it gets nothing, if it gets nothing. False for a free slot. It takes a look at every lease; `all`: see
 * ks_core_session_idle. */
bool ks_switchboard_session_idle(const struct ks_switchboard *board, ks_session_id session,
                                 struct ks_idle_leases *all, enum ks_idle *ret_idle);

#endif
