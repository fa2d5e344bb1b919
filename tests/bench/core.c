/* SPDX-License-Identifier: Apache-2.0 */
/* core.c - what the parts cost without sockets: steps of the core, the tracker, signing, scanning,
 * base64, framing.
 *
 * One thread, hot caches, CPU time; bytes are those of the records' data unless the parameters say
 * otherwise. A memcpy of the same data stands first: what any of this could cost at least.
 */
#include "kpl.h"
#include "meter.h"

#include "adapters/kinesis/aggregate.h"
#include "adapters/kinesis/builder.h"
#include "adapters/kinesis/records.h"
#include "api/frame.h"
#include "aws/cbor.h"
#include "aws/sigv4.h"
#include "base/base64.h"
#include "base/codec.h"
#include "core/fleet/native.h"
#include "core/lease.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEASES = 8,
    WINDOW = 16384,
    CYCLE = 8192, /* Records of one lease that are read, delivered and settled in turn. */
    BATCH = 48,   /* Records of 1 KB that one frame of the stream holds, about. */
    RECORD_BYTES = 1024,
    BODY_BYTES = 4 << 20, /* Payload of a GetRecords answer, about. */
    BODY_MAX = 32 << 20,
    TURN_LEASES = 1024,
    BUFFER_BYTES = 64 << 10 /* What the stream fills at a time. */
};

static const uint32_t sizes_measured[] = {100, 1024, 50 * 1024};
enum { SIZES = sizeof sizes_measured / sizeof *sizes_measured };

static void *memory_of(size_t size)
{
    void *memory = calloc(1, size);

    if (memory == NULL)
        meter_fail("no memory for %zu bytes", size);
    return memory;
}

static void must(ks_err err, const char *what)
{
    if (!ks_ok(err))
        meter_fail("%s: %s", what, ks_err_text(err));
}

/* ---- The core ---- */

struct rig {
    struct ks_core *core;
    struct ks_effects effects;
    ks_instant now;
    ks_session_id session;
    ks_epoch epoch;
    uint32_t sizes[CYCLE];
    ks_number next; /* Of the next cycle, in every lease. */
    uint32_t order; /* The next lease. */
};

static void step(struct rig *rig, const struct ks_event *event)
{
    rig->effects.count = 0;
    ks_core_step(rig->core, rig->now, event, &rig->effects);
}

static void tick(struct rig *rig)
{
    const struct ks_event event = {.kind = KS_EVENT_TICK};

    step(rig, &event);
}

static uint64_t store_token(const struct rig *rig)
{
    for (uint32_t i = 0; i < rig->effects.count; i++)
        if (rig->effects.items[i].kind == KS_EFFECT_STORE)
            return rig->effects.items[i].store.token;
    meter_fail("the core asked for nothing");
}

/* Registers: the first two requests are the read of its row and the registration. */
static void make_live(struct rig *rig)
{
    const struct ks_event start = {.kind = KS_EVENT_START};

    step(rig, &start);
    for (int i = 0; i < 2; i++) {
        struct ks_event answer = {.kind = KS_EVENT_STORE,
                                  .store = {.token = store_token(rig), .outcome = KS_DONE}};
        step(rig, &answer);
    }
    /* The read of the fleet stays unanswered; the clock stands still, so nothing else becomes due.
     */
    rig->core->fleet.news = UINT32_MAX;
}

static void hold(struct rig *rig, ks_shard shard)
{
    const struct ks_lease_row row = {
        .shard = shard,
        .owner = rig->core->fleet.self,
        .epoch = rig->epoch,
        .parents = {KS_SHARD_NONE, KS_SHARD_NONE},
    };

    if (!ks_native_know(rig->core, shard))
        meter_fail("no room for shard %" PRIu32, shard);
    rig->effects.count = 0;
    ks_lease_begin(rig->core, &row, &rig->effects);
}

static void open_session(struct rig *rig)
{
    const struct ks_event open = {
        .kind = KS_EVENT_SESSION_OPEN,
        .open = {.take_over = KS_SESSION_NONE,
                 .max_in_flight = UINT32_MAX,
                 .max_in_flight_bytes = UINT64_MAX >> 1,
                 .ack_deadline = ks_span_ms(60000),
                 .grace = ks_span_ms(5000)},
    };

    step(rig, &open);
    for (uint32_t i = 0; i < rig->effects.count; i++)
        if (rig->effects.items[i].kind == KS_EFFECT_OPENED)
            rig->session = rig->effects.items[i].session.session;
}

