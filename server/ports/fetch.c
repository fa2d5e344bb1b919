/* SPDX-License-Identifier: Apache-2.0 */
#include "ports/fetch.h"

#include "ports/board.h"

enum { AGAIN_MS = 200 };

struct ks_fetch {
    struct ks_loop *loop;
    struct ks_stream_source *source;
    struct ks_reader *reader;
    char sequence[KS_SEQUENCE_MAX + 1];
    int64_t sub_sequence;
    ks_instant until;
    struct ks_timer timer; /* The next read, or the end. */
    struct ks_batch batch; /* Of the last read. */
    bool over;
    ks_err err;
    struct ks_detail detail;
    ks_fetched *fetched;
    void *arg;
};

static bool is_wanted(const struct ks_fetch *fetch, const struct ks_record *record)
{
    return ks_view_equal(record->sequence, ks_view_text(fetch->sequence)) &&
           (record->sub_sequence < 0 ? 0 : record->sub_sequence) ==
               (fetch->sub_sequence < 0 ? 0 : fetch->sub_sequence);
}

static void wait_ms(struct ks_fetch *fetch, int64_t ms)
{
    ks_loop_timer_set(fetch->loop, &fetch->timer,
                      ks_instant_add(ks_loop_now(fetch->loop), ks_span_ms(ms)));
}

/* A reader is not closed from within its answer: it is told in the next turn. */
static void end(struct ks_fetch *fetch, ks_err err, const struct ks_detail *detail)
{
    fetch->over = true;
    fetch->err = err;
    fetch->detail = *detail;
    wait_ms(fetch, 0);
}

static void judge_failure(struct ks_fetch *fetch, const struct ks_read_answer *said, bool late)
{
    if (ks_err_is(said->err, KS_ERR_NOT_FOUND))
        end(fetch, KS_FAIL(EXPIRED), &said->detail);
    else if (late || ks_err_class(said->err) == KS_CLASS_REPORT)
        end(fetch, said->err, &said->detail);
    else
        wait_ms(fetch, AGAIN_MS);
}

/* What is read begins with the record, or it is gone. Nothing may be read for long where nothing was put. */
static void answered(void *arg, const struct ks_read_answer *said)
{
    struct ks_fetch *const fetch = arg;
    const bool late = ks_instant_reached(ks_loop_now(fetch->loop), fetch->until);

    fetch->batch = said->batch;
    if (!ks_ok(said->err))
        judge_failure(fetch, said, late);
    else if (said->batch.count > 0)
        end(fetch, is_wanted(fetch, &said->batch.records[0]) ? KS_OK : KS_FAIL(EXPIRED),
            &said->detail);
    else if (said->batch.at_end || said->batch.millis_behind == 0)
        end(fetch, KS_FAIL(EXPIRED), &said->detail);
    else if (late)
        end(fetch, KS_FAIL(TIMEOUT), &said->detail);
    else
        wait_ms(fetch, AGAIN_MS);
}

static void read_on(struct ks_fetch *fetch)
{
    ks_batch_free(&fetch->batch);
    fetch->source->vtable->read(fetch->reader, 1, 1, answered, fetch);
}

static void due(struct ks_timer *timer)
{
    struct ks_fetch *const fetch = KS_LIST_ENTRY(timer, struct ks_fetch, timer);

    if (!fetch->over) {
        read_on(fetch);
        return;
    }
    fetch->fetched(fetch->arg, fetch->err, ks_ok(fetch->err) ? &fetch->batch.records[0] : NULL,
                   &fetch->detail);
    ks_fetch_cancel(fetch);
}

/* Inside an aggregate one begins behind a place. */
static struct ks_position place_of(const char sequence[KS_SEQUENCE_MAX + 1], int64_t sub_sequence)
{
    struct ks_position place = {.kind = KS_POSITION_AT_SEQUENCE, .sub_sequence = -1};

    if (sub_sequence > 0) {
        place.kind = KS_POSITION_AFTER_SEQUENCE;
        place.sub_sequence = sub_sequence - 1;
    }
    memcpy(place.sequence, sequence, strlen(sequence) + 1);
    return place;
}

static void set_range(struct ks_switchboard *board, struct ks_fetch *fetch, ks_view shard_id)
{
    const struct ks_shard_words *words;
    ks_shard shard;

    if (fetch->source->vtable->set_range == NULL ||
        !ks_switchboard_find_shard(board, shard_id, &shard))
        return;
    words = ks_rows_words(&board->rows, ks_board_number(board, shard));
    if (words != NULL)
        fetch->source->vtable->set_range(fetch->reader, words->hash_start, words->hash_end);
}

ks_err ks_fetch_begin(struct ks_switchboard *board, ks_view shard_id, ks_view sequence,
                      int64_t sub_sequence, ks_fetched *fetched, void *arg,
                      struct ks_fetch **ret_fetch)
{
    struct ks_position from;
    char shard[KS_SHARD_ID_MAX + 1];
    struct ks_fetch *fetch;
    ks_err err;

    if (!board->described)
        return KS_FAIL(BUSY);
    KS_TRY(ks_view_copy_text(shard_id, shard, sizeof(shard)));
    fetch = ks_alloc(sizeof(*fetch));
    if (fetch == NULL)
        return KS_FAIL(NO_MEMORY);
    *fetch = (struct ks_fetch){
        .loop = board->config.loop,
        .source = board->config.beside != NULL ? board->config.beside : board->config.source,
        .sub_sequence = sub_sequence,
        .until = ks_instant_add(ks_loop_now(board->config.loop), ks_span_ms(KS_FETCH_MS)),
        .timer.due = due,
        .fetched = fetched,
        .arg = arg,
    };
    err = ks_view_copy_text(sequence, fetch->sequence, sizeof(fetch->sequence));
    if (ks_ok(err)) {
        from = place_of(fetch->sequence, sub_sequence);
        err = fetch->source->vtable->open(fetch->source, shard, &from, &board->budget,
                                          &fetch->reader);
    }
    if (!ks_ok(err)) {
        ks_free(fetch);
        return err;
    }
    set_range(board, fetch, shard_id);
    read_on(fetch);
    *ret_fetch = fetch;
    return KS_OK;
}

void ks_fetch_cancel(struct ks_fetch *fetch)
{
    if (fetch == NULL)
        return;
    ks_loop_timer_clear(fetch->loop, &fetch->timer);
    fetch->source->vtable->close_reader(fetch->reader);
    ks_batch_free(&fetch->batch);
    ks_free(fetch);
}
