/* SPDX-License-Identifier: Apache-2.0 */
/* shared_world.h - what the parts of the shared table's world know of each other: shared.c (our cores),
 * shared_worker.c (their processes, and what becomes of these), shared_stream.c (the streams), shared_table.c (the
 * table), shared_member.c (the model of a member of vmware-go-kcl); kcl_table.c and kcl_member.c, the same of the KCL;
 * shared_rb.c and shared_rb_member.c, of kcl-rb. */
#ifndef KS_SIM_SHARED_WORLD_H
#define KS_SIM_SHARED_WORLD_H

#include "agenda.h"
#include "base/prng.h"
#include "core/core.h"
#include "numbers.h"

enum {
    SHARED_WORKERS = 4,
    SHARED_STREAMS = 2,
    SHARED_NODES = SHARED_WORKERS * SHARED_STREAMS,
    SHARED_MEMBERS = 3,
    SHARED_SHARDS = 14,
    SHARED_RECORDS = 400,
    SHARED_REQUESTS = 2048,
    SHARED_NAMES = 32, /* Worker numbers: EMPTY is the owner "" of the table. */
    SHARED_EMPTY = 31
};
#define SHARED_NONE UINT64_MAX /* No checkpoint. Else the index behind the last settled record. */
#define SHARED_END (UINT64_MAX - 1)
#define SHARED_NEVER INT64_MAX

/* Where a row begins that has no checkpoint. */
enum shared_begin { SHARED_TRIM_HORIZON, SHARED_LATEST, SHARED_AT_TIMESTAMP };

/* Another process wrote what nobody can read. Until somebody mends it, or writes over it. */
enum shared_damage { SHARED_SOUND, SHARED_OF_ANOTHER_KIND, SHARED_OWNER_NULL, SHARED_PLACE_NULL };

struct shared_row {
    bool present;
    uint32_t owner;
    uint64_t timeout; /* ns since 1970; 0 = none. */
    uint32_t claim;
    uint64_t checkpoint;
    /* Of the KCL. */
    enum shared_begin begin; /* Where it begins while `checkpoint` is SHARED_NONE: a word; */
    sim_time since; /* LATEST: from when on, if one of ours noted that; else SHARED_NEVER. */
    bool ranged;    /* It says its hash keys. */
    enum shared_damage damage;
    uint64_t counter;
    uint32_t last;     /* Who had it last. */
    sim_time moved_at; /* When the counter did, last. */
    uint32_t next;     /* 3.x: to whom its owner is to hand it on; */
    sim_time given_at; /* since when. */
    /* Of kcl-rb. */
    bool stranger;   /* A process of it wrote the item, */
    sim_time put_at; /* and then. */
    bool nameless;   /* Its owner is NULL. */
    bool masked;     /* Others read SHARD_END, and `checkpoint` stands beside it. */
};

struct shared_shard {
    uint32_t stream;
    uint32_t count; /* Records that have come. */
    bool closed;
    bool ended; /* Its row said SHARD_END once: a late write may undo that. */
    sim_time born;
    sim_time shown_at; /* From when on listings have it, */
    sim_time closed_at;
    sim_time closed_shown_at; /* and that it is closed, */
    sim_time gone_at;         /* until its records have expired. */
    sim_time row_at;          /* When its row was made first. */
    sim_time due_at;          /* What was put from then on is to be read. */
    ks_shard parents[KS_PARENTS_MAX];
    uint64_t first_key; /* The high halves of its hash keys. */
    uint64_t last_key;
    bool settled[SHARED_RECORDS];
    sim_time put_at[SHARED_RECORDS];
};

