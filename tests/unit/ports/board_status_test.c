/* SPDX-License-Identifier: Apache-2.0 */
/* What a switchboard tells people. */
#include "ks_test.h"
#include "unit/ports/stage.h"

#include <string.h>

TEST(state_is_told_to_people)
{
    struct ks_board_status status;
    struct ks_shard_status shard;
    struct ks_worker_status worker;
    struct ks_session_status session;
    struct consumer consumer;
    struct stage stage;
    uint32_t ours = 0;

    stage_begin(&stage, "pod-a");
    ks_switchboard_status(stage.board, &status);
    EXPECT(!status.ready);
    EXPECT(status.reason[0] != '\0');
    consumer_join(&consumer, &stage, "client");
    stage_turn_until(&stage, stage_holds_all);
    stage_put(&stage, 0, 8);
    consumer_pull_until(&consumer, 8);

    ks_switchboard_status(stage.board, &status);
    EXPECT_STR(status.reason, "");
    EXPECT(status.ready);
    EXPECT_STR(status.worker_id, "pod-a");
    EXPECT_STR(status.stream, "stream");
    EXPECT_EQ_U64(status.self.in_flight, 8);
    EXPECT(status.self.serving);

    for (ks_shard i = 0; i < ks_switchboard_shard_count(stage.board); i++) {
        if (!ks_switchboard_shard(stage.board, i, &shard))
            continue;
        EXPECT(shard.ours);
        EXPECT(shard.has_lease);
        EXPECT_STR(shard.owner, "pod-a");
        EXPECT_STR(shard.parents[0], "");
        EXPECT(strlen(shard.hash_end) > 30);
        EXPECT(shard.since.ms > ks_wall_now().ms - 60000);
        EXPECT_EQ_I64(shard.checkpoint.kind, KS_POSITION_TRIM_HORIZON);
        ours++;
    }
    EXPECT_EQ_U64(ours, STAGE_SHARDS);
    EXPECT(ks_switchboard_worker(stage.board, 0, &worker));
    EXPECT_STR(worker.worker_id, "pod-a");
    EXPECT(worker.self);
    EXPECT(!ks_switchboard_worker(stage.board, 1, &worker));
    EXPECT(ks_switchboard_session(stage.board, consumer.session, &session));
    EXPECT_STR(session.client_id, "client");
    EXPECT_EQ_U64(session.session.in_flight, 8);
    EXPECT(!ks_switchboard_session(stage.board, 99, &session));
    stage_vanish(&stage);
}

TEST(the_own_row_is_as_we_are_and_not_as_it_was_read)
{
    struct ks_worker_status worker;
    struct consumer consumer;
    struct stage stage;

    stage_begin(&stage, "pod-a");
    consumer_join(&consumer, &stage, "client");
    stage_turn_until(&stage, stage_holds_all);
    EXPECT(ks_switchboard_worker(stage.board, 0, &worker));
    EXPECT(worker.self);
    EXPECT_EQ_U64(worker.row.held, STAGE_SHARDS);
    stage_drain(&stage);
    EXPECT(ks_switchboard_worker(stage.board, 0, &worker));
    EXPECT(worker.self);
    EXPECT_EQ_U64(worker.row.held, 0);
    EXPECT_EQ_I64(worker.row.mode, KS_DRAINING);
    EXPECT_EQ_I64(worker.row.life, KS_GONE);
    stage_vanish(&stage);
}
