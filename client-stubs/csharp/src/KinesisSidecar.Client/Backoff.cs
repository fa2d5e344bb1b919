// SPDX-License-Identifier: Apache-2.0
using System;

namespace KinesisSidecar.Client
{
    /// <summary>The waits between tries: 0.1 s, doubled up to 5 s, with jitter, and not less than the sidecar asks for.
    /// </summary>
    internal sealed class Backoff
    {
        private const int FirstMs = 100;
        private const int MaxMs = 5000;
        private const long MaxRetryAfterMs = 30000;

        private readonly Random _random = new Random(Guid.NewGuid().GetHashCode());
        private int _pauseMs = FirstMs;

        internal long Next(long retryAfterMs)
        {
            int pause = _random.Next(_pauseMs / 2, _pauseMs + 1);
            _pauseMs = Math.Min(_pauseMs * 2, MaxMs);
            return Math.Max(pause, Math.Min(retryAfterMs, MaxRetryAfterMs));
        }

        internal void Reset() => _pauseMs = FirstMs;
    }
}
