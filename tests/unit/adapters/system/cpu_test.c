/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/system/cpu.h"

#include "base/budget.h"
#include "ks_test.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file of a machine that the test makes, with the folders that lead to it. */
static void put(const char *name, const char *text)
{
    char path[1024];
    int fd;

    (void)snprintf(path, sizeof(path), "%s%s", ks_test_dir(), name);
    for (char *at = path + strlen(ks_test_dir()) + 1; *at != '\0'; at++) {
        if (*at != '/')
            continue;
        *at = '\0';
        (void)mkdir(path, 0700);
        *at = '/';
    }
    fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    EXPECT(fd >= 0);
    EXPECT(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    EXPECT_EQ_I64(close(fd), 0);
}

#define FOUR_CPUS                                                                                  \
    "cpu  400 0 100 1500 0 0 0 0 0 0\n"                                                            \
    "cpu0 1 0 0 0\ncpu1 1 0 0 0\ncpu2 1 0 0 0\ncpu3 1 0 0 0\nintr 1 2 3\ncpufreq 1\n"

static struct ks_cpu_reading must_read(void)
{
    struct ks_cpu_reading reading = {.used = 0};

    EXPECT_OK(ks_cpu_read(ks_test_dir(), &reading));
    return reading;
}

#define POD "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1a_2b.slice"

TEST(the_pod_comes_first)
{
    struct ks_cpu_reading before;
    struct ks_cpu_reading now;

    put("/proc/uptime", "100.00 55.00\n");
    put("/proc/stat", FOUR_CPUS);
    put("/proc/self/cgroup", "0::" POD "/cri-containerd-77.scope\n");
    put("/sys/fs/cgroup" POD "/cpu.max", "200000 100000\n");
    put("/sys/fs/cgroup" POD "/cpu.stat", "user_usec 1\nusage_usec 5000000\nsystem_usec 1\n");
    put("/sys/fs/cgroup/cpu.max", "50000 100000\n");
    put("/sys/fs/cgroup/cpu.stat", "usage_usec 7\n");
    before = must_read();
    EXPECT_EQ_I64(before.place, KS_CPU_POD);
    EXPECT_EQ_I64(before.limit, 2000);
    EXPECT_EQ_I64(before.used, 5000000);
    put("/proc/uptime", "130.00 55.00\n");
    put("/sys/fs/cgroup" POD "/cpu.stat", "usage_usec 20000000\n");
    now = must_read();
    /* 15 s of the 60 s that two CPUs have in 30 s. */
    EXPECT_EQ_I64(ks_cpu_between(&before, &now), 25000);
}

TEST(what_cannot_be_seen_is_our_container)
{
    put("/proc/uptime", "100.00 55.00\n");
    put("/proc/stat", FOUR_CPUS);
    put("/proc/self/cgroup", "0::/../cri-containerd-77.scope\n");
    put("/sys/fs/cgroup/cpu.max", "max 100000\n");
    put("/sys/fs/cgroup/cpu.stat", "usage_usec 7\n");
    EXPECT_EQ_I64(must_read().place, KS_CPU_CONTAINER);
    EXPECT_EQ_I64(must_read().limit, 4000);
    put("/proc/self/cgroup", "0::" POD "/cri-containerd-77.scope\n");
    EXPECT_EQ_I64(must_read().place, KS_CPU_CONTAINER);
}

TEST(two_hierarchies_of_v1)
{
    put("/proc/uptime", "100.00 55.00\n");
    put("/proc/stat", FOUR_CPUS);
    put("/proc/self/cgroup", "4:memory:/ecs/task1/c1\n3:cpu,cpuacct:/ecs/task1/c1\n0::/\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    put("/sys/fs/cgroup/cpuacct/cpuacct.usage", "5000\n");
    EXPECT_EQ_I64(must_read().place, KS_CPU_CONTAINER);
    EXPECT_EQ_I64(must_read().limit, 4000);
    EXPECT_EQ_I64(must_read().used, 5);
    put("/sys/fs/cgroup/cpu/ecs/task1/cpu.cfs_quota_us", "150000\n");
    put("/sys/fs/cgroup/cpu/ecs/task1/cpu.cfs_period_us", "100000\n");
    put("/sys/fs/cgroup/cpuacct/ecs/task1/cpuacct.usage", "9000\n");
    EXPECT_EQ_I64(must_read().place, KS_CPU_POD);
    EXPECT_EQ_I64(must_read().limit, 1500);
    EXPECT_EQ_I64(must_read().used, 9);
}

TEST(the_machine_comes_last)
{
    struct ks_cpu_reading before;
    struct ks_cpu_reading now;

    put("/proc/uptime", "100.00 55.00\n");
    put("/proc/stat", FOUR_CPUS);
    put("/proc/self/cgroup", "0::/system.slice/docker.service\n");
    put("/sys/fs/cgroup/system.slice/docker.service/cpu.max", "max 100000\n");
    put("/sys/fs/cgroup/cpu.stat", "usage_usec 7\n");
    before = must_read();
    EXPECT_EQ_I64(before.place, KS_CPU_MACHINE);
    EXPECT_EQ_I64(before.used, 500);
    EXPECT_EQ_I64(before.at, 2000);
    put("/proc/stat", "cpu  500 0 100 1600 50 10 20 20 999 999\n");
    now = must_read();
    EXPECT_EQ_I64(ks_cpu_between(&before, &now), 50000);
}

TEST(files_that_make_no_sense_are_passed_over)
{
    static const char *const uptimes[] = {"", "soon", "1.2.3", "99999999999999999999.00 1",
                                          "-1.00 1"};
    static const char *const limits[] = {
        "", "max", "1 0", "0x10 100000", "99999999999999999999 1", "1000 100000 7"};
    static char long_line[80 << 10];
    struct ks_cpu_reading reading;

    EXPECT_ERR(ks_cpu_read(ks_test_dir(), &reading), NOT_FOUND);
    put("/proc/stat", "cpu  1 2\n");
    EXPECT_ERR(ks_cpu_read(ks_test_dir(), &reading), NOT_FOUND);
    put("/proc/stat", "cpu  99999999999999999999 2 3 4\n");
    EXPECT_ERR(ks_cpu_read(ks_test_dir(), &reading), NOT_FOUND);
    put("/proc/stat", "cpu  18446744073709551615 18446744073709551615 3 4\n");
    EXPECT_ERR(ks_cpu_read(ks_test_dir(), &reading), NOT_FOUND);
    put("/proc/stat", "cpu  1 2 3 4\n"); /* And no CPU. */
    put("/sys/fs/cgroup/cpu.stat", "usage_usec 7\n");
    put("/sys/fs/cgroup/cpu.max", "100000 100000\n");
    for (size_t at = 0; at < sizeof(uptimes) / sizeof(uptimes[0]); at++) {
        put("/proc/uptime", uptimes[at]);
        EXPECT_EQ_I64(must_read().place, KS_CPU_MACHINE);
    }
    put("/proc/uptime", "100.00 55.00\n");
    EXPECT_EQ_I64(must_read().place, KS_CPU_CONTAINER);
    for (size_t at = 0; at < sizeof(limits) / sizeof(limits[0]); at++) {
        put("/sys/fs/cgroup/cpu.max", limits[at]);
        EXPECT_EQ_I64(must_read().place, KS_CPU_MACHINE);
    }
    put("/sys/fs/cgroup/cpu.max", "100000 100000\n");
    memset(long_line, '/', sizeof(long_line) - 1);
    put("/proc/self/cgroup", long_line);
    put("/sys/fs/cgroup/cpu.stat", long_line);
    EXPECT_EQ_I64(must_read().place, KS_CPU_MACHINE);
}

TEST(what_did_not_grow_is_not_told)
{
    const struct ks_cpu_reading before = {
        .place = KS_CPU_POD, .used = 1000000, .at = 10000000, .limit = 1000};
    struct ks_cpu_reading now = before;

    EXPECT(ks_cpu_between(&before, &now) == UINT32_MAX);
    now.at = 20000000;
    EXPECT_EQ_I64(ks_cpu_between(&before, &now), 0);
    now.used = 999999;
    EXPECT(ks_cpu_between(&before, &now) == UINT32_MAX);
    now.used = UINT64_MAX;
    EXPECT_EQ_I64(ks_cpu_between(&before, &now), 100000);
    now.used = 1100000;
    EXPECT_EQ_I64(ks_cpu_between(&before, &now), 1000);
    now.limit = 0;
    EXPECT(ks_cpu_between(&before, &now) == UINT32_MAX);
    now.limit = UINT64_MAX;
    EXPECT(ks_cpu_between(&before, &now) == UINT32_MAX);
    now.limit = 1000;
    now.place = KS_CPU_MACHINE;
    EXPECT(ks_cpu_between(&before, &now) == UINT32_MAX);
    now.place = KS_CPU_POD;
    now.at = UINT64_MAX;
    EXPECT(ks_cpu_between(&before, &now) == UINT32_MAX);
}

/* ---- By and by ---- */

static struct ks_loop *loop;
static uint32_t told[2];
static uint32_t told_count;

static void tell(void *arg, uint32_t cpu)
{
    EXPECT(arg == &told_count);
    told[told_count++] = cpu;
    if (told_count == 2)
        ks_loop_stop(loop);
    put("/proc/uptime", "102.00 55.00\n");
    put("/sys/fs/cgroup/cpu.stat", "usage_usec 1600000\n");
}

TEST(it_is_told_by_and_by)
{
    struct ks_cpu *cpu = NULL;
    int64_t live;

    put("/proc/uptime", "101.00 55.00\n");
    put("/sys/fs/cgroup/cpu.max", "100000 100000\n");
    put("/sys/fs/cgroup/cpu.stat", "usage_usec 1000000\n");
    EXPECT_OK(ks_loop_new(&loop));
    EXPECT_OK(ks_cpu_open(loop, ks_test_dir(), ks_span_ms(5), tell, &told_count, &cpu));
    ks_loop_run(loop);
    EXPECT(told[0] == UINT32_MAX); /* The clock stood still. */
    EXPECT_EQ_I64(told[1], 60000);
    ks_cpu_close(cpu);
    ks_cpu_close(NULL);
    live = ks_alloc_live();
    EXPECT_OK(ks_cpu_open(loop, ks_test_dir(), ks_span_ms(5), tell, &told_count, &cpu));
    ks_cpu_close(cpu); /* While it is being read. */
    ks_loop_await_jobs(loop, ks_span_ms(20000));
    EXPECT_EQ_I64(ks_alloc_live(), live);
    ks_loop_free(loop);
}
