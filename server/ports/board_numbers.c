/* SPDX-License-Identifier: Apache-2.0 */
#include "ports/board.h"

#include <assert.h>

/* ---- Handles. ---- */

ks_shard ks_board_handle(const struct ks_switchboard *board, ks_shard number)
{
    ks_shard handle;

    if (number == KS_SHARD_NONE)
        return KS_SHARD_NONE;
    handle = ks_names_handle(&board->rows.shards, number);
    return handle == KS_NAMES_NONE ? KS_SHARD_GONE : handle;
}

ks_shard ks_board_number(const struct ks_switchboard *board, ks_shard handle)
{
    ks_shard number;

    if (handle == KS_SHARD_NONE)
        return KS_SHARD_NONE;
    number = ks_names_number(&board->rows.shards, handle);
    return number == KS_NAMES_NONE ? KS_SHARD_GONE : number;
}

bool ks_switchboard_find_shard(const struct ks_switchboard *board, ks_view shard_id,
                               ks_shard *ret_shard)
{
    ks_shard number;

    if (!ks_names_find(&board->rows.shards, shard_id, &number))
        return false;
    *ret_shard = ks_board_handle(board, number);
    return true;
}

ks_err ks_switchboard_need_shard(const struct ks_switchboard *board, ks_view shard_id,
                                 ks_shard *ret_shard, struct ks_detail *detail)
{
    if (ks_switchboard_find_shard(board, shard_id, ret_shard))
        return KS_OK;
    if (!ks_board_has_looked(board) || board->rows.shards.fresh == 0) {
        ks_detail_set(detail, "the shards are not known yet");
        return KS_FAIL(BUSY);
    }
    ks_detail_set(detail, "no shard %.*s is known; /v1/shards has those that are",
                  (int)(shard_id.size < KS_SHARD_ID_MAX ? shard_id.size : KS_SHARD_ID_MAX),
                  (const char *)shard_id.data);
    return KS_FAIL(NOT_FOUND);
}

ks_shard ks_switchboard_shard_at(const struct ks_switchboard *board, uint32_t index)
{
    return ks_board_handle(board, index);
}

/* ---- Numbers that are free again. ---- */

/* While nobody uses a number, it is asked for so often whether it is free. */
enum { TIMES = 60 };

static void touch_workers(struct ks_switchboard *board, const struct ks_shard_words *words,
                          ks_instant now)
{
    ks_names_touch(&board->rows.workers, words->owner.worker, now);
    ks_names_touch(&board->rows.workers, words->next_owner.worker, now);
    ks_names_touch(&board->rows.workers, words->story.worker.worker, now);
}

void ks_board_touch_workers(void *arg, ks_instant now)
{
    struct ks_switchboard *board = arg;
    struct ks_worker_view worker;
    struct ks_lease_view lease;

    for (uint32_t i = 0; ks_core_worker(board->core, i, &worker); i++)
        ks_names_touch(&board->rows.workers, worker.self.worker, now);
    for (ks_shard shard = 0; shard < board->rows.shards.fresh; shard++) {
        if (!ks_core_lease(board->core, shard, &lease))
            continue;
        ks_names_touch(&board->rows.workers, lease.owner.worker, now);
        ks_names_touch(&board->rows.workers, lease.next_owner.worker, now);
        touch_workers(board, &board->rows.words[shard], now);
    }
}

static void hold(struct ks_switchboard *board, ks_shard number)
{
    if (number != KS_SHARD_NONE)
        board->held[number] = true;
}

/* Answers that are under way come back with the number that they were asked for. */
static void hold_asked(struct ks_switchboard *board)
{
    struct ks_link *link;
    struct ks_link *after;

    KS_LIST_EACH(link, after, &board->asks)
    hold(board, KS_LIST_ENTRY(link, struct ks_board_ask, link)->shard);
    for (uint32_t i = 0; i < board->returning_count; i++)
        hold(board, board->returning[i].shard);
}

ks_err ks_board_numbers_new(struct ks_switchboard *board)
{
    const uint32_t most = board->config.core.shards_max;

    assert(most <= KS_NAMES_HANDLED_MAX);
    /* Before that nothing has been there for long. */
    board->free_at =
        ks_instant_add(ks_board_now(board), ks_span_us(board->config.core.keep.us / 2));
    board->held = ks_alloc(most * sizeof *board->held);
    board->freed = ks_alloc(most * sizeof *board->freed);
    return board->held == NULL || board->freed == NULL ? KS_FAIL(NO_MEMORY) : KS_OK;
}

void ks_board_free_numbers(struct ks_switchboard *board, ks_instant now)
{
    const ks_span keep = board->config.core.keep;

    /* An event that waits has numbers. */
    if (board->queue_count > 0 || !ks_instant_reached(now, board->free_at))
        return;
    board->free_at = ks_instant_add(now, ks_span_us(keep.us / TIMES));
    /* Not every core reads all rows. */
    if (!board->draining &&
        ks_instant_reached(now, ks_instant_add(board->rows.looked_at, ks_span_us(keep.us / 2))))
        ks_board_look_at_rows(board);
    ks_core_held(board->core, board->held);
    hold_asked(board);
    if (!ks_rows_free_shards(&board->rows, board->held, now, keep, board->freed))
        return;
    for (ks_shard shard = 0; shard < board->rows.shards.fresh; shard++)
        assert(!board->freed[shard] || board->open[shard] == 0);
    ks_core_free(board->core, board->freed);
}
