/* SPDX-License-Identifier: Apache-2.0 */
/* board.h - the inside of a switchboard, for the files that make it up: switchboard.c (life, turns,
 * effects), board_asks.c (the store and the source), board_leases.c (readers and records in
 * memory), board_letters.c, board_redrive.c, board_redrive_job.c, board_upkeep.c (dead letters),
 * board_sessions.c (consumers), board_filter.c (their filter), board_operator.c (what people order),
 * board_status.c (state for people), board_numbers.c (which numbers of shards are free again). Nobody else includes it.
 */
#ifndef KS_PORTS_BOARD_H
#define KS_PORTS_BOARD_H

#include "base/limits.h"
#include "base/metrics.h"
#include "ports/batches.h"
#include "ports/event_ring.h"
#include "ports/rows.h"
#include "ports/session_log.h"
#include "ports/share.h"
#include "ports/switchboard.h"

/* Events that wait because they came up while effects were performed: failures on the spot. The
 * queue is empty before each step, and a step has at most KS_EFFECTS_MAX of them. */
enum { KS_BOARD_QUEUE_MAX = 8 * KS_EFFECTS_MAX };

/* Reasons of settlements whose dead letters are not written yet: a request has up to 10,000 of them. Of more, the
 * oldest are lost. */
enum { KS_BOARD_REASON_BYTES_MAX = 2 << 20 };
struct ks_board_letters;
struct ks_board_redrives;
struct ks_board_redrive_job;
struct ks_board_upkeep;

/* One request under way to the store or to the source. Outlives the board if need be. */
struct ks_board_ask {
    struct ks_link link;          /* In board->asks. */
    struct ks_switchboard *board; /* NULL: it was freed. */
    enum ks_store_operation operation;
    bool consistent;
    ks_wall asked_at;
    ks_instant sent_at; /* The same, by the steady clock. */
    uint64_t token;
    ks_shard shard;
    ks_epoch epoch;
    uint64_t rev;
    struct ks_incarnation whom; /* See ks_rows_wrote. */
    bool has_checkpoint;
    struct ks_position checkpoint;
};

/* A lease that is open: its reader, and its records in memory. */
struct ks_board_lease {
    struct ks_switchboard *board;
    bool used;
    bool failing; /* The last read failed, and that was told. */
    ks_instant
        failing_since; /* The first read in a row that failed; KS_NEVER: the last one did not. */
    ks_shard shard;
    ks_epoch epoch;
    struct ks_position from;  /* Where its reader begins. */
    struct ks_reader *reader; /* NULL until the first read. */
    struct ks_batches batches;
    int64_t millis_behind;     /* As its source said last; -1 = unknown. */
    int64_t reads;             /* That were answered, in this epoch. */
    int64_t failures;          /* Of these. */
    int64_t throttles;         /* Of these. */
    ks_instant throttled_at;   /* The last read that was throttled. */
    struct ks_expired expired; /* What expired unread and was not told yet. */
    ks_instant expired_at;     /* When it was told last. */
    ks_instant opened_at;
    uint64_t progress;        /* ks_board_progress() when .. */
    ks_instant progress_at;   /* .. something was settled last, as far as was looked. */
    ks_instant unsaved_since; /* The oldest watermark that no checkpoint holds; KS_NEVER: none. */
    /* A record that the filter of the sessions has judged in part; NULL: there is none. */
    struct ks_pattern_match *match;
    ks_number match_number;
    uint64_t match_filter;     /* By which filter. */
    const uint8_t *match_data; /* What it views. */
};

struct ks_board_session {
    bool live;
    uint32_t parting; /* Earlier consumers of this slot that do not know yet that it is over. */
    char client_id[KS_CLIENT_ID_MAX + 1];
    struct ks_consumer *consumer; /* Or NULL. */
    struct ks_link wake;          /* In board->wakes, if it is to be woken. */
    ks_span ack_deadline;
    ks_wall since;
    char share[KS_SHARE_TEXT_SIZE];  /* As a decimal; "": none. */
    char salt[KS_CLIENT_ID_MAX + 1]; /* Of its share. */
};

/* The filter of the open sessions: all have the same, or none. It stays when the last of them ends, until the next one
 * opens. */
struct ks_board_filter {
    uint64_t number; /* As the core knows it; 0: there is none. */
    struct ks_pattern *pattern;
    struct ks_bytes text;
    char shown[KS_FILTER_SHOWN_SIZE]; /* The text for people: its begin. */
};

