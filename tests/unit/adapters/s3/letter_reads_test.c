/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/s3/letter_reads.h"

#include "s3_rig.h"

#include <string.h>

#define NEVER                                                                                      \
    {                                                                                              \
        .cut = true                                                                                \
    }
#define GONE                                                                                       \
    {                                                                                              \
        .status = 404, .body = S3_ERROR("NoSuchKey")                                               \
    }
#define ONE S3_CONTENTS(S3_KEY_1, "300")
#define TWO S3_CONTENTS(S3_KEY_2, "300")

TEST(a_list_has_as_many_letters_as_it_may)
{
    static const struct http_step steps[] = {{.body = S3_EMPTY},
                                             {.body = S3_LIST("false", ONE TWO)},
                                             {.body = S3_OBJECT("1", "05")},
                                             NEVER};

    s3_begin(steps, 4);
    EXPECT_EQ_I64(s3_list("", 1), KS_DONE);
    EXPECT_EQ_U64(s3_told.count, 1);
    EXPECT_STR(s3_told.ids[0], "s.1.0");
    EXPECT(s3_told.more);
    EXPECT_EQ_U64(http_script_count(s3_script), 3);
    s3_finish();
}

TEST(a_page_of_keys_that_is_cut_is_followed_by_the_next)
{
    static const struct http_step steps[] = {{.body = S3_EMPTY},
                                             {.body = S3_LIST("true", ONE)},
                                             {.body = S3_EMPTY},
                                             {.body = S3_OBJECT("1", "05")}};

    s3_begin(steps, 4);
    EXPECT_EQ_I64(s3_list("", 5), KS_DONE);
    EXPECT_EQ_U64(s3_told.count, 1);
    EXPECT(!s3_told.more);
    EXPECT_CONTAINS(http_script_request(s3_script, 2), "&start-after=p%2Fapp%2Fdemo%2Fs%2F0000");
    s3_finish();
}

TEST(a_list_ends_at_its_bytes)
{
    static const struct http_step steps[] = {
        {.body = S3_EMPTY},
        {.body =
             S3_LIST("false", S3_CONTENTS(S3_KEY_1, "2000000") S3_CONTENTS(S3_KEY_2, "2000000"))},
        {.body = S3_OBJECT("1", "05")},
        NEVER};

    s3_begin(steps, 4);
    EXPECT_EQ_I64(s3_list("", 5), KS_DONE);
    EXPECT_EQ_U64(s3_told.count, 1);
    EXPECT(s3_told.more);
    s3_finish();
}

TEST(a_list_without_its_removed_letters_goes_on)
{
    static const struct http_step steps[] = {{.body = S3_EMPTY},
                                             {.body = S3_LIST("false", ONE TWO)},
                                             GONE,
                                             {.body = S3_LIST("false", TWO)},
                                             {.body = S3_OBJECT("2", "05")}};

    s3_begin(steps, 5);
    EXPECT_EQ_I64(s3_list("", 1), KS_DONE);
    EXPECT_EQ_U64(s3_told.count, 1);
    EXPECT_STR(s3_told.ids[0], "s.2.0");
    EXPECT(!s3_told.more);
    s3_finish();
}

TEST(objects_that_are_no_letters_are_passed_over_and_damaged_ones_listed)
{
    static const struct http_step steps[] = {
        {.body = S3_EMPTY},
        {.body = S3_LIST("false", S3_CONTENTS(S3_FOLDER "README", "5")
                                      ONE S3_CONTENTS("p/app/demo/s/~x", "9"))},
        {.body = "{}"}};

    s3_begin(steps, 3);
    EXPECT_EQ_I64(s3_list("", 5), KS_DONE);
    EXPECT_EQ_U64(s3_told.count, 1);
    EXPECT_STR(s3_told.ids[0], "s.1.0");
    EXPECT_STR(s3_told.reasons[0], "damaged object: its JSON is not valid");
    s3_finish();
}

