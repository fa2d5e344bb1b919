/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/dialects/kcl.h"

#include "adapters/dialects/kcl_fleet.h"
#include "adapters/dialects/native_words.h"
#include "ports/streams.h"

#include <inttypes.h>
#include <stdio.h>

enum attribute {
    COUNTER,
    OWNER,
    SWITCHES,
    CHECKPOINT,
    SUB,
    PARENTS,
    CHILDREN,
    HASH_START,
    HASH_END,
    PENDING,
    PENDING_SUB,
    CHECKPOINT_OWNER,
    ENTITY,
    STREAM,
    SHARD,
    SINCE,     /* Ours. */
    ATTRIBUTES /* Of leases. */
};

static const struct ks_attribute attributes[] = {
    [COUNTER] = {"leaseCounter", KS_VALUE_NUMBER},
    [OWNER] = {"leaseOwner", KS_VALUE_TEXT},
    [SWITCHES] = {"ownerSwitchesSinceCheckpoint", KS_VALUE_NUMBER},
    [CHECKPOINT] = {"checkpoint", KS_VALUE_TEXT},
    [SUB] = {"checkpointSubSequenceNumber", KS_VALUE_NUMBER},
    [PARENTS] = {"parentShardId", KS_VALUE_SET},
    [CHILDREN] = {"childShardIds", KS_VALUE_SET},
    [HASH_START] = {"startingHashKey", KS_VALUE_TEXT},
    [HASH_END] = {"endingHashKey", KS_VALUE_TEXT},
    [PENDING] = {"pendingCheckpoint", KS_VALUE_TEXT},
    [PENDING_SUB] = {"pendingCheckpointSubSequenceNumber", KS_VALUE_NUMBER},
    [CHECKPOINT_OWNER] = {"checkpointOwner", KS_VALUE_TEXT},
    [ENTITY] = {"entityType", KS_VALUE_TEXT},
    [STREAM] = {"streamName", KS_VALUE_TEXT},
    [SHARD] = {"shardId", KS_VALUE_TEXT},
    [SINCE] = {"SidecarSince", KS_VALUE_NUMBER},
    KS_KCL_COORDINATOR_ATTRIBUTES,
    KS_KCL_METRICS_ATTRIBUTES,
};

/* Of bytes, which no other attribute is: it is only ever removed. */
#define PENDING_STATE "pendingCheckpointState"

#define THROUGHPUT "throughputKBps"

static const struct ks_schema schema = {.attributes = attributes,
                                        .count = sizeof(attributes) / sizeof(attributes[0]),
                                        .key = KS_KCL_KEY};

/* After that of the leases. */
enum { COORDINATOR_TABLE = 1, METRICS_TABLE = 2 };

/* ---- The words of a checkpoint ---- */

static const struct {
    const char *word;
    enum ks_position_kind kind;
} words[] = {
    {"TRIM_HORIZON", KS_POSITION_TRIM_HORIZON},
    {"LATEST", KS_POSITION_LATEST},
    {"AT_TIMESTAMP", KS_POSITION_AT_TIMESTAMP},
    {"SHARD_END", KS_POSITION_SHARD_END},
};
enum { WORDS = sizeof(words) / sizeof(words[0]) };

#define SHARD_END words[WORDS - 1].word

/* ---- Reading ---- */

static ks_err read_id(const struct ks_item *item, enum attribute at, char *ret_id, size_t capacity)
{
    ks_view id;

    if (item->presence[at] == KS_ABSENT)
        return KS_OK;
    KS_TRY(ks_item_text(item, at, &id));
    /* Nobody writes an empty one, and one that is longer than ours can be could be told to nobody. */
    if (id.size == 0 || !ks_ok(ks_view_copy_text(id, ret_id, capacity)))
        return KS_FAIL(MALFORMED);
    return KS_OK;
}

/* Members know nothing of it, and keep it. */
static ks_err read_since(const struct ks_item *item, struct ks_position *position)
{
    uint64_t since_ms;

    if (item->presence[SINCE] == KS_ABSENT)
        return KS_OK;
    KS_TRY(ks_item_number(item, SINCE, &since_ms));
    if (since_ms > INT64_MAX)
        return KS_FAIL(MALFORMED);
    position->timestamp_ms = (int64_t)since_ms;
    return KS_OK;
}