/* Whose table it is. */
struct shared_world;
struct shared_request;
struct shared_member;
struct shared_node;
struct shared_fleet {
    enum ks_protocol protocol;
    bool led;          /* KCL 3.x: see kcl_leader.c. */
    uint32_t streams;  /* Whose rows are in the table; 0: of one. */
    bool judges;       /* is_done says all of a row. */
    bool kept;         /* Everybody keeps to conditions: no checkpoint is ever overwritten. */
    int64_t drift_ppm; /* Steady clocks are no more wrong than this. */
    int64_t peace_s;   /* So long it may take after the faults until all is done. */
    /* A request is sent; it reaches the table. */
    void (*asked)(struct shared_world *world, const struct shared_request *request);
    void (*apply)(struct shared_world *world, struct shared_request *request);
    /* A turn of a member: everything that its threads do. */
    void (*member)(struct shared_world *world, struct shared_member *member);
    /* What may be NULL: when the swarm is drawn; when the faults are over; whether the row of a shard, of which
     * everything is settled, is as it should be in the end. */
    void (*draw)(struct shared_world *world);
    void (*make_peace)(struct shared_world *world);
    bool (*is_done)(const struct shared_world *world, ks_shard shard);
    /* A node has an answer of the table; something is to be done for it; a PutItem of a member lands late; all is done:
     * true if that is all. */
    void (*answered)(struct shared_world *world, struct shared_node *node,
                     struct shared_request *request);
    void (*effect)(struct shared_world *world, uint32_t node, const struct ks_effect *effect);
    void (*put)(struct shared_world *world, uint32_t owner, ks_shard shard, uint64_t timeout,
                uint64_t checkpoint);
    bool (*over)(struct shared_world *world);
};
extern const struct shared_fleet shared_go_kcl;
extern const struct shared_fleet shared_kcl;
extern const struct shared_fleet shared_kcl3;
extern const struct shared_fleet shared_kcl_streams;
extern const struct shared_fleet shared_kcl3_streams;
extern const struct shared_fleet shared_kinsumer;
extern const struct shared_fleet shared_kcl_rb;

/* kinsumer's other tables. */
struct shared_meta {
    uint64_t clients[SHARED_NAMES]; /* LastUpdate, 0: no row. */
    uint32_t ranks[SHARED_NAMES];   /* Of their ids, in the order of bytes. */
    uint32_t leader;                /* 0: nobody. */
    uint64_t leader_rev;
    ks_shard list[SHARED_SHARDS];
    uint32_t list_count;
    uint64_t list_rev;
};

/* What a fleet of KCL 3.x has besides. */
enum { KCL_FLIPS = 4 };
struct kcl_flip {
    sim_time at;
    enum ks_kcl_version version;
};
struct kcl_fleet {
    struct kcl_flip flips[KCL_FLIPS];
    sim_time moved_at; /* From then on its rows are in one table. */
    uint64_t beat;     /* The leader's row. */
    sim_time beat_at;
    uint32_t leader; /* Which member. */
    sim_time led_at; /* Since when. */
    sim_time run_at;
    bool forced;
    bool seen[SHARED_SHARDS];
    uint64_t counters[SHARED_SHARDS];
    sim_time seen_at[SHARED_SHARDS];
    sim_time reported[SHARED_NAMES]; /* 0: no row. */
};

enum { SHARED_RUNS = 4 }; /* Of one pull. */

