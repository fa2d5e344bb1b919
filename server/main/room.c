/* SPDX-License-Identifier: Apache-2.0 */
#include "main/room.h"

#include "adapters/dialects/dialect.h"
#include "adapters/dynamodb/letters.h"
#include "adapters/dynamodb/store.h"
#include "adapters/kinesis/fanout.h"
#include "adapters/kinesis/polling.h"
#include "adapters/kinesis/user_records.h"
#include "adapters/local/stream.h"
#include "adapters/s3/letters.h"
#include "adapters/sinks/sink.h"
#include "adapters/sqlite/dead_letters.h"
#include "adapters/sqlite/store.h"
#include "adapters/system/cpu.h"
#include "adapters/system/lock_file.h"
#include "aws/settings.h"
#include "base/digest.h"
#include "base/log.h"
#include "base/options_check.h"
#include "main/aws_tables.h"
#include "main/filter.h"
#include "main/version.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

/* ---- What its board says. ---- */

/* "orders: ", where there are several. */
static const char *name_of(const struct ks_room *room)
{
    return room->alone ? "" : room->options->name;
}

static const char *colon(const struct ks_room *room)
{
    return room->alone ? "" : ": ";
}

static void drained(void *arg, bool clean, uint64_t unsaved)
{
    struct ks_room *room = arg;

    room->is_drained = true;
    room->unsaved = unsaved;
    if (unsaved > 0)
        ks_error("%s%sdrained, but %" PRIu64
                 " acknowledged records have no checkpoint, because the lease "
                 "store did not answer: they will come again",
                 name_of(room), colon(room), unsaved);
    else
        ks_info("%s%sdrained: nothing is held any more%s", name_of(room), colon(room),
                clean ? "" : ", what was unsettled will come again");
    room->drained(room->arg);
}

static void refused(void *arg, const char *reason)
{
    struct ks_room *room = arg;

    ks_error("%s%scannot run: %s", name_of(room), colon(room), reason);
    room->refused(room);
}

/* ---- Its parts. ---- */

/* By another process, or another room. */
static void table_changed(void *arg)
{
    struct ks_room *room = arg;

    if (room->board != NULL)
        ks_switchboard_look(room->board);
}

/* Formats and manners of lease tables. */
struct fleet {
    const char *name;
    const struct ks_dialect *dialect;
    enum ks_protocol protocol;
};

static const struct fleet *fleet_of(const struct ks_options *options)
{
    static const struct fleet fleets[] = {
        {"native", &ks_native_dialect, KS_PROTOCOL_NATIVE},
        {"go-kcl", &ks_go_kcl_dialect, KS_PROTOCOL_GO_KCL},
        {"kcl", &ks_kcl_dialect, KS_PROTOCOL_KCL},
        {"kinsumer", &ks_kinsumer_dialect, KS_PROTOCOL_KINSUMER},
        {"kcl-rb", &ks_kcl_rb_dialect, KS_PROTOCOL_KCL_RB},
    };
    size_t at = 0;

    while (strcmp(fleets[at].name, options->dialect) != 0) {
        at++;
        assert(at < sizeof fleets / sizeof fleets[0]); /* The options were checked. */
    }
    return &fleets[at];
}

/* A stream that is not there, by its name or its region, gets no lease table. */
static bool stream_is_found(void *arg, struct ks_detail *detail)
{
    const struct ks_room *room = arg;

    ks_detail_set(detail, "the stream %s was not found yet", room->options->stream);
    return room->source != NULL &&
           room->source->vtable->state(room->source, detail) == KS_STORE_READY;
}

static ks_err open_store(struct ks_room *room, struct ks_detail *detail)
{
    const char *path = ks_option_path(room->options->leases);
    struct ks_aws_client *client;

    if (path != NULL)
        return ks_sqlite_store_open(room->loop, path, room->options->application, table_changed,
                                    room, &room->store, detail);
    KS_TRY(ks_cloud_client(&room->part, KS_AWS_DYNAMODB, &client, detail));
    KS_TRY(ks_dynamodb_store_open(room->loop, client, room->options->application,
                                  fleet_of(room->options)->dialect, &room->store, detail));
    ks_dynamodb_store_make_when(room->store, stream_is_found, room);
    return KS_OK;
}

enum ks_wire_mode ks_room_wire_mode(const struct ks_options *options, const struct ks_cloud *cloud)
{
    const char *word = options->aws_protocol;

    if (strcmp(word, "cbor") == 0)
        return KS_WIRE_CBOR;
    if (strcmp(word, "json") == 0 || cloud->settings->cbor_disabled)
        return KS_WIRE_JSON;
    return KS_WIRE_AUTO;
}

