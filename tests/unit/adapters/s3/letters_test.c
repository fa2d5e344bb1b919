/* SPDX-License-Identifier: Apache-2.0 */
/* Failures that no emulator gives, and races; what works is in tests/contract. The first step is the
 * look at the start. */
#include "adapters/s3/letters.h"

#include "base/budget.h"

#include "s3_rig.h"

#include <string.h>

#define CHANGED                                                                                    \
    {                                                                                              \
        .status = 412, .body = S3_ERROR("PreconditionFailed")                                      \
    }
#define GONE                                                                                       \
    {                                                                                              \
        .status = 404, .body = S3_ERROR("NoSuchKey")                                               \
    }

static const char *seen(size_t index)
{
    EXPECT(index < http_script_count(s3_script));
    return http_script_request(s3_script, index);
}

/* ---- Writes ---- */

TEST(a_letter_that_is_there_becomes_the_new_one_and_keeps_its_first_instant)
{
    static const struct http_step steps[] = {{.body = S3_EMPTY},
                                             CHANGED,
                                             {.headers = S3_ETAG, .body = S3_OBJECT("1", "05")},
                                             {.status = 200}};

    s3_begin(steps, 4);
    EXPECT_EQ_I64(s3_write("s.1.0", 7), KS_DONE);
    EXPECT_EQ_U64(http_script_count(s3_script), 4);
    EXPECT_CONTAINS(seen(3), "PUT ");
    EXPECT_CONTAINS(seen(3), "If-Match: \"e\"\r\n");
    EXPECT(strstr(seen(3), "If-None-Match") == NULL);
    EXPECT_CONTAINS(seen(3), "\"first_died_at\":\"2026-11-20T00:00:00.000Z\"");
    EXPECT_CONTAINS(seen(3), "\"died_at\":\"2026-11-21T00:00:07.000Z\"");
    EXPECT_CONTAINS(seen(3), "\"reason\":\"new\"");
    s3_finish();
}

TEST(a_letter_that_was_given_up_later_is_not_overwritten)
{
    static const struct http_step steps[] = {
        {.body = S3_EMPTY}, CHANGED, {.headers = S3_ETAG, .body = S3_OBJECT("1", "09")}};

    s3_begin(steps, 3);
    EXPECT_EQ_I64(s3_write("s.1.0", 7), KS_DONE);
    EXPECT_EQ_U64(http_script_count(s3_script), 3);
    s3_finish();
}

TEST(a_letter_that_is_removed_while_it_is_replaced_is_written_anew)
{
    static const struct http_step steps[] = {{.body = S3_EMPTY}, CHANGED, GONE, {.status = 200}};

    s3_begin(steps, 4);
    EXPECT_EQ_I64(s3_write("s.1.0", 7), KS_DONE);
    EXPECT_CONTAINS(seen(3), "If-None-Match: *\r\n");
    EXPECT_CONTAINS(seen(3), "\"first_died_at\":\"2026-11-21T00:00:07.000Z\"");
    s3_finish();
}

TEST(a_damaged_object_is_overwritten)
{
    static const struct http_step steps[] = {
        {.body = S3_EMPTY}, CHANGED, {.headers = S3_ETAG, .body = "nonsense"}, {.status = 200}};

    s3_begin(steps, 4);
    EXPECT_EQ_I64(s3_write("s.1.0", 7), KS_DONE);
    EXPECT_CONTAINS(seen(3), "If-Match: \"e\"\r\n");
    s3_finish();
}

TEST(an_object_without_an_etag_is_not_overwritten)
{
    static const struct http_step steps[] = {
        {.body = S3_EMPTY}, CHANGED, {.body = S3_OBJECT("1", "05")}};

    s3_begin(steps, 3);
    EXPECT_EQ_I64(s3_write("s.1.0", 7), KS_UNKNOWN);
    EXPECT_CONTAINS(s3_told.detail.text, "without an ETag");
    EXPECT_EQ_U64(http_script_count(s3_script), 3);
    s3_finish();
}

