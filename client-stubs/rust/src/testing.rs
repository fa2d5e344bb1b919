// SPDX-License-Identifier: Apache-2.0
//! Consumers without a sidecar, for the tests of an app.
//!
//! ```
//! use kinesis_sidecar::testing::{FakeConsumer, FakeRecord, Outcome};
//! use kinesis_sidecar::Record;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! async fn handle(record: Record) -> Result<(), serde_json::Error> {
//!     let number: u64 = record.json()?;
//!     if number == 2 {
//!         record.dead_letter("even");
//!     }
//!     Ok(())
//! }
//!
//! let mut consumer = FakeConsumer::new([FakeRecord::json(&1), FakeRecord::json(&2)]);
//! consumer.run(handle).await?;
//! let outcomes: Vec<Outcome> = consumer.outcomes().into_iter().map(|settled| settled.outcome).collect();
//! assert_eq!(outcomes, [Outcome::Ack, Outcome::DeadLetter]);
//! # Ok(())
//! # }
//! ```

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde::Serialize;

use crate::consumer::{Consumer, Shared};
use crate::event::Event;
use crate::options::Builder;
use crate::record::{self, position_of, Delivery, Record};
use crate::v1;
use crate::wire::Frame;

/// No ack deadline and no heartbeat.
const FOREVER: Duration = Duration::from_secs(1 << 30);

/// A record that a test makes.
#[derive(Debug, Clone)]
#[must_use]
pub struct FakeRecord {
    message: v1::Record,
}

impl FakeRecord {
    /// A record with this data, of the partition key `key` on the first shard.
    pub fn new(data: impl Into<Bytes>) -> Self {
        let message = v1::Record {
            data: data.into(),
            stream: "fake".into(),
            shard_id: "shardId-000000000000".into(),
            partition_key: "key".into(),
            epoch: 1,
            attempt: 1,
            ..v1::Record::default()
        };
        FakeRecord { message }
    }

    /// A record whose data is the JSON of `value`.
    ///
    /// # Panics
    /// The value is not JSON, as a map whose keys are not text.
    pub fn json(value: &impl Serialize) -> Self {
        FakeRecord::new(serde_json::to_vec(value).expect("the value of a fake record must be JSON"))
    }

    /// Sets the partition key.
    pub fn partition_key(mut self, key: impl Into<String>) -> Self {
        self.message.partition_key = key.into();
        self
    }

    /// Sets the shard.
    pub fn shard_id(mut self, shard_id: impl Into<String>) -> Self {
        self.message.shard_id = shard_id.into();
        self
    }

    /// Sets the sequence number. Default: the index in the list, from 1.
    pub fn sequence_number(mut self, number: impl Into<String>) -> Self {
        self.message.sequence_number = number.into();
        self
    }

    /// Sets the index in a KPL aggregate.
    pub fn sub_sequence_number(mut self, number: i64) -> Self {
        self.message.sub_sequence_number = number;
        self
    }

    /// Sets the lease epoch.
    pub fn epoch(mut self, epoch: u64) -> Self {
        self.message.epoch = epoch;
        self
    }

    /// Sets which delivery of the record it is, from 1.
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.message.attempt = attempt;
        self
    }

    /// A record of no consumer, for code that only reads it: its outcome goes nowhere.
    ///
    /// # Panics
    /// Never: the options of the consumer that it makes are valid.
    #[must_use]
    pub fn detached(self) -> Record {
        let options = fake_builder().options().expect("the options of a fake are valid");
        let delivery = Delivery::new(self.message, 0, None, 0, 0);
        delivery.begin();
        Record::new(Arc::new(delivery), Shared::new(options).0)
    }
}

/// What became of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Acknowledged.
    Ack,
    /// Redelivered.
    Retry,
    /// Given up and kept: by the app, or after the maximum of attempts.
    DeadLetter,
    /// Given up.
    Drop,
}

/// A delivery that has an outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settled {
    /// The data of the record.
    pub data: Bytes,
    /// Which delivery of the record it was, from 1.
    pub attempt: u32,
    /// Its outcome.
    pub outcome: Outcome,
    /// The reason of a retry or a dead letter.
    pub reason: String,
}

/// A [`Consumer`] whose records a test makes. It dereferences to it. It ends when all records have a final outcome. A retried record
/// is redelivered at once; a record that fails for the third time becomes a dead letter.
pub struct FakeConsumer {
    consumer: Consumer,
    outcomes: Arc<Mutex<Vec<Settled>>>,
}

impl FakeConsumer {
    /// A consumer of these records, with one handler at a time.
    pub fn new(records: impl IntoIterator<Item = FakeRecord>) -> Self {
        FakeConsumer::with_options(records, 1, 3)
    }

