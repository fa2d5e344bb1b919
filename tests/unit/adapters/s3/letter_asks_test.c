/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/s3/letter_asks.h"

#include "base/log.h"

#include "s3_rig.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int log_file;

static uint32_t count_of(const char *sentence)
{
    static char lines[32768];
    uint32_t count = 0;
    ssize_t size;

    ks_log_close(1000);
    size = pread(log_file, lines, sizeof(lines) - 1, 0);
    EXPECT(size >= 0);
    lines[size] = '\0';
    for (const char *at = lines; (at = strstr(at, sentence)) != NULL; at++)
        count++;
    ks_log_open(log_file, KS_LOG_INFO, KS_LOG_TEXT);
    return count;
}

#define DAMAGED                                                                                    \
    {                                                                                              \
        .body = S3_LIST("false", S3_CONTENTS(S3_FOLDER "README", "5"))                             \
    }

TEST(damage_is_logged_once_until_a_list_meets_none)
{
    static const struct http_step steps[] = {
        {.body = S3_EMPTY}, DAMAGED, DAMAGED, {.body = S3_EMPTY}, DAMAGED};
    static const char sentence[] =
        "the object p/app/demo/README is damaged: its key is not valid (1 such objects";

    log_file = memfd_create("log", 0);
    ks_log_open(log_file, KS_LOG_INFO, KS_LOG_TEXT);
    s3_begin(steps, 5);
    EXPECT_EQ_I64(s3_list("", 5), KS_DONE);
    EXPECT_EQ_I64(s3_list("", 5), KS_DONE);
    EXPECT_EQ_U64(count_of(sentence), 1);
    EXPECT_EQ_I64(s3_list("", 5), KS_DONE);
    EXPECT_EQ_I64(s3_list("", 5), KS_DONE);
    EXPECT_EQ_U64(count_of(sentence), 2);
    s3_finish();
    ks_log_close(1000);
}

TEST(the_start_reports_what_is_wrong_with_the_bucket)
{
    static const struct http_step steps[] = {{.status = 403, .body = S3_ERROR("AccessDenied")},
                                             {.body = S3_EMPTY}};

    log_file = memfd_create("log", 0);
    ks_log_open(log_file, KS_LOG_INFO, KS_LOG_TEXT);
    s3_begin(steps, 2);
    EXPECT_EQ_I64(s3_list("", 5), KS_DONE);
    EXPECT_EQ_U64(
        count_of("dead letters in s3://bucket/p/app/demo/ cannot be listed: access denied: "
                 "allow s3:ListBucket on the bucket bucket to this role"),
        1);
    s3_finish();
    ks_log_close(1000);
}

TEST(a_store_that_is_closed_forgets_what_is_under_way)
{
    static const struct http_step steps[] = {{.body = S3_EMPTY}, {.silent = true}};
    const struct ks_letter letters[] = {s3_letter("s.1.0", 7), s3_letter("s.2.0", 7)};

    s3_begin(steps, 2);
    s3_store->vtable->write(s3_store, letters, 2, s3_answered, NULL);
    s3_store->vtable->list(s3_store, KS_VIEW(""), 5, s3_answered, NULL);
    s3_store->vtable->remove(s3_store, KS_VIEW("x"), KS_VIEW(""), s3_answered,
                             NULL); /* It waits for its turn. */
    s3_finish();
    EXPECT_EQ_U64(s3_told.times, 0);
}
