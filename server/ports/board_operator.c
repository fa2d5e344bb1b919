/* SPDX-License-Identifier: Apache-2.0 */
#include "ports/board.h"

#include <assert.h>

void ks_switchboard_pause(struct ks_switchboard *board, ks_shard shard, ks_wall until,
                          bool keep_leases)
{
    struct ks_event event = {.kind = KS_EVENT_PAUSE};

    event.pause.shard = ks_board_number(board, shard);
    event.pause.keeps = keep_leases;
    event.pause.until = KS_NEVER;
    if (until.ms != 0)
        event.pause.until =
            ks_instant_add(ks_board_now(board), ks_span_ms(until.ms - ks_wall_now().ms));
    ks_board_step(board, &event);
}

void ks_switchboard_resume(struct ks_switchboard *board, ks_shard shard)
{
    struct ks_event event = {.kind = KS_EVENT_RESUME};

    event.shard.shard = ks_board_number(board, shard);
    ks_board_step(board, &event);
}

/* An order, and what the core says to it. */
static enum ks_operator_status order(struct ks_switchboard *board, const struct ks_event *event)
{
    ks_board_step(board, event);
    assert(board->said.kind == KS_EFFECT_OPERATED);
    return board->said.operated.status;
}

enum ks_operator_status ks_switchboard_release(struct ks_switchboard *board, ks_shard shard)
{
    struct ks_event event = {.kind = KS_EVENT_RELEASE};

    event.shard.shard = ks_board_number(board, shard);
    return order(board, &event);
}

ks_span ks_switchboard_hand_over(const struct ks_switchboard *board)
{
    return board->config.core.hand_over;
}

enum ks_operator_status ks_switchboard_seek(struct ks_switchboard *board, ks_shard shard,
                                            const struct ks_position *to, bool force,
                                            struct ks_seek *seek)
{
    struct ks_shard_words *words = ks_rows_words(&board->rows, ks_board_number(board, shard));
    struct ks_event event = {.kind = KS_EVENT_SEEK};
    enum ks_operator_status status;
    struct ks_position before;

    assert(to->kind != KS_POSITION_LATEST && to->kind != KS_POSITION_SHARD_END);
    if (words == NULL)
        return KS_OPERATOR_NOT_HELD;
    event.seek.shard = ks_board_number(board, shard);
    event.seek.force = force;
    event.seek.dry_run = seek == NULL;
    before = words->seek; /* Of a seek that is under way; the write may leave within the step. */
    words->seek = *to;
    if (seek != NULL) {
        seek->shard = shard;
        ks_list_append(&board->seeks, &seek->link);
    }
    status = order(board, &event);
    if (seek == NULL || status != KS_OPERATOR_OK)
        words->seek = before;
    if (seek != NULL && status != KS_OPERATOR_OK)
        ks_list_remove(&seek->link);
    return status;
}

void ks_switchboard_forget_seek(struct ks_seek *seek)
{
    ks_list_remove(&seek->link);
}

void ks_board_sought(struct ks_switchboard *board, const struct ks_effect *effect)
{
    struct ks_link *link;
    struct ks_link *after;

    KS_LIST_EACH(link, after, &board->seeks)
    {
        struct ks_seek *seek = KS_LIST_ENTRY(link, struct ks_seek, link);

        if (seek->shard != ks_board_handle(board, effect->sought.shard))
            continue;
        ks_list_remove(&seek->link);
        seek->done(seek, effect->sought.done);
    }
}
