/* SPDX-License-Identifier: Apache-2.0 */
#include "aws/credentials/file.h"

#include "aws/limits.h"
#include "base/budget.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

struct ks_file {
    struct ks_job job; /* First: the loop gives its address back. */
    char path[KS_PATH_MAX + 1];
    void (*done)(void *arg, ks_err err, ks_view content);
    void *arg;
    ks_err err;
    size_t size;
    size_t capacity;
    uint8_t content[];
};

static ks_err err_of(int error)
{
    switch (error) {
    case ENOENT:
    case ENOTDIR: return KS_FAIL(NOT_FOUND);
    case EACCES:
    case EPERM: return KS_FAIL(DENIED);
    default: return KS_FAIL(SYSTEM);
    }
}

ks_err ks_file_read_now(const char *path, uint8_t *buffer, size_t capacity, size_t *ret_size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    ks_err err = fd < 0 ? err_of(errno) : KS_OK;
    size_t size = 0;
    ssize_t got = 1;

    if (fd < 0)
        return err;
    while (got != 0 && size < capacity) {
        got = read(fd, buffer + size, capacity - size);
        if (got > 0)
            size += (size_t)got;
        if (got < 0 && errno != EINTR) {
            err = err_of(errno);
            break;
        }
    }
    (void)close(fd);
    KS_TRY(err);
    /* A file that fills the buffer may be longer. */
    if (size == capacity)
        return KS_FAIL(FULL);
    *ret_size = size;
    return KS_OK;
}

/* On the job thread. */
static void run(struct ks_job *job)
{
    struct ks_file *file = (struct ks_file *)job;

    file->err = ks_file_read_now(file->path, file->content, file->capacity, &file->size);
}

static void finish(struct ks_job *job)
{
    struct ks_file *file = (struct ks_file *)job;
    ks_view content = ks_ok(file->err) ? ks_view_of(file->content, file->size) : KS_VIEW_NONE;

    if (file->done != NULL)
        file->done(file->arg, file->err, content);
    explicit_bzero(file->content, file->capacity);
    ks_free(file);
}

ks_err ks_file_read(struct ks_loop *loop, const char *path, size_t max,
                    void (*done)(void *arg, ks_err err, ks_view content), void *arg,
                    struct ks_file **ret_file)
{
    struct ks_file *file;

    if (path[0] == '\0' || strlen(path) > KS_PATH_MAX)
        return KS_FAIL(INVALID);
    file = ks_alloc(sizeof(*file) + max + 1);
    if (file == NULL)
        return KS_FAIL(NO_MEMORY);
    file->job = (struct ks_job){.run = run, .done = finish};
    memcpy(file->path, path, strlen(path) + 1);
    file->done = done;
    file->arg = arg;
    file->capacity = max + 1;
    ks_loop_submit(loop, &file->job);
    *ret_file = file;
    return KS_OK;
}

void ks_file_forget(struct ks_file *file)
{
    file->done = NULL;
}
