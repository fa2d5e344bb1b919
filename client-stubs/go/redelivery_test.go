// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

func (c *Consumer) hasArrivals(count uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.arrivals == count
}

func (c *Consumer) keeps(position position) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.adoptable[position] != nil
}

func TestRecord_whose_time_is_over_is_not_extended_by_its_redelivery(t *testing.T) {
	s := newScript(t)
	consumer, _ := s.consumer(t, MaxProcessing(time.Hour))
	if err := consumer.start(0); err != nil {
		t.Fatal(err)
	}
	stream := s.open(t)
	stream.record("b1", 1, 1)
	consumer.mu.Lock()
	consumer.next(func() bool { return false })
	consumer.batches[0].since = consumer.batches[0].since.Add(-2 * time.Hour)
	consumer.mu.Unlock()
	stream.record("b2", 1, 2)
	for n := 2; n <= 5; n++ {
		stream.record("b2", n, 1)
	}
	stream.record("b3", 5, 2)
	eventually(t, "the redeliveries are known", func() bool { return consumer.hasArrivals(7) })
	consumer.mu.Lock()
	defer consumer.mu.Unlock()
	consumer.batches[1].records[2].state = stateDecided

	got := consumer.collectExtensions(consumer.extendAt).Settlements

	var names []string
	for _, item := range got {
		names = append(names, item.AckID+item.BatchID)
	}
	if want := []string{"b2-2", "b2-4", "b3"}; !slices.Equal(names, want) {
		t.Errorf("got %v", names)
	}
}

func unavailable(scriptedBody) (int, string) { return 503, "{}" }

func settled(scriptedBody) (int, string) { return 200, settledAnswer }

func TestOutcome_that_two_sessions_did_not_confirm_settles_the_redelivery(t *testing.T) {
	for outcome, handle := range map[string]func(*Record){"ack": (*Record).Ack, "drop": (*Record).Drop} {
		for _, isSilent := range []bool{true, false} {
			s := newScript(t)
			s.answer(unavailable)
			consumer, _ := s.consumer(t)
			var handled journal
			run := startRun(t, consumer, func(ctx context.Context, record *Record) error {
				handle(record)
				return handled.handler(ctx, record)
			})
			first := s.open(t)
			first.record("b1", 1, 1)
			eventually(t, "the outcome is sent", func() bool { return s.has("b1-1", outcome) })
			first.record("b0", 2, 1)
			eventually(t, "the second record is handled", func() bool { return handled.has("2/1") })
			first.drop()
			second := s.open(t)
			eventually(t, "a second session", func() bool { return consumer.hasSession(2) })
			if !isSilent {
				second.record("b2", 1, 2)
				eventually(t, "the outcome is sent again", func() bool { return s.has("b2-1", outcome) })
			}
			second.drop()
			third := s.open(t)
			eventually(t, "a third session", func() bool { return consumer.hasSession(3) })
			s.answer(settled)
			third.record("b3", 1, 3)
			third.record("b3", 2, 2)
			third.record("b3", 3, 1)

			eventually(t, "the redelivery is settled", func() bool { return s.has("b3-1", outcome) })
			eventually(t, "the next one is handled", func() bool { return handled.has("3/1") })
			run.end(t)
			if got := handled.String(); got != "1/1 2/1 3/1" || consumer.Stale() != 0 {
				t.Errorf("%s: handled %s, stale %d", outcome, got, consumer.Stale())
			}
		}
	}
}

func TestOutcome_that_is_decided_in_a_silent_session_settles_the_redelivery_in_the_next(t *testing.T) {
	s := newScript(t)
	consumer, _ := s.consumer(t)
	record, second := outlive(t, s, consumer)
	eventually(t, "a second session", func() bool { return consumer.hasSession(2) })
	record.Drop()

	second.drop()
	s.open(t).record("b3", 1, 2)

	eventually(t, "the redelivery is settled", func() bool { return s.has("b3-1", "drop") })
	if consumer.Stale() != 0 {
		t.Errorf("stale %d", consumer.Stale())
	}
}

