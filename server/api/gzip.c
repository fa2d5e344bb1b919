/* SPDX-License-Identifier: Apache-2.0 */
#include "api/gzip.h"

#include <assert.h>
#include <limits.h>
#include <zlib.h>

#include "base/budget.h"

enum {
    GZIP_ONLY = MAX_WBITS + 16, /* The window of zlib.h, and no other header than gzip's. */
    MEMORY_LEVEL = 8,
    PIECE_BYTES = 16 << 10 /* Room that is made at once. */
};

static void *take(void *arg, unsigned count, unsigned size)
{
    (void)arg;
    return ks_alloc((size_t)count * size);
}

static void give(void *arg, void *memory)
{
    (void)arg;
    ks_free(memory);
}

static void begin(z_stream *stream, ks_view from)
{
    assert(from.size <= UINT_MAX);
    *stream = (z_stream){.zalloc = take, .zfree = give};
    /* zlib does not write there; its field is not const without ZLIB_CONST. */
    stream->next_in = (Bytef *)(uintptr_t)from.data;
    stream->avail_in = (uInt)from.size;
}

/* Room for the next piece, as far as the limit allows. */
static ks_err make_room(z_stream *stream, struct ks_bytes *to)
{
    size_t room = to->max - to->size < PIECE_BYTES ? to->max - to->size : PIECE_BYTES;

    if (room == 0)
        return KS_FAIL(FULL);
    KS_TRY(ks_bytes_reserve(to, room));
    stream->next_out = to->data + to->size;
    stream->avail_out = (uInt)room;
    return KS_OK;
}

static ks_err err_of(int code)
{
    return code == Z_MEM_ERROR ? KS_FAIL(NO_MEMORY) : KS_FAIL(MALFORMED);
}

/* Runs `turn` until it says that the end is there. */
static ks_err run(z_stream *stream, int (*turn)(z_stream *stream, int flush), struct ks_bytes *to)
{
    int code = Z_OK;

    while (code == Z_OK) {
        size_t room;

        KS_TRY(make_room(stream, to));
        room = stream->avail_out;
        code = turn(stream, Z_FINISH);
        to->size += room - stream->avail_out;
        /* Z_BUF_ERROR: it wants more room, or more input than there is. */
        if (code == Z_BUF_ERROR && stream->avail_out == 0)
            code = Z_OK;
    }
    return code == Z_STREAM_END ? KS_OK : err_of(code);
}

ks_err ks_gzip_unpack(ks_view from, struct ks_bytes *to)
{
    z_stream stream;
    ks_err err;
    int code;

    begin(&stream, from);
    code = inflateInit2(&stream, GZIP_ONLY);
    if (code != Z_OK)
        return err_of(code);
    err = run(&stream, inflate, to);
    if (ks_ok(err) && stream.avail_in > 0)
        err = KS_FAIL(MALFORMED);
    (void)inflateEnd(&stream);
    return err;
}

ks_err ks_gzip_pack(ks_view from, struct ks_bytes *to)
{
    z_stream stream;
    ks_err err;
    int code;

    begin(&stream, from);
    code = deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, GZIP_ONLY, MEMORY_LEVEL,
                        Z_DEFAULT_STRATEGY);
    if (code != Z_OK)
        return err_of(code);
    err = run(&stream, deflate, to);
    (void)deflateEnd(&stream);
    return err;
}
