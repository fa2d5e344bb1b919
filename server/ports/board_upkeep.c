/* SPDX-License-Identifier: Apache-2.0 */
/* Pointers to records that their stream forgets soon: the record is kept in the letter. And letters whose record is
 * gone.
 *
 * Every ten minutes the leader, in a fleet without one every worker, lists all letters. A pointer gets its record in
 * the last eighth of its time. One that expired an hour ago is removed, if the store has not done that.
 */
#include "ports/board.h"

#include "base/log.h"
#include "base/metrics.h"
#include "base/prng.h"
#include "ports/fetch.h"

#include <stdio.h>

enum {
    FIRST_MS = 60000,
    EVERY_MS = 600000,
    PAGE = 50,        /* Letters of one list. */
    LATE_DIVISOR = 8, /* The last part of a pointer's time. */
    OVER_MS = 3600000 /* A store that removes what expired by itself does it later. */
};

/* A letter that something is to be done about. */
struct item {
    char id[KS_LETTER_ID_MAX + 1];
    char shard_id[KS_SHARD_ID_MAX + 1];
    char sequence[KS_SEQUENCE_MAX + 1];
    int64_t sub_sequence;
    bool over;
};

struct ks_board_upkeep {
    struct ks_switchboard *board;
    struct ks_timer timer;
    struct ks_prng prng;
    bool busy;
    char after[KS_LETTER_ID_MAX + 1];
    bool more;
    struct item items[PAGE];
    uint32_t count;
    uint32_t next;
    struct ks_fetch *fetch;
    /* What came of this round. */
    uint32_t kept;
    uint32_t removed;
    uint32_t failed;
    struct ks_detail detail; /* Of the first that failed. */
};

static void go_on(struct ks_board_upkeep *upkeep);

static void wait_ms(struct ks_board_upkeep *upkeep, int64_t ms)
{
    struct ks_loop *const loop = upkeep->board->config.loop;

    ks_loop_timer_set(loop, &upkeep->timer, ks_instant_add(ks_loop_now(loop), ks_span_ms(ms)));
}

static void end_round(struct ks_board_upkeep *upkeep)
{
    const struct ks_switchboard *const board = upkeep->board;

    if (upkeep->kept > 0)
        ks_info("%skept the records of %u dead letters, which their stream forgets soon",
                board->prefix, upkeep->kept);
    if (upkeep->failed > 0)
        ks_warn("%sthe records of %u dead letters are not kept, and their stream forgets them soon "
                "(%s); redrive or discard them",
                board->prefix, upkeep->failed, upkeep->detail.text);
    if (upkeep->removed > 0)
        ks_warn("%s%u dead letters have expired: their records have left the stream", board->prefix,
                upkeep->removed);
    ks_metric_add_labelled(KS_METRIC_DEAD_LETTERS_KEPT, board->config.subscription, upkeep->kept);
    ks_metric_add_labelled(KS_METRIC_DEAD_LETTERS_EXPIRED, board->config.subscription,
                           upkeep->removed);
    upkeep->busy = false;
    wait_ms(upkeep, EVERY_MS + (int64_t)ks_prng_below(&upkeep->prng, EVERY_MS / 10));
}

static void fail(struct ks_board_upkeep *upkeep, const char *why)
{
    if (upkeep->failed++ == 0)
        ks_detail_set(&upkeep->detail, "%s", why);
}

/* The upkeep that an answer of the store is for; NULL: nobody wants it any more. */
static struct ks_board_upkeep *of_answer(void *arg)
{
    struct ks_board_ask *const ask = arg;
    struct ks_switchboard *const board = ks_board_of_ask(ask);

    ks_free(ask);
    return board == NULL || board->stopped ? NULL : board->upkeep;
}

static void kept(void *arg, const struct ks_letters_answer *answer)
{
    struct ks_board_upkeep *const upkeep = of_answer(arg);

    if (upkeep == NULL)
        return;
    if (answer->outcome == KS_DONE)
        upkeep->kept++;
    else if (answer->outcome == KS_UNKNOWN) /* Else it was discarded meanwhile. */
        fail(upkeep, answer->detail.text);
    go_on(upkeep);
}

static void removed(void *arg, const struct ks_letters_answer *answer)
{
    struct ks_board_upkeep *const upkeep = of_answer(arg);

    if (upkeep == NULL)
        return;
    upkeep->removed += answer->outcome == KS_DONE;
    go_on(upkeep);
}

static void fetched(void *arg, ks_err err, const struct ks_record *record,
                    const struct ks_detail *detail)
{
    struct ks_board_upkeep *const upkeep = arg;
    const struct item *const item = &upkeep->items[upkeep->next - 1];
    struct ks_dead_letters *const store = upkeep->board->config.letters;
    struct ks_letter letter = {.id = ks_view_text(item->id)};
    struct ks_board_ask *ask = ks_ok(err) ? ks_board_ask_new(upkeep->board) : NULL;

    upkeep->fetch = NULL;
    if (ask == NULL) {
        fail(upkeep, detail->text[0] != '\0' ? detail->text : ks_err_text(err));
        go_on(upkeep);
        return;
    }
    letter.data = record->data;
    store->vtable->keep(store, &letter, kept, ask);
}

