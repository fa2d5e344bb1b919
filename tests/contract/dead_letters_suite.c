/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/dead_letters_suite.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- One letter ---- */

void letters_suite_a_letter_is_found_as_it_was_written(void)
{
    struct ks_letter letter =
        letters_make("49659999999999999999999999999999999999999999999999999999", 1000);

    letter.cause = KS_CAUSE_AGE;
    letter.attempts = 3;
    letter.partition_key = KS_VIEW("a key, \xc3\xa4 too");
    letter.expires_ms = 1795305600000;
    EXPECT_EQ_I64(letters_write(&letter, 1), KS_DONE);
    letters_restart();
    EXPECT_EQ_I64(letters_find("49659999999999999999999999999999999999999999999999999999"),
                  KS_DONE);
    EXPECT_EQ_I64(heard.count, 1);
    EXPECT_STR(heard.shard, "shardId-000000000000");
    EXPECT_STR(heard.key, "a key, \xc3\xa4 too");
    EXPECT_STR(heard.reason, "first");
    EXPECT_EQ_I64(heard.first.sub_sequence, -1);
    EXPECT_EQ_I64(heard.first.attempts, 3);
    EXPECT_EQ_I64(heard.first.cause, KS_CAUSE_AGE);
    EXPECT_EQ_I64(heard.first.arrival_ms, letter.arrival_ms);
    EXPECT_EQ_I64(heard.first.died_ms, letter.died_ms);
    EXPECT_EQ_I64(heard.first.pointer, letters_of->pointers);
    EXPECT_EQ_U64(heard.data_size, letters_of->pointers ? 0 : 1000);
}

void letters_suite_a_letter_of_an_aggregate_keeps_its_place(void)
{
    const struct ks_letter letters[] = {letters_make_of("shardId-000000000000", "7", 0),
                                        letters_make_of("shardId-000000000000", "7", 12)};

    EXPECT_EQ_I64(letters_write(letters, 2), KS_DONE);
    EXPECT_EQ_I64(letters_list("", 10), KS_DONE);
    EXPECT_EQ_I64(heard.count, 2);
    EXPECT_EQ_I64(heard.first.sub_sequence, 0);
    EXPECT_EQ_I64(letters_list("shardId-000000000000.7.0", 10), KS_DONE);
    EXPECT_EQ_I64(heard.count, 1);
    EXPECT_EQ_I64(heard.first.sub_sequence, 12);
}

void letters_suite_a_letter_that_is_written_twice_is_one(void)
{
    struct ks_letter again = letters_make("7", 10);

    again.reason = KS_VIEW("");
    EXPECT_EQ_I64(letters_write_one("7", 10), KS_DONE);
    EXPECT_EQ_I64(letters_write(&again, 1), KS_DONE);
    EXPECT_EQ_I64(letters_list("", 10), KS_DONE);
    EXPECT_EQ_I64(heard.count, 1);
    EXPECT_STR(heard.reason, "");
}

void letters_suite_what_is_not_there_is_not_found(void)
{
    static const char *const ids[] = {"",
                                      "x",
                                      "shardId-000000000000.7",
                                      "shardId-000000000000.7.x",
                                      "..",
                                      "shardId-000000000000.7.0.0.0"};

    EXPECT_EQ_I64(letters_find("7"), KS_DONE);
    EXPECT_EQ_I64(heard.count, 0);
    EXPECT_EQ_I64(letters_remove("7"), KS_REFUSED);
    EXPECT_EQ_I64(letters_amend("7", 2), KS_REFUSED);
    for (size_t at = 0; at < sizeof ids / sizeof ids[0]; at++) {
        EXPECT_EQ_I64(letters_find_id(ids[at]), KS_DONE);
        EXPECT_EQ_I64(heard.count, 0);
        EXPECT_EQ_I64(letters_remove_id(ids[at], ""), KS_REFUSED);
    }
}

/* ---- Letters that are delivered again ---- */

void letters_suite_what_was_given_up_again_says_so_and_keeps_the_rest(void)
{
    EXPECT_EQ_I64(letters_write_one("7", 1000), KS_DONE);
    EXPECT_EQ_I64(letters_amend("7", 7), KS_DONE);
    letters_restart();
    EXPECT_EQ_I64(letters_find("7"), KS_DONE);
    EXPECT_EQ_I64(heard.first.attempts, 7);
    EXPECT_STR(heard.reason, "second");
    EXPECT_STR(heard.key, "k");
    EXPECT_EQ_I64(heard.first.died_ms, 1795219205000);
    EXPECT_EQ_U64(heard.data_size, letters_of->pointers ? 0 : 1000);
}

