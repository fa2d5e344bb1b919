/* SPDX-License-Identifier: Apache-2.0 */
#include "api/socket.h"
#include "ks_test.h"

#include <stdio.h>
#include <string.h>
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

TEST(an_ordinary_file_is_not_removed)
{
    struct ks_address address = {.kind = KS_ADDRESS_UNIX};
    FILE *file = fopen(ks_test_path("precious"), "w");
    int fd;

    EXPECT(file != NULL && fclose(file) == 0);
    (void)snprintf(address.path, sizeof(address.path), "%s", ks_test_path("precious"));
    EXPECT_ERR(ks_socket_listen(&address, &fd, &detail), EXISTS);
    EXPECT_CONTAINS(detail.text, "there is a file that is no socket");
    EXPECT(access(address.path, F_OK) == 0);
}

TEST(an_address_of_another_machine_is_refused_in_a_sentence)
{
    struct ks_address address = address_of("192.0.2.1:80");
    int fd;

    EXPECT_ERR(ks_socket_listen(&address, &fd, &detail), SYSTEM);
    EXPECT_CONTAINS(detail.text, "cannot listen at 192.0.2.1:80");
}
