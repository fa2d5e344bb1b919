/* SPDX-License-Identifier: Apache-2.0 */
/* Dead letters that are delivered again: their records in memory, and what the store is told (core/redrive.h). */
#include "ports/board.h"

#include "base/codec.h"
#include "base/log.h"
#include "base/metrics.h"
#include "ports/fetch.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* They have at most this part of the byte budget, or one of any size. */
enum { SHARE_DIVISOR = 8 };

/* A letter, from the order on until the store knows what became of it. */
struct ks_board_redrive {
    bool used;
    char id[KS_LETTER_ID_MAX + 1];
    char claim[KS_LETTER_CLAIM_MAX +
               1];             /* What other workers see on the letter; "": there is no claim. */
    uint32_t claimed_attempts; /* Of the letter as it was found. */
    bool discarded;            /* Before it began. */
    bool begun;                /* The core has it. */
    uint64_t job;              /* The redrive of many that ordered it; 0: none did. */
    ks_redrive_answered *answered; /* Whoever ordered it; NULL: was told. */
    void *arg;
    struct ks_switchboard *board;
    struct ks_letter
        pointer; /* What was found of a letter whose record is in the stream; its views are of .. */
    struct ks_block *names; /* .. this. */
    struct ks_fetch *fetch; /* Reads the record. */
    /* Once the record is there. */
    struct ks_block *block;
    struct ks_letter
        letter; /* Its views are of the block; `shard_id` and `stream` end with a NUL there. */
    struct ks_record record;
    ks_number number;
};

struct ks_board_redrives {
    struct ks_board_redrive items[KS_REDRIVES_MAX];
    ks_number next;
    size_t bytes;    /* Of all blocks. */
    bool failing;    /* And that was told. */
    uint64_t claims; /* Made so far. */
    struct ks_switchboard *board;
    struct ks_timer renewal; /* Of the claims, while there are some. */
};

static void renew_claims(struct ks_timer *timer);

ks_err ks_board_redrives_new(struct ks_switchboard *board)
{
    board->redrives = ks_alloc(sizeof *board->redrives);
    if (board->redrives == NULL)
        return KS_FAIL(NO_MEMORY);
    board->redrives->board = board;
    board->redrives->renewal.due = renew_claims;
    return KS_OK;
}

static struct ks_board_redrive *find_id(const struct ks_switchboard *board, ks_view id)
{
    for (uint32_t i = 0; i < KS_REDRIVES_MAX; i++) {
        struct ks_board_redrive *redrive = &board->redrives->items[i];

        if (redrive->used && ks_view_equal(ks_view_text(redrive->id), id))
            return redrive;
    }
    return NULL;
}

static struct ks_board_redrive *find_number(const struct ks_switchboard *board, ks_number number)
{
    for (uint32_t i = 0; i < KS_REDRIVES_MAX; i++) {
        struct ks_board_redrive *redrive = &board->redrives->items[i];

        if (redrive->begun && redrive->number == number)
            return redrive;
    }
    return NULL;
}

static void forget(struct ks_switchboard *board, struct ks_board_redrive *redrive)
{
    if (redrive->block != NULL)
        board->redrives->bytes -= redrive->block->capacity;
    ks_block_drop(redrive->block);
    ks_block_drop(redrive->names);
    ks_fetch_cancel(redrive->fetch);
    *redrive = (struct ks_board_redrive){.used = false};
}

void ks_board_redrives_clear(struct ks_switchboard *board)
{
    ks_loop_timer_clear(board->config.loop, &board->redrives->renewal);
    for (uint32_t i = 0; i < KS_REDRIVES_MAX; i++)
        forget(board, &board->redrives->items[i]);
}

/* ---- The record ---- */

static ks_view keep(struct ks_block *block, ks_view view)
{
    uint8_t *at = block->data + block->size;

    if (view.size > 0)
        memcpy(at, view.data, view.size);
    block->size += view.size + 1; /* Zeroed: ends with a NUL. */
    at[view.size] = 0;
    return ks_view_of(at, view.size);
}

/* Bytes of a copy. */
static size_t size_of(const struct ks_letter *letter)
{
    return letter->stream.size + letter->shard_id.size + letter->sequence.size +
           letter->partition_key.size + letter->data.size + letter->reason.size + 6;
}