    /// A consumer of these records. A record that fails for the time `max_attempts` becomes a dead letter.
    ///
    /// # Panics
    /// `concurrency` is 0.
    pub fn with_options(records: impl IntoIterator<Item = FakeRecord>, concurrency: usize, max_attempts: u32) -> Self {
        let options = fake_builder().concurrency(concurrency).options().expect("concurrency must be at least 1");
        let outcomes = Arc::new(Mutex::new(Vec::new()));
        let records: Vec<_> = records.into_iter().zip(1..).map(|(record, number)| numbered(record.message, number)).collect();
        let sidecar = FakeSidecar { left: records.len(), records, max_attempts, outcomes: outcomes.clone(), batches: 0 };
        FakeConsumer { consumer: Consumer::fake(options, sidecar), outcomes }
    }

    /// Closes the consumer and returns its outcomes. Records without an outcome are given back.
    pub async fn close(self) -> Vec<Settled> {
        self.consumer.close().await;
        let outcomes = self.outcomes.lock().unwrap_or_else(PoisonError::into_inner);
        outcomes.clone()
    }

    /// The deliveries that have an outcome, in the order of their outcomes; of one moment by sequence number.
    #[must_use]
    pub fn outcomes(&self) -> Vec<Settled> {
        self.outcomes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Deref for FakeConsumer {
    type Target = Consumer;

    fn deref(&self) -> &Consumer {
        &self.consumer
    }
}

impl DerefMut for FakeConsumer {
    fn deref_mut(&mut self) -> &mut Consumer {
        &mut self.consumer
    }
}

fn fake_builder() -> Builder {
    Consumer::builder("fake").url("http://127.0.0.1:1").signals(false)
}

fn numbered(mut record: v1::Record, number: u64) -> v1::Record {
    if record.sequence_number.is_empty() {
        record.sequence_number = number.to_string();
    }
    record.ack_id = format!("fake-{number}");
    record
}

/// Stands for the sidecar.
pub(crate) struct FakeSidecar {
    records: Vec<v1::Record>,
    max_attempts: u32,
    outcomes: Arc<Mutex<Vec<Settled>>>,
    /// Records without a final outcome.
    left: usize,
    batches: u64,
}

impl FakeSidecar {
    pub(crate) async fn serve(mut self, shared: Arc<Shared>) {
        let session = Event::Session {
            session: "fake".into(),
            boot_id: "fake".into(),
            max_in_flight: u32::MAX,
            max_in_flight_bytes: u64::MAX,
            ack_deadline: FOREVER,
            heartbeat: FOREVER,
        };
        shared.engine().receive(vec![Frame::Event(session)], Instant::now());
        let records = std::mem::take(&mut self.records);
        self.deliver(&shared, records);
        while self.left > 0 && !shared.is_closing() {
            shared.wake.notified().await;
            self.take_outcomes(&shared);
        }
        shared.stop();
    }

    fn take_outcomes(&mut self, shared: &Shared) {
        let (settled, taken_back) = {
            let mut engine = shared.engine();
            (engine.confirm(Instant::now()), engine.taken_back())
        };
        let mut again: Vec<v1::Record> = taken_back.iter().map(|delivery| delivery.message.clone()).collect();
        for record::Settled { record, settlement } in settled {
            let outcome = self.judge(&record, settlement.outcome);
            if outcome == Outcome::Retry {
                again.push(v1::Record { attempt: record.message.attempt + 1, ..record.message.clone() });
            } else {
                self.left -= 1;
            }
            let Delivery { message, .. } = &*record;
            let settled = Settled { data: message.data.clone(), attempt: message.attempt, outcome, reason: settlement.reason };
            self.outcomes.lock().unwrap_or_else(PoisonError::into_inner).push(settled);
        }
        again.sort_by(|left, right| position_of(left).cmp(&position_of(right)));
        self.deliver(shared, again);
    }

    fn judge(&self, record: &Delivery, outcome: record::Outcome) -> Outcome {
        match outcome {
            record::Outcome::Retry if record.message.attempt < self.max_attempts => Outcome::Retry,
            record::Outcome::Retry | record::Outcome::DeadLetter => Outcome::DeadLetter,
            record::Outcome::Drop => Outcome::Drop,
            record::Outcome::Ack | record::Outcome::Extend => Outcome::Ack,
        }
    }

    fn deliver(&mut self, shared: &Shared, records: Vec<v1::Record>) {
        self.batches += 1;
        let batch_id = format!("batch-{}", self.batches);
        let frames = records.into_iter().map(|record| Frame::Record(v1::Record { batch_id: batch_id.clone(), ..record }));
        shared.engine().receive(frames.collect(), Instant::now());
    }
}
