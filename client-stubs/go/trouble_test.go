// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kinesis-sidecar/kinesis-sidecar/client-stubs/go/internal/wire"
)

func TestStream_that_is_refused_with_401_ends_the_run_with_the_error(t *testing.T) {
	s := newScript(t)
	s.refusals = []int{401}
	consumer, _ := s.consumer(t)

	err := startRun(t, consumer, new(journal).handler).wait(t)

	var refused *Error
	if !errors.As(err, &refused) || refused.Status != 401 || refused.Code != "unauthenticated" || refused.Message != "the sentence" {
		t.Fatalf("got %v", err)
	}
}

func TestStream_that_is_refused_for_a_while_is_opened_again(t *testing.T) {
	s := newScript(t)
	s.refusals = []int{503, 429, 409}
	s.header.Set("Retry-After", "0.3")
	consumer, events := s.consumer(t)
	var handled journal
	run := startRun(t, consumer, handled.handler)

	s.open(t).record("b1", 1, 1)

	eventually(t, "the record is handled", func() bool { return handled.has("1/1") })
	disconnected := events.find("disconnected")
	if len(disconnected) != 3 || !strings.Contains(disconnected[0].Reason, "the sentence") {
		t.Fatalf("got %+v", disconnected)
	}
	for _, event := range disconnected {
		if event.RetryIn < 300*time.Millisecond {
			t.Errorf("connects again in %v, before Retry-After", event.RetryIn)
		}
	}
	run.end(t)
}

func TestSidecar_that_is_not_there_yet_is_found_later(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	s := newScript(t)
	consumer, events := s.consumer(t, URL("http://"+address))
	run := startRun(t, consumer, new(journal).handler)
	eventually(t, "two attempts failed", func() bool { return len(events.find("disconnected")) >= 2 })

	listener, err = net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	go http.Serve(listener, s.Config.Handler)

	s.open(t)
	run.end(t)
	listener.Close()
}

func TestBatch_that_is_acknowledged_as_a_whole_goes_out_by_its_id(t *testing.T) {
	s := newScript(t)
	consumer, _ := s.consumer(t, AckInterval(time.Hour))
	var handled journal
	run := startRun(t, consumer, handled.handler)
	stream := s.open(t)
	stream.record("b1", 1, 1)
	stream.heartbeat()
	stream.record("b1", 2, 1)
	stream.record("b2", 3, 1)
	stream.heartbeat()
	eventually(t, "all are handled", func() bool { return handled.has("3/1") })

	run.end(t)

	want := []settlement{{BatchID: "b1", Outcome: "ack"}, {AckID: "b2-3", Outcome: "ack"}}
	if got := s.settlements(); !slices.Equal(got, want) {
		t.Errorf("got %+v", got)
	}
	if !slices.Equal(s.deletes, []string{"test"}) {
		t.Errorf("ended sessions %v", s.deletes)
	}
}

func TestSettle_request_without_answer_is_repeated(t *testing.T) {
	s := newScript(t)
	var calls atomic.Int32
	answered := make(chan struct{})
	s.answer(func(scriptedBody) (int, string) {
		switch calls.Add(1) {
		case 1:
			<-answered
		case 2:
			return 503, "{}"
		case 3:
			return 200, "not JSON"
		}
		return 200, settledAnswer
	})
	consumer, _ := s.consumer(t)
	consumer.config.answerTimeout = 100 * time.Millisecond
	run := startRun(t, consumer, new(journal).handler)
	stream := s.open(t)
	stream.record("b1", 1, 1)

	eventually(t, "the request is repeated", func() bool { return calls.Load() >= 4 })
	close(answered)
	run.end(t)

	if consumer.Stale() != 0 || consumer.Failed() != 0 {
		t.Errorf("stale %d, failed %d", consumer.Stale(), consumer.Failed())
	}
}

func TestSettlements_of_an_ended_session_are_counted_as_stale(t *testing.T) {
	for _, status := range []int{409, 410} {
		s := newScript(t)
		s.answer(func(scriptedBody) (int, string) {
			return status, `{"type":"urn:kinesis-sidecar:problem:session-fenced"}`
		})
		consumer, _ := s.consumer(t)
		run := startRun(t, consumer, new(journal).handler)
		stream := s.open(t)
		stream.record("b1", 1, 1)

		eventually(t, "the settlement is stale", func() bool { return consumer.Stale() == 1 })
		run.end(t)
	}
}

