// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"slices"
	"testing"
	"time"
)

// Redeliveries in the session in which the app settled the record, before the sidecar confirmed its outcome.

var outcomes = map[string]func(*Record){
	"ack":         (*Record).Ack,
	"drop":        (*Record).Drop,
	"dead_letter": func(record *Record) { record.DeadLetter("asked") },
}

// Settles record 1. No settle request gets an answer until the script has another one.
func settleUnanswered(t *testing.T, settle func(*Record)) (*script, *Consumer, *scriptedStream, func() *Batch) {
	s := newScript(t)
	s.answer(unavailable)
	consumer, _ := s.consumer(t)
	next := pullBatches(t, consumer, 1)
	stream := s.open(t)
	stream.record("b1", 1, 1)
	settle(next().Records[0])
	return s, consumer, stream, next
}

func expectNext(t *testing.T, next func() *Batch, want ...string) {
	t.Helper()
	if got := dataOf(next()); !slices.Equal(got, want) {
		t.Errorf("handed out %v, want %v", got, want)
	}
}

func TestOutcome_without_an_answer_settles_the_redelivery(t *testing.T) {
	for outcome, settle := range outcomes {
		s, consumer, stream, next := settleUnanswered(t, settle)
		eventually(t, "the outcome is sent", func() bool { return s.has("b1-1", outcome) })
		stream.record("b2", 1, 2)
		stream.record("b2", 2, 1)
		eventually(t, "the redelivery is known", func() bool { return consumer.hasArrivals(3) })

		s.answer(settled)

		expectNext(t, next, "2")
		eventually(t, "the redelivery is settled", func() bool { return s.has("b2-1", outcome) })
		if consumer.Stale() != 0 || consumer.Failed() != 0 {
			t.Errorf("%s: stale %d, failed %d", outcome, consumer.Stale(), consumer.Failed())
		}
	}
}

// The answer confirms the drop of the first delivery. The drop of the second one has no answer.
func TestOutcome_without_an_answer_settles_each_redelivery_until_the_last_is_confirmed(t *testing.T) {
	s, consumer, stream, next := settleUnanswered(t, (*Record).Drop)
	eventually(t, "the drop is sent", func() bool { return s.has("b1-1", "drop") })
	stream.record("b2", 1, 2)
	eventually(t, "the redelivery is known", func() bool { return consumer.hasArrivals(2) })
	s.answer(func(body scriptedBody) (int, string) {
		if body.Settlements[0].AckID == "b1-1" {
			return settled(body)
		}
		return unavailable(body)
	})
	eventually(t, "the redelivery is dropped", func() bool { return s.has("b2-1", "drop") })
	stream.record("b3", 1, 3)
	stream.record("b3", 2, 1)
	eventually(t, "the second redelivery is known", func() bool { return consumer.hasArrivals(4) })

	s.answer(settled)

	expectNext(t, next, "2")
	eventually(t, "the second redelivery is dropped", func() bool { return s.has("b3-1", "drop") })
}

func TestRecord_is_handed_out_again_after_its_outcome_was_confirmed(t *testing.T) {
	s, consumer, stream, next := settleUnanswered(t, (*Record).Drop)
	stream.record("b2", 1, 2)
	eventually(t, "the redelivery is known", func() bool { return consumer.hasArrivals(2) })
	s.answer(settled)
	eventually(t, "the redelivery is settled", func() bool { return s.has("b2-1", "drop") })
	eventually(t, "the answer is known", func() bool {
		consumer.mu.Lock()
		defer consumer.mu.Unlock()
		return consumer.sending == nil
	})

	stream.record("b3", 1, 3)

	if record := next().Records[0]; record.Attempt != 3 {
		t.Errorf("handed out the attempt %d", record.Attempt)
	}
}

func TestAcknowledgement_of_a_whole_batch_without_an_answer_settles_the_redelivery(t *testing.T) {
	s := newScript(t)
	s.answer(unavailable)
	consumer, _ := s.consumer(t)
	next := pullBatches(t, consumer, 1)
	stream := s.open(t)
	stream.record("b1", 1, 1)
	stream.record("b0", 7, 1)
	eventually(t, "the first batch is whole", func() bool { return consumer.hasArrivals(2) })
	next().Records[0].Ack()
	eventually(t, "the batch is acknowledged", func() bool { return s.has("b1", "ack") })
	stream.record("b2", 1, 2)
	stream.record("b2", 8, 1)
	eventually(t, "the redelivery is known", func() bool { return consumer.hasArrivals(4) })

	s.answer(settled)

	expectNext(t, next, "8") // The redelivery of record 1 has replaced record 7.
	eventually(t, "the redelivery is acknowledged", func() bool { return s.has("b2-1", "ack") })
}

