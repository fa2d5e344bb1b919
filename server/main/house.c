/* SPDX-License-Identifier: Apache-2.0 */
#include "main/house.h"

#include "adapters/dynamodb/store.h"
#include "adapters/kinesis/polling.h"
#include "adapters/local/stream.h"
#include "adapters/sqlite/store.h"
#include "adapters/system/lock_file.h"
#include "api/api.h"
#include "base/codec.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/metrics.h"
#include "main/cloud.h"
#include "main/memory.h"
#include "main/version.h"
#include "ports/switchboard.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    EXIT_CANNOT_RUN = 1,
    EXIT_WRONG_OPTIONS = 2,
    LAST_WORDS_MS = 500, /* For the reader of the log. */
    LAST_TURNS = 3,
    LAST_ANSWERS_MS = 2000, /* For clients to take the end of their streams. */
    /* A drain has its own patience, and its last writes have time-outs; beyond both something is
     * wrong, and a process that does not end is worse than leases that run out. */
    DRAIN_SLACK_MS = 15000
};

static const uint64_t budget_least = UINT64_C(16)
                                     << 20; /* By default: a record of 10 MiB, and some room. */

struct ks_house {
    const struct ks_options *options;
    struct ks_loop *loop;
    struct ks_cloud cloud;
    struct ks_lease_store *store;
    struct ks_stream_source *source;
    struct ks_worker_lock
        *lock; /* NULL: the worker id is this process's own, or there is no place. */
    struct ks_switchboard *board;
    struct ks_api *api;
    struct ks_hook ready_hook;
    struct ks_timer give_up;
    bool leaving; /* A signal came: exit when drained. */
    bool drained;
    uint64_t unsaved; /* Acknowledged records that the drain could not save. */
    bool over;
    int exit_code;
};

/* ---- The end. ---- */

static void end(struct ks_house *house, int exit_code)
{
    if (house->over)
        return;
    house->over = true;
    house->exit_code = exit_code;
    ks_loop_stop(house->loop);
}

static void drained(void *arg, bool clean, uint64_t unsaved)
{
    struct ks_house *house = arg;

    house->drained = true;
    house->unsaved = unsaved;
    if (unsaved > 0)
        ks_error("drained, but %" PRIu64
                 " acknowledged records have no checkpoint, because the lease "
                 "store did not answer: they will come again",
                 unsaved);
    else
        ks_info("drained: nothing is held any more%s",
                clean ? "" : ", what was unsettled will come again");
    if (house->leaving)
        end(house, unsaved > 0 ? EXIT_CANNOT_RUN : EXIT_SUCCESS);
}

static void refused(void *arg, const char *reason)
{
    ks_error("cannot run: %s", reason);
    end(arg, EXIT_CANNOT_RUN);
}

static void give_up(struct ks_timer *timer)
{
    ks_error("the drain does not end; going without it, the leases run out by themselves");
    end(KS_LIST_ENTRY(timer, struct ks_house, give_up), EXIT_CANNOT_RUN);
}

/* POST /v1/drain. */
static void drain(void *arg)
{
    struct ks_house *house = arg;

    ks_api_quiesce(house->api);
    ks_switchboard_drain(house->board, ks_span_ms(house->options->drain_timeout_ms));
}

static void caught(void *arg, int signal)
{
    struct ks_house *house = arg;
    ks_instant now = ks_loop_now(house->loop);

    if (house->leaving) {
        ks_info("%s again: not waiting any longer", strsignal(signal));
        ks_switchboard_hurry(house->board);
        return;
    }
    ks_info("%s: draining, for %" PRIu32 " ms at most", strsignal(signal),
            house->options->drain_timeout_ms);
    house->leaving = true;
    if (house->drained) {
        end(house, house->unsaved > 0 ? EXIT_CANNOT_RUN : EXIT_SUCCESS);
        return;
    }
    house->give_up.due = give_up;
    ks_loop_timer_set(house->loop, &house->give_up,
                      ks_instant_add(now, ks_span_ms((int64_t)house->options->drain_timeout_ms +
                                                     DRAIN_SLACK_MS)));
    drain(house);
}

/* ---- Ready. ---- */

