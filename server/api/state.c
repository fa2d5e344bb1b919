/* SPDX-License-Identifier: Apache-2.0 */
/* GET /v1/shards, leases, workers, sessions, status; DELETE /v1/sessions/{id}: who holds what,
 * since when, and why. */
#include <assert.h>

#include "api/control.h"
#include "api/methods.h"
#include "api/page.h"
#include "api/records.h"
#include "api/routes.h"
#include "api/settling.h"
#include "api/stream.h"
#include "base/budget.h"

enum { ARENA_BYTES = 64 << 20 };

/* ---- Lists ---- */

/* A list on its way out: rows of one kind, in an arena. */
struct list {
    struct ks_exchange *exchange;
    struct ks_switchboard *board;
    struct ks_arena arena;
    struct ks_page page;
    void **rows;
    size_t count;
};

/* False if the exchange was answered. */
static bool list_begin(struct list *list, struct ks_exchange *exchange, const struct ks_page *page)
{
    *list =
        (struct list){.exchange = exchange, .board = exchange->subscription->board, .page = *page};
    ks_arena_init(&list->arena, ARENA_BYTES);
    list->rows = ks_arena_take(&list->arena, (list->page.room + 1) * sizeof(*list->rows));
    if (list->rows == NULL)
        ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED, "out of memory");
    return list->rows != NULL;
}

/* Memory for one more row; NULL when the page is full (then the next one begins with `index`) or
 * memory is. */
static void *list_row(struct list *list, uint32_t index, size_t size)
{
    void *row = list->page.room == 0 ? NULL : ks_arena_take(&list->arena, size);

    if (row == NULL) {
        ks_page_end(&list->page, index);
        return NULL;
    }
    list->page.room--;
    list->rows[list->count++] = row;
    return row;
}

static void list_answer(struct list *list, const ProtobufCMessage *message)
{
    ks_exchange_message(list->exchange, message);
    ks_arena_free(&list->arena);
}

/* ---- Shards and leases ---- */

static KinesisSidecar__V1__LeaseState state_of(const struct ks_shard_status *status)
{
    if (status->lease.damaged)
        return KINESIS_SIDECAR__V1__LEASE_STATE__LEASE_STATE_UNSPECIFIED;
    if (status->lease.finished)
        return KINESIS_SIDECAR__V1__LEASE_STATE__LEASE_STATE_FINISHED;
    switch (status->lease.state) {
    case KS_LEASE_AWAY: break;
    case KS_LEASE_HELD:
        return status->lease.paused ? KINESIS_SIDECAR__V1__LEASE_STATE__LEASE_STATE_PAUSED
                                    : KINESIS_SIDECAR__V1__LEASE_STATE__LEASE_STATE_HELD;
    case KS_LEASE_RETURNING: return KINESIS_SIDECAR__V1__LEASE_STATE__LEASE_STATE_RETURNING;
    case KS_LEASE_ENDING: return KINESIS_SIDECAR__V1__LEASE_STATE__LEASE_STATE_ENDING;
    case KS_LEASE_FINISHED: return KINESIS_SIDECAR__V1__LEASE_STATE__LEASE_STATE_FINISHED;
    }
    return status->owner[0] == '\0' ? KINESIS_SIDECAR__V1__LEASE_STATE__LEASE_STATE_FREE
                                    : KINESIS_SIDECAR__V1__LEASE_STATE__LEASE_STATE_HELD;
}

/* The names that are there, of a fixed number of places. */
static bool fill_names(struct ks_arena *arena, const char *const *names, size_t places,
                       size_t *ret_count, char ***ret_names)
{
    char **list = ks_arena_take(arena, places * sizeof(*list));
    size_t count = 0;

    if (list == NULL)
        return false;
    for (size_t i = 0; i < places; i++)
        if (names[i] != NULL && names[i][0] != '\0')
            list[count++] = ks_pb_text(names[i]);
    *ret_count = count;
    *ret_names = list;
    return true;
}

static bool is_inclusive(const struct ks_position *position)
{
    return position->kind == KS_POSITION_AT_SEQUENCE;
}

static int64_t sub_sequence_of(const struct ks_position *position)
{
    return position->sub_sequence < 0 ? 0 : position->sub_sequence;
}

