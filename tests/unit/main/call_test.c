/* SPDX-License-Identifier: Apache-2.0 */
#include "main/call.h"

#include "ks_test.h"

static const struct ks_call_flag flags[] = {
    {"--follow", false}, {"--wait-ms", true}, {"--wait", true}, {NULL, false}};
static char *const nothing[] = {NULL};

static bool read_words(struct ks_call *call, uint32_t words_max, int argc, const char *const *words)
{
    char *argv[16] = {NULL};

    EXPECT(argc <= 16);
    for (int i = 0; i < argc; i++)
        argv[i] = (char *)(uintptr_t)words[i];
    return ks_call_read(argc, argv, nothing, flags, words_max, call);
}

TEST(flags_words_and_options_are_told_apart)
{
    const char *const words[] = {"pull",         "one",      "--wait",         "persisted", "two",
                                 "--wait-ms=50", "--listen", "127.0.0.1:1234", "--follow"};
    struct ks_call call;

    EXPECT(read_words(&call, 2, 9, words));
    EXPECT_STR(call.values[0], "");
    EXPECT_STR(call.values[1], "50");
    EXPECT_STR(call.values[2], "persisted");
    EXPECT_EQ_U64(call.word_count, 2);
    EXPECT_STR(call.words[0], "one");
    EXPECT_STR(call.words[1], "two");
    EXPECT_STR(call.options.listen, "127.0.0.1:1234");
}

TEST(what_was_not_given_is_null)
{
    const char *const words[] = {"pull"};
    struct ks_call call;

    EXPECT(read_words(&call, 0, 1, words));
    EXPECT(call.values[0] == NULL);
    EXPECT(call.values[1] == NULL);
    EXPECT_EQ_U64(call.word_count, 0);
}

TEST(wrong_words_are_refused)
{
    static const struct {
        const char *words[3];
        int count;
    } cases[] = {
        {{"pull", "word"}, 2},
        {{"pull", "--wait"}, 2},
        {{"pull", "--follow=yes"}, 2},
        {{"pull", "--follow", "--follow"}, 3},
        {{"pull", "--nonsense", "1"}, 3},
        {{"pull", "--listen", "nowhere"}, 3},
    };
    struct ks_call call;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        EXPECT(!read_words(&call, 0, cases[i].count, cases[i].words));
}

TEST(parts_are_kept)
{
    struct ks_bytes bytes;

    ks_bytes_init(&bytes, 4);
    EXPECT_OK(ks_call_keep(&bytes, KS_VIEW("abc")));
    EXPECT_ERR(ks_call_keep(&bytes, KS_VIEW("de")), FULL);
    EXPECT(ks_view_equal(ks_bytes_view(&bytes), KS_VIEW("abc")));
    ks_bytes_free(&bytes);
}
