// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
	"unsafe"

	"github.com/kinesis-sidecar/kinesis-sidecar/client-stubs/go/internal/wire"
)

const (
	bufferBytes    = 256 << 10
	bufferBytesMin = 32 << 10 // Less room is not worth a read.
	recordsMax     = 128      // Allocated at once: the runtime handles larger objects one by one.
)

var (
	errEnded   = errors.New("the sidecar ended the stream")
	errSilence = errors.New("three heartbeats were missed")
)

// The reader: opens the stream, and opens it again when it breaks.
func (c *Consumer) readStreams() {
	defer c.workers.Done()
	var wait backoff
	for {
		err := c.readStream(&wait)
		c.detached()
		if c.ctx.Err() != nil || c.isClosing() {
			return
		}
		if isFinal(err) {
			c.fail(err)
			return
		}
		pause := wait.next(err)
		c.emit(Event{Type: "disconnected", Reason: err.Error(), RetryIn: pause})
		if !sleep(c.ctx, pause) {
			return
		}
	}
}

// True if another attempt to connect would not help.
func isFinal(err error) bool {
	var refused *Error
	return errors.Is(err, ErrSessionTakenOver) || errors.As(err, &refused) && !refused.isTemporary()
}

func (c *Consumer) isClosing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closing
}

// Reads one stream to its end.
func (c *Consumer) readStream(wait *backoff) error {
	ctx, cancel := context.WithCancelCause(c.ctx)
	defer cancel(nil)
	stream := &stream{consumer: c, wait: wait, patience: c.config.firstByteWithin}
	stream.watchdog = time.AfterFunc(stream.patience, func() { cancel(errSilence) })
	defer stream.watchdog.Stop()
	path := "/v1/records/stream?" + c.config.query(c.clientID)
	answer, err := c.link.do(ctx, "GET", path, nil, "application/x-protobuf")
	if err == nil {
		err = stream.read(answer.Body)
		answer.Body.Close()
	}
	if context.Cause(ctx) == errSilence {
		return errSilence
	}
	return err
}

// One connection that brings records.
type stream struct {
	consumer *Consumer
	wait     *backoff
	watchdog *time.Timer
	patience time.Duration // How long nothing may be read.

	// Records keep parts of the buffer, so that it is never written twice.
	buffer   []byte
	begin    int // Of the bytes that are not decoded yet.
	end      int
	arrivals []arrival // Decoded, and not processed yet.
	records  []Record  // Allocated, and not used yet. They share the buffer, too.

	// The last texts, which are mostly the next ones, too.
	shardID, stream, batchID string
}

type arrival struct {
	record  *Record
	batchID string
}

func (s *stream) read(body io.Reader) error {
	s.buffer = make([]byte, bufferBytes)
	for {
		s.watchdog.Reset(s.patience)
		count, err := body.Read(s.buffer[s.end:])
		s.end += count
		if broken := s.decode(); broken != nil {
			return broken
		}
		if err == io.EOF {
			return errEnded
		}
		if err != nil {
			return err
		}
	}
}

// Decodes the messages that were read in full.
func (s *stream) decode() error {
	for {
		message, size, err := wire.Frame(s.buffer[s.begin:s.end])
		if err != nil {
			return err
		}
		if message == nil {
			s.enter()
			s.records = nil // The next ones are in another buffer.
			s.makeRoom(size)
			return nil
		}
		s.begin += size
		if err := s.decodeMessage(message); err != nil {
			return err
		}
	}
}

// Makes room for a message of so many bytes, and for more.
func (s *stream) makeRoom(size int) {
	if len(s.buffer)-s.end >= bufferBytesMin && len(s.buffer)-s.begin >= size {
		return
	}
	buffer := make([]byte, max(bufferBytes, size))
	s.end = copy(buffer, s.buffer[s.begin:s.end])
	s.buffer, s.begin = buffer, 0
}

