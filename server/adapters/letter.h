/* SPDX-License-Identifier: Apache-2.0 */
/* letter.h - what the stores of dead letters share: whether a letter can have been a record, how long a claim lasts,
 * and lists of letters with the bytes that their views are of. Pure values, usable on any thread.
 */
#ifndef KS_ADAPTERS_LETTER_H
#define KS_ADAPTERS_LETTER_H

#include "ports/dead_letters.h"

/* Empties what no record can have had. Returns the name of the first of it; NULL: there is none. A record that is
 * delivered again goes to sockets without another look at its names: a letter that is damaged so is not redriven. */
const char *ks_letter_clean(struct ks_letter *letter);

enum { KS_LETTER_CLAIM_MS = 60000 }; /* How long a claim lasts that is not renewed. */

/* Removes a claim that is over at `now_ms`, which is by the clock of the store. */
void ks_letter_drop_claim(struct ks_letter *letter, int64_t now_ms);

/* True for a decimal number of at most `max` digits without leading zeros: each number has one spelling. */
bool ks_letter_is_number(ks_view text, size_t max);

/* Splits an id, "shard.sequence.sub", from its end: `ret_part` is what follows the last dot of `text`, and `text` ends
 * before that dot. False: there is no dot, and nothing is changed. */
bool ks_letter_cut_last(ks_view *text, ks_view *ret_part);

/* Letters are added one after the other; what their views are of is copied. Until ks_letter_list_settle() the copies
 * may move, and the views stay what they were when they were added. */
struct ks_letter_list {
    struct ks_letter *letters;
    uint32_t count;
    uint32_t most; /* Places in `letters`. */
    struct ks_bytes bytes;
};

/* Room for `most` letters (0: none) and `bytes_max` bytes of theirs. NO_MEMORY. */
KS_MUST_USE ks_err ks_letter_list_init(struct ks_letter_list *list, uint32_t most,
                                       size_t bytes_max);
void ks_letter_list_free(struct ks_letter_list *list);
/* Keeps its memory. */
void ks_letter_list_clear(struct ks_letter_list *list);
/* There is a place left. FULL, NO_MEMORY; then the letter is not in the list, and the list is only good to be cleared
 * or freed. */
KS_MUST_USE ks_err ks_letter_list_add(struct ks_letter_list *list, const struct ks_letter *letter);
/* Points the views of all letters at the copies, which stay where they are until the list is cleared: nothing is added
 * before that. */
void ks_letter_list_settle(struct ks_letter_list *list);

/* Calls `answered` at once: there was no memory to begin the request. */
void ks_letters_no_memory(enum ks_outcome outcome, ks_letters_answered *answered, void *arg);

#endif