static ks_instant look_ready(struct ks_hook *hook, ks_instant now)
{
    struct ks_house *house = KS_LIST_ENTRY(hook, struct ks_house, ready_hook);
    struct ks_board_status status;

    (void)now;
    ks_switchboard_status(house->board, &status);
    if (!status.ready)
        return KS_NEVER;
    ks_info("ready: stream %s, application %s, worker %s, API on %s", status.stream,
            status.application, status.worker_id, house->options->listen);
    ks_loop_unhook(house->loop, hook);
    return KS_NEVER;
}

/* ---- Building. ---- */

/* Many connections and many shards: as many files as we may have. */
static void raise_file_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max)
        return;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        ks_debug("the limit of open files stays where it is");
}

static void open_log(const struct ks_options *options)
{
    enum ks_log_level level = KS_LOG_INFO;
    ks_err parsed = ks_log_level_parse(ks_view_text(options->log_level), &level);

    assert(ks_ok(parsed)); /* The options were checked. */
    ks_log_open(STDERR_FILENO, level,
                strcmp(options->log_format, "json") == 0 ? KS_LOG_JSON : KS_LOG_TEXT);
}

/* By another process. */
static void table_changed(void *arg)
{
    struct ks_house *house = arg;

    if (house->board != NULL)
        ks_switchboard_look(house->board);
}

static ks_err open_store(struct ks_house *house, struct ks_detail *detail)
{
    const char *path = ks_option_path(house->options->leases);
    struct ks_aws_client *client;

    if (path != NULL)
        return ks_sqlite_store_open(house->loop, path, house->options->application, table_changed,
                                    house, &house->store, detail);
    KS_TRY(ks_cloud_client(&house->cloud, KS_AWS_DYNAMODB, &client, detail));
    return ks_dynamodb_store_open(house->loop, client, house->options->application, &house->store,
                                  detail);
}

static ks_err open_source(struct ks_house *house, struct ks_detail *detail)
{
    const char *path = ks_option_path(house->options->source);
    struct ks_aws_client *client;

    if (path != NULL)
        return ks_local_source_open(house->loop, path, house->options->stream,
                                    house->options->local_shards, &house->source, detail);
    KS_TRY(ks_cloud_client(&house->cloud, KS_AWS_KINESIS, &client, detail));
    return ks_kinesis_source_open(house->loop, client, house->options->stream, &house->source,
                                  detail);
}

/* An id that somebody chose comes again after a crash; one that we made up never does. */
static ks_err open_lock(struct ks_house *house, struct ks_detail *detail)
{
    const struct ks_options *options = house->options;

    if (options->sources[KS_OPTION_worker_id] == KS_OPTION_DEFAULT || options->state_dir[0] == '\0')
        return KS_OK;
    return ks_lock_file_open(house->loop, options->state_dir, options->application,
                             options->worker_id, &house->lock, detail);
}

static struct ks_position start_position(const char *text)
{
    struct ks_position position = {.sub_sequence = -1};
    enum ks_initial initial = KS_INITIAL_LATEST;
    ks_err read = ks_option_initial_position(text, &initial, &position.timestamp_ms);

    assert(ks_ok(read)); /* The options were checked. */
    switch (initial) {
    case KS_INITIAL_LATEST: position.kind = KS_POSITION_LATEST; break;
    case KS_INITIAL_TRIM_HORIZON: position.kind = KS_POSITION_TRIM_HORIZON; break;
    case KS_INITIAL_AT_TIMESTAMP: position.kind = KS_POSITION_AT_TIMESTAMP; break;
    }
    return position;
}

static struct ks_core_config core_config(const struct ks_options *options)
{
    struct ks_core_config core = ks_core_config_default(ks_span_ms(options->lease_duration_ms));
    uint64_t budget = options->memory_budget_bytes;

    if (budget == 0) {
        budget = ks_memory_budget(ks_memory_cgroup_limit(""), ks_memory_physical());
        budget = budget < budget_least ? budget_least : budget;
    }
    core.budget_bytes = budget;
    core.seed = ks_random_u64();
    core.checkpoint_interval = ks_span_ms(options->checkpoint_interval_ms);
    core.idle_release = ks_span_ms(options->idle_release_ms);
    core.capacity = options->max_leases;
    return core;
}