func TestRecord_that_the_app_has_is_kept_over_a_session_that_delivers_later_records(t *testing.T) {
	s := newScript(t)
	consumer, _ := s.consumer(t)
	record, second := outlive(t, s, consumer)
	second.record("b2", 2, 1)
	eventually(t, "the second session delivers a later record", func() bool { return consumer.hasArrivals(2) })
	second.drop()
	s.open(t).record("b3", 1, 2)
	eventually(t, "the redelivery is known", func() bool { return consumer.hasArrivals(3) })

	record.Ack()

	eventually(t, "the redelivery is settled", func() bool { return s.has("b3-1", "ack") })
}

func TestOutcome_is_forgotten_after_a_session_that_delivered_later_records_alone(t *testing.T) {
	s := newScript(t)
	consumer, _ := s.consumer(t)
	record, second := outlive(t, s, consumer)
	second.redriven("b2", 9, 2)
	eventually(t, "the second session delivers a dead letter", func() bool { return consumer.hasArrivals(2) })
	record.Drop()
	second.drop()
	third := s.open(t)
	third.record("b3", 2, 1)
	eventually(t, "the third session delivers a later record", func() bool { return consumer.hasArrivals(3) })
	if !consumer.keeps(record.position()) {
		t.Error("a dead letter made the consumer forget a record")
	}

	third.drop()
	s.open(t)

	eventually(t, "a fourth session", func() bool { return consumer.hasSession(4) })
	if consumer.keeps(record.position()) || consumer.Stale() != 1 {
		t.Errorf("stale %d", consumer.Stale())
	}
}

func TestRedriven_record_is_handed_out_though_its_first_outcome_was_not_confirmed(t *testing.T) {
	s := newScript(t)
	s.answer(unavailable)
	consumer, _ := s.consumer(t)
	var handled journal
	run := startRun(t, consumer, func(ctx context.Context, record *Record) error {
		record.DeadLetter("no use")
		return handled.handler(ctx, record)
	})
	stream := s.open(t)
	stream.record("b1", 1, 1)
	eventually(t, "the outcome is sent", func() bool { return s.has("b1-1", "dead_letter") })
	for session, batchID := range []string{"b2", "b3", "b4"} {
		stream.drop()
		stream = s.open(t)
		eventually(t, "a further session", func() bool { return consumer.hasSession(uint64(session + 2)) })
		if session != 1 { // The third session delivers nothing: the consumer forgets the record when it ends.
			stream.redriven(batchID, 1, session+2)
			eventually(t, "the dead letter is settled", func() bool { return s.has(batchID+"-1", "dead_letter") })
		}
	}
	s.answer(settled)

	run.end(t)

	if got := handled.String(); got != "1/1 1/2 1/4" {
		t.Errorf("handled %s", got)
	}
}

// Makes the first request with a retry end without an answer. Further ones wait for `release`.
func (s *script) cutRetry(release chan struct{}, answer string) {
	cut := false
	s.answer(func(body scriptedBody) (int, string) {
		if body.Settlements[0].Outcome != outcomeRetry {
			return 200, settledAnswer
		}
		if !cut {
			cut = true
			panic(http.ErrAbortHandler)
		}
		<-release
		return 200, answer
	})
}

// A run in which the retry of record 1 is sent the second time, and record 2 is queued.
type repeatedRetry struct {
	*testRun
	script   *script
	consumer *Consumer
	events   *events
	stream   *scriptedStream
	handled  journal
	release  chan struct{} // Lets the sidecar answer.
}

func startRepeatedRetry(t *testing.T, reason string) *repeatedRetry {
	s := newScript(t)
	r := &repeatedRetry{script: s, release: make(chan struct{})}
	s.cutRetry(r.release, `{"failed":[{"ack_id":"b1-1","reason":"`+reason+`"}]}`)
	r.consumer, r.events = s.consumer(t)
	r.testRun = startRun(t, r.consumer, func(ctx context.Context, record *Record) error {
		r.handled.handler(ctx, record)
		if r.handled.String() == "1/1" {
			record.Retry(0, "fail 1")
		}
		return nil
	})
	r.stream = s.open(t)
	r.stream.record("b1", 1, 1)
	r.stream.record("b1", 2, 1)
	eventually(t, "the retry is repeated", func() bool { return len(s.settlements()) == 2 })
	return r
}