func TestSettlement_that_is_refused_is_counted_and_reported(t *testing.T) {
	s := newScript(t)
	s.answer(func(scriptedBody) (int, string) {
		return 200, `{"failed":[{"ack_id":"b1-1","reason":"FENCED","message":"m"}]}`
	})
	consumer, events := s.consumer(t)
	run := startRun(t, consumer, new(journal).handler)
	stream := s.open(t)
	stream.record("b1", 1, 1)

	eventually(t, "the failure is reported", func() bool { return len(events.find("settle_failed")) == 1 })
	run.end(t)
	event := events.find("settle_failed")[0]
	if consumer.Failed() != 1 || event.AckID != "b1-1" || event.Reason != "FENCED" {
		t.Errorf("failed %d, event %+v", consumer.Failed(), event)
	}
}

func TestOutcome_that_is_refused_with_400_ends_the_run_and_keeps_the_acknowledgements(t *testing.T) {
	s := newScript(t)
	s.answer(func(body scriptedBody) (int, string) {
		if slices.ContainsFunc(body.Settlements, func(item settlement) bool { return item.Outcome == outcomeDeadLetter }) {
			return 400, `{"type":"urn:kinesis-sidecar:problem:failed-precondition","detail":"no file for dead letters"}`
		}
		return 200, settledAnswer
	})
	consumer, _ := s.consumer(t, AckInterval(time.Hour))
	run := startRun(t, consumer, func(_ context.Context, record *Record) error {
		if string(record.Data) == "2" {
			return DeadLetter(errors.New("no use"))
		}
		return nil
	})
	stream := s.open(t)
	stream.record("b1", 1, 1)
	stream.record("b1", 2, 1)

	err := run.wait(t)

	if err == nil || !strings.Contains(err.Error(), "no file for dead letters") {
		t.Errorf("got %v", err)
	}
	if !s.has("b1-1", "ack") {
		t.Errorf("got %+v", s.settlements())
	}
	if slices.ContainsFunc(s.settles, func(body scriptedBody) bool { return len(body.Settlements) > 1 }) {
		t.Error("the acknowledgement is in the request that was refused")
	}
}

func TestBroken_frames_and_lost_connections_lead_to_a_new_stream(t *testing.T) {
	troubles := map[string]func(*scriptedStream){
		"malformed message": func(stream *scriptedStream) { stream.write([]byte{2, 0xff, 0xff}) },
		"malformed record":  func(stream *scriptedStream) { stream.event(wire.EventRecord, []byte{0x0a, 0x7f}) },
		"too large":         func(stream *scriptedStream) { stream.write([]byte{0xff, 0xff, 0xff, 0xff, 0x0f}) },
		"end":               func(stream *scriptedStream) { stream.drop() },
		"half a message":    func(stream *scriptedStream) { stream.write([]byte{100, 1, 2, 3}); stream.drop() },
		"silence":           func(stream *scriptedStream) { stream.session(1000, 1) },
	}
	for name, trouble := range troubles {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			consumer, events := s.consumer(t)
			var handled journal
			run := startRun(t, consumer, handled.handler)
			stream := s.open(t)

			trouble(stream)

			s.open(t).record("b2", 2, 1)
			eventually(t, "the record is handled", func() bool { return handled.has("2/1") })
			if len(events.find("disconnected")) == 0 {
				t.Error("no event reports the disconnection")
			}
			run.end(t)
		})
	}
}

func TestRecord_that_is_redelivered_while_its_handler_runs_is_settled_by_it(t *testing.T) {
	s := newScript(t)
	consumer, _ := s.consumer(t)
	release := make(chan struct{})
	var handled journal
	run := startRun(t, consumer, func(ctx context.Context, record *Record) error {
		handled.handler(ctx, record)
		if string(record.Data) == "1" {
			<-release
		}
		return nil
	}, Concurrency(4))
	first := s.open(t)
	first.record("b1", 1, 1)
	first.record("b1", 2, 1)
	eventually(t, "the handler runs", func() bool { return handled.has("1/1") })
	first.drop()
	second := s.open(t)
	second.record("b2", 1, 1)
	second.record("b2", 2, 1)
	second.record("b3", 3, 1)
	eventually(t, "the redelivery is known", func() bool {
		consumer.mu.Lock()
		defer consumer.mu.Unlock()
		return consumer.arrivals == 5
	})
	close(release)

	eventually(t, "the rest is handled", func() bool { return handled.has("3/1") })
	run.end(t)

	if got := handled.String(); got != "1/1 2/1 3/1" {
		t.Errorf("handled %s", got)
	}
	if !s.has("b2", "ack") && !s.has("b2-1", "ack") {
		t.Errorf("got %+v", s.settlements())
	}
	if consumer.Stale() != 0 {
		t.Errorf("stale %d", consumer.Stale())
	}
}