static ks_err read_checkpoint(const struct ks_item *item, struct ks_position *position)
{
    uint64_t sub = 0;
    ks_view text;

    if (item->presence[SUB] != KS_ABSENT)
        KS_TRY(ks_item_number(item, SUB, &sub));
    KS_TRY(ks_item_text(item, CHECKPOINT, &text));
    for (size_t at = 0; at < WORDS; at++)
        if (ks_view_equal(text, ks_view_text(words[at].word))) {
            position->kind = words[at].kind;
            return position->kind == KS_POSITION_LATEST ? read_since(item, position) : KS_OK;
        }
    if (!ks_native_is_decimal(text, KS_SEQUENCE_MAX))
        return KS_FAIL(MALFORMED);
    position->kind = KS_POSITION_AFTER_SEQUENCE;
    position->sub_sequence = (int64_t)sub;
    return ks_view_copy_text(text, position->sequence, sizeof(position->sequence));
}

/* At most two shard ids, in no order of their own. */
static ks_err read_shards(const struct ks_item *item, enum attribute at,
                          char ret_ids[2][KS_SHARD_ID_MAX + 1])
{
    ks_view text;

    if (item->presence[at] == KS_ABSENT)
        return KS_OK;
    KS_TRY(ks_item_text(item, at, &text));
    for (size_t i = 0; text.size != 0; i++) {
        const ks_view id = ks_view_cut(&text, '\n');

        if (i == 2 || !ks_native_is_shard(id))
            return KS_FAIL(MALFORMED);
        KS_TRY(ks_view_copy_text(id, ret_ids[i], KS_SHARD_ID_MAX + 1));
    }
    if (strcmp(ret_ids[0], ret_ids[1]) > 0 && ret_ids[1][0] != '\0') {
        char first[KS_SHARD_ID_MAX + 1];

        memcpy(first, ret_ids[1], sizeof(first));
        memcpy(ret_ids[1], ret_ids[0], sizeof(first));
        memcpy(ret_ids[0], first, sizeof(first));
    }
    return KS_OK;
}

static ks_err read_hash_key(const struct ks_item *item, enum attribute at,
                            char ret_digits[KS_HASH_KEY_MAX + 1])
{
    ks_view text;

    if (item->presence[at] == KS_ABSENT)
        return KS_OK;
    KS_TRY(ks_item_text(item, at, &text));
    if (!ks_native_is_decimal(text, KS_HASH_KEY_MAX))
        return KS_FAIL(MALFORMED);
    return ks_view_copy_text(text, ret_digits, KS_HASH_KEY_MAX + 1);
}

/* Of a damaged row, too, so that it is known whose it is. */
static void read_key(const struct ks_item *item, struct ks_store_lease *lease)
{
    ks_view stream;
    ks_view shard;

    if (!ks_stream_key_read(item->k, &stream, &shard) || !ks_native_is_shard(shard) ||
        !ks_ok(ks_view_copy_text(stream, lease->stream, sizeof(lease->stream))))
        return;
    if (!ks_ok(ks_view_copy_text(shard, lease->shard, sizeof(lease->shard))))
        lease->stream[0] = '\0';
}

/* Of a table of several streams the attributes say what the key does; of one, there are none. */
static ks_err read_stream(const struct ks_item *item, const struct ks_store_lease *lease)
{
    ks_view text;

    if (item->presence[STREAM] == KS_ABSENT && item->presence[SHARD] == KS_ABSENT)
        return ks_native_is_shard(item->k) ? KS_OK : KS_FAIL(MALFORMED);
    KS_TRY(ks_item_text(item, STREAM, &text));
    if (lease->stream[0] == '\0' || !ks_view_equal(text, ks_view_text(lease->stream)))
        return KS_FAIL(MALFORMED);
    KS_TRY(ks_item_text(item, SHARD, &text));
    return ks_view_equal(text, ks_view_text(lease->shard)) ? KS_OK : KS_FAIL(MALFORMED);
}

