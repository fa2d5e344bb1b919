/* SPDX-License-Identifier: Apache-2.0 */
#include "api/doors.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/account.h"
#include "api/head.h"
#include "api/http1.h"
#include "api/http2.h"
#include "api/refusal.h"
#include "api/socket.h"
#include "base/address.h"
#include "base/budget.h"
#include "base/log.h"
#include "base/metrics.h"

/* Without a file descriptor for the next connection, listening rests for so long. */
enum { REST_MS = 100 };

struct door {
    struct ks_watch watch; /* The listening socket. */
    struct ks_doors *doors;
    struct ks_address address;
    bool ops;
};

/* A connection that has not said enough yet. */
struct guest {
    struct ks_watch watch;
    struct ks_timer timer;
    struct ks_link link;
    struct door *door;
};

/* The local addresses, or the ops addresses. */
struct side {
    struct ks_link guests; /* The oldest first. */
    uint32_t guest_count;
    uint32_t guests_max;
    struct ks_accounts *accounts;
    uint32_t open; /* Connections that spoke. */
    uint32_t open_max;
};

struct ks_doors {
    struct ks_loop *loop;
    struct ks_http1 *http1;
    struct ks_http2 *http2;
    struct door doors[2 * KS_ADDRESSES_MAX];
    uint32_t count;
    struct side local;
    struct side ops;
    struct ks_timer rest;
    bool resting;
};

static struct side *side_of(struct ks_doors *doors, bool ops)
{
    return ops ? &doors->ops : &doors->local;
}

/* ---- Guests ---- */

/* The guest is no more; its fd is not closed. */
static void guest_free(struct guest *guest)
{
    struct ks_doors *doors = guest->door->doors;
    struct side *side = side_of(doors, guest->door->ops);

    ks_loop_unwatch(doors->loop, &guest->watch);
    ks_loop_timer_clear(doors->loop, &guest->timer);
    ks_list_remove(&guest->link);
    assert(side->guest_count > 0);
    side->guest_count--;
    ks_metric_add(KS_METRIC_CONNECTIONS, -1);
    ks_free(guest);
}

static void guest_close(struct guest *guest)
{
    int fd = guest->watch.fd;

    guest_free(guest);
    (void)close(fd);
}

static void guest_late(struct ks_timer *timer)
{
    guest_close(KS_LIST_ENTRY(timer, struct guest, timer));
}

/* Makes room for another. False if there is nobody who could leave. */
static bool oldest_leaves(struct side *side)
{
    if (ks_list_empty(&side->guests))
        return false;
    guest_close(KS_LIST_ENTRY(side->guests.next, struct guest, link));
    return true;
}

/* Reads what was sent to us: closing over unread bytes would take the answer back. */
static void discard(int fd)
{
    uint8_t ignored[4096];

    (void)recv(fd, ignored, sizeof(ignored), MSG_DONTWAIT);
}

/* Says that there are too many, and nothing more. */
static void refuse(int fd, bool http2)
{
    discard(fd);
    if (http2)
        ks_http2_refuse(fd);
    else
        ks_refuse(fd, KS_PROBLEM_UNAVAILABLE,
                  "too many connections; --max-connections allows more");
    (void)close(fd);
}

static void guest_hand_over(struct guest *guest, bool http2)
{
    struct ks_doors *doors = guest->door->doors;
    struct side *side = side_of(doors, guest->door->ops);
    struct ks_wire_config wire = {
        .fd = guest->watch.fd,
        .ops = guest->door->ops,
        .peer = guest->door->address.kind == KS_ADDRESS_UNIX ? KS_PEER_UNIX : KS_PEER_TCP,
        .deadline = guest->timer.at,
    };

    guest_free(guest);
    if (side->open >= side->open_max && !ks_accounts_close_idle(side->accounts)) {
        refuse(wire.fd, http2);
        return;
    }
    side->open++;
    ks_metric_add(KS_METRIC_CONNECTIONS, 1);
    if (http2)
        ks_http2_take(doors->http2, &wire);
    else
        ks_http1_take(doors->http1, &wire);
}

