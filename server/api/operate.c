/* SPDX-License-Identifier: Apache-2.0 */
#include "api/operate.h"

#include <assert.h>

#include "api/methods.h"
#include "api/page.h"
#include "api/place.h"
#include "api/routes.h"
#include "api/server.h"
#include "api/settling.h"
#include "base/log.h"

/* ---- Shards that a request names ---- */

static bool find_shards(struct ks_exchange *exchange, char *const *names, size_t count)
{
    ks_shard ignored;

    if (count > KS_OPERATED_SHARDS_MAX) {
        ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT, "at most %d shards are wanted",
                            KS_OPERATED_SHARDS_MAX);
        return false;
    }
    for (size_t i = 0; i < count; i++)
        if (!ks_api_find_shard(exchange, ks_view_text(names[i]), &ignored))
            return false;
    return true;
}

/* ---- Pause and resume ---- */

/* RFC 3339 knows none behind it; calls could say one that no span can hold. */
static const int64_t YEAR_10000 = INT64_C(253402300800000);

bool ks_pause(struct ks_exchange *exchange, const ks_pb_pause_request *request,
              ks_pb_pause_response *ret_response)
{
    struct ks_switchboard *board = exchange->subscription->board;
    bool keeps = request->leases_case != KINESIS_SIDECAR__V1__PAUSE_REQUEST__LEASES_KEEP_LEASES ||
                 request->keep_leases;
    ks_wall until = {request->until};
    ks_shard shard;

    if (until.ms != 0 && (until.ms <= ks_wall_now().ms || until.ms >= YEAR_10000)) {
        ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT,
                            "until must be an instant to come, before the year 10000");
        return false;
    }
    if (!find_shards(exchange, request->shards, request->n_shards))
        return false;
    if (request->n_shards == 0)
        ks_switchboard_pause(board, KS_SHARD_NONE, until, keeps);
    for (size_t i = 0; i < request->n_shards; i++)
        if (ks_switchboard_find_shard(board, ks_view_text(request->shards[i]), &shard))
            ks_switchboard_pause(board, shard, until, keeps);
    kinesis_sidecar__v1__pause_response__init(ret_response);
    ret_response->n_shards = request->n_shards;
    ret_response->shards = request->shards;
    ret_response->until = until.ms;
    ret_response->keep_leases = keeps;
    return true;
}

bool ks_resume(struct ks_exchange *exchange, const ks_pb_resume_request *request,
               ks_pb_resume_response *ret_response)
{
    struct ks_switchboard *board = exchange->subscription->board;
    ks_shard shard;

    if (!find_shards(exchange, request->shards, request->n_shards))
        return false;
    if (request->n_shards == 0)
        ks_switchboard_resume(board, KS_SHARD_NONE);
    for (size_t i = 0; i < request->n_shards; i++)
        if (ks_switchboard_find_shard(board, ks_view_text(request->shards[i]), &shard))
            ks_switchboard_resume(board, shard);
    kinesis_sidecar__v1__resume_response__init(ret_response);
    ret_response->n_shards = request->n_shards;
    ret_response->shards = request->shards;
    return true;
}

/* ---- Release ---- */

