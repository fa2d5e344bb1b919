// SPDX-License-Identifier: Apache-2.0
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::Serialize;

use crate::consumer::Shared;
use crate::v1;
use crate::wire::instant;

/// The sidecar keeps 1000 bytes.
const REASON_CHARACTERS_MAX: usize = 500;

/// The unit of order: a shard, or one of its lanes. A retry takes back the later records of its scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Scope {
    pub(crate) shard: u32,
    pub(crate) lane: u32,
}

/// Shard, sequence number and sub-sequence number: the same for every delivery of a record.
pub(crate) type Identity = (u32, String, i64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// The app does not have it.
    Waiting,
    /// The app has it.
    Begun,
    /// Acknowledged by the app, and not sent.
    Acked,
    /// It has another outcome, or its acknowledgement was sent.
    Settled,
    /// It is redelivered, or was redelivered: the app may not begin it.
    Gone,
}

/// One delivery of a record.
pub(crate) struct Delivery {
    pub(crate) message: v1::Record,
    pub(crate) shard: u32,
    /// None: no retry takes it back.
    pub(crate) scope: Option<Scope>,
    /// Barriers on the stream before this delivery.
    pub(crate) barriers: u64,
    group: AtomicU64,
    state: AtomicU8,
    /// The later delivery that its outcome settles.
    redelivery: Mutex<Option<Arc<Delivery>>>,
}

impl Delivery {
    pub(crate) fn new(message: v1::Record, shard: u32, scope: Option<Scope>, barriers: u64, group: u64) -> Self {
        let state = AtomicU8::new(State::Waiting as u8);
        Delivery { message, shard, scope, barriers, group: AtomicU64::new(group), state, redelivery: Mutex::new(None) }
    }

    /// Marks the record as begun. False: it is not the app's any more.
    pub(crate) fn begin(&self) -> bool {
        self.change(State::Waiting, State::Begun)
    }

    pub(crate) fn change(&self, from: State, to: State) -> bool {
        self.state.compare_exchange(from as u8, to as u8, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    pub(crate) fn is(&self, state: State) -> bool {
        self.state.load(Ordering::Acquire) == state as u8
    }

    pub(crate) fn group(&self) -> u64 {
        self.group.load(Ordering::Relaxed)
    }

    /// The outcome settles `redelivery`, which is in the group of that number.
    pub(crate) fn adopt(&self, redelivery: Arc<Delivery>, state: State) {
        self.group.store(redelivery.group(), Ordering::Relaxed);
        self.state.store(state as u8, Ordering::Release);
        *self.redelivery.lock().unwrap_or_else(PoisonError::into_inner) = Some(redelivery);
    }

    /// The id of the last delivery.
    pub(crate) fn settle_id(&self) -> String {
        let redelivery = self.redelivery.lock().unwrap_or_else(PoisonError::into_inner);
        redelivery.as_ref().map_or(&self.message, |redelivery| &redelivery.message).ack_id.clone()
    }

    /// Orders the records of one shard. Sequence numbers have no leading zeros: the longer one is larger.
    pub(crate) fn position(&self) -> (usize, &str, i64) {
        position_of(&self.message)
    }

    pub(crate) fn identity(&self) -> Identity {
        (self.shard, self.message.sequence_number.clone(), self.message.sub_sequence_number)
    }

    /// What counts against `max_in_flight_bytes`.
    pub(crate) fn bytes(&self) -> u64 {
        (self.message.data.len() + self.message.partition_key.len()) as u64
    }
}

pub(crate) fn position_of(record: &v1::Record) -> (usize, &str, i64) {
    (record.sequence_number.len(), &record.sequence_number, record.sub_sequence_number)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Ack,
    Retry,
    Extend,
    DeadLetter,
    Drop,
}

/// What the app decided about a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settlement {
    pub(crate) outcome: Outcome,
    pub(crate) delay_ms: u64,
    pub(crate) reason: String,
}

impl Settlement {
    pub(crate) const ACK: Settlement = Settlement { outcome: Outcome::Ack, delay_ms: 0, reason: String::new() };

    fn new(outcome: Outcome, delay: Duration, reason: &str) -> Self {
        let delay_ms = delay.as_millis().try_into().unwrap_or(u64::MAX);
        // Text that the sidecar refuses would refuse the other settlements of the request.
        let reason = reason.chars().take(REASON_CHARACTERS_MAX).map(|letter| if letter == '\0' { '?' } else { letter });
        Settlement { outcome, delay_ms, reason: reason.collect() }
    }
}

/// A record and its outcome.
pub(crate) struct Settled {
    pub(crate) record: Arc<Delivery>,
    pub(crate) settlement: Settlement,
}

/// One record. Clones are handles of the same delivery. The outcome of a record is final: further calls do nothing.
#[derive(Clone)]
pub struct Record {
    delivery: Arc<Delivery>,
    shared: Arc<Shared>,
}

impl Record {
    pub(crate) fn new(delivery: Arc<Delivery>, shared: Arc<Shared>) -> Self {
        Record { delivery, shared }
    }

