/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/credentials/profiles.h"

#include "ks_test.h"

#include "asking.h"
#include "base/budget.h"

#include <stdlib.h>
#include <string.h>

struct reading {
    struct ks_profiles profiles;
    int times;
    ks_err err;
    struct ks_detail detail;
};

static void on_done(struct ks_profiles *profiles, ks_err err, const struct ks_detail *detail)
{
    struct reading *reading = KS_LIST_ENTRY(profiles, struct reading, profiles);

    reading->times++;
    reading->err = err;
    reading->detail = *detail;
}

static void read_all(struct ks_loop *loop, struct reading *reading)
{
    int before = reading->times;

    reading->profiles.done = on_done;
    ks_profiles_read(&reading->profiles);
    while (reading->times == before)
        ks_loop_turn(loop, ks_span_ms(20));
}

static bool text_is(const struct reading *reading, enum ks_profile_file file, const char *text)
{
    return ks_view_equal(ks_bytes_view(&reading->profiles.text[file]), ks_view_text(text));
}

TEST(both_files_are_read_anew_each_time)
{
    struct reading reading = {.times = 0};
    struct ks_loop *loop;

    asking_forget_environment();
    EXPECT_OK(ks_loop_new(&loop));
    ks_profiles_init(&reading.profiles, loop);
    asking_set_files("[default]\n", "[p]\n");
    read_all(loop, &reading);
    EXPECT_OK(reading.err);
    EXPECT(text_is(&reading, KS_PROFILE_CONFIG, "[default]\n"));
    EXPECT(text_is(&reading, KS_PROFILE_CREDENTIALS, "[p]\n"));
    asking_set_files("", "[q]\n");
    read_all(loop, &reading);
    EXPECT(text_is(&reading, KS_PROFILE_CONFIG, ""));
    EXPECT(text_is(&reading, KS_PROFILE_CREDENTIALS, "[q]\n"));
    ks_profiles_drop(&reading.profiles);
    EXPECT_EQ_U64(reading.profiles.text[KS_PROFILE_CREDENTIALS].size, 0);
    EXPECT_EQ_I64(reading.times, 2);
    ks_loop_free(loop);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(files_that_are_not_there_say_nothing)
{
    struct reading reading = {.times = 0};
    struct ks_loop *loop;

    asking_forget_environment();
    EXPECT_OK(ks_loop_new(&loop));
    ks_profiles_init(&reading.profiles, loop);
    read_all(loop, &reading);
    EXPECT_OK(reading.err);
    unsetenv("HOME");
    read_all(loop, &reading);
    EXPECT_OK(reading.err);
    setenv("AWS_SHARED_CREDENTIALS_FILE", asking_file("keys", "[k]\n"), 1);
    read_all(loop, &reading);
    EXPECT_OK(reading.err);
    EXPECT(text_is(&reading, KS_PROFILE_CONFIG, ""));
    EXPECT(text_is(&reading, KS_PROFILE_CREDENTIALS, "[k]\n"));
    ks_profiles_drop(&reading.profiles);
    ks_loop_free(loop);
}

TEST(what_cannot_be_read_is_told_with_its_path)
{
    struct reading reading = {.times = 0};
    struct ks_loop *loop;
    static char longer[KS_PATH_MAX + 2];

    asking_forget_environment();
    EXPECT_OK(ks_loop_new(&loop));
    ks_profiles_init(&reading.profiles, loop);
    setenv("AWS_CONFIG_FILE", ks_test_dir(), 1);
    read_all(loop, &reading);
    EXPECT_ERR(reading.err, SYSTEM);
    EXPECT_CONTAINS(reading.detail.text, ks_test_dir());
    memset(longer, 'x', sizeof(longer) - 1);
    setenv("AWS_CONFIG_FILE", longer, 1);
    read_all(loop, &reading);
    EXPECT_ERR(reading.err, FULL);
    ks_profiles_drop(&reading.profiles);
    ks_loop_free(loop);
}

TEST(a_reading_that_was_dropped_is_never_told)
{
    struct reading reading = {.profiles = {.done = on_done}};
    struct ks_loop *loop;

    asking_forget_environment();
    EXPECT_OK(ks_loop_new(&loop));
    ks_profiles_init(&reading.profiles, loop);
    asking_set_files("[default]\n", "[p]\n");
    ks_profiles_read(&reading.profiles);
    ks_profiles_drop(&reading.profiles);
    for (int i = 0; i < 10; i++)
        ks_loop_turn(loop, ks_span_ms(5));
    EXPECT_EQ_I64(reading.times, 0);
    ks_loop_free(loop);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(what_the_credentials_file_says_counts_more)
{
    ks_view text[KS_PROFILE_FILES] = {
        KS_VIEW("[profile p]\nrole_arn=config\nregion=r\naws_access_key_id=A\n"
                "aws_secret_access_key=S\naws_session_token=T\n"),
        KS_VIEW("[p]\nrole_arn=credentials\naws_access_key_id=B\naws_secret_access_key=U\n")};
    struct ks_profile_found found;
    struct ks_detail detail;

    EXPECT_OK(ks_profiles_find(text, "p", &found, &detail));
    EXPECT(ks_view_equal(found.all.role_arn, KS_VIEW("credentials")));
    EXPECT(ks_view_equal(found.all.region, KS_VIEW("r")));
    EXPECT(ks_view_equal(found.all.access_key, KS_VIEW("B")));
    EXPECT_EQ_U64(found.all.token.size, 0);
    EXPECT(ks_view_equal(found.file[KS_PROFILE_CONFIG].token, KS_VIEW("T")));
    EXPECT_OK(ks_profiles_find(text, "q", &found, &detail));
    EXPECT(!found.all.found);
    text[KS_PROFILE_CREDENTIALS] = KS_VIEW("\n\nhush\n");
    EXPECT_ERR(ks_profiles_find(text, "p", &found, &detail), MALFORMED);
    EXPECT_CONTAINS(detail.text, "credentials file: line 3");
    EXPECT(strstr(detail.text, "hush") == NULL);
}