/* True if the order is accepted. */
static bool accepted(struct ks_exchange *exchange, enum ks_operator_status status, ks_shard shard)
{
    const char *id = ks_switchboard_shard_id(exchange->subscription->board, shard);

    switch (status) {
    case KS_OPERATOR_OK: return true;
    case KS_OPERATOR_NOT_HELD:
        ks_exchange_problem(exchange, KS_PROBLEM_LEASE_LOST,
                            "the lease of %s is not held by this worker", id);
        return false;
    case KS_OPERATOR_NOT_PAUSED:
        ks_exchange_problem(exchange, KS_PROBLEM_FAILED_PRECONDITION,
                            "%s is not paused; pause it first, or say force", id);
        return false;
    case KS_OPERATOR_FOREIGN:
        ks_exchange_problem(exchange, KS_PROBLEM_FAILED_PRECONDITION,
                            "the lease table of %s is shared with others, and cannot hold such a "
                            "place",
                            id);
        return false;
    case KS_OPERATOR_NOT_BLOCKED:
        ks_exchange_problem(exchange, KS_PROBLEM_FAILED_PRECONDITION,
                            "that record of %s does not hold up others; `blocked_by` of "
                            "/v1/shards/%s names the one that does",
                            id, id);
        return false;
    case KS_OPERATOR_BUSY:
        ks_exchange_problem(exchange, KS_PROBLEM_LEASE_LOST,
                            "the lease of %s is being given away, ended or sought already", id);
        return false;
    }
    assert(false);
    return false;
}

bool ks_release_lease(struct ks_exchange *exchange, const ks_pb_release_request *request,
                      ks_pb_release_response *ret_response)
{
    struct ks_switchboard *board = exchange->subscription->board;
    struct ks_shard_status status;
    ks_shard shard;

    if (!ks_api_find_shard(exchange, ks_view_text(request->shard_id), &shard))
        return false;
    kinesis_sidecar__v1__release_lease_response__init(ret_response);
    if (ks_switchboard_shard(board, shard, &status))
        ret_response->epoch = status.lease.epoch;
    if (!accepted(exchange, ks_switchboard_release(board, shard), shard))
        return false;
    ret_response->shard_id = request->shard_id;
    ret_response->deadline = ks_wall_now().ms + ks_span_to_ms(ks_switchboard_hand_over(board));
    return true;
}

/* ---- Seek ---- */

struct seeking;

struct target {
    struct ks_seek seek;
    struct seeking *of;
    ks_pb_sought row;
    ks_pb_place before;
    ks_pb_place after;
    struct ks_position was;
};

/* A seek on its way: the answer waits for the table. */
struct seeking {
    struct ks_exchange *exchange;
    struct ks_arena arena;
    struct ks_timer timer;
    struct ks_position to;
    bool dry_run;
    size_t count;
    size_t open; /* Not at their end. */
    struct target *targets;
    ks_pb_sought **rows;
};

static void fill_place(const struct ks_position *position, ks_pb_place *place)
{
    kinesis_sidecar__v1__place__init(place);
    place->checkpoint = ks_pb_text(ks_position_text(position));
    place->sub_sequence_number = position->sub_sequence < 0 ? 0 : position->sub_sequence;
    if (position->kind == KS_POSITION_AT_TIMESTAMP)
        place->at_timestamp = position->timestamp_ms;
    place->inclusive = position->kind == KS_POSITION_AT_SEQUENCE;
}

static void answer_seek(struct seeking *seeking)
{
    ks_pb_seek_response response;

    kinesis_sidecar__v1__seek_response__init(&response);
    response.dry_run = seeking->dry_run;
    response.n_shards = seeking->count;
    response.shards = seeking->rows;
    ks_exchange_message(seeking->exchange, &response.base);
}

static void free_seeking(struct ks_exchange *exchange)
{
    struct seeking *seeking = exchange->context;
    struct ks_arena arena = seeking->arena;

    ks_loop_timer_clear(exchange->api->loop, &seeking->timer);
    for (size_t i = 0; i < seeking->count; i++)
        ks_switchboard_forget_seek(&seeking->targets[i].seek);
    ks_arena_free(&arena);
}

static void wait_over(struct ks_timer *timer)
{
    struct seeking *seeking = KS_LIST_ENTRY(timer, struct seeking, timer);

    if (seeking->exchange->answered)
        return;
    answer_seek(seeking);
    ks_exchange_wake(seeking->exchange);
}

