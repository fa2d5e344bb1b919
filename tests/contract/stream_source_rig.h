/* SPDX-License-Identifier: Apache-2.0 */
/* stream_source_rig.h - a stream of its own behind one of the sources, and ways to use it and wait.
 *
 * The suite (stream_source_suite.c) knows only this; what lies behind it is in stream_source_local.c
 * and stream_source_kinesis.c. Everything that goes wrong in here fails the test.
 */
#ifndef TESTS_CONTRACT_STREAM_SOURCE_RIG_H
#define TESTS_CONTRACT_STREAM_SOURCE_RIG_H

#include "base/loop.h"
#include "ports/stream_source.h"

#include "ks_test.h"

struct stream_rig;

struct stream_rig_adapter {
    const char *name;
    bool tells_children;      /* With the end of a shard. */
    bool trims;               /* Retention can be seen. */
    bool lists_since;         /* Shards that were closed before an instant can be left out. */
    bool short_numbers;       /* Its sequence numbers are not of the length that AWS gives. */
    bool is_kinesis;          /* Behind the AWS client. */
    bool fanout;              /* By enhanced fan-out. */
    bool json;                /* Of Kinesis: never CBOR. */
    const char *url_variable; /* Of Kinesis: where the emulator is. */
    void (*set_up)(struct stream_rig *rig, uint32_t shards);
    /* Another source of the same stream. `page_size` of listings, 0: its own. */
    struct ks_stream_source *(*open)(struct stream_rig *rig, uint32_t page_size);
    void (*put)(struct stream_rig *rig, const struct ks_put_entry *entry,
                struct ks_put_result *ret_result);
    void (*split)(struct stream_rig *rig, const char *shard, const char *at);
    void (*merge)(struct stream_rig *rig, const char *shard, const char *adjacent);
    void (*tear_down)(struct stream_rig *rig);
};

struct stream_rig {
    const struct stream_rig_adapter *adapter;
    struct ks_loop *loop;
    struct ks_stream_source *source;
    struct ks_budget budget;
    char stream[64];
    char consumer[512]; /* Its ARN, for fan-out. */
    void *world;        /* The adapter's own. */
};

extern const struct stream_rig_adapter stream_rig_local;
extern const struct stream_rig_adapter stream_rig_kinesis_local_json;
extern const struct stream_rig_adapter stream_rig_kinesis_local_cbor;
extern const struct stream_rig_adapter stream_rig_kinesalite_json;
extern const struct stream_rig_adapter stream_rig_kinesalite_cbor;
extern const struct stream_rig_adapter stream_rig_moto;
extern const struct stream_rig_adapter stream_rig_double_json;
extern const struct stream_rig_adapter stream_rig_double_cbor;
extern const struct stream_rig_adapter stream_rig_double_limited;
extern const struct stream_rig_adapter stream_rig_fanout_json;
extern const struct stream_rig_adapter stream_rig_fanout_cbor;
extern const struct stream_rig_adapter stream_rig_fanout_limited;

/* Runs a test on a fresh stream of `shards` shards, and checks that no memory is left. */
void stream_rig_run(const struct stream_rig_adapter *adapter, uint32_t shards,
                    void (*test)(struct stream_rig *rig));
/* The same, with the source of user records before it. */
void stream_rig_run_user_records(const struct stream_rig_adapter *adapter, uint32_t shards,
                                 void (*test)(struct stream_rig *rig));

/* --- Asking and waiting --- */

/* An answer is waited for as long as a crowded machine may need. */
enum { STREAM_RIG_SHARDS = 64, STREAM_WAIT_SECONDS = 40 };

struct stream_listing {
    uint32_t times;
    ks_err err;
    struct ks_detail detail;
    struct ks_shard_listing shards[STREAM_RIG_SHARDS];
    uint32_t count;
};

struct stream_read {
    uint32_t times; /* It was answered. */
    struct ks_read_answer answer;
};

/* Turns the loop until `*times` is not 0; fails after `seconds`. */
void stream_rig_wait(struct stream_rig *rig, const uint32_t *times, int seconds);
void stream_rig_turn_for(struct stream_rig *rig, int ms);
void stream_rig_list(struct stream_rig *rig, struct ks_stream_source *source, int64_t since_ms,
                     struct stream_listing *ret_listing);

struct ks_reader *stream_rig_open(struct stream_rig *rig, const char *shard,
                                  enum ks_position_kind kind, const char *sequence,
                                  int64_t timestamp_ms);