TEST(an_object_that_is_too_large_for_a_letter_is_not_read)
{
    static const struct http_step steps[] = {
        {.body = S3_EMPTY}, {.body = S3_LIST("false", S3_CONTENTS(S3_KEY_1, "5000000000"))}, NEVER};

    s3_begin(steps, 3);
    EXPECT_EQ_I64(s3_list("", 5), KS_DONE);
    EXPECT_EQ_U64(s3_told.count, 1);
    EXPECT_STR(s3_told.reasons[0], "damaged object: its size is not valid");
    EXPECT_EQ_U64(http_script_count(s3_script), 2);
    s3_finish();
}

TEST(an_object_that_grew_beyond_a_reason_is_damaged)
{
    static const struct http_step steps[] = {
        {.body = S3_EMPTY}, {.body = S3_LIST("false", ONE)}, {.filler = 100000}};

    s3_begin(steps, 3);
    EXPECT_EQ_I64(s3_list("", 5), KS_DONE);
    EXPECT_STR(s3_told.reasons[0], "damaged object: its size is not valid");
    s3_finish();
}

TEST(answers_that_are_no_list_are_unknown)
{
    static const char *const bodies[] = {
        "",
        "nonsense",
        "{\"Contents\":[]}",
        "<ListBucketResult><IsTruncated>true</IsTruncated>",
        S3_LIST("true", ""), /* It would have no end. */
        S3_LIST("false", TWO ONE),
        S3_LIST("false", ONE ONE),
        S3_LIST("false", "<Contents><Key>" S3_KEY_1 "</Key></Contents>"),
    };

    for (size_t at = 0; at < sizeof(bodies) / sizeof(bodies[0]); at++) {
        const struct http_step steps[] = {{.body = S3_EMPTY}, {.body = bodies[at]}, GONE};

        s3_begin(steps, 3);
        EXPECT_EQ_I64(s3_list("", 5), KS_UNKNOWN);
        EXPECT_CONTAINS(s3_told.detail.text, "the answer to ListObjectsV2 cannot be read");
        EXPECT_EQ_U64(s3_told.count, 0);
        s3_finish();
    }
}

TEST(a_list_that_cannot_be_read_to_its_end_is_unknown)
{
    static const struct http_step steps[] = {{.body = S3_EMPTY},
                                             {.body = S3_LIST("false", ONE)},
                                             {.status = 403, .body = S3_ERROR("AccessDenied")}};

    s3_begin(steps, 3);
    EXPECT_EQ_I64(s3_list("", 5), KS_UNKNOWN);
    EXPECT_CONTAINS(s3_told.detail.text, "allow s3:GetObject on bucket/p/*");
    s3_finish();
}

TEST(a_token_of_another_list_is_told)
{
    static const struct http_step steps[] = {{.body = S3_EMPTY}};

    s3_begin(steps, 1);
    EXPECT_EQ_I64(s3_list("../../x", 5), KS_UNKNOWN);
    EXPECT_CONTAINS(s3_told.detail.text, "page token");
    s3_finish();
}

TEST(a_letter_is_found_or_there_is_none)
{
    static const struct http_step steps[] = {{.body = S3_EMPTY},
                                             {.body = S3_OBJECT("1", "05")},
                                             GONE,
                                             {.body = "{}"},
                                             {.status = 404, .body = S3_ERROR("NoSuchBucket")}};

    s3_begin(steps, 5);
    EXPECT_EQ_I64(s3_find("s.1.0"), KS_DONE);
    EXPECT_EQ_U64(s3_told.count, 1);
    EXPECT_EQ_I64(s3_told.first.died_ms, 1795219205000);
    EXPECT(!s3_told.first.pointer);
    EXPECT_EQ_I64(s3_find("s.1.0"), KS_DONE);
    EXPECT_EQ_U64(s3_told.count, 0);
    EXPECT_EQ_I64(s3_find("s.1.0"), KS_UNKNOWN);
    EXPECT_CONTAINS(s3_told.detail.text, "is damaged");
    EXPECT_EQ_I64(s3_find("s.1.0"), KS_UNKNOWN);
    EXPECT_CONTAINS(s3_told.detail.text, "there is no bucket");
    s3_finish();
}