static ks_err read_lease(const struct ks_item *item, struct ks_store_lease *lease)
{
    uint64_t switches;

    KS_TRY(read_stream(item, lease));
    KS_TRY(ks_item_number(item, COUNTER, &lease->rev));
    /* The next write adds 1. */
    if (lease->rev > KS_ROW_COUNTER_MAX)
        return KS_FAIL(MALFORMED);
    KS_TRY(ks_item_number(item, SWITCHES, &switches));
    KS_TRY(read_id(item, OWNER, lease->owner.id, sizeof(lease->owner.id)));
    /* It is his until he has given it to the other. */
    if (item->presence[CHECKPOINT_OWNER] != KS_ABSENT) {
        lease->next_owner = lease->owner;
        KS_TRY(read_id(item, CHECKPOINT_OWNER, lease->owner.id, sizeof(lease->owner.id)));
    }
    KS_TRY(read_checkpoint(item, &lease->checkpoint));
    KS_TRY(read_shards(item, PARENTS, lease->parents));
    KS_TRY(read_shards(item, CHILDREN, lease->children));
    KS_TRY(read_hash_key(item, HASH_START, lease->hash_start));
    KS_TRY(read_hash_key(item, HASH_END, lease->hash_end));
    lease->whole = lease->checkpoint;
    lease->finished = lease->checkpoint.kind == KS_POSITION_SHARD_END;
    lease->prepared = item->presence[PENDING] != KS_ABSENT;
    return KS_OK;
}

/* Rows of 3.5 that are no leases. */
static bool is_another(ks_view entity)
{
    static const char *const others[] = {"STREAM", "LEADER", "CLIENT_VERSION_MIGRATION",
                                         "TABLE_MIGRATION", "WORKER_METRIC_STATS"};

    for (size_t at = 0; at < sizeof(others) / sizeof(others[0]); at++)
        if (ks_view_equal(entity, ks_view_text(others[at])))
            return true;
    return false;
}

static ks_err add(struct ks_native_rows *rows, const struct ks_item *item,
                  struct ks_detail *ret_detail)
{
    struct ks_store_lease lease = {.checkpoint.sub_sequence = -1};
    ks_view entity = KS_VIEW("LEASE");
    ks_err err = KS_OK;

    (void)ret_detail;
    if (item->schema != &schema)
        return ks_kcl_fleet_add(rows, item);
    if (item->presence[ENTITY] != KS_ABSENT)
        err = ks_item_text(item, ENTITY, &entity);
    if (ks_ok(err) && is_another(entity))
        return ks_kcl_fleet_add(rows, item);
    if (ks_ok(err) && !ks_view_equal(entity, KS_VIEW("LEASE")))
        err = KS_FAIL(MALFORMED);
    read_key(item, &lease);
    if (ks_ok(err))
        err = read_lease(item, &lease);
    return ks_native_rows_add_lease(rows, item, err, &lease);
}

/* Of several streams or of one. */
static bool has_stream(const struct ks_store_request *request)
{
    return request->stream != NULL && request->stream[0] != '\0';
}

static ks_err key_of(const struct ks_store_request *request, char ret_key[KS_ITEM_KEY_MAX + 1])
{
    const int size =
        has_stream(request)
            ? snprintf(ret_key, KS_ITEM_KEY_MAX + 1, "%s:%s", request->stream, request->shard)
            : snprintf(ret_key, KS_ITEM_KEY_MAX + 1, "%s", request->shard);

    return size > 0 && size <= KS_ITEM_KEY_MAX ? KS_OK : KS_FAIL(INVALID);
}

static ks_err read(const struct ks_store_request *request, const char **ret_partition,
                   struct ks_item_keys *ret_keys)
{
    char key[KS_ITEM_KEY_MAX + 1];

    *ret_partition = NULL;
    *ret_keys = (struct ks_item_keys){.count = 0};
    switch ((int)request->operation) {
    case KS_STORE_READ_FLEET:
    case KS_STORE_READ_LEASES: return KS_OK;
    case KS_STORE_READ_NEWS: return ks_kcl_fleet_keys(ret_keys);
    case KS_STORE_READ_LEASE:
        KS_TRY(key_of(request, key));
        return ks_item_keys_add(ret_keys, ks_view_text(key));
    case KS_STORE_READ_OWNED: return ks_item_keys_add(ret_keys, ks_view_text(request->worker.id));
    default: return KS_FAIL(INVALID); /* Such rows there are none. */
    }
}

