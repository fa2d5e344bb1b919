/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/system/lock_file.h"

#include "base/budget.h"
#include "base/codec.h"
#include "base/digest.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

enum { NAME_BYTES = 16, BOOT_DIGITS = 16, LINE_SIZE = BOOT_DIGITS + 1, PATH_SIZE = 4096 };

struct lock_file {
    struct ks_worker_lock port;
    struct ks_loop *loop;
    struct ks_job_queue *queue;
    int fd;
    /* The job, and what it was given: it touches nothing else. */
    struct ks_job job;
    uint64_t boot;
    ks_err err;
    /* The loop's. */
    bool away; /* The job is queued or running. */
    bool closed;
    void (*written)(void *arg, uint64_t boot, ks_err err);
    void *arg;
};

static struct lock_file *of_port(struct ks_worker_lock *port)
{
    return KS_LIST_ENTRY(port, struct lock_file, port);
}

static void file_free(struct lock_file *file)
{
    if (file->fd >= 0)
        (void)close(file->fd);
    ks_loop_queue_close(file->queue);
    ks_free(file);
}

static ks_err err_of(int number)
{
    switch (number) {
    case EACCES:
    case EPERM:
    case EROFS: return KS_FAIL(DENIED);
    case ENOSPC:
    case EDQUOT:
    case EIO: return KS_FAIL(DISK);
    case ENOMEM: return KS_FAIL(NO_MEMORY);
    case ENOENT:
    case ENOTDIR: return KS_FAIL(NOT_FOUND);
    default: return KS_FAIL(SYSTEM);
    }
}

/* ---- The line. ---- */

/* 0 if it names none. */
static uint64_t read_boot(int fd)
{
    uint8_t bytes[BOOT_DIGITS / 2];
    char line[LINE_SIZE + 1];
    uint64_t boot = 0;
    ssize_t size = pread(fd, line, sizeof line, 0);

    if (size != LINE_SIZE || line[BOOT_DIGITS] != '\n' ||
        !ks_ok(ks_hex_decode(ks_view_of(line, BOOT_DIGITS), bytes)))
        return 0;
    for (size_t i = 0; i < sizeof bytes; i++)
        boot = boot << 8 | bytes[i];
    return boot;
}

static void run(struct ks_job *job)
{
    struct lock_file *file = KS_LIST_ENTRY(job, struct lock_file, job);
    char line[LINE_SIZE + 1];

    (void)snprintf(line, sizeof line, "%016" PRIx64 "\n", file->boot);
    file->err = KS_OK;
    if (pwrite(file->fd, line, LINE_SIZE, 0) != LINE_SIZE || ftruncate(file->fd, LINE_SIZE) != 0 ||
        fsync(file->fd) != 0)
        file->err = err_of(errno);
}

static void done(struct ks_job *job)
{
    struct lock_file *file = KS_LIST_ENTRY(job, struct lock_file, job);

    file->away = false;
    if (file->closed)
        file_free(file);
    else
        file->written(file->arg, file->boot, file->err);
}

/* ---- The port. ---- */

static void write_boot(struct ks_worker_lock *port, uint64_t boot,
                       void (*written)(void *arg, uint64_t boot, ks_err err), void *arg)
{
    struct lock_file *file = of_port(port);

    assert(!file->away);
    assert(boot != 0);

    file->away = true;
    file->boot = boot;
    file->written = written;
    file->arg = arg;
    ks_loop_submit_to(file->loop, file->queue, &file->job);
}

static void close_file(struct ks_worker_lock *port)
{
    struct lock_file *file = of_port(port);

    file->closed = true;
    if (!file->away)
        file_free(file);
}

static const struct ks_worker_lock_vtable vtable = {.write = write_boot, .close = close_file};

/* ---- Opening. ---- */

/* Durable is a new file only with its name. */
static int sync_directory(const char *directory)
{
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int failed = fd < 0 ? -1 : fsync(fd);

    if (fd >= 0)
        (void)close(fd);
    return failed;
}

static ks_err path_of(const char *directory, const char *application, const char *worker_id,
                      char ret_path[PATH_SIZE])
{
    uint8_t digest[KS_SHA256_SIZE];
    char hex[2 * NAME_BYTES + 1] = "";
    struct ks_bytes key;
    ks_err err;
    int size;

    ks_bytes_init(&key, 4096);
    err = ks_bytes_append(&key, ks_view_text(application));
    if (ks_ok(err))
        err = ks_bytes_append_byte(&key, 0);
    if (ks_ok(err))
        err = ks_bytes_append(&key, ks_view_text(worker_id));
    if (ks_ok(err))
        ks_sha256(ks_bytes_view(&key), digest);
    ks_bytes_free(&key);
    KS_TRY(err);

    ks_hex_encode(ks_view_of(digest, NAME_BYTES), hex);
    size = snprintf(ret_path, PATH_SIZE, "%s/worker-%s.lock", directory, hex);
    return size > 0 && size < PATH_SIZE ? KS_OK : KS_FAIL(INVALID);
}

static ks_err take(struct lock_file *file, const char *directory, const char *path,
                   const char *worker_id, struct ks_detail *ret_detail)
{
    file->fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file->fd < 0)
        return ks_err_because(err_of(errno), ret_detail, "lock file %.80s: %s", path,
                              strerror(errno));
    if (flock(file->fd, LOCK_EX | LOCK_NB) != 0) {
        if (errno == EWOULDBLOCK)
            return ks_err_because(KS_FAIL(BUSY), ret_detail,
                                  "worker id %.60s is alive on this machine under boot %016" PRIx64
                                  "; stop that process or choose another --worker-id",
                                  worker_id, read_boot(file->fd));
        return ks_err_because(err_of(errno), ret_detail, "lock file %.80s: %s", path,
                              strerror(errno));
    }
    if (sync_directory(directory) != 0)
        return ks_err_because(err_of(errno), ret_detail, "%.100s: %s", directory, strerror(errno));
    file->port.corpse = read_boot(file->fd);
    return KS_OK;
}

ks_err ks_lock_file_open(struct ks_loop *loop, const char *directory, const char *application,
                         const char *worker_id, struct ks_worker_lock **ret_lock,
                         struct ks_detail *ret_detail)
{
    char path[PATH_SIZE];
    struct lock_file *file;
    ks_err err;

    err = path_of(directory, application, worker_id, path);
    if (!ks_ok(err))
        return ks_err_because(err, ret_detail, "the directory of the lock file: %s",
                              ks_err_text(err));
    file = ks_alloc(sizeof *file);
    if (file == NULL)
        return KS_FAIL(NO_MEMORY);
    file->port.vtable = &vtable;
    file->loop = loop;
    file->fd = -1;
    file->job = (struct ks_job){.run = run, .done = done};
    err = take(file, directory, path, worker_id, ret_detail);
    if (ks_ok(err))
        err = ks_loop_queue_new(loop, &file->queue);
    if (!ks_ok(err)) {
        file_free(file);
        return err;
    }
    *ret_lock = &file->port;
    return KS_OK;
}
