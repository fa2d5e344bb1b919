// SPDX-License-Identifier: Apache-2.0
using System;
using System.Threading;
using System.Threading.Tasks;

namespace KinesisSidecar.Client
{
    /// <summary>
    /// Receives records and settles them. A consumer is used in one way only: <see cref="RunAsync"/>,
    /// <see cref="NextAsync"/> or <see cref="NextBatchAsync"/>, by one caller at a time.
    /// <see cref="Consumer"/> reads from a sidecar, <see cref="Testing.FakeConsumer"/> from a test.
    /// </summary>
    public partial interface IConsumer : IDisposable
    {
        /// <summary>Settlements whose session had ended. Their records are redelivered.</summary>
        long Stale { get; }

        /// <summary>Settlements that the sidecar refused one by one.</summary>
        long Failed { get; }

        /// <summary>
        /// Calls the handler with each record until <see cref="Stop"/> or the cancellation of the token. Then waits for
        /// the running handlers, sends the acknowledgements, closes the session, and returns.
        /// </summary>
        /// <param name="handler">Its task completes: the record is acknowledged. Its task fails: the record is retried.
        /// The handler may settle the record itself; the first outcome counts. Its token is cancelled when the run
        /// stops. A handler that ends by this cancellation gives its record back.</param>
        /// <param name="concurrency">How many handlers run at the same time. Above 1 the records of one lane are
        /// handled one after the other.</param>
        /// <param name="cancellationToken">Stops the run. The run then ends without an exception.</param>
        /// <exception cref="SidecarException">The sidecar refused a request.</exception>
        /// <exception cref="SessionTakenOverException">Another process uses the client id.</exception>
        Task RunAsync(
            Func<Record, CancellationToken, Task> handler,
            int concurrency = 1,
            CancellationToken cancellationToken = default);

        /// <summary>Acknowledges the record before, unless it has an outcome, and waits for the next one.</summary>
        /// <param name="cancellationToken">Ends the wait. No record is lost.</param>
        /// <returns>The next record; null after <see cref="Stop"/>.</returns>
        /// <exception cref="SidecarException">The sidecar refused a request.</exception>
        /// <exception cref="SessionTakenOverException">Another process uses the client id.</exception>
        Task<Record> NextAsync(CancellationToken cancellationToken = default);

        /// <summary>
        /// Acknowledges the records of the batch before that have no outcome, and waits for up to
        /// <paramref name="maxRecords"/> records, and no longer than <paramref name="maxWait"/> after the first one.
        /// </summary>
        /// <param name="maxRecords">At least 1.</param>
        /// <param name="maxWait">Default: 1 s.</param>
        /// <param name="cancellationToken">Ends the wait. No record is lost.</param>
        /// <returns>The next batch; null after <see cref="Stop"/>.</returns>
        /// <exception cref="SidecarException">The sidecar refused a request.</exception>
        /// <exception cref="SessionTakenOverException">Another process uses the client id.</exception>
        Task<Batch> NextBatchAsync(
            int maxRecords = 500,
            TimeSpan? maxWait = null,
            CancellationToken cancellationToken = default);

        /// <summary>Ends the run or the iteration, from any thread: no further record is handed out.</summary>
        void Stop();

        /// <summary>
        /// Stops, waits for the running handlers, sends what waits, and ends the session: the sidecar redelivers the
        /// records without an outcome at once. A handler calls <see cref="Stop"/> instead.
        /// </summary>
        Task CloseAsync();
    }
}
