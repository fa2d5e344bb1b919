// SPDX-License-Identifier: Apache-2.0
//! What the consumer keeps of each record.

use std::ops::Range;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde::Serialize;

use crate::options::Ordering;

/// The sidecar keeps 1000 bytes.
const REASON_CHARACTERS_MAX: usize = 500;

/// The unit of order: a shard, or one of its lanes. A retry takes back the later records of its scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Scope {
    pub(crate) shard: u32,
    pub(crate) lane: u32,
}

/// Shard, sequence number, sub-sequence number and whether it is redriven: the same for every delivery of a record,
/// until it is a dead letter that is delivered again.
pub(crate) type Identity = (u32, String, i64, bool);

/// Block and index of a delivery.
pub(crate) type DeliveryKey = (usize, usize);

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

/// A part of `Records::bytes`. A frame has at most 32 MiB.
#[derive(Default, Clone, Copy)]
pub(crate) struct Span {
    begin: u32,
    end: u32,
}

impl Span {
    pub(crate) fn new(range: &Range<usize>) -> Self {
        let offset = |at: usize| u32::try_from(at).expect("a block has less than 4 GiB");
        Span { begin: offset(range.start), end: offset(range.end) }
    }

    fn len(self) -> usize {
        (self.end - self.begin) as usize
    }
}

/// One record of a block.
#[derive(Default)]
pub(crate) struct Entry {
    pub(crate) ack_id: Span,
    pub(crate) sequence_number: Span,
    pub(crate) partition_key: Span,
    pub(crate) data: Span,
    pub(crate) sub_sequence_number: i64,
    pub(crate) epoch: u64,
    /// Unix milliseconds. 0: it is not known.
    pub(crate) arrived_at: u64,
    pub(crate) attempt: u32,
    pub(crate) lane: u32,
    pub(crate) aggregated: bool,
    pub(crate) redriven: bool,
    pub(crate) state: AtomicU8,
    /// The delivery that the outcome of this one settles, if it was redelivered while the app had it.
    pub(crate) later: OnceLock<Delivery>,
}

/// Consecutive records of one batch. All of them share one piece of memory: no record allocates.
#[derive(Default)]
pub(crate) struct Records {
    pub(crate) batch_id: String,
    pub(crate) stream: String,
    pub(crate) shard_id: String,
    /// The frames.
    pub(crate) bytes: Bytes,
    pub(crate) entries: Vec<Entry>,
}

impl Records {
    pub(crate) fn bytes(&self, span: Span) -> &[u8] {
        &self.bytes[span.begin as usize..span.end as usize]
    }

    /// The reader of frames has checked the text.
    pub(crate) fn text(&self, span: Span) -> &str {
        std::str::from_utf8(self.bytes(span)).unwrap_or_default()
    }
}

/// Records that the consumer has received.
pub(crate) struct Block {
    pub(crate) records: Records,
    pub(crate) shard: u32,
    /// Number of the group of their batch.
    pub(crate) group: u64,
    /// Barriers on the stream before them.
    pub(crate) barriers: u64,
    pub(crate) ordering: Ordering,
}

impl Block {
    pub(crate) fn len(&self) -> usize {
        self.records.entries.len()
    }

    pub(crate) fn deliveries(self: &Arc<Self>) -> impl Iterator<Item = Delivery> + '_ {
        (0..self.len()).map(|at| Delivery { block: self.clone(), at })
    }
}

#[cfg(test)]
thread_local! {
    /// What a batch costs.
    pub(crate) static ENTRIES_READ: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// One delivery of a record. Clones are handles.
#[derive(Clone)]
pub(crate) struct Delivery {
    pub(crate) block: Arc<Block>,
    at: usize,
}

impl PartialEq for Delivery {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.block, &other.block) && self.at == other.at
    }
}

impl Delivery {
    pub(crate) fn new(block: Arc<Block>, at: usize) -> Self {
        Delivery { block, at }
    }

    /// Differs from those of all other deliveries while this one is kept.
    pub(crate) fn key(&self) -> DeliveryKey {
        (Arc::as_ptr(&self.block).addr(), self.at)
    }

