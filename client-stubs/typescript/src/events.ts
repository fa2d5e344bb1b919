// SPDX-License-Identifier: Apache-2.0

/** First on every connection: the session, and its limits in force. */
export interface SessionEvent {
    type: "session";
    session: string;
    clientId: string;
    bootId: string;
    maxInFlight: number;
    maxInFlightBytes: number;
    ackDeadlineMs: number;
    heartbeatMs: number;
}

/** Control event of the stream. */
export type ControlEvent =
    | SessionEvent
    /** The sidecar wrote nothing for a while, for the reason `idleReason`. */
    | { type: "heartbeat"; inFlight: number; credit: number; idleReason: string }
    /** The sidecar gives all its leases back. It accepts settlements until `deadline`. */
    | { type: "draining"; deadline: Date }
    /** A planned hand-over of one shard. The sidecar accepts its settlements until `deadline`. */
    | { type: "lease_returning"; shardId: string; deadline: Date }
    /** The sidecar does not hold the shard any more. Its unsettled records are redelivered by the next owner. */
    | { type: "lease_lost"; shardId: string }
    /** The sidecar ends the session: `taken_over`, `expired`, `drained` or `closed`. */
    | { type: "ended"; reason: string }
    /** A record is larger than a message may be. It blocks its lane. */
    | {
          type: "record_too_large";
          shardId: string;
          epoch: number;
          sequenceNumber: string;
          subSequenceNumber: number;
          partitionKey: string;
          bytes: number;
          maxMessageBytes: number;
          maxMessageBytesWanted: number;
      }
    /** The sidecar processed the settle request with this barrier. */
    | { type: "barrier"; barrier: string }
    /** An event of a newer sidecar: member number `field` of `StreamEvent`. */
    | { type: "unknown"; field: number };

/** What `onEvent` gets: control events of the stream, and events of the package itself. */
export type ConsumerEvent =
    | ControlEvent
    /** There is no connection to the sidecar. The package connects again in `retryInMs`. */
    | { type: "disconnected"; reason: string; retryInMs: number }
    /** The sidecar refused one settlement. `ackId` is the batch id if a whole batch was acknowledged. */
    | { type: "settle_failed"; ackId: string; reason: string; message: string };
