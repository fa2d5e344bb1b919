/* SPDX-License-Identifier: Apache-2.0 */
#include "ports/board.h"

#include "base/metrics.h"

#include <assert.h>
#include <stdio.h>

/* An instant of ours as people see it. */
static ks_wall wall_of(const struct ks_switchboard *board, ks_instant at)
{
    return (ks_wall){ks_wall_now().ms - ks_span_to_ms(ks_instant_since(ks_board_now(board), at))};
}

const char *ks_switchboard_stream(const struct ks_switchboard *board)
{
    return board->config.stream;
}

const char *ks_switchboard_shard_id(const struct ks_switchboard *board, ks_shard shard)
{
    return ks_names_text(&board->rows.shards, ks_board_number(board, shard));
}

/* ---- The whole. ---- */

static const char *no_reason(enum ks_store_state state, const char *what)
{
    switch (state) {
    case KS_STORE_OPENING: return what;
    case KS_STORE_READY: return "";
    case KS_STORE_AWAY: return what;
    case KS_STORE_UNUSABLE: return what;
    }
    assert(false);
    return "";
}

/* Why it is not ready; "" if it is. */
static void find_reason(const struct ks_switchboard *board, const struct ks_self_view *self)
{
    struct ks_detail *reason = board->reason;
    enum ks_store_state store = board->config.store->vtable->state(board->config.store, reason);
    enum ks_store_state source;

    if (board->refused) {
        *reason = *board->why_refused;
        return;
    }
    if (board->draining) {
        ks_detail_set(reason, "draining");
        return;
    }
    if (store != KS_STORE_READY) {
        if (reason->text[0] == '\0')
            ks_detail_set(reason, "%s", no_reason(store, "the lease table does not answer"));
        return;
    }
    source = board->config.source->vtable->state(board->config.source, reason);
    if (source != KS_STORE_READY) {
        if (reason->text[0] == '\0')
            ks_detail_set(reason, "%s", no_reason(source, "the stream does not answer"));
        return;
    }
    reason->text[0] = '\0';
    if (!board->described)
        ks_detail_set(reason, "the stream was not reached yet");
    if (self->state == KS_WORKER_STARTING)
        ks_detail_set(reason, "registering with the fleet");
    if (self->state == KS_WORKER_LIVE && !self->serving)
        ks_detail_set(reason, "no heartbeat gets through to the lease table, deliveries rest");
    if (self->state == KS_WORKER_FENCED)
        ks_detail_set(reason, "fenced by the fleet, starting again");
}

/* Between two reads of a shard nothing is asked for a moment. */
enum { UNREAD_MS = 2000 };

/* How far its reader is behind: as it was told last, and as long as it cannot read, or has no room to. */
static int64_t reader_behind(const struct ks_board_lease *lease)
{
    int64_t last = lease->millis_behind > 0 ? lease->millis_behind : 0;
    ks_instant now = ks_board_now(lease->board);
    struct ks_lease_view view;
    int64_t unread_ms;

    if (lease->failing_since.us != KS_NEVER.us)
        return last + ks_span_to_ms(ks_instant_since(now, lease->failing_since));
    if (!ks_core_lease(lease->board->core, lease->shard, &view) ||
        view.unread_since.us == KS_NEVER.us)
        return lease->millis_behind;
    unread_ms = ks_span_to_ms(ks_instant_since(now, view.unread_since));
    return unread_ms < UNREAD_MS ? lease->millis_behind : last + unread_ms;
}

/* How old the first record is that is not settled; 0: there is none, or its arrival is not known. */
static int64_t unsettled_of(struct ks_board_lease *lease)
{
    const struct ks_record *record;
    struct ks_lease_view view;
    int64_t age_ms;

    if (!ks_core_lease(lease->board->core, lease->shard, &view) || view.fetched <= view.watermark)
        return 0;
    record = ks_batches_record(&lease->batches, view.watermark);
    if (record == NULL || record->arrival_ms == 0)
        return 0;
    age_ms = ks_board_age_ms(ks_wall_now().ms, record->arrival_ms);
    return age_ms > 0 ? age_ms : 0;
}

/* When something was settled last, or nothing was to be. */
static void note_progress(struct ks_board_lease *lease, const struct ks_lease_view *view)
{
    if (ks_board_progress(view) == lease->progress && view->in_flight > 0)
        return;
    lease->progress = ks_board_progress(view);
    lease->progress_at = ks_board_now(lease->board);
}

/* How far the apps of this lease are behind: as old as the oldest record that waits for one, or for its dead letter to
 * be written. Where none waits, as far as its reader is. The age is told by the clock of the stream and by ours. */
