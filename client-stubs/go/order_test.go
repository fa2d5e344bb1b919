// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kinesis-sidecar/kinesis-sidecar/client-stubs/go/internal/wire"
)

func startRetry(t *testing.T, s *script, handled *journal, failed string) (*Consumer, *testRun, *scriptedStream) {
	release := make(chan struct{})
	s.answer(func(body scriptedBody) (int, string) {
		if body.Barrier != "" {
			<-release
			return 200, failed
		}
		return 200, settledAnswer
	})
	consumer, _ := s.consumer(t)
	run := startRun(t, consumer, func(ctx context.Context, record *Record) error {
		handled.handler(ctx, record)
		if string(record.Data) == "1" && record.Attempt == 1 {
			return errors.New("fail 1")
		}
		return nil
	})
	stream := s.open(t)
	for n := 1; n <= 3; n++ {
		stream.record("b1", n, 1)
	}
	eventually(t, "the retry is sent", func() bool { return s.has("b1-1", "retry") })
	stream.barrier("1")
	stream.record("b2", 1, 2)
	stream.record("b2", 2, 2)
	eventually(t, "the redelivery is known", func() bool {
		consumer.mu.Lock()
		defer consumer.mu.Unlock()
		return consumer.arrivals >= 5
	})
	if got := handled.String(); got != "1/1" {
		t.Fatalf("handled %s before the retry was answered", got)
	}
	close(release)
	return consumer, run, stream
}

func TestRetry_that_is_accepted_drops_the_later_records_before_the_barrier(t *testing.T) {
	s := newScript(t)
	var handled journal
	_, run, stream := startRetry(t, s, &handled, settledAnswer)

	stream.record("b2", 3, 2)

	eventually(t, "the last record is handled", func() bool { return handled.has("3/2") })
	run.end(t)
	if got := handled.String(); got != "1/1 1/2 2/2 3/2" {
		t.Errorf("handled %s", got)
	}
	if !slices.ContainsFunc(s.settles, func(body scriptedBody) bool { return body.Barrier == "1" }) {
		t.Error("no barrier was sent")
	}
}

func TestRetry_that_is_refused_releases_its_scope(t *testing.T) {
	s := newScript(t)
	var handled journal
	consumer, run, _ := startRetry(t, s, &handled, `{"failed":[{"ack_id":"b1-1","reason":"MALFORMED"}]}`)

	eventually(t, "the last record is handled", func() bool { return handled.has("2/2") })
	run.end(t)
	if consumer.Failed() != 1 {
		t.Errorf("failed %d", consumer.Failed())
	}
}

// The ack deadline has passed: the record and the later ones are on their way again.
func TestRetry_that_is_expired_waits_for_the_redelivery(t *testing.T) {
	s := newScript(t)
	s.answer(func(body scriptedBody) (int, string) {
		if body.Barrier != "" {
			return 200, `{"failed":[{"ack_id":"b1-1","reason":"EXPIRED"}]}`
		}
		return 200, settledAnswer
	})
	consumer, _ := s.consumer(t)
	var handled journal
	run := startRun(t, consumer, func(ctx context.Context, record *Record) error {
		handled.handler(ctx, record)
		if string(record.Data) == "1" && record.Attempt == 1 {
			return errors.New("fail 1")
		}
		return nil
	})
	stream := s.open(t)
	stream.record("b1", 1, 1)
	stream.record("b1", 2, 1)
	eventually(t, "the retry is answered", func() bool {
		consumer.mu.Lock()
		defer consumer.mu.Unlock()
		return len(consumer.holds) == 1 && consumer.holds[0].answered || handled.has("2/1")
	})

	stream.record("b2", 1, 2)
	stream.record("b2", 2, 2)
	stream.barrier("1")

	eventually(t, "the last record is handled", func() bool { return handled.has("2/2") })
	run.end(t)
	if got := handled.String(); got != "1/1 1/2 2/2" || consumer.Failed() != 0 {
		t.Errorf("handled %s, failed %d", got, consumer.Failed())
	}
}

