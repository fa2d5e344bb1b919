/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/dialects/kcl_fleet.h"

#include "adapters/dialects/native_words.h"

#include <assert.h>
#include <inttypes.h>

static const struct ks_attribute coordinator[] = {KS_KCL_COORDINATOR_ATTRIBUTES};
static const struct ks_attribute metrics[] = {KS_KCL_METRICS_ATTRIBUTES};

const struct ks_schema ks_kcl_coordinator_schema = {
    .attributes = coordinator, .count = sizeof(coordinator) / sizeof(coordinator[0]), .key = "key"};
const struct ks_schema ks_kcl_metrics_schema = {
    .attributes = metrics, .count = sizeof(metrics) / sizeof(metrics[0]), .key = "wid"};

#define ENTITY "entityType"
#define METRICS "WORKER_METRIC_STATS"
#define LEASE_KEY "leaseKey"

/* ---- Reading ---- */

static const char *const versions[KS_KCL_VERSIONS] = {
    [KS_KCL_2X] = "CLIENT_VERSION_2X",
    [KS_KCL_UPGRADE_FROM_2X] = "CLIENT_VERSION_UPGRADE_FROM_2X",
    [KS_KCL_3X_WITH_ROLLBACK] = "CLIENT_VERSION_3X_WITH_ROLLBACK",
    [KS_KCL_3X] = "CLIENT_VERSION_3X",
};
static const char *const tables[KS_KCL_TABLES_WORDS] = {
    [KS_KCL_TABLES_INIT] = "TABLE_MIGRATION_STATUS_INIT",
    [KS_KCL_TABLES_DEPLOYED] = "TABLE_MIGRATION_STATUS_DEPLOYED",
    [KS_KCL_TABLES_PENDING] = "TABLE_MIGRATION_STATUS_PENDING",
    [KS_KCL_TABLES_COMPLETE] = "TABLE_MIGRATION_STATUS_COMPLETE",
};

/* NOT_FOUND, too, where the table can have no such attribute. */
static ks_err text_of(const struct ks_item *item, const char *name, ks_view *ret_text)
{
    const uint32_t at = ks_schema_find(item->schema, ks_view_text(name));

    return at == item->schema->count ? KS_FAIL(NOT_FOUND) : ks_item_text(item, at, ret_text);
}

/* Which of the words it is; 0 if there is none such. */
static unsigned word_of(const struct ks_item *item, const char *name, const char *const *words,
                        unsigned count)
{
    ks_view text;

    if (!ks_ok(text_of(item, name, &text)))
        return 0;
    for (unsigned at = 1; at < count; at++)
        if (ks_view_equal(text, ks_view_text(words[at])))
            return at;
    return 0;
}

/* A number for a text, the same for the same one, never 0: FNV-1a. */
static uint64_t number_for(ks_view text)
{
    uint64_t hash = UINT64_C(14695981039346656037);

    for (size_t at = 0; at < text.size; at++)
        hash = (hash ^ text.data[at]) * UINT64_C(1099511628211);
    return hash == 0 ? 1 : hash;
}

/* What cannot be, or never ends, is as the library has it if nobody says otherwise. */
static ks_span leader_span(const struct ks_item *item)
{
    enum { LEAST_MS = 1000, MOST_MS = 3600000 };
    uint64_t ms = 0;
    ks_view text;

    if (!ks_ok(text_of(item, "leaseDuration", &text)) || !ks_ok(ks_view_u64(text, &ms)) ||
        ms < LEAST_MS || ms > MOST_MS)
        ms = KS_KCL_LEADER_MS;
    return ks_span_ms((int64_t)ms);
}

static void read_leader(struct ks_native_rows *rows, const struct ks_item *item)
{
    struct ks_kcl_rows *const kcl = &rows->kcl;
    struct ks_store_leader leader = {.present = true};
    ks_view version;
    ks_view text;

    kcl->leader_span = leader_span(item);
    if (ks_ok(text_of(item, "isReleased", &text)) && ks_view_equal(text, KS_VIEW("1")))
        return;
    /* One whose name is too long for a worker reports nothing that we could read. */
    if (ks_ok(text_of(item, "ownerName", &text)) &&
        ks_ok(ks_view_copy_text(text, leader.holder.id, sizeof(leader.holder.id))))
        rows->leader = leader;
    if (ks_ok(text_of(item, "recordVersionNumber", &version)) && version.size != 0)
        kcl->leader = number_for(version);
    else
        kcl->damaged = true;
}