/* Those of 3.0 to 3.4. */
static uint32_t table(enum ks_store_operation operation)
{
    switch ((int)operation) {
    case KS_STORE_READ_NEWS: return COORDINATOR_TABLE;
    case KS_STORE_READ_FLEET:
    case KS_STORE_HEARTBEAT:
    case KS_STORE_SAY_GONE: return METRICS_TABLE;
    default: return 0;
    }
}

/* ---- Writing ---- */

/* More than the texts of a write take: two hash keys, five shard ids, two other ids, a few numbers. */
enum { TEXT_BYTES = 2048 };

static struct ks_value value_of(enum attribute at, ks_view text)
{
    return (struct ks_value){attributes[at].type, text};
}

static ks_err set_text(struct ks_item_write *write, enum attribute at, ks_view text)
{
    ks_view kept;

    KS_TRY(ks_item_write_keep(write, text, &kept));
    ks_item_write_do(write, KS_DO_SET, attributes[at].name, value_of(at, kept));
    return KS_OK;
}

static ks_err keep_number(struct ks_item_write *write, uint64_t number, ks_view *ret_kept)
{
    char digits[24];

    (void)snprintf(digits, sizeof(digits), "%" PRIu64, number);
    return ks_item_write_keep(write, ks_view_text(digits), ret_kept);
}

static ks_err set_number(struct ks_item_write *write, enum attribute at, uint64_t number)
{
    ks_view kept;

    KS_TRY(keep_number(write, number, &kept));
    ks_item_write_do(write, KS_DO_SET, attributes[at].name, value_of(at, kept));
    return KS_OK;
}

static void remove_value(struct ks_item_write *write, const char *name)
{
    ks_item_write_do(write, KS_DO_REMOVE, name, (struct ks_value){KS_VALUE_TEXT, KS_VIEW_NONE});
}

/* Up to two of them; none: nothing is written. */
static ks_err set_shards(struct ks_item_write *write, enum attribute at, const char *first,
                         const char *second)
{
    struct ks_bytes set;
    ks_err err = KS_OK;

    ks_bytes_init(&set, TEXT_BYTES);
    if (first != NULL && first[0] != '\0')
        err = ks_set_append(&set, ks_view_text(first));
    if (ks_ok(err) && second != NULL && second[0] != '\0')
        err = ks_set_append(&set, ks_view_text(second));
    if (ks_ok(err) && set.size != 0)
        err = set_text(write, at, ks_bytes_view(&set));
    ks_bytes_free(&set);
    return err;
}

/* What became a row of another kind, or of a later version, is left alone. */
static void if_lease(struct ks_item_write *write)
{
    ks_item_write_if(write, KS_IF_EQUALS_OR_ABSENT, attributes[ENTITY].name,
                     value_of(ENTITY, KS_VIEW("LEASE")));
}

/* As it was read, and one further: whoever wrote in between has moved the counter. */
static ks_err move_on(struct ks_item_write *write, const struct ks_store_request *request)
{
    ks_view rev;

    if (request->rev >= INT64_MAX)
        return KS_FAIL(INVALID);
    KS_TRY(keep_number(write, request->rev, &rev));
    ks_item_write_if(write, KS_IF_EQUALS, attributes[COUNTER].name, value_of(COUNTER, rev));
    if_lease(write);
    return set_number(write, COUNTER, request->rev + 1);
}

static ks_err if_names(struct ks_item_write *write, enum ks_condition_kind kind, enum attribute at,
                       const char *id)
{
    ks_view kept;

    KS_TRY(ks_item_write_keep(write, ks_view_text(id), &kept));
    ks_item_write_if(write, kind, attributes[at].name, value_of(at, kept));
    return KS_OK;
}

/* 3.x gives a lease on without moving its counter: `owner` has it, and is to give it to the next, or nobody asked. A
 * row may name him as its checkpointOwner alone. */
