/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/local/put.h"

#include "adapters/local/sequence.h"
#include "adapters/local/shards.h"
#include "base/budget.h"

#include <assert.h>
#include <stdalign.h>

/* --- The copy --- */

static size_t characters(ks_view text)
{
    size_t count = 0;

    for (size_t at = 0; at < text.size; at++)
        count += (text.data[at] & 0xC0) != 0x80 ? 1 : 0;
    return count;
}

static ks_err check(const struct ks_put_entry *entry, uint32_t index, ks_hash_key *ret_hash,
                    struct ks_detail *detail)
{
    ks_view key = entry->partition_key;

    if (key.size == 0 || !ks_view_is_utf8(key) ||
        characters(key) > KS_LOCAL_PARTITION_KEY_CHARACTERS_MAX) {
        ks_detail_set(detail, "record %u: a partition key has 1 to %d characters of UTF-8", index,
                      KS_LOCAL_PARTITION_KEY_CHARACTERS_MAX);
        return KS_FAIL(INVALID);
    }
    if (entry->data.size > (size_t)KS_RECORD_BYTES_MAX - key.size) {
        ks_detail_set(detail, "record %u: data and partition key are more than %d bytes", index,
                      KS_RECORD_BYTES_MAX);
        return KS_FAIL(INVALID);
    }
    if (entry->explicit_hash_key.size == 0) {
        *ret_hash = ks_hash_key_of(key);
        return KS_OK;
    }
    if (!ks_ok(ks_hash_key_parse(entry->explicit_hash_key, ret_hash))) {
        ks_detail_set(detail, "record %u: an explicit hash key is a number from 0 to 2^128 - 1",
                      index);
        return KS_FAIL(INVALID);
    }
    return KS_OK;
}

static ks_view copy(ks_view view, uint8_t **to)
{
    ks_view copied = ks_view_of(*to, view.size);

    if (view.size > 0)
        memcpy(*to, view.data, view.size);
    *to += view.size;
    return copied;
}

ks_err ks_local_put_new(const struct ks_put_entry *entries, uint32_t count,
                        struct ks_local_put **ret_put, struct ks_detail *detail)
{
    ks_hash_key hash = 0;
    size_t bytes = 0;

    if (count == 0 || count > KS_LOCAL_PUT_ENTRIES_MAX) {
        ks_detail_set(detail, "a put has 1 to %d records", KS_LOCAL_PUT_ENTRIES_MAX);
        return KS_FAIL(INVALID);
    }
    for (uint32_t at = 0; at < count; at++) {
        KS_TRY(check(&entries[at], at, &hash, detail));
        bytes += entries[at].data.size + entries[at].partition_key.size;
    }
    size_t each = sizeof(struct ks_local_entry) + sizeof(struct ks_put_result);
    struct ks_local_put *put = ks_alloc(sizeof(*put) + count * each + bytes);
    if (put == NULL)
        return KS_FAIL(NO_MEMORY);

    static_assert(alignof(struct ks_local_entry) >= alignof(struct ks_put_result),
                  "results follow");
    put->bytes = bytes;
    put->count = count;
    put->results = (void *)&put->entries[count];
    uint8_t *to = (void *)&put->results[count];
    for (uint32_t at = 0; at < count; at++) {
        struct ks_local_entry *entry = &put->entries[at];
        ks_err err = check(&entries[at], at, &entry->hash, detail);
        assert(ks_ok(err));
        (void)err;
        entry->data = copy(entries[at].data, &to);
        entry->partition_key = copy(entries[at].partition_key, &to);
    }
    *ret_put = put;
    return KS_OK;
}

/* --- The write --- */

struct target {
    struct ks_shard_row_local *shards; /* The open ones, by hash key. */
    uint32_t count;
};

static ks_err target_of(struct ks_local_db *db, const struct target *target, ks_hash_key hash,
                        struct ks_shard_row_local **ret_shard, struct ks_detail *detail)
{
    uint32_t low = 0;
    uint32_t high = target->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (target->shards[middle].end < hash)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < target->count && target->shards[low].start <= hash) {
        *ret_shard = &target->shards[low];
        return KS_OK;
    }
    ks_detail_set(detail, "local stream %s: no open shard of %s has the hash key", db->path,
                  db->name);
    return KS_FAIL(CORRUPT);
}

