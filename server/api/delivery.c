/* SPDX-License-Identifier: Apache-2.0 */
#include "api/delivery.h"

#include <assert.h>

#include "api/server.h"
#include "base/budget.h"

static const struct ks_run *present_run(const struct ks_delivery *delivery)
{
    assert(delivery->run_next > 0);

    return &delivery->runs[delivery->run_next - 1];
}

/* True if the record that is half-way may be sent to its end. */
static bool may_finish(const struct ks_delivery *delivery)
{
    const struct ks_framer *framer = &delivery->framer;

    return ks_switchboard_may_send(delivery->subscription->board, framer->shard, framer->epoch,
                                   delivery->now);
}

/* The record of the framer's run; NULL: it may not be written. */
static const struct ks_record *board_record(void *arg, ks_number number)
{
    struct ks_delivery *delivery = arg;

    if (delivery->framer.begun)
        return may_finish(delivery) ? &delivery->held.record : NULL;
    if (!delivery->may_begin)
        return NULL;
    if (number - delivery->ready_first >= delivery->ready_count) {
        delivery->ready_first = number;
        delivery->ready = ks_switchboard_records(
            delivery->subscription->board, present_run(delivery), number, &delivery->ready_count);
    }
    return delivery->ready_count == 0 ? NULL : delivery->ready + (number - delivery->ready_first);
}

bool ks_request_encoding(struct ks_exchange *exchange, enum ks_frame_encoding *ret_encoding)
{
    static const char *const words[] = {
        [KS_ENCODING_BASE64] = "base64", [KS_ENCODING_UTF8] = "utf8", [KS_ENCODING_JSON] = "json"};
    ks_view given = KS_VIEW("base64");

    (void)ks_request_param(&exchange->request, "encoding", &given);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (ks_view_equal(given, ks_view_text(words[i]))) {
            *ret_encoding = (enum ks_frame_encoding)i;
            return true;
        }
    }
    ks_exchange_problem(exchange, KS_PROBLEM_INVALID_ARGUMENT,
                        "encoding must be base64, utf8 or json");
    return false;
}

void ks_delivery_init(struct ks_delivery *delivery, const struct ks_subscription *subscription,
                      ks_session_id session, enum ks_frame_format format)
{
    struct ks_session_status status;
    struct ks_frame_source source = {board_record, delivery};

    delivery->subscription = subscription;
    delivery->session = session;
    delivery->session_epoch = 0;
    if (ks_switchboard_session(subscription->board, session, &status))
        delivery->session_epoch = status.session.epoch;
    delivery->run_count = 0;
    delivery->run_next = 0;
    delivery->unsent_count = 0;
    delivery->ends_first = 0;
    delivery->ends_begin = 0;
    delivery->produced = 0;
    delivery->sent = 0;
    delivery->held = (struct ks_held_record){.blocks = {NULL}};
    delivery->ready_count = 0;
    delivery->batch_id[0] = '\0';
    delivery->passed = 0;
    delivery->head_size = 0;
    delivery->open = false;
    delivery->late = false;
    ks_framer_init(&delivery->framer, format, source);
}

void ks_delivery_name(struct ks_delivery *delivery)
{
    struct ks_ack ack = {.session = delivery->session, .session_epoch = delivery->session_epoch};

    for (uint32_t i = 0; i < delivery->run_count; i++) {
        const struct ks_run *run = &delivery->runs[i];
        if (run->count > 0)
            ack.runs[ack.run_count++] = (struct ks_ack_run){run->shard, run->epoch, run->first,
                                                            run->count, run->assignment};
    }
    delivery->batch_id[0] = '\0';
    if (ack.run_count > 0)
        (void)ks_batch_id_write(&delivery->subscription->ack_key, &ack, delivery->batch_id);
}

