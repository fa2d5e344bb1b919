/* SPDX-License-Identifier: Apache-2.0 */
/* file.h - the input as a file, which goes with the process, and with what SQLite puts beside it. */
#ifndef KS_FUZZ_FILE_H
#define KS_FUZZ_FILE_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char path[64];

static inline void remove_files(void)
{
    static const char *const ends[] = {"", "-wal", "-shm", "-journal"};
    char name[80];

    for (size_t at = 0; at < sizeof(ends) / sizeof(ends[0]); at++) {
        (void)snprintf(name, sizeof(name), "%s%s", path, ends[at]);
        (void)unlink(name);
    }
}

/* Writes the file `path` anew. */
static inline void write_file(const uint8_t *data, size_t size)
{
    if (path[0] == '\0') {
        (void)snprintf(path, sizeof(path), "/dev/shm/ks-fuzz-%d", (int)getpid());
        (void)atexit(remove_files);
    }
    remove_files();
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    (void)close(fd);
}

#endif