struct shared_node {
    struct ks_core *core;   /* NULL: it does not run. */
    struct numbers numbers; /* Its names of shards. */
    uint32_t life;
    uint32_t name;
    int64_t offset;    /* Of its steady clock. */
    int64_t drift_ppm; /* Likewise. */
    int64_t wall_error;
    bool kin_away;       /* As it was told. */
    ks_instant claim_at; /* At the first of its worker: before then none of them steals. */
    bool app_away;
    sim_time paused_until;
    sim_time cut_until; /* The table is away for it. */
    sim_time tick_at;
    uint32_t session;
    uint32_t session_epoch;
    struct ks_effect runs[SHARED_RUNS]; /* Delivered by the pull of this moment. */
    uint32_t run_count;
    uint64_t base[SHARED_SHARDS]; /* Where its epoch of a shard began. */
    uint64_t fetched[SHARED_SHARDS];
    uint64_t forgot[SHARED_SHARDS];
    sim_time began;
    bool unread[SHARED_SHARDS];   /* It saw that the row cannot be read, */
    bool told[SHARED_SHARDS];     /* and said so. */
    bool has_row[SHARED_SHARDS];  /* As it read or wrote last. */
    uint64_t seen[SHARED_SHARDS]; /* The row's checkpoint, as read last .. */
    uint64_t own[SHARED_SHARDS];  /* .. and as we made it durable; SHARED_NONE: not yet. */
    bool behind[SHARED_SHARDS];   /* The row is behind that. */
    bool open[SHARED_SHARDS];
    sim_time stole_at;              /* Its last theft; 0: none. */
    uint32_t reader[SHARED_SHARDS]; /* Which READ is in flight. */
    sim_time looked_at;             /* When the table was as its last look at all rows shows it. */
    /* Of kcl-rb. */
    bool masks;
    bool at_work;                /* Its last look showed a stranger's lease that is not over. */
    uint64_t row[SHARED_SHARDS]; /* The row's checkpoint as read last, */
    bool masked[SHARED_SHARDS];  /* which was masked. */
    struct ks_shard_row listing[SHARED_SHARDS];
};

struct shared_request {
    bool used;
    bool closed; /* The sender has its answer, or gave up. */
    uint32_t users;
    uint32_t node;
    uint32_t life;
    struct ks_store_effect ask;
    ks_shard named[SHARED_SHARDS]; /* NAME_SHARDS. */
    struct ks_worker_row workers[SHARED_NAMES];
    uint32_t worker_count;
    struct ks_leader_row leader;
    struct ks_list_row list;
    ks_shard listed[SHARED_SHARDS];
    enum shared_begin begin; /* CREATE. */
    sim_time began;          /* The sender. */
    bool has_checkpoint;
    uint64_t checkpoint;
    enum ks_outcome outcome;
    sim_time slow; /* So long its answer is under way. */
    uint32_t row_count;
    struct ks_lease_row rows[SHARED_SHARDS];
    uint64_t checkpoints[SHARED_SHARDS];
    struct ks_kcl_rows kcl;
    sim_time told_at; /* When its rows were. */
    /* Of kcl-rb: how its sender writes, and what it read. */
    bool masked[SHARED_SHARDS];
    bool masks;
    bool was_masked;
    uint64_t was;
};

/* A shard as a member remembers it: clientlibrary/partition of the library. */
struct shared_memory {
    uint32_t owner;
    uint64_t timeout;
    uint64_t checkpoint;
    bool reading; /* It has a consumer for it. */
    uint64_t at;  /* The next record that the consumer reads. */
    bool started; /* `at` means something. */
    /* Of the KCL: what it knows of the row, and since when by the last scan that showed it moved. */
    uint64_t counter;
    uint64_t seen;
    sim_time seen_at;
    bool known;
    bool marked; /* To be taken at the next turn, as it was seen. */
};

/* What a leader of KCL 3.x decided about a row as it saw it, and writes a moment later, or when it wakes. */
enum kcl_decision { KCL_ASSIGNS, KCL_FORCES, KCL_HANDS_OVER };
struct kcl_order {
    enum kcl_decision decision;
    ks_shard shard;
    uint32_t owner;
    uint32_t next;
    uint32_t to;
};

struct shared_member {
    struct kcl_order orders[SHARED_SHARDS];
    uint32_t order_count;
    bool alive;
    bool fine; /* Its times have nanoseconds: v2. */
    uint32_t name;
    int64_t wall_error;
    sim_time paused_until;
    sim_time scan_at;
    sim_time renew_at;
    struct shared_memory shards[SHARED_SHARDS];
    /* Of kinsumer: what it knew at its last look. */
    bool begun;
    sim_time look_at;
    sim_time commit_at;
    uint32_t index;
    uint32_t total;
    ks_shard list[SHARED_SHARDS];
    uint32_t list_count;
};

