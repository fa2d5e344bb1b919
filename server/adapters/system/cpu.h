/* SPDX-License-Identifier: Apache-2.0 */
/* cpu.h - how much of the CPU that it may use the place where we run does use, as the fleet of KCL 3.x is told.
 *
 * What is measured is the first of these that can be seen; all of it is read by a job, never on the loop:
 *
 *   the pod      the cgroup of the Kubernetes pod, or of the ECS task: the app's container and ours. Only where the
 *                machine's cgroups are mounted, or the pod's own namespace of them is (/proc/self/cgroup names it)
 *   our container  of cgroup v2, or v1. The app's container cannot be seen from it: where the two are apart, the fleet
 *                takes our load for the app's. It is told once which one it is
 *   the machine  /proc/stat
 *
 * Of a cgroup: the growth of its usage since the last reading, in percent of its quota (v2 cpu.stat, cpu.max; v1
 * cpuacct.usage, cpu.cfs_quota_us, cpu.cfs_period_us) or, without one, of all CPUs. Formats: admin-guide/cgroup-v2,
 * cgroup-v1/cpuacct, scheduler/sched-bwc and proc(5) of Linux. Loop thread, but for ks_cpu_read.
 */
#ifndef KS_ADAPTERS_SYSTEM_CPU_H
#define KS_ADAPTERS_SYSTEM_CPU_H

#include "base/bytes.h"
#include "base/loop.h"

enum ks_cpu_place { KS_CPU_POD, KS_CPU_CONTAINER, KS_CPU_MACHINE };

/* "the pod", for logs. */
const char *ks_cpu_place_name(enum ks_cpu_place place);

struct ks_cpu_reading {
    enum ks_cpu_place place;
    uint64_t used;  /* Since ever: us; of the machine: ticks. */
    uint64_t at;    /* When, in us since boot; of the machine: all ticks. */
    uint64_t limit; /* Thousandths of a CPU; of the machine: 1000. */
};

/* Reads below `root` ("" is the machine's own). Blocks: for jobs and tests. NOT_FOUND: nothing of the above is there in
 * a form that we know. */
KS_MUST_USE ks_err ks_cpu_read(const char *root, struct ks_cpu_reading *ret_reading);
/* Between the two, in thousandths of a percent, at most 100000; UINT32_MAX if it cannot be told. */
uint32_t ks_cpu_between(const struct ks_cpu_reading *before, const struct ks_cpu_reading *now);

struct ks_cpu;

/* Tells every `every` what was used since the time before, as ks_cpu_between; the first time after one `every`. `root`
 * is copied, at most 255 characters: INVALID. NO_MEMORY. */
KS_MUST_USE ks_err ks_cpu_open(struct ks_loop *loop, const char *root, ks_span every,
                               void (*told)(void *arg, uint32_t cpu), void *arg,
                               struct ks_cpu **ret_cpu);
/* NULL is allowed. Nothing is told any more. */
void ks_cpu_close(struct ks_cpu *cpu);

#endif