/* Something to tell all consumers: a hand-over of a shard, or of all (KS_SHARD_NONE). */
struct ks_board_returning {
    ks_shard shard;
    ks_wall deadline;
};

struct ks_switchboard {
    struct ks_switchboard_config config;       /* Its texts are ours. */
    char prefix[KS_SUBSCRIPTION_NAME_MAX + 3]; /* Of lines on the log: "orders: ", or "". */
    struct ks_rows rows;
    uint32_t cpu[KS_CPU_SAMPLES_MAX]; /* The oldest first. */
    uint32_t cpu_count;
    void *core_memory;
    struct ks_core *core;
    struct ks_effects *effects;
    bool stepping;
    bool started;
    bool stopped;           /* What comes is ignored. */
    struct ks_event *queue; /* KS_BOARD_QUEUE_MAX */
    uint32_t queue_first;
    uint32_t queue_count;
    struct ks_hook hook;
    ks_instant due;       /* The core's deadline when it was asked last. */
    bool turning;         /* Our part of the loop's turn is running. */
    ks_instant turned_at; /* When it ran last. */
    struct ks_link asks;
    struct ks_link listeners;
    struct ks_event_ring events;

    /* Numbers of shards. */
    bool *held;         /* core.shards_max: somebody has it. */
    bool *freed;        /* Likewise: nobody had it for long. */
    ks_instant free_at; /* The next look not before. */

    /* The store and the source. */
    bool reads_failing; /* Of the lease table, and that was told. */
    bool writes_failing;
    bool lock_failing;    /* Likewise, the lock. */
    struct ks_link looks; /* Those who wait for the lease rows. */
    bool looking;         /* They are being read. */
    struct ks_link seeks; /* Those who wait for the end of a seek. */
    ks_instant looked_at; /* When they were read for people last. */
    bool checking;        /* A list is under way for ks_board_check_shard. */
    bool describing;      /* It is being asked who it is. */
    bool described;
    struct ks_describe_answer stream; /* If described. */
    struct ks_board_ask *app_ask;     /* CREATE_APP that waits for it. */
    struct ks_store_app app;          /* As it is being written. */
    int64_t
        began_ms; /* The stream's clock as soon as it was known: LATEST begins there. 0: it is not known yet. */
    struct ks_timer describe_timer;
    uint32_t describe_failures;

    /* Records. */
    struct ks_budget budget;
    size_t allowed;                /* By the budget, as the core was told. */
    bool willing;                  /* Counted as one that wants leases. */
    bool kin_away;                 /* As the core was told. */
    struct ks_board_lease *leases; /* core.leases_max */
    uint32_t *open;                /* By shard: index in `leases` + 1; 0 = not open. */
    uint32_t *sizes;               /* KS_READ_RECORDS_MAX */
    uint8_t *hashes;               /* Likewise: of the partition keys. */
    uint32_t *stale_s;             /* Likewise: when they are too old to fail. */
    bool *filtered;                /* Likewise: the filter excludes the record. NULL: no filter. */
    struct ks_board_letters *letters;
    struct ks_board_redrives *redrives;
    struct ks_board_redrive_job *redrive_job;
    struct ks_board_upkeep *upkeep; /* NULL: the store keeps whole records, not pointers. */

    /* Sessions. */
    struct ks_board_session *sessions; /* core.sessions_max */
    struct ks_session_log session_log;
    struct ks_board_filter filter;
    struct ks_pattern_match *match; /* Of a record that is judged at once; NULL: none yet. */
    uint64_t filters;               /* The highest number that a filter had. */
    struct ks_link wakes;
    struct ks_link partings;              /* Consumers that are to be told that it is over. */
    struct ks_board_returning *returning; /* core.leases_max */
    uint32_t returning_count;

    /* What the step under way said to its caller. */
    struct ks_run *runs;
    uint32_t run_count;
    uint32_t run_max;
    uint64_t counted[KS_GROUPS][KS_COUNTS]; /* As the metrics have them. */
    struct ks_effect said;                  /* OPENED, NOT_OPENED, SETTLED. */

    /* The end. */
    bool draining;
    ks_span patience;
    bool drained;
    bool drained_clean;
    uint64_t drained_unsaved;
    bool refused;
    bool refusal_told;
    bool over; /* That it is drained was told. */
    struct ks_detail *why_refused;