void letters_suite_what_was_removed_does_not_come_back_by_being_given_up_again(void)
{
    EXPECT_EQ_I64(letters_write_one("7", 10), KS_DONE);
    EXPECT_EQ_I64(letters_remove("7"), KS_DONE);
    EXPECT_EQ_I64(letters_amend("7", 2), KS_REFUSED);
    EXPECT_EQ_I64(letters_remove("7"), KS_REFUSED);
    EXPECT_EQ_I64(letters_find("7"), KS_DONE);
    EXPECT_EQ_I64(heard.count, 0);
}

void letters_suite_two_stores_share_letters_and_one_of_them_removes_one(void)
{
    struct ks_dead_letters *const first = letters_store;

    EXPECT_EQ_I64(letters_write_one("7", 10), KS_DONE);
    EXPECT_OK(letters_of->open(&letters_store, &letters_why));
    EXPECT_EQ_I64(letters_remove("7"), KS_DONE);
    letters_store->vtable->close(letters_store);
    letters_store = first;
    EXPECT_EQ_I64(letters_amend("7", 2), KS_REFUSED);
    EXPECT_EQ_I64(letters_remove("7"), KS_REFUSED);
}

/* ---- Claims ---- */

static enum ks_outcome claim(const char *sequence, uint32_t attempts, const char *by)
{
    struct ks_letter letter = letters_make(sequence, 0);

    letter.attempts = attempts;
    letter.claim = ks_view_text(by);
    return letters_claim(&letter);
}

/* Given up again, for the second time, or removed, under a claim. */
static enum ks_outcome settle(const char *sequence, const char *by, bool removed)
{
    struct ks_letter letter = letters_make(sequence, 0);

    letter.attempts = 2;
    letter.claim = ks_view_text(by);
    return removed ? letters_remove_id(letters_id(sequence), by) : letters_amend_with(&letter);
}

void letters_suite_one_claim_at_a_time_is_on_a_letter_until_it_was_given_up_again(void)
{
    EXPECT_EQ_I64(claim("7", 1, "a#1.0"), KS_REFUSED);
    EXPECT_EQ_I64(letters_write_one("7", 10), KS_DONE);
    EXPECT_EQ_I64(claim("7", 1, "a#1.0"), KS_DONE);
    EXPECT_EQ_I64(claim("7", 1, "b#1.0"), KS_REFUSED);
    EXPECT_EQ_I64(claim("7", 1, "a#1.0"), KS_DONE);
    EXPECT_EQ_I64(letters_find("7"), KS_DONE);
    EXPECT_STR(heard.claim, "a#1.0");
    EXPECT(heard.first.claimed_until_ms > 0);
    EXPECT_EQ_I64(settle("7", "b#1.0", false), KS_REFUSED);
    EXPECT_EQ_I64(settle("7", "b#1.0", true), KS_REFUSED);
    EXPECT_EQ_I64(settle("7", "a#1.0", false), KS_DONE);
    EXPECT_EQ_I64(letters_find("7"), KS_DONE);
    EXPECT_STR(heard.claim, "");
    EXPECT_EQ_I64(heard.first.claimed_until_ms, 0);
    EXPECT_EQ_I64(settle("7", "a#1.0", true), KS_REFUSED);
    EXPECT_EQ_I64(claim("7", 2, "b#1.0"), KS_DONE);
    EXPECT_EQ_I64(settle("7", "b#1.0", true), KS_DONE);
    EXPECT_EQ_I64(letters_find("7"), KS_DONE);
    EXPECT_EQ_U64(heard.count, 0);
}

/* Another worker has redriven it since the caller read it. */
void letters_suite_a_letter_with_other_attempts_is_not_claimed(void)
{
    EXPECT_EQ_I64(letters_write_one("7", 10), KS_DONE);
    EXPECT_EQ_I64(letters_amend("7", 2), KS_DONE);
    EXPECT_EQ_I64(claim("7", 1, "a#1.0"), KS_REFUSED);
    EXPECT_EQ_I64(claim("7", 2, "a#1.0"), KS_DONE);
}

