// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"time"
)

// One item of POST /v1/records/settle.
type settlement struct {
	AckID   string `json:"ack_id,omitempty"`
	BatchID string `json:"batch_id,omitempty"`
	Outcome string `json:"outcome"`
	DelayMs int64  `json:"delay_ms,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

type settleBody struct {
	Settlements []settlement `json:"settlements"`
	Barrier     string       `json:"barrier,omitempty"`
	Wait        string       `json:"wait,omitempty"`
	WaitMs      int          `json:"wait_ms,omitempty"`
}

type settleAnswer struct {
	Failed    []failure `json:"failed"`
	Persisted bool      `json:"persisted"`
}

// One item that was refused.
type failure struct {
	AckID   string `json:"ack_id"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

type request struct {
	settleBody
	generation uint64
	records    []*Record // With an outcome. An extension has none.
	holds      []*hold   // Of the retries.
}

func (r *request) isExtension() bool { return len(r.records) == 0 }

// True if the failure of a retry shows that the record was or will be redelivered without it: its ack deadline has passed,
// its lease was lost, or an earlier copy of the request was accepted.
func (r *request) isGone(f failure) bool {
	isRetry := func(s settlement) bool { return s.AckID == f.AckID && s.Outcome == outcomeRetry }
	return meansGone(f.Reason) && slices.ContainsFunc(r.Settlements, isRetry)
}

// True if the reason of a refusal shows that the delivery is not the consumer's any more.
func meansGone(reason string) bool { return reason == "EXPIRED" || reason == "FENCED" }

func (r *request) add(s settlement) { r.Settlements = append(r.Settlements, s) }

// The sender: sends settlements and extensions, one request at a time. It ends the session, too.
func (c *Consumer) sendSettlements() {
	defer c.workers.Done()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		request, wait := c.collect(time.Now())
		if request != nil {
			c.deliver(request)
			continue
		}
		if wait < 0 {
			c.endSession()
			return
		}
		timer.Reset(wait)
		select {
		case <-c.noted:
		case <-timer.C:
		}
	}
}

// Returns the request that is due, or how long nothing is due; less than 0: nothing is due any more.
func (c *Consumer) collect(now time.Time) (*request, time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting > 0 && (c.closing || len(c.outcomes) > 0 || c.isHalfWaiting() || now.Sub(c.oldest) >= c.config.ackInterval) {
		c.flush = true
	}
	c.batches = slices.DeleteFunc(c.batches, c.forget)
	if c.flush && c.waiting > 0 && !c.outcomesNext {
		c.outcomesNext = len(c.outcomes) > 0
		return c.collectAcks(), 0
	}
	if len(c.outcomes) > 0 {
		c.outcomesNext = false
		return c.collectOutcomes(), 0
	}
	if c.closing {
		return nil, -1
	}
	if request := c.collectExtensions(now); len(request.Settlements) > 0 {
		return request, 0
	}
	wait := c.limits.ackDeadline / 3
	if c.attached {
		wait = min(wait, c.extendAt.Sub(now))
	}
	if c.waiting > 0 {
		wait = min(wait, c.oldest.Add(c.config.ackInterval).Sub(now))
	}
	return nil, max(wait, time.Millisecond)
}

// Forgets a batch of which all records have an outcome and all acknowledgements are sent. Returns whether it did.
func (c *Consumer) forget(b *batch) bool {
	if b.open+b.waiting > 0 || b == c.current {
		return false
	}
	b.records = nil // An app that keeps one record shall not keep the others in memory.
	return true
}

// Takes outcomes other than acknowledgements. A refusal of one refuses the request: acknowledgements have requests of their
// own. These go first, in turn, because a retry takes back what is not settled.
func (c *Consumer) collectOutcomes() *request {
	request := &request{generation: c.generation}
	for _, r := range c.outcomes[:min(len(c.outcomes), settlementsMax)] {
		item := *r.decision
		item.AckID = string(r.ackID)
		request.add(item)
		request.records = append(request.records, r)
		r.state = stateSent
		if r.isRetry() {
			c.unexpect(r)
		}
	}
	c.outcomes = c.outcomes[len(request.records):]
	for _, h := range c.holds {
		if h.record.state == stateSent && h.barriers == nil {
			request.holds = append(request.holds, h)
		}
	}
	c.setBarrier(request)
	c.sending = request
	return request
}

// Takes acknowledgements.
func (c *Consumer) collectAcks() *request {
	request := &request{generation: c.generation}
	c.sending = request
	for _, b := range c.batches {
		if len(request.Settlements) == settlementsMax {
			return request
		}
		if b.waiting > 0 {
			c.collectAcksOf(b, request)
		}
	}
	c.flush = false
	return request
}

// Takes the acknowledgements of a batch: one item if all its records are acknowledged.
func (c *Consumer) collectAcksOf(b *batch, request *request) {
	isWhole := b.isWhole()
	if isWhole {
		request.add(settlement{BatchID: b.id, Outcome: outcomeAck})
	}
	for _, r := range b.records {
		if r.state != stateDecided || r.decision != nil {
			continue
		}
		if !isWhole {
			if len(request.Settlements) == settlementsMax {
				return
			}
			request.add(settlement{AckID: string(r.ackID), Outcome: outcomeAck})
		}
		c.take(request, r)
	}
}

// Puts an acknowledged record into the request.
func (c *Consumer) take(request *request, r *Record) {
	c.unwait(r)
	r.state = stateSent
	request.records = append(request.records, r)
}

// Counts an acknowledgement that does not wait any more.
func (c *Consumer) unwait(r *Record) {
	c.waiting--
	c.waitingBytes -= r.size()
	r.batch.waiting--
}

