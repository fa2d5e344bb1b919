// SPDX-License-Identifier: Apache-2.0

// Package wire reads and writes the messages of the protobuf stream.
//
// The numbers are those of proto/kinesis_sidecar/v1/record.proto; a test compares them. Code that protoc-gen-go makes
// is not used: it registers the messages in the process, which panics if the app has its own copy of them, and it
// copies the data of every record.
package wire

import (
	"encoding/binary"
	"errors"
)

// Fields of StreamEvent: one for each kind of event.
const (
	EventSession        = 1
	EventRecord         = 2
	EventHeartbeat      = 3
	EventDraining       = 4
	EventLeaseReturning = 5
	EventLeaseLost      = 6
	EventEnded          = 7
	EventRecordTooLarge = 10
	EventBarrier        = 11
)

// Fields of Record.
const (
	RecordAckID                       = 1
	RecordBatchID                     = 2
	RecordStream                      = 3
	RecordShardID                     = 4
	RecordEpoch                       = 5
	RecordSequenceNumber              = 6
	RecordSubSequenceNumber           = 7
	RecordPartitionKey                = 8
	RecordApproximateArrivalTimestamp = 9
	RecordAttempt                     = 10
	RecordAggregated                  = 11
	RecordData                        = 12
	RecordRedriven                    = 13
	RecordLane                        = 14
)

// Fields of SessionOpened.
const (
	SessionOpenedSession          = 1
	SessionOpenedMaxInFlight      = 4
	SessionOpenedMaxInFlightBytes = 5
	SessionOpenedAckDeadlineMs    = 6
	SessionOpenedHeartbeatMs      = 7
)

// Fields of Heartbeat.
const (
	HeartbeatInFlight   = 1
	HeartbeatCredit     = 2
	HeartbeatIdleReason = 3
)

// Fields of Draining, LeaseReturning, LeaseLost, SessionEnded and Barrier.
const (
	DrainingDeadline       = 1
	LeaseReturningShardID  = 1
	LeaseReturningDeadline = 2
	LeaseLostShardID       = 1
	SessionEndedReason     = 1
	BarrierBarrier         = 1
)

// Fields of RecordTooLarge.
const (
	RecordTooLargeShardID        = 1
	RecordTooLargeSequenceNumber = 3
	RecordTooLargePartitionKey   = 5
	RecordTooLargeBytes          = 6
)

// Values of SessionEnd.
var SessionEnds = []string{"unspecified", "taken_over", "expired", "drained", "closed"}

// Values of IdleReason.
var IdleReasons = []string{"unspecified", "no_data", "no_leases", "flow_controlled", "paused", "draining", "throttled",
	"lane_blocked", "fenced", "no_sessions"}

// FrameMax is the largest message that is accepted, in bytes.
const FrameMax = 32 << 20

// Types of a field on the wire.
const (
	typeVarint = 0
	typeFixed8 = 1
	typeBytes  = 2
	typeFixed4 = 5
)

// ErrMalformed reports bytes that are not a message.
var ErrMalformed = errors.New("malformed protobuf message")

// ErrTooLarge reports a message larger than FrameMax.
var ErrTooLarge = errors.New("message larger than 32 MiB")

// Fields walks over the fields of a message:
//
//	for fields := wire.Read(message); fields.Next(); { switch fields.Number { .. } }
type Fields struct {
	Number int    // Of the field.
	Value  uint64 // Of a varint.
	Bytes  []byte // Of a text, of bytes or of a message: a part of the message that is read.
	End    int    // Offset of the first byte after the field.
	Err    error  // ErrMalformed after Next has returned false, if the message is malformed.

	message []byte
}

// Read begins at the first field.
func Read(message []byte) Fields {
	return Fields{message: message}
}

// Next moves to the next field. It returns false after the last one, and at the first malformed one.
func (f *Fields) Next() bool {
	if f.End == len(f.message) || f.Err != nil {
		return false
	}
	tag, ok := f.varint()
	if !ok {
		return false
	}
	f.Number = int(tag >> 3)
	f.Bytes = nil
	switch tag & 7 {
	case typeVarint:
		f.Value, ok = f.varint()
	case typeBytes:
		ok = f.bytes()
	case typeFixed8:
		ok = f.skip(8)
	case typeFixed4:
		ok = f.skip(4)
	default:
		ok = f.fail()
	}
	return ok
}

func (f *Fields) varint() (uint64, bool) {
	if f.End < len(f.message) && f.message[f.End] < 0x80 { // Most numbers have one byte.
		f.End++
		return uint64(f.message[f.End-1]), true
	}
	value, size := binary.Uvarint(f.message[f.End:])
	if size <= 0 {
		return 0, f.fail()
	}
	f.End += size
	return value, true
}

func (f *Fields) bytes() bool {
	size, ok := f.varint()
	if !ok || size > uint64(len(f.message)-f.End) {
		return f.fail()
	}
	begin := f.End
	f.End += int(size)
	f.Bytes = f.message[begin:f.End:f.End]
	return true
}

func (f *Fields) skip(size int) bool {
	if size > len(f.message)-f.End {
		return f.fail()
	}
	f.End += size
	return true
}

func (f *Fields) fail() bool {
	f.Err = ErrMalformed
	return false
}

// Frame returns the first message of the buffer, and how many bytes of the buffer it takes. The message is nil if more
// bytes are needed; size is then their number, counted from the begin of the buffer, or 0 if it is not known yet.
func Frame(buffer []byte) (message []byte, size int, err error) {
	length, prefix := binary.Uvarint(buffer)
	if prefix < 0 || length > FrameMax {
		return nil, 0, ErrTooLarge
	}
	if prefix == 0 {
		return nil, 0, nil
	}
	size = prefix + int(length)
	if size > len(buffer) {
		return nil, size, nil
	}
	return buffer[prefix:size:size], size, nil
}

// Count returns the number of complete messages at the front of the buffer, at most limit.
func Count(buffer []byte, limit int) (count int) {
	for count < limit {
		message, size, err := Frame(buffer)
		if err != nil || message == nil {
			break
		}
		buffer = buffer[size:]
		count++
	}
	return count
}

// AppendVarint appends a field that is a number, a boolean or an enum. Zero is the default and is not written.
func AppendVarint(message []byte, number int, value uint64) []byte {
	if value == 0 {
		return message
	}
	message = binary.AppendUvarint(message, uint64(number)<<3|typeVarint)
	return binary.AppendUvarint(message, value)
}

// AppendBytes appends a field that is a text, bytes or a message.
func AppendBytes[T string | []byte](message []byte, number int, value T) []byte {
	message = binary.AppendUvarint(message, uint64(number)<<3|typeBytes)
	message = binary.AppendUvarint(message, uint64(len(value)))
	return append(message, value...)
}

// AppendEvent appends a frame: a StreamEvent with one event, behind its length.
func AppendEvent(frames []byte, number int, event []byte) []byte {
	message := AppendBytes(nil, number, event)
	frames = binary.AppendUvarint(frames, uint64(len(message)))
	return append(frames, message...)
}
