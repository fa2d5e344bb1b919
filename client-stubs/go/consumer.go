// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Consumer reads the records of one session. It is safe for use by several goroutines.
//
// Nothing is opened before the first record is asked for.
type Consumer struct {
	clientID string
	config   config
	link     *link
	invalid  error // Of the options.

	running sync.WaitGroup  // Runs, with their handlers.
	workers sync.WaitGroup  // The reader and the sender.
	ctx     context.Context // Of the stream.
	cancel  context.CancelFunc
	sendCtx context.Context // Of requests that settle. It ends when Close gives up.
	abandon context.CancelFunc
	noted   chan struct{} // Wakes the sender.

	mu       sync.Mutex
	work     sync.Cond // Records to hand out, or the end.
	idle     int       // Goroutines that wait for work.
	started  bool
	closing  bool
	attached bool // The stream is open.
	fatal    error
	stale    uint64
	failed   uint64
	deliveries
}

// New makes a consumer. The client_id names its session: if another process opens a stream with the same client_id, it
// takes the session over. It has 1 to 64 characters of A-Z a-z 0-9 . _ -
//
// Invalid options are reported by the first call that reads.
func New(clientID string, options ...Option) *Consumer {
	c := &Consumer{clientID: clientID, config: defaults(), noted: make(chan struct{}, 1)}
	for _, option := range options {
		option(&c.config)
	}
	c.work.L = &c.mu
	c.queue.lanes = map[scope]*lane{}
	c.adoptable, c.heads = map[position]*Record{}, map[string]*Record{}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.sendCtx, c.abandon = context.WithCancel(context.Background())
	c.limits = limits{c.config.maxInFlight, c.config.maxBytes, c.config.ackDeadline, heartbeatDefault}
	c.link, c.invalid = newLink(&c.config)
	if err := c.config.check(); err != nil {
		c.invalid = err
	}
	if clientID == "" {
		c.invalid = fmt.Errorf("sidecar: the client_id must not be empty")
	}
	return c
}

// Stale returns the number of settlements that were dropped because their session had ended. Their records are
// redelivered.
func (c *Consumer) Stale() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stale
}

// Failed returns the number of settlements that the sidecar refused one by one.
func (c *Consumer) Failed() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// Opens the stream, if it is not open. An iteration has the concurrency 0. A run ends with running.Done().
func (c *Consumer) start(concurrency int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.invalid != nil:
		return c.invalid
	case c.stopping:
		return ErrClosed
	}
	if concurrency > 0 {
		c.running.Add(1)
	}
	if c.started {
		c.queue.exclusive = c.queue.exclusive || concurrency > 1
		return nil
	}
	c.started = true
	c.config.order(concurrency)
	c.queue.ordering, c.queue.exclusive = c.config.ordering, concurrency > 1
	c.workers.Add(2)
	go c.readStreams()
	go c.sendSettlements()
	return nil
}

// Close waits for the handlers of a run, sends the settlements that wait, and ends the session: the sidecar redelivers
// all other records at once. A sidecar that does not answer is given up after 5 s. A handler must not call Close. Close may
// be called several times.
func (c *Consumer) Close() error {
	c.stop()
	c.running.Wait()
	c.mu.Lock()
	if c.closing {
		c.mu.Unlock()
		c.workers.Wait()
		return nil
	}
	c.closing = true
	c.mu.Unlock()
	defer time.AfterFunc(c.config.closeTimeout, c.abandon).Stop()
	c.wake()
	c.workers.Wait()
	c.abandon()
	c.cancel()
	c.link.close()
	return nil
}

// Ends runs and iterations.
func (c *Consumer) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopping = true
	c.work.Broadcast()
}

// Ends runs and iterations with an error.
func (c *Consumer) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fatal == nil {
		c.fatal = err
	}
	c.work.Broadcast()
}

func (c *Consumer) wake() {
	select {
	case c.noted <- struct{}{}:
	default:
	}
}

func (c *Consumer) emit(event Event) {
	if c.config.onEvent != nil {
		c.config.onEvent(event)
	}
}

// Waits for a record. Returns nil at the end: when it is over, when the consumer is closed, or after an error. The mutex
// is held.
func (c *Consumer) next(isOver func() bool) *Record {
	for c.fatal == nil && !c.stopping && !isOver() {
		if r := c.queue.pop(); r != nil {
			r.state = stateRunning
			return r
		}
		c.idle++
		c.work.Wait()
		c.idle--
	}
	return nil
}

// Wakes the goroutines that wait for work when ctx is done. The result ends that.
func (c *Consumer) wakeAtEnd(ctx context.Context) func() bool {
	return context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.work.Broadcast()
	})
}

func isDone(ctx context.Context) func() bool {
	return func() bool { return ctx.Err() != nil }
}
