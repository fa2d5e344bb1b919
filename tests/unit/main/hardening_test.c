/* SPDX-License-Identifier: Apache-2.0 */
#include "main/hardening.h"
#include "ks_test.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static struct ks_options options;

/* 0, or the errno of making the file; it is removed again where that is allowed. */
static int make(const char *path)
{
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

    if (fd < 0)
        return errno;
    (void)close(fd);
    (void)unlink(path);
    return 0;
}

/* What is given up is given up for good: in a process of its own. Its exit code is what `act` returns. */
static int in_a_process(int (*act)(void))
{
    int status = 0;
    pid_t child = fork();

    if (child == 0)
        _exit(act());
    EXPECT(child > 0 && waitpid(child, &status, 0) == child);
    EXPECT(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static bool is_beneath(const char *path, const char *directory)
{
    size_t size = directory == NULL ? 0 : strlen(directory);

    return size > 0 && strncmp(path, directory, size) == 0;
}

/* A file that can be made, and is in none of the directories where files may be made afterwards: the project may lie in
 * one of those. */
static const char *outside(void)
{
    static char path[4200];
    const char *const places[] = {".", getenv("HOME"), "/run/lock", "/"};
    char whole[4096];

    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        if (places[i] == NULL || realpath(places[i], whole) == NULL || is_beneath(whole, "/tmp") ||
            is_beneath(whole, "/var/tmp") || is_beneath(whole, "/dev") ||
            is_beneath(whole, getenv("TMPDIR")))
            continue;
        (void)snprintf(path, sizeof(path), "%s/hardening-%d", whole, (int)getpid());
        if (make(path) == 0)
            return path;
    }
    FAIL("there is no directory to write to but the temporary ones");
    return NULL;
}

static const char *elsewhere;

static int make_after_hardening(void)
{
    ks_harden_process();
    ks_harden_files(&options);
    if (make(ks_test_path("leases.db-wal")) != 0)
        return 1;
    return make(elsewhere) == EACCES ? 2 : 3;
}

static bool has_landlock(void)
{
    return syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) > 0;
}

TEST(files_are_made_only_where_there_is_state)
{
    (void)snprintf(options.leases, sizeof(options.leases), "sqlite:%s", ks_test_path("leases.db"));
    (void)snprintf(options.landlock, sizeof(options.landlock), "on");
    elsewhere = outside();
    /* Where the kernel has no Landlock all goes on as before. */
    EXPECT_EQ_I64(in_a_process(make_after_hardening), has_landlock() ? 2 : 3);
    (void)snprintf(options.landlock, sizeof(options.landlock), "off");
    EXPECT_EQ_I64(in_a_process(make_after_hardening), 3);
}

static int look_at_myself(void)
{
    ks_harden_process();
    return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) + 2 * prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);
}

TEST(no_new_rights_and_no_dumps)
{
#ifdef __SANITIZE_ADDRESS__
    EXPECT_EQ_I64(in_a_process(look_at_myself), 3);
#else
    EXPECT_EQ_I64(in_a_process(look_at_myself), 1);
#endif
}

static int call_after_hardening(void)
{
    errno = 0;
    ks_harden_process();
    ks_harden_calls(&options);
    if (make(ks_test_path("leases.db")) != 0)
        return 1;
    return syscall(SYS_unshare, 0) == 0 ? 2 : errno == ENOSYS ? 3 : 4;
}

TEST(calls_that_are_never_made_are_not_there)
{
    (void)snprintf(options.seccomp, sizeof(options.seccomp), "off");
    EXPECT_EQ_I64(in_a_process(call_after_hardening), 2);
    (void)snprintf(options.seccomp, sizeof(options.seccomp), "on");
    EXPECT_EQ_I64(in_a_process(call_after_hardening), 3);
}