/* Answers a request line that cannot be one, and closes. False if it may be one. */
static bool guest_refused(struct guest *guest, ks_view start)
{
    enum ks_problem problem;
    const char *why;

    if (!ks_head_refuses_line(start, &problem, &why))
        return false;
    discard(guest->watch.fd);
    ks_refuse(guest->watch.fd, problem, why);
    guest_close(guest);
    return true;
}

static void guest_spoke(struct ks_watch *watch, uint32_t events)
{
    struct guest *guest = KS_LIST_ENTRY(watch, struct guest, watch);
    uint8_t first[KS_LINE_PEEK_BYTES];
    ssize_t size = recv(watch->fd, first, sizeof(first), MSG_PEEK | MSG_DONTWAIT);

    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (size <= 0) {
        guest_close(guest);
        return;
    }
    size_t letters = size < 3 ? (size_t)size : 3;
    if (memcmp(first, "PRI", letters) != 0) {
        if (!guest_refused(guest, ks_view_of(first, (size_t)size)))
            guest_hand_over(guest, false);
        return;
    }
    if (letters == 3) {
        guest_hand_over(guest, true);
        return;
    }
    if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0)
        guest_close(guest);
}

static void guest_new(struct door *door, int fd)
{
    struct ks_doors *doors = door->doors;
    struct side *side = side_of(doors, door->ops);
    struct guest *guest = ks_alloc(sizeof(*guest));

    if (guest == NULL) {
        (void)close(fd);
        return;
    }
    if (side->guest_count == side->guests_max)
        (void)oldest_leaves(side);
    side->guest_count++;
    ks_metric_add(KS_METRIC_CONNECTIONS, 1);
    guest->door = door;
    guest->watch = (struct ks_watch){.ready = guest_spoke, .fd = fd};
    guest->timer.due = guest_late;
    ks_list_append(&side->guests, &guest->link);
    ks_loop_timer_set(doors->loop, &guest->timer,
                      ks_instant_add(ks_loop_now(doors->loop), ks_span_ms(KS_HEAD_WAIT_MS)));
    /* Edge-triggered: one or two bytes of "PRI" stay in the socket and are no news. */
    if (!ks_ok(ks_loop_watch(doors->loop, &guest->watch, EPOLLIN | EPOLLRDHUP | EPOLLET)))
        guest_close(guest);
}

/* ---- Doors ---- */

static void set_options(const struct door *door, int fd)
{
    int on = 1;
    int lowat = KS_NOTSENT_BYTES;

    if (door->address.kind == KS_ADDRESS_UNIX)
        return;
    /* Without them it is slower, or a consumer that stopped reading costs more: no reason to refuse
     * it. */
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &lowat, sizeof(lowat));
}

void ks_doors_left(struct ks_doors *doors, bool ops)
{
    struct side *side = side_of(doors, ops);

    assert(side->open > 0);
    side->open--;
    ks_metric_add(KS_METRIC_CONNECTIONS, -1);
}

static void rest_over(struct ks_timer *timer)
{
    struct ks_doors *doors = KS_LIST_ENTRY(timer, struct ks_doors, rest);

    doors->resting = false;
    for (uint32_t i = 0; i < doors->count; i++)
        if (!ks_ok(ks_loop_watch(doors->loop, &doors->doors[i].watch, EPOLLIN)))
            ks_error("listening: cannot watch a socket again");
}

/* No descriptors: a listening socket that stays ready would make the loop spin. */
static void rest(struct ks_doors *doors)
{
    if (doors->resting)
        return;
    ks_warn("listening: %s, accepting nothing for %d ms", strerror(errno), REST_MS);
    doors->resting = true;
    for (uint32_t i = 0; i < doors->count; i++)
        ks_loop_unwatch(doors->loop, &doors->doors[i].watch);
    ks_loop_timer_set(doors->loop, &doors->rest,
                      ks_instant_add(ks_loop_now(doors->loop), ks_span_ms(REST_MS)));
}