bool ks_delivery_pull(struct ks_delivery *delivery, uint32_t max_records, uint64_t max_bytes,
                      uint32_t max_runs)
{
    assert(!ks_delivery_pending(delivery));
    assert(max_runs > 0 && max_runs <= KS_BATCH_RUNS_MAX);
    if (delivery->late)
        return false;
    delivery->run_next = 0;
    delivery->run_count = ks_switchboard_pull(delivery->subscription->board, delivery->session,
                                              max_records, max_bytes, delivery->runs, max_runs);
    if (delivery->run_count == 0)
        return false;
    ks_delivery_name(delivery);
    return true;
}

/* True if the session is still the one that the delivery began with: another one may have its slot. */
static bool session_lives(const struct ks_delivery *delivery)
{
    struct ks_session_status status;

    return ks_switchboard_session(delivery->subscription->board, delivery->session, &status) &&
           status.session.epoch == delivery->session_epoch;
}

bool ks_delivery_pull_more(struct ks_delivery *delivery, uint32_t max_records, uint64_t max_bytes)
{
    uint32_t room = KS_BATCH_RUNS_MAX - delivery->run_count;
    uint32_t count;

    assert(!ks_delivery_pending(delivery) && delivery->run_count > 0);
    if (delivery->late || room == 0 || !session_lives(delivery))
        return false;
    count =
        ks_switchboard_pull_more(delivery->subscription->board, delivery->session,
                                 delivery->runs[delivery->run_count - 1].assignment, max_records,
                                 max_bytes, delivery->runs + delivery->run_count, room);
    delivery->run_count += count;
    return count > 0;
}

bool ks_delivery_pending(const struct ks_delivery *delivery)
{
    return delivery->framer.next < delivery->framer.end || delivery->run_next < delivery->run_count;
}

static void begin_run(struct ks_delivery *delivery)
{
    const struct ks_run *run = &delivery->runs[delivery->run_next++];
    const struct ks_frame_names names = {
        .batch_id = delivery->batch_id,
        .stream = ks_switchboard_run_stream(delivery->subscription->board, run),
        .shard_id = ks_switchboard_run_shard(delivery->subscription->board, run),
    };
    struct ks_ack_run place = {run->shard, run->epoch, run->first, run->count, run->assignment};
    struct ks_ack_stamp stamp;

    ks_ack_stamp_init(&stamp, &delivery->subscription->ack_key, delivery->session,
                      delivery->session_epoch, &place);
    ks_framer_begin(&delivery->framer, &stamp, &names, &place, run->attempt);
}

/* ---- Reports ---- */

static void report(struct ks_delivery *delivery, const struct ks_run *run,
                   enum ks_write_stage stage, ks_number first, ks_number end)
{
    if (first < end)
        ks_switchboard_write(delivery->subscription->board, delivery->session, run, stage, first,
                             (uint32_t)(end - first));
}

/* True if the record is the next one of these. */
static bool continues(const struct ks_run *unsent, const struct ks_run *run, ks_number number)
{
    return unsent->shard == run->shard && unsent->epoch == run->epoch &&
           unsent->assignment == run->assignment && unsent->first + unsent->count == number;
}

/* Records of the run wait to be sent. What was left out between them is not among them. */
static void add_unsent(struct ks_delivery *delivery, const struct ks_run *run, ks_number first,
                       ks_number end)
{
    struct ks_run *last = &delivery->unsent[delivery->unsent_count];

    if (delivery->unsent_count > 0 && continues(last - 1, run, first)) {
        last[-1].count += (uint32_t)(end - first);
        return;
    }
    assert(delivery->unsent_count <= KS_UNSENT_RUNS_MAX);
    delivery->unsent_count++;
    *last = *run;
    last->first = first;
    last->count = (uint32_t)(end - first);
}

