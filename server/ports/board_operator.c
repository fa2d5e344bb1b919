/* SPDX-License-Identifier: Apache-2.0 */
#include "ports/board.h"

#include <assert.h>
#include <stdio.h>

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

/* What is kept as the reason of the dead letter: whose wish it was, and what the app said of the record last. */
static void note_skip(struct ks_switchboard *board, ks_shard handle, ks_epoch epoch,
                      ks_number number)
{
    const ks_view said = ks_board_reason_of(board, handle, epoch, number);
    struct ks_settlement settlement = {
        .shard = handle, .epoch = epoch, .first = number, .count = 1, .outcome = KS_DEAD_LETTER};
    char text[KS_LETTER_REASON_MAX + 1];
    int length = snprintf(text, sizeof text, "skipped by an operator%s%.*s",
                          said.size == 0 ? "" : "; it failed before: ", (int)said.size,
                          (const char *)said.data);

    settlement.reason = ks_view_of(text, (size_t)length < sizeof text
                                             ? (size_t)length
                                             : ks_view_whole_characters(ks_view_text(text)));
    ks_board_note_reason(board, &settlement, 1);
}

enum ks_operator_status ks_switchboard_skip(struct ks_switchboard *board, ks_shard handle,
                                            ks_view sequence, int64_t sub_sequence, bool dry_run,
                                            bool *ret_lost)
{
    struct ks_event event = {.kind = KS_EVENT_SKIP};
    ks_shard shard = ks_board_number(board, handle);
    const struct ks_board_lease *lease = NULL;
    enum ks_operator_status status;
    struct ks_lease_view view;

    *ret_lost = board->config.letters == NULL;
    if (ks_core_lease(board->core, shard, &view))
        lease = ks_board_lease_of(board, shard, view.epoch);
    if (lease == NULL)
        return KS_OPERATOR_NOT_HELD;
    event.skip.shard = shard;
    event.skip.keep = !*ret_lost;
    event.skip.dry_run = true;
    if (!ks_batches_find(&lease->batches, sequence, sub_sequence, view.fetched, &event.skip.number))
        return KS_OPERATOR_NOT_BLOCKED;
    status = order(board, &event);
    if (dry_run || status != KS_OPERATOR_OK)
        return status;
    note_skip(board, handle, lease->epoch, event.skip.number);
    event.skip.dry_run = false;
    return order(board, &event);
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
