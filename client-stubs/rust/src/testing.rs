// SPDX-License-Identifier: Apache-2.0
//! Consumers without a sidecar, for the tests of an app.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::consumer::{Consumer, Shared};
use crate::delivery::{self, Block, Delivery, Entry, Records, Span};
use crate::event::Event;
use crate::options::{Builder, Ordering};
use crate::record::Record;
use crate::wire::Frame;

/// No ack deadline and no heartbeat.
const FOREVER: Duration = Duration::from_secs(1 << 30);

/// A record that a test makes.
#[derive(Debug, Clone)]
#[must_use]
pub struct FakeRecord {
    data: Vec<u8>,
    partition_key: String,
    shard_id: String,
    sequence_number: String,
    sub_sequence_number: i64,
    epoch: u64,
    attempt: u32,
}

impl FakeRecord {
    /// A record with this data, of the partition key `key` on the first shard.
    pub fn new(data: impl Into<Vec<u8>>) -> Self {
        FakeRecord {
            data: data.into(),
            partition_key: "key".into(),
            shard_id: "shardId-000000000000".into(),
            sequence_number: String::new(),
            sub_sequence_number: 0,
            epoch: 1,
            attempt: 1,
        }
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
        self.partition_key = key.into();
        self
    }

    /// Sets the shard.
    pub fn shard_id(mut self, shard_id: impl Into<String>) -> Self {
        self.shard_id = shard_id.into();
        self
    }

    /// Sets the sequence number. Default: the index in the list, from 1.
    pub fn sequence_number(mut self, number: impl Into<String>) -> Self {
        self.sequence_number = number.into();
        self
    }

    /// Sets the index in a KPL aggregate.
    pub fn sub_sequence_number(mut self, number: i64) -> Self {
        self.sub_sequence_number = number;
        self
    }

    /// Sets the lease epoch.
    pub fn epoch(mut self, epoch: u64) -> Self {
        self.epoch = epoch;
        self
    }

    /// Sets which delivery of the record it is, from 1.
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.attempt = attempt;
        self
    }

    /// A record of no consumer, for code that only reads it: its outcome goes nowhere.
    ///
    /// # Panics
    /// Never: the options of the consumer that it makes are valid.
    #[must_use]
    pub fn detached(self) -> Record {
        let options = fake_builder().options().expect("the options of a fake are valid");
        let records = records_of("batch", &[(0, &self)]);
        let delivery =
            Delivery::new(Arc::new(Block { records, shard: 0, group: 0, barriers: 0, ordering: Ordering::None }), 0);
        delivery.begin();
        Record::new(delivery, Shared::new(options).0)
    }

    fn position(&self) -> (usize, &str, i64) {
        (self.sequence_number.len(), &self.sequence_number, self.sub_sequence_number)
    }
}

/// Records of one shard as the stream brings them. The `ack_id` is the number of the record.
fn records_of(batch_id: &str, records: &[(usize, &FakeRecord)]) -> Records {
    let mut bytes = Vec::new();
    let mut put = |part: &[u8]| {
        bytes.extend_from_slice(part);
        Span::new(&(bytes.len() - part.len()..bytes.len()))
    };
    let entries = records.iter().map(|(number, record)| Entry {
        ack_id: put(number.to_string().as_bytes()),
        sequence_number: put(record.sequence_number.as_bytes()),
        partition_key: put(record.partition_key.as_bytes()),
        data: put(&record.data),
        sub_sequence_number: record.sub_sequence_number,
        epoch: record.epoch,
        attempt: record.attempt,
        ..Entry::default()
    });
    let entries = entries.collect();
    let shard_id = records.first().map(|(_, record)| record.shard_id.clone()).unwrap_or_default();
    Records { batch_id: batch_id.into(), stream: "fake".into(), shard_id, bytes: bytes.into(), entries }
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
    pub data: Vec<u8>,
    /// Which delivery of the record it was, from 1.
    pub attempt: u32,
    /// Its outcome.
    pub outcome: Outcome,
    /// The reason of a retry or a dead letter.
    pub reason: String,
}

/// A [`Consumer`] whose records a test makes. It dereferences to it. It ends when all records have a final outcome. A
/// retried record is redelivered at once; a record that fails for the third time becomes a dead letter.
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
        let records: Vec<_> = records.into_iter().zip(1..).map(|(record, number)| numbered(record, number)).collect();
        let sidecar =
            FakeSidecar { left: records.len(), records, max_attempts, outcomes: outcomes.clone(), batches: 0 };
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

fn numbered(mut record: FakeRecord, number: u64) -> FakeRecord {
    if record.sequence_number.is_empty() {
        record.sequence_number = number.to_string();
    }
    record
}

/// Stands for the sidecar.
pub(crate) struct FakeSidecar {
    records: Vec<FakeRecord>,
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
        self.deliver(&shared, &(0..self.records.len()).collect::<Vec<_>>());
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
        let mut again: Vec<usize> = taken_back.iter().map(number_of).collect();
        for delivery::Settled { record, settlement } in settled {
            let number = number_of(&record);
            let record = &mut self.records[number];
            let outcome = judge(settlement.outcome, record.attempt < self.max_attempts);
            let settled =
                Settled { data: record.data.clone(), attempt: record.attempt, outcome, reason: settlement.reason };
            if outcome == Outcome::Retry {
                record.attempt += 1;
                again.push(number);
            } else {
                self.left -= 1;
            }
            self.outcomes.lock().unwrap_or_else(PoisonError::into_inner).push(settled);
        }
        again.sort_by(|left, right| self.records[*left].position().cmp(&self.records[*right].position()));
        self.deliver(shared, &again);
    }

    /// Delivers records, by number. The records of a batch are of one shard.
    fn deliver(&mut self, shared: &Shared, numbers: &[usize]) {
        let mut frames = Vec::new();
        for some in numbers.chunk_by(|left, right| self.records[*left].shard_id == self.records[*right].shard_id) {
            self.batches += 1;
            let records: Vec<_> = some.iter().map(|number| (*number, &self.records[*number])).collect();
            frames.push(Frame::Records(records_of(&format!("batch-{}", self.batches), &records)));
        }
        shared.engine().receive(frames, Instant::now());
    }
}

fn number_of(record: &Delivery) -> usize {
    record.ack_id().parse().expect("the fake sidecar gave the id")
}

fn judge(outcome: delivery::Outcome, may_retry: bool) -> Outcome {
    match outcome {
        delivery::Outcome::Retry if may_retry => Outcome::Retry,
        delivery::Outcome::Retry | delivery::Outcome::DeadLetter => Outcome::DeadLetter,
        delivery::Outcome::Drop => Outcome::Drop,
        delivery::Outcome::Ack | delivery::Outcome::Extend => Outcome::Ack,
    }
}
