/* SPDX-License-Identifier: Apache-2.0 */
#include "contract/letters_faults.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/prng.h"

#include "ks_test.h"

enum {
    CUT_TURNS = 8,         /* Of the loop, until what was cut heals. */
    STARTING_TRIES = 1000, /* Each after 10 ms. */
    PORT_FIRST = 10000,    /* Below what the system gives to clients. */
    PORTS = 20000
};

static struct {
    bool on;
    bool rests;
    struct ks_prng prng;
    const char *throttle;
    uint16_t port, control_port; /* 0: the proxy was not started. */
    char url[64];
    uint32_t turns; /* Since it was cut; 0: it is not. */
    uint32_t calls, met;
} faults;

static int connect_to(uint16_t port)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    EXPECT(fd >= 0);
    if (connect(fd, (const struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    (void)close(fd);
    return -1;
}

static bool is_free(uint16_t port)
{
    const struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool free_now;

    EXPECT(fd >= 0);
    free_now = bind(fd, (const struct sockaddr *)&address, sizeof address) == 0;
    (void)close(fd);
    return free_now;
}

/* The first free port from this one on. */
static uint16_t free_port(uint32_t from)
{
    while (!is_free((uint16_t)(PORT_FIRST + from % PORTS)))
        from++;
    return (uint16_t)(PORT_FIRST + from % PORTS);
}

static void tell_proxy(const char *command)
{
    char answer[64] = "";
    char line[80];
    const int size = snprintf(line, sizeof line, "%s\n", command);
    const int fd = connect_to(faults.control_port);

    EXPECT(fd >= 0);
    EXPECT_EQ_I64(write(fd, line, (size_t)size), size);
    EXPECT(read(fd, answer, sizeof answer - 1) > 0);
    EXPECT_STR(answer, "ok\n");
    (void)close(fd);
}

/* It ends with this process. */
static void start(const char *url)
{
    char program[512], port[8], target[8], control[8];
    int fd;

    faults.port = free_port((uint32_t)getpid() * 7);
    faults.control_port = free_port(faults.port + 1u - PORT_FIRST);
    (void)snprintf(program, sizeof program, "%s/doubles/fault_proxy", ks_test_env("KS_BUILD"));
    (void)snprintf(port, sizeof port, "%u", faults.port);
    (void)snprintf(target, sizeof target, "%s", strrchr(url, ':') + 1);
    (void)snprintf(control, sizeof control, "%u", faults.control_port);
    target[strspn(target, "0123456789")] = '\0';
    if (fork() == 0) {
        execl(program, program, port, target, control, (char *)NULL);
        _exit(127);
    }
    for (int tries = 0; (fd = connect_to(faults.control_port)) < 0; tries++) {
        EXPECT(tries < STARTING_TRIES);
        (void)usleep(10000);
    }
    (void)close(fd);
    (void)snprintf(faults.url, sizeof faults.url, "http://127.0.0.1:%u", faults.port);
}

void letters_faults_begin(uint64_t seed, const char *throttle)
{
    faults.on = true;
    faults.throttle = throttle;
    ks_prng_init(&faults.prng, seed);
}

void letters_faults_end(void)
{
    faults.on = false;
}

bool letters_faults_are_on(void)
{
    return faults.on;
}

bool letters_faults_rest(bool rests)
{
    const bool rested = faults.rests;

    faults.rests = rests;
    return rested;
}

const char *letters_faults_url(const char *url)
{
    if (!faults.on)
        return url;
    if (faults.port == 0)
        start(url);
    return faults.url;
}

static void do_with_count(const char *command)
{
    char line[64];

    (void)snprintf(line, sizeof line, "%s %u", command,
                   1 + (unsigned)ks_prng_below(&faults.prng, 2));
    tell_proxy(line);
}

void letters_faults_next(bool may_be_lost)
{
    const bool is_drawn = faults.on && !faults.rests;
    const uint64_t drawn = is_drawn ? ks_prng_below(&faults.prng, may_be_lost ? 4 : 2) : 0;
    char refuse[48];

    faults.calls += is_drawn;
    faults.met += drawn > 0;
    if (drawn == 1) {
        (void)snprintf(refuse, sizeof refuse, "refuse %s", faults.throttle);
        do_with_count(refuse);
    } else if (drawn == 2) {
        do_with_count("lose");
    } else if (drawn == 3) {
        tell_proxy("cut");
        faults.turns = 1;
    }
}

void letters_faults_turn(void)
{
    if (faults.turns > 0 && ++faults.turns > CUT_TURNS)
        letters_faults_heal();
}

void letters_faults_heal(void)
{
    faults.turns = 0;
    if (faults.on)
        tell_proxy("heal");
}

uint32_t letters_faults_met(void)
{
    return faults.met;
}

void letters_faults_lose(const char *operation)
{
    char line[48];

    (void)snprintf(line, sizeof line, "only %s", operation);
    tell_proxy(line);
    tell_proxy("lose 1");
}

uint32_t letters_faults_calls(void)
{
    return faults.calls;
}
