/* SPDX-License-Identifier: Apache-2.0 */
/* client.c - any bytes as what answers a subcommand: a thread behind a real socket says them and hangs up. A call ends,
 * what it hands on came, and why it failed is told.
 */
#include "main/client.h"

#include <assert.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct ks_address address = {.kind = KS_ADDRESS_UNIX};
static int listener;
static ks_view said; /* Written before the call, read until `over`. */
static sem_t over;

static void *serve(void *arg)
{
    static uint8_t ignored[65536];

    for (;;) {
        int fd = accept(listener, NULL, NULL);

        if (fd < 0)
            return arg;
        (void)recv(fd, ignored, sizeof(ignored), 0);
        (void)send(fd, said.data, said.size, MSG_NOSIGNAL);
        (void)shutdown(fd, SHUT_WR);
        (void)close(fd);
        (void)sem_post(&over);
    }
}

static void leave(void)
{
    (void)unlink(address.path);
}

static void begin(void)
{
    struct sockaddr_un place = {.sun_family = AF_UNIX};
    pthread_t thread;

    (void)snprintf(address.path, sizeof(address.path), "/tmp/ks-fuzz-client-%d", (int)getpid());
    (void)snprintf(place.sun_path, sizeof(place.sun_path), "%s", address.path);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&place, sizeof(place)) != 0 ||
        listen(listener, 1) != 0 || sem_init(&over, 0, 0) != 0 ||
        pthread_create(&thread, NULL, serve, NULL) != 0)
        abort();
    (void)atexit(leave);
}

static ks_err take(void *arg, ks_view bytes)
{
    size_t *taken = arg;

    assert(bytes.size > 0);
    *taken += bytes.size;
    return KS_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t taken = 0;
    struct ks_client_request request = {.method = "GET",
                                        .target = "/v1/status",
                                        .timeout = ks_span_ms(5000),
                                        .part = take,
                                        .arg = &taken};
    struct ks_detail detail = {""};
    int status = 0;

    if (address.path[0] == '\0')
        begin();
    said = ks_view_of(data, size);
    if (ks_ok(ks_client_call(&address, 1, &request, &status, &detail)))
        assert(status >= 200 && status <= 999);
    else
        assert(detail.text[0] != '\0');
    while (sem_wait(&over) != 0)
        continue;
    assert(taken <= size);
    return 0;
}
