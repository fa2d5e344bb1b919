/* SPDX-License-Identifier: Apache-2.0 */
#include "bench_house.h"

#include "http_client.h"
#include "meter.h"

#include "adapters/sqlite/store.h"
#include "api/api.h"
#include "base/budget.h"
#include "base/options.h"

#include <stdio.h>
#include <sys/epoll.h>

struct house {
    struct ks_loop *loop;
    struct ks_lease_store *store;
    struct ks_stream_source *source;
    struct ks_switchboard *board;
    struct ks_api *api;
    struct ks_options options;
    struct ks_watch watch; /* The consumer's words. */
    struct stream_watcher watcher;
};

void bench_must(ks_err err, const char *what, const struct ks_detail *detail)
{
    if (!ks_ok(err))
        meter_fail("%s: %s %s", what, ks_err_text(err), detail == NULL ? "" : detail->text);
}

static void drained(void *arg, bool clean, uint64_t unsaved)
{
    (void)arg;
    (void)clean;
    (void)unsaved;
}

static void refused(void *arg, const char *reason)
{
    (void)arg;
    meter_fail("the switchboard refuses: %s", reason);
}

static void consumer_spoke(struct ks_watch *watch, uint32_t events)
{
    struct house *house = KS_LIST_ENTRY(watch, struct house, watch);

    (void)events;
    if (stream_consumer_hear(&house->watcher))
        ks_loop_stop(house->loop);
}

static void open_house(struct house *house, const struct bench_house_config *config, uint16_t port)
{
    struct ks_switchboard_config board = {
        .stream = "bench",
        .application = "bench",
        .dialect = "native",
        .worker_id = "bench",
        .version = "bench",
        .start = {.kind = KS_POSITION_TRIM_HORIZON, .sub_sequence = -1},
        .core = ks_core_config_default(ks_span_ms(config->lease_ms)),
        .drained = drained,
        .refused = refused,
    };
    struct ks_api_config api = {.ops_listen = "",
                                .connections_max = 2000,
                                .request_bytes_max = 1 << 20,
                                .options = &house->options};
    struct ks_detail detail = {.text = ""};
    char listen[64];

    snprintf(listen, sizeof listen, "127.0.0.1:%u", port);
    bench_must(ks_loop_new(&house->loop), "loop", NULL);
    bench_must(ks_sqlite_store_open(house->loop, config->store_path, "bench", NULL, NULL,
                                    &house->store, &detail),
               config->store_path, &detail);
    house->source = config->open(house->loop, config->arg);
    board.loop = api.loop = house->loop;
    board.store = house->store;
    board.source = house->source;
    board.core.seed = 1;
    board.core.budget_bytes = config->budget_bytes;
    bench_must(ks_switchboard_new(&board, &house->board), "switchboard", NULL);
    api.boards = &house->board;
    api.board_count = 1;
    api.listen = listen;
    bench_must(ks_api_open(&api, &house->api, &detail), listen, &detail);
    house->watch = (struct ks_watch){.ready = consumer_spoke, .fd = house->watcher.words};
    bench_must(ks_loop_watch(house->loop, &house->watch, EPOLLIN), "pipe", NULL);
    ks_alloc_keep(config->budget_bytes / 2); /* As the binary does. */
    ks_switchboard_start(house->board);
}

static void close_house(struct house *house, const struct bench_house_config *config)
{
    ks_loop_unwatch(house->loop, &house->watch);
    ks_api_close(house->api);
    ks_switchboard_stop(house->board);
    house->source->vtable->close(house->source);
    if (config->close != NULL)
        config->close(config->arg);
    house->store->vtable->close(house->store);
    for (int i = 0; i < 3; i++)
        ks_loop_turn(house->loop, ks_span_ms(20)); /* A job that was running comes back. */
    ks_loop_free(house->loop);
    ks_switchboard_free(house->board);
}

void bench_house_run(const struct bench_house_config *config, const struct stream_job *job,
                     struct stream_watcher *ret_watcher)
{
    static struct house house;
    uint16_t port = http_free_port();
    pid_t consumer;

    house = (struct house){.loop = NULL};
    consumer = stream_consumer_fork(job, port, &house.watcher);
    open_house(&house, config, port);
    ks_loop_run(house.loop);
    *ret_watcher = house.watcher;
    close_house(&house, config);
    stream_consumer_bury(consumer, &house.watcher);
}