/* A removal of unknown outcome may arrive late. */
void letters_suite_a_letter_that_is_written_anew_has_no_claim(void)
{
    EXPECT_EQ_I64(letters_write_one("7", 10), KS_DONE);
    EXPECT_EQ_I64(claim("7", 1, "a#1.0"), KS_DONE);
    EXPECT_EQ_I64(letters_write_one("7", 10), KS_DONE);
    EXPECT_EQ_I64(settle("7", "a#1.0", true), KS_REFUSED);
    EXPECT_EQ_I64(letters_find("7"), KS_DONE);
    EXPECT_EQ_U64(heard.count, 1);
    EXPECT_STR(heard.claim, "");
}

void letters_suite_a_claim_that_is_over_is_not_seen_and_gives_way(void)
{
    EXPECT_EQ_I64(letters_write_one("7", 10), KS_DONE);
    EXPECT_EQ_I64(claim("7", 1, "a#1.0"), KS_DONE);
    letters_of->end_claim("7", "a#1.0");
    EXPECT_EQ_I64(letters_find("7"), KS_DONE);
    EXPECT_STR(heard.claim, "");
    EXPECT_EQ_I64(claim("7", 1, "b#1.0"), KS_DONE);
    EXPECT_EQ_I64(settle("7", "a#1.0", true), KS_REFUSED);
    EXPECT_EQ_I64(settle("7", "a#1.0", false), KS_REFUSED);
    EXPECT_EQ_I64(letters_find("7"), KS_DONE);
    EXPECT_STR(heard.claim, "b#1.0");
}

/* Of an operator who discards it, and of a process that knows of no claim. */
void letters_suite_a_change_that_names_no_claim_is_made_under_any(void)
{
    EXPECT_EQ_I64(letters_write_one("7", 10), KS_DONE);
    EXPECT_EQ_I64(claim("7", 1, "a#1.0"), KS_DONE);
    EXPECT_EQ_I64(letters_amend("7", 3), KS_DONE);
    EXPECT_EQ_I64(letters_find("7"), KS_DONE);
    EXPECT_STR(heard.claim, "");
    EXPECT_EQ_I64(claim("7", 3, "a#1.0"), KS_DONE);
    EXPECT_EQ_I64(letters_remove("7"), KS_DONE);
    EXPECT_EQ_I64(letters_find("7"), KS_DONE);
    EXPECT_EQ_U64(heard.count, 0);
}

/* ---- Lists ---- */

void letters_suite_pages_end_at_their_count_and_no_letter_is_missed_or_told_twice(void)
{
    static const uint32_t sizes[] = {1, 5, 20, 1000};
    struct ks_letter letters[20];
    char sequences[20][8];

    for (uint32_t i = 0; i < 20; i++) {
        (void)snprintf(sequences[i], sizeof sequences[i], "%u", 10 + i);
        letters[i] = letters_make(sequences[i], 100);
    }
    EXPECT_EQ_I64(letters_write(letters, 10), KS_DONE);
    EXPECT_EQ_I64(letters_write(letters + 10, 10), KS_DONE);
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        const char *after = "";
        uint32_t seen = 0;

        do {
            EXPECT_EQ_I64(letters_list(after, sizes[s]), KS_DONE);
            EXPECT(heard.count > 0 && heard.count <= sizes[s]);
            for (uint32_t i = 0; i < heard.count; i++)
                EXPECT_STR(heard.sequences[i], sequences[seen++]);
            after = letters_id(heard.sequences[heard.count - 1]);
        } while (heard.more);
        EXPECT_EQ_I64(seen, 20);
    }
}

void letters_suite_a_list_has_the_letters_of_all_shards(void)
{
    static const char *const shards[] = {"shardId-000000000001", "shardId-000000000004",
                                         "shardId-000000000009"};
    char after[KS_LETTER_ID_MAX + 1] = "";
    uint32_t seen = 0;

    for (int s = 2; s >= 0; s--) {
        const struct ks_letter letters[] = {letters_make_of(shards[s], "30", -1),
                                            letters_make_of(shards[s], "20", -1)};

        EXPECT_EQ_I64(letters_write(letters, 2), KS_DONE);
    }
    do {
        EXPECT_EQ_I64(letters_list(after, 1), KS_DONE);
        EXPECT_EQ_I64(heard.count, 1);
        EXPECT_STR(heard.shard, shards[seen / 2]);
        EXPECT_STR(heard.sequences[0], seen % 2 == 0 ? "20" : "30");
        (void)snprintf(after, sizeof after, "%s.%s.0", heard.shard, heard.sequences[0]);
        seen++;
    } while (heard.more && seen < 10);
    EXPECT_EQ_I64(seen, 6);
}