    /* State for people. */
    uint64_t boot;
    ks_wall started_at;
    ks_instant gauges_at;
    struct ks_metric_keeper metrics;
    uint64_t load_bytes;      /* Delivered since the load was measured last. */
    ks_instant load_at;       /* When that was. */
    uint64_t load;            /* Bytes a second, as the fleet was told. */
    struct ks_detail *reason; /* Scratch of ks_switchboard_status. */
};

static inline ks_instant ks_board_now(const struct ks_switchboard *board)
{
    return ks_loop_now(board->config.loop);
}

/* The stream's clock, never ahead of it, Unix ms; 0: it has not answered yet. */
static inline int64_t ks_board_stream_ms(const struct ks_switchboard *board)
{
    return board->config.source->vtable->now_ms(board->config.source);
}

/* ---- switchboard.c ---- */

/* Tells the core, and performs what it wants. Not while a step runs. What was queued is told first. */
void ks_board_step(struct ks_switchboard *board, const struct ks_event *event);
/* The same before what was queued: an event that is true only of what its caller has just seen. */
void ks_board_step_at_once(struct ks_switchboard *board, const struct ks_event *event);
/* Tells the core what was queued. What the caller looks at next its own step finds as it was. */
void ks_board_catch_up(struct ks_switchboard *board);
/* Tells the core later in this turn. */
void ks_board_queue(struct ks_switchboard *board, const struct ks_event *event);
/* Keeps an event about a shard (or KS_SHARD_NONE) and tells the listeners. `epoch` 0: about none. */
void ks_board_tell_event(struct ks_switchboard *board, const char *type, ks_shard shard,
                         ks_epoch epoch, const char *line);
/* Keeps that records of a shard expired unread, and tells the listeners. */
void ks_board_tell_expired(struct ks_switchboard *board, ks_shard shard, ks_epoch epoch,
                           const struct ks_expired *expired, const char *line);
/* Tells the listeners. */
void ks_board_happened(struct ks_switchboard *board, ks_shard shard, const char *event,
                       const char *line);
