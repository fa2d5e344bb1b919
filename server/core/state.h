/* SPDX-License-Identifier: Apache-2.0 */
/* state.h - all that the core remembers, in the open: the simulator and the invariants must see it.
 *
 * The parts have a file each and touch their own part: session.c, lanes.c, poison.c, redrive.c (sessions), lease.c
 * (leases held, their writes), flow.c (what to read), fleet/native.c (how workers agree). core.c gives events to them.
 */
#ifndef KS_CORE_STATE_H
#define KS_CORE_STATE_H

#include "base/prng.h"
#include "core/core.h"
#include "core/tracker.h"

/* ---- Shards: small rows, all of them. ---- */

/* What an operator paused (core/operator.h). */
struct ks_pause {
    bool on;
    bool keeps;       /* The leases stay with us. */
    ks_instant until; /* NEVER: until it is resumed. */
};

#define KS_HELD_NONE UINT32_MAX

struct ks_directory_entry {
    struct ks_incarnation owner; /* As known last. */
    struct ks_incarnation next_owner;
    ks_epoch epoch;
    ks_epoch ended;       /* The highest epoch of it that we ended (PROTOCOL A6). */
    uint32_t ended_known; /* The last serial before that. */
    ks_epoch
        quiet; /* The last epoch of ours that ended with all settled that was handed to a connection. */
    ks_epoch given; /* The highest epoch of it that we were told to give. */
    uint32_t held;  /* Index of our lease, or KS_HELD_NONE. */
    uint32_t
        known; /* The last serial before owner and epoch were read or written: see ks_core_after. */
    ks_shard parents[KS_PARENTS_MAX];
    uint64_t load; /* Bytes a second, as its row says. */
    bool ranged;   /* Row or listing said which hash keys are its: from the first to the last. */
    bool closed;   /* As listed last. */
    struct ks_hash_key first_key;
    struct ks_hash_key last_key;
    ks_instant odd_at; /* Since when it is open, though its row is finished; NEVER: it is not. */
    ks_instant unlisted_at; /* Of the first of them. */
    uint8_t unlisted; /* Listings in a row, a second apart, in which it was missing; up to 2. */
    bool seen;        /* In a row or in a listing. */
    bool doubtful;    /* A write of ours was not done: read before the next one. */
    bool present;     /* It has a lease row. */
    uint8_t missing;  /* Reads in a row, a beat apart, that did not show it; up to 2. */
    ks_instant
        missed_at; /* Of the first of them. Of peers: since when it has none; NEVER: it has. */
    bool listed;   /* It was in the last listing. */
    bool finished;
    bool damaged;
    bool writing;      /* A leader's write of ours is in flight. */
    uint8_t take;      /* enum ks_hint */
    uint8_t give;      /* enum ks_hint: `give` for the owner of a lease with a next owner. */
    uint8_t next_take; /* enum ks_hint: `take` for the next owner. */
    ks_epoch
        hinted; /* The epoch that give and next_take are about; another one: to be told anew. */
    ks_instant give_at; /* When our own `give` was acknowledged; NEVER: not yet. */
    /* Of a table with times of its own: what it said last, and since when that is watched without a gap. */
    uint64_t rev;
    ks_instant seen_at;
    ks_instant read_at;
    bool stranger;    /* Written last by somebody to whom our leases mean nothing. */
    bool masked;      /* kcl-rb: only a worker of ours can read it. */
    bool waits;       /* KCL 3.x: assigned to us, and renewed while it waits for its parents. */
    bool vacant;      /* go-kcl, kcl-rb: it could be taken when all rows were read last. */
    bool overwritten; /* kcl-rb wrote over our lease; not logged yet. */
    /* The rev of our last take of it, or of the last write of the lease that we had .. */
    uint64_t tried;
    ks_instant
        tried_until;   /* .. and until when that, or an earlier one of this rev, would serve. */
    bool unstarted;    /* Its checkpoint names no record yet. */
    bool damage_told;  /* That its row is damaged. */
    bool unranged;     /* Its row does not say its hash keys. */
    bool begun_above;  /* Some ancestor has a row, */
    bool begun_below;  /* some descendant. */
    uint32_t children; /* Of the KCL: the edge to the last of them, or KS_SHARD_NONE; and */
    uint32_t siblings[KS_PARENTS_MAX]; /* the next edge of this parent. */
    uint32_t place;                    /* In the list that members divide, from 1; 0: not in it. */
    uint32_t named;                    /* Serial of the last reading of that list that had it. */
    bool unread;         /* Told that nobody has it though it falls to one who lives. */
    uint8_t assigned;    /* enum ks_assigned */
    ks_instant found_at; /* KCL 3.x: since when it is that, if it is. */
    bool elsewhere;      /* KCL: the row is of another stream than ours, */
    bool unserved;       /* one that this process does not read. */
    struct ks_pause pause;
};

