/* SPDX-License-Identifier: Apache-2.0 */
/* linger.h - reads a little longer from a client whose answer is out.
 *
 * A socket that is closed while bytes of a refused body are unread is reset, and the reset can take
 * the answer away from the client that is still sending. So the socket is kept a moment: what comes
 * is thrown away.
 */
#ifndef KS_API_LINGER_H
#define KS_API_LINGER_H

#include "base/list.h"
#include "base/loop.h"

enum {
    KS_LINGERS_MAX = 64,            /* At once; whoever comes later is closed hard. */
    KS_LINGER_BYTES_MAX = 64 << 20, /* Thrown away of one client. */
    KS_LINGER_WAIT_MS = 2000        /* The longest that one is kept. */
};

struct ks_lingers {
    struct ks_loop *loop;
    struct ks_link links;
    uint32_t count;
};

void ks_lingers_init(struct ks_lingers *lingers, struct ks_loop *loop);
/* Closes what is left. */
void ks_lingers_free(struct ks_lingers *lingers);
/* Keeps the connection of `fd`, which the caller closes, until its peer has closed, or a limit is
 * reached. */
void ks_linger(struct ks_lingers *lingers, int fd);

#endif
