/* SPDX-License-Identifier: Apache-2.0 */
#include "main/memory.h"

#include "base/bytes.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    PATH_SIZE = 1024, /* cgroup paths of Kubernetes have up to about 250 characters. */
    FILE_SIZE = 8192  /* /proc/self/cgroup: up to about 20 lines of them. */
};
/* v1 says "no limit" as the largest number of pages there is; nobody has a quarter of that. */
static const uint64_t no_limit = UINT64_C(1) << 61;

/* What a small file holds; empty if it cannot be read. */
static ks_view read_file(const char *root, const char *path, char buffer[FILE_SIZE])
{
    char full[PATH_SIZE];
    int length = snprintf(full, sizeof full, "%s%s", root, path);
    ssize_t size;
    int fd;

    if (length < 0 || (size_t)length >= sizeof full)
        return KS_VIEW_NONE;
    fd = open(full, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return KS_VIEW_NONE;
    size = read(fd, buffer, FILE_SIZE);
    (void)close(fd);
    return size < 0 ? KS_VIEW_NONE : ks_view_of(buffer, (size_t)size);
}

/* The number in such a file, 0 for none. */
static uint64_t read_limit(const char *root, const char *path)
{
    char buffer[FILE_SIZE];
    uint64_t limit;

    if (!ks_ok(ks_view_u64(ks_view_trim(read_file(root, path, buffer)), &limit)))
        return 0;
    return limit < no_limit ? limit : 0;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    if (a == 0 || b == 0)
        return a == 0 ? b : a;
    return a < b ? a : b;
}

/* The smallest limit of `folder` under `mount` and of all above it. */
static uint64_t limit_upwards(const char *root, const char *mount, ks_view folder, const char *file)
{
    uint64_t limit = 0;

    for (;;) {
        char path[PATH_SIZE];
        int length = snprintf(path, sizeof path, "%s%.*s/%s", mount, (int)folder.size,
                              (const char *)folder.data, file);

        if (length > 0 && (size_t)length < sizeof path)
            limit = smaller(limit, read_limit(root, path));
        if (folder.size == 0)
            return limit;
        while (folder.size > 0 && folder.data[folder.size - 1] != '/')
            folder.size--;
        if (folder.size > 0)
            folder.size--;
    }
}

static bool lists_memory(ks_view controllers)
{
    while (controllers.data != NULL) {
        if (ks_view_equal(ks_view_cut(&controllers, ','), KS_VIEW("memory")))
            return true;
    }
    return false;
}

uint64_t ks_memory_cgroup_limit(const char *root)
{
    char buffer[FILE_SIZE];
    ks_view lines = read_file(root, "/proc/self/cgroup", buffer);
    uint64_t limit = 0;

    while (lines.data != NULL && lines.size > 0) {
        ks_view folder = ks_view_cut(&lines, '\n');
        ks_view number = ks_view_cut(&folder, ':');
        ks_view controllers = ks_view_cut(&folder, ':');

        if (folder.data == NULL)
            continue;
        if (folder.size == 1)
            folder.size = 0; /* "/" */
        if (ks_view_equal(number, KS_VIEW("0")) && controllers.size == 0)
            limit = smaller(limit, limit_upwards(root, "/sys/fs/cgroup", folder, "memory.max"));
        else if (lists_memory(controllers))
            limit = smaller(limit, limit_upwards(root, "/sys/fs/cgroup/memory", folder,
                                                 "memory.limit_in_bytes"));
    }
    return limit;
}

uint64_t ks_memory_physical(void)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    long size = sysconf(_SC_PAGESIZE);

    return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 0;
}

uint64_t ks_memory_budget(uint64_t limit, uint64_t physical)
{
    const uint64_t least = UINT64_C(32) << 20;
    uint64_t budget = limit > 0 ? limit / 4 : physical / 8;

    return budget > least ? budget : least;
}