func TestRedelivery_replaces_the_records_of_its_scope_that_wait(t *testing.T) {
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
	for n := 1; n <= 3; n++ {
		stream.record("b1", n, 1)
	}
	eventually(t, "the handler runs", func() bool { return handled.has("1/1") })
	stream.record("b2", 2, 2)
	stream.record("b2", 3, 2)
	eventually(t, "the redelivery is known", func() bool { return consumer.hasArrivals(5) })

	close(release)

	eventually(t, "the last record is handled", func() bool { return handled.has("3/2") })
	run.end(t)
	if got := handled.String(); got != "1/1 2/2 3/2" {
		t.Errorf("handled %s", got)
	}
}

func TestRetry_that_is_sent_twice_waits_for_its_last_barrier(t *testing.T) {
	s := newScript(t)
	var calls atomic.Int32
	s.answer(func(body scriptedBody) (int, string) {
		if body.Barrier != "" && calls.Add(1) == 1 {
			return 503, "{}"
		}
		return 200, settledAnswer
	})
	consumer, _ := s.consumer(t)
	var handled journal
	run := startRun(t, consumer, func(ctx context.Context, record *Record) error {
		handled.handler(ctx, record)
		if record.Attempt == 1 {
			return errors.New("fail")
		}
		return nil
	})
	stream := s.open(t)
	stream.record("b1", 1, 1)
	stream.record("b1", 2, 1)
	eventually(t, "the retry is sent", func() bool { return calls.Load() > 0 })
	stream.barrier("1")
	stream.record("b2", 1, 2)
	stream.record("b2", 2, 2)
	eventually(t, "the retry is sent twice", func() bool { return calls.Load() == 2 })
	stream.barrier("2")
	stream.record("b3", 1, 3)
	stream.record("b3", 2, 3)

	eventually(t, "the last record is handled", func() bool { return handled.has("2/3") })
	run.end(t)
	if got := handled.String(); got != "1/1 1/3 2/3" {
		t.Errorf("handled %s", got)
	}
}

func TestRetry_leaves_earlier_and_redriven_records(t *testing.T) {
	s := newScript(t)
	release := make(chan struct{})
	s.answer(func(body scriptedBody) (int, string) {
		if body.Barrier != "" {
			<-release
		}
		return 200, settledAnswer
	})
	consumer, _ := s.consumer(t)
	var handled journal
	run := startRun(t, consumer, func(ctx context.Context, record *Record) error {
		handled.handler(ctx, record)
		if string(record.Data) == "2" && record.Attempt == 1 {
			return errors.New("fail 2")
		}
		return nil
	})
	stream := s.open(t)
	stream.record("b1", 2, 1)
	eventually(t, "the retry is sent", func() bool { return s.has("b1-2", "retry") })
	redriven := wire.AppendBytes(nil, wire.RecordShardID, "shard")
	redriven = wire.AppendBytes(redriven, wire.RecordData, "9")
	stream.event(wire.EventRecord, wire.AppendVarint(redriven, wire.RecordRedriven, 1))
	eventually(t, "the redriven record is handled", func() bool { return handled.has("9/0") })

	stream.record("b2", 1, 2)
	stream.barrier("1")
	close(release)
	stream.record("b3", 2, 2)

	eventually(t, "the redelivery is handled", func() bool { return handled.has("2/2") })
	run.end(t)
	if got := handled.String(); got != "2/1 9/0 1/2 2/2" {
		t.Errorf("handled %s", got)
	}
}

