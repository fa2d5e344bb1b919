/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/dialects/kinsumer.h"

#include "adapters/dialects/foreign.h"
#include "adapters/dialects/native_words.h"

#include <assert.h>
#include <inttypes.h>

#define LATEST KS_VIEW("LATEST")
#define LEADER "Leader"
#define SHARD_CACHE "ShardCache"

enum checkpoint {
    OWNER_ID,
    OWNER_NAME,
    SEQUENCE,
    UPDATED,
    UPDATED_TEXT,
    FINISHED,
    FINISHED_TEXT,
    SIDECAR,
    CHECKPOINT_ATTRIBUTES
};

static const struct ks_attribute checkpoints[CHECKPOINT_ATTRIBUTES] = {
    [OWNER_ID] = {"OwnerID", KS_VALUE_TEXT},
    [OWNER_NAME] = {"OwnerName", KS_VALUE_TEXT},
    [SEQUENCE] = {"SequenceNumber", KS_VALUE_TEXT},
    [UPDATED] = {"LastUpdate", KS_VALUE_NUMBER},
    [UPDATED_TEXT] = {"LastUpdateRFC", KS_VALUE_TEXT},
    [FINISHED] = {"Finished", KS_VALUE_NUMBER},
    [FINISHED_TEXT] = {"FinishedRFC", KS_VALUE_TEXT},
    [SIDECAR] = {KS_FOREIGN_SIDECAR, KS_VALUE_TEXT},
};

enum client { CLIENT_NAME, CLIENT_UPDATED, CLIENT_UPDATED_TEXT, CLIENT_ATTRIBUTES };

static const struct ks_attribute clients[CLIENT_ATTRIBUTES] = {
    [CLIENT_NAME] = {"Name", KS_VALUE_TEXT},
    [CLIENT_UPDATED] = {"LastUpdate", KS_VALUE_NUMBER},
    [CLIENT_UPDATED_TEXT] = {"LastUpdateRFC", KS_VALUE_TEXT},
};

enum metadata { META_ID, META_NAME, META_SHARDS, META_UPDATED, META_UPDATED_TEXT, META_ATTRIBUTES };

static const struct ks_attribute metadata[META_ATTRIBUTES] = {
    [META_ID] = {"ID", KS_VALUE_TEXT},
    [META_NAME] = {"Name", KS_VALUE_TEXT},
    [META_SHARDS] = {"ShardIDs", KS_VALUE_LIST},
    [META_UPDATED] = {"LastUpdate", KS_VALUE_NUMBER},
    [META_UPDATED_TEXT] = {"LastUpdateRFC", KS_VALUE_TEXT},
};

static const struct ks_schema schemas[KS_KINSUMER_TABLES] = {
    [KS_KINSUMER_CHECKPOINTS] = {.attributes = checkpoints,
                                 .count = CHECKPOINT_ATTRIBUTES,
                                 .key = "Shard",
                                 .nullable = true},
    [KS_KINSUMER_CLIENTS] = {.attributes = clients,
                             .count = CLIENT_ATTRIBUTES,
                             .key = "ID",
                             .nullable = true},
    [KS_KINSUMER_METADATA] = {.attributes = metadata,
                              .count = META_ATTRIBUTES,
                              .key = "Key",
                              .nullable = true},
};

static uint32_t table(enum ks_store_operation operation)
{
    switch ((int)operation) {
    case KS_STORE_READ_FLEET:
    case KS_STORE_HEARTBEAT:
    case KS_STORE_SAY_GONE:
    case KS_STORE_REMOVE_WORKER: return KS_KINSUMER_CLIENTS;
    case KS_STORE_READ_NEWS:
    case KS_STORE_CLAIM_OFFICE:
    case KS_STORE_RESIGN_OFFICE:
    case KS_STORE_NAME_SHARDS: return KS_KINSUMER_METADATA;
    default: return KS_KINSUMER_CHECKPOINTS;
    }
}

/* ---- Times ---- */

#define NS_PER_SECOND UINT64_C(1000000000)
enum { SECONDS_PER_DAY = 86400, FIRST_WEEKDAY = 4 /* 1970 began on a Thursday. */ };