/* Behind a user record of an aggregate. */
struct ks_reader *stream_rig_open_inside(struct stream_rig *rig, const char *shard,
                                         const char *sequence, int64_t sub_sequence);
/* Asks; the answer goes to `read`, which stays where it is. */
void stream_rig_ask(struct stream_rig *rig, struct ks_reader *reader, uint32_t records,
                    struct stream_read *read);
/* Asks and waits; the batch of the answer belongs to the caller. */
void stream_rig_read(struct stream_rig *rig, struct ks_reader *reader, uint32_t records,
                     struct stream_read *ret_read);
void stream_rig_close(struct stream_rig *rig, struct ks_reader *reader);

/* A copy of records, in order. */
struct stream_copy {
    struct stream_copied {
        char sequence[KS_SEQUENCE_MAX + 1];
        char key[KS_PARTITION_KEY_MAX + 1];
        uint8_t data[64]; /* Its beginning. */
        size_t size;      /* Its whole size. */
        uint64_t sum;     /* Of all its bytes. */
        int64_t arrival_ms;
        int64_t sub_sequence;
        bool aggregated;
    } records[512];
    uint32_t count;
    bool at_end;
    char children[KS_CHILDREN_MAX][KS_SHARD_ID_MAX + 1];
};

/* Reads on until `count` records have come, or the end of the shard; at most `each` at a time. */
void stream_rig_collect(struct stream_rig *rig, struct ks_reader *reader, uint32_t count,
                        uint32_t each, struct stream_copy *copy);
/* The same with a reader of its own, from the position. */
void stream_rig_collect_from(struct stream_rig *rig, const char *shard, enum ks_position_kind kind,
                             const char *sequence, int64_t timestamp_ms, uint32_t count,
                             struct stream_copy *copy);
uint64_t stream_rig_sum(const void *bytes, size_t size);

/* Puts a text. `hash` NULL: by the key. */
void stream_rig_put(struct stream_rig *rig, const char *key, const char *hash, const char *data,
                    struct ks_put_result *ret_result);

/* The tests: stream_source_suite.c, stream_source_ends.c and stream_source_aggregates.c. */
#define STREAM_SUITE(X)                                                                            \
    X(tells_what_the_stream_is, 1)                                                                 \
    X(lists_all_shards_over_pages, 7)                                                              \
    X(records_come_in_order_and_once, 1)                                                           \
    X(each_position_begins_where_it_says, 1)                                                       \
    X(latest_is_where_the_tip_was_at_open, 1)                                                      \
    X(a_sequence_number_that_is_not_there_skips_nothing, 1)                                        \
    X(a_shard_that_is_not_there_is_not_found, 1)                                                   \
    X(a_read_at_the_tip_is_answered_empty_and_wakes, 1)                                            \
    X(large_records_and_odd_keys_come_whole, 1)                                                    \
    X(records_go_where_their_hash_key_says, 4)                                                     \
    X(a_closed_reader_is_never_answered, 1)                                                        \
    X(a_full_budget_loses_nothing, 1)                                                              \
    X(many_readers_read_beside_each_other, 4)                                                      \
    X(a_split_ends_the_parent_after_its_last_record, 1)                                            \
    X(a_merge_ends_both_parents, 2)                                                                \
    X(shards_closed_before_an_instant_are_left_out, 1)
#define X(name, shards) void stream_suite_##name(struct stream_rig *rig);
STREAM_SUITE(X)
#undef X

/* Those of Kinesis alone. */
#define STREAM_KINESIS_SUITE(X)                                                                    \
    X(an_expired_iterator_is_renewed_where_it_was, 1)                                              \
    X(an_iterator_expired_before_any_record_begins_again, 1)                                       \
    X(an_iterator_that_the_server_refuses_is_renewed, 1)                                           \
    X(a_stream_that_is_not_there_is_said_so, 1)
#define X(name, shards) void stream_suite_##name(struct stream_rig *rig);
STREAM_KINESIS_SUITE(X)
#undef X

/* Those of aggregates; rig->source takes them apart. */
#define STREAM_AGGREGATES_SUITE(X)                                                                 \
    X(user_records_come_in_order_and_once, 1)                                                      \
    X(each_place_inside_an_aggregate_is_gone_on_from, 1)                                           \
    X(the_source_behind_begins_with_the_whole_aggregate, 1)                                        \
    X(a_broken_aggregate_comes_as_it_is, 1)                                                        \
    X(what_a_reshard_put_twice_comes_once, 1)
#define X(name, shards) void stream_suite_##name(struct stream_rig *rig);
STREAM_AGGREGATES_SUITE(X)
#undef X

#endif