/* What is known only while we hold it. */
static void fill_held(struct ks_switchboard *board, const struct ks_shard_status *status,
                      ks_pb_shard *row, struct ks_session_status *session)
{
    const struct ks_lease_view *lease = &status->lease;

    row->delivered = lease->delivered;
    row->settled = lease->watermark;
    row->unsettled = lease->delivered > lease->watermark ? lease->delivered - lease->watermark : 0;
    row->watermark_gap = row->unsettled;
    row->buffered = lease->fetched > lease->delivered ? lease->fetched - lease->delivered : 0;
    row->in_flight = lease->in_flight;
    row->assigned = lease->assigned;
    row->blocked = lease->blocked;
    row->blocked_by = ks_pb_text(status->blocked_by);
    row->blocked_by_sub_sequence_number = status->blocked_by_sub;
    row->failures = status->failures;
    if (lease->session != KS_SESSION_NONE && ks_switchboard_session(board, lease->session, session))
        row->session = ks_pb_text(session->client_id);
}

/* The status must live as long as the row, whose texts point into it. */
static bool fill_shard(struct ks_switchboard *board, const struct ks_shard_status *status,
                       struct ks_arena *arena, ks_pb_shard *row)
{
    struct ks_session_status session;

    kinesis_sidecar__v1__shard__init(row);
    row->shard_id = ks_pb_text(status->shard_id);
    row->starting_hash_key = ks_pb_text(status->hash_start);
    row->ending_hash_key = ks_pb_text(status->hash_end);
    row->state = state_of(status);
    row->owner = ks_pb_text(status->owner);
    row->next_owner = ks_pb_text(status->next_owner);
    row->epoch = status->lease.epoch;
    row->since = status->since.ms;
    row->checkpoint = ks_pb_text(ks_position_text(&status->checkpoint));
    row->sub_sequence_number = sub_sequence_of(&status->checkpoint);
    row->inclusive = is_inclusive(&status->checkpoint);
    row->watermark = ks_pb_text(ks_position_text(&status->watermark));
    row->millis_behind_latest = status->millis_behind;
    row->oldest_unsettled_age_ms = status->oldest_unsettled_ms;
    row->read_at = status->read_at.ms;
    row->damaged = status->lease.damaged;
    row->reason = ks_pb_text(status->reason);
    row->trouble = (KinesisSidecar__V1__Trouble)((int)status->trouble + 1);
    row->remedy = ks_pb_text(status->remedy);
    row->paused = status->lease.paused;
    row->paused_until = status->paused_until.ms;
    if (status->ours)
        fill_held(board, status, row, &session);
    return fill_names(arena, status->parents, KS_PARENTS_MAX, &row->n_parents, &row->parents) &&
           fill_names(arena, status->children, KS_CHILDREN_MAX, &row->n_children, &row->children);
}

static void fill_lease(const struct ks_shard_status *status, ks_pb_lease *row)
{
    kinesis_sidecar__v1__lease__init(row);
    row->shard_id = ks_pb_text(status->shard_id);
    row->owner = ks_pb_text(status->owner);
    row->epoch = status->lease.epoch;
    row->state = state_of(status);
    row->since = status->since.ms;
    row->checkpoint = ks_pb_text(ks_position_text(&status->checkpoint));
    row->sub_sequence_number = sub_sequence_of(&status->checkpoint);
    row->inclusive = is_inclusive(&status->checkpoint);
    row->next_owner = ks_pb_text(status->next_owner);
    row->read_at = status->read_at.ms;
    row->damaged = status->lease.damaged;
    row->reason = ks_pb_text(status->reason);
}

/* A row with the status that its texts point into. */
struct shard_row {
    ks_pb_shard shard;
    struct ks_shard_status status;
};
struct lease_row {
    ks_pb_lease lease;
    struct ks_shard_status status;
};