static ks_err if_given_on(struct ks_item_write *write, const char *owner,
                          const struct ks_incarnation_text *next)
{
    enum ks_condition_kind kind = KS_IF_EQUALS;

    if (next->id[0] == '\0' && owner[0] == '\0') {
        ks_item_write_if(write, KS_IF_ABSENT, attributes[CHECKPOINT_OWNER].name,
                         value_of(CHECKPOINT_OWNER, KS_VIEW_NONE));
        return KS_OK;
    }
    if (next->id[0] == '\0')
        kind = KS_IF_EQUALS_OR_ABSENT;
    KS_TRY(if_names(write, kind, OWNER, next->id[0] == '\0' ? owner : next->id));
    return if_names(write, kind, CHECKPOINT_OWNER, owner);
}

/* KB a second, as a leader of 3.x wants to know it. */
static ks_err set_throughput(struct ks_item_write *write, const struct ks_store_request *request)
{
    const uint64_t load = request->load < UINT32_MAX ? request->load : UINT32_MAX;
    char digits[32];
    ks_view kept;

    (void)snprintf(digits, sizeof(digits), "%" PRIu64 ".%06" PRIu64, load / 1024,
                   load % 1024 * 1000000 / 1024);
    KS_TRY(ks_item_write_keep(write, ks_view_text(digits), &kept));
    ks_item_write_do(write, KS_DO_SET, THROUGHPUT, (struct ks_value){KS_VALUE_NUMBER, kept});
    return KS_OK;
}

/* Nobody passes over what comes after it, whoever begins there. */
static ks_err set_since(struct ks_item_write *write, const struct ks_position *position)
{
    if (position->kind != KS_POSITION_LATEST || position->timestamp_ms <= 0)
        return KS_OK;
    return set_number(write, SINCE, (uint64_t)position->timestamp_ms);
}

static ks_err set_position(struct ks_item_write *write, const struct ks_position *position)
{
    const char *text = position->sequence;
    const bool is_sequence = position->kind == KS_POSITION_AFTER_SEQUENCE;

    for (size_t at = 0; at < WORDS; at++)
        if (position->kind == words[at].kind)
            text = words[at].word;
    if (is_sequence && !ks_native_is_decimal(ks_view_text(text), KS_SEQUENCE_MAX))
        return KS_FAIL(INVALID);
    if (position->kind == KS_POSITION_AT_SEQUENCE)
        return KS_FAIL(INVALID);
    KS_TRY(set_text(write, CHECKPOINT, ks_view_text(text)));
    KS_TRY(set_number(write, SUB,
                      is_sequence && position->sub_sequence > 0 ? (uint64_t)position->sub_sequence
                                                                : 0));
    return set_number(write, SWITCHES, 0);
}

static void remove_prepared(struct ks_item_write *write)
{
    remove_value(write, attributes[PENDING].name);
    remove_value(write, attributes[PENDING_SUB].name);
    remove_value(write, PENDING_STATE);
}

/* What a member prepared is over with the next checkpoint. */
static ks_err checkpoint(struct ks_item_write *write, const struct ks_store_request *request)
{
    if (!request->has_checkpoint)
        return KS_OK;
    if (request->checkpoint.kind != KS_POSITION_AFTER_SEQUENCE &&
        request->checkpoint.kind != KS_POSITION_SHARD_END)
        return KS_FAIL(INVALID);
    KS_TRY(set_position(write, &request->checkpoint));
    remove_prepared(write);
    remove_value(write, attributes[SINCE].name);
    return KS_OK;
}

static ks_err take(struct ks_item_write *write, const struct ks_store_request *request)
{
    const bool switches =
        request->owner.id[0] != '\0' && strcmp(request->owner.id, request->worker.id) != 0;

    KS_TRY(move_on(write, request));
    KS_TRY(if_given_on(write, request->owner.id, &request->next_owner));
    KS_TRY(set_text(write, OWNER, ks_view_text(request->worker.id)));
    remove_value(write, attributes[CHECKPOINT_OWNER].name);
    if (switches)
        ks_item_write_do(write, KS_DO_ADD, attributes[SWITCHES].name,
                         value_of(SWITCHES, KS_VIEW("1")));
    return request->lease == NULL ? KS_OK : set_since(write, &request->lease->checkpoint);
}

