/* SPDX-License-Identifier: Apache-2.0 */
#include "main/capture.h"

#include "adapters/kinesis/builder.h"
#include "adapters/kinesis/polling.h"
#include "adapters/local/slice.h"
#include "adapters/local/stream.h"
#include "base/codec.h"
#include "base/options_check.h"
#include "main/call.h"
#include "main/cloud.h"
#include "main/room.h"
#include "ports/batches.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    BUDGET_BYTES = 64 << 20, /* A batch, and the largest answer of Kinesis on its way. */
    READ_BYTES = 4 << 20,    /* Of one read, about. */
    FAILURES_MAX = 10,       /* Of a shard in a row. */
    AGAIN_MS = 1000,         /* After one. */
    CLOCK_SLACK_MS = 2000,   /* What the clock of a stream may really show beyond what is known. */
    TURN_MS = 1000,
    CLOSE_MS = 5000 /* For the jobs of a source that is closed. */
};

enum { FROM, TO, SHARD, MOST_RECORDS, MOST_BYTES, FORCE };
static const struct ks_call_flag flags[] = {
    {"--from", true},       {"--to", true},     {"--shard", true}, {"--most-records", true},
    {"--most-bytes", true}, {"--force", false}, {NULL, false},
};

/* A shard that is captured. */
struct lane {
    struct ks_reader *reader;
    bool over; /* Nothing more of it is wanted. */
    uint32_t failures;
    ks_instant again_at; /* After a failure. */
};

struct capture {
    const struct ks_call *call;
    const char *path;
    struct ks_position from;
    struct ks_position to;
    bool to_tip; /* LATEST. */
    uint64_t records_left;
    uint64_t bytes_left;
    uint64_t records;
    uint64_t bytes;

    struct ks_loop *loop;
    struct ks_cloud cloud;
    struct ks_cloud_part part;
    struct ks_stream_source *source;
    struct ks_budget budget;
    char stream[KS_STREAM_NAME_MAX + 1];
    int64_t created_ms;
    struct ks_shard_listing *shards;
    uint32_t count;
    struct lane *lanes; /* One for each shard. */
    struct ks_local_slice *slice;

    bool waiting; /* An answer is to come. */
    bool interrupted;
    struct ks_read_answer read; /* The last one. */
    ks_err err;                 /* Of the last question. */
    struct ks_detail detail;
};

/* ---- Words ---- */

static bool read_place(const char *flag, const char *word, struct ks_position *ret_place)
{
    static const char prefix[] = "at_timestamp:";
    struct ks_position place = {.sub_sequence = -1};
    ks_view text = ks_view_text(word);
    bool good = true;

    if (strcmp(word, "trim_horizon") == 0) {
        place.kind = KS_POSITION_TRIM_HORIZON;
    } else if (strcmp(word, "latest") == 0) {
        place.kind = KS_POSITION_LATEST;
    } else if (ks_sequence_is_valid(text)) {
        place.kind = KS_POSITION_AT_SEQUENCE;
        good = ks_ok(ks_view_copy_text(text, place.sequence, sizeof place.sequence));
    } else {
        if (ks_view_starts(text, ks_view_of(prefix, sizeof prefix - 1)))
            text = ks_view_of(text.data + sizeof prefix - 1, text.size - (sizeof prefix - 1));
        place.kind = KS_POSITION_AT_TIMESTAMP;
        good = ks_ok(ks_timestamp_parse(text, &place.timestamp_ms)) && place.timestamp_ms >= 0;
    }
    if (!good)
        ks_call_complain("%s: trim_horizon, latest, an RFC 3339 instant or a sequence number",
                         flag);
    *ret_place = place;
    return good;
}

static bool read_most(const struct ks_call *call, int flag, uint64_t *ret_most)
{
    *ret_most = UINT64_MAX;
    if (call->values[flag] == NULL ||
        (ks_ok(ks_view_u64(ks_view_text(call->values[flag]), ret_most)) && *ret_most > 0))
        return true;
    ks_call_complain("%s: a number from 1 on", flags[flag].name);
    return false;
}

