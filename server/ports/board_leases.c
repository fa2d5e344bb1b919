/* SPDX-License-Identifier: Apache-2.0 */
#include "ports/board.h"

#include "base/codec.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/pattern.h"
#include "core/tracker.h"
#include "ports/share.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

static const char *shard_name(const struct ks_board_lease *lease)
{
    return ks_names_text(&lease->board->rows.shards, lease->shard);
}

struct ks_board_lease *ks_board_lease_of(const struct ks_switchboard *board, ks_shard shard,
                                         ks_epoch epoch)
{
    struct ks_board_lease *lease;

    if (shard >= board->config.core.shards_max || board->open[shard] == 0)
        return NULL;
    lease = &board->leases[board->open[shard] - 1];
    assert(lease->used && lease->shard == shard);
    return lease->epoch == epoch ? lease : NULL;
}

void ks_board_open(struct ks_switchboard *board, ks_shard shard, ks_epoch epoch)
{
    struct ks_shard_words *words = ks_rows_words(&board->rows, shard);
    uint32_t index = 0;

    assert(words != NULL);
    assert(board->open[shard] == 0);

    while (board->leases[index].used)
        index++;
    assert(index < board->config.core.leases_max);

    board->leases[index] = (struct ks_board_lease){
        .board = board,
        .used = true,
        .shard = shard,
        .epoch = epoch,
        .from = words->checkpoint,
        .millis_behind = -1,
        .opened_at = ks_board_now(board),
        .progress_at = ks_board_now(board),
        .unsaved_since = KS_NEVER,
        .failing_since = KS_NEVER,
        .throttled_at = KS_LONG_AGO,
        .expired_at = KS_LONG_AGO,
    };
    board->open[shard] = index + 1;
    words->mark_epoch = words->persisted_epoch = epoch;
    words->marked = words->persisted = 0;
    words->whole = ks_rows_whole(words);
}

void ks_board_close(struct ks_switchboard *board, ks_shard shard)
{
    struct ks_board_lease *lease;

    if (board->open[shard] == 0)
        return;
    lease = &board->leases[board->open[shard] - 1];
    if (lease->reader != NULL)
        board->config.source->vtable->close_reader(lease->reader);
    ks_batches_clear(&lease->batches);
    ks_board_end_judgement(lease);
    lease->used = false;
    board->open[shard] = 0;
    ks_board_happened(board, shard, NULL, NULL);
}

/* ---- Reading. ---- */

/* What may pass by itself is trouble only when it lasts: as long as the source gives the whole stream. */
static bool is_trouble(struct ks_board_lease *lease, ks_err err)
{
    static const ks_span patience = {INT64_C(10) * 1000 * 1000};
    ks_instant now = ks_board_now(lease->board);

    if (ks_ok(err)) {
        lease->failing_since = KS_NEVER;
        return false;
    }
    if (lease->failing_since.us == KS_NEVER.us)
        lease->failing_since = now;
    return lease->failing || ks_err_class(err) != KS_CLASS_RETRY ||
           ks_instant_reached(now, ks_instant_add(lease->failing_since, patience));
}

/* A state that lasts is said once: by the source, if it is one of the whole stream; here, if it is
 * one of this shard. Full and throttled are flow, not trouble; the session hears of them as its idle
 * reason. */
static void tell_read(struct ks_board_lease *lease, const struct ks_read_answer *answer)
{
    const struct ks_stream_source *source = lease->board->config.source;
    bool failing;
    struct ks_detail ignored;

    if (!ks_ok(answer->err))
        ks_metric_add_pair(KS_METRIC_SOURCE_FAILURES, lease->board->config.subscription,
                           ks_err_name(answer->err), 1);
    if (ks_err_class(answer->err) == KS_CLASS_SHED || answer->throttled)
        return;
    failing = is_trouble(lease, answer->err);
    if (failing == lease->failing)
        return;
    if (failing && source->vtable->state(source, &ignored) != KS_STORE_READY)
        return;
    lease->failing = failing;
    if (!failing) {
        ks_info("%s%s: can be read again", lease->board->prefix, shard_name(lease));
        return;
    }
    ks_warn("%s%s: cannot be read (%s), trying again until it can", lease->board->prefix,
            shard_name(lease),
            answer->detail.text[0] != '\0' ? answer->detail.text : ks_err_text(answer->err));
    ks_board_doubt_stream(lease->board);
}