func TestRetry_that_is_repeated_and_refused_was_accepted(t *testing.T) {
	sequences := map[string]func(*scriptedStream){
		"the first copy was accepted": func(stream *scriptedStream) {
			stream.barrier("1")
			stream.record("b2", 1, 2)
			stream.record("b2", 2, 2)
			stream.barrier("2")
		},
		"the ack deadline had passed": func(stream *scriptedStream) {
			stream.record("b2", 1, 2)
			stream.record("b2", 2, 2)
			stream.barrier("2")
		},
		"another session has the record": func(stream *scriptedStream) {
			stream.barrier("1")
			stream.record("b2", 2, 2)
			stream.barrier("2")
		},
		"the lease was lost, its next owner has settled the record": func(stream *scriptedStream) {
			stream.leaseLost()
			stream.record("b2", 2, 2)
			stream.barrier("2")
		},
		"the redelivery comes later": func(stream *scriptedStream) {
			stream.barrier("1")
			stream.barrier("2")
			stream.record("b2", 2, 2)
		},
	}
	for name, play := range sequences {
		for _, reason := range []string{"EXPIRED", "FENCED"} {
			t.Run(name+" "+reason, func(t *testing.T) {
				run := startRepeatedRetry(t, reason)
				want := "1/1 2/2"
				if name == "the first copy was accepted" || name == "the ack deadline had passed" {
					want = "1/1 1/2 2/2"
				}

				close(run.release)
				play(run.stream)

				eventually(t, "the rest is handled", func() bool { return run.handled.has("2/2") })
				run.end(t)
				if got := run.handled.String(); got != want {
					t.Errorf("handled %s", got)
				}
				if failed := run.events.find("settle_failed"); run.consumer.Failed() != 0 || len(failed) != 0 {
					t.Errorf("failed %d, events %v", run.consumer.Failed(), failed)
				}
			})
		}
	}
}

// SETTLED: another delivery of the record was settled.
func TestRetry_that_is_refused_for_another_reason_takes_nothing_back(t *testing.T) {
	for _, reason := range []string{"MALFORMED", "SETTLED"} {
		run := startRepeatedRetry(t, reason)

		close(run.release)
		eventually(t, "the refusal is counted", func() bool { return run.consumer.Failed() == 1 })
		if run.handled.has("2/1") {
			t.Error("handled 2/1 before the barrier: the session may be one of another process")
		}
		run.stream.barrier("2")

		eventually(t, "the later record is handled", func() bool { return run.handled.has("2/1") })
		run.end(t)
		if failed := run.events.find("settle_failed"); len(failed) != 1 || failed[0].Reason != reason {
			t.Errorf("got %v", failed)
		}
	}
}

// The app still had record 1 when its lease was lost. Another sidecar has settled the record.
func TestRetry_after_a_lost_lease_takes_nothing_of_the_next_lease_back(t *testing.T) {
	s := newScript(t)
	answered := make(chan struct{})
	s.answer(func(body scriptedBody) (int, string) {
		if body.Settlements[0].Outcome != outcomeRetry {
			return 200, settledAnswer
		}
		defer close(answered)
		return 200, `{"failed":[{"ack_id":"b1-1","reason":"FENCED"}]}`
	})
	consumer, _ := s.consumer(t)
	var handled journal
	release := make(chan struct{})
	run := startRun(t, consumer, func(ctx context.Context, record *Record) error {
		handled.handler(ctx, record)
		if string(record.Data) == "1" {
			<-release
			record.Retry(0, "fail 1")
		}
		return nil
	})
	stream := s.open(t)
	stream.record("b1", 1, 1)
	eventually(t, "the handler runs", func() bool { return handled.has("1/1") })
	stream.leaseLost()
	stream.record("b2", 2, 1)
	eventually(t, "the next record is known", func() bool { return consumer.hasArrivals(2) })

	close(release)
	<-answered
	stream.barrier("1")

	eventually(t, "the next record is handled", func() bool { return handled.has("2/1") })
	run.end(t)
	if got := handled.String(); got != "1/1 2/1" {
		t.Errorf("handled %s", got)
	}
}

