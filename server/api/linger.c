/* SPDX-License-Identifier: Apache-2.0 */
#include "api/linger.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/budget.h"

/* Thrown away in one turn: others wait. */
enum { PIECE_BYTES = 64 << 10, PIECES_MAX = 16 };

struct straggler {
    struct ks_watch watch;
    struct ks_timer timer;
    struct ks_link link;
    struct ks_lingers *lingers;
    size_t bytes;
};

void ks_lingers_init(struct ks_lingers *lingers, struct ks_loop *loop)
{
    lingers->loop = loop;
    lingers->count = 0;
    ks_link_init(&lingers->links);
}

static void end(struct straggler *straggler)
{
    struct ks_lingers *lingers = straggler->lingers;

    ks_loop_unwatch(lingers->loop, &straggler->watch);
    ks_loop_timer_clear(lingers->loop, &straggler->timer);
    ks_list_remove(&straggler->link);
    (void)close(straggler->watch.fd);
    lingers->count--;
    ks_free(straggler);
}

static void late(struct ks_timer *timer)
{
    end(KS_LIST_ENTRY(timer, struct straggler, timer));
}

static void ready(struct ks_watch *watch, uint32_t events)
{
    static uint8_t ignored[PIECE_BYTES];
    struct straggler *straggler = KS_LIST_ENTRY(watch, struct straggler, watch);

    (void)events;
    for (int i = 0; i < PIECES_MAX; i++) {
        ssize_t size = recv(watch->fd, ignored, sizeof(ignored), MSG_DONTWAIT);
        if (size < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (size > 0)
            straggler->bytes += (size_t)size;
        if (size <= 0 || straggler->bytes > KS_LINGER_BYTES_MAX) {
            end(straggler);
            return;
        }
    }
}

void ks_linger(struct ks_lingers *lingers, int fd)
{
    struct straggler *straggler;
    int own = lingers->count < KS_LINGERS_MAX ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;

    if (own < 0)
        return;
    straggler = ks_alloc(sizeof(*straggler));
    if (straggler == NULL) {
        (void)close(own);
        return;
    }
    straggler->watch = (struct ks_watch){.ready = ready, .fd = own};
    straggler->timer.due = late;
    straggler->lingers = lingers;
    ks_list_append(&lingers->links, &straggler->link);
    lingers->count++;
    ks_loop_timer_set(lingers->loop, &straggler->timer,
                      ks_instant_add(ks_loop_now(lingers->loop), ks_span_ms(KS_LINGER_WAIT_MS)));
    if (!ks_ok(ks_loop_watch(lingers->loop, &straggler->watch, EPOLLIN | EPOLLRDHUP)))
        end(straggler);
}

void ks_lingers_free(struct ks_lingers *lingers)
{
    while (!ks_list_empty(&lingers->links))
        end(KS_LIST_ENTRY(lingers->links.next, struct straggler, link));
}
