// SPDX-License-Identifier: Apache-2.0
using System.Threading.Tasks;

namespace KinesisSidecar.Client
{
    /// <summary>Takes the outcomes of records.</summary>
    internal interface IRecordOwner
    {
        /// <summary>Sets the outcome, unless the record has one.</summary>
        void Settle(Record record, Outcome outcome, long delayMs, string reason);

        /// <summary>Acknowledges, and returns whether the checkpoint covers the record.</summary>
        Task<bool> AckPersistedAsync(Record record);

        void Extend(Record record, long durationMs);
    }
}
