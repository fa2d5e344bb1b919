// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kinesis-sidecar/kinesis-sidecar/client-stubs/go/internal/wire"
)

// A generous limit for what must happen.
const patience = 30 * time.Second

// A sidecar whose answers are scripted by the test.
type script struct {
	*httptest.Server
	streams chan *scriptedStream

	mu       sync.Mutex
	settle   func(body scriptedBody) (status int, answer string)
	settles  []scriptedBody
	tokens   []string // Of all requests.
	deletes  []string // Paths.
	refusals []int    // Statuses with which the next streams are refused.
	header   http.Header
}

type scriptedBody struct {
	Settlements []settlement
	Barrier     string
	Wait        string
}

const settledAnswer = `{"failed":[],"persisted":true}`

type scriptedStream struct {
	query  map[string][]string
	frames chan []byte
	ended  sync.Once
}

// LimitTest ends the process with all stacks if the test takes longer than a minute.
func LimitTest(t *testing.T) {
	timer := time.AfterFunc(time.Minute, func() { panic(t.Name() + " takes longer than a minute") })
	t.Cleanup(func() { timer.Stop() })
}

func newScript(t *testing.T) *script {
	LimitTest(t)
	s := &script{streams: make(chan *scriptedStream, 16), header: http.Header{}}
	s.settle = func(scriptedBody) (int, string) { return 200, settledAnswer }
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/records/stream", s.serveStream)
	mux.HandleFunc("POST /v1/records/settle", s.serveSettle)
	mux.HandleFunc("DELETE /v1/sessions/{id}", func(w http.ResponseWriter, r *http.Request) {
		s.note(func() { s.deletes = append(s.deletes, r.PathValue("id")) })
		io.WriteString(w, "{}")
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Server.CloseClientConnections)
	return s
}

func (s *script) note(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

func (s *script) serveStream(w http.ResponseWriter, r *http.Request) {
	refusal := 0
	s.note(func() {
		s.tokens = append(s.tokens, r.Header.Get("Authorization"))
		if len(s.refusals) > 0 {
			refusal, s.refusals = s.refusals[0], s.refusals[1:]
			for name := range s.header {
				w.Header().Set(name, s.header.Get(name))
			}
		}
	})
	if refusal != 0 {
		w.WriteHeader(refusal)
		kind := map[int]string{409: "ordering-conflict", 401: "unauthenticated"}[refusal]
		fmt.Fprintf(w, `{"type":"urn:kinesis-sidecar:problem:%s","code":"x","detail":"the sentence"}`, kind)
		return
	}
	stream := &scriptedStream{query: r.URL.Query(), frames: make(chan []byte, 64)}
	s.streams <- stream
	for {
		select {
		case frame, ok := <-stream.frames:
			if !ok {
				return
			}
			w.Write(frame)
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return
		}
	}
}

func (s *script) serveSettle(w http.ResponseWriter, r *http.Request) {
	var body scriptedBody
	json.NewDecoder(r.Body).Decode(&body)
	s.mu.Lock()
	s.settles = append(s.settles, body)
	s.tokens = append(s.tokens, r.Header.Get("Authorization"))
	settle := s.settle
	s.mu.Unlock()
	status, answer := settle(body)
	w.WriteHeader(status)
	io.WriteString(w, answer)
}

func (s *script) answer(settle func(scriptedBody) (int, string)) {
	s.note(func() { s.settle = settle })
}

// All settlements that were received, but for extensions.
func (s *script) settlements() (all []settlement) {
	s.note(func() {
		for _, body := range s.settles {
			for _, item := range body.Settlements {
				if item.Outcome != outcomeExtend {
					all = append(all, item)
				}
			}
		}
	})
	return all
}

// True if a settlement with these ids and this outcome was received.
func (s *script) has(id, outcome string) bool {
	return slices.ContainsFunc(s.settlements(), func(item settlement) bool {
		return item.AckID+item.BatchID == id && item.Outcome == outcome
	})
}

// Waits for the next stream and opens its session.
func (s *script) open(t *testing.T) *scriptedStream {
	t.Helper()
	return s.openWith(t, 1000)
}

func (s *script) openWith(t *testing.T, maxInFlight uint64) *scriptedStream {
	t.Helper()
	select {
	case stream := <-s.streams:
		stream.session(maxInFlight, 60000)
		return stream
	case <-time.After(patience):
		t.Fatal("no stream was opened")
		return nil
	}
}

func (s *scriptedStream) session(maxInFlight, heartbeatMs uint64) {
	session := wire.AppendBytes(nil, wire.SessionOpenedSession, "test")
	session = wire.AppendVarint(session, wire.SessionOpenedMaxInFlight, maxInFlight)
	session = wire.AppendVarint(session, wire.SessionOpenedMaxInFlightBytes, 16<<20)
	session = wire.AppendVarint(session, wire.SessionOpenedAckDeadlineMs, 60000)
	session = wire.AppendVarint(session, wire.SessionOpenedHeartbeatMs, heartbeatMs)
	s.event(wire.EventSession, session)
}

func (s *scriptedStream) write(bytes []byte) { s.frames <- bytes }

func (s *scriptedStream) event(number int, message []byte) {
	s.write(wire.AppendEvent(nil, number, message))
}

// Sends one record: "b1" is its batch, n its number and its data.
func (s *scriptedStream) record(batchID string, n, attempt int) {
	s.recordOf(batchID, n, attempt, 0, fmt.Append(nil, n))
}

func (s *scriptedStream) recordOf(batchID string, n, attempt int, lane uint64, data []byte) {
	s.event(wire.EventRecord, encodeRecord(batchID, n, attempt, lane, data))
}

func (s *scriptedStream) redriven(batchID string, n, attempt int) {
	message := encodeRecord(batchID, n, attempt, 0, fmt.Append(nil, n))
	s.event(wire.EventRecord, wire.AppendVarint(message, wire.RecordRedriven, 1))
}

func encodeRecord(batchID string, n, attempt int, lane uint64, data []byte) []byte {
	message := wire.AppendBytes(nil, wire.RecordAckID, fmt.Sprintf("%s-%d", batchID, n))
	message = wire.AppendBytes(message, wire.RecordBatchID, batchID)
	message = wire.AppendBytes(message, wire.RecordShardID, "shard")
	message = wire.AppendVarint(message, wire.RecordEpoch, 1)
	message = wire.AppendBytes(message, wire.RecordSequenceNumber, fmt.Sprint(n))
	message = wire.AppendBytes(message, wire.RecordPartitionKey, "key")
	message = wire.AppendVarint(message, wire.RecordAttempt, uint64(attempt))
	message = wire.AppendBytes(message, wire.RecordData, data)
	message = wire.AppendVarint(message, wire.RecordLane, lane)
	return wire.AppendVarint(message, 99, 1) // A member that the package does not know.
}

func (s *scriptedStream) heartbeat() { s.event(wire.EventHeartbeat, nil) }

func (s *scriptedStream) barrier(text string) {
	s.event(wire.EventBarrier, wire.AppendBytes(nil, wire.BarrierBarrier, text))
}

func (s *scriptedStream) leaseLost() {
	s.event(wire.EventLeaseLost, wire.AppendBytes(nil, wire.LeaseLostShardID, "shard"))
}

func (s *scriptedStream) drop() { s.ended.Do(func() { close(s.frames) }) }

// A consumer of the script, with its events.
type events struct {
	mu  sync.Mutex
	all []Event
}

func (e *events) add(event Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, event)
}

func (e *events) find(kind string) (found []Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, event := range e.all {
		if event.Type == kind {
			found = append(found, event)
		}
	}
	return found
}

func (s *script) consumer(t *testing.T, options ...Option) (*Consumer, *events) {
	seen := &events{}
	options = append([]Option{URL(s.URL), TokenFile(""), AckInterval(time.Millisecond), OnEvent(seen.add)}, options...)
	consumer := New("test", options...)
	t.Cleanup(func() { consumer.Close() })
	return consumer, seen
}

// A run in the background.
type testRun struct {
	stop context.CancelFunc
	err  chan error
}

func startRun(t *testing.T, consumer *Consumer, handler Handler, options ...RunOption) *testRun {
	ctx, stop := context.WithCancel(t.Context())
	run := &testRun{stop, make(chan error, 1)}
	go func() { run.err <- consumer.Run(ctx, handler, options...) }()
	return run
}

func (r *testRun) wait(t *testing.T) error {
	t.Helper()
	select {
	case err := <-r.err:
		return err
	case <-time.After(patience):
		t.Fatal("the run did not end")
		return nil
	}
}

func (r *testRun) end(t *testing.T) {
	t.Helper()
	r.stop()
	if err := r.wait(t); err != nil {
		t.Fatal(err)
	}
}

// Waits until a condition holds.
func eventually(t *testing.T, subject string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never happened: %s", subject)
		}
	}
}

// Remembers what was handled.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(format string, values ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf(format, values...))
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Join(j.lines, " ")
}

func (j *journal) has(line string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Contains(j.lines, line)
}

func (j *journal) handler(_ context.Context, record *Record) error {
	j.add("%s/%d", record.Data, record.Attempt)
	return nil
}