/* A throttled shard comes and goes with every read: said once, and again only after it has had its peace. */
static void tell_throttled(struct ks_board_lease *lease)
{
    static const ks_span peace = {INT64_C(60) * 1000 * 1000};
    struct ks_switchboard *board = lease->board;
    ks_instant now = ks_board_now(board);
    bool told = ks_instant_before(now, ks_instant_add(lease->throttled_at, peace));
    char line[KS_STORY_LINE_MAX];

    lease->throttled_at = now;
    if (told)
        return;
    (void)snprintf(line, sizeof line, "%s: reads are throttled, reading less often",
                   shard_name(lease));
    ks_info("%s%s", lease->board->prefix, line);
    ks_board_tell_event(board, "throttled", lease->shard, lease->epoch, line);
}

/* FNV-1a of 64 bits, folded: even, also where keys differ in their last digit only. */
uint8_t ks_key_hash(ks_view key)
{
    uint64_t hash = ks_fnv_hash(key);

    hash ^= hash >> 32;
    hash ^= hash >> 16;
    return (uint8_t)(hash ^ hash >> 8);
}

uint32_t ks_key_lane(ks_view key, uint32_t lanes)
{
    return ks_hash_lane(ks_key_hash(key), lanes);
}

/* 9999-12-31: no later instant has a text. */
static const int64_t ARRIVAL_MS_MAX = INT64_C(253402300799999);
/* A stream says at most 365 days. */
static const int64_t BEHIND_MS_MAX = INT64_C(253402300799999);

int64_t ks_board_age_ms(int64_t now_ms, int64_t arrival_ms)
{
    if (arrival_ms < 0)
        return now_ms;
    return now_ms - (arrival_ms < ARRIVAL_MS_MAX ? arrival_ms : ARRIVAL_MS_MAX);
}

uint32_t ks_board_stale_s(int64_t max_age_ms, int64_t held_ms, int64_t now_ms, int64_t arrival_ms)
{
    int64_t left_ms = held_ms + max_age_ms - ks_board_age_ms(now_ms, arrival_ms);
    int64_t seconds = left_ms / 1000 + (left_ms % 1000 > 0);

    if (max_age_ms == 0 || arrival_ms == 0 || seconds >= UINT32_MAX)
        return UINT32_MAX;
    return seconds < 0 ? 0 : (uint32_t)seconds;
}

/* "90 records expired unread, which arrived from .. to ..". */
static void say_expired(const struct ks_board_lease *lease, char line[KS_STORY_LINE_MAX])
{
    const struct ks_expired *expired = &lease->expired;
    char count[32] = "records";
    char from[KS_TIMESTAMP_SIZE + 8] = "an unknown time";
    char to[KS_TIMESTAMP_SIZE];

    if (expired->count > 0)
        (void)snprintf(count, sizeof count, "%" PRIu64 " records", expired->count);
    if (expired->from_ms > 0)
        ks_timestamp_format(expired->from_ms, from);
    ks_timestamp_format(expired->to_ms, to);
    (void)snprintf(
        line, KS_STORY_LINE_MAX,
        "%s: %s %sexpired unread, which arrived between %s and %s; read sooner, or raise "
        "the stream's retention period",
        shard_name(lease), count, expired->certain ? "" : "may have ", from, to);
}

/* One that is behind for longer than the retention period loses records with every read: told once a minute, as one
 * span. */
static void tell_expired(struct ks_board_lease *lease, const struct ks_expired *expired)
{
    static const ks_span peace = {INT64_C(60) * 1000 * 1000};
    struct ks_switchboard *board = lease->board;
    ks_instant now = ks_board_now(board);
    struct ks_expired *told = &lease->expired;
    char line[KS_STORY_LINE_MAX];

    if (!expired->found)
        return;
    ks_metric_add_labelled(KS_METRIC_RECORDS_EXPIRED, board->config.subscription,
                           (int64_t)expired->count);
    if (expired->from_ms > 0 && expired->to_ms >= expired->from_ms)
        ks_metric_set_labelled(KS_METRIC_EXPIRED_GAP_SECONDS, board->config.subscription,
                               expired->to_ms - expired->from_ms);
    told->from_ms = told->found ? told->from_ms : expired->from_ms;
    told->to_ms = expired->to_ms;
    told->count += expired->count;
    told->certain = told->certain || expired->certain;
    told->found = true;
    if (ks_instant_before(now, ks_instant_add(lease->expired_at, peace)))
        return;
    say_expired(lease, line);
    ks_warn("%s%s", board->prefix, line);
    ks_board_tell_expired(board, lease->shard, lease->epoch, told, line);
    lease->expired_at = now;
    *told = (struct ks_expired){.found = false};
}