/* The last sample of a series is behind the last space. */
static bool read_cpu(ks_view lines, bool *ret_failing)
{
    while (lines.size != 0) {
        ks_view line = ks_view_cut(&lines, '\n');
        ks_view last = KS_VIEW_NONE;

        if (!ks_view_equal(ks_view_cut(&line, ' '), KS_VIEW("C")))
            continue;
        while (line.size != 0)
            last = ks_view_cut(&line, ' ');
        *ret_failing = ks_view_equal(last, KS_VIEW("-1"));
        return true;
    }
    return false;
}

static ks_err read_worker(const struct ks_item *item, struct ks_store_worker *ret_worker)
{
    struct ks_store_worker worker = {.life = KS_LIVE, .mode = KS_ACTIVE};
    const uint32_t lut = ks_schema_find(item->schema, KS_VIEW("lut"));
    bool failing = false;
    ks_view series;

    if (lut == item->schema->count || item->k.size == 0)
        return KS_FAIL(MALFORMED);
    KS_TRY(ks_item_number(item, lut, &worker.beat));
    if (ks_ok(text_of(item, "sts", &series)))
        worker.measured = read_cpu(series, &failing);
    if (failing)
        worker.mode = KS_FAILING;
    *ret_worker = worker;
    return KS_OK;
}

static bool is_worker(const struct ks_item *item)
{
    ks_view entity;

    return item->schema == &ks_kcl_metrics_schema ||
           (ks_ok(text_of(item, ENTITY, &entity)) && ks_view_equal(entity, KS_VIEW(METRICS)));
}

ks_err ks_kcl_fleet_add(struct ks_native_rows *rows, const struct ks_item *item)
{
    struct ks_store_worker worker = {.beat = 0};
    struct ks_kcl_rows *const kcl = &rows->kcl;

    if (is_worker(item))
        return ks_native_rows_add_worker(rows, item, read_worker(item, &worker), &worker);
    if (ks_view_equal(item->k, KS_VIEW(KS_KCL_LEADER))) {
        read_leader(rows, item);
    } else if (ks_view_equal(item->k, KS_VIEW(KS_KCL_VERSION))) {
        kcl->version = (enum ks_kcl_version)word_of(item, "cv", versions, KS_KCL_VERSIONS);
        kcl->damaged |= kcl->version == KS_KCL_UNSAID;
    } else if (ks_view_equal(item->k, KS_VIEW(KS_KCL_TABLES))) {
        kcl->tables = (enum ks_kcl_tables)word_of(item, "tm", tables, KS_KCL_TABLES_WORDS);
        kcl->damaged |= kcl->tables == KS_KCL_TABLES_UNSAID;
    }
    return KS_OK;
}

ks_err ks_kcl_fleet_keys(struct ks_item_keys *ret_keys)
{
    *ret_keys = (struct ks_item_keys){.count = 0};
    KS_TRY(ks_item_keys_add(ret_keys, KS_VIEW(KS_KCL_LEADER)));
    KS_TRY(ks_item_keys_add(ret_keys, KS_VIEW(KS_KCL_VERSION)));
    return ks_item_keys_add(ret_keys, KS_VIEW(KS_KCL_TABLES));
}

/* ---- Writing ---- */

enum { TEXT_BYTES = 512 };

/* "C 17.500 -1 18.031": at most ten. */
static ks_err put_samples(struct ks_bytes *line, const struct ks_store_request *request)
{
    KS_TRY(ks_bytes_append_byte(line, 'C'));
    for (uint32_t at = 0; at < request->cpu_count; at++) {
        const uint32_t cpu = request->cpu[at];

        if (cpu == KS_CPU_NONE)
            KS_TRY(ks_bytes_append(line, KS_VIEW(" -1")));
        else
            KS_TRY(ks_bytes_format(line, " %" PRIu32 ".%03" PRIu32, cpu / 1000, cpu % 1000));
    }
    return KS_OK;
}

