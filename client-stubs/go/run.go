// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"
)

// Handler handles one record. Nil acknowledges the record, an error retries it with the error's text as the reason, and
// an error of [DeadLetter] gives it up. The handler may settle the record itself: the first outcome counts.
type Handler func(ctx context.Context, record *Record) error

// RunOption is an option of a run.
type RunOption func(*int)

// Concurrency is the maximum number of handlers that run at the same time. Default: 1.
func Concurrency(handlers int) RunOption { return func(n *int) { *n = handlers } }

// Run calls the handler with each record, until ctx is done or an error occurs. With [Concurrency] above 1, the partition
// keys of a shard are divided among 64 lanes, and the records of a lane are handled one after the other, in order.
//
// When ctx is done, Run hands out no further records, waits for the running handlers, sends the acknowledgements,
// closes the session and returns nil. The context of the handlers has the values of ctx and is not cancelled with it.
func (c *Consumer) Run(ctx context.Context, handler Handler, options ...RunOption) error {
	concurrency := 1
	for _, option := range options {
		option(&concurrency)
	}
	if err := c.start(max(concurrency, 1)); err != nil {
		return err
	}
	defer c.wakeAtEnd(ctx)()
	c.handleAll(ctx, handler, concurrency)
	c.running.Done()
	err := c.reason()
	c.Close()
	return err
}

func (c *Consumer) handleAll(ctx context.Context, handler Handler, concurrency int) {
	var workers sync.WaitGroup
	for range concurrency - 1 {
		workers.Add(1)
		go func() {
			defer workers.Done()
			c.handle(ctx, handler)
		}()
	}
	c.handle(ctx, handler)
	workers.Wait()
}

// Handles one record after the other, until ctx is done.
func (c *Consumer) handle(ctx context.Context, handler Handler) {
	var verdict settlement
	isOver, handling := isDone(ctx), context.WithoutCancel(ctx)
	for record := c.advance(nil, verdict, isOver); record != nil; record = c.advance(record, verdict, isOver) {
		verdict = judge(handler(handling, record))
	}
}

// Settles the record before and waits for the next one.
func (c *Consumer) advance(before *Record, verdict settlement, isOver func() bool) *Record {
	c.mu.Lock()
	defer c.mu.Unlock()
	if before != nil {
		c.decide(before, verdict)
		c.queue.done(before)
	}
	return c.next(isOver)
}

// The settlement that follows from the error of a handler.
func judge(err error) settlement {
	if err == nil {
		return settlement{Outcome: outcomeAck}
	}
	outcome := outcomeRetry
	if final := (*deadLetter)(nil); errors.As(err, &final) {
		outcome = outcomeDeadLetter
	}
	return settlement{Outcome: outcome, Reason: clean(err.Error())}
}

// Why the run or the iteration ended: nil if it was told to.
func (c *Consumer) reason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fatal
}

// Records returns an iterator over the records. A record that has no outcome is acknowledged when the next one is asked
// for. Leaving the loop settles nothing: the next loop hands the last record out again, and [Consumer.Close] gives it back.
//
// The loop ends when ctx is done. Any other end is reported by an error, with a nil record, in the last turn.
func (c *Consumer) Records(ctx context.Context) iter.Seq2[*Record, error] {
	return func(yield func(*Record, error) bool) {
		if err := c.start(0); err != nil {
			yield(nil, err)
			return
		}
		c.putBackLeft()
		defer c.wakeAtEnd(ctx)()
		ack, isOver := settlement{Outcome: outcomeAck}, isDone(ctx)
		var r *Record
		defer func() {
			if r != nil {
				c.leave(r)
			}
		}()
		for r = c.advance(nil, ack, isOver); r != nil; r = c.advance(r, ack, isOver) {
			if !yield(r, nil) {
				return
			}
		}
		if err := c.reason(); err != nil {
			yield(nil, err)
		}
	}
}

// Batch is a list of records that are settled together.
type Batch struct {
	Records  []*Record
	consumer *Consumer
}

// Ack acknowledges the records that have no outcome.
func (b *Batch) Ack() { b.settle(settlement{Outcome: outcomeAck}) }

// Retry redelivers the records that have no outcome, in their order. See [Record.Retry].
func (b *Batch) Retry(delay time.Duration, reason string) {
	b.settle(settlement{Outcome: outcomeRetry, DelayMs: delay.Milliseconds(), Reason: clean(reason)})
}

// Settles from the end backwards: the retry of a record takes back the later ones, which could not be retried any more.
func (b *Batch) settle(s settlement) {
	b.consumer.mu.Lock()
	defer b.consumer.mu.Unlock()
	for _, r := range slices.Backward(b.Records) {
		b.consumer.decide(r, s)
	}
}

// Batches returns an iterator over lists of records: up to maxRecords, or those that came within maxWait from the first
// one on. Zero stands for the defaults, 500 records and 1 s. The records of a batch that have no outcome are
// acknowledged when the next batch is asked for. It ends as [Consumer.Records] does.
func (c *Consumer) Batches(ctx context.Context, maxRecords int, maxWait time.Duration) iter.Seq2[*Batch, error] {
	if maxRecords <= 0 {
		maxRecords = batchRecordsDefault
	}
	if maxWait <= 0 {
		maxWait = batchWaitDefault
	}
	return func(yield func(*Batch, error) bool) {
		if err := c.start(0); err != nil {
			yield(nil, err)
			return
		}
		c.putBackLeft()
		defer c.wakeAtEnd(ctx)()
		var batch *Batch
		defer func() {
			if batch != nil {
				c.leave(batch.Records...)
			}
		}()
		for batch = c.nextBatch(ctx, maxRecords, maxWait); batch != nil; batch = c.nextBatch(ctx, maxRecords, maxWait) {
			if !yield(batch, nil) {
				return
			}
			batch.Ack()
		}
		if err := c.reason(); err != nil {
			yield(nil, err)
		}
	}
}

// Waits for a batch. Returns nil at the end.
func (c *Consumer) nextBatch(ctx context.Context, maxRecords int, maxWait time.Duration) *Batch {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := c.next(isDone(ctx))
	if first == nil {
		return nil
	}
	records := append(make([]*Record, 0, maxRecords), first)
	full := false
	timer := time.AfterFunc(maxWait, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		full = true
		c.work.Broadcast()
	})
	defer timer.Stop()
	for len(records) < maxRecords {
		r := c.next(func() bool { return full || ctx.Err() != nil })
		if r != nil {
			records = append(records, r)
			continue
		}
		if full {
			break
		}
		c.putBack(records)
		return nil
	}
	return &Batch{Records: records, consumer: c}
}