/* A copy of the letter in a block of its own. FULL, NO_MEMORY. */
static ks_err copy_letter(struct ks_switchboard *board, const struct ks_letter *letter,
                          struct ks_letter *ret_letter, struct ks_block **ret_block)
{
    KS_TRY(ks_block_new(&board->budget, size_of(letter), ret_block));
    *ret_letter = *letter;
    ret_letter->stream = keep(*ret_block, letter->stream);
    ret_letter->shard_id = keep(*ret_block, letter->shard_id);
    ret_letter->sequence = keep(*ret_block, letter->sequence);
    ret_letter->partition_key = keep(*ret_block, letter->partition_key);
    ret_letter->data = keep(*ret_block, letter->data);
    ret_letter->reason = keep(*ret_block, letter->reason);
    return KS_OK;
}

/* Takes a copy of the letter, within the share. FULL, NO_MEMORY. */
static ks_err keep_letter(struct ks_switchboard *board, struct ks_board_redrive *redrive,
                          const struct ks_letter *letter)
{
    struct ks_board_redrives *redrives = board->redrives;

    if (redrives->bytes > 0 &&
        redrives->bytes + size_of(letter) > board->budget.limit / SHARE_DIVISOR)
        return KS_FAIL(FULL);
    KS_TRY(copy_letter(board, letter, &redrive->letter, &redrive->block));
    redrives->bytes += redrive->block->capacity;
    redrive->letter.id = ks_view_text(redrive->id);
    redrive->letter.claim = ks_view_text(redrive->claim);
    redrive->record = (struct ks_record){.data = redrive->letter.data,
                                         .partition_key = redrive->letter.partition_key,
                                         .sequence = redrive->letter.sequence,
                                         .sub_sequence = letter->sub_sequence,
                                         .arrival_ms = letter->arrival_ms};
    return KS_OK;
}

const struct ks_record *ks_board_letter_record(const struct ks_switchboard *board, ks_number number)
{
    const struct ks_board_redrive *redrive = find_number(board, number);

    return redrive == NULL ? NULL : &redrive->record;
}

struct ks_block *ks_board_letter_block(const struct ks_switchboard *board, ks_number number)
{
    const struct ks_board_redrive *redrive = find_number(board, number);

    return redrive == NULL ? NULL : redrive->block;
}

const char *ks_switchboard_run_stream(const struct ks_switchboard *board, const struct ks_run *run)
{
    const struct ks_board_redrive *redrive;

    if (run->shard != KS_SHARD_NONE)
        return board->config.stream;
    redrive = find_number(board, run->first);
    return redrive == NULL ? "" : (const char *)redrive->letter.stream.data;
}

const char *ks_switchboard_run_shard(const struct ks_switchboard *board, const struct ks_run *run)
{
    const struct ks_board_redrive *redrive;

    if (run->shard != KS_SHARD_NONE)
        return ks_switchboard_shard_id(board, run->shard);
    redrive = find_number(board, run->first);
    return redrive == NULL ? "" : (const char *)redrive->letter.shard_id.data;
}

/* ---- The order ---- */

static void answer(struct ks_board_redrive *redrive, ks_err err, const struct ks_detail *detail)
{
    ks_redrive_answered *answered = redrive->answered;

    redrive->answered = NULL;
    answered(redrive->arg, err, redrive->letter.attempts, detail);
}

static uint32_t stale_s_of(const struct ks_switchboard *board, const struct ks_letter *letter)
{
    return ks_board_stale_s(ks_span_to_ms(board->config.core.poison.max_age), 0, ks_wall_now().ms,
                            letter->arrival_ms);
}

static void begin(struct ks_switchboard *board, struct ks_board_redrive *redrive)
{
    const struct ks_letter *letter = &redrive->letter;
    struct ks_event event = {.kind = KS_EVENT_REDRIVE};

    redrive->number = board->redrives->next++;
    redrive->begun = true;
    event.redrive.number = redrive->number;
    event.redrive.shard = KS_SHARD_NONE;
    (void)ks_names_find(&board->rows.shards, letter->shard_id, &event.redrive.shard);
    event.redrive.bytes = (uint32_t)(letter->data.size + letter->partition_key.size);
    event.redrive.hash = ks_key_hash(letter->partition_key);
    event.redrive.attempts = letter->attempts;
    event.redrive.stale_s = stale_s_of(board, letter);
    ks_board_queue(board, &event);
    ks_loop_wake(board->config.loop);
    ks_info("%sdead letter %s is delivered again", board->prefix, redrive->id);
}

