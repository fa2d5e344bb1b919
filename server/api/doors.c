/* SPDX-License-Identifier: Apache-2.0 */
#include "api/doors.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api/http1.h"
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

struct ks_doors {
    struct ks_loop *loop;
    struct ks_http1 *http1;
    struct door doors[2 * KS_ADDRESSES_MAX];
    uint32_t count;
    struct ks_link guests;
    struct ks_timer rest;
    bool resting;
    uint32_t local_open;
    uint32_t local_max;
    uint32_t ops_open;
};

/* ---- Guests ---- */

/* The guest is no more; its fd is not closed. */
static void guest_free(struct guest *guest)
{
    struct ks_doors *doors = guest->door->doors;

    ks_loop_unwatch(doors->loop, &guest->watch);
    ks_loop_timer_clear(doors->loop, &guest->timer);
    ks_list_remove(&guest->link);
    ks_free(guest);
}

static void guest_close(struct guest *guest)
{
    struct ks_doors *doors = guest->door->doors;
    bool ops = guest->door->ops;
    int fd = guest->watch.fd;

    guest_free(guest);
    (void)close(fd);
    ks_doors_left(doors, ops);
}

static void guest_late(struct ks_timer *timer)
{
    guest_close(KS_LIST_ENTRY(timer, struct guest, timer));
}

/* Says one thing and nothing more. What was sent to us is read, for closing over unread bytes would
 * take the answer back. */
static void say(int fd, enum ks_problem problem, const char *detail)
{
    uint8_t ignored[4096];

    (void)recv(fd, ignored, sizeof(ignored), MSG_DONTWAIT);
    ks_refuse(fd, problem, detail);
}

static void guest_hand_over(struct guest *guest)
{
    struct ks_doors *doors = guest->door->doors;
    struct ks_wire_config wire = {
        .fd = guest->watch.fd,
        .ops = guest->door->ops,
        .peer = guest->door->address.kind == KS_ADDRESS_UNIX ? KS_PEER_UNIX : KS_PEER_TCP,
        .deadline = guest->timer.at,
    };

    guest_free(guest);
    ks_http1_take(doors->http1, &wire);
}

static void guest_spoke(struct ks_watch *watch, uint32_t events)
{
    struct guest *guest = KS_LIST_ENTRY(watch, struct guest, watch);
    char first[3];
    ssize_t size = recv(watch->fd, first, sizeof(first), MSG_PEEK | MSG_DONTWAIT);

    if (size < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (size <= 0) {
        guest_close(guest);
        return;
    }
    if (memcmp(first, "PRI", (size_t)size) != 0) {
        guest_hand_over(guest);
        return;
    }
    if (size == sizeof(first)) {
        say(watch->fd, KS_PROBLEM_HTTP_VERSION, "HTTP/2 is not spoken here; use HTTP/1.1");
        guest_close(guest);
        return;
    }
    if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0)
        guest_close(guest);
}

static void guest_new(struct door *door, int fd)
{
    struct ks_doors *doors = door->doors;
    struct guest *guest = ks_alloc(sizeof(*guest));

    if (guest == NULL) {
        (void)close(fd);
        ks_doors_left(doors, door->ops);
        return;
    }
    guest->door = door;
    guest->watch = (struct ks_watch){.ready = guest_spoke, .fd = fd};
    guest->timer.due = guest_late;
    ks_list_append(&doors->guests, &guest->link);
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

/* Counts one more. False if there are too many. */
static bool may_enter(struct door *door)
{
    struct ks_doors *doors = door->doors;
    uint32_t *open = door->ops ? &doors->ops_open : &doors->local_open;

    if (*open >= (door->ops ? KS_OPS_CONNECTIONS_MAX : doors->local_max))
        return false;
    (*open)++;
    ks_metric_add(KS_METRIC_CONNECTIONS, 1);
    return true;
}

void ks_doors_left(struct ks_doors *doors, bool ops)
{
    uint32_t *open = ops ? &doors->ops_open : &doors->local_open;

    assert(*open > 0);
    (*open)--;
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
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM))
            rest(door->doors);
        if (fd < 0)
            return;
        set_options(door, fd);
        if (may_enter(door)) {
            guest_new(door, fd);
            continue;
        }
        say(fd, KS_PROBLEM_UNAVAILABLE, "too many connections; --max-connections allows more");
        (void)close(fd);
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
    doors->local_max = config->connections_max;
    doors->rest.due = rest_over;
    ks_link_init(&doors->guests);
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
    while (!ks_list_empty(&doors->guests))
        guest_close(KS_LIST_ENTRY(doors->guests.next, struct guest, link));
    for (uint32_t i = 0; i < doors->count; i++) {
        struct door *door = &doors->doors[i];
        ks_loop_unwatch(doors->loop, &door->watch);
        (void)close(door->watch.fd);
        if (door->address.kind == KS_ADDRESS_UNIX)
            (void)unlink(door->address.path);
    }
    ks_loop_timer_clear(doors->loop, &doors->rest);
    ks_free(doors);
}