static int64_t behind_of(struct ks_board_lease *lease)
{
    const struct ks_record *record;
    ks_number waiting;
    int64_t age_ms;

    if (!ks_core_waiting(lease->board->core, lease->shard, lease->epoch, &waiting))
        return reader_behind(lease);
    record = ks_batches_record(&lease->batches, waiting);
    assert(record != NULL);
    if (record->arrival_ms == 0)
        return reader_behind(lease);
    age_ms = ks_board_age_ms(ks_wall_now().ms, record->arrival_ms);
    return age_ms > reader_behind(lease) ? age_ms : reader_behind(lease);
}

static int64_t most_behind(const struct ks_switchboard *board)
{
    int64_t most = -1;

    for (uint32_t i = 0; i < board->config.core.leases_max; i++) {
        int64_t behind = board->leases[i].used ? behind_of(&board->leases[i]) : -1;

        most = behind > most ? behind : most;
    }
    return most;
}

static int64_t oldest_unsettled(const struct ks_switchboard *board)
{
    int64_t most = 0;

    for (uint32_t i = 0; i < board->config.core.leases_max; i++) {
        int64_t age = board->leases[i].used ? unsettled_of(&board->leases[i]) : 0;

        most = age > most ? age : most;
    }
    return most;
}

static bool any_blocked(const struct ks_switchboard *board)
{
    struct ks_lease_view view;

    for (uint32_t i = 0; i < board->config.core.leases_max; i++) {
        const struct ks_board_lease *lease = &board->leases[i];

        if (lease->used && ks_core_lease(board->core, lease->shard, &view) && view.blocked)
            return true;
    }
    return false;
}

/* What all sessions say if they agree. False: they do not. */
static bool find_common(const struct ks_switchboard *board, enum ks_idle *ret_idle)
{
    struct ks_idle_leases all = {.asked = false};
    enum ks_idle each;
    bool found = false;

    for (ks_session_id i = 0; i < ks_switchboard_session_slots(board); i++) {
        if (!ks_switchboard_session_idle(board, i, &all, &each))
            continue;
        if (found && each != *ret_idle)
            return false;
        *ret_idle = each;
        found = true;
    }
    return found;
}

static enum ks_idle idle_of(const struct ks_switchboard *board, const struct ks_self_view *self)
{
    enum ks_idle common;

    if (board->draining)
        return KS_IDLE_DRAINING;
    if (self->paused)
        return KS_IDLE_PAUSED;
    if (self->sessions == 0)
        return KS_IDLE_NO_SESSIONS; /* Without one no lease is taken. */
    if (self->leases_held == 0)
        return KS_IDLE_NO_LEASES;
    if (!self->serving)
        return KS_IDLE_FENCED;
    if (self->held_bytes >= board->allowed)
        return KS_IDLE_FLOW_CONTROLLED;
    if (find_common(board, &common))
        return common;
    return any_blocked(board) ? KS_IDLE_LANE_BLOCKED : KS_IDLE_NO_DATA;
}

void ks_switchboard_status(const struct ks_switchboard *board, struct ks_board_status *ret_status)
{
    struct ks_board_status status = {
        .worker_id = board->config.worker_id,
        .boot = board->boot,
        .subscription = board->config.subscription,
        .stream = board->config.stream,
        .application = board->config.application,
        .dialect = board->config.dialect,
        .version = board->config.version,
        .started_at = board->started_at,
        .draining = board->draining,
        .reason = board->reason->text,
        .millis_behind = most_behind(board),
        .oldest_unsettled_ms = oldest_unsettled(board),
    };

    ks_core_self(board->core, &status.self);
    find_reason(board, &status.self);
    status.ready = status.reason[0] == '\0';
    status.idle = idle_of(board, &status.self);
    *ret_status = status;
}

/* ---- Shards. ---- */

uint32_t ks_switchboard_shard_count(const struct ks_switchboard *board)
{
    return board->rows.shards.fresh;
}

/* What the core knows of leases that we hold; of others the row as read last, which people may have asked for when the
 * core had no need to. */
static bool view_of(const struct ks_switchboard *board, ks_shard shard,
                    const struct ks_shard_words *words, struct ks_lease_view *ret_view)
{
    struct ks_lease_view view = {.session = KS_SESSION_NONE};
    bool seen = ks_core_lease(board->core, shard, &view);

    if (words->has_row && (!seen || board->open[shard] == 0)) {
        view.state = words->finished ? KS_LEASE_FINISHED : KS_LEASE_AWAY;
        view.owner = words->owner;
        view.next_owner = words->next_owner;
        view.epoch = words->epoch;
        view.finished = words->finished;
        view.damaged = words->damaged;
    }
    *ret_view = view;
    return seen || words->has_row;
}