static ks_err open_kinesis(struct ks_room *room, struct ks_aws_client *client,
                           struct ks_detail *detail)
{
    const struct ks_options *options = room->options;
    const struct ks_kinesis_options polling = {.protocol = ks_room_wire_mode(options, room->cloud),
                                               .idle_ms = options->idle_time_between_reads_ms};
    const struct ks_fanout_options fanout = {
        .protocol = polling.protocol,
        .consumer = options->consumer[0] != '\0' ? options->consumer : options->application,
        .subscription = options->name,
        .shard_metrics = strcmp(options->shard_metrics, "on") == 0,
    };

    if (strcmp(options->retrieval, "fanout") != 0)
        return ks_kinesis_source_open_with(room->loop, client, options->stream, &polling,
                                           &room->source, detail);
    KS_TRY(
        ks_fanout_source_open(room->loop, client, options->stream, &fanout, &room->source, detail));
    /* A second feed of the consumer would take the shard from the first. */
    return ks_kinesis_source_open_with(room->loop, client, options->stream, &polling, &room->beside,
                                       detail);
}

static ks_err open_stream(struct ks_room *room, struct ks_detail *detail)
{
    const char *path = ks_option_path(room->options->source);
    struct ks_aws_client *client;

    if (path != NULL)
        return ks_local_source_open_with(
            room->loop, path, room->options->stream,
            &(struct ks_local_options){room->options->local_shards, room->options->speed},
            &room->source, detail);
    KS_TRY(ks_cloud_client(&room->part, KS_AWS_KINESIS, &client, detail));
    return open_kinesis(room, client, detail);
}

/* Whatever the stream, its aggregates are taken apart. If that fails, the stream is closed in the end. */
static ks_err open_source(struct ks_room *room, struct ks_detail *detail)
{
    const char *name = room->options->name;

    KS_TRY(open_stream(room, detail));
    if (room->beside != NULL)
        KS_TRY(ks_user_records_source_open(room->loop, name, room->beside, &room->beside));
    return ks_user_records_source_open(room->loop, name, room->source, &room->source);
}

/* An id that somebody chose comes again after a crash; one that we made up never does. */
static ks_err open_lock(struct ks_room *room, struct ks_detail *detail)
{
    const struct ks_options *options = room->options;

    /* Other tables know no boots. */
    if (fleet_of(options)->protocol != KS_PROTOCOL_NATIVE)
        return KS_OK;
    if (options->sources[KS_OPTION_worker_id] == KS_OPTION_DEFAULT || options->state_dir[0] == '\0')
        return KS_OK;
    return ks_lock_file_open(room->loop, options->state_dir, options->application,
                             options->worker_id, &room->lock, detail);
}

static void measured(void *arg, uint32_t cpu)
{
    struct ks_room *room = arg;

    if (room->board != NULL)
        ks_switchboard_cpu(room->board, cpu);
}

/* Where the fleet wants to know it. */
static ks_err open_cpu(struct ks_room *room)
{
    if (fleet_of(room->options)->protocol != KS_PROTOCOL_KCL)
        return KS_OK;
    return ks_cpu_open(room->loop, "", ks_span_ms(room->options->worker_metrics_ms), measured, room,
                       &room->cpu);
}

/* Native: the lease table. Other dialects: a table of its own, since their tables may hold only their own rows. */
static ks_err open_letters_table(struct ks_room *room, struct ks_detail *detail)
{
    char table[KS_AWS_TABLE_NAME_SIZE];
    const bool ours = ks_aws_tables_letters(room->options, table);
    struct ks_aws_client *client;

    KS_TRY(ks_cloud_client(&room->part, KS_AWS_DYNAMODB, &client, detail));
    return ks_dynamodb_letters_open(room->loop, client, table, ours ? NULL : room->options->stream,
                                    &room->letters, detail);
}

/* Two ARNs differ in region or account, too; of a name neither is known. */
static bool may_be_one_stream(const char *a, const char *b)
{
    const bool arns = strncmp(a, "arn:", 4) == 0 && strncmp(b, "arn:", 4) == 0;

    return arns ? strcmp(a, b) == 0 : ks_option_same_stream(a, b);
}

ks_err ks_room_read_sink(const struct ks_options *options, struct ks_sink_target *ret_target,
                         struct ks_detail *detail)
{
    struct ks_sink_target target;

    KS_TRY(ks_sink_target_read(options->dead_letters, &target, detail));
    if (target.kind == KS_SINK_KINESIS && ks_option_path(options->source) == NULL &&
        may_be_one_stream(target.name, options->stream))
        return ks_err_because(KS_FAIL(INVALID), detail,
                              "--dead-letters is the stream that is read (%s): name another "
                              "stream, or name both by their ARNs",
                              target.name);
    *ret_target = target;
    return KS_OK;
}