func TestOutcome_that_was_not_confirmed_settles_the_redelivery(t *testing.T) {
	for outcome, handle := range map[string]func(*Record){"ack": (*Record).Ack, "drop": (*Record).Drop} {
		s := newScript(t)
		s.answer(unavailable)
		consumer, _ := s.consumer(t)
		var handled journal
		run := startRun(t, consumer, func(ctx context.Context, record *Record) error {
			if string(record.Data) == "1" {
				handle(record)
			}
			return handled.handler(ctx, record)
		})
		first := s.open(t)
		first.record("b1", 1, 1)
		eventually(t, "the outcome is sent", func() bool { return s.has("b1-1", outcome) })
		first.drop()
		second := s.open(t)
		eventually(t, "a second session", func() bool { return consumer.hasSession(2) })
		s.answer(settled)
		second.record("b2", 1, 2)
		second.record("b2", 2, 1)

		eventually(t, "the redelivery is settled", func() bool { return s.has("b2-1", outcome) })
		eventually(t, "the next one is handled", func() bool { return handled.has("2/1") })
		run.end(t)
		if got := handled.String(); got != "1/1 2/1" || consumer.Stale() != 0 {
			t.Errorf("handled %s, stale %d", got, consumer.Stale())
		}
	}
}

// Hands out one record, opens a second session, and returns its stream.
func outlive(t *testing.T, s *script, consumer *Consumer) (*Record, *scriptedStream) {
	t.Helper()
	streams := make(chan *scriptedStream, 1)
	go func() {
		stream := s.open(t)
		stream.record("b1", 1, 1)
		streams <- stream
	}()
	for record, err := range consumer.Records(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		(<-streams).drop()
		return record, s.open(t)
	}
	return nil, nil
}

func (c *Consumer) hasSession(number uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.generation == number
}

func TestOutcome_before_the_redelivery_settles_it(t *testing.T) {
	s := newScript(t)
	consumer, _ := s.consumer(t)
	record, stream := outlive(t, s, consumer)
	eventually(t, "a new session", func() bool { return consumer.hasSession(2) })

	record.Retry(0, "again")
	record.Ack()
	stream.record("b2", 1, 2)

	eventually(t, "the redelivery is retried", func() bool { return s.has("b2-1", "retry") })
	if consumer.Stale() != 0 || len(s.settlements()) != 1 {
		t.Errorf("stale %d, settled %+v", consumer.Stale(), s.settlements())
	}
}

func TestRecord_that_the_app_has_is_kept_over_two_sessions(t *testing.T) {
	s := newScript(t)
	consumer, _ := s.consumer(t)
	record, second := outlive(t, s, consumer)
	second.drop()
	third := s.open(t)
	third.record("b3", 1, 3)
	eventually(t, "the redelivery is known", func() bool {
		consumer.mu.Lock()
		defer consumer.mu.Unlock()
		return consumer.arrivals == 2
	})

	record.Ack()

	eventually(t, "the redelivery is settled", func() bool { return s.has("b3-1", "ack") })
}

func TestBatch_that_the_connection_cut_is_not_acknowledged_as_a_whole(t *testing.T) {
	s := newScript(t)
	consumer, _ := s.consumer(t, AckInterval(time.Hour))
	var handled journal
	run := startRun(t, consumer, handled.handler)
	stream := s.open(t)
	stream.record("b1", 1, 1)
	eventually(t, "the record is handled", func() bool { return handled.has("1/1") })

	stream.drop()

	eventually(t, "the record is acknowledged", func() bool { return s.has("b1-1", "ack") })
	s.open(t)
	run.end(t)
}

func TestLost_connection_takes_the_records_that_wait(t *testing.T) {
	s := newScript(t)
	consumer, events := s.consumer(t)
	var handled journal
	release := make(chan struct{})
	run := startRun(t, consumer, func(ctx context.Context, record *Record) error {
		handled.handler(ctx, record)
		<-release
		return nil
	})
	stream := s.open(t)
	stream.record("b1", 1, 1)
	stream.record("b1", 2, 1)
	eventually(t, "the handler runs", func() bool { return handled.has("1/1") })
	eventually(t, "the other record waits", func() bool {
		consumer.mu.Lock()
		defer consumer.mu.Unlock()
		return consumer.arrivals == 2
	})
	stream.drop()
	eventually(t, "the connection is lost", func() bool { return len(events.find("disconnected")) == 1 })
	close(release)
	eventually(t, "the record is acknowledged", func() bool { return s.has("b1-1", "ack") })

	stream = s.open(t)
	stream.record("b2", 2, 2)

	eventually(t, "the redelivery is handled", func() bool { return handled.has("2/2") })
	run.end(t)
	if got := handled.String(); got != "1/1 2/2" {
		t.Errorf("handled %s", got)
	}
}