static ks_err open_board(struct ks_house *house)
{
    struct ks_switchboard_config config = {
        .loop = house->loop,
        .store = house->store,
        .source = house->source,
        .lock = house->lock,
        .stream = house->options->stream,
        .application = house->options->application,
        .dialect = house->options->dialect,
        .worker_id = house->options->worker_id,
        .version = KS_VERSION,
        .start = start_position(house->options->initial_position),
        .core = core_config(house->options),
        .drained = drained,
        .refused = refused,
        .arg = house,
    };

    return ks_switchboard_new(&config, &house->board);
}

static ks_err open_api(struct ks_house *house, struct ks_detail *detail)
{
    const struct ks_options *options = house->options;
    struct ks_api_config config = {
        .loop = house->loop,
        .board = house->board,
        .listen = options->listen,
        .listen_is_default = options->sources[KS_OPTION_listen] == KS_OPTION_DEFAULT,
        .ops_listen = options->ops_listen,
        .allow_hosts = options->allow_host,
        .token_file = options->token_file,
        .connections_max = options->max_connections,
        .request_bytes_max = options->max_request_bytes,
        .drain_patience = ks_span_ms(options->drain_timeout_ms),
        .drain = drain,
        .arg = house,
        .options = options,
    };

    return ks_api_open(&config, &house->api, detail);
}

/* One after the other; what fails says so, and in which part. The exit code. */
static int build(struct ks_house *house)
{
    struct ks_detail detail = {""};
    ks_err err = ks_loop_new(&house->loop);

    if (ks_ok(err)) {
        house->cloud.loop = house->loop;
        err = open_store(house, &detail);
    }
    if (ks_ok(err))
        err = open_lock(house, &detail);
    if (ks_ok(err))
        err = open_source(house, &detail);
    if (ks_ok(err))
        err = open_board(house);
    if (ks_ok(err))
        err = open_api(house, &detail);
    if (ks_ok(err))
        err = ks_loop_signals(house->loop, caught, house);
    if (ks_ok(err))
        return EXIT_SUCCESS;

    ks_error("cannot start: %s", detail.text[0] != '\0' ? detail.text : ks_err_text(err));
    return ks_err_is(err, KS_ERR_INVALID) ? EXIT_WRONG_OPTIONS : EXIT_CANNOT_RUN;
}

/* ---- Tearing down. ---- */

/* Lets answers out that are under way. */
static void last_answers(struct ks_house *house)
{
    ks_instant until = ks_instant_add(ks_loop_now(house->loop), ks_span_ms(LAST_ANSWERS_MS));

    ks_api_finish(house->api);
    while (ks_api_busy(house->api) && !ks_instant_reached(ks_loop_now(house->loop), until))
        ks_loop_turn(house->loop, ks_span_ms(20));
}

static void tear_down(struct ks_house *house)
{
    if (house->loop != NULL)
        ks_loop_unhook(house->loop, &house->ready_hook);
    ks_api_close(house->api);
    if (house->board != NULL)
        ks_switchboard_stop(house->board);
    if (house->source != NULL)
        house->source->vtable->close(house->source);
    if (house->store != NULL)
        house->store->vtable->close(house->store);
    if (house->lock != NULL)
        house->lock->vtable->close(house->lock);
    ks_cloud_close(&house->cloud);
    if (house->loop != NULL) {
        /* A job that was running when its owner closed comes back once more. */
        ks_loop_timer_clear(house->loop, &house->give_up);
        for (int i = 0; i < LAST_TURNS; i++)
            ks_loop_turn(house->loop, ks_span_ms(20));
    }
    ks_loop_free(house->loop);
    ks_switchboard_free(house->board);
}

int ks_house_run(const struct ks_options *options)
{
    struct ks_house house = {.options = options};

    ks_link_init(&house.ready_hook.link);
    open_log(options);
    raise_file_limit();
    ks_metric_set_labelled(KS_METRIC_BUILD_INFO, KS_VERSION, 1);
    ks_metric_set(KS_METRIC_START_TIME_SECONDS, ks_wall_now().ms);
    ks_info("kinesis-sidecar %s: stream %s from %s, leases in %s", KS_VERSION, options->stream,
            options->source, options->leases);

    house.exit_code = build(&house);
    if (house.exit_code == EXIT_SUCCESS) {
        house.ready_hook.turn = look_ready;
        ks_loop_hook(house.loop, &house.ready_hook);
        ks_switchboard_start(house.board);
        ks_loop_run(house.loop);
        last_answers(&house);
    }
    tear_down(&house);
    ks_log_close(LAST_WORDS_MS);
    return house.exit_code;
}
