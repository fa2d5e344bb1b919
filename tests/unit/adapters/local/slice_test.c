/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/local/slice.h"

#include "adapters/local/db.h"
#include "adapters/local/read.h"
#include "adapters/local/shards.h"

#include "ks_test.h"

#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char FIRST[] = "shardId-000000000003";
static const char SECOND[] = "shardId-000000000007";
enum { BEGIN_MS = 1795223827 };

/* Sequence numbers of kinesalite, whose layout is not the local stream's. */
static const char *const NUMBERS[] = {"49545115243490985018280067714973144582180062593244200961",
                                      "49545115243490985018280067714973144582180062593244200963",
                                      "495451152434909850182800677149731445821800625932442009630"};

/* A shard that was split into another one: its parents are not in the stream any more. */
static const struct ks_shard_listing shards[] = {
    {.shard = "shardId-000000000003",
     .parents = {"shardId-000000000001"},
     .hash_start = "0",
     .hash_end = "340282366920938463463374607431768211455",
     .closed = true},
    {.shard = "shardId-000000000007",
     .parents = {"shardId-000000000003"},
     .hash_start = "0",
     .hash_end = "340282366920938463463374607431768211455"},
};

static struct ks_record record(const char *sequence, const char *data, int64_t arrival_ms)
{
    return (struct ks_record){.sequence = ks_view_text(sequence),
                              .partition_key = KS_VIEW("key"),
                              .data = ks_view_text(data),
                              .sub_sequence = -1,
                              .arrival_ms = arrival_ms};
}

static struct ks_local_slice *begin(const char *path, bool force)
{
    struct ks_local_slice *slice;

    EXPECT_OK(ks_local_slice_new(path, force, "orders", BEGIN_MS, shards, 2, &slice, NULL));
    return slice;
}

/* Three records in the first shard, the last of which arrived before the others. */
static void write_slice(const char *path, bool force)
{
    const struct ks_record records[] = {record(NUMBERS[0], "one", BEGIN_MS + 50),
                                        record(NUMBERS[1], "", BEGIN_MS + 70),
                                        record(NUMBERS[2], "three", BEGIN_MS + 20)};
    struct ks_local_slice *slice = begin(path, force);

    EXPECT_OK(ks_local_slice_add(slice, 0, records, 2, NULL));
    EXPECT_OK(ks_local_slice_add(slice, 0, records + 2, 1, NULL));
    EXPECT_OK(ks_local_slice_finish(slice, NULL));
    ks_local_slice_free(slice);
}

static struct ks_local_db *opened(const char *path)
{
    struct ks_local_db *db;

    EXPECT_OK(ks_local_db_open(path, "orders", 4, &db, NULL));
    return db;
}

/* The records from a place on, as "sequence=data@arrival ..", with the arrival since BEGIN_MS. */
static const char *read_from(struct ks_local_db *db, const char *shard,
                             const struct ks_position *from)
{
    static char text[1000];
    struct ks_local_cursor cursor = {.from = *from};
    struct ks_local_look look;
    struct ks_batch batch;
    struct ks_block *block;
    size_t size = 0;

    text[0] = '\0';
    (void)snprintf(cursor.shard, sizeof cursor.shard, "%s", shard);
    EXPECT_OK(ks_local_look(db, &cursor, 10, 1000, BEGIN_MS + 1000, &look, NULL));
    if (look.count == 0)
        return text;
    EXPECT_OK(ks_block_new(NULL, look.block_bytes, &block));
    EXPECT_OK(ks_local_fill(db, &cursor, &look, block, &batch, NULL));
    EXPECT_EQ_U64(batch.block->size, look.block_bytes);
    for (uint32_t i = 0; i < batch.count; i++) {
        const struct ks_record *one = &batch.records[i];

        EXPECT(ks_view_equal(one->partition_key, KS_VIEW("key")));
        size += (size_t)snprintf(text + size, sizeof text - size, "%s%.*s=%.*s@%d",
                                 i == 0 ? "" : " ", (int)one->sequence.size,
                                 (const char *)one->sequence.data, (int)one->data.size,
                                 (const char *)one->data.data, (int)(one->arrival_ms - BEGIN_MS));
    }
    ks_batch_free(&batch);
    return text;
}

static struct ks_position at(enum ks_position_kind kind, const char *sequence)
{
    struct ks_position position = {.kind = kind, .sub_sequence = -1};

    (void)snprintf(position.sequence, sizeof position.sequence, "%s", sequence);
    return position;
}

