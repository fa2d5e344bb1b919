/* SPDX-License-Identifier: Apache-2.0 */
/* dead_letters_suite.h - what every store of dead letters must do, by name.
 *
 * dead_letters_test.c runs each of these against each adapter.
 */
#ifndef TESTS_CONTRACT_DEAD_LETTERS_SUITE_H
#define TESTS_CONTRACT_DEAD_LETTERS_SUITE_H

#include "contract/dead_letters_rig.h"

#define DEAD_LETTERS_SUITE(X)                                                                      \
    X(a_letter_is_found_as_it_was_written)                                                         \
    X(a_letter_of_an_aggregate_keeps_its_place)                                                    \
    X(a_letter_that_is_written_twice_is_one)                                                       \
    X(what_is_not_there_is_not_found)                                                              \
    X(what_was_given_up_again_says_so_and_keeps_the_rest)                                          \
    X(what_was_removed_does_not_come_back_by_being_given_up_again)                                 \
    X(two_stores_share_letters_and_one_of_them_removes_one)                                        \
    X(pages_end_at_their_count_and_no_letter_is_missed_or_told_twice)                              \
    X(a_list_has_the_letters_of_all_shards)                                                        \
    X(a_list_goes_on_behind_a_letter_that_was_removed)                                             \
    X(a_store_that_is_closed_answers_nobody)                                                       \
    X(what_was_done_before_a_kill_is_done_after_it)

/* Of those that several processes share. */
#define DEAD_LETTERS_CLAIMS(X)                                                                     \
    X(one_claim_at_a_time_is_on_a_letter_until_it_was_given_up_again)                              \
    X(a_letter_with_other_attempts_is_not_claimed)                                                 \
    X(a_letter_that_is_written_anew_has_no_claim)                                                  \
    X(a_claim_that_is_over_is_not_seen_and_gives_way)                                              \
    X(a_change_that_names_no_claim_is_made_under_any)

#define X(name) void letters_suite_##name(void);
DEAD_LETTERS_SUITE(X)
DEAD_LETTERS_CLAIMS(X)
#undef X

#endif