TEST(others_that_are_always_ahead_end_a_write)
{
    static const struct http_step steps[] = {{.body = S3_EMPTY},
                                             CHANGED,
                                             {.headers = S3_ETAG, .body = S3_OBJECT("1", "05")},
                                             CHANGED,
                                             GONE,
                                             CHANGED,
                                             GONE,
                                             CHANGED,
                                             GONE,
                                             CHANGED,
                                             GONE,
                                             CHANGED,
                                             GONE,
                                             CHANGED,
                                             GONE,
                                             CHANGED,
                                             GONE,
                                             CHANGED};

    s3_begin(steps, sizeof(steps) / sizeof(steps[0]));
    EXPECT_EQ_I64(s3_write("s.1.0", 7), KS_UNKNOWN);
    EXPECT_CONTAINS(s3_told.detail.text, "others change the letter");
    s3_finish();
}

TEST(a_write_that_is_denied_is_refused_and_names_the_action)
{
    static const struct http_step steps[] = {{.body = S3_EMPTY},
                                             {.status = 403, .body = S3_ERROR("AccessDenied")}};

    s3_begin(steps, 2);
    EXPECT_EQ_I64(s3_write("s.1.0", 7), KS_REFUSED);
    EXPECT_CONTAINS(s3_told.detail.text, "allow s3:PutObject on bucket/p/*");
    s3_finish();
}

TEST(a_write_without_an_answer_is_unknown)
{
    static const struct http_step steps[] = {{.body = S3_EMPTY}, {.cut = true}};

    s3_begin(steps, 2);
    EXPECT_EQ_I64(s3_write("s.1.0", 7), KS_UNKNOWN);
    EXPECT(s3_told.detail.text[0] != '\0');
    s3_finish();
}

TEST(a_write_whose_answer_was_lost_is_found_done)
{
    static const struct http_step steps[] = {{.body = S3_EMPTY},
                                             {.cut = true},
                                             CHANGED,
                                             {.headers = S3_ETAG, .body = S3_OBJECT("1", "07")},
                                             {.status = 200}};

    s3_begin_with(steps, 5, 3);
    EXPECT_EQ_I64(s3_write("s.1.0", 7), KS_DONE);
    s3_finish();
}

TEST(a_bucket_that_asks_for_less_is_asked_again_later)
{
    static const struct http_step steps[] = {
        {.body = S3_EMPTY}, {.status = 503, .body = S3_ERROR("SlowDown")}, {.status = 200}};

    s3_begin_with(steps, 3, 3);
    EXPECT_EQ_I64(s3_write("s.1.0", 7), KS_DONE);
    EXPECT_EQ_U64(http_script_count(s3_script), 3);
    s3_finish();
}

TEST(of_letters_of_which_one_failed_all_are_unknown)
{
    static const struct http_step steps[] = {
        {.body = S3_EMPTY}, {.status = 200}, {.status = 403, .body = S3_ERROR("AccessDenied")}};
    const struct ks_letter letters[] = {s3_letter("s.1.0", 7), s3_letter("s.2.0", 7)};

    s3_begin(steps, 3);
    s3_store->vtable->write(s3_store, letters, 2, s3_answered, NULL);
    s3_await(1);
    EXPECT_EQ_I64(s3_told.outcome, KS_UNKNOWN);
    EXPECT_CONTAINS(s3_told.detail.text, "s3:PutObject");
    s3_finish();
}

TEST(more_letters_than_requests_at_one_time_are_all_written)
{
    enum { COUNT = 40 };
    static const struct http_step steps[] = {{.body = S3_EMPTY}, {.status = 200}};
    struct ks_letter letters[COUNT];
    static char ids[COUNT][16];

    s3_begin(steps, 2);
    for (int at = 0; at < COUNT; at++) {
        (void)snprintf(ids[at], sizeof ids[at], "s.1%d.0", at);
        letters[at] = s3_letter(ids[at], 7);
    }
    s3_store->vtable->write(s3_store, letters, COUNT, s3_answered, NULL);
    s3_await(1);
    EXPECT_EQ_I64(s3_told.outcome, KS_DONE);
    EXPECT_EQ_U64(http_script_count(s3_script), 1 + COUNT);
    EXPECT(http_script_connections(s3_script) <= 17);
    s3_finish();
}