// The sidecar accepted the first copy of the request, wrote its barrier, and was restarted.
func TestRetry_that_is_repeated_and_unknown_holds_its_scope_until_the_next_session(t *testing.T) {
	run := startRepeatedRetry(t, "UNKNOWN")
	run.stream.barrier("1")
	run.stream.barrier("2")
	eventually(t, "the barrier is read", func() bool {
		run.consumer.mu.Lock()
		defer run.consumer.mu.Unlock()
		return run.consumer.holds[0].passed
	})

	close(run.release)
	eventually(t, "the refusal is counted", func() bool { return run.consumer.Failed() == 1 })
	run.stream.drop()
	next := run.script.open(t)
	next.record("c1", 1, 2)
	next.record("c1", 2, 2)

	eventually(t, "the later record is handled", func() bool { return run.handled.has("2/2") })
	run.end(t)
	if got := run.handled.String(); got != "1/1 1/2 2/2" || run.consumer.Failed() != 1 {
		t.Errorf("handled %s, failed %d", got, run.consumer.Failed())
	}
}

func TestAcknowledgement_that_is_repeated_and_refused_has_failed(t *testing.T) {
	s := newScript(t)
	cut := false
	s.answer(func(scriptedBody) (int, string) {
		if !cut {
			cut = true
			panic(http.ErrAbortHandler)
		}
		return 200, `{"failed":[{"ack_id":"b1-1","reason":"FENCED"}]}`
	})
	consumer, _ := s.consumer(t)
	run := startRun(t, consumer, new(journal).handler)
	s.open(t).record("b1", 1, 1)

	eventually(t, "the failure is counted", func() bool { return consumer.Failed() == 1 })
	run.end(t)
}

// Returns a function that returns the next batch of the consumer.
func pullBatches(t *testing.T, consumer *Consumer, maxRecords int) func() *Batch {
	next := make(chan *Batch)
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	wanted := make(chan struct{})
	go func() {
		defer close(next)
		for batch := range consumer.Batches(ctx, maxRecords, time.Hour) {
			next <- batch
			<-wanted
		}
	}()
	first := true
	return func() *Batch {
		t.Helper()
		if !first {
			wanted <- struct{}{}
		}
		first = false
		select {
		case batch := <-next:
			return batch
		case <-time.After(patience):
			t.Fatal("no batch was handed out")
			return nil
		}
	}
}

func dataOf(batch *Batch) (all []string) {
	for _, r := range batch.Records {
		all = append(all, string(r.Data))
	}
	return all
}

func TestRecord_that_a_retry_takes_back_from_the_app_is_settled_by_it(t *testing.T) {
	s := newScript(t)
	consumer, _ := s.consumer(t)
	next := pullBatches(t, consumer, 3)
	stream := s.open(t)
	for n := 1; n <= 3; n++ {
		stream.record("b1", n, 1)
	}
	batch := next()
	batch.Records[0].Retry(0, "again")
	eventually(t, "the retry is sent", func() bool { return s.has("b1-1", "retry") })
	stream.barrier("1")
	for n := 1; n <= 3; n++ {
		stream.record("b2", n, 2)
	}
	stream.record("b3", 4, 1)
	stream.record("b3", 5, 1)
	eventually(t, "the redelivery is known", func() bool { return consumer.hasArrivals(8) })

	batch.Records[1].Drop()

	if got := dataOf(next()); !slices.Equal(got, []string{"1", "4", "5"}) {
		t.Errorf("handed out %v", got)
	}
	eventually(t, "the redelivery is dropped", func() bool { return s.has("b2-2", "drop") })
	eventually(t, "the redelivery is acknowledged", func() bool { return s.has("b2-3", "ack") })
}

func TestRecord_that_is_retried_after_its_redelivery_is_handed_out_again(t *testing.T) {
	s := newScript(t)
	consumer, _ := s.consumer(t)
	next := pullBatches(t, consumer, 1)
	stream := s.open(t)
	stream.record("b1", 1, 1)
	batch := next()
	stream.record("b2", 1, 2)
	eventually(t, "the redelivery is known", func() bool { return consumer.hasArrivals(2) })

	batch.Retry(0, "again")

	eventually(t, "the redelivery is retried", func() bool { return s.has("b2-1", "retry") })
	stream.barrier("1")
	stream.record("b3", 1, 3)
	if record := next().Records[0]; record.Attempt != 3 {
		t.Errorf("handed out the attempt %d", record.Attempt)
	}
}