/* How a fleet of kcl-rb and ours come together. */
struct shared_rb {
    bool masks;           /* Ours mask; */
    bool unmasks;         /* and in the end no more. */
    bool goes_on;         /* A member serves in the end, too. */
    bool back;            /* In the end ours give all back, and a member has it. */
    bool given;           /* Which they have. */
    uint64_t failover_ns; /* Of their leases: need not be ours. */
    sim_time stop_at;     /* Members begin nothing from then on; */
    sim_time calm_at;     /* what they wrote late has landed. */
};

struct shared_world {
    const struct shared_fleet *fleet;
    struct shared_rb rb;
    struct shared_meta meta;
    uint64_t seed;
    sim_time now;
    struct ks_prng prng;
    struct ks_prng looks; /* Slow looks are drawn from it: what other seeds draw stays as it was. */
    struct agenda agenda;
    bool verbose;
    bool failed;
    char sentence[200];
    uint64_t hash;
    /* The swarm. */
    uint32_t node_count;
    uint32_t streams;
    bool reads[SHARED_NODES]; /* Its worker reads its stream. */
    uint32_t member_count;
    bool zombies;  /* Members write late, and without conditions. */
    bool stealing; /* Everybody claims. */
    bool peace;
    bool whole;   /* No shard is split. */
    bool leaving; /* Ours are drained for good. */
    uint32_t lost;
    uint32_t late;
    uint32_t slow_looks; /* Looks at all rows that are answered late; */
    sim_time look;       /* at most so late. */
    uint32_t pauses;
    uint32_t kills;
    uint32_t outages;
    uint32_t jumps; /* Of wall clocks, beyond what the manners allow for. */
    uint32_t next_name;
    struct ks_core_config config;
    /* Of the KCL: where the application begins; AT_TIMESTAMP: when. */
    enum shared_begin initial;
    sim_time at;
    sim_time oldest;    /* Nothing of ours delivers what was put before. */
    sim_time retention; /* Closed shards are gone after it. */
    uint32_t tardy;     /* Listings are behind, so often, */
    bool merges;
    uint32_t damages;
    bool unranged; /* Members say no hash keys. */
    /* The world. */
    uint32_t shard_count;
    struct shared_shard shards[SHARED_SHARDS];
    struct shared_row rows[SHARED_SHARDS];
    struct shared_node nodes[SHARED_NODES];
    struct shared_member members[SHARED_MEMBERS];
    struct shared_request requests[SHARED_REQUESTS];
    struct kcl_fleet kcl;
    sim_time away_until; /* The table, for everybody. */
    struct ks_effects effects;
    uint64_t taken;
    uint64_t claimed;
    uint64_t delivered;
};

