// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"iter"
	"slices"
	"strconv"
	"time"
)

// The records that were delivered to a consumer, and what has to be sent. Guarded by the mutex of the consumer.
type deliveries struct {
	limits     limits
	stopping   bool
	generation uint64 // Number of the session, from 1.
	arrivals   uint64 // Number of the last delivery.
	queue      queue

	batches   []*batch             // Of this session, with records without an outcome or acknowledgements to be sent.
	current   *batch               // Of the last record: further records of the batch may follow.
	adoptable map[position]*Record // The outcome of each settles its redelivery, which is not handed out.
	heads     map[string]*Record   // By shard: the first record of its last batch in this session.
	sending   *request             // Without an answer.

	outcomes     []*Record    // With an outcome other than an acknowledgement, to be sent at once.
	extensions   []settlement // Asked for by the app.
	waiting      int          // Acknowledgements that are not sent yet.
	waitingBytes int64
	oldest       time.Time // Of the acknowledgements that wait.
	flush        bool      // The acknowledgements are sent at once.
	outcomesNext bool      // Before further acknowledgements.
	holds        []*hold
	barriers     uint64 // Number of the last one.
	extendAt     time.Time
	left         []*Record // Of loops that the app left.
}

// Records that one batch_id settles.
type batch struct {
	id         string
	generation uint64
	since      time.Time
	records    []*Record
	complete   bool   // No further record follows.
	lostAt     uint64 // Number of the last delivery before its lease was lost; 0: it was not.
	open       int    // Records without an outcome.
	acked      int    // Records that the app acknowledged.
	waiting    int    // Acknowledgements that are not sent yet.
}

// Returns the records that have no outcome. The list of an earlier batch has redelivered records, too.
func (b *batch) openRecords() (open []*Record) {
	for _, r := range b.records {
		if r.batch == b && (r.state == stateQueued || r.state == stateRunning) {
			open = append(open, r)
		}
	}
	return open
}

// True if one acknowledgement by the batch_id settles all records.
func (b *batch) isWhole() bool { return b.complete && b.acked == len(b.records) }

// A retry takes back the later records of its scope. They are held until it is known whether it did, and which they are.
type hold struct {
	record   *Record
	barriers []string // Of each copy of the request.
	answered bool
	accepted bool
	gone     bool   // The sidecar had redelivered the record, or lost its lease, before.
	passed   bool   // The last barrier was read.
	mark     uint64 // Number of the last delivery before the last barrier.
	first    uint64 // Number of the last delivery before the first sign that the record failed; 0: no sign yet.
}

// Returns whether the retry takes back a record of its scope that was not handed out. A retry that was accepted twice
// takes back the redelivery of its own record, too.
func (h *hold) takesBack(r *Record) bool {
	return r.arrival <= h.last() && comparePositions(r, h.record) >= 0
}

// Returns the number of the last delivery that the retry may take back.
func (h *hold) last() uint64 {
	if h.gone {
		return h.first
	}
	return h.mark
}

// Notes a sign that the record failed: its redelivery, a barrier, or the loss of its lease. A retry of a delivery that is
// gone takes back no record that follows the first sign.
func (h *hold) sign(arrival uint64) {
	if h.first == 0 {
		h.first = arrival
	}
}

// Notes the answer to the retry; an empty reason: it was not refused. An id that is unknown is of a sidecar that was
// restarted. It may have accepted an earlier copy of the request, so the hold stays until the next session.
func (h *hold) judge(reason string) {
	h.answered = reason != "UNKNOWN"
	h.gone = meansGone(reason)
	h.accepted = h.gone || reason == ""
}

// Enters a delivery that was read from the stream.
func (c *Consumer) arrive(r *Record, batchID string, now time.Time) {
	if c.current == nil || c.current.id != batchID {
		if c.current != nil {
			c.current.complete = true
		}
		c.current = &batch{id: batchID, generation: c.generation, since: now}
		c.batches = append(c.batches, c.current)
		c.noteHead(r)
	}
	for _, h := range c.holds {
		if h.record.position() == r.position() {
			h.sign(c.arrivals)
		}
	}
	c.arrivals++
	r.consumer, r.batch, r.lane, r.arrival = c, c.current, c.queue.lane(r), c.arrivals
	r.lane.enter(r)
	c.current.open++
	if len(c.adoptable) > 0 {
		if old := c.adoptable[r.position()]; old != nil {
			c.adopt(old, r)
			return
		}
	}
	c.current.records = append(c.current.records, r)
	c.queue.push(r)
}

// Notes where a batch begins. A dead letter has no order.
func (c *Consumer) noteHead(r *Record) {
	if r.Redriven {
		return
	}
	c.heads[r.ShardID] = r.place()
}