void letters_suite_a_list_goes_on_behind_a_letter_that_was_removed(void)
{
    EXPECT_EQ_I64(letters_write_one("20", 10), KS_DONE);
    EXPECT_EQ_I64(letters_write_one("30", 10), KS_DONE);
    EXPECT_EQ_I64(letters_remove("20"), KS_DONE);
    EXPECT_EQ_I64(letters_list(letters_id("20"), 10), KS_DONE);
    EXPECT_EQ_I64(heard.count, 1);
    EXPECT_STR(heard.sequences[0], "30");
    EXPECT_EQ_I64(letters_list(letters_id("30"), 10), KS_DONE);
    EXPECT_EQ_I64(heard.count, 0);
    EXPECT(!heard.more);
}

/* ---- What the world does ---- */

void letters_suite_a_store_that_is_closed_answers_nobody(void)
{
    const struct ks_letter letter = letters_make("7", 10);
    struct ks_dead_letters *const first = letters_store;
    struct ks_dead_letters *second = NULL;
    uint32_t before;

    EXPECT_OK(letters_of->open(&second, &letters_why));
    before = heard.calls;
    second->vtable->write(second, &letter, 1, letters_answered, NULL);
    second->vtable->list(second, KS_VIEW(""), 10, letters_answered, NULL);
    second->vtable->find(second, letter.id, letters_answered, NULL);
    second->vtable->close(second);
    for (int turn = 0; turn < 20; turn++)
        ks_loop_turn(letters_loop, ks_span_ms(5));
    EXPECT_EQ_I64(heard.calls, before);
    EXPECT(letters_store == first);
}

/* Writes, gives up again and removes letter after letter, and says each that is done. */
static void work_until_killed(int said_to)
{
    for (uint32_t i = 0;; i++) {
        char sequence[8];
        char said;

        (void)snprintf(sequence, sizeof sequence, "%u", 100000 + i % 900000);
        said = letters_write_one(sequence, 5000) == KS_DONE ? 'w' : 'x';
        if (write(said_to, &said, 1) != 1)
            _exit(1);
        if (i % 3 == 0)
            continue;
        said = (i % 3 == 1 ? letters_amend(sequence, 9) : letters_remove(sequence)) == KS_DONE
                   ? 'c'
                   : 'x';
        if (write(said_to, &said, 1) != 1)
            _exit(1);
    }
}

/* What stands in the store of the letters that were told, in order. */
static void check_letters(const char *said, size_t size)
{
    size_t at = 0;

    for (uint32_t i = 0; at < size; i++) {
        char sequence[8];
        bool changed;

        (void)snprintf(sequence, sizeof sequence, "%u", 100000 + i % 900000);
        EXPECT_EQ_I64(said[at++], 'w');
        EXPECT_EQ_I64(letters_find(sequence), KS_DONE);
        if (i % 3 == 0) {
            EXPECT_EQ_I64(heard.count, 1);
            continue;
        }
        changed = at < size && said[at++] == 'c';
        if (!changed)
            break; /* It may be either way. */
        if (i % 3 == 1)
            EXPECT_EQ_I64(heard.first.attempts, 9);
        EXPECT_EQ_I64(heard.count, i % 3 == 1 ? 1 : 0);
    }
}

/* The child opens a loop and a store of its own: nothing of its parent's is shared. */
static void start_worker(int said_to)
{
    letters_begin();
    work_until_killed(said_to);
}

void letters_suite_what_was_done_before_a_kill_is_done_after_it(void)
{
    static char said[1 << 16];
    size_t size = 0;
    ssize_t some;
    int ends[2];
    pid_t child;

    letters_end();
    EXPECT(pipe(ends) == 0);
    child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        (void)close(ends[0]);
        start_worker(ends[1]);
    }
    (void)close(ends[1]);
    while (size < 40) {
        some = read(ends[0], said + size, sizeof said - size);
        EXPECT(some > 0);
        size += (size_t)some;
    }
    EXPECT(kill(child, SIGKILL) == 0);
    EXPECT(waitpid(child, NULL, 0) == child);
    while ((some = read(ends[0], said + size, sizeof said - size)) > 0)
        size += (size_t)some;
    (void)close(ends[0]);
    letters_begin();
    check_letters(said, size);
}
