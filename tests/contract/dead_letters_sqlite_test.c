/* SPDX-License-Identifier: Apache-2.0 */
/* What only a file can do: pages of many bytes, full disks, damage. */
#include "contract/dead_letters_rig.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/budget.h"

static void begin(void)
{
    letters_of = &letters_sqlite;
    letters_begin();
}

/* ---- Lists ---- */

TEST(pages_end_at_their_bytes_and_no_letter_is_missed_or_told_twice)
{
    static const uint32_t sizes[] = {1, 5, 1000};
    struct ks_letter letters[20];
    char ids[20][8];

    begin();
    for (uint32_t i = 0; i < 20; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "%u", 10 + i);
        letters[i] = letters_make(ids[i], LETTERS_MIB - 100);
    }
    EXPECT_EQ_I64(letters_write(letters, 10), KS_DONE);
    EXPECT_EQ_I64(letters_write(letters + 10, 10), KS_DONE);
    for (uint32_t s = 0; s < 3; s++) {
        char after[8] = "";
        uint32_t seen = 0;

        do {
            EXPECT_EQ_I64(letters_list(after[0] == '\0' ? "" : letters_id(after), sizes[s]),
                          KS_DONE);
            EXPECT(heard.count > 0 && heard.count <= sizes[s]);
            EXPECT((uint64_t)heard.count * LETTERS_MIB <= KS_LETTERS_BYTES_MAX + LETTERS_MIB);
            for (uint32_t i = 0; i < heard.count; i++)
                EXPECT_STR(heard.sequences[i], ids[seen++]);
            (void)snprintf(after, sizeof after, "%s", heard.sequences[heard.count - 1]);
        } while (heard.more);
        EXPECT_EQ_I64(seen, 20);
    }
    letters_end();
}

TEST(a_letter_larger_than_a_page_is_a_page)
{
    static uint8_t large[KS_RECORD_BYTES_MAX];
    struct ks_letter letters[2] = {letters_make("10", 0), letters_make("11", 10)};

    begin();
    letters[0].data = ks_view_of(large, sizeof large);
    EXPECT_EQ_I64(letters_write(letters, 2), KS_DONE);
    EXPECT_EQ_I64(letters_list("", 10), KS_DONE);
    EXPECT_EQ_I64(heard.count, 1);
    EXPECT(heard.more);
    EXPECT_EQ_U64(heard.data_size, sizeof large);
    EXPECT_EQ_I64(letters_list(letters_id("10"), 10), KS_DONE);
    EXPECT_EQ_I64(heard.count, 1);
    EXPECT(!heard.more);
    letters_end();
}

/* ---- What the world does ---- */

/* No file of this process grows beyond so many bytes: as on a full disk. */
static void fill_disk(rlim_t bytes)
{
    struct rlimit limit;

    (void)signal(SIGXFSZ, SIG_IGN);
    EXPECT(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = bytes;
    EXPECT(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

TEST(a_full_disk_refuses_all_of_a_write_and_loses_nothing_that_was_done)
{
    struct ks_letter letters[8];
    char ids[8][8];

    begin();
    EXPECT_EQ_I64(letters_write_one("99", 1000), KS_DONE);
    for (uint32_t i = 0; i < 8; i++) {
        (void)snprintf(ids[i], sizeof ids[i], "6%u", i);
        letters[i] = letters_make(ids[i], LETTERS_MIB);
    }
    fill_disk(2 * LETTERS_MIB);
    EXPECT(letters_write(letters, 8) != KS_DONE);
    EXPECT_CONTAINS(heard.detail, "letters.db");
    EXPECT_EQ_I64(letters_list("", 20), KS_DONE);
    EXPECT_EQ_I64(heard.count, 1);
    fill_disk(RLIM_INFINITY);
    EXPECT_EQ_I64(letters_write(letters, 8), KS_DONE);
    letters_restart();
    EXPECT_EQ_I64(letters_list("", 5), KS_DONE);
    EXPECT_STR(heard.sequences[0], "60");
    EXPECT_EQ_I64(letters_find("99"), KS_DONE);
    EXPECT_EQ_I64(heard.count, 1);
    letters_end();
}

TEST(a_disk_that_is_full_to_the_last_byte_keeps_a_letter_that_is_to_be_removed_or_given_up_again)
{
    begin();
    EXPECT_EQ_I64(letters_write_one("10", 1000), KS_DONE);
    fill_disk(1);
    EXPECT_EQ_I64(letters_remove("10"), KS_UNKNOWN);
    EXPECT_EQ_I64(letters_amend("10", 5), KS_UNKNOWN);
    fill_disk(RLIM_INFINITY);
    EXPECT_EQ_I64(letters_find("10"), KS_DONE);
    EXPECT_EQ_I64(heard.count, 1);
    EXPECT_EQ_I64(heard.first.attempts, 1);
    EXPECT_EQ_I64(letters_remove("10"), KS_DONE);
    letters_end();
}

/* Everything behind the first pages becomes nonsense. */
static void damage(void)
{
    uint8_t nonsense[4096];
    struct stat about;
    int file = open(ks_test_path("letters.db"), O_RDWR);

    EXPECT(file >= 0 && fstat(file, &about) == 0);
    memset(nonsense, 0xa5, sizeof nonsense);
    for (off_t at = 4096; at < about.st_size; at += 4096)
        EXPECT(pwrite(file, nonsense, sizeof nonsense, at) == 4096);
    EXPECT(close(file) == 0);
}

TEST(a_damaged_file_is_told_and_no_letter_is_made_up)
{
    begin();
    for (uint32_t i = 0; i < 20; i++) {
        char id[8];

        (void)snprintf(id, sizeof id, "%u", 10 + i);
        EXPECT_EQ_I64(letters_write_one(id, 3000), KS_DONE);
    }
    letters_end();
    damage();
    EXPECT_OK(ks_loop_new(&letters_loop));
    if (!ks_ok(letters_of->open(&letters_store, &letters_why))) {
        EXPECT(letters_why.text[0] != '\0');
        ks_loop_free(letters_loop);
        return;
    }
    EXPECT_EQ_I64(letters_list("", 20), KS_UNKNOWN);
    EXPECT_CONTAINS(heard.detail, "malformed");
    EXPECT_EQ_I64(heard.count, 0);
    EXPECT_EQ_I64(letters_find("13"), KS_UNKNOWN);
    EXPECT(letters_write_one("99", 10) != KS_DONE);
    EXPECT(letters_remove("13") != KS_DONE);
    letters_end();
}

TEST(every_allocation_of_a_letter_that_fails_is_an_answer_and_leaves_it_as_it_was)
{
    begin();
    EXPECT_EQ_I64(letters_write_one("10", 1000), KS_DONE);
    for (uint64_t n = 1; n < 12; n++) {
        enum ks_outcome amended;
        uint32_t before = heard.calls;
        struct ks_letter said = letters_make("10", 0);

        said.attempts = 100 + (uint32_t)n;
        ks_alloc_fail_after(n, 0);
        letters_store->vtable->amend(letters_store, &said, letters_answered, NULL);
        if (heard.calls == before)
            letters_await(before);
        ks_alloc_fail_after(0, 0);
        amended = heard.outcome;
        EXPECT(amended == KS_DONE || amended == KS_UNKNOWN);
        EXPECT_EQ_I64(letters_find("10"), KS_DONE);
        EXPECT_EQ_I64(heard.count, 1);
        EXPECT_EQ_U64(heard.data_size, 1000);
        if (amended == KS_DONE)
            EXPECT_EQ_I64(heard.first.attempts, said.attempts);
    }
    letters_end();
}