void shared_fail(struct shared_world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The seed of a world that failed, the promise that was broken, and what kind of world it is, to standard output. */
void shared_tell_failure(const struct shared_world *world);
void shared_say(struct shared_world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool shared_chance(struct shared_world *world, uint32_t per_mille);

/* The wall clock without error, ns since 1970. */
uint64_t shared_wall(const struct shared_world *world, int64_t error_us);
/* The place where a row without a checkpoint begins, to somebody who began then. */
uint64_t shared_begin_of(const struct shared_world *world, ks_shard shard, sim_time began);
/* True if the node may deliver the shard, by its own word and its own clocks. */
/* One step of a node's core, and its effects. */
void shared_step(struct shared_world *world, uint32_t number, const struct ks_event *event);
/* The app of a node takes records, which are in its socket at once. */
void shared_pull(struct shared_world *world, uint32_t number);
bool shared_may_deliver(const struct shared_world *world, uint32_t node, ks_shard shard);

/* The row of a shard is damaged; or mended. */
void shared_damage(struct shared_world *world);
void shared_mend(struct shared_world *world, ks_shard shard);

/* shared.c: a node of ours begins under this name; its app comes, or goes; it settles what it has, and goes; or ends
 * where it is. */
void shared_start(struct shared_world *world, uint32_t node, uint32_t name);
void shared_app(struct shared_world *world, uint32_t node, bool comes);
void shared_drain(struct shared_world *world, uint32_t node, ks_span patience);
void shared_stop(struct shared_world *world, uint32_t node);
/* And is told whether the other ones of its worker want leases. */
void shared_kin(struct shared_world *world, uint32_t node);
/* Plans what happens to it, unless its life is over by then. */
void shared_plan(struct shared_world *world, uint32_t node, sim_time at,
                 struct happening happening);

/* shared_worker.c: a worker is a process, with a node for each stream that it reads. They share its name, its clocks
 * and its network, and live and die together. */
uint32_t shared_stream_of(const struct shared_world *world, uint32_t node);
/* The first node of its worker, which may be of a stream that the worker does not read. */
uint32_t shared_worker_of(const struct shared_world *world, uint32_t node);
bool shared_reads_all(const struct shared_world *world, uint32_t node);
bool shared_worker_runs(const struct shared_world *world, uint32_t node);
void shared_worker_start(struct shared_world *world, uint32_t node, uint32_t name);
/* Some other node of its worker wants no leases. */
bool shared_is_kin_away(const struct shared_world *world, uint32_t node);
/* A node of it may have changed its mind. */
void shared_worker_changed(struct shared_world *world, uint32_t node);
/* Which streams each worker reads: each is read by somebody. */
void shared_worker_draw(struct shared_world *world);
/* The faults of the next second. */
void shared_worker_trouble(struct shared_world *world);
/* Of a wall clock that is kept right. */
int64_t shared_small_error(struct shared_world *world);

/* Somebody else wrote: the promises that hold where all keep to conditions. */
void shared_changed(struct shared_world *world, ks_shard shard, const struct shared_row *before);

/* shared_stream.c: its first shards; what became of them before anybody reads; some records more, and the next ones in
 * a second; one shard is split, or two are merged. */
void shared_stream_begin(struct shared_world *world);
void shared_stream_age(struct shared_world *world);
void shared_stream_put(struct shared_world *world);
void shared_stream_reshard(struct shared_world *world);
/* What a listing shows of it now; false: nothing. */
bool shared_stream_lists(const struct shared_world *world, ks_shard shard,
                         struct ks_shard_row *ret_row);
bool shared_is_gone(const struct shared_world *world, ks_shard shard);
bool shared_is_parent(const struct shared_world *world, ks_shard parent, ks_shard child);
/* The first record that was put then, or later. */
uint64_t shared_stream_at(const struct shared_world *world, ks_shard shard, sim_time at);
/* The parent is to be read to its end before the child. */
bool shared_waits_for(const struct shared_world *world, ks_shard parent, ks_shard child);
/* When it, or an ancestor, had a row first; SHARED_NEVER: none has or had one. */
sim_time shared_begun_at(const struct shared_world *world, ks_shard shard);
bool shared_has_begun(const struct shared_world *world, ks_shard shard);
/* From when on what is put above it is to be read, where that begins at the latest; SHARED_NEVER: nobody said so. */
sim_time shared_due_above(const struct shared_world *world, ks_shard shard);
/* Closed before the application began, and nobody's; or gone before anybody saw it. */
bool shared_is_old(const struct shared_world *world, ks_shard shard);
/* True if nobody needs to read it, or somebody did. */
bool shared_is_over(const struct shared_world *world, ks_shard shard, uint32_t record);
/* True if all records below are. */
bool shared_is_settled(const struct shared_world *world, ks_shard shard, uint64_t checkpoint);
/* shared_table.c: what must hold of any write of ours in a table of times. */
void shared_check_written(struct shared_world *world, const struct shared_request *request,
                          const struct shared_row *before);
void shared_rb_turn(struct shared_world *world, struct shared_member *member);
void shared_rb_put(struct shared_world *world, uint32_t owner, ks_shard shard, uint64_t timeout,
                   uint64_t checkpoint);
void shared_kinsumer_turn(struct shared_world *world, struct shared_member *member);
/* What it wrote late lands: an unconditional PutItem. */
void shared_member_put(struct shared_world *world, uint32_t owner, ks_shard shard, uint64_t timeout,
                       uint64_t checkpoint);

#endif