bool ks_switchboard_shard(const struct ks_switchboard *board, ks_shard handle,
                          struct ks_shard_status *ret_status)
{
    const ks_shard shard = ks_board_number(board, handle);
    const struct ks_names *shards = &board->rows.shards;
    const struct ks_shard_words *words = ks_rows_words(&board->rows, shard);
    const struct ks_names *workers = &board->rows.workers;
    struct ks_board_lease *lease;
    struct ks_shard_status status = {.millis_behind = -1};

    if (words == NULL || !view_of(board, shard, words, &status.lease))
        return false;

    lease = ks_board_lease_of(board, shard, status.lease.epoch);
    status.shard_id = ks_names_text(shards, shard);
    for (uint32_t i = 0; i < KS_PARENTS_MAX; i++)
        status.parents[i] = ks_names_text(shards, words->parents[i]);
    for (uint32_t i = 0; i < KS_CHILDREN_MAX; i++)
        status.children[i] = ks_names_text(shards, words->children[i]);
    status.hash_start = words->hash_start;
    status.hash_end = words->hash_end;
    status.owner = ks_names_text(workers, status.lease.owner.worker);
    status.next_owner = ks_names_text(workers, status.lease.next_owner.worker);
    ks_story_reason(
        &words->story, status.shard_id, ks_names_text(workers, words->story.worker.worker),
        ks_board_record(board, shard, words->story.epoch, words->story.number), status.reason);
    status.has_lease = words->has_row;
    status.ours = lease != NULL;
    status.checkpoint = words->checkpoint;
    status.since = words->since;
    status.read_at = words->read_at;
    status.watermark = words->checkpoint;
    if (status.lease.paused && status.lease.paused_until.us != KS_NEVER.us)
        status.paused_until = wall_of(board, status.lease.paused_until);
    if (lease != NULL && words->marked > 0)
        status.watermark = words->mark;
    if (lease != NULL) {
        status.millis_behind = behind_of(lease);
        status.oldest_unsettled_ms = unsettled_of(lease);
        status.since = wall_of(board, status.lease.since);
        status.read_at = ks_wall_now();
    }
    ks_board_find_trouble(board, handle, &status);
    *ret_status = status;
    return true;
}

/* ---- Workers and sessions. ---- */

/* Our own row is as we are, not as it was read last. */
static void show_self(const struct ks_switchboard *board, const struct ks_self_view *self,
                      struct ks_worker_view *row)
{
    row->held = self->leases_held;
    if (board->draining)
        row->mode = KS_DRAINING;
    if (self->state == KS_WORKER_GONE)
        row->life = KS_GONE;
}

bool ks_switchboard_worker(const struct ks_switchboard *board, uint32_t index,
                           struct ks_worker_status *ret_status)
{
    struct ks_worker_status status = {.worker_id = ""};
    struct ks_self_view self;

    if (!ks_core_worker(board->core, index, &status.row))
        return false;
    ks_core_self(board->core, &self);
    status.worker_id = ks_names_text(&board->rows.workers, status.row.self.worker);
    status.self = ks_incarnation_equal(status.row.self, self.incarnation);
    status.beat_age = ks_instant_since(ks_board_now(board), status.row.beat_seen_at);
    if (status.self)
        show_self(board, &self, &status.row);
    *ret_status = status;
    return true;
}

uint32_t ks_switchboard_session_slots(const struct ks_switchboard *board)
{
    return board->config.core.sessions_max;
}

bool ks_switchboard_session(const struct ks_switchboard *board, ks_session_id id,
                            struct ks_session_status *ret_status)
{
    struct ks_session_status status;

    if (id >= board->config.core.sessions_max || !board->sessions[id].live ||
        !ks_core_session(board->core, id, &status.session))
        return false;
    status.client_id = board->sessions[id].client_id;
    status.ack_deadline = board->sessions[id].ack_deadline;
    status.since = board->sessions[id].since;
    status.share = board->sessions[id].share;
    status.salt = board->sessions[id].salt;
    status.filter = board->filter.shown;
    *ret_status = status;
    return true;
}

bool ks_switchboard_session_idle(const struct ks_switchboard *board, ks_session_id id,
                                 struct ks_idle_leases *all, enum ks_idle *ret_idle)
{
    struct ks_session_status status;

    if (!ks_switchboard_session(board, id, &status))
        return false;
    *ret_idle = ks_core_session_idle(board->core, id, all);
    return true;
}