/* KCL 3.x: the index of the owners names us. */
enum ks_assigned {
    KS_ASSIGNED_NO,
    KS_ASSIGNED_FOUND,  /* The row is to be read, */
    KS_ASSIGNED_LOOKED, /* and then tells, */
    KS_ASSIGNED_ASKED,  /* or those of its parents, which are being read. */
    KS_ASSIGNED_WAITS   /* It is ours, and they are not over: it is renewed, and not served. */
};

/* Whether somebody has to be told of a lease. */
enum ks_hint { KS_HINT_TOLD, KS_HINT_DUE, KS_HINT_SENT };

/* ---- Leases held. ---- */

enum ks_lease_write {
    KS_WRITE_NONE,
    KS_WRITE_CHECKPOINT,
    KS_WRITE_FINAL,
    KS_WRITE_END,
    KS_WRITE_REREAD, /* A consistent read after an unknown or refused write, or before a final one. */
    KS_WRITE_SEEK
};

struct ks_lease {
    bool used;
    ks_shard shard;
    ks_epoch epoch;
    uint64_t rev;
    enum ks_lease_state state; /* HELD, RETURNING, ENDING. */
    ks_instant since;
    struct ks_tracker tracker;
    uint32_t owned; /* Of its lanes: those that belong to a session. */
    uint64_t
        canary; /* Bit by lane: those for sessions with a share. 0: none is there for this shard. */
    /* Its own deadline and its renewal, where the protocol has such; else KS_NEVER. */
    ks_instant deadline;
    ks_instant renew_at;

    /* Records that fail. */
    bool stopped;     /* By the poison policy, until the record is settled or somebody says so. */
    bool stop_untold; /* And that was not told yet. */
    ks_number stopped_at;
    ks_number large;  /* The last record that was told to be too large for its client, or NONE. */
    uint32_t overdue; /* Records whose ack deadline passed since that was told. */
    ks_instant overdue_at; /* It is not told again before. */
    bool gap_full; /* Told that what is settled behind an unsettled record fills the window. */
    struct ks_tracker_run burying; /* Their dead letters are being written. */
    uint32_t bury_serial;          /* Of that write; 0 = none. */
    uint32_t bury_failures;        /* In a row. */
    ks_instant bury_at;            /* The next one not before. */

    /* The reader. */
    bool reading;
    bool at_end;
    ks_instant end_at; /* Since when. */
    bool throttled;
    bool cramped;          /* Told that there is no room for its next records. */
    ks_instant full_since; /* Since when the byte budget refused its reads; NEVER: it does not. */
    uint64_t reserved;     /* Bytes that the read in flight may take. */
    uint32_t appetite;     /* Bytes worth asking for, as the last reads were. */
    uint32_t
        record_bytes; /* Of a record of the last read that brought some, on average; 0 = none did. */
    ks_instant read_at; /* Not before. */