static struct rig *new_rig(uint32_t leases)
{
    struct ks_core_config config = ks_core_config_default(ks_span_ms(10000));
    struct rig *rig = memory_of(sizeof *rig);

    config.self = 1;
    config.seed = 1;
    config.shards_max = TURN_LEASES;
    config.leases_max = TURN_LEASES;
    config.window_max = WINDOW;
    config.budget_bytes = UINT64_C(1) << 40;
    config.read_bytes = CYCLE * RECORD_BYTES;
    rig->core = ks_core_init(memory_of(ks_core_size(&config)), &config);
    rig->now = (ks_instant){INT64_C(1000000000)};
    rig->epoch = 1;
    for (uint32_t i = 0; i < CYCLE; i++)
        rig->sizes[i] = RECORD_BYTES;
    make_live(rig);
    for (ks_shard shard = 0; shard < leases; shard++)
        hold(rig, shard);
    open_session(rig);
    tick(rig);
    return rig;
}

/* Answers the read of the lease, which the last tick asked for. */
static void arrive(struct rig *rig, ks_shard shard)
{
    const struct ks_event event = {
        .kind = KS_EVENT_RECORDS,
        .records = {.shard = shard, .epoch = rig->epoch, .sizes = rig->sizes, .count = CYCLE},
    };

    step(rig, &event);
}

/* Pulls a batch, of which each record is written at once. */
static uint32_t pull(struct rig *rig, uint32_t records)
{
    const struct ks_event event = {
        .kind = KS_EVENT_SESSION_PULL,
        .pull = {rig->session, records, UINT64_MAX, .max_runs = 1},
    };
    struct ks_event written = {.kind = KS_EVENT_WRITE};
    const struct ks_effect *run = rig->effects.items;

    step(rig, &event);
    if (rig->effects.count == 0)
        return 0;
    written.write.session = rig->session;
    written.write.shard = run->deliver.shard;
    written.write.epoch = run->deliver.epoch;
    written.write.first = run->deliver.first;
    written.write.count = run->deliver.count;
    written.write.assignment = run->deliver.assignment;
    written.write.stage = KS_STAGE_BEGUN;
    step(rig, &written);
    written.write.stage = KS_STAGE_WRITTEN;
    step(rig, &written);
    return written.write.count;
}

static void settle(struct rig *rig, ks_shard shard, ks_number first, uint32_t count)
{
    const struct ks_event event = {
        .kind = KS_EVENT_SETTLE,
        .settle = {.session = rig->session,
                   .session_epoch = rig->core->sessions[rig->session].epoch,
                   .shard = shard,
                   .epoch = rig->epoch,
                   .first = first,
                   .count = count,
                   .outcome = KS_ACK},
    };

    step(rig, &event);
}

/* CPU seconds of each phase, and steps in it. */
struct phases {
    double read, pull, settle;
    uint64_t reads, pulls, settles;
};

/* Records of all leases come, go out in batches, and are settled in groups of `group`; within a
 * lease the groups come in steps of `stride` (1: in order), which meets every group once when it is
 * odd. */
static void cycle(struct rig *rig, uint32_t group, uint32_t stride, struct phases *phases)
{
    const uint32_t groups = CYCLE / group;
    double at = meter_thread_cpu();
    double then;

    tick(rig);
    for (ks_shard shard = 0; shard < LEASES; shard++)
        arrive(rig, shard);
    then = meter_thread_cpu();
    phases->read += then - at;
    phases->reads += LEASES + 1;
    while (pull(rig, BATCH) > 0)
        phases->pulls++;
    at = meter_thread_cpu();
    phases->pull += at - then;
    for (ks_shard shard = 0; shard < LEASES; shard++)
        for (uint32_t i = 0; i < groups; i++)
            settle(rig, shard, rig->next + (ks_number)(i * stride % groups) * group, group);
    phases->settle += meter_thread_cpu() - at;
    phases->settles += (uint64_t)LEASES * groups;
    rig->next += CYCLE;
    if (rig->core->leases[0].tracker.mark != rig->next)
        meter_fail("the watermark stays at %" PRIu64, rig->core->leases[0].tracker.mark);
}

