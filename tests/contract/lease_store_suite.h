/* SPDX-License-Identifier: Apache-2.0 */
/* lease_store_suite.h - what every lease store must do, by name.
 *
 * lease_store_test.c runs each of these against each adapter.
 */
#ifndef TESTS_CONTRACT_LEASE_STORE_SUITE_H
#define TESTS_CONTRACT_LEASE_STORE_SUITE_H

#include "contract/lease_store_rig.h"

#define LEASE_STORE_SUITE(X)                                                                       \
    /* lease_store_workers.c: the writes of PROTOCOL A3. */                                        \
    X(a_new_worker_registers_once)                                                                 \
    X(a_worker_registers_over_a_dead_one_only_if_it_is_dead)                                       \
    X(a_worker_registers_over_a_silent_one_as_watched)                                             \
    X(a_worker_registers_over_its_own_corpse)                                                      \
    X(a_registration_begins_the_row_anew)                                                          \
    X(a_heartbeat_counts_and_tells_the_row)                                                        \
    X(a_heartbeat_of_the_fenced_or_gone_is_refused)                                                \
    X(a_fence_needs_the_beat_as_watched)                                                           \
    X(only_the_living_say_gone)                                                                    \
    X(hints_add_and_heartbeats_take_away)                                                          \
    X(hints_carry_many_tokens)                                                                     \
    X(hints_to_another_boot_are_refused)                                                           \
    X(only_the_dead_are_removed)                                                                   \
    X(the_office_is_claimed_by_one)                                                                \
    X(the_office_is_taken_from_the_dead_and_resigned)                                              \
    X(the_leader_names_its_deputies)                                                               \
    X(deputies_outlast_the_leader_that_named_them)                                                 \
    X(the_news_are_three_rows)                                                                     \
    X(the_app_row_is_made_once)                                                                    \
    /* lease_store_leases.c: the writes of PROTOCOL A5. */                                         \
    X(a_lease_is_made_once)                                                                        \
    X(only_a_free_lease_is_assigned)                                                               \
    X(a_take_over_needs_owner_and_epoch)                                                           \
    X(a_plan_names_and_forgets_the_next_owner)                                                     \
    X(a_forced_lease_changes_hands)                                                                \
    X(a_checkpoint_needs_owner_epoch_and_rev)                                                      \
    X(a_final_write_hands_over)                                                                    \
    X(a_final_write_needs_next_owner_as_read)                                                      \
    X(a_final_write_may_leave_the_checkpoint)                                                      \
    X(the_load_of_a_lease_is_what_its_owner_wrote_last)                                            \
    X(the_end_of_a_shard_is_final)                                                                 \
    X(a_seek_moves_the_checkpoint_and_the_epoch)                                                   \
    X(a_mended_row_says_what_a_person_wants)                                                       \
    X(only_a_finished_lease_is_deleted)                                                            \
    X(every_position_survives)                                                                     \
    X(a_checkpoint_forgets_the_numbers_of_the_last_one)                                            \
    /* lease_store_promises.c: the promises of ports/lease_store.h. */                             \
    X(an_empty_table_answers_nothing)                                                              \
    X(no_other_write_makes_a_row)                                                                  \
    X(what_cannot_be_written_is_unknown_and_not_written)                                           \
    X(attributes_that_we_do_not_know_survive)                                                      \
    X(a_damaged_lease_is_told_and_left_alone)                                                      \
    X(a_damaged_worker_is_told_and_left_alone)                                                     \
    X(a_damaged_leader_row_fails_the_read)                                                         \
    X(a_damaged_app_row_fails_the_read)                                                            \
    X(damage_is_news_like_any)                                                                     \
    X(rows_of_later_versions_are_no_workers)                                                       \
    X(a_read_answers_all_pages)                                                                    \
    X(many_requests_are_in_flight)                                                                 \
    X(a_request_is_unknown_after_its_timeout)                                                      \
    X(a_late_write_and_its_repetition_are_applied_once)                                            \
    X(close_answers_what_is_open)                                                                  \
    X(two_stores_race_and_one_wins)                                                                \
    X(a_store_sees_the_writes_of_another)

#define X(name) void lease_suite_##name(struct lease_rig *rig);
LEASE_STORE_SUITE(X)
#undef X

#endif