/* Writes when each record of the batch is too old to fail. Its age counts by the stream's clock, read once, and from
 * now on by that of the loop. False: the records never are. */
static bool find_stale(const struct ks_board_lease *lease, const struct ks_batch *batch)
{
    struct ks_switchboard *board = lease->board;
    int64_t max_age_ms = ks_span_to_ms(board->config.core.poison.max_age);
    int64_t held_ms = ks_span_to_ms(ks_instant_since(ks_board_now(board), lease->opened_at));
    int64_t now_ms;

    if (max_age_ms == 0)
        return false;
    now_ms = ks_board_stream_ms(board);
    for (uint32_t i = 0; i < batch->count; i++)
        board->stale_s[i] =
            ks_board_stale_s(max_age_ms, held_ms, now_ms, batch->records[i].arrival_ms);
    return true;
}

/* Writes which records of the batch the filter passes over. False: there is no filter. */
static bool find_filtered(const struct ks_switchboard *board, const struct ks_batch *batch)
{
    int64_t count = 0;

    if (board->config.filter == NULL)
        return false;
    for (uint32_t i = 0; i < batch->count; i++) {
        board->filtered[i] = !ks_board_takes(board->config.filter, &batch->records[i]);
        count += board->filtered[i];
    }
    ks_metric_add_labelled(KS_METRIC_RECORDS_FILTERED, board->config.subscription, count);
    return true;
}

/* Keeps what came; the core gets the sizes. */
static void keep(struct ks_board_lease *lease, struct ks_batch *batch)
{
    struct ks_switchboard *board = lease->board;
    struct ks_event event = {.kind = KS_EVENT_RECORDS};
    int64_t bytes = 0;

    assert(batch->count <= KS_READ_RECORDS_MAX);

    for (uint32_t i = 0; i < batch->count; i++) {
        board->sizes[i] =
            (uint32_t)(batch->records[i].data.size + batch->records[i].partition_key.size);
        board->hashes[i] = ks_key_hash(batch->records[i].partition_key);
        bytes += board->sizes[i];
    }
    ks_metric_add_labelled(KS_METRIC_RECORDS_RECEIVED, board->config.subscription, batch->count);
    ks_metric_add_labelled(KS_METRIC_RECORDS_RECEIVED_BYTES, board->config.subscription, bytes);

    event.records.shard = lease->shard;
    event.records.epoch = lease->epoch;
    event.records.sizes = board->sizes;
    event.records.hashes = board->hashes;
    event.records.stale_s = find_stale(lease, batch) ? board->stale_s : NULL;
    event.records.filtered = find_filtered(board, batch) ? board->filtered : NULL;
    event.records.count = batch->count;
    event.records.at_end = batch->at_end;
    lease->millis_behind =
        batch->millis_behind < BEHIND_MS_MAX ? batch->millis_behind : BEHIND_MS_MAX;
    tell_expired(lease, &batch->expired);
    for (uint32_t i = 0; batch->at_end && i < KS_CHILDREN_MAX; i++)
        ks_rows_note_child(&board->rows, lease->shard, batch->children[i], ks_board_now(board));
    if (batch->count > 0)
        ks_batches_keep(&lease->batches, batch);
    else
        ks_batch_free(batch);
    ks_board_step(board, &event);
}

static void fail(struct ks_board_lease *lease, bool throttled, bool full)
{
    struct ks_event event = {.kind = KS_EVENT_READ_FAILED};

    event.read_failed.shard = lease->shard;
    event.read_failed.epoch = lease->epoch;
    event.read_failed.throttled = throttled;
    event.read_failed.full = full;
    ks_board_step(lease->board, &event);
}

static void read_answered(void *arg, const struct ks_read_answer *answer)
{
    struct ks_board_lease *lease = arg;
    struct ks_batch batch = answer->batch;

    assert(lease->used);
    ks_metric_add_labelled(KS_METRIC_SOURCE_READS, lease->board->config.subscription, 1);
    lease->reads++;
    lease->failures += !ks_ok(answer->err);
    lease->throttles += ks_err_is(answer->err, KS_ERR_THROTTLED);
    if (ks_err_is(answer->err, KS_ERR_NOT_FOUND)) {
        ks_board_doubt_stream(lease->board);
        if (ks_board_check_shard(lease->board, lease->shard, lease->epoch))
            return;
    }

    tell_read(lease, answer);
    if (answer->throttled || ks_err_is(answer->err, KS_ERR_THROTTLED))
        tell_throttled(lease);
    if (ks_ok(answer->err))
        keep(lease, &batch);
    else
        fail(lease, answer->throttled || ks_err_is(answer->err, KS_ERR_THROTTLED),
             ks_err_class(answer->err) == KS_CLASS_SHED);
}