/* It can go on no more: `refused` is called in this turn. The first reason counts. */
void ks_board_refuse(struct ks_switchboard *board, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- board_asks.c ---- */

void ks_board_ask_store(struct ks_switchboard *board, const struct ks_store_effect *effect);
void ks_board_ask_list(struct ks_switchboard *board);
/* Reads all lease rows, for ourselves: the core is not told. */
void ks_board_look_at_rows(struct ks_switchboard *board);
/* True if all lease rows were read at least once, by the core or for ourselves. */
bool ks_board_has_looked(const struct ks_switchboard *board);
/* Takes the stream's clock as the beginning of ours, once it is known: before this worker is ready. */
void ks_board_date(struct ks_switchboard *board);
/* Has the lock name a boot. */
void ks_board_lock(struct ks_switchboard *board, uint64_t boot);
/* Asks the source who it is, again and again until it answers. Until then nothing is read. */
void ks_board_describe(struct ks_switchboard *board);
/* It could not be read: it may be another stream of the same name by now. */
void ks_board_doubt_stream(struct ks_switchboard *board);
/* Lists the shards to see whether this one is still there -> ks_board_shard_checked. False: not now. */
bool ks_board_check_shard(struct ks_switchboard *board, ks_shard shard, ks_epoch epoch);
/* No answer that is under way comes any more: frees them. */
void ks_board_free_asks(struct ks_switchboard *board);
/* Or they may still come: leaves them to themselves. */
void ks_board_leave_asks(struct ks_switchboard *board);

/* A request that is going out; NULL: no memory. */
struct ks_board_ask *ks_board_ask_new(struct ks_switchboard *board);
/* The board that an answer is for, NULL if nobody wants it any more. The ask is used up, but for its fields; the caller
 * frees it. */
struct ks_switchboard *ks_board_of_ask(struct ks_board_ask *ask);

/* ---- board_letters.c ---- */

/* The memory for dead letters. NO_MEMORY. */
KS_MUST_USE ks_err ks_board_letters_new(struct ks_switchboard *board);
/* NULL is allowed. */
void ks_board_letters_free(struct ks_board_letters *letters);
/* What the app says of the first `count` records of the settlement: those that it settled. */
void ks_board_note_reason(struct ks_switchboard *board, const struct ks_settlement *settlement,
                          uint32_t count);
void ks_board_bury(struct ks_switchboard *board, const struct ks_effect *effect);
/* What the app said of the record, "" if nothing. Valid until the next settlement. */
ks_view ks_board_reason_of(const struct ks_switchboard *board, ks_shard shard, ks_epoch epoch,
                           ks_number number);

/* True while dead letters cannot be written. */
bool ks_board_letters_fail(const struct ks_switchboard *board);

/* ---- board_trouble.c ---- */

/* A number that is larger after each settlement of the epoch. */
uint64_t ks_board_progress(const struct ks_lease_view *view);
/* Fills what keeps the shard from its consumer: `trouble` and what belongs to it. `reason` stays if there is none. */
void ks_board_find_trouble(const struct ks_switchboard *board, ks_shard shard,
                           struct ks_shard_status *status);

/* ---- board_upkeep.c ---- */

/* Where letters are pointers: begins to look after them. NO_MEMORY. */
KS_MUST_USE ks_err ks_board_upkeep_new(struct ks_switchboard *board);
/* Looks after them at once, if that is this worker's to do, and it does not already. There are pointers. */
void ks_board_upkeep_now(struct ks_switchboard *board);
bool ks_board_upkeep_is_busy(const struct ks_switchboard *board);
/* Nothing more comes of it. */
void ks_board_upkeep_stop(struct ks_switchboard *board);

/* ---- board_redrive.c ---- */

/* The memory for dead letters that are delivered again. NO_MEMORY. */
KS_MUST_USE ks_err ks_board_redrives_new(struct ks_switchboard *board);
/* Drops their records. */
void ks_board_redrives_clear(struct ks_switchboard *board);
/* The record of a letter that is delivered again; NULL: it is not. */
const struct ks_record *ks_board_letter_record(const struct ks_switchboard *board,
                                               ks_number number);
/* The memory of a letter that ks_board_letter_record() has just returned. */
struct ks_block *ks_board_letter_block(const struct ks_switchboard *board, ks_number number);
/* The age of a record that arrived at `arrival_ms`, Unix ms, which may be any number. Negative if it arrived after
 * `now_ms`. */
int64_t ks_board_age_ms(int64_t now_ms, int64_t arrival_ms);
/* The `stale_s` (core/event.h) of a record that was read after `held_ms` of its epoch; rounded up. UINT32_MAX:
 * never, as `max_age_ms` is 0, or `arrival_ms` is, which is then not known. */
uint32_t ks_board_stale_s(int64_t max_age_ms, int64_t held_ms, int64_t now_ms, int64_t arrival_ms);
/* KS_EFFECT_LETTER, and its answer for the core. */
void ks_board_letter(struct ks_switchboard *board, const struct ks_effect *effect);
void ks_board_letter_told(struct ks_switchboard *board, ks_number number, enum ks_outcome outcome);
/* KS_EFFECT_LETTER_OVER. */
void ks_board_letter_over(struct ks_switchboard *board, ks_number number, bool removed);

/* ks_switchboard_redrive() for the redrive of many with this serial number; 0: for none. */
KS_MUST_USE ks_err ks_board_redrive(struct ks_switchboard *board, ks_view id, uint64_t job,
                                    ks_redrive_answered *answered, void *arg);

/* ---- board_redrive_job.c ---- */

/* Allocates the redrive of many; it begins with an order. NO_MEMORY. */
KS_MUST_USE ks_err ks_board_redrive_job_new(struct ks_switchboard *board);
/* Stops its timer; the caller frees it. */
void ks_board_redrive_job_clear(struct ks_switchboard *board);
/* How the delivery of a redriven letter ended. TAKEN: somebody discarded the letter, or its claim was lost. */
enum ks_redrive_end { KS_REDRIVE_ACKNOWLEDGED, KS_REDRIVE_GIVEN_UP, KS_REDRIVE_TAKEN };
/* Counts the end of a letter of this job; does nothing for serial number 0 or an earlier job. */
void ks_board_redrive_job_over(struct ks_switchboard *board, uint64_t serial,
                               enum ks_redrive_end end);

/* ---- board_leases.c ---- */

void ks_board_open(struct ks_switchboard *board, ks_shard shard, ks_epoch epoch);
void ks_board_read(struct ks_switchboard *board, const struct ks_effect *effect);
/* Of a partition key: its lane follows from it. */
uint8_t ks_key_hash(ks_view key);
/* A shard that could not be found when it was read: `gone` if the stream is there and lists it no
 * more. */
void ks_board_shard_checked(struct ks_switchboard *board, ks_shard shard, ks_epoch epoch,
                            bool gone);
void ks_board_close(struct ks_switchboard *board, ks_shard shard);
void ks_board_forget(struct ks_switchboard *board, ks_shard shard, ks_epoch epoch,
                     ks_number number);
void ks_board_persisted(struct ks_switchboard *board, ks_shard shard, ks_epoch epoch,
                        ks_number number);
/* The open lease of a shard, NULL if it is not open in this epoch. */
struct ks_board_lease *ks_board_lease_of(const struct ks_switchboard *board, ks_shard shard,
                                         ks_epoch epoch);

/* ---- board_sessions.c ---- */

/* The record that the core calls by this number; KS_SHARD_NONE: of a dead letter. NULL if it is not in memory. Valid
 * until the next turn. */
const struct ks_record *ks_board_record(const struct ks_switchboard *board, ks_shard shard,
                                        ks_epoch epoch, ks_number number);
void ks_board_wake(struct ks_switchboard *board, ks_session_id session);
void ks_board_session_ended(struct ks_switchboard *board, ks_session_id session,
                            enum ks_session_end why);
/* Remembers to tell all consumers of a hand-over; KS_SHARD_NONE: of everything. */
void ks_board_returning(struct ks_switchboard *board, ks_shard shard, ks_span until);
/* Calls the consumers. True if some wait for the next turn. */
bool ks_board_call_consumers(struct ks_switchboard *board);

/* ---- board_filter.c ---- */

/* True if the pattern matches the record. */
bool ks_board_takes(const struct ks_pattern *pattern, const struct ks_record *record);
/* Compiles the filter of a session that is to be opened; "": none. The filter that is in use is not compiled again:
 * then `ret_filter` has its number alone. INVALID (the detail names the position), NO_MEMORY. The caller frees it. */
KS_MUST_USE ks_err ks_board_filter_new(const struct ks_switchboard *board, ks_view text,
                                       struct ks_board_filter *ret_filter,
                                       struct ks_detail *detail);
/* The session was opened: its filter is in use, and no longer the caller's. */
void ks_board_filter_use(struct ks_switchboard *board, struct ks_board_filter *filter);
/* Frees what the filter has. */
void ks_board_filter_free(struct ks_board_filter *filter);
/* Forgets how far a record of the lease is judged. */
void ks_board_end_judgement(struct ks_board_lease *lease);
/* Judges some of the records that wait for the filter of the sessions, and counts those that it excludes. False: there
 * are none. Not called while a step runs. */
bool ks_board_judge(struct ks_switchboard *board);

/* ---- board_numbers.c ---- */

/* What a handle is in here whose shard has no number any more: as a number, one that stands for no shard. */
#define KS_SHARD_GONE (KS_SHARD_NONE - 1)

/* Numbers are for the core and within the board, handles for everybody else: what they keep may outlive the shard.
 * KS_SHARD_NONE is both. */
ks_shard ks_board_handle(const struct ks_switchboard *board, ks_shard number);
ks_shard ks_board_number(const struct ks_switchboard *board, ks_shard handle);
/* The memory for what follows. NO_MEMORY. */
KS_MUST_USE ks_err ks_board_numbers_new(struct ks_switchboard *board);
/* At the end of a turn, once in a while: frees those that nobody used for long (core.keep). */
void ks_board_free_numbers(struct ks_switchboard *board, ks_instant now);
/* See ks_rows_init. */
void ks_board_touch_workers(void *arg, ks_instant now);

/* ---- board_operator.c ---- */

/* A seek has come to its end: tells who waits for it. */
void ks_board_sought(struct ks_switchboard *board, const struct ks_effect *effect);

/* ---- board_status.c ---- */

/* Sets the gauges of base/metrics.def that are about us. */
void ks_board_measure(struct ks_switchboard *board);
/* As ks_metric_keeper: of the leases that we hold. */
bool ks_board_shard_metric(struct ks_metric_keeper *keeper, enum ks_metric metric, uint32_t index,
                           const char **ret_shard, int64_t *ret_number);
/* The average of bytes a second, weighted exponentially, `bytes` and a `span` of at least 1 ms later. */
uint64_t ks_board_load_after(uint64_t load, uint64_t bytes, ks_span span);
/* Averages what was delivered since the last time, and tells the core if that has changed. */
void ks_board_measure_load(struct ks_switchboard *board);

#endif