static bool read_words(struct capture *capture)
{
    const struct ks_call *const call = capture->call;
    const char *const from = call->values[FROM] == NULL ? "trim_horizon" : call->values[FROM];
    const char *const to = call->values[TO] == NULL ? "latest" : call->values[TO];

    if (call->word_count != 1) {
        ks_call_complain("capture: name the file that is to be written");
        return false;
    }
    capture->path = call->words[0];
    if (call->options.stream[0] == '\0') {
        ks_call_complain("capture: --stream says which stream");
        return false;
    }
    if (!read_place("--from", from, &capture->from) || !read_place("--to", to, &capture->to) ||
        !read_most(call, MOST_RECORDS, &capture->records_left) ||
        !read_most(call, MOST_BYTES, &capture->bytes_left))
        return false;
    if (capture->to.kind == KS_POSITION_TRIM_HORIZON) {
        ks_call_complain("--to: it must be behind --from");
        return false;
    }
    if ((capture->from.kind == KS_POSITION_AT_SEQUENCE ||
         capture->to.kind == KS_POSITION_AT_SEQUENCE) &&
        call->values[SHARD] == NULL) {
        ks_call_complain("capture: a sequence number is one of one shard: --shard says which");
        return false;
    }
    return true;
}

/* ---- Questions ---- */

static void caught(void *arg, int signal)
{
    struct capture *const capture = arg;

    (void)signal;
    capture->interrupted = true;
}

/* Until the answer is there. INTERRUPTED is not an error of the source. */
static ks_err await(struct capture *capture)
{
    while (capture->waiting && !capture->interrupted)
        ks_loop_turn(capture->loop, ks_span_ms(TURN_MS));
    if (capture->interrupted)
        return ks_err_because(KS_FAIL(SYSTEM), &capture->detail, "interrupted");
    return capture->err;
}

static void described(void *arg, const struct ks_describe_answer *answer)
{
    struct capture *const capture = arg;
    ks_view account;
    ks_view name;

    capture->waiting = false;
    capture->err = answer->err;
    capture->detail = answer->detail;
    if (!ks_ok(answer->err))
        return;
    ks_option_stream(answer->stream_arn, &account, &name);
    capture->created_ms = answer->created_ms;
    capture->err = ks_view_copy_text(name, capture->stream, sizeof capture->stream);
}

static void listed(void *arg, const struct ks_list_answer *answer)
{
    struct capture *const capture = arg;

    capture->waiting = false;
    capture->err = answer->err;
    capture->detail = answer->detail;
    if (!ks_ok(answer->err))
        return;
    capture->shards = ks_alloc((answer->count + 1) * sizeof *capture->shards);
    capture->lanes = ks_alloc((answer->count + 1) * sizeof *capture->lanes);
    if (capture->shards == NULL || capture->lanes == NULL) {
        capture->err = KS_FAIL(NO_MEMORY);
        return;
    }
    if (answer->count > 0)
        memcpy(capture->shards, answer->shards, answer->count * sizeof *capture->shards);
    capture->count = answer->count;
}

static void answered(void *arg, const struct ks_read_answer *answer)
{
    struct capture *const capture = arg;

    capture->waiting = false;
    capture->read = *answer;
    capture->err = KS_OK;
}

/* ---- Opening ---- */

static ks_err open_kinesis(struct capture *capture)
{
    const struct ks_options *const options = &capture->call->options;
    struct ks_kinesis_options polling = {.idle_ms = options->idle_time_between_reads_ms};
    struct ks_aws_client *client;

    KS_TRY(ks_cloud_open(&capture->cloud, capture->loop, &capture->detail));
    capture->part =
        (struct ks_cloud_part){.cloud = &capture->cloud,
                               .stream = options->stream,
                               .roles = {[KS_AWS_KINESIS] = {options->kinesis_role_arn,
                                                             options->kinesis_role_external_id}}};
    polling.protocol = ks_room_wire_mode(options, &capture->cloud);
    KS_TRY(ks_cloud_client(&capture->part, KS_AWS_KINESIS, &client, &capture->detail));
    return ks_kinesis_source_open_with(capture->loop, client, options->stream, &polling,
                                       &capture->source, &capture->detail);
}

/* What is not there is not made. */
static ks_err open_local(struct capture *capture, const char *path)
{
    const struct ks_options *const options = &capture->call->options;

    if (access(path, F_OK) != 0)
        return ks_err_because(KS_FAIL(NOT_FOUND), &capture->detail, "%s: there is no such file",
                              path);
    return ks_local_source_open(capture->loop, path, options->stream, options->local_shards,
                                &capture->source, &capture->detail);
}

static ks_err open_source(struct capture *capture)
{
    const char *const path = ks_option_path(capture->call->options.source);

    KS_TRY(ks_loop_new(&capture->loop));
    KS_TRY(ks_loop_signals(capture->loop, caught, capture));
    KS_TRY(path == NULL ? open_kinesis(capture) : open_local(capture, path));
    capture->waiting = true;
    capture->source->vtable->describe(capture->source, described, capture);
    KS_TRY(await(capture));
    capture->waiting = true;
    capture->source->vtable->list(capture->source, 0, listed, capture);
    return await(capture);
}

