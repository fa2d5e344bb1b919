/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/credentials/command.h"

#include "ks_test.h"

#include "asking.h"
#include "aws/limits.h"
#include "base/budget.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- Words --- */

/* "a|b c|": the words with bars between them, or "refused". */
static const char *split(const char *line)
{
    static char joined[KS_COMMAND_MAX + KS_COMMAND_WORDS_MAX + 2];
    char room[KS_COMMAND_MAX + 1];
    char *words[KS_COMMAND_WORDS_MAX + 1];
    size_t size = 0;

    if (!ks_ok(ks_command_split(ks_view_text(line), room, words)))
        return "refused";
    for (size_t at = 0; words[at] != NULL; at++)
        size += (size_t)snprintf(joined + size, sizeof(joined) - size, "%s|", words[at]);
    return joined;
}

TEST(a_line_is_split_as_a_shell_does)
{
    EXPECT_STR(split("/bin/x"), "/bin/x|");
    EXPECT_STR(split("  a \t b\n"), "a|b|");
    EXPECT_STR(split("'/a b/c' \"d e\" f\\ g"), "/a b/c|d e|f g|");
    EXPECT_STR(split("a''b\"c\"'d' '' \"\""), "abcd|||");
    EXPECT_STR(split("'\\n' \"\\\"\\\\\\n\" \\'"), "\\n|\"\\\\n|'|");
    EXPECT_STR(split("$HOME `x` a|b; *"), "$HOME|`x`|a|b;|*|");
    EXPECT_STR(split("\"it's\""), "it's|");
}

TEST(a_line_that_nobody_could_mean_is_refused)
{
    char longest[KS_COMMAND_MAX + 2];
    char most[2 * (KS_COMMAND_WORDS_MAX + 1)];
    char room[KS_COMMAND_MAX + 1];
    char *words[KS_COMMAND_WORDS_MAX + 1];

    EXPECT_STR(split(""), "refused");
    EXPECT_STR(split(" \t"), "refused");
    EXPECT_STR(split("a 'b"), "refused");
    EXPECT_STR(split("a \"b"), "refused");
    EXPECT_STR(split("a\\"), "refused");
    EXPECT_STR(split("\"a\\"), "refused");
    EXPECT_ERR(ks_command_split(KS_VIEW("a\0b"), room, words), INVALID);
    memset(longest, 'x', sizeof(longest));
    EXPECT_OK(ks_command_split(ks_view_of(longest, KS_COMMAND_MAX), room, words));
    EXPECT_ERR(ks_command_split(ks_view_of(longest, KS_COMMAND_MAX + 1), room, words), INVALID);
    for (size_t at = 0; at < sizeof(most); at += 2)
        memcpy(most + at, "x ", 2);
    EXPECT_OK(ks_command_split(ks_view_of(most, (size_t)2 * KS_COMMAND_WORDS_MAX), room, words));
    EXPECT(words[KS_COMMAND_WORDS_MAX] == NULL);
    EXPECT_ERR(ks_command_split(ks_view_of(most, sizeof(most)), room, words), INVALID);
}

/* --- Running --- */

struct told {
    int times;
    ks_err err;
    char output[256];
    struct ks_detail detail;
};

static void on_done(void *arg, ks_err err, ks_view output, const struct ks_detail *detail)
{
    struct told *told = arg;

    told->times++;
    told->err = err;
    told->detail = *detail;
    EXPECT_OK(ks_view_copy_text(output, told->output, sizeof(told->output)));
}

static struct ks_command *start(struct ks_loop *loop, const char *script, size_t output_max,
                                int64_t timeout_ms, struct told *told)
{
    char program[] = "sh";
    char flag[] = "-c";
    char *words[] = {program, flag, strdup(script), NULL};
    struct ks_command_options options = {.words = words,
                                         .output_max = output_max,
                                         .timeout = ks_span_ms(timeout_ms),
                                         .done = on_done,
                                         .arg = told};
    struct ks_command *command = NULL;
    struct ks_detail detail;

    *told = (struct told){.times = 0};
    EXPECT_OK(ks_command_run(loop, &options, &command, &detail));
    free(words[2]);
    return command;
}

static struct told run(const char *script, size_t output_max, int64_t timeout_ms)
{
    struct ks_loop *loop;
    struct told told;

