/* SPDX-License-Identifier: Apache-2.0 */
/* slice.h - writes a slice of a stream into a file that the local source reads: its shards with their hash ranges and
 * parents, and records with the sequence numbers, partition keys and arrival times that they had.
 *
 * The file is written under another name, PATH.part-N, and gets its name when it is whole and on the disk. It is one
 * transaction; memory does not grow with it. Calls block on the disk.
 */
#ifndef KS_ADAPTERS_LOCAL_SLICE_H
#define KS_ADAPTERS_LOCAL_SLICE_H

#include <stdbool.h>
#include <stdint.h>

#include "ports/stream_source.h"

struct ks_local_slice;

/* Begins the slice of the stream `stream`, which was made at `created_ms` (Unix ms), with `count` shards (at most
 * KS_LOCAL_SHARDS_MAX); `path` is where it will be. With `force` a file that is there is replaced.
 * INVALID: a file is there, or its log (-wal) is, or the shards are not those of a stream; FULL: too many shards; DISK,
 * SYSTEM, NO_MEMORY. The detail says what to do. Allocates `ret_slice`. */
KS_MUST_USE ks_err ks_local_slice_new(const char *path, bool force, const char *stream,
                                      int64_t created_ms, const struct ks_shard_listing *shards,
                                      uint32_t count, struct ks_local_slice **ret_slice,
                                      struct ks_detail *detail);
/* Appends records to the shard `shards[shard]` of ks_local_slice_new(), in the order of the shard; they are copied.
 * Their sequence numbers rise. DISK, INVALID (a sequence number that does not rise), FULL (more than a shard holds). */
KS_MUST_USE ks_err ks_local_slice_add(struct ks_local_slice *slice, uint32_t shard,
                                      const struct ks_record *records, uint32_t count,
                                      struct ks_detail *detail);
/* Closes the shards that were closed in the stream, and gives the file its name. After a failure there is no slice.
 * DISK, SYSTEM; INVALID: a file of that name has appeared, and `force` was not given. */
KS_MUST_USE ks_err ks_local_slice_finish(struct ks_local_slice *slice, struct ks_detail *detail);
/* Removes the file unless it is finished. NULL is allowed. */
void ks_local_slice_free(struct ks_local_slice *slice);

#endif
