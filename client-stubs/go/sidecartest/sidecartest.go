// SPDX-License-Identifier: Apache-2.0

// Package sidecartest has a sidecar for tests of apps. It lives in the memory of the test and opens no port.
//
//	fake := sidecartest.New()
//	fake.Put("customer-1", []byte(`{"total": 12}`))
//	err := fake.Consumer("orders").Run(fake.UntilSettled(t.Context()), handler)
//	outcomes := fake.Outcomes()
package sidecartest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	sidecar "github.com/kinesis-sidecar/kinesis-sidecar/client-stubs/go"
	"github.com/kinesis-sidecar/kinesis-sidecar/client-stubs/go/internal/wire"
)

// MaxAttempts is the number of failed deliveries after which a record becomes a dead letter.
const MaxAttempts = 3

const (
	shardID       = "shardId-000000000000"
	ackDeadlineMs = 60000
	heartbeatMs   = 60000
	lanes         = 64
)

// Outcome is what became of a record.
type Outcome struct {
	PartitionKey string
	Data         []byte
	Outcome      string // "ack", "drop" or "dead_letter"; "" while it has none.
	Reason       string // The last one of a retry or of a dead letter.
	Attempts     int    // Deliveries. A retry of an earlier record may take a delivery back.
}

type record struct {
	Outcome
	number   int
	out      bool // Delivered to the session and not settled.
	failures int
	batchID  string // Of the last delivery.
}

func (r *record) lane() uint64 { return uint64(crc32.ChecksumIEEE([]byte(r.PartitionKey))) % lanes }

func (r *record) ackID() string { return fmt.Sprintf("%s-%d", r.batchID, r.number) }

// Sidecar delivers the records that the test puts, in one shard. A retry is redelivered at once, whatever its delay.
type Sidecar struct {
	mu       sync.Mutex
	changed  sync.Cond
	records  []*record
	ordering string
	batches  int
	frames   []byte // To be written to the stream.
	stream   *io.PipeWriter
	ended    bool
}

// New makes a sidecar without records.
func New() *Sidecar {
	s := &Sidecar{}
	s.changed.L = &s.mu
	return s
}

// Put adds a record.
func (s *Sidecar) Put(partitionKey string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records = append(s.records, &record{
		Outcome: Outcome{PartitionKey: partitionKey, Data: data},
		number:  len(s.records) + 1,
	})
	s.deliver()
}

// Consumer makes a consumer of this sidecar.
func (s *Sidecar) Consumer(clientID string, options ...sidecar.Option) *sidecar.Consumer {
	options = append(slices.Clone(options), sidecar.URL("http://localhost"), sidecar.TokenFile(""),
		sidecar.Transport(s), sidecar.AckInterval(time.Millisecond))
	return sidecar.New(clientID, options...)
}

// UntilSettled returns a context that is done as soon as every record has an outcome.
func (s *Sidecar) UntilSettled(parent context.Context) context.Context {
	ctx, cancel := context.WithCancel(parent)
	stop := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changed.Broadcast()
	})
	go func() {
		defer cancel()
		defer stop()
		s.mu.Lock()
		defer s.mu.Unlock()
		for ctx.Err() == nil && slices.ContainsFunc(s.records, isOpen) {
			s.changed.Wait()
		}
	}()
	return ctx
}

// Outcomes returns the outcome of each record, in the order in which they were put.
func (s *Sidecar) Outcomes() []Outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	outcomes := make([]Outcome, len(s.records))
	for i, r := range s.records {
		outcomes[i] = r.Outcome
	}
	return outcomes
}

func isOpen(r *record) bool { return r.Outcome.Outcome == "" }

// RoundTrip answers a request of the consumer.
func (s *Sidecar) RoundTrip(request *http.Request) (*http.Response, error) {
	switch {
	case request.Method == http.MethodGet && request.URL.Path == "/v1/records/stream":
		return s.open(request), nil
	case request.Method == http.MethodPost && request.URL.Path == "/v1/records/settle":
		return s.settle(request)
	case request.Method == http.MethodDelete && strings.HasPrefix(request.URL.Path, "/v1/sessions/"):
		s.close()
		return answer(http.StatusOK, strings.NewReader("{}")), nil
	}
	return answer(http.StatusNotFound, strings.NewReader(`{"detail":"no such path"}`)), nil
}

func answer(status int, body io.Reader) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(body)}
}