/* Records `first` up to the framer's next one were handed over, and some of that one if it is begun. */
static void hand_over(struct ks_delivery *delivery, ks_number first, enum ks_frame_state state)
{
    const struct ks_run *run = present_run(delivery);
    const struct ks_framer *framer = &delivery->framer;
    bool begun = framer->begun && state != KS_FRAME_CUT && delivery->held.blocks[0] == NULL;

    if (begun)
        ks_switchboard_hold(delivery->subscription->board, run, framer->next, &delivery->held);
    if (first < framer->next)
        add_unsent(delivery, run, first, framer->next);
    report(delivery, run, KS_STAGE_BEGUN, first, framer->next + (begun ? 1 : 0));
}

/* The record that comes next may not be begun: it is left out, or, where the lease may not send, the rest of the run
 * is returned. */
static void skip(struct ks_delivery *delivery)
{
    struct ks_framer *framer = &delivery->framer;

    assert(!framer->begun);
    if (delivery->may_begin) {
        framer->next++;
        return;
    }
    delivery->late = true;
    report(delivery, present_run(delivery), KS_STAGE_RETURNED, framer->next, framer->end);
    framer->next = framer->end;
}

/* Makes room for the ends of more records, where each record that waits has its own: a slow connection may never be
 * without one that waits. */
static void forget_sent_ends(struct ks_delivery *delivery)
{
    struct ks_framer *framer = &delivery->framer;
    uint32_t left = framer->ends_count - delivery->ends_first;
    uint32_t waiting = 0;

    for (uint32_t i = 0; i < delivery->unsent_count; i++)
        waiting += delivery->unsent[i].count;
    if (delivery->ends_first == 0 || left != waiting)
        return;
    memmove(framer->ends, framer->ends + delivery->ends_first, left * sizeof(*framer->ends));
    framer->ends_count = left;
    delivery->ends_first = 0;
}

/* Has the framer note the ends of records. Without memory for them it does not. */
static void begin_ends(struct ks_delivery *delivery)
{
    struct ks_framer *framer = &delivery->framer;

    if (delivery->unsent_count > 0) {
        forget_sent_ends(delivery);
        return;
    }
    if (framer->ends == NULL)
        framer->ends = ks_alloc(KS_UNSENT_ENDS_MAX * sizeof(*framer->ends));
    framer->ends_room = framer->ends == NULL ? 0 : KS_UNSENT_ENDS_MAX;
    framer->ends_count = delivery->ends_first = 0;
}

static void free_ends(struct ks_delivery *delivery)
{
    ks_free(delivery->framer.ends);
    delivery->framer.ends = NULL;
    delivery->framer.ends_room = delivery->framer.ends_count = delivery->ends_first = 0;
}

/* Writes some of the present run. */
static size_t fill_run(struct ks_delivery *delivery, uint8_t *buffer, size_t room,
                       enum ks_frame_state *ret_state)
{
    struct ks_framer *framer = &delivery->framer;
    ks_number first = framer->next;
    bool half_way = framer->begun;
    uint32_t end_index = framer->ends_count;
    size_t size;

    delivery->ready_count = 0;
    delivery->may_begin = ks_switchboard_may_finish(delivery->subscription->board, framer->shard,
                                                    framer->epoch, delivery->now);
    size = ks_framer_fill(framer, buffer, room, ret_state);
    for (uint32_t i = end_index; i < framer->ends_count; i++)
        framer->ends[i] += (uint32_t)delivery->produced;
    delivery->produced += size;

    /* The held record is out, or cannot be finished. */
    if (half_way && (!framer->begun || framer->next > first || *ret_state == KS_FRAME_CUT))
        ks_held_record_drop(&delivery->held);
    delivery->passed = framer->next;
    hand_over(delivery, first, *ret_state);
    return size;
}

size_t ks_delivery_fill(struct ks_delivery *delivery, uint8_t *buffer, size_t room,
                        enum ks_frame_state *ret_state)
{
    struct ks_framer *framer = &delivery->framer;
    size_t size = 0;

