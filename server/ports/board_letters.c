/* SPDX-License-Identifier: Apache-2.0 */
#include "ports/board.h"

#include "base/budget.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/prng.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Reasons are found by spans: of 2^bits records, from a multiple of that on. A run of records is a few of them,
 * and a record is looked for once in each size, however many reasons there are. */
enum { SPAN_BITS_MAX = 13, CHAINS = 1 << 13 };

struct span {
    struct span *next; /* In its chain. */
    const struct ks_board_reason *reason;
    ks_number first;
    uint32_t bits;
};

/* What an app says of records that it gives up, or has tried again; kept until the letters are written. */
struct ks_board_reason {
    struct ks_link link; /* In letters->reasons. */
    uint64_t serial;     /* The last word has the highest. */
    ks_epoch epoch;
    ks_shard shard;
    uint32_t count;      /* Of spans. */
    size_t size;         /* Of all this. */
    struct span spans[]; /* And a text with a NUL behind them. */
};

struct ks_board_letters {
    struct ks_link reasons; /* The oldest first. */
    size_t reason_bytes;    /* Of all of them. */
    uint64_t serial;        /* Of the newest. */
    struct span *chains[CHAINS];
    bool failing; /* And that was told. */
    /* Of the write that is being made. */
    struct ks_letter items[KS_BURY_MAX];
    char ids[KS_BURY_MAX][KS_LETTER_ID_MAX + 1];
};

/* Where the span is chained, or would be: then NULL stands there. */
static struct span **find_span(struct ks_board_letters *letters, ks_shard shard, ks_epoch epoch,
                               ks_number first, uint32_t bits)
{
    struct ks_prng hash;
    struct span **at;

    ks_prng_init(&hash, first ^ (uint64_t)bits << 56);
    ks_prng_init(&hash, ks_prng_next(&hash) ^ epoch);
    ks_prng_init(&hash, ks_prng_next(&hash) ^ shard);
    at = &letters->chains[ks_prng_below(&hash, CHAINS)];
    while (*at != NULL && ((*at)->first != first || (*at)->bits != bits ||
                           (*at)->reason->epoch != epoch || (*at)->reason->shard != shard))
        at = &(*at)->next;
    return at;
}

static void drop_oldest(struct ks_board_letters *letters)
{
    struct ks_board_reason *oldest =
        KS_LIST_ENTRY(letters->reasons.next, struct ks_board_reason, link);

    for (uint32_t i = 0; i < oldest->count; i++) {
        const struct span *span = &oldest->spans[i];
        struct span **at =
            find_span(letters, oldest->shard, oldest->epoch, span->first, span->bits);

        if (*at == span) /* A later word may stand there. */
            *at = span->next;
    }
    letters->reason_bytes -= oldest->size;
    ks_list_remove(&oldest->link);
    ks_free(oldest);
}

ks_err ks_board_letters_new(struct ks_switchboard *board)
{
    board->letters = ks_alloc(sizeof *board->letters);
    if (board->letters == NULL)
        return KS_FAIL(NO_MEMORY);
    ks_link_init(&board->letters->reasons);
    return KS_OK;
}

void ks_board_letters_free(struct ks_board_letters *letters)
{
    while (letters != NULL && !ks_list_empty(&letters->reasons))
        drop_oldest(letters);
    ks_free(letters);
}

struct ks_dead_letters *ks_switchboard_letters(const struct ks_switchboard *board)
{
    return board->config.letters;
}

/* The largest span that begins at `first` and has no more than `count` records. */
static uint32_t bits_of(ks_number first, uint32_t count)
{
    uint32_t bits = 0;

    while (bits < SPAN_BITS_MAX && (first >> bits & 1) == 0 && count >> bits >= 2)
        bits++;
    return bits;
}

static void chain(struct ks_board_letters *letters, struct ks_board_reason *reason, ks_number first,
                  uint32_t bits)
{
    struct span **at = find_span(letters, reason->shard, reason->epoch, first, bits);
    struct span *span = &reason->spans[reason->count++];

    *span = (struct span){*at == NULL ? NULL : (*at)->next, reason, first, bits};
    *at = span;
}

/* A reason of the first `count` records of the settlement, without its spans. NULL: no memory. */
static struct ks_board_reason *new_reason(const struct ks_settlement *settlement, uint32_t count,
                                          ks_view text)
{
    struct ks_board_reason *reason;
    uint32_t spans = 0;
    size_t size;

    for (uint32_t i = 0; i < count; i += 1U << bits_of(settlement->first + i, count - i))
        spans++;
    size = sizeof *reason + spans * sizeof *reason->spans + text.size + 1;
    reason = ks_alloc(size);
    if (reason == NULL)
        return NULL;
    ks_link_init(&reason->link);
    reason->epoch = settlement->epoch;
    reason->shard = settlement->shard;
    reason->size = size;
    memcpy(&reason->spans[spans], text.data, text.size);
    return reason;
}

void ks_board_note_reason(struct ks_switchboard *board, const struct ks_settlement *settlement,
                          uint32_t count)
{
    bool wanted = settlement->outcome == KS_DEAD_LETTER || settlement->outcome == KS_RETRY;
    struct ks_board_letters *letters = board->letters;
    struct ks_board_reason *reason;
    ks_view text = settlement->reason;
    uint32_t bits;

    if (!wanted || count == 0 || text.size == 0)
        return;
    if (text.size > KS_LETTER_REASON_MAX)
        text.size = ks_view_whole_characters(ks_view_of(text.data, KS_LETTER_REASON_MAX));
    reason = new_reason(settlement, count, text);
    if (reason == NULL)
        return;
    reason->serial = ++letters->serial;
    for (uint32_t i = 0; i < count; i += 1U << bits) {
        bits = bits_of(settlement->first + i, count - i);
        chain(letters, reason, settlement->first + i, bits);
    }
    ks_list_append(&letters->reasons, &reason->link);
    letters->reason_bytes += reason->size;
    while (letters->reason_bytes > KS_BOARD_REASON_BYTES_MAX)
        drop_oldest(letters);
}