static void measure_settling(uint32_t group, uint32_t stride, const char *order)
{
    enum { CYCLES = 200 };
    struct rig *rig = new_rig(LEASES);
    struct phases phases = {0};
    const double records = (double)CYCLES * LEASES * CYCLE;

    cycle(rig, group, stride, &phases); /* Warm. */
    phases = (struct phases){0};
    for (int i = 0; i < CYCLES; i++)
        cycle(rig, group, stride, &phases);
    meter_say("core/settle", (double)phases.settles / phases.settle, "steps/cpu-s",
              "\"leases\":%d,\"records_per_settle\":%u,\"order\":\"%s\",\"ns_per_record\":%.2f",
              LEASES, group, order, phases.settle / records * 1e9);
    if (stride != 1)
        return;
    meter_say("core/pull", (double)phases.pulls / phases.pull, "steps/cpu-s",
              "\"leases\":%d,\"records_per_pull\":%d,\"ns_per_record\":%.2f", LEASES, BATCH,
              phases.pull / records * 1e9);
    meter_say("core/records", (double)phases.reads / phases.read, "steps/cpu-s",
              "\"leases\":%d,\"records_per_read\":%d,\"ns_per_record\":%.2f", LEASES, CYCLE,
              phases.read / records * 1e9);
}

static void run_turns(void *arg, uint64_t rounds)
{
    struct rig *rig = arg;
    const ks_instant past = {0};

    for (uint64_t i = 0; i < rounds; i++) {
        tick(rig);
        if (ks_instant_before(ks_core_deadline(rig->core), past))
            meter_fail("a deadline in the past");
    }
}

/* A turn of the loop in which nothing is due. */
static void measure_turns(uint32_t leases)
{
    struct rig *rig = new_rig(leases);
    double cost = meter_cost(run_turns, rig);

    meter_say("core/turn", 1 / cost, "steps/cpu-s", "\"leases\":%u,\"us_per_turn\":%.3f", leases,
              cost * 1e6);
}

/* Assigned, begun and written. */
static void deliver(struct ks_tracker *tracker, const struct ks_tracker_run *run, ks_instant now)
{
    static uint64_t assignment;

    ks_tracker_assign(tracker, run, 0, ++assignment);
    for (ks_number n = run->first; n < run->first + run->count; n++) {
        ks_tracker_begin(tracker, n, assignment);
        (void)ks_tracker_written(tracker, n, assignment, 0, ks_instant_add(now, ks_span_ms(1)));
    }
}

/* ---- The tracker alone ---- */

static void run_tracker(void *arg, uint64_t rounds)
{
    struct ks_tracker *tracker = arg;
    static uint32_t sizes[CYCLE];
    const ks_instant now = {1};
    const struct ks_tracker_ask ask = {
        .lanes = 1, .max_records = BATCH, .max_record_bytes = UINT32_MAX, .max_bytes = UINT64_MAX};
    struct ks_tracker_run run;

    for (uint64_t i = 0; i < rounds; i++) {
        ks_tracker_append(tracker, sizes, NULL, NULL, CYCLE);
        while (ks_tracker_next(tracker, &ask, now, &run)) {
            deliver(tracker, &run, now);
            for (uint32_t n = 0; n < run.count; n++)
                (void)ks_tracker_settle(tracker, run.first + n);
        }
    }
}

static void measure_tracker(void)
{
    struct ks_tracker tracker;
    double cost;

    ks_tracker_init(&tracker, memory_of(WINDOW * sizeof(struct ks_slot)), WINDOW,
                    memory_of(sizeof(struct ks_lane)));
    cost = meter_cost(run_tracker, &tracker) / CYCLE;
    meter_say("core/tracker", 1 / cost, "records/cpu-s",
              "\"what\":\"append, send in runs of %d, settle one by one\",\"window\":%d,"
              "\"ns_per_record\":%.2f",
              BATCH, WINDOW, cost * 1e9);
}

/* ---- SigV4 ---- */

struct signing {
    struct ks_sigv4_signer signer;
    struct ks_sigv4_request request;
};

static void run_signing(void *arg, uint64_t rounds)
{
    struct signing *signing = arg;
    struct ks_sigv4_signature signature;

    for (uint64_t i = 0; i < rounds; i++)
        must(ks_sigv4_sign(&signing->signer, &signing->request, &signature), "signing");
}