TEST(an_id_that_no_key_can_have_is_refused)
{
    static const struct http_step steps[] = {{.body = S3_EMPTY}};

    s3_begin(steps, 1);
    EXPECT_EQ_I64(s3_write("../1.0", 7), KS_REFUSED);
    EXPECT_EQ_U64(http_script_count(s3_script), 1);
    s3_finish();
}

/* ---- Letters that are given up again ---- */

TEST(an_amend_changes_only_what_it_says)
{
    static const struct http_step steps[] = {
        {.body = S3_EMPTY}, {.headers = S3_ETAG, .body = S3_OBJECT("1", "05")}, {.status = 200}};

    s3_begin(steps, 3);
    EXPECT_EQ_I64(s3_amend("s.1.0", ""), KS_DONE);
    EXPECT_CONTAINS(seen(2), "If-Match: \"e\"\r\n");
    EXPECT_CONTAINS(seen(2), "\"first_died_at\":\"2026-11-20T00:00:00.000Z\"");
    EXPECT_CONTAINS(seen(2), "\"died_at\":\"2026-11-21T00:00:59.000Z\"");
    EXPECT_CONTAINS(seen(2), "\"attempts\":2");
    EXPECT_CONTAINS(seen(2), "\"reason\":\"new\"");
    EXPECT_CONTAINS(seen(2), "\"data\":\"ZGF0YQ==\"}");
    s3_finish();
}

TEST(a_letter_that_is_removed_while_it_is_amended_does_not_come_back)
{
    static const struct http_step steps[][4] = {
        {{.body = S3_EMPTY}, {.headers = S3_ETAG, .body = S3_OBJECT("1", "05")}, GONE, GONE},
        {{.body = S3_EMPTY}, {.headers = S3_ETAG, .body = S3_OBJECT("1", "05")}, CHANGED, GONE},
    };

    for (size_t at = 0; at < 2; at++) {
        s3_begin(steps[at], 4);
        EXPECT_EQ_I64(s3_amend("s.1.0", ""), KS_REFUSED);
        EXPECT_CONTAINS(seen(2), "If-Match: \"e\"\r\n");
        EXPECT_EQ_U64(http_script_count(s3_script), 4);
        s3_finish();
    }
}

TEST(a_damaged_letter_is_not_amended)
{
    static const struct http_step steps[] = {{.body = S3_EMPTY},
                                             {.headers = S3_ETAG, .body = "{}"}};

    s3_begin(steps, 2);
    EXPECT_EQ_I64(s3_amend("s.1.0", ""), KS_UNKNOWN);
    EXPECT_CONTAINS(s3_told.detail.text, "the object s.1.0 is damaged: its JSON is not valid");
    EXPECT_EQ_U64(http_script_count(s3_script), 2);
    s3_finish();
}

TEST(an_amend_whose_answer_was_lost_is_found_done)
{
    static const struct http_step steps[] = {
        {.body = S3_EMPTY},
        {.headers = S3_ETAG, .body = S3_CLAIMED("1", "05", "a#1.0")},
        {.cut = true},
        CHANGED,
        {.headers = S3_ETAG,
         .body = "{\"id\":\"s.1.0\",\"stream\":\"demo\",\"partition_key\":\"k\","
                 "\"died_at\":\"2026-11-21T00:00:59.000Z\",\"attempts\":2,\"cause\":\"asked\","
                 "\"reason\":\"new\",\"data\":\"ZGF0YQ==\"}"},
        {.status = 500}};

    s3_begin_with(steps, 6, 2);
    EXPECT_EQ_I64(s3_amend("s.1.0", "a#1.0"), KS_DONE);
    EXPECT_EQ_U64(http_script_count(s3_script), 5);
    s3_finish();
}

/* ---- Claims ---- */

