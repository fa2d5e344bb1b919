/* SPDX-License-Identifier: Apache-2.0 */
/* stream.h - the local stream as a source: a durable stream in a SQLite file, with Kinesis' manners.
 *
 * All that blocks runs on a thread of its own, one job at a time: what waits - puts, lists, readers -
 * goes together into the next one. So puts that come while a commit is under way share the next commit,
 * and a reader that waits at the tip is looked after right behind a put of this process. Records that
 * another process put are noticed within KS_LOCAL_POLL_MS: SQLite's data_version is compared, nothing
 * else is read.
 * At the tip a read is answered when records come; without any, once at once and then after
 * KS_LOCAL_HOLD_MS with an empty batch.
 * A captured slice (slice.h) is read as any stream; a put into it is INVALID.
 * With a speed the stream is played (play.h): a record is there when its time has come, and a read is answered then.
 * Loop thread only, as all ports.
 */
#ifndef KS_ADAPTERS_LOCAL_STREAM_H
#define KS_ADAPTERS_LOCAL_STREAM_H

#include <stdint.h>

#include "base/loop.h"
#include "ports/stream_source.h"

enum {
    KS_LOCAL_POLL_MS = 25,        /* Between two looks for other processes' commits. */
    KS_LOCAL_HOLD_MS = 1000,      /* A read at the tip waits this long for records. */
    KS_LOCAL_TRIM_MS = 60000,     /* Between two rounds of trimming. */
    KS_LOCAL_TRIM_MORE_MS = 100,  /* Between two steps of one round. */
    KS_LOCAL_TRIM_RECORDS = 1000, /* Removed by one step: a few ms. */
    KS_LOCAL_PUT_QUEUE_BYTES_MAX = 64
                                   << 20 /* Data and keys that wait for a commit; beyond: FULL. */
};

struct ks_local_options {
    uint32_t shards; /* Of a stream that is made, 1 .. KS_LOCAL_SHARDS_MAX. */
    uint32_t speed;  /* At most KS_LOCAL_SPEED_MAX; 0: records are there at once. */
};

/* Opens `stream` in the file `path`, and makes what is not there, with options->shards equal shards. Another
 * number than the existing stream has is a warning in the log. Blocks for the time of a few disk writes, or
 * up to KS_LOCAL_BUSY_MS for another process: for the start, before the loop turns.
 * Errors as ks_local_db_open (adapters/local/db.h); the detail is a sentence for people.
 * A source that is closed while its job runs is freed in a later turn of the loop; what was asked of it is
 * not answered any more. */
KS_MUST_USE ks_err ks_local_source_open_with(struct ks_loop *loop, const char *path,
                                             const char *stream,
                                             const struct ks_local_options *options,
                                             struct ks_stream_source **ret_source,
                                             struct ks_detail *detail);
/* The same at full speed. */
KS_MUST_USE static inline ks_err ks_local_source_open(struct ks_loop *loop, const char *path,
                                                      const char *stream, uint32_t shards,
                                                      struct ks_stream_source **ret_source,
                                                      struct ks_detail *detail)
{
    const struct ks_local_options options = {.shards = shards};

    return ks_local_source_open_with(loop, path, stream, &options, ret_source, detail);
}

#endif