static void measure_signing(void)
{
    static char token[1000];
    static char body[400];
    const struct ks_http_header headers[] = {
        {KS_VIEW("host"), KS_VIEW("kinesis.eu-central-1.amazonaws.com")},
        {KS_VIEW("content-type"), KS_VIEW("application/x-amz-json-1.1")},
        {KS_VIEW("x-amz-target"), KS_VIEW("Kinesis_20131202.GetRecords")},
    };
    struct signing signing = {
        .request = {.method = KS_VIEW("POST"),
                    .path = KS_VIEW("/"),
                    .headers = headers,
                    .header_count = sizeof headers / sizeof *headers,
                    .body = ks_view_of(body, sizeof body),
                    .access_key = KS_VIEW("AKIDEXAMPLE"),
                    .secret_key = KS_VIEW("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
                    .token = ks_view_of(token, sizeof token),
                    .region = "eu-central-1",
                    .service = "kinesis",
                    .unix_ms = INT64_C(1800000000000)},
    };
    double cost;

    memset(token, 'T', sizeof token);
    memset(body, 'b', sizeof body);
    ks_sigv4_init(&signing.signer);
    cost = meter_cost(run_signing, &signing);
    ks_sigv4_free(&signing.signer);
    meter_say("aws/sigv4", 1 / cost, "signatures/cpu-s",
              "\"body_bytes\":%zu,\"token_bytes\":%zu,\"us_per_signature\":%.2f", sizeof body,
              sizeof token, cost * 1e6);
}

/* ---- Payload ---- */

/* Records as a source brings them: data of `size` bytes each, one behind the other. */
struct payload {
    uint8_t *data;
    struct ks_record *records;
    uint32_t size;
    uint32_t count;
};

static struct payload new_payload(uint32_t size, uint32_t bytes)
{
    struct payload payload = {.size = size, .count = bytes / size};
    uint32_t state = 1;

    if (payload.count > KS_READ_RECORDS_MAX)
        payload.count = KS_READ_RECORDS_MAX;
    payload.data = memory_of((size_t)payload.count * size);
    payload.records = memory_of(payload.count * sizeof *payload.records);
    for (size_t i = 0; i < (size_t)payload.count * size; i++) {
        state = state * 1664525 + 1013904223;
        payload.data[i] = (uint8_t)(state >> 24);
    }
    for (uint32_t i = 0; i < payload.count; i++)
        payload.records[i] = (struct ks_record){
            .data = ks_view_of(payload.data + (size_t)i * size, size),
            .partition_key = KS_VIEW("customer-0123456789"),
            .sequence = KS_VIEW("49645327895623781234567890123456789012345678901234567890"),
            .sub_sequence = -1,
            .arrival_ms = INT64_C(1800000000000) + i,
        };
    return payload;
}

static void free_payload(struct payload *payload)
{
    free(payload->data);
    free(payload->records);
}

static double megabytes(const struct payload *payload)
{
    return (double)payload->count * payload->size / 1e6;
}

/* ---- Scanning GetRecords ---- */

struct scan {
    ks_err (*read)(struct ks_block *block, size_t begin, uint32_t records_max,
                   struct ks_records *ret);
    struct ks_bytes body;
};

static void run_scan(void *arg, uint64_t rounds)
{
    struct scan *scan = arg;
    static struct ks_records records;
    struct ks_block *block;

    for (uint64_t i = 0; i < rounds; i++) {
        /* As an answer comes: its bytes are copied into the block once. */
        must(ks_block_new(NULL, ks_builder_capacity(scan->body.size, KS_READ_RECORDS_MAX), &block),
             "a block");
        memcpy(block->data, scan->body.data, scan->body.size);
        block->size = scan->body.size;
        must(scan->read(block, 0, KS_READ_RECORDS_MAX, &records), "scanning");
        ks_batch_free(&records.batch);
    }
}

static void write_json(const struct payload *payload, struct ks_bytes *body)
{
    must(ks_bytes_format(body, "{\"MillisBehindLatest\":0,\"NextShardIterator\":\"AAAAexample\","
                               "\"Records\":["),
         "writing");
    for (uint32_t i = 0; i < payload->count; i++) {
        const struct ks_record *record = &payload->records[i];

        must(ks_bytes_format(body, "%s{\"ApproximateArrivalTimestamp\":1800000000.%03u,\"Data\":\"",
                             i == 0 ? "" : ",", i % 1000),
             "writing");
        must(ks_bytes_reserve(body, ks_base64_size(payload->size)), "writing");
        body->size += ks_base64_encode(record->data, (char *)body->data + body->size);
        must(ks_bytes_format(body, "\",\"PartitionKey\":\"%.*s\",\"SequenceNumber\":\"%.*s\"}",
                             (int)record->partition_key.size,
                             (const char *)record->partition_key.data, (int)record->sequence.size,
                             (const char *)record->sequence.data),
             "writing");
    }
    must(ks_bytes_format(body, "]}"), "writing");
}

static void put_pair(struct ks_bytes *body, const char *name, ks_view text)
{
    must(ks_cbor_put_text(body, ks_view_text(name)), "writing");
    must(ks_cbor_put_text(body, text), "writing");
}

static void write_cbor(const struct payload *payload, struct ks_bytes *body)
{
    must(ks_cbor_put_map(body, 3), "writing");
    must(ks_cbor_put_text(body, KS_VIEW("MillisBehindLatest")), "writing");
    must(ks_cbor_put_i64(body, 0), "writing");
    put_pair(body, "NextShardIterator", KS_VIEW("AAAAexample"));
    must(ks_cbor_put_text(body, KS_VIEW("Records")), "writing");
    must(ks_cbor_put_array(body, payload->count), "writing");
    for (uint32_t i = 0; i < payload->count; i++) {
        const struct ks_record *record = &payload->records[i];

        must(ks_cbor_put_map(body, 4), "writing");
        must(ks_cbor_put_text(body, KS_VIEW("ApproximateArrivalTimestamp")), "writing");
        must(ks_cbor_put_unix_ms(body, record->arrival_ms), "writing");
        must(ks_cbor_put_text(body, KS_VIEW("Data")), "writing");
        must(ks_cbor_put_bytes(body, record->data), "writing");
        put_pair(body, "PartitionKey", record->partition_key);
        put_pair(body, "SequenceNumber", record->sequence);
    }
}

static void measure_scan(const struct payload *payload, const char *format)
{
    struct scan scan = {.read = ks_records_json};
    double cost;

    ks_bytes_init(&scan.body, BODY_MAX);
    if (strcmp(format, "cbor") == 0) {
        scan.read = ks_records_cbor;
        write_cbor(payload, &scan.body);
    } else {
        write_json(payload, &scan.body);
    }
    cost = meter_cost(run_scan, &scan);
    meter_say("kinesis/scan", (double)scan.body.size / 1e6 / cost, "wire MB/cpu-s",
              "\"format\":\"%s\",\"record_bytes\":%u,\"records\":%u,\"body_bytes\":%zu,"
              "\"payload_mb_per_cpu_s\":%.0f,\"ns_per_record\":%.0f",
              format, payload->size, payload->count, scan.body.size, megabytes(payload) / cost,
              cost / payload->count * 1e9);
    ks_bytes_free(&scan.body);
}

/* ---- Aggregates ---- */

struct opening {
    struct ks_bytes packed;
    const struct ks_hash_range *range;
    bool digest; /* And nothing else. */
    uint32_t records;
};

static void run_opening(void *arg, uint64_t rounds)
{
    struct opening *opening = arg;
    ks_view data = ks_bytes_view(&opening->packed);
    struct ks_aggregate aggregate;
    struct ks_user_record user;

    for (uint64_t i = 0; i < rounds; i++) {
        uint32_t count = 0;

        if (!ks_is_aggregate(data))
            meter_fail("no aggregate");
        if (opening->digest)
            continue;
        must(ks_aggregate_open(data, NULL, &aggregate), "opening an aggregate");
        while (ks_aggregate_next(&aggregate, opening->range, &user))
            count++;
        if (count != opening->records)
            meter_fail("%u user records instead of %u", count, opening->records);
        ks_aggregate_close(&aggregate);
    }
}

/* As large as the producer library makes them by default, every record with a key of its own. */
static void measure_aggregate(const struct payload *payload)
{
    enum { AGGREGATE_BYTES = 51200, RECORDS_MAX = 512, KEY_BYTES = 37 };
    static const struct {
        const char *what;
        struct ks_hash_range range;
        bool digest;
    } rows[] = {{"digest", {0, 0}, true},
                {"digest, open, read", {0, KS_HASH_KEY_LAST}, false},
                {"digest, open, read, in range?", {0, KS_HASH_KEY_LAST / 2}, false}};
    static char keys[RECORDS_MAX][KEY_BYTES];
    static const char *names[RECORDS_MAX];
    static struct kpl_record records[RECORDS_MAX];
    struct opening opening = {.records = AGGREGATE_BYTES / (payload->size + KEY_BYTES)};

    if (opening.records == 0)
        opening.records = 1;
    for (uint32_t i = 0; i < opening.records; i++) {
        (void)snprintf(keys[i], KEY_BYTES, "cae41b1c-ea61-43f2-90be-%012u", i);
        names[i] = keys[i];
        records[i] = (struct kpl_record){.key = i, .data = payload->records[i].data};
    }
    ks_bytes_init(&opening.packed, BODY_MAX);
    kpl_pack(&opening.packed, names, opening.records, records, opening.records);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        opening.digest = rows[i].digest;
        opening.range = rows[i].range.end == KS_HASH_KEY_LAST ? NULL : &rows[i].range;
        double cost = meter_cost(run_opening, &opening);
        meter_say("kinesis/aggregate", (double)opening.packed.size / 1e6 / cost, "MB/cpu-s",
                  "\"what\":\"%s\",\"record_bytes\":%u,\"records\":%u,\"ns_per_record\":%.0f",
                  rows[i].what, payload->size, opening.records, cost / opening.records * 1e9);
    }
    ks_bytes_free(&opening.packed);
}