/* The letter is whole, or cannot be had. */
static void decide(struct ks_switchboard *board, struct ks_board_redrive *redrive, ks_err err,
                   const struct ks_detail *detail)
{
    if (ks_ok(err))
        begin(board, redrive);
    answer(redrive, err, detail);
    if (!ks_ok(err))
        forget(board, redrive);
}

static void fetched(void *arg, ks_err err, const struct ks_record *record,
                    const struct ks_detail *detail)
{
    struct ks_board_redrive *const redrive = arg;
    struct ks_switchboard *const board = redrive->board;

    redrive->fetch = NULL; /* It is over. */
    if (ks_ok(err)) {
        redrive->pointer.data = record->data;
        err = keep_letter(board, redrive, &redrive->pointer);
    } else if (!ks_err_is(err, KS_ERR_EXPIRED)) {
        err = KS_FAIL(DISK);
    }
    ks_block_drop(redrive->names);
    redrive->names = NULL;
    decide(board, redrive, err, detail);
}

/* Nobody else delivers it. The record of a pointer is read from the stream first. */
static void go_on(struct ks_switchboard *board, struct ks_board_redrive *redrive)
{
    const struct ks_letter *const pointer = &redrive->pointer;
    const struct ks_detail none = {""};
    ks_err err = KS_OK;

    if (redrive->names != NULL)
        err = ks_fetch_begin(board, pointer->shard_id, pointer->sequence, pointer->sub_sequence,
                             fetched, redrive, &redrive->fetch);
    if (redrive->fetch == NULL)
        decide(board, redrive, err, &none);
}

/* ---- The claim ---- */

static void renew_later(struct ks_board_redrives *redrives)
{
    struct ks_loop *const loop = redrives->board->config.loop;

    ks_loop_timer_set(loop, &redrives->renewal,
                      ks_instant_add(ks_loop_now(loop),
                                     ks_span_ms(redrives->board->config.letters->claim_ms / 3)));
}

static void claimed(void *arg, const struct ks_letters_answer *said)
{
    struct ks_board_ask *ask = arg;
    struct ks_switchboard *board = ks_board_of_ask(ask);
    struct ks_board_redrive *redrive;
    struct ks_detail detail = said->detail;

    if (board != NULL) {
        redrive = &board->redrives->items[ask->token];
        if (redrive->discarded) {
            decide(board, redrive, KS_FAIL(NOT_FOUND), &detail);
        } else if (said->outcome == KS_DONE) {
            renew_later(board->redrives);
            go_on(board, redrive);
        } else if (said->outcome == KS_REFUSED) {
            ks_detail_set(&detail, "another worker has just claimed, changed or removed it");
            decide(board, redrive, KS_FAIL(CONDITION), &detail);
        } else {
            decide(board, redrive, KS_FAIL(DISK), &detail);
        }
    }
    ks_free(ask);
}

static void ask_claim(struct ks_switchboard *board, const struct ks_board_redrive *redrive,
                      ks_letters_answered *heard, struct ks_board_ask *ask)
{
    struct ks_dead_letters *const store = board->config.letters;
    const struct ks_letter letter = {.id = ks_view_text(redrive->id),
                                     .claim = ks_view_text(redrive->claim),
                                     .attempts = redrive->claimed_attempts};

    store->vtable->claim(store, &letter, heard, ask);
}

/* Of a store that is ours alone nothing is asked. */
static void claim(struct ks_switchboard *board, struct ks_board_redrive *redrive,
                  struct ks_board_ask *ask)
{
    if (board->config.letters->claim_ms > 0) {
        ask_claim(board, redrive, claimed, ask);
        return;
    }
    go_on(board, redrive);
    ks_free(ask);
}

static void renewed(void *arg, const struct ks_letters_answer *said)
{
    struct ks_board_ask *ask = arg;
    struct ks_switchboard *board = ks_board_of_ask(ask);
    const struct ks_board_redrive *redrive = board == NULL ? NULL : find_number(board, ask->token);

    if (redrive != NULL && said->outcome == KS_REFUSED) {
        ks_warn("%sdead letter %s was claimed or removed by another worker: it is not delivered by "
                "this one any more",
                board->prefix, redrive->id);
        ks_switchboard_discarded(board, ks_view_text(redrive->id));
    }
    ks_free(ask);
}