TEST(a_claim_is_put_in_the_place_of_the_object_that_was_read)
{
    static const struct http_step steps[][3] = {
        {{.body = S3_EMPTY}, {.headers = S3_ETAG, .body = S3_OBJECT("1", "05")}, {.status = 200}},
        {{.body = S3_EMPTY},
         {.headers = S3_ETAG, .body = S3_CLAIMED("1", "05", "b#1.0")},
         {.status = 200}},
        {{.body = S3_EMPTY},
         {.headers = S3_ETAG, .body = S3_CLAIM_OVER("1", "05", "a#1.0")},
         {.status = 200}},
    };

    for (size_t at = 0; at < 3; at++) {
        s3_begin(steps[at], 3);
        EXPECT_EQ_I64(s3_claim("s.1.0", "b#1.0"), KS_DONE);
        EXPECT_CONTAINS(seen(2), "PUT ");
        EXPECT_CONTAINS(seen(2), "If-Match: \"e\"\r\n");
        EXPECT_CONTAINS(seen(2), "\"claim\":\"b#1.0\",\"claimed_until\":\"20");
        EXPECT(strstr(seen(2), "a#1.0") == NULL);
        EXPECT_CONTAINS(seen(2), "\"attempts\":1,\"cause\":\"asked\",\"reason\":\"bad\"");
        EXPECT_CONTAINS(seen(2), "\"data\":\"ZGF0YQ==\"}");
        s3_finish();
    }
}

TEST(a_letter_that_is_gone_or_changed_or_claimed_is_not_claimed)
{
    static const struct http_step steps[][2] = {
        {{.body = S3_EMPTY}, GONE},
        {{.body = S3_EMPTY}, {.headers = S3_ETAG, .body = S3_CLAIMED("1", "05", "a#1.0")}},
        {{.body = S3_EMPTY},
         {.headers = S3_ETAG,
          .body = "{\"id\":\"s.1.0\",\"stream\":\"demo\",\"partition_key\":\"k\",\"attempts\":3,"
                  "\"cause\":\"asked\",\"reason\":\"\",\"data\":\"\"}"}},
    };

    for (size_t at = 0; at < 3; at++) {
        s3_begin(steps[at], 2);
        EXPECT_EQ_I64(s3_claim("s.1.0", "b#1.0"), KS_REFUSED);
        EXPECT_EQ_U64(http_script_count(s3_script), 2);
        s3_finish();
    }
}

TEST(of_two_that_claim_a_letter_one_is_refused)
{
    static const struct http_step steps[] = {
        {.body = S3_EMPTY},
        {.headers = S3_ETAG, .body = S3_OBJECT("1", "05")},
        CHANGED,
        {.headers = S3_ETAG, .body = S3_CLAIMED("1", "05", "a#1.0")}};

    s3_begin(steps, 4);
    EXPECT_EQ_I64(s3_claim("s.1.0", "b#1.0"), KS_REFUSED);
    EXPECT_EQ_U64(http_script_count(s3_script), 4);
    s3_finish();
}

TEST(a_claim_without_an_answer_is_unknown)
{
    static const struct http_step steps[] = {
        {.body = S3_EMPTY}, {.headers = S3_ETAG, .body = S3_OBJECT("1", "05")}, {.cut = true}};

    s3_begin(steps, 3);
    EXPECT_EQ_I64(s3_claim("s.1.0", "b#1.0"), KS_UNKNOWN);
    EXPECT(s3_told.detail.text[0] != '\0');
    s3_finish();
}

TEST(a_damaged_letter_is_not_claimed)
{
    static const struct http_step steps[] = {{.body = S3_EMPTY},
                                             {.headers = S3_ETAG, .body = "{}"}};

    s3_begin(steps, 2);
    EXPECT_EQ_I64(s3_claim("s.1.0", "b#1.0"), KS_UNKNOWN);
    EXPECT_CONTAINS(s3_told.detail.text, "is damaged");
    s3_finish();
}

TEST(a_write_or_an_amend_takes_the_claim_off)
{
    static const struct http_step written[] = {
        {.body = S3_EMPTY},
        CHANGED,
        {.headers = S3_ETAG, .body = S3_CLAIMED("1", "05", "a#1.0")},
        {.status = 200}};
    static const struct http_step amended[] = {
        {.body = S3_EMPTY},
        {.headers = S3_ETAG, .body = S3_CLAIMED("1", "05", "a#1.0")},
        {.status = 200}};

    s3_begin(written, 4);
    EXPECT_EQ_I64(s3_write("s.1.0", 7), KS_DONE);
    EXPECT(strstr(seen(3), "claim") == NULL);
    s3_finish();
    s3_begin(amended, 3);
    EXPECT_EQ_I64(s3_amend("s.1.0", "a#1.0"), KS_DONE);
    EXPECT(strstr(seen(2), "claim") == NULL);
    s3_finish();
}

