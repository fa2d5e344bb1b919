/* SPDX-License-Identifier: Apache-2.0 */
/* What no record can have is tested with the rows of SQLite: letter_row_test.c. */
#include "adapters/letter.h"

#include "base/budget.h"
#include "ks_test.h"

static struct ks_letter letter(ks_view data)
{
    return (struct ks_letter){.id = KS_VIEW("shardId-0.42.0"),
                              .shard_id = KS_VIEW("shardId-0"),
                              .sequence = KS_VIEW("42"),
                              .data = data,
                              .attempts = 3};
}

TEST(letters_outlive_what_they_were_added_from)
{
    struct ks_letter_list list;
    uint8_t data[100];

    EXPECT_OK(ks_letter_list_init(&list, 20, 10000));
    for (uint8_t number = 0; number < 20; number++) {
        struct ks_letter one;

        memset(data, number, sizeof data);
        one = letter(ks_view_of(data, number));
        EXPECT_OK(ks_letter_list_add(&list, &one));
    }
    memset(data, 0xFF, sizeof data);
    ks_letter_list_settle(&list);
    EXPECT_EQ_U64(list.count, 20);
    for (uint8_t number = 0; number < 20; number++) {
        EXPECT(ks_view_equal(list.letters[number].id, KS_VIEW("shardId-0.42.0")));
        EXPECT_EQ_U64(list.letters[number].data.size, number);
        EXPECT(number == 0 || list.letters[number].data.data[number - 1] == number);
        EXPECT_EQ_U64(list.letters[number].reason.size, 0);
        EXPECT_EQ_U64(list.letters[number].attempts, 3);
    }
    ks_letter_list_free(&list);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(what_does_not_fit_is_no_letter_of_the_list)
{
    struct ks_letter_list list;
    struct ks_letter one = letter(KS_VIEW("0123456789"));

    EXPECT_OK(ks_letter_list_init(&list, 2, 40));
    EXPECT_OK(ks_letter_list_add(&list, &one));
    EXPECT_ERR(ks_letter_list_add(&list, &one), FULL);
    EXPECT_EQ_U64(list.count, 1);
    ks_letter_list_clear(&list);
    EXPECT_OK(ks_letter_list_add(&list, &one));
    ks_letter_list_settle(&list);
    EXPECT(ks_view_equal(list.letters[0].data, KS_VIEW("0123456789")));
    ks_letter_list_free(&list);
}

TEST(a_claim_is_dropped_once_it_is_over)
{
    struct ks_letter one = letter(KS_VIEW(""));

    one.claim = KS_VIEW("w#1.0");
    one.claimed_until_ms = 1000;
    ks_letter_drop_claim(&one, 1000);
    EXPECT(ks_view_equal(one.claim, KS_VIEW("w#1.0")));
    EXPECT_EQ_I64(one.claimed_until_ms, 1000);
    ks_letter_drop_claim(&one, 1001);
    EXPECT_EQ_U64(one.claim.size, 0);
    EXPECT_EQ_I64(one.claimed_until_ms, 0);
}

TEST(a_list_of_no_letters_takes_no_memory)
{
    struct ks_letter_list list;

    EXPECT_OK(ks_letter_list_init(&list, 0, 100));
    EXPECT_EQ_I64(ks_alloc_live(), 0);
    ks_letter_list_settle(&list);
    ks_letter_list_free(&list);
}

TEST(a_number_has_one_spelling)
{
    EXPECT(ks_letter_is_number(KS_VIEW("0"), 3) && ks_letter_is_number(KS_VIEW("420"), 3));
    EXPECT(!ks_letter_is_number(KS_VIEW("4200"), 3) && !ks_letter_is_number(KS_VIEW(""), 3));
    EXPECT(!ks_letter_is_number(KS_VIEW("042"), 3) && !ks_letter_is_number(KS_VIEW("00"), 3));
    EXPECT(!ks_letter_is_number(KS_VIEW("4a"), 3) && !ks_letter_is_number(KS_VIEW("-4"), 3));
}

TEST(an_id_is_cut_at_its_last_dot)
{
    ks_view id = KS_VIEW("shard.42.7");
    ks_view part = KS_VIEW("");

    EXPECT(ks_letter_cut_last(&id, &part));
    EXPECT(ks_view_equal(id, KS_VIEW("shard.42")) && ks_view_equal(part, KS_VIEW("7")));
    EXPECT(ks_letter_cut_last(&id, &part) && !ks_letter_cut_last(&id, &part));
    EXPECT(ks_view_equal(id, KS_VIEW("shard")) && ks_view_equal(part, KS_VIEW("42")));
}
