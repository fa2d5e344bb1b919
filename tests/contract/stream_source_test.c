/* SPDX-License-Identifier: Apache-2.0 */
/* The promises of ports/stream_source.h, kept by every source: one suite, run against the local
 * stream and against Kinesis by polling, in JSON and in CBOR, on two emulators.
 *
 *     tests/emulators/with kinesis-local kinesalite -- build/tests/contract/stream_source_test
 */
#include "stream_source_rig.h"

#include "adapters/kinesis/control.h"
#include "adapters/kinesis/polling.h"
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
    RUN(kinesalite_cbor, name, shards)
STREAM_SUITE(X)
STREAM_KINESIS_SUITE(X)
#undef X
