/* SPDX-License-Identifier: Apache-2.0 */
#include "ks_test.h"

#include <errno.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SECONDS_MAX = 60, PATHS_MAX = 16, SHOWN_BYTES_MAX = 32 };

static struct {
    struct ks_test *first; /* In the order of the file. */
    struct ks_test *last;
    bool no_fork;
    const char *running;
    unsigned passed;
    unsigned failed;
    char root[PATH_MAX / 4]; /* Of the program. */
    char dir[PATH_MAX / 2];  /* Of the running test; may not exist yet. */
    char paths[PATHS_MAX][PATH_MAX];
    unsigned path_count;
} all;

void ks_test_add(struct ks_test *test)
{
    if (all.last == NULL)
        all.first = test;
    else
        all.last->next = test;
    all.last = test;
}

/* What a test can ask for. */

const char *ks_test_dir(void)
{
    if (mkdir(all.dir, 0700) != 0 && errno != EEXIST)
        FAIL("cannot make %s: %s", all.dir, strerror(errno));
    return all.dir;
}

const char *ks_test_path(const char *name)
{
    char *path = all.paths[all.path_count % PATHS_MAX];

    if (all.path_count >= PATHS_MAX)
        FAIL("more than %d calls of ks_test_path in one test", PATHS_MAX);
    all.path_count++;
    snprintf(path, sizeof all.paths[0], "%s/%s", ks_test_dir(), name);
    return path;
}

const char *ks_test_env(const char *name)
{
    const char *value = getenv(name);

    if (value == NULL)
        FAIL("%s is not set: run this program under tests/emulators/with", name);
    return value;
}
/* Each waits for the end of what nobody writes. */
static _Noreturn void start_when_told(const int ends[2], int (*life)(uint32_t which),
                                      uint32_t which)
{
    char nothing;

    close(ends[1]);
    if (read(ends[0], &nothing, 1) != 0)
        FAIL("told too much");
    close(ends[0]);
    _exit(life(which));
}

uint32_t ks_test_at_once(uint32_t count, int (*life)(uint32_t which), int code)
{
    pid_t children[KS_TEST_AT_ONCE_MAX];
    uint32_t ended = 0;
    int ends[2];

    EXPECT(count <= KS_TEST_AT_ONCE_MAX);
    EXPECT(pipe(ends) == 0);
    fflush(stdout);
    for (uint32_t which = 0; which < count; which++) {
        children[which] = fork();
        EXPECT(children[which] >= 0);
        if (children[which] == 0)
            start_when_told(ends, life, which);
    }
    close(ends[0]);
    close(ends[1]);
    for (uint32_t which = 0; which < count; which++) {
        int status = 0;

        EXPECT(waitpid(children[which], &status, 0) == children[which]);
        ended += (WIFEXITED(status) ? WEXITSTATUS(status) : 255) == code;
    }
    return ended;
}

/* What does not hold. */

static int remove_one(const char *path, const struct stat *stat, int kind, struct FTW *at)
{
    (void)stat;
    (void)kind;
    (void)at;
    remove(path);
    return 0;
}

