// SPDX-License-Identifier: Apache-2.0
#if NET8_0_OR_GREATER
using System;
using System.Collections.Generic;
using System.Runtime.CompilerServices;
using System.Threading;
using System.Threading.Tasks;

namespace KinesisSidecar.Client
{
    /* For await using. */
    public partial interface IConsumer : IAsyncDisposable
    {
        ValueTask IAsyncDisposable.DisposeAsync() => new ValueTask(CloseAsync());
    }

    /// <summary>Adds <c>await foreach</c>.</summary>
    public static class AsyncEnumeration
    {
        /// <summary>Hands out records until the consumer stops. Each is acknowledged when the next one is asked for,
        /// unless it has an outcome. Leaving the loop settles nothing: the next one hands its record out again, unless it
        /// has an outcome by then.</summary>
        /// <param name="consumer">The consumer.</param>
        /// <param name="cancellationToken">Ends the loop by an <see cref="OperationCanceledException"/>.</param>
        public static async IAsyncEnumerable<Record> ReadAllAsync(
            this IConsumer consumer,
            [EnumeratorCancellation] CancellationToken cancellationToken = default)
        {
            (consumer as ILoop)?.Begin();
            while (await consumer.NextAsync(cancellationToken).ConfigureAwait(false) is Record record)
                yield return record;
        }

        /// <summary>Hands out batches until the consumer stops. Each is acknowledged when the next one is asked for,
        /// unless its records have outcomes. Leaving the loop is as with <see cref="ReadAllAsync"/>.</summary>
        /// <param name="consumer">The consumer.</param>
        /// <param name="maxRecords">At least 1.</param>
        /// <param name="maxWait">From the first record on. Default: 1 s.</param>
        /// <param name="cancellationToken">Ends the loop by an <see cref="OperationCanceledException"/>.</param>
        public static async IAsyncEnumerable<Batch> ReadBatchesAsync(
            this IConsumer consumer,
            int maxRecords = 500,
            TimeSpan? maxWait = null,
            [EnumeratorCancellation] CancellationToken cancellationToken = default)
        {
            (consumer as ILoop)?.Begin();
            while (true)
            {
                var batch = await consumer.NextBatchAsync(maxRecords, maxWait, cancellationToken).ConfigureAwait(false);
                if (batch == null)
                    yield break;
                yield return batch;
            }
        }
    }
}
#endif
