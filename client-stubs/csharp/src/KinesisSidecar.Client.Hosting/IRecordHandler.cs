// SPDX-License-Identifier: Apache-2.0
using System.Threading;
using System.Threading.Tasks;

namespace KinesisSidecar.Client.Hosting
{
    /// <summary>Handles records. Each record gets a handler from a service scope of its own.</summary>
    public interface IRecordHandler
    {
        /// <summary>Handles a record. The task completes: the record is acknowledged. It fails: the record is retried.
        /// </summary>
        /// <param name="record">The record. The handler may settle it itself.</param>
        /// <param name="cancellationToken">Is cancelled when the host stops.</param>
        Task HandleAsync(Record record, CancellationToken cancellationToken);
    }
}