static void remove_tree(const char *path)
{
    if (access(path, F_OK) == 0)
        nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void finish(void)
{
    printf("%u passed, %u failed\n", all.passed, all.failed);
    fflush(stdout);
}

void ks_test_fail(const char *file, int line, const char *format, ...)
{
    va_list args;

    printf("%s:%d: ", file, line);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    if (all.no_fork) {
        printf("FAILED %s\n", all.running);
        all.failed++;
        remove_tree(all.root);
        finish();
    }
    fflush(stdout);
    _exit(1);
}

void ks_test_eq_i64(const char *file, int line, const char *what, int64_t actual, int64_t expected)
{
    if (actual != expected)
        ks_test_fail(file, line, "%s is %" PRId64 ", expected %" PRId64, what, actual, expected);
}

void ks_test_eq_u64(const char *file, int line, const char *what, uint64_t actual,
                    uint64_t expected)
{
    if (actual != expected)
        ks_test_fail(file, line, "%s is %" PRIu64 ", expected %" PRIu64, what, actual, expected);
}

void ks_test_eq_str(const char *file, int line, const char *what, const char *actual,
                    const char *expected)
{
    if (actual == NULL || expected == NULL) {
        if (actual != expected)
            ks_test_fail(file, line, "%s is %s, expected %s", what, actual ? actual : "NULL",
                         expected ? expected : "NULL");
        return;
    }
    if (strcmp(actual, expected) != 0)
        ks_test_fail(file, line, "%s is \"%s\",\n    expected \"%s\"", what, actual, expected);
}

/* Writes up to SHOWN_BYTES_MAX bytes as hex; `text` has room for them. */
static const char *hex(const uint8_t *bytes, size_t count, char *text)
{
    char *end = text;

    for (size_t i = 0; i < count && i < SHOWN_BYTES_MAX; i++)
        end += snprintf(end, 4, "%02x ", bytes[i]);
    *end = '\0';
    return text;
}

void ks_test_eq_mem(const char *file, int line, const char *what, const void *actual,
                    const void *expected, size_t bytes)
{
    const uint8_t *a = actual;
    const uint8_t *b = expected;
    char shown_a[3 * SHOWN_BYTES_MAX + 1];
    char shown_b[3 * SHOWN_BYTES_MAX + 1];
    size_t at = 0;

    while (at < bytes && a[at] == b[at])
        at++;
    if (at < bytes)
        ks_test_fail(file, line, "%s differs at byte %zu of %zu: %s\n    expected from there: %s",
                     what, at, bytes, hex(a + at, bytes - at, shown_a),
                     hex(b + at, bytes - at, shown_b));
}

void ks_test_contains(const char *file, int line, const char *what, const char *text,
                      const char *part)
{
    if (text == NULL || strstr(text, part) == NULL)
        ks_test_fail(file, line, "%s is \"%s\",\n    expected it to contain \"%s\"", what,
                     text ? text : "NULL", part);
}

/* Running. */

/* Runs the test in a child that leads its own process group: nothing it started outlives it. */
static bool passes_in_child(const struct ks_test *test)
{
    int status = 0;
    pid_t child = fork();

    if (child < 0) {
        printf("cannot fork: %s\n", strerror(errno));
        return false;
    }
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setpgid(0, 0);
        alarm(SECONDS_MAX);
        test->run();
        fflush(stdout);
        exit(0); /* Not _exit: the leak check of a sanitizer build runs at exit. */
    }
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    kill(-child, SIGKILL);
    if (WIFSIGNALED(status))
        printf("%s: %s%s\n", test->name, strsignal(WTERMSIG(status)),
               WTERMSIG(status) == SIGALRM ? " (longer than 60 s)" : "");
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void run(const struct ks_test *test, unsigned number)
{
    bool passed = true;

    all.running = test->name;
    all.path_count = 0;
    snprintf(all.dir, sizeof all.dir, "%s/%u", all.root, number);
    fflush(stdout);
    if (all.no_fork)
        test->run(); /* A failure does not come back from here. */
    else
        passed = passes_in_child(test);
    remove_tree(all.dir);
    printf("%s %s\n", passed ? "ok" : "FAILED", test->name);
    if (passed)
        all.passed++;
    else
        all.failed++;
}

static bool make_root(void)
{
    const char *place = getenv("TMPDIR");

    snprintf(all.root, sizeof all.root, "%s/ks-test.XXXXXX", place != NULL ? place : "/tmp");
    if (mkdtemp(all.root) != NULL)
        return true;
    printf("cannot make %s: %s\n", all.root, strerror(errno));
    return false;
}

/* Of "K/N" the K-th of N shares of the tests: each is in exactly one. */
static bool is_in_share(const char *share, unsigned at)
{
    unsigned which = 0;
    unsigned of = 0;

    if (share == NULL)
        return true;
    if (sscanf(share, "%u/%u", &which, &of) != 2 || which < 1 || which > of) {
        printf("--share wants K/N, not %s\n", share);
        exit(2);
    }
    return at % of == which - 1;
}

/* Whether the list NAME,NAME,.. has the whole name. */
static bool is_listed(const char *names, const char *name)
{
    size_t length = strlen(name);

    for (const char *at = names; at != NULL; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0'))
            return true;
    return false;
}

int ks_test_main(int argc, char **argv)
{
    const char *part = "";
    const char *share = NULL;
    const char *without = NULL;
    bool list = false;
    unsigned number = 0;
    unsigned at = 0;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--no-fork") == 0)
            all.no_fork = true;
        else if (strcmp(argv[i], "--list") == 0)
            list = true;
        else if (strcmp(argv[i], "--share") == 0 && i + 1 < argc)
            share = argv[++i];
        else if (strcmp(argv[i], "--without") == 0 && i + 1 < argc)
            without = argv[++i];
        else
            part = argv[i];
    }
    if (!list && !make_root())
        return 1;
    for (const struct ks_test *test = all.first; test != NULL; test = test->next) {
        if (strstr(test->name, part) == NULL || !is_in_share(share, at++) ||
            is_listed(without, test->name))
            continue;
        if (list)
            printf("%s\n", test->name);
        else
            run(test, number++);
    }
    if (list)
        return 0;
    remove_tree(all.root);
    if (number == 0) {
        printf("no test to run\n");
        all.failed++;
    }
    finish();
    return all.failed == 0 ? 0 : 1;
}