// Extends what the app asked for, and, when it is due, each batch of which a record has no outcome.
func (c *Consumer) collectExtensions(now time.Time) *request {
	request := &request{generation: c.generation}
	request.Settlements, c.extensions = c.extensions, nil
	if !c.attached || now.Before(c.extendAt) {
		return request
	}
	c.extendAt = now.Add(c.limits.ackDeadline / 3)
	for _, b := range c.batches {
		if b.open > 0 && now.Sub(b.since) <= c.config.maxProcessing {
			c.extendBatch(b, request, now)
		}
	}
	return request
}

// Extends a batch by one item, unless that extended a record which the app has for too long.
func (c *Consumer) extendBatch(b *batch, request *request, now time.Time) {
	item := settlement{BatchID: b.id, Outcome: outcomeExtend, DelayMs: c.limits.ackDeadline.Milliseconds()}
	isOver := func(r *Record) bool { return !r.since.IsZero() && now.Sub(r.since) > c.config.maxProcessing }
	open := b.openRecords()
	if !slices.ContainsFunc(open, isOver) {
		request.add(item)
		return
	}
	item.BatchID = ""
	for _, r := range slices.DeleteFunc(open, isOver) {
		item.AckID = string(r.ackID)
		request.add(item)
	}
}

// Sends a request until it is answered.
func (c *Consumer) deliver(request *request) {
	var wait backoff
	for {
		answer, err := c.post(request)
		switch {
		case request.isExtension():
		case err == nil:
			c.settled(request, answer)
		case isFinal(err):
			c.refused(request, err)
		case c.isCurrent(request) && sleep(c.sendCtx, wait.next(err)) && c.repeat(request):
			continue
		default:
			c.dropped(request)
		}
		return
	}
}

// Sends the items of a request, in parts if there are too many.
func (c *Consumer) post(request *request) (settleAnswer, error) {
	var whole settleAnswer
	body := request.settleBody
	for part := range slices.Chunk(request.Settlements, settlementsMax) {
		var answer settleAnswer
		body.Settlements = part
		err := c.link.call(c.sendCtx, c.config.answerTimeout, http.MethodPost, "/v1/records/settle", body, &answer)
		if err != nil {
			return answer, err
		}
		whole.Failed = append(whole.Failed, answer.Failed...)
	}
	return whole, nil
}

// True while the session of a request may settle it.
func (c *Consumer) isCurrent(request *request) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return request.generation == c.generation && c.fatal == nil
}

// Prepares a request to be sent again. The sidecar may have processed it already: the barrier that counts is that of the
// answer. Returns false if the session has ended.
func (c *Consumer) repeat(request *request) bool {
	if !c.isCurrent(request) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setBarrier(request)
	return true
}

// A request was answered.
func (c *Consumer) settled(request *request, answer settleAnswer) {
	var failed []failure
	reasons := map[string]string{} // By ack_id.
	for _, failure := range answer.Failed {
		reasons[failure.AckID] = failure.Reason
		if !request.isGone(failure) {
			failed = append(failed, failure)
		}
	}
	c.mu.Lock()
	if c.sending == request { // Else the next session has begun, and keeps its records.
		c.end(request)
	}
	c.failed += uint64(len(failed))
	for _, h := range request.holds {
		h.judge(reasons[string(h.record.ackID)])
	}
	c.resolve()
	c.mu.Unlock()
	for _, failure := range failed {
		c.emit(Event{Type: "settle_failed", AckID: failure.AckID, Reason: failure.Reason})
	}
}

// The session of a request has ended. If the next one has begun, it has the records.
func (c *Consumer) dropped(request *request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sending == request {
		c.stale += c.end(request)
	}
}

// Ends the request that is sent. Returns the number of its records whose outcome no other delivery settles.
func (c *Consumer) end(request *request) (count uint64) {
	c.sending = nil
	for _, r := range request.records {
		if r.state == stateSent {
			c.unexpect(r)
			count++
		}
	}
	return count
}

// A request was refused.
func (c *Consumer) refused(request *request, err error) {
	var refusal *Error
	if errors.As(err, &refusal) && refusal.isStale() {
		c.dropped(request)
		return
	}
	c.fail(err)
}

// Acknowledges a record and waits for the lease table.
func (c *Consumer) settlePersisted(ctx context.Context, r *Record) (bool, error) {
	c.mu.Lock()
	c.decide(r, settlement{Outcome: outcomeAck})
	stale, id := r.decision != nil || r.batch.generation != c.generation, string(r.ackID)
	c.flush = c.waiting > 0
	c.mu.Unlock()
	if stale {
		return false, nil
	}
	c.wake()
	body := settleBody{Settlements: []settlement{{AckID: id, Outcome: outcomeAck}}, Wait: "persisted", WaitMs: persistedWaitMs}
	var answer settleAnswer
	timeout := persistedWaitMs*time.Millisecond + c.config.answerTimeout
	err := c.link.call(ctx, timeout, http.MethodPost, "/v1/records/settle", body, &answer)
	var refused *Error
	if errors.As(err, &refused) && refused.isStale() {
		return false, nil
	}
	return err == nil && answer.Persisted && len(answer.Failed) == 0, err
}

// Ends the session, if it is this consumer's, and the stream.
func (c *Consumer) endSession() {
	defer c.cancel()
	c.mu.Lock()
	attached := c.attached
	c.mu.Unlock()
	if !attached {
		return
	}
	path := "/v1/sessions/" + url.PathEscape(c.clientID)
	if c.config.subscription != "" {
		path += "?subscription=" + url.QueryEscape(c.config.subscription)
	}
	// A sidecar that does not answer ends the session by itself, 5 s after the stream.
	_ = c.link.call(c.sendCtx, c.config.closeTimeout, http.MethodDelete, path, nil, nil)
}
