/* SPDX-License-Identifier: Apache-2.0 */
/* memory.h - how much memory this process may use: the limit of its cgroup, else of the machine.
 *
 * cgroup v2: /proc/self/cgroup has a line "0::/path"; memory.max under /sys/fs/cgroup/path and
 * under every folder above it, the smallest counts ("max" = none). cgroup v1: a line
 * "N:..,memory,..:/path"; memory.limit_in_bytes under /sys/fs/cgroup/memory/path. In a container
 * the path is often that of the host and not visible; then the root of the mount is the container's
 * own. (Linux, Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.)
 */
#ifndef KS_MAIN_MEMORY_H
#define KS_MAIN_MEMORY_H

#include <stdint.h>

/* The limit in bytes, 0 = none found. `root` stands before every path read: "" but in tests. */
uint64_t ks_memory_cgroup_limit(const char *root);
/* Bytes of memory of this machine. */
uint64_t ks_memory_physical(void);
/* The byte budget for payload: a quarter of the limit, or an eighth of the machine without one; at
 * least 32 MiB. */
uint64_t ks_memory_budget(uint64_t limit, uint64_t physical);

#endif