static void answer_shards(struct ks_exchange *exchange, const struct ks_page *page)
{
    KinesisSidecar__V1__ShardsResponse response;
    struct list list;
    struct ks_shard_status status;

    if (!list_begin(&list, exchange, page))
        return;
    for (uint32_t i = list.page.next; i < ks_switchboard_shard_count(list.board); i++) {
        struct shard_row *row;
        if (!ks_switchboard_shard(list.board, ks_switchboard_shard_at(list.board, i), &status))
            continue;
        row = list_row(&list, i, sizeof(*row));
        if (row == NULL)
            break;
        row->status = status;
        if (!fill_shard(list.board, &row->status, &list.arena, &row->shard)) {
            list.count--;
            ks_page_end(&list.page, i);
            break;
        }
    }
    kinesis_sidecar__v1__shards_response__init(&response);
    response.n_shards = list.count;
    response.shards = (ks_pb_shard **)list.rows;
    response.next_page_token = list.page.token;
    list_answer(&list, &response.base);
}

void ks_serve_shards(struct ks_exchange *exchange, const ProtobufCMessage *request,
                     struct ks_arena *arena)
{
    struct ks_page page;

    (void)arena;
    if (ks_page_read(exchange, (const ks_pb_page_request *)request, &page))
        ks_page_when_fresh(exchange, &page, answer_shards);
}

void ks_handle_shards(struct ks_exchange *exchange)
{
    ks_page_serve(exchange, ks_serve_shards);
}

static void answer_shard(struct ks_exchange *exchange, const struct ks_page *page)
{
    struct ks_switchboard *board = exchange->subscription->board;
    struct ks_shard_status status;
    struct ks_arena arena;
    ks_pb_shard row;
    ks_shard shard;

    (void)page;
    if (!ks_api_find_shard(exchange, exchange->request.part, &shard) ||
        !ks_switchboard_shard(board, shard, &status))
        return;
    ks_arena_init(&arena, ARENA_BYTES);
    if (fill_shard(board, &status, &arena, &row))
        ks_exchange_message(exchange, &row.base);
    else
        ks_exchange_problem(exchange, KS_PROBLEM_EXHAUSTED, "out of memory");
    ks_arena_free(&arena);
}

void ks_handle_shard(struct ks_exchange *exchange)
{
    ks_page_when_fresh(exchange, &(struct ks_page){.room = 1}, answer_shard);
}

static void answer_leases(struct ks_exchange *exchange, const struct ks_page *page)
{
    KinesisSidecar__V1__LeasesResponse response;
    struct list list;
    struct ks_shard_status status;

    if (!list_begin(&list, exchange, page))
        return;
    for (uint32_t i = list.page.next; i < ks_switchboard_shard_count(list.board); i++) {
        struct lease_row *row;
        if (!ks_switchboard_shard(list.board, ks_switchboard_shard_at(list.board, i), &status) ||
            !status.has_lease)
            continue;
        row = list_row(&list, i, sizeof(*row));
        if (row == NULL)
            break;
        row->status = status;
        fill_lease(&row->status, &row->lease);
    }
    kinesis_sidecar__v1__leases_response__init(&response);
    response.n_leases = list.count;
    response.leases = (ks_pb_lease **)list.rows;
    response.next_page_token = list.page.token;
    list_answer(&list, &response.base);
}

void ks_serve_leases(struct ks_exchange *exchange, const ProtobufCMessage *request,
                     struct ks_arena *arena)
{
    struct ks_page page;

    (void)arena;
    if (ks_page_read(exchange, (const ks_pb_page_request *)request, &page))
        ks_page_when_fresh(exchange, &page, answer_leases);
}

void ks_handle_leases(struct ks_exchange *exchange)
{
    ks_page_serve(exchange, ks_serve_leases);
}

/* ---- Workers ---- */

struct worker_row {
    ks_pb_worker worker;
    char boot_id[KS_BOOT_ID_SIZE];
};

