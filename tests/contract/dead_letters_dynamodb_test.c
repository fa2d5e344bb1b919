/* SPDX-License-Identifier: Apache-2.0 */
/* What only a table has: pointers whose records are kept later, pages of a megabyte, items of somebody else. */
#include "contract/dead_letters_dynamodb.h"

#include <stdio.h>

#include "base/budget.h"

static void begin(void)
{
    letters_of = &letters_dynamodb;
    letters_begin();
}

static void end(void)
{
    letters_end();
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

/* ---- Pointers ---- */

TEST(a_pointer_expires_until_its_record_is_kept)
{
    struct ks_letter one = letters_make("7", 0);

    begin();
    one.expires_ms = 1795305600000;
    EXPECT_EQ_I64(letters_write(&one, 1), KS_DONE);
    EXPECT_EQ_I64(letters_find("7"), KS_DONE);
    EXPECT(heard.first.pointer);
    EXPECT_EQ_I64(heard.first.expires_ms, 1795305600000);
    EXPECT_EQ_I64(letters_keep("7", 5000), KS_DONE);
    letters_restart();
    EXPECT_EQ_I64(letters_find("7"), KS_DONE);
    EXPECT(!heard.first.pointer);
    EXPECT_EQ_I64(heard.first.expires_ms, 0);
    EXPECT_EQ_U64(heard.data_size, 5000);
    EXPECT_EQ_U64(heard.data_end, 'd');
    end();
}

TEST(the_record_of_no_letter_is_not_kept)
{
    begin();
    EXPECT_EQ_I64(letters_keep("7", 10), KS_REFUSED);
    EXPECT_EQ_I64(letters_find("7"), KS_DONE);
    EXPECT_EQ_U64(heard.count, 0);
    end();
}

TEST(a_record_that_is_too_large_to_keep_is_told_and_its_pointer_stays)
{
    begin();
    EXPECT_EQ_I64(letters_write_one("7", 0), KS_DONE);
    EXPECT_EQ_I64(letters_keep("7", KS_LETTER_DATA_MAX + 1), KS_UNKNOWN);
    EXPECT_CONTAINS(heard.detail, "too large");
    EXPECT_EQ_I64(letters_find("7"), KS_DONE);
    EXPECT(heard.first.pointer);
    EXPECT_EQ_I64(letters_keep("7", KS_LETTER_DATA_MAX), KS_DONE);
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

TEST(pages_of_kept_records_end_at_their_bytes)
{
    const char *after = "";
    char sequences[12][8];
    uint32_t seen = 0;

    begin();
    for (uint32_t i = 0; i < 12; i++) {
        (void)snprintf(sequences[i], sizeof sequences[i], "%u", 10 + i);
        EXPECT_EQ_I64(letters_write_one(sequences[i], 0), KS_DONE);
        EXPECT_EQ_I64(letters_keep(sequences[i], 300 << 10), KS_DONE);
    }
    do {
        EXPECT_EQ_I64(letters_list(after, 1000), KS_DONE);
        EXPECT(heard.count > 0 && heard.count < 12);
        for (uint32_t i = 0; i < heard.count; i++)
            EXPECT_STR(heard.sequences[i], sequences[seen++]);
        after = letters_id(heard.sequences[heard.count - 1]);
    } while (heard.more);
    EXPECT_EQ_U64(seen, 12);
    end();
}

/* Puts an item as somebody else would. */
static void put(const char *attributes)
{
    char request[1000];

    (void)snprintf(request, sizeof request, "{\"TableName\":\"%s\",\"Item\":{%s}}",
                   letters_dynamodb_table(), attributes);
    letters_dynamodb_raw("PutItem", request);
}

#define P "\"p\":{\"S\":\"letters#shardId-000000000000\"}"

TEST(items_of_somebody_else_are_passed_over_and_damaged_ones_named)
{
    begin();
    EXPECT_EQ_I64(letters_write_one("20", 0), KS_DONE);
    EXPECT_EQ_I64(letters_write_one("40", 0), KS_DONE);
    put(P ",\"k\":{\"S\":\"10\"}");
    put(P ",\"k\":{\"S\":\"30.0\"},\"stream\":{\"S\":\"demo\"},\"key\":{\"L\":[]}");
    EXPECT_EQ_I64(letters_list("", 10), KS_DONE);
    EXPECT_EQ_U64(heard.count, 3);
    EXPECT_STR(heard.sequences[1], "30");
    EXPECT_CONTAINS(heard.detail, "damaged");
    EXPECT_EQ_I64(letters_find("30"), KS_UNKNOWN);
    EXPECT_CONTAINS(heard.detail, "attribute key");
    EXPECT_CONTAINS(heard.detail, "discard");
    /* What was never written by us has no attempts. */
    EXPECT_EQ_I64(letters_remove("30"), KS_DONE);
    EXPECT_EQ_I64(letters_list("", 10), KS_DONE);
    EXPECT_EQ_U64(heard.count, 2);
    end();
}

TEST(a_list_ends_where_nothing_can_be_named)
{
    char key[400];

    begin();
    EXPECT_EQ_I64(letters_write_one("20", 0), KS_DONE);
    memset(key, '1', sizeof key);
    key[sizeof key - 1] = '\0';
    {
        char item[600];

        (void)snprintf(item, sizeof item, P ",\"k\":{\"S\":\"%s\"}", key);
        put(item);
    }
    EXPECT_EQ_I64(letters_list("", 10), KS_DONE);
    EXPECT(!heard.more);
    end();
}

TEST(a_token_that_is_none_is_told)
{
    begin();
    EXPECT_EQ_I64(letters_write_one("20", 0), KS_DONE);
    EXPECT_EQ_I64(letters_list("nonsense", 10), KS_UNKNOWN);
    EXPECT_CONTAINS(heard.detail, "page token");
    end();
}
