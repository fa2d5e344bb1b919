/* SPDX-License-Identifier: Apache-2.0 */
#include "main/house.h"

#include "adapters/sqlite/file.h"
#include "api/api.h"
#include "base/budget.h"
#include "base/codec.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/metrics.h"
#include "main/exposure.h"
#include "main/hardening.h"
#include "main/memory.h"
#include "main/room.h"
#include "main/version.h"

#include <assert.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    EXIT_CANNOT_RUN = 1,
    EXIT_WRONG_OPTIONS = 2,
    LAST_WORDS_MS = 500, /* For the reader of the log. */
    LAST_JOBS_MS = 5000,
    LAST_ANSWERS_MS = 2000, /* For clients to take the end of their streams. */
    KEPT_DIVISOR = 2,       /* The part of the budget that stays with the process. */
    /* What the heap may have free beside what payload needed lately; and how long that is. To fault all of it in again
     * costs less than a thousandth of the time in between. */
    SPARE_BYTES = 1 << 20,
    GIVE_BACK_MS = 10000,
    /* A drain has its own patience, and its last writes have time-outs; beyond both something is
     * wrong, and a process that does not end is worse than leases that run out. */
    DRAIN_SLACK_MS = 15000
};

/* By default: a record of 10 MiB in JSON, which is there twice while it is read, in base64. */
static const uint64_t budget_least = UINT64_C(32) << 20;