func TestRecord_that_is_retried_before_its_redelivery_is_handed_out_again(t *testing.T) {
	s := newScript(t)
	consumer, _ := s.consumer(t)
	next := pullBatches(t, consumer, 2)
	stream := s.open(t)
	stream.record("b1", 1, 1)
	stream.record("b1", 2, 1)
	batch := next()
	stream.record("b2", 1, 2)
	eventually(t, "a redelivery is known", func() bool { return consumer.hasArrivals(3) })
	batch.Records[1].Retry(0, "again")
	eventually(t, "the other record is retried", func() bool { return s.has("b1-2", "retry") })
	stream.barrier("1")

	stream.record("b3", 2, 2)
	stream.record("b3", 3, 1)

	if got := dataOf(next()); !slices.Equal(got, []string{"2", "3"}) {
		t.Errorf("handed out %v", got)
	}
}

func TestBatch_of_which_a_record_was_redelivered_is_not_acknowledged_as_a_whole(t *testing.T) {
	s := newScript(t)
	consumer, _ := s.consumer(t)
	next := pullBatches(t, consumer, 2)
	stream := s.open(t)
	stream.record("b1", 1, 1)
	stream.record("b1", 2, 1)
	batch := next()
	stream.record("b2", 2, 2)
	stream.record("b3", 3, 1)
	eventually(t, "the redelivery is known", func() bool { return consumer.hasArrivals(4) })

	batch.Records[0].Ack()

	eventually(t, "the first record is acknowledged", func() bool { return s.has("b1-1", "ack") })
	batch.Records[1].Ack()
	eventually(t, "the redelivery is acknowledged", func() bool { return s.has("b2", "ack") })
	if got := s.settlements(); len(got) != 2 {
		t.Errorf("got %+v", got)
	}
	eventually(t, "only the last batch is remembered", func() bool {
		consumer.mu.Lock()
		defer consumer.mu.Unlock()
		return len(consumer.batches) == 1
	})
}

// Delivers records, and takes the first batch of them in a loop that is left.
func leaveBatch(t *testing.T, s *script, consumer *Consumer, size int, numbers ...int) (*Batch, *scriptedStream) {
	streams := make(chan *scriptedStream, 1)
	go func() {
		stream := s.open(t)
		for _, n := range numbers {
			stream.record("b1", n, 1)
		}
		streams <- stream
	}()
	for batch := range consumer.Batches(t.Context(), size, time.Hour) {
		return batch, <-streams
	}
	return nil, nil
}

// Returns the next records of a loop, as "number/attempt".
func loop(t *testing.T, consumer *Consumer, count int) (got []string) {
	for record := range consumer.Records(t.Context()) {
		got = append(got, fmt.Sprintf("%s/%d", record.Data, record.Attempt))
		if len(got) == count {
			break
		}
	}
	return got
}

