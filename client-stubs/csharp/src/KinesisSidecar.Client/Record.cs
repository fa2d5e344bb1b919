// SPDX-License-Identifier: Apache-2.0
using System;
using System.Threading.Tasks;

namespace KinesisSidecar.Client
{
    /// <summary>
    /// One record. Any thread may settle it. Its outcome is final: further calls do nothing. No call fails for a record
    /// whose session has ended; <see cref="IConsumer.Stale"/> counts such calls.
    /// </summary>
    public sealed class Record
    {
        private const long MaxDelayMs = 43200000;

        private readonly IRecordOwner _owner;

        /* The message stays as it was read. Most fields are decoded when the app asks for them. */
        private readonly byte[] _bytes;
        private readonly int _begin;
        private readonly int _end;
        private byte[] _data;
        private string _ackId;
        private string _sequenceNumber;
        private string _partitionKey;

        internal Record(
            IRecordOwner owner,
            byte[] bytes,
            int begin,
            int end,
            ArraySegment<byte> data,
            string batchId,
            string shardId)
        {
            _owner = owner;
            _bytes = bytes;
            _begin = begin;
            _end = end;
            DataSegment = data;
            BatchId = batchId;
            ShardId = shardId;
        }

        /// <summary>The data as they were put.</summary>
        public byte[] Data => _data ?? (_data = Copy(DataSegment));

        /// <summary>The data without a copy. They share their memory, 64 KiB, with the records that were received
        /// together. The app must not change them.</summary>
        public ArraySegment<byte> DataSegment { get; }

        /// <summary>The partition key.</summary>
        public string PartitionKey => _partitionKey ?? (_partitionKey = Text(RecordFields.PartitionKey));

        /// <summary>The stream: the name or the ARN that the sidecar was started with.</summary>
        public string Stream => Text(RecordFields.Stream);

        /// <summary>The shard id.</summary>
        public string ShardId { get; }

        /// <summary>A decimal number of up to 129 digits. Compare it as a number, or by length and then as
        /// text.</summary>
        public string SequenceNumber =>
            _sequenceNumber ?? (_sequenceNumber = Text(RecordFields.SequenceNumber));

        /// <summary>The place in a KPL aggregate, from 0; 0 if the record came in none.</summary>
        public long SubSequenceNumber => Number(RecordFields.SubSequenceNumber);

        /// <summary>The lease epoch: one span of holding the shard. 0 if the record is redriven.</summary>
        public long Epoch => Number(RecordFields.Epoch);

        /// <summary>The number of the delivery in its lease epoch, from 1.</summary>
        public int Attempt { get; internal set; }

        /// <summary>The approximate arrival; null if it is not known.</summary>
        public DateTimeOffset? ArrivedAt
        {
            get
            {
                long milliseconds = Number(RecordFields.ArrivedAt);
                bool isKnown = milliseconds > 0 && milliseconds <= DateTimeOffset.MaxValue.ToUnixTimeMilliseconds();
                return isKnown ? DateTimeOffset.FromUnixTimeMilliseconds(milliseconds) : (DateTimeOffset?)null;
            }
        }

        /// <summary>Whether it is a KPL aggregate that could not be taken apart.</summary>
        public bool IsAggregated => Number(RecordFields.Aggregated) != 0;

        /// <summary>Whether it is a dead letter that is delivered again.</summary>
        public bool IsRedriven { get; internal set; }

        /// <summary>The outcome that was given first.</summary>
        public Outcome Outcome { get; internal set; }

        /// <summary>Settles the last delivery of the record.</summary>
        internal string AckId
        {
            get => _ackId ?? (_ackId = Text(RecordFields.AckId));
            set => _ackId = value;
        }

        internal string BatchId { get; }

        internal int LaneNumber { get; set; }

        /// <summary>The same for every delivery of the record.</summary>
        internal string Identity => ShardId + " " + SequenceNumber + " " + SubSequenceNumber + " " + IsRedriven;

        /* The lock of the consumer guards the members below. */

        /// <summary>The batch of the last delivery.</summary>
        internal DeliveredBatch Batch { get; set; }