    pub(crate) fn entry(&self) -> &Entry {
        #[cfg(test)]
        ENTRIES_READ.set(ENTRIES_READ.get() + 1);
        &self.block.records.entries[self.at]
    }

    /// The app may begin the record.
    pub(crate) fn is_waiting(&self) -> bool {
        self.is(State::Waiting)
    }

    /// Marks the record as begun. False: it is not the app's any more.
    pub(crate) fn begin(&self) -> bool {
        self.change(State::Waiting, State::Begun)
    }

    pub(crate) fn change(&self, from: State, to: State) -> bool {
        self.entry().state.compare_exchange(from as u8, to as u8, AcqRel, Acquire).is_ok()
    }

    pub(crate) fn set(&self, state: State) {
        self.entry().state.store(state as u8, Release);
    }

    pub(crate) fn is(&self, state: State) -> bool {
        self.entry().state.load(Acquire) == state as u8
    }

    /// The outcome of this delivery settles `later`.
    pub(crate) fn redelivered(&self, later: Delivery) {
        let _ = self.entry().later.set(later); // A delivery is redelivered once: then the later one is.
    }

    pub(crate) fn is_redelivered(&self) -> bool {
        self.entry().later.get().is_some()
    }

    /// The delivery that the outcome settles.
    pub(crate) fn last(&self) -> &Delivery {
        let mut last = self;
        while let Some(later) = last.entry().later.get() {
            last = later;
        }
        last
    }

    /// None: no retry takes it back.
    pub(crate) fn scope(&self) -> Option<Scope> {
        let lane = match self.block.ordering {
            Ordering::None => return None,
            _ if self.entry().redriven => return None,
            Ordering::Shard => 0,
            Ordering::Key => self.entry().lane,
        };
        Some(Scope { shard: self.block.shard, lane })
    }

    pub(crate) fn ack_id(&self) -> &str {
        self.block.records.text(self.entry().ack_id)
    }

    pub(crate) fn sequence_number(&self) -> &str {
        self.block.records.text(self.entry().sequence_number)
    }

    pub(crate) fn partition_key(&self) -> &str {
        self.block.records.text(self.entry().partition_key)
    }

    pub(crate) fn data(&self) -> &[u8] {
        self.block.records.bytes(self.entry().data)
    }

    /// Orders the records of one shard. Sequence numbers have no leading zeros: the longer one is larger.
    pub(crate) fn position(&self) -> (usize, &str, i64) {
        let number = self.sequence_number();
        (number.len(), number, self.entry().sub_sequence_number)
    }

    pub(crate) fn identity(&self) -> Identity {
        let entry = self.entry();
        (self.block.shard, self.sequence_number().into(), entry.sub_sequence_number, entry.redriven)
    }

    /// What counts against `max_in_flight_bytes`.
    pub(crate) fn bytes(&self) -> u64 {
        (self.entry().data.len() + self.entry().partition_key.len()) as u64
    }
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

impl Outcome {
    /// The state of a record that has the outcome.
    pub(crate) fn state(self) -> State {
        match self {
            Outcome::Ack => State::Acked,
            _ => State::Settled,
        }
    }
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

    pub(crate) fn new(outcome: Outcome, delay: Duration, reason: &str) -> Self {
        let delay_ms = delay.as_millis().try_into().unwrap_or(u64::MAX);
        // Text that the sidecar refuses would refuse the other settlements of the request.
        let reason = reason.chars().take(REASON_CHARACTERS_MAX).map(|letter| if letter == '\0' { '?' } else { letter });
        Settlement { outcome, delay_ms, reason: reason.collect() }
    }
}

/// A record and its outcome.
pub(crate) struct Settled {
    pub(crate) record: Delivery,
    pub(crate) settlement: Settlement,
}

/// A record whose outcome the sidecar has not confirmed.
pub(crate) struct Unconfirmed {
    pub(crate) record: Delivery,
    /// When its first delivery arrived. None: it had an outcome when it was kept.
    pub(crate) since: Option<Instant>,
    /// None: the app has not decided.
    pub(crate) settlement: Option<Settlement>,
}
