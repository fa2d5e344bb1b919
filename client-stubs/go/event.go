// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"cmp"
	"time"

	"github.com/kinesis-sidecar/kinesis-sidecar/client-stubs/go/internal/wire"
)

// Event is a control event of the stream, or an event of the package. Members that its type does not have are zero.
type Event struct {
	// "session", "heartbeat", "draining", "lease_returning", "lease_lost", "record_too_large", "barrier" or "ended" of
	// the sidecar, "unknown" for any other event of the sidecar; "disconnected" or "settle_failed" of the package.
	Type string

	Session        string        // session: the name of the session.
	ShardID        string        // lease_returning, lease_lost, record_too_large.
	Deadline       time.Time     // draining, lease_returning: settlements are accepted until then.
	InFlight       int           // heartbeat: records delivered and not settled.
	Credit         int           // heartbeat: further records that may be delivered now.
	Barrier        string        // barrier: the text of the settle request.
	SequenceNumber string        // record_too_large.
	PartitionKey   string        // record_too_large.
	Bytes          int64         // record_too_large: data and partition key.
	AckID          string        // settle_failed: the id as it was sent, of a record or of a batch.
	RetryIn        time.Duration // disconnected: the time until the next attempt to connect.
	Number         int           // unknown: the number of the field in StreamEvent.
	Message        []byte        // unknown: the message of protobuf.

	// heartbeat: why nothing is delivered; ended: why the session ended; settle_failed: UNKNOWN, FENCED, EXPIRED,
	// SETTLED or MALFORMED; disconnected: the error.
	Reason string

	limits limits // session.
}

// The limits in force of a session.
type limits struct {
	maxInFlight            int
	maxBytes               int64
	ackDeadline, heartbeat time.Duration
}

// Replaces limits that are not known.
func (l limits) or(other limits) limits {
	return limits{
		maxInFlight: cmp.Or(l.maxInFlight, other.maxInFlight),
		maxBytes:    cmp.Or(l.maxBytes, other.maxBytes),
		ackDeadline: cmp.Or(l.ackDeadline, other.ackDeadline),
		heartbeat:   cmp.Or(l.heartbeat, other.heartbeat),
	}
}

// Decodes one event other than a record.
func decodeEvent(number int, message []byte) (Event, error) {
	event := Event{Type: "unknown", Number: number}
	fields := wire.Read(message)
	switch number {
	case wire.EventSession:
		event = Event{Type: "session"}
		readSession(&event, &fields)
	case wire.EventHeartbeat:
		event = Event{Type: "heartbeat"}
		readHeartbeat(&event, &fields)
	case wire.EventDraining:
		event = Event{Type: "draining"}
		for fields.Next() {
			if fields.Number == wire.DrainingDeadline {
				event.Deadline = instant(fields.Value)
			}
		}
	case wire.EventLeaseReturning:
		event = Event{Type: "lease_returning"}
		readLeaseReturning(&event, &fields)
	case wire.EventLeaseLost:
		event = Event{Type: "lease_lost"}
		event.ShardID = readText(&fields, wire.LeaseLostShardID)
	case wire.EventEnded:
		event = Event{Type: "ended"}
		for fields.Next() {
			if fields.Number == wire.SessionEndedReason {
				event.Reason = word(wire.SessionEnds, fields.Value)
			}
		}
	case wire.EventRecordTooLarge:
		event = Event{Type: "record_too_large"}
		readRecordTooLarge(&event, &fields)
	case wire.EventBarrier:
		event = Event{Type: "barrier"}
		event.Barrier = readText(&fields, wire.BarrierBarrier)
	default:
		// A copy: the message is a part of the buffer of the stream.
		event.Message = append([]byte(nil), message...)
	}
	return event, fields.Err
}

func readSession(event *Event, fields *wire.Fields) {
	for fields.Next() {
		switch fields.Number {
		case wire.SessionOpenedSession:
			event.Session = string(fields.Bytes)
		case wire.SessionOpenedMaxInFlight:
			event.limits.maxInFlight = int(fields.Value)
		case wire.SessionOpenedMaxInFlightBytes:
			event.limits.maxBytes = int64(fields.Value)
		case wire.SessionOpenedAckDeadlineMs:
			event.limits.ackDeadline = time.Duration(fields.Value) * time.Millisecond
		case wire.SessionOpenedHeartbeatMs:
			event.limits.heartbeat = time.Duration(fields.Value) * time.Millisecond
		}
	}
}

func readHeartbeat(event *Event, fields *wire.Fields) {
	for fields.Next() {
		switch fields.Number {
		case wire.HeartbeatInFlight:
			event.InFlight = int(fields.Value)
		case wire.HeartbeatCredit:
			event.Credit = int(fields.Value)
		case wire.HeartbeatIdleReason:
			event.Reason = word(wire.IdleReasons, fields.Value)
		}
	}
}

func readLeaseReturning(event *Event, fields *wire.Fields) {
	for fields.Next() {
		switch fields.Number {
		case wire.LeaseReturningShardID:
			event.ShardID = string(fields.Bytes)
		case wire.LeaseReturningDeadline:
			event.Deadline = instant(fields.Value)
		}
	}
}

func readRecordTooLarge(event *Event, fields *wire.Fields) {
	for fields.Next() {
		switch fields.Number {
		case wire.RecordTooLargeShardID:
			event.ShardID = string(fields.Bytes)
		case wire.RecordTooLargeSequenceNumber:
			event.SequenceNumber = string(fields.Bytes)
		case wire.RecordTooLargePartitionKey:
			event.PartitionKey = string(fields.Bytes)
		case wire.RecordTooLargeBytes:
			event.Bytes = int64(fields.Value)
		}
	}
}

func readText(fields *wire.Fields, number int) string {
	text := ""
	for fields.Next() {
		if fields.Number == number {
			text = string(fields.Bytes)
		}
	}
	return text
}

func word(words []string, value uint64) string {
	if value < uint64(len(words)) {
		return words[value]
	}
	return "unknown"
}

func instant(milliseconds uint64) time.Time {
	return time.UnixMilli(int64(milliseconds)).UTC()
}
