// SPDX-License-Identifier: Apache-2.0
using System.Collections.Generic;
using System.Text;

namespace KinesisSidecar.Client
{
    /// <summary>One settle request.</summary>
    internal sealed class SettleRequest
    {
        private const int MaxItems = 1000;

        /// <summary>The sidecar takes 1 MiB. A character has up to 3 bytes.</summary>
        private const int MaxCharacters = 256 << 10;

        /// <summary>Characters. The sidecar keeps 1000 bytes.</summary>
        private const int MaxReason = 1000;

        /// <summary>The ack_ids of its retries.</summary>
        private readonly HashSet<string> _retries = new HashSet<string>();

        private readonly StringBuilder _json = new StringBuilder("{\"settlements\":[");

        internal SettleRequest(long generation, long number)
        {
            Generation = generation;
            Number = number;
        }

        /// <summary>The generation of the session that all items belong to.</summary>
        internal long Generation { get; }

        /// <summary>Counts the requests that have outcomes, from 1. 0: the request extends ack deadlines.</summary>
        internal long Number { get; }

        /// <summary>Whether it extends ack deadlines, so that failures of its items are ignored.</summary>
        internal bool IsExtension => Number == 0;

        /// <summary>The records whose outcomes are in it.</summary>
        internal List<Record> Records { get; } = new List<Record>();

        internal List<Hold> Holds { get; } = new List<Hold>();

        internal int Count { get; private set; }

        internal bool IsFull => Count >= MaxItems || _json.Length >= MaxCharacters;

        /// <summary>Adds a batch whose records are all acknowledged. The caller adds the records.</summary>
        internal void AddAck(DeliveredBatch batch) => AddItem("batch_id", batch.Id, "ack", 0, null);

        /// <summary>Adds the outcome of a record. The hold is that of a retry, or null.</summary>
        internal void Add(Record record, Hold hold)
        {
            AddItem("ack_id", record.AckId, WordOf(record.Outcome), record.DelayMs, record.Reason);
            Records.Add(record);
            if (record.Outcome == Outcome.Retry)
                _retries.Add(record.AckId);
            if (hold != null)
                Holds.Add(hold);
        }

        internal void AddExtension(DeliveredBatch batch, long durationMs) =>
            AddItem("batch_id", batch.Id, "extend", durationMs, null);

        internal void AddExtension(Record record, long durationMs) =>
            AddItem("ack_id", record.AckId, "extend", durationMs, null);

        /// <summary>
        /// Returns true if a failure in the answer counts as a refusal. A retry counts as accepted if the sidecar
        /// redelivers its record: it took an earlier copy, the ack deadline has passed, or the lease was lost.
        /// </summary>
        internal bool IsRefused(ConsumerEvent failure)
        {
            string reason = failure.Text("reason");
            bool isRedelivered = reason == "EXPIRED" || reason == "FENCED";
            return !(isRedelivered && _retries.Contains(failure.Text("ack_id")));
        }

        /// <summary>Returns the body. A request that holds a lane has a barrier.</summary>
        internal string ToJson()
        {
            string barrier = Holds.Count > 0 ? "],\"barrier\":\"" + Holds[0].Barrier + "\"}" : "]}";
            return _json + barrier;
        }

        private void AddItem(string idName, string id, string outcome, long delayMs, string reason)
        {
            _json.Append(Count++ > 0 ? ",{\"" : "{\"").Append(idName).Append("\":\"").Append(id)
                .Append("\",\"outcome\":\"").Append(outcome).Append('"');
            if (delayMs > 0)
                _json.Append(",\"delay_ms\":").Append(delayMs);
            if (!string.IsNullOrEmpty(reason))
            {
                _json.Append(",\"reason\":");
                Json.Quote(_json, reason.Length > MaxReason ? reason.Substring(0, MaxReason) : reason);
            }
            _json.Append('}');
        }

        private static string WordOf(Outcome outcome)
        {
            switch (outcome)
            {
                case Outcome.Ack:
                    return "ack";
                case Outcome.Retry:
                    return "retry";
                case Outcome.DeadLetter:
                    return "dead_letter";
                default:
                    return "drop";
            }
        }
    }
}