struct ks_house {
    struct ks_options *options;
    const struct ks_command_line *line;
    struct ks_reload *reload; /* NULL: nothing is read again. */
    struct ks_loop *loop;
    struct ks_budget_pool pool;
    struct ks_cloud cloud;
    struct ks_room rooms[KS_SUBSCRIPTIONS_MAX];
    uint32_t room_count;
    struct ks_api *api;
    struct ks_hook ready_hook;
    struct ks_timer give_up;
    struct ks_timer give_back;
    bool was_ready; /* All rooms at a time. */
    bool leaving;   /* A signal or POST /v1/quit came: exit when all is drained. */
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

/* A room is drained, or somebody wants to leave. */
static void end_if_drained(void *arg)
{
    struct ks_house *house = arg;
    uint64_t unsaved = 0;

    for (uint32_t i = 0; i < house->room_count; i++) {
        if (!house->rooms[i].is_drained || !house->leaving)
            return;
        unsaved += house->rooms[i].unsaved;
    }
    end(house, unsaved > 0 ? EXIT_CANNOT_RUN : EXIT_SUCCESS);
}

/* Before everything was ready once it is a mistake in what was deployed: nothing runs. Later the others have nothing to
 * do with it, and it gives back what it holds. */
static void refused(struct ks_room *room)
{
    struct ks_house *house = room->arg;

    if (room->alone || !house->was_ready) {
        end(house, EXIT_CANNOT_RUN);
        return;
    }
    ks_error("%s: draining it, the other subscriptions go on; mend that, and restart",
             room->options->name);
    ks_switchboard_drain(room->board, ks_span_ms(house->options->drain_timeout_ms));
}

static void give_up(struct ks_timer *timer)
{
    ks_error("the drain does not end; going without it, the leases run out by themselves");
    end(KS_LIST_ENTRY(timer, struct ks_house, give_up), EXIT_CANNOT_RUN);
}

/* Drains everything, and ends then. */
static void leave(struct ks_house *house, const char *why)
{
    ks_span patience = ks_span_ms(house->options->drain_timeout_ms);
    ks_instant now = ks_loop_now(house->loop);

    assert(!house->leaving);
    ks_info("%s: draining, for %" PRIu32 " ms at most", why, house->options->drain_timeout_ms);
    house->leaving = true;
    house->give_up.due = give_up;
    ks_loop_timer_set(house->loop, &house->give_up,
                      ks_instant_add(ks_instant_add(now, patience), ks_span_ms(DRAIN_SLACK_MS)));
    ks_api_quiesce(house->api);
    for (uint32_t i = 0; i < house->room_count; i++)
        ks_switchboard_drain(house->rooms[i].board, patience);
    end_if_drained(house);
}

static void asked_to_quit(void *arg)
{
    struct ks_house *house = arg;

    if (!house->leaving)
        leave(house, "POST /v1/quit");
}

static void caught(void *arg, int signal)
{
    struct ks_house *house = arg;

    if (house->over)
        return;
    if (signal == SIGHUP) {
        if (house->reload != NULL)
            ks_reload_now(house->reload);
        return;
    }
    if (house->leaving) {
        ks_info("%s again: not waiting any longer", strsignal(signal));
        for (uint32_t i = 0; i < house->room_count; i++)
            ks_switchboard_hurry(house->rooms[i].board);
        return;
    }
    leave(house, strsignal(signal));
}

/* ---- Ready. ---- */

static ks_instant look_ready(struct ks_hook *hook, ks_instant now)
{
    struct ks_house *house = KS_LIST_ENTRY(hook, struct ks_house, ready_hook);
    struct ks_board_status status;

    (void)now;
    for (uint32_t i = 0; i < house->room_count; i++) {
        ks_switchboard_status(house->rooms[i].board, &status);
        if (!status.ready)
            return KS_NEVER;
    }
    for (uint32_t i = 0; i < house->room_count; i++) {
        ks_switchboard_status(house->rooms[i].board, &status);
        ks_info("ready: stream %s, application %s, worker %s, API on %s", status.stream,
                status.application, status.worker_id, house->options->listen);
    }
    house->was_ready = true;
    ks_loop_unhook(house->loop, hook);
    return KS_NEVER;
}

/* ---- Memory. ---- */

/* A few small things that live on, a connection's among them, would keep the pages of everything that was freed below
 * them. What payload took since the last time it may take again. */
static void give_back(struct ks_timer *timer)
{
    struct ks_house *house = KS_LIST_ENTRY(timer, struct ks_house, give_back);

    ks_alloc_give_back(ks_budget_pool_most(&house->pool) + SPARE_BYTES);
    ks_loop_timer_set(house->loop, timer,
                      ks_instant_add(ks_loop_now(house->loop), ks_span_ms(GIVE_BACK_MS)));
}

/* ---- Building. ---- */

/* The config was read again. */
static void changed(void *arg)
{
    struct ks_house *house = arg;
    enum ks_log_level level = ks_log_level();
    ks_err parsed = ks_log_level_parse(ks_view_text(house->options->log_level), &level);

    assert(ks_ok(parsed)); /* The options were checked. */
    ks_log_set_level(level);
    ks_api_change(house->api, house->options->max_request_bytes,
                  ks_span_ms(house->options->drain_timeout_ms));
}

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

/* What payload may take in memory. */
static uint64_t budget_of(const struct ks_options *options)
{
    uint64_t budget = options->memory_budget_bytes;
    uint64_t least = budget_least * ks_options_subscriptions(options);

    if (budget == 0) {
        budget = ks_memory_budget(ks_memory_cgroup_limit(""), ks_memory_physical());
        budget = budget < least ? least : budget;
    }
    return budget;
}

/* Something is in AWS. */
static bool needs_cloud(const struct ks_options *options)
{
    for (uint32_t i = 0; i < ks_options_subscriptions(options); i++) {
        const struct ks_options *one = ks_options_subscription(options, i);
        if (ks_option_path(one->leases) == NULL || ks_option_path(one->source) == NULL ||
            ks_sink_is_named(one->dead_letters) || ks_option_is_bucket(one->dead_letters))
            return true;
    }
    return false;
}

/* Others that read their streams out of the same lease table. */
static void find_kin(struct ks_house *house, struct ks_room *room)
{
    room->kinship = &room->common;
    for (uint32_t i = 0; i < ks_options_subscriptions(house->options); i++) {
        const struct ks_options *const other = ks_options_subscription(house->options, i);

        if (other == room->options || !ks_options_are_kin(room->options, other))
            continue;
        if (room->kin_count == 0 && &house->rooms[i] < room)
            room->kinship = house->rooms[i].kinship;
        room->kin[room->kin_count++] = other->stream;
    }
}

static ks_err open_rooms(struct ks_house *house, struct ks_detail *detail)
{
    uint32_t count = ks_options_subscriptions(house->options);
    uint64_t boot = ks_random_u64();

    if (!ks_digests_are_offered()) {
        ks_detail_set(detail, "OpenSSL offers no SHA-256 or no MD5 on this machine: look at its "
                              "configuration (openssl list -digest-algorithms; OPENSSL_CONF)");
        return KS_FAIL(NOT_FOUND);
    }
    if (needs_cloud(house->options))
        KS_TRY(ks_cloud_open(&house->cloud, house->loop, detail));
    ks_budget_pool_init(&house->pool, budget_of(house->options), count);
    for (uint32_t i = 0; i < count; i++) {
        struct ks_room *room = &house->rooms[i];
        *room = (struct ks_room){
            .options = ks_options_subscription(house->options, i),
            .loop = house->loop,
            .pool = &house->pool,
            .cloud = &house->cloud,
            .boot = boot,
            .alone = count == 1,
            .drained = end_if_drained,
            .refused = refused,
            .arg = house,
        };
        house->room_count++;
        find_kin(house, room);
        ks_info("stream %s from %s, leases of %s in %s", room->options->stream,
                room->options->source, room->options->application, room->options->leases);
        KS_TRY(ks_room_open(room, detail));
    }
    return KS_OK;
}

static void warn(void *arg, const char *line)
{
    (void)arg;
    ks_warn("%s", line);
}

/* Each may take libmicrohttpd's pool, and what it has for itself of all that is held (docs/LIMITS.md). */
static uint32_t connections_of(const struct ks_options *options, size_t budget)
{
    enum { EACH = 160 << 10, LEAST = 100, MOST = 1000 };
    size_t count = budget / EACH;

    if (options->max_connections > 0)
        return options->max_connections;
    count = count < MOST ? count : MOST;
    return count > LEAST ? (uint32_t)count : LEAST;
}

static ks_err open_api(struct ks_house *house, struct ks_detail *detail)
{
    const struct ks_options *options = house->options;
    struct ks_switchboard *boards[KS_SUBSCRIPTIONS_MAX];
    struct ks_api_config config = {
        .loop = house->loop,
        .boards = boards,
        .board_count = house->room_count,
        .listen = options->listen,
        .listen_is_default = options->sources[KS_OPTION_listen] == KS_OPTION_DEFAULT,
        .ops_listen = options->ops_listen,
        .allow_hosts = options->allow_host,
        .token_file = options->token_file,
        .operator_token_file = options->operator_token_file,
        .connections_max = connections_of(options, house->pool.limit),
        .request_bytes_max = options->max_request_bytes,
        .memory = house->pool.limit,
        .drain_patience = ks_span_ms(options->drain_timeout_ms),
        .quit = asked_to_quit,
        .quit_arg = house,
        .options = options,
    };

    ks_exposure_tell(options, warn, NULL);
    for (uint32_t i = 0; i < house->room_count; i++)
        boards[i] = house->rooms[i].board;
    return ks_api_open(&config, &house->api, detail);
}

/* The number in a line "NAME:PASSWORD:NUMBER:MEMBERS" of a group of that name. */
static bool is_group(const char *line, const char *name, uint64_t *number)
{
    const size_t size = strlen(name);
    const char *begin;

    if (strncmp(line, name, size) != 0 || line[size] != ':')
        return false;
    begin = strchr(line + size + 1, ':');
    return begin != NULL &&
           ks_ok(ks_view_u64(ks_view_of(begin + 1, strcspn(begin + 1, ":\n")), number)) &&
           *number < UINT32_MAX;
}

/* True with the number of a group of /etc/group. A static program can't load the modules of NSS: a
 * group that is known to them alone is named by its number. */
static bool find_group(const char *name, uint64_t *number)
{
    FILE *file = fopen("/etc/group", "re");
    char part
        [1024]; /* Of a long line the next parts have members alone: no colon, so they match nothing. */
    bool found = false;

    if (file == NULL)
        return false;
    while (!found && fgets(part, sizeof(part), file) != NULL)
        found = is_group(part, name, number);
    (void)fclose(file);
    return found;
}

/* Files of state are for this user, or for a group. */
static ks_err choose_group(const struct ks_options *options, struct ks_detail *detail)
{
    const char *group = options->state_group;
    uint64_t number;

    if (group[0] == '\0')
        return KS_OK;
    if ((!ks_ok(ks_view_u64(ks_view_text(group), &number)) || number >= UINT32_MAX) &&
        !find_group(group, &number)) {
        ks_detail_set(detail,
                      "--state-group %s: /etc/group has no such group; a number is taken as it is",
                      group);
        return KS_FAIL(INVALID);
    }
    ks_sqlite_share_with((gid_t)number);
    return KS_OK;
}

/* One after the other; what fails says so, and in which part. The exit code. */
static int build(struct ks_house *house)
{
    struct ks_detail detail = {""};
    ks_err err = ks_loop_new(&house->loop);

    /* First: what comes while files are opened waits for the first turn, and SIGHUP ends nothing. */
    if (ks_ok(err))
        err = ks_loop_signals(house->loop, caught, house);
    if (ks_ok(err))
        err = choose_group(house->options, &detail);
    if (ks_ok(err))
        err = open_rooms(house, &detail);
    if (ks_ok(err))
        err = open_api(house, &detail);
    if (ks_ok(err) && house->line != NULL)
        err =
            ks_reload_new(house->loop, house->line, house->options, changed, house, &house->reload);
    if (ks_ok(err)) {
        /* What was needed only to start may go. */
        ks_alloc_keep(house->pool.limit / KEPT_DIVISOR);
        house->give_back.due = give_back;
        give_back(&house->give_back);
        return EXIT_SUCCESS;
    }

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
    house->over = true; /* For signals that come in the last turns. */
    if (house->loop != NULL)
        ks_loop_unhook(house->loop, &house->ready_hook);
    ks_api_close(house->api);
    for (uint32_t i = 0; i < house->room_count; i++)
        ks_room_close(&house->rooms[i]);
    ks_cloud_close(&house->cloud);
    if (house->loop != NULL) {
        ks_loop_timer_clear(house->loop, &house->give_up);
        ks_loop_timer_clear(house->loop, &house->give_back);
        ks_reload_free(house->reload);
        ks_loop_await_jobs(house->loop, ks_span_ms(LAST_JOBS_MS));
    }
    ks_loop_free(house->loop);
    for (uint32_t i = 0; i < house->room_count; i++)
        ks_room_free(&house->rooms[i]);
}

int ks_house_run(struct ks_options *options, const struct ks_command_line *line)
{
    struct ks_house house = {.options = options, .line = line};

    ks_link_init(&house.ready_hook.link);
    open_log(options);
    raise_file_limit();
    ks_metric_set_labelled(KS_METRIC_BUILD_INFO, KS_VERSION, 1);
    ks_metric_set(KS_METRIC_START_TIME_SECONDS, ks_wall_now().ms);
    ks_info("kinesis-sidecar %s", KS_VERSION);
    ks_harden_process();
    ks_harden_files(options);
    ks_harden_calls(options);

    house.exit_code = build(&house);
    if (house.exit_code == EXIT_SUCCESS) {
        house.ready_hook.turn = look_ready;
        ks_loop_hook(house.loop, &house.ready_hook);
        for (uint32_t i = 0; i < house.room_count; i++)
            ks_switchboard_start(house.rooms[i].board);
        ks_loop_run(house.loop);
        last_answers(&house);
    }
    tear_down(&house);
    ks_log_close(LAST_WORDS_MS);
    return house.exit_code;
}
