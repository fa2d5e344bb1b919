/* SPDX-License-Identifier: Apache-2.0 */
/* The contract of ports/dead_letters.h where requests are throttled, connections are cut, and answers are lost after
 * the server did what it was asked: the suite against each store on a server, through the fault proxy, from a fixed
 * seed. */
#include "contract/dead_letters_suite.h"
#include "contract/letters_faults.h"

enum { SEED = 1 };

static void run(const struct letters_adapter *adapter, void (*test)(void))
{
    letters_rig_run_under_faults(adapter, test, SEED);
    EXPECT(letters_faults_met() > 0 || letters_faults_calls() == 0);
}

#define X(name)                                                                                    \
    TEST(dynamodb_##name)                                                                          \
    {                                                                                              \
        run(&letters_dynamodb, letters_suite_##name);                                              \
    }
DEAD_LETTERS_SUITE(X)
DEAD_LETTERS_CLAIMS(X)
#undef X

#define X(name)                                                                                    \
    TEST(s3_##name)                                                                                \
    {                                                                                              \
        run(&letters_s3, letters_suite_##name);                                                    \
    }
DEAD_LETTERS_SUITE(X)
DEAD_LETTERS_CLAIMS(X)
#undef X

/* Whether it was this removal cannot be told any more; the letter is gone. */
static void remove_without_an_answer(const char *operation)
{
    (void)letters_faults_rest(true);
    EXPECT_EQ_I64(letters_write_one("7", 10), KS_DONE);
    letters_faults_lose(operation);
    EXPECT(letters_remove("7") != KS_DONE);
    EXPECT_EQ_I64(letters_find("7"), KS_DONE);
    EXPECT_EQ_I64(heard.count, 0);
    EXPECT_EQ_I64(letters_remove("7"), KS_REFUSED);
}

static void remove_item(void)
{
    remove_without_an_answer("DeleteItem");
}

TEST(dynamodb_a_removal_whose_answer_is_lost_is_done)
{
    letters_rig_run_under_faults(&letters_dynamodb, remove_item, SEED);
}

static void remove_object(void)
{
    remove_without_an_answer("DELETE");
}

TEST(s3_a_removal_whose_answer_is_lost_is_done)
{
    letters_rig_run_under_faults(&letters_s3, remove_object, SEED);
}