func expectLoop(t *testing.T, consumer *Consumer, want ...string) {
	t.Helper()
	if got := loop(t, consumer, len(want)); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

func TestRecord_of_a_loop_that_was_left_is_handed_out_by_the_next_loop(t *testing.T) {
	s := newScript(t)
	consumer, _ := s.consumer(t)
	batch, _ := leaveBatch(t, s, consumer, 3, 1, 2, 3, 4)
	batch.Records[1].Drop()

	expectLoop(t, consumer, "1/1")
	expectLoop(t, consumer, "1/1", "3/1", "4/1")

	consumer.Close()
	if !s.has("b1-1", "ack") || !s.has("b1-3", "ack") || s.has("b1-4", "ack") {
		t.Errorf("got %+v", s.settlements())
	}
}

func TestRecord_that_got_its_outcome_after_its_loop_is_not_handed_out_again(t *testing.T) {
	s := newScript(t)
	consumer, _ := s.consumer(t)
	batch, _ := leaveBatch(t, s, consumer, 2, 1, 2, 3, 4)
	batch.Records[0].Ack()
	expectLoop(t, consumer, "2/1")
	consumer.putBackLeft()
	batch.Records[1].Ack() // It is queued.

	expectLoop(t, consumer, "3/1", "4/1")

	eventually(t, "both are acknowledged", func() bool { return s.has("b1-1", "ack") && s.has("b1-2", "ack") })
}

func TestRecord_of_a_loop_that_was_left_is_handed_out_once_after_its_redelivery(t *testing.T) {
	s := newScript(t)
	consumer, _ := s.consumer(t)
	_, stream := leaveBatch(t, s, consumer, 2, 1, 2)
	stream.record("b2", 1, 2)
	stream.record("b2", 2, 2)
	stream.record("b2", 3, 1)
	eventually(t, "the redeliveries are known", func() bool { return consumer.hasArrivals(5) })

	expectLoop(t, consumer, "1/1", "2/1", "3/1")

	eventually(t, "the redelivery is acknowledged", func() bool { return s.has("b2-1", "ack") })
}

func TestRedelivery_replaces_records_of_a_loop_that_was_left(t *testing.T) {
	s := newScript(t)
	consumer, _ := s.consumer(t)
	_, stream := leaveBatch(t, s, consumer, 3, 1, 2, 3)
	expectLoop(t, consumer, "1/1")
	stream.record("b2", 2, 2)
	stream.record("b2", 3, 2)
	eventually(t, "the redeliveries are known", func() bool { return consumer.hasArrivals(5) })

	expectLoop(t, consumer, "1/1", "2/2", "3/2")
}

func TestRecords_that_a_retry_takes_back_from_a_loop_that_was_left_are_handed_out_behind_it(t *testing.T) {
	s := newScript(t)
	consumer, _ := s.consumer(t)
	batch, stream := leaveBatch(t, s, consumer, 2, 1, 2)
	batch.Records[0].Retry(0, "")
	eventually(t, "the record is retried", func() bool { return s.has("b1-1", "retry") })
	stream.barrier("1")
	for n := 1; n <= 3; n++ {
		stream.record("b2", n, 2)
	}
	eventually(t, "the redeliveries are known", func() bool { return consumer.hasArrivals(5) })

	got := loop(t, consumer, 3)

	if numbers := strings.Join(got, " "); numbers != "1/2 2/1 3/2" {
		t.Errorf("got %v", got)
	}
}

// Begins a loop, and waits until it waits for a record or has one. Returns what it hands out.
func (c *Consumer) beginLoop(t *testing.T) *journal {
	handed := &journal{}
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	go func() {
		for record := range c.Records(ctx) {
			handed.handler(ctx, record)
		}
	}()
	eventually(t, "the loop waits", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.idle == 1
	})
	return handed
}

func TestRecord_that_a_retry_takes_back_from_a_loop_that_was_left_waits_for_its_redelivery(t *testing.T) {
	for _, answer := range []string{settledAnswer, `{"failed":[{"ack_id":"b1-1","reason":"EXPIRED"}]}`} {
		s := newScript(t)
		s.answer(func(scriptedBody) (int, string) { return 200, answer })
		consumer, _ := s.consumer(t)
		batch, stream := leaveBatch(t, s, consumer, 2, 1, 2)
		batch.Records[0].Retry(0, "")
		eventually(t, "the record is retried", func() bool { return s.has("b1-1", "retry") })
		stream.barrier("1")
		eventually(t, "the retry took record 2 back", func() bool {
			consumer.mu.Lock()
			defer consumer.mu.Unlock()
			return len(consumer.holds) == 0
		})

		handed := consumer.beginLoop(t)
		for n := 1; n <= 3; n++ {
			stream.record("b2", n, 2)
		}

		eventually(t, "the last record is handed out", func() bool { return handed.has("3/2") })
		if got := handed.String(); got != "1/2 2/2 3/2" {
			t.Errorf("handed out %s", got)
		}
	}
}

func TestRecord_that_a_refused_retry_leaves_to_a_loop_that_was_left_is_handed_out_again(t *testing.T) {
	s := newScript(t)
	s.answer(func(scriptedBody) (int, string) {
		return 200, `{"failed":[{"ack_id":"b1-1","reason":"MALFORMED"}]}`
	})
	consumer, _ := s.consumer(t)
	batch, stream := leaveBatch(t, s, consumer, 2, 1, 2)
	batch.Records[0].Retry(0, "")
	eventually(t, "the refusal is counted", func() bool { return consumer.Failed() == 1 })
	stream.barrier("1")

	expectLoop(t, consumer, "2/1")
}

