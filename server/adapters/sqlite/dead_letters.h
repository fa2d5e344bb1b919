/* SPDX-License-Identifier: Apache-2.0 */
/* dead_letters.h - dead letters in a SQLite file of their own, for one machine.
 *
 *     dead_letter(application, id, stream, shard, sequence, sub, key, data, reason, arrival_ms, died_ms, attempts,
 *                 cause)
 *
 * WAL with synchronous=FULL: what is DONE survives a power cut. Several applications and processes of one machine may
 * share a file. Work is done on the loop's job thread. A row whose names make no sense (too long, empty, no UTF-8) is
 * passed over; a number that makes none becomes the nearest that does.
 */
#ifndef KS_ADAPTERS_SQLITE_DEAD_LETTERS_H
#define KS_ADAPTERS_SQLITE_DEAD_LETTERS_H

#include "base/loop.h"
#include "ports/dead_letters.h"

enum {
    KS_LETTERS_APPLICATION_ID = 0x6B73646C, /* "ksdl" */
    KS_LETTERS_VERSION = 1                  /* Of the table's shape: user_version. */
};

/* Opens the file, and makes it (not its directory) if it is not there; blocks for a moment. With a sentence in
 * `ret_detail`: FOREIGN (not a file of dead letters), SYSTEM (it cannot be opened), NO_MEMORY. */
KS_MUST_USE ks_err ks_sqlite_letters_open(struct ks_loop *loop, const char *path,
                                          const char *application, struct ks_dead_letters **ret,
                                          struct ks_detail *ret_detail);

#endif
