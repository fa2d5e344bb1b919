// SPDX-License-Identifier: Apache-2.0
using System.Collections.Generic;

namespace KinesisSidecar.Client
{
    /// <summary>The records that the sidecar wrote under one batch_id. The lock of the consumer guards it.</summary>
    internal sealed class DeliveredBatch
    {
        internal DeliveredBatch(Record first, long generation, long sinceMs)
        {
            Id = first.BatchId;
            Epoch = first.Epoch;
            Generation = generation;
            SinceMs = sinceMs;
        }

        internal string Id { get; }

        /// <summary>The lease epoch of its records.</summary>
        internal long Epoch { get; }

        /// <summary>That of the session. In a later one its records cannot be settled.</summary>
        internal long Generation { get; }

        /// <summary>When its first record arrived.</summary>
        internal long SinceMs { get; }

        /// <summary>Includes records that were redelivered, and so are in a later batch, too.</summary>
        internal List<Record> Records { get; } = new List<Record>();

        /// <summary>Whether its connection or the lease of its shard is lost.</summary>
        internal bool IsLost { get; set; }

        /// <summary>Whether no further record of it comes.</summary>
        internal bool IsComplete { get; set; }

        /// <summary>Records without an outcome that the sidecar still waits for.</summary>
        internal int Open { get; set; }

        /// <summary>Records that were acknowledged. One that was redelivered counts in its later batch.</summary>
        internal int Acked { get; set; }

        /// <summary>Acknowledgements that are in no request.</summary>
        internal int Unsent { get; set; }

        /// <summary>When the oldest of them came.</summary>
        internal long UnsentSinceMs { get; set; }

        internal bool IsAcknowledgedWhole => IsComplete && Acked == Records.Count;

        /// <summary>Returns the records without an outcome.</summary>
        internal List<Record> OpenRecords() =>
            Records.FindAll(record => record.Batch == this && record.Outcome == Outcome.None);

        /// <summary>Returns the acknowledged records that are in no request.</summary>
        internal IEnumerable<Record> UnsentRecords()
        {
            foreach (var record in Records)
            {
                if (record.Batch == this && record.Outcome == Outcome.Ack && !record.IsSent)
                    yield return record;
            }
        }
    }
}
