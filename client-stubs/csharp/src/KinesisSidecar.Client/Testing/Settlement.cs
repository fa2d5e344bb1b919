// SPDX-License-Identifier: Apache-2.0
using System;

namespace KinesisSidecar.Client.Testing
{
    /// <summary>The outcome of one delivery.</summary>
    public sealed class Settlement
    {
        internal Settlement(Record record, Outcome outcome, string reason, TimeSpan delay)
        {
            Record = record;
            Outcome = outcome;
            Reason = reason;
            Delay = delay;
        }

        /// <summary>The record.</summary>
        public Record Record { get; }

        /// <summary>The outcome. The retry of the last attempt is a <see cref="Outcome.DeadLetter"/>.</summary>
        public Outcome Outcome { get; }

        /// <summary>The reason; empty if there is none.</summary>
        public string Reason { get; }

        /// <summary>The delay of a retry; zero: the back-off of the sidecar.</summary>
        public TimeSpan Delay { get; }
    }
}