func TestRetry_by_key_holds_only_its_lane(t *testing.T) {
	s := newScript(t)
	release := make(chan struct{})
	s.answer(func(body scriptedBody) (int, string) {
		if body.Barrier != "" {
			<-release
		}
		return 200, settledAnswer
	})
	consumer, _ := s.consumer(t)
	var handled journal
	run := startRun(t, consumer, func(ctx context.Context, record *Record) error {
		handled.handler(ctx, record)
		if string(record.Data) == "1" && record.Attempt == 1 {
			return errors.New("fail 1")
		}
		return nil
	}, Concurrency(2))
	stream := s.open(t)
	stream.recordOf("b1", 1, 1, 5, []byte("1"))
	stream.recordOf("b1", 2, 1, 5, []byte("2"))
	eventually(t, "the retry is sent", func() bool { return s.has("b1-1", "retry") })
	stream.recordOf("b1", 3, 1, 6, []byte("3"))
	eventually(t, "the other lane is handled", func() bool { return handled.has("3/1") })

	stream.barrier("1")
	close(release)
	stream.recordOf("b2", 1, 2, 5, []byte("1"))
	stream.recordOf("b2", 2, 2, 5, []byte("2"))

	eventually(t, "the last record is handled", func() bool { return handled.has("2/2") })
	run.end(t)
	if got := handled.String(); got != "1/1 3/1 1/2 2/2" {
		t.Errorf("handled %s", got)
	}
	if query := stream.query; query["ordering"][0] != "key" || query["lanes"][0] != "64" {
		t.Errorf("got %v", query)
	}
}

func TestStream_is_asked_for_the_records_that_the_consumer_wants(t *testing.T) {
	for _, c := range []struct {
		options []Option
		wanted  map[string]string
	}{
		{[]Option{Share("0.05", "v2")}, map[string]string{"share": "0.05", "salt": "v2", "ordering": "key", "lanes": "64"}},
		{[]Option{Share("0.5", ""), OrderBy(OrderByKey, 8)}, map[string]string{"share": "0.5", "ordering": "key", "lanes": "8"}},
		{[]Option{Filter(`{"data":{"a":[1]}}`)}, map[string]string{"filter": `{"data":{"a":[1]}}`, "ordering": "shard"}},
		{nil, map[string]string{"ordering": "shard"}},
	} {
		s := newScript(t)
		consumer, _ := s.consumer(t, c.options...)
		run := startRun(t, consumer, func(context.Context, *Record) error { return nil })
		query := s.open(t).query
		run.end(t)
		for _, name := range []string{"share", "salt", "filter", "ordering", "lanes"} {
			if got := strings.Join(query[name], " "); got != c.wanted[name] {
				t.Errorf("%s is %q, not %q", name, got, c.wanted[name])
			}
		}
	}
}

func TestRecords_of_a_lane_are_handled_one_after_the_other(t *testing.T) {
	s := newScript(t)
	consumer, _ := s.consumer(t)
	var handled journal
	release := make(chan struct{})
	run := startRun(t, consumer, func(ctx context.Context, record *Record) error {
		if string(record.Data) == "1" {
			<-release
		}
		return handled.handler(ctx, record)
	}, Concurrency(3))
	stream := s.open(t)
	stream.recordOf("b1", 1, 1, 5, []byte("1"))
	stream.recordOf("b1", 2, 1, 5, []byte("2"))
	stream.recordOf("b1", 3, 1, 6, []byte("3"))
	stream.recordOf("b1", 4, 1, 6, []byte("4"))
	eventually(t, "the other lane is handled", func() bool { return handled.has("4/1") })

	close(release)

	eventually(t, "the lane is handled", func() bool { return handled.has("2/1") })
	run.end(t)
	if got := handled.String(); got != "3/1 4/1 1/1 2/1" {
		t.Errorf("handled %s", got)
	}
}

func TestBatch_is_retried_from_its_end(t *testing.T) {
	s := newScript(t)
	consumer, _ := s.consumer(t, AckInterval(time.Hour))
	go func() {
		stream := s.open(t)
		stream.record("b1", 1, 1)
		stream.record("b1", 2, 1)
	}()
	for batch, err := range consumer.Batches(t.Context(), 2, time.Hour) {
		if err != nil {
			t.Fatal(err)
		}
		batch.Retry(0, "")
		break
	}

	consumer.Close()

	want := []settlement{{AckID: "b1-2", Outcome: "retry"}, {AckID: "b1-1", Outcome: "retry"}}
	if got := s.settlements(); !slices.Equal(got, want) {
		t.Errorf("got %+v", got)
	}
}
