/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/local/slice.h"

#include "adapters/kinesis/builder.h"
#include "adapters/local/db.h"
#include "adapters/local/sequence.h"
#include "adapters/local/shards.h"
#include "base/budget.h"
#include "ports/batches.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A shard that is being filled. */
struct part {
    struct ks_shard_row_local row;
    bool closed; /* In the stream. */
    char last[KS_SEQUENCE_MAX + 1];
};

struct ks_local_slice {
    struct ks_local_db *db;
    char *path;
    char *name; /* Of the file until it is whole. */
    bool force;
    bool finished;
    uint32_t count;
    struct part parts[];
};

/* ---- The file ---- */

static ks_err complain(const char *path, const char *doing, struct ks_detail *detail)
{
    ks_detail_set(detail, "%s: cannot %s: %s", path, doing, strerror(errno));
    return KS_FAIL(SYSTEM);
}

static bool exists(const char *path, const char *end)
{
    char name[4096];
    struct stat about;
    int size = snprintf(name, sizeof name, "%s%s", path, end);

    return size > 0 && (size_t)size < sizeof name && lstat(name, &about) == 0;
}

static ks_err is_taken(const char *path, struct ks_detail *detail)
{
    ks_detail_set(detail, "%s: it is there already; name another file, or set --force", path);
    return KS_FAIL(INVALID);
}

/* A log that is left belongs to another file of this name: SQLite would write it into ours. */
static ks_err check_path(const char *path, bool force, struct ks_detail *detail)
{
    if (exists(path, "-wal") || exists(path, "-journal")) {
        ks_detail_set(detail,
                      "%s-wal or %s-journal is there: a process has the file open, or was killed; "
                      "end it, or remove it with %s",
                      path, path, path);
        return KS_FAIL(INVALID);
    }
    return exists(path, "") && !force ? is_taken(path, detail) : KS_OK;
}

static ks_err make_file(struct ks_local_slice *slice, struct ks_detail *detail)
{
    const size_t size = strlen(slice->path) + 32;
    int fd;

    slice->name = ks_alloc(size);
    if (slice->name == NULL)
        return KS_FAIL(NO_MEMORY);
    (void)snprintf(slice->name, size, "%s.part-%ld", slice->path, (long)getpid());
    fd = open(slice->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        ks_err err = complain(slice->name, "make it", detail);

        ks_free(slice->name); /* It is not ours to remove. */
        slice->name = NULL;
        return err;
    }
    (void)close(fd);
    return KS_OK;
}

static ks_err sync_path(const char *path, int flags, struct ks_detail *detail)
{
    int fd = open(path, flags | O_CLOEXEC);
    ks_err err = KS_OK;

    if (fd < 0 || fsync(fd) != 0)
        err = complain(path, "write it to the disk", detail);
    if (fd >= 0)
        (void)close(fd);
    return err;
}

/* link() never replaces a file, rename() does. */
static ks_err name_file(struct ks_local_slice *slice, struct ks_detail *detail)
{
    char *directory;
    char *slash;
    ks_err err;

    if (slice->force ? rename(slice->name, slice->path) != 0 : link(slice->name, slice->path) != 0)
        return errno == EEXIST ? is_taken(slice->path, detail)
                               : complain(slice->path, "give the file its name", detail);
    if (!slice->force)
        (void)unlink(slice->name);
    slice->finished = true;
    directory = ks_strdup(slice->path);
    if (directory == NULL)
        return KS_FAIL(NO_MEMORY);
    slash = strrchr(directory, '/');
    if (slash != NULL)
        slash[slash == directory ? 1 : 0] = '\0';
    err = sync_path(slash == NULL ? "." : directory, O_RDONLY | O_DIRECTORY, detail);
    ks_free(directory);
    return err;
}

/* ---- Its shards ---- */

static ks_err no_shard(const char *shard, struct ks_detail *detail)
{
    ks_detail_set(detail,
                  "the shard %.128s cannot be captured: a slice has shards shardId- and 12 "
                  "digits, with hash keys below 2^128",
                  shard);
    return KS_FAIL(INVALID);
}