/* ---- Copying and base64 ---- */

struct transfer {
    const struct payload *payload;
    const struct ks_base64_way *way;
    uint8_t *to;
    uint8_t *text; /* The first record's data as base64. */
    size_t text_size;
};

static void run_memcpy(void *arg, uint64_t rounds)
{
    struct transfer *transfer = arg;

    for (uint64_t i = 0; i < rounds; i++)
        for (uint32_t r = 0; r < transfer->payload->count; r++) {
            memcpy(transfer->to, transfer->payload->records[r].data.data, transfer->payload->size);
            __asm__ volatile("" : : "r"(transfer->to) : "memory");
        }
}

static void run_encode(void *arg, uint64_t rounds)
{
    struct transfer *transfer = arg;

    for (uint64_t i = 0; i < rounds; i++)
        for (uint32_t r = 0; r < transfer->payload->count; r++) {
            ks_view data = transfer->payload->records[r].data;

            if (transfer->way == NULL)
                (void)ks_base64_encode(data, (char *)transfer->to);
            else
                (void)transfer->way->encode(data.data, data.size, (char *)transfer->to);
        }
}

static void run_decode(void *arg, uint64_t rounds)
{
    struct transfer *transfer = arg;
    size_t size;

    for (uint64_t i = 0; i < rounds; i++)
        for (uint32_t r = 0; r < transfer->payload->count; r++) {
            ks_view text = ks_view_of(transfer->text, transfer->text_size);

            if (transfer->way == NULL)
                must(ks_base64_decode(text, transfer->to, &size), "decoding");
            else
                (void)transfer->way->decode(text.data, text.size, transfer->to);
        }
}