/* What was there when the capture began is in it: a read that began later comes to its tip. A busy stream moves on:
 * what arrives much later is left out. The stream's clock is known to about a second, and may show more than that
 * (ks_aws_client_now_ms). */
static ks_err date_end(struct capture *capture)
{
    if (capture->to.kind != KS_POSITION_LATEST)
        return KS_OK;
    capture->to_tip = true;
    capture->to.kind = KS_POSITION_AT_TIMESTAMP;
    capture->to.timestamp_ms = capture->source->vtable->now_ms(capture->source);
    if (capture->to.timestamp_ms <= 0)
        return ks_err_because(KS_FAIL(TIMEOUT), &capture->detail,
                              "the stream's clock is not known");
    capture->to.timestamp_ms += CLOCK_SLACK_MS;
    return KS_OK;
}

/* All readers begin at once, so that the tip is one instant for all. */
static ks_err open_lanes(struct capture *capture)
{
    const char *const only = capture->call->values[SHARD];
    bool found = only == NULL;

    for (uint32_t i = 0; i < capture->count; i++) {
        struct ks_shard_listing *const shard = &capture->shards[i];
        struct lane *const lane = &capture->lanes[i];

        lane->over = only != NULL && strcmp(only, shard->shard) != 0;
        found = found || !lane->over;
        if (lane->over)
            continue;
        KS_TRY(capture->source->vtable->open(capture->source, shard->shard, &capture->from,
                                             &capture->budget, &lane->reader));
        if (capture->source->vtable->set_range != NULL)
            capture->source->vtable->set_range(lane->reader, shard->hash_start, shard->hash_end);
    }
    return found ? KS_OK
                 : ks_err_because(KS_FAIL(NOT_FOUND), &capture->detail,
                                  "the stream has no shard %s", only);
}

/* ---- Reading ---- */

static bool is_beyond(const struct capture *capture, const struct ks_record *record)
{
    const struct ks_position *const to = &capture->to;

    if (to->kind == KS_POSITION_AT_TIMESTAMP)
        return record->arrival_ms >= to->timestamp_ms;
    return ks_position_compare(record->sequence, -1, ks_view_text(to->sequence), -1) > 0;
}

/* How many of the records are wanted. */
static uint32_t count_wanted(struct capture *capture, struct lane *lane,
                             const struct ks_batch *batch)
{
    uint32_t count = 0;

    for (; count < batch->count; count++) {
        const struct ks_record *const record = &batch->records[count];
        const uint64_t bytes = record->data.size + record->partition_key.size;

        if (is_beyond(capture, record)) {
            lane->over = true;
            return count;
        }
        if (capture->records_left == 0 || capture->bytes_left < bytes) {
            capture->records_left = 0;
            return count;
        }
        capture->records_left--;
        capture->bytes_left -= bytes;
        capture->records++;
        capture->bytes += bytes;
    }
    return count;
}

/* True if the shard was read to where the capture ends. */
static bool is_at_tip(struct capture *capture, const struct ks_batch *batch)
{
    const bool tip = batch->millis_behind == 0 || (batch->millis_behind < 0 && batch->count == 0);

    return tip && (capture->to_tip || capture->to.kind != KS_POSITION_AT_TIMESTAMP ||
                   capture->source->vtable->now_ms(capture->source) >= capture->to.timestamp_ms);
}

static void tell_expired(const char *shard, const struct ks_expired *expired)
{
    if (expired->found && expired->count > 0)
        ks_call_complain("%s: %" PRIu64 " records expired before they were read; the slice has a "
                         "gap",
                         shard, expired->count);
    else if (expired->found)
        ks_call_complain("%s: records%s expired before they were read; the slice %s a gap", shard,
                         expired->certain ? "" : " may have",
                         expired->certain ? "has" : "may have");
}

static ks_err take_batch(struct capture *capture, uint32_t at)
{
    struct ks_batch *const batch = &capture->read.batch;
    struct lane *const lane = &capture->lanes[at];
    ks_err err;

    lane->failures = 0;
    tell_expired(capture->shards[at].shard, &batch->expired);
    lane->over = batch->at_end || is_at_tip(capture, batch);
    err = ks_local_slice_add(capture->slice, at, batch->records, count_wanted(capture, lane, batch),
                             &capture->detail);
    ks_batch_free(batch);
    return err;
}