    EXPECT_OK(ks_loop_new(&loop));
    (void)start(loop, script, output_max, timeout_ms, &told);
    EXPECT_EQ_I64(told.times, 0);
    while (told.times == 0)
        ks_loop_turn(loop, ks_span_ms(100));
    ks_loop_turn(loop, ks_span_ms(1));
    EXPECT_EQ_I64(told.times, 1);
    ks_loop_free(loop);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
    /* No child is left, and no zombie. */
    EXPECT(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
    return told;
}

TEST(what_it_writes_is_taken)
{
    struct told told =
        run("printf one; printf two; echo hush >&2; read x || printf three", 100, 60000);

    EXPECT_OK(told.err);
    EXPECT_STR(told.output, "onetwothree");
    EXPECT_OK(run("exec true", 100, 60000).err);
}

TEST(a_status_is_told_and_what_it_wrote_is_not)
{
    struct told told = run("printf hush; exit 3", 100, 60000);

    EXPECT_ERR(told.err, SYSTEM);
    EXPECT_STR(told.output, "");
    EXPECT_CONTAINS(told.detail.text, "status 3");
    told = run("kill -TERM $$", 100, 60000);
    EXPECT_ERR(told.err, SYSTEM);
    EXPECT_CONTAINS(told.detail.text, "signal 15");
}

TEST(one_that_writes_too_much_is_killed)
{
    struct told told = run("printf 12345; exec sleep 0", 5, 60000);

    EXPECT_OK(told.err);
    EXPECT_STR(told.output, "12345");
    told = run("printf 123456; exec sleep 600", 5, 60000);
    EXPECT_ERR(told.err, FULL);
    EXPECT_STR(told.output, "");
    told = run("while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done", 100000, 60000);
    EXPECT_ERR(told.err, FULL);
}

TEST(one_that_takes_too_long_is_killed_with_all_that_it_started)
{
    char script[400];
    const char *path = ks_test_path("pid");
    long pid = 0;

    snprintf(script, sizeof(script), "sleep 600 & echo $! > %s; trap '' TERM; wait", path);
    struct told told = run(script, 100, 300);
    EXPECT_ERR(told.err, TIMEOUT);
    FILE *file = fopen(path, "r");
    EXPECT(file != NULL);
    EXPECT(fscanf(file, "%ld", &pid) == 1);
    fclose(file);
    /* It is somebody else's child now: it may be a zombie for a moment. */
    for (int tries = 0; kill((pid_t)pid, 0) == 0 && tries < 500; tries++)
        usleep(10000);
    EXPECT(kill((pid_t)pid, 0) != 0);
}

TEST(its_end_counts_not_that_of_what_it_left_behind)
{
    struct told told = run("sleep 3 & printf done", 100, 60000);

    EXPECT_OK(told.err);
    EXPECT_STR(told.output, "done");
}

TEST(it_has_our_environment_and_none_of_our_files)
{
    int fd = dup(STDERR_FILENO); /* One that a library forgot to mark. */
    struct told told;

    setenv("KS_MARK", "seen", 1);
    told = run("printf '%s ' $KS_MARK; ls /proc/self/fd | tr '\\n' ' '", 200, 60000);
    close(fd);
    EXPECT_OK(told.err);
    EXPECT_STR(told.output, "seen 0 1 2 3 "); /* 3 is the directory that ls reads. */
}

TEST(it_has_none_of_our_signal_settings)
{
    sigset_t blocked;

    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    EXPECT_CONTAINS(run("kill -PIPE $$", 100, 60000).detail.text, "signal 13");
    EXPECT_CONTAINS(run("kill -TERM $$", 100, 60000).detail.text, "signal 15");
}

TEST(what_cannot_be_started_is_told)
{
    struct ks_loop *loop;
    struct ks_command *command;
    struct ks_detail detail;
    struct told told = {.times = 0};
    char *words[] = {strdup(ks_test_path("none")), NULL};
    struct ks_command_options options = {.words = words, .done = on_done, .arg = &told};

    EXPECT_OK(ks_loop_new(&loop));
    EXPECT_ERR(ks_command_run(loop, &options, &command, &detail), NOT_FOUND);
    EXPECT_CONTAINS(detail.text, "cannot be started");
    (void)asking_file("none", "no program");
    EXPECT_ERR(ks_command_run(loop, &options, &command, &detail), DENIED);
    ks_loop_turn(loop, ks_span_ms(1));
    EXPECT_EQ_I64(told.times, 0);
    ks_loop_free(loop);
    free(words[0]);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}

TEST(one_that_is_forgotten_is_gone)
{
    struct ks_loop *loop;
    struct told told;

    EXPECT_OK(ks_loop_new(&loop));
    struct ks_command *command = start(loop, "sleep 600; printf late", 100, 60000, &told);
    ks_loop_turn(loop, ks_span_ms(1));
    ks_command_forget(command);
    EXPECT(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
    ks_loop_turn(loop, ks_span_ms(1));
    EXPECT_EQ_I64(told.times, 0);
    ks_loop_free(loop);
    EXPECT_EQ_I64(ks_alloc_live(), 0);
}