// Expects redeliveries of records that the app has in this session, or whose outcome the sidecar has not confirmed.
func (c *Consumer) expect(isRedelivered func(*Record) bool) {
	for r := range c.unconfirmed() {
		if isRedelivered(r) {
			c.adoptable[r.position()] = r
		}
	}
}

// Returns the records whose outcome, which the app may not have decided yet, settles a redelivery in this session.
func (c *Consumer) unconfirmed() iter.Seq[*Record] {
	return func(yield func(*Record) bool) {
		for _, b := range c.batches {
			for _, r := range b.records {
				if (r.state == stateRunning || r.state == stateDecided) && !yield(r) {
					return
				}
			}
		}
		for _, r := range c.outcomes { // Their batches may be forgotten.
			if !yield(r) {
				return
			}
		}
		if c.sending == nil {
			return
		}
		for _, r := range c.sending.records {
			if !r.isRetry() && !yield(r) {
				return
			}
		}
	}
}

// Expects no redelivery of the record any more: its outcome is confirmed, or a retry that was sent.
func (c *Consumer) unexpect(r *Record) {
	if len(c.adoptable) > 0 && c.adoptable[r.position()] == r {
		delete(c.adoptable, r.position())
	}
}

// The app left a loop.
func (c *Consumer) leave(records ...*Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = append(c.left, records...)
}

// A loop begins. It hands out the records of loops that were left.
func (c *Consumer) putBackLeft() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.putBack(c.left)
	c.left = nil
}

// Queues records without an outcome again that the app has left, or has not seen. Drops those that are redelivered.
func (c *Consumer) putBack(records []*Record) {
	for _, r := range slices.Backward(records) {
		if r.state != stateRunning {
			continue
		}
		c.unexpect(r)
		if r.batch.generation != c.generation || r.batch.lostAt > 0 || r.lane.hasTakenBack(r) {
			giveUp(r)
			continue
		}
		r.state, r.left = stateQueued, true
		c.queue.putBack(r)
	}
}

// Lets the record that the app has, or whose outcome is not confirmed, stand for its redelivery. It remains in the list of
// a batch of this session, so that the batch_id does not acknowledge it.
func (c *Consumer) adopt(old, r *Record) {
	delete(c.adoptable, old.position())
	if old.batch.generation == c.generation {
		c.withdraw(old)
	}
	if old.since.IsZero() {
		old.since = old.batch.since
	}
	old.ackID, old.batch, old.lane, old.arrival = r.ackID, r.batch, r.lane, r.arrival
	r.batch.records = append(r.batch.records, old)
	if old.state != stateRunning {
		c.note(old)
	}
}

// Undoes what a batch of this session has counted of a record.
func (c *Consumer) withdraw(r *Record) {
	switch {
	case r.state == stateRunning:
		r.batch.open--
	case r.state == stateSent:
		// The request keeps the record. Its answer does not confirm the outcome of the redelivery.
	case r.decision == nil:
		r.batch.acked--
		c.unwait(r)
	default:
		c.outcomes = slices.DeleteFunc(c.outcomes, func(outcome *Record) bool { return outcome == r })
		c.holds = slices.DeleteFunc(c.holds, func(h *hold) bool {
			if h.record == r {
				c.queue.release(r.lane)
			}
			return h.record == r
		})
	}
}

// Settles a record that the app has.
func (c *Consumer) settle(r *Record, s settlement) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.decide(r, s)
}

func (c *Consumer) decide(r *Record, s settlement) {
	if r.left && r.state == stateQueued {
		c.queue.remove(func(queued *Record) bool { return queued == r })
		r.state = stateRunning
	}
	if r.state != stateRunning {
		return
	}
	r.state = stateDecided
	if s.Outcome != outcomeAck {
		decision := s // A copy here, so that an acknowledgement allocates nothing.
		r.decision = &decision
	}
	if r.batch.generation == c.generation {
		c.note(r)
	}
}

// Notes the outcome of a record to be sent.
func (c *Consumer) note(r *Record) {
	r.state = stateDecided
	r.batch.open--
	if r.decision == nil {
		c.noteAck(r)
		return
	}
	if r.isRetry() && r.lane != nil {
		r.lane.holds++
		c.holds = append(c.holds, &hold{record: r, first: r.batch.lostAt})
	}
	c.outcomes = append(c.outcomes, r)
	c.wake()
}

func (c *Consumer) noteAck(r *Record) {
	r.batch.acked++
	r.batch.waiting++
	c.waiting++
	c.waitingBytes += r.size()
	if c.waiting == 1 {
		c.oldest = time.Now()
		c.wake()
	} else if c.isHalfWaiting() {
		c.wake()
	}
}

