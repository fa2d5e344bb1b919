// SPDX-License-Identifier: Apache-2.0
using System;
using System.Diagnostics;
using System.Threading;
using NUnit.Framework;

namespace KinesisSidecar.Client.Tests
{
    /// <summary>Waits for facts.</summary>
    internal static class Eventually
    {
        private static readonly TimeSpan Patience = TimeSpan.FromSeconds(60);

        internal static void Until(string what, Func<bool> fact)
        {
            var watch = Stopwatch.StartNew();
            while (!fact())
            {
                if (watch.Elapsed > Patience)
                    Assert.Fail("not in time: " + what);
                Thread.Sleep(10);
            }
        }
    }
}
