/* SPDX-License-Identifier: Apache-2.0 */
/* dead_letters.h - dead letters in a SQLite file of their own, for one machine.
 *
 *     dead_letter(application, id, stream, shard, sequence, sub, key, data, reason, arrival_ms, died_ms, attempts,
 *                 cause)
 *
 * What is DONE survives a power cut, and lies in the file that the path names then: one that was moved or removed is
 * opened anew. Several applications and processes of one machine may share a file. Work is done on a thread of its own.
 * A row that no record can have made (letter_row.h) is listed without what cannot be, if its id is one, with a line on
 * the log; it is not found.
 */
#ifndef KS_ADAPTERS_SQLITE_DEAD_LETTERS_H
#define KS_ADAPTERS_SQLITE_DEAD_LETTERS_H

#include "base/loop.h"
#include "ports/dead_letters.h"

enum {
    KS_LETTERS_APPLICATION_ID = 0x6B73646C, /* "ksdl" */
    KS_LETTERS_VERSION = 1                  /* Of the table's shape: user_version. */
};

/* Whose letters they are. */
struct ks_letters_key {
    const char *application; /* Under which they are written. */
    /* Under which those of `also_stream` may stand as well, for they were written when the application had more, or
     * fewer, subscriptions; NULL: none. */
    const char *also;
    const char *also_stream;
};

/* Opens the file, and makes it (not its directory) if it is not there; blocks for a moment. With a sentence in
 * `ret_detail`: FOREIGN (not a file of dead letters), SYSTEM (it cannot be opened), NO_MEMORY. */
KS_MUST_USE ks_err ks_sqlite_letters_open(struct ks_loop *loop, const char *path,
                                          const struct ks_letters_key *key,
                                          struct ks_dead_letters **ret,
                                          struct ks_detail *ret_detail);

#endif