    /* The one write in flight, and what is durable. */
    enum ks_lease_write write;
    uint32_t serial; /* Of the request in flight. */
    /* The last write of all: when it was sent, which rev it gives the row, until when it makes the lease serve. */
    ks_instant asked_at;
    uint64_t tried;
    ks_instant promised;
    ks_instant sure; /* The same, if it was not that write but an earlier one of this rev. */
    bool reread;     /* Read before the next write. */
    bool refused;    /* The last write was, and it was not read yet why. */
    bool checked; /* Read since it was ready for its final write, which names next_owner as read. */
    bool unsaid;  /* That it is being returned is not told yet. */
    ks_instant patience_at; /* RETURNING: what is in flight then is not waited for any longer. */
    ks_instant send_until;  /* After a `give`: no byte is sent then; NEVER: none came. */
    bool
        given_up; /* Its final or end write was sent: no delivery and no ack in this epoch again. */
    struct ks_incarnation next_owner; /* As last read. */
    ks_number writing;                /* up_to of the checkpoint in flight. */
    ks_number
        unsure; /* Lowest up_to of the unknown checkpoints with this rev; UINT64_MAX = none. */
    ks_number persisted;
    bool hurry;         /* Somebody waits for the checkpoint. */
    uint64_t load;      /* Bytes a second that its shard brings, lately. */
    uint64_t told_load; /* As the row says. */
    uint64_t arrived;   /* Bytes, since the load was measured last. */
    ks_instant measured_at;
    ks_instant checkpoint_at; /* Not before, unless hurry. */
    ks_instant retry_at;      /* The next write or read not before. */
    uint32_t failures;        /* In a row. */

    /* What an operator ordered. */
    bool seeking;  /* The epoch ends with a seek; given_up from the order on. */
    bool released; /* Its final write waits until the fleet knows how many leases we want. */
};

/* ---- Sessions. ---- */

struct ks_session {
    bool used;
    bool attached; /* A stream: it has its connection. A session that pulls: a poll is waiting. */
    bool pulls;
    bool hungry;         /* Its last pull left it wanting; wake it. */
    uint64_t pulled;     /* The assignment of its last pull that brought something. */
    uint32_t epoch;      /* Of this slot: +1 at every open and every take-over. */
    uint32_t born_epoch; /* Its first; between the two: the same client, taken over. */
    bool explicit_credit;
    uint32_t granted; /* Explicit credit: records that it may still be sent. */
    uint32_t max_in_flight;
    uint64_t max_in_flight_bytes;
    uint32_t max_record_bytes;
    ks_span ack_deadline;
    ks_span grace;
    ks_span linger;
    ks_instant over_at;   /* Grace or linger ends. */
    ks_instant absent_at; /* pulls: from then on it keeps no idle lane from others. */
    bool absent;
    bool cut;           /* We ended its connection: what it had in flight then has not failed. */
    uint32_t in_flight; /* Assigned or written, and not settled. */
    uint64_t in_flight_bytes;
    uint32_t unwritten; /* Of these: assigned, and not written. */
    uint64_t unwritten_bytes;
    uint32_t lanes;
    uint32_t share; /* Of the lanes, in millionths; 0: it is of the rest. */
    uint64_t salt;
    uint64_t canary; /* Bit by lane: what the share is. */
    uint32_t shard_count;
    ks_shard shards[KS_SESSION_SHARDS_MAX];
};

/* ---- Dead letters that are delivered again. ---- */

enum ks_redrive_state {
    KS_REDRIVE_NONE,
    KS_REDRIVE_WAITING,  /* To be delivered, from `at` on. */
    KS_REDRIVE_ASSIGNED, /* These three as the states of a record in core/tracker.h. */
    KS_REDRIVE_BEGUN,
    KS_REDRIVE_WRITTEN, /* In flight until `at`. */
    KS_REDRIVE_ENDING /* Acknowledged, or given up again: the store is to be told, from `at` on. */
};

