/* SPDX-License-Identifier: Apache-2.0 */
#include "floor.h"

#include "adapters/local/stream.h"
#include "adapters/sqlite/store.h"
#include "api/server.h"
#include "base/log.h"
#include "base/prng.h"

#include <arpa/inet.h>
#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static struct ks_loop *loop;

struct ks_loop *serving_loop(void)
{
    return loop;
}

static void must(ks_err err, const struct ks_detail *detail)
{
    if (ks_ok(err))
        return;
    fprintf(stderr, "%s: %s\n", ks_err_text(err), detail->text);
    exit(1);
}

/* One that is free now. */
static uint16_t free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert(fd >= 0);
    if (bind(fd, (struct sockaddr *)&address, size) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) != 0)
        exit(1);
    close(fd);
    return ntohs(address.sin_port);
}

/* A board that never starts: nobody asks it for anything. */
static struct ks_switchboard *make_board(void)
{
    char dir[] = "/tmp/conformance-XXXXXX";
    char path[64];
    struct ks_detail detail = {""};
    struct ks_switchboard *board = NULL;
    struct ks_switchboard_config config = {
        .loop = loop,
        .stream = "stream",
        .application = "app",
        .dialect = "native",
        .worker_id = "worker",
        .version = "test",
        .core = ks_core_config_default(ks_span_ms(10000)),
    };

    if (mkdtemp(dir) == NULL)
        exit(1);
    snprintf(path, sizeof(path), "%s/leases.db", dir);
    must(ks_sqlite_store_open(loop, path, "app", NULL, NULL, &config.store, &detail), &detail);
    snprintf(path, sizeof(path), "%s/stream.db", dir);
    must(ks_local_source_open(loop, path, "stream", 1, &config.source, &detail), &detail);
    config.core.seed = 1;
    config.core.budget_bytes = 1 << 20;
    config.core.shards_max = 4;
    config.core.leases_max = 4;
    config.core.workers_max = 4;
    config.core.sessions_max = 4;
    config.core.window_max = 16;
    must(ks_switchboard_new(&config, &board), &detail);
    return board;
}

static void end(int signal)
{
    (void)signal;
    _exit(0);
}

_Noreturn void serve(const struct ks_rpc_service *service, size_t message_bytes_max, uint16_t port,
                     void (*listening)(uint16_t port))
{
    struct ks_detail detail = {""};
    struct ks_switchboard *board;
    struct ks_api *api;
    char listen[32];
    struct ks_api_config config = {
        .listen = listen,
        .board_count = 1,
        .boards = &board,
        .connections_max = 1000,
        .request_bytes_max = message_bytes_max,
    };

    ks_log_open(STDERR_FILENO, KS_LOG_WARN, KS_LOG_TEXT);
    must(ks_loop_new(&loop), &detail);
    board = make_board();
    port = port == 0 ? free_port() : port;
    snprintf(listen, sizeof(listen), "127.0.0.1:%u", port);
    config.loop = loop;
    must(ks_api_open(&config, &api, &detail), &detail);
    api->rpc = service;
    (void)signal(SIGTERM, end);
    listening(port);
    for (;;)
        ks_loop_turn(loop, ks_span_ms(1000));
}
