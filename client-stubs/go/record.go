// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"cmp"
	"context"
	"encoding/json"
	"strings"
	"time"
)

// Record is one delivery of a record.
//
// Its methods settle it. The first outcome is final: further calls do nothing. They are safe for use by several
// goroutines.
type Record struct {
	// Data is what was put. It shares its memory with records that were received together: use [bytes.Clone] to keep
	// it for long.
	Data []byte

	PartitionKey   string
	Stream         string // Name or ARN, as the sidecar was told it.
	ShardID        string
	SequenceNumber string // See [CompareSequence].

	SubSequenceNumber int64  // Place in a KPL aggregate, from 0; 0 without one.
	Epoch             uint64 // Of the lease.
	Attempt           int    // Deliveries in this epoch, from 1.
	ArrivedAt         time.Time
	Aggregated        bool // A KPL aggregate that could not be taken apart.
	Redriven          bool // A dead letter that is delivered again.

	consumer *Consumer
	delivery
}

// The state of a record in its consumer. Guarded by the mutex of the consumer.
type delivery struct {
	ackID      []byte // Shares its memory with the data.
	laneNumber uint32 // In the shard.
	state      state
	left       bool // The app left the loop that handed it out, and it was queued again.
	batch      *batch
	lane       *lane       // nil: the record has no scope.
	decision   *settlement // nil: an acknowledgement, or none yet.
	arrival    uint64      // Number of the delivery, from 1, in the order of the stream.
	since      time.Time   // Of the first delivery that the app has; zero: that of the batch.
}

type state uint8

const (
	stateQueued  state = iota // Not handed out yet.
	stateRunning              // The app has it.
	stateDecided              // It has an outcome that is not sent yet.
	stateSent                 // Its outcome is in a request.
	stateGone                 // Not handed out: it is redelivered.
)

// True if the outcome is a retry. Once it is sent, it may cause a redelivery, which the app gets.
func (r *Record) isRetry() bool { return r.decision != nil && r.decision.Outcome == outcomeRetry }

const (
	outcomeAck        = "ack"
	outcomeRetry      = "retry"
	outcomeExtend     = "extend"
	outcomeDeadLetter = "dead_letter"
	outcomeDrop       = "drop"
)

// JSON parses the data.
func (r *Record) JSON(value any) error {
	return json.Unmarshal(r.Data, value)
}

// Ack acknowledges the record.
func (r *Record) Ack() {
	r.consumer.settle(r, settlement{Outcome: outcomeAck})
}

// AckPersisted acknowledges the record, waits until the checkpoint in the lease table covers it, for 10 s at most, and
// returns whether it does. The error reports a sidecar that gave no answer.
func (r *Record) AckPersisted(ctx context.Context) (bool, error) {
	return r.consumer.settlePersisted(ctx, r)
}

// Retry redelivers the record, not before the delay. With delay 0 the sidecar decides by its back-off.
func (r *Record) Retry(delay time.Duration, reason string) {
	r.consumer.settle(r, settlement{Outcome: outcomeRetry, DelayMs: delay.Milliseconds(), Reason: clean(reason)})
}

// DeadLetter gives the record up. The sidecar keeps it with the reason.
func (r *Record) DeadLetter(reason string) {
	r.consumer.settle(r, settlement{Outcome: outcomeDeadLetter, Reason: clean(reason)})
}

// Drop gives the record up. The sidecar does not keep it.
func (r *Record) Drop() {
	r.consumer.settle(r, settlement{Outcome: outcomeDrop})
}

// Extend moves the ack deadline to the duration from now. It is not an outcome.
func (r *Record) Extend(duration time.Duration) {
	r.consumer.extend(r, duration)
}

func (r *Record) position() position {
	return position{r.ShardID, r.SequenceNumber, r.SubSequenceNumber, r.Redriven}
}

// Names a record, whatever its delivery.
type position struct {
	shardID, sequenceNumber string
	subSequenceNumber       int64
	redriven                bool
}

// Returns a copy that has the place in the shard alone: the record would keep its buffer in memory.
func (r *Record) place() *Record {
	return &Record{SequenceNumber: strings.Clone(r.SequenceNumber), SubSequenceNumber: r.SubSequenceNumber}
}

// Compares two records of one shard.
func comparePositions(a, b *Record) int {
	return cmp.Or(CompareSequence(a.SequenceNumber, b.SequenceNumber), cmp.Compare(a.SubSequenceNumber, b.SubSequenceNumber))
}

// Cuts a reason to what the sidecar keeps, and makes it valid: one bad character would refuse the whole request.
func clean(reason string) string {
	reason = strings.ReplaceAll(reason, "\x00", "?")
	return strings.ToValidUTF8(reason[:min(len(reason), reasonBytesMax)], "")
}

// CompareSequence compares two sequence numbers as numbers. They are longer than any integer type.
func CompareSequence(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}