/* Workers that say their CPU are compared by it, the others by their traffic. */
static ks_err set_samples(struct ks_item_write *write, const struct ks_store_request *request)
{
    struct ks_value samples = {KS_VALUE_SERIES, KS_VIEW_NONE};
    struct ks_value most = {KS_VALUE_SERIES, KS_VIEW_NONE};
    struct ks_bytes line;
    ks_err err;

    assert(request->cpu_count <= KS_CPU_SAMPLES_MAX);
    if (request->measured && request->cpu_count != 0) {
        ks_bytes_init(&line, TEXT_BYTES);
        err = put_samples(&line, request);
        if (ks_ok(err))
            err = ks_item_write_keep(write, ks_bytes_view(&line), &samples.text);
        ks_bytes_free(&line);
        KS_TRY(err);
        most.text = KS_VIEW("C 100");
    }
    ks_item_write_do(write, KS_DO_SET, "sts", samples);
    ks_item_write_do(write, KS_DO_SET, "opr", most);
    return KS_OK;
}

/* An id that is the key of another row in the same table. */
static bool is_taken(const struct ks_store_request *request)
{
    const ks_view id = ks_view_text(request->worker.id);

    return request->together &&
           (ks_view_equal(id, KS_VIEW(KS_KCL_LEADER)) ||
            ks_view_equal(id, KS_VIEW(KS_KCL_VERSION)) ||
            ks_view_equal(id, KS_VIEW(KS_KCL_TABLES)) || ks_view_starts(id, KS_VIEW("shardId-")));
}

ks_err ks_kcl_metrics_write(const struct ks_store_request *request, struct ks_item_write *ret_write)
{
    struct ks_value now = {.type = KS_VALUE_NUMBER};
    struct ks_bytes digits;
    ks_err err;

    *ret_write = (struct ks_item_write){.p = NULL};
    if (is_taken(request))
        return KS_FAIL(INVALID);
    KS_TRY(ks_item_write_init(ret_write, NULL, request->worker.id, TEXT_BYTES));
    ret_write->key = request->together ? LEASE_KEY : ks_kcl_metrics_schema.key;
    if (request->operation == KS_STORE_SAY_GONE) {
        ks_item_write_if(ret_write, KS_IF_EXISTS, "lut",
                         (struct ks_value){KS_VALUE_NUMBER, KS_VIEW_NONE});
        ret_write->delete_row = true;
        return KS_OK;
    }
    ks_bytes_init(&digits, TEXT_BYTES);
    err = ks_bytes_format(&digits, "%" PRIu64, request->next_rev);
    if (ks_ok(err))
        err = ks_item_write_keep(ret_write, ks_bytes_view(&digits), &now.text);
    ks_bytes_free(&digits);
    KS_TRY(err);
    if (request->expect_beat != 0)
        ks_item_write_if(ret_write, KS_IF_EXISTS, "lut",
                         (struct ks_value){KS_VALUE_NUMBER, KS_VIEW_NONE});
    ks_item_write_if(ret_write, KS_IF_EQUALS_OR_ABSENT, ENTITY,
                     (struct ks_value){KS_VALUE_TEXT, KS_VIEW(METRICS)});
    ks_item_write_if(ret_write, KS_IF_ABSENT, "leaseCounter",
                     (struct ks_value){KS_VALUE_NUMBER, KS_VIEW_NONE});
    ks_item_write_do(ret_write, KS_DO_SET, ENTITY,
                     (struct ks_value){KS_VALUE_TEXT, KS_VIEW(METRICS)});
    ks_item_write_do(ret_write, KS_DO_SET, "lut", now);
    ks_item_write_do(ret_write, KS_DO_SET, "sup", (struct ks_value){KS_VALUE_NUMBER, KS_VIEW("1")});
    ks_item_write_do(ret_write, KS_DO_SET, "slu", now);
    return set_samples(ret_write, request);
}
