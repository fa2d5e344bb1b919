// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;

namespace KinesisSidecar.Client
{
    /// <summary>The options of a consumer. The consumer copies them.</summary>
    public sealed class ConsumerOptions
    {
        /// <summary><c>http://HOST:PORT</c> or <c>unix:/PATH</c>. Null: the environment variable
        /// <c>KINESIS_SIDECAR_URL</c>, else <c>http://127.0.0.1:8990</c>.</summary>
        public string Url { get; set; }

        /// <summary>File with the bearer token of apps. It is read for each request. Null: the environment variable
        /// <c>KINESIS_SIDECAR_TOKEN_FILE</c>, else no token.</summary>
        public string TokenFile { get; set; }

        /// <summary>Name of the subscription; needed if the sidecar has several.</summary>
        public string Subscription { get; set; }

        /// <summary>Shard ids to read. Null: all.</summary>
        public IReadOnlyCollection<string> Shards { get; set; }

        /// <summary>Maximum records delivered and not settled.</summary>
        public int MaxInFlight { get; set; } = 1000;

        /// <summary>Maximum bytes of data and partition keys delivered and not settled.</summary>
        public long MaxInFlightBytes { get; set; } = 16 << 20;

        /// <summary>A record that is not settled and not extended by then is redelivered.</summary>
        public TimeSpan AckDeadline { get; set; } = TimeSpan.FromSeconds(60);

        /// <summary>How long the package extends the ack deadline of a record that the app has.</summary>
        public TimeSpan MaxProcessing { get; set; } = TimeSpan.FromHours(1);

        /// <summary>How long an acknowledgement waits for others, to share a request with them.</summary>
        public TimeSpan AckInterval { get; set; } = TimeSpan.FromMilliseconds(100);

        /// <summary>The records that stay in order. Null: <see cref="Client.Ordering.Shard"/>; with a
        /// <see cref="Share"/> or a concurrency above 1 <see cref="Client.Ordering.Key"/>.</summary>
        public Ordering? Ordering { get; set; }

        /// <summary>Lanes of a shard, 1 to 64, with <see cref="Client.Ordering.Key"/>. Null: 64.</summary>
        public int? Lanes { get; set; }

        /// <summary>Part of the partition keys to read, a decimal like <c>"0.05"</c>. Consumers without a share get all
        /// other keys; they must have the same <see cref="Ordering"/> and <see cref="Lanes"/>. Null: none.</summary>
        public string Share { get; set; }

        /// <summary>Chooses which keys are in the <see cref="Share"/>: another salt, other keys.</summary>
        public string Salt { get; set; }

        /// <summary>Pattern of the records to read, as JSON. All other records count as settled. All open consumers of
        /// a subscription have the same filter. Null: none.</summary>
        public string Filter { get; set; }

        /// <summary>
        /// Is called with every control event of the stream, with <c>disconnected</c> and with <c>settle_failed</c>, by
        /// the threads of the consumer. An exception of it ends the consumer.
        /// </summary>
        public Action<ConsumerEvent> OnEvent { get; set; }
    }
}