    /// Acknowledges the record.
    pub fn ack(&self) {
        self.settle(Settlement::ACK);
    }

    /// Acknowledges the record, and waits until the checkpoint in the lease table covers it, for 10 s at most. Returns whether it
    /// does.
    pub async fn ack_persisted(&self) -> bool {
        self.shared.ack_persisted(&self.delivery).await
    }

    /// Has the record redelivered after the back-off of the sidecar.
    pub fn retry(&self, reason: &str) {
        self.settle(Settlement::new(Outcome::Retry, Duration::ZERO, reason));
    }

    /// Has the record redelivered, not before `delay`.
    pub fn retry_after(&self, delay: Duration, reason: &str) {
        self.settle(Settlement::new(Outcome::Retry, delay, reason));
    }

    /// Gives the record up and keeps it as a dead letter.
    pub fn dead_letter(&self, reason: &str) {
        self.settle(Settlement::new(Outcome::DeadLetter, Duration::ZERO, reason));
    }

    /// Gives the record up and does not keep it.
    pub fn drop(&self) {
        self.settle(Settlement::new(Outcome::Drop, Duration::ZERO, ""));
    }

    /// Moves the ack deadline to `duration` from now.
    pub fn extend(&self, duration: Duration) {
        self.shared.extend(&self.delivery, Settlement::new(Outcome::Extend, duration, ""));
    }

    fn settle(&self, settlement: Settlement) {
        // Without the lock: a record that has an outcome is usual here.
        if self.delivery.is(State::Begun) {
            self.shared.settle(&self.delivery, settlement);
        }
    }

    /// The data as it was put. A clone shares the memory of the connection's buffer.
    #[must_use]
    pub fn data(&self) -> &Bytes {
        &self.delivery.message.data
    }

    /// The data parsed as JSON.
    ///
    /// # Errors
    /// The data is not JSON, or has another form than `T`.
    pub fn json<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        serde_json::from_slice(self.data())
    }

    /// The partition key.
    #[must_use]
    pub fn partition_key(&self) -> &str {
        &self.delivery.message.partition_key
    }

    /// The stream, as the sidecar was started: a name or an ARN.
    #[must_use]
    pub fn stream(&self) -> &str {
        &self.delivery.message.stream
    }

    /// The shard.
    #[must_use]
    pub fn shard_id(&self) -> &str {
        &self.delivery.message.shard_id
    }

    /// A decimal number without leading zeros, of up to 56 digits: more than a `u128` has. Of two, the longer one is larger; of
    /// equal length, compare the text.
    #[must_use]
    pub fn sequence_number(&self) -> &str {
        &self.delivery.message.sequence_number
    }

    /// The index in a KPL aggregate, from 0. 0 for other records.
    #[must_use]
    pub fn sub_sequence_number(&self) -> i64 {
        self.delivery.message.sub_sequence_number
    }

    /// The epoch of the lease.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.delivery.message.epoch
    }

    /// Counts the deliveries in one lease epoch, from 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.delivery.message.attempt
    }

    /// The approximate arrival. None: it is not known.
    #[must_use]
    pub fn arrived_at(&self) -> Option<SystemTime> {
        let millis = self.delivery.message.approximate_arrival_timestamp;
        (millis > 0).then(|| instant(millis))
    }

    /// A KPL aggregate that could not be taken apart.
    #[must_use]
    pub fn aggregated(&self) -> bool {
        self.delivery.message.aggregated
    }

    /// A dead letter that is delivered again.
    #[must_use]
    pub fn redriven(&self) -> bool {
        self.delivery.message.redriven
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Record")
            .field("shard_id", &self.shard_id())
            .field("sequence_number", &self.sequence_number())
            .field("sub_sequence_number", &self.sub_sequence_number())
            .field("attempt", &self.attempt())
            .finish_non_exhaustive()
    }
}

/// Records in the order of delivery. It dereferences to a slice of records.
#[derive(Debug, Clone)]
pub struct Batch {
    records: Arc<Vec<Record>>,
}

impl Batch {
    pub(crate) fn new(records: Vec<Record>) -> Self {
        Batch { records: Arc::new(records) }
    }

    /// Acknowledges the records that have no outcome.
    pub fn ack(&self) {
        self.records.iter().for_each(Record::ack);
    }

    /// Retries the records that have no outcome, after the back-off of the sidecar.
    pub fn retry(&self, reason: &str) {
        self.records.iter().for_each(|record| record.retry(reason));
    }

    /// Retries the records that have no outcome, not before `delay`.
    pub fn retry_after(&self, delay: Duration, reason: &str) {
        self.records.iter().for_each(|record| record.retry_after(delay, reason));
    }
}

impl Deref for Batch {
    type Target = [Record];

    fn deref(&self) -> &[Record] {
        &self.records
    }
}

impl<'a> IntoIterator for &'a Batch {
    type Item = &'a Record;
    type IntoIter = std::slice::Iter<'a, Record>;

    fn into_iter(self) -> Self::IntoIter {
        self.records.iter()
    }
}
