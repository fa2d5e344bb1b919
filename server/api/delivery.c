/* SPDX-License-Identifier: Apache-2.0 */
#include "api/delivery.h"

#include <assert.h>

#include "api/server.h"

static const struct ks_record *board_record(void *arg, ks_shard shard, ks_epoch epoch,
                                            ks_number number)
{
    struct ks_delivery *delivery = arg;
    struct ks_switchboard *board = delivery->subscription->board;

    /* What is half-way must be ended; what was settled since it was pulled is not even begun. */
    if (!delivery->framer.begun && ks_switchboard_is_over(board, shard, epoch, number))
        return NULL;
    return ks_switchboard_record(board, shard, epoch, number, delivery->now);
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
    delivery->batch_id[0] = '\0';
    delivery->passed = 0;
    delivery->head_size = 0;
    delivery->open = false;
    delivery->late = false;
    delivery->torn = false;
    ks_framer_init(&delivery->framer, format, source);
}

void ks_delivery_name(struct ks_delivery *delivery)
{
    struct ks_ack ack = {.session = delivery->session, .session_epoch = delivery->session_epoch};

    for (uint32_t i = 0; i < delivery->run_count; i++) {
        const struct ks_run *run = &delivery->runs[i];
        if (run->count > 0)
            ack.runs[ack.run_count++] =
                (struct ks_ack_run){run->shard, run->epoch, run->first, run->count};
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
    struct ks_ack_run place = {run->shard, run->epoch, run->first, run->count};
    struct ks_ack_stamp stamp;

    ks_ack_stamp_init(&stamp, &delivery->subscription->ack_key, delivery->session,
                      delivery->session_epoch, run->shard, run->epoch);
    ks_framer_begin(&delivery->framer, &stamp, &names, &place, run->attempt);
}

/* Hands records back as if they had been refused at once: those that are not settled come again in the order of their
 * shard, and they have used no credit. False if the session or the epoch is over, and with it the delivery. */
static bool give_back(struct ks_delivery *delivery, ks_shard shard, ks_epoch epoch, ks_number first,
                      ks_number end)
{
    struct ks_settlement settlement = {
        .session = delivery->session,
        .session_epoch = delivery->session_epoch,
        .shard = shard,
        .epoch = epoch,
        .first = first,
        .count = (uint32_t)(end - first),
        .outcome = KS_GIVE_BACK,
    };
    enum ks_settle_status status;

    status = ks_switchboard_settle(delivery->subscription->board, &settlement).status;
    /* Expired: some have come to another session meanwhile. */
    return status == KS_SETTLE_OK || status == KS_SETTLE_EXPIRED;
}

static bool is_settled(const struct ks_delivery *delivery)
{
    const struct ks_framer *framer = &delivery->framer;

    return ks_switchboard_is_over(delivery->subscription->board, framer->shard, framer->epoch,
                                  framer->next);
}

/* The record that comes next may not be written. */
static void skip(struct ks_delivery *delivery)
{
    struct ks_framer *framer = &delivery->framer;
    struct ks_run *run = &delivery->runs[delivery->run_next - 1];
    bool settled = is_settled(delivery);
    ks_number end = settled ? framer->next + 1 : framer->end;
    bool back = give_back(delivery, framer->shard, framer->epoch, framer->next, end);

    assert(!framer->begun);
    if (!settled) {
        delivery->late = true;
        run->count = (uint32_t)(framer->next - run->first);
        delivery->torn = delivery->torn || (back && run->count > 0);
    }
    framer->next = end;
}

size_t ks_delivery_fill(struct ks_delivery *delivery, uint8_t *buffer, size_t room,
                        enum ks_frame_state *ret_state)
{
    struct ks_framer *framer = &delivery->framer;
    size_t size = 0;

    delivery->now = ks_instant_now();
    *ret_state = KS_FRAME_DONE;
    while (ks_delivery_pending(delivery)) {
        if (framer->next == framer->end)
            begin_run(delivery);
        size += ks_framer_fill(framer, buffer + size, room - size, ret_state);
        delivery->passed = framer->next;
        if (*ret_state == KS_FRAME_FULL || *ret_state == KS_FRAME_CUT)
            return size;
        if (*ret_state == KS_FRAME_MISSING)
            skip(delivery);
    }
    *ret_state = KS_FRAME_DONE;
    return size;
}

void ks_delivery_give_back(struct ks_delivery *delivery)
{
    struct ks_framer *framer = &delivery->framer;
    ks_number first = framer->next + (framer->begun ? 1 : 0);

    if (first < framer->end)
        (void)give_back(delivery, framer->shard, framer->epoch, first, framer->end);
    framer->next = framer->end;
    framer->begun = false;
    for (; delivery->run_next < delivery->run_count; delivery->run_next++) {
        const struct ks_run *run = &delivery->runs[delivery->run_next];
        (void)give_back(delivery, run->shard, run->epoch, run->first, run->first + run->count);
    }
}
