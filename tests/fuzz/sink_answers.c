/* SPDX-License-Identifier: Apache-2.0 */
/* sink_answers.c - any bytes as an answer of SQS, SNS or Kinesis to a batch of dead letters: the first byte chooses the
 * service. A letter is taken or it has failed, never both; a letter of which nothing is said is neither.
 */
#include "adapters/sinks/protocol.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { COUNT = 3 };
    struct ks_sink_result results[COUNT];
    const struct ks_sink_protocol *protocol;

    if (size == 0)
        return 0;
    protocol = ks_sink_protocol_of((enum ks_sink_kind)(data[0] % (KS_SINK_KINESIS + 1)));
    if (!ks_ok(protocol->read(ks_view_of(data + 1, size - 1), COUNT, results)))
        return 0;
    for (uint32_t at = 0; at < COUNT; at++) {
        assert(!results[at].taken || ks_ok(results[at].err));
        assert(ks_ok(results[at].err) == (results[at].detail.text[0] == '\0'));
        assert(ks_view_is_utf8(ks_view_text(results[at].detail.text)));
    }
    return 0;
}
