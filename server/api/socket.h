/* SPDX-License-Identifier: Apache-2.0 */
/* socket.h - listening sockets at the addresses of base/address.h. */
#ifndef KS_API_SOCKET_H
#define KS_API_SOCKET_H

#include "base/address.h"
#include "base/err.h"

enum { KS_SOCKET_TEXT_SIZE = 128 };

/* A listening, non-blocking socket. A Unix socket that nobody listens at is replaced, and is open to owner and group;
 * of several that come at once one has it, and its folder is locked for that moment. EXISTS (in use), SYSTEM; the
 * detail names the address and says what to do. */
KS_MUST_USE ks_err ks_socket_listen(const struct ks_address *address, int *ret_fd,
                                    struct ks_detail *detail);
/* Where the socket listens, as it is written in an option; with the port that the system chose for
 * port 0. */
void ks_socket_text(const struct ks_address *address, int fd, char buffer[KS_SOCKET_TEXT_SIZE]);

/* Bytes that a TCP socket takes now, about: up to KS_NOTSENT_BYTES that are not sent yet. KS_NOTSENT_BYTES for a socket
 * of another kind. */
size_t ks_socket_room(int fd);

#endif
