// SPDX-License-Identifier: Apache-2.0
// What story.py tells, in Go: what is held, what is settled when and how, and the diary.

package main

import (
	"bufio"
	"encoding/json"
	"math/rand"
	"os"

	v1 "clients/gen/kinesis_sidecar/v1"
)

const (
	window      = 200
	maxInFlight = 2 * window
	heartbeatMs = 100
	clientID    = "scenario"
	retryMostMs = 30

	raceBatches  = 16
	raceInFlight = 100000
)

type key struct{ shard, sequence string }

// Numbers of a sequence are longer than those of Go; among equally long ones text is in their order.
func (k key) isBehind(sequence string) bool {
	if len(k.sequence) != len(sequence) {
		return len(k.sequence) > len(sequence)
	}
	return k.sequence > sequence
}

type story struct {
	chance           *rand.Rand
	count            int
	retries, letters int // In a thousand.
	held             map[key]string
	pending          map[uint64][]key // By request: what it settles for good.
	done             map[key]bool     // False: in a request that was not answered yet.
	unsure           map[key]bool     // Settled for good in a stream that ended before the answer.
	request          uint64
	hungUp           bool
	diary            *bufio.Writer
}

func newStory(seed, count, retries, letters int) *story {
	return &story{chance: rand.New(rand.NewSource(int64(seed))), count: count, retries: retries, letters: letters,
		held: map[key]string{}, pending: map[uint64][]key{}, done: map[key]bool{}, unsure: map[key]bool{},
		diary: bufio.NewWriter(os.Stdout)}
}

type line map[string]any

func (s *story) tell(line line) {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	s.diary.Write(append(text, '\n'))
}

func (s *story) opened() {
	s.tell(line{"event": "opened"})
}

func (s *story) record(r *v1.Record) {
	s.tell(line{"event": "record", "shard": r.ShardId, "sequence": r.SequenceNumber, "data": r.Data, "attempt": r.Attempt})
	k := key{r.ShardId, r.SequenceNumber}
	delete(s.unsure, k)
	if _, settled := s.done[k]; !settled {
		s.held[k] = r.AckId
	}
}

// What is to be settled now, and the number of the request; nil if nothing is.
func (s *story) due(silence bool) (uint64, *v1.SettleRequest) {
	if len(s.held) == 0 || (!silence && len(s.held) < window) {
		return 0, nil
	}
	most := len(s.held)
	if !silence {
		most /= 2
	}
	s.request++
	settle := &v1.SettleRequest{}
	retried := map[string]string{}
	for _, k := range s.sample(most) {
		settlement := &v1.Settlement{AckId: s.held[k]}
		delete(s.held, k)
		var outcome string
		outcome, settlement.Outcome = s.outcome()
		s.tell(line{"event": "settle", "request": s.request, "shard": k.shard, "sequence": k.sequence, "outcome": outcome})
		if outcome == "retry" {
			settlement.DelayMs = int64(1 + s.chance.Intn(retryMostMs))
			if earliest, found := retried[k.shard]; !found || !k.isBehind(earliest) {
				retried[k.shard] = k.sequence
			}
		} else {
			s.pending[s.request] = append(s.pending[s.request], k)
			s.done[k] = false
		}
		settle.Settlements = append(settle.Settlements, settlement)
	}
	for k := range s.held {
		if earliest, found := retried[k.shard]; found && k.isBehind(earliest) {
			delete(s.held, k)
		}
	}
	return s.request, settle
}

func (s *story) sample(most int) []key {
	keys := make([]key, 0, len(s.held))
	for k := range s.held {
		keys = append(keys, k)
	}
	s.chance.Shuffle(len(keys), func(a, b int) { keys[a], keys[b] = keys[b], keys[a] })
	return keys[:most]
}

func (s *story) outcome() (string, v1.Outcome) {
	drawn := s.chance.Intn(1000)
	switch {
	case drawn < s.retries:
		return "retry", v1.Outcome_OUTCOME_RETRY
	case drawn < s.retries+s.letters:
		return "dead_letter", v1.Outcome_OUTCOME_DEAD_LETTER
	}
	return "ack", v1.Outcome_OUTCOME_ACK
}

func (s *story) settled(request uint64, answer *v1.SettleResponse) {
	failed := []string{}
	for _, failure := range answer.Failed {
		failed = append(failed, failure.Reason)
	}
	positions := []line{}
	for _, p := range answer.Positions {
		positions = append(positions, line{"shard_id": p.ShardId, "watermark": p.Watermark, "checkpoint": p.Checkpoint})
	}
	s.tell(line{"event": "settled", "request": request, "ok": answer.Ok, "failed": failed, "positions": positions})
	for _, k := range s.pending[request] {
		s.done[k] = true
	}
	delete(s.pending, request)
}

// Whether all but what waits for its answer is half of it.
func (s *story) hangsUp() bool {
	if s.hungUp || len(s.done) < s.count/2 || len(s.held) == 0 {
		return false
	}
	s.hungUp = true
	s.tell(line{"event": "disconnected"})
	clear(s.held)
	for _, keys := range s.pending {
		for _, k := range keys {
			delete(s.done, k)
			s.unsure[k] = true
		}
	}
	clear(s.pending)
	return true
}

func (s *story) isOver(silence bool) bool {
	if len(s.held) > 0 || len(s.pending) > 0 || len(s.done)+len(s.unsure) < s.count || (len(s.unsure) > 0 && !silence) {
		return false
	}
	s.tell(line{"event": "finished"})
	return true
}