ks_view ks_board_reason_of(const struct ks_switchboard *board, ks_shard shard, ks_epoch epoch,
                           ks_number number)
{
    const struct ks_board_reason *last = NULL;

    for (uint32_t bits = 0; bits <= SPAN_BITS_MAX; bits++) {
        const struct span *span =
            *find_span(board->letters, shard, epoch, number >> bits << bits, bits);

        if (span != NULL && (last == NULL || last->serial < span->reason->serial))
            last = span->reason;
    }
    return last == NULL ? KS_VIEW("") : ks_view_text((const char *)&last->spans[last->count]);
}

/* ---- Writing. ---- */

bool ks_board_letters_fail(const struct ks_switchboard *board)
{
    return board->letters->failing;
}

static void tell_buried(struct ks_switchboard *board, const struct ks_board_ask *ask,
                        enum ks_outcome outcome)
{
    struct ks_event event = {.kind = KS_EVENT_BURIED};

    event.buried.shard = ask->shard;
    event.buried.epoch = ask->epoch;
    event.buried.serial = (uint32_t)ask->token;
    event.buried.outcome = outcome;
    ks_board_queue(board, &event);
    ks_loop_wake(board->config.loop);
}

/* A state that lasts is said once. */
static void tell_state(struct ks_switchboard *board, const struct ks_letters_answer *answer)
{
    bool failing = answer->outcome != KS_DONE;

    if (failing == board->letters->failing)
        return;
    board->letters->failing = failing;
    if (failing)
        ks_error("%sdead letters cannot be written (%s), trying again until they can; the "
                 "checkpoints wait for them",
                 board->prefix, answer->detail.text);
    else
        ks_info("%sdead letters are written again", board->prefix);
}

static void buried(void *arg, const struct ks_letters_answer *answer)
{
    struct ks_board_ask *ask = arg;
    struct ks_switchboard *board = ks_board_of_ask(ask);

    if (board != NULL) {
        tell_state(board, answer);
        if (answer->outcome == KS_DONE)
            ks_metric_add_labelled(KS_METRIC_DEAD_LETTERS, board->config.subscription,
                                   answer->count);
        else
            ks_metric_add_labelled(KS_METRIC_DEAD_LETTER_FAILURES, board->config.subscription, 1);
        tell_buried(board, ask, answer->outcome);
    }
    ks_free(ask);
}

/* When the record leaves its stream, Unix ms; 0: not known. */
static int64_t expiry_of(const struct ks_switchboard *board, const struct ks_record *record)
{
    struct ks_stream_source *const source = board->config.source;
    const int64_t retention_ms =
        source->vtable->retention_ms == NULL ? 0 : source->vtable->retention_ms(source);

    return retention_ms > 0 && record->arrival_ms > 0 ? record->arrival_ms + retention_ms : 0;
}

static void fill_letter(struct ks_switchboard *board, const struct ks_effect *effect,
                        const struct ks_record *record, uint32_t index)
{
    struct ks_board_letters *letters = board->letters;
    const char *shard = ks_names_text(&board->rows.shards, effect->bury.shard);
    int64_t sub = record->sub_sequence < 0 ? 0 : record->sub_sequence;
    int size = snprintf(letters->ids[index], sizeof letters->ids[index], "%s.%.*s.%" PRId64, shard,
                        (int)record->sequence.size, (const char *)record->sequence.data, sub);

    assert(size > 0 && (size_t)size < sizeof letters->ids[index]);
    letters->items[index] = (struct ks_letter){
        .id = ks_view_text(letters->ids[index]),
        .stream = ks_view_text(board->config.stream),
        .shard_id = ks_view_text(shard),
        .sequence = record->sequence,
        .sub_sequence = record->sub_sequence,
        .partition_key = record->partition_key,
        .data = record->data,
        .reason = ks_board_reason_of(board, ks_board_handle(board, effect->bury.shard),
                                     effect->bury.epoch, effect->bury.first + index),
        .arrival_ms = record->arrival_ms,
        .expires_ms = expiry_of(board, record),
        .died_ms = ks_wall_now().ms,
        .attempts = effect->bury.attempts,
        .cause = effect->bury.cause,
    };
}

void ks_board_bury(struct ks_switchboard *board, const struct ks_effect *effect)
{
    struct ks_dead_letters *store = board->config.letters;
    struct ks_board_lease *lease = ks_board_lease_of(board, effect->bury.shard, effect->bury.epoch);
    struct ks_board_ask none = {
        .token = effect->bury.serial, .shard = effect->bury.shard, .epoch = effect->bury.epoch};
    struct ks_board_ask *ask = store == NULL ? NULL : ks_board_ask_new(board);

    assert(lease != NULL);
    assert(effect->bury.count <= KS_BURY_MAX);
    if (ask == NULL) {
        tell_buried(board, &none, KS_REFUSED);
        return;
    }
    ask->token = none.token;
    ask->shard = none.shard;
    ask->epoch = none.epoch;
    for (uint32_t i = 0; i < effect->bury.count; i++) {
        const struct ks_record *record = ks_batches_record(&lease->batches, effect->bury.first + i);

        assert(record != NULL); /* It is not settled. */
        fill_letter(board, effect, record, i);
    }
    store->vtable->write(store, board->letters->items, effect->bury.count, buried, ask);
}