func (r *Record) size() int64 { return int64(len(r.Data) + len(r.PartitionKey)) }

// True if the sidecar would soon have nothing to deliver.
func (c *Consumer) isHalfWaiting() bool {
	return 2*c.waiting >= c.limits.maxInFlight || 2*c.waitingBytes >= c.limits.maxBytes
}

func (c *Consumer) extend(r *Record, duration time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.state == stateRunning && r.batch.generation == c.generation {
		extension := settlement{AckID: string(r.ackID), Outcome: outcomeExtend, DelayMs: duration.Milliseconds()}
		c.extensions = append(c.extensions, extension)
		c.wake()
	}
}

// A session begins. Settlements of the one before are stale, and its records are redelivered.
func (c *Consumer) opened(event Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.keepUnconfirmed()
	c.generation++
	c.attached = true
	c.limits = event.limits.or(c.limits)
	c.extendAt = time.Now().Add(c.limits.ackDeadline / 3)
	c.queue.remove(giveUp)
	for _, h := range c.holds {
		c.queue.release(h.record.lane)
	}
	c.queue.forget()
	clear(c.heads)
	c.batches, c.current, c.outcomes, c.extensions, c.holds, c.sending = nil, nil, nil, nil, nil, nil
	c.waiting, c.waitingBytes, c.flush = 0, 0, false
	c.work.Broadcast()
}

// Keeps the records that the app has, and those whose outcome the sidecar has not confirmed. Forgets settled ones.
func (c *Consumer) keepUnconfirmed() {
	for position, r := range c.adoptable {
		if !c.isSettled(r) {
			continue
		}
		delete(c.adoptable, position)
		if r.state == stateDecided {
			c.stale++
		}
	}
	for _, b := range c.batches {
		for _, r := range b.records {
			if r.state == stateRunning || r.state == stateDecided {
				c.adoptable[r.position()] = r
			}
		}
	}
	for _, r := range c.outcomes {
		c.adoptable[r.position()] = r
	}
	if c.sending != nil {
		for _, r := range c.sending.records {
			c.adoptable[r.position()] = r
		}
	}
}

// True if the record has an outcome, and the session that ends delivered later records of the shard, but not this one.
// A dead letter has no order.
func (c *Consumer) isSettled(r *Record) bool {
	head := c.heads[r.ShardID]
	hasOutcome := r.state != stateRunning && r.batch.generation != c.generation
	return hasOutcome && (r.Redriven || head != nil && comparePositions(head, r) > 0)
}

// The stream broke. The next session redelivers what is not settled, so no further record is handed out. The sidecar
// accepts settlements until then.
func (c *Consumer) detached() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attached = false
	c.current = nil // Not complete: records of the batch may have been lost with the connection.
	c.queue.remove(giveUp)
	c.flush = c.waiting > 0
	c.wake()
}

// A shard is lost. Its next owner, which may be this sidecar, delivers its records again.
func (c *Consumer) lost(shardID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	isLost := func(r *Record) bool { return r.ShardID == shardID && !r.Redriven }
	c.queue.remove(func(r *Record) bool { return isLost(r) && giveUp(r) })
	for _, b := range c.batches {
		if b.lostAt == 0 && len(b.records) > 0 && isLost(b.records[0]) {
			b.lostAt = c.arrivals
		}
	}
	c.expect(isLost)
	for _, h := range c.holds {
		if isLost(h.record) {
			h.sign(c.arrivals)
		}
	}
}

// Drops a record that was not handed out and is redelivered.
func giveUp(r *Record) bool {
	r.state = stateGone
	r.batch.open--
	return true
}

// Gives the retries of a request a new barrier.
func (c *Consumer) setBarrier(request *request) {
	if len(request.holds) == 0 {
		return
	}
	c.barriers++
	request.Barrier = strconv.FormatUint(c.barriers, 10)
	for _, h := range request.holds {
		h.barriers, h.passed = append(h.barriers, request.Barrier), false
	}
}

// The barrier of a request was read from the stream.
func (c *Consumer) pass(barrier string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.holds {
		number := slices.Index(h.barriers, barrier)
		if number < 0 {
			continue
		}
		h.sign(c.arrivals)
		h.passed, h.mark = number == len(h.barriers)-1, c.arrivals
	}
	c.resolve()
}

// Ends the holds of which all is known.
func (c *Consumer) resolve() {
	unresolved := c.holds[:0]
	for _, h := range c.holds {
		if !h.answered || !h.passed {
			unresolved = append(unresolved, h)
			continue
		}
		if h.accepted {
			h.record.lane.takeBack(h)
		}
		c.queue.release(h.record.lane)
		c.work.Broadcast()
	}
	clear(c.holds[len(unresolved):])
	c.holds = unresolved
}
