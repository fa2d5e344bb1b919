/* SPDX-License-Identifier: Apache-2.0 */
#include "main/memory.h"

#include "ks_test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Makes the file `path` under the test's folder, and its folders. */
static void put_file(const char *path, const char *text)
{
    char full[1024];
    FILE *file;

    (void)snprintf(full, sizeof full, "%s%s", ks_test_dir(), path);
    for (char *slash = strchr(full + strlen(ks_test_dir()) + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        EXPECT(mkdir(full, 0700) == 0 || errno == EEXIST);
        *slash = '/';
    }
    file = fopen(full, "w");
    EXPECT(file != NULL);
    EXPECT(fputs(text, file) >= 0);
    EXPECT(fclose(file) == 0);
}

TEST(version_2_takes_the_smallest_limit_on_the_way_up)
{
    put_file("/proc/self/cgroup", "0::/kubepods/pod1/c1\n");
    put_file("/sys/fs/cgroup/kubepods/pod1/c1/memory.max", "max\n");
    put_file("/sys/fs/cgroup/kubepods/pod1/memory.max", "268435456\n");
    put_file("/sys/fs/cgroup/kubepods/memory.max", "1073741824\n");
    EXPECT_EQ_U64(ks_memory_cgroup_limit(ks_test_dir()), 268435456);
}

TEST(version_2_in_a_container_sees_its_own_root)
{
    put_file("/proc/self/cgroup", "0::/\n");
    put_file("/sys/fs/cgroup/memory.max", "67108864\n");
    EXPECT_EQ_U64(ks_memory_cgroup_limit(ks_test_dir()), 67108864);
}

TEST(version_1_is_found_by_its_controller)
{
    put_file("/proc/self/cgroup",
             "5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n1:name=systemd:/\n");
    put_file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "134217728\n");
    EXPECT_EQ_U64(ks_memory_cgroup_limit(ks_test_dir()), 134217728);
}

TEST(no_limit_is_none)
{
    EXPECT_EQ_U64(ks_memory_cgroup_limit(ks_test_dir()), 0);
    put_file("/proc/self/cgroup", "0::/\n4:memory:/\n");
    put_file("/sys/fs/cgroup/memory.max", "max\n");
    put_file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    EXPECT_EQ_U64(ks_memory_cgroup_limit(ks_test_dir()), 0);
}

TEST(odd_files_are_no_limit)
{
    put_file("/proc/self/cgroup", "\n:\n::\n0::\nnonsense\n0::/a/b");
    put_file("/sys/fs/cgroup/a/b/memory.max", "12monkeys\n");
    put_file("/sys/fs/cgroup/a/memory.max", "");
    EXPECT_EQ_U64(ks_memory_cgroup_limit(ks_test_dir()), 0);
    put_file("/sys/fs/cgroup/a/memory.max", "4096");
    EXPECT_EQ_U64(ks_memory_cgroup_limit(ks_test_dir()), 4096);
}

TEST(the_budget_is_a_quarter_of_the_limit)
{
    EXPECT_EQ_U64(ks_memory_budget(UINT64_C(1) << 30, UINT64_C(64) << 30), UINT64_C(256) << 20);
    EXPECT_EQ_U64(ks_memory_budget(0, UINT64_C(8) << 30), UINT64_C(1) << 30);
    EXPECT_EQ_U64(ks_memory_budget(UINT64_C(64) << 20, UINT64_C(8) << 30), UINT64_C(32) << 20);
    EXPECT(ks_memory_physical() > (UINT64_C(64) << 20));
}
