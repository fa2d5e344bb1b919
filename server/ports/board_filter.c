/* SPDX-License-Identifier: Apache-2.0 */
#include "ports/board.h"

#include "base/metrics.h"
#include "base/pattern.h"

#include <assert.h>

/* What a turn judges. A filter of a client may take long for each byte of a record: what is not known then goes on in
 * the next turn. */
enum { JUDGE_RECORDS = 512, JUDGE_BYTES = 256 << 10, JUDGE_UNITS = 1 << 20 };

static struct ks_pattern_record seen_of(const struct ks_record *record)
{
    return (struct ks_pattern_record){.partition_key = record->partition_key,
                                      .sequence_number = record->sequence,
                                      .arrival_ms = record->arrival_ms,
                                      .data = record->data};
}

bool ks_board_takes(const struct ks_pattern *pattern, const struct ks_record *record)
{
    const struct ks_pattern_record seen = seen_of(record);

    return ks_pattern_matches(pattern, &seen);
}

/* ---- The filter of the sessions. ---- */

bool ks_switchboard_filter_is(const struct ks_switchboard *board, ks_view text)
{
    return ks_view_equal(ks_bytes_view(&board->filter.text), text);
}

/* Copies the text for people, cut at a whole character. */
static void show(ks_view text, char shown[KS_FILTER_SHOWN_SIZE])
{
    const size_t most = KS_FILTER_SHOWN_SIZE - sizeof "...";
    ks_err copied = KS_OK;
    size_t size = text.size;

    if (text.size >= KS_FILTER_SHOWN_SIZE) {
        size = most;
        while (size > 0 && (text.data[size] & 0xC0) == 0x80)
            size--;
    }
    copied = ks_view_copy_text(ks_view_of(text.data, size), shown, KS_FILTER_SHOWN_SIZE);
    assert(ks_ok(copied));
    if (size < text.size)
        memcpy(shown + size, "...", sizeof "...");
}

ks_err ks_board_filter_new(const struct ks_switchboard *board, ks_view text,
                           struct ks_board_filter *ret_filter, struct ks_detail *detail)
{
    struct ks_board_filter filter = {.number = 0};
    struct ks_detail why = {.text = ""};
    ks_err err;

    ks_bytes_init(&filter.text, KS_PATTERN_TEXT_MAX);
    *ret_filter = filter;
    if (text.size == 0)
        return KS_OK;
    ret_filter->number = board->filter.number;
    if (ks_switchboard_filter_is(board, text))
        return KS_OK;
    err = ks_pattern_compile(text, &filter.pattern, &why);
    if (ks_ok(err))
        err = ks_bytes_append(&filter.text, text);
    if (!ks_ok(err)) {
        ks_board_filter_free(&filter);
        if (ks_err_is(err, KS_ERR_NO_MEMORY))
            return err;
        ks_detail_set(detail, "filter: %s", why.text);
        return KS_FAIL(INVALID);
    }
    show(text, filter.shown);
    filter.number = board->filters + 1;
    *ret_filter = filter;
    return KS_OK;
}

void ks_board_filter_use(struct ks_switchboard *board, struct ks_board_filter *filter)
{
    if (filter->number == board->filter.number)
        return;
    ks_board_filter_free(&board->filter);
    board->filter = *filter;
    if (filter->number > board->filters)
        board->filters = filter->number;
    *filter = (struct ks_board_filter){.number = 0};
}

void ks_board_filter_free(struct ks_board_filter *filter)
{
    ks_pattern_free(filter->pattern);
    filter->pattern = NULL;
    ks_bytes_free(&filter->text);
}

/* ---- Judging. ---- */

void ks_board_end_judgement(struct ks_board_lease *lease)
{
    ks_free(lease->match);
    lease->match = NULL;
}

/* True if this record is judged in part. If another one is, that is forgotten. */
static bool is_begun(const struct ks_switchboard *board, struct ks_board_lease *lease,
                     ks_number number, const struct ks_record *record)
{
    if (lease->match == NULL)
        return false;
    if (lease->match_number == number && lease->match_filter == board->filter.number &&
        lease->match_data == record->data.data)
        return true;
    ks_board_end_judgement(lease);
    return false;
}

/* Judges one record as far as `units` goes. False: it is not known yet, or there is no memory for it now. Most records
 * are judged at once: they share the memory of the board, which becomes the lease's for one that is not. */
static bool judge_one(struct ks_switchboard *board, struct ks_board_lease *lease, ks_number number,
                      uint64_t *units, bool *ret_excluded)
{
    const struct ks_record *record = ks_batches_record(&lease->batches, number);
    const struct ks_pattern_record seen = seen_of(record);
    bool begun = is_begun(board, lease, number, record);
    bool passes;

    if (!begun && board->match == NULL)
        board->match = ks_pattern_match_new();
    if (!begun && board->match == NULL)
        return false;
    if (!begun)
        ks_pattern_match_begin(board->match, board->filter.pattern, &seen);
    if (ks_pattern_match_go_on(begun ? lease->match : board->match, units, &passes)) {
        ks_board_end_judgement(lease);
        *ret_excluded = !passes;
        return true;
    }
    if (begun)
        return false;
    lease->match = board->match;
    board->match = NULL;
    lease->match_number = number;
    lease->match_filter = board->filter.number;
    lease->match_data = record->data.data;
    return false;
}

/* Returns how many of them, from the first on, are judged. */
static uint32_t find_excluded(struct ks_switchboard *board, const struct ks_unjudged *unjudged,
                              bool excluded[JUDGE_RECORDS])
{
    struct ks_board_lease *lease = ks_board_lease_of(board, unjudged->shard, unjudged->epoch);
    uint64_t units = JUDGE_UNITS;
    uint32_t count = 0;

    assert(lease != NULL);
    while (count < unjudged->count && units > 0 &&
           judge_one(board, lease, unjudged->first + count, &units, &excluded[count]))
        count++;
    return count;
}

bool ks_board_judge(struct ks_switchboard *board)
{
    struct ks_event event = {.kind = KS_EVENT_JUDGED};
    bool excluded[JUDGE_RECORDS];
    struct ks_unjudged unjudged;
    uint64_t before = ks_core_excluded(board->core);

    ks_board_catch_up(board);
    if (!ks_core_unjudged(board->core, JUDGE_RECORDS, JUDGE_BYTES, &unjudged))
        return false;
    assert(board->filter.pattern != NULL);
    unjudged.count = find_excluded(board, &unjudged, excluded);
    if (unjudged.count == 0)
        return true;
    event.judged.shard = unjudged.shard;
    event.judged.epoch = unjudged.epoch;
    event.judged.first = unjudged.first;
    event.judged.count = unjudged.count;
    event.judged.excluded = excluded;
    ks_board_step_at_once(board, &event);
    ks_metric_add_labelled(KS_METRIC_RECORDS_FILTERED, board->config.subscription,
                           (int64_t)(ks_core_excluded(board->core) - before));
    return true;
}
