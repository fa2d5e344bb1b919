// SPDX-License-Identifier: Apache-2.0
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::de::DeserializeOwned;

use crate::consumer::Shared;
use crate::delivery::{Delivery, Outcome, Settlement};
use crate::wire::instant;

/// One record. Clones are handles of the same delivery. The outcome of a record is final: further calls do nothing.
#[derive(Clone)]
pub struct Record {
    delivery: Delivery,
    shared: Arc<Shared>,
}

impl Record {
    pub(crate) fn new(delivery: Delivery, shared: Arc<Shared>) -> Self {
        Record { delivery, shared }
    }

    /// Acknowledges the record.
    pub fn ack(&self) {
        self.settle(Settlement::ACK);
    }

    /// Acknowledges the record, and waits until the checkpoint in the lease table covers it, for 10 s at most. Returns
    /// whether it does.
    pub async fn ack_persisted(&self) -> bool {
        self.shared.ack_persisted(&self.delivery).await
    }

    /// Has the record redelivered after the back-off of the sidecar.
    pub fn retry(&self, reason: &str) {
        self.retry_after(Duration::ZERO, reason);
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
        self.shared.settle(&self.delivery, settlement);
    }

    /// The data as it was put. It shares its memory with records that arrived together.
    #[must_use]
    pub fn data(&self) -> &[u8] {
        self.delivery.data()
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
        self.delivery.partition_key()
    }

    /// The stream, as the sidecar was started: a name or an ARN.
    #[must_use]
    pub fn stream(&self) -> &str {
        &self.delivery.block.records.stream
    }

    /// The shard.
    #[must_use]
    pub fn shard_id(&self) -> &str {
        &self.delivery.block.records.shard_id
    }

    /// A decimal number without leading zeros, of up to 56 digits: more than a `u128` has. Of two, the longer one is
    /// larger; of equal length, compare the text.
    #[must_use]
    pub fn sequence_number(&self) -> &str {
        self.delivery.sequence_number()
    }

    /// The index in a KPL aggregate, from 0. 0 for other records.
    #[must_use]
    pub fn sub_sequence_number(&self) -> i64 {
        self.delivery.entry().sub_sequence_number
    }

    /// The epoch of the lease.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.delivery.entry().epoch
    }

    /// Counts the deliveries in one lease epoch, from 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.delivery.entry().attempt
    }

    /// The approximate arrival. None: it is not known.
    #[must_use]
    pub fn arrived_at(&self) -> Option<SystemTime> {
        let millis = self.delivery.entry().arrived_at;
        (millis > 0).then(|| instant(millis))
    }

    /// A KPL aggregate that could not be taken apart.
    #[must_use]
    pub fn aggregated(&self) -> bool {
        self.delivery.entry().aggregated
    }

    /// A dead letter that is delivered again.
    #[must_use]
    pub fn redriven(&self) -> bool {
        self.delivery.entry().redriven
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
        self.retry_after(Duration::ZERO, reason);
    }

    /// Retries the records that have no outcome, not before `delay`.
    pub fn retry_after(&self, delay: Duration, reason: &str) {
        // Backwards: a retry takes back the later records, which could not be retried any more.
        self.records.iter().rev().for_each(|record| record.retry_after(delay, reason));
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
