/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct check_test *tests;

void check_add(struct check_test *test)
{
    struct check_test **at = &tests;

    while (*at != NULL)
        at = &(*at)->next;
    *at = test;
}

static _Noreturn void fail(const char *file, int line)
{
    (void)fprintf(stderr, "    at %s:%d\n", file, line);
    (void)fflush(NULL);
    _exit(1); /* Other threads may use what exit() would destroy. */
}

void check_that(bool holds, const char *file, int line, const char *what)
{
    if (holds)
        return;
    (void)fprintf(stderr, "    does not hold: %s\n", what);
    fail(file, line);
}

void check_equal(int64_t actual, int64_t expected, const char *file, int line, const char *what)
{
    if (actual == expected)
        return;
    (void)fprintf(stderr, "    %s is %" PRId64 ", not %" PRId64 "\n", what, actual, expected);
    fail(file, line);
}

void check_text(const char *actual, const char *expected, const char *file, int line,
                const char *what)
{
    if (actual != NULL && strcmp(actual, expected) == 0)
        return;
    (void)fprintf(stderr, "    %s is \"%s\", not \"%s\"\n", what,
                  actual == NULL ? "(null)" : actual, expected);
    fail(file, line);
}

void check_contains(const char *text, const char *part, const char *file, int line,
                    const char *what)
{
    if (text != NULL && strstr(text, part) != NULL)
        return;
    (void)fprintf(stderr, "    %s is \"%s\", without \"%s\"\n", what,
                  text == NULL ? "(null)" : text, part);
    fail(file, line);
}

int64_t check_now(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void check_sleep(int ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        continue;
}

static bool passes(const struct check_test *test)
{
    int status = -1;
    pid_t pid;

    (void)fflush(NULL);
    pid = fork();
    if (pid == 0) {
        (void)alarm(CHECK_SECONDS);
        test->run();
        exit(0);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

int main(int argc, char **argv)
{
    int passed = 0, failed = 0;

    for (struct check_test *test = tests; test != NULL; test = test->next) {
        if (argc > 1 && strstr(test->name, argv[1]) == NULL)
            continue;
        if (passes(test)) {
            passed++;
            continue;
        }
        failed++;
        (void)printf("FAILED %s\n", test->name);
    }
    (void)printf("%d passed, %d failed\n", passed, failed);
    return failed > 0 || passed == 0;
}
