/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/adapters/sinks/protocol_rig.h"

#include "base/budget.h"

#include <stdio.h>

struct ks_sink_result protocol_results[KS_SINK_ENTRIES_MAX];

const char *protocol_request(const struct ks_sink_protocol *protocol, const char *target_text,
                             uint32_t count)
{
    static char body[8192];
    const struct ks_letter letter = {.id = KS_VIEW("shardId-0.42.0"),
                                     .stream = KS_VIEW("orders"),
                                     .shard_id = KS_VIEW("shardId-0"),
                                     .sequence = KS_VIEW("42"),
                                     .partition_key = KS_VIEW("a b"),
                                     .reason = KS_VIEW("x&y"),
                                     .attempts = 2,
                                     .cause = KS_CAUSE_ASKED};
    const struct ks_sink_letter sent = {.application = "app", .letter = &letter};
    const struct ks_sink_entry entry = {KS_VIEW("{\"a\":\"b\"}"), &sent,
                                        &(struct ks_sink_attributes){.count = 0}};
    struct ks_sink_entry full = entry;
    struct ks_sink_attributes attributes;
    struct ks_sink_request request = {.fifo = false};
    struct ks_sink_target target;

    EXPECT_OK(ks_sink_target_read(target_text, &target, NULL));
    ks_sink_attributes(&sent, &attributes);
    full.attributes = &attributes;
    ks_bytes_init(&request.body, sizeof(body) - 1);
    EXPECT_OK(protocol->begin(&request, &target));
    for (uint32_t at = 0; at < count; at++)
        EXPECT_OK(protocol->add(&request, at, at == 0 ? &full : &entry));
    EXPECT_OK(protocol->end(&request));
    (void)snprintf(body, sizeof(body), "%.*s", (int)request.body.size,
                   (const char *)request.body.data);
    ks_bytes_free(&request.body);
    return body;
}

const char *protocol_answer(const struct ks_sink_protocol *protocol, const char *body,
                            uint32_t count)
{
    static char letters[KS_SINK_ENTRIES_MAX + 1];
    const ks_err err = protocol->read(ks_view_text(body), count, protocol_results);

    if (!ks_ok(err))
        return ks_err_name(err);
    for (uint32_t at = 0; at < count; at++)
        letters[at] = protocol_results[at].taken        ? 't'
                      : ks_ok(protocol_results[at].err) ? '-'
                                                        : 'f';
    letters[count] = '\0';
    EXPECT_EQ_I64(ks_alloc_live(), 0);
    return letters;
}
