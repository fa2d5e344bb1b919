/* SPDX-License-Identifier: Apache-2.0 */
/* What keeps a shard from its consumer, and what an operator does about it. */
#include "ports/board.h"

#include "base/codec.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

static void __attribute__((format(printf, 3, 4)))
tell(struct ks_shard_status *status, enum ks_trouble trouble, const char *format, ...)
{
    va_list list;

    status->trouble = trouble;
    va_start(list, format);
    (void)vsnprintf(status->reason, sizeof status->reason, format, list);
    va_end(list);
}

static void __attribute__((format(printf, 2, 3)))
advise(struct ks_shard_status *status, const char *format, ...)
{
    va_list list;

    va_start(list, format);
    (void)vsnprintf(status->remedy, sizeof status->remedy, format, list);
    va_end(list);
}

static void tell_paused(struct ks_shard_status *status)
{
    char until[KS_TIMESTAMP_SIZE];

    if (status->paused_until.ms != 0)
        ks_timestamp_format(status->paused_until.ms, until);
    tell(status, KS_TROUBLE_PAUSED, "%s: paused by an operator%s%s", status->shard_id,
         status->paused_until.ms != 0 ? " until " : "", status->paused_until.ms != 0 ? until : "");
    advise(status, "kinesis-sidecar resume %s", status->shard_id);
}

/* "49590.." or "49590... 3" of an aggregate; what the app said of it. */
struct record_words {
    char name[KS_SEQUENCE_MAX + 24];
    char said[200];
};

static void name_record(const struct ks_switchboard *board, ks_shard handle,
                        const struct ks_blocker *blocker, struct ks_shard_status *status,
                        struct record_words *ret_words)
{
    const ks_epoch epoch = status->lease.epoch;
    const struct ks_record *record =
        ks_board_record(board, ks_board_number(board, handle), epoch, blocker->number);
    ks_view said = ks_board_reason_of(board, handle, epoch, blocker->number);

    *ret_words = (struct record_words){.said = ""};
    if (record == NULL)
        return;
    status->failures = blocker->failures;
    status->blocked_by_sub = record->sub_sequence;
    (void)snprintf(status->blocked_by, sizeof status->blocked_by, "%.*s",
                   (int)record->sequence.size, (const char *)record->sequence.data);
    (void)snprintf(ret_words->name, sizeof ret_words->name, "%s", status->blocked_by);
    if (record->sub_sequence >= 0)
        (void)snprintf(ret_words->name, sizeof ret_words->name, "%s.%" PRId64, status->blocked_by,
                       record->sub_sequence);
    if (said.size == 0)
        return;
    said.size = ks_view_whole_characters(
        ks_view_of(said.data, said.size < sizeof ret_words->said - 8 ? said.size
                                                                     : sizeof ret_words->said - 8));
    (void)snprintf(ret_words->said, sizeof ret_words->said, " (\"%.*s\")", (int)said.size,
                   (const char *)said.data);
}

static void tell_blocked(const struct ks_switchboard *board, ks_shard handle,
                         const struct ks_blocker *blocker, struct ks_shard_status *status)
{
    const char *id = status->shard_id;
    struct record_words words;

    name_record(board, handle, blocker, status, &words);
    if (blocker->stopped) {
        tell(status, KS_TROUBLE_STOPPED,
             "%s: stopped by record %s, which failed %" PRIu32 " times%s", id, words.name,
             blocker->failures, words.said);
        advise(
            status,
            "kinesis-sidecar resume %s tries the record again; kinesis-sidecar skip %s gives it up",
            id, id);
    } else if (blocker->too_large) {
        tell(status, KS_TROUBLE_TOO_LARGE, "%s: record %s is larger than its client takes", id,
             words.name);
        advise(status,
               "raise max_record_bytes of the client; kinesis-sidecar skip %s gives the record up",
               id);
    } else if (blocker->failures > 0) {
        tell(status, KS_TROUBLE_RETRYING, "%s: record %s failed %" PRIu32 " times%s, and %s", id,
             words.name, blocker->failures, words.said,
             blocker->out ? "is with its client again" : "is tried again");
        advise(status, "mend the app; kinesis-sidecar skip %s gives the record up", id);
    } else {
        tell(status, KS_TROUBLE_FULL, "%s: nothing more is read until record %s is settled", id,
             words.name);
        advise(status,
               "have the app settle the record; kinesis-sidecar skip %s gives the record up", id);
    }
}

uint64_t ks_board_progress(const struct ks_lease_view *view)
{
    return view->watermark + view->settled;
}

/* How long its client has had records without settling any; 0: it has none. */
static int64_t idle_ms(const struct ks_board_lease *lease, const struct ks_lease_view *view)
{
    if (view->in_flight == 0 || ks_board_progress(view) != lease->progress)
        return 0;
    return ks_span_to_ms(ks_instant_since(ks_board_now(lease->board), lease->progress_at));
}

void ks_board_find_trouble(const struct ks_switchboard *board, ks_shard handle,
                           struct ks_shard_status *status)
{
    const ks_shard shard = ks_board_number(board, handle);
    const struct ks_board_lease *lease = ks_board_lease_of(board, shard, status->lease.epoch);
    struct ks_blocker blocker;

    status->blocked_by_sub = -1;
    if (status->lease.paused) {
        tell_paused(status);
    } else if (lease == NULL) {
        return;
    } else if (lease->failing) {
        tell(status, KS_TROUBLE_UNREADABLE,
             "%s: cannot be read, trying again until it can; the log says why", status->shard_id);
    } else if (ks_core_blocker(board->core, shard, &blocker)) {
        tell_blocked(board, handle, &blocker, status);
    } else if (status->lease.dying > 0 && ks_board_letters_fail(board)) {
        tell(status, KS_TROUBLE_LETTERS,
             "%s: %" PRIu32 " dead letters cannot be written, trying again until they can; the log "
             "says why",
             status->shard_id, status->lease.dying);
        advise(status, "mend the destination of --dead-letters");
    } else if (status->lease.owned_lanes == 0 && status->lease.fetched > status->lease.watermark) {
        tell(status, KS_TROUBLE_NO_SESSION, "%s: no session takes its records", status->shard_id);
        advise(status, "start the app, or look why it does not connect");
    } else if (idle_ms(lease, &status->lease) >= KS_UNSETTLED_MS) {
        tell(status, KS_TROUBLE_UNSETTLED,
             "%s: its client has %" PRIu32 " records, and has settled none for %" PRId64 " s",
             status->shard_id, status->lease.in_flight, idle_ms(lease, &status->lease) / 1000);
        advise(status, "look at the app: it takes records and does not acknowledge them");
    }
}
