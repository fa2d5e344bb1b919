// SPDX-License-Identifier: Apache-2.0

// client HOST:PORT SEED COUNT RETRIES LETTERS WAY CLIENT: grpc-go and connect-go. See judge.py.
package main

import (
	"fmt"
	"os"
	"strconv"

	v1 "clients/gen/kinesis_sidecar/v1"
)

// One stream of records, of grpc-go or of connect-go.
type road interface {
	receive() (*v1.StreamEvent, error)
	say(*v1.StreamRequest) error
	settle(*v1.SettleRequest) (*v1.SettleResponse, error)
	hangUp()
}

var open = &v1.OpenRequest{ClientId: clientID, MaxInFlight: maxInFlight, HeartbeatMs: heartbeatMs}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// One event; returns whether it tells of silence.
func handle(story *story, event *v1.StreamEvent) bool {
	switch told := event.Event.(type) {
	case *v1.StreamEvent_Session:
		story.opened()
	case *v1.StreamEvent_Batch:
		for _, record := range told.Batch.Records {
			story.record(record)
		}
	case *v1.StreamEvent_Answer:
		if told.Answer.GetSettled() == nil {
			must(fmt.Errorf("what is this? %v", event))
		}
		story.settled(told.Answer.Id, told.Answer.GetSettled())
	case *v1.StreamEvent_Heartbeat:
		return true
	default:
		must(fmt.Errorf("what is this? %v", event))
	}
	return false
}

func settle(story *story, road road, way string, silence bool) {
	request, settlements := story.due(silence)
	if settlements == nil {
		return
	}
	if way == "stream" {
		must(road.say(&v1.StreamRequest{Id: request, Request: &v1.StreamRequest_Settle{Settle: settlements}}))
		return
	}
	answer, err := road.settle(settlements)
	must(err)
	story.settled(request, answer)
}

// One stream, to its end; returns whether all is settled.
func consume(story *story, road road, way string) bool {
	for {
		event, err := road.receive()
		must(err)
		silence := handle(story, event)
		settle(story, road, way, silence)
		if story.isOver(silence) {
			return true
		}
		if story.hangsUp() {
			return false
		}
	}
}

// See story.py: everything is acknowledged, batch by batch, and counted.
func race(road road) {
	seen := 0
	settle := &v1.SettleRequest{}
	for {
		event, err := road.receive()
		must(err)
		if event.GetBatch() == nil {
			continue
		}
		seen += len(event.GetBatch().Records)
		settle.Settlements = append(settle.Settlements,
			&v1.Settlement{BatchId: event.GetBatch().BatchId, Outcome: v1.Outcome_OUTCOME_ACK})
		if len(settle.Settlements) == raceBatches {
			_, err = road.settle(settle)
			must(err)
			settle.Settlements = nil
			fmt.Println(seen)
		}
	}
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	must(err)
	return value
}

func main() {
	args := os.Args[1:]
	address, way, client := args[0], args[5], args[6]
	story := newStory(number(args[1]), number(args[2]), number(args[3]), number(args[4]))
	connect := map[string]func(address, way string) road{"grpc-go": grpcGo, "connect-go": connectGo}[client]
	if story.count == 0 {
		open = &v1.OpenRequest{MaxInFlight: raceInFlight}
		race(connect(address, way))
	}
	for over := false; !over; {
		road := connect(address, way)
		over = consume(story, road, way)
		road.hangUp()
	}
	must(story.diary.Flush())
}