static ks_err open_sink(struct ks_room *room, struct ks_detail *detail)
{
    const struct ks_options *const options = room->options;
    struct ks_sink_options sink = {.loop = room->loop,
                                   .target = &room->sink,
                                   .text = options->dead_letters,
                                   .application = options->application,
                                   .subscription = options->name};
    struct ks_cloud_place place;

    KS_TRY(ks_room_read_sink(options, &room->sink, detail));
    place = (struct ks_cloud_place){
        .service = ks_sink_service(room->sink.kind),
        .region = room->sink.region,
        .url = room->sink.url,
        .stream = room->sink.kind == KS_SINK_KINESIS && room->sink.region[0] != '\0'
                      ? room->sink.name
                      : "",
        .source = "--dead-letters",
    };
    KS_TRY(ks_cloud_client_at(&room->part, &place, &sink.client, &sink.region, detail));
    return ks_sink_open(&sink, &room->letters);
}

static ks_err open_letters_bucket(struct ks_room *room, struct ks_detail *detail)
{
    struct ks_detail why = {""};
    struct ks_cloud_place bucket;
    struct ks_aws_client *client;
    const char *region;
    ks_view account;
    ks_view stream;

    if (!ks_ok(ks_s3_place_read(room->options->dead_letters, &room->place, &why)))
        return ks_err_because(KS_FAIL(INVALID), detail, "--dead-letters: %s", why.text);
    ks_option_stream(room->options->stream, &account, &stream);
    bucket = (struct ks_cloud_place){.service = KS_AWS_S3,
                                     .region = "",
                                     .url = "",
                                     .stream = "",
                                     .bucket = room->place.bucket,
                                     .source = "--dead-letters"};
    KS_TRY(ks_cloud_client_at(&room->part, &bucket, &client, &region, detail));
    return ks_s3_letters_open(room->loop, client, &room->place, room->options->application, stream,
                              &room->letters, detail);
}

static ks_err open_letters(struct ks_room *room, struct ks_detail *detail)
{
    const char *path = ks_option_path(room->options->dead_letters);
    const bool alone = room->kin_count == 0;
    /* Those of one application, unless others have that, too. Either way they were written the other way before the
     * application got its second subscription, or lost it. */
    const struct ks_letters_key key = {
        .application = alone ? room->options->application : room->options->name,
        .also = alone ? room->options->name : room->options->application,
        .also_stream = room->options->stream,
    };

    if (strcmp(room->options->dead_letters, "table") == 0)
        return open_letters_table(room, detail);
    if (ks_sink_is_named(room->options->dead_letters))
        return open_sink(room, detail);
    if (ks_option_is_bucket(room->options->dead_letters))
        return open_letters_bucket(room, detail);
    if (path == NULL)
        return KS_OK;
    return ks_sqlite_letters_open(room->loop, path, &key, &room->letters, detail);
}

static struct ks_poison_policy poison_policy(const struct ks_options *options)
{
    struct ks_poison_policy policy = {
        .max_attempts = options->max_attempts,
        .max_age = ks_span_ms((int64_t)options->max_record_age_ms),
    };
    uint32_t waits[KS_OPTION_WAITS_MAX];
    ks_err read = ks_option_waits(options->retry_backoff_ms, waits, &policy.back_offs);

    assert(ks_ok(read)); /* The options were checked. */
    for (uint32_t i = 0; i < policy.back_offs; i++)
        policy.back_off[i] = ks_span_ms(waits[i]);
    if (strcmp(options->on_exhausted, "drop") == 0)
        policy.exhausted = KS_EXHAUSTED_DROP;
    if (strcmp(options->on_exhausted, "stop_shard") == 0)
        policy.exhausted = KS_EXHAUSTED_STOP_SHARD;
    if (strcmp(options->on_exhausted, "pause") == 0)
        policy.exhausted = KS_EXHAUSTED_PAUSE;
    return policy;
}

/* kinsumer's clients begin a shard at its start, and so do we among them, unless somebody says otherwise. */
static struct ks_position start_position(const struct ks_options *options)
{
    struct ks_position position = {.sub_sequence = -1};
    enum ks_initial initial = KS_INITIAL_LATEST;
    ks_err read =
        ks_option_initial_position(options->initial_position, &initial, &position.timestamp_ms);

    if (fleet_of(options)->protocol == KS_PROTOCOL_KINSUMER &&
        options->sources[KS_OPTION_initial_position] == KS_OPTION_DEFAULT)
        initial = KS_INITIAL_TRIM_HORIZON;

