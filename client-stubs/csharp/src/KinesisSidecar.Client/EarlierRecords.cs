// SPDX-License-Identifier: Apache-2.0
using System.Collections.Generic;

namespace KinesisSidecar.Client
{
    /// <summary>
    /// The records of a session that may be unconfirmed, for their redeliveries. Some are confirmed: to collect all
    /// again now and then costs less than to remove each record that is confirmed. The lock of the consumer guards it.
    /// </summary>
    internal sealed class EarlierRecords
    {
        private readonly Dictionary<string, Record> _byIdentity = new Dictionary<string, Record>();
        private readonly int _collected;
        private long _addedBytes;

        /// <summary>Collects records. The last delivery of a record comes last.</summary>
        internal EarlierRecords(IEnumerable<Record> unconfirmed)
        {
            foreach (var record in unconfirmed)
                _byIdentity[record.Identity] = record;
            _collected = _byIdentity.Count;
        }

        internal int Count => _byIdentity.Count;

        /// <summary>Adds a record that has arrived since.</summary>
        internal void Add(Record record)
        {
            _byIdentity[record.Identity] = record;
            _addedBytes += record.DataSegment.Count;
        }

        /// <summary>Returns the last delivery that the app may have, or null.</summary>
        internal Record Find(string identity) => _byIdentity.TryGetValue(identity, out var record) ? record : null;

        /// <summary>Returns true if most of the records may be confirmed.</summary>
        internal bool IsOutgrown(int maxInFlight, long maxInFlightBytes) =>
            _byIdentity.Count > (2L * _collected) + maxInFlight || _addedBytes > maxInFlightBytes;
    }
}