static ks_err read_parent(const char *shard, int64_t *ret_index)
{
    uint32_t index;

    *ret_index = -1;
    if (shard[0] == '\0')
        return KS_OK;
    KS_TRY(ks_shards_index(ks_view_text(shard), &index));
    *ret_index = index;
    return KS_OK;
}

static ks_err read_shard(const struct ks_shard_listing *listing, struct part *part)
{
    struct ks_shard_row_local *const row = &part->row;

    part->closed = listing->closed;
    KS_TRY(ks_shards_index(ks_view_text(listing->shard), &row->index));
    KS_TRY(read_parent(listing->parents[0], &row->parent));
    KS_TRY(read_parent(listing->parents[1], &row->adjacent));
    KS_TRY(ks_hash_key_parse(ks_view_text(listing->hash_start), &row->start));
    KS_TRY(ks_hash_key_parse(ks_view_text(listing->hash_end), &row->end));
    return row->start <= row->end ? KS_OK : KS_FAIL(INVALID);
}

static ks_err add_shards(struct ks_local_slice *slice, const struct ks_shard_listing *shards,
                         struct ks_detail *detail)
{
    for (uint32_t i = 0; i < slice->count; i++) {
        struct ks_shard_row_local *const row = &slice->parts[i].row;

        if (!ks_ok(read_shard(&shards[i], &slice->parts[i])))
            return no_shard(shards[i].shard, detail);
        KS_TRY(ks_shards_add(slice->db, row, detail));
        row->id = sqlite3_last_insert_rowid(slice->db->handle);
        row->next = 1;
    }
    return KS_OK;
}

static ks_err end_shard(struct ks_local_db *db, const struct part *part, struct ks_detail *detail)
{
    const struct ks_shard_row_local *const row = &part->row;
    const int64_t advance[] = {(int64_t)row->next, row->arrival_ms, row->id};
    const int64_t closed[] = {row->arrival_ms, row->id};

    KS_TRY(ks_local_db_run(db, KS_LOCAL_ADVANCE_SHARD, advance, 3, detail));
    return part->closed ? ks_local_db_run(db, KS_LOCAL_CLOSE_SHARD, closed, 2, detail) : KS_OK;
}

/* ---- Its life ---- */

static ks_err begin(struct ks_local_slice *slice, const char *stream, int64_t created_ms,
                    const struct ks_shard_listing *shards, struct ks_detail *detail)
{
    KS_TRY(check_path(slice->path, slice->force, detail));
    KS_TRY(make_file(slice, detail));
    KS_TRY(ks_local_db_make_slice(slice->name, stream, created_ms, &slice->db, detail));
    return add_shards(slice, shards, detail);
}

ks_err ks_local_slice_new(const char *path, bool force, const char *stream, int64_t created_ms,
                          const struct ks_shard_listing *shards, uint32_t count,
                          struct ks_local_slice **ret_slice, struct ks_detail *detail)
{
    struct ks_local_slice *slice;
    ks_err err;

    if (count > KS_LOCAL_SHARDS_MAX) {
        ks_detail_set(detail, "the stream has %u shards; a slice has %d at most", (unsigned)count,
                      KS_LOCAL_SHARDS_MAX);
        return KS_FAIL(FULL);
    }
    slice = ks_alloc(sizeof *slice + count * sizeof slice->parts[0]);
    if (slice == NULL)
        return KS_FAIL(NO_MEMORY);
    slice->count = count;
    slice->force = force;
    slice->path = ks_strdup(path);
    err =
        slice->path == NULL ? KS_FAIL(NO_MEMORY) : begin(slice, stream, created_ms, shards, detail);
    if (!ks_ok(err)) {
        ks_local_slice_free(slice);
        return err;
    }
    *ret_slice = slice;
    return KS_OK;
}