/* A time-out, a throttle and a full budget pass; the rest does not. */
static ks_err judge(struct capture *capture, uint32_t at)
{
    struct lane *const lane = &capture->lanes[at];
    const ks_err err = capture->read.err;
    const char *const why =
        capture->read.detail.text[0] != '\0' ? capture->read.detail.text : ks_err_text(err);

    if (ks_err_is(err, KS_ERR_NOT_FOUND)) {
        ks_call_complain("%s: it is gone; the slice has what was read of it",
                         capture->shards[at].shard);
        lane->over = true;
        return KS_OK;
    }
    lane->again_at = ks_instant_add(ks_loop_now(capture->loop), ks_span_ms(AGAIN_MS));
    if (ks_err_class(err) != KS_CLASS_REPORT && ++lane->failures < FAILURES_MAX)
        return KS_OK;
    return ks_err_because(err, &capture->detail, "%s: %s", capture->shards[at].shard, why);
}

static ks_err read_once(struct capture *capture, uint32_t at)
{
    struct lane *const lane = &capture->lanes[at];

    while (!ks_instant_reached(ks_loop_now(capture->loop), lane->again_at)) {
        ks_loop_turn(capture->loop, ks_instant_since(lane->again_at, ks_loop_now(capture->loop)));
        if (capture->interrupted)
            return ks_err_because(KS_FAIL(SYSTEM), &capture->detail, "interrupted");
    }
    capture->waiting = true;
    capture->source->vtable->read(lane->reader, KS_READ_RECORDS_MAX, READ_BYTES, answered, capture);
    KS_TRY(await(capture));
    return ks_ok(capture->read.err) ? take_batch(capture, at) : judge(capture, at);
}

static ks_err read_all(struct capture *capture)
{
    bool some = true;

    while (some && capture->records_left > 0) {
        some = false;
        for (uint32_t i = 0; i < capture->count && capture->records_left > 0; i++) {
            if (capture->lanes[i].over)
                continue;
            some = true;
            KS_TRY(read_once(capture, i));
        }
    }
    return KS_OK;
}

/* ---- The command ---- */

static ks_err run(struct capture *capture)
{
    ks_budget_init(&capture->budget, BUDGET_BYTES);
    KS_TRY(open_source(capture));
    KS_TRY(date_end(capture));
    KS_TRY(ks_local_slice_new(capture->path, capture->call->values[FORCE] != NULL, capture->stream,
                              capture->created_ms, capture->shards, capture->count, &capture->slice,
                              &capture->detail));
    KS_TRY(open_lanes(capture));
    KS_TRY(read_all(capture));
    return ks_local_slice_finish(capture->slice, &capture->detail);
}

static void close_all(struct capture *capture)
{
    for (uint32_t i = 0; i < capture->count; i++)
        if (capture->lanes[i].reader != NULL)
            capture->source->vtable->close_reader(capture->lanes[i].reader);
    if (capture->source != NULL)
        capture->source->vtable->close(capture->source);
    ks_cloud_leave(&capture->part);
    if (capture->loop != NULL)
        ks_loop_await_jobs(capture->loop, ks_span_ms(CLOSE_MS));
    ks_cloud_close(&capture->cloud);
    if (capture->loop != NULL)
        ks_loop_free(capture->loop);
    ks_local_slice_free(capture->slice);
    ks_free(capture->shards);
    ks_free(capture->lanes);
}

static bool report(const struct capture *capture)
{
    char line[KS_STREAM_NAME_MAX + 128];
    int size = snprintf(line, sizeof line,
                        "%" PRIu64 " records with %" PRIu64 " bytes of the stream %s captured\n",
                        capture->records, capture->bytes, capture->stream);

    return ks_ok(ks_call_print(NULL, ks_view_of(line, (size_t)size)));
}

int ks_command_capture(int argc, char *const *argv, char *const *environment)
{
    struct ks_call call;
    struct capture capture = {.call = &call};
    ks_err err;

    if (!ks_call_read(argc, argv, environment, flags, 1, &call) || !read_words(&capture))
        return 2;
    err = run(&capture);
    if (!ks_ok(err))
        ks_call_complain("capture: %s; %s was not written",
                         capture.detail.text[0] != '\0' ? capture.detail.text : ks_err_text(err),
                         capture.path);
    close_all(&capture);
    return ks_ok(err) && report(&capture) ? 0 : 1;
}
