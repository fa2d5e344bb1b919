// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.Linq;
using System.Threading.Tasks;

namespace KinesisSidecar.Client.Tests
{
    /// <summary>A run in the background.</summary>
    internal sealed class RunningConsumer : IDisposable
    {
        private readonly ConcurrentQueue<string> _handled = new ConcurrentQueue<string>();

        internal RunningConsumer(Consumer consumer, Func<Record, Task> handler, int concurrency = 1)
        {
            Consumer = consumer;
            Run = consumer.RunAsync(
                (record, token) =>
                {
                    _handled.Enqueue(record.SequenceNumber);
                    return handler(record);
                },
                concurrency);
        }

        internal Consumer Consumer { get; }

        internal Task Run { get; }

        /// <summary>The sequence numbers of the records that handlers have begun.</summary>
        internal List<string> Handled => _handled.ToList();

        internal void UntilHandled(params int[] numbers)
        {
            string wanted = string.Join(" ", numbers.Select(number => 1000 + number));
            Eventually.Until("handled " + wanted, () => string.Join(" ", Handled) == wanted);
        }

        public void Dispose() => Consumer.Dispose();
    }
}
