// SPDX-License-Identifier: Apache-2.0
using System.Diagnostics;

namespace KinesisSidecar.Client
{
    internal static class Clock
    {
        /// <summary>Milliseconds that never go back.</summary>
        internal static long NowMs => Stopwatch.GetTimestamp() / (Stopwatch.Frequency / 1000);
    }
}
