/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/main/sidecar.h"

#include "base/budget.h"
#include "base/options.h"
#include "ks_test.h"
#include "main/commands.h"
#include "main/house.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char *const nothing[] = {NULL};

static void add(struct sidecar_line *line, const char *word)
{
    EXPECT(line->argc + 1 < SIDECAR_WORDS_MAX);
    line->argv[line->argc++] = (char *)(uintptr_t)word;
    line->argv[line->argc] = NULL;
}

static bool names(const char *const *words, const char *flag)
{
    for (; words != NULL && *words != NULL; words++) {
        if (strcmp(*words, flag) == 0)
            return true;
    }
    return false;
}

void sidecar_line(struct sidecar_line *line, const char *command, int runs,
                  const char *const *words)
{
    *line = (struct sidecar_line){.argc = 0};
    (void)snprintf(line->listen, sizeof line->listen, "unix:%s/api", ks_test_dir());
    (void)snprintf(line->ops_listen, sizeof line->ops_listen, "unix:%s/ops", ks_test_dir());
    add(line, command);
    add(line, "--listen");
    add(line, line->listen);
    if (!names(words, "--ops-listen")) {
        add(line, "--ops-listen");
        add(line, line->ops_listen);
    }
    if (runs) {
        add(line, "--stream");
        add(line, "stream");
        add(line, "--application");
        add(line, "app");
    }
    for (; words != NULL && *words != NULL; words++)
        add(line, *words);
}

pid_t sidecar_start(const char *const *words, char *const *environment)
{
    struct sidecar_line line;
    struct ks_options options;
    struct ks_detail detail = {""};
    ks_err err;
    pid_t pid;

    sidecar_line(&line, "run", 1, words);
    err = ks_options_read(line.argc, line.argv, environment != NULL ? environment : nothing,
                          &options, &detail);
    EXPECT_STR(detail.text, "");
    EXPECT_OK(err);
    pid = fork();
    EXPECT(pid >= 0);
    if (pid == 0) {
        const struct ks_command_line read_again = {line.argc, line.argv,
                                                   environment != NULL ? environment : nothing};
        int64_t live = ks_alloc_live();
        int exit_code;

        for (; environment != NULL && *environment != NULL; environment++)
            (void)putenv(*environment);
        exit_code = ks_house_run(&options, &read_again);
        _exit(ks_alloc_live() == live ? exit_code : SIDECAR_LEAKS);
    }
    return pid;
}

void sidecar_wait_ready(void)
{
    EXPECT_EQ_I64(sidecar_call(ks_command_wait, NULL, "", NULL, 0), 0);
}

int sidecar_end(pid_t pid)
{
    const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
    int status = 0;

    for (int i = 0; waitpid(pid, &status, WNOHANG) == 0; i++) {
        if (i == 3000) {
            (void)kill(pid, SIGKILL);
            FAIL("it does not end");
        }
        (void)nanosleep(&pause, NULL);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

static size_t read_all(int fd, char *output, size_t size)
{
    size_t length = 0;
    ssize_t got;

    while (length + 1 < size && (got = read(fd, output + length, size - length - 1)) != 0) {
        EXPECT(got > 0 || errno == EINTR);
        length += got > 0 ? (size_t)got : 0;
    }
    output[length] = '\0';
    return length;
}

int sidecar_call(sidecar_command *command, const char *const *words, const char *input,
                 char *ret_output, size_t output_size)
{
    struct sidecar_line line;
    int in[2];
    int out[2];
    pid_t pid;

    EXPECT(pipe(in) == 0);
    EXPECT(pipe(out) == 0);
    sidecar_line(&line, "command", 0, words);
    pid = fork();
    EXPECT(pid >= 0);
    if (pid == 0) {
        if (dup2(in[0], STDIN_FILENO) < 0 ||
            (ret_output != NULL && dup2(out[1], STDOUT_FILENO) < 0))
            _exit(99);
        (void)close(in[1]);
        _exit(command(line.argc, line.argv, nothing));
    }
    (void)close(in[0]);
    (void)close(out[1]);
    EXPECT(write(in[1], input, strlen(input)) == (ssize_t)strlen(input));
    (void)close(in[1]);
    if (ret_output != NULL)
        (void)read_all(out[0], ret_output, output_size);
    (void)close(out[0]);
    return sidecar_end(pid);
}

void sidecar_call_until(sidecar_command *command, const char *const *words, const char *part,
                        char *ret_output, size_t output_size)
{
    const struct timespec pause = {.tv_nsec = 50 * 1000 * 1000};

    for (int i = 0; sidecar_call(command, words, "", ret_output, output_size) != 0 ||
                    strstr(ret_output, part) == NULL;
         i++) {
        if (i == 600)
            FAIL("it does not say %s, but: %s", part, ret_output);
        (void)nanosleep(&pause, NULL);
    }
}

pid_t sidecar_pretend(const struct sidecar_line *line, const char *answer, size_t size, int times)
{
    static char request[4096];
    struct sockaddr_un place = {.sun_family = AF_UNIX};
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    pid_t pid;

    (void)snprintf(place.sun_path, sizeof place.sun_path, "%s", line->listen + strlen("unix:"));
    (void)unlink(place.sun_path);
    EXPECT(bind(listener, (struct sockaddr *)&place, sizeof place) == 0);
    EXPECT(listen(listener, 4) == 0);
    pid = fork();
    for (int at = 0; pid == 0 && at < times; at++) {
        int fd = accept(listener, NULL, NULL);

        (void)recv(fd, request, sizeof request, 0);
        (void)send(fd, answer, size, MSG_NOSIGNAL);
        (void)close(fd);
    }
    if (pid == 0)
        _exit(0);
    EXPECT(pid > 0);
    (void)close(listener);
    return pid;
}
