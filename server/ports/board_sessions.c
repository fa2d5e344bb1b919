/* SPDX-License-Identifier: Apache-2.0 */
#include "ports/board.h"

#include "base/digest.h"
#include "base/metrics.h"
#include "core/lanes.h"
#include "ports/share.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

static struct ks_board_session *live_session(const struct ks_switchboard *board, ks_session_id id)
{
    if (id >= board->config.core.sessions_max || !board->sessions[id].live)
        return NULL;
    return &board->sessions[id];
}

/* ---- Consumers. ---- */

void ks_board_wake(struct ks_switchboard *board, ks_session_id id)
{
    struct ks_board_session *session = live_session(board, id);

    if (session != NULL && session->consumer != NULL && ks_list_empty(&session->wake))
        ks_list_append(&board->wakes, &session->wake);
}

void ks_board_session_ended(struct ks_switchboard *board, ks_session_id id, enum ks_session_end why)
{
    struct ks_board_session *session = live_session(board, id);

    assert(session != NULL);

    session->live = false;
    ks_list_remove(&session->wake);
    ks_session_log_ended(&board->session_log, ks_board_now(board), board->prefix,
                         session->client_id, why);
    if (session->consumer == NULL)
        return;
    session->parting++;
    session->consumer->why = why;
    ks_list_append(&board->partings, &session->consumer->gone);
    session->consumer = NULL;
}

void ks_board_returning(struct ks_switchboard *board, ks_shard shard, ks_span until)
{
    struct ks_board_returning note = {shard, {ks_wall_now().ms + ks_span_to_ms(until)}};

    /* More than fit: say it of all of them. */
    if (board->returning_count == board->config.core.leases_max) {
        board->returning_count = 0;
        note.shard = KS_SHARD_NONE;
    }
    board->returning[board->returning_count++] = note;
}

static void call_partings(struct ks_switchboard *board)
{
    while (!ks_list_empty(&board->partings)) {
        struct ks_consumer *consumer =
            KS_LIST_ENTRY(board->partings.next, struct ks_consumer, gone);

        ks_list_remove(&consumer->gone);
        consumer->ended(consumer, consumer->why);
    }
    for (ks_session_id id = 0; id < board->config.core.sessions_max; id++) {
        if (board->sessions[id].parting == 0)
            continue;
        board->sessions[id].parting = 0;
        ks_board_wake(board, id); /* It could not pull meanwhile. */
    }
}

static void call_returning(struct ks_switchboard *board)
{
    uint32_t count = board->returning_count;

    for (ks_session_id id = 0; id < board->config.core.sessions_max; id++) {
        for (uint32_t i = 0; i < count; i++) {
            const struct ks_board_returning *note = &board->returning[i];
            struct ks_consumer *consumer = board->sessions[id].consumer;

            if (consumer == NULL)
                break;
            consumer->returning(consumer,
                                note->shard == KS_SHARD_NONE
                                    ? NULL
                                    : ks_names_text(&board->rows.shards, note->shard),
                                note->deadline);
        }
    }
    /* A note that a consumer's own call made is told in the next turn. */
    board->returning_count -= count;
    for (uint32_t i = 0; i < board->returning_count; i++)
        board->returning[i] = board->returning[count + i];
}

static void call_wakes(struct ks_switchboard *board)
{
    struct ks_link now;

    /* Those that are woken meanwhile wait for the next turn: nobody can keep the loop to himself. */
    if (ks_list_empty(&board->wakes))
        return;
    ks_link_init(&now);
    ks_list_append(&board->wakes, &now);
    while (board->wakes.next != &now) {
        struct ks_board_session *session =
            KS_LIST_ENTRY(board->wakes.next, struct ks_board_session, wake);

        ks_list_remove(&session->wake);
        if (session->consumer != NULL)
            session->consumer->wake(session->consumer);
    }
    ks_list_remove(&now);
}

bool ks_board_call_consumers(struct ks_switchboard *board)
{
    if (!ks_list_empty(&board->partings))
        call_partings(board);
    if (board->returning_count > 0)
        call_returning(board);
    call_wakes(board);
    return !ks_list_empty(&board->partings) || board->returning_count > 0 ||
           !ks_list_empty(&board->wakes);
}

/* ---- Open, attach, detach, close. ---- */

