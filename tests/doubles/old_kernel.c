/* SPDX-License-Identifier: Apache-2.0 */
/* old_kernel PROGRAM ARG.. - runs it as on a kernel that knows nothing of Landlock, of seccomp and of no_new_privs, or
 * in a container that refuses them: what asks for them fails.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define REFUSE_IF(value, number)                                                                   \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1),                                              \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (number))

int main(int count, char **words)
{
    struct sock_filter filter[] = {
        LOAD(nr),
        REFUSE_IF(SYS_landlock_create_ruleset, ENOSYS),
        REFUSE_IF(SYS_seccomp, ENOSYS),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        LOAD(args[0]), /* The lower half, on a little-endian machine. */
        REFUSE_IF(PR_SET_SECCOMP, EINVAL),
        REFUSE_IF(PR_SET_NO_NEW_PRIVS, EINVAL),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = sizeof(filter) / sizeof(filter[0]), .filter = filter};

    if (count < 2) {
        (void)fprintf(stderr, "old_kernel PROGRAM ARG..\n");
        return 2;
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        (void)fprintf(stderr, "old_kernel: no seccomp here: %s\n", strerror(errno));
        return 1;
    }
    (void)execvp(words[1], words + 1);
    (void)fprintf(stderr, "old_kernel: %s: %s\n", words[1], strerror(errno));
    return 1;
}