static void fill_worker(const struct ks_worker_status *status, struct worker_row *row)
{
    static const KinesisSidecar__V1__WorkerLife lives[KS_LIVES] = {
        [KS_LIVE] = KINESIS_SIDECAR__V1__WORKER_LIFE__WORKER_LIFE_LIVE,
        [KS_FENCED] = KINESIS_SIDECAR__V1__WORKER_LIFE__WORKER_LIFE_FENCED,
        [KS_GONE] = KINESIS_SIDECAR__V1__WORKER_LIFE__WORKER_LIFE_GONE,
    };
    static const KinesisSidecar__V1__WorkerMode modes[KS_MODES] = {
        [KS_ACTIVE] = KINESIS_SIDECAR__V1__WORKER_MODE__WORKER_MODE_ACTIVE,
        [KS_IDLE] = KINESIS_SIDECAR__V1__WORKER_MODE__WORKER_MODE_IDLE,
        [KS_DRAINING] = KINESIS_SIDECAR__V1__WORKER_MODE__WORKER_MODE_DRAINING,
        [KS_FAILING] = KINESIS_SIDECAR__V1__WORKER_MODE__WORKER_MODE_FAILING,
    };

    kinesis_sidecar__v1__worker__init(&row->worker);
    ks_api_boot_text(status->row.self.boot, row->boot_id);
    row->worker.worker_id = ks_pb_text(status->worker_id);
    row->worker.boot_id = row->boot_id;
    row->worker.life = lives[status->row.life];
    row->worker.mode = modes[status->row.mode];
    row->worker.beat = status->row.beat;
    row->worker.beat_age_ms = ks_span_to_ms(status->beat_age);
    row->worker.leases_held = status->row.held;
    row->worker.leader = status->row.leads;
    row->worker.self = status->self;
    row->worker.capacity = status->row.capacity;
    row->worker.load = status->row.load;
}

void ks_serve_workers(struct ks_exchange *exchange, const ProtobufCMessage *request,
                      struct ks_arena *arena)
{
    KinesisSidecar__V1__WorkersResponse response;
    struct ks_worker_status status;
    struct ks_page page;
    struct list list;

    (void)arena;
    if (!ks_page_read(exchange, (const ks_pb_page_request *)request, &page) ||
        !list_begin(&list, exchange, &page))
        return;
    for (uint32_t i = list.page.next; ks_switchboard_worker(list.board, i, &status); i++) {
        struct worker_row *row = list_row(&list, i, sizeof(*row));
        if (row == NULL)
            break;
        fill_worker(&status, row);
    }
    kinesis_sidecar__v1__workers_response__init(&response);
    response.n_workers = list.count;
    response.workers = (ks_pb_worker **)list.rows;
    response.next_page_token = list.page.token;
    list_answer(&list, &response.base);
}

void ks_handle_workers(struct ks_exchange *exchange)
{
    ks_page_serve(exchange, ks_serve_workers);
}

/* ---- Sessions ---- */

static void fill_session(const struct ks_session_status *status, enum ks_idle idle,
                         ks_pb_session *row)
{
    const struct ks_session_view *session = &status->session;

    kinesis_sidecar__v1__session__init(row);
    row->session = ks_pb_text(status->client_id);
    row->client_id = ks_pb_text(status->client_id);
    row->kind = session->pulls ? KINESIS_SIDECAR__V1__SESSION_KIND__SESSION_KIND_PULL
                               : KINESIS_SIDECAR__V1__SESSION_KIND__SESSION_KIND_STREAM;
    row->attached = session->attached;
    row->epoch = session->epoch;
    row->since = status->since.ms;
    row->in_flight = session->in_flight;
    row->in_flight_bytes = session->in_flight_bytes;
    row->assigned = session->assigned;
    row->assigned_bytes = session->assigned_bytes;
    row->max_in_flight = session->max_in_flight;
    row->max_in_flight_bytes = session->max_in_flight_bytes;
    row->credit = session->credit;
    row->lanes = session->lanes;
    row->ack_deadline_ms = ks_span_to_ms(status->ack_deadline);
    row->idle_reason = ks_control_idle(idle);
    row->share = ks_pb_text(status->share);
    row->salt = ks_pb_text(status->salt);
    row->filter = ks_pb_text(status->filter);
}

void ks_serve_sessions(struct ks_exchange *exchange, const ProtobufCMessage *request,
                       struct ks_arena *arena)
{
    KinesisSidecar__V1__SessionsResponse response;
    struct ks_idle_leases leases = {.asked = false};
    struct ks_session_status status;
    struct ks_page page;
    struct list list;
    enum ks_idle idle;

