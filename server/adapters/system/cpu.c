/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/system/cpu.h"

#include "base/budget.h"
#include "base/log.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    ROOT_SIZE = 256,
    PATH_SIZE = 4608,   /* A root, a cgroup, a file. */
    CGROUP_SIZE = 4096, /* A path in /proc/self/cgroup. */
    DIRECTORY_SIZE = CGROUP_SIZE + 32,
    FILE_SIZE = 64 << 10, /* /proc/stat of a machine with a thousand CPUs. */
    CPUS_MAX = 65536,
    MOST_PERCENT = 100000, /* In thousandths. */
    DAYS_MAX = 400         /* Between two readings: more is no reading of ours. */
};

/* The files of a reading are read one after the other into this; it lies on the stack of the job. */
struct reader {
    const char *root;
    char path[PATH_SIZE];
    char text[FILE_SIZE];
};

const char *ks_cpu_place_name(enum ks_cpu_place place)
{
    switch (place) {
    case KS_CPU_POD: return "the pod";
    case KS_CPU_CONTAINER: return "our container";
    case KS_CPU_MACHINE: return "the machine";
    }
    assert(false);
    return NULL;
}

/* ---- Files ---- */

/* A file of /proc or /sys may come in parts. What is longer than there is room for is cut: no line that we look for is
 * so far behind. */
