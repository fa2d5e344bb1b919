// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections;
using System.Collections.Generic;

namespace KinesisSidecar.Client
{
    /// <summary>Records in the order of delivery.</summary>
    public sealed class Batch : IReadOnlyList<Record>
    {
        private readonly List<Record> _records;

        internal Batch(List<Record> records)
        {
            _records = records;
        }

        /// <summary>The number of records, at least 1.</summary>
        public int Count => _records.Count;

        /// <summary>Returns a record by its place, from 0.</summary>
        public Record this[int index] => _records[index];

        /// <summary>Acknowledges the records that have no outcome.</summary>
        public void Ack()
        {
            foreach (var record in _records)
                record.Ack();
        }

        /// <summary>Retries the records that have no outcome.</summary>
        /// <param name="delay">The least time until the redelivery; null: the back-off of the sidecar.</param>
        /// <param name="reason">For people.</param>
        public void Retry(TimeSpan? delay = null, string reason = "")
        {
            /* A retry takes the later records of its lane back. A retry of them would be refused afterwards. */
            for (int i = _records.Count - 1; i >= 0; i--)
                _records[i].Retry(delay, reason);
        }

        /// <summary>Returns the records.</summary>
        public IEnumerator<Record> GetEnumerator() => _records.GetEnumerator();

        IEnumerator IEnumerable.GetEnumerator() => GetEnumerator();
    }
}
