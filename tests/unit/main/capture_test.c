/* SPDX-License-Identifier: Apache-2.0 */
#include "main/capture.h"

#include "adapters/local/db.h"
#include "adapters/local/put.h"
#include "base/budget.h"
#include "base/codec.h"
#include "base/list.h"
#include "base/loop.h"

#include "ks_test.h"
#include "unit/main/sidecar.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { OUTPUT_MAX = 4096 };

static char source[220];
static int64_t now_ms; /* When the stream was made. */
static char output[OUTPUT_MAX];

/* The stream `orders` with four shards and `count` records, a second apart. */
static void make_stream(uint32_t count)
{
    struct ks_local_db *db;

    now_ms = ks_wall_now().ms;
    (void)snprintf(source, sizeof source, "local:%s/stream.db", ks_test_dir());
    EXPECT_OK(ks_local_db_open(ks_test_path("stream.db"), "orders", 4, &db, NULL));
    for (uint32_t i = 0; i < count; i++) {
        char text[16];
        struct ks_put_entry entry;
        struct ks_local_put *put;
        struct ks_link puts;

        (void)snprintf(text, sizeof text, "%u", (unsigned)i);
        entry =
            (struct ks_put_entry){.data = ks_view_text(text), .partition_key = ks_view_text(text)};
        EXPECT_OK(ks_local_put_new(&entry, 1, &put, NULL));
        ks_link_init(&puts);
        ks_list_append(&puts, &put->link);
        ks_local_put_write(db, &puts, now_ms - 1000 * (int64_t)(count - i));
        EXPECT_OK(put->err);
        ks_free(put);
    }
    ks_local_db_close(db);
}

/* The exit code of `capture` with this stream and up to six words more. */
static int capture(const char *const *more)
{
    const char *words[16] = {"--source", source, "--stream", "orders", ks_test_path("out.db")};
    int count = 5;

    while (*more != NULL)
        words[count++] = *more++;
    words[count] = NULL;
    return sidecar_call(ks_command_capture, words, "", output, sizeof output);
}

static int capture_all(void)
{
    const char *const none[] = {NULL};

    return capture(none);
}

static int64_t ask(const char *sql)
{
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;
    int64_t number;

    EXPECT_EQ_I64(sqlite3_open_v2(ks_test_path("out.db"), &db, SQLITE_OPEN_READWRITE, NULL),
                  SQLITE_OK);
    EXPECT_EQ_I64(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    EXPECT_EQ_I64(sqlite3_step(statement), SQLITE_ROW);
    number = sqlite3_column_int64(statement, 0);
    (void)sqlite3_finalize(statement);
    (void)sqlite3_close(db);
    return number;
}

TEST(a_capture_has_all_records_up_to_now)
{
    make_stream(100);
    EXPECT_EQ_I64(capture_all(), 0);
    EXPECT_STR(output, "100 records with 380 bytes of the stream orders captured\n");
    EXPECT_EQ_I64(ask("SELECT count(*) FROM records"), 100);
    EXPECT_EQ_I64(ask("SELECT count(DISTINCT CAST(data AS TEXT)) FROM records"), 100);
    EXPECT_EQ_I64(ask("SELECT count(*) FROM shards"), 4);
    EXPECT_EQ_I64(ask("SELECT count(*) FROM records WHERE length(sequence) = 56"), 100);
}

TEST(a_file_that_is_there_is_left_alone_without_force)
{
    const char *const force[] = {"--force", NULL};

    make_stream(1);
    EXPECT(close(open(ks_test_path("out.db"), O_WRONLY | O_CREAT | O_EXCL, 0600)) == 0);
    EXPECT_EQ_I64(capture_all(), 1);
    EXPECT_EQ_I64(lseek(open(ks_test_path("out.db"), O_RDONLY), 0, SEEK_END), 0);
    EXPECT_EQ_I64(capture(force), 0);
    EXPECT_EQ_I64(ask("SELECT count(*) FROM records"), 1);
}

TEST(most_records_and_most_bytes_end_a_capture)
{
    const char *const records[] = {"--most-records", "7", NULL};
    const char *const bytes[] = {"--most-bytes", "21", "--force", NULL};

    make_stream(100);
    EXPECT_EQ_I64(capture(records), 0);
    EXPECT_EQ_I64(ask("SELECT count(*) FROM records"), 7);
    EXPECT_EQ_I64(capture(bytes), 0);
    EXPECT(ask("SELECT sum(length(data) + length(partition_key)) FROM records") <= 21);
    EXPECT(ask("SELECT count(*) FROM records") >= 5);
}

TEST(instants_and_a_shard_limit_a_capture)
{
    char from[40];
    char to[60];
    const char *const words[] = {"--from", from, "--to", to, NULL};
    const char *const shard[] = {"--shard", "shardId-000000000001", "--force", NULL};

    make_stream(100);
    ks_timestamp_format(now_ms - 50500, from);
    memcpy(to, "at_timestamp:", 13);
    ks_timestamp_format(now_ms - 20500, to + 13);
    EXPECT_EQ_I64(capture(words), 0);
    EXPECT_EQ_I64(ask("SELECT count(*) FROM records"), 30);
    EXPECT_EQ_I64(ask("SELECT max(arrival_ms) FROM records") < now_ms - 20500, 1);
    EXPECT_EQ_I64(capture(shard), 0);
    EXPECT_EQ_I64(ask("SELECT count(*) FROM shards"), 4);
    EXPECT_EQ_I64(ask("SELECT count(DISTINCT id >> 40) FROM records"), 1);
}

TEST(words_that_make_no_sense_are_refused)
{
    static const char *const wrong[][3] = {{"--from", "yesterday"}, {"--to", "trim_horizon"},
                                           {"--most-records", "0"}, {"--from", "4711"},
                                           {"more", NULL},          {"--to", "4711"}};

    make_stream(1);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        EXPECT_EQ_I64(capture(wrong[i]), 2);
    EXPECT(access(ks_test_path("out.db"), F_OK) != 0);
}

TEST(a_shard_or_a_file_that_is_not_there_writes_nothing)
{
    const char *const shard[] = {"--shard", "shardId-000000000099", NULL};

    make_stream(1);
    EXPECT_EQ_I64(capture(shard), 1);
    EXPECT(access(ks_test_path("out.db"), F_OK) != 0);
    (void)snprintf(source, sizeof source, "local:%s/none.db", ks_test_dir());
    EXPECT_EQ_I64(capture_all(), 1);
    EXPECT(access(ks_test_path("none.db"), F_OK) != 0);
    EXPECT(access(ks_test_path("out.db"), F_OK) != 0);
}