/* Whose shard of which stream, where there are several. */
static ks_err set_stream(struct ks_item_write *write, const struct ks_store_request *request)
{
    if (!has_stream(request))
        return KS_OK;
    KS_TRY(set_text(write, STREAM, ks_view_text(request->stream)));
    return set_text(write, SHARD, ks_view_text(request->shard));
}

static ks_err create(struct ks_item_write *write, const struct ks_store_request *request)
{
    const struct ks_store_lease *const lease = request->lease;

    if (lease == NULL)
        return KS_FAIL(INVALID);
    ks_item_write_if(write, KS_IF_ABSENT, KS_KCL_KEY, value_of(OWNER, KS_VIEW_NONE));
    KS_TRY(set_stream(write, request));
    KS_TRY(set_number(write, COUNTER, 0));
    KS_TRY(set_position(write, &lease->checkpoint));
    KS_TRY(set_since(write, &lease->checkpoint));
    KS_TRY(set_shards(write, PARENTS, lease->parents[0], lease->parents[1]));
    if (lease->hash_start[0] == '\0' || lease->hash_end[0] == '\0')
        return KS_OK;
    KS_TRY(set_text(write, HASH_START, ks_view_text(lease->hash_start)));
    return set_text(write, HASH_END, ks_view_text(lease->hash_end));
}

static ks_err renew(struct ks_item_write *write, const struct ks_store_request *request)
{
    KS_TRY(move_on(write, request));
    KS_TRY(if_given_on(write, request->worker.id, &request->next_owner));
    KS_TRY(set_throughput(write, request));
    return checkpoint(write, request);
}

/* To whom a leader gives it, who stands in the row already; or whoever looks next may take it. */
static ks_err give(struct ks_item_write *write, const struct ks_store_request *request)
{
    KS_TRY(move_on(write, request));
    KS_TRY(if_given_on(write, request->worker.id, &request->next_owner));
    if (request->next_owner.id[0] == '\0')
        remove_value(write, attributes[OWNER].name);
    remove_value(write, attributes[CHECKPOINT_OWNER].name);
    return checkpoint(write, request);
}

/* Whoever has the lease, his counter stays: as the auditor of members does it. */
static ks_err fill_range(struct ks_item_write *write, const struct ks_store_request *request)
{
    const struct ks_store_lease *const lease = request->lease;

    if (lease == NULL || lease->hash_start[0] == '\0' || lease->hash_end[0] == '\0')
        return KS_FAIL(INVALID);
    ks_item_write_if(write, KS_IF_EXISTS, attributes[COUNTER].name,
                     value_of(COUNTER, KS_VIEW_NONE));
    ks_item_write_if(write, KS_IF_ABSENT, attributes[HASH_START].name,
                     value_of(HASH_START, KS_VIEW_NONE));
    if_lease(write);
    KS_TRY(set_text(write, HASH_START, ks_view_text(lease->hash_start)));
    return set_text(write, HASH_END, ks_view_text(lease->hash_end));
}

/* Nobody's any more. */
static ks_err give_back(struct ks_item_write *write, const struct ks_store_request *request)
{
    KS_TRY(move_on(write, request));
    remove_value(write, attributes[OWNER].name);
    remove_value(write, attributes[CHECKPOINT_OWNER].name);
    return checkpoint(write, request);
}

static ks_err mend_shards(struct ks_item_write *write, enum attribute at,
                          const char (*ids)[KS_SHARD_ID_MAX + 1])
{
    if (ids[0][0] != '\0')
        return set_shards(write, at, ids[0], ids[1]);
    remove_value(write, attributes[at].name);
    return KS_OK;
}

static ks_err mend_text(struct ks_item_write *write, enum attribute at, const char *text)
{
    if (text[0] != '\0')
        return set_text(write, at, ks_view_text(text));
    remove_value(write, attributes[at].name);
    return KS_OK;
}