static bool has_part(void)
{
    char pattern[300];
    glob_t found;
    bool any;

    (void)snprintf(pattern, sizeof pattern, "%s/*.part-*", ks_test_dir());
    any = glob(pattern, 0, NULL, &found) == 0;
    globfree(&found);
    return any;
}

TEST(a_slice_has_its_records_as_they_were)
{
    const char *const path = ks_test_path("out.db");
    struct ks_position horizon = at(KS_POSITION_TRIM_HORIZON, "");
    struct ks_local_db *db;
    char all[600];

    write_slice(path, false);
    EXPECT(!has_part());
    db = opened(path);
    (void)snprintf(all, sizeof all, "%s=one@50 %s=@70 %s=three@20", NUMBERS[0], NUMBERS[1],
                   NUMBERS[2]);
    EXPECT_STR(read_from(db, FIRST, &horizon), all);
    EXPECT_STR(read_from(db, SECOND, &horizon), "");
    ks_local_db_close(db);
}

TEST(a_slice_has_its_shards_as_they_were_and_each_is_listed)
{
    const char *const path = ks_test_path("out.db");
    struct ks_shard_listing *listed;
    struct ks_local_look look;
    struct ks_local_cursor cursor = {.from = at(KS_POSITION_LATEST, "")};
    struct ks_local_db *db;
    uint32_t count;

    write_slice(path, false);
    db = opened(path);
    EXPECT_EQ_I64(db->created_ms, BEGIN_MS);
    EXPECT_OK(ks_shards_list(db, INT64_MAX, &listed, &count, NULL));
    EXPECT_EQ_U64(count, 2);
    for (uint32_t i = 0; i < 2; i++) {
        EXPECT_STR(listed[i].shard, shards[i].shard);
        EXPECT_STR(listed[i].parents[0], shards[i].parents[0]);
        EXPECT_STR(listed[i].hash_start, shards[i].hash_start);
        EXPECT_STR(listed[i].hash_end, shards[i].hash_end);
        EXPECT_EQ_U64(listed[i].closed, shards[i].closed);
    }
    ks_free(listed);
    /* A closed shard ends behind its last record, and names its children. */
    (void)snprintf(cursor.shard, sizeof cursor.shard, "%s", FIRST);
    EXPECT_OK(ks_local_look(db, &cursor, 10, 1000, BEGIN_MS, &look, NULL));
    EXPECT(look.at_end);
    EXPECT_STR(look.children[0], SECOND);
    ks_local_db_close(db);
}

TEST(a_place_in_a_slice_is_found_by_its_sequence_number)
{
    const char *const path = ks_test_path("out.db");
    struct ks_position places[] = {
        at(KS_POSITION_AT_SEQUENCE, NUMBERS[1]),
        at(KS_POSITION_AFTER_SEQUENCE, NUMBERS[1]),
        at(KS_POSITION_AFTER_SEQUENCE, NUMBERS[2]),
        at(KS_POSITION_AT_SEQUENCE, "7"),
        /* Between the first two. */
        at(KS_POSITION_AT_SEQUENCE, "49545115243490985018280067714973144582180062593244200962"),
    };
    const char *const begins[] = {NUMBERS[1], NUMBERS[2], "", NUMBERS[0], NUMBERS[1]};
    struct ks_local_cursor beyond = {
        .from = at(KS_POSITION_AFTER_SEQUENCE,
                   "49545115243490985018280067714973144582180062593244200963999")};
    struct ks_local_look look;
    struct ks_detail detail;
    struct ks_local_db *db;

    write_slice(path, false);
    db = opened(path);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        const char *found = read_from(db, FIRST, &places[i]);

        EXPECT_EQ_U64(strcspn(found, "="), strlen(begins[i]));
        EXPECT(strncmp(found, begins[i], strlen(begins[i])) == 0);
    }
    (void)snprintf(beyond.shard, sizeof beyond.shard, "%s", FIRST);
    EXPECT_ERR(ks_local_look(db, &beyond, 1, 1, BEGIN_MS, &look, &detail), INVALID);
    EXPECT_CONTAINS(detail.text, "the captured slice of the shard ends before");
    ks_local_db_close(db);
}

