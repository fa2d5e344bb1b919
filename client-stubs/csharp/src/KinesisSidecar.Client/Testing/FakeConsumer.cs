// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.Linq;
using System.Text;
using System.Threading;
using System.Threading.Tasks;

namespace KinesisSidecar.Client.Testing
{
    /// <summary>
    /// A consumer without a sidecar, for the tests of an app. It hands out the records of the test in order, and ends
    /// when none is left. A retried record is delivered again at once, with the next attempt.
    /// </summary>
    /// <example>
    /// <code>
    /// var consumer = new FakeConsumer();
    /// consumer.Add("customer-7", "{\"total\": 12}");
    /// await app.ConsumeAsync(consumer);
    /// Assert.AreEqual(Outcome.Ack, consumer.Settlements.Single().Outcome);
    /// </code>
    /// </example>
    public sealed class FakeConsumer : IConsumer, ILoop, IRecordOwner
    {
        private readonly object _lock = new object();
        private readonly CancellationTokenSource _stopping = new CancellationTokenSource();
        private readonly LinkedList<Record> _waiting = new LinkedList<Record>();
        private readonly List<Settlement> _settlements = new List<Settlement>();
        private readonly int _maxAttempts;
        private long _added;
        private Record _previous;
        private Batch _previousBatch;

        /// <summary>Makes a consumer without records.</summary>
        /// <param name="maxAttempts">The retry of this attempt makes the record a dead letter.</param>
        public FakeConsumer(int maxAttempts = 3)
        {
            _maxAttempts = maxAttempts;
        }

        /// <summary>The outcomes of all deliveries, in the order in which they were given.</summary>
        public IReadOnlyList<Settlement> Settlements
        {
            get
            {
                lock (_lock)
                    return _settlements.ToArray();
            }
        }

        /// <inheritdoc/>
        public long Stale => 0;

        /// <inheritdoc/>
        public long Failed => 0;

        /// <summary>Adds a record.</summary>
        /// <param name="partitionKey">The partition key.</param>
        /// <param name="data">The data as text.</param>
        /// <returns>The record.</returns>
        public Record Add(string partitionKey, string data) => Add(partitionKey, Encoding.UTF8.GetBytes(data));

        /// <summary>Adds a record.</summary>
        /// <param name="partitionKey">The partition key.</param>
        /// <param name="data">The data.</param>
        /// <param name="sequenceNumber">Null: the number of the record in this consumer.</param>
        /// <param name="subSequenceNumber">The place in a KPL aggregate.</param>
        /// <returns>The record.</returns>
        public Record Add(string partitionKey, byte[] data, string sequenceNumber = null, long subSequenceNumber = 0)
        {
            lock (_lock)
            {
                string number = sequenceNumber ?? (++_added).ToString();
                var record = Make(partitionKey, data, number, subSequenceNumber, 1);
                _waiting.AddLast(record);
                return record;
            }
        }

        /// <inheritdoc/>
        public async Task RunAsync(
            Func<Record, CancellationToken, Task> handler,
            int concurrency = 1,
            CancellationToken cancellationToken = default)
        {
            using (cancellationToken.Register(Stop))
            {
                while (Take() is Record record)
                {
                    try
                    {
                        await handler(record, _stopping.Token).ConfigureAwait(false);
                        record.Ack();
                    }
                    catch (OperationCanceledException) when (_stopping.IsCancellationRequested)
                    {
                        return;
                    }
                    catch (Exception failure)
                    {
                        record.Retry(null, failure.GetType().Name + ": " + failure.Message);
                    }
                }
            }
        }

        /// <inheritdoc/>
        public Task<Record> NextAsync(CancellationToken cancellationToken = default)
        {
            _previous?.Ack();
            _previous = Take();
            return Task.FromResult(_previous);
        }

        /// <inheritdoc/>
        public Task<Batch> NextBatchAsync(
            int maxRecords = 500,
            TimeSpan? maxWait = null,
            CancellationToken cancellationToken = default)
        {
            _previousBatch?.Ack();
            var records = new List<Record>();
            while (records.Count < maxRecords && Take() is Record record)
                records.Add(record);
            _previousBatch = records.Count > 0 ? new Batch(records) : null;
            return Task.FromResult(_previousBatch);
        }

        void ILoop.Begin()
        {
            var left = new List<Record>(_previousBatch ?? Enumerable.Empty<Record>());
            if (_previous != null)
                left.Add(_previous);
            _previous = null;
            _previousBatch = null;
            left.Reverse();
            lock (_lock)
                left.FindAll(record => record.Outcome == Outcome.None).ForEach(record => _waiting.AddFirst(record));
        }

        /// <inheritdoc/>
        public void Stop() => _stopping.Cancel();

        /// <inheritdoc/>
        public Task CloseAsync()
        {
            Stop();
            return Task.CompletedTask;
        }

        /// <summary>Stops.</summary>
        public void Dispose() => Stop();

        void IRecordOwner.Settle(Record record, Outcome outcome, long delayMs, string reason)
        {
            lock (_lock)
            {
                if (record.Outcome != Outcome.None)
                    return;
                record.Outcome = outcome;
                bool isLast = record.Attempt >= _maxAttempts;
                if (outcome == Outcome.Retry && !isLast)
                {
                    int attempt = record.Attempt + 1;
                    _waiting.AddFirst(Make(
                        record.PartitionKey, record.Data, record.SequenceNumber, record.SubSequenceNumber, attempt));
                }
                _settlements.Add(new Settlement(
                    record,
                    outcome == Outcome.Retry && isLast ? Outcome.DeadLetter : outcome,
                    reason ?? "",
                    TimeSpan.FromMilliseconds(delayMs)));
            }
        }

        Task<bool> IRecordOwner.AckPersistedAsync(Record record)
        {
            record.Ack();
            return Task.FromResult(record.Outcome == Outcome.Ack);
        }

        void IRecordOwner.Extend(Record record, long durationMs)
        {
            /* A fake delivery has no deadline. */
        }

        private Record Take()
        {
            lock (_lock)
            {
                if (_stopping.IsCancellationRequested || _waiting.Count == 0)
                    return null;
                var record = _waiting.First();
                _waiting.RemoveFirst();
                return record;
            }
        }

        private Record Make(
            string partitionKey, byte[] data, string sequenceNumber, long subSequenceNumber, int attempt)
        {
            byte[] message = new WireWriter()
                .Text(RecordFields.Stream, "fake")
                .Number(RecordFields.Epoch, 1)
                .Text(RecordFields.SequenceNumber, sequenceNumber)
                .Number(RecordFields.SubSequenceNumber, subSequenceNumber)
                .Text(RecordFields.PartitionKey, partitionKey)
                .Number(RecordFields.ArrivedAt, 1767225600000)
                .ToArray();
            return new Record(
                this, message, 0, message.Length, new ArraySegment<byte>(data), "fake", "shardId-000000000000")
            {
                Attempt = attempt,
            };
        }
    }
}
