// SPDX-License-Identifier: Apache-2.0
//! Effects at most once per record.

use std::time::{Duration, SystemTime};

use kinesis_sidecar::once::{apply_once, create_table, forget_before};
use kinesis_sidecar::testing::FakeRecord;
use kinesis_sidecar::Record;
use rusqlite::{Connection, Transaction};

fn database() -> Connection {
    let connection = Connection::open_in_memory().unwrap();
    create_table(&connection).unwrap();
    connection.execute("CREATE TABLE orders (id INTEGER)", []).unwrap();
    connection
}

fn record(number: i64) -> FakeRecord {
    FakeRecord::json(&number).sequence_number("100")
}

fn insert(transaction: &Transaction<'_>, record: &Record) -> rusqlite::Result<usize> {
    transaction.execute("INSERT INTO orders VALUES (?)", [record.json::<i64>().unwrap()])
}

fn orders(connection: &Connection) -> Vec<i64> {
    let mut statement = connection.prepare("SELECT id FROM orders ORDER BY id").unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[test]
fn redelivery_has_no_effect() {
    let mut connection = database();
    assert!(apply_once(&mut connection, "orders", &record(7).detached(), insert).unwrap());
    assert!(!apply_once(&mut connection, "orders", &record(7).attempt(2).epoch(2).detached(), insert).unwrap());
    assert_eq!(orders(&connection), [7]);
}

#[test]
fn records_of_an_aggregate_are_told_apart() {
    let mut connection = database();
    for sub in 0..2 {
        assert!(
            apply_once(&mut connection, "orders", &record(sub).sub_sequence_number(sub).detached(), insert).unwrap()
        );
    }
    assert_eq!(orders(&connection), [0, 1]);
}

#[test]
fn failed_effect_leaves_no_position() {
    let mut connection = database();
    let record = record(7).detached();
    let failed = apply_once(&mut connection, "orders", &record, |transaction, record| {
        insert(transaction, record)?;
        Err::<(), _>(rusqlite::Error::InvalidQuery)
    });
    assert!(failed.is_err());
    assert_eq!(orders(&connection), Vec::<i64>::new());
    assert!(apply_once(&mut connection, "orders", &record, insert).unwrap());
}

#[test]
fn old_positions_are_forgotten() {
    let mut connection = database();
    apply_once(&mut connection, "orders", &record(7).detached(), insert).unwrap();
    let day = Duration::from_secs(86400);
    assert_eq!(forget_before(&connection, "orders", SystemTime::now() - day).unwrap(), 0);
    assert_eq!(forget_before(&connection, "orders", SystemTime::now() + day).unwrap(), 1);
}
