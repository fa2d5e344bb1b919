// SPDX-License-Identifier: Apache-2.0
//! Effects at most once per record, in a `SQLite` database of the app.
//!
//! The sidecar delivers at least once. [`apply_once`] stores the position of the record in the transaction of its
//! effect: a redelivery finds it there and has no effect. It works with any ordering and concurrency, one connection
//! for each handler. Other databases: the same table and the same two statements in a transaction.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::{params, Connection, Transaction};

use crate::record::Record;

/// Creates the table of positions if it does not exist.
///
/// # Errors
/// Those of the database.
pub fn create_table(connection: &Connection) -> rusqlite::Result<()> {
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS kinesis_sidecar_applied (
             consumer TEXT NOT NULL, stream TEXT NOT NULL, shard_id TEXT NOT NULL,
             sequence_number TEXT NOT NULL, sub_sequence_number BIGINT NOT NULL, epoch BIGINT NOT NULL,
             applied_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
             PRIMARY KEY (consumer, stream, shard_id, sequence_number, sub_sequence_number))",
    )
}

/// Calls the effect and commits, or does nothing if the record was applied before. Returns whether the effect was
/// called. Rolls back if the effect fails. `consumer` separates apps that share the database.
///
/// # Errors
/// Those of the effect and of the database.
pub fn apply_once<T, E: From<rusqlite::Error>>(
    connection: &mut Connection,
    consumer: &str,
    record: &Record,
    effect: impl FnOnce(&Transaction<'_>, &Record) -> Result<T, E>,
) -> Result<bool, E> {
    let transaction = connection.transaction()?;
    let stored = transaction.execute(
        "INSERT INTO kinesis_sidecar_applied (consumer, stream, shard_id, sequence_number, sub_sequence_number, epoch)
         VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        params![
            consumer,
            record.stream(),
            record.shard_id(),
            record.sequence_number(),
            record.sub_sequence_number(),
            i64::try_from(record.epoch()).unwrap_or(i64::MAX)
        ],
    )?;
    if stored == 1 {
        effect(&transaction, record)?;
    }
    transaction.commit()?;
    Ok(stored == 1)
}

/// Removes positions that were stored before `instant`. Returns how many. Records that can be redelivered must be
/// younger: the retention period of the stream is a safe age.
///
/// # Errors
/// Those of the database.
pub fn forget_before(connection: &Connection, consumer: &str, instant: SystemTime) -> rusqlite::Result<usize> {
    let seconds = instant.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    connection.execute(
        "DELETE FROM kinesis_sidecar_applied WHERE consumer = ? AND applied_at < datetime(?, 'unixepoch')",
        params![consumer, i64::try_from(seconds).unwrap_or(i64::MAX)],
    )
}