static ks_err insert(struct ks_local_slice *slice, const struct part *part,
                     const struct ks_record *record, struct ks_detail *detail)
{
    const int64_t id = ks_local_record_id(part->row.id, part->row.next);
    const ks_view *const key = &record->partition_key;
    const ks_view *const data = &record->data;
    sqlite3_stmt *statement;

    KS_TRY(ks_local_db_use(slice->db, KS_LOCAL_SLICE_ADD, &statement, detail));
    int code = sqlite3_bind_int64(statement, 1, id);
    if (code == SQLITE_OK)
        code = sqlite3_bind_int64(statement, 2, record->arrival_ms);
    /* A NULL pointer would be the value NULL. */
    if (code == SQLITE_OK)
        code = sqlite3_bind_blob(statement, 3, key->size == 0 ? (const void *)"" : key->data,
                                 (int)key->size, SQLITE_STATIC);
    if (code == SQLITE_OK)
        code = sqlite3_bind_blob(statement, 4, data->size == 0 ? (const void *)"" : data->data,
                                 (int)data->size, SQLITE_STATIC);
    if (code == SQLITE_OK)
        code = sqlite3_bind_text(statement, 5, (const char *)record->sequence.data,
                                 (int)record->sequence.size, SQLITE_STATIC);
    if (code == SQLITE_OK)
        code = sqlite3_step(statement);
    ks_local_db_done(statement);
    return ks_local_db_err(slice->db, code, "write a record", detail);
}

static ks_err add_record(struct ks_local_slice *slice, struct part *part,
                         const struct ks_record *record, struct ks_detail *detail)
{
    const bool sane = ks_sequence_is_valid(record->sequence) && record->arrival_ms >= 0 &&
                      record->arrival_ms / 1000 < KS_LOCAL_SECONDS - 1 &&
                      record->data.size <= KS_RECORD_BYTES_MAX &&
                      record->partition_key.size <= KS_PARTITION_KEY_MAX;

    if (!sane || (part->last[0] != '\0' &&
                  ks_position_compare(record->sequence, -1, ks_view_text(part->last), -1) <= 0)) {
        ks_detail_set(detail,
                      "the record %.*s of %s cannot be captured: it is not a record of Kinesis, "
                      "or does not come behind %s",
                      (int)record->sequence.size, (const char *)record->sequence.data,
                      slice->db->name, part->last);
        return KS_FAIL(INVALID);
    }
    if (part->row.next > KS_LOCAL_NUMBER_LAST)
        return KS_FAIL(FULL);
    KS_TRY(insert(slice, part, record, detail));
    KS_TRY(ks_view_copy_text(record->sequence, part->last, sizeof part->last));
    part->row.next++;
    if (part->row.arrival_ms < record->arrival_ms)
        part->row.arrival_ms = record->arrival_ms;
    return KS_OK;
}

ks_err ks_local_slice_add(struct ks_local_slice *slice, uint32_t shard,
                          const struct ks_record *records, uint32_t count, struct ks_detail *detail)
{
    assert(shard < slice->count);

    for (uint32_t i = 0; i < count; i++)
        KS_TRY(add_record(slice, &slice->parts[shard], &records[i], detail));
    return KS_OK;
}

ks_err ks_local_slice_finish(struct ks_local_slice *slice, struct ks_detail *detail)
{
    ks_err err = KS_OK;

    assert(!slice->finished && slice->db != NULL);
    for (uint32_t i = 0; i < slice->count && ks_ok(err); i++)
        err = end_shard(slice->db, &slice->parts[i], detail);
    KS_TRY(ks_local_db_end(slice->db, err, detail));
    ks_local_db_close(slice->db);
    slice->db = NULL;
    KS_TRY(sync_path(slice->name, O_RDWR, detail));
    return name_file(slice, detail);
}

void ks_local_slice_free(struct ks_local_slice *slice)
{
    if (slice == NULL)
        return;
    ks_local_db_close(slice->db);
    if (slice->name != NULL && !slice->finished)
        (void)unlink(slice->name);
    ks_free(slice->name);
    ks_free(slice->path);
    ks_free(slice);
}
