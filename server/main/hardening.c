/* SPDX-License-Identifier: Apache-2.0 */
#include "main/hardening.h"

#include "base/address.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

void ks_harden_process(void)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        ks_info("hardening: this kernel has no PR_SET_NO_NEW_PRIVS");
#ifndef __SANITIZE_ADDRESS__ /* Its search for leaks traces the process. */
    if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0)
        ks_info("hardening: memory may be dumped: %s", strerror(errno));
#endif
}

/* --- Files --- */

/* Rights of the first version of Landlock, which every kernel with it has. */
static const uint64_t writing = LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR |
                                LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_CHAR |
                                LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG |
                                LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO |
                                LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM;

static int make_rules(void)
{
    const struct landlock_ruleset_attr all = {.handled_access_fs = writing};

    return (int)syscall(SYS_landlock_create_ruleset, &all, sizeof(all), 0);
}

/* What is not there cannot be written to, and what is made later is in a directory that is. */
static void allow(int rules, const char *directory)
{
    struct landlock_path_beneath_attr beneath = {.allowed_access = writing};
    int fd;

    if (directory == NULL || directory[0] == '\0')
        return;
    fd = open(directory, O_PATH | O_CLOEXEC | O_DIRECTORY);
    if (fd < 0)
        return;
    beneath.parent_fd = fd;
    (void)syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0);
    (void)close(fd);
}

static void allow_directory_of(int rules, const char *path)
{
    char directory[KS_OPTION_TEXT_SIZE];

    if (path == NULL)
        return;
    ks_option_directory(path, directory);
    allow(rules, directory);
}

static void allow_sockets(int rules, const char *list)
{
    struct ks_address addresses[KS_ADDRESSES_MAX];
    struct ks_detail ignored;
    uint32_t count = 0;

    if (!ks_ok(ks_address_parse_list(ks_view_text(list), addresses, &count, &ignored)))
        return;
    for (uint32_t i = 0; i < count; i++)
        if (addresses[i].kind == KS_ADDRESS_UNIX)
            allow_directory_of(rules, addresses[i].path);
}

static void allow_state(int rules, const struct ks_options *options)
{
    allow(rules, options->state_dir);
    allow_sockets(rules, options->listen);
    allow_sockets(rules, options->ops_listen);
    for (uint32_t i = 0; i < ks_options_subscriptions(options); i++) {
        const struct ks_options *one = ks_options_subscription(options, i);
        allow_directory_of(rules, ks_option_path(one->source));
        allow_directory_of(rules, ks_option_path(one->leases));
        allow_directory_of(rules, ks_option_path(one->dead_letters));
    }
}

static void allow_others(int rules)
{
    static const char *const usual[] = {"/tmp", "/var/tmp", "/dev"};
    const char *home = getenv("HOME");
    char aws[4096];

    for (size_t i = 0; i < sizeof(usual) / sizeof(usual[0]); i++)
        allow(rules, usual[i]);
    allow(rules, getenv("TMPDIR"));
    allow(rules, getenv("SQLITE_TMPDIR"));
    if (home != NULL && snprintf(aws, sizeof(aws), "%s/.aws", home) < (int)sizeof(aws))
        allow(rules, aws);
}

void ks_harden_files(const struct ks_options *options)
{
    int rules;

    if (strcmp(options->landlock, "off") == 0)
        return;
    rules = make_rules();
    if (rules < 0) {
        ks_info("hardening: no Landlock here (%s): files are protected by their modes alone",
                strerror(errno));
        return;
    }
    allow_state(rules, options);
    allow_others(rules);
    if (syscall(SYS_landlock_restrict_self, rules, 0) != 0)
        ks_info("hardening: Landlock refuses: %s", strerror(errno));
    (void)close(rules);
}

/* --- Calls --- */

#if defined(__x86_64__)
#define OUR_ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OUR_ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

#ifdef OUR_ARCHITECTURE

/* Numbers of another architecture mean other calls: those of a program of 32 bits, and of x32, which has this bit. */
enum { X32 = 0x40000000 };

static const struct sock_filter filter[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OUR_ARCHITECTURE, 1, 0),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
#define X(number)                                                                                  \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
#include "main/calls.def"
#undef X
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
};

void ks_harden_calls(const struct ks_options *options)
{
    union {
        const struct sock_filter *from;
        struct sock_filter *to;
    } code = {.from = filter}; /* The kernel only reads it. */
    struct sock_fprog program = {.len = sizeof(filter) / sizeof(filter[0]), .filter = code.to};

    if (strcmp(options->seccomp, "on") == 0 &&
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        ks_info("hardening: no seccomp here (%s): --seccomp does nothing", strerror(errno));
}

#else

void ks_harden_calls(const struct ks_options *options)
{
    if (strcmp(options->seccomp, "on") == 0)
        ks_info("hardening: --seccomp does nothing on this processor");
}

#endif
