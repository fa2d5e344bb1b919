// SPDX-License-Identifier: Apache-2.0
use std::time::{Duration, SystemTime};

/// A control event of the stream, or of the consumer itself. See [`Builder::on_event`](crate::Builder::on_event).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A stream is open. The limits are those in force.
    Session {
        /// The session on the sidecar.
        session: String,
        /// The id of the sidecar process.
        boot_id: String,
        /// Maximum records delivered and not settled.
        max_in_flight: u32,
        /// The same in bytes.
        max_in_flight_bytes: u64,
        /// A record that is not settled or extended by then is redelivered.
        ack_deadline: Duration,
        /// The longest silence of a stream that works.
        heartbeat: Duration,
    },
    /// The sidecar wrote nothing for the heartbeat interval.
    Heartbeat {
        /// Records written to this session and not settled.
        in_flight: u32,
        /// Records that the sidecar may deliver now.
        credit: u32,
        /// Why it delivers none, as `no_data`; empty if it has no reason.
        idle_reason: String,
    },
    /// The sidecar gives all its shards back, and accepts settlements until the deadline.
    Draining {
        /// End of the hand-over.
        deadline: SystemTime,
    },
    /// A planned hand-over of one shard. The sidecar accepts its settlements until the deadline.
    LeaseReturning {
        /// The shard.
        shard_id: String,
        /// End of the hand-over.
        deadline: SystemTime,
    },
    /// The sidecar lost the lease of a shard. Records that are not settled are redelivered by its next owner.
    LeaseLost {
        /// The shard.
        shard_id: String,
    },
    /// A record is larger than the session accepts. It blocks its lane.
    RecordTooLarge {
        /// The shard.
        shard_id: String,
        /// The sequence number of the record.
        sequence_number: String,
        /// Its size: data and partition key.
        bytes: u64,
        /// The limit of the session.
        max_message_bytes: u64,
    },
    /// The sidecar ended the stream.
    Ended {
        /// `taken_over`, `expired`, `drained` or `closed`.
        reason: String,
    },
    /// An event that this version of the package does not know.
    Unknown,
    /// The connection is lost, or could not be made. The consumer connects again.
    Disconnected {
        /// The error of the connection, or the sentence of the sidecar.
        reason: String,
        /// The pause until the next attempt.
        retry_in: Duration,
    },
    /// The sidecar refused one settlement.
    SettleFailed {
        /// The id of the delivery.
        ack_id: String,
        /// `UNKNOWN`, `FENCED`, `EXPIRED`, `SETTLED` or `MALFORMED`.
        reason: String,
        /// The sentence of the sidecar.
        message: String,
    },
}