func TestLost_lease_takes_its_records(t *testing.T) {
	s := newScript(t)
	consumer, events := s.consumer(t)
	var handled journal
	release := make(chan struct{})
	run := startRun(t, consumer, func(ctx context.Context, record *Record) error {
		handled.handler(ctx, record)
		<-release
		return nil
	})
	stream := s.open(t)
	stream.record("b1", 1, 1)
	stream.record("b1", 2, 1)
	eventually(t, "the handler runs", func() bool { return handled.has("1/1") })
	stream.leaseLost()
	eventually(t, "the lease is lost", func() bool { return len(events.find("lease_lost")) == 1 })

	close(release)
	stream.record("b2", 3, 1)

	eventually(t, "the rest is handled", func() bool { return handled.has("3/1") })
	run.end(t)
	if got := handled.String(); got != "1/1 3/1" {
		t.Errorf("handled %s", got)
	}
}

func TestSession_that_is_taken_over_ends_the_run_and_is_left_alone(t *testing.T) {
	s := newScript(t)
	consumer, _ := s.consumer(t)
	run := startRun(t, consumer, new(journal).handler)

	s.open(t).event(wire.EventEnded, wire.AppendVarint(nil, wire.SessionEndedReason, 1))

	if err := run.wait(t); !errors.Is(err, ErrSessionTakenOver) {
		t.Fatalf("got %v", err)
	}
	if len(s.streams) != 0 || len(s.deletes) != 0 {
		t.Errorf("%d streams opened, sessions %v ended", len(s.streams), s.deletes)
	}
}

