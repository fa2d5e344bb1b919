/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/credentials/file.h"

#include "ks_test.h"

#include "asking.h"
#include "aws/limits.h"
#include "base/budget.h"

#include <string.h>

struct told {
    int times;
    ks_err err;
    char content[64];
};

static void on_read(void *arg, ks_err err, ks_view content)
{
    struct told *told = arg;

    told->times++;
    told->err = err;
    EXPECT_OK(ks_view_copy_text(content, told->content, sizeof(told->content)));
}

static struct told read_one(struct ks_loop *loop, const char *path, size_t max)
{
    struct told told = {.times = 0};
    struct ks_file *file;

    EXPECT_OK(ks_file_read(loop, path, max, on_read, &told, &file));
    EXPECT_EQ_I64(told.times, 0);
    while (told.times == 0)
        ks_loop_turn(loop, ks_span_ms(50));
    return told;
}

TEST(a_file_is_read_whole_or_not_at_all)
{
    struct ks_loop *loop;
    struct told told;
    const char *path = asking_file("token", "secret\n");

    EXPECT_OK(ks_loop_new(&loop));
    told = read_one(loop, path, 100);
    EXPECT_OK(told.err);
    EXPECT_STR(told.content, "secret\n");
    EXPECT_OK(read_one(loop, path, 7).err);
    told = read_one(loop, path, 6);
    EXPECT(ks_err_is(told.err, KS_ERR_FULL));
    EXPECT_STR(told.content, "");
    EXPECT_OK(read_one(loop, "/dev/null", 6).err);
    EXPECT(ks_err_is(read_one(loop, "/dev/zero", 6).err, KS_ERR_FULL));
    ks_loop_free(loop);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(what_cannot_be_read_is_told)
{
    struct ks_loop *loop;
    struct ks_file *file;
    char longer[KS_PATH_MAX + 2];

    EXPECT_OK(ks_loop_new(&loop));
    EXPECT(ks_err_is(read_one(loop, ks_test_path("none"), 10).err, KS_ERR_NOT_FOUND));
    EXPECT(ks_err_is(read_one(loop, "/dev/null/x", 10).err, KS_ERR_NOT_FOUND));
    EXPECT(ks_err_is(read_one(loop, ks_test_dir(), 10).err, KS_ERR_SYSTEM));
    EXPECT(ks_err_is(ks_file_read(loop, "", 10, on_read, NULL, &file), KS_ERR_INVALID));
    memset(longer, 'x', sizeof(longer));
    longer[sizeof(longer) - 1] = '\0';
    EXPECT(ks_err_is(ks_file_read(loop, longer, 10, on_read, NULL, &file), KS_ERR_INVALID));
    ks_loop_free(loop);
}

TEST(a_read_that_was_forgotten_is_silent)
{
    struct ks_loop *loop;
    struct told told = {.times = 0};
    struct ks_file *file;

    EXPECT_OK(ks_loop_new(&loop));
    EXPECT_OK(ks_file_read(loop, "/dev/null", 10, on_read, &told, &file));
    ks_file_forget(file);
    (void)read_one(loop, "/dev/null", 10);
    EXPECT_EQ_I64(told.times, 0);
    ks_loop_free(loop);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}
