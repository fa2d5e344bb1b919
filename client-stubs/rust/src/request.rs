// SPDX-License-Identifier: Apache-2.0
//! Settle requests, and their answers.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::delivery::{Block, Delivery, Outcome, Settled, Settlement};

/// In one settle request.
const ITEMS_MAX: usize = 1000;

#[derive(Serialize)]
struct SettleItem<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    ack_id: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    batch_id: &'a str,
    outcome: Outcome,
    #[serde(skip_serializing_if = "is_zero")]
    delay_ms: u64,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'a str,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Answer {
    pub(crate) persisted: bool,
    pub(crate) failed: Vec<Failure>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Failure {
    pub(crate) ack_id: String,
    pub(crate) reason: String,
    pub(crate) message: String,
}

impl Failure {
    /// The delivery is over: the record was redelivered, or is about to be.
    pub(crate) fn is_late(&self) -> bool {
        matches!(self.reason.as_str(), "EXPIRED" | "FENCED")
    }

    /// The id is of a sidecar that was restarted: its session has ended.
    pub(crate) fn is_unknown(&self) -> bool {
        self.reason == "UNKNOWN"
    }
}

/// A settle request, and what its answer decides.
#[derive(Default)]
pub(crate) struct Request {
    pub(crate) number: u64,
    pub(crate) body: Vec<u8>,
    pub(crate) items: usize,
    /// 0: none.
    pub(crate) barrier: u64,
    pub(crate) settled: Vec<Settled>,
    /// Of batches that were acknowledged as a whole.
    pub(crate) acked: Vec<Arc<Block>>,
}

impl Request {
    fn add(&mut self, item: &SettleItem<'_>) {
        self.body.extend_from_slice(if self.items == 0 { b"{\"settlements\":[" } else { b"," });
        serde_json::to_writer(&mut self.body, item).expect("a vector takes everything");
        self.items += 1;
    }

    pub(crate) fn add_record(&mut self, record: &Delivery, settlement: &Settlement) {
        let Settlement { outcome, delay_ms, reason } = settlement;
        self.add(&SettleItem { ack_id: record.ack_id(), batch_id: "", outcome: *outcome, delay_ms: *delay_ms, reason });
    }

    pub(crate) fn add_batch(&mut self, batch_id: &str, outcome: Outcome, delay_ms: u64) {
        self.add(&SettleItem { ack_id: "", batch_id, outcome, delay_ms, reason: "" });
    }

    pub(crate) fn finish(&mut self) {
        self.body.push(b']');
        if self.barrier > 0 {
            self.body.extend_from_slice(format!(",\"barrier\":\"{}\"", self.barrier).as_bytes());
        }
        self.body.push(b'}');
    }

    pub(crate) fn retries(&self, ack_id: &str) -> bool {
        let mut retries = self.settled.iter().filter(|settled| settled.settlement.outcome == Outcome::Retry);
        retries.any(|settled| settled.record.ack_id() == ack_id)
    }

    /// The outcome of a record in this request.
    pub(crate) fn settlement(&self, record: &Delivery) -> Option<Settlement> {
        if self.acked.iter().any(|block| Arc::ptr_eq(block, &record.block)) {
            return Some(Settlement::ACK);
        }
        self.settled.iter().find(|settled| settled.record == *record).map(|settled| settled.settlement.clone())
    }

    /// The records with an outcome in this request.
    pub(crate) fn deliveries(&self) -> impl Iterator<Item = Delivery> + '_ {
        let settled = self.settled.iter().map(|settled| settled.record.clone());
        settled.chain(self.acked.iter().flat_map(Block::deliveries))
    }

    pub(crate) fn room(&self) -> usize {
        ITEMS_MAX - self.items
    }

    pub(crate) fn settlements(self) -> impl Iterator<Item = Settled> {
        let acked: Vec<Delivery> = self.acked.iter().flat_map(Block::deliveries).collect();
        self.settled.into_iter().chain(acked.into_iter().map(|record| Settled { record, settlement: Settlement::ACK }))
    }
}