/* Every row has a position here. */
static ks_err mend(struct ks_item_write *write, const struct ks_store_request *request)
{
    const struct ks_store_lease *const lease = request->lease;

    if (lease->unstarted)
        return KS_FAIL(UNSUPPORTED);
    if (request->exists) {
        KS_TRY(move_on(write, request));
    } else {
        ks_item_write_if(write, KS_IF_ABSENT, KS_KCL_KEY, value_of(OWNER, KS_VIEW_NONE));
        KS_TRY(set_number(write, COUNTER, 0));
    }
    KS_TRY(set_stream(write, request));
    KS_TRY(mend_text(write, OWNER, lease->owner.id));
    remove_value(write, attributes[CHECKPOINT_OWNER].name);
    KS_TRY(set_position(write, &lease->checkpoint));
    if (!lease->prepared)
        remove_prepared(write);
    if (lease->checkpoint.kind != KS_POSITION_LATEST || lease->checkpoint.timestamp_ms <= 0)
        remove_value(write, attributes[SINCE].name);
    KS_TRY(set_since(write, &lease->checkpoint));
    KS_TRY(mend_shards(write, PARENTS, lease->parents));
    KS_TRY(mend_shards(write, CHILDREN, lease->children));
    KS_TRY(mend_text(write, HASH_START, lease->hash_start));
    return mend_text(write, HASH_END, lease->hash_end);
}

static ks_err fill(struct ks_item_write *write, const struct ks_store_request *request)
{
    switch ((int)request->operation) {
    case KS_STORE_CREATE: return create(write, request);
    case KS_STORE_ASSIGN:
    case KS_STORE_TAKE_OVER: return take(write, request);
    case KS_STORE_CHECKPOINT: return renew(write, request);
    case KS_STORE_FINAL: return give(write, request);
    case KS_STORE_END:
        KS_TRY(give_back(write, request));
        return set_shards(write, CHILDREN, request->children[0], request->children[1]);
    case KS_STORE_FILL: return fill_range(write, request);
    case KS_STORE_MEND: return mend(write, request);
    case KS_STORE_DELETE:
        ks_item_write_if(write, KS_IF_EQUALS, attributes[CHECKPOINT].name,
                         value_of(CHECKPOINT, ks_view_text(SHARD_END)));
        if_lease(write);
        write->delete_row = true;
        return KS_OK;
    default: return KS_FAIL(UNSUPPORTED);
    }
}

static ks_err write_row(const struct ks_store_request *request, struct ks_item_write *ret_write,
                        struct ks_detail *ret_detail)
{
    char key[KS_ITEM_KEY_MAX + 1];
    struct ks_stream_id id;
    ks_err err;

    *ret_write = (struct ks_item_write){.p = NULL};
    if (request->operation == KS_STORE_HEARTBEAT || request->operation == KS_STORE_SAY_GONE)
        return ks_kcl_metrics_write(request, ret_write);
    if (request->shard == NULL || !ks_native_is_shard(ks_view_text(request->shard))) {
        ks_detail_set(ret_detail, "%s: not a shard id",
                      ks_store_operation_name(request->operation));
        return KS_FAIL(INVALID);
    }
    if (has_stream(request) && !ks_stream_id_read(ks_view_text(request->stream), &id)) {
        ks_detail_set(ret_detail, "%s: not a stream's identifier, ACCOUNT:STREAM:EPOCH",
                      ks_store_operation_name(request->operation));
        return KS_FAIL(INVALID);
    }
    KS_TRY(key_of(request, key));
    KS_TRY(ks_item_write_init(ret_write, NULL, key, TEXT_BYTES));
    ret_write->key = KS_KCL_KEY;
    err = fill(ret_write, request);
    if (!ks_ok(err))
        ks_detail_set(ret_detail, "%s of %s: %s", ks_store_operation_name(request->operation),
                      request->shard, ks_err_text(err));
    return err;
}

const struct ks_dialect ks_kcl_dialect = {.name = "kcl",
                                          .tables = {{.suffix = "", .schema = &schema},
                                                     {.suffix = KS_KCL_COORDINATOR_SUFFIX,
                                                      .schema = &ks_kcl_coordinator_schema,
                                                      .optional = true},
                                                     {.suffix = KS_KCL_METRICS_SUFFIX,
                                                      .schema = &ks_kcl_metrics_schema,
                                                      .optional = true}},
                                          .table_count = 3,
                                          .table = table,
                                          .index = "LeaseOwnerToLeaseKeyIndex",
                                          .index_key = "leaseOwner",
                                          .read = read,
                                          .write = write_row,
                                          .add = add};
