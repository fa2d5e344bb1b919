// SPDX-License-Identifier: Apache-2.0
//! Consumers without a sidecar.

use std::time::Duration;

use kinesis_sidecar::testing::{FakeConsumer, FakeRecord, Outcome, Settled};
use kinesis_sidecar::Record;

use crate::support::Limit;

async fn handle(record: Record) -> Result<(), String> {
    match record.json::<u64>().map_err(|_| "not JSON")? {
        1 if record.attempt() == 1 => Err("odd".into()),
        2 => {
            record.dead_letter("even");
            Ok(())
        }
        _ => Ok(()),
    }
}

fn plain(outcomes: &[Settled]) -> Vec<(&str, u32, Outcome, &str)> {
    let mut plain = Vec::new();
    for settled in outcomes {
        let data = std::str::from_utf8(&settled.data).unwrap();
        plain.push((data, settled.attempt, settled.outcome, settled.reason.as_str()));
    }
    plain
}

#[tokio::test]
async fn run_reports_outcomes() {
    let _limit = Limit::start();
    for concurrency in [1, 4] {
        let records = [FakeRecord::json(&1), FakeRecord::json(&2)];
        let mut consumer = FakeConsumer::with_options(records, concurrency, 3);
        consumer.run(handle).await.unwrap();
        let expected =
            [("1", 1, Outcome::Retry, "odd"), ("1", 2, Outcome::Ack, ""), ("2", 1, Outcome::DeadLetter, "even")];
        assert_eq!(plain(&consumer.outcomes()), expected);
    }
}

#[tokio::test]
async fn record_that_always_fails_becomes_a_dead_letter() {
    let _limit = Limit::start();
    let mut consumer = FakeConsumer::with_options([FakeRecord::new("{")], 1, 2);
    consumer.run(handle).await.unwrap();
    let expected = [("{", 1, Outcome::Retry, "not JSON"), ("{", 2, Outcome::DeadLetter, "not JSON")];
    assert_eq!(plain(&consumer.outcomes()), expected);
}

#[tokio::test]
async fn loop_that_is_left_settles_nothing() {
    let _limit = Limit::start();
    let mut consumer = FakeConsumer::new([FakeRecord::json(&1), FakeRecord::json(&2)]);
    while let Some(record) = consumer.next().await.unwrap() {
        if record.json::<u64>().unwrap() == 2 {
            break;
        }
    }
    assert_eq!(plain(&consumer.close().await), [("1", 1, Outcome::Ack, "")]);
}

#[tokio::test]
async fn batches_end_with_the_records() {
    let _limit = Limit::start();
    for size in [1, 2, 500] {
        let mut consumer = FakeConsumer::new((0..5).map(|number| FakeRecord::json(&number)));
        let mut count = 0;
        while let Some(batch) = consumer.next_batch(size, Duration::from_millis(1)).await.unwrap() {
            assert!(batch.len() <= size);
            count += batch.len();
        }
        assert_eq!((count, consumer.outcomes().len()), (5, 5));
    }
}
