/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/credentials/command.h"

#include "aws/limits.h"
#include "base/budget.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum {
    ENDED_MS = 100
}; /* From SIGKILL to the end of a process that does not hang in the kernel. */

struct ks_command {
    struct ks_loop *loop;
    struct ks_watch output; /* Its standard output; fd -1: at its end. */
    struct ks_watch end;    /* Its pidfd. */
    struct ks_timer timer;
    pid_t pid;
    struct ks_bytes written;
    ks_err err; /* Why it was killed. */
    ks_span timeout;
    void (*done)(void *arg, ks_err err, ks_view output, const struct ks_detail *detail);
    void *arg;
};

/* --- Words --- */

static bool is_blank(uint8_t byte)
{
    return byte == ' ' || (byte >= '\t' && byte <= '\r');
}

/* Takes one word, which is there, off `line` and appends it at `*end`. */
static ks_err take_word(ks_view *line, char **end)
{
    uint8_t quote = 0;
    uint8_t byte = 0;

    while (line->size > 0 && (quote != 0 || !is_blank(line->data[0]))) {
        KS_TRY(ks_view_take_u8(line, &byte));
        if (byte == '\0')
            return KS_FAIL(INVALID);
        if (quote == 0 && (byte == '\'' || byte == '"')) {
            quote = byte;
            continue;
        }
        if (byte == quote) {
            quote = 0;
            continue;
        }
        if (byte == '\\' && quote != '\'') {
            uint8_t next = line->size > 0 ? line->data[0] : '\0';
            if (next == '\0')
                return KS_FAIL(INVALID);
            if (quote == 0 || next == '"' || next == '\\')
                KS_TRY(ks_view_take_u8(line, &byte));
        }
        *(*end)++ = (char)byte;
    }
    *(*end)++ = '\0';
    return quote == 0 ? KS_OK : KS_FAIL(INVALID);
}

ks_err ks_command_split(ks_view line, char *room, char **words)
{
    size_t count = 0;

    if (line.size > KS_COMMAND_MAX)
        return KS_FAIL(INVALID);
    for (;;) {
        while (line.size > 0 && is_blank(line.data[0]))
            line = ks_view_of(line.data + 1, line.size - 1);
        if (line.size == 0)
            break;
        if (count == KS_COMMAND_WORDS_MAX)
            return KS_FAIL(INVALID);
        words[count++] = room;
        KS_TRY(take_word(&line, &room));
    }
    words[count] = NULL;
    return count > 0 ? KS_OK : KS_FAIL(INVALID);
}

/* --- Ends --- */

static void close_output(struct ks_command *command)
{
    if (command->output.fd < 0)
        return;
    ks_loop_unwatch(command->loop, &command->output);
    (void)close(command->output.fd);
    command->output.fd = -1;
}

static void dispose(struct ks_command *command)
{
    close_output(command);
    if (command->end.fd >= 0) {
        ks_loop_unwatch(command->loop, &command->end);
        (void)close(command->end.fd);
    }
    ks_loop_timer_clear(command->loop, &command->timer);
    ks_bytes_free(&command->written);
    ks_free(command);
}

/* Its end comes by the pidfd. What it started goes with it. */
static void kill_group(struct ks_command *command, ks_err err)
{
    if (ks_ok(command->err))
        command->err = err;
    (void)kill(-command->pid, SIGKILL);
}

static ks_err judge(const struct ks_command *command, const siginfo_t *end,
                    struct ks_detail *detail)
{
    if (ks_err_is(command->err, KS_ERR_TIMEOUT))
        return ks_err_because(command->err, detail, "it did not end within %lld s and was killed",
                              (long long)(ks_span_to_ms(command->timeout) / 1000));
    if (!ks_ok(command->err))
        return ks_err_because(command->err, detail, "its output was not taken: %s",
                              ks_err_text(command->err));
    if (end->si_code != CLD_EXITED)
        return ks_err_because(KS_FAIL(SYSTEM), detail, "it was ended by signal %d", end->si_status);
    if (end->si_status != 0)
        return ks_err_because(KS_FAIL(SYSTEM), detail,
                              "it ended with status %d; run it by hand to see why", end->si_status);
    return KS_OK;
}

/* --- On the loop --- */

static void read_output(struct ks_command *command)
{
    ks_err err = KS_OK;

    while (command->output.fd >= 0 && ks_ok(err)) {
        uint8_t bytes[4096];
        ssize_t got = read(command->output.fd, bytes, sizeof(bytes));

        if (got > 0)
            err = ks_bytes_append(&command->written, ks_view_of(bytes, (size_t)got));
        else if (got == 0)
            close_output(command);
        else if (errno != EINTR)
            break;
        explicit_bzero(bytes, sizeof(bytes));
    }
    if (ks_ok(err))
        return;
    close_output(command);
    kill_group(command, err);
}

static void on_output(struct ks_watch *watch, uint32_t events)
{
    (void)events;
    read_output(KS_LIST_ENTRY(watch, struct ks_command, output));
}