struct ks_redrive {
    uint8_t state;       /* enum ks_redrive_state */
    bool delayed;        /* WAITING: nobody was told that `at` has come. */
    bool failed;         /* Its last delivery did. */
    bool acked;          /* ENDING: it is to be removed. */
    bool telling;        /* ENDING: the store is being told .. */
    bool told_acked;     /* .. that. */
    enum ks_cause cause; /* ENDING: why it was given up. */
    ks_number number;
    ks_shard shard;
    uint32_t bytes;
    uint8_t hash;          /* Of its partition key. */
    uint32_t attempts;     /* Deliveries, in all. */
    uint32_t failures;     /* Since it is delivered again. */
    uint32_t written;      /* Deliveries since then. */
    uint32_t taken_back;   /* As in struct ks_slot. */
    ks_session_id session; /* That it is with, or was with last. */
    ks_session_id seen_by; /* This and the next two as in struct ks_slot; KS_SESSION_NONE. */
    uint64_t seen_in;
    uint64_t torn_in;
    uint64_t assignment;
    ks_instant at;
    ks_instant stale_at; /* Then it is too old to fail. */
};

/* ---- The fleet. ---- */

enum ks_self_step {
    KS_SELF_UNBORN,
    KS_SELF_READING,  /* Our own row, before a registration. */
    KS_SELF_WATCHING, /* An earlier run under our id that may be alive. */
    KS_SELF_LOCKING,  /* The lock file is to name the boot that is registered next. */
    KS_SELF_REGISTERING,
    KS_SELF_READING_BACK, /* After an unknown registration. */
    KS_SELF_LIVE,
    KS_SELF_CHECKING, /* A heartbeat was refused. */
    KS_SELF_BURYING,  /* This incarnation is over: its leases end, then it starts again. */
    KS_SELF_LEAVING,  /* `gone` was sent. */
    KS_SELF_GONE
};

struct ks_member {
    bool present;
    bool found; /* In the read that is looked at. */
    bool damaged;
    bool advanced; /* Its beat was seen to advance under this leader's eyes. */
    struct ks_incarnation self;
    enum ks_life life;
    enum ks_mode mode;
    uint64_t beat;
    uint64_t held;
    uint64_t changes;
    ks_instant seen_at;     /* Since when this (boot, beat) was watched without a gap. */
    ks_instant read_at;     /* The last read of it. */
    ks_instant advanced_at; /* When the beat moved last, or was first seen. */
    ks_instant short_since; /* Since when `held` has been below its rows; KS_NEVER = it is not. */
    ks_instant dead_since;  /* Since when it was not seen live; KS_NEVER = it is. */
    uint64_t capacity;
    uint64_t load;
    uint64_t traffic; /* Bytes a second of the shards that it has, by their rows. */
    uint32_t rank;    /* As its row had it. */
    uint32_t leases;  /* Rows that name it, by our cache. */
    uint32_t planned; /* Rows that are its, or will be. */
    uint32_t fence;   /* Serial of a fence in flight, 0 = none. */
    uint32_t hints;   /* Serial of a hints write in flight. */
    bool hints_due;   /* Something is to be told to it. */
};

/* What the leader told us of a shard, until it is done. */
struct ks_order {
    bool used;
    bool give; /* Else take. */
    bool told; /* It stands in our own row's set, and must be removed from there. */
    ks_shard shard;
    ks_epoch epoch;
    ks_instant poll_at;
    ks_instant until;
    uint32_t serial; /* Of the read in flight, 0 = none. */
    uint32_t seen;   /* Of the last one that was answered. */
    ks_epoch shown;  /* The epoch of the row in that answer; 0: none. */
};
enum { KS_ORDERS_MAX = 2 * KS_TOKENS_MAX };

struct ks_token_list {
    uint32_t count;
    struct ks_lease_token items[KS_ORDERS_MAX];
};

enum { KS_HINT_WRITES_MAX = 4 };

