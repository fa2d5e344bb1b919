/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/system/lock_file.h"

#include "base/budget.h"
#include "ks_test.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct ks_loop *loop;
static struct ks_detail detail;

static ks_err take(const char *worker_id, struct ks_worker_lock **ret_lock)
{
    detail.text[0] = '\0';
    return ks_lock_file_open(loop, ks_test_dir(), "app", worker_id, ret_lock, &detail);
}

static struct ks_worker_lock *must_take(const char *worker_id)
{
    struct ks_worker_lock *lock = NULL;

    EXPECT_OK(take(worker_id, &lock));
    return lock;
}

/* The one lock file of the test's folder. */
static const char *path(void)
{
    static char found[600];
    DIR *folder = opendir(ks_test_dir());
    const struct dirent *entry;

    EXPECT(folder != NULL);
    found[0] = '\0';
    while ((entry = readdir(folder)) != NULL)
        if (strstr(entry->d_name, ".lock") != NULL)
            (void)snprintf(found, sizeof found, "%s", ks_test_path(entry->d_name));
    EXPECT(closedir(folder) == 0);
    EXPECT(found[0] != '\0');
    return found;
}

static void put(const char *text)
{
    int fd = open(path(), O_WRONLY | O_TRUNC);

    EXPECT(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    EXPECT(close(fd) == 0);
}

struct word {
    uint32_t times;
    uint64_t boot;
    ks_err err;
};

static void written(void *arg, uint64_t boot, ks_err err)
{
    struct word *word = arg;

    word->times++;
    word->boot = boot;
    word->err = err;
}

static void name(struct ks_worker_lock *lock, uint64_t boot)
{
    struct word word = {.times = 0};

    lock->vtable->write(lock, boot, written, &word);
    EXPECT_EQ_U64(word.times, 0); /* Never inside the call. */
    for (int turns = 0; word.times == 0; turns++) {
        EXPECT(turns < 200);
        ks_loop_turn(loop, ks_span_ms(50));
    }
    EXPECT_OK(word.err);
    EXPECT_EQ_U64(word.boot, boot);
}

TEST(it_names_the_boot_that_was_written_last)
{
    struct ks_worker_lock *lock;

    EXPECT_OK(ks_loop_new(&loop));
    lock = must_take("pod-a");
    EXPECT_EQ_U64(lock->corpse, 0);
    name(lock, UINT64_C(0xFEDCBA9876543210));
    name(lock, 0xab);
    EXPECT_EQ_U64(lock->corpse, 0);
    lock->vtable->close(lock);

    lock = must_take("pod-a");
    EXPECT_EQ_U64(lock->corpse, 0xab);
    lock->vtable->close(lock);
    /* Another id, another file. */
    lock = must_take("pod-b");
    EXPECT_EQ_U64(lock->corpse, 0);
    lock->vtable->close(lock);
    ks_loop_free(loop);
}

TEST(only_one_has_it_and_the_other_hears_of_which_boot)
{
    struct ks_worker_lock *lock;
    struct ks_worker_lock *second = NULL;

    EXPECT_OK(ks_loop_new(&loop));
    lock = must_take("pod-a");
    name(lock, 0xab);
    EXPECT(ks_err_is(take("pod-a", &second), KS_ERR_BUSY));
    EXPECT(second == NULL);
    EXPECT_CONTAINS(detail.text, "pod-a");
    EXPECT_CONTAINS(detail.text, "00000000000000ab");
    lock->vtable->close(lock);
    lock = must_take("pod-a");
    lock->vtable->close(lock);
    ks_loop_free(loop);
}

TEST(a_process_that_dies_lets_go_of_it)
{
    struct ks_worker_lock *lock;
    pid_t pid;
    int status;

    EXPECT_OK(ks_loop_new(&loop));
    pid = fork();
    if (pid == 0) {
        struct ks_loop *own;
        struct ks_worker_lock *of_child = NULL;

        /* The loop's thread is not in the child. */
        if (ks_ok(ks_loop_new(&own)) &&
            ks_ok(ks_lock_file_open(own, ks_test_dir(), "app", "pod-a", &of_child, &detail)))
            _exit(0);
        _exit(1);
    }
    EXPECT(waitpid(pid, &status, 0) == pid);
    EXPECT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    lock = must_take("pod-a");
    lock->vtable->close(lock);
    ks_loop_free(loop);
}

TEST(a_line_that_is_none_names_nobody)
{
    static const char *const lines[] = {"",
                                        "\n",
                                        "00000000000000ab",
                                        "00000000000000abc\n",
                                        "0000000000000xab\n",
                                        "00000000000000ab\nand more\n",
                                        "a longer text that nobody of us has written\n"};
    struct ks_worker_lock *lock;

    EXPECT_OK(ks_loop_new(&loop));
    lock = must_take("pod-a");
    lock->vtable->close(lock);
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        put(lines[i]);
        lock = must_take("pod-a");
        EXPECT_EQ_U64(lock->corpse, 0);
        name(lock, 0xcd); /* What was there is gone. */
        lock->vtable->close(lock);
        lock = must_take("pod-a");
        EXPECT_EQ_U64(lock->corpse, 0xcd);
        lock->vtable->close(lock);
    }
    ks_loop_free(loop);
}

TEST(a_place_that_cannot_be_written_is_told)
{
    struct ks_worker_lock *lock = NULL;
    char place[600];

    EXPECT_OK(ks_loop_new(&loop));
    EXPECT(
        ks_err_is(ks_lock_file_open(loop, ks_test_path("nowhere"), "app", "pod-a", &lock, &detail),
                  KS_ERR_NOT_FOUND));
    EXPECT_CONTAINS(detail.text, "lock file");
    /* A link to elsewhere is not followed. */
    lock = must_take("pod-a");
    lock->vtable->close(lock);
    lock = NULL;
    (void)snprintf(place, sizeof place, "%s", path());
    EXPECT(unlink(place) == 0);
    EXPECT(symlink("/dev/null", place) == 0);
    EXPECT(!ks_ok(take("pod-a", &lock)));
    EXPECT(lock == NULL);
    ks_loop_free(loop);
}

TEST(closed_while_it_writes_it_says_nothing)
{
    struct word word = {.times = 0};
    struct ks_worker_lock *lock;

    EXPECT_OK(ks_loop_new(&loop));
    lock = must_take("pod-a");
    lock->vtable->write(lock, 0xab, written, &word);
    lock->vtable->close(lock);
    ks_loop_await_jobs(loop, ks_span_ms(20000));
    EXPECT_EQ_U64(word.times, 0);
    lock = must_take("pod-a");
    EXPECT_EQ_U64(lock->corpse, 0xab);
    lock->vtable->close(lock);
    ks_loop_free(loop);
}