func (s *Sidecar) open(request *http.Request) *http.Response {
	s.mu.Lock()
	defer s.mu.Unlock()
	query := request.URL.Query()
	s.ordering = query.Get("ordering")
	reader, writer := io.Pipe()
	s.stream, s.ended = writer, false
	session := wire.AppendBytes(nil, wire.SessionOpenedSession, query.Get("client_id"))
	session = wire.AppendVarint(session, wire.SessionOpenedAckDeadlineMs, ackDeadlineMs)
	session = wire.AppendVarint(session, wire.SessionOpenedHeartbeatMs, heartbeatMs)
	s.frames = wire.AppendEvent(nil, wire.EventSession, session)
	for _, r := range s.records {
		r.out = false
	}
	s.deliver()
	context.AfterFunc(request.Context(), func() { writer.CloseWithError(request.Context().Err()) })
	go s.write(writer)
	return answer(http.StatusOK, reader)
}

// Writes to one stream, until it ends.
func (s *Sidecar) write(stream *io.PipeWriter) {
	defer stream.Close()
	for {
		s.mu.Lock()
		for s.stream == stream && len(s.frames) == 0 && !s.ended {
			s.changed.Wait()
		}
		frames := s.frames
		if s.stream != stream || len(frames) == 0 {
			s.mu.Unlock()
			return
		}
		s.frames = nil
		s.mu.Unlock()
		if _, err := stream.Write(frames); err != nil {
			return
		}
	}
}

// Delivers all records that are not out, as one batch.
func (s *Sidecar) deliver() {
	if s.stream == nil || s.ended {
		return
	}
	s.batches++
	batchID := fmt.Sprintf("batch-%d", s.batches)
	for _, r := range s.records {
		if isOpen(r) && !r.out {
			r.out, r.batchID = true, batchID
			r.Attempts++
			s.frames = wire.AppendEvent(s.frames, wire.EventRecord, r.encode())
		}
	}
	s.changed.Broadcast()
}

func (r *record) encode() []byte {
	message := wire.AppendBytes(nil, wire.RecordAckID, r.ackID())
	message = wire.AppendBytes(message, wire.RecordBatchID, r.batchID)
	message = wire.AppendBytes(message, wire.RecordStream, "test")
	message = wire.AppendBytes(message, wire.RecordShardID, shardID)
	message = wire.AppendVarint(message, wire.RecordEpoch, 1)
	message = wire.AppendBytes(message, wire.RecordSequenceNumber, fmt.Sprint(r.number))
	message = wire.AppendBytes(message, wire.RecordPartitionKey, r.PartitionKey)
	message = wire.AppendVarint(message, wire.RecordApproximateArrivalTimestamp, uint64(time.Now().UnixMilli()))
	message = wire.AppendVarint(message, wire.RecordAttempt, uint64(r.Attempts))
	message = wire.AppendBytes(message, wire.RecordData, r.Data)
	return wire.AppendVarint(message, wire.RecordLane, r.lane())
}

type settlement struct {
	AckID   string `json:"ack_id"`
	BatchID string `json:"batch_id"`
	Outcome string `json:"outcome"`
	Reason  string `json:"reason"`
}

func (s *Sidecar) settle(request *http.Request) (*http.Response, error) {
	var body struct {
		Settlements []settlement `json:"settlements"`
		Barrier     string       `json:"barrier"`
	}
	if err := json.NewDecoder(request.Body).Decode(&body); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, item := range body.Settlements {
		for _, r := range s.records {
			if isOpen(r) && r.out && (r.batchID == item.BatchID || r.ackID() == item.AckID) {
				s.take(r, item)
			}
		}
	}
	if body.Barrier != "" {
		barrier := wire.AppendBytes(nil, wire.BarrierBarrier, body.Barrier)
		s.frames = wire.AppendEvent(s.frames, wire.EventBarrier, barrier)
	}
	s.deliver()
	return answer(http.StatusOK, strings.NewReader(`{"failed":[],"persisted":true}`)), nil
}

// Takes one outcome of one record.
func (s *Sidecar) take(r *record, item settlement) {
	r.Reason = cmp.Or(item.Reason, r.Reason)
	switch item.Outcome {
	case "retry":
		if r.failures++; r.failures == MaxAttempts {
			r.Outcome.Outcome = "dead_letter"
			return
		}
		for _, later := range s.records[r.number-1:] {
			later.out = later.out && later != r && !s.isBehind(later, r)
		}
	case "ack", "drop", "dead_letter":
		r.Outcome.Outcome = item.Outcome
	}
}

// True if the retry of a record takes the later one back.
func (s *Sidecar) isBehind(later, r *record) bool {
	switch s.ordering {
	case "key":
		return later.lane() == r.lane()
	case "none":
		return false
	}
	return true
}

func (s *Sidecar) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.changed.Broadcast()
}