/* A leader's write to a lease row in flight. */
struct ks_leader_write {
    bool used;
    uint32_t serial;
    ks_shard shard;
    enum ks_store_operation operation;
    struct ks_incarnation target;
    ks_epoch epoch; /* Of its condition. */
    bool for_load;  /* A move that evens out the traffic. */
    /* A take of a table with times of its own: the rev that it gives the row, and until when that serves. */
    uint64_t rev;
    ks_instant asked_at;
    ks_instant deadline;
    bool reading;       /* The take is done, or may be: the row is read .. */
    ks_instant read_at; /* .. not before. */
    bool claims;        /* It is read for the protocol's claim. */
    bool renews;        /* No lease begins with it. */
};
enum { KS_LEADER_WRITES_MAX = 32 };

/* Of a table whose members divide a list of shards: our part. */
struct ks_division {
    bool enrolled;   /* Our row is among the clients', or may be. */
    uint64_t beat;   /* That it was seen to say last; 0: it may not be there. */
    uint64_t trying; /* Of the heartbeat in flight. */
    uint32_t serial; /* Of the request of this cycle in flight, 0 = none. */
    enum ks_store_operation asking;
    ks_instant next_at;  /* The next cycle. */
    ks_instant began_at; /* This one, or the last. */
    uint32_t office;     /* Serial of a write of the leader row or the list in flight. */
    enum ks_store_operation claiming;
    uint64_t office_rev; /* That it writes. */
    /* As this cycle's read of the clients says, and as the shards were divided last; total 0: not yet. */
    uint32_t read_index;
    uint32_t read_total;
    uint32_t index;
    uint32_t total;
    uint64_t list_rev;
    bool known;       /* The list was read. */
    bool empty;       /* And nothing stood in it, */
    bool twice;       /* or something twice. */
    uint32_t unread;  /* Shards that nobody has though they fall to one who lives. */
    bool leaving;     /* We want no leases, and none is left: to sign off at `next_at`. */
    ks_instant since; /* When it changed last. */
};

/* How a fleet of KCL agrees, as its rows say (core/fleet/kcl3.h). */
struct ks_kcl {
    bool known; /* They were read, and said what we know. */
    enum ks_kcl_version version;
    bool together;              /* Reports go into the table of the leases. */
    struct ks_kcl_rows rows[2]; /* Of the table of their own, and of that of the leases. */
    uint32_t serials[5];        /* Of the requests in flight, 0 = none. */
    ks_instant probe_at;
    bool failed;  /* One of the reads of this probe did. */
    bool torn;    /* Its reads do not fit: one was before, and one after a change. */
    bool damaged; /* Told that the rows say what we do not know. */
    /* Whoever leads. */
    uint64_t leader;
    uint32_t leader_name; /* In the table of their own: his worker, 0 = none. */
    bool leader_together; /* His report is in the table of the leases. */
    ks_instant leader_at; /* Since when it is that. */
    ks_span leader_span;
    bool led;
    /* Our reports. */
    ks_instant report_at;
    bool reported;          /* There is a row of ours .. */
    bool reported_together; /* .. there, */
    bool going;             /* which is to be deleted. */
    uint64_t beat;          /* That it was seen to say last; 0: it may not be there. */
    uint64_t trying;        /* Of the report in flight. */
    bool measured;          /* With our CPU: others say theirs, .. */
    bool surveyed;          /* .. which was looked at, */
    bool survey;            /* and is to be looked at again. */
    /* What is assigned to us. */
    ks_instant owned_at;
    bool unindexed;       /* The index could not be asked. */
    bool waiting;         /* For parents of a shard that was assigned to us. */
    ks_instant rows_from; /* When the last look at all rows that was answered was asked for. */
    bool renews;          /* Some such shards are renewed, .. */
    ks_instant renew_at;  /* .. then. */
    bool assigned;        /* Some entry of the directory is marked as that. */
    /* Of a table of several streams. */
    uint32_t elsewhere; /* Leases of other streams that are ours. */
    bool counted;       /* All rows were looked at, .. */
    bool unserved;      /* .. and some are of streams that this process does not read, */
    bool unserved_told; /* which is told once. */
    bool kin_away;      /* Or of one that reads them now and wants no leases. */
};