static void door_knocked(struct ks_watch *watch, uint32_t events)
{
    struct door *door = KS_LIST_ENTRY(watch, struct door, watch);

    (void)events;
    for (int i = 0; i < KS_ACCEPTS_MAX; i++) {
        struct sockaddr_storage from;
        socklen_t size = sizeof(from);
        int fd = accept4(watch->fd, (struct sockaddr *)&from, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) &&
            !oldest_leaves(&door->doors->local))
            rest(door->doors);
        if (fd < 0)
            return;
        set_options(door, fd);
        guest_new(door, fd);
    }
}

/* ---- Life ---- */

static ks_err door_new(struct ks_doors *doors, const struct ks_address *address, bool ops,
                       struct ks_detail *detail)
{
    struct door *door = &doors->doors[doors->count];
    char text[KS_SOCKET_TEXT_SIZE];
    int fd;

    KS_TRY(ks_socket_listen(address, &fd, detail));
    doors->count++;
    *door = (struct door){.doors = doors, .address = *address, .ops = ops};
    door->watch = (struct ks_watch){.ready = door_knocked, .fd = fd};
    ks_socket_text(address, fd, text);
    ks_info("%s: listening at %s", ops ? "ops" : "api", text);
    return ks_loop_watch(doors->loop, &door->watch, EPOLLIN);
}

static ks_err open_all(struct ks_doors *doors, const char *list, bool is_default, bool ops,
                       struct ks_detail *detail)
{
    struct ks_address addresses[KS_ADDRESSES_MAX];
    uint32_t count;

    KS_TRY(ks_address_parse_list(ks_view_text(list), addresses, &count, detail));
    for (uint32_t i = 0; i < count; i++) {
        ks_err err = door_new(doors, &addresses[i], ops, detail);
        if (!ks_ok(err) && is_default && addresses[i].kind == KS_ADDRESS_IPV6) {
            /* Many containers have no IPv6; nobody asked for it. */
            ks_info("api: %s; going on without it", detail->text);
            continue;
        }
        KS_TRY(err);
    }
    return KS_OK;
}

ks_err ks_doors_new(const struct ks_doors_config *config, struct ks_doors **ret_doors,
                    struct ks_detail *detail)
{
    struct ks_doors *doors = ks_alloc(sizeof(*doors));
    ks_err err;

    if (doors == NULL)
        return KS_FAIL(NO_MEMORY);
    doors->loop = config->loop;
    doors->http1 = config->http1;
    doors->http2 = config->http2;
    doors->local = (struct side){.guests_max = KS_GUESTS_MAX,
                                 .open_max = config->connections_max,
                                 .accounts = config->accounts};
    doors->ops = (struct side){.guests_max = KS_OPS_GUESTS_MAX,
                               .open_max = KS_OPS_CONNECTIONS_MAX,
                               .accounts = config->ops_accounts};
    ks_link_init(&doors->local.guests);
    ks_link_init(&doors->ops.guests);
    doors->rest.due = rest_over;
    err = open_all(doors, config->listen, config->listen_is_default, false, detail);
    if (ks_ok(err) && config->ops_listen[0] != '\0')
        err = open_all(doors, config->ops_listen, false, true, detail);
    if (!ks_ok(err)) {
        ks_doors_free(doors);
        return err;
    }
    *ret_doors = doors;
    return KS_OK;
}

void ks_doors_free(struct ks_doors *doors)
{
    if (doors == NULL)
        return;
    while (oldest_leaves(&doors->local) || oldest_leaves(&doors->ops))
        continue;
    for (uint32_t i = 0; i < doors->count; i++) {
        struct door *door = &doors->doors[i];
        ks_loop_unwatch(doors->loop, &door->watch);
        /* While we still listen, for then the path may be another's already. */
        if (door->address.kind == KS_ADDRESS_UNIX)
            (void)unlink(door->address.path);
        (void)close(door->watch.fd);
    }
    ks_loop_timer_clear(doors->loop, &doors->rest);
    ks_free(doors);
}
