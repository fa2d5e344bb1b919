/* SPDX-License-Identifier: Apache-2.0 */
/* local_file.c - any bytes as the SQLite file of a local stream: it is opened or refused with a sentence, its shards
 * are read to their ends, and what makes no sense is told. */
#include "adapters/local/db.h"

#include "adapters/kinesis/builder.h"
#include "adapters/local/play.h"
#include "adapters/local/read.h"
#include "adapters/local/sequence.h"
#include "adapters/local/shards.h"
#include "base/budget.h"

#include "file.h"

#include <assert.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const int64_t NOW_MS = INT64_C(1795219300000);
enum { READS_MAX = 20, RECORDS_MAX = 10 };

/* False at the end of the shard, or where it cannot be read. */
static bool read_batch(struct ks_local_db *db, struct ks_local_cursor *cursor)
{
    struct ks_detail detail = {""};
    struct ks_local_look look;
    struct ks_batch batch = {.block = NULL};
    struct ks_block *block;

    if (!ks_ok(ks_local_look(db, cursor, RECORDS_MAX, 1000, NOW_MS, &look, &detail)))
        return false;
    if (look.count == 0 || look.block_bytes > 1 << 20)
        return false;
    assert(look.count <= RECORDS_MAX && look.first <= look.last);
    if (!ks_ok(ks_block_new(NULL, look.block_bytes, &block)))
        return false;
    bool good = ks_ok(ks_local_fill(db, cursor, &look, block, &batch, &detail));
    assert(good || detail.text[0] != '\0');
    for (uint32_t at = 0; good && at < batch.count; at++) {
        assert(ks_sequence_is_valid(batch.records[at].sequence));
        assert(db->slice || batch.records[at].sequence.size == KS_LOCAL_SEQUENCE_DIGITS);
        assert(batch.records[at].data.data + batch.records[at].data.size <=
               block->data + block->size);
    }
    ks_block_drop(block);
    return good && !look.at_end;
}

/* The clock of a played stream begins where the file says. */
static void play_batch(struct ks_local_db *db, struct ks_local_cursor *cursor)
{
    struct ks_local_play play = {.speed = 1000};
    struct ks_detail detail = {""};
    struct ks_local_look look;

    cursor->resolved = false;
    if (ks_ok(
            ks_local_play_look(db, &play, true, cursor, RECORDS_MAX, 1000, NOW_MS, &look, &detail)))
        assert(look.next_ms == 0 || (play.begun && look.next_ms > play.origin_ms));
}

static void read_shards(struct ks_local_db *db)
{
    struct ks_shard_row_local *rows = NULL;
    struct ks_shard_listing listing;
    struct ks_detail detail = {""};
    uint32_t count = 0;
    bool more = false;

    if (ks_ok(ks_shards_load(db, false, &rows, &count, &detail))) {
        for (uint32_t at = 0; at < count; at++)
            ks_shards_tell(&rows[at], &listing);
        ks_free(rows);
    }
    for (int64_t index = 0; index < 3; index++) {
        struct ks_local_cursor cursor = {.from = {.kind = KS_POSITION_TRIM_HORIZON}};

        ks_shards_name(index, cursor.shard);
        for (int reads = 0; reads < READS_MAX && read_batch(db, &cursor); reads++)
            continue;
        cursor.resolved = false;
        cursor.from =
            (struct ks_position){.kind = KS_POSITION_AT_TIMESTAMP, .timestamp_ms = NOW_MS};
        (void)read_batch(db, &cursor);
        play_batch(db, &cursor);
        cursor.resolved = false;
        cursor.from = (struct ks_position){
            .kind = KS_POSITION_AFTER_SEQUENCE, .sub_sequence = -1, .sequence = "12"};
        cursor.until_ms = 0;
        (void)read_batch(db, &cursor);
    }
    (void)ks_ok(ks_shards_split(db, "shardId-000000000000", "7", &detail));
    (void)ks_ok(ks_shards_merge(db, "shardId-000000000001", "shardId-000000000002", &detail));
    (void)ks_ok(ks_shards_trim(db, NOW_MS, 100, &more, &detail));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ks_local_db *db = NULL;
    struct ks_detail detail = {""};

    write_file(data, size);
    if (ks_ok(ks_local_db_open(path, "demo", 2, &db, &detail))) {
        read_shards(db);
        ks_local_db_close(db);
    } else {
        assert(detail.text[0] != '\0');
    }
    assert(ks_alloc_live() == 0);
    return 0;
}