TEST(a_change_under_a_claim_is_refused_under_another_one_or_none)
{
    static const struct http_step steps[][2] = {
        {{.body = S3_EMPTY}, {.headers = S3_ETAG, .body = S3_CLAIMED("1", "05", "b#1.0")}},
        {{.body = S3_EMPTY}, {.headers = S3_ETAG, .body = S3_OBJECT("1", "05")}},
        {{.body = S3_EMPTY}, {.headers = S3_ETAG, .body = "{}"}},
        {{.body = S3_EMPTY}, GONE},
    };

    for (size_t at = 0; at < 4; at++) {
        s3_begin(steps[at], 2);
        EXPECT_EQ_I64(s3_amend("s.1.0", "a#1.0"), KS_REFUSED);
        EXPECT_EQ_U64(http_script_count(s3_script), 2);
        s3_finish();
        s3_begin(steps[at], 2);
        EXPECT_EQ_I64(s3_remove("s.1.0", "a#1.0"), KS_REFUSED);
        EXPECT_EQ_U64(http_script_count(s3_script), 2);
        s3_finish();
    }
}

TEST(a_claim_that_is_over_is_not_seen_and_one_that_lasts_is)
{
    static const struct http_step lasts[] = {
        {.body = S3_EMPTY}, {.headers = S3_ETAG, .body = S3_CLAIMED("1", "05", "a#1.0")}};
    static const struct http_step over[] = {
        {.body = S3_EMPTY}, {.headers = S3_ETAG, .body = S3_CLAIM_OVER("1", "05", "a#1.0")}};

    s3_begin(lasts, 2);
    EXPECT_EQ_I64(s3_find("s.1.0"), KS_DONE);
    EXPECT_STR(s3_told.claim, "a#1.0");
    s3_finish();
    s3_begin(over, 2);
    EXPECT_EQ_I64(s3_find("s.1.0"), KS_DONE);
    EXPECT_STR(s3_told.claim, "");
    EXPECT_EQ_I64(s3_told.first.claimed_until_ms, 0);
    s3_finish();
}

/* ---- Removal ---- */

TEST(a_letter_is_removed_under_its_claim_with_the_object_that_has_it)
{
    static const struct http_step steps[] = {
        {.body = S3_EMPTY},
        {.headers = S3_ETAG, .body = S3_CLAIMED("1", "05", "a#1.0")},
        CHANGED,
        {.headers = "ETag: \"renewed\"\r\n", .body = S3_CLAIM_OVER("1", "05", "a#1.0")},
        {.status = 204}};

    s3_begin(steps, 5);
    EXPECT_EQ_I64(s3_remove("s.1.0", "a#1.0"), KS_DONE);
    EXPECT_CONTAINS(seen(2), "DELETE ");
    EXPECT_CONTAINS(seen(2), "If-Match: \"e\"\r\n");
    EXPECT_CONTAINS(seen(4), "DELETE ");
    EXPECT_CONTAINS(seen(4), "If-Match: \"renewed\"\r\n");
    s3_finish();
}

TEST(a_letter_is_removed_as_it_was_seen)
{
    static const struct http_step steps[] = {{.body = S3_EMPTY},
                                             {.body = S3_LIST("false", S3_CONTENTS(S3_KEY_1, "9"))},
                                             {.status = 204}};

    s3_begin(steps, 3);
    EXPECT_EQ_I64(s3_remove("s.1.0", ""), KS_DONE);
    EXPECT_CONTAINS(seen(2), "DELETE /bucket/" S3_KEY_1 " HTTP/1.1\r\n");
    EXPECT_CONTAINS(seen(2), "If-Match: \"e\"\r\n");
    s3_finish();
}

