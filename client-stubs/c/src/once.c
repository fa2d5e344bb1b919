/* SPDX-License-Identifier: Apache-2.0 */
#include "kinesis-sidecar-client-once.h"

#define TABLE "kinesis_sidecar_applied"

int ks_apply_once_create_table(sqlite3 *db)
{
    return sqlite3_exec(db,
                        "CREATE TABLE IF NOT EXISTS " TABLE
                        " (consumer TEXT NOT NULL, stream TEXT NOT NULL, shard_id TEXT NOT NULL,"
                        " sequence_number TEXT NOT NULL, sub_sequence_number BIGINT NOT NULL,"
                        " epoch BIGINT NOT NULL,"
                        " applied_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,"
                        " PRIMARY KEY (consumer, stream, shard_id, sequence_number,"
                        " sub_sequence_number))",
                        NULL, NULL, NULL);
}

static int bind_text(sqlite3_stmt *statement, int index, const char *text)
{
    return sqlite3_bind_text(statement, index, text, -1, SQLITE_STATIC);
}

/* Runs a statement to its end, and finalizes it. */
static int run(sqlite3_stmt *statement)
{
    (void)sqlite3_step(statement);
    return sqlite3_finalize(statement); /* The result of the step. */
}

/* Stores the position of the record. `*ret_is_new` is false if it was there. */
static int store(sqlite3 *db, const char *consumer, const ks_record *record, bool *ret_is_new)
{
    sqlite3_stmt *statement;
    int result = sqlite3_prepare_v2(db,
                                    "INSERT INTO " TABLE " (consumer, stream, shard_id,"
                                    " sequence_number, sub_sequence_number, epoch)"
                                    " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                                    -1, &statement, NULL);

    if (result != SQLITE_OK)
        return result;
    (void)bind_text(statement, 1, consumer);
    (void)bind_text(statement, 2, record->stream);
    (void)bind_text(statement, 3, record->shard_id);
    (void)bind_text(statement, 4, record->sequence_number);
    (void)sqlite3_bind_int64(statement, 5, record->sub_sequence_number);
    (void)sqlite3_bind_int64(statement, 6, (sqlite3_int64)record->epoch);
    result = run(statement);
    *ret_is_new = result == SQLITE_OK && sqlite3_changes(db) == 1;
    return result;
}

int ks_apply_once(sqlite3 *db, const char *consumer, const ks_record *record,
                  ks_apply_once_effect *effect, void *context, bool *ret_is_new)
{
    bool is_new = false;
    int result = sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL);

    if (result != SQLITE_OK)
        return result;
    result = store(db, consumer, record, &is_new);
    if (result == SQLITE_OK && is_new)
        result = effect(db, record, context);
    if (result == SQLITE_OK)
        result = sqlite3_exec(db, "COMMIT", NULL, NULL, NULL);
    if (result != SQLITE_OK) {
        (void)sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
        return result;
    }
    if (ret_is_new != NULL)
        *ret_is_new = is_new;
    return SQLITE_OK;
}

int ks_apply_once_forget(sqlite3 *db, const char *consumer, int64_t age_s)
{
    sqlite3_stmt *statement;
    int result = sqlite3_prepare_v2(db,
                                    "DELETE FROM " TABLE " WHERE consumer = ? AND"
                                    " applied_at < datetime('now', -? || ' seconds')",
                                    -1, &statement, NULL);

    if (result != SQLITE_OK)
        return result;
    (void)bind_text(statement, 1, consumer);
    (void)sqlite3_bind_int64(statement, 2, age_s);
    return run(statement);
}
