/* SPDX-License-Identifier: Apache-2.0 */
#include "api/socket.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "api/limits.h"

enum { BACKLOG = 512, LOCK_MS = 1000 /* At most; ours take one. */ };

union name {
    struct sockaddr any;
    struct sockaddr_in four;
    struct sockaddr_in6 six;
    struct sockaddr_un path;
};

static int family_of(const struct ks_address *address)
{
    switch (address->kind) {
    case KS_ADDRESS_IPV4: return AF_INET;
    case KS_ADDRESS_IPV6: return AF_INET6;
    case KS_ADDRESS_UNIX: return AF_UNIX;
    }
    assert(false);
    return AF_UNSPEC;
}

/* The address as the kernel wants it; returns its size. */
static socklen_t name_of(const struct ks_address *address, union name *name)
{
    int parsed = 1;

    memset(name, 0, sizeof(*name));
    name->any.sa_family = (sa_family_t)family_of(address);
    if (address->kind == KS_ADDRESS_UNIX) {
        assert(strlen(address->path) < sizeof(name->path.sun_path));
        memcpy(name->path.sun_path, address->path, strlen(address->path) + 1);
        return sizeof(name->path);
    }
    if (address->kind == KS_ADDRESS_IPV4) {
        parsed = inet_pton(AF_INET, address->host, &name->four.sin_addr);
        name->four.sin_port = htons(address->port);
        assert(parsed == 1);
        return sizeof(name->four);
    }
    parsed = inet_pton(AF_INET6, address->host, &name->six.sin6_addr);
    name->six.sin6_port = htons(address->port);
    assert(parsed == 1);
    return sizeof(name->six);
}

static bool is_socket(const char *path)
{
    struct stat status;

    return lstat(path, &status) == 0 && S_ISSOCK(status.st_mode);
}

/* Of those that begin at once one takes the path at a time: a socket that is there and does not listen yet looks like
 * one that is left behind. Goes when it is closed; -1 where the folder cannot be locked, and somebody who keeps it
 * locked for another reason hinders nobody. */
static int lock_folder(const struct ks_address *address)
{
    const size_t size = (size_t)(strrchr(address->path, '/') - address->path);
    char folder[sizeof(address->path)] = "/";
    int fd;

    if (size > 0)
        (void)snprintf(folder, sizeof(folder), "%.*s", (int)size, address->path);
    fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int ms = 0; fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) != 0 && ms < LOCK_MS; ms++)
        (void)usleep(1000);
    return fd;
}

/* A socket file that nobody listens at is what a killed process left behind. */
static void remove_stale(const struct ks_address *address)
{
    union name name;
    socklen_t size = name_of(address, &name);
    int fd;

    if (!is_socket(address->path))
        return;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    if (connect(fd, &name.any, size) != 0 && errno == ECONNREFUSED)
        (void)unlink(address->path);
    (void)close(fd);
}

static ks_err bind_and_listen(const struct ks_address *address, int fd)
{
    union name name;
    socklen_t size = name_of(address, &name);

    if (bind(fd, &name.any, size) != 0)
        return errno == EADDRINUSE ? KS_FAIL(EXISTS) : KS_FAIL(SYSTEM);
    /* Containers of one pod have users of their own and share a group. */
    if (address->kind == KS_ADDRESS_UNIX && chmod(address->path, 0660) != 0)
        return KS_FAIL(SYSTEM);
    if (listen(fd, BACKLOG) != 0)
        return errno == EADDRINUSE ? KS_FAIL(EXISTS) : KS_FAIL(SYSTEM);
    return KS_OK;
}

static ks_err begin_at_path(const struct ks_address *address, int fd)
{
    int lock = lock_folder(address);
    ks_err err;
    int problem;

    remove_stale(address);
    err = bind_and_listen(address, fd);
    problem = errno;
    if (lock >= 0)
        (void)close(lock);
    errno = problem;
    return err;
}

static ks_err begin(const struct ks_address *address, int fd)
{
    int on = 1;

    if (address->kind == KS_ADDRESS_UNIX)
        return begin_at_path(address, fd);
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0)
        return KS_FAIL(SYSTEM);
    if (address->kind == KS_ADDRESS_IPV6 &&
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) != 0)
        return KS_FAIL(SYSTEM);
    return bind_and_listen(address, fd);
}

ks_err ks_socket_listen(const struct ks_address *address, int *ret_fd, struct ks_detail *detail)
{
    char text[KS_SOCKET_TEXT_SIZE];
    int fd = socket(family_of(address), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    ks_err err = fd < 0 ? KS_FAIL(SYSTEM) : begin(address, fd);
    int problem = errno;

    if (ks_ok(err)) {
        *ret_fd = fd;
        return KS_OK;
    }
    ks_socket_text(address, -1, text);
    if (ks_err_is(err, KS_ERR_EXISTS) && address->kind == KS_ADDRESS_UNIX &&
        !is_socket(address->path))
        ks_detail_set(detail,
                      "%s: a file of another kind is at this path; choose another address with "
                      "--listen or --ops-listen",
                      text);
    else if (ks_err_is(err, KS_ERR_EXISTS))
        ks_detail_set(detail,
                      "%s is in use: another process listens there; choose another address with "
                      "--listen or --ops-listen",
                      text);
    else
        ks_detail_set(detail, "cannot listen at %s: %s", text, strerror(problem));
    if (fd >= 0)
        (void)close(fd);
    return err;
}

void ks_socket_text(const struct ks_address *address, int fd, char buffer[KS_SOCKET_TEXT_SIZE])
{
    union name name;
    socklen_t size = name_of(address, &name);
    int written = 0;

    if (fd >= 0 && getsockname(fd, &name.any, &size) != 0)
        assert(false);
    switch (address->kind) {
    case KS_ADDRESS_IPV4:
        written = snprintf(buffer, KS_SOCKET_TEXT_SIZE, "%s:%u", address->host,
                           ntohs(name.four.sin_port));
        break;
    case KS_ADDRESS_IPV6:
        written = snprintf(buffer, KS_SOCKET_TEXT_SIZE, "[%s]:%u", address->host,
                           ntohs(name.six.sin6_port));
        break;
    case KS_ADDRESS_UNIX:
        written = snprintf(buffer, KS_SOCKET_TEXT_SIZE, "unix:%s", address->path);
        break;
    }
    assert(written > 0 && written < KS_SOCKET_TEXT_SIZE);
}

size_t ks_socket_room(int fd)
{
    int unsent = 0;

    if (ioctl(fd, SIOCOUTQNSD, &unsent) != 0 || unsent < 0)
        return KS_NOTSENT_BYTES;
    return unsent < KS_NOTSENT_BYTES ? (size_t)(KS_NOTSENT_BYTES - unsent) : 0;
}
