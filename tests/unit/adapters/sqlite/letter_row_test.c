/* SPDX-License-Identifier: Apache-2.0 */
#include "adapters/sqlite/letter_row.h"
#include "adapters/letter.h"

#include <stdio.h>

#include "core/limits.h"
#include "ks_test.h"

static sqlite3 *db;
static sqlite3_stmt *statement;

/* A row whose column has this value, an expression of SQL; the others are those of a letter. */
static struct ks_letter read_with(const char *column, const char *value)
{
    static const char *const columns[][2] = {
        {"id", "'shardId-000000000000.42.0'"},
        {"stream", "'s'"},
        {"shard", "'shardId-000000000000'"},
        {"sequence", "'42'"},
        {"sub", "-1"},
        {"key", "x'6B'"},
        {"data", "x'00FF'"},
        {"reason", "x''"},
        {"arrival_ms", "1"},
        {"died_ms", "2"},
        {"attempts", "3"},
        {"cause", "1"},
    };
    struct ks_letter letter;
    char sql[2000] = "SELECT ";

    for (size_t at = 0; at < sizeof columns / sizeof columns[0]; at++) {
        const bool changed = strcmp(column, columns[at][0]) == 0;
        const size_t used = strlen(sql);

        (void)snprintf(sql + used, sizeof sql - used, "%s%s", at == 0 ? "" : ", ",
                       changed ? value : columns[at][1]);
    }
    if (db == NULL)
        EXPECT_EQ_I64(sqlite3_open(":memory:", &db), SQLITE_OK);
    (void)sqlite3_finalize(statement);
    EXPECT_EQ_I64(sqlite3_prepare_v2(db, sql, -1, &statement, NULL), SQLITE_OK);
    EXPECT_EQ_I64(sqlite3_step(statement), SQLITE_ROW);
    ks_letter_row_read(statement, &letter);
    return letter;
}

static void end(void)
{
    (void)sqlite3_finalize(statement);
    EXPECT_EQ_I64(sqlite3_close(db), SQLITE_OK);
}

TEST(what_a_record_can_have_is_kept)
{
    struct ks_letter letter = read_with("", "");

    EXPECT(ks_letter_clean(&letter) == NULL);
    EXPECT(ks_view_equal(letter.id, KS_VIEW("shardId-000000000000.42.0")));
    EXPECT(ks_view_equal(letter.stream, KS_VIEW("s")));
    EXPECT_EQ_U64(letter.data.size, 2);
    EXPECT_EQ_I64(letter.cause, KS_CAUSE_ATTEMPTS);
    letter = read_with("stream", "'arn:aws:kinesis:eu-west-1:000000000000:stream/s.1-_'");
    EXPECT(ks_letter_clean(&letter) == NULL);
    /* Kinesis promises Unicode, and who breaks that has the record delivered all the same. */
    letter = read_with("key", "x'FF'");
    EXPECT(ks_letter_clean(&letter) == NULL);
    end();
}

TEST(what_no_record_can_have_is_named_and_empty)
{
    static const struct {
        const char *column, *value;
    } damages[] = {
        {"id", "''"},
        {"id", "NULL"},
        {"id", "'a/b'"},
        {"id", "'a?b'"},
        {"id", "'~'"},
        {"id", "'a' || char(0)"},
        {"id", "hex(zeroblob(200))"},
        {"stream", "NULL"},
        {"stream", "hex(zeroblob(2000))"},
        {"stream", "'a\",\"x\":\"b'"},
        {"stream", "'a\\b'"},
        {"stream", "'a' || char(10)"},
        {"stream", "char(233)"},
        {"shard", "hex(zeroblob(100))"},
        {"shard", "'a\"'"},
        {"sequence", "'4x'"},
        {"sequence", "'042'"},
        {"sequence", "-1"},
        {"sequence", "0.5"},
        {"sequence", "hex(zeroblob(100))"},
        {"key", "zeroblob(1025)"},
        {"data", "zeroblob(10485761)"},
        {"reason", "zeroblob(1001)"},
        {"reason", "x'FF'"},
    };

    for (size_t at = 0; at < sizeof damages / sizeof damages[0]; at++) {
        struct ks_letter letter = read_with(damages[at].column, damages[at].value);
        const char *damage = ks_letter_clean(&letter);

        if (damage == NULL || strcmp(damage, damages[at].column) != 0)
            FAIL("%s of %s is taken", damages[at].value, damages[at].column);
        EXPECT(ks_letter_clean(&letter) == NULL || letter.id.size == 0 || letter.stream.size == 0 ||
               letter.shard_id.size == 0 || letter.sequence.size == 0);
    }
    end();
}

TEST(numbers_become_the_nearest_that_can_be)
{
    static const char *const extremes[] = {
        "-9223372036854775808", "9223372036854775807", "-1e308", "1e308", "'a'", "NULL", "x'FF'"};

    for (size_t at = 0; at < sizeof extremes / sizeof extremes[0]; at++) {
        struct ks_letter letter = read_with("sub", extremes[at]);

        EXPECT(letter.sub_sequence >= -1 && letter.sub_sequence <= UINT32_MAX);
        letter = read_with("arrival_ms", extremes[at]);
        EXPECT(letter.arrival_ms >= 0 && letter.arrival_ms <= INT64_C(253402300799999));
        letter = read_with("died_ms", extremes[at]);
        EXPECT(letter.died_ms >= 0 && letter.died_ms <= INT64_C(253402300799999));
        letter = read_with("attempts", extremes[at]);
        EXPECT(letter.attempts <= INT32_MAX);
        letter = read_with("cause", extremes[at]);
        EXPECT((int)letter.cause >= 0 && (int)letter.cause < KS_CAUSES);
        EXPECT(ks_letter_clean(&letter) == NULL);
    }
    end();
}
