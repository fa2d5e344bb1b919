// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestAcknowledgements_leave_when_half_of_the_records_or_bytes_wait(t *testing.T) {
	for _, c := range []struct{ count, size int }{{501, 1}, {2, 9 << 20}} {
		s := newScript(t)
		consumer, _ := s.consumer(t, AckInterval(time.Hour))
		var handled journal
		run := startRun(t, consumer, func(context.Context, *Record) error {
			handled.add("x")
			return nil
		})
		stream := s.open(t)
		for n := range c.count {
			stream.recordOf("b1", n, 1, 0, bytes.Repeat([]byte("x"), c.size))
		}
		eventually(t, "acknowledgements are sent", func() bool { return len(s.settlements()) > 0 })
		run.end(t)
	}
}

func TestSettle_request_has_at_most_1000_items(t *testing.T) {
	s := newScript(t)
	consumer, _ := s.consumer(t, AckInterval(time.Hour))
	var handled journal
	run := startRun(t, consumer, handled.handler)
	stream := s.openWith(t, 10000)
	for n := range 2500 {
		stream.record("b1", n, 1)
	}
	eventually(t, "the last record is handled", func() bool { return handled.has("2499/1") })
	run.end(t)
	var sizes []int
	for _, body := range s.settles {
		sizes = append(sizes, len(body.Settlements))
	}
	if !slices.Equal(sizes, []int{1000, 1000, 500}) {
		t.Errorf("got %v", sizes)
	}
}

func TestOutcome_is_sent_before_further_acknowledgements(t *testing.T) {
	s := newScript(t)
	release := make(chan struct{})
	s.answer(func(scriptedBody) (int, string) {
		<-release
		return 200, settledAnswer
	})
	consumer, _ := s.consumer(t, AckInterval(time.Hour))
	var handled journal
	run := startRun(t, consumer, func(ctx context.Context, record *Record) error {
		handled.handler(ctx, record)
		if string(record.Data) == "2" {
			return DeadLetter(errors.New("no use"))
		}
		return nil
	})
	stream := s.open(t)
	stream.record("b1", 1, 1)
	stream.record("b1", 2, 1)
	eventually(t, "the first acknowledgement is sent", func() bool { return s.has("b1-1", "ack") })
	stream.record("b2", 3, 1)
	stream.record("b2", 4, 1)
	eventually(t, "a further record is acknowledged", func() bool { return handled.has("4/1") })

	close(release)

	eventually(t, "the dead letter is sent", func() bool { return s.has("b1-2", "dead_letter") })
	if second := s.settlements()[1]; second.Outcome != outcomeDeadLetter {
		t.Errorf("got %+v", second)
	}
	run.end(t)
}

func TestStop_waits_for_each_handler_and_leaves_its_context_alone(t *testing.T) {
	const handlers = 8
	s := newScript(t)
	consumer, _ := s.consumer(t)
	var handled journal
	release := make(chan struct{})
	run := startRun(t, consumer, func(ctx context.Context, record *Record) error {
		handled.add("begun")
		<-release
		return ctx.Err()
	}, Concurrency(handlers))
	stream := s.open(t)
	for n := range handlers {
		stream.recordOf("b1", n, 1, uint64(n), nil)
	}
	eventually(t, "all handlers run", func() bool { return strings.Count(handled.String(), "begun") == handlers })

	run.stop()
	for range handlers - 1 {
		release <- struct{}{}
		select {
		case <-run.err:
			t.Fatal("the run ended before its handlers")
		case <-time.After(20 * time.Millisecond):
		}
	}
	close(release)

	if err := run.wait(t); err != nil {
		t.Fatal(err)
	}
	if all := s.settlements(); slices.ContainsFunc(all, func(item settlement) bool { return item.Outcome != outcomeAck }) {
		t.Errorf("got %+v", all)
	}
}