bool ks_client_id_is_valid(ks_view id)
{
    if (id.size > KS_CLIENT_ID_MAX)
        return false;
    for (size_t i = 0; i < id.size; i++) {
        uint8_t c = id.data[i];

        if (!((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
              c == '.' || c == '_' || c == '-'))
            return false;
    }
    return true;
}

bool ks_switchboard_find_session(const struct ks_switchboard *board, ks_view client_id,
                                 ks_session_id *ret_session)
{
    for (ks_session_id id = 0; id < board->config.core.sessions_max; id++) {
        if (board->sessions[id].live &&
            ks_view_equal(ks_view_text(board->sessions[id].client_id), client_id)) {
            *ret_session = id;
            return true;
        }
    }
    return false;
}

static ks_err shards_of(const struct ks_switchboard *board,
                        const struct ks_session_request *request,
                        ks_shard shards[KS_SESSION_SHARDS_MAX], struct ks_detail *detail)
{
    if (request->shard_count > KS_SESSION_SHARDS_MAX) {
        ks_detail_set(detail, "a session can name at most %d shards", KS_SESSION_SHARDS_MAX);
        return KS_FAIL(INVALID);
    }
    for (uint32_t i = 0; i < request->shard_count; i++) {
        KS_TRY(ks_switchboard_need_shard(board, request->shards[i], &shards[i], detail));
        shards[i] = ks_board_number(board, shards[i]);
    }
    return KS_OK;
}

static void name_session(struct ks_board_session *session, ks_view client_id)
{
    ks_err copied;

    if (client_id.size == 0) {
        (void)snprintf(session->client_id, sizeof session->client_id, "session-%016" PRIx64,
                       ks_random_u64());
        return;
    }
    copied = ks_view_copy_text(client_id, session->client_id, sizeof session->client_id);
    assert(ks_ok(copied));
}

/* Of a record that goes into a message that the client takes; 0: it did not say. */
static uint32_t record_bytes(const struct ks_session_request *request)
{
    if (request->max_message_bytes == 0)
        return 0;
    assert(request->max_message_bytes > KS_MESSAGE_EXTRA_BYTES);
    return request->max_message_bytes - KS_MESSAGE_EXTRA_BYTES;
}

/* The share of the sessions that have one. */
static void tell_share(const struct ks_switchboard *board, struct ks_detail *detail)
{
    ks_session_id id = 0;

    while (id < board->config.core.sessions_max &&
           (!board->sessions[id].live || board->sessions[id].share[0] == '\0'))
        id++;
    assert(id < board->config.core.sessions_max);
    ks_detail_set(detail,
                  "sessions with share=%s and salt=%s are open, and all with a share have the "
                  "same; open with these, or close those sessions first",
                  board->sessions[id].share, board->sessions[id].salt);
}

static ks_err tell_refusal(const struct ks_switchboard *board, enum ks_not_opened why,
                           struct ks_detail *detail)
{
    switch (why) {
    case KS_NOT_OPENED_FULL:
        ks_detail_set(detail, "as many sessions are open as there may be");
        return KS_FAIL(FULL);
    case KS_NOT_OPENED_DRAINING:
        ks_detail_set(detail, "draining: no new sessions");
        return KS_FAIL(BUSY);
    case KS_NOT_OPENED_SHARE: tell_share(board, detail); return KS_FAIL(CONDITION);
    case KS_NOT_OPENED_FILTER:
        ks_detail_set(detail, "other sessions are open, with another filter or none; all of a "
                              "subscription have the same: use a subscription of its own for this "
                              "filter");
        return KS_FAIL(CONDITION);
    case KS_NOT_OPENED_ORDERING: break;
    }
    ks_detail_set(detail, "other sessions are open, with another ordering or number of lanes; all "
                          "of a subscription have the same");
    return KS_FAIL(CONDITION);
}

/* Whether the share, if there is one, can be served: it is a number of lanes that leaves some for the rest. */
static ks_err check_share(const struct ks_session_request *request, struct ks_detail *detail)
{
    char text[KS_SHARE_TEXT_SIZE];
    uint32_t count;

    if (request->share == 0)
        return KS_OK;
    if (request->ordering != KS_ORDER_BY_KEY) {
        ks_detail_set(detail, "share goes with ordering=key: it is a share of the lanes");
        return KS_FAIL(INVALID);
    }
    if (!ks_client_id_is_valid(request->salt)) {
        ks_detail_set(detail, "salt has at most %d characters of A-Z a-z 0-9 . _ -",
                      KS_CLIENT_ID_MAX);
        return KS_FAIL(INVALID);
    }
    count = ks_share_count(request->share, request->lanes);
    if (count > 0 && count < request->lanes)
        return KS_OK;
    ks_share_format(request->share, text);
    ks_detail_set(detail,
                  "share=%s of lanes=%" PRIu32 " rounds to %" PRIu32
                  " lanes, which leaves one side "
                  "nothing; take more lanes, at most %d, or another share",
                  text, request->lanes, count, KS_LANES_MAX);
    return KS_FAIL(INVALID);
}

/* What the session is shown with. */
static void name_new(struct ks_board_session *session, const struct ks_session_request *request)
{
    ks_err copied = KS_OK;

    name_session(session, request->client_id);
    ks_share_format(request->share, session->share);
    session->salt[0] = '\0';
    if (request->share > 0)
        copied = ks_view_copy_text(request->salt, session->salt, sizeof session->salt);
    assert(ks_ok(copied));
}

/* What else a session asks for is valid. */
static ks_err open_session(struct ks_switchboard *board, const struct ks_session_request *request,
                           const ks_shard *shards, struct ks_board_filter *filter,
                           struct ks_detail *detail)
{
    struct ks_event event = {.kind = KS_EVENT_SESSION_OPEN};

    ks_board_catch_up(board);
    event.open.take_over = KS_SESSION_NONE;
    if (request->client_id.size > 0)
        (void)ks_switchboard_find_session(board, request->client_id, &event.open.take_over);
    event.open.pulls = request->pulls;
    event.open.max_in_flight = request->max_in_flight;
    event.open.max_in_flight_bytes = request->max_in_flight_bytes;
    event.open.ack_deadline = request->ack_deadline;
    event.open.grace = request->grace;
    event.open.linger = request->linger;
    event.open.shards = shards;
    event.open.shard_count = request->shard_count;
    event.open.ordering = request->ordering;
    event.open.lanes = request->lanes;
    event.open.share = request->share;
    event.open.salt = request->share == 0 ? 0 : ks_fnv_hash(request->salt);
    event.open.filter = filter->number;
    event.open.explicit_credit = request->explicit_credit;
    event.open.max_record_bytes = record_bytes(request);
    ks_board_step(board, &event);

    if (board->said.kind == KS_EFFECT_NOT_OPENED)
        return tell_refusal(board, board->said.session.why_not, detail);
    assert(board->said.kind == KS_EFFECT_OPENED);
    ks_board_filter_use(board, filter);
    return KS_OK;
}

ks_err ks_switchboard_open(struct ks_switchboard *board, const struct ks_session_request *request,
                           struct ks_consumer *consumer, ks_session_id *ret_session,
                           struct ks_detail *detail)
{
    ks_shard shards[KS_SESSION_SHARDS_MAX];
    struct ks_board_session *session;
    struct ks_board_filter filter;
    ks_err err;

    if (!ks_client_id_is_valid(request->client_id)) {
        ks_detail_set(detail,
                      "the name of a session (client_id, session) has at most %d characters of "
                      "A-Z a-z 0-9 . _ -",
                      KS_CLIENT_ID_MAX);
        return KS_FAIL(INVALID);
    }
    KS_TRY(check_share(request, detail));
    KS_TRY(shards_of(board, request, shards, detail));
    if (request->max_message_bytes > 0 && request->max_message_bytes <= KS_MESSAGE_EXTRA_BYTES) {
        ks_detail_set(detail, "max_message_bytes must be more than %d", KS_MESSAGE_EXTRA_BYTES);
        return KS_FAIL(INVALID);
    }

    KS_TRY(ks_board_filter_new(board, request->filter, &filter, detail));
    err = open_session(board, request, shards, &filter, detail);
    ks_board_filter_free(&filter);
    KS_TRY(err);
    *ret_session = board->said.session.session;
    session = &board->sessions[*ret_session];
    session->live = true;
    session->consumer = consumer;
    session->ack_deadline = request->ack_deadline;
    session->since = ks_wall_now();
    name_new(session, request);
    ks_session_log_opened(&board->session_log, ks_board_now(board), board->prefix,
                          session->client_id, consumer == NULL);
    if (consumer != NULL)
        ks_link_init(&consumer->gone);
    return KS_OK;
}

void ks_switchboard_attach(struct ks_switchboard *board, ks_session_id id,
                           struct ks_consumer *consumer)
{
    struct ks_board_session *session = live_session(board, id);

    assert(consumer != NULL);

    ks_link_init(&consumer->gone);
    if (session != NULL)
        session->consumer = consumer;
}

void ks_switchboard_detach(struct ks_switchboard *board, ks_session_id id,
                           struct ks_consumer *consumer, bool cut)
{
    struct ks_event event = {.kind = KS_EVENT_SESSION_DETACH,
                             .session = {.session = id, .cut = cut}};
    struct ks_board_session *session = live_session(board, id);

    /* It may be waiting to be told that it is over. */
    if (consumer != NULL && !ks_list_empty(&consumer->gone)) {
        ks_list_remove(&consumer->gone);
        if (--board->sessions[id].parting == 0)
            ks_board_wake(board, id);
    }
    if (session == NULL || session->consumer != consumer)
        return;
    session->consumer = NULL;
    ks_list_remove(&session->wake);
    ks_board_step(board, &event);
}

bool ks_switchboard_grant(struct ks_switchboard *board, ks_session_id id, uint32_t records)
{
    struct ks_event event = {.kind = KS_EVENT_GRANT, .grant = {id, records}};
    struct ks_session_view view;

    if (live_session(board, id) == NULL || !ks_core_session(board->core, id, &view) ||
        !view.explicit_credit)
        return false;
    ks_board_step(board, &event);
    return true;
}

bool ks_switchboard_update(struct ks_switchboard *board, ks_session_id id,
                           const struct ks_session_request *request)
{
    struct ks_event event = {.kind = KS_EVENT_SESSION_UPDATE};

    event.update.session = id;
    event.update.max_in_flight = request->max_in_flight;
    event.update.max_in_flight_bytes = request->max_in_flight_bytes;
    event.update.max_record_bytes = record_bytes(request);
    if (live_session(board, id) == NULL)
        return false;
    ks_board_step(board, &event);
    return true;
}

void ks_switchboard_close(struct ks_switchboard *board, ks_session_id id)
{
    struct ks_board_session *session;

    ks_board_catch_up(board);
    session = live_session(board, id);
    if (session == NULL)
        return;
    session->live = false;
    session->consumer = NULL;
    ks_list_remove(&session->wake);
    ks_session_log_closed(&board->session_log, ks_board_now(board), board->prefix,
                          session->client_id);
    ks_board_step(board, &(struct ks_event){.kind = KS_EVENT_SESSION_CLOSE, .session.session = id});
}

/* ---- Records. ---- */

const struct ks_record *ks_board_record(const struct ks_switchboard *board, ks_shard shard,
                                        ks_epoch epoch, ks_number number)
{
    struct ks_board_lease *lease = ks_board_lease_of(board, shard, epoch);

    if (shard == KS_SHARD_NONE)
        return ks_board_letter_record(board, number);
    return lease == NULL ? NULL : ks_batches_record(&lease->batches, number);
}

/* The bytes of the records, but for those that are forgotten: an older delivery may have settled one while it was
 * half-way. */
static int64_t bytes_of(struct ks_switchboard *board, const struct ks_run *run, ks_number first,
                        uint32_t count)
{
    ks_shard shard = ks_board_number(board, run->shard);
    const struct ks_record *letter;

    if (shard != KS_SHARD_NONE)
        return (int64_t)ks_core_bytes(board->core, shard, run->epoch, first, count);
    letter = ks_board_letter_record(board, first);
    return letter == NULL ? 0 : (int64_t)(letter->data.size + letter->partition_key.size);
}

/* Counts records that were written. */
static void count_delivered(struct ks_switchboard *board, const struct ks_run *run, ks_number first,
                            uint32_t count)
{
    int64_t bytes = bytes_of(board, run, first, count);

    ks_metric_add_labelled(KS_METRIC_RECORDS_DELIVERED, board->config.subscription, count);
    ks_metric_add_labelled(KS_METRIC_RECORDS_DELIVERED_BYTES, board->config.subscription, bytes);
    board->load_bytes += (uint64_t)bytes;
    if (run->attempt > 1)
        ks_metric_add_labelled(KS_METRIC_RECORDS_REDELIVERED, board->config.subscription, count);
}

uint32_t ks_switchboard_pull(struct ks_switchboard *board, ks_session_id id, uint32_t max_records,
                             uint64_t max_bytes, struct ks_run *runs, uint32_t max_runs)
{
    return ks_switchboard_pull_more(board, id, 0, max_records, max_bytes, runs, max_runs);
}

uint32_t ks_switchboard_pull_more(struct ks_switchboard *board, ks_session_id id, uint64_t after,
                                  uint32_t max_records, uint64_t max_bytes, struct ks_run *runs,
                                  uint32_t max_runs)
{
    struct ks_board_session *session;
    struct ks_event event = {.kind = KS_EVENT_SESSION_PULL};

    ks_board_catch_up(board);
    session = live_session(board, id);
    /* While its slot's last consumer does not know that it is over, the two cannot be told apart:
     * the right one is woken in a moment. */
    if (session == NULL || session->parting > 0)
        return 0;

    event.pull.session = id;
    event.pull.max_records = max_records;
    event.pull.max_bytes = max_bytes;
    event.pull.max_runs = max_runs;
    event.pull.after = after;
    board->runs = runs;
    board->run_max = max_runs;
    board->run_count = 0;
    ks_board_step(board, &event);
    board->run_max = 0;

    for (uint32_t i = 0; i < board->run_count; i++)
        runs[i].shard = ks_board_handle(board, runs[i].shard);
    return board->run_count;
}

void ks_switchboard_write(struct ks_switchboard *board, ks_session_id session,
                          const struct ks_run *run, enum ks_write_stage stage, ks_number first,
                          uint32_t count)
{
    struct ks_event event = {.kind = KS_EVENT_WRITE};

    if (stage == KS_STAGE_WRITTEN)
        count_delivered(board, run, first, count);
    event.write.stage = stage;
    event.write.session = session;
    event.write.shard = ks_board_number(board, run->shard);
    event.write.epoch = run->epoch;
    event.write.first = first;
    event.write.count = count;
    event.write.assignment = run->assignment;
    ks_board_step_at_once(board, &event);
}

/* How many records of the run, from this one on, came in the same read. */
static uint32_t count_behind(const struct ks_switchboard *board, ks_shard shard,
                             const struct ks_run *run, ks_number number,
                             const struct ks_record *record)
{
    const struct ks_board_lease *lease = ks_board_lease_of(board, shard, run->epoch);
    ks_number left = run->first + run->count - number;
    const struct ks_batch *batch;
    uint32_t of_batch;

    if (lease == NULL)
        return 1; /* A dead letter. */
    batch = ks_batches_batch(&lease->batches, number);
    of_batch = (uint32_t)(batch->records + batch->count - record);
    return left < of_batch ? (uint32_t)left : of_batch;
}

const struct ks_record *ks_switchboard_records(struct ks_switchboard *board,
                                               const struct ks_run *run, ks_number number,
                                               uint32_t *ret_count)
{
    ks_shard shard = ks_board_number(board, run->shard);
    const struct ks_record *record = ks_board_record(board, shard, run->epoch, number);

    *ret_count = 0;
    if (record == NULL)
        return NULL;
    *ret_count = ks_core_assigned(board->core, shard, run->epoch, number,
                                  count_behind(board, shard, run, number, record), run->assignment);
    return *ret_count == 0 ? NULL : record;
}

bool ks_switchboard_may_finish(const struct ks_switchboard *board, ks_shard shard, ks_epoch epoch,
                               ks_instant now)
{
    return ks_core_may_finish(board->core, ks_board_number(board, shard), epoch, now);
}

bool ks_switchboard_may_send(const struct ks_switchboard *board, ks_shard shard, ks_epoch epoch,
                             ks_instant now)
{
    return ks_core_may_send(board->core, ks_board_number(board, shard), epoch, now);
}

void ks_switchboard_hold(const struct ks_switchboard *board, const struct ks_run *run,
                         ks_number number, struct ks_held_record *ret_held)
{
    ks_shard shard = ks_board_number(board, run->shard);
    struct ks_board_lease *lease = ks_board_lease_of(board, shard, run->epoch);
    const struct ks_record *record = ks_board_record(board, shard, run->epoch, number);
    const struct ks_batch *batch;

    assert(record != NULL && (shard == KS_SHARD_NONE || lease != NULL));
    ret_held->record = *record;
    if (shard == KS_SHARD_NONE) {
        ret_held->blocks[0] = ks_board_letter_block(board, number);
    } else {
        batch = ks_batches_batch(&lease->batches, number);
        ret_held->blocks[0] = batch->block;
        ret_held->blocks[1] = batch->payload;
    }
    for (size_t i = 0; i < 2; i++)
        if (ret_held->blocks[i] != NULL)
            ks_block_use(ret_held->blocks[i]);
}

void ks_held_record_drop(struct ks_held_record *held)
{
    ks_block_drop(held->blocks[0]);
    ks_block_drop(held->blocks[1]);
    *held = (struct ks_held_record){.blocks = {NULL}};
}

const struct ks_record *ks_switchboard_too_large(struct ks_switchboard *board, ks_shard handle,
                                                 ks_epoch *ret_epoch)
{
    ks_shard shard = ks_board_number(board, handle);
    struct ks_lease_view lease;

    if (!ks_core_lease(board->core, shard, &lease) || !lease.holds_large)
        return NULL;
    *ret_epoch = lease.epoch;
    return ks_board_record(board, shard, lease.epoch, lease.large);
}

/* ---- Settling. ---- */

static const char *const settle_reasons[] = {
    [KS_SETTLE_OK] = "ok",
    [KS_SETTLE_FENCED] = "fenced",
    [KS_SETTLE_EXPIRED] = "expired",
    [KS_SETTLE_SETTLED] = "settled",
    [KS_SETTLE_UNKNOWN] = "unknown",
    [KS_SETTLE_SESSION_FENCED] = "session_fenced",
    [KS_SETTLE_SESSION_EXPIRED] = "session_expired",
};

/* The core's answer to the step that just ran. */
static struct ks_settled settled(const struct ks_switchboard *board)
{
    assert(board->said.kind == KS_EFFECT_SETTLED);

    if (board->said.settled.status != KS_SETTLE_OK)
        ks_metric_add_pair(KS_METRIC_SETTLE_FAILURES, board->config.subscription,
                           settle_reasons[board->said.settled.status], 1);
    return board->said.settled;
}

/* How many of its records were settled. */
static uint32_t count_done(const struct ks_settled *answer, const struct ks_settlement *settlement)
{
    if (answer->status == KS_SETTLE_OK)
        return settlement->count;
    return answer->status == KS_SETTLE_EXPIRED
               ? (uint32_t)(answer->expired_first - settlement->first)
               : 0;
}

struct ks_settled ks_switchboard_settle(struct ks_switchboard *board,
                                        const struct ks_settlement *settlement)
{
    struct ks_event event = {.kind = KS_EVENT_SETTLE};
    struct ks_settled answer;

    event.settle.session = settlement->session;
    event.settle.session_epoch = settlement->session_epoch;
    event.settle.shard = ks_board_number(board, settlement->shard);
    event.settle.epoch = settlement->epoch;
    event.settle.first = settlement->first;
    event.settle.count = settlement->count;
    event.settle.assignment = settlement->assignment;
    event.settle.alone = settlement->alone;
    event.settle.outcome = settlement->outcome;
    event.settle.delay = settlement->delay;
    assert(settlement->outcome != KS_DEAD_LETTER || board->config.letters != NULL);
    ks_board_step(board, &event);

    answer = settled(board);
    ks_board_note_reason(board, settlement, count_done(&answer, settlement));
    if (settlement->outcome == KS_ACK)
        ks_metric_add_labelled(KS_METRIC_RECORDS_ACKED, board->config.subscription,
                               (int64_t)answer.count);
    if (settlement->outcome == KS_RETRY)
        ks_metric_add_labelled(KS_METRIC_RECORDS_RETRIED, board->config.subscription,
                               (int64_t)answer.count);
    return answer;
}

static ks_err not_delivered(struct ks_detail *detail, ks_view shard_id, ks_view sequence)
{
    ks_detail_set(detail, "%.*s: %.*s was not delivered in this epoch", (int)shard_id.size,
                  (const char *)shard_id.data, (int)sequence.size, (const char *)sequence.data);
    return KS_FAIL(INVALID);
}

ks_err ks_switchboard_checkpoint(struct ks_switchboard *board, ks_view shard_id, ks_view sequence,
                                 int64_t sub_sequence, ks_epoch epoch, ks_shard *ret_shard,
                                 ks_epoch *ret_epoch, ks_number *ret_up_to,
                                 struct ks_detail *detail)
{
    struct ks_event event = {.kind = KS_EVENT_CHECKPOINT};
    const struct ks_shard_words *words;
    struct ks_board_lease *lease;
    struct ks_lease_view view;
    struct ks_settled answer;
    ks_shard shard;
    ks_number number;

    if (!ks_names_find(&board->rows.shards, shard_id, &shard) ||
        !ks_core_lease(board->core, shard, &view)) {
        ks_detail_set(detail, "no shard %.*s is known", (int)shard_id.size,
                      (const char *)shard_id.data);
        return KS_FAIL(NOT_FOUND);
    }
    lease = ks_board_lease_of(board, shard, epoch == 0 ? view.epoch : epoch);
    if (lease == NULL) {
        ks_detail_set(detail, "%.*s: not held here in that epoch", (int)shard_id.size,
                      (const char *)shard_id.data);
        return KS_FAIL(EXPIRED);
    }

    *ret_shard = ks_board_handle(board, shard);
    *ret_epoch = lease->epoch;
    words = ks_rows_words(&board->rows, shard);
    assert(words != NULL);
    if (words->marked > 0 &&
        ks_position_compare(sequence, sub_sequence, ks_view_text(words->mark.sequence),
                            words->mark.sub_sequence) <= 0) {
        *ret_up_to = words->marked; /* It is settled already. */
        return KS_OK;
    }
    if (!ks_batches_find(&lease->batches, sequence, sub_sequence, view.delivered, &number))
        return not_delivered(detail, shard_id, sequence);

    event.checkpoint.shard = shard;
    event.checkpoint.epoch = lease->epoch;
    event.checkpoint.number = number;
    ks_board_step(board, &event);
    answer = settled(board);
    ks_metric_add_labelled(KS_METRIC_RECORDS_ACKED, board->config.subscription,
                           (int64_t)answer.count);
    *ret_up_to = answer.up_to;
    switch (answer.status) {
    case KS_SETTLE_OK: return KS_OK;
    case KS_SETTLE_UNKNOWN: return not_delivered(detail, shard_id, sequence);
    case KS_SETTLE_FENCED:
    case KS_SETTLE_EXPIRED:
    case KS_SETTLE_SETTLED:
    case KS_SETTLE_SESSION_FENCED:
    case KS_SETTLE_SESSION_EXPIRED: break;
    }
    ks_detail_set(detail, "%.*s: its epoch %" PRIu64 " is over", (int)shard_id.size,
                  (const char *)shard_id.data, lease->epoch);
    return KS_FAIL(EXPIRED);
}

void ks_switchboard_persist(struct ks_switchboard *board, ks_shard shard)
{
    ks_board_step(board, &(struct ks_event){.kind = KS_EVENT_PERSIST,
                                            .persist.shard = ks_board_number(board, shard)});
}

bool ks_switchboard_persisted(const struct ks_switchboard *board, ks_shard shard, ks_epoch epoch,
                              ks_number up_to)
{
    const struct ks_shard_words *words = ks_rows_words(&board->rows, ks_board_number(board, shard));

    if (up_to == 0)
        return true;
    if (shard == KS_SHARD_NONE)
        return ks_core_letters_told(board->core, up_to);
    return words != NULL && words->persisted_epoch == epoch && words->persisted >= up_to;
}

bool ks_switchboard_can_put(const struct ks_switchboard *board)
{
    return board->config.source->vtable->put != NULL;
}

ks_err ks_switchboard_put(struct ks_switchboard *board, const struct ks_put_entry *entries,
                          uint32_t count,
                          void (*answered)(void *arg, const struct ks_put_answer *answer),
                          void *arg)
{
    const struct ks_stream_source_vtable *source = board->config.source->vtable;

    if (source->put == NULL)
        return KS_FAIL(UNSUPPORTED);
    source->put(board->config.source, entries, count, answered, arg);
    return KS_OK;
}