func TestToken_file_is_read_for_every_stream_and_every_settle_request(t *testing.T) {
	s := newScript(t)
	path := filepath.Join(t.TempDir(), "token")
	write := func(token string) {
		if err := os.WriteFile(path, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	consumer, _ := s.consumer(t, TokenFile(path))
	run := startRun(t, consumer, new(journal).handler)
	stream := s.open(t)
	write("two")
	stream.record("b1", 1, 1)
	eventually(t, "the record is settled", func() bool { return s.has("b1-1", "ack") })
	write("three")
	stream.drop()
	s.open(t)

	run.end(t)

	if want := []string{"Bearer one", "Bearer two", "Bearer three"}; !slices.Equal(s.tokens, want) {
		t.Errorf("got %v", s.tokens)
	}
}

func TestData_that_is_not_JSON_is_a_failure_of_the_handler(t *testing.T) {
	s := newScript(t)
	consumer, _ := s.consumer(t)
	run := startRun(t, consumer, func(_ context.Context, record *Record) error {
		var value any
		return record.JSON(&value)
	})

	s.open(t).recordOf("b1", 1, 1, 0, []byte("{"))

	eventually(t, "the record is retried", func() bool { return s.has("b1-1", "retry") })
	run.end(t)
	if reason := s.settlements()[0].Reason; !strings.Contains(reason, "JSON") {
		t.Errorf("got the reason %q", reason)
	}
}

func TestUnknown_event_is_reported_and_ignored(t *testing.T) {
	s := newScript(t)
	consumer, events := s.consumer(t)
	var handled journal
	run := startRun(t, consumer, handled.handler)
	stream := s.open(t)

	stream.event(77, []byte("news"))
	stream.record("b1", 1, 1)

	eventually(t, "the record is handled", func() bool { return handled.has("1/1") })
	run.end(t)
	unknown := events.find("unknown")
	if len(unknown) != 1 || unknown[0].Number != 77 || string(unknown[0].Message) != "news" {
		t.Errorf("got %+v", unknown)
	}
}

func TestRecord_of_10_MiB_is_delivered(t *testing.T) {
	s := newScript(t)
	consumer, _ := s.consumer(t)
	data := bytes.Repeat([]byte("x"), 10<<20)
	var size atomic.Int64
	run := startRun(t, consumer, func(_ context.Context, record *Record) error {
		if bytes.Equal(record.Data, data) {
			size.Store(int64(len(record.Data)))
		}
		return nil
	})

	s.open(t).recordOf("b1", 1, 1, 0, data)

	eventually(t, "the record is handled", func() bool { return size.Load() == 10<<20 })
	run.end(t)
}

// A run whose record 1 of attempt 1 fails while 2 and 3 wait behind it.
func TestExtension_names_batches_and_leaves_out_what_is_too_old(t *testing.T) {
	s := newScript(t)
	consumer, _ := s.consumer(t, MaxProcessing(time.Hour))
	if err := consumer.start(0); err != nil {
		t.Fatal(err)
	}
	stream := s.open(t)
	stream.record("b1", 1, 1)
	stream.record("b1", 2, 1)
	stream.record("b2", 3, 1)
	eventually(t, "the records are known", func() bool {
		consumer.mu.Lock()
		defer consumer.mu.Unlock()
		return consumer.arrivals == 3
	})
	consumer.mu.Lock()
	defer consumer.mu.Unlock()
	consumer.batches[0].since = consumer.batches[1].since.Add(-2 * time.Hour)

	got := consumer.collectExtensions(consumer.extendAt).Settlements

	want := []settlement{{BatchID: "b2", Outcome: "extend", DelayMs: 60000}}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v", got)
	}
}

func TestLeaving_a_loop_settles_nothing(t *testing.T) {
	s := newScript(t)
	consumer, _ := s.consumer(t)
	go func() {
		stream := s.open(t)
		for n := range 3 {
			stream.record("b1", n, 1)
		}
	}()
	for record, err := range consumer.Records(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if string(record.Data) == "1" {
			break
		}
	}

	consumer.Close()

	if got, want := s.settlements(), []settlement{{AckID: "b1-0", Outcome: "ack"}}; !slices.Equal(got, want) {
		t.Errorf("got %+v", got)
	}
	if !slices.Equal(s.deletes, []string{"test"}) {
		t.Errorf("ended sessions %v", s.deletes)
	}
	for _, err := range consumer.Records(t.Context()) {
		if err != ErrClosed {
			t.Errorf("got %v of a closed consumer", err)
		}
	}
}

func TestBatches_hand_out_what_came_within_the_wait(t *testing.T) {
	s := newScript(t)
	consumer, _ := s.consumer(t, AckInterval(time.Hour))
	go func() {
		stream := s.open(t)
		for n := range 5 {
			stream.record("b1", n, 1)
		}
		stream.heartbeat()
	}()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	count := 0
	for batch, err := range consumer.Batches(ctx, 3, 50*time.Millisecond) {
		if err != nil {
			t.Fatal(err)
		}
		if len(batch.Records) > 3 {
			t.Errorf("a batch of %d records", len(batch.Records))
		}
		batch.Records[0].Drop()
		if count += len(batch.Records); count == 5 {
			batch.Retry(time.Second, "again")
			stop()
		}
	}

	consumer.Close()

	outcomes := map[string]int{}
	for _, item := range s.settlements() {
		outcomes[item.Outcome]++
	}
	if outcomes["drop"] < 2 || outcomes["drop"]+outcomes["ack"]+outcomes["retry"] != 5 {
		t.Errorf("got %v", outcomes)
	}
}

func TestInvalid_options_are_reported_by_the_first_read(t *testing.T) {
	for _, consumer := range []*Consumer{
		New(""), New("a", URL("ftp://x")), New("a", MaxInFlight(0)), New("a", AckDeadline(0)), New("a", MaxInFlightBytes(0)),
	} {
		if err := consumer.Run(t.Context(), new(journal).handler); err == nil {
			t.Errorf("%+v was accepted", consumer.config)
		}
	}
}

func TestReason_is_made_valid_and_cut(t *testing.T) {
	if got := clean("a\x00b\xff"); got != "a?b" {
		t.Errorf("got %q", got)
	}
	if got := clean(strings.Repeat("ü", 600)); len(got) != 1000 {
		t.Errorf("got %d bytes", len(got))
	}
	if got := clean("x" + strings.Repeat("ü", 600)); len(got) != 999 {
		t.Errorf("got %d bytes", len(got))
	}
}

func TestSequence_numbers_are_compared_as_numbers(t *testing.T) {
	if CompareSequence("9", "10") >= 0 || CompareSequence("11", "10") <= 0 || CompareSequence("7", "7") != 0 {
		t.Error("compared as text")
	}
}

func TestClose_gives_up_on_a_sidecar_that_does_not_answer(t *testing.T) {
	s := newScript(t)
	s.answer(func(scriptedBody) (int, string) { return 503, "{}" })
	consumer, _ := s.consumer(t)
	consumer.config.closeTimeout = 100 * time.Millisecond
	run := startRun(t, consumer, new(journal).handler)
	s.open(t).record("b1", 1, 1)
	eventually(t, "the acknowledgement was sent", func() bool { return s.has("b1-1", "ack") })

	run.end(t)

	if consumer.Stale() != 1 {
		t.Errorf("stale %d", consumer.Stale())
	}
}