        /// <summary>When the first delivery that the app has arrived.</summary>
        internal long SinceMs { get; set; }

        internal Lane Lane { get; set; }

        /// <summary>The last barrier before the last delivery.</summary>
        internal long BarrierSeen { get; set; }

        /// <summary>Whether the app has got the record.</summary>
        internal bool IsBegun { get; set; }

        /// <summary>Whether the sidecar took it back after a loop of the app had taken it.</summary>
        internal bool IsTakenBack { get; set; }

        /// <summary>Whether the app has given it back and gets it in the place of its redelivery.</summary>
        internal bool IsAwaited { get; set; }

        /// <summary>The number of the request that has its outcome; 0: none.</summary>
        internal long SentIn { get; set; }

        /// <summary>Whether its outcome is in a request.</summary>
        internal bool IsSent => SentIn > 0;

        /// <summary>Of the outcome; 0: none.</summary>
        internal long DelayMs { get; set; }

        /// <summary>Of the outcome; may be null.</summary>
        internal string Reason { get; set; }

        /// <summary>Acknowledges the record.</summary>
        public void Ack() => _owner.Settle(this, Outcome.Ack, 0, null);

        /// <summary>
        /// Acknowledges the record, and waits up to 10 s until the checkpoint in the lease table covers it.
        /// </summary>
        /// <returns>Whether the checkpoint covers the record. If it does not, the record is acknowledged all the
        /// same.</returns>
        public Task<bool> AckPersistedAsync() => _owner.AckPersistedAsync(this);

        /// <summary>Has the record and the later records of its shard redelivered; with
        /// <see cref="Ordering.Key"/> those of its lane.</summary>
        /// <param name="delay">The least time until the redelivery; null: the back-off of the sidecar.</param>
        /// <param name="reason">For people. The sidecar keeps 1000 bytes of it.</param>
        public void Retry(TimeSpan? delay = null, string reason = "") =>
            _owner.Settle(this, Outcome.Retry, Milliseconds(delay ?? TimeSpan.Zero, 0, nameof(delay)), reason);

        /// <summary>Gives the record up and keeps it as a dead letter.</summary>
        /// <param name="reason">For people. The sidecar keeps 1000 bytes of it.</param>
        public void DeadLetter(string reason = "") => _owner.Settle(this, Outcome.DeadLetter, 0, reason);

        /// <summary>Gives the record up.</summary>
        public void Drop() => _owner.Settle(this, Outcome.Drop, 0, null);

        /// <summary>Moves the ack deadline.</summary>
        /// <param name="duration">From now, up to 12 h.</param>
        public void Extend(TimeSpan duration) => _owner.Extend(this, Milliseconds(duration, 1, nameof(duration)));

        /// <summary>Returns the shard, the sequence number and the attempt.</summary>
        public override string ToString() => "record " + ShardId + " " + SequenceNumber + " attempt " + Attempt;

        /// <summary>Returns true if the record is later in its shard. Sequence numbers have no leading zeros.</summary>
        internal bool IsAfter(Record other)
        {
            int order = SequenceNumber.Length.CompareTo(other.SequenceNumber.Length);
            if (order == 0)
                order = string.CompareOrdinal(SequenceNumber, other.SequenceNumber);
            return order > 0 || (order == 0 && SubSequenceNumber > other.SubSequenceNumber);
        }

        private static byte[] Copy(ArraySegment<byte> segment)
        {
            var copy = new byte[segment.Count];
            Buffer.BlockCopy(segment.Array, segment.Offset, copy, 0, copy.Length);
            return copy;
        }

        private string Text(int field) => Wire.FindText(_bytes, _begin, _end, field);

        private long Number(int field) => Wire.FindNumber(_bytes, _begin, _end, field);

        private static long Milliseconds(TimeSpan duration, long least, string name)
        {
            double milliseconds = duration.TotalMilliseconds;
            if (milliseconds < least || milliseconds > MaxDelayMs)
                throw new ArgumentOutOfRangeException(name, name + " must be " + least + "ms..12h, got " + duration);
            return (long)milliseconds;
        }
    }
}