static void begin_item(struct ks_board_upkeep *upkeep, const struct item *item)
{
    struct ks_dead_letters *const store = upkeep->board->config.letters;
    struct ks_board_ask *ask;
    ks_err err = KS_FAIL(NO_MEMORY);

    if (!item->over) {
        err = ks_fetch_begin(upkeep->board, ks_view_text(item->shard_id),
                             ks_view_text(item->sequence), item->sub_sequence, fetched, upkeep,
                             &upkeep->fetch);
    } else if ((ask = ks_board_ask_new(upkeep->board)) != NULL) {
        store->vtable->remove(store, ks_view_text(item->id), KS_VIEW(""), removed, ask);
        err = KS_OK;
    }
    if (!ks_ok(err)) {
        fail(upkeep, ks_err_text(err));
        wait_ms(upkeep, 0); /* What can't be begun is passed over in the next turn. */
    }
}

/* True for what something is to be done about. */
static bool is_due(const struct ks_letter *letter, int64_t now_ms, bool *ret_over)
{
    const int64_t left_ms = letter->expires_ms - now_ms;
    const int64_t all_ms = letter->expires_ms - letter->arrival_ms;

    *ret_over = left_ms < -OVER_MS;
    return letter->pointer && letter->expires_ms > 0 && letter->id.size > 0 &&
           (*ret_over || (left_ms > 0 && left_ms < all_ms / LATE_DIVISOR));
}

static void note_item(struct ks_board_upkeep *upkeep, const struct ks_letter *letter, bool over)
{
    struct item *const item = &upkeep->items[upkeep->count];

    item->over = over;
    item->sub_sequence = letter->sub_sequence;
    if (ks_ok(ks_view_copy_text(letter->id, item->id, sizeof(item->id))) &&
        ks_ok(ks_view_copy_text(letter->shard_id, item->shard_id, sizeof(item->shard_id))) &&
        ks_ok(ks_view_copy_text(letter->sequence, item->sequence, sizeof(item->sequence))))
        upkeep->count++;
}

static void listed(void *arg, const struct ks_letters_answer *answer)
{
    struct ks_board_upkeep *const upkeep = of_answer(arg);
    int64_t now_ms;

    if (upkeep == NULL)
        return;
    now_ms = ks_switchboard_stream_ms(upkeep->board);
    upkeep->count = upkeep->next = 0;
    upkeep->more = answer->outcome == KS_DONE && answer->more;
    for (uint32_t at = 0; answer->outcome == KS_DONE && at < answer->count; at++) {
        const struct ks_letter *const letter = &answer->letters[at];
        bool over;

        if (is_due(letter, now_ms, &over))
            note_item(upkeep, letter, over);
        if (!ks_ok(ks_view_copy_text(letter->id, upkeep->after, sizeof(upkeep->after))))
            upkeep->more = false;
    }
    go_on(upkeep);
}

static void list_on(struct ks_board_upkeep *upkeep)
{
    struct ks_dead_letters *const store = upkeep->board->config.letters;
    struct ks_board_ask *const ask = ks_board_ask_new(upkeep->board);

    if (ask == NULL)
        end_round(upkeep);
    else
        store->vtable->list(store, ks_view_text(upkeep->after), PAGE, listed, ask);
}

static void go_on(struct ks_board_upkeep *upkeep)
{
    if (upkeep->next < upkeep->count)
        begin_item(upkeep, &upkeep->items[upkeep->next++]);
    else if (upkeep->more)
        list_on(upkeep);
    else
        end_round(upkeep);
}

/* Somebody does it: the leader, where there is one. */
static bool is_ours(const struct ks_switchboard *board)
{
    struct ks_self_view self;

    ks_core_self(board->core, &self);
    return board->described && !board->draining &&
           (self.leads || board->config.core.protocol != KS_PROTOCOL_NATIVE);
}

void ks_board_upkeep_now(struct ks_switchboard *board)
{
    struct ks_board_upkeep *const upkeep = board->upkeep;

    if (upkeep->busy)
        return;
    if (!is_ours(board) || ks_switchboard_stream_ms(board) == 0) {
        wait_ms(upkeep, EVERY_MS);
        return;
    }
    upkeep->busy = true;
    upkeep->after[0] = '\0';
    upkeep->kept = upkeep->removed = upkeep->failed = 0;
    list_on(upkeep);
}

bool ks_board_upkeep_is_busy(const struct ks_switchboard *board)
{
    return board->upkeep->busy;
}

static void due(struct ks_timer *timer)
{
    struct ks_board_upkeep *const upkeep = KS_LIST_ENTRY(timer, struct ks_board_upkeep, timer);

    if (upkeep->busy)
        go_on(upkeep);
    else
        ks_board_upkeep_now(upkeep->board);
}

ks_err ks_board_upkeep_new(struct ks_switchboard *board)
{
    struct ks_board_upkeep *upkeep;

    if (board->config.letters == NULL || board->config.letters->vtable->keep == NULL)
        return KS_OK;
    upkeep = ks_alloc(sizeof(*upkeep));
    if (upkeep == NULL)
        return KS_FAIL(NO_MEMORY);
    *upkeep = (struct ks_board_upkeep){.board = board, .timer.due = due};
    ks_prng_init(&upkeep->prng, board->config.core.seed);
    board->upkeep = upkeep;
    wait_ms(upkeep, FIRST_MS);
    return KS_OK;
}

void ks_board_upkeep_stop(struct ks_switchboard *board)
{
    if (board->upkeep == NULL)
        return;
    ks_loop_timer_clear(board->config.loop, &board->upkeep->timer);
    ks_fetch_cancel(board->upkeep->fetch);
    board->upkeep->fetch = NULL;
}
