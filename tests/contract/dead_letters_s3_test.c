/* SPDX-License-Identifier: Apache-2.0 */
/* What only a bucket has: objects of somebody else, pages of many keys and of many bytes. */
#include "contract/dead_letters_s3.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/budget.h"

#define KEY_7                                                                                      \
    LETTERS_S3_FOLDER "shardId-000000000000/"                                                      \
                      "00000000000000000000000000000000000000000000000000000007.0000000000.json"

static void begin(void)
{
    letters_of = &letters_s3;
    letters_begin();
}

static void end(void)
{
    letters_end();
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

/* ---- Objects ---- */

TEST(a_letter_is_an_object_that_people_can_read)
{
    begin();
    EXPECT_EQ_I64(letters_write_one("7", 4), KS_DONE);
    EXPECT_CONTAINS(letters_s3_get(KEY_7), "{\"id\":\"shardId-000000000000.7.0\",");
    EXPECT_CONTAINS(letters_s3_get(KEY_7), "\"data\":\"ZGRkZA==\"}\n");
    EXPECT_EQ_I64(letters_remove("7"), KS_DONE);
    EXPECT_STR(letters_s3_get(KEY_7), "");
    end();
}

TEST(objects_that_others_damaged_are_listed_found_broken_and_discarded)
{
    begin();
    EXPECT_EQ_I64(letters_write_one("7", 4), KS_DONE);
    EXPECT_EQ_I64(letters_write_one("8", 4), KS_DONE);
    letters_s3_put(KEY_7, "{\"id\":7}");
    letters_s3_put(LETTERS_S3_FOLDER "shardId-000000000000/README", "by hand");
    EXPECT_EQ_I64(letters_list("", 10), KS_DONE);
    EXPECT_EQ_U64(heard.count, 2);
    EXPECT_STR(heard.sequences[0], "7");
    EXPECT_STR(heard.reason, "damaged object: its JSON is not valid");
    EXPECT_EQ_I64(letters_find("7"), KS_UNKNOWN);
    EXPECT_EQ_I64(letters_amend("7", 3), KS_UNKNOWN);
    EXPECT_EQ_I64(letters_remove("7"), KS_DONE);
    EXPECT_EQ_I64(letters_list("", 10), KS_DONE);
    EXPECT_EQ_U64(heard.count, 1);
    end();
}

TEST(a_damaged_object_is_overwritten_by_its_letter)
{
    begin();
    letters_s3_put(KEY_7, "{\"id\":7}");
    EXPECT_EQ_I64(letters_write_one("7", 4), KS_DONE);
    EXPECT_EQ_I64(letters_find("7"), KS_DONE);
    EXPECT_EQ_U64(heard.data_size, 4);
    end();
}

TEST(when_it_was_given_up_first_is_remembered)
{
    struct ks_letter again = letters_make("7", 0);

    begin();
    EXPECT_EQ_I64(letters_write_one("7", 0), KS_DONE);
    again.attempts = 4;
    again.died_ms = 1795219900000;
    EXPECT_EQ_I64(letters_write(&again, 1), KS_DONE);
    EXPECT_EQ_I64(letters_find("7"), KS_DONE);
    EXPECT_EQ_I64(heard.first.died_ms, 1795219900000);
    EXPECT_EQ_I64(heard.first.first_died_ms, 1795219201000);
    /* A write that comes late takes nothing back. */
    EXPECT_EQ_I64(letters_write_one("7", 0), KS_DONE);
    EXPECT_EQ_I64(letters_find("7"), KS_DONE);
    EXPECT_EQ_U64(heard.first.attempts, 4);
    end();
}

/* ---- Lists ---- */

TEST(pages_end_at_their_bytes_and_no_letter_is_missed)
{
    static char sequences[8][8];
    const char *after = "";
    uint32_t seen = 0;

    begin();
    for (uint32_t i = 0; i < 8; i++) {
        (void)snprintf(sequences[i], sizeof sequences[i], "%u", 10 + i);
        EXPECT_EQ_I64(letters_write_one(sequences[i], LETTERS_MIB - 100), KS_DONE);
    }
    do {
        EXPECT_EQ_I64(letters_list(after, 1000), KS_DONE);
        EXPECT(heard.count > 0 && heard.count <= 2);
        EXPECT_EQ_U64(heard.data_size, LETTERS_MIB - 100);
        for (uint32_t i = 0; i < heard.count; i++)
            EXPECT_STR(heard.sequences[i], sequences[seen++]);
        after = letters_id(heard.sequences[heard.count - 1]);
    } while (heard.more);
    EXPECT_EQ_U64(seen, 8);
    end();
}

/* KS_LETTERS: so many on a page; from 1000 on more than S3 itself has on one. */
TEST(a_list_of_many_letters_has_a_full_page_and_the_rest)
{
    enum { BATCH = 64, MOST = KS_LETTERS_PAGE_MAX };
    static char sequences[MOST + 5][8];
    const char *const said = getenv("KS_LETTERS");
    const uint32_t most = said == NULL ? 100 : (uint32_t)atoi(said);
    struct ks_letter letters[BATCH];

    EXPECT(most > 0 && most <= MOST);
    begin();
    for (uint32_t at = 0; at < most + 5; at += BATCH) {
        const uint32_t count = most + 5 - at < BATCH ? most + 5 - at : BATCH;

        for (uint32_t i = 0; i < count; i++) {
            (void)snprintf(sequences[at + i], sizeof sequences[0], "%u", 1 + at + i);
            letters[i] = letters_make(sequences[at + i], 10);
        }
        EXPECT_EQ_I64(letters_write(letters, count), KS_DONE);
    }
    EXPECT_EQ_I64(letters_list("", most), KS_DONE);
    EXPECT_EQ_U64(heard.count, most);
    EXPECT(heard.more);
    EXPECT_EQ_I64(letters_list(letters_id(sequences[most - 1]), most), KS_DONE);
    EXPECT_EQ_U64(heard.count, 5);
    EXPECT(!heard.more);
    EXPECT_STR(heard.sequences[0], sequences[most]);
    end();
}