static void sought(struct ks_seek *seek, bool done)
{
    struct target *target = KS_LIST_ENTRY(seek, struct target, seek);
    struct seeking *seeking = target->of;
    struct ks_loop *loop = seeking->exchange->api->loop;

    target->row.outcome = done ? KINESIS_SIDECAR__V1__SEEK_OUTCOME__SEEK_OUTCOME_DONE
                               : KINESIS_SIDECAR__V1__SEEK_OUTCOME__SEEK_OUTCOME_REFUSED;
    assert(seeking->open > 0);
    seeking->open--;
    /* From the loop: who tells us is in the middle of a step. */
    if (seeking->open == 0)
        ks_loop_timer_set(loop, &seeking->timer, ks_loop_now(loop));
}

static void fill_target(struct seeking *seeking, struct target *target,
                        const struct ks_shard_status *status)
{
    target->of = seeking;
    target->seek.done = sought;
    ks_link_init(&target->seek.link);
    target->was = status->checkpoint;
    kinesis_sidecar__v1__sought_shard__init(&target->row);
    target->row.shard_id = ks_pb_text(status->shard_id);
    target->row.epoch = status->lease.epoch;
    target->row.outcome = seeking->dry_run
                              ? KINESIS_SIDECAR__V1__SEEK_OUTCOME__SEEK_OUTCOME_DRY_RUN
                              : KINESIS_SIDECAR__V1__SEEK_OUTCOME__SEEK_OUTCOME_UNKNOWN;
    fill_place(&target->was, &target->before);
    fill_place(&seeking->to, &target->after);
    target->row.before = &target->before;
    target->row.after = &target->after;
}

/* The shards, named or all that are held. False if the exchange was answered. */
static bool gather(struct seeking *seeking, const ks_pb_seek_request *request)
{
    struct ks_switchboard *board = seeking->exchange->subscription->board;
    uint32_t all = ks_switchboard_shard_count(board);
    size_t most = request->n_shards > 0 ? request->n_shards : all;
    struct ks_shard_status status;

    seeking->targets = ks_arena_take(&seeking->arena, (most + 1) * sizeof(*seeking->targets));
    seeking->rows = ks_arena_take(&seeking->arena, (most + 1) * sizeof(ks_pb_sought *));
    if (seeking->targets == NULL || seeking->rows == NULL) {
        ks_exchange_problem(seeking->exchange, KS_PROBLEM_EXHAUSTED, "out of memory");
        return false;
    }
    for (size_t i = 0; i < most; i++) {
        ks_shard shard = ks_switchboard_shard_at(board, (uint32_t)i);

        if (request->n_shards > 0 &&
            !ks_api_find_shard(seeking->exchange, ks_view_text(request->shards[i]), &shard))
            return false;
        if (!ks_switchboard_shard(board, shard, &status) ||
            (request->n_shards == 0 && !status.ours))
            continue;
        fill_target(seeking, &seeking->targets[seeking->count], &status);
        seeking->targets[seeking->count].seek.shard = shard;
        seeking->rows[seeking->count] = &seeking->targets[seeking->count].row;
        seeking->count++;
    }
    return true;
}

/* Asks for all of them, and for none if one is refused. */
static bool check_all(struct seeking *seeking, bool force)
{
    struct ks_switchboard *board = seeking->exchange->subscription->board;

    for (size_t i = 0; i < seeking->count; i++) {
        ks_shard shard = seeking->targets[i].seek.shard;

        if (!accepted(seeking->exchange,
                      ks_switchboard_seek(board, shard, &seeking->to, force, NULL), shard))
            return false;
        for (size_t before = 0; before < i; before++)
            if (seeking->targets[before].seek.shard == shard) {
                ks_exchange_problem(seeking->exchange, KS_PROBLEM_INVALID_ARGUMENT,
                                    "%s is named twice", ks_switchboard_shard_id(board, shard));
                return false;
            }
    }
    return true;
}