func (s *stream) decodeMessage(message []byte) error {
	fields := wire.Read(message)
	for fields.Next() {
		if fields.Number == wire.EventRecord {
			if err := s.decodeRecord(fields.Bytes); err != nil {
				return err
			}
			continue
		}
		s.enter()
		event, err := decodeEvent(fields.Number, fields.Bytes)
		if err != nil {
			return err
		}
		if err := s.handle(event); err != nil {
			return err
		}
	}
	return fields.Err
}

func (s *stream) decodeRecord(message []byte) error {
	r := s.newRecord()
	fields := wire.Read(message)
	for fields.Next() {
		switch fields.Number {
		case wire.RecordAckID:
			r.ackID = fields.Bytes
		case wire.RecordBatchID:
			keep(&s.batchID, fields.Bytes)
		case wire.RecordStream:
			keep(&s.stream, fields.Bytes)
		case wire.RecordShardID:
			keep(&s.shardID, fields.Bytes)
		case wire.RecordEpoch:
			r.Epoch = fields.Value
		case wire.RecordSequenceNumber:
			r.SequenceNumber = text(fields.Bytes)
		case wire.RecordSubSequenceNumber:
			r.SubSequenceNumber = int64(fields.Value)
		case wire.RecordPartitionKey:
			r.PartitionKey = text(fields.Bytes)
		case wire.RecordApproximateArrivalTimestamp:
			r.ArrivedAt = instant(fields.Value)
		case wire.RecordAttempt:
			r.Attempt = int(fields.Value)
		case wire.RecordAggregated:
			r.Aggregated = fields.Value != 0
		case wire.RecordData:
			r.Data = fields.Bytes
		case wire.RecordRedriven:
			r.Redriven = fields.Value != 0
		case wire.RecordLane:
			r.laneNumber = uint32(fields.Value)
		}
	}
	r.Stream, r.ShardID = s.stream, s.shardID
	s.arrivals = append(s.arrivals, arrival{r, s.batchID})
	return fields.Err
}

// Returns an empty record. Records of one buffer are allocated together.
func (s *stream) newRecord() *Record {
	if len(s.records) == 0 {
		s.records = make([]Record, wire.Count(s.buffer[s.begin:s.end], recordsMax-1)+1)
	}
	r := &s.records[0]
	s.records = s.records[1:]
	return r
}

// Returns a part of the buffer as a text, without a copy. Nothing writes these bytes again.
func text(bytes []byte) string {
	return unsafe.String(unsafe.SliceData(bytes), len(bytes))
}

// Sets the text, and makes no new one if it is the same.
func keep(text *string, bytes []byte) {
	if *text != string(bytes) {
		*text = string(bytes)
	}
}

// Processes the records and events that were decoded.
func (s *stream) enter() {
	if len(s.arrivals) == 0 {
		return
	}
	c := s.consumer
	now := time.Now()
	c.mu.Lock()
	if slices.ContainsFunc(s.arrivals, func(a arrival) bool { return a.record.Attempt > 1 }) {
		c.expect(func(*Record) bool { return true })
	}
	for _, a := range s.arrivals {
		c.arrive(a.record, a.batchID, now)
	}
	for range min(c.idle, len(s.arrivals)) {
		c.work.Signal()
	}
	c.mu.Unlock()
	clear(s.arrivals)
	s.arrivals = s.arrivals[:0]
}

// Handles a control event.
func (s *stream) handle(event Event) error {
	c := s.consumer
	switch event.Type {
	case "session":
		s.wait.reset()
		c.opened(event)
		s.patience = heartbeatsMissed*c.limits.heartbeat + time.Second
	case "lease_lost":
		c.lost(event.ShardID)
	case "barrier":
		c.pass(event.Barrier)
	}
	c.emit(event)
	if event.Type == "ended" && event.Reason == "taken_over" {
		return fmt.Errorf("%w %s", ErrSessionTakenOver, c.clientID)
	}
	return nil
}
