/* SPDX-License-Identifier: Apache-2.0 */
#include "api/socket.h"
#include "api/limits.h"
#include "ks_test.h"

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static struct ks_detail detail;

static struct ks_address address_of(const char *text)
{
    struct ks_address address;

    EXPECT_OK(ks_address_parse(ks_view_text(text), &address, &detail));
    return address;
}

TEST(port_0_becomes_a_port_that_is_then_in_use)
{
    struct ks_address any = address_of("127.0.0.1:0");
    struct ks_address taken;
    char text[KS_SOCKET_TEXT_SIZE];
    int fd;
    int other;

    EXPECT_OK(ks_socket_listen(&any, &fd, &detail));
    ks_socket_text(&any, fd, text);
    EXPECT(strncmp(text, "127.0.0.1:", 10) == 0 && strcmp(text, "127.0.0.1:0") != 0);
    taken = address_of(text);
    EXPECT_ERR(ks_socket_listen(&taken, &other, &detail), EXISTS);
    EXPECT_CONTAINS(detail.text, text);
    EXPECT_CONTAINS(detail.text, "in use");
    (void)close(fd);
}

TEST(a_socket_file_of_a_dead_process_is_replaced_and_a_live_one_is_not)
{
    struct ks_address address = {.kind = KS_ADDRESS_UNIX};
    char text[KS_SOCKET_TEXT_SIZE];
    int fd;
    int other;

    (void)snprintf(address.path, sizeof(address.path), "%s", ks_test_path("socket"));
    EXPECT_OK(ks_socket_listen(&address, &fd, &detail));
    EXPECT_ERR(ks_socket_listen(&address, &other, &detail), EXISTS);
    (void)close(fd);
    EXPECT_OK(ks_socket_listen(&address, &fd, &detail));
    ks_socket_text(&address, fd, text);
    EXPECT_CONTAINS(text, "unix:/");
    (void)close(fd);
}

enum { MANY = 16 };
static struct ks_address shared;
static _Atomic uint32_t *tried; /* How many of the processes have. */

static void name_shared(int round)
{
    shared = (struct ks_address){.kind = KS_ADDRESS_UNIX};
    (void)snprintf(shared.path, sizeof(shared.path), "%s/%d", ks_test_dir(), round);
    if (tried == NULL)
        tried =
            mmap(NULL, sizeof(*tried), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT(tried != MAP_FAILED);
    *tried = 0;
}

static bool is_reached(int listener)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);

    /* Those who only looked whether somebody listens. */
    while (accept(listener, NULL, NULL) >= 0)
        continue;
    (void)snprintf(name.sun_path, sizeof(name.sun_path), "%s", shared.path);
    return connect(fd, (struct sockaddr *)&name, sizeof(name)) == 0 &&
           accept(listener, NULL, NULL) >= 0;
}

/* 0: it listens, and is found there when all others have tried. 1: it was told that somebody else does. */
static int listen_and_stay(uint32_t which)
{
    int fd;
    ks_err err = ks_socket_listen(&shared, &fd, &detail);

    (void)which;
    (*tried)++;
    if (ks_err_is(err, KS_ERR_EXISTS))
        return 1;
    if (!ks_ok(err))
        return 2;
    while (*tried < MANY)
        (void)usleep(200);
    return is_reached(fd) ? 0 : 3;
}

TEST(of_processes_that_come_at_once_one_listens)
{
    for (int round = 0; round < 100; round++) {
        int fd;

        name_shared(round);
        /* Every other time a dead one left its file. */
        if (round % 2 == 0) {
            EXPECT_OK(ks_socket_listen(&shared, &fd, &detail));
            (void)close(fd);
        }
        EXPECT_EQ_U64(ks_test_at_once(MANY, listen_and_stay, 0), 1);
    }
}

TEST(an_ordinary_file_is_not_removed)
{
    struct ks_address address = {.kind = KS_ADDRESS_UNIX};
    FILE *file = fopen(ks_test_path("precious"), "w");
    int fd;

    EXPECT(file != NULL && fclose(file) == 0);
    (void)snprintf(address.path, sizeof(address.path), "%s", ks_test_path("precious"));
    EXPECT_ERR(ks_socket_listen(&address, &fd, &detail), EXISTS);
    EXPECT_CONTAINS(detail.text, "a file of another kind is at this path");
    EXPECT(access(address.path, F_OK) == 0);
}

TEST(an_address_of_another_machine_is_refused_in_a_sentence)
{
    struct ks_address address = address_of("192.0.2.1:80");
    int fd;

    EXPECT_ERR(ks_socket_listen(&address, &fd, &detail), SYSTEM);
    EXPECT_CONTAINS(detail.text, "cannot listen at 192.0.2.1:80");
}

/* A connection over TCP to a peer that does not read, with few bytes of buffer there. */
static void connect_pair(int ret_fds[2])
{
    struct ks_address any = address_of("127.0.0.1:0");
    struct sockaddr_in name;
    socklen_t size = sizeof(name);
    int few = 4096;
    int listener;

    EXPECT_OK(ks_socket_listen(&any, &listener, &detail));
    EXPECT(getsockname(listener, (struct sockaddr *)&name, &size) == 0);
    ret_fds[1] = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT(setsockopt(ret_fds[1], SOL_SOCKET, SO_RCVBUF, &few, sizeof(few)) == 0);
    EXPECT(connect(ret_fds[1], (struct sockaddr *)&name, size) == 0);
    ret_fds[0] = accept(listener, NULL, NULL);
    EXPECT(ret_fds[0] >= 0);
    (void)close(listener);
}

TEST(room_of_a_socket_is_what_is_not_unsent)
{
    static uint8_t bytes[64 << 10];
    size_t room = KS_NOTSENT_BYTES;
    int fds[2];

    connect_pair(fds);
    EXPECT_EQ_U64(ks_socket_room(fds[0]), KS_NOTSENT_BYTES);
    while (send(fds[0], bytes, sizeof(bytes), MSG_DONTWAIT) > 0) {
        EXPECT(ks_socket_room(fds[0]) <= room);
        room = ks_socket_room(fds[0]);
    }
    EXPECT_EQ_U64(room, 0);
    (void)close(fds[0]);
    (void)close(fds[1]);

    EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    EXPECT_EQ_U64(ks_socket_room(fds[0]), KS_NOTSENT_BYTES);
    (void)close(fds[0]);
    (void)close(fds[1]);
}