func TestAcknowledgement_that_is_not_sent_settles_the_redelivery(t *testing.T) {
	s := newScript(t)
	consumer, _ := s.consumer(t, AckInterval(time.Hour))
	next := pullBatches(t, consumer, 2)
	stream := s.open(t)
	stream.record("b1", 1, 1)
	stream.record("b1", 2, 1)
	batch := next()
	batch.Records[0].Ack()
	stream.record("b2", 1, 2)
	stream.record("b2", 3, 1)
	stream.record("b3", 4, 1)
	eventually(t, "the redelivery is known", func() bool { return consumer.hasArrivals(5) })

	expectNext(t, next, "3", "4") // Record 2 is acknowledged.

	consumer.Close()
	if got := s.settlements(); len(got) != 2 || !s.has("b1-2", "ack") || !s.has("b2-1", "ack") {
		t.Errorf("got %+v", got)
	}
	if consumer.waiting != 0 || consumer.waitingBytes != 0 {
		t.Errorf("%d acknowledgements of %d bytes wait", consumer.waiting, consumer.waitingBytes)
	}
}

// The retry waits for the answer to the request before.
func TestRetry_that_is_not_sent_retries_the_redelivery(t *testing.T) {
	s := newScript(t)
	s.answer(unavailable)
	consumer, _ := s.consumer(t)
	next := pullBatches(t, consumer, 2)
	stream := s.open(t)
	stream.record("b1", 1, 1)
	stream.redriven("b0", 9, 1)
	batch := next()
	for _, r := range batch.Records {
		if r.Redriven {
			r.Drop()
		}
	}
	eventually(t, "the drop is sent", func() bool { return s.has("b0-9", "drop") })
	for _, r := range batch.Records {
		if !r.Redriven {
			r.Retry(0, "again")
		}
	}
	stream.record("b2", 1, 2)
	stream.record("b2", 2, 1)
	eventually(t, "the redelivery is known", func() bool { return consumer.hasArrivals(4) })

	s.answer(settled)

	eventually(t, "the redelivery is retried", func() bool { return s.has("b2-1", "retry") })
	stream.barrier("1")
	stream.record("b3", 1, 3)
	stream.record("b3", 2, 2)
	for i, r := range next().Records {
		if r.SequenceNumber != []string{"1", "2"}[i] || r.Attempt != []int{3, 2}[i] {
			t.Errorf("handed out %s/%d", r.SequenceNumber, r.Attempt)
		}
	}
	if s.has("b1-1", "retry") {
		t.Error("the first delivery was retried, too")
	}
}

// The next lease counts attempts from 1.
func TestOutcome_that_is_decided_after_its_lease_was_lost_settles_the_redelivery(t *testing.T) {
	s := newScript(t)
	s.answer(unavailable)
	consumer, _ := s.consumer(t)
	next := pullBatches(t, consumer, 1)
	stream := s.open(t)
	stream.record("b1", 1, 1)
	record := next().Records[0]
	stream.leaseLost()
	eventually(t, "the loss is known", func() bool { return consumer.keeps(record.position()) })
	record.Drop()
	eventually(t, "the drop is sent", func() bool { return s.has("b1-1", "drop") })
	stream.record("b2", 1, 1)
	stream.record("b2", 2, 1)
	eventually(t, "the redelivery is known", func() bool { return consumer.hasArrivals(3) })

	s.answer(settled)

	expectNext(t, next, "2")
	eventually(t, "the redelivery is dropped", func() bool { return s.has("b2-1", "drop") })
}

func TestOutcome_that_is_decided_before_its_lease_is_lost_settles_the_redelivery(t *testing.T) {
	s, consumer, stream, next := settleUnanswered(t, (*Record).Drop)
	eventually(t, "the drop is sent", func() bool { return s.has("b1-1", "drop") })
	stream.leaseLost()
	stream.record("b2", 1, 1)
	stream.record("b2", 2, 1)
	eventually(t, "the redelivery is known", func() bool { return consumer.hasArrivals(3) })

	s.answer(settled)

	expectNext(t, next, "2")
	eventually(t, "the redelivery is dropped", func() bool { return s.has("b2-1", "drop") })
}

func TestOutcome_that_is_answered_in_the_next_session_settles_the_redelivery(t *testing.T) {
	s := newScript(t)
	release := make(chan struct{})
	s.answer(func(body scriptedBody) (int, string) {
		if body.Settlements[0].AckID != "b1-1" {
			return settled(body)
		}
		<-release
		return 200, `{"failed":[{"ack_id":"b1-1","reason":"EXPIRED"}]}`
	})
	consumer, _ := s.consumer(t)
	next := pullBatches(t, consumer, 1)
	first := s.open(t)
	first.record("b1", 1, 1)
	next().Records[0].Drop()
	eventually(t, "the drop is sent", func() bool { return s.has("b1-1", "drop") })
	first.drop()
	second := s.open(t)
	eventually(t, "a second session", func() bool { return consumer.hasSession(2) })
	close(release)
	eventually(t, "the failure is counted", func() bool { return consumer.Failed() == 1 })

	second.record("b2", 1, 2)
	second.record("b2", 2, 1)

	expectNext(t, next, "2")
	eventually(t, "the redelivery is dropped", func() bool { return s.has("b2-1", "drop") })
}
