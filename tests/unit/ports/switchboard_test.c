/* SPDX-License-Identifier: Apache-2.0 */
#include "ports/switchboard.h"

#include "base/budget.h"
#include "ks_test.h"
#include "ports/board.h"
#include "unit/ports/stage.h"

TEST(what_was_acknowledged_does_not_come_again_after_a_drain)
{
    struct consumer consumer;
    struct stage stage;

    stage_begin(&stage, "pod-a");
    stage_put(&stage, 0, 20);
    consumer_join(&consumer, &stage, "client");
    consumer_pull_until(&consumer, 20);
    for (uint32_t i = 0; i < 20; i++)
        EXPECT_EQ_U64(consumer.seen[i], 1);
    consumer_ack_all(&consumer);
    stage_drain(&stage);
    EXPECT(stage.clean);
    EXPECT_EQ_U64(consumer.endings, 1);
    EXPECT_EQ_I64(consumer.why, KS_END_DRAINED);
    EXPECT_EQ_U64(consumer.returnings, 1);
    stage_vanish(&stage);

    stage_begin(&stage, "pod-b");
    stage_put(&stage, 20, 5);
    consumer_join(&consumer, &stage, "client");
    consumer_pull_until(&consumer, 5);
    for (uint32_t i = 0; i < 25; i++)
        EXPECT_EQ_U64(consumer.seen[i], i < 20 ? 0 : 1);
    stage_vanish(&stage);
}

TEST(only_what_was_persisted_survives_a_crash)
{
    struct consumer consumer;
    struct stage stage;

    stage_begin(&stage, "pod-a");
    stage_put(&stage, 0, 10);
    consumer_join(&consumer, &stage, "client");
    consumer_pull_until(&consumer, 10);
    consumer_ack_all(&consumer);
    consumer_persist_all(&consumer);
    stage_put(&stage, 10, 6);
    consumer_pull_until(&consumer, 16);
    stage_vanish(&stage);

    /* Another worker has to watch the dead one first. */
    stage_begin(&stage, "pod-b");
    consumer_join(&consumer, &stage, "client");
    consumer_pull_until(&consumer, 6);
    for (uint32_t i = 0; i < 16; i++)
        EXPECT_EQ_U64(consumer.seen[i], i < 10 ? 0 : 1);
    stage_vanish(&stage);
}

TEST(those_who_share_a_table_share_when_they_may_steal)
{
    struct ks_kinship kinship = {.willing = 0};
    struct stage stage;
    ks_instant far;
    ks_instant at = {0};

    stage_begin_with(&stage, &(struct setting){.worker_id = "pod-a",
                                               .stream = "stream",
                                               .shards = STAGE_SHARDS,
                                               .shards_max = 16,
                                               .kinship = &kinship});
    stage_turn_until(&stage, stage_is_ready);
    EXPECT(kinship.claim_at.us > 0);
    /* Another one stole. */
    far = kinship.claim_at = ks_instant_add(ks_loop_now(stage.loop), ks_span_ms(3600000));
    while (at.us != far.us) {
        stage_turn(&stage, stage_patience(), ks_span_ms(5));
        at = (ks_instant){0};
        ks_core_claim(stage.board->core, &at);
    }
    EXPECT_EQ_I64(kinship.claim_at.us, far.us);
    stage_vanish(&stage);
}

TEST(a_second_process_under_the_same_id_is_refused)
{
    struct stage first;
    struct stage second;
    ks_instant until;

    stage_begin(&first, "pod-a");
    stage_turn_until(&first, stage_is_ready);
    stage_begin(&second, "pod-a");
    until = stage_patience();
    while (!stage_is_refused(&second)) {
        stage_turn(&first, until, ks_span_ms(5));
        stage_turn(&second, until, ks_span_ms(5));
    }
    EXPECT_CONTAINS(second.refused, "pod-a");
    EXPECT_CONTAINS(second.refused, "--worker-id");
    stage_vanish(&second);
    stage_vanish(&first);
}

TEST(nothing_is_left_in_memory)
{
    int64_t live = ks_alloc_live();
    struct consumer consumer;
    struct stage stage;

    /* In the middle of everything: asked and not answered. */
    stage_begin(&stage, "pod-a");
    stage_vanish(&stage);
    EXPECT_EQ_I64(ks_alloc_live(), live);

    stage_begin(&stage, "pod-b");
    stage_put(&stage, 0, 30);
    consumer_join(&consumer, &stage, "client");
    consumer_pull_until(&consumer, 30);
    stage_vanish(&stage);
    EXPECT_EQ_I64(ks_alloc_live(), live);
}

TEST(a_board_without_memory_is_none)
{
    struct ks_switchboard_config config = {
        .stream = "stream",
        .application = "app",
        .dialect = "native",
        .worker_id = "pod-a",
        .version = "test",
        .core = ks_core_config_default(ks_span_ms(1000)),
    };
    struct ks_switchboard *board;
    int64_t live;
    uint64_t n = 1;

    EXPECT_OK(ks_loop_new(&config.loop));
    live = ks_alloc_live();
    config.core.shards_max = config.core.leases_max = config.core.sessions_max = 4;
    config.core.workers_max = 4;
    config.core.window_max = 16;
    config.core.budget_bytes = 1 << 20;
    for (;; n++) {
        ks_err err;

        EXPECT(n < 100);
        ks_alloc_fail_after(n, 0);
        err = ks_switchboard_new(&config, &board);
        ks_alloc_fail_after(0, 0);
        if (ks_ok(err))
            break;
        EXPECT_ERR(err, NO_MEMORY);
        EXPECT_EQ_I64(ks_alloc_live(), live);
    }
    EXPECT(n > 20);
    ks_switchboard_stop(board);
    ks_switchboard_free(board);
    EXPECT_EQ_I64(ks_alloc_live(), live);
    ks_loop_free(config.loop);
}