/* Every third of a claim's time: one answer may be lost. */
static void renew_claims(struct ks_timer *timer)
{
    struct ks_board_redrives *const redrives =
        KS_LIST_ENTRY(timer, struct ks_board_redrives, renewal);
    bool some = false;

    for (uint32_t i = 0; i < KS_REDRIVES_MAX; i++) {
        const struct ks_board_redrive *const redrive = &redrives->items[i];
        struct ks_board_ask *ask;

        if (!redrive->begun || redrive->claim[0] == '\0')
            continue;
        some = true;
        ask = ks_board_ask_new(redrives->board);
        if (ask == NULL)
            continue; /* The next one is in time. */
        ask->token = redrive->number;
        ask_claim(redrives->board, redrive, renewed, ask);
    }
    if (some)
        renew_later(redrives);
}

/* ---- What was found ---- */

/* Copies what is needed of it. CONDITION: another worker delivers it. */
static ks_err take(struct ks_switchboard *board, struct ks_board_redrive *redrive,
                   const struct ks_letter *letter, struct ks_detail *detail)
{
    char until[KS_TIMESTAMP_SIZE];

    if (letter->claim.size > 0) {
        ks_timestamp_format(letter->claimed_until_ms, until);
        ks_detail_set(detail, "%.*s does it; its claim lasts until %s", (int)letter->claim.size,
                      (const char *)letter->claim.data, until);
        return KS_FAIL(CONDITION);
    }
    redrive->board = board;
    redrive->claimed_attempts = letter->attempts;
    if (letter->pointer)
        return copy_letter(board, letter, &redrive->pointer, &redrive->names);
    return keep_letter(board, redrive, letter);
}

static void found(void *arg, const struct ks_letters_answer *said)
{
    struct ks_board_ask *ask = arg;
    struct ks_switchboard *board = ks_board_of_ask(ask);
    struct ks_detail detail = said->detail;
    struct ks_board_redrive *redrive;
    ks_err err = KS_FAIL(NOT_FOUND);

    if (board == NULL) {
        ks_free(ask);
        return;
    }
    redrive = &board->redrives->items[ask->token];
    if (said->outcome != KS_DONE)
        err = KS_FAIL(DISK);
    else if (said->count > 0 && !redrive->discarded)
        err = take(board, redrive, &said->letters[0], &detail);
    if (ks_ok(err)) {
        claim(board, redrive, ask);
        return;
    }
    decide(board, redrive, err, &detail);
    ks_free(ask);
}

/* ---- Orders ---- */

ks_err ks_switchboard_redrive(struct ks_switchboard *board, ks_view id,
                              ks_redrive_answered *answered, void *arg)
{
    return ks_board_redrive(board, id, 0, answered, arg);
}

ks_err ks_board_redrive(struct ks_switchboard *board, ks_view id, uint64_t job,
                        ks_redrive_answered *answered, void *arg)
{
    struct ks_dead_letters *store = board->config.letters;
    struct ks_board_redrive *free = NULL;
    struct ks_board_ask *ask;

    assert(store != NULL);
    if (board->draining)
        return KS_FAIL(BUSY);
    if (id.size > KS_LETTER_ID_MAX)
        return KS_FAIL(NOT_FOUND);
    if (find_id(board, id) != NULL)
        return KS_FAIL(CONDITION);
    for (uint32_t i = 0; i < KS_REDRIVES_MAX && free == NULL; i++)
        if (!board->redrives->items[i].used)
            free = &board->redrives->items[i];
    if (free == NULL)
        return KS_FAIL(FULL);
    ask = ks_board_ask_new(board);
    if (ask == NULL)
        return KS_FAIL(NO_MEMORY);
    ask->token = (uint64_t)(free - board->redrives->items);
    *free = (struct ks_board_redrive){.used = true, .job = job, .answered = answered, .arg = arg};
    (void)snprintf(free->id, sizeof free->id, "%.*s", (int)id.size, (const char *)id.data);
    if (store->claim_ms > 0)
        (void)snprintf(free->claim, sizeof free->claim, "%s#%016" PRIx64 ".%" PRIu64,
                       board->config.worker_id, board->boot, board->redrives->claims++);
    store->vtable->find(store, id, found, ask);
    return KS_OK;
}

bool ks_switchboard_is_redriven(const struct ks_switchboard *board, ks_view id)
{
    return find_id(board, id) != NULL;
}