struct ks_fleet {
    struct ks_division division;
    struct ks_kcl kcl;
    /* We ourselves. */
    enum ks_self_step step;
    struct ks_incarnation self;
    ks_instant deadline; /* The lease deadline. */
    uint32_t serial;     /* Of the request about ourselves in flight, 0 = none. */
    ks_instant asked_at; /* When it was sent. */
    ks_instant next_at;  /* The next heartbeat, read or registration. */
    ks_span back_off;
    enum ks_mode mode;      /* As we want it to be known. */
    enum ks_mode told_mode; /* As the table knows it. */
    uint32_t told_capacity; /* Likewise. */
    bool told;              /* The heartbeat that says these was acknowledged. */
    uint64_t changes;
    /* Of all shards: no read succeeds. */
    bool failing;
    ks_instant failed_at; /* Since when; NEVER: one did. */
    ks_instant last_failed_at;
    ks_instant try_at;    /* Failing and without leases: when it tries again; NEVER otherwise. */
    ks_span failing_wait; /* How long it waited for that last. */
    ks_instant live_at;   /* Since when this incarnation is registered. */
    bool resting;         /* Said that the deadline has passed. */
    uint64_t load;        /* Bytes a second that we deliver. */
    struct ks_member old; /* WATCHING. */
    /* LOCKING: the registration that waits for it. */
    enum ks_store_operation registering;
    uint64_t expect_boot;
    uint64_t expect_beat;
    struct ks_order orders[KS_ORDERS_MAX];
    uint32_t orders_top;             /* Beyond the highest in use. */
    struct ks_token_list done_gives; /* To be removed from our row's sets. */
    struct ks_token_list done_takes;
    struct ks_token_list sent_gives; /* Those that the heartbeat in flight removes. */
    struct ks_token_list sent_takes;

    /* News of the others. */
    uint32_t news; /* Serial of the fleet read in flight, 0 = none. */
    bool news_consistent;
    bool news_of_round;   /* It is a leader's round. */
    bool news_partial;    /* It asks for three rows only (A4). */
    ks_instant whole_at;  /* When all rows were read last. */
    ks_instant came_at;   /* When a boot was seen for the first time, last. */
    bool crowded;         /* Said that there are more workers than we have room for. */
    uint32_t news_serial; /* Of the last one sent. */
    ks_instant news_asked_at;
    ks_instant news_at; /* When the next one is due. */
    bool prove;         /* The next one must be consistent: somebody looks dead. */
    struct ks_leader_row office;
    uint32_t office_known; /* Like an entry's `known`. */
    bool app_present;
    uint32_t deputies[KS_DEPUTIES_MAX]; /* As we want them named, while we lead; 0 = none. */
    uint32_t claim; /* Serial of a claim, a resignation, an app row or deputies in flight. */
    enum ks_store_operation claiming; /* Which of them. */
    bool resigned;                    /* The drain gave the office back. */
    ks_instant claim_at;              /* Not before. */
    ks_instant vacant_at;             /* Since when nobody is seen to lead; NEVER: somebody does. */

