// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

// Numbers of fields and enums, as `MESSAGE NUMBER TYPE NAME` and as the sources of the protos have them.
const (
	fieldsPath = "../../../../proto/golden/fields"
	recordPath = "../../../../proto/kinesis_sidecar/v1/record.proto"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestNumbers_are_those_of_the_protos(t *testing.T) {
	numbers := map[string]int{
		"StreamEvent session":                  EventSession,
		"StreamEvent record":                   EventRecord,
		"StreamEvent heartbeat":                EventHeartbeat,
		"StreamEvent draining":                 EventDraining,
		"StreamEvent lease_returning":          EventLeaseReturning,
		"StreamEvent lease_lost":               EventLeaseLost,
		"StreamEvent ended":                    EventEnded,
		"StreamEvent record_too_large":         EventRecordTooLarge,
		"StreamEvent barrier":                  EventBarrier,
		"Record ack_id":                        RecordAckID,
		"Record batch_id":                      RecordBatchID,
		"Record stream":                        RecordStream,
		"Record shard_id":                      RecordShardID,
		"Record epoch":                         RecordEpoch,
		"Record sequence_number":               RecordSequenceNumber,
		"Record sub_sequence_number":           RecordSubSequenceNumber,
		"Record partition_key":                 RecordPartitionKey,
		"Record approximate_arrival_timestamp": RecordApproximateArrivalTimestamp,
		"Record attempt":                       RecordAttempt,
		"Record aggregated":                    RecordAggregated,
		"Record data":                          RecordData,
		"Record redriven":                      RecordRedriven,
		"Record lane":                          RecordLane,
		"SessionOpened session":                SessionOpenedSession,
		"SessionOpened max_in_flight":          SessionOpenedMaxInFlight,
		"SessionOpened max_in_flight_bytes":    SessionOpenedMaxInFlightBytes,
		"SessionOpened ack_deadline_ms":        SessionOpenedAckDeadlineMs,
		"SessionOpened heartbeat_ms":           SessionOpenedHeartbeatMs,
		"Heartbeat in_flight":                  HeartbeatInFlight,
		"Heartbeat credit":                     HeartbeatCredit,
		"Heartbeat idle_reason":                HeartbeatIdleReason,
		"Draining deadline":                    DrainingDeadline,
		"LeaseReturning shard_id":              LeaseReturningShardID,
		"LeaseReturning deadline":              LeaseReturningDeadline,
		"LeaseLost shard_id":                   LeaseLostShardID,
		"SessionEnded reason":                  SessionEndedReason,
		"Barrier barrier":                      BarrierBarrier,
		"RecordTooLarge shard_id":              RecordTooLargeShardID,
		"RecordTooLarge sequence_number":       RecordTooLargeSequenceNumber,
		"RecordTooLarge partition_key":         RecordTooLargePartitionKey,
		"RecordTooLarge bytes":                 RecordTooLargeBytes,
	}
	for line := range strings.Lines(read(t, fieldsPath)) {
		words := strings.Fields(line)
		if len(words) < 4 {
			continue
		}
		name := words[0] + " " + words[len(words)-1]
		if number, ok := numbers[name]; ok && fmt.Sprint(number) != words[1] {
			t.Errorf("%s is %s, not %d", name, words[1], number)
		}
		delete(numbers, name)
	}
	if len(numbers) > 0 {
		t.Errorf("the protos do not have %v", numbers)
	}
}

func TestWords_are_those_of_the_enums(t *testing.T) {
	text := read(t, recordPath)
	for prefix, words := range map[string][]string{"SESSION_END_": SessionEnds, "IDLE_REASON_": IdleReasons} {
		for value, word := range words {
			if want := fmt.Sprintf("%s%s = %d;", prefix, strings.ToUpper(word), value); !strings.Contains(text, want) {
				t.Errorf("record.proto does not have %q", want)
			}
		}
	}
}

func TestFrame_that_is_not_complete_says_how_long_it_is(t *testing.T) {
	frame := AppendEvent(nil, EventLeaseLost, AppendBytes(nil, LeaseLostShardID, "shard"))
	for length := range len(frame) {
		message, size, err := Frame(frame[:length])
		if message != nil || err != nil || length > 0 && size != len(frame) {
			t.Errorf("%d bytes: got %v, %d, %v", length, message, size, err)
		}
	}
	if message, size, err := Frame(append(frame, 1)); message == nil || size != len(frame) || err != nil {
		t.Errorf("got %v, %d, %v", message, size, err)
	}
}

func TestFields_of_all_types_are_read(t *testing.T) {
	message := AppendVarint(nil, 1, 300)
	message = append(message, 2<<3|typeFixed8, 1, 2, 3, 4, 5, 6, 7, 8, 3<<3|typeFixed4, 1, 2, 3, 4)
	message = AppendBytes(message, 4, "text")
	message = AppendVarint(message, 5, 0)
	var got []string
	fields := Read(message)
	for fields.Next() {
		got = append(got, fmt.Sprintf("%d:%s", fields.Number, fields.Bytes))
	}
	if want := []string{"1:", "2:", "3:", "4:text"}; !reflect.DeepEqual(got, want) || fields.Err != nil {
		t.Errorf("got %v, %v", got, fields.Err)
	}
}

func FuzzMessages_of_any_bytes_are_read_or_malformed(f *testing.F) {
	f.Add([]byte{0x0a, 0x7f})
	f.Add(AppendBytes(nil, 1, "text"))
	f.Fuzz(func(t *testing.T, message []byte) {
		fields := Read(message)
		for fields.Next() {
			if fields.End > len(message) {
				t.Error("read beyond the end")
			}
		}
		if fields.Err == nil && fields.End != len(message) {
			t.Error("bytes are left")
		}
	})
}

func TestCount_counts_complete_messages_up_to_a_limit(t *testing.T) {
	frames := AppendEvent(nil, EventRecord, []byte("one"))
	frames = AppendEvent(frames, EventRecord, []byte("two"))
	for _, c := range []struct{ length, limit, want int }{
		{0, 9, 0}, {len(frames) - 1, 9, 1}, {len(frames), 9, 2}, {len(frames), 1, 1},
	} {
		if got := Count(frames[:c.length], c.limit); got != c.want {
			t.Errorf("%+v: got %d", c, got)
		}
	}
}
