// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"os"
	"testing"
)

// The decoded content of the frames in proto/golden, which the sidecar's own tests write.
type sink struct {
	record *Record
	event  Event
}

func decodeGolden(t *testing.T, name string) (got sink) {
	t.Helper()
	frame, err := os.ReadFile("../../proto/golden/" + name + ".bin")
	if err != nil {
		t.Fatal(err)
	}
	consumer := New("test", OnEvent(func(event Event) { got.event = event }))
	stream := &stream{consumer: consumer, wait: &backoff{}, buffer: frame, end: len(frame)}
	if err := stream.decode(); err != nil && got.event.Type != "ended" {
		t.Fatal(err)
	}
	if stream.begin != stream.end {
		t.Errorf("%s: %d bytes were not decoded", name, stream.end-stream.begin)
	}
	for _, b := range consumer.batches {
		got.record = b.records[0]
	}
	return got
}

func TestGolden_events_are_decoded(t *testing.T) {
	for name, kind := range map[string]string{
		"session": "session", "heartbeat": "heartbeat", "draining": "draining", "lease_returning": "lease_returning",
		"lease_lost": "lease_lost", "ended": "ended", "record_too_large": "record_too_large",
	} {
		if got := decodeGolden(t, name).event; got.Type != kind {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	if got := decodeGolden(t, "lease_returning").event; got.ShardID == "" || got.Deadline.IsZero() {
		t.Errorf("got %+v", got)
	}
	if got := decodeGolden(t, "session").event.limits; got.maxInFlight == 0 || got.heartbeat == 0 || got.ackDeadline == 0 {
		t.Errorf("got %+v", got)
	}
}

func TestGolden_records_are_decoded(t *testing.T) {
	for _, name := range []string{"record", "record_part", "record_redriven"} {
		got := decodeGolden(t, name).record
		if got == nil || got.ShardID == "" || got.SequenceNumber == "" || got.PartitionKey == "" || len(got.ackID) == 0 ||
			got.Attempt < 1 || got.Stream == "" || got.ArrivedAt.IsZero() {
			t.Errorf("%s: got %+v", name, got)
		}
		if got.Redriven != (name == "record_redriven") {
			t.Errorf("%s: redriven is %v", name, got.Redriven)
		}
	}
}