static bool read_file(struct reader *reader, const char *directory, const char *name,
                      ks_view *ret_text)
{
    const int length = snprintf(reader->path, PATH_SIZE, "%s%s/%s", reader->root, directory, name);
    size_t size = 0;
    ssize_t got = 1;
    int fd;

    if (length < 0 || length >= PATH_SIZE)
        return false;
    fd = open(reader->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return false;
    while (got > 0 && size < FILE_SIZE) {
        got = read(fd, reader->text + size, FILE_SIZE - size);
        size += got > 0 ? (size_t)got : 0;
    }
    (void)close(fd);
    *ret_text = ks_view_of(reader->text, size);
    return got >= 0 && size > 0;
}

static bool read_number(struct reader *reader, const char *directory, const char *name,
                        uint64_t *ret_number)
{
    ks_view text;

    return read_file(reader, directory, name, &text) &&
           ks_ok(ks_view_u64(ks_view_trim(text), ret_number));
}

/* "NAME NUMBER", one a line. */
static bool find_number(ks_view lines, ks_view name, uint64_t *ret_number)
{
    while (lines.size != 0) {
        ks_view line = ks_view_cut(&lines, '\n');

        if (ks_view_equal(ks_view_cut(&line, ' '), name))
            return ks_ok(ks_view_u64(ks_view_trim(line), ret_number));
    }
    return false;
}

/* "12345.67 ..": us. */
static bool read_uptime(struct reader *reader, uint64_t *ret_us)
{
    uint64_t seconds;
    uint64_t hundredths;
    ks_view whole;
    ks_view text;

    if (!read_file(reader, "/proc", "uptime", &text))
        return false;
    text = ks_view_cut(&text, ' ');
    whole = ks_view_cut(&text, '.');
    if (text.size != 2 || !ks_ok(ks_view_u64(whole, &seconds)) ||
        !ks_ok(ks_view_u64(text, &hundredths)) || seconds > UINT32_MAX)
        return false;
    *ret_us = seconds * 1000000 + hundredths * 10000;
    return true;
}

/* ---- The machine ---- */

static bool is_cpu(ks_view line)
{
    return line.size > 3 && ks_view_starts(line, KS_VIEW("cpu")) && line.data[3] >= '0' &&
           line.data[3] <= '9';
}

/* Thousandths of all CPUs. */
static bool count_cpus(struct reader *reader, uint64_t *ret_limit)
{
    uint64_t cpus = 0;
    ks_view text;

    if (!read_file(reader, "/proc", "stat", &text))
        return false;
    while (text.size != 0)
        cpus += is_cpu(ks_view_cut(&text, '\n'));
    *ret_limit = cpus * 1000;
    return cpus != 0;
}

/* "cpu  USER NICE SYSTEM IDLE IOWAIT IRQ SOFTIRQ STEAL GUEST ..": ticks; guests are users, too. */
static bool read_machine(struct reader *reader, struct ks_cpu_reading *reading)
{
    enum { IDLE = 3, IOWAIT = 4, FIRST_MIN = 4, COUNTED = 8 };
    const uint64_t most = UINT64_MAX / (2 * COUNTED);
    unsigned at = 0;
    ks_view line;
    ks_view text;

    if (!read_file(reader, "/proc", "stat", &text))
        return false;
    line = ks_view_cut(&text, '\n');
    if (!ks_view_equal(ks_view_cut(&line, ' '), KS_VIEW("cpu")))
        return false;
    line = ks_view_trim(line);
    *reading = (struct ks_cpu_reading){.place = KS_CPU_MACHINE, .limit = 1000};
    for (; at < COUNTED && line.size != 0; at++) {
        uint64_t ticks;

        if (!ks_ok(ks_view_u64(ks_view_cut(&line, ' '), &ticks)) || ticks > most)
            return false;
        reading->at += ticks;
        reading->used += at == IDLE || at == IOWAIT ? 0 : ticks;
    }
    return at >= FIRST_MIN;
}

/* ---- A cgroup ---- */

/* "max PERIOD", or "QUOTA PERIOD". */
static bool limit_v2(struct reader *reader, const char *directory, uint64_t *ret_limit)
{
    uint64_t quota;
    uint64_t period;
    ks_view first;
    ks_view text;

    if (!read_file(reader, directory, "cpu.max", &text))
        return false;
    text = ks_view_trim(text);
    first = ks_view_cut(&text, ' ');
    if (ks_view_equal(first, KS_VIEW("max")))
        return count_cpus(reader, ret_limit);
    if (!ks_ok(ks_view_u64(first, &quota)) || !ks_ok(ks_view_u64(text, &period)) || period == 0 ||
        quota > UINT32_MAX * UINT64_C(1000))
        return false;
    *ret_limit = quota * 1000 / period;
    return true;
}

static bool read_v2(struct reader *reader, const char *cgroup, struct ks_cpu_reading *reading)
{
    char directory[DIRECTORY_SIZE];
    ks_view text;

    (void)snprintf(directory, sizeof(directory), "/sys/fs/cgroup%s", cgroup);
    return limit_v2(reader, directory, &reading->limit) &&
           read_file(reader, directory, "cpu.stat", &text) &&
           find_number(text, KS_VIEW("usage_usec"), &reading->used);
}

/* No quota is -1. */
static bool limit_v1(struct reader *reader, const char *cgroup, uint64_t *ret_limit)
{
    char directory[DIRECTORY_SIZE];
    uint64_t quota;
    uint64_t period;
    ks_view text;

    (void)snprintf(directory, sizeof(directory), "/sys/fs/cgroup/cpu%s", cgroup);
    if (!read_file(reader, directory, "cpu.cfs_quota_us", &text))
        return false;
    text = ks_view_trim(text);
    if (ks_view_equal(text, KS_VIEW("-1")))
        return count_cpus(reader, ret_limit);
    if (!ks_ok(ks_view_u64(text, &quota)) || quota > UINT32_MAX * UINT64_C(1000) ||
        !read_number(reader, directory, "cpu.cfs_period_us", &period) || period == 0)
        return false;
    *ret_limit = quota * 1000 / period;
    return true;
}

/* Two hierarchies, which may be one. */
static bool read_v1(struct reader *reader, const char *cgroup, struct ks_cpu_reading *reading)
{
    char directory[DIRECTORY_SIZE];
    uint64_t ns;

    (void)snprintf(directory, sizeof(directory), "/sys/fs/cgroup/cpuacct%s", cgroup);
    if (!limit_v1(reader, cgroup, &reading->limit) ||
        !read_number(reader, directory, "cpuacct.usage", &ns))
        return false;
    reading->used = ns / 1000;
    return true;
}

/* ---- Which cgroup ---- */

/* True for the cgroup of a whole pod or task; the cgroups below it are its containers. */
static bool is_pod(ks_view before, ks_view name)
{
    if (ks_view_equal(before, KS_VIEW("ecs")))
        return true;
    return ks_view_starts(name, KS_VIEW("pod")) ||
           (ks_view_starts(name, KS_VIEW("kubepods")) && name.size > 8 &&
            memmem(name.data, name.size, "-pod", 4) != NULL);
}

/* The path up to the pod, if there is one on it. */
static bool cut_pod(ks_view path, ks_view *ret_pod)
{
    ks_view rest = path;
    ks_view before = KS_VIEW_NONE;

    while (rest.size != 0) {
        ks_view name = ks_view_cut(&rest, '/');

        /* Another namespace's root is above ours: it cannot be seen. */
        if (ks_view_equal(name, KS_VIEW("..")))
            return false;
        if (is_pod(before, name)) {
            *ret_pod = ks_view_of(path.data, (size_t)(name.data + name.size - path.data));
            return true;
        }
        before = name;
    }
    return false;
}

/* "0::PATH" of v2, "N:cpu,cpuacct:PATH" of v1. */
static bool cgroup_of(ks_view line, bool *ret_v2, ks_view *ret_path)
{
    const ks_view number = ks_view_cut(&line, ':');
    ks_view controllers = ks_view_cut(&line, ':');

    *ret_path = line;
    *ret_v2 = ks_view_equal(number, KS_VIEW("0")) && controllers.size == 0;
    while (!*ret_v2 && controllers.size != 0)
        if (ks_view_equal(ks_view_cut(&controllers, ','), KS_VIEW("cpuacct")))
            return true;
    return *ret_v2;
}

static bool read_pod(struct reader *reader, struct ks_cpu_reading *reading)
{
    char pods[2][CGROUP_SIZE] = {"",
                                 ""}; /* Of v1 and v2: what is read next is read into the same. */
    ks_view text;

    if (!read_file(reader, "/proc/self", "cgroup", &text))
        return false;
    while (text.size != 0) {
        ks_view path;
        ks_view pod;
        bool v2;

        if (cgroup_of(ks_view_cut(&text, '\n'), &v2, &path) && cut_pod(path, &pod) &&
            !ks_ok(ks_view_copy_text(pod, pods[v2], CGROUP_SIZE)))
            return false;
    }
    return (pods[1][0] == '/' && read_v2(reader, pods[1], reading)) ||
           (pods[0][0] == '/' && read_v1(reader, pods[0], reading));
}

/* The root of all cgroups has no limit: one that has is a container's own. */
static bool read_container(struct reader *reader, struct ks_cpu_reading *reading)
{
    return read_v2(reader, "", reading) || read_v1(reader, "", reading);
}

/* ---- Readings ---- */

static bool read_all(struct reader *reader, struct ks_cpu_reading *reading)
{
    if (read_uptime(reader, &reading->at)) {
        reading->place = KS_CPU_POD;
        if (read_pod(reader, reading))
            return true;
        reading->place = KS_CPU_CONTAINER;
        if (read_container(reader, reading))
            return true;
    }
    return read_machine(reader, reading);
}

ks_err ks_cpu_read(const char *root, struct ks_cpu_reading *ret_reading)
{
    struct ks_cpu_reading reading = {.used = 0};
    struct reader reader;

    reader.root = root;
    if (!read_all(&reader, &reading))
        return KS_FAIL(NOT_FOUND);
    *ret_reading = reading;
    return KS_OK;
}

uint32_t ks_cpu_between(const struct ks_cpu_reading *before, const struct ks_cpu_reading *now)
{
    const uint64_t most = DAYS_MAX * UINT64_C(86400) * 1000000;
    const uint64_t span = now->at - before->at;
    const uint64_t used = now->used - before->used;
    uint64_t could;

    if (before->place != now->place || now->at <= before->at || now->used < before->used ||
        span > most || now->limit == 0 || now->limit > CPUS_MAX * UINT64_C(1000))
        return UINT32_MAX;
    /* None of these overflows. */
    could = span / 1000 * now->limit + span % 1000 * now->limit / 1000;
    if (could == 0)
        return UINT32_MAX;
    if (used >= could)
        return MOST_PERCENT;
    if (could < UINT64_MAX / MOST_PERCENT)
        return (uint32_t)(used * MOST_PERCENT / could);
    return (uint32_t)(used / (could / MOST_PERCENT));
}

/* ---- By and by ---- */

struct ks_cpu {
    struct ks_loop *loop;
    ks_span every;
    void (*told)(void *arg, uint32_t cpu);
    void *arg;
    struct ks_timer timer;
    /* The job, and what it reads: nobody else touches these while it is away. */
    struct ks_job job;
    char root[ROOT_SIZE];
    struct ks_cpu_reading now;
    ks_err err;
    /* The loop's. */
    bool away;
    bool closed;
    bool begun;
    struct ks_cpu_reading before;
};

static void run(struct ks_job *job)
{
    struct ks_cpu *const cpu = KS_LIST_ENTRY(job, struct ks_cpu, job);

    cpu->err = ks_cpu_read(cpu->root, &cpu->now);
}

/* Said once, and when it becomes another. */
static void say_place(const struct ks_cpu *cpu)
{
    if (!cpu->begun || cpu->before.place != cpu->now.place)
        ks_info("the CPU that the fleet is told is that of %s", ks_cpu_place_name(cpu->now.place));
}

static void done(struct ks_job *job)
{
    struct ks_cpu *const cpu = KS_LIST_ENTRY(job, struct ks_cpu, job);
    const bool begun = cpu->begun;
    uint32_t used = UINT32_MAX;

    cpu->away = false;
    if (cpu->closed) {
        ks_free(cpu);
        return;
    }
    ks_loop_timer_set(cpu->loop, &cpu->timer, ks_instant_add(ks_loop_now(cpu->loop), cpu->every));
    if (ks_ok(cpu->err)) {
        say_place(cpu);
        if (begun)
            used = ks_cpu_between(&cpu->before, &cpu->now);
        cpu->before = cpu->now;
        cpu->begun = true;
    }
    if (begun || !ks_ok(cpu->err))
        cpu->told(cpu->arg, used);
}

static void due(struct ks_timer *timer)
{
    struct ks_cpu *const cpu = KS_LIST_ENTRY(timer, struct ks_cpu, timer);

    cpu->away = true;
    ks_loop_submit(cpu->loop, &cpu->job);
}

ks_err ks_cpu_open(struct ks_loop *loop, const char *root, ks_span every,
                   void (*told)(void *arg, uint32_t cpu), void *arg, struct ks_cpu **ret_cpu)
{
    struct ks_cpu *cpu;

    assert(every.us > 0);
    if (strlen(root) >= ROOT_SIZE)
        return KS_FAIL(INVALID);
    cpu = ks_alloc(sizeof(*cpu));
    if (cpu == NULL)
        return KS_FAIL(NO_MEMORY);
    *cpu = (struct ks_cpu){.loop = loop,
                           .every = every,
                           .told = told,
                           .arg = arg,
                           .timer.due = due,
                           .job = {.run = run, .done = done}};
    memcpy(cpu->root, root, strlen(root) + 1);
    due(&cpu->timer);
    *ret_cpu = cpu;
    return KS_OK;
}

void ks_cpu_close(struct ks_cpu *cpu)
{
    if (cpu == NULL)
        return;
    ks_loop_timer_clear(cpu->loop, &cpu->timer);
    cpu->closed = true;
    if (!cpu->away)
        ks_free(cpu);
}
