/* SPDX-License-Identifier: Apache-2.0 */
/* file.h - a small file, read whole on the job thread.
 *
 * A file system may hang; the loop may not. Token files are read at every refresh, because they are
 * rotated.
 */
#ifndef KS_AWS_CREDENTIALS_FILE_H
#define KS_AWS_CREDENTIALS_FILE_H

#include "base/bytes.h"
#include "base/err.h"
#include "base/loop.h"

struct ks_file;

/* Begins to read `path`, at most `max` bytes; `done` is called once, in a later turn: KS_OK with
 * the content, NOT_FOUND (there is no such file), DENIED, FULL (it is longer), SYSTEM. The content
 * is valid during the call, then wiped. INVALID (an empty or overlong path), NO_MEMORY: then
 * nothing begins. */
KS_MUST_USE ks_err ks_file_read(struct ks_loop *loop, const char *path, size_t max,
                                void (*done)(void *arg, ks_err err, ks_view content), void *arg,
                                struct ks_file **ret_file);
/* Reads it here and now, into less than `capacity` bytes: for the start, and for the job thread. As
 * above, but FULL if it fills the buffer. */
KS_MUST_USE ks_err ks_file_read_now(const char *path, uint8_t *buffer, size_t capacity,
                                    size_t *ret_size);
/* `done` is not called. The memory goes when the read is over. */
void ks_file_forget(struct ks_file *file);

#endif