ks_err ks_kinsumer_put_time(struct ks_bytes *bytes, uint64_t ns)
{
    static const char weekdays[][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char months[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    uint64_t seconds = ns / NS_PER_SECOND;
    uint64_t days = seconds / SECONDS_PER_DAY;
    struct ks_foreign_date date = ks_foreign_date(days);

    seconds %= SECONDS_PER_DAY;
    return ks_bytes_format(bytes, "%s, %02u %s %04u %02u:%02u:%02u +0000",
                           weekdays[(days + FIRST_WEEKDAY) % 7], date.day, months[date.month - 1],
                           date.year, (unsigned)(seconds / 3600), (unsigned)(seconds / 60 % 60),
                           (unsigned)(seconds % 60));
}

/* ---- Reading ---- */

/* 0 if it is absent. */
static ks_err read_time(const struct ks_item *item, uint32_t at, uint64_t *ret_ns)
{
    *ret_ns = 0;
    return item->presence[at] == KS_ABSENT ? KS_OK : ks_item_number(item, at, ret_ns);
}

static ks_err read_sequence(const struct ks_item *item, struct ks_store_lease *lease)
{
    ks_view text = KS_VIEW_NONE;

    if (item->presence[SEQUENCE] != KS_ABSENT)
        KS_TRY(ks_item_text(item, SEQUENCE, &text));
    lease->whole.sub_sequence = -1;
    lease->finished = item->presence[FINISHED] != KS_ABSENT;
    if (lease->finished) {
        lease->checkpoint.kind = KS_POSITION_SHARD_END;
        return KS_OK;
    }
    lease->unstarted = text.size == 0;
    if (ks_view_equal(text, LATEST)) {
        lease->checkpoint.kind = KS_POSITION_LATEST;
    } else if (text.size != 0) {
        if (!ks_native_is_decimal(text, KS_SEQUENCE_MAX))
            return KS_FAIL(MALFORMED);
        lease->checkpoint.kind = KS_POSITION_AFTER_SEQUENCE;
        KS_TRY(ks_view_copy_text(text, lease->checkpoint.sequence,
                                 sizeof(lease->checkpoint.sequence)));
    }
    lease->whole = lease->checkpoint;
    /* What is beside no record stands beside nothing. */
    return ks_foreign_read_inside(
        item, SIDECAR, lease->checkpoint.kind == KS_POSITION_AFTER_SEQUENCE ? text : KS_VIEW(""),
        lease);
}

static ks_err read_lease(const struct ks_item *item, struct ks_store_lease *lease)
{
    uint64_t ended;

    if (!ks_native_is_shard(item->k))
        return KS_FAIL(MALFORMED);
    KS_TRY(ks_foreign_read_id(item, OWNER_ID, &lease->owner));
    KS_TRY(read_time(item, UPDATED, &lease->rev));
    KS_TRY(read_time(item, FINISHED, &ended));
    return read_sequence(item, lease);
}

/* Members pass over a client whose time is no number, as they do over one that is too old. */
static ks_err add_client(struct ks_native_rows *rows, const struct ks_item *item,
                         struct ks_detail *ret_detail)
{
    struct ks_store_worker worker = {.life = KS_LIVE, .mode = KS_ACTIVE};

    if (item->k.size == 0 || !ks_ok(read_time(item, CLIENT_UPDATED, &worker.beat)))
        return KS_OK;
    if (!ks_ok(ks_view_copy_text(item->k, worker.self.id, sizeof(worker.self.id)))) {
        ks_detail_set(ret_detail, "a client's ID is longer than %d characters: %.*s..",
                      KS_WORKER_ID_MAX, item->k.size < 64 ? (int)item->k.size : 64,
                      (const char *)item->k.data);
        return KS_FAIL(CORRUPT);
    }
    return ks_native_rows_add_worker(rows, item, KS_OK, &worker);
}

/* What cannot be read cannot be claimed either. */
static ks_err add_leader(struct ks_native_rows *rows, const struct ks_item *item)
{
    struct ks_store_leader leader = {.present = true};

    if (!ks_ok(ks_foreign_read_id(item, META_ID, &leader.holder)) ||
        !ks_ok(read_time(item, META_UPDATED, &leader.epoch)))
        leader = (struct ks_store_leader){
            .present = true, .holder = {KS_FOREIGN_EMPTY, 0}, .epoch = INT64_MAX};
    rows->leader = leader;
    return KS_OK;
}

static ks_err add_list(struct ks_native_rows *rows, const struct ks_item *item,
                       struct ks_detail *ret_detail)
{
    ks_view ids = KS_VIEW_NONE;
    uint64_t rev = 0;
    ks_err err = read_time(item, META_UPDATED, &rev);

    if (ks_ok(err) && item->presence[META_SHARDS] != KS_ABSENT)
        err = ks_item_text(item, META_SHARDS, &ids);
    if (ks_ok(err))
        return ks_native_rows_list(rows, ids, rev);
    ks_detail_set(ret_detail, "the row Key=" SHARD_CACHE
                              " cannot be read, by nobody: repair it, or delete it by hand");
    return KS_FAIL(CORRUPT);
}

static ks_err add(struct ks_native_rows *rows, const struct ks_item *item,
                  struct ks_detail *ret_detail)
{
    struct ks_store_lease lease = {.checkpoint.sub_sequence = -1};

    if (item->schema == &schemas[KS_KINSUMER_CLIENTS])
        return add_client(rows, item, ret_detail);
    if (item->schema == &schemas[KS_KINSUMER_CHECKPOINTS])
        return ks_native_rows_add_lease(rows, item, read_lease(item, &lease), &lease);
    if (ks_view_equal(item->k, KS_VIEW(LEADER)))
        return add_leader(rows, item);
    return ks_view_equal(item->k, KS_VIEW(SHARD_CACHE)) ? add_list(rows, item, ret_detail) : KS_OK;
}

static ks_err read(const struct ks_store_request *request, const char **ret_partition,
                   struct ks_item_keys *ret_keys)
{
    *ret_partition = NULL;
    *ret_keys = (struct ks_item_keys){.count = 0};
    if (request->operation == KS_STORE_READ_LEASE)
        return ks_item_keys_add(ret_keys, ks_view_text(request->shard));
    return request->operation == KS_STORE_READ_WORKER ? KS_FAIL(INVALID) : KS_OK;
}

/* ---- Writing ---- */

enum { TEXT_BYTES = 2048 };

static ks_err keep_number(struct ks_item_write *write, uint64_t number, struct ks_value *ret_value)
{
    const size_t begin = write->texts.size;

    KS_TRY(ks_bytes_format(&write->texts, "%" PRIu64, number));
    *ret_value = (struct ks_value){
        KS_VALUE_NUMBER, ks_view_of(write->texts.data + begin, write->texts.size - begin)};
    return KS_OK;
}

/* 0 is as good as none. */
static ks_err if_time(struct ks_item_write *write, const char *name, uint64_t ns)
{
    struct ks_value value;

    KS_TRY(keep_number(write, ns, &value));
    ks_item_write_if(write, ns == 0 ? KS_IF_EQUALS_OR_ABSENT : KS_IF_EQUALS, name, value);
    return KS_OK;
}

/* A time, and the same for people. */
static ks_err set_time(struct ks_item_write *write, const char *name, const char *text_name,
                       uint64_t ns)
{
    struct ks_value value;
    size_t begin;

    KS_TRY(keep_number(write, ns, &value));
    ks_item_write_do(write, KS_DO_SET, name, value);
    begin = write->texts.size;
    KS_TRY(ks_kinsumer_put_time(&write->texts, ns));
    value = (struct ks_value){KS_VALUE_TEXT,
                              ks_view_of(write->texts.data + begin, write->texts.size - begin)};
    ks_item_write_do(write, KS_DO_SET, text_name, value);
    return KS_OK;
}

/* The attribute names this one, or nobody if there is no id. */
static ks_err if_names(struct ks_item_write *write, const char *name,
                       const struct ks_incarnation_text *who)
{
    struct ks_value value = {KS_VALUE_TEXT, KS_VIEW_NONE};

    if (who->id[0] != '\0')
        KS_TRY(ks_foreign_keep_id(write, who, &value.text));
    ks_item_write_if(write, who->id[0] == '\0' ? KS_IF_ABSENT_OR_NULL : KS_IF_EQUALS, name, value);
    return KS_OK;
}

static ks_err set_names(struct ks_item_write *write, const char *id, const char *name,
                        const struct ks_incarnation_text *who)
{
    if (id != NULL)
        KS_TRY(ks_foreign_set_text(write, id, ks_view_text(who->id)));
    return ks_foreign_set_text(write, name, ks_view_text(who->id));
}

/* Whose it is as read, and as of when: every write of an owner moves LastUpdate. */
static ks_err if_as_read(struct ks_item_write *write, const struct ks_incarnation_text *owner,
                         uint64_t rev)
{
    KS_TRY(if_names(write, checkpoints[OWNER_ID].name, owner));
    return if_time(write, checkpoints[UPDATED].name, rev);
}

static ks_err capture(struct ks_item_write *write, const struct ks_store_request *request)
{
    static const struct ks_incarnation_text nobody;

    KS_TRY(if_as_read(write, request->operation == KS_STORE_ASSIGN ? &nobody : &request->owner,
                      request->rev));
    ks_item_write_if(write, KS_IF_ABSENT_OR_NULL, checkpoints[FINISHED].name,
                     (struct ks_value){KS_VALUE_NUMBER, KS_VIEW_NONE});
    KS_TRY(set_names(write, checkpoints[OWNER_ID].name, checkpoints[OWNER_NAME].name,
                     &request->worker));
    return ks_foreign_set_start(write, request);
}

static void let_go(struct ks_item_write *write)
{
    ks_foreign_remove(write, checkpoints[OWNER_ID].name);
    ks_foreign_remove(write, checkpoints[OWNER_NAME].name);
}

static ks_err finish(struct ks_item_write *write, const struct ks_store_request *request)
{
    let_go(write);
    ks_foreign_remove(write, checkpoints[SIDECAR].name);
    if (ks_foreign_is_sequence(&request->whole))
        KS_TRY(ks_foreign_set_text(write, checkpoints[SEQUENCE].name,
                                   ks_view_text(request->whole.sequence)));
    return set_time(write, checkpoints[FINISHED].name, checkpoints[FINISHED_TEXT].name,
                    request->next_rev);
}

static ks_err mend_position(struct ks_item_write *write, const struct ks_store_lease *lease)
{
    if (!lease->finished && !lease->unstarted && lease->checkpoint.kind != KS_POSITION_LATEST)
        return ks_foreign_mend_position(write, &lease->whole, &lease->checkpoint,
                                        checkpoints[SEQUENCE].name);
    ks_foreign_remove(write, checkpoints[SIDECAR].name);
    if (!lease->finished && !lease->unstarted)
        return ks_foreign_set_text(write, checkpoints[SEQUENCE].name, LATEST);
    ks_foreign_remove(write, checkpoints[SEQUENCE].name);
    return KS_OK;
}

static ks_err mend(struct ks_item_write *write, const struct ks_store_request *request)
{
    const struct ks_store_lease *const lease = request->lease;

    if (request->exists)
        KS_TRY(if_as_read(write, &request->owner, request->rev));
    else
        ks_item_write_if(write, KS_IF_ABSENT, schemas[KS_KINSUMER_CHECKPOINTS].key,
                         (struct ks_value){KS_VALUE_TEXT, KS_VIEW_NONE});
    KS_TRY(ks_foreign_mend_id(write, checkpoints[OWNER_ID].name, &lease->owner));
    KS_TRY(ks_foreign_mend_id(write, checkpoints[OWNER_NAME].name, &lease->owner));
    KS_TRY(mend_position(write, lease));
    if (lease->finished)
        return set_time(write, checkpoints[FINISHED].name, checkpoints[FINISHED_TEXT].name,
                        request->next_rev);
    ks_foreign_remove(write, checkpoints[FINISHED].name);
    ks_foreign_remove(write, checkpoints[FINISHED_TEXT].name);
    return KS_OK;
}

static ks_err fill_checkpoint(struct ks_item_write *write, const struct ks_store_request *request)
{
    switch ((int)request->operation) {
    case KS_STORE_ASSIGN:
    case KS_STORE_TAKE_OVER: KS_TRY(capture(write, request)); break;
    case KS_STORE_CHECKPOINT:
        KS_TRY(if_as_read(write, &request->worker, request->rev));
        KS_TRY(ks_foreign_set_position(write, request, checkpoints[SEQUENCE].name));
        break;
    case KS_STORE_FINAL:
        KS_TRY(if_as_read(write, &request->worker, request->rev));
        let_go(write);
        KS_TRY(ks_foreign_set_position(write, request, checkpoints[SEQUENCE].name));
        break;
    case KS_STORE_END:
        KS_TRY(if_as_read(write, &request->worker, request->rev));
        KS_TRY(finish(write, request));
        break;
    case KS_STORE_MEND: KS_TRY(mend(write, request)); break;
    default: return KS_FAIL(UNSUPPORTED);
    }
    return set_time(write, checkpoints[UPDATED].name, checkpoints[UPDATED_TEXT].name,
                    request->next_rev);
}

static ks_err fill_client(struct ks_item_write *write, const struct ks_store_request *request)
{
    if (request->operation == KS_STORE_REMOVE_WORKER) {
        write->delete_row = true;
        return if_time(write, clients[CLIENT_UPDATED].name, request->expect_beat);
    }
    write->delete_row = request->operation == KS_STORE_SAY_GONE;
    /* It is ours, by its id: what it says does not matter. */
    write->unconditional = write->delete_row || request->expect_beat == 0;
    if (write->delete_row)
        return KS_OK;
    if (!write->unconditional)
        ks_item_write_if(write, KS_IF_EXISTS, schemas[KS_KINSUMER_CLIENTS].key,
                         (struct ks_value){KS_VALUE_TEXT, KS_VIEW_NONE});
    KS_TRY(set_names(write, NULL, clients[CLIENT_NAME].name, &request->worker));
    return set_time(write, clients[CLIENT_UPDATED].name, clients[CLIENT_UPDATED_TEXT].name,
                    request->next_rev);
}

static ks_err fill_metadata(struct ks_item_write *write, const struct ks_store_request *request)
{
    struct ks_value list = {KS_VALUE_LIST, KS_VIEW_NONE};

    KS_TRY(if_time(write, metadata[META_UPDATED].name, request->rev));
    if (request->operation == KS_STORE_NAME_SHARDS) {
        KS_TRY(ks_item_write_keep(write, request->shards, &list.text));
        ks_item_write_do(write, KS_DO_SET, metadata[META_SHARDS].name, list);
    } else {
        KS_TRY(if_names(write, metadata[META_ID].name, &request->owner));
    }
    if (request->operation == KS_STORE_CLAIM_OFFICE)
        KS_TRY(
            set_names(write, metadata[META_ID].name, metadata[META_NAME].name, &request->worker));
    if (request->operation == KS_STORE_RESIGN_OFFICE)
        ks_foreign_remove(write, metadata[META_ID].name);
    return set_time(write, metadata[META_UPDATED].name, metadata[META_UPDATED_TEXT].name,
                    request->next_rev);
}

/* NULL if it can be no key. */
static const char *key_of(const struct ks_store_request *request)
{
    switch (table(request->operation)) {
    case KS_KINSUMER_CLIENTS: return request->worker.id[0] == '\0' ? NULL : request->worker.id;
    case KS_KINSUMER_METADATA:
        return request->operation == KS_STORE_NAME_SHARDS ? SHARD_CACHE : LEADER;
    default: break;
    }
    if (request->shard == NULL || !ks_native_is_shard(ks_view_text(request->shard)))
        return NULL;
    return request->shard;
}

static ks_err fill(struct ks_item_write *write, const struct ks_store_request *request)
{
    switch (table(request->operation)) {
    case KS_KINSUMER_CLIENTS: return fill_client(write, request);
    case KS_KINSUMER_METADATA: return fill_metadata(write, request);
    default: return fill_checkpoint(write, request);
    }
}

static ks_err write_row(const struct ks_store_request *request, struct ks_item_write *ret_write,
                        struct ks_detail *ret_detail)
{
    const char *const key = key_of(request);
    ks_err err;

    *ret_write = (struct ks_item_write){.p = NULL};
    if (key == NULL) {
        ks_detail_set(ret_detail, "%s: not an id", ks_store_operation_name(request->operation));
        return KS_FAIL(INVALID);
    }
    KS_TRY(ks_item_write_init(ret_write, NULL, key, TEXT_BYTES + request->shards.size));
    ret_write->key = schemas[table(request->operation)].key;
    err = fill(ret_write, request);
    if (!ks_ok(err))
        ks_detail_set(ret_detail, "%s of %s: %s", ks_store_operation_name(request->operation), key,
                      ks_err_text(err));
    return err;
}

const struct ks_dialect ks_kinsumer_dialect = {
    .name = "kinsumer",
    .tables = {{"_checkpoints", &schemas[KS_KINSUMER_CHECKPOINTS], false},
               {"_clients", &schemas[KS_KINSUMER_CLIENTS], false},
               {"_metadata", &schemas[KS_KINSUMER_METADATA], false}},
    .table_count = KS_KINSUMER_TABLES,
    .rev = KS_REV_WRITTEN,
    .has_workers = true,
    .keeps_apart = true,
    .table = table,
    .read = read,
    .write = write_row,
    .add = add,
};
