/* SPDX-License-Identifier: Apache-2.0 */
#include "ports/cursor.h"

#include "ports/board.h"

struct ks_cursor {
    struct ks_stream_source *source;
    struct ks_reader *reader;
};

ks_err ks_cursor_open(struct ks_switchboard *board, ks_shard shard, const struct ks_position *from,
                      struct ks_cursor **ret_cursor)
{
    struct ks_stream_source *source =
        board->config.beside != NULL ? board->config.beside : board->config.source;
    const struct ks_shard_words *words = ks_rows_words(&board->rows, ks_board_number(board, shard));
    struct ks_cursor *cursor;
    ks_err err;

    if (words == NULL)
        return KS_FAIL(NOT_FOUND);
    if (!board->described)
        return KS_FAIL(BUSY);
    cursor = ks_alloc(sizeof *cursor);
    if (cursor == NULL)
        return KS_FAIL(NO_MEMORY);
    cursor->source = source;
    err = source->vtable->open(source, ks_switchboard_shard_id(board, shard), from, &board->budget,
                               &cursor->reader);
    if (!ks_ok(err)) {
        ks_free(cursor);
        return err;
    }
    if (source->vtable->set_range != NULL)
        source->vtable->set_range(cursor->reader, words->hash_start, words->hash_end);
    *ret_cursor = cursor;
    return KS_OK;
}

void ks_cursor_read(struct ks_cursor *cursor, uint32_t max_records, uint32_t max_bytes,
                    void (*answered)(void *arg, const struct ks_read_answer *answer), void *arg)
{
    cursor->source->vtable->read(cursor->reader, max_records, max_bytes, answered, arg);
}

void ks_cursor_close(struct ks_cursor *cursor)
{
    if (cursor == NULL)
        return;
    cursor->source->vtable->close_reader(cursor->reader);
    ks_free(cursor);
}