/* ---- Load. ---- */

/* What was delivered counts for about so long: long enough that a burst moves no lease, short enough that the leader
 * sees a shard that has become hot. */
enum { LOAD_MEMORY_MS = 30000 };

uint64_t ks_board_load_after(uint64_t load, uint64_t bytes, ks_span span)
{
    int64_t span_ms = ks_span_to_ms(span);
    int64_t rate;
    int64_t change;

    assert(span_ms > 0);
    /* All of these are below 2^40: their products fit. */
    rate = (int64_t)bytes * 1000 / span_ms;
    change = (rate - (int64_t)load) * span_ms / (LOAD_MEMORY_MS + span_ms);
    /* Less than the division can show is nothing, in the end. */
    if (change == 0 && rate == 0)
        return 0;
    return (uint64_t)((int64_t)load + change);
}

void ks_board_measure_load(struct ks_switchboard *board)
{
    ks_instant now = ks_board_now(board);
    ks_span span = ks_instant_since(now, board->load_at);
    uint64_t load;

    if (ks_span_to_ms(span) <= 0)
        return;
    load = ks_board_load_after(board->load, board->load_bytes, span);
    board->load_bytes = 0;
    board->load_at = now;
    if (load == board->load)
        return;
    board->load = load;
    ks_board_step(board, &(struct ks_event){.kind = KS_EVENT_LOAD, .load.load = load});
}

/* ---- Gauges. ---- */

/* Over the leases that are open: the largest gap behind a watermark, and the oldest watermark that
 * no checkpoint holds. */
static void measure_leases(struct ks_switchboard *board)
{
    ks_instant now = ks_board_now(board);
    int64_t blocked = 0;
    int64_t gap = 0;
    int64_t age_ms = 0;

    for (uint32_t i = 0; i < board->config.core.leases_max; i++) {
        struct ks_board_lease *lease = &board->leases[i];
        struct ks_lease_view view;

        if (!lease->used || !ks_core_lease(board->core, lease->shard, &view))
            continue;
        note_progress(lease, &view);
        blocked += view.blocked;
        if (view.settled > gap)
            gap = view.settled;
        if (lease->unsaved_since.us != KS_NEVER.us &&
            ks_span_to_ms(ks_instant_since(now, lease->unsaved_since)) > age_ms)
            age_ms = ks_span_to_ms(ks_instant_since(now, lease->unsaved_since));
    }
    ks_metric_set_labelled(KS_METRIC_WATERMARK_GAP_RECORDS, board->config.subscription, gap);
    ks_metric_set_labelled(KS_METRIC_BLOCKED_LEASES, board->config.subscription, blocked);
    ks_metric_set_labelled(KS_METRIC_CHECKPOINT_AGE_SECONDS, board->config.subscription, age_ms);
}

static void measure_fleet(struct ks_switchboard *board)
{
    struct ks_worker_view worker;
    int64_t live = 0;
    int64_t rows = 0;

    for (uint32_t i = 0; ks_core_worker(board->core, i, &worker); i++)
        live += worker.life == KS_LIVE;
    for (ks_shard shard = 0; shard < board->rows.shards.fresh; shard++)
        rows += board->rows.words[shard].known && board->rows.words[shard].has_row;
    ks_metric_set_labelled(KS_METRIC_WORKERS, board->config.subscription, live);
    ks_metric_set_labelled(KS_METRIC_SHARDS, board->config.subscription, rows);
    ks_metric_set_labelled(KS_METRIC_NAMES_FULL, board->config.subscription,
                           ks_rows_full(&board->rows));
}

/* The records of each group, as counted since the last time. */
static void measure_groups(struct ks_switchboard *board)
{
    static const enum ks_metric metrics[KS_COUNTS] = {
        [KS_COUNT_DELIVERED] = KS_METRIC_GROUP_RECORDS_DELIVERED,
        [KS_COUNT_ACKED] = KS_METRIC_GROUP_RECORDS_ACKED,
        [KS_COUNT_FAILED] = KS_METRIC_GROUP_RECORDS_FAILED,
    };
    static const char *const groups[KS_GROUPS] = {
        [KS_GROUP_REST] = "rest",
        [KS_GROUP_CANARY] = "canary",
    };

    for (uint32_t group = 0; group < KS_GROUPS; group++)
        for (uint32_t count = 0; count < KS_COUNTS; count++) {
            uint64_t now = ks_core_group(board->core, (enum ks_group)group, (enum ks_count)count);

            ks_metric_add_pair(metrics[count], board->config.subscription, groups[group],
                               (int64_t)(now - board->counted[group][count]));
            board->counted[group][count] = now;
        }
}