static void move_all(struct seeking *seeking, bool force, int64_t wait_ms)
{
    struct ks_exchange *exchange = seeking->exchange;
    struct ks_loop *loop = exchange->api->loop;

    seeking->timer.due = wait_over;
    exchange->context = seeking;
    exchange->closed = free_seeking;
    seeking->open = seeking->count;
    ks_loop_timer_set(loop, &seeking->timer,
                      ks_instant_add(ks_loop_now(loop), ks_span_ms(wait_ms)));
    for (size_t i = 0; i < seeking->count; i++) {
        struct target *target = &seeking->targets[i];
        enum ks_operator_status status = ks_switchboard_seek(
            exchange->subscription->board, target->seek.shard, &seeking->to, force, &target->seek);

        if (status != KS_OPERATOR_OK)
            sought(&target->seek, false); /* It was lost since it was checked. */
    }
}

/* ---- Skip ---- */

/* "after:SEQUENCE" or "after:SEQUENCE:SUB". */
static bool names_record(ks_view to)
{
    return ks_view_starts(to, KS_VIEW("after:"));
}

static bool read_record(struct ks_exchange *exchange, ks_view to, struct ks_position *ret_record)
{
    struct ks_position record = {.kind = KS_POSITION_AFTER_SEQUENCE, .sub_sequence = -1};
    ks_view rest = ks_view_of(to.data + 6, to.size - 6);
    ks_view sequence = ks_view_cut(&rest, ':');
    uint64_t sub = 0;
    bool good = ks_place_is_sequence(sequence) &&
                ks_ok(ks_view_copy_text(sequence, record.sequence, sizeof record.sequence));

    if (good && rest.data != NULL) {
        good = ks_ok(ks_view_u64(rest, &sub)) && sub <= INT64_MAX;
        record.sub_sequence = good ? (int64_t)sub : -1;
    }
    if (!good)
        ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT,
                            "to must be after:SEQUENCE or after:SEQUENCE:SUB, with the values of "
                            "`blocked_by` in /v1/shards");
    *ret_record = record;
    return good;
}

/* Gives up the one record that holds up its shard. */
static void skip(struct ks_exchange *exchange, const ks_pb_seek_request *request)
{
    struct ks_switchboard *board = exchange->subscription->board;
    struct seeking seeking = {.exchange = exchange, .dry_run = request->dry_run, .count = 1};
    struct ks_shard_status status;
    ks_pb_sought *row;
    struct target target;
    bool lost;

    if (!read_record(exchange, ks_view_text(request->to), &seeking.to))
        return;
    if (request->n_shards != 1) {
        ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT,
                            "a sequence number is one of one shard: name exactly one");
        return;
    }
    if (!ks_api_find_shard(exchange, ks_view_text(request->shards[0]), &target.seek.shard) ||
        !ks_switchboard_shard(board, target.seek.shard, &status) ||
        !accepted(exchange,
                  ks_switchboard_skip(board, target.seek.shard, ks_view_text(seeking.to.sequence),
                                      seeking.to.sub_sequence, request->dry_run, &lost),
                  target.seek.shard))
        return;
    fill_target(&seeking, &target, &status);
    row = &target.row;
    row->epoch = 0; /* It goes on. */
    row->lost = lost;
    if (!request->dry_run)
        row->outcome = KINESIS_SIDECAR__V1__SEEK_OUTCOME__SEEK_OUTCOME_DONE;
    seeking.rows = &row;
    answer_seek(&seeking);
}

/* ---- What is asked for ---- */

/* The tip is where it is now, whenever the next epoch begins: nothing that comes since is skipped. An instant to come
 * gets no iterator of Kinesis, and until then everything would be passed over. */
