/* SPDX-License-Identifier: Apache-2.0 */
/* protocol_rig.h - requests and answers of one protocol of a sink, for tests. */
#ifndef KS_TEST_PROTOCOL_RIG_H
#define KS_TEST_PROTOCOL_RIG_H

#include "adapters/sinks/protocol.h"
#include "ks_test.h"

/* Writes a request of `count` messages to the target: the body, which lives until the next call. */
const char *protocol_request(const struct ks_sink_protocol *protocol, const char *target,
                             uint32_t count);
/* Reads an answer to `count` messages. Returns for each a letter: 't' taken, 'f' failed, '-' not named; or the name of
 * the error. Lives until the next call. */
const char *protocol_answer(const struct ks_sink_protocol *protocol, const char *body,
                            uint32_t count);
/* Results of the last answer. */
extern struct ks_sink_result protocol_results[KS_SINK_ENTRIES_MAX];

#endif