    /* Leading. */
    bool leads;
    bool warm; /* Elected after it had long watched the others: it knows who may carry. */
    ks_instant won_at;
    ks_instant round_at;
    uint32_t rows;             /* Serial of the lease rows' read in flight. */
    ks_instant rows_asked_at;  /* When it was sent. */
    ks_instant rows_wanted_at; /* .. and the first of those since one was answered; NEVER: none. */
    /* Of peers: the row that was asked for last could not be read. A take would keep it from others, and serve none. */
    bool blind;
    bool rows_stale;
    bool rows_fresh;      /* Read since the last round. */
    ks_instant rows_at;   /* When they were read last; LONG_AGO: not since we were elected. */
    uint64_t changes_sum; /* Of all members, at that time. */
    bool listing;
    ks_instant list_at;
    ks_instant list_asked_at; /* Of the last listing, */
    ks_instant listed_at;     /* of the last that was answered: when it was asked for. */
    /* The audit. */
    bool audit_due;          /* The shards were listed since the last one. */
    bool hole_told;          /* And not that it is filled. */
    uint32_t strikes;        /* Audits in a row that saw the same hole. */
    struct ks_hash_key hole; /* Its first key. */
    ks_instant strike_at;    /* When the next one counts. */
    bool repairing;          /* A round is at work on the rows. */
    bool found;              /* It found something to repair. */
    bool balancing;          /* It found nothing, and looks for leases to move. */
    uint32_t moves;          /* Rows with a next owner. */
    ks_instant uneven_at;    /* Since when the traffic is divided unevenly; NEVER: it is not. */
    uint32_t proof;          /* Serial of the consistent fleet read that it works with. */
    ks_shard cursor;         /* Repair goes on here. */
    struct ks_leader_write writes[KS_LEADER_WRITES_MAX];
    bool hints_due;      /* Some member is to be told something. */
    ks_instant hints_at; /* Not before, while more of it is being decided. */
    bool waiting_said;
    ks_instant
        take_at; /* go-kcl: when more of what was free at the last look is taken; KS_NEVER. */
    /* Strangers at the table (kcl_rb.c). */
    bool strangers;      /* They are at work, or may be: we want nothing. */
    bool strangers_seen; /* One of them wrote to a row while we looked. */
    bool strangers_told;
    bool child_told;
    ks_instant
        unfree_since; /* kcl-rb: since when every row that we could mask has been leased; KS_NEVER. */
    bool unfree_told;
    ks_instant stranger_at; /* When the last row that one of them had written was seen first. */
    struct ks_lease_token hint_gives[KS_HINT_WRITES_MAX][KS_TOKENS_MAX];
    struct ks_lease_token hint_takes[KS_HINT_WRITES_MAX][KS_TOKENS_MAX];
};

struct ks_fleet_protocol;

struct ks_core {
    struct ks_core_config config;
    const struct ks_fleet_protocol *protocol;
    int64_t wall_us; /* As told before this step. */
    struct ks_prng prng;
    ks_instant now;
    uint32_t next_serial;
    bool again;      /* Work is left: step once more at once. */
    bool stirred;    /* Something became deliverable. */
    bool unbalanced; /* Lanes are to be divided again. */
    bool thirsty;    /* Some lease may want a read that did not before. */
    /* Bounds, so that a turn in which nothing is due need not look at each lease. */
    ks_instant lanes_due;   /* No ack deadline and no end of a retry's delay is before it. */
    uint32_t burials;       /* Writes of dead letters under way. */
    ks_instant burials_due; /* No dead letter is to be written before it. */
    ks_instant reads_due;   /* Unless thirsty: no lease wants a read before it. */

    bool draining;
    bool drained;
    bool drain_clean;
    uint64_t drain_unsaved;
    bool patience_said;
    ks_instant patience_at;
    ks_instant idle_at; /* Idle from then on, while there is no session. */
    uint32_t sessions_used;
    uint32_t sessions_top; /* Beyond the highest slot in use. */
    uint32_t leases_used;
    uint32_t leases_top;
    uint32_t looked_lease;     /* Its row was looked at last, though nothing called for it. */
    ks_instant look_at;        /* When the next one's turn is. */
    uint32_t pull_cursor;      /* Leases take turns. */
    enum ks_ordering ordering; /* Of all records, as the first of the sessions said. */
    uint32_t lanes;            /* Of a lease. */
    uint64_t groups[KS_GROUPS][KS_COUNTS]; /* Records, while there is a share. */
    uint64_t filter;       /* Of the sessions, as the last one was opened with; 0: none. */
    uint32_t judge_cursor; /* Leases take turns. */
    uint64_t excluded;     /* Records that were settled because the filter excludes them. */
    bool rest_away;        /* Told that there are only sessions with a share. */
    bool stopped;          /* By the poison policy. */
    uint64_t assignment;   /* The last one that was made. */
    uint64_t reserved;     /* Bytes of the reads in flight. */

