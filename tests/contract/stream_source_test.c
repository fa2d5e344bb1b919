/* SPDX-License-Identifier: Apache-2.0 */
/* The promises of ports/stream_source.h, kept by every source: one suite, run against the local stream and against
 * Kinesis by polling, in JSON and in CBOR, on two emulators and our double, and by enhanced fan-out on our double; and
 * once more with the source of user records before them.
 *
 *     tests/emulators/with kinesis-local kinesalite double -- build/tests/contract/stream_source_test
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