    delivery->now = ks_instant_now();
    *ret_state = KS_FRAME_DONE;
    begin_ends(delivery);
    delivery->ends_begin = framer->ends_count;
    while (ks_delivery_pending(delivery)) {
        /* What is half-way goes on: there is room for one run more. */
        if (delivery->unsent_count >= KS_UNSENT_RUNS_MAX && !framer->begun) {
            *ret_state = KS_FRAME_FULL;
            return size;
        }
        if (framer->next == framer->end)
            begin_run(delivery);
        size += fill_run(delivery, buffer + size, room - size, ret_state);
        if (*ret_state == KS_FRAME_FULL || *ret_state == KS_FRAME_CUT)
            return size;
        if (*ret_state == KS_FRAME_MISSING)
            skip(delivery);
    }
    *ret_state = KS_FRAME_DONE;
    return size;
}

/* ---- The connection ---- */

void ks_delivery_pass(struct ks_delivery *delivery, size_t size)
{
    delivery->produced += size;
}

/* Records at the begin of the unsent run that are in the socket. */
static uint32_t count_sent(struct ks_delivery *delivery, const struct ks_run *run)
{
    const struct ks_framer *framer = &delivery->framer;
    uint32_t count = 0;

    if (delivery->sent == delivery->produced)
        return run->count;
    while (delivery->ends_first < framer->ends_count && count < run->count &&
           (int32_t)(framer->ends[delivery->ends_first] - (uint32_t)delivery->sent) <= 0) {
        delivery->ends_first++;
        count++;
    }
    return count;
}

void ks_delivery_sent(struct ks_delivery *delivery, size_t size)
{
    uint64_t waiting = delivery->produced - delivery->sent;
    uint32_t whole = 0;

    delivery->sent += size < waiting ? size : waiting;
    while (whole < delivery->unsent_count) {
        struct ks_run *run = &delivery->unsent[whole];
        uint32_t count = count_sent(delivery, run);

        report(delivery, run, KS_STAGE_WRITTEN, run->first, run->first + count);
        run->first += count;
        run->count -= count;
        if (run->count > 0)
            break;
        whole++;
    }
    delivery->unsent_count -= whole;
    memmove(delivery->unsent, delivery->unsent + whole,
            delivery->unsent_count * sizeof(delivery->unsent[0]));
    if (delivery->unsent_count == 0)
        free_ends(delivery);
}

bool ks_delivery_may_send(const struct ks_delivery *delivery)
{
    const struct ks_switchboard *board = delivery->subscription->board;
    const struct ks_framer *framer = &delivery->framer;
    ks_instant now = ks_instant_now();

    for (uint32_t i = 0; i < delivery->unsent_count; i++)
        if (!ks_switchboard_may_send(board, delivery->unsent[i].shard, delivery->unsent[i].epoch,
                                     now))
            return false;
    return !framer->begun || ks_switchboard_may_send(board, framer->shard, framer->epoch, now);
}

void ks_delivery_return(struct ks_delivery *delivery)
{
    struct ks_framer *framer = &delivery->framer;
    ks_number first = framer->next + (framer->begun ? 1 : 0);

    while (delivery->run_count > delivery->run_next) {
        const struct ks_run *run = &delivery->runs[--delivery->run_count];
        report(delivery, run, KS_STAGE_RETURNED, run->first, run->first + run->count);
    }
    if (first >= framer->end)
        return;
    report(delivery, present_run(delivery), KS_STAGE_RETURNED, first, framer->end);
    framer->end = first;
}

void ks_delivery_end(struct ks_delivery *delivery)
{
    struct ks_framer *framer = &delivery->framer;

    ks_delivery_return(delivery);
    if (framer->begun)
        report(delivery, present_run(delivery), KS_STAGE_TORN, framer->next, framer->end);
    framer->begun = false;
    framer->next = framer->end;
    while (delivery->unsent_count > 0) {
        const struct ks_run *run = &delivery->unsent[--delivery->unsent_count];
        report(delivery, run, KS_STAGE_TORN, run->first, run->first + run->count);
    }
    free_ends(delivery);
    ks_held_record_drop(&delivery->held);
}