    (void)arena;
    if (!ks_page_read(exchange, (const ks_pb_page_request *)request, &page) ||
        !list_begin(&list, exchange, &page))
        return;
    for (uint32_t i = list.page.next; i < ks_switchboard_session_slots(list.board); i++) {
        ks_pb_session *row;
        if (!ks_switchboard_session(list.board, i, &status) ||
            !ks_switchboard_session_idle(list.board, i, &leases, &idle))
            continue;
        row = list_row(&list, i, sizeof(*row));
        if (row == NULL)
            break;
        fill_session(&status, idle, row);
    }
    kinesis_sidecar__v1__sessions_response__init(&response);
    response.n_sessions = list.count;
    response.sessions = (ks_pb_session **)list.rows;
    response.next_page_token = list.page.token;
    list_answer(&list, &response.base);
}

void ks_handle_sessions(struct ks_exchange *exchange)
{
    ks_page_serve(exchange, ks_serve_sessions);
}

void ks_serve_close_session(struct ks_exchange *exchange, const ProtobufCMessage *message,
                            struct ks_arena *arena)
{
    const KinesisSidecar__V1__CloseSessionRequest *request =
        (const KinesisSidecar__V1__CloseSessionRequest *)message;
    struct ks_subscription *subscription = exchange->subscription;
    KinesisSidecar__V1__CloseSessionResponse response;
    ks_session_id session;

    (void)arena;
    if (!ks_switchboard_find_session(subscription->board, ks_view_text(request->session),
                                     &session)) {
        ks_exchange_problem(exchange, KS_PROBLEM_NOT_FOUND, "no such session");
        return;
    }
    ks_switchboard_close(subscription->board, session);
    ks_stream_session_closed(subscription, session);
    ks_records_session_closed(subscription, session);
    kinesis_sidecar__v1__close_session_response__init(&response);
    response.session = request->session;
    ks_exchange_message(exchange, &response.base);
}

void ks_handle_session_close(struct ks_exchange *exchange)
{
    KinesisSidecar__V1__CloseSessionRequest request;
    char name[KS_CLIENT_ID_MAX + 1] = "";

    kinesis_sidecar__v1__close_session_request__init(&request);
    /* A longer one is nobody's; an empty one neither. */
    (void)ks_view_copy_text(exchange->request.part, name, sizeof(name)).code;
    request.session = name;
    ks_serve_close_session(exchange, &request.base, NULL);
}

/* ---- Status ---- */

/* Of one subscription. */
static KinesisSidecar__V1__SidecarState state_of_board(const struct ks_board_status *status)
{
    if (status->draining)
        return KINESIS_SIDECAR__V1__SIDECAR_STATE__SIDECAR_STATE_DRAINING;
    if (status->self.state != KS_WORKER_LIVE)
        return KINESIS_SIDECAR__V1__SIDECAR_STATE__SIDECAR_STATE_STARTING;
    return status->self.sessions == 0 && status->self.leases_held == 0
               ? KINESIS_SIDECAR__V1__SIDECAR_STATE__SIDECAR_STATE_IDLE
               : KINESIS_SIDECAR__V1__SIDECAR_STATE__SIDECAR_STATE_ACTIVE;
}

static void fill_subscription(const struct ks_board_status *status, ks_pb_subscription *row)
{
    kinesis_sidecar__v1__subscription_status__init(row);
    row->subscription = ks_pb_text(status->subscription);
    row->stream = ks_pb_text(status->stream);
    row->application = ks_pb_text(status->application);
    row->dialect = ks_pb_text(status->dialect);
    row->leases_held = status->self.leases_held;
    row->sessions = status->self.sessions;
    row->in_flight = status->self.in_flight;
    row->in_flight_bytes = status->self.in_flight_bytes;
    row->assigned = status->self.assigned;
    row->assigned_bytes = status->self.assigned_bytes;
    row->millis_behind_latest = status->millis_behind;
    row->oldest_unsettled_age_ms = status->oldest_unsettled_ms;
    row->idle_reason = ks_control_idle(status->idle);
}