static bool date_seek(struct ks_exchange *exchange, struct ks_position *to)
{
    enum { APART_MS = 5000 }; /* The reading of the stream's clock may be behind by that. */
    int64_t now_ms = ks_switchboard_stream_ms(exchange->subscription->board);

    if (to->kind != KS_POSITION_LATEST && to->kind != KS_POSITION_AT_TIMESTAMP)
        return true;
    if (now_ms == 0) {
        ks_exchange_problem(exchange, KS_PROBLEM_UNAVAILABLE,
                            "the stream has not answered yet: its clock is not known");
        return false;
    }
    if (to->kind == KS_POSITION_AT_TIMESTAMP && to->timestamp_ms > now_ms + APART_MS) {
        ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT,
                            "to must not be an instant to come");
        return false;
    }
    if (to->kind == KS_POSITION_LATEST || to->timestamp_ms > now_ms)
        to->timestamp_ms = now_ms;
    to->kind = KS_POSITION_AT_TIMESTAMP;
    return true;
}

static bool read_seek(struct ks_exchange *exchange, const ks_pb_seek_request *request,
                      struct ks_position *ret_to)
{
    if (request->wait_ms < 0 || request->wait_ms > KS_WAIT_MS_MAX) {
        ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT, "wait_ms must be 0 to %d",
                            KS_WAIT_MS_MAX);
        return false;
    }
    if (!ks_place_read(exchange, "to", ks_view_text(request->to), ret_to) ||
        !find_shards(exchange, request->shards, request->n_shards))
        return false;
    if (ret_to->kind == KS_POSITION_AT_SEQUENCE && request->n_shards != 1) {
        ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT,
                            "a sequence number is one of one shard: name exactly one");
        return false;
    }
    return date_seek(exchange, ret_to);
}

void ks_seek(struct ks_exchange *exchange, const ks_pb_seek_request *request,
             struct ks_arena *arena)
{
    enum { WAIT_MS = 10000 };
    struct seeking *seeking = NULL;
    struct ks_position to;

    if (names_record(ks_view_text(request->to))) {
        skip(exchange, request);
        return;
    }
    if (!read_seek(exchange, request, &to))
        return;
    arena->max += KS_ANSWER_BYTES_MAX;
    seeking = ks_arena_take(arena, sizeof(*seeking));
    if (seeking == NULL) {
        ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED, "out of memory");
        return;
    }
    seeking->exchange = exchange;
    seeking->to = to;
    seeking->dry_run = request->dry_run;
    seeking->arena = *arena;
    if (gather(seeking, request) && check_all(seeking, request->force)) {
        if (!request->dry_run && seeking->count > 0) {
            ks_arena_init(arena, 0);
            move_all(seeking, request->force, request->wait_ms > 0 ? request->wait_ms : WAIT_MS);
            return;
        }
        answer_seek(seeking);
    }
    *arena = seeking->arena;
}

/* ---- Log level ---- */

static KinesisSidecar__V1__LogLevel level_of(enum ks_log_level level)
{
    return (KinesisSidecar__V1__LogLevel)((int)level + 1);
}

bool ks_set_log_level(struct ks_exchange *exchange, const ks_pb_level_request *request,
                      ks_pb_level_response *ret_response)
{
    if (request->level < KINESIS_SIDECAR__V1__LOG_LEVEL__LOG_LEVEL_DEBUG ||
        request->level > KINESIS_SIDECAR__V1__LOG_LEVEL__LOG_LEVEL_ERROR) {
        ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT,
                            "level must be debug, info, warn or error");
        return false;
    }
    kinesis_sidecar__v1__log_level_response__init(ret_response);
    ret_response->before = level_of(ks_log_level());
    ret_response->level = request->level;
    ks_log_set_level((enum ks_log_level)((int)request->level - 1));
    ks_info("log: the level is %s now", ks_log_level_name(ks_log_level()));
    return true;
}

/* ---- REST ---- */

void ks_serve_pause(struct ks_exchange *exchange, const ProtobufCMessage *message,
                    struct ks_arena *arena)
{
    const ks_pb_pause_request *request = (const ks_pb_pause_request *)message;
    ks_pb_pause_response response;