void ks_switchboard_discarded(struct ks_switchboard *board, ks_view id)
{
    struct ks_event event = {.kind = KS_EVENT_DISCARDED};
    struct ks_board_redrive *redrive = board->stopped ? NULL : find_id(board, id);

    if (redrive != NULL && redrive->fetch != NULL) {
        const struct ks_detail none = {""};

        decide(board, redrive, KS_FAIL(NOT_FOUND), &none);
        return;
    }
    if (redrive != NULL && !redrive->begun)
        redrive->discarded = true;
    if (redrive == NULL || !redrive->begun)
        return;
    event.letter.number = redrive->number;
    ks_board_step(board, &event);
    ks_board_redrive_job_over(board, redrive->job, KS_REDRIVE_TAKEN);
    forget(board, redrive);
    ks_board_happened(board, KS_SHARD_NONE, NULL, NULL); /* Somebody may wait for its end. */
}

void ks_switchboard_tell_discarded(struct ks_switchboard *board, ks_view id, const char *who)
{
    char line[KS_STORY_LINE_MAX];
    ks_view rest = id;
    ks_shard shard = KS_SHARD_NONE;

    (void)ks_names_find(&board->rows.shards, ks_view_cut(&rest, '.'), &shard);
    (void)snprintf(line, sizeof line, "dead letter %.*s: discarded (ordered with %s)", (int)id.size,
                   (const char *)id.data, who);
    ks_info("%s%s", board->prefix, line);
    ks_board_tell_event(board, "letter_discarded", shard, 0, line);
}

/* ---- The end ---- */

/* A state that lasts is said once. */
static void tell_state(struct ks_switchboard *board, const struct ks_letters_answer *said)
{
    bool failing = said->outcome == KS_UNKNOWN;

    if (failing == board->redrives->failing)
        return;
    board->redrives->failing = failing;
    if (failing)
        ks_error("%sdead letters that were delivered again cannot be settled (%s), trying again "
                 "until they can",
                 board->prefix, said->detail.text);
    else
        ks_info("%sdead letters that were delivered again are settled", board->prefix);
}

static void told(void *arg, const struct ks_letters_answer *said)
{
    struct ks_board_ask *ask = arg;
    struct ks_switchboard *board = ks_board_of_ask(ask);

    if (board != NULL) {
        tell_state(board, said);
        ks_board_letter_told(board, ask->token, said->outcome);
    }
    ks_free(ask);
}

void ks_board_letter_told(struct ks_switchboard *board, ks_number number, enum ks_outcome outcome)
{
    struct ks_event event = {.kind = KS_EVENT_LETTER, .letter = {number, outcome}};

    ks_board_queue(board, &event);
    ks_loop_wake(board->config.loop);
}

void ks_board_letter(struct ks_switchboard *board, const struct ks_effect *effect)
{
    struct ks_dead_letters *store = board->config.letters;
    struct ks_board_redrive *redrive = find_number(board, effect->letter.number);
    struct ks_board_ask *ask = redrive == NULL ? NULL : ks_board_ask_new(board);
    ks_view reason;

    assert(redrive != NULL);
    if (ask == NULL) {
        ks_board_letter_told(board, effect->letter.number, KS_UNKNOWN);
        return;
    }
    ask->token = effect->letter.number;
    if (effect->letter.remove) {
        store->vtable->remove(store, redrive->letter.id, redrive->letter.claim, told, ask);
        return;
    }
    reason = ks_board_reason_of(board, KS_SHARD_NONE, 0, redrive->number);
    if (reason.size > 0)
        redrive->letter.reason = reason;
    redrive->letter.attempts = effect->letter.attempts;
    redrive->letter.cause = effect->letter.cause;
    redrive->letter.died_ms = ks_wall_now().ms;
    store->vtable->amend(store, &redrive->letter, told, ask);
}

void ks_board_letter_over(struct ks_switchboard *board, ks_number number, bool removed)
{
    struct ks_board_redrive *redrive = find_number(board, number);

    if (redrive == NULL)
        return;
    if (removed)
        ks_metric_add_labelled(KS_METRIC_DEAD_LETTERS_REDRIVEN, board->config.subscription, 1);
    ks_info("%sdead letter %s was delivered again: %s", board->prefix, redrive->id,
            removed ? "acknowledged, it is gone" : "given up again");
    ks_board_redrive_job_over(board, redrive->job,
                              removed ? KS_REDRIVE_ACKNOWLEDGED : KS_REDRIVE_GIVEN_UP);
    forget(board, redrive);
    ks_board_happened(board, KS_SHARD_NONE, NULL, NULL);
}
