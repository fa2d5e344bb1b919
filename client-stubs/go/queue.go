// SPDX-License-Identifier: Apache-2.0

package sidecar

import (
	"maps"
	"slices"
)

// A first-in, first-out list.
type fifo[T any] struct {
	items []T
	first int
}

func (f *fifo[T]) len() int { return len(f.items) - f.first }

func (f *fifo[T]) push(item T) {
	if f.first > len(f.items)/2 && f.first > 64 {
		count := copy(f.items, f.items[f.first:])
		clear(f.items[count:])
		f.items, f.first = f.items[:count], 0
	}
	f.items = append(f.items, item)
}

func (f *fifo[T]) pop() (item T) {
	item, f.items[f.first] = f.items[f.first], item
	f.first++
	if f.first == len(f.items) {
		f.items, f.first = f.items[:0], 0
	}
	return item
}

func (f *fifo[T]) last() T { return f.items[len(f.items)-1] }

// Takes the last item.
func (f *fifo[T]) unpush() T {
	item := f.last()
	clear(f.items[len(f.items)-1:])
	f.items = f.items[:len(f.items)-1]
	return item
}

// Removes the items for which isGone returns true.
func (f *fifo[T]) remove(isGone func(T) bool) {
	f.items = slices.DeleteFunc(f.items[f.first:], isGone)
	f.first = 0
}

// The unit of order: a shard, or a lane of a shard with [OrderByKey].
type scope struct {
	shardID string
	number  uint32 // Of the lane in the shard.
}

// The records of one scope that were received and not handed out. They are handed out in the order of their arrival.
type lane struct {
	queued fifo[*Record]
	busy   bool // The handler of a record runs.
	holds  int  // Retries without a verdict.
	listed bool // In queue.ready.

	arrival uint64  // Number of the last delivery.
	end     *Record // The sidecar took all records after this one back; nil: none.
}

// Notes a delivery. Drops the records that wait from its position on: the sidecar delivers a scope in order, so it took
// them back, and redelivers them after r. The first delivery of a record has no delivered ones behind it.
func (l *lane) enter(r *Record) {
	if l == nil {
		return
	}
	for l.queued.len() > 0 && comparePositions(l.queued.last(), r) >= 0 {
		giveUp(l.queued.unpush())
	}
	l.arrival, l.end = r.arrival, nil
	if r.Attempt > 1 {
		l.end = r.place()
	}
}

// Drops the records that wait and that a retry took back.
func (l *lane) takeBack(h *hold) {
	l.queued.remove(func(r *Record) bool { return h.takesBack(r) && giveUp(r) })
	if l.arrival <= h.last() && !l.hasTakenBack(h.record) {
		l.end = h.record.place()
	}
}

// Returns true if a record that the app has was taken back, and not redelivered yet.
func (l *lane) hasTakenBack(r *Record) bool {
	return l != nil && l.end != nil && comparePositions(r, l.end) > 0
}

func (l *lane) isBlocked() bool { return l.busy || l.holds > 0 }

// The records that were received and not handed out.
type queue struct {
	ordering  Ordering
	exclusive bool // At most one record of a scope is handled at a time.
	lanes     map[scope]*lane
	last      *lane // That of the record before, with its scope.
	lastScope scope
	ready     fifo[*lane]   // Not blocked, with records.
	free      fifo[*Record] // Records that have no scope.
}

// Returns the lane of the record's scope; nil: no retry of another record takes the record back.
func (q *queue) lane(r *Record) *lane {
	if q.ordering == Unordered || r.Redriven {
		return nil
	}
	at := scope{shardID: r.ShardID}
	if q.ordering == OrderByKey {
		at.number = r.laneNumber
	}
	if q.last == nil || q.lastScope != at {
		if q.lanes[at] == nil {
			q.lanes[at] = &lane{}
		}
		q.last, q.lastScope = q.lanes[at], at
	}
	return q.last
}

func (q *queue) push(r *Record) {
	if r.lane == nil {
		q.free.push(r)
		return
	}
	r.lane.queued.push(r)
	q.list(r.lane)
}

// Puts a record of a loop that was left before the later ones of its scope.
func (q *queue) putBack(r *Record) {
	queued := &q.free
	if r.lane != nil {
		queued = &r.lane.queued
	}
	at := slices.IndexFunc(queued.items[queued.first:], func(next *Record) bool {
		return r.lane == nil || comparePositions(next, r) > 0
	})
	if at < 0 {
		at = queued.len()
	}
	queued.items = slices.Insert(queued.items, queued.first+at, r)
	if r.lane != nil {
		q.list(r.lane)
	}
}

// Returns the next record that may be handed out, or nil.
func (q *queue) pop() *Record {
	if q.free.len() > 0 {
		return q.free.pop()
	}
	for q.ready.len() > 0 {
		l := q.ready.pop()
		l.listed = false
		if l.isBlocked() || l.queued.len() == 0 {
			continue
		}
		r := l.queued.pop()
		l.busy = q.exclusive
		q.list(l)
		return r
	}
	return nil
}

// Lists a lane of which a record may be handed out.
func (q *queue) list(l *lane) {
	if !l.listed && !l.isBlocked() && l.queued.len() > 0 {
		l.listed = true
		q.ready.push(l)
	}
}

// The handler of a record has returned.
func (q *queue) done(r *Record) {
	if r.lane != nil {
		r.lane.busy = false
		q.list(r.lane)
	}
}

// One retry less holds the lane.
func (q *queue) release(l *lane) {
	l.holds--
	q.list(l)
}

// Removes the records for which isGone returns true.
func (q *queue) remove(isGone func(*Record) bool) {
	q.free.remove(isGone)
	for _, l := range q.lanes {
		l.queued.remove(isGone)
	}
}

// Forgets the lanes of an empty queue: otherwise the lanes of ended shards would stay.
func (q *queue) forget() {
	for q.ready.len() > 0 {
		q.ready.pop().listed = false
	}
	maps.DeleteFunc(q.lanes, func(_ scope, l *lane) bool { return !l.isBlocked() })
	q.last = nil
}