/* Of the whole: one that starts is what people wait for, one that works is more than one that idles. */
static KinesisSidecar__V1__SidecarState state_of_all(KinesisSidecar__V1__SidecarState a,
                                                     KinesisSidecar__V1__SidecarState b)
{
    static const uint8_t ranks[] = {
        [KINESIS_SIDECAR__V1__SIDECAR_STATE__SIDECAR_STATE_UNSPECIFIED] = 0,
        [KINESIS_SIDECAR__V1__SIDECAR_STATE__SIDECAR_STATE_DRAINING] = 1,
        [KINESIS_SIDECAR__V1__SIDECAR_STATE__SIDECAR_STATE_IDLE] = 2,
        [KINESIS_SIDECAR__V1__SIDECAR_STATE__SIDECAR_STATE_ACTIVE] = 3,
        [KINESIS_SIDECAR__V1__SIDECAR_STATE__SIDECAR_STATE_STARTING] = 4,
    };

    return ranks[a] > ranks[b] ? a : b;
}

/* What a status points into. */
struct overview {
    ks_pb_subscription rows[KS_SUBSCRIPTIONS_MAX];
    ks_pb_subscription *subscriptions[KS_SUBSCRIPTIONS_MAX];
    struct ks_detail said[KS_SUBSCRIPTIONS_MAX];
    char *reasons[KS_SUBSCRIPTIONS_MAX];
};

static void add_subscription(const struct ks_api *api, const struct ks_subscription *subscription,
                             struct overview *overview, ks_pb_status *answer)
{
    size_t at = answer->n_subscriptions++;
    struct ks_board_status status;

    ks_switchboard_status(subscription->board, &status);
    fill_subscription(&status, &overview->rows[at]);
    overview->subscriptions[at] = &overview->rows[at];
    answer->state = state_of_all(answer->state, state_of_board(&status));
    answer->ready = answer->ready && status.ready && !status.draining;
    if (status.reason[0] == '\0')
        return;
    ks_detail_set(&overview->said[at], "%s%s%s",
                  api->subscription_count > 1 ? status.subscription : "",
                  api->subscription_count > 1 ? ": " : "", status.reason);
    overview->reasons[answer->n_reasons++] = overview->said[at].text;
}

static void fill_memory(const struct ks_api *api, KinesisSidecar__V1__Held rows[KS_HELD_KINDS])
{
    for (int kind = 0; kind < KS_HELD_KINDS; kind++) {
        kinesis_sidecar__v1__held__init(&rows[kind]);
        rows[kind].kind = ks_pb_text(ks_held_name((enum ks_held)kind));
        rows[kind].bytes = api->accounts.held[kind] + api->ops_accounts.held[kind];
        rows[kind].limit = api->accounts.limit[kind] + api->ops_accounts.limit[kind];
    }
}

void ks_serve_status(struct ks_exchange *exchange, const ProtobufCMessage *request,
                     struct ks_arena *arena)
{
    char *capabilities[] = {ks_pb_text("ndjson"), ks_pb_text("protobuf"), ks_pb_text("grpc"),
                            ks_pb_text("connect")};
    struct ks_api *api = exchange->api;
    struct overview overview;
    KinesisSidecar__V1__Held rows[KS_HELD_KINDS];
    KinesisSidecar__V1__Held *held[KS_HELD_KINDS];
    struct ks_board_status first;
    ks_pb_status answer;

    (void)request;
    (void)arena;
    ks_switchboard_status(api->subscriptions[0].board, &first);
    kinesis_sidecar__v1__status__init(&answer);
    answer.worker_id = ks_pb_text(first.worker_id);
    answer.boot_id = api->boot_id;
    answer.version = ks_pb_text(first.version);
    answer.started_at = first.started_at.ms;
    answer.n_capabilities = sizeof(capabilities) / sizeof(capabilities[0]);
    answer.capabilities = capabilities;
    answer.ready = true;
    answer.subscriptions = overview.subscriptions;
    answer.reasons = overview.reasons;
    fill_memory(api, rows);
    for (int kind = 0; kind < KS_HELD_KINDS; kind++)
        held[answer.n_held++] = &rows[kind];
    answer.held = held;
    for (uint32_t i = 0; i < api->subscription_count; i++)
        if (exchange->subscription == NULL || exchange->subscription == &api->subscriptions[i])
            add_subscription(api, &api->subscriptions[i], &overview, &answer);
    ks_exchange_message(exchange, &answer.base);
}

void ks_handle_status(struct ks_exchange *exchange)
{
    ks_serve_status(exchange, NULL, NULL);
}