void ks_board_shard_checked(struct ks_switchboard *board, ks_shard shard, ks_epoch epoch, bool gone)
{
    struct ks_board_lease *lease = ks_board_lease_of(board, shard, epoch);
    struct ks_batch end = {.millis_behind = -1, .at_end = true};
    char line[KS_STORY_LINE_MAX];

    if (lease == NULL)
        return;
    if (!gone) {
        fail(lease, false, false); /* The stream is gone, or away, or the shard is back. */
        return;
    }
    (void)snprintf(line, sizeof line,
                   "%s: is not in the stream any more, its records have expired; taking it as "
                   "read to its end",
                   shard_name(lease));
    ks_warn("%s%s", board->prefix, line);
    ks_board_tell_expired(board, shard, epoch, &lease->expired, line);
    keep(lease, &end);
}

static void fail_later(struct ks_switchboard *board, const struct ks_effect *effect, bool full)
{
    ks_board_queue(board, &(struct ks_event){
                              .kind = KS_EVENT_READ_FAILED,
                              .read_failed = {.shard = effect->lease.shard,
                                              .epoch = effect->lease.epoch,
                                              .full = full},
                          });
}

static ks_err open_reader(struct ks_board_lease *lease)
{
    struct ks_switchboard *board = lease->board;
    const struct ks_shard_words *words = ks_rows_words(&board->rows, lease->shard);
    struct ks_stream_source *source = board->config.source;

    assert(words != NULL);
    KS_TRY(source->vtable->open(source, shard_name(lease), &lease->from, &board->budget,
                                &lease->reader));
    if (source->vtable->set_range != NULL)
        source->vtable->set_range(lease->reader, words->hash_start, words->hash_end);
    return KS_OK;
}

void ks_board_read(struct ks_switchboard *board, const struct ks_effect *effect)
{
    const struct ks_stream_source_vtable *source = board->config.source->vtable;
    struct ks_board_lease *lease =
        ks_board_lease_of(board, effect->lease.shard, effect->lease.epoch);
    /* What was read can never be refused, so its place is made before. */
    ks_err err;

    assert(lease != NULL);
    if (!board->described) {
        fail_later(board, effect, false); /* Our checkpoints may mean nothing in it. */
        return;
    }
    err = ks_batches_reserve(&lease->batches);
    if (ks_ok(err) && lease->reader == NULL)
        err = open_reader(lease);
    if (!ks_ok(err)) {
        fail_later(board, effect, true);
        return;
    }
    source->read(lease->reader, effect->lease.max_records, effect->lease.max_bytes, read_answered,
                 lease);
}

/* ---- Settled and saved. ---- */

void ks_board_forget(struct ks_switchboard *board, ks_shard shard, ks_epoch epoch, ks_number number)
{
    struct ks_board_lease *lease = ks_board_lease_of(board, shard, epoch);
    struct ks_shard_words *words = ks_rows_words(&board->rows, shard);

    assert(lease != NULL);
    assert(words != NULL && words->mark_epoch == epoch);

    if (board->rows.foreign)
        (void)ks_batches_whole(&lease->batches, number, &words->whole);
    if (!ks_batches_forget(&lease->batches, number, &words->mark))
        return;
    if (words->marked == words->persisted)
        lease->unsaved_since = ks_board_now(board);
    words->marked = number;
}

void ks_board_persisted(struct ks_switchboard *board, ks_shard shard, ks_epoch epoch,
                        ks_number number)
{
    struct ks_board_lease *lease = ks_board_lease_of(board, shard, epoch);
    struct ks_shard_words *words = ks_rows_words(&board->rows, shard);

    assert(words != NULL);

    words->persisted_epoch = epoch;
    words->persisted = number;
    /* What is left was settled while this was being written: counted from now, at most too young
     * by one write. */
    if (lease != NULL)
        lease->unsaved_since = words->marked > number ? ks_board_now(board) : KS_NEVER;
    ks_board_happened(board, shard, NULL, NULL);
}