TEST(of_two_that_remove_a_letter_one_is_refused)
{
    static const struct http_step steps[][4] = {
        {{.body = S3_EMPTY}, {.body = S3_EMPTY}, {.cut = true}, {.cut = true}},
        {{.body = S3_EMPTY},
         {.body = S3_LIST("false", S3_CONTENTS(S3_KEY_1, "9"))},
         GONE,
         {.body = S3_EMPTY}},
        {{.body = S3_EMPTY},
         {.body = S3_LIST("false", S3_CONTENTS(S3_KEY_1, "9"))},
         CHANGED,
         {.body = S3_EMPTY}},
        {{.body = S3_EMPTY},
         {.body = S3_LIST("false", S3_CONTENTS(S3_KEY_1 ".bak", "9"))},
         {.cut = true},
         {.cut = true}},
    };

    for (size_t at = 0; at < 4; at++) {
        s3_begin(steps[at], 4);
        EXPECT_EQ_I64(s3_remove("s.1.0", ""), KS_REFUSED);
        s3_finish();
    }
}

TEST(a_removal_that_cannot_be_seen_through_is_unknown)
{
    static const struct http_step steps[][3] = {
        {{.body = S3_EMPTY}, {.body = "nonsense"}, {.cut = true}},
        {{.body = S3_EMPTY}, {.status = 404, .body = S3_ERROR("NoSuchBucket")}, {.cut = true}},
        {{.body = S3_EMPTY},
         {.body = S3_LIST("false", S3_CONTENTS(S3_KEY_1, "9"))},
         {.status = 403, .body = S3_ERROR("AccessDenied")}},
    };
    static const char *const sentences[] = {"cannot be read", "there is no bucket",
                                            "allow s3:DeleteObject"};

    for (size_t at = 0; at < 3; at++) {
        s3_begin(steps[at], 3);
        EXPECT_EQ_I64(s3_remove("s.1.0", ""), KS_UNKNOWN);
        EXPECT_CONTAINS(s3_told.detail.text, sentences[at]);
        s3_finish();
    }
}

/* ---- Memory ---- */

/* Answers may come at once then. */
static void fail_each(uint32_t allocations, void (*ask)(void), enum ks_outcome worst)
{
    for (uint64_t n = 1; n < allocations; n++) {
        const uint32_t before = s3_told.times;

        ks_alloc_fail_after(n, 0);
        ask();
        ks_alloc_fail_after(0, 0);
        s3_await(before + 1);
        EXPECT(s3_told.outcome == KS_DONE || s3_told.outcome == KS_UNKNOWN ||
               s3_told.outcome == worst);
        EXPECT(s3_told.outcome != KS_UNKNOWN || s3_told.detail.text[0] != '\0');
    }
}

static void ask_write(void)
{
    const struct ks_letter letter = s3_letter("s.1.0", 7);

    s3_store->vtable->write(s3_store, &letter, 1, s3_answered, NULL);
}

static void ask_list(void)
{
    s3_store->vtable->list(s3_store, KS_VIEW(""), 3, s3_answered, NULL);
}

static void ask_remove(void)
{
    s3_store->vtable->remove(s3_store, KS_VIEW("s.1.0"), KS_VIEW(""), s3_answered, NULL);
}

TEST(every_allocation_that_fails_is_an_answer)
{
    static const struct http_step empty[] = {{.body = S3_EMPTY}};
    static const struct http_step done[] = {{.body = S3_EMPTY}, {.status = 200}};

    s3_begin(done, 2);
    fail_each(25, ask_write, KS_REFUSED);
    s3_finish();
    s3_begin(empty, 1);
    fail_each(20, ask_list, KS_UNKNOWN);
    fail_each(20, ask_remove, KS_REFUSED);
    s3_finish();
}

/* ---- The start ---- */

TEST(a_name_that_no_key_can_have_is_refused_at_the_start)
{
    const struct ks_s3_place place = {.bucket = "bucket"};
    struct ks_dead_letters *store = NULL;
    struct ks_detail detail = {""};

    EXPECT_ERR(ks_s3_letters_open(NULL, NULL, &place, "..", KS_VIEW("demo"), &store, &detail),
               INVALID);
    EXPECT_CONTAINS(detail.text, "may not begin with a dot");
    EXPECT_ERR(ks_s3_letters_open(NULL, NULL, &place, "app", KS_VIEW(""), &store, &detail),
               INVALID);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}