TEST(an_instant_in_a_slice_skips_no_record_whose_arrival_fell)
{
    const char *const path = ks_test_path("out.db");
    struct ks_position instant = {
        .kind = KS_POSITION_AT_TIMESTAMP, .sub_sequence = -1, .timestamp_ms = BEGIN_MS + 60};
    struct ks_local_db *db;

    write_slice(path, false);
    db = opened(path);
    EXPECT(strncmp(read_from(db, FIRST, &instant), NUMBERS[1], strlen(NUMBERS[1])) == 0);
    instant.timestamp_ms = BEGIN_MS + 71;
    EXPECT_STR(read_from(db, FIRST, &instant), "");
    ks_local_db_close(db);
}

TEST(records_of_a_slice_do_not_expire_and_it_has_no_other_stream)
{
    const char *const path = ks_test_path("out.db");
    struct ks_position horizon = at(KS_POSITION_TRIM_HORIZON, "");
    struct ks_detail detail;
    struct ks_local_db *db;
    bool more = true;

    write_slice(path, false);
    db = opened(path);
    EXPECT_OK(ks_shards_trim(db, INT64_C(1) << 50, 1000, &more, NULL));
    EXPECT(!more);
    EXPECT(read_from(db, FIRST, &horizon)[0] != '\0');
    ks_local_db_close(db);
    EXPECT_ERR(ks_local_db_open(path, "payments", 4, &db, &detail), FOREIGN);
    EXPECT_CONTAINS(detail.text, "a captured slice of the stream orders, not of payments");
}

TEST(a_file_that_is_there_is_replaced_only_by_force)
{
    const char *const path = ks_test_path("out.db");
    struct ks_local_slice *slice = begin(path, false);
    struct ks_local_slice *other;
    struct ks_detail detail;
    struct ks_local_db *db;

    /* One that appears while the slice is written. */
    EXPECT(close(open(path, O_WRONLY | O_CREAT | O_EXCL, 0600)) == 0);
    EXPECT_ERR(ks_local_slice_finish(slice, &detail), INVALID);
    EXPECT_CONTAINS(detail.text, "it is there already");
    ks_local_slice_free(slice);
    EXPECT(!has_part());
    EXPECT_ERR(ks_local_slice_new(path, false, "orders", 0, shards, 2, &other, &detail), INVALID);
    write_slice(path, true);
    db = opened(path);
    ks_local_db_close(db);
}

TEST(a_slice_that_is_not_finished_leaves_no_file)
{
    const char *const path = ks_test_path("out.db");
    struct ks_local_slice *slice = begin(path, false);
    const struct ks_record one = record(NUMBERS[0], "one", BEGIN_MS);

    EXPECT_OK(ks_local_slice_add(slice, 0, &one, 1, NULL));
    EXPECT(has_part());
    ks_local_slice_free(slice);
    EXPECT(!has_part());
    EXPECT(access(path, F_OK) != 0);
}

TEST(a_log_of_another_file_of_the_name_is_refused)
{
    const char *const path = ks_test_path("out.db");
    struct ks_local_slice *slice;
    struct ks_detail detail;
    char log[300];

    (void)snprintf(log, sizeof log, "%s-wal", path);
    EXPECT(close(open(log, O_WRONLY | O_CREAT | O_EXCL, 0600)) == 0);
    EXPECT_ERR(ks_local_slice_new(path, true, "orders", 0, shards, 2, &slice, &detail), INVALID);
    EXPECT_CONTAINS(detail.text, "a process has the file open, or was killed");
}

TEST(records_and_shards_that_cannot_be_are_refused)
{
    const char *const path = ks_test_path("out.db");
    const struct ks_record wrong[] = {record("12a", "", BEGIN_MS), record("", "", BEGIN_MS),
                                      record("12", "", -1)};
    const struct ks_record right = record("12", "", BEGIN_MS);
    struct ks_shard_listing strange = shards[0];
    struct ks_local_slice *slice;
    struct ks_detail detail;

    slice = begin(path, false);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        EXPECT_ERR(ks_local_slice_add(slice, 0, &wrong[i], 1, &detail), INVALID);
    EXPECT_OK(ks_local_slice_add(slice, 0, &right, 1, NULL));
    EXPECT_ERR(ks_local_slice_add(slice, 0, &right, 1, &detail), INVALID);
    EXPECT_CONTAINS(detail.text, "does not come behind 12");
    ks_local_slice_free(slice);
    (void)snprintf(strange.shard, sizeof strange.shard, "shard-7");
    EXPECT_ERR(ks_local_slice_new(path, false, "orders", 0, &strange, 1, &slice, &detail), INVALID);
    EXPECT_CONTAINS(detail.text, "the shard shard-7 cannot be captured");
    EXPECT(!has_part());
}