    if (!ks_subscription_wanted(exchange) ||
        ks_page_shards_wait(exchange, request->shards, request->n_shards, message, arena,
                            ks_serve_pause))
        return;
    if (ks_pause(exchange, request, &response))
        ks_exchange_message(exchange, &response.base);
}

void ks_serve_resume(struct ks_exchange *exchange, const ProtobufCMessage *message,
                     struct ks_arena *arena)
{
    const ks_pb_resume_request *request = (const ks_pb_resume_request *)message;
    ks_pb_resume_response response;

    if (!ks_subscription_wanted(exchange) ||
        ks_page_shards_wait(exchange, request->shards, request->n_shards, message, arena,
                            ks_serve_resume))
        return;
    if (ks_resume(exchange, request, &response))
        ks_exchange_message(exchange, &response.base);
}

void ks_serve_release_lease(struct ks_exchange *exchange, const ProtobufCMessage *message,
                            struct ks_arena *arena)
{
    const ks_pb_release_request *request = (const ks_pb_release_request *)message;
    ks_pb_release_response response;

    if (!ks_subscription_wanted(exchange) ||
        ks_page_shards_wait(exchange, &request->shard_id, 1, message, arena,
                            ks_serve_release_lease))
        return;
    if (ks_release_lease(exchange, request, &response))
        ks_exchange_message(exchange, &response.base);
}

void ks_serve_seek(struct ks_exchange *exchange, const ProtobufCMessage *message,
                   struct ks_arena *arena)
{
    const ks_pb_seek_request *request = (const ks_pb_seek_request *)message;
    struct ks_arena own;

    if (!ks_subscription_wanted(exchange) ||
        ks_page_shards_wait(exchange, request->shards, request->n_shards, message, arena,
                            ks_serve_seek))
        return;
    ks_arena_init(&own, 0);
    ks_seek(exchange, request, arena == NULL ? &own : arena);
    ks_arena_free(&own);
}

void ks_handle_pause(struct ks_exchange *exchange)
{
    ks_exchange_serve(exchange, &kinesis_sidecar__v1__pause_request__descriptor, ks_serve_pause);
}

void ks_handle_resume(struct ks_exchange *exchange)
{
    ks_exchange_serve(exchange, &kinesis_sidecar__v1__resume_request__descriptor, ks_serve_resume);
}

/* The path names the shard; the body may, too. */
static void serve_release_of_path(struct ks_exchange *exchange, const ProtobufCMessage *message,
                                  struct ks_arena *arena)
{
    ks_pb_release_request *request = ks_arena_take(arena, sizeof(*request));
    char *shard = ks_arena_text(arena, exchange->request.part);

    if (request == NULL || shard == NULL) {
        ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED, "out of memory");
        return;
    }
    *request = *(const ks_pb_release_request *)message;
    if (request->shard_id[0] != '\0' && strcmp(request->shard_id, shard) != 0) {
        ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT,
                            "the path and the body name two shards");
        return;
    }
    request->shard_id = shard;
    ks_serve_release_lease(exchange, &request->base, arena);
}

void ks_handle_release(struct ks_exchange *exchange)
{
    ks_exchange_serve(exchange, &kinesis_sidecar__v1__release_lease_request__descriptor,
                      serve_release_of_path);
}

void ks_handle_seek(struct ks_exchange *exchange)
{
    ks_exchange_serve(exchange, &kinesis_sidecar__v1__seek_request__descriptor, ks_serve_seek);
}

void ks_handle_loglevel(struct ks_exchange *exchange)
{
    ks_pb_level_response response;
    struct ks_arena arena;
    const ks_pb_level_request *request = (const ks_pb_level_request *)ks_exchange_read(
        exchange, &kinesis_sidecar__v1__log_level_request__descriptor, &arena);

    if (request == NULL)
        return;
    if (ks_set_log_level(exchange, request, &response))
        ks_exchange_message(exchange, &response.base);
    ks_arena_free(&arena);
}