static ks_err insert(struct ks_local_db *db, const struct ks_shard_row_local *shard,
                     const struct ks_local_entry *entry, struct ks_detail *detail)
{
    sqlite3_stmt *statement;

    KS_TRY(ks_local_db_use(db, KS_LOCAL_ADD_RECORD, &statement, detail));
    int code = sqlite3_bind_int64(statement, 1, ks_local_record_id(shard->id, shard->next));
    if (code == SQLITE_OK)
        code = sqlite3_bind_int64(statement, 2, shard->arrival_ms);
    if (code == SQLITE_OK)
        code = sqlite3_bind_blob(statement, 3, entry->partition_key.data,
                                 (int)entry->partition_key.size, SQLITE_STATIC);
    /* A zero length with a pointer is an empty blob; without one it would be NULL. */
    if (code == SQLITE_OK)
        code =
            sqlite3_bind_blob(statement, 4, entry->data.data, (int)entry->data.size, SQLITE_STATIC);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    ks_local_db_done(statement);
    return ks_local_db_err(db, code, "put records", detail);
}

static ks_err write_entry(struct ks_local_db *db, const struct target *target,
                          const struct ks_local_entry *entry, int64_t now_ms,
                          struct ks_put_result *result, struct ks_detail *detail)
{
    struct ks_shard_row_local *shard;

    KS_TRY(target_of(db, target, entry->hash, &shard, detail));
    if (shard->next >= KS_LOCAL_NUMBER_LAST) {
        ks_detail_set(detail, "local stream %s: shard %u is full; split it", db->path,
                      shard->index);
        return KS_FAIL(CORRUPT);
    }
    /* A clock that was set back must not make arrivals fall: a time finds its record by halving. */
    if (now_ms > shard->arrival_ms)
        shard->arrival_ms = now_ms;
    KS_TRY(insert(db, shard, entry, detail));

    struct ks_local_sequence sequence = {.shard_second = (uint64_t)shard->made_s,
                                         .shard_index = shard->index,
                                         .number = shard->next,
                                         .second = (uint64_t)shard->arrival_ms / 1000};
    result->err = KS_OK;
    ks_shards_name(shard->index, result->shard);
    ks_local_sequence_format(&sequence, result->sequence);
    shard->next++;
    return KS_OK;
}

/* Writes where the shards that got records stand now. `before` is `target` as it was loaded. */
static ks_err advance(struct ks_local_db *db, const struct target *target, const uint64_t *before,
                      struct ks_detail *detail)
{
    for (uint32_t at = 0; at < target->count; at++) {
        const struct ks_shard_row_local *shard = &target->shards[at];
        int64_t values[] = {(int64_t)shard->next, shard->arrival_ms, shard->id};

        if (shard->next != before[at])
            KS_TRY(ks_local_db_run(db, KS_LOCAL_ADVANCE_SHARD, values, 3, detail));
    }
    return KS_OK;
}

static ks_err write_all(struct ks_local_db *db, struct ks_link *puts, const struct target *target,
                        int64_t now_ms, struct ks_detail *detail)
{
    struct ks_link *cursor;
    struct ks_link *after;
    uint64_t *before = ks_alloc((target->count + 1) * sizeof(*before));

    if (before == NULL)
        return KS_FAIL(NO_MEMORY);
    for (uint32_t at = 0; at < target->count; at++)
        before[at] = target->shards[at].next;

    ks_err err = KS_OK;
    KS_LIST_EACH(cursor, after, puts)
    {
        struct ks_local_put *put = KS_LIST_ENTRY(cursor, struct ks_local_put, link);
        for (uint32_t at = 0; ks_ok(err) && at < put->count; at++)
            err = write_entry(db, target, &put->entries[at], now_ms, &put->results[at], detail);
    }
    if (ks_ok(err))
        err = advance(db, target, before, detail);
    ks_free(before);
    return err;
}

static ks_err write_loaded(struct ks_local_db *db, struct ks_link *puts, int64_t now_ms,
                           struct ks_detail *detail)
{
    struct target target = {.count = 0};

    KS_TRY(ks_shards_load(db, true, &target.shards, &target.count, detail));
    ks_err err = write_all(db, puts, &target, now_ms, detail);
    ks_free(target.shards);
    return err;
}

void ks_local_put_write(struct ks_local_db *db, struct ks_link *puts, int64_t now_ms)
{
    struct ks_detail detail = {.text = ""};
    struct ks_link *cursor;
    struct ks_link *after;

    ks_err err = ks_local_db_check_place(db, &detail);
    if (ks_ok(err))
        err = ks_local_db_run(db, KS_LOCAL_BEGIN_WRITE, NULL, 0, &detail);
    if (ks_ok(err))
        err = ks_local_db_end(db, write_loaded(db, puts, now_ms, &detail), &detail);
    /* Behind the commit, which is on the disk: in the file that the path names, or nowhere. */
    if (ks_ok(err))
        err = ks_local_db_check_place(db, &detail);
    KS_LIST_EACH(cursor, after, puts)
    {
        struct ks_local_put *put = KS_LIST_ENTRY(cursor, struct ks_local_put, link);
        put->err = err;
        put->detail = detail;
    }
}