    assert(ks_ok(read)); /* The options were checked. */
    switch (initial) {
    case KS_INITIAL_LATEST: position.kind = KS_POSITION_LATEST; break;
    case KS_INITIAL_TRIM_HORIZON: position.kind = KS_POSITION_TRIM_HORIZON; break;
    case KS_INITIAL_AT_TIMESTAMP: position.kind = KS_POSITION_AT_TIMESTAMP; break;
    }
    return position;
}

/* In a fleet of kinsumer a lease lives as long as a silent client. */
static ks_span lease_duration(const struct ks_options *options)
{
    if (fleet_of(options)->protocol != KS_PROTOCOL_KINSUMER)
        return ks_span_ms(options->lease_duration_ms);
    return ks_span_ms(options->client_max_age_ms != 0 ? (int64_t)options->client_max_age_ms
                                                      : INT64_C(5) * options->shard_check_ms);
}

/* A leader of KCL 3.x takes by force what was not handed over 40 s after it said so, and wants to know any traffic. */
static void as_kcl(struct ks_core_config *core, const struct ks_options *options)
{
    core->hand_over = ks_span_ms(25000);
    core->report_every = ks_span_ms(options->worker_metrics_ms);
    core->load_least = 0;
}

static struct ks_core_config core_config(const struct ks_options *options)
{
    struct ks_core_config core = ks_core_config_default(lease_duration(options));

    if (fleet_of(options)->protocol == KS_PROTOCOL_KINSUMER)
        core.beat = ks_span_ms(options->shard_check_ms);
    core.seed = ks_random_u64();
    core.checkpoint_interval = ks_span_ms(options->checkpoint_interval_ms);
    core.idle_release = ks_span_ms(options->idle_release_ms);
    core.capacity = options->max_leases;
    core.poison = poison_policy(options);
    core.protocol = fleet_of(options)->protocol;
    core.stealing = strcmp(options->lease_stealing, "on") == 0;
    core.masking = strcmp(options->lease_masking, "on") == 0;
    if (core.protocol == KS_PROTOCOL_KCL)
        as_kcl(&core, options);
    return core;
}

static ks_err open_board(struct ks_room *room)
{
    struct ks_switchboard_config config = {
        .loop = room->loop,
        .store = room->store,
        .source = room->source,
        .beside = room->beside,
        .lock = room->lock,
        .letters = room->letters,
        .subscription = room->options->name,
        .several = !room->alone,
        .stream = room->options->stream,
        .kin = room->kin,
        .kin_count = room->kin_count,
        .kinship = room->kin_count > 0 ? room->kinship : NULL,
        .several_streams =
            room->kin_count > 0 || strcmp(room->options->kcl_multi_stream, "on") == 0,
        .application = room->options->application,
        .dialect = room->options->dialect,
        .worker_id = room->options->worker_id,
        .version = KS_VERSION,
        .start = start_position(room->options),
        .core = core_config(room->options),
        .pool = room->pool,
        .filter = room->filter,
        .shard_metrics = strcmp(room->options->shard_metrics, "on") == 0,
        .drained = drained,
        .refused = refused,
        .arg = room,
    };

    config.core.boot = room->boot;
    return ks_switchboard_new(&config, &room->board);
}

static struct ks_cloud_part part_of(const struct ks_room *room)
{
    const struct ks_options *options = room->options;

    return (struct ks_cloud_part){
        .cloud = room->cloud,
        .stream = options->stream,
        .roles = {[KS_AWS_KINESIS] = {options->kinesis_role_arn, options->kinesis_role_external_id},
                  [KS_AWS_DYNAMODB] = {options->dynamodb_role_arn,
                                       options->dynamodb_role_external_id}},
    };
}

ks_err ks_room_open(struct ks_room *room, struct ks_detail *detail)
{
    room->part = part_of(room);
    KS_TRY(ks_filter_load(room->options->filter, &room->filter, detail));
    KS_TRY(open_store(room, detail));
    KS_TRY(open_lock(room, detail));
    KS_TRY(open_letters(room, detail));
    KS_TRY(open_cpu(room));
    KS_TRY(open_source(room, detail));
    return open_board(room);
}

void ks_room_close(struct ks_room *room)
{
    if (room->board != NULL)
        ks_switchboard_stop(room->board);
    ks_cpu_close(room->cpu);
    if (room->source != NULL)
        room->source->vtable->close(room->source);
    if (room->beside != NULL)
        room->beside->vtable->close(room->beside);
    if (room->store != NULL)
        room->store->vtable->close(room->store);
    if (room->letters != NULL)
        room->letters->vtable->close(room->letters);
    if (room->lock != NULL)
        room->lock->vtable->close(room->lock);
    ks_cloud_leave(&room->part);
}

void ks_room_free(struct ks_room *room)
{
    ks_switchboard_free(room->board);
    ks_pattern_free(room->filter);
}
