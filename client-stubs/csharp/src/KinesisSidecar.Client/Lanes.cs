// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;

namespace KinesisSidecar.Client
{
    /// <summary>
    /// The records that wait for the app, by scope: a lane of a shard, or with ordering by shard the whole shard. The
    /// lock of the consumer guards it.
    /// </summary>
    internal sealed class Lanes
    {
        private static readonly List<Record> None = new List<Record>();

        private readonly Dictionary<string, Dictionary<int, Lane>> _shards =
            new Dictionary<string, Dictionary<int, Lane>>();

        /// <summary>Of the records without order.</summary>
        private readonly Lane _unordered = new Lane(false);

        /// <summary>All lanes.</summary>
        private readonly List<Lane> _lanes = new List<Lane>();

        /// <summary>Lanes with a retry that is not resolved.</summary>
        private readonly HashSet<Lane> _held = new HashSet<Lane>();
        private readonly Queue<Lane> _ready = new Queue<Lane>();

        /// <summary>The records that a loop of the app has. Some have an outcome.</summary>
        private readonly List<Record> _withLoop = new List<Record>();

        /* Records of one shard come together. */
        private string _lastShardId;
        private Dictionary<int, Lane> _lastShard;

        internal Lanes()
        {
            _lanes.Add(_unordered);
        }

        /// <summary>Whether a lane may be ready.</summary>
        internal bool MayBeReady => _ready.Count > 0;

        /// <summary>Sets the lane of a record.</summary>
        internal void Assign(Record record, Ordering ordering)
        {
            record.Lane = ordering == Ordering.None || record.IsRedriven
                ? _unordered
                : LaneOf(record.ShardId, ordering == Ordering.Key ? record.LaneNumber : 0);
        }

        /// <summary>Adds a record that has a lane.</summary>
        internal void Add(Record record)
        {
            record.Lane.Waiting.Enqueue(record);
            List(record.Lane);
        }

        /// <summary>
        /// Notes a record that the stream brought. The sidecar delivers a lane in order: a redelivery that does not
        /// follow the last record shows that it took the records from this position on back, and redelivers them after
        /// this one. Returns those of them that wait, which are removed.
        /// </summary>
        internal List<Record> Deliver(Record record)
        {
            var last = record.Lane.Delivered;
            record.Lane.Delivered = record;
            bool isRedelivered = record.Attempt > 1 && record.Lane.IsOrdered && last != null;
            return isRedelivered && !record.IsAfter(last) ? TakeBackFrom(record, record.Lane) : None;
        }

        /// <summary>Takes the next record, or returns null. Exclusive: no other record of an ordered lane is taken
        /// until the lane is released. Otherwise a loop takes it.</summary>
        internal Record Take(bool exclusive)
        {
            if (_withLoop.Count > 0 && _withLoop[0].Outcome != Outcome.None)
                _withLoop.RemoveAll(record => record.Outcome != Outcome.None);
            while (_ready.Count > 0)
            {
                var lane = _ready.Dequeue();
                lane.IsListed = false;
                if (!lane.IsReady)
                    continue;
                var record = lane.Waiting.Dequeue();
                record.IsBegun = true;
                lane.IsBusy = exclusive && lane.IsOrdered;
                if (!exclusive)
                    _withLoop.Add(record);
                List(lane);
                return record;
            }
            return null;
        }

        /// <summary>Notes that no loop has a record.</summary>
        internal void EndLoop() => _withLoop.Clear();

        /// <summary>Puts a record that was taken back, before the later ones of its lane.</summary>
        internal void PutBack(Record record)
        {
            record.Lane.Insert(record);
            List(record.Lane);
        }

        internal void Release(Lane lane)
        {
            lane.IsBusy = false;
            List(lane);
        }

        /// <summary>Returns the hold that a retry puts on its lane, or null: without order nothing is taken
        /// back.</summary>
        internal Hold Hold(Record failed)
        {
            if (!failed.Lane.IsOrdered)
                return null;
            var hold = new Hold(failed);
            failed.Lane.Holds.Add(hold);
            _held.Add(failed.Lane);
            return hold;
        }

        /// <summary>Frees the lanes whose retries are all resolved. Returns the records that the sidecar took back with
        /// them.</summary>
        internal List<Record> Resolve(long barrierSeen)
        {
            var takenBack = new List<Record>();
            var free = new List<Lane>();
            foreach (var lane in _held)
            {
                if (!lane.Holds.TrueForAll(hold => hold.IsResolved(barrierSeen)))
                    continue;
                TakeBack(lane, record => lane.Holds.Exists(hold => hold.TakesBack(record)), takenBack);
                free.Add(lane);
            }
            free.ForEach(Free);
            return takenBack;
        }

        /// <summary>
        /// Resolves the retry whose record is redelivered, without its answer and its barrier: it takes back no record
        /// that arrives later. Returns the records that the sidecar took back with the retried one.
        /// </summary>
        internal List<Record> Confirm(Record redelivery)
        {
            var takenBack = new List<Record>();
            foreach (var hold in redelivery.Lane.Holds.FindAll(hold => hold.IsOf(redelivery)))
            {
                hold.IsAccepted = true;
                TakeBack(redelivery.Lane, hold.TakesBack, takenBack);
                hold.Barrier = 0;
            }
            return takenBack;
        }

        /// <summary>Forgets all retries: their session has ended.</summary>
        internal void ForgetHolds() => new List<Lane>(_held).ForEach(Free);

        /// <summary>Removes records that the app has not begun, and returns them.</summary>
        internal List<Record> Remove(Predicate<Record> which)
        {
            var removed = new List<Record>();
            foreach (var lane in _lanes)
                lane.Waiting.Remove(which, removed);
            return removed;
        }

        private List<Record> TakeBackFrom(Record redelivery, Lane lane)
        {
            var removed = new List<Record>();
            while (lane.Waiting.Count > 0 && !redelivery.IsAfter(lane.Waiting.Last))
                removed.Add(lane.Waiting.RemoveLast());
            MarkTakenBack(lane, record => !redelivery.IsAfter(record));
            return removed;
        }

        /// <summary>Takes records of the lane back: removes and notes those that wait, and marks those that a loop
        /// has.</summary>
        private void TakeBack(Lane lane, Predicate<Record> which, List<Record> removed)
        {
            lane.Waiting.Remove(which, removed);
            MarkTakenBack(lane, which);
        }

        private void MarkTakenBack(Lane lane, Predicate<Record> which)
        {
            foreach (var record in _withLoop)
                record.IsTakenBack |= record.Lane == lane && which(record);
        }

        private Lane LaneOf(string shardId, int number)
        {
            if (!ReferenceEquals(shardId, _lastShardId))
            {
                if (!_shards.TryGetValue(shardId, out _lastShard))
                    _shards[shardId] = _lastShard = new Dictionary<int, Lane>();
                _lastShardId = shardId;
            }
            if (!_lastShard.TryGetValue(number, out var lane))
            {
                _lastShard[number] = lane = new Lane(true);
                _lanes.Add(lane);
            }
            return lane;
        }

        private void Free(Lane lane)
        {
            lane.Holds.Clear();
            _held.Remove(lane);
            List(lane);
        }

        private void List(Lane lane)
        {
            if (lane.IsListed || !lane.IsReady)
                return;
            lane.IsListed = true;
            _ready.Enqueue(lane);
        }
    }
}