    /* What an operator ordered. */
    struct ks_pause pause; /* Of the shards that come. */
    uint32_t pauses;       /* Of these and of the shards, those that are on. */
    ks_instant pauses_due; /* None ends before it. */
    uint32_t rest_leases;  /* We want no more than these .. */
    ks_instant rest_until; /* .. until then. */

    /* Dead letters that are delivered again. */
    struct ks_redrive redrives[KS_REDRIVES_MAX];
    uint32_t redrives_used;
    uint64_t redrive_bytes;
    ks_number redrive_next; /* No letter had this number. */

    struct ks_fleet fleet;
    struct ks_directory_entry *directory; /* shards_max */
    struct ks_lease *leases;              /* leases_max */
    struct ks_session *sessions;          /* sessions_max */
    struct ks_member *members;            /* workers_max */
    ks_shard *by_key;                     /* shards_max: scratch. */
    uint32_t directory_top;               /* Beyond the highest shard number seen. */
};

/* ---- Between the parts. ---- */

/* Tokens of requests: what the answer is for, whose it is, and which request it answers. */
enum ks_purpose {
    KS_FOR_SELF,
    KS_FOR_NEWS,
    KS_FOR_OFFICE,
    KS_FOR_ROWS,
    KS_FOR_FENCE, /* subject: member */
    KS_FOR_HINTS, /* subject: member */
    KS_FOR_SHARD, /* subject: leader write */
    KS_FOR_ORDER, /* subject: order */
    KS_FOR_LEASE  /* subject: lease */
};
uint64_t ks_token_make(enum ks_purpose purpose, uint32_t subject, uint32_t serial);
enum ks_purpose ks_token_purpose(uint64_t token);
uint32_t ks_token_subject(uint64_t token);
uint32_t ks_token_serial(uint64_t token);

/* No request: what is known just now. */
enum { KS_SERIAL_NOW = 0 };
/* A serial for a new request: never 0. */
uint32_t ks_core_serial(struct ks_core *core);
/* True if the request `serial` was sent after something was known, when the last serial was `known`. Instants are too
 * coarse for that: much happens within one turn. */
static inline bool ks_core_after(uint32_t serial, uint32_t known)
{
    return (int32_t)(serial - known) > 0;
}
/* A new effect of this kind, zeroed. There is room: callers of many ask ks_effects_room first. */
struct ks_effect *ks_effects_add(struct ks_effects *effects, enum ks_effect_kind kind);
/* A store request about nothing yet, with its token. */
struct ks_store_effect *ks_effects_store(struct ks_effects *effects,
                                         enum ks_store_operation operation, uint64_t token);
/* A story line about `shard` (or NONE) and `worker` (or nobody). */
struct ks_effect *ks_effects_story(struct ks_effects *effects, enum ks_story story, ks_shard shard,
                                   struct ks_incarnation worker);
/* True if `count` more effects fit, with a reserve for the rest of the step; otherwise asks for another step. */
bool ks_effects_room(struct ks_core *core, const struct ks_effects *effects, uint32_t count);

/* True while an operator has the shard paused: nothing more is read or delivered. */
static inline bool ks_core_paused(const struct ks_core *core, ks_shard shard)
{
    return core->directory[shard].pause.on;
}

/* True while the lease deadline has not come. */
static inline bool ks_core_serving(const struct ks_core *core)
{
    return core->now.us < core->fleet.deadline.us;
}

/* Likewise, of one lease: it may have a deadline of its own. */
static inline bool ks_core_serving_lease(const struct ks_core *core, const struct ks_lease *lease)
{
    return ks_core_serving(core) && core->now.us < lease->deadline.us;
}

/* The deadline of something that waits until `at` but for nothing else. */
static inline ks_instant ks_due(ks_instant deadline, ks_instant at)
{
    return ks_instant_min(deadline, at);
}

#endif