void ks_board_measure(struct ks_switchboard *board)
{
    const struct ks_lease_store *store = board->config.store;
    const struct ks_stream_source *source = board->config.source;
    struct ks_board_status status;
    struct ks_detail ignored;
    int64_t left_ms;

    ks_switchboard_status(board, &status);
    left_ms = status.self.leases_held == 0 || !status.self.serving
                  ? 0
                  : ks_span_to_ms(ks_instant_since(status.self.deadline, ks_board_now(board)));
    ks_metric_set_labelled(KS_METRIC_IN_FLIGHT_RECORDS, board->config.subscription,
                           (int64_t)status.self.in_flight);
    ks_metric_set_labelled(KS_METRIC_IN_FLIGHT_BYTES, board->config.subscription,
                           (int64_t)status.self.in_flight_bytes);
    ks_metric_set_labelled(KS_METRIC_ASSIGNED_RECORDS, board->config.subscription,
                           (int64_t)status.self.assigned);
    ks_metric_set_labelled(KS_METRIC_ASSIGNED_BYTES, board->config.subscription,
                           (int64_t)status.self.assigned_bytes);
    ks_metric_set_labelled(KS_METRIC_MILLIS_BEHIND_LATEST, board->config.subscription,
                           status.millis_behind < 0 ? 0 : status.millis_behind);
    ks_metric_set_labelled(KS_METRIC_OLDEST_UNSETTLED, board->config.subscription,
                           status.oldest_unsettled_ms);
    ks_metric_set_labelled(KS_METRIC_SESSIONS, board->config.subscription, status.self.sessions);
    measure_groups(board);
    ks_metric_set_labelled(KS_METRIC_LEASES_HELD, board->config.subscription,
                           status.self.leases_held);
    ks_metric_set_labelled(KS_METRIC_LEASE_DEADLINE_SECONDS, board->config.subscription,
                           left_ms > 0 ? left_ms : 0);
    ks_metric_set_labelled(KS_METRIC_UNREAD_SHARDS, board->config.subscription, status.self.unread);
    ks_metric_set_labelled(KS_METRIC_LEADER, board->config.subscription, status.self.leads);
    ks_metric_set_labelled(KS_METRIC_STORE_UP, board->config.subscription,
                           store->vtable->state(store, &ignored) == KS_STORE_READY);
    ks_metric_set_labelled(KS_METRIC_SOURCE_UP, board->config.subscription,
                           source->vtable->state(source, &ignored) == KS_STORE_READY);
    ks_metric_set_labelled(KS_METRIC_READY, board->config.subscription, status.ready);
    ks_metric_set_labelled(KS_METRIC_DRAINING, board->config.subscription, status.draining);
    ks_metric_set_labelled(KS_METRIC_MEMORY_BUDGET_USED, board->config.subscription,
                           (int64_t)board->budget.used);
    ks_metric_set(KS_METRIC_MEMORY_HEAP_USED, (int64_t)ks_alloc_used());
    ks_metric_set(
        KS_METRIC_MEMORY_BUDGET_LIMIT,
        (int64_t)(board->budget.pool == NULL ? board->budget.limit : board->budget.pool->limit));
    measure_leases(board);
    measure_fleet(board);
}

bool ks_board_shard_metric(struct ks_metric_keeper *keeper, enum ks_metric metric, uint32_t index,
                           const char **ret_shard, int64_t *ret_number)
{
    struct ks_switchboard *board = KS_LIST_ENTRY(keeper, struct ks_switchboard, metrics);
    struct ks_board_lease *lease;

    if (index >= board->config.core.leases_max)
        return false;
    lease = &board->leases[index];
    *ret_shard = lease->used ? ks_names_text(&board->rows.shards, lease->shard) : NULL;
    if (metric == KS_METRIC_SHARD_MILLIS_BEHIND_LATEST) {
        *ret_number = lease->used ? behind_of(lease) : -1;
        if (*ret_number < 0)
            *ret_shard = NULL; /* Nobody knows. */
    } else if (metric == KS_METRIC_SHARD_OLDEST_UNSETTLED) {
        *ret_number = lease->used ? unsettled_of(lease) : 0;
    } else if (metric == KS_METRIC_SHARD_READS) {
        *ret_number = lease->reads;
    } else if (metric == KS_METRIC_SHARD_READ_FAILURES) {
        *ret_number = lease->failures;
    } else if (metric == KS_METRIC_SHARD_THROTTLES) {
        *ret_number = lease->throttles;
    } else {
        return false; /* The source's own. */
    }
    return true;
}