// The ack deadline of both records has passed.
func TestRecord_of_a_loop_that_was_left_waits_for_its_redelivery_behind_that_of_another(t *testing.T) {
	s := newScript(t)
	consumer, _ := s.consumer(t)
	_, stream := leaveBatch(t, s, consumer, 2, 1, 2)
	stream.record("b2", 1, 2)
	eventually(t, "a redelivery is known", func() bool { return consumer.hasArrivals(3) })

	handed := consumer.beginLoop(t)
	stream.record("b2", 2, 2)

	eventually(t, "the last record is handed out", func() bool { return handed.has("2/2") || handed.has("2/1") })
	if got := handed.String(); got != "1/1 2/2" {
		t.Errorf("handed out %s", got)
	}
}

func TestRecord_of_a_batch_that_was_not_handed_out_is_dropped_with_its_lease(t *testing.T) {
	s := newScript(t)
	consumer, _ := s.consumer(t)
	stream, stop := gatherBatch(t, s, consumer)
	stream.leaseLost()
	eventually(t, "the loss is known", func() bool { return consumer.keeps(position{"shard", "1", 0, false}) })
	stop()
	stream.record("b2", 2, 1)

	expectLoop(t, consumer, "2/1")
}

func TestRecord_of_a_lost_lease_is_not_handed_out_by_the_next_loop(t *testing.T) {
	s := newScript(t)
	consumer, _ := s.consumer(t)
	_, stream := leaveBatch(t, s, consumer, 1, 1)
	stream.leaseLost()
	stream.record("b2", 2, 1)
	eventually(t, "the next record is known", func() bool { return consumer.hasArrivals(2) })

	expectLoop(t, consumer, "2/1")
}

func TestRecord_whose_lease_is_lost_and_comes_back_is_settled_by_its_handler(t *testing.T) {
	s := newScript(t)
	consumer, _ := s.consumer(t)
	var handled journal
	release := make(chan struct{})
	run := startRun(t, consumer, func(ctx context.Context, record *Record) error {
		handled.handler(ctx, record)
		<-release
		return nil
	})
	stream := s.open(t)
	stream.record("b1", 1, 1)
	eventually(t, "the handler runs", func() bool { return handled.has("1/1") })
	stream.leaseLost()
	stream.record("b2", 1, 1)
	stream.record("b2", 2, 1)
	eventually(t, "the redelivery is known", func() bool { return consumer.hasArrivals(3) })

	close(release)

	eventually(t, "the redelivery is acknowledged", func() bool { return s.has("b2-1", "ack") })
	eventually(t, "the next one is handled", func() bool { return handled.has("2/1") })
	run.end(t)
	if got := handled.String(); got != "1/1 2/1" {
		t.Errorf("handled %s", got)
	}
}

// Gathers a batch that has one record, and waits for more. The function ends the loop.
func gatherBatch(t *testing.T, s *script, consumer *Consumer) (*scriptedStream, func()) {
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range consumer.Batches(ctx, 2, time.Hour) {
			t.Error("a batch was handed out")
		}
	}()
	stream := s.open(t)
	stream.record("b1", 1, 1)
	eventually(t, "the record is in a batch", func() bool {
		consumer.mu.Lock()
		defer consumer.mu.Unlock()
		return consumer.arrivals == 1 && consumer.current.records[0].state == stateRunning
	})
	return stream, func() {
		stop()
		<-ended
	}
}

func TestRecord_that_the_app_has_not_seen_is_not_acknowledged_when_its_lease_comes_back(t *testing.T) {
	s := newScript(t)
	consumer, _ := s.consumer(t)
	stream, stop := gatherBatch(t, s, consumer)
	stream.leaseLost()
	stream.heartbeat()
	eventually(t, "the record is kept", func() bool { return consumer.keeps(position{"shard", "1", 0, false}) })
	stop()

	stream.record("b2", 1, 1)

	eventually(t, "the redelivery is known", func() bool { return consumer.hasArrivals(2) })
	consumer.Close()
	if got := s.settlements(); len(got) != 0 {
		t.Errorf("got %+v", got)
	}
}