static void say_transfer(const char *name, const char *way, const struct payload *payload,
                         double cost)
{
    meter_say(name, megabytes(payload) / cost, "MB/cpu-s", "\"record_bytes\":%u,\"way\":\"%s\"",
              payload->size, way);
}

static void measure_transfers(const struct payload *payload)
{
    static const struct {
        const char *name;
        const struct ks_base64_way *way;
    } ways[] = {{"best", NULL}, {"portable", &ks_base64_portable}};
    struct transfer transfer = {.payload = payload};

    transfer.to = memory_of(ks_base64_size(payload->size) + 64);
    transfer.text = memory_of(ks_base64_size(payload->size));
    transfer.text_size = ks_base64_encode(payload->records[0].data, (char *)transfer.text);
    say_transfer("memcpy", "libc", payload, meter_cost(run_memcpy, &transfer));
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        transfer.way = ways[i].way;
        say_transfer("base64/encode", ways[i].name, payload, meter_cost(run_encode, &transfer));
        say_transfer("base64/decode", ways[i].name, payload, meter_cost(run_decode, &transfer));
    }
    free(transfer.to);
    free(transfer.text);
}

/* ---- Framing ---- */

struct framing {
    const struct payload *payload;
    enum ks_frame_format format;
    struct ks_ack_key key;
    uint8_t *buffer;
    uint64_t wire; /* Bytes written so far. */
};

