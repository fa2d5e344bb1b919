/* SPDX-License-Identifier: Apache-2.0 */
/* The promises of ports/stream_source.h, kept by every source: one suite, run against the local stream and against
 * Kinesis by polling, in JSON and in CBOR, on three emulators and our double, and by enhanced fan-out on our double;
 * and once more with the source of user records before them.
 *
 *     tests/emulators/with kinesis-local kinesalite moto double -- build/tests/contract/stream_source_test
 */
#include "stream_source_rig.h"

#include "adapters/kinesis/control.h"
#include "adapters/kinesis/polling.h"
#include "adapters/kinesis/user_records.h"
#include "adapters/local/stream.h"

#define RUN(adapter, name, shards)                                                                 \
    TEST(adapter##_##name)                                                                         \
    {                                                                                              \
        stream_rig_run(&stream_rig_##adapter, shards, stream_suite_##name);                        \
    }

#define X(name, shards) RUN(local, name, shards)
STREAM_SUITE(X)
#undef X

#define X(name, shards)                                                                            \
    RUN(kinesis_local_json, name, shards)                                                          \
    RUN(kinesis_local_cbor, name, shards)                                                          \
    RUN(kinesalite_json, name, shards)                                                             \
    RUN(kinesalite_cbor, name, shards)                                                             \
    RUN(double_json, name, shards)                                                                 \
    RUN(double_cbor, name, shards)                                                                 \
    RUN(double_limited, name, shards)
STREAM_SUITE(X)
STREAM_KINESIS_SUITE(X)
#undef X

/* moto 5.2.5 knows no CBOR, so that AUTO changes to JSON. It cannot show
 *  - lists_all_shards_over_pages: it refuses a NextToken without the parameters of the first page, and AWS refuses it
 *    with them;
 *  - a_sequence_number_that_is_not_there_skips_nothing: its numbers count from 1 in each shard, and the test takes one
 *    of the form of AWS apart;
 *  - records_go_where_their_hash_key_says, a_merge_ends_both_parents: PutRecord with the highest hash key is answered
 *    500;
 *  - a_split_ends_the_parent_after_its_last_record: SplitShard moves the records of the parent into its children;
 *  - the expired and the refused iterators: its iterators are places in clear text that do not expire, and one that it
 *    did not make is answered 500.
 * It ignores ShardFilter and sends no ChildShards. It has no SubscribeToShard. */
#define X(name, shards) RUN(moto, name, shards)
X(tells_what_the_stream_is, 1)
X(records_come_in_order_and_once, 1)
X(each_position_begins_where_it_says, 1)
X(latest_is_where_the_tip_was_at_open, 1)
X(a_shard_that_is_not_there_is_not_found, 1)
X(a_read_at_the_tip_is_answered_empty_and_wakes, 1)
X(large_records_and_odd_keys_come_whole, 1)
X(a_closed_reader_is_never_answered, 1)
X(a_full_budget_loses_nothing, 1)
X(many_readers_read_beside_each_other, 4)
X(shards_closed_before_an_instant_are_left_out, 1)
X(a_stream_that_is_not_there_is_said_so, 1)
#undef X

#define X(name, shards)                                                                            \
    RUN(fanout_json, name, shards)                                                                 \
    RUN(fanout_cbor, name, shards)                                                                 \
    RUN(fanout_limited, name, shards)
STREAM_SUITE(X)
#undef X

RUN(fanout_cbor, a_stream_that_is_not_there_is_said_so, 1)

#define RUN_USER_RECORDS(adapter, name, shards)                                                    \
    TEST(user_records_of_##adapter##_##name)                                                       \
    {                                                                                              \
        stream_rig_run_user_records(&stream_rig_##adapter, shards, stream_suite_##name);           \
    }

#define X(name, shards)                                                                            \
    RUN_USER_RECORDS(local, name, shards)                                                          \
    RUN_USER_RECORDS(kinesis_local_cbor, name, shards)
STREAM_SUITE(X)
STREAM_AGGREGATES_SUITE(X)
#undef X

#define X(name, shards)                                                                            \
    RUN_USER_RECORDS(kinesalite_json, name, shards)                                                \
    RUN_USER_RECORDS(fanout_cbor, name, shards)
STREAM_AGGREGATES_SUITE(X)
#undef X