static void on_end(struct ks_watch *watch, uint32_t events)
{
    struct ks_command *command = KS_LIST_ENTRY(watch, struct ks_command, end);
    struct ks_detail detail = {.text = ""};
    siginfo_t end = {.si_pid = 0};

    (void)events;
    /* All that it wrote is in the pipe; somebody whom it left behind may hold the other end. */
    read_output(command);
    if (waitid(P_PID, (id_t)command->pid, &end, WEXITED | WNOHANG) != 0 || end.si_pid == 0)
        return;
    ks_err err = judge(command, &end, &detail);
    command->done(command->arg, err, ks_ok(err) ? ks_bytes_view(&command->written) : KS_VIEW_NONE,
                  &detail);
    dispose(command);
}

static void on_due(struct ks_timer *timer)
{
    kill_group(KS_LIST_ENTRY(timer, struct ks_command, timer), KS_FAIL(TIMEOUT));
}

/* --- Start --- */

/* All signals as they are by default, none blocked. */
static int set_attributes(posix_spawnattr_t *attributes)
{
    sigset_t all;
    sigset_t none;

    sigfillset(&all);
    sigemptyset(&none);
    int failed = posix_spawnattr_setsigdefault(attributes, &all);
    if (failed == 0)
        failed = posix_spawnattr_setsigmask(attributes, &none);
    if (failed == 0)
        failed = posix_spawnattr_setpgroup(attributes, 0);
    if (failed == 0)
        failed = posix_spawnattr_setflags(
            attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    return failed;
}

static int set_files(posix_spawn_file_actions_t *files, int output)
{
    int failed = posix_spawn_file_actions_addopen(files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);

    if (failed == 0)
        failed = posix_spawn_file_actions_adddup2(files, output, STDOUT_FILENO);
    if (failed == 0)
        failed = posix_spawn_file_actions_addopen(files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    if (failed == 0)
        failed = posix_spawn_file_actions_addclosefrom_np(files, STDERR_FILENO + 1);
    return failed;
}

/* Spawns it with `output` as its standard output. 0, or an errno. */
static int spawn(char *const *words, int output, pid_t *ret_pid)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    int failed = posix_spawn_file_actions_init(&files);

    if (failed != 0)
        return failed;
    failed = posix_spawnattr_init(&attributes);
    if (failed == 0) {
        failed = set_attributes(&attributes);
        if (failed == 0)
            failed = set_files(&files, output);
        if (failed == 0)
            failed = posix_spawnp(ret_pid, words[0], &files, &attributes, words, environ);
        (void)posix_spawnattr_destroy(&attributes);
    }
    (void)posix_spawn_file_actions_destroy(&files);
    return failed;
}

static ks_err err_of(int error)
{
    switch (error) {
    case ENOENT:
    case ENOTDIR: return KS_FAIL(NOT_FOUND);
    case EACCES:
    case EPERM: return KS_FAIL(DENIED);
    case ENOMEM: return KS_FAIL(NO_MEMORY);
    default: return KS_FAIL(SYSTEM);
    }
}

/* Starts it, and opens what it is watched by. */
static ks_err start(struct ks_command *command, char *const *words)
{
    int pipes[2];

    if (pipe2(pipes, O_CLOEXEC) != 0)
        return KS_FAIL(SYSTEM);
    command->output.fd = pipes[0];
    /* Only our end: what the program makes of its own is its business. */
    int failed = fcntl(pipes[0], F_SETFL, O_NONBLOCK) == 0 ? 0 : errno;
    if (failed == 0)
        failed = spawn(words, pipes[1], &command->pid);
    (void)close(pipes[1]);
    if (failed != 0)
        return err_of(failed);
    command->end.fd = pidfd_open(command->pid, 0);
    KS_TRY(command->end.fd < 0 ? KS_FAIL(SYSTEM) : KS_OK);
    KS_TRY(ks_loop_watch(command->loop, &command->output, EPOLLIN));
    return ks_loop_watch(command->loop, &command->end, EPOLLIN);
}

ks_err ks_command_run(struct ks_loop *loop, const struct ks_command_options *options,
                      struct ks_command **ret_command, struct ks_detail *detail)
{
    struct ks_command *command = ks_alloc(sizeof(*command));

    if (command == NULL)
        return KS_FAIL(NO_MEMORY);
    *command = (struct ks_command){.loop = loop,
                                   .output = {.fd = -1, .ready = on_output},
                                   .end = {.fd = -1, .ready = on_end},
                                   .timer = {.due = on_due},
                                   .err = KS_OK,
                                   .timeout = options->timeout,
                                   .done = options->done,
                                   .arg = options->arg};
    ks_bytes_init(&command->written, options->output_max);
    command->written.secret = true;
    ks_err err = start(command, options->words);
    if (!ks_ok(err)) {
        ks_command_forget(command);
        return ks_err_because(err, detail, "it cannot be started: %s", ks_err_text(err));
    }
    ks_loop_timer_set(loop, &command->timer, ks_instant_add(ks_loop_now(loop), options->timeout));
    *ret_command = command;
    return KS_OK;
}

void ks_command_forget(struct ks_command *command)
{
    if (command->pid > 0) {
        (void)kill(-command->pid, SIGKILL);
        /* It is over at once, and must not stay as a zombie. One that hangs in the kernel does: nothing waits for it.
         */
        struct pollfd end = {.fd = command->end.fd, .events = POLLIN};
        while (command->end.fd >= 0 && poll(&end, 1, ENDED_MS) < 0 && errno == EINTR) {}
        (void)waitpid(command->pid, NULL, WNOHANG);
    }
    dispose(command);
}