static const struct ks_record *payload_record(void *arg, ks_number number)
{
    const struct payload *payload = arg;

    return &payload->records[number];
}

/* Fills buffer after buffer, as the stream does, with runs of what fits into one. */
static void run_framing(void *arg, uint64_t rounds)
{
    struct framing *framing = arg;
    struct ks_frame_source source = {payload_record, (void *)(uintptr_t)framing->payload};
    const struct ks_frame_names names = {"batch-id-of-fifty-two-characters-0123456789012345678",
                                         "orders", "shardId-000000000003"};
    uint32_t run = BUFFER_BYTES / (framing->payload->size + 200) + 1;
    struct ks_ack_run place = {3, 7, 0, 1, 1};
    struct ks_ack_stamp stamp;
    struct ks_framer framer;
    enum ks_frame_state state;

    ks_ack_stamp_init(&stamp, &framing->key, 1, 1, &place);
    ks_framer_init(&framer, framing->format, source);
    for (uint64_t i = 0; i < rounds; i++)
        for (uint32_t first = 0; first < framing->payload->count; first += run) {
            uint32_t left = framing->payload->count - first;

            place.first = first;
            place.count = left < run ? left : run;
            ks_framer_begin(&framer, &stamp, &names, &place, 1);
            do {
                framing->wire += ks_framer_fill(&framer, framing->buffer, BUFFER_BYTES, &state);
            } while (state == KS_FRAME_FULL);
        }
}

static void measure_framing(const struct payload *payload, enum ks_frame_format format,
                            const char *name)
{
    struct framing framing = {
        .payload = payload, .format = format, .buffer = memory_of(BUFFER_BYTES)};
    double expansion;
    double cost;

    ks_ack_key_init(&framing.key, 1, 0);
    run_framing(&framing, 1);
    expansion = (double)framing.wire / 1e6 / megabytes(payload);
    cost = meter_cost(run_framing, &framing);
    meter_say(
        "api/frame", megabytes(payload) / cost, "payload MB/cpu-s",
        "\"format\":\"%s\",\"record_bytes\":%u,\"records_per_cpu_s\":%.0f,\"ns_per_record\":%.0f,"
        "\"wire_mb_per_cpu_s\":%.0f",
        name, payload->size, payload->count / cost, cost / payload->count * 1e9,
        megabytes(payload) * expansion / cost);
    free(framing.buffer);
}

/* True if this part was asked for. */
static bool wanted(const char *only, const char *name)
{
    return only == NULL || strcmp(name, only) == 0;
}

static void measure_payload(const struct payload *payload, const char *only)
{
    if (wanted(only, "base64"))
        measure_transfers(payload);
    if (wanted(only, "json"))
        measure_scan(payload, "json");
    if (wanted(only, "cbor"))
        measure_scan(payload, "cbor");
    if (wanted(only, "aggregate"))
        measure_aggregate(payload);
    if (wanted(only, "protobuf"))
        measure_framing(payload, KS_FRAME_PROTOBUF, "protobuf");
    if (wanted(only, "ndjson"))
        measure_framing(payload, KS_FRAME_NDJSON, "ndjson");
}

/* core [PART]: everything, or one of settle, turn, tracker, sigv4, base64, json, cbor, aggregate,
 * protobuf, ndjson. */
int main(int argc, char **argv)
{
    const char *only = argc > 1 ? argv[1] : NULL;

    meter_pin(0);
    if (wanted(only, "settle")) {
        measure_settling(1, 1, "in order");
        measure_settling(1, 4099, "strided");
        measure_settling(32, 1, "in order");
    }
    if (wanted(only, "turn")) {
        measure_turns(LEASES);
        measure_turns(TURN_LEASES);
    }
    if (wanted(only, "tracker"))
        measure_tracker();
    if (wanted(only, "sigv4"))
        measure_signing();
    for (size_t i = 0; i < SIZES; i++) {
        struct payload payload = new_payload(sizes_measured[i], BODY_BYTES);

        measure_payload(&payload, only);
        free_payload(&payload);
    }
    return 0;
}
