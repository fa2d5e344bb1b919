// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;

namespace KinesisSidecar.Client
{
    /// <summary>The settlements that wait to be sent. The lock of the consumer guards it.</summary>
    internal sealed class Outbox
    {
        private readonly long _ackIntervalMs;

        /// <summary>Batches with acknowledgements that are in no request, the one that waits longest first.</summary>
        private List<DeliveredBatch> _batches = new List<DeliveredBatch>();

        /// <summary>All other outcomes, with the hold of a retry. They leave at once.</summary>
        private readonly Queue<KeyValuePair<Record, Hold>> _others = new Queue<KeyValuePair<Record, Hold>>();
        private int _acks;
        private long _ackBytes;
        private bool _isUrgent;
        private long _lastBarrier;
        private long _lastRequest;

        internal Outbox(long ackIntervalMs)
        {
            _ackIntervalMs = ackIntervalMs;
        }

        internal bool HasOthers => _others.Count > 0;

        /// <summary>Adds an acknowledgement. Returns true if it is the only one.</summary>
        internal bool Add(Record record)
        {
            var batch = record.Batch;
            batch.Acked++;
            if (batch.Unsent++ == 0)
            {
                batch.UnsentSinceMs = Clock.NowMs;
                _batches.Add(batch);
            }
            _ackBytes += record.DataSegment.Count;
            return _acks++ == 0;
        }

        /// <summary>Removes an acknowledgement that is in no request. Its batch cannot be acknowledged whole any
        /// more.</summary>
        internal void Remove(Record record)
        {
            var batch = record.Batch;
            batch.Acked--;
            if (--batch.Unsent == 0)
                _batches.Remove(batch);
            _ackBytes -= record.DataSegment.Count;
            _acks--;
        }

        internal void Add(Record record, Hold hold) => _others.Enqueue(new KeyValuePair<Record, Hold>(record, hold));

        /// <summary>Has the acknowledgements leave at once.</summary>
        internal void Hurry() => _isUrgent = true;

        /// <summary>Whether half of what may be in flight waits here.</summary>
        internal bool IsHalfOf(int maxRecords, long maxBytes) => _acks * 2L >= maxRecords || _ackBytes * 2 >= maxBytes;

        /// <summary>Returns in how many milliseconds acknowledgements must leave.</summary>
        internal long DueMs(long nowMs)
        {
            if (_acks == 0)
                return long.MaxValue;
            return _isUrgent ? 0 : Math.Max(0, _batches[0].UnsentSinceMs + _ackIntervalMs - nowMs);
        }

        /// <summary>Returns the records whose settlements wait.</summary>
        internal IEnumerable<Record> Records()
        {
            foreach (var batch in _batches)
            {
                foreach (var record in batch.UnsentRecords())
                    yield return record;
            }
            foreach (var other in _others)
                yield return other.Key;
        }

        internal void Clear()
        {
            _batches.Clear();
            _others.Clear();
            _acks = 0;
            _ackBytes = 0;
            _isUrgent = false;
        }

        /// <summary>Takes outcomes that are not acknowledgements: a refusal of them must not take these
        /// along.</summary>
        internal SettleRequest TakeOthers(long generation)
        {
            var request = new SettleRequest(generation, ++_lastRequest);
            while (_others.Count > 0 && !request.IsFull)
            {
                var other = _others.Dequeue();
                request.Add(other.Key, other.Value);
                other.Key.SentIn = request.Number;
            }
            if (request.Holds.Count > 0)
                _lastBarrier++;
            foreach (var hold in request.Holds)
                hold.Barrier = _lastBarrier;
            return request;
        }

        /// <summary>
        /// Takes acknowledgements: batches that were acknowledged whole as one item each, and of the others those
        /// records that have waited. All: they need not have waited.
        /// </summary>
        internal SettleRequest TakeAcks(long generation, long nowMs, bool all)
        {
            var request = new SettleRequest(generation, ++_lastRequest);
            var left = new List<DeliveredBatch>();
            foreach (var batch in _batches)
            {
                bool hasWaited = all || _isUrgent || nowMs - batch.UnsentSinceMs >= _ackIntervalMs;
                if (hasWaited || batch.IsAcknowledgedWhole)
                    Take(batch, request);
                if (batch.Unsent > 0)
                    left.Add(batch);
            }
            _batches = left;
            _isUrgent &= _acks > 0;
            return request;
        }

        private void Take(DeliveredBatch batch, SettleRequest request)
        {
            if (request.IsFull)
                return;
            bool isWhole = batch.IsAcknowledgedWhole;
            if (isWhole)
                request.AddAck(batch);
            foreach (var record in batch.UnsentRecords())
            {
                if (isWhole)
                    request.Records.Add(record);
                else if (!request.IsFull)
                    request.Add(record, null);
                else
                    return;
                record.SentIn = request.Number;
                batch.Unsent--;
                _acks--;
                _ackBytes -= record.DataSegment.Count;
            }
        }
    }
}
