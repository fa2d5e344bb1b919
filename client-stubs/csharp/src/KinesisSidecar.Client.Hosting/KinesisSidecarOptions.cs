// SPDX-License-Identifier: Apache-2.0
using System;

namespace KinesisSidecar.Client.Hosting
{
    /// <summary>The options of a hosted consumer.</summary>
    public sealed class KinesisSidecarOptions
    {
        /// <summary>How many handlers run at the same time.</summary>
        public int Concurrency { get; set; } = 1;

        /// <summary>The options of the consumer. Without <see cref="ConsumerOptions.OnEvent"/> its events are
        /// logged.</summary>
        public ConsumerOptions Consumer { get; } = new ConsumerOptions();

        /// <summary>Makes the consumer in place of <see cref="Client.Consumer"/>, for tests. May be null.</summary>
        public Func<IConsumer> MakeConsumer { get; set; }
    }
}
